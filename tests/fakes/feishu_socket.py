"""The server's side of Feishu's long connection: protobuf frames, pings, acknowledgements.

The frame's layout is that of the SDK (lark-oapi 1.7.5, ws/pb/pbbp2.proto and ws/client.py); it is written
out here because importing that module loads the whole SDK, which takes seconds. A contract test compares.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

CONTROL, DATA = 0, 1
MAX_CONNECTIONS = 50  # long connection page: "at most 50 connections per app"
EXCEED_LIMIT = 1000040350  # ws/const.py EXCEED_CONN_LIMIT
AUTH_FAILED = 514  # ws/const.py AUTH_FAILED


@dataclass
class Frame:
    """One frame of the long connection."""

    seq_id: int = 0
    log_id: int = 0
    service: int = 0
    method: int = CONTROL
    headers: list[tuple[str, str]] = field(default_factory=list)
    payload: bytes = b""

    def header(self, key: str) -> str:
        """A header's value, "" when there is none."""
        return next((value for name, value in self.headers if name == key), "")

    def encode(self) -> bytes:
        """The frame as protobuf: fields 1-4 varints, 5 the headers, 8 the payload."""
        out = bytearray()
        for number, value in enumerate((self.seq_id, self.log_id, self.service, self.method), start=1):
            out += _varint(number << 3) + _varint(value)
        for key, text in self.headers:
            out += _bytes(5, _bytes(1, key.encode()) + _bytes(2, text.encode()))
        return bytes(out + _bytes(8, self.payload)) if self.payload else bytes(out)


def decode(data: bytes) -> Frame:
    """Reads a frame; raises ValueError for what is none (fields 1-4 are required)."""
    frame = Frame()
    numbers: dict[int, int] = {}
    for number, value in _fields(data):
        if isinstance(value, int):
            numbers[number] = value
        elif number == 5:
            pair = dict(_fields(value))
            frame.headers.append((_utf8(pair.get(1)), _utf8(pair.get(2))))
        elif number == 8:
            frame.payload = value
    if not {1, 2, 3, 4} <= numbers.keys():
        raise ValueError("a frame without SeqID, LogID, service or method")
    frame.seq_id, frame.log_id, frame.service, frame.method = (numbers[number] for number in (1, 2, 3, 4))
    return frame


def _utf8(value: int | bytes | None) -> str:
    if not isinstance(value, bytes):
        raise ValueError("a header without key or value")
    return value.decode()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ValueError("a broken varint")
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        value, position = _read_varint(data, position)
        if key & 7 == 0:
            yield key >> 3, value
        elif key & 7 == 2 and position + value <= len(data):
            yield key >> 3, data[position : position + value]
            position += value
        else:
            raise ValueError("a broken field")


@dataclass(frozen=True)
class Ack:
    """What came back for one delivery. `code` is the app's (200 is well), 0 with `why` when nothing came."""

    to: str
    code: int = 0
    body: bytes | None = None
    why: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 200


@dataclass(eq=False)
class Connection:
    """One client of the app."""

    conn_id: str
    socket: web.WebSocketResponse
    request: web.Request
    pings: int = 0


