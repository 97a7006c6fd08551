"""What a person can choose for an inquiry: its verbs, its questions, its editable fields.

Cards draw these choices and replies read them back; both ask here, so they cannot disagree.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from agent_runner.model import PLAN_EDITS, REQUEST_APPROVAL, Inquiry, InquiryState, Kind
from cards import visible
from cards.model import InputKind, Verb

INPUT = "input."
"""Prefix of the names of inputs that edit a field."""
LONGEST_EDIT = 2_000_000
"""Characters of an edited value; generous for a file, small for a worker's memory."""
_LONG = 40
"""Characters from which a text gets an input of several lines."""


def verbs(inquiry: Inquiry) -> tuple[Verb, ...]:
    """What may be done with it in its state, in the order in which it is offered.

    `always` is a grant for one exact call, so there is none for a plan, for a step described in
    words, or where one person's word is not enough. Those by rule are only there if the request
    offers a rule; for a plan it says how to go on: with edits of files not asked about.
    """
    if inquiry.state is InquiryState.EXPIRED:
        return (Verb.ASK_AGAIN,)
    if not inquiry.open:
        return ()
    if inquiry.kind is Kind.QUESTION:
        return (Verb.ANSWER,) if questions(inquiry.tool_input) else ()
    offered = (Verb.APPROVE, Verb.CHANGE, Verb.REJECT)
    if inquiry.kind is Kind.PLAN and inquiry.offer == PLAN_EDITS and inquiry.quorum == 1:
        return (*offered, Verb.ALWAYS_RULE)
    if not is_call(inquiry) or inquiry.quorum != 1:
        return offered
    ruled = (Verb.ALWAYS_RULE,) if inquiry.offer else ()
    return (*offered, Verb.ALWAYS, *ruled, *((Verb.ALWAYS_UNTIL,) if ruled and inquiry.offer_for else ()))


def is_call(inquiry: Inquiry) -> bool:
    """Whether it is about one exact tool call (not a question, a plan, or a step in words)."""
    return inquiry.kind is Kind.APPROVAL and inquiry.tool_name != REQUEST_APPROVAL


class Choice(NamedTuple):
    """One option of a question."""

    label: str
    description: str
    preview: str = ""
    """What choosing it would look like: a sketch, a snippet, in several lines."""


class Asked(NamedTuple):
    """One question of the AskUserQuestion tool."""

    text: str
    header: str
    options: tuple[Choice, ...]
    multiple: bool


def questions(tool_input: Mapping[str, Any]) -> tuple[Asked, ...]:
    """The questions in a tool's input; none at all if any of them is malformed."""
    asked = tool_input.get("questions")
    if not isinstance(asked, list | tuple):
        return ()
    found = [_asked(item) for item in asked]
    return tuple(q for q in found if q) if all(found) else ()


def _asked(item: Any) -> Asked | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("question"), str):
        return None
    options = item.get("options") or ()
    if not isinstance(options, list | tuple):
        return None
    choices = []
    for option in options:
        if not isinstance(option, Mapping) or not isinstance(option.get("label"), str):
            return None
        texts = (str(option.get(name) or "") for name in ("description", "preview"))
        choices.append(Choice(option["label"], *texts))
    header = str(item.get("header") or "")
    return Asked(item["question"], header, tuple(choices), item.get("multiSelect") is True)


class Field(NamedTuple):
    """One field of a tool's input that a person may edit. `value` is its text."""

    name: str
    kind: InputKind
    value: str

    @property
    def input_name(self) -> str:
        """The name of its input on every surface."""
        return INPUT + visible.inline(self.name)

    @property
    def multiline(self) -> bool:
        """Whether its text needs more than one line."""
        wide = len(self.value) > _LONG or "\n" in self.value
        return self.kind is InputKind.JSON or (self.kind is InputKind.TEXT and wide)


class BadField(ValueError):
    """A submitted value cannot be read as what its field takes."""

    def __init__(self, name: str, kind: InputKind) -> None:
        super().__init__(f"{name}: not {kind}")
        self.name = name
        self.kind = kind


def editable_fields(inquiry: Inquiry) -> tuple[Field, ...]:
    """Every top-level field of a tool call's input; nested values as JSON. None for the rest."""
    if not is_call(inquiry):
        return ()
    return tuple(Field(name, *_as_text(value)) for name, value in inquiry.tool_input.items())


def _as_text(value: Any) -> tuple[InputKind, str]:
    if isinstance(value, str):
        return InputKind.TEXT, value
    if isinstance(value, bool):
        return InputKind.BOOLEAN, str(value).lower()
    if isinstance(value, int | float):
        return InputKind.NUMBER, json.dumps(value)
    return InputKind.JSON, pretty(value)


def edited_input(inquiry: Inquiry, values: Mapping[str, str]) -> dict[str, Any]:
    """The whole input with the submitted values (by `Field.input_name`) in it.

    A value that was not touched stays exactly what it was. Raises `BadField` for a value that
    cannot be read and for a name that is no editable field.
    """
    known = {field.input_name: field for field in editable_fields(inquiry)}
    for name in values:
        if name not in known:
            raise BadField(name, InputKind.TEXT)
    edited = dict(inquiry.tool_input)
    for name, value in values.items():
        field = known[name]
        text = _submitted(field, value)
        if text != field.value:
            edited[field.name] = _read(field, text)
    return edited


def _submitted(field: Field, value: str) -> str:
    try:
        text = visible.restore(re.sub(r"\r\n?", "\n", value), longest=max(LONGEST_EDIT, len(field.value)))
        if text != field.value:
            text.encode()  # a lone surrogate that was not there before cannot be stored
    except ValueError:
        raise BadField(field.name, field.kind) from None
    return text


def _read(field: Field, text: str) -> Any:
    if field.kind is InputKind.TEXT:
        return text
    try:
        value = json.loads(text.strip(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadField(field.name, field.kind) from None
    is_bool = isinstance(value, bool)
    is_number = isinstance(value, int | float) and not is_bool and math.isfinite(value)
    fits = {InputKind.BOOLEAN: is_bool, InputKind.NUMBER: is_number, InputKind.JSON: True}
    if not fits[field.kind]:
        raise BadField(field.name, field.kind)
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def pretty(value: Any) -> str:
    """JSON for people: indented, every character of text as it is."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def example(inquiry: Inquiry) -> str:
    """A typed answer that would be understood: `2`, `1,3`, or `1a 2b` for several questions."""
    asked = questions(inquiry.tool_input)
    if len(asked) == 1:
        return "1,2" if asked[0].multiple and len(asked[0].options) > 1 else "1"
    return " ".join(_example(at, question) for at, question in enumerate(asked, 1))


def _example(number: int, question: Asked) -> str:
    if not question.options:
        return f"{number}: …"
    return f"{number}ab" if question.multiple and len(question.options) > 1 else f"{number}a"
