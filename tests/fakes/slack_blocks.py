"""What Slack refuses in blocks and views, and whom a text would notify: written from its documentation.

Sources, named in the comments below: [blocks] [elements] [objects] are the pages under
docs.slack.dev/reference/block-kit/{blocks,block-elements,composition-objects}, [views] is
docs.slack.dev/reference/views, [types] the `@slack/types` reference there, [format] its page
messaging/formatting-message-text; A1, A6 are the numbered parts of our facts about Slack.
A type that stands nowhere in these tables is refused, and so is a field its page does not list.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

Json = dict[str, Any]
Surface = Literal["message", "modal", "home"]
Check = Callable[[Any, str, "Report"], None]
Rule = Callable[[Json, str, "Report"], None]

MESSAGE_BLOCKS = 50  # [blocks]: "up to 50 blocks in each message, and 100 blocks in modals or Home tabs"
VIEW_BLOCKS = 100
MARKDOWN_TOTAL = 12_000  # [blocks] markdown: cumulative over all markdown blocks of one payload
ID_LENGTH = 255  # [blocks] block_id, [elements] action_id, [views] callback_id and external_id


class Report:
    """Collects what is wrong, in the words of `response_metadata.messages`."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def add(self, pointer: str, problem: str) -> None:
        self.errors.append(f"[ERROR] {problem} [json-pointer:{pointer}]")


# ---- small checks, and ways to put them together


def string(most: int, *, least: int = 1, among: Sequence[str] = ()) -> Check:
    """A string of `least` to `most` characters, or one of `among`."""

    def check(value: Any, at: str, report: Report) -> None:
        if not isinstance(value, str):
            report.add(at, "must provide a string")
        elif among and value not in among:
            report.add(at, f"must be a valid enum value: {value}")
        elif len(value) > most:
            report.add(at, f"must be less than {most + 1} characters")
        elif len(value) < least:
            report.add(at, f"must be more than {least - 1} characters")

    return check


def one_of(*words: str) -> Check:
    """One of `words`."""
    return string(100, among=words)


def boolean(value: Any, at: str, report: Report) -> None:
    """True or false, and no other value."""
    if not isinstance(value, bool):
        report.add(at, "must provide a boolean")


def whole(least: int, most: int = 2**53) -> Check:
    """A whole number in the range, both ends included."""

    def check(value: Any, at: str, report: Report) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            report.add(at, f"must be an integer from {least} to {most}")

    return check


def array(item: Check, least: int, most: int = 10_000) -> Check:
    """A list of `least` to `most` items, each of which `item` checks."""

    def check(value: Any, at: str, report: Report) -> None:
        if not isinstance(value, list):
            report.add(at, "must provide an array")
            return
        if len(value) > most:
            report.add(at, f"no more than {most} items allowed")
        if len(value) < least:
            report.add(at, f"no fewer than {least} items required")
        for index, one in enumerate(value):
            item(one, f"{at}/{index}", report)

    return check


def shape(
    needed: Mapping[str, Check], may: Mapping[str, Check] | None = None, *rules: Rule, typed: bool = True
) -> Check:
    """An object with the `needed` fields, perhaps those it `may` have, and no others."""
    known = {**needed, **(may or {})}

    def check(value: Any, at: str, report: Report) -> None:
        if not isinstance(value, dict):
            report.add(at, "must provide an object")
            return
        for name in needed:
            if name not in value:
                report.add(at, f"missing required field: {name}")
        for name, inner in value.items():
            if name in known:
                known[name](inner, f"{at}/{name}", report)
            elif not (typed and name == "type"):
                report.add(f"{at}/{name}", f"invalid additional property: {name}")
        for rule in rules:
            rule(value, at, report)

    return check


def by_type(table: Callable[[], Mapping[str, Check]], *only: str) -> Check:
    """The check of the value's own `type`; `only` narrows the table to what this parent takes."""

    def check(value: Any, at: str, report: Report) -> None:
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in table() or (only and kind not in only):
            report.add(f"{at}/type", f"unsupported type: {kind}")
            return
        table()[kind](value, at, report)

    return check


