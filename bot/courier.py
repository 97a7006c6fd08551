"""Keeps every posted message equal to the stored state. Level-triggered.

The store says which tasks may be stale; for each, the courier composes what should stand in
its thread now, compares with the receipts of what was posted, and posts or updates what
differs, one message at a time. A crash, a doubled wake-up or a late retry changes nothing: the
next look finds what is still to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Protocol

from agent_runner import lifecycle
from agent_runner.audit import Event, Note
from agent_runner.errors import CountersignError
from agent_runner.model import Inquiry, Task
from agent_runner.registers import Receipt, Registers
from agent_runner.store import Snapshot, Store
from cards import compose
from cards.model import Post

log = logging.getLogger(__name__)

PATIENCE = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds to wait after the first, second, ... failure in a row of one task's messages."""


class Client(Protocol):
    """What the courier needs of a platform."""

    async def post(self, task: Task, post: Post) -> str:
        """Puts a new message into the task's thread; returns its id there."""

    async def update(self, task: Task, message_id: str, post: Post) -> None:
        """Makes a posted message show this."""


class Courier:
    """Brings the messages of all tasks up to date; `wake` may be called at any time."""

    def __init__(
        self,
        store: Store,
        registers: Registers,
        clients: Mapping[str, Client],
        *,
        approver_names: Callable[[Inquiry], tuple[str, ...]],
        lang: str,
        zone: tzinfo,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._registers = registers
        self._clients = clients
        self._approver_names = approver_names
        self._lang = lang
        self._zone = zone
        self._clock = clock
        self._woken = asyncio.Event()
        self._failures: dict[str, tuple[int, datetime]] = {}

    def wake(self) -> None:
        """Says that something may have changed."""
        self._woken.set()

    async def run(self, *, every: float = 1.0) -> None:
        """Reconciles whenever woken, and every `every` seconds in any case, until cancelled."""
        while True:
            self._woken.clear()
            try:
                await self.reconcile_all()
            except CountersignError as error:
                log.warning("the courier could not read what to do: %s", error)
            try:
                async with asyncio.timeout(every):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def reconcile_all(self) -> None:
        """Brings every task on the work list up to date; one that fails stays on it."""
        for task_id, mark in await asyncio.to_thread(self._registers.dirty):
            failed, not_before = self._failures.get(task_id, (0, self._clock()))
            if failed and self._clock() < not_before:
                continue
            try:
                await self.reconcile(task_id)
                await asyncio.to_thread(self._registers.settle, task_id, mark)
                self._failures.pop(task_id, None)
            except Exception:  # the others' messages must not wait for this one's trouble
                self._put_off(task_id, failed + 1)
                log.exception("messages of task %s are behind and will be tried again", task_id)

    async def reconcile(self, task_id: str) -> None:
        """Makes the thread of one task show the stored state."""
        snap = await asyncio.to_thread(self._store.snapshot, task_id)
        progress = await asyncio.to_thread(self._registers.progress, task_id)
        receipts = await asyncio.to_thread(self._registers.receipts, task_id)
        posts = compose.posts(
            snap.task,
            snap.inquiries,
            progress=progress,
            approver_names={i.id: self._approver_names(i) for i in snap.inquiries},
            lang=self._lang,
            zone=self._zone,
            now=self._clock(),
        )
        for post in posts:
            await self._bring(snap, post, receipts.get(post.key))

    async def _bring(self, snap: Snapshot, post: Post, receipt: Receipt | None) -> None:
        if receipt is None or receipt.shown != post.card.fingerprint:
            receipt = await self._show(snap.task, post, receipt)
        if not receipt.recorded:
            await self._record_shown(snap, post, receipt)

    async def _show(self, task: Task, post: Post, receipt: Receipt | None) -> Receipt:
        client = self._clients[task.place.platform]
        if receipt is None:
            message_id, recorded = await client.post(task, post), not post.card.inquiry_id
        else:
            message_id, recorded = receipt.message_id, receipt.recorded
            await client.update(task, message_id, post)
        fresh = Receipt(
            key=post.key,
            message_id=message_id,
            revision=post.revision,
            shown=post.card.fingerprint,
            recorded=recorded,
        )
        await asyncio.to_thread(self._registers.keep_receipt, task.id, fresh)
        return fresh

    async def _record_shown(self, snap: Snapshot, post: Post, receipt: Receipt) -> None:
        """Puts on record where an inquiry was shown first, and a digest of what was shown."""
        inquiry = snap.inquiry(post.card.inquiry_id)
        note = Note(
            event=Event.INQUIRY_SHOWN,
            at=self._clock(),
            task_id=snap.task.id,
            inquiry_id=inquiry.id,
            digest=inquiry.digest,
            details={
                "place": snap.task.place.model_dump(),
                "shown": receipt.shown,
                "revision": receipt.revision,
            },
        )
        await asyncio.to_thread(
            self._store.transact, snap.task.id, lambda before: lifecycle.remark(before, note)
        )
        await asyncio.to_thread(self._registers.keep_receipt, snap.task.id, receipt.having(recorded=True))

    def _put_off(self, task_id: str, failures: int) -> None:
        wait = PATIENCE[min(failures, len(PATIENCE)) - 1]
        self._failures[task_id] = (failures, self._clock() + timedelta(seconds=wait))
