r"""Searching a text for a person's pattern in time that grows with the text and nothing else.

Python's own matcher goes back and forth: a pattern like `(a+)+b` keeps it busy for years. Here
all ways through the pattern are walked at once, so each character is looked at once. What a
single character matches is left to `re`; groups, `|`, `* + ? {m,n}`, `^ $ \b \B` are ours. What
needs memory (back references, looking around) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

MOST_STEPS = 2_000
"""Size of a pattern once its repetitions are written out."""
_REPEAT = re.compile(r"\*|\+|\?|\{([0-9]+)\}|\{([0-9]*),([0-9]*)\}")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\\[]|\\.)*\]")
_ESCAPE = re.compile(r"\\(?:[dDwWsSntrfv]|[^A-Za-z0-9])")


class BadPattern(ValueError):
    """The pattern cannot be read, or is of a kind that is not searched for."""


@dataclass
class _Step:
    """One state: eats a character, asserts something about the place, or forks without eating."""

    eats: re.Pattern[str] | None = None
    asserts: str = ""
    to: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Pattern:
    """A pattern that was read."""

    steps: tuple[_Step, ...]

    def search(self, text: str) -> bool:
        """Whether it matches anywhere in the text."""
        here: frozenset[int] = frozenset()
        known: dict[tuple[frozenset[int], str, frozenset[str]], frozenset[int]] = {}
        for at in range(len(text) + 1):
            place = _place(text, at)
            char = text[at - 1] if at else ""
            key = (here, char, place)
            if key not in known:
                known[key] = self._closed({0, *self._ate(here, char)}, place)
            here = known[key]
            if len(self.steps) - 1 in here:
                return True
        return False

    def _ate(self, states: frozenset[int], char: str) -> Iterator[int]:
        for state in states:
            eats = self.steps[state].eats
            if eats is not None and char and eats.fullmatch(char):
                yield from self.steps[state].to

    def _closed(self, states: set[int], place: frozenset[str]) -> frozenset[int]:
        """These states and all that are reached from them without eating."""
        waiting, reached = list(states), set(states)
        while waiting:
            step = self.steps[waiting.pop()]
            if step.eats is not None or (step.asserts and step.asserts not in place):
                continue
            fresh = [to for to in step.to if to not in reached]
            reached.update(fresh)
            waiting += fresh
        return frozenset(reached)


def _place(text: str, at: int) -> frozenset[str]:
    """Which assertions hold between two characters."""
    before, after = _is_word(text[at - 1 : at] if at else ""), _is_word(text[at : at + 1])
    holds = [r"\b" if before != after else r"\B"] if text else []  # as in `re`
    if at == 0:
        holds.append("^")
    if at == len(text) or (at == len(text) - 1 and text[at] == "\n"):
        holds.append("$")
    return frozenset(holds)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


@lru_cache(maxsize=256)
def compiled(source: str) -> Pattern:
    """The pattern; raises `BadPattern`."""
    try:
        re.compile(source)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(str(error)) from None
    reader = _Reader(source)
    start, end = reader.choices()
    if reader.at < len(source):
        raise BadPattern("unbalanced brackets")
    steps = reader.steps
    return Pattern(tuple(_renumbered(steps, start, end)))


def _renumbered(steps: list[_Step], start: int, end: int) -> Iterator[_Step]:
    """The steps with the first one first and the last one last."""
    order = [start, *(at for at in range(len(steps)) if at not in (start, end)), end]
    place = {old: new for new, old in enumerate(order)}
    for old in order:
        yield _Step(steps[old].eats, steps[old].asserts, [place[to] for to in steps[old].to])


class _Reader:
    """Reads a pattern into steps, each part into a first and a last one."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.steps: list[_Step] = []

    def _new(self, **what: object) -> int:
        if len(self.steps) >= MOST_STEPS:
            raise BadPattern("too large")
        self.steps.append(_Step(**what))  # type: ignore[arg-type]  # its own fields
        return len(self.steps) - 1

    def choices(self) -> tuple[int, int]:
        """`a|b|c`."""
        start, end = self._new(), self._new()
        while True:
            first, last = self._sequence()
            self.steps[start].to.append(first)
            self.steps[last].to.append(end)
            if self._peek() != "|":
                return start, end
            self.at += 1

    def _sequence(self) -> tuple[int, int]:
        start = last = self._new()
        while self._peek() not in ("", "|", ")"):
            first, following = self._repeated()
            self.steps[last].to.append(first)
            last = following
        return start, last

    def _repeated(self) -> tuple[int, int]:
        begin = self.at
        part = self._part()
        after = self.at
        found = _REPEAT.match(self.source, self.at)
        if found is None:
            return part
        self.at = found.end()
        if self._peek() == "+":
            raise BadPattern("a repetition that never gives back is not searched for")
        if self._peek() == "?":
            self.at += 1  # lazy or greedy: the same texts match
        resume = self.at
        least, most = _bounds(found)

        def copy() -> tuple[int, int]:
            self.at = begin
            made = self._part()
            self.at = after
            return made

        built = self._times(copy, least, most)
        self.at = resume
        return built

    def _times(self, copy: Callable[[], tuple[int, int]], least: int, most: int | None) -> tuple[int, int]:
        start = last = self._new()
        for _ in range(least):
            first, following = copy()
            self.steps[last].to.append(first)
            last = following
        end = self._new()
        if most is None:
            first, following = copy()
            loop = self._new(to=[first, end])
            self.steps[last].to.append(loop)
            self.steps[following].to.append(loop)
            return start, end
        for _ in range(most - least):
            first, following = copy()
            self.steps[last].to += [first, end]
            last = following
        self.steps[last].to.append(end)
        return start, end

    def _part(self) -> tuple[int, int]:
        char = self._peek()
        if char == "(":
            return self._group()
        if char in "^$":
            return self._assertion(char)
        two = self.source[self.at : self.at + 2]
        if two in (r"\b", r"\B"):
            return self._assertion(two)
        end = self._new()
        return self._new(eats=re.compile(self._atom()), to=[end]), end

    def _group(self) -> tuple[int, int]:
        self.at += 3 if self.source.startswith("(?:", self.at) else 1
        if self._peek() == "?":
            raise BadPattern("looking around and named groups are not searched for")
        part = self.choices()
        self.at += 1
        return part

    def _assertion(self, text: str) -> tuple[int, int]:
        self.at += len(text)
        end = self._new()
        return self._new(asserts=text, to=[end]), end

    def _atom(self) -> str:
        """The source of what matches one character."""
        char = self._peek()
        known = {"[": _CLASS, "\\": _ESCAPE}.get(char)
        if known is None:
            self.at += 1
            return "." if char == "." else re.escape(char)
        found = known.match(self.source, self.at)
        if found is None:
            raise BadPattern(f"{self.source[self.at : self.at + 4]} is not searched for")
        self.at = found.end()
        return found[0]

    def _peek(self) -> str:
        return self.source[self.at : self.at + 1]


def _bounds(found: re.Match[str]) -> tuple[int, int | None]:
    known = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    if found[0] in known:
        return known[found[0]]
    if found[1] is not None:
        return int(found[1]), int(found[1])
    return int(found[2] or 0), int(found[3]) if found[3] else None
