from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent_runner import briefs, calls, lifecycle, limits, policy
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.audit import Event, Note, first_bad
from agent_runner.errors import AlreadyDecided, CountersignError, Expired, NotFound, WrongState
from agent_runner.model import (
    DeferredCall,
    Execution,
    Failure,
    FollowUp,
    Hold,
    Inquiry,
    InquiryState,
    Kind,
    Limit,
    Outcome,
    OutcomeKind,
    Reached,
    TaskState,
    TurnUsage,
    Unstarted,
    Verdict,
    Vote,
)
from tests.fakes.values import (
    ANSWERS,
    COMMAND,
    KAI,
    LIN,
    MEI,
    NOW,
    a_decision,
    a_limit,
    a_plan,
    a_question,
    a_run,
    a_task,
    an_inquiry,
    applied,
    at,
    sealed,
    waiting,
)

USED = TurnUsage(cost_usd=0.25, model_calls=2, active_ms=1500)
DONE = Outcome(kind=OutcomeKind.DONE, result="All pods are ready.", usage=USED)
CALL = DeferredCall(tool_use_id="toolu_1", tool_name="Bash", tool_input=COMMAND)
DEFERRED = Outcome(kind=OutcomeKind.DEFERRED, deferred=CALL, usage=USED)
FAILED = Outcome(kind=OutcomeKind.FAILED, failure=Failure(code="watchdog", message="Too long."), usage=USED)
SERVER = Failure(code="mcp_server_missing", message="Away.")
MISSING = Outcome(kind=OutcomeKind.FAILED, failure=SERVER, usage=USED)
STOPPED = Outcome(kind=OutcomeKind.STOPPED, usage=USED)
REACHED = Reached(limit=Limit.USD, used=2.03, of=2, more=2)
LIMITED = Outcome(kind=OutcomeKind.LIMITED, limit=REACHED, usage=USED)
FULL = Outcome(kind=OutcomeKind.LIMITED, limit=REACHED, begun=False)
MORE = a_decision("change", input={"limit": "usd", "used": 2.03, "of": 2, "more": 5})
NO_MORE = a_decision("reject", reason="enough")
LATER = FollowUp(text="and the cache pods", by=MEI, at=NOW)


def shown(before: Snapshot, changes: Changes) -> dict[str, Any]:
    """Everything a transaction would write, as what differs from before."""
    out: dict[str, Any] = {}
    if changes.task is not None:
        old, new = before.task.model_dump(mode="json"), changes.task.model_dump(mode="json")
        out["task"] = {k: v for k, v in new.items() if v != old[k] and k != "updated_at"}
        assert changes.task.updated_at > before.task.updated_at
        usage = out["task"].pop("usage", None)
        if usage:
            out["used"] = {k: v for k, v in usage.items() if v != old["usage"][k]}
    known = {i.id: i.model_dump(mode="json") for i in before.inquiries}
    for inquiry in changes.inquiries:
        now = inquiry.model_dump(mode="json")
        then = known.get(inquiry.id, {})
        gone = {k: v for k, v in now.items() if v != then.get(k)} if then else {"state": inquiry.state.value}
        out.setdefault("inquiries", {})[inquiry.id] = gone
    if changes.messages:
        out["messages"] = [f"{m.role}: {m.text}" for m in changes.messages]
    if changes.notes:
        out["notes"] = [_note(n) for n in changes.notes]
    if changes.grants:
        out["grants"] = [(g.task_id, g.digest, g.inquiry_id, g.by.name) for g in changes.grants]
    for name in ("enqueue", "release_lease"):
        if getattr(changes, name):
            out[name] = True
    if changes.answer is not None:
        is_inquiry = isinstance(changes.answer, Inquiry)
        out["answer"] = changes.answer.id if is_inquiry else changes.answer
    return out


def _note(note: Note) -> str:
    who = f" by {note.actor.name}" if note.actor else ""
    what = f" about {note.inquiry_id}" if note.inquiry_id else ""
    words = f": {note.words}" if note.words else ""
    return f"{note.event}{what}{who}{words}"


# --- which event may happen when -----------------------------------------------------------


def standing(state: str) -> Snapshot:
    """A task in that state, with an old request that expired and, while it waits, an open one."""
    old = an_inquiry(id="i_0", number=11, batch="t_1-0-1", tool_use_id="toolu_0", state="expired")
    if state == "waiting":
        return waiting(old, an_inquiry(), batch="t_1-1-1")
    return Snapshot(a_task(state=state), (old,))


EVENTS: dict[str, Callable[[Snapshot], Changes]] = {
    "start": lambda s: lifecycle.start(s, turn=1, attempt=1, worker="w", now=at(60)),
    "stale": lambda s: lifecycle.start(s, turn=1, attempt=2, worker="w", now=at(60)),
    "done": lambda s: lifecycle.complete(s, DONE, (), at(60)),
    "deferred": lambda s: lifecycle.complete(s, DEFERRED, (an_inquiry(id="i_2"),), at(60)),
    "limited": lambda s: lifecycle.complete(s, LIMITED, (a_limit(id="i_2"),), at(60)),
    "failed": lambda s: lifecycle.complete(s, FAILED, (), at(60)),
    "stopped": lambda s: lifecycle.complete(s, STOPPED, (), at(60)),
    "lost": lambda s: lifecycle.lost(s, at(60)),
    "stop": lambda s: lifecycle.stop(s, LIN, at(60)),
    "words": lambda s: lifecycle.follow_up(s, "go on", LIN, at(60)),
    "retry": lambda s: lifecycle.retry(s, LIN, at(60)),
    "again": lambda s: lifecycle.ask_again(
        s, "i_0", new_id="i_9", number=19, terms={"expires_at": at(999)}, by=LIN, now=at(60)
    ),
    "decide": lambda s: lifecycle.decide(
        s, s.inquiries[-1].id, a_decision(), votes=(), decided=True, now=at(60)
    ),
    "expire": lambda s: lifecycle.expire(s, s.inquiries[-1].id, at(9 * 3600)),
}

