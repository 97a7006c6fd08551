from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runner import briefs
from agent_runner import gate as gates
from agent_runner.digest import digest
from agent_runner.errors import LostLease, TryLater, WrongState
from agent_runner.gate import Deferral, Gate, Ruling
from agent_runner.model import REQUEST_APPROVAL, DeferredCall, Execution, Grant, Hold, Inquiry
from agent_runner.policy import Judgement
from tests.fakes.values import (
    ANSWERS,
    COMMAND,
    LIN,
    NOW,
    QUESTIONS,
    a_decision,
    a_plan,
    a_question,
    a_run,
    an_inquiry,
)

EDITED = {"command": "kubectl rollout restart deploy/checkout --dry-run=client"}
OTHER = {"command": "kubectl delete ns prod"}
STEP = {"title": "Fail over", "action": "switch the primary"}
CALL = DeferredCall(tool_use_id="toolu_1", tool_name="Bash", tool_input=COMMAND)


class Book:
    """A ledger in memory. What is in `broken` raises when it is asked."""

    def __init__(
        self,
        *inquiries: Inquiry,
        grant: bool = False,
        refusal: str = "",
        broken: Mapping[str, Exception] | None = None,
        said: Sequence[Inquiry] = (),
        refusals: int = 0,
    ) -> None:
        self.inquiries = list(inquiries)
        self.said = list(said)
        self.refused = refusals
        self.grant = grant
        self.why = refusal
        self.broken = broken or {}
        self.raised: list[str] = []
        self.record: list[tuple[Any, ...]] = []

    def _ask(self, method: str) -> None:
        if method in self.broken:
            self.raised.append(method)
            raise self.broken[method]

    async def find(self, tool_use_id: str, call_digest: str) -> Inquiry | None:
        self._ask("find")
        for inquiry in self.inquiries:
            if inquiry.tool_use_id == tool_use_id or (
                not inquiry.tool_use_id and inquiry.digest == call_digest
            ):
                return inquiry
        return None

    async def grant_for(self, call: DeferredCall, call_digest: str, stopped_by: str) -> Grant | None:
        self._ask("grant_for")
        assert (call_digest, stopped_by) == (digest(call.tool_name, call.tool_input), "Bash(kubectl *)")
        same = call_digest == digest("Bash", COMMAND)
        return (
            Grant(task_id="t_1", digest=call_digest, inquiry_id="i_0", by=LIN, at=NOW)
            if self.grant and same
            else None
        )

    async def refusal(self, _inquiry: Inquiry) -> str:
        self._ask("refusal")
        return self.why

    async def siblings(self, inquiry: Inquiry) -> tuple[Inquiry, ...]:
        self._ask("siblings")
        return tuple(i for i in self.inquiries if i.hold is Hold.SIBLING and i.id != inquiry.id)

    async def refusals(self, _call_digest: str) -> int:
        self._ask("refusals")
        return self.refused

    async def tell_refusal(self, inquiry: Inquiry, tool_use_id: str) -> None:
        self._ask("tell_refusal")
        self.record.append(("refusal told", inquiry.id, tool_use_id))

    async def ask(self, call: DeferredCall, _call_digest: str, rule: str) -> Inquiry:
        """Asks; what people say comes from `said`, one look after the other."""
        self._ask("ask")
        self.record.append(("asked", rule, call))
        return an_inquiry(hold="live", tool_use_id=call.tool_use_id)

    async def look(self, _inquiry_id: str) -> Inquiry:
        self._ask("look")
        seen = self.said.pop(0)
        self.inquiries = [seen]
        return seen

    async def held_back(self, inquiry: Inquiry, tool_use_id: str, why: str) -> None:
        self._ask("held_back")
        self.record.append(("held back", inquiry.id, tool_use_id, why))

    async def start(self, inquiry: Inquiry, tool_use_id: str) -> None:
        self._ask("start")
        at = self.inquiries.index(inquiry)
        if inquiry.run.state is not Execution.NONE:
            raise WrongState("started before")
        self.inquiries[at] = inquiry.having(run=a_run("started"), tool_use_id=tool_use_id)
        self.record.append(("started", inquiry.id, tool_use_id))

    async def use_grant(self, grant: Grant, call: DeferredCall) -> None:
        self._ask("use_grant")
        self.record.append(("grant used", grant.inquiry_id, call))

    async def denied(self, call: DeferredCall, rule: str) -> None:
        self._ask("denied")
        self.record.append(("denied", rule, call))

    async def alarm(self, what: str, call: DeferredCall) -> None:
        self._ask("alarm")
        self.record.append(("alarm", what, call))


