"""Requests and tasks in every kind and state, the same at every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from agent_runner.contacts import StandIn
from agent_runner.digest import digest
from agent_runner.model import (
    REQUEST_APPROVAL,
    Actor,
    Condition,
    ConditionKind,
    Decision,
    Execution,
    Failure,
    FollowUp,
    Hold,
    Inquiry,
    InquiryState,
    Kind,
    Place,
    Progress,
    Run,
    Scope,
    Task,
    TaskState,
    Usage,
    Verdict,
    Vote,
)
from cards import compose, mentions
from cards.batch_card import batch_card
from cards.model import Card
from cards.notices import held_card
from cards.outcomes import Reader

ZONE = timezone(timedelta(hours=8))
NOW = datetime(2026, 11, 30, 6, 30, tzinfo=UTC)
ASKED = NOW - timedelta(minutes=27)
DECIDED = NOW - timedelta(minutes=19)
MEI = Actor(platform="web", user_id="mei", name="mei")
LIN = Actor(platform="web", user_id="lin", name="lin", person="lin")
KAI = Actor(platform="web", user_id="kai", name="kai", person="kai")
RESTART = {"command": "kubectl -n staging rollout restart deploy/checkout"}


def inquiry(tool: str = "Bash", given: Mapping[str, Any] | None = None, **changes: Any) -> Inquiry:
    """A request as the store holds it; an approval of a Bash call unless told otherwise."""
    tool_input = dict(RESTART if given is None else given)
    fields: dict[str, Any] = {
        "id": "inq-12",
        "number": 12,
        "revision": 3,
        "kind": Kind.APPROVAL,
        "task_id": "task-1",
        "batch": "batch-1",
        "tool_use_id": "toolu_1",
        "tool_name": tool,
        "tool_input": tool_input,
        "digest": digest(tool, tool_input),
        "workspace": "ops",
        "cwd": "/srv/ops",
        "asked_by": MEI,
        "asked_at": ASKED,
        "rule": "Bash(kubectl *)",
        "approvers": ("group:oncall",),
        "expires_at": ASKED + timedelta(hours=4),
    }
    return Inquiry(**{**fields, **changes})


def decided(verdict: Verdict, **fields: Any) -> Decision:
    """Lin's decision."""
    return Decision(**{"verdict": verdict, "by": LIN, "at": DECIDED, **fields})


def ran(**fields: Any) -> Run:
    """A run that ended well after 41 seconds."""
    whole = {
        "state": Execution.FINISHED,
        "started_at": DECIDED,
        "finished_at": DECIDED + timedelta(seconds=41),
        "output": "deployment.apps/checkout restarted",
    }
    return Run(**{**whole, **fields})


def asked(*questions: tuple[str, tuple[str, ...], bool], **changes: Any) -> Inquiry:
    """The agent's questions: (text, labels, several may be picked)."""
    items = [
        {
            "question": text,
            "header": text.split()[-1].rstrip("?")[:12],
            "options": [{"label": label, "description": f"about {label}"} for label in labels],
            "multiSelect": several,
        }
        for text, labels, several in questions
    ]
    whole = {"kind": Kind.QUESTION, "approvers": ("requester",), **changes}
    return inquiry("AskUserQuestion", {"questions": items}, **whole)


DATABASE = ("Which database?", ("Postgres", "MySQL"), False)
ENVIRONMENTS = ("Which environments?", ("dev", "staging", "prod"), True)
PLAN = "Restart checkout\n\n1. restart\n2. watch\n\n```sh\nkubectl get pods\n```\nThen say `done`."
STEP = {
    "title": "Call the vendor",
    "action": "Ask the vendor to fail over to their second site",
    "context": "The first site has been slow for an hour.",
    "next_steps": "Watch latency for ten minutes.",
}

