"""The frames of the long connection, as lark-oapi 1.7 defines them: the only place with names of it.

Only its protocol definitions are used: the frame's protobuf class and the constants. Its client
cannot be used in a bot that has to answer: it asks for its address with a blocking request without
a deadline, runs handlers on its own loop one after another, answers 500 to events it does not know,
logs the connection's key, cannot be stopped, and can be dead without anybody noticing.
Importing the whole package takes 5 s and 174 MB: `load` imports those two definitions alone.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_runner.errors import FixConfiguration, FixInput

PING_SECONDS = 120.0
"""Between two pings, unless the server says otherwise (lark-oapi 1.7.5, ws/client.py)."""

PART_SECONDS = 5.0
"""How long a message waits for its missing parts (ws/client.py, `_combine`)."""

HOLLOW = ("lark_oapi", "lark_oapi.ws", "lark_oapi.ws.pb.google")
"""Packages around the protocol definitions whose own code is not run: it imports everything else."""

MOST_PARTS = 1_000
"""Parts of one message; more is taken for a mistake."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Wire:
    """Reads and writes frames. Make it with `load`."""

    frame: Any
    const: Any
    kinds: Any
    types: Any

    def read(self, data: bytes | str) -> Any:
        """A frame; raises `FixInput` for what is none."""
        frame = self.frame()
        try:
            frame.ParseFromString(data)
        except Exception as error:  # noqa: BLE001  (the bundled protobuf raises whatever its pure-Python decoder trips over)
            raise FixInput("Feishu sent what is no frame.", cause=type(error).__name__) from None
        return frame

    def ping(self, service: int) -> bytes:
        """The frame that asks for a sign of life."""
        frame = self.frame()
        frame.SeqID, frame.LogID = 0, 0
        frame.service, frame.method = service, self.kinds.CONTROL.value
        self._add(frame, self.const.HEADER_TYPE, self.types.PING.value)
        data: bytes = frame.SerializeToString()
        return data

    def acknowledged(self, frame: Any, answer: Json | None, ms: int) -> bytes:
        """The frame that acknowledges `frame`, with the answer to a click in it; `ms` is how long it took."""
        self._add(frame, self.const.HEADER_BIZ_RT, str(ms))
        body: Json = {"code": 200}
        if answer is not None:
            body["data"] = base64.b64encode(json.dumps(answer, ensure_ascii=False).encode()).decode()
        frame.payload = json.dumps(body).encode()
        data: bytes = frame.SerializeToString()
        return data

    def is_data(self, frame: Any) -> bool:
        """Whether a frame carries an event; others are about the connection itself."""
        return bool(frame.method == self.kinds.DATA.value)

    def ping_seconds(self, frame: Any) -> float | None:
        """The time between pings that the server asks for in a pong, if this is one that does."""
        if self.headers(frame).get(self.const.HEADER_TYPE) != self.types.PONG.value or not frame.payload:
            return None
        try:
            return interval(json.loads(frame.payload))
        except ValueError:
            return None

    def part(self, frame: Any) -> tuple[str, int, int]:
        """Which message an event's frame belongs to, in how many parts, and which of them it is."""
        headers, const = self.headers(frame), self.const
        try:
            return (
                headers[const.HEADER_MESSAGE_ID],
                int(headers[const.HEADER_SUM]),
                int(headers[const.HEADER_SEQ]),
            )
        except (KeyError, ValueError):
            raise FixInput("Feishu sent an event without its number.") from None

    @staticmethod
    def headers(frame: Any) -> dict[str, str]:
        """A frame's headers."""
        return {header.key: header.value for header in frame.headers}

    @staticmethod
    def _add(frame: Any, key: str, value: str) -> None:
        header = frame.headers.add()
        header.key, header.value = key, value


def load() -> Wire:
    """Imports the SDK's protocol definitions; still a moment's work, so call it in a thread."""
    with _without_the_rest(*HOLLOW):
        from lark_oapi.ws import const, enum
        from lark_oapi.ws.pb.pbbp2_pb2 import Frame

    return Wire(Frame, const, enum.FrameType, enum.MessageType)


@contextlib.contextmanager
def _without_the_rest(*packages: str) -> Iterator[None]:
    """Lets modules of these packages be imported without what the packages import themselves.

    Whoever imports the SDK afterwards gets it whole, with the modules that are loaded already.
    """
    if packages[0] in sys.modules:  # somebody has paid for it already
        yield
        return
    spec = importlib.util.find_spec(packages[0])
    if spec is None or spec.origin is None:
        raise FixConfiguration(
            "lark-oapi is not installed.", hint="Install Countersign's dependencies again."
        )
    root = Path(spec.origin).parent.parent
    for name in packages:
        hollow = ModuleType(name)
        hollow.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = hollow
    try:
        yield
    finally:
        for name in packages[:2]:  # the protobuf modules look each other up later on: they stay
            del sys.modules[name]


def interval(config: Any) -> float:
    """Seconds between pings from a ClientConfig; the usual ones where it says nothing usable."""
    told = config.get("PingInterval") if isinstance(config, Mapping) else None
    return float(told) if isinstance(told, int | float) and told > 0 else PING_SECONDS


def envelope(payload: bytes) -> Json:
    """An event of schema 2.0; {} for anything else."""
    try:
        event = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    whole = isinstance(event, dict) and isinstance(event.get("header"), dict) and "event" in event
    return event if whole else {}


@dataclass
class Parts:
    """Puts long messages together again."""

    _waiting: dict[str, tuple[float, dict[int, bytes]]] = field(default_factory=dict)

    def add(self, message_id: str, count: int, number: int, payload: bytes, now: float) -> bytes | None:
        """The whole message once all parts are there; raises `FixInput` for a part that cannot be."""
        if count <= 1:
            return payload
        if count > MOST_PARTS or not 0 <= number < count:
            raise FixInput(f"Feishu sent part {number} of {count}.")
        self._waiting = {k: v for k, v in self._waiting.items() if now - v[0] < PART_SECONDS}
        parts = self._waiting.get(message_id, (now, {}))[1]
        parts[number] = payload
        if len(parts) < count:
            self._waiting[message_id] = (now, parts)
            return None
        self._waiting.pop(message_id, None)
        return b"".join(parts[n] for n in range(count))
