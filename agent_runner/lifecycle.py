"""What each event does to a task and its inquiries: pure functions, snapshot in, changes out.

The bot, the clock and the runners all call these inside `Store.transact`; there is no other
place that moves a task or an inquiry. What may not happen raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from agent_runner import briefs, calls, granting, limits, notes
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.audit import Event, Note
from agent_runner.errors import AlreadyDecided, Expired, WrongState
from agent_runner.model import (
    Actor,
    Decision,
    Execution,
    Failure,
    FollowUp,
    Hold,
    Inquiry,
    InquiryState,
    Kind,
    Message,
    Outcome,
    OutcomeKind,
    Role,
    Task,
    TaskState,
    Unstarted,
    Usage,
    Vote,
)
from agent_runner.state import (
    EXECUTION,
    INQUIRY,
    TASK,
    ExecutionEvent,
    InquiryEvent,
    TaskEvent,
    move,
)

MAX_ATTEMPTS = 3
"""How often a turn is started again by itself after its worker died, before a person is asked."""

RETRIED_BY_ITSELF = frozenset({"mcp_server_missing"})
"""Failures that heal without a person: nothing ran, and the same turn can be tried again (A06)."""

RETRY_AFTER = tuple(timedelta(seconds=s) for s in (15, 30, 60, 120, 300))
"""Waits before the tries after the first, second, ...; then only a person starts it again."""


def start(snap: Snapshot, *, turn: int, attempt: int, worker: str, now: datetime) -> Changes:
    """Claims the queued turn. Answers whether it is ours: a job delivered twice finds it taken."""
    task = snap.task
    if task.state is not TaskState.QUEUED or (task.turn, task.attempt) != (turn, attempt):
        return Changes(answer=False)
    started = _to(task, TaskEvent.START, now)
    note = notes.of_task(
        Event.TURN_STARTED, task, now, details={"turn": turn, "attempt": attempt, "worker": worker}
    )
    return Changes(task=started, notes=(note,), answer=True)


def complete(snap: Snapshot, outcome: Outcome, asked: tuple[Inquiry, ...], now: datetime) -> Changes:
    """Commits how the running turn ended, with the inquiries it raised, and queues what comes next."""
    if snap.task.state is not TaskState.RUNNING:
        raise WrongState(f"cannot end a turn while {snap.task.state}", state=str(snap.task.state))
    task = snap.task.having(usage=_used(snap.task.usage, outcome))
    if any(i.kind is Kind.PLAN and i.run.state is Execution.FINISHED for i in snap.inquiries):
        task = task.having(options=task.options.having(plan=False))  # an approved plan ends plan mode
    unknown = tuple(_lost(i) for i in snap.inquiries if i.run.state is Execution.STARTED)
    if outcome.kind is OutcomeKind.STOPPED or task.stop_requested_by:
        changes = _stopped(replace(snap, task=task), asked, task.stop_requested_by, now, unknown=unknown)
    elif unknown:
        said = (Message(role=Role.AGENT, text=outcome.result, at=now),) if outcome.result else ()
        changes = replace(_stuck_unknown(task, unknown, now), messages=said)
    elif outcome.kind is OutcomeKind.DEFERRED:
        changes = _waiting(task, asked, now)
    elif outcome.kind is OutcomeKind.LIMITED:
        kept = None if outcome.begun else limits.unstarted(task)
        changes = _waiting(task.having(unstarted=kept), asked, now)
    elif outcome.kind is OutcomeKind.DONE:
        changes = _finished(task, outcome, now)
    else:
        changes = _failed(task, outcome, now)
    changes = calls.over(snap, changes, now, begun=outcome.begun)
    return replace(changes, release_lease=True, spent=outcome.usage.cost_usd)


def lost(snap: Snapshot, now: datetime) -> Changes:
    """The worker is gone. Starts the same turn again, unless a call may have run or it keeps dying."""
    task = snap.task
    if task.state is not TaskState.RUNNING:
        return Changes()
    note = notes.of_task(Event.WORKER_LOST, task, now, details={"turn": task.turn, "attempt": task.attempt})
    unknown = tuple(_lost(i) for i in snap.inquiries if i.run.state is Execution.STARTED)
    if task.stop_requested_by:
        changes = calls.over(snap, _stopped(snap, (), task.stop_requested_by, now, unknown=unknown), now)
        return replace(changes, notes=(note, *changes.notes))
    if unknown:
        changes = calls.over(snap, _stuck_unknown(task, unknown, now), now)
        return replace(changes, notes=(note, *changes.notes))
    if task.attempt >= MAX_ATTEMPTS:
        failure = Failure(
            code="worker_lost", message=f"The worker stopped {task.attempt} times while this was running."
        )
        stuck = _to(task, TaskEvent.STICK, now).having(failure=failure)
        return calls.over(snap, Changes(task=stuck, notes=(note, notes.ended(stuck, now))), now)
    # What a process had asked stays open: the next one finds it when the call is made again.
    return Changes(task=_again(task, now), notes=(note,), enqueue=True)


def decide(
    snap: Snapshot,
    inquiry_id: str,
    decision: Decision,
    *,
    votes: tuple[Vote, ...],
    decided: bool,
    now: datetime,
) -> Changes:
    """Records a vote, or the decision it completes; resumes the task when the batch is settled.

    Raises `AlreadyDecided` or `Expired` (with nothing changed) when it is too late.
    """
    inquiry = still_open(snap.inquiry(inquiry_id), now)
    words = decision.reason or decision.conditions
    if not decided:
        voted = inquiry.having(votes=votes)
        note = notes.of_inquiry(
            Event.VOTED, voted, now, decision.by, words, verdict=decision.verdict, **_place(decision)
        )
        return Changes(task=_touched(snap.task, now), inquiries=(voted,), notes=(note,), answer=voted)
    state = move(INQUIRY, inquiry.state, InquiryEvent(decision.verdict.value))
    closed = inquiry.having(state=state, decision=decision, votes=votes)
    details = {"verdict": decision.verdict, "scope": decision.scope, **_place(decision)}
    if decision.input is not None:
        details["input"] = decision.input
    if decision.limits:
        details["limits"] = [limit.model_dump(mode="json") for limit in decision.limits]
    if decision.answers is not None:
        details["answers"] = decision.answers
    events = (Event.BREAK_GLASS, Event.DECIDED) if decision.break_glass else (Event.DECIDED,)
    said = (notes.of_inquiry(event, closed, now, decision.by, words, **details) for event in events)
    grants = granting.given(closed, decision, now)
    told = (
        *said,
        *(notes.of_grant(Event.GRANT_GIVEN, g, now, decision.by) for g in grants if g.rule or g.times),
    )
    return _settled(snap, Changes(inquiries=(closed,), notes=told, grants=grants, answer=closed), now)


def still_open(inquiry: Inquiry, now: datetime) -> Inquiry:
    """The inquiry, if it can be decided now; raises what says why not."""
    if inquiry.state is InquiryState.EXPIRED or (inquiry.open and inquiry.expires_at <= now):
        raise Expired(f"Request #{inquiry.number} is over since {inquiry.expires_at:%Y-%m-%d %H:%M UTC}.")
    if inquiry.state is InquiryState.WITHDRAWN:
        raise WrongState(f"Request #{inquiry.number} was withdrawn: the job was stopped.")
    if not inquiry.open:
        by = inquiry.decision.by.name if inquiry.decision else ""
        raise AlreadyDecided(
            f"Request #{inquiry.number} is already {inquiry.state} by {by}.",
            by=by,
            state=str(inquiry.state),
            at=inquiry.decision.at if inquiry.decision else None,
        )
    return inquiry


def expire(snap: Snapshot, inquiry_id: str, now: datetime) -> Changes:
    """Closes an inquiry whose time is over. Time never approves."""
    inquiry = snap.inquiry(inquiry_id)
    if not inquiry.open or inquiry.expires_at > now:
        return Changes()
    closed = inquiry.having(state=move(INQUIRY, inquiry.state, InquiryEvent.EXPIRE))
    note = notes.of_inquiry(Event.EXPIRED, closed, now, None, "")
    return _settled(snap, Changes(inquiries=(closed,), notes=(note,)), now)


def ask_again(
    snap: Snapshot,
    inquiry_id: str,
    *,
    new_id: str,
    number: int,
    terms: Mapping[str, Any],
    by: Actor,
    now: datetime,
) -> Changes:
    """Opens a fresh inquiry for an expired one's call, once the task has ended; `terms`: `policy.terms`."""
    old = snap.inquiry(inquiry_id)
    if old.state is not InquiryState.EXPIRED:
        raise WrongState(f"Request #{old.number} is {old.state}; only an expired one can be asked again.")
    if any(i.replaces == old.id for i in snap.inquiries):
        raise WrongState(f"Request #{old.number} was asked again already.")
    fresh = old.having(
        **terms,
        id=new_id,
        number=number,
        revision=0,
        state=InquiryState.PENDING,
        tool_use_id="",
        hold=Hold.AGAIN,
        settled=False,
        batch=f"again-{new_id}",
        asked_at=now,
        replaces=old.id,
        votes=(),
    )
    task = _to(snap.task, TaskEvent.ASK_AGAIN, now).having(
        batch=fresh.batch, waiting_since=now, stop_requested_by=None, failure=None, result=None
    )
    note = notes.of_inquiry(Event.INQUIRY_ASKED, fresh, now, by, "")
    return Changes(task=task, inquiries=(fresh,), notes=(note,), answer=fresh)


