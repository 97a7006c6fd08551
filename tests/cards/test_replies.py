"""What people type and submit, and what it means. Whatever is not certain decides nothing."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.model import REQUEST_APPROVAL, Inquiry, InquiryState, Kind, Scope, Verdict
from cards import choices, spoken, wording
from cards.model import APPROVES
from cards.replies import AskBack, Control, Decide, NotAnAnswer, Nothing, from_form, parse
from cards.spoken import shadow
from tests.cards.examples import DATABASE, ENVIRONMENTS, PLAN, STEP, asked, inquiry, limit

CALL = inquiry()
OTHER = inquiry(id="inq-7", number=7, batch="batch-7")
A_PLAN = inquiry("ExitPlanMode", {"plan": PLAN}, kind=Kind.PLAN)
A_STEP = inquiry(REQUEST_APPROVAL, STEP)
ONE = asked(DATABASE)
MANY = asked(ENVIRONMENTS)
FOUR = asked(
    ("Q1?", ("a1", "b1"), False),
    ("Q2?", ("a2", "b2", "c2"), True),
    ("Q3?", ("a3",), False),
    ("Q4?", ("a4", "b4", "c4", "d4"), False),
)


def approves(text: str, *open_here: Inquiry, quoted: int | None = None) -> bool:
    """Whether a message says yes to anything as it stands."""
    reply = parse(text, open_here or (CALL,), quoted=quoted)
    return isinstance(reply, Decide) and reply.verdict is Verdict.APPROVE


def rejected(reason: str) -> Decide:
    """A refusal of request #12."""
    return Decide(inquiry_id="inq-12", verdict=Verdict.REJECT, reason=reason)


def changed(conditions: str) -> Decide:
    """Request #12 sent back with conditions."""
    return Decide(inquiry_id="inq-12", verdict=Verdict.CHANGE, conditions=conditions)


def answered(**answers: str) -> Decide:
    """Answers to the questions of request #12."""
    return Decide(inquiry_id="inq-12", verdict=Verdict.ANSWER, answers=answers)


YES = Decide(inquiry_id="inq-12", verdict=Verdict.APPROVE)
ALWAYS = Decide(inquiry_id="inq-12", verdict=Verdict.APPROVE, scope=Scope.TASK)
KNOWN_YES = [
    "1",
    "１",
    "①",
    "1.",
    "1。",
    " 1 ",
    "1)",
    "#12 1",
    "＃１２\u30001",
    "请求 #12：1",
    "Request #12 1",
    "#12 批准",
    "yes",
    "Yes.",
    "OK",
    "ok!",
    "ｏｋ",
    "okay",
    "approve",
    "Approved",
    "LGTM",
    "go ahead",
    "do it",
    "yes please",
    "批准",
    "同意",
    "可以",
    "可以。",
    "好的",
    "好",
    "行",
    "通过",
    "好的，可以",
    "承認",
    "承認します",
    "はい",
    "OKです",
    "はい、お願いします",
    "了解です",
]


@pytest.mark.parametrize("text", KNOWN_YES)
def test_exact_forms_approve(text: str) -> None:
    """The number, or a plain word of yes alone, in three languages."""
    assert parse(text, [CALL]) == YES


@pytest.mark.parametrize("text", ["4", "４", "④", "always", "Always for this task", "一直允许", "常に許可"])
def test_always_is_asked_for_exactly(text: str) -> None:
    """Approving for the rest of the task has its own number and words."""
    assert parse(text, [CALL]) == ALWAYS


OFFER = inquiry(given={"command": "git push"}, offer="Bash(git push:*)", offer_for=timedelta(hours=8))
NO_TIME = OFFER.having(offer_for=None)
NO_CHOICE_5 = AskBack(code="no_such_choice", details={"choice": "5"})
NO_CHOICE_6 = AskBack(code="no_such_choice", details={"choice": "6"})


