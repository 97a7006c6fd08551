"""What Slack sends and how: the values it keeps, its payloads, and delivery by socket or by signed HTTP.

Sources: [events] docs.slack.dev/apis/events-api, [socket] .../apis/events-api/using-socket-mode,
[interact] .../interactivity/handling-user-interaction and .../reference/interaction-payloads,
[sign] .../authentication/verifying-requests-from-slack; A2-A4, A7 are the parts of our facts about Slack.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import hmac
import json
import random
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

import aiohttp
from aiohttp import WSMsgType, web

from tests.fakes.slack_blocks import STATEFUL, Json, elements_of, every_block

ACK_DEADLINE = 3.0
"""Seconds for an HTTP 200 or an envelope's ack [events, interact, socket] A2."""
RETRY_DELAYS = (0.0, 60.0, 300.0)
"""Seconds before the retries of an event: "nearly immediately", 1 minute, 5 minutes [events] A3."""
MOST_SOCKETS = 10
"""Connections per app; one more is answered with `too_many_websockets` [socket] A4."""
SIGNATURE_VERSION = "v0"  # [sign] A7

Kind = Literal["events_api", "interactive", "slash_commands"]


# ---- what Slack keeps


@dataclass
class Person:
    """A user as `users.info` shows one [docs.slack.dev/reference/objects/user-object]."""

    id: str
    name: str
    team_id: str
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    deleted: bool = False
    is_stranger: bool = False
    is_bot: bool = False
    enterprise_id: str | None = None
    tz: str = "Europe/Berlin"
    tz_offset: int = 7200
    locale: str = "en-US"
    email: str = ""

    def shown(self, *, locale: bool) -> Json:
        """The `user` object; `locale` is only there when asked for [users.info: include_locale]."""
        profile = {"real_name": self.name.title(), "display_name": self.name, "email": self.email}
        found: Json = {
            "id": self.id,
            "team_id": self.team_id,
            "name": self.name,
            "deleted": self.deleted,
            "real_name": self.name.title(),
            "is_restricted": self.is_restricted,
            "is_ultra_restricted": self.is_ultra_restricted,
            "is_bot": self.is_bot,
            "is_stranger": self.is_stranger,
            "is_app_user": False,
            "profile": {**profile, "team": self.team_id},
        }
        if not self.deleted:  # a deactivated user's object has neither zone nor flags of a member
            found |= {"tz": self.tz, "tz_offset": self.tz_offset, "tz_label": self.tz}
        if self.enterprise_id:
            of_enterprise = {"id": self.id, "enterprise_id": self.enterprise_id, "teams": [self.team_id]}
            found["enterprise_user"] = of_enterprise
        return found | ({"locale": self.locale} if locale else {})


@dataclass
class Channel:
    """A conversation; `kind` is the event's `channel_type`."""

    id: str
    name: str
    kind: Literal["channel", "group", "im", "mpim"] = "channel"
    members: set[str] = field(default_factory=set)
    bot_member: bool = True
    archived: bool = False
    restricted: bool = False
    shared: bool = False

    def shown(self) -> Json:
        """The `channel` object [docs.slack.dev/reference/objects/conversation-object]."""
        found: Json = {
            "id": self.id,
            "name": self.name,
            "is_archived": self.archived,
            "is_channel": self.kind == "channel",
            "is_im": self.kind == "im",
            "is_group": self.kind == "group",
            "is_mpim": self.kind == "mpim",
            "is_private": self.kind != "channel",
            "is_member": self.bot_member,
            "is_ext_shared": self.shared,
            "is_shared": self.shared,
        }
        return found | ({"user": min(self.members)} if self.kind == "im" else {})


@dataclass
class Message:
    """A message as it stands; `pings` are those its posting notified, `edits` counts updates."""

    channel: str
    ts: str
    user: str
    text: str = ""
    blocks: list[Json] = field(default_factory=list)
    metadata: Json | None = None
    thread_ts: str | None = None
    bot_id: str | None = None
    subtype: str | None = None
    files: list[Json] = field(default_factory=list)
    reactions: list[str] = field(default_factory=list)
    pings: frozenset[str] = frozenset()
    edits: int = 0
    ephemeral_to: str | None = None

    @property
    def buttons(self) -> dict[str, str]:
        """action_id -> what a person reads on it, of every button on the message."""
        found = (e for one in every_block(self.blocks) for e in elements_of(one) if e["type"] == "button")
        return {e["action_id"]: e["text"]["text"] for e in found}

    def shown(self, *, metadata: bool = False) -> Json:
        """The message object, in events and answers."""
        found: Json = {"type": "message", "user": self.user, "ts": self.ts, "text": self.text}
        optional = {
            "thread_ts": self.thread_ts,
            "bot_id": self.bot_id,
            "subtype": self.subtype,
            "blocks": self.blocks,
            "files": self.files,
            "metadata": self.metadata if metadata else None,
        }
        return found | {name: value for name, value in optional.items() if value}


