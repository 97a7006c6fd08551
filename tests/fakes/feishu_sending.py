"""Sending and updating messages on the fake Feishu, as strict as the documentation.

Pages: open.feishu.cn/document/server-docs/im-v1/message/{create,reply,create_json} and im-v1/message-card/
{patch,delay-update-message-card}; each rule names its own.
"""

from __future__ import annotations

import json
import re
from typing import Any

from aiohttp import web

from tests.fakes.feishu_cards import CardRefused, Judged, Surroundings, judge
from tests.fakes.feishu_errors import Refused, ok, read_body, read_json, the_message
from tests.fakes.feishu_markdown import Mention, text_mentions_of
from tests.fakes.feishu_markdown import mentions_of as card_mentions_of
from tests.fakes.feishu_model import Chat, Json, Message, Update, World

CARD_BYTES = 30 * 1024  # create: "cards and rich text at most 30 KB"
TEXT_BYTES = 150 * 1024  # create: "text at most 150 KB"
UUID_SECONDS = 3_600.0  # create: "at most one message per uuid within 1 hour"
UPDATE_DAYS = 14 * 86_400.0  # patch: "only messages sent within 14 days"
UPDATE_TOKEN_SECONDS, UPDATE_TOKEN_USES = 1_800.0, 2  # delay-update: 30 minutes, twice
_SECRETS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|(?<!\d)1[3-9]\d{9}(?!\d)")


class Sending:
    """The routes that put something into a chat or change it there."""

    def __init__(self, world: World) -> None:
        self.world = world

    def routes(self) -> list[web.RouteDef]:
        """All routes."""
        base = "/open-apis"
        return [
            web.post(f"{base}/im/v1/messages", self._create),
            web.post(f"{base}/im/v1/messages/{{id}}/reply", self._reply),
            web.patch(f"{base}/im/v1/messages/{{id}}", self._patch),
            web.post(f"{base}/interactive/v1/card/update", self._delayed_update),
        ]

    async def _create(self, request: web.Request) -> web.Response:
        body = await read_body(request, "receive_id", "msg_type", "content")
        kind, target = request.query.get("receive_id_type", ""), str(body["receive_id"])
        if kind == "chat_id":
            chat = self.world.chats.get(target)
        elif kind in ("open_id", "union_id", "user_id", "email"):
            chat = self._private_chat(target)
        else:
            raise Refused(230001, "receive_id_type is required")
        if chat is None:
            raise Refused(230034)
        return self._send(body, chat, None)

    async def _reply(self, request: web.Request) -> web.Response:
        body = await read_body(request, "msg_type", "content")
        parent = the_message(self.world, request)
        if parent.recalled:
            raise Refused(230011)
        return self._send(body, parent.chat, parent)

    def _private_chat(self, target: str) -> Chat | None:
        user = self.world.person(target)
        if user is None:
            return None
        for chat in self.world.chats.values():
            if chat.kind == "p2p" and user in chat.members:
                return chat
        chat = Chat(self.world.new_id("oc"), "p2p", [user])
        self.world.chats[chat.chat_id] = chat
        return chat

    def _send(self, body: Json, chat: Chat, parent: Message | None) -> web.Response:
        uuid = body.get("uuid", "")
        if not isinstance(uuid, str) or len(uuid) > 50:
            raise Refused(230001, "uuid: at most 50 characters")
        now = self.world.clock.now()
        sent_at, known = self.world.uuids.get(uuid, (0.0, None))
        if uuid and known is not None and now - sent_at < UUID_SECONDS:
            return ok(self.world.show(known))
        self._may_post(chat)
        content = self._content(str(body["msg_type"]), body["content"], chat)
        message = Message(self.world.new_id("om"), chat, None, str(body["msg_type"]), content, now)
        self._ping(message, content)
        # create: 5 a second to one user, 5 a second to one group for all its bots together
        if not self.world.allowed(f"chat {chat.chat_id}", self.world.qps, 1):
            raise Refused(230020)
        self.world.link(message, parent, in_thread=body.get("reply_in_thread") is True)
        self.world.post(message)
        if uuid:
            self.world.uuids[uuid] = (now, message)
        return ok(self.world.show(message))

    def _may_post(self, chat: Chat) -> None:
        if chat.dissolved:
            raise Refused(232009)
        if not chat.bot:
            raise Refused(230002)
        if chat.kind == "p2p":
            [user] = chat.members
            if user.resigned or not user.in_scope:  # create, 230013: also when the user has left
                raise Refused(230013)
            if user.tenant_key != self.world.tenant_key:
                raise Refused(230038)

    def _content(self, msg_type: str, raw: object, chat: Chat) -> Json:
        if not isinstance(raw, str):
            raise Refused(230001, "content must be a JSON string")
        content = read_json(raw.encode())
        if not isinstance(content, dict):
            raise Refused(230001, "content is not a JSON object in a string")
        limits = {"text": TEXT_BYTES, "post": CARD_BYTES, "interactive": CARD_BYTES, "file": TEXT_BYTES}
        if msg_type not in limits:
            raise Refused(230001, f"this fake sends {', '.join(limits)}, not {msg_type}")
        if len(raw.encode()) > limits[msg_type]:
            raise Refused(230025)
        if self.world.audit and _SECRETS.search(raw):  # create, 230028: plain phone numbers, e-mail addresses
            raise Refused(230028)
        if msg_type == "interactive" and not chat.cards:
            raise Refused(230054)
        if msg_type == "interactive":
            self._judge(content, chat)
        else:
            _check_plain(msg_type, content, self.world)
        return content

    def surroundings(self, chat: Chat) -> Surroundings:
        """What a card in this chat may refer to."""
        return Surroundings(self.world.knows_person, self.world.images.__contains__, chat.at_all)

    def _judge(self, card: Json, chat: Chat) -> Judged:
        try:
            return judge(card, self.surroundings(chat))
        except CardRefused as refused:
            raise Refused(230099, refused.ext) from refused

    def _ping(self, message: Message, content: Json) -> None:
        mentions: list[Mention] = []
        if message.msg_type == "interactive":
            mentions = list(self._judge(content, message.chat).mentions)
        elif message.msg_type == "text":
            mentions = text_mentions_of(content["text"])
        elif message.msg_type == "post":
            mentions = _post_mentions(content)
        for mention in mentions:
            (message.pings_in_code if mention.in_code else message.pings).append(mention.target)

    async def _patch(self, request: web.Request) -> web.Response:
        body = await read_body(request, "content")
        message = the_message(self.world, request)
        if message.recalled:
            raise Refused(230011)
        if message.sender is not None:  # patch: "the identity must be that which sent the card"
            raise Refused(230027)
        if message.msg_type != "interactive":
            raise Refused(230001, "only cards can be updated")
        if self.world.clock.now() - message.sent_at > UPDATE_DAYS:
            raise Refused(230031)
        if not self.world.allowed(f"patch {message.message_id}", 5, 1):  # patch: 5 QPS per message
            raise Refused(230020)
        if not isinstance(body["content"], str):
            raise Refused(230001, "content must be a JSON string")
        if len(body["content"].encode()) > CARD_BYTES:
            raise Refused(230025)
        card = read_json(body["content"].encode())
        for side in (message.content, card):
            # patch: update_multi true is declared explicitly before and after; the code is [not documented]
            if not isinstance(side, dict) or (side.get("config") or {}).get("update_multi") is not True:
                raise Refused(230001, "update_multi must be true before and after")
        self._replace(message, card, "patch")
        return ok({})

    def _replace(self, message: Message, card: Json, via: str) -> None:
        if message.in_flight and self.world.early_update == "refuse":
            # create, 11310: "card action is lock: the card is being interacted with and cannot be updated"
            raise Refused(
                230099, "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card action is lock"
            )
        if card.get("schema") != "2.0":
            raise Refused(230099, "Failed to create card content, ext=ErrCode: 200830; ErrMsg: 2.0 to 1.0")
        self._judge(card, message.chat)
        self._ping(message, card)
        message.updates.append(Update(card, self.world.clock.now(), "patch" if via == "patch" else "delayed"))

    async def _delayed_update(self, request: web.Request) -> web.Response:
        body = await read_body(request, "token", "card")
        known = self.world.update_tokens.get(str(body["token"]))
        card = body["card"]
        if known is None:
            raise Refused(300020, "update token is invalid")
        if self.world.clock.now() - known.issued_at > UPDATE_TOKEN_SECONDS:
            raise Refused(300030, "update token has expired")
        if known.uses >= UPDATE_TOKEN_USES:
            raise Refused(300040, "update token was used up")
        if known.message.recalled:
            raise Refused(200000, "the message is recalled")
        if not isinstance(card, dict):
            raise Refused(10002, "card is no object")
        if len(json.dumps(card, ensure_ascii=False).encode()) > CARD_BYTES:
            raise Refused(100000, "card is too large")  # limit 30 KB on this page; the code speaks of 100 KB
        try:
            self._replace(known.message, card, "delayed")
        except Refused as refused:
            raise Refused(11311, refused.message) from refused
        known.uses += 1
        return web.json_response({"code": 0, "msg": "ok"})