# `.`: nothing happens. `-`: `WrongState`. `!`: another refusal.
WHEN = """
        start   stale done deferred limited failed stopped lost   stop    words   retry  again   decide expire
queued  running .     -    -        -       -      -       .      stopped queued  -      -       !      .
running .       .     done waiting  waiting failed stopped queued running running -      -       !      .
waiting .       .     -    -        -       -      -       .      stopped waiting -      -       queued queued
done    .       .     -    -        -       -      -       .      -       queued  -      waiting !      .
failed  .       .     -    -        -       -      -       .      -       queued  queued waiting !      .
stopped .       .     -    -        -       -      -       .      -       queued  -      waiting !      .
stuck   .       .     -    -        -       -      -       .      stopped queued  queued -       !      .
"""


def test_which_event_may_happen_when() -> None:
    """Every event in every state: where it leads, or that it raises and changes nothing."""

    def cell(state: str, event: Callable[[Snapshot], Changes]) -> str:
        before = standing(state)
        try:
            changes = event(before)
        except WrongState:
            return "-"
        except CountersignError:
            return "!"
        finally:
            assert before == standing(state)
        return "." if changes.empty else str(applied(before, changes).task.state)

    grid = [list(EVENTS)] + [[s, *(cell(s, event) for event in EVENTS.values())] for s in TaskState]
    assert grid == [line.split() for line in WHEN.strip().splitlines()]


# --- what each event writes ----------------------------------------------------------------

RUNNING = Snapshot(a_task(state="running"))
STARTED = an_inquiry(state="approved", decision=a_decision(), run=a_run("started"))
ENDED_DONE = "task_ended: All pods are ready."
ASKS: dict[str, Any] = {
    "task": {"state": "waiting", "batch": "t_1-1-1", "waiting_since": "2026-03-02T14:01:00Z"},
    "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
    "inquiries": {"i_2": {"state": "pending"}},
    "notes": ["inquiry_asked about i_2 by Mei"],
    "release_lease": True,
}
STOPS: dict[str, Any] = {
    "task": {"state": "stopped"},
    "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
    "inquiries": {"i_2": {"state": "withdrawn"}},
    "notes": ["withdrawn about i_2 by Lin", "task_ended"],
    "release_lease": True,
}

