"""How events and presses reach the bot: over long connections that break, several bots, and signed HTTP."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

import bot.feishu.connection
import tests.fakes.feishu_socket
from agent_runner.errors import FixConfiguration
from agent_runner.model import InquiryState
from bot.background import MOST_BODY
from bot.feishu.app import PATH
from tests.bot.feishu.conftest import Scene, controls, header_of, text_of
from tests.fakes.chat_office import ChatOffice
from tests.fakes.faults import hung, private_redis
from tests.fakes.feishu_clicks import ClickResult
from tests.fakes.feishu_model import Message
from tests.fakes.values import an_inquiry

Make = Callable[..., Scene]

FAILED = "未记录：这边出了问题。请重试，不会重复执行。"
NOT_RECORDED = "没有记录：存储没有及时响应。请重试。"


def decides(s: Scene, number: int = 1) -> None:
    """A whole round: asked, shown, pressed, recorded."""
    card, asked, _ = s.pending()
    assert s.feishu.click(s.lin, card, "approve").error is None
    assert s.inquiry(number).state is InquiryState.APPROVED
    s.say(s.mei, "状态", to=asked)
    assert len(s.told(asked)) == 1


# --- the long connection -----------------------------------------------------------------


def test_a_connection_that_was_cut_is_replaced(scene: Make) -> None:
    """What is said meanwhile comes again by itself, and presses work as before."""
    s = scene()
    decides(s)
    [before] = s.feishu.socket.live
    s.feishu.drop_connections()
    missed = s.feishu.say(s.mei, s.group, "看看磁盘", mention=True)
    s.until(lambda: s.feishu.connections == 1 and before not in s.feishu.socket.live)
    s.feishu.advance(8 * 3600)
    s.heard(missed, 0)
    decides(s, 2)
    assert s.feishu.socket.errors == []


def test_case_e09_a_connection_on_which_nothing_is_heard(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks open; without answers to its pings it is given up and replaced."""
    patience = functools.partial(bot.feishu.connection.Patience, silence=1.0)
    monkeypatch.setattr(bot.feishu.connection, "Patience", patience)
    s = scene()
    decides(s)
    [before] = s.feishu.socket.live
    s.feishu.socket.mute_pongs = True
    s.until(lambda: before not in s.feishu.socket.live)
    s.feishu.socket.mute_pongs = False
    connection = s.office.doors["feishu"].app.connection  # type: ignore[attr-defined]  # Feishu's own
    s.until(connection.healthy)
    decides(s, 2)


