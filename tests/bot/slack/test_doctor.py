"""What `doctor` finds about Slack: each thing that can be broken, with its remedy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from agent_runner.config import Config, Web
from agent_runner.config_chats import Slack
from bot import platforms
from bot.cli import main
from bot.doctor import try_click
from bot.doors import Parts
from bot.findings import Finding, Level, fail, ok, warn
from bot.settings import Settings
from bot.slack import probe
from bot.slack.api import SlackApi
from bot.slack.click_check import check_click
from bot.slack.doctor import GRANT, NETWORK, SOCKETS, WHERE, check_slack, check_socket
from bot.slack.manifest import SCOPES
from bot.slack.probe import Probe
from tests.fakes.chat_office import ChatOffice
from tests.fakes.slack import FakeSlack
from tests.fakes.slack_events import Message

TOKEN = ok("Slack takes the bot token: countersign in Acme.")
SCOPED = ok("It has the 11 scopes that are used.")
SOCKET = ok("The socket says hello and answers a ping; open connections with this one: 1.")
NO_FALLBACK = warn(
    "No fallback channel: when a task's thread is gone, only the page tells about it.",
    "Set [slack] fallback to a channel's id.",
)
GOOD = [TOKEN, SCOPED, SOCKET, NO_FALLBACK]
SECRETS = {
    "SLACK_BOT_TOKEN": FakeSlack.bot_token,
    "SLACK_APP_TOKEN": FakeSlack.app_token,
    "SLACK_SIGNING_SECRET": FakeSlack.signing_secret,
}


@dataclass(frozen=True)
class Case:
    """An installation that differs from a good one, and what is found."""

    expected: list[Finding]
    chat: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    public_url: str = ""
    scopes: Collection[str] = tuple(SCOPES)
    spoil: Callable[[FakeSlack], None] = lambda _: None


HTTP = {"mode": "http"}
URL = "https://bot.example.org"
SECRET = ok("SLACK_SIGNING_SECRET is set; a test card shows whether it is the right one (--click).")
SENT_TO = ok(
    f"Slack is to send everything to {URL}/slack/events; a test card shows whether it does (--click)."
)

CASES = {
    "all is well": Case(GOOD),
    "all is well with groups and a fallback": Case(
        [
            TOKEN,
            SCOPED,
            SOCKET,
            ok("User group night: 2 in @night."),
            ok("The bot is in the fallback channel C0OPS."),
        ],
        chat={"groups": {"night": "S0NIGHT"}, "fallback": "C0OPS"},
    ),
    "all is well with http": Case([SECRET, TOKEN, SCOPED, SENT_TO, NO_FALLBACK], chat=HTTP, public_url=URL),
    # Secrets
    "no app token": Case(
        [fail("SLACK_APP_TOKEN is not set.", WHERE["SLACK_APP_TOKEN"])], secrets={"SLACK_APP_TOKEN": ""}
    ),
    "tokens swapped": Case(
        [
            fail(
                "SLACK_BOT_TOKEN does not begin with xoxb-, so it is another token.", WHERE["SLACK_BOT_TOKEN"]
            ),
            fail(
                "SLACK_APP_TOKEN does not begin with xapp-, so it is another token.", WHERE["SLACK_APP_TOKEN"]
            ),
        ],
        secrets={"SLACK_BOT_TOKEN": FakeSlack.app_token, "SLACK_APP_TOKEN": FakeSlack.bot_token},
    ),
    "a line break in the token": Case(
        [fail("SLACK_BOT_TOKEN has spaces or quotes in it.", "Set it to the secret alone.")],
        secrets={"SLACK_BOT_TOKEN": f"{FakeSlack.bot_token}\n"},
    ),
    "wrong bot token": Case(
        [fail("SLACK_BOT_TOKEN: Slack said invalid_auth.", WHERE["SLACK_BOT_TOKEN"]), SOCKET],
        secrets={"SLACK_BOT_TOKEN": "xoxb-1"},
    ),
    "wrong app token": Case(
        [
            TOKEN,
            SCOPED,
            fail("SLACK_APP_TOKEN: Slack said invalid_auth.", WHERE["SLACK_APP_TOKEN"]),
            NO_FALLBACK,
        ],
        secrets={"SLACK_APP_TOKEN": "xapp-1"},
    ),
    "app token without its scope": Case(
        [
            TOKEN,
            SCOPED,
            fail("SLACK_APP_TOKEN: Slack said missing_scope.", WHERE["SLACK_APP_TOKEN"]),
            NO_FALLBACK,
        ],
        spoil=lambda slack: slack.fail("apps.connections.open", "missing_scope"),
    ),
    "no signing secret": Case(
        [fail("SLACK_SIGNING_SECRET is not set.", WHERE["SLACK_SIGNING_SECRET"])],
        chat=HTTP,
        public_url=URL,
        secrets={"SLACK_SIGNING_SECRET": ""},
    ),
    "http without an address": Case(
        [
            SECRET,
            TOKEN,
            SCOPED,
            fail(
                "For HTTP, Slack has to reach the bot at an https address.",
                'Set [web] public_url, or use mode = "socket", which needs none.',
            ),
            NO_FALLBACK,
        ],
        chat=HTTP,
    ),
    # Slack
    "two scopes missing": Case(
        [
            TOKEN,
            fail(
                "The scope files:write is missing, with which the bot puts what is too long for a message "
                "into the thread as a file.",
                GRANT,
            ),
            fail("The scope commands is missing, with which the bot has a slash command.", GRANT),
            SOCKET,
        ],
        scopes=SCOPES.keys() - {"files:write", "commands"},
    ),
    "more scopes than needed": Case(GOOD, scopes=[*SCOPES, "reactions:write"]),
    "Slack answers nothing": Case(
        [fail("Slack did not answer. (ServerDisconnectedError)", NETWORK), SOCKET],
        spoil=lambda slack: slack.lose_answer("auth.test"),
    ),
    "Slack is busy": Case(
        [fail("Slack limits the rate of calls now.", "Wait 30 s and run it again."), SOCKET],
        spoil=lambda slack: slack.fail("auth.test", "ratelimited", retry_after=30),
    ),
    # What the configuration names
    "groups": Case(
        [
            *GOOD[:3],
            fail(
                "User group a: there is no group with the id S0GONE.",
                "Write its id (S...) in [slack.groups].",
            ),
            fail("User group b: there is no group with the id @night.", 'Write b = "S0NIGHT".'),
            warn("User group c: nobody is in @empty.", "Add people to it in Slack."),
            fail("User group d: @off is switched off.", "Switch it on in Slack."),
            NO_FALLBACK,
        ],
        chat={"groups": {"a": "S0GONE", "b": "@night", "c": "S0EMPTY", "d": "S0OFF"}},
    ),
    "groups that cannot be read": Case(
        [
            *GOOD[:3],
            fail("The user groups could not be read: Slack said internal_error.", GRANT),
            NO_FALLBACK,
        ],
        chat={"groups": {"night": "S0NIGHT"}},
        spoil=lambda slack: slack.fail("usergroups.list", "internal_error"),
    ),
    "the fallback channel is nowhere": Case(
        [
            *GOOD[:3],
            fail(
                "The fallback channel C0GONE is out of reach: Slack said channel_not_found.",
                "Invite the bot into C0GONE, and check that this is its id (C... or G...).",
            ),
        ],
        chat={"fallback": "C0GONE"},
    ),
    "the bot was removed from the fallback channel": Case(
        [
            *GOOD[:3],
            fail(
                "The fallback channel C0OPS is out of reach: Slack said not_in_channel.",
                "Invite the bot into C0OPS, and check that this is its id (C... or G...).",
            ),
        ],
        chat={"fallback": "C0OPS"},
        spoil=lambda slack: slack.change_channel("C0OPS", bot_member=False),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_found(case: Case) -> None:
    """Everything in order, or the one thing that is not with its remedy; no secret is shown."""
    with FakeSlack(scopes=case.scopes) as slack:
        slack.add_channel("ops", "C0OPS")
        slack.add_group("night", ["U01", "U02"], "S0NIGHT")
        slack.add_group("empty", [], "S0EMPTY")
        slack.add_group("off", ["U01"], "S0OFF")
        slack.groups["S0OFF"]["date_delete"] = 1_700_000_000
        case.spoil(slack)
        found = asyncio.run(check_slack(_settings(slack, case)))
    assert found == case.expected
    assert not any(value.strip() in str(found) for value in {**SECRETS, **case.secrets}.values() if value)


def _settings(slack: FakeSlack, case: Case) -> Settings:
    config = Config(slack=Slack(api_url=slack.api_url, **case.chat), web=Web(public_url=case.public_url))
    return Settings(config, None, Path(), {**SECRETS, **case.secrets}, "127.0.0.1", 0)


# --- the socket --------------------------------------------------------------------------


class Says(FakeSlack):
    """A Slack whose sockets send these frames, and keeps what came back on them."""

    frames: tuple[dict[str, Any], ...] = ()
    closes = False
    pongs = False

    async def _link(self, request: web.Request) -> web.StreamResponse:
        self.heard: list[str] = []
        ws = web.WebSocketResponse(autoping=False)
        await ws.prepare(request)
        for frame in self.frames:
            await ws.send_str(json.dumps(frame))
        if self.closes:
            await ws.close()
        async for message in ws:
            if message.type is web.WSMsgType.TEXT:
                self.heard.append(message.data)
            elif self.pongs:
                await ws.pong(message.data)
        return ws


HELLO = {"type": "hello", "num_connections": 3}
CLICK = {"envelope_id": "e", "type": "interactive", "payload": {}}


@pytest.mark.parametrize(
    ("frames", "closes", "expected"),
    [
        ((), False, fail("The socket was opened, but Slack did not say hello within 0 s.", SOCKETS)),
        ((HELLO, CLICK), False, fail("The socket was opened, but no pong came back within 0 s.", SOCKETS)),
        ((), True, fail("Slack closed the socket (no reason given).", "Run it again.")),
        ((HELLO,), True, fail("Slack closed the socket (no reason given).", "Run it again.")),
        (
            ({"type": "disconnect", "reason": "link_disabled"},),
            False,
            fail("Socket Mode is switched off.", "Switch it on on the app's page, Socket Mode."),
        ),
        (
            ({"type": "disconnect", "reason": "too_many_websockets"},),
            False,
            fail(
                "All connections of this app are taken.",
                "End the other programs that use this SLACK_APP_TOKEN; an app has 10 connections.",
            ),
        ),
        (
            (HELLO, {"type": "disconnect", "reason": "refresh_requested"}),
            False,
            fail("Slack closed the socket (refresh_requested).", "Run it again."),
        ),
    ],
)
def test_a_socket_that_is_no_use(frames: tuple[dict[str, Any], ...], closes: bool, expected: Finding) -> None:
    """It opens, and then something is missing: what, is said."""
    with Says() as slack:
        slack.frames, slack.closes = frames, closes
        assert asyncio.run(_socket(slack.api_url, 0.3)) == expected


def test_a_socket_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API can be reached, the address of the socket cannot."""

    async def nowhere(*_: object) -> str:
        return "ws://127.0.0.1:1/link"

    monkeypatch.setattr(SlackApi, "socket_address", nowhere)
    assert asyncio.run(_socket("http://127.0.0.1:1/api/", 5)) == fail(
        "The socket could not be opened within 5 s.", SOCKETS
    )


