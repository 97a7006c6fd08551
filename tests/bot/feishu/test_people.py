"""Who may on Feishu: other tenants, departments, one person on two platforms, and who cannot be looked up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import agent_runner.registers
from agent_runner.audit import Event
from agent_runner.model import Actor, InquiryState, Verdict
from agent_runner.people import Person
from bot.commands import Chose
from tests.bot.feishu.conftest import Scene, controls, stale, text_of
from tests.fakes.feishu_clicks import ClickResult
from tests.fakes.values import an_inquiry

Make = Callable[..., Scene]

ONCALL = {"approvers": ("group:oncall",), "requester_may_decide": False}
GUEST = "外部成员或访客不能发起任务，也不能审批。管理员可以将你加入名单。"
MAY_NOT = "你不能审批这个请求，可以审批的有："


def told(result: ClickResult) -> tuple[str, str]:
    """The toast that was seen: its kind and its words."""
    assert result.toast is not None
    return result.toast.kind, result.toast.content


@pytest.mark.parametrize("approvers", [("anyone",), ("requester", "anyone"), ("group:oncall",)])
def test_people_of_other_tenants_decide_nothing(scene: Make, approvers: tuple[str, ...]) -> None:
    """Not even where anyone may, whichever way they come; the attempt is on record."""
    s = scene()
    card, asked, task = s.pending(an_inquiry(approvers=approvers))
    kind, words = told(s.feishu.click(s.gus, card, "approve"))
    assert (kind, words.startswith(MAY_NOT)) == ("error", True)
    s.say(s.gus, "1", to=card)
    assert s.told(asked)[0].startswith(MAY_NOT)
    assert s.inquiry().open
    attempts = [e for e in s.office.store.audit_of(task.id) if e.event is Event.REFUSED_ATTEMPT]
    assert [e.actor.tenant for e in attempts if e.actor] == ["tenant_other"] * 2


@pytest.mark.parametrize("account", ["feishu:{id}", "feishu:tenant_other:{id}"])
def test_a_listed_person_of_another_tenant_decides(scene: Make, account: str) -> None:
    """Listed by account, with or without the tenant."""
    s = scene()
    gus = Person(accounts=(account.format(id=s.gus.open_id),), groups=("oncall",))
    s.office.handler.config = s.office.config.having(people={"gus": gus})
    card, _, _ = s.pending(an_inquiry(**ONCALL))
    assert told(s.feishu.click(s.gus, card, "approve"))[0] == "success"
    decision = s.inquiry().decision
    assert decision is not None
    assert (decision.by.person, decision.by.tenant) == ("gus", "tenant_other")


def test_another_tenants_account_with_the_same_id(scene: Make) -> None:
    """Listed with a tenant, an account counts in that tenant only."""
    s = scene()
    gus = Person(accounts=(f"feishu:tenant_third:{s.gus.open_id}",), groups=("oncall",))
    s.office.handler.config = s.office.config.having(people={"gus": gus})
    card, _, _ = s.pending(an_inquiry(**ONCALL))
    assert told(s.feishu.click(s.gus, card, "approve"))[0] == "error"
    assert s.inquiry().open


def test_people_of_other_tenants_steer_nothing(scene: Make) -> None:
    """Their talk in the thread is talk; what they ask the bot for is told to be none of theirs."""
    s = scene()
    card, asked, task = s.pending()
    before = s.office.steering(task.id)
    status = s.posts(asked)[0]
    s.say(s.gus, "用另一个集群", to=card)
    assert s.told(asked) == []
    for text, mention in [("用另一个集群", True), ("停止", False), ("重试", False)]:
        s.say(s.gus, text, to=card, mention=mention)
    words = s.told(asked)
    assert (len(words), set(words)) == (3, {GUEST})
    assert told(s.feishu.click(s.gus, status, "stop")) == ("error", GUEST)
    assert s.office.steering(task.id) == before
    assert len(s.office.store.messages(task.id)) == 1
    s.say(s.mei, "用另一个集群", to=card)
    assert len(s.office.store.messages(task.id)) == 2


# --- departments -------------------------------------------------------------------------


def test_a_department_approves(scene: Make) -> None:
    """Who is in it may decide, without being listed; who is not may not."""
    s = scene(people={}, chat={"groups": {"oncall": "od-oncall"}})
    card, _, _ = s.pending(an_inquiry(**ONCALL))
    s.until(lambda: s.office.registers.groups(["feishu"]))
    assert told(s.feishu.click(s.kai, card, "approve"))[0] == "error"
    assert told(s.feishu.click(s.lin, card, "approve"))[0] == "success"


def test_whoever_left_a_department_decides_no_more(scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read again and again; a locked account is none of its members."""
    monkeypatch.setattr("bot.kept_groups.EVERY", 0.05)
    s = scene(people={}, chat={"groups": {"oncall": "od-oncall"}})
    card, _, _ = s.pending(an_inquiry(**ONCALL))
    s.kai.departments.append("od-oncall")
    s.lin.frozen = True
    s.until(lambda: s.office.registers.groups(["feishu"]) == {"oncall": [f"feishu:{s.kai.open_id}"]})
    assert told(s.feishu.click(s.lin, card, "approve"))[0] == "error"
    assert told(s.feishu.click(s.kai, card, "approve"))[0] == "success"


