"""The elements of a card as components of Feishu card JSON 2.0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cards import markdown, text, visible, wording
from cards.feishu_forms import actions, question_form, question_text
from cards.feishu_text import Component, boxed, div, folded, line, small
from cards.model import (
    SIGNS,
    WORD_SIGNS,
    Actions,
    Attachment,
    Code,
    Diff,
    Element,
    Fields,
    Footer,
    Hint,
    Item,
    Line,
    Outcome,
    Paragraph,
    Prose,
    Questions,
    Quote,
    Step,
    StepsEnd,
    Warn,
)

RULE: Component = {"tag": "hr"}
PREVIEW = 400
"""Characters of an attached text that stay on the card."""


def components(element: Element, lang: str) -> list[Component]:
    """One element of ours as the components that stand for it."""
    return _DRAW[type(element)](element, lang)


def _label(label: Line, lang: str) -> list[Component]:
    return [small(_named(label, lang))] if label else []


def _named(label: Line, lang: str) -> str:
    return text.plain(label) or wording.text(lang, "feishu.empty")


def _whole(shown: str, lang: str) -> Component:
    return div(shown) if shown else small(wording.text(lang, "feishu.empty"))


def _paragraph(element: Paragraph | Outcome, _: str) -> list[Component]:
    return [line(element.text)]


def _warning(element: Warn, _: str) -> list[Component]:
    return [line(element.text, before="⚠ ", colour="orange")]


def _footer(element: Footer, _: str) -> list[Component]:
    return [line(element.text, size="notation", colour="grey")]


def _step(element: Step, _: str) -> list[Component]:
    return [RULE, line(element.text, size="heading")]


def _steps_end(_: StepsEnd, __: str) -> list[Component]:
    return [RULE]


def _hint(element: Hint, _: str) -> list[Component]:
    return [small(element.spaced)]


def _code(element: Code, lang: str) -> list[Component]:
    shown = _whole(visible.block(element.text.raw), lang)
    if element.folded:
        return [folded(_named(element.label, lang), shown)]
    return [*_label(element.label, lang), boxed(shown)]


def _quote(element: Quote, lang: str) -> list[Component]:
    shown = _whole(visible.block(element.text.raw), lang)
    return (
        [folded(_named(element.label, lang), shown)]
        if element.small
        else [*_label(element.label, lang), shown]
    )


def _attachment(element: Attachment, lang: str) -> list[Component]:
    shown, more = _beginning(element.text.raw)
    note = [small(wording.text(lang, "feishu.beginning"))] if more else []
    return [div(text.plain(element.label)), boxed(_whole(shown, lang)), *note]


def _beginning(raw: str) -> tuple[str, bool]:
    """At most `PREVIEW` characters as shown, no escape cut in two, and whether there is more."""
    taken = ""
    for piece, hidden in visible.pieces(visible.block(raw[:PREVIEW])):
        room = PREVIEW - len(taken)
        if len(piece) > room:
            return taken + ("" if hidden else piece[:room]), True
        taken += piece
    return taken, len(raw) > PREVIEW


def _diff(element: Diff, lang: str) -> list[Component]:
    if element.by_words:
        runs = ((*WORD_SIGNS[part.op], visible.block(part.text.raw)) for part in element.parts)
        shown = "".join(f"{start}{words}{end}" for start, end, words in runs)
    else:
        shown = "\n".join(SIGNS[part.op] + visible.block(part.text.raw) for part in element.parts)
    return [*_label(element.label, lang), boxed(_whole(shown, lang))]


def _fields(element: Fields, lang: str) -> list[Component]:
    return [div("\n".join(_item(item, lang) for item in element.items))]


def _item(item: Item, lang: str) -> str:
    label = text.plain(item.label)
    return (
        label
        + (" " if label.endswith(("?", "？")) else wording.text(lang, "label.colon"))
        + text.plain(item.value)
    )


def _prose(element: Prose, lang: str) -> list[Component]:
    parts: list[Component] = []
    words: list[str] = []
    for chunk in markdown.chunks(visible.block(element.text.raw)):
        if chunk.code:
            parts += [div("\n\n".join(words))] if words else []
            parts.append(boxed(_whole(chunk.text, lang)))
            words = []
        else:
            words.append(chunk.text)
    return [*_label(element.label, lang), *parts, *([div("\n\n".join(words))] if words else [])]


def _questions(element: Questions, lang: str) -> list[Component]:
    if element.send is None:
        return [question_text(question) for question in element.items]
    return [question_form(element, element.send, lang)]


def _actions(element: Actions, lang: str) -> list[Component]:
    return list(actions(element, lang))


_DRAW: Mapping[type[Element], Callable[[Any, str], list[Component]]] = {
    Paragraph: _paragraph,
    Outcome: _paragraph,
    Warn: _warning,
    Footer: _footer,
    Hint: _hint,
    Code: _code,
    Quote: _quote,
    Attachment: _attachment,
    Diff: _diff,
    Fields: _fields,
    Prose: _prose,
    Questions: _questions,
    Step: _step,
    StepsEnd: _steps_end,
    Actions: _actions,
}
