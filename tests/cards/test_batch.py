"""The steps of one turn: which stand together, and what people type about them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.model import REQUEST_APPROVAL, Inquiry, InquiryState, Kind, Scope, Verdict
from cards import batch, posts, text, wording
from cards.batch_card import batch_card
from cards.meant import AskBack, Decide, DecideAll, DecideSeveral, NotAnAnswer, agreed
from cards.model import Actions, Card, Verb
from cards.replies import parse
from cards.spoken import shadow
from tests.cards.examples import (
    APPLIED,
    DATABASE,
    NOTED,
    NOW,
    PLANNED,
    STEP,
    STEPS,
    ZONE,
    asked,
    decided,
    step,
    task,
)

A, B, C = STEPS
CLOSED = B.having(state=InquiryState.REJECTED)


def yes(of: Inquiry, scope: Scope = Scope.ONCE) -> Decide:
    """An approval."""
    return Decide(inquiry_id=of.id, verdict=Verdict.APPROVE, scope=scope)


def no(of: Inquiry, reason: str) -> Decide:
    """A refusal."""
    return Decide(inquiry_id=of.id, verdict=Verdict.REJECT, reason=reason)


def but(of: Inquiry, conditions: str) -> Decide:
    """A change in words."""
    return Decide(inquiry_id=of.id, verdict=Verdict.CHANGE, conditions=conditions)


def several(*decides: Decide) -> DecideSeveral:
    """All of these in one message."""
    return DecideSeveral(decides=decides)


def all_of(*steps: Inquiry, why: str = "") -> DecideAll:
    """One word about all that are open."""
    return DecideAll(
        inquiry_id=steps[0].id,
        verdict=Verdict.REJECT if why else Verdict.APPROVE,
        reason=why,
        seen={one.number: one.revision for one in steps},
    )


# --- which stand together ----------------------------------------------------------------------


def test_approvals_of_one_turn_stand_together_and_nothing_else_does() -> None:
    """A question of the same turn, and a request of another, keep their own cards; order is by number."""
    question = asked(DATABASE, id="q", number=21, batch="batch-2")
    first, last = step(0), step(5, id="z")
    other = step(3, batch="batch-9")
    found = batch.units([last, other, question, first])
    assert [[one.number for one in unit] for unit in found] == [[20, 25], [21], [23]]
    assert batch.steps_of(question, [first, last, question]) == (question,)
    assert batch.steps_of(last, [first, last, question]) == (first, last)


def test_the_27th_step_has_a_card_of_its_own() -> None:
    """There are 26 letters; whatever is beyond them is decided by its number."""
    many = [step(at) for at in range(28)]
    found = batch.units(many)
    assert [len(unit) for unit in found] == [26, 1, 1]
    assert parse("z1", many) == yes(many[25])
    assert parse("#46 1", many) == yes(many[26])
    whole = parse("all 1", many)
    assert isinstance(whole, DecideAll)
    assert len(whole.seen) == 26


def test_letters_stay_when_steps_are_decided() -> None:
    """`c` is the same step before and after `b` was decided."""
    assert parse("c1", [A, CLOSED, C]) == yes(C) == parse("c1", [A, B, C])


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [((7,), "#7"), ((13, 14, 15), "#13-#15"), ((13, 15, 16, 19), "#13, #15-#16, #19")],
)
def test_numbers_are_short(numbers: tuple[int, ...], shown: str) -> None:
    """Neighbours are written as a range."""
    assert batch.ranges(numbers) == shown


@given(st.lists(st.integers(1, 10**6), unique=True, max_size=26), st.text(max_size=40))
def test_what_a_button_shows_comes_back(numbers: list[int], junk: str) -> None:
    """Number and revision of every open step; what is no such text was not seen."""
    steps = [step(0, id=f"i{n}", number=n, revision=n % 7) for n in numbers]
    assert batch.read_seen(batch.seen(steps)) == {n: n % 7 for n in numbers}
    for number, revision in batch.read_seen(junk).items():
        assert f"{number}.{revision}" in re.sub(r"(?<![0-9])0+(?=[0-9])", "", junk)


def test_the_steps_are_one_message_at_the_lowest_number() -> None:
    """Its card is about all of them; where it does not fit, each has its own and says why."""
    of = task()
    look: dict[str, Any] = {"progress": None, "lang": "en", "zone": ZONE, "now": NOW}
    one = posts.posts(of, STEPS, **look)
    assert [post.key for post in one] == ["status", "request:20"]
    assert (one[1].card.numbers, one[1].card.about) == ((20, 21, 22), ("inq-20", "inq-21", "inq-22"))
    apart = posts.posts(of, STEPS, together=lambda steps: len(steps) < 3, **look)
    assert [post.key for post in apart] == ["status", "request:20", "request:21", "request:22"]
    assert all("so each has its own" in text.render(post.card) for post in apart[1:])


def test_what_was_decided_in_one_go_is_told_in_one_message() -> None:
    """An announcement names all requests that one word decided, and those of another word apart."""
    go = {"state": InquiryState.APPROVED, "decision": decided(Verdict.APPROVE)}
    nay = {"state": InquiryState.REJECTED, "decision": decided(Verdict.REJECT, reason="x")}
    shown = posts.posts(
        task(),
        [A.having(**go), B.having(**nay), C.having(**go)],
        progress=None,
        lang="en",
        zone=ZONE,
        now=NOW,
        announce=True,
    )
    told = {post.key: text.render(post.card) for post in shown if post.key.startswith("outcome:")}
    assert told == {
        "outcome:20": "Requests #20, #22: Approved by lin at 14:11",
        "outcome:21": "Request #21: Rejected by lin at 14:11. It did not run.",
    }


# --- the card ----------------------------------------------------------------------------------


def card(*steps: Inquiry, **options: Any) -> Card:
    """The card in English."""
    return batch_card(steps or STEPS, lang="en", zone=ZONE, now=NOW, **options)


def pressable(of: Card) -> list[tuple[Verb, str]]:
    """Verb and request of every button."""
    return [(b.verb, b.inquiry_id) for e in of.elements if isinstance(e, Actions) for b in e.buttons]


def test_only_what_a_reader_may_decide_can_be_pressed() -> None:
    """Of steps that others decide nothing can be pressed; with none of theirs, nothing at all."""
    mine = pressable(card(can_decide={A.id: False, B.id: True, C.id: False}))
    assert {of for verb, of in mine if verb not in (Verb.APPROVE_ALL, Verb.REJECT_ALL)} == {B.id}
    assert pressable(card(can_decide={one.id: False for one in STEPS})) == []


def test_a_button_about_all_says_what_it_shows() -> None:
    """Only open steps, each at its revision: what is decided is what was shown."""
    shown = {
        b.verb: b
        for e in card(A, CLOSED, C.having(revision=8), step(3, batch="batch-2")).elements
        if isinstance(e, Actions)
        for b in e.buttons
    }[Verb.APPROVE_ALL]
    assert (shown.label, shown.seen, shown.inquiry_id) == ("Approve all (3)", "20.3 22.8 23.3", A.id)
    one_left = card(A, CLOSED, C.having(state=InquiryState.APPROVED))
    assert {verb for verb, _ in pressable(one_left)} & {Verb.APPROVE_ALL, Verb.REJECT_ALL} == set()


def test_many_steps_leave_out_what_reaches_further() -> None:
    """Of up to four steps each has its buttons for more than once; of more these are typed."""
    few, many = card(*(step(n) for n in range(4))), card(*(step(n) for n in range(5)))
    assert [verb for verb, _ in pressable(few)].count(Verb.ALWAYS) == 4
    assert Verb.ALWAYS not in [verb for verb, _ in pressable(many)]
    steps = [step(n) for n in range(5)]
    assert parse("d4", steps) == yes(steps[3], Scope.TASK)


def test_the_agents_words_stand_once_if_they_are_the_same() -> None:
    """What it said before all of them is no part of one step; what it said before each is."""
    same, own = "I do all three.", "Now this."
    once = text.render(card(*(one.having(agent_words=same) for one in STEPS)))
    each = text.render(card(A.having(agent_words=same), B.having(agent_words=own), C))
    assert (once.count(same), each.count(same), each.count(own)) == (1, 1, 1)
    assert once.index(same) > once.index("c · #22")


@pytest.mark.parametrize("lang", wording.LANGUAGES)
def test_the_hint_can_be_typed_as_it_says(lang: str) -> None:
    """The examples on the card are understood, in each language."""
    hint = text.render(batch_card(STEPS, lang=lang, zone=ZONE, now=NOW)).splitlines()[-2]
    assert "a1 c3 <" in hint
    word = {"en": "all", "zh": "全部", "ja": "すべて"}[lang]
    assert f"{word} 1" in hint
    assert f"{word} 3 <" in hint
    assert parse(f"{word} 1", STEPS) == all_of(*STEPS)
    assert parse(f"{word} 3 now now", STEPS) == all_of(*STEPS, why="now now")


# --- typed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("a1 b3 wait for the window c1", several(yes(A), no(B, "wait for the window"), yes(C))),
        ("A1, B3: wait for the window; C1", several(yes(A), no(B, "wait for the window"), yes(C))),
        ("ａ１、ｂ３ 等窗口、ｃ１", several(yes(A), no(B, "等窗口"), yes(C))),
        ("a1\nb3 first line\nsecond line\nc1", several(yes(A), no(B, "first line\nsecond line"), yes(C))),
        ("c1 a1", several(yes(C), yes(A))),
        ("a1。b1。", several(yes(A), yes(B))),
        ("a① b③等窗口", several(yes(A), no(B, "等窗口"))),
        ("a2 only in staging, b1", several(but(A, "only in staging"), yes(B))),
        ("a4 b1", several(yes(A, Scope.TASK), yes(B))),
        ("@bot a1 b1", several(yes(A), yes(B))),
        ("b1", yes(B)),
        ("b3 not now!", no(B, "not now!")),
        ("#21 1", yes(B)),
        ("#21 3 see a1 in the log", no(B, "see a1 in the log")),
        ("all 1", all_of(A, B, C)),
        ("ALL1.", all_of(A, B, C)),
        ("approve all", all_of(A, B, C)),
        ("Approve everything!", all_of(A, B, C)),
        ("全部批准", all_of(A, B, C)),
        ("全部１", all_of(A, B, C)),
        ("すべて承認します。", all_of(A, B, C)),
        ("all 3 the window is closed", all_of(A, B, C, why="the window is closed")),
        ("reject all: the window is closed", all_of(A, B, C, why="the window is closed")),
        ("reject all\nbecause a1 is odd", all_of(A, B, C, why="because a1 is odd")),
        ("全部驳回 窗口关闭了", all_of(A, B, C, why="窗口关闭了")),
        ("すべて却下、時間外です", all_of(A, B, C, why="時間外です")),
    ],
)
def test_case_d07_what_is_typed_about_steps(said: str, meant: Any) -> None:
    """Letters in either case and width, what people put between them, and all words as typed."""
    assert parse(said, STEPS) == meant


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("1", "which_step"),
        ("yes", "which_step"),
        ("批准", "which_step"),
        ("3 no", "which_step"),
        ("no, don't", "which_step"),
        ("a1b1", "which_step"),
        ("a 1", "which_step"),
        ("a: 1, b: 1", "which_step"),
        ("approve all but b", "which_step"),
        ("approve a and b", "which_step"),
        ("ok a1 b1", "which_step"),
        ("a1 a1", "step_twice"),
        ("a1 b1 a3 no", "step_twice"),
        ("d1", "no_such_step"),
        ("a1 d3 no", "no_such_step"),
        ("a0", "no_such_step_choice"),
        ("a9 b1", "no_such_step_choice"),
        ("a5", "no_such_step_choice"),
        ("a1 ok", "step_words"),
        ("a1?", "step_words"),
        ("a1吧", "step_words"),
        ("a1 but not in prod b1", "step_words"),
        ("a4 please", "step_words"),
        ("a2", "step_change"),
        ("b1 a3", "step_reject"),
        ("a3: , b1", "step_reject"),
        ("b3 see a1", "step_in_words"),
        ("b3 wait for c1", "step_in_words"),
        ("b3 wait for (c1)", "step_in_words"),
        ("b3 先等c1", "step_in_words"),
        ("b2 use t2/m5 nodes", "step_in_words"),
        ("all 2 in staging", "all_alone"),
        ("all 1 but b", "all_alone"),
        ("all 4", "all_alone"),
        ("all 3", "all_why"),
        ("reject all", "all_why"),
        ("全部驳回。", "all_why"),
    ],
)
def test_what_is_not_certain_is_asked_back(said: str, code: str) -> None:
    """Nothing is decided, and the question back can be said in every language."""
    reply = parse(said, STEPS)
    assert isinstance(reply, AskBack)
    assert reply.code == code
    for lang in wording.LANGUAGES:
        assert wording.ask_back(lang, reply.code, reply.nested, **reply.details)


@pytest.mark.parametrize(
    "said",
    [
        "the cluster is slow today",
        "all 1000 pods are down",
        "all 3rd parties agree",
        "全部3个pod挂了",
        "a10 and b20",
        "look at b1 first",
        "what does b do?",
    ],
)
def test_case_d12_talk_is_no_answer(said: str) -> None:
    """Ordinary words stay words for the agent, whole."""
    assert parse(said, STEPS) == NotAnAnswer(text=said)


def test_which_step_names_the_letters_that_are_open() -> None:
    """A bare answer is asked back with what would answer."""
    reply = parse("1", [A, CLOSED, C])
    details = {"steps": "a (#20), c (#22)", "example": "a1"}
    assert reply == AskBack(code="which_step", details=details)
    assert parse("1", [A, CLOSED]) == yes(A)
    assert parse("b1", [A, CLOSED, C]).kind == "ask_back"


def test_the_card_that_is_replied_to_picks_its_steps() -> None:
    """A reply to the card is about what is on it, and never about anything else that is open."""
    plan = step(9, "ExitPlanMode", {"plan": "x"}, kind=Kind.PLAN, id="p")
    here = [A, B, plan]
    assert parse("b1", here, quoted=(20, 21)) == yes(B)
    assert parse("#21 1", here, quoted=(20, 21)) == yes(B)
    assert parse("1", here, quoted=(20, 21)).kind == "ask_back"
    assert parse("#29 1", here, quoted=(20, 21)) == AskBack(
        code="which_conflict", details={"quoted": "20", "number": "29"}
    )
    done = [A.having(state=InquiryState.APPROVED), CLOSED, plan]
    assert parse("1", done, quoted=(20, 21)) == AskBack(code="no_such_request", details={"number": "20"})
    assert parse("1", [A, CLOSED, plan], quoted=(20, 21)) == yes(A)


def test_what_may_answer_a_question_as_well_is_asked_back() -> None:
    """An option that is called like a piece, or `all 1`, leaves open which is meant."""
    question = asked(("Which rack?", ("a1", "b2"), False), id="q", number=30, batch="batch-2")
    reply = parse("a1", [*STEPS, question])
    assert reply == AskBack(code="which_request", details={"requests": "#20, #21, #22, #30", "number": "20"})
    assert parse("c1", [*STEPS, question]) == yes(C)


def test_a_step_in_words_takes_its_condition_only_by_number() -> None:
    """`a2 <words>` lets such a step go on with the condition; always is not offered for it."""
    words = step(0, REQUEST_APPROVAL, STEP)
    assert parse("a2 after 18:00 b1", [words, B]) == several(but(words, "after 18:00"), yes(B))
    assert parse("a4 b1", [words, B]) == AskBack(code="no_such_step_choice", details={"choice": "a4"})


_NEAR = st.text(alphabet="abcdABC123456 ,、;。.:!?\nａ１allreject全部批准驳回noyes", max_size=24)


@given(st.one_of(st.text(max_size=30), _NEAR))
def test_no_text_approves_a_step_that_it_does_not_name(said: str) -> None:
    """A yes needs the step's letter with 1, 4 or a change, its number, or one of the words for all."""
    every = (PLANNED, APPLIED, NOTED)
    reply = parse(said, every)
    plain = shadow(said)
    for mark, one in zip("abc", every, strict=True):
        if one.id not in agreed(reply, every):
            continue
        named = re.search(rf"(?<![0-9a-z_]){mark}[124](?![0-9a-z_])", plain)
        numbered = re.search(rf"#\s*{one.number}", plain)
        together = re.search(r"all\s*:?\s*1|approve|全部|都批准|批准全部|すべて|全て|all approved", plain)
        assert named or numbered or together, (said, reply)


@given(_NEAR)
def test_all_words_of_an_answer_are_kept(said: str) -> None:
    """What is recorded or passed on holds every letter that was typed, but for the pieces themselves."""
    reply = parse(said, STEPS)
    if not isinstance(reply, DecideSeveral):
        return
    kept = "".join(d.reason + d.conditions for d in reply.decides)
    left = re.sub(r"(?i)[a-cａ-ｃ][1-6１-６]", "", said)
    assert "".join(filter(str.isalnum, left)) == "".join(filter(str.isalnum, kept))
