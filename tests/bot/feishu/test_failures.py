"""What Feishu, the store and people's timing can do to a message: end to end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import monotonic

import pytest

from agent_runner.model import InquiryState
from tests.bot.feishu.conftest import Scene, controls, header_of, text_of
from tests.fakes.faults import hung, private_redis
from tests.fakes.feishu_cards import buttons_of
from tests.fakes.feishu_model import Chat, Message
from tests.fakes.values import an_inquiry

Make = Callable[..., Scene]

NOT_RECORDED = "没有记录：存储没有及时响应。请重试。"
COMMAND = "kubectl rollout restart deploy/checkout"
LONG = "".join(f"kubectl apply -f manifests/{n}.yaml\n" for n in range(1_400))
"""A command of 50 kB."""


def form_of(message: Message) -> str:
    """In which form a request stands: card, short (without fields to edit), list or link."""
    if message.msg_type == "interactive":
        return "card" if '"f0"' in str(message.content).replace("'", '"') else "short"
    return "list" if COMMAND in message.text else "link"


# --- a message that Feishu does not take -------------------------------------------------


def test_what_is_refused_is_sent_simpler(scene: Make) -> None:
    """Card, shorter card, numbered list, link: each can be answered by number, none is posted twice."""
    s = scene()
    rows = [(230099, times, form) for times, form in enumerate(("card", "short", "list", "link"))]
    rows += [(code, 1, "short") for code in (230025, 230028, 200621, 230022, 230001)]
    rows += [(230054, 2, "list"), (11310, 3, "link"), (200861, 2, "list")]
    for number, (code, times, form) in enumerate(rows, 1):
        asked = s.asked()
        s.settled()
        if times:
            s.feishu.fail("/reply", code, times=times)
        s.asks(s.office.task().id)
        request = s.until(functools.partial(_below, s, asked))[0]
        assert (code, times, form_of(request)) == (code, times, form)
        if form == "link":
            assert "http://countersign.test/t/" in request.text
        s.settled()
        assert len(s.posts(asked)) == 2
        s.say(s.lin, "1", to=request)
        assert (code, s.inquiry(number).state) == (code, InquiryState.APPROVED)


def test_a_group_without_cards(scene: Make) -> None:
    """Everything goes on as numbered lists: asked, answered, told."""
    s = scene()
    s.group.cards = False
    asked = s.asked()
    task = s.office.task()
    s.asks(task.id)
    request = s.until(lambda: next((m for m in s.posts(asked) if COMMAND in m.text), None))
    assert "1 批准" in request.text
    s.say(s.lin, "3 先备份", to=request)
    assert s.inquiry().state is InquiryState.REJECTED
    s.until(lambda: any("先备份" in m.text for m in s.posts(asked)))
    s.office.ends(task.id, "全部完成。")
    s.until(lambda: any("全部完成。" in m.text for m in s.posts(asked)))
    assert {m.msg_type for m in s.posts(asked)} == {"text"}


def test_a_leak_audit_keeps_the_words_away(scene: Make) -> None:
    """A telephone number in the command passes in no form but the link; that is answered by number."""
    s = scene()
    asked = s.asked()
    s.feishu.world.audit = True
    s.asks(s.office.task().id, an_inquiry(tool_input={"command": "notify 13812345678"}))
    request = s.until(lambda: next((m for m in s.posts(asked) if "http://countersign.test" in m.text), None))
    assert "13812345678" not in request.text
    s.say(s.lin, "1", to=request)
    assert s.inquiry().state is InquiryState.APPROVED


def _below(s: Scene, asked: Message) -> list[Message]:
    return s.posts(asked)[1:]  # the first is the status


# --- a place that is gone ----------------------------------------------------------------


def _left(s: Scene, chat: Chat) -> None:
    chat.bot = False


def _dissolved(s: Scene, chat: Chat) -> None:
    chat.dissolved = True


def _resigned(s: Scene, chat: Chat) -> None:
    s.mei.resigned = True


@pytest.mark.parametrize(
    ("where", "goes", "code"),
    [("group", _left, 230002), ("group", _dissolved, 232009), ("p2p", _resigned, 230013)],
)
def test_a_place_that_is_gone(
    scene: Make, where: str, goes: Callable[[Scene, Chat], None], code: int
) -> None:
    """The task goes on in the fallback chat, in a thread that says why, and is answered there."""
    s = scene()
    leads = s.feishu.add_chat("group", [s.lin, s.kai], scope="group_msg")
    s.office.doors["feishu"].client.fallback = leads.chat_id
    chat = s.feishu.add_chat("p2p", [s.mei]) if where == "p2p" else s.group
    asked = s.say(s.mei, "重启结算服务", chat=chat, mention=where == "group")
    s.until(lambda: s.posts(asked))
    s.settled()
    goes(s, chat)
    s.office.asks(s.office.task().id)
    root = s.later(lambda: s.feishu.messages(leads))[0]
    assert code in s.calls("/reply")
    assert "任务 #1 在这里继续" in header_of(root)
    assert "重启结算服务" in text_of(root)
    card = s.later(lambda: next((m for m in s.posts(root) if header_of(m).startswith("请求 #1")), None))
    assert s.feishu.click(s.lin, card, "change", form={"words": "先备份"}).ok
    assert s.inquiry().state is InquiryState.CHANGED
    s.say(s.kai, "顺便看看磁盘", to=card)
    assert [f.text for f in s.office.task().follow_ups] == ["顺便看看磁盘"]
    assert [header_of(m) for m in s.feishu.messages(leads)].count(header_of(root)) == 1


def test_a_place_that_is_gone_without_a_fallback(scene: Make) -> None:
    """It is kept and tried again: back in the group, the request stands there."""
    s = scene()
    asked = s.asked()
    s.settled()
    s.group.bot = False
    s.office.asks(s.office.task().id)
    s.later(lambda: [*s.calls("/reply"), *s.calls("PATCH")].count(230002) >= 2)
    s.group.bot = True
    card = s.later(lambda: next((m for m in s.posts(asked) if header_of(m).startswith("请求 #1")), None))
    assert s.feishu.click(s.lin, card, "approve").ok


def test_the_root_message_is_recalled(scene: Make) -> None:
    """The task goes on in a new thread of the same chat, where it is answered."""
    s = scene()
    asked = s.asked()
    s.settled()
    s.feishu.recall(asked)
    s.office.asks(s.office.task().id)
    root = s.later(
        lambda: next((m for m in s.feishu.messages(s.group) if "在这里继续" in header_of(m)), None)
    )
    card = s.later(lambda: next((m for m in s.posts(root) if header_of(m).startswith("请求 #1")), None))
    s.shown()
    s.say(s.lin, "1", to=card)
    assert s.inquiry().state is InquiryState.APPROVED
    assert s.told(root) == ["请求 #1 已记录：已批准。"]


# --- long texts --------------------------------------------------------------------------


def files_of(s: Scene, asked: Message) -> str:
    """The content of the files in a thread."""
    keys = [m.content["file_key"] for m in s.posts(asked) if m.msg_type == "file"]
    return "".join(s.feishu.files[key].data.decode() for key in keys)


def test_case_c10_a_long_command(scene: Make) -> None:
    """50 kB: first the card without a way to say yes, then the whole text as a file, then Approve."""
    s = scene()
    card, asked, _ = s.pending(an_inquiry(tool_input={"command": LONG}))
    first = [b["behaviors"][0]["value"]["verb"] for b in buttons_of(card.original)]
    assert first == ["reject"]
    assert "approve" in controls(card)
    assert files_of(s, asked) == LONG
    file = next(m for m in s.posts(asked) if m.msg_type == "file")
    assert file.sent_at <= card.updates[-1].at
    assert s.feishu.click(s.lin, card, "approve").ok
    assert s.inquiry().state is InquiryState.APPROVED


@pytest.mark.parametrize("route", ["/im/v1/files", "/reply"])
@pytest.mark.parametrize("code", [234006, 5000, 99991400])
def test_case_c10_without_the_file_no_approval(scene: Make, route: str, code: int) -> None:
    """As long as the file is not there nothing approves; once it is, it can be, and it stands once."""
    s = scene()
    asked = s.asked()
    s.settled()
    task = s.office.task()
    if route == "/im/v1/files":
        s.feishu.fail(route, code, times=None)
        s.office.asks(task.id, an_inquiry(tool_input={"command": LONG}))
        card = s.card(asked, "请求 #1")
        s.later(lambda: s.calls(route).count(code) >= 2)
    else:
        s.office.asks(task.id, an_inquiry(tool_input={"command": LONG}))
        s.feishu.fail(route, code, times=2)
        card = s.later(lambda: next((m for m in s.posts(asked) if header_of(m).startswith("请求 #1")), None))
    if route == "/im/v1/files":
        assert controls(card) == ["reject"]
    s.feishu.heal()
    s.later(lambda: "approve" in controls(card))
    s.settled()
    assert files_of(s, asked) == LONG


# --- the store ---------------------------------------------------------------------------


def test_case_e04_c07_a_hung_store_is_said_in_time(scene: Make) -> None:
    """Press and words are told "not recorded" in time; the card shows what is stored, and works again."""
    with private_redis() as server:
        s = scene(url=server.url)
        card, asked, _ = s.pending()
        s.settled()
        s.feishu.click(s.lin, card, "reject", form={"words": ""})  # so that Lin's name is known
        before = text_of(card)
        with hung(server):
            began = monotonic()
            result = s.feishu.click(s.lin, card, "approve")
            assert monotonic() - began < 2.5
            assert result.toast is not None
            assert (result.toast.kind, result.toast.content, result.card) == ("error", NOT_RECORDED, None)
            s.say(s.lin, "3 先备份", to=asked)
            assert s.told(asked) == [NOT_RECORDED]
            again = s.say(s.mei, "重启", mention=True)
            assert s.told(again) == [NOT_RECORDED]
            s.say(s.mei, "午饭？")
            assert text_of(card) == before
        s.until(lambda: s.inquiry().open)
        assert s.feishu.click(s.lin, card, "approve").ok
        assert s.inquiry().state is InquiryState.APPROVED
        s.lives[s.office].close()
