from __future__ import annotations

import asyncio
import base64
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, TypeVar

import pytest

from agent_runner.errors import FixConfiguration, FixInput, TryLater
from bot.feishu import dial
from bot.feishu.connection import LongConnection, Patience
from bot.feishu.errors import CONNECTIONS_EXCEEDED
from bot.feishu.frames import PART_SECONDS, PING_SECONDS, Parts, Wire, interval, load
from tests.fakes import feishu_socket
from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_socket import Ack, Frame, decode

T = TypeVar("T")

# One worker for all that imports the SDK: it takes seconds and 174 MB.
pytestmark = pytest.mark.xdist_group("lark_oapi")

QUICK = Patience(
    answer=0.6, request=5.0, silence=0.2, grace=0.3, closing=0.1, restarts=(0.01, 0.02, 0.05), steady=60
)
PATIENT = replace(QUICK, silence=1.0)
LATE = {"toast": {"type": "info", "content": "late"}}
FAILED = {"toast": {"type": "error", "content": "failed"}}
CLICK = {"schema": "2.0", "header": {"event_type": "card.action.trigger"}, "event": {"action": {"name": "a"}}}
EVENT = {"schema": "2.0", "header": {"event_type": "im.message.receive_v1"}, "event": {"message": {}}}


@pytest.fixture(scope="session")
def wire() -> Wire:
    """The SDK's protocol, imported once."""
    return load()


@pytest.fixture
def feishu() -> Iterator[FakeFeishu]:
    """A strict Feishu on loopback."""
    with FakeFeishu() as running:
        yield running


@dataclass
class Bot:
    """A long connection of a bot that remembers what it got."""

    feishu: FakeFeishu
    wire: Wire
    on_card: Callable[[dict[str, Any]], Awaitable[Any]] | None = None
    on_event: Callable[[dict[str, Any]], Awaitable[None]] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    def connection(self, *, secret: str = "", patience: Patience = QUICK, **options: Any) -> LongConnection:
        """A new connection to the fake."""

        async def on_event(event: dict[str, Any]) -> None:
            self.events.append(event)
            if self.on_event:
                await self.on_event(event)

        async def on_card(event: dict[str, Any]) -> Any:
            return await self.on_card(event) if self.on_card else {}

        return LongConnection(
            self.feishu.app_id,
            secret or self.feishu.app_secret,
            self.feishu.domain,
            on_event=on_event,
            on_card=on_card,
            late=LATE,
            failed=FAILED,
            patience=patience,
            **{"wire": lambda: self.wire, **options},
        )

    async def deliver(self, payload: dict[str, Any] | bytes) -> Ack:
        """What comes back for one event or click."""
        raw = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
        return await self._there(self.feishu.socket.deliver(raw, 2.0))

    async def send(self, frame: bytes) -> None:
        """Sends a frame as it is to all connections."""

        async def send() -> None:
            for live in self.feishu.socket.live.values():
                await live.socket.send_bytes(frame)

        await self._there(send())

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.feishu._loop))


def running(bot: Bot, story: Callable[[LongConnection], Awaitable[None]], **options: Any) -> None:
    """Runs a story on a connection that stands, and stops it."""

    async def main() -> None:
        connection = bot.connection(**options)
        connection.start()
        assert await connection.wait_until_healthy(20), connection.trouble
        try:
            await story(connection)
        finally:
            await connection.stop()
        assert bot.feishu.socket.errors == []

    asyncio.run(main())


async def until(true: Callable[[], object], *, seconds: float = 20.0) -> None:
    """Waits for a condition."""
    async with asyncio.timeout(seconds):
        while True:
            if true():
                return
            await asyncio.sleep(0.005)


# --- what comes in -------------------------------------------------------------------------------


def test_events_are_acknowledged_and_handed_over(feishu: FakeFeishu, wire: Wire) -> None:
    """Whatever its type, an event is accepted and arrives as it was sent, in order."""
    bot = Bot(feishu, wire)
    sent = [{**EVENT, "header": {"event_type": f"some.event_v{n}", "n": "早"}} for n in range(20)]

    async def story(_: LongConnection) -> None:
        assert [await bot.deliver(event) for event in sent] == [Ack(_only(feishu), 200)] * 20

    running(bot, story)
    assert bot.events == sent