async def _socket(api_url: str, seconds: float) -> Finding:
    api = SlackApi(FakeSlack.bot_token, api_url)
    await api.open()
    try:
        return await check_socket(api, FakeSlack.app_token, seconds=seconds)
    finally:
        await api.close()


def test_the_socket_takes_nobodys_clicks() -> None:
    """A click that comes to it is not acknowledged: the person sees that it did not work, and tries again."""
    with Says() as slack:
        slack.frames, slack.pongs = (HELLO, CLICK), True
        found = asyncio.run(_socket(slack.api_url, 5))
        assert (found.level, slack.heard) == (Level.OK, [])


# --- a click -----------------------------------------------------------------------------

ARRIVED = ok("The click on the test card arrived.")
OPS = "C0OPS"


@dataclass
class Ward:
    """A workspace, and a store on which `doctor` looks for the click."""

    slack: FakeSlack
    parts: Parts

    def examined(self, *, seconds: float = 10, press: bool = True) -> Finding:
        """The finding; the button is pressed as soon as that is asked for."""

        def say(line: str) -> None:
            self.asked = line
            if press:
                self.slack.click("U01", self.card(), "doctor")

        return asyncio.run(check_click(self.parts, OPS, token="t0ken", say=say, seconds=seconds))

    def card(self) -> Message:
        """The test card as it stands."""
        return self.slack.posts(OPS)[0]


