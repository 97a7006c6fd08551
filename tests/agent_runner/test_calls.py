"""What becomes of calls that the model has to make again, and of those a process waits for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner import calls
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.audit import Event
from agent_runner.errors import WrongState
from agent_runner.model import Execution, Hold, Inquiry, InquiryState, TaskState
from tests.fakes.values import a_decision, a_run, a_task, an_inquiry, at

DIGEST = an_inquiry().digest
STATES = list(InquiryState)


def one(state: str = "approved", **changes: Any) -> Inquiry:
    """A sibling, decided."""
    verdicts = {"approved": "approve", "rejected": "reject"}
    decision = a_decision(verdicts[state], reason="no") if state in verdicts else None
    return an_inquiry(**{"hold": "sibling", "state": state, "decision": decision, **changes})


ANY = st.builds(
    lambda hold, state, settled, run: one(state, hold=hold, settled=settled, run=a_run(run)),
    st.sampled_from(Hold),
    st.sampled_from([str(s) for s in STATES]),
    st.booleans(),
    st.sampled_from(["none", "started", "finished", "unknown"]),
)


@given(ANY)
def test_what_is_found_again_is_decided_and_unused(inquiry: Inquiry) -> None:
    """Never an open one, one that ran or may have run, one that was told, or one a resume will make."""
    found = calls.made_again(Snapshot(a_task(), (inquiry,)), DIGEST)
    assert (found is not None) == (
        inquiry.hold is not Hold.DEFERRED
        and inquiry.state not in (InquiryState.PENDING, InquiryState.WITHDRAWN)
        and inquiry.run.state is Execution.NONE
        and not inquiry.settled
    )
    assert calls.made_again(Snapshot(a_task(), (inquiry,)), "0" * 64) is None


@given(ANY)
def test_an_open_request_is_found_by_the_next_process_only_if_a_process_asked(inquiry: Inquiry) -> None:
    """Any other open request waits for a resume."""
    found = calls.asked_live(Snapshot(a_task(), (inquiry,)), DIGEST)
    assert (found is not None) == (inquiry.open and inquiry.hold is Hold.LIVE)


@given(st.lists(ANY, max_size=5), st.sampled_from([*TaskState]))
def test_a_turns_end_leaves_nothing_in_between(inquiries: list[Inquiry], state: TaskState) -> None:
    """No process waits any more; what can no longer run is settled, and on record if it was approved."""
    known = tuple(i.having(id=f"i_{n}", number=n) for n, i in enumerate(inquiries))
    snap = Snapshot(a_task(state="running"), known)
    changes = calls.over(snap, Changes(task=snap.task.having(state=state)), at(60))
    after = {i.id: i for i in snap.after(changes).inquiries}
    ended = state in (TaskState.DONE, TaskState.STOPPED)
    for before in known:
        now = after[before.id]
        assert not (now.open and now.hold is Hold.LIVE)
        assert not (ended and now.awaited)
        assert now.run == before.run
        assert now.decision == before.decision
        told = [n.event for n in changes.notes if n.inquiry_id == before.id]
        if before.open and before.hold is Hold.LIVE:
            assert (now.state, told) == (InquiryState.WITHDRAWN, [Event.WITHDRAWN])
        else:
            assert now.state is before.state
            lapsed = before.run_allowed and not before.settled and now.settled
            assert told == ([Event.NOT_RUN] if lapsed else [])


def test_a_turn_that_had_not_begun_leaves_only_what_a_process_asked() -> None:
    """Nobody waits any more for the process that is gone; the approved call is still to be made."""
    live, approved = an_inquiry(id="i_2", number=13, hold="live"), one(hold="deferred")
    snap = Snapshot(a_task(state="running"), (approved, live))
    waits = Changes(task=snap.task.having(state="waiting"))
    changes = calls.over(snap, waits, at(60), begun=False)
    assert [(i.id, i.state) for i in changes.inquiries] == [("i_2", InquiryState.WITHDRAWN)]


@pytest.mark.parametrize("hold", [*Hold])
def test_an_approval_that_is_over_lets_nothing_run(hold: Hold) -> None:
    """It is on record as not run; whoever wants it now is asked anew."""
    snap = Snapshot(a_task(state="running"), (one(hold=hold, settled=True),))
    with pytest.raises(WrongState):
        calls.dispatch(snap, "i_1", "toolu_1", at(60))


@pytest.mark.parametrize("state", ["failed", "stuck"])
def test_a_turn_that_can_be_tried_again_keeps_its_approval(state: str) -> None:
    """The call at which the process ended is still to be made (A06)."""
    snap = Snapshot(a_task(state="running"), (one(hold="deferred"),))
    assert calls.over(snap, Changes(task=snap.task.having(state=state)), at(60)).inquiries == ()


def test_a_refusal_is_told_once() -> None:
    """Then it is over, under the id of the call that was made again; a second time raises."""
    snap = Snapshot(a_task(state="running"), (one("rejected"),))
    changes = calls.told(snap, "i_1", "toolu_9", at(60))
    (known,) = changes.inquiries
    assert (known.settled, known.tool_use_id, [n.event for n in changes.notes]) == (
        True,
        "toolu_9",
        [Event.REFUSAL_TOLD],
    )
    with pytest.raises(WrongState):
        calls.told(snap.after(changes), "i_1", "toolu_9", at(61))


def test_siblings_are_those_of_the_same_turn_that_the_model_has_yet_to_hear_of() -> None:
    """Neither an open one, nor one of another turn, nor one that was told."""
    first = an_inquiry(state="approved", decision=a_decision())
    others = (
        one(id="i_2", number=13),
        one("rejected", id="i_3", number=14),
        one("pending", id="i_4", number=15),
        one(id="i_5", number=16, batch="another"),
        one(id="i_6", number=17, settled=True),
        one(id="i_7", number=18, hold="deferred"),
    )
    found = calls.siblings(Snapshot(a_task(), (first, *others)), first)
    assert [i.id for i in found] == ["i_2", "i_3"]


@pytest.mark.parametrize("changes", [{"state": "waiting"}, {"state": "running", "stop_requested_by": "lin"}])
def test_nothing_is_asked_for_a_task_that_is_being_stopped(changes: dict[str, Any]) -> None:
    """A process that should end asks nobody."""
    if "stop_requested_by" in changes:
        changes = {**changes, "stop_requested_by": a_decision().by}
    with pytest.raises(WrongState):
        calls.ask(Snapshot(a_task(**changes)), an_inquiry(hold="live"), at(1))


@given(st.lists(st.sampled_from(["approved", "rejected", "expired"]), max_size=6))
def test_only_peoples_refusals_of_exactly_this_call_count(states: list[str]) -> None:
    """Time is no refusal, and neither is a refusal of another call."""
    asked = [one(state, id=f"i_{n}", number=n) for n, state in enumerate(states)]
    other = one("rejected", id="i_9", number=99, digest="0" * 64)
    snap = Snapshot(a_task(), (*asked, other))
    assert calls.refusals(snap, DIGEST) == states.count("rejected")
