"""Whole threads on Slack: asked, shown, decided, told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from agent_runner.model import InquiryState, Task, TaskState
from tests.bot.slack.conftest import Scene, text_of
from tests.fakes.values import a_question, an_inquiry

Make = Callable[..., Scene]


def test_a_mention_starts_a_job_and_a_click_decides(scene: Make) -> None:
    """Status, card with the whole command and a mention of those waited for, click, repaint, result."""
    s = scene()
    thread = s.asked()
    task = s.office.task()
    assert (task.text, task.asked_by.user_id) == ("restart the checkout pods", s.mei)
    assert (task.place.chat, task.place.thread) == (s.ops, thread)
    s.office.asks(task.id, an_inquiry(approvers=("group:oncall",), requester_may_decide=False))
    card = s.card(thread, "request:1")
    assert "kubectl rollout restart deploy/checkout" in text_of(card)
    assert card.pings == {s.lin, s.kai}
    assert list(card.buttons) == ["approve", "change", "reject"]
    click = s.slack.click(s.lin, card, "approve")
    s.until(lambda: not s.slack.message(s.ops, card.ts).buttons)
    assert click.acked
    assert "Approved by lin" in text_of(s.slack.message(s.ops, card.ts))
    assert s.whispers(s.lin) == []
    s.office.ends(task.id)
    result = s.card(thread, "result:2")
    assert "All done." in text_of(result)
    assert result.pings == frozenset()
    assert s.office.store.task(task.id).state is TaskState.DONE


def test_a_reason_is_asked_for_in_a_form_and_kept_word_for_word(scene: Make) -> None:
    """Reject opens a form inside the trigger's 3 s; an empty reason stays in the form with an error."""
    s = scene()
    card, _ = _pending(s)
    s.slack.click(s.lin, card, "reject")
    view = s.until(lambda: _form(s, s.lin))
    assert _submit(s, s.lin, view, {"reason": "  "}).response_action == "errors"
    done = _submit(s, s.lin, view, {"reason": "use the canary *first* & <slowly>"})
    assert done.acked
    assert done.answer is None
    inquiry = s.office.store.inquiry("i_1")
    assert inquiry.state is InquiryState.REJECTED
    assert inquiry.decision is not None
    assert inquiry.decision.reason == "use the canary *first* & <slowly>"
    s.until(lambda: "use the canary *first* & <slowly>" in text_of(s.slack.message(s.ops, card.ts)))


def test_a_change_edits_the_input(scene: Make) -> None:
    """The form holds every field; what is edited runs as edited."""
    s = scene()
    card, _ = _pending(s)
    s.slack.click(s.lin, card, "change")
    view = s.until(lambda: _form(s, s.lin))
    edited = "kubectl rollout restart deploy/checkout --dry-run=server"
    assert _submit(s, s.lin, view, {"field.0": edited}).errors == {}
    inquiry = s.office.store.inquiry("i_1")
    assert inquiry.state is InquiryState.CHANGED
    assert inquiry.effective_input == {"command": edited}


def test_questions_are_answered_with_one_button(scene: Make) -> None:
    """Ticks fire nothing (D06); Submit sends all; what is missing is named to that person alone."""
    s = scene()
    card, _ = _pending(s, a_question())
    assert s.slack.fill(s.mei, card, _block(card, "answer.1"), "0", "1") is None
    s.slack.click(s.mei, card, "answer")
    s.until(lambda: s.whispers(s.mei))
    assert s.whispers(s.mei) == ["Still without an answer: Which database?"]
    s.slack.fill(s.mei, card, _block(card, "answer.0"), "0")
    s.slack.click(s.mei, card, "answer")
    s.until(lambda: s.office.store.inquiry("i_1").state is InquiryState.ANSWERED)
    decision = s.office.store.inquiry("i_1").decision
    assert decision is not None
    assert decision.answers == {"Which database?": "Postgres", "Which environments?": "dev, prod"}


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("1", InquiryState.APPROVED),
        ("<@U0BOT> 1", InquiryState.APPROVED),
        ("2 only in staging", InquiryState.CHANGED),
        ("3 not today", InquiryState.REJECTED),
        ("4", InquiryState.APPROVED),
        ("ok but only with --dry-run", InquiryState.CHANGED),
        ("no, don't allow it", InquiryState.REJECTED),
    ],
)
def test_a_reply_decides_like_a_click(scene: Make, said: str, state: InquiryState) -> None:
    """The numbers of the list, and plain words, in the thread."""
    s = scene()
    card, _ = _pending(s)
    s.slack.say(s.lin, s.ops, said, thread_ts=card.thread_ts)
    s.until(lambda: s.office.store.inquiry("i_1").state is state)
    s.until(lambda: s.whispers(s.lin))
    assert s.whispers(s.lin)[0].startswith("Recorded for request #1")


