"""What the engine really does: the SDK and its bundled CLI, measured, fact by fact.

The numbers are those of the engine facts that `agent_runner.engine` is built on. When a new CLI
behaves differently, a test here says so before a user does. Nothing of ours runs but the
scripted model.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import (
    ClaudeSDKClient,
    HookMatcher,
    InMemorySessionStore,
    ProcessError,
    ResultError,
    ResultMessage,
)

from agent_runner.messages_api import (
    Answer,
    Block,
    HttpError,
    MessagesServer,
    Request,
    Script,
    Text,
    ToolResult,
    ToolUse,
)
from tests.fakes.engine_desk import (
    HANG,
    NOTE,
    Asked,
    CanUseTool,
    Desk,
    Hook,
    Paused,
    allow,
    bash,
    by_id,
    can_allow,
    can_answer,
    can_deny,
    decide,
    defer,
    deny,
    says,
)

pytestmark = [
    pytest.mark.engine,
    # The SDK warns that listed tools and bypass mode shadow `can_use_tool`: that is what E19 and E20 prove.
    pytest.mark.filterwarnings("ignore::claude_agent_sdk.CanUseToolShadowedWarning"),
]

NewDesk = Callable[[Script], Desk]
PROOF_OF_HANGING = 3.0
"""Seconds without a word that count as hanging: six times what a promptless resume takes."""


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


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something another process does."""
    async with asyncio.timeout(HANG):
        while not condition():  # noqa: ASYNC110  (another process's file has no event to wait for)
            await asyncio.sleep(0.02)


async def two_runs(
    desk: Desk, session: str, hook: Hook, *, ask_first: str = "", ask_then: str = ""
) -> list[str | None]:
    """One connection to a paused session, read to two results, with a prompt before or between them."""
    words: list[str | None] = []
    options = desk.options(hook=hook, can=can_allow, resume=session)
    async with asyncio.timeout(HANG), ClaudeSDKClient(options) as client:
        for prompt in (ask_first, ask_then):
            if prompt:
                await client.query(prompt)
            *_, last = [message async for message in client.receive_response()]
            assert isinstance(last, ResultMessage)
            words.append(last.result)
    return words


# --- pausing and resuming ----------------------------------------------------------------


def test_e02_a_resume_with_a_prompt_makes_two_turns(new_desk: NewDesk) -> None:
    """The deferred call is replayed, then the prompt is a turn of its own: two results, two calls."""
    desk = new_desk(says([bash("toolu_1", "echo x >> x.txt")]))
    session = desk.turn("go", hook=defer).session_id

    words = asyncio.run(two_runs(desk, session, allow, ask_first="and more"))
    assert words == ["done", "done"]
    assert (desk.read("x.txt"), len(desk.server.calls)) == ("x\n", 3)
    assert desk.server.calls[-1].last_user_text == "and more"


def test_e01_a_deferral_ends_the_run_and_e03_a_resume_without_a_prompt_replays_the_call(
    new_desk: NewDesk,
) -> None:
    """Only `stop_reason` tells a deferral from a finished run; the call has not run.

    Resumed, the hook is asked again with the same id, the call runs once, the model is called once.
    """
    call = bash("toolu_1", "echo x >> x.txt; echo out")
    desk = new_desk(says([Text("I write."), call]))
    paused = desk.turn("go", hook=defer)
    result = paused.result
    assert (result.subtype, result.is_error, result.stop_reason) == ("success", False, "tool_deferred")
    assert paused.deferred == ("toolu_1", "Bash", {"command": "echo x >> x.txt; echo out"})
    assert (desk.read("x.txt"), len(desk.server.calls)) == (None, 1)

    turn = desk.turn(hook=allow, can=can_allow, resume=paused.session_id, include_partial_messages=True)
    assert (turn.result.result, turn.result.stop_reason) == ("done", "end_turn")
    assert len(desk.server.calls) - 1 == turn.model_calls == 1
    assert desk.locks("toolu_1") == ["hook", "hook", "can_use_tool"]
    assert desk.read("x.txt") == "x\n"
    assert desk.told("toolu_1") == ToolResult("toolu_1", "out")
    assert turn.tool_results == {"toolu_1": "out"}


