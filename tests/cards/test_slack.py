"""Cards as Slack gets them: within every limit, whole, and with nothing of theirs that acts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slackblocks import Block

from agent_runner.model import REQUEST_APPROVAL, Actor, Inquiry, InquiryState, Kind, Verdict
from cards import choices, compose, replies, slack, slack_forms, visible, wording
from cards.attach import Fitted
from cards.model import Actions, Button, Card, CardState, Footer, Ours, Paragraph, Questions, Theirs, Verb
from tests.cards.examples import CARDS, NOW, REQUESTS, ZONE, asked, inquiry, request

GOLDENS = Path(__file__).parent / "goldens_slack"
Golden = Callable[[str, Any], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a whole output with the golden file of that name; `--regen` writes it anew."""

    def check(name: str, output: Any) -> None:
        path = GOLDENS / f"{name}.json"
        text = json.dumps(output, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        if request.config.getoption("--regen", default=False):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check


# Slack's limits, independently of the constants of the renderer (facts A1).


def _text(of: Any, longest: int, kinds: tuple[str, ...] = ("plain_text",)) -> None:
    assert of["type"] in kinds
    assert 1 <= len(of["text"]) <= longest
    assert of.get("emoji") is (False if of["type"] == "plain_text" else None)
    assert of.get("verbatim") is (True if of["type"] == "mrkdwn" else None)


def _options(options: list[Any], most: int) -> None:
    assert 1 <= len(options) <= most
    assert len({option["value"] for option in options}) == len(options)
    for option in options:
        assert option.keys() <= {"text", "value", "description"}
        _text(option["text"], 75)
        assert 1 <= len(option["value"]) <= 150
        if "description" in option:
            _text(option["description"], 75)


_MOST_OPTIONS = {
    "overflow": 5,
    "radio_buttons": 10,
    "checkboxes": 10,
    "static_select": 100,
    "multi_static_select": 100,
}


def _element(of: Any) -> None:
    assert 1 <= len(of["action_id"]) <= 255
    if of["type"] == "button":
        _text(of["text"], 75)
        assert 1 <= len(of["value"]) <= 2000
        assert of.get("style") in (None, "primary", "danger")
    elif of["type"] == "plain_text_input":
        assert of["max_length"] <= 3000
        assert 1 <= len(of.get("initial_value", "x")) <= of["max_length"]
        assert of["multiline"] or "\n" not in of.get("initial_value", "")
    else:
        _options(of["options"], _MOST_OPTIONS[of["type"]])
        assert of.get("initial_option") in (None, *of["options"])


def _rich(block: Any) -> None:
    assert block["elements"]
    for part in block["elements"]:
        kinds = ("rich_text_section", "rich_text_preformatted", "rich_text_quote")
        assert part["type"] in kinds
        assert part["elements"]
        for one in part["elements"]:
            assert one["type"] in ("text", "user", "date")  # never link, emoji, channel, broadcast
            if one["type"] == "text":
                assert 1 <= len(one["text"]) <= 3000
                assert one.keys() <= {"type", "text", "style"}
                assert all(one.get("style", {"bold": True}).values())


def _block(block: Any, allowed: tuple[str, ...]) -> None:
    kind = block["type"]
    assert kind in allowed
    if kind == "header":
        _text(block["text"], 150)
    elif kind == "context":
        assert 1 <= len(block["elements"]) <= 10
        for element in block["elements"]:
            _text(element, 3000, ("plain_text", "mrkdwn"))
    elif kind == "actions":
        assert 1 <= len(block["elements"]) <= 25
        ids = [element["action_id"] for element in block["elements"]]
        assert len(set(ids)) == len(ids)
        for element in block["elements"]:
            _element(element)
    elif kind == "input":
        _text(block["label"], 2000)
        assert "dispatch_action" not in block
        _element(block["element"])
    elif kind == "rich_text":
        _rich(block)


def check(blocks: list[Any], *, most: int = 50, inputs: bool = True) -> None:
    """Fails for anything that Slack would refuse, as far as its documentation says."""
    assert 1 <= len(blocks) <= most
    ids = [block["block_id"] for block in blocks if "block_id" in block]
    assert len(set(ids)) == len(ids)
    assert all(1 <= len(one) <= 255 for one in ids)
    allowed = ("header", "rich_text", "context", "actions", "divider", *(("input",) if inputs else ()))
    for block in blocks:
        _block(block, allowed)
        if block["type"] in ("header", "context", "divider"):
            Block.from_dict(block)  # a second opinion, for the blocks that it can read
    for text in mrkdwn(blocks):
        assert "<" not in _MEANT.sub("", text)


def check_modal(view: Any) -> None:
    """The same for a view that was opened over the messages."""
    assert view["type"] == "modal"
    for name in ("title", "submit", "close"):
        if name in view:
            _text(view[name], 24)
    assert len(view["private_metadata"]) <= 3000
    assert 1 <= len(view["callback_id"]) <= 255
    assert len(json.dumps(view)) <= 250_000
    assert ("submit" in view) or all(block["type"] != "input" for block in view["blocks"])
    check(view["blocks"], most=100)


_MEANT = re.compile(r"<!date\^[0-9]+\^[{}a-z_ ]+\|[^<>|]+>|<@[UW][A-Z0-9]+>")


def _all(of: Any) -> Iterator[Any]:
    """Every object in a payload, outside in."""
    if isinstance(of, dict):
        yield of
    for inner in of.values() if isinstance(of, dict) else of if isinstance(of, list) else ():
        yield from _all(inner)


def mrkdwn(blocks: Any) -> list[str]:
    """All texts in which Slack looks for markup."""
    return [one["text"] for one in _all(blocks) if one.get("type") == "mrkdwn"]


def shown(blocks: Any) -> str:
    """What a person reads, one line or text after the other."""
    lines = []
    for one in _all(blocks):
        kind = str(one.get("type"))
        if kind.startswith("rich_text_"):
            lines.append("".join(_part(part) for part in one["elements"]))
        elif kind in ("plain_text", "mrkdwn"):
            lines.append(one["text"])
    return "\n".join(lines)


def _part(part: Any) -> str:
    return str(part.get("text") or part.get("fallback") or f"@{part.get('user_id')}")


def presses(blocks: Any) -> list[str]:
    """Verbs of everything that can be pressed, in order."""
    values = [
        option["value"] if element["type"] == "overflow" else element["value"]
        for block in blocks
        if block["type"] == "actions"
        for element in block["elements"]
        for option in element.get("options", [None])
    ]
    return [json.loads(value)["v"] for value in values]


def test_a_menu_offers_only_what_can_be_read_on_it_as_a_whole() -> None:
    """What an entry covers must not be cut off: what is too long is typed instead."""
    long = inquiry("Write", {"file_path": "x"}, offer=f"Edit(./{'a' * 60})", offer_for=timedelta(hours=8))
    shown = {
        name: [option["text"]["text"] for option in menu(slack.render(request(of)("en")))]
        for name, of in (("long", long), ("short", long.having(offer="Edit(./a.md)")))
    }
    assert shown == {
        "long": ["Always for this task"],
        "short": [
            "Always for this task",
            "Always in this task: Edit(./a.md)",
            "For 8 h in ops: Edit(./a.md)",
        ],
    }
    assert "6 for 8 h in ops" in json.dumps(slack.render(request(long)("en")))


def menu(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of the menu beside the buttons."""
    (row,) = (block for block in blocks if block["type"] == "actions")
    (found,) = (element for element in row["elements"] if element["type"] == "overflow")
    options: list[dict[str, Any]] = found["options"]
    return options


# Goldens.


@pytest.mark.parametrize("name", CARDS)
def test_messages(name: str, golden: Golden) -> None:
    """Slack gets exactly this for every card, and it is within the limits."""
    cards = {lang: CARDS[name](lang) for lang in wording.LANGUAGES}
    for card in cards.values():
        check(slack.render(card))
        assert slack.fits(card)
        assert slack.fit(card, uploaded=False) == Fitted(card=card, files=())
    golden(
        name,
        {lang: {"text": slack.summary(c), "blocks": slack.render(c)} for lang, c in cards.items()},
    )


@pytest.mark.parametrize("verb", [Verb.CHANGE, Verb.REJECT])
def test_modals(verb: Verb, golden: Golden) -> None:
    """The form of a button with inputs is exactly this."""
    of = inquiry("mcp__x__y", {"sql": "select 1\n\u200b", "limit": 5, "dry": True, "ids": [7], "": ""})
    views = {
        lang: slack_forms.modal(compose.button(verb, of, lang), "private", lang) for lang in wording.LANGUAGES
    }
    for view in views.values():
        check_modal(view)
    golden(f"modal_{verb}", views)


def test_other_views(golden: Golden) -> None:
    """A home view, a view that waits and a view that only says something."""
    home = slack.home(
        [CARDS[name]("en") for name in ("pending_bash", "pending_question", "result_done")],
        "Yours",
        "Nothing",
        str,
    )
    views = {
        "home": home,
        "loading": slack_forms.loading("Approve with changes…", "p", "One moment …"),
        "notice": slack_forms.notice("Request #12", "Already approved by <@lin>."),
    }
    check(home["blocks"], most=100, inputs=False)
    check_modal(views["loading"])
    check_modal(views["notice"])
    golden("views", views)


def test_no_golden_is_left_over() -> None:
    """Each golden file belongs to something that is still rendered."""
    expected = {*CARDS, "modal_change", "modal_reject", "views"}
    assert {path.stem for path in GOLDENS.iterdir()} == expected


# Whatever the input is.

NASTY = st.sampled_from(
    [
        *("<!channel>", "<@U012ABC>", "<#C1|x>", "<!subteam^S1>", "<http://x|Approve>", "&lt;!here&gt;"),
        *("```", "a`b", "*b* _i_ ~s~ :fire:", "> q", "\u202e", "\u200b", " " * 400, "\r\n", "\x00\x1b[2J"),
        *("⟨U+0041⟩", "аdmin", "👩\u200d💻", "日本語", "\n" * 12, "@here", "U\u0301\u0301\u0301\u0301"),
    ]
)
TEXT = st.text(max_size=30) | NASTY | st.builds(str.__add__, NASTY, NASTY)
LONG = st.builds(
    lambda head, body, times: head + body * times,
    TEXT,
    st.sampled_from(["x", "line <!here> `\n", "&", "\u200b", "漢字\n", '"\\']),
    st.sampled_from([300, 3_001, 12_000]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT | LONG,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
MANY = st.builds(
    lambda count, name, value: {f"{name}{at}": value for at in range(count)},
    st.sampled_from([60, 500]),
    TEXT,
    VALUES.filter(lambda value: len(str(value)) < 400),
)
INPUTS = st.dictionaries(TEXT | LONG, VALUES, max_size=5) | MANY
NAMES = ("command", "file_path", "content", "old_string", "new_string", "title")
"""Arguments with a label of ours instead of their name."""
KNOWN = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, TEXT | LONG))
TOOLS = st.sampled_from(
    ["Bash", "Write", "Edit", "mcp__x__y", REQUEST_APPROVAL, "WebFetch", "<!here>", "*`_" * 80]
)
HEAVY = settings(max_examples=15, deadline=None)


def _card(of: Inquiry, lang: str = "en") -> Card:
    return compose.inquiry_card(of, lang=lang, zone=ZONE, now=NOW)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (key, *_strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _is_there(text: str, on_card: str, files: list[str]) -> bool:
    """Whether a text can be read, as it is or as JSON writes it, in one piece or line by line."""
    for form in (text, json.dumps(text, ensure_ascii=False)[1:-1]):
        if form in on_card or any(form in file or form.replace("\n", "\n    ") in file for file in files):
            return True
    return all(row in on_card for row in text.split("\n"))


def _check_fitted(fitted: Fitted, uploaded: bool, texts: list[str]) -> None:
    blocks = slack.render(fitted.card)
    check(blocks)
    assert len(json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))) <= 13_000
    assert slack.fits(fitted.card)
    read = shown(blocks)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\u2060\x00-\x08\ud800-\udfff]", read)
    on_card, files = visible.restore(read), [file.text.raw for file in fitted.files]
    for text in texts:
        assert _is_there(text, on_card, files)
    if files and not uploaded:
        assert set(presses(blocks)) <= {"reject"}
        assert all(block["type"] != "input" for block in blocks)
        assert "approve" not in on_card.split("\n")[-2]


@HEAVY
@given(tool=TOOLS, tool_input=INPUTS | KNOWN, words=TEXT | LONG, uploaded=st.booleans())
def test_case_c10_any_input_fits_and_is_whole(
    tool: str, tool_input: dict[str, Any], words: str, uploaded: bool
) -> None:
    """Every card gets within Slack's limits, and each text is on it or in its files."""
    card = _card(inquiry(tool, tool_input, agent_words=words))
    fitted = slack.fit(card, uploaded=uploaded)
    texts = [text for text in _strings(tool_input) if text not in NAMES]
    _check_fitted(fitted, uploaded, [*texts, words] if words.strip() else texts)
    if fitted.files == () or uploaded:
        assert presses(slack.render(fitted.card))[:3] == ["approve", "change", "reject"]


WORDS = TEXT | st.builds(str.__mul__, NASTY, st.sampled_from([30, 300]))
QUESTION = st.fixed_dictionaries(
    {
        "question": WORDS,
        "header": TEXT,
        "options": st.lists(st.fixed_dictionaries({"label": WORDS, "description": WORDS}), max_size=12),
        "multiSelect": st.booleans(),
    }
)
QUESTIONS = st.lists(QUESTION, min_size=1, max_size=4)


@HEAVY
@given(questions=QUESTIONS, times=st.sampled_from([1, 15]), uploaded=st.booleans())
def test_case_c10_any_questions_fit_and_are_whole(
    questions: list[dict[str, Any]], times: int, uploaded: bool
) -> None:
    """Sixty questions' worth of text gets within the limits, and each text is on the card or in a file."""
    of = inquiry("AskUserQuestion", {"questions": questions * times}, kind=Kind.QUESTION)
    said = _strings([list(question.values()) for question in questions])
    texts = [text for text in said if text not in ("label", "description")]
    _check_fitted(slack.fit(_card(of), uploaded=uploaded), uploaded, texts)


@HEAVY
@given(plan=TEXT | LONG, uploaded=st.booleans())
def test_any_plan_fits_and_is_whole(plan: str, uploaded: bool) -> None:
    """All words of a plan are there; only the marks around its code are drawn instead of written."""
    of = inquiry("ExitPlanMode", {"plan": plan}, kind=Kind.PLAN)
    fitted = slack.fit(_card(of), uploaded=uploaded)
    _check_fitted(fitted, uploaded, [])
    text = visible.restore(shown(slack.render(fitted.card))).replace("`", "")
    for row in plan.replace("`", "").split("\n"):
        assert row.strip() in text or any(plan == file.text.raw for file in fitted.files)


@HEAVY
@given(tool=TOOLS, tool_input=INPUTS | KNOWN)
def test_the_shorter_card_and_the_list(tool: str, tool_input: dict[str, Any]) -> None:
    """After a refusal there is a card of less than half, and then a text that nothing breaks out of."""
    card = _card(inquiry(tool, tool_input))
    small = slack.fit(card, uploaded=True, small=True).card
    check(slack.render(small))
    assert len(json.dumps(slack.render(small), ensure_ascii=False, separators=(",", ":"))) <= 5_000
    for of, complete in ((small, True), (card, False)):
        text = slack.numbered(of)
        assert len(text) <= 3_900
        body = text.removeprefix("```\n").rpartition("\n```")[0]
        assert "```" not in body
        assert "<" not in text
        assert ">" not in text
        assert not complete or text.endswith("```")
    assert len(slack.summary(card)) <= 300
    assert "<" not in slack.summary(card)


def test_a_list_that_is_cut_offers_no_approval() -> None:
    """What does not fit into the text is said to be missing, and how to approve is not said."""
    card = _card(inquiry(given={"command": "x" * 5_000}))
    text = slack.numbered(card)
    assert text.endswith("…\n```\nNot all of it fits here, so do not decide from this message alone.")
    assert "1 approve" not in text
    assert "1 approve" in slack.numbered(slack.fit(card, uploaded=True, small=True).card)


# Cases.


def test_case_c01_no_tail_is_cut() -> None:
    """Three thousand and one characters stand whole in one block, the dangerous end included."""
    command = "x" * 2_989 + "; rm -rf dir"
    (pre,) = [
        one
        for one in _all(slack.render(_card(inquiry(given={"command": command}))))
        if one.get("type") == "rich_text_preformatted"
    ]
    assert "".join(part["text"] for part in pre["elements"]) == command
    assert [len(part["text"]) for part in pre["elements"]] == [3_000, 1]


def test_case_c02_hidden_characters_are_shown() -> None:
    """What cannot be seen is an escape, and a warning stands above it."""
    read = shown(slack.render(CARDS["pending_hidden"]("en")))
    assert "ls ⟨U+202E⟩txt.⟨U+202C⟩ ⟨U+200B⟩⟨U+0020×400⟩; rm -rf p⟨U+0430⟩y ⟨U+27E8⟩U+0041⟩" in read
    assert "Contains characters that reverse the reading direction." in read


@pytest.mark.parametrize(
    "name", ["lin", "a`b", "*x*", "_i_", ":fire:", "<@U1>", "& co", "x" * 4_000, "https://x.y"]
)
def test_case_c03_no_markup_in_small_print(name: str) -> None:
    """A name can format nothing, link nothing and ping nobody, and is still all there."""
    blocks = slack.render(
        _card(inquiry(asked_by=Actor(platform="web", user_id="x", name=name), approvers=("requester",)))
    )
    check(blocks)
    (text,) = ["".join(mrkdwn(block)) for block in blocks if mrkdwn(block)]
    inner = text.partition(" may decide")[0]
    tame = bool(re.fullmatch("[a-z]+", name))
    assert inner.startswith("`") is not tame
    read = inner.replace("`", "").replace("⟨U+0060⟩", "`").replace("&lt;", "<").replace("&gt;", ">")
    assert read.replace("&amp;", "&") == name


def test_case_c03_code_stands_apart_from_words() -> None:
    """Slack sees code only at the edge of a word, so a blank is put between."""
    line = (Ours(text="由"), Theirs(raw="*x*"), Theirs(raw="y", code=True), Ours(text="做"))
    card = Card(lang="zh", state=CardState.DONE, title=(Ours(text="t"),), elements=(Footer(text=line),))
    assert mrkdwn(slack.render(card)) == ["由 `*x*` `y` 做"]


def test_case_c04_nobody_is_pinged_by_an_input() -> None:
    """Mentions in an input are characters like any others."""
    blocks = slack.render(CARDS["pending_mentions"]("en"))
    assert "<!channel> <at id=all></at> @all [Approve](http://x)" in shown(blocks)
    assert not any("<" in _MEANT.sub("", text) for text in mrkdwn(blocks))
    assert {one["type"] for one in _all(blocks) if one.get("type") in ("user", "link", "broadcast")} == set()


@pytest.mark.parametrize(
    ("platform", "user_id", "mention", "pinged"),
    [
        ("slack", "U012AB", True, True),
        ("slack", "U012AB", False, False),
        ("feishu", "U012AB", True, False),
        ("slack", "!channel", True, False),
        ("slack", "U1> <!here", True, False),
    ],
)
def test_only_who_is_waited_for_is_mentioned(
    platform: str, user_id: str, mention: bool, pinged: bool
) -> None:
    """A person is mentioned if waited for on Slack, in small print and in text; else named."""
    who = Theirs(raw="lin", actor=Actor(platform=platform, user_id=user_id, name="lin"), mention=mention)
    elements = (Footer(text=(who,)), Paragraph(text=(who,)))
    card = Card(lang="en", state=CardState.WAITING, title=(Ours(text="t"),), elements=elements)
    blocks = slack.render(card)
    check(blocks)
    assert mrkdwn(blocks) == [f"<@{user_id}>" if pinged else "lin"]
    assert [one["user_id"] for one in _all(blocks) if one.get("type") == "user"] == [user_id] * pinged


def test_case_c05_the_full_path_is_shown() -> None:
    """A file is named by its full path and as the agent wrote it."""
    read = shown(slack.render(CARDS["pending_edit_outside"]("en")))
    assert "File: /srv/etc/b.py\nAs the agent wrote it: ../etc/b.py" in read
    assert "This file is outside the workspace folder." in read


def test_case_c06_every_argument_is_shown() -> None:
    """All arguments of an MCP call stand on the card, the short, the nested and the empty."""
    read = shown(slack.render(CARDS["pending_mcp"]("en")))
    for piece in (
        "sql: select 1",
        "limit: 5",
        '[\n  "7",\n  7\n]',
        'note: "5"',
        "line 1\nline 2",
        "none: null",
    ):
        assert piece in read


@pytest.mark.parametrize("name", CARDS)
def test_case_c08_nothing_to_press_on_a_settled_card(name: str) -> None:
    """A settled card has no button, no menu and no input, and is within the limits."""
    blocks = slack.render(CARDS[name]("en").settled())
    check(blocks, inputs=False)
    assert all(block["type"] != "actions" for block in blocks)


@pytest.mark.parametrize("state", [state for state in InquiryState if state is not InquiryState.PENDING])
def test_case_c08_nothing_decides_after_the_decision(state: InquiryState) -> None:
    """What is decided cannot be decided again from its card; an expired one can be asked again."""
    verbs = presses(slack.render(_card(inquiry(state=state))))
    assert verbs == (["ask_again"] if state is InquiryState.EXPIRED else [])


@pytest.mark.parametrize("verb", Verb)
def test_case_c09_values_hold_ids_only(verb: Verb) -> None:
    """However large the input, a button's value is small enough for a menu."""
    button = Button(verb=verb, label="x", revision=10**9, inquiry_id="f" * 36)
    assert len(slack_forms.value_of(button)) <= 150


@pytest.mark.parametrize("size", [3_001, 50_000, 1_000_000])
def test_case_c10_large_commands(size: int) -> None:
    """A long command is whole on the card, or begun there and whole in a file that approval waits for."""
    command = "y" * (size - 12) + "; rm -rf dir"
    card = _card(inquiry(given={"command": command}))
    before, after = (
        slack.fit(card, uploaded=False, prefix="12-"),
        slack.fit(card, uploaded=True, prefix="12-"),
    )
    if size < 10_000:
        assert before.files == ()
        return
    assert [(file.filename, file.text.raw) for file in before.files] == [("12-part-1.txt", command)]
    assert presses(slack.render(before.card)) == ["reject"]
    assert presses(slack.render(after.card)) == ["approve", "change", "reject", "always"]
    assert "\nIt begins:\n" + "y" * 399 + "…" in shown(slack.render(after.card))


def test_case_c11_the_agents_words_are_small_and_last() -> None:
    """What the agent says is labelled in small print, below the input that counts."""
    blocks = slack.render(_card(inquiry(given={"command": "rm -rf dir"}, agent_words="I only list files.")))
    kinds = [(block["type"], shown(block)) for block in blocks]
    at = kinds.index(("rich_text", "I only list files."))
    assert kinds[at - 1][0] == "context"
    assert "its own words" in kinds[at - 1][1]
    assert kinds.index(("rich_text", "Command\nrm -rf dir")) < at


# What comes back.


@given(
    verb=st.sampled_from(Verb),
    which=st.sampled_from(["inquiry_id", "task_id", "held_id"]),
    one=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40),
    revision=st.integers(0, 2**53),
)
def test_presses_are_read_back(verb: Verb, which: str, one: str, revision: int) -> None:
    """A pressed button or menu entry says the verb, the id and the revision that were drawn."""
    button: Button = Button(verb=verb, label="x", revision=revision).having(**{which: one})
    card = Card(
        lang="en", state=CardState.DONE, title=(Ours(text="t"),), elements=(Actions(buttons=(button,)),)
    )
    (element,) = slack.render(card)[-1]["elements"]
    action = {**element, "selected_option": element["options"][0]} if "options" in element else element
    ids = {"inquiry_id": "", "task_id": "", "held_id": "", which: one}
    assert slack_forms.read_press(action) == slack_forms.Pressed(verb=verb, revision=revision, **ids)


@pytest.mark.parametrize(
    ("action_id", "value"),
    [
        ("approve", None),
        ("approve", ""),
        ("approve", "12"),
        ("approve", "[" * 1_500),
        ("approve", '{"v":"approve","i":"a","r":1}' + " " * 2_000),
        ("approve", '{"v":"approve","i":"a"}'),
        ("approve", '{"v":"approve","i":"a","r":true}'),
        ("approve", '{"v":"approve","i":"a","r":1.0}'),
        ("approve", '{"v":"approve","i":"a","r":-1}'),
        ("approve", '{"v":"approve","i":"a","r":1,"x":2}'),
        ("approve", '{"v":"approve","i":["a"],"r":1}'),
        ("approve", '{"v":"approve","i":"a","t":"b","r":1}'),
        ("approve", '{"v":"approve","r":1}'),
        ("approve", '{"v":"grant","i":"a","r":1}'),
        ("approve", '{"v":["approve"],"i":"a","r":1}'),
        ("reject", '{"v":"approve","i":"a","r":1}'),
        ("other", '{"v":"approve","i":"a","r":1}'),
        ("more", '{"v":"approve","i":"a","r":1}'),
        (7, '{"v":"approve","i":"a","r":1}'),
    ],
)
def test_what_no_button_of_ours_sends_is_no_press(action_id: Any, value: Any) -> None:
    """Any doubt about what was pressed makes it nothing."""
    assert slack_forms.read_press({"type": "button", "action_id": action_id, "value": value}) is None


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["action_id", "value", "selected_option", "selected_options"]), inner
        )
    ),
    max_leaves=6,
)


