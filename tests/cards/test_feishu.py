"""Feishu cards: exactly what is sent, within what a client accepts, and what comes back."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_runner.model import REQUEST_APPROVAL, Actor, Inquiry, InquiryState, Verdict
from cards import choices, feishu, feishu_forms, replies, text, visible, wording
from cards.feishu_forms import Pressed
from cards.model import FURTHER, Actions, Button, Card, CardState, Paragraph, Questions, Verb
from tests.cards.examples import CARDS, DATABASE, ENVIRONMENTS, REQUESTS, asked, inquiry, request

GOLDENS = Path(__file__).parent / "goldens_feishu"

# --- what a client accepts, from the documentation of its components ----------------------------

_TEXT = {"tag", "content", "i18n_content"}
PROPERTIES: Mapping[str, set[str]] = {
    "plain_text": _TEXT | {"text_size", "text_color", "text_align", "lines"},
    "div": {"tag", "text", "icon", "width", "margin", "fields"},
    "hr": {"tag", "element_id", "margin"},
    "markdown": _TEXT | {"text_size", "text_align", "icon", "margin"},
    "text_tag": {"tag", "text", "color"},
    "column_set": {"tag", "columns", "flex_mode", "background_style", "horizontal_spacing", "margin"},
    "column": {"tag", "elements", "width", "weight", "vertical_align", "background_style", "padding"},
    "collapsible_panel": {"tag", "header", "elements", "expanded", "background_color", "border", "padding"},
    "form": {"tag", "name", "elements", "direction", "vertical_spacing"},
    "input": {"tag", "name", "label", "label_position", "placeholder", "default_value", "width", "required"}
    | {"max_length", "input_type", "rows", "disabled"},
    "select_static": {"tag", "name", "options", "placeholder", "initial_option", "width", "required", "type"},
    "multi_select_static": {"tag", "name", "options", "placeholder", "selected_values", "width", "required"},
    "button": {"tag", "name", "text", "type", "behaviors", "confirm", "disabled", "form_action_type"},
}
INTERACTIVE = {"input", "select_static", "multi_select_static", "button"}
COLOURS = {"blue", "wathet", "turquoise", "green", "yellow", "orange", "red", "grey"}
TAG_COLOURS = COLOURS - {"grey"} | {"neutral"}
NO_MARKUP = re.compile(r"(?:[^!-/:-@\[-`{-~]|&#\d+;|<at id=ou_[\w-]+></at>)*")


def parts(
    node: Any, above: tuple[dict[str, Any], ...] = ()
) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    """Every tagged part of a card with the tagged parts around it, outermost first."""
    if isinstance(node, dict):
        inside = above
        if "tag" in node:
            yield node, above
            inside = (*above, node)
        for value in node.values():
            yield from parts(value, inside)
    elif isinstance(node, list):
        for item in node:
            yield from parts(item, above)


def problems(card: dict[str, Any]) -> list[str]:
    """Why a client would refuse this card; empty if it would not."""
    found = [f"unknown property {key}" for key in card.keys() - {"schema", "config", "header", "body"}]
    if len(json.dumps(card, ensure_ascii=False).encode()) > 30_000:
        found.append("more than 30 KB")
    every = list(parts(card))
    if len(every) > 200:
        found.append("more than 200 elements")
    if card["schema"] != "2.0" or card["config"]["update_multi"] is not True:
        found.append("not a shared card of version 2.0")
    tags = card["header"]["text_tag_list"]
    if not card["body"]["elements"] or card["header"]["template"] not in COLOURS:
        found.append("no body or no colour")
    if len(tags) > 3 or not all(tag["color"] in TAG_COLOURS for tag in tags):
        found.append("tags of the header")
    names = [part["name"] for part, _ in every if "name" in part]
    if len(names) != len(set(names)) or "" in names:
        found.append(f"names not unique: {names}")
    for part, above in every:
        found += _of_part(part, [outer["tag"] for outer in above])
    return found


def _of_part(part: dict[str, Any], above: list[str]) -> Iterator[str]:
    tag = part["tag"]
    if tag not in PROPERTIES or part.keys() - PROPERTIES[tag]:
        yield f"{tag}: not known, or with a property that is not"
    if len(above) >= 5:
        yield f"{tag}: more than 5 levels: {above}"
    if tag in ("form", "column", "collapsible_panel") and not part["elements"]:
        yield f"{tag}: empty"
    if tag == "column_set" and {column["tag"] for column in part["columns"]} != {"column"}:
        yield "column_set: something else than columns"
    if tag == "form":
        yield from _of_form(part, above)
    if tag in INTERACTIVE:
        yield from _of_interactive(part, "form" in above)
    if "content" in part:
        yield from _of_text(part)


def _of_form(part: dict[str, Any], above: list[str]) -> Iterator[str]:
    if above:
        yield "form: not at the root"
    if not any(inner.get("form_action_type") == "submit" for inner, _ in parts(part)):
        yield "form: without a submit button"


def _of_interactive(part: dict[str, Any], in_form: bool) -> Iterator[str]:
    tag = part["tag"]
    if in_form and not part.get("name"):
        yield f"{tag}: without a name in a form"
    if tag == "button":
        yield from _of_button(part, in_form)
    elif not in_form:
        yield f"{tag}: never sent"
    if not len(part.get("default_value", "")) <= part.get("max_length", 1000) <= 1000:
        yield "input: longer than it takes"
    values = [option["value"] for option in part.get("options", ())]
    if len(values) != len(set(values)) or not all(isinstance(value, str) for value in values):
        yield f"{tag}: values"
    if tag == "multi_select_static" and part.get("required") is not False:
        yield "multi_select_static: insists on a choice"
    if len(part.get("placeholder", {"content": ""})["content"]) > 100:
        yield f"{tag}: placeholder"


def _of_button(part: dict[str, Any], in_form: bool) -> Iterator[str]:
    if not 0 < len(part["text"]["content"]) <= 100:
        yield "button: text"
    if not all(isinstance(behaviour["value"], dict) for behaviour in part["behaviors"]):
        yield "button: value is no object"
    if (part.get("form_action_type") == "submit") is not in_form:
        yield "button: submits nothing, or is in a form and does not"


def _of_text(part: dict[str, Any]) -> Iterator[str]:
    if not all(_contents(part)):
        yield "text: empty"
    if part["tag"] == "markdown" and not all(map(NO_MARKUP.fullmatch, _contents(part))):
        yield f"markdown: acts: {part['content']}"
    if part.get("i18n_content", {}).keys() - {"zh_cn", "en_us", "ja_jp"}:
        yield "text: languages"


def _contents(part: dict[str, Any]) -> list[str]:
    return [part["content"], *part.get("i18n_content", {}).values()]


def texts(card: dict[str, Any]) -> list[str]:
    """Every text of a card as it reads, in its own language."""
    found = []
    for part, _ in parts(card):
        if part["tag"] == "markdown":
            found.append(html.unescape(part["content"]))
        elif part["tag"] == "plain_text":
            found.append(part["content"])
    return found


def buttons(card: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The buttons of a card by their verb."""
    every = [part for part, _ in parts(card) if part["tag"] == "button"]
    return {button["behaviors"][0]["value"]["verb"]: button for button in every}


