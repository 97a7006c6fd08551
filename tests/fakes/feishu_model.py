"""What the fake Feishu knows: people, chats, messages, its clock, and the faults a test asked for."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ChatKind = Literal["p2p", "group", "topic"]
Scope = Literal["group_msg", "group_at_msg"]
Json = dict[str, Any]
EarlyUpdate = Literal["revert", "refuse", "keep"]
"""What becomes of an update that runs while a click on its card waits for an answer: "fails or is reverted at
once" (delay-update), so two documented ends. `keep` is for tests whose update belongs to another click."""


@dataclass(eq=False)
class User:
    """A person. Another `tenant_key` than the app's makes them external."""

    name: str
    open_id: str
    user_id: str
    union_id: str
    tenant_key: str
    email: str = ""
    departments: list[str] = field(default_factory=list)
    resigned: bool = False
    frozen: bool = False
    in_scope: bool = True


@dataclass(eq=False)
class Chat:
    """A conversation. `scope` is what the app may read in it; `cards` and `at_all` are group settings."""

    chat_id: str
    kind: ChatKind
    members: list[User]
    scope: Scope = "group_at_msg"
    name: str = ""
    cards: bool = True
    at_all: bool = False
    bot: bool = True
    dissolved: bool = False


@dataclass
class Update:
    """One change of a sent card: when (fake seconds), by which way, and whether it was undone."""

    content: Json
    at: float
    via: Literal["patch", "delayed", "callback"]
    reverted: bool = False


@dataclass(frozen=True)
class Attempt:
    """One try to deliver an event: fake seconds, the event's id, to whom, and whether it was accepted."""

    at: float
    event_id: str
    to: str
    code: int
    ok: bool


@dataclass(eq=False)
class Message:
    """A message; `sender` is None for the bot. Times are fake seconds since the epoch."""

    message_id: str
    chat: Chat
    sender: User | None
    msg_type: str
    original: Json
    sent_at: float
    root_id: str = ""
    parent_id: str = ""
    thread_id: str = ""
    mentions: list[Json] = field(default_factory=list)
    pings: list[str] = field(default_factory=list)
    pings_in_code: list[str] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    event: Json = field(default_factory=dict)
    recalled: bool = False
    in_flight: int = 0

    @property
    def chat_id(self) -> str:
        return self.chat.chat_id

    @property
    def content(self) -> Json:
        """What people see now."""
        standing = [update.content for update in self.updates if not update.reverted]
        return standing[-1] if standing else self.original

    @property
    def text(self) -> str:
        """The text of a text message, "" for others."""
        return str(self.content.get("text", "")) if self.msg_type == "text" else ""

    @property
    def acked(self) -> bool:
        """Whether the app accepted the message's event."""
        return any(attempt.ok for attempt in self.attempts)


@dataclass(frozen=True)
class StoredFile:
    """An uploaded file."""

    file_key: str
    name: str
    file_type: str
    data: bytes


@dataclass(frozen=True)
class Call:
    """One request: fake seconds, "POST /open-apis/...", query, JSON body, and the error it got (or [])."""

    at: float
    route: str
    query: Mapping[str, str]
    body: Any
    code: list[int]


@dataclass(frozen=True)
class Toast:
    """What a person saw after a click."""

    user: User
    message_id: str
    kind: str
    content: str
    i18n: Mapping[str, str]


@dataclass
class Fault:
    """Something a test wants to go wrong on the routes whose "METHOD /path" holds `part`."""

    part: str
    times: int | None
    code: int = 0
    http: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    after: bool = False


@dataclass
class UpdateToken:
    """The credential of a delayed update: when and for what it was issued, and how often it was used."""

    message: Message
    issued_at: float
    uses: int = 0


class Clock:
    """Real time that a test can push forward."""

    def __init__(self) -> None:
        self._shift = 0.0
        self._jumped = asyncio.Event()

    def now(self) -> float:
        """Fake seconds since the epoch."""
        return time.time() + self._shift

    def advance(self, seconds: float) -> None:
        """Pushes the clock forward and wakes the sleepers; on the fake's loop only."""
        self._shift += seconds
        jumped, self._jumped = self._jumped, asyncio.Event()
        jumped.set()

    async def sleep(self, seconds: float) -> None:
        """Until so many fake seconds have passed."""
        until = self.now() + seconds
        while (left := until - self.now()) > 0:
            jumped = self._jumped
            try:
                await asyncio.wait_for(jumped.wait(), left)
            except TimeoutError:
                return


