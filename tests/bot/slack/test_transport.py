"""The wire: sockets that come and go, two bots on one app, signed HTTP, and everything acknowledged."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import uvicorn

from agent_runner.model import InquiryState
from agent_runner.registers import connect_feed
from bot.background import MOST_BODY
from bot.slack.app import PATH
from bot.web.app import create_app
from bot.web.server import WebServer
from bot.web.service import Service
from tests.bot.slack.conftest import Scene, key_of, text_of
from tests.fakes.slack_events import Delivery

Make = Callable[..., Scene]

NO_WAIT = {"PING_SECONDS": 0.1, "SILENT_SECONDS": 0.6}


def approve(s: Scene, card: Any, user: str) -> None:
    """A click that must arrive."""
    click = s.slack.click(user, card, "approve")
    assert click.acked
    assert click.error is None


# --- sockets -----------------------------------------------------------------------------


def test_two_sockets_so_that_one_can_fail(scene: Make) -> None:
    """While one reconnects the other listens."""
    s = scene()
    assert len(s.slack.sockets) == 2
    card, _ = s.pending()
    s.slack.sockets[0].kill()
    s.until(lambda: len(s.slack.sockets) == 1)
    approve(s, card, s.lin)
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "too_many_websockets"])
def test_disconnect_frames_open_new_connections(scene: Make, reason: str) -> None:
    """Slack says goodbye to both: new ones are opened, and clicks arrive on them."""
    s = scene()
    card, _ = s.pending()
    old = s.slack.sockets
    opened = len(s.slack.called("apps.connections.open"))
    s.slack.disconnect(reason)
    s.until(lambda: len(s.slack.called("apps.connections.open")) >= opened + 2)
    s.until(lambda: len([one for one in s.slack.sockets if one not in old]) == 2)
    approve(s, card, s.lin)
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)


@pytest.mark.parametrize("end", ["killed", "closed"])
def test_cut_sockets_come_back(scene: Make, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Both at once, with or without a goodbye; an event meanwhile is sent again by Slack and done once."""
    quick(monkeypatch)
    s = scene()
    old = s.slack.sockets
    for socket in old:
        socket.kill() if end == "killed" else socket.close()
    s.until(lambda: not [one for one in s.slack.sockets if one in old])
    thread = s.asked()
    s.until(lambda: len(s.slack.sockets) == 2)
    assert (len(s.tasks()), len(s.posts(thread))) == (1, 1)


