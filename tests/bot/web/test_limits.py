"""Conditions that are checked, over the API and on the page."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from agent_runner import calls
from tests.bot.web.test_pages import browser, text_of
from tests.bot.web.webdesk import WebDesk

LIMITS = [
    {"kind": "before", "value": "2026-03-03T01:00:30+08:00"},
    {"kind": "with", "value": "restart"},
    {"kind": "times", "value": 3},
]


def test_limits_are_data(desk: WebDesk) -> None:
    """Sent as data or as words, they come back as data, with the grant that counts the runs."""
    as_data, as_words = desk.asked(), desk.asked()
    with desk.client() as client:
        for inquiry, sent in (
            (as_data, {"limits": LIMITS}),
            (as_words, {"conditions": 'only before 17:00; only with "restart", at most 3 times'}),
        ):
            path = f"/api/inquiries/{inquiry.id}/decision"
            got = client.post(path, json={"verdict": "change", **sent})
            assert (got.status_code, got.json()["state"], got.json()["decision"]["limits"]) == (
                200,
                "changed",
                [
                    {"kind": "before", "value": "2026-03-02T17:00:00+00:00"},
                    {"kind": "with", "value": "restart"},
                    {"kind": "times", "value": "3"},
                ],
            )
        desk.ran(as_data)
        grants = client.get("/api/grants").json()["items"]
    assert [(g["id"], g["times"], g["used"], g["until"]) for g in grants] == [
        ("g1", 3, 1, "2026-03-02T17:00:00Z"),
        ("g2", 3, 0, "2026-03-02T17:00:00Z"),
    ]


BAD: list[tuple[Any, str]] = [
    ("soon", "Field limits must be a list, not text."),
    (["soon"], "limits[0] must be an object, not text."),
    ([LIMITS[1], {"kind": "until", "value": "x"}], "Field kind cannot be 'until'."),
    ([{"value": "x"}], "Field kind is missing."),
    ([{"kind": "with", "value": "x", "by": "lin"}], "Unknown field: by."),
    ([{"kind": "with"}], "limits[0].value must be text, not null."),
    ([{"kind": "in", "value": 5}], "limits[0].value must be text, not a number."),
    ([{"kind": "times", "value": True}], "limits[0].value must be text, not true or false."),
    ([{"kind": "times", "value": 1.5}], "limits[0].value must be text, not a number."),
    ([{"kind": "times", "value": -1}], "limits[0].value cannot be '-1'."),
    ([{"kind": "before", "value": "18:00"}], "limits[0].value cannot be '18:00'."),
    ([{"kind": "before", "value": "2026-12-01T18:00:00"}],
     "limits[0].value cannot be '2026-12-01T18:00:00'."),
    ([{"kind": "before", "value": "0001-01-01T00:00:00+14:00"}],
     "limits[0].value cannot be '0001-01-01T00:00:00+14:00'."),
    ([{"kind": "with", "value": ""}], "limits[0].value cannot be ''."),
    ([{"kind": "with", "value": "x" * 201}], f"limits[0].value cannot be '{'x' * 100}'."),
    ([LIMITS[1]] * 21, "At most 20 limits can be given."),
    ([{"kind": "before", "value": "2026-03-02T14:00:00Z"}],
     "2026-03-02 14:00 is over already, so it could never run."),
    ([{"kind": "with", "value": "--dry-run"}], "--dry-run is not in this call, so it could never run."),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "message"), BAD)
def test_limits_that_cannot_be_used(desk: WebDesk, limits: Any, message: str) -> None:
    """422 with what is wrong, and nothing is decided."""
    inquiry = desk.asked()
    with desk.client() as client:
        got = client.post(
            f"/api/inquiries/{inquiry.id}/decision", json={"verdict": "change", "limits": limits}
        )
    assert (got.status_code, got.json()["error"]["code"], got.json()["error"]["message"]) == (
        *(422, "invalid", message),
    )
    assert got.json()["error"]["hint"] != ""
    assert desk.store.inquiry(inquiry.id).open


def test_the_page_says_how_often_it_ran(desk: WebDesk) -> None:
    """The form of the card takes the conditions; the list of grants counts; the record names both."""
    inquiry = desk.asked()
    with browser(desk) as mei:
        sent = {"revision": 1, "fields": {"conditions": ["at most 3 times"]}}
        assert mei.post(f"/cards/{inquiry.id}/change", json=sent).status_code == 200
        desk.ran(inquiry)
        page = mei.get("/grants").text
        rows = [text_of(row) for row in re.findall(r"<li class=\"fact\".*?</li>", page, re.DOTALL)]
        record = html.unescape(mei.get(f"/audit?task={inquiry.task_id}").text)
        thread = html.unescape(mei.get(f"/t/{inquiry.task_id}").text)
    assert rows == [
        "g1 Exactly the call of request #1 in this thread · 1 of 3 used · by mei at 14:00 · #1 Revoke"
    ]
    assert "approved the exact call of request #1 for 3 runs" in text_of(record)
    assert "at 14:00, at most 3 times" in text_of(thread)


def test_a_call_that_was_held_back_is_seen(desk: WebDesk) -> None:
    """On its card, over the API and on record, with the reason."""
    inquiry, why = desk.asked(), "mei allowed it only before 2026-03-02 14:10 UTC, and that time is over."
    with browser(desk) as mei, desk.client() as client:
        client.post(
            f"/api/inquiries/{inquiry.id}/decision",
            json={"verdict": "change", "conditions": "only before 14:10"},
        )
        desk.later(minutes=11)
        desk.start(inquiry.task_id)
        desk.store.transact(
            inquiry.task_id, lambda s: calls.held_back(s, inquiry.id, "toolu_1", why, desk.now())
        )
        told = client.get(f"/api/inquiries/{inquiry.id}").json()
        thread, record = (
            text_of(html.unescape(mei.get(path).text))
            for path in (f"/t/{inquiry.task_id}", f"/audit?task={inquiry.task_id}")
        )
    assert (told["execution"], told["held_back"]) == ("none", why)
    assert ("held back, so it did not run" in thread, why in thread) == (True, True)
    assert "The approved call of request #1 was held back" in record
