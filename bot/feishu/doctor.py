"""What can be checked of the connection to Feishu, each with its remedy. Prints no secret.

Feishu tells nobody how many long connections an app has, and whether a version with the callback is
published: neither can be found here, both show when a test card is pressed (`bot.feishu.click_check`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
from websockets.exceptions import ConnectionClosed

from agent_runner.config_chats import Feishu
from agent_runner.errors import CountersignError, FixConfiguration, TryLater
from bot.delivery import REFUSED, SlowDown
from bot.feishu import dial
from bot.feishu.api import FeishuApi
from bot.feishu.frames import load
from bot.feishu.permissions import EVERYTHING, missing, request_url
from bot.findings import Finding, Level, fail, ok, warn
from bot.settings import Settings

CONNECT_SECONDS = 10.0
"""Longest wait for a connection and a pong (ours; Feishu answers in well under a second)."""

ON = 2
"""`activate_status` of a bot that is on in the tenant (bot-v3/bot/get)."""

WHERE: Mapping[str, str] = {
    "FEISHU_APP_ID": "Copy the App ID (cli_...) from the developer console, credentials (凭证与基础信息).",
    "FEISHU_APP_SECRET": "Copy the App Secret from the developer console, credentials (凭证与基础信息).",
    "FEISHU_ENCRYPT_KEY": (
        "Set an Encrypt Key in the developer console, events and callbacks (事件与回调), "
        "encryption (加密策略), and copy it."
    ),
}
BEGINS: Mapping[str, str] = {"FEISHU_APP_ID": "cli_"}
"""How an app's id begins (home/user-identity-introduction, app_id)."""
GRANT = (
    "Add it in the developer console, permissions (权限管理), and publish a version (版本管理与发布); "
    "`countersign feishu permissions` lists all."
)
ENABLE = (
    "Publish a version of the app (版本管理与发布); in the admin console (管理后台) see that it is enabled."
)
NETWORK = "Check the network, its proxy, and [feishu] domain."
SOCKETS = 'Let WebSockets (wss://) to Feishu through the firewall or proxy, or use mode = "http".'


async def check_feishu(settings: Settings) -> list[Finding]:
    """Credentials, bot, scopes, the way in, departments and the fallback chat. Needs FEISHU_APP_ID.

    Nothing that arrives meanwhile is acknowledged: Feishu sends events again, and a person whose
    press came here is told that it failed.
    """
    config, environment = settings.config.feishu, settings.environment
    found = _secrets(config, environment)
    if _failed(found):
        return found
    async with opened(settings) as api:
        found += await _bot(api)
        works = not _failed(found)
        if works:
            found += await _scopes(api, groups=bool(config.groups))
        found.append(await check_connection(settings) if config.mode == "socket" else _address(settings))
        if works:
            found += [await _group(api, name, department) for name, department in config.groups.items()]
            found.append(await _fallback(api, config.fallback))
    return found


def opened(settings: Settings) -> FeishuApi:
    """Feishu's API with the app's credentials, to be used as a context."""
    environment = settings.environment
    return FeishuApi(
        environment["FEISHU_APP_ID"], environment["FEISHU_APP_SECRET"], settings.config.feishu.domain
    )


def _failed(found: list[Finding]) -> bool:
    return any(finding.level is Level.FAIL for finding in found)


# --- credentials -------------------------------------------------------------------------


def _secrets(config: Feishu, environment: Mapping[str, str]) -> list[Finding]:
    """What is wrong with the secrets as they are written; the Encrypt Key can only be looked at."""
    names = ["FEISHU_APP_ID", "FEISHU_APP_SECRET"]
    found = [_secret(name, environment.get(name, "")) for name in names]
    if config.mode == "http":
        key = _secret("FEISHU_ENCRYPT_KEY", environment.get("FEISHU_ENCRYPT_KEY", ""))
        looks = ok("FEISHU_ENCRYPT_KEY is set; a test card shows whether it is the right one (--click).")
        found.append(key or looks)
    return [finding for finding in found if finding is not None]


def _secret(name: str, value: str) -> Finding | None:
    begins = BEGINS.get(name, "")
    if not value:
        return fail(f"{name} is not set.", WHERE[name])
    if any(character.isspace() or character in "\"'" for character in value):
        return fail(f"{name} has spaces or quotes in it.", "Set it to the value alone.")
    if not value.startswith(begins):
        return fail(f"{name} does not begin with {begins}, so it is something else.", WHERE[name])
    return None


async def _bot(api: FeishuApi) -> list[Finding]:
    try:
        bot = await api.bot_info()
    except REFUSED as error:
        return [refused("The app's credentials", error, WHERE["FEISHU_APP_SECRET"])]
    here = ok(f"Feishu takes the credentials: {bot.get('app_name')}.")
    if bot.get("activate_status") != ON:
        return [here, fail(f"The bot is not on (activate_status {bot.get('activate_status')}).", ENABLE)]
    return [here, ok("The bot is on.")]