def judge(name: str, tool_input: Mapping[str, Any], _agent_id: str | None) -> Judgement:
    """A policy that allows Read, forbids deleting, and asks about the rest."""
    if name == "Read":
        return Judgement(effect="allow", rule="Read")
    if "delete" in str(tool_input.get("command")):
        return Judgement(effect="deny", rule="Bash(kubectl delete *)", section="deny")
    return Judgement(effect="ask", rule="Bash(kubectl *)", section="ask")


def rule(
    gate: Gate, name: str = "Bash", tool_input: Any = COMMAND, id_: str = "toolu_1", agent: str | None = None
) -> Ruling:
    """One ask."""
    return asyncio.run(gate.rule(name, tool_input, id_, agent))


def approved(**changes: Any) -> Inquiry:
    """A call Lin said yes to."""
    return an_inquiry(**{"state": "approved", "decision": a_decision(), **changes})


def changed(**words: Any) -> Inquiry:
    """A call Lin said yes to with changes."""
    return an_inquiry(state="changed", decision=a_decision("change", **words))


# --- calls nobody was asked about --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tool_input", "agent", "grant", "ruling", "record"),
    [
        ("Read", {"file_path": "a"}, None, False, Ruling("allow"), []),
        (
            "Bash",
            OTHER,
            None,
            True,
            Ruling("deny", briefs.denied_by_rule("Bash(kubectl delete *)")),
            [("denied", "Bash(kubectl delete *)", CALL.having(tool_input=OTHER))],
        ),
        ("Bash", COMMAND, None, False, Ruling("defer"), []),
        ("Bash", COMMAND, None, True, Ruling("allow"), [("grant used", "i_0", CALL)]),
        ("Bash", EDITED, None, True, Ruling("defer"), []),
        ("AskUserQuestion", QUESTIONS, "agent-1", False, Ruling("deny", briefs.not_in_subagent()), []),
        ("Bash", COMMAND, "agent-1", True, Ruling("allow"), [("grant used", "i_0", CALL)]),
        ("Read", {"file_path": "a"}, "agent-1", False, Ruling("allow"), []),
    ],
    ids=[
        *("allowed by a rule", "forbidden by a rule, whatever was granted", "asked", "granted"),
        *("another call than the granted one", "a question in a subagent", "granted in a subagent"),
        "allowed in a subagent",
    ],
)
def test_a_call_nobody_was_asked_about(
    name: str, tool_input: Any, agent: str | None, grant: bool, ruling: Ruling, record: list[Any]
) -> None:
    """The rules decide: run, refuse, or stop the turn and ask."""
    book = Book(grant=grant)
    gate = Gate(judge, book)
    assert rule(gate, name, tool_input, agent=agent) == ruling
    assert book.record == record
    expected = Deferral(CALL.having(tool_input=tool_input), "Bash(kubectl *)")
    assert gate.deferral == (expected if ruling.effect == "defer" else None)
    assert (gate.allowed("toolu_1"), gate.knows("toolu_1")) == (ruling.effect == "allow", True)


def test_one_call_of_a_turn_is_deferred_and_the_others_are_asked_about_with_it() -> None:
    """The engine loses all but one deferred call (E12), so the others are refused for the moment."""
    gate = Gate(judge, Book())
    asks = [("Bash", COMMAND, "a"), ("Bash", EDITED, "b"), ("Read", {}, "c"), ("Write", {}, "d")]
    assert [rule(gate, name, call, id_) for name, call, id_ in asks] == [
        Ruling("defer"),
        Ruling("deny", briefs.asked_together()),
        Ruling("allow"),
        Ruling("deny", briefs.asked_together()),
    ]
    assert gate.deferral is not None
    together = [gate.deferral, *gate.siblings]
    assert [(d.call.tool_use_id, d.call.tool_input, d.rule) for d in together] == [
        ("a", COMMAND, "Bash(kubectl *)"),
        ("b", EDITED, "Bash(kubectl *)"),
        ("d", {}, "Bash(kubectl *)"),
    ]