WRITES: dict[str, tuple[Snapshot, Callable[[Snapshot], Changes], dict[str, Any]]] = {
    "start": (
        Snapshot(a_task()),
        EVENTS["start"],
        {"task": {"state": "running"}, "notes": ["turn_started"], "answer": True},
    ),
    "done": (
        RUNNING,
        EVENTS["done"],
        {
            "task": {"state": "done", "result": "All pods are ready."},
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "messages": ["agent: All pods are ready."],
            "notes": [ENDED_DONE],
            "release_lease": True,
        },
    ),
    "done with words waiting": (
        Snapshot(a_task(state="running", follow_ups=(LATER, LATER))),
        EVENTS["done"],
        {
            "task": {
                "state": "queued",
                "turn": 2,
                "prompt": "and the cache pods\n\nand the cache pods",
                "follow_ups": [],
            },
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "messages": ["agent: All pods are ready."],
            "enqueue": True,
            "release_lease": True,
        },
    ),
    "deferred": (
        RUNNING,
        EVENTS["deferred"],
        ASKS,
    ),
    "deferred while somebody stops": (
        Snapshot(a_task(state="running", stop_requested_by=LIN)),
        EVENTS["deferred"],
        STOPS,
    ),
    "limited": (
        RUNNING,
        EVENTS["limited"],
        ASKS,
    ),
    "limited before it began to resume": (
        Snapshot(a_task(state="running", prompt=None, batch="t_1-0-1")),
        lambda s: lifecycle.complete(s, FULL, (a_limit(id="i_2"),), at(60)),
        {
            "task": {
                "state": "waiting",
                "batch": "t_1-1-1",
                "unstarted": {"prompt": None, "batch": "t_1-0-1"},
                "waiting_since": "2026-03-02T14:01:00Z",
            },
            "inquiries": {"i_2": {"state": "pending"}},
            "notes": ["inquiry_asked about i_2 by Mei"],
            "release_lease": True,
        },
    ),
    "limited while somebody stops": (
        Snapshot(a_task(state="running", stop_requested_by=LIN)),
        EVENTS["limited"],
        STOPS,
    ),
    "limited with a call that may have run": (
        Snapshot(a_task(state="running"), (STARTED,)),
        EVENTS["limited"],
        {
            "task": {
                "state": "stuck",
                "failure": {
                    "code": "outcome_unknown",
                    "message": "The worker stopped while request #12 ran. "
                    "It may or may not have taken effect.",
                    "hint": "Check what happened. Retry goes on without running it again; Stop ends the job.",
                },
            },
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "inquiries": {"i_1": {"run": STARTED.run.having(state="unknown").model_dump(mode="json")}},
            "notes": ["outcome_unknown about i_1", "task_ended"],
            "release_lease": True,
        },
    ),
    "more allowed": (
        waiting(a_limit()),
        lambda s: lifecycle.decide(s, "i_1", a_decision(), votes=(), decided=True, now=at(60)),
        {
            "task": {
                "state": "queued",
                "turn": 2,
                "prompt": briefs.go_on(a_limit(decision=a_decision())),
                "batch": None,
                "waiting_since": None,
                "allowance": {"usd": 2.03, "minutes": 0.0, "model_turns": 0, "day": "", "day_usd": 0.0},
            },
            "used": {"waiting_ms": 60_000},
            "inquiries": {"i_1": {"state": "approved", "decision": a_decision().model_dump(mode="json")}},
            "notes": ["decided about i_1 by Lin"],
            "enqueue": True,
            "answer": "i_1",
        },
    ),
    "more allowed before it began to resume": (
        waiting(a_limit(), unstarted=Unstarted(prompt=None, batch="t_1-0-1")),
        lambda s: lifecycle.decide(s, "i_1", MORE, votes=(), decided=True, now=at(60)),
        {
            "task": {
                "state": "queued",
                "turn": 2,
                "batch": "t_1-0-1",
                "unstarted": None,
                "waiting_since": None,
                "allowance": {"usd": 5.03, "minutes": 0.0, "model_turns": 0, "day": "", "day_usd": 0.0},
            },
            "used": {"waiting_ms": 60_000},
            "inquiries": {"i_1": {"state": "changed", "decision": MORE.model_dump(mode="json")}},
            "notes": ["decided about i_1 by Lin"],
            "enqueue": True,
            "answer": "i_1",
        },
    ),
    "no more allowed": (
        waiting(a_limit(), unstarted=Unstarted(prompt="and the cache pods")),
        lambda s: lifecycle.decide(s, "i_1", NO_MORE, votes=(), decided=True, now=at(60)),
        {
            "task": {
                "state": "stopped",
                "waiting_since": None,
                "stop_requested_by": LIN.model_dump(mode="json"),
                "failure": {
                    "code": "limit_usd",
                    "message": "The limit was reached (limits.max_task_usd: 2.03 of 2); "
                    "Lin did not allow more.",
                    "hint": "Say in the thread what should be done: people are asked again "
                    "before anything runs.",
                },
            },
            "used": {"waiting_ms": 60_000},
            "inquiries": {"i_1": {"state": "rejected", "decision": NO_MORE.model_dump(mode="json")}},
            "notes": ["decided about i_1 by Lin: enough", "task_ended"],
            "answer": "i_1",
        },
    ),
    "nobody said whether more is allowed": (
        waiting(a_limit()),
        lambda s: lifecycle.expire(s, "i_1", at(9 * 3600)),
        {
            "task": {
                "state": "stopped",
                "waiting_since": None,
                "failure": {
                    "code": "limit_usd",
                    "message": "The limit was reached (limits.max_task_usd: 2.03 of 2); nobody answered.",
                    "hint": "Say in the thread what should be done: people are asked again "
                    "before anything runs.",
                },
            },
            "used": {"waiting_ms": 9 * 3600 * 1000},
            "inquiries": {"i_1": {"state": "expired"}},
            "notes": ["expired about i_1", "task_ended"],
        },
    ),
    "words after a limit kept others from being heard": (
        Snapshot(a_task(state="stopped", unstarted=Unstarted(prompt="and the cache pods"))),
        EVENTS["words"],
        {
            "task": {
                "state": "queued",
                "turn": 2,
                "prompt": "and the cache pods\n\ngo on",
                "unstarted": None,
            },
            "messages": ["user: go on"],
            "notes": ["follow_up by Lin: go on"],
            "enqueue": True,
            "answer": "started",
        },
    ),
    "done while somebody stops": (
        Snapshot(a_task(state="running", stop_requested_by=LIN, follow_ups=(LATER,))),
        EVENTS["done"],
        {
            "task": {"state": "stopped"},
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "notes": ["task_ended"],
            "release_lease": True,
        },
    ),
    "failed": (
        RUNNING,
        EVENTS["failed"],
        {
            "task": {
                "state": "failed",
                "failure": {"code": "watchdog", "message": "Too long.", "hint": ""},
            },
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "notes": ["task_ended"],
            "release_lease": True,
        },
    ),
    "failed for want of a tool server": (
        Snapshot(a_task(state="running", attempt=2)),
        lambda s: lifecycle.complete(s, MISSING, (), at(60)),
        {
            "task": {
                "state": "stuck",
                "failure": SERVER.model_dump(),
                "retry_at": "2026-03-02T14:01:30Z",
            },
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "notes": ["task_ended"],
            "release_lease": True,
        },
    ),
    "failed for want of a tool server too often": (
        Snapshot(a_task(state="running", attempt=6)),
        lambda s: lifecycle.complete(s, MISSING, (), at(60)),
        {
            "task": {"state": "failed", "failure": SERVER.model_dump()},
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "notes": ["task_ended"],
            "release_lease": True,
        },
    ),
    "retried by the clock": (
        Snapshot(a_task(state="stuck", attempt=2, failure=SERVER, retry_at=at(60))),
        lambda s: lifecycle.retry(s, None, at(60)),
        {
            "task": {"state": "queued", "attempt": 3, "failure": None, "retry_at": None},
            "notes": ["retried"],
            "enqueue": True,
            "answer": "started",
        },
    ),
    "not yet by the clock": (
        Snapshot(a_task(state="stuck", failure=SERVER, retry_at=at(61))),
        lambda s: lifecycle.retry(s, None, at(60)),
        {},
    ),
    "never by the clock": (
        Snapshot(a_task(state="stuck", failure=SERVER)),
        lambda s: lifecycle.retry(s, None, at(60)),
        {},
    ),
    "stopped while it waits for a tool server": (
        Snapshot(a_task(state="stuck", failure=SERVER, retry_at=at(90))),
        EVENTS["stop"],
        {
            "task": {"state": "stopped", "retry_at": None},
            "notes": ["stop_requested by Lin", "task_ended"],
            "answer": "stopped",
        },
    ),
    "words while it waits for a tool server": (
        Snapshot(a_task(state="stuck", failure=SERVER, retry_at=at(90))),
        EVENTS["words"],
        {
            "task": {"state": "queued", "turn": 2, "prompt": "go on", "failure": None, "retry_at": None},
            "messages": ["user: go on"],
            "notes": ["follow_up by Lin: go on"],
            "enqueue": True,
            "answer": "started",
        },
    ),
    "done, but a call never ended": (
        Snapshot(a_task(state="running"), (STARTED,)),
        EVENTS["done"],
        {
            "task": {
                "state": "stuck",
                "failure": {
                    "code": "outcome_unknown",
                    "message": "The worker stopped while request #12 ran. "
                    "It may or may not have taken effect.",
                    "hint": "Check what happened. Retry goes on without running it again; Stop ends the job.",
                },
            },
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "inquiries": {
                "i_1": {"run": {**STARTED.run.model_dump(mode="json"), "state": "unknown"}},
            },
            "messages": ["agent: All pods are ready."],
            "notes": ["outcome_unknown about i_1", "task_ended"],
            "release_lease": True,
        },
    ),
    "a plan that ran ends plan mode": (
        Snapshot(
            a_task(state="running", options={"plan": True}),
            (a_plan(state="approved", decision=a_decision(), run=a_run("finished")),),
        ),
        EVENTS["done"],
        {
            "task": {
                "state": "done",
                "options": {"plan": False, "model": ""},
                "result": "All pods are ready.",
            },
            "used": {"cost_usd": 0.25, "model_calls": 2, "turns": 1, "active_ms": 1500},
            "messages": ["agent: All pods are ready."],
            "notes": [ENDED_DONE],
            "release_lease": True,
        },
    ),
    "lost": (
        RUNNING,
        EVENTS["lost"],
        {"task": {"state": "queued", "attempt": 2}, "notes": ["worker_lost"], "enqueue": True},
    ),
    "lost for the third time": (
        Snapshot(a_task(state="running", attempt=3)),
        EVENTS["lost"],
        {
            "task": {
                "state": "stuck",
                "failure": {
                    "code": "worker_lost",
                    "message": "The worker stopped 3 times while this was running.",
                    "hint": "",
                },
            },
            "notes": ["worker_lost", "task_ended"],
        },
    ),
    "lost while somebody stops": (
        Snapshot(a_task(state="running", stop_requested_by=LIN)),
        EVENTS["lost"],
        {"task": {"state": "stopped"}, "notes": ["worker_lost", "task_ended"]},
    ),
    "stop while it waits": (
        waiting(),
        EVENTS["stop"],
        {
            "task": {"state": "stopped", "waiting_since": None},
            "used": {"waiting_ms": 60_000},
            "inquiries": {"i_1": {"state": "withdrawn"}},
            "notes": ["stop_requested by Lin", "withdrawn about i_1 by Lin", "task_ended"],
            "answer": "stopped",
        },
    ),
    "stop while it runs": (
        RUNNING,
        EVENTS["stop"],
        {
            "task": {"stop_requested_by": LIN.model_dump()},
            "notes": ["stop_requested by Lin"],
            "answer": "stopping",
        },
    ),
    "words while it waits": (
        waiting(),
        EVENTS["words"],
        {
            "task": {
                "follow_ups": [
                    {"text": "go on", "by": LIN.model_dump(), "at": "2026-03-02T14:01:00Z"},
                ]
            },
            "messages": ["user: go on"],
            "notes": ["follow_up by Lin: go on"],
            "answer": "queued",
        },
    ),
    "words after a failure, behind earlier ones": (
        Snapshot(
            a_task(
                state="failed",
                follow_ups=(LATER,),
                failure={"code": "watchdog", "message": "Too long."},
                stop_requested_by=LIN,
            )
        ),
        EVENTS["words"],
        {
            "task": {
                "state": "queued",
                "turn": 2,
                "prompt": "and the cache pods\n\ngo on",
                "follow_ups": [],
                "failure": None,
                "stop_requested_by": None,
            },
            "messages": ["user: go on"],
            "notes": ["follow_up by Lin: go on"],
            "enqueue": True,
            "answer": "started",
        },
    ),
    "retry": (
        Snapshot(a_task(state="stuck", attempt=3, failure={"code": "worker_lost", "message": "."})),
        EVENTS["retry"],
        {
            "task": {"state": "queued", "attempt": 4, "failure": None},
            "notes": ["retried by Lin"],
            "enqueue": True,
            "answer": "started",
        },
    ),
    "approved": (
        waiting(),
        EVENTS["decide"],
        {
            "task": {"state": "queued", "turn": 2, "waiting_since": None},
            "used": {"waiting_ms": 60_000},
            "inquiries": {
                "i_1": {"state": "approved", "decision": a_decision().model_dump(mode="json")},
            },
            "notes": ["decided about i_1 by Lin"],
            "enqueue": True,
            "answer": "i_1",
        },
    ),
    "approved for the task": (
        waiting(),
        lambda s: lifecycle.decide(s, "i_1", a_decision(scope="task"), votes=(), decided=True, now=at(60)),
        {
            "task": {"state": "queued", "turn": 2, "waiting_since": None},
            "used": {"waiting_ms": 60_000},
            "inquiries": {
                "i_1": {
                    "state": "approved",
                    "decision": a_decision(scope="task").model_dump(mode="json"),
                },
            },
            "notes": ["decided about i_1 by Lin"],
            "grants": [("t_1", an_inquiry().digest, "i_1", "Lin")],
            "enqueue": True,
            "answer": "i_1",
        },
    ),
    "one of two votes": (
        waiting(an_inquiry(quorum=2)),
        lambda s: lifecycle.decide(
            s,
            "i_1",
            a_decision(reason="fine"),
            votes=(Vote(by=LIN, at=at(60), verdict=Verdict.APPROVE),),
            decided=False,
            now=at(60),
        ),
        {
            "task": {},
            "inquiries": {
                "i_1": {
                    "votes": [
                        {
                            "by": LIN.model_dump(),
                            "at": "2026-03-02T14:01:00Z",
                            "verdict": "approve",
                            "words": "",
                            "acting_for": "",
                        }
                    ]
                },
            },
            "notes": ["voted about i_1 by Lin: fine"],
            "answer": "i_1",
        },
    ),
    "the first of a batch": (
        waiting(an_inquiry(), an_inquiry(id="i_2", number=13, tool_use_id="toolu_2")),
        lambda s: lifecycle.decide(
            s, "i_1", a_decision("reject", reason="no"), votes=(), decided=True, now=at(60)
        ),
        {
            "task": {},
            "inquiries": {
                "i_1": {
                    "state": "rejected",
                    "decision": a_decision("reject", reason="no").model_dump(mode="json"),
                },
            },
            "notes": ["decided about i_1 by Lin: no"],
            "answer": "i_1",
        },
    ),
    "expired": (
        waiting(),
        EVENTS["expire"],
        {
            "task": {"state": "queued", "turn": 2, "waiting_since": None},
            "used": {"waiting_ms": 9 * 3600 * 1000},
            "inquiries": {"i_1": {"state": "expired"}},
            "notes": ["expired about i_1"],
            "enqueue": True,
        },
    ),
    "asked again after a stop": (
        Snapshot(
            a_task(
                state="stopped", stop_requested_by=KAI, result="old", failure={"code": "c", "message": "m"}
            ),
            (an_inquiry(id="i_0", number=11, state="expired", votes=()),),
        ),
        EVENTS["again"],
        {
            "task": {
                "state": "waiting",
                "batch": "again-i_9",
                "waiting_since": "2026-03-02T14:01:00Z",
                "stop_requested_by": None,
                "failure": None,
                "result": None,
            },
            "inquiries": {"i_9": {"state": "pending"}},
            "notes": ["inquiry_asked about i_9 by Lin"],
            "answer": "i_9",
        },
    ),
    "dispatched": (
        Snapshot(a_task(state="running"), (an_inquiry(state="approved", decision=a_decision()),)),
        lambda s: calls.dispatch(s, "i_1", "toolu_7", at(60)),
        {
            "task": {},
            "inquiries": {
                "i_1": {
                    "tool_use_id": "toolu_7",
                    "run": {
                        **a_run("none").model_dump(),
                        "state": "started",
                        "started_at": "2026-03-02T14:01:00Z",
                    },
                },
            },
            "notes": ["dispatched about i_1"],
            "answer": "i_1",
        },
    ),
    "finished": (
        Snapshot(a_task(state="running"), (STARTED,)),
        lambda s: calls.finished(s, "i_1", failed=True, output="exit 1", now=at(90)),
        {
            "task": {},
            "inquiries": {
                "i_1": {
                    "run": {
                        "state": "finished",
                        "started_at": "2026-03-02T14:01:10Z",
                        "finished_at": "2026-03-02T14:01:30Z",
                        "failed": True,
                        "refused": "",
                        "output": "exit 1",
                    },
                },
            },
            "notes": ["finished about i_1"],
        },
    ),
    "remark": (
        Snapshot(a_task(state="running")),
        lambda s: lifecycle.remark(s, Note(event=Event.ALARM, at=at(5), task_id="t_1", words="odd")),
        {"task": {}, "notes": ["alarm: odd"]},
    ),
}


