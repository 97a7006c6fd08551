"""The one place that says whether a tool call of a turn runs, waits for a person, or is refused.

Both locks of the engine (the PreToolUse hook and `can_use_tool`) ask the same gate by
`tool_use_id`, and get the same answer. It fails closed: whatever goes wrong inside becomes a
"no" that says why. It allows a decided call once only, after `started` is on record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from agent_runner import briefs
from agent_runner.digest import canonical, digest
from agent_runner.model import (
    REQUEST_APPROVAL,
    DeferredCall,
    Execution,
    Grant,
    Inquiry,
    InquiryState,
    Kind,
    Verdict,
)
from agent_runner.policy import Judgement

log = logging.getLogger(__name__)

PLAN_TOOL = "ExitPlanMode"
QUESTION_TOOL = "AskUserQuestion"


@dataclass(frozen=True)
class Ruling:
    """What happens to a call. `context` is told to the model beside the tool's result."""

    effect: Literal["allow", "deny", "defer"]
    reason: str = ""
    updated_input: Mapping[str, Any] | None = None
    context: str = ""


@dataclass(frozen=True)
class Deferral:
    """The call at which the turn stops, with the rule that stopped it."""

    call: DeferredCall
    rule: str


class Ledger(Protocol):
    """What the gate reads and writes; every method may raise, and then the answer is no."""

    async def find(self, tool_use_id: str, call_digest: str) -> Inquiry | None:
        """The inquiry in which people decide or decided about this call."""

    async def grant_for(self, call: DeferredCall, call_digest: str, stopped_by: str) -> Grant | None:
        """A standing approval that covers this call, which the policy rule `stopped_by` stopped."""

    async def refusal(self, inquiry: Inquiry) -> str:
        """Why a decided call may not run any more ('' if it may): approver, age, policy."""

    async def held_back(self, inquiry: Inquiry, tool_use_id: str, why: str) -> None:
        """Puts on record that such a call may not run now, and why: people must learn of it."""

    async def start(self, inquiry: Inquiry, tool_use_id: str) -> None:
        """Puts `started` on record; raises if it was there already."""

    async def use_grant(self, grant: Grant, call: DeferredCall) -> None:
        """Puts the use of a grant on record."""

    async def denied(self, call: DeferredCall, rule: str) -> None:
        """Puts on record that the policy forbade a call."""

    async def alarm(self, what: str, call: DeferredCall) -> None:
        """Puts on record that something happened which must not be possible."""


Judge = Callable[[str, Mapping[str, Any], str | None], Judgement]