def stop(snap: Snapshot, by: Actor, now: datetime) -> Changes:
    """Stops a task: at once where nothing runs, else by asking its worker."""
    task = snap.task
    note = notes.of_task(Event.STOP_REQUESTED, task, now, actor=by)
    if task.state is TaskState.RUNNING:
        asked = _touched(task, now).having(stop_requested_by=by)
        return Changes(task=asked, notes=(note,), answer="stopping")
    changes = calls.over(snap, _stopped(snap, (), by, now), now)
    return replace(changes, notes=(note, *changes.notes), answer="stopped")


def follow_up(snap: Snapshot, text: str, by: Actor, now: datetime) -> Changes:
    """Words that are no answer: start the next turn, or wait for the present one to end (A14)."""
    task = snap.task
    said = FollowUp(text=text, by=by, at=now)
    message = Message(role=Role.USER, text=text, at=now, by=by)
    note = notes.of_task(Event.FOLLOW_UP, task, now, actor=by, words=text)
    if task.ended:
        # Words from before it ended are still to be heard, and first.
        words = _joined((*limits.unheard(task), *task.follow_ups, said))
        task = _continued(task, words, now).having(follow_ups=())
        return Changes(task=task, messages=(message,), notes=(note,), enqueue=True, answer="started")
    task = _touched(task, now).having(follow_ups=(*task.follow_ups, said))
    return Changes(task=task, messages=(message,), notes=(note,), answer="queued")


