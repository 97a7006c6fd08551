"""What a person did, product-free: the values that every door makes and `handle` takes.

A door (web, terminal, chat) turns its raw payload into one of these and nothing else reads the
payload. They carry what was said, never what is true: who may decide, and about what, is
looked up in the store.
"""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from agent_runner.model import Actor, Condition, Place, Scope, Value, Verdict
from cards.model import Verb
from cards.replies import Decide


class Ask(Value):
    """Somebody asks for a job. `workspace` '' means the first one that is configured."""

    actor: Actor
    text: str
    workspace: str = ""
    place: Place | None = None
    plan: bool = False


class Said(Value):
    """Somebody wrote in a task's thread; `quoted` is the number of the request they replied to.

    If that was a card with several, they are the numbers of all of them.

    Words that are not `addressed` to the agent count only if they answer a request or control
    the task: people may talk to each other in the thread.
    """

    actor: Actor
    task_id: str
    text: str
    quoted: int | tuple[int, ...] | None = None
    addressed: bool = True


class Heard(Value):
    """Somebody wrote in a chat. `place` is the thread it stands in, or the one it would begin."""

    actor: Actor
    place: Place
    text: str
    message_id: str
    at: AwareDatetime
    """When it was written."""
    addressed: bool
    """Whether the bot is meant for sure: mentioned, or in a chat with it alone."""
    to_others: bool = False
    """Whether it mentions other people and not the bot."""
    loose: bool = False
    """Whether it stands in a chat with the bot alone, and in no thread: it may answer what is open there."""
    quoted: str = ""
    """The id of the message it replies to, where the product has such replies."""


class Pressed(Value):
    """Somebody pressed a button of a card; `fields` are those of `cards.replies.from_form`."""

    actor: Actor
    verb: Verb
    revision: int
    inquiry_id: str = ""
    task_id: str = ""
    held_id: str = ""
    seen: str = ""
    """What a button about a batch shows of which step (`cards.batch.read_seen`)."""
    fields: dict[str, list[str]] = Field(default_factory=dict)


class Chose(Value):
    """Somebody decided about an inquiry, by a button, a reply or the API.

    `revision` and `digest` say what they saw; None and '' where the door does not know.
    """

    actor: Actor
    inquiry_id: str
    verdict: Verdict
    reason: str = ""
    conditions: str = ""
    limits: tuple[Condition, ...] = ()
    """Conditions as data, where the door takes them so; those in `conditions` are read from the words."""
    input: dict[str, Any] | None = None
    answers: dict[str, str] | None = None
    scope: Scope = Scope.ONCE
    break_glass: bool = False
    """Whether they decide alone, with `confirm` for a second confirmation: `#12`."""
    confirm: str = ""
    digest: str = ""
    revision: int | None = None

    @classmethod
    def meant(cls, actor: Actor, reply: Decide, *, revision: int | None = None) -> Chose:
        """What somebody's words or form mean, as their decision."""
        return cls(actor=actor, revision=revision, **reply.model_dump(exclude={"kind"}))


class ChoseSeveral(Value):
    """Somebody decided about several requests of one task in one message: all are recorded, or none."""

    actor: Actor
    choices: tuple[Chose, ...]


class ChoseAll(Value):
    """Somebody approved or rejected all open steps of a batch; `inquiry_id` is one of them.

    `seen` (revision by number) and `digests` say which steps they saw, and as what; steps that
    they did not see so stay open. None where the door does not know, for a refusal only.
    """

    actor: Actor
    inquiry_id: str
    verdict: Verdict
    reason: str = ""
    seen: dict[int, int] | None = None
    digests: tuple[str, ...] | None = None


class Stopped(Value):
    """Somebody wants a task to stop."""

    actor: Actor
    task_id: str


class Retried(Value):
    """Somebody wants a failed or stuck task's turn to be tried again."""

    actor: Actor
    task_id: str


class Revoked(Value):
    """Somebody takes back an approval that outlives one call, by its id (`g12`)."""

    actor: Actor
    grant_id: str


class AskedAgain(Value):
    """Somebody wants an expired request to be asked once more."""

    actor: Actor
    inquiry_id: str
