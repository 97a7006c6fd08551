"""Makes a card fit where space is limited: what is too long becomes an attachment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agent_runner.model import Value
from cards import text, wording
from cards.model import (
    APPROVES,
    SIGNS,
    WORD_SIGNS,
    Actions,
    Attachment,
    Card,
    Code,
    Diff,
    Element,
    Fields,
    Hint,
    Line,
    Prose,
    Question,
    Questions,
    Quote,
    Theirs,
    Verb,
)

_NEEDS_THE_TEXT = (*APPROVES, Verb.APPROVE_ALL, Verb.CHANGE, Verb.ANSWER)
BEGINNING = 300
"""Characters of each text of a question that stay on a card whose questions are attached."""


class Fitted(Value):
    """A card that fits, and the files that belong to it."""

    card: Card
    files: tuple[Attachment, ...]


def fitted(card: Card, fits: Callable[[Card], bool], *, uploaded: bool, prefix: str = "") -> Fitted:
    """The card with as many of its texts as needed turned into attachments, the longest first.

    `fits` is asked until it says yes or nothing is left to move; then the card is as small as it
    gets. As long as the files are not `uploaded`, nothing on the card approves: the whole text
    must be within reach of whoever says yes. `prefix` begins the names of the files.
    """
    moved: set[int] = set()
    while True:
        done = _moved(card, moved, uploaded, prefix)
        movable = [at for at, element in enumerate(card.elements) if at not in moved and _text(element)]
        if fits(done.card) or not movable:
            return done
        moved.add(max(movable, key=lambda at: len(_content(card.elements[at]))))


def attached(card: Card, *, limit: int, uploaded: bool) -> Fitted:
    """The card with every text longer than `limit` characters turned into an attachment."""
    long = {at for at, element in enumerate(card.elements) if len(_content(element)) > limit}
    return _moved(card, long, uploaded)


def _moved(card: Card, moved: set[int], uploaded: bool, prefix: str = "") -> Fitted:
    elements: list[Element] = []
    files: list[Attachment] = []
    for at, element in enumerate(card.elements):
        found = _text(element) if at in moved else None
        if found is None:
            elements.append(element)
            continue
        name = f"{prefix}part-{len(files) + 1}.txt"
        files.append(_attachment(card.lang, found[0], name, found[1], uploaded))
        elements.append(files[-1])
        if isinstance(element, Questions):
            elements.append(shortened(element, BEGINNING))
    if files and not uploaded:
        elements = [kept for element in elements for kept in _without_yes(element)]
    return Fitted(card=card.model_copy(update={"elements": tuple(elements)}), files=tuple(files))


def _content(element: Element) -> str:
    found = _text(element)
    return found[1] if found else ""


def _text(element: Element) -> tuple[Line, str] | None:
    """What of an element can go into a file: its label, and its text as it is."""
    if isinstance(element, Code | Quote | Prose):
        return element.label, element.text.raw
    if isinstance(element, Diff):
        return element.label, _diff(element)
    if isinstance(element, Fields):
        return (), "\n".join(f"{text.raw(item.label)}: {text.raw(item.value)}" for item in element.items)
    if isinstance(element, Questions):
        return (), "\n".join(line for question in element.items for line in _question(question))
    return None


def _diff(element: Diff) -> str:
    if not element.by_words:
        return "\n".join(SIGNS[part.op] + part.text.raw for part in element.parts)
    signs = ((*WORD_SIGNS[part.op], part.text.raw) for part in element.parts)
    return "".join(f"{start}{words}{end}" for start, end, words in signs)


def _question(question: Question) -> Iterator[str]:
    yield f"{question.number}  {question.header.raw}  {question.text.raw} ({question.note})"
    for option in question.options:
        yield f"    {option.mark}  {option.label.raw}"
        if option.description.raw:
            yield f"        {option.description.raw}"
        if option.preview.raw:
            yield from (f"        {line}" for line in option.preview.raw.split("\n"))


def _attachment(lang: str, label: Line, name: str, content: str, uploaded: bool) -> Attachment:
    size = wording.number(lang, len(content))
    label = label or wording.line(lang, "label.details")
    if uploaded:
        words = wording.line(lang, "label.attached", label=label, filename=name, size=size)
    else:
        words = wording.line(lang, "label.not_attached", label=label, size=size)
    return Attachment(label=words, filename=name, text=Theirs(raw=content))


def shortened(element: Questions, longest: int) -> Questions:
    """The questions with at most so many characters of each text, for where a file has the whole."""

    def short(theirs: Theirs) -> Theirs:
        if len(theirs.raw) <= longest:
            return theirs
        return Theirs(raw=f"{theirs.raw[:longest].rstrip(' …')} …", code=theirs.code)

    items = []
    for question in element.items:
        options = tuple(
            option.model_copy(
                update={
                    "label": short(option.label),
                    "description": short(option.description),
                    "preview": Theirs(raw=""),
                }
            )
            for option in question.options
        )
        words = {"header": short(question.header), "text": short(question.text), "options": options}
        items.append(question.model_copy(update=words))
    return element.model_copy(update={"items": tuple(items)})


def _without_yes(element: Element) -> tuple[Element, ...]:
    if isinstance(element, Hint):
        return ()
    if isinstance(element, Questions):
        return (Questions(items=element.items),)
    if isinstance(element, Actions):
        kept = tuple(button for button in element.buttons if button.verb not in _NEEDS_THE_TEXT)
        return (Actions(buttons=kept),) if kept else ()
    return (element,)
