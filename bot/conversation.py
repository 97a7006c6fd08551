"""The half of a chat door that is the same everywhere: what was said or pressed, and what to tell."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime, tzinfo
from typing import NamedTuple, Protocol, TypeVar

from agent_runner.errors import CountersignError, TryLater
from agent_runner.model import Actor, Place
from agent_runner.registers import Held, Registers
from bot import telling
from bot.commands import Heard, Pressed
from bot.delivery import REFUSED, SlowDown
from bot.frontdesk import FrontDesk, held_verb
from bot.handle import Reply
from cards import notices, spoken
from cards.model import Card, Verb

log = logging.getLogger(__name__)

QUIET = (
    "reply.decided",
    "reply.decided_together",
    "reply.stopping",
    "reply.retrying",
    "reply.asked_again",
    "held.do_now",
    "held.leave",
)
"""What a click came to that its card shows by itself: telling it again would be noise."""
TROUBLED = 200
"""Messages remembered for which somebody was told that the store is away."""
TRIES = 4
"""How often something is told at most."""
RETRY_SECONDS = 1.0
"""Before it is told again, when nobody knows whether it arrived."""

T = TypeVar("T")


class Told(NamedTuple):
    """What came of a press: the reply or the error, whichever it was."""

    reply: Reply | None
    error: CountersignError | None = None

    @property
    def done(self) -> bool:
        """Whether it was done, and its card says so by itself."""
        return self.reply is not None and all(one.key in QUIET for one in (self.reply, *self.reply.more))

    def text(self, lang: str) -> str:
        """The words for the person who pressed."""
        if self.error is not None:
            return telling.told(self.error, lang)
        return self.reply.text(lang) if self.reply else ""


class Voice(Protocol):
    """How a product tells something beside the courier's messages. Methods raise `delivery.REFUSED`."""

    async def tell(self, place: Place, actor: Actor, text: str, *, about: str) -> None:
        """Tells one person something there; `about` is the message that is answered, if any."""

    async def post_card(self, place: Place, card: Card, *, about: str) -> str:
        """Puts a card into the thread; returns its id there."""

    async def repaint(self, place: Place, message_id: str, card: Card) -> None:
        """Makes such a card show another one."""


class Conversation:
    """The desk of one chat product, from its event loop."""

    def __init__(
        self,
        desk: FrontDesk,
        registers: Registers,
        voice: Voice,
        *,
        lang: str,
        zone: tzinfo,
        clock: Callable[[], datetime],
        wake: Callable[[], None],
    ) -> None:
        self.desk = desk
        self.registers = registers
        self.voice = voice
        self.lang = lang
        self.zone = zone
        self.clock = clock
        self.wake = wake
        self._troubled: deque[str] = deque(maxlen=TROUBLED)

    # --- words ---------------------------------------------------------------------------

    async def begun(self, place: Place, message_id: str) -> bool:
        """Whether a message stands in a thread in which something is going on; raises `TryLater`."""
        if await asyncio.to_thread(self.registers.task_at, place):
            return True
        inside = place.thread != message_id
        return inside and await asyncio.to_thread(self.registers.held_in, place) is not None

    async def hear(self, heard: Heard, *, where: Place | None = None) -> None:
        """Takes a message, and tells in `where` (its own thread) what there is to say about it."""
        where = where or heard.place
        try:
            verb = held_verb(heard.text)
            before = await asyncio.to_thread(self.desk.held_in, heard) if verb else None
            answer = await asyncio.to_thread(self.desk.hear, heard)
        except CountersignError as error:
            await self.tell_trouble(where, heard.actor, heard.message_id, error)
            return
        self.wake()
        if isinstance(answer, Held):
            await self._ask_about(answer)
            return
        settled = before is not None and verb is not None and await self.settle(before, verb)
        if answer is not None and not (settled and answer.key in QUIET):
            await self.tell(where, heard.actor, answer.text(self.lang), about=heard.message_id)

    async def tell(self, place: Place, actor: Actor, text: str, *, about: str = "") -> None:
        """Tells one person something; if that fails, nothing more can be done."""
        await self._sent(lambda: self.voice.tell(place, actor, text, about=about))

    async def tell_trouble(
        self, place: Place, actor: Actor, message_id: str, error: CountersignError
    ) -> None:
        """Tells what went wrong with a message; that the store is away, once: a message can be two events."""
        if isinstance(error, TryLater):
            if message_id in self._troubled:
                return
            self._troubled.append(message_id)
        await self.tell(place, actor, telling.told(error, self.lang), about=message_id)

    async def _ask_about(self, old: Held) -> None:
        """Posts the card that asks about an old message, and notes which it is."""
        card = self.held_card(old)
        shown = await self._sent(lambda: self.voice.post_card(old.place, card, about=old.id))
        if shown:
            await asyncio.to_thread(self.registers.note_held, old.having(shown=shown))

    async def settle(self, about: Held, verb: Verb) -> bool:
        """Takes the buttons off the card about an old message, if that is answered; whether it is."""
        if await asyncio.to_thread(self.registers.held, about.id) is not None:
            return False
        card = self.held_card(about, verb)
        if about.shown:
            await self._sent(lambda: self.voice.repaint(about.place, about.shown, card))
        return True

    async def _sent(self, send: Callable[[], Awaitable[T]]) -> T | None:
        """Sends something, again if the product asks to wait or does not answer; None if it cannot be."""
        for last in (*[False] * (TRIES - 1), True):
            try:
                return await send()
            except REFUSED as error:
                again = isinstance(error, SlowDown | TryLater) and not last
                if not again:
                    log.warning("something could not be told: %s", error)
                    return None
                await asyncio.sleep(error.seconds if isinstance(error, SlowDown) else RETRY_SECONDS)
        return None

    # --- presses -------------------------------------------------------------------------

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
        card = notices.held_card(
            of.id, of.text, by=of.by, at=of.at, lang=lang, zone=self.zone, now=self.clock()
        )
        return card if answer is None else notices.settled_card(card, answer, lang=lang)


def looks_like_an_answer(text: str) -> bool:
    """Whether words seem to answer a request or to be a command: then their writer waits for an effect."""
    said = spoken.without_mentions(text)
    return spoken.command(said) is not None or spoken.hear(spoken.split_number(said)[1]).kind != "words"