@pytest.mark.parametrize(
    ("of", "text", "reply"),
    [
        (OFFER, "5", Decide(inquiry_id="inq-12", verdict=Verdict.APPROVE, scope=Scope.RULE)),
        (OFFER, "６", Decide(inquiry_id="inq-12", verdict=Verdict.APPROVE, scope=Scope.UNTIL)),
        (OFFER, "#12 ⑤", Decide(inquiry_id="inq-12", verdict=Verdict.APPROVE, scope=Scope.RULE)),
        (OFFER, "5 git pull", AskBack(code="extra_words")),
        (OFFER, "7", AskBack(code="no_such_choice", details={"choice": "7"})),
        (NO_TIME, "5", Decide(inquiry_id="inq-12", verdict=Verdict.APPROVE, scope=Scope.RULE)),
        (NO_TIME, "6", NO_CHOICE_6),
        (CALL, "5", NO_CHOICE_5),
        (CALL, "6", NO_CHOICE_6),
        (CALL, "5 pods are down", NotAnAnswer(text="5 pods are down")),
        (OFFER.having(quorum=2), "5", NO_CHOICE_5),
        (A_PLAN, "5", NO_CHOICE_5),
        (A_STEP.having(offer="mcp__x__y", offer_for=timedelta(hours=8)), "6", NO_CHOICE_6),
    ],
)
def test_a_rule_is_approved_by_its_number_where_it_is_offered(of: Inquiry, text: str, reply: Any) -> None:
    """`5` and `6` mean something only on a request that shows them, and only alone."""
    assert parse(text, [of]) == reply


@pytest.mark.parametrize(
    "text",
    [
        "no, don't allow it",
        "No",
        "nope",
        "no!",
        "don't",
        "Don’t run this",
        "please don't",
        "do not approve",
        "not ok",
        "not approved",
        "reject",
        "Rejected: wrong cluster",
        "deny this",
        "never",
        "no way",
        "no don't",
        "不行",
        "不",
        "别",
        "不同意，先问财务",
        "拒绝",
        "驳回",
        "不要动生产库",
        "否",
        "いいえ",
        "だめです",
        "やめて",
        "承認しない",
    ],
)
def test_case_d01_refusals_never_approve(text: str) -> None:
    """A refusal is a refusal, with the person's words as its reason."""
    assert parse(text, [CALL]) == rejected(text)


@pytest.mark.parametrize(
    "text",
    [
        "ok but only with --dry-run",
        "ok but only --dry-run",
        "Yes, but in staging",
        "ok, staging only",
        "approved if tests pass",
        "はい、stagingだけ",
        "承認、ただし本番以外で",
    ],
)
def test_case_d02_a_yes_with_a_condition_is_a_change(text: str) -> None:
    """The condition is kept word for word, and nothing is approved as it stands."""
    assert parse(text, [CALL]) == changed(text)


@pytest.mark.parametrize(
    "text", ["不 可以", "别批准", "却下", "不可以", "不批准", "不 行", "許可しないでください"]
)
def test_case_d03_refusals_in_other_languages(text: str) -> None:
    """A no that holds a word of yes is a no."""
    assert parse(text, [CALL]) == rejected(text)


@pytest.mark.parametrize(
    "text", ["可以，但是先备份", "可以但是先备份", "好的，先备份", "批准，只在 staging", "同意，前提是有备份"]
)
def test_case_d04_conditions_in_chinese(text: str) -> None:
    """A yes with a condition is a change with those words."""
    assert parse(text, [CALL]) == changed(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2", "what_change"),
        ("2:", "what_change"),
        ("3", "why_reject"),
        ("３。", "why_reject"),
        ("1 but only staging", "extra_words"),
        ("1 2", "extra_words"),
        ("4 please", "extra_words"),
        ("1,3", "no_such_choice"),
        ("5", "no_such_choice"),
        ("13", "no_such_choice"),
        ("1a", "unclear"),
        ("1?", "unclear"),
        ("1/2", "unclear"),
        ("yes?", "unclear"),
        ("ok, what does it do?", "unclear"),
        ("yes but wait", "unclear"),
        ("ok but don't run it", "unclear"),
        ("好，先别动", "unclear"),
        ("可以吗", "unclear"),
        ("没问题", "unclear"),
        ("no problem", "unclear"),
        ("not sure", "unclear"),
        ("不好", "unclear"),
        ("please approve", "unclear"),
        ("I do not approve", "unclear"),
        ("それは却下", "unclear"),
        ("ok\u200b", "unclear"),
        ("#12", "unclear"),
    ],
)
def test_what_is_not_certain_is_asked_back(text: str, code: str) -> None:
    """Half an answer, or one that could mean two things, decides nothing."""
    reply = parse(text, [CALL])
    assert isinstance(reply, AskBack)
    assert reply.code == code


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("2 only in staging", changed("only in staging")),
        ("２：先备份，再执行", changed("先备份，再执行")),
        ("2先备份", changed("先备份")),
        ("2 first line\nsecond line, 3 no", changed("first line\nsecond line, 3 no")),
        ("3 use the canary first", rejected("use the canary first")),
        ("③、不是时候", rejected("不是时候")),
        ("3) no", rejected("no")),
    ],
)
def test_words_after_a_number_are_kept_whole(text: str, decision: Decide) -> None:
    """What follows 2 and 3 reaches the agent as it was typed, line breaks and all."""
    assert parse(text, [CALL]) == decision