LIMITS = tuple(
    Condition(kind=ConditionKind(kind), value=value)
    for kind, value in (
        ("before", "2026-12-01T10:00:00+00:00"),
        ("in", "./stag ing"),
        ("with", "/-n \\w+-2|<@U1>/"),
        ("with", "-n"),
        ("times", "3"),
    )
)


def limit(name: str, used: float, of: float, more: float, **changes: Any) -> Inquiry:
    """A limit that was reached."""
    day = {"day": "2026-11-30"} if name == "day_usd" else {}
    given = {"limit": name, "used": used, "of": of, "more": more, **day}
    rule = {"usd": "limits.max_task_usd", "day_usd": "workspaces.ops.max_usd_per_day"}.get(name, "limits.max")
    return inquiry("Limit", given, **{"kind": Kind.LIMIT, "rule": rule, "tool_use_id": "", **changes})


REQUESTS: Mapping[str, Inquiry] = {
    "pending_bash": inquiry(agent_words="I will restart the deployment,\nthen watch it for 2 minutes."),
    "pending_offer": inquiry(
        given={"command": "git push origin main"},
        offer="Bash(git push:*)",
        offer_for=timedelta(hours=8),
        rule="nothing matched",
    ),
    "pending_offer_long": inquiry(
        "Write",
        {"file_path": "/srv/ops/" + "very/" * 20 + "deep \u202e@all.md", "content": "x"},
        offer="Edit(./" + "very/" * 20 + "deep \u202e@all.md)",
        offer_for=timedelta(days=2, hours=4),
        rule="Write",
    ),
    "pending_bash_options": inquiry(
        given={
            "command": "make\nmake install",
            "description": "Install",
            "timeout": 5,
            "run_in_background": True,
        }
    ),
    "pending_hidden": inquiry(
        given={"command": "ls \u202etxt.\u202c \u200b" + " " * 400 + "; rm -rf p\u0430y ⟨U+0041⟩ `</code>`"},
        warnings=("unparsed", "made_up"),
    ),
    "pending_mentions": inquiry(
        "mcp__chat__post", {"text": "<!channel> <at id=all></at> @all [Approve](http://x)"}, rule="mcp__*"
    ),
    "pending_write_new": inquiry(
        "Write", {"file_path": "notes/a.md", "content": "# Notes\n\nnew\n"}, rule="Write"
    ),
    "pending_write_over": inquiry(
        "Write",
        {"file_path": "/srv/ops/a.txt", "content": "one\n2\nthree"},
        before="one\ntwo\nthree",
        rule="Write",
    ),
    "pending_edit_outside": inquiry(
        "Edit",
        {
            "file_path": "../etc/b.py",
            "old_string": "a = 1\nb = 2",
            "new_string": "a = 1\nb = 3",
            "replace_all": True,
        },
        rule="nothing matched",
    ),
    "pending_mcp": inquiry(
        "mcp__db__query",
        {"sql": "select 1", "limit": 5, "ids": ["7", 7], "note": "5", "why": "line 1\nline 2", "none": None},
        rule="mcp__db__*",
    ),
    "pending_step": inquiry(REQUEST_APPROVAL, {**STEP, "extra": "more"}, rule="mcp__*"),
    "pending_unknown_tool": inquiry(
        "WebFetch", {"url": "http://example.com", "prompt": "sum up"}, rule="WebFetch"
    ),
    "pending_plan": inquiry("ExitPlanMode", {"plan": PLAN}, kind=Kind.PLAN),
    "pending_plan_edits": inquiry("ExitPlanMode", {"plan": PLAN}, kind=Kind.PLAN, offer="Edit(./**)"),
    "pending_live": inquiry(hold=Hold.LIVE, expires_at=NOW + timedelta(minutes=9)),
    "pending_plan_empty": inquiry("ExitPlanMode", {}, kind=Kind.PLAN),
    "pending_question": asked(DATABASE),
    "pending_questions": asked(DATABASE, ENVIRONMENTS),
    "pending_preview": inquiry(
        "AskUserQuestion",
        {
            "questions": [
                {
                    "question": "Which layout?",
                    "header": "Layout",
                    "multiSelect": False,
                    "options": [
                        {
                            "label": "Two columns",
                            "description": "wide",
                            "preview": "+--+--+\n|  |  |\n+--+--+",
                        },
                        {"label": "One column", "description": "", "preview": ""},
                    ],
                }
            ]
        },
        kind=Kind.QUESTION,
        approvers=("requester",),
    ),
    "pending_quorum": inquiry(
        quorum=2,
        requester_may_decide=False,
        votes=(Vote(by=KAI, at=DECIDED, verdict=Verdict.APPROVE),),
    ),
    "pending_limit_usd": limit("usd", 2.03, 2, 2, agent_words="Two of five files are done."),
    "pending_limit_minutes": limit("minutes", 62.5, 60, 60),
    "pending_limit_model_turns": limit("model_turns", 200, 200, 200),
    "pending_limit_day": limit("day_usd", 10.4, 10, 10, approvers=("group:leads",)),
    "approved_limit": limit(
        "model_turns", 200, 200, 200, state=InquiryState.APPROVED, decision=decided(Verdict.APPROVE)
    ),
    "changed_limit": limit(
        "usd",
        2.03,
        2,
        2,
        state=InquiryState.CHANGED,
        decision=decided(Verdict.CHANGE, input={"limit": "usd", "used": 2.03, "of": 2, "more": 0.5}),
    ),
    "rejected_limit": limit(
        "usd", 2.03, 2, 2, state=InquiryState.REJECTED, decision=decided(Verdict.REJECT, reason="enough")
    ),
    "expired_limit": limit("minutes", 62.5, 60, 60, state=InquiryState.EXPIRED, expires_at=DECIDED),
    "approved_starting": inquiry(state=InquiryState.APPROVED, decision=decided(Verdict.APPROVE)),
    "approved_to_come": inquiry(
        state=InquiryState.APPROVED, decision=decided(Verdict.APPROVE), hold=Hold.SIBLING
    ),
    "approved_not_run": inquiry(
        state=InquiryState.APPROVED, decision=decided(Verdict.APPROVE), hold=Hold.SIBLING, settled=True
    ),
    "approved_plan_edits": inquiry(
        "ExitPlanMode",
        {"plan": "Restart"},
        kind=Kind.PLAN,
        offer="Edit(./**)",
        state=InquiryState.APPROVED,
        decision=decided(
            Verdict.APPROVE, scope=Scope.RULE, rule="Edit(./**)", until=NOW + timedelta(hours=12)
        ),
    ),
    "approved_running": inquiry(
        state=InquiryState.APPROVED,
        decision=decided(Verdict.APPROVE),
        run=Run(state=Execution.STARTED, started_at=DECIDED),
    ),
    "approved_ran": inquiry(
        state=InquiryState.APPROVED, decision=decided(Verdict.APPROVE, reason="ok, staging only"), run=ran()
    ),
    "approved_failed": inquiry(
        state=InquiryState.APPROVED,
        decision=decided(Verdict.APPROVE),
        run=ran(failed=True, output="Exit code 7\nno such deployment"),
    ),
    "approved_always": inquiry(
        state=InquiryState.APPROVED, decision=decided(Verdict.APPROVE, scope=Scope.TASK), run=ran(output="")
    ),
    "approved_rule": inquiry(
        given={"command": "git push origin main"},
        state=InquiryState.APPROVED,
        decision=decided(
            Verdict.APPROVE, scope=Scope.RULE, rule="Bash(git push:*)", until=DECIDED + timedelta(hours=12)
        ),
        run=ran(),
    ),
    "approved_until": inquiry(
        given={"command": "git push origin main"},
        state=InquiryState.APPROVED,
        decision=decided(
            Verdict.APPROVE, scope=Scope.UNTIL, rule="Bash(git push:*)", until=DECIDED + timedelta(days=2)
        ),
        run=ran(),
    ),
    "approved_plan": inquiry(
        "ExitPlanMode",
        {"plan": "Restart"},
        kind=Kind.PLAN,
        state=InquiryState.APPROVED,
        decision=decided(Verdict.APPROVE),
    ),
    "changed_input": inquiry(
        state=InquiryState.CHANGED,
        decision=decided(
            Verdict.CHANGE,
            input={"command": RESTART["command"].replace("staging", "staging-2")},
            conditions="2 first",
        ),
        run=ran(),
    ),
    "changed_conditions": inquiry(
        state=InquiryState.CHANGED, decision=decided(Verdict.CHANGE, conditions="only with --dry-run=server")
    ),
    "approved_limits": inquiry(
        state=InquiryState.CHANGED,
        decision=decided(
            Verdict.CHANGE,
            conditions="only before 18:00, only in ./staging, only with -n, at most 3 times",
            limits=LIMITS,
        ),
        run=ran(),
    ),
    "changed_limits": inquiry(
        state=InquiryState.CHANGED,
        decision=decided(
            Verdict.CHANGE,
            input={"command": RESTART["command"].replace("staging", "staging-2")},
            limits=LIMITS[2:],
        ),
        run=ran(),
    ),
    "held_back": inquiry(
        state=InquiryState.CHANGED,
        decision=decided(Verdict.CHANGE, conditions="only before 14:30", limits=LIMITS[:1]),
        run=Run(refused="lin allowed it only before 2026-12-01 10:00 UTC, and that time is over."),
    ),
    "changed_step": inquiry(
        REQUEST_APPROVAL,
        STEP,
        state=InquiryState.CHANGED,
        decision=decided(Verdict.CHANGE, conditions="after 18:00"),
    ),
    "rejected": inquiry(
        state=InquiryState.REJECTED,
        decision=decided(Verdict.REJECT, reason="use the canary first\nthen ask again"),
    ),
    "answered": asked(
        DATABASE,
        ENVIRONMENTS,
        state=InquiryState.ANSWERED,
        decision=decided(
            Verdict.ANSWER, answers={"Which database?": "the old\none", "Which environments?": "dev, prod"}
        ),
    ),
    "expired": inquiry(state=InquiryState.EXPIRED, expires_at=DECIDED),
    "withdrawn": inquiry(state=InquiryState.WITHDRAWN),
    "unknown": inquiry(
        state=InquiryState.APPROVED,
        decision=decided(Verdict.APPROVE),
        run=Run(state=Execution.UNKNOWN, started_at=DECIDED),
    ),
}


