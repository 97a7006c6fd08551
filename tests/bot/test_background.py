from __future__ import annotations

import asyncio

import pytest

from bot import background
from bot.background import end_all


def test_what_swallows_a_cancellation_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop whose client library takes a cancellation for a broken connection does not keep the bot."""
    monkeypatch.setattr(background, "CANCEL_AGAIN", 0.01)
    swallowed = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed.append(1)
                if len(swallowed) == 3:
                    raise

    async def scene() -> None:
        loops = [asyncio.create_task(stubborn()), asyncio.create_task(asyncio.sleep(0))]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await end_all(loops)
            await end_all([])
        assert all(loop.done() for loop in loops)

    asyncio.run(scene())
    assert len(swallowed) == 3
