"""The steps of one turn on Feishu: one form, each step pressed on its own or all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_runner.model import Inquiry, TaskState
from tests.bot.feishu.conftest import Scene, controls, text_of
from tests.fakes.feishu_model import Message
from tests.fakes.values import an_inquiry

Make = Callable[..., Scene]
ONCALL: dict[str, Any] = {"approvers": ("group:oncall",), "requester_may_decide": False}


def steps(count: int = 3, **changes: Any) -> tuple[Inquiry, ...]:
    """So many different commands of one turn."""
    more = {**ONCALL, **changes}
    return tuple(an_inquiry(tool_input={"command": f"echo {n}"}, **more) for n in range(count))


def opened(s: Scene, *inquiries: Inquiry) -> tuple[Message, Message]:
    """The card of these steps, shown whole, and the message that asked for the job."""
    asked = s.asked()
    s.asks(s.tasks()[0].id, *(inquiries or steps()))
    return s.card(asked, "请求 #1-#"), asked


def states(s: Scene, count: int = 3) -> list[str]:
    """How the requests stand."""
    return [str(s.inquiry(n).state) for n in range(1, count + 1)]


def test_each_step_is_pressed_on_its_own_and_the_answer_is_the_whole_card(scene: Make) -> None:
    """The toast says what was recorded, and the card of the answer shows that step decided."""
    s = scene()
    card, _ = opened(s)
    pressed = s.feishu.click(s.lin, card, "approve.b", form={})
    assert (pressed.ok, pressed.toast and pressed.toast.kind) == (True, "success")
    assert states(s) == ["pending", "approved", "pending"]
    assert pressed.card is not None
    assert "小林 于" in text_of(card)
    s.settled()
    assert [verb for verb in controls(card) if verb == "approve"] == ["approve"] * 2
    assert "approve_all" in controls(card)


def test_all_are_approved_by_one_press(scene: Make) -> None:
    """In one write; the thread is told once what was decided."""
    s = scene()
    card, asked = opened(s)
    assert s.feishu.click(s.lin, card, "approve_all", form={}).ok
    assert states(s) == ["approved"] * 3
    assert s.tasks()[0].state is TaskState.QUEUED
    s.settled()
    assert controls(card) == []
    told = [text_of(one) for one in s.posts(asked) if "请求 #1-#3：" in text_of(one)]
    assert len(told) == 1


def test_a_step_is_rejected_or_changed_with_the_words_of_the_form(scene: Make) -> None:
    """The same place for words; the button says for which step they are."""
    s = scene()
    card, _ = opened(s)
    assert s.feishu.click(s.lin, card, "reject.a", form={"words": "先等窗口"}).ok
    assert s.feishu.click(s.lin, card, "change.c", form={"words": "只在测试环境"}).ok
    first, third = s.inquiry(1).decision, s.inquiry(3).decision
    assert first is not None
    assert third is not None
    assert (first.reason, third.conditions, s.inquiry(2).open) == ("先等窗口", "只在测试环境", True)


def test_a_reason_is_needed(scene: Make) -> None:
    """For one step and for all; nothing is decided without."""
    s = scene()
    card, _ = opened(s)
    for verb in ("reject.b", "reject_all", "change.b"):
        pressed = s.feishu.click(s.lin, card, verb, form={})
        assert (pressed.ok, pressed.toast and pressed.toast.kind) == (True, "warning")
    assert states(s) == ["pending"] * 3
    assert s.feishu.click(s.lin, card, "reject_all", form={"words": "今天不行"}).ok
    assert [i.decision.reason for i in map(s.inquiry, (1, 2, 3)) if i.decision] == ["今天不行"] * 3


def test_words_that_were_typed_are_not_dropped_by_an_approval(scene: Make) -> None:
    """Whoever wrote something and presses approve is asked what becomes of it, for one step and for all."""
    s = scene()
    card, _ = opened(s)
    for verb in ("approve.a", "approve_all"):
        pressed = s.feishu.click(s.lin, card, verb, form={"words": "只在测试环境"})
        assert pressed.toast is not None
        assert (pressed.toast.kind, pressed.card) == ("warning", None)
    assert states(s) == ["pending"] * 3


def test_case_b01_who_may_not_decide_is_told(scene: Make) -> None:
    """The requester presses approve all: refused, and the steps stay open."""
    s = scene()
    card, _ = opened(s)
    pressed = s.feishu.click(s.mei, card, "approve_all", form={})
    assert (pressed.toast and pressed.toast.kind, states(s)) == ("error", ["pending"] * 3)


def test_a_typed_answer_and_a_reply_to_the_card(scene: Make) -> None:
    """Letters decide; a bare number in reply to the card of several is asked back."""
    s = scene()
    card, asked = opened(s)
    s.say(s.lin, "1", to=card)
    assert states(s) == ["pending"] * 3
    assert any("是哪个步骤？待定的有 a (#1), b (#2), c (#3)。" in told for told in s.told(asked))
    s.say(s.lin, "a1 b3 等窗口 c1", to=card)
    assert states(s) == ["approved", "rejected", "approved"]


def test_steps_that_do_not_fit_on_one_card_have_one_each(scene: Make) -> None:
    """Sixteen of them: each card says why, and is answered with itself."""
    s = scene()
    asked = s.asked()
    s.asks(s.tasks()[0].id, *steps(16))
    card = s.card(asked, "请求 #16")
    assert "这一轮的 16 个步骤在这里放不进一张卡片" in text_of(card)
    assert s.feishu.click(s.lin, card, "approve", form={}).ok
    assert not s.inquiry(16).open
