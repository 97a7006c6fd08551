"""Puts the Slack platform together from the configuration and its tokens."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp

from bot.conversation import Conversation
from bot.delivery import Client
from bot.doors import Parts, needed
from bot.frontdesk import FrontDesk
from bot.slack.api import SlackApi
from bot.slack.app import PATH, SlackApp
from bot.slack.client import SlackClient
from bot.slack.forms import Forms
from bot.slack.home import Home
from bot.slack.people import People
from bot.slack.talk import Talk


class SlackDoor:
    """People come in through Slack. Raises `FixConfiguration` for a token that is missing."""

    def __init__(self, parts: Parts) -> None:
        config, environment = parts.settings.config, parts.settings.environment
        chat = config.slack
        second = "SLACK_APP_TOKEN" if chat.mode == "socket" else "SLACK_SIGNING_SECRET"
        token, secret = needed(environment, "SLACK_BOT_TOKEN", second)
        lang = chat.language or config.language
        api = SlackApi(token, chat.api_url)
        client = SlackClient(
            api,
            lang=lang,
            fallback=chat.fallback,
            interactive=chat.interactive,
            page=parts.page_of,
        )
        people = People(api, parts.clock)
        desk = FrontDesk(
            parts.handler,
            parts.store,
            parts.registers,
            chat,
            page_is_public=parts.page_is_public,
            clock=parts.clock,
        )
        self.client: Client = client
        self._app = SlackApp(
            chat,
            client,
            people,
            parts.registers,
            app_token=secret if chat.mode == "socket" else "",
            signing_secret=secret if chat.mode == "http" else "",
        )
        conversation = Conversation(
            desk, parts.registers, client, lang=lang, zone=parts.zone, clock=parts.clock, wake=parts.wake
        )
        self._talk = Talk(
            conversation,
            client,
            people,
            Forms(conversation, client, people),
            Home(conversation, client, people),
        )
        self.http: Mapping[str, ASGIApp] = {PATH: self._app} if chat.mode == "http" else {}

    async def start(self) -> None:
        """Connects; raises `FixConfiguration` for a token that Slack refuses, `TryLater` if it is away."""
        await self._app.start(self._talk)

    async def stop(self) -> None:
        """Disconnects."""
        await self._app.stop()