def submitted(card: dict[str, Any]) -> dict[str, Any]:
    """What a client sends for a form in which nothing was touched."""
    return {
        part["name"]: [] if part["tag"] == "multi_select_static" else part.get("default_value", "")
        for part, above in parts(card)
        if part["tag"] in INTERACTIVE - {"button"} and above[0]["tag"] == "form"
    }


def card_of(of: Inquiry, lang: str = "zh") -> Card:
    """The card of a request."""
    return request(of)(lang)


# --- goldens ------------------------------------------------------------------------------------


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, dict[str, Any]], None]:
    """Compares a whole card with the golden file of that name; `--regen` writes it anew."""

    def check(name: str, card: dict[str, Any]) -> None:
        path = GOLDENS / f"{name}.json"
        output = json.dumps(card, ensure_ascii=False, indent=1) + "\n"
        if request.config.getoption("--regen", default=False):
            path.write_text(output, encoding="utf-8")
        assert output == path.read_text(encoding="utf-8")

    return check


@pytest.mark.parametrize("name", CARDS)
def test_cards(name: str, golden: Callable[[str, dict[str, Any]], None]) -> None:
    """Exactly this is sent, and a client takes it."""
    drawn = feishu.render(CARDS[name]("zh"), [CARDS[name]("en"), CARDS[name]("ja")])
    assert problems(drawn) == []
    golden(name, drawn)


def test_no_golden_is_left_over() -> None:
    """Each golden file belongs to a card that still exists."""
    assert {path.stem for path in GOLDENS.iterdir()} == set(CARDS)


@pytest.mark.parametrize("lang", wording.LANGUAGES)
@pytest.mark.parametrize("name", CARDS)
def test_every_language_stands_alone(name: str, lang: str) -> None:
    """A card in one language is taken as well, and holds no other."""
    drawn = feishu.render(CARDS[name](lang))
    assert problems(drawn) == []
    assert "i18n_content" not in json.dumps(drawn)


# --- any input ----------------------------------------------------------------------------------

