"""Stops a run when one of its limits is reached: between two steps, with every result on record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agent_runner import briefs
from agent_runner.limits import Bound
from agent_runner.model import Limit, Reached

Measure = Callable[[Limit], Awaitable[float | None]]
"""What this run used so far of what a limit counts; None if that cannot be known now."""


class Brake:
    """Asked by the engine after each round of calls, whether they ran, failed or were refused.

    The engine's own budget is not used: reached in mid-answer, it loses a call that was deferred
    and the results of those that ran (measured; see the contract tests). After a round nothing is
    open, and where a call was deferred this is not asked at all: the deferral goes first.
    """

    def __init__(self, bounds: Sequence[Bound], measure: Measure) -> None:
        self._bounds = bounds
        self._measure = measure
        self.reached: Reached | None = None

    async def hook(self, _data: Any, _tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """PostToolBatch: ends the run here if a limit is reached."""
        for bound in self._bounds:
            used = await self._measure(bound.limit)
            if used is not None and used >= bound.left:
                self.reached = bound.reached(used)
                return {"continue_": False, "stopReason": briefs.limit_reached()}
        return {}
