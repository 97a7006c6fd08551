from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.durations import format_duration
from agent_runner.errors import FixInput
from bot.since import moment

NOW = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", NOW - timedelta(days=7)),
        (" 12h ", NOW - timedelta(hours=12)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T18:00:00Z", datetime(2026, 1, 31, 18, tzinfo=UTC)),
        ("2026-01-31 18:00+08:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_how_long_ago_or_when(text: str, expected: datetime) -> None:
    """A duration counts back from now; a date without a zone is in UTC."""
    assert moment(text, "--since", NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "7", "7 days", "-1d", "0h", "367d", "2026-02-30", "0001-01-01T00:00+14:00"]
)
def test_anything_else_is_refused_with_what_is_allowed(text: str) -> None:
    """A time that is none says which option it was given to and how one is written."""
    with pytest.raises(FixInput) as refused:
        moment(text, "--until", NOW)
    assert (refused.value.message, "7d" in refused.value.hint) == (f"--until cannot be {text!r}.", True)


@given(st.text(max_size=12))
def test_any_words_are_a_time_or_refused(text: str) -> None:
    """Nothing a person types ends in another error, and what is read has a zone."""
    with contextlib.suppress(FixInput):
        assert moment(text, "--since", NOW).tzinfo is UTC


@given(st.integers(1, 366 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes)))
def test_every_duration_that_a_file_may_hold_is_one_here(span: timedelta) -> None:
    """The command knows the configuration's spelling of durations."""
    assert NOW - moment(format_duration(span), "--since", NOW) == span