@pytest.mark.parametrize("names", [("ExitPlanMode", "Bash"), ("Bash", "ExitPlanMode")])
def test_a_plan_is_asked_about_alone(names: tuple[str, str]) -> None:
    """A plan's text is not in the call that comes back, so it goes with no other."""
    gate = Gate(judge, Book())
    rulings = [rule(gate, name, {}, name) for name in names]
    assert rulings == [Ruling("defer"), Ruling("deny", briefs.one_at_a_time())]
    assert gate.siblings == []


def test_what_is_too_much_for_one_card_is_asked_about_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a very large turn comes back after the first."""
    monkeypatch.setattr(gates, "MOST_SIBLINGS", 2)
    gate = Gate(judge, Book())
    rulings = [rule(gate, "Bash", {"command": f"kubectl get {n}"}, f"t{n}") for n in range(4)]
    together = Ruling("deny", briefs.asked_together())
    assert rulings == [Ruling("defer"), together, together, Ruling("deny", briefs.one_at_a_time())]


def test_what_people_refused_three_times_is_not_asked_again() -> None:
    """The model is told to stop, and nobody is bothered."""
    book = Book(refusals=3)
    gate = Gate(judge, book)
    assert rule(gate) == Ruling("deny", briefs.refused_often())
    assert (book.record, gate.deferral) == ([("denied", briefs.REFUSED_OFTEN, CALL)], None)
    assert rule(Gate(judge, Book(refusals=2))) == Ruling("defer")


# --- calls of a subagent: the process waits ------------------------------------------------------

LIVE = {"hold": "live"}
WAITED: dict[str, tuple[Inquiry, Ruling, list[Any]]] = {
    "approved": (
        an_inquiry(state="approved", decision=a_decision(), **LIVE),
        Ruling("allow"),
        [("started", "i_1", "toolu_1")],
    ),
    "edited": (
        an_inquiry(state="changed", decision=a_decision("change", input=EDITED), **LIVE),
        Ruling(
            "allow",
            updated_input=EDITED,
            context=briefs.ran_as_changed(
                an_inquiry(state="changed", decision=a_decision("change", input=EDITED))
            ),
        ),
        [("started", "i_1", "toolu_1")],
    ),
    "rejected": (
        an_inquiry(state="rejected", decision=a_decision("reject", reason="no"), **LIVE),
        Ruling("deny", briefs.rejected(an_inquiry(decision=a_decision("reject", reason="no")))),
        [("refusal told", "i_1", "toolu_1")],
    ),
    "expired": (
        an_inquiry(state="expired", **LIVE),
        Ruling("deny", briefs.nobody_answered(an_inquiry())),
        [("refusal told", "i_1", "toolu_1")],
    ),
    "withdrawn": (an_inquiry(state="withdrawn", **LIVE), Ruling("deny", briefs.withdrawn()), []),
}


@pytest.mark.parametrize("case", WAITED)
def test_a_subagents_call_waits_for_people(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked about at once and ruled on as they decide; the second lock says the same (E15)."""
    monkeypatch.setattr(gates, "LOOK_SECONDS", 0)
    decided, ruling, record = WAITED[case]
    book = Book(said=[an_inquiry(**LIVE), an_inquiry(**LIVE), decided])
    gate = Gate(judge, book)
    assert [rule(gate, agent="agent-1"), rule(gate, agent="agent-1")] == [ruling, ruling]
    assert book.record == [("asked", "Bash(kubectl *)", CALL), *record]
    assert (gate.deferral, gate.waiting, gate.allowed("toolu_1")) == (None, False, ruling.effect == "allow")


