"""One turn from claim to commit: claimed once, fenced by its lease, ended by its watchdogs."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_runner import engine, lifecycle
from agent_runner.gate import Gate
from agent_runner.leases import my_lease
from agent_runner.ledger import StoreLedger
from agent_runner.messages_request import Request, Text, ToolUse
from agent_runner.model import Outcome, OutcomeKind, TaskState
from agent_runner.policy import Judgement
from agent_runner.transcripts import RedisTranscripts
from agent_runner.turns import TurnRunner
from tests.agent_runner.conftest import NewDesk
from tests.fakes.desk import Desk
from tests.fakes.scripts import WRITE, bash, in_order

pytestmark = pytest.mark.engine

WRITES = in_order(ToolUse("", "Bash", WRITE))


def runner(desk: Desk) -> TurnRunner:
    """What one worker process has."""
    return TurnRunner(desk.store, desk.registers, desk.runtime)


def test_a_job_delivered_twice_at_once_and_again_later_works_once(desk_with: NewDesk) -> None:
    """RQ may run a job twice: the claim lets one through, together and one after the other."""
    desk = desk_with(WRITES)
    task_id = desk.ask("write it")
    job = desk.queued.pop()

    async def both() -> None:
        await asyncio.gather(runner(desk).run(*job), runner(desk).run(*job))

    asyncio.run(both())
    asyncio.run(runner(desk).run(*job))
    assert (len(desk.model.calls), desk.events(task_id).count("turn_started")) == (1, 1)
    assert desk.task(task_id).state is TaskState.WAITING


def test_case_e02_a_worker_that_lost_its_lease_writes_nothing(desk_with: NewDesk) -> None:
    """Another worker took over meanwhile: the first one's outcome is dropped, not written over it."""
    reached, go_on = threading.Event(), threading.Event()

    def script(request: Request) -> list[Any]:
        reached.set()
        go_on.wait(30)
        return [Text("the first worker's words")]

    desk = desk_with(script)
    task_id = desk.ask("say something")

    async def overtaken() -> None:
        turn = asyncio.create_task(desk.work_one())
        await asyncio.to_thread(reached.wait, 30)
        desk.registers.drop_lease(task_id)
        assert desk.registers.take_lease(task_id, my_lease())
        go_on.set()
        await turn

    asyncio.run(overtaken())
    assert (desk.task(task_id).state, desk.task(task_id).result) == (TaskState.RUNNING, None)


def test_a_turn_whose_worker_died_is_taken_up_by_another(desk_with: NewDesk) -> None:
    """Claimed and gone before anything ran: the next attempt does the work, and it is on record."""
    desk = desk_with(WRITES)
    task_id = desk.ask("write it")
    job = desk.queued.pop()
    now = desk.now()
    start = lifecycle.start
    desk.store.transact(task_id, lambda s: start(s, turn=job[1], attempt=job[2], worker="gone", now=now))
    _, _ = desk.store.transact(task_id, lambda s: lifecycle.lost(s, now))
    desk.queued = [(task_id, 1, 2)]
    desk.work()
    assert desk.pending(task_id).tool_input == WRITE
    assert "worker_lost" in desk.events(task_id)


def spec_of(desk: Desk, task_id: str, **changes: Any) -> Any:
    """The turn of a task as the runner would start it, with other limits."""
    return replace(runner(desk)._spec(desk.snap(task_id)), **changes)


def run(desk: Desk, spec: Any, *, task_id: str = "", lease: str = "") -> Outcome:
    """Runs a turn through the engine alone, with everything asked."""

    async def seen(_: engine.Seen) -> None:
        return

    async def go_on() -> bool:
        return False

    async def turn() -> Outcome:
        clock = desk.now
        ledger = StoreLedger(desk.store, task_id, lease, refusal=lambda _: "", clock=clock)
        gate = Gate(lambda *_: Judgement(effect="ask", rule="Bash"), ledger)
        async with RedisTranscripts.connect(desk.runtime.redis_url) as transcripts:
            return await engine.run_turn(spec, gate, transcripts, on_seen=seen, should_stop=go_on)

    return asyncio.run(turn())


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"idle_seconds": 1.5}, "gave no sign of life"),
        ({"turn_seconds": 1.5}, "the limit of one turn"),
    ],
)
def test_the_watchdogs_end_a_turn_that_hangs(
    desk_with: NewDesk, limits: dict[str, float], words: str
) -> None:
    """A model that never ends its answer: the turn ends as failed, with words, and leaves no process."""
    release = threading.Event()

    def script(request: Request) -> list[Any]:
        release.wait(60)
        return [Text("too late")]

    desk = desk_with(script)
    task_id = desk.ask("hang")
    outcome = run(desk, spec_of(desk, task_id, **limits), task_id=task_id)
    release.set()
    assert outcome.failure is not None
    assert (outcome.kind, outcome.failure.code) == (OutcomeKind.FAILED, "watchdog")
    assert words in outcome.failure.message
    assert list(desk.runtime.scratch.iterdir()) == []


def test_a_long_command_is_no_hang(desk_with: NewDesk) -> None:
    """A replayed command that is silent for longer than a first sign may take goes on to its end."""
    desk = desk_with(in_order(bash("sleep 7; echo done >> out.txt")))
    inquiry = desk.asked("take long")
    desk.hold = True
    desk.choose(inquiry, "approve")
    spec = spec_of(desk, inquiry.task_id, first_sign_seconds=5.0)
    lease = my_lease()
    assert desk.registers.take_lease(inquiry.task_id, lease)
    turn, now = desk.task(inquiry.task_id).turn, desk.now()
    desk.store.transact(
        inquiry.task_id, lambda s: lifecycle.start(s, turn=turn, attempt=1, worker="me", now=now)
    )
    assert run(desk, spec, task_id=inquiry.task_id, lease=lease.token).kind is OutcomeKind.DONE
    assert (desk.workspace / "out.txt").read_text() == "done\n"


def test_words_of_a_turn_that_never_began_are_not_lost(desk_with: NewDesk, tmp_path: Path) -> None:
    """The first turn's process did not start; going on with other words still tells what was asked for."""
    desk = desk_with(in_order(), cli_path=str(tmp_path / "missing"))
    task_id = desk.ask("restart the pods")
    desk.work()
    assert desk.task(task_id).state is TaskState.FAILED
    desk.runtime = replace(desk.runtime, cli_path=None)
    desk.say(task_id, "only in staging")
    desk.work()
    heard = desk.model.calls[-1].last_user_text
    assert ("restart the pods" in heard, "only in staging" in heard) == (True, True)


def test_a_person_can_stop_a_running_turn(desk_with: NewDesk) -> None:
    """Stop while the model thinks: the process ends and the task says who stopped it."""
    reached, release = threading.Event(), threading.Event()

    def script(request: Request) -> list[Any]:
        reached.set()
        release.wait(30)
        return [Text("too late")]

    desk = desk_with(script)
    task_id = desk.ask("take long")

    async def stopped() -> None:
        turn = asyncio.create_task(desk.work_one())
        await asyncio.to_thread(reached.wait, 30)
        desk.stop(task_id)
        await turn
        release.set()

    asyncio.run(stopped())
    task = desk.task(task_id)
    assert (task.state, task.stop_requested_by and task.stop_requested_by.name) == (TaskState.STOPPED, "mei")