def task(state: TaskState = TaskState.RUNNING, **changes: Any) -> Task:
    """Mei's job in the workspace `ops`."""
    fields: dict[str, Any] = {
        "id": "task-1",
        "number": 231,
        "revision": 9,
        "state": state,
        "workspace": "ops",
        "cwd": "/srv/ops",
        "pool": "default",
        "place": Place(platform="web", thread="t1"),
        "asked_by": MEI,
        "text": "restart the checkout pods in staging",
        "created_at": ASKED,
        "updated_at": DECIDED,
        "session_id": "s-1",
        "turn": 2,
        "usage": Usage(cost_usd=0.081, model_calls=6, turns=2, active_ms=40_000, waiting_ms=140_000),
    }
    return Task(**{**fields, **changes})


def step(at: int, tool: str = "Bash", given: Mapping[str, Any] | None = None, **changes: Any) -> Inquiry:
    """The request at this place (from 0) of one turn's steps."""
    return inquiry(tool, given, **{"id": f"inq-{20 + at}", "number": 20 + at, "batch": "batch-2", **changes})


PLANNED = step(0, given={"command": "terraform plan -out p"})
APPLIED = step(1, given={"command": "terraform apply p"}, agent_words="I plan, apply and write it down.")
NOTED = step(
    2, "Write", {"file_path": "/srv/ops/envs/prod/notes.md", "content": "applied p\n"}, before="nothing yet\n"
)
STEPS = (PLANNED, APPLIED, NOTED)
_DONE = {"state": InquiryState.APPROVED, "decision": decided(Verdict.APPROVE)}
_NO = {"state": InquiryState.REJECTED, "decision": decided(Verdict.REJECT, reason="wait for the window")}


