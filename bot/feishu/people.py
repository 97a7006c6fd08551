"""Who is who on Feishu: names, and whether somebody is of the tenant in which the app is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from agent_runner.errors import CountersignError
from agent_runner.model import Actor
from bot.delivery import SlowDown
from bot.feishu.api import FeishuApi

log = logging.getLogger(__name__)

KEPT = timedelta(hours=1)
"""How long a name is remembered. Who has left the tenant cannot click: Feishu ends their sign-in."""
KEPT_UNKNOWN = timedelta(minutes=1)


class People:
    """Looks names up and remembers them for a while."""

    def __init__(self, api: FeishuApi, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._clock = clock
        self._names: dict[str, tuple[datetime, str]] = {}
        self.bot = ""
        """Our own open_id, once `find_bot` was asked."""

    async def find_bot(self) -> str:
        """Asks who we are; raises what `bot.feishu.errors` says."""
        self.bot = str((await self._api.bot_info()).get("open_id") or "")
        return self.bot

    async def actor(self, open_id: str, *, tenant: str, home: str) -> Actor:
        """The person behind an open_id. Whoever is not surely of the `home` tenant is a guest."""
        until, name = self._names.get(open_id, (None, ""))
        if until is None or until < self._clock():
            name = await self._look_up(open_id)
        member = bool(home) and tenant == home
        return Actor(
            platform="feishu", tenant=tenant, user_id=open_id, name=name or open_id, guest=not member
        )

    async def _look_up(self, open_id: str) -> str:
        """The name, '' if Feishu does not tell (a missing scope, somebody outside the contact range)."""
        kept, name = KEPT_UNKNOWN, ""
        try:
            name = str((await self._api.user(open_id)).get("name") or "")
            kept = KEPT if name else KEPT_UNKNOWN
        except (CountersignError, SlowDown) as error:
            log.info("Feishu does not tell who %s is: %s", open_id, error)
        self._names[open_id] = (self._clock() + kept, name)
        return name
