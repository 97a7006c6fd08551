"""Servers and clients that many tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import fakeredis
import pytest
from redis import Redis

from bot.embedded import EmbeddedRedis


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
