"""Card -> HTML fragment for the web page. No script, no style, no link; all text escaped.

Contract with the page's own script and stylesheet
--------------------------------------------------
The fragment is one `<article class="card card-<state>" data-state=... data-inquiry=...
data-task=... data-revision=...>`. All class names start with `card-`.

Everything that acts carries `data-verb` (see `model.Verb`), `data-revision`, and either
`data-inquiry` or `data-task`:

* `<button type="button" data-verb=...>`: send the verb (`approve`, `always`, `always_rule`,
  `always_until`, `approve_all`, `ask_again`, `stop`, `retry`);
* `<form class="card-form" data-verb=...>`: on submit send the verb with the form's fields, as they
  are, as `{name: [values]}`. `change`, `reject` and `reject_all` forms sit inside `<details>`,
  `answer` is open. `data-seen`, where it is, is sent along.

On the card of a batch, each step is one `<section class="card-step" data-step=<letter>>`.

Names of fields (`i` counts questions from 0, in the order of the tool's input):

=================  ==================================================================================
`conditions`       `change`: what to change, in words
`input.<field>`    `change`: one per editable field, prefilled. `data-kind` is `text`, `number`,
                   `boolean` (`true`/`false`) or `json`; values hold the escapes of `cards.visible`
`reason`           `reject`, `reject_all`: why not; `break_glass`: why alone; required
`confirm`          `break_glass`: a box to tick, whose value is `#<number>`; required
`answer.<i>`       `answer`: indexes (from 0) of the picked options, or `other`
`other.<i>`        `answer`: the person's own words
=================  ==================================================================================

`cards.replies.from_form(inquiry, verb, fields)` reads exactly these fields back into a decision,
undoes the escapes, and asks back what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from markupsafe import Markup, escape

from cards import markdown, visible
from cards.html import LINE_BREAK, block, inline, line, marked, plain, tag, void
from cards.model import (
    SIGNS,
    Actions,
    Attachment,
    Button,
    Card,
    Code,
    Diff,
    Element,
    Fields,
    Footer,
    Hint,
    Input,
    InputKind,
    Line,
    Op,
    Option,
    Outcome,
    Paragraph,
    Prose,
    Question,
    Questions,
    Quote,
    Step,
    StepsEnd,
    Warn,
)

_TAG = {Op.SAME: "span", Op.ADDED: "ins", Op.REMOVED: "del", Op.GAP: "span"}
_ROWS = 12
"""Most lines an input shows before it scrolls; it still holds the whole value."""


def render(card: Card) -> str:
    """The whole card as one `<article>`; equal cards give equal HTML."""
    attributes = {
        "class": f"card card-{card.state}",
        "lang": card.lang,
        "data-state": card.state,
        "data-inquiry": card.inquiry_id or None,
        "data-task": card.task_id or None,
        "data-revision": card.revision,
    }
    head = [tag("h3", {"class": "card-title"}, line(card.title))]
    if card.summary:
        head.append(tag("p", {"class": "card-summary"}, line(card.summary)))
    body = [tag("header", {"class": "card-header"}, *head), *_body(card.elements)]
    return str(tag("article", attributes, LINE_BREAK, LINE_BREAK.join(body), LINE_BREAK))


def _body(elements: Iterable[Element]) -> Iterator[Markup]:
    """The elements, those of each step of a batch together."""
    step: Step | None = None
    inside: list[Markup] = []
    for element in (*elements, StepsEnd()):
        if not isinstance(element, Step | StepsEnd):
            inside.append(_element(element))
            continue
        yield from inside if step is None else [_step(step, inside)]
        step, inside = (element if isinstance(element, Step) else None), []


def _step(step: Step, inside: Iterable[Markup]) -> Markup:
    attributes = {"class": f"card-step card-step-{step.state}", "data-step": step.mark}
    head = tag("h4", {"class": "card-step-title"}, line(step.text))
    return tag("section", attributes, head, LINE_BREAK, LINE_BREAK.join(inside))


def _element(element: Element) -> Markup:
    return _DRAW[type(element)](element)


def _pre(label: Line, *content: Markup) -> Markup:
    scroll = {
        "class": "card-pre",
        "dir": "ltr",
        "tabindex": "0",
        "role": "group",
        "aria-label": plain(label),
    }
    return tag("pre", scroll, tag("code", {}, *content))


def _labelled(name: str, label: Line, content: Markup, folded: bool = False) -> Markup:
    kind = {"class": f"card-{name}"}
    if folded:
        return tag("details", kind, tag("summary", {"class": "card-label"}, line(label)), content)
    head = tag("div", {"class": "card-label"}, line(label)) if label else Markup("")
    return tag("div", kind, head, content)


def _paragraph(element: Paragraph) -> Markup:
    return tag("p", {"class": "card-paragraph"}, line(element.text))


def _warning(element: Warn) -> Markup:
    return tag("p", {"class": "card-warning", "data-code": element.code}, line(element.text))


def _code(element: Code) -> Markup:
    return _labelled("code", element.label, _pre(element.label, block(element.text)), element.folded)


def _attachment(element: Attachment) -> Markup:
    return _labelled("code", element.label, _pre(element.label, block(element.text)))


def _diff(element: Diff) -> Markup:
    parts = []
    for part in element.parts:
        kind = {"class": f"card-{part.op}"}
        if element.by_words:
            parts.append(tag(_TAG[part.op], kind, block(part.text)))
        else:
            parts.append(tag(_TAG[part.op], kind, escape(SIGNS[part.op]), block(part.text)) + "\n")
    shape = "diff card-diff-words" if element.by_words else "diff"
    return _labelled(shape, element.label, _pre(element.label, *parts))


def _fields(element: Fields) -> Markup:
    rows = [
        tag("div", {"class": "card-field"}, tag("dt", {}, line(i.label)), tag("dd", {}, line(i.value)))
        for i in element.items
    ]
    return tag("dl", {"class": "card-fields"}, *rows)


def _quote(element: Quote) -> Markup:
    said = tag("blockquote", {"class": "card-words", "dir": "auto"}, block(element.text))
    return _labelled("quote card-small" if element.small else "quote", element.label, said)


def _prose(element: Prose) -> Markup:
    parts = []
    for chunk in markdown.chunks(visible.block(element.text.raw)):
        if chunk.code:
            if chunk.language:
                parts.append(tag("div", {"class": "card-language"}, marked(chunk.language)))
            pre = {"class": "card-pre", "dir": "ltr", "tabindex": "0"}
            parts.append(tag("pre", pre, tag("code", {}, marked(chunk.text))))
        else:
            parts.append(tag("p", {"dir": "auto"}, *map(_run_of_text, markdown.inline(chunk.text))))
    return _labelled("prose", element.label, tag("div", {"class": "card-text"}, *parts))


def _run_of_text(chunk: markdown.Chunk) -> Markup:
    return tag("code", {}, marked(chunk.text)) if chunk.code else marked(chunk.text)


def _outcome(element: Outcome) -> Markup:
    return tag("p", {"class": f"card-outcome card-outcome-{element.state}"}, line(element.text))


def _hint(element: Hint) -> Markup:
    return tag("p", {"class": "card-hint card-small"}, escape(element.text))


def _footer(element: Footer) -> Markup:
    return tag("p", {"class": "card-footer card-small"}, line(element.text))


def _actions(element: Actions) -> Markup:
    return tag("div", {"class": "card-actions"}, *map(_button, element.buttons))


def _target(button: Button) -> dict[str, Any]:
    return {
        "data-verb": button.verb,
        "data-inquiry": button.inquiry_id or None,
        "data-task": button.task_id or None,
        "data-held": button.held_id or None,
        "data-revision": button.revision,
        "data-seen": button.seen or None,
    }


def _button(button: Button) -> Markup:
    look = f"card-button card-button-{button.style}"
    if not button.inputs:
        return tag("button", {"type": "button", "class": look, **_target(button)}, escape(button.label))
    form = _form(button, *map(_input, button.inputs))
    summary = tag("summary", {"class": look}, escape(button.label))
    return tag("details", {"class": f"card-more card-more-{button.verb}"}, summary, form)


def _form(button: Button, *content: Markup) -> Markup:
    look = f"card-button card-button-{button.style}"
    send = tag("button", {"type": "submit", "class": look}, escape(button.submit or button.label))
    return tag("form", {"class": "card-form", **_target(button)}, *content, send)


def _input(field: Input) -> Markup:
    if field.input is InputKind.CHECK:
        box = {"type": "checkbox", "name": field.name, "value": field.value.raw, "required": field.required}
        return tag(
            "label",
            {"class": "card-option"},
            void("input", box),
            Markup(" "),
            tag("span", {}, line(field.label)),
        )
    label = tag("span", {"class": "card-label"}, line(field.label))
    hint = tag("span", {"class": "card-small"}, escape(field.hint)) if field.hint else Markup("")
    return tag("label", {"class": "card-input"}, label, _control(field), hint)


def _control(field: Input) -> Markup:
    named = {"name": field.name, "data-kind": field.input, "required": field.required or None}
    if field.input is InputKind.BOOLEAN:
        options = [
            tag("option", {"value": value, "selected": field.value.raw == value or None}, escape(value))
            for value in ("true", "false")
        ]
        return tag("select", named, *options)
    if field.multiline:
        value = visible.block(field.value.raw)
        rows = min(_ROWS, max(2, value.count("\n") + 1))
        # The parser drops one line break at the start of a textarea: give it one to drop.
        return tag("textarea", {**named, "rows": rows, "spellcheck": "false"}, LINE_BREAK, escape(value))
    value = visible.inline(field.value.raw)
    mode = "decimal" if field.input is InputKind.NUMBER else None
    return void("input", {**named, "type": "text", "inputmode": mode, "value": value, "autocomplete": "off"})


def _questions(element: Questions) -> Markup:
    if element.send is None:
        return tag("div", {"class": "card-questions"}, *map(_asked, element.items))
    return tag("div", {"class": "card-questions"}, _form(element.send, *(_choices(q) for q in element.items)))


def _asked(question: Question) -> Markup:
    options = [tag("li", {"class": "card-option"}, *_option_text(option)) for option in question.options]
    return tag(
        "div",
        {"class": "card-question"},
        tag("p", {"class": "card-label"}, _question_text(question)),
        tag("ul", {"class": "card-options"}, *options),
    )


def _choices(question: Question) -> Markup:
    index = question.number - 1
    kind = "checkbox" if question.multiple else "radio"
    rows = [_choice(kind, index, str(at), *_option_text(o)) for at, o in enumerate(question.options)]
    other = escape(question.other)
    rows.append(_choice(kind, index, "other", tag("span", {"class": "card-option-label"}, other)))
    label = f"{question.other}: {visible.inline(question.text.raw)}"
    words = {"name": f"other.{index}", "rows": 1, "class": "card-other", "aria-label": label}
    return tag(
        "fieldset",
        {"class": "card-question"},
        tag("legend", {}, _question_text(question)),
        tag("p", {"class": "card-small"}, escape(question.note)),
        *rows,
        tag("textarea", words),
    )


def _choice(kind: str, index: int, value: str, *content: Markup) -> Markup:
    box = void("input", {"type": kind, "name": f"answer.{index}", "value": value})
    return tag("label", {"class": "card-option"}, box, Markup(" "), *content)


def _question_text(question: Question) -> Markup:
    header = tag("span", {"class": "card-question-header"}, inline(question.header))
    number = escape(f"{question.number}  ")
    return Markup("").join([number, header if question.header.raw else Markup(""), inline(question.text)])


def _option_text(option: Option) -> tuple[Markup, ...]:
    label = tag("span", {"class": "card-option-label"}, inline(option.label))
    parts = [label]
    if option.description.raw:
        parts += Markup(" "), tag("span", {"class": "card-option-description"}, inline(option.description))
    if option.preview.raw:
        parts.append(tag("pre", {"class": "card-option-preview"}, tag("code", {}, block(option.preview))))
    return tuple(parts)


_DRAW: Mapping[type, Callable[[Any], Markup]] = {
    Paragraph: _paragraph,
    Warn: _warning,
    Code: _code,
    Attachment: _attachment,
    Diff: _diff,
    Fields: _fields,
    Quote: _quote,
    Prose: _prose,
    Outcome: _outcome,
    Hint: _hint,
    Footer: _footer,
    Actions: _actions,
    Questions: _questions,
}
