"""The reminder and the escalation of a request: each once, and only while somebody is waited for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from agent_runner import moments
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.model import Inquiry
from agent_runner.policy import Escalation, Route, approvers_now, terms
from tests.fakes.values import NOW, a_decision, an_inquiry, at, waiting

ASKED = an_inquiry(
    approvers=("lin",), remind_at=at(60), escalate_at=at(120), escalate_to=("group:leads", "lin")
)
COME: dict[str, Callable[[Snapshot, str, datetime], Changes]] = {
    "remind": moments.remind,
    "escalate": moments.escalate,
}


def test_a_reminder_is_noted_once() -> None:
    """At its moment, not before, and never again; only the note and the moment are written."""
    before = waiting(ASKED)
    assert moments.remind(before, "i_1", at(59)).empty
    changes = moments.remind(before, "i_1", at(60))
    (after,) = changes.inquiries
    assert after == ASKED.having(reminded_at=at(60))
    assert [(str(n.event), n.actor, n.details["number"]) for n in changes.notes] == [("reminded", None, 12)]
    assert moments.remind(before.after(changes), "i_1", at(61)).empty


def test_an_escalation_adds_people_once() -> None:
    """Those it goes to may decide from then on, each once; who they are is on record."""
    before = waiting(ASKED)
    assert moments.escalate(before, "i_1", at(119)).empty
    changes = moments.escalate(before, "i_1", at(120))
    (after,) = changes.inquiries
    assert after == ASKED.having(escalated_at=at(120), approvers=("lin", "group:leads"))
    assert [(str(n.event), n.details["added"]) for n in changes.notes] == [
        ("escalated", ["group:leads", "lin"])
    ]
    assert moments.escalate(before.after(changes), "i_1", at(121)).empty


@pytest.mark.parametrize("what", COME)
@pytest.mark.parametrize(
    "changes",
    [
        {"state": "approved", "decision": a_decision()},
        {"state": "withdrawn"},
        {"state": "expired"},
        {"expires_at": at(200)},
        {"remind_at": None, "escalate_at": None},
    ],
    ids=["decided", "stopped", "expired", "over", "none"],
)
def test_nothing_comes_when_nobody_is_waited_for(what: str, changes: dict[str, Any]) -> None:
    """A decision, the end of the task or of the time come first; without a moment there is nothing."""
    assert COME[what](waiting(ASKED.having(**changes)), "i_1", at(300)).empty


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 60),
        ({"reminded_at": at(60)}, 120),
        ({"escalated_at": at(60)}, 60),
        ({"reminded_at": at(60), "escalated_at": at(120)}, 8 * 3600),
        ({"remind_at": None, "escalate_at": None}, 8 * 3600),
        ({"expires_at": at(30)}, 30),
    ],
)
def test_when_the_clock_has_to_look(changes: dict[str, Any], seconds: int) -> None:
    """The next thing that has not come yet, at last the end."""
    assert ASKED.having(**changes).next_moment == at(seconds)


def test_what_a_request_takes_over_from_its_route() -> None:
    """Every field of the route has a place in the request, counted from the moment it is asked."""
    route = Route(
        approvers=("lin", "kai"),
        quorum=2,
        requester_may_decide=False,
        veto=False,
        remind=timedelta(minutes=30),
        expires=timedelta(hours=4),
        escalate=Escalation(after=timedelta(hours=2), to=("mei",)),
    )
    asked: Inquiry = an_inquiry(reminded_at=NOW, escalated_at=NOW).having(**terms(route, NOW))
    kept = ("approvers", "quorum", "requester_may_decide", "veto", "escalate_to")
    assert [getattr(asked, name) for name in kept] == [("lin", "kai"), 2, False, False, ("mei",)]
    assert (asked.remind_at, asked.escalate_at, asked.expires_at) == (at(1800), at(7200), at(4 * 3600))
    assert (asked.reminded_at, asked.escalated_at) == (None, None)
    assert approvers_now(route, asked) == ("lin", "kai")
    assert approvers_now(route, asked.having(escalated_at=NOW)) == ("lin", "kai", "mei")
