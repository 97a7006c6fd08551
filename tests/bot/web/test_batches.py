"""A batch over the API and on the page: one word about all steps, and what the reader sees."""

from __future__ import annotations

import html
from typing import Any

import httpx
import pytest

from agent_runner.model import Inquiry
from tests.bot.web.test_pages import browser, text_of
from tests.bot.web.webdesk import LIN, WebDesk

COMMANDS = ("terraform plan -out p", "terraform apply p", "echo done")
ONCALL: dict[str, Any] = {"approvers": ("group:oncall",)}


def opened(desk: WebDesk, *, second: dict[str, Any] | None = None) -> tuple[Inquiry, ...]:
    """Three steps of one turn; `second` changes the second of them."""
    return desk.asked_together(*COMMANDS, second=second)


def decide(desk: WebDesk, body: Any, *, who: str = "lin", batch: str = "t_1-1-1") -> httpx.Response:
    """`POST /api/batches/{batch}/decision`."""
    with desk.client(who) as client:
        return client.post(f"/api/batches/{batch}/decision", json=body)


def test_all_steps_are_approved_by_their_digests(desk: WebDesk) -> None:
    """The answer says what came of each, and the turn goes on."""
    steps = opened(desk)
    answer = decide(desk, {"verdict": "approve", "digests": [s.digest for s in steps]})
    assert answer.status_code == 200
    assert answer.json() == {
        "verdict": "approve",
        "items": [{"id": s.id, "number": s.number, "result": "recorded", "state": "approved"} for s in steps],
    }
    assert desk.queued.count("t_1") == 2


def test_what_is_left_open_is_in_the_answer(desk: WebDesk) -> None:
    """A step that was not seen, and one that is for others."""
    steps = opened(desk, second=ONCALL)
    answer = decide(desk, {"verdict": "approve", "digests": [s.digest for s in steps[:2]]}, who="mei")
    items = [(one["result"], one["state"]) for one in answer.json()["items"]]
    assert items == [("recorded", "approved"), ("not_allowed", "pending"), ("not_seen", "pending")]


def test_all_are_rejected_with_a_reason(desk: WebDesk) -> None:
    """Digests are not needed to say no."""
    steps = opened(desk)
    answer = decide(desk, {"verdict": "reject", "reason": "not now"})
    assert (answer.status_code, {i["state"] for i in answer.json()["items"]}) == (200, {"rejected"})
    assert desk.store.inquiry(steps[2].id).decision.reason == "not now"  # type: ignore[union-attr]  # decided


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid"),
        ({"verdict": "approve"}, 422, "invalid"),
        ({"verdict": "approve", "digests": "all"}, 422, "invalid"),
        ({"verdict": "approve", "digests": [1]}, 422, "invalid"),
        ({"verdict": "approve", "digests": []}, 409, "digest_differs"),
        ({"verdict": "approve", "digests": ["0" * 64]}, 409, "digest_differs"),
        ({"verdict": "reject"}, 422, "invalid"),
        ({"verdict": "change", "digests": []}, 422, "invalid"),
        ({"verdict": "reject", "reason": "x", "scope": "task"}, 422, "invalid"),
    ],
)
def test_what_is_wrong_is_said_and_decides_nothing(
    desk: WebDesk, body: dict[str, Any], status: int, code: str
) -> None:
    """Every mistake has its status and its code."""
    steps = opened(desk)
    answer = decide(desk, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert all(desk.store.inquiry(s.id).open for s in steps)


def test_other_refusals(desk: WebDesk) -> None:
    """403 who may decide none, 404 no such batch, 409 decided by whom, 410 over."""
    steps = desk.asked_together(*COMMANDS, **ONCALL)
    yes = {"verdict": "approve", "digests": [s.digest for s in steps]}
    assert decide(desk, yes, who="mei").status_code == 403
    assert decide(desk, yes, batch="t_1-9-1").status_code == 404
    desk.later(hours=9)
    assert decide(desk, yes).status_code == 410
    desk.later(hours=-9)
    assert decide(desk, yes).status_code == 200
    late = decide(desk, {"verdict": "reject", "reason": "no"})
    assert (late.status_code, late.json()["error"]["by"]) == (409, LIN.name)


def test_a_thread_has_one_card_for_the_steps_and_so_has_the_inbox(desk: WebDesk) -> None:
    """Buttons only for what the reader may decide; in the inbox of both it stands once."""
    steps = opened(desk, second=ONCALL)
    with browser(desk) as mei:
        page, inbox = mei.get("/t/t_1").text, mei.get("/inbox").text
    for shown in (page, inbox):
        assert text_of(shown).count("Requests #1-#3 · 3 steps of one turn in ops") == 1
        assert shown.count('data-verb="approve"') == 2
        assert f'data-verb="approve" data-inquiry="{steps[1].id}"' not in shown
    assert "You can't decide this one." in html.unescape(page)


def test_the_buttons_of_the_card_decide(desk: WebDesk) -> None:
    """All that was seen; without a reason, no refusal; what was not seen, not at all."""
    steps = opened(desk)
    url = f"/cards/{steps[0].id}"
    with browser(desk) as mei:
        mei.headers["Accept"] = "application/json"
        blank = mei.post(f"{url}/reject_all", json={"revision": 3, "fields": {}, "seen": "1.1 2.1 3.1"})
        assert (blank.status_code, blank.json()["error"]["code"]) == (422, "ask_back")
        unseen = mei.post(f"{url}/approve_all", json={"revision": 3, "fields": {}})
        assert unseen.status_code == 409
        some = mei.post(f"{url}/approve_all", json={"revision": 3, "fields": {}, "seen": "1.1 3.1"})
        assert some.json()["text"].splitlines() == [
            "Recorded for #1, #3: approved.",
            "Still open, because it changed since you saw it: #2.",
        ]
    assert [str(desk.store.inquiry(s.id).state) for s in steps] == ["approved", "pending", "approved"]


def test_a_batch_is_answered_in_the_terminal_like_in_a_thread(desk: WebDesk) -> None:
    """The numbered list shows the letters, and the reply is understood."""
    steps = opened(desk)
    with desk.client("mei") as client:
        listed = client.get("/api/tasks/t_1/posts").json()["items"]
        assert [one["key"] for one in listed] == ["status", "request:1"]
        assert "b · #2 · Bash" in listed[1]["text"]
        told = client.post("/api/tasks/t_1/messages", json={"text": "a1 b3 not yet c1"}).json()
    assert told["text"] == "Recorded for #1, #3: approved.\nRecorded for #2: rejected."
    assert [str(desk.store.inquiry(s.id).state) for s in steps] == ["approved", "rejected", "approved"]
