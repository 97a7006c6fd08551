"""What can be checked of the connection to Slack, each with its remedy. Prints no secret."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from agent_runner.config_chats import Slack
from agent_runner.errors import FixConfiguration, TryLater
from bot.delivery import REFUSED, SlowDown
from bot.findings import Finding, Level, fail, ok, warn
from bot.settings import Settings
from bot.slack.api import SlackApi
from bot.slack.manifest import SCOPES, request_url

SOCKET_SECONDS = 10.0
"""Longest wait for a connection, its hello and a pong (ours; Slack answers in well under a second)."""

WHERE: Mapping[str, str] = {
    "SLACK_BOT_TOKEN": "Copy the Bot User OAuth Token (xoxb-...) from the app's page, Install App.",
    "SLACK_APP_TOKEN": (
        "Generate an app-level token (xapp-...) with connections:write on the app's page, Basic Information."
    ),
    "SLACK_SIGNING_SECRET": "Copy the Signing Secret from the app's page, Basic Information.",
}
BEGINS: Mapping[str, str] = {"SLACK_BOT_TOKEN": "xoxb-", "SLACK_APP_TOKEN": "xapp-"}
"""How tokens begin (docs.slack.dev/authentication/tokens)."""
GRANT = "Paste the output of `countersign slack manifest` on the app's page, App Manifest; install it again."
NETWORK = "Check the network, its proxy, and [slack] api_url."
SOCKETS = 'Let WebSockets (wss://) to Slack through the firewall or proxy, or use mode = "http".'
ENDS: Mapping[str, tuple[str, str]] = {
    "link_disabled": ("Socket Mode is switched off.", "Switch it on on the app's page, Socket Mode."),
    "too_many_websockets": (
        "All connections of this app are taken.",
        "End the other programs that use this SLACK_APP_TOKEN; an app has 10 connections.",
    ),
}
"""Reason of a `disconnect` -> what was found and its remedy (docs.slack.dev, using-socket-mode)."""


async def check_slack(settings: Settings) -> list[Finding]:
    """Tokens, scopes, the way in, user groups and the fallback channel. Needs SLACK_BOT_TOKEN.

    Nothing that arrives meanwhile is acknowledged, so that Slack gives it to the bot.
    """
    config = settings.config.slack
    found = _secrets(config, settings.environment)
    if any(finding.level is Level.FAIL for finding in found):
        return found
    async with opened(settings) as api:
        found += await _token(api)
        works = not any(finding.level is Level.FAIL for finding in found)
        if config.mode == "socket":
            found.append(await check_socket(api, settings.environment["SLACK_APP_TOKEN"]))
        else:
            found.append(_address(settings))
        if works and config.groups:
            found += await _groups(api, config.groups)
        if works:
            found.append(await _fallback(api, config.fallback))
    return found


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[SlackApi]:
    """Slack's API with the bot token, for a while."""
    api = SlackApi(settings.environment["SLACK_BOT_TOKEN"], settings.config.slack.api_url)
    await api.open()
    try:
        yield api
    finally:
        await api.close()


# --- tokens ------------------------------------------------------------------------------


def _secrets(config: Slack, environment: Mapping[str, str]) -> list[Finding]:
    """What is wrong with the secrets as they are written; the signing secret can only be looked at."""
    second = "SLACK_APP_TOKEN" if config.mode == "socket" else "SLACK_SIGNING_SECRET"
    found = [_secret(name, environment.get(name, "")) for name in ("SLACK_BOT_TOKEN", second)]
    return [finding for finding in found if finding is not None]


def _secret(name: str, value: str) -> Finding | None:
    begins = BEGINS.get(name, "")
    if not value:
        return fail(f"{name} is not set.", WHERE[name])
    if any(character.isspace() or character in "\"'" for character in value):
        return fail(f"{name} has spaces or quotes in it.", "Set it to the secret alone.")
    if not value.startswith(begins):
        return fail(f"{name} does not begin with {begins}, so it is another token.", WHERE[name])
    return None if begins else ok(f"{name} is set; a test card shows whether it is the right one (--click).")


async def _token(api: SlackApi) -> list[Finding]:
    try:
        answer, granted = await api.granted()
    except REFUSED as error:
        return [_refused("SLACK_BOT_TOKEN", error)]
    here = ok(f"Slack takes the bot token: {answer.get('user')} in {answer.get('team')}.")
    missing = [scope for scope in SCOPES if scope not in granted]
    if missing:
        return [
            here,
            *(
                fail(f"The scope {one} is missing, with which the bot {SCOPES[one]}.", GRANT)
                for one in missing
            ),
        ]
    return [here, ok(f"It has the {len(SCOPES)} scopes that are used.")]