async def _scopes(api: FeishuApi, *, groups: bool) -> list[Finding]:
    try:
        granted = await api.granted()
    except REFUSED as error:
        return [warn(f"The app's scopes could not be read: {error}", remedy_of(error, GRANT))]
    lacking = missing(granted, groups=groups)
    found = [
        fail(f"The scope {name} is missing, with which the bot {scope.why}.", GRANT)
        for name, scope in lacking.items()
    ] or [ok("It has the scopes that are used.")]
    if EVERYTHING not in granted:
        found.append(
            warn(
                f"In groups the bot hears only what mentions it: the scope {EVERYTHING} is not granted.",
                "Mention it in replies, too, or add that scope and publish a version.",
            )
        )
    return found


def refused(what: str, error: Exception, remedy: str) -> Finding:
    """A call that was refused, or did not go through."""
    if isinstance(error, TryLater) and "cause" in error.details:
        return fail(f"{error.message} ({error.details['cause']})", NETWORK)
    if isinstance(error, SlowDown):
        return fail(
            "Feishu limits the rate of calls now.", f"Wait {max(1.0, error.seconds):.0f} s and run it again."
        )
    return fail(f"{what}: {error}", remedy_of(error, remedy))


def remedy_of(error: Exception, otherwise: str) -> str:
    """What the table of Feishu's errors says to do about it."""
    return getattr(error, "hint", "") or otherwise


# --- the way in --------------------------------------------------------------------------


def _address(settings: Settings) -> Finding:
    try:
        url = request_url(settings.config.web.public_url)
    except FixConfiguration as error:
        return fail(error.message, 'Set [web] public_url, or use mode = "socket", which needs none.')
    return ok(f"Feishu is to send everything to {url}; a test card shows whether it does (--click).")


async def check_connection(settings: Settings, *, seconds: float = CONNECT_SECONDS) -> Finding:
    """Opens one long connection and waits for a pong."""
    wire = await asyncio.to_thread(load)
    domain, environment = settings.config.feishu.domain, settings.environment
    credentials = {"AppID": environment["FEISHU_APP_ID"], "AppSecret": environment["FEISHU_APP_SECRET"]}
    unheard = fail(f"The long connection was opened, but no pong came back within {seconds:.0f} s.", SOCKETS)
    try:
        async with httpx.AsyncClient(verify=dial.tls()) as http:
            address = await dial.ask(http, domain, credentials, seconds=seconds)
        socket = await dial.connected(address, seconds=seconds, closing=1)
        try:
            async with asyncio.timeout(seconds):
                await socket.send(wire.ping(address.service))
                async for data in socket:  # events are left alone: they come again, to a bot
                    if not wire.is_data(wire.read(data)):
                        return ok(
                            "The long connection comes up and answers a ping. Other programs on this app "
                            "cannot be seen; a test card shows them (--click)."
                        )
        finally:
            await socket.close()
    except CountersignError as error:
        return refused("The long connection", error, SOCKETS)
    except (TimeoutError, ConnectionClosed):
        return unheard
    return unheard


# --- what the configuration names --------------------------------------------------------


async def _group(api: FeishuApi, name: str, department: str) -> Finding:
    try:
        members = await api.department_members(department)
    except REFUSED as error:
        return refused(
            f"Approver group {name}: the department {department} could not be read",
            error,
            f"Write the department's id (od-...) as {name} in [feishu.groups], and let the app's contact "
            "range (通讯录权限范围) include it.",
        )
    if not members:
        return warn(
            f"Approver group {name}: nobody is directly in the department {department}.",
            "Name a department that has people of its own; those of departments below it do not count.",
        )
    return ok(f"Approver group {name}: {len(members)} in the department {department}.")


async def _fallback(api: FeishuApi, chat_id: str) -> Finding:
    """Whether the bot is in the fallback chat."""
    if not chat_id:
        return warn(
            "No fallback chat: when a task's thread is gone, only the page tells about it.",
            "Set [feishu] fallback to a chat's id.",
        )
    try:
        chat = await api.chat(chat_id)
    except FixConfiguration as error:  # a scope that posting does not need
        return warn(f"The fallback chat {chat_id} could not be looked at: {error.message}", error.hint)
    except REFUSED as error:
        return refused(f"The fallback chat {chat_id} is out of reach", error, invite(chat_id))
    if chat.get("chat_status", "normal") != "normal":
        return fail(f"The fallback chat {chat_id} is {chat['chat_status']}.", "Set [feishu] fallback anew.")
    return ok(f"The bot is in the fallback chat {chat_id}.")


def invite(chat_id: str) -> str:
    """The remedy for a chat that is out of reach."""
    return f"Add the bot to {chat_id}, and check that this is its id (oc_...)."
