"""What one run of the agent process used so far."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from agent_runner.model import Limit, TurnUsage

log = logging.getLogger(__name__)

COST_SECONDS = 5.0
"""Time for the agent process to say what it cost so far (measured: 0.1 s)."""


class Meter:
    """Counts while the run goes on; `client` is the SDK's, as soon as there is one.

    `waited` says for how many seconds its process waited for people so far.
    """

    def __init__(self, waited: Callable[[], float]) -> None:
        self.began = time.monotonic()
        self._waited = waited
        self.main_calls = 0
        self.side_calls: set[str] = set()
        """Message ids of subagents' answers."""
        self.client: Any = None
        self.cost = 0.0
        """As it was last heard; cumulative within the process, which every turn begins anew (E35)."""

    @property
    def worked(self) -> float:
        """Seconds in which the agent worked."""
        return time.monotonic() - self.began - self._waited()

    @property
    def model_calls(self) -> int:
        """Calls of the model so far, subagents' included."""
        return self.main_calls + len(self.side_calls)

    def usage(self) -> TurnUsage:
        """The accounts of the turn as they stand."""
        return TurnUsage(
            cost_usd=self.cost,
            model_calls=self.model_calls,
            active_ms=int(self.worked * 1000),
            waiting_ms=int(self._waited() * 1000),
        )

    async def used(self, limit: Limit) -> float | None:
        """So much of what a limit counts; None if that cannot be known now."""
        if limit is Limit.MINUTES:
            return self.worked / 60
        if limit is Limit.MODEL_TURNS:
            return self.model_calls
        return await self._ask_cost()

    async def _ask_cost(self) -> float | None:
        """The process's own count. The SDK (pinned) has no public way to ask for it before the end."""
        try:
            async with asyncio.timeout(COST_SECONDS):
                answer = await self.client._query._send_control_request({"subtype": "get_usage"})
            self.cost = max(self.cost, float(answer["session"]["total_cost_usd"]))
        except Exception as error:  # noqa: BLE001  (not heard now: the limit still holds between turns)
            log.warning("the agent process did not say what it cost: %s", error)
            return None
        return self.cost
