"""Words about being away: `away until 5 Dec -> mei`, `离开到 12月5日 -> 美美`, `不在 12/5まで -> mei`.

Only what is said in one of these forms, alone, is heard; the rest is ordinary words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from cards.spoken import shadow


class Leaving(NamedTuple):
    """Somebody (`who`, '' for the speaker) is away until then; `to` decides, '' if that was left out."""

    who: str
    until: str
    to: str


class Back(NamedTuple):
    """Somebody is here again."""

    who: str


_TO = r"\s*(?:->|=>|→|⇒)\s*(?P<to>[^\n]+)"
_WHO = r"(?:(?P<who>\S+?)(?:\s+is|\s*は|\s*が)?\s*)??"
_LEAVING = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?:i'm |i am |{_WHO}(?<!\w))away (?:until|till|for) (?P<until>[^\n]+?){_TO}",
        rf"{_WHO}(?:离开|外出|请假|休假)\s*[到至]\s*(?P<until>[^\n]+?)(?:为止)?{_TO}",
        rf"{_WHO}不在\s*(?P<until>[^\n]+?)\s*まで{_TO}",
        rf"(?P<until>[^\n]+?)\s*まで\s*(?P<who>)不在{_TO}",
    )
)
_HALF = re.compile(r"(?:i'm |i am )?away(?: (?:until|till|for) (?P<en>[^\n]{1,40}))?"
                   r"|离开\s*[到至]\s*(?P<zh>[^\n]{1,20})|不在\s*(?P<ja>[^\n]{1,20}?)\s*まで")  # fmt: skip
"""The same without anybody to hand over to: only in the short forms, for it may be talk."""
_BACK = re.compile(
    r"(?:i'm |i am )?back(?: again)?|(?P<en>\S+) is back|(?:我|(?P<zh>\S+?))?\s*回来了"
    r"|(?:(?P<ja>\S+?)[はが])?\s*(?:戻りました|戻った)"
)
_SELF = ("", "i", "我", "我要", "我将", "私", "わたし")


def heard(said: str) -> Leaving | Back | None:
    """What somebody said about being away; None if it is about something else."""
    text = said.strip().rstrip(".。!！ ")
    plain = shadow(text)
    for form in _LEAVING:
        found = form.fullmatch(plain)
        if found:
            who, until, to = (_typed(text, found, name) for name in ("who", "until", "to"))
            return Leaving("" if shadow(who) in _SELF else who, until, to.lstrip("@＠").strip())
    half = _HALF.fullmatch(plain)
    if half:
        until = next((_typed(text, half, name) for name in ("en", "zh", "ja") if half[name]), "")
        return Leaving("", until, "")
    back = _BACK.fullmatch(plain)
    if back:
        return Back(next((_typed(text, back, name) for name in ("en", "zh", "ja") if back[name]), ""))
    return None


def _typed(text: str, found: re.Match[str], name: str) -> str:
    """A part as it was typed: positions in the shadow are positions in the text."""
    start, end = found.span(name)
    return text[start:end].strip() if start >= 0 else ""


# --- until when --------------------------------------------------------------------------

_END_OF_DAY = time(23, 59)
_SPAN = re.compile(
    r"(?P<n>[1-9][0-9]{0,3})\s*(?:(?P<minutes>m|min|mins|minutes?|分钟)|(?P<hours>h|hrs?|hours?|个?小时|時間)"
    r"|(?P<days>d|days?|天|日間)|(?P<weeks>w|weeks?|周|个?星期|週間))"
)
_CLOCK = re.compile(
    r"(?:^|[\sT]|(?<=[日号天曜]))\s*(?:at )?(?P<hour>[0-9]{1,2})"
    r"(?::(?P<minute>[0-9]{2})|[点時](?:(?P<minute2>[0-9]{1,2})分|(?P<half>半))?)$",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_DATES = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?P<year>20[0-9]{2})\s*[-/.年]\s*(?P<month>[0-9]{1,2})\s*[-/.月]\s*(?P<day>[0-9]{1,2})[日号]?",
        r"(?P<month>[0-9]{1,2})(?:/|-|\s*月\s*)(?P<day>[0-9]{1,2})[日号]?",
        rf"(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?\.? {_MONTH}(?: (?P<year>20[0-9]{{2}}))?",
        rf"{_MONTH} (?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>20[0-9]{{2}}))?",
    )
)
_NEAR = {"today": 0, "今天": 0, "今日": 0, "tomorrow": 1, "明天": 1, "明日": 1, "后天": 2, "明後日": 2}
_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY = re.compile(
    r"(?P<en>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs|ur)?(?:day)?"
    r"|(?:周|星期|礼拜)(?P<zh>[一二三四五六日天])|(?P<ja>[月火水木金土日])曜日?"
)
_ZH_DAYS, _JA_DAYS = "一二三四五六日", "月火水木金土日"


def moment(said: str, now: datetime) -> datetime | None:
    """The moment that `5 Dec`, `18:00`, `tomorrow`, `12月5日 18:00` or `3d` means; None if unclear.

    `now` is in the speaker's zone. A day alone lasts until its end; what names no year, or no day,
    is the next such moment.
    """
    plain = shadow(said).strip()
    span = _SPAN.fullmatch(plain)
    if span:
        unit = next(u for u in ("minutes", "hours", "days", "weeks") if span[u])
        return now + timedelta(**{unit: int(span["n"])})
    clock = _CLOCK.search(plain)
    at = _time(clock) if clock else _END_OF_DAY
    day_words = plain[: clock.start()].strip(" ,、的のに") if clock else plain
    if at is None or not plain:
        return None
    if not day_words:
        today = datetime.combine(now.date(), at, now.tzinfo)
        return today if today > now else today + timedelta(days=1)
    days = (datetime.combine(day, at, now.tzinfo) for day in _days(day_words, now.date()))
    found = list(days)
    return next((when for when in found if when > now), found[-1] if found else None)


def _time(clock: re.Match[str]) -> time | None:
    minute = 30 if clock["half"] else int(clock["minute"] or clock["minute2"] or 0)
    hour = int(clock["hour"])
    return time(hour, minute) if hour < 24 and minute < 60 else None


def _days(words: str, today: date) -> Iterator[date]:
    """The days that words can mean, the nearest first."""
    if words in _NEAR:
        yield today + timedelta(days=_NEAR[words])
        return
    weekday = _WEEKDAY.fullmatch(words)
    if weekday:
        ahead = (_index(weekday) - today.weekday()) % 7
        yield from (today + timedelta(days=ahead), today + timedelta(days=ahead + 7))
        return
    for form in _DATES:
        found = form.fullmatch(words)
        if found:
            yield from _calendar(found.groupdict(), today)
            return


def _index(weekday: re.Match[str]) -> int:
    if weekday["en"]:
        return _WEEK.index(weekday["en"])
    return (
        _ZH_DAYS.index(weekday["zh"].replace("天", "日")) if weekday["zh"] else _JA_DAYS.index(weekday["ja"])
    )


def _calendar(parts: dict[str, str | None], today: date) -> Iterator[date]:
    month = int(parts["month"]) if parts.get("month") else _MONTHS.index(str(parts["name"])) + 1  # type: ignore[arg-type]  # there
    years = (int(str(parts["year"])),) if parts.get("year") else (today.year, today.year + 1)
    for year in years:
        try:
            yield date(year, month, int(str(parts["day"])))
        except ValueError:  # no such day that year
            continue
