"""A strict Feishu on loopback: HTTP API, long connection or signed callbacks, and people who act.

Written from the official documentation (each rule names its page), never from our own renderer or client.
It runs on a thread and loop of its own; a test acts and reads from wherever it is:

    with FakeFeishu() as feishu:
        ann = feishu.add_user("Ann")
        team = feishu.add_chat("group", [ann])
        asked = feishu.say(ann, team, "deploy", mention=True)
        feishu.wait_for(lambda: feishu.messages(team))
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeVar

from aiohttp import web

from tests.fakes.feishu_api import Api, Handler
from tests.fakes.feishu_clicks import ClickResult
from tests.fakes.feishu_delivery import Delivered, Delivery
from tests.fakes.feishu_model import (
    Call,
    Chat,
    ChatKind,
    Fault,
    Message,
    Scope,
    StoredFile,
    Toast,
    User,
    World,
)
from tests.fakes.feishu_people import People
from tests.fakes.feishu_socket import LongConnections

T = TypeVar("T")


class FakeFeishu:
    """One tenant with one app. All times a test gives or reads are seconds; `advance` moves the clock.

    `deadline` is real seconds an answer may take (3 by the documentation), `redelivery_scale` multiplies the
    15 s, 5 min, 1 h, 6 h of the event overview, `qps` is the limit per chat, `seed` picks among connections.
    """

    def __init__(
        self, *, seed: int = 0, deadline: float = 3.0, redelivery_scale: float = 1.0, qps: int = 5
    ) -> None:
        mark = secrets.token_hex(4)
        self.app_id = f"cli_{mark}{secrets.token_hex(4)}"  # unique: the SDK caches tokens by app_id alone
        self.app_secret = secrets.token_hex(16)
        self.encrypt_key = secrets.token_hex(16)
        self.verification_token = secrets.token_hex(16)
        self.tenant_key = f"tenant_{mark}"
        self.bot_open_id = f"ou_bot_{mark}"
        self.world = World(self.app_id, tenant_key=self.tenant_key, bot_open_id=self.bot_open_id, qps=qps)
        self.api = Api(self.world, self.app_secret)
        self.socket = LongConnections(self.app_id, self.app_secret, seed, self.world.touch)
        self.delivery = Delivery(
            self.world, self.socket, self.encrypt_key, self.verification_token, deadline, redelivery_scale
        )
        self.people = People(
            self.world, self.delivery, self.verification_token, self.api.sending.surroundings, self._spawn
        )
        self.domain = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-feishu", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.domain = self._run(self._start())
        return self

    def __exit__(self, *_exc: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    # --- what a test reads -------------------------------------------------------------------------

    def messages(
        self, chat: Chat | str, thread: str | None = None, *, bot_only: bool = True
    ) -> list[Message]:
        """The messages of a chat, oldest first; by default the bot's. `thread` is a thread_id."""
        chat_id = chat if isinstance(chat, str) else chat.chat_id
        return [
            message
            for message in list(self.world.log)
            if message.chat_id == chat_id
            and (thread is None or message.thread_id == thread)
            and not (bot_only and message.sender is not None)
        ]

    @property
    def files(self) -> dict[str, StoredFile]:
        """The uploaded files by key."""
        return self.world.files

    @property
    def calls(self) -> list[Call]:
        """Every request to the API, oldest first; those to the endpoint of the long connection too."""
        return self.world.calls

    @property
    def toasts(self) -> list[Toast]:
        """Every toast that somebody saw."""
        return self.world.toasts

    @property
    def connections(self) -> int:
        """How many long connections are open."""
        return len(self.socket.live)

    def now(self) -> float:
        """The fake's clock, seconds since the epoch."""
        return self.world.clock.now()

    def wait_for(self, predicate: Callable[[], T], timeout: float = 5.0) -> T:
        """Blocks until `predicate()` is true and returns it; TimeoutError after `timeout` real seconds."""
        until = time.monotonic() + timeout
        while not (
            found := predicate()
        ):  # outside the lock: a predicate may act, and the fake's loop notifies
            if time.monotonic() > until:
                raise TimeoutError(
                    f"not true within {timeout} s; calls: {[c.route for c in self.calls][-8:]}"
                )
            with self.world.changed:
                self.world.changed.wait(0.02)  # the predicate may look at more than this fake
        return found

    async def wait_for_async(self, predicate: Callable[[], T], timeout: float = 5.0) -> T:  # noqa: ASYNC109 - as above
        """`wait_for` for a test that lives on an event loop."""
        return await asyncio.to_thread(self.wait_for, predicate, timeout)

    # --- what a test breaks --------------------------------------------------------------------------

    def fail(
        self,
        part: str,
        code: int,
        *,
        times: int | None = 1,
        http: int | None = None,
        headers: Mapping[str, str] | None = None,
        after: bool = False,
    ) -> None:
        """Answers `code` on the next `times` calls (None: all) whose "METHOD /path" holds `part`.

        `after=True` does the work first and then answers so: the client cannot know. 99991400 is HTTP 429
        with x-ogw-ratelimit-reset 1 unless given, an endpoint's code HTTP 200, all others HTTP 400.
        """
        self.world.faults.append(Fault(part, times, code, http or 0, headers or {}, after=after))

    def hang(self, part: str, seconds: float, *, times: int | None = 1, after: bool = False) -> None:
        """Lets such calls wait real `seconds` before they are handled, or (`after`) before the answer."""
        self.world.faults.append(Fault(part, times, seconds=seconds, after=after))

    def heal(self) -> None:
        """Forgets all planned faults."""
        self.world.faults.clear()

    def advance(self, seconds: float) -> None:
        """Moves the clock: tokens expire, cards age, due redeliveries are sent."""
        self._call(lambda: self.world.clock.advance(seconds))

    def expire_tokens(self) -> None:
        """All tenant tokens are invalid from now on."""
        self._call(self.api.expire_tokens)

    def drop_connections(self) -> None:
        """Cuts every long connection without a goodbye."""
        self._call(self.socket.drop)

    def recall(self, message: Message) -> None:
        """Somebody recalls the message."""
        message.recalled = True
        self.world.touch()

    # --- people and places ---------------------------------------------------------------------------

    def add_user(
        self,
        name: str,
        *,
        tenant_key: str | None = None,
        email: str = "",
        departments: Sequence[str] = (),
        resigned: bool = False,
        frozen: bool = False,
        in_scope: bool = True,
    ) -> User:
        """A new person, of the app's tenant unless another `tenant_key` is given (external)."""
        ids = self.world.new_id("ou"), self.world.new_id("u"), self.world.new_id("on")
        user = User(
            name, *ids, tenant_key or self.tenant_key, email, list(departments), resigned, frozen, in_scope
        )
        self.world.users[user.open_id] = user
        return user

    def add_chat(
        self,
        kind: ChatKind,
        members: Sequence[User],
        *,
        scope: Scope = "group_at_msg",
        name: str = "",
        cards: bool = True,
        at_all: bool = False,
        bot: bool = True,
    ) -> Chat:
        """A new chat: p2p (one member), a group or a topic group. `scope`: what the app may read there."""
        if kind == "p2p" and len(members) != 1:
            raise ValueError("a p2p chat has one person and the bot")
        chat = Chat(self.world.new_id("oc"), kind, list(members), scope, name, cards, at_all, bot)
        self.world.chats[chat.chat_id] = chat
        return chat

    def say(
        self,
        user: User,
        chat: Chat,
        text: str = "",
        *,
        mention: bool | Sequence[User] = False,
        reply_to: Message | None = None,
        message_id: str | None = None,
        old_by: float = 0.0,
        msg_type: str = "text",
    ) -> Message:
        """Somebody writes; the event goes out at once if the app may read it. Does not wait for the answer.

        `mention` True is @bot in front of the text, else those people. A known `message_id` sends that
        message again with another event_id. `old_by` makes it so many seconds old. `msg_type` sticker, image
        and so on have their own content.
        """
        return self._run(self.people.say(user, chat, text, mention, reply_to, message_id, old_by, msg_type))

    async def say_async(self, user: User, chat: Chat, text: str = "", **more: Any) -> Message:
        """`say` for a test that lives on an event loop."""
        return await asyncio.to_thread(self.say, user, chat, text, **more)

    def redeliver(self, message: Message) -> None:
        """Sends the message's event once more as it was, as happens "in special cases" after success."""
        self._call(lambda: self._spawn(self.delivery.deliver(message, message.event)))

    def click(
        self,
        user: User,
        message: Message,
        wanted: str | Mapping[str, Any],
        *,
        form: Mapping[str, Any] | None = None,
        choose: object = None,
    ) -> ClickResult:
        """Somebody uses the control with this name, value or text; blocks until the client has an answer.

        `form` fills the form by names; `choose` is what is picked or typed outside a form. Raises LookupError
        for what the card does not offer.
        """
        return self._run(self.people.click(user, message, wanted, form, choose))

    async def click_async(
        self,
        user: User,
        message: Message,
        wanted: str | Mapping[str, Any],
        *,
        form: Mapping[str, Any] | None = None,
        choose: object = None,
    ) -> ClickResult:
        """`click` for a test that lives on an event loop; many run at once."""
        work = asyncio.run_coroutine_threadsafe(
            self.people.click(user, message, wanted, form, choose), self._loop
        )
        return await asyncio.wrap_future(work)

    # --- how events travel ---------------------------------------------------------------------------

    def use_webhook(self, url: str, *, encrypted: bool = True, verify: bool = True) -> bool:
        """Sends events and callbacks to `url` from now on, if it answers the challenge within 1 s."""
        return self._run(self.delivery.use_webhook(url, encrypted=encrypted, verify=verify))

    def use_socket(self) -> None:
        """Back to the long connection."""
        self.delivery.webhook = ""

    def sealed(
        self, payload: Mapping[str, Any], *, signed: bool = True, age: float = 0.0, key: str | None = None
    ) -> tuple[dict[str, str], bytes]:
        """Headers and body of an HTTP callback; `age` and `key` make a stale or forged one."""
        return self.delivery.sealed(payload, signed=signed, age=age, key=key)

    @property
    def callbacks(self) -> list[Delivered]:
        """Every HTTP callback as it was sent."""
        return self.delivery.log

    # --- inside --------------------------------------------------------------------------------------

    async def _start(self) -> str:
        await self.delivery.open()

        @web.middleware
        async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self.api.gate(request, handler)

        app = web.Application(middlewares=[gate], client_max_size=40 * 1024 * 1024)
        app.add_routes(self.api.routes())
        app.router.add_post("/callback/ws/endpoint", self.socket.endpoint)
        app.router.add_get("/ws", self.socket.connect)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self.socket.close()
        await self._runner.cleanup()
        await self.delivery.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _call(self, action: Callable[[], object]) -> None:
        async def act() -> None:
            action()

        self._run(act())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
