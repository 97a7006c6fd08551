"""Makes untrusted text safe to look at: what cannot be seen is shown as an escape.

An escape is `⟨U+202E⟩`, or `⟨U+0020×400⟩` for a run of one character. A literal `⟨U+` in the
text is escaped too, so `restore` gets the very text back: two different texts never look alike.

Shown as escapes: control characters, bidirectional overrides, zero-width and other invisible
characters, tag characters, variation selectors, odd spaces, lone surrogates, unassigned code
points, marks with nothing to stand on, runs of blanks that push the rest out of sight, and
letters that look like Latin ones inside a Latin word or line. Ordinary text of any script,
and emoji with their joiners, stay as they are.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

INSIDE = 8
"""Blanks in a row inside a line from which they count as padding (a tab counts as two)."""
INDENT = 64
"""The same for the indentation of a line, which is long in honest code, too."""
BLANK_LINES = 8
"""Line breaks in a row, with nothing but blanks between them, that count as padding."""
MARKS = 3
"""Combining marks on one letter; no living script needs more (Unicode TR 36, section 2.10)."""

BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc\U00016fe4\U0001d159"
)
"""Invisible although their category says letter, mark or symbol (Unicode DerivedCoreProperties)."""
_ZWJ, _EMOJI_STYLE, _KEYCAP = "\u200d", "\ufe0f", "\u20e3"

_CYRILLIC = "АВЕЅІЈКМНОРСТУХҮԚԜаеѕіјӏорсухһԁԛԝүґгпки"
_GREEK = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγικνορτυχωϲϳ"
_LOOK_LATIN = frozenset(_CYRILLIC + _GREEK)
"""Letters of other scripts that pass for Latin ones at a glance (subset of Unicode TR 39 data)."""
_LATIN_TRICKS = frozenset("ɑɡıⅰⅴⅹⅼⅽⅾⅿ")
_ALWAYS_LOOK = frozenset("\u037e\u0387\u1fef\u212a")
"""Greek question mark, ano teleia, varia, Kelvin: drawn exactly as `;`, `·`, a backtick, `K`."""

_ESCAPE = re.compile(r"⟨U\+([0-9A-F]{4,6})(?:×([1-9][0-9]{0,5}))?⟩")
_BLANKS = re.compile(r"[ \t]{4,}")
_BLANK_LINES = re.compile(rf"(?<![ \t])[ \t]*+(?:\n[ \t]*+){{{BLANK_LINES},}}")
_SUSPECT = re.compile(r"[^\n\t -~]")
_WORD = re.compile(r"[^\W_]+")
_MATH_LETTERS = re.compile("[\U0001d400-\U0001d7ff]")
_MAY_POSE = re.compile(
    "[\u0370-\u03ff\u0400-\u052f\uff10-\uff5a\U0001d400-\U0001d7ff"
    + re.escape("".join(_LOOK_LATIN | _LATIN_TRICKS | _ALWAYS_LOOK))
    + "]"
)
"""All that `_looking_latin` may find; most lines in other scripts have none of it."""
_RUN = re.compile(r"(.)\1{0,999998}", re.DOTALL)
_LINE = re.compile(r"[^\n]+")

KEPT, KEPT_LENGTH = 100, 12_000
"""How many shown texts are remembered, and up to which length: some 25 MB at the very most."""


class _Spot(NamedTuple):
    start: int
    end: int
    code: str


def block(text: str) -> str:
    """The text for a place that keeps line breaks and tabs."""
    return _kept_block(text) if len(text) <= KEPT_LENGTH else _block(text)


def inline(text: str) -> str:
    """The text for one line: line breaks and tabs are shown as escapes, too."""
    return _kept_inline(text) if len(text) <= KEPT_LENGTH else _inline(text)


def _block(text: str) -> str:
    return _escaped(text, list(_spots(text)))


def _inline(text: str) -> str:
    extra = [_Spot(m.start(), m.end(), "") for m in re.finditer(r"[\n\t]", text)]
    return _escaped(text, [*_spots(text), *extra])


# A card is drawn in three languages, and again until it fits: each time with the same texts.
_kept_block = lru_cache(KEPT)(_block)
_kept_inline = lru_cache(KEPT)(_inline)


def restore(shown: str, *, longest: int | None = None) -> str:
    """The very text that `block` or `inline` was given.

    Raises `ValueError` for a text that would be longer than `longest` characters: an escape for a
    run is short, what it stands for need not be.
    """
    if longest is not None:
        grows = sum(int(match[2] or 1) for match in _ESCAPE.finditer(shown))
        if grows + len(shown) > longest:
            raise ValueError(f"longer than {longest} characters")
    return _ESCAPE.sub(_restored, shown)


def _restored(match: re.Match[str]) -> str:
    point = int(match[1], 16)
    return chr(point) * int(match[2] or 1) if point <= sys.maxunicode else match[0]


def warnings(text: str) -> tuple[str, ...]:
    """What a reader must be told about: `bidi`, `hidden_characters`, `look_alikes`, `padding`."""
    return tuple(sorted({spot.code for spot in _spots(text)} - {""}))


def pieces(shown: str) -> Iterator[tuple[str, bool]]:
    """Shown text cut into (piece, whether it is an escape), for surfaces that can mark them."""
    at = 0
    for match in _ESCAPE.finditer(shown):
        if match.start() > at:
            yield shown[at : match.start()], False
        yield match[0], True
        at = match.end()
    if at < len(shown):
        yield shown[at:], False


def _escaped(text: str, spots: list[_Spot]) -> str:
    out: list[str] = []
    at = 0
    for start, end, _ in sorted(spots, key=lambda spot: (spot.start, -spot.end)):
        if start < at:  # inside a run that is escaped already
            continue
        out += text[at:start], _runs(text[start:end])
        at = end
    return "".join([*out, text[at:]])


def _runs(text: str) -> str:
    if len(text) == 1:
        return f"⟨U+{ord(text):04X}⟩"
    out = []
    for match in _RUN.finditer(text):
        count = len(match[0])
        out.append(f"⟨U+{ord(match[1]):04X}" + (f"×{count}⟩" if count > 1 else "⟩"))
    return "".join(out)


def _spots(text: str) -> Iterator[_Spot]:
    yield from _padding(text)
    if _SUSPECT.search(text):
        yield from _characters(text)
        yield from _look_alikes(text)


def _padding(text: str) -> Iterator[_Spot]:
    for match in _BLANK_LINES.finditer(text):
        yield _Spot(match.start(), match.end(), "padding")
    for match in _BLANKS.finditer(text):
        start = match.start()
        limit = INDENT if start == 0 or text[start - 1] == "\n" else INSIDE
        if len(match[0]) + match[0].count("\t") >= limit:
            yield _Spot(start, match.end(), "padding")


def _characters(text: str) -> Iterator[_Spot]:
    for match in _SUSPECT.finditer(text):
        at = match.start()
        code = _unseen(text, at)
        if code is not None:
            yield _Spot(at, at + 1, code)


def _unseen(text: str, at: int) -> str | None:
    """Why this character must be escaped (empty: without a warning); None if it is fine."""
    char = text[at]
    if char == "⟨":
        return "" if text.startswith("U+", at + 1) else None
    if char in BIDI:
        return "bidi"
    if char in _UNSEEN:
        return "hidden_characters"
    category = unicodedata.category(char)
    if category in ("Mn", "Me"):
        return None if _mark_is_fine(text, at) else "hidden_characters"
    if category == "Zs":
        return None if char == "\u3000" and _among_wide(text, at) else "hidden_characters"
    if category[0] == "C" or category in ("Zl", "Zp"):
        return None if char == _ZWJ and _joins_emoji(text, at) else "hidden_characters"
    return None


def _mark_is_fine(text: str, at: int) -> bool:
    char = text[at]
    if char == _EMOJI_STYLE:
        return at > 0 and (_is_emoji(text[at - 1]) or _is_keycap(text, at))
    if char == _KEYCAP:
        return at > 1 and text[at - 1] == _EMOJI_STYLE and text[at - 2] in "0123456789#*"
    if unicodedata.category(char) == "Me" or "\ufe00" <= char <= "\ufe0e" or char >= "\U000e0100":
        return False
    before = text[max(0, at - MARKS) : at]
    if not before or unicodedata.category(before[-1])[0] not in "LMN":
        return False
    stacked = all(unicodedata.category(c) == "Mn" for c in before)
    return not (stacked and len(before) == MARKS)


def _is_keycap(text: str, at: int) -> bool:
    return text[at - 1] in "0123456789#*" and text[at + 1 : at + 2] == _KEYCAP


def _is_emoji(char: str) -> bool:
    return (
        "\U0001f000" <= char <= "\U0001faff"
        or "\u2190" <= char <= "\u21ff"
        or "\u2300" <= char <= "\u23ff"
        or "\u25a0" <= char <= "\u27bf"
        or "\u2b00" <= char <= "\u2bff"
        or char in "©®‼⁉™ℹ〰〽㊗㊙Ⓜ"
    )


def _joins_emoji(text: str, at: int) -> bool:
    before = text[at - 2 : at] if at > 1 else text[:at]
    after = text[at + 1 : at + 2]
    stands_on = before[-1:] if before[-1:] != _EMOJI_STYLE else before[:-1]
    return bool(stands_on and after) and _is_emoji(stands_on) and _is_emoji(after)


def _among_wide(text: str, at: int) -> bool:
    around = text[max(0, at - 1) : at] + text[at + 1 : at + 2]
    return any(c != "\u3000" and unicodedata.east_asian_width(c) in "WF" for c in around)


def _look_alikes(text: str) -> Iterator[_Spot]:
    for match in _LINE.finditer(text):
        if _MAY_POSE.search(match[0]):
            for at in _looking_latin(match[0]):
                yield _Spot(match.start() + at, match.start() + at + 1, "look_alikes")


def _looking_latin(line: str) -> Iterator[int]:
    """Positions of letters in one line that pass for what they are not."""
    other = [c for c in line if _script(c)]
    posing = bool(other) and _has_ascii(line) and all(c in _LOOK_LATIN for c in other)
    for at, char in enumerate(line):
        if char in _ALWAYS_LOOK or _MATH_LETTERS.match(char):
            yield at
    for word in _WORD.finditer(line):
        mixed = not word[0].isascii() and _has_ascii(word[0])
        whole = posing and len(word[0]) > 1
        for at, char in enumerate(word[0], word.start()):
            if (mixed and _poses_in_word(char)) or (whole and _script(char)):
                yield at


def _poses_in_word(char: str) -> bool:
    wide = "\uff10" <= char <= "\uff5a"
    return wide or char in _LATIN_TRICKS or _script(char) == "CYRILLIC" or char in _LOOK_LATIN


def _script(char: str) -> str:
    if "\u0370" <= char <= "\u03ff" and char.isalpha():
        return "GREEK"
    if "\u0400" <= char <= "\u052f" and char.isalpha():
        return "CYRILLIC"
    return ""


def _has_ascii(text: str) -> bool:
    return any(c.isascii() and c.isalpha() for c in text)