def retry(snap: Snapshot, by: Actor | None, now: datetime) -> Changes:
    """Starts the turn that failed or got stuck once more, for a person or (None) by the clock.

    A call that may have run stays unrun.
    """
    task = snap.task
    if by is None and (task.retry_at is None or task.retry_at > now):
        return Changes()
    if task.state not in (TaskState.FAILED, TaskState.STUCK):  # a running turn still has its worker
        raise WrongState(f"cannot retry while {task.state}", state=str(task.state))
    note = notes.of_task(Event.RETRIED, task, now, actor=by, details={"turn": task.turn})
    return Changes(task=_again(task, now), notes=(note,), enqueue=True, answer="started")


def remark(snap: Snapshot, note: Note, *more: Note) -> Changes:
    """Puts something on record that changes nothing else."""
    return Changes(task=_touched(snap.task, note.at), notes=(note, *more))


# --- parts of the above ------------------------------------------------------------------


def _place(decision: Decision) -> dict[str, object]:
    """In whose place somebody decided, for the record."""
    return {"acting_for": decision.acting_for} if decision.acting_for else {}


def _to(task: Task, event: TaskEvent, now: datetime) -> Task:
    result: Task = task.having(state=move(TASK, task.state, event), updated_at=now)
    return result


def _touched(task: Task, now: datetime) -> Task:
    result: Task = task.having(updated_at=now)
    return result