NEGATIONS = [
    "no",
    "not",
    "don't",
    "never",
    "nope",
    "不",
    "别",
    "没",
    "勿",
    "否",
    "ない",
    "ません",
    "却下",
    "だめ",
    "refuse",
]


@given(
    before=st.sampled_from(["", *KNOWN_YES, "well,", "@bot"]) | st.text(max_size=12),
    gap=st.sampled_from(["", " ", ", ", "，", "\n"]),
    negation=st.sampled_from(NEGATIONS),
    after=st.sampled_from(["", *KNOWN_YES, "thanks"]) | st.text(max_size=12),
)
def test_no_text_with_a_negation_approves(before: str, gap: str, negation: str, after: str) -> None:
    """Wherever a word of no stands, the message approves nothing."""
    text = f"{before}{gap}{negation}{gap}{after}"
    reads_as_name = text.lstrip().startswith("@") and not gap
    assert reads_as_name or not approves(text)


def _bare(text: str) -> str:
    """A message without its request number, blanks and what separates words."""
    plain = "".join(c for c in shadow(text) if not c.isspace() and c not in ".,!:;~、。)")
    return re.sub(r"^(?:request|请求|請求|依頼)?#12", "", plain)


EXACT = {_bare(form) for form in (*KNOWN_YES, "4", *spoken._APPROVE, *spoken._ALWAYS)}


@given(
    st.text(max_size=20)
    | st.lists(st.sampled_from([*KNOWN_YES, *NEGATIONS, " ", ",", "but", "?"])).map("".join)
)
def test_approving_needs_an_exact_form(text: str) -> None:
    """Random words approve only if they are one of the known forms and nothing else."""
    if approves(text) and not text.lstrip().startswith("@"):
        assert _bare(text) in EXACT


ANY_OPEN: Any = st.lists(st.sampled_from([CALL, OTHER, A_PLAN, A_STEP, ONE, MANY, FOUR]), max_size=3)


@given(
    text=st.text(st.characters(categories=None), max_size=60)
    | st.lists(st.sampled_from([*"1234abcd:,;#①、 \n第个选@<>", "1a", "3: x", "@_user_1"])).map("".join),
    open_here=ANY_OPEN,
    quoted=st.none() | st.sampled_from([7, 12, 99]),
)
def test_parse_never_raises_and_never_answers_with_nothing(
    text: str, open_here: list[Inquiry], quoted: int | None
) -> None:
    """Any text gives a reply; an answer is complete and not empty; every question back has words."""
    reply = parse(text, open_here, quoted=quoted)
    if isinstance(reply, AskBack):
        for lang in wording.LANGUAGES:
            assert wording.ask_back(lang, reply.code, reply.nested, **reply.details)
    if isinstance(reply, Decide) and reply.verdict is Verdict.ANSWER:
        of = next(one for one in open_here if one.id == reply.inquiry_id and one.kind is Kind.QUESTION)
        assert any(
            set(reply.answers or ()) == {question.text for question in choices.questions(one.tool_input)}
            for one in open_here
            if one.kind is of.kind
        )
        assert all((reply.answers or {}).values())
    if isinstance(reply, Decide) and reply.verdict in (Verdict.CHANGE, Verdict.REJECT):
        assert reply.reason or reply.conditions


@pytest.mark.parametrize(
    "text", ["@bot " * 50_000 + "1", " " * 500_000 + "x", "1a " * 100_000, "1: " * 100_000]
)
def test_very_long_messages_are_read_in_time(text: str) -> None:
    """Half a megabyte of anything gets a reply like any other message."""
    for of in (CALL, ONE, FOUR):
        assert parse(text, [of]).kind in ("decide", "ask_back", "not_an_answer", "nothing")


