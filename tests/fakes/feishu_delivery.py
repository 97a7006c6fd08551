"""How events and callbacks of the fake Feishu reach the app: over a connection, or as a signed HTTP callback.

Pages: event overview ("re-sending"), event-subscription-guide ("send events to the developer's server"),
callback overview (synchronous, never sent again).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.fakes.feishu_events import REDELIVERY, encrypt, signed_headers
from tests.fakes.feishu_model import Attempt, Json, Message, World
from tests.fakes.feishu_socket import Ack, LongConnections

CHALLENGE_SECONDS = 1.0  # "return the challenge within 1 second"


@dataclass(frozen=True)
class Delivered:
    """One HTTP callback as it was sent, to be looked at or replayed, and the answer's status."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    status: int


class Delivery:
    """One app's way to be told. `webhook` "" means the long connection; `lose_events` swallows everything."""

    def __init__(
        self,
        world: World,
        socket: LongConnections,
        encrypt_key: str,
        verification_token: str,
        deadline: float,
        redelivery_scale: float,
    ) -> None:
        self.deadline = deadline
        self.redelivery_scale = redelivery_scale
        self.lose_events = False
        self.webhook = ""
        self.encrypted = True
        self.log: list[Delivered] = []
        self._world = world
        self._socket = socket
        self._key = encrypt_key
        self._token = verification_token

    async def open(self) -> None:
        """Gets ready, on the fake's loop."""
        self._http = aiohttp.ClientSession()

    async def close(self) -> None:
        """Ends what `open` began."""
        await self._http.close()

    async def deliver(self, message: Message, event: Json) -> None:
        """Sends an event until it is accepted, at most five times; every try is noted at the message."""
        for pause in (0.0, *REDELIVERY):
            await self._world.clock.sleep(pause * self.redelivery_scale)
            ack = await self.send(event)
            event_id = event["header"]["event_id"]
            message.attempts.append(Attempt(self._world.clock.now(), event_id, ack.to, ack.code, ack.ok))
            self._world.touch()
            if ack.ok:
                return

    async def send(self, event: Json) -> Ack:
        """One try."""
        if self.lose_events:
            await asyncio.sleep(self.deadline)
            return Ack("", why="late")
        if not self.webhook:
            return await self._socket.deliver(json.dumps(event, ensure_ascii=False).encode(), self.deadline)
        headers, body = self.sealed(event)
        return await self._post(self.webhook, headers, body, self.deadline)

    async def use_webhook(self, url: str, *, encrypted: bool, verify: bool) -> bool:
        """Takes `url` if it answers the challenge in time (or is not asked)."""
        self.encrypted = encrypted
        challenge = secrets.token_hex(8)
        question = {"challenge": challenge, "token": self._token, "type": "url_verification"}
        # Unsigned: the SDK answers the challenge before it looks at a signature (dispatcher_handler.py `do`).
        headers, body = self.sealed(question, signed=False)
        ack = await self._post(url, headers, body, CHALLENGE_SECONDS) if verify else Ack(url, 200)
        try:
            well = ack.ok and (not verify or json.loads(ack.body or b"") == {"challenge": challenge})
        except ValueError:
            well = False
        self.webhook = url if well else self.webhook
        return well

    def sealed(
        self, payload: Mapping[str, Any], *, signed: bool = True, age: float = 0.0, key: str | None = None
    ) -> tuple[dict[str, str], bytes]:
        """Headers and body of a callback, so many seconds old, with the app's Encrypt Key or another."""
        key = key or self._key
        body = encrypt(payload, key) if self.encrypted else json.dumps(payload, ensure_ascii=False).encode()
        if signed and self.encrypted:  # a signature comes "only with an Encrypt Key"
            return signed_headers(body, key, now=self._world.clock.now() - age), body
        return {"Content-Type": "application/json; charset=utf-8"}, body

    async def _post(self, url: str, headers: dict[str, str], body: bytes, deadline: float) -> Ack:
        limit = aiohttp.ClientTimeout(total=deadline)
        try:
            async with self._http.post(
                url, data=body, headers=headers, timeout=limit, allow_redirects=False
            ) as response:
                answer = await response.read()
                self.log.append(Delivered(url, headers, body, response.status))
                return Ack(url, response.status, answer)
        except TimeoutError:
            self.log.append(Delivered(url, headers, body, 0))
            return Ack(url, why="late")
        except aiohttp.ClientError:
            return Ack(url, why="unreachable")
