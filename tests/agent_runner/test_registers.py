from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis.asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from agent_runner.errors import TryLater
from agent_runner.model import Progress
from agent_runner.registers import LEASE_MS, Lease, Receipt, Registers, _rows
from agent_runner.store import Store, connect
from tests.fakes.values import LIN, MEI, NOW, a_task, at

MINE = Lease(token="mine", host="h", pid=7, pgid=7, process_started=1.5)
THEIRS = MINE.having(token="theirs", pid=8)


@pytest.fixture(params=["real", "fake"])
def registers(request: pytest.FixtureRequest) -> Registers:
    """Registers on a real server, and on the fake that other tests use in its place."""
    if request.param == "fake":
        return Registers(request.getfixturevalue("fake_redis"))
    return Registers(connect(request.getfixturevalue("redis_url"), patient=False))


# --- leases ----------------------------------------------------------------------------------


def test_a_lease_has_one_owner(registers: Registers) -> None:
    """While one is alive nobody else gets it, renews it or gives it back."""
    assert [registers.take_lease("t_1", lease) for lease in (MINE, THEIRS, MINE)] == [True, False, False]
    assert registers.extend_lease("t_1", "theirs") is False
    registers.release_lease("t_1", "theirs")
    assert registers.lease("t_1") == MINE
    assert registers.extend_lease("t_1", "mine") is True
    registers.release_lease("t_1", "mine")
    assert registers.lease("t_1") is None
    assert registers.extend_lease("t_1", "mine") is False
    assert registers.take_lease("t_1", THEIRS) is True


def test_a_dropped_lease_is_free(registers: Registers) -> None:
    """The lease of a dead owner is ended by whoever knows it is dead."""
    registers.take_lease("t_1", MINE)
    registers.drop_lease("t_1")
    assert registers.take_lease("t_1", THEIRS) is True


def test_a_lease_ends_by_itself_and_is_renewed_whole(registers: Registers) -> None:
    """It lives for `LEASE_MS` from its last renewal."""
    key = registers.keys.part("t_1", "lease")
    registers.take_lease("t_1", MINE)
    assert LEASE_MS - 2_000 < registers.client.pttl(key) <= LEASE_MS
    registers.client.pexpire(key, 500)
    registers.extend_lease("t_1", "mine")
    assert LEASE_MS - 2_000 < registers.client.pttl(key) <= LEASE_MS


# --- progress --------------------------------------------------------------------------------


def test_progress_is_what_was_said_last(registers: Registers) -> None:
    """The last line replaces the one before, and wakes the pages."""
    assert registers.progress("t_1") is None
    for step in ("thinking", "tool"):
        registers.show_progress("t_1", Progress(activity=step, detail="Bash", since=NOW))
    assert registers.progress("t_1") == Progress(activity="tool", detail="Bash", since=NOW)
    changes: Any = registers.client.xrange(registers.keys.changes)
    assert [row for _, row in changes] == [{b"task": b"t_1", b"what": b"progress"}] * 2


def test_progress_that_cannot_be_stored_harms_nothing(tmp_path: Path) -> None:
    """It is no part of the record: a turn does not end because Redis is away. Reading it tells."""
    gone = Registers(connect(f"unix://{tmp_path / 'none.sock'}", patient=False))
    gone.show_progress("t_1", Progress(activity="tool", since=NOW))
    with pytest.raises(TryLater):
        gone.progress("t_1")


# --- the courier's work ------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 4e9, allow_nan=False))
def test_settling_takes_off_what_did_not_change(seconds: float) -> None:
    """Whatever the time of a change, its own mark settles it."""
    settles(Registers(_fake()), seconds)


def test_settling_works_on_the_real_server(redis_url: str) -> None:
    """Redis before 7.2 writes scores with 17 digits, Python with as few as it can."""
    registers = Registers(connect(redis_url, patient=False))
    for seconds in (1732991234.123457, 1764527177.1, 0.1, 1 / 3, 1764527177.000001, 4e9):
        settles(registers, seconds)


def settles(registers: Registers, seconds: float) -> None:
    """Marks a task at a time, and settles it with what was read."""
    registers.client.zadd(registers.keys.dirty, {"t_1": seconds})
    [(task_id, mark)] = registers.dirty()
    registers.settle(task_id, mark)
    assert registers.dirty() == []


def _fake() -> Redis:
    client: Redis = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    return client


def test_a_change_in_between_keeps_a_task_on_the_list(registers: Registers) -> None:
    """What changed after it was read is looked at again; a second settling is nothing."""
    registers.mark_dirty("t_1", at(0.25))
    [(_, mark)] = registers.dirty()
    registers.mark_dirty("t_1", at(0.5))
    registers.settle("t_1", mark)
    [(_, newer)] = registers.dirty()
    assert newer != mark
    for _ in range(2):
        registers.settle("t_1", newer)
    assert registers.dirty() == []


def test_the_work_list_is_whole_and_oldest_first(registers: Registers) -> None:
    """However many cannot be posted, what comes later is on the list too."""
    for n in range(250):
        registers.mark_dirty(f"t_{n}", at(250 - n))
    assert [task_id for task_id, _ in registers.dirty()] == [f"t_{n}" for n in reversed(range(250))]


def test_receipts_are_kept_by_message(registers: Registers) -> None:
    """One receipt for each message of a task, the last one counts."""
    status = Receipt(key="status", message_id="m1", revision=1, shown="a")
    card = Receipt(key="request:12", message_id="m2", revision=1, shown="b")
    for receipt in (status, card, status.having(revision=2, shown="c")):
        registers.keep_receipt("t_1", receipt)
    assert registers.receipts("t_1") == {"status": status.having(revision=2, shown="c"), "request:12": card}
    assert registers.receipts("t_2") == {}


