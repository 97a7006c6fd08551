"""Whole threads on Feishu: asked, shown, decided, told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_runner.model import InquiryState, Task, TaskState
from tests.bot.feishu.conftest import Scene, controls, text_of
from tests.fakes.values import a_question, an_inquiry

Make = Callable[..., Scene]


def test_a_mention_starts_a_job_and_a_press_decides(scene: Make) -> None:
    """Status, card with the whole command, press answered with toast and card, outcome and result told."""
    s = scene()
    asked = s.asked()
    task = s.office.task()
    assert (task.text, task.asked_by.name) == ("重启结算服务", "美美")
    assert (task.place.chat, task.place.thread) == (s.group.chat_id, asked.message_id)
    s.asks(task.id, an_inquiry(approvers=("group:oncall",), requester_may_decide=False))
    card = s.card(asked, "请求 #1")
    assert "kubectl rollout restart deploy/checkout" in text_of(card)
    assert set(card.pings) == {s.lin.open_id, s.kai.open_id}
    assert controls(card) == ["approve", "change", "reject", "always"]
    result = s.feishu.click(s.lin, card, "approve")
    assert result.ok
    assert result.toast is not None
    assert (result.toast.kind, result.toast.content) == ("success", "请求 #1 已记录：已批准。")
    assert controls(card) == []
    assert "小林" in text_of(card)
    s.until(lambda: any("请求 #1" in text_of(m) for m in s.posts(asked) if m is not card))
    s.office.ends(task.id, "全部完成。")
    s.until(lambda: any("全部完成。" in text_of(m) for m in s.posts(asked)))
    assert s.office.store.task(task.id).state is TaskState.DONE
    assert not [u for m in s.posts(asked) for u in m.updates if u.reverted]


def test_a_reason_is_needed_and_kept_word_for_word(scene: Make) -> None:
    """A refusal without words is answered with a toast; with words, the agent gets them as they are."""
    s = scene()
    card, _ = _pending(s)
    refused = s.feishu.click(s.lin, card, "reject", form={"words": ""})
    assert refused.toast is not None
    assert refused.toast.kind == "warning"
    assert s.office.store.inquiry("i_1").open
    s.feishu.click(s.lin, card, "reject", form={"words": "先 *灰度* & <慢慢来>"})
    decision = s.office.store.inquiry("i_1").decision
    assert decision is not None
    assert decision.reason == "先 *灰度* & <慢慢来>"


def test_words_are_not_dropped_by_a_plain_approval(scene: Make) -> None:
    """Approve with something in the form asks what is meant, and approves nothing."""
    s = scene()
    card, _ = _pending(s)
    asked = s.feishu.click(s.lin, card, "approve", form={"words": "只在测试环境"})
    assert asked.toast is not None
    assert asked.toast.kind == "warning"
    assert s.office.store.inquiry("i_1").open


def test_a_change_edits_the_input(scene: Make) -> None:
    """The form holds the fields; what is edited runs as edited."""
    s = scene()
    card, _ = _pending(s)
    edited = "kubectl rollout restart deploy/checkout --dry-run=server"
    assert s.feishu.click(s.lin, card, "change", form={"f0": edited}).ok
    inquiry = s.office.store.inquiry("i_1")
    assert inquiry.state is InquiryState.CHANGED
    assert inquiry.effective_input == {"command": edited}


def test_questions_are_answered_with_one_form(scene: Make) -> None:
    """What is missing is named; nothing is sent before the button."""
    s = scene()
    card, _ = _pending(s, a_question())
    missing = s.feishu.click(s.mei, card, "answer", form={"a1": ["0", "1"]})
    assert missing.toast is not None
    assert "Which database?" in missing.toast.content
    s.feishu.click(s.mei, card, "answer", form={"a0": "0", "a1": ["0", "1"]})
    decision = s.office.store.inquiry("i_1").decision
    assert decision is not None
    assert decision.answers == {"Which database?": "Postgres", "Which environments?": "dev, prod"}


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("1", InquiryState.APPROVED),
        ("2 只在测试环境", InquiryState.CHANGED),
        ("3 今天不行", InquiryState.REJECTED),
        ("4", InquiryState.APPROVED),
        ("可以，但是先备份", InquiryState.CHANGED),
        ("不 可以", InquiryState.REJECTED),
        ("别批准", InquiryState.REJECTED),
    ],
)
@pytest.mark.parametrize("scope", ["group_msg", "group_at_msg"])
def test_a_reply_decides_like_a_press(scene: Make, said: str, state: InquiryState, scope: str) -> None:
    """With and without the scope to read all messages of the group (then the bot has to be mentioned)."""
    s = scene(scope=scope)
    card, asked = _pending(s)
    s.feishu.say(s.lin, s.group, said, reply_to=card, mention=scope == "group_at_msg")
    s.until(lambda: s.office.store.inquiry("i_1").state is state)
    s.until(lambda: s.texts(asked))
    assert "请求 #1 已记录" in s.texts(asked)[0]


@pytest.mark.parametrize("who", ["mei", "eve", "gus"])
def test_case_b01_b02_one_gate_for_presses_and_replies(scene: Make, who: str) -> None:
    """Whoever may not decide is told so, whichever way they come, and nothing is decided."""
    s = scene()
    card, asked = _pending(s, an_inquiry(approvers=("group:oncall",), requester_may_decide=False))
    user = getattr(s, who)
    refused = s.feishu.click(user, card, "approve")
    assert refused.toast is not None
    assert (refused.toast.kind, "小林" in refused.toast.content) == ("error", True)
    s.feishu.say(user, s.group, "1", reply_to=card)
    s.until(lambda: s.texts(asked))
    assert s.office.store.inquiry("i_1").open


def _pending(s: Scene, inquiry: Any = None) -> tuple[Any, Any]:
    """A job whose first request stands in the thread: (card, what was asked)."""
    asked = s.asked()
    task: Task = s.office.task()
    s.asks(task.id, inquiry or an_inquiry())
    return s.card(asked, "请求 #1"), asked
