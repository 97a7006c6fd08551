"""What people say about being away, in three languages, and what is only talk."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cards.absent import Back, Leaving, heard, moment

NOW = datetime(2026, 12, 1, 14, 30, tzinfo=timezone(timedelta(hours=8)))  # a Tuesday

SAID: list[tuple[str, Leaving | Back | None]] = [
    ("away until 5 Dec -> mei", Leaving("", "5 Dec", "mei")),
    ("Away until Friday → @mei.", Leaving("", "Friday", "mei")),
    ("I'm away for 3 days -> Mei Lin", Leaving("", "3 days", "Mei Lin")),
    ("i am away until 18:00 => mei", Leaving("", "18:00", "mei")),
    ("lin away until 2026-12-05 -> mei", Leaving("lin", "2026-12-05", "mei")),
    ("lin is away until 2026-12-05 -> mei", Leaving("lin", "2026-12-05", "mei")),
    ("离开到 12月5日 -> 美美", Leaving("", "12月5日", "美美")),
    ("我离开到12月5日 18:00 －＞ 美美。", Leaving("", "12月5日 18:00", "美美")),
    ("小林 请假到 周五 → 美美", Leaving("小林", "周五", "美美")),
    ("不在 12/5まで -> mei", Leaving("", "12/5", "mei")),
    ("lin は 不在 12/5まで -> mei", Leaving("lin", "12/5", "mei")),
    ("12/5まで不在 → mei", Leaving("", "12/5", "mei")),
    ("away", Leaving("", "", "")),
    ("away until friday", Leaving("", "friday", "")),
    ("away until friday ->", Leaving("", "friday ->", "")),
    ("离开到周五", Leaving("", "周五", "")),
    ("不在 12/5まで", Leaving("", "12/5", "")),
    ("back", Back("")),
    ("I'm back!", Back("")),
    ("lin is back", Back("lin")),
    ("回来了", Back("")),
    ("我回来了。", Back("")),
    ("戻りました", Back("")),
    ("小林が戻りました", Back("小林")),
    ("go away until friday", None),
    ("the pods are away until friday", None),
    ("rename a -> b", None),
    ("back up the database", None),
    ("roll back", None),
    ("is lin back?", None),
    ("请假到周五的人有哪些", None),
    ("throw it away", None),
    ("1", None),
    ("", None),
]


@pytest.mark.parametrize(("said", "expected"), SAID)
def test_what_is_heard(said: str, expected: Leaving | Back | None) -> None:
    """The forms, as typed; whatever is not one of them whole is left to others."""
    assert heard(said) == expected


WHEN: list[tuple[str, str | None]] = [
    ("2026-12-05", "2026-12-05 23:59"),
    ("2026-12-05 18:00", "2026-12-05 18:00"),
    ("2026-12-05T18:00", "2026-12-05 18:00"),
    ("2026/12/5", "2026-12-05 23:59"),
    ("2026年12月5日", "2026-12-05 23:59"),
    ("12/5", "2026-12-05 23:59"),
    ("１２／５", "2026-12-05 23:59"),
    ("12月5日", "2026-12-05 23:59"),
    ("12月5号18点", "2026-12-05 18:00"),
    ("12月5日 18時半", "2026-12-05 18:30"),
    ("12月5日18:15", "2026-12-05 18:15"),
    ("5 Dec", "2026-12-05 23:59"),
    ("5th December 18:00", "2026-12-05 18:00"),
    ("Dec 5", "2026-12-05 23:59"),
    ("Dec 5, 2027", "2027-12-05 23:59"),
    ("11/30", "2027-11-30 23:59"),
    ("1 Dec", "2026-12-01 23:59"),
    ("1 Dec 14:00", "2027-12-01 14:00"),
    ("18:00", "2026-12-01 18:00"),
    ("9:00", "2026-12-02 09:00"),
    ("9点", "2026-12-02 09:00"),
    ("today", "2026-12-01 23:59"),
    ("tomorrow 9:00", "2026-12-02 09:00"),
    ("明天 9:00", "2026-12-02 09:00"),
    ("明日", "2026-12-02 23:59"),
    ("friday", "2026-12-04 23:59"),
    ("Fri 18:00", "2026-12-04 18:00"),
    ("tuesday", "2026-12-01 23:59"),
    ("tuesday 9:00", "2026-12-08 09:00"),
    ("周五", "2026-12-04 23:59"),
    ("星期天 12:00", "2026-12-06 12:00"),
    ("金曜日", "2026-12-04 23:59"),
    ("3d", "2026-12-04 14:30"),
    ("4 hours", "2026-12-01 18:30"),
    ("2 weeks", "2026-12-15 14:30"),
    ("3天", "2026-12-04 14:30"),
    ("3日間", "2026-12-04 14:30"),
    ("2026-11-30", "2026-11-30 23:59"),
    ("29 Feb 2028", "2028-02-29 23:59"),
    ("29 Feb 2027", None),
    ("31/12", None),
    ("13月1日", None),
    ("25:00", None),
    ("18:60", None),
    ("next friday", None),
    ("soon", None),
    ("5", None),
    ("0d", None),
    ("", None),
]


@pytest.mark.parametrize(("said", "expected"), WHEN)
def test_until_when(said: str, expected: str | None) -> None:
    """A day lasts until its end, what names no year or day is the next; what is unclear is nothing."""
    found = moment(said, NOW)
    assert (f"{found:%Y-%m-%d %H:%M}" if found else None) == expected
    assert found is None or found.tzinfo is NOW.tzinfo


@given(st.text(max_size=80))
def test_any_words_can_be_heard(said: str) -> None:
    """Nothing that somebody types makes it fail."""
    heard(said)
    moment(said, NOW)


@given(st.dates(date(2026, 1, 1), date(2090, 12, 31)), st.sampled_from(["", " 18:05"]))
def test_a_whole_date_is_read_back(day: date, clock: str) -> None:
    """Written in full it means itself."""
    found = moment(f"{day:%Y-%m-%d}{clock}", NOW.astimezone(UTC))
    assert f"{found:%Y-%m-%d %H:%M}" == f"{day:%Y-%m-%d}{clock or ' 23:59'}"


@given(st.sampled_from(["5 Dec", "away until 5 Dec -> mei", "12月5日 18:00"]), st.text(max_size=9))
def test_more_words_than_a_form_are_no_form(form: str, more: str) -> None:
    """Neither in front nor behind: only what stands alone is heard."""
    if more.strip(" .。!！\n\t") and "\n" in more:
        assert heard(f"{form}\n{more}") is None or more.strip() == ""
