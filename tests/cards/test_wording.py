"""All languages say all things, and write numbers, money and times their own way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from string import Formatter

import pytest

from agent_runner import errors
from cards import wording
from cards.model import Ours, Theirs


def _places(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


@pytest.mark.parametrize("lang", wording.LANGUAGES)
def test_every_language_has_every_sentence(lang: str) -> None:
    """Keys and places are the same everywhere, and no sentence is empty."""
    table, english = wording.TABLES[lang], wording.TABLES["en"]
    assert table.keys() == english.keys()
    assert {key: _places(table[key]) for key in english} == {key: _places(english[key]) for key in english}
    assert all(table.values())


@pytest.mark.parametrize(
    ("seconds", "en", "zh", "ja"),
    [
        (0, "0 s", "0 秒", "0 秒"),
        (0.4, "less than 1 s", "不到 1 秒", "1 秒未満"),
        (41, "41 s", "41 秒", "41 秒"),
        (140, "2 min 20 s", "2 分 20 秒", "2 分 20 秒"),
        (180, "3 min", "3 分", "3 分"),
        (59 * 60 + 59, "59 min", "59 分", "59 分"),
        (3 * 3600 + 300, "3 h 5 min", "3 小时 5 分", "3 時間 5 分"),
        (2 * 86400 + 4 * 3600, "2 d 4 h", "2 天 4 小时", "2 日 4 時間"),
        (-5, "0 s", "0 秒", "0 秒"),
    ],
)
def test_durations(seconds: float, en: str, zh: str, ja: str) -> None:
    """Two units at most, in words."""
    span = timedelta(seconds=seconds)
    assert [wording.duration(lang, span) for lang in ("en", "zh", "ja")] == [en, zh, ja]


@pytest.mark.parametrize(
    ("usd", "en", "zh", "ja"),
    [
        (0, "$0.00", "0.00 美元", "0.00 ドル"),
        (0.004, "less than $0.01", "不到 0.01 美元", "0.01 ドル未満"),
        (0.081, "$0.08", "0.08 美元", "0.08 ドル"),
        (1234.5, "$1,234.50", "1,234.50 美元", "1,234.50 ドル"),
    ],
)
def test_money(usd: float, en: str, zh: str, ja: str) -> None:
    """What costs something never reads as free."""
    assert [wording.money(lang, usd) for lang in ("en", "zh", "ja")] == [en, zh, ja]


@pytest.mark.parametrize(
    ("when", "en", "zh", "ja"),
    [
        (datetime(2026, 11, 30, 6, 3, tzinfo=UTC), "14:03", "14:03", "14:03"),
        (datetime(2026, 11, 30, 18, 0, tzinfo=UTC), "1 December, 02:00", "12月1日 02:00", "12月1日 02:00"),
        (
            datetime(2027, 1, 2, 0, 0, tzinfo=UTC),
            "2 January 2027, 08:00",
            "2027年1月2日 08:00",
            "2027年1月2日 08:00",
        ),
    ],
)
def test_times_are_the_readers(when: datetime, en: str, zh: str, ja: str) -> None:
    """In the reader's zone; with the date unless it is the reader's today."""
    zone, now = timezone(timedelta(hours=8)), datetime(2026, 11, 30, 6, 30, tzinfo=UTC)
    assert [wording.moment(lang, when, zone=zone, now=now) for lang in ("en", "zh", "ja")] == [en, zh, ja]


def test_numbers_and_counts() -> None:
    """Thousands are grouped, one is singular."""
    assert wording.number("en", 12345) == "12,345"
    assert wording.number("zh", 2.50) == "2.5"
    assert [wording.count("en", "steps", n) for n in (1, 2, 1000)] == ["1 step", "2 steps", "1,000 steps"]


def test_untrusted_places_stay_marked() -> None:
    """A name with braces and markup in it stays one piece of theirs."""
    name = Theirs(raw="{x} <b>")
    line = wording.line("en", "may_decide", who=name)
    assert line == (name, Ours(text=" may decide"))


CODES = {
    kind.code
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.CountersignError)
} | {"too_large", "malformed_json", "wrong_method", "wrong_host", "foreign_site"}
"""Of the whole tree of errors, and of what only the web page refuses."""


@pytest.mark.parametrize("lang", wording.LANGUAGES)
def test_every_error_has_words(lang: str) -> None:
    """No error of ours is told in its raw English message."""
    for code in CODES:
        assert wording.error(lang, code, message="raw") != "raw"


@pytest.mark.parametrize(
    ("code", "details", "said"),
    [
        ("already_decided", {}, "Already decided. Nothing was changed."),
        ("already_decided", {"by": "lin", "other": 1}, "Already decided by lin. Nothing was changed."),
        ("already_decided", {"by": ""}, "Already decided. Nothing was changed."),
        ("made_up", {"message": "The moon is in the way."}, "The moon is in the way."),
        ("made_up", {}, "Something went wrong. Look at how it stands, then try again."),
    ],
)
def test_errors(code: str, details: dict[str, str], said: str) -> None:
    """Details are told where they are known; an unknown code falls back to its message."""
    assert wording.error("en", code, **details) == said


def test_an_unknown_language_reads_english() -> None:
    """A card is never lost to a missing translation."""
    assert wording.text("tlh", "button.approve") == "Approve"
