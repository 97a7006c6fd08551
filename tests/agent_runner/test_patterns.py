"""Searching for a person's pattern: the same answers as `re`, in time that no pattern can blow up."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.patterns import BadPattern, compiled

ATOMS = st.sampled_from(
    [*"ab.^${}-", r"\w", r"\d", r"\s", r"\b", r"\B", r"\-", "[ab]", "[^a]", "[]a]", "[a-b_]", "{2", "{,"]
)
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "{,2}", "{,}"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, REPEATS).map(lambda two: f"({two[0]}){two[1]}"),
    ),
    max_leaves=8,
)


@given(source=PATTERNS, text=st.text("ab_- \n1{},2", max_size=8))
def test_it_finds_what_re_finds(source: str, text: str) -> None:
    """Whatever pattern both read, they agree on every text."""
    try:
        pattern = compiled(source)
    except BadPattern:
        return
    assert pattern.search(text) == bool(re.search(source, text))


@pytest.mark.parametrize("source", [r"(a+)+!", r"(a|a)*!", r"a*a*a*a*!", r"(\w*\w*)*!", "(?:a?){50}a{50}!"])
def test_no_pattern_is_slow(source: str) -> None:
    """Patterns that keep `re` busy for years take a moment."""
    begun = time.perf_counter()
    assert not compiled(source).search("a" * 5_000)
    assert time.perf_counter() - begun < 5


@pytest.mark.parametrize(
    "source",
    ["(", ")", "a)", "*", "a**", "[", "a++", r"(a)\1", "(?=a)", "(?!a)", "(?P<n>a)", "(?i)a", r"\x41", r"\A",
     "((a{99}){99}){99}", "a{9999}"],
)  # fmt: skip
def test_what_is_not_searched_for(source: str) -> None:
    """What is no pattern, needs memory, or is too large is refused by name."""
    with pytest.raises(BadPattern):
        compiled(source)
