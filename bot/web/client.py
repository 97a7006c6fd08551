"""The courier's client for the web page: to post is to keep the card with its thread.

Pages compose what they show from the store, in the reader's language; what is kept here says
since when a message stands in the thread, and keeps the messages of earlier turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from agent_runner.model import Place
from agent_runner.registers import Registers
from bot.delivery import Form, PlaceGone, Shown
from cards.attach import Fitted
from cards.model import Attachment, Card


class WebClient:
    """Posts to the threads of the web page; raises `TryLater` when the store is away."""

    interval = 0.0
    status_interval = 0.0
    follows_progress = False
    fallback = ""
    announces = False
    answers_presses = False
    first_form = Form.CARD

    def __init__(self, registers: Registers, lang: str, clock: Callable[[], datetime]) -> None:
        self.languages: tuple[str, ...] = (lang,)
        self._registers = registers
        self._clock = clock

    def fit(self, card: Card, form: Form, *, uploaded: bool, prefix: str) -> Fitted:  # noqa: ARG002  (a page has no limit)
        """The card as it is."""
        return Fitted(card=card, files=())

    def holds(self, card: Card) -> bool:  # noqa: ARG002  (a page has no limit)
        """Always: there is room."""
        return True

    async def post(self, place: Place, shown: Shown) -> str:
        """Keeps a new message and returns its id, which is its key: posting twice is once."""
        await self.update(place, shown.key, shown)
        return shown.key

    async def update(self, place: Place, message_id: str, shown: Shown) -> None:  # noqa: ARG002  (kept by task)
        """Replaces what a message shows; its place in the thread stays."""
        card = shown.card.model_dump_json()
        await asyncio.to_thread(self._registers.keep_post, shown.task_id, message_id, card, self._clock())

    async def find(self, place: Place, shown: Shown) -> str:  # noqa: ARG002  (ids are keys)
        """The message's id, which is its key."""
        return shown.key

    async def attach(self, place: Place, file: Attachment) -> None:
        """Never called: nothing is too long for a page."""
        raise AssertionError(f"no file is ever attached to a page: {file.filename} in {place}")

    async def open_thread(self, chat: str, card: Card) -> Place:  # noqa: ARG002  (a page cannot go away)
        """Never called: there is no fallback for a page."""
        raise PlaceGone(f"there is no page {chat}")
