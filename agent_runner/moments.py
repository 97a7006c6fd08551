"""What a request's own moments do: the reminder, and the escalation to more people. Each comes once.

Pure, as `lifecycle` is; the clock calls these when `Inquiry.next_moment` has come.
"""

from __future__ import annotations

from datetime import datetime

from agent_runner import notes
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.audit import Event
from agent_runner.model import Inquiry


def remind(snap: Snapshot, inquiry_id: str, now: datetime) -> Changes:
    """Notes that those who are waited for are reminded now; nothing if it is too early, late, or done."""
    inquiry = snap.inquiry(inquiry_id)
    if inquiry.reminded_at or not _due(inquiry, inquiry.remind_at, now):
        return Changes()
    return _told(snap, inquiry.having(reminded_at=now), Event.REMINDED, now)


def escalate(snap: Snapshot, inquiry_id: str, now: datetime) -> Changes:
    """Adds those who are to decide as well; nothing if it is too early, late, or done."""
    inquiry = snap.inquiry(inquiry_id)
    if inquiry.escalated_at or not _due(inquiry, inquiry.escalate_at, now):
        return Changes()
    longer = tuple(dict.fromkeys((*inquiry.approvers, *inquiry.escalate_to)))
    escalated = inquiry.having(escalated_at=now, approvers=longer)
    return _told(snap, escalated, Event.ESCALATED, now, added=list(inquiry.escalate_to))


def _due(inquiry: Inquiry, moment: datetime | None, now: datetime) -> bool:
    """Whether a moment has come while the request can still be decided."""
    return moment is not None and moment <= now < inquiry.expires_at and inquiry.open


def _told(snap: Snapshot, inquiry: Inquiry, event: Event, now: datetime, **details: object) -> Changes:
    note = notes.of_inquiry(event, inquiry, now, None, "", **details)
    return Changes(task=snap.task.having(updated_at=now), inquiries=(inquiry,), notes=(note,))
