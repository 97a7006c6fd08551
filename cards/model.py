"""What a card is made of: a closed set of elements that every surface can draw.

A card is plain data. Its words are *ours* (from `cards.wording`) or *theirs*: written by the
agent, by a person, or found in a tool's input. The two are different types, so a renderer
cannot mix them up: `Ours.text` is escaped for the surface, `Theirs.raw` goes through
`cards.visible` exactly once and is then escaped for the surface.

Buttons carry a verb, the id of what they act on and the revision they showed, nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, SkipValidation

from agent_runner.model import Actor, Value


class Ours(Value):
    """Words of this program."""

    text: str
    strong: bool = False
    at: AwareDatetime | None = None
    """Set when the words are a time: a surface that knows its reader's zone may write it itself."""
    passing: bool = False
    """Whether it changes by itself as time goes by: no news, so nothing is updated for it alone."""


class Theirs(Value):
    """Untrusted text, exactly as it was received (lone surrogates included)."""

    raw: Annotated[str, SkipValidation]
    code: bool = False
    """Whether it is something a machine reads (a rule, a path, an argument)."""
    actor: Actor | None = None
    """Set when this is a person's name: a surface may link to them."""
    mention: bool = False
    """Whether this person is waited for: a surface may notify them. Only ever set with `actor`."""


Line = tuple[Ours | Theirs, ...]
"""One line of running text."""


class CardState(StrEnum):
    """The colour key of a card. Colour never carries meaning alone: the words say it too."""

    PENDING = "pending"
    APPROVED = "approved"
    CHANGED = "changed"
    REJECTED = "rejected"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    UNKNOWN = "unknown"
    QUEUED = "queued"
    WORKING = "working"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    STUCK = "stuck"


class Verb(StrEnum):
    """Everything a button can mean. `always` is approve for this exact call for this task.

    `always_rule` approves what the offered rule covers for this task, `always_until` for every task
    of the workspace, until a time.
    """

    APPROVE = "approve"
    CHANGE = "change"
    REJECT = "reject"
    ALWAYS = "always"
    ALWAYS_RULE = "always_rule"
    ALWAYS_UNTIL = "always_until"
    ANSWER = "answer"
    APPROVE_ALL = "approve_all"
    """Approve every open step of a batch that was seen as it is stored."""
    REJECT_ALL = "reject_all"
    ASK_AGAIN = "ask_again"
    BREAK_GLASS = "break_glass"
    """Approve alone, in an emergency: only offered to those who are listed for it."""
    STOP = "stop"
    RETRY = "retry"
    DO_NOW = "do_now"
    """Do what an old message asked for (it came while nobody listened)."""
    LEAVE = "leave"
    """Leave it undone."""


FURTHER = (Verb.ALWAYS, Verb.ALWAYS_RULE, Verb.ALWAYS_UNTIL)
"""Approvals that reach further than this call."""
APPROVES = (Verb.APPROVE, *FURTHER)
"""Verbs that let the call run as it was asked."""
TOGETHER = (Verb.APPROVE_ALL, Verb.REJECT_ALL)
"""Verbs about all steps of a batch."""


class Style(StrEnum):
    """How much a button stands out."""

    PRIMARY = "primary"
    PLAIN = "plain"
    DANGER = "danger"


