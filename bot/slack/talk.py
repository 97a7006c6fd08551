"""What happens on Slack after the acknowledgement: words, clicks and commands."""

from __future__ import annotations

import asyncio
import logging

from agent_runner.errors import CountersignError, TryLater
from agent_runner.model import Actor, Place
from bot import telling
from bot.commands import Heard, Pressed
from bot.conversation import Conversation, looks_like_an_answer
from bot.delivery import CardRefused, MessageGone, PlaceGone, SlowDown
from bot.frontdesk import DAY
from bot.slack import inbound, probe
from bot.slack.client import SlackClient
from bot.slack.forms import Forms
from bot.slack.home import Home
from bot.slack.inbound import Click, Payload
from bot.slack.people import People
from cards import notices, slack_forms, wording
from cards.model import Verb

log = logging.getLogger(__name__)

FORMS = (Verb.CHANGE, Verb.REJECT, Verb.REJECT_ALL)
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
            known = await self.conversation.begun(place, message.ts)
        except TryLater as error:
            if meant or looks_like_an_answer(inbound.said(message.text, bot_user=home.bot_user)):
                actor = await self.people.actor(message.user, message.team)
                await self.conversation.tell_trouble(place, actor, message.ts, error)
            return
        if not (known or meant):
            return  # people talking to each other: nobody needs to be looked up
        actor = await self.people.actor(message.user, message.team)
        heard = inbound.heard(message, actor, bot_user=home.bot_user)
        # Where nothing is begun there is no thread yet in which somebody could be told something.
        await self.conversation.hear(heard, where=place if known else place.having(thread=""))

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
            about_them = await asyncio.to_thread(self.desk.about_them, actor, inbound.by_account(text))
            if about_them is not None:
                return about_them.text(self.lang)
            if not await asyncio.to_thread(
                self.registers.first_time, f"command:{body.get('trigger_id')}", seconds=DAY
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
        card = notices.asked_card(text, by=actor, lang=self.lang)
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
        await self.conversation.hear(heard)
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
        told = await self.conversation.press(Pressed(actor=actor, fields=fields, **click.pressed._asdict()))
        if not told.done:
            await self._answer(click, actor, told.text(self.lang))
        if about is not None:
            await self.conversation.settle(about.having(shown=click.message_ts), click.pressed.verb)
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
            await self.conversation.tell(click.place, actor, text)
