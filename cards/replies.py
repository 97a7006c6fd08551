"""What a person typed or submitted -> what they mean. Whatever is not certain is asked back.

Approval needs one exact known form, alone: the number `1`, or a word like `yes`, `批准`, `承認`.
Anything more is a change (`ok but only in staging`), a refusal (`no, don't`), ordinary words, or
a question back. Nothing that a person wrote is lost: ordinary words come back as `NotAnAnswer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from agent_runner.model import REQUEST_APPROVAL, Inquiry, Kind, Scope, Value, Verdict
from cards import choices, limits, visible
from cards.answers import Ask, Unsure, answers_from_form, answers_typed
from cards.model import APPROVES, FURTHER, Verb
from cards.spoken import Heard, command, hear, shadow, split_number, without_mentions


class Decide(Value):
    """A decision on one inquiry, as it should be recorded if this person may decide."""

    kind: Literal["decide"] = "decide"
    inquiry_id: str
    verdict: Verdict
    reason: str = ""
    conditions: str = ""
    input: dict[str, Any] | None = None
    """The whole edited input, if any field was edited."""
    answers: dict[str, str] | None = None
    """Question text -> label, labels joined with ", ", or the person's words (engine fact E17)."""
    scope: Scope = Scope.ONCE
    break_glass: bool = False
    confirm: str = ""


class AskBack(Value):
    """Not certain: say `wording.ask_back(lang, code, nested, **details)`. Nothing is decided.

    `nested` are details that are words of ours themselves: place -> key of `cards.wording`.
    """

    kind: Literal["ask_back"] = "ask_back"
    code: str
    details: dict[str, str] = Field(default_factory=dict)
    nested: dict[str, str] = Field(default_factory=dict)


class Control(Value):
    """A command about the task itself."""

    kind: Literal["control"] = "control"
    command: Literal["stop", "status", "help", "retry"]


class NotAnAnswer(Value):
    """Ordinary words: a follow-up for the agent."""

    kind: Literal["not_an_answer"] = "not_an_answer"
    text: str


class Nothing(Value):
    """No words at all (a sticker, an image, blanks)."""

    kind: Literal["nothing"] = "nothing"


Reply = Decide | AskBack | Control | NotAnAnswer | Nothing


def parse(text: str, open_inquiries: Sequence[Inquiry], *, quoted: int | None = None) -> Reply:
    """What a message means while these inquiries are open; `quoted` is the request replied to.

    Never raises. Whether that person may decide is not looked at here.
    """
    said = without_mentions(text)
    if not any(char.isalnum() for char in said):
        return Control(command="help") if said.strip() in ("?", "？") else Nothing()
    number, rest = split_number(said)
    if number is None:
        control = _control(said, open_inquiries)
        if control is not None:
            return control
        number, rest = quoted, said
    elif quoted is not None and quoted != number:
        details = {"quoted": str(quoted), "number": str(number)}
        return AskBack(code="which_conflict", details=details)
    return _addressed(said, rest, number, open_inquiries)


def _control(said: str, open_inquiries: Sequence[Inquiry]) -> Reply | None:
    found = command(said)
    if found is None:
        return None
    labels = [
        choice.label
        for inquiry in open_inquiries
        for asked in choices.questions(inquiry.tool_input)
        if inquiry.kind is Kind.QUESTION
        for choice in asked.options
    ]
    if any(shadow(label).strip() == shadow(said).strip() for label in labels):
        return AskBack(code="unclear_answer", details={"example": "1"})
    return Control(command=found)


def _addressed(said: str, rest: str, number: int | None, open_inquiries: Sequence[Inquiry]) -> Reply:
    """To one inquiry, by number or because it is the only one; else back to the person."""
    if number is not None:
        for inquiry in open_inquiries:
            if inquiry.number == number:
                return _about(inquiry, rest, said)
        return _not_open(number, rest, said)
    if len(open_inquiries) == 1:
        return _about(open_inquiries[0], rest, said)
    if all(isinstance(_about(inquiry, rest, said), NotAnAnswer) for inquiry in open_inquiries):
        return NotAnAnswer(text=said)
    numbers = [f"#{inquiry.number}" for inquiry in open_inquiries]
    details = {"requests": ", ".join(numbers), "number": numbers[0][1:]}
    return AskBack(code="which_request", details=details)


