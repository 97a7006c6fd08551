from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from redis import Redis
from redis.client import Pipeline
from redis.exceptions import ConnectionError as RedisConnectionError

from agent_runner import lifecycle
from agent_runner.aggregate import Changes
from agent_runner.errors import TryLater
from agent_runner.model import InquiryState, Task, TaskState
from agent_runner.registers import Registers
from agent_runner.store import Store, connect
from bot import clock as clock_module
from bot.clock import Clock
from tests.fakes.values import MEI, NOW, a_decision, a_task, an_inquiry, at


class Wall:
    """A store with tasks that wait, a time that a test moves, and clocks that look at it."""

    def __init__(self, client: Redis) -> None:
        self.jobs: list[str] = []
        self.store = Store(client, enqueue=self._enqueue)
        self.registers = Registers(client)
        self.time = NOW
        self.recovered: list[str] = []

    def _enqueue(self, _pipe: Pipeline, task: Task) -> None:
        self.jobs.append(task.id)

    def _now(self) -> datetime:
        return self.time

    def waits(self, number: int, until: datetime) -> None:
        """A task `t_<number>` that waits for `i_<number>` until then."""
        inquiry = an_inquiry(id=f"i_{number}", number=number, task_id=f"t_{number}", expires_at=until)
        waiting = a_task(
            id=f"t_{number}", number=number, state="waiting", batch=inquiry.batch, waiting_since=NOW
        )
        self.store.create(waiting, messages=[], notes=[])
        self.store.transact(waiting.id, lambda _: Changes(inquiries=(inquiry,)))
        self.jobs.clear()

    def clock(self, name: str = "one", recover: Callable[[], list[str]] | None = None) -> Clock:
        """A clock of its own, as another bot process would have."""

        def looked_after() -> list[str]:
            self.recovered.append(name)
            return []

        return Clock(self.store, self.registers, recover=recover or looked_after, clock=self._now)

    def states(self) -> list[tuple[InquiryState, TaskState]]:
        """Each inquiry's and its task's state, by number."""
        listed = self.store.list_inquiries(None, after=0, limit=99)
        return [(i.state, self.store.task(i.task_id).state) for i in listed]

    def pass_on(self) -> None:
        """The leader has not ticked for too long."""
        self.registers.client.delete(f"{self.registers.keys.prefix}leader:clock")


@pytest.fixture
def wall(fake_redis: Redis) -> Wall:
    """A wall with an empty store."""
    return Wall(fake_redis)


OPEN = (InquiryState.PENDING, TaskState.WAITING)
OVER = (InquiryState.EXPIRED, TaskState.QUEUED)


def test_what_is_due_expires_once(wall: Wall) -> None:
    """At its time, not before; more ticks change nothing; the task goes on with "nobody answered"."""
    wall.waits(1, at(100))
    wall.waits(2, at(200))
    clock = wall.clock()
    seen = []
    for seconds in (99, 100, 101, 250, 251):
        wall.time = at(seconds)
        clock.tick()
        seen.append(wall.states())
    assert seen == [[OPEN, OPEN], [OVER, OPEN], [OVER, OPEN], [OVER, OVER], [OVER, OVER]]
    assert wall.jobs == ["t_1", "t_2"]
    assert [[str(e.event) for e in wall.store.audit_of(f"t_{n}")] for n in (1, 2)] == [["expired"]] * 2
    assert wall.store.due(at(10**6)) == ()


def test_only_the_leader_ticks(wall: Wall) -> None:
    """A second bot's clock does nothing until the first has been silent for too long."""
    first, second = wall.clock("first"), wall.clock("second")
    for clock in (first, second, first, second):
        clock.tick()
    wall.pass_on()
    for clock in (second, first):
        clock.tick()
    assert wall.recovered == ["first", "first", "second"]


def test_leadership_ends_by_itself(wall: Wall) -> None:
    """It is held for `LEAD_MS` from the last tick, so a dead bot's clock is followed by another."""
    wall.clock().tick()
    left = wall.registers.client.pttl(f"{wall.registers.keys.prefix}leader:clock")
    assert clock_module.LEAD_MS - 2_000 < left <= clock_module.LEAD_MS