@pytest.fixture
def ward(redis_url: str) -> Iterator[Callable[..., Ward]]:
    """Makes a workspace; keyword arguments are of [slack], `db` takes another database of the server."""
    with ExitStack() as stack:

        def make(*, running: bool = False, db: int = 0, **chat: Any) -> Ward:
            slack = stack.enter_context(
                FakeSlack(rate=None, pace=0.02, ack_deadline=0.5, scopes=tuple(SCOPES))
            )
            slack.add_user("lin", "U01")
            slack.add_channel("ops", OPS, members={"U01"})
            if running:
                config = Config(slack=Slack(api_url=slack.api_url))
                stack.enter_context(ChatOffice(redis_url, config, SECRETS))
            config = Config(slack=Slack(api_url=slack.api_url, **chat), web=Web(public_url=URL))
            return Ward(slack, ChatOffice(redis_url.replace("db=0", f"db={db}"), config, SECRETS).parts)

        yield make


def test_a_click_that_comes_to_doctor_itself(ward: Callable[..., Ward]) -> None:
    """With Socket Mode and no bot running it takes the click itself, and the card says so."""
    w = ward()
    assert w.examined() == ARRIVED
    assert w.asked == "Press the button in C0OPS within 10 s."
    assert (w.card().text, w.card().buttons) == ("The click arrived.", {})
    assert w.slack.sockets == []


