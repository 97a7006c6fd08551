"""A task with everything that belongs to it, as read, and as it is to be written. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent_runner.audit import Note
from agent_runner.errors import NotFound
from agent_runner.model import Grant, Inquiry, Message, Task


@dataclass(frozen=True)
class Snapshot:
    """A task with its inquiries (oldest first) and grants, as read in one transaction."""

    task: Task
    inquiries: tuple[Inquiry, ...] = ()
    grants: tuple[Grant, ...] = ()

    def inquiry(self, inquiry_id: str) -> Inquiry:
        """The inquiry of that id; raises `NotFound`."""
        for inquiry in self.inquiries:
            if inquiry.id == inquiry_id:
                return inquiry
        raise NotFound(f"There is no request {inquiry_id} in this task.")

    def grant(self, grant_id: str) -> Grant:
        """The grant of that id; raises `NotFound`."""
        for grant in self.grants:
            if grant.id and grant.id == grant_id:
                return grant
        raise NotFound(f"There is no grant {grant_id}.", hint="`countersign grants list` shows them.")

    @property
    def batch(self) -> tuple[Inquiry, ...]:
        """The inquiries the task waits for, or that the queued turn resumes."""
        return tuple(i for i in self.inquiries if i.batch == self.task.batch)

    def after(self, changes: Changes) -> Snapshot:
        """What is stored once `changes` (not empty ones) are written: each thing's next revision."""
        task = (changes.task or self.task).having(revision=self.task.revision + 1)
        new = {i.id: i for i in changes.inquiries}
        kept = tuple(
            new.pop(i.id).having(revision=i.revision + 1) if i.id in new else i for i in self.inquiries
        )
        added = tuple(i.having(revision=1) for i in new.values())
        fresh = {g.id: g for g in changes.grants if g.id}
        grants = tuple(fresh.pop(g.id, g) for g in self.grants)
        given = tuple(g for g in changes.grants if not g.id or g.id in fresh)
        return Snapshot(task, kept + added, grants + given)


@dataclass(frozen=True)
class Changes:
    """What a transaction writes. Empty means: nothing, not even a new revision."""

    task: Task | None = None
    inquiries: tuple[Inquiry, ...] = ()
    messages: tuple[Message, ...] = ()
    notes: tuple[Note, ...] = ()
    grants: tuple[Grant, ...] = ()
    enqueue: bool = False
    release_lease: bool = False
    spent: float = 0.0
    """Dollars that count to the day of the workspace."""
    answer: Any = field(default=None, compare=False)
    """Handed back to the caller of `transact`."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return self.task is None and not (self.inquiries or self.messages or self.notes or self.grants)
