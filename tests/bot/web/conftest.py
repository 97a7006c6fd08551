"""A running web platform for each test, or for a table of requests that change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.embedded import EmbeddedRedis
from tests.bot.web.webdesk import WebDesk


@pytest.fixture
def desk(redis_url: str) -> Iterator[WebDesk]:
    """A server with an empty store."""
    with WebDesk(redis_url).serving() as running:
        yield running


@pytest.fixture(scope="module")
def long_running(redis_server: EmbeddedRedis) -> Iterator[WebDesk]:
    """One server for a whole module."""
    with WebDesk(redis_server.url).serving() as running:
        yield running


@pytest.fixture
def shared(long_running: WebDesk) -> WebDesk:
    """The server for a table of requests none of which changes anything; other tests empty the store."""
    long_running.keep_tokens()
    return long_running
