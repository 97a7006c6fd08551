"""A subagent's gated calls, with the real bundled CLI: people are asked while its process waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agent_runner import lifecycle
from agent_runner.messages_request import Block, Request, Text, ToolUse
from agent_runner.model import Execution, Hold, Inquiry, InquiryState, TaskState, Verdict
from agent_runner.turns import TurnRunner
from bot.commands import Chose
from tests.agent_runner.conftest import NewDesk
from tests.fakes.desk import MEI, Desk
from tests.fakes.scripts import WRITE
from tests.fakes.stack import until

pytestmark = pytest.mark.engine

PATIENT = 4.0
"""Seconds of silence after which the watchdog of one test ends a turn: more than the CLI's own start."""
JOB = {"description": "sub", "prompt": "sub job", "subagent_type": "general-purpose"}


def delegates(request: Request) -> list[Block]:
    """A model that lets a subagent write a line, and says what that reports."""
    if request.last_user_text == "sub job":
        if not request.tool_uses:
            return [ToolUse(request.fresh_id(0), "Bash", WRITE)]
        return [Text(f"the subagent read: {request.last_results[-1].text}")]
    if not request.last_results:  # at the beginning, and when the job is taken up again
        return [ToolUse(request.fresh_id(0), "Agent", JOB)]
    return [Text("The parent heard: " + request.last_results[-1].text)]


def lines(desk: Desk) -> list[str]:
    """What calls wrote into the workspace so far."""
    file = desk.workspace / "out.txt"
    return file.read_text().split() if file.exists() else []


def work_while(desk: Desk, person: Callable[[], None]) -> None:
    """Runs what is queued, while somebody does something; raises what goes wrong with them."""
    with ThreadPoolExecutor(1) as aside:
        done = aside.submit(person)
        desk.work()
        done.result()


def open_one(desk: Desk, task_id: str) -> Inquiry:
    """Waits for the open request."""
    return until(lambda: next((i for i in desk.snap(task_id).inquiries if i.open), None))  # type: ignore[no-any-return]


def decide(desk: Desk, inquiry: Inquiry, verdict: str, **words: Any) -> None:
    """Decides, while the worker waits for it."""
    desk.handler.choose(Chose(actor=MEI, inquiry_id=inquiry.id, verdict=Verdict(verdict), **words))


def test_case_a07_approved_while_it_waits(desk_with: NewDesk) -> None:
    """The call runs at once in the process that waited; its wait is no working time."""
    desk = desk_with(delegates)
    task_id = desk.ask("delegate")

    def person() -> None:
        inquiry = open_one(desk, task_id)
        assert (inquiry.hold, desk.task(task_id).state) == (Hold.LIVE, TaskState.RUNNING)
        assert inquiry.expires_at - inquiry.asked_at == timedelta(minutes=15)
        assert lines(desk) == []
        decide(desk, inquiry, "approve")

    work_while(desk, person)
    task = desk.task(task_id)
    assert (task.state, lines(desk)) == (TaskState.DONE, ["done"])
    assert desk.snap(task_id).inquiries[0].run.state is Execution.FINISHED
    assert task.usage.waiting_ms > 0
    assert task.usage.model_calls == len(desk.model.calls)


def test_case_a07_refused_while_it_waits(desk_with: NewDesk) -> None:
    """The subagent reads the reason word for word, and the parent hears of it."""
    desk = desk_with(delegates)
    task_id = desk.ask("delegate")
    reason = "not from a subagent"
    work_while(desk, lambda: decide(desk, open_one(desk, task_id), "reject", reason=reason))
    assert lines(desk) == []
    assert reason in (desk.task(task_id).result or "")


def test_case_a07_refused_by_time(desk_with: NewDesk) -> None:
    """Nobody answers within the limit: denied as unanswered, handed back, and it can be asked again."""
    desk = desk_with(delegates)
    task_id = desk.ask("delegate")

    def nobody() -> None:
        open_one(desk, task_id)
        desk.later(timedelta(minutes=16))
        desk.tick()

    work_while(desk, nobody)
    task, (inquiry,) = desk.task(task_id), desk.snap(task_id).inquiries
    assert (task.state, lines(desk), inquiry.state) == (TaskState.DONE, [], InquiryState.EXPIRED)
    assert "Nobody answered" in (task.result or "")
    assert "Hand it back" in (task.result or "")
    fresh = desk.ask_again(inquiry)
    assert (fresh.open, fresh.tool_input) == (True, WRITE)


def test_edited_while_it_waits(desk_with: NewDesk) -> None:
    """What was edited runs as edited."""
    desk = desk_with(delegates)
    task_id = desk.ask("delegate")
    edited = {**WRITE, "command": "echo edited >> out.txt"}
    work_while(desk, lambda: decide(desk, open_one(desk, task_id), "change", input=edited))
    assert lines(desk) == ["edited"]


def test_a_stop_ends_the_wait_and_withdraws_the_request(desk_with: NewDesk) -> None:
    """Nothing runs, and the card does not go on asking."""
    desk = desk_with(delegates)
    task_id = desk.ask("delegate")

    def stops() -> None:
        open_one(desk, task_id)
        desk.stop(task_id)

    work_while(desk, stops)
    assert desk.task(task_id).state is TaskState.STOPPED
    assert (desk.snap(task_id).inquiries[0].state, lines(desk)) == (InquiryState.WITHDRAWN, [])


def test_case_a11_a_wait_is_no_inactivity(desk_with: NewDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog counts only time in which the agent works: people may take longer than it may."""
    spec_of = TurnRunner._spec
    monkeypatch.setattr(TurnRunner, "_spec", lambda *of: replace(spec_of(*of), idle_seconds=PATIENT))
    desk = desk_with(delegates)
    task_id = desk.ask("delegate")

    def slow() -> None:
        inquiry = open_one(desk, task_id)
        until(lambda: desk.now() > inquiry.asked_at + timedelta(seconds=1.5 * PATIENT))
        decide(desk, inquiry, "approve")

    work_while(desk, slow)
    assert (desk.task(task_id).state, lines(desk)) == (TaskState.DONE, ["done"])


@pytest.mark.parametrize("early", [False, True], ids=["still open", "approved meanwhile"])
def test_a_redeploy_while_it_waits_loses_nothing(desk_with: NewDesk, early: bool) -> None:
    """The request stays as it is; the next process finds it, or what was decided, when it asks again."""
    desk = desk_with(delegates)
    task_id = desk.ask("delegate")

    def its_worker_goes() -> None:
        open_one(desk, task_id)
        desk.hold = True
        desk.registers.drop_lease(task_id)
        desk.store.transact(task_id, lambda snap: lifecycle.lost(snap, desk.now()))

    work_while(desk, its_worker_goes)
    (inquiry,) = desk.snap(task_id).inquiries
    assert inquiry.open
    if early:
        decide(desk, inquiry, "approve")

    def late() -> None:
        until(lambda: desk.task(task_id).state is TaskState.RUNNING)
        decide(desk, inquiry, "approve")

    desk.hold = False
    work_while(desk, (lambda: None) if early else late)
    assert (desk.task(task_id).state, lines(desk)) == (TaskState.DONE, ["done"])
    assert len(desk.snap(task_id).inquiries) == 1
