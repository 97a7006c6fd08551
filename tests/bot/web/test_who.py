"""On the page: who stands in for whom, who is called, whose votes count, and who may break the glass."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from agent_runner import moments
from agent_runner.aggregate import Changes
from agent_runner.config import Config, Workspace
from agent_runner.model import Actor, Inquiry, Place, Verdict
from agent_runner.people import Person
from agent_runner.policy import Policy, Route
from bot.commands import Chose
from bot.delivery import Shown
from bot.web.client import WebClient
from cards import compose, mentions
from cards.outcomes import Reader
from tests.bot.web.test_pages import Page, browser, text_of
from tests.bot.web.webdesk import LIN, NOW, WebDesk

TWO: dict[str, Any] = {"approvers": ("kai", "group:oncall"), "quorum": 2}
KAI = Actor(platform="web", user_id="kai", name="Kai", person="kai")
CONFIG = Config(
    workspaces={"ops": Workspace(path="/srv/ops")},
    people={
        "mei": Person(accounts=("web:mei",), display="Mei"),
        "lin": Person(accounts=("web:lin",), groups=("oncall",), display="Lin"),
        "kai": Person(accounts=("web:kai",), display="Kai"),
    },
    policy=Policy(ask=("Bash",), routes=(Route(match=("Bash",), **TWO),), break_glass=("mei",)),
)
WHY = "checkout is down"


@pytest.fixture
def desk(redis_url: str) -> Iterator[WebDesk]:
    """Kai and Lin decide together; Mei may break the glass."""
    with WebDesk(redis_url, CONFIG).serving() as running:
        yield running


def test_the_form_is_there_for_those_who_are_listed(desk: WebDesk) -> None:
    """Folded, with the box that says what it does; nobody else sees it, listed approvers neither."""
    desk.asked(**TWO)
    desk.asked("AskUserQuestion", {"questions": []}, approvers=("kai",))
    with browser(desk, "mei") as mei, browser(desk, "lin") as lin:
        hers, his = mei.get("/inbox").text, lin.get("/inbox").text
    assert (Page(hers).verbs, Page(hers).forbidden) == (["break_glass"], [])
    assert "I approve request #1 alone, without the others. Kai , Lin will be told" in text_of(hers)
    assert "break_glass" not in his


@pytest.mark.parametrize(
    ("lang", "fields", "status", "told"),
    [
        ("en", {"reason": [WHY]}, 422, "Tick the box to confirm that you approve this request alone."),
        ("zh", {"confirm": ["#1"]}, 422, "为什么不能等？本应审批的每个人都会看到理由。"),
        ("ja", {"reason": [" "], "confirm": ["#1"]}, 422, "なぜ待てないのですか？"),
        ("en", {"reason": [WHY], "confirm": ["#2"]}, 422, 'Field confirm must be "#1".'),
        ("en", {"reason": [WHY], "confirm": ["#1"]}, 200, "Recorded for request #1: approved."),
    ],
)
def test_pressing_it_takes_both(
    desk: WebDesk, lang: str, fields: dict[str, list[str]], status: int, told: str
) -> None:
    """A reason and the tick; what is missing is asked back in the reader's language."""
    inquiry = desk.asked(**TWO)
    with browser(desk, "mei", lang) as mei:
        mei.headers["Accept"] = "application/json"
        got = mei.post(f"/cards/{inquiry.id}/break_glass", json={"revision": 1, "fields": fields})
        page = text_of(mei.get(f"/t/{inquiry.task_id}").text)
    assert got.status_code == status
    body = got.json()
    assert told in (body.get("text") or body["error"]["message"])
    assert desk.store.inquiry(inquiry.id).open == (status != 200)
    if status == 200:
        assert f"Approved alone by mei (break-glass) at 14:00: {WHY}" in page
        assert "mei approved request #1 alone at 14:00. Told: Kai , Lin" in page


def test_an_old_form_does_not_break_the_glass(desk: WebDesk) -> None:
    """The request was another one when the form was drawn: look again."""
    inquiry = desk.asked(**TWO)
    desk.handler.choose(Chose(actor=LIN, inquiry_id=inquiry.id, verdict=Verdict.APPROVE))
    fields = {"reason": [WHY], "confirm": ["#1"]}
    with browser(desk, "mei") as mei:
        got = mei.post(f"/cards/{inquiry.id}/break_glass", json={"revision": 1, "fields": fields})
    assert (got.status_code, desk.store.inquiry(inquiry.id).open) == (409, True)


