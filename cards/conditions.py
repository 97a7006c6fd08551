"""Conditions of an approval in people's languages: what was typed -> data, and data -> a line.

`read` is strict: only if the whole text is made of such conditions are they data; anything else
stays words for the agent. What `line` writes, `read` reads back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from string import Formatter

from agent_runner.model import Condition, ConditionKind, before, with_text
from cards import wording
from cards.model import Line, Ours, Theirs
from cards.spoken import shadow

_JOINED = r"\s*(?:[,;、\n]\s*(?:and\b)?|\band\b|和|且|并且|かつ)\s*"
_END = rf"(?={_JOINED}|\s*$)"
_STOP = rf"(?={_JOINED}|\s*[.。]?\s*$)"
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("「", "」"))
_QUOTED = "|".join(f"{begin}[^{begin}{end}\n]+{end}" for begin, end in _QUOTES)
_BARE = r"[^\s,;、\"'“”「」]"
_QUOTED_PATH = "|".join(f"{b}[^{b}{e}\n]*/[^{b}{e}\n]*{e}" for b, e in _QUOTES)
_PATH = rf"(?P<path>{_QUOTED_PATH}|{_BARE}*/{_BARE}*?)"
_TEXT = rf"(?P<text>{_QUOTED}|/(?:[^/\\\n]|\\[^\n])+/|-{_BARE}+?|(?!/){_BARE}+={_BARE}*?)"
_CLOCK = r"(?P<hour>[01]?[0-9]|2[0-3]):(?P<minute>[0-5][0-9])"
_ISO = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})[t ]"
_OFFSET = r"(?::[0-5][0-9](?:\.[0-9]+)?)?(?P<offset>z|[+-][0-9]{2}:?[0-9]{2})?"
_COUNT = r"(?P<times>[0-9]{1,6})"


def _dates(lang: str) -> str:
    """A day with its year and a time, as `line` writes it in this language."""
    months = "|".join(re.escape(shadow(wording.text(lang, f"month.{n}"))) for n in range(12, 0, -1))
    parts = {
        "day": "(?P<day>[0-9]{1,2})",
        "month": f"(?P<name>{months})",
        "year": "(?P<year>[0-9]{4})",
        "clock": _CLOCK,
    }
    template = wording.TABLES[lang]["time.year"]
    return "".join(
        re.escape(literal) + (parts[name] if name else "")
        for literal, name, _, _ in Formatter().parse(template)
    )


_TIMES_OF_DAY = (rf"(?:{_ISO})?{_CLOCK}{_OFFSET}", *dict.fromkeys(map(_dates, wording.LANGUAGES)))
_WHEN_FRAMES = (
    rf"only before {{when}}{_STOP}",
    rf"[仅只]在 ?{{when}} ?之?前{_STOP}",
    rf"仅限 ?{{when}} ?之?前{_STOP}",
    rf"{{when}} ?(?:まで|より前)(?:に限る|のみ){_STOP}",
)
_OTHERS = (
    rf"only in {_PATH}{_END}",
    rf"only with {_TEXT}{_END}",
    rf"at most {_COUNT} times?{_STOP}",
    rf"at most (?P<once>once|twice){_STOP}",
    rf"(?:仅限|[仅只]在) ?(?:在 ?)?{_PATH} ?(?:中|内|里|之内)?{_END}",
    rf"(?:[仅只]当|仅限|必须) ?包含 ?{_TEXT} ?(?:时)?{_END}",
    rf"(?:最多|至多) ?(?:执行 ?|运行 ?)?{_COUNT} ?次{_STOP}",
    rf"{_PATH} ?(?:内|の中)?(?:のみ|に限る){_END}",
    rf"{_TEXT} ?を含む場合(?:のみ|に限る){_END}",
    rf"(?:最大 ?{_COUNT} ?回|(?P<most>[0-9]{{1,6}}) ?回まで){_STOP}",
)
_FORMS = tuple(
    re.compile(form)
    for form in (
        *(frame.replace("{when}", when) for frame in _WHEN_FRAMES for when in _TIMES_OF_DAY),
        *_OTHERS,
    )
)
_BETWEEN = re.compile(_JOINED)
_OVER = re.compile(r"\s*[.。]?\s*")


def read(text: str, *, zone: tzinfo, now: datetime) -> tuple[Condition, ...]:
    """The conditions that the whole text is made of; () if any of it is something else.

    A time of day without a date is its next moment in `zone`.
    """
    said = text.strip()
    plain = shadow(said)
    found: list[Condition] = []
    at = 0
    while True:
        one = next(_clauses(said, plain, at, zone, now), None)
        if one is None:
            return ()
        condition, at = one
        found.append(condition)
        if _OVER.fullmatch(plain, at):
            return tuple(found)
        between = _BETWEEN.match(plain, at)
        if between is None:
            return ()
        at = between.end()


def _clauses(said: str, plain: str, at: int, zone: tzinfo, now: datetime) -> Iterator[tuple[Condition, int]]:
    for form in _FORMS:
        match = form.match(plain, at)
        if match is None:
            continue
        try:
            yield _condition(match, said, zone, now), match.end()
        except (ValueError, OverflowError):  # 30 February, a text that is too long
            continue


def _condition(match: re.Match[str], said: str, zone: tzinfo, now: datetime) -> Condition:
    given = {name: said[match.start(name) : match.end(name)] for name, it in match.groupdict().items() if it}
    if "path" in given:
        return Condition(kind=ConditionKind.IN, value=_unquoted(given["path"])[0])
    if "text" in given:
        text, quoted = _unquoted(given["text"])
        return with_text(text) if quoted else Condition(kind=ConditionKind.WITH, value=text)
    if "hour" in given:
        return before(_moment({name: shadow(value) for name, value in given.items()}, zone, now))
    once = {"once": "1", "twice": "2"}.get(shadow(given.get("once", "")))
    count = once or shadow(given.get("times") or given["most"])
    return Condition(kind=ConditionKind.TIMES, value=str(int(count)))


def _unquoted(value: str) -> tuple[str, bool]:
    quoted = (value[0], value[-1]) in _QUOTES and len(value) > 2
    return (value[1:-1], True) if quoted else (value, False)


def _moment(given: dict[str, str], zone: tzinfo, now: datetime) -> datetime:
    hour, minute = int(given["hour"]), int(given["minute"])
    if "offset" in given:
        offset = given["offset"].replace("z", "+00:00")
        zone = datetime.fromisoformat(f"2000-01-01T00:00{offset}").tzinfo or zone
    if "year" not in given:
        today = now.astimezone(zone).replace(hour=hour, minute=minute, second=0, microsecond=0)
        return today if today > now else today + timedelta(days=1)
    month = int(given["month"]) if "month" in given else _MONTHS[given["name"]]
    return datetime(int(given["year"]), month, int(given["day"]), hour, minute, tzinfo=zone)


_MONTHS = {
    shadow(wording.text(lang, f"month.{number}")): number
    for lang in wording.LANGUAGES
    for number in range(1, 13)
}


# --- shown -------------------------------------------------------------------------------------


def line(lang: str, conditions: Sequence[Condition], zone: tzinfo) -> Line:
    """The conditions as a reader says them, each time with its whole date."""
    return wording.joined(
        [_line(lang, condition, zone) for condition in conditions], wording.text(lang, "limit.separator")
    )


def _line(lang: str, condition: Condition, zone: tzinfo) -> Line:
    key = f"limit.{condition.kind}"
    match condition.kind:
        case ConditionKind.BEFORE:
            return wording.line(lang, key, time=(Ours(text=moment(lang, condition.moment, zone)),))
        case ConditionKind.TIMES:
            return wording.as_line(wording.count(lang, key, condition.count))
        case _:
            return wording.line(lang, key, value=Theirs(raw=_shown(condition), code=True))


def moment(lang: str, when: datetime, zone: tzinfo) -> str:
    """A time with its whole date, whatever day it is."""
    there = when.astimezone(zone)
    month = wording.text(lang, f"month.{there.month}")
    clock = f"{there:%H:%M}"
    return wording.text(lang, "time.year", day=there.day, month=month, year=there.year, clock=clock)


def _shown(condition: Condition) -> str:
    """A path or a text as it can be typed: quoted where it would not be read as itself."""
    value = condition.value
    form = _PATH if condition.kind is ConditionKind.IN else _TEXT
    pattern = bool(condition.pattern)
    if pattern or (value.isascii() and re.fullmatch(form, value) and value[0] not in "\"'"):
        return value  # beside other letters, a word of ours could pass for the value's end
    return next((begin + value + end for begin, end in _QUOTES if not {begin, end} & set(value)), value)
