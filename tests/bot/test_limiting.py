"""Decisions with conditions that are checked: by words, by the form, by the API; and what is refused."""

from __future__ import annotations

from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from agent_runner.aggregate import Changes
from agent_runner.errors import FixInput, Unfit
from agent_runner.model import Condition, ConditionKind, Grant, Inquiry, Scope, before
from bot import telling
from bot.commands import Chose
from bot.handle import Reply
from cards import replies
from tests.bot.test_handle import EDITED, LIN, MEI, STEP, Office
from tests.fakes.values import COMMAND, NOW, a_decision, a_plan, a_question, an_inquiry, at

AT_18 = before(at(4 * 3600))
TWICE = Condition(kind=ConditionKind.TIMES, value="2")
RESTART = Condition(kind=ConditionKind.WITH, value="/rollout +restart/")


@pytest.fixture
def office(fake_redis: Redis) -> Office:
    """An office with an empty store; it is one minute past two there."""
    return Office(fake_redis)


WAYS: dict[str, Any] = {
    "typed": lambda office, text: office.say(f"2 {text}"),
    "form": lambda office, text: office.handler.choose(
        Chose.meant(MEI, _form(office.store.inquiry("i_1"), text), revision=1)
    ),
    "API": lambda office, text: office.choose("change", conditions=text),
}


def _form(inquiry: Inquiry, text: str) -> replies.Decide:
    meant = replies.from_form(
        inquiry, "change", {"conditions": [text], "input.command": [COMMAND["command"]]}
    )
    assert isinstance(meant, replies.Decide)
    return meant


@pytest.mark.parametrize("way", WAYS)
def test_conditions_let_the_call_run(office: Office, way: str) -> None:
    """Words that are nothing but conditions are data, whichever way they came; the words are kept, too."""
    office.opened(an_inquiry())
    said = r"only before 18:00, only with /rollout +restart/, at most 2 times"
    WAYS[way](office, said)
    inquiry = office.store.inquiry("i_1")
    assert inquiry.decision is not None
    assert (
        inquiry.state.value,
        inquiry.run_allowed,
        inquiry.decision.limits,
        inquiry.decision.conditions,
    ) == (*("changed", True, (AT_18, RESTART, TWICE), said),)
    assert office.jobs == [("t_1", 2)]
    assert office.events() == ["decided", "grant_given"]
    assert [(g.id, g.times, g.used, g.until, g.rule) for g in office.handler.grants()] == [
        ("g12", 2, 0, at(4 * 3600), "")
    ]


@pytest.mark.parametrize("way", WAYS)
def test_words_send_the_call_back(office: Office, way: str) -> None:
    """As ever: one word that is no condition, and nothing runs before the revised call was seen."""
    office.opened(an_inquiry())
    WAYS[way](office, "only in staging, at most 2 times")
    inquiry = office.store.inquiry("i_1")
    assert inquiry.decision is not None
    assert (inquiry.state.value, inquiry.run_allowed, inquiry.decision.limits) == ("changed", False, ())
    assert office.store.grants(NOW) == ()


def test_the_answer_says_which_of_both_it_was(office: Office) -> None:
    """A person who typed conditions learns whether the call may run or goes back."""
    office.opened(an_inquiry())
    reply = office.say("2 at most 2 times")
    assert reply == Reply(key="reply.decided", details={"number": "12"}, nested={"what": "verdict.limits"})
    assert reply.text("en") == (
        "Recorded for request #12: approved, under conditions that are checked when it runs."
    )


def test_an_edited_call_has_conditions_as_well(office: Office) -> None:
    """They are checked for the call as edited, and the grant is for that one."""
    office.opened(an_inquiry())
    staging = Condition(kind=ConditionKind.WITH, value="-n staging")
    office.choose("change", input=EDITED, limits=(staging, TWICE))
    inquiry = office.store.inquiry("i_1")
    assert inquiry.decision is not None
    assert (inquiry.effective_input, inquiry.decision.limits) == (EDITED, (staging, TWICE))
    assert [g.digest == inquiry.digest for g in office.handler.grants()] == [False]


def test_a_remark_beside_an_edit_stays_a_remark(office: Office) -> None:
    """With an edit, words are for the agent to read, limits or not."""
    office.opened(an_inquiry())
    office.choose("change", input=EDITED, conditions="watch it, please", limits=(TWICE,))
    decision = office.store.inquiry("i_1").decision
    assert decision is not None
    assert (decision.conditions, decision.limits) == ("watch it, please", (TWICE,))


@pytest.mark.parametrize("inquiry", [a_plan(), STEP], ids=["plan", "step"])
def test_a_plan_and_a_step_take_conditions_in_words(office: Office, inquiry: Inquiry) -> None:
    """A step's condition is its answer, a plan goes back with it: nothing there could be checked."""
    office.opened(inquiry)
    office.choose("change", conditions="only before 18:00")
    decision = office.store.inquiry("i_1").decision
    assert decision is not None
    assert (decision.conditions, decision.limits, office.store.grants(NOW)) == ("only before 18:00", (), ())


def limit(kind: str, value: str) -> Condition:
    """A condition as data."""
    return Condition(kind=ConditionKind(kind), value=value)


