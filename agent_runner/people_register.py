"""What Redis knows about people: who is away, and break-glass approvals that wait to be confirmed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from redis import Redis

from agent_runner.absences import Absence
from agent_runner.keys import Keys
from agent_runner.model import Value
from agent_runner.store import answering

CONFIRM_SECONDS = 120
"""How long a break-glass approval waits for its code."""


class Unconfirmed(Value):
    """A break-glass approval before its second confirmation: of this person, for what they saw."""

    code: str
    inquiry_id: str
    revision: int
    reason: str


class PeopleRegister:
    """These registers of one store."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    # --- who is away ---------------------------------------------------------------------

    @answering
    def absences(self) -> tuple[Absence, ...]:
        """All that were entered, in the order of names; some may be over."""
        rows: Any = self._client.hgetall(self._keys.away)
        return tuple(Absence.model_validate_json(rows[who]) for who in sorted(rows))

    @answering
    def keep_absence(self, absence: Absence) -> None:
        """Enters somebody's absence in the place of an earlier one."""
        self._client.hset(self._keys.away, absence.who, absence.model_dump_json())

    @answering
    def end_absence(self, who: str) -> bool:
        """Lets somebody be back; whether they were away."""
        return bool(self._client.hdel(self._keys.away, who))

    @answering
    def show_again(self, task_ids: Iterable[str], now: datetime) -> None:
        """Asks the courier to look at tasks again: others are named on their cards now."""
        marks = dict.fromkeys(task_ids, now.timestamp())
        if marks:
            self._client.zadd(self._keys.dirty, marks)
            self._client.xadd(self._keys.changes, {"task": next(iter(marks)), "what": "task"})

    # --- break-glass ---------------------------------------------------------------------

    @answering
    def ask_to_confirm(self, who: str, inquiry_id: str, revision: int, reason: str) -> str:
        """Keeps a break-glass approval for `CONFIRM_SECONDS`; the code that confirms it."""
        code = f"{secrets.randbelow(9_000) + 1_000}"
        kept = Unconfirmed(code=code, inquiry_id=inquiry_id, revision=revision, reason=reason)
        self._client.set(self._keys.break_glass(who), kept.model_dump_json(), ex=CONFIRM_SECONDS)
        return code

    @answering
    def confirmed(self, who: str, code: str) -> Unconfirmed | None:
        """The approval that this person's code confirms, once; a wrong code ends it as well."""
        with self._client.pipeline() as pipe:
            pipe.get(self._keys.break_glass(who))
            pipe.delete(self._keys.break_glass(who))
            raw = pipe.execute()[0]
        kept = Unconfirmed.model_validate_json(raw) if raw else None
        return kept if kept is not None and secrets.compare_digest(kept.code, code) else None