def test_a_department_that_cannot_be_read_any_more_is_not_believed(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while nobody is in it; read again, it counts again."""
    monkeypatch.setattr("bot.kept_groups.EVERY", 0.05)
    monkeypatch.setattr(agent_runner.registers, "GROUP_SECONDS", 1)
    s = scene(people={}, chat={"groups": {"oncall": "od-oncall"}})
    card, _, _ = s.pending(an_inquiry(**ONCALL))
    s.feishu.fail("find_by_department", 40004, times=None)
    s.until(lambda: not s.office.registers.groups(["feishu"]))
    assert told(s.feishu.click(s.lin, card, "approve")) == ("error", "你不能这样做。")
    assert s.inquiry().open
    s.feishu.heal()
    s.until(lambda: s.office.registers.groups(["feishu"]))
    assert told(s.feishu.click(s.lin, card, "approve"))[0] == "success"


# --- people, not clicks ------------------------------------------------------------------


@pytest.mark.parametrize("approvers", [(), ("group:nobody",), ("Lin",)])
def test_case_b03_no_approvers_is_nobody(scene: Make, approvers: tuple[str, ...]) -> None:
    """An empty list, an empty group, and a name that nobody has let nobody decide."""
    s = scene()
    card, _, _ = s.pending(an_inquiry(approvers=approvers))
    for who in (s.mei, s.lin, s.kai):
        assert told(s.feishu.click(who, card, "approve"))[0] == "error"
    assert s.inquiry().open


def test_case_b04_a_press_without_a_person(scene: Make) -> None:
    """It is answered, and nothing is decided."""
    s = scene()
    card, _, _ = s.pending()
    open_id, s.lin.open_id = s.lin.open_id, ""
    result = s.feishu.click(s.lin, card, "approve")
    s.lin.open_id = open_id
    assert (result.ok, s.inquiry().open) == (True, True)


@pytest.mark.parametrize("way", ["press", "words", "web"])
def test_case_b05_the_requester_may_not_on_any_way(scene: Make, way: str) -> None:
    """One person stays one person on another platform and in another way in."""
    s = scene()
    card, asked, _ = s.pending(an_inquiry(**ONCALL), by=s.lin)
    if way == "press":
        kind, words = told(s.feishu.click(s.lin, card, "approve"))
        assert (kind, words.startswith(MAY_NOT)) == ("error", True)
    elif way == "words":
        s.say(s.lin, "1", to=card)
        assert s.told(asked)[0].startswith(MAY_NOT)
    else:
        me = Actor(platform="web", user_id="lin", name="Lin")
        with pytest.raises(Exception, match="may not decide"):
            s.office.handler.choose(Chose(actor=me, inquiry_id="i_1", verdict=Verdict.APPROVE))
    assert s.inquiry().open
    assert told(s.feishu.click(s.kai, card, "approve"))[0] == "success"


def test_case_b06_two_at_once(scene: Make) -> None:
    """One decision, one entry, one turn that goes on; the loser is told who won."""
    s = scene()
    card, _, task = s.pending(an_inquiry(**ONCALL))

    async def both() -> tuple[ClickResult, ClickResult]:
        return await asyncio.gather(
            s.feishu.click_async(s.lin, card, "approve"),
            s.feishu.click_async(s.kai, card, "reject", form={"words": "先备份"}),
        )

    results = asyncio.run(both())
    decision = s.inquiry().decision
    assert decision is not None
    won, lost = sorted((told(result) for result in results), key=lambda pair: pair[0] != "success")
    assert won[0] == "success"
    assert lost == ("error", f"{decision.by.name} 已经决定过了，没有任何改动。")
    entries = [e.event for e in s.office.store.audit_of(task.id)]
    assert entries.count(Event.DECIDED) == 1
    assert s.office.store.task(task.id).turn == 2
    s.until(lambda: controls(card) == [])
    assert decision.by.name in text_of(card)


def test_case_b07_the_same_press_again(scene: Make) -> None:
    """At once or hours later nothing happens twice, and an old button answers with words."""
    s = scene()
    card, _, task = s.pending()
    assert told(s.feishu.click(s.lin, card, "approve"))[0] == "success"
    s.feishu.click(s.lin, stale(card), "approve")
    more = told(s.feishu.click(s.lin, stale(card), "always"))
    assert more == (
        "error",
        "小林 已经决定过了，没有任何改动。",
    )
    assert s.office.store.snapshot(task.id).grants == ()
    s.office.offset += timedelta(hours=3)
    late = told(s.feishu.click(s.lin, stale(card), "approve"))
    assert late == ("error", "小林 已经决定过了，没有任何改动。")
    assert told(s.feishu.click(s.mei, stale(card), "reject", form={"words": "不"}))[0] == "error"
    decided = [e for e in s.office.store.audit_of(task.id) if e.event is Event.DECIDED]
    assert (len(decided), s.inquiry().state) == (1, InquiryState.APPROVED)


def test_case_b08_an_old_card_decides_nothing_else(scene: Make) -> None:
    """Its button is about its own request, whatever is open by now."""
    s = scene()
    card, asked, task = s.pending()
    before = stale(card)
    s.feishu.click(s.lin, card, "reject", form={"words": "先备份"})
    s.asks(task.id)
    second = s.card(asked, "请求 #2")
    assert told(s.feishu.click(s.lin, before, "approve"))[0] == "error"
    assert s.inquiry(2).open
    assert s.feishu.click(s.lin, second, "approve").ok
    assert s.inquiry(2).state is InquiryState.APPROVED


def test_case_b09_people_are_counted(scene: Make) -> None:
    """Two are needed: the same person twice, or on two platforms, is one."""
    s = scene()
    card, _, _ = s.pending(an_inquiry(**ONCALL, quorum=2))
    one = ("success", "请求 #1 已记录。已有 1 人批准，需 2 人。")
    assert told(s.feishu.click(s.lin, card, "approve")) == one
    assert told(s.feishu.click(s.lin, card, "approve")) == one
    on_the_page = Actor(platform="web", user_id="lin", name="Lin")
    s.office.handler.choose(Chose(actor=on_the_page, inquiry_id="i_1", verdict=Verdict.APPROVE))
    assert s.inquiry().open
    assert told(s.feishu.click(s.kai, card, "approve")) == ("success", "请求 #1 已记录：已批准。")
    assert s.inquiry().state is InquiryState.APPROVED


# --- names -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [41050, 99991672, 99991400, 5000])
def test_names_that_feishu_does_not_tell(scene: Make, code: int) -> None:
    """Without the scope, out of range, at a limit: people are known by their id and may what they may."""
    s = scene()
    s.feishu.fail("GET /open-apis/contact/v3/users/ou", code, times=None)
    card, _, _ = s.pending(an_inquiry(**ONCALL))
    assert s.office.task().asked_by.name == s.mei.open_id
    assert told(s.feishu.click(s.lin, card, "approve"))[0] == "success"


def test_a_name_is_asked_for_once(scene: Make) -> None:
    """It is remembered for a while."""
    s = scene()
    card, asked, _ = s.pending()
    for _ in range(3):
        s.say(s.mei, "状态", to=asked)
    s.feishu.click(s.mei, card, "reject", form={"words": ""})
    calls: list[Any] = s.calls(f"users/{s.mei.open_id}")
    assert calls == [0]