def test_an_event_is_acknowledged_before_it_is_handled(feishu: FakeFeishu, wire: Wire) -> None:
    """However long an event takes, and however it ends, it does not come again and holds up no other."""
    gate = asyncio.Event()

    async def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "slow":
            await gate.wait()
        raise RuntimeError("broken")

    bot = Bot(feishu, wire, on_event=on_event)

    async def story(connection: LongConnection) -> None:
        slow, other = {**EVENT, "event": "slow"}, {**EVENT, "event": "other"}
        acks = await asyncio.gather(bot.deliver(slow), bot.deliver(other))
        assert [ack.code for ack in acks] == [200, 200]
        assert bot.events == [slow, other]
        gate.set()
        assert connection.healthy()

    running(bot, story)


def test_what_is_no_event_is_acknowledged_and_dropped(feishu: FakeFeishu, wire: Wire) -> None:
    """An event of the old form, or nonsense, would otherwise come again for hours."""
    bot = Bot(feishu, wire)
    nonsense = (b"", b"{", b"\xff", b"[]", b"null", b'{"header": 1, "event": {}}', b'{"header": {}}')
    old = json.dumps({"uuid": "1", "type": "event_callback", "event": {}}).encode()

    async def story(_: LongConnection) -> None:
        for payload in (*nonsense[1:], old):
            assert (await bot.deliver(payload)).code == 200

    running(bot, story)
    assert bot.events == []


ANSWER = {"toast": {"type": "success", "content": "好"}, "card": {"type": "raw", "data": {"schema": "2.0"}}}


async def _raise(_: dict[str, Any]) -> Any:
    raise RuntimeError("broken")


def _returns(value: Any) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def on_card(_: dict[str, Any]) -> Any:
        return value

    return on_card


async def _hang(_: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("on_card", "answer"),
    [
        pytest.param(_returns(ANSWER), ANSWER, id="an answer"),
        pytest.param(_returns({}), {}, id="nothing to say"),
        pytest.param(_returns(None), FAILED, id="None"),
        pytest.param(_returns("text"), FAILED, id="no object"),
        pytest.param(_returns({"card": object()}), FAILED, id="no JSON"),
        pytest.param(_returns({"card": float("nan")}), FAILED, id="no JSON number"),
        pytest.param(_returns({"card": "\ud800"}), FAILED, id="no UTF-8"),
        pytest.param(_raise, FAILED, id="raises"),
        pytest.param(_hang, LATE, id="hangs"),
    ],
)
def test_a_click_is_always_answered_with_an_object(
    feishu: FakeFeishu, wire: Wire, on_card: Callable[[dict[str, Any]], Awaitable[Any]], answer: object
) -> None:
    """A handler may return, raise or hang: the person who clicked sees an answer, never an error code."""
    bot = Bot(feishu, wire, on_card=on_card)

    async def story(_: LongConnection) -> None:
        ack = await bot.deliver(CLICK)
        assert (ack.code, json.loads(ack.body or b"null")) == (200, answer)

    running(bot, story)


def test_case_e04_a_late_click_is_answered_in_time_and_still_handled(feishu: FakeFeishu, wire: Wire) -> None:
    """The answer says that it takes longer, and what was clicked is done all the same, once."""
    gate, done = asyncio.Event(), []

    async def on_card(event: dict[str, Any]) -> Any:
        await gate.wait()
        done.append(event)
        return {}

    bot = Bot(feishu, wire, on_card=on_card)

    async def story(_: LongConnection) -> None:
        began = time.monotonic()
        slow = await asyncio.gather(*(bot.deliver(CLICK) for _ in range(5)))
        assert {ack.body for ack in slow} == {json.dumps(LATE).encode()}
        assert QUICK.answer <= time.monotonic() - began < 2.0
        gate.set()
        await until(lambda: done == [CLICK] * 5)

    running(bot, story)


