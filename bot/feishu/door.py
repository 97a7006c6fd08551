"""Puts the Feishu platform together from the configuration and its secrets."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp

from bot.conversation import Conversation
from bot.delivery import Client
from bot.doors import Parts, needed
from bot.feishu.api import FeishuApi
from bot.feishu.app import PATH, FeishuApp
from bot.feishu.client import FeishuClient
from bot.feishu.people import People
from bot.feishu.talk import Talk
from bot.frontdesk import FrontDesk
from cards.feishu_text import LOCALES


class FeishuDoor:
    """People come in through Feishu. Raises `FixConfiguration` for a secret that is missing."""

    def __init__(self, parts: Parts) -> None:
        config, environment = parts.settings.config, parts.settings.environment
        chat = config.feishu
        names = ["FEISHU_APP_ID", "FEISHU_APP_SECRET"]
        if chat.mode == "http":
            names.append("FEISHU_ENCRYPT_KEY")
        app_id, app_secret, *_ = needed(environment, *names)
        lang = chat.language or config.language
        self._api = FeishuApi(app_id, app_secret, chat.domain)
        client = FeishuClient(
            self._api,
            languages=(lang, *(other for other in LOCALES if other != lang)),
            fallback=chat.fallback,
            interactive=chat.interactive,
            page=parts.page_of,
        )
        people = People(self._api, parts.clock)
        conversation = Conversation(
            FrontDesk(
                parts.handler,
                parts.store,
                parts.registers,
                chat,
                page_is_public=parts.page_is_public,
                clock=parts.clock,
            ),
            parts.registers,
            client,
            lang=lang,
            zone=parts.zone,
            clock=parts.clock,
            wake=parts.wake,
        )
        self.client: Client = client
        self.app = FeishuApp(
            chat,
            Talk(conversation, client, people),
            people,
            parts.registers,
            secrets=environment,
            members=self._api.department_members,
        )
        self.http: Mapping[str, ASGIApp] = {PATH: self.app} if chat.mode == "http" else {}

    async def start(self) -> None:
        """Connects; raises `FixConfiguration` for refused credentials, `TryLater` if Feishu is away."""
        await self.app.start()

    async def stop(self) -> None:
        """Disconnects."""
        await self.app.stop()
