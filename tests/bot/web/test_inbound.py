"""Payload -> command: what is understood, and what each mistake is answered with."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runner.errors import FixInput
from agent_runner.model import InquiryState, Scope, Verdict
from bot.commands import Ask, Chose, Said
from bot.web import inbound
from bot.web.inbound import Click, Malformed, Page
from tests.bot.web.webdesk import MEI


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "The body is not JSON: Expecting value: line 1 column 1 (char 0)."),
        (
            b"{",
            "The body is not JSON: "
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1).",
        ),
        (b'{"text": NaN}', "The body is not JSON: NaN is no JSON number."),
        (b'{"text": 1e999}', "The body is not JSON: the number 1e999 is out of range."),
        (b'{"a": 1, "a": 2}', "The body is not JSON: 'a' is there twice in one object."),
        (b"[" * 100_000, "The body is not JSON: it is nested too deeply."),
        (
            b"\xff{}",
            "The body is not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte.",
        ),
    ],
)
def test_what_is_no_json_is_malformed(raw: bytes, message: str) -> None:
    """Anything that is no strict JSON is refused before anything reads it."""
    with pytest.raises(Malformed) as refused:
        inbound.json_object(raw)
    assert (refused.value.message, refused.value.hint) == (message, "Send one JSON object in UTF-8.")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"[]", "The body is a list, not an object."),
        (b'"text"', "The body is text, not an object."),
        (b"1", "The body is a number, not an object."),
        (b"true", "The body is true or false, not an object."),
        (b"null", "The body is null, not an object."),
        (rb'{"a": "\ud800"}', "A text holds half of a character (a lone surrogate)."),
        (rb'{"\udfff": 1}', "A text holds half of a character (a lone surrogate)."),
        (b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", "The body is nested deeper than 64 levels."),
    ],
)
def test_json_that_cannot_be_meant_is_refused(raw: bytes, message: str) -> None:
    """JSON that is no object, cannot be stored or would overrun a stack says so."""
    with pytest.raises(FixInput) as refused:
        inbound.json_object(raw)
    assert refused.value.message == message
    assert type(refused.value) is FixInput


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON, max_size=5))
def test_every_json_object_is_read_as_it_is(body: dict[str, Any]) -> None:
    """What is fine arrives unchanged, whatever is in it."""
    assert inbound.json_object(json.dumps(body).encode()) == body


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ({"text": "go"}, Ask(actor=MEI, text="go")),
        ({"text": "go", "workspace": None, "plan": None}, Ask(actor=MEI, text="go")),
        (
            {"text": "go", "workspace": "ops", "plan": True},
            Ask(actor=MEI, text="go", workspace="ops", plan=True),
        ),
    ],
)
def test_a_job_is_read(body: dict[str, Any], command: Ask) -> None:
    """Fields that are null count as left out."""
    assert inbound.ask(MEI, body) == command


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ({"verdict": "approve"}, {"verdict": Verdict.APPROVE}),
        (
            {"verdict": "approve", "scope": "task", "digest": "3f9a1c02"},
            {"verdict": Verdict.APPROVE, "scope": Scope.TASK, "digest": "3f9a1c02"},
        ),
        ({"verdict": "reject", "reason": "no"}, {"verdict": Verdict.REJECT, "reason": "no"}),
        (
            {"verdict": "change", "conditions": "dry", "input": {"command": "ls"}},
            {"verdict": Verdict.CHANGE, "conditions": "dry", "input": {"command": "ls"}},
        ),
        (
            {"verdict": "answer", "answers": {"Which?": "A", "Where?": ["dev", "prod"]}},
            {"verdict": Verdict.ANSWER, "answers": {"Which?": "A", "Where?": "dev, prod"}},
        ),
    ],
)
def test_a_decision_is_read(body: dict[str, Any], command: dict[str, Any]) -> None:
    """Each verdict with its own fields; several choices are joined as the engine expects them."""
    assert inbound.chose(MEI, "i_1", body) == Chose(actor=MEI, inquiry_id="i_1", **command)


def test_words_are_read() -> None:
    """A message is its text."""
    assert inbound.said(MEI, "t_1", {"text": " 1 "}) == Said(actor=MEI, task_id="t_1", text=" 1 ")


@pytest.mark.parametrize(
    ("body", "clicked"),
    [
        ({}, Click(None, {})),
        ({"revision": 2, "fields": {"reason": ["no"]}}, Click(2, {"reason": ["no"]})),
    ],
)
def test_a_click_is_read(body: dict[str, Any], clicked: Click) -> None:
    """A card's button sends the revision it showed, and the fields of its form."""
    assert inbound.click(body) == clicked


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"fields": {"reason": "no"}}, "Field fields.reason must be a list of texts."),
        ({"fields": {"reason": [1]}}, "Field fields.reason must be a list of texts."),
        ({"revision": True}, "Field revision must be a whole number, not true or false."),
        ({"revision": 1.5}, "Field revision must be a whole number, not a number."),
        ({"verdict": "approve"}, "Unknown field: verdict."),
    ],
)
def test_a_click_that_no_card_sends_is_refused(body: dict[str, Any], message: str) -> None:
    """The page's own endpoint is no softer than the API."""
    with pytest.raises(FixInput) as refused:
        inbound.click(body)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ({}, Page(50, 0)),
        ({"limit": "1"}, Page(1, 0)),
        ({"limit": "200", "after": "12"}, Page(200, 12)),
        ({"after": ""}, Page(50, 0)),
    ],
)
def test_a_page_is_read(query: dict[str, str], page: Page[int]) -> None:
    """Fifty items from the start if nothing is said."""
    assert inbound.page(query, inbound.number_cursor, 0) == page


