"""What people do on the fake Feishu: they write, and they click on cards.

Pages: im-v1/message/events/receive (what the app may read), feishu-cards/card-callback-communication and
im-v1/message-card/delay-update-message-card (what a click and its answer do).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tests.fakes import feishu_clicks as clicks
from tests.fakes.feishu_cards import Surroundings
from tests.fakes.feishu_clicks import ClickResult
from tests.fakes.feishu_delivery import Delivery
from tests.fakes.feishu_events import card_event, message_event, user_ids
from tests.fakes.feishu_model import Chat, Json, Message, Toast, Update, UpdateToken, User, World

INTERACTIVE_SECONDS = 14 * 86_400.0  # breaking changes: 2.0 cards answer clicks for 14 days
BOT_NAME = "Countersign"


class People:
    """Acts for people, on the fake's loop."""

    def __init__(
        self,
        world: World,
        delivery: Delivery,
        token: str,
        surroundings: Callable[[Chat], Surroundings],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._world = world
        self._delivery = delivery
        self._token = token
        self._surroundings = surroundings
        self._spawn = spawn

    async def say(
        self,
        user: User,
        chat: Chat,
        text: str,
        mention: bool | Sequence[User],
        reply_to: Message | None,
        message_id: str | None,
        old_by: float,
        msg_type: str,
    ) -> Message:
        """Puts a person's message into a chat, and sends its event if the app may read it."""
        message = self._world.by_id.get(message_id or "")
        if message is None:
            people = [self._bot()] if mention is True else list(mention or ())
            content = _content(msg_type, text, len(people))
            sent_at = self._world.clock.now() - old_by
            message = Message(message_id or self._world.new_id("om"), chat, user, msg_type, content, sent_at)
            message.mentions = [_mention(number, person) for number, person in enumerate(people, start=1)]
            self._world.link(message, reply_to)
            self._world.post(message)
        message.event = message_event(
            message,
            app_id=self._world.app_id,
            tenant_key=self._world.tenant_key,
            token=self._token,
            event_id=secrets.token_hex(16),
            now=message.sent_at,
        )
        if self._may_read(message):
            self._spawn(self._delivery.deliver(message, message.event))
        return message

    def _bot(self) -> User:
        return User(
            BOT_NAME, self._world.bot_open_id, "", f"on_{self._world.bot_open_id[3:]}", self._world.tenant_key
        )

    def _may_read(self, message: Message) -> bool:
        """receive, notes: p2p always; in groups all with group_msg, else only what mentions the bot."""
        chat = message.chat
        named = any(each["id"]["open_id"] == self._world.bot_open_id for each in message.mentions)
        return chat.bot and (chat.kind == "p2p" or chat.scope == "group_msg" or named)

    async def click(
        self,
        user: User,
        message: Message,
        wanted: str | Mapping[str, Any],
        form: Mapping[str, Any] | None,
        choose: object,
    ) -> ClickResult:
        """Uses a control of a card and waits for what the client then shows."""
        if user not in message.chat.members:
            raise LookupError(f"{user.name} is not in the chat")
        if self._world.clock.now() - message.sent_at > INTERACTIVE_SECONDS:
            return ClickResult(blocked=clicks.EXPIRED)
        try:
            action = clicks.action_of(clicks.find(message.content, wanted), form, choose)
        except clicks.Blocked as blocked:
            return ClickResult(blocked=str(blocked))
        if not self._world.published:
            return ClickResult(error=200340)
        token = f"c-{secrets.token_hex(20)}"
        self._world.update_tokens[token] = UpdateToken(message, self._world.clock.now())
        event = card_event(
            message,
            user,
            action,
            app_id=self._world.app_id,
            tenant_key=self._world.tenant_key,
            token=self._token,
            update_token=token,
            now=self._world.clock.now(),
        )
        return await self._ask(user, message, event)

    async def _ask(self, user: User, message: Message, event: Json) -> ClickResult:
        """One callback, never sent again; what runs on the card before the answer is undone by the answer."""
        before = len(message.updates)
        message.in_flight += 1
        started = time.perf_counter()
        try:
            ack = await self._delivery.send(event)
        finally:
            message.in_flight -= 1
        waited = (time.perf_counter() - started) * 1000
        error, answer = clicks.read_answer(ack, self._surroundings(message.chat))
        # delay-update: "must run after the response, else it fails or is reverted at once"; FAQ, updating 6
        early = [update for update in message.updates[before:] if update.via != "callback"]
        if self._world.early_update == "keep":
            early = []
        for update in early:
            update.reverted = True
        result = ClickResult(ms=waited, error=error, raw=answer)
        if error is None and answer is not None:
            result = self._show(user, message, answer, waited, early=bool(early))
        self._world.touch()
        return result

    def _show(self, user: User, message: Message, answer: Json, waited: float, *, early: bool) -> ClickResult:
        toast, card = None, None
        if "toast" in answer:
            shown = answer["toast"]
            text, i18n = shown.get("content", ""), shown.get("i18n", {})
            toast = Toast(user, message.message_id, shown.get("type", "info"), text, i18n)
            self._world.toasts.append(toast)
        if "card" in answer:
            card = answer["card"]["data"]
            message.updates.append(Update(card, self._world.clock.now(), "callback", reverted=early))
        return ClickResult(toast, card, waited, raw=answer)


def _content(msg_type: str, text: str, mentions: int) -> Json:
    """The content of a received message (im-v1/message/message-content: text, sticker, image, others)."""
    if msg_type == "text":
        marks = "".join(f"@_user_{number} " for number in range(1, mentions + 1))
        return {"text": marks + text}
    if msg_type == "post":
        return {"title": "", "content": [[{"tag": "text", "text": text, "style": []}]]}
    keys = {"sticker": "file_key", "image": "image_key", "file": "file_key", "audio": "file_key"}
    return {keys[msg_type]: secrets.token_hex(8)}


def _mention(number: int, person: User) -> Json:
    ids = user_ids(person)
    return {"key": f"@_user_{number}", "id": ids, "name": person.name, "tenant_key": person.tenant_key}