def test_a_socket_that_answers_no_ping_is_given_up(scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks open and nothing comes: after a while it is opened anew, and clicks arrive again."""
    quick(monkeypatch)
    s = scene()
    card, _ = s.pending()
    old = s.slack.sockets
    for socket in old:
        socket.answers_pings = False
    s.until(lambda: len([one for one in s.slack.sockets if one not in old]) >= 2)
    s.until(lambda: not [one for one in s.slack.sockets if one in old])
    approve(s, card, s.lin)
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings often and gives up soon: seconds instead of half a minute."""
    for name, seconds in NO_WAIT.items():
        monkeypatch.setattr(f"bot.slack.app.{name}", seconds)


# --- everything is acknowledged ----------------------------------------------------------


def odd(s: Scene) -> Iterator[Delivery]:
    """Payloads that Slack may send and this app has no use for."""
    about = {"team": {"id": "T0TEAM"}, "user": {"id": s.mei, "team_id": "T0TEAM"}, "api_app_id": "A0APP"}
    for event in (
        {"type": "reaction_added", "user": s.mei, "reaction": "eyes", "item": {}},
        {"type": "member_joined_channel", "user": s.mei, "channel": s.ops},
        {"type": "app_uninstalled"},
        {"type": "app_home_opened", "user": s.mei, "tab": "messages"},
        {"type": "assistant_thread_context_changed", "assistant_thread": {}},
        {"type": "assistant_thread_started"},
        {"type": "message"},
        {"type": "message", "subtype": "channel_join", "user": s.mei, "channel": s.ops, "ts": "1.1"},
        {"type": "something_new", "x": [1, 2, {"y": None}]},
    ):
        payload = {"type": "event_callback", "event_id": f"Ev{event['type']}", "team_id": "T0TEAM"}
        yield Delivery("events_api", {**payload, "event": event})
    for kind in ("shortcut", "message_action"):
        yield Delivery("interactive", {**about, "type": kind, "callback_id": "x", "trigger_id": "1"})
    view = {"id": "V1", "type": "modal", "callback_id": "x", "state": {"values": {}}, "blocks": []}
    for kind in ("view_closed", "view_submission"):
        yield Delivery(
            "interactive", {**about, "type": kind, "view": view, "is_cleared": False}, answers=True
        )
    for verb, form in (("reject", "{}"), ("reject", "no json"), ("approve", "[]")):
        broken = {**view, "callback_id": verb, "private_metadata": form}
        yield Delivery("interactive", {**about, "type": "view_submission", "view": broken}, answers=True)
    for action in (
        {"type": "button", "action_id": "x", "block_id": "b", "value": "y"},
        {"type": "button", "action_id": "approve", "block_id": "b"},
    ):
        yield Delivery(
            "interactive", {**about, "type": "block_actions", "trigger_id": "1", "actions": [action]}
        )
    yield Delivery(
        "interactive",
        {**about, "type": "block_suggestion", "action_id": "x", "block_id": "b", "value": "q"},
        answers=True,
    )
    yield Delivery(
        "slash_commands", {"command": "/other", "text": "x", "user_id": s.mei, "team_id": "T0TEAM"}
    )


def test_everything_is_acknowledged_at_once(scene: Make) -> None:
    """Known or not, ours or not: Slack gets its answer, and nothing is sent a second time."""
    s = scene()
    sent = [s.slack.redeliver(delivery) for delivery in odd(s)]
    for delivery in sent:
        assert delivery.acked, delivery.payload
        assert len(delivery.attempts) == 1, delivery.payload
    s.quiet()
    assert s.slack.late == []
    assert s.tasks() == ()


def test_a_press_is_acknowledged_before_anything_is_looked_up(scene: Make) -> None:
    """Slack's own slowness does not reach the person: the press is taken while users.info hangs."""
    s = scene()
    card, _ = s.pending()
    s.slack.hang("users.info", 1.0)
    click = s.slack.click(s.eve, card, "approve")
    assert click.acked
    assert not s.slack.late
    assert (click.ack_ms or 0) < 1000
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)


# --- two bots on one app -----------------------------------------------------------------


def test_either_of_two_bots_serves_and_one_delivers(scene: Make) -> None:
    """Clicks go to any of the four sockets; messages are posted once."""
    s = scene()
    s.open()
    assert len(s.slack.sockets) == 4
    cards = []
    for _ in range(4):
        cards.append(s.pending()[0])
    clicks = [s.slack.click(s.lin, card, "approve") for card in cards]
    assert [click.acked for click in clicks] == [True] * 4
    for number in range(1, 5):
        s.until(lambda: s.inquiry(number).state is InquiryState.APPROVED)  # noqa: B023  (called before the loop goes on)
    for card in cards:
        s.until(lambda: s.seen(card).buttons == {})  # noqa: B023  (called before the loop goes on)
    keys = [(post.thread_ts, key_of(post)) for post in s.slack.posts(s.ops) if key_of(post)]
    assert sorted(keys) == sorted(set(keys))


def test_the_other_bot_takes_over(scene: Make) -> None:
    """The one that delivers stops; the next message comes from the other, once, and clicks arrive there."""
    s = scene()
    first = s.office
    with ExitStack() as life:
        s.office = second = s.open(life)
        s.office = first
        thread = s.asked()
        task = first.task()
        first.run(first._stop())
        s.until(lambda: len(s.slack.sockets) == 2)
        second.asks(task.id)
        s.office = second
        card = s.card(thread, "request:1")
        approve(s, card, s.lin)
        s.until(lambda: s.seen(card).buttons == {})
        assert [key_of(post) for post in s.posts(thread)] == ["status", "request:1"]


# --- signed HTTP -------------------------------------------------------------------------