ODD = [
    "<at id=all></at>",
    '<at user_id="all">x</at>',
    "[Approve](http://x.example)",
    "```\n</at>&lt;at&gt;",
    ":OK: **b** `c` ~~d~~ ![](img_v2_x) &#60;",
    "\u202e\u200b\x00\r\n\t" + " " * 30,
    "⟨U+0041⟩",
    "批准\u3000",
]
SHORT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(ODD)
LONG = st.builds(lambda piece, times: ((piece + "x") * times)[:12_000], SHORT, st.integers(300, 3_000))
STRINGS = st.one_of(SHORT, SHORT, SHORT, SHORT, SHORT, LONG)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | SHORT
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SHORT, inner, max_size=4),
    max_leaves=8,
)
_KNOWN = ("command", "file_path", "content", "old_string", "new_string", "title", "action", "plan")
INPUTS = st.dictionaries(STRINGS | st.sampled_from(_KNOWN), VALUES | STRINGS, max_size=6)
TOOLS = st.sampled_from(["Bash", "Write", "Edit", "mcp__x__y", REQUEST_APPROVAL, "WebFetch", "<at id=all>"])


def shown_somewhere(value: Any, places: list[str]) -> bool:
    """Whether a value is in one of these places: raw in a file, visible on a card, or line by line."""
    written = {choices.pretty(value), json.dumps(value, ensure_ascii=False)}
    if isinstance(value, str):
        written.add(value)
    for raw in written:
        for form in (str, visible.block, visible.inline):  # in the order of what they cost
            shown = form(raw)
            if any(shown in place for place in places):
                return True
    lines = value.split("\n") if isinstance(value, str) else []
    return bool(lines) and all(any(visible.block(line) in place for place in places) for line in lines)


_WIDE = "".join(chr(0x40000 + at) for at in range(5_000))
"""Each of them is shown as an escape of twelve bytes."""


@example("Bash", {"command": _WIDE, "k": _WIDE, _WIDE: "v"}, _WIDE, True, True)
@given(tool=TOOLS, given_input=INPUTS, words=STRINGS, uploaded=st.booleans(), small=st.booleans())
def test_any_input_gives_a_card_that_is_taken(
    tool: str, given_input: dict[str, Any], words: str, uploaded: bool, small: bool
) -> None:
    """Within all limits, nothing of it missing, nothing in it acts, and no yes before it is all there."""
    whole = card_of(inquiry(tool, given_input, agent_words=words))
    done = feishu.fit(whole, uploaded=uploaded, small=small, prefix="r12-")
    drawn = feishu.render(done.card)
    assert problems(drawn) == []
    assert "markdown" not in {part["tag"] for part, _ in parts(drawn)}
    assert small or feishu.fits(done.card)
    assert not small or len(feishu.dumps(drawn).encode()) <= feishu.SMALL_BYTES
    places = [*texts(drawn), *(file.text.raw for file in done.files)]
    for name, value in given_input.items():
        in_our_words = name in _KNOWN
        assert in_our_words or shown_somewhere(name, places) or shown_somewhere(given_input, places)
        assert shown_somewhere(value, places) or shown_somewhere(given_input, places)
    assert not words.strip() or shown_somewhere(words, places)
    assert all(file.filename.startswith("r12-") for file in done.files)
    if done.files and not uploaded:
        assert set(buttons(drawn)) <= {"reject"}
    else:
        assert {"approve", "change", "reject"} <= set(buttons(drawn))


@given(
    items=st.lists(st.tuples(STRINGS, st.lists(STRINGS, max_size=4), st.booleans()), min_size=1, max_size=4),
    uploaded=st.booleans(),
)
def test_any_questions_give_a_card_that_is_taken(
    items: list[tuple[str, list[str], bool]], uploaded: bool
) -> None:
    """Questions and choices are whole, and can be answered once they are."""
    of = asked(*((f"{asks} Which?", tuple(labels), many) for asks, labels, many in items))
    done = feishu.fit(card_of(of), uploaded=uploaded)
    drawn = feishu.render(done.card)
    assert problems(drawn) == []
    places = [*texts(drawn), *(file.text.raw for file in done.files)]
    for asks, labels, _ in items:
        assert shown_somewhere(asks, places)
        assert all(shown_somewhere(label, places) for label in labels)
    assert set(buttons(drawn)) == ({"answer"} if uploaded or not done.files else set())


def test_every_line_of_a_preview_is_marked() -> None:
    """What a choice would look like is whole below it, and no line of it passes for another choice."""
    shown = texts(feishu.render(CARDS["pending_preview"]("zh")))
    assert any("\n        │ +--+--+\n        │ |  |  |\n        │ +--+--+\n" in place for place in shown)


