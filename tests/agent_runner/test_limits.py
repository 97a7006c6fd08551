"""How far a job may go: what is left of each limit, and what a yes adds to it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from agent_runner import lifecycle, limits
from agent_runner.brake import Brake
from agent_runner.config import Config, Limits, Workspace
from agent_runner.errors import LostLease
from agent_runner.limits import Bound
from agent_runner.meter import Meter
from agent_runner.model import Allowance, Limit, Outcome, OutcomeKind, Reached, Task, TurnUsage, Usage
from agent_runner.policy import Call, Policy, Route, route
from agent_runner.registers import Registers
from agent_runner.store import Store
from tests.fakes.values import NOW, a_decision, a_limit, a_task

DAY = "2026-03-02"


def config(*, per_day: float | None = None, **limit: Any) -> Config:
    """One workspace, with these limits."""
    return Config(
        workspaces={"ops": Workspace(path="/srv/ops", max_usd_per_day=per_day)}, limits=Limits(**limit)
    )


def left(of: Config, task: Task, *, spent: float = 0.0, days: int = 0) -> dict[str, float]:
    """What is left of each limit that holds."""
    found = limits.bounds(of, task, spent_today=spent, now=NOW + timedelta(days=days))
    return {str(bound.limit): round(bound.left, 6) for bound in found}


def test_only_what_is_configured_holds() -> None:
    """Model calls are limited by default; dollars and minutes where somebody wrote a limit."""
    used = Usage(cost_usd=0.5, model_calls=7, active_ms=90_000, waiting_ms=10**9)
    task = a_task(usage=used)
    assert left(config(), task) == {"model_turns": 193}
    everything = config(per_day=3, max_task_usd=2, max_task_minutes=5, max_model_turns=10)
    assert left(everything, task, spent=2.75) == {
        "model_turns": 3,
        "minutes": 3.5,
        "usd": 1.5,
        "day_usd": 0.25,
    }


def test_what_was_allowed_counts_and_a_days_allowance_only_that_day() -> None:
    """Beyond the day's dollars a task goes on by its own costs, whatever others spend meanwhile."""
    allowed = Allowance(usd=1, minutes=2, model_turns=3, day=DAY, day_usd=0.75)
    task = a_task(usage=Usage(cost_usd=0.5), allowance=allowed)
    of = config(per_day=3, max_task_usd=2, max_task_minutes=5, max_model_turns=10)
    assert left(of, task, spent=9) == {"model_turns": 13, "minutes": 7, "usd": 2.5, "day_usd": 0.25}
    assert left(of, task, spent=9, days=1)["day_usd"] == -6


AMOUNTS = st.decimals("0.01", "1000", places=2).map(float)


@given(limit=st.sampled_from(list(Limit)), of=AMOUNTS, over=AMOUNTS, more=AMOUNTS, others=AMOUNTS)
def test_a_yes_is_worth_what_was_approved(
    limit: Limit, of: float, over: float, more: float, others: float
) -> None:
    """After a yes exactly that much is left, however far the limit was passed; for a day, that day."""
    if limit is Limit.MODEL_TURNS:
        of, over, more = (float(int(amount) + 1) for amount in (of, over, more))
    used = of + over
    usage = Usage(cost_usd=used, model_calls=int(used), active_ms=int(used * 60_000))
    whole = {"max_model_turns": 10**6, "max_task_usd": 10**6, "max_task_minutes": 10**6}
    names = {Limit.MODEL_TURNS: "max_model_turns", Limit.USD: "max_task_usd"}
    if limit in names:
        whole[names[limit]] = int(of) if limit is Limit.MODEL_TURNS else of  # type: ignore[assignment]
    elif limit is Limit.MINUTES:
        of = float(int(of) + 1)
        whole["max_task_minutes"], used = int(of), usage.active_ms / 60_000
    of_day = of if limit is Limit.DAY_USD else None
    day = DAY if limit is Limit.DAY_USD else ""
    asked = Reached(limit=limit, used=max(used, of), of=of, more=more, day=day)
    task = a_task(usage=usage)
    approved = a_limit(tool_input=limits.call(asked).tool_input, state="approved", decision=a_decision())
    after = task.having(allowance=limits.raised(task, approved))
    if limit is Limit.MINUTES and used < of:
        return  # such a limit is not asked about
    remains = left(config(per_day=of_day, **whole), after, spent=used + others)
    assert remains[limit.value] == pytest.approx(more, abs=0.001)


