"""A thread on a fake chat product with everything of ours behind it: the bot, the store, real turns.

What people do and read is said in the same words for both products; turns run when a test says so.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

from agent_runner.config import Config
from agent_runner.config_chats import Feishu, Slack
from agent_runner.messages_api import MessagesServer
from agent_runner.messages_request import Script
from agent_runner.model import Inquiry, Task, TaskState
from agent_runner.people import Person
from agent_runner.policy import Policy, Route
from tests.fakes import feishu_clicks
from tests.fakes.chat_office import ChatOffice
from tests.fakes.desk import Desk
from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_model import Message as FeishuMessage
from tests.fakes.slack import FakeSlack
from tests.fakes.slack_events import Message as SlackMessage
from tests.fakes.slack_events import View

T = TypeVar("T")

ROUTE = Route(match=("Bash",), approvers=("group:oncall",), requester_may_decide=False)
PATIENCE = 30.0
"""Seconds that a test waits for what the bot does; it takes well under one on an idle machine."""
SDK_SECONDS = 120.0
"""The same for the first connection to Feishu of a process, which loads the SDK: 5 s on an idle machine."""


class ChatDesk(ABC):
    """A chat in which Mei asks, and Lin and Kai, who are on call, decide about commands.

    Mei and Lin are also on the web page, as `mei` and `lin`. Cards are in English.
    """

    platform: str

    def __init__(
        self,
        redis_url: str,
        script: Script,
        folder: Path,
        stack: ExitStack,
        *,
        interactive: bool = True,
        route: Route = ROUTE,
    ) -> None:
        self.redis_url = redis_url
        self.stack = stack
        self.model = stack.enter_context(MessagesServer(script))
        listed = {
            name: Person(accounts=(f"{self.platform}:{account}", f"web:{name}"), groups=groups)
            for name, account, groups in (
                ("mei", self.account("mei"), ()),
                ("lin", self.account("lin"), ("oncall",)),
                ("kai", self.account("kai"), ("oncall",)),
            )
        }
        config = Config(people=listed, policy=Policy(routes=(route,)), **self.chat(interactive=interactive))
        self.desk = Desk(redis_url, self.model, folder, config=config)
        self.first = stack.enter_context(ExitStack())
        """Closing it ends the first bot."""
        self.office = self.open(self.first)

    def open(self, stack: ExitStack | None = None) -> ChatOffice:
        """One more bot on the same store; it lives as long as `stack`. What it decides, the desk works on."""
        office = ChatOffice(self.redis_url, self.desk.config, self.secrets(), store=self.desk.store)
        (stack or self.stack).enter_context(office)
        self.connected(office)
        return office

    # --- the work behind it --------------------------------------------------------------

    def work(self) -> None:
        """Waits until a turn is queued, and runs it to the next request or to the end."""
        self.until(lambda: self.task().state is TaskState.QUEUED)
        self.desk.work()

    def task(self) -> Task:
        """The one task of this chat."""
        [task] = self.desk.store.list_tasks(None, after=None, limit=2)
        return task

    def inquiry(self, number: int = 1) -> Inquiry:
        """A request of it as it is stored."""
        found = self.desk.snap(self.task().id).inquiries
        return next(inquiry for inquiry in found if inquiry.number == number)

    def ran(self) -> list[str]:
        """The lines that approved commands wrote into `out.txt` in the workspace."""
        out = self.desk.workspace / "out.txt"
        return out.read_text().splitlines() if out.exists() else []

    # --- what people read ----------------------------------------------------------------

    def card(self, number: int = 1) -> Any:
        """The message with that request in the thread, once it stands there."""
        return self.until(lambda: next(iter(self.cards(number)), None))

    def cards(self, number: int = 1) -> list[Any]:
        """The messages with that request in the thread now; more than one would be a mistake."""
        title = f"Request #{number} · "
        return [post for post in self.posts() if title in self.shown(post)]

    def texts(self) -> list[str]:
        """All that can be read on each message of the bot in the thread, oldest first."""
        return ["\n".join(words(self.body(post))) for post in self.posts()]

    def shown(self, card: Any) -> str:
        """All that can be read on a message now."""
        return "\n".join(words(self.body(self.now(card))))

    def until_shown(self, card: Any, text: str) -> None:
        """Waits until a card says this, and nothing on it can be pressed any more."""
        self.until(lambda: text in self.shown(card) and not self.buttons(card))

    def until_told(self, text: str) -> None:
        """Waits until some message in the thread says this."""
        self.until(lambda: any(text in one for one in self.texts()))

    # --- each product's own --------------------------------------------------------------

    @abstractmethod
    def account(self, name: str) -> str:
        """The user id of one of the three."""

    @abstractmethod
    def chat(self, *, interactive: bool) -> dict[str, Any]:
        """The product's section of the configuration."""

    @abstractmethod
    def secrets(self) -> Mapping[str, str]:
        """The environment of the bot."""

    @abstractmethod
    def connected(self, office: ChatOffice) -> None:
        """Waits until events reach a new bot."""

    @abstractmethod
    def until(self, condition: Callable[[], T]) -> T:
        """Waits for something."""

    @abstractmethod
    def posts(self) -> Sequence[Any]:
        """The bot's messages in the thread."""

    @abstractmethod
    def now(self, card: Any) -> Any:
        """The message as it stands now."""

    @abstractmethod
    def body(self, message: Any) -> Any:
        """What is drawn of a message."""

    @abstractmethod
    def buttons(self, card: Any) -> list[str]:
        """The verbs of what can be pressed on a message now."""

    @abstractmethod
    def mention(self, text: str) -> None:
        """Mei asks for a job; it is stored when this returns."""

    @abstractmethod
    def reply(self, who: str, text: str) -> None:
        """Somebody writes in the thread."""

    @abstractmethod
    def press(self, who: str, card: Any, verb: str) -> None:
        """Somebody presses a button that needs nothing filled in."""

    @abstractmethod
    def reject(self, who: str, card: Any, reason: str) -> None:
        """Somebody rejects, with a reason."""

    @abstractmethod
    def edit(self, who: str, card: Any, command: str) -> None:
        """Somebody changes the command, and approves it so."""

    @abstractmethod
    def answer(self, who: str, card: Any, one: int, several: Sequence[int]) -> None:
        """Somebody picks an option of the first question and some of the second, and sends them."""