@pytest.mark.parametrize("case", WRITES)
def test_what_each_event_writes(case: str) -> None:
    """The whole transaction of each event: task, inquiries, thread, record, queue, lease, answer."""
    before, event, golden = WRITES[case]
    assert shown(before, event(before)) == golden


def test_an_inquiry_on_record_holds_what_was_shown() -> None:
    """The record of asking carries the whole input and the rule; of deciding, edits and answers."""
    asked = lifecycle.complete(RUNNING, DEFERRED, (an_inquiry(),), at(60)).notes[0]
    assert (asked.digest, asked.details) == (
        an_inquiry().digest,
        {"number": 12, "tool_name": "Bash", "rule": "Bash(kubectl *)", "tool_input": COMMAND},
    )
    edited = a_decision("change", input={"command": "ls"}, conditions="look first")
    changed = lifecycle.decide(waiting(), "i_1", edited, votes=(), decided=True, now=at(60)).notes[0]
    assert (changed.words, changed.details) == (
        "look first",
        {"number": 12, "tool_name": "Bash", "verdict": "change", "scope": "once", "input": {"command": "ls"}},
    )
    answered = lifecycle.decide(
        waiting(a_question()),
        "i_1",
        a_decision("answer", answers=ANSWERS),
        votes=(),
        decided=True,
        now=at(60),
    ).notes[0]
    assert answered.details["answers"] == ANSWERS


