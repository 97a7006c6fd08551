"""Brings one message of a thread up to date, whatever the platform makes of it.

A platform that refuses a card gets a simpler one: card, shorter card, numbered list, one line
with a link. What a client raises says what happens next; each platform has one table from its
error codes to these.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from agent_runner.errors import CountersignError
from agent_runner.model import Place, Value
from agent_runner.registers import Receipt
from cards.attach import Fitted
from cards.model import Attachment, Card

log = logging.getLogger(__name__)


class Form(StrEnum):
    """How a card is sent, from the best to the one that always goes."""

    CARD = "card"
    SHORT = "short"
    LIST = "list"
    LINK = "link"


class CardRefused(Exception):
    """The platform does not take this message as it is: send a simpler one."""


class PartlyShown(CardRefused):
    """It was taken without its button, and refused with it; `receipt` says where it stands."""

    def __init__(self, said: str, receipt: Receipt) -> None:
        super().__init__(said)
        self.receipt = receipt


class MessageGone(Exception):
    """The message cannot be changed any more (deleted, too old): post a new one."""


class PlaceGone(Exception):
    """Nothing can be posted there any more (archived, bot removed): tell the fallback chat."""


class ThreadGone(PlaceGone):
    """The thread's first message is gone, its chat is not: go on in a new thread there."""


class SlowDown(Exception):
    """The platform asks to wait; `seconds` from now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"wait {seconds:g} s")
        self.seconds = seconds


REFUSED = (CountersignError, CardRefused, MessageGone, PlaceGone, SlowDown)
"""All that a call to a platform may raise."""


class Shown(Value):
    """One message as it is to be sent: the card, fitted, and the same card in other languages."""

    key: str
    task_id: str
    revision: int
    card: Card
    others: tuple[Card, ...] = ()
    form: Form = Form.CARD
    attempt: int = 0
    """How often it had to be posted anew: such a message is another one."""


class Client(Protocol):
    """What the courier needs of a platform. Methods raise the errors above; others are retried."""

    languages: tuple[str, ...]
    """The language of its cards, then those that are sent along for readers of others."""
    interval: float
    """Seconds between two messages to one chat."""
    status_interval: float
    """Seconds between two updates of one status message."""
    follows_progress: bool
    """Whether a status message is updated while the agent works (the web page does it itself)."""
    announces: bool
    """Whether updates are silent there, so that an outcome others wait for is also a new message."""
    answers_presses: bool
    """Whether a press is answered with the card, which an update before that answer would undo."""
    first_form: Form
    """The best form that can be used."""
    fallback: str
    """The chat that is told when a place is gone; '' for none."""

    def fit(self, card: Card, form: Form, *, uploaded: bool, prefix: str) -> Fitted:
        """The card in that form within the platform's limits, and the files that belong to it."""

    def holds(self, card: Card) -> bool:
        """Whether the platform shows these steps of a batch on one card, if need be with files."""

    async def post(self, place: Place, shown: Shown) -> str:
        """Puts a new message into the thread; returns its id there."""

    async def update(self, place: Place, message_id: str, shown: Shown) -> None:
        """Makes a posted message show this."""

    async def find(self, place: Place, shown: Shown) -> str:
        """The id of a message that may have been posted without our hearing of it; '' if none."""

    async def attach(self, place: Place, file: Attachment) -> None:
        """Puts a file into the thread."""

    async def open_thread(self, chat: str, card: Card) -> Place:
        """Begins a new thread in that chat."""