API: list[tuple[str, dict[str, Any], int, str]] = [
    ("mei", {"verdict": "approve", "confirm": "#1"}, 422, "Field reason is missing: why alone?"),
    ("mei", {"verdict": "approve", "reason": WHY}, 422, 'Field confirm must be "#1".'),
    ("mei", {"verdict": "reject", "reason": WHY, "confirm": "#1"}, 422, "Break-glass only approves"),
    ("mei", {"verdict": "approve", "reason": WHY, "confirm": 1}, 422, "Field confirm must be text"),
    ("lin", {"verdict": "approve", "reason": WHY, "confirm": "#1"}, 403, "lin may not approve request #1"),
    ("mei", {"verdict": "approve", "reason": WHY, "confirm": "#1"}, 200, ""),
]


@pytest.mark.parametrize(("who", "body", "status", "message"), API)
def test_the_api_says_what_is_missing(
    desk: WebDesk, who: str, body: dict[str, Any], status: int, message: str
) -> None:
    """422 with the field, 403 for who is not listed (on record), 200 when it is done."""
    inquiry = desk.asked(**TWO)
    with desk.client(who) as client:
        got = client.post(f"/api/inquiries/{inquiry.id}/decision", json={**body, "break_glass": True})
    assert got.status_code == status
    events = [str(entry.event) for entry in desk.store.audit_of(inquiry.task_id)]
    if status == 200:
        decision = got.json()["decision"]
        assert (decision["break_glass"], decision["reason"], got.json()["state"]) == (True, WHY, "approved")
        assert events[-2:] == ["break_glass", "decided"]
    else:
        assert message in got.json()["error"]["message"]
        assert desk.store.inquiry(inquiry.id).open
        assert ("refused_attempt" in events) == (status == 403)


def test_without_the_word_the_route_counts(desk: WebDesk) -> None:
    """Mei is no approver: an ordinary approval of hers is refused as before."""
    inquiry = desk.asked(**TWO)
    with desk.client("mei") as client:
        got = client.post(f"/api/inquiries/{inquiry.id}/decision", json={"verdict": "approve"})
    assert (got.status_code, desk.store.inquiry(inquiry.id).open) == (403, True)


def test_being_away_is_said_in_a_thread_or_at_the_start(desk: WebDesk) -> None:
    """It starts no job; the card names who decides now, and that person may."""
    inquiry = desk.asked(approvers=("lin",))
    with browser(desk, "lin") as lin, browser(desk, "mei", "zh") as mei:
        said = lin.post(f"/t/{inquiry.task_id}/say", json={"text": "away until tomorrow -> mei"})
        page = text_of(mei.get("/inbox").text)
        back = lin.post("/threads", json={"text": "back"})
        again = lin.post("/threads", json={"text": "away for 2h -> mei"})
        wrong = mei.post("/threads", json={"text": "离开到 明天 -> 小明"})
        got = mei.post(f"/cards/{inquiry.id}/approve", json={"revision": 1})
        record = text_of(mei.get("/audit").text)
    assert said.json()["text"].startswith("Lin is away until 2026-03-03 23:59. Until then Mei decides")
    assert "Mei （代 Lin ） 可审批" in page
    assert (back.json()["text"], again.status_code) == ("Lin is back and decides again.", 200)
    assert wrong.json() == {"text": "[people] 中没有叫 小明 的人。"}
    assert (got.status_code, len(desk.store.list_tasks(None, after=None, limit=9))) == (200, 1)
    decision = desk.store.inquiry(inquiry.id).decision
    assert (decision and decision.acting_for) == "lin"
    assert "mei （代 lin ） 对请求 #1 作出决定" in record


def escalated(desk: WebDesk) -> Inquiry:
    """A request that was escalated to Mei, and then reminded of."""
    inquiry = desk.asked(
        approvers=("kai",),
        remind_at=NOW + timedelta(minutes=2),
        escalate_at=NOW + timedelta(minutes=1),
        escalate_to=("mei",),
    )
    desk.later(minutes=3)
    for come in (moments.escalate, moments.remind):
        moment = functools.partial(come, inquiry_id=inquiry.id, now=desk.now())
        desk.store.transact(inquiry.task_id, moment)
    return desk.store.inquiry(inquiry.id)


