"""What a Feishu client does when somebody clicks: finds the control, fills the form, reads the answer.

Pages: containers/form-container and the pages of the interactive components (what the client enforces),
feishu-cards/card-callback-communication (the callback, its answer, and the codes the client shows).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.feishu_cards import CardRefused, Surroundings, elements_of, is_submit, judge
from tests.fakes.feishu_components import INTERACTIVE, LANGUAGES
from tests.fakes.feishu_model import Json, Toast
from tests.fakes.feishu_socket import Ack

REQUIRED = "有必填项未填写"  # input: what the client says; "no request is sent to the developer's server"
DISABLED = "disabled"
TOO_LONG = "too long"
EXPIRED = "older than 14 days"
CODES = {  # card-callback-communication, error codes of the client
    "no callback": 200340,
    "not connected": 200340,
    "late": 200341,
    "unreachable": 200342,
    "dns": 200343,
}


@dataclass(frozen=True)
class ClickResult:
    """What the person saw. `ms` is the wait; `error` the client's code; `blocked` why nothing was sent.

    `card` is the card of the answer, whether or not it stayed (see `Message.updates`).
    """

    toast: Toast | None = None
    card: Json | None = None
    ms: float = 0.0
    error: int | None = None
    blocked: str | None = None
    raw: Json | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and self.blocked is None


class Blocked(Exception):
    """The client sends nothing."""


@dataclass(frozen=True)
class Control:
    """An interactive element, and the form it stands in (None outside)."""

    element: Json
    form: Json | None

    @property
    def value(self) -> Json | None:
        """The callback value of its behaviors."""
        for behavior in self.element.get("behaviors", []):
            if behavior.get("type") == "callback":
                value: Json | None = behavior.get("value")
                return value
        return None


def controls_of(card: Json) -> list[Control]:
    """Every element of the card that a person can use."""
    found: list[Control] = []
    for root in card.get("body", {}).get("elements", []):
        form = root if root.get("tag") == "form" else None
        kinds = INTERACTIVE | {"overflow", "interactive_container"}
        found += [Control(element, form) for element in elements_of(root) if element.get("tag") in kinds]
    return found


def find(card: Json, wanted: str | Mapping[str, Any]) -> Control:
    """The one control with this name, element_id, text or value; a mapping must be contained in its value.

    Raises LookupError, which lists what is there, unless exactly one fits.
    """
    controls = controls_of(card)
    for fits in (_by_name, _by_value, _by_text):
        hits = [control for control in controls if fits(control, wanted)]
        if len(hits) == 1:
            return hits[0]
        if hits:
            break
    there = [(each.element["tag"], each.element.get("name"), each.value, _label(each)) for each in controls]
    raise LookupError(f"{wanted!r} fits {len(hits)} of {there}")


def _by_name(control: Control, wanted: object) -> bool:
    return wanted in (control.element.get("name", ""), control.element.get("element_id", "")) and wanted != ""


def _by_value(control: Control, wanted: object) -> bool:
    value = control.value
    if value is None:
        return False
    if isinstance(wanted, Mapping):
        return wanted.items() <= value.items()
    return wanted in value.values()


def _by_text(control: Control, wanted: object) -> bool:
    return control.element.get("tag") == "button" and wanted == _label(control)


def _label(control: Control) -> str:
    return str(control.element.get("text", {}).get("content", ""))


def action_of(control: Control, form: Mapping[str, Any] | None, choose: object) -> Json:
    """The callback's `action`; raises `Blocked` where the client refuses to send."""
    element = control.element
    if element.get("disabled"):
        raise Blocked(DISABLED)
    action: Json = {"tag": element["tag"], "timezone": "Asia/Shanghai"}
    if control.value is not None:
        action["value"] = control.value
    if control.form is not None:
        return _submit(control, form or {}, action)
    if form:
        raise LookupError("only a form's button takes form values")
    if element["tag"] == "input":
        action["input_value"] = _typed(element, str(choose or ""))
    elif element["tag"] == "checker":
        if control.value is None:
            raise Blocked("a checker without behaviors is local only")
        action["checked"] = bool(choose)
    elif element["tag"] == "select_static":
        action["option"] = _chosen(element, choose)
    elif element["tag"] == "button" and control.value is None and element.get("behaviors"):
        raise Blocked("a button that only opens a link")
    return action