def test_e05_a_promptless_resume_with_nothing_pending_hangs(new_desk: NewDesk) -> None:
    """Why the state must be known before connecting: not a word comes."""
    desk = new_desk(says([Text("all done")]))
    session = desk.turn("go", hook=allow).session_id
    with pytest.raises(TimeoutError):
        desk.turn(hook=allow, resume=session, within=PROOF_OF_HANGING)
    assert len(desk.server.calls) == 1


def test_e06_an_unknown_session_is_a_result_error(new_desk: NewDesk) -> None:
    """The SDK raises with the CLI's own words; no model call is made."""
    desk = new_desk(says())
    with pytest.raises(ResultError, match="No conversation found with session ID"):
        desk.turn("go", hook=allow, resume="00000000-0000-4000-8000-000000000000")
    assert desk.server.calls == []


def test_e07_e29_every_approval_may_end_in_the_next_deferral(new_desk: NewDesk) -> None:
    """Three gated calls in a row: each resume runs one and stops at the next, in one session."""
    desk = new_desk(says(*([bash(f"toolu_{n}", f"echo {n} >> x.txt")] for n in (1, 2, 3))))
    first = desk.turn("go", hook=defer)
    turns = [first]
    for n in (1, 2):
        hook = by_id(defer, **{f"toolu_{n}": allow})
        turns.append(desk.turn(hook=hook, can=can_allow, resume=first.session_id))
        assert desk.read("x.txt") == "".join(f"{i}\n" for i in range(1, n + 1))
    last = desk.turn(hook=deny("enough"), can=can_allow, resume=first.session_id)
    stopped_at = [turn.deferred[0] if turn.deferred else None for turn in [*turns, last]]
    assert stopped_at == ["toolu_1", "toolu_2", "toolu_3", None]
    assert {turn.session_id for turn in [*turns, last]} == {first.session_id}
    assert desk.read("x.txt") == "1\n2\n"
    assert len(desk.server.calls) == 4


def test_e08_a_refusal_reaches_the_model_word_for_word(new_desk: NewDesk) -> None:
    """The reason follows the engine's prefix exactly; the call does not run."""
    reason = 'Not on Fridays: use "staging".\n明日また。 <b>&'
    desk = new_desk(says([bash("toolu_1", "echo x > x.txt")]))
    session = desk.turn("go", hook=defer).session_id
    desk.turn(hook=deny(reason), can=can_allow, resume=session)
    assert desk.told("toolu_1") == ToolResult("toolu_1", f"PreToolUse:Bash hook error: {reason}", True)
    assert desk.read("x.txt") is None


@pytest.mark.parametrize(
    ("call", "changed", "told"),
    [
        (bash("toolu_1", "echo asked"), {"command": "echo edited"}, "edited"),
        (ToolUse("toolu_1", NOTE, {"text": "asked"}), {"text": "edited"}, "noted: edited"),
    ],
    ids=["bash", "in-process MCP tool"],
)
def test_e09_e10_e37_an_edited_input_runs_as_edited(
    new_desk: NewDesk, call: ToolUse, changed: dict[str, str], told: str
) -> None:
    """Builtin and in-process MCP tools run the hook's input, and the second lock is shown that one."""
    desk = new_desk(says([call]))
    session = desk.turn("go", hook=defer).session_id

    def edit(_: Any) -> dict[str, Any]:
        return decide("allow", updatedInput=changed, additionalContext="Lin changed it.")

    desk.turn(hook=edit, can=can_allow, resume=session)
    assert desk.told("toolu_1") == ToolResult("toolu_1", told)
    assert desk.asked[1:] == [
        Asked("hook", "toolu_1", call.name, dict(call.input), False),
        Asked("can_use_tool", "toolu_1", call.name, changed, False),
    ]
    assert desk.server.calls[-1].hook_notes == ["Lin changed it."]


def test_e11_any_worker_with_the_store_resumes(new_desk: NewDesk) -> None:
    """Another config directory, the transcript in the store alone: the call is replayed."""
    store = InMemorySessionStore()
    desk = new_desk(says([bash("toolu_1", "echo x >> x.txt")]))
    session = desk.turn("go", hook=defer, session_store=store, config="first").session_id
    turn = desk.turn(hook=allow, can=can_allow, resume=session, session_store=store, config="second")
    assert (turn.result.result, desk.read("x.txt")) == ("done", "x\n")