@given(tool=TOOLS, given_input=INPUTS)
def test_any_input_gives_a_text_that_does_not_act(tool: str, given_input: dict[str, Any]) -> None:
    """The numbered list stays within its limit and loses nothing that it does not name as missing."""
    card = card_of(inquiry(tool, given_input))
    shown = feishu.numbered(card)
    assert len(shown.encode()) <= feishu.TEXT_BYTES
    assert not re.search(r"<\s*/?\s*(at|b|i|u|s)\b|\*\*|\]\(", shown, re.IGNORECASE)
    if len(text.render(card).encode()) < feishu.TEXT_BYTES // 10:
        assert visible.restore(shown) == visible.restore(text.render(card))


# --- the cases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [301, 3_001, 50_000])
@pytest.mark.parametrize("uploaded", [False, True])
def test_case_c01_and_c10_a_long_command_is_whole_or_attached(size: int, uploaded: bool) -> None:
    """The tail is on the card, or in a file; before the file is there nothing approves."""
    command = "x" * (size - 12) + "; rm -rf dir"
    done = feishu.fit(card_of(inquiry(given={"command": command})), uploaded=uploaded)
    drawn = feishu.render(done.card)
    on_card = size < 10_000
    assert [file.text.raw for file in done.files] == ([] if on_card else [command])
    assert (command in texts(drawn)) is on_card
    assert ("approve" in buttons(drawn)) is (on_card or uploaded)
    beginning = wording.text("zh", "feishu.beginning")
    assert (beginning in texts(drawn)) is (not on_card)


def test_case_c02_what_cannot_be_seen_is_shown() -> None:
    """Overrides, zero-width characters and padding stand as escapes, with a warning in words."""
    drawn = feishu.render(card_of(REQUESTS["pending_hidden"]))
    command = next(shown for shown in texts(drawn) if shown.startswith("ls "))
    assert (
        command == "ls ⟨U+202E⟩txt.⟨U+202C⟩ ⟨U+200B⟩⟨U+0020×400⟩; rm -rf p⟨U+0430⟩y ⟨U+27E8⟩U+0041⟩ `</code>`"
    )
    assert sum(shown.startswith("⚠ ") for shown in texts(drawn)) == 6


@pytest.mark.parametrize("given_text", ODD)
def test_case_c03_nothing_breaks_out(given_text: str) -> None:
    """Whatever the place, text of theirs is in text that parses nothing."""
    of = inquiry(
        "mcp__x__y", {"a": given_text, "b": {"c": given_text}}, rule=given_text, agent_words=given_text
    )
    drawn = feishu.render(card_of(of), [card_of(of, "en")])
    assert problems(drawn) == []
    assert {part["tag"] for part, _ in parts(drawn)} <= PROPERTIES.keys() - {"markdown"}


FEISHU = Actor(platform="feishu", tenant="t", user_id="ou_7a-B", name="林 <at id=all></at>*x*")


@pytest.mark.parametrize(
    ("who", "fires"),
    [
        (FEISHU, True),
        (FEISHU.having(user_id="all"), False),
        (FEISHU.having(user_id="ou_7></at><at id=all"), False),
        (FEISHU.having(platform="web"), False),
    ],
)
def test_case_c04_only_who_is_waited_for_is_mentioned(who: Actor, fires: bool) -> None:
    """One mention, of an approver whose id is one; everything else beside it is escaped."""
    of = inquiry(given={"command": "echo <at id=all></at> @all"})
    card = request(of, approver_names=("<at id=all></at>", who))("zh")
    drawn = feishu.render(card)
    lines = [part["content"] for part, _ in parts(drawn) if part["tag"] == "markdown"]
    assert problems(drawn) == []
    assert [re.findall(r"<[^>]*>", shown) for shown in lines] == [["<at id=ou_7a-B>", "</at>"]] * fires
    assert "echo <at id=all></at> @all" in texts(drawn)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ('<at user_id="all">x</at>', '⟨U+003C⟩at user_id="all">x⟨U+003C⟩/at>'),
        ("< AT id=all>", "⟨U+003C⟩ AT id=all>"),
        ("a **b** [c](http://d)", "a ⟨U+002A⟩*b⟨U+002A⟩* [c⟨U+005D⟩(http://d)"),
        ("<b>x</b> <i>", "⟨U+003C⟩b>x⟨U+003C⟩/b> ⟨U+003C⟩i>"),
        ("cat <input.txt; 2 <what> a[0] (x)", "cat <input.txt; 2 <what> a[0] (x)"),
    ],
)
def test_case_c04_text_messages_neither_mention_nor_format(raw: str, shown: str) -> None:
    """What would act in a text message is an escape that can be read and undone."""
    lines = feishu.numbered(card_of(inquiry(given={"command": raw}))).split("\n")
    assert text.INDENT + shown in lines
    assert visible.restore(shown) == raw


