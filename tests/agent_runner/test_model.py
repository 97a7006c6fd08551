from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent_runner.model import (
    REQUEST_APPROVAL,
    Actor,
    Inquiry,
    InquiryState,
    Scope,
    Task,
    TaskState,
    Verdict,
)
from tests.fakes.values import (
    ANSWERS,
    COMMAND,
    NOW,
    a_decision,
    a_question,
    a_task,
    an_inquiry,
)

EDITED = {"command": "kubectl rollout restart deploy/checkout --dry-run"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_values_cannot_be_changed_in_place() -> None:
    """A stored value that somebody holds stays what it was."""
    with pytest.raises(ValidationError, match="frozen"):
        a_task().state = TaskState.DONE


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: a_task(colour="red"), "extra_forbidden"),
        (lambda: a_task(created_at=datetime(2026, 3, 2)), "timezone_aware"),  # noqa: DTZ001  (the point)
        (lambda: a_task(state="sleeping"), "enum"),
        (lambda: an_inquiry(approvers=None), "tuple_type"),
    ],
    ids=["unknown field", "time without zone", "unknown state", "no approvers field"],
)
def test_what_is_no_value_is_refused(build: Any, why: str) -> None:
    """A surprise in a stored or sent value is an error, never a guess."""
    with pytest.raises(ValidationError) as error:
        build()
    assert [found["type"] for found in error.value.errors()] == [why]


def test_having_is_validated_and_leaves_the_original() -> None:
    """`having` gives a checked copy."""
    task = a_task()
    assert task.having(turn=2) == a_task(turn=2)
    assert task == a_task()
    with pytest.raises(ValidationError):
        task.having(turn="two")


@pytest.mark.parametrize(
    ("actor", "key", "account"),
    [
        (Actor(platform="web", user_id="mei", name="Mei"), "web::mei", "web::mei"),
        (Actor(platform="slack", tenant="T1", user_id="U1", name="Mei"), "slack:T1:U1", "slack:T1:U1"),
        (Actor(platform="slack", user_id="U1", name="L", person="lin"), "person:lin", "slack::U1"),
    ],
    ids=["web", "with tenant", "listed person"],
)
def test_who_somebody_is(actor: Actor, key: str, account: str) -> None:
    """A listed person is one person on every platform; anybody else is their account."""
    assert (actor.key, actor.account) == (key, account)


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ("queued", False),
        ("running", False),
        ("waiting", False),
        ("done", True),
        ("failed", True),
        ("stopped", True),
        ("stuck", True),
    ],
)
def test_which_states_are_ends(state: str, ended: bool) -> None:
    """A task has ended when nothing runs, is queued or is waited for."""
    assert a_task(state=state).ended is ended


REQUEST = {"tool_name": REQUEST_APPROVAL, "tool_input": {"title": "t", "action": "a"}}


@pytest.mark.parametrize(
    ("inquiry", "allowed", "runs"),
    [
        (an_inquiry(), False, COMMAND),
        (an_inquiry(state="approved", decision=a_decision()), True, COMMAND),
        (an_inquiry(state="rejected", decision=a_decision("reject", reason="no")), False, COMMAND),
        (an_inquiry(state="expired"), False, COMMAND),
        (an_inquiry(state="withdrawn"), False, COMMAND),
        (an_inquiry(state="changed", decision=a_decision("change", input=EDITED)), True, EDITED),
        (an_inquiry(state="changed", decision=a_decision("change", input={})), True, {}),
        (an_inquiry(state="changed", decision=a_decision("change", conditions="later")), False, COMMAND),
        (an_inquiry(state="changed"), False, COMMAND),
        (
            an_inquiry(**REQUEST, state="changed", decision=a_decision("change", conditions="later")),
            True,
            REQUEST["tool_input"],
        ),
        (
            a_question(state="answered", decision=a_decision("answer", answers=ANSWERS)),
            True,
            a_question().tool_input,
        ),
    ],
    ids=[
        "pending",
        "approved",
        "rejected",
        "expired",
        "withdrawn",
        "edited",
        "edited to nothing",
        "conditions",
        "changed by nobody",
        "step under conditions",
        "answered",
    ],
)
def test_what_may_run_and_with_which_input(inquiry: Inquiry, allowed: bool, runs: dict[str, Any]) -> None:
    """Only a yes runs; an edited input replaces the asked one whole, even an empty one."""
    assert (inquiry.run_allowed, inquiry.effective_input) == (allowed, runs)


def test_open_is_pending_alone() -> None:
    """Exactly the pending inquiries wait for a person."""
    assert [s for s in InquiryState if an_inquiry(state=s).open] == [InquiryState.PENDING]


def test_the_short_digest_is_what_people_see() -> None:
    """Cards show the first eight characters."""
    assert an_inquiry().short_digest == an_inquiry().digest[:8]


@given(st.dictionaries(st.text(), json_values, max_size=4), st.text(), st.sampled_from(list(Verdict)))
def test_values_survive_their_stored_form(tool_input: dict[str, Any], words: str, verdict: Verdict) -> None:
    """Whatever a tool was called with and a person said comes back from JSON unchanged."""
    decision = a_decision(verdict.value, reason=words, conditions=words, input=tool_input, scope=Scope.TASK)
    inquiry = an_inquiry(tool_input=tool_input, agent_words=words, decision=decision)
    task = a_task(text=words, follow_ups=({"text": words, "by": decision.by, "at": NOW},))
    assert Inquiry.model_validate_json(inquiry.model_dump_json()) == inquiry
    assert Task.model_validate_json(task.model_dump_json()) == task