def test_other_calls_are_ruled_on_while_one_waits() -> None:
    """A person who thinks holds up one call only, and their time is no working time."""
    book = Book()
    gate = Gate(judge, book)
    decided = asyncio.Event()

    async def look(_inquiry_id: str) -> Inquiry:
        if not decided.is_set():
            return an_inquiry(**LIVE)
        return an_inquiry(state="approved", decision=a_decision(), **LIVE)

    book.look = look  # type: ignore[method-assign]  # a person who takes their time

    async def scene() -> tuple[Ruling, Ruling]:
        waiting = asyncio.create_task(gate.rule("Bash", COMMAND, "toolu_1", "agent-1"))
        while not gate.waiting:  # noqa: ASYNC110  (it is the gate's to know)
            await asyncio.sleep(0)
        book.inquiries = [an_inquiry(state="approved", decision=a_decision(), **LIVE)]
        meanwhile = await gate.rule("Read", {}, "toolu_2", "agent-2")
        second = await gate.rule("Bash", COMMAND, "toolu_1", "agent-1")
        assert second == Ruling("deny", briefs.one_at_a_time()), "the second lock before the first answered"
        decided.set()
        return meanwhile, await waiting

    assert asyncio.run(scene()) == (Ruling("allow"), Ruling("allow"))
    assert gate.waited > 0