def test_the_withdrawn_call_is_closed_before_the_next_prompt(new_desk: NewDesk) -> None:
    """In one connection: the replay is refused and answered, then the prompt is its own turn."""
    desk = new_desk(says([bash("toolu_1", "echo x > x.txt")]))
    session = desk.turn("go", hook=defer).session_id

    words = asyncio.run(two_runs(desk, session, deny("withdrawn"), ask_then="something else"))
    assert words == ["done", "done"]
    assert desk.told("toolu_1") == ToolResult("toolu_1", "PreToolUse:Bash hook error: withdrawn", True)
    assert (desk.server.calls[-1].last_user_text, desk.read("x.txt")) == ("something else", None)


# --- several calls in one turn -----------------------------------------------------------

WRITE_A, WRITE_B, WRITE_C = (bash(f"toolu_{n}", f"echo {n} > {n}.txt") for n in "abc")


def test_e12_of_two_deferrals_the_first_is_lost(new_desk: NewDesk) -> None:
    """Why a batch must never be deferred whole: the first call vanishes without a result."""
    desk = new_desk(says([WRITE_A, WRITE_B]))
    turn = desk.turn("go", hook=defer)
    assert turn.deferred is not None
    assert turn.deferred[0] == "toolu_b"
    desk.turn(hook=allow, can=can_allow, resume=turn.session_id)
    assert (desk.read("a.txt"), desk.read("b.txt")) == (None, "b\n")
    assert desk.told("toolu_a") is None
    assert desk.told("toolu_b") == ToolResult("toolu_b", "(Bash completed with no output)")


@pytest.mark.parametrize("calls", [[WRITE_A, WRITE_B], [WRITE_B, WRITE_A]], ids=["safe first", "safe last"])
def test_e13_a_free_call_beside_a_deferred_one_runs(new_desk: NewDesk, calls: list[Block]) -> None:
    """In either order the free call runs at once, and both have a result after the resume."""
    desk = new_desk(says(calls))
    turn = desk.turn("go", hook=by_id(allow, toolu_b=defer), can=can_allow)
    assert (desk.read("a.txt"), desk.read("b.txt")) == ("a\n", None)
    desk.turn(hook=allow, can=can_allow, resume=turn.session_id)
    assert desk.read("b.txt") == "b\n"
    assert [desk.told(call_id) for call_id in ("toolu_a", "toolu_b")] == [
        ToolResult("toolu_a", "(Bash completed with no output)"),
        ToolResult("toolu_b", "(Bash completed with no output)"),
    ]


@pytest.mark.parametrize("waits", ["toolu_a", "toolu_c"])
def test_e14_one_deferral_and_refused_siblings_is_clean(new_desk: NewDesk, waits: str) -> None:
    """Whichever call waits: no extra model call, and after the resume all three have a result."""
    desk = new_desk(says([WRITE_A, WRITE_B, WRITE_C]))
    turn = desk.turn("go", hook=by_id(deny("One at a time."), **{waits: defer}))
    assert turn.deferred is not None
    assert turn.deferred[0] == waits
    assert len(desk.server.calls) == 1
    desk.turn(hook=allow, can=can_allow, resume=turn.session_id)
    told = {call_id: desk.told(call_id) for call_id in ("toolu_a", "toolu_b", "toolu_c")}
    refused = "PreToolUse:Bash hook error: One at a time."
    assert told == {
        call_id: ToolResult(call_id, "(Bash completed with no output)")
        if call_id == waits
        else ToolResult(call_id, refused, True)
        for call_id in told
    }
    assert len(desk.server.calls) == 2


def with_subagent(*calls: Block) -> Script:
    """A model that starts a subagent, which makes these calls and reports."""
    agent = ToolUse(
        "toolu_agent",
        "Agent",
        {"description": "side job", "prompt": "SIDE JOB", "subagent_type": "general-purpose"},
    )
    main, side = says([agent]), says(calls, [Text("side job done")])
    return lambda request: (side if request.last_user_text == "SIDE JOB" else main)(request)


