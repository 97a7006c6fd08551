"""What `doctor` finds about Feishu: each thing that can be broken, with its remedy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_runner.config import Config, Web
from agent_runner.config_chats import Feishu
from bot import platforms
from bot.cli import main
from bot.doors import Parts
from bot.feishu import probe
from bot.feishu.click_check import check_click
from bot.feishu.doctor import ENABLE, GRANT, NETWORK, SOCKETS, WHERE, check_connection, check_feishu
from bot.feishu.errors import REMEDIES
from bot.feishu.permissions import GROUPS, SCOPES
from bot.findings import Finding, fail, ok, warn
from bot.settings import Settings
from tests.fakes.chat_office import ChatOffice
from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_clicks import ClickResult
from tests.fakes.feishu_model import Message

TAKEN = ok("Feishu takes the credentials: countersign.")
ON = ok("The bot is on.")
SCOPED = ok("It has the scopes that are used.")
MENTIONS = warn(
    "In groups the bot hears only what mentions it: the scope im:message.group_msg is not granted.",
    "Mention it in replies, too, or add that scope and publish a version.",
)
SOCKET = ok(
    "The long connection comes up and answers a ping. Other programs on this app cannot be seen; "
    "a test card shows them (--click)."
)
NO_FALLBACK = warn(
    "No fallback chat: when a task's thread is gone, only the page tells about it.",
    "Set [feishu] fallback to a chat's id.",
)
GOOD = [TAKEN, ON, SCOPED, SOCKET, NO_FALLBACK]
ALL = (*SCOPES, *GROUPS, "im:message.group_msg")
HTTP = {"mode": "http"}
URL = "https://bot.example.org"
KEY = ok("FEISHU_ENCRYPT_KEY is set; a test card shows whether it is the right one (--click).")
SENT_TO = ok(
    f"Feishu is to send everything to {URL}/feishu/events; a test card shows whether it does (--click)."
)
CREDENTIALS, SCOPE_REMEDY, BOT = REMEDIES[10014], REMEDIES[99991672], REMEDIES[11205]


@dataclass(frozen=True)
class Case:
    """An installation that differs from a good one, and what is found. `{chat}` is its chat's id."""

    expected: list[Finding]
    chat: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    public_url: str = ""
    scopes: tuple[str, ...] = ALL
    spoil: Callable[[FakeFeishu], None] = lambda _: None


def _without(*scopes: str) -> tuple[str, ...]:
    return tuple(scope for scope in ALL if scope not in scopes)


def _range(name: str) -> str:
    return (
        f"Write the department's id (od-...) as {name} in [feishu.groups], and let the app's contact range "
        "(通讯录权限范围) include it."
    )


