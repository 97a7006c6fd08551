"""Several requests decided at once: one write, every check, and what is left open is named."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from redis import Redis

from agent_runner.errors import (
    AlreadyDecided,
    CountersignError,
    Expired,
    FixInput,
    NotAllowed,
    NotFound,
    ShowAgain,
)
from agent_runner.model import Actor, Inquiry, InquiryState, Scope, TaskState, Verdict
from bot import telling
from bot.commands import Chose, ChoseAll, ChoseSeveral, Pressed
from bot.handle import Reply
from bot.together import of_batch, pressed, told_of_all
from cards.model import Verb
from tests.bot.test_handle import KAI, LIN, MEI, ONCALL, Office
from tests.fakes.values import a_plan, an_inquiry

A = an_inquiry()
B = an_inquiry(id="i_2", number=13, tool_use_id="toolu_2", tool_input={"command": "terraform apply p"})
C = an_inquiry(id="i_3", number=14, tool_use_id="toolu_3", tool_input={"command": "echo done"})
SEEN = {12: 1, 13: 1, 14: 1}


@pytest.fixture
def office(fake_redis: Redis) -> Office:
    """An office with an empty store."""
    return Office(fake_redis)


def states(office: Office) -> list[str]:
    """How the requests stand, by number."""
    return [str(i.state) for i in office.store.snapshot("t_1").inquiries]


def choose_all(office: Office, verdict: str = "approve", *, by: Actor = LIN, **words: Any) -> Any:
    """One word about all steps."""
    given = {"seen": SEEN, **words}
    return office.handler.choose_all(ChoseAll(actor=by, inquiry_id="i_1", verdict=Verdict(verdict), **given))


def untouched(office: Office) -> bool:
    """Whether nothing was decided, voted or queued."""
    snap = office.store.snapshot("t_1")
    return all(i.decision is None and not i.votes for i in snap.inquiries) and office.jobs == []


# --- one word about all ------------------------------------------------------------------------


def test_all_steps_are_approved_in_one_write_and_the_turn_goes_on(office: Office) -> None:
    """Each has its decision and its own entry on record; the task's turn is queued once."""
    office.opened(A, B, C)
    before = office.store.task("t_1").revision
    chosen = choose_all(office)
    assert [i.number for i in chosen.steps] == [12, 13, 14]
    assert (chosen.not_allowed, chosen.changed) == ((), ())
    assert states(office) == ["approved"] * 3
    assert office.store.task("t_1").revision == before + 1
    assert office.events() == ["decided"] * 3
    assert office.jobs == [("t_1", 2)]
    assert office.store.task("t_1").state is TaskState.QUEUED
    assert told_of_all(chosen).text("en") == "Recorded for #12-#14: approved."


def test_without_a_veto_all_can_still_be_approved_by_the_others(office: Office) -> None:
    """The answer says so: a rejection is one vote of several."""
    office.opened(A.having(veto=False, quorum=2), B.having(veto=False, quorum=2))
    chosen = choose_all(office, "reject", reason="not today")
    assert states(office) == ["pending"] * 2
    said = "Recorded for #12-#13: rejected. The others can still approve."
    assert told_of_all(chosen).text("en") == said


def test_all_are_rejected_with_the_same_words(office: Office) -> None:
    """The reason reaches each of them; without one nothing is decided."""
    office.opened(A, B)
    with pytest.raises(FixInput):
        choose_all(office, "reject", reason="  ")
    assert untouched(office)
    choose_all(office, "reject", reason="the window is closed", seen=None)
    reasons = [i.decision.reason for i in office.store.snapshot("t_1").inquiries if i.decision]
    assert (states(office), reasons) == (["rejected"] * 2, ["the window is closed"] * 2)


def test_what_is_decided_already_stays_as_it_is(office: Office) -> None:
    """Only open steps are covered; a plan of the same turn is none of them, and keeps the task waiting."""
    office.opened(A, B, C, a_plan(id="i_9", number=15, tool_use_id="toolu_9"))
    office.choose("reject", by=KAI, reason="no")
    chosen = choose_all(office)
    assert [i.number for i in chosen.steps] == [13, 14]
    assert states(office) == ["rejected", "approved", "approved", "pending"]
    assert office.jobs == []


def test_case_b01_steps_of_others_stay_open_and_are_named(office: Office) -> None:
    """Mei decides hers; the one for people on call is left to them, and she is told."""
    office.opened(A, B.having(**ONCALL), C)
    chosen = choose_all(office, by=MEI)
    assert (states(office), chosen.not_allowed) == (["approved", "pending", "approved"], (13,))
    said = told_of_all(chosen).text("en")
    assert said == "Recorded for #12, #14: approved.\nStill open, because you may not decide it: #13."
    assert office.jobs == []


