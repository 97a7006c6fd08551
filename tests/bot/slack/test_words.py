"""What people type in a thread: (said, expected) on Slack's own payloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_runner.model import Inquiry, InquiryState, Verdict
from tests.bot.slack.conftest import Scene, text_of
from tests.fakes.values import a_plan, a_question, an_inquiry

Make = Callable[..., Scene]

APPROVED, CHANGED, REJECTED = InquiryState.APPROVED, InquiryState.CHANGED, InquiryState.REJECTED
UNCLEAR = "Not certain what you mean, so nothing was decided."


def questions(*asked: tuple[str, list[str], bool]) -> Inquiry:
    """An AskUserQuestion with these questions: text, options, whether several may be chosen."""
    rows = [
        {
            "question": text,
            "header": text[:10],
            "multiSelect": many,
            "options": [{"label": label, "description": ""} for label in labels],
        }
        for text, labels, many in asked
    ]
    return a_question(tool_input={"questions": rows})


ONE = ("Which one?", ["red", "green", "blue"], False)
MANY = ("Which ones?", ["red", "green", "blue"], True)


def says(s: Scene, thread: str | None, words: str, by: str | None = None, **more: Any) -> None:
    """Somebody (Lin) writes in the thread."""
    s.slack.say(by or s.lin, s.ops, words, thread_ts=thread, **more)


DECIDED = [
    # D01: a refusal never approves
    ("no, don&#39;t allow it", REJECTED, ""),
    ("no, don’t allow it", REJECTED, ""),
    ("No.", REJECTED, ""),
    ("don't approve this", REJECTED, ""),
    ("not ok", REJECTED, ""),
    # D02: a yes with a condition is a change with those words
    ("ok but only with --dry-run", CHANGED, "ok but only with --dry-run"),
    ("yes, if the canary is green", CHANGED, "yes, if the canary is green"),
    ("2 only &lt;one&gt; pod &amp; no more", CHANGED, "only <one> pod & no more"),
    # D03: refusals in Chinese and Japanese
    ("不 可以", REJECTED, ""),
    ("别批准", REJECTED, ""),
    ("却下", REJECTED, ""),
    # D04: a Chinese yes with a condition
    ("可以，但是先备份", CHANGED, "可以，但是先备份"),
    # plain yes
    ("1", APPROVED, ""),
    ("１", APPROVED, ""),
    ("①", APPROVED, ""),
    ("批准", APPROVED, ""),
    ("承認します", APPROVED, ""),
    # D10: who it is said to is no part of what is said
    ("<@U0BOT> 1", APPROVED, ""),
    ("<@U0BOT|countersign> 3 not today", REJECTED, ""),
    ("3 not today <@U0BOT>", REJECTED, ""),
    ("<@U0BOT>: yes", APPROVED, ""),
]


def test_case_d01_d02_d03_d04_d10_words_decide_as_meant(scene: Make) -> None:
    """Nothing but a plain yes approves; conditions are kept as they were typed."""
    s = scene()
    for said, state, words in DECIDED:
        card, _ = s.pending()
        says(s, card.thread_ts, said)
        conditions = s.decided().conditions
        assert (said, s.inquiry().state, conditions) == (said, state, words)
        assert s.told(s.lin)[0].startswith(f"Recorded for request #{s.number}")


ANSWERED = [
    (ONE, "2", "green"),
    (ONE, "２", "green"),
    (ONE, "②", "green"),
    (ONE, "第二个", "green"),
    (ONE, "选2", "green"),
    (ONE, "<@U0BOT> 2", "green"),
    (ONE, "1: something else", "something else"),
    (MANY, "１，３", "red, blue"),
    (MANY, "①③", "red, blue"),
    (MANY, "1、3", "red, blue"),
    (MANY, "选1和3", "red, blue"),
    (MANY, "1 3", "red, blue"),
]


def test_case_d05_numbers_as_people_write_them(scene: Make) -> None:
    """Full-width, circled, with any separator, in words: the choice that a person means."""
    s = scene()
    for question, said, answer in ANSWERED:
        card, _ = s.pending(questions(question))
        says(s, card.thread_ts, said, s.mei)
        assert (said, s.decided().answers) == (said, {question[0]: answer})
        s.told(s.mei)


def test_case_d05_what_is_not_certain_is_asked_back(scene: Make) -> None:
    """To that person alone, and the question stays open."""
    s = scene()
    for question, said, told in [
        (ONE, "1 2", "Choose only one for: Which one?"),
        (ONE, "7", "There is no choice 7 here."),
        (MANY, "1,9", "There is no choice 9 here."),
    ]:
        card, _ = s.pending(questions(question))
        says(s, card.thread_ts, said, s.mei)
        assert (said, s.told(s.mei)) == (said, [told])
        assert s.inquiry().open


def test_case_d06_ticks_alone_send_nothing(scene: Make) -> None:
    """Several ticks are one answer, sent by its button."""
    s = scene()
    card, _ = s.pending(questions(MANY))
    block = next(b["block_id"] for b in card.blocks if b.get("block_id", "").startswith("answer.0@"))
    assert s.slack.fill(s.mei, card, block, "0") is None
    assert s.slack.fill(s.mei, card, block, "0", "2") is None
    assert s.inquiry().open
    s.slack.click(s.mei, card, "answer")
    assert s.decided().answers == {"Which ones?": "red, blue"}


def test_case_d07_four_questions_one_reply(scene: Make) -> None:
    """Numbers, letters, several choices and own words in one message."""
    s = scene()
    four = [(f"{text}?", ["w", "x", "y", "z"], many) for text, many in zip("ABCD", (0, 1, 0, 0), strict=True)]
    card, _ = s.pending(questions(*[(t, o, bool(m)) for t, o, m in four]))
    says(s, card.thread_ts, "1a 2b,c 3: use the old one 4d", s.mei)
    assert s.decided().answers == {"A?": "w", "B?": "x, y", "C?": "use the old one", "D?": "z"}


def test_case_d08_own_words_are_kept_whole(scene: Make) -> None:
    """Line breaks and separators in them are theirs, whether typed in the thread or into the card."""
    s = scene()
    for words in ["use a, b\nand <c> & d", "1, 2 and 3, in that order", "a; b | c"]:
        card, _ = s.pending(questions(ONE))
        escaped = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        says(s, card.thread_ts, f"1: {escaped}", s.mei)
        assert s.decided().answers == {"Which one?": words}
        s.told(s.mei)
        card, _ = s.pending(questions(ONE))
        block = next(b["block_id"] for b in card.blocks if b.get("block_id", "").startswith("other.0@"))
        s.slack.fill(s.mei, card, block, words)
        s.slack.click(s.mei, card, "answer")
        assert s.decided().answers == {"Which one?": words}


def test_case_d09_what_holds_no_words_answers_nothing(scene: Make) -> None:
    """An image, a sticker, an emoji, a mention alone: the request stays open."""
    s = scene()
    card, _ = s.pending()
    rows: list[dict[str, Any]] = [
        {"text": "", "files": [{"name": "a.png", "content": b"x"}]},
        {"text": "   "},
        {"text": ":thumbsup:"},
        {"text": "👍"},
        {"text": "1", "subtype": "me_message"},
        {"text": "<@U0BOT>"},
    ]
    for row in rows:
        s.slack.say(s.lin, s.ops, thread_ts=card.thread_ts, **row)
    s.quiet()
    assert s.inquiry().open


TWO_OPEN = [
    ("1", "Which one? Open are #{one}, #{two}. Put the number in front, like #{one} 1.", (True, True)),
    ("no", "Which one? Open are #{one}, #{two}. Put the number in front, like #{one} 1.", (True, True)),
    ("#{two} 1", "Recorded for request #{two}: approved.", (True, False)),
    ("＃{two} １", "Recorded for request #{two}: approved.", (True, False)),
    ("#{one} 3 not today", "Recorded for request #{one}: rejected.", (False, True)),
    (
        "request #{two}: 2 only in staging",
        "Recorded for request #{two}: approved with changes.",
        (True, False),
    ),
    ("#77 1", "Request #77 is not open here.", (True, True)),
    ("#{two}", UNCLEAR, (True, True)),
]


def test_case_d11_two_requests_are_open(scene: Make) -> None:
    """A bare number is asked back; with the request's number it counts for that one."""
    s = scene()
    for at, (said, told, still_open) in enumerate(TWO_OPEN):
        one, two = 2 * at + 1, 2 * at + 2
        card, _ = s.pending(an_inquiry(), a_plan())
        second = s.card(str(card.thread_ts), f"request:{two}")
        assert f"put #{two} in front" in text_of(second)
        says(s, card.thread_ts, said.format(one=one, two=two))
        assert s.told(s.lin)[0].startswith(told.format(one=one, two=two))
        assert (said, s.inquiry(one).open, s.inquiry(two).open) == (said, *still_open)


