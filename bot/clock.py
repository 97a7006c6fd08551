"""What happens by time alone: reminders, escalation, expiry, retries, lost turns, people's return.

One leader at a time.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime

from agent_runner import lifecycle, moments
from agent_runner.errors import CountersignError, TryLater
from agent_runner.registers import Registers
from agent_runner.store import Store

log = logging.getLogger(__name__)

TICK = 1.0
LEAD_MS = 5_000
"""How long leadership holds without a tick: a bot that died is followed by another after this."""


class Clock:
    """Ticks every `TICK` seconds; does the work of a tick only while it leads."""

    def __init__(
        self,
        store: Store,
        registers: Registers,
        *,
        recover: Callable[[], list[str]],
        others: Callable[[], object] = lambda: None,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._registers = registers
        self._recover = recover
        self._others = others
        self._clock = clock
        self._me = secrets.token_hex(8)

    async def run(self) -> None:
        """Ticks until cancelled; a store that is away is waited for."""
        while True:
            try:
                await asyncio.to_thread(self.tick)
            except CountersignError as error:
                log.warning("the clock could not tick: %s", error)
            except Exception:  # a clock that ends would let nothing expire any more
                log.exception("the clock could not tick")
            await asyncio.sleep(TICK)

    def tick(self) -> None:
        """Reminds of, escalates and expires what is due, and looks after lost turns, if this one leads."""
        if not self._registers.lead("clock", self._me, LEAD_MS):
            return
        now = self._clock()
        self._each(self._store.due(now), lambda inquiry_id: self._look(inquiry_id, now))
        self._each(self._store.due_retries(now), lambda task_id: self._retry(task_id, now))
        self._others()
        for task_id in self._recover():
            log.warning("task %s had lost its worker or its job; it was looked after", task_id)

    def _each(self, ids: Iterable[str], do: Callable[[str], None]) -> None:
        """Does it for each; one that cannot be done does not keep the others waiting."""
        for found in ids:
            try:
                do(found)
            except TryLater:
                raise
            except CountersignError:
                log.exception("the time of %s has come, but it could not be looked after", found)

    def _look(self, inquiry_id: str, now: datetime) -> None:
        """What has come for one request. After an outage that may be all: then only its end counts.

        More people are asked before anybody is reminded, so that the reminder is for them as well.
        """
        task_id = self._store.inquiry(inquiry_id).task_id
        for come in (lifecycle.expire, moments.escalate, moments.remind):
            self._store.transact(task_id, functools.partial(come, inquiry_id=inquiry_id, now=now))

    def _retry(self, task_id: str, now: datetime) -> None:
        self._store.transact(task_id, lambda snap: lifecycle.retry(snap, None, now))
