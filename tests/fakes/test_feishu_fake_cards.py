"""The fake Feishu judges cards, and finds mentions, by the documentation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.feishu_cards import CardRefused, Surroundings, judge
from tests.fakes.feishu_markdown import Mention, bad_links_of, mentions_of, text_mentions_of
from tests.fakes.feishu_model import Json
from tests.fakes.feishu_samples import FULL, MANY, PICK, REASON, button, deep, loose_button, options, plain

Change = Callable[[Json], object]


def put(path: str, value: object) -> Change:
    """A change that sets what stands at a dotted path."""

    def change(target: Any) -> None:
        *parents, last = (int(key) if key.isdigit() else key for key in path.split("."))
        for key in parents:
            target = target[key]
        if isinstance(target, list):
            target.insert(int(last), value)
        else:
            target[last] = value

    return change


def columns(levels: int) -> Json:
    """Columns within columns; only the sets count as levels."""
    inner: Json = {"tag": "hr"}
    for _ in range(levels):
        inner = {"tag": "column_set", "columns": [{"tag": "column", "elements": [inner]}]}
    return inner


BODY = "body.elements"
REFUSED: list[tuple[str, Change, int]] = [
    ("schema 1.0", put("schema", "1.0"), 200621),
    ("unknown root property", put("i18n_elements", {}), 200621),
    ("fallback", put("fallback", {}), 200621),
    ("not shared", put("config.update_multi", False), 200621),
    ("wide_screen_mode", put("config.wide_screen_mode", True), 200621),
    ("unknown colour", put("header.template", "pink"), 200621),
    ("four header tags", put("header.text_tag_list", [{"tag": "text_tag", "text": plain("x")}] * 4), 200621),
    ("unknown property", put(f"{BODY}.0.href", {}), 200621),
    ("unknown nested property", put(f"{BODY}.1.text.bold", True), 200621),
    ("unknown language", put(f"{BODY}.1.text.i18n_content.zh_CN", "x"), 200621),
    ("action tag", put(f"{BODY}.0", {"tag": "action", "actions": []}), 200861),
    ("note tag", put(f"{BODY}.0", {"tag": "note", "elements": []}), 200861),
    ("no tag", put(f"{BODY}.0", {"content": "x"}), 200861),
    ("a column alone", put(f"{BODY}.0", {"tag": "column", "elements": []}), 200861),
    (
        "201 elements",
        put(f"{BODY}.0", {**deep(2), "elements": [{"tag": "hr"}] * 190}),
        11310,
    ),
    ("six levels", put(f"{BODY}.0", deep(6)), 11310),
    ("six levels of columns", put(f"{BODY}.0", columns(5)), 11310),
    ("six tables", lambda it: it["body"]["elements"].extend([it["body"]["elements"][5]] * 5), 11310),
    ("form in a panel", put(f"{BODY}.3.elements.0", {"tag": "form", "name": "f", "elements": []}), 200621),
    ("form in a form", put(f"{BODY}.4.elements.0", {"tag": "form", "name": "f", "elements": []}), 200621),
    ("table in a form", put(f"{BODY}.4.elements.0", {"tag": "table", "columns": []}), 200621),
    ("chart in a form", put(f"{BODY}.4.elements.0", {"tag": "chart", "chart_spec": {}}), 200621),
    (
        "form without a submit",
        put(f"{BODY}.0", {"tag": "form", "name": "f", "elements": [{**REASON, "name": "r"}]}),
        200621,
    ),
    ("form without a button", put(f"{BODY}.0", {"tag": "form", "name": "f", "elements": []}), 200621),
    ("form without a name", lambda it: it["body"]["elements"][4].pop("name"), 200530),
    ("no name in a form", lambda it: it["body"]["elements"][4]["elements"][0].pop("name"), 200530),
    ("empty name", put(f"{BODY}.4.elements.0.name", ""), 200530),
    ("name twice", put(f"{BODY}.4.elements.1.name", "reason"), 200530),
    ("option values twice", put(f"{BODY}.4.elements.1.options", options("a", "a")), 200621),
    ("option value no string", put(f"{BODY}.4.elements.1.options.0.value", 1), 200621),
    ("initial_index too high", put(f"{BODY}.4.elements.1.initial_index", 3), 200621),
    ("selected value unknown", put(f"{BODY}.4.elements.2.selected_values", ["z"]), 200621),
    ("multi select at the root", put(f"{BODY}.0", {**MANY, "name": "other"}), 200621),
    ("required at the root", put(f"{BODY}.0", {**PICK, "name": "other", "required": True}), 200621),
    ("max_length 0", put(f"{BODY}.4.elements.0.max_length", 0), 200621),
    ("max_length 1001", put(f"{BODY}.4.elements.0.max_length", 1001), 200621),
    ("placeholder 101", put(f"{BODY}.4.elements.0.placeholder", plain("x" * 101)), 200621),
    ("textarea", put(f"{BODY}.4.elements.0.input_type", "textarea"), 200621),
    ("button text 101", put(f"{BODY}.4.elements.5.text", plain("x" * 101)), 200621),
    ("button markdown", put(f"{BODY}.4.elements.5.text", {"tag": "lark_md", "content": "x"}), 200621),
    ("value a string", put(f"{BODY}.4.elements.5.behaviors.0.value", "go"), 200621),
    ("callback without value", put(f"{BODY}.4.elements.5.behaviors", [{"type": "callback"}]), 200621),
    ("value outside behaviors", put(f"{BODY}.4.elements.5.value", {}), 200621),
    (
        "a form's button does nothing",
        lambda it: it["body"]["elements"][4]["elements"].append(button("x")),
        200621,
    ),
    ("form action at the root", put(f"{BODY}.0", button("x", form_action_type="submit")), 200621),
    ("markdown without content", put(f"{BODY}.0", {"tag": "markdown"}), 200621),
    ("panel without header", put(f"{BODY}.0", {"tag": "collapsible_panel", "elements": []}), 200621),
    ("option without value", put(f"{BODY}.4.elements.1.options", [{"text": plain("a")}]), 200621),
    ("confirm without text", put(f"{BODY}.4.elements.5.confirm", {"title": plain("a")}), 200621),
    ("element_id too long", put(f"{BODY}.0.element_id", "a" * 21), 200621),
    ("element_id digit first", put(f"{BODY}.0.element_id", "1a"), 200621),
    ("element_id twice", put(f"{BODY}.1.element_id", "what"), 200621),
    ("@all", put(f"{BODY}.0.content", "<at id=all></at>"), 100290),
    ("@nobody", put(f"{BODY}.0.content", 'hi <at id="ou_nobody"></at>'), 100290),
    ("@nobody in a translation", put(f"{BODY}.0.i18n_content", {"en_us": "<at ids=ou_a,ou_b></at>"}), 100290),
    (
        "@nobody in the header",
        put("header.title", {"tag": "lark_md", "content": "<at email=a@b.c></at>"}),
        100290,
    ),
    ("picture", put(f"{BODY}.0.content", "![x](img_v2_none)"), 200570),
    ("javascript link", put(f"{BODY}.0.content", "[x](javascript:alert)"), 200621),
    ("URL into Chinese", put(f"{BODY}.0.content", "https://a.example中文"), 200621),
    ("five tables in markdown", put(f"{BODY}.0.content", "|a|b|\n|-|-|\n|1|2|\n\n" * 5), 200621),
]


@pytest.mark.parametrize(("change", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_card_is_refused(change: Change, code: int) -> None:
    """Each departure from the documentation has its sub-code, and the same card without it is accepted."""
    broken = copy.deepcopy(FULL)
    change(broken)
    with pytest.raises(CardRefused) as refused:
        judge(broken, Surroundings(knows_person=lambda each: each == "ou_a"))
    assert refused.value.sub_code == code


def test_a_full_card_is_accepted() -> None:
    """The card the table departs from is accepted; its mention in code fires nothing."""
    assert judge(copy.deepcopy(FULL), Surroundings()).mentions == (Mention("all", "all", in_code=True),)


@pytest.mark.parametrize(
    "change",
    [
        put(f"{BODY}.0", deep(5)),
        put(f"{BODY}.4.elements.0.max_length", 1000),
        put(f"{BODY}.0", loose_button()),
    ],
)
def test_the_limits_themselves_are_accepted(change: Change) -> None:
    """Five levels, a thousand characters and a button outside a form are within the rules."""
    fine = copy.deepcopy(FULL)
    change(fine)
    assert judge(fine, Surroundings()).elements > 0


@pytest.mark.parametrize(
    ("markdown", "fires"),
    [
        ("<at id=ou_a></at>", ["ou_a"]),
        ("<AT ID='ou_a'/>", ["ou_a"]),
        ('<at ids="ou_a,ou_b"></at>', ["ou_a", "ou_b"]),
        ("<at email=a@b.c></at>", ["a@b.c"]),
        ("`<at id=all></at>`", []),
        ("`` ` `<at id=all>` ``", []),
        ("`<at id=all>", ["all"]),
        ("`a\n\n<at id=all>`", ["all"]),
        ("```\n<at id=all>\n```", []),
        ("````\n```\n<at id=all>\n````", []),
        ("```\nx\n```\n<at id=all>", ["all"]),
        ("    <at id=all>", []),
        ("text\n    <at id=all>", ["all"]),
        ("\\<at id=all>", []),
        ("&#60;at id=all&#62;", []),
        ("<attention id=all>", []),
    ],
)
def test_which_mentions_of_markdown_fire(markdown: str, fires: list[str]) -> None:
    """Mentions are found as CommonMark reads the text: not in code, not escaped."""
    assert [each.target for each in mentions_of(markdown) if not each.in_code] == fires


@pytest.mark.parametrize(
    ("text", "fires"),
    [
        ('<at user_id="all"></at>', ["all"]),
        ("<at user_id=ou_a>", ["ou_a"]),
        ("<at id=all></at>", []),
        ("@all", []),
    ],
)
def test_which_mentions_of_a_text_fire(text: str, fires: list[str]) -> None:
    """A text message has a mention syntax of its own."""
    assert [each.target for each in text_mentions_of(text)] == fires


@pytest.mark.parametrize(
    ("markdown", "bad"),
    [
        ("[x](https://a.example)", []),
        ("[x](https://a.example 'title') <a href='https://b.example'>y</a>", []),
        ("https://a.example, 中文", []),
        ("`foo[0](bar)`", []),
        ("foo[0](bar)", ["bar"]),
        ("[x](javascript:alert)", ["javascript:alert"]),
        ("[x](https://a.example?t=1 2)", ["https://a.example?t=1 2"]),
        ("https://a.example中文", ["https://a.example中文"]),
        ("https://a.example，中文", ["https://a.example，中文"]),
    ],
)
def test_which_links_make_a_send_fail(markdown: str, bad: list[str]) -> None:
    """Links without http(s), with a space, or running into Chinese."""
    assert bad_links_of(markdown) == bad
