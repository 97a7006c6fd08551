"""Whole threads on both chat products, with the real CLI: asked, decided by people, done, told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from starlette.testclient import TestClient

from agent_runner.config import Limits
from agent_runner.messages_request import ToolUse
from agent_runner.model import Actor, TaskState
from agent_runner.policy import Route
from bot.web.app import create_app
from bot.web.service import Service
from tests.fakes.chat_desk import ROUTE, ChatDesk, FeishuDesk, SlackDesk
from tests.fakes.scripts import bash, in_order
from tests.fakes.values import QUESTIONS

pytestmark = pytest.mark.engine

Make = Callable[..., ChatDesk]

COMMAND = "echo done >> out.txt"
WRITE = in_order(bash(COMMAND))
ASK = in_order(ToolUse("", "AskUserQuestion", QUESTIONS))
REASON = "use the “canary” *first* & <slowly>; 先备份"
ENDED = "The end."


@pytest.fixture(params=[SlackDesk, FeishuDesk], ids=["slack", "feishu"])
def chat(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> Iterator[Make]:
    """Opens a chat around a scripted model."""
    with ExitStack() as stack:

        def make(script: Any = WRITE, **options: Any) -> ChatDesk:
            made: ChatDesk = request.param(redis_url, script, tmp_path, stack, **options)
            return made

        yield make


def asked(c: ChatDesk, text: str = "write the line") -> Any:
    """Mei asks for a job; it runs up to its first request, whose card is returned."""
    c.mention(text)
    c.work()
    return c.card(1)


def test_a_mention_is_asked_about_approved_and_done(chat: Make) -> None:
    """Mention, card with the whole command, press, resume: the file is there, the result in the thread."""
    c = chat()
    card = asked(c)
    assert (COMMAND in c.shown(card), c.ran()) == (True, [])
    c.press("lin", card, "approve")
    c.work()
    assert c.ran() == ["done"]
    c.until_told(ENDED)
    c.until_shown(card, "Approved by lin")
    assert c.task().state is TaskState.DONE


def test_a_refusal_reaches_the_model_word_for_word(chat: Make) -> None:
    """Reject with a reason: the next request to the model has these words, and the command did not run."""
    c = chat()
    card = asked(c)
    before = len(c.model.calls)
    c.reject("lin", card, REASON)
    c.work()
    assert [REASON in call.last_results[-1].text for call in c.model.calls[before:]] == [True]
    assert c.ran() == []
    c.until_told(ENDED)
    c.until_shown(card, "Rejected by lin")


def test_an_edited_command_runs_as_edited(chat: Make) -> None:
    """Approve with changes: what was edited ran, not what was asked for, and the model was told."""
    c = chat()
    card = asked(c)
    c.edit("lin", card, "echo edited >> out.txt")
    c.work()
    assert c.ran() == ["edited"]
    assert "echo edited >> out.txt" in c.model.calls[-1].text
    c.until_shown(card, "Changed and approved by lin")


def test_a_condition_comes_back_as_a_revised_request(chat: Make) -> None:
    """`2 <words>` runs nothing: the call comes back revised, on a card that shows what it replaces."""
    c = chat(in_order(bash(COMMAND), bash("echo staged >> out.txt")))
    first = asked(c)
    c.reply("lin", "2 only in staging")
    c.work()
    assert "only in staging" in c.model.calls[-1].text
    second = c.card(2)
    assert c.inquiry(2).replaces == c.inquiry(1).id
    told = c.shown(second)
    assert ("This replaces request #1." in told, "only in staging" in told, c.ran()) == (True, True, [])
    c.until_shown(first, "Sent back by lin")
    c.press("kai", second, "approve")
    c.work()
    assert c.ran() == ["staged"]
    c.until_shown(second, "Approved by kai")


def test_case_a09_a_question_is_answered_in_the_form(chat: Make) -> None:
    """The answers are the tool's result, in the same session, and the agent goes on."""
    c = chat(ASK)
    card = asked(c, "set it up")
    session = c.task().session_id
    c.answer("mei", card, 0, (0, 1))
    c.work()
    result = c.model.calls[-1].last_results[-1].text
    assert '"Which database?"="Postgres"' in result
    assert '"Which environments?"="dev, prod"' in result
    assert c.task().session_id == session
    c.until_told(ENDED)
    c.until_shown(card, "Answered by mei")


def test_a_whole_job_by_typing(chat: Make) -> None:
    """Where nothing can be pressed, the request is a numbered list, and a number decides it."""
    c = chat(interactive=False)
    shown = asked(c)
    assert (COMMAND in c.shown(shown), "1 approve" in c.shown(shown), c.buttons(shown)) == (True, True, [])
    c.reply("kai", "1")
    c.work()
    assert c.ran() == ["done"]
    c.until_told(ENDED)
    c.until_told("Approved by kai")


def test_another_bot_goes_on_with_what_the_first_one_asked(chat: Make) -> None:
    """Two bots on one store: one ends, the other takes the press, repaints the card and tells the result."""
    c = chat()
    c.open()
    card = asked(c)
    c.first.close()
    c.press("lin", card, "approve")
    c.work()
    assert c.ran() == ["done"]
    c.until_shown(card, "Approved by lin")
    c.until_told(ENDED)
    assert (len(c.cards(1)), c.desk.events(c.task().id).count("decided")) == (1, 1)