class Gate:
    """Rules on every call of one turn. `plans` is where the engine keeps its own plan files."""

    def __init__(self, judge: Judge, ledger: Ledger, *, plans: Path | None = None) -> None:
        self._judge = judge
        self._ledger = ledger
        self._plans = plans
        self._lock = asyncio.Lock()
        self._rulings: dict[str, tuple[Ruling, str]] = {}
        self._steps: list[str] = []
        self._closed = ""
        self.deferral: Deferral | None = None
        self.alarmed = ""

    def close(self, reason: str) -> None:
        """From now on every call is refused with this reason."""
        self._closed = reason

    def reopen(self) -> None:
        """Ends `close`, but never the closing after an alarm."""
        if not self.alarmed:
            self._closed = ""

    def allowed(self, tool_use_id: str) -> bool:
        """Whether this gate let that call through."""
        ruling = self._rulings.get(tool_use_id)
        return ruling is not None and ruling[0].effect == "allow"

    @property
    def asked(self) -> bool:
        """Whether this gate was asked about any call."""
        return bool(self._rulings)

    def knows(self, tool_use_id: str) -> bool:
        """Whether this gate was asked about that call."""
        return tool_use_id in self._rulings

    def take_step(self) -> str | None:
        """The decision on the step that `request_approval` described, once; None if there is none."""
        return self._steps.pop(0) if self._steps else None

    async def rule(
        self, tool_name: str, tool_input: Mapping[str, Any], tool_use_id: str, agent_id: str | None = None
    ) -> Ruling:
        """The ruling on a call; the same for every ask about the same call. Never raises."""
        async with self._lock:
            try:
                return await self._rule(tool_name, dict(tool_input), tool_use_id, agent_id)
            except Exception as error:
                log.exception("the gate failed on %s and refuses", tool_name)
                refusal = Ruling("deny", briefs.not_run(f"its approval could not be checked ({error})."))
                self._rulings[tool_use_id] = (refusal, "")
                return refusal

    async def _rule(
        self, tool_name: str, tool_input: dict[str, Any], tool_use_id: str, agent_id: str | None
    ) -> Ruling:
        call_digest = digest(tool_name, tool_input)
        if tool_use_id in self._rulings:
            return await self._again(tool_name, tool_input, tool_use_id)
        ruling = await self._fresh(tool_name, tool_input, tool_use_id, agent_id, call_digest)
        self._rulings[tool_use_id] = (ruling, _tie(tool_name, tool_input))
        return ruling

    async def _again(self, tool_name: str, tool_input: dict[str, Any], tool_use_id: str) -> Ruling:
        """The second lock: the same answer, for the same input or the one that was allowed instead."""
        ruling, first = self._rulings[tool_use_id]
        if ruling.effect == "deny":
            return ruling
        if ruling.effect == "defer":
            return Ruling("deny", briefs.one_at_a_time())
        if self._closed:
            return self._deny_from_now_on(tool_use_id, self._closed)
        same = _tie(tool_name, tool_input) == first
        if same or (
            ruling.updated_input is not None
            and canonical(dict(ruling.updated_input)) == canonical(tool_input)
        ):
            return ruling
        call = DeferredCall(tool_use_id=tool_use_id, tool_name=tool_name, tool_input=tool_input)
        refusal = self._deny_from_now_on(
            tool_use_id, briefs.not_run("its input changed between the two checks.")
        )
        await self.alarm("the input changed between the two checks", call)
        return refusal

    def _deny_from_now_on(self, tool_use_id: str, reason: str) -> Ruling:
        """Takes an allowance back: a result of this call is an alarm from here on."""
        refusal = Ruling("deny", reason)
        self._rulings[tool_use_id] = (refusal, "")
        return refusal

    async def _fresh(
        self,
        tool_name: str,
        tool_input: dict[str, Any],
        tool_use_id: str,
        agent_id: str | None,
        call_digest: str,
    ) -> Ruling:
        inquiry = await self._ledger.find(tool_use_id, call_digest)
        if self._closed:
            # What is known about the call (refused, unknown, ...) is still what is told.
            return Ruling("deny", (_refusal_words(inquiry) if inquiry else "") or self._closed)
        if inquiry is not None:
            return await self._decided(inquiry, tool_name, tool_input, tool_use_id, call_digest)
        if self._is_plan_file(tool_name, tool_input):
            return Ruling("allow")
        call = DeferredCall(tool_use_id=tool_use_id, tool_name=tool_name, tool_input=tool_input)
        judgement = self._judge(tool_name, tool_input, agent_id)
        if judgement.effect == "deny":
            await self._ledger.denied(call, judgement.rule)
            return Ruling("deny", briefs.denied_by_rule(judgement.rule))
        if judgement.effect == "allow":
            return Ruling("allow")
        grant = await self._ledger.grant_for(call, call_digest, judgement.rule)
        if grant is not None:
            await self._ledger.use_grant(grant, call)
            return Ruling("allow", context=briefs.ran_again(grant))
        return self._defer(call, judgement.rule, agent_id)

    def _defer(self, call: DeferredCall, rule: str, agent_id: str | None) -> Ruling:
        if agent_id:
            return Ruling("deny", briefs.not_in_subagent())  # engine fact E15: deferred there, it is lost
        if self.deferral is not None:
            return Ruling("deny", briefs.one_at_a_time())  # E12: of two deferred calls the first vanishes
        self.deferral = Deferral(call, rule)
        return Ruling("defer")

    async def _decided(
        self,
        inquiry: Inquiry,
        tool_name: str,
        tool_input: dict[str, Any],
        tool_use_id: str,
        call_digest: str,
    ) -> Ruling:
        """The ruling on a call about which people were asked."""
        refused = _refusal_words(inquiry)
        if refused:
            return Ruling("deny", refused)
        if not _was_shown(inquiry, tool_name, tool_input, call_digest):
            call = DeferredCall(tool_use_id=tool_use_id, tool_name=tool_name, tool_input=tool_input)
            await self.alarm("the call is not the one that was shown", call)
            return Ruling("deny", briefs.not_run("it is not the call that was shown and approved."))
        judgement = self._judge(tool_name, inquiry.effective_input, None)
        denied = f"the policy forbids it ({judgement.rule})." if judgement.effect == "deny" else ""
        if why := denied or await self._ledger.refusal(inquiry):
            await self._ledger.held_back(inquiry, tool_use_id, why)
            return Ruling("deny", briefs.denied_by_rule(judgement.rule) if denied else briefs.not_run(why))
        await self._ledger.start(inquiry, tool_use_id)
        return self._go(inquiry, tool_input)

    def _go(self, inquiry: Inquiry, tool_input: dict[str, Any]) -> Ruling:
        decision = inquiry.decision
        assert decision is not None  # noqa: S101  (`_refusal_words` let only decided ones through)
        if inquiry.kind is Kind.QUESTION:
            answered = {"questions": tool_input.get("questions", []), "answers": decision.answers}
            return Ruling("allow", updated_input=answered)
        if inquiry.tool_name == REQUEST_APPROVAL:
            self._steps.append(briefs.approved_step(inquiry))
        if inquiry.kind is Kind.PLAN:
            return Ruling("allow", updated_input=tool_input, context=briefs.approved_plan(inquiry))
        changed = decision.input if decision.verdict is Verdict.CHANGE else None
        return Ruling("allow", updated_input=changed, context=briefs.ran_as_approved(inquiry))

    def _is_plan_file(self, tool_name: str, tool_input: dict[str, Any]) -> bool:
        """In plan mode the engine has the model write its plan to a file of its own: that is no effect."""
        path = tool_input.get("file_path")
        if self._plans is None or tool_name not in ("Write", "Edit", "Read") or not isinstance(path, str):
            return False
        if not Path(path).is_absolute():
            return False  # the engine would read it against another directory than this process does
        target = Path(path).resolve()
        return target.parent.name == "plans" and target.is_relative_to(self._plans.resolve())

    async def alarm(self, what: str, call: DeferredCall) -> None:
        """Something that must not be possible happened: on record, and the turn ends as failed."""
        self.alarmed = what
        self.close(briefs.not_run("this turn is being ended."))
        log.critical("alarm: %s (%s %s)", what, call.tool_name, call.tool_use_id)
        await self._ledger.alarm(what, call)