def _not_open(number: int, rest: str, said: str) -> Reply:
    """To a request that is not open (any more): told so, unless it is only talked about."""
    if hear(rest).kind == "words" and not shadow(rest[:1]).isdecimal():
        return NotAnAnswer(text=said)
    return AskBack(code="no_such_request", details={"number": str(number)})


def _about(inquiry: Inquiry, rest: str, said: str) -> Reply:
    if inquiry.kind is Kind.QUESTION:
        return _answered(inquiry, rest, said)
    if not rest.strip():
        return AskBack(code="unclear")
    if limits.is_limit(inquiry):
        return _about_limit(inquiry, rest, said)
    return _heard(inquiry, hear(rest, offered=len(choices.verbs(inquiry))), rest, said)


def _about_limit(inquiry: Inquiry, rest: str, said: str) -> Reply:
    """`2` takes an amount here, and a yes with a condition names none."""
    if limits.says_go_on(rest):
        return _decide(inquiry, Verb.APPROVE)
    heard = hear(rest, offered=len(choices.verbs(inquiry)))
    if heard.kind == "conditional" or (heard.kind == "change" and not heard.words.strip()):
        return AskBack(code="what_amount", details=_most(inquiry))
    if heard.kind == "change":
        return _with_amount(inquiry, {}, heard.words)
    return _heard(inquiry, heard, rest, said)


def _with_amount(inquiry: Inquiry, fields: Mapping[str, Sequence[str]], words: str) -> Reply:
    """Going on with another amount, which a form or the words name."""
    try:
        amount = limits.amount_of_form(inquiry, fields, words)
    except limits.BadAmount:
        return AskBack(code="bad_amount", details=_most(inquiry))
    if amount is None:
        return AskBack(code="what_amount", details=_most(inquiry))
    if Verb.CHANGE not in choices.verbs(inquiry):
        return AskBack(code="not_that_verb")
    changed = limits.with_amount(inquiry, amount)
    return Decide(inquiry_id=inquiry.id, verdict=Verdict.CHANGE, input=changed)


def _most(inquiry: Inquiry) -> dict[str, str]:
    return {"most": limits.most(inquiry)}


def _heard(inquiry: Inquiry, heard: Heard, rest: str, said: str) -> Reply:
    words = heard.words.strip()
    match heard.kind:
        case "conditional" if inquiry.tool_name != REQUEST_APPROVAL:
            return _decide(inquiry, Verb.CHANGE, words)
        case "conditional":  # a condition lets this step go on: it takes the clear form, `2 ...`
            return AskBack(code="unclear")
        case "approve":
            return _decide(inquiry, Verb.APPROVE)
        case "always" if inquiry.kind is Kind.PLAN and shadow(rest).strip() == "4":
            return _decide(inquiry, Verb.ALWAYS_RULE)
        case "always" | "always_rule" | "always_until":
            return _decide(inquiry, Verb(heard.kind))
        case "change":
            return _decide(inquiry, Verb.CHANGE, words) if words else AskBack(code="what_change")
        case "reject":
            return _decide(inquiry, Verb.REJECT, words) if words else AskBack(code="why_reject")
        case "words":
            return NotAnAnswer(text=said)
        case "no_such_choice":
            return AskBack(code="no_such_choice", details={"choice": visible.inline(rest.strip()[:20])})
        case _:
            return AskBack(code=heard.kind)


def _decide(inquiry: Inquiry, verb: Verb, words: str = "") -> Reply:
    if verb not in choices.verbs(inquiry):
        return AskBack(code="not_that_verb")
    verdict = Verdict.APPROVE if verb in APPROVES else Verdict(verb.value)
    return Decide(
        inquiry_id=inquiry.id,
        verdict=verdict,
        reason=words if verb is Verb.REJECT else "",
        conditions=words if verb is Verb.CHANGE else "",
        scope=scope_of(verb),
    )