_POST_TAGS = frozenset({"text", "a", "at", "img", "media", "emotion", "hr", "code_block", "md"})


def _check_plain(msg_type: str, content: Json, world: World) -> None:
    """message-content: the properties of text, file and post."""
    if msg_type == "post":
        _check_post(content)
    elif set(content) != {"text" if msg_type == "text" else "file_key"}:
        raise Refused(230001, f"content of {msg_type}: unknown or missing property")
    elif msg_type == "text" and not (isinstance(content["text"], str) and content["text"]):
        raise Refused(230001, "text is empty")
    elif msg_type == "file" and content["file_key"] not in world.files:
        raise Refused(230017)


def _check_post(content: Json) -> None:
    for paragraph in _paragraphs(content):
        for element in paragraph:
            if not isinstance(element, dict) or element.get("tag") not in _POST_TAGS:
                raise Refused(230001, "post: unknown tag")


def _paragraphs(content: Json) -> list[list[Any]]:
    paragraphs: list[list[Any]] = []
    for version in content.values():
        lines = version.get("content") if isinstance(version, dict) else None
        if not isinstance(lines, list) or not all(isinstance(line, list) for line in lines):
            raise Refused(230001, "post: content must be a list of paragraphs")
        paragraphs += lines
    return paragraphs


def _post_mentions(content: Json) -> list[Mention]:
    found: list[Mention] = []
    for element in (each for paragraph in _paragraphs(content) for each in paragraph):
        if element["tag"] == "at":
            target = str(element.get("user_id", ""))
            found.append(Mention("all" if target == "all" else "id", target))
        elif element["tag"] == "md":
            found += text_mentions_of(str(element.get("text", "")))
            found += card_mentions_of(str(element.get("text", "")))
    return found
