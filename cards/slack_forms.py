"""What people fill in on Slack, and what comes back of it.

Values of buttons and names of inputs carry ids, a revision and places, nothing that was shown.
A `block_id` ends in `@<revision>`: Slack keeps what was typed while it stays the same, and wants
a new one for a new iteration of a message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from cards import text, visible, wording
from cards.model import Button, Input, InputKind, Theirs, Verb
from cards.slack_parts import TEXT, Json, cut, line, plain, rich, run, section, weight, words

TITLE = 24
"""Characters of a view's title and of its two buttons (slack_sdk, models/views)."""
LABEL = 2000
"""Characters of the label of an input (slack_sdk, blocks.py)."""
VIEW_BLOCKS = 100
"""Blocks of a view (slack_sdk, models/views)."""
VIEW_BYTES = 230_000
"""Bytes of what is in a view; Slack refuses views over 250 kB (error `view_too_large` of views.open)."""
PRIVATE = 3000
"""Characters of private_metadata (slack_sdk, models/views)."""
MORE = "more"
"""The action_id of the menu beside the buttons."""
SLOT = "value"
"""The action_id of every input: its name is in the block_id, and each block has one input."""
_NAMED = 20
"""Fields named in the note about what cannot be edited; the rest are counted."""
_NAME = 60
"""Characters of each such name."""
_KEYS = {"v": "verb", "i": "inquiry_id", "t": "task_id", "h": "held_id", "r": "revision", "s": "seen"}


class Pressed(NamedTuple):
    """What a pressed button says: the verb, the one thing it acts on, the revision it showed."""

    verb: Verb
    inquiry_id: str
    task_id: str
    held_id: str
    revision: int
    seen: str = ""
    """What it shows of which step, if it is about a batch."""


def value_of(button: Button) -> str:
    """The value of a button: ids and revision as compact JSON.

    Ids of 32 characters make about 70, below the 150 of a menu's option and the 2000 of a button
    (slack_sdk, basic_components.py and block_elements.py).
    """
    whole = {key: getattr(button, name) for key, name in _KEYS.items()}
    kept = {key: value for key, value in whole.items() if value != "" or key == "r"}
    return json.dumps(kept, separators=(",", ":"))


def read_press(action: Mapping[str, Any]) -> Pressed | None:
    """What one action of a block_actions payload means; None for all that no button of ours sends.

    Never raises, whatever `action` is.
    """
    if not isinstance(action, Mapping):
        return None
    chosen = action.get("selected_option") if action.get("action_id") == MORE else action
    value = chosen.get("value") if isinstance(chosen, Mapping) else None
    if not isinstance(value, str) or len(value) > 2000:
        return None
    try:
        pressed = _pressed(json.loads(value))
    except (ValueError, RecursionError):
        return None
    return pressed if pressed and action.get("action_id") in (MORE, pressed.verb.value) else None


def _pressed(found: Any) -> Pressed | None:
    """Raises `ValueError` for a verb that there is not."""
    if not isinstance(found, dict) or not found.keys() <= _KEYS.keys():
        return None
    ids = [found.get(key, "") for key in "ith"]
    verb, revision = found.get("v"), found.get("r")
    seen = found.get("s", "")
    if not all(isinstance(one, str) for one in (verb, seen, *ids)) or sum(map(bool, ids)) != 1:
        return None
    if type(revision) is not int or revision < 0:  # `True` is an int to isinstance
        return None
    return Pressed(Verb(str(verb)), ids[0], ids[1], ids[2], revision, seen)


def fields_of(values: Mapping[str, Any], names: Mapping[str, str] | None = None) -> dict[str, list[str]]:
    """`state.values` of a message or a view as the fields of `cards.replies.from_form`.

    `names` are those of `form_names`; blocks that it does not name are left out. Without it, the
    names are what stands before the `@` of each block_id. Malformed content is left out.
    """
    fields: dict[str, list[str]] = {}
    for block_id, slots in values.items() if isinstance(values, Mapping) else ():
        name = names.get(block_id) if names is not None else re.sub(r"@[0-9]+$", "", str(block_id))
        slot = slots.get(SLOT) if isinstance(slots, Mapping) else None
        if name and isinstance(slot, Mapping):
            fields[name] = list(_values(slot))
    return fields


def _values(slot: Mapping[str, Any]) -> Iterator[str]:
    if slot.get("type") == "plain_text_input":
        yield str(slot.get("value") or "")  # Slack sends null for what was emptied
        return
    many = slot.get("selected_options")
    chosen = many if isinstance(many, list) else [slot.get("selected_option")]
    for option in chosen:
        if isinstance(option, Mapping) and isinstance(option.get("value"), str):
            yield option["value"]