def test_case_c05_full_paths() -> None:
    """A file is named by its full path, and by what the agent wrote."""
    shown = texts(feishu.render(card_of(REQUESTS["pending_edit_outside"], "en")))
    assert "File: /srv/etc/b.py\nAs the agent wrote it: ../etc/b.py" in shown
    assert "⚠ This file is outside the workspace folder." in shown


def test_case_c06_every_argument_is_shown() -> None:
    """Each of 500 arguments is on the card or in its file, with its name."""
    arguments = {f"key-{at}": f"value-{at} " + "v" * (at % 150) for at in range(500)}
    done = feishu.fit(card_of(inquiry("mcp__x__y", arguments)), uploaded=True)
    assert problems(feishu.render(done.card)) == []
    assert len(done.files) <= feishu.MOST_FILES
    held = "\n".join([*texts(feishu.render(done.card)), *(file.text.raw for file in done.files)])
    assert all(name in held and value in held for name, value in arguments.items())


@pytest.mark.parametrize("state", [state for state in InquiryState if state is not InquiryState.PENDING])
def test_case_c08_no_buttons_after_the_decision(state: InquiryState) -> None:
    """What is no longer open cannot be decided from its card; an expired one can be asked again."""
    drawn = feishu.render(card_of(inquiry(state=state)))
    assert set(buttons(drawn)) == ({"ask_again"} if state is InquiryState.EXPIRED else set())
    assert "form" not in {part["tag"] for part, _ in parts(drawn)}


def test_case_c09_buttons_hold_ids_and_a_revision() -> None:
    """Nothing of the input is in what a button sends."""
    drawn = feishu.render(card_of(inquiry(given={"command": "x" * 900})))
    assert {verb: button["behaviors"][0]["value"] for verb, button in buttons(drawn).items()} == {
        verb: {"verb": verb, "inquiry": "inq-12", "revision": 3}
        for verb in ("approve", "change", "reject", "always")
    }


def test_what_a_rule_covers_is_confirmed_or_typed() -> None:
    """The button says all that it covers and asks once more; where it does not fit, it is typed."""
    short = inquiry(offer="Bash(git push:*)", offer_for=timedelta(hours=8))
    drawn = buttons(feishu.render(card_of(short, "en")))
    said = {verb: drawn[verb]["text"]["content"] for verb in drawn if verb.startswith("always_")}
    assert said == {
        "always_rule": "Always in this task: Bash(git push:*)",
        "always_until": "For 8 h in ops: Bash(git push:*)",
    }
    assert all(words in drawn[verb]["confirm"]["text"]["content"] for verb, words in said.items())
    long = feishu.render(card_of(short.having(offer=f"Edit(./{'a' * 100})"), "en"))
    assert set(buttons(long)) == {"approve", "change", "reject", "always"}
    assert "a" * 100 in json.dumps(long)


def test_case_c10_sixty_questions_are_answered_by_typing() -> None:
    """What no form can hold is in a file, and the card says how to answer."""
    many = [(f"Question {at}: " + "q" * 1_000 + "?", ("yes", "no"), False) for at in range(60)]
    for uploaded in (False, True):
        done = feishu.fit(card_of(asked(*many)), uploaded=uploaded)
        drawn = feishu.render(done.card)
        assert problems(drawn) == []
        assert buttons(drawn) == {}
        assert all(question in done.files[0].text.raw for question, _, _ in many)
        assert any("1a 2a 3a" in shown for shown in texts(drawn)) is uploaded


def test_case_c10_long_questions_keep_their_form() -> None:
    """Four questions of any length can still be answered on the card, once their text is there."""
    long = [(f"{at} " + "问" * 4_000, tuple(f"{n} " + "选" * 900 for n in range(4)), True) for at in range(4)]
    done = feishu.fit(card_of(asked(*long)), uploaded=True)
    drawn = feishu.render(done.card)
    assert problems(drawn) == []
    assert set(buttons(drawn)) == {"answer"}
    assert all(label in done.files[0].text.raw for _, labels, _ in long for label in labels)
    assert buttons(feishu.render(feishu.fit(card_of(asked(*long)), uploaded=False).card)) == {}


def test_case_c10_a_text_too_long_for_a_message_offers_no_yes() -> None:
    """Its beginning is sent, the rest is named as missing, and no way to approve is offered."""
    shown = feishu.numbered(card_of(inquiry(given={"command": "界" * 50_000})))
    assert len(shown.encode()) < 5_000
    assert wording.text("zh", "feishu.beginning") in shown
    assert wording.text("zh", "typed.approval") not in shown