def test_a_closed_gate_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was waited for runs in a turn that is being taken down."""
    monkeypatch.setattr(gates, "LOOK_SECONDS", 0)
    approved_late = an_inquiry(state="approved", decision=a_decision(), **LIVE)
    book = Book(said=[an_inquiry(**LIVE), approved_late])
    gate = Gate(judge, book)

    async def scene() -> Ruling:
        asked = asyncio.create_task(gate.rule("Bash", COMMAND, "toolu_1", "agent-1"))
        await asyncio.sleep(0)
        gate.close("Withdrawn.")
        return await asked

    assert asyncio.run(scene()) == Ruling("deny", "Withdrawn.")
    assert ("started", "i_1", "toolu_1") not in book.record


# --- calls that the model makes again ------------------------------------------------------------


def sibling(**changes: Any) -> Inquiry:
    """The other call of the turn, about which people were asked with the first."""
    given = {"id": "i_2", "number": 13, "tool_use_id": "toolu_0", "hold": "sibling", "tool_input": EDITED}
    return an_inquiry(**{**given, "digest": digest("Bash", EDITED), **changes})


@pytest.mark.parametrize("first", ["approved", "rejected"])
def test_what_was_decided_about_the_others_is_told_with_the_first(first: str) -> None:
    """The model learns in one place which calls it may make again, and which not."""
    decision = a_decision() if first == "approved" else a_decision("reject", reason="no")
    others = [
        sibling(state="approved", decision=a_decision()),
        sibling(id="i_3", state="rejected", decision=a_decision("reject", reason="not that one")),
    ]
    ruling = rule(Gate(judge, Book(an_inquiry(state=first, decision=decision), *others)))
    told = briefs.of_siblings(others)
    assert "not that one" in told
    if first == "approved":
        assert ruling == Ruling("allow", context=told)
    else:
        refused = briefs.rejected(an_inquiry(state="rejected", decision=decision))
        assert ruling == Ruling("deny", f"{refused}\n\n{told}")


@pytest.mark.parametrize(
    ("state", "decision", "effect", "record"),
    [
        ("approved", a_decision(), "allow", [("started", "i_2", "toolu_0")]),
        ("rejected", a_decision("reject", reason="no"), "deny", [("refusal told", "i_2", "toolu_0")]),
        ("expired", None, "deny", [("refusal told", "i_2", "toolu_0")]),
    ],
)
def test_a_sibling_made_again_gets_its_answer_once(
    state: str, decision: Any, effect: str, record: list[Any]
) -> None:
    """An approval is for one run, a refusal is told once and then over."""
    book = Book(sibling(state=state, decision=decision))
    assert rule(Gate(judge, book), "Bash", EDITED, "toolu_0").effect == effect
    assert book.record == record


def test_asked_all_at_once_one_is_deferred() -> None:
    """Parallel hooks of one model turn are ruled on one after another."""
    gate = Gate(judge, Book())

    async def ask() -> list[Ruling]:
        return await asyncio.gather(*(gate.rule("Bash", COMMAND, f"toolu_{n}") for n in range(5)))

    assert sorted(r.effect for r in asyncio.run(ask())) == ["defer", "deny", "deny", "deny", "deny"]


def test_a_deferred_call_does_not_pass_the_second_lock() -> None:
    """Whatever the engine does with a deferral, `can_use_tool` says no to it."""
    gate = Gate(judge, Book())
    assert [rule(gate).effect for _ in range(3)] == ["defer", "deny", "deny"]


def test_a_closed_gate_refuses_until_it_is_opened() -> None:
    """While a turn is taken down nothing starts, not even what was approved or is always allowed."""
    book = Book(approved())
    gate = Gate(judge, book)
    gate.close("Withdrawn.")
    assert rule(gate) == rule(gate, "Read", {}, "r") == Ruling("deny", "Withdrawn.")
    assert book.record == []
    gate.reopen()
    assert [rule(gate, "Read", {}, id_).effect for id_ in ("r", "r2")] == ["deny", "allow"]


# --- calls people decided about ----------------------------------------------------------------

UNKNOWN = Ruling("deny", briefs.unknown())

DECIDED: dict[str, tuple[Inquiry, Ruling]] = {
    "approved, and over": (
        an_inquiry(state="approved", decision=a_decision(), settled=True),
        Ruling("deny", briefs.not_run("its approval is over.")),
    ),
    "pending": (an_inquiry(), Ruling("deny", briefs.not_run("it still waits for a person."))),
    "approved": (approved(), Ruling("allow")),
    "rejected": (
        an_inquiry(state="rejected", decision=a_decision("reject", reason="use the canary first")),
        Ruling(
            "deny",
            "Rejected by Lin. It did not run. Their reason, word for word:\nuse the canary first\n"
            "Do not try to reach the same effect in another way.",
        ),
    ),
    "expired": (an_inquiry(state="expired"), Ruling("deny", briefs.expired(an_inquiry()))),
    "withdrawn": (an_inquiry(state="withdrawn"), Ruling("deny", briefs.withdrawn())),
    "edited": (
        changed(input=EDITED),
        Ruling("allow", updated_input=EDITED, context=briefs.ran_as_changed(changed(input=EDITED))),
    ),
    "edited to nothing": (
        changed(input={}),
        Ruling("allow", updated_input={}, context=briefs.ran_as_changed(changed(input={}))),
    ),
    "edited into what is forbidden": (
        changed(input=OTHER),
        Ruling("deny", briefs.denied_by_rule("Bash(kubectl delete *)")),
    ),
    "conditions": (
        changed(conditions="only staging"),
        Ruling("deny", briefs.conditions(changed(conditions="only staging"))),
    ),
    "started": (approved(run=a_run("started")), UNKNOWN),
    "finished": (approved(run=a_run("finished")), Ruling("deny", briefs.ran_already())),
    "unknown": (approved(run=a_run("unknown")), UNKNOWN),
    "edited and started": (
        an_inquiry(state="changed", decision=a_decision("change", input=EDITED), run=a_run("started")),
        UNKNOWN,
    ),
}


@pytest.mark.parametrize("case", DECIDED)
def test_a_call_people_decided_about(case: str) -> None:
    """Each state of an inquiry has its own words, and only a yes runs: once, after it is on record."""
    inquiry, ruling = DECIDED[case]
    book = Book(inquiry)
    gate = Gate(judge, book)
    assert [rule(gate), rule(gate)] == [ruling, ruling], "both locks get the same answer"
    held_back = ("held back", "i_1", "toolu_1", "the policy forbids it (Bash(kubectl delete *)).")
    denied = [held_back] if "Forbidden" in ruling.reason else []
    assert book.record == ([("started", "i_1", "toolu_1")] if ruling.effect == "allow" else denied)
    assert gate.alarmed == ""
    assert gate.deferral is None


def test_case_a02_a_refusal_stops_the_call_even_if_the_hook_is_never_asked() -> None:
    """The second lock alone, on a resume that skips the hook, says no in the person's words."""
    refused = an_inquiry(state="rejected", decision=a_decision("reject", reason="no"))
    assert rule(Gate(judge, Book(refused))) == Ruling("deny", briefs.rejected(refused))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "allow",
        {"effect": "allow"},
        Judgement.model_construct(effect="Allow", rule="r"),
        Judgement.model_construct(),
    ],
    ids=["nothing", "a text", "a dict", "misspelt", "no effect"],
)
def test_case_a03_anything_but_a_well_formed_allow_is_no(answer: Any) -> None:
    """A judgement that is not exactly one never lets a call run."""
    gate = Gate(lambda *_: answer, Book())
    assert rule(gate).effect in ("deny", "defer")
    assert not gate.allowed("toolu_1")


