"""What happens on Feishu: words in a thread, and presses, which are answered with a toast and the card."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from agent_runner.errors import CountersignError, TryLater
from agent_runner.model import Actor, Inquiry, Place
from agent_runner.registers import Held
from bot.commands import Pressed
from bot.conversation import Conversation, Told
from bot.delivery import MessageGone, PlaceGone, SlowDown
from bot.feishu import inbound
from bot.feishu.client import FeishuClient
from bot.feishu.inbound import Click, Payload
from bot.feishu.people import People
from cards import compose, feishu, feishu_forms, wording
from cards.model import Card, Verb

log = logging.getLogger(__name__)

LOCALES = {"zh": "zh_cn", "en": "en_us", "ja": "ja_jp"}
"""Our languages as Feishu's toasts and cards name them."""
PAUSE_MS = 3_500
"""How long the courier keeps away from a card that is being answered: Feishu waits 3 s for the answer."""
SETTLES = 0.3
"""Seconds after the answer in which an update of the card could still be undone by it."""

Answer = dict[str, Any]


class Talk:
    """The conversations of one Feishu app."""

    def __init__(self, conversation: Conversation, client: FeishuClient, people: People) -> None:
        self.conversation = conversation
        self.client = client
        self.people = people
        self._resuming: set[asyncio.Future[None]] = set()

    # --- words ---------------------------------------------------------------------------

    async def event(self, body: Payload) -> None:
        """An event of any type; all but messages are nothing to us."""
        if inbound.kind_of(body) == inbound.MESSAGE:
            await self._message(body)

    async def _message(self, body: Payload) -> None:
        message = inbound.message_of(body, bot=self.people.bot)
        if message is None:
            return
        place = Place(platform="feishu", chat=message.chat, thread=message.root)
        known = await asyncio.to_thread(self.conversation.registers.task_at, place)
        if not (known or message.direct or self.people.bot in message.mentions):
            return  # people talking to each other
        actor = await self.people.actor(message.open_id, tenant=message.tenant, home=message.home)
        heard = inbound.heard(message, actor, bot=self.people.bot)
        answer = await self.conversation.hear(heard)
        try:
            if isinstance(answer, Held):
                card = self.conversation.held_card(answer)
                await self.client.post_card(answer.place, card, about=answer.id)
            elif answer:
                await self.client.tell(heard.place, actor, answer, about=message.message_id)
        except (CountersignError, SlowDown, PlaceGone, MessageGone) as error:
            log.warning("%s could not be answered in %s: %s", actor.user_id, message.chat, error)

    # --- presses -------------------------------------------------------------------------

    async def click(self, body: Payload) -> Answer:
        """A press on a card; always an answer, or Feishu shows an error code."""
        click = inbound.click_of(body)
        if click is None:
            return {}
        actor = await self.people.actor(click.open_id, tenant=click.tenant, home=click.home)
        if click.pressed.held_id:
            return await self._press_held(click, actor)
        if click.pressed.inquiry_id:
            return await self._press_request(click, actor)
        told = await self.conversation.press(_pressed(click, actor, {}))
        return self._toast(told)

    async def _press_held(self, click: Click, actor: Actor) -> Answer:
        about = await self.conversation.held(click.pressed.held_id)
        told = await self.conversation.press(_pressed(click, actor, {}))
        answer = self._toast(told)
        if told.done and about is not None:
            cards = [
                self.conversation.held_card(about, click.pressed.verb, lang=lang)
                for lang in self.client.languages
            ]
            answer["card"] = _raw(feishu.render(cards[0], cards[1:]))
        return answer

    async def _press_request(self, click: Click, actor: Actor) -> Answer:
        """A press on a request: no update of its card may overtake the answer."""
        registers = self.conversation.registers
        try:
            inquiry = await asyncio.to_thread(self.conversation.desk.store.inquiry, click.pressed.inquiry_id)
            await asyncio.to_thread(registers.pause, inquiry.task_id, PAUSE_MS)
        except CountersignError as error:
            return self._toast(Told(None, error))
        try:
            told = await self._decide(click, actor, inquiry)
            return await self._answered(told, inquiry)
        finally:
            self._resume_later(inquiry.task_id)

    async def _decide(self, click: Click, actor: Actor, inquiry: Inquiry) -> Told | str:
        names = feishu_forms.form_names(self._card(inquiry, self.client.languages[0]))
        fields = feishu_forms.fields_of(click.form, click.pressed.verb, names)
        approves = click.pressed.verb in (Verb.APPROVE, Verb.ALWAYS)
        if approves and inquiry.open and feishu_forms.says_more(inquiry, fields):
            return "feishu.words_left"
        return await self.conversation.press(_pressed(click, actor, fields))

    async def _answered(self, told: Told | str, inquiry: Inquiry) -> Answer:
        if isinstance(told, str):
            return {"toast": self._words("warning", {lang: wording.text(lang, told) for lang in LOCALES})}
        answer = self._toast(told)
        if told.reply is None or told.reply.key not in ("reply.decided", "reply.voted"):
            return answer
        try:
            current = await asyncio.to_thread(self.conversation.desk.store.inquiry, inquiry.id)
        except TryLater:
            return answer
        cards = [self._card(current, lang) for lang in self.client.languages]
        fitted = [feishu.fit(card, uploaded=True) for card in cards]
        if not fitted[0].files:  # with files the courier has to see to them first
            answer["card"] = _raw(feishu.render(fitted[0].card, [one.card for one in fitted[1:]]))
        return answer

    def _card(self, inquiry: Inquiry, lang: str) -> Card:
        conversation = self.conversation
        return compose.inquiry_card(
            inquiry,
            lang=lang,
            zone=conversation.zone,
            now=conversation.clock(),
            approver_names=conversation.desk.handler.approvers(inquiry, "feishu"),
        )

    def _resume_later(self, task_id: str) -> None:
        def resume() -> None:
            task = asyncio.ensure_future(self._resume(task_id))
            self._resuming.add(task)
            task.add_done_callback(self._resuming.discard)

        asyncio.get_running_loop().call_later(SETTLES, resume)

    async def _resume(self, task_id: str) -> None:
        try:
            await asyncio.to_thread(self.conversation.registers.resume, task_id, self.conversation.clock())
        except TryLater:
            log.info("the pause of %s ends by itself", task_id)

    def _toast(self, told: Told) -> Answer:
        kind = (
            "success"
            if told.reply is not None and told.reply.key.startswith(("reply.", "held."))
            else "error"
        )
        if told.reply is not None and told.reply.key.startswith("ask_back."):
            kind = "warning"
        return {"toast": self._words(kind, {lang: told.text(lang) for lang in LOCALES})}

    def _words(self, kind: str, words: dict[str, str]) -> Answer:
        i18n = {LOCALES[lang]: text for lang, text in words.items()}
        return {"type": kind, "content": words[self.conversation.lang], "i18n": i18n}

    def late(self) -> Answer:
        """The answer to a press that takes longer than Feishu waits."""
        words = {lang: wording.text(lang, "feishu.late") for lang in LOCALES}
        return {"toast": self._words("warning", words)}

    def failed(self) -> Answer:
        """The answer to a press that broke something here."""
        words = {lang: wording.text(lang, "reply.not_recorded") for lang in LOCALES}
        return {"toast": self._words("error", words)}


def _raw(card: dict[str, Any]) -> Answer:
    return {"type": "raw", "data": card}


def _pressed(click: Click, actor: Actor, fields: dict[str, list[str]]) -> Pressed:
    on = click.pressed
    return Pressed(
        actor=actor,
        verb=on.verb,
        revision=max(0, on.revision),
        inquiry_id=on.inquiry_id,
        task_id=on.task_id,
        held_id=on.held_id,
        fields=fields,
    )