def test_e15_a_deferral_in_a_subagent_is_silently_lost(new_desk: NewDesk) -> None:
    """Why nothing is deferred there: the tool never runs and the run reports success."""
    desk = new_desk(with_subagent(bash("toolu_side", "echo x > x.txt")))
    turn = desk.turn("go", hook=by_id(allow, toolu_side=defer), can=can_allow)
    assert (turn.result.stop_reason, turn.deferred, turn.result.is_error) == ("end_turn", None, False)
    assert desk.read("x.txt") is None


def test_e26_e41_a_subagent_runs_inside_the_turn_and_both_locks_see_it(new_desk: NewDesk) -> None:
    """Its calls reach both locks, marked as a subagent's; its model calls can be counted."""
    desk = new_desk(with_subagent(bash("toolu_side", "echo x > x.txt")))
    turn = desk.turn(
        "go", hook=allow, can=can_allow, include_partial_messages=True, forward_subagent_text=True
    )
    side = {"command": "echo x > x.txt"}
    assert [asked for asked in desk.asked if asked.tool_use_id == "toolu_side"] == [
        Asked("hook", "toolu_side", "Bash", side, True),
        Asked("can_use_tool", "toolu_side", "Bash", side, True),
    ]
    assert desk.read("x.txt") == "x\n"
    assert turn.model_calls == len(desk.server.calls) == 4
    assert turn.result.num_turns == 2


# --- questions and plans -----------------------------------------------------------------

QUESTIONS = [
    {
        "question": "Which DB?",
        "header": "DB",
        "options": [{"label": "Postgres", "description": "a"}, {"label": "SQLite", "description": "b"}],
        "multiSelect": False,
    },
    {
        "question": "Which extras?",
        "header": "Extras",
        "options": [{"label": "Backups", "description": "a"}, {"label": "Alerts", "description": "b"}],
        "multiSelect": True,
    },
]
QUESTION = ToolUse("toolu_q", "AskUserQuestion", {"questions": QUESTIONS})
ANSWERS = {"Which DB?": "Postgres", "Which extras?": "Backups, Alerts"}
ANSWERED = (
    'Your questions have been answered: "Which DB?"="Postgres", "Which extras?"="Backups, Alerts". '
    "You can now continue with these answers in mind."
)
FREE_ANSWERS = {**ANSWERS, "Which DB?": "none, use a file"}
FREELY_ANSWERED = (
    'The user answered: "Which DB?"="none, use a file", "Which extras?"="Backups, Alerts". Read the answers '
    "carefully — they may request clarification, changes, or that you not proceed — and follow what they "
    "actually say."
)
UNANSWERED = "The user did not answer the questions."
ANSWERS_IN_HOOK = {"updatedInput": {"questions": QUESTIONS, "answers": ANSWERS}}


def test_e16_questions_and_plans_need_a_permission_host(new_desk: NewDesk) -> None:
    """Without `can_use_tool` neither AskUserQuestion nor ExitPlanMode is offered; with it both are (E27)."""
    desk = new_desk(says([Text("hi")]))
    desk.turn("go", hook=allow, can=None)
    assert {"AskUserQuestion", "ExitPlanMode"} & set(desk.server.calls[0].tool_names) == set()
    assert "Bash" in desk.server.calls[0].tool_names


UNDER_ASK = ["AskUserQuestion"]
WAYS_TO_ANSWER: list[tuple[list[str], dict[str, Any], CanUseTool, str]] = [
    (UNDER_ASK, ANSWERS_IN_HOOK, can_answer(ANSWERS), ANSWERED),
    (UNDER_ASK, {}, can_answer(FREE_ANSWERS), FREELY_ANSWERED),
    ([], ANSWERS_IN_HOOK, can_deny, ANSWERED),
    (UNDER_ASK, ANSWERS_IN_HOOK, can_allow, UNANSWERED),  # E38: lost under an ask rule
    ([], {}, can_allow, UNANSWERED),
]