def scope_of(verb: Verb) -> Scope:
    """How far an approval by this verb reaches."""
    return _SCOPES.get(verb, Scope.ONCE)


_SCOPES = dict(zip(FURTHER, (Scope.TASK, Scope.RULE, Scope.UNTIL), strict=True))


def _answered(inquiry: Inquiry, rest: str, said: str) -> Reply:
    try:
        answers = answers_typed(choices.questions(inquiry.tool_input), rest)
    except Unsure as unsure:
        return _unsure(inquiry, unsure)
    return NotAnAnswer(text=said) if answers is None else _with_answers(inquiry, answers)


def _with_answers(inquiry: Inquiry, answers: dict[str, str]) -> Reply:
    if Verb.ANSWER not in choices.verbs(inquiry):
        return AskBack(code="not_that_verb")
    return Decide(inquiry_id=inquiry.id, verdict=Verdict.ANSWER, answers=answers)


def _unsure(inquiry: Inquiry, unsure: Unsure) -> AskBack:
    details = {key: visible.inline(value) for key, value in unsure.details.items()}
    if unsure.ask is Ask.UNCLEAR_ANSWER:
        details["example"] = choices.example(inquiry)
    return AskBack(code=unsure.ask, details=details)


def from_form(inquiry: Inquiry, verb: str, fields: Mapping[str, Sequence[str]]) -> Reply:
    """What a submitted form or a pressed button means (names of fields: see `cards.web`).

    Returns `Decide` or `AskBack`; `stop`, `retry` and `ask_again` decide nothing and are not for
    here. Raises nothing for any content of `fields`.
    """
    if verb == Verb.BREAK_GLASS and inquiry.open:
        return _alone(inquiry, fields)
    if verb not in (choices.verbs(inquiry) or ()) or verb == Verb.ASK_AGAIN:
        return AskBack(code="not_that_verb")
    match Verb(verb):
        case Verb.ANSWER:
            try:
                found = answers_from_form(choices.questions(inquiry.tool_input), fields)
            except Unsure as unsure:
                return _unsure(inquiry, unsure)
            return _with_answers(inquiry, found)
        case Verb.REJECT:
            reason = _words(fields, "reason")
            return _decide(inquiry, Verb.REJECT, reason) if reason else AskBack(code="why_reject")
        case Verb.CHANGE if limits.is_limit(inquiry):
            return _with_amount(inquiry, fields, _words(fields, "conditions"))
        case Verb.CHANGE:
            return _changed(inquiry, fields)
        case known:
            return _decide(inquiry, known)


def _alone(inquiry: Inquiry, fields: Mapping[str, Sequence[str]]) -> Reply:
    """Approving alone; whether this person may, and whether all of it is said, is asked again later."""
    reason, confirm = _words(fields, "reason"), _words(fields, "confirm")
    if not reason or not confirm:
        return AskBack(code="confirm_alone" if reason else "why_alone")
    return Decide(
        inquiry_id=inquiry.id,
        verdict=Verdict.APPROVE,
        reason=reason,
        break_glass=True,
        confirm=confirm,
    )


def _words(fields: Mapping[str, Sequence[str]], name: str) -> str:
    """A person's words as they typed them, without the blanks around them."""
    return "\n".join(fields.get(name, ())).replace("\r\n", "\n").strip()


def _changed(inquiry: Inquiry, fields: Mapping[str, Sequence[str]]) -> Reply:
    values = {
        name: values[-1] for name, values in fields.items() if name.startswith(choices.INPUT) and values
    }
    conditions = _words(fields, "conditions")
    try:
        edited = choices.edited_input(inquiry, values)
    except choices.BadField as bad:
        details = {"field": visible.inline(bad.name)}
        return AskBack(code="bad_field", details=details, nested={"kind": f"kind.{bad.kind}"})
    changed = any(edited[name] is not inquiry.tool_input[name] for name in edited)
    if not changed and not conditions:
        return AskBack(code="what_change")
    return Decide(
        inquiry_id=inquiry.id,
        verdict=Verdict.CHANGE,
        conditions=conditions,
        input=edited if changed else None,
    )