@dataclass
class View:
    """An open modal or a published home tab."""

    id: str
    user: str
    view: Json
    root_id: str
    previous_id: str | None = None

    @property
    def blocks(self) -> list[Json]:
        """Its blocks, ids made up where there were none."""
        blocks: list[Json] = self.view["blocks"]
        return blocks


@dataclass
class Call:
    """A Web API call as it came in; `error` is what was answered, None for ok."""

    method: str
    args: Json
    at: float
    error: str | None = None


@dataclass
class Late:
    """A payload not acked in time; `ms` is when the ack came after all, if it did."""

    kind: Kind
    payload: Json
    attempt: int
    reason: str
    ms: float | None = None


@dataclass
class Attempt:
    """One try to deliver: acked after `ms`, or not, for `reason`."""

    number: int
    acked: bool
    ms: float | None = None
    reason: str = ""
    answer: Json | None = None
    no_retry: bool = False


class Delivery:
    """Something sent to the app; `await` it or `.wait()`: then it is acked, or given up.

    Reading `acked`, `ack_ms`, `answer` or `error` waits first; inside a running loop it must be awaited.
    """

    def __init__(self, kind: Kind, payload: Json, *, answers: bool = False) -> None:
        self.kind = kind
        self.payload = payload
        self.accepts_answer = answers
        self.attempts: list[Attempt] = []
        self.seen_by_person: str | None = None
        self.done: concurrent.futures.Future[None] = concurrent.futures.Future()

    def __await__(self) -> Generator[Any, None, Delivery]:
        """Waits until it is acked or given up."""
        yield from asyncio.wrap_future(self.done).__await__()
        return self

    def wait(self, timeout: float = 10.0) -> Delivery:
        """Waits the same way, from code without a running loop."""
        if not self.done.done():
            refuse_in_loop("await the delivery")
            self.done.result(timeout)
        return self

    @property
    def settled(self) -> bool:
        """Whether it is acked or given up by now."""
        return self.done.done()

    @property
    def acked(self) -> bool:
        """Whether the app acknowledged it in time."""
        self.wait()
        return bool(self.attempts) and self.attempts[-1].acked

    @property
    def ack_ms(self) -> float | None:
        """Milliseconds from sending to the ack of the last attempt."""
        self.wait()
        return self.attempts[-1].ms if self.attempts else None

    @property
    def answer(self) -> Json | None:
        """What came with the ack."""
        return self.wait().attempts[-1].answer if self.acked else None

    @property
    def error(self) -> str | None:
        """What the person sees because the app did not do its part; None if all went well."""
        return self.wait().seen_by_person

    @property
    def response_action(self) -> str | None:
        """Of a view_submission: errors, update, push, clear, or None when the modal just closes."""
        found = (self.answer or {}).get("response_action")
        return found if isinstance(found, str) else None

    @property
    def errors(self) -> dict[str, str]:
        """Of a view_submission: block_id -> what the person reads under the field."""
        return dict((self.answer or {}).get("errors", {}))


def refuse_in_loop(instead: str) -> None:
    """Blocking inside a running loop would stop the very app that is waited for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"this would block the running loop: {instead}")


# ---- state.values


def state_of(element: Json) -> Json:
    """An element's entry in `state.values` before anybody touched it [interact: block_actions]."""
    kind = element["type"]
    if kind == "checkboxes" or kind.startswith("multi_"):
        return filled(element, *(o["value"] for o in element.get("initial_options", [])))
    initial = element.get("initial_option", {}).get("value")
    for name in ("initial_value", "initial_date", "initial_time", "initial_date_time"):
        initial = element.get(name, initial)
    return filled(element, *([] if initial is None else [initial]))


_SINGLE_FIELD = {
    "datepicker": "selected_date",
    "timepicker": "selected_time",
    "datetimepicker": "selected_date_time",
    "users_select": "selected_user",
    "conversations_select": "selected_conversation",
    "channels_select": "selected_channel",
}
_LIST_FIELD = {
    "multi_users_select": "selected_users",
    "multi_channels_select": "selected_channels",
    "multi_conversations_select": "selected_conversations",
}


def filled(element: Json, *values: Any) -> Json:
    """An element's entry in `state.values` with what a person chose (option values) or typed."""
    kind = element["type"]
    first = values[0] if values else None
    if kind in _LIST_FIELD:
        return {"type": kind, _LIST_FIELD[kind]: list(values)}
    if kind == "checkboxes" or kind.startswith("multi_"):
        return {"type": kind, "selected_options": [option_of(element, value) for value in values]}
    if kind in {"radio_buttons", "static_select", "external_select"}:
        return {"type": kind, "selected_option": None if first is None else option_of(element, first)}
    return {"type": kind, _SINGLE_FIELD.get(kind, "value"): first or None}


