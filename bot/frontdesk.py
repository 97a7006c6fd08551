"""What chats have in common: words in a thread and presses on a card, whatever the product.

Synchronous; the doors call it in a thread. What it returns is to be told to that person;
errors are told with `telling.told`. Nothing that was typed is lost: what cannot be recorded
raises `TryLater`, and the same message may then come again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from agent_runner import lifecycle, policy
from agent_runner.config_chats import Chat
from agent_runner.errors import AlreadyDecided, CountersignError, NotAllowed, NotFound, TryLater
from agent_runner.model import Actor, Inquiry, InquiryState, Task, TaskState, Verdict
from agent_runner.registers import Held, Receipt, Registers
from agent_runner.store import Store
from bot import emergency, together
from bot.commands import Ask, AskedAgain, Chose, Heard, Pressed, Retried, Said, Stopped
from bot.delivery import Form
from bot.handle import OVERHEARD, Handler, Reply, decided
from cards import batch, replies, spoken, wording
from cards.meant import agreed as agreed_in
from cards.model import APPROVES, Verb

DAY = 86_400
"""Seconds for which a message that comes again is known: Slack and Feishu re-deliver for hours."""
TWICE = timedelta(seconds=10)
"""How far apart two presses can be that are one: a double click, or a delivery that came twice."""
HOME_LOOKS = 200
"""Open requests looked at to find those that wait for one person."""
_HERE = (TaskState.QUEUED, TaskState.RUNNING, TaskState.WAITING)
_WORKSPACE = re.compile(r"(?:in\s+|在\s*)?(?P<name>\w[\w.-]*?)\s*(?:で|里)?\s*[:：]\s*(?=\S)", re.IGNORECASE)
_LED = re.compile(r"(?:in\s+|在\s*)", re.IGNORECASE)


class NotYours(NotAllowed):
    """Only the one who wrote a message says what becomes of it."""

    code = "not_yours"


class Overview(NamedTuple):
    """What concerns one person."""

    waiting: tuple[Inquiry, ...]
    running: tuple[Task, ...]


class FrontDesk:
    """The desk of one chat product."""

    def __init__(
        self,
        handler: Handler,
        store: Store,
        registers: Registers,
        chat: Chat,
        *,
        page_is_public: bool,
        clock: Callable[[], datetime],
    ) -> None:
        self.handler = handler
        self.store = store
        self.registers = registers
        self.chat = chat
        self.page_is_public = page_is_public
        """Whether a link to the page leads anybody in the chat to it."""
        self.clock = clock

    # --- words ---------------------------------------------------------------------------

    def hear(self, heard: Heard) -> Reply | Held | None:
        """Takes a message; None if there is nothing to say about it (a new job shows itself).

        A `Held` message is an old one: the door posts the card that asks about it.
        """
        task_id = self.registers.task_at(heard.place)
        if not task_id and not heard.addressed and self.held_in(heard) is None:
            return None
        with self._once(f"{heard.place.platform}:{heard.place.chat}:{heard.message_id}") as first:
            return self._hear(heard, task_id) if first else None

    def _hear(self, heard: Heard, task_id: str) -> Reply | Held | None:
        text = spoken.without_mentions(heard.text)
        if not text:
            return Reply(key="reply.help") if heard.addressed else None
        if self.clock() - heard.at > self.chat.stale_after:
            return self._hold(heard, text, task_id)
        held, verb = self.held_in(heard), held_verb(text)
        if held is not None and verb is not None:
            return self._typed_about_held(heard, held, verb, text, task_id)
        return self._act(heard, text, task_id) if task_id or heard.addressed else None

    def held_in(self, heard: Heard) -> Held | None:
        """The old message that somebody is asked about where this was said."""
        here = self.registers.held_in(heard.place)
        return here or (self.registers.held_in(heard.place.having(thread="")) if heard.loose else None)

    def _typed_about_held(
        self, heard: Heard, held: Held, verb: Verb, text: str, task_id: str
    ) -> Reply | None:
        """A number that answers the card about an old message, unless it may mean a request as well."""
        if not policy.same_person(heard.actor, held.by, self.handler.people()):
            if task_id:
                return self._act(heard, text, task_id)
            if not heard.addressed:
                return None
        task_id = task_id or (self.registers.latest_in(heard.place) if heard.loose else "")
        if task_id and any(inquiry.open for inquiry in self.store.snapshot(task_id).inquiries):
            return Reply(key="ask_back.unclear")
        return self._answer_held(Pressed(actor=heard.actor, verb=verb, revision=0, held_id=held.id))

    def _act(self, heard: Heard, text: str, task_id: str) -> Reply | None:
        if task_id:
            return self._say(heard, text, task_id)
        answered = self._loose(heard, text) if heard.loose else None
        if answered is not None:
            return answered
        about_them = self.about_them(heard.actor, text)
        if about_them is not None:
            return about_them
        word = spoken.command(text)
        if word == "status":
            return self.mine(heard.actor)
        if word is not None:
            return Reply(key="reply.help" if word == "help" else "reply.nothing_here")
        if not any(char.isalnum() for char in text):
            return Reply(key="reply.help")  # a question mark, or a smile
        workspace, job = self.workspace_named(text)
        self.handler.ask(Ask(actor=heard.actor, text=job, workspace=workspace, place=heard.place))
        return None

    def about_them(self, actor: Actor, text: str) -> Reply | None:
        """What comes of words that are no job: about being away, or for a request that is not here."""
        away = self.handler.away.hear(actor, text)
        return away or (Reply(key="glass.nothing_open") if emergency.heard(text) else None)

    def check_job(self, actor: Actor, text: str) -> None:
        """Raises what `Handler.ask` would raise, before a thread is opened for the job."""
        workspace, job = self.workspace_named(text)
        self.handler.check_ask(Ask(actor=actor, text=job, workspace=workspace))

    def _say(self, heard: Heard, text: str, task_id: str) -> Reply | None:
        plain = self.chat.replies == "all" and not heard.to_others
        meant = heard.addressed or (plain and not self.handler.is_outsider(heard.actor))
        said = Said(
            actor=heard.actor,
            task_id=task_id,
            text=text,
            quoted=self._quoted(task_id, heard.quoted),
            addressed=meant,
        )
        return self._said(said)

    def _said(self, said: Said) -> Reply | None:
        hidden = self._hidden(said)
        if hidden:
            numbers = batch.ranges(inquiry.number for inquiry in hidden)
            return Reply(key="ask_back.not_whole", details={"number": numbers.removeprefix("#")})
        reply = self.handler.say(said)
        return None if reply == OVERHEARD else reply

    def _hidden(self, said: Said) -> list[Inquiry]:
        """The requests that words would say yes to although not all of them is within reach yet (C01)."""
        snap = self.store.snapshot(said.task_id)
        agreed = self._agreed(said, snap.inquiries)
        receipts = self.registers.receipts(said.task_id).values() if agreed else ()
        return [inquiry for inquiry in agreed if not self._within_reach(inquiry, receipts)]

    def _agreed(self, said: Said, known: tuple[Inquiry, ...]) -> list[Inquiry]:
        """Those that words say yes to, alone (break-glass) or as usual."""
        alone = emergency.heard(said.text)
        if alone is not None:
            return list(emergency.meant(alone, lifecycle.open_inquiries(known), said.quoted))
        meant = replies.parse(said.text, known, quoted=said.quoted)
        by_id = {inquiry.id: inquiry for inquiry in known}
        return [by_id[inquiry_id] for inquiry_id in agreed_in(meant, known)]

    def _within_reach(self, inquiry: Inquiry, receipts: Iterable[Receipt]) -> bool:
        receipt = next((one for one in receipts if one.shows(inquiry.number)), None)
        if receipt is None or not receipt.shown:
            return False
        return self.page_is_public or receipt.form != Form.LINK

    def _loose(self, heard: Heard, text: str) -> Reply | None:
        """What is said outside of any thread, alone with the bot: perhaps an answer to what is open there."""
        latest = self.registers.latest_in(heard.place)
        if not latest or self.store.task(latest).state not in _HERE:
            return None
        return self._said(Said(actor=heard.actor, task_id=latest, text=text, addressed=False))

    def _quoted(self, task_id: str, message_id: str) -> int | tuple[int, ...] | None:
        """The number of the request whose card was replied to, or the numbers of all on it."""
        if not message_id:
            return None
        for key, receipt in self.registers.receipts(task_id).items():
            if receipt.message_id == message_id and key.startswith("request:"):
                return receipt.numbers or int(key.removeprefix("request:"))
        return None

    def workspace_named(self, text: str) -> tuple[str, str]:
        """`in ops: restart` -> (`ops`, `restart`); a name that is none only counts after `in`."""
        match = _WORKSPACE.match(text)
        if match is None:
            return "", text
        name = match["name"]
        known = {known.lower(): known for known in self.handler.config.workspaces}
        if name.lower() in known:
            return known[name.lower()], text[match.end() :]
        return (name, text[match.end() :]) if _LED.match(text) and " " not in name else ("", text)

    # --- messages that came too late -----------------------------------------------------

    def _hold(self, heard: Heard, text: str, task_id: str) -> Held | None:
        """Keeps an old message that would have done something; talk between people is let go."""
        if task_id and not heard.addressed and heard.to_others:
            return None
        held = Held(
            id=self.handler.new_id("h"),
            by=heard.actor,
            place=heard.place,
            text=text,
            message_id=heard.message_id,
            quoted=heard.quoted,
            addressed=heard.addressed,
            alone=heard.loose,
            at=heard.at,
        )
        self.registers.hold(held)
        return held

    def _answer_held(self, pressed: Pressed) -> Reply:
        held = self.registers.held(pressed.held_id)
        if held is None:
            raise NotFound("That message was answered already, or is too old.", hint="Write it again.")
        if not policy.same_person(pressed.actor, held.by, self.handler.people()):
            raise NotYours("Somebody else wrote that.", hint="They can say.", who=held.by.name)
        if not self.registers.release(held.id):
            raise NotFound("That message was answered already.", hint="Look at the thread.")
        if pressed.verb is Verb.LEAVE:
            return Reply(key="held.leave")
        try:
            return self._do_now(held)
        except CountersignError:
            self.registers.hold(held)  # it was not done: it can still be asked for
            raise

    def _do_now(self, held: Held) -> Reply:
        heard = Heard(
            actor=held.by,
            place=held.place,
            text=held.text,
            message_id=held.message_id,
            at=self.clock(),
            addressed=held.addressed,
            quoted=held.quoted,
        )
        return self._act(heard, held.text, self.registers.task_at(held.place)) or Reply(key="held.do_now")

    # --- presses -------------------------------------------------------------------------

    def press(self, pressed: Pressed) -> Reply:
        """Does what a button says; raises what `Handler` raises."""
        match pressed.verb:
            case Verb.STOP:
                self.handler.stop(Stopped(actor=pressed.actor, task_id=pressed.task_id))
                return Reply(key="reply.stopping")
            case Verb.RETRY:
                self.handler.retry(Retried(actor=pressed.actor, task_id=pressed.task_id))
                return Reply(key="reply.retrying")
            case Verb.ASK_AGAIN:
                fresh = self.handler.ask_again(AskedAgain(actor=pressed.actor, inquiry_id=pressed.inquiry_id))
                return Reply(key="reply.asked_again", details={"number": str(fresh.number)})
            case Verb.DO_NOW | Verb.LEAVE:
                return self._answer_held(pressed)
            case Verb.APPROVE_ALL | Verb.REJECT_ALL:
                return self._decide_all(pressed)
            case _:
                return self._decide(pressed)

    def _decide(self, pressed: Pressed) -> Reply:
        try:
            return self._decide_open(pressed)
        except AlreadyDecided:
            inquiry = self.store.inquiry(pressed.inquiry_id)
            if not self._came_twice(pressed, inquiry):
                raise
            return decided(inquiry, Verdict.APPROVE)  # there is no news in it

    def _decide_all(self, pressed: Pressed) -> Reply:
        try:
            return together.pressed(self.handler, pressed)
        except AlreadyDecided:
            inquiry = self.store.inquiry(pressed.inquiry_id)
            approved = pressed.having(verb=Verb.APPROVE)
            if pressed.verb is Verb.REJECT_ALL or not self._came_twice(approved, inquiry):
                raise
            return decided(inquiry, Verdict.APPROVE)  # there is no news in it

    def _decide_open(self, pressed: Pressed) -> Reply:
        inquiry = self.store.inquiry(pressed.inquiry_id)
        lifecycle.still_open(inquiry, self.clock())  # who won is the news, not what is wrong with the form
        meant = replies.from_form(inquiry, pressed.verb, pressed.fields)
        if isinstance(meant, replies.AskBack):
            return Reply(key=f"ask_back.{meant.code}", details=meant.details, nested=meant.nested)
        if not isinstance(meant, replies.Decide):
            return Reply(key="ask_back.not_that_verb")
        chose = Chose.meant(pressed.actor, meant, revision=pressed.revision)
        return decided(self.handler.choose(chose), meant.verdict)

    def _came_twice(self, pressed: Pressed, inquiry: Inquiry) -> bool:
        """Whether this person approved just now, and the same press came again."""
        decision = inquiry.decision
        return (
            pressed.verb in APPROVES
            and decision is not None
            and decision.verdict is Verdict.APPROVE
            and decision.scope is replies.scope_of(pressed.verb)
            and policy.same_person(decision.by, pressed.actor, self.handler.people())
            and self.clock() - decision.at < TWICE
        )

    def look(self, actor: Actor, inquiry_id: str) -> Inquiry:
        """An open inquiry for somebody who is about to decide; raises if they cannot."""
        inquiry = self.store.inquiry(inquiry_id)
        lifecycle.still_open(inquiry, self.clock())
        self.handler.check_may_decide(inquiry, actor)
        return inquiry

    def look_at_all(self, actor: Actor, inquiry_id: str) -> Inquiry:
        """The same for all steps of a batch: the first that is open and that they may decide."""
        snap = self.store.snapshot(self.store.inquiry(inquiry_id).task_id)
        steps = batch.steps_of(snap.inquiry(inquiry_id), snap.inquiries)
        return together.first_open(self.handler, steps, self.handler.known(actor), self.clock())

    # --- what concerns one person --------------------------------------------------------

    def overview(self, actor: Actor) -> Overview:
        """The open requests that wait for this person, and their tasks that are not done yet."""
        known = self.handler.known(actor)
        pending = self.store.list_inquiries(InquiryState.PENDING, after=0, limit=HOME_LOOKS)
        people = self.handler.people()
        waiting = tuple(inquiry for inquiry in pending if _may(known, inquiry, people))
        tasks = [t for state in _HERE for t in self.store.list_tasks(state, after=None, limit=HOME_LOOKS)]
        running = tuple(t for t in tasks if policy.same_person(known, t.asked_by, people))
        return Overview(waiting, running)

    def mine(self, actor: Actor) -> Reply:
        """The same in one sentence."""
        found = self.overview(actor)
        details, nested = {}, {}
        for name, numbers in (
            ("waiting", [i.number for i in found.waiting]),
            ("running", [t.number for t in found.running]),
        ):
            if numbers:
                details[name] = ", ".join(f"#{number}" for number in numbers)
            else:
                nested[name] = "reply.none"
        return Reply(key="reply.mine", details=details, nested=nested)

    @contextlib.contextmanager
    def _once(self, what: str) -> Iterator[bool]:
        """Whether a message comes for the first time; one that could not be recorded may come again."""
        first = self.registers.first_time(what, seconds=DAY)
        try:
            yield first
        except TryLater:
            if first:
                with contextlib.suppress(TryLater):
                    self.registers.forget(what)
            raise


def held_verb(text: str) -> Verb | None:
    """What words say about an old message: the number or the label of one of the two buttons, alone."""
    said = spoken.shadow(text).strip(" .。!！")
    for number, verb in (("1", Verb.DO_NOW), ("2", Verb.LEAVE)):
        labels = (wording.text(lang, f"button.{verb}") for lang in wording.LANGUAGES)
        if said == number or said in map(spoken.shadow, labels):
            return verb
    return None


def _may(actor: Actor, inquiry: Inquiry, people: policy.People) -> bool:
    voted = any(v.by.key == actor.key and v.verdict is Verdict.APPROVE for v in inquiry.votes)
    return not voted and policy.may_decide(
        actor,
        approvers=inquiry.approvers,
        requester_may_decide=inquiry.requester_may_decide,
        asked_by=inquiry.asked_by,
        people=people,
    )
