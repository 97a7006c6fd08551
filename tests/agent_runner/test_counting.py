"""Counting people: no human is two, no absent person's place is used twice, with and without a veto."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.counting import able, counted, left, taken_by, tally
from agent_runner.model import Actor, Verdict, Vote
from agent_runner.people import People, Person
from tests.fakes.values import KAI, LIN, NOW

PEOPLE: People = {
    "lin": Person(accounts=("web:lin", "slack:T1:U1"), groups=("oncall",)),
    "kai": Person(accounts=("web:kai",), groups=("oncall", "leads")),
    "mei": Person(accounts=("web:mei",)),
    "slack:T1:U9": Person(accounts=("slack:T1:U9",), groups=("kept",)),
}
MEI = Actor(platform="web", user_id="mei", name="Mei", person="mei")
LIN_CHAT = Actor(platform="slack", tenant="T1", user_id="U1", name="lin", person="lin")
EVE = Actor(platform="slack", tenant="T1", user_id="U9", name="eve")
EVERYBODY = (LIN, LIN_CHAT, KAI, MEI, EVE)
NAMES = ("lin", "kai", "mei")


def vote(by: Actor, verdict: str = "approve", acting_for: str = "") -> Vote:
    """Somebody's word."""
    return Vote(by=by, at=NOW, verdict=Verdict(verdict), acting_for=acting_for)


VOTES = st.builds(
    vote,
    st.sampled_from(EVERYBODY),
    st.sampled_from(["approve", "reject"]),
    st.sampled_from(("", *NAMES)),
)


def most(votes: list[Vote]) -> int:
    """The largest set of approvals in which no human and no place occurs twice, found by trying all."""
    yes = [v for v in votes if v.verdict is Verdict.APPROVE]
    for size in range(len(yes), 0, -1):
        for some in itertools.combinations(yes, size):
            keys = [
                k for v in some for k in {v.by.key, f"person:{v.acting_for}" if v.acting_for else v.by.key}
            ]
            if len(keys) == len(set(keys)):
                return size
    return 0


@given(st.lists(VOTES, max_size=6), st.integers(1, 3))
def test_a_quorum_is_never_reached_by_fewer_people(said: list[Vote], quorum: int) -> None:
    """Whatever is said in whosever place, on whichever platform: as many humans, as many places."""
    votes: tuple[Vote, ...] = ()
    for new in said:
        result = tally(votes, new, quorum, veto=False, able=None)
        votes = result.votes
        if result.decided:
            yes = counted(votes)
            assert new.verdict is Verdict.APPROVE
            assert len({v.by.key for v in yes}) >= quorum
            assert len({v.acting_for or v.by.key for v in yes}) >= quorum
        assert len(counted(votes)) <= most(list(votes))
        assert len({v.by.key for v in votes}) == len(votes)


@given(st.sampled_from(EVERYBODY), st.lists(st.sampled_from(("", *NAMES)), min_size=2, max_size=5))
def test_one_human_is_never_two(who: Actor, places: list[str]) -> None:
    """However many absent people somebody stands in for."""
    votes: tuple[Vote, ...] = ()
    for place in places:
        result = tally(votes, vote(who, acting_for=place), 2)
        votes = result.votes
        assert not result.decided


@pytest.mark.parametrize(
    ("first", "then", "taken"),
    [
        (vote(LIN), vote(KAI), False),
        (vote(LIN), vote(LIN_CHAT), False),
        (vote(LIN), vote(MEI, acting_for="lin"), True),
        (vote(MEI, acting_for="lin"), vote(LIN), True),
        (vote(MEI, acting_for="lin"), vote(KAI, acting_for="lin"), True),
        (vote(MEI, acting_for="lin"), vote(KAI), False),
        (vote(MEI, acting_for="lin"), vote(KAI, acting_for="mei"), True),
        (vote(MEI, "reject", acting_for="lin"), vote(LIN), True),
    ],
)
def test_a_place_is_one_vote(first: Vote, then: Vote, taken: bool) -> None:
    """Lin and whoever stands in for her cannot both vote."""
    assert (taken_by((first,), then) is not None) == taken


@pytest.mark.parametrize(
    ("quorum", "veto", "said", "decided"),
    [
        (1, True, [vote(LIN, "reject")], [True]),
        (1, False, [vote(LIN, "reject"), vote(KAI, "reject")], [False, True]),
        (2, False, [vote(LIN, "reject")], [True]),
        (1, False, [vote(LIN, "reject"), vote(LIN, "reject")], [False, False]),
        (1, False, [vote(LIN, "reject"), vote(LIN_CHAT, "approve")], [False, True]),
        (1, False, [vote(MEI, "reject", acting_for="lin"), vote(KAI, "approve")], [False, True]),
        (1, False, [vote(MEI, "reject", acting_for="lin"), vote(KAI, "reject")], [False, True]),
    ],
)
def test_without_a_veto_a_rejection_is_a_vote(
    quorum: int, veto: bool, said: list[Vote], decided: list[bool]
) -> None:
    """It ends the request when too few of the two on call are left; until then anybody may think again."""
    who = able(("group:oncall",), True, MEI, PEOPLE)
    votes: tuple[Vote, ...] = ()
    got = []
    for new in said:
        result = tally(votes, new, quorum, veto=veto, able=who)
        votes = result.votes
        got.append(result.decided)
    assert got == decided


def test_where_anyone_may_decide_no_rejection_makes_it_impossible() -> None:
    """There is always somebody left."""
    assert able(("anyone", "lin"), True, MEI, PEOPLE) is None
    assert not tally((), vote(LIN, "reject"), 1, veto=False, able=None).decided


@pytest.mark.parametrize(
    ("approvers", "requester_may", "asked_by", "expected"),
    [
        (("group:oncall",), True, MEI, {"person:lin", "person:kai"}),
        (("group:oncall", "lin", "slack:T1:U1", "requester"), True, LIN, {"person:lin", "person:kai"}),
        (("group:oncall", "requester"), False, LIN_CHAT, {"person:kai"}),
        (("requester",), True, EVE, {"slack:T1:U9"}),
        (("group:kept", "slack:U7"), True, MEI, {"slack:T1:U9", "slack:U7"}),
    ],
)
def test_who_is_able_to_approve(
    approvers: tuple[str, ...], requester_may: bool, asked_by: Actor, expected: set[str]
) -> None:
    """People by the keys of their votes, each once."""
    assert able(approvers, requester_may, asked_by, PEOPLE) == frozenset(expected)


def test_an_account_listed_without_its_tenant_is_that_account() -> None:
    """Its rejection counts."""
    other = EVE.having(user_id="U7")
    assert left(frozenset({"slack:U7", "person:lin"}), (vote(other, "reject"),)) == 1
