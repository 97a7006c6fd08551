"""What the engine really does at a limit: the SDK and its bundled CLI, measured.

Why a limit is kept by a hook between two steps and by the number of model turns, and not by the
CLI's own budget. Nothing of ours runs but the scripted model.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeSDKClient, HookMatcher, InMemorySessionStore, ResultMessage

from agent_runner.messages_api import Answer, MessagesServer, Request, Script, ToolResult
from tests.fakes.engine_desk import (
    HANG,
    Desk,
    Hook,
    Turn,
    allow,
    bash,
    by_id,
    can_allow,
    defer,
    deny,
    says,
)

pytestmark = pytest.mark.engine

NewDesk = Callable[[Script], Desk]
DONE = "(Bash completed with no output)"
PRICE = 0.6
"""What one answer of `dear` costs, in dollars, as the CLI reckons."""
STEPS = [[bash(f"toolu_{n}", f"echo {n} >> x.txt")] for n in (1, 2, 3, 4)]


@pytest.fixture
def new_desk(tmp_path: Path) -> Iterator[NewDesk]:
    """Makes desks; their servers end with the test, and a script's bug fails it."""
    with contextlib.ExitStack() as stack:
        desks: list[Desk] = []

        def new(script: Script) -> Desk:
            server = stack.enter_context(MessagesServer(script))
            desks.append(Desk(server, tmp_path / f"desk-{len(desks)}"))
            return desks[-1]

        yield new
        assert [failure for desk in desks for failure in desk.server.failures] == []


def dear(script: Script) -> Script:
    """The same model at `PRICE` an answer."""

    def answered(request: Request) -> Answer:
        blocks: Any = script(request)
        return Answer(blocks, input_tokens=100_000, output_tokens=10_000)

    return answered


def stopping(desk: Desk, hook: Hook, asked: list[Any]) -> dict[str, Any]:
    """Hooks that let calls be ruled on, and end the run after each round of them."""

    async def after(data: Any, _tool_use_id: str | None, _context: Any) -> Any:
        asked.append(sorted(call["tool_use_id"] for call in data["tool_calls"]))
        return {"continue_": False, "stopReason": "enough"}

    first = HookMatcher(hooks=[desk.first_lock(hook)], timeout=60)
    return {"PreToolUse": [first], "PostToolBatch": [HookMatcher(hooks=[after], timeout=60)]}


def ended(turn: Turn) -> tuple[str, str | None, str | None]:
    """How a run ended, in the CLI's words."""
    return turn.result.subtype, turn.result.terminal_reason, turn.result.stop_reason


def test_at_the_last_model_turn_the_calls_run_and_the_session_goes_on(new_desk: NewDesk) -> None:
    """`max_turns` counts the model calls of one run: the last one's calls have results, a prompt goes on."""
    desk = new_desk(says(*STEPS))
    store = InMemorySessionStore()
    options: dict[str, Any] = {"hook": allow, "can": can_allow, "session_store": store, "max_turns": 2}
    turn = desk.turn("go", **options)
    assert ended(turn) == ("error_max_turns", "max_turns", "tool_use")
    assert (len(desk.server.calls), desk.read("x.txt")) == (2, "1\n2\n")
    again = desk.turn("go on", resume=turn.session_id, config="other", **options)
    assert ended(again) == ("error_max_turns", "max_turns", "tool_use")
    assert (len(desk.server.calls), desk.read("x.txt")) == (4, "1\n2\n3\n4\n")
    assert [desk.told(f"toolu_{n}") for n in (1, 2)] == [ToolResult(f"toolu_{n}", DONE) for n in (1, 2)]


def test_at_the_last_model_turn_a_deferral_goes_first(new_desk: NewDesk) -> None:
    """The run ends as deferred and not as limited, and its resume counts anew."""
    desk = new_desk(says(*STEPS))
    turn = desk.turn("go", hook=defer, max_turns=1)
    assert (turn.result.stop_reason, len(desk.server.calls)) == ("tool_deferred", 1)
    again = desk.turn(hook=allow, can=can_allow, max_turns=1, resume=turn.session_id)
    assert (ended(again)[0], desk.read("x.txt")) == ("error_max_turns", "1\n2\n")


