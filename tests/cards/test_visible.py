"""What cannot be seen is shown, ordinary text stays as it is, and no two texts look alike."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cards import visible

ANY = st.text(st.characters(categories=None), max_size=60)
"""Every code point there is, lone surrogates included."""
_PIECES = [
    *"a A1p.;\n\t \u202e\u200b\u200d\ufe0f\u20e3\u00a0\u3000\u0301\u0430\u03bf⟨⟩U+0×👩❤漢あ\ud800\U000e0041"
]
NASTY = st.lists(st.sampled_from([*_PIECES, "⟨U+", " " * 9, "\n" * 9]), max_size=60).map("".join)


@pytest.mark.parametrize(
    ("text", "shown", "warnings"),
    [
        ("a\u202eb\u202c", "a⟨U+202E⟩b⟨U+202C⟩", ("bidi",)),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩", ("bidi",)),
        ("\x1b[2K\x00\r", "⟨U+001B⟩[2K⟨U+0000⟩⟨U+000D⟩", ("hidden_characters",)),
        ("r\u200bm", "r⟨U+200B⟩m", ("hidden_characters",)),
        ("a\u00ad\ufeff\u2062", "a⟨U+00AD⟩⟨U+FEFF⟩⟨U+2062⟩", ("hidden_characters",)),
        ("x\U000e0072\U000e006d", "x⟨U+E0072⟩⟨U+E006D⟩", ("hidden_characters",)),
        ("x\ufe01\U000e0100", "x⟨U+FE01⟩⟨U+E0100⟩", ("hidden_characters",)),
        ("a\u00a0b\u2003c", "a⟨U+00A0⟩b⟨U+2003⟩c", ("hidden_characters",)),
        ("ls\u3000-la", "ls⟨U+3000⟩-la", ("hidden_characters",)),
        ("\u3164\u2800", "⟨U+3164⟩⟨U+2800⟩", ("hidden_characters",)),
        ("\ud800", "⟨U+D800⟩", ("hidden_characters",)),
        (" \u0301e\u0301\u0301\u0301\u0301", " ⟨U+0301⟩e\u0301\u0301\u0301⟨U+0301⟩", ("hidden_characters",)),
        ("a" + " " * 400 + "; rm", "a⟨U+0020×400⟩; rm", ("padding",)),
        ("a\t\t\t\tb", "a⟨U+0009×4⟩b", ("padding",)),
        ("a" + "\n" * 40 + "b", "a⟨U+000A×40⟩b", ("padding",)),
        (" " * 64 + "b", "⟨U+0020×64⟩b", ("padding",)),
        ("p\u0430yp\u0430l", "p⟨U+0430⟩yp⟨U+0430⟩l", ("look_alikes",)),
        ("cp \u0441\u043e\u0440\u0443 x", "cp ⟨U+0441⟩⟨U+043E⟩⟨U+0440⟩⟨U+0443⟩ x", ("look_alikes",)),
        ("\U0001d42b\U0001d426 -rf", "⟨U+1D42B⟩⟨U+1D426⟩ -rf", ("look_alikes",)),
        ("ls \u037e rm", "ls ⟨U+037E⟩ rm", ("look_alikes",)),
        ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟩", ()),
    ],
)
def test_case_c02_what_hides_is_shown(text: str, shown: str, warnings: tuple[str, ...]) -> None:
    """Overrides, zero-width and tag characters, padding and look-alikes become visible, with a warning."""
    assert visible.block(text) == shown
    assert visible.warnings(text) == warnings


@pytest.mark.parametrize(
    "letters",
    ["АВЕЅІЈКМНОРСТУХҮԚԜаеѕіјӏорсухһԁԛԝүґгпки", "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγικνορτυχωϲϳ", "ɑɡıⅰⅴⅹⅼⅽⅾⅿ",
     "\u037e\u0387\u1fef\u212a", "０９ＡＺａｚ", "\U0001d400\U0001d54f\U0001d7ff"],
    ids=["Cyrillic", "Greek", "Latin", "always", "wide", "mathematical"],
)  # fmt: skip
def test_case_c02_each_look_alike_is_found(letters: str) -> None:
    """One of them in a Latin word is enough, wherever it comes from."""
    words = {letter: f"pa{letter}l" for letter in letters}
    assert {letter: visible.block(word) for letter, word in words.items()} == {
        letter: f"pa⟨U+{ord(letter):04X}⟩l" for letter in letters
    }
    assert {visible.warnings(word) for word in words.values()} == {("look_alikes",)}


@pytest.mark.parametrize(
    "text",
    [
        "plain ASCII, with\n\ttabs and lines",
        "        if deep:\n            pass",
        "你好，世界 ①③、２",
        "こんにちは　世界、ガ行 か\u3099",
        "한국어 띄어쓰기",
        "مرحبا بالعالم",
        "שלום עולם",
        "Привет, мир! Скопируй file.txt",
        "Καλημέρα κόσμε with English",
        "हिन्दी में लिखा",
        "ภาษาไทยครับ",
        "café e\u0301 5 μs Δx ⟨x⟩",
        "👩\u200d👩\u200d👧\u200d👦 👍🏽 ❤\ufe0f 1\ufe0f\u20e3 🇯🇵 🏳\ufe0f\u200d🌈",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """Text of any script, and emoji with their joiners, is not touched and warns of nothing."""
    assert visible.block(text) == text
    assert visible.warnings(text) == ()


@given(ANY | NASTY)
def test_nothing_is_lost(text: str) -> None:
    """What is shown gives the very text back, so different texts never look the same."""
    assert visible.restore(visible.block(text)) == text
    assert visible.restore(visible.inline(text)) == text


@given(NASTY, NASTY)
def test_different_texts_look_different(one: str, other: str) -> None:
    """Equal looks mean equal texts."""
    assert (visible.block(one) == visible.block(other)) == (one == other)
    assert (visible.inline(one) == visible.inline(other)) == (one == other)


@given(ANY | NASTY)
def test_nothing_dangerous_survives(text: str) -> None:
    """No character that is invisible or steers the layout is left, but joiners inside emoji."""
    shown = visible.block(text)
    for at, char in enumerate(shown):
        if char in "\u200d\ufe0f":
            assert ord(shown[at - 1]) > 0x7F or shown[at - 1] in "0123456789#*"
        else:
            assert unicodedata.category(char) not in {"Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
            assert char in "\n\t" or unicodedata.category(char) != "Cc"
            assert char in " \u3000" or unicodedata.category(char) != "Zs"
    assert " " * 64 not in shown
    assert "\n" * visible.BLANK_LINES not in shown


@given(ANY | NASTY)
def test_one_line_stays_one_line(text: str) -> None:
    """Text within a line cannot start another one."""
    assert visible.inline(text).splitlines() in ([], [visible.inline(text)])


@given(ANY | NASTY)
def test_pieces_are_the_whole(text: str) -> None:
    """Cutting shown text for marking loses nothing, and exactly the escapes are marked."""
    shown = visible.block(text)
    pieces = list(visible.pieces(shown))
    assert "".join(piece for piece, _ in pieces) == shown
    assert all(piece.startswith("⟨U+") == hidden or not hidden for piece, hidden in pieces)
    assert "".join(piece if not hidden else visible.restore(piece) for piece, hidden in pieces) == text


def test_long_restored_text_is_refused() -> None:
    """A short escape cannot make a program write a very long text."""
    with pytest.raises(ValueError, match="longer than"):
        visible.restore("⟨U+0041×999999⟩" * 20, longest=1_000_000)


@pytest.mark.parametrize("shown", ["⟨U+FFFFFF⟩", "⟨U+41⟩", "⟨U+0041×0⟩", "⟨U+0041"])
def test_what_is_no_escape_stays(shown: str) -> None:
    """Only what this module writes is undone."""
    assert visible.restore(shown) == shown


@pytest.mark.parametrize(
    "text",
    [" " * 300_000 + "x", " \n" * 100_000, "a\u0301" * 100_000, "\n" * 300_000],
    ids=["blanks", "blank lines", "marks", "lines"],
)
def test_large_texts_come_back_whole(text: str) -> None:
    """Hundreds of thousands of odd characters are handled like a few."""
    assert visible.restore(visible.block(text)) == text