@contextmanager
def by_http(scene: Make) -> Iterator[Scene]:
    """A scene whose payloads come by signed HTTP to the web page's own address."""
    s = scene(fake={"deliver": "http"}, chat={"mode": "http"})
    office = s.office
    service = Service(
        handler=office.handler,
        store=office.store,
        registers=office.registers,
        config=s.config,
        clock=office.now,
        runners=lambda: 1,
        async_redis=lambda: connect_feed(s.url),
        version="1",
        zone=UTC,
    )
    app = create_app(service, office.doors["slack"].http)
    server = WebServer(uvicorn.Config(app, port=0, log_level="warning"), app.state.feed)

    async def serve() -> asyncio.Task[None]:
        return asyncio.create_task(server.serve())

    running = office.run(serve())
    s.until(lambda: server.started)
    s.slack.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}{PATH}"
    try:
        yield s
    finally:
        server.should_exit = True

        async def ended() -> None:
            await running

        office.run(ended())


def test_a_whole_thread_by_signed_http(scene: Make) -> None:
    """Mention, click, form with an error and a reason, slash command: the same as over a socket."""
    with by_http(scene) as s:
        assert s.slack.sockets == []
        card, _ = s.pending()
        s.slack.click(s.lin, card, "reject")
        form = s.form(s.lin)
        assert s.submit(s.lin, form, {"reason": " "}).response_action == "errors"
        assert s.submit(s.lin, form, {"reason": "no"}).answer is None
        s.until(lambda: "Rejected by lin" in text_of(s.seen(card)))
        s.slack.command(s.mei, s.ops, "status")
        assert s.told(s.mei) == ["Waiting for you: none. Your running jobs: #1."]
        for delivery in [s.slack.redeliver(one) for one in odd(s)]:
            assert delivery.acked, delivery.payload
        s.quiet()
        assert s.slack.late == []


def test_only_slacks_own_requests_are_taken(scene: Make) -> None:
    """A wrong, missing or old signature, another method, a body far too large: refused, nothing done."""
    with by_http(scene) as s, httpx.Client(trust_env=False) as http:
        url = str(s.slack.url)
        card, _ = s.pending()
        press = {**s.slack.click(s.lin, card, "change").wait().payload}
        action = press["actions"][0]
        press["actions"] = [
            {**action, "action_id": "approve", "value": action["value"].replace("change", "approve")}
        ]
        body = urlencode({"payload": json.dumps(press)})
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        now = int(time.time())
        good = s.slack._wire.signed(body, now)
        wrong = {**good, "X-Slack-Signature": "v0=" + "0" * 64}
        missing = {k: v for k, v in good.items() if k != "X-Slack-Signature"}
        old = s.slack._wire.signed(body, now - 301)
        early = s.slack._wire.signed(body, now + 400)
        of_another = s.slack._wire.signed(body + " ", now)
        for headers in (wrong, missing, old, early, of_another, {}):
            assert http.post(url, content=body, headers={**form, **headers}).status_code == 401
        assert http.get(url, headers=good).status_code == 404
        huge = "x" * (MOST_BODY + 1)
        answer = http.post(url, content=huge, headers={**form, **s.slack._wire.signed(huge, now)})
        assert answer.status_code == 413
        s.quiet()
        assert s.inquiry().open
        assert http.post(url, content=body, headers={**form, **good}).status_code == 200
        s.until(lambda: s.inquiry().state is InquiryState.APPROVED)


def test_slack_checks_the_address(scene: Make) -> None:
    """When the address is entered Slack sends a challenge, signed like all else."""
    with by_http(scene) as s, httpx.Client(trust_env=False) as http:
        body = json.dumps({"type": "url_verification", "challenge": "c-1", "token": "legacy"})
        headers = {"Content-Type": "application/json", **s.slack._wire.signed(body, int(time.time()))}
        answer = http.post(str(s.slack.url), content=body, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {"challenge": "c-1"})


def test_with_sockets_nothing_is_taken_by_http(scene: Make) -> None:
    """The page has no such address then."""
    s = scene()
    assert dict(s.office.doors["slack"].http) == {}
