"""Who is who on Slack: names, and whether somebody is a full member. In doubt, a guest."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agent_runner.model import Actor
from bot.delivery import REFUSED
from bot.slack.api import SlackApi

log = logging.getLogger(__name__)

KEPT = timedelta(minutes=5)
"""How long what Slack said of a person is believed: a deactivated account ends within this."""
KEPT_UNKNOWN = timedelta(seconds=10)
"""The same when Slack could not be asked."""


class Home(NamedTuple):
    """Where the app is installed, as auth.test says it."""

    team: str
    enterprise: str
    bot_user: str
    bot_id: str

    @property
    def tenant(self) -> str:
        """What people of this installation have as tenant."""
        return self.enterprise or self.team


class People:
    """Looks people up and remembers them for a while."""

    def __init__(self, api: SlackApi, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._clock = clock
        self._known: dict[str, tuple[datetime, Actor]] = {}
        self.home = Home("", "", "", "")

    async def find_home(self) -> Home:
        """Asks where the app is installed; raises what `bot.slack.errors` says."""
        answer = await self._api.call("auth.test")
        self.home = Home(
            team=str(answer.get("team_id") or ""),
            enterprise=str(answer.get("enterprise_id") or ""),
            bot_user=str(answer.get("user_id") or ""),
            bot_id=str(answer.get("bot_id") or ""),
        )
        return self.home

    async def actor(self, user_id: str, team: str = "") -> Actor:
        """The person behind a user id; `team` is where the payload says they are from."""
        until, known = self._known.get(user_id, (None, None))
        if until is None or known is None or until < self._clock():
            known = await self._look_up(user_id)
        sibling = bool(self.home.enterprise) and not known.guest  # another workspace of our organisation
        foreign = bool(team) and team not in (self.home.team, self.home.enterprise) and not sibling
        return known.having(guest=True, tenant=team) if foreign else known

    async def _look_up(self, user_id: str) -> Actor:
        try:
            user: dict[str, Any] = (await self._api.read("users.info", user=user_id)).get("user") or {}
        except REFUSED as error:
            log.warning("Slack could not be asked who %s is; they count as a guest: %s", user_id, error)
            actor = Actor(
                platform="slack", tenant=self.home.tenant, user_id=user_id, name=user_id, guest=True
            )
            self._known[user_id] = (self._clock() + KEPT_UNKNOWN, actor)
            return actor
        member = self._member(user)
        actor = Actor(
            platform="slack",
            tenant=self.home.tenant if member else str(user.get("team_id") or ""),
            user_id=user_id,
            name=_name(user) or user_id,
            guest=not member,
        )
        self._known[user_id] = (self._clock() + KEPT, actor)
        return actor

    def _member(self, user: dict[str, Any]) -> bool:
        """A full, active, human member of this installation."""
        if any(
            user.get(flag)
            for flag in ("deleted", "is_restricted", "is_ultra_restricted", "is_stranger", "is_bot")
        ):
            return False
        organisation = (user.get("enterprise_user") or {}).get("enterprise_id") or ""
        here = bool(self.home.team) and user.get("team_id") == self.home.team
        return here or (bool(self.home.enterprise) and organisation == self.home.enterprise)

    async def group(self, group_id: str) -> list[str]:
        """The accounts in a user group."""
        answer = await self._api.read("usergroups.users.list", usergroup=group_id)
        return [f"slack:{self.home.tenant}:{user}" for user in answer.get("users") or ()]


def _name(user: dict[str, Any]) -> str:
    profile = user.get("profile") or {}
    return str(profile.get("display_name") or profile.get("real_name") or user.get("name") or "").strip()
