"""Slack's Web API as we use it: one attempt, a deadline, and errors as what happens next."""

from __future__ import annotations

from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from agent_runner.errors import TryLater
from bot.slack.errors import outcome

TIMEOUT = 8
"""Seconds for one call; the courier's right to deliver outlasts it (see `bot.courier.LEAD_MARGIN`)."""

Json = dict[str, Any]


class SlackApi:
    """Calls by name. `web` is the SDK's client, for what is handed to Bolt."""

    def __init__(self, token: str, base_url: str) -> None:
        # No retry handlers: the SDK's default sends a message twice when the first answer is lost.
        self.web = AsyncWebClient(token=token, base_url=base_url, timeout=TIMEOUT, retry_handlers=[])

    async def open(self) -> None:
        """Opens the connections that all calls share."""
        if self.web.session is None:
            self.web.session = aiohttp.ClientSession()

    async def close(self) -> None:
        """Closes them."""
        if self.web.session is not None:
            await self.web.session.close()
            self.web.session = None

    async def call(self, method: str, **fields: Any) -> Json:
        """One call with a JSON body; raises what `bot.slack.errors` says, `TryLater` without an answer."""
        return await self._answer(self.web.api_call(method, json=_given(fields)))

    async def read(self, method: str, **fields: Any) -> Json:
        """One call of those that take no JSON."""
        return await self._answer(self.web.api_call(method, params=_given(fields)))

    async def check_app_token(self, token: str) -> None:
        """Raises `FixConfiguration` if Slack refuses this token for Socket Mode: the SDK would only retry."""
        await self._answer(self.web.apps_connections_open(app_token=token))

    async def socket_address(self, token: str) -> str:
        """Where one Socket Mode connection may be opened, once; raises like `check_app_token`."""
        return str((await self._answer(self.web.apps_connections_open(app_token=token))).get("url") or "")

    async def granted(self) -> tuple[Json, frozenset[str]]:
        """What auth.test says of the bot token, and the scopes it has (the header X-OAuth-Scopes)."""
        response = await self._response(self.web.api_call("auth.test"))
        scopes = str(response.headers.get("X-OAuth-Scopes") or "").split(",")
        return _data(response), frozenset(scope.strip() for scope in scopes if scope.strip())

    async def upload(self, *, channel: str, thread: str, filename: str, content: str) -> None:
        """Puts a text file into a thread."""
        await self._answer(
            self.web.files_upload_v2(
                channel=channel, thread_ts=thread, filename=filename, title=filename, content=content
            )
        )

    async def _answer(self, call: Any) -> Json:
        return _data(await self._response(call))

    async def _response(self, call: Any) -> Any:
        try:
            return await call
        except SlackApiError as error:
            response: Any = error.response
            data = _data(response)
            code = str(
                data.get("error") or ("ratelimited" if response.status_code == 429 else "internal_error")
            )
            raise outcome(code, data, response.headers) from error
        except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TryLater("Slack did not answer.", cause=type(error).__name__) from error


def _data(response: Any) -> Json:
    return response.data if isinstance(response.data, dict) else {}


def _given(fields: dict[str, Any]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