NIGHT = {"groups": {"night": "od-night"}}
CASES = {
    "all is well": Case(GOOD),
    "all is well with departments and a fallback": Case(
        [
            *GOOD[:4],
            ok("Approver group night: 2 in the department od-night."),
            ok("The bot is in the fallback chat {chat}."),
        ],
        chat={**NIGHT, "fallback": "{chat}"},
    ),
    "all is well with http": Case([KEY, TAKEN, ON, SCOPED, SENT_TO, NO_FALLBACK], chat=HTTP, public_url=URL),
    # Credentials
    "no secret": Case(
        [fail("FEISHU_APP_SECRET is not set.", WHERE["FEISHU_APP_SECRET"])],
        secrets={"FEISHU_APP_SECRET": ""},
    ),
    "id and secret swapped": Case(
        [fail("FEISHU_APP_ID does not begin with cli_, so it is something else.", WHERE["FEISHU_APP_ID"])],
        secrets={"FEISHU_APP_ID": "f3b1c0", "FEISHU_APP_SECRET": "cli_1"},
    ),
    "a line break in the secret": Case(
        [fail("FEISHU_APP_SECRET has spaces or quotes in it.", "Set it to the value alone.")],
        secrets={"FEISHU_APP_SECRET": "s3cret\n"},
    ),
    "wrong id": Case(
        [
            fail("The app's credentials: Feishu said 10003: invalid param", CREDENTIALS),
            fail("The long connection: Feishu said 514: auth failed", CREDENTIALS),
        ],
        secrets={"FEISHU_APP_ID": "cli_other"},
    ),
    "wrong secret": Case(
        [
            fail("The app's credentials: Feishu said 10014: app secret invalid", CREDENTIALS),
            fail("The long connection: Feishu said 514: auth failed", CREDENTIALS),
        ],
        secrets={"FEISHU_APP_SECRET": "s3cret"},
    ),
    "no encrypt key": Case(
        [fail("FEISHU_ENCRYPT_KEY is not set.", WHERE["FEISHU_ENCRYPT_KEY"])],
        chat=HTTP,
        public_url=URL,
        secrets={"FEISHU_ENCRYPT_KEY": ""},
    ),
    "http without an address": Case(
        [
            KEY,
            TAKEN,
            ON,
            SCOPED,
            fail(
                "For HTTP, Feishu has to reach the bot at an https address.",
                'Set [web] public_url, or use mode = "socket", which needs none.',
            ),
            NO_FALLBACK,
        ],
        chat=HTTP,
    ),
    # The app
    "no bot": Case(
        [fail("The app's credentials: Feishu said 11205: error", BOT), SOCKET],
        spoil=lambda feishu: feishu.fail("/bot/v3/info", 11205),
    ),
    "the bot is off": Case(
        [TAKEN, fail("The bot is not on (activate_status 1).", ENABLE), SOCKET],
        spoil=lambda feishu: setattr(feishu.world, "bot_status", 1),
    ),
    "two scopes missing": Case(
        [
            TAKEN,
            ON,
            fail(
                "The scope im:resource is missing, with which the bot puts what is too long for a card into "
                "the thread as a file.",
                GRANT,
            ),
            fail(
                "The scope contact:user.base:readonly is missing, with which the bot knows people's names.",
                GRANT,
            ),
            SOCKET,
            NO_FALLBACK,
        ],
        scopes=_without("im:resource", "contact:user.base:readonly"),
    ),
    "a scope that was asked for and not granted": Case(
        [
            TAKEN,
            ON,
            fail(
                "The scope im:message.p2p_msg:readonly is missing, with which the bot hears direct messages.",
                GRANT,
            ),
            SOCKET,
            NO_FALLBACK,
        ],
        spoil=lambda feishu: feishu.world.scopes.update({"im:message.p2p_msg:readonly": 2}),
    ),
    "mentions only": Case(
        [TAKEN, ON, SCOPED, MENTIONS, SOCKET, NO_FALLBACK], scopes=_without("im:message.group_msg")
    ),
    "the state of people, without departments": Case(GOOD, scopes=_without(*GROUPS)),
    "the state of people, with departments": Case(
        [
            TAKEN,
            ON,
            fail(
                "The scope contact:user.employee:readonly is missing, with which the bot leaves out who has "
                "left or is locked out.",
                GRANT,
            ),
            SOCKET,
            ok("Approver group night: 2 in the department od-night."),
            NO_FALLBACK,
        ],
        chat=NIGHT,
        scopes=_without(*GROUPS),
    ),
    "scopes that cannot be read": Case(
        [
            TAKEN,
            ON,
            warn("The app's scopes could not be read: Feishu said 212100: error", REMEDIES[212100]),
            SOCKET,
            NO_FALLBACK,
        ],
        spoil=lambda feishu: feishu.fail("/application/v6/scopes", 212100),
    ),
    "Feishu is busy": Case(
        [fail("Feishu limits the rate of calls now.", "Wait 7 s and run it again."), SOCKET],
        spoil=lambda feishu: feishu.fail("/bot/v3/info", 99991400, headers={"x-ogw-ratelimit-reset": "7"}),
    ),
    # The long connection
    "too many connections": Case(
        [
            *GOOD[:3],
            fail("The long connection: Feishu said 1000040350: error", REMEDIES[1000040350]),
            NO_FALLBACK,
        ],
        spoil=lambda feishu: feishu.fail("/ws/endpoint", 1000040350),
    ),
    # What the configuration names
    "departments": Case(
        [
            *GOOD[:4],
            warn(
                "Approver group a: nobody is directly in the department od-empty.",
                "Name a department that has people of its own; those of departments below it do not count.",
            ),
            fail(
                "Approver group b: the department od-gone could not be read: Feishu said 40004: error",
                REMEDIES[40004],
            ),
            NO_FALLBACK,
        ],
        chat={"groups": {"a": "od-empty", "b": "od-gone"}},
        spoil=lambda feishu: feishu.world.faults.extend(_second_department_fails(feishu)),
    ),
    "a department for which nobody has a remedy": Case(
        [
            *GOOD[:4],
            fail(
                "Approver group night: the department od-night could not be read: Feishu said 40011: page "
                "size is invalid",
                _range("night"),
            ),
            NO_FALLBACK,
        ],
        chat=NIGHT,
        spoil=lambda feishu: feishu.fail("find_by_department", 40011),
    ),
    "the fallback chat is nowhere": Case(
        [
            *GOOD[:4],
            fail(
                "The fallback chat oc_gone is out of reach: Feishu said 232006: Your request specifies a "
                "chat_id which is invalid.",
                "Add the bot to oc_gone, and check that this is its id (oc_...).",
            ),
        ],
        chat={"fallback": "oc_gone"},
    ),
    "the bot was removed from the fallback chat": Case(
        [
            *GOOD[:4],
            fail(
                "The fallback chat {chat} is out of reach: Feishu said 232011: Operator can NOT be out of "
                "the chat.",
                "Add the bot to {chat}, and check that this is its id (oc_...).",
            ),
        ],
        chat={"fallback": "{chat}"},
        spoil=lambda feishu: setattr(_chat(feishu), "bot", False),
    ),
    "the fallback chat was dissolved": Case(
        [*GOOD[:4], fail("The fallback chat {chat} is dissolved.", "Set [feishu] fallback anew.")],
        chat={"fallback": "{chat}"},
        spoil=lambda feishu: setattr(_chat(feishu), "dissolved", True),
    ),
    "the fallback chat cannot be looked at": Case(
        [
            *GOOD[:4],
            warn(
                "The fallback chat {chat} could not be looked at: Feishu said 99991672: error", SCOPE_REMEDY
            ),
        ],
        chat={"fallback": "{chat}"},
        spoil=lambda feishu: feishu.fail("/im/v1/chats/", 99991672),
    ),
}


