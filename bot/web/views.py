"""Stored values -> the JSON of the API. Times are ISO 8601 in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agent_runner.audit import Entry
from agent_runner.errors import (
    AlreadyDecided,
    CountersignError,
    Expired,
    FixInput,
    NotAllowed,
    NotFound,
    NotSignedIn,
    ShowAgain,
    TryLater,
    WrongState,
)
from agent_runner.model import Actor, Grant, Inquiry, Message, Progress, Task, TaskState
from bot.together import Chosen
from bot.web.inbound import Malformed, TooLarge

STATUS: tuple[tuple[type[CountersignError], int], ...] = (
    (NotSignedIn, 401),
    (NotAllowed, 403),
    (NotFound, 404),
    (AlreadyDecided, 409),
    (ShowAgain, 409),
    (WrongState, 409),
    (Expired, 410),
    (TooLarge, 413),
    (Malformed, 400),
    (FixInput, 422),
    (TryLater, 503),
)
"""HTTP status of each error; what is not listed is our fault: 500."""

RETRY_AFTER = "1"
"""Seconds a client should wait after 503: the store's restart is a matter of moments."""


def status_of(error: CountersignError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def error(raised: CountersignError) -> dict[str, Any]:
    """`{"error": {"code", "message", "hint"}}`; for a lost race also who decided, and how."""
    told: dict[str, Any] = {"code": raised.code, "message": raised.message, "hint": raised.hint}
    if isinstance(raised, AlreadyDecided):
        told |= {"by": raised.details.get("by", ""), "state": raised.details.get("state", "")}
    return {"error": told}


def listed(items: Sequence[dict[str, Any]], following: str | int | None) -> dict[str, Any]:
    """The shape of every list. `next` is the cursor of the following page, a text, or null."""
    return {"items": list(items), "next": None if following is None else str(following)}


def person(actor: Actor | None) -> dict[str, str] | None:
    """A person as others may see them."""
    if actor is None:
        return None
    return {
        "name": actor.name,
        "person": actor.person,
        "platform": actor.platform,
        "tenant": actor.tenant,
        "user_id": actor.user_id,
    }


def task_line(task: Task, now: datetime) -> dict[str, Any]:
    """A task as lists show it: without its messages and inquiries."""
    kept = ("id", "number", "state", "workspace", "session_id", "text", "created_at", "updated_at")
    shown = task.model_dump(mode="json", include={*kept, "result", "failure"})
    shown["asked_by"] = person(task.asked_by)
    shown["usage"] = {**task.usage.model_dump(mode="json"), "waiting_ms": waiting_ms(task, now)}
    shown["follow_ups"] = [
        {"text": words.text, "by": person(words.by), "at": dumped["at"]}
        for words, dumped in zip(
            task.follow_ups, task.model_dump(mode="json", include={"follow_ups"})["follow_ups"], strict=True
        )
    ]
    return shown


def task(
    task: Task,
    inquiries: Sequence[Inquiry],
    messages: Sequence[Message],
    progress: Progress | None,
    now: datetime,
) -> dict[str, Any]:
    """A task with everything in it."""
    return {
        **task_line(task, now),
        "messages": [message(line) for line in messages],
        "inquiries": [inquiry(one) for one in inquiries],
        "progress": progress.model_dump(mode="json") if progress else None,
    }


def waiting_ms(task: Task, now: datetime) -> int:
    """How long people were waited for, including the wait that goes on now."""
    if task.state is not TaskState.WAITING or task.waiting_since is None:
        return task.usage.waiting_ms
    return task.usage.waiting_ms + max(0, int((now - task.waiting_since).total_seconds() * 1000))


def message(line: Message) -> dict[str, Any]:
    """One line of the thread."""
    return {**line.model_dump(mode="json", include={"role", "text", "at"}), "by": person(line.by)}


def inquiry(inquiry: Inquiry) -> dict[str, Any]:
    """A request with everything that is needed to decide it, and what became of it."""
    hidden = {"run", "before", "cwd", "tool_use_id", "asked_by", "votes", "decision"}
    shown = inquiry.model_dump(mode="json", exclude=hidden)
    dumped = inquiry.model_dump(mode="json", include={"votes", "decision", "run"})
    shown["asked_by"] = person(inquiry.asked_by)
    shown["votes"] = [
        {**raw, "by": person(vote.by)} for raw, vote in zip(dumped["votes"], inquiry.votes, strict=True)
    ]
    decision = inquiry.decision
    shown["decision"] = {**dumped["decision"], "by": person(decision.by)} if decision else None
    run = dumped["run"]
    shown["execution"] = run["state"]
    shown["execution_failed"] = run["failed"]
    shown["started_at"], shown["finished_at"] = run["started_at"], run["finished_at"]
    shown["held_back"] = run["refused"]
    shown["output"] = run["output"]
    return shown


def chosen(chosen: Chosen, steps: Sequence[Inquiry]) -> dict[str, Any]:
    """What came of one word about all steps of a batch, step by step."""
    recorded = {step.id: step for step in chosen.steps}
    items = []
    for step in steps:
        result = "recorded" if step.id in recorded else "left"
        if step.number in chosen.not_allowed:
            result = "not_allowed"
        elif step.number in chosen.changed:
            result = "not_seen"
        items.append({"id": step.id, "number": step.number, "result": result, "state": step.state})
    return {"verdict": chosen.verdict, "items": items}


def grant(grant: Grant) -> dict[str, Any]:
    """An approval that outlives one call: what it covers, where, until when, and by whom."""
    kept = ("id", "task_id", "inquiry_id", "number", "rule", "workspace", "at", "until", "revoked_at")
    shown = grant.model_dump(mode="json", include={*kept, "digest", "times", "used"})
    return {**shown, "by": person(grant.by), "revoked_by": person(grant.revoked_by)}


def entry(entry: Entry) -> dict[str, Any]:
    """An entry of the record, exactly as its hash covers it: anybody can verify the chain."""
    return entry.model_dump(mode="json")