class InputKind(StrEnum):
    """What an input takes. `json` is for values that are no single text, number or yes/no."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    JSON = "json"
    CHECK = "check"
    """A box to tick; it sends `value` when it is ticked."""


class Input(Value):
    """A place for words, prefilled with `value` (theirs). `name` is the contract of `cards.web`."""

    name: str
    """`conditions`, `reason`, or `input.<field>` (the field's name as `visible.inline` shows it)."""
    label: Line
    value: Theirs = Theirs(raw="")
    input: InputKind = InputKind.TEXT
    multiline: bool = True
    required: bool = False
    hint: str = ""
    """How it can be filled in, small."""


class Button(Value):
    """A button. With `inputs`, it opens a form that sends them along with the verb."""

    verb: Verb
    label: str
    revision: int
    inquiry_id: str = ""
    task_id: str = ""
    """For verbs that act on the task (`stop`, `retry`); otherwise empty."""
    held_id: str = ""
    """For verbs that act on a message that was held back (`do_now`, `leave`); otherwise empty."""
    seen: str = ""
    """For verbs about a batch (`inquiry_id` is one of its steps): what is shown of which step."""
    style: Style = Style.PLAIN
    inputs: tuple[Input, ...] = ()
    submit: str = ""
    """The label of the form's own button; empty without `inputs`."""


class Paragraph(Value):
    """A line of running text."""

    kind: Literal["paragraph"] = "paragraph"
    text: Line


class Warn(Value):
    """Something the reader must notice before deciding."""

    kind: Literal["warning"] = "warning"
    code: str
    text: Line


class Code(Value):
    """Text that is shown whole, character for character. `folded`: a surface may fold it."""

    kind: Literal["code"] = "code"
    label: Line
    text: Theirs
    language: str = ""
    folded: bool = False


class Op(StrEnum):
    """What happened to a part of a diff. `gap` stands for unchanged lines left out."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    GAP = "gap"


SIGNS = {Op.SAME: "  ", Op.ADDED: "+ ", Op.REMOVED: "- ", Op.GAP: "  "}
"""What stands before a line of a diff."""
WORD_SIGNS = {Op.SAME: ("", ""), Op.ADDED: ("{+", "+}"), Op.REMOVED: ("[-", "-]"), Op.GAP: ("", "")}
"""What stands around words of one, where there are no colours."""


class Part(Value):
    """One piece of a diff: a line (without its line break) or a run of words."""

    op: Op
    text: Theirs


class Diff(Value):
    """A diff by lines, or, with `by_words`, of one text whose parts follow one another."""

    kind: Literal["diff"] = "diff"
    label: Line
    parts: tuple[Part, ...]
    by_words: bool = False


class Item(Value):
    """One labelled value."""

    label: Line
    value: Line


class Fields(Value):
    """Labelled short values."""

    kind: Literal["fields"] = "fields"
    items: tuple[Item, ...]


class Quote(Value):
    """Somebody's own words, labelled with whose they are. `small`: they are not what counts."""

    kind: Literal["quote"] = "quote"
    label: Line
    text: Theirs
    small: bool = False


class Prose(Value):
    """A longer text in Markdown, written by the agent. Renderers must not let it link or ping."""

    kind: Literal["prose"] = "prose"
    label: Line = ()
    text: Theirs


class Option(Value):
    """One choice of a question. `mark` is what a person types for it: `1`, or `a` of several."""

    mark: str
    label: Theirs
    description: Theirs
    preview: Theirs = Theirs(raw="")
    """What choosing it would look like, in several lines; empty if there is nothing to see."""


class Question(Value):
    """One question with its choices. `number` counts from 1; inputs count from 0."""

    number: int
    header: Theirs
    text: Theirs
    options: tuple[Option, ...]
    multiple: bool
    other: str
    """Label of the place for the person's own words."""
    note: str
    """How many choices may be picked, in words."""


class Questions(Value):
    """All questions of one request; answered together with `send` (None: read only)."""

    kind: Literal["questions"] = "questions"
    items: tuple[Question, ...]
    send: Button | None = None


class Attachment(Value):
    """A text too large for a surface, to be sent as a file (see `cards.compose.attached`)."""

    kind: Literal["attachment"] = "attachment"
    label: Line
    filename: str
    text: Theirs


class Outcome(Value):
    """What became of it: who, when, with what words, and how the run went."""

    kind: Literal["outcome"] = "outcome"
    state: CardState
    text: Line


class Step(Value):
    """Begins one step of a batch: all up to the next one, or to `StepsEnd`, is about it.

    `mark` is the letter a person types for it.
    """

    kind: Literal["step"] = "step"
    mark: str
    number: int
    state: CardState
    text: Line


class StepsEnd(Value):
    """Ends the last step of a batch: what follows is about all of them."""

    kind: Literal["steps_end"] = "steps_end"


class Actions(Value):
    """Buttons."""

    kind: Literal["actions"] = "actions"
    buttons: tuple[Button, ...]


class Hint(Value):
    """How to answer by typing. Surfaces with buttons show it small."""

    kind: Literal["hint"] = "hint"
    text: str

    @property
    def spaced(self) -> str:
        """For surfaces that run blanks together: the ways to answer with a dot between them."""
        return re.sub(r" {2,}", " · ", self.text)


class Footer(Value):
    """One small line."""

    kind: Literal["footer"] = "footer"
    text: Line


Element = Annotated[
    Paragraph
    | Warn
    | Code
    | Diff
    | Fields
    | Quote
    | Prose
    | Questions
    | Attachment
    | Outcome
    | Step
    | StepsEnd
    | Actions
    | Hint
    | Footer,
    Field(discriminator="kind"),
]


class Card(Value):
    """One message: a title, one line that says what, where and who, and the elements in order."""

    lang: str
    state: CardState
    title: Line
    summary: Line = ()
    elements: tuple[Element, ...] = ()
    task_id: str = ""
    inquiry_id: str = ""
    revision: int = 0
    inquiry_ids: tuple[str, ...] = ()
    """Ids of the requests on it, if there are several; then `inquiry_id` is the first of them."""
    numbers: tuple[int, ...] = ()
    """Their numbers."""

    @property
    def about(self) -> tuple[str, ...]:
        """Ids of all requests that it shows."""
        return self.inquiry_ids or ((self.inquiry_id,) if self.inquiry_id else ())

    def settled(self) -> Card:
        """The same card with nothing left to press or to type."""
        kept: list[Any] = []
        for element in self.elements:
            if isinstance(element, Actions | Hint):
                continue
            kept.append(element.having(send=None) if isinstance(element, Questions) else element)
        return self.model_copy(update={"elements": tuple(kept)})

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal characters that differ when the card has something new to say.

        Revisions alone are nothing new, nor is what changes by itself as time goes by.
        """
        text = json.dumps(_news(self.model_dump(mode="python")), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def _news(shown: Any) -> Any:
    """What of a dumped card counts as said."""
    if isinstance(shown, dict):
        if shown.get("passing"):
            return None
        dropped = {"revision", *(("text",) if shown.get("at") else ())}
        return {key: _news(value) for key, value in shown.items() if key not in dropped}
    if isinstance(shown, list | tuple):
        return [_news(item) for item in shown]
    return shown


class Post(Value):
    """One message that should stand in the thread now, and the stored revision it shows."""

    key: str
    """`status`, `request:<number>` (of a batch its lowest number) or `result:<turn>`."""
    revision: int
    card: Card
