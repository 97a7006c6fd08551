"""Forms and buttons of a Feishu card, and what comes back from them.

Names inside a form (unique in the card; an empty or repeated one fails it, error 200530):
`f<n>` an editable field (`form_names` says which), `words` what to change or why not, `a<i>` the
picked options of question i, `o<i>` own words for it; a submit button is named after its verb, that
of one step of a batch after verb and letter (`approve.b`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agent_runner.model import Inquiry
from cards import choices, replies, text, visible, wording
from cards.feishu_text import Component, clipped, div, plain, small
from cards.model import FURTHER, Actions, Button, Card, Input, Option, Question, Questions, Style, Verb

WORDS = "words"
LONGEST = 1_000
"""Characters an input takes (input component: `max_length` 1 to 1000)."""
MOST_FIELDS = 6
"""Editable fields on one card: a form with more is no longer read, and every one repeats its value."""
MOST_BYTES = 6_000
"""UTF-8 bytes of all values to edit, so that they leave room for what is to be read."""
_LONGEST_NAME = 60
_LONGEST_OPTION = 100
"""Characters of an option in its list; the whole label stands above it."""
_LONGEST_BUTTON = 100
"""Characters of a button's text (button component)."""
_OTHER = "other"
_TYPES = {Style.PRIMARY: "primary", Style.DANGER: "danger", Style.PLAIN: "default"}
_IN_FORM = (Verb.APPROVE, Verb.CHANGE, Verb.REJECT)
_SUBMITS = (*_IN_FORM, Verb.ANSWER)
_CONFIRMED = (*FURTHER, Verb.STOP)
_IDS = {"inquiry": "inquiry_id", "task": "task_id", "held": "held_id"}
_LONGEST_ID = 200
_LONGEST_SEEN = 600
_STEP = re.compile(r"\.[a-z]$")
"""The letter of a step behind the verb in the name of a button."""
_FIELD = re.compile(r"([aof])(0|[1-9][0-9]{0,3})")
_FIELDS = {"a": "answer.", "o": "other.", "f": choices.INPUT}
UNKNOWN_REVISION = -1
"""The revision of a press that came without its value: equal to none that is stored."""


class Pressed(NamedTuple):
    """A press of one of our buttons; one of the ids is set, or none if only the name came."""

    verb: Verb
    inquiry_id: str = ""
    task_id: str = ""
    held_id: str = ""
    revision: int = UNKNOWN_REVISION
    seen: str = ""
    """What it shows of which step, if it is about a batch."""


def value_of(button: Button) -> dict[str, Any]:
    """The callback value: verb, revision and the one id that is set; nothing that could be stale."""
    ids = {key: getattr(button, field) for key, field in _IDS.items() if getattr(button, field)}
    seen = {"seen": button.seen} if button.seen else {}
    return {"verb": button.verb.value, **ids, "revision": button.revision, **seen}


def read_press(action: Any) -> Pressed | None:
    """What was pressed, from `event.action`; None if it is not ours, malformed, or contradicts itself.

    A submit that came without its value is read from its name: then no id and no revision are
    known, and the caller has to find the request by the message, or refuse. Never raises.
    """
    if not isinstance(action, Mapping):
        return None
    name, value = action.get("name") or "", action.get("value")
    if not isinstance(name, str):
        return None
    name = _STEP.sub("", name)
    if value is None or value == {}:
        return Pressed(Verb(name)) if name in _SUBMITS else None
    pressed = _from_value(value)
    return pressed if pressed is not None and name in ("", pressed.verb) else None


def _from_value(value: Any) -> Pressed | None:
    if not isinstance(value, Mapping) or not value.keys() <= {"verb", "revision", "seen", *_IDS}:
        return None
    verb, revision = value.get("verb"), value.get("revision")
    ids = {field: value[key] for key, field in _IDS.items() if key in value}
    if not isinstance(verb, str) or verb not in list(Verb) or len(ids) != 1:
        return None
    if not isinstance(revision, int) or isinstance(revision, bool) or revision < 0:
        return None
    if not all(isinstance(i, str) and 0 < len(i) <= _LONGEST_ID for i in ids.values()):
        return None
    seen = value.get("seen", "")
    if not isinstance(seen, str) or len(seen) > _LONGEST_SEEN:
        return None
    return Pressed(Verb(verb), revision=revision, seen=seen, **ids)