def exactly_one(*names: str) -> Rule:
    """One of these fields, not more."""

    def rule(value: Json, at: str, report: Report) -> None:
        if sum(name in value for name in names) != 1:
            report.add(at, f"must have exactly one of: {', '.join(names)}")

    return rule


def at_least_one(*names: str) -> Rule:
    """One of these fields or more."""

    def rule(value: Json, at: str, report: Report) -> None:
        if not any(name in value for name in names):
            report.add(at, f"must have at least one of: {', '.join(names)}")

    return rule


# ---- composition objects [objects]


def text(most: int, *kinds: str, least: int = 1) -> Check:
    """A text object; `emoji` belongs to plain_text only and `verbatim` to mrkdwn only [objects: text]."""
    body = {"text": string(most, least=least)}
    table = {"plain_text": shape(body, {"emoji": boolean}), "mrkdwn": shape(body, {"verbatim": boolean})}
    return by_type(lambda: table, *(kinds or ("plain_text",)))


BOTH = ("plain_text", "mrkdwn")
PLACEHOLDER = text(150)  # [elements], every element that has one
ACTION_ID = string(ID_LENGTH)

CONFIRM = shape(  # [objects: confirmation dialog]; `text` is a text object of either kind
    {"title": text(100), "text": text(300, *BOTH), "confirm": text(30), "deny": text(30)},
    {"style": one_of("primary", "danger")},
    typed=False,
)


def option(*kinds: str, url: bool = False) -> Check:
    """An option: text 75, value 150, description 75 [objects: option, A1]; `url` only in an overflow menu."""
    more = {"url": string(3000)} if url else {}
    return shape(
        {"text": text(75, *kinds), "value": string(150)},
        {"description": text(75, *kinds), **more},
        typed=False,
    )


OPTION_GROUP = shape({"label": text(75), "options": array(option(), 1, 100)}, typed=False)
DISPATCH = shape(  # [objects: dispatch action configuration]
    {"trigger_actions_on": array(one_of("on_enter_pressed", "on_character_entered"), 1, 2)}, typed=False
)
SLACK_FILE = shape({}, {"id": string(100), "url": string(3000)}, exactly_one("id", "url"), typed=False)


# ---- elements [elements]


def initials_are_options(value: Json, at: str, report: Report) -> None:
    """[elements]: an initial option "exactly matches one of the options"."""
    groups = value.get("option_groups")
    listed = value.get("options") or [o for g in groups or [] for o in g.get("options", [])]
    one, several = value.get("initial_option"), value.get("initial_options", [])
    for initial in [*([one] if one is not None else []), *(several if isinstance(several, list) else [])]:
        if initial not in listed:
            report.add(at, "initial option must match one of the options")


def lengths_in_order(value: Json, at: str, report: Report) -> None:
    """[elements: plain-text input]: min is not above max, and the initial value fits."""
    low, high = value.get("min_length", 0), value.get("max_length", 3000)
    if isinstance(low, int) and isinstance(high, int) and low > high:
        report.add(at, "min_length must not be more than max_length")
    start = value.get("initial_value")
    if isinstance(start, str) and isinstance(high, int) and len(start) > high:
        report.add(f"{at}/initial_value", f"must be less than {high + 1} characters")


def choice(needed: Mapping[str, Check], may: Mapping[str, Check] | None = None, *rules: Rule) -> Check:
    """An element a person picks from: what all of them have, and its own."""
    common = {"action_id": ACTION_ID, "confirm": CONFIRM, "focus_on_load": boolean}
    return shape(needed, {**common, **(may or {})}, *rules)


def typed_in(may: Mapping[str, Check], *rules: Rule, needed: Mapping[str, Check] | None = None) -> Check:
    """An element a person types into."""
    common = {"action_id": ACTION_ID, "dispatch_action_config": DISPATCH, "focus_on_load": boolean}
    return shape(needed or {}, {**common, "placeholder": PLACEHOLDER, **may}, *rules)


