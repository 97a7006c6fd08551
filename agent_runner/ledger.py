"""The gate's ledger on the store: finds what people decided, and records what is dispatched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from agent_runner import lifecycle
from agent_runner.audit import Event, Note
from agent_runner.model import DeferredCall, Execution, Grant, Inquiry
from agent_runner.store import Changes, Modifier, Snapshot, Store

Refusal = Callable[[Inquiry], str]


class StoreLedger:
    """The ledger of one task, fenced by the lease of the turn that uses it (see `gate.Ledger`)."""

    def __init__(
        self, store: Store, task_id: str, lease: str, *, refusal: Refusal, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._task_id = task_id
        self._lease = lease
        self._refusal = refusal
        self._clock = clock

    async def find(self, tool_use_id: str, call_digest: str) -> Inquiry | None:
        """By id; else an inquiry that was asked again, approved, and not used yet, for this very call."""
        snap = await self._snapshot()
        for inquiry in snap.inquiries:
            if inquiry.tool_use_id == tool_use_id:
                return inquiry
        for inquiry in snap.batch:  # an approval that this turn resumes, not one of a turn long over
            unused = not inquiry.tool_use_id and inquiry.run.state is Execution.NONE
            if unused and inquiry.run_allowed and inquiry.digest == call_digest:
                return inquiry
        return None

    async def grant_for(self, call_digest: str) -> Grant | None:
        """The standing approval of exactly this call for this task, while whoever gave it still may."""
        snap = await self._snapshot()
        for grant in snap.grants:
            if grant.digest == call_digest and not self._refusal(snap.inquiry(grant.inquiry_id)):
                return grant
        return None

    async def refusal(self, inquiry: Inquiry) -> str:
        """Why a decided call may not run any more; '' if it may."""
        return self._refusal(inquiry)

    async def start(self, inquiry: Inquiry, tool_use_id: str) -> None:
        """Puts `started` on record, before the call may run; raises if it was there."""
        now = self._clock()
        await self._transact(lambda snap: lifecycle.dispatch(snap, inquiry.id, tool_use_id, now))

    async def use_grant(self, grant: Grant, call: DeferredCall) -> None:
        """Puts the use of a grant on record, before the call may run."""
        by = grant.by.model_dump()
        await self._remark(
            Event.GRANT_USED, call, digest=grant.digest, granted_by=by, inquiry=grant.inquiry_id
        )

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
                    return lifecycle.finished(snap, inquiry.id, failed=failed, output=output, now=now)
            return Changes()

        await self._transact(modify)

    async def _remark(
        self, event: Event, call: DeferredCall, *, digest: str = "", words: str = "", **details: object
    ) -> None:
        note = Note(
            event=event,
            at=self._clock(),
            task_id=self._task_id,
            digest=digest,
            words=words,
            details={"tool_name": call.tool_name, "tool_input": call.tool_input, **details},
        )
        await self._transact(lambda snap: lifecycle.remark(snap, note))

    async def _snapshot(self) -> Snapshot:
        return await asyncio.to_thread(self._store.snapshot, self._task_id)

    async def _transact(self, modify: Modifier) -> None:
        await asyncio.to_thread(self._store.transact, self._task_id, modify, lease=self._lease)