# --- questions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("１，３", "dev, prod"),
        ("①③", "dev, prod"),
        ("1、3", "dev, prod"),
        ("选1和3", "dev, prod"),
        ("3,1", "dev, prod"),
        ("1 3", "dev, prod"),
        ("1 and 3", "dev, prod"),
        ("第二个", "staging"),
        ("第一个和第三个", "dev, prod"),
        ("the second one", "staging"),
        ("2番", "staging"),
        ("1ac", "dev, prod"),
        ("dev, PROD", "dev, prod"),
        ("staging", "staging"),
        ("1: qa", "qa"),
    ],
)
def test_case_d05_numbers_as_people_write_them(text: str, labels: str) -> None:
    """Full-width, circled, Chinese numbers and labels all mean the options they name."""
    assert parse(text, [MANY]) == answered(**{"Which environments?": labels})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1,2", "choose_one"),
        ("1,3", "no_such_choice"),
        ("3", "no_such_choice"),
        ("13", "no_such_choice"),
        ("1-2", "unclear_answer"),
        ("1 but rename it", "unclear_answer"),
        ("1: 2", "unclear_answer"),
        ("1:", "missing_answers"),
        ("2: the old one", "unclear_answer"),
    ],
)
def test_case_d05_what_is_not_certain_is_asked_back(text: str, code: str) -> None:
    """An option that is not there, one too many, or a mixture is asked back."""
    reply = parse(text, [ONE])
    assert isinstance(reply, AskBack)
    assert reply.code == code


def test_case_d05_a_label_that_is_a_number() -> None:
    """Where a number could be a label or a place in the list, nobody guesses."""
    of = asked(("How many replicas?", ("3", "2", "1"), False))
    assert parse("2", [of]) == answered(**{"How many replicas?": "2"})
    assert parse("1", [of]) == AskBack(code="unclear_answer", details={"example": "1"})


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("1a 2b,c 3: use the old one 4d", ("a1", "b2, c2", "use the old one", "d4")),
        ("1A，2BC；3a；4d", ("a1", "b2, c2", "a3", "d4")),
        ("１ａ ２ｂ ３ａ ４ｄ", ("a1", "b2", "a3", "d4")),
        ("4d 3a 2a 1a", ("a1", "a2", "a3", "d4")),
        ("1: a 2: b,c 3: own 4: d4", ("a1", "b2, c2", "own", "d4")),
        ("1: a, 2: b; 3: own, 4: d", ("a1", "b2", "own", "d4")),
        ("1a\n2b c\n3a\n4b", ("a1", "b2, c2", "a3", "b4")),
    ],
)
def test_case_d07_four_questions_one_reply(text: str, answers: tuple[str, ...]) -> None:
    """One line answers all questions, each with its own option or words."""
    assert parse(text, [FOUR]) == answered(**dict(zip(("Q1?", "Q2?", "Q3?", "Q4?"), answers, strict=True)))


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("1a 2b", AskBack(code="missing_answers", details={"questions": "Q3? / Q4?"})),
        ("1ab 2a 3a 4a", AskBack(code="choose_one", details={"question": "Q1?"})),
        ("1z 2a 3a 4a", AskBack(code="no_such_choice", details={"choice": "z"})),
        ("1a 2a 3: see 4b 4d", AskBack(code="unclear_answer", details={"example": "1a 2ab 3a 4a"})),
        ("1,2", AskBack(code="unclear_answer", details={"example": "1a 2ab 3a 4a"})),
        ("1a 1b", AskBack(code="unclear_answer", details={"example": "1a 2ab 3a 4a"})),
    ],
)
def test_case_d07_incomplete_or_unclear_replies(text: str, reply: AskBack) -> None:
    """The questions that are left are named; what has two readings is asked back."""
    assert parse(text, [FOUR]) == reply


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1: the old one", "the old one"),
        ("1：旧的那个，2 号机房", "旧的那个，2 号机房"),
        (
            "1: line one\nline two, 2: not a second answer\n3: nor this",
            "line one\nline two, 2: not a second answer\n3: nor this",
        ),
        ("other: a, b; c: d", "a, b; c: d"),
        ("其他：都不要", "都不要"),
    ],
)
def test_case_d08_own_words_are_kept_whole(text: str, words: str) -> None:
    """Own words keep their line breaks, and separators inside them separate nothing."""
    assert parse(text, [ONE]) == answered(**{"Which database?": words})


def test_case_d08_own_words_of_several_lines_among_others() -> None:
    """The same where other questions are answered beside them."""
    reply = parse("1a\n2b\n3: first, then\nsecond; third\n4d", [FOUR])
    assert reply == answered(**{"Q1?": "a1", "Q2?": "b2", "Q3?": "first, then\nsecond; third", "Q4?": "d4"})


@pytest.mark.parametrize("text", ["", " ", "\n", "\u200b", "👍", "…", "@bot", "<@U123>", "@_user_1 ", "!!"])
@pytest.mark.parametrize("open_here", [[], [CALL], [ONE], [CALL, OTHER]])
def test_case_d09_no_words_are_no_answer(text: str, open_here: list[Inquiry]) -> None:
    """Stickers, blanks and bare mentions decide nothing and are no follow-up."""
    assert parse(text, open_here) == Nothing()


