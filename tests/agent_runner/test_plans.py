"""Plans with the real bundled CLI: shown whole, changed, approved, and how it goes on afterwards."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from agent_runner.messages_request import Block, Request, Text, ToolUse
from agent_runner.model import Inquiry, InquiryState, Kind, Scope, TaskState, Verdict
from cards import posts, text
from tests.agent_runner.conftest import NewDesk
from tests.fakes.desk import Desk
from tests.fakes.scripts import bash

pytestmark = pytest.mark.engine

FIRST = "1. restart checkout\n2. watch it"
SECOND = "1. restart the canary\n2. watch it"


def plans(*after: Block) -> Any:
    """A model that shows a plan until one is approved (each time the next one), then takes these steps."""

    def script(request: Request) -> list[Block]:
        at = sum(message["role"] == "assistant" for message in request.messages)
        sent_back = sum(r.is_error for r in request.tool_results.values())
        approved = any(not r.is_error for r in request.tool_results.values())
        if not approved:
            return [ToolUse(f"plan{at}", "ExitPlanMode", {"plan": (FIRST, SECOND)[min(sent_back, 1)]})]
        step = at - sent_back - 1
        return [after[step]] if step < len(after) else [Text("The end.")]

    return script


def file(name: str, content: str = "hello") -> ToolUse:
    """A file to write in the workspace, or where `name` says."""
    return ToolUse(f"write-{name}", "Write", {"file_path": name, "content": content})


def card(desk: Desk, inquiry: Inquiry) -> str:
    """What the thread shows about a request, as text."""
    snap = desk.snap(inquiry.task_id)
    shown = posts.posts(snap.task, snap.inquiries, progress=None, lang="en", zone=UTC, now=desk.now())
    return next(text.render(post.card) for post in shown if post.key == f"request:{inquiry.number}")


def test_case_a13_a_plan_is_changed_then_approved(desk_with: NewDesk) -> None:
    """The words go back, the new plan comes with a diff and a link, and nothing runs before the yes."""
    desk = desk_with(plans(bash("echo done >> out.txt", "call")))
    first = desk.asked("plan: restart checkout")
    assert (first.kind, first.tool_input) == (Kind.PLAN, {"plan": FIRST})
    assert desk.task(first.task_id).text == "restart checkout"
    desk.choose(first, "change", conditions="the canary first")
    second = desk.pending(first.task_id)
    assert (second.tool_input, second.replaces) == ({"plan": SECOND}, first.id)
    shown = card(desk, second)
    assert f"Request #{first.number} was answered with" in shown
    assert "    the canary first" in shown
    assert "    - 1. restart checkout\n    + 1. restart the canary" in shown
    desk.choose(second, "approve")
    call = desk.pending(first.task_id)
    assert (call.tool_name, desk.task(first.task_id).options.plan) == ("Bash", False)
    assert not (desk.workspace / "out.txt").exists()


def test_approved_with_edits_files_are_written_without_asking(desk_with: NewDesk) -> None:
    """Only files inside the workspace that steer nothing else; everything else is asked about."""
    desk = desk_with(plans(file("notes.md"), file(".envrc"), bash("echo done >> out.txt", "call")))
    plan = desk.asked("plan: write notes")
    desk.choose(plan, "approve", scope=Scope.RULE)
    assert (desk.workspace / "notes.md").read_text() == "hello"
    hidden = desk.pending(plan.task_id)
    assert hidden.tool_input["file_path"].endswith(".envrc")
    desk.choose(hidden, "reject", reason="no")
    assert desk.pending(plan.task_id).tool_name == "Bash"
    (grant,) = desk.handler.grants()
    assert (grant.rule, grant.id) == ("Edit(./**)", f"g{plan.number}")
    assert "files in ops are edited without asking" in card(desk, plan)


def test_a_plan_that_is_only_approved_gives_no_more(desk_with: NewDesk) -> None:
    """Each step is asked about as the policy says."""
    desk = desk_with(plans(file("notes.md")))
    plan = desk.asked("plan: write notes")
    desk.choose(plan, "approve")
    assert desk.pending(plan.task_id).tool_name == "Write"
    assert desk.handler.grants() == ()


@pytest.mark.parametrize(
    ("said", "verdict", "scope"),
    [("1", Verdict.APPROVE, Scope.ONCE), ("4", Verdict.APPROVE, Scope.RULE)],
)
def test_a_plan_is_decided_by_numbers(desk_with: NewDesk, said: str, verdict: Verdict, scope: Scope) -> None:
    """What the card says can be typed."""
    desk = desk_with(plans())
    plan = desk.asked("write it", plan=True)
    assert "4 approve, and edit files in ops without asking" in card(desk, plan)
    desk.say(plan.task_id, said)
    decision = desk.snap(plan.task_id).inquiries[0].decision
    assert decision is not None
    assert (decision.verdict, decision.scope) == (verdict, scope)


def test_a_rejected_plan_keeps_plan_mode_and_the_words(desk_with: NewDesk) -> None:
    """Nothing runs; the reason arrives."""
    desk = desk_with(plans())
    plan = desk.asked("write it", plan=True)
    desk.choose(plan, "reject", reason="too bold")
    task = desk.task(plan.task_id)
    assert (desk.snap(task.id).inquiries[0].state, task.options.plan) == (InquiryState.REJECTED, True)
    assert task.state is TaskState.WAITING
    assert "too bold" in desk.model.calls[-1].tool_results["plan0"].text
