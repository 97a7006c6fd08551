"""Hand-overs: who stands in for whom, by what right, and as whom readers see them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.absences import Absence, closes_circle, handed_over
from agent_runner.contacts import StandIn, contacts, names_of
from agent_runner.model import Actor, Decision, Verdict, Vote
from agent_runner.people import People, Person, may_decide, right_of
from agent_runner.policy import Call as PolicyCall
from agent_runner.policy import Policy, Route, check_dispatch
from tests.fakes.values import COMMAND, NOW, an_inquiry, at

PEOPLE: People = {
    "lin": Person(accounts=("slack:U1", "web:lin"), groups=("oncall",), display="Lin"),
    "kai": Person(accounts=("slack:T1:U2",), groups=("oncall", "leads")),
    "mei": Person(accounts=("slack:U3", "web:mei"), display="Mei"),
    "zoe": Person(accounts=("web:zoe",)),
}
LIN = Actor(platform="slack", tenant="T1", user_id="U1", name="lin", person="lin")
KAI = Actor(platform="slack", tenant="T1", user_id="U2", name="kai", person="kai")
MEI = Actor(platform="slack", tenant="T1", user_id="U3", name="mei", person="mei")
ZOE = Actor(platform="web", user_id="zoe", name="zoe", person="zoe")


def away(*pairs: str, until: Any = None) -> tuple[Absence, ...]:
    """`lin>mei`: Lin is away, and Mei decides."""
    return tuple(Absence(who=p.split(">")[0], to=p.split(">")[1], until=until or at(3600)) for p in pairs)


def people(*pairs: str) -> People:
    """Everybody, while these are away."""
    return handed_over(PEOPLE, away(*pairs), NOW)


@pytest.mark.parametrize(
    ("pairs", "stand_in"),
    [
        ((), {}),
        (("lin>mei",), {"lin": "mei"}),
        (("lin>mei", "mei>kai"), {"lin": "kai", "mei": "kai"}),
        (("lin>mei", "mei>lin"), {}),
        (("lin>mei", "mei>kai", "kai>mei"), {}),
        (("lin>gone", "gone>mei", "mei>mei"), {}),
    ],
)
def test_who_stands_in_for_whom(pairs: tuple[str, ...], stand_in: dict[str, str]) -> None:
    """A chain is followed to its end; a circle, or somebody who is not listed, stands in for nobody."""
    found = people(*pairs)
    assert {name: one.substitute for name, one in found.items() if one.substitute} == stand_in
    for name, one in found.items():
        assert set(one.stands_in_for) == {absent for absent, by in stand_in.items() if by == name}


def test_an_absence_ends_by_itself() -> None:
    """At its moment everybody decides for themselves again."""
    assert handed_over(PEOPLE, away("lin>mei"), at(3599))["lin"].substitute == "mei"
    assert handed_over(PEOPLE, away("lin>mei"), at(3600)) == PEOPLE


@given(st.lists(st.tuples(st.sampled_from(list(PEOPLE)), st.sampled_from(list(PEOPLE))), max_size=6))
def test_circles_are_refused_when_somebody_would_close_them(pairs: list[tuple[str, str]]) -> None:
    """What is let in never holds a circle: everybody who is away has somebody who is not."""
    entered: dict[str, Absence] = {}
    for who, to in pairs:
        new = Absence(who=who, to=to, until=at(3600))
        if not closes_circle(new, tuple(entered.values()), NOW):
            entered[who] = new
    found = handed_over(PEOPLE, tuple(entered.values()), NOW)
    for who in entered:
        assert found[who].substitute
        assert found[who].substitute not in entered


RIGHTS: list[tuple[str, Actor, tuple[str, ...], bool, Actor, str | None]] = [
    ("nobody is away", MEI, ("group:oncall",), True, ZOE, None),
    ("by group", MEI, ("group:oncall",), True, ZOE, "lin"),
    ("by name", MEI, ("lin",), True, ZOE, "lin"),
    ("by account", MEI, ("slack:U1",), True, ZOE, "lin"),
    ("by account with tenant", MEI, ("slack:T1:U1",), True, ZOE, "lin"),
    ("another's account", MEI, ("slack:U2",), True, ZOE, None),
    ("another's group", MEI, ("group:leads",), True, ZOE, None),
    ("as requester", MEI, ("requester",), True, LIN, "lin"),
    ("anyone is everybody's own right", MEI, ("anyone",), True, ZOE, ""),
    ("own right first", KAI, ("group:oncall",), True, ZOE, ""),
    ("the requester stands in for nobody", MEI, ("group:oncall",), False, MEI, None),
    ("nobody stands in for the requester", MEI, ("group:oncall",), False, LIN, None),
    ("the absent one still may", LIN, ("group:oncall",), True, ZOE, ""),
    ("a stranger is no substitute", ZOE, ("group:oncall",), True, MEI, None),
]


@pytest.mark.parametrize(
    ("name", "actor", "approvers", "requester_may", "asked_by", "right"), RIGHTS, ids=[r[0] for r in RIGHTS]
)
def test_by_what_right_somebody_decides(
    name: str,
    actor: Actor,
    approvers: tuple[str, ...],
    requester_may: bool,
    asked_by: Actor,
    right: str | None,
) -> None:
    """For themselves, in Lin's place, or not at all; while Lin is away and Mei decides for her."""
    given_people = PEOPLE if name == "nobody is away" else people("lin>mei")
    rules: dict[str, Any] = {
        "approvers": approvers,
        "requester_may_decide": requester_may,
        "asked_by": asked_by,
        "people": given_people,
    }
    assert right_of(actor, **rules) == right
    assert may_decide(actor, **rules) == (right is not None)


