"""What the web platform is given: everything it talks to, and nothing it reads by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from agent_runner.config import Config
from agent_runner.registers import AsyncRedis, Registers
from agent_runner.store import Store
from bot.handle import Handler


@dataclass(frozen=True)
class Service:
    """The parts behind the page and its API. `handler`, `store` and `registers` are synchronous."""

    handler: Handler
    store: Store
    registers: Registers
    config: Config
    clock: Callable[[], datetime]
    runners: Callable[[], int]
    """How many runners are alive; may raise `TryLater`."""
    async_redis: Callable[[], AsyncRedis]
    """A new connection for the change feed; its read timeout must exceed one second."""
    version: str
    zone: tzinfo
    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    """Names (without port) under which the page may be reached: others are DNS rebinding."""
