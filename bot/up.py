"""`countersign up`: store, bot and runner on one machine, from one command, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent_runner import config as configuration
from agent_runner.errors import FixConfiguration, TryLater
from agent_runner.queues import runners
from bot import serve
from bot.address import Address
from bot.children import Child, RehearsalProcess, RunnerProcess
from bot.doctor import admit_storage
from bot.findings import Level
from bot.private_files import lock, private_directory, write_private
from bot.settings import Settings
from bot.stores import private_store, store_of

START_SECONDS = 60.0
"""How long the parts get to start: about 3 s on two idle cores, 20 s on very busy ones."""

MIND_SECONDS = 0.5
"""Time between two looks at the child processes."""

Say = Callable[[str], None]


def up(settings: Settings, *, say: Say, as_json: bool, flags: Sequence[str]) -> None:
    """Runs everything; `say` gets lines for the person. Raises `FixConfiguration` with the remedy."""
    private_directory(settings.state_dir)
    with contextlib.ExitStack() as parts:
        parts.enter_context(_alone(settings.state_dir))
        store = None if settings.redis_url else parts.enter_context(private_store(settings))
        url = store.url if store else settings.redis_url
        listening = parts.enter_context(serve.listen(settings.host, settings.port))
        admit(settings, url, say)
        rehearsal = rehearsal_of(settings, say)
        model = rehearsal.model_environment if rehearsal else {}
        environment = {**settings.environment, **model, "REDIS_URL": url}
        runner = RunnerProcess(
            "runner", *flags, environment=environment, log=settings.state_dir / "runner.log"
        )
        for child in (rehearsal, runner):
            if child:
                parts.enter_context(child)
        bot = serve.build(settings, url)
        address = address_of(bot, listening.getsockname()[1])
        children = [child for child in (store, rehearsal, runner) if child]
        asyncio.run(_serve(bot, listening, children, say, lambda: _ready(address, say, as_json)))
        say("Stopping; running turns get a moment to end. Nothing is lost.")


def address_of(bot: serve.Bot, port: int) -> Address:
    """The local person's address and token; the token stays the same over restarts."""
    settings = bot.settings
    file = settings.token_file
    token = file.read_text().strip() if file.exists() else ""
    if not token:
        token = secrets.token_urlsafe(24)
        write_private(file, f"{token}\n")
    bot.registers.keep_token(token, settings.local_person())
    shown = "127.0.0.1" if settings.host in ("0.0.0.0", "::", "") else settings.host  # noqa: S104  (compared, not bound)
    address = Address(settings.config.web.public_url or f"http://{shown}:{port}", token)
    write_private(settings.state_dir / "address", f"http://{shown}:{port}\n")
    return address


def _ready(address: Address, say: Say, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"url": address.url, "token": address.token}), flush=True)  # noqa: T201  (the answer)
        return
    say(f"Countersign is ready. Open this link:\n\n    {address.link}\n")
    say('Or in another terminal: countersign ask "..."     Ctrl-C ends everything.')


async def _serve(
    bot: serve.Bot, listening: socket.socket, children: Sequence[Child], say: Say, ready: Callable[[], None]
) -> None:
    stop, served = serve.stop_on_signals(), asyncio.Event()
    others = [
        asyncio.create_task(_announce(bot, served, ready, stop)),
        asyncio.create_task(_mind(children, say)),
    ]
    await serve.run(bot, listening, ready=served.set, stop=stop)
    for other in others:
        if not other.done():
            other.cancel()
    await asyncio.wait(others)
    for other in others:
        if not other.cancelled() and other.exception():
            raise other.exception() or AssertionError


async def _announce(
    bot: serve.Bot, served: asyncio.Event, ready: Callable[[], None], stop: asyncio.Event
) -> None:
    """Says "ready" when the page answers and a worker is there; stops everything if none comes."""
    await served.wait()
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await asyncio.to_thread(_workers, bot):  # noqa: ASYNC110  (another process's doing)
                await asyncio.sleep(0.05)
    except TimeoutError:
        stop.set()
        raise FixConfiguration(
            "The runner did not start.",
            hint=f"Its last words are in {bot.settings.state_dir / 'runner.log'}.",
        ) from None
    ready()


def _workers(bot: serve.Bot) -> int:
    try:
        return runners(bot.store.client)
    except TryLater:
        return 0


async def _mind(children: Sequence[Child], say: Say) -> None:
    """Starts again what ended by itself. From this, the main thread: children end with theirs."""
    while True:
        await asyncio.sleep(MIND_SECONDS)
        for child in children:
            if child.ended:
                say(f"{child.what} ended by itself and is started again.")
                child.start()


def admit(settings: Settings, url: str, say: Say) -> None:
    """Refuses a store that would lose approvals (cases E05, E06); says what is only a risk."""
    for finding in admit_storage(url, settings.state_dir, external=bool(settings.redis_url)):
        if finding.level is not Level.OK:
            say(f"{finding.what} {finding.remedy}".strip())


def run_runner(settings: Settings, *, pool: str, workers: int, say: Say) -> None:
    """Serves a pool in this process until SIGTERM."""
    # Here, not above: the bot must not pay a second and 70 MB for the SDK it never uses.
    from agent_runner.jobs import Runner
    from agent_runner.turns import Runtime

    private_directory(settings.state_dir)
    here = settings.config_path.parent if settings.config_path else Path()
    rehearsal = rehearsal_of(settings, say)
    with store_of(settings) as url, rehearsal or contextlib.nullcontext():
        admit(settings, url, say)
        runtime = Runtime(
            config=settings.config,
            redis_url=url,
            model_environment=rehearsal.model_environment if rehearsal else settings.model_environment,
            environment=settings.agent_environment,
            scratch=settings.scratch,
            needs_approval=configuration.load_hook(settings.config, here),
        )
        Runner(runtime, pool, workers).run()


@contextlib.contextmanager
def _alone(state_dir: Path) -> Iterator[None]:
    """One `up` per state directory."""
    held = lock(state_dir / "up.lock", 0.0)
    if held is None:
        where = (state_dir / "address").read_text().strip() if (state_dir / "address").exists() else "?"
        raise FixConfiguration(
            f"Countersign runs already with {state_dir}, at {where}.",
            hint="Use that one, end it, or choose another --state-dir.",
        )
    try:
        yield
    finally:
        os.close(held)


def rehearsal_of(settings: Settings, say: Say) -> RehearsalProcess | None:
    """The rehearsal, not started yet, if there is no model to talk to; says so."""
    if not settings.rehearsal:
        return None
    say(
        "ANTHROPIC_API_KEY is not set: this is the rehearsal. A scripted model plays Claude, "
        "so that everything can be tried for free."
    )
    return RehearsalProcess(settings.environment, settings.state_dir / "rehearsal.log")
