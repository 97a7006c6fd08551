"""Keeps every posted message equal to the stored state. Level-triggered.

The store says which tasks may be stale; for each, the courier composes what should stand in
its thread now, compares with the receipts of what was posted, and posts or updates what
differs, one message at a time in each chat. A crash, a doubled wake-up or a late retry changes
nothing: the next look finds what is still to do. Of several bots, one at a time delivers.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from time import monotonic
from typing import ParamSpec, TypeVar

from agent_runner import lifecycle
from agent_runner.audit import Event, Note
from agent_runner.errors import CountersignError, TryLater
from agent_runner.model import Inquiry, Place, Progress
from agent_runner.registers import Receipt, Registers
from agent_runner.store import Snapshot, Store
from bot.background import end_all
from bot.delivery import Client, Delivery, PlaceGone, SlowDown, ThreadGone, where
from cards.batch import Steps, as_asked
from cards.batch_card import batch_card
from cards.model import Actions, Card, Post
from cards.notices import moved_card
from cards.people import Names
from cards.posts import posts

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds to wait after the first, second, ... failure in a row of one task's messages."""

LEAD_MS = 20_000
"""How long the right to deliver lasts without being renewed; renewed at every look."""

LEAD_MARGIN = 12.0
"""Seconds before its end in which nothing is begun any more: longer than a client waits (10 s)."""

FITS_KEPT = 1_000
"""Batches of which it is remembered whether they fit on one card."""

THREADS = 2
"""The courier's own threads for the store: in the loop's common ones (6 on two processors) a person's
press would queue behind every chat that has something to show."""


@dataclass
class Lane:
    """The tasks of one chat that wait for their turn, and when the next message may be sent."""

    waiting: deque[tuple[str, bytes]] = field(default_factory=deque)
    not_before: float = 0.0
    work: asyncio.Task[None] | None = None


class NotLeading(Exception):
    """Another bot delivers now."""


class Pressed(Exception):
    """Somebody presses a button there at this moment."""


