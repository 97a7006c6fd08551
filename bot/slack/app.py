"""Slack's wire: Socket Mode or signed HTTP, everything acknowledged at once and handed to `Talk`."""

from __future__ import annotations

import asyncio
import logging
import re
from time import time
from typing import Any

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app, send_async_response
from slack_bolt.adapter.starlette.async_handler import to_async_bolt_request, to_starlette_response
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent_runner.config_chats import Slack
from agent_runner.errors import CountersignError
from agent_runner.registers import Registers
from bot.background import Background, body_of, end_all
from bot.kept_groups import keep_reading
from bot.slack.client import SlackClient
from bot.slack.inbound import Payload
from bot.slack.people import People
from bot.slack.talk import Talk

log = logging.getLogger(__name__)

PATH = "/slack/events"
"""Where signed HTTP comes in: events, clicks and commands alike."""
CONNECTIONS = 2
"""Sockets of one bot: while one reconnects the other listens. Slack allows 10 of an app."""
PING_SECONDS = 5.0
SILENT_SECONDS = 30.0
"""A socket without a pong for this long is given up and opened anew (the SDK tries after 20 s)."""
GRACE = 5.0
"""Seconds for what was acknowledged to be done when the bot stops."""
_ANY = re.compile(r"[\s\S]*")

Body = dict[str, Any]


class SlackApp:
    """One installation of the app in one workspace or organisation."""

    path = PATH

    def __init__(
        self,
        config: Slack,
        client: SlackClient,
        people: People,
        registers: Registers,
        *,
        app_token: str,
        signing_secret: str,
    ) -> None:
        self.config = config
        self.client = client
        self.people = people
        self._registers = registers
        self._app_token = app_token
        self._signing_secret = signing_secret
        self._talk: Talk | None = None
        self._bolt: AsyncApp | None = None
        self._sockets: list[_Socket] = []
        self._loops: list[asyncio.Task[None]] = []
        self._background = Background("Slack")

    # --- life ----------------------------------------------------------------------------

    async def start(self, talk: Talk) -> None:
        """Connects; raises `FixConfiguration` or `TryLater` when Slack does not take the token."""
        self._talk = talk
        await self.client.api.open()
        await self.people.find_home()
        self._bolt = self._wired()
        self._loops.append(
            asyncio.create_task(keep_reading("slack", self.config.groups, self.people.group, self._registers))
        )
        if self.config.mode == "socket":
            await self.client.api.check_app_token(self._app_token)
            self._sockets = [_Socket(self._bolt, self._app_token) for _ in range(CONNECTIONS)]
            await asyncio.gather(*(socket.open() for socket in self._sockets))
            self._loops.append(asyncio.create_task(self._watch()))

    async def stop(self) -> None:
        """Disconnects; what was acknowledged is done first."""
        await end_all(self._loops)
        await asyncio.gather(*(socket.close() for socket in self._sockets), return_exceptions=True)
        await self._background.end(GRACE)
        await self.client.api.close()

    async def _watch(self) -> None:
        """Opens a socket anew that has gone silent: no click would arrive, and nothing would say so."""
        while True:
            await asyncio.sleep(PING_SECONDS)
            for socket in self._sockets:
                if socket.silent_for() > SILENT_SECONDS:
                    log.warning(
                        "a Slack socket has been silent for %.0f s and is opened anew", SILENT_SECONDS
                    )
                    await socket.reopen()

    # --- HTTP ----------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes one signed request; Bolt refuses a wrong signature and one older than 5 minutes."""
        request = Request(scope, receive)
        answer = BoltResponse(status=404, body="not here")
        if self._bolt is not None and self.config.mode == "http" and request.method == "POST":
            body = await body_of(request)
            answer = BoltResponse(status=413, body="too large")
            if body is not None:
                answer = await self._bolt.async_dispatch(to_async_bolt_request(request, body))
                if answer.status == 404:  # nothing of ours: taken all the same, or Slack would send it again
                    answer = BoltResponse(status=200, body="")
        await to_starlette_response(answer)(scope, receive, send)

    # --- wiring --------------------------------------------------------------------------

    def _wired(self) -> AsyncApp:
        bolt = AsyncApp(
            client=self.client.api.web,
            signing_secret=self._signing_secret or "unused",
            request_verification_enabled=self.config.mode == "http",
            logger=logging.getLogger("bot.slack.bolt"),
        )
        bolt.event(_ANY)(self._event)
        bolt.action(_ANY)(self._action)
        bolt.view(_ANY)(self._view)
        bolt.view_closed(_ANY)(_nothing)
        bolt.command(_ANY)(self._command)
        bolt.shortcut(_ANY)(_nothing)
        bolt.options(_ANY)(_no_options)
        return bolt

    @property
    def talk(self) -> Talk:
        """The conversations; there once the app is started."""
        if self._talk is None:
            raise CountersignError("The Slack app is not started.")
        return self._talk

    async def _event(self, body: Body) -> None:
        kind = (body.get("event") or {}).get("type")
        if kind in ("message", "app_mention"):
            self._background.do(self.talk.message(body))
        elif kind == "app_home_opened":
            self._background.do(self.talk.home.opened(body))
        elif kind == "assistant_thread_started":
            self._background.do(self.talk.home.assistant(body))

    async def _action(self, ack: AsyncAck, body: Body) -> None:
        await ack()
        self._background.do(self.talk.click(body))

    async def _view(self, ack: AsyncAck, body: Body) -> None:
        try:
            answer = await self.talk.forms.submitted(body)
        except Exception:
            await ack()  # the card still shows how it stands; Slack must have an answer
            raise
        await ack(answer) if answer else await ack()

    async def _command(self, ack: AsyncAck, body: Body, respond: AsyncRespond) -> None:
        await ack()
        self._background.do(self._answer_command(body, respond))

    async def _answer_command(self, body: Payload, respond: AsyncRespond) -> None:
        text = await self.talk.command(body)
        if text:
            await respond(text=text, response_type="ephemeral")


