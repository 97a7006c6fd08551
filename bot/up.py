"""`countersign up`: store, bot and runner on one machine, from one command, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_runner import config as configuration
from agent_runner.errors import FixConfiguration, TryLater
from agent_runner.processes import die_with_parent
from agent_runner.queues import runners
from bot import serve
from bot.doctor import admit_storage
from bot.embedded import redis_address
from bot.findings import Level
from bot.private_files import lock, private_directory, write_private
from bot.settings import Settings

START_SECONDS = 30.0
"""How long the parts get to start (about 3 s on two cores)."""

STOP_SECONDS = 10.0
"""How long running turns get to end after Ctrl-C; what is cut off goes on at the next start."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Address:
    """Where a running bot is: what `ask` and `decide` read from the state directory."""

    url: str
    token: str

    @property
    def link(self) -> str:
        """The page, signed in."""
        return f"{self.url}/login?token={self.token}"


def up(settings: Settings, *, say: Say, as_json: bool, flags: Sequence[str]) -> None:
    """Runs everything; `say` gets lines for the person. Raises `FixConfiguration` with the remedy."""
    private_directory(settings.state_dir)
    with _alone(settings.state_dir), store_of(settings) as url, model_of(settings, say) as model:
        admit(settings, url, say)
        bot = serve.build(settings, url)
        listening = serve.listen(settings.host, settings.port)
        address = address_of(bot, listening.getsockname()[1])
        environment = {**settings.environment, **model, "REDIS_URL": url}
        with _runner(flags, environment, settings.state_dir / "runner.log") as runner:
            asyncio.run(_serve(bot, listening, runner, lambda: _ready(address, say, as_json)))
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


def known_address(state_dir: Path) -> Address:
    """Where the bot of this state directory is; raises `FixConfiguration` if none was started."""
    try:
        url = (state_dir / "address").read_text().strip()
        token = (state_dir / "token").read_text().strip()
    except OSError:
        raise FixConfiguration(
            f"No bot was started with {state_dir}.",
            hint="Start one with `countersign up`, or give --url and --token.",
        ) from None
    return Address(url, token)


def _ready(address: Address, say: Say, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"url": address.url, "token": address.token}), flush=True)  # noqa: T201  (the answer)
        return
    say(f"Countersign is ready. Open this link:\n\n    {address.link}\n")
    say('Or in another terminal: countersign ask "..."     Ctrl-C ends everything.')


async def _serve(
    bot: serve.Bot, listening: socket.socket, runner: subprocess.Popen[bytes], ready: Callable[[], None]
) -> None:
    stop = serve.stop_on_signals()
    served = asyncio.Event()
    announcing = asyncio.create_task(_announce(bot, served, runner, ready, stop))
    await serve.run(bot, listening, ready=served.set, stop=stop)
    announcing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await announcing


async def _announce(
    bot: serve.Bot,
    served: asyncio.Event,
    runner: subprocess.Popen[bytes],
    ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Says "ready" when the page answers and a worker is there; stops everything if none comes."""
    await served.wait()
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    while True:
        with contextlib.suppress(TryLater):
            if await asyncio.to_thread(runners, bot.store.client):
                break
        if runner.poll() is not None or asyncio.get_running_loop().time() > deadline:
            stop.set()
            raise FixConfiguration(
                "The runner did not start.",
                hint=f"Its last words are in {bot.settings.state_dir / 'runner.log'}.",
            )
        await asyncio.sleep(0.05)
    ready()


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
    with store_of(settings) as url, model_of(settings, say) as model:
        admit(settings, url, say)
        runtime = Runtime(
            config=settings.config,
            redis_url=url,
            model_environment={**settings.model_environment, **model},
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


@contextlib.contextmanager
def store_of(settings: Settings) -> Iterator[str]:
    """The address of the store: the configured one, else the private one of the state directory."""
    folders = [Path(p) for p in [settings.environment.get("XDG_RUNTIME_DIR", "")] if p]
    path = settings.environment.get("PATH", os.defpath)
    with redis_address(
        settings.redis_url, settings.state_dir / "redis", path=path, runtime_dirs=folders
    ) as url:
        yield url


@contextlib.contextmanager
def model_of(settings: Settings, say: Say) -> Iterator[dict[str, str]]:
    """The environment that leads to the model: the real one, or the rehearsal's."""
    if not settings.rehearsal:
        yield {}
        return
    say(
        "ANTHROPIC_API_KEY is not set: this is the rehearsal. A scripted model plays Claude, "
        "so that everything can be tried for free."
    )
    with rehearsal_process(settings.environment) as url:
        yield {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "rehearsal"}


@contextlib.contextmanager
def rehearsal_process(environment: Mapping[str, str]) -> Iterator[str]:
    """A process that serves the scripted model; yields its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bot.cli", "rehearsal"],
        stdout=subprocess.PIPE,
        env=environment,
        preexec_fn=die_with_parent,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None  # noqa: S101  (asked for above)
        url = process.stdout.readline().decode().strip()
        if not url:
            raise FixConfiguration("The rehearsal did not start.", hint="Run `countersign rehearsal`.")
        yield url
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _runner(
    flags: Sequence[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The runner in a process of its own, ended with its turns; its log is a file."""
    with log.open("ab") as written:
        process = subprocess.Popen(  # noqa: S603  (this program itself)
            [sys.executable, "-m", "bot.cli", "runner", *flags],
            env=environment,
            stdout=written,
            stderr=written,
            preexec_fn=die_with_parent,
            start_new_session=True,  # a Ctrl-C in the terminal is for us, who tell it in order
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Warm first; after `STOP_SECONDS`, or on a second Ctrl-C, cold."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3.0)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
