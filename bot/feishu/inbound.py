"""Feishu's payloads -> what a person did. Nothing else reads a payload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from agent_runner.model import Actor, Place
from bot.commands import Heard
from cards.feishu_forms import Pressed, read_press

Payload = Mapping[str, Any]

MESSAGE = "im.message.receive_v1"
CLICK = "card.action.trigger"


class Message(NamedTuple):
    """A message that a person wrote, before it is known what they are called."""

    open_id: str
    tenant: str
    home: str
    """The tenant in which the app is installed."""
    chat: str
    message_id: str
    root: str
    parent: str
    text: str
    at: datetime
    direct: bool
    mentions: tuple[str, ...]


class Click(NamedTuple):
    """A press on a button of ours: who, where, what, and what was filled in."""

    open_id: str
    tenant: str
    home: str
    pressed: Pressed
    form: Payload
    chat: str
    message_id: str


def kind_of(body: Payload) -> str:
    """The type of an event or a callback."""
    return str(_table(body, "header").get("event_type") or "")


def message_of(body: Payload, *, bot: str) -> Message | None:
    """The message in an event, if a person wrote it; None for bots and for what is malformed.

    `bot` is our own open_id: our mention is left out of the words.
    """
    event = _table(body, "event")
    sender, message = _table(event, "sender"), _table(event, "message")
    open_id = str(_table(sender, "sender_id").get("open_id") or "")
    message_id, chat = str(message.get("message_id") or ""), str(message.get("chat_id") or "")
    if sender.get("sender_type") not in (None, "user") or not (open_id and message_id and chat):
        return None
    home = str(_table(body, "header").get("tenant_key") or "")
    mentions = [m for m in _list(message, "mentions") if isinstance(m, Mapping)]
    return Message(
        open_id=open_id,
        tenant=str(sender.get("tenant_key") or ""),
        home=home,
        chat=chat,
        message_id=message_id,
        root=str(message.get("root_id") or message_id),
        parent=str(message.get("parent_id") or ""),
        text=_words(message, mentions, bot),
        at=moment(message.get("create_time")),
        direct=message.get("chat_type") == "p2p",
        mentions=tuple(_mentioned(m) for m in mentions),
    )


def heard(message: Message, actor: Actor, *, bot: str) -> Heard:
    """The message as a command."""
    others = set(message.mentions) - {bot}
    return Heard(
        actor=actor,
        place=Place(platform="feishu", chat=message.chat, thread=message.root),
        text=message.text,
        message_id=message.message_id,
        at=message.at,
        addressed=message.direct or bot in message.mentions,
        loose=message.direct and message.root == message.message_id,
        to_others=bool(others) and bot not in message.mentions,
        quoted=message.parent,
    )


def click_of(body: Payload) -> Click | None:
    """The press in a card callback; None if no button of ours was pressed."""
    event = _table(body, "event")
    operator, action = _table(event, "operator"), _table(event, "action")
    context = _table(event, "context") or _table(body, "context")
    pressed = read_press(action)
    open_id = str(operator.get("open_id") or "")
    if pressed is None or not open_id:
        return None
    return Click(
        open_id=open_id,
        tenant=str(operator.get("tenant_key") or ""),
        home=str(_table(body, "header").get("tenant_key") or ""),
        pressed=pressed,
        form=_table(action, "form_value"),
        chat=str(context.get("open_chat_id") or ""),
        message_id=str(context.get("open_message_id") or ""),
    )


def moment(milliseconds: Any) -> datetime:
    """A `create_time` as a time; an unreadable one is as old as can be, so that it is asked about."""
    try:
        return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _words(message: Payload, mentions: list[Payload], bot: str) -> str:
    """The words of a text or a post; others who are mentioned by name, the bot not. '' for pictures."""
    try:
        content = json.loads(message.get("content") or "")
    except (TypeError, ValueError, RecursionError):
        return ""
    if not isinstance(content, Mapping):
        return ""
    kind = message.get("message_type") or message.get("msg_type")
    text = str(content.get("text") or "") if kind == "text" else ""
    if kind == "post":
        lines = ["".join(_spans(line)) for line in _list(content, "content") if isinstance(line, list)]
        text = "\n".join([str(content.get("title") or ""), *lines])
    for mention in sorted(mentions, key=lambda m: -len(str(m.get("key") or ""))):  # @_user_10 before @_user_1
        key, name = str(mention.get("key") or ""), str(mention.get("name") or "")
        if key:
            text = text.replace(key, "" if _mentioned(mention) == bot else f"@{name or key.strip('@')}")
    return text.strip()


def _spans(line: list[Any]) -> Iterator[str]:
    for span in line:
        if isinstance(span, Mapping):
            tag = span.get("tag")
            if tag in ("text", "a", "md", "code_block"):
                yield str(span.get("text") or "")
            elif tag == "at":
                yield f"{span.get('user_id') or ''} "


def _mentioned(mention: Payload) -> str:
    found = mention.get("id")
    return str((found.get("open_id") if isinstance(found, Mapping) else found) or mention.get("key") or "")


def _table(holder: Payload, name: str) -> Payload:
    found = holder.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(holder: Payload, name: str) -> list[Any]:
    found = holder.get(name)
    return found if isinstance(found, list) else []
