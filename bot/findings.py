"""The result of a check: how bad it is, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from agent_runner.errors import FixConfiguration


class Level(StrEnum):
    """`fail`: it will not work, or would lose data. `warn`: it works, within a limit that is named."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Finding:
    """One result: what was found, and what to do about it (empty when it is fine)."""

    level: Level
    what: str
    remedy: str = ""


def ok(what: str) -> Finding:
    """It is fine."""
    return Finding(Level.OK, what)


def warn(what: str, remedy: str) -> Finding:
    """It works, within a limit."""
    return Finding(Level.WARN, what, remedy)


def fail(what: str, remedy: str) -> Finding:
    """It must be put right first."""
    return Finding(Level.FAIL, what, remedy)


def refuse_failures(findings: Iterable[Finding]) -> None:
    """Raises `FixConfiguration` naming every failure and its remedy; for use at start."""
    failures = [finding for finding in findings if finding.level is Level.FAIL]
    if failures:
        raise FixConfiguration(
            " ".join(finding.what for finding in failures),
            hint=" ".join(finding.remedy for finding in failures),
        )
