"""What happens to a call about which people are asked, beside their decision. Pure, as `lifecycle` is.

A call at which the process ended is made by the resume. The others have to be made again by the
model (refused for the moment beside another one, or asked by a process that is gone), and then
find what people said: an approval for one run, a refusal to be told once.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from agent_runner import granting, notes
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.audit import Event
from agent_runner.errors import WrongState
from agent_runner.model import Execution, Hold, Inquiry, InquiryState, Run, TaskState
from agent_runner.state import EXECUTION, INQUIRY, ExecutionEvent, InquiryEvent, move

MOST_REFUSALS = 3
"""How often people may refuse one call of a task before the model is told to stop instead of asking."""

_GOES_ON = (TaskState.WAITING, TaskState.QUEUED)
_OVER = (TaskState.DONE, TaskState.STOPPED)


def made_again(snap: Snapshot, call_digest: str) -> Inquiry | None:
    """The inquiry that a call belongs to which the model makes again: decided, and not used yet."""
    for inquiry in snap.inquiries:
        if inquiry.hold is not Hold.DEFERRED and inquiry.awaited and inquiry.digest == call_digest:
            return inquiry
    return None


def asked_live(snap: Snapshot, call_digest: str) -> Inquiry | None:
    """The open inquiry about such a call whose process is gone: the next one waits for the same answer."""
    for inquiry in snap.inquiries:
        if inquiry.hold is Hold.LIVE and inquiry.open and inquiry.digest == call_digest:
            return inquiry
    return None


def refusals(snap: Snapshot, call_digest: str) -> int:
    """How often people refused exactly this call in this task."""
    return sum(i.state is InquiryState.REJECTED and i.digest == call_digest for i in snap.inquiries)


def siblings(snap: Snapshot, inquiry: Inquiry) -> tuple[Inquiry, ...]:
    """The other calls of the same model turn about which the model has yet to learn what people said."""
    return tuple(
        other
        for other in snap.inquiries
        if other.batch == inquiry.batch
        and other.id != inquiry.id
        and other.hold is Hold.SIBLING
        and other.awaited
    )


def ask(snap: Snapshot, inquiry: Inquiry, now: datetime) -> Changes:
    """Asks about a call for which a process of the running turn waits."""
    if snap.task.state is not TaskState.RUNNING or snap.task.stop_requested_by:
        raise WrongState("Nothing can be asked any more: the job is being stopped.")
    words = inquiry.agent_words
    note = notes.of_inquiry(Event.INQUIRY_ASKED, inquiry, now, inquiry.asked_by, words, rule=inquiry.rule)
    return Changes(task=snap.task.having(updated_at=now), inquiries=(inquiry,), notes=(note,), answer=inquiry)


def dispatch(snap: Snapshot, inquiry_id: str, tool_use_id: str, now: datetime) -> Changes:
    """Marks an approved call as started, before it may run: once, and only from here."""
    inquiry = snap.inquiry(inquiry_id)
    if not inquiry.run_allowed:
        raise WrongState(f"Request #{inquiry.number} is {inquiry.state}: it may not run.")
    if inquiry.settled:
        raise WrongState(f"The approval of request #{inquiry.number} is over: it may not run any more.")
    if snap.task.state is not TaskState.RUNNING or snap.task.stop_requested_by:
        raise WrongState(f"Request #{inquiry.number} may not run any more: the job is being stopped.")
    run = Run(state=move(EXECUTION, inquiry.run.state, ExecutionEvent.START), started_at=now)
    running = inquiry.having(run=run, tool_use_id=tool_use_id)
    counted = granting.first_use(snap, inquiry)
    note = notes.of_inquiry(Event.DISPATCHED, running, now, None, "")
    task = snap.task.having(updated_at=now)
    return Changes(task=task, inquiries=(running,), notes=(note,), grants=counted, answer=running)


def finished(snap: Snapshot, inquiry_id: str, *, failed: bool, output: str, now: datetime) -> Changes:
    """Records that a started call ended, and how."""
    inquiry = snap.inquiry(inquiry_id)
    if inquiry.run.state is not Execution.STARTED:
        return Changes()
    state = move(EXECUTION, inquiry.run.state, ExecutionEvent.FINISH)
    run = inquiry.run.having(state=state, finished_at=now, failed=failed, output=output)
    ran = inquiry.having(run=run)
    note = notes.of_inquiry(Event.FINISHED, ran, now, None, "", failed=failed, output=output)
    return Changes(task=snap.task.having(updated_at=now), inquiries=(ran,), notes=(note,))


def held_back(snap: Snapshot, inquiry_id: str, tool_use_id: str, why: str, now: datetime) -> Changes:
    """A call that people had let run does not: notes why, unless it did run or that is noted already."""
    inquiry = snap.inquiry(inquiry_id)
    if inquiry.run.state is not Execution.NONE or inquiry.run.refused == why:
        return Changes()
    over = inquiry.hold is not Hold.DEFERRED  # made again once more, it is asked about anew
    run = inquiry.run.having(refused=why)
    refused = inquiry.having(run=run, tool_use_id=tool_use_id, settled=inquiry.settled or over)
    note = notes.of_inquiry(Event.CALL_DENIED, refused, now, None, "", why=why)
    return Changes(task=snap.task.having(updated_at=now), inquiries=(refused,), notes=(note,))


def told(snap: Snapshot, inquiry_id: str, tool_use_id: str, now: datetime) -> Changes:
    """The model made a call to which people had said no, and was told so: the next one is a new one."""
    inquiry = snap.inquiry(inquiry_id)
    if not inquiry.awaited:
        raise WrongState(f"Request #{inquiry.number} has nothing more to tell.")
    known = inquiry.having(settled=True, tool_use_id=tool_use_id)
    note = notes.of_inquiry(Event.REFUSAL_TOLD, known, now, None, "")
    return Changes(task=snap.task.having(updated_at=now), inquiries=(known,), notes=(note,), answer=known)


def over(snap: Snapshot, changes: Changes, now: datetime, *, begun: bool = True) -> Changes:
    """`changes` that end a turn, with what becomes of calls that no process waits for any more.

    An approved call that only the model can make stays good while the task goes on, and is on
    record as approved and not run when it ends. A turn that failed, or had not `begun`, can be tried
    again: the call at which its process had ended is still to be made.
    """
    after = changes.task or snap.task
    known = {i.id for i in changes.inquiries}
    mine = [i for i in snap.inquiries if i.id not in known]
    made = begun and after.state in _GOES_ON
    gone = tuple(
        i.having(state=move(INQUIRY, i.state, InquiryEvent.WITHDRAW))
        for i in mine
        if i.open and i.hold is Hold.LIVE
    )
    unused = tuple(
        i.having(settled=True)
        for i in mine
        if i.awaited and (after.state in _OVER or (i.hold is Hold.DEFERRED and made))
    )
    said = (
        *(notes.of_inquiry(Event.WITHDRAWN, i, now, None, "") for i in gone),
        *(notes.of_inquiry(Event.NOT_RUN, i, now, None, "") for i in unused if _lapsed(i)),
    )
    inquiries = (*changes.inquiries, *gone, *unused)
    return replace(changes, inquiries=inquiries, notes=(*said, *changes.notes))


def _lapsed(inquiry: Inquiry) -> bool:
    """Whether it was approved, and neither ran nor was held back (that is on record already)."""
    return inquiry.run_allowed and not inquiry.run.refused
