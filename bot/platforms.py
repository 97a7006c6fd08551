"""The one table of platforms. A new one is a folder, a renderer, and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from agent_runner.registers import Registers
from bot.delivery import Client
from bot.web.client import WebClient


def clients(registers: Registers, lang: str, clock: Callable[[], datetime]) -> Mapping[str, Client]:
    """The courier's client of each platform that is on."""
    return {"web": WebClient(registers, lang, clock)}