def test_case_d12_words_that_are_no_answer_reach_the_agent(scene: Make) -> None:
    """They are kept for its next turn and told so; the request stays open."""
    s = scene()
    card, task = s.pending()
    said = ["the canary is red", "12 pods are down", "why do you need that?", "I will look at 1 of them"]
    for count, words in enumerate(said, 1):
        says(s, card.thread_ts, words)
        assert s.told(s.lin, count)[-1] == "The agent is busy. Your message is kept and it reads it next."
    assert [f.text for f in s.office.store.task(task.id).follow_ups] == said
    assert s.inquiry().open


def test_words_between_people_are_left_alone(scene: Make) -> None:
    """What mentions somebody else and not the bot is neither an answer nor for the agent."""
    s = scene()
    card, task = s.pending()
    before = s.office.store.messages(task.id)
    for said in ["<@U02> what do you think?", "<@U02|kai> can you look?", "<@U02> <@U04> it is red"]:
        says(s, card.thread_ts, said)
    s.quiet()
    assert (s.inquiry().open, s.whispers(s.lin)) == (True, [])
    assert s.office.store.task(task.id).follow_ups == ()
    assert s.office.store.messages(task.id) == before


def test_an_answer_may_mention_somebody(scene: Make) -> None:
    """The number counts, and the words keep the name."""
    s = scene()
    card, _ = s.pending()
    says(s, card.thread_ts, "3 ask <@U02|kai> first")
    assert s.decided().reason == "ask @kai first"