def _chat(feishu: FakeFeishu) -> Any:
    return next(iter(feishu.world.chats.values()))


def _second_department_fails(feishu: FakeFeishu) -> list[Any]:
    """The first look is let through (a fault without a code), the second is refused."""
    feishu.hang("find_by_department", 0.0)
    feishu.fail("find_by_department", 40004)
    planned = [*feishu.world.faults]
    feishu.world.faults.clear()
    return planned


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_found(case: Case) -> None:
    """Everything in order, or the one thing that is not with its remedy; no secret is shown."""
    with FakeFeishu() as feishu:
        people = [feishu.add_user(name, departments=["od-night"]) for name in ("小林", "阿凯")]
        chat_id = feishu.add_chat("group", people, name="ops").chat_id
        feishu.world.scopes.update(dict.fromkeys(case.scopes, 1))
        case.spoil(feishu)
        settings = _settings(feishu, case, chat_id)
        found = asyncio.run(check_feishu(settings))
        assert feishu.connections == 0
    assert found == [
        Finding(one.level, one.what.format(chat=chat_id), one.remedy.format(chat=chat_id))
        for one in case.expected
    ]
    hidden = {name: value for name, value in settings.environment.items() if name != "FEISHU_APP_ID"}
    assert not any(value.strip() in str(found) for value in hidden.values() if value)


def _secrets(feishu: FakeFeishu) -> dict[str, str]:
    return {
        "FEISHU_APP_ID": feishu.app_id,
        "FEISHU_APP_SECRET": feishu.app_secret,
        "FEISHU_ENCRYPT_KEY": feishu.encrypt_key,
        "FEISHU_VERIFICATION_TOKEN": feishu.verification_token,
    }


def _settings(feishu: FakeFeishu, case: Case, chat_id: str = "") -> Settings:
    chat: dict[str, Any] = {
        k: v.format(chat=chat_id) if isinstance(v, str) else v for k, v in case.chat.items()
    }
    config = Config(feishu=Feishu(domain=feishu.domain, **chat), web=Web(public_url=case.public_url))
    return Settings(config, None, Path(), {**_secrets(feishu), **case.secrets}, "127.0.0.1", 0)


