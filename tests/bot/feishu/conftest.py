"""A Feishu tenant with a group and people, and the bot in it."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from agent_runner.config import Config
from agent_runner.config_chats import Feishu
from agent_runner.model import Inquiry, Task
from agent_runner.people import Person
from agent_runner.policy import Policy, Route
from tests.fakes.chat_office import ChatOffice
from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_model import Chat, Message, User

ROUTE = Route(match=("Bash(kubectl *)",), approvers=("group:oncall",), requester_may_decide=False)


class Scene:
    """One office in one fake tenant: Mei asks, Lin and Kai are on call, Gus is of another tenant."""

    def __init__(
        self, redis_url: str, feishu: FakeFeishu, stack: ExitStack, *, pace: float = 0.0, **changes: Any
    ) -> None:
        self.feishu = feishu
        self.url = redis_url
        self.mei = feishu.add_user("美美")
        self.lin = feishu.add_user("小林", departments=["od-oncall"])
        self.kai = feishu.add_user("阿凯")
        self.eve = feishu.add_user("Eve")
        self.gus = feishu.add_user("Gus", tenant_key="tenant_other")
        people = [self.mei, self.lin, self.kai, self.eve, self.gus]
        scope = changes.pop("scope", "group_msg")
        self.group = feishu.add_chat(changes.pop("kind", "group"), people, scope=scope, name="ops")
        chat = {"domain": feishu.domain, **changes.pop("chat", {})}
        listed = {
            "lin": Person(
                accounts=(f"feishu:{self.lin.open_id}", "web:lin"), groups=("oncall",), display="小林"
            ),
            "kai": Person(accounts=(f"feishu:{self.kai.open_id}",), groups=("oncall",), display="阿凯"),
        }
        self.config = Config(
            **{"feishu": Feishu(**chat), "people": listed, "policy": Policy(routes=(ROUTE,)), **changes}
        )
        self.environment = {
            "FEISHU_APP_ID": feishu.app_id,
            "FEISHU_APP_SECRET": feishu.app_secret,
            "FEISHU_ENCRYPT_KEY": feishu.encrypt_key,
            "FEISHU_VERIFICATION_TOKEN": feishu.verification_token,
        }
        self._stack = stack
        self.pace = pace
        self.offices: list[ChatOffice] = []
        self.lives: dict[ChatOffice, ExitStack] = {}
        """Closing one stops that bot."""
        self.office = self.open()

    def open(self, stack: ExitStack | None = None, *, url: str = "") -> ChatOffice:
        """One more bot on the same store; it lives as long as `stack`."""
        before = self.feishu.connections
        office = ChatOffice(url or self.url, self.config, self.environment)
        life = self.lives[office] = (stack or self._stack).enter_context(ExitStack())
        life.enter_context(office)
        office.doors["feishu"].client.interval = self.pace  # Feishu's own pace is a test of its own
        if self.config.feishu.mode == "socket":
            self.until(lambda: self.feishu.connections > before, 300)  # the first one loads the SDK
        self.offices.append(office)
        life.callback(self.offices.remove, office)
        return office

    # --- short ways to say what people do ------------------------------------------------

    def asked(self, text: str = "重启结算服务", *, by: User | None = None) -> Message:
        """Somebody asks for a job in the group; returns their message once the status stands below it."""
        asked = self.feishu.say(by or self.mei, self.group, text, mention=True)
        self.until(lambda: self.posts(asked))
        return asked

    def pending(self, *inquiries: Inquiry, by: User | None = None) -> tuple[Message, Message, Task]:
        """A job whose first request (a Bash call if none is given) stands in its thread.

        Returns its card, the message that asked for the job, and the task.
        """
        asked = self.asked(by=by)
        task = self.office.task()
        made = self.asks(task.id, *inquiries)
        return self.card(asked, f"请求 #{made[0].number}"), asked, task

    def asks(self, task_id: str, *inquiries: Inquiry) -> tuple[Inquiry, ...]:
        """A turn ends with these requests (a Bash call if none is given), and they are shown whole."""
        made = self.office.asks(task_id, *inquiries)
        for inquiry in made:
            self.shown(inquiry.number)
        return made

    def shown(self, number: int = 1) -> None:
        """Waits until a request is shown whole: nobody can say yes before."""
        task_id = self.inquiry(number).task_id

        def whole() -> bool:
            receipts = self.office.registers.receipts(task_id).values()
            return any(receipt.shows(number) and receipt.shown for receipt in receipts)

        self.until(whole)

    def inquiry(self, number: int = 1) -> Inquiry:
        """A request as it is stored."""
        return self.office.store.inquiry(f"i_{number}")

    def tasks(self) -> tuple[Task, ...]:
        """All tasks, newest first."""
        return self.office.store.list_tasks(None, after=None, limit=50)

    def say(
        self,
        user: User,
        text: str,
        *,
        to: Message | None = None,
        chat: Chat | None = None,
        mention: bool | Sequence[User] = False,
        **more: Any,
    ) -> Message:
        """Somebody writes, and the bot has dealt with it when this returns."""
        where = chat or (to.chat if to else self.group)
        return self.heard(self.feishu.say(user, where, text, reply_to=to, mention=mention, **more))

    def heard(self, message: Message, attempts: int = 1) -> Message:
        """Waits until the bot has dealt with a message that came to it so often."""
        self.until(lambda: len(message.attempts) >= attempts and message.acked)
        for office in self.offices:
            office.run(_finished())
        return message

    def posts(self, asked: Message) -> list[Message]:
        """What the bot wrote into that thread, oldest first."""
        found = self.feishu.messages(asked.chat)
        return [m for m in found if m.root_id == asked.message_id or m.parent_id == asked.message_id]

    def card(self, asked: Message, title: str) -> Message:
        """The card with these words in its header, once it stands there."""
        found: Message = self.until(
            lambda: next((m for m in self.posts(asked) if title in header_of(m)), None)
        )
        return found

    def texts(self, asked: Message) -> list[str]:
        """The text messages in the thread."""
        return [m.text for m in self.posts(asked) if m.msg_type == "text"]

    def told(self, asked: Message) -> list[str]:
        """The same without the mention of whoever is answered."""
        return [_AT.sub("", text) for text in self.texts(asked)]

    def calls(self, part: str) -> list[int]:
        """The codes of all calls whose route holds `part`, 0 for those that went well."""
        return [call.code[0] if call.code else 0 for call in self.feishu.calls if part in call.route]

    def later(self, condition: Callable[[], Any]) -> Any:
        """Waits for something while the clocks of all run ahead, as if minutes passed."""

        def look() -> Any:
            for office in self.offices:
                office.offset += timedelta(seconds=5)
            self.feishu.advance(5)
            return condition()

        return self.until(look)

    def settled(self) -> None:
        """Waits until every message shows what is stored."""
        self.later(lambda: not self.office.registers.dirty())

    def until(self, condition: Callable[[], Any], timeout: float = 40.0) -> Any:
        """Waits for something in the tenant."""
        return self.feishu.wait_for(condition, timeout)


_AT = re.compile(r'^<at user_id="[^"]+"></at> ')


def stale(message: Message) -> Message:
    """The message as a client shows it that has not heard of any change."""
    return dataclasses.replace(message, updates=[])


def unthreaded(*messages: Message) -> None:
    """As in a chat without threads: there a reply names the very message it quotes."""
    for message in messages:
        message.thread_id = ""


async def _finished() -> None:
    """Waits for all that Feishu's events set going in this loop."""
    while at_work := [task for task in asyncio.all_tasks() if _of_an_event(task)]:
        await asyncio.wait(at_work)


