"""The steps of one turn on Slack: pressed, typed, and shown as what was decided."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from agent_runner.audit import Event
from agent_runner.model import Inquiry, Place, TaskState
from tests.bot.slack.conftest import Scene, text_of
from tests.fakes.slack_events import Message
from tests.fakes.values import a_plan, an_inquiry

Make = Callable[..., Scene]
ONCALL: dict[str, Any] = {"approvers": ("group:oncall",), "requester_may_decide": False}


def steps(count: int = 3, **changes: Any) -> tuple[Inquiry, ...]:
    """So many different commands of one turn."""
    return tuple(
        an_inquiry(tool_input={"command": f"echo {n}"}, **{**ONCALL, **changes}) for n in range(count)
    )


def block_of(card: Message, verb: str, number: int) -> str:
    """The block in which a step's button stands."""
    for block in card.blocks:
        for element in block.get("elements", []):
            if element.get("action_id") == verb and json.loads(element["value"])["i"] == f"i_{number}":
                return str(block["block_id"])
    raise AssertionError(f"no {verb} for #{number}")


def until_told(s: Scene, words: str) -> None:
    """Waits until Lin is told something that begins so."""
    s.until(lambda: any(one.startswith(words) for one in s.whispers(s.lin)))


def states(s: Scene, count: int = 3) -> list[str]:
    """How the requests stand."""
    return [str(s.inquiry(n).state) for n in range(s.number, s.number + count)]


def test_the_steps_stand_on_one_card_and_each_is_pressed_on_its_own(scene: Make) -> None:
    """One message; the press decides that step alone, and the card says so."""
    s = scene()
    card, task = s.pending(*steps())
    s.slack.click(s.lin, card, "approve", block=block_of(card, "approve", 2))
    s.until(lambda: states(s) == ["pending", "approved", "pending"])
    s.until(lambda: "Approved by" in text_of(s.seen(card)))
    assert s.office.store.task(task.id).state is TaskState.WAITING
    thread = s.posts(card.thread_ts or "")
    assert sum("steps of one turn" in text_of(post) for post in thread) == 1
    entries = s.office.store.audit_of(task.id)
    assert [e.inquiry_id for e in entries if e.event is Event.INQUIRY_SHOWN] == ["i_1", "i_2", "i_3"]


def test_all_are_approved_by_one_press_and_the_turn_goes_on(scene: Make) -> None:
    """In one write; then nothing on the card can be pressed any more."""
    s = scene()
    card, task = s.pending(*steps())
    assert s.slack.click(s.lin, card, "approve_all").acked
    s.until(lambda: states(s) == ["approved"] * 3)
    s.until(lambda: list(s.seen(card).buttons) == [])
    assert s.office.store.task(task.id).state is TaskState.QUEUED
    s.slack.click(s.lin, card, "approve_all")  # a double click is one
    s.quiet()
    assert s.whispers(s.lin) == []
    s.slack.click(s.kai, card, "approve_all")
    s.until(lambda: any("Already decided by" in told for told in s.whispers(s.kai)))


def test_all_are_rejected_with_a_reason_in_a_form(scene: Make) -> None:
    """The form asks for it, and every step gets the words."""
    s = scene()
    card, _ = s.pending(*steps())
    s.slack.click(s.kai, card, "reject_all")
    view = s.form(s.kai, "reject_all")
    (block,) = (b["block_id"] for b in view.blocks if b["type"] == "input")
    done = s.slack.submit(s.kai, view, {block: "the window is closed"})
    assert (done.acked, done.errors) == (True, {})
    reasons = [i.decision.reason for i in map(s.inquiry, (1, 2, 3)) if i.decision]
    assert reasons == ["the window is closed"] * 3


def test_case_b08_a_stale_card_approves_only_what_it_showed(scene: Make) -> None:
    """A vote that came meanwhile leaves that step open, and the person is told which."""
    s = scene()
    first, second, third = steps()
    card, _ = s.pending(first, second.having(quorum=2), third)
    s.slack.click(s.kai, card, "approve", block=block_of(card, "approve", 2))
    s.until(lambda: s.inquiry(2).votes)
    s.slack.click(s.lin, card, "approve_all")
    s.until(lambda: states(s) == ["approved", "pending", "approved"])
    s.until(lambda: any("changed since you saw it: #2" in told for told in s.whispers(s.lin)))


