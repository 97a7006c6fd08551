"""Whether a press reaches a bot: the one thing that no setting and no healthy connection tells."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from agent_runner.errors import TryLater
from agent_runner.registers import Registers
from bot.delivery import REFUSED, PlaceGone
from bot.doors import Parts
from bot.feishu import probe
from bot.feishu.api import UUID_CHARS, FeishuApi
from bot.feishu.doctor import CONNECT_SECONDS, NETWORK, WHERE, invite, opened, refused
from bot.feishu.door import FeishuDoor
from bot.feishu.frames import load
from bot.feishu.permissions import request_url
from bot.findings import Finding, fail, ok
from bot.settings import Settings
from cards.feishu_text import LOCALES

CLICK_SECONDS = 60.0
"""Longest wait for a person to press the button of the test card (ours)."""
LOOK_SECONDS = 0.2


async def check_click(
    parts: Parts,
    chat_id: str,
    *,
    token: str,
    say: Callable[[str], None],
    seconds: float = CLICK_SECONDS,
) -> Finding:
    """Posts a test card and waits until its press comes to any bot on this store.

    With the long connection it is a bot of its own meanwhile: it gets a share of the app's events and
    presses, and what people do must not be lost on it. `token` marks this card; `say` is told what a
    person has to do.
    """
    settings = parts.settings
    for name in ("FEISHU_APP_ID", "FEISHU_APP_SECRET"):
        if not settings.environment.get(name):
            return fail(f"{name} is not set.", WHERE[name])
    try:
        async with _listening(parts), opened(settings) as api:
            return await _await_click(api, parts, chat_id, token, say, seconds)
    except PlaceGone as error:
        return fail(f"The test card could not be posted: {error}", invite(chat_id))
    except REFUSED as error:
        return refused("The test card could not be tried", error, NETWORK)


@contextlib.asynccontextmanager
async def _listening(parts: Parts) -> AsyncIterator[None]:
    """A bot that takes presses, with the long connection; signed HTTP comes to the running bot alone."""
    if parts.settings.config.feishu.mode == "http":
        yield
        return
    await asyncio.to_thread(load)  # takes seconds, which are not the connection's
    door = FeishuDoor(parts)
    try:
        await door.start()
        connection = door.app.connection
        if connection and not await connection.wait_until_healthy(CONNECT_SECONDS):
            raise connection.trouble or TryLater("The long connection did not come up.")
        yield
    finally:
        await door.stop()


async def _await_click(
    api: FeishuApi, parts: Parts, chat_id: str, token: str, say: Callable[[str], None], seconds: float
) -> Finding:
    config = parts.settings.config
    own = config.feishu.language or config.language
    languages = (own, *(lang for lang in LOCALES if lang != own))
    sent = await api.send(chat_id, "interactive", probe.card(token, languages), uuid=token[:UUID_CHARS])
    say(f"Press the button in {chat_id} within {seconds:.0f} s.")
    if await _arrives(parts.registers, token, seconds):
        return ok("The press on the test card arrived.")
    await api.patch(sent.message_id, probe.settled("doctor.over", languages))
    return fail(f"No press on the test card arrived within {seconds:.0f} s.", _causes(parts.settings))


async def _arrives(registers: Registers, token: str, seconds: float) -> bool:
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        if await asyncio.to_thread(registers.clicked, token):
            return True
        await asyncio.sleep(LOOK_SECONDS)
    return False


def _causes(settings: Settings) -> str:
    """Why no press came, by what the person saw, likeliest first (client codes: card-callback-communication).

    With HTTP, the address is one that `check_feishu` takes.
    """
    unset = (
        "If the button showed error 200340: add the callback card.action.trigger in the developer console, "
        "callback configuration (回调配置), and publish a version (版本管理与发布). "
    )
    shared = (
        "If it said that it arrived, or another error: end other programs that use this app id (each gets a "
        "share of its presses), or give them an app of their own; bots of one app need the same REDIS_URL."
    )
    if settings.config.feishu.mode == "socket":
        return unset + shared
    url = request_url(settings.config.web.public_url)
    return (
        f"{unset}If it showed 200341 to 200343 or 200671: a bot must be running and answer at {url} with "
        "this app's FEISHU_ENCRYPT_KEY, and a proxy before it must pass on body and X-Lark headers as they "
        "are. "
        f"{shared}"
    )
