"""Does this call run, wait or get refused, and who decides until when. `people` holds the rest.

Pure but for the reading of symlinks in path rules: data in, a judgement out. Fails closed: a
doubt about running is `ask`, a doubt about a person is no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from agent_runner import condition_checks
from agent_runner.contacts import Contact as Contact
from agent_runner.contacts import StandIn as StandIn
from agent_runner.contacts import contacts as contacts
from agent_runner.contacts import names_of as names_of
from agent_runner.counting import Tally as Tally
from agent_runner.counting import able as able
from agent_runner.counting import counted as counted
from agent_runner.counting import taken_by as taken_by
from agent_runner.counting import tally as tally
from agent_runner.durations import Duration
from agent_runner.matching import Call as Call
from agent_runner.matching import allowing, may_reach, stops
from agent_runner.model import REQUEST_APPROVAL, Actor, Decision, Inquiry, Value, Verdict, Vote
from agent_runner.people import Approvers as Approvers
from agent_runner.people import People as People
from agent_runner.people import Person as Person
from agent_runner.people import identify as identify
from agent_runner.people import joined as joined
from agent_runner.people import may_as
from agent_runner.people import may_decide as may_decide
from agent_runner.people import members as members
from agent_runner.people import possible as possible
from agent_runner.people import right_of as right_of
from agent_runner.people import same_person as same_person
from agent_runner.rules import parse

PLAN_TOOL = "ExitPlanMode"
QUESTION_TOOL = "AskUserQuestion"

ALWAYS_ASKED = frozenset({QUESTION_TOOL, PLAN_TOOL, REQUEST_APPROVAL})
"""Tools that exist to ask a person: no allow rule and no hook answers in that person's place."""

SESSION_INTERNAL = frozenset(
    (
        *("TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"),
        *("ToolSearch", "EnterPlanMode", "Agent", "Task"),
    )
)
"""Tools that touch nothing outside the session: lists of things to do, the list of tools, a mode
with fewer rights, and subagents, whose own calls are judged one by one. Allowed unless a rule
says otherwise."""

GRANT_LONGEST = timedelta(days=30)
"""Longest time for which a rule can be approved in a workspace; what should hold longer belongs in
the policy's own file."""

NOTHING_MATCHED = "nothing matched"


class Escalation(Value):
    """Who is asked as well if nobody decided in time."""

    after: Duration
    to: Approvers = Field(min_length=1)


class Route(Value):
    """Who may decide about the calls that match, how many of them, and until when."""

    match: tuple[str, ...] = ()
    approvers: Approvers = Field(default=("requester",), min_length=1)
    quorum: int = Field(default=1, ge=1)
    requester_may_decide: bool = True
    veto: bool = True
    """Whether one rejection ends it; if not, it ends when approval has become impossible."""
    remind: Duration | None = None
    expires: Duration = timedelta(hours=8)
    escalate: Escalation | None = None


ALLOWED_BY_DEFAULT = (
    "Read(./**)",
    "Bash(pwd)",
    "Bash(ls:*)",
    "Bash(git status:*)",
    "Bash(git log:*)",
    # Exact: `git diff` with paths also reads files outside the repository.
    "Bash(git diff)",
    "Bash(git diff --stat)",
    "Bash(git diff --staged)",
    "Bash(git diff HEAD)",
)
ASKED_BY_DEFAULT = (
    "Bash(git * --ou*)",  # --output writes a file, from `git log` too
    "Write",
    "Edit",
    "NotebookEdit",
    "WebFetch",
    "WebSearch",
    "mcp__*",
)
"""What holds without a [policy] section. `Bash` is not listed: an ask rule for all of it would
come before the allow rules, and what matches nothing is asked anyway."""