def test_a_click_that_comes_to_the_running_bot(ward: Callable[..., Ward]) -> None:
    """With HTTP only the running bot can take it; it is seen through the store they share."""
    w = ward(running=True, **HTTP)
    assert w.examined() == ARRIVED
    w.slack.wait_for(lambda: w.card().text == "The click arrived.")


@pytest.mark.parametrize("attempt", range(4))
def test_a_click_that_comes_to_either(ward: Callable[..., Ward], attempt: int) -> None:
    """Beside a running bot it does not matter whose connection gets the click, or which of several."""
    w = ward(running=True)
    for _ in range(attempt):
        w.slack._wire.random.random()
    assert w.examined() == ARRIVED


def test_case_e09_a_click_that_never_comes(ward: Callable[..., Ward]) -> None:
    """The socket is healthy and no click arrives: that is said, with what to look at, and the card ends."""
    w = ward()
    w.slack.lose("interactive")
    assert w.examined(seconds=0.5) == fail(
        "No click on the test card arrived within 0 s.",
        "If it was pressed: switch Interactivity on, on the app's page. Then end other programs that use "
        "this SLACK_APP_TOKEN (each connection of an app gets a share of its clicks).",
    )
    assert (w.card().text, w.card().buttons) == ("This test is over: no click arrived in time.", {})


def test_case_e09_a_click_that_never_comes_by_http(ward: Callable[..., Ward]) -> None:
    """There the address and whoever answers at it are what to look at."""
    assert ward(**HTTP).examined(seconds=0.5) == fail(
        "No click on the test card arrived within 0 s.",
        "If it was pressed: switch Interactivity on, on the app's page, with the request URL "
        "https://bot.example.org/slack/events. There a bot must be running, with this app's "
        "SLACK_SIGNING_SECRET, and a proxy before it must pass on body and X-Slack headers unchanged.",
    )


def test_a_click_that_comes_to_a_bot_on_another_store(ward: Callable[..., Ward]) -> None:
    """The card says that the click arrived, the store does not: then there are two stores."""
    assert ward(running=True, db=1, **HTTP).examined(seconds=2) == fail(
        "The click arrived at a bot that uses another Redis.",
        "Give all bots of this app the same REDIS_URL, or each its own app.",
    )


def test_what_people_do_meanwhile_is_not_lost(ward: Callable[..., Ward]) -> None:
    """While it listens it is a bot like any other: a job that is asked for of it begins."""
    w = ward()

    def say(_: str) -> None:
        w.slack.say("U01", OPS, "restart it", mention=True)

    w.slack.lose("interactive")
    asyncio.run(check_click(w.parts, OPS, token="t0ken", say=say, seconds=1))
    assert [task.text for task in w.parts.store.list_tasks(None, after=None, limit=9)] == ["restart it"]


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            lambda slack: slack.change_channel(OPS, bot_member=False),
            fail(
                "The test card could not be posted: Slack said not_in_channel.",
                "Invite the bot into C0OPS, and check that this is its id (C... or G...).",
            ),
        ),
        (
            lambda slack: slack.fail("auth.test", "invalid_auth"),
            fail(
                "The test card could not be tried: Slack said invalid_auth.",
                "Check the token and install the app again.",
            ),
        ),
        (
            lambda slack: slack.fail("chat.postMessage", "ratelimited", retry_after=7),
            fail("The test card could not be tried: wait 7 s", NETWORK),
        ),
    ],
)
def test_a_test_card_that_cannot_be_posted(
    ward: Callable[..., Ward], spoil: Callable[[FakeSlack], None], expected: Finding
) -> None:
    """It ends at once, and says why."""
    w = ward()
    spoil(w.slack)
    assert w.examined() == expected


