"""What happens on Slack after the acknowledgement: words, clicks, forms, commands, the Home tab."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any

from agent_runner.errors import CountersignError, FixInput, TryLater
from agent_runner.model import Actor, Place
from agent_runner.registers import Held, Registers
from bot import telling
from bot.commands import Heard, Pressed
from bot.delivery import CardRefused, MessageGone, PlaceGone, SlowDown
from bot.frontdesk import FrontDesk, held_verb
from bot.handle import Reply
from bot.slack import inbound, probe
from bot.slack.client import SlackClient
from bot.slack.errors import REFUSED
from bot.slack.inbound import Click, Message, Payload
from bot.slack.people import People
from cards import compose, held, slack, slack_forms, spoken, wording
from cards.model import Button, Card, Verb

log = logging.getLogger(__name__)

SUBMIT_SECONDS = 2.2
"""Longest work on a submitted form before Slack is answered, of the 3 s that there are."""

TROUBLED = 200
"""Messages remembered for which somebody was told that the store is away: a mention comes as two events."""
QUIET = (
    "reply.decided",
    "reply.stopping",
    "reply.retrying",
    "reply.asked_again",
    "held.do_now",
    "held.leave",
)
"""What a click came to that its card shows by itself: telling it again would be noise."""

FORMS = (Verb.CHANGE, Verb.REJECT)
"""Verbs whose button opens a form."""

Answer = dict[str, Any]


class Talk:
    """The conversations of one Slack app. `desk` is used in threads: it is synchronous."""

    def __init__(
        self,
        desk: FrontDesk,
        registers: Registers,
        client: SlackClient,
        people: People,
        *,
        lang: str,
        zone: tzinfo,
        clock: Callable[[], datetime],
        wake: Callable[[], None],
    ) -> None:
        self.desk = desk
        self.registers = registers
        self.client = client
        self.people = people
        self.lang = lang
        self.zone = zone
        self.clock = clock
        self.wake = wake
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
            if meant or _answers(inbound.said(message.text, bot_user=home.bot_user)):
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
        self.wake()
        if isinstance(answer, Held):
            shown = await self.client.post_card(answer.place, self._held_card(answer))
            await asyncio.to_thread(self.registers.note_held, answer.having(shown=shown))
            return
        settled = before is not None and verb is not None and await self._settle(before, verb)
        if answer is not None and not (settled and answer.key in QUIET):
            await self._whisper(where, heard.actor, answer.text(self.lang))

    async def _settle(self, about: Held, verb: Verb) -> bool:
        """Takes the buttons off the card about an old message, if that was answered."""
        if await asyncio.to_thread(self.registers.held, about.id) is not None:
            return False
        card = held.settled_card(self._held_card(about), verb, lang=self.lang)
        if about.shown:
            await self.client.repaint(about.place.chat, about.shown, card)
        return True

    def _held_card(self, of: Held) -> Card:
        return held.held_card(
            of.id, of.text, by=of.by, at=of.at, lang=self.lang, zone=self.zone, now=self.clock()
        )

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
            at=self.clock(),
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
            await self._open_form(click)
            return
        actor = await self.people.actor(click.user, click.team)
        fields = slack_forms.fields_of(click.values) if click.pressed.verb is Verb.ANSWER else {}
        about = await self._held(click)
        told, quiet = await self._press(_pressed(click, actor, fields))
        self.wake()
        if told and not quiet:
            await self._answer(click, actor, told)
        if about is not None:
            await self._settle(about.having(shown=click.message_ts), click.pressed.verb)
        if click.on_home:
            await self.show_home(click.user, click.team)

    async def _tested(self, click: probe.Probe) -> None:
        """The click on a test card: whoever waits for it looks in the store."""
        await asyncio.to_thread(self.registers.tell_click, click.token)
        settled = probe.settled("doctor.arrived", self.lang)
        await self.client.api.call("chat.update", channel=click.channel, ts=click.ts, **settled)

    async def _press(self, pressed: Pressed) -> tuple[str, bool]:
        """What to say about it, and whether the card says it already."""
        try:
            reply = await asyncio.to_thread(self.desk.press, pressed)
        except CountersignError as error:
            return telling.told(error, self.lang), False
        return reply.text(self.lang), reply.key in QUIET

    async def _answer(self, click: Click, actor: Actor, text: str) -> None:
        if click.on_home or not click.place.chat:
            title = wording.text(self.lang, "notice.title")
            await self.client.api.call(
                "views.open", trigger_id=click.trigger, view=slack_forms.notice(title, text)
            )
        else:
            await self._whisper(click.place, actor, text)

    async def _held(self, click: Click) -> Held | None:
        """The old message that a press is about; None if it is about none, or that is answered."""
        if not click.pressed.held_id:
            return None
        try:
            return await asyncio.to_thread(self.registers.held, click.pressed.held_id)
        except TryLater:
            return None

    # --- forms ---------------------------------------------------------------------------

    async def _open_form(self, click: Click) -> None:
        """Opens a form at once, because the trigger lives 3 s; then looks up what belongs in it."""
        api, lang = self.client.api, self.lang
        private = _private(click.pressed.inquiry_id, click.pressed.revision)
        title = wording.text(lang, "notice.title")
        waiting = slack_forms.loading(title, private, wording.text(lang, "form.loading"))
        try:
            view = (await api.call("views.open", trigger_id=click.trigger, view=waiting))["view"]
        except (*REFUSED, KeyError) as error:
            log.info("a form could not be opened: %s", error)
            actor = await self.people.actor(click.user, click.team)
            await self._whisper(click.place, actor, wording.text(lang, "chat.form_failed"))
            return
        try:
            actor = await self.people.actor(click.user, click.team)
            inquiry = await asyncio.to_thread(self.desk.look, actor, click.pressed.inquiry_id)
            button = compose.button(click.pressed.verb, inquiry, lang)
            shown = slack_forms.modal(button, _private(inquiry.id, inquiry.revision), lang)
        except CountersignError as error:
            shown = slack_forms.notice(title, telling.told(error, lang))
        try:
            await api.call("views.update", view_id=view["id"], hash=view.get("hash"), view=shown)
        except REFUSED as error:
            log.info("a form could not be filled in: %s", error)
            await self._whisper(click.place, actor, wording.text(lang, "chat.form_failed"))

    async def submitted(self, body: Payload) -> Answer | None:
        """What to answer to a submitted form; None closes it. What was typed is never lost by an error."""
        view = body.get("view")
        form = _Form.read(view) if isinstance(view, Mapping) else None
        if form is None:
            return None
        try:
            async with asyncio.timeout(SUBMIT_SECONDS):
                return await self._submit(form, *inbound.person_of(body))
        except (TimeoutError, TryLater):
            return form.failed(wording.text(self.lang, "reply.not_recorded"))
        finally:
            self.wake()

    async def _submit(self, form: _Form, user: str, team: str) -> Answer | None:
        actor = await self.people.actor(user, team)
        try:
            inquiry = await asyncio.to_thread(self.desk.store.inquiry, form.inquiry_id)
            button = compose.button(form.verb, inquiry, self.lang).having(revision=form.revision)
            names = slack_forms.form_names(button)
            pressed = Pressed(
                actor=actor,
                verb=form.verb,
                revision=form.revision,
                inquiry_id=form.inquiry_id,
                fields=slack_forms.fields_of(form.values, names),
            )
            reply = await asyncio.to_thread(self.desk.press, pressed)
        except FixInput as error:
            return form.failed(telling.told(error, self.lang))
        except TryLater:
            raise
        except CountersignError as error:
            title = wording.text(self.lang, "notice.title")
            view = slack_forms.notice(title, telling.told(error, self.lang))
            return {"response_action": "update", "view": view}
        if reply.key.startswith("ask_back."):
            return form.failed(reply.text(self.lang), _block(reply, button, names))
        return None

    # --- the Home tab and the Assistant pane ---------------------------------------------

    async def home(self, body: Payload) -> None:
        """Somebody opened the app's Home tab."""
        event = body.get("event")
        if isinstance(event, Mapping) and event.get("tab", "home") == "home" and event.get("user"):
            await self.show_home(str(event["user"]), str(body.get("team_id") or ""))

    async def show_home(self, user: str, team: str) -> None:
        """Shows this person the requests that wait for them and their running tasks."""
        actor = await self.people.actor(user, team)
        cards = await asyncio.to_thread(self._home_cards, actor)
        view = slack.home(
            cards,
            wording.text(self.lang, "home.title"),
            wording.text(self.lang, "home.empty"),
            lambda n: wording.text(self.lang, "home.more", n=n),
        )
        await self.client.api.call("views.publish", user_id=user, view=view)

    def _home_cards(self, actor: Actor) -> list[Card]:
        found = self.desk.overview(actor)
        now = self.clock()
        look: dict[str, Any] = {"lang": self.lang, "zone": self.zone, "now": now}
        cards = [compose.inquiry_card(inquiry, can_decide=True, **look) for inquiry in found.waiting]
        for task in found.running:
            progress = self.registers.progress(task.id)
            pending = tuple(i for i in self.desk.store.snapshot(task.id).inquiries if i.open)
            cards.append(compose.status_card(task, progress=progress, pending=pending, **look))
        return cards

    async def assistant(self, body: Payload) -> None:
        """Somebody opened the Assistant pane: a greeting in the shape of prompts to pick from."""
        event = body.get("event")
        thread = event.get("assistant_thread") if isinstance(event, Mapping) else None
        if not isinstance(thread, Mapping):
            return
        word = wording.text(self.lang, "chat.prompt.status")
        await self.client.api.call(
            "assistant.threads.setSuggestedPrompts",
            channel_id=thread.get("channel_id"),
            thread_ts=thread.get("thread_ts"),
            title=wording.text(self.lang, "chat.greeting"),
            prompts=[{"title": word, "message": word}],
        )

    # --- parts ---------------------------------------------------------------------------

    async def _tell_trouble(
        self, place: Place, actor: Actor, message_id: str, error: CountersignError
    ) -> None:
        """Tells what went wrong with a message; that the store is away, once, though its events are two."""
        if isinstance(error, TryLater):
            if message_id in self._troubled:
                return
            self._troubled.append(message_id)
        await self._whisper(place, actor, telling.told(error, self.lang))

    async def _whisper(self, place: Place, actor: Actor, text: str) -> None:
        try:
            await self.client.whisper(place, actor.user_id, text)
        except REFUSED as error:
            log.warning("%s could not be told something in %s: %s", actor.user_id, place.chat, error)


class _Form:
    """A submitted form: what it is about and what was filled in."""

    def __init__(self, verb: Verb, about: Mapping[str, Any], view: Mapping[str, Any]) -> None:
        self.verb = verb
        self.inquiry_id = str(about.get("i") or "")
        revision = about.get("r")
        self.revision = revision if isinstance(revision, int) else 0
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
        wanted = "reason" if button.verb is Verb.REJECT else "conditions"
    return next((block for block, name in names.items() if name == wanted), "")


def _answers(text: str) -> bool:
    """Whether words look like an answer or a command: then it is told that they did not count."""
    said = spoken.without_mentions(text)
    return spoken.command(said) is not None or spoken.hear(spoken.split_number(said)[1]).kind != "words"


def _private(inquiry_id: str, revision: int) -> str:
    """What a form carries along: which request, and the revision it shows."""
    return json.dumps({"i": inquiry_id, "r": revision})


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