def test_case_b01_who_may_decide_none_is_refused_and_on_record(office: Office) -> None:
    """Nothing is decided, the answer names who may, and the attempt is kept."""
    office.opened(A.having(**ONCALL), B.having(**ONCALL))
    with pytest.raises(NotAllowed) as refused:
        choose_all(office, by=MEI)
    assert refused.value.details["approvers"] == ["Lin", "Kai"]
    assert untouched(office)
    assert office.events() == ["refused_attempt"]


@pytest.mark.parametrize("seen", [{12: 1, 13: 1}, {12: 1, 13: 1, 14: 2}, {12: 1, 13: 1, 14: 0}])
def test_case_b08_a_step_that_was_not_seen_as_it_is_stays_open(office: Office, seen: dict[int, int]) -> None:
    """One that came or changed since is named, and not approved with the rest."""
    office.opened(A, B, C)
    chosen = choose_all(office, seen=seen)
    assert (states(office), chosen.changed) == (["approved", "approved", "pending"], (14,))
    assert "Still open, because it changed since you saw it: #14." in told_of_all(chosen).text("en")


@pytest.mark.parametrize("seen", [{}, {1: 1}, {12: 7, 13: 7, 14: 7}])
def test_case_b08_a_button_that_showed_nothing_of_them_decides_nothing(
    office: Office, seen: dict[int, int]
) -> None:
    """Not a single step was seen as it is: look again."""
    office.opened(A, B, C)
    with pytest.raises(ShowAgain):
        choose_all(office, seen=seen)
    assert untouched(office)


def test_an_approval_of_what_nobody_says_they_saw_is_refused(office: Office) -> None:
    """Neither revisions nor digests: then it is not known what was shown."""
    office.opened(A, B)
    with pytest.raises(FixInput):
        choose_all(office, seen=None)
    assert untouched(office)


def test_digests_stand_for_one_step_each(office: Office) -> None:
    """Of two calls that are the same, one digest approves one; too short a digest approves none."""
    twin = A.having(id="i_2", number=13, tool_use_id="toolu_2")
    office.opened(A, twin, C)
    with pytest.raises(ShowAgain):
        choose_all(office, seen=None, digests=(A.digest[:4], ""))
    chosen = choose_all(office, seen=None, digests=(A.digest, C.digest[:8].upper()))
    assert (states(office), chosen.changed) == (["approved", "pending", "approved"], (13,))


def test_case_b09_a_step_that_needs_two_gets_a_vote_and_people_are_counted(office: Office) -> None:
    """Lin's word is one of two; hers again changes nothing; Kai's completes it."""
    office.opened(A, B.having(quorum=2))
    first = choose_all(office)
    assert states(office) == ["approved", "pending"]
    assert told_of_all(first).text("en").splitlines() == [
        "Recorded for #12: approved.",
        "Recorded for #13: more approvals are needed.",
    ]
    again = choose_all(office, seen={13: 1})
    assert [len(i.votes) for i in again.steps] == [1]
    choose_all(office, by=KAI, seen={13: 2})
    assert (states(office), office.jobs) == (["approved", "approved"], [("t_1", 2)])


def test_case_b06_who_comes_second_is_told_who_was_first(office: Office) -> None:
    """All are decided: nothing changes, and the error says by whom."""
    office.opened(A, B)
    choose_all(office, by=KAI)
    with pytest.raises(AlreadyDecided) as late:
        choose_all(office, "reject", reason="no")
    assert late.value.details["by"] == "Kai"
    assert office.events() == ["decided"] * 2


def test_time_never_approves_with_the_rest(office: Office) -> None:
    """A step whose time is over is not covered, although nobody has closed it yet."""
    over = office.time - timedelta(seconds=1)
    office.opened(A, B.having(expires_at=over))
    choose_all(office)
    assert states(office) == ["approved", "pending"]


def test_all_that_is_over_cannot_be_decided(office: Office) -> None:
    """Nobody answered in time: nothing is approved any more."""
    over = office.time - timedelta(seconds=1)
    office.opened(A.having(expires_at=over), B.having(expires_at=over))
    with pytest.raises(Expired):
        choose_all(office)
    assert untouched(office)


@pytest.mark.parametrize("verdict", ["change", "answer"])
def test_only_yes_and_no_are_said_about_all(office: Office, verdict: str) -> None:
    """Changes are asked for step by step."""
    office.opened(A, B)
    with pytest.raises(FixInput):
        choose_all(office, verdict)
    assert untouched(office)


def test_a_batch_is_found_by_its_name(office: Office) -> None:
    """Its approvals, in order; no other name finds any."""
    office.opened(A, B, a_plan(id="i_9", number=15))
    assert [i.number for i in of_batch(office.handler, "t_1-1-1")] == [12, 13]
    for name in ("t_1-1-2", "t_2-1-1", "again-i_1", "", "t_1"):
        with pytest.raises(NotFound):
            of_batch(office.handler, name)


