"""The one table of platforms. A new one is a folder, a renderer, and a row here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from agent_runner.config_chats import Feishu, Slack
from bot.delivery import Client
from bot.doors import Door, Parts
from bot.findings import Finding, fail, warn
from bot.settings import Settings
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


def _check_slack(settings: Settings) -> list[Finding]:
    chat, environment = settings.config.slack, settings.environment
    if not environment.get("SLACK_BOT_TOKEN"):
        meant = chat != Slack() or any(map(environment.get, ("SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET")))
        return [warn("Slack is off: SLACK_BOT_TOKEN is not set.", "Set it to use Slack.")] if meant else []
    from bot.slack.doctor import check_slack

    return asyncio.run(check_slack(settings))


def _check_feishu(settings: Settings) -> list[Finding]:
    chat, environment = settings.config.feishu, settings.environment
    if not environment.get("FEISHU_APP_ID"):
        meant = chat != Feishu() or any(map(environment.get, ("FEISHU_APP_SECRET", "FEISHU_ENCRYPT_KEY")))
        return [warn("Feishu is off: FEISHU_APP_ID is not set.", "Set it to use Feishu.")] if meant else []
    from bot.feishu.doctor import check_feishu

    return asyncio.run(check_feishu(settings))


ROWS: Mapping[str, Callable[[Parts], Door | None]] = {"slack": _slack, "feishu": _feishu}


def doors(parts: Parts) -> dict[str, Door]:
    """The platforms that are on, beside the page, which always is."""
    found = {name: make(parts) for name, make in ROWS.items()}
    return {name: door for name, door in found.items() if door is not None}


def clients(parts: Parts, doors: Mapping[str, Door]) -> dict[str, Client]:
    """The courier's client of each platform that is on."""
    web = WebClient(parts.registers, parts.settings.config.language, parts.clock)
    return {"web": web, **{name: door.client for name, door in doors.items()}}


CHECKS: tuple[Callable[[Settings], list[Finding]], ...] = (_check_slack, _check_feishu)
"""For `doctor`: each platform's findings, none where it is off. Not inside a running loop."""


def check(settings: Settings) -> list[Finding]:
    """What is found about the platforms that are on."""
    return [finding for found in CHECKS for finding in found(settings)]


def check_click(
    parts: Parts, place: str, *, token: str, say: Callable[[str], None], seconds: float
) -> Finding:
    """Whether a click in this place reaches a bot; see `bot.slack.click_check`, `bot.feishu.click_check`.

    `place` is spelled as in the configuration, `slack:C012AB` or `feishu:oc_12ab`; a bare id is Slack's.
    """
    named, _, chat = place.rpartition(":")
    match named or "slack":
        case "slack":
            from bot.slack.click_check import check_click as slack

            return asyncio.run(slack(parts, chat, token=token, say=say, seconds=seconds))
        case "feishu":
            from bot.feishu.click_check import check_click as feishu

            return asyncio.run(feishu(parts, chat, token=token, say=say, seconds=seconds))
    return fail(f"No test card can be posted to {place}.", "Give slack:C012AB or feishu:oc_12ab.")
