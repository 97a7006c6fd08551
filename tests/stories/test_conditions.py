"""Whole threads with conditions, with the real CLI: in words, as data, and edits that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_runner.config import Config
from agent_runner.errors import FixInput
from agent_runner.messages_api import MessagesServer
from agent_runner.messages_request import ToolUse
from agent_runner.model import InquiryState, TaskState
from agent_runner.policy import Policy, Route
from cards import compose, text
from tests.fakes.chat_desk import ChatDesk, FeishuDesk, SlackDesk
from tests.fakes.desk import Desk
from tests.fakes.scripts import bash, in_order

pytestmark = pytest.mark.engine

Make = Callable[..., ChatDesk]

COMMAND = "echo done >> out.txt"


@pytest.fixture(params=[SlackDesk, FeishuDesk], ids=["slack", "feishu"])
def chat(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> Iterator[Make]:
    """Opens a chat around a scripted model."""
    with ExitStack() as stack:

        def make(script: Any, **options: Any) -> ChatDesk:
            made: ChatDesk = request.param(redis_url, script, tmp_path, stack, **options)
            return made

        yield make


def asked(c: ChatDesk) -> Any:
    """Mei asks for a job; it runs up to its first request, whose card is returned."""
    c.mention("write the line")
    c.work()
    return c.card(1)


def test_at_most_two_times(chat: Make) -> None:
    """The same call runs twice on one approval and is asked about the third time; the model is told."""
    c = chat(in_order(bash(COMMAND), bash(COMMAND), bash(COMMAND)))
    first = asked(c)
    c.reply("lin", "2 at most 2 times")
    c.work()
    third = c.card(2)
    assert (c.ran(), c.inquiry(2).open) == (["done", "done"], True)
    assert COMMAND in c.shown(third)
    c.until_shown(first, "at most 2 times")
    notes = "\n".join(note for call in c.model.calls for note in call.hook_notes)
    assert "It may run 2 times in this task" in notes
    assert "this was number 2, no run is left." in notes
    assert c.desk.events(c.task().id).count("grant_used") == 1
    c.reject("kai", third, "twice is enough")
    c.work()
    assert (c.ran(), c.task().state) == (["done", "done"], TaskState.DONE)


def test_words_come_back_revised_after_other_calls(chat: Make) -> None:
    """The agent looks around first; the revised call is still shown with the words and what changed."""
    looks = ToolUse("", "TaskList", {})
    c = chat(in_order(bash(COMMAND), looks, bash("pwd"), looks, bash("echo staged >> out.txt")))
    first = asked(c)
    c.reply("lin", "2 write staged, and only that")
    c.work()
    c.press("lin", c.card(2), "approve")
    c.work()
    revised = c.card(3)
    assert (c.inquiry(3).replaces, c.ran()) == (c.inquiry(1).id, [])
    told = c.shown(revised)
    assert ("This replaces request #1." in told, "write staged, and only that" in told) == (True, True)
    assert ("staged" in told, "done" in told) == (True, True), "the diff shows both"
    c.until_shown(first, "Sent back by lin")
    c.press("kai", revised, "approve")
    c.work()
    assert c.ran() == ["staged"]
    c.until_shown(revised, "Approved by kai")


def test_an_approval_that_came_too_late_runs_nothing(chat: Make) -> None:
    """The time passes before a worker is free: held back, the model is told, and the card says why."""
    c = chat(in_order(bash(COMMAND)))
    card = asked(c)
    until = c.desk.now() + timedelta(minutes=30)
    c.desk.hold = True
    c.reply("lin", f"2 only before {until:%Y-%m-%dT%H:%MZ}, at most 3 times")
    c.until(lambda: c.task().state is TaskState.QUEUED)
    c.desk.later(timedelta(hours=1))
    c.desk.hold = False
    c.work()
    why = f"lin allowed it only before {until:%Y-%m-%d %H:%M} UTC, and that time is over."
    assert (c.ran(), c.inquiry().state, c.inquiry().run.refused) == ([], InquiryState.CHANGED, why)
    assert why in c.model.calls[-1].last_results[-1].text
    c.until_shown(card, why)
    assert [grant.used for grant in c.desk.snap(c.task().id).grants] == [0]


def test_what_the_call_breaks_already_is_told_at_once(chat: Make) -> None:
    """Nobody approves what could never run: the person reads why, and the request stays open."""
    c = chat(in_order(bash(COMMAND)))
    asked(c)
    c.reply("lin", "2 only with --dry-run")
    c.until(lambda: heard(c, "--dry-run is not in this call"))
    assert c.inquiry().open
    c.reply("lin", '2 only with "done"')
    c.work()
    assert c.ran() == ["done"]


def heard(c: ChatDesk, words: str) -> bool:
    """Whether the bot said this, in the thread or to one person alone."""
    private = [one.text for one in c.slack.ephemerals] if isinstance(c, SlackDesk) else []
    return any(words in said for said in (*c.texts(), *private))


def test_an_edit_is_judged_by_the_policy_again(redis_url: str, tmp_path: Path) -> None:
    """Into something forbidden: refused. Into something else that is asked about: shown as changed."""
    policy = Policy(ask=("Bash",), deny=("Bash(sudo *)",), default_route=Route(approvers=("anyone",)))
    with MessagesServer(in_order(bash(COMMAND))) as model:
        desk = Desk(redis_url, model, tmp_path, config=Config(policy=policy))
        inquiry = desk.asked("write the line")
        with pytest.raises(FixInput, match=r"forbidden by the policy \(rule: Bash\(sudo \*\)\)"):
            desk.choose(inquiry, "change", input={"command": "echo x | sudo tee out.txt"})
        assert desk.pending(inquiry.task_id).revision == inquiry.revision
        desk.choose(inquiry, "change", input={"command": "echo edited >> out.txt"})
        assert (desk.workspace / "out.txt").read_text() == "edited\n"
        notes = "\n".join(model.calls[-1].hook_notes)
        card = text.render(
            compose.inquiry_card(desk.snap(inquiry.task_id).inquiries[0], lang="en", zone=UTC, now=desk.now())
        )
    assert "echo edited >> out.txt" in notes
    assert "echo [-done-]{+edited+} >> out.txt" in card
