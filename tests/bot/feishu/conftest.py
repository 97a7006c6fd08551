"""A Feishu tenant with a group and people, and the bot in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from agent_runner.config import Config
from agent_runner.config_chats import Feishu
from agent_runner.people import Person
from agent_runner.policy import Policy, Route
from tests.fakes.chat_office import ChatOffice
from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_model import Message, User

ROUTE = Route(match=("Bash(kubectl *)",), approvers=("group:oncall",), requester_may_decide=False)


class Scene:
    """One office in one fake tenant: Mei asks, Lin and Kai are on call, Gus is of another tenant."""

    def __init__(self, redis_url: str, feishu: FakeFeishu, stack: ExitStack, **changes: Any) -> None:
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
            "lin": Person(accounts=(f"feishu:{self.lin.open_id}", "web:lin"), groups=("oncall",), display="小林"),
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
        self.office = self.open()

    def open(self) -> ChatOffice:
        """One more bot on the same store."""
        before = self.feishu.connections
        office = self._stack.enter_context(ChatOffice(self.url, self.config, self.environment))
        if self.config.feishu.mode == "socket":
            self.until(lambda: self.feishu.connections > before, 60)  # the first one loads the SDK
        return office

    # --- short ways to say what people do ------------------------------------------------

    def asked(self, text: str = "重启结算服务", *, by: User | None = None) -> Message:
        """Somebody asks for a job in the group; returns their message once the status stands below it."""
        asked = self.feishu.say(by or self.mei, self.group, text, mention=True)
        self.until(lambda: self.posts(asked))
        return asked

    def posts(self, asked: Message) -> list[Message]:
        """What the bot wrote into that thread, oldest first."""
        found = self.feishu.messages(self.group)
        return [m for m in found if m.root_id == asked.message_id or m.parent_id == asked.message_id]

    def card(self, asked: Message, title: str) -> Message:
        """The card with these words in its header, once it stands there."""
        return self.until(
            lambda: next((m for m in self.posts(asked) if title in header_of(m)), None)
        )

    def texts(self, asked: Message) -> list[str]:
        """The text messages in the thread."""
        return [m.text for m in self.posts(asked) if m.msg_type == "text"]

    def until(self, condition: Callable[[], Any], timeout: float = 10.0) -> Any:
        """Waits for something in the tenant."""
        return self.feishu.wait_for(condition, timeout)


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
            feishu = stack.enter_context(FakeFeishu(**{"redelivery_scale": 0.001, **(fake or {})}))
            return Scene(redis_url, feishu, stack, **changes)

        yield make
