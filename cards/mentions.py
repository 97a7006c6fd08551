"""Messages about a request that stand in its thread for themselves: they call people, once each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent_runner.model import Inquiry
from cards import wording
from cards.model import Card, CardState, Element, Line, Paragraph, Post, Quote, Theirs
from cards.outcomes import Reader, person
from cards.people import Names, named


def posts(inquiry: Inquiry, reader: Reader, told: Mapping[str, Names]) -> Iterator[Post]:
    """The reminder and the escalation while it is open, and break-glass; `told`: whom each mentions.

    What is not listed any more keeps its message, as it was.
    """
    number = inquiry.number
    if inquiry.open and inquiry.escalated_at:
        yield _post(inquiry, "escalated", _waits(inquiry, "escalated", reader, told), reader)
    if inquiry.open and inquiry.reminded_at and told.get(f"reminder:{number}"):
        yield _post(inquiry, "reminder", _waits(inquiry, "reminder", reader, told), reader)
    decision = inquiry.decision
    if decision is not None and decision.break_glass:
        who = person(decision.by)
        people = named(told.get(f"breakglass:{number}", ()), reader.lang, mention=True)
        text = wording.line(
            reader.lang,
            "breakglass.text",
            who=who,
            number=number,
            time=reader.time(decision.at),
            told=people or wording.line(reader.lang, "approver.nobody"),
        )
        label = wording.line(reader.lang, "breakglass.why", who=who)
        yield _post(inquiry, "breakglass", text, reader, Quote(label=label, text=Theirs(raw=decision.reason)))


def _waits(inquiry: Inquiry, kind: str, reader: Reader, told: Mapping[str, Names]) -> Line:
    names = told.get(f"{kind}:{inquiry.number}", ())
    return wording.line(
        reader.lang,
        f"{kind}.text",
        number=inquiry.number,
        who=named(names, reader.lang, mention=True) or wording.line(reader.lang, "approver.nobody"),
        since=reader.time(inquiry.asked_at),
        until=reader.time(inquiry.expires_at),
    )


def _post(inquiry: Inquiry, kind: str, text: Line, reader: Reader, *more: Element) -> Post:
    card = Card(
        lang=reader.lang,
        state=CardState.WAITING if inquiry.open else CardState(inquiry.state.value),
        title=wording.line(reader.lang, f"{kind}.title"),
        elements=(Paragraph(text=text), *more),
        task_id=inquiry.task_id,
    )
    return Post(key=f"{kind}:{inquiry.number}", revision=inquiry.revision, card=card)