# --- the long connection -----------------------------------------------------------------


def test_a_connection_without_an_answer() -> None:
    """It opens and stays silent, as behind a proxy that only seems to know WebSockets."""
    with FakeFeishu() as feishu:
        feishu.socket.mute_pongs = True
        assert asyncio.run(check_connection(_settings(feishu, Case([])), seconds=0.3)) == fail(
            "The long connection was opened, but no pong came back within 0 s.", SOCKETS
        )


def test_feishu_is_away() -> None:
    """Nobody answers: the network is named, not the credentials."""
    with FakeFeishu() as feishu:
        settings = _settings(feishu, Case([]))
    assert asyncio.run(check_feishu(settings)) == [
        fail("Feishu did not answer. (ConnectError)", NETWORK),
        fail("Feishu did not say where to connect. (ConnectError)", NETWORK),
    ]


def test_the_connection_takes_nobodys_words() -> None:
    """What comes to it meanwhile is not acknowledged: Feishu sends it again, to a bot."""
    with FakeFeishu(deadline=0.2) as feishu:
        mei = feishu.add_user("美美")
        group = feishu.add_chat("group", [mei])
        feishu.socket.mute_pongs = True

        async def look() -> None:
            checking = asyncio.create_task(check_connection(_settings(feishu, Case([])), seconds=3))
            await feishu.wait_for_async(lambda: feishu.connections == 1, 30)
            said = await feishu.say_async(mei, group, "重启结算服务", mention=True)
            await feishu.wait_for_async(lambda: said.attempts)
            assert not said.acked
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)

        asyncio.run(look())


# --- a press -----------------------------------------------------------------------------

ARRIVED = ok("The press on the test card arrived.")
PRESSED, OVER = "已收到点击。", "测试已结束：没有按时收到点击。"
UNSET = (
    "If the button showed error 200340: add the callback card.action.trigger in the developer console, "
    "callback configuration (回调配置), and publish a version (版本管理与发布). "
)
SHARED = (
    "If it said that it arrived, or another error: end other programs that use this app id (each gets a "
    "share of its presses), or give them an app of their own; bots of one app need the same REDIS_URL."
)


def _text(zh: str, en: str, ja: str) -> dict[str, Any]:
    """Words that each viewer reads in their own language."""
    return {
        "tag": "plain_text",
        "content": zh,
        "i18n_content": {"zh_cn": zh, "en_us": en, "ja_jp": ja},
    }


def _card(zh: str, en: str, ja: str, *more: Any) -> dict[str, Any]:
    """The whole card with these words."""
    return {
        "schema": "2.0",
        "config": {"update_multi": True, "enable_forward": False, "summary": {"content": zh}},
        "body": {"elements": [{"tag": "div", "text": _text(zh, en, ja)}, *more]},
    }


POSTED = _card(
    "这是在测试点击能否传到机器人。请按一下按钮。",
    "This tests whether clicks reach the bot. Press the button, please.",
    "クリックがボットに届くかどうかのテストです。ボタンを押してください。",
    {
        "tag": "button",
        "type": "primary",
        "text": _text("按这里", "I press it", "押す"),
        "behaviors": [{"type": "callback", "value": {"doctor": "t0ken"}}],
    },
)
SETTLED = _card(PRESSED, "The click arrived.", "クリックが届きました。")
ENDED = _card(
    OVER,
    "This test is over: no click arrived in time.",
    "テストは終了しました。時間内にクリックが届きませんでした。",
)


class Ward:
    """A tenant, and a store on which `doctor` looks for the press."""

    def __init__(self, feishu: FakeFeishu) -> None:
        self.feishu = feishu
        self.lin = feishu.add_user("小林")
        self.ops = feishu.add_chat("group", [self.lin], name="ops")
        self.parts: Parts
        self.asked = ""
        self.result = ClickResult()

    def examined(self, *, seconds: float = 10, press: bool = True) -> Finding:
        """The finding; the button is pressed as soon as that is asked for."""

        async def pressed() -> None:
            self.result = await self.feishu.click_async(self.lin, self.card(), {"doctor": "t0ken"})

        presses: list[asyncio.Task[None]] = []

        def say(line: str) -> None:
            self.asked = line
            if press:
                presses.append(asyncio.get_running_loop().create_task(pressed()))

        async def run() -> Finding:
            found = await check_click(self.parts, self.ops.chat_id, token="t0ken", say=say, seconds=seconds)
            await asyncio.gather(*presses)
            return found

        return asyncio.run(run())

    def card(self) -> Message:
        """The test card as it stands."""
        return self.feishu.messages(self.ops)[0]


