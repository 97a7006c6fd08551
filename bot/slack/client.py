"""The courier's client for Slack, and the small messages that only one person sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from agent_runner.model import Actor, Place
from bot.delivery import CardRefused, Form, Shown
from bot.slack.api import SlackApi
from cards import slack, visible, wording
from cards.attach import Fitted
from cards.model import Attachment, Card

MARK = "countersign_message"
"""The event_type of the metadata by which a message of ours is found again."""
PAGES = 5
"""Pages of a thread searched for such a message, 200 messages each."""
DIRECT = "D"
"""Ids of chats with the bot alone begin with this."""


class SlackClient:
    """Posts to Slack threads. Raises what `bot.slack.errors` says."""

    interval = 1.0
    """chat.postMessage: one message per second in a channel (docs, rate limits)."""
    status_interval = 2.0
    follows_progress = True
    announces = False
    answers_presses = False

    def __init__(
        self, api: SlackApi, *, lang: str, fallback: str, interactive: bool, page: Callable[[str], str]
    ) -> None:
        self.api = api
        self.languages: tuple[str, ...] = (lang,)
        self.fallback = fallback
        self.first_form = Form.CARD if interactive else Form.LIST
        self._page = page

    # --- what the courier needs ----------------------------------------------------------

    def fit(self, card: Card, form: Form, *, uploaded: bool, prefix: str) -> Fitted:
        """The card within Slack's limits; as a link, nothing of it."""
        if form is Form.LINK:
            return Fitted(card=card, files=())
        return slack.fit(card, uploaded=uploaded, small=form is not Form.CARD, prefix=prefix)

    def holds(self, card: Card) -> bool:
        """Whether these steps of a batch fit on one card, if need be with files."""
        small = self.first_form is not Form.CARD
        return slack.holds(card, small=small)

    async def post(self, place: Place, shown: Shown) -> str:
        """Puts a new message into the thread; returns its ts."""
        answer = await self.api.call(
            "chat.postMessage",
            channel=place.chat,
            thread_ts=place.thread,
            metadata=_mark(shown),
            unfurl_links=False,
            unfurl_media=False,
            **self._content(shown),
        )
        return str(answer["ts"])

    async def update(self, place: Place, message_id: str, shown: Shown) -> None:
        """Makes a posted message show this."""
        await self.api.call(
            "chat.update", channel=place.chat, ts=message_id, metadata=_mark(shown), **self._content(shown)
        )

    async def find(self, place: Place, shown: Shown) -> str:
        """The ts of a message of ours in the thread with that mark; '' if there is none."""
        cursor = ""
        for _ in range(PAGES):
            answer = await self.api.read(
                "conversations.replies",
                channel=place.chat,
                ts=place.thread,
                include_all_metadata="true",
                limit=200,
                cursor=cursor or None,
            )
            for message in answer.get("messages") or ():
                if (message.get("metadata") or {}).get("event_payload") == _mark(shown)["event_payload"]:
                    return str(message["ts"])
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                break
        return ""

    async def attach(self, place: Place, file: Attachment) -> None:
        """Puts a file into the thread; what cannot be seen is written as escapes, as on a card."""
        text = visible.block(file.text.raw)
        await self.api.upload(
            channel=place.chat, thread=place.thread, filename=file.filename, content=text or " "
        )

    async def open_thread(self, chat: str, card: Card) -> Place:
        """Begins a thread in that channel with this card."""
        answer = await self.api.call("chat.postMessage", channel=chat, **_card(card))
        return Place(platform="slack", chat=str(answer["channel"]), thread=str(answer["ts"]))

    def _content(self, shown: Shown) -> Mapping[str, Any]:
        if shown.form is Form.LINK:
            return {"text": self._link(shown), "blocks": []}
        if shown.form is Form.LIST:
            return {"text": slack.numbered(shown.card), "blocks": []}
        if not slack.fits(shown.card):
            raise CardRefused("it does not fit")
        return _card(shown.card)

    def _link(self, shown: Shown) -> str:
        """One line that always goes, with the way to the page."""
        way = wording.text(shown.card.lang, "chat.link", url=self._page(shown.task_id))
        return f"{slack.summary(shown.card)}\n{way}"

    # --- to one person, and in passing ---------------------------------------------------

    async def tell(self, place: Place, actor: Actor, text: str, *, about: str = "") -> None:  # noqa: ARG002  (a thread is enough)
        """Tells one person something in the thread; in a chat with them alone it is a plain message.

        Accounts in it are shown by name: a mention that only one person sees notifies nobody else.
        """
        fields = {"channel": place.chat, "thread_ts": place.thread or None, "text": _named(plain(text))}
        if place.chat.startswith(DIRECT):
            await self.api.call("chat.postMessage", **fields)
        else:
            await self.api.call("chat.postEphemeral", user=actor.user_id, **fields)

    async def post_card(self, place: Place, card: Card, *, about: str = "") -> str:  # noqa: ARG002  (see above)
        """Puts a short card that the courier does not look after into the thread."""
        answer = await self.api.call(
            "chat.postMessage", channel=place.chat, thread_ts=place.thread, **_card(card)
        )
        return str(answer["ts"])

    async def repaint(self, place: Place, message_id: str, card: Card) -> None:
        """Changes such a card."""
        await self.api.call("chat.update", channel=place.chat, ts=message_id, **_card(card))


def plain(text: str) -> str:
    """Text with nothing in it that Slack would turn into a link, a mention or a ping."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _named(text: str) -> str:
    """Accounts as Slack shows people: by the name their readers know."""
    return re.sub(r"\bslack:(?:[A-Z0-9]+:)?([UW][A-Z0-9]+)\b", r"<@\1>", text)


def _card(card: Card) -> dict[str, Any]:
    return {"text": slack.summary(card), "blocks": slack.render(card)}


def _mark(shown: Shown) -> dict[str, Any]:
    again = {"attempt": shown.attempt} if shown.attempt else {}  # the one that was given up stands there too
    return {"event_type": MARK, "event_payload": {"task": shown.task_id, "key": shown.key, **again}}