@pytest.mark.parametrize(
    ("action", "read"),
    [
        ({"action_id": "doctor", "value": "t0ken"}, Probe("t0ken", OPS, "1.2")),
        ({"action_id": "doctor", "value": ""}, None),
        ({"action_id": "doctor", "value": "x" * 65}, None),
        ({"action_id": "doctor", "value": 7}, None),
        ({"action_id": "approve", "value": "t0ken"}, None),
    ],
)
def test_only_a_test_cards_button_counts(action: dict[str, Any], read: Probe | None) -> None:
    """Everything else goes where it always went."""
    container = {"type": "message", "channel_id": OPS, "message_ts": "1.2"}
    assert probe.read({"actions": [action], "container": container}) == read
    assert probe.read({"actions": [action]}) is None


# --- from the command line ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("chat", "environment", "expected"),
    [
        ({}, {}, []),
        (
            {"fallback": OPS},
            {},
            [warn("Slack is off: SLACK_BOT_TOKEN is not set.", "Set it to use Slack.")],
        ),
        (
            {},
            {"SLACK_APP_TOKEN": "xapp-1"},
            [warn("Slack is off: SLACK_BOT_TOKEN is not set.", "Set it to use Slack.")],
        ),
        (
            {},
            {"SLACK_BOT_TOKEN": "xoxb-1"},
            [fail("SLACK_APP_TOKEN is not set.", WHERE["SLACK_APP_TOKEN"])],
        ),
    ],
)
def test_it_is_looked_at_where_it_is_on(
    chat: dict[str, Any], environment: dict[str, str], expected: list[Finding]
) -> None:
    """Nothing is said where Slack was never meant; half a configuration is noticed."""
    settings = Settings(Config(slack=Slack(**chat)), None, Path(), environment, "127.0.0.1", 0)
    assert platforms.check(settings) == expected


def test_the_click_with_the_configured_store(
    ward: Callable[..., Ward], redis_url: str, tmp_path: Path
) -> None:
    """All that `doctor --click` needs is made from the settings."""
    w = ward()
    settings = replace(w.parts.settings, state_dir=tmp_path, environment={**SECRETS, "REDIS_URL": redis_url})
    found = try_click(settings, OPS, say=lambda _: _pressed(w), seconds=10)
    assert found == ARRIVED


def _pressed(w: Ward) -> None:
    w.slack.click("U01", w.card(), "doctor")


@pytest.mark.engine
@pytest.mark.parametrize("broken", [False, True])
def test_the_command(ward: Callable[..., Ward], redis_url: str, tmp_path: Path, broken: bool) -> None:
    """Findings on stdout, exit code 1 for a failure; no test card before the rest is in order."""
    w = ward()
    w.slack.lose("interactive")
    if broken:
        w.slack.fail("auth.test", "invalid_auth")
    file = tmp_path / "countersign.toml"
    file.write_text(f'[slack]\napi_url = "{w.slack.api_url}"\n')
    flags = ["--config", str(file), "--state-dir", str(tmp_path / "state"), "--click", OPS]
    done = CliRunner().invoke(
        main, ["doctor", *flags, "--click-seconds", "1"], env={**SECRETS, "REDIS_URL": redis_url}
    )
    assert done.exit_code == 1
    last = done.stdout.splitlines()[-2:]
    if broken:
        assert "FAIL  SLACK_BOT_TOKEN: Slack said invalid_auth." in done.stdout
        assert done.stderr == "No test card was posted: put the failures right first.\n"
        assert w.slack.posts(OPS) == []
    else:
        assert last[0] == "FAIL  No click on the test card arrived within 1 s."
        assert done.stderr == "Press the button in C0OPS within 1 s.\n"
    assert not any(secret in done.output for secret in SECRETS.values())
