"""Inquiry or task -> Card; `cards.posts` has every message that should stand in a thread.

All structure is decided here; renderers only draw. Nothing is left out of a tool's input.
Cards show what is stored: an inquiry past its time reads as open until the store says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo

from agent_runner.model import Hold, Inquiry, Kind, Verdict
from cards import call, choices, diffs, limits, outcomes, visible, wording
from cards.attach import Fitted, attached, fitted
from cards.choices import Field, editable_fields, edited_input
from cards.jobs import result_card, status_card
from cards.model import (
    Actions,
    Button,
    Card,
    Element,
    Footer,
    Hint,
    Input,
    InputKind,
    Line,
    Option,
    Paragraph,
    Question,
    Questions,
    Quote,
    Style,
    Theirs,
    Verb,
)
from cards.outcomes import Reader, person
from cards.people import Names, acting, approvers

__all__ = [
    "Field",
    "Fitted",
    "attached",
    "button",
    "editable_fields",
    "edited_input",
    "fitted",
    "inquiry_card",
    "result_card",
    "status_card",
]

_STYLES = {
    Verb.APPROVE: Style.PRIMARY,
    Verb.ANSWER: Style.PRIMARY,
    Verb.REJECT: Style.DANGER,
    Verb.BREAK_GLASS: Style.DANGER,
    Verb.ASK_AGAIN: Style.PRIMARY,
}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def inquiry_card(
    inquiry: Inquiry,
    *,
    lang: str,
    zone: tzinfo,
    now: datetime,
    approver_names: Names = (),
    can_decide: bool | None = None,
    position: tuple[int, int] | None = None,
    previous: Inquiry | None = None,
    followed_by: int | None = None,
    may_break_glass: bool = False,
) -> Card:
    """The card of one request, in whatever state it is.

    `approver_names` are the people who may decide; without them the policy's words are shown.
    `can_decide`: whether this reader may (None: the card is for everybody). `position`:
    which of how many open requests this is. `previous`: the inquiry it replaces, for a diff.
    `followed_by`: the number of the request that asks for the same again. `may_break_glass`: whether
    this reader may approve it alone.
    """
    reader = Reader(lang, zone, now)
    names = approvers(inquiry, lang, approver_names, mention=inquiry.open)
    parts: list[Element] = [*call.warnings(inquiry, lang)]
    if previous is not None:
        parts += replaces(inquiry, previous, lang)
    parts += _input(inquiry, lang, can_decide is not False)
    if inquiry.agent_words.strip():
        label = wording.line(lang, "label.agent")
        parts.append(Quote(label=label, text=Theirs(raw=inquiry.agent_words), small=True))
    parts += votes(inquiry, reader)
    if not inquiry.open:
        parts += outcomes.elements(inquiry, reader, followed_by=followed_by)
    if can_decide is not False and not followed_by:
        parts += _ways_to_answer(inquiry, lang, position)
    if inquiry.open and inquiry.hold is Hold.LIVE:
        text = wording.line(lang, "process_waits", time=reader.time(inquiry.expires_at))
        parts.append(Paragraph(text=text))
    alone = may_break_glass and (can_decide is False or inquiry.quorum > 1)  # else they can just approve
    if alone and inquiry.open and inquiry.kind is not Kind.QUESTION:
        parts.append(Actions(buttons=(_alone(inquiry, names, lang),)))
    parts += _footers(inquiry, reader, names, can_decide, position)
    return Card(
        lang=lang,
        state=outcomes.state(inquiry),
        title=_title(inquiry, lang),
        summary=_summary(inquiry, lang),
        elements=tuple(parts),
        task_id=inquiry.task_id,
        inquiry_id=inquiry.id,
        revision=inquiry.revision,
    )


def _title(inquiry: Inquiry, lang: str) -> Line:
    return wording.line(
        lang,
        f"title.{inquiry.kind}",
        number=inquiry.number,
        what=call.what(inquiry, lang),
        who=person(inquiry.asked_by),
        workspace=Theirs(raw=inquiry.workspace),
    )


def _summary(inquiry: Inquiry, lang: str) -> Line:
    return wording.line(
        lang,
        f"summary.{inquiry.kind}",
        who=person(inquiry.asked_by),
        rule=call.rule(inquiry, lang),
        workspace=Theirs(raw=inquiry.workspace),
    )


def replaces(inquiry: Inquiry, previous: Inquiry, lang: str) -> Iterable[Element]:
    """What is different from the request that this one follows."""
    decision = previous.decision
    if decision is not None and (decision.conditions or decision.reason):
        label = wording.line(lang, "replaces.words", number=previous.number)
        yield Quote(label=label, text=Theirs(raw=decision.conditions or decision.reason))
    changed = diffs.of_inputs(lang, previous.tool_input, inquiry.tool_input)
    key = "replaces" if changed else "replaces.same"
    yield Paragraph(text=wording.line(lang, key, number=previous.number))
    yield from changed


def _input(inquiry: Inquiry, lang: str, may_answer: bool) -> tuple[Element, ...]:
    asked = choices.questions(inquiry.tool_input) if inquiry.kind is Kind.QUESTION else ()
    if not asked:
        return call.elements(inquiry, lang)
    send = button(Verb.ANSWER, inquiry, lang) if inquiry.open and may_answer else None
    items = tuple(_question(at, question, len(asked), lang) for at, question in enumerate(asked))
    rest = {key: value for key, value in inquiry.tool_input.items() if key != "questions"}
    return (Questions(items=items, send=send), *call.arguments(rest, lang))


def _question(at: int, asked: choices.Asked, of: int, lang: str) -> Question:
    marks = [_mark(index, of) for index in range(len(asked.options))]
    return Question(
        number=at + 1,
        header=Theirs(raw=asked.header),
        text=Theirs(raw=asked.text),
        options=tuple(
            Option(
                mark=mark,
                label=Theirs(raw=choice.label),
                description=Theirs(raw=choice.description),
                preview=Theirs(raw=choice.preview),
            )
            for mark, choice in zip(marks, asked.options, strict=True)
        ),
        multiple=asked.multiple,
        other=wording.text(lang, "question.other"),
        note=wording.text(lang, "question.multiple" if asked.multiple else "question.single"),
    )


def _mark(index: int, questions: int) -> str:
    """What a person types: a number for one question, a letter where the number is the question."""
    return str(index + 1) if questions == 1 or index >= len(_LETTERS) else _LETTERS[index]


def button(verb: Verb, inquiry: Inquiry, lang: str) -> Button:
    """The button for a verb on a request, with the inputs of its form if it opens one."""
    inputs = _inputs(verb, inquiry, lang)
    return Button(
        verb=verb,
        label=_label(verb, inquiry, lang),
        revision=inquiry.revision,
        inquiry_id=inquiry.id,
        style=_STYLES.get(verb, Style.PLAIN),
        inputs=inputs,
        submit=wording.text(lang, _submit(verb, inquiry)) if inputs else "",
    )


def _label(verb: Verb, inquiry: Inquiry, lang: str) -> str:
    """What the button says; where it reaches further by a rule, all that it covers."""
    if limits.is_limit(inquiry) and verb in (Verb.APPROVE, Verb.CHANGE):
        return wording.text(lang, f"button.limit_{verb}")
    edits = verb is Verb.ALWAYS_RULE and inquiry.kind is Kind.PLAN
    return wording.text(lang, "button.plan_edits" if edits else f"button.{verb}", **_reach(inquiry, lang))


def _submit(verb: Verb, inquiry: Inquiry) -> str:
    limit = limits.is_limit(inquiry) and verb is Verb.CHANGE
    return "submit.limit_change" if limit else f"submit.{verb}"


def _reach(inquiry: Inquiry, lang: str) -> dict[str, str]:
    """How far the offered rule can be approved, in words. The rule holds a text of the agent's."""
    return {
        "rule": visible.inline(inquiry.offer),
        "workspace": visible.inline(inquiry.workspace),
        "duration": wording.duration(lang, inquiry.offer_for) if inquiry.offer_for else "",
    }