def menus() -> dict[str, Check]:
    """Select and multi-select menus of every source [elements: select menu, multi-select menu]."""
    listed = {"options": array(option(), 1, 100), "option_groups": array(OPTION_GROUP, 1, 100)}
    either = (exactly_one("options", "option_groups"), initials_are_options)
    hold, many = {"placeholder": PLACEHOLDER}, {"max_selected_items": whole(1)}
    answers, query = {"response_url_enabled": boolean}, {"min_query_length": whole(0)}
    of_conversations = {
        "default_to_current_conversation": boolean,
        "filter": shape(
            {},
            {
                "include": array(one_of("im", "mpim", "private", "public"), 1),
                "exclude_external_shared_channels": boolean,
                "exclude_bot_users": boolean,
            },
            typed=False,
        ),
    }
    name, names = string(100), array(string(100), 1)
    return {
        "static_select": choice({}, {**hold, **listed, "initial_option": option()}, *either),
        "multi_static_select": choice(
            {}, {**hold, **many, **listed, "initial_options": array(option(), 1, 100)}, *either
        ),
        "external_select": choice({}, {**hold, **query, "initial_option": option()}),
        "multi_external_select": choice({}, {**hold, **many, **query, "initial_options": array(option(), 1)}),
        "users_select": choice({}, {**hold, "initial_user": name}),
        "multi_users_select": choice({}, {**hold, **many, "initial_users": names}),
        "conversations_select": choice(
            {}, {**hold, **answers, **of_conversations, "initial_conversation": name}
        ),
        "multi_conversations_select": choice(
            {}, {**hold, **many, **of_conversations, "initial_conversations": names}
        ),
        "channels_select": choice({}, {**hold, **answers, "initial_channel": name}),
        "multi_channels_select": choice({}, {**hold, **many, "initial_channels": names}),
    }


BUTTON_LABELS: Mapping[str, Check] = {"action_id": ACTION_ID, "accessibility_label": string(75)}
STYLE = one_of("primary", "danger")
FEEDBACK = shape(
    {"text": text(75), "value": string(2000)}, {"accessibility_label": string(75)}, typed=False
)  # [elements: feedback buttons]
RICH_OPTIONS = array(option(*BOTH), 1, 10)  # [elements: checkboxes, radio buttons]: 10, text may be mrkdwn
PICTURE: Mapping[str, Check] = {"image_url": string(3000), "slack_file": SLACK_FILE}
PICTURE_SOURCE = exactly_one("image_url", "slack_file")