# Views.


def input_block(block_id: str, label: str, element: Json, *, optional: bool) -> Json:
    """One input with its label, which is never empty."""
    text = plain(label if label.strip() else '""', LABEL)
    return {"type": "input", "block_id": block_id, "label": text, "element": element, "optional": optional}


def modal(button: Button, private: str, lang: str) -> Json:
    """The form of a button: its inputs, prefilled; `private` comes back with it.

    What is too long or too many for it is named there and stays as it is. Raises `ValueError` if
    `private` is longer than 3000 characters.
    """
    shown, left = _fitting(button)
    blocks = [block for _, block in shown]
    if left:
        blocks.insert(len(blocks) - 1, _not_here(left, lang))
    submit = button.submit or button.label
    short = f"slack.submit.{button.verb}"
    if len(submit) > TITLE and wording.has(short):
        submit = wording.text(lang, short)
    view = _view(button.label, blocks or _paragraphs(submit), private, button.verb.value)
    close = plain(wording.text(lang, "slack.close"), TITLE)
    return {**view, "submit": plain(submit, TITLE), "close": close}


def form_names(button: Button) -> dict[str, str]:
    """block_id -> name of the field, for every input that `modal` shows."""
    return {block["block_id"]: field.name for field, block in _fitting(button)[0]}


def _fitting(button: Button) -> tuple[list[tuple[Input, Json]], list[Input]]:
    """The inputs that fit into one view with their blocks, and those that do not.

    The last input (the person's own words) is always there: what cannot be edited can be said.
    """
    blocks = [(field, _field(at, field, button.revision)) for at, field in enumerate(button.inputs)]
    room = VIEW_BYTES - sum(weight(block) for _, block in blocks[-1:])
    shown: list[tuple[Input, Json]] = []
    left: list[Input] = []
    for field, block in blocks[:-1]:
        fits = bool(block) and len(shown) < VIEW_BLOCKS - 2 and weight(block) <= room
        if fits:
            room -= weight(block)
            shown.append((field, block))
        else:
            left.append(field)
    return [*shown, *blocks[-1:]], left


def _field(at: int, field: Input, revision: int) -> Json:
    """The block of one input; a value or a label that is too long for Slack makes it empty."""
    name = f"field.{at}" if field.name.startswith("input.") else field.name
    label = words(field.label)
    element = _element(field)
    if not element or len(label) > LABEL:
        return {}
    block = input_block(f"{name}@{revision}", label, element, optional=not field.required)
    return {**block, "hint": plain(field.hint, LABEL)} if field.hint else block


def _element(field: Input) -> Json:
    if field.input is InputKind.BOOLEAN:
        options = [{"text": plain(value), "value": value} for value in ("true", "false")]
        given = [option for option in options if option["value"] == field.value.raw]
        chosen = {"initial_option": given[0]} if given else {}
        return {"type": "static_select", "action_id": SLOT, "options": options, **chosen}
    value = visible.block(field.value.raw) if field.multiline else visible.inline(field.value.raw)
    if len(value) > TEXT:
        return {}
    initial = {"initial_value": value} if value else {}
    look = {"type": "plain_text_input", "action_id": SLOT, "multiline": field.multiline}
    return {**look, "max_length": TEXT, **initial}


def _not_here(left: list[Input], lang: str) -> Json:
    names = [Theirs(raw=cut(text.raw(field.label), _NAME), code=True) for field in left[:_NAMED]]
    listed = wording.listed(lang, names)
    if len(left) > _NAMED:
        more = wording.text(lang, "slack.more", n=wording.number(lang, len(left) - _NAMED))
        listed = wording.joined([listed, wording.as_line(more)], wording.text(lang, "list.separator"))
    return rich(section(line(wording.line(lang, "slack.not_here", fields=listed))))


def loading(title: str, private: str, text: str) -> Json:
    """The view to open before anything is looked up (a trigger lives 3 s), updated afterwards."""
    return _view(title, _paragraphs(text), private, "loading")


def notice(title: str, text: str) -> Json:
    """A view that only says something."""
    return _view(title, _paragraphs(text), "", "notice")


def _paragraphs(text: str) -> list[Json]:
    return [rich(section(run(text or "…")))]


def _view(title: str, blocks: list[Json], private: str, name: str) -> Json:
    if len(private) > PRIVATE:
        raise ValueError(f"private_metadata of {len(private)} characters")
    return {
        "type": "modal",
        "callback_id": name,
        "title": plain(title, TITLE),
        "private_metadata": private,
        "blocks": blocks,
    }
