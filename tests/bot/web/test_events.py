"""Server-sent events: what a listener hears, and how a stream ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import redis.asyncio
from redis import Redis

from bot.web import events
from bot.web.events import Feed, Listener, stream
from tests.bot.web.webdesk import MEI, TOKENS, WebDesk


@contextmanager
def listening(desk: WebDesk, *, cookie: bool = False) -> Iterator[Iterator[str]]:
    """An open stream's lines, after it said that it is connected."""
    with desk.client("" if cookie else "mei") as client:
        if cookie:
            client.get("/login", params={"token": TOKENS["mei"]})
        with client.stream("GET", "/api/events") as got:
            assert got.headers["content-type"] == "text/event-stream; charset=utf-8"
            lines = got.iter_lines()
            assert next(lines) == ": connected"
            yield lines


def heard(lines: Iterator[str], count: int) -> list[tuple[str, dict[str, str]]]:
    """So many events."""
    found: list[tuple[str, dict[str, str]]] = []
    kind = ""
    while len(found) < count:
        line = next(lines)
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        if line.startswith("data: "):
            found.append((kind, json.loads(line.removeprefix("data: "))))
    return found


@pytest.mark.parametrize("cookie", [False, True])
def test_changes_are_heard_as_they_happen(desk: WebDesk, cookie: bool) -> None:
    """A program hears them with its token, a page with its cookie."""
    with listening(desk, cookie=cookie) as lines:
        with desk.client() as client:
            client.post("/api/tasks", json={"text": "go"})
        assert heard(lines, 1) == [("task", {"task": "t_1", "what": "task"})]
        desk.start("t_1", activity="thinking")
        found = heard(lines, 2)
    assert found == [
        ("task", {"task": "t_1", "what": "task"}),
        ("task", {"task": "t_1", "what": "progress"}),
    ]


def test_a_server_that_stops_ends_the_streams(redis_url: str) -> None:
    """The stream ends by itself, and the server does not wait for it."""
    ended = threading.Event()
    with WebDesk(redis_url).serving() as desk:

        def listen() -> None:
            with listening(desk) as lines:
                connected.set()
                assert [line for line in lines if line] == []
            ended.set()

        connected = threading.Event()
        thread = threading.Thread(target=listen)
        thread.start()
        assert connected.wait(5)
    assert ended.wait(5)
    thread.join()


def test_a_feed_that_breaks_is_mended(desk: WebDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the store was away, listeners are told that anything may have changed, and hear on."""
    monkeypatch.setattr(events, "RECONNECT", 0.05)
    with listening(desk) as lines:
        with Redis.from_url(desk.redis_url) as admin:
            admin.client_kill_filter(_type="normal", skipme=True)
        assert heard(lines, 1) == [("resync", {"task": "", "what": "resync"})]
        with desk.client() as client:
            client.post("/api/tasks", json={"text": "go"})
        assert heard(lines, 1) == [("task", {"task": "t_1", "what": "task"})]


def test_a_slow_listener_holds_each_change_once() -> None:
    """What is waiting to be told is bounded by what there is, not by how often it changed."""

    async def play() -> list[tuple[str, str]]:
        listener = Listener()
        for _ in range(10_000):
            listener.tell(("t_1", "progress"))
            listener.tell(("t_2", "task"))
        return await listener.changes(1)

    assert asyncio.run(play()) == [("t_1", "progress"), ("t_2", "task")]


def test_silence_is_filled_and_a_revoked_token_ends_the_stream(
    desk: WebDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each heartbeat the token is looked up again."""
    monkeypatch.setattr(events, "HEARTBEAT", 0.05)
    with listening(desk) as lines:
        assert [next(lines), next(lines)] == ["", ": still here"]
        desk.registers.revoke_tokens(MEI.account)
        assert {line for line in lines if line} <= {": still here"}


def test_a_closed_feed_ends_new_streams_at_once(desk: WebDesk) -> None:
    """Whoever connects while the server stops gets an empty stream, not a hanging one."""

    async def welcome() -> bool:
        return True

    async def play() -> list[str]:
        feed = Feed(desk.registers, lambda: redis.asyncio.Redis.from_url(desk.redis_url))
        feed.close()
        monkey = [chunk async for chunk in stream(feed, welcome)]
        await feed.stop()
        return monkey

    assert asyncio.run(play()) == [": connected\n\n"]


def test_the_stream_needs_a_token(shared: WebDesk) -> None:
    """As every other call."""
    with pytest.raises(httpx.HTTPStatusError), shared.client("") as client:
        client.get("/api/events").raise_for_status()