def test_case_b05_one_person_decides_on_the_page_for_the_chat(chat: Make) -> None:
    """Mei may not approve her own job there either; Lin may, and the card in the chat says who did."""
    c = chat()
    card = asked(c)
    path = f"/api/inquiries/{c.inquiry().id}/decision"
    with page_of(c) as page:
        refused = page.post(path, json={"verdict": "approve"}, headers=signed_in(c, "mei"))
        assert (refused.status_code, c.inquiry().open) == (403, True)
        taken = page.post(path, json={"verdict": "approve"}, headers=signed_in(c, "lin"))
        assert (taken.status_code, taken.json()["state"]) == (200, "approved")
    c.work()
    assert c.ran() == ["done"]
    c.until_shown(card, "Approved by lin")
    c.until_told(ENDED)


def test_case_b09_two_people_on_two_platforms_are_a_quorum(chat: Make) -> None:
    """Lin in the chat and on the page is one; Kai, reminded in the thread, is the second: then it runs."""
    remind = timedelta(minutes=5)
    c = chat(route=ROUTE.having(quorum=2, remind=remind))
    card = asked(c)
    path = f"/api/inquiries/{c.inquiry().id}/decision"
    with page_of(c) as page:
        voted = page.post(path, json={"verdict": "approve"}, headers=signed_in(c, "lin"))
        assert (voted.status_code, voted.json()["state"]) == (200, "pending")
        c.until(lambda: "1 of 2 approvals so far" in c.shown(card))
        c.press("lin", card, "approve")
        assert c.inquiry().open
        c.office.offset += remind
        c.office.clock.tick()
        c.until_told("still waits for")
        refused = page.post(path, json={"verdict": "approve"}, headers=signed_in(c, "mei"))
        assert (refused.status_code, c.inquiry().open) == (403, True)
        c.press("kai", card, "approve")
        c.until(lambda: not c.inquiry().open)
        shown = page.get(f"/api/inquiries/{c.inquiry().id}", headers=signed_in(c, "mei")).json()
    assert [vote["by"]["person"] for vote in shown["votes"]] == ["lin", "kai"]
    c.work()
    assert c.ran() == ["done"]
    c.until_shown(card, "Approved by kai")
    events = c.desk.events(c.task().id)
    assert [events.count(e) for e in ("voted", "reminded", "decided", "dispatched")] == [1, 1, 1, 1]


def limited(c: ChatDesk) -> None:
    """From now on a job may make one model call, and those on call decide about more."""
    leads = Route(match=("Limit",), approvers=("group:oncall",))
    rules = c.desk.config.policy
    c.desk.use_config(
        c.desk.config.having(
            limits=Limits(max_model_turns=1), policy=rules.having(routes=(*rules.routes, leads))
        )
    )


def test_case_e10_at_a_limit_the_thread_is_asked_and_the_job_goes_on(chat: Make) -> None:
    """The call that waited is decided first, then the limit, with another amount; then the call runs."""
    c = chat()
    limited(c)
    c.press("lin", asked(c), "approve")
    c.work()
    card = c.card(2)
    assert "used 1 of 1 model calls. Go on with 1 more?" in c.shown(card)
    assert c.ran() == []
    c.edit("kai", card, "3")
    c.work()
    c.until_shown(card, "kai let it go on")
    c.until_told(ENDED)
    assert (c.ran(), c.task().state, c.task().allowance.model_turns) == (["done"], TaskState.DONE, 3)


def test_case_e10_at_a_limit_the_job_ends_and_says_so(chat: Make) -> None:
    """Rejected with a reason: the thread says which limit and who said no, and the call never runs."""
    c = chat()
    limited(c)
    c.press("lin", asked(c), "approve")
    c.work()
    card = c.card(2)
    c.reject("kai", card, "enough for today")
    c.until_shown(card, "Rejected by kai")
    c.until_told("Stopped by kai")
    c.until_told("used up the model calls")
    assert ("enough for today" in c.shown(card), c.ran()) == (True, [])
    assert c.task().state is TaskState.STOPPED


def page_of(c: ChatDesk) -> TestClient:
    """The web page beside the chat, on the same store."""
    service = Service(
        handler=c.desk.handler,
        store=c.desk.store,
        registers=c.desk.registers,
        config=c.desk.config,
        clock=c.desk.now,
        runners=lambda: 1,
        async_redis=lambda: redis.asyncio.Redis.from_url(c.redis_url),
        version="1",
        zone=c.office.parts.zone,
    )
    return TestClient(create_app(service), base_url="http://127.0.0.1")


def signed_in(c: ChatDesk, name: str) -> dict[str, str]:
    """The headers of somebody on the page."""
    token = f"{name}-token"
    c.desk.registers.keep_token(token, Actor(platform="web", user_id=name, name=name))
    return {"Authorization": f"Bearer {token}"}
