"""A sentence that is told to a person, in whatever language they read."""

from __future__ import annotations

from pydantic import Field

from agent_runner.model import Value
from cards import wording


class Reply(Value):
    """What came of words in a thread: a sentence of `cards.wording`, in whatever language."""

    key: str
    details: dict[str, str] = Field(default_factory=dict)
    nested: dict[str, str] = Field(default_factory=dict)
    """Details that are sentences of `cards.wording` themselves: place -> key."""

    def text(self, lang: str) -> str:
        """The sentence, for a person."""
        inner = {place: wording.text(lang, key) for place, key in self.nested.items()}
        return wording.text(lang, self.key, **self.details, **inner)
