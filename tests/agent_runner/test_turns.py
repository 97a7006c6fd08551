"""One turn from claim to commit: claimed once, fenced by its lease, ended by its watchdogs."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_runner import engine, lifecycle
from agent_runner.config import Config
from agent_runner.gate import Gate
from agent_runner.leases import my_lease
from agent_runner.ledger import StoreLedger
from agent_runner.messages_request import Request, Text, ToolUse
from agent_runner.model import Outcome, OutcomeKind, TaskState
from agent_runner.policy import Judgement, Policy, Route
from agent_runner.transcripts import RedisTranscripts
from agent_runner.turns import TurnRunner
from bot.commands import Revoked
from tests.agent_runner.conftest import NewDesk
from tests.fakes.desk import LIN, MEI, Desk
from tests.fakes.scripts import WRITE, bash, in_order
from tests.fakes.values import an_inquiry

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
    return replace(runner(desk)._spec(desk.snap(task_id), ()), **changes)


def run(desk: Desk, spec: Any, *, task_id: str = "", lease: str = "") -> Outcome:
    """Runs a turn through the engine alone, with everything asked."""

    async def seen(_: engine.Seen) -> None:
        return

    async def go_on() -> bool:
        return False

    async def turn() -> Outcome:
        clock = desk.now
        ledger = StoreLedger(
            desk.store,
            task_id,
            lease,
            refusal=lambda _: "",
            covers=lambda *_: False,
            raised=lambda *_: an_inquiry(),
            clock=clock,
        )
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


NOTE = ("#!/bin/sh\n", 'echo "$@" >> out.txt\n')
"""A program of its own with a subcommand: `note add x`."""


@pytest.fixture
def noting(desk_with: NewDesk, tmp_path: Path) -> Callable[..., Desk]:
    """Makes a desk whose agent has the program `note`, and makes these calls one after another."""

    def make(*commands: str, config: Config | None = None) -> Desk:
        program = tmp_path / "bin" / "note"
        program.parent.mkdir()
        program.write_text("".join(NOTE))
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        steps = in_order(*(bash(command) for command in commands))
        return desk_with(steps, config=config, environment={"PATH": path, "HOME": str(tmp_path)})

    return make


def lines(desk: Desk) -> list[str]:
    """What `note` wrote."""
    out = desk.workspace / "out.txt"
    return out.read_text().splitlines() if out.exists() else []


def test_a_rule_approved_for_a_task_runs_what_it_covers_and_nothing_else(
    noting: Callable[..., Desk],
) -> None:
    """What it covers runs, a compound one asks, a deny rule wins; revoked, it asks; given anew, it runs."""
    config = Config(policy=Policy(deny=("Bash(note add --all:*)",)))
    desk = noting(
        *("note add one", "note add two", "note add three; note add four", "note add --all", "note add five"),
        "note add six",
        config=config,
    )
    first = desk.asked("note it")
    assert first.offer == "Bash(note add:*)"
    desk.choose(first, "approve", scope="rule")
    compound = desk.pending(first.task_id)
    assert (compound.tool_input["command"], lines(desk)) == (
        *("note add three; note add four", ["add one", "add two"]),
    )
    assert desk.events(first.task_id).count("grant_used") == 1
    desk.handler.revoke(Revoked(actor=MEI, grant_id=f"g{first.number}"))
    desk.choose(compound, "reject", reason="one at a time")
    last = desk.pending(first.task_id)
    assert (last.tool_input["command"], lines(desk)) == ("note add five", ["add one", "add two"])
    desk.choose(last, "approve", scope="rule")
    assert (desk.task(first.task_id).state, lines(desk)) == (
        *(TaskState.DONE, ["add one", "add two", "add five", "add six"]),
    )
    told = [e for e in desk.events(first.task_id) if e.startswith(("grant_", "call_denied"))]
    assert told == ["grant_given", "grant_used", "grant_revoked", "call_denied", "grant_given", "grant_used"]


def test_a_rule_approved_for_a_workspace_holds_for_others_jobs_as_far_as_the_giver_may_decide(
    noting: Callable[..., Desk],
) -> None:
    """Another person's job in the same workspace runs unasked; when the time is over, it asks."""
    config = Config(policy=Policy(default_route=Route(approvers=("web:lin",))))
    desk = noting("note add one", config=config)
    first = desk.asked("note it")
    desk.choose(first, "approve", by=LIN, scope="until")
    other = desk.ask("note it, too")
    desk.work()
    assert (desk.task(other).state, lines(desk)) == (TaskState.DONE, ["add one", "add one"])
    used = next(e for e in desk.store.audit_of(other) if e.event == "grant_used")
    assert (used.details["rule"], used.details["grant"]) == ("Bash(note add:*)", f"g{first.number}")
    desk.later(timedelta(hours=8))
    assert desk.asked("and again").tool_input == {"command": "note add one"}
