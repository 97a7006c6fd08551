from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from redis import Redis

from agent_runner import granting
from agent_runner.aggregate import Changes
from agent_runner.audit import Entry, Event, first_bad
from agent_runner.errors import LostLease, WrongState
from agent_runner.ledger import StoreLedger
from agent_runner.model import DeferredCall, Execution, Grant, Inquiry, Run
from agent_runner.registers import Lease, Registers
from agent_runner.store import Store
from tests.fakes.values import COMMAND, LIN, NOW, a_decision, a_run, a_task, an_inquiry, at

CALL = DeferredCall(tool_use_id="toolu_9", tool_name="Bash", tool_input=COMMAND)
DIGEST = an_inquiry().digest
LEASE = Lease(token="mine", host="h", pid=1, pgid=1, process_started=0.0)

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The answer of one ask."""
    return asyncio.run(coroutine)


class Shelf:
    """A running task with inquiries, its lease, and the ledger of its turn."""

    def __init__(self, client: Redis, *inquiries: Inquiry, refusals: dict[str, str] | None = None) -> None:
        self.store = Store(client, enqueue=lambda _pipe, _task: None)
        self.registers = Registers(client)
        self.store.create(a_task(state="running", batch="t_1-1-1"), messages=[], notes=[])
        if inquiries:
            self.store.transact("t_1", lambda _: Changes(inquiries=inquiries))
        self.registers.take_lease("t_1", LEASE)
        why = refusals or {}
        self.ledger = StoreLedger(
            self.store,
            "t_1",
            "mine",
            refusal=lambda i: why.get(i.id, ""),
            covers=lambda grant, call, stopped_by: (call, stopped_by) == (CALL, grant.stopped_by),
            raised=lambda _snap, call, rule: an_inquiry(
                id="i_9", number=19, hold="live", tool_use_id=call.tool_use_id, rule=rule
            ),
            clock=lambda: at(70),
        )

    def keep(self, grant: Grant) -> None:
        """Stores a grant with its task."""
        self.store.transact(grant.task_id, lambda _: Changes(grants=(grant,)))

    def last(self) -> Entry:
        """What is on record last."""
        entries = self.store.audit_of("t_1")
        assert first_bad(entries) is None
        return entries[-1]


def approved(**changes: Any) -> Inquiry:
    """A call Lin said yes to."""
    return an_inquiry(**{"state": "approved", "decision": a_decision(), **changes})


AGAIN: dict[str, Any] = {"hold": "again", "tool_use_id": ""}
SIBLING: dict[str, Any] = {"hold": "sibling", "tool_use_id": "toolu_1"}


@pytest.mark.parametrize(
    ("inquiries", "found"),
    [
        ([], None),
        ([approved(id="i_1", tool_use_id="toolu_9", digest="0" * 64)], "i_1"),
        ([approved(id="i_1", tool_use_id="toolu_1")], None),
        ([approved(id="i_1", **AGAIN)], "i_1"),
        ([approved(id="i_1", **SIBLING)], "i_1"),
        ([approved(id="i_1", **AGAIN, digest="0" * 64)], None),
        ([an_inquiry(id="i_1", **AGAIN)], None),
        ([an_inquiry(id="i_1", **SIBLING, state="expired")], "i_1"),
        ([an_inquiry(id="i_1", **SIBLING, state="withdrawn")], None),
        ([approved(id="i_1", **SIBLING, settled=True)], None),
        ([approved(id="i_1", **AGAIN, run=a_run("unknown"))], None),
        ([approved(id="i_1", **AGAIN), an_inquiry(id="i_2", number=13, tool_use_id="toolu_9")], "i_2"),
        ([approved(id="i_1", hold="live", tool_use_id="toolu_1")], "i_1"),
    ],
    ids=[
        *("nothing was asked", "by id, whatever its input", "another id", "asked again, this call"),
        *("a sibling", "asked again, another call", "asked again, open", "a sibling nobody answered about"),
        *("a sibling, then stopped", "a sibling that was told", "asked again, used"),
        *("the id counts first", "asked by a process that is gone"),
    ],
)
def test_which_inquiry_speaks_of_a_call(
    fake_redis: Redis, inquiries: list[Inquiry], found: str | None
) -> None:
    """By its id; else one about exactly this input that the model was to make again, not used yet."""
    inquiry = run(Shelf(fake_redis, *inquiries).ledger.find("toolu_9", DIGEST))
    assert (inquiry.id if inquiry else None) == found


@pytest.mark.parametrize(
    ("digest", "refusals", "given"),
    [(DIGEST, {}, "i_2"), ("0" * 64, {}, None), (DIGEST, {"i_2": "Lin may not approve it any more."}, None)],
    ids=["this call", "another call", "given by somebody who may no longer"],
)
def test_case_b10_a_grant_holds_while_whoever_gave_it_may(
    fake_redis: Redis, digest: str, refusals: dict[str, str], given: str | None
) -> None:
    """A standing approval is for one exact call, and is checked again at every use."""
    old, new = approved(id="i_1"), approved(id="i_2", number=13, tool_use_id="toolu_2")
    shelf = Shelf(fake_redis, old, new, refusals={"i_1": "too old", **refusals})
    grants = tuple(Grant(task_id="t_1", digest=DIGEST, inquiry_id=i.id, by=LIN, at=NOW) for i in (old, new))
    shelf.store.transact("t_1", lambda _: Changes(grants=grants))
    grant = run(shelf.ledger.grant_for(CALL, digest, "Bash(kubectl *)"))
    assert (grant.inquiry_id if grant else None) == given


RULED = Grant(
    id="g12",
    task_id="t_1",
    digest="0" * 64,
    inquiry_id="i_1",
    number=12,
    by=LIN,
    at=at(60),
    rule="Bash(kubectl rollout:*)",
    stopped_by="Bash(kubectl *)",
)
SHARED = RULED.having(id="g7", number=7, task_id="t_0", inquiry_id="i_0", workspace="ops", until=at(3600))


def no(seconds: float, verdict: str = "reject", **changes: Any) -> Inquiry:
    """The same call, which people did not let run, so many seconds after `NOW`."""
    words = {"reason": "no"} if verdict == "reject" else {"conditions": "later"}
    state = {"reject": "rejected", "change": "changed"}[verdict]
    decision = a_decision(verdict, at=at(seconds), **words)
    about = {"id": "i_9", "number": 19, "tool_use_id": "x", "state": state, "decision": decision}
    return an_inquiry(**{**about, **changes})


@pytest.mark.parametrize(
    ("grants", "inquiries", "stopped_by", "given"),
    [
        ([RULED], [], "Bash(kubectl *)", "g12"),
        ([RULED], [], "Bash(kubectl rollout *)", None),
        ([SHARED], [], "Bash(kubectl *)", "g7"),
        ([SHARED.having(workspace="docs")], [], "Bash(kubectl *)", None),
        ([RULED.having(revoked_by=LIN, revoked_at=at(61))], [], "Bash(kubectl *)", None),
        ([SHARED.having(revoked_by=LIN, revoked_at=at(61))], [], "Bash(kubectl *)", None),
        ([RULED], [no(61)], "Bash(kubectl *)", None),
        ([SHARED], [no(61)], "Bash(kubectl *)", None),
        ([RULED], [no(60)], "Bash(kubectl *)", None),
        ([RULED], [no(59)], "Bash(kubectl *)", "g12"),
        ([RULED], [no(61, "change")], "Bash(kubectl *)", None),
        ([RULED], [no(61, digest="1" * 64)], "Bash(kubectl *)", "g12"),
        ([RULED], [an_inquiry(id="i_9", tool_use_id="x", state="expired")], "Bash(kubectl *)", "g12"),
    ],
    ids=[
        *("of this task", "stopped by another rule", "of the workspace", "of another workspace"),
        *("revoked", "revoked in the workspace", "refused since", "refused since, in the workspace"),
        *("refused in that moment", "refused before", "sent back since", "another call refused", "expired"),
    ],
)
def test_which_grant_by_rule_is_used(
    fake_redis: Redis, grants: list[Grant], inquiries: list[Inquiry], stopped_by: str, given: str | None
) -> None:
    """Of this task or its workspace, not taken back, and no newer refusal of this very call."""
    shelf = Shelf(fake_redis, *inquiries)
    shelf.store.create(a_task(id="t_0", number=230, state="running"), messages=[], notes=[])
    for grant in grants:
        shelf.keep(grant)
    found = run(shelf.ledger.grant_for(CALL, DIGEST, stopped_by))
    assert (found.id if found else None) == given


def test_a_grant_that_is_revoked_in_this_moment_is_not_used(fake_redis: Redis) -> None:
    """Between finding it and the record of its use: it raises, so the gate says no."""
    shelf = Shelf(fake_redis)
    shelf.keep(RULED)
    grant = run(shelf.ledger.grant_for(CALL, DIGEST, "Bash(kubectl *)"))
    assert grant == RULED
    shelf.store.transact("t_1", lambda snap: granting.revoke(snap, "g12", LIN, at(65)))
    with pytest.raises(WrongState, match="revoked"):
        run(shelf.ledger.use_grant(RULED, CALL))


def test_started_is_on_record_before_the_call_runs_and_once(fake_redis: Redis) -> None:
    """The second start of the same approval raises, so the gate says no."""
    shelf = Shelf(fake_redis, approved(tool_use_id=""))
    inquiry = shelf.store.inquiry("i_1")
    run(shelf.ledger.start(inquiry, "toolu_9"))
    started = shelf.store.inquiry("i_1")
    assert (started.run, started.tool_use_id) == (Run(state=Execution.STARTED, started_at=at(70)), "toolu_9")
    assert (shelf.last().event, shelf.last().inquiry_id) == (Event.DISPATCHED, "i_1")
    with pytest.raises(WrongState):
        run(shelf.ledger.start(inquiry, "toolu_9"))


def test_how_a_call_ended_is_kept_with_its_inquiry(fake_redis: Redis) -> None:
    """Only for calls people decided about, and once: the first word counts."""
    shelf = Shelf(fake_redis, approved(run=a_run("started")))
    for output in ("first", "second"):
        run(shelf.ledger.finish("toolu_1", failed=True, output=output))
    run(shelf.ledger.finish("toolu_404", failed=False, output="nobody asked"))
    assert shelf.store.inquiry("i_1").run == Run(
        state=Execution.FINISHED, started_at=at(70), finished_at=at(70), failed=True, output="first"
    )
    assert [e.event for e in shelf.store.audit_of("t_1")] == [Event.FINISHED]


GRANT = Grant(task_id="t_1", digest=DIGEST, inquiry_id="i_1", by=LIN, at=NOW)
ABOUT = {"tool_name": "Bash", "tool_input": COMMAND}


@pytest.mark.parametrize(
    ("remark", "event", "words", "digest", "details"),
    [
        (
            lambda ledger: ledger.use_grant(GRANT, CALL),
            Event.GRANT_USED,
            "",
            DIGEST,
            {**ABOUT, "granted_by": LIN.model_dump(), "inquiry": "i_1"},
        ),
        (
            lambda ledger: ledger.use_grant(SHARED, CALL),
            Event.GRANT_USED,
            "",
            DIGEST,
            {
                **ABOUT,
                "granted_by": LIN.model_dump(),
                "inquiry": "i_0",
                "grant": "g7",
                "rule": "Bash(kubectl rollout:*)",
                "workspace": "ops",
            },
        ),
        (
            lambda ledger: ledger.denied(CALL, "Bash(kubectl *)"),
            Event.CALL_DENIED,
            "",
            "",
            {**ABOUT, "rule": "Bash(kubectl *)"},
        ),
        (lambda ledger: ledger.alarm("odd", CALL), Event.ALARM, "odd", "", ABOUT),
    ],
    ids=["grant used", "grant by rule used", "denied", "alarm"],
)
def test_what_the_gate_puts_on_record(
    fake_redis: Redis, remark: Any, event: Event, words: str, digest: str, details: dict[str, Any]
) -> None:
    """The whole call, and why, in the task's own chain."""
    shelf = Shelf(fake_redis)
    run(remark(shelf.ledger))
    entry = shelf.last()
    assert (entry.event, entry.at, entry.words, entry.digest, entry.details) == (
        *(event, at(70), words, digest, details),
    )


