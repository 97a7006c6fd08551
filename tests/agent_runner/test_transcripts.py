from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import urlsplit

import fakeredis
import pytest
from claude_agent_sdk import project_key_for_directory
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import ConnectionPool, Redis, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

from agent_runner import transcript_codec as codec
from agent_runner.errors import EngineFailed, TryLater
from agent_runner.transcripts import Limits, RedisTranscripts

CWD = "/srv/ops"
SESSION = "7f3c7a52-2f0d-4e51-9f0c-0f6f6a1f6d11"
MAIN: Any = {"project_key": project_key_for_directory(CWD), "session_id": SESSION}
SUB: Any = {**MAIN, "subpath": "subagents/agent-1"}
CALL: Any = {
    "type": "assistant",
    "uuid": "u-call",
    "message": {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash"}]},
}
RESULT: Any = {
    "type": "user",
    "uuid": "u-result",
    "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]},
}


def on(client: Callable[[], Redis], story: Callable[[Redis], Awaitable[Any]]) -> Any:
    """Runs a story in an event loop of its own with a client of its own, as a turn does."""

    async def run() -> Any:
        connection = client()
        try:
            return await story(connection)
        finally:
            await connection.aclose()

    return asyncio.run(run())


@pytest.fixture(params=["real", "fake"])
def client(request: pytest.FixtureRequest) -> Callable[[], Redis]:
    """Makes clients of a real server, and of the fake that other tests use in its place."""
    if request.param == "real":
        url = request.getfixturevalue("redis_url")
        return lambda: Redis.from_url(url)
    server = fakeredis.FakeServer()
    return lambda: cast(Redis, fakeredis.FakeAsyncRedis(server=server))


def entries(*uuids: str) -> list[Any]:
    """Transcript lines as the CLI writes them, as far as the store looks."""
    return [{"type": "user", "uuid": uuid, "message": {"content": f"words of {uuid}"}} for uuid in uuids]


def test_passes_the_sdks_conformance_suite(client: Callable[[], Redis]) -> None:
    """Every contract that the SDK asks of a store holds."""
    number = itertools.count()

    async def story(redis: Redis) -> None:
        await run_session_store_conformance(lambda: RedisTranscripts(redis, prefix=f"t{next(number)}:"))

    on(client, story)
    assert next(number) > 10


def test_an_entry_that_comes_again_is_kept_once(client: Callable[[], Redis]) -> None:
    """Overlapping batches of two processes leave each entry once, in the order of arrival."""

    async def story(redis: Redis) -> Any:
        one, two = RedisTranscripts(redis), RedisTranscripts(redis)
        await one.append(MAIN, entries("a", "b"))
        await asyncio.gather(*(store.append(MAIN, entries("b", "c")) for store in (one, two) * 4))
        await two.append(SUB, entries("a"))
        return await one.load(MAIN), await one.load(SUB)

    assert on(client, story) == (entries("a", "b", "c"), entries("a"))


def test_entries_without_a_uuid_are_kept_as_often_as_they_come(client: Callable[[], Redis]) -> None:
    """Titles and mode markers have no identity, so none may be dropped as a duplicate."""
    mode: Any = {"type": "mode", "mode": "plan"}

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis)
        await store.append(MAIN, [mode, mode])
        await store.append(MAIN, [mode])
        return await store.load(MAIN)

    assert on(client, story) == [mode, mode, mode]


class LosesOneReply(UnixDomainSocketConnection):
    """Reads a reply that the server has sent and then behaves as if the connection had broken."""

    lose_next = False

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        answer = await super().read_response(*args, **kwargs)
        if type(self).lose_next:
            type(self).lose_next = False
            await self.disconnect()
            raise RedisConnectionError("reply lost")
        return answer


def test_a_lost_reply_does_not_write_twice(redis_url: str) -> None:
    """The client repeats the append by itself when the answer is lost; the transcript holds it once."""
    pool = ConnectionPool(
        connection_class=LosesOneReply,
        path=urlsplit(redis_url).path,
        retry=Retry(NoBackoff(), 2),
        retry_on_error=[RedisConnectionError],
    )

    async def story(redis: Redis) -> Any:
        await redis.config_resetstat()
        store = RedisTranscripts(redis)
        await store.append(MAIN, entries("a"))
        LosesOneReply.lose_next = True
        await store.append(MAIN, entries("b", "c"))
        return await store.load(MAIN), (await redis.info("commandstats"))["cmdstat_eval"]["calls"]

    def client() -> Redis:
        return Redis(connection_pool=pool)

    loaded, evals = on(client, story)
    assert not LosesOneReply.lose_next
    assert (loaded, evals) == (entries("a", "b", "c"), 3)


