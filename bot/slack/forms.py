"""Slack's modals: opened at once, filled in when looked up, and answered so that no words are lost."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

from agent_runner.errors import CountersignError, FixInput, TryLater
from agent_runner.model import Actor, Inquiry
from bot import telling
from bot.commands import Pressed
from bot.conversation import Conversation
from bot.delivery import REFUSED
from bot.handle import Reply
from bot.slack import inbound
from bot.slack.client import SlackClient
from bot.slack.inbound import Click, Payload
from bot.slack.people import People
from cards import batch_card, compose, slack_forms, visible, wording
from cards.model import TOGETHER, Button, Verb

log = logging.getLogger(__name__)

SUBMIT_SECONDS = 2.2
"""Longest work on a submitted form before Slack is answered, of the 3 s that there are."""

Answer = dict[str, Any]


class Forms:
    """The forms of change and reject."""

    def __init__(self, conversation: Conversation, client: SlackClient, people: People) -> None:
        self._conversation = conversation
        self._client = client
        self._people = people
        self._lang = conversation.lang

    async def open(self, click: Click) -> None:
        """Opens a form at once, because the trigger lives 3 s; then looks up what belongs in it."""
        api, lang = self._client.api, self._lang
        pressed = click.pressed
        private = _private(pressed.inquiry_id, pressed.revision, pressed.seen)
        title = wording.text(lang, "notice.title")
        waiting = slack_forms.loading(title, private, wording.text(lang, "form.loading"))
        try:
            view = (await api.call("views.open", trigger_id=click.trigger, view=waiting))["view"]
        except (*REFUSED, KeyError) as error:
            log.info("a form could not be opened: %s", error)
            actor = await self._people.actor(click.user, click.team)
            await self._conversation.tell(click.place, actor, wording.text(lang, "chat.form_failed"))
            return
        try:
            actor = await self._people.actor(click.user, click.team)
            inquiry = await asyncio.to_thread(self._looked_at, actor, pressed.verb, pressed.inquiry_id)
            revision = pressed.revision if pressed.verb in TOGETHER else inquiry.revision
            private = _private(inquiry.id, revision, pressed.seen)
            button = self._button(pressed.verb, inquiry).having(revision=revision)
            shown = slack_forms.modal(button, private, lang)
        except CountersignError as error:
            shown = slack_forms.notice(title, telling.told(error, lang))
        try:
            await api.call("views.update", view_id=view["id"], hash=view.get("hash"), view=shown)
        except REFUSED as error:
            log.info("a form could not be filled in: %s", error)
            await self._conversation.tell(click.place, actor, wording.text(lang, "chat.form_failed"))

    def _looked_at(self, actor: Actor, verb: Verb, inquiry_id: str) -> Inquiry:
        """A request about which somebody is about to say something; raises if they cannot."""
        desk = self._conversation.desk
        return desk.look_at_all(actor, inquiry_id) if verb in TOGETHER else desk.look(actor, inquiry_id)

    def _button(self, verb: Verb, inquiry: Inquiry) -> Button:
        if verb in TOGETHER:
            return batch_card.button(verb, (inquiry,), self._lang)
        return compose.button(verb, inquiry, self._lang)

    async def submitted(self, body: Payload) -> Answer | None:
        """What to answer to a submitted form; None closes it. What was typed is never lost by an error."""
        view = body.get("view")
        form = _Form.read(view) if isinstance(view, Mapping) else None
        if form is None:
            return None
        try:
            async with asyncio.timeout(SUBMIT_SECONDS):
                return await self._submit(form, *inbound.person_of(body))
        except TryLater:
            return form.failed(wording.text(self._lang, "reply.not_recorded"))
        except TimeoutError:  # it may still be recorded: then the next attempt says by whom
            return form.failed(wording.text(self._lang, "reply.late"))
        finally:
            self._conversation.wake()

    async def _submit(self, form: _Form, user: str, team: str) -> Answer | None:
        actor = await self._people.actor(user, team)
        try:
            inquiry = await asyncio.to_thread(self._conversation.desk.store.inquiry, form.inquiry_id)
            button = self._button(form.verb, inquiry).having(revision=form.revision)
            names = slack_forms.form_names(button)
            pressed = Pressed(
                actor=actor,
                verb=form.verb,
                revision=form.revision,
                inquiry_id=form.inquiry_id,
                seen=form.seen,
                fields=_touched(slack_forms.fields_of(form.values, names), button),
            )
            reply = await asyncio.to_thread(self._conversation.desk.press, pressed)
        except FixInput as error:
            return form.failed(telling.told(error, self._lang))
        except TryLater:
            raise
        except CountersignError as error:
            title = wording.text(self._lang, "notice.title")
            view = slack_forms.notice(title, telling.told(error, self._lang))
            return {"response_action": "update", "view": view}
        if reply.key.startswith("ask_back."):
            return form.failed(reply.text(self._lang), _block(reply, button, names))
        return None


class _Form:
    """A submitted form: what it is about and what was filled in."""

    def __init__(self, verb: Verb, about: Mapping[str, Any], view: Mapping[str, Any]) -> None:
        self.verb = verb
        self.inquiry_id = str(about.get("i") or "")
        revision = about.get("r")
        self.revision = revision if isinstance(revision, int) else 0
        self.seen = str(about.get("s") or "")
        state = view.get("state")
        values = state.get("values") if isinstance(state, Mapping) else None
        self.values: Mapping[str, Any] = values if isinstance(values, Mapping) else {}

    @classmethod
    def read(cls, view: Mapping[str, Any]) -> _Form | None:
        """A form of ours; None for anything else."""
        try:
            about = json.loads(view.get("private_metadata") or "")
            return cls(Verb(view.get("callback_id") or ""), about, view)
        except (ValueError, TypeError, AttributeError):
            return None

    def failed(self, text: str, block: str = "") -> Answer:
        """An answer that keeps the form open and says what is wrong at one of its inputs."""
        blocks = list(self.values)
        at = block if block in blocks else (blocks[-1] if blocks else "")
        return {"response_action": "errors", "errors": {at: text}}


def _block(reply: Reply, button: Button, names: Mapping[str, str]) -> str:
    """The input that a question back is about."""
    wanted = f"input.{reply.details['field']}" if "field" in reply.details else ""
    if not wanted:
        wanted = "conditions" if button.verb is Verb.CHANGE else "reason"
    return next((block for block, name in names.items() if name == wanted), "")


def _touched(fields: dict[str, list[str]], button: Button) -> dict[str, list[str]]:
    """Without the prefilled values that came back as they were, but for the blanks around them.

    Whether Slack keeps those is not documented: without this, every field would look edited.
    """
    shown = {field.name: visible.block(field.value.raw).strip() for field in button.inputs if field.value.raw}
    return {
        name: values for name, values in fields.items() if [v.strip() for v in values] != [shown.get(name)]
    }


def _private(inquiry_id: str, revision: int, seen: str) -> str:
    """What a form carries along: which request, and the revision it shows; of a batch, of each step."""
    return json.dumps({"i": inquiry_id, "r": revision, **({"s": seen} if seen else {})})