def test_e17_e38_answers_reach_the_model(new_desk: NewDesk) -> None:
    """A question is deferred like any tool; under an `ask` rule the answers must come by the second lock."""
    desk = new_desk(says([QUESTION]))
    paused = Paused(desk)
    assert paused.turn.deferred == ("toolu_q", "AskUserQuestion", {"questions": QUESTIONS})

    def answered(answer: dict[str, Any]) -> Hook:
        return lambda _: decide("allow", **answer)

    turns = paused.resume(
        [{"hook": answered(answer), "can": can, "ask": ask} for ask, answer, can, _ in WAYS_TO_ANSWER]
    )
    told = [{"toolu_q": words} for *_, words in WAYS_TO_ANSWER]
    assert [turn.tool_results for turn in turns] == told


def plan_model(*, in_file: bool) -> Script:
    """A model that plans: into the CLI's plan file as it is told to, or into the call."""

    def script(request: Request) -> list[Block]:
        calls = len(request.tool_uses)
        if in_file and calls == 0:
            path = request.plan_file
            return [ToolUse("toolu_w", "Write", {"file_path": path, "content": "# Plan in file"})]
        if calls == int(in_file):
            return [ToolUse("toolu_p", "ExitPlanMode", {} if in_file else {"plan": "# Plan in call"})]
        return [Text("done")]

    return script


@pytest.mark.parametrize(
    ("in_file", "stored"),
    [(True, True), (True, False), (False, True)],
    ids=["plan file, store", "plan file, same directory", "plan in the call"],
)
def test_e18_a_plan_is_deferred_and_its_replay_reads_the_plan_file_anew(
    new_desk: NewDesk, in_file: bool, stored: bool
) -> None:
    """The first ask has the plan (from the CLI's plan file) or `{}`, and the stream always has it.

    The replay reads the plan file again: from a store, where there is none, the input is `{}`, and
    the model is not told the plan; a hook's `additionalContext` can tell it.
    """
    desk = new_desk(plan_model(in_file=in_file))
    run: dict[str, Any] = {
        "can": can_allow,
        "ask": ["Bash", "Write", "ExitPlanMode"],
        "permission_mode": "plan",
    }
    if stored:
        run["session_store"] = InMemorySessionStore()
    turn = desk.turn("go", hook=by_id(allow, toolu_p=defer), **run)
    plan = f"# Plan in {'file' if in_file else 'call'}"
    path = desk.server.calls[0].plan_file
    assert path is not None
    assert path.startswith(str(desk.root / "config" / "plans"))
    shown = {"plan": plan, "planFilePath": path} if in_file else {}
    assert desk.asked[-1].input == shown
    assert turn.deferred == ("toolu_p", "ExitPlanMode", shown)
    assert turn.streamed["toolu_p"]["plan"] == plan
    desk.asked.clear()
    approve: Hook = lambda _: decide("allow", additionalContext="Lin approved it.")  # noqa: E731  (one line)
    desk.turn(hook=approve, resume=turn.session_id, **run)
    again = {} if stored else shown
    assert desk.asked == [
        Asked("hook", "toolu_p", "ExitPlanMode", again, False),
        Asked("can_use_tool", "toolu_p", "ExitPlanMode", again, False),
    ]
    told = desk.told("toolu_p")
    assert told is not None
    assert told.text.startswith("User has approved")
    assert (plan in told.text) is (not stored)
    (note,) = desk.server.calls[-1].hook_notes
    assert note.startswith("Lin approved it.\n")


# --- failing open ------------------------------------------------------------------------


def raises(_: Any) -> dict[str, Any]:
    """A hook with a bug."""
    raise RuntimeError("a bug in the hook")


def decides_nonsense(_: Any) -> dict[str, Any]:
    """A hook whose decision the CLI does not know."""
    return decide("perhaps")


def returns_nothing(_: Any) -> Any:
    """A hook with a forgotten return."""


LISTED = {"allowed_tools": ["Bash"], "ask": []}
BYPASS = {"permission_mode": "bypassPermissions", "ask": [], "env": {"IS_SANDBOX": "1"}}
DEFAULT: dict[str, Any] = {"ask": []}