def option_of(element: Json, value: str) -> Json:
    """The option with this value, or with this label; AssertionError if a person could not find it."""
    groups = element.get("option_groups", [])
    options: list[Json] = element.get("options") or [o for g in groups for o in g["options"]]
    for one in options:
        if value in (one["value"], one["text"]["text"]):
            return one
    raise AssertionError(f"no option {value!r} among {[o['value'] for o in options]}")


def state_values(blocks: Sequence[Json], typed: Mapping[tuple[str, str], Json]) -> Json:
    """`state.values`: every stateful element, input block or not [interact, changelog 2020-09]."""
    values: Json = {}
    for one in every_block(blocks):
        for element in elements_of(one):
            if element["type"] in STATEFUL:
                key = (one["block_id"], element["action_id"])
                values.setdefault(key[0], {})[key[1]] = typed.get(key) or state_of(element)
    return {"values": values}


def find_element(blocks: Sequence[Json], action_id: str | None, block_id: str | None) -> tuple[Json, Json]:
    """(block, element) a person would touch; AssertionError if there is none or more than one."""
    found = [
        (one, element)
        for one in every_block(blocks)
        for element in elements_of(one)
        if action_id in (None, element.get("action_id")) and block_id in (None, one.get("block_id"))
    ]
    if len(found) != 1:
        there = [(b.get("block_id"), e.get("action_id")) for b in every_block(blocks) for e in elements_of(b)]
        raise AssertionError(f"{len(found)} elements are {block_id}/{action_id}; there are {there}")
    return found[0]


def fires(one: Json, element: Json) -> bool:
    """Whether touching the element sends block_actions at once [interact] A2."""
    return one["type"] != "input" or (bool(one.get("dispatch_action")) and element["type"] in STATEFUL)


# ---- delivery


@dataclass(eq=False)
class Socket:
    """One Socket Mode connection of the app."""

    ws: web.WebSocketResponse
    request: web.Request
    loop: asyncio.AbstractEventLoop
    answers_pings: bool = True
    pings: int = 0

    @property
    def open(self) -> bool:
        """Whether envelopes may still be sent on it."""
        return not self.ws.closed and self.request.transport is not None

    def kill(self) -> None:
        """Cuts the connection without a closing handshake, as a dying proxy does."""
        self.loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        if self.request.transport is not None:
            self.request.transport.abort()

    def send(self, frame: Json) -> None:
        """Sends one frame, from any thread."""
        asyncio.run_coroutine_threadsafe(self.ws.send_str(json.dumps(frame)), self.loop)

    def close(self) -> None:
        """Closes it properly."""
        asyncio.run_coroutine_threadsafe(self.ws.close(), self.loop)


@dataclass
class Sent:
    """An envelope on its way: where the ack will be noted, even when it comes too late."""

    ack: asyncio.Future[Json]
    at: float
    socket: Socket
    late: Late | None = None