def test_every_append_renews_the_whole_session(client: Callable[[], Redis]) -> None:
    """All keys of a session live equally long from its last append, a subagent's too."""

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis, prefix="t:", ttl_seconds=1000)
        await store.append(SUB, entries("s"))
        await store.append(MAIN, entries("a"))
        names = [name async for name in redis.scan_iter("t:*")]
        for name in names:
            await redis.expire(name, 10)
        await store.append(MAIN, entries("b"))
        return {name.decode().rsplit(SESSION)[-1]: await redis.ttl(name) for name in names}

    index = f"t:index:{MAIN['project_key']}"
    sub = ":sub:subagents%2Fagent-1"
    assert on(client, story) == dict.fromkeys(
        [":main", ":main:ids", sub, f"{sub}:ids", ":subs", ":bytes", index], 1000
    )


def test_sessions_that_have_expired_are_not_listed(client: Callable[[], Redis]) -> None:
    """The index forgets a session when its entries are gone."""

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis, prefix="t:")
        index = f"t:index:{MAIN['project_key']}"
        await store.append(MAIN, entries("a"))
        await redis.zadd(index, {"old": 1})
        listed = await store.list_sessions(MAIN["project_key"])
        await store.append(MAIN, entries("b"))
        return [item["session_id"] for item in listed], await redis.zrange(index, 0, -1)

    assert on(client, story) == ([SESSION], [SESSION.encode()])


def test_deleting_leaves_nothing_behind(client: Callable[[], Redis]) -> None:
    """A deleted session frees every key, and a deleted subagent its share of the size."""

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis, prefix="t:")
        await store.append(MAIN, entries("a"))
        alone = await redis.get(f"t:session:{MAIN['project_key']}:{SESSION}:bytes")
        await store.append(SUB, entries("s", "t"))
        await store.delete(SUB)
        again = await redis.get(f"t:session:{MAIN['project_key']}:{SESSION}:bytes")
        await store.delete(MAIN)
        return alone == again, [name async for name in redis.scan_iter("t:*")]

    assert on(client, story) == (True, [])


STATES: list[tuple[list[Any], tuple[bool, bool, bool]]] = [
    ([], (False, False, False)),
    (entries("a"), (True, False, False)),
    ([CALL], (True, True, False)),
    ([CALL, RESULT], (True, True, True)),
    ([RESULT], (True, False, True)),
    ([{"type": "user", "message": {"content": 'the words "toolu_1" "tool_use"'}}], (True, False, False)),
    ([{"type": "x", "note": {"type": "tool_use", "id": "toolu_1"}}], (True, False, False)),
]


@pytest.mark.parametrize(("stored", "expected"), STATES)
def test_what_the_engine_asks_before_a_resume(
    client: Callable[[], Redis], stored: list[Any], expected: tuple[bool, bool, bool]
) -> None:
    """Whether the session, the call and its result are there is known without starting the engine."""

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis)
        await store.append(MAIN, stored)
        await store.append(SUB, [CALL, RESULT] if stored else [])
        return (
            await store.exists(CWD, SESSION),
            await store.has_call(CWD, SESSION, "toolu_1"),
            await store.has_result(CWD, SESSION, "toolu_1"),
        )

    assert on(client, story) == expected


def test_long_transcripts_are_read_in_pages(client: Callable[[], Redis]) -> None:
    """A transcript longer than several pages comes back whole, and its last call is found."""
    many = entries(*(f"u{number}" for number in range(700)))

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis)
        await store.append(MAIN, [*many, CALL])
        return await store.load(MAIN), await store.has_call(CWD, SESSION, "toolu_1")

    assert on(client, story) == ([*many, CALL], True)


LONG = "x" * 5_000
STUBS: list[tuple[Any, Any]] = [
    (
        {**RESULT, "toolUseResult": {"stdout": LONG, "interrupted": False}},
        {
            **RESULT,
            "toolUseResult": {"stdout": "(5000 characters were too many to keep)", "interrupted": False},
        },
    ),
    (
        {"type": "user", "uuid": "i", "message": {"content": [{"type": "image", "source": {"data": LONG}}]}},
        {
            "type": "user",
            "uuid": "i",
            "message": {"content": [{"type": "text", "text": "(the image was too large to keep)"}]},
        },
    ),
    (
        {"type": "user", "uuid": "n", "parentUuid": None, "rows": [[number] for number in range(2_000)]},
        {"type": "user", "uuid": "n", "parentUuid": None, "omitted": "12943 bytes were too many to keep"},
    ),
]


