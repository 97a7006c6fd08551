"""Whether a call keeps to a condition of its approval: asked when it is given, and again at dispatch.

Fails closed: what cannot be told is not kept. Symlinks are read at the time of asking; a link that
is changed afterwards is beyond any check.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from agent_runner import bash_reader, patterns
from agent_runner.conditions import Condition, ConditionKind
from agent_runner.matching import Call, touched

TELLABLE = frozenset(("cat", "cmp", "head", "ls", "mkdir", "mv", "rm", "stat", "tail", "touch", "wc"))
"""Programs that touch the files they are given and nothing else. Of any other, nobody can tell."""


class Broken(StrEnum):
    """Why a condition does not hold; the values are codes for people's sentences."""

    OVER = "condition_over"
    NEVER = "condition_never"
    OUTSIDE = "condition_outside"
    UNTOLD = "condition_untold"
    ABSENT = "condition_absent"
    PATTERN = "condition_pattern"


_WHY: Mapping[Broken, str] = {
    Broken.OVER: "and that time is over",
    Broken.NEVER: "so never",
    Broken.OUTSIDE: "and this call reaches outside it",
    Broken.UNTOLD: "and whether this call stays there cannot be told",
    Broken.ABSENT: "and that is not in this call",
    Broken.PATTERN: "and that pattern cannot be searched for",
}


def broken(condition: Condition, call: Call, now: datetime) -> Broken | None:
    """Why this condition does not hold for this call now; None if it holds."""
    match condition.kind:
        case ConditionKind.BEFORE:
            return None if now < condition.moment else Broken.OVER
        case ConditionKind.TIMES:
            return None if condition.count else Broken.NEVER
        case ConditionKind.IN:
            return _outside(condition.value, call)
        case ConditionKind.WITH:
            return _absent(condition, call)


def refusal(conditions: Iterable[Condition], call: Call, now: datetime) -> str:
    """For the model: the first condition that does not hold, and why; '' if all do."""
    for condition in conditions:
        why = broken(condition, call, now)
        if why is not None:
            return f"{condition.words}, {_WHY[why]}."
    return ""


# --- in ----------------------------------------------------------------------------------------


def _outside(path: str, call: Call) -> Broken | None:
    try:
        root = _real(path, call.cwd)
        reached = list(_reached(call))
    except (OSError, ValueError):
        return Broken.UNTOLD
    if not reached:
        return Broken.UNTOLD
    inside = all(one == root or one.startswith(root.rstrip("/") + "/") for one in reached)
    return None if inside else Broken.OUTSIDE


def _real(path: str, cwd: str) -> str:
    return os.path.realpath(os.path.join(cwd, os.path.expanduser(path)))  # noqa: PTH111, PTH118  (as in `paths`)


def _reached(call: Call) -> Iterator[str]:
    """Every place that the call touches, symlinks followed; none at all if that cannot be told."""
    if call.tool_name == "Bash":
        yield from (_real(word, call.cwd) for word in _words(call.tool_input.get("command")))
        return
    if any("\0" in text for text in _texts(call.tool_input)):  # no path at all, and our own mark below
        return
    for face in touched(call):
        yield _real(face.removesuffix("\0"), call.cwd)


def _words(command: object) -> list[str]:
    """What a command line of well-known programs is given, its directory if that is nothing."""
    script = bash_reader.read(command) if isinstance(command, str) else None
    found: list[str] = []
    for simple in (script.plain if script else None) or ():
        program, *given = simple.words or ("",)
        if program not in TELLABLE or simple.assignments or not all(map(_plain, given)):
            return []
        found += [word for word in given if not word.startswith("-")] or ["."]
    return found


def _plain(word: str) -> bool:
    """Whether a word can only mean itself, and an option no place."""
    if any(char in word for char in "*?[]{}$~`\\"):
        return False
    return not word.startswith("-") or not any(char in word for char in "/=.")


# --- with --------------------------------------------------------------------------------------


def _absent(condition: Condition, call: Call) -> Broken | None:
    wanted: Any = call.tool_input.get("command") if call.tool_name == "Bash" else call.tool_input
    texts = list(_texts(wanted))
    if not condition.pattern:
        return None if any(condition.value in text for text in texts) else Broken.ABSENT
    try:
        pattern = patterns.compiled(condition.pattern)
    except patterns.BadPattern:
        return Broken.PATTERN
    return None if any(pattern.search(text) for text in texts) else Broken.ABSENT


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
