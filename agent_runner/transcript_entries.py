"""Reads entries of a transcript as the engine's CLI writes them, as far as we need: calls and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class Result:
    """How the engine says that a call ended."""

    at: datetime | None
    refused: bool


def blocks(entry: Mapping[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    """The blocks of one type (`tool_use`, `tool_result`) in an entry's message."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") == kind:
            yield block


def results_in(entry: Mapping[str, Any]) -> Iterator[tuple[str, Result]]:
    """The results in an entry, each with the id of its call."""
    for block in blocks(entry, "tool_result"):
        tool_use_id = block.get("tool_use_id")
        if isinstance(tool_use_id, str):
            yield tool_use_id, Result(time_of(entry.get("timestamp")), _refused(entry, block))


def _refused(entry: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    """Whether a lock refused the call, or the engine did not take it for one."""
    decision = entry.get("permissionDecision")
    if isinstance(decision, dict) and "decision" in decision:
        return bool(decision["decision"] == "reject")
    words = block.get("content")
    unheard = isinstance(words, str) and words.startswith(("PreToolUse:", "<tool_use_error>"))
    return bool(block.get("is_error")) and unheard


def time_of(value: object) -> datetime | None:
    """A time as the engine writes it; None for what is none."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