def fields_of(
    form_value: Any, verb: Verb | str, names: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """The fields of `cards.replies.from_form`, from `event.action.form_value`. Never raises.

    `names` is `form_names` of the card. The words are the `reason` of a refusal and the
    `conditions` of everything else, approval included: ask back if `says_more`. An edit whose
    field is not known keeps its own name, which `from_form` refuses.
    """
    fields: dict[str, list[str]] = {}
    for name, value in form_value.items() if isinstance(form_value, Mapping) else ():
        field, values = _field_name(name, verb, names or {}), _texts(value)
        if field and values:
            fields[field] = values
    return fields


def _field_name(name: Any, verb: Verb | str, names: Mapping[str, str]) -> str:
    if name == WORDS:
        return "reason" if verb in (Verb.REJECT, Verb.REJECT_ALL) else "conditions"
    match = _FIELD.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        return ""
    if match[1] == "f":
        return names.get(match[0], choices.INPUT + match[0])
    return _FIELDS[match[1]] + match[2]


def _texts(value: Any) -> list[str]:
    found = value if isinstance(value, list | tuple) else [value]
    return [item for item in found if isinstance(item, str)]


def says_more(inquiry: Inquiry, fields: Mapping[str, Sequence[str]]) -> bool:
    """Whether a form holds words or edits, which a plain approval would drop: ask back then."""
    said = replies.from_form(inquiry, Verb.CHANGE, fields)
    return not (isinstance(said, replies.AskBack) and said.code in ("what_change", "what_amount"))


def form_names(card: Card) -> dict[str, str]:
    """Name in the form -> name of the field (`input.<field>`), of the editable fields of a card."""
    buttons = (b for e in card.elements if isinstance(e, Actions) for b in e.buttons)
    return {name: field.name for b in buttons if b.verb is Verb.CHANGE for name, field, _ in _edits(b)}


def _edits(button: Button) -> Iterator[tuple[str, Input, str]]:
    """(name, field, value as shown) of the fields that can be edited on the card."""
    taken = used = 0
    for field in button.inputs:
        shown = visible.block(field.value.raw) if field.multiline else visible.inline(field.value.raw)
        size = len(shown.encode())
        fits = len(shown) <= LONGEST and 0 < len(text.plain(field.label)) <= _LONGEST_NAME
        if field.name.startswith(choices.INPUT) and fits and used + size <= MOST_BYTES:
            yield f"f{taken}", field, shown
            taken, used = taken + 1, used + size
        if taken == MOST_FIELDS:
            return


def actions(element: Actions, lang: str) -> Iterator[Component]:
    """The form with the buttons that take words, then a row of those that do not."""
    inside = [button for button in element.buttons if button.verb in _IN_FORM]
    others = [button for button in element.buttons if button.verb not in _IN_FORM]
    # What a button covers must be readable on it as a whole; else it can still be typed.
    outside = [b for b in others if b.verb not in FURTHER or len(b.label) <= _LONGEST_BUTTON]
    if inside:
        yield form("decision", [*_decision(inside, lang), row(submit(button, lang) for button in inside)])
    if outside:
        yield row(_press(button, lang) for button in outside)


def _decision(buttons: Sequence[Button], lang: str) -> Iterator[Component]:
    for button in buttons:
        if button.verb is Verb.CHANGE:
            for name, field, shown in _edits(button):
                label = text.plain(field.label)
                yield text_input(name, label, value=shown, multiline=field.multiline)
    takes = {button.verb for button in buttons}
    if takes == {Verb.REJECT}:
        yield text_input(WORDS, wording.text(lang, "input.reason"))
    elif takes & {Verb.CHANGE, Verb.REJECT}:
        hint = wording.text(lang, "feishu.words_hint")
        yield text_input(WORDS, wording.text(lang, "feishu.words"), hint=hint)
        more = [field.hint for button in buttons for field in button.inputs if field.hint]
        yield from (small(hint) for hint in more)


def question_form(element: Questions, send: Button, lang: str) -> Component:
    """All questions whole, each with its choices and a place for own words, and one button."""
    parts = [part for question in element.items for part in _question(question)]
    return form("answers", [*parts, row([submit(send, lang)])])


def question_text(question: Question) -> Component:
    """A question with all its choices, whole."""
    header = f"{visible.inline(question.header.raw)}: " if question.header.raw else ""
    asked = f"{question.number}  {header}{visible.inline(question.text.raw)} ({question.note})"
    return div("\n".join([asked, *(line for option in question.options for line in _choosing(option))]))


def _choosing(option: Option) -> Iterator[str]:
    yield f"    {_option(option)}"
    if option.preview.raw:  # each line marked, so that none passes for another option
        yield from (f"        │ {line}" for line in visible.block(option.preview.raw).split("\n"))


def _option(option: Option) -> str:
    more = f" ({visible.inline(option.description.raw)})" if option.description.raw else ""
    return f"{option.mark}  {visible.inline(option.label.raw)}{more}"


def _question(question: Question) -> Iterator[Component]:
    index = question.number - 1
    yield question_text(question)
    if question.options:
        yield _select(question, f"a{index}")
    yield text_input(f"o{index}", question.other)


def _select(question: Question, name: str) -> Component:
    options = [_choice(_option(option), str(at)) for at, option in enumerate(question.options)]
    whole = {"name": name, "width": "fill", "placeholder": plain(question.note)}
    if question.multiple:
        # Here the client would insist on a choice by default; own words are an answer, too.
        return {"tag": "multi_select_static", **whole, "required": False, "options": options}
    # One that was picked cannot be taken back, only replaced: by this, for own words.
    return {"tag": "select_static", **whole, "options": [*options, _choice(question.other, _OTHER)]}


def _choice(label: str, value: str) -> Component:
    return {"text": plain(clipped(label, _LONGEST_OPTION)), "value": value}


def text_input(
    name: str, label: str, *, value: str = "", multiline: bool = True, hint: str = ""
) -> Component:
    """A place for words."""
    whole: Component = {
        "tag": "input",
        "name": name,
        "label": plain(label),
        "label_position": "top",
        "width": "fill",
        "max_length": LONGEST,
        "input_type": "multiline_text" if multiline else "text",
    }
    if multiline:
        whole["rows"] = 2
    if hint:
        whole["placeholder"] = plain(hint)
    return {**whole, "default_value": value} if value else whole


def form(name: str, elements: list[Component]) -> Component:
    """What is sent together."""
    return {"tag": "form", "name": name, "elements": elements}


def row(buttons: Iterable[Component]) -> Component:
    """Buttons beside one another, as many as fit."""
    columns = [{"tag": "column", "width": "auto", "elements": [button]} for button in buttons]
    return {"tag": "column_set", "flex_mode": "flow", "columns": columns}


def submit(button: Button, lang: str, *, before: str = "") -> Component:
    """A button that sends its form; `before` is what stands in front of its label."""
    # Words alone send a call back: "approve with these changes" would say too much.
    changes = button.verb is Verb.CHANGE
    label = wording.text(lang, "feishu.change") if changes else button.submit or button.label
    submits = {"name": button.verb.value, "form_action_type": "submit"}
    return {**_button(button, before + label), **submits}


def _press(button: Button, lang: str) -> Component:
    if button.verb not in _CONFIRMED:
        return _button(button, button.label)
    words = {
        part: plain(wording.text(lang, f"feishu.{button.verb}.{part}", label=button.label))
        for part in ("title", "text")
    }
    return {**_button(button, button.label), "confirm": words}


def _button(button: Button, label: str) -> Component:
    return {
        "tag": "button",
        "type": _TYPES[button.style],
        "text": plain(label),
        "behaviors": [{"type": "callback", "value": value_of(button)}],
    }