@pytest.mark.parametrize(
    "limit", ["0", "201", "-1", "+5", "1.0", "ten", " 5", "１０", "99999999999999999999"]
)
def test_a_limit_out_of_bounds_is_refused(limit: str) -> None:
    """A limit is a plain number from 1 to 200."""
    with pytest.raises(FixInput) as refused:
        inbound.page({"limit": limit}, inbound.number_cursor, 0)
    assert refused.value.message == f"limit cannot be {limit!r}."


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "9" * 16, "٣"])
def test_a_cursor_that_nobody_gave_is_refused(after: str) -> None:
    """A cursor is what an answer's `next` said."""
    with pytest.raises(FixInput) as refused:
        inbound.page({"after": after}, inbound.number_cursor, 0)
    assert refused.value.message == f"after cannot be {after!r}."


@pytest.mark.parametrize("after", ["1", "1-", "-1", "1-x", "1-1-1", "(1-1", "+"])
def test_a_cursor_of_the_record_is_two_numbers(after: str) -> None:
    """Nothing that means something else to the store passes as a cursor."""
    with pytest.raises(FixInput):
        inbound.stream_cursor(after)


def test_states_and_times_are_read() -> None:
    """Empty means: no filter. A time without a zone is UTC; a plus may arrive as a space."""
    at = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)
    assert inbound.state({}, InquiryState) is None
    assert inbound.state({"state": "pending"}, InquiryState) is InquiryState.PENDING
    assert inbound.moment({}, "since") is None
    assert inbound.moment({"since": "2026-03-02T14:00:00Z"}, "since") == at
    assert inbound.moment({"since": "2026-03-02T14:00"}, "since") == at
    assert inbound.moment({"since": "2026-03-02T16:00:00 02:00"}, "since") == at


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "0001-01-01T00:00:00+23:59", "1969-12-31"])
def test_a_time_that_is_none_is_refused(since: str) -> None:
    """The answer shows how to write one."""
    with pytest.raises(FixInput) as refused:
        inbound.moment({"since": since}, "since")
    assert refused.value.hint == "Send a time like 2026-01-31T18:00:00Z."
