"""A new policy in shadow mode: past and running calls judged by it, before it is switched on.

Reads a configuration file as the start does, and the store; writes to neither.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from agent_runner import config as configuration
from agent_runner import past_calls
from agent_runner.config import Config
from agent_runner.errors import FixConfiguration, FixInput, TryLater
from agent_runner.past_calls import Gaps, Window
from agent_runner.shadow import PastCall, Rules, Shadow, shadow
from agent_runner.store import Store, connect
from agent_runner.transcripts import RedisTranscripts
from bot.settings import Settings
from bot.since import ALLOWED
from bot.stores import store_of


def rules_of(config: Config, file: Path | None) -> Rules:
    """The rules of a configuration, with the function that they name, as the start loads it."""
    hook = configuration.load_hook(config, file.parent if file else Path())
    return Rules(config.policy, config.people, hook)


def present_rules(settings: Settings, *, beside: Path) -> Rules:
    """The rules that hold now. Load them before those of the file `beside` (see `_own_modules`)."""
    file = settings.config_path
    alone = _same(file.parent if file else Path(), beside.parent)
    with contextlib.nullcontext() if alone else _own_modules(file.parent if file else Path()):
        return rules_of(settings.config, file)


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


@contextlib.contextmanager
def _own_modules(directory: Path) -> Iterator[None]:
    """Forgets what was imported from the directory: another one may have modules of the same names."""
    known = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).resolve().is_relative_to(directory.resolve()):
                del sys.modules[name]


def window(since: datetime, until: datetime, workspaces: tuple[str, ...], now: datetime) -> Window:
    """The calls to look at; raises `FixInput` for a time in which there can be none."""
    if since >= now:
        raise FixInput("--since lies in the future.", hint=ALLOWED)
    if until <= since:
        raise FixInput("--until is not later than --since.", hint=ALLOWED)
    return Window(since, until, frozenset(workspaces))


def judge_all(
    settings: Settings, window: Window, before: Rules, after: Rules, each: Callable[[Shadow], None]
) -> Gaps:
    """Gives `each` call with both opinions; returns what could not be read."""
    if not settings.redis_url and not (settings.state_dir / "redis").is_dir():
        raise FixConfiguration(
            f"There is no store in {settings.state_dir}: nothing has been run from there.",
            hint="Set REDIS_URL as for the bot, or name its directory with --state-dir.",
        )
    gaps = Gaps(plans=settings.scratch)
    with store_of(settings) as url:
        try:
            asyncio.run(_judge_all(url, window, gaps, lambda past: each(shadow(past, before, after))))
        except TryLater as error:
            raise TryLater(
                "The store did not answer, so not every call was judged.",
                hint="Try again; `countersign doctor` shows the cause.",
            ) from error
    _refuse_unknown(window, gaps, settings)
    return gaps


async def _judge_all(url: str, window: Window, gaps: Gaps, each: Callable[[PastCall], None]) -> None:
    try:
        client, transcripts = connect(url, patient=True), RedisTranscripts.connect(url)
    except ValueError as error:
        raise FixConfiguration(f"REDIS_URL cannot be read: {error}.", hint="Correct it.") from error
    async with transcripts:
        with client:
            async for past in past_calls.read(Store(client, enqueue=_never), transcripts, window, gaps):
                each(past)


def _never(*_: object) -> None:
    raise RuntimeError("this store is only read")


def _refuse_unknown(window: Window, gaps: Gaps, settings: Settings) -> None:
    known = gaps.workspaces | settings.config.workspaces.keys()
    for name in sorted(window.workspaces - known):
        raise FixInput(
            f"There is no workspace {name!r}, and no task of one.",
            hint=f"Known are {', '.join(sorted(known)) or 'none'}.",
        )