@pytest.mark.parametrize(
    "text",
    [
        "@bot 1",
        "@countersign，1",
        "<@U123> 1",
        "<@U123|bot> １",
        "@_user_1 1",
        "@_user_1 @_user_2 批准",
        "1 @_user_1",
        '<at user_id="ou_1">bot</at> 1',
        "@bot #12 1",
        "@bot\u20051",
    ],
)
def test_case_d10_mentions_are_stripped(text: str) -> None:
    """Names and placeholders in front of an answer are not part of it."""
    assert parse(text, [CALL]) == YES


@pytest.mark.parametrize("text", ["1", "yes", "no", "2 only staging", "3 why", "4", "5"])
def test_case_d11_two_open_one_number(text: str) -> None:
    """With two requests open an answer without a number is asked back; nothing is decided."""
    details = {"requests": "#7, #12", "number": "7"}
    assert parse(text, [CALL, OTHER]) == AskBack(code="which_request", details=details)


def test_case_d11_the_message_replied_to_tells_which() -> None:
    """A number in front, or the card that is replied to, picks the request; a contradiction picks none."""
    assert parse("#7 1", [CALL, OTHER]) == Decide(inquiry_id="inq-7", verdict=Verdict.APPROVE)
    assert parse("1", [CALL, OTHER], quoted=7) == Decide(inquiry_id="inq-7", verdict=Verdict.APPROVE)
    conflict = AskBack(code="which_conflict", details={"quoted": "7", "number": "12"})
    assert parse("#12 1", [CALL, OTHER], quoted=7) == conflict
    gone = AskBack(code="no_such_request", details={"number": "99"})
    assert parse("#99 1", [CALL, OTHER]) == gone
    assert parse("1", [CALL], quoted=99) == gone
    assert parse("yes", [], quoted=99) == gone
    assert parse("1", [FOUR, CALL.having(id="x", number=3)]).kind == "ask_back"


@pytest.mark.parametrize(
    "text",
    [
        "which one do you prefer?",
        "no",
        "yes",
        "the database is down",
        "2nd thoughts, look at the logs first",
        "2 pods died",
        "别急，我先看看",
        "ちょっと待って",
        "#7 is the ticket",
    ],
)
@pytest.mark.parametrize("of", [MANY, FOUR])
def test_case_d12_talk_is_not_swallowed_by_a_question(text: str, of: Inquiry) -> None:
    """Words that answer nothing come back whole, for the agent's next turn or for a hint."""
    reply = parse(f"@bot {text}", [of])
    assert reply == NotAnAnswer(text=text) or isinstance(reply, AskBack)
    if not text[0].isdigit():
        assert reply == NotAnAnswer(text=text)


@pytest.mark.parametrize(
    "text",
    [
        "hello there",
        "10 more minutes",
        "2nd try went well",
        "3个pod挂了",
        "1.5 hours later",
        "2:00 pm is better",
        "好像坏了",
        "不过这个命令是什么",
        "yesterday it worked",
        "now what",
        "#7 is broken",
    ],
)
def test_case_d12_talk_is_not_swallowed_by_an_approval(text: str) -> None:
    """The same while a request is open."""
    assert parse(text, [CALL]) == NotAnAnswer(text=text)
    assert parse(text, [CALL, inquiry(id="inq-8", number=8)]) == NotAnAnswer(text=text)


@pytest.mark.parametrize("text", ["1", "yes", "no", "3 why", "1a 2b"])
def test_with_nothing_open_everything_is_talk(text: str) -> None:
    """Without a request there is nothing to answer."""
    assert parse(text, []) == NotAnAnswer(text=text)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("stop", "stop"),
        ("Stop!", "stop"),
        ("停止", "stop"),
        ("ストップ", "stop"),
        ("status", "status"),
        ("状态", "status"),
        ("help", "help"),
        ("?", "help"),
        ("？", "help"),
        ("retry", "retry"),
        ("重试", "retry"),
        ("@bot 再試行", "retry"),
    ],
)
@pytest.mark.parametrize("open_here", [[], [CALL], [CALL, OTHER], [ONE]])
def test_commands(text: str, command: Any, open_here: list[Inquiry]) -> None:
    """Commands work whatever is open, as the whole message only."""
    assert parse(text, open_here) == Control(command=command)