@pytest.fixture
def ward(redis_url: str) -> Iterator[Callable[..., Ward]]:
    """Makes a tenant; keyword arguments are of [feishu], `db` takes another database of the server."""
    with ExitStack() as stack:

        def make(*, running: bool = False, db: int = 0, seed: int = 0, **chat: Any) -> Ward:
            w = Ward(stack.enter_context(FakeFeishu(seed=seed, qps=1_000)))
            secrets, domain = _secrets(w.feishu), w.feishu.domain
            if running:
                stack.enter_context(ChatOffice(redis_url, Config(feishu=Feishu(domain=domain)), secrets))
                w.feishu.wait_for(lambda: w.feishu.connections == 1, 60)
            config = Config(feishu=Feishu(domain=domain, **chat), web=Web(public_url=URL))
            w.parts = ChatOffice(redis_url.replace("db=0", f"db={db}"), config, secrets).parts
            return w

        yield make


def test_a_press_that_comes_to_doctor_itself(ward: Callable[..., Ward]) -> None:
    """With the long connection and no bot running it takes the press itself, and the card says so."""
    w = ward()
    assert w.examined() == ARRIVED
    assert w.asked == f"Press the button in {w.ops.chat_id} within 10 s."
    assert w.card().original == POSTED
    assert w.result.toast and (w.result.toast.kind, w.result.toast.content) == ("success", PRESSED)
    assert w.card().content == SETTLED
    assert w.feishu.connections == 0
    assert w.feishu.socket.errors == []


def test_a_press_that_comes_to_the_running_bot(ward: Callable[..., Ward]) -> None:
    """Where `doctor` opens no connection only that bot can; it is seen through the store they share."""
    w = ward(running=True, **HTTP)
    assert w.examined() == ARRIVED
    assert w.card().content == SETTLED


@pytest.mark.parametrize("seed", range(4))
def test_a_press_that_comes_to_either(ward: Callable[..., Ward], seed: int) -> None:
    """Beside a running bot it does not matter whose connection gets the press."""
    assert ward(running=True, seed=seed).examined() == ARRIVED


def test_case_e09_a_press_without_a_callback(ward: Callable[..., Ward]) -> None:
    """The connection is healthy and the app not published: the code that the person saw is explained."""
    w = ward()
    w.feishu.world.published = False
    assert w.examined(seconds=0.5) == fail("No press on the test card arrived within 0 s.", UNSET + SHARED)
    assert w.result.error == 200340
    assert w.card().content == ENDED


def test_case_e09_a_press_that_another_program_takes(ward: Callable[..., Ward]) -> None:
    """It goes to a bot of the same app on another store: here there is silence, and the cause is named."""
    w = ward(running=True, db=1, **HTTP)
    found = w.examined(seconds=1)
    assert found.what == "No press on the test card arrived within 1 s."
    assert SHARED in found.remedy
    assert w.result.toast and w.result.toast.content == PRESSED


def test_case_e09_a_press_that_never_comes_by_http(ward: Callable[..., Ward]) -> None:
    """There the address and whoever answers at it are what to look at."""
    assert ward(**HTTP).examined(seconds=0.5, press=False) == fail(
        "No press on the test card arrived within 0 s.",
        f"{UNSET}If it showed 200341 to 200343 or 200671: a bot must be running and answer at "
        f"{URL}/feishu/events with this app's FEISHU_ENCRYPT_KEY, and a proxy before it must pass on body "
        f"and X-Lark headers as they are. {SHARED}",
    )