@pytest.mark.parametrize(
    ("hook", "options", "on_failure", "ran"),
    [
        pytest.param(raises, LISTED, None, True, id="E19 raises, listed: runs"),
        pytest.param(raises, BYPASS, None, True, id="E20 raises, bypass: runs"),
        pytest.param(decides_nonsense, BYPASS, None, True, id="E20 nonsense, bypass: runs"),
        pytest.param(raises, DEFAULT, None, False, id="E21 raises, default: does not run"),
        pytest.param(decides_nonsense, DEFAULT, None, False, id="E21 nonsense, default: does not run"),
        pytest.param(raises, LISTED, "block", False, id="raises, listed, on_failure=block"),
        pytest.param(decides_nonsense, LISTED, "block", False, id="nonsense, listed, on_failure=block"),
        pytest.param(returns_nothing, LISTED, "block", False, id="nothing, listed, on_failure=block"),
    ],
)
def test_e19_e20_e21_what_a_broken_hook_lets_through(
    new_desk: NewDesk, hook: Hook, options: dict[str, Any], on_failure: Any, ran: bool
) -> None:
    """A listed tool and bypass mode fail open; default mode, and `on_failure="block"`, fail closed."""
    desk = new_desk(says([bash("toolu_1", "echo x > x.txt")]))
    matcher = HookMatcher(hooks=[desk.first_lock(hook)], timeout=60, on_failure=on_failure)
    desk.turn("go", can=can_deny, hooks={"PreToolUse": [matcher]}, **options)
    assert desk.locks("toolu_1")[0] == "hook"
    assert (desk.read("x.txt") == "x\n") is ran


def test_e22_a_hook_that_is_too_slow_is_a_no(new_desk: NewDesk) -> None:
    """Past the timeout the call is refused, even if everything else would allow it."""
    desk = new_desk(says([bash("toolu_1", "echo x > x.txt")]))

    async def never(_data: Any, _id: Any, _context: Any) -> Any:
        return await asyncio.Event().wait()

    hooks = {"PreToolUse": [HookMatcher(hooks=[never], timeout=1)]}
    desk.turn("go", can=can_allow, hooks=hooks, allowed_tools=["Bash"])
    told = desk.told("toolu_1")
    assert told is not None
    assert told.is_error
    assert "did not respond before its timeout" in told.text
    assert desk.read("x.txt") is None


@pytest.mark.parametrize(("sources", "answered"), [([], False), (["project"], True)])
def test_e23_hooks_of_the_workspace_are_kept_out(
    new_desk: NewDesk, sources: list[str], answered: bool
) -> None:
    """With no setting sources a hook in the workspace's own settings is not asked."""
    desk = new_desk(says([bash("toolu_1", "echo x > x.txt")]))
    hook = {"type": "command", "command": f"touch {desk.cwd / 'asked'}"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}}
    (desk.cwd / ".claude").mkdir()
    (desk.cwd / ".claude" / "settings.json").write_text(json.dumps(settings))
    desk.turn("go", hook=deny("no"), setting_sources=sources)
    assert (desk.read("asked") == "") is answered
    assert desk.read("x.txt") is None


# --- the resume race: two locks ----------------------------------------------------------

REPETITIONS = 20


def test_e33_e34_every_resume_asks_the_hook_and_then_the_second_lock(new_desk: NewDesk) -> None:
    """The engine's own set-up, twenty times: the hook is asked, then the second lock, whose no is final."""
    desk = new_desk(says([bash("toolu_1", "echo secret")]))
    turns = Paused(desk).resume([{"hook": allow, "can": can_deny, "ask": ["Bash"]}] * REPETITIONS)
    assert sorted(desk.locks("toolu_1")[1:]) == ["can_use_tool"] * REPETITIONS + ["hook"] * REPETITIONS
    refused = {"toolu_1": "The second lock says no."}
    assert [turn.tool_results for turn in turns] == [refused] * REPETITIONS


# --- what is offered, what it costs, what is seen ----------------------------------------