def _inputs(verb: Verb, inquiry: Inquiry, lang: str) -> tuple[Input, ...]:
    if verb is Verb.REJECT:
        why = "input.limit_reason" if limits.is_limit(inquiry) else "input.reason"
        return (Input(name="reason", label=wording.line(lang, why), required=True),)
    if verb is not Verb.CHANGE:
        return ()
    if limits.is_limit(inquiry):
        return limits.inputs(inquiry, lang)
    fields = editable_fields(inquiry)
    words = Input(
        name="conditions",
        label=wording.line(lang, "input.conditions"),
        required=not fields,
        hint=wording.text(lang, "input.limits") if choices.is_call(inquiry) else "",
    )
    return (*(_field(field, lang) for field in fields), words)


def _field(field: Field, lang: str) -> Input:
    return Input(
        name=field.input_name,
        label=wording.line(lang, "input.field", name=Theirs(raw=field.name, code=True)),
        value=Theirs(raw=field.value),
        input=field.kind,
        multiline=field.multiline,
    )


def votes(inquiry: Inquiry, reader: Reader) -> Iterable[Element]:
    """Everybody's word so far, with what they wrote; of one vote, the outcome says all."""
    if inquiry.quorum == 1 and inquiry.veto:
        return
    for vote in inquiry.votes:
        who = acting(vote.by, vote.acting_for, reader.lang)
        said = wording.line(reader.lang, f"vote.{vote.verdict}", who=who, time=reader.time(vote.at))
        yield Quote(label=said, text=Theirs(raw=vote.words)) if vote.words else Paragraph(text=said)


