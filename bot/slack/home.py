"""What Slack shows outside of threads: the Home tab and the Assistant pane."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agent_runner.model import Actor
from bot.conversation import Conversation
from bot.slack.client import SlackClient
from bot.slack.inbound import Payload
from bot.slack.people import People
from cards import compose, slack, wording
from cards.model import Card


class Home:
    """One person's view of what concerns them."""

    def __init__(self, conversation: Conversation, client: SlackClient, people: People) -> None:
        self._conversation = conversation
        self._client = client
        self._people = people
        self._lang = conversation.lang

    async def opened(self, body: Payload) -> None:
        """Somebody opened the app's Home tab."""
        event = body.get("event")
        if isinstance(event, Mapping) and event.get("tab", "home") == "home" and event.get("user"):
            await self.show(str(event["user"]), str(body.get("team_id") or ""))

    async def show(self, user: str, team: str) -> None:
        """Shows this person the requests that wait for them and their running tasks."""
        actor = await self._people.actor(user, team)
        cards = await asyncio.to_thread(self._home_cards, actor)
        view = slack.home(
            cards,
            wording.text(self._lang, "home.title"),
            wording.text(self._lang, "home.empty"),
            lambda n: wording.text(self._lang, "home.more", n=n),
        )
        await self._client.api.call("views.publish", user_id=user, view=view)

    def _home_cards(self, actor: Actor) -> list[Card]:
        found = self._conversation.desk.overview(actor)
        now = self._conversation.clock()
        look: dict[str, Any] = {"lang": self._lang, "zone": self._conversation.zone, "now": now}
        cards = [compose.inquiry_card(inquiry, can_decide=True, **look) for inquiry in found.waiting]
        for task in found.running:
            progress = self._conversation.registers.progress(task.id)
            pending = tuple(i for i in self._conversation.desk.store.snapshot(task.id).inquiries if i.open)
            cards.append(compose.status_card(task, progress=progress, pending=pending, **look))
        return cards

    async def assistant(self, body: Payload) -> None:
        """Somebody opened the Assistant pane: a greeting in the shape of prompts to pick from."""
        event = body.get("event")
        thread = event.get("assistant_thread") if isinstance(event, Mapping) else None
        if not isinstance(thread, Mapping):
            return
        word = wording.text(self._lang, "chat.prompt.status")
        await self._client.api.call(
            "assistant.threads.setSuggestedPrompts",
            channel_id=thread.get("channel_id"),
            thread_ts=thread.get("thread_ts"),
            title=wording.text(self._lang, "chat.greeting"),
            prompts=[{"title": word, "message": word}],
        )