def test_two_clocks_that_both_believe_they_lead_expire_once(redis_url: str) -> None:
    """Leadership saves work; what makes it once is the transaction."""
    wall = Wall(connect(redis_url, patient=False))
    for n in range(1, 6):
        wall.waits(n, at(10))
    wall.time = at(20)
    start = threading.Barrier(4)

    def expire(clock: Clock) -> None:
        start.wait()
        for n in range(1, 6):
            clock._look(f"i_{n}", wall.time)

    threads = [threading.Thread(target=expire, args=(wall.clock(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wall.states() == [OVER] * 5
    assert [len(wall.store.audit_of(f"t_{n}")) for n in range(1, 6)] == [1] * 5
    assert [wall.store.task(f"t_{n}").turn for n in range(1, 6)] == [2] * 5


def test_one_that_cannot_expire_does_not_keep_the_others(
    wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    """An entry without its inquiry is told to the operator, and the rest of the tick is done."""
    wall.waits(1, at(100))
    wall.registers.client.zadd(wall.registers.keys.expiry, {"i_gone": NOW.timestamp()})
    wall.time = at(100)
    with caplog.at_level(logging.ERROR):
        wall.clock().tick()
    assert wall.states() == [OVER]
    assert wall.recovered == ["one"]
    assert "i_gone" in caplog.text


def test_case_a06_what_heals_by_itself_is_tried_again_at_its_time(wall: Wall) -> None:
    """A turn that waits for a tool server starts again when its wait is over, once."""
    failure = {"code": "mcp_server_missing", "message": "Away."}
    stuck = a_task(state="stuck", failure=failure, retry_at=at(15))
    wall.store.create(stuck, messages=[], notes=[])
    wall.store.create(a_task(id="t_2", number=2, state="stuck", failure=failure), messages=[], notes=[])
    wall.registers.client.zadd(wall.registers.keys.retry, {"t_gone": NOW.timestamp()})
    wall.jobs.clear()
    clock = wall.clock()
    for seconds in (14.9, 15, 16):
        wall.time = at(seconds)
        clock.tick()
        wall.jobs.append(f"until {seconds}")
    assert wall.jobs == ["until 14.9", "t_1", "until 15", "until 16"]
    task = wall.store.task("t_1")
    assert (task.state, task.attempt, task.retry_at) == (TaskState.QUEUED, 2, None)
    assert [(str(e.event), e.actor) for e in wall.store.audit_of("t_1")] == [("retried", None)]
    assert wall.recovered == ["one"] * 3


@pytest.mark.parametrize(
    "trouble",
    [TryLater("away"), RedisConnectionError("away"), ValueError("odd")],
    ids=["store", "queue", "any"],
)
def test_trouble_does_not_end_the_clock(
    wall: Wall, trouble: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next tick comes whatever happened in this one."""
    monkeypatch.setattr(clock_module, "TICK", 0.001)
    ticks = itertools.count(1)
    enough = threading.Event()

    def recover() -> list[str]:
        if next(ticks) >= 3:
            enough.set()
        raise trouble

    async def watch() -> None:
        running = asyncio.create_task(wall.clock(recover=recover).run())
        assert await asyncio.to_thread(enough.wait, 5)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(watch())


# --- reminders and escalation ------------------------------------------------------------------


def moments_of(wall: Wall, number: int) -> list[str]:
    """What is on record about a request, in order."""
    return [str(entry.event) for entry in wall.store.audit_of(f"t_{number}")]


def due(wall: Wall, number: int, **changes: Any) -> None:
    """A request with a reminder after 60 s, an escalation after 120 s, and its end after 300 s."""
    wall.waits(number, at(300))
    moments = {"remind_at": at(60), "escalate_at": at(120), "escalate_to": ("lin",), **changes}
    inquiry = wall.store.inquiry(f"i_{number}").having(**moments)
    wall.store.transact(f"t_{number}", lambda _: Changes(inquiries=(inquiry,)))


def test_a_reminder_and_an_escalation_come_once_each(wall: Wall) -> None:
    """At their moments, whoever leads and however often it ticks; then the end, once."""
    due(wall, 1)
    seen = []
    for seconds in (59, 60, 61, 119, 120, 121, 299, 300, 301):
        wall.time = at(seconds)
        wall.clock().tick()
        wall.pass_on()
        seen.append(len(moments_of(wall, 1)))
    assert seen == [0, 1, 1, 1, 2, 2, 2, 3, 3]
    assert moments_of(wall, 1) == ["reminded", "escalated", "expired"]
    assert wall.store.due(at(10**6)) == ()


def test_after_an_outage_there_is_one_of_each_and_more_people_come_first(wall: Wall) -> None:
    """Those who join are called by the escalation, then all are reminded: no storm."""
    due(wall, 1)
    wall.time = at(250)
    for _ in range(3):
        wall.clock("one").tick()
        wall.pass_on()
    assert moments_of(wall, 1) == ["escalated", "reminded"]
    assert wall.store.inquiry("i_1").approvers == ("anyone", "lin")


def test_after_the_end_nobody_is_called_any_more(wall: Wall) -> None:
    """An outage that lasted beyond it leaves the end alone."""
    due(wall, 1)
    wall.time = at(301)
    wall.clock().tick()
    assert moments_of(wall, 1) == ["expired"]


def test_a_decision_before_the_moment_is_the_end_of_it(wall: Wall) -> None:
    """Nothing is sent about what is decided or withdrawn."""
    due(wall, 1)
    due(wall, 2)
    decision = a_decision()
    wall.store.transact(
        "t_1", lambda s: lifecycle.decide(s, "i_1", decision, votes=(), decided=True, now=at(50))
    )
    wall.store.transact("t_2", lambda s: lifecycle.stop(s, MEI, at(50)))
    wall.time = at(200)
    wall.clock().tick()
    assert [moments_of(wall, n)[-1] for n in (1, 2)] == ["decided", "task_ended"]
    assert wall.store.due(at(10**6)) == ()


def test_two_clocks_call_once(redis_url: str) -> None:
    """What makes it once is the transaction, not who leads."""
    wall = Wall(connect(redis_url, patient=False))
    due(wall, 1)
    wall.time = at(250)
    start = threading.Barrier(4)

    def look(clock: Clock) -> None:
        start.wait()
        clock._look("i_1", wall.time)

    threads = [threading.Thread(target=look, args=(wall.clock(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(moments_of(wall, 1)) == ["escalated", "reminded"]


def test_what_else_time_does_is_done_by_the_leader(wall: Wall) -> None:
    """Such as forgetting who is back: once in a tick, by whoever leads."""
    done: list[str] = []
    clocks = [
        Clock(
            wall.store,
            wall.registers,
            recover=list,
            others=functools.partial(done.append, name),
            clock=lambda: NOW,
        )
        for name in ("first", "second")
    ]
    for clock in clocks:
        clock.tick()
    assert done == ["first"]