def _refused(name: str, error: Exception) -> Finding:
    """A call that was refused because of the secret `name`, or did not go through."""
    if isinstance(error, TryLater):
        return fail(f"{error.message} ({error.details.get('cause', 'no answer')})", NETWORK)
    if isinstance(error, SlowDown):
        return fail("Slack limits the rate of calls now.", f"Wait {error.seconds:.0f} s and run it again.")
    return fail(f"{name}: {error}", WHERE[name])


# --- the way in --------------------------------------------------------------------------


def _address(settings: Settings) -> Finding:
    try:
        url = request_url(settings.config.web.public_url)
    except FixConfiguration as error:
        return fail(error.message, 'Set [web] public_url, or use mode = "socket", which needs none.')
    return ok(f"Slack is to send everything to {url}; a test card shows whether it does (--click).")


async def check_socket(api: SlackApi, app_token: str, *, seconds: float = SOCKET_SECONDS) -> Finding:
    """Opens one connection and waits for its hello and a pong."""
    try:
        address = await api.socket_address(app_token)
    except REFUSED as error:
        return _refused("SLACK_APP_TOKEN", error)
    missing = "could not be opened"
    try:
        async with (
            asyncio.timeout(seconds),
            aiohttp.ClientSession() as session,
            session.ws_connect(address, proxy=api.web.proxy or None, autoping=False) as wire,
        ):
            missing = "was opened, but Slack did not say hello"
            connections = await _hello(wire)
            missing = "was opened, but no pong came back"
            await wire.ping()
            await _pong(wire)
    except _Ended as end:
        what, remedy = ENDS.get(end.reason, (f"Slack closed the socket ({end.reason}).", "Run it again."))
        return fail(what, remedy)
    except (TimeoutError, aiohttp.ClientError, OSError):
        return fail(f"The socket {missing} within {seconds:.0f} s.", SOCKETS)
    return ok(f"The socket says hello and answers a ping; open connections with this one: {connections}.")


class _Ended(Exception):
    """Slack ends the connection, and says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def _hello(wire: aiohttp.ClientWebSocketResponse) -> int:
    """The number of connections of the app, this one included."""
    async for frame in _frames(wire):
        if frame.get("type") == "hello":
            return int(frame.get("num_connections") or 1)
    raise _Ended("no reason given")


async def _pong(wire: aiohttp.ClientWebSocketResponse) -> None:
    async for frame in _frames(wire):
        if frame.get("type") == "pong":
            return
    raise _Ended("no reason given")


async def _frames(wire: aiohttp.ClientWebSocketResponse) -> AsyncIterator[Mapping[str, Any]]:
    """What comes in. People's clicks are not acknowledged: that would lose them in silence."""
    async for message in wire:
        if message.type is aiohttp.WSMsgType.PONG:
            yield {"type": "pong"}
        elif message.type is aiohttp.WSMsgType.TEXT:
            frame = json.loads(message.data)
            if frame.get("type") == "disconnect":
                raise _Ended(str(frame.get("reason")))
            yield frame


# --- what the configuration names --------------------------------------------------------


async def _groups(api: SlackApi, groups: Mapping[str, str]) -> list[Finding]:
    try:
        answer = await api.read("usergroups.list", include_users="true", include_disabled="true")
    except REFUSED as error:
        return [fail(f"The user groups could not be read: {error}", GRANT)]
    there = {str(one.get("id")): one for one in answer.get("usergroups") or ()}
    return [_group(name, group_id, there) for name, group_id in groups.items()]


def _group(name: str, group_id: str, there: Mapping[str, Mapping[str, Any]]) -> Finding:
    kept = there.get(group_id)
    if kept is None:
        named = [known for known, one in there.items() if one.get("handle") == group_id.lstrip("@")]
        way = f'Write {name} = "{named[0]}".' if named else "Write its id (S...) in [slack.groups]."
        return fail(f"User group {name}: there is no group with the id {group_id}.", way)
    if kept.get("date_delete"):
        return fail(f"User group {name}: @{kept.get('handle')} is switched off.", "Switch it on in Slack.")
    members = len(kept.get("users") or ())
    if not members:
        return warn(f"User group {name}: nobody is in @{kept.get('handle')}.", "Add people to it in Slack.")
    return ok(f"User group {name}: {members} in @{kept.get('handle')}.")


async def _fallback(api: SlackApi, channel: str) -> Finding:
    """Whether the bot is in the fallback channel. That it is archived shows only when it is posted to."""
    if not channel:
        return warn(
            "No fallback channel: when a task's thread is gone, only the page tells about it.",
            "Set [slack] fallback to a channel's id.",
        )
    try:
        await api.read("conversations.history", channel=channel, limit=1)
    except REFUSED as error:
        return fail(f"The fallback channel {channel} is out of reach: {error}", invite(channel))
    return ok(f"The bot is in the fallback channel {channel}.")


def invite(channel: str) -> str:
    """The remedy for a channel that is out of reach."""
    return f"Invite the bot into {channel}, and check that this is its id (C... or G...)."
