"""Feishu's wire: the long connection or signed HTTP, everything answered in time and handed to `Talk`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from agent_runner.config_chats import Feishu
from agent_runner.errors import CountersignError, NotAllowed, TryLater
from agent_runner.registers import Registers
from bot.background import Background, body_of, end_all
from bot.feishu import inbound, webhook
from bot.feishu.connection import LongConnection
from bot.feishu.people import People
from bot.feishu.talk import Talk
from bot.kept_groups import keep_reading

log = logging.getLogger(__name__)

PATH = "/feishu/events"
"""Where signed HTTP comes in: events and clicks alike."""
ANSWER_SECONDS = 2.5
"""Until a click is answered in any case; Feishu waits 3."""
REPLAY_SECONDS = 900
"""How long a request's signature is remembered: longer than the 5 minutes for which it is fresh."""
GRACE = 5.0
"""Seconds for what was taken to be done when the bot stops."""

Json = dict[str, Any]
Members = Callable[[str], Coroutine[Any, Any, tuple[str, ...]]]


class FeishuApp:
    """One app in one tenant."""

    def __init__(
        self,
        config: Feishu,
        talk: Talk,
        people: People,
        registers: Registers,
        *,
        secrets: Mapping[str, str],
        members: Members,
    ) -> None:
        self.config = config
        self._talk = talk
        self._people = people
        self._registers = registers
        self._secrets = secrets
        self._members = members
        self._connection: LongConnection | None = None
        self._groups: asyncio.Task[None] | None = None
        self._background = Background("Feishu")

    async def start(self) -> None:
        """Connects; raises `FixConfiguration` for refused credentials, `TryLater` if Feishu is away."""
        await self._people.find_bot()
        self._groups = asyncio.create_task(
            keep_reading("feishu", self.config.groups, self._accounts, self._registers)
        )
        if self.config.mode == "socket":
            self._connection = LongConnection(
                self._secrets["FEISHU_APP_ID"],
                self._secrets["FEISHU_APP_SECRET"],
                self.config.domain,
                on_event=self._talk.event,
                on_card=self._talk.click,
                late=self._talk.late(),
                failed=self._talk.failed(),
            )
            self._connection.start()

    async def stop(self) -> None:
        """Disconnects; what was taken is done first."""
        if self._groups is not None:
            await end_all([self._groups])
        if self._connection is not None:
            await self._connection.stop()
        await self._background.end(GRACE)
        await self._talk.end()

    @property
    def connection(self) -> LongConnection | None:
        """The long connection, in that mode."""
        return self._connection

    async def _accounts(self, department: str) -> list[str]:
        return [f"feishu:{one}" for one in await self._members(department)]

    # --- HTTP ----------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes one signed request."""
        request = Request(scope, receive)
        await (await self._answer(request))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        until = time.monotonic() + ANSWER_SECONDS
        body = await body_of(request)
        if body is None:
            return Response(status_code=413)
        doubts: list[str] = []
        try:
            payload = await asyncio.to_thread(self._opened, dict(request.headers), body, doubts)
        except NotAllowed as refused:
            log.warning("a request to %s was refused: %s", PATH, refused)
            return JSONResponse({"msg": "refused"}, status_code=403)
        except CountersignError as error:
            return JSONResponse({"msg": error.message}, status_code=400)
        asked = webhook.challenge(payload)
        if asked is not None:
            return JSONResponse(asked)
        if inbound.kind_of(payload) == inbound.CLICK:
            return JSONResponse(self._talk.failed() if doubts else await self._clicked(payload, until))
        self._background.do(self._talk.event(payload))  # a message is known by its own id as well
        return JSONResponse({})

    def _opened(self, headers: Mapping[str, str], body: bytes, doubts: list[str]) -> Json:
        """What is in a request. `doubts` gets those of which nobody knows whether they were here before."""

        def seen(key: str) -> bool:
            try:
                return not self._registers.first_time(key, seconds=REPLAY_SECONDS)
            except TryLater:
                doubts.append(key)
                return False

        return webhook.open_request(
            headers,
            body,
            encrypt_key=self._secrets.get("FEISHU_ENCRYPT_KEY", ""),
            verification_token=self._secrets.get("FEISHU_VERIFICATION_TOKEN", ""),
            now=time.time(),
            seen=seen,
        )

    async def _clicked(self, payload: Json, until: float) -> Json:
        """The answer in time; what takes longer goes on, and the card tells."""
        work = asyncio.ensure_future(self._talk.click(payload))
        done, _ = await asyncio.wait({work}, timeout=max(0.0, until - time.monotonic()))
        if not done:
            self._background.do(_finished(work))
            return self._talk.late()
        if work.exception() is not None:
            log.error("a click could not be dealt with", exc_info=work.exception())
            return self._talk.failed()
        return work.result()


async def _finished(work: asyncio.Future[Json]) -> None:
    await work