def _again(task: Task, now: datetime) -> Task:
    result: Task = _to(task, TaskEvent.REQUEUE, now).having(
        attempt=task.attempt + 1, failure=None, stop_requested_by=None, retry_at=None
    )
    return result


def _continued(task: Task, prompt: str | None, now: datetime) -> Task:
    """The task with its next turn queued; a `prompt` of None resumes the settled batch."""
    event = TaskEvent.RESUME if task.state is TaskState.WAITING else TaskEvent.CONTINUE
    result: Task = _to(task, event, now).having(
        turn=task.turn + 1,
        attempt=1,
        prompt=prompt,
        batch=task.batch if task.state is TaskState.WAITING else None,
        waiting_since=None,
        usage=_waited(task, now),
        stop_requested_by=None,
        retry_at=None,
        failure=None,
        result=None,
        unstarted=None,
    )
    return result


def _joined(said: Iterable[FollowUp]) -> str:
    return "\n\n".join(f.text for f in said)


def _waited(task: Task, now: datetime) -> Usage:
    since = task.waiting_since or now
    waited = max(0, int((now - since).total_seconds() * 1000))
    usage: Usage = task.usage.having(waiting_ms=task.usage.waiting_ms + waited)
    return usage


def _used(usage: Usage, outcome: Outcome) -> Usage:
    turn = outcome.usage
    result: Usage = usage.having(
        cost_usd=usage.cost_usd + turn.cost_usd,
        model_calls=usage.model_calls + turn.model_calls,
        turns=usage.turns + (1 if outcome.begun else 0),
        active_ms=usage.active_ms + turn.active_ms,
        waiting_ms=usage.waiting_ms + turn.waiting_ms,
    )
    return result


def _settled(snap: Snapshot, changes: Changes, now: datetime) -> Changes:
    """`changes`, and the next turn queued if they leave nothing of the batch undecided."""
    new = {i.id: i for i in changes.inquiries}
    batch = [new.get(i.id, i) for i in snap.batch]
    if snap.task.state is not TaskState.WAITING or any(i.open for i in batch):
        return replace(changes, task=_touched(snap.task, now))
    limit = next((i for i in batch if i.kind is Kind.LIMIT), None)
    if limit is not None:
        return _limit_settled(snap, limit, changes, now)
    again = [i for i in batch if i.hold is Hold.AGAIN]
    unheard = (f.text for f in limits.unheard(snap.task))
    prompt = "\n\n".join((*unheard, *map(briefs.asked_again, again))) if again else None
    return replace(changes, task=_continued(snap.task, prompt, now), enqueue=True)


def _limit_settled(snap: Snapshot, limit: Inquiry, changes: Changes, now: datetime) -> Changes:
    """`changes`, and what becomes of the task: it goes on to the new total, or it has ended."""
    task = snap.task
    if limit.run_allowed:
        kept = task.unstarted or Unstarted(prompt=briefs.go_on(limit))
        allowed = task.having(allowance=limits.raised(task, limit), batch=kept.batch)
        return replace(changes, task=_continued(allowed, kept.prompt, now), enqueue=True)
    by = limit.decision.by if limit.decision else None
    ended = task.having(failure=limits.not_raised(limit), stop_requested_by=by)
    stopped = _stopped(Snapshot(ended), (), by, now)
    ends = replace(changes, task=stopped.task, notes=(*changes.notes, *stopped.notes))
    return calls.over(snap, ends, now)


