"""How each event is put on record: the notes that `lifecycle` writes."""

from __future__ import annotations

from datetime import datetime

from agent_runner.audit import Event, Note
from agent_runner.model import Actor, Grant, Inquiry, Task


def of_task(
    event: Event,
    task: Task,
    now: datetime,
    *,
    actor: Actor | None = None,
    words: str = "",
    details: dict[str, object] | None = None,
) -> Note:
    """Something about a task."""
    return Note(event=event, at=now, task_id=task.id, actor=actor, words=words, details=details or {})


def of_inquiry(
    event: Event, inquiry: Inquiry, now: datetime, actor: Actor | None, words: str, **details: object
) -> Note:
    """Something about an inquiry; when it is asked, with its whole input."""
    about = {"number": inquiry.number, "tool_name": inquiry.tool_name, **details}
    if event is Event.INQUIRY_ASKED:
        about["tool_input"] = inquiry.tool_input
    return Note(
        event=event,
        at=now,
        task_id=inquiry.task_id,
        inquiry_id=inquiry.id,
        actor=actor,
        digest=inquiry.digest,
        words=words,
        details=about,
    )


def of_grant(event: Event, grant: Grant, now: datetime, actor: Actor) -> Note:
    """A grant that was given or taken back: what it covers, where, and until when."""
    about = grant.model_dump(mode="json", include={"id", "number", "rule", "workspace", "until"})
    if grant.times is not None:
        about |= {"times": grant.times, "used": grant.used}
    return Note(
        event=event,
        at=now,
        task_id=grant.task_id,
        inquiry_id=grant.inquiry_id,
        actor=actor,
        digest=grant.digest,
        details={"grant": about.pop("id"), **about},
    )


def ended(task: Task, now: datetime) -> Note:
    """How a task ended, with its accounts."""
    details: dict[str, object] = {"state": task.state, "usage": task.usage.model_dump()}
    if task.failure:
        details["failure"] = task.failure.model_dump()
    return of_task(Event.TASK_ENDED, task, now, words=task.result or "", details=details)