def test_a_guest_or_an_unlisted_account_stands_in_for_nobody() -> None:
    """Only who is listed by name; the account itself must be theirs."""
    rules: dict[str, Any] = {"approvers": ("lin",), "requester_may_decide": True, "asked_by": ZOE}
    claimed = Actor(platform="slack", tenant="T1", user_id="U8", name="mei", person="mei")
    assert right_of(claimed, people=people("lin>mei"), **rules) is None


ON_CALL = ("group:oncall",)


@pytest.mark.parametrize(
    ("pairs", "options", "shown"),
    [
        ((), {}, ["Lin", "kai"]),
        (("lin>mei",), {}, ["Mei for Lin", "kai"]),
        (("lin>kai",), {}, ["kai"]),
        (("lin>mei", "kai>mei"), {}, ["Mei for Lin, kai"]),
        (("lin>mei",), {"requester_may_decide": False, "asked_by": MEI}, ["Lin", "kai"]),
        (("lin>mei",), {"requester_may_decide": False, "asked_by": LIN}, ["Lin", "kai"]),
        (("lin>mei",), {"votes": (Vote(by=KAI, at=NOW, verdict=Verdict.APPROVE),)}, ["Mei for Lin"]),
        (("lin>mei",), {"votes": (Vote(by=LIN, at=NOW, verdict=Verdict.APPROVE),)}, ["kai"]),
        (
            ("lin>mei",),
            {"votes": (Vote(by=MEI, at=NOW, verdict=Verdict.APPROVE, acting_for="lin"),)},
            ["kai"],
        ),
    ],
)
def test_as_whom_they_are_shown(pairs: tuple[str, ...], options: dict[str, Any], shown: list[str]) -> None:
    """Who decides stands in the place of who is away; who has voted is not called any more."""
    asked_by = options.pop("asked_by", ZOE)
    found = contacts(ON_CALL, asked_by, people(*pairs), "web", **options)
    assert [_text(one) for one in found] == shown


def _text(one: Any) -> str:
    if isinstance(one, StandIn):
        return f"{_text(one.by)} for {one.absent}"
    return one.name if isinstance(one, Actor) else one


def test_the_substitute_is_the_one_who_is_notified() -> None:
    """By the account that the platform knows."""
    (first, _) = contacts(ON_CALL, ZOE, people("lin>mei"), "slack")
    mei = Actor(platform="slack", user_id="U3", name="Mei", person="mei")
    assert first == StandIn(by=mei, absent="Lin")
    assert names_of(ON_CALL, ZOE, people("lin>mei")) == ("Mei", "kai")


# --- when the call is about to run -------------------------------------------------------

ROUTE = Route(match=("Bash",), approvers=("lin",), requester_may_decide=False)


def dispatch(by: Actor, acting_for: str, listed: People, **changes: Any) -> str:
    """The code of the refusal of an approved call; '' if it may run."""
    decision = Decision(verdict=Verdict.APPROVE, by=by, at=NOW, acting_for=acting_for)
    asked = an_inquiry(state="approved", decision=decision, asked_by=ZOE, approvers=("lin",))
    call = PolicyCall(tool_name="Bash", tool_input=COMMAND, cwd="/srv/ops", workspace="ops")
    refused = check_dispatch(
        Policy(routes=(ROUTE,)), call, inquiry=asked.having(**changes), people=listed, now=at(10)
    )
    return refused.code if refused else ""


def test_a_decision_in_somebodys_place_outlives_the_hand_over() -> None:
    """It was lawful when it was made. Lin must still be able to decide, and Mei must still be there."""
    without = {name: PEOPLE[name] for name in ("lin", "kai", "zoe")}
    moved = {**PEOPLE, "lin": PEOPLE["lin"].having(accounts=())}
    assert dispatch(MEI, "lin", people("lin>mei")) == ""
    assert dispatch(MEI, "lin", PEOPLE) == ""
    assert dispatch(MEI, "lin", moved) == ""
    assert dispatch(MEI, "lin", without) == "approver_may_not"
    assert dispatch(MEI, "lin", {n: p for n, p in PEOPLE.items() if n != "lin"}) == "approver_may_not"
    assert dispatch(MEI, "kai", people("kai>mei")) == "approver_may_not"
    assert dispatch(MEI, "lin", PEOPLE, asked_by=LIN, requester_may_decide=False) == "approver_may_not"


def test_a_decision_in_ones_own_right_is_not_saved_by_a_hand_over() -> None:
    """What Mei decided for herself needs her own right when it runs."""
    assert dispatch(MEI, "", people("lin>mei")) == "approver_may_not"