def test_what_people_do_meanwhile_is_not_lost(ward: Callable[..., Ward]) -> None:
    """While it listens it is a bot like any other: a job that is asked for of it begins."""
    w = ward()

    async def run() -> None:
        said: list[asyncio.Task[Any]] = []

        def say(_: str) -> None:
            work = w.feishu.say_async(w.lin, w.ops, "重启结算服务", mention=True)
            said.append(asyncio.get_running_loop().create_task(work))

        await check_click(w.parts, w.ops.chat_id, token="t0ken", say=say, seconds=1)
        await asyncio.gather(*said)

    asyncio.run(run())
    assert [t.text for t in w.parts.store.list_tasks(None, after=None, limit=9)] == ["重启结算服务"]


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            lambda w: setattr(w.ops, "bot", False),
            fail(
                "The test card could not be posted: Feishu said 230002: The bot can not be outside the "
                "group.",
                "Add the bot to {chat}, and check that this is its id (oc_...).",
            ),
        ),
        (
            lambda w: w.feishu.fail("POST /open-apis/im/v1/messages", 230027),
            fail(
                "The test card could not be tried: Feishu said 230027: Lack of necessary permissions.",
                SCOPE_REMEDY,
            ),
        ),
        (
            lambda w: w.feishu.fail("/bot/v3/info", 11205),
            fail("The test card could not be tried: Feishu said 11205: error", BOT),
        ),
        (
            lambda w: w.feishu.fail("POST /open-apis/im/v1/messages", 230020),
            fail("Feishu limits the rate of calls now.", "Wait 1 s and run it again."),
        ),
    ],
)
def test_a_test_card_that_cannot_be_posted(
    ward: Callable[..., Ward], spoil: Callable[[Ward], Any], expected: Finding
) -> None:
    """It ends at once, and says why."""
    w = ward()
    spoil(w)
    found = w.examined(press=False)
    assert found == Finding(expected.level, expected.what, expected.remedy.format(chat=w.ops.chat_id))
    assert w.asked == ""


@pytest.mark.parametrize(
    "value",
    [
        None,
        "t0ken",
        {},
        {"doctor": 7},
        {"doctor": "x" * 65},
        {"doctor": "t", "verb": "approve"},
        {"verb": "stop"},
    ],
)
def test_a_press_on_something_else(value: Any) -> None:
    """It is not taken for the test card's, whatever it holds."""
    assert probe.read({"event": {"action": {"value": value}}}) == ""
    assert probe.read({"event": value}) == ""


# --- from the command line ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("chat", "environment", "expected"),
    [
        ({}, {}, []),
        (
            {"fallback": "oc_1"},
            {},
            [warn("Feishu is off: FEISHU_APP_ID is not set.", "Set it to use Feishu.")],
        ),
        (
            {},
            {"FEISHU_APP_SECRET": "s"},
            [warn("Feishu is off: FEISHU_APP_ID is not set.", "Set it to use Feishu.")],
        ),
        (
            {},
            {"FEISHU_APP_ID": "cli_1"},
            [fail("FEISHU_APP_SECRET is not set.", WHERE["FEISHU_APP_SECRET"])],
        ),
    ],
)
def test_feishu_is_looked_at_where_it_is_meant(
    chat: dict[str, Any], environment: dict[str, str], expected: list[Finding]
) -> None:
    """Whoever does not use it hears nothing of it; whoever began to set it up is told what is missing."""
    config = Config(feishu=Feishu(**chat))
    assert platforms.check(Settings(config, None, Path(), environment, "127.0.0.1", 0)) == expected


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("slack:C012AB", "SLACK_BOT_TOKEN is not set."),
        ("C012AB", "SLACK_BOT_TOKEN is not set."),
        ("feishu:oc_12ab", "FEISHU_APP_ID is not set."),
        ("web:t_1", "No test card can be posted to web:t_1."),
    ],
)
def test_the_place_says_which_product_is_meant(redis_url: str, place: str, expected: str) -> None:
    """It is spelled as in the configuration; a bare id is Slack's."""
    parts = ChatOffice(redis_url, Config(), {}).parts
    found = platforms.check_click(parts, place, token="t", say=lambda _: None, seconds=1)
    assert (found.level, found.what) == ("fail", expected)


def test_the_command_takes_a_place() -> None:
    """The help says how it is spelled."""
    words = " ".join(CliRunner().invoke(main, ["doctor", "--help"]).stdout.split())
    assert "--click PLACE Post a test card there (slack:C012AB, feishu:oc_12ab)" in words