def test_the_clis_own_budget_loses_a_deferred_call(new_desk: NewDesk) -> None:
    """Why `max_budget_usd` is not used: the hook deferred, the run reports no deferral, a replay hangs."""
    desk = new_desk(dear(says(*STEPS)))
    turn = desk.turn("go", hook=defer, max_budget_usd=PRICE / 2)
    assert ended(turn) == ("error_max_budget_usd", "budget_exhausted", "tool_use")
    assert (desk.locks("toolu_1"), turn.deferred, desk.read("x.txt")) == (["hook"], None, None)
    with pytest.raises(TimeoutError):
        desk.turn(hook=allow, can=can_allow, resume=turn.session_id, within=3.0)


CASES: dict[str, tuple[list[Any], Hook, dict[str, ToolResult], str | None]] = {
    "two that run": (
        [bash("toolu_a", "echo a >> x.txt"), bash("toolu_b", "sleep 0.5; echo b >> x.txt")],
        allow,
        {"toolu_a": ToolResult("toolu_a", DONE), "toolu_b": ToolResult("toolu_b", DONE)},
        "a\nb\n",
    ),
    "one that fails": (
        [bash("toolu_a", "exit 3")],
        allow,
        {"toolu_a": ToolResult("toolu_a", "Exit code 3", True)},
        None,
    ),
    "one that is refused": (
        [bash("toolu_a", "echo a >> x.txt")],
        deny("no"),
        {"toolu_a": ToolResult("toolu_a", "PreToolUse:Bash hook error: no", True)},
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_hook_after_each_round_ends_the_run_with_every_result(new_desk: NewDesk, case: str) -> None:
    """PostToolBatch is asked once, whatever became of the calls; the session goes on with a prompt."""
    calls, hook, told, written = CASES[case]
    desk = new_desk(says(calls))
    asked: list[Any] = []
    turn = desk.turn("go", can=can_allow, hooks=stopping(desk, hook, asked))
    assert ended(turn) == ("success", "hook_stopped", "tool_use")
    assert (asked, len(desk.server.calls), desk.read("x.txt")) == ([sorted(told)], 1, written)
    again = desk.turn("go on", hook=allow, can=can_allow, resume=turn.session_id)
    assert (again.result.result, desk.read("x.txt")) == ("done", written)
    assert desk.server.calls[-1].tool_results == told


def test_the_hook_after_a_round_is_not_asked_where_a_call_was_deferred(new_desk: NewDesk) -> None:
    """The deferral goes first, its sibling's result is on record; nor is it asked after a replay."""
    calls = [bash("toolu_a", "echo a >> x.txt"), bash("toolu_b", "echo b >> x.txt")]
    desk = new_desk(says(calls, STEPS[0]))
    asked: list[Any] = []
    hooks = stopping(desk, by_id(allow, toolu_b=defer), asked)
    turn = desk.turn("go", can=can_allow, hooks=hooks)
    assert (turn.deferred and turn.deferred[0], asked, desk.read("x.txt")) == ("toolu_b", [], "a\n")
    again = desk.turn(can=can_allow, hooks=stopping(desk, allow, asked), resume=turn.session_id)
    assert ended(again) == ("success", "hook_stopped", "tool_use")
    assert (asked, desk.read("x.txt")) == ([["toolu_1"]], "a\nb\n1\n")


def test_what_a_run_costs_can_be_asked_while_it_runs(new_desk: NewDesk) -> None:
    """From within that hook, as control request `get_usage`: the answer before it is counted already."""
    desk = new_desk(dear(says(*STEPS[:2])))
    costs: list[float] = []

    async def run() -> float | None:
        async def after(_data: Any, _tool_use_id: str | None, _context: Any) -> Any:
            query: Any = client._query
            usage = await query._send_control_request({"subtype": "get_usage"})
            costs.append(round(usage["session"]["total_cost_usd"], 6))
            return {}

        hooks: Any = {
            "PreToolUse": [HookMatcher(hooks=[desk.first_lock(allow)], timeout=60)],
            "PostToolBatch": [HookMatcher(hooks=[after], timeout=60)],
        }
        async with (
            asyncio.timeout(HANG),
            ClaudeSDKClient(desk.options(can=can_allow, hooks=hooks)) as client,
        ):
            await client.query("go")
            *_, last = [message async for message in client.receive_response()]
        assert isinstance(last, ResultMessage)
        return last.total_cost_usd

    total = asyncio.run(run())
    assert (costs, round(total or 0, 6)) == ([PRICE, 2 * PRICE], round(3 * PRICE, 6))