def test_a_long_message_is_put_together(feishu: FakeFeishu, wire: Wire) -> None:
    """Feishu cuts what is long into frames; it is acknowledged once, when it is whole."""
    bot = Bot(feishu, wire)
    feishu.socket.split_bytes = 7
    event = {**EVENT, "event": "早上好" * 50}

    async def story(_: LongConnection) -> None:
        assert (await bot.deliver(event)).code == 200

    running(bot, story)
    assert bot.events == [event]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\xff\xff\xff", id="no protobuf"),
        pytest.param(Frame(method=1, headers=[("type", "event")]).encode(), id="no number"),
        pytest.param(
            Frame(method=1, headers=[("message_id", "1"), ("sum", "2"), ("seq", "9")]).encode(),
            id="part 9 of 2",
        ),
        pytest.param(Frame(method=0, headers=[("type", "pong")], payload=b"{").encode(), id="pong, no JSON"),
        pytest.param(Frame(method=0, headers=[("type", "other")]).encode(), id="unknown control"),
        pytest.param(Frame(method=7).encode(), id="unknown method"),
    ],
)
def test_a_broken_frame_harms_nothing(feishu: FakeFeishu, wire: Wire, frame: bytes) -> None:
    """It is dropped, and the connection goes on."""
    bot = Bot(feishu, wire)

    async def story(connection: LongConnection) -> None:
        await bot.send(frame)
        assert (await bot.deliver(CLICK)).code == 200
        assert connection.healthy()

    running(bot, story)
    assert len(feishu.calls) == 1


# --- connections end -----------------------------------------------------------------------------


def test_a_connection_that_breaks_is_replaced(feishu: FakeFeishu, wire: Wire) -> None:
    """Cut without a goodbye, three times; after each the bot hears again."""
    bot = Bot(feishu, wire)

    async def story(connection: LongConnection) -> None:
        for n in range(3):
            before = _only(feishu)
            await asyncio.to_thread(feishu.drop_connections)
            await until(lambda before=before: feishu.connections == 1 and _only(feishu) != before)  # type: ignore[misc]  # mypy infers no lambda with a default
            await until(connection.healthy)
            assert (await bot.deliver({**EVENT, "event": n})).code == 200

    running(bot, story)
    assert [event["event"] for event in bot.events] == [0, 1, 2]


def test_case_e09_a_silent_connection_is_replaced(
    feishu: FakeFeishu, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """It looks open and nothing comes any more, not even a pong: it is closed, told and replaced."""
    bot = Bot(feishu, wire)
    feishu.socket.client_config = {"PingInterval": 0.05}

    async def story(connection: LongConnection) -> None:
        before = _only(feishu)
        await until(lambda: feishu.socket.live[before].pings >= 3)
        assert connection.silent_for() < PATIENT.silence
        feishu.socket.mute_pongs = True
        await until(lambda: not connection.healthy())
        await until(lambda: before not in feishu.socket.live)
        feishu.socket.mute_pongs = False
        await until(connection.healthy)

    running(bot, story, patience=PATIENT)
    assert "Nothing was heard on the long connection any more." in caplog.text


def test_a_connection_that_never_says_anything_is_not_healthy(feishu: FakeFeishu, wire: Wire) -> None:
    """Open is not enough."""
    bot = Bot(feishu, wire)
    feishu.socket.client_config = {"PingInterval": 0.05}
    feishu.socket.mute_pongs = True

    async def main() -> None:
        connection = bot.connection()
        connection.start()
        await until(lambda: feishu.connections == 1)
        assert not await connection.wait_until_healthy(0.05)
        assert connection.silent_for() == float("inf")
        await until(lambda: isinstance(connection.trouble, TryLater))
        await connection.stop()

    asyncio.run(main())


def test_the_pong_sets_the_time_between_pings(feishu: FakeFeishu, wire: Wire) -> None:
    """The server may ask for more or fewer pings at any time."""
    bot = Bot(feishu, wire)
    feishu.socket.client_config = {"PingInterval": 0.05}

    async def story(_: LongConnection) -> None:
        live = feishu.socket.live[_only(feishu)]
        await until(lambda: live.pings >= 3)
        feishu.socket.client_config = {"PingInterval": 60}
        pings = live.pings
        await until(lambda: live.pings > pings)  # its pong says 60 s, which counts from the next ping on
        assert await _none_within(0.3, lambda: live.pings > pings + 2)

    running(bot, story, patience=PATIENT)


REFUSED = "/callback/ws/endpoint"


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (CONNECTIONS_EXCEEDED, "50 long connections"),
        (1000040345, "FEISHU_APP_SECRET"),
        (514, "FEISHU_APP_SECRET"),
        (403, "publish a version"),
    ],
)
def test_a_refusal_is_told_once_with_its_remedy(
    feishu: FakeFeishu, wire: Wire, caplog: pytest.LogCaptureFixture, code: int, remedy: str
) -> None:
    """It is tried again and again, with longer waits, and stands in the log once; then it heals."""
    bot = Bot(feishu, wire)
    feishu.fail(REFUSED, code, times=None)

    async def main() -> None:
        connection = bot.connection()
        connection.start()
        await until(lambda: len(feishu.calls) >= 5)
        assert isinstance(connection.trouble, FixConfiguration)
        assert not connection.healthy()
        feishu.heal()
        assert await connection.wait_until_healthy(20)
        assert connection.trouble is None
        await connection.stop()

    asyncio.run(main())
    warnings = [
        r.getMessage() for r in caplog.records if r.name == "bot.feishu.connection" and r.levelno > 20
    ]
    assert len(warnings) == 1
    assert remedy in warnings[0]


