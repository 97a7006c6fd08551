"""The long connection: Feishu's events and clicks over a WebSocket that the bot opens.

Everything runs on the bot's own loop and nothing in it blocks. An event is acknowledged at once and
handed over; a click is answered with what `on_card` returns, or in time with words that say that it
takes longer. Whatever ends a connection, another one follows; silence ends it as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agent_runner.errors import CountersignError, FixInput, TryLater
from bot.feishu import dial
from bot.feishu.frames import Json, Parts, Wire, envelope, load

log = logging.getLogger(__name__)

CARD = "card.action.trigger"


@dataclass(frozen=True)
class Patience:
    """All times in seconds."""

    answer: float = 2.5
    """Until a click is answered in any case; Feishu waits 3."""
    request: float = 8.0
    """For asking where to connect, and for connecting."""
    silence: float = 30.0
    """How long after a ping's time nothing may be heard."""
    grace: float = 3.0
    """For what is still being done when the connection is stopped."""
    closing: float = 1.0
    """For the other side to say goodbye."""
    restarts: tuple[float, ...] = (1.0, 2.0, 5.0, 15.0, 60.0)
    """Before the first, second, ... new connection in a row."""
    steady: float = 60.0
    """A connection that held for so long has not failed: the next restart is the first again."""


class LongConnection:
    """One long connection, kept open from `start` to `stop`.

    `on_event` gets each event's envelope (`schema`, `header`, `event`), begun in the order in which
    they came; the same one may come again. `on_card` gets a click's envelope and returns the answer
    (`{}`, or with `toast` and `card`). If it takes too long the click is answered with `late`, and
    goes on being handled; if it raises, with `failed`. Neither can harm the connection.
    """

    def __init__(
        self,
        app_id: str,
        app_secret: str,
        domain: str,
        *,
        on_event: Callable[[Json], Awaitable[None]],
        on_card: Callable[[Json], Awaitable[Json]],
        late: Mapping[str, Any],
        failed: Mapping[str, Any],
        patience: Patience | None = None,
        clock: Callable[[], float] = monotonic,
        wire: Callable[[], Wire] = load,
    ) -> None:
        self._credentials = {"AppID": app_id, "AppSecret": app_secret}
        self._domain = domain
        self._on_event = on_event
        self._on_card = on_card
        self._late = dict(late)
        self._failed = dict(failed)
        self._patience = patience or Patience()
        self._clock = clock
        self._load = wire
        self._wire: Wire | None = None
        self._running: asyncio.Task[None] | None = None
        self._works: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._heard_at = float("-inf")
        self._heard = asyncio.Event()
        self._ping_seconds = 0.0
        self._told = ""
        self.trouble: CountersignError | None = None
        """Why there is no connection now; its hint says what to do."""

    # --- from outside --------------------------------------------------------------------

    def start(self) -> None:
        """Begins to connect, and returns at once."""
        if self._running is None:
            self._stopping = False
            self._running = asyncio.create_task(self._run(), name="feishu-connection")

    async def stop(self) -> None:
        """Takes nothing new, lets what is being handled end, and closes; within 5 s."""
        running, self._running = self._running, None
        if running is None:
            return
        self._stopping = True
        if self._works:
            await asyncio.wait(self._works, timeout=self._patience.grace)
        for task in (*self._works, running):
            task.cancel()
        await asyncio.gather(running, *self._works, return_exceptions=True)
        self._lost()

    def healthy(self) -> bool:
        """Whether the connection is open and was heard of as lately as it should be."""
        return self._heard.is_set() and self.silent_for() <= self._longest_silence()

    def silent_for(self) -> float:
        """Seconds since the last frame of this connection; infinite if there was none."""
        return self._clock() - self._heard_at

    async def wait_until_healthy(self, seconds: float) -> bool:
        """Whether the connection stands within so many seconds; `trouble` says why not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        return self.healthy()

    # --- one connection after another ----------------------------------------------------

    async def _run(self) -> None:
        async with httpx.AsyncClient(verify=dial.tls()) as http:
            await self._keep_connected(http)

    async def _keep_connected(self, http: httpx.AsyncClient) -> None:
        failures = 0
        while True:
            began = self._clock()
            try:
                await self._connection(http)
                trouble: CountersignError = TryLater("Feishu closed the long connection.")
            except CountersignError as error:
                trouble = error
            except Exception as error:  # noqa: BLE001  (logged by its kind alone: words of the socket library hold the access key)
                trouble = TryLater(f"The long connection failed ({type(error).__name__}).")
            self._lost()
            self._tell(trouble)
            failures = 1 if self._clock() - began >= self._patience.steady else failures + 1
            waits = self._patience.restarts
            await asyncio.sleep(waits[min(failures, len(waits)) - 1])

    def _lost(self) -> None:
        self._heard.clear()
        self._heard_at = float("-inf")

    def _tell(self, trouble: CountersignError) -> None:
        """Says what is wrong, and what to do about it, once until it is another thing."""
        self.trouble = trouble
        words = f"{trouble.message} {trouble.hint}".rstrip()
        log.log(logging.DEBUG if words == self._told else logging.WARNING, "long connection: %s", words)
        self._told = words

    async def _connection(self, http: httpx.AsyncClient) -> None:
        """Connects and reads until the connection ends; raises what prevented it."""
        if self._wire is None:
            self._wire = await asyncio.to_thread(self._load)
        patience = self._patience
        address = await dial.ask(http, self._domain, self._credentials, seconds=patience.request)
        self._ping_seconds = address.ping_seconds
        socket = await dial.connected(address, seconds=patience.request, closing=patience.closing)
        silent, parts = asyncio.Event(), Parts()
        others = (
            asyncio.create_task(self._ping(self._wire, socket, address.service)),
            asyncio.create_task(self._watch(socket, silent)),
        )
        try:
            async for data in socket:
                self._take(self._wire, socket, parts, data)
        except ConnectionClosed as closed:
            if not silent.is_set():
                raise TryLater("The long connection broke off.", cause=type(closed).__name__) from None
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await socket.close()
        if silent.is_set():
            raise TryLater("Nothing was heard on the long connection any more.")

    # --- signs of life -------------------------------------------------------------------

    async def _ping(self, wire: Wire, socket: ClientConnection, service: int) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.send(wire.ping(service))
                await asyncio.sleep(self._ping_seconds)

    async def _watch(self, socket: ClientConnection, silent: asyncio.Event) -> None:
        """Closes a connection on which nothing is heard: it may look open for hours."""
        opened = self._clock()
        while True:
            left = self._longest_silence() - (self._clock() - max(opened, self._heard_at))
            if left <= 0:
                break
            await asyncio.sleep(left)
        silent.set()
        await socket.close()

    def _longest_silence(self) -> float:
        return self._ping_seconds + self._patience.silence

    # --- what comes in -------------------------------------------------------------------

    def _take(self, wire: Wire, socket: ClientConnection, parts: Parts, data: bytes | str) -> None:
        """Deals with one frame; never raises and never waits."""
        self._heard_at = self._clock()
        if not self._heard.is_set():
            self._heard.set()
            self.trouble, self._told = None, ""
            log.info("the long connection stands")
        try:
            frame = wire.read(data)
            if not wire.is_data(frame):
                self._ping_seconds = wire.ping_seconds(frame) or self._ping_seconds
                return
            payload = parts.add(*wire.part(frame), frame.payload, self._heard_at)
        except FixInput as error:
            log.warning("a frame was dropped: %s %s", error.message, error.details)
            return
        if (
            payload is not None and not self._stopping
        ):  # else not acknowledged: it comes again, to another bot
            self._handle(wire, socket, frame, payload)

    def _handle(self, wire: Wire, socket: ClientConnection, frame: Any, payload: bytes) -> None:
        event, began = envelope(payload), self._clock()

        async def acknowledge(answer: Json | None) -> None:
            ms = round((self._clock() - began) * 1000)
            try:
                await socket.send(wire.acknowledged(frame, answer, ms))
            except ConnectionClosed:
                log.warning("an event could not be acknowledged: the connection broke off")

        async def answer_click() -> None:
            await acknowledge(await self._answer(event, began + self._patience.answer))

        if event.get("header", {}).get("event_type") == CARD:
            self._work(answer_click())
            return
        # Acknowledged whatever it is, else it comes again for hours, and holds up those behind it.
        self._work(acknowledge(None))
        if event:
            self._work(self._hand_over(event))
        else:
            log.warning("Feishu sent what is no event of schema 2.0; it was dropped")

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    async def _hand_over(self, event: Json) -> None:
        try:
            await self._on_event(event)
        except Exception:
            log.exception("an event was not handled: %s", event["header"].get("event_type"))

    async def _answer(self, event: Json, until: float) -> Json:
        """What a click is answered with, in time."""
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

        async def handle() -> None:
            found = await self._handled(event)
            if not answer.done():
                answer.set_result(found)

        self._work(handle())
        try:
            async with asyncio.timeout(max(0.0, until - self._clock())):
                return await answer
        except TimeoutError:
            log.warning("a click takes longer than %g s", self._patience.answer)
            return self._late

    async def _handled(self, event: Json) -> Json:
        try:
            found = await self._on_card(event)
            json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
            return dict(found)
        except Exception:
            log.exception("a click was not handled")
            return self._failed
