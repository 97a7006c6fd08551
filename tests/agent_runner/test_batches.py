"""Several gated calls of one model turn, with the real bundled CLI: each effect exactly as decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from agent_runner.messages_request import Block, Request, Text, ToolUse
from agent_runner.model import Execution, Inquiry, InquiryState, TaskState
from tests.agent_runner.conftest import NewDesk
from tests.fakes.desk import Desk
from tests.fakes.scripts import bash

pytestmark = pytest.mark.engine

NAMES = ("one", "two", "three")
RAN = (InquiryState.APPROVED, Execution.FINISHED)
REFUSED = (InquiryState.REJECTED, Execution.NONE)


def turn_of(request: Request) -> int:
    """How often the model has answered in this conversation."""
    return sum(message["role"] == "assistant" for message in request.messages)


def write(name: str, call_id: str) -> ToolUse:
    """A call whose effect can be counted."""
    return bash(f"echo {name} >> out.txt", call_id)


def again(*made_again: Sequence[str]) -> Any:
    """A model that makes three calls in one turn, then these ones again, turn by turn, and ends."""

    def script(request: Request) -> list[Block]:
        at, turns = turn_of(request), (NAMES, *made_again)
        names = turns[at] if at < len(turns) else ()
        return [write(name, f"{name}-{at}") for name in names] or [Text("The end.")]

    return script


def lines(desk: Desk) -> list[str]:
    """What calls wrote into the workspace so far."""
    file = desk.workspace / "out.txt"
    return file.read_text().split() if file.exists() else []


def name_of(inquiry: Inquiry) -> str:
    """What its call would write."""
    return str(inquiry.tool_input["command"].split()[1])


def start(desk: Desk) -> tuple[str, dict[str, Inquiry]]:
    """Asks for the job and works up to the card: the task, and its open requests by what they write."""
    task_id = desk.ask("write all three")
    desk.work()
    return task_id, {name_of(i): i for i in desk.snap(task_id).inquiries if i.open}


def states(desk: Desk, task_id: str) -> Mapping[str, tuple[InquiryState, Execution]]:
    """How each request of the task ended."""
    return {name_of(i): (i.state, i.run.state) for i in desk.snap(task_id).inquiries}


def test_case_a01_three_calls_stand_on_one_card_and_nothing_runs_unasked(desk_with: NewDesk) -> None:
    """All three are asked about together, in their order, and the task waits for every decision."""
    desk = desk_with(again())
    task_id, card = start(desk)
    assert list(card) == list(NAMES)
    assert len({i.batch for i in card.values()}) == 1
    assert [i.number for i in card.values()] == sorted(i.number for i in card.values())
    for name in ("two", "three"):
        desk.choose(card[name], "approve")
        assert (desk.task(task_id).state, lines(desk)) == (TaskState.WAITING, [])


def test_mixed_decisions_each_effect_exactly_as_decided(desk_with: NewDesk) -> None:
    """One approved, one rejected, one edited: what ran is what people said, each once."""
    desk = desk_with(again(("two", "three")))
    task_id, card = start(desk)
    desk.choose(card["three"], "change", input={"command": "echo drei >> out.txt"})
    desk.choose(card["two"], "reject", reason="not the second one")
    desk.choose(card["one"], "approve")
    assert lines(desk) == ["one", "drei"]
    assert desk.task(task_id).state is TaskState.DONE
    changed = (InquiryState.CHANGED, Execution.FINISHED)
    assert states(desk, task_id) == {"one": RAN, "two": REFUSED, "three": changed}
    told = "\n".join(desk.model.calls[-2].hook_notes)
    assert "Approved by mei with changes" in told
    assert "not the second one" in told
    refused = desk.model.calls[-1].tool_results["two-1"]
    assert (refused.is_error, "not the second one" in refused.text) == (True, True)
    assert desk.events(task_id).count("inquiry_asked") == 3
    assert desk.events(task_id).count("refusal_told") == 1


def test_the_first_one_rejected_and_the_others_approved(desk_with: NewDesk) -> None:
    """The refusal of the call that waited carries what was decided about the others."""
    desk = desk_with(again(("three", "two")))
    task_id, card = start(desk)
    desk.choose(card["one"], "reject", reason="no")
    desk.choose(card["two"], "approve")
    desk.choose(card["three"], "approve")
    assert sorted(lines(desk)) == ["three", "two"]
    assert states(desk, task_id) == {"one": REFUSED, "two": RAN, "three": RAN}


def test_an_approved_call_that_is_never_made_again_is_on_record_as_not_run(desk_with: NewDesk) -> None:
    """Approved, not run: said so at the end of the task, and good for nothing after it."""
    desk = desk_with(again((), ("two",)))
    task_id, card = start(desk)
    for inquiry in card.values():
        desk.choose(inquiry, "approve")
    assert lines(desk) == ["one"]
    left = [i for i in desk.snap(task_id).inquiries if i.run.state is Execution.NONE]
    assert [(i.tool_use_id, i.settled) for i in left] == [("two-0", True), ("three-0", True)]
    assert desk.events(task_id).count("not_run") == 2
    desk.say(task_id, "and now the second one")
    desk.work()
    assert (lines(desk), name_of(desk.pending(task_id))) == (["one"], "two")


def test_a_call_that_differs_in_anything_is_asked_about(desk_with: NewDesk) -> None:
    """An approval is for exactly the call that was shown."""

    def script(request: Request) -> list[Block]:
        turns = [[write("one", "a"), write("two", "b")], [bash("echo two  >> out.txt", "other")]]
        at = turn_of(request)
        return list(turns[at]) if at < 2 else [Text("The end.")]

    desk = desk_with(script)
    task_id, card = start(desk)
    for inquiry in card.values():
        desk.choose(inquiry, "approve")
    assert (lines(desk), desk.task(task_id).state) == (["one"], TaskState.WAITING)
    assert desk.pending(task_id).tool_input["command"] == "echo two  >> out.txt"


def test_an_approved_call_runs_once_however_often_it_is_made(desk_with: NewDesk) -> None:
    """The second time it is a new request."""
    desk = desk_with(again(("two",), ("two",)))
    task_id, card = start(desk)
    for inquiry in card.values():
        desk.choose(inquiry, "approve")
    assert lines(desk) == ["one", "two"]
    assert name_of(desk.pending(task_id)) == "two"


def test_what_was_refused_three_times_is_not_asked_again(desk_with: NewDesk) -> None:
    """The model that insists is told to stop, and nobody is bothered a fourth time."""

    def script(request: Request) -> list[Block]:
        at = turn_of(request)
        return [write("one", f"one-{at}")] if at < 4 else [Text("I stop.")]

    desk = desk_with(script)
    task_id = desk.ask("write it")
    desk.work()
    for _ in range(3):
        desk.choose(desk.pending(task_id), "reject", reason="no")
    assert (desk.task(task_id).state, lines(desk)) == (TaskState.DONE, [])
    assert len(desk.snap(task_id).inquiries) == 3
    assert "three times" in desk.model.calls[-1].tool_results["one-3"].text
    assert desk.events(task_id).count("call_denied") == 1


def test_expired_siblings_are_told_as_unanswered(desk_with: NewDesk) -> None:
    """Nobody answered about one of them: it does not run, and that is no refusal."""
    desk = desk_with(again(("two", "three")))
    task_id, card = start(desk)
    desk.choose(card["one"], "approve")
    desk.choose(card["three"], "approve")
    desk.later(timedelta(hours=9))
    desk.tick()
    desk.work()
    assert sorted(lines(desk)) == ["one", "three"]
    assert states(desk, task_id)["two"] == (InquiryState.EXPIRED, Execution.NONE)
    assert "Nobody answered" in desk.model.calls[-1].tool_results["two-1"].text