class Wire:
    """Sends one payload once, and says how it went. Lives in the fake's loop."""

    def __init__(self, *, seed: int, deadline: float, secret: str, url: str | None) -> None:
        self.random = random.Random(seed)
        self.deadline = deadline
        self.secret = secret
        self.url = url
        self.sockets: list[Socket] = []
        self.sent: dict[str, Sent] = {}
        self.lost_kinds: set[Kind] = set()
        self.session: aiohttp.ClientSession | None = None

    async def send(self, delivery: Delivery, number: int, reason: str) -> tuple[Attempt, Late | None]:
        """One attempt; with it, the record of its lateness if there was no ack in time."""
        late = Late(delivery.kind, delivery.payload, number, "")
        if delivery.kind in self.lost_kinds:
            await asyncio.sleep(self.deadline)
            attempt = Attempt(number, acked=False, reason="timeout")
        elif self.url is not None:
            attempt = await self._by_http(delivery, number, reason)
        else:
            attempt = await self._by_socket(delivery, number, reason, late)
        late.reason = attempt.reason
        return attempt, None if attempt.acked else late

    async def _by_socket(self, delivery: Delivery, number: int, reason: str, late: Late) -> Attempt:
        ready = [one for one in self.sockets if one.open]
        if not ready:
            return Attempt(number, acked=False, reason="connection_failed")
        socket = self.random.choice(ready)  # [socket]: "any of the connections may receive" it
        envelope_id = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        frame: Json = {
            "envelope_id": envelope_id,
            "type": delivery.kind,
            "payload": delivery.payload,
            "accepts_response_payload": delivery.accepts_answer,
        }
        if delivery.kind == "events_api":  # A4: the first delivery carries 0
            frame |= {"retry_attempt": number, "retry_reason": reason}
        sent = Sent(asyncio.get_running_loop().create_future(), time.monotonic(), socket)
        self.sent[envelope_id] = sent
        try:
            await socket.ws.send_str(json.dumps(frame))
            answer = await asyncio.wait_for(asyncio.shield(sent.ack), self.deadline)
        except (ConnectionError, aiohttp.ClientError):
            return Attempt(number, acked=False, reason="connection_failed")
        except TimeoutError:
            sent.late = late
            return Attempt(number, acked=False, reason="timeout")
        return Attempt(number, acked=True, ms=(time.monotonic() - sent.at) * 1000, answer=answer or None)

    def acked(self, frame: Json) -> None:
        """Takes an ack frame: `{envelope_id}` and perhaps `payload` [socket]."""
        sent = self.sent.get(str(frame.get("envelope_id")))
        if sent is None:
            return
        if sent.late is not None:
            sent.late.ms = (time.monotonic() - sent.at) * 1000
        elif not sent.ack.done():
            sent.ack.set_result(frame.get("payload") or {})

    def gone(self, socket: Socket) -> None:
        """Fails what was under way on a lost connection."""
        if socket in self.sockets:
            self.sockets.remove(socket)
        for sent in self.sent.values():
            if sent.socket is socket and not sent.ack.done():
                sent.ack.set_exception(ConnectionError("socket lost"))
                sent.ack.exception()  # looked at, so that nobody hears of it when none waits any more

    def signed(self, body: str, at: int) -> dict[str, str]:
        """The signature headers of a request body at a time [sign] A7."""
        base = f"{SIGNATURE_VERSION}:{at}:{body}".encode()
        mark = hmac.new(self.secret.encode(), base, hashlib.sha256).hexdigest()
        stamp = {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": f"{SIGNATURE_VERSION}={mark}"}
        return stamp | {"User-Agent": "Slackbot 1.0 (+https://api.slack.com/robots)"}

    async def _by_http(self, delivery: Delivery, number: int, reason: str) -> Attempt:
        if delivery.kind == "events_api":
            body, content_type = json.dumps(delivery.payload), "application/json"
        else:
            fields = delivery.payload
            if delivery.kind == "interactive":
                fields = {"payload": json.dumps(delivery.payload)}
            body, content_type = encoded(fields), "application/x-www-form-urlencoded"
        headers = {**self.signed(body, int(time.time())), "Content-Type": content_type}
        if number:
            headers |= {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": reason}
        assert self.session is not None and self.url is not None
        began = time.monotonic()
        limit = aiohttp.ClientTimeout(total=self.deadline)
        try:
            async with self.session.post(
                self.url, data=body.encode(), headers=headers, timeout=limit, allow_redirects=False
            ) as got:
                words = await got.text()
        except TimeoutError:
            return Attempt(number, acked=False, reason="http_timeout")
        except aiohttp.ClientError:
            return Attempt(number, acked=False, reason="connection_failed")
        if got.status != 200:
            stop = got.headers.get("X-Slack-No-Retry") == "1"  # A3
            return Attempt(number, acked=False, reason="http_error", no_retry=stop)
        answer = json.loads(words) if "json" in got.content_type and words else {}
        if words and not answer and "json" not in got.content_type:
            answer = {"text": words}
        return Attempt(number, acked=True, ms=(time.monotonic() - began) * 1000, answer=answer or None)


def encoded(fields: Json) -> str:
    """A form body."""
    return urlencode(
        {k: str(v).lower() if isinstance(v, bool) else v for k, v in fields.items() if v is not None}
    )


async def serve_socket(
    wire: Wire, request: web.Request, hello: Json, changed: Callable[[], None]
) -> web.WebSocketResponse:
    """One Socket Mode connection from hello to its end."""
    ws = web.WebSocketResponse(autoping=False)
    await ws.prepare(request)
    socket = Socket(ws, request, asyncio.get_running_loop())
    if len([one for one in wire.sockets if one.open]) >= MOST_SOCKETS:
        await ws.send_str(json.dumps({"type": "disconnect", "reason": "too_many_websockets"}))
        await ws.close()
        return ws
    wire.sockets.append(socket)
    await ws.send_str(json.dumps({**hello, "num_connections": len(wire.sockets)}))
    changed()
    try:
        async for message in ws:
            if message.type is WSMsgType.PING:
                socket.pings += 1
                if socket.answers_pings:
                    await ws.pong(message.data)
            elif message.type is WSMsgType.TEXT:
                wire.acked(json.loads(message.data))
                changed()
    finally:
        wire.gone(socket)
        changed()
    return ws
