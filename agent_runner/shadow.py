"""What other rules would say about calls that were made: before against after, and what happened then.

Pure but for the reading of symlinks in path rules and what a `needs_approval` function does.
Nothing here decides about a call that runs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime

from agent_runner.model import Value
from agent_runner.people import People, members
from agent_runner.policy import Call, Judgement, NeedsApproval, Policy, judge, route

EXAMPLES = 3
"""Calls kept of each group, the most alarming ones."""


class Then(StrEnum):
    """What became of a call when it was made."""

    RAN = "ran"
    """By itself: the rules of that time allowed it."""
    GRANTED = "granted"
    """By an approval that outlived an earlier call."""
    DENIED = "denied"
    """The rules of that time forbade it."""
    NOT_RUN = "not_run"
    """Neither asked about nor run: it had to wait for another call."""
    UNFINISHED = "unfinished"
    """It has no result: it runs now, or its worker died."""
    WAITING = "waiting"
    APPROVED = "approved"
    APPROVED_NOT_RUN = "approved_not_run"
    """People said yes, and the agent never made the call again."""
    CHANGED = "changed"
    """People let it pass only with changes: what was asked for did not run as it stood."""
    REJECTED = "rejected"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


SAID_NO = (Then.REJECTED, Then.CHANGED)
"""People looked at this very call and did not let it run as it stood; the worst first."""


class PastCall(Value):
    """A call that was made, with what became of it."""

    call: Call
    task_id: str
    task: int
    at: AwareDatetime
    then: Then
    by: str = ""
    """Who decided about it, if somebody did."""
    request: int = 0
    """Number of the request in which people were asked; 0 if they were not."""


@dataclass(frozen=True)
class Rules:
    """Rules, the people they speak of, and the function that they name."""

    policy: Policy
    people: People
    needs_approval: NeedsApproval | None = None


class Opinion(Value):
    """What rules say about a call; for `ask` also who would decide, and how many of them."""

    effect: Literal["allow", "ask", "deny"]
    rule: str
    section: str = ""
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    requester_may_decide: bool = True
    accounts: tuple[str, ...] = ()
    """The accounts behind those approvers, as [people] lists them."""
    hook_error: str = ""
    """What the `needs_approval` function raised: it then counts as "ask"."""

    @property
    def outcome(self) -> tuple[object, ...]:
        """What it comes to, whichever rule says so."""
        asked = (self.approvers, self.quorum, self.requester_may_decide, self.accounts)
        return (self.effect, *asked) if self.effect == "ask" else (self.effect,)


class Change(StrEnum):
    """What the new rules change about a call."""

    UNCHANGED = "unchanged"
    RUNS = "runs"
    """It would now run without asking."""
    ASKS = "asks"
    """People would now be asked."""
    DENIES = "denies"
    OTHERS = "others"
    """Asked as before, but of other people or of another number of them."""


_CHANGES = {"allow": Change.RUNS, "ask": Change.ASKS, "deny": Change.DENIES}


class Shadow(Value):
    """A call with both opinions on it."""

    past: PastCall
    before: Opinion
    after: Opinion

    @property
    def change(self) -> Change:
        """What the new rules change."""
        if self.before.outcome == self.after.outcome:
            return Change.UNCHANGED
        return Change.OTHERS if self.before.effect == self.after.effect else _CHANGES[self.after.effect]

    @property
    def overrules(self) -> bool:
        """Whether it would run by itself although people did not let it run as it stood."""
        return self.after.effect == "allow" and self.past.then in SAID_NO

    @property
    def alarm(self) -> int:
        """How much a reader must worry, 0 the most."""
        if self.overrules:
            return SAID_NO.index(self.past.then)
        opened = (self.before.effect, self.change)
        return _ALARMS.index(opened) + 2 if opened in _ALARMS else len(_ALARMS) + 2 + _REST[self.change]


_ALARMS = (("deny", Change.RUNS), ("ask", Change.RUNS), ("deny", Change.ASKS), ("ask", Change.OTHERS))
_REST = {Change.DENIES: 0, Change.ASKS: 1, Change.RUNS: 2, Change.OTHERS: 2, Change.UNCHANGED: 3}


def opinion(rules: Rules, call: Call) -> Opinion:
    """What these rules say about a call. What fails counts as the gate counts it: the call does not run."""
    errors: list[str] = []
    hook = _watched(rules.needs_approval, errors) if rules.needs_approval else None
    try:
        said = judge(rules.policy, call, needs_approval=hook)
        return _with_route(rules, call, said, errors[0] if errors else "")
    except Exception as error:  # noqa: BLE001  (whatever it is, the gate would refuse the call)
        return Opinion(effect="deny", rule=f"could not be judged: {type(error).__name__}: {error}")


def shadow(past: PastCall, before: Rules, after: Rules) -> Shadow:
    """The call with what both sets of rules say about it."""
    return Shadow(past=past, before=opinion(before, past.call), after=opinion(after, past.call))


def _with_route(rules: Rules, call: Call, said: Judgement, hook_error: str) -> Opinion:
    about = {**dict(said), "hook_error": hook_error}
    if said.effect != "ask":
        return Opinion(**about)
    chosen = route(rules.policy, call)
    return Opinion(
        **about,
        approvers=chosen.approvers,
        quorum=chosen.quorum,
        requester_may_decide=chosen.requester_may_decide,
        accounts=tuple(sorted(set(_accounts(chosen.approvers, rules.people)))),
    )


def _accounts(approvers: tuple[str, ...], people: People) -> Iterator[str]:
    for approver in approvers:
        group = approver.removeprefix("group:")
        for name in members(people, group) if group != approver else (approver,):
            yield from people[name].accounts if name in people else ()


def _watched(hook: NeedsApproval, errors: list[str]) -> NeedsApproval:
    """The function as the policy consults it; what it raises is kept, what it prints is no output of ours."""

    def watched(call: Call) -> bool | None:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                return hook(call)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (somebody else's code)
            errors.append(f"{type(error).__name__}: {error}")
            return True

    return watched


# --- many calls ---------------------------------------------------------------------------

Key = tuple[str, Opinion, Opinion]


@dataclass
class Group:
    """Calls of one tool on which the same rules speak, before and after: their number and some of them."""

    tool: str
    before: Opinion
    after: Opinion
    change: Change
    count: int = 0
    overruling: int = 0
    alarm: int = sys.maxsize
    examples: list[tuple[int, PastCall]] = field(default_factory=list)
    """The first of the most alarming, with how alarming they are."""

    def add(self, seen: Shadow, short: Callable[[PastCall], PastCall]) -> None:
        """Counts a call, and keeps a short form of it if it is among the most alarming."""
        self.count += 1
        self.overruling += seen.overrules
        self.alarm = min(self.alarm, seen.alarm)
        if len(self.examples) == EXAMPLES and seen.alarm >= self.examples[-1][0]:
            return
        self.examples.append((seen.alarm, short(seen.past)))
        self.examples.sort(key=lambda example: example[0])
        del self.examples[EXAMPLES:]


def _kind(said: Opinion) -> Opinion:
    """What calls have in common; words of an error may be different for each."""
    return said.model_copy(update={"hook_error": said.hook_error.partition(":")[0]})


@dataclass
class Summary:
    """Counts calls as they come, each exactly once; keeps groups and a few examples, not the calls.

    `short` makes what is kept of an example; a Write can be megabytes long.
    """

    short: Callable[[PastCall], PastCall] = lambda past: past
    calls: int = 0
    tasks: set[str] = field(default_factory=set)
    changes: dict[Change, int] = field(default_factory=lambda: dict.fromkeys(Change, 0))
    rejected: int = 0
    """Calls that would run by themselves although people had rejected them."""
    changed: int = 0
    """Calls that would run by themselves as people had not let them pass."""
    hook_errors: int = 0
    groups: dict[Key, Group] = field(default_factory=dict)

    def add(self, seen: Shadow) -> None:
        """Counts a call."""
        self.calls += 1
        self.tasks.add(seen.past.task_id)
        self.changes[seen.change] += 1
        self.rejected += seen.overrules and seen.past.then is Then.REJECTED
        self.changed += seen.overrules and seen.past.then is Then.CHANGED
        self.hook_errors += bool(seen.after.hook_error)
        tool = seen.past.call.tool_name
        key = (tool, _kind(seen.before), _kind(seen.after))
        if key not in self.groups:
            self.groups[key] = Group(tool, seen.before, seen.after, change=seen.change)
        self.groups[key].add(seen, self.short)

    @property
    def overruling(self) -> int:
        """Calls that would run by themselves although people did not let them run as they stood."""
        return self.rejected + self.changed

    def listed(self, *, everything: bool = False) -> list[Group]:
        """The groups that differ or overrule somebody (or all of them), the most alarming first."""
        found = [
            group
            for group in self.groups.values()
            if everything or group.overruling or group.change is not Change.UNCHANGED
        ]
        return sorted(found, key=lambda group: (group.alarm, -group.count, group.tool, group.after.rule))
