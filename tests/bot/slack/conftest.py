"""A Slack workspace with a channel and people, and the bot in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, cast

import pytest

from agent_runner.config import Config
from agent_runner.config_chats import Slack
from agent_runner.model import Decision, Inquiry, Place, Task
from agent_runner.people import Person
from agent_runner.policy import Policy, Route
from tests.fakes.chat_office import ChatOffice
from tests.fakes.slack import FakeSlack
from tests.fakes.slack_events import Delivery, Message, View

ROUTE = Route(match=("Bash(kubectl *)",), approvers=("group:oncall",), requester_may_decide=False)


class Scene:
    """One office in one fake workspace: Mei asks, Lin and Kai are on call, Gus is a guest."""

    def __init__(
        self,
        redis_url: str,
        slack: FakeSlack,
        stack: ExitStack,
        *,
        interval: float = 0.0,
        page: str = "http://countersign.test",
        **changes: Any,
    ) -> None:
        self.slack = slack
        self.url = redis_url
        self.mei = slack.add_user("mei", "U03")
        self.lin = slack.add_user("lin", "U01")
        self.kai = slack.add_user("kai", "U02")
        self.eve = slack.add_user("eve", "U04")
        self.gus = slack.add_user("gus", "U05", is_restricted=True)
        self.ops = slack.add_channel(
            "ops", "C0OPS", members={self.mei, self.lin, self.kai, self.eve, self.gus}
        )
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
        self.interval = interval
        self.page = page
        self.number = 1
        self.office = self.open()

    def open(self, stack: ExitStack | None = None) -> ChatOffice:
        """One more bot on the same store; it lives as long as `stack`."""
        office = ChatOffice(self.url, self.config, self.environment, page=self.page)
        (stack or self._stack).enter_context(office)
        office.doors["slack"].client.interval = self.interval  # Slack's own pace is a test of its own
        return office

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
        """The message of that key in a thread, once it stands there and the bot knows of it."""
        found: Message = self.until(lambda: next((p for p in self.posts(thread) if key_of(p) == key), None))
        registers = self.office.registers
        task_id = registers.task_at(Place(platform="slack", chat=self.ops, thread=thread))
        if task_id:  # a typed yes counts only from then on
            self.until(lambda: (kept := registers.receipts(task_id).get(key)) and kept.message_id)
        return found

    def pending(self, *inquiries: Inquiry, by: str | None = None) -> tuple[Message, Task]:
        """A job whose first request (a Bash call if none is given) stands in the thread: its card.

        From here on `whispers`, `told` and `inquiry` are about this one.
        """
        self.slack.ephemerals.clear()
        thread = self.asked(by=by)
        task = self.office.task()
        asked = self.office.asks(task.id, *inquiries)
        self.number = asked[0].number
        return self.card(thread, f"request:{asked[0].number}"), task

    def inquiry(self, number: int = 0) -> Inquiry:
        """A request as it is stored; that of `pending` if no number is given."""
        return self.office.store.inquiry(f"i_{number or self.number}")

    def decided(self) -> Decision:
        """What was decided about the request of `pending`, once it is."""
        self.until(lambda: not self.inquiry().open)
        decision = self.inquiry().decision
        assert decision is not None
        return decision

    def seen(self, message: Message) -> Message:
        """The message as it stands now."""
        return self.slack.message(message.channel, message.ts)

    def form(self, user: str, *names: str) -> View:
        """The form of one of these kinds that this person has in front, once it is there."""

        def shown() -> View | None:
            view = self.slack.modal(user)
            return view if view.view["callback_id"] in (names or ("change", "reject")) else None

        return cast("View", self.until(shown))

    def submit(self, user: str, view: View, values: dict[str, str]) -> Delivery:
        """Fills in a form by the names of its inputs, and sends it."""
        blocks = {block["block_id"].split("@")[0]: block["block_id"] for block in view.blocks}
        return self.slack.submit(user, view, {blocks[name]: value for name, value in values.items()})

    def told(self, user: str, count: int = 1) -> list[str]:
        """What only this person was told, once it is that many things."""
        self.until(lambda: len(self.whispers(user)) >= count)
        return self.whispers(user)

    def tasks(self) -> tuple[Task, ...]:
        """All tasks, newest first."""
        return self.office.store.list_tasks(None, after=None, limit=50)

    def quiet(self) -> None:
        """Waits until everything that was sent to the bot is acknowledged and dealt with."""
        self.until(self.slack.idle)
        self.office.run(_finished())

    def looked(self) -> None:
        """Waits until the bot has looked at all of its messages since now: another job's message is out."""
        self.asked()

    def until(self, condition: Callable[[], Any], timeout: float = 30.0) -> Any:
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


async def _finished() -> None:
    """Waits for all that Slack's payloads set going in this loop."""
    while at_work := [task for task in asyncio.all_tasks() if _of_a_payload(task)]:
        await asyncio.wait(at_work)


def _of_a_payload(task: asyncio.Task[Any]) -> bool:
    name = getattr(task.get_coro(), "__qualname__", "")
    return name == "Background._logged" or "run_ack_function_asynchronously" in name


@pytest.fixture
def scene(redis_url: str) -> Iterator[Callable[..., Scene]]:
    """Makes a scene; keyword arguments change the fake (`fake`, `before`) and the configuration."""
    with ExitStack() as stack:

        def make(
            *,
            fake: dict[str, Any] | None = None,
            before: Callable[[FakeSlack], Any] = lambda _: None,
            url: str = redis_url,
            **changes: Any,
        ) -> Scene:
            slack = stack.enter_context(FakeSlack(**{"rate": None, "pace": 0.02, **(fake or {})}))
            before(slack)
            return Scene(url, slack, stack, **changes)

        yield make
