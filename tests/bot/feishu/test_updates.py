"""How a posted card is kept equal to what is stored, within what Feishu allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent_runner.model import Execution, InquiryState, TaskState
from agent_runner.people import Person
from tests.bot.feishu.conftest import Scene, controls, header_of, text_of
from tests.fakes.feishu_clicks import ClickResult
from tests.fakes.feishu_model import Message, User
from tests.fakes.values import a_plan, a_question, an_inquiry

Make = Callable[..., Scene]

ONCALL = {"approvers": ("group:oncall",), "requester_may_decide": False}
DAYS = 86_400.0


def reverted(s: Scene) -> list[Message]:
    """Messages of which an update was undone by the answer to a press."""
    return [m for m in s.feishu.messages(s.group) if any(update.reverted for update in m.updates)]


def test_the_answer_carries_the_card(scene: Make) -> None:
    """Whoever presses sees the outcome at once, all others with them; nothing is undone afterwards."""
    s = scene()
    card, _, _ = s.pending(an_inquiry(**ONCALL))
    result = s.feishu.click(s.lin, card, "approve")
    assert result.card is not None
    assert [update.via for update in card.updates] == ["callback"]
    assert (controls(card), "小林" in text_of(card)) == ([], True)
    s.settled()
    assert (controls(card), reverted(s)) == ([], [])


@pytest.mark.parametrize(
    ("verb", "form"),
    [
        ("approve", {"words": "但是先备份"}),
        ("change", {}),
        ("reject", {}),
        ("reject", {"words": " \n "}),
    ],
)
def test_a_question_back_is_a_toast_alone(scene: Make, verb: str, form: dict[str, Any]) -> None:
    """The form stays as it was filled in; each viewer reads the toast in their language."""
    s = scene()
    card, _, _ = s.pending()
    result = s.feishu.click(s.lin, card, verb, form=form)
    assert (result.card, card.updates, s.inquiry().open) == (None, [], True)
    assert result.toast is not None
    assert (result.toast.kind, set(result.toast.i18n)) == ("warning", {"zh_cn", "en_us", "ja_jp"})
    assert result.toast.content == result.toast.i18n["zh_cn"]


def crowd(s: Scene, number: int) -> list[User]:
    """So many people on call."""
    users = [s.feishu.add_user(f"P{n}") for n in range(number)]
    s.group.members.extend(users)
    listed = {u.name: Person(accounts=(f"feishu:{u.open_id}",), groups=("oncall",)) for u in users}
    s.config = s.config.having(people=listed)
    for office in s.offices:
        office.handler.config = office.config.having(people=listed)
    return users


@pytest.mark.parametrize("replicas", [1, 2])
def test_many_presses_undo_no_update(scene: Make, replicas: int) -> None:
    """Votes of many at once, on one bot or two: each is answered, none is lost, no update is undone."""
    s = scene(fake={"deadline": 10.0})
    users = crowd(s, 8)
    for _ in range(replicas - 1):
        s.open()
    card, _, _ = s.pending(an_inquiry(**ONCALL, quorum=8))

    async def press(user: User, late: float) -> ClickResult:
        await asyncio.sleep(late)
        return await s.feishu.click_async(user, card, "approve")

    async def all_at_once() -> list[ClickResult]:
        return await asyncio.gather(*(press(user, n * 0.1) for n, user in enumerate(users)))

    results = asyncio.run(all_at_once())
    assert [result.error for result in results] == [None] * 8
    assert s.inquiry().state is InquiryState.APPROVED
    s.settled()
    assert (len(s.inquiry().votes), controls(card), reverted(s)) == (8, [], [])
    assert all(user.name in text_of(card) for user in users)


def test_with_files_the_answer_is_a_toast_alone(scene: Make) -> None:
    """The courier has to see to the files first; then it takes the buttons off."""
    s = scene()
    long = "kubectl apply -f x\n" * 2_600
    card, _, _ = s.pending(an_inquiry(tool_input={"command": long}))
    s.until(lambda: "approve" in controls(card))
    result = s.feishu.click(s.lin, card, "approve")
    assert result.toast is not None
    assert (result.toast.kind, result.card) == ("success", None)
    s.settled()
    assert (controls(card), reverted(s)) == ([], [])


# --- pace --------------------------------------------------------------------------------


def test_the_pace_of_a_chat_is_kept(scene: Make) -> None:
    """Twelve messages at once stay below five in a second: Feishu never has to refuse one."""
    s = scene(pace=0.25, fake={"qps": 5})
    asked = s.asked()
    s.office.asks(
        s.office.task().id, *[an_inquiry(tool_input={"command": f"kubectl {n}"}) for n in range(11)]
    )
    s.until(lambda: len(s.posts(asked)) == 12)
    assert 230020 not in [*s.calls("/reply"), *s.calls("PATCH")]
    times = sorted(m.sent_at for m in s.posts(asked))
    assert all(later - earlier > 1.0 for earlier, later in zip(times, times[5:], strict=False))


@pytest.mark.parametrize("route", ["/reply", "PATCH"])
@pytest.mark.parametrize("code", [230020, 99991400])
def test_a_limit_is_waited_out(scene: Make, route: str, code: int) -> None:
    """As long as Feishu says, and then the same message once."""
    s = scene()
    asked = s.asked()
    [task] = s.tasks()
    s.settled()
    headers = {"x-ogw-ratelimit-reset": "1"}
    s.feishu.fail(route, code, times=2, headers=headers)
    s.asks(task.id)
    s.until(lambda: not s.office.registers.dirty())  # in real time
    made = [call for call in s.feishu.calls if route in call.route][-4:]
    refused = [n for n, call in enumerate(made) if call.code == [code]]
    assert len(refused) == 2
    for n in refused:
        assert made[n + 1].at - made[n].at >= 0.9
    assert [header_of(m)[:5] for m in s.posts(asked)].count("请求 #1") == 1


# --- what cannot be changed any more -----------------------------------------------------


@pytest.mark.parametrize("why", ["old", "recalled"])
def test_case_c08_a_card_that_cannot_be_changed(scene: Make, why: str) -> None:
    """After 14 days, or recalled by somebody: what is stored is said in a new message below."""
    s = scene()
    card, asked, _ = s.pending()
    s.settled()
    if why == "old":
        s.feishu.advance(15 * DAYS)
        assert s.feishu.click(s.lin, card, "approve").blocked == "older than 14 days"
    else:
        s.feishu.recall(card)
    s.say(s.lin, "3 先备份", to=asked)
    s.until(lambda: [m for m in s.posts(asked) if m is not card and "先备份" in text_of(m)])
    s.settled()
    fresh = [m for m in s.posts(asked) if header_of(m).startswith("请求 #1 · ") and m is not card]
    assert [controls(m) for m in fresh] == [[]]


def test_an_open_card_that_was_recalled_stands_again(scene: Make) -> None:
    """Its next change posts it anew, and that one can be pressed."""
    s = scene()
    card, asked, _ = s.pending(an_inquiry(**ONCALL, quorum=2))
    s.settled()
    s.feishu.recall(card)
    s.say(s.kai, "1", to=asked)
    again = s.until(
        lambda: next((m for m in s.posts(asked) if m is not card and controls(m)[:1] == ["approve"]), None)
    )
    assert s.feishu.click(s.lin, again, "approve").ok
    assert s.inquiry().state is InquiryState.APPROVED


# --- news --------------------------------------------------------------------------------


@pytest.mark.parametrize(("who", "news"), [("lin", 1), ("mei", 0)])
def test_an_outcome_is_told_where_others_wait_for_it(scene: Make, who: str, news: int) -> None:
    """An update is silent: whoever asked hears of it by a message, unless they decided themselves."""
    s = scene()
    card, asked, _ = s.pending()
    s.settled()
    before = len(s.posts(asked))
    s.feishu.click(getattr(s, who), card, "reject", form={"words": "先备份"})
    s.settled()
    fresh = s.posts(asked)[before:]
    assert (len(fresh), [controls(m) for m in fresh]) == (news, [[]] * news)
    if news:
        assert "小林" in text_of(fresh[0])


def test_a_press_is_paused_for_no_longer_than_its_answer(scene: Make) -> None:
    """The work of a job goes on right after: its result stands below."""
    s = scene()
    card, asked, task = s.pending()
    s.feishu.click(s.lin, card, "approve")
    s.office.ends(task.id, "全部完成。")
    s.until(lambda: any("全部完成。" in text_of(m) for m in s.posts(asked)))
    assert s.office.store.task(task.id).state is TaskState.DONE
    assert s.inquiry().run.state is Execution.NONE


# --- once --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["status", "request", "answer"])
def test_a_message_whose_answer_was_lost_stands_once(scene: Make, kind: str) -> None:
    """It is sent again with its `uuid`, and Feishu knows it."""
    s = scene()
    lost: dict[str, Any] = {"part": "/reply", "code": 5000, "http": 500, "times": 2, "after": True}
    if kind == "status":
        s.feishu.fail(**lost)
    asked = s.asked()
    s.settled()
    if kind == "request":
        s.feishu.fail(**lost)
    s.office.asks(s.office.task().id)
    s.card(asked, "请求 #1")
    s.settled()
    if kind == "answer":
        s.feishu.fail(**lost)
    s.say(s.lin, "2", to=asked)
    s.settled()
    assert s.calls("/reply").count(5000) == 2
    assert len(s.posts(asked)) == 3


# --- languages ---------------------------------------------------------------------------


@pytest.mark.parametrize("lang", ["zh", "en", "ja"])
@pytest.mark.parametrize("request_", [an_inquiry(), a_question(), a_plan()], ids=["call", "question", "plan"])
def test_each_viewer_reads_their_language(scene: Make, lang: str, request_: Any) -> None:
    """A card carries all three; what is not ours is the same in all."""
    s = scene(chat={"language": lang})
    asked = s.asked()
    s.office.asks(s.office.task().id, request_)
    s.until(lambda: len(s.posts(asked)) == 2)
    card = s.posts(asked)[1]
    titles = card.content["header"]["title"]
    assert set(titles["i18n_content"]) == {"zh_cn", "en_us", "ja_jp"}
    assert titles["content"] == titles["i18n_content"][{"zh": "zh_cn", "en": "en_us", "ja": "ja_jp"}[lang]]
    assert len({*titles["i18n_content"].values()}) == 3
    buttons = [b["text"]["i18n_content"] for b in _tagged(card.content, "button")]
    assert all(set(words) == {"zh_cn", "en_us", "ja_jp"} for words in buttons)


def _tagged(node: Any, tag: str) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("tag") == tag:
            yield node
        for value in node.values():
            yield from _tagged(value, tag)
    elif isinstance(node, list):
        for item in node:
            yield from _tagged(item, tag)
