"""Puts the bot together and runs it: web app, courier, clock, and the change feed that wakes them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from importlib.metadata import version
from pathlib import Path

import uvicorn

from agent_runner import config as configuration
from agent_runner import queues
from agent_runner.errors import FixConfiguration
from agent_runner.registers import Registers, connect_feed
from agent_runner.store import Store, connect
from bot.background import end_all
from bot.clock import Clock
from bot.courier import Courier
from bot.doors import Door, Parts
from bot.handle import Handler
from bot.platforms import clients, doors
from bot.settings import Settings
from bot.web.app import create_app
from bot.web.events import Feed
from bot.web.server import GRACE, WebServer
from bot.web.service import Service

log = logging.getLogger(__name__)

OPEN_AGAIN = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds between attempts to connect a chat product that is away."""

CLOSE_SECONDS = 15.0
"""Longest that a chat product may take to disconnect, of which 5 s are for what it was told already."""

LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Bot:
    """The parts of a running bot."""

    settings: Settings
    store: Store
    registers: Registers
    handler: Handler
    redis_url: str


def build(settings: Settings, redis_url: str) -> Bot:
    """Connects the parts; raises `FixConfiguration` if the store is of another version."""
    config = settings.config
    client = connect(redis_url, patient=False)
    store = queues.open_store(client, config)
    store.check_schema()
    registers = Registers(client)
    here = settings.config_path.parent if settings.config_path else Path()
    handler = Handler(
        store,
        config,
        needs_approval=configuration.load_hook(config, here),
        groups=lambda: registers.groups(config.group_keepers),
        clock=_now,
        new_id=queues.fresh_id,
        zone=_zone(),
    )
    return Bot(settings, store, registers, handler, redis_url)


def listen(host: str, port: int) -> socket.socket:
    """The bound socket; raises `FixConfiguration` when the port is taken."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise FixConfiguration(
            f"Cannot listen on {host}:{port}: {error.strerror}.",
            hint="Choose another one with --port, or end the program that uses it.",
        ) from error


async def run(bot: Bot, listening: socket.socket, *, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Serves until `stop` is set; calls `ready` when the page answers.

    Raises `FixConfiguration` when a chat product refuses its tokens.
    """
    feeders: list[Courier] = []

    def wake() -> None:
        for courier in feeders:
            courier.wake()

    parts = _parts(bot, listening, wake)
    opened = doors(parts)
    app = create_app(
        _service(bot), {path: door for one in opened.values() for path, door in one.http.items()}
    )
    settings = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE, server_header=False
    )
    server = _Server(settings, app.state.feed)
    config = bot.settings.config
    courier = Courier(
        bot.store,
        bot.registers,
        clients(parts, opened),
        approvers=bot.handler.approvers,
        zone=_zone(),
        clock=_now,
    )
    feeders.append(courier)
    enqueuer = queues.Enqueuer(bot.store.client, config)
    clock = Clock(
        bot.store,
        bot.registers,
        recover=lambda: queues.recover(bot.store, bot.registers, enqueuer),
        clock=_now,
    )
    loops = [
        asyncio.create_task(coroutine)
        for coroutine in (
            courier.run(),
            clock.run(),
            _feed(bot, courier),
            _when_up(server, ready),
            _when_told(server, stop),
        )
    ]
    openings = [asyncio.create_task(_open(name, door, stop)) for name, door in opened.items()]
    try:
        await server.serve(sockets=[listening])
    finally:
        await end_all([*loops, *openings])
        await asyncio.gather(*(_closed(name, door) for name, door in opened.items()))
    for opening in openings:
        end = None if opening.cancelled() else opening.exception()
        if isinstance(end, FixConfiguration):
            raise end


async def _open(name: str, door: Door, stop: asyncio.Event) -> None:
    """Connects a chat product, however long it is away; what needs a person ends the bot."""
    for wait in itertools.chain(OPEN_AGAIN, itertools.repeat(OPEN_AGAIN[-1])):
        try:
            await door.start()
            log.info("%s is connected", name)
            return
        except FixConfiguration:
            stop.set()
            raise
        except Exception as error:  # noqa: BLE001  (it may come back, and the page works without it)
            log.warning("%s cannot be reached; tried again in %.0f s: %s", name, wait, error)
            await door.stop()
            await asyncio.sleep(wait)


async def _closed(name: str, door: Door) -> None:
    """Disconnects a chat product; one that hangs or fails must not keep the bot from its end."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await door.stop()
    except Exception:
        log.exception("%s did not disconnect in order", name)


def _parts(bot: Bot, listening: socket.socket, wake: Callable[[], None]) -> Parts:
    host, port = listening.getsockname()[:2]
    return Parts(
        settings=bot.settings,
        store=bot.store,
        registers=bot.registers,
        handler=bot.handler,
        clock=_now,
        zone=_zone(),
        wake=wake,
        page=(bot.settings.config.web.public_url or f"http://{host}:{port}").rstrip("/"),
    )


def _service(bot: Bot) -> Service:
    settings = bot.settings
    public = settings.config.web.public_url
    host = public.split("://")[-1].split("/")[0].rsplit(":", 1)[0] if public else ""
    return Service(
        handler=bot.handler,
        store=bot.store,
        registers=bot.registers,
        config=settings.config,
        clock=_now,
        runners=lambda: queues.runners(bot.store.client),
        async_redis=lambda: connect_feed(bot.redis_url),
        version=version("countersign"),
        zone=_zone(),
        allowed_hosts=tuple(h for h in (*LOCAL_HOSTS, settings.host, host) if h),
    )


async def _feed(bot: Bot, courier: Courier) -> None:
    """Wakes the courier on every change; what is missed while the store is away it finds itself."""
    while True:
        client = connect_feed(bot.redis_url)
        try:
            after = await asyncio.to_thread(bot.registers.last_change)
            async for task, what in bot.registers.changes(client, after):
                if what == "progress":
                    courier.progressed(task)
                elif what != "idle":
                    courier.wake()
        except Exception as error:  # noqa: BLE001  (whatever broke the feed, it is begun again)
            log.warning("the change feed broke and is begun again: %s", error)
            await asyncio.sleep(1.0)
        finally:
            await client.aclose()


async def _when_up(server: _Server, ready: Callable[[], None]) -> None:
    await server.up.wait()
    ready()


async def _when_told(server: _Server, stop: asyncio.Event) -> None:
    await stop.wait()
    server.should_exit = True


class _Server(WebServer):
    """The web server, which leaves the signals to us and says when it answers."""

    def __init__(self, config: uvicorn.Config, feed: Feed) -> None:
        super().__init__(config, feed)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: whoever started it says when to stop."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, and then tells."""
        await super().startup(sockets)
        self.up.set()


def stop_on_signals() -> asyncio.Event:
    """Set by SIGTERM or SIGINT; for the running loop."""
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return stop


def _now() -> datetime:
    return datetime.now(UTC)


def _zone() -> tzinfo:
    return datetime.now().astimezone().tzinfo or UTC