def _alone(inquiry: Inquiry, names: Line, lang: str) -> Button:
    """The folded form for approving alone: why, and a box that says what it does."""
    confirm = wording.line(lang, "input.confirm_alone", number=inquiry.number, who=names)
    why = Input(name="reason", label=wording.line(lang, "input.why_alone"), required=True)
    tick = Input(
        name="confirm",
        label=confirm,
        value=Theirs(raw=f"#{inquiry.number}"),
        input=InputKind.CHECK,
        multiline=False,
        required=True,
    )
    plain = button(Verb.BREAK_GLASS, inquiry, lang)
    submit = wording.text(lang, "submit.break_glass")
    return plain.model_copy(update={"inputs": (why, tick), "submit": submit})


def _ways_to_answer(inquiry: Inquiry, lang: str, position: tuple[int, int] | None) -> Iterable[Element]:
    offered = choices.verbs(inquiry)
    buttons = tuple(button(verb, inquiry, lang) for verb in offered if verb is not Verb.ANSWER)
    if buttons:
        yield Actions(buttons=buttons)
    if inquiry.open and offered:
        yield Hint(text=_typed(inquiry, offered, lang))
        if position and position[1] > 1:
            yield Hint(text=wording.text(lang, "typed.which", number=inquiry.number))


def _typed(inquiry: Inquiry, offered: Sequence[Verb], lang: str) -> str:
    if Verb.ANSWER in offered:
        return typed_answer(inquiry, lang)
    if limits.is_limit(inquiry):
        return wording.text(lang, "typed.limit")
    if inquiry.kind is Kind.PLAN and Verb.ALWAYS_RULE in offered:
        keys = ["typed.plan", "typed.plan_edits"]
    else:
        known = "typed.approval" if Verb.ALWAYS in offered else "typed.plan"
        more = [verb for verb in (Verb.ALWAYS_RULE, Verb.ALWAYS_UNTIL) if verb in offered]
        keys = [known, *(f"typed.{verb}" for verb in more)]
    return "   ".join(wording.text(lang, key, **_reach(inquiry, lang)) for key in keys)


def typed_answer(inquiry: Inquiry, lang: str) -> str:
    """How to type the answer to a question, with an example that fits it."""
    asked = choices.questions(inquiry.tool_input)
    key = "typed.question" if len(asked) == 1 else "typed.questions"
    return wording.text(lang, key, example=choices.example(inquiry))


def _footers(
    inquiry: Inquiry,
    reader: Reader,
    names: Line,
    can_decide: bool | None,
    position: tuple[int, int] | None,
) -> Iterable[Footer]:
    lang = reader.lang
    if inquiry.open and position and position[1] > 1:
        yield Footer(text=wording.line(lang, "more.open", at=position[0], of=position[1]))
    digest: Line = (Theirs(raw=inquiry.short_digest, code=True),)
    known = terms(inquiry, reader, names, can_decide) if inquiry.open else ()
    yield Footer(text=wording.joined([*known, digest]))


def terms(inquiry: Inquiry, reader: Reader, names: Line, can_decide: bool | None) -> tuple[Line, ...]:
    """Who may decide an open request, how many are needed, and until when."""
    lang = reader.lang
    may = "may_answer" if inquiry.kind is Kind.QUESTION else "may_decide"
    parts = [wording.line(lang, "may_not_decide" if can_decide is False else may, who=names)]
    if not inquiry.requester_may_decide:
        parts.append(wording.line(lang, "not_requester", who=person(inquiry.asked_by)))
    if inquiry.quorum > 1:
        got = len({vote.by.key for vote in inquiry.votes if vote.verdict is not Verdict.REJECT})
        parts.append(wording.line(lang, "quorum", got=got, needed=inquiry.quorum))
    if not inquiry.veto:
        parts.append(wording.line(lang, "no_veto"))
    return (*parts, wording.line(lang, "until", time=reader.time(inquiry.expires_at)))
