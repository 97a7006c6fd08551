"""Tasks, inquiries and decisions as tests want them: one ordinary value, and what differs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_runner import audit
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.digest import digest
from agent_runner.model import (
    LIMIT_TOOL,
    Actor,
    Decision,
    Execution,
    Inquiry,
    Kind,
    Place,
    Run,
    Task,
    TaskState,
    Verdict,
)

NOW = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)
MEI = Actor(platform="web", user_id="mei", name="Mei")
LIN = Actor(platform="web", user_id="lin", name="Lin", person="lin")
KAI = Actor(platform="web", user_id="kai", name="Kai", person="kai")
COMMAND = {"command": "kubectl rollout restart deploy/checkout"}
QUESTIONS = {
    "questions": [
        {
            "question": "Which database?",
            "header": "Database",
            "multiSelect": False,
            "options": [{"label": "Postgres", "description": ""}, {"label": "MySQL", "description": ""}],
        },
        {
            "question": "Which environments?",
            "header": "Where",
            "multiSelect": True,
            "options": [{"label": "dev", "description": ""}, {"label": "prod", "description": ""}],
        },
    ]
}
ANSWERS = {"Which database?": "Postgres", "Which environments?": "dev, prod"}


def at(seconds: float) -> datetime:
    """So many seconds after `NOW`."""
    return NOW + timedelta(seconds=seconds)


def a_task(**changes: Any) -> Task:
    """A queued task of Mei's in the workspace `ops`."""
    values: dict[str, Any] = {
        "id": "t_1",
        "number": 231,
        "workspace": "ops",
        "cwd": "/srv/ops",
        "pool": "default",
        "place": Place(platform="web", thread="t_1"),
        "asked_by": MEI,
        "text": "restart the checkout pods",
        "created_at": NOW,
        "updated_at": NOW,
        "session_id": "7f3c7a52-2f0d-4e51-9f0c-0f6f6a1f6d11",
        "prompt": "restart the checkout pods",
    }
    return Task(**{**values, **changes})


def an_inquiry(**changes: Any) -> Inquiry:
    """A pending approval of a Bash call, which the requester may decide for eight hours."""
    tool_name = changes.get("tool_name", "Bash")
    tool_input = changes.get("tool_input", COMMAND)
    values: dict[str, Any] = {
        "id": "i_1",
        "number": 12,
        "kind": Kind.APPROVAL,
        "task_id": "t_1",
        "batch": "t_1-1-1",
        "tool_use_id": "toolu_1",
        "tool_name": tool_name,
        "tool_input": tool_input,
        "digest": digest(tool_name, tool_input),
        "workspace": "ops",
        "cwd": "/srv/ops",
        "asked_by": MEI,
        "asked_at": NOW,
        "rule": "Bash(kubectl *)",
        "approvers": ("anyone",),
        "expires_at": at(8 * 3600),
    }
    return Inquiry(**{**values, **changes})


def a_question(**changes: Any) -> Inquiry:
    """A pending AskUserQuestion with one single and one multiple choice."""
    return an_inquiry(
        **{"kind": Kind.QUESTION, "tool_name": "AskUserQuestion", "tool_input": QUESTIONS, **changes}
    )


def a_plan(**changes: Any) -> Inquiry:
    """A pending ExitPlanMode."""
    plan = {"plan": "1. look\n2. restart"}
    return an_inquiry(**{"kind": Kind.PLAN, "tool_name": "ExitPlanMode", "tool_input": plan, **changes})


def a_limit(**changes: Any) -> Inquiry:
    """A pending request to go on beyond two dollars."""
    given = {"limit": "usd", "used": 2.03, "of": 2, "more": 2}
    fields = {"kind": Kind.LIMIT, "tool_name": LIMIT_TOOL, "tool_input": given, "tool_use_id": ""}
    return an_inquiry(**{**fields, "rule": "limits.max_task_usd", **changes})


def a_decision(verdict: str = "approve", **changes: Any) -> Decision:
    """Lin's word, one minute after `NOW`."""
    return Decision(**{"verdict": Verdict(verdict), "by": LIN, "at": at(60), **changes})


def a_run(state: str) -> Run:
    """How a call went, as far as that state goes."""
    execution = Execution(state)
    started = None if execution is Execution.NONE else at(70)
    return Run(state=execution, started_at=started)


def waiting(*inquiries: Inquiry, **changes: Any) -> Snapshot:
    """A task that waits for these inquiries (one ordinary one if none is given)."""
    asked = inquiries or (an_inquiry(),)
    task = a_task(
        **{
            "state": TaskState.WAITING,
            "batch": asked[0].batch,
            "waiting_since": NOW,
            "prompt": None,
            **changes,
        }
    )
    return Snapshot(task, asked)


def applied(before: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot after these changes, which may be none."""
    return before if changes.empty else before.after(changes)


def sealed(notes: Iterable[audit.Note]) -> tuple[audit.Entry, ...]:
    """The chain that these notes make."""
    chain: list[audit.Entry] = []
    for note in notes:
        chain.append(audit.seal(note, chain[-1] if chain else None))
    return tuple(chain)