class SlackDesk(ChatDesk):
    """The chat is a channel on Slack."""

    platform = "slack"

    def __init__(self, redis_url: str, script: Script, folder: Path, stack: ExitStack, **more: Any) -> None:
        self.slack = stack.enter_context(FakeSlack(rate=None, pace=0.02))
        self.people = {name: self.slack.add_user(name) for name in ("mei", "lin", "kai")}
        self.ops = self.slack.add_channel("ops", members=set(self.people.values()))
        self.thread = ""
        super().__init__(redis_url, script, folder, stack, **more)

    def account(self, name: str) -> str:
        return self.people[name]

    def chat(self, *, interactive: bool) -> dict[str, Any]:
        return {"slack": Slack(api_url=self.slack.api_url, interactive=interactive)}

    def secrets(self) -> Mapping[str, str]:
        return {"SLACK_BOT_TOKEN": self.slack.bot_token, "SLACK_APP_TOKEN": self.slack.app_token}

    def connected(self, office: ChatOffice) -> None:
        cast("Any", office.doors["slack"].client).interval = 0.0  # Slack's own pace is a test of its own

    def until(self, condition: Callable[[], T]) -> T:
        return self.slack.wait_for(condition, PATIENCE)

    def posts(self) -> Sequence[SlackMessage]:
        return self.slack.posts(self.ops, self.thread)

    def now(self, card: SlackMessage) -> SlackMessage:
        return self.slack.message(card.channel, card.ts)

    def body(self, message: SlackMessage) -> Any:
        return {"text": html.unescape(message.text), "blocks": message.blocks}  # as Slack shows it

    def buttons(self, card: SlackMessage) -> list[str]:
        return list(self.now(card).buttons)

    def mention(self, text: str) -> None:
        self.thread = self.slack.say(self.people["mei"], self.ops, text, mention=True).ts
        self.until(self.posts)

    def reply(self, who: str, text: str) -> None:
        self.slack.say(self.people[who], self.ops, text, thread_ts=self.thread)

    def press(self, who: str, card: SlackMessage, verb: str) -> None:
        assert self.slack.click(self.people[who], card, verb).acked

    def reject(self, who: str, card: SlackMessage, reason: str) -> None:
        self._fill_in(who, card, "reject", reason=reason)

    def edit(self, who: str, card: SlackMessage, command: str) -> None:
        self._fill_in(who, card, "change", **{"field.0": command})

    def _fill_in(self, who: str, card: SlackMessage, verb: str, **values: str) -> None:
        user = self.people[who]
        self.press(who, card, verb)
        view = self.until(lambda: self._form(user, verb))
        assert view is not None
        blocks = {_named(block): block["block_id"] for block in view.blocks}
        done = self.slack.submit(user, view, {blocks[name]: value for name, value in values.items()})
        assert (done.acked, done.errors) == (True, {})

    def _form(self, user: str, verb: str) -> View | None:
        view = self.slack.modal(user)
        return view if view.view["callback_id"] == verb and "submit" in view.view else None

    def answer(self, who: str, card: SlackMessage, one: int, several: Sequence[int]) -> None:
        blocks = {_named(block): block["block_id"] for block in card.blocks}
        picked = {"answer.0": [one], "answer.1": several}
        for name, options in picked.items():
            self.slack.fill(self.people[who], card, blocks[name], *map(str, options))
        self.press(who, card, "answer")