def together(*steps: Inquiry, **options: Any) -> Callable[[str], Card]:
    """The card of the steps of one turn, for a language."""
    return lambda lang: batch_card(steps, lang=lang, zone=ZONE, now=NOW, **options)


PROGRESS = Progress(activity="tool", detail="Read", tool_calls=3, since=NOW - timedelta(seconds=8))


def status(
    of: Task, *, progress: Progress | None = None, pending: tuple[Inquiry, ...] = ()
) -> Callable[[str], Card]:
    """The status message of a task, for a language."""
    return lambda lang: compose.status_card(
        of, progress=progress, pending=pending, lang=lang, zone=ZONE, now=NOW
    )


def result(of: Task) -> Callable[[str], Card]:
    """The result of a task, for a language."""
    return lambda lang: compose.result_card(of, lang=lang, zone=ZONE, now=NOW)


def request(of: Inquiry, **options: Any) -> Callable[[str], Card]:
    """The card of a request, for a language."""
    return lambda lang: compose.inquiry_card(of, lang=lang, zone=ZONE, now=NOW, **options)


def call(kind: str, of: Inquiry, *told: Any) -> Callable[[str], Card]:
    """A message that calls people to a request, for a language."""

    def make(lang: str) -> Card:
        key = f"{kind}:{of.number}"
        made = mentions.posts(of, Reader(lang, ZONE, NOW), {key: told})
        return {post.key: post.card for post in made}[key]

    return make