class Policy(Value):
    """The rules as written, in the order deny, ask, allow; nothing matching is ask."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    needs_approval: str = ""
    """`module:function` beside the configuration file, or empty."""
    routes: tuple[Route, ...] = ()
    default_route: Route = Route()
    break_glass: Approvers = ()
    """Who may approve alone in an emergency, whatever the route says; everybody in it is told."""
    approval_valid_for: Duration = timedelta(hours=12)
    """How old a decision may be when its call runs."""
    grant_for: Duration = timedelta(hours=8)
    """How long a rule holds in a workspace for which somebody approves it; at most `GRANT_LONGEST`."""

    @classmethod
    def default(cls) -> Policy:
        """The policy of a configuration without a [policy] section."""
        return cls(allow=ALLOWED_BY_DEFAULT, ask=ASKED_BY_DEFAULT)


class Judgement(Value):
    """What happens to a call, by which rule (as written) of which list (empty for our own)."""

    effect: Literal["allow", "ask", "deny"]
    rule: str
    section: str = ""


class Refusal(Value):
    """Why an approved call may not run now: a stable code, and words for the model and the thread."""

    code: Literal["policy_denies", "approval_too_old", "approver_may_not", "not_decided", "condition_fails"]
    text: str


NeedsApproval = Callable[[Call], bool | None]


def judge(policy: Policy, call: Call, *, needs_approval: NeedsApproval | None = None) -> Judgement:
    """The judgement on a call. Never raises for what a hook does; see the module's docstring.

    The order: deny rules; tools that always ask; ask rules; searches that could show what a deny
    rule hides; the hook (True asks, False allows, anything but None or an exception asks); tools
    that touch nothing outside; allow rules; ask.
    """
    if rule := _first(policy.deny, call):
        return Judgement(effect="deny", rule=rule, section="deny")
    if rule := _first(policy.ask, call):
        return Judgement(effect="ask", rule=rule, section="ask")
    if call.tool_name in ALWAYS_ASKED:
        return Judgement(effect="ask", rule=call.tool_name)
    for text in policy.deny:
        if may_reach(parse(text), call):
            return Judgement(effect="ask", rule=f"{text} lies inside what is searched", section="deny")
    if needs_approval is not None:
        verdict = _consult(needs_approval, call)
        if verdict is not None:
            effect: Literal["ask", "allow"] = "ask" if verdict else "allow"
            return Judgement(effect=effect, rule=f"needs_approval {policy.needs_approval}".strip())
    if call.tool_name in SESSION_INTERNAL:
        return Judgement(effect="allow", rule="touches nothing outside the session")
    if used := allowing(map(parse, policy.allow), call):
        return Judgement(effect="allow", rule=", ".join(r.text for r in used), section="allow")
    return Judgement(effect="ask", rule=NOTHING_MATCHED)


def route(policy: Policy, call: Call) -> Route:
    """The first [[policy.route]] with a rule that matches any part of the call, else the default."""
    return next((found for found in policy.routes if _first(found.match, call)), policy.default_route)


def terms(route: Route, now: datetime, *, longest: timedelta | None = None) -> dict[str, Any]:
    """What a request that is asked now takes over from its route: the fields of the inquiry.

    `longest`: how long it can be waited for at all, where a process waits.
    """
    escalate = route.escalate
    return {
        "approvers": route.approvers,
        "quorum": route.quorum,
        "requester_may_decide": route.requester_may_decide,
        "veto": route.veto,
        "expires_at": now + (min(route.expires, longest) if longest else route.expires),
        "remind_at": now + route.remind if route.remind else None,
        "reminded_at": None,
        "escalate_at": now + escalate.after if escalate else None,
        "escalate_to": escalate.to if escalate else (),
        "escalated_at": None,
    }


def approvers_now(route: Route, inquiry: Inquiry) -> Approvers:
    """Who may decide by this route: with those it escalates to, once the request was escalated."""
    added = route.escalate.to if route.escalate and inquiry.escalated_at else ()
    return (*route.approvers, *added)


def may_break_glass(policy: Policy, actor: Actor, inquiry: Inquiry, people: People) -> bool:
    """Whether somebody may approve alone: only who is listed for it; a stand-in is not."""
    return may_as(actor, "", policy.break_glass, True, inquiry.asked_by, people)


def check_dispatch(
    policy: Policy, call: Call, *, inquiry: Inquiry, people: People, now: datetime
) -> Refusal | None:
    """Why the decided call may not run now, or None. `call` holds the input that would run.

    Checked against today's policy and people, for the call as it would run: an edit must not
    move a call to a route whose approvers never saw it.
    """
    decision = inquiry.decision
    if decision is None or not inquiry.run_allowed:
        return Refusal(code="not_decided", text="nobody has approved it.")
    if rule := _first(policy.deny, call):
        return Refusal(code="policy_denies", text=f"the policy forbids it now ({rule}).")
    age = now - decision.at
    if not timedelta(minutes=-5) <= age <= policy.approval_valid_for:
        return Refusal(code="approval_too_old", text=f"its approval is of {decision.at:%Y-%m-%d %H:%M} UTC.")
    if why := condition_checks.refusal(decision.limits, call, now):
        return Refusal(code="condition_fails", text=f"{decision.by.name} allowed it {why}")
    if decision.break_glass:
        listed = may_break_glass(policy, decision.by, inquiry, people)
        return None if listed and decision.verdict is Verdict.APPROVE else _may_not(decision.by)
    return _check_voters(route(policy, call), inquiry, decision, people)


def _check_voters(today: Route, inquiry: Inquiry, decision: Decision, people: People) -> Refusal | None:
    """Whether those who said yes still may, by what was shown and by today's route, and are enough."""
    yes = [vote for vote in inquiry.votes if vote.verdict is decision.verdict]
    if all(vote.by.key != decision.by.key for vote in yes):
        said = decision.model_dump(include={"by", "at", "verdict", "acting_for"})
        yes.append(Vote.model_validate(said))
    for vote in yes:
        for approvers, requester_may in (
            (inquiry.approvers, inquiry.requester_may_decide),
            (approvers_now(today, inquiry), today.requester_may_decide),
        ):
            # What was decided in somebody's place stays decided after their return, as long as they may.
            if not may_as(vote.by, vote.acting_for, approvers, requester_may, inquiry.asked_by, people):
                return _may_not(vote.by)
    enough = len(counted(yes, decision.verdict)) >= max(inquiry.quorum, today.quorum)
    if not enough and decision.verdict is not Verdict.ANSWER:
        return Refusal(code="not_decided", text="not enough people have approved it.")
    return None


def _may_not(actor: Actor) -> Refusal:
    return Refusal(code="approver_may_not", text=f"{actor.name} may not approve it any more.")


def _first(rules: Iterable[str], call: Call) -> str:
    return next((text for text in rules if stops(parse(text), call)), "")


def _consult(needs_approval: NeedsApproval, call: Call) -> bool | None:
    """The hook's word; a failure or an unknown answer counts as "ask"."""
    try:
        answer = needs_approval(call)
    except Exception:  # noqa: BLE001  (somebody else's code: whatever it raises, a person is asked)
        return True
    return answer if answer is None or answer is False else True