async def _nothing(ack: AsyncAck) -> None:
    await ack()


async def _no_options(ack: AsyncAck) -> None:
    await ack(options=[])


class _Socket:
    """One Socket Mode connection, which can be thrown away and opened anew."""

    def __init__(self, bolt: AsyncApp, app_token: str) -> None:
        self._bolt = bolt
        self._token = app_token
        self._handler: _Handler | None = None
        self._opened = time()

    async def open(self) -> None:
        self._handler = _Handler(self._bolt, self._token, ping_interval=PING_SECONDS)
        self._opened = time()
        await self._handler.connect_async()  # type: ignore[no-untyped-call]  # the SDK has no types here

    async def close(self) -> None:
        if self._handler is not None:
            await self._handler.close_async()  # type: ignore[no-untyped-call]  # the SDK has no types here

    async def reopen(self) -> None:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                await self.close()
                await self.open()
        except Exception as error:  # noqa: BLE001  (it stays silent, and is tried again)
            log.warning("a Slack socket could not be opened: %s", type(error).__name__)

    def silent_for(self) -> float:
        """Seconds since the last pong, or since it was opened."""
        last = self._handler.client.last_ping_pong_time if self._handler else None
        return time() - max(last or 0.0, self._opened)


class _Handler(AsyncSocketModeHandler):
    """Acknowledges in any case: what is nothing of ours would be sent again and again."""

    async def handle(self, client: SocketModeClient, req: SocketModeRequest) -> None:  # type: ignore[override]  # as the SDK's own
        started = time()
        answer: BoltResponse = await run_async_bolt_app(self.app, req)
        if answer.status != 200:
            answer = BoltResponse(status=200, body="")
        await send_async_response(client, req, answer, started)
