"""Mistakes of a configuration file, collected so that all are told at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agent_runner.errors import FixConfiguration
from agent_runner.toml_lines import Key, Lines

Table = Mapping[str, Any]
Add = Callable[[Key, str], None]
"""Takes a mistake: the key and what is wrong with it."""


@dataclass(frozen=True)
class Source:
    """A file's name and text, and where its keys stand."""

    file: str
    text: str

    @cached_property
    def lines(self) -> Lines:
        """Line numbers by key."""
        return Lines(self.text)


@dataclass(frozen=True, order=True)
class Mistake:
    """One thing to correct. `text` says what is wrong and what is allowed."""

    line: int
    key: str
    text: str


@dataclass
class Report:
    """Collects mistakes of one file."""

    source: Source
    mistakes: set[Mistake] = field(default_factory=set)

    def add(self, key: Key, text: str) -> None:
        """Notes a mistake; one that is found twice is told once."""
        self.mistakes.add(Mistake(self.source.lines.of(key), spell(key), text))

    def knows(self, key: Key) -> bool:
        """Whether there is a mistake at this key."""
        return any(mistake.key == spell(key) for mistake in self.mistakes)

    def finish(self) -> None:
        """Raises one `FixConfiguration` if there was any mistake."""
        if not self.mistakes:
            return
        found = sorted(self.mistakes)
        raise FixConfiguration(
            "\n".join(f"{self.source.file}:{m.line}: {m.key}: {m.text}" for m in found),
            hint="Correct the file and start again.",
            mistakes=[{"line": m.line, "key": m.key, "text": m.text} for m in found],
        )


def spell(key: Key) -> str:
    """`policy.allow[2]`: a key as people read it; list positions count from 0, as in the file's tools."""
    spelled = ""
    for part in key:
        spelled += f"[{part}]" if isinstance(part, int) else f".{part}" if spelled else str(part)
    return spelled or "file"


def suggest(wrong: str, allowed: Iterable[str]) -> str:
    """What is allowed, and what was probably meant."""
    names = tuple(allowed)
    near = difflib.get_close_matches(wrong, names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}allowed are {', '.join(names)}" if names else "none is defined"


def table(raw: Table, key: str) -> dict[str, Any]:
    """The table at a key; empty if there is none or it is something else."""
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def texts(holder: Table, field: str) -> list[str]:
    """The list at a key if it is one of texts; others are told by their type."""
    value = holder.get(field)
    return value if isinstance(value, list) and all(isinstance(v, str) for v in value) else []