def test_a_refused_handshake_is_understood(
    feishu: FakeFeishu, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit may also show only when connecting; there the code stands in a header."""
    monkeypatch.setattr(feishu_socket, "MAX_CONNECTIONS", 0)
    bot = Bot(feishu, wire)

    async def main() -> None:
        connection = bot.connection()
        connection.start()
        await until(lambda: connection.trouble is not None)
        assert connection.trouble is not None
        assert str(CONNECTIONS_EXCEEDED) in connection.trouble.message
        assert "50 long connections" in connection.trouble.hint
        await connection.stop()

    asyncio.run(main())


def test_a_wrong_secret_is_told_without_it(
    feishu: FakeFeishu, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says which variables to check, and not what is in them."""
    caplog.set_level(logging.DEBUG)
    bot = Bot(feishu, wire)

    async def main() -> None:
        connection = bot.connection(secret="not-the-secret")
        connection.start()
        await until(lambda: len(feishu.calls) >= 3)
        await connection.stop()

    asyncio.run(main())
    assert "FEISHU_APP_SECRET" in caplog.text
    assert "not-the-secret" not in caplog.text


@pytest.mark.parametrize("broken", [{"http": 500}, {"http": 502}])
def test_an_endpoint_in_trouble_is_asked_again(
    feishu: FakeFeishu, wire: Wire, broken: dict[str, int]
) -> None:
    """What passes by itself needs nobody."""
    feishu.fail(REFUSED, 1, times=2, **broken)  # type: ignore[arg-type]  # the table holds numbers only
    running(Bot(feishu, wire), _nothing)
    assert len(feishu.calls) == 3


def test_the_access_key_is_never_logged(
    feishu: FakeFeishu, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at DEBUG, not when connecting fails, not when the connection breaks."""
    caplog.set_level(logging.DEBUG)
    bot = Bot(feishu, wire)
    issued: set[str] = set()

    class Remembering(set[str]):
        def add(self, key: str) -> None:
            issued.add(key)
            super().add(key)

    feishu.socket._issued = Remembering()

    async def story(connection: LongConnection) -> None:
        await bot.deliver(CLICK)
        feishu.fail("/ws", 500, times=1)
        await asyncio.to_thread(feishu.drop_connections)
        await until(lambda: len(issued) >= 2)
        await until(connection.healthy)

    running(bot, story)
    assert "the long connection stands" in caplog.text
    assert [key for key in issued if key in caplog.text] == []
    assert "access_key" not in caplog.text


# --- the loop, start and stop --------------------------------------------------------------------


def test_nothing_blocks_the_loop(feishu: FakeFeishu, wire: Wire) -> None:
    """Neither the import of the SDK nor an endpoint that does not answer keeps the bot from its work."""
    bot = Bot(feishu, wire)
    feishu.hang(REFUSED, 2.0, times=1)
    begun, gate = threading.Event(), threading.Event()

    def slowly() -> Wire:
        begun.set()
        assert gate.wait(20), "nobody was left to open the gate: the loop was blocked"
        return wire

    async def main() -> None:
        connection = bot.connection(wire=slowly, patience=replace(QUICK, request=0.5))
        connection.start()
        await until(begun.is_set)
        assert not feishu.calls
        gate.set()
        assert await connection.wait_until_healthy(20)
        await connection.stop()

    asyncio.run(main())
    assert len(feishu.calls) >= 2  # the first was given up


def test_stopping_lets_end_what_was_begun(feishu: FakeFeishu, wire: Wire) -> None:
    """A click that is being handled is answered, new ones are left to another bot, then it closes."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def on_card(_: dict[str, Any]) -> Any:
        begun.set()
        await gate.wait()
        return ANSWER

    bot = Bot(feishu, wire, on_card=on_card)

    async def main() -> None:
        connection = bot.connection()
        connection.start()
        assert await connection.wait_until_healthy(20)
        click = asyncio.create_task(bot.deliver(CLICK))
        await begun.wait()
        stopping = asyncio.create_task(connection.stop())
        await asyncio.sleep(0)
        late = asyncio.create_task(bot.deliver({**EVENT, "event": "late"}))
        gate.set()
        await stopping
        assert json.loads((await click).body or b"") == ANSWER
        assert not (await late).ok
        assert (connection.healthy(), bot.events) == (False, [])
        await until(lambda: feishu.connections == 0)
        connection.start()  # and it can be started again
        assert await connection.wait_until_healthy(20)
        await connection.stop()
        await connection.stop()

    asyncio.run(main())


def test_stopping_does_not_wait_for_ever(feishu: FakeFeishu, wire: Wire) -> None:
    """Handlers that hang are given up, and so is a server that does not say goodbye."""
    bot = Bot(feishu, wire, on_event=_hang)

    async def main() -> None:
        connection = bot.connection()
        connection.start()
        assert await connection.wait_until_healthy(20)
        await bot.deliver(EVENT)
        began = time.monotonic()
        await connection.stop()
        assert time.monotonic() - began < 4.0
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


@pytest.mark.parametrize("where", [REFUSED, "nowhere"])
def test_stopping_before_it_stands(feishu: FakeFeishu, wire: Wire, where: str) -> None:
    """While it still asks where to connect, or waits for the next try, it stops at once."""
    bot = Bot(feishu, wire)
    feishu.hang(where, 5.0)
    feishu.fail(REFUSED, 1, times=None)

    async def main() -> None:
        connection = bot.connection(patience=Patience(restarts=(60,)))
        connection.start()
        connection.start()
        await until(lambda: feishu.calls)
        began = time.monotonic()
        await connection.stop()
        assert time.monotonic() - began < 4.0
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert len(feishu.calls) == 1


@pytest.mark.parametrize("held", [False, True])
def test_waits_grow_until_a_connection_holds(feishu: FakeFeishu, wire: Wire, held: bool) -> None:
    """One that breaks at once counts as a failure; one that held for long does not."""
    patience = Patience(restarts=(0.01, 30.0), steady=0.0 if held else 60.0)
    bot = Bot(feishu, wire)

    async def story(connection: LongConnection) -> None:
        for n in range(2):
            before = _only(feishu)
            await asyncio.to_thread(feishu.drop_connections)
            await until(lambda: not connection.healthy() or before not in feishu.socket.live)  # noqa: B023  (awaited here)
            if n and not held:
                assert await _none_within(0.2, lambda: feishu.connections)
            else:
                await until(lambda: feishu.connections == 1)
                await until(connection.healthy)

    running(bot, story, patience=patience)


# --- where to connect ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "secure", "expected"),
    [
        ({"URL": "wss://h/ws?service_id=7"}, True, ("wss://h/ws?service_id=7", 7, 120.0)),
        ({"URL": "ws://h/ws?service_id=7", "ClientConfig": {"PingInterval": 30}}, False, (None, 7, 30.0)),
        ({"URL": "ws://h/ws?service_id=7"}, True, "not encrypted"),
        ({"URL": "https://h/ws?service_id=7"}, True, "not encrypted"),
        ({"URL": "wss://h/ws"}, True, "no address"),
        ({"URL": "wss://h/ws?service_id=x"}, True, "no address"),
        ({"URL": None}, True, "no address"),
        ({}, True, "no address"),
        ([], True, "no address"),
    ],
)
def test_the_address_is_checked(data: Any, secure: bool, expected: Any) -> None:
    """Who asks over TLS is not sent to an open line, and an address without its service is none."""
    if isinstance(expected, str):
        with pytest.raises(TryLater, match=expected):
            dial._checked(data, secure=secure)
    else:
        url, service, seconds = expected
        assert dial._checked(data, secure=secure) == (url or data["URL"], service, seconds)


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({"PingInterval": 30}, 30.0),
        ({"PingInterval": 0.5}, 0.5),
        ({"PingInterval": 0}, PING_SECONDS),
        ({"PingInterval": -1}, PING_SECONDS),
        ({"PingInterval": "30"}, PING_SECONDS),
        ({"PingInterval": None}, PING_SECONDS),
        ({}, PING_SECONDS),
        (None, PING_SECONDS),
        ([], PING_SECONDS),
    ],
)
def test_the_time_between_pings(config: Any, seconds: float) -> None:
    """What is missing or unusable in the settings is what the SDK begins with."""
    assert interval(config) == seconds