ASKED_BACK = [
    ("1 please", "To approve, send 1 alone."),
    ("1 but not now", "To approve, send 1 alone."),
    ("2", "What should be different?"),
    ("3", "Why not?"),
    ("9", "There is no choice 9 here."),
    ("1,3", "There is no choice 1,3 here."),
    ("yes, no, wait", UNCLEAR),
    ("ok?", UNCLEAR),
    ("没问题", UNCLEAR),
    ("I approve of the idea", UNCLEAR),
]


def test_unclear_words_are_asked_back_privately(scene: Make) -> None:
    """Nobody else sees it, nothing is decided, and the words are not handed to the agent."""
    s = scene()
    card, task = s.pending()
    before = len(s.posts(str(card.thread_ts)))
    for count, (said, told) in enumerate(ASKED_BACK, 1):
        says(s, card.thread_ts, said)
        answer = s.told(s.lin, count)[-1]
        assert (said, answer[: len(told)]) == (said, told)
    assert s.inquiry().open
    assert s.office.store.task(task.id).follow_ups == ()
    assert len(s.posts(str(card.thread_ts))) == before


def test_case_a12_a_plan_is_decided_by_words(scene: Make) -> None:
    """Approve, change, reject; `always` makes no sense for a plan and is refused."""
    s = scene()
    for said, verdict in [
        ("1", Verdict.APPROVE),
        ("2 start with the cache", Verdict.CHANGE),
        ("3 no", Verdict.REJECT),
    ]:
        card, _ = s.pending(a_plan())
        says(s, card.thread_ts, "4", s.mei)
        assert s.told(s.mei) == ["This request cannot be answered that way."]
        says(s, card.thread_ts, said)
        assert s.decided().verdict is verdict
        s.told(s.lin)


def test_alone_with_the_bot_an_answer_needs_no_thread(scene: Make) -> None:
    """In a direct chat `1` outside of the thread answers what is open there, and begins no job."""
    s = scene()
    room = s.slack.im(s.lin)
    said = s.slack.say(s.lin, room, "restart it")
    s.until(lambda: s.slack.posts(room, said.ts))
    s.office.asks(s.office.task().id)
    s.until(lambda: len(s.slack.posts(room, said.ts)) == 2)
    s.slack.say(s.lin, room, "1")
    s.until(lambda: s.inquiry().state is APPROVED)
    s.quiet()
    assert len(s.tasks()) == 1


def test_an_answer_to_nothing(scene: Make) -> None:
    """A `1` when all is decided is no approval of anything, and is not lost either."""
    s = scene()
    card, task = s.pending()
    says(s, card.thread_ts, "1")
    s.told(s.lin)
    says(s, card.thread_ts, "#1 3 wait")
    assert s.told(s.lin, 2)[1] == "Request #1 is not open here."
    says(s, card.thread_ts, "1")
    assert s.told(s.lin, 3)[2] == "The agent is busy. Your message is kept and it reads it next."
    assert s.inquiry().state is APPROVED
    assert [f.text for f in s.office.store.task(task.id).follow_ups] == ["1"]
