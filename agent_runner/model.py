"""The values everything else speaks in. Frozen; times are aware datetimes in UTC.

Words are those of the README: a *task* is one job in one thread; a *turn* is one run of the
agent process; an *inquiry* is one thing a person must decide; a *decision* is what they said.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import AwareDatetime, Field

from agent_runner.conditions import Condition as Condition
from agent_runner.conditions import ConditionKind as ConditionKind
from agent_runner.conditions import before as before
from agent_runner.conditions import with_text as with_text
from agent_runner.digest import SHORT
from agent_runner.durations import Duration
from agent_runner.limit_values import LIMIT_TOOL as LIMIT_TOOL
from agent_runner.limit_values import MOST_STEPS as MOST_STEPS
from agent_runner.limit_values import Allowance as Allowance
from agent_runner.limit_values import Limit as Limit
from agent_runner.limit_values import Reached as Reached
from agent_runner.limit_values import Unstarted as Unstarted
from agent_runner.value import Value as Value


class Actor(Value):
    """A person as a platform vouches for them. `person` is their name in [people], if listed."""

    platform: str
    tenant: str = ""
    user_id: str
    name: str
    person: str = ""
    guest: bool = False
    """Whether the platform says, or cannot deny, that they are no full member of the team."""

    @property
    def key(self) -> str:
        """Who this is across platforms: the listed person, else the platform's own identity."""
        return f"person:{self.person}" if self.person else self.account

    @property
    def account(self) -> str:
        """`platform:tenant:user` as the platform vouches for it."""
        return f"{self.platform}:{self.tenant}:{self.user_id}"


class Place(Value):
    """Where a task lives: platform, chat, thread."""

    platform: str
    chat: str = ""
    thread: str


