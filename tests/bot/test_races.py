"""People, the clock and a stop in one moment: one of them wins, and the others are told so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redis import Redis

from agent_runner import lifecycle
from agent_runner.aggregate import Changes
from agent_runner.audit import first_bad
from agent_runner.config import Config, Workspace
from agent_runner.errors import CountersignError, FixInput
from agent_runner.model import InquiryState, TaskState, Verdict
from agent_runner.policy import Policy, Route
from agent_runner.store import Store, connect
from bot.commands import Chose, ChoseAll, Stopped
from bot.handle import Handler
from tests.fakes.values import KAI, LIN, MEI, NOW, QUESTIONS, a_question, a_task, an_inquiry, at

CONFIG = Config(
    workspaces={"ops": Workspace(path="/srv/ops")},
    policy=Policy(ask=("Bash",), default_route=Route(approvers=("anyone",))),
)
EXPIRES = at(60)
CLOSING = ("decided", "expired", "withdrawn")
"""Events of which each request gets exactly one."""


class Room:
    """A task that waits for the steps of one turn, and everybody who may do something about it."""

    def __init__(self, client: Redis, steps: int = 1) -> None:
        self.jobs: list[int] = []
        self.store = Store(client, enqueue=lambda _pipe, task: self.jobs.append(task.turn))
        self.handler = Handler(self.store, CONFIG, clock=lambda: at(59), new_id=str)
        task = a_task(state="waiting", batch="t_1-1-1", waiting_since=NOW)
        self.store.create(task, messages=[], notes=[])
        asked = tuple(
            an_inquiry(
                id=f"i_{n}",
                number=11 + n,
                tool_use_id=f"toolu_{n}",
                batch="t_1-1-1",
                hold="sibling" if n > 1 else "deferred",
                approvers=("anyone",),
                expires_at=EXPIRES,
            )
            for n in range(1, steps + 1)
        )
        self.store.transact("t_1", lambda _: Changes(inquiries=asked))
        self.jobs.clear()

    def decide(self, verdict: str, by: Any = MEI, of: str = "i_1", **words: Any) -> None:
        """A click."""
        chose = Chose(actor=by, inquiry_id=of, verdict=Verdict(verdict), **words)
        self.handler.choose(chose)

    def approve_all(self) -> None:
        """The button for all steps."""
        seen = {i.number: i.revision for i in self.store.snapshot("t_1").inquiries}
        self.handler.choose_all(ChoseAll(actor=KAI, inquiry_id="i_1", verdict=Verdict.APPROVE, seen=seen))

    def expire(self, of: str = "i_1") -> None:
        """The clock, a moment ahead of everybody else's."""
        self.store.transact("t_1", lambda snap: lifecycle.expire(snap, of, EXPIRES))

    def stop(self) -> None:
        """The stop button."""
        self.handler.stop(Stopped(actor=LIN, task_id="t_1"))

    def at_once(self, *doings: Callable[[], None]) -> None:
        """All of these in one moment; being too late is told by an error of ours and by nothing else."""
        start = threading.Barrier(len(doings))

        def one(doing: Callable[[], None]) -> None:
            start.wait(10)
            try:
                doing()
            except CountersignError:
                return

        with ThreadPoolExecutor(len(doings)) as pool:
            for done in [pool.submit(one, doing) for doing in doings]:
                done.result()


RACES: dict[str, Callable[[Room], list[Callable[[], None]]]] = {
    "approved while it expires": lambda r: [lambda: r.decide("approve"), r.expire],
    "stopped while it is decided": lambda r: [lambda: r.decide("approve"), r.stop],
    "two approvers who disagree": lambda r: [
        lambda: r.decide("approve", MEI),
        lambda: r.decide("reject", LIN, reason="no"),
    ],
    "everything": lambda r: [
        lambda: r.decide("approve", MEI),
        lambda: r.decide("approve", MEI),
        lambda: r.decide("reject", LIN, reason="no"),
        lambda: r.decide("change", KAI, conditions="less"),
        r.approve_all,
        r.expire,
        r.expire,
        r.stop,
    ],
}


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("race", RACES)
def test_one_wins_and_the_record_says_so(redis_url: str, race: str, steps: int) -> None:
    """Each request ends once, the task goes on once or ends, and the chain holds."""
    client = connect(redis_url, patient=False)
    for _ in range(8):
        client.flushdb()
        room = Room(client, steps)
        room.at_once(*RACES[race](room))
        snap, entries = room.store.snapshot("t_1"), room.store.audit_of("t_1")
        assert first_bad(entries) is None
        for inquiry in snap.inquiries:
            closed = [str(e.event) for e in entries if e.inquiry_id == inquiry.id and e.event in CLOSING]
            assert len(closed) == (0 if inquiry.open else 1)
            assert (inquiry.decision is not None) == (closed == ["decided"])
        assert not snap.inquiry("i_1").open
        waits = any(inquiry.open for inquiry in snap.inquiries)
        if snap.task.state is TaskState.STOPPED:
            assert not waits
        else:
            assert snap.task.state is (TaskState.WAITING if waits else TaskState.QUEUED)
            assert snap.task.turn == (1 if waits else 2)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"Which database?": "Postgres"}, "Not answered yet: Which environments?"),
        ({"Which database?": " ", "Which environments?": "dev"}, "Not answered yet: Which database?"),
        (
            {"Which database?": "Postgres", "Which environments?": "dev", "Who?": "me"},
            "Not asked: Who?",
        ),
        ({}, "Not answered yet: Which database?; Which environments?"),
    ],
)
def test_an_answer_that_does_not_fit_is_not_recorded(
    fake_redis: Redis, answers: dict[str, str], told: str
) -> None:
    """A missing question, an empty answer, one that nobody asked: told which, and nothing is decided."""
    room = Room(fake_redis)
    question = a_question(id="i_9", number=29, batch="t_1-1-1", approvers=("anyone",), expires_at=EXPIRES)
    room.store.transact("t_1", lambda _: Changes(inquiries=(question,)))
    with pytest.raises(FixInput) as caught:
        room.decide("answer", of="i_9", answers=answers)
    assert caught.value.message == told
    assert room.store.inquiry("i_9").open


def test_own_words_of_ten_thousand_characters_are_kept_whole(fake_redis: Redis) -> None:
    """What somebody writes instead of choosing is theirs, however long."""
    room = Room(fake_redis)
    question = a_question(id="i_9", number=29, batch="t_1-1-1", approvers=("anyone",), expires_at=EXPIRES)
    room.store.transact("t_1", lambda _: Changes(inquiries=(question,)))
    first, second = (asked["question"] for asked in QUESTIONS["questions"])
    words = "旧的那个\n" * 2_000
    room.decide("answer", of="i_9", answers={str(first): words, str(second): "dev"})
    answered = room.store.inquiry("i_9")
    assert answered.state is InquiryState.ANSWERED
    assert answered.decision is not None
    assert answered.decision.answers == {first: words, second: "dev"}