def test_case_c11_the_agents_words_are_folded_labelled_and_below() -> None:
    """What the agent says about its call is folded away under a title that says whose words it is."""
    drawn = feishu.render(card_of(inquiry(given={"command": "rm -rf dir"}, agent_words="I only list files.")))
    panel = next(part for part, _ in parts(drawn) if part["tag"] == "collapsible_panel")
    assert panel["header"]["title"]["content"] == wording.text("zh", "label.agent")
    assert panel["expanded"] is False
    shown = texts(drawn)
    assert shown.index("rm -rf dir") < shown.index("I only list files.")


# --- languages ----------------------------------------------------------------------------------


def test_each_viewer_reads_their_own_language() -> None:
    """Words of ours are there in all languages; what is theirs stands once."""
    made = CARDS["pending_bash"]
    drawn = feishu.render(made("zh"), [made("en"), made("ja")])
    assert drawn["header"]["title"]["i18n_content"] == {
        "zh_cn": "请求 #12 · 在 ops 执行命令",
        "en_us": "Request #12 · Bash in ops",
        "ja_jp": "依頼 #12 · ops でコマンドを実行",
    }
    for lang, locale in (("en", "en_us"), ("ja", "ja_jp")):
        own = texts(feishu.render(made(lang)))
        translated = [
            part.get("i18n_content", {}).get(locale, part["content"])
            for part, _ in parts(drawn)
            if part["tag"] == "plain_text"
        ]
        assert translated == own
    same = [part["content"] for part, _ in parts(drawn) if "content" in part and "i18n_content" not in part]
    assert same == [
        "kubectl -n staging rollout restart deploy/checkout",
        "I will restart the deployment,\nthen watch it for 2 minutes.",
        "command",
    ]


@pytest.mark.parametrize(
    "other",
    [
        request(inquiry(revision=4))("en"),
        request(inquiry(id="inq-13"))("en"),
        request(inquiry(agent_words="more"))("en"),
        request(inquiry(state=InquiryState.WITHDRAWN))("en"),
        request(inquiry())("zh"),
        request(inquiry())("en").model_copy(update={"lang": "tlh"}),
    ],
)
def test_another_card_is_no_translation(other: Card) -> None:
    """A card that differs in more than its words is left out."""
    card = request(inquiry())("zh")
    assert feishu.render(card, [other]) == feishu.render(card)


def test_languages_that_do_not_fit_are_left_out() -> None:
    """Translations never make a card too large."""
    long = [Paragraph(text=wording.as_line(lang * 6_000)) for lang in wording.LANGUAGES]
    made = [
        request(inquiry())(lang).model_copy(update={"elements": (one,)})
        for lang, one in zip(wording.LANGUAGES, long, strict=True)
    ]
    assert feishu.fits(made[0])
    assert feishu.render(made[0], made[1:]) == feishu.render(made[0])


# --- look ---------------------------------------------------------------------------------------


def test_colour_never_stands_alone() -> None:
    """Every state has a colour, and words beside it that no other state of that colour has."""
    card = request(inquiry())("zh")
    heads = [feishu.render(card.model_copy(update={"state": state}))["header"] for state in CardState]
    words = [head["text_tag_list"][0]["text"]["content"] for head in heads]
    assert len(set(words)) == len(CardState)
    assert [head["template"] for head in heads[:6]] == [
        "blue",
        "green",
        "turquoise",
        "red",
        "turquoise",
        "grey",
    ]


def test_the_preview_is_one_short_line() -> None:
    """The list of chats shows what it is about, and the outcome once there is one."""
    assert feishu.summary(CARDS["rejected"]("en")) == (
        "Request #12 · Bash in ops · Rejected by lin at 14:11. It did not run."
    )
    long = feishu.summary(card_of(inquiry("<at id=all>\n" * 100)))
    assert len(long) == feishu.SUMMARY
    assert "\n" not in long
    assert "<at" not in long


def test_long_headings_are_repeated_whole() -> None:
    """A client cuts what does not fit in a header; the body has it whole."""
    tool = "a_tool_with_a_name_that_goes_on_and_on_until_the_header_is_full"
    drawn = feishu.render(card_of(inquiry(tool)))
    assert drawn["body"]["elements"][0]["text"]["content"] == drawn["header"]["title"]["content"]
    assert tool in drawn["header"]["title"]["content"]


def test_nothing_is_said_to_be_nothing() -> None:
    """An empty text is no empty box."""
    card = request(inquiry("Write", {"file_path": "a", "content": ""}))("en")
    assert "(nothing)" in texts(feishu.render(card))


# --- presses ------------------------------------------------------------------------------------


