"""A strict Slack on loopback: Web API, Socket Mode or signed HTTP, and people who act.

It knows Slack's documentation and nothing of our renderer. Sources: a method's rules and errors are on
docs.slack.dev/reference/methods/<method> ("[method]" below); the others are named in `slack_blocks` and
`slack_events`; A1-A9 are the parts of our facts about Slack.

    with FakeSlack() as slack:
        lin, ops = slack.add_user("lin"), slack.add_channel("ops")
        ...start the app with slack.api_url, slack.bot_token, slack.app_token...
        slack.say(lin, ops, "restart it", mention=True)
        card = slack.wait_for(lambda: slack.posts(ops))[-1]
        assert slack.click(lin, card, "approve").ack_ms < 500      # in async code: (await slack.click(...))
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import aiohttp
from aiohttp import web

from tests.fakes import slack_blocks as kit
from tests.fakes.slack_blocks import Json
from tests.fakes.slack_events import (
    ACK_DEADLINE,
    RETRY_DELAYS,
    Call,
    Channel,
    Delivery,
    Kind,
    Late,
    Message,
    Person,
    Socket,
    View,
    Wire,
    filled,
    find_element,
    fires,
    refuse_in_loop,
    serve_socket,
    state_values,
)

T = TypeVar("T")

TRIGGER_LIFE = 3.0  # seconds; single use [interact: "trigger_id"] A2
RESPONSE_URL_USES, RESPONSE_URL_LIFE = 5, 30 * 60.0  # [interact: "message responses"] A2
POST_TEXT, UPDATE_TEXT, MARKDOWN_TEXT = 40_000, 4_000, 12_000  # [chat.postMessage, chat.update] A5
BLOCKS_TOTAL = 13_200
"""Characters of compact JSON; undocumented, seen as `msg_blocks_too_long` (A1, [R] bolt-js issue 2509)."""
POST_RATE = 1.0  # messages a second and channel, short bursts allowed [apis/web-api/rate-limits] A5
MODAL_DEPTH = 3  # [views.push] push_limit_reached
VIEW_BYTES = 250_000  # [views.open] view_too_large
MOST_PROMPTS = 4  # [assistant.threads.setSuggestedPrompts]


_KINDS = ("channels", "groups", "im", "mpim")
SCOPES: Mapping[str, set[str]] = {  # on each method's page, under "Bot tokens"
    "chat.postMessage": {"chat:write"},
    "chat.update": {"chat:write"},
    "chat.delete": {"chat:write"},
    "chat.postEphemeral": {"chat:write"},
    "conversations.replies": {f"{kind}:history" for kind in _KINDS},
    "conversations.history": {f"{kind}:history" for kind in _KINDS},
    "conversations.info": {f"{kind}:read" for kind in _KINDS},
    "conversations.open": {f"{kind}:write" for kind in _KINDS},
    "users.info": {"users:read"},
    "usergroups.list": {"usergroups:read"},
    "usergroups.users.list": {"usergroups:read"},
    "files.getUploadURLExternal": {"files:write"},
    "files.completeUploadExternal": {"files:write"},
    "files.info": {"files:read"},
    "reactions.add": {"reactions:write"},
    "assistant.threads.setStatus": {"assistant:write", "chat:write"},
    "assistant.threads.setTitle": {"assistant:write"},
    "assistant.threads.setSuggestedPrompts": {"assistant:write"},
}


EVENT_SCOPES: Mapping[str, str] = {  # on each event's page, under "Required Scopes"
    "app_mention": "app_mentions:read",
    "message.channels": "channels:history",
    "message.groups": "groups:history",
    "message.im": "im:history",
    "message.mpim": "mpim:history",
    "assistant_thread_started": "assistant:write",
}


class Refused(Exception):
    """An answer with `ok: false`."""

    def __init__(self, error: str, *messages: str, retry_after: int | None = None) -> None:
        super().__init__(error)
        self.error, self.messages, self.retry_after = error, messages, retry_after


@dataclass
class Fault:
    """An error to answer with instead of doing what was asked, or a loss of the answer after doing it."""

    error: str
    retry_after: int | None
    channel: str | None
    after: bool = False


@dataclass
class ResponseUrl:
    """What a response_url still may do."""

    channel: str
    user: str
    message: Message | None
    expires: float
    uses: int = 0


Handler = Callable[["FakeSlack", Json], Json]
METHODS: dict[str, Handler] = {}


def method(name: str) -> Callable[[Handler], Handler]:
    """Registers a Web API method."""

    def keep(handler: Handler) -> Handler:
        METHODS[name] = handler
        return handler

    return keep


class FakeSlack:
    """One workspace with one app installed; see the module for how to use it.

    `deliver` is "socket" or "http" (then to `url`, which may be set later). `rate` is in messages per second
    and channel with a `burst` saved up (None: no limit). `pace` multiplies the waits before an event's
    retries (0: none). `seed` decides which connection a payload takes. `echo` sends the bot's own messages
    back, as Slack does. With `scopes` a method whose scope was not granted is refused (missing_scope), with
    `events` only the events subscribed to ("app_mention", "message.channels") are sent: a manifest's lists.
    """

    bot_token = "xoxb-100-200-countersign"
    app_token = "xapp-1-A0APP-300-countersign"
    signing_secret = "8f742231b10e8888abcd99yyyzzz85a5"
    team_id, team_domain, app_id = "T0TEAM", "acme", "A0APP"
    bot_user_id, bot_id = "U0BOT", "B0BOT"

    def __init__(
        self,
        *,
        deliver: Literal["socket", "http"] = "socket",
        url: str = "",
        rate: float | None = POST_RATE,
        burst: int = 5,
        blocks_limit: int = BLOCKS_TOTAL,
        ack_deadline: float = ACK_DEADLINE,
        pace: float = 1.0,
        seed: int = 0,
        echo: bool = True,
        enterprise_id: str | None = None,
        scopes: Collection[str] | None = None,
        events: Collection[str] | None = None,
    ) -> None:
        self.rate, self.burst, self.blocks_limit = rate, burst, blocks_limit
        self.pace, self.echo, self.enterprise_id = pace, echo, enterprise_id
        self.scopes, self.events = scopes, events
        self.users: dict[str, Person] = {}
        self.channels: dict[str, Channel] = {}
        self.groups: dict[str, Json] = {}
        self.ephemerals: list[Message] = []
        self.views: dict[str, View] = {}
        self.homes: dict[str, View] = {}
        self.files: dict[str, Json] = {}
        self.assistant: dict[tuple[str, str], Json] = {}
        self.calls: list[Call] = []
        self.late: list[Late] = []
        self.deliveries: list[Delivery] = []
        self._messages: dict[str, dict[str, Message]] = defaultdict(dict)
        self._stacks: dict[str, list[str]] = defaultdict(list)
        self._typed: dict[tuple[str, str], dict[tuple[str, str], Json]] = defaultdict(dict)
        self._triggers: dict[str, tuple[str, float]] = {}
        self._used_triggers: set[str] = set()
        self._response_urls: dict[str, ResponseUrl] = {}
        self._tickets: set[str] = set()
        self._buckets: dict[str, tuple[float, float]] = {}
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._hangs: dict[str, deque[float]] = defaultdict(deque)
        self._stamps: set[str] = set()
        self._count = itertools.count(1)
        self._offset = 0.0
        self._lock = threading.RLock()
        self._watchers: list[Callable[[], None]] = []
        self._look_due = False
        self._wire = Wire(
            seed=seed,
            deadline=ack_deadline,
            secret=self.signing_secret,
            url=url if deliver == "http" else None,
        )
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0
        bot = Person(self.bot_user_id, "countersign", self.team_id, is_bot=True)
        self.users[bot.id] = bot

    # ---- its life

    def __enter__(self) -> Self:
        """Starts the server in a thread of its own."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-slack", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cuts every connection and stops."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/link", self._link)
        app.router.add_post("/upload/{file}", self._upload)
        app.router.add_get("/files/{file}", self._download)
        app.router.add_post("/response/{token}", self._respond)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._wire.session = aiohttp.ClientSession()

    async def _stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for socket in list(self._wire.sockets):
            socket.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self._wire.session is not None
        await self._wire.session.close()
        await self._runner.cleanup()

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def api_url(self) -> str:
        """The SDK's `base_url`."""
        return f"{self.base_url}/api/"

    @property
    def url(self) -> str | None:
        """Where payloads are posted with `deliver="http"`."""
        return self._wire.url

    @url.setter
    def url(self, value: str) -> None:
        self._wire.url = value

    def now(self) -> float:
        """Its clock, in seconds since 1970."""
        return time.time() + self._offset

    def pass_time(self, seconds: float) -> None:
        """Puts its clock forward: for triggers, response_urls and rate limits, not for ack deadlines."""
        self._offset += seconds

    def _fresh(self, letter: str) -> str:
        return f"{letter}{next(self._count):06d}"

    def _ts(self, at: float | None = None) -> str:
        micros = int((self.now() if at is None else at) * 1e6)
        while (ts := f"{micros // 10**6}.{micros % 10**6:06d}") in self._stamps:
            micros += 1
        self._stamps.add(ts)
        return ts

    # ---- waiting

    def _changed(self) -> None:
        """Lets the waiting tests look, a little later and all changes at once: a look may cost something."""
        if self._watchers and not self._look_due:
            self._look_due = True
            self._loop.call_later(0.002, self._look)

    def _look(self) -> None:
        self._look_due = False
        for look in list(self._watchers):
            look()

    def _watch(self, predicate: Callable[[], T]) -> tuple[Future[T], Callable[[], None]]:
        found: Future[T] = Future()

        def look() -> None:
            with self._lock:
                if found.done():
                    return
                try:
                    value = predicate()
                except (LookupError, AssertionError):  # "the first post" before there is one: not yet
                    return
                except Exception as error:  # noqa: BLE001  the waiting test raises it
                    found.set_exception(error)
                    return
                if value:
                    found.set_result(value)

        with self._lock:
            self._watchers.append(look)
            look()
        return found, look

    def wait_for(self, predicate: Callable[[], T], timeout: float = 5.0) -> T:
        """Waits until `predicate()` is true and returns it; TimeoutError. For code without a running loop.

        A LookupError or AssertionError of the predicate means "not yet".
        Looks after every change of the fake, and every 50 ms for what changes elsewhere.
        """
        refuse_in_loop("await slack.eventually(...)")
        found, look = self._watch(predicate)
        deadline = time.monotonic() + timeout
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    return found.result(0.05)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not within {timeout} s; last calls: {self._tail()}")
                look()
        finally:
            self._watchers.remove(look)

    async def eventually(
        self,
        predicate: Callable[[], T],
        timeout: float = 5.0,  # noqa: ASYNC109  the same signature as `wait_for`
    ) -> T:
        """`wait_for` for async code."""
        found, look = self._watch(predicate)
        waiter = asyncio.wrap_future(found)
        deadline = time.monotonic() + timeout
        try:
            while True:
                await asyncio.wait([waiter], timeout=0.05)
                if waiter.done():
                    return waiter.result()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not within {timeout} s; last calls: {self._tail()}")
                look()
        finally:
            self._watchers.remove(look)

    def _tail(self) -> list[str]:
        return [f"{call.method} -> {call.error or 'ok'}" for call in self.calls[-8:]]

    def idle(self) -> bool:
        """Whether everything sent to the app is acked or given up."""
        return all(one.settled for one in self.deliveries)

    # ---- what tests read

    def messages(self, channel: str, thread_ts: str | None = None) -> list[Message]:
        """Copies of all messages of a channel, replies too, oldest first; or of one thread, parent first."""
        with self._lock:
            found = sorted(self._messages[channel].values(), key=lambda one: one.ts)
            return [
                copy.deepcopy(one)
                for one in found
                if thread_ts is None or thread_ts in (one.ts, one.thread_ts)
            ]

    def posts(self, channel: str, thread_ts: str | None = None) -> list[Message]:
        """The bot's own among `messages`."""
        return [one for one in self.messages(channel, thread_ts) if one.bot_id == self.bot_id]

    def message(self, channel: str, ts: str) -> Message:
        """A copy of one message; KeyError if there is none (any more)."""
        with self._lock:
            return copy.deepcopy(self._messages[channel][ts])

    def modal(self, user: str) -> View:
        """A copy of the modal this person has in front; AssertionError if none is open."""
        with self._lock:
            assert self._stacks[user], f"{user} has no modal open"
            return copy.deepcopy(self.views[self._stacks[user][-1]])

    def called(self, name: str) -> list[Call]:
        """The calls of one method."""
        return [one for one in self.calls if one.method == name]

    @property
    def sockets(self) -> list[Socket]:
        """The open Socket Mode connections."""
        return [one for one in self._wire.sockets if one.open]

    # ---- what tests set up

    def add_user(self, name: str, user_id: str | None = None, **fields: Any) -> str:
        """A person (fields of `Person`); returns the id, which is made from the name if none is given."""
        made = user_id or _made_id("U", name)
        with self._lock:
            self.users[made] = Person(made, name, **{"team_id": self.team_id, **fields})
        return made

    def add_channel(self, name: str, channel_id: str | None = None, **fields: Any) -> str:
        """A channel (fields of `Channel`); returns its id."""
        kind = fields.get("kind", "channel")
        made = channel_id or _made_id("C" if kind == "channel" else "G", name)
        with self._lock:
            self.channels[made] = Channel(made, name, **fields)
        return made

    def add_group(self, handle: str, users: Sequence[str], group_id: str | None = None) -> str:
        """A user group; returns its id."""
        made = group_id or _made_id("S", handle)
        self.groups[made] = {"id": made, "handle": handle, "name": handle, "users": list(users)}
        return made

    def change_user(self, user: str, **fields: Any) -> None:
        """Changes a person, as an administrator does."""
        self.users[user] = replace(self.users[user], **fields)

    def change_channel(self, channel: str, **fields: Any) -> None:
        """Archives a channel, removes the bot, restricts posting."""
        self.channels[channel] = replace(self.channels[channel], **fields)

    def im(self, user: str) -> str:
        """The direct-message channel of the bot and this person."""
        made = f"D{user[1:]}"
        with self._lock:
            self.channels.setdefault(made, Channel(made, "directmessage", "im", members={user}))
        return made

    def fail(
        self,
        name: str,
        error: str,
        times: int = 1,
        retry_after: int | None = None,
        *,
        channel: str | None = None,
    ) -> None:
        """The next calls of a method are refused and do nothing.

        `ratelimited` is HTTP 429 with Retry-After, `http_500` an HTTP 500; everything else `ok: false`.
        """
        wait = retry_after if retry_after is not None or error != "ratelimited" else 1
        self._faults[name].extend(Fault(error, wait, channel) for _ in range(times))

    def lose_answer(self, name: str, times: int = 1) -> None:
        """The next calls are carried out, then the connection is cut before the answer (A5: posted twice)."""
        self._faults[name].extend(Fault("lost", None, None, after=True) for _ in range(times))

    def hang(self, name: str, seconds: float, times: int = 1) -> None:
        """The next calls of a method take this much longer."""
        self._hangs[name].extend([seconds] * times)

    def lose(self, *kinds: Kind) -> None:
        """From now on payloads of these kinds never arrive, though the socket lives; no kinds: all do."""
        self._wire.lost_kinds = set(kinds)

    def disconnect(self, reason: str = "refresh_requested", socket: Socket | None = None) -> None:
        """Sends `disconnect` (warning, refresh_requested, link_disabled) to one or all sockets [socket]."""
        frame = {"type": "disconnect", "reason": reason, "debug_info": {"host": "fake"}}
        for one in [socket] if socket else self.sockets:
            one.send(frame)

    # ---- people

    def say(
        self,
        user: str,
        channel: str,
        text: str,
        thread_ts: str | None = None,
        *,
        mention: bool = False,
        files: Sequence[Mapping[str, Any]] = (),
        subtype: str | None = None,
        bot_id: str | None = None,
        ts: str | None = None,
        old_by: float = 0.0,
    ) -> Message:
        """A person writes (`text` as Slack delivers it: `<@U…>`, `&amp;`); returns the message.

        A mention in a channel sends app_mention and message.channels, two events with two ids; in a direct
        message only message.im [events: app_mention]. `files` are `{"name", "content": bytes}`.
        """
        words = f"<@{self.bot_user_id}> {text}" if mention else text
        kept = [self._keep_file(user, one["name"], one.get("content", b"")) for one in files]
        made = Message(
            channel=channel,
            ts=ts or self._ts(self.now() - old_by if old_by else None),
            user=user,
            text=words,
            blocks=_typed_blocks(words, self._fresh("b")) if words and not bot_id else [],
            thread_ts=thread_ts,
            bot_id=bot_id,
            subtype=subtype or ("file_share" if kept else None),
            files=kept,
        )
        with self._lock:
            self._messages[channel][made.ts] = made
            self._emit_message(made)
        return copy.deepcopy(made)

    def invite(self, message: Message) -> None:
        """People take up the offer to invite the app they mentioned: it hears of that mention alone.

        [events: app_mention, "In that case, you'll receive an app_mention event for the invite"]
        """
        with self._lock:
            self.change_channel(message.channel, bot_member=True)
            event = {**message.shown(), "channel": message.channel, "event_ts": message.ts}
            self._emit({**event, "team": self.team_id, "type": "app_mention"}, float(message.ts))

    def edit(self, user: str, message: Message, text: str) -> Message:
        """A person edits a message: message_changed [events: message/message_changed]."""
        with self._lock:
            kept = self._messages[message.channel][message.ts]
            before = kept.shown()
            kept.text, kept.blocks = text, _typed_blocks(text, self._fresh("b"))
            kept.edits += 1
            self._emit_change(kept, before, user)
            return copy.deepcopy(kept)

    def delete(self, user: str, message: Message) -> None:  # noqa: ARG002  whoever may, does
        """A person deletes a message: message_deleted."""
        with self._lock:
            gone = self._messages[message.channel].pop(message.ts)
            self._emit_deletion(gone)

    def fill(
        self,
        user: str,
        target: Message | View,
        block_id: str | None,
        *values: Any,
        action_id: str | None = None,
    ) -> Delivery | None:
        """A person ticks, picks (option values or labels) or types; no values clears.

        Returns the delivery if this alone sends block_actions: every element that is in no `input` block, or
        in one with `dispatch_action` [interact] A2. The values come back in `state.values`.
        """
        one, element = find_element(target.blocks, action_id, block_id)
        state = filled(element, *values)
        with self._lock:
            self._typed[user, _key(target)][one["block_id"], element["action_id"]] = state
        if not fires(one, element):
            return None
        return self._act(user, target, one, element, state)

    def click(
        self,
        user: str,
        target: Message | View,
        action_id: str,
        *,
        block: str | None = None,
        option: str | None = None,
    ) -> Delivery:
        """A person clicks what is on *this copy* of the message or view, which may be stale by now.

        AssertionError if there is no such element, or no such option.
        """
        one, element = find_element(target.blocks, action_id, block)
        if option is not None:
            assert element["type"] == "overflow", "use fill() for what keeps a state"
            return self._act(user, target, one, element, filled({**element, "type": "static_select"}, option))
        assert element["type"] != "overflow", "an overflow menu needs an option"
        return self._act(user, target, one, element, {})

    def overflow(self, user: str, target: Message | View, action_id: str, option: str) -> Delivery:
        """A person picks an entry of an overflow menu, by value or label."""
        return self.click(user, target, action_id, option=option)

    def submit(self, user: str, view: View, values: Mapping[str, Any] | None = None) -> Delivery:
        """A person fills fields (block_id -> value, values, or {action_id: value}) and submits the modal.

        AssertionError where Slack's own form would not let them: a required field empty, a text too short.
        """
        for block_id, given in (values or {}).items():
            by_action: dict[str | None, Any] = given if isinstance(given, dict) else {None: given}
            for action_id, value in by_action.items():
                many = value if isinstance(value, list | tuple) else [] if value is None else [value]
                self.fill(user, view, block_id, *many, action_id=action_id)
        assert "submit" in view.view, "this modal has no submit button"
        with self._lock:
            state = state_values(view.blocks, self._typed[user, view.id])
        _form_is_complete(view.blocks, state["values"])
        payload = {
            **self._from(user, "view_submission"),
            "trigger_id": self._trigger(user),
            "view": self._view_shown(view, state),
            "response_urls": [],
        }
        return self._launch(
            Delivery("interactive", payload, answers=True), lambda answer: self._submitted(view, answer)
        )

    def close(self, user: str, view: View) -> Delivery | None:
        """A person closes a modal; the app hears of it only with notify_on_close [views]."""
        with self._lock:
            self._pop(user, view.id)
        if not view.view.get("notify_on_close"):
            return None
        shown = self._view_shown(view, state_values(view.blocks, {}))
        payload = {**self._from(user, "view_closed"), "view": shown, "is_cleared": False}
        return self._launch(Delivery("interactive", payload))

    def command(self, user: str, channel: str, text: str, command: str = "/countersign") -> Delivery:
        """A person types a slash command [docs.slack.dev/interactivity/implementing-slash-commands].

        AssertionError without the scope `commands`: then Slack knows no such command.
        """
        assert self.scopes is None or "commands" in self.scopes, f"{command} is not a valid command"
        place = self.channels[channel]
        payload: Json = {
            "token": "legacy",
            "team_id": self.team_id,
            "team_domain": self.team_domain,
            "enterprise_id": self.enterprise_id,
            "channel_id": channel,
            "channel_name": place.name,
            "user_id": user,
            "user_name": self.users[user].name,
            "command": command,
            "text": text,
            "api_app_id": self.app_id,
            "is_enterprise_install": False,
            "response_url": self._response_url(channel, user, None),
            "trigger_id": self._trigger(user),
        }

        def answered(answer: Json | None) -> str | None:
            if answer:
                self._reply_privately(channel, user, answer)
            return None

        return self._launch(Delivery("slash_commands", payload, answers=True), answered)

    def open_home(self, user: str) -> Delivery:
        """A person opens the app's Home tab [events: app_home_opened]."""
        event: Json = {"type": "app_home_opened", "user": user, "channel": self.im(user), "tab": "home"}
        if user in self.homes:
            home = self.homes[user]
            event["view"] = self._view_shown(home, state_values(home.blocks, {}))
        return self._emit({**event, "event_ts": self._ts()})

    def open_assistant(self, user: str, context_channel: str | None = None) -> Message:
        """A person opens the assistant pane; returns the thread's root [events: assistant_thread_started]."""
        person = self.users[user]
        assert not (person.is_restricted or person.is_ultra_restricted), "guests have no assistant (A5)"
        channel = self.im(user)
        root = Message(
            channel, self._ts(), self.bot_user_id, "New Assistant Thread", subtype="assistant_app_thread"
        )
        with self._lock:
            self._messages[channel][root.ts] = root
        context = {"channel_id": context_channel, "team_id": self.team_id} if context_channel else {}
        thread = {"user_id": user, "context": context, "channel_id": channel, "thread_ts": root.ts}
        self._emit({"type": "assistant_thread_started", "assistant_thread": thread, "event_ts": self._ts()})
        return copy.deepcopy(root)

    def redeliver(self, delivery: Delivery) -> Delivery:
        """The same payload once more: same event_id, same (old) trigger_id."""
        again = Delivery(delivery.kind, delivery.payload, answers=delivery.accepts_answer)
        return self._launch(again)

    # ---- payloads

    def _from(self, user: str, kind: str) -> Json:
        person = self.users[user]
        of = {"id": user, "username": person.name, "name": person.name, "team_id": person.team_id}
        enterprise = {"id": self.enterprise_id, "name": "Acme"} if self.enterprise_id else None
        return {
            "type": kind,
            "user": of,
            "api_app_id": self.app_id,
            "token": "legacy",
            "team": {"id": self.team_id, "domain": self.team_domain},
            "enterprise": enterprise,
            "is_enterprise_install": False,
        }

    def _act(self, user: str, target: Message | View, one: Json, element: Json, state: Json) -> Delivery:
        now = self._ts()
        carried = ("type", "action_id", "text", "value", "style")
        action: Json = {name: element[name] for name in carried if name in element}
        action |= {name: value for name, value in state.items() if name != "type"}
        action |= {"block_id": one["block_id"], "action_ts": now}
        payload = {
            **self._from(user, "block_actions"),
            "trigger_id": self._trigger(user),
            "actions": [action],
        }
        with self._lock:
            typed = dict(self._typed[user, _key(target)])
        if isinstance(target, View):
            shown = self._view_shown(target, state_values(target.blocks, typed))
            payload |= {"container": {"type": "view", "view_id": target.id}, "view": shown}
            return self._launch(Delivery("interactive", payload))
        with self._lock:
            current = self._messages[target.channel].get(target.ts, target)
            hidden = target.ephemeral_to is not None
            container = {"type": "message", "message_ts": target.ts, "channel_id": target.channel}
            thread = {"thread_ts": target.thread_ts} if target.thread_ts else {}
            payload |= {
                "container": {**container, **thread, "is_ephemeral": hidden},
                "channel": {"id": target.channel, "name": self.channels[target.channel].name},
                "state": state_values(target.blocks, typed),
                "response_url": self._response_url(target.channel, user, target),
            }
            if not hidden:  # [interact]: an ephemeral message's content is not in the payload
                payload["message"] = copy.deepcopy(current.shown())
        return self._launch(Delivery("interactive", payload))

    def _trigger(self, user: str) -> str:
        made = f"{next(self._count)}.{self.team_id}.trigger"
        self._triggers[made] = (user, self.now() + TRIGGER_LIFE)
        return made

    def _response_url(self, channel: str, user: str, message: Message | None) -> str:
        token = self._fresh("r")
        self._response_urls[token] = ResponseUrl(channel, user, message, self.now() + RESPONSE_URL_LIFE)
        return f"{self.base_url}/response/{token}"

    def _emit(self, event: Json, at: float | None = None) -> Delivery:
        payload = {
            "token": "legacy",
            "team_id": self.team_id,
            "context_team_id": self.team_id,
            "context_enterprise_id": self.enterprise_id,
            "api_app_id": self.app_id,
            "event": copy.deepcopy(event),
            "type": "event_callback",
            "event_id": self._fresh("Ev"),
            "event_time": int(at or self.now()),
            "authorizations": [
                {
                    "enterprise_id": self.enterprise_id,
                    "team_id": self.team_id,
                    "user_id": self.bot_user_id,
                    "is_bot": True,
                    "is_enterprise_install": False,
                }
            ],
            "is_ext_shared_channel": False,
            "event_context": self._fresh("4-"),
        }
        delivery = Delivery("events_api", payload)
        if not self._hears(_subscription(event)):
            delivery.done.set_result(None)
            return delivery
        return self._launch(delivery)

    def _hears(self, event: str) -> bool:
        """Whether the app subscribed to an event, and may."""
        needed = EVENT_SCOPES.get(event)
        may = self.scopes is None or needed is None or needed in self.scopes
        return may and (self.events is None or event in self.events)

    def _emit_message(self, made: Message) -> None:
        place = self.channels[made.channel]
        if not place.bot_member or (made.bot_id == self.bot_id and not self.echo):
            return
        event = {**made.shown(), "channel": made.channel, "channel_type": place.kind, "event_ts": made.ts}
        home = self.users[made.user].team_id if made.user in self.users else self.team_id
        event["team"] = home
        if home != self.team_id:  # a Connect stranger's message says where they are from
            event |= {"user_team": home, "source_team": home}
        if made.bot_id == self.bot_id:
            event["app_id"] = self.app_id
        parent = self._messages[made.channel].get(made.thread_ts or "")
        if parent is not None:
            event["parent_user_id"] = parent.user
        at = float(made.ts)
        mentioned = f"<@{self.bot_user_id}>" in made.text or f"<@{self.bot_user_id}|" in made.text
        if (
            mentioned
            and made.user != self.bot_user_id
            and place.kind != "im"
            and made.subtype in (None, "file_share")
        ):
            mention = {k: v for k, v in event.items() if k not in {"channel_type", "subtype"}}
            self._emit({**mention, "type": "app_mention"}, at)
        self._emit(event, at)

    def _emit_change(self, kept: Message, before: Json, editor: str) -> None:
        place = self.channels[kept.channel]
        if not place.bot_member or (kept.bot_id == self.bot_id and not self.echo):
            return
        now = self._ts()
        after = {**kept.shown(), "edited": {"user": editor, "ts": now}}
        self._emit(
            {
                "type": "message",
                "subtype": "message_changed",
                "hidden": True,
                "channel": kept.channel,
                "channel_type": place.kind,
                "ts": now,
                "event_ts": now,
                "message": after,
                "previous_message": before,
            }
        )

    def _emit_deletion(self, gone: Message) -> None:
        place = self.channels[gone.channel]
        if not place.bot_member or (gone.bot_id == self.bot_id and not self.echo):
            return
        now = self._ts()
        self._emit(
            {
                "type": "message",
                "subtype": "message_deleted",
                "hidden": True,
                "channel": gone.channel,
                "channel_type": place.kind,
                "ts": now,
                "event_ts": now,
                "deleted_ts": gone.ts,
                "previous_message": gone.shown(),
            }
        )

    # ---- delivery

    def _launch(
        self, delivery: Delivery, then: Callable[[Json | None], str | None] | None = None
    ) -> Delivery:
        with self._lock:
            self.deliveries.append(delivery)

        def start() -> None:
            task = self._loop.create_task(self._deliver(delivery, then))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(start)
        return delivery

    async def _deliver(self, delivery: Delivery, then: Callable[[Json | None], str | None] | None) -> None:
        """Sends until acked; only events are retried, with the same event_id [events] A2, A3."""
        retries = [delay * self.pace for delay in RETRY_DELAYS] if delivery.kind == "events_api" else []
        reason = ""
        try:
            for number, delay in enumerate([0.0, *retries]):
                await asyncio.sleep(delay)
                attempt, late = await self._wire.send(delivery, number, reason)
                with self._lock:
                    delivery.attempts.append(attempt)
                    if late is not None:
                        self.late.append(late)
                reason = attempt.reason
                self._changed()
                if attempt.acked or attempt.no_retry:
                    break
            with self._lock:
                if not delivery.attempts[-1].acked and delivery.kind != "events_api":
                    delivery.seen_by_person = _what_a_person_sees(delivery)
                elif then is not None:
                    delivery.seen_by_person = then(delivery.attempts[-1].answer)
        except Refused as refused:
            delivery.seen_by_person = f"{refused.error} {refused.messages}"
        finally:
            delivery.done.set_result(None)
            self._changed()

    def _submitted(self, view: View, answer: Json | None) -> str | None:
        """Does what the answer to a view_submission says; what the person sees if it makes no sense."""
        answer = answer or {}
        kind = answer.get("response_action")
        if view.id not in self.views:
            return None
        if kind == "errors":
            fields = {one["block_id"] for one in view.blocks if one["type"] == "input"}
            errors = answer.get("errors") or {}
            if not errors or not set(errors) <= fields or not all(errors.values()):
                return "We had some trouble connecting. Try again?"
            return None
        if kind in {"update", "push"}:
            try:
                self._place_view(view.user, answer.get("view"), push=kind == "push", over=view.id)
            except Refused as refused:
                return f"We had some trouble connecting. Try again? ({refused.error})"
            return None
        if kind == "clear":
            for view_id in list(self._stacks[view.user]):
                self._pop(view.user, view_id)
            return None
        self._pop(view.user, view.id)
        return None

    def _pop(self, user: str, view_id: str) -> None:
        self.views.pop(view_id, None)
        if view_id in self._stacks[user]:
            self._stacks[user].remove(view_id)

    # ---- views

    def _view_shown(self, view: View, state: Json) -> Json:
        return {
            "private_metadata": "",
            "callback_id": "",
            "external_id": "",
            "close": None,
            "submit": None,
            "clear_on_close": False,
            "notify_on_close": False,
            **copy.deepcopy(view.view),
            "id": view.id,
            "team_id": self.team_id,
            "state": state,
            "root_view_id": view.root_id,
            "previous_view_id": view.previous_id,
            "app_id": self.app_id,
            "app_installed_team_id": self.team_id,
            "bot_id": self.bot_id,
        }

    def _checked_view(self, given: Any, kind: Literal["modal", "home"], but: str | None) -> Json:
        view = _parsed(given, "invalid_arguments")
        found = kit.view_problems(view, kind)
        if found:
            raise Refused("invalid_arguments", *found)
        if len(json.dumps(view)) > VIEW_BYTES:
            raise Refused("view_too_large")
        external = view.get("external_id")
        others = [one for one in [*self.views.values(), *self.homes.values()] if one.id != but]
        if external and any(one.view.get("external_id") == external for one in others):
            raise Refused("duplicate_external_id")
        kept: Json = {
            **view,
            "blocks": kit.with_ids(view["blocks"], lambda: self._fresh("b")),
            "hash": f"{int(self.now())}.{self._fresh('h')}",
        }
        return kept

    def _place_view(self, user: str, given: Any, *, push: bool, over: str | None = None) -> View:
        """Opens, pushes, or replaces the view `over` (keeping what was typed in equal fields)."""
        stack = self._stacks[user]
        view = self._checked_view(given, "modal", None if push else over)
        if over is not None and not push:
            kept = self.views[over]
            self.views[over] = replace(kept, view=view)
            self._forget(over, view["blocks"])
            return self.views[over]
        if len(stack) >= MODAL_DEPTH:
            raise Refused("push_limit_reached")
        made_id = self._fresh("V")
        made = View(made_id, user, view, stack[0] if stack else made_id, stack[-1] if stack else None)
        self.views[made_id] = made
        stack.append(made_id)
        return made

    def _forget(self, key: str, blocks: Sequence[Json]) -> None:
        """Typed values outlive an update only under the same block_id and action_id [views.update]."""
        there = {(b["block_id"], e["action_id"]) for b in kit.every_block(blocks) for e in kit.elements_of(b)}
        for (_, container), typed in self._typed.items():
            if container == key:
                for gone in set(typed) - there:
                    del typed[gone]

    def _use_trigger(self, args: Json) -> str:
        trigger = args.get("trigger_id")
        if trigger not in self._triggers:
            raise Refused("invalid_trigger_id")
        if trigger in self._used_triggers:
            raise Refused("exchanged_trigger_id")
        user, expires = self._triggers[trigger]
        if self.now() > expires:
            raise Refused("expired_trigger_id")
        self._used_triggers.add(trigger)
        return user

    def _opened(self, view: View) -> Json:
        state = state_values(view.blocks, self._typed[view.user, view.id])
        return {"view": self._view_shown(view, state)}

    # ---- messages

    def _place(self, channel: Any, *, writing: bool = False) -> Channel:
        """The conversation, or the error the bot gets: a private one it is not in does not exist for it."""
        if writing and channel in self.users:  # [chat.postMessage]: a user id opens the direct message
            channel = self.im(channel)
        place = self.channels.get(channel)
        if place is None or (place.kind != "channel" and not place.bot_member):
            raise Refused("channel_not_found")
        if writing and place.archived:
            raise Refused("is_archived")
        if writing and not place.bot_member:
            raise Refused("not_in_channel")
        if writing and place.restricted:
            raise Refused("restricted_action")
        return place

    def _throttle(self, channel: str) -> None:
        if self.rate is None:
            return
        now = time.monotonic() + self._offset
        tokens, since = self._buckets.get(channel, (float(self.burst), now))
        tokens = min(float(self.burst), tokens + (now - since) * self.rate)
        if tokens < 1:
            self._buckets[channel] = (tokens, now)
            raise Refused("ratelimited", retry_after=max(1, math.ceil((1 - tokens) / self.rate)))
        self._buckets[channel] = (tokens - 1, now)

    def _content(self, args: Json, most: int) -> tuple[str, list[Json]]:
        """(text, blocks) of a message that may be posted, or the error."""
        words = str(args.get("text") or "")
        if markdown := args.get("markdown_text"):
            if words or args.get("blocks"):
                raise Refused("markdown_text_conflict")
            if len(markdown) > MARKDOWN_TEXT:
                raise Refused("msg_too_long")
            return str(markdown), []
        blocks = _parsed(args.get("blocks") or [], "invalid_blocks_format")
        if len(words) > most:
            raise Refused("msg_too_long")
        found = kit.problems(blocks, "message")
        if found:
            raise Refused("invalid_blocks", *found)
        if len(json.dumps(blocks, ensure_ascii=False, separators=(",", ":"))) > self.blocks_limit:
            raise Refused("msg_blocks_too_long")
        if not words.strip() and not blocks and not args.get("attachments"):
            raise Refused("no_text")
        return words, kit.with_ids(blocks, lambda: self._fresh("b"))

    def _parent(self, channel: str, thread_ts: Any) -> str | None:
        """The parent's ts; a reply's ts or an unknown one is refused: "use the parent's value"."""
        if not thread_ts:
            return None
        parent = self._messages[channel].get(str(thread_ts))
        if parent is None or parent.thread_ts not in (None, parent.ts):
            raise Refused("cannot_reply_to_message")
        return str(thread_ts)

    def _post(self, place: Channel, args: Json, **more: Any) -> Message:
        words, blocks = self._content(args, POST_TEXT)
        links = _true(args.get("link_names")) or args.get("parse") == "full"
        made = Message(
            channel=place.id,
            ts=self._ts(),
            user=self.bot_user_id,
            bot_id=self.bot_id,
            text=words,
            blocks=blocks,
            metadata=_metadata(args),
            thread_ts=self._parent(place.id, args.get("thread_ts")),
            pings=kit.pings(words, blocks, link_names=links),
            **more,
        )
        self._messages[place.id][made.ts] = made
        self._emit_message(made)
        return made

    def _own(self, args: Json, refused: str) -> Message:
        place = self._place(args.get("channel"))
        kept = self._messages[place.id].get(str(args.get("ts")))
        if kept is None:
            raise Refused("message_not_found")
        if kept.bot_id != self.bot_id:
            raise Refused(refused)
        if place.archived:
            raise Refused("is_inactive")
        return kept

    def _whisper(self, channel: str, user: str, args: Json) -> Message:
        words, blocks = self._content(args, POST_TEXT)
        made = Message(
            channel=channel,
            ts=self._ts(),
            user=self.bot_user_id,
            bot_id=self.bot_id,
            text=words,
            blocks=blocks,
            thread_ts=args.get("thread_ts"),
            ephemeral_to=user,
        )
        self.ephemerals.append(made)
        return made

    def _reply_privately(self, channel: str, user: str, answer: Json) -> None:
        """A slash command's or response_url's message: ephemeral unless it says in_channel [interact]."""
        if answer.get("response_type") == "in_channel":
            self._post(self.channels[channel], answer)
        else:
            self._whisper(channel, user, answer)

    def _keep_file(self, user: str, name: str, content: bytes, **more: Any) -> Json:
        made = self._fresh("F")
        self.files[made] = {"id": made, "name": name, "title": name, "user": user, "content": content, **more}
        return self._file_shown(made)

    def _file_shown(self, file_id: str) -> Json:
        kept = self.files[file_id]
        url = f"{self.base_url}/files/{file_id}"
        shown = {name: kept[name] for name in ("id", "name", "title", "user")}
        return {**shown, "size": len(kept["content"]), "url_private": url, "url_private_download": url}

    # ---- HTTP

    async def _api(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        args = await _arguments(request)
        call = Call(name, {k: v for k, v in args.items() if k != "token"}, self.now())
        self.calls.append(call)
        if self._hangs[name]:
            await asyncio.sleep(self._hangs[name].popleft())
        fault = self._fault(name, args)
        status, body = 200, {}
        granted = self.scopes if self.scopes is not None else sorted(set().union(*SCOPES.values()))
        headers = {"X-OAuth-Scopes": ",".join(granted)}  # on every answer [apis/web-api]
        with self._lock:
            try:
                if fault is not None and not fault.after:
                    raise Refused(fault.error, retry_after=fault.retry_after)
                self._authorise(name, request, args)
                if name not in METHODS:
                    raise Refused("unknown_method")
                self._check_scope(name, args)
                body = {"ok": True, **METHODS[name](self, args)}
            except Refused as refused:
                call.error = refused.error
                body = {"ok": False, "error": refused.error}
                if refused.messages:
                    body["response_metadata"] = {"messages": list(refused.messages)}
                if refused.error == "ratelimited":
                    status, headers["Retry-After"] = 429, str(refused.retry_after or 1)
                elif refused.error == "http_500":
                    status = 500
            text = json.dumps(body)
        self._changed()
        if fault is not None and fault.after and request.transport is not None:
            request.transport.abort()
        return web.Response(status=status, headers=headers, text=text, content_type="application/json")

    def _fault(self, name: str, args: Json) -> Fault | None:
        waiting = self._faults[name]
        if waiting and waiting[0].channel in (None, args.get("channel")):
            return waiting.popleft()
        return None

    def _authorise(self, name: str, request: web.Request, args: Json) -> None:
        header = request.headers.get("Authorization", "")
        token = header.removeprefix("Bearer ") or args.get("token")
        if not token:
            raise Refused("not_authed")
        if token not in (self.bot_token, self.app_token):
            raise Refused("invalid_auth")
        needed = self.app_token if name == "apps.connections.open" else self.bot_token
        if token != needed:
            raise Refused("not_allowed_token_type")

    def _check_scope(self, name: str, args: Json) -> None:
        """Any one of a method's scopes will do; a conversation's is that of its kind."""
        needed = SCOPES.get(name, set())
        if len(needed) > 1 and args.get("channel") in self.channels:
            kind = {"channel": "channels", "group": "groups"}.get(self.channels[args["channel"]].kind)
            kind = kind or self.channels[args["channel"]].kind
            needed = {one for one in needed if one.startswith(f"{kind}:")}
        if self.scopes is not None and needed and not needed & set(self.scopes):
            raise Refused("missing_scope", f"needed: {sorted(needed)}")

    async def _link(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:  # [socket]: the URL of apps.connections.open is for one connection
            return web.Response(status=404)
        self._tickets.discard(ticket)
        hello = {
            "type": "hello",
            "connection_info": {"app_id": self.app_id},
            "debug_info": {"host": "fake", "approximate_connection_time": 18060},
        }
        return await serve_socket(self._wire, request, hello, self._changed)

    async def _upload(self, request: web.Request) -> web.Response:
        kept = self.files.get(request.match_info["file"])
        if kept is None or "length" not in kept:
            return web.Response(status=404)
        if self._faults["upload"]:
            self._faults["upload"].popleft()
            return web.Response(status=500)
        content = await _body_of_upload(request)
        if len(content) != kept["length"]:  # [files.getUploadURLExternal]: length is the file's size in bytes
            return web.Response(status=400, text="size mismatch")
        kept |= {"content": content, "uploaded": True}
        self._changed()
        return web.Response(text=f"OK - {len(content)}")

    async def _download(self, request: web.Request) -> web.Response:
        kept = self.files.get(request.match_info["file"])
        if request.headers.get("Authorization") != f"Bearer {self.bot_token}":
            return web.Response(status=302, headers={"Location": f"{self.base_url}/signin"})
        if kept is None:
            return web.Response(status=404)
        return web.Response(body=kept["content"])

    async def _respond(self, request: web.Request) -> web.Response:
        """A response_url: 5 uses, 30 minutes, ephemeral unless in_channel [interact] A2."""
        args = await request.json()
        grant = self._response_urls.get(request.match_info["token"])
        self.calls.append(Call("response_url", args, self.now()))
        if grant is None or grant.uses >= RESPONSE_URL_USES:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        if self.now() > grant.expires:
            return web.json_response({"ok": False, "error": "expired_url"}, status=404)
        grant.uses += 1
        try:
            with self._lock:
                self._use_response_url(grant, args)
        except Refused as refused:
            return web.Response(status=400, text=refused.error)
        finally:
            self._changed()
        return web.Response(text="ok")

    def _use_response_url(self, grant: ResponseUrl, args: Json) -> None:
        target = grant.message
        if target is None or not (args.get("replace_original") or args.get("delete_original")):
            self._reply_privately(grant.channel, grant.user, args)
        elif target.ephemeral_to is not None:
            self.ephemerals[:] = [one for one in self.ephemerals if one.ts != target.ts]
            if args.get("replace_original"):
                self._whisper(grant.channel, grant.user, args)
        elif args.get("delete_original"):
            self._emit_deletion(self._messages[target.channel].pop(target.ts))
        else:
            self._rewrite(self._messages[target.channel][target.ts], args)

    def _rewrite(self, kept: Message, args: Json) -> None:
        """chat.update: text without blocks removes the blocks; metadata stays unless sent again (A5)."""
        words, blocks = self._content(args, UPDATE_TEXT)
        before = kept.shown()
        kept.text, kept.blocks = words, blocks
        kept.metadata = _metadata(args) if "metadata" in args else kept.metadata
        kept.edits += 1
        self._forget(_key(kept), blocks)
        self._emit_change(kept, before, self.bot_user_id)


# ---- helpers


def _made_id(letter: str, name: str) -> str:
    return letter + "".join(one for one in name.upper() if one.isascii() and one.isalnum())


def _key(target: Message | View) -> str:
    return target.id if isinstance(target, View) else f"{target.channel}:{target.ts}"


def _typed_blocks(words: str, block_id: str) -> list[Json]:
    """What Slack's composer makes of a person's words: one rich_text block."""
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": words}]}
    return [{"type": "rich_text", "block_id": block_id, "elements": [section]}]


def _subscription(event: Json) -> str:
    """The name under which an app subscribes to an event [events: message.channels and its like]."""
    kind = event.get("channel_type")
    if event["type"] != "message":
        return str(event["type"])
    return f"message.{ {'channel': 'channels', 'group': 'groups'}.get(str(kind), kind) }"


def _true(value: Any) -> bool:
    return value in (True, 1, "1", "true", "True")


def _parsed(value: Any, error: str) -> Any:
    """A structured argument: an object already, or JSON in a string."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refused(error) from None


def _metadata(args: Json) -> Json | None:
    """[docs.slack.dev/messaging/message-metadata]: event_type and event_payload, both needed."""
    found = _parsed(args.get("metadata") or None, "invalid_metadata_format")
    if not found:
        return None
    complete = isinstance(found, dict) and set(found) == {"event_type", "event_payload"}
    if not complete or not isinstance(found["event_payload"], dict) or not found["event_type"]:
        raise Refused("invalid_metadata_format")
    return dict(found)


async def _arguments(request: web.Request) -> Json:
    if request.content_type == "application/json":
        given = await request.json()
        return {**request.query, **given}
    return {**request.query, **{k: v for k, v in (await request.post()).items() if isinstance(v, str)}}


async def _body_of_upload(request: web.Request) -> bytes:
    if not request.content_type.startswith("multipart/"):
        return await request.read()
    for part in (await request.post()).values():
        if isinstance(part, web.FileField):
            return part.file.read()
    return b""


def _what_a_person_sees(delivery: Delivery) -> str:
    """[interact]: the error beside a button, under a modal, or after a slash command that was not acked."""
    if delivery.kind == "slash_commands":
        return f'{delivery.payload["command"]} failed with the error "operation_timeout"'
    if str(delivery.payload.get("type")).startswith("view"):
        return "We had some trouble connecting. Try again?"
    return "This app responded with an error"


def _form_is_complete(blocks: Sequence[Json], values: Json) -> None:
    """What Slack's own form demands before it submits [blocks: input `optional`, elements: min_length]."""
    for one in kit.every_block(blocks):
        if one["type"] != "input":
            continue
        element = one["element"]
        state = dict(values[one["block_id"]][element["action_id"]])
        state.pop("type")
        (given,) = state.values()
        if not given:
            assert one.get("optional"), f"Please complete this required field: {one['block_id']}"
        elif element["type"] == "plain_text_input":
            fits = element.get("min_length", 0) <= len(given) <= element.get("max_length", 3000)
            assert fits, f"the length of {one['block_id']} does not fit"


# ---- the Web API


@method("auth.test")
def _auth_test(slack: FakeSlack, args: Json) -> Json:
    return {
        "url": f"https://{slack.team_domain}.slack.com/",
        "team": "Acme",
        "user": "countersign",
        "team_id": slack.team_id,
        "user_id": slack.bot_user_id,
        "bot_id": slack.bot_id,
        "enterprise_id": slack.enterprise_id,
        "is_enterprise_install": False,
    }


@method("apps.connections.open")
def _connections_open(slack: FakeSlack, args: Json) -> Json:
    ticket = slack._fresh("ticket")
    slack._tickets.add(ticket)
    return {"url": f"ws://127.0.0.1:{slack._port}/link?ticket={ticket}&app_id={slack.app_id}"}


@method("chat.postMessage")
def _post_message(slack: FakeSlack, args: Json) -> Json:
    place = slack._place(args.get("channel"), writing=True)
    slack._throttle(place.id)
    made = slack._post(place, args)
    return {"channel": place.id, "ts": made.ts, "message": made.shown(metadata=True)}


@method("chat.update")
def _update(slack: FakeSlack, args: Json) -> Json:
    kept = slack._own(args, "cant_update_message")
    slack._rewrite(kept, args)
    return {"channel": kept.channel, "ts": kept.ts, "text": kept.text, "message": kept.shown(metadata=True)}


@method("chat.delete")
def _chat_delete(slack: FakeSlack, args: Json) -> Json:
    kept = slack._own(args, "cant_delete_message")
    slack._emit_deletion(slack._messages[kept.channel].pop(kept.ts))
    return {"channel": kept.channel, "ts": kept.ts}


@method("chat.postEphemeral")
def _post_ephemeral(slack: FakeSlack, args: Json) -> Json:
    place = slack._place(args.get("channel"), writing=True)
    user = args.get("user")
    if user not in slack.users or (place.members and user not in place.members):
        raise Refused("user_not_in_channel")
    return {"message_ts": slack._whisper(place.id, str(user), args).ts}


@method("chat.getPermalink")
def _permalink(slack: FakeSlack, args: Json) -> Json:
    place = slack._place(args.get("channel"))
    if args.get("message_ts") not in slack._messages[place.id]:
        raise Refused("message_not_found")
    mark = str(args["message_ts"]).replace(".", "")
    link = f"https://{slack.team_domain}.slack.com/archives/{place.id}/p{mark}"
    return {"channel": place.id, "permalink": link}


def _page(found: list[Message], args: Json) -> Json:
    """Cursor pages, oldest first; metadata only with include_all_metadata [conversations.replies]."""
    start, most = int(args.get("cursor") or 0), int(args.get("limit") or 1000)
    page, more = found[start : start + most], len(found) > start + most
    shown = [one.shown(metadata=_true(args.get("include_all_metadata"))) for one in page]
    cursor = {"next_cursor": str(start + most) if more else ""}
    return {"messages": shown, "has_more": more, "response_metadata": cursor}


def _readable(slack: FakeSlack, args: Json) -> Channel:
    place = slack._place(args.get("channel"))
    if not place.bot_member:
        raise Refused("not_in_channel")
    return place


@method("conversations.replies")
def _replies(slack: FakeSlack, args: Json) -> Json:
    place, ts = _readable(slack, args), str(args.get("ts"))
    kept = slack._messages[place.id].get(ts)
    thread = [one for one in slack._messages[place.id].values() if one.thread_ts == ts]
    if kept is None and not thread:
        raise Refused("thread_not_found")
    found = {one.ts: one for one in [*([kept] if kept else []), *thread]}
    oldest, latest = float(args.get("oldest") or 0), float(args.get("latest") or math.inf)
    within = [one for key, one in sorted(found.items()) if key == ts or oldest < float(key) < latest]
    return _page(within, args)


@method("conversations.history")
def _history(slack: FakeSlack, args: Json) -> Json:
    place = _readable(slack, args)
    found = [one for _, one in sorted(slack._messages[place.id].items(), reverse=True) if not one.thread_ts]
    return _page(found, args)


@method("conversations.info")
def _conversation_info(slack: FakeSlack, args: Json) -> Json:
    return {"channel": slack._place(args.get("channel")).shown()}


@method("conversations.open")
def _conversation_open(slack: FakeSlack, args: Json) -> Json:
    given = args.get("users")
    users = given if isinstance(given, list) else [one for one in str(given or "").split(",") if one]
    if not users:
        raise Refused("users_list_not_supplied")
    if any(one not in slack.users for one in users):
        raise Refused("user_not_found")
    if any(slack.users[one].deleted for one in users):
        raise Refused("user_disabled")
    return {"channel": {"id": slack.im(users[0])}}


@method("users.info")
def _user_info(slack: FakeSlack, args: Json) -> Json:
    person = slack.users.get(str(args.get("user")))
    if person is None:
        raise Refused("user_not_found")
    return {"user": person.shown(locale=_true(args.get("include_locale")))}


@method("usergroups.list")
def _groups(slack: FakeSlack, args: Json) -> Json:
    found = [{"team_id": slack.team_id, "date_delete": 0, **one} for one in slack.groups.values()]
    with_users = _true(args.get("include_users"))
    return {"usergroups": [{k: v for k, v in one.items() if with_users or k != "users"} for one in found]}


@method("usergroups.users.list")
def _group_users(slack: FakeSlack, args: Json) -> Json:
    if args.get("usergroup") not in slack.groups:
        raise Refused("no_such_subteam")
    return {"users": slack.groups[str(args["usergroup"])]["users"]}


@method("views.open")
def _views_open(slack: FakeSlack, args: Json) -> Json:
    user = slack._use_trigger(args)
    for old in list(slack._stacks[user]):  # a newly opened modal takes the place of whatever was open
        slack._pop(user, old)
    return slack._opened(slack._place_view(user, args.get("view"), push=False))


@method("views.push")
def _views_push(slack: FakeSlack, args: Json) -> Json:
    user = slack._use_trigger(args)
    if not slack._stacks[user]:
        raise Refused("not_found")
    return slack._opened(slack._place_view(user, args.get("view"), push=True))


@method("views.update")
def _views_update(slack: FakeSlack, args: Json) -> Json:
    wanted, external = args.get("view_id"), args.get("external_id")
    named = [one for one in slack.views.values() if external and one.view.get("external_id") == external]
    kept = slack.views.get(str(wanted)) if wanted else next(iter(named), None)
    if kept is None:
        raise Refused("not_found")
    if args.get("hash") and args["hash"] != kept.view["hash"]:
        raise Refused("hash_conflict")
    return slack._opened(slack._place_view(kept.user, args.get("view"), push=False, over=kept.id))


@method("views.publish")
def _views_publish(slack: FakeSlack, args: Json) -> Json:
    user = str(args.get("user_id"))
    if user not in slack.users:
        raise Refused("user_not_found")
    kept = slack.homes.get(user)
    if kept is not None and args.get("hash") and args["hash"] != kept.view["hash"]:
        raise Refused("hash_conflict")
    made_id = kept.id if kept else slack._fresh("V")
    view = slack._checked_view(args.get("view"), "home", made_id)
    slack.homes[user] = View(made_id, user, view, made_id)
    return slack._opened(slack.homes[user])


@method("files.getUploadURLExternal")
def _upload_url(slack: FakeSlack, args: Json) -> Json:
    length = int(args.get("length") or 0)
    if not args.get("filename") or length < 1:
        raise Refused("invalid_arguments")
    made = slack._keep_file(slack.bot_user_id, str(args["filename"]), b"", length=length, uploaded=False)
    return {"upload_url": f"{slack.base_url}/upload/{made['id']}", "file_id": made["id"]}


@method("files.completeUploadExternal")
def _complete_upload(slack: FakeSlack, args: Json) -> Json:
    files = _parsed(args.get("files") or [], "invalid_arguments")
    if not files:
        raise Refused("invalid_arguments")
    if any(not slack.files.get(one["id"], {}).get("uploaded") for one in files):
        raise Refused("file_not_found")
    for one in files:
        slack.files[one["id"]]["title"] = one.get("title") or slack.files[one["id"]]["name"]
    channel = args.get("channel_id") or str(args.get("channels") or "").split(",")[0]
    if channel:
        place = slack._place(channel, writing=True)
        shown = [slack._file_shown(one["id"]) for one in files]
        words = {"text": args.get("initial_comment") or " ", "thread_ts": args.get("thread_ts")}
        content = {**words, "attachments": "the files"}  # a share needs no words
        slack._post(place, content, files=shown, subtype="file_share")
    return {"files": [{"id": one["id"], "title": slack.files[one["id"]]["title"]} for one in files]}


@method("files.info")
def _file_info(slack: FakeSlack, args: Json) -> Json:
    if args.get("file") not in slack.files:
        raise Refused("file_not_found")
    return {"file": slack._file_shown(str(args["file"]))}


@method("reactions.add")
def _react(slack: FakeSlack, args: Json) -> Json:
    place = slack._place(args.get("channel"))
    kept = slack._messages[place.id].get(str(args.get("timestamp")))
    name = str(args.get("name") or "")
    if not name or name != name.strip(":"):
        raise Refused("invalid_name")
    if kept is None:
        raise Refused("message_not_found")
    if name in kept.reactions:
        raise Refused("already_reacted")
    kept.reactions.append(name)
    return {}


def _assistant(slack: FakeSlack, args: Json, **values: Any) -> Json:
    place = slack._place(args.get("channel_id"))
    thread = str(args.get("thread_ts"))
    if thread not in slack._messages[place.id]:
        raise Refused("thread_not_found")
    slack.assistant.setdefault((place.id, thread), {}).update(values)
    return {}


@method("assistant.threads.setStatus")
def _set_status(slack: FakeSlack, args: Json) -> Json:
    return _assistant(slack, args, status=args.get("status", ""))


@method("assistant.threads.setTitle")
def _set_title(slack: FakeSlack, args: Json) -> Json:
    return _assistant(slack, args, title=args.get("title", ""))


@method("assistant.threads.setSuggestedPrompts")
def _set_prompts(slack: FakeSlack, args: Json) -> Json:
    prompts = _parsed(args.get("prompts") or [], "invalid_arguments")
    if not 1 <= len(prompts) <= MOST_PROMPTS or any(set(one) != {"title", "message"} for one in prompts):
        raise Refused("invalid_arguments")
    return _assistant(slack, args, prompts=prompts, prompts_title=args.get("title"))