def test_a_command_that_is_an_option_is_asked_back() -> None:
    """Where `Stop` is one of the options, nobody guesses which is meant."""
    of = asked(("What next?", ("Go on", "Stop"), False))
    assert parse("stop", [of]) == AskBack(code="unclear_answer", details={"example": "1"})
    assert parse("2", [of]) == answered(**{"What next?": "Stop"})


@pytest.mark.parametrize(
    ("of", "text", "reply"),
    [
        (A_PLAN, "1", YES),
        (A_PLAN, "4", AskBack(code="not_that_verb")),
        (A_PLAN, "2 fewer steps", changed("fewer steps")),
        (A_PLAN, "ok but only step 1", changed("ok but only step 1")),
        (A_STEP, "2 after 18:00", changed("after 18:00")),
        (A_STEP, "ok but only after 18:00", AskBack(code="unclear")),
        (A_STEP, "4", AskBack(code="not_that_verb")),
        (inquiry(quorum=2), "4", AskBack(code="not_that_verb")),
        (inquiry(state=InquiryState.APPROVED), "1", NotAnAnswer(text="1")),
        (inquiry("AskUserQuestion", {"questions": "broken"}, kind=Kind.QUESTION), "1", NotAnAnswer(text="1")),
    ],
)
def test_what_a_request_does_not_offer_cannot_be_chosen(of: Inquiry, text: str, reply: Any) -> None:
    """Plans and steps are never approved for good, and a step's condition takes the clear form."""
    assert parse(text, [of]) == reply


# --- limits --------------------------------------------------------------------------------

MONEY = limit("usd", 2.03, 2, 2)
CALLS = limit("model_turns", 200, 200, 200)


def more(amount: float, of: Inquiry = MONEY) -> Decide:
    """Going on with another amount."""
    changed_to = {**of.tool_input, "more": amount}
    return Decide(inquiry_id="inq-12", verdict=Verdict.CHANGE, input=changed_to)


WHAT = AskBack(code="what_amount", details={"most": "20"})
BAD = AskBack(code="bad_amount", details={"most": "20"})


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("1", YES),
        ("yes", YES),
        ("go on", YES),
        ("Go on!", YES),
        ("继续", YES),
        ("続けて。", YES),
        ("#12 go on", YES),
        ("2 5", more(5)),
        ("２　５", more(5)),
        ("2: 5", more(5)),
        ("2 0.50", more(0.5)),
        ("2 $5", more(5)),
        ("2 5 dollars more", more(5)),
        ("2 5美元", more(5)),
        ("2 5ドル", more(5)),
        ("2 20", more(20)),
        ("2", WHAT),
        ("ok but only 1", WHAT),
        ("好的，但是只给 1 美元", WHAT),
        ("2 0", BAD),
        ("2 20.01", BAD),
        ("2 -5", BAD),
        ("2 1e3", BAD),
        ("2 inf", BAD),
        ("2 2,5", BAD),
        ("2 5 and 6", BAD),
        ("2 a lot", BAD),
        ("2 five", BAD),
        ("3", AskBack(code="why_reject")),
        ("3 enough", rejected("enough")),
        ("no, enough", rejected("no, enough")),
        ("4", AskBack(code="not_that_verb")),
        ("5", AskBack(code="no_such_choice", details={"choice": "5"})),
        ("2.5", AskBack(code="no_such_choice", details={"choice": "2.5"})),
        ("go on without me", NotAnAnswer(text="go on without me")),
        ("how far is it?", NotAnAnswer(text="how far is it?")),
    ],
)
def test_case_e10_what_is_typed_about_a_limit(text: str, reply: Any) -> None:
    """A plain yes allows what is asked for, `2` one plain amount within bounds, all else is asked back."""
    assert parse(text, [MONEY]) == reply


def test_model_calls_are_whole() -> None:
    """Half a call cannot be allowed."""
    assert parse("2 50 turns", [CALLS]) == more(50, CALLS)
    assert parse("2 50.5", [CALLS]) == AskBack(code="bad_amount", details={"most": "2000"})


@pytest.mark.parametrize(
    ("fields", "reply"),
    [
        ({"input.more": ["5"]}, more(5)),
        ({"input.more": ["2"], "conditions": ["5"]}, more(5)),
        ({"input.more": ["5"], "conditions": ["be careful"]}, BAD),
        ({"input.more": ["5"], "conditions": ["7"]}, BAD),
        ({"input.more": ["2"]}, WHAT),
    ],
)
def test_a_form_gives_one_amount(fields: dict[str, list[str]], reply: Any) -> None:
    """In its field or in words; of both, neither is dropped: it is asked back."""
    assert from_form(MONEY, "change", fields) == reply


