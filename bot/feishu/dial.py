"""How the long connection is reached: an address is asked for, and called once.

The address holds an access key. It is never logged, and errors carry the kind of what went wrong
instead of the library's words, which may repeat it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from agent_runner.errors import CountersignError, TryLater
from bot.feishu.errors import outcome
from bot.feishu.frames import interval

_library_log = logging.getLogger(f"{__name__}.socket")
_library_log.setLevel(logging.WARNING)  # at DEBUG the library writes the whole address

LARGEST = 16 * 2**20
"""Bytes of one frame that are accepted."""

AUTH_FAILED = 514
"""A handshake refused for what its second code says (lark-oapi 1.7.5, ws/const.py)."""


@cache
def tls() -> ssl.SSLContext:
    """Whose certificates are trusted: read once, for it takes 25 ms in which the bot does nothing else."""
    return httpx.create_ssl_context()


class Address(NamedTuple):
    """Where to connect, the service to name in pings, and the seconds between them."""

    url: str
    service: int
    ping_seconds: float


async def ask(
    http: httpx.AsyncClient, domain: str, credentials: Mapping[str, str], *, seconds: float
) -> Address:
    """Asks where to connect; the address is good for one connection.

    Raises `FixConfiguration` when Feishu refuses the app, `TryLater` for anything that may pass.
    """
    try:
        async with asyncio.timeout(seconds):
            response = await http.post(
                f"{domain}/callback/ws/endpoint",
                json=dict(credentials),
                headers={"locale": "zh"},
                timeout=seconds,
            )
    except (httpx.HTTPError, TimeoutError) as error:
        raise TryLater("Feishu did not say where to connect.", cause=type(error).__name__) from None
    try:
        answer = response.json()
        code, data = int(answer["code"]), answer.get("data") or {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TryLater(f"Feishu did not say where to connect (HTTP {response.status_code}).") from None
    if code != 0:
        raise _refusal(code, str(answer.get("msg") or ""), response.status_code)
    return _checked(data, secure=domain.startswith("https:"))


async def connected(address: Address, *, seconds: float, closing: float) -> ClientConnection:
    """An open connection; `closing` is how long it waits for the other side's goodbye."""
    try:
        return await connect(
            address.url, open_timeout=seconds, close_timeout=closing, max_size=LARGEST, logger=_library_log
        )
    except InvalidStatus as refused:
        headers = refused.response.headers
        code = _number(headers.get("handshake-status", ""))
        if code == AUTH_FAILED:
            code = _number(headers.get("handshake-autherrcode", "")) or code
        words = headers.get("handshake-msg", "")
        raise _refusal(code, words, refused.response.status_code) from None
    except (WebSocketException, OSError, TimeoutError) as error:
        raise TryLater("Feishu's long connection cannot be reached.", cause=type(error).__name__) from None


def _checked(data: Any, *, secure: bool) -> Address:
    """The address in an answer; raises `TryLater` if it cannot be used."""
    try:
        url = str(data["URL"])
        parts = urlsplit(url)
        service = int(parse_qs(parts.query)["service_id"][0])
    except (KeyError, TypeError, ValueError):
        raise TryLater("Feishu named no address to connect to.") from None
    if parts.scheme != "wss" and (secure or parts.scheme != "ws"):
        raise TryLater("Feishu named an address that is not encrypted.")
    return Address(url, service, interval(data.get("ClientConfig")))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _refusal(code: int, words: str, status: int) -> CountersignError:
    error = outcome(code, words, status=status)
    if isinstance(error, CountersignError):
        return error
    return TryLater(f"Feishu refused the long connection: {error}")
