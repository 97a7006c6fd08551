"""What the doors share: work that goes on after an answer, and bodies of requests within a limit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from starlette.requests import Request

log = logging.getLogger(__name__)

MOST_BODY = 1_000_000
"""Bytes of one request of a chat product to us; their own are far smaller."""


CANCEL_AGAIN = 1.0
"""Seconds after which a task that was cancelled and goes on is cancelled again."""


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks and waits for their ends; again and again, as a client library may swallow it."""
    going_on = set(tasks)
    while going_on:
        for task in going_on:
            task.cancel()
        _, going_on = await asyncio.wait(going_on, timeout=CANCEL_AGAIN)


class Background:
    """Work that nobody waits for: kept until it ends, its failure logged."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._tasks: set[asyncio.Task[None]] = set()

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        """Begins it."""
        task = asyncio.create_task(self._logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self, seconds: float) -> None:
        """Waits for what is going on, at most so long."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def _logged(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            log.exception("something that came from %s could not be dealt with", self._what)


async def body_of(request: Request) -> bytes | None:
    """The body; None if it is too large, of which no more is read: anybody can send it."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            return None
    return bytes(body)