def _waiting(task: Task, asked: tuple[Inquiry, ...], now: datetime) -> Changes:
    waiting = _to(task, TaskEvent.WAIT, now).having(batch=asked[0].batch, waiting_since=now)
    told = tuple(
        notes.of_inquiry(Event.INQUIRY_ASKED, i, now, i.asked_by, i.agent_words, rule=i.rule) for i in asked
    )
    return Changes(task=waiting, inquiries=asked, notes=told)


def _finished(task: Task, outcome: Outcome, now: datetime) -> Changes:
    said = (Message(role=Role.AGENT, text=outcome.result, at=now),) if outcome.result else ()
    if task.follow_ups:
        return Changes(
            task=_continued(task, _joined(task.follow_ups), now).having(follow_ups=()),
            messages=said,
            enqueue=True,
        )
    done = _to(task, TaskEvent.FINISH, now).having(result=outcome.result)
    return Changes(task=done, messages=said, notes=(notes.ended(done, now),))


def _failed(task: Task, outcome: Outcome, now: datetime) -> Changes:
    failure = outcome.failure or Failure(code="engine_failed", message="It failed.")
    if failure.code in RETRIED_BY_ITSELF and task.attempt <= len(RETRY_AFTER):
        stuck = _to(task, TaskEvent.STICK, now).having(
            failure=failure, retry_at=now + RETRY_AFTER[task.attempt - 1]
        )
        return Changes(task=stuck, notes=(notes.ended(stuck, now),))
    failed = _to(task, TaskEvent.FAIL, now).having(failure=failure)
    return Changes(task=failed, notes=(notes.ended(failed, now),))


def _stopped(
    snap: Snapshot,
    asked: tuple[Inquiry, ...],
    by: Actor | None,
    now: datetime,
    *,
    unknown: tuple[Inquiry, ...] = (),
) -> Changes:
    """The task stopped: what was open (or just raised) is withdrawn, what ran has an `unknown` end."""
    opened = (*(i for i in snap.inquiries if i.open), *asked)
    gone = tuple(i.having(state=move(INQUIRY, i.state, InquiryEvent.WITHDRAW)) for i in opened)
    told = (
        *(notes.of_inquiry(Event.OUTCOME_UNKNOWN, i, now, None, "") for i in unknown),
        *(notes.of_inquiry(Event.WITHDRAWN, i, now, by, "") for i in gone),
    )
    task = _to(snap.task, TaskEvent.STOP, now).having(
        usage=_waited(snap.task, now), waiting_since=None, retry_at=None
    )
    return Changes(task=task, inquiries=(*unknown, *gone), notes=(*told, notes.ended(task, now)))


def _stuck_unknown(task: Task, lost_calls: tuple[Inquiry, ...], now: datetime) -> Changes:
    numbers = ", ".join(f"#{i.number}" for i in lost_calls)
    failure = Failure(
        code="outcome_unknown",
        message=f"The worker stopped while request {numbers} ran. It may or may not have taken effect.",
        hint="Check what happened. Retry goes on without running it again; Stop ends the job.",
    )
    stuck = _to(task, TaskEvent.STICK, now).having(failure=failure)
    told = tuple(notes.of_inquiry(Event.OUTCOME_UNKNOWN, i, now, None, "") for i in lost_calls)
    return Changes(task=stuck, inquiries=lost_calls, notes=(*told, notes.ended(stuck, now)))


def _lost(inquiry: Inquiry) -> Inquiry:
    state = move(EXECUTION, inquiry.run.state, ExecutionEvent.LOSE)
    result: Inquiry = inquiry.having(run=inquiry.run.having(state=state))
    return result


def open_inquiries(inquiries: Iterable[Inquiry]) -> tuple[Inquiry, ...]:
    """Those that still wait for a person, oldest first."""
    return tuple(sorted((i for i in inquiries if i.open), key=lambda i: i.number))