ELEMENTS: dict[str, Check] = {
    "button": shape(
        {"text": text(75)},  # [elements: button]: plain_text, 75
        {
            **BUTTON_LABELS,
            "url": string(3000),
            "value": string(2000),  # A1
            "style": STYLE,
            "confirm": CONFIRM,
            "agent_prompt": string(4000),
            "agent_prompt_display": one_of("visible", "hidden"),
            "visible_to_user_ids": array(string(100), 1, 10),
        },
    ),
    "workflow_button": shape(
        {"text": text(75), "workflow": shape({"trigger": lambda *_: None}, typed=False)},
        {**BUTTON_LABELS, "style": STYLE},
    ),
    "icon_button": shape(
        {"icon": one_of("trash"), "text": text(75)},
        {
            **BUTTON_LABELS,
            "value": string(2000),
            "confirm": CONFIRM,
            "visible_to_user_ids": array(string(100), 1, 10),
        },
    ),
    "feedback_buttons": shape(
        {"positive_button": FEEDBACK, "negative_button": FEEDBACK}, {"action_id": ACTION_ID}
    ),
    "image": shape({"alt_text": string(2000)}, PICTURE, PICTURE_SOURCE),
    "overflow": shape(  # [elements: overflow]: up to 5 options, plain_text
        {"options": array(option(url=True), 1, 5)}, {"action_id": ACTION_ID, "confirm": CONFIRM}
    ),
    "checkboxes": choice({"options": RICH_OPTIONS}, {"initial_options": RICH_OPTIONS}, initials_are_options),
    "radio_buttons": choice(
        {"options": RICH_OPTIONS}, {"initial_option": option(*BOTH)}, initials_are_options
    ),
    "datepicker": choice({}, {"initial_date": string(10, least=10), "placeholder": PLACEHOLDER}),
    "timepicker": choice(
        {}, {"initial_time": string(5, least=5), "placeholder": PLACEHOLDER, "timezone": string(100)}
    ),
    "datetimepicker": choice({}, {"initial_date_time": whole(10**9, 10**10)}),
    "plain_text_input": typed_in(  # [elements: plain-text input], A1
        {
            "initial_value": string(3000, least=0),
            "multiline": boolean,
            "min_length": whole(0, 3000),
            "max_length": whole(1, 3000),
        },
        lengths_in_order,
    ),
    "email_text_input": typed_in({"initial_value": string(3000)}),
    "url_text_input": typed_in({"initial_value": string(3000)}),
    "number_input": typed_in(
        {"initial_value": string(100), "min_value": string(100), "max_value": string(100)},
        needed={"is_decimal_allowed": boolean},
    ),
    "rich_text_input": typed_in(
        {"initial_value": lambda *_: None, "min_lines": whole(1, 100), "max_lines": whole(1, 100)}
    ),
    "file_input": shape(
        {}, {"action_id": ACTION_ID, "filetypes": array(string(20), 1), "max_files": whole(1, 10)}
    ),
    **menus(),
}
SINGLE_MENUS = tuple(name for name in menus() if not name.startswith("multi_"))
PICKERS = ("datepicker", "timepicker", "datetimepicker", "radio_buttons", "checkboxes")
IN_ACTIONS = ("button", "workflow_button", "overflow", *PICKERS, *SINGLE_MENUS)
IN_SECTION = ("button", "workflow_button", "image", "overflow", *PICKERS, *menus())
IN_INPUT = (
    *("plain_text_input", "email_text_input", "url_text_input", "number_input", "rich_text_input"),
    *("file_input", *PICKERS, *menus()),
)
STATEFUL = frozenset(IN_INPUT)  # what `state.values` holds: no buttons, no overflow menu


def elements(*only: str) -> Check:
    """An element of one of these types."""
    return by_type(lambda: ELEMENTS, *only)


# ---- rich text [blocks: rich text block], [types: RichText*]

# [types: RichTextStyleable]: every inline element takes a style
STYLES = ("bold", "italic", "strike", "code", "underline", "highlight", "client_highlight", "unlink")
STYLED: Mapping[str, Check] = {"style": shape({}, dict.fromkeys(STYLES, boolean), typed=False)}
LONG = string(100_000)  # no limit of its own is documented: the whole message has one
INLINE: dict[str, Check] = {
    "text": shape({"text": LONG}, STYLED),
    "link": shape({"url": string(3000)}, {"text": LONG, "unsafe": boolean, **STYLED}),
    "user": shape({"user_id": string(50)}, STYLED),
    "usergroup": shape({"usergroup_id": string(50)}, STYLED),
    "channel": shape({"channel_id": string(50)}, STYLED),
    "team": shape({"team_id": string(50)}, STYLED),
    "emoji": shape({"name": string(100)}, {"unicode": string(100), "url": string(3000), **STYLED}),
    "date": shape(
        {"timestamp": whole(0), "format": string(200)},
        {"url": string(3000), "fallback": string(500), **STYLED},
    ),
    "broadcast": shape({"range": one_of("here", "channel", "everyone")}, STYLED),
    "color": shape({"value": string(20)}, STYLED),
}
BORDER = whole(0, 1)
INLINES = array(by_type(lambda: INLINE), 1)
RICH_SECTION = shape({"elements": INLINES})
RICH: dict[str, Check] = {
    "rich_text_section": RICH_SECTION,
    "rich_text_list": shape(
        {
            "style": one_of("bullet", "ordered"),
            "elements": array(by_type(lambda: RICH, "rich_text_section"), 1),
        },
        {"indent": whole(0, 8), "offset": whole(0), "border": BORDER},
    ),
    # [types: RichTextPreformatted]: only text and links inside
    "rich_text_preformatted": shape(
        {"elements": array(by_type(lambda: INLINE, "text", "link"), 1)}, {"border": BORDER}
    ),
    "rich_text_quote": shape({"elements": INLINES}, {"border": BORDER}),
}


