"""One thread for one reader: what people said, and what stands there of requests and results.

Composed from the stored state at this moment, in the reader's language and for their rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from agent_runner import policy
from agent_runner.model import Actor, Inquiry, Message, Role, Task
from agent_runner.store import Snapshot
from bot.web.guard import Viewer
from bot.web.service import Service
from cards import batch, compose, mentions
from cards.batch_card import batch_card
from cards.model import Card, Prose
from cards.outcomes import Reader

Who = Literal["me", "person", "agent"]


@dataclass(frozen=True)
class Entry:
    """One line of a thread: words of a person or the agent, or a card."""

    key: str
    at: datetime
    who: Who
    name: str = ""
    text: str = ""
    card: Card | None = None


@dataclass(frozen=True)
class Thread:
    """A task with the lines of its thread, oldest first."""

    task: Task
    entries: tuple[Entry, ...]
    open_here: bool
    """Whether this reader's reply may answer an open request."""


def may_decide(service: Service, inquiry: Inquiry, actor: Actor) -> bool:
    """Whether this reader may decide; only for what to show, the handler asks again."""
    return policy.may_decide(
        actor,
        approvers=inquiry.approvers,
        requester_may_decide=inquiry.requester_may_decide,
        asked_by=inquiry.asked_by,
        people=service.handler.people(),
    )


def inquiry_card(service: Service, viewer: Viewer, inquiry: Inquiry, siblings: Sequence[Inquiry]) -> Card:
    """The card of a request as this reader may use it. `siblings` are all of its task."""
    waiting = [one for one in siblings if one.open]
    position = (waiting.index(inquiry) + 1, len(waiting)) if inquiry in waiting else None
    return compose.inquiry_card(
        inquiry,
        lang=viewer.lang,
        zone=service.zone,
        now=service.clock(),
        approver_names=service.handler.approvers(inquiry),
        may_break_glass=service.handler.may_break_glass(inquiry, viewer.actor),
        can_decide=may_decide(service, inquiry, viewer.actor),
        position=position,
        previous=next((one for one in siblings if one.id == inquiry.replaces), None),
        followed_by=next((one.number for one in siblings if one.replaces == inquiry.id), None),
    )


def card_of(service: Service, viewer: Viewer, steps: batch.Steps, siblings: Sequence[Inquiry]) -> Card:
    """The card of a request, or of the steps of one turn, as this reader may use it."""
    if len(steps) == 1:
        return inquiry_card(service, viewer, steps[0], siblings)
    by_id = {one.id: one for one in siblings}
    followers = {one.replaces: one.number for one in siblings if one.replaces}
    return batch_card(
        steps,
        lang=viewer.lang,
        zone=service.zone,
        now=service.clock(),
        approver_names={one.id: service.handler.approver_names(one) for one in steps},
        can_decide={one.id: may_decide(service, one, viewer.actor) for one in steps},
        previous={one.id: by_id[one.replaces] for one in steps if one.replaces in by_id},
        followed_by={one.id: followers[one.id] for one in steps if one.id in followers},
    )


def read(service: Service, viewer: Viewer, task_id: str) -> Thread:
    """The thread as it is now; raises `NotFound`."""
    snap = service.store.snapshot(task_id)
    messages = service.store.messages(task_id)
    posted = {key: (at, card) for key, at, card in service.registers.posts(task_id)}
    cards = [
        *_requests(service, viewer, snap),
        *_mentions(service, viewer, snap, posted),
        *_results(service, viewer, snap.task, posted),
    ]
    told = {
        element.text.raw
        for entry in cards
        if entry.card
        for element in entry.card.elements
        if isinstance(element, Prose)
    }
    lines = sorted([*_messages(messages, viewer, told), *cards], key=lambda entry: entry.at)
    if not snap.task.ended:
        lines.append(_status(service, viewer, snap))
    answerable = any(one.open and may_decide(service, one, viewer.actor) for one in snap.inquiries)
    return Thread(snap.task, tuple(lines), answerable)


def _messages(messages: Sequence[Message], viewer: Viewer, told: set[str]) -> Iterator[Entry]:
    """What people said; the agent's words only where no result card holds them."""
    for at, message in enumerate(messages):
        if message.role is Role.AGENT and message.text in told:
            continue
        mine = message.by is not None and message.by.key == viewer.actor.key
        who: Who = "agent" if message.role is not Role.USER else "me" if mine else "person"
        name = message.by.name if message.by else ""
        yield Entry(f"message:{at}", message.at, who, name, message.text)


def _requests(service: Service, viewer: Viewer, snap: Snapshot) -> Iterator[Entry]:
    for steps in batch.units(snap.inquiries):
        card = card_of(service, viewer, steps, snap.inquiries)
        yield Entry(f"request:{steps[0].number}", steps[0].asked_at, "agent", card=card)


def _mentions(
    service: Service, viewer: Viewer, snap: Snapshot, posted: dict[str, tuple[datetime, str]]
) -> Iterator[Entry]:
    """Reminders and the like: as they are now, or as they were posted if their request is over."""
    reader = Reader(viewer.lang, service.zone, service.clock())
    for inquiry in snap.inquiries:
        now = {post.key: post.card for post in mentions.posts(inquiry, reader, service.handler.told(inquiry))}
        for kind, moment in (
            ("escalated", inquiry.escalated_at),
            ("reminder", inquiry.reminded_at),
            ("breakglass", inquiry.decision.at if inquiry.decision else None),
        ):
            key = f"{kind}:{inquiry.number}"
            at, kept = posted.get(key, (moment, ""))
            card = now.get(key) or (Card.model_validate_json(kept).settled() if kept else None)
            if card is not None and at is not None:
                yield Entry(key, at, "agent", card=card)


def _results(
    service: Service, viewer: Viewer, task: Task, posted: dict[str, tuple[datetime, str]]
) -> Iterator[Entry]:
    """The result of this turn from the store, those of earlier turns as they were posted."""
    now = f"result:{task.turn}"
    for key, (at, card) in posted.items():
        if key.startswith("result:") and (key != now or not task.ended):
            yield Entry(key, at, "agent", card=Card.model_validate_json(card).settled())
    if task.ended:
        card_now = compose.result_card(task, lang=viewer.lang, zone=service.zone, now=service.clock())
        at = posted[now][0] if now in posted else task.updated_at
        yield Entry(now, at, "agent", card=card_now)


def _status(service: Service, viewer: Viewer, snap: Snapshot) -> Entry:
    """How the task stands. It belongs below everything: it is about now."""
    pending = [one for one in snap.inquiries if one.open]
    card = compose.status_card(
        snap.task,
        progress=service.registers.progress(snap.task.id),
        pending=pending,
        lang=viewer.lang,
        zone=service.zone,
        now=service.clock(),
        approver_names={one.id: service.handler.approvers(one) for one in pending},
    )
    return Entry("status", snap.task.updated_at, "agent", card=card)