def test_case_b10_an_approver_who_was_removed_no_longer_counts() -> None:
    """The ledger is asked again when the call is about to run; its reason is told and on record."""
    why = "Lin may not approve it any more."
    book = Book(approved(), refusal=why)
    assert rule(Gate(judge, book)) == Ruling("deny", briefs.not_run(why))
    assert book.record == [("held back", "i_1", "toolu_1", why)]


def test_case_e01_a_call_that_was_started_is_never_run_again() -> None:
    """A second turn over the same record (its worker was killed) is told the outcome is unknown."""
    book = Book(approved())
    assert rule(Gate(judge, book)).effect == "allow"
    assert rule(Gate(judge, book)) == UNKNOWN
    assert book.record == [("started", "i_1", "toolu_1")]


# --- what was shown is what runs ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("inquiry", "name", "tool_input"),
    [
        (approved(), "Bash", OTHER),
        (approved(), "Bash", {**COMMAND, "timeout": 1}),
        (approved(), "Monitor", COMMAND),
        (approved(digest="0" * 64), "Bash", COMMAND),
        (a_plan(state="approved", decision=a_decision()), "Bash", {}),
        (a_plan(state="approved", decision=a_decision()), "ExitPlanMode", {"plan": "another"}),
        (
            a_question(state="answered", decision=a_decision("answer", answers=ANSWERS)),
            "AskUserQuestion",
            {"questions": []},
        ),
    ],
    ids=[
        "other input",
        "one field more",
        "other tool",
        "other digest",
        "no plan",
        "other plan",
        "other questions",
    ],
)
def test_a_call_that_is_not_the_one_shown_is_an_alarm(inquiry: Inquiry, name: str, tool_input: Any) -> None:
    """It does not run, it is on record, and nothing runs after it in this turn."""
    book = Book(inquiry)
    gate = Gate(judge, book)
    assert rule(gate, name, tool_input) == Ruling(
        "deny", briefs.not_run("it is not the call that was shown and approved.")
    )
    what = "the call is not the one that was shown"
    call = DeferredCall(tool_use_id="toolu_1", tool_name=name, tool_input=tool_input)
    assert (gate.alarmed, book.record) == (what, [("alarm", what, call)])
    gate.reopen()
    assert rule(gate, "Read", {}, "r") == Ruling("deny", briefs.not_run("this turn is being ended."))


@pytest.mark.parametrize("first", ["Bash", "Read"])
def test_an_input_that_changes_between_the_locks_is_an_alarm(first: str) -> None:
    """Whether it was approved by people or allowed by a rule, and asked again it stays a no."""
    book = Book(approved())
    gate = Gate(judge, book)
    id_ = "toolu_1" if first == "Bash" else "r"
    assert rule(gate, first, COMMAND, id_).effect == "allow"
    changed_input = Ruling("deny", briefs.not_run("its input changed between the two checks."))
    assert rule(gate, first, OTHER, id_) == changed_input
    assert gate.alarmed == "the input changed between the two checks"
    assert (rule(gate, first, COMMAND, id_), gate.allowed(id_)) == (changed_input, False)


def test_a_call_allowed_before_an_alarm_does_not_pass_after_it() -> None:
    """Between its two locks another call raised an alarm: nothing more runs in this turn."""
    gate = Gate(judge, Book(approved()))
    assert rule(gate, "Read", {}, "r").effect == "allow"
    assert rule(gate, "Bash", OTHER).effect == "deny"
    assert rule(gate, "Read", {}, "r") == Ruling("deny", briefs.not_run("this turn is being ended."))
    assert not gate.allowed("r")


def test_the_second_lock_sees_the_edited_input() -> None:
    """The engine shows `can_use_tool` what the hook put in its place (E37), or what was asked."""
    inquiry = changed(input=EDITED)
    gate = Gate(judge, Book(inquiry))
    rulings = [
        rule(gate, "Bash", call) for call in (COMMAND, EDITED, dict(reversed(EDITED.items())), COMMAND)
    ]
    assert rulings == [Ruling("allow", updated_input=EDITED, context=briefs.ran_as_changed(inquiry))] * 4
    assert rule(gate, "Bash", OTHER).effect == "deny"
    assert gate.alarmed


