"""What is different between two texts, and between two inputs of one tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from cards import wording
from cards.choices import pretty
from cards.model import Diff, Line, Op, Part, Theirs

CONTEXT = 3
"""Unchanged lines kept around a change, as in a unified diff."""
MOST_LINES = 20_000
"""Lines of both texts together up to which a diff is drawn: beyond, it takes seconds."""
MOST_WORDS = 2_000
"""The same for words."""
_TOKEN = re.compile(r"\s+|[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")


def by_lines(before: str, after: str, *, context: int | None = CONTEXT) -> tuple[Part, ...] | None:
    """A diff by lines; `context` None keeps every line. None if the texts are too long."""
    old, new = before.split("\n"), after.split("\n")
    if len(old) + len(new) > MOST_LINES:
        return None
    matcher = SequenceMatcher(None, old, new)
    if context is None:
        return tuple(_changes(matcher.get_opcodes(), old, new))
    parts: list[Part] = []
    end = 0
    for group in matcher.get_grouped_opcodes(context):
        if group[0][1] > end:
            parts.append(_gap())
        parts += _changes(group, old, new)
        end = group[-1][2]
    if parts and end < len(old):
        parts.append(_gap())
    return tuple(parts)


def _gap() -> Part:
    return Part(op=Op.GAP, text=Theirs(raw="…"))


def by_words(before: str, after: str) -> tuple[Part, ...] | None:
    """A diff of running text. None if the texts are too long."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    if len(old) + len(new) > MOST_WORDS:
        return None
    parts: list[Part] = []
    for part in _changes(SequenceMatcher(None, old, new, autojunk=False).get_opcodes(), old, new):
        if parts and parts[-1].op is part.op:
            part = Part(op=part.op, text=Theirs(raw=parts.pop().text.raw + part.text.raw))
        parts.append(part)
    return tuple(parts)


def _changes(
    opcodes: Iterable[tuple[str, int, int, int, int]], old: Sequence[str], new: Sequence[str]
) -> Iterable[Part]:
    for tag, i1, i2, j1, j2 in opcodes:
        if tag == "equal":
            yield from (Part(op=Op.SAME, text=Theirs(raw=text)) for text in old[i1:i2])
        else:
            yield from (Part(op=Op.REMOVED, text=Theirs(raw=text)) for text in old[i1:i2])
            yield from (Part(op=Op.ADDED, text=Theirs(raw=text)) for text in new[j1:j2])


def of_inputs(lang: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Diff, ...]:
    """One diff for each field that differs, by words where that is readable."""
    out = []
    for name in dict.fromkeys([*before, *after]):
        here, there = name in before, name in after
        if here and there and _same(before[name], after[name]):
            continue
        old = _text(before[name]) if here else ""
        new = _text(after[name]) if there else ""
        label = wording.line(lang, "label.changed", field=Theirs(raw=name, code=True))
        out.append(_diff(label, old, new))
    return tuple(out)


def _diff(label: Line, old: str, new: str) -> Diff:
    short = "\n" not in old + new
    parts = by_words(old, new) if short else None
    if parts is not None:
        return Diff(label=label, parts=parts, by_words=True)
    lines = by_lines(old, new)
    if lines is None:
        lines = (Part(op=Op.REMOVED, text=Theirs(raw=old)), Part(op=Op.ADDED, text=Theirs(raw=new)))
    return Diff(label=label, parts=lines)


def _same(old: Any, new: Any) -> bool:
    return type(old) is type(new) and pretty(old) == pretty(new)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else pretty(value)