def _was_shown(inquiry: Inquiry, tool_name: str, tool_input: Mapping[str, Any], call_digest: str) -> bool:
    """Whether the call is the one people saw.

    The engine replays ExitPlanMode with an empty input (measured), so its id ties it to the plan.
    """
    if inquiry.kind is Kind.PLAN and tool_name == PLAN_TOOL:
        return not tool_input or tool_input.get("plan") == inquiry.tool_input.get("plan")
    return tool_name == inquiry.tool_name and call_digest == inquiry.digest


def _tie(tool_name: str, tool_input: dict[str, Any]) -> str:
    """What must be the same in both checks of a call; a plan's input is replayed empty."""
    return tool_name if tool_name == PLAN_TOOL else digest(tool_name, tool_input)


def _refusal_words(inquiry: Inquiry) -> str:
    """What the model is told about a call that people did not say yes to; '' if they did."""
    if inquiry.run.state is not Execution.NONE:
        return briefs.ran_already() if inquiry.run.state is Execution.FINISHED else briefs.unknown()
    if inquiry.run_allowed:
        return ""
    words = _WORDS.get(inquiry.state)
    return words(inquiry) if words else briefs.not_run("it still waits for a person.")


_WORDS: Mapping[InquiryState, Callable[[Inquiry], str]] = {
    InquiryState.REJECTED: briefs.rejected,
    InquiryState.EXPIRED: briefs.expired,
    InquiryState.CHANGED: briefs.conditions,
    InquiryState.WITHDRAWN: briefs.withdrawn,
}