Keep = Callable[[Receipt], Awaitable[None]]
Turn = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Delivery:
    """Delivers to one thread. `turn` is awaited before everything that is sent there."""

    client: Client
    place: Place
    task_id: str
    keep: Keep
    turn: Turn
    drawing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while cards are drawn, a few milliseconds each: between two of them, others get their turn."""

    async def bring(
        self, key: str, revision: int, cards: tuple[Card, ...], receipt: Receipt | None
    ) -> Receipt:
        """Makes the message show the first of `cards` (the others are translations)."""
        for form in _forms(self.client.first_form, receipt):
            try:
                return await self._in_form(
                    Shown(
                        key=key,
                        task_id=self.task_id,
                        revision=revision,
                        card=cards[0],
                        others=cards[1:],
                        form=form,
                    ),
                    receipt,
                )
            except CardRefused as refused:
                log.warning("%s of %s was refused as %s: %s", key, self.task_id, form, refused)
                last = refused
                if isinstance(refused, PartlyShown):  # the simpler one takes its place
                    receipt = refused.receipt
        raise last

    async def _in_form(self, whole: Shown, receipt: Receipt | None) -> Receipt:
        async with self.drawing:
            now = self._fit(whole, uploaded=False)
            later = self._fit(whole, uploaded=True) if any(one.files for one in now) else now
            await asyncio.sleep(0)
        files = {_mark(file): file for file in now[0].files}
        missing = [mark for mark in files if receipt is None or mark not in receipt.files]
        if missing:  # whoever says yes must have the whole text at hand: first the files, then the button
            receipt = await self._put(_fitted(whole, now), receipt, "")
            for mark in missing:
                await self.turn()
                await self.client.attach(self.place, files[mark])
                receipt = receipt.having(files=(*receipt.files, mark))
                await self.keep(receipt)
        try:
            return await self._put(_fitted(whole, later), receipt, whole.card.fingerprint)
        except CardRefused as refused:
            if missing and receipt is not None:
                raise PartlyShown(str(refused), receipt) from refused
            raise

    def _fit(self, whole: Shown, *, uploaded: bool) -> list[Fitted]:
        """Each language's card; without files it is the same whether `uploaded` or not."""
        prefix = whole.key.replace(":", "-") + "-"
        return [
            self.client.fit(card, whole.form, uploaded=uploaded, prefix=prefix)
            for card in (whole.card, *whole.others)
        ]

    async def _put(self, shown: Shown, receipt: Receipt | None, fingerprint: str) -> Receipt:
        """Posts or updates; `fingerprint` is what is shown then, '' if it is not all of it yet."""
        shown = shown.having(attempt=receipt.attempt if receipt else 0)
        if receipt is not None and not receipt.message_id:  # begun before, and nobody knows how it ended
            found = await self.client.find(self.place, shown)
            receipt = receipt.having(message_id=found) if found else receipt
        if receipt is not None and receipt.message_id:
            try:
                await self.turn()
                await self.client.update(self.place, receipt.message_id, shown)
                return await self._kept(receipt, shown, receipt.message_id, fingerprint)
            except MessageGone as gone:
                log.warning("%s of %s is posted anew: %s", shown.key, self.task_id, gone)
                shown = shown.having(attempt=shown.attempt + 1)
        blank = Receipt(
            key=shown.key,
            message_id="",
            revision=shown.revision,
            shown="",
            recorded=receipt.recorded if receipt else not shown.card.about,
            files=receipt.files if receipt else (),
            where=where(self.place),
            attempt=shown.attempt,
            numbers=shown.card.numbers,
        )
        await self.keep(blank)
        await self.turn()
        return await self._kept(blank, shown, await self.client.post(self.place, shown), fingerprint)

    async def _kept(self, receipt: Receipt, shown: Shown, message_id: str, fingerprint: str) -> Receipt:
        fresh: Receipt = receipt.having(
            message_id=message_id,
            revision=shown.revision,
            shown=fingerprint,
            form=shown.form.value,
            where=where(self.place),
            numbers=shown.card.numbers,
        )
        await self.keep(fresh)
        return fresh


def _forms(first: Form, receipt: Receipt | None) -> tuple[Form, ...]:
    """The forms to try: from the one that was taken last, since a refused one is refused again."""
    known = tuple(Form)
    return known[max(known.index(first), known.index(Form(receipt.form)) if receipt else 0) :]


def _fitted(whole: Shown, each: list[Fitted]) -> Shown:
    """The message with its cards as they fit."""
    cards = [one.card for one in each]
    shown: Shown = whole.having(card=cards[0], others=tuple(cards[1:]))
    return shown


def _mark(file: Attachment) -> str:
    return hashlib.sha256(f"{file.filename}\n{file.text.raw}".encode(errors="surrogatepass")).hexdigest()


def where(place: Place) -> str:
    """A thread in one word, for receipts."""
    return f"{place.platform}:{place.chat}:{place.thread}"
