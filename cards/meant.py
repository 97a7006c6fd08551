"""What a message or a form can mean: the values that `cards.replies` reads out of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from agent_runner.model import Inquiry, Scope, Value, Verdict


class Decide(Value):
    """A decision on one inquiry, as it should be recorded if this person may decide."""

    kind: Literal["decide"] = "decide"
    inquiry_id: str
    verdict: Verdict
    reason: str = ""
    conditions: str = ""
    input: dict[str, Any] | None = None
    """The whole edited input, if any field was edited."""
    answers: dict[str, str] | None = None
    """Question text -> label, labels joined with ", ", or the person's words (engine fact E17)."""
    scope: Scope = Scope.ONCE
    break_glass: bool = False
    confirm: str = ""


class DecideSeveral(Value):
    """Decisions on several steps of a batch, all of which are recorded, or none."""

    kind: Literal["decide_several"] = "decide_several"
    decides: tuple[Decide, ...]


class DecideAll(Value):
    """One word about all steps of a batch that were open; `inquiry_id` is one of them."""

    kind: Literal["decide_all"] = "decide_all"
    inquiry_id: str
    verdict: Verdict
    reason: str = ""
    seen: dict[int, int]
    """Revision by number of those that were open."""


class AskBack(Value):
    """Not certain: say `wording.ask_back(lang, code, nested, **details)`. Nothing is decided.

    `nested` are details that are words of ours themselves: place -> key of `cards.wording`.
    """

    kind: Literal["ask_back"] = "ask_back"
    code: str
    details: dict[str, str] = Field(default_factory=dict)
    nested: dict[str, str] = Field(default_factory=dict)


class Control(Value):
    """A command about the task itself."""

    kind: Literal["control"] = "control"
    command: Literal["stop", "status", "help", "retry"]


class NotAnAnswer(Value):
    """Ordinary words: a follow-up for the agent."""

    kind: Literal["not_an_answer"] = "not_an_answer"
    text: str


class Nothing(Value):
    """No words at all (a sticker, an image, blanks)."""

    kind: Literal["nothing"] = "nothing"


Reply = Decide | DecideSeveral | DecideAll | AskBack | Control | NotAnAnswer | Nothing


def agreed(meant: Reply, inquiries: Iterable[Inquiry]) -> tuple[str, ...]:
    """Ids of the requests that this says yes to, in whatever way."""
    if isinstance(meant, DecideAll):
        if meant.verdict is Verdict.REJECT:
            return ()
        return tuple(inquiry.id for inquiry in inquiries if inquiry.number in meant.seen)
    decides = meant.decides if isinstance(meant, DecideSeveral) else (meant,)
    return tuple(d.inquiry_id for d in decides if isinstance(d, Decide) and d.verdict is not Verdict.REJECT)
