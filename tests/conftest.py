"""Servers and clients that many tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import fakeredis
import pytest
from hypothesis import settings
from redis import Redis

from bot.embedded import EmbeddedRedis

# The same examples at every run, and no stopwatch: a busy machine must not fail a test. `campaign`
# looks further, with other examples each time: `pytest --hypothesis-profile campaign tests/cards`.
settings.register_profile("suite", max_examples=40, deadline=None, derandomize=True, database=None)
settings.register_profile("campaign", max_examples=2_000, deadline=None, database=None)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A real server with production settings, one per test process."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), path=os.environ.get("PATH", os.defpath)) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis) -> str:
    """The address of the real server, empty and with its functions and scripts forgotten."""
    with Redis.from_url(redis_server.url) as client:
        client.flushall()
        client.script_flush()
    return redis_server.url


@pytest.fixture
def fake_redis() -> Redis:
    """An empty in-process Redis that runs scripts; answers in bytes, as the store wants."""
    client: Redis = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    return client


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The system's Chromium. Without one its tests are skipped, but never in CI."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        missing = f"no browser: none of {', '.join(names)} is installed"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups that must stay together go first: begun last, one worker would still be at them alone."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
