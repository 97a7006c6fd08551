"""What to say to a person about what they did: sentences of `cards.wording`, in whatever language."""

from __future__ import annotations

from pydantic import Field

from agent_runner.model import Inquiry, Value, Verdict
from agent_runner.policy import counted
from cards import wording


class Reply(Value):
    """What came of words in a thread: a sentence of `cards.wording`, in whatever language."""

    key: str
    details: dict[str, str] = Field(default_factory=dict)
    nested: dict[str, str] = Field(default_factory=dict)
    """Details that are sentences of `cards.wording` themselves: place -> key."""
    more: tuple[Reply, ...] = ()
    """Sentences that follow it."""

    def text(self, lang: str) -> str:
        """The sentence, for a person."""
        inner = {place: wording.text(lang, key) for place, key in self.nested.items()}
        said = wording.text(lang, self.key, **self.details, **inner)
        return "\n".join([said, *(reply.text(lang) for reply in self.more)])


OVERHEARD = Reply(key="reply.overheard")
"""Words between people: nothing was done with them, and nobody needs to be told."""


def decided(inquiry: Inquiry, verdict: Verdict) -> Reply:
    """What to say to a person whose verdict was recorded."""
    number = str(inquiry.number)
    if inquiry.open and verdict is Verdict.REJECT:
        return Reply(key="reply.voted_no", details={"number": number})
    if inquiry.open:
        got = len(counted(inquiry.votes, verdict))
        details = {"number": number, "got": str(got), "needed": str(inquiry.quorum)}
        return Reply(key="reply.voted", details=details)
    return Reply(
        key="reply.decided", details={"number": number}, nested={"what": verdict_key(inquiry, verdict)}
    )


def verdict_key(inquiry: Inquiry, verdict: Verdict) -> str:
    """The words for a verdict that was recorded on this request."""
    limited = inquiry.decision is not None and inquiry.decision.limits
    return "verdict.limits" if limited else f"verdict.{verdict}"
