"""The main job on Slack end to end: an independent Slack server, `countersign up`, the real CLI.

Over Socket Mode that server hands everything to each of a bot's sockets, so all that is asserted
here about "once" holds although every message and every press came twice.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from slack_sdk.signature import SignatureVerifier

from agent_runner.messages_api import MessagesServer
from agent_runner.messages_request import Request, Text, ToolUse
from bot.slack.app import CONNECTIONS, PATH
from cards import wording
from tests.fakes.local_slack import PATH_NAME, App, Json, LocalSlack, buttons, pinged, program, text_of
from tests.fakes.scripts import WRITE
from tests.fakes.stack import Stack, until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("local-slack")]

MEI, LIN, KAI = "U0MEI", "U0LIN", "U0KAI"
SOCKET = App("A0SOCKET", "U0SOCKET", "C0OPS")

CONFIG = """
[slack]
mode = "{mode}"
api_url = "{url}"
[[policy.route]]
match = ["Bash"]
approvers = ["lin"]
requester_may_decide = false
[people.lin]
slack = "T0HOME:U0LIN"
"""


def model(request: Request) -> list[Any]:
    """Writes a line, and ends with what came of it."""
    if request.auxiliary:
        return [Text("ok")]
    if request.tool_uses_since_prompt:
        return [Text(f"The end. {request.last_results[-1].text}")]
    return [Text("I will write a line."), ToolUse(request.fresh_id(), "Bash", WRITE)]


class Office:
    """A bot at work in its channel, and what people do there."""

    def __init__(self, slack: LocalSlack, app: App, stack: Stack) -> None:
        self.slack = slack
        self.app = app
        self.stack = stack

    def asked(self, text: str = "write it") -> tuple[str, Json]:
        """Mei mentions the bot; returns the thread and the card that asks, once it stands there."""
        thread = self.slack.say(MEI, self.app.channel, f"<@{self.app.botUserId}> {text}")
        return thread, until(lambda: self._open_card(thread), why="no card asks for a decision")

    def _open_card(self, thread: str) -> Json | None:
        return next((post for post in self.posts(thread) if "approve" in buttons(post)), None)

    def posts(self, thread: str) -> list[Json]:
        """What the bot wrote into a thread."""
        return self.slack.thread(self.app.channel, thread)

    def until_ended(self, thread: str, card: Json, decided: str) -> list[str]:
        """Waits until nothing in the thread can be pressed, and returns its texts: status, card, result."""

        def settled() -> bool:
            posts = self.posts(thread)
            return len(posts) > 2 and not any(map(buttons, posts))

        until(settled, why="the thread never came to its end")
        assert decided in text_of(self.slack.message(self.app.channel, card["ts"]))
        return list(map(text_of, self.posts(thread)))

    def form(self, card: Json, verb: str) -> Json:
        """Lin presses a button that opens a form; returns it once each of the two deliveries filled it in."""
        before = len(self.slack.log("web_api", "views.update"))
        self.slack.click(LIN, card, verb)
        until(lambda: len(self.slack.log("web_api", "views.update")) == before + CONNECTIONS)
        view = self.slack.view()
        assert view is not None
        assert view["callback_id"] == verb
        return view


@pytest.fixture(scope="module")
def scripted() -> Iterator[MessagesServer]:
    """The model behind both bots."""
    with MessagesServer(model) as server:
        yield server


@pytest.fixture(scope="module")
def web() -> App:
    """An app that gets everything over HTTP, at a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return App("A0HTTP", "U0HTTP", "C0WEB", "events", f"http://127.0.0.1:{port}{PATH}")


@pytest.fixture(scope="module")
def slack(web: App, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSlack]:
    """The server. Without the program these tests are skipped, but never in CI."""
    found = program()
    if found is None:
        missing = f"no local-slack: {PATH_NAME} does not name the program (.ci/run installs it)"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    people = {MEI: "mei", LIN: "lin", KAI: "kai"}
    with LocalSlack(found, tmp_path_factory.mktemp("slack"), [SOCKET, web], people) as server:
        yield server


@pytest.fixture(scope="module")
def running(
    slack: LocalSlack, scripted: MessagesServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Office]:
    """A bot in Socket Mode, with all its sockets open."""
    with _stack(slack, SOCKET, scripted, tmp_path_factory.mktemp("socket")) as stack:
        until(lambda: len(slack.log("socket", f"(hello) [{SOCKET.appId}]")) == CONNECTIONS)
        yield Office(slack, SOCKET, stack)


