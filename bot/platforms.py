"""The one table of platforms. A new one is a folder, a renderer, and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bot.delivery import Client
from bot.doors import Door, Parts
from bot.web.client import WebClient


def _slack(parts: Parts) -> Door | None:
    if not parts.settings.environment.get("SLACK_BOT_TOKEN"):
        return None
    from bot.slack.door import SlackDoor  # the SDK is loaded only where it is used

    return SlackDoor(parts)


def _feishu(parts: Parts) -> Door | None:
    if not parts.settings.environment.get("FEISHU_APP_ID"):
        return None
    from bot.feishu.door import FeishuDoor

    return FeishuDoor(parts)


ROWS: Mapping[str, Callable[[Parts], Door | None]] = {"slack": _slack, "feishu": _feishu}


def doors(parts: Parts) -> dict[str, Door]:
    """The platforms that are on, beside the page, which always is."""
    found = {name: make(parts) for name, make in ROWS.items()}
    return {name: door for name, door in found.items() if door is not None}


def clients(parts: Parts, doors: Mapping[str, Door]) -> dict[str, Client]:
    """The courier's client of each platform that is on."""
    web = WebClient(parts.registers, parts.settings.config.language, parts.clock)
    return {"web": web, **{name: door.client for name, door in doors.items()}}