KAI_CHAT = Actor(platform="slack", tenant="T1", user_id="U02", name="kai", person="kai")
FOR_LIN = StandIn(by=KAI_CHAT, absent="lin")
ALONE = decided(Verdict.APPROVE, break_glass=True, reason="checkout is down, nobody answers")
TWO_VOTES = (
    Vote(by=LIN, at=DECIDED, verdict=Verdict.REJECT, words="the canary is\nstill red"),
    Vote(by=KAI, at=DECIDED, verdict=Verdict.APPROVE, words="go", acting_for="mei"),
)
_KEPT = (FollowUp(text="and the cart pods", by=MEI, at=NOW),)
_LOST = Failure(code="worker_lost", message="The worker stopped 3 times while this was running.")
_ODD = Failure(code="made_up", message="The moon is in the way.", hint="Wait for the tide.")
_UNKNOWN = Failure(code="outcome_unknown", message="Request #12 was started and nobody saw it end.")
_SECOND = inquiry(id="inq-13", number=13, approvers=("requester", "anyone"))
_SENT_BACK = REQUESTS["changed_conditions"]

CARDS: Mapping[str, Callable[[str], Card]] = {
    **{name: request(one) for name, one in REQUESTS.items()},
    "pending_not_allowed": request(inquiry(), can_decide=False, approver_names=("lin", "kai")),
    "pending_question_not_allowed": request(asked(DATABASE), can_decide=False),
    "pending_several": request(inquiry(), position=(1, 2), can_decide=True),
    "pending_replaces": request(
        inquiry(
            id="inq-14",
            number=14,
            given={"command": RESTART["command"] + " --dry-run=server"},
            replaces=_SENT_BACK.id,
        ),
        previous=_SENT_BACK,
    ),
    "pending_break_glass": request(
        inquiry(quorum=2), can_decide=False, may_break_glass=True, approver_names=("kai", FOR_LIN)
    ),
    "pending_no_veto": request(inquiry(quorum=2, veto=False, votes=TWO_VOTES)),
    "approved_in_place": request(
        inquiry(state=InquiryState.APPROVED, decision=decided(Verdict.APPROVE, acting_for="kai"), run=ran())
    ),
    "approved_alone": request(
        inquiry(state=InquiryState.APPROVED, decision=ALONE, quorum=2, votes=TWO_VOTES, run=ran())
    ),
    "approved_alone_wordy": request(
        inquiry(
            state=InquiryState.APPROVED,
            decision=ALONE.having(reason="checkout is down\n" + "and nobody answers " * 20),
            run=ran(),
        )
    ),
    "reminder": call("reminder", inquiry(reminded_at=NOW), FOR_LIN, "anyone"),
    "escalated": call("escalated", inquiry(escalated_at=NOW), KAI_CHAT, "lead"),
    "breakglass": call("breakglass", inquiry(state=InquiryState.APPROVED, decision=ALONE), FOR_LIN, KAI),
    "expired_asked_again": request(REQUESTS["expired"], followed_by=15),
    "status_queued": status(task(TaskState.QUEUED)),
    "status_starting": status(task()),
    "status_working": status(task(follow_ups=_KEPT), progress=PROGRESS),
    "status_stopping": status(task(stop_requested_by=KAI), progress=PROGRESS),
    "status_waiting": status(
        task(TaskState.WAITING, waiting_since=ASKED, follow_ups=_KEPT * 2), pending=(inquiry(), _SECOND)
    ),
    "status_ended": status(task(TaskState.DONE)),
    "result_done": result(task(TaskState.DONE, result="Restarted **3/3**.\n\n```\nok\n```\nSee `kubectl`.")),
    "result_silent": result(task(TaskState.DONE, usage=Usage(cost_usd=0.001, model_calls=1, active_ms=900))),
    "result_failed": result(task(TaskState.FAILED, failure=_LOST)),
    "result_failed_oddly": result(task(TaskState.FAILED, failure=_ODD)),
    "result_stuck": result(task(TaskState.STUCK, failure=_UNKNOWN)),
    "batch_open": together(*STEPS),
    "batch_mixed": together(PLANNED.having(**_DONE), APPLIED.having(**_NO), NOTED),
    "batch_done": together(
        PLANNED.having(**_DONE, run=ran()),
        APPLIED.having(**_NO),
        NOTED.having(**_DONE, run=ran(failed=True, output="disk full")),
    ),
    "batch_all_approved": together(*(one.having(**_DONE, run=ran(output="")) for one in STEPS)),
    "batch_quorum": together(
        PLANNED,
        APPLIED.having(
            quorum=2,
            votes=(Vote(by=KAI, at=DECIDED, verdict=Verdict.APPROVE),),
            requester_may_decide=False,
            expires_at=ASKED + timedelta(hours=1),
            rule="Bash(terraform apply *)",
            warnings=("unparsed",),
            agent_words="Now for real.",
        ),
        NOTED.having(approvers=("requester",), agent_words="And the note."),
    ),
    "batch_not_allowed": together(
        *STEPS,
        can_decide={PLANNED.id: True, APPLIED.id: False, NOTED.id: False},
        approver_names={APPLIED.id: ("kai",)},
    ),
    "batch_expired": together(
        PLANNED.having(state=InquiryState.EXPIRED),
        APPLIED.having(state=InquiryState.WITHDRAWN),
        NOTED.having(state=InquiryState.EXPIRED),
        followed_by={NOTED.id: 30},
    ),
    "held": lambda lang: held_card(
        "held-1", "restart the pods\nand tell me", by=MEI, at=ASKED, lang=lang, zone=ZONE, now=NOW
    ),
    "result_stopped": result(task(TaskState.STOPPED, stop_requested_by=KAI)),
    "result_limit_refused": result(
        task(
            TaskState.STOPPED,
            stop_requested_by=LIN,
            failure=Failure(code="limit_usd", message="The limit was reached; lin did not allow more."),
        )
    ),
}
"""Every card there is, by name: language -> card."""