@pytest.fixture
def office(running: Office) -> Office:
    """The same with an empty workspace."""
    (running.stack.workspace / "out.txt").unlink(missing_ok=True)
    return running


def _stack(slack: LocalSlack, app: App, scripted: MessagesServer, folder: Path) -> Stack:
    mode = "socket" if app.mode == "socket" else "http"
    port = httpx.URL(app.requestUrl).port or 0
    return Stack(
        folder,
        model_url=scripted.url,
        config=CONFIG.format(mode=mode, url=slack.api_url),
        environment=app.environment,
        flags=("--port", str(port)),
    )


def test_a_mention_is_asked_about_clicked_and_done(office: Office) -> None:
    """Mention, card, a click that does not count, one that does, resumed job, result in the thread."""
    thread, card = office.asked()
    assert WRITE["command"] in text_of(card)
    assert pinged(card) == {LIN}
    office.slack.click(MEI, card, "approve")
    told = until(lambda: office.slack.whispers("C0OPS", MEI), why="whoever may not decide is not told")
    assert told[0] == "You can't decide this one. These can: lin."
    assert office.stack.lines() == []
    office.slack.click(LIN, card, "approve")
    status, _, result = office.until_ended(thread, card, "Approved by lin")
    assert "No longer working: done" in status
    assert "The end." in result
    assert office.stack.lines() == ["done"]


def test_a_rejection_needs_a_reason_and_it_arrives(office: Office, scripted: MessagesServer) -> None:
    """Reject opens a form; without a reason it stays open; the reason reaches the model word for word."""
    reason = "use the “canary” *first* & <slowly>\n先备份"
    thread, card = office.asked()
    view = office.form(card, "reject")
    assert list(office.slack.submit(LIN, view, reason=" ")) == ["reason@1"]
    assert office.slack.submit(LIN, view, reason=reason) == {}
    status, shown, _ = office.until_ended(thread, card, "Rejected by lin")
    assert ("No longer working: done" in status, reason in shown) == (True, True)
    assert reason in scripted.calls[-1].text
    assert office.stack.lines() == []


def test_the_command_and_the_home_tab_answer(office: Office) -> None:
    """`/countersign help` is answered to that person alone; the Home tab says what waits: nothing."""
    office.slack.command(KAI, "C0OPS", "help", SOCKET)
    help_text = wording.text("en", "reply.help")
    until(lambda: help_text in office.slack.whispers("C0OPS", KAI), why="no help came")
    office.slack.open_home(KAI, SOCKET)
    home = until(lambda: office.slack.home(KAI, SOCKET), why="no Home tab was published")
    assert wording.text("en", "home.empty") in text_of(home)


def test_signed_http_carries_a_whole_job(
    slack: LocalSlack, web: App, scripted: MessagesServer, tmp_path: Path
) -> None:
    """Everything over signed requests; a press with a false or an old signature is refused."""
    with _stack(slack, web, scripted, tmp_path) as stack:
        until(lambda: _sent(web, "", "nobody's secret", 0) == 401, why="Slack's door never opened")
        office = Office(slack, web, stack)
        thread, card = office.asked()
        slack.click(MEI, card, "approve")
        until(lambda: slack.whispers("C0WEB", MEI), why="whoever may not decide is not told")
        as_lin = slack.log("interactive", web.requestUrl)[-1]["detail"].replace(MEI, LIN)
        assert [_sent(web, as_lin, "nobody's secret", 0), _sent(web, as_lin, web.secret, 301)] == [401, 401]
        assert text_of(slack.message("C0WEB", card["ts"])) == text_of(card)
        assert _sent(web, as_lin, web.secret, 0) == 200  # so it was only the signature
        status, _, result = office.until_ended(thread, card, "Approved by lin")
        assert ("No longer working: done" in status, "The end." in result) == (True, True)
        assert stack.lines() == ["done"]
        answers = slack.log("events_api", "HTTP ") + slack.log("interactive", "HTTP ")
        assert {answer["summary"] for answer in answers} == {"HTTP 200"}


def _sent(app: App, body: str, secret: str, age: int) -> int:
    """A press sent to a bot as if by Slack, `age` seconds ago; returns the status of the answer."""
    then = str(int(time.time()) - age)
    signature = SignatureVerifier(secret).generate_signature(timestamp=then, body=body) or ""
    headers = {"X-Slack-Request-Timestamp": then, "X-Slack-Signature": signature}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    return httpx.post(app.requestUrl, content=body, headers=headers | form, trust_env=False).status_code
