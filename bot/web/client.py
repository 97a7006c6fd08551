"""The courier's client for the web page: to post is to keep the card with its thread.

Pages compose what they show from the store, in the reader's language; what is kept here says
since when a message stands in the thread, and keeps the messages of earlier turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from agent_runner.model import Task
from agent_runner.registers import Registers
from cards.model import Post


class WebClient:
    """Posts to the threads of the web page; raises `TryLater` when the store is away."""

    def __init__(self, registers: Registers, clock: Callable[[], datetime]) -> None:
        self._registers = registers
        self._clock = clock

    async def post(self, task: Task, post: Post) -> str:
        """Keeps a new message and returns its id, which is its key: posting twice is once."""
        await self.update(task, post.key, post)
        return post.key

    async def update(self, task: Task, message_id: str, post: Post) -> None:
        """Replaces what a message shows; its place in the thread stays."""
        card = post.card.model_dump_json()
        await asyncio.to_thread(self._registers.keep_post, task.id, message_id, card, self._clock())
