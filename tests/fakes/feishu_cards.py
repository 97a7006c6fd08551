"""Judges card JSON 2.0 by the official documentation, and nothing else.

Pages (open.feishu.cn/document/feishu-cards/...): card-json-v2-structure, card-json-v2-breaking-changes-
release-notes, card-json-v2-components/{containers,content-components,interactive-components}/*,
configure-multi-language-content; sub-codes: server-docs/im-v1/message/create, table "230099".
"In JSON 2.0 a property that is not supported is an error" (breaking changes), so every component has the
closed list of properties of its own page. Some samples on those pages have more (`value` and `fallback` of a
button, `fields` of a div); the tables do not, so that is refused. Where a page only says that more is "not
shown", the card is refused too: nothing may go missing silently. What no page says is marked so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.feishu_components import COMPONENTS, INTERACTIVE, REQUIRED, ROOT, Check
from tests.fakes.feishu_markdown import Mention

MAX_ELEMENTS = 200  # card-json-v2-structure: "at most 200 elements (such as plain_text) or components"
MAX_LEVELS = 5  # card FAQ, sending cards 2: "components nest at most five levels"
MAX_TABLES = 5  # components/table: "a card holds at most five tables"
PARSE_ERROR = 200621
UNSUPPORTED_TAG = 200861
BAD_NAME = 200530
LIMIT = 11310
BAD_PERSON = 100290
BAD_IMAGE = 200570


class CardRefused(Exception):
    """The card fails; `sub_code` is the code inside a 230099, `path` where in the card."""

    def __init__(self, sub_code: int, reason: str, path: str = "ROOT", value: object = "") -> None:
        super().__init__(f"{sub_code} at {path}: {reason} ({value!r})")
        self.sub_code = sub_code
        self.ext = (
            f"Failed to create card content, ext=ErrCode: {sub_code}; ErrPath: {path}; "
            f"ErrMsg: {reason}; ErrorValue: {value}"
        )


@dataclass(frozen=True)
class Surroundings:
    """What a card may refer to: people by any id or email, uploaded pictures, and @all if it is allowed."""

    knows_person: Callable[[str], bool] = lambda _id: False
    knows_image: Callable[[str], bool] = lambda _key: False
    at_all: bool = False


@dataclass
class Walk:
    """One pass over one card: where it is and what it has met."""

    around: Surroundings
    inside: tuple[str, ...] = ()
    elements: int = 0
    tables: int = 0
    names: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    mentions: list[Mention] = field(default_factory=list)

    def refuse(self, path: str, reason: str, value: object = "", code: int = PARSE_ERROR) -> None:
        """Ends the pass: the card is not accepted."""
        raise CardRefused(code, reason, path, value)

    def fields(self, value: object, path: str, known: Mapping[str, Check]) -> dict[str, Any]:
        """Checks an object against its closed list of properties."""
        if not isinstance(value, dict):
            raise CardRefused(PARSE_ERROR, "parse card json err, an object is needed", path, value)
        if "tag" in value:
            self.elements += 1
        for key, item in value.items():
            if key not in known:
                self.refuse(f"{path} -> {key}", f"parse card json err, unknown property, {key}", key)
            known[key](self, item, f"{path} -> {key}")
        return value

    def component(self, value: object, path: str, only: str = "") -> None:
        """Checks a component, and everything inside it."""
        tag = value.get("tag") if isinstance(value, dict) else None
        known = COMPONENTS.get(str(tag))
        if known is None or (only and tag != only) or (tag == "column") != (only == "column"):
            message = "cards of schema V2 no longer support this capability"
            raise CardRefused(UNSUPPORTED_TAG, message, path, f"unsupported tag {tag}")
        outer, self.inside = self.inside, (*self.inside, str(tag))
        # A column is part of its column_set: a sample of interactive-container is right only if so counted.
        levels = len([each for each in self.inside if each != "column"])
        if levels > MAX_LEVELS:  # the limit is documented, its code is not
            self.refuse(path, "component nesting exceeds the limit", levels, LIMIT)
        element = self.fields(value, path, known)
        needed = REQUIRED.get(str(tag), ())
        if needed and not element.keys() & set(needed):
            self.refuse(path, f"parse card json err, {needed[0]} is required", tag)
        _rules(self, str(tag), element, path)
        self.inside = outer

    def name(self, value: object, path: str) -> None:
        """A name is a non-empty string and unique in the whole card (form-container)."""
        if not isinstance(value, str) or not value or value in self.names:
            self.refuse(path, "name is empty or used twice", value, BAD_NAME)
        self.names.add(str(value))


@dataclass(frozen=True)
class Judged:
    """What an accepted card does: whom it mentions, and how large it is."""

    mentions: tuple[Mention, ...]
    elements: int


def judge(card: object, around: Surroundings) -> Judged:
    """Accepts the card or raises `CardRefused`."""
    if not isinstance(card, dict):
        raise CardRefused(PARSE_ERROR, "parse card json err, please check whether the card json is correct")
    if card.get("schema") != "2.0":
        raise CardRefused(
            PARSE_ERROR, "this fake takes schema 2.0 only", "ROOT -> schema", card.get("schema")
        )
    walk = Walk(around)
    walk.fields(card, "ROOT", ROOT)
    if walk.elements > MAX_ELEMENTS:
        walk.refuse("ROOT", "element exceeds the limit", walk.elements, LIMIT)
    return Judged(tuple(walk.mentions), walk.elements)


def _rules(walk: Walk, tag: str, element: dict[str, Any], path: str) -> None:
    """The rules between properties and about places; every line names its page."""
    in_form = "form" in walk.inside[:-1]
    if tag in ("form", "table") and len(walk.inside) > 1:  # form-container, table: "only at the card's root"
        walk.refuse(path, f"{tag} is only allowed at the root", tag)
    if tag == "table":
        walk.tables += 1
        if walk.tables > MAX_TABLES:
            walk.refuse(path, "card table number over limit", walk.tables, LIMIT)
    if tag == "form":
        _form(walk, element, path)
    elif in_form:
        _inside_a_form(walk, tag, element, path)
    else:
        _outside_a_form(walk, tag, element, path)
    _choices(walk, element, path)


def _inside_a_form(walk: Walk, tag: str, element: dict[str, Any], path: str) -> None:
    if tag == "chart":  # form-container: "no table, chart or form inside"
        walk.refuse(path, "a chart is not allowed in a form", tag)
    if tag in INTERACTIVE and "name" not in element:  # form-container: "otherwise sending fails"
        walk.refuse(path, "name of an interactive component in a form is empty", tag, BAD_NAME)
    if tag == "button" and not {"form_action_type", "action_type"} & element.keys():
        # form-container: form_action_type is required, action_type its historic form
        walk.refuse(path, "a button in a form needs form_action_type", element.get("name"))


def _outside_a_form(walk: Walk, tag: str, element: dict[str, Any], path: str) -> None:
    if tag == "multi_select_static":  # multi-select: "only inside a form"
        walk.refuse(path, "multi_select_static is only allowed in a form", tag)
    if "required" in element:  # input, select: "in other cases an error or without effect"
        walk.refuse(path, "required is only allowed in a form", element["required"])
    if tag == "button" and {"name", "form_action_type", "action_type"} & element.keys():
        # button: name and form_action_type are added "for buttons inside a form container"
        walk.refuse(path, "name and form_action_type are only allowed in a form", element.get("name"))


def _form(walk: Walk, element: dict[str, Any], path: str) -> None:
    if "name" not in element:
        walk.refuse(path, "name of a form is empty", "", BAD_NAME)
    submits = [button for button in buttons_of(element) if is_submit(button)]
    if not submits:  # form-container: "must contain a button that submits"
        walk.refuse(path, "a form needs a submit button", element.get("name"))


def _choices(walk: Walk, element: dict[str, Any], path: str) -> None:
    options = element.get("options")
    if not isinstance(options, list):
        return
    values = [option.get("value") for option in options]
    if len(set(values)) != len(values):  # single-select: "values must not repeat, or the client misbehaves"
        walk.refuse(f"{path} -> options", "option values repeat", values)
    for value in element.get("selected_values", []):  # multi-select: "must be one of options.value"
        if value not in values:
            walk.refuse(f"{path} -> selected_values", "is no option", value)
    index = element.get("initial_index", 0)  # single-select: 0 shows none, 1 the first
    if not 0 <= index <= len(options):
        walk.refuse(f"{path} -> initial_index", "is no option", index)


def is_submit(button: Mapping[str, Any]) -> bool:
    """Whether a button submits its form, in today's or in the historic property."""
    return button.get("form_action_type") == "submit" or button.get("action_type") == "form_submit"


def buttons_of(part: object) -> list[dict[str, Any]]:
    """The buttons in a part of a card."""
    return [element for element in elements_of(part) if element.get("tag") == "button"]


def elements_of(part: object) -> Iterator[dict[str, Any]]:
    """Every object with a tag in a part of a card, outermost first."""
    if isinstance(part, dict):
        if "tag" in part:
            yield part
        for item in part.values():
            yield from elements_of(item)
    elif isinstance(part, list):
        for item in part:
            yield from elements_of(item)