class Courier:
    """Brings the messages of all tasks up to date; `wake` and `progressed` may be called at any time."""

    def __init__(
        self,
        store: Store,
        registers: Registers,
        clients: Mapping[str, Client],
        *,
        approvers: Callable[[Inquiry, str], Names],
        told: Callable[[Inquiry, str], Mapping[str, Names]] = lambda *_: {},
        zone: tzinfo,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._registers = registers
        self._clients = clients
        self._approvers = approvers
        self._told = told
        self._zone = zone
        self._clock = clock
        self._me = secrets.token_hex(8)
        self._leads_until = float("inf")
        self._woken = asyncio.Event()
        self._progressed: set[str] = set()
        self._failures: dict[str, tuple[int, datetime]] = {}
        self._status_at: dict[str, datetime] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._fits: dict[tuple[Client, str], bool] = {}
        self._busy: set[str] = set()
        self._drawing = asyncio.Lock()
        """Of all chats one is drawn at a time, so that presses get their turn in between."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="courier")

    # --- when ----------------------------------------------------------------------------

    def wake(self) -> None:
        """Says that something may have changed."""
        self._woken.set()

    def progressed(self, task_id: str) -> None:
        """Says that a running turn told what it does now."""
        self._progressed.add(task_id)
        self._woken.set()

    async def run(self, *, every: float = 1.0) -> None:
        """Reconciles whenever woken, and every `every` seconds in any case, until cancelled."""
        self._leads_until = 0.0
        try:
            while True:
                self._woken.clear()
                try:
                    if await self._lead():
                        await self._start()
                except CountersignError as error:
                    log.warning("the courier could not read what to do: %s", error)
                try:
                    async with asyncio.timeout(every):
                        await self._woken.wait()
                except TimeoutError:
                    continue
        finally:
            await self._end()

    async def reconcile_all(self) -> None:
        """Brings every task on the work list up to date; one that fails stays on it."""
        await self._start()
        await asyncio.gather(
            *(lane.work for lane in self._lanes.values() if lane.work and not lane.work.done())
        )

    async def _lead(self) -> bool:
        """Whether this bot is the one that delivers."""
        asked = monotonic()
        leads = await self._aside(self._registers.lead, "courier", self._me, LEAD_MS)
        self._leads_until = asked + LEAD_MS / 1000 - LEAD_MARGIN if leads else 0.0
        return leads

    async def _end(self) -> None:
        await end_all(lane.work for lane in self._lanes.values() if lane.work)
        try:
            await asyncio.shield(self._aside(self._registers.resign, "courier", self._me))
        except TryLater:
            log.info("the right to deliver runs out by itself")

    async def _start(self) -> None:
        """Gives every task that may be stale to its chat's lane."""
        if not self._busy:
            self._drawing = asyncio.Lock()  # a lock belongs to the loop in which it was waited for
        for task_id, mark in [*await self._aside(self._registers.dirty), *self._told_progress()]:
            failed, not_before = self._failures.get(task_id, (0, self._clock()))
            if task_id in self._busy or (failed and self._clock() < not_before):
                self._look_again(task_id, mark)
                continue
            try:
                task = await self._aside(self._store.task, task_id)
            except TryLater:
                raise
            except CountersignError:  # the others' messages must not wait for this one's trouble
                self._put_off(task_id, failed + 1)
                log.exception("task %s is on the work list and cannot be read", task_id)
                continue
            lane = self._lanes.setdefault((task.place.platform, task.place.chat), Lane())
            self._busy.add(task_id)
            lane.waiting.append((task_id, mark))
            if lane.work is None or lane.work.done():
                lane.work = asyncio.create_task(self._work(lane))

    def _told_progress(self) -> list[tuple[str, bytes]]:
        told, self._progressed = self._progressed, set()
        return [(task_id, b"") for task_id in told]

    def _look_again(self, task_id: str, mark: bytes) -> None:
        """Remembers that a turn told something; what is on the work list is remembered there."""
        if not mark:
            self._progressed.add(task_id)

    async def _work(self, lane: Lane) -> None:
        while lane.waiting:
            task_id, mark = lane.waiting.popleft()
            try:
                await self._attempt(task_id, mark, lane)
            finally:
                self._busy.discard(task_id)

    async def _attempt(self, task_id: str, mark: bytes, lane: Lane) -> None:
        failed = self._failures.get(task_id, (0, None))[0]
        try:
            settled = await self.reconcile(task_id, lane, progress_only=not mark)
            self._failures.pop(task_id, None)
            if not settled:
                self._look_again(task_id, mark)
            elif mark and not await self._aside(self._registers.settle, task_id, mark):
                self.wake()  # it changed meanwhile
        except (NotLeading, Pressed):
            return
        except SlowDown as slow:
            lane.not_before = monotonic() + slow.seconds
            self._look_again(task_id, mark)
            log.info("the chat of task %s is at its limit for %.1f s", task_id, slow.seconds)
        except Exception:  # the others' messages must not wait for this one's trouble
            self._put_off(task_id, failed + 1)
            log.exception("messages of task %s are behind and will be tried again", task_id)

    def _put_off(self, task_id: str, failures: int) -> None:
        wait = PATIENCE[min(failures, len(PATIENCE)) - 1]
        self._failures[task_id] = (failures, self._clock() + timedelta(seconds=wait))

    async def _aside(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Does something that waits in a thread of the courier's own."""
        call = functools.partial(work, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    # --- what ----------------------------------------------------------------------------

    async def reconcile(self, task_id: str, lane: Lane, *, progress_only: bool = False) -> bool:
        """Makes the thread of one task show the stored state; False if some of it has to wait."""
        snap = await self._aside(self._store.snapshot, task_id)
        client = self._clients.get(snap.task.place.platform)
        if client is None:
            raise CountersignError(f"{snap.task.place.platform} is not switched on here.")
        if progress_only and not client.follows_progress:
            return True
        if client.answers_presses and await self._aside(self._registers.paused, task_id):
            return False
        place = await self._aside(self._registers.place_of, snap.task)
        receipts = await self._aside(self._registers.receipts, task_id)
        thread = _Thread(snap, client, place, receipts)
        try:
            return await self._bring_all(thread, lane)
        except PlaceGone as gone:
            await self._move(thread, lane, gone)
            return False

    async def _bring_all(self, thread: _Thread, lane: Lane) -> bool:
        every = await self._posts(thread.snap, thread.client)
        settled = True
        for versions in _ordered(list(zip(*every, strict=True)), thread.receipts):
            post, receipt = versions[0], thread.receipts.get(versions[0].key)
            if not thread.wants(post, receipt):
                continue
            if receipt is not None and thread.elsewhere(receipt):
                receipt = None
            if self._too_soon(thread, post, receipt):
                settled = False
                continue
            await self._bring(thread, lane, versions, receipt)
        for receipt in thread.left_over({post.key for post in every[0]}):
            await self._settle(thread, lane, receipt)
        return settled

    async def _posts(self, snap: Snapshot, client: Client) -> list[tuple[Post, ...]]:
        """What should stand in the thread now, in each of the platform's languages."""
        progress, people, told = await self._aside(self._read, snap, client)
        now = self._clock()
        composed = []
        for lang in client.languages:
            async with self._drawing:
                composed.append(self._compose(snap, client, lang, progress, people, told, now))
                await asyncio.sleep(0)
        return composed

    def _compose(
        self,
        snap: Snapshot,
        client: Client,
        lang: str,
        progress: Progress | None,
        people: dict[str, Names],
        told: dict[str, Names],
        now: datetime,
    ) -> tuple[Post, ...]:
        return posts(
            snap.task,
            snap.inquiries,
            progress=progress,
            approver_names=people,
            announce=client.announces,
            told=told,
            together=lambda steps: self._together(steps, client, people),
            lang=lang,
            zone=self._zone,
            now=now,
        )

    def _together(self, steps: Steps, client: Client, people: Mapping[str, Names]) -> bool:
        """Whether the steps of a batch fit on one card there, as they were when they were asked for.

        It must not change while they are decided, when buttons go and what they brought forth comes;
        remembered, because every look asks.
        """
        known = (client, steps[0].id)
        if len(self._fits) > FITS_KEPT:
            self._fits.clear()
        if known not in self._fits:
            asked = [as_asked(step) for step in steps]
            cards = (
                batch_card(asked, lang=lang, zone=self._zone, now=asked[0].asked_at, approver_names=people)
                for lang in client.languages
            )
            self._fits[known] = all(client.holds(card) for card in cards)
        return self._fits[known]

    def _read(
        self, snap: Snapshot, client: Client
    ) -> tuple[Progress | None, dict[str, Names], dict[str, Names]]:
        """What the agent does now, if that is shown there; who may decide about each request; who is told."""
        progress = self._registers.progress(snap.task.id) if client.follows_progress else None
        platform = snap.task.place.platform
        people = {inquiry.id: self._approvers(inquiry, platform) for inquiry in snap.inquiries}
        told = {key: names for i in snap.inquiries for key, names in self._told(i, platform).items()}
        return progress, people, told

    def _too_soon(self, thread: _Thread, post: Post, receipt: Receipt | None) -> bool:
        """Whether a status message was updated just now and can wait: the next look shows the latest."""
        if post.key != "status" or receipt is None or receipt.shown == post.card.fingerprint:
            return False
        last = self._status_at.get(thread.snap.task.id)
        now = self._clock()
        if (
            last
            and not thread.snap.task.ended
            and now < last + timedelta(seconds=thread.client.status_interval)
        ):
            return True
        self._status_at[thread.snap.task.id] = now
        if thread.snap.task.ended:
            self._status_at.pop(thread.snap.task.id, None)
        return False

    async def _bring(
        self, thread: _Thread, lane: Lane, versions: tuple[Post, ...], receipt: Receipt | None
    ) -> None:
        post = versions[0]
        if receipt is None or receipt.shown != post.card.fingerprint:
            cards = tuple(version.card for version in versions)
            receipt = await self._delivery(thread, lane).bring(post.key, post.revision, cards, receipt)
            if _outlives_its_buttons(post):
                receipt = receipt.having(card=post.card.model_dump_json())
                await self._aside(self._registers.keep_receipt, thread.snap.task.id, receipt)
        if not receipt.recorded:
            await self._record_shown(thread, post, receipt)

    def _delivery(self, thread: _Thread, lane: Lane) -> Delivery:
        async def keep(receipt: Receipt) -> None:
            await self._aside(self._registers.keep_receipt, thread.snap.task.id, receipt)

        async def turn() -> None:
            await self._turn(lane, thread.client.interval)
            await self._keep_away(thread)

        return Delivery(thread.client, thread.place, thread.snap.task.id, keep, turn, self._drawing)

    async def _turn(self, lane: Lane, interval: float) -> None:
        """Waits until the chat may get another message; raises `NotLeading` if it is not ours to send."""
        wait = lane.not_before - monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        if monotonic() > self._leads_until:
            raise NotLeading
        lane.not_before = monotonic() + interval

    async def _keep_away(self, thread: _Thread) -> None:
        """Raises `Pressed` while a press in this thread waits for its answer, which would undo an update."""
        if thread.client.answers_presses and await self._aside(self._registers.paused, thread.snap.task.id):
            raise Pressed

    async def _settle(self, thread: _Thread, lane: Lane, receipt: Receipt) -> None:
        """Takes the buttons off a message that is of an earlier turn."""
        card = Card.model_validate_json(receipt.card).settled()
        done = await self._delivery(thread, lane).bring(receipt.key, receipt.revision, (card,), receipt)
        await self._aside(self._registers.keep_receipt, thread.snap.task.id, done.having(card=""))

    async def _record_shown(self, thread: _Thread, post: Post, receipt: Receipt) -> None:
        """Puts on record where each inquiry was shown first, and a digest of what was shown."""
        task_id = thread.snap.task.id
        notes = [
            Note(
                event=Event.INQUIRY_SHOWN,
                at=self._clock(),
                task_id=task_id,
                inquiry_id=inquiry.id,
                digest=inquiry.digest,
                details={
                    "place": thread.place.model_dump(),
                    "shown": receipt.shown,
                    "revision": inquiry.revision if post.card.inquiry_ids else receipt.revision,
                },
            )
            for inquiry in map(thread.snap.inquiry, post.card.about)
        ]
        await self._aside(self._store.transact, task_id, lambda before: lifecycle.remark(before, *notes))
        await self._aside(self._registers.keep_receipt, task_id, receipt.having(recorded=True))

    async def _move(self, thread: _Thread, lane: Lane, gone: PlaceGone) -> None:
        """Goes on in the fallback chat, in a thread of its own that says why."""
        task, client = thread.snap.task, thread.client
        chat = thread.place.chat if isinstance(gone, ThreadGone) else client.fallback
        if not chat or (chat == thread.place.chat and not isinstance(gone, ThreadGone)):
            raise CountersignError(
                f"Task {task.number} cannot be shown any more ({gone}), and there is no fallback chat."
            )
        await self._turn(lane, client.interval)
        card = moved_card(task, lang=client.languages[0])
        place = await client.open_thread(chat, card)
        await self._aside(self._registers.move, task.id, place)
        log.warning("task %s goes on in another thread: %s", task.id, gone)


@dataclass(frozen=True)
class _Thread:
    """One task's thread: what is stored, where it stands, what was posted."""

    snap: Snapshot
    client: Client
    place: Place
    receipts: dict[str, Receipt]

    def elsewhere(self, receipt: Receipt) -> bool:
        """Whether a message stands in a thread that is gone."""
        return receipt.where not in ("", where(self.place))

    def wants(self, post: Post, receipt: Receipt | None) -> bool:
        """Whether this message belongs here; what is settled stays behind in a place that is gone."""
        if receipt is None or not self.elsewhere(receipt):
            return True
        about = [self.snap.inquiry(inquiry_id) for inquiry_id in post.card.about]
        return not about or any(inquiry.open for inquiry in about)

    def left_over(self, wanted: set[str]) -> list[Receipt]:
        """Messages with buttons that are no longer among those wanted."""
        return [receipt for key, receipt in self.receipts.items() if receipt.card and key not in wanted]


def _ordered(posts: list[tuple[Post, ...]], receipts: Mapping[str, Receipt]) -> list[tuple[Post, ...]]:
    """New messages in the order of the story; of the known ones, the status last: it can wait."""
    return sorted(posts, key=lambda versions: versions[0].key == "status" and "status" in receipts)


def _outlives_its_buttons(post: Post) -> bool:
    return post.key.startswith("result:") and any(isinstance(e, Actions) for e in post.card.elements)