class LongConnections:
    """All clients of one app; a delivery goes to a random one ("cluster mode, no broadcast")."""

    def __init__(self, app_id: str, app_secret: str, seed: int, touch: Callable[[], None]) -> None:
        self.app_id = app_id
        self.app_secret = app_secret
        self.live: dict[str, Connection] = {}
        self.mute_pongs = False
        self.split_bytes = 1 << 20
        self.errors: list[str] = []
        self.client_config: dict[str, Any] = {
            "ReconnectCount": -1,
            "ReconnectInterval": 1,
            "ReconnectNonce": 0,
            "PingInterval": 1,
        }
        self._random = random.Random(seed)
        self._touch = touch
        self._issued: set[str] = set()
        self._waiting: dict[str, asyncio.Future[Ack]] = {}

    async def endpoint(self, request: web.Request) -> web.Response:
        """POST /callback/ws/endpoint: where to connect; errors are codes in a 200 (ws/client.py:281-300)."""
        body = json.loads(await request.read() or b"{}")
        if body.get("AppID") != self.app_id or body.get("AppSecret") != self.app_secret:
            return web.json_response({"code": AUTH_FAILED, "msg": "auth failed"})
        device, key = secrets.token_hex(8), secrets.token_hex(16)
        self._issued.add(key)
        url = f"ws://{request.host}/ws?device_id={device}&service_id=7&access_key={key}"
        data = {"URL": url, "ClientConfig": self.client_config}
        return web.json_response({"code": 0, "msg": "", "data": data})

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """The WebSocket itself, for a URL that the endpoint gave out."""
        if request.query.get("access_key") not in self._issued:
            return _refusal(AUTH_FAILED, "bad access key", 0)
        if len(self.live) >= MAX_CONNECTIONS:
            return _refusal(AUTH_FAILED, "the number of connections exceeded the limit", EXCEED_LIMIT)
        self._issued.discard(request.query["access_key"])
        socket = web.WebSocketResponse(max_msg_size=1 << 24)
        await socket.prepare(request)
        connection = Connection(request.query["device_id"], socket, request)
        self.live[connection.conn_id] = connection
        self._touch()
        try:
            async for message in socket:
                await self._receive(connection, message.data if message.type == WSMsgType.BINARY else b"")
        finally:
            self.live.pop(connection.conn_id, None)
            self._touch()
        return socket

    async def deliver(self, payload: bytes, deadline: float) -> Ack:
        """Sends one event to a random client and waits for its acknowledgement."""
        if not self.live:
            return Ack("", why="not connected")
        connection = self._random.choice(sorted(self.live.values(), key=lambda each: each.conn_id))
        message_id = secrets.token_hex(16)
        waiting: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = waiting
        try:
            await self._send(connection, message_id, payload)
            return await asyncio.wait_for(waiting, deadline)
        except TimeoutError:
            return Ack(connection.conn_id, why="late")
        except (ConnectionError, RuntimeError):
            return Ack(connection.conn_id, why="not connected")
        finally:
            self._waiting.pop(message_id, None)

    def drop(self) -> None:
        """Cuts every connection without a goodbye."""
        for connection in list(self.live.values()):
            transport = connection.request.transport
            if transport is not None:
                transport.abort()

    async def close(self) -> None:
        """Ends every connection."""
        for connection in list(self.live.values()):
            with contextlib.suppress(Exception):
                await connection.socket.close()

    async def _send(self, connection: Connection, message_id: str, payload: bytes) -> None:
        step = self.split_bytes
        parts = [payload[start : start + step] for start in range(0, len(payload), step)]
        for seq, part in enumerate(parts):
            headers = {
                "type": "event",  # card clicks too: the SDK drops type card (ws/client.py:362)
                "message_id": message_id,
                "trace_id": secrets.token_hex(8),
                "sum": str(len(parts)),
                "seq": str(seq),
            }
            frame = Frame(service=7, method=DATA, headers=list(headers.items()), payload=part)
            await connection.socket.send_bytes(frame.encode())

    async def _receive(self, connection: Connection, data: bytes) -> None:
        try:
            frame = decode(data)
        except (ValueError, UnicodeDecodeError) as problem:
            self.errors.append(f"not a frame: {problem}")
            return
        if frame.method == CONTROL and frame.header("type") == "ping":
            connection.pings += 1
            if frame.service != 7:
                self.errors.append(f"a ping with service {frame.service}")
            if not self.mute_pongs:
                config = json.dumps(self.client_config).encode()
                pong = Frame(service=7, method=CONTROL, headers=[("type", "pong")], payload=config)
                await connection.socket.send_bytes(pong.encode())
        elif frame.method == DATA:
            self._acknowledge(connection, frame)
        else:
            self.errors.append(f"a frame nobody asked for: {frame.headers}")

    def _acknowledge(self, connection: Connection, frame: Frame) -> None:
        waiting = self._waiting.get(frame.header("message_id"))
        if waiting is None or waiting.done():
            self.errors.append("an acknowledgement that was late or for nothing")
            return
        try:
            answer = json.loads(frame.payload)
            data = answer.get("data")
            body = base64.b64decode(data, validate=True) if data else None
            waiting.set_result(Ack(connection.conn_id, int(answer["code"]), body))
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as problem:
            self.errors.append(f"a malformed acknowledgement: {problem}")
            waiting.set_result(Ack(connection.conn_id, 500, why="malformed"))


def _refusal(status: int, message: str, code: int) -> web.Response:
    headers = {"handshake-status": str(status), "handshake-msg": message, "handshake-autherrcode": str(code)}
    return web.Response(status=400, headers=headers)