def posted(desk: WebDesk, inquiry: Inquiry) -> None:
    """What the courier posts to the page's threads."""
    reader = Reader("en", desk.service().zone, desk.now())
    place = Place(platform="web", thread=inquiry.task_id)
    client = WebClient(desk.registers, "en", desk.now)
    for post in mentions.posts(inquiry, reader, desk.handler.told(inquiry, "web")):
        shown = Shown(key=post.key, task_id=inquiry.task_id, revision=1, card=post.card)
        asyncio.run(client.post(place, shown))


def test_calls_stand_in_the_thread_and_stay_there(desk: WebDesk) -> None:
    """The escalation and the reminder, each once; after the decision they are history."""
    inquiry = escalated(desk)
    with browser(desk, "mei") as mei:
        page = mei.get(f"/t/{inquiry.task_id}").text
        posted(desk, inquiry)
        mei.post(f"/cards/{inquiry.id}/approve", json={"revision": inquiry.revision})
        after = mei.get(f"/t/{inquiry.task_id}").text
    told = (
        "Request #1 waits since 14:00. Now Mei may decide as well; until 22:00",
        "Request #1 still waits for Kai , Mei , since 14:00; until 22:00",
    )
    for html in (page, after):
        assert [line in text_of(html) for line in told] == [True, True]
        assert [html.count(f'data-key="{kind}:1"') for kind in ("escalated", "reminder")] == [1, 1]
    assert Page(after).verbs == ["stop"]


def test_votes_are_seen_with_their_words_everywhere(desk: WebDesk) -> None:
    """On the card, in the API and in the terminal's list; in whose place, too."""
    inquiry = desk.asked(veto=False, **{**TWO, "approvers": ("kai", "lin", "mei")})
    desk.handler.away.leave("kai", "3h", "mei")
    no = Chose(actor=LIN, inquiry_id=inquiry.id, verdict=Verdict.REJECT, reason="the canary is red")
    desk.handler.choose(no)
    with browser(desk, "mei") as mei, desk.client("mei") as client:
        page = text_of(mei.get(f"/t/{inquiry.task_id}").text)
        shown = client.get(f"/api/inquiries/{inquiry.id}").json()
        listed = client.get(f"/api/tasks/{inquiry.task_id}/posts").json()["items"][1]["text"]
    assert "Rejected by lin at 14:00 the canary is red" in page
    assert "a rejection is one vote of several" in page
    assert "Rejected by lin at 14:00:\n    the canary is red" in listed
    assert [(v["verdict"], v["words"], v["acting_for"]) for v in shown["votes"]] == [
        ("reject", "the canary is red", "")
    ]


def test_the_record_tells_moments_and_break_glass(desk: WebDesk) -> None:
    """Each is an event with a sentence of its own."""
    inquiry = escalated(desk)
    alone = {"reason": [WHY], "confirm": ["#1"]}
    with browser(desk, "mei") as mei:
        mei.post(f"/cards/{inquiry.id}/break_glass", json={"revision": inquiry.revision, "fields": alone})
        record = text_of(mei.get("/audit").text)
    for line in (
        "Those who may decide request #1 were reminded",
        "Request #1 was escalated: more people may decide it",
        "mei approved request #1 alone (break-glass)",
    ):
        assert line in record


def test_a_stored_request_of_an_earlier_version_is_read(desk: WebDesk) -> None:
    """What was stored before there were moments has none, and its first no ends it."""
    inquiry = desk.asked(approvers=("lin",))
    new = ("veto", "remind_at", "reminded_at", "escalate_at", "escalate_to", "escalated_at")
    old = inquiry.model_dump(mode="json", exclude=set(new))
    read = Inquiry.model_validate(old)
    assert (read, read.veto, read.next_moment) == (inquiry, True, inquiry.expires_at)
    desk.store.transact(inquiry.task_id, lambda _: Changes(inquiries=(read,)))
    assert compose.inquiry_card(read, lang="en", zone=desk.service().zone, now=NOW) == compose.inquiry_card(
        inquiry, lang="en", zone=desk.service().zone, now=NOW
    )