def test_a_questions_answers_are_in_both_locks() -> None:
    """Answers in the hook alone are lost (E38), so each lock gets the questions with the answers."""
    answered = a_question(state="answered", decision=a_decision("answer", answers=ANSWERS))
    gate = Gate(judge, Book(answered))
    both = Ruling("allow", updated_input={**QUESTIONS, "answers": ANSWERS})
    assert [rule(gate, "AskUserQuestion", QUESTIONS) for _ in range(2)] == [both, both]
    assert rule(gate, "AskUserQuestion", both.updated_input) == both


def test_a_plan_is_replayed_with_an_empty_input() -> None:
    """The engine loses the plan on the way (E18): its id ties it to what was shown, and it is told again."""
    plan = a_plan(state="approved", decision=a_decision())
    gate = Gate(judge, Book(plan))
    allow = Ruling("allow", updated_input={}, context=briefs.approved_plan(plan))
    assert [rule(gate, "ExitPlanMode", {}) for _ in range(2)] == [allow, allow]
    assert rule(gate, "Bash", COMMAND).effect == "deny"


def test_a_call_asked_again_is_found_by_what_it_is() -> None:
    """After "ask again" the model's new call has a new id; the approval is for exactly that input, once."""
    book = Book(approved(tool_use_id=""))
    gate = Gate(judge, book)
    asks = [("other", EDITED), ("new", COMMAND), ("newer", COMMAND)]
    assert [rule(gate, "Bash", call, id_).effect for id_, call in asks] == ["defer", "allow", "deny"]
    assert book.record == [("started", "i_1", "new")]


@pytest.mark.parametrize(
    ("decision", "step"),
    [
        (a_decision(), "Approved by Lin. Go on with exactly the step that was described."),
        (
            a_decision("change", conditions="after 18:00"),
            "Approved by Lin under these conditions, word for word:\nafter 18:00",
        ),
    ],
    ids=["approved", "under conditions"],
)
def test_the_decision_on_a_step_is_handed_out_once(decision: Any, step: str) -> None:
    """`request_approval` reads its own decision, not one that another call left behind."""
    state = "approved" if decision.verdict == "approve" else "changed"
    asked = an_inquiry(tool_name=REQUEST_APPROVAL, tool_input=STEP, state=state, decision=decision)
    gate = Gate(judge, Book(asked))
    assert gate.take_step() is None
    assert [rule(gate, REQUEST_APPROVAL, STEP) for _ in range(2)] == [Ruling("allow")] * 2
    assert [gate.take_step(), gate.take_step()] == [step, None]


def test_a_refused_step_leaves_nothing_to_hand_out() -> None:
    """Without a yes the tool has no decision to read."""
    asked = an_inquiry(
        tool_name=REQUEST_APPROVAL,
        tool_input=STEP,
        state="rejected",
        decision=a_decision("reject", reason="no"),
    )
    gate = Gate(judge, Book(asked))
    assert rule(gate, REQUEST_APPROVAL, STEP).effect == "deny"
    assert gate.take_step() is None