def test_parts_of_different_messages_do_not_mix() -> None:
    """Parts may come in any order and between each other, twice, or too late."""
    parts = Parts()
    assert parts.add("a", 1, 0, b"whole", 0.0) == b"whole"
    assert parts.add("b", 2, 1, b"2", 0.0) is None
    assert parts.add("c", 2, 0, b"x", 1.0) is None
    assert parts.add("b", 2, 1, b"2", 1.0) is None
    assert parts.add("b", 2, 0, b"1", 1.0) == b"12"
    assert parts.add("c", 2, 1, b"y", 1.0 + PART_SECONDS) is None
    for count, number in ((2, 2), (2, -1), (10**9, 0)):
        with pytest.raises(FixInput):
            parts.add("d", count, number, b"", 2.0)


# --- contract with the SDK -----------------------------------------------------------------------


def test_contract_the_sdk_is_the_one_these_tests_know() -> None:
    """Another minor version may have other names: look at the tests below before raising the pin."""
    assert version("lark-oapi").startswith("1.7.")


def test_contract_the_whole_sdk_is_never_imported() -> None:
    """It takes 5 s and 174 MB."""
    code = (
        "import sys, bot.feishu.connection, bot.feishu.api, bot.feishu.webhook\n"
        "from bot.feishu.frames import load\n"
        "load().ping(7)\n"
        "print([name for name in ('lark_oapi', 'lark_oapi.ws', 'requests') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_contract_the_sdk_is_whole_for_whoever_imports_it_after_us(wire: Wire) -> None:
    """What we left out is there then, and works with the definitions that we loaded before."""
    import lark_oapi
    from lark_oapi.ws import Client
    from lark_oapi.ws.client import _new_ping_frame

    assert callable(lark_oapi.Client.builder)
    assert lark_oapi.ws.Client is Client
    assert isinstance(_new_ping_frame(7), wire.frame)


def test_contract_names(wire: Wire) -> None:
    """The constants we use and those we repeat are the SDK's."""
    from lark_oapi.ws import const, enum

    assert (wire.const.HEADER_TYPE, wire.const.HEADER_MESSAGE_ID) == ("type", "message_id")
    assert (wire.const.HEADER_SUM, wire.const.HEADER_SEQ) == ("sum", "seq")
    assert wire.const.HEADER_BIZ_RT == "biz_rt"
    assert (const.HEADER_HANDSHAKE_STATUS, const.HEADER_HANDSHAKE_MSG) == (
        "handshake-status",
        "handshake-msg",
    )
    assert const.HEADER_HANDSHAKE_AUTH_ERRCODE == "handshake-autherrcode"
    assert const.GEN_ENDPOINT_URI == REFUSED
    assert const.SERVICE_ID == "service_id"
    assert (const.EXCEED_CONN_LIMIT, const.AUTH_FAILED) == (CONNECTIONS_EXCEEDED, dial.AUTH_FAILED)
    assert {kind.name: kind.value for kind in enum.FrameType} == {"CONTROL": 0, "DATA": 1}
    assert {kind.name: kind.value for kind in enum.MessageType} == {
        "EVENT": "event",
        "CARD": "card",
        "PING": "ping",
        "PONG": "pong",
    }


def test_contract_the_settings_of_a_pong(wire: Wire) -> None:
    """The name of the setting we read is one the SDK reads."""
    from lark_oapi.ws.model import ClientConfig, EndpointResp

    answer = EndpointResp({"code": 0, "data": {"URL": "wss://h", "ClientConfig": {"PingInterval": 9}}})
    assert (answer.code, answer.data.URL, answer.data.ClientConfig.PingInterval) == (0, "wss://h", 9)
    config = json.dumps(vars(ClientConfig({"PingInterval": 9}))).encode()
    pong = wire.read(Frame(service=7, headers=[("type", "pong")], payload=config).encode())
    assert (wire.is_data(pong), wire.ping_seconds(pong)) == (False, 9.0)


def test_contract_our_frames_are_the_sdks(wire: Wire) -> None:
    """A ping of ours is byte for byte the SDK client's; every field of a frame survives reading."""
    from lark_oapi.ws.client import _new_ping_frame

    assert wire.ping(7) == _new_ping_frame(7).SerializeToString()
    assert decode(wire.ping(7)) == Frame(service=7, method=0, headers=[("type", "ping")])
    headers = [("type", "event"), ("message_id", "m"), ("sum", "1"), ("seq", "0"), ("trace_id", "t")]
    sent = Frame(seq_id=1 << 40, log_id=2, service=7, method=1, headers=headers, payload="早".encode())
    frame = wire.read(sent.encode())
    assert (wire.is_data(frame), wire.part(frame), frame.payload) == (True, ("m", 1, 0), sent.payload)
    assert decode(frame.SerializeToString()) == sent


@pytest.mark.parametrize("answer", [None, {}, {"toast": {"content": "早"}}])
def test_contract_our_acknowledgement_is_the_sdks(wire: Wire, answer: dict[str, Any] | None) -> None:
    """The frame goes back with the time it took, and in it what the SDK's client would answer."""
    from lark_oapi.core.json import JSON
    from lark_oapi.ws.model import Response

    sent = Frame(seq_id=3, log_id=4, service=7, method=1, headers=[("type", "event")], payload=b"{}")
    data = None if answer is None else base64.b64encode(JSON.marshal(answer).encode())
    back = decode(wire.acknowledged(wire.read(sent.encode()), answer, 12))
    expected = [("type", "event"), ("biz_rt", "12")]
    assert (back.seq_id, back.log_id, back.service, back.method, back.headers) == (3, 4, 7, 1, expected)
    assert json.loads(back.payload) == json.loads(JSON.marshal(Response(code=200, data=data)))


# --- small things --------------------------------------------------------------------------------


def _only(feishu: FakeFeishu) -> str:
    """The id of the one connection."""
    return next(iter(feishu.socket.live), "")


async def _nothing(_: LongConnection) -> None:
    """A story in which it is enough that the connection stands."""


async def _none_within(seconds: float, true: Callable[[], object]) -> bool:
    """Whether a condition stays false for a while: there is nothing to wait for when nothing may happen."""
    try:
        await until(true, seconds=seconds)
    except TimeoutError:
        return True
    return False
