"""Moments as people write them at a command: how long ago, or a date."""

from __future__ import annotations

from datetime import UTC, datetime

from agent_runner.durations import parse_duration
from agent_runner.errors import FixInput

ALLOWED = "Write how long ago (30m, 12h, 7d; at most 366d), a date (2026-01-31) or a time in ISO 8601."


def moment(text: str, option: str, now: datetime) -> datetime:
    """`7d` is a week before `now`, `2026-01-31` midnight UTC; raises `FixInput` with what is allowed."""
    try:
        return now - parse_duration(text.strip())
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text.strip())
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise FixInput(f"{option} cannot be {text!r}.", hint=ALLOWED) from None
