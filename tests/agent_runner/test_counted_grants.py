"""`at most n times`: counted in the transaction that lets a run begin, so no crash and no race adds one."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from redis import Redis

from agent_runner import briefs, calls, granting, lifecycle
from agent_runner.aggregate import Changes
from agent_runner.audit import Event, Note
from agent_runner.condition_checks import refusal
from agent_runner.conditions import before
from agent_runner.digest import digest
from agent_runner.errors import NotFound, WrongState
from agent_runner.gate import Gate, Ruling
from agent_runner.ledger import StoreLedger
from agent_runner.matching import Call
from agent_runner.model import Condition, ConditionKind, DeferredCall, Execution, Grant, Inquiry, Task
from agent_runner.policy import Judgement
from agent_runner.registers import Lease, Registers
from agent_runner.store import Store, connect
from tests.fakes.values import COMMAND, LIN, a_decision, a_task, an_inquiry, at, waiting

THREE = Condition(kind=ConditionKind.TIMES, value="3")
EDITED = {"command": "kubectl rollout restart deploy/checkout -n staging"}
LEASE = Lease(token="mine", host="h", pid=1, pgid=1, process_started=0.0)


def decided(*limits: Condition, **changes: Any) -> Inquiry:
    """A call that Lin approved under these conditions."""
    decision = a_decision("change", limits=limits, **changes)
    return an_inquiry(state="changed", decision=decision)


def given(inquiry: Inquiry) -> Grant:
    """The counted grant of this decision."""
    assert inquiry.decision is not None
    [grant] = granting.given(inquiry, inquiry.decision, at(60))
    return grant


def nobody(*_: Any) -> Inquiry:
    """Nothing is asked here while a process waits."""
    raise AssertionError


class Room:
    """A running task with one decided call and its grant, and the gate of its turn."""

    def __init__(self, client: Redis, inquiry: Inquiry) -> None:
        self.time = at(70)
        self.store = Store(client, enqueue=lambda _pipe, _task: None)
        self.registers = Registers(client)
        self.store.create(a_task(state="running", batch="t_1-1-1"), messages=[], notes=[])
        self.store.transact("t_1", lambda _: Changes(inquiries=(inquiry,), grants=(given(inquiry),)))
        self.registers.take_lease("t_1", LEASE)

    def gate(self) -> Gate:
        """The gate of a new turn, or of the same one on another worker."""

        def refused(inquiry: Inquiry) -> str:
            call = Call(tool_name="Bash", tool_input=inquiry.effective_input, cwd="/srv/ops", workspace="ops")
            assert inquiry.decision is not None
            return refusal(inquiry.decision.limits, call, self.time)

        ledger = StoreLedger(
            self.store,
            "t_1",
            "mine",
            refusal=refused,
            covers=lambda *_: False,
            raised=nobody,
            clock=self._now,
        )
        return Gate(lambda *_: Judgement(effect="ask", rule="Bash(kubectl *)"), ledger)

    def _now(self) -> datetime:
        return self.time

    def call(self, tool_use_id: str, command: dict[str, Any] = COMMAND) -> Ruling:
        """The model makes the call, in a turn of its own."""
        return asyncio.run(self.gate().rule("Bash", command, tool_use_id))

    @property
    def grant(self) -> Grant:
        """The grant as it is stored."""
        return self.store.snapshot("t_1").grant("g12")

    def used(self) -> list[tuple[str, Any]]:
        """What is on record of the runs: events, and the number of the use."""
        return [
            (str(entry.event), entry.details.get("use"))
            for entry in self.store.audit_of("t_1")
            if entry.event in (Event.DISPATCHED, Event.GRANT_USED)
        ]


@pytest.mark.parametrize(
    ("limits", "times"),
    [((), None), ((THREE,), 3), ((THREE.model_copy(update={"value": "1"}),), None),
     ((THREE, THREE.model_copy(update={"value": "2"})), 2), ((before(at(600)),), None)],
)  # fmt: skip
def test_what_is_given(limits: tuple[Condition, ...], times: int | None) -> None:
    """A grant for exactly this call from two runs on; once is what every approval is."""
    inquiry = decided(*limits, **({} if limits else {"input": EDITED}))
    assert inquiry.decision is not None
    grants = granting.given(inquiry, inquiry.decision, at(60))
    assert [grant.times for grant in grants] == ([times] if times else [])


def test_the_grant_is_for_the_call_as_it_was_approved() -> None:
    """Edited: that call, until the time that was said, with nothing used yet."""
    grant = given(decided(THREE, before(at(600)), input=EDITED))
    assert grant == Grant(
        id="g12",
        task_id="t_1",
        digest=digest("Bash", EDITED),
        inquiry_id="i_1",
        number=12,
        by=LIN,
        at=at(60),
        until=at(600),
        times=3,
    )


def test_the_record_says_what_was_approved_and_given() -> None:
    """The conditions stand with the decision, the number of runs with what was given."""
    changes = lifecycle.decide(
        waiting(), "i_1", a_decision("change", limits=[THREE]), votes=(), decided=True, now=at(60)
    )
    assert [
        (note.event, note.details.get("limits"), note.details.get("times")) for note in changes.notes
    ] == [
        (Event.DECIDED, [{"kind": "times", "value": "3"}], None),
        (Event.GRANT_GIVEN, None, 3),
    ]


def test_it_runs_as_often_as_was_said_and_no_more(fake_redis: Redis) -> None:
    """The call itself is the first run, the same call twice more; then people are asked again."""
    room = Room(fake_redis, decided(THREE))
    first, second, third, fourth = (room.call(f"toolu_{n}") for n in range(1, 5))
    assert [first.effect, second.effect, third.effect, fourth.effect] == ["allow", "allow", "allow", "defer"]
    assert (first.context, second.context, third.context) == (
        "Lin approved this call at most 3 times. These conditions were checked. It may run 3 times in this "
        "task, exactly as it ran now, without asking again.",
        "Lin approved this exact call for 3 runs; this was number 2, 1 left.",
        "Lin approved this exact call for 3 runs; this was number 3, no run is left.",
    )
    assert room.used() == [("dispatched", None), ("grant_used", 2), ("grant_used", 3)]
    assert (room.grant.used, room.grant.used_up) == (3, True)


def test_another_call_is_asked_about(fake_redis: Redis) -> None:
    """One letter more is not what was approved, and uses nothing up."""
    room = Room(fake_redis, decided(THREE))
    assert (room.call("toolu_1").effect, room.call("toolu_2", EDITED).effect) == ("allow", "defer")
    assert room.grant.used == 1


def test_an_edited_call_may_be_made_again_as_edited(fake_redis: Redis) -> None:
    """What ran is what was approved for more runs; the call as it was first asked for is not."""
    room = Room(fake_redis, decided(THREE, input=EDITED))
    assert room.call("toolu_1").updated_input == EDITED
    assert (room.call("toolu_2").effect, room.call("toolu_3", EDITED).effect) == ("defer", "allow")
    assert room.grant.used == 2


def test_a_time_ends_the_runs_that_are_left(fake_redis: Redis) -> None:
    """The other conditions are checked again at every run; afterwards people are asked."""
    room = Room(fake_redis, decided(THREE, before(at(600))))
    room.call("toolu_1")
    room.time = at(599)
    assert room.call("toolu_2").effect == "allow"
    room.time = at(600)
    assert room.call("toolu_3").effect == "defer"
    assert room.grant.used == 2


def test_a_call_that_comes_too_late_is_held_back(fake_redis: Redis) -> None:
    """The clock went on between the decision and the run: denied, on record once, shown, nothing used."""
    room = Room(fake_redis, decided(THREE, before(at(600))))
    room.time = at(600)
    why = "only before 2026-03-02 14:10 UTC, and that time is over."
    assert room.call("toolu_1") == Ruling("deny", briefs.not_run(why))
    assert room.call("toolu_1") == Ruling("deny", briefs.not_run(why))
    stored = room.store.inquiry("i_1")
    assert (stored.run.state, stored.run.refused, room.grant.used) == (Execution.NONE, why, 0)
    events = [(entry.event, entry.details.get("why")) for entry in room.store.audit_of("t_1")]
    assert events == [(Event.CALL_DENIED, why)]


def test_a_revoked_grant_lets_nothing_run(fake_redis: Redis) -> None:
    """Not even the first run: whoever took it back wants none."""
    room = Room(fake_redis, decided(THREE))
    room.store.transact("t_1", lambda snap: granting.revoke(snap, "g12", LIN, at(65)))
    first, second = room.call("toolu_1"), room.call("toolu_2")
    assert (first.effect, "revoked" in first.reason, second.effect) == ("deny", True, "defer")
    assert (room.grant.used, room.used()) == (0, [])


def test_a_crash_gives_no_extra_run(fake_redis: Redis) -> None:
    """A worker that dies right after a use was written: that use is gone, whether or not the call ran."""
    room = Room(fake_redis, decided(THREE))
    room.call("toolu_1")
    room.store.transact("t_1", lambda s: calls.finished(s, "i_1", failed=False, output="", now=at(80)))
    room.call("toolu_2")
    room.store.transact("t_1", lambda snap: lifecycle.lost(snap, at(90)))
    restarted: Task = room.store.task("t_1").having(state="running")
    room.store.transact("t_1", lambda _: Changes(task=restarted))
    assert [room.call(f"toolu_{n}").effect for n in (3, 4)] == ["allow", "defer"]
    assert room.grant.used == 3


def test_two_uses_at_once_of_the_last_run(redis_url: str) -> None:
    """Both found a run left; only one of the two transactions counts it, the other lets nothing run."""
    room = Room(connect(redis_url, patient=False), decided(THREE))
    room.call("toolu_1")
    room.call("toolu_2")
    found, both = room.grant, threading.Barrier(2)
    call = DeferredCall(tool_use_id="toolu_3", tool_name="Bash", tool_input=COMMAND)

    def use(_: int) -> str:
        ledger = StoreLedger(
            Store(connect(redis_url, patient=False), enqueue=lambda _pipe, _task: None),
            *("t_1", "mine"),
            refusal=lambda _: "",
            covers=lambda *_: False,
            raised=nobody,
            clock=lambda: at(70),
        )
        both.wait(10)
        try:
            asyncio.run(ledger.use_grant(found, call))
        except WrongState as error:
            return error.message
        return "ran"

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(use, range(2)))
    assert outcomes == ["It was approved for 3 runs, and all of them are used.", "ran"]
    assert (room.grant.used, room.used()[-1]) == (3, ("grant_used", 3))


def test_a_grant_that_is_not_there_is_not_used(fake_redis: Redis) -> None:
    """A counted grant that its task does not have cannot be counted, so it lets nothing run."""
    room = Room(fake_redis, decided(THREE))
    note = Note(event=Event.GRANT_USED, at=at(70), task_id="t_1")
    with pytest.raises(NotFound):
        room.store.transact(
            "t_1", lambda s: granting.use_grant(s, given(decided(THREE)).having(id="g99"), note)
        )