def test_asked_again_shows_the_same_call_anew() -> None:
    """A fresh inquiry for the same call: nothing of the old one's votes, id or time is left."""
    vote = Vote(by=LIN, at=NOW, verdict=Verdict.APPROVE)
    old = an_inquiry(id="i_0", state="expired", votes=(vote,), revision=4)
    fresh = EVENTS["again"](Snapshot(a_task(state="done"), (old,))).answer
    assert fresh == an_inquiry(
        id="i_9",
        number=19,
        tool_use_id="",
        hold="again",
        batch="again-i_9",
        asked_at=at(60),
        expires_at=at(999),
        replaces="i_0",
    )


def test_words_that_a_limit_kept_unheard_come_before_what_is_asked_again() -> None:
    """Another request that had expired is settled first: the words are in its turn's prompt."""
    again = an_inquiry(hold="again", tool_use_id="")
    before = waiting(again, unstarted=Unstarted(prompt="and the cache pods"))
    changes = lifecycle.decide(before, "i_1", a_decision(), votes=(), decided=True, now=at(60))
    asked = briefs.asked_again(again.having(decision=a_decision(), state="approved"))
    assert changes.task is not None
    assert (changes.task.prompt, changes.task.unstarted) == (f"and the cache pods\n\n{asked}", None)


