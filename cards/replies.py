"""What a person typed or submitted -> what they mean. Whatever is not certain is asked back.

Approval needs one exact known form, alone: the number `1`, or a word like `yes`, `批准`, `承認`.
Anything more is a change (`ok but only in staging`), a refusal (`no, don't`), ordinary words, or
a question back. Nothing that a person wrote is lost: ordinary words come back as `NotAnAnswer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent_runner.model import REQUEST_APPROVAL, Inquiry, Kind, Scope, Verdict
from cards import batch, batch_replies, choices, limits, visible
from cards.answers import Ask, Unsure, answers_from_form, answers_typed
from cards.meant import AskBack, Control, Decide, DecideAll, DecideSeveral, NotAnAnswer, Nothing, Reply
from cards.model import APPROVES, FURTHER, Verb
from cards.spoken import Heard, command, hear, shadow, split_number, without_mentions

__all__ = [
    "AskBack",
    "Control",
    "Decide",
    "DecideAll",
    "DecideSeveral",
    "NotAnAnswer",
    "Nothing",
    "Reply",
    "from_form",
    "parse",
    "scope_of",
]


def parse(text: str, inquiries: Iterable[Inquiry], *, quoted: int | Sequence[int] | None = None) -> Reply:
    """What a message means to a task with these inquiries; `quoted` are those that were replied to.

    Never raises. Whether that person may decide is not looked at here.
    """
    known = sorted(inquiries, key=lambda inquiry: inquiry.number)
    open_here = [inquiry for inquiry in known if inquiry.open]
    about = (quoted,) if isinstance(quoted, int) else tuple(quoted or ())
    said = without_mentions(text)
    if not any(char.isalnum() for char in said):
        return Control(command="help") if said.strip() in ("?", "？") else Nothing()
    number, rest = split_number(said)
    if number is not None and about and number not in about:
        details = {"quoted": str(about[0]), "number": str(number)}
        return AskBack(code="which_conflict", details=details)
    if number is not None:
        return _addressed(said, rest, number, open_here)
    control = _control(said, open_here)
    if control is not None:
        return control
    if len(about) == 1:
        return _addressed(said, said, about[0], open_here)
    if about:
        open_here = [inquiry for inquiry in open_here if inquiry.number in about]
        if not open_here:
            return _not_open(about[0], said, said)
    together = _together(said, known, open_here)
    return together or _addressed(said, said, None, open_here)


def _together(said: str, known: Sequence[Inquiry], open_here: Sequence[Inquiry]) -> Reply | None:
    """An answer to the steps of a batch, by their letters or to all; None if it is none."""
    batches = [batch.lettered(unit) for unit in batch.units(known) if len(unit) > 1]
    steps = next((b for b in batches if any(step in open_here for step in b.values())), None)
    if steps is None:
        return None
    waiting = {mark: step for mark, step in steps.items() if step in open_here}
    others = [inquiry for inquiry in open_here if inquiry not in waiting.values()]
    try:
        found = batch_replies.read(said, waiting)
        if found is None:
            return _which(said, waiting) if len(waiting) > 1 and not others else None
    except batch_replies.Doubt as doubt:
        return _doubtful(doubt, steps, waiting)
    if any(not isinstance(_about(other, said, said), NotAnAnswer) for other in others):
        return _which_of(open_here)
    if isinstance(found, batch_replies.All):
        rejects = found.choice == batch_replies.REJECT
        return DecideAll(
            inquiry_id=next(iter(waiting.values())).id,
            verdict=Verdict.REJECT if rejects else Verdict.APPROVE,
            reason=found.words,
            seen={step.number: step.revision for step in waiting.values()},
        )
    return _several([_piece(steps[piece.mark], piece) for piece in found])


def _several(decides: Sequence[Reply]) -> Reply:
    """All of them as one; the first that is not certain leaves all undecided."""
    sure = tuple(decide for decide in decides if isinstance(decide, Decide))
    if len(sure) < len(decides):
        return next(decide for decide in decides if not isinstance(decide, Decide))
    return sure[0] if len(sure) == 1 else DecideSeveral(decides=sure)


def _piece(step: Inquiry, piece: batch_replies.Piece) -> Reply:
    verbs = (Verb.APPROVE, Verb.CHANGE, Verb.REJECT, *FURTHER)
    verb = verbs[piece.choice - 1]
    if verb not in choices.verbs(step):
        return AskBack(code="no_such_step_choice", details={"choice": f"{piece.mark}{piece.choice}"})
    return _decide(step, verb, piece.words)


def _doubtful(
    doubt: batch_replies.Doubt, steps: Mapping[str, Inquiry], waiting: Mapping[str, Inquiry]
) -> Reply:
    about = steps.get(doubt.details.get("step", "")) or next(iter(waiting.values()))
    details = {**_named(waiting), "number": str(about.number), **doubt.details}
    return AskBack(code=doubt.code, details=details)


def _named(waiting: Mapping[str, Inquiry]) -> dict[str, str]:
    """The open steps, and how one of them is answered."""
    listed = ", ".join(f"{mark} (#{step.number})" for mark, step in waiting.items())
    return {"steps": listed, "example": f"{next(iter(waiting))}1"}


def _which(said: str, waiting: Mapping[str, Inquiry]) -> Reply:
    """What would answer one step, to several: asked back, naming the letters."""
    if all(isinstance(_about(step, said, said), NotAnAnswer) for step in waiting.values()):
        return NotAnAnswer(text=said)
    return AskBack(code="which_step", details=_named(waiting))


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
    return _which_of(open_inquiries)


def _which_of(open_inquiries: Sequence[Inquiry]) -> AskBack:
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
