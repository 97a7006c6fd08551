"""A limit that was reached: what was used of what, and how much more a person allows.

A plain yes allows the amount that is asked for; any other is one plain number, within bounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from agent_runner.model import MOST_STEPS, Inquiry, Kind, Limit, Reached
from cards import wording
from cards.model import Element, Input, InputKind, Paragraph, Theirs
from cards.spoken import shadow

FIELD = "input.more"
"""The input in which another amount is given."""

GO_ON = frozenset(
    {"go on", "continue", "carry on", "继续", "继续吧", "可以继续", "続けて", "続行", "続けてください"}
)
"""What says yes to this question beside the words that approve everything."""

_AMOUNT = re.compile(
    r"(?:\+\s*)?(?:us\$|[$＄])?\s*([0-9]{1,9}(?:\.[0-9]{1,4})?)\s*"
    r"(?:usd|dollars?|bucks|minutes?|mins?|model calls?|calls?|turns?|steps?"
    r"|美元|美金|刀|分钟|分|次|步|ドル|分間|回)?(?:\s*more)?\s*[.。!！]?"
)


class BadAmount(ValueError):
    """What was given is no amount that can be allowed."""


def is_limit(inquiry: Inquiry) -> bool:
    """Whether it asks to go on beyond a limit."""
    return inquiry.kind is Kind.LIMIT


def reached(inquiry: Inquiry) -> Reached:
    """What the request asks about."""
    return Reached.model_validate(inquiry.tool_input)


def elements(inquiry: Inquiry, lang: str) -> tuple[Element, ...]:
    """The question in plain words."""
    asked = reached(inquiry)
    amounts = {"used": asked.used, "of": asked.of, "more": asked.more}
    calls = asked.limit is Limit.MODEL_TURNS  # their sentence has the unit in it
    said = wording.number if calls else lambda lang, amount: _said(lang, asked.limit, amount)
    places: dict[str, wording.Words] = {
        **{name: said(lang, amount) for name, amount in amounts.items()},
        "workspace": Theirs(raw=inquiry.workspace),
        "day": asked.day,
    }
    return (Paragraph(text=wording.line(lang, f"limit.{asked.limit}", **places)),)


def allowed(inquiry: Inquiry, lang: str) -> str:
    """How much more was allowed, in words."""
    return _said(lang, reached(inquiry).limit, float(inquiry.effective_input["more"]))


def _said(lang: str, limit: Limit, amount: float) -> str:
    if limit is Limit.MINUTES:
        return wording.duration(lang, timedelta(minutes=amount))
    if limit is Limit.MODEL_TURNS:
        return wording.count(lang, "calls", int(amount))
    return wording.money(lang, amount)


def inputs(inquiry: Inquiry, lang: str) -> tuple[Input, ...]:
    """The form for another amount."""
    asked = reached(inquiry)
    label = wording.line(lang, f"limit.more.{asked.limit}", most=_plain(MOST_STEPS * asked.more))
    value = Theirs(raw=_plain(asked.more))
    return (
        Input(name=FIELD, label=label, value=value, input=InputKind.NUMBER, multiline=False, required=True),
    )


def says_go_on(words: str) -> bool:
    """Whether these words, as a whole, are a yes to this question."""
    return re.sub(r"[\s.!,。！，、~～]+", " ", shadow(words)).strip() in GO_ON


def amount_in(inquiry: Inquiry, words: str) -> float:
    """The amount that somebody typed; raises `BadAmount` for anything but one plain number."""
    found = _AMOUNT.fullmatch(shadow(words.strip()))
    if found is None:
        raise BadAmount(most(inquiry))
    return checked(inquiry, float(found[1]))


def amount_of_form(inquiry: Inquiry, fields: Mapping[str, Sequence[str]], words: str) -> float | None:
    """The amount that a form gives, in its own field or in words (not in both); None if it gives none."""
    given = next((values[-1].strip() for name, values in fields.items() if name == FIELD and values), "")
    if given and given != _plain(reached(inquiry).more):
        if words:  # which of both is meant, and that nothing of it is lost, nobody can tell
            raise BadAmount(most(inquiry))
        return amount_in(inquiry, given)
    return amount_in(inquiry, words) if words else None


def checked(inquiry: Inquiry, amount: object) -> float:
    """The amount, if it can be allowed; raises `BadAmount`."""
    asked = reached(inquiry)
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount):
        raise BadAmount(most(inquiry))
    halved = asked.limit is Limit.MODEL_TURNS and amount != int(amount)
    if halved or not 0 < amount <= MOST_STEPS * asked.more:
        raise BadAmount(most(inquiry))
    return float(amount)


def with_amount(inquiry: Inquiry, amount: float) -> dict[str, Any]:
    """The request's input with another amount in it."""
    return {**inquiry.tool_input, "more": int(amount) if amount.is_integer() else amount}


def most(inquiry: Inquiry) -> str:
    """The largest amount that can be allowed at once."""
    return _plain(MOST_STEPS * reached(inquiry).more)


def _plain(amount: float) -> str:
    """The number as a person types it."""
    return f"{amount:.4f}".rstrip("0").rstrip(".")
