"""What a person did, product-free: the values that every door makes and `handle` takes.

A door (web, terminal, chat) turns its raw payload into one of these and nothing else reads the
payload. They carry what was said, never what is true: who may decide, and about what, is
looked up in the store.
"""

from __future__ import annotations

from typing import Any

from agent_runner.model import Actor, Place, Scope, Value, Verdict


class Ask(Value):
    """Somebody asks for a job. `workspace` '' means the first one that is configured."""

    actor: Actor
    text: str
    workspace: str = ""
    place: Place | None = None
    plan: bool = False


class Said(Value):
    """Somebody wrote in a task's thread; `quoted` is the number of the request they replied to."""

    actor: Actor
    task_id: str
    text: str
    quoted: int | None = None


class Chose(Value):
    """Somebody decided about an inquiry, by a button, a reply or the API.

    `revision` and `digest` say what they saw; None and '' where the door does not know.
    """

    actor: Actor
    inquiry_id: str
    verdict: Verdict
    reason: str = ""
    conditions: str = ""
    input: dict[str, Any] | None = None
    answers: dict[str, str] | None = None
    scope: Scope = Scope.ONCE
    digest: str = ""
    revision: int | None = None


class Stopped(Value):
    """Somebody wants a task to stop."""

    actor: Actor
    task_id: str


class Retried(Value):
    """Somebody wants a failed or stuck task's turn to be tried again."""

    actor: Actor
    task_id: str


class AskedAgain(Value):
    """Somebody wants an expired request to be asked once more."""

    actor: Actor
    inquiry_id: str
