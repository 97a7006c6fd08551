"""Card -> plain text with a numbered list, for the terminal and for places where no card can go.

Untrusted text of several lines is indented, so that it cannot pass for a line of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cards import visible, wording
from cards.model import (
    SIGNS,
    WORD_SIGNS,
    Actions,
    Attachment,
    Card,
    Code,
    Diff,
    Element,
    Fields,
    Footer,
    Hint,
    Line,
    Outcome,
    Paragraph,
    Prose,
    Question,
    Questions,
    Quote,
    Step,
    StepsEnd,
    Theirs,
    Verb,
    Warn,
)

INDENT = "    "
_TYPED = (Verb.STOP, Verb.RETRY)
"""Verbs that have a word to type and no number."""


def render(card: Card) -> str:
    """The whole card as lines of text without a line break at the end."""
    lines = [plain(card.title)]
    if card.summary:
        lines.append(plain(card.summary))
    for element in card.elements:
        lines += _DRAW[type(element)](element, card.lang)
    return "\n".join(lines)


def plain(line: Line) -> str:
    """One line as text."""
    return "".join(visible.inline(p.raw) if isinstance(p, Theirs) else p.text for p in line)


def raw(line: Line) -> str:
    """A line as it was received, for a file or for another text of theirs."""
    return "".join(part.raw if isinstance(part, Theirs) else part.text for part in line)


def _indented(text: Theirs) -> Iterator[str]:
    return (INDENT + line for line in visible.block(text.raw).split("\n"))


def _labelled(label: Line, lines: Iterator[str], lang: str) -> list[str]:
    return [*([_before(label, lang).rstrip()] if label else []), *lines]


def _before(label: Line, lang: str) -> str:
    """A label with what stands between it and its value; a question needs no colon."""
    words = plain(label)
    return f"{words} " if words.endswith(("?", "？")) else words + wording.text(lang, "label.colon")


def _paragraph(element: Paragraph | Outcome | Footer, _: str) -> list[str]:
    return [plain(element.text)]


def _warning(element: Warn, _: str) -> list[str]:
    return [f"! {plain(element.text)}"]


def _block(element: Code | Quote | Prose | Attachment, lang: str) -> list[str]:
    return _labelled(element.label, _indented(element.text), lang)


def _diff(element: Diff, lang: str) -> list[str]:
    if not element.by_words:
        shown = (f"{SIGNS[part.op]}{visible.block(part.text.raw)}" for part in element.parts)
        return _labelled(element.label, (INDENT + line for part in shown for line in part.split("\n")), lang)
    words = ""
    for part in element.parts:
        start, end = WORD_SIGNS[part.op]
        words += f"{start}{visible.block(part.text.raw)}{end}"
    return _labelled(element.label, (INDENT + line for line in words.split("\n")), lang)


def _fields(element: Fields, lang: str) -> list[str]:
    return [_before(item.label, lang) + plain(item.value) for item in element.items]


def _questions(element: Questions, _: str) -> list[str]:
    return [line for question in element.items for line in _question(question, len(element.items) > 1)]


def _question(question: Question, several: bool) -> Iterator[str]:
    number = f"{question.number}  " if several else ""
    header = f"{visible.inline(question.header.raw)}: " if question.header.raw else ""
    yield f"{number}{header}{visible.inline(question.text.raw)} ({question.note})"
    for option in question.options:
        more = f" ({visible.inline(option.description.raw)})" if option.description.raw else ""
        yield f"{INDENT}{option.mark}  {visible.inline(option.label.raw)}{more}"
        if option.preview.raw:
            yield from (INDENT * 2 + line for line in _indented(option.preview))


def _step(element: Step, _: str) -> list[str]:
    return ["", plain(element.text)]


def _steps_end(_: StepsEnd, __: str) -> list[str]:
    return [""]


def _hint(element: Hint, _: str) -> list[str]:
    return [element.text]


def _actions(element: Actions, lang: str) -> list[str]:
    return [wording.text(lang, f"typed.{b.verb}") for b in element.buttons if b.verb in _TYPED]


_DRAW: Mapping[type[Element], Callable[[Any, str], list[str]]] = {
    Paragraph: _paragraph,
    Outcome: _paragraph,
    Footer: _paragraph,
    Warn: _warning,
    Code: _block,
    Quote: _block,
    Prose: _block,
    Attachment: _block,
    Diff: _diff,
    Fields: _fields,
    Questions: _questions,
    Step: _step,
    StepsEnd: _steps_end,
    Hint: _hint,
    Actions: _actions,
}
