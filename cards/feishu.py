"""Card -> Feishu card JSON 2.0, and the text that stands in where no card can go.

What a client of Feishu accepts is held here as constants; an unknown property, a repeated name or
one byte too many makes it refuse the whole card. Texts and their escaping are `feishu_text`, forms
and what comes back from them `feishu_forms`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from cards import choices, text, wording
from cards.attach import Fitted, attached, fitted, shortened
from cards.feishu_batch import body
from cards.feishu_elements import PREVIEW
from cards.feishu_text import (
    LOCALES,
    Component,
    alike,
    bulk,
    clipped,
    in_languages,
    line,
    neutral,
    plain,
    short_line,
    small,
)
from cards.model import (
    Actions,
    Attachment,
    Button,
    Card,
    CardState,
    Code,
    Element,
    Footer,
    Outcome,
    Paragraph,
    Questions,
    Step,
    Theirs,
    Warn,
)

MOST_BYTES = 28_000
"""UTF-8 bytes of a card's JSON. The limit is 30 KB, which tags of style inflate on the way."""
SMALL_BYTES = 6_000
"""The same for a card that was refused as too large all the same."""
MOST_ELEMENTS = 200
"""Elements of a card, text objects included."""
MOST_LEVELS = 5
"""Elements inside one another."""
TEXT_BYTES = 100_000
"""UTF-8 bytes of a text message; the limit is 150 KB for the request."""
SUMMARY = 200
"""Characters of the preview in the list of chats."""
MOST_FILES = 8
"""Files of one card: each is a message, of which a group takes 5 in a second."""
_HEADING = 40
"""Characters of theirs in the header, whose lines a client cuts, from which the body repeats it."""
_LINE = 60
"""Characters of each text of theirs in a line, and half the parts of a line, whose whole is in a file."""
_BULK = 100_000
"""Characters of theirs from which a card is not drawn to see whether it fits."""
_MOST_LINES = 8
"""Warnings, and other lines, of a card whose whole text is in a file."""

_COLOURS: Mapping[CardState, str] = {
    CardState.PENDING: "blue",
    CardState.APPROVED: "green",
    CardState.CHANGED: "turquoise",
    CardState.REJECTED: "red",
    CardState.ANSWERED: "turquoise",
    CardState.EXPIRED: "grey",
    CardState.WITHDRAWN: "grey",
    CardState.UNKNOWN: "orange",
    CardState.QUEUED: "wathet",
    CardState.WORKING: "wathet",
    CardState.WAITING: "blue",
    CardState.DONE: "green",
    CardState.FAILED: "red",
    CardState.STOPPED: "grey",
    CardState.STUCK: "orange",
}


def render(card: Card, others: Sequence[Card] = ()) -> dict[str, Any]:
    """The whole card object. `others` are the same card in other languages.

    Each viewer then reads their own; a language whose card is built differently is left out, and
    all of them are if the card would not fit with them.
    """
    own = _drawn(card)
    locale = LOCALES.get(card.lang, LOCALES["en"])
    trees = {locale: own}
    for other in others:
        tree = _drawn(other)
        if other.lang in LOCALES and alike(own, tree):
            trees.setdefault(LOCALES[other.lang], tree)
    whole: dict[str, Any] = in_languages(locale, trees)
    return whole if _within(whole, MOST_BYTES) else own


def dumps(drawn: Mapping[str, Any]) -> str:
    """The JSON that is sent and measured; escapes for other scripts would multiply its size."""
    return json.dumps(drawn, ensure_ascii=False)


def fits(card: Card) -> bool:
    """Whether the card, in its own language, is within the limits."""
    return _within(_drawn(card), MOST_BYTES)


def summary(card: Card) -> str:
    """What the list of chats shows of it: one line of at most `SUMMARY` characters."""
    outcomes = [element.text for element in card.elements if isinstance(element, Outcome)]
    said = wording.joined([card.title, outcomes[-1] if outcomes else card.summary])
    return clipped(neutral(text.plain(said)), SUMMARY)


def _within(drawn: Mapping[str, Any], most_bytes: int) -> bool:
    elements, levels = _measured(drawn)
    return len(dumps(drawn).encode()) <= most_bytes and elements <= MOST_ELEMENTS and levels <= MOST_LEVELS


def _measured(part: Any) -> tuple[int, int]:
    """(elements, levels) of a part of a card."""
    if not isinstance(part, dict | list):
        return 0, 0
    inside = [_measured(item) for item in (part.values() if isinstance(part, dict) else part)]
    own = int(isinstance(part, dict) and "tag" in part)
    return own + sum(count for count, _ in inside), own + max((deep for _, deep in inside), default=0)


def _drawn(card: Card) -> dict[str, Any]:
    elements = [*_repeated(card), *body(card)]
    return {
        "schema": "2.0",
        "config": {"update_multi": True, "enable_forward": False, "summary": {"content": summary(card)}},
        "header": _header(card),
        "body": {"elements": elements or [small(wording.text(card.lang, f"feishu.state.{card.state}"))]},
    }


def _header(card: Card) -> Component:
    colour = _COLOURS[card.state]
    state = wording.text(card.lang, f"feishu.state.{card.state}")
    tag = {"tag": "text_tag", "text": plain(state), "color": "neutral" if colour == "grey" else colour}
    head: Component = {"title": plain(text.plain(card.title)), "template": colour, "text_tag_list": [tag]}
    return {**head, "subtitle": plain(text.plain(card.summary))} if card.summary else head


def _repeated(card: Card) -> Iterator[Component]:
    for words in (card.title, card.summary):
        if sum(len(part.raw) for part in words if isinstance(part, Theirs)) > _HEADING:
            yield line(words)