# ---- blocks [blocks]

BLOCK_ID: Mapping[str, Check] = {"block_id": string(ID_LENGTH)}


def block(needed: Mapping[str, Check], may: Mapping[str, Check] | None = None, *rules: Rule) -> Check:
    """A block: every one may have a block_id."""
    return shape(needed, {**BLOCK_ID, **(may or {})}, *rules)


def collapsed_needs_collapsible(value: Json, at: str, report: Report) -> None:
    """[blocks: container]: default_collapsed "requires is_collapsible to be true"."""
    if value.get("default_collapsed") and not value.get("is_collapsible"):
        report.add(f"{at}/default_collapsed", "requires is_collapsible")


ICON = elements("image")
CARD = block(
    {},
    {
        "hero_image": ICON,
        "icon": ICON,
        "title": text(150, *BOTH),
        "subtitle": text(150, *BOTH),
        "body": text(200, *BOTH),
        "actions": array(elements("button"), 1, 3),
    },
    at_least_one("hero_image", "title", "actions", "body"),
)
CELL: dict[str, Check] = {
    "raw_text": shape({"text": string(3000, least=0)}),
    "raw_number": shape({"value": lambda *_: None}, {"text": string(3000)}),
    "rich_text": shape({"elements": array(by_type(lambda: RICH), 1)}),
}
TASK = block(
    {"task_id": string(255), "title": string(3000)},
    {
        "details": lambda *_: None,
        "output": lambda *_: None,
        "sources": array(shape({"url": string(3000), "text": string(3000)}), 1),
        "status": one_of("pending", "in_progress", "complete", "error"),
    },
)

CONTAINER_CHILDREN = (
    *("actions", "context", "divider", "file", "header", "image"),
    *("input", "rich_text", "section", "table", "video"),
)
"""[blocks: container] lists these."""
CONTAINER_DISPUTED = ("file", "input", "rich_text")
"""In that list, but a client library's authors saw the live validator refuse them: refused here too."""

BLOCKS: dict[str, Check] = {
    "actions": block({"elements": array(elements(*IN_ACTIONS), 1, 25)}),
    "context": block(
        {
            "elements": array(
                by_type(lambda: {**dict.fromkeys(BOTH, text(3000, *BOTH)), "image": ELEMENTS["image"]}), 1, 10
            )
        }
    ),
    "context_actions": block({"elements": array(elements("feedback_buttons", "icon_button"), 1, 5)}),
    "divider": block({}),
    "header": block({"text": text(150)}),
    "image": block({"alt_text": string(2000)}, {**PICTURE, "title": text(2000)}, PICTURE_SOURCE),
    "input": block(
        {"label": text(2000), "element": elements(*IN_INPUT)},
        {"hint": text(2000), "optional": boolean, "dispatch_action": boolean},
    ),
    "markdown": block({"text": string(MARKDOWN_TOTAL)}),
    "rich_text": block({"elements": array(by_type(lambda: RICH), 1)}),
    "section": block(
        {},
        {
            "text": text(3000, *BOTH),
            "fields": array(text(2000, *BOTH), 1, 10),
            "accessory": elements(*IN_SECTION),
            "expand": boolean,
        },
        at_least_one("text", "fields"),
    ),
    "table": block(
        {"rows": array(array(by_type(lambda: CELL, "raw_text", "rich_text"), 1, 20), 1, 100)},
        {
            "column_settings": array(
                shape({}, {"align": one_of("left", "center", "right"), "is_wrapped": boolean}, typed=False),
                1,
                20,
            )
        },
    ),
    "file": block({"external_id": string(255), "source": one_of("remote")}),
    "video": block(
        {
            "alt_text": string(2000),
            "title": text(200),
            "thumbnail_url": string(3000),
            "video_url": string(3000),
        },
        {
            "author_name": string(50),
            "description": text(200),
            "provider_icon_url": string(2000),
            "provider_name": string(50),
            "title_url": string(2000),
        },
    ),
    "alert": block({"text": text(200, *BOTH)}, {"level": string(20)}),
    "card": CARD,
    "carousel": block({"elements": array(by_type(lambda: {"card": CARD}), 1, 10)}),
    "plan": block({"title": string(3000)}, {"tasks": array(by_type(lambda: {"task_card": TASK}), 1, 50)}),
    "task_card": TASK,
    "container": block(
        {
            "child_blocks": array(
                by_type(lambda: BLOCKS, *(set(CONTAINER_CHILDREN) - {*CONTAINER_DISPUTED})), 1, 10
            )
        },
        {
            "title": text(150),
            "rich_text_title": by_type(lambda: BLOCKS, "rich_text"),
            "subtitle": text(150, *BOTH),
            "icon": ICON,
            "width": one_of("narrow", "standard", "wide", "full"),
            "is_collapsible": boolean,
            "default_collapsed": boolean,
            "has_header_divider": boolean,
        },
        at_least_one("title", "rich_text_title"),
        collapsed_needs_collapsible,
    ),
}