def _all_buttons(card: Card) -> list[Button]:
    found = [
        button for element in card.elements if isinstance(element, Actions) for button in element.buttons
    ]
    sends = (element.send for element in card.elements if isinstance(element, Questions))
    return [*found, *(send for send in sends if send is not None)]


@pytest.mark.parametrize("name", CARDS)
def test_a_press_comes_back_as_the_button(name: str) -> None:
    """Every button on every card is read back as what it is; its name may be there or not."""
    card = CARDS[name]("zh")
    drawn = {}
    for part, _ in parts(feishu.render(card)):
        if part["tag"] == "button":
            value = part["behaviors"][0]["value"]
            drawn[value["verb"], value.get("inquiry", "")] = part
    typed = FURTHER if card.numbers else ()
    fits = [one for one in _all_buttons(card) if len(one.label) <= 100 and one.verb not in typed]
    assert set(drawn) == {(button.verb.value, button.inquiry_id) for button in fits}
    for button in fits:
        shown = json.loads(json.dumps(drawn[button.verb, button.inquiry_id]))
        action = {"tag": "button", "value": shown["behaviors"][0]["value"], "name": shown.get("name", "")}
        meant = Pressed(
            button.verb, button.inquiry_id, button.task_id, button.held_id, button.revision, button.seen
        )
        assert feishu_forms.read_press(action) == meant
        assert feishu_forms.read_press({"value": action["value"]}) == meant


GOOD = {"verb": "approve", "inquiry": "inq-12", "revision": 3}


@pytest.mark.parametrize(
    "action",
    [
        None,
        [],
        {},
        {"name": "stop"},
        {"name": "always", "value": {}},
        {"name": 1, "value": GOOD},
        {"name": "reject", "value": GOOD},
        {"value": "approve"},
        {"value": {**GOOD, "verb": "approved"}},
        {"value": {**GOOD, "verb": ["approve"]}},
        {"value": {**GOOD, "revision": "3"}},
        {"value": {**GOOD, "revision": True}},
        {"value": {**GOOD, "revision": -1}},
        {"value": {**GOOD, "inquiry": ""}},
        {"value": {**GOOD, "inquiry": 12}},
        {"value": {**GOOD, "inquiry": "x" * 201}},
        {"value": {**GOOD, "task": "task-1"}},
        {"value": {"verb": "approve", "revision": 3}},
        {"value": {**GOOD, "approvers": ["me"]}},
        {"value": {"verb": "approve", "inquiry": "inq-12"}},
    ],
)
def test_presses_that_are_not_ours(action: Any) -> None:
    """Not ours, malformed, or at odds with the name of the button: nothing was pressed."""
    assert feishu_forms.read_press(action) is None