class FeishuDesk(ChatDesk):
    """The chat is a group on Feishu."""

    platform = "feishu"

    def __init__(self, redis_url: str, script: Script, folder: Path, stack: ExitStack, **more: Any) -> None:
        self.feishu = stack.enter_context(FakeFeishu(redelivery_scale=0.001))
        self.people = {name: self.feishu.add_user(name) for name in ("mei", "lin", "kai")}
        self.ops = self.feishu.add_chat("group", list(self.people.values()), scope="group_msg")
        self.asked: FeishuMessage | None = None
        super().__init__(redis_url, script, folder, stack, **more)

    def account(self, name: str) -> str:
        return self.people[name].open_id

    def chat(self, *, interactive: bool) -> dict[str, Any]:
        return {"feishu": Feishu(domain=self.feishu.domain, interactive=interactive, language="en")}

    def secrets(self) -> Mapping[str, str]:
        return {"FEISHU_APP_ID": self.feishu.app_id, "FEISHU_APP_SECRET": self.feishu.app_secret}

    def connected(self, office: ChatOffice) -> None:  # noqa: ARG002  it connects by itself
        self.bots = getattr(self, "bots", 0) + 1
        self.feishu.wait_for(lambda: self.feishu.connections >= self.bots, SDK_SECONDS)

    def until(self, condition: Callable[[], T]) -> T:
        return self.feishu.wait_for(condition, PATIENCE)

    def posts(self) -> Sequence[FeishuMessage]:
        thread = self.asked.message_id if self.asked else ""
        return [one for one in self.feishu.messages(self.ops) if thread in (one.root_id, one.parent_id)]

    def now(self, card: FeishuMessage) -> FeishuMessage:
        return card

    def body(self, message: FeishuMessage) -> Any:
        return message.content

    def buttons(self, card: FeishuMessage) -> list[str]:
        used = feishu_clicks.controls_of(card.content)
        return [control.value["verb"] for control in used if control.value]

    def mention(self, text: str) -> None:
        self.asked = self.feishu.say(self.people["mei"], self.ops, text, mention=True)
        self.until(self.posts)

    def reply(self, who: str, text: str) -> None:
        self.feishu.say(self.people[who], self.ops, text, reply_to=self.asked)

    def press(self, who: str, card: FeishuMessage, verb: str) -> None:
        self._press(who, card, verb, {})

    def reject(self, who: str, card: FeishuMessage, reason: str) -> None:
        self._press(who, card, "reject", {"words": reason})

    def edit(self, who: str, card: FeishuMessage, command: str) -> None:
        self._press(who, card, "change", {"f0": command})

    def answer(self, who: str, card: FeishuMessage, one: int, several: Sequence[int]) -> None:
        self._press(who, card, "answer", {"a0": str(one), "a1": [str(each) for each in several]})

    def _press(self, who: str, card: FeishuMessage, verb: str, form: Mapping[str, Any]) -> None:
        pressed = self.feishu.click(self.people[who], card, verb, form=form)
        assert (pressed.ok, pressed.toast and pressed.toast.kind) == (True, "success")


def words(node: Any) -> Iterator[str]:
    """Everything that can be read in a drawn message, in order."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in ("text", "content", "default_value") and isinstance(value, str):
                yield value
            elif key not in ("value", "behaviors"):
                yield from words(value)
    elif isinstance(node, list):
        for item in node:
            yield from words(item)


def _named(block: Mapping[str, Any]) -> str:
    """The name of an input on Slack, without the revision behind it."""
    return str(block["block_id"]).split("@")[0]