def test_case_b01_who_may_not_decide_is_told_so_and_nothing_is_decided(scene: Make) -> None:
    """The button for all is checked like any other, for the form as well."""
    s = scene()
    card, _ = s.pending(*steps())
    s.slack.click(s.mei, card, "approve_all")
    s.until(lambda: any("These can: " in told for told in s.whispers(s.mei)))
    s.slack.click(s.mei, card, "reject_all")
    s.until(lambda: "These can: " in str((v := s.slack.modal(s.mei)) and v.view))
    assert states(s) == ["pending"] * 3


def test_a_typed_answer_to_several_steps(scene: Make) -> None:
    """Letters in the thread decide each step; a bare number is asked back."""
    s = scene()
    card, _ = s.pending(*steps())
    s.slack.say(s.lin, s.ops, "1", thread_ts=card.thread_ts)
    s.until(lambda: any("Which step? Open are a (#1), b (#2), c (#3)." in told for told in s.whispers(s.lin)))
    assert states(s) == ["pending"] * 3
    s.slack.say(s.lin, s.ops, "a1 b3 wait for the window, c1", thread_ts=card.thread_ts)
    s.until(lambda: states(s) == ["approved", "rejected", "approved"])
    decision = s.inquiry(2).decision
    assert decision is not None
    assert decision.reason == "wait for the window"


def test_case_c01_nothing_is_typed_yes_to_before_its_file_is_there(scene: Make) -> None:
    """While the file of one step is missing there is no button that approves, and `all 1` decides nothing."""
    s = scene()
    s.slack.fail("files.getUploadURLExternal", "internal_error", 4)
    big = an_inquiry(tool_input={"command": "echo " + "x" * 20_000}, **ONCALL)
    card, task = s.pending(*steps(2), big)
    assert set(s.seen(card).buttons) == {"reject", "reject_all"}
    for said, about in (("all 1", "#1-#3"), ("a1 b3 no", "#1"), ("c2 shorter", "#3")):
        s.slack.say(s.lin, s.ops, said, thread_ts=card.thread_ts)
        told = f"Not all of request {about} is here yet, so nothing was decided."
        until_told(s, told)
    assert states(s) == ["pending"] * 3

    def healed() -> bool:
        s.office.offset = min(s.office.offset + timedelta(seconds=5), timedelta(seconds=90))
        return "approve_all" in s.seen(card).buttons

    s.until(healed)
    assert len(s.office.registers.receipts(task.id)["request:1"].files) == 1
    s.slack.say(s.lin, s.ops, "all 1", thread_ts=card.thread_ts)
    s.until(lambda: states(s) == ["approved"] * 3)


def test_steps_that_do_not_fit_on_one_card_have_one_each(scene: Make) -> None:
    """Twenty of them: each has its own card, which says why, and its own letter all the same."""
    s = scene()
    thread = s.asked()
    task = s.office.task()
    s.office.asks(task.id, *steps(20))
    cards = [s.card(thread, f"request:{n}") for n in (1, 20)]
    s.until(lambda: len([p for p in s.posts(thread) if "Request #" in text_of(p)]) == 20)
    assert all("The 20 steps of this turn do not fit on one card" in text_of(c) for c in cards)
    s.slack.say(s.lin, s.ops, "t1", thread_ts=thread)
    s.until(lambda: not s.office.store.inquiry("i_20").open)
    where = Place(platform="slack", chat=s.ops, thread=thread)
    assert s.office.registers.task_at(where) == task.id


def test_a_plan_of_the_same_turn_keeps_its_own_card(scene: Make) -> None:
    """And is none of all."""
    s = scene()
    card, task = s.pending(*steps(2), a_plan(**ONCALL))
    plan = s.card(card.thread_ts or "", "request:3")
    assert "a plan in ops" in text_of(plan)
    s.slack.click(s.lin, card, "approve_all")
    s.until(lambda: states(s) == ["approved", "approved", "pending"])
    assert s.office.store.task(task.id).state is TaskState.WAITING