class World:
    """All state of one fake. Written on the fake's loop; tests read it from their own thread."""

    def __init__(self, app_id: str, *, tenant_key: str, bot_open_id: str, qps: int) -> None:
        self.app_id = app_id
        self.tenant_key = tenant_key
        self.bot_open_id = bot_open_id
        self.qps = qps
        self.clock = Clock()
        self.users: dict[str, User] = {}
        self.chats: dict[str, Chat] = {}
        self.log: list[Message] = []
        self.by_id: dict[str, Message] = {}
        self.files: dict[str, StoredFile] = {}
        self.images: set[str] = set()
        self.calls: list[Call] = []
        self.toasts: list[Toast] = []
        self.faults: list[Fault] = []
        self.update_tokens: dict[str, UpdateToken] = {}
        self.uuids: dict[str, tuple[float, Message]] = {}
        self.published = True
        self.scopes: dict[str, int] = {}
        self.bot_status = 2
        self.early_update: EarlyUpdate = "revert"
        self.audit = False
        self.changed = threading.Condition()
        self._rates: dict[str, deque[float]] = {}
        self._numbers = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        """An id that no other fake in this process uses."""
        return f"{prefix}_{self.app_id[-8:]}{next(self._numbers):08x}"

    def touch(self) -> None:
        """Wakes those who wait for a change."""
        with self.changed:
            self.changed.notify_all()

    def allowed(self, key: str, most: int, seconds: float) -> bool:
        """Counts one use of `key` unless there were `most` within the last `seconds`."""
        seen = self._rates.setdefault(key, deque())
        now = self.clock.now()
        while seen and seen[0] <= now - seconds:
            seen.popleft()
        if len(seen) >= most:
            return False
        seen.append(now)
        return True

    def take_fault(self, route: str) -> Fault | None:
        """The next fault that a test planned for this route."""
        for fault in self.faults:
            if fault.part in route:
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.faults.remove(fault)
                return fault
        return None

    def person(self, any_id: str) -> User | None:
        """A person by open_id, user_id, union_id or email."""
        for user in self.users.values():
            if any_id in (user.open_id, user.user_id, user.union_id, user.email):
                return user
        return None

    def knows_person(self, any_id: str) -> bool:
        """Whether a card may name this id."""
        return bool(any_id) and (any_id == self.bot_open_id or self.person(any_id) is not None)

    def post(self, message: Message) -> Message:
        """Puts a message into its chat."""
        self.log.append(message)
        self.by_id[message.message_id] = message
        self.touch()
        return message

    def link(self, message: Message, parent: Message | None, *, in_thread: bool = False) -> None:
        """Sets root, parent and thread as the page "message management overview" says.

        A reply: parent is the message replied to, root the first of the tree. In a topic "every reply is a
        reply to the root message, so root_id and parent_id are both the root message's id".
        """
        if parent is None:
            message.thread_id = self.new_id("omt") if message.chat.kind == "topic" else ""
            return
        if in_thread and not parent.thread_id:
            parent.thread_id = self.new_id("omt")
        message.thread_id = parent.thread_id
        thread = [each for each in self.log if each.thread_id == parent.thread_id]
        message.root_id = thread[0].message_id if parent.thread_id else parent.root_id or parent.message_id
        message.parent_id = message.root_id if parent.thread_id else parent.message_id

    def show(self, message: Message) -> Json:
        """A message as the API returns it (im-v1/message/create, .../get)."""
        sender = message.sender
        shown = {
            "message_id": message.message_id,
            "root_id": message.root_id,
            "parent_id": message.parent_id,
            "thread_id": message.thread_id,
            "msg_type": message.msg_type,
            "create_time": str(int(message.sent_at * 1000)),
            "update_time": str(int((message.updates[-1].at if message.updates else message.sent_at) * 1000)),
            "deleted": message.recalled,
            "updated": bool(message.updates),
            "chat_id": message.chat_id,
            "sender": {
                "id": sender.open_id if sender else self.app_id,
                "id_type": "open_id" if sender else "app_id",
                "sender_type": "user" if sender else "app",
                "tenant_key": sender.tenant_key if sender else self.tenant_key,
            },
            "body": {"content": json.dumps(message.content, ensure_ascii=False)},
            "mentions": message.mentions,
        }
        return {key: value for key, value in shown.items() if value not in ("", [])}
