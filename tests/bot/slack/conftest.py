"""A Slack workspace with a channel and people, and the bot in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from agent_runner.config import Config
from agent_runner.config_chats import Slack
from agent_runner.people import Person
from agent_runner.policy import Policy, Route
from tests.fakes.chat_office import ChatOffice
from tests.fakes.slack import FakeSlack, Message

ROUTE = Route(match=("Bash(kubectl *)",), approvers=("group:oncall",), requester_may_decide=False)


class Scene:
    """One office in one fake workspace: Mei asks, Lin and Kai are on call, Gus is a guest."""

    def __init__(self, redis_url: str, slack: FakeSlack, stack: ExitStack, **changes: Any) -> None:
        self.slack = slack
        self.url = redis_url
        self.mei = slack.add_user("mei", "U03")
        self.lin = slack.add_user("lin", "U01")
        self.kai = slack.add_user("kai", "U02")
        self.eve = slack.add_user("eve", "U04")
        self.gus = slack.add_user("gus", "U05", is_restricted=True)
        self.ops = slack.add_channel("ops", "C0OPS", members={self.mei, self.lin, self.kai, self.eve, self.gus})
        chat = {"api_url": slack.api_url, **changes.pop("chat", {})}
        people = {
            "lin": Person(accounts=("slack:U01", "web:lin"), groups=("oncall",), display="Lin"),
            "kai": Person(accounts=("slack:U02",), groups=("oncall",), display="Kai"),
        }
        self.config = Config(
            **{"slack": Slack(**chat), "people": people, "policy": Policy(routes=(ROUTE,)), **changes}
        )
        self.environment = {
            "SLACK_BOT_TOKEN": slack.bot_token,
            "SLACK_APP_TOKEN": slack.app_token,
            "SLACK_SIGNING_SECRET": slack.signing_secret,
        }
        self._stack = stack
        self.office = self.open()

    def open(self) -> ChatOffice:
        """One more bot on the same store."""
        office = ChatOffice(self.url, self.config, self.environment)
        return self._stack.enter_context(office)

    # --- short ways to say what people do ------------------------------------------------

    def asked(self, text: str = "restart the checkout pods", *, by: str | None = None) -> str:
        """Somebody asks for a job in the channel; returns the thread once the status stands in it."""
        thread = self.slack.say(by or self.mei, self.ops, text, mention=True).ts
        self.until(lambda: self.posts(thread))
        return thread

    def posts(self, thread: str) -> list[Message]:
        """What the bot wrote into a thread, oldest first."""
        return [post for post in self.slack.posts(self.ops, thread) if post.ts != thread]

    def card(self, thread: str, key: str) -> Message:
        """The message of that key in a thread, once it stands there."""
        return self.until(lambda: next((p for p in self.posts(thread) if key_of(p) == key), None))

    def until(self, condition: Callable[[], Any], timeout: float = 10.0) -> Any:
        """Waits for something in the workspace."""
        return self.slack.wait_for(condition, timeout)

    def whispers(self, user: str) -> list[str]:
        """What only this person was told."""
        return [one.text for one in self.slack.ephemerals if one.ephemeral_to == user]


def key_of(message: Message) -> str:
    """The courier's key of a message."""
    return str(((message.metadata or {}).get("event_payload") or {}).get("key") or "")


def text_of(message: Message) -> str:
    """Everything that can be read on a message."""
    return "\n".join([message.text, *_texts(message.blocks)])


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "text" and isinstance(value, str):
                yield value
            elif key not in ("value", "block_id", "action_id"):
                yield from _texts(value)
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item)


@pytest.fixture
def scene(redis_url: str) -> Iterator[Callable[..., Scene]]:
    """Makes a scene; keyword arguments change the fake (`fake`) and the configuration."""
    with ExitStack() as stack:

        def make(*, fake: dict[str, Any] | None = None, **changes: Any) -> Scene:
            slack = stack.enter_context(FakeSlack(**{"rate": None, "pace": 0.02, **(fake or {})}))
            return Scene(redis_url, slack, stack, **changes)

        yield make