def _of_an_event(task: asyncio.Task[Any]) -> bool:
    name = getattr(task.get_coro(), "__qualname__", "")
    return name == "Background._logged" or "_hand_over" in name


def header_of(message: Message) -> str:
    """The title of a card."""
    return str((message.content.get("header") or {}).get("title", {}).get("content", ""))


def text_of(message: Message) -> str:
    """Everything that can be read on a message."""
    return "\n".join(_texts(message.content))


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("content", "text", "default_value") and isinstance(value, str):
                yield value
            else:
                yield from _texts(value)
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item)


def controls(message: Message) -> list[str]:
    """The names and verbs of what can be pressed on a card."""
    return [one["behaviors"][0]["value"]["verb"] for one in _buttons(message.content)]


def _buttons(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("tag") == "button":
            yield node
        for value in node.values():
            yield from _buttons(value)
    elif isinstance(node, list):
        for item in node:
            yield from _buttons(item)


@pytest.fixture
def scene(redis_url: str) -> Iterator[Callable[..., Scene]]:
    """Makes a scene; keyword arguments change the fake (`fake`) and the configuration."""
    with ExitStack() as stack:

        def make(*, fake: dict[str, Any] | None = None, **changes: Any) -> Scene:
            feishu = stack.enter_context(
                FakeFeishu(**{"redelivery_scale": 0.001, "qps": 1_000, **(fake or {})})
            )
            return Scene(changes.pop("url", redis_url), feishu, stack, **changes)

        yield make