def _submit(control: Control, form: Mapping[str, Any], action: Json) -> Json:
    assert control.form is not None
    if not is_submit(control.element):
        raise Blocked("not a submit button")
    fields = {
        element["name"]: element
        for element in elements_of(control.form.get("elements"))
        if element["tag"] in INTERACTIVE and element["tag"] != "button"
    }
    if unknown := form.keys() - fields.keys():
        raise LookupError(f"the form has {sorted(fields)}, not {sorted(unknown)}")
    values = {name: _filled(element, form.get(name)) for name, element in fields.items()}
    for name, element in fields.items():
        # multi-select: required is true unless it says otherwise; all others: false
        needed = element.get("required", element["tag"] == "multi_select_static")
        if needed and values[name] in (None, "", [], False):
            raise Blocked(REQUIRED)
    shown = {
        name: value for name, value in values.items() if value is not None
    }  # an open select: [not documented]
    return {**action, "name": control.element["name"], "form_value": shown}


def _filled(element: Json, given: Any) -> Any:
    tag = element["tag"]
    if given is not None and element.get("disabled"):
        raise LookupError(f"{element['name']} is disabled")
    if tag == "input":
        return _typed(element, element.get("default_value", "") if given is None else given)
    if tag == "checker":
        return bool(element.get("checked", False) if given is None else given)
    if tag == "multi_select_static":
        chosen = element.get("selected_values", []) if given is None else list(given)
        return [_chosen(element, value) for value in chosen]
    if tag == "select_static":
        return _initial(element) if given is None else _chosen(element, given)
    return given


def _typed(element: Json, text: str) -> str:
    if len(text) > element.get("max_length", 1_000):  # input: "the component reports an error"
        raise Blocked(TOO_LONG)
    if "\n" in text and element.get("input_type", "text") != "multiline_text":
        raise LookupError("a line break fits only into multiline_text")
    return text


def _chosen(element: Json, value: object) -> str:
    values = [str(option["value"]) for option in element.get("options", [])]
    if value not in values:
        raise LookupError(f"{value!r} is none of {values}")
    return str(value)


def _initial(element: Json) -> str | None:
    options = element.get("options", [])
    for option in options:
        shown = option["text"].get("content")
        if element.get("initial_option") and element["initial_option"] in (shown, option["value"]):
            return str(option["value"])
    index = element.get("initial_index", 0)
    return str(options[index - 1]["value"]) if index else None


def read_answer(ack: Ack, around: Surroundings) -> tuple[int | None, Json | None]:
    """The error the client shows (None: none), and the answer's JSON."""
    if not ack.ok:
        return CODES.get(ack.why, 200671), None
    try:
        answer = json.loads(ack.body or b"")
        _check(answer)
    except (ValueError, TypeError):
        return 200672, None
    card = answer.get("card")
    if card is None:
        return None, answer
    if card["type"] == "raw" and isinstance(card["data"], dict) and card["data"].get("schema") != "2.0":
        return 200830, answer
    try:
        if card["type"] != "raw":
            raise CardRefused(200621, "this fake has no templates")
        if len(json.dumps(card["data"], ensure_ascii=False).encode()) > 30 * 1024:
            raise CardRefused(200621, "card is larger than 30 KB")
        judge(card["data"], around)
    except CardRefused:
        return 200673, answer
    return None, answer


def _check(answer: Any) -> None:
    """Raises ValueError unless the answer has exactly the documented shape."""
    if not isinstance(answer, dict) or not answer.keys() <= {"toast", "card"}:
        raise ValueError("unknown property")
    toast, card = answer.get("toast"), answer.get("card")
    if "toast" in answer:
        if not isinstance(toast, dict) or not toast.keys() <= {"type", "content", "i18n"}:
            raise ValueError("toast")
        if toast.get("type", "info") not in ("info", "success", "error", "warning"):
            raise ValueError("toast type")
        i18n = toast.get("i18n", {})
        if (
            not isinstance(toast.get("content", ""), str)
            or not isinstance(i18n, dict)
            or not i18n.keys() <= LANGUAGES
        ):
            raise ValueError("toast text")
    if "card" in answer and (not isinstance(card, dict) or card.keys() != {"type", "data"}):
        raise ValueError("card")
    if card is not None and (card["type"] not in ("raw", "template") or not isinstance(card["data"], dict)):
        raise ValueError("card data")  # an object, never a JSON string