WRITE = an_inquiry(tool_name="Write", tool_input={"file_path": "prod/a.md", "content": "x"})
REFUSED: dict[str, tuple[Inquiry, str, dict[str, Any], str]] = {
    "a time that is over": (
        an_inquiry(),
        "change",
        {"conditions": "only before 2026-03-02 14:01"},
        "2026-03-02 14:01 is over already, so it could never run.",
    ),
    "never": (an_inquiry(), "change", {"conditions": "at most 0 times"}, "0 times is never."),
    "too often": (
        an_inquiry(),
        "change",
        {"conditions": "at most 101 times"},
        "At most 100 runs can be approved at once.",
    ),
    "not in the call": (
        an_inquiry(),
        "change",
        {"conditions": "only with --dry-run"},
        "--dry-run is not in this call, so it could never run.",
    ),
    "not in the call as edited": (
        an_inquiry(),
        "change",
        {"input": EDITED, "limits": (limit("with", "/prod$/"),)},
        "/prod$/ is not in this call, so it could never run.",
    ),
    "a pattern that is none": (
        an_inquiry(),
        "change",
        {"conditions": "only with /(a/"},
        "/(a/ is not a pattern that can be searched for.",
    ),
    "outside": (
        WRITE,
        "change",
        {"conditions": "only in ./staging"},
        "This call reaches outside ./staging, so it could never run.",
    ),
    "a command that nobody can check": (
        an_inquiry(),
        "change",
        {"conditions": "only in ./staging"},
        "Whether this call stays inside ./staging cannot be checked.",
    ),
    "one of several": (
        an_inquiry(),
        "change",
        {"conditions": "only before 18:00; only with --dry-run"},
        "--dry-run is not in this call, so it could never run.",
    ),
    "words beside data": (
        an_inquiry(),
        "change",
        {"conditions": "use the canary", "limits": (TWICE,)},
        "Words send the call back to be revised; limits let it run. Both at once cannot be meant.",
    ),
    "with a plain yes": (
        an_inquiry(),
        "approve",
        {"limits": (TWICE,)},
        "Only an approval with changes can have conditions.",
    ),
    "with a no": (
        an_inquiry(),
        "reject",
        {"reason": "no", "limits": (TWICE,)},
        "Only an approval with changes can have conditions.",
    ),
    "of a plan": (a_plan(), "change", {"limits": (TWICE,)}, "Conditions are only checked for a tool call."),
    "of a step": (STEP, "change", {"limits": (TWICE,)}, "Conditions are only checked for a tool call."),
    "of a question": (
        a_question(),
        "change",
        {"limits": (TWICE,)},
        "Conditions are only checked for a tool call.",
    ),
    "for the whole task": (
        an_inquiry(),
        "change",
        {"limits": (TWICE,), "scope": Scope.TASK},
        "A changed call can only be approved once.",
    ),
    "by one of two": (
        an_inquiry(quorum=2),
        "change",
        {"limits": (TWICE,)},
        "Request #12 needs 2 people to approve the same thing.",
    ),
    "an edit with a field that is none": (
        an_inquiry(),
        "change",
        {"input": {**EDITED, "cwd": "/"}},
        "Bash has no field cwd.",
    ),
    "an edit without what is needed": (
        an_inquiry(),
        "change",
        {"input": {"description": "x"}},
        "Field command is missing.",
    ),
    "an edit with a number that is too large": (
        an_inquiry(),
        "change",
        {"input": {**EDITED, "timeout": 10**30}},
        "The number in field timeout is too large.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(office: Office, case: str) -> None:
    """Nobody approves what could never run: it is told at once, and nothing is decided or on record."""
    inquiry, verdict, words, message = REFUSED[case]
    office.opened(inquiry)
    with pytest.raises(FixInput) as caught:
        office.choose(verdict, **words)
    assert caught.value.message == message
    assert caught.value.hint != ""
    assert office.undecided()
    assert office.events() == []


@pytest.mark.parametrize("lang", ["zh", "ja"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_a_whole_sentence_in_each_language(office: Office, case: str, lang: str) -> None:
    """What does not fit the call is told without English in it; the value is named."""
    inquiry, verdict, words, _ = REFUSED[case]
    office.opened(inquiry)
    with pytest.raises(FixInput) as caught:
        office.choose(verdict, **words)
    error = caught.value
    if not isinstance(error, Unfit):
        return
    said = telling.told(error, lang)
    named = [str(value) for value in error.details.values()]
    assert error.message not in said
    assert all(value in said for value in named), said


def test_a_time_of_day_is_of_the_bots_zone(fake_redis: Redis) -> None:
    """`18:00` where the bot lives, not in UTC."""
    office = Office(fake_redis, zone=timezone(timedelta(hours=9)))
    office.opened(an_inquiry())
    office.say("2 only before 18:00")
    decision = office.store.inquiry("i_1").decision
    assert decision is not None
    assert decision.limits == (before(at(19 * 3600)),)


def test_a_file_inside_may_be_written(office: Office, tmp_path: Path) -> None:
    """The path of the call lies in the folder that was said."""
    (tmp_path / "staging").mkdir()
    given = {"file_path": "staging/a.md", "content": "x"}
    office.opened(an_inquiry(tool_name="Write", tool_input=given, cwd=str(tmp_path)))
    office.say("2 only in ./staging")
    assert office.store.inquiry("i_1").run_allowed


def test_a_used_up_grant_is_no_longer_listed(office: Office) -> None:
    """What can let nothing run any more is no approval that outlives its call."""
    office.opened(an_inquiry())
    office.say("2 at most 2 times")
    [grant] = office.handler.grants()
    for used, listed in ((1, 1), (2, 0)):
        _use(office, grant.having(used=used))
        assert len(office.handler.grants()) == listed


def _use(office: Office, grant: Grant) -> None:
    office.store.transact("t_1", lambda snap: Changes(task=snap.task, grants=(grant,)))


def test_somebody_else_may_be_told_who_set_it(office: Office) -> None:
    """The decision keeps who said it, for the sentence at dispatch."""
    office.opened(an_inquiry())
    office.say("2 at most 2 times", by=LIN)
    decision = office.store.inquiry("i_1").decision
    assert decision == a_decision("change", by=LIN, at=at(60), conditions="at most 2 times", limits=(TWICE,))