@pytest.mark.parametrize("text", ["go on", "继续"])
def test_going_on_approves_nothing_else(text: str) -> None:
    """These words are a yes to a limit alone."""
    assert parse(text, [CALL]) == NotAnAnswer(text=text)


@given(st.text(max_size=12), st.sampled_from([MONEY, CALLS]))
def test_no_amount_is_out_of_bounds(typed: str, of: Inquiry) -> None:
    """Whatever is typed or submitted, what is decided lies above nothing and within ten times the step."""
    submitted = {"input.more": [typed]}
    for reply in (parse(f"2 {typed}", [of]), parse(typed, [of]), from_form(of, "change", submitted)):
        if isinstance(reply, Decide) and reply.input is not None:
            assert 0 < reply.input["more"] <= 10 * of.tool_input["more"]
            assert {**reply.input, "more": of.tool_input["more"]} == of.tool_input


# --- forms ---------------------------------------------------------------------------------

EDITABLE = inquiry(
    given={"command": "ls", "timeout": 5, "ratio": 0.5, "bg": False, "env": {"A": [1]}, "x": None}
)


@pytest.mark.parametrize(
    ("fields", "edited"),
    [
        ({"input.command": ["ls -la"]}, {"command": "ls -la"}),
        ({"input.command": ["a\r\nb⟨U+200B⟩"]}, {"command": "a\nb\u200b"}),
        ({"input.timeout": ["7"], "input.command": ["ls"]}, {"timeout": 7}),
        ({"input.timeout": ["7.5"]}, {"timeout": 7.5}),
        ({"input.bg": ["true"]}, {"bg": True}),
        ({"input.env": ['{"A": [2]}']}, {"env": {"A": [2]}}),
        ({"input.x": ['"y"']}, {"x": "y"}),
    ],
)
def test_edited_fields_become_the_input(fields: dict[str, list[str]], edited: dict[str, Any]) -> None:
    """Edits are read by the kind of their field; the rest of the input stays as it was."""
    reply = from_form(EDITABLE, "change", fields)
    assert isinstance(reply, Decide)
    assert reply.input == {**EDITABLE.tool_input, **edited}
    assert list(reply.input) == list(EDITABLE.tool_input)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"input.timeout": ["soon"]}, "bad_field"),
        ({"input.timeout": ["true"]}, "bad_field"),
        ({"input.timeout": ["1e999"]}, "bad_field"),
        ({"input.bg": ["1"]}, "bad_field"),
        ({"input.env": ["{"]}, "bad_field"),
        ({"input.env": ["NaN"]}, "bad_field"),
        ({"input.env": ["[" * 100_000]}, "bad_field"),
        ({"input.command": ["⟨U+D800⟩"]}, "bad_field"),
        ({"input.command": ["⟨U+0041×999999⟩" * 100]}, "bad_field"),
        ({"input.other": ["x"]}, "bad_field"),
        ({"input.timeout": ["5"], "conditions": ["  "]}, "what_change"),
        ({}, "what_change"),
    ],
)
def test_edits_that_cannot_be_read_are_asked_back(fields: dict[str, list[str]], code: str) -> None:
    """A value of the wrong kind, an unknown field or no change at all decides nothing."""
    reply = from_form(EDITABLE, "change", fields)
    assert isinstance(reply, AskBack)
    assert reply.code == code
    assert wording.ask_back("en", reply.code, reply.nested, **reply.details)


