"""On Feishu: who is reminded, who joins, who stands in for whom, and who may break the glass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from agent_runner.model import Inquiry
from agent_runner.policy import Policy
from tests.bot.feishu.conftest import ROUTE, Scene, text_of
from tests.fakes.values import an_inquiry

Make = Callable[..., Scene]


def waits(s: Scene, **changes: Any) -> Inquiry:
    """A request for two of those on call, with a reminder in a while."""
    return an_inquiry(
        **{
            "approvers": ("group:oncall",),
            "quorum": 2,
            "requester_may_decide": False,
            "remind_at": s.office.now() + timedelta(minutes=5),
            **changes,
        }
    )


def passes(s: Scene, minutes: int) -> None:
    """So much time goes by for all, and the clock ticks twice."""
    s.office.offset += timedelta(minutes=minutes)
    s.feishu.advance(minutes * 60)
    for _ in range(2):
        s.office.clock.tick()


def test_who_has_not_voted_is_reminded_once(scene: Make) -> None:
    """Lin has voted: the reminder mentions Kai alone, and nothing on it can be pressed."""
    s = scene()
    card, asked, _ = s.pending(waits(s))
    s.shown()
    s.feishu.click(s.lin, card, "approve", form={})
    s.until(lambda: len(s.inquiry().votes) == 1)
    passes(s, 6)
    reminder = s.card(asked, "提醒")
    assert f"<at id={s.kai.open_id}></at>" in text_of(reminder)
    assert s.lin.open_id not in text_of(reminder)
    assert "仍在等待" in text_of(reminder)
    s.settled()
    assert len([m for m in s.posts(asked) if "仍在等待" in text_of(m)]) == 1


def test_somebody_hands_over_in_the_thread(scene: Make) -> None:
    """Kai leaves: the next card names Lin in his place as well; the answer is in the chat's language."""
    s = scene()
    asked = s.asked()
    s.say(s.kai, "离开到 明天 -> 小林", to=asked)
    assert s.told(asked)[-1].startswith("阿凯 离开到 ")
    assert s.told(asked)[-1].endswith("在此之前由 小林 代为审批。")
    s.say(s.eve, "离开到 明天 -> 小林", to=asked)
    assert s.told(asked)[-1].startswith("只有 [people] 中列出的人可以委托代理")
    s.say(s.kai, "回来了", to=asked)
    assert s.told(asked)[-1] == "阿凯 回来了，恢复自行审批。"
    s.say(s.lin, "lin 离开到 3天 -> kai", to=asked)
    s.asks(s.office.task().id, waits(s, approvers=("lin",), quorum=1))
    card = s.card(asked, "请求 #1")
    s.until(lambda: f"<at id={s.kai.open_id}></at>（代 小林）" in text_of(card))
    s.feishu.click(s.kai, card, "approve", form={})
    s.until(lambda: not s.inquiry().open)
    decision = s.inquiry().decision
    assert (decision and decision.acting_for) == "lin"
    s.until(lambda: "阿凯（代 lin）" in text_of(card))


def test_breaking_the_glass_is_told_to_all(scene: Make) -> None:
    """In Chinese, with the code; those of the route are mentioned with the reason."""
    s = scene(policy=Policy(routes=(ROUTE,), break_glass=("kai",)))
    _, asked, _ = s.pending(waits(s, approvers=("lin",), quorum=1))
    s.shown()
    s.say(s.kai, "紧急放行 结算挂了", to=asked)
    told = s.told(asked)[-1]
    assert told.startswith("你将独自批准请求 #1")
    s.say(s.kai, f"紧急放行 {told[-4:]}", to=asked)
    s.until(lambda: not s.inquiry().open)
    said = s.card(asked, "紧急放行")
    assert f"<at id={s.lin.open_id}></at>" in text_of(said)
    assert "结算挂了" in text_of(said)
