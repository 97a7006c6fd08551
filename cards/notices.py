"""Cards about neither a request nor a result: a thread that begins or goes on elsewhere, a late message."""

from __future__ import annotations

from datetime import datetime, tzinfo

from agent_runner.model import Actor, Task
from cards import wording
from cards.model import Actions, Button, Card, CardState, Hint, Paragraph, Quote, Style, Theirs, Verb
from cards.outcomes import Reader, person

BEGINNING = 1_000
"""Characters of somebody's words on such a card; written as escapes they are about 9,000."""


def held_card(
    held_id: str, text: str, *, by: Actor, at: datetime, lang: str, zone: tzinfo, now: datetime
) -> Card:
    """Asks whether an old message shall be acted on now; it shows the message, or how it begins."""
    reader = Reader(lang, zone, now)
    return Card(
        lang=lang,
        state=CardState.PENDING,
        title=wording.line(lang, "held.title", time=reader.time(at)),
        summary=wording.line(lang, "held.summary", who=person(by)),
        elements=(
            Quote(label=wording.line(lang, "held.label", who=person(by)), text=_beginning(text)),
            Actions(buttons=tuple(_button(verb, held_id, lang) for verb in (Verb.DO_NOW, Verb.LEAVE))),
            Hint(text=wording.text(lang, "typed.held")),
        ),
    )


def asked_card(text: str, *, by: Actor, lang: str) -> Card:
    """The first message of a thread for a job that was asked for elsewhere (by a command)."""
    return Card(
        lang=lang,
        state=CardState.QUEUED,
        title=wording.line(lang, "chat.asked", who=person(by)),
        elements=(Quote(label=(), text=_beginning(text)),),
    )


def settled_card(card: Card, verb: Verb, *, lang: str) -> Card:
    """The same card after the answer, with nothing left to press."""
    done = Paragraph(text=wording.line(lang, f"held.{verb}"))
    settled = card.settled()
    elements = (*settled.elements, done)
    return settled.model_copy(update={"elements": elements, "state": CardState.ANSWERED})


def moved_card(task: Task, *, lang: str) -> Card:
    """The first message of the thread in which a task goes on when its own is gone."""
    return Card(
        lang=lang,
        state=CardState.QUEUED,
        title=wording.line(lang, "moved.title", number=task.number),
        summary=wording.line(lang, "moved.summary", who=person(task.asked_by)),
        elements=(
            Paragraph(text=wording.line(lang, "moved.text")),
            Quote(
                label=wording.line(lang, "held.label", who=person(task.asked_by)), text=_beginning(task.text)
            ),
        ),
        task_id=task.id,
    )


def _beginning(text: str) -> Theirs:
    """Words that stand whole elsewhere: such a card must fit everywhere without a file."""
    return Theirs(raw=text if len(text) <= BEGINNING else f"{text[:BEGINNING]} …")


def _button(verb: Verb, held_id: str, lang: str) -> Button:
    style = Style.PRIMARY if verb is Verb.DO_NOW else Style.PLAIN
    label = wording.text(lang, f"button.{verb}")
    return Button(verb=verb, label=label, revision=0, held_id=held_id, style=style)
