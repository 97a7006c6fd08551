"""Conditions of an approval that a program can check, as data: until when, where, with what, how often.

Values and their English words; `condition_checks` says whether a call keeps them, and
`cards.conditions` reads and writes them in people's languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, model_validator

LONGEST = 200
"""Characters of a path, a text or a pattern: generous for a person's line, small for a matcher."""
MOST_TIMES = 100
"""How often one approval can let a call run; what runs more often belongs in the policy."""


class ConditionKind(StrEnum):
    """What is limited: `before` a time, `in` a path, `with` a text or pattern, `times` it may run."""

    BEFORE = "before"
    IN = "in"
    WITH = "with"
    TIMES = "times"


class Condition(BaseModel):
    """One condition. Everything that was said must hold, so two of one kind narrow each other."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ConditionKind
    value: str
    """A time in UTC (`before`), a path (`in`), a text or `/pattern/` (`with`), a number (`times`)."""

    @model_validator(mode="after")
    def _readable(self) -> Condition:
        """A condition that cannot be read must never pass for one that holds."""
        match self.kind:
            case ConditionKind.BEFORE:
                if datetime.fromisoformat(self.value).tzinfo is None:
                    raise ValueError("a time needs its zone")
            case ConditionKind.TIMES:
                if not re.fullmatch(r"[0-9]{1,6}", self.value):
                    raise ValueError("not a whole number")
            case _:
                if not self.value or len(self.value) > LONGEST or not self.value.isprintable():
                    raise ValueError(f"not 1 to {LONGEST} visible characters")
        return self

    @property
    def moment(self) -> datetime:
        """The time of a `before`."""
        return datetime.fromisoformat(self.value).astimezone(UTC)

    @property
    def count(self) -> int:
        """The number of a `times`."""
        return int(self.value)

    @property
    def pattern(self) -> str:
        """What stands between the slashes of a `with`; '' if it is plain text."""
        found = re.fullmatch(r"/(.+)/", self.value) if self.kind is ConditionKind.WITH else None
        return found[1] if found else ""

    @property
    def words(self) -> str:
        """The condition in English, for the model."""
        match self.kind:
            case ConditionKind.BEFORE:
                return f"only before {self.moment:%Y-%m-%d %H:%M} UTC"
            case ConditionKind.TIMES:
                return f"at most {self.count} time{'' if self.count == 1 else 's'}"
            case _:
                return f"only {self.kind} {self.value}"


def before(when: datetime) -> Condition:
    """`before` a time, to the minute: it is shown to the minute, and earlier is the safe side."""
    exact = when.astimezone(UTC).replace(second=0, microsecond=0)
    return Condition(kind=ConditionKind.BEFORE, value=exact.isoformat())


def with_text(text: str) -> Condition:
    """`with` a plain text; one that looks like a pattern becomes the pattern that means the same."""
    looks_like_one = len(text) > 2 and text.startswith("/") and text.endswith("/")
    literal = "".join(char if char.isalnum() or char in "_- " else f"\\{char}" for char in text)
    return Condition(kind=ConditionKind.WITH, value=f"/{literal}/" if looks_like_one else text)


def in_words(conditions: Iterable[Condition]) -> str:
    """All of them in English."""
    return "; ".join(condition.words for condition in conditions)


def deadline(conditions: Iterable[Condition]) -> datetime | None:
    """The earliest time before which the call must start."""
    return min((c.moment for c in conditions if c.kind is ConditionKind.BEFORE), default=None)


def times(conditions: Iterable[Condition]) -> int | None:
    """How often the call may run; None if nothing is said about it."""
    return min((c.count for c in conditions if c.kind is ConditionKind.TIMES), default=None)