def test_a_press_without_a_reason_is_asked_back(office: Office) -> None:
    """What the button showed is read back; a refusal of all needs words."""
    office.opened(A, B)

    def press(verb: Verb, seen: str, **fields: list[str]) -> Reply:
        return pressed(
            office.handler,
            Pressed(actor=LIN, verb=verb, revision=2, inquiry_id="i_2", seen=seen, fields=fields),
        )

    assert press(Verb.REJECT_ALL, "12.1 13.1", reason=[" "]) == Reply(key="ask_back.why_reject_all")
    assert untouched(office)
    with pytest.raises(ShowAgain):
        press(Verb.APPROVE_ALL, "12;13")
    reply = press(Verb.APPROVE_ALL, "12.1 13.1")
    assert reply.text("zh") == "已记录 #12-#13：已批准。"


# --- several in one message --------------------------------------------------------------------


def test_a_message_decides_several_steps_in_one_write(office: Office) -> None:
    """Each as it was said, with the words as they were typed; the turn goes on once."""
    office.opened(A, B, C)
    reply = office.say("a1 b3 wait for the “window”, c4", by=LIN)
    decisions = [i.decision for i in office.store.snapshot("t_1").inquiries]
    assert [(d.verdict, d.reason, d.scope) for d in decisions if d] == [
        (Verdict.APPROVE, "", Scope.ONCE),
        (Verdict.REJECT, "wait for the “window”", Scope.ONCE),
        (Verdict.APPROVE, "", Scope.TASK),
    ]
    assert reply.text("en").splitlines() == [
        "Recorded for #12, #14: approved.",
        "Recorded for #13: rejected.",
    ]
    assert (office.jobs, office.events()) == ([("t_1", 2)], ["decided"] * 3)
    assert [g.number for g in office.store.snapshot("t_1").grants] == [14]


def test_conditions_of_one_step_are_named_as_such(office: Office) -> None:
    """They let it run, so nothing is said of a change."""
    office.opened(A, B)
    assert office.say("a2 at most 3 times b1", by=LIN).text("en").splitlines() == [
        "Recorded for #12: approved, under conditions that are checked when it runs.",
        "Recorded for #13: approved.",
    ]


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        ("a1 b1 c1", NotAllowed, "#13: You can't decide this one. These can: Lin, Kai."),
        ("a2 only there b3 no", NotAllowed, "#13: You can't decide this one. These can: Lin, Kai."),
        ("c2 with less a1", FixInput, "#14: Request #14 needs 2 people to approve the same thing."),
    ],
)
def test_of_several_all_are_recorded_or_none(
    office: Office, said: str, error: type[CountersignError], told: str
) -> None:
    """If one may not be decided so, nothing is, and the answer says which it is about."""
    office.opened(A, B.having(**ONCALL), C.having(quorum=2))
    with pytest.raises(error) as refused:
        office.say(said, by=MEI)
    assert untouched(office)
    line = telling.told(refused.value, "en").splitlines()[0]
    assert line == f"{told} Nothing of your answer was recorded."
    assert office.events() == (["refused_attempt"] if error is NotAllowed else [])


def test_a_step_that_somebody_else_decided_meanwhile_stops_the_whole_message(office: Office) -> None:
    """The words were said about both: the other one is not decided on its own."""
    office.opened(A, B)
    office.choose("approve", by=KAI)
    one, two = (Chose(actor=LIN, inquiry_id=i, verdict=Verdict.APPROVE) for i in ("i_1", "i_2"))
    with pytest.raises(AlreadyDecided):
        office.handler.choose_several(ChoseSeveral(actor=LIN, choices=(two, one)))
    assert states(office) == ["approved", "pending"]
    with pytest.raises(FixInput):
        office.handler.choose_several(ChoseSeveral(actor=LIN, choices=(two, two)))
    assert states(office) == ["approved", "pending"]


@pytest.mark.parametrize(
    ("said", "state"),
    [("all 1", InquiryState.APPROVED), ("全部驳回 不行", InquiryState.REJECTED), ("1", InquiryState.PENDING)],
)
def test_all_can_be_typed_and_a_bare_number_decides_nothing(
    office: Office, said: str, state: InquiryState
) -> None:
    """`all 1` and its like are the only words about all of them."""
    office.opened(A, B)
    office.say(said, by=LIN)
    assert states(office) == [state] * 2


def test_every_step_is_reached_by_its_letter(office: Office) -> None:
    """One letter alone is the same as the number in front."""
    asked: tuple[Inquiry, ...] = (A, B, C)
    office.opened(*asked)
    assert office.say("b1", by=LIN).details == {"number": "13"}
    assert office.say("#14 1", by=LIN).details == {"number": "14"}
    assert office.say("1", by=LIN).details == {"number": "12"}
    assert office.jobs == [("t_1", 2)]