def numbered(card: Card) -> str:
    """The card as a text message of at most `TEXT_BYTES`, in which nothing formats or mentions.

    Of attached texts it shows the beginning. A card too long for one message is one whose files
    are not there: what is missing is named, and nothing is offered that approves.
    """

    def holds(tried: Card) -> bool:
        return bulk(tried, PREVIEW) <= _BULK and len(_as_text(tried).encode()) <= TEXT_BYTES

    if holds(card):
        return _as_text(card)
    done = fitted(card, lambda c: holds(c) or _files(c) > MOST_FILES, uploaded=False)
    return _as_text(done.card if holds(done.card) else _gathered(card, _Keep.NO_FORM, False, "").card)


def _as_text(card: Card) -> str:
    elements: list[Element] = []
    for element in card.elements:
        if isinstance(element, Attachment):
            elements.append(Code(label=element.label, text=Theirs(raw=element.text.raw[:PREVIEW])))
            if len(element.text.raw) > PREVIEW:
                elements.append(Paragraph(text=wording.line(card.lang, "feishu.beginning")))
        else:
            elements.append(element)
    return neutral(text.render(card.model_copy(update={"elements": tuple(elements)})))


def fit(card: Card, *, uploaded: bool, small: bool = False, prefix: str = "") -> Fitted:
    """The card within the limits (`small`: far within), what is too long in files.

    First the longest texts become files of their own; if that is not enough, or would be too many
    files, one file holds all there is to read and the card keeps the beginnings. Last to go is
    the form of the questions, which are then answered by typing.
    """
    most = SMALL_BYTES if small else MOST_BYTES
    card = _without_edits(card) if small else card

    last: list[tuple[Card, bool]] = []  # drawing is what costs, and the first try mostly is the last

    def holds(tried: Card) -> bool:
        if not last or last[0][0] is not tried:
            last[:] = [(tried, bulk(tried, PREVIEW) <= _BULK and _within(_drawn(tried), most))]
        return last[0][1]

    done = fitted(card, lambda c: holds(c) or _files(c) > MOST_FILES, uploaded=uploaded, prefix=prefix)
    for step in (None, *_Keep):
        done = done if step is None else _gathered(card, step, uploaded, prefix)
        if holds(done.card) and len(done.files) <= MOST_FILES:
            break
    return done


def holds(card: Card, *, small: bool = False) -> bool:
    """Whether the card fits with files for single texts: then every step of a batch keeps its buttons."""
    most = SMALL_BYTES if small else MOST_BYTES
    card = _without_edits(card) if small else card

    def within(tried: Card) -> bool:
        return bulk(tried, PREVIEW) <= _BULK and _within(_drawn(tried), most)

    done = fitted(card, lambda c: within(c) or _files(c) > MOST_FILES, uploaded=True)
    return within(done.card) and len(done.files) <= MOST_FILES


class _Keep(Enum):
    """What stays on a card whose whole text is in one file."""

    FORM = 300
    SHORT_FORM = 40
    NO_FORM = 0


def _gathered(card: Card, keep: _Keep, uploaded: bool, prefix: str) -> Fitted:
    texts = [text.raw(card.title), text.raw(card.summary)]
    rest: list[Element] = []
    for element in card.elements:
        content, kept = _apart(card, element, keep)
        texts.append(content)
        rest += kept
    label = wording.line(card.lang, "feishu.everything")
    whole = Code(label=label, text=Theirs(raw="\n\n".join(filter(None, texts))))
    first = [element for element in rest if isinstance(element, Warn)][:_MOST_LINES]
    lines = [element for element in rest if isinstance(element, Paragraph)][:_MOST_LINES]
    more = [element for element in rest if not isinstance(element, Warn | Paragraph)]
    heads = {"title": short_line(card.title, _LINE), "summary": short_line(card.summary, _LINE)}
    elements = (*first, whole, *lines, *more)
    short = card.model_copy(update={**heads, "elements": elements})
    # Exactly the longest text is moved, which is the one that holds all others.
    return fitted(short, lambda c: _files(c) > 0, uploaded=uploaded, prefix=prefix)


def _apart(card: Card, element: Element, keep: _Keep) -> tuple[str, list[Element]]:
    """What an element adds to the file, and what of it stays on the card."""
    if isinstance(element, Paragraph | Warn | Outcome | Footer):
        return text.raw(element.text), [element.model_copy(update={"text": short_line(element.text, _LINE)})]
    if isinstance(element, Step):
        return text.raw(element.text), [element.model_copy(update={"text": short_line(element.text, _LINE)})]
    if isinstance(element, Attachment):
        return f"{text.raw(element.label)}\n{element.text.raw}", []
    alone = attached(card.model_copy(update={"elements": (element,)}), limit=0, uploaded=True)
    if not alone.files:
        return "", [element]
    content = "\n".join([*filter(None, [text.raw(getattr(element, "label", ()))]), alone.files[0].text.raw])
    if not isinstance(element, Questions):
        return content, []
    if keep is not _Keep.NO_FORM:
        return content, [shortened(element, keep.value)]
    typed = element.send is not None
    return content, [Paragraph(text=wording.line(card.lang, "feishu.reply_instead"))] if typed else []


def _without_edits(card: Card) -> Card:
    """The card without the fields to edit, each of which repeats what is shown."""
    elements = [
        element.model_copy(update={"buttons": tuple(map(_in_words, element.buttons))})
        if isinstance(element, Actions)
        else element
        for element in card.elements
    ]
    return card.model_copy(update={"elements": tuple(elements)})


def _in_words(button: Button) -> Button:
    kept = tuple(field for field in button.inputs if not field.name.startswith(choices.INPUT))
    return button.model_copy(update={"inputs": kept})


def _files(card: Card) -> int:
    return sum(isinstance(element, Attachment) for element in card.elements)