# A1, the surface table. data_table, data_visualization and call are not modelled, so they are refused.
_EVERYWHERE = frozenset({"actions", "card", "context", "divider", "header", "image", "input", "rich_text"})
_EVERYWHERE |= {"section", "video"}
_WIDE = _EVERYWHERE | {"carousel", "container", "table"}
SURFACES: Mapping[Surface, frozenset[str]] = {
    "message": _WIDE | {"context_actions", "file", "markdown", "plan", "task_card"},
    "modal": _EVERYWHERE | {"alert"},
    "home": _WIDE,
}


def every_block(blocks: Sequence[Json]) -> Iterator[Json]:
    """All blocks, with those inside containers and carousels."""
    for one in blocks:
        yield one
        if one.get("type") == "container":
            yield from every_block(one.get("child_blocks", []))
        elif one.get("type") == "carousel":
            yield from every_block(one.get("elements", []))


def elements_of(one: Json) -> Iterator[Json]:
    """The elements of a block that a person can touch."""
    kind = one.get("type")
    if kind in {"actions", "context_actions"}:
        yield from one.get("elements", [])
    elif kind == "input":
        yield one["element"]
    elif kind == "section" and one.get("accessory", {}).get("type", "image") != "image":
        yield one["accessory"]
    elif kind == "card":
        yield from one.get("actions", [])


def _whole_payload(blocks: list[Json], report: Report) -> None:
    """Rules over all blocks: ids, the sum of markdown, one table, one focus."""
    everything = list(every_block(blocks))
    for name, count in Counter(one.get("block_id") for one in everything).items():
        if name is not None and count > 1:  # [blocks]: "block_id should be unique for each message"
            report.add("/blocks", f"block_id already exists: {name}")
    for one in everything:
        for name, count in Counter(e.get("action_id") for e in elements_of(one)).items():
            if name is not None and count > 1:  # [elements]: action_id unique within its block
                report.add("/blocks", f"action_id already exists: {name}")
    if sum(len(one["text"]) for one in everything if one["type"] == "markdown") > MARKDOWN_TOTAL:
        report.add("/blocks", f"markdown text must be less than {MARKDOWN_TOTAL + 1} characters in total")
    if sum(one["type"] == "table" for one in everything) > 1:  # [blocks: table]: only one per message
        report.add("/blocks", "only one table is allowed")
    if sum(bool(e.get("focus_on_load")) for one in everything for e in elements_of(one)) > 1:
        report.add("/blocks", "only one element can be focused on load")  # [elements]: focus_on_load
    if any(one["type"] == "task_card" and one.get("status") == "pending" for one in blocks):
        report.add("/blocks", "a task outside a plan cannot be pending")  # [blocks: task card]