def test_e27_a_whitelist_offers_exactly_what_works_here(new_desk: NewDesk) -> None:
    """With `tools` given, the model sees these, the MCP tools, and a placeholder that is never called.

    Of a call to a tool that does not exist the model is told, no lock is asked, and the run goes on.
    """
    desk = new_desk(says([ToolUse("toolu_1", "Teleport", {"to": "mars"})]))
    turn = desk.turn("go", hook=allow)
    assert sorted(desk.server.calls[0].tool_names) == [
        "Agent",
        "AskUserQuestion",
        "Bash",
        "DeferredToolPlaceholder",
        "Edit",
        "ExitPlanMode",
        "Glob",
        "Grep",
        "NotebookEdit",
        "Read",
        "WebFetch",
        "WebSearch",
        "Write",
        NOTE,
    ]
    error = "<tool_use_error>Error: No such tool available: Teleport</tool_use_error>"
    assert desk.told("toolu_1") == ToolResult("toolu_1", error, True)
    assert (desk.asked, turn.result.result) == ([], "done")


def test_e35_costs_are_cumulative_and_usage_is_not(new_desk: NewDesk) -> None:
    """Two runs of one call each: the cost grows to two calls' worth, the usage stays one call's."""
    model = says([bash("toolu_1", "echo x")], [Text("one")], [Text("two")])

    def script(request: Request) -> Answer:
        blocks = model(request)
        assert isinstance(blocks, list)
        return Answer(blocks, input_tokens=1000, output_tokens=100)

    desk = new_desk(script)
    first = desk.turn("go", hook=defer)
    session = first.session_id
    runs = [
        first.result,
        desk.turn(hook=allow, can=can_allow, resume=session).result,
    ]
    costs = [run.total_cost_usd or 0.0 for run in runs]
    assert costs == pytest.approx([costs[0], costs[0] * 2])
    assert costs[0] > 0
    assert [(run.usage or {})["input_tokens"] for run in runs] == [1000, 1000]
    assert [run.num_turns for run in runs] == [1, 1]


