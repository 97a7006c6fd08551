"""Whether a click reaches a bot: the one thing that no setting and no healthy socket tells."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from agent_runner.registers import Registers
from bot.delivery import REFUSED, PlaceGone
from bot.doors import Parts
from bot.findings import Finding, fail, ok
from bot.settings import Settings
from bot.slack import probe
from bot.slack.api import SlackApi
from bot.slack.doctor import NETWORK, WHERE, invite, opened
from bot.slack.door import SlackDoor
from bot.slack.manifest import request_url

CLICK_SECONDS = 60.0
"""Longest wait for a person to press the button of the test card (ours)."""
LOOK_SECONDS = 0.2


async def check_click(
    parts: Parts,
    channel: str,
    *,
    token: str,
    say: Callable[[str], None],
    seconds: float = CLICK_SECONDS,
) -> Finding:
    """Posts a test card and waits until its click comes to any bot on this store.

    With Socket Mode it is a bot of its own meanwhile: its connections get a share of the app's
    clicks, and what people do must not be lost on them. `token` marks this card; `say` is told
    what a person has to do.
    """
    settings = parts.settings
    if not settings.environment.get("SLACK_BOT_TOKEN"):
        return fail("SLACK_BOT_TOKEN is not set.", WHERE["SLACK_BOT_TOKEN"])
    try:
        async with _listening(parts), opened(settings) as api:
            return await _await_click(api, parts, channel, token, say, seconds)
    except PlaceGone as error:
        return fail(f"The test card could not be posted: {error}", invite(channel))
    except REFUSED as error:
        return fail(f"The test card could not be tried: {error}", getattr(error, "hint", "") or NETWORK)


@contextlib.asynccontextmanager
async def _listening(parts: Parts) -> AsyncIterator[None]:
    """A bot that takes clicks, with Socket Mode; signed HTTP comes to the running bot alone."""
    if parts.settings.config.slack.mode == "http":
        yield
        return
    door = SlackDoor(parts)
    try:
        await door.start()
        yield
    finally:
        await door.stop()


async def _await_click(
    api: SlackApi, parts: Parts, channel: str, token: str, say: Callable[[str], None], seconds: float
) -> Finding:
    config = parts.settings.config
    lang = config.slack.language or config.language
    posted = await api.call("chat.postMessage", channel=channel, **probe.card(token, lang))
    say(f"Press the button in {channel} within {seconds:.0f} s.")
    if await _arrives(parts.registers, token, seconds):
        return ok("The click on the test card arrived.")
    at = {"channel": posted["channel"], "ts": posted["ts"]}
    if await _settled_elsewhere(api, **at):
        return fail(
            "The click arrived at a bot that uses another Redis.",
            "Give all bots of this app the same REDIS_URL, or each its own app.",
        )
    await api.call("chat.update", **at, **probe.settled("doctor.over", lang))
    return fail(f"No click on the test card arrived within {seconds:.0f} s.", _causes(parts.settings))


async def _arrives(registers: Registers, token: str, seconds: float) -> bool:
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        if await asyncio.to_thread(registers.clicked, token):
            return True
        await asyncio.sleep(LOOK_SECONDS)
    return False


async def _settled_elsewhere(api: SlackApi, *, channel: str, ts: str) -> bool:
    """Whether somebody took the button off the card."""
    try:
        answer = await api.read("conversations.replies", channel=channel, ts=ts, limit=1)
    except REFUSED:
        return False
    blocks = next(iter(answer.get("messages") or [{}])).get("blocks") or ()
    return bool(blocks) and not any(block.get("type") == "actions" for block in blocks)


def _causes(settings: Settings) -> str:
    """Why no click came, likeliest first. With HTTP, the address is one that `check_slack` takes."""
    if settings.config.slack.mode == "socket":
        return (
            "If it was pressed: switch Interactivity on, on the app's page. Then end other programs that use "
            "this SLACK_APP_TOKEN (each connection of an app gets a share of its clicks)."
        )
    url = request_url(settings.config.web.public_url)
    return (
        f"If it was pressed: switch Interactivity on, on the app's page, with the request URL {url}. There "
        "a bot must be running, with this app's SLACK_SIGNING_SECRET, and a proxy before it must pass on "
        "body and X-Slack headers unchanged."
    )
