"""Slack's payloads -> what a person did. Nothing else reads a payload."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from agent_runner.model import Actor, Place
from bot.commands import Heard
from cards import spoken
from cards.slack_forms import Pressed, read_press

Payload = Mapping[str, Any]

_KEPT_SUBTYPES = (None, "file_share", "thread_broadcast")
"""Kinds of messages that people write; all others are edits, deletions, joins and the like."""
_TOKEN = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")


class Message(NamedTuple):
    """A message event that may be for us, before it is known who wrote it."""

    user: str
    team: str
    channel: str
    ts: str
    thread: str
    text: str
    direct: bool


class Click(NamedTuple):
    """A press on a button of ours: who, where, what, and what was filled in."""

    user: str
    team: str
    name: str
    pressed: Pressed
    place: Place
    message_ts: str
    trigger: str
    values: Payload
    on_home: bool


def message_of(body: Payload, *, bot_user: str, bot_id: str) -> Message | None:
    """The message in an event, if a person wrote it anew. Edits, deletions and bots are nobody's words."""
    event = _table(body, "event")
    if event.get("type") not in ("message", "app_mention") or event.get("subtype") not in _KEPT_SUBTYPES:
        return None
    if event.get("bot_id") or event.get("app_id") or event.get("hidden") or event.get("edited"):
        return None
    user, channel, ts = (str(event.get(name) or "") for name in ("user", "channel", "ts"))
    if not (user and channel and ts) or user in (bot_user, bot_id):
        return None
    team = event.get("user_team") or event.get("source_team") or event.get("team") or body.get("team_id")
    return Message(
        user=user,
        team=str(team or ""),
        channel=channel,
        ts=ts,
        thread=str(event.get("thread_ts") or ts),
        text=str(event.get("text") or ""),
        direct=event.get("channel_type") == "im" or channel.startswith("D"),
    )


def heard(message: Message, actor: Actor, *, bot_user: str) -> Heard:
    """The message as a command."""
    mentioned = set(re.findall(r"<@([A-Z0-9]+)(?:\|[^<>]*)?>", message.text))
    return Heard(
        actor=actor,
        place=Place(platform="slack", chat=message.channel, thread=message.thread),
        text=said(message.text, bot_user=bot_user),
        message_id=message.ts,
        at=moment(message.ts),
        addressed=message.direct or bot_user in mentioned,
        loose=message.direct and message.thread == message.ts,
        to_others=bool(mentioned - {bot_user}) and bot_user not in mentioned,
    )


def said(text: str, *, bot_user: str) -> str:
    """The words as they were typed: Slack's tokens and entities undone, our own mention left out."""

    def typed(match: re.Match[str]) -> str:
        kind, target, label = match[1], match[2], match[3]
        if kind == "@":
            return "" if target == bot_user else f"@{label or target}"
        if kind == "#":
            return f"#{label or target}"
        if kind == "!":
            return f"@{label.lstrip('@')}" if label else f"@{target.split('^')[0]}"
        return label if label and target.split(":")[-1].lstrip("/") == label else target

    called = re.match(rf"(?:\s*<@{re.escape(bot_user)}(?:\|[^<>]*)?>[\s,，:：、]*)+", text)
    return html.unescape(_TOKEN.sub(typed, text[called.end() :] if called else text)).strip()


def moment(ts: str) -> datetime:
    """A message's `ts` as a time; an unreadable one is as old as can be, so that it is asked about."""
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def click_of(body: Payload) -> Click | None:
    """The press in a block_actions payload; None if no button of ours was pressed."""
    actions = body.get("actions")
    action = actions[0] if isinstance(actions, list) and actions else None
    pressed = read_press(action) if isinstance(action, Mapping) else None
    user = _table(body, "user")
    if pressed is None or not user.get("id"):
        return None
    container, message = _table(body, "container"), _table(body, "message")
    ts = str(container.get("message_ts") or message.get("ts") or "")
    channel = str(container.get("channel_id") or _table(body, "channel").get("id") or "")
    thread = str(container.get("thread_ts") or message.get("thread_ts") or ts)
    return Click(
        user=str(user["id"]),
        team=_team(body),
        name=str(user.get("name") or ""),
        pressed=pressed,
        place=Place(platform="slack", chat=channel, thread=thread),
        message_ts=ts,
        trigger=str(body.get("trigger_id") or ""),
        values=_table(_table(body, "state"), "values"),
        on_home=container.get("type") == "view",
    )


def by_account(text: str) -> str:
    """The text of a slash command with everybody who is mentioned by their account."""
    return re.sub(r"<@([A-Z0-9]+)(?:\|[^<>]*)?>", r"@\1", text)


def command_word(text: str) -> str:
    """`help` or another word about how things stand; '' if the text of a slash command is a job."""
    return spoken.command(text) or "" if text else "help"


def person_of(body: Payload) -> tuple[str, str]:
    """(user id, team) of whoever sent an interactive payload."""
    return str(_table(body, "user").get("id") or ""), _team(body)


def _team(body: Payload) -> str:
    user = _table(body, "user")
    return str(user.get("team_id") or _table(body, "team").get("id") or "")


def _table(holder: Payload, name: str) -> Payload:
    found = holder.get(name)
    return found if isinstance(found, Mapping) else {}
