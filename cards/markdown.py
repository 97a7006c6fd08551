"""The little of Markdown that is drawn: paragraphs, fenced code, inline code. No links, no images.

Works on text that `cards.visible` has already made safe, and keeps every character of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([\w+#.-]{0,20})[ \t]*$")
_INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)


class Chunk(NamedTuple):
    """A paragraph (`code` false) or the inside of a fence, with the language the fence names."""

    code: bool
    text: str
    language: str = ""


def chunks(text: str) -> Iterator[Chunk]:
    """Paragraphs and code blocks in order; a fence that is never closed runs to the end."""
    fence, language = "", ""
    lines: list[str] = []
    for line in text.split("\n"):
        match = _FENCE.match(line)
        closes = fence and match and match[1].startswith(fence) and not match[2]
        if closes or (match and not fence):
            yield from _flush(bool(fence), lines, language)
            fence, language = ("", "") if closes or not match else (match[1], match[2])
            lines = []
        else:
            lines.append(line)
    yield from _flush(bool(fence), lines, language)


def _flush(code: bool, lines: list[str], language: str) -> Iterator[Chunk]:
    if code:
        yield Chunk(True, "\n".join(lines), language)
        return
    for paragraph in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        if paragraph.strip():
            yield Chunk(False, paragraph.strip("\n"))


def inline(paragraph: str) -> Iterator[Chunk]:
    """A paragraph cut into running text and inline code."""
    at = 0
    for match in _INLINE.finditer(paragraph):
        if match.start() > at:
            yield Chunk(False, paragraph[at : match.start()])
        yield Chunk(True, match[2])
        at = match.end()
    if at < len(paragraph):
        yield Chunk(False, paragraph[at:])