def problems(blocks: object, surface: Surface) -> list[str]:
    """What Slack would answer about `blocks` on `surface`; an empty list if it would take them."""
    report = Report()
    most = MESSAGE_BLOCKS if surface == "message" else VIEW_BLOCKS
    array(by_type(lambda: BLOCKS, *SURFACES[surface]), 0, most)(blocks, "/blocks", report)
    if not report.errors and isinstance(blocks, list):
        _whole_payload(blocks, report)
    return report.errors


_VIEW_FIELDS: Mapping[str, Check] = {  # [views]
    "blocks": lambda *_: None,  # looked at by `problems`, which knows the surface
    "private_metadata": string(3000, least=0),
    "callback_id": string(ID_LENGTH, least=0),
    "external_id": string(ID_LENGTH, least=0),
}
_MODAL = shape(
    {"title": text(24), "blocks": _VIEW_FIELDS["blocks"]},
    {
        **_VIEW_FIELDS,
        "submit": text(24),
        "close": text(24),
        "clear_on_close": boolean,
        "notify_on_close": boolean,
        "submit_disabled": boolean,
    },
)
_HOME = shape({"blocks": _VIEW_FIELDS["blocks"]}, _VIEW_FIELDS)


def view_problems(view: object, kind: Literal["modal", "home"]) -> list[str]:
    """What Slack would answer about a view; `submit` is needed as soon as there is an input block [views]."""
    report = Report()
    by_type(lambda: {"modal": _MODAL, "home": _HOME}, kind)(view, "/view", report)
    if report.errors or not isinstance(view, dict):
        return report.errors
    found = [line.replace(":/blocks", ":/view/blocks") for line in problems(view["blocks"], kind)]
    if found:
        return found
    if kind == "modal" and "submit" not in view and any(b["type"] == "input" for b in view["blocks"]):
        return ["[ERROR] missing required field: submit [json-pointer:/view]"]
    return []


def with_ids(blocks: Sequence[Json], fresh: Callable[[], str]) -> list[Json]:
    """The blocks as Slack keeps them: a block_id and action_ids made up where there were none."""
    kept = copy.deepcopy(list(blocks))
    for one in every_block(kept):
        one.setdefault("block_id", fresh())
        for element in elements_of(one):
            element.setdefault("action_id", fresh())
    return kept


# ---- who would be notified [format], A6

_TOKEN = re.compile(r"<(?:@([UW][A-Z0-9]+)|!(here|channel|everyone)|!subteam\^(S[A-Z0-9]+))(?:\|[^>]*)?>")
_BARE = re.compile(r"(?<![\w@])@(here|channel|everyone)\b")


def _in_text(words: str) -> set[str]:
    return {next(group for group in found.groups() if group) for found in _TOKEN.finditer(words)}


def _in_value(value: object) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_in_value, value))
    if not isinstance(value, dict):
        return set()
    kind = value.get("type")
    if kind in {"mrkdwn", "markdown"}:  # A6: the markdown block parses the same tokens
        return _in_text(str(value.get("text", "")))
    if kind == "plain_text":
        return set()
    named = {"user": "user_id", "usergroup": "usergroup_id", "broadcast": "range"}.get(str(kind))
    if named is not None:
        return {str(value[named])}
    return set().union(*map(_in_value, value.values()))


def pings(words: str, blocks: Sequence[Json], *, link_names: bool = False) -> frozenset[str]:
    """Ids of people and groups, and "here", "channel", "everyone", that a posted message would notify.

    The fallback text counts beside the blocks, and so does what stands between backticks: a doubt is a yes.
    Bare `@here` counts only with `link_names` (or `parse=full`) [format].
    """
    bare = set(_BARE.findall(words)) if link_names else set()
    return frozenset(_in_text(words) | bare | _in_value(list(blocks)))