class TaskState(StrEnum):
    """`stuck`: it cannot go on by itself and a person must say how (retry, stop)."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    STUCK = "stuck"


class InquiryState(StrEnum):
    """`expired`: nobody answered in time. `withdrawn`: the task ended before an answer."""

    PENDING = "pending"
    APPROVED = "approved"
    CHANGED = "changed"
    REJECTED = "rejected"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class Execution(StrEnum):
    """What became of the call. `unknown`: it was started and nobody saw it end."""

    NONE = "none"
    STARTED = "started"
    FINISHED = "finished"
    UNKNOWN = "unknown"


class Hold(StrEnum):
    """How a call is kept while people decide about it.

    `deferred`: the process ended at it, and the resume makes it. `sibling`: it was refused for the
    moment, because another call of its turn waits; the model makes it again. `live`: a process waits
    for the answer (a subagent's call). `again`: it had expired and was asked again; the model makes
    it again.
    """

    DEFERRED = "deferred"
    SIBLING = "sibling"
    LIVE = "live"
    AGAIN = "again"


class Kind(StrEnum):
    """`approval` of a tool call, `question` (AskUserQuestion), `plan` (ExitPlanMode), `limit` (go on?)."""

    APPROVAL = "approval"
    QUESTION = "question"
    PLAN = "plan"
    LIMIT = "limit"


class Verdict(StrEnum):
    """`change` is approve with changes: an edited input, or conditions in words."""

    APPROVE = "approve"
    CHANGE = "change"
    REJECT = "reject"
    ANSWER = "answer"


class Scope(StrEnum):
    """How far an approval reaches. `once`: this call; `task`: exactly this call, for this task.

    `rule`: what the offered rule covers, for this task; `until`: that, in this workspace, until a time.
    """

    ONCE = "once"
    TASK = "task"
    RULE = "rule"
    UNTIL = "until"


class Usage(Value):
    """What a task used so far, over all its turns.

    `active_ms` is time in which an agent process worked; `waiting_ms` is time in which the
    task waited for people.
    """

    cost_usd: float = 0.0
    model_calls: int = 0
    turns: int = 0
    active_ms: int = 0
    waiting_ms: int = 0


class Failure(Value):
    """Why a task failed or is stuck: a stable code, what happened, what to do next."""

    code: str
    message: str
    hint: str = ""


class FollowUp(Value):
    """Words said while the agent was busy; they start the next turn."""

    text: str
    by: Actor
    at: AwareDatetime


class RunOptions(Value):
    """What a turn runs with; stored with the task so that a resume runs with the same."""

    plan: bool = False
    model: str = ""


class Task(Value):
    """One job asked for in one thread. `revision` grows with every stored change."""

    id: str
    number: int
    revision: int = 0
    state: TaskState = TaskState.QUEUED
    workspace: str
    cwd: str
    pool: str
    place: Place
    asked_by: Actor
    text: str
    created_at: AwareDatetime
    updated_at: AwareDatetime
    session_id: str
    options: RunOptions = RunOptions()
    turn: int = 1
    """Number of the turn that is queued or running: a job for another turn is stale."""
    attempt: int = 1
    """How often this turn was started; grows when a worker died under it."""
    prompt: str | None = None
    """What the next turn is started with; None resumes the deferred call without a prompt."""
    batch: str | None = None
    """The batch of inquiries the task waits for, or that the queued turn resumes."""
    waiting_since: AwareDatetime | None = None
    follow_ups: tuple[FollowUp, ...] = ()
    stop_requested_by: Actor | None = None
    retry_at: AwareDatetime | None = None
    """When the clock starts the stuck turn again by itself."""
    result: str | None = None
    failure: Failure | None = None
    usage: Usage = Usage()
    allowance: Allowance = Allowance()
    unstarted: Unstarted | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing is running, queued or waited for."""
        return self.state in (TaskState.DONE, TaskState.FAILED, TaskState.STOPPED, TaskState.STUCK)


class Decision(Value):
    """What a person said about an inquiry, with their words as they typed them."""

    verdict: Verdict
    by: Actor
    at: AwareDatetime
    reason: str = ""
    conditions: str = ""
    limits: tuple[Condition, ...] = ()
    """Conditions that are checked when the call is to run, whatever the words say."""
    input: dict[str, Any] | None = None
    answers: dict[str, str] | None = None
    scope: Scope = Scope.ONCE
    rule: str = ""
    """With the scopes `rule` and `until`: what was approved beside this call, as it was spelled out."""
    until: AwareDatetime | None = None
    """When that ends."""
    acting_for: str = ""
    """The absent person (their name in [people]) in whose place they said it; '' for themselves."""
    break_glass: bool = False
    """Whether they decided alone, without the people that the route wants."""


class Vote(Value):
    """One person's word where more than one is needed; `acting_for` as in `Decision`."""

    by: Actor
    at: AwareDatetime
    verdict: Verdict
    words: str = ""
    acting_for: str = ""


class Run(Value):
    """How the call's execution went, as the engine reported it."""

    state: Execution = Execution.NONE
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    failed: bool = False
    refused: str = ""
    """Why a call that people had let run was held back after all, when it was to run."""
    output: str = ""
    """The tool's result, cut to `OUTPUT_KEPT` characters; the transcript has it whole."""


OUTPUT_KEPT = 4_000
"""Characters of a tool's result kept with the inquiry: enough for a card, small in Redis."""


REQUEST_APPROVAL = "mcp__countersign__request_approval"
"""Our own tool, for a step that is no single tool call; approval (or conditions) is its result."""


PLAN_EDITS = "Edit(./**)"
"""What can be approved together with a plan: edits of files inside the workspace, without asking."""


class Inquiry(Value):
    """One thing a person must decide, with everything they need to see to decide it."""

    id: str
    number: int
    """Counts up over all tasks: people say "request #12"."""
    revision: int = 0
    kind: Kind
    state: InquiryState = InquiryState.PENDING
    task_id: str
    batch: str
    tool_use_id: str
    tool_name: str
    tool_input: dict[str, Any]
    digest: str
    workspace: str
    cwd: str
    asked_by: Actor
    asked_at: AwareDatetime
    rule: str
    """The policy rule that stopped the call, as written: `Bash(kubectl *)`; or `nothing matched`."""
    offer: str = ""
    """The rule that can be approved together with this call (see `grants.rule_for`); '' for none."""
    offer_for: Duration | None = None
    """How long that rule would then hold in the workspace."""
    agent_words: str = ""
    """What the agent wrote just before the call. Its words, not ours: always labelled."""
    before: str | None = None
    """For a Write to an existing file: that file's text at the time of asking (for a diff)."""
    warnings: tuple[str, ...] = ()
    """Codes of things a reader must notice (see `cards.wording`): `hidden_characters`, ..."""
    approvers: tuple[str, ...]
    """Who may decide, as in the policy: `requester`, `anyone`, `group:oncall`, `lin`."""
    quorum: int = 1
    requester_may_decide: bool = True
    veto: bool = True
    """Whether one rejection ends it. If not, it is a vote, and ends it once approval is impossible."""
    expires_at: AwareDatetime
    hold: Hold = Hold.DEFERRED
    settled: bool = False
    """Whether nothing can come of it any more: a refusal the model was told, or an approval never used."""
    remind_at: AwareDatetime | None = None
    reminded_at: AwareDatetime | None = None
    escalate_at: AwareDatetime | None = None
    escalate_to: tuple[str, ...] = ()
    """Who joins `approvers` at that moment."""
    escalated_at: AwareDatetime | None = None
    replaces: str | None = None
    """The inquiry this one follows (revised after conditions, or asked again)."""
    votes: tuple[Vote, ...] = ()
    decision: Decision | None = None
    run: Run = Run()

    @property
    def short_digest(self) -> str:
        """The characters of the digest that people see."""
        return self.digest[:SHORT]

    @property
    def open(self) -> bool:
        """Whether it still waits for a person."""
        return self.state is InquiryState.PENDING

    @property
    def next_moment(self) -> datetime:
        """When the clock has to look at it: for a reminder, an escalation, or its end."""
        remind = None if self.reminded_at else self.remind_at
        escalate = None if self.escalated_at else self.escalate_at
        return min(filter(None, (self.expires_at, remind, escalate)))

    @property
    def run_allowed(self) -> bool:
        """Whether a person said yes to running this call (as asked, as edited, or with answers).

        Conditions in words are no yes to a tool call: it comes back revised and is shown again.
        Conditions that are data are one, as far as they reach.
        """
        if self.state is InquiryState.CHANGED:
            decision = self.decision
            yes = decision is not None and (decision.input is not None or bool(decision.limits))
            return yes or self.tool_name == REQUEST_APPROVAL
        return self.state in (InquiryState.APPROVED, InquiryState.ANSWERED)

    @property
    def awaited(self) -> bool:
        """Whether it is decided, and the model has yet to make the call (again) to learn it or to run it."""
        decided = self.state not in (InquiryState.PENDING, InquiryState.WITHDRAWN)
        call = self.kind is not Kind.LIMIT
        return call and decided and not self.settled and self.run.state is Execution.NONE

    @property
    def effective_input(self) -> dict[str, Any]:
        """The input that runs when this is approved: the edited one, else as asked."""
        decision = self.decision
        if decision is not None and decision.verdict is Verdict.CHANGE and decision.input is not None:
            return decision.input
        return self.tool_input


CLOCKS_DIFFER = timedelta(minutes=5)
"""How far the clocks of two machines may be apart before a time counts as lying in the future."""


class Grant(Value):
    """An approval that outlives one call: for the call of this digest, or for what a rule covers.

    It holds in the task that it was given in; with a `workspace`, in every task there.
    """

    id: str = ""
    """`g12` was given with request #12: one decision, one grant."""
    task_id: str
    digest: str
    inquiry_id: str
    number: int = 0
    """Of that request."""
    by: Actor
    at: AwareDatetime
    rule: str = ""
    """What it covers, in the syntax of the policy; '' for exactly the call of this digest."""
    stopped_by: str = ""
    """The policy rule that stopped that call. What another rule stops is not what was granted."""
    workspace: str = ""
    until: AwareDatetime | None = None
    times: int | None = None
    """How often the call may run, the first time included; None for as often as it is made."""
    used: int = 0
    """How often it was let run, where that is counted."""
    revoked_by: Actor | None = None
    revoked_at: AwareDatetime | None = None

    @property
    def revoked(self) -> bool:
        """Whether somebody took it back."""
        return self.revoked_at is not None

    @property
    def used_up(self) -> bool:
        """Whether the call ran as often as it may."""
        return self.times is not None and self.used >= self.times

    def in_time(self, now: datetime) -> bool:
        """Whether it has not ended; a clock that is off by more than minutes is no reason to believe it."""
        return self.at - CLOCKS_DIFFER <= now and (self.until is None or now < self.until)


class Role(StrEnum):
    """Who wrote a line of the thread: a person, the agent, or this program."""

    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"


class Message(Value):
    """One line of a task's thread as the API and the pages show it."""

    role: Role
    text: str
    at: AwareDatetime
    by: Actor | None = None


class Progress(Value):
    """What a running turn is doing now. Short-lived; never part of the record."""

    activity: str
    """Code for `cards.wording`: `starting`, `thinking`, `tool`, `model_retry`."""
    detail: str = ""
    tool_calls: int = 0
    since: datetime = Field(description="when this turn's work began")


class DeferredCall(Value):
    """The call at which a turn stopped, as the engine reported it."""

    tool_use_id: str
    tool_name: str
    tool_input: dict[str, Any]


class TurnUsage(Value):
    """What one turn used."""

    cost_usd: float = 0.0
    model_calls: int = 0
    active_ms: int = 0
    waiting_ms: int = 0
    """In which its process waited for people."""


class OutcomeKind(StrEnum):
    """How a turn ended."""

    DONE = "done"
    DEFERRED = "deferred"
    LIMITED = "limited"
    STOPPED = "stopped"
    FAILED = "failed"


class Outcome(Value):
    """What one turn came to. `failure` is set exactly when the kind is FAILED, `limit` when LIMITED."""

    kind: OutcomeKind
    result: str = ""
    deferred: DeferredCall | None = None
    failure: Failure | None = None
    limit: Reached | None = None
    begun: bool = True
    """For LIMITED: whether the turn did anything before the limit was reached."""
    retry: bool = False
    """For FAILED: whether running the same turn again can help (server away, model down)."""
    usage: TurnUsage = TurnUsage()
