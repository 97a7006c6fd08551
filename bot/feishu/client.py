"""The courier's client for Feishu, and the short answers in a thread."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from agent_runner.model import Actor, Place
from bot.delivery import CardRefused, Form, MessageGone, Shown, ThreadGone
from bot.feishu.api import FeishuApi
from cards import feishu, visible, wording
from cards.attach import Fitted
from cards.feishu_text import neutral
from cards.model import Attachment, Card

UUID = 40
"""Characters of the key by which Feishu knows a message that is sent again (50 are allowed)."""


class FeishuClient:
    """Posts to Feishu threads. Raises what `bot.feishu.errors` says.

    A message is sent with a `uuid` made from what it is: sent again within an hour, it is the same.
    """

    interval = 0.25
    """5 messages per second in a chat, shared with other bots; 5 updates per second of a message."""
    status_interval = 2.0
    follows_progress = True
    announces = True
    answers_presses = True

    def __init__(
        self,
        api: FeishuApi,
        *,
        languages: tuple[str, ...],
        fallback: str,
        interactive: bool,
        page: Callable[[str], str],
    ) -> None:
        self.api = api
        self.languages = languages
        self.fallback = fallback
        self.first_form = Form.CARD if interactive else Form.LIST
        self._page = page

    # --- what the courier needs ----------------------------------------------------------

    def fit(self, card: Card, form: Form, *, uploaded: bool, prefix: str) -> Fitted:
        """The card within Feishu's limits; as a link, nothing of it."""
        if form is Form.LINK:
            return Fitted(card=card, files=())
        return feishu.fit(card, uploaded=uploaded, small=form is not Form.CARD, prefix=prefix)

    def holds(self, card: Card) -> bool:
        """Whether these steps of a batch fit on one card, if need be with files."""
        return feishu.holds(card, small=self.first_form is not Form.CARD)

    async def post(self, place: Place, shown: Shown) -> str:
        """Replies in the thread; returns the message's id."""
        kind, content = self._content(shown)
        key = _uuid(shown.task_id, shown.key, shown.form, str(shown.attempt))
        return await self._reply(place, kind, content, key)

    async def update(self, place: Place, message_id: str, shown: Shown) -> None:  # noqa: ARG002  (ids are enough)
        """Makes a card show this. A text cannot be changed: what matters is sent anew."""
        kind, content = self._content(shown)
        if kind == "interactive":
            await self.api.patch(message_id, content)
        elif shown.key != "status":
            raise MessageGone("a text is not changed")

    async def find(self, place: Place, shown: Shown) -> str:  # noqa: ARG002  (see there)
        """Nothing: sent again with its `uuid`, a message is the one that was sent before."""
        return ""

    async def attach(self, place: Place, file: Attachment) -> None:
        """Puts a file into the thread; what cannot be seen is written as escapes, as on a card."""
        text = visible.block(file.text.raw) or " "
        key = await self.api.upload(file.filename, text.encode())
        await self._reply(place, "file", {"file_key": key}, _uuid(place.thread, file.filename, text))

    async def open_thread(self, chat: str, card: Card) -> Place:
        """Begins a thread in that chat with this card."""
        key = _uuid(chat, card.fingerprint, card.task_id)
        sent = await self.api.send(chat, "interactive", feishu.render(card), uuid=key)
        return Place(platform="feishu", chat=chat, thread=sent.message_id)

    async def _reply(self, place: Place, kind: str, content: dict[str, Any], uuid: str) -> str:
        try:
            sent = await self.api.reply(place.thread, kind, content, uuid=uuid, in_thread=True)
        except MessageGone as gone:
            raise ThreadGone(str(gone)) from gone
        return sent.message_id

    def _content(self, shown: Shown) -> tuple[str, dict[str, Any]]:
        if shown.form is Form.LINK:
            way = wording.text(shown.card.lang, "chat.link", url=self._page(shown.task_id))
            return "text", {"text": f"{neutral(feishu.summary(shown.card))}\n{way}"}
        if shown.form is Form.LIST:
            return "text", {"text": feishu.numbered(shown.card)}
        if not feishu.fits(shown.card):
            raise CardRefused("it does not fit")
        return "interactive", feishu.render(shown.card, shown.others)

    # --- in passing ----------------------------------------------------------------------

    async def tell(self, place: Place, actor: Actor, text: str, *, about: str) -> None:
        """Answers one person in the thread; `about` is the message that is answered."""
        mention = f'<at user_id="{actor.user_id}"></at> '
        await self._reply(place, "text", {"text": mention + neutral(text)}, _uuid("tell", about, text))

    async def post_card(self, place: Place, card: Card, *, about: str) -> str:
        """Puts a short card that the courier does not look after into the thread."""
        return await self._reply(place, "interactive", feishu.render(card), _uuid("card", about))

    async def repaint(self, place: Place, message_id: str, card: Card) -> None:  # noqa: ARG002  (its id is enough)
        """Makes such a card show another one."""
        await self.api.patch(message_id, feishu.render(card))


def _uuid(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:UUID]
