"""What people type below a card on Feishu, and what it means: (said, outcome) in three languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agent_runner.model import Inquiry, InquiryState
from cards.feishu_text import neutral
from tests.bot.feishu.conftest import Scene, controls, unthreaded
from tests.fakes.feishu_model import Message
from tests.fakes.values import QUESTIONS, a_plan, a_question, an_inquiry

Make = Callable[..., Scene]
Row = tuple[str, str]

KEPT = "智能体正忙，你的消息已留存，接下来会读。"
UNCLEAR = "不确定你的意思，所以没有做任何决定。1 批准，2 <修改要求> 修改，3 <理由> 驳回。"
DECIDED = {
    InquiryState.APPROVED: "已批准",
    InquiryState.CHANGED: "修改后批准",
    InquiryState.REJECTED: "已驳回",
    InquiryState.ANSWERED: "已回答",
}


def outcome(inquiry: Inquiry) -> str:
    """What became of a request, with the words or answers that are on record."""
    decision = inquiry.decision
    if decision is None:
        return str(inquiry.state)
    words = decision.reason or decision.conditions or " | ".join((decision.answers or {}).values())
    return f"{inquiry.state}: {words}" if words else str(inquiry.state)


def conversation(s: Scene, request: Inquiry, rows: Sequence[Row]) -> None:
    """Lin says each where such a request is open: an outcome, `kept`, or what is asked back."""
    asked = s.asked()
    task = s.office.task()
    number = 0
    for said, expected in rows:
        if not number or not s.inquiry(number).open:
            [made] = s.asks(task.id, request)
            number = made.number
        before, follow_ups = len(s.told(asked)), len(s.office.store.task(task.id).follow_ups)
        s.say(s.lin, said, to=asked)
        now, told = s.inquiry(number), s.told(asked)[before:]
        kept = len(s.office.store.task(task.id).follow_ups) - follow_ups
        if now.open:
            assert (said, told, kept) == (
                said,
                [KEPT if expected == "kept" else expected],
                int(expected == "kept"),
            )
        else:
            recorded = f"请求 #{number} 已记录：{DECIDED[now.state]}。"
            assert (said, outcome(now), told, kept) == (said, expected, [recorded], 0)


def rejected(*said: str) -> list[Row]:
    """Each is a refusal whose reason is what was said."""
    return [(words, f"rejected: {words}") for words in said]


def changed(*said: str) -> list[Row]:
    """Each is a yes with a condition, which is what was said."""
    return [(words, f"changed: {words}") for words in said]


def test_plain_words_and_numbers_approve(scene: Make) -> None:
    """One exact known form, alone; full-width, circled and bold digits are digits."""
    words = [
        "1",
        "１",
        "①",
        "1。",
        "批准",
        "同意",
        "可以",
        "好的！",
        "ok",
        "Yes.",
        "LGTM",
        "承認",
        "はい",
        "4",
    ]
    conversation(scene(), an_inquiry(), [(said, "approved") for said in words])


def test_case_d01_refusals_never_approve(scene: Make) -> None:
    """However politely, and whatever word of consent stands in it."""
    said = [
        "no, don't allow it",
        "No",
        "not ok",
        "don't approve this",
        "please don't",
        "reject",
        "いいえ",
        "しないでください",
    ]
    conversation(scene(), an_inquiry(), [*rejected(*said), ("3 用灰度", "rejected: 用灰度")])


def test_case_d02_conditions_change(scene: Make) -> None:
    """A yes with a condition carries that condition, word for word."""
    said = [
        "ok but only with --dry-run",
        "yes, but in staging only",
        "はい、ただし先にバックアップ",
        "approve only in staging",
    ]
    rows = [
        *changed(*said),
        ("2 only --dry-run", "changed: only --dry-run"),
        ("2：只在测试环境", "changed: 只在测试环境"),
    ]
    conversation(scene(), an_inquiry(), rows)


def test_case_d03_refusals_in_chinese_and_japanese(scene: Make) -> None:
    """Also with a space in the middle of the word."""
    said = [
        "不 可以",
        "别批准",
        "却下",
        "不同意",
        "不行。",
        "拒绝",
        "驳回，先用灰度",
        "承認しない",
        "やめてください",
        "不",
    ]
    conversation(scene(), an_inquiry(), rejected(*said))


def test_case_d04_conditions_in_chinese(scene: Make) -> None:
    """可以，但是 is no approval."""
    conversation(
        scene(), an_inquiry(), changed("可以，但是先备份", "好的，不过只在测试环境", "同意，前提是先备份")
    )


def test_what_is_not_certain_is_asked_back(scene: Make) -> None:
    """Nothing is decided, and the person is told how to say it."""
    plain = "要批准，请只发 1。要修改后批准，请发 2 和修改要求。"
    rows: list[Row] = [
        ("可以吗？", UNCLEAR),
        ("没问题", UNCLEAR),
        ("ok?", UNCLEAR),
        ("yes but wait", UNCLEAR),
        ("1 但是先备份", plain),
        ("2", "需要怎样修改？请写 2 和修改要求，例如：2 只在 staging 执行"),
        ("3", "为什么不行？请写 3 和理由，智能体会看到你的原话。"),
        ("5", "这里没有选项 5。"),
        ("1,3", "这里没有选项 1,3。"),
        ("#9 1", "请求 #9 在这里不是待定状态。"),
    ]
    conversation(scene(), an_inquiry(), [(said, neutral(told)) for said, told in rows])


LABELS = [{"label": label, "description": ""} for label in ("dev", "staging", "prod")]
ENVIRONMENTS = a_question(tool_input={"questions": [{**QUESTIONS["questions"][1], "options": LABELS}]})


def test_case_d05_numbers_as_people_write_them(scene: Make) -> None:
    """What is not certain is asked back with an example."""
    unsure = "不确定你选的是哪个答案，所以没有提交。请这样回复：1,2"
    both = "answered: dev, prod"
    rows = [
        (said, both)
        for said in (
            "1,3",
            "１，３",
            "①③",
            "1、3",
            "1 3",
            "选1和3",
            "3 和 1",
            "1 & 3",
            "1 and 3",
            "dev, prod",
        )
    ]
    rows += [(said, "answered: staging") for said in ("第二个", "2", "2番", "the second one", "Staging", "②")]
    rows += [("1 或 3", unsure), ("1-3", unsure), ("4", "这里没有选项 4。")]
    conversation(scene(), ENVIRONMENTS, rows)


def test_case_d06_nothing_is_sent_before_the_button(scene: Make) -> None:
    """A tick in the list stays with the client; several choices go out with one press."""
    s = scene()
    card, _, _ = s.pending(ENVIRONMENTS)
    assert controls(card) == ["answer"]
    assert s.feishu.click(s.lin, card, "a0", choose=["0"]).blocked == "not a submit button"
    assert s.inquiry().open
    assert s.feishu.click(s.lin, card, "answer", form={"a0": ["0", "2"]}).ok
    assert outcome(s.inquiry()) == "answered: dev, prod"


def four() -> Inquiry:
    """Four questions, of which the second takes several choices."""
    labels = ("x", "y", "z", "w")
    options = [{"label": f"{label}", "description": ""} for label in labels]
    asked = [
        {"question": f"Q{n}?", "header": f"Q{n}", "multiSelect": n == 2, "options": options}
        for n in (1, 2, 3, 4)
    ]
    return a_question(tool_input={"questions": asked})


def test_case_d07_four_questions_one_reply(scene: Make) -> None:
    """All four in one message, in any order, with own words among them; a part is asked back."""
    rows = [
        ("1a 2b,c 3: use the old one 4d", "answered: x | y, z | use the old one | w"),
        ("1a 2bc 3：用旧的 4d", "answered: x | y, z | 用旧的 | w"),
        ("4d 3: use the old one, 2b 1a", "answered: x | y | use the old one | w"),
        ("1a 2b", "还没有回答：Q3? / Q4?"),
        ("1a 2b 3z 4d", "这里没有选项 z。"),
    ]
    conversation(scene(), four(), rows)


def test_case_d08_own_words_are_kept_whole(scene: Make) -> None:
    """With line breaks, with the separator in them, and with markup."""
    words = "先备份;\n1, 2 <b>然后</b> *重启* | 完"
    rows = [(f"1: {words}", f"answered: {words}"), (f"其他：{words}", f"answered: {words}")]
    conversation(scene(), ENVIRONMENTS, rows)


def test_case_d08_own_words_in_the_form(scene: Make) -> None:
    """Beside the choices of a question that takes several."""
    s = scene()
    card, _, _ = s.pending(ENVIRONMENTS)
    s.feishu.click(s.lin, card, "answer", form={"a0": ["1"], "o0": "以及\n演示环境, 1"})
    assert outcome(s.inquiry()) == "answered: staging, 以及\n演示环境, 1"


def test_case_d09_no_words_no_answer(scene: Make) -> None:
    """Stickers, pictures and blanks decide nothing and are not commented."""
    s = scene()
    _, asked, task = s.pending()
    for kind, text in [
        ("sticker", ""),
        ("image", ""),
        ("file", ""),
        ("audio", ""),
        ("text", " \n "),
        ("text", "👍"),
    ]:
        s.say(s.lin, text, to=asked, msg_type=kind)
    assert s.inquiry().open
    assert s.office.store.task(task.id).follow_ups == ()
    assert s.told(asked) in ([], ["这条消息没有文字，无法处理。"])


@pytest.mark.parametrize("scope", ["group_msg", "group_at_msg"])
def test_case_d10_mentions_before_the_number(scene: Make, scope: str) -> None:
    """The bot's mention, and another person's beside it, are not part of the answer."""
    s = scene(scope=scope)
    _, asked, task = s.pending()
    bot = s.feishu.people._bot()
    for number, people in enumerate(([bot], [bot, s.kai], [s.kai, bot]), 1):
        s.say(s.lin, "1", to=asked, mention=people)
        assert (number, s.inquiry(number).state) == (number, InquiryState.APPROVED)
        s.asks(task.id)


def two(s: Scene) -> tuple[Message, Message, Message]:
    """A thread with requests #1 and #2: both cards, and what was asked."""
    first, asked, _ = s.pending(an_inquiry(), a_plan())
    return first, s.card(asked, "请求 #2"), asked


