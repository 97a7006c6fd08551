"""Whatever a tool's input holds: the whole of it is shown, and none of it acts."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.model import REQUEST_APPROVAL, Inquiry, InquiryState, Kind
from cards import compose, replies, text, visible, web, wording
from cards.model import Card
from tests.cards.examples import NOW, ZONE, asked, inquiry, request

TAGS = (
    {"article", "header", "h3", "p", "div", "pre", "code", "bdi", "strong", "span", "ins", "del"}
    | {"dl", "dt", "dd", "blockquote", "details", "summary", "ul", "li"}
    | {"form", "fieldset", "legend", "label", "input", "textarea", "select", "option", "button"}
)
ATTRIBUTES = (
    {"class", "lang", "dir", "role", "tabindex", "aria-label", "type", "name", "value", "rows", "required"}
    | {"selected", "spellcheck", "inputmode", "autocomplete"}
    | {f"data-{name}" for name in ("state", "inquiry", "task", "revision", "code", "verb", "kind")}
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    [
        "</code></pre><script>alert(1)</script>",
        '"><img src=x onerror=y>',
        "`</textarea>`",
        "<!-- ",
        "&lt;&#x202e;",
        "\r\n",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
INPUTS = st.dictionaries(TEXT, VALUES, max_size=4)
TOOLS = st.sampled_from(
    ["Bash", "Write", "Edit", "mcp__x__y", REQUEST_APPROVAL, "WebFetch", "</h3><a href=x>"]
)
_NAMES = ("command", "file_path", "content", "old_string", "new_string", "title", "action")
KNOWN = st.fixed_dictionaries({}, optional=dict.fromkeys(_NAMES, TEXT))


class Page(HTMLParser):
    """Reads a fragment as strictly as we write it, and fills in its forms as a browser would."""

    def __init__(self, fragment: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.pres: list[str] = []
        self.forms: dict[str, dict[str, list[str]]] = {}
        self.verbs: list[str] = []
        self._fields: dict[str, list[str]] | None = None
        self._name = ""
        self._words: list[str] | None = None
        self.feed(fragment)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        assert len(values) == len(attrs)
        self.tags.add(tag)
        self.attributes |= values.keys()
        if values.get("data-verb"):
            self.verbs.append(str(values["data-verb"]))
        if tag == "form":
            self._fields = self.forms.setdefault(str(values["data-verb"]), {})
        if tag in ("textarea", "pre"):
            self._words = []
        if tag in ("textarea", "select"):
            self._name = str(values["name"])
        if tag == "input" and self._fields is not None and values["type"] == "text":
            self._fields[str(values["name"])] = [str(values["value"])]
        if tag == "option" and "selected" in values and self._fields is not None:
            self._fields[self._name] = [str(values["value"])]
        if tag != "input":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "form":
            self._fields = None
        if tag == "pre" and self._words is not None:
            self.pres.append("".join(self._words))
        if tag == "textarea" and self._words is not None and self._fields is not None:
            value = "".join(self._words).removeprefix("\n")
            self._fields[self._name] = [value.replace("\n", "\r\n")]
        if tag in ("textarea", "pre"):
            self._words = None

    def handle_data(self, data: str) -> None:
        if self._words is not None:
            self._words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)


def _card(of: Inquiry, lang: str = "en") -> Card:
    return compose.inquiry_card(of, lang=lang, zone=ZONE, now=NOW)


def _blocks(shown: str) -> list[str]:
    """The indented blocks of a text, as they were before they were indented and made visible."""
    blocks: list[list[str]] = [[]]
    for line in shown.split("\n"):
        if line.startswith(text.INDENT):
            blocks[-1].append(line.removeprefix(text.INDENT))
        elif blocks[-1]:
            blocks.append([])
    return [visible.restore("\n".join(block)) for block in blocks if block]


@given(tool=TOOLS, tool_input=st.one_of(INPUTS, KNOWN), words=TEXT, before=st.none() | TEXT)
def test_case_c03_nothing_breaks_out_of_the_page(
    tool: str, tool_input: dict[str, Any], words: str, before: str | None
) -> None:
    """Every fragment is well-formed and holds only our own elements and attributes."""
    page = Page(web.render(_card(inquiry(tool, tool_input, agent_words=words, before=before, rule=words))))
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.verbs == ["approve", "change", "reject"] + ["always"] * (tool != REQUEST_APPROVAL)


@given(command=TEXT, options=INPUTS)
def test_case_c01_the_whole_command_is_there(command: str, options: dict[str, Any]) -> None:
    """A command is shown whole, as text and on the page, however long or odd it is."""
    options.pop("command", None)
    card = _card(inquiry("Bash", {"command": command, **options}))
    assert _blocks(text.render(card))[0] == command
    assert visible.restore(Page(web.render(card)).pres[0]) == command


@given(content=TEXT, before=st.none() | TEXT)
def test_case_c01_the_whole_file_is_there(content: str, before: str | None) -> None:
    """What is written is shown whole, whether or not a diff stands beside it."""
    card = _card(inquiry("Write", {"file_path": "a.txt", "content": content}, before=before))
    assert content in _blocks(text.render(card))
    assert content in map(visible.restore, Page(web.render(card)).pres)


@given(old=TEXT, new=TEXT)
def test_case_c01_both_sides_of_an_edit_are_there(old: str, new: str) -> None:
    """Both texts of an edit can be read off its diff."""
    card = _card(inquiry("Edit", {"file_path": "a.txt", "old_string": old, "new_string": new}))
    lines = _blocks(text.render(card))[0].split("\n")
    assert "\n".join(line[2:] for line in lines if line[0] != "+") == old
    assert "\n".join(line[2:] for line in lines if line[0] != "-") == new


@given(tool_input=INPUTS)
def test_case_c06_every_argument_is_shown(tool_input: dict[str, Any]) -> None:
    """Each argument of an MCP call stands on the card with its name and its value."""
    shown = text.render(_card(inquiry("mcp__x__y", tool_input)))
    lines = shown.split("\n")
    for name, value in tool_input.items():
        label = visible.inline(name)
        starts = [line for line in lines if line.startswith(label)]
        assert starts
        if value is None or isinstance(value, int):
            assert any(line.endswith(json.dumps(value)) for line in starts)


@given(tool=st.sampled_from(["Bash", "mcp__x__y", "Write"]), tool_input=INPUTS)
def test_an_untouched_form_changes_nothing(tool: str, tool_input: dict[str, Any]) -> None:
    """The page's form, sent back as it is, leaves every value exactly as it was."""
    of = inquiry(tool, tool_input)
    fields = Page(web.render(_card(of))).forms["change"]
    assert set(fields) == {"conditions"} | {field.input_name for field in compose.editable_fields(of)}
    assert replies.from_form(of, "change", fields) == replies.AskBack(code="what_change")


