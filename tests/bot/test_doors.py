"""What every platform is made from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest
from redis import Redis

from agent_runner.config import Config
from agent_runner.registers import Registers
from agent_runner.store import Store
from bot.doors import Parts
from bot.handle import Handler
from bot.settings import Settings
from tests.fakes.values import at


@pytest.fixture
def parts_at(fake_redis: Redis) -> Callable[[str], Parts]:
    """Parts whose page is at an address."""
    config, store = Config(), Store(fake_redis, enqueue=lambda _pipe, _task: None)
    handler = Handler(store, config, clock=lambda: at(0), new_id=str)

    def made(page: str) -> Parts:
        return Parts(
            settings=Settings(config, None, Path(), {}, "127.0.0.1", 0),
            store=store,
            registers=Registers(fake_redis),
            handler=handler,
            clock=lambda: at(0),
            zone=UTC,
            wake=lambda: None,
            page=page,
        )

    return made


@pytest.mark.parametrize(
    ("page", "public"),
    [
        ("https://countersign.example.com", True),
        ("http://countersign.test:8321", True),
        ("http://10.0.0.7:8321", True),
        ("http://[2001:db8::7]:8321", True),
        ("http://localhost:8321", False),
        ("http://127.0.0.1:8321", False),
        ("http://127.9.9.9", False),
        ("http://[::1]:8321", False),
        ("http://0.0.0.0:8321", False),
        ("http://[::]:8321", False),
        ("", False),
    ],
)
def test_whether_others_can_open_the_page(parts_at: Callable[[str], Parts], page: str, public: bool) -> None:
    """An address of this machine alone leads nobody in a chat anywhere."""
    assert parts_at(page).page_is_public is public


def test_the_page_of_a_task(parts_at: Callable[[str], Parts]) -> None:
    """Its address, as the web app has it."""
    assert (
        parts_at("https://countersign.example.com").page_of("t_1") == "https://countersign.example.com/t/t_1"
    )