@pytest.mark.parametrize(
    ("of", "verb", "fields", "reply"),
    [
        (CALL, "approve", {}, YES),
        (CALL, "always", {}, ALWAYS),
        (CALL, "reject", {"reason": [" use the canary\r\nfirst "]}, rejected("use the canary\nfirst")),
        (CALL, "reject", {"reason": [" "]}, AskBack(code="why_reject")),
        (CALL, "reject", {}, AskBack(code="why_reject")),
        (CALL, "change", {"conditions": ["only staging"]}, changed("only staging")),
        (CALL, "answer", {"answer.0": ["0"]}, AskBack(code="not_that_verb")),
        (CALL, "stop", {}, AskBack(code="not_that_verb")),
        (CALL, "APPROVE", {}, AskBack(code="not_that_verb")),
        (A_PLAN, "always", {}, AskBack(code="not_that_verb")),
        (OFFER, "always_rule", {}, Decide(inquiry_id="inq-12", verdict=Verdict.APPROVE, scope=Scope.RULE)),
        (OFFER, "always_until", {}, Decide(inquiry_id="inq-12", verdict=Verdict.APPROVE, scope=Scope.UNTIL)),
        (CALL, "always_rule", {}, AskBack(code="not_that_verb")),
        (NO_TIME, "always_until", {}, AskBack(code="not_that_verb")),
        (
            A_STEP,
            "change",
            {"input.title": ["x"]},
            AskBack(code="bad_field", details={"field": "input.title"}, nested={"kind": "kind.text"}),
        ),
        (MONEY, "approve", {}, YES),
        (MONEY, "change", {"input.more": ["5"]}, more(5)),
        (MONEY, "change", {"input.more": ["2"]}, WHAT),
        (MONEY, "change", {"input.more": ["2"], "conditions": ["7"]}, more(7)),
        (MONEY, "change", {"input.more": ["2"], "conditions": ["as little as you can"]}, BAD),
        (MONEY, "change", {"input.more": ["99"]}, BAD),
        (MONEY, "change", {}, WHAT),
        (MONEY, "always", {}, AskBack(code="not_that_verb")),
        (limit("usd", 3, 2, 2, state=InquiryState.EXPIRED), "change", {}, AskBack(code="not_that_verb")),
        (ONE, "approve", {}, AskBack(code="not_that_verb")),
        (inquiry(state=InquiryState.EXPIRED), "ask_again", {}, AskBack(code="not_that_verb")),
        (ONE, "answer", {"answer.0": ["1"]}, answered(**{"Which database?": "MySQL"})),
        (
            ONE,
            "answer",
            {"answer.0": ["other"], "other.0": ["old\r\none"]},
            answered(**{"Which database?": "old\none"}),
        ),
        (ONE, "answer", {"other.0": ["old one"]}, answered(**{"Which database?": "old one"})),
        (ONE, "answer", {"answer.0": ["2"]}, AskBack(code="no_such_choice", details={"choice": "2"})),
        (ONE, "answer", {"answer.0": ["-1"]}, AskBack(code="no_such_choice", details={"choice": "-1"})),
        (
            ONE,
            "answer",
            {"answer.0": ["0", "1"]},
            AskBack(code="choose_one", details={"question": "Which database?"}),
        ),
        (
            ONE,
            "answer",
            {"answer.0": ["0"], "other.0": ["old"]},
            AskBack(code="choice_and_words", details={"question": "Which database?"}),
        ),
    ],
)
def test_forms(of: Inquiry, verb: str, fields: dict[str, list[str]], reply: Any) -> None:
    """Buttons and forms mean what they say; what is missing or does not belong is asked back."""
    assert from_form(of, verb, fields) == reply


def test_case_d06_several_choices_are_sent_together() -> None:
    """A multi-select answer holds all ticks, in the order of the options, and own words last."""
    fields = {"answer.0": ["2", "0", "other"], "other.0": ["qa"]}
    assert from_form(MANY, "answer", fields) == answered(**{"Which environments?": "dev, prod, qa"})


@pytest.mark.parametrize("fields", [{}, {"answer.0": [""]}, {"answer.0": ["other"]}, {"other.0": [" \r\n "]}])
def test_case_a10_an_empty_answer_is_never_sent(fields: dict[str, list[str]]) -> None:
    """Nothing picked and nothing written is no answer."""
    missing = AskBack(code="missing_answers", details={"questions": "Which database?"})
    assert from_form(ONE, "answer", fields) == missing


@given(
    of=st.sampled_from([CALL, OFFER, EDITABLE, A_PLAN, A_STEP, ONE, MANY, FOUR]),
    verb=st.sampled_from(["change", "reject", *(verb.value for verb in APPROVES), "answer", "stop", ""]),
    fields=st.dictionaries(
        st.sampled_from(
            ["reason", "conditions", "input.command", "input.env", "answer.0", "answer.1", "other.0", "x"]
        ),
        st.lists(
            st.text(st.characters(categories=None), max_size=8) | st.sampled_from(["0", "1", "other"]),
            max_size=3,
        ),
    ),
)
def test_no_form_raises(of: Inquiry, verb: str, fields: dict[str, list[str]]) -> None:
    """Whatever is submitted gives a decision or a question back, and approves only by its own verb."""
    reply = from_form(of, verb, fields)
    assert isinstance(reply, Decide | AskBack)
    if isinstance(reply, Decide) and reply.verdict is Verdict.APPROVE:
        assert verb in APPROVES