@given(questions=st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3), st.booleans()), min_size=1, max_size=3))
def test_questions_do_not_break_out_either(questions: list[tuple[str, list[str], bool]]) -> None:
    """Questions and labels from the agent are as harmless as any other input."""
    of = asked(*((f"{text} Which?", tuple(labels), many) for text, labels, many in questions))
    page = Page(web.render(_card(of)))
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert page.verbs == ["answer"]
    assert set(page.forms["answer"]) == {f"other.{at}" for at in range(len(questions))}


@pytest.mark.parametrize("lang", wording.LANGUAGES)
@pytest.mark.parametrize(
    "tail", ["<!channel>", "<at id=all></at>", "@all", "[Approve](http://x.example)", "`</pre>`"]
)
def test_case_c04_mentions_and_links_do_not_fire(tail: str, lang: str) -> None:
    """Mentions, links and markup of other products are plain text on the page."""
    card = _card(inquiry(given={"command": f"echo {tail}"}, agent_words=tail, rule=tail), lang)
    page = Page(web.render(card))
    assert page.pres[0] == f"echo {tail}"
    assert page.tags <= TAGS
    assert "a" not in page.tags


@pytest.mark.parametrize(
    ("tool", "field", "path", "full", "outside"),
    [
        ("Write", "file_path", "notes/../a.md", "/srv/ops/a.md", False),
        ("Edit", "file_path", "/srv/ops/a.md", "/srv/ops/a.md", False),
        ("Edit", "file_path", "../../etc/passwd", "/etc/passwd", True),
        ("NotebookEdit", "notebook_path", "/srv/opsx/n.ipynb", "/srv/opsx/n.ipynb", True),
    ],
)
def test_case_c05_full_paths(tool: str, field: str, path: str, full: str, outside: bool) -> None:
    """A file is named by its full path, and by what the agent wrote; outside the workspace it warns."""
    lines = text.render(_card(inquiry(tool, {field: path}))).split("\n")
    assert f"File: {full}" in lines
    assert (f"As the agent wrote it: {path}" in lines) == (path != full)
    assert ("! This file is outside the workspace folder." in lines) == outside


