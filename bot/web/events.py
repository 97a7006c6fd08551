"""Live updates: one task follows the store's change feed and fans out to every open page.

A listener that is slow holds a set of what changed, not a queue, so memory is bounded by the
number of tasks; it reads the state itself and only needs to know that something changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from starlette.concurrency import run_in_threadpool

from agent_runner.errors import CountersignError
from agent_runner.registers import AsyncRedis, Registers
from bot.background import end_all

log = logging.getLogger(__name__)

HEARTBEAT = 15.0
"""Seconds of silence after which a comment is sent: proxies cut connections that look idle."""

RECONNECT = 1.0
"""Seconds between attempts to follow the feed again."""

RESYNC = ("", "resync")
"""Told after the feed was lost: anything may have changed."""


class Listener:
    """One open page: what changed since it was last told."""

    def __init__(self) -> None:
        self._changed: dict[tuple[str, str], None] = {}
        self._woken = asyncio.Event()
        self.closed = False

    def tell(self, change: tuple[str, str]) -> None:
        """Adds a change; the same one twice is told once."""
        self._changed[change] = None
        self._woken.set()

    def close(self) -> None:
        """Ends the listener after what it was told already."""
        self.closed = True
        self._woken.set()

    async def changes(self, patience: float) -> list[tuple[str, str]]:
        """What changed; empty after `patience` seconds of nothing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._woken.wait()
        self._woken.clear()
        changed, self._changed = list(self._changed), {}
        return changed


class Feed:
    """Follows the change feed for all listeners; mends its connection by itself."""

    def __init__(self, registers: Registers, connect: Callable[[], AsyncRedis]) -> None:
        self._registers = registers
        self._connect = connect
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Begins to follow, in the running event loop."""
        self._task = asyncio.create_task(self._follow(), name="web change feed")

    async def stop(self) -> None:
        """Ends all listeners and stops following."""
        self.close()
        if self._task is not None:
            await end_all([self._task])

    def close(self) -> None:
        """Ends all listeners, so that a server that shuts down need not wait for open pages."""
        self._closed = True
        for listener in self._listeners:
            listener.close()

    @contextlib.contextmanager
    def listen(self) -> Iterator[Listener]:
        """A listener for as long as the block lasts."""
        listener = Listener()
        if self._closed:
            listener.close()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _follow(self) -> None:
        while not self._closed:  # and not for ever: a client library may swallow a cancellation
            try:
                await self._follow_once()
            except CountersignError as error:
                log.warning("the change feed is away: %s", error.message)
            except Exception:  # live updates must outlive any single fault
                log.exception("the change feed failed")
            await asyncio.sleep(RECONNECT)

    async def _follow_once(self) -> None:
        after = await run_in_threadpool(self._registers.last_change)
        self._tell(RESYNC)
        client = self._connect()
        try:
            async for change in self._registers.changes(client, after):
                if change[0]:
                    self._tell(change)
        finally:
            await client.aclose()

    def _tell(self, change: tuple[str, str]) -> None:
        for listener in self._listeners:
            listener.tell(change)


async def stream(feed: Feed, still_welcome: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
    """Server-sent events: `task` with `{"task": id, "what": ...}`, `resync`, and heartbeats.

    Ends when the feed closes, or when the reader's token is no longer good (asked for at
    every heartbeat).
    """
    with feed.listen() as listener:
        yield ": connected\n\n"
        while True:
            changed = await listener.changes(HEARTBEAT)
            for task, what in changed:
                kind = "task" if task else "resync"
                yield f"event: {kind}\ndata: {json.dumps({'task': task, 'what': what})}\n\n"
            if listener.closed or not (changed or await still_welcome()):
                return
            if not changed:
                yield ": still here\n\n"
