"""The hash-chained record: who was asked what, who decided, what then ran.

One chain per task. An entry's `hash` covers everything in it, its `prev` is the hash of the
entry before, so an edited, removed, added or moved entry breaks the chain at that place.
Entries are sealed inside the transaction that makes the change they tell (see `store`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import AwareDatetime, Field

from agent_runner.digest import canonical
from agent_runner.model import Actor, Value

GENESIS = "0" * 64
"""`prev` of the first entry of a chain."""


class Event(StrEnum):
    """What an entry tells."""

    TASK_ASKED = "task_asked"
    TURN_STARTED = "turn_started"
    INQUIRY_ASKED = "inquiry_asked"
    INQUIRY_SHOWN = "inquiry_shown"
    VOTED = "voted"
    DECIDED = "decided"
    BREAK_GLASS = "break_glass"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    REFUSED_ATTEMPT = "refused_attempt"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    DISPATCHED = "dispatched"
    FINISHED = "finished"
    REFUSAL_TOLD = "refusal_told"
    NOT_RUN = "not_run"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CALL_DENIED = "call_denied"
    GRANT_GIVEN = "grant_given"
    GRANT_USED = "grant_used"
    GRANT_REVOKED = "grant_revoked"
    ALARM = "alarm"
    FOLLOW_UP = "follow_up"
    STOP_REQUESTED = "stop_requested"
    RETRIED = "retried"
    WORKER_LOST = "worker_lost"
    TASK_ENDED = "task_ended"


class Note(Value):
    """An entry before it is sealed: what happened, without its place in the chain."""

    event: Event
    at: AwareDatetime
    task_id: str
    inquiry_id: str = ""
    actor: Actor | None = None
    digest: str = ""
    words: str = ""
    details: dict[str, Any] = Field(default_factory=dict)
    policy_version: str = ""


class Entry(Note):
    """A sealed entry. `seq` counts from 1 within its task's chain."""

    seq: int
    prev: str
    hash: str = ""


def seal(note: Note, last: Entry | None) -> Entry:
    """The entry that follows `last` in its chain (or begins one)."""
    entry = Entry(**dict(note), seq=last.seq + 1 if last else 1, prev=last.hash if last else GENESIS)
    return entry.model_copy(update={"hash": entry_hash(entry)})


def entry_hash(entry: Entry) -> str:
    """SHA-256 (hexadecimal) over the canonical JSON of everything but the hash itself."""
    return hashlib.sha256(canonical(entry.model_dump(mode="json", exclude={"hash"})).encode()).hexdigest()


def first_bad(entries: Iterable[Entry]) -> int | None:
    """The number (from 1) of the first entry that does not follow; None if the chain holds."""
    prev, count = GENESIS, 0
    for count, entry in enumerate(entries, start=1):
        if entry.seq != count or entry.prev != prev or entry.hash != entry_hash(entry):
            return count
        prev = entry.hash
    return None
