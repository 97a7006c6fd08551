"""The gate's ledger on the store: finds what people decided, and records what is dispatched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from agent_runner import calls, granting, lifecycle
from agent_runner.audit import Event, Note
from agent_runner.digest import digest
from agent_runner.errors import TryLater
from agent_runner.model import DeferredCall, Grant, Inquiry, Verdict
from agent_runner.store import Changes, Modifier, Snapshot, Store

Refusal = Callable[[Inquiry], str]
Covers = Callable[[Grant, DeferredCall, str], bool]
"""Whether a grant by rule holds for a call that this policy rule stopped (see `grants.holds`)."""
Raised = Callable[[Snapshot, DeferredCall, str], Inquiry]
"""The inquiry about a call for which a process waits, with the policy rule that stopped it."""


class StoreLedger:
    """The ledger of one task, fenced by the lease of the turn that uses it (see `gate.Ledger`)."""

    def __init__(
        self,
        store: Store,
        task_id: str,
        lease: str,
        *,
        refusal: Refusal,
        covers: Covers,
        raised: Raised,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._task_id = task_id
        self._lease = lease
        self._refusal = refusal
        self._covers = covers
        self._raised = raised
        self._clock = clock

    async def find(self, tool_use_id: str, call_digest: str) -> Inquiry | None:
        """By id; else what people said about this very call, which the model was to make again."""
        snap = await self._snapshot()
        for inquiry in snap.inquiries:
            if inquiry.tool_use_id == tool_use_id:
                return inquiry
        return calls.made_again(snap, call_digest)

    async def siblings(self, inquiry: Inquiry) -> tuple[Inquiry, ...]:
        """The other calls of that turn about which the model has yet to learn what people said."""
        return calls.siblings(await self._snapshot(), inquiry)

    async def refusals(self, call_digest: str) -> int:
        """How often people refused exactly this call in this task."""
        return calls.refusals(await self._snapshot(), call_digest)

    async def tell_refusal(self, inquiry: Inquiry, tool_use_id: str) -> None:
        """Puts on record that the model made a refused call again and was told."""
        now = self._clock()
        await self._transact(lambda snap: calls.told(snap, inquiry.id, tool_use_id, now))

    async def ask(self, call: DeferredCall, call_digest: str, rule: str) -> Inquiry:
        """Asks people about a call while its process waits; the open inquiry about it if there is one."""
        snap = await self._snapshot()
        known = calls.asked_live(snap, call_digest)
        if known is not None:
            return known
        inquiry = await asyncio.to_thread(self._raised, snap, call, rule)
        now = self._clock()
        await self._transact(lambda snap: calls.ask(snap, inquiry, now))
        return inquiry

    async def look(self, inquiry_id: str) -> Inquiry:
        """How such an inquiry stands; waits while the store is away."""
        while True:
            try:
                return await asyncio.to_thread(self._store.inquiry, inquiry_id)
            except TryLater:
                await asyncio.sleep(1.0)

    async def grant_for(self, call: DeferredCall, call_digest: str, stopped_by: str) -> Grant | None:
        """The standing approval of exactly this call or by rule, while whoever gave it still may.

        A refusal of this very call in this task wins over every grant that is older.
        """
        snap = await self._snapshot()
        shared = await asyncio.to_thread(self._store.grants_in, snap.task.workspace)
        refused = max((_refused_at(i) for i in snap.inquiries if i.digest == call_digest), default=_NEVER)
        for grant in (*snap.grants, *(g for g in shared if g.task_id != self._task_id)):
            if grant.revoked or grant.used_up or grant.at <= refused:
                continue
            if grant.rule:
                holds = self._covers(grant, call, stopped_by)
            else:
                holds = grant.digest == call_digest and not self._refusal(snap.inquiry(grant.inquiry_id))
            if holds:
                return grant
        return None

    async def refusal(self, inquiry: Inquiry) -> str:
        """Why a decided call may not run any more; '' if it may."""
        return self._refusal(inquiry)

    async def held_back(self, inquiry: Inquiry, tool_use_id: str, why: str) -> None:
        """Puts on record that a call that people had let run may not run now, and why."""
        now = self._clock()
        await self._transact(lambda snap: calls.held_back(snap, inquiry.id, tool_use_id, why, now))

    async def start(self, inquiry: Inquiry, tool_use_id: str) -> None:
        """Puts `started` on record, before the call may run; raises if it was there."""
        now = self._clock()
        await self._transact(lambda snap: calls.dispatch(snap, inquiry.id, tool_use_id, now))

    async def use_grant(self, grant: Grant, call: DeferredCall) -> None:
        """Puts the use of a grant on record, before the call may run."""
        about: dict[str, object] = {"granted_by": grant.by.model_dump(), "inquiry": grant.inquiry_id}
        if grant.rule:
            about |= {"grant": grant.id, "rule": grant.rule, "workspace": grant.workspace}
        ran = digest(call.tool_name, call.tool_input)
        note = self._note(Event.GRANT_USED, call, about, digest=ran)
        await self._transact(lambda snap: granting.use_grant(snap, grant, note))

    async def denied(self, call: DeferredCall, rule: str) -> None:
        """Puts on record that the policy forbade a call."""
        await self._remark(Event.CALL_DENIED, call, rule=rule)

    async def alarm(self, what: str, call: DeferredCall) -> None:
        """Puts on record that something happened which must not be possible."""
        await self._remark(Event.ALARM, call, words=what)

    async def finish(self, tool_use_id: str, *, failed: bool, output: str) -> None:
        """Records how the call of that id ended, if people decided about it."""
        now = self._clock()

        def modify(snap: Snapshot) -> Changes:
            for inquiry in snap.inquiries:
                if inquiry.tool_use_id == tool_use_id:
                    return calls.finished(snap, inquiry.id, failed=failed, output=output, now=now)
            return Changes()

        await self._transact(modify)

    async def _remark(self, event: Event, call: DeferredCall, *, words: str = "", **details: object) -> None:
        note = self._note(event, call, details, words=words)
        await self._transact(lambda snap: lifecycle.remark(snap, note))

    def _note(
        self,
        event: Event,
        call: DeferredCall,
        details: Mapping[str, object],
        *,
        digest: str = "",
        words: str = "",
    ) -> Note:
        return Note(
            event=event,
            at=self._clock(),
            task_id=self._task_id,
            digest=digest,
            words=words,
            details={"tool_name": call.tool_name, "tool_input": call.tool_input, **details},
        )

    async def _snapshot(self) -> Snapshot:
        return await asyncio.to_thread(self._store.snapshot, self._task_id)

    async def _transact(self, modify: Modifier) -> None:
        await asyncio.to_thread(self._store.transact, self._task_id, modify, lease=self._lease)


_NEVER = datetime.min.replace(tzinfo=UTC)


def _refused_at(inquiry: Inquiry) -> datetime:
    """When people last said that this call may not run as it stands."""
    decision = inquiry.decision
    if decision is None or decision.verdict not in (Verdict.REJECT, Verdict.CHANGE):
        return _NEVER
    as_it_stands = inquiry.run_allowed and decision.input is None  # under conditions that are checked
    return _NEVER if as_it_stands else decision.at