@pytest.mark.parametrize(
    ("who", "told"),
    [
        ("mei", "You can't decide this one. These can: Lin, Kai."),
        ("eve", "You can't decide this one. These can: Lin, Kai."),
        ("gus", "You can't decide this one. These can: Lin, Kai."),
    ],
)
def test_case_b01_b02_one_gate_for_clicks_replies_and_forms(scene: Make, who: str, told: str) -> None:
    """Whoever may not decide is told so alone, whichever way they come, and nothing is decided."""
    s = scene()
    card, _ = _pending(s, an_inquiry(approvers=("group:oncall",), requester_may_decide=False))
    user = getattr(s, who)
    s.slack.click(user, card, "approve")
    s.until(lambda: len(s.whispers(user)) == 1)
    s.slack.say(user, s.ops, "1", thread_ts=card.thread_ts)
    s.until(lambda: len(s.whispers(user)) == 2)
    s.slack.click(user, card, "reject")
    view = s.until(lambda: _notice(s, user))
    assert s.whispers(user) == [told, told]
    assert told in str(view.view)
    assert s.office.store.inquiry("i_1").open


def test_case_b06_the_loser_is_told_who_won(scene: Make) -> None:
    """Two clicks at once are one decision; the other one is told by whom."""
    s = scene()
    card, _ = _pending(s)
    s.slack.click(s.lin, card, "approve")
    s.slack.click(s.kai, card, "approve")
    s.until(lambda: s.whispers(s.lin) + s.whispers(s.kai))
    [told] = s.whispers(s.lin) + s.whispers(s.kai)
    assert told.startswith("Already decided by ")
    events = [str(e.event) for e in s.office.store.audit_of(s.office.task().id)]
    assert events.count("decided") == 1


def test_case_b07_the_same_click_again(scene: Make) -> None:
    """A stale button answers with words, and does nothing twice."""
    s = scene()
    card, _ = _pending(s)
    click = s.slack.click(s.lin, card, "approve")
    s.until(lambda: not s.office.store.inquiry("i_1").open)
    s.slack.redeliver(click)
    s.slack.click(s.kai, card, "approve")
    s.until(lambda: s.whispers(s.kai))
    assert s.whispers(s.kai) == ["Already decided by lin. Nothing was changed."]
    assert s.whispers(s.lin) == []  # a double click is no news
    s.office.offset = timedelta(hours=2)
    s.slack.click(s.lin, card, "approve")
    s.until(lambda: s.whispers(s.lin))
    assert s.whispers(s.lin) == ["Already decided by lin. Nothing was changed."]
    events = [str(e.event) for e in s.office.store.audit_of(s.office.task().id)]
    assert events.count("decided") == 1


def test_case_b08_an_old_button_cannot_decide_a_new_request(scene: Make) -> None:
    """A button decides the request it was made for, whatever is open now."""
    s = scene()
    old, task = _pending(s)
    s.slack.say(s.lin, s.ops, "3 no", thread_ts=old.thread_ts)
    s.until(lambda: not s.office.store.inquiry("i_1").open)
    s.office.asks(task.id, an_inquiry())
    s.card(str(old.thread_ts), "request:2")
    s.slack.click(s.lin, old, "approve")
    s.until(lambda: len(s.whispers(s.lin)) == 2)
    assert s.whispers(s.lin)[1] == "Already decided by lin. Nothing was changed."
    assert s.office.store.inquiry("i_2").open


def _pending(s: Scene, inquiry: Any = None) -> tuple[Any, Task]:
    """A job whose first request stands in the thread."""
    thread = s.asked()
    task = s.office.task()
    s.office.asks(task.id, inquiry or an_inquiry())
    return s.card(thread, "request:1"), task


def _form(s: Scene, user: str) -> Any:
    view = s.slack.modal(user)
    return view if view.view["callback_id"] in ("change", "reject") else None


def _submit(s: Scene, user: str, view: Any, values: dict[str, str]) -> Any:
    """Fills in a form by the names of its inputs, and sends it."""
    full = {
        b["block_id"]: values[name] for b in view.blocks if (name := b["block_id"].split("@")[0]) in values
    }
    return s.slack.submit(user, view, full)


def _notice(s: Scene, user: str) -> Any:
    view = s.slack.modal(user)
    return view if view.view["callback_id"] == "notice" else None


def _block(card: Any, name: str) -> str:
    return str(next(b["block_id"] for b in card.blocks if b.get("block_id", "").startswith(f"{name}@")))