@pytest.mark.parametrize(
    ("decision", "prompt"),
    [
        (a_decision(), "Lin has now approved the request that had expired. Make this call:"),
        (a_decision("reject", reason="no"), "The request that had expired was asked again:"),
        (None, "The request that had expired was asked again; again nobody answered. It did not run:"),
    ],
    ids=["approved", "rejected", "expired"],
)
def test_what_is_decided_after_asking_again_starts_a_turn_with_words(decision: Any, prompt: str) -> None:
    """The engine has no pending call any more, so the model is told in a prompt."""
    snap = waiting(an_inquiry(hold="again", tool_use_id="", batch="again-i_1"))
    changes = (
        lifecycle.decide(snap, "i_1", decision, votes=(), decided=True, now=at(60))
        if decision
        else lifecycle.expire(snap, "i_1", at(9 * 3600))
    )
    assert changes.enqueue
    assert changes.task is not None
    assert (changes.task.prompt or "").splitlines()[0] == prompt


@pytest.mark.parametrize(
    ("inquiry", "now", "error", "message"),
    [
        (an_inquiry(state="expired"), NOW, Expired, "Request #12 is over since 2026-03-02 22:00 UTC."),
        (an_inquiry(), at(8 * 3600), Expired, "Request #12 is over since 2026-03-02 22:00 UTC."),
        (
            an_inquiry(state="withdrawn"),
            NOW,
            WrongState,
            "Request #12 was withdrawn: the job was stopped.",
        ),
        (
            an_inquiry(state="approved", decision=a_decision()),
            NOW,
            AlreadyDecided,
            "Request #12 is already approved by Lin.",
        ),
    ],
    ids=["expired", "time is over, clock has not ticked", "withdrawn", "decided"],
)
def test_too_late_to_decide(
    inquiry: Inquiry, now: datetime, error: type[CountersignError], message: str
) -> None:
    """A decision that comes too late is told why, and by whom it was decided."""
    with pytest.raises(error) as caught:
        lifecycle.decide(waiting(inquiry), "i_1", a_decision(), votes=(), decided=True, now=now)
    assert caught.value.message == message


def test_time_does_not_end_an_inquiry_early() -> None:
    """A tick before the time, or a second one after, writes nothing."""
    assert lifecycle.expire(waiting(), "i_1", at(8 * 3600 - 1)).empty
    assert lifecycle.expire(waiting(an_inquiry(state="expired")), "i_1", at(8 * 3600)).empty


@pytest.mark.parametrize(
    ("task", "inquiry"),
    [
        ({}, an_inquiry()),
        ({}, an_inquiry(state="rejected", decision=a_decision("reject", reason="no"))),
        ({}, an_inquiry(state="expired")),
        ({}, an_inquiry(state="withdrawn")),
        ({}, an_inquiry(state="changed", decision=a_decision("change", conditions="later"))),
        ({}, an_inquiry(state="approved", decision=a_decision(), run=a_run("started"))),
        ({}, an_inquiry(state="approved", decision=a_decision(), run=a_run("finished"))),
        ({}, an_inquiry(state="approved", decision=a_decision(), run=a_run("unknown"))),
        ({"stop_requested_by": LIN}, an_inquiry(state="approved", decision=a_decision())),
        ({"state": "queued"}, an_inquiry(state="approved", decision=a_decision())),
    ],
    ids=[
        *("pending", "rejected", "expired", "withdrawn", "conditions", "started", "finished", "unknown"),
        *("stop asked for", "turn not running"),
    ],
)
def test_what_may_not_be_started(task: dict[str, Any], inquiry: Inquiry) -> None:
    """Only an approved call that never started, in a running turn nobody stops, may start."""
    with pytest.raises(WrongState):
        calls.dispatch(Snapshot(a_task(**{"state": "running", **task}), (inquiry,)), "i_1", "x", at(60))


def test_only_an_expired_request_can_be_asked_again_and_only_once() -> None:
    """Asking again is for requests nobody answered; a second click opens no second one."""
    old = an_inquiry(id="i_0", state="expired")
    for snap in (
        Snapshot(a_task(state="done"), (an_inquiry(id="i_0", state="rejected"),)),
        Snapshot(a_task(state="done"), (old, an_inquiry(state="rejected", replaces="i_0"))),
    ):
        with pytest.raises(WrongState):
            EVENTS["again"](snap)


def test_an_unknown_inquiry_is_not_found() -> None:
    """An id of another task decides nothing here."""
    with pytest.raises(NotFound):
        lifecycle.expire(waiting(), "i_404", NOW)


def test_open_inquiries_come_oldest_first() -> None:
    """What waits for a person, by number."""
    asked = [an_inquiry(number=n, state=s) for n, s in ((3, "pending"), (1, "pending"), (2, "expired"))]
    assert [i.number for i in lifecycle.open_inquiries(asked)] == [1, 3]


# --- any order of events -------------------------------------------------------------------

PEOPLE = st.sampled_from([MEI, LIN, KAI])
ANY = st.integers(0, 9)
"""Which inquiry or job, of however many there are (taken modulo their number)."""