@pytest.mark.parametrize(
    ("reached", "given_input", "setting"),
    [
        (
            Reached(limit=Limit.USD, used=2.0312, of=2, more=2),
            {"limit": "usd", "used": 2.0312, "of": 2, "more": 2},
            "limits.max_task_usd",
        ),
        (
            Reached(limit=Limit.DAY_USD, used=10, of=10, more=10, day=DAY),
            {"limit": "day_usd", "used": 10, "of": 10, "more": 10, "day": DAY},
            "workspaces.ops.max_usd_per_day",
        ),
    ],
)
def test_what_is_asked_and_why(reached: Reached, given_input: dict[str, Any], setting: str) -> None:
    """As a call of `Limit`, with whole numbers whole, and the setting by its name in the file."""
    call = limits.call(reached)
    assert (call.tool_name, call.tool_use_id, call.tool_input) == ("Limit", "", given_input)
    assert [type(value) for value in call.tool_input.values()] == [type(v) for v in given_input.values()]
    assert limits.rule(reached, "ops") == setting


def test_a_route_of_its_own_says_who_decides() -> None:
    """`Limit` in a route matches these requests and no call; without one the default route holds."""
    leads = Route(match=("Limit",), approvers=("group:leads",))
    policy = Policy(routes=(leads,))

    def asked(name: str) -> Call:
        return Call(tool_name=name, tool_input={"limit": "usd"}, cwd="/srv/ops", workspace="ops")

    assert [route(policy, asked(name)) for name in ("Limit", "Bash")] == [leads, policy.default_route]
    assert route(Policy(), asked("Limit")) == Policy().default_route


# --- while a turn runs ---------------------------------------------------------------------


def braked(bounds: tuple[Bound, ...], **used: float | None) -> tuple[dict[str, Any], Reached | None]:
    """What the brake answers after a round, and the limit it stopped at."""

    async def measure(limit: Limit) -> float | None:
        return used.get(limit.value)

    brake = Brake(bounds, measure)
    return asyncio.run(brake.hook({}, None, None)), brake.reached


MONEY = Bound(Limit.USD, used=1.5, of=2, step=2)
CALLS = Bound(Limit.MODEL_TURNS, used=3, of=5, step=5)


def test_the_brake_stops_at_what_is_left() -> None:
    """Of what was left when the turn began; what cannot be measured stops nothing."""
    assert braked((), usd=99) == ({}, None)
    assert braked((CALLS, MONEY), usd=0.49, model_turns=1) == ({}, None)
    assert braked((MONEY,), usd=None) == ({}, None)
    answer, reached = braked((CALLS, MONEY), usd=0.53, model_turns=1)
    assert (answer["continue_"], reached) == (False, Reached(limit=Limit.USD, used=2.03, of=2, more=2))
    assert braked((CALLS, MONEY), usd=0, model_turns=2)[1] == CALLS.reached(2)


class Silent:
    """An SDK client whose process does not answer."""

    class _query:  # noqa: N801  (the SDK's name)
        @staticmethod
        async def _send_control_request(_request: dict[str, Any]) -> dict[str, Any]:
            return {"error": "unknown subtype"}


@pytest.mark.parametrize("client", [None, Silent()])
def test_a_cost_that_is_not_heard_is_unknown(client: Any) -> None:
    """No client yet, or an answer of another shape: neither an error nor a number."""
    meter = Meter(lambda: 0.0)
    meter.client = client
    assert asyncio.run(meter.used(Limit.USD)) is None
    assert meter.usage().cost_usd == 0


# --- the workspace's day -------------------------------------------------------------------


def test_costs_of_a_day_are_added_up_by_the_commits(redis_url: str) -> None:
    """Many turns at once lose nothing; a commit that is refused adds nothing; two days later it is gone."""
    client = Redis.from_url(redis_url)
    store, registers = Store(client, enqueue=lambda *_: None), Registers(client)
    for n in range(8):
        store.create(a_task(id=f"t_{n}", state="running"), messages=[], notes=[])

    def complete(n: int, *, lease: str | None = None) -> None:
        outcome = Outcome(kind=OutcomeKind.DONE, usage=TurnUsage(cost_usd=0.25))
        store.transact(f"t_{n}", lambda snap: lifecycle.complete(snap, outcome, (), NOW), lease=lease)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(complete, range(7)))
    with pytest.raises(LostLease):
        complete(7, lease="not mine")
    assert registers.spent("ops", DAY) == 1.75
    assert (registers.spent("ops", "2026-03-03"), registers.spent("dev", DAY)) == (0, 0)
    assert 86_400 < int(client.ttl(f"cs:spent:ops:{DAY}")) <= 2 * 86_400
