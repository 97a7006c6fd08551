"""What a platform is made from, and what it gives: for `platforms` and the platforms' own folders."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Protocol
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from agent_runner.errors import FixConfiguration
from agent_runner.registers import Registers
from agent_runner.store import Store
from bot.delivery import Client
from bot.handle import Handler
from bot.settings import Settings


@dataclass(frozen=True)
class Parts:
    """What a platform is made from."""

    settings: Settings
    store: Store
    registers: Registers
    handler: Handler
    clock: Callable[[], datetime]
    zone: tzinfo
    wake: Callable[[], None]
    """Tells the courier that something changed."""
    page: str
    """The address of the web page."""

    @property
    def page_is_public(self) -> bool:
        """Whether others than this machine's user may reach the page by that address."""
        host = urlsplit(self.page).hostname or "localhost"
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return host != "localhost"
        return not (address.is_loopback or address.is_unspecified)

    def page_of(self, task_id: str) -> str:
        """The address of a task's page."""
        return f"{self.page}/t/{task_id}"


class Door(Protocol):
    """A platform through which people come in."""

    client: Client
    http: Mapping[str, ASGIApp]
    """Path -> what answers there, for products that call us."""

    async def start(self) -> None:
        """Connects; raises what whoever runs the bot has to know."""

    async def stop(self) -> None:
        """Disconnects."""


def needed(environment: Mapping[str, str], *names: str) -> tuple[str, ...]:
    """The values of secrets; raises `FixConfiguration` naming those that are not set."""
    missing = [name for name in names if not environment.get(name)]
    if missing:
        raise FixConfiguration(
            f"{', '.join(missing)} is not set.",
            hint="Set it in the environment, or switch this platform off.",
        )
    return tuple(environment[name] for name in names)