def test_too_many_connections(scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what to do about it, tried again, and works once there is room."""
    s = scene()
    connection = s.office.doors["feishu"].app.connection  # type: ignore[attr-defined]  # Feishu's own
    s.until(connection.healthy)
    with monkeypatch.context() as full:
        full.setattr(tests.fakes.feishu_socket, "MAX_CONNECTIONS", 0)
        s.feishu.drop_connections()
        trouble = s.until(
            lambda: connection.trouble if isinstance(connection.trouble, FixConfiguration) else None
        )
        assert "50 long connections" in trouble.hint
    s.until(connection.healthy)
    decides(s)
    assert connection.trouble is None


# --- several bots ------------------------------------------------------------------------


def test_any_bot_serves_and_one_delivers(scene: Make) -> None:
    """Events and presses come to either; every message stands once, and when one stops the other goes on."""
    s = scene(fake={"deadline": 10.0})
    s.open()
    took: set[str] = set()
    for number in range(1, 4):
        card, asked, _ = s.pending()
        assert s.feishu.click(s.lin, card, "reject", form={"words": "先备份"}).error is None
        took |= {attempt.to for attempt in asked.attempts}
        s.until(functools.partial(_told_by_lin, s, asked))
        assert [header_of(m).split(" · ")[0] for m in s.posts(asked)].count(f"请求 #{number}") == 1
    for _ in range(60):  # a random one is chosen for each
        took |= {attempt.to for attempt in s.say(s.mei, "今天天气不错").attempts}
        if len(took) == 2:
            break
    assert len(took) == 2
    card, asked, task = s.pending()
    s.lives[s.office].close()
    s.office = s.offices[0]
    assert s.feishu.click(s.lin, card, "approve").error is None
    s.until(lambda: controls(card) == [])
    s.office.ends(task.id, "全部完成。")
    s.until(lambda: any("全部完成。" in text_of(m) for m in s.posts(asked)))
    assert len([m for m in s.posts(asked) if header_of(m).startswith("请求 #4 · ")]) == 1


def _told_by_lin(s: Scene, asked: Message) -> bool:
    """Whether a message of its own tells what Lin decided."""
    return any("小林" in text_of(message) for message in s.posts(asked)[2:])


def test_every_press_is_answered(scene: Make) -> None:
    """Twenty at once, on requests of one thread, by two people: no error code, nothing lost."""
    s = scene(fake={"deadline": 10.0})
    asked = s.asked()
    s.office.asks(
        s.office.task().id, *[an_inquiry(tool_input={"command": f"kubectl {n}"}) for n in range(10)]
    )
    s.until(lambda: len(s.posts(asked)) == 11)
    cards = s.posts(asked)[1:]

    async def press_all() -> list[ClickResult]:
        return await asyncio.gather(
            *(s.feishu.click_async(who, card, "approve") for card in cards for who in (s.lin, s.kai))
        )

    results = asyncio.run(press_all())
    assert [result.error for result in results] == [None] * 20
    assert {s.inquiry(n).state for n in range(1, 11)} == {InquiryState.APPROVED}
    s.until(lambda: all(controls(card) == [] for card in cards))
    assert not [u for card in cards for u in card.updates if u.reverted]


# --- signed HTTP -------------------------------------------------------------------------


@contextmanager
def served(office: ChatOffice) -> Iterator[str]:
    """The door's paths on loopback, in the bot's own loop; yields the address."""
    routes = [Route(path, app) for path, app in office.doors["feishu"].http.items()]
    config = uvicorn.Config(Starlette(routes=routes), port=0, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)

    async def start() -> tuple[asyncio.Task[None], int]:
        task = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        return task, server.servers[0].sockets[0].getsockname()[1]

    async def stop(task: asyncio.Task[None]) -> None:
        server.should_exit = True
        await task

    task, port = office.run(start())
    yield f"http://127.0.0.1:{port}{PATH}"
    office.run(stop(task))


@pytest.fixture
def web(scene: Make) -> Iterator[tuple[Scene, str]]:
    """A bot that is reached by HTTP, and its address."""
    s = scene(chat={"mode": "http"})
    with served(s.office) as url:
        yield s, url


def test_http_serves_events_and_presses(web: tuple[Scene, str]) -> None:
    """The challenge is answered, and then everything works as over the long connection."""
    s, url = web
    assert s.feishu.use_webhook(url)
    assert s.feishu.connections == 0
    decides(s)
    assert {one.status for one in s.feishu.callbacks} == {200}


def test_http_refuses_what_is_not_feishus(web: tuple[Scene, str]) -> None:
    """Wrong key, no signature, stale, replayed, too long: refused without a reason, and nothing is done."""
    s, url = web
    assert s.feishu.use_webhook(url)
    card, _, _ = s.pending()
    s.feishu.use_webhook(url, verify=False)
    assert s.feishu.click(s.lin, card, "reject", form={"words": ""}).error is None
    genuine = s.feishu.callbacks[-1]
    press = _press(s, card.message_id)
    other = {**press, "header": {**press["header"], "token": "other"}}
    table: list[tuple[str, tuple[Any, bytes], int]] = [
        ("replayed", (genuine.headers, genuine.body), 403),
        ("another key", s.feishu.sealed(press, key="k" * 32), 403),
        ("unsigned", s.feishu.sealed(press, signed=False), 403),
        ("stale", s.feishu.sealed(press, age=301), 403),
        ("of the future", s.feishu.sealed(press, age=-302), 403),
        ("another token", s.feishu.sealed(other), 403),
        ("nonsense", ({}, b"{"), 403),
        ("empty", ({}, b""), 403),
        ("too long", ({}, b"x" * (MOST_BODY + 1)), 413),
    ]
    with httpx.Client(trust_env=False) as http:
        for name, (headers, body), status in table:
            answer = http.post(url, headers=dict(headers), content=body)
            assert (name, answer.status_code) == (name, status)
            assert answer.text in ("", '{"msg":"refused"}')
        assert http.get(url).status_code == 405
        assert s.inquiry().open
        headers, body = s.feishu.sealed(press)
        assert http.post(url, headers=headers, content=body).json()["toast"]["type"] == "success"
    assert s.inquiry().state is InquiryState.APPROVED


def test_http_nothing_is_taken_while_the_store_is_away(scene: Make) -> None:
    """Whether a press was here before cannot be known then: it is not recorded, and says so; words too."""
    with private_redis() as server:
        s = scene(url=server.url, chat={"mode": "http"})
        with served(s.office) as url:
            assert s.feishu.use_webhook(url)
            card, asked, _ = s.pending()
            with hung(server):
                result = s.feishu.click(s.lin, card, "approve")
                assert (result.error, result.toast and result.toast.content) == (None, FAILED)
                s.say(s.lin, "1", to=card)
                assert s.told(asked) == [NOT_RECORDED]
            assert s.inquiry().open
            assert s.feishu.click(s.lin, card, "approve").ok
            assert s.inquiry().state is InquiryState.APPROVED
        s.lives[s.office].close()


def _press(s: Scene, message_id: str) -> dict[str, Any]:
    """Lin's approval of request 1, as Feishu would send it."""
    header = {
        "event_id": "e-1",
        "event_type": "card.action.trigger",
        "tenant_key": s.feishu.tenant_key,
        "token": s.feishu.verification_token,
        "app_id": s.feishu.app_id,
    }
    return {
        "schema": "2.0",
        "header": header,
        "event": {
            "operator": {"open_id": s.lin.open_id, "tenant_key": s.feishu.tenant_key},
            "token": "c-1",
            "action": {
                "tag": "button",
                "name": "approve",
                "value": {"verb": "approve", "inquiry": "i_1", "revision": s.inquiry().revision},
                "form_value": {"words": ""},
            },
            "context": {"open_message_id": message_id, "open_chat_id": s.group.chat_id},
        },
    }


def test_http_a_press_is_answered_in_time(web: tuple[Scene, str]) -> None:
    """Feishu that does not say who somebody is holds the answer up no longer than the person waits."""
    s, url = web
    assert s.feishu.use_webhook(url)
    card, _, _ = s.pending()
    s.feishu.hang(f"users/{s.kai.open_id}", 4.0)
    result = s.feishu.click(s.kai, card, "approve")
    assert (result.error, result.ms < 3_000) == (None, True)
    assert result.toast is not None
    assert result.toast.kind == "warning"
    s.until(lambda: s.inquiry().state is InquiryState.APPROVED)
    s.until(lambda: controls(card) == [])