@pytest.mark.parametrize("verb", ["approve", "change", "reject", "answer"])
def test_a_submit_without_its_value_names_no_request(verb: str) -> None:
    """Then only the verb is known, and a revision that no stored request has."""
    assert feishu_forms.read_press({"name": verb, "form_value": {}}) == Pressed(Verb(verb), revision=-1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([*Verb, "f0", "a1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["verb", "inquiry", "task", "held", "revision", "name", "value", "f0", "a0", "words"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=10,
)


@given(payload=JSON)
def test_no_payload_breaks_the_reader(payload: Any) -> None:
    """Whatever arrives is read without an error, and never as more than it says."""
    pressed = feishu_forms.read_press(payload)
    assert pressed is None or pressed.revision >= -1
    for verb in Verb:
        fields = feishu_forms.fields_of(payload, verb)
        assert all(isinstance(item, str) for values in fields.values() for item in values)


# --- forms --------------------------------------------------------------------------------------


@given(tool=st.sampled_from(["Bash", "mcp__x__y", "Write"]), given_input=INPUTS)
def test_an_untouched_form_changes_nothing(tool: str, given_input: dict[str, Any]) -> None:
    """A form sent back as it is leaves every value as it was, and is a plain approval."""
    of = inquiry(tool, given_input)
    card = card_of(of)
    names = feishu_forms.form_names(card)
    values = submitted(feishu.render(card))
    assert set(values) == {"words", *names}
    fields = feishu_forms.fields_of(values, Verb.CHANGE, names)
    assert replies.from_form(of, "change", fields) == replies.AskBack(code="what_change")
    assert not feishu_forms.says_more(of, feishu_forms.fields_of(values, Verb.APPROVE, names))


CALL = inquiry("mcp__x__y", {"a b": "1\n2", "n": 5, "long": "x" * 1_001, "odd": "\u202e"})


@pytest.mark.parametrize(
    ("verb", "typed", "meant"),
    [
        ("approve", {}, {"verdict": Verdict.APPROVE}),
        ("change", {"f1": "7"}, {"verdict": Verdict.CHANGE, "input": {**CALL.tool_input, "n": 7}}),
        ("change", {"words": " in staging\n"}, {"verdict": Verdict.CHANGE, "conditions": "in staging"}),
        (
            "change",
            {"f0": "⟨U+202E⟩", "words": "so"},
            {"verdict": Verdict.CHANGE, "conditions": "so", "input": {**CALL.tool_input, "a b": "\u202e"}},
        ),
        ("reject", {"words": "no"}, {"verdict": Verdict.REJECT, "reason": "no"}),
    ],
)
def test_decisions_come_back(verb: str, typed: dict[str, str], meant: dict[str, Any]) -> None:
    """Edits reach their fields, and the words are what the pressed button makes of them."""
    card = card_of(CALL)
    names = feishu_forms.form_names(card)
    assert names == {"f0": "input.a b", "f1": "input.n", "f2": "input.odd"}
    values = {**submitted(feishu.render(card)), **typed}
    fields = feishu_forms.fields_of(values, verb, names)
    assert replies.from_form(CALL, verb, fields) == replies.Decide(inquiry_id="inq-12", **meant)


@pytest.mark.parametrize("typed", [{"words": "only in staging"}, {"f0": "rm -rf dir"}, {"f9": "x"}])
def test_an_approval_with_words_is_asked_back(typed: dict[str, str]) -> None:
    """Words or edits beside an approval are kept, so that it can be asked what they mean."""
    of = inquiry()
    card = card_of(of)
    values = {**submitted(feishu.render(card)), **typed}
    fields = feishu_forms.fields_of(values, Verb.APPROVE, feishu_forms.form_names(card))
    assert feishu_forms.says_more(of, fields)
    assert next(iter(typed.values())) in [item for values in fields.values() for item in values]


def test_a_refusal_needs_a_reason() -> None:
    """The client lets it pass without; the answer is a question back."""
    of = inquiry()
    fields = feishu_forms.fields_of(submitted(feishu.render(card_of(of))), Verb.REJECT)
    assert replies.from_form(of, "reject", fields) == replies.AskBack(code="why_reject")


def test_what_a_form_offers_is_bounded() -> None:
    """At most six fields, none longer than an input takes, none with a name that is no label."""
    names = {f"k{at}": "v" for at in range(9)}
    assert len(feishu_forms.form_names(card_of(inquiry("mcp__x__y", names)))) == feishu_forms.MOST_FIELDS
    values = {"n" * 61: "v", "long": "v" * 1_001, **{f"k{at}": "界" * 900 for at in range(4)}}
    offered = feishu_forms.form_names(card_of(inquiry("mcp__x__y", values)))
    assert offered == {"f0": "input.k0", "f1": "input.k1"}


@pytest.mark.parametrize(
    ("chosen", "answers"),
    [
        ({"a0": "1", "a1": ["0", "2"]}, {"Which database?": "MySQL", "Which environments?": "dev, prod"}),
        (
            {"a0": "other", "o0": "the old\none", "a1": ["1"]},
            {"Which database?": "the old\none", "Which environments?": "staging"},
        ),
        ({"a0": "0", "a1": [], "o1": "qa"}, {"Which database?": "Postgres", "Which environments?": "qa"}),
    ],
)
def test_answers_come_back(chosen: dict[str, Any], answers: dict[str, str]) -> None:
    """Picked options and own words, for one or several choices."""
    of = asked(DATABASE, ENVIRONMENTS)
    values = {**submitted(feishu.render(card_of(of))), **chosen}
    fields = feishu_forms.fields_of(values, Verb.ANSWER)
    assert replies.from_form(of, "answer", fields) == replies.Decide(
        inquiry_id="inq-12", verdict=Verdict.ANSWER, answers=answers
    )


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        ({}, "missing_answers"),
        ({"a0": "0", "a1": None}, "missing_answers"),
        ({"a0": "other", "a1": ["0"]}, "missing_answers"),
        ({"a0": "0", "o0": "no, both", "a1": ["0"]}, "choice_and_words"),
        ({"a0": "7", "a1": ["0"]}, "no_such_choice"),
        ({"a0": 0, "a1": ["0"]}, "missing_answers"),
    ],
)
def test_answers_that_are_not_certain(chosen: dict[str, Any], code: str) -> None:
    """What is missing or contradicts itself is asked back."""
    of = asked(DATABASE, ENVIRONMENTS)
    fields = feishu_forms.fields_of(chosen, Verb.ANSWER)
    reply = replies.from_form(of, "answer", fields)
    assert isinstance(reply, replies.AskBack)
    assert reply.code == code
