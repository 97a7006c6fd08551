"""Giving, using and taking back approvals that outlive one call: what each does to a task's record.

Pure, as `lifecycle` is; when a grant may be used is `grants`' to say.
"""

from __future__ import annotations

from datetime import datetime

from agent_runner import conditions, notes
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.audit import Event, Note
from agent_runner.digest import digest
from agent_runner.errors import WrongState
from agent_runner.model import Actor, Decision, Grant, Inquiry, InquiryState, Scope


def given(closed: Inquiry, decision: Decision, now: datetime) -> tuple[Grant, ...]:
    """The approval that outlives this call, if one was given."""
    if closed.state is InquiryState.CHANGED:
        return _counted(closed, decision, now)
    if closed.state is not InquiryState.APPROVED or decision.scope is Scope.ONCE:
        return ()
    ruled = decision.scope is not Scope.TASK
    if ruled and not (decision.rule and decision.until):
        raise WrongState(f"Request #{closed.number} offers no rule to approve.")
    grant = Grant(
        id=f"g{closed.number}",
        task_id=closed.task_id,
        digest=closed.digest,
        inquiry_id=closed.id,
        number=closed.number,
        by=decision.by,
        at=now,
        rule=decision.rule if ruled else "",
        stopped_by=closed.rule if ruled else "",
        workspace=closed.workspace if decision.scope is Scope.UNTIL else "",
        until=decision.until,
    )
    return (grant,)


def _counted(closed: Inquiry, decision: Decision, now: datetime) -> tuple[Grant, ...]:
    """With `at most n times`: exactly the call as it was approved, its first run included."""
    times = conditions.times(decision.limits)
    if times is None or times < 2:
        return ()
    grant = Grant(
        id=f"g{closed.number}",
        task_id=closed.task_id,
        digest=digest(closed.tool_name, closed.effective_input),
        inquiry_id=closed.id,
        number=closed.number,
        by=decision.by,
        at=now,
        until=conditions.deadline(decision.limits),
        times=times,
    )
    return (grant,)


def first_use(snap: Snapshot, inquiry: Inquiry) -> tuple[Grant, ...]:
    """The counted grant that was given with this call, after the call's own run; none if there is none."""
    mine = (g for g in snap.grants if g.inquiry_id == inquiry.id and g.times is not None)
    return tuple(_used(grant) for grant in mine)


def _used(grant: Grant) -> Grant:
    """The grant used once more; raises `WrongState` if it may not be. The one place that counts."""
    if grant.revoked:
        raise WrongState("That approval was revoked in this moment.")
    if grant.used_up:
        raise WrongState(f"It was approved for {grant.times} runs, and all of them are used.")
    used: Grant = grant.having(used=grant.used + 1)
    return used


def revoke(snap: Snapshot, grant_id: str, by: Actor, now: datetime) -> Changes:
    """Takes a grant back; raises `NotFound`, or `WrongState` if it was taken back already."""
    grant = snap.grant(grant_id)
    if grant.revoked_by is not None:
        raise WrongState(f"Grant {grant.id} was revoked already by {grant.revoked_by.name}.")
    revoked = grant.having(revoked_by=by, revoked_at=now)
    note = notes.of_grant(Event.GRANT_REVOKED, revoked, now, by)
    return Changes(task=snap.task.having(updated_at=now), grants=(revoked,), notes=(note,), answer=revoked)


def use_grant(snap: Snapshot, grant: Grant, note: Note) -> Changes:
    """Puts the use of a grant on record; raises `WrongState` if it was revoked or used up in this moment."""
    task = snap.task.having(updated_at=note.at)
    if grant.times is not None:
        snap.grant(grant.id)  # only where it is stored can it be counted
    known = next((mine for mine in snap.grants if grant.id and mine.id == grant.id), None)
    if known is None:
        return Changes(task=task, notes=(note,))
    used = _used(known)
    if used.times is None:
        return Changes(task=task, notes=(note,))
    note = note.having(details={**note.details, "grant": used.id, "use": used.used, "times": used.times})
    return Changes(task=task, notes=(note,), grants=(used,))
