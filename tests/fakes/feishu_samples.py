"""Cards and parts of cards that the tests of the fake Feishu send."""

from __future__ import annotations

from typing import Any

from tests.fakes.feishu_model import Json


def plain(content: str) -> Json:
    """Text that nothing is read into."""
    return {"tag": "plain_text", "content": content}


def button(name: str, **more: Any) -> Json:
    """A button as an approval has it."""
    behaviors = [{"type": "callback", "value": {"inquiry": "i1", "revision": 3, "verdict": name}}]
    return {"tag": "button", "name": name, "text": plain(name), "behaviors": behaviors, **more}


def form(*elements: Json) -> Json:
    """A form with one submit button."""
    submit = button("approve", form_action_type="submit", type="primary_filled")
    return {"tag": "form", "name": "decide", "elements": [*elements, submit]}


def card(*elements: Json) -> Json:
    """A card of these elements."""
    return {
        "schema": "2.0",
        "config": {"update_multi": True, "enable_forward": False, "summary": {"content": "May it run?"}},
        "header": {"title": plain("May it run?"), "template": "orange"},
        "body": {"elements": list(elements)},
    }


def loose_button() -> Json:
    """A button outside a form."""
    return {"tag": "button", "text": plain("ok"), "behaviors": [{"type": "callback", "value": {"a": 1}}]}


def options(*values: str) -> list[Json]:
    """Options of a select."""
    return [{"text": plain(value.upper()), "value": value} for value in values]


REASON: Json = {"tag": "input", "name": "reason", "max_length": 300, "input_type": "multiline_text"}
PICK: Json = {"tag": "select_static", "name": "pick", "options": options("a", "b")}
MANY: Json = {"tag": "multi_select_static", "name": "many", "required": False, "options": options("a", "b")}
TICK: Json = {"tag": "checker", "name": "tick", "text": plain("sure")}
FULL = card(
    {"tag": "markdown", "element_id": "what", "content": "**rm** `<at id=all>`", "text_size": "normal"},
    {"tag": "div", "text": {**plain("raw"), "lines": 3, "i18n_content": {"zh_cn": "原文", "ja_jp": "原文"}}},
    {"tag": "hr", "margin": "4px 0"},
    {
        "tag": "collapsible_panel",
        "expanded": False,
        "header": {"title": plain("more")},
        "elements": [{"tag": "markdown", "content": "context"}],
    },
    form(
        REASON,
        PICK,
        MANY,
        TICK,
        {
            "tag": "column_set",
            "columns": [
                {
                    "tag": "column",
                    "width": "auto",
                    "elements": [button("reject", type="danger", form_action_type="submit")],
                }
            ],
        },
    ),
    {"tag": "table", "columns": [{"name": "k", "data_type": "text"}], "rows": [{"k": "v"}]},
)


def deep(levels: int) -> Json:
    """Panels within panels; the innermost text is at this level."""
    inner: Json = {"tag": "markdown", "content": "x"}
    for _ in range(levels - 1):
        inner = {"tag": "collapsible_panel", "header": {"title": plain("p")}, "elements": [inner]}
    return inner
