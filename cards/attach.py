"""Makes a card fit where text is limited: what is too long becomes an attachment."""

from __future__ import annotations

from agent_runner.model import Value
from cards import wording
from cards.model import (
    Actions,
    Attachment,
    Card,
    Code,
    Diff,
    Element,
    Hint,
    Line,
    Op,
    Prose,
    Quote,
    Theirs,
    Verb,
)

_NEEDS_THE_TEXT = (Verb.APPROVE, Verb.CHANGE, Verb.ALWAYS)
_SIGN = {Op.SAME: "  ", Op.ADDED: "+ ", Op.REMOVED: "- ", Op.GAP: "  "}


class Fitted(Value):
    """A card that fits, and the files that belong to it."""

    card: Card
    files: tuple[Attachment, ...]


def attached(card: Card, *, limit: int, uploaded: bool) -> Fitted:
    """The card with every text longer than `limit` characters turned into an attachment.

    As long as the files are not `uploaded`, nothing on the card approves: the whole text must be
    within reach of whoever says yes.
    """
    elements: list[Element] = []
    files: list[Attachment] = []
    for element in card.elements:
        found = _text(element)
        if found is None or len(found[1]) <= limit:
            elements.append(element)
            continue
        name = f"part-{len(files) + 1}.txt"
        files.append(_attachment(card.lang, found[0], name, found[1], uploaded))
        elements.append(files[-1])
    if files and not uploaded:
        elements = [kept for element in elements for kept in _without_yes(element)]
    return Fitted(card=card.model_copy(update={"elements": tuple(elements)}), files=tuple(files))


def _text(element: Element) -> tuple[Line, str] | None:
    if isinstance(element, Code | Quote | Prose):
        return element.label, element.text.raw
    if isinstance(element, Diff):
        if element.by_words:
            return element.label, "".join(part.text.raw for part in element.parts)
        return element.label, "\n".join(_SIGN[part.op] + part.text.raw for part in element.parts)
    return None


def _attachment(lang: str, label: Line, name: str, text: str, uploaded: bool) -> Attachment:
    size = wording.number(lang, len(text))
    if uploaded:
        words = wording.line(lang, "label.attached", label=label, filename=name, size=size)
    else:
        words = wording.line(lang, "label.not_attached", label=label, size=size)
    return Attachment(label=words, filename=name, text=Theirs(raw=text))


def _without_yes(element: Element) -> tuple[Element, ...]:
    if isinstance(element, Hint):
        return ()
    if isinstance(element, Actions):
        kept = tuple(button for button in element.buttons if button.verb not in _NEEDS_THE_TEXT)
        return (Actions(buttons=kept),) if kept else ()
    return (element,)