# --- plan files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path", "effect"),
    [
        ("Write", "{scratch}/turn-1/plans/calm-fox.md", "allow"),
        ("Edit", "{scratch}/turn-1/plans/calm-fox.md", "allow"),
        ("NotebookEdit", "{scratch}/turn-1/plans/calm-fox.md", "defer"),
        ("Bash", "{scratch}/turn-1/plans/calm-fox.md", "defer"),
        ("Write", "{scratch}/turn-1/settings.json", "defer"),
        ("Write", "{scratch}/turn-1/plans/deep/x.md", "defer"),
        ("Write", "{scratch}/turn-1/plans/../settings.json", "defer"),
        ("Write", "{scratch}/../plans/x.md", "defer"),
        ("Write", "{scratch}2/plans/x.md", "defer"),
        ("Write", "/etc/plans/x.md", "defer"),
        ("Write", "{scratch}/turn-1/plans/link/x.md", "defer"),
        ("Write", "{scratch}/link/x.md", "defer"),
        ("Write", "turn-1/plans/x.md", "defer"),
        ("Write", 7, "defer"),
        ("Write", None, "defer"),
        ("Write", "{scratch}/plans/\0", "deny"),
    ],
)
def test_the_engines_own_plan_files(
    name: str, path: Any, effect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only files directly in a `plans` folder below the turn's own place are no effect; links do not help."""
    scratch, outside = tmp_path / "turns", tmp_path / "ops" / "plans"
    (scratch / "turn-1" / "plans").mkdir(parents=True)
    outside.mkdir(parents=True)
    (scratch / "turn-1" / "plans" / "link").symlink_to(tmp_path)
    (scratch / "link").symlink_to(outside)
    monkeypatch.chdir(scratch)
    where = path.format(scratch=scratch) if isinstance(path, str) else path
    gate = Gate(judge, Book(), plans=scratch)
    assert rule(gate, name, {"file_path": where, "content": "x"}).effect == effect


def test_without_a_place_for_plans_there_are_none() -> None:
    """A gate that is not told where plans lie lets none through."""
    assert rule(Gate(judge, Book()), "Write", {"file_path": "/turns/plans/x.md"}).effect == "defer"


# --- whatever goes wrong -----------------------------------------------------------------------

METHODS = ("find", "grant_for", "refusal", "start", "use_grant", "denied", "alarm", "judge")
ERRORS = (
    TryLater("away"),
    LostLease("gone"),
    WrongState("started before"),
    RuntimeError("{}"),
    KeyError("x"),
    TimeoutError(),
    RecursionError(),
    ValueError("%s {}"),
    OSError(5, "io"),
)
SCENES = st.sampled_from(
    [
        *(inquiry for inquiry, _ in DECIDED.values()),
        a_plan(state="approved", decision=a_decision()),
        a_question(state="answered", decision=a_decision("answer", answers=ANSWERS)),
        approved(tool_use_id=""),
        None,
    ]
)
CALLS = st.sampled_from(
    [
        ("Bash", COMMAND),
        ("Bash", EDITED),
        ("Bash", OTHER),
        ("Bash", {"command": "\ud800"}),
        ("Bash", {"n": math.nan}),
        ("Bash", {"command": {1, 2}}),
        ("Read", {"file_path": "\0"}),
        ("ExitPlanMode", {}),
        ("AskUserQuestion", QUESTIONS),
    ]
)


@settings(max_examples=100, deadline=None)
@given(
    SCENES,
    st.lists(CALLS, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(METHODS), st.sampled_from(ERRORS), min_size=1),
    st.booleans(),
    st.sampled_from([None, "agent-1"]),
)
def test_whatever_raises_the_answer_is_no(
    scene: Inquiry | None,
    calls: list[tuple[str, Any]],
    broken: dict[str, Exception],
    grant: bool,
    agent: str | None,
) -> None:
    """The gate never raises, and a call whose check went wrong anywhere never runs, asked again or not."""
    book = Book(*([scene] if scene else []), grant=grant, broken=broken)

    def judging(*call: Any) -> Judgement:
        book._ask("judge")
        return judge(*call)

    gate = Gate(judging, book)
    failed = False
    for name, call in calls:
        before = len(book.raised)
        ruling = rule(gate, name, call, agent=agent)
        failed = failed or len(book.raised) > before
        if failed:
            assert ruling.effect == "deny"
            assert not gate.allowed("toolu_1")
        if ruling.effect == "allow":
            assert scene is None or scene.run_allowed or scene.tool_use_id != "toolu_1"


@pytest.mark.parametrize("tool_input", [{"n": math.nan}, {"c": "\udfff"}, {"c": {1}}, {1: "a", "b": 2}])
def test_an_input_without_a_digest_is_refused(tool_input: Any) -> None:
    """What cannot be shown exactly cannot be approved or run, not even under an allow rule."""
    assert rule(Gate(judge, Book()), "Read", tool_input).effect == "deny"


def test_why_the_gate_failed_is_told_to_the_model() -> None:
    """The refusal names the cause, so that the thread shows it."""
    gate = Gate(judge, Book(broken={"find": TryLater("The store did not answer.")}))
    assert rule(gate) == Ruling(
        "deny", briefs.not_run("its approval could not be checked (The store did not answer.).")
    )