@pytest.mark.parametrize(("entry", "kept"), STUBS)
def test_an_entry_that_is_too_large_leaves_a_stub(
    client: Callable[[], Redis], caplog: pytest.LogCaptureFixture, entry: Any, kept: Any
) -> None:
    """The bulk is replaced by words that say so, calls and results still pair up, and the log tells."""

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis, limits=Limits(entry=2_000))
        await store.append(MAIN, [entry])
        return await store.load(MAIN)

    with caplog.at_level(logging.WARNING, "agent_runner.transcripts"):
        assert on(client, story) == [kept]
    size = len(codec.to_json(entry))
    assert caplog.messages == [f"transcript of session {SESSION}: an entry of {size} bytes is kept as a stub"]


def test_a_session_that_grows_warns_once_and_is_at_last_not_loaded(
    client: Callable[[], Redis], caplog: pytest.LogCaptureFixture
) -> None:
    """Growing past the first limit is logged once; past the second the load is refused with a way out."""

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis, limits=Limits(warn=100, load=300))
        for uuid in "abc":
            await store.append(MAIN, entries(uuid))
        await store.ensure_loadable(CWD, SESSION)
        loaded = await store.load(MAIN)
        await store.append(SUB, entries("d", "e"))
        for attempt in (store.load(MAIN), store.ensure_loadable(CWD, SESSION)):
            with pytest.raises(EngineFailed, match="too large to resume") as refused:
                await attempt
            assert (refused.value.retry, bool(refused.value.hint)) == (False, True)
        return loaded

    with caplog.at_level(logging.WARNING, "agent_runner.transcripts"):
        assert on(client, story) == entries("a", "b", "c")
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("blob", [b"", b"?{}", b"zno zlib"])
def test_an_entry_of_another_version_is_refused_by_name(client: Callable[[], Redis], blob: bytes) -> None:
    """What cannot be decoded stops the resume; it is never skipped."""

    async def story(redis: Redis) -> None:
        store = RedisTranscripts(redis, prefix="t:")
        await redis.rpush(f"t:session:{MAIN['project_key']}:{SESSION}:main", blob)
        with pytest.raises(EngineFailed, match="cannot be read"):
            await store.load(MAIN)

    on(client, story)


def test_a_silent_redis_is_try_later_not_no() -> None:
    """Without an answer the engine learns that it does not know, not that nothing is there."""

    async def story(redis: Redis) -> None:
        store = RedisTranscripts(redis)
        for question in (
            store.exists(CWD, SESSION),
            store.has_call(CWD, SESSION, "toolu_1"),
            store.has_result(CWD, SESSION, "toolu_1"),
            store.ensure_loadable(CWD, SESSION),
        ):
            with pytest.raises(TryLater):
                await question

    on(lambda: Redis(unix_socket_path="/nowhere/redis.sock", retry=Retry(NoBackoff(), 0)), story)


def test_a_client_that_decodes_is_refused() -> None:
    """Entries are bytes; a client that turns them into text would corrupt them."""
    with pytest.raises(ValueError, match="decode_responses"):
        RedisTranscripts(Redis(decode_responses=True))


def test_names_cannot_run_into_each_other(client: Callable[[], Redis]) -> None:
    """Separators inside a project, session or subpath do not make two transcripts one."""
    keys: list[Any] = [
        {"project_key": "p", "session_id": "s:sub:x"},
        {"project_key": "p:s", "session_id": "sub:x"},
        {"project_key": "p", "session_id": "s", "subpath": "x"},
        {"project_key": "p", "session_id": "s", "subpath": "x:ids"},
    ]

    async def story(redis: Redis) -> Any:
        store = RedisTranscripts(redis)
        for number, key in enumerate(keys):
            await store.append(key, entries(f"u{number}"))
        return [await store.load(key) for key in keys]

    assert on(client, story) == [entries(f"u{number}") for number in range(len(keys))]


TEXT = st.text(st.characters(exclude_categories=()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


@settings(max_examples=50)
@given(st.dictionaries(TEXT, JSON))
def test_any_json_survives_the_codec(entry: dict[str, Any]) -> None:
    """Whatever the engine writes, half surrogates included, comes back equal."""
    assert codec.decode(codec.pack(codec.to_json(entry))) == entry
