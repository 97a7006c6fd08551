"""The half of a chat door that is the same everywhere: what was said or pressed, and what to tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import NamedTuple

from agent_runner.errors import CountersignError, TryLater
from agent_runner.registers import Held, Registers
from bot import telling
from bot.commands import Heard, Pressed
from bot.frontdesk import FrontDesk
from bot.handle import Reply
from cards import held, spoken
from cards.model import Card, Verb

QUIET = (
    "reply.decided",
    "reply.stopping",
    "reply.retrying",
    "reply.asked_again",
    "held.do_now",
    "held.leave",
)
"""What a click came to that its card shows by itself: telling it again would be noise."""


class Told(NamedTuple):
    """What came of a press: the reply or the error, whichever it was."""

    reply: Reply | None
    error: CountersignError | None = None

    @property
    def done(self) -> bool:
        """Whether it was done, and its card says so by itself."""
        return self.reply is not None and self.reply.key in QUIET

    def text(self, lang: str) -> str:
        """The words for the person who pressed."""
        if self.error is not None:
            return telling.told(self.error, lang)
        return self.reply.text(lang) if self.reply else ""


class Conversation:
    """The desk of one chat product, from its event loop."""

    def __init__(
        self,
        desk: FrontDesk,
        registers: Registers,
        *,
        lang: str,
        zone: tzinfo,
        clock: Callable[[], datetime],
        wake: Callable[[], None],
    ) -> None:
        self.desk = desk
        self.registers = registers
        self.lang = lang
        self.zone = zone
        self.clock = clock
        self.wake = wake

    async def hear(self, heard: Heard) -> Held | str:
        """Takes a message; what to tell the person ('' if nothing), or the old message to ask about."""
        try:
            answer = await asyncio.to_thread(self.desk.hear, heard)
        except CountersignError as error:
            return telling.told(error, self.lang)
        self.wake()
        if isinstance(answer, Held):
            return answer
        return answer.text(self.lang) if answer is not None else ""

    async def press(self, pressed: Pressed) -> Told:
        """Does what a button says."""
        try:
            return Told(await asyncio.to_thread(self.desk.press, pressed))
        except CountersignError as error:
            return Told(None, error)
        finally:
            self.wake()

    async def held(self, held_id: str) -> Held | None:
        """The old message that a press is about; None if it is about none, or that is answered."""
        if not held_id:
            return None
        try:
            return await asyncio.to_thread(self.registers.held, held_id)
        except TryLater:
            return None

    def held_card(self, of: Held, answer: Verb | None = None, *, lang: str = "") -> Card:
        """The card that asks about an old message, or that says what was answered."""
        lang = lang or self.lang
        card = held.held_card(of.id, of.text, by=of.by, at=of.at, lang=lang, zone=self.zone, now=self.clock())
        return card if answer is None else held.settled_card(card, answer, lang=lang)


def looks_like_an_answer(text: str) -> bool:
    """Whether words seem to answer a request or to be a command: then their writer waits for an effect."""
    said = spoken.without_mentions(text)
    return spoken.command(said) is not None or spoken.hear(spoken.split_number(said)[1]).kind != "words"
