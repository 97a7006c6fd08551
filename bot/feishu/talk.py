"""What happens on Feishu: words in a thread, and presses, which are answered with a toast and the card."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Any

from agent_runner.errors import CountersignError, TryLater
from agent_runner.model import Actor, Inquiry, Place
from bot.commands import Pressed
from bot.conversation import Conversation, Told, looks_like_an_answer
from bot.feishu import inbound, probe
from bot.feishu.client import FeishuClient
from bot.feishu.inbound import Click, Payload
from bot.feishu.people import People
from cards import batch, compose, feishu, feishu_forms, wording
from cards.batch_card import batch_card
from cards.feishu_text import LOCALES
from cards.model import APPROVES, Card, Verb
from cards.people import Names

log = logging.getLogger(__name__)

PAUSE_MS = 3_500
"""How long the courier keeps away from a card that is being answered: Feishu waits 3 s for the answer."""
SETTLES = 0.3
"""Seconds after the answer in which an update of the card could still be undone by it."""

_RECORDED = ("reply.decided", "reply.voted", "reply.voted_no")
REPAINTED = (*_RECORDED, *(f"{key}_together" for key in _RECORDED))
"""What a press came to that is answered with the card as it is now."""

Answer = dict[str, Any]


class Talk:
    """The conversations of one Feishu app."""

    def __init__(self, conversation: Conversation, client: FeishuClient, people: People) -> None:
        self.conversation = conversation
        self.client = client
        self.people = people
        self._resuming: set[asyncio.Future[None]] = set()

    async def end(self) -> None:
        """Lets end what was begun for presses that are answered."""
        await asyncio.gather(*self._resuming, return_exceptions=True)

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
        meant = message.direct or self.people.bot in message.mentions
        try:
            if not (meant or await self.conversation.begun(place, message.message_id)):
                return  # people talking to each other: nobody needs to be looked up
        except TryLater as error:
            if looks_like_an_answer(message.text):
                actor = await self._actor(message)
                await self.conversation.tell_trouble(place, actor, message.message_id, error)
            return
        heard = inbound.heard(message, await self._actor(message), bot=self.people.bot)
        await self.conversation.hear(heard)

    async def _actor(self, message: inbound.Message) -> Actor:
        return await self.people.actor(message.open_id, tenant=message.tenant, home=message.home)

    # --- presses -------------------------------------------------------------------------

    async def click(self, body: Payload) -> Answer:
        """A press on a card; always an answer, or Feishu shows an error code."""
        if tested := probe.read(body):
            return await self._tested(tested)
        click = inbound.click_of(body)
        if click is None:
            return {}
        actor = await self.people.actor(click.open_id, tenant=click.tenant, home=click.home)
        if click.pressed.held_id:
            return await self._press_held(click, actor)
        if click.pressed.inquiry_id:
            return await self._press_request(click, actor)
        told = await self.conversation.press(Pressed(actor=actor, fields={}, **click.pressed._asdict()))
        return self._toast(told)

    async def _tested(self, token: str) -> Answer:
        """The press on a test card: whoever waits for it looks in the store."""
        try:
            await asyncio.to_thread(self.conversation.registers.tell_click, token)
        except TryLater:
            return self.failed()
        words = {lang: wording.text(lang, "doctor.arrived") for lang in LOCALES}
        card = probe.settled("doctor.arrived", self.client.languages)
        return {"toast": self._words("success", words), "card": _raw(card)}

    async def _press_held(self, click: Click, actor: Actor) -> Answer:
        about = await self.conversation.held(click.pressed.held_id)
        told = await self.conversation.press(Pressed(actor=actor, fields={}, **click.pressed._asdict()))
        answer = self._toast(told)
        if told.error is None and about is not None:  # whatever came of it, it is asked no more
            cards = [
                self.conversation.held_card(about, click.pressed.verb, lang=lang)
                for lang in self.client.languages
            ]
            answer["card"] = _raw(feishu.render(cards[0], cards[1:]))
        return answer

    async def _press_request(self, click: Click, actor: Actor) -> Answer:
        """A press on a request: no update of its card may overtake the answer."""
        registers, press = self.conversation.registers, secrets.token_hex(8)
        try:
            inquiry = await asyncio.to_thread(self.conversation.desk.store.inquiry, click.pressed.inquiry_id)
            await asyncio.to_thread(registers.pause, inquiry.task_id, press, PAUSE_MS)
        except CountersignError as error:
            return self._toast(Told(None, error))
        try:
            told = await self._decide(click, actor, inquiry)
            return await self._answered(told, click, inquiry)
        finally:
            self._resume_later(inquiry.task_id, press)

    async def _decide(self, click: Click, actor: Actor, inquiry: Inquiry) -> Told | str:
        verb = click.pressed.verb
        names = feishu_forms.form_names(self._card((inquiry,), self.client.languages[0], {}))
        fields = feishu_forms.fields_of(click.form, verb, names)
        if verb is Verb.APPROVE_ALL and "".join(fields.get("conditions", ())).strip():
            return "feishu.words_left"
        if verb in APPROVES and inquiry.open and feishu_forms.says_more(inquiry, fields):
            return "feishu.words_left"
        return await self.conversation.press(Pressed(actor=actor, fields=fields, **click.pressed._asdict()))

    async def _answered(self, told: Told | str, click: Click, inquiry: Inquiry) -> Answer:
        if isinstance(told, str):
            return {"toast": self._words("warning", {lang: wording.text(lang, told) for lang in LOCALES})}
        answer = self._toast(told)
        if told.reply is None or told.reply.key not in REPAINTED:
            return answer
        try:
            steps, people = await asyncio.to_thread(self._current, click, inquiry)
        except TryLater:
            return answer
        cards = [self._card(steps, lang, people) for lang in self.client.languages] if steps else []
        fitted = [feishu.fit(card, uploaded=True) for card in cards]
        if fitted and not fitted[0].files:  # with files the courier has to see to them first
            answer["card"] = _raw(feishu.render(fitted[0].card, [one.card for one in fitted[1:]]))
        return answer

    def _current(self, click: Click, inquiry: Inquiry) -> tuple[tuple[Inquiry, ...], dict[str, Names]]:
        """What the pressed card is about as it is now; nothing if it is not known which card that is."""
        desk = self.conversation.desk
        snap = desk.store.snapshot(inquiry.task_id)
        receipts = self.conversation.registers.receipts(inquiry.task_id).values()
        receipt = next((one for one in receipts if one.message_id == click.message_id), None)
        steps: tuple[Inquiry, ...] = (snap.inquiry(inquiry.id),)
        if len(batch.steps_of(steps[0], snap.inquiries)) > 1:
            steps = tuple(one for one in snap.inquiries if receipt is not None and receipt.shows(one.number))
        return steps, {one.id: desk.handler.approvers(one, "feishu") for one in steps}

    def _card(self, steps: tuple[Inquiry, ...], lang: str, people: dict[str, Names]) -> Card:
        conversation = self.conversation
        look: dict[str, Any] = {"lang": lang, "zone": conversation.zone, "now": conversation.clock()}
        if len(steps) > 1:
            return batch_card(steps, approver_names=people, **look)
        return compose.inquiry_card(steps[0], approver_names=people.get(steps[0].id, ()), **look)

    def _resume_later(self, task_id: str, press: str) -> None:
        task = asyncio.ensure_future(self._resume(task_id, press))
        self._resuming.add(task)
        task.add_done_callback(self._resuming.discard)

    async def _resume(self, task_id: str, press: str) -> None:
        await asyncio.sleep(SETTLES)
        now = self.conversation.clock()
        try:
            await asyncio.to_thread(self.conversation.registers.resume, task_id, press, now)
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
        words = {lang: wording.text(lang, "reply.late") for lang in LOCALES}
        return {"toast": self._words("warning", words)}

    def failed(self) -> Answer:
        """The answer to a press that broke something here."""
        words = {lang: wording.text(lang, "reply.not_recorded") for lang in LOCALES}
        return {"toast": self._words("error", words)}


def _raw(card: dict[str, Any]) -> Answer:
    return {"type": "raw", "data": card}