@pytest.mark.parametrize(
    "write",
    [
        lambda ledger: ledger.start(approved(), "toolu_1"),
        lambda ledger: ledger.use_grant(GRANT, CALL),
        lambda ledger: ledger.denied(CALL, "rule"),
        lambda ledger: ledger.alarm("odd", CALL),
    ],
    ids=["start", "use a grant", "denied", "alarm"],
)
def test_a_turn_that_lost_its_lease_starts_nothing(fake_redis: Redis, write: Any) -> None:
    """Another worker has the task: every write raises, so the gate says no, and nothing is on record."""
    shelf = Shelf(fake_redis, approved())
    shelf.registers.drop_lease("t_1")
    shelf.registers.take_lease("t_1", LEASE.having(token="theirs"))
    with pytest.raises(LostLease):
        run(write(shelf.ledger))
    assert (shelf.store.audit_of("t_1"), shelf.store.inquiry("i_1")) == ((), approved(revision=1))


def test_a_task_somebody_stops_starts_nothing_more(fake_redis: Redis) -> None:
    """Between the click on Stop and the end of the turn an approved call does not start."""
    shelf = Shelf(fake_redis, approved())
    shelf.store.transact("t_1", lambda s: Changes(task=s.task.having(stop_requested_by=LIN)))
    with pytest.raises(WrongState):
        run(shelf.ledger.start(approved(), "toolu_1"))