@given(junk=JUNK)
def test_junk_is_never_a_press_and_never_an_error(junk: Any) -> None:
    """Payloads of any shape are read without an error, and mean nothing."""
    assert slack_forms.read_press(junk) is None
    filled = slack_forms.fields_of({"answer.0@1": {"value": junk}, "x": junk})
    assert all(isinstance(value, str) for values in filled.values() for value in values)
    assert slack_forms.fields_of(junk) == {} or isinstance(junk, dict)


def fill(blocks: list[Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """`state.values` as Slack sends them: what stands there, changed to what is `said` by block_id."""
    values = {}
    for block in blocks:
        if block["type"] != "input":
            continue
        element, given_here = block["element"], said.get(block["block_id"])
        state: dict[str, Any] = {"type": element["type"]}
        if element["type"] == "plain_text_input":
            state["value"] = element.get("initial_value") if given_here is None else given_here or None
        elif element["type"] in ("checkboxes", "multi_static_select"):
            state["selected_options"] = [element["options"][at] for at in given_here or ()]
        else:
            initial = element.get("initial_option")
            state["selected_option"] = initial if given_here is None else element["options"][given_here]
        values[block["block_id"]] = {element["action_id"]: state}
    return values


@pytest.mark.parametrize("many", [2, 10, 11, 100])
def test_answers_come_back(many: int) -> None:
    """Picks from few options and from many, and own words, are read as what was picked."""
    labels = tuple(f"option {at}" for at in range(many))
    one, more = ("Which database?", labels, False), ("Which of these?", labels, True)
    of = asked(one, more, ("Why?", (), False))
    blocks = slack.render(_card(of))
    check(blocks)
    said = {"answer.0@3": many - 1, "answer.1@3": [0, 1], "other.1@3": "and, more", "other.2@3": "a\nb"}
    fields = slack_forms.fields_of(fill(blocks, said))
    assert replies.from_form(of, "answer", fields) == replies.Decide(
        inquiry_id=of.id,
        verdict=Verdict.ANSWER,
        answers={
            "Which database?": labels[-1],
            "Which of these?": "option 0, option 1, and, more",
            "Why?": "a\nb",
        },
    )
    nothing = slack_forms.fields_of(fill(blocks, {}))
    assert isinstance(replies.from_form(of, "answer", nothing), replies.AskBack)


@pytest.mark.parametrize("many", [0, 101])
def test_options_that_fit_no_input_are_text(many: int) -> None:
    """Without a usable input, the options are text and the answer is in words."""
    of = asked(("Which one?", tuple(f"n{at}" for at in range(many)), False))
    blocks = slack.render(_card(of))
    check(blocks)
    assert [block["block_id"] for block in blocks if block["type"] == "input"] == ["other.0@3"]
    assert f"n{many - 1}" in shown(blocks) or many == 0


FIELDS = st.dictionaries(TEXT, VALUES, max_size=4) | MANY


@HEAVY
@given(tool_input=FIELDS, words=st.sampled_from(["", "only staging"]))
def test_an_untouched_form_changes_nothing(tool_input: dict[str, Any], words: str) -> None:
    """The form, sent back as it is, leaves every value as it was, and the words are what counts."""
    of = inquiry("mcp__x__y", tool_input)
    button = compose.button(Verb.CHANGE, of, "en")
    view = slack_forms.modal(button, "", "en")
    check_modal(view)
    names = slack_forms.form_names(button)
    assert list(names) == [block["block_id"] for block in view["blocks"] if block["type"] == "input"]
    fields = slack_forms.fields_of(fill(view["blocks"], {"conditions@3": words}), names)
    assert set(fields) <= {"conditions"} | {field.input_name for field in choices.editable_fields(of)}
    reply = replies.from_form(of, "change", fields)
    if words:
        assert reply == replies.Decide(inquiry_id=of.id, verdict=Verdict.CHANGE, conditions=words)
    else:
        assert reply == replies.AskBack(code="what_change")


def test_an_edit_comes_back() -> None:
    """A field that was edited, one that was emptied and one that was switched are the whole change."""
    of = inquiry("mcp__x__y", {"a" * 300: "one", "b": "two", "dry": False, "n": 5})
    button = compose.button(Verb.CHANGE, of, "en")
    said = {"field.0@3": "1", "field.1@3": "", "field.2@3": 0}
    values = fill(slack_forms.modal(button, "", "en")["blocks"], said)
    reply = replies.from_form(of, "change", slack_forms.fields_of(values, slack_forms.form_names(button)))
    assert isinstance(reply, replies.Decide)
    assert reply.input == {"a" * 300: "1", "b": "", "dry": True, "n": 5}


def test_what_cannot_be_edited_is_named() -> None:
    """A value too long for an input, and fields beyond the limit of a view, stay and are named."""
    of = inquiry("mcp__x__y", {"long": "x" * 3_001, **{f"f{at}": "漢" * 2_000 for at in range(60)}})
    view = slack_forms.modal(compose.button(Verb.CHANGE, of, "en"), "", "en")
    check_modal(view)
    assert view["blocks"][-1]["block_id"] == "conditions@3"
    note = shown(view["blocks"][-2])
    assert note.startswith("Too long or too many to be edited here, so they stay as they are: long, f")
    assert re.search(r", f\d+, \d+ more\. Say below", note)


def test_a_refusal_needs_a_reason() -> None:
    """The form of a refusal has one input, and it must be filled in."""
    button = compose.button(Verb.REJECT, inquiry(), "en")
    view = slack_forms.modal(button, "", "en")
    (block,) = view["blocks"]
    assert (block["block_id"], block["optional"]) == ("reason@3", False)
    fields = slack_forms.fields_of(fill(view["blocks"], {"reason@3": "no"}), slack_forms.form_names(button))
    assert fields == {"reason": ["no"]}


def test_private_metadata_that_is_too_long_is_an_error() -> None:
    """What Slack would refuse is refused before it is sent."""
    with pytest.raises(ValueError, match="3001"):
        slack_forms.loading("t", "x" * 3_001, "text")


# The home view.


def test_home_says_how_much_is_left_out() -> None:
    """As many cards as fit, whole, and how many more there are."""
    cards = [request(of)("en") for of in REQUESTS.values()] * 3
    view = slack.home(cards, "Yours", "Nothing", lambda count: f"{count} more")
    check(view["blocks"], most=100, inputs=False)
    shown_cards = sum(block["type"] == "divider" for block in view["blocks"])
    assert shown(view["blocks"][-1]) == f"{len(cards) - shown_cards} more"
    assert len(view["blocks"]) > 85


def test_home_without_cards() -> None:
    """Nothing to show is said."""
    view = slack.home([], "Yours", "Nothing is open.", str)
    check(view["blocks"], most=100, inputs=False)
    assert shown(view["blocks"]) == "Yours\nNothing is open."


def test_home_with_large_cards() -> None:
    """A card too long for a message is begun, cannot be approved there, and views stay below 250 kB."""
    cards = [_card(inquiry(given={"command": "漢" * size})) for size in (3_000, 15_000) * 12]
    view = slack.home(cards, "Yours", "Nothing", str)
    check(view["blocks"], most=100, inputs=False)
    assert len(json.dumps(view)) <= 250_000
    assert "reject" in presses(view["blocks"])


# Smaller things.


def test_long_titles_are_whole() -> None:
    """A title that is too long for a header is shortened there and whole below."""
    card = Card(lang="en", state=CardState.DONE, title=(Theirs(raw="t" * 160),))
    assert shown(slack.render(card)) == f"✅ {'t' * 147}…\n{'t' * 160}"


def test_an_escape_is_not_cut_in_two() -> None:
    """What is shortened ends before an escape rather than inside of it."""
    card = Card(lang="en", state=CardState.DONE, title=(Theirs(raw="t" * 145 + "\u202e" + "x" * 9),))
    assert slack.render(card)[0]["text"]["text"] == f"✅ {'t' * 145}…"


def test_that_there_is_nothing_is_said_in_words() -> None:
    """An empty text is no empty box, and cannot be mistaken for one that holds the same word."""
    blocks = slack.render(_card(inquiry("Write", {"file_path": "a", "content": ""})))
    check(blocks)
    assert {"type": "text", "text": "(empty)", "style": {"italic": True}} in list(_all(blocks))


def test_times_are_the_readers() -> None:
    """A time is written by Slack in its reader's zone, with the date where the card says one."""
    at = NOW
    line = (Ours(text="14:30", at=at), Ours(text=" / "), Ours(text="30 November, 14:30", at=at))
    elements = (Footer(text=line), Paragraph(text=line))
    blocks = slack.render(Card(lang="en", state=CardState.DONE, title=(Ours(text="t"),), elements=elements))
    check(blocks)
    stamp = int(at.timestamp())
    assert mrkdwn(blocks) == [
        f"<!date^{stamp}^{{time}}|14:30> / <!date^{stamp}^{{date_short_pretty}} {{time}}|30 November, 14:30>"
    ]
    dates = [(one["format"], one["fallback"]) for one in _all(blocks) if one.get("type") == "date"]
    assert dates == [("{time}", "14:30"), ("{date_short_pretty} {time}", "30 November, 14:30")]


def test_questions_without_a_button_are_read_only() -> None:
    """Who may not answer sees the questions and no input."""
    card = _card(asked(("Which database?", ("a", "b"), False)))
    elements = tuple(e.having(send=None) if isinstance(e, Questions) else e for e in card.elements)
    check(slack.render(card.model_copy(update={"elements": elements})), inputs=False)