class AnyOrder(RuleBasedStateMachine):
    """Everything that can happen to a task, in any order and doubled, by several people."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.snap = Snapshot(a_task())
        self.notes: list[Note] = []
        self.jobs = [(1, 1)]
        self.prompts = {1: self.snap.task.prompt}
        self.said: list[str] = []
        self.decisions: dict[str, Any] = {}
        self.waited_ms = 0
        self.running = False
        self.made = 0

    def do(self, event: Callable[[Snapshot], Changes], *, ends_turn: bool = False) -> Changes | None:
        """Applies an event as the store does, and checks what holds of every single step."""
        before = self.snap
        try:
            changes = event(before)
        except CountersignError:
            assert self.snap is before
            return None
        self.snap = after = applied(before, changes)
        self.notes.extend(changes.notes)
        job = (after.task.turn, after.task.attempt)
        queued = after.task.state is TaskState.QUEUED
        assert changes.enqueue == (queued and job not in self.jobs)
        assert changes.release_lease == ends_turn
        if changes.enqueue:
            self.jobs.append(job)
            self.prompts.setdefault(after.task.turn, after.task.prompt)
            assert self.prompts[after.task.turn] == after.task.prompt, "the same turn runs the same words"
        for name, value in before.task.usage:
            assert getattr(after.task.usage, name) >= value, f"{name} went down"
        return changes

    @initialize()
    def asked(self) -> None:
        """The record begins with the job itself."""
        self.notes.append(Note(event=Event.TASK_ASKED, at=NOW, task_id="t_1", actor=MEI))

    @rule(seconds=st.sampled_from([1, 600, 4 * 3600, 9 * 3600]))
    def later(self, seconds: int) -> None:
        if self.snap.task.state is TaskState.WAITING:
            self.waited_ms += seconds * 1000
        self.now += timedelta(seconds=seconds)

    @rule(which=ANY)
    def claim(self, which: int) -> None:
        turn, attempt = self.jobs[which % len(self.jobs)]
        self.do(lambda s: lifecycle.start(s, turn=turn, attempt=attempt, worker="w", now=self.now))

    @rule(outcome=st.sampled_from([DONE, FAILED, MISSING, STOPPED]))
    def complete(self, outcome: Outcome) -> None:
        self.do(lambda s: lifecycle.complete(s, outcome, (), self.now), ends_turn=True)

    @rule(quorum=st.integers(1, 2), count=st.integers(1, 2))
    def defer(self, quorum: int, count: int) -> None:
        self.made += 1
        batch = f"b{self.made}"
        asked = tuple(
            an_inquiry(
                id=f"i_{self.made}_{n}",
                number=self.made * 10 + n,
                tool_use_id=f"toolu_{self.made}_{n}",
                batch=batch,
                hold="sibling" if n else "deferred",
                quorum=quorum,
                asked_at=self.now,
                expires_at=self.now + timedelta(hours=8),
            )
            for n in range(count)
        )
        self.do(lambda s: lifecycle.complete(s, DEFERRED, asked, self.now), ends_turn=True)

    @rule()
    def ask_live(self) -> None:
        """A subagent's call: its process waits, and the turn goes on."""
        self.made += 1
        inquiry = an_inquiry(
            id=f"i_{self.made}_live",
            number=self.made * 10,
            tool_use_id=f"toolu_{self.made}_live",
            batch=f"live-{self.made}",
            hold="live",
            asked_at=self.now,
            expires_at=self.now + timedelta(minutes=15),
        )
        self.do(lambda s: calls.ask(s, inquiry, self.now))

    @rule(which=ANY)
    def tell_refusal(self, which: int) -> None:
        """The model makes a call again that was not approved."""
        inquiry = self.pick(which)
        if inquiry is not None and not inquiry.run_allowed:
            self.do(lambda s: calls.told(s, inquiry.id, "toolu_y", self.now))

    @rule(begun=st.booleans())
    def limited(self, begun: bool) -> None:
        self.made += 1
        asked = a_limit(
            id=f"i_{self.made}_limit",
            number=self.made * 10,
            batch=f"b{self.made}",
            asked_at=self.now,
            expires_at=self.now + timedelta(hours=8),
        )
        outcome, turn = (LIMITED if begun else FULL), self.snap.task.turn
        done = self.do(lambda s: lifecycle.complete(s, outcome, (asked,), self.now), ends_turn=True)
        if done and self.snap.task.unstarted is not None:
            del self.prompts[turn]  # nobody heard it

    @rule(
        which=ANY,
        by=PEOPLE,
        verdict=st.sampled_from([Verdict.APPROVE, Verdict.CHANGE, Verdict.REJECT]),
        scope=st.sampled_from(["once", "task"]),
    )
    def decide(self, which: int, by: Any, verdict: Verdict, scope: str) -> None:
        inquiry = self.pick(which)
        if inquiry is None:
            return
        words: Any = {"change": {"conditions": "c"}, "reject": {"reason": "r"}}.get(verdict, {"scope": scope})
        if inquiry.kind is Kind.LIMIT and verdict is not Verdict.REJECT:
            words = {"input": {**inquiry.tool_input, "more": 5}} if verdict is Verdict.CHANGE else {}
        decision = a_decision(verdict.value, by=by, at=self.now, **words)
        vote = Vote(by=by, at=self.now, verdict=verdict)

        def event(snap: Snapshot) -> Changes:
            tally = policy.tally(snap.inquiry(inquiry.id).votes, vote, inquiry.quorum)
            return lifecycle.decide(
                snap, inquiry.id, decision, votes=tally.votes, decided=tally.decided, now=self.now
            )

        self.do(event)

    @rule(which=ANY)
    def expire(self, which: int) -> None:
        inquiry = self.pick(which)
        if inquiry is not None:
            self.do(lambda s: lifecycle.expire(s, inquiry.id, self.now))

    @rule(which=ANY, by=PEOPLE)
    def ask_again(self, which: int, by: Any) -> None:
        inquiry = self.pick(which)
        if inquiry is None:
            return
        self.made += 1
        new_id, terms = f"i_{self.made}_again", policy.terms(policy.Route(), self.now)
        self.do(
            lambda s: lifecycle.ask_again(
                s, inquiry.id, new_id=new_id, number=self.made * 10, terms=terms, by=by, now=self.now
            )
        )

    @rule(by=PEOPLE)
    def stop(self, by: Any) -> None:
        self.do(lambda s: lifecycle.stop(s, by, self.now))

    @rule(by=PEOPLE)
    def follow_up(self, by: Any) -> None:
        text = f"word-{len(self.said)}."
        if self.do(lambda s: lifecycle.follow_up(s, text, by, self.now)) is not None:
            self.said.append(text)

    @rule(by=st.sampled_from([MEI, LIN, None]))
    def retry(self, by: Any) -> None:
        self.do(lambda s: lifecycle.retry(s, by, self.now))

    @rule()
    def lost(self) -> None:
        self.do(lambda s: lifecycle.lost(s, self.now))

    @rule(which=ANY)
    def dispatch(self, which: int) -> None:
        inquiry = self.pick(which)
        if inquiry is not None:
            self.do(lambda s: calls.dispatch(s, inquiry.id, inquiry.tool_use_id or "toolu_x", self.now))

    @rule(which=ANY, failed=st.booleans())
    def finish(self, which: int, failed: bool) -> None:
        inquiry = self.pick(which)
        if inquiry is not None:
            self.do(lambda s: calls.finished(s, inquiry.id, failed=failed, output="o", now=self.now))

    def pick(self, which: int) -> Inquiry | None:
        """One of the inquiries, open or long settled."""
        known = self.snap.inquiries
        return known[which % len(known)] if known else None

    @invariant()
    def waits_exactly_while_something_is_open(self) -> None:
        open_ones = [i for i in self.snap.inquiries if i.open and i.hold is not Hold.LIVE]
        assert (self.snap.task.state is TaskState.WAITING) == bool(open_ones)
        assert {i.batch for i in open_ones} <= {self.snap.task.batch}

    @invariant()
    def a_process_is_waited_for_only_while_the_turn_goes_on(self) -> None:
        live = [i for i in self.snap.inquiries if i.open and i.hold is Hold.LIVE]
        assert not live or self.snap.task.state in (TaskState.RUNNING, TaskState.QUEUED)

    @invariant()
    def an_ended_task_leaves_no_approval_behind(self) -> None:
        if self.snap.task.state in (TaskState.DONE, TaskState.STOPPED):
            assert not any(i.awaited for i in self.snap.inquiries)
        unused = {i.id for i in self.snap.inquiries if i.settled and i.run_allowed}
        assert unused == {n.inquiry_id for n in self.notes if n.event is Event.NOT_RUN}

    @invariant()
    def a_decision_stands(self) -> None:
        for inquiry in self.snap.inquiries:
            if inquiry.decision is not None:
                first = self.decisions.setdefault(inquiry.id, (inquiry.state, inquiry.decision))
                assert (inquiry.state, inquiry.decision) == first
            else:
                assert inquiry.state in (
                    InquiryState.PENDING,
                    InquiryState.EXPIRED,
                    InquiryState.WITHDRAWN,
                )

    @invariant()
    def each_thing_is_on_record_once(self) -> None:
        counted = Counter((n.event, n.inquiry_id) for n in self.notes)
        for event in (Event.DECIDED, Event.DISPATCHED, Event.FINISHED, Event.OUTCOME_UNKNOWN, Event.EXPIRED):
            assert max((c for (e, _), c in counted.items() if e is event), default=0) <= 1, event
        turns = Counter(
            (n.details["turn"], n.details["attempt"]) for n in self.notes if n.event is Event.TURN_STARTED
        )
        assert max(turns.values(), default=0) <= 1, "a turn was claimed twice"
        assert {i for e, i in counted if e is Event.DECIDED} == set(self.decisions)

    @invariant()
    def what_ran_was_approved(self) -> None:
        for inquiry in self.snap.inquiries:
            assert inquiry.run.state is Execution.NONE or inquiry.run_allowed
        if self.snap.task.state is not TaskState.RUNNING:
            assert all(i.run.state is not Execution.STARTED for i in self.snap.inquiries)

    @invariant()
    def no_words_are_lost_or_doubled(self) -> None:
        heard = "".join(
            [
                *(p or "" for p in self.prompts.values()),
                *(f.text for f in limits.unheard(self.snap.task)),
                *(f.text for f in self.snap.task.follow_ups),
            ]
        )
        assert [heard.count(text) for text in self.said] == [1] * len(self.said)

    @invariant()
    def waiting_is_counted_while_waiting(self) -> None:
        task = self.snap.task
        assert (task.waiting_since is not None) == (task.state is TaskState.WAITING)
        so_far = self.now - task.waiting_since if task.waiting_since else timedelta()
        assert task.usage.waiting_ms + so_far / timedelta(milliseconds=1) == self.waited_ms

    @invariant()
    def only_a_stuck_task_is_retried_by_itself(self) -> None:
        task = self.snap.task
        assert task.retry_at is None or task.state is TaskState.STUCK

    @invariant()
    def an_ended_task_says_how(self) -> None:
        task = self.snap.task
        failed = task.state in (TaskState.FAILED, TaskState.STUCK)
        # A job that was stuck and is then stopped keeps why it was stuck.
        assert (task.failure is not None) == failed or task.state is TaskState.STOPPED
        assert (task.result is not None) == (task.state is TaskState.DONE)

    def teardown(self) -> None:
        """The whole record, sealed in order, is one valid chain."""
        assert first_bad(sealed(self.notes)) is None


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