def test_e36_the_parents_environment_reaches_bash(new_desk: NewDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the CLI is started through a launcher: `env` only adds to what the parent has."""
    monkeypatch.setenv("REDIS_URL", "redis://secret")
    desk = new_desk(says([bash("toolu_1", "echo $REDIS_URL $ANTHROPIC_API_KEY")]))
    desk.turn("go", hook=allow, can=can_allow)
    assert desk.told("toolu_1") == ToolResult("toolu_1", "redis://secret sk-ant-not-a-key")


LAUNCHER = """#!/bin/bash
KEY=$ANTHROPIC_API_KEY; unset ANTHROPIC_API_KEY
exec 3< <(printf %s "$KEY"); unset KEY
export CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR=3
exec {cli} "$@"
"""


def test_the_key_over_a_pipe_reaches_the_model_and_not_bash(new_desk: NewDesk) -> None:
    """Why the launcher does that: neither Bash's environment nor the CLI's holds the key."""
    look = "grep -c sk-ant <(env); grep -ac sk-ant /proc/$PPID/environ; true"
    desk = new_desk(says([bash("toolu_1", look)]))
    launcher = desk.root / "launcher"
    launcher.write_text(LAUNCHER.format(cli=Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"))
    launcher.chmod(0o700)
    desk.turn("go", hook=allow, can=can_allow, cli_path=str(launcher))
    assert desk.server.calls[0].headers["x-api-key"] == "sk-ant-not-a-key"
    told = desk.told("toolu_1")
    assert told is not None
    assert told.text == "0\n0"


# --- crashes and a model that is away ----------------------------------------------------


WAITS = (
    "echo run >> runs.txt; echo $PPID > cli.pid; until [ -e go ]; do sleep 0.05; done; echo end >> runs.txt"
)
"""A command that says which CLI runs it, and ends when the test lets it."""


async def end_while_it_runs(
    desk: Desk, signal_: signal.Signals, then: Callable[[], bool], **turn: Any
) -> None:
    """Signals the CLI in the middle of `WAITS`, lets the command go on, and waits for what follows."""
    running = asyncio.create_task(desk.turn_async(hook=allow, can=can_allow, **turn))
    await until(lambda: bool(desk.read("cli.pid")))
    os.kill(int(desk.read("cli.pid") or 0), signal_)
    with pytest.raises(ProcessError):
        await running
    (desk.cwd / "go").touch()
    await until(then)


def test_e24_a_killed_run_runs_again_from_the_start(new_desk: NewDesk) -> None:
    """Why `started` is written before the allow: the orphan goes on, and the resume runs it again."""
    desk = new_desk(says([bash("toolu_1", WAITS)]))
    session = desk.turn("go", hook=defer).session_id
    ended = end_while_it_runs(
        desk, signal.SIGKILL, lambda: desk.read("runs.txt") == "run\nend\n", resume=session
    )
    asyncio.run(ended)
    turn = desk.turn(hook=allow, can=can_allow, resume=session)
    assert desk.read("runs.txt") == "run\nend\nrun\nend\n"
    assert turn.result.result == "done"


def test_a_terminated_cli_ends_its_command(new_desk: NewDesk) -> None:
    """Why the launcher asks for SIGTERM when the worker dies: with it, no orphan goes on."""
    desk = new_desk(says([bash("toolu_1", f"echo $$ > bash.pid; {WAITS}")]))

    def gone() -> bool:
        return not Path(f"/proc/{(desk.read('bash.pid') or '').strip()}").exists()

    asyncio.run(end_while_it_runs(desk, signal.SIGTERM, gone, prompt="go"))
    assert desk.read("runs.txt") == "run\n"


@pytest.mark.parametrize(
    ("error", "retries", "status", "said"),
    [
        (HttpError(400, "invalid_request_error", "odd"), 0, 400, "API Error: 400 odd"),
        (HttpError(403, "permission_error", "no"), 0, 403, "Failed to authenticate. API Error: 403 no"),
        (HttpError(529, "overloaded_error", "busy"), 1, 529, "API Error: 529 busy."),
    ],
)
def test_e25_a_model_that_fails_is_a_result_that_says_so(
    new_desk: NewDesk, error: HttpError, retries: int, status: int, said: str
) -> None:
    """`is_error`, "api_error" and the status; CLAUDE_CODE_MAX_RETRIES bounds the retries that are told.

    (A 400 is sent again, untold, while the CLI drops optional features.)
    """
    desk = new_desk(lambda _: error)
    turn = desk.turn("go", hook=allow, env={"CLAUDE_CODE_MAX_RETRIES": "1"})
    result = turn.result
    assert (result.subtype, result.is_error, result.terminal_reason) == ("success", True, "api_error")
    assert result.api_error_status == status
    assert (result.result or "").startswith(said)
    told = [(data["attempt"], data["max_retries"], data["error_status"]) for data in turn.system("api_retry")]
    assert told == [(1, 1, status)] * retries
    assert status == 400 or len(desk.server.calls) == 1 + retries


def test_e25_a_refused_connection_has_no_status(new_desk: NewDesk) -> None:
    """Nothing listens: the result says so and has no HTTP status."""
    desk = new_desk(says())
    gone = MessagesServer(says())
    gone.start()
    url = gone.url
    gone.stop()
    result = desk.turn(
        "go", hook=allow, env={"CLAUDE_CODE_MAX_RETRIES": "0", "ANTHROPIC_BASE_URL": url}
    ).result
    assert (result.is_error, result.terminal_reason, result.api_error_status) == (True, "api_error", None)
    assert "ECONNREFUSED" in (result.result or "")


def test_when_the_model_fails_after_the_call_ran_only_a_prompt_goes_on(new_desk: NewDesk) -> None:
    """The call is settled, so a second promptless resume would hang; a prompt continues, nothing reruns."""
    away = True
    model = says([bash("toolu_1", "echo x >> x.txt")])

    def script(request: Request) -> Any:
        return (
            HttpError(400, "invalid_request_error", "away")
            if request.tool_results and away
            else model(request)
        )

    desk = new_desk(script)
    session = desk.turn("go", hook=defer).session_id
    assert desk.turn(hook=allow, can=can_allow, resume=session).result.is_error
    away = False
    with pytest.raises(TimeoutError):
        desk.turn(hook=allow, can=can_allow, resume=session, within=PROOF_OF_HANGING)
    turn = desk.turn("go on", hook=allow, can=can_allow, resume=session)
    assert (turn.result.result, desk.read("x.txt")) == ("done", "x\n")
    assert desk.told("toolu_1") == ToolResult("toolu_1", "(Bash completed with no output)")