def test_posts_keep_their_place_in_the_thread(registers: Registers) -> None:
    """A message that is updated shows the new card at its first time."""
    registers.keep_post("t_1", "status", "{1}", at(2))
    registers.keep_post("t_1", "request:12", "{2}", at(1))
    registers.keep_post("t_1", "status", "{3}", at(9))
    assert registers.posts("t_1") == [("request:12", at(1), "{2}"), ("status", at(2), "{3}")]


# --- the change feed ---------------------------------------------------------------------------


def test_the_feed_tells_changes_after_a_point(redis_url: str) -> None:
    """A reader gets what came after, in order, then hears that nothing came."""
    registers = Registers(connect(redis_url, patient=False))
    store = Store(registers.client, enqueue=lambda _pipe, _task: None)
    assert registers.last_change() == "0-0"
    store.create(a_task(), messages=[], notes=[])
    seen = registers.last_change()
    registers.keep_post("t_1", "status", "{}", NOW)
    store.create(a_task(id="t_2", number=2), messages=[], notes=[])

    async def read(after: str, count: int) -> list[tuple[str, str]]:
        client = redis.asyncio.Redis.from_url(redis_url)
        try:
            feed = registers.changes(client, after, block_ms=20)
            return [await anext(feed) for _ in range(count)]
        finally:
            await client.aclose()

    assert asyncio.run(read(seen, 3)) == [("t_1", "post"), ("t_2", "task"), ("", "idle")]
    assert asyncio.run(read("0-0", 1)) == [("t_1", "task")]


def test_a_feed_without_a_store_is_try_later(tmp_path: Path) -> None:
    """The reader connects again; it is not told "nothing new"."""

    async def read() -> None:
        once = Retry(NoBackoff(), 0)
        client = redis.asyncio.Redis(unix_socket_path=str(tmp_path / "none.sock"), retry=once)
        try:
            await anext(Registers(_fake()).changes(client, "0-0"))
        finally:
            await client.aclose()

    with pytest.raises(TryLater):
        asyncio.run(read())


ROW = (b"1-0", {b"task": b"t_1", b"what": b"task"})


@pytest.mark.parametrize(
    ("reply", "rows"),
    [
        (None, []),
        ({}, []),
        ([(b"k", [ROW, ROW])], [ROW, ROW]),
        ({b"k": [[ROW, ROW]]}, [ROW, ROW]),
        ({b"k": [ROW]}, [ROW]),
    ],
    ids=["nothing", "nothing (RESP3)", "RESP2", "RESP3", "RESP3, flat"],
)
def test_both_shapes_of_a_stream_reply(reply: Any, rows: list[Any]) -> None:
    """redis-py answers in one shape or the other, by protocol and version."""
    assert _rows(reply) == rows


# --- people, leadership, repeats ---------------------------------------------------------------


def test_a_token_is_its_owner_and_is_not_stored(registers: Registers) -> None:
    """Whoever reads the store finds no token that works."""
    registers.keep_token("secret-1", MEI)
    registers.keep_token("secret-2", MEI)
    registers.keep_token("secret-3", LIN)
    assert [registers.who(t) for t in ("secret-1", "secret-2", "secret-3", "", "secret")] == [
        *(MEI, MEI, LIN, None, None)
    ]
    stored = registers.client.hgetall(registers.keys.tokens)
    assert "secret" not in repr(stored)
    assert registers.revoke_tokens(MEI.account) == 2
    assert registers.revoke_tokens(MEI.account) == 0
    assert [registers.who(t) for t in ("secret-1", "secret-3")] == [None, LIN]


def test_one_leads_until_its_time_is_over(registers: Registers) -> None:
    """Leadership is held by renewing it, and passes on when it is not renewed."""
    assert [registers.lead("clock", me, 10_000) for me in ("a", "b", "a")] == [True, False, True]
    assert registers.lead("other", "b", 10_000) is True
    registers.client.delete(f"{registers.keys.prefix}leader:clock")
    assert [registers.lead("clock", me, 10_000) for me in ("b", "a")] == [True, False]


def test_what_is_seen_twice_is_known(registers: Registers) -> None:
    """A delivery repeated by a platform is new once."""
    events = itertools.cycle(["e1", "e2"])
    assert [registers.first_time(next(events), seconds=60) for _ in range(4)] == [True, True, False, False]


@pytest.mark.parametrize(
    "call",
    [
        lambda r: r.take_lease("t_1", MINE),
        lambda r: r.extend_lease("t_1", "mine"),
        lambda r: r.dirty(),
        lambda r: r.receipts("t_1"),
        lambda r: r.keep_receipt("t_1", Receipt(key="k", message_id="m", revision=1, shown="s")),
        lambda r: r.who("secret"),
        lambda r: r.lead("clock", "me", 1_000),
        lambda r: r.first_time("e", seconds=1),
        lambda r: r.last_change(),
    ],
    ids=["take", "extend", "dirty", "receipts", "receipt", "who", "lead", "first", "feed"],
)
def test_without_a_store_nothing_is_made_up(call: Callable[[Registers], object], tmp_path: Path) -> None:
    """No lease, no person and no leadership is ever assumed: every register says `TryLater`."""
    with pytest.raises(TryLater):
        call(Registers(connect(f"unix://{tmp_path / 'none.sock'}", patient=False)))
