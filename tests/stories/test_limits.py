"""A job that reaches a limit waits for people, with the real CLI: more is allowed, or it ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from agent_runner.config import Config, Limits, Workspace
from agent_runner.errors import NotAllowed
from agent_runner.limits import day_of
from agent_runner.messages_request import Answer, Request, Script
from agent_runner.model import InquiryState, Kind, TaskState
from agent_runner.policy import Policy, Route
from agent_runner.store import Changes, Snapshot
from tests.agent_runner.conftest import NewDesk
from tests.agent_runner.conftest import desk_with as desk_with
from tests.fakes.desk import LIN, MEI, Desk
from tests.fakes.scripts import bash, in_order

pytestmark = pytest.mark.engine

FREE = Policy(allow=("Bash(echo:*)", "Bash(ls:*)"))
LOOKS = tuple(bash(f"ls -d /{'.' * n}") for n in range(1, 6))
"""Five calls that nobody is asked about."""
DEAR = 0.6
"""Dollars that one answer of `dear` costs."""


def dear(script: Script) -> Script:
    """The same model, at 60 cents an answer."""

    def answered(request: Request) -> Any:
        blocks: Any = script(request)
        return Answer(blocks) if request.auxiliary else Answer(blocks, 100_000, 10_000)

    return answered


def config(**limits: Any) -> Config:
    """Looking is free, everything else is asked, within these limits."""
    return Config(policy=FREE, limits=Limits(**limits))


def looks(desk: Desk) -> int:
    """How many calls the model saw the results of."""
    return len(desk.model.calls[-1].tool_results)


def kinds(desk: Desk, task_id: str) -> Sequence[tuple[Kind, InquiryState]]:
    """What was asked about, and what became of it."""
    return [(i.kind, i.state) for i in desk.snap(task_id).inquiries]


def test_case_e10_more_model_calls_are_allowed_and_the_job_goes_on_to_its_end(desk_with: NewDesk) -> None:
    """At the limit it waits; approved as asked and then with another amount, it ends as done."""
    desk = desk_with(in_order(*LOOKS), config=config(max_model_turns=2))
    first = desk.asked("look five times")
    assert (first.kind, first.rule) == (Kind.LIMIT, "limits.max_model_turns")
    assert first.tool_input == {"limit": "model_turns", "used": 2, "of": 2, "more": 2}
    assert (desk.task(first.task_id).state, looks(desk)) == (TaskState.WAITING, 1)
    desk.choose(first, "approve", by=MEI)
    assert "mei lets it go on." in desk.model.calls[2].text
    second = desk.pending(first.task_id)
    assert second.tool_input == {"limit": "model_turns", "used": 4, "of": 4, "more": 2}
    assert desk.say(first.task_id, "2 5") == "reply.decided"
    desk.work()
    task = desk.task(first.task_id)
    assert (task.state, task.usage.model_calls, looks(desk)) == (TaskState.DONE, 6, 5)
    assert task.allowance.model_turns == 7
    told = [e for e in desk.events(task.id) if e in ("inquiry_asked", "decided", "alarm", "dispatched")]
    assert told == ["inquiry_asked", "decided", "inquiry_asked", "decided"]


def test_rejected_it_ends_says_so_and_runs_nothing(desk_with: NewDesk) -> None:
    """The task is stopped by the one who said no; words in the thread ask about the limit again."""
    desk = desk_with(in_order(*LOOKS), config=config(max_model_turns=2))
    asked = desk.asked("look five times")
    calls = len(desk.model.calls)
    desk.choose(asked, "reject", reason="enough for today")
    task = desk.task(asked.task_id)
    assert (task.state, task.stop_requested_by and task.stop_requested_by.name) == (TaskState.STOPPED, "mei")
    assert task.failure is not None
    assert task.failure.code == "limit_model_turns"
    assert "limits.max_model_turns: 2 of 2" in task.failure.message
    assert "mei did not allow more" in task.failure.message
    assert desk.say(task.id, "please go on anyway") == "reply.started"
    desk.work()
    again = desk.pending(task.id)
    assert (again.kind, len(desk.model.calls)) == (Kind.LIMIT, calls)
    desk.choose(again, "approve")
    assert "please go on anyway" in desk.model.calls[calls].text


def test_dollars_are_stopped_between_two_steps_and_counted_for_the_day(desk_with: NewDesk) -> None:
    """A run that passes its dollars ends after that step with its result; the new total holds again."""
    desk = desk_with(dear(in_order(*LOOKS)), config=config(max_task_usd=1.0))
    first = desk.asked("look five times")
    assert first.tool_input == {"limit": "usd", "used": 1.2, "of": 1, "more": 1}
    desk.choose(first, "approve")
    second = desk.pending(first.task_id)
    assert second.tool_input == {"limit": "usd", "used": 2.4, "of": 2.2, "more": 1}
    desk.choose(second, "change", input={"more": 10})
    task = desk.task(first.task_id)
    assert (task.state, round(task.usage.cost_usd, 4), looks(desk)) == (TaskState.DONE, 3.6, 5)
    assert round(desk.registers.spent("ops", day_of(desk.now())), 4) == 3.6


def test_a_call_that_waits_goes_first_and_is_not_lost(desk_with: NewDesk) -> None:
    """Over the limit in the very answer that asks a person: decided, then the limit, then it runs once."""
    desk = desk_with(
        dear(in_order([LOOKS[0], bash("touch a && echo done >> out.txt")], LOOKS[1])),
        config=config(max_task_usd=0.5),
    )
    call = desk.asked("look and write")
    assert call.kind is Kind.APPROVAL
    desk.choose(call, "approve")
    limit = desk.pending(call.task_id)
    assert (limit.kind, (desk.workspace / "out.txt").exists()) == (Kind.LIMIT, False)
    desk.choose(limit, "change", conditions="$5")
    assert desk.task(call.task_id).state is TaskState.DONE
    assert (desk.workspace / "out.txt").read_text() == "done\n"
    assert desk.events(call.task_id).count("dispatched") == 1
    results = desk.model.calls[-1].tool_results
    assert [r.is_error for r in results.values()] == [False, False, False]


def test_refused_and_failing_calls_are_no_way_around_a_limit(desk_with: NewDesk) -> None:
    """A model that is only refused, or whose calls only fail, is stopped as well."""
    steps = in_order(bash("sudo ls"), bash("ls /missing"), *LOOKS)
    rules = FREE.having(deny=("Bash(sudo *)",))
    for usd, used in ((0.5, 0.6), (1.0, 1.2)):
        desk = desk_with(dear(steps), config=Config(policy=rules, limits=Limits(max_task_usd=usd)))
        assert desk.asked("try").tool_input["used"] == used


def test_working_minutes_do_not_count_waiting(desk_with: NewDesk) -> None:
    """Hours of waiting use nothing up; a long step does, and then people are asked."""
    desk = desk_with(in_order(bash("touch a"), LOOKS[0]), config=config(max_task_minutes=1))
    call = desk.asked("write, then look")
    desk.later(timedelta(hours=3))
    desk.store.transact(call.task_id, lambda snap: replace_usage(snap, active_ms=59_900))
    desk.choose(call, "approve")
    limit = desk.pending(call.task_id)
    assert (limit.tool_input["limit"], limit.tool_input["of"], limit.tool_input["more"]) == ("minutes", 1, 1)
    assert 1 <= limit.tool_input["used"] < 1.5
    desk.choose(limit, "approve")
    assert desk.task(call.task_id).state is TaskState.DONE


def replace_usage(snap: Snapshot, **usage: Any) -> Changes:
    """A change that says the task had used so much."""
    return Changes(task=snap.task.having(usage=snap.task.usage.having(**usage)))


def test_the_workspaces_day_is_shared_and_leads_decide(desk_with: NewDesk) -> None:
    """Another job of the same day finds the dollars used up before it begins; tomorrow it finds new ones."""
    rules = FREE.having(routes=(Route(match=("Limit",), approvers=("web:lin",)),))
    desk = desk_with(dear(in_order()), config=Config(policy=rules))
    ops = Workspace(path=str(desk.workspace), max_usd_per_day=0.5)
    desk.use_config(desk.config.having(workspaces={"ops": ops}))
    first = desk.ask("say something")
    desk.work()
    assert desk.task(first).state is TaskState.DONE
    calls = len(desk.model.calls)
    limit = desk.asked("say more")
    day = day_of(desk.now())
    assert limit.tool_input == {"limit": "day_usd", "used": 0.6, "of": 0.5, "more": 0.5, "day": day}
    assert (limit.rule, len(desk.model.calls)) == ("workspaces.ops.max_usd_per_day", calls)
    with pytest.raises(NotAllowed):
        desk.choose(limit, "approve", by=MEI)
    desk.choose(limit, "approve", by=LIN)
    task = desk.task(limit.task_id)
    assert (task.state, task.usage.turns) == (TaskState.DONE, 1)
    assert desk.model.calls[-1].last_user_text == "say more"
    desk.later(timedelta(days=1))
    third = desk.ask("and tomorrow")
    desk.work()
    assert desk.task(third).state is TaskState.DONE


def test_an_expired_limit_ends_the_job_and_can_be_asked_again(desk_with: NewDesk) -> None:
    """Nobody answers: it ends without a failure; asked again and approved, the words are not lost."""
    desk = desk_with(in_order(*LOOKS[:2]), config=config(max_model_turns=2))
    limit = desk.asked("look twice")
    desk.later(timedelta(hours=9))
    desk.tick()
    task = desk.task(limit.task_id)
    assert (task.state, task.stop_requested_by) == (TaskState.STOPPED, None)
    assert kinds(desk, task.id) == [(Kind.LIMIT, InquiryState.EXPIRED)]
    desk.choose(desk.ask_again(limit), "approve")
    assert (desk.task(task.id).state, looks(desk)) == (TaskState.DONE, 2)