WHICH = "是哪一个？待定的有 #1, #2。请在前面加上编号，例如 #1 1。"


def test_case_d11_two_open_in_a_thread(scene: Make) -> None:
    """There a reply names the thread's first message alone: asked which; the number says which."""
    s = scene()
    first, second, asked = two(s)
    for said in ("1", "可以", "3 不行"):
        message = s.say(s.lin, said, to=second)
        assert message.parent_id == asked.message_id
        assert (said, s.told(asked)[-1]) == (said, WHICH)
    s.say(s.lin, "#2 1", to=second)
    assert (s.inquiry(1).open, s.inquiry(2).state) == (True, InquiryState.APPROVED)
    s.say(s.lin, "请求 #1：3 先备份", to=first)
    assert outcome(s.inquiry(1)) == "rejected: 先备份"


def test_case_d11_a_reply_that_quotes_a_card(scene: Make) -> None:
    """Where there are no threads, the quoted card says which; a number that contradicts it is asked back."""
    s = scene()
    first, second, asked = two(s)
    unthreaded(first, second, asked)
    conflict = s.say(s.lin, "#1 1", to=second)
    assert conflict.parent_id == second.message_id
    assert s.told(asked) == ["你引用的是 #2，写的却是 #1。指的是哪一个？"]
    s.say(s.lin, "1", to=second)
    assert (s.inquiry(1).open, s.inquiry(2).state) == (True, InquiryState.APPROVED)


@pytest.mark.parametrize(
    "said", ["先看一下日志", "read the log first", "ログを見て", "3个pod挂了", "不过要快一点"]
)
def test_case_d12_words_that_are_no_answer(scene: Make, said: str) -> None:
    """With a question or a request open, they are kept for the agent and nothing is decided."""
    s = scene()
    conversation(s, an_inquiry(), [(said, "kept")])
    conversation(s, four(), [(said, "kept")])


def test_case_d12_words_between_people_are_not_swallowed(scene: Make) -> None:
    """A message to somebody else in the thread is neither kept nor commented, but its number counts."""
    s = scene()
    _, asked, task = s.pending()
    s.say(s.mei, "你怎么看？", to=asked, mention=[s.kai])
    assert (s.told(asked), s.office.store.task(task.id).follow_ups, s.inquiry().open) == ([], (), True)
