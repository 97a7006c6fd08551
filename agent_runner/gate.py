"""The one place that says whether a tool call of a turn runs, waits for a person, or is refused.

Both locks of the engine (the PreToolUse hook and `can_use_tool`) ask the same gate by
`tool_use_id`, and get the same answer. It fails closed: whatever goes wrong inside becomes a
"no" that says why. It allows a decided call once only, after `started` is on record.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_runner import briefs
from agent_runner.calls import MOST_REFUSALS
from agent_runner.digest import canonical, digest
from agent_runner.model import REQUEST_APPROVAL, DeferredCall, Hold, Inquiry, InquiryState, Kind, Verdict
from agent_runner.rulings import PLAN_TOOL as PLAN_TOOL
from agent_runner.rulings import QUESTION_TOOL as QUESTION_TOOL
from agent_runner.rulings import Deferral as Deferral
from agent_runner.rulings import Judge, is_plan_file, joined, refusal_words, tie, was_shown
from agent_runner.rulings import Ledger as Ledger
from agent_runner.rulings import Ruling as Ruling

log = logging.getLogger(__name__)

MOST_SIBLINGS = 19
"""Calls of one turn that are asked about beside the one that waits; any more are asked about later."""

LOOK_SECONDS = 0.3
"""Between two looks at whether people decided about a call that a process waits for."""


class Gate:
    """Rules on every call of one turn. `plans` is where the engine keeps its own plan files."""

    def __init__(self, judge: Judge, ledger: Ledger, *, plans: Path | None = None) -> None:
        self._judge = judge
        self._ledger = ledger
        self._plans = plans
        self._lock = asyncio.Lock()
        self._rulings: dict[str, tuple[Ruling, str]] = {}
        self._asked: dict[str, str] = {}
        self._steps: list[str] = []
        self._closed = ""
        self.deferral: Deferral | None = None
        self.siblings: list[Deferral] = []
        """Calls of the same turn that are asked about together with the deferral."""
        self._waiting = 0
        self._waiting_since = 0.0
        self._waited = 0.0
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

    @property
    def waited(self) -> float:
        """Seconds in which this process waited for people."""
        now = time.monotonic()
        return self._waited + (now - self._waiting_since if self._waiting else 0.0)

    @property
    def waiting(self) -> bool:
        """Whether a call of this process waits for people now."""
        return self._waiting > 0

    def take_step(self) -> str | None:
        """The decision on the step that `request_approval` described, once; None if there is none."""
        return self._steps.pop(0) if self._steps else None

    async def rule(
        self, tool_name: str, tool_input: Mapping[str, Any], tool_use_id: str, agent_id: str | None = None
    ) -> Ruling:
        """The ruling on a call; the same for every ask about the same call. Never raises.

        Waits for people where the call of a subagent needs them; other calls are ruled on meanwhile.
        """
        try:
            async with self._lock:
                ruling = await self._rule(tool_name, dict(tool_input), tool_use_id, agent_id)
            if ruling.effect == "wait":
                ruling = await self._live(tool_name, dict(tool_input), tool_use_id)
        except Exception as error:
            log.exception("the gate failed on %s and refuses", tool_name)
            ruling = Ruling("deny", briefs.not_run(f"its approval could not be checked ({error})."))
            self._rulings[tool_use_id] = (ruling, "")
        return ruling

    async def _live(self, tool_name: str, tool_input: dict[str, Any], tool_use_id: str) -> Ruling:
        """The ruling on a subagent's call, once people decided or their time is over (facts E15)."""
        inquiry = await self._answered(self._asked[tool_use_id])
        async with self._lock:
            if self._closed:
                ruling = Ruling("deny", self._closed)
            elif inquiry.state is InquiryState.EXPIRED:
                ruling = Ruling("deny", briefs.nobody_answered(inquiry))
                await self._ledger.tell_refusal(inquiry, tool_use_id)
            else:
                call_digest = digest(tool_name, tool_input)
                ruling = await self._decided(inquiry, tool_name, tool_input, tool_use_id, call_digest)
            self._rulings[tool_use_id] = (ruling, tie(tool_name, tool_input))
            return ruling

    async def _answered(self, inquiry_id: str) -> Inquiry:
        if not self._waiting:
            self._waiting_since = time.monotonic()
        self._waiting += 1
        try:
            while True:
                inquiry = await self._ledger.look(inquiry_id)
                if not inquiry.open or self._closed:
                    return inquiry
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._waited += time.monotonic() - self._waiting_since

    async def _rule(
        self, tool_name: str, tool_input: dict[str, Any], tool_use_id: str, agent_id: str | None
    ) -> Ruling:
        call_digest = digest(tool_name, tool_input)
        if tool_use_id in self._rulings:
            return await self._again(tool_name, tool_input, tool_use_id)
        ruling = await self._fresh(tool_name, tool_input, tool_use_id, agent_id, call_digest)
        self._rulings[tool_use_id] = (ruling, tie(tool_name, tool_input))
        return ruling

    async def _again(self, tool_name: str, tool_input: dict[str, Any], tool_use_id: str) -> Ruling:
        """The second lock: the same answer, for the same input or the one that was allowed instead."""
        ruling, first = self._rulings[tool_use_id]
        if ruling.effect == "deny":
            return ruling
        if ruling.effect in ("defer", "wait"):
            return Ruling("deny", briefs.one_at_a_time())
        if self._closed:
            return self._deny_from_now_on(tool_use_id, self._closed)
        same = tie(tool_name, tool_input) == first
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
            return Ruling("deny", (refusal_words(inquiry) if inquiry else "") or self._closed)
        if inquiry is not None:
            return await self._decided(inquiry, tool_name, tool_input, tool_use_id, call_digest)
        if is_plan_file(self._plans, tool_name, tool_input):
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
        if await self._ledger.refusals(call_digest) >= MOST_REFUSALS:
            await self._ledger.denied(call, briefs.REFUSED_OFTEN)
            return Ruling("deny", briefs.refused_often())
        return await self._ask(call, call_digest, judgement.rule, agent_id)

    async def _ask(self, call: DeferredCall, call_digest: str, rule: str, agent_id: str | None) -> Ruling:
        """People are to be asked: at the turn's end, or (deferred there, it is lost: E15) at once."""
        if agent_id and call.tool_name in (QUESTION_TOOL, PLAN_TOOL):
            return Ruling("deny", briefs.not_in_subagent())
        if agent_id:
            inquiry = await self._ledger.ask(call, call_digest, rule)
            self._asked[call.tool_use_id] = inquiry.id
            return Ruling("wait")
        if self.deferral is None:
            self.deferral = Deferral(call, rule)
            return Ruling("defer")
        # E12: of two deferred calls the first vanishes. A plan is replayed without its text.
        if PLAN_TOOL in (call.tool_name, self.deferral.call.tool_name) or len(self.siblings) >= MOST_SIBLINGS:
            return Ruling("deny", briefs.one_at_a_time())
        self.siblings.append(Deferral(call, rule))
        return Ruling("deny", briefs.asked_together())

    async def _decided(
        self,
        inquiry: Inquiry,
        tool_name: str,
        tool_input: dict[str, Any],
        tool_use_id: str,
        call_digest: str,
    ) -> Ruling:
        """The ruling on a call about which people were asked, with what they said of its siblings."""
        ruling = await self._on_its_own(inquiry, tool_name, tool_input, tool_use_id, call_digest)
        more = briefs.of_siblings(await self._ledger.siblings(inquiry))
        if ruling.effect == "deny":
            return replace(ruling, reason=joined(ruling.reason, more))
        return replace(ruling, context=joined(ruling.context, more))

    async def _on_its_own(
        self,
        inquiry: Inquiry,
        tool_name: str,
        tool_input: dict[str, Any],
        tool_use_id: str,
        call_digest: str,
    ) -> Ruling:
        refused = refusal_words(inquiry)
        if refused:
            if inquiry.hold is not Hold.DEFERRED and inquiry.awaited:
                await self._ledger.tell_refusal(inquiry, tool_use_id)
            return Ruling("deny", refused)
        if not was_shown(inquiry, tool_name, tool_input, call_digest):
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

    async def alarm(self, what: str, call: DeferredCall) -> None:
        """Something that must not be possible happened: on record, and the turn ends as failed."""
        self.alarmed = what
        self.close(briefs.not_run("this turn is being ended."))
        log.critical("alarm: %s (%s %s)", what, call.tool_name, call.tool_use_id)
        await self._ledger.alarm(what, call)
