"""Every sentence a person reads, in English, Chinese and Japanese.

The sentences are data (`en`, `zh`, `ja`): a key gives a template with named places. This module
fills them in and writes numbers, money, times and durations the way each language does. A test
proves that all keys exist in all languages with the same places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, tzinfo
from string import Formatter

from cards.model import Line, Ours, Theirs
from cards.wording import en, ja, zh

TABLES: Mapping[str, Mapping[str, str]] = {"en": en.WORDS, "zh": zh.WORDS, "ja": ja.WORDS}
LANGUAGES = tuple(TABLES)

Words = str | int | Ours | Theirs | Line
"""What can stand in a place: text of ours, a number, text of theirs, or a line of both."""


def has(key: str) -> bool:
    """Whether there is such a sentence."""
    return key in en.WORDS


def text(lang: str, key: str, **places: str | int) -> str:
    """A sentence of ours as plain text. An unknown language reads English."""
    return TABLES.get(lang, en.WORDS)[key].format(**places)


def line(lang: str, key: str, **places: Words) -> Line:
    """A sentence whose places may hold untrusted text, which stays marked as such."""
    return tuple(_parts(TABLES.get(lang, en.WORDS)[key], places))


def _parts(template: str, places: Mapping[str, Words]) -> Iterator[Ours | Theirs]:
    for literal, name, _, _ in Formatter().parse(template):
        if literal:
            yield Ours(text=literal)
        if name is not None:
            yield from as_line(places[name])


def as_line(words: Words) -> Line:
    """Any words as a line."""
    if isinstance(words, tuple):
        return words
    return (words if isinstance(words, Theirs | Ours) else Ours(text=str(words)),)


def joined(lines: Iterable[Line], separator: str = " · ") -> Line:
    """Lines one after another; empty ones are left out."""
    out: list[Ours | Theirs] = []
    for words in lines:
        if words:
            out += [Ours(text=separator), *words] if out else words
    return tuple(out)


def listed(lang: str, items: Iterable[Words]) -> Line:
    """`a, b, c` as the language writes a list."""
    return joined(map(as_line, items), text(lang, "list.separator"))


def number(lang: str, value: float) -> str:
    """`12,345`; up to two decimals where there are any."""
    whole = f"{value:,.0f}" if value == int(value) else f"{value:,.2f}".rstrip("0")
    return text(lang, "number", digits=whole)


def count(lang: str, key: str, value: int) -> str:
    """`1 step`, `12 steps`: the key's `.one` or `.other` sentence."""
    return text(lang, f"{key}.one" if value == 1 else f"{key}.other", n=number(lang, value))


def money(lang: str, usd: float) -> str:
    """US dollars; what is more than nothing never reads as nothing."""
    if 0 < usd < 0.01:
        return text(lang, "money.less", amount="0.01")
    return text(lang, "money", amount=f"{usd:,.2f}")


def duration(lang: str, span: timedelta) -> str:
    """In words, with at most two units: `41 s`, `2 min 20 s`, `3 h 5 min`, `2 d 4 h`."""
    if timedelta(0) < span < timedelta(seconds=1):
        return text(lang, "unit.less")
    seconds = max(0, int(span.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        units = [("d", days), ("h", hours % 24)]
    elif hours:
        units = [("h", hours), ("min", minutes % 60)]
    elif minutes:
        units = [("min", minutes), ("s", 0 if minutes >= 10 else seconds % 60)]
    else:
        units = [("s", seconds)]
    words = [text(lang, f"unit.{unit}", n=n) for unit, n in units if n or len(units) == 1]
    return text(lang, "unit.separator").join(words)


def moment(lang: str, when: datetime, *, zone: tzinfo, now: datetime) -> str:
    """A time of day in the reader's zone, with the date unless it is today."""
    there, today = when.astimezone(zone), now.astimezone(zone)
    clock = f"{there:%H:%M}"
    if there.date() == today.date():
        return clock
    month = text(lang, f"month.{there.month}")
    if there.year == today.year:
        return text(lang, "time.date", day=there.day, month=month, clock=clock)
    return text(lang, "time.year", day=there.day, month=month, year=there.year, clock=clock)


def error(lang: str, code: str, *, message: str = "", **details: object) -> str:
    """What went wrong and what to do about it; an unknown code gives `message` as it is.

    A code may have a second sentence `error.<code>.with`, used when `details` fills its places.
    """
    rich = f"error.{code}.with"
    if has(rich) and all(details.get(name) for _, name, _, _ in Formatter().parse(en.WORDS[rich]) if name):
        return text(lang, rich, **{key: str(value) for key, value in details.items()})
    if has(f"error.{code}"):
        return text(lang, f"error.{code}")
    return message or text(lang, "error.error")


def ask_back(lang: str, code: str, nested: Mapping[str, str] | None = None, **details: str) -> str:
    """What to ask a person whose answer was not certain (fields of `cards.replies.AskBack`)."""
    inner = {place: text(lang, key) for place, key in (nested or {}).items()}
    return text(lang, f"ask_back.{code}", **details, **inner)
