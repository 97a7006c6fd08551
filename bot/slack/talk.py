"""What happens on Slack after the acknowledgement: words, clicks and commands."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from agent_runner.errors import CountersignError, TryLater
from agent_runner.model import Actor, Place
from agent_runner.registers import Held
from bot import telling
from bot.commands import Heard, Pressed
from bot.conversation import QUIET, Conversation, looks_like_an_answer
from bot.delivery import CardRefused, MessageGone, PlaceGone, SlowDown
from bot.frontdesk import held_verb
from bot.slack import inbound, probe
from bot.slack.client import SlackClient
from bot.slack.forms import Forms
from bot.slack.home import Home
from bot.slack.inbound import Click, Message, Payload
from bot.slack.people import People
from cards import held, slack_forms, wording
from cards.model import Verb

log = logging.getLogger(__name__)

TROUBLED = 200
"""Messages remembered for which somebody was told that the store is away: a mention comes as two events."""
FORMS = (Verb.CHANGE, Verb.REJECT)
"""Verbs whose button opens a form."""


class Talk:
    """The conversations of one Slack app."""

    def __init__(
        self, conversation: Conversation, client: SlackClient, people: People, forms: Forms, home: Home
    ) -> None:
        self.conversation = conversation
        self.desk = conversation.desk
        self.registers = conversation.registers
        self.lang = conversation.lang
        self.client = client
        self.people = people
        self.forms = forms
        self.home = home
        self._troubled: deque[str] = deque(maxlen=TROUBLED)

    # --- words ---------------------------------------------------------------------------

    async def message(self, body: Payload) -> None:
        """Somebody wrote something."""
        home = self.people.home
        message = inbound.message_of(body, bot_user=home.bot_user, bot_id=home.bot_id)
        if message is None:
            return
        place = Place(platform="slack", chat=message.channel, thread=message.thread)
        meant = message.direct or f"<@{home.bot_user}" in message.text
        try:
            known = await asyncio.to_thread(self._begun, message, place)
        except TryLater as error:
            if meant or looks_like_an_answer(inbound.said(message.text, bot_user=home.bot_user)):
                actor = await self.people.actor(message.user, message.team)
                await self._tell_trouble(place, actor, message.ts, error)
            return
        if not (known or meant):
            return  # people talking to each other: nobody needs to be looked up
        actor = await self.people.actor(message.user, message.team)
        await self._hear(inbound.heard(message, actor, bot_user=home.bot_user), begun=known)

    def _begun(self, message: Message, place: Place) -> bool:
        """Whether a message stands in a thread in which something is going on."""
        if self.registers.task_at(place):
            return True
        return message.thread != message.ts and self.registers.held_in(place) is not None

    async def _hear(self, heard: Heard, *, begun: bool) -> None:
        where = heard.place if begun else heard.place.having(thread="")
        try:
            verb = held_verb(heard.text)
            before = await asyncio.to_thread(self.desk.held_in, heard) if verb else None
            answer = await asyncio.to_thread(self.desk.hear, heard)
        except CountersignError as error:
            await self._tell_trouble(where, heard.actor, heard.message_id, error)
            return
        self.conversation.wake()
        if isinstance(answer, Held):
            shown = await self.client.post_card(answer.place, self.conversation.held_card(answer))
            await asyncio.to_thread(self.registers.note_held, answer.having(shown=shown))
            return
        settled = before is not None and verb is not None and await self._settle(before, verb)
        if answer is not None and not (settled and answer.key in QUIET):
            await self.client.tell(where, heard.actor, answer.text(self.lang))

    async def _settle(self, about: Held, verb: Verb) -> bool:
        """Takes the buttons off the card about an old message, if that was answered."""
        if await asyncio.to_thread(self.registers.held, about.id) is not None:
            return False
        card = self.conversation.held_card(about, verb)
        if about.shown:
            await self.client.repaint(about.place.chat, about.shown, card)
        return True

    async def command(self, body: Payload) -> str:
        """A slash command; what is returned is told to that person alone."""
        text, channel = str(body.get("text") or "").strip(), str(body.get("channel_id") or "")
        actor = await self.people.actor(str(body.get("user_id") or ""), str(body.get("team_id") or ""))
        try:
            word = inbound.command_word(text)
            if word == "help":
                return wording.text(self.lang, "reply.help")
            if word:
                mine = await asyncio.to_thread(self.desk.mine, actor)
                return mine.text(self.lang)
            if not await asyncio.to_thread(
                self.registers.first_time, f"command:{body.get('trigger_id')}", seconds=60
            ):
                return ""
            return await self._job(actor, channel, text)
        except CountersignError as error:
            return telling.told(error, self.lang)
        except (SlowDown, CardRefused, MessageGone):
            return wording.text(self.lang, "reply.not_recorded")

    async def _job(self, actor: Actor, channel: str, text: str) -> str:
        """Opens a thread that says who asks for what, and begins the job in it."""
        await asyncio.to_thread(self.desk.check_job, actor, text)
        card = held.asked_card(text, by=actor, lang=self.lang)
        try:
            place = await self.client.open_thread(channel, card)
        except PlaceGone:
            return wording.text(self.lang, "chat.not_here")
        heard = Heard(
            actor=actor,
            place=place,
            text=text,
            message_id=place.thread,
            at=self.conversation.clock(),
            addressed=True,
        )
        await self._hear(heard, begun=True)
        return ""

    # --- clicks --------------------------------------------------------------------------

    async def click(self, body: Payload) -> None:
        """Somebody pressed a button of ours."""
        if (tested := probe.read(body)) is not None:
            await self._tested(tested)
            return
        click = inbound.click_of(body)
        if click is None:
            return
        if click.pressed.verb in FORMS:
            await self.forms.open(click)
            return
        actor = await self.people.actor(click.user, click.team)
        fields = slack_forms.fields_of(click.values) if click.pressed.verb is Verb.ANSWER else {}
        about = await self.conversation.held(click.pressed.held_id)
        told = await self.conversation.press(_pressed(click, actor, fields))
        if not told.done:
            await self._answer(click, actor, told.text(self.lang))
        if about is not None:
            await self._settle(about.having(shown=click.message_ts), click.pressed.verb)
        if click.on_home:
            await self.home.show(click.user, click.team)

    async def _tested(self, click: probe.Probe) -> None:
        """The click on a test card: whoever waits for it looks in the store."""
        await asyncio.to_thread(self.registers.tell_click, click.token)
        settled = probe.settled("doctor.arrived", self.lang)
        await self.client.api.call("chat.update", channel=click.channel, ts=click.ts, **settled)

    async def _answer(self, click: Click, actor: Actor, text: str) -> None:
        if click.on_home or not click.place.chat:
            title = wording.text(self.lang, "notice.title")
            await self.client.api.call(
                "views.open", trigger_id=click.trigger, view=slack_forms.notice(title, text)
            )
        else:
            await self.client.tell(click.place, actor, text)

    # --- the Home tab and the Assistant pane ---------------------------------------------

    # --- parts ---------------------------------------------------------------------------

    async def _tell_trouble(
        self, place: Place, actor: Actor, message_id: str, error: CountersignError
    ) -> None:
        """Tells what went wrong with a message; that the store is away, once, though its events are two."""
        if isinstance(error, TryLater):
            if message_id in self._troubled:
                return
            self._troubled.append(message_id)
        await self.client.tell(place, actor, telling.told(error, self.lang))


def _pressed(click: Click, actor: Actor, fields: dict[str, list[str]]) -> Pressed:
    on = click.pressed
    return Pressed(
        actor=actor,
        verb=on.verb,
        revision=on.revision,
        inquiry_id=on.inquiry_id,
        task_id=on.task_id,
        held_id=on.held_id,
        fields=fields,
    )