@pytest.mark.parametrize("size", [301, 3_001, 50_000, 1_000_000])
def test_case_c10_large_inputs_are_whole_or_attached(size: int) -> None:
    """A long command is whole on the page; where it must be a file, nothing approves before it is there."""
    command = "x" * (size - 12) + "; rm -rf dir"
    card = _card(inquiry(given={"command": command}))
    assert Page(web.render(card)).pres[0] == command
    for uploaded in (False, True):
        fitted = compose.attached(card, limit=300, uploaded=uploaded)
        assert [file.text.raw for file in fitted.files] == [command]
        verbs = Page(web.render(fitted.card)).verbs
        assert verbs == (["approve", "change", "reject", "always"] if uploaded else ["reject"])
    assert compose.attached(card, limit=size, uploaded=False).card == card


def test_case_c11_the_agents_words_are_labelled_and_last() -> None:
    """What the agent says about its call is small, labelled as its words, and below the input."""
    card = _card(inquiry(given={"command": "rm -rf dir"}, agent_words="I only list files."))
    lines = text.render(card).split("\n")
    at = lines.index("    I only list files.")
    assert lines[at - 1] == "The agent says (its own words; what counts is the text above):"
    assert lines.index("    rm -rf dir") < at
    assert 'class="card-quote card-small"' in web.render(card)


@pytest.mark.parametrize("lang", wording.LANGUAGES)
def test_case_a13_each_card_shows_its_own_input(lang: str) -> None:
    """The second card shows the second text, names the request it replaces, and what is different."""
    first = inquiry(given={"command": "rm a b"}, state=InquiryState.CHANGED)
    second = inquiry(given={"command": "rm a c"}, id="inq-13", number=13, replaces=first.id)
    lines = text.render(request(second, previous=first)(lang)).split("\n")
    assert "    rm a c" in lines
    assert "    rm a [-b-]{+c+}" in lines
    assert "    rm a b" not in lines
    assert any("#12" in line for line in lines)


def test_case_a12_a_plan_is_a_card() -> None:
    """A plan can be approved, changed and rejected, and is never approved for good."""
    page = Page(web.render(_card(inquiry("ExitPlanMode", {"plan": "1. x"}, kind=Kind.PLAN))))
    assert page.verbs == ["approve", "change", "reject"]


@pytest.mark.parametrize("state", [state for state in InquiryState if state is not InquiryState.PENDING])
def test_case_c08_no_buttons_after_the_decision(state: InquiryState) -> None:
    """What is no longer open cannot be decided from its card; an expired one can be asked again."""
    page = Page(web.render(_card(inquiry(state=state))))
    assert page.verbs == (["ask_again"] if state is InquiryState.EXPIRED else [])
