"""Card -> Block Kit: the blocks of a message, and what stands in for them where they do not fit.

Limits and their sources are beside the code that meets them: here, in `slack_parts` (texts), in
`slack_draw` (elements) and in `slack_forms` (inputs and views). Nothing is cut to meet a limit: what
is long is split, and what does not fit at all becomes a file (`fit`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from cards import slack_forms, text, wording
from cards.attach import Fitted, fitted, shortened
from cards.model import (
    Attachment,
    Card,
    Code,
    Element,
    Hint,
    Paragraph,
    Questions,
    Step,
    Theirs,
)
from cards.slack_draw import DIVIDER, DRAW, head, header
from cards.slack_parts import (
    TEXT,
    escaped,
    rich,
    run,
    section,
    size,
    small_words,
    weight,
    words,
)

BLOCKS = 50
"""Blocks of a message (docs.slack.dev/reference/block-kit/blocks)."""
SECTION = TEXT
"""Characters of one text (docs.slack.dev, text object)."""
TOTAL = 12_000
"""Characters of all blocks as JSON. Not documented; `msg_blocks_too_long` was reported at about 13,200
(github.com/slackapi/bolt-js/issues/2509)."""
SMALL = 5_000
"""The same for the shorter card after a refusal: what stays on every card needs about 3,000."""
MESSAGE = 3_900
"""Characters of a message without blocks; chat.update refuses more than 4,000 (`msg_too_long`)."""
SUMMARY = 300
"""Characters of the text beside the blocks: a notification shows fewer (our choice)."""

_SHORT = 70
"""Characters that stay of each text of a question where the usual beginning is still too long."""


def render(card: Card) -> list[dict[str, Any]]:
    """The blocks of a message. Equal cards give equal blocks; see `fits` for whether Slack takes them."""
    blocks = head(card)
    for element in card.elements:
        blocks += DRAW[type(element)](element, card.lang)
    return [block for block in blocks if block.get("elements") != []]


def summary(card: Card) -> str:
    """The `text` of a message, for notifications: title and summary, escaped, at most 300 characters."""
    whole = " · ".join(filter(None, [words(card.title), words(card.summary)]))
    out = ""
    for char in whole:
        if len(out) + len(escaped(char)) >= SUMMARY:
            return out + "…"
        out += escaped(char)
    return out


def fits(card: Card) -> bool:
    """Whether Slack takes the card as one message; `render` meets the limits of each block itself."""
    return _within(card, TOTAL)


def _within(card: Card, total: int) -> bool:
    blocks = render(card)
    return len(blocks) <= BLOCKS and size(blocks) <= total


def holds(card: Card, *, small: bool = False) -> bool:
    """Whether the card fits with files for single texts: then every step of a batch keeps its buttons."""
    enough = _is_small if small else fits
    if len(card.elements) > BLOCKS * 3:
        return False
    return enough(fitted(card, enough, uploaded=True).card)


def _is_small(card: Card) -> bool:
    return _within(card, SMALL) and len(_fenced(card)) <= MESSAGE


def fit(card: Card, *, uploaded: bool, small: bool = False, prefix: str = "") -> Fitted:
    """The card with texts moved into files until it fits (see `cards.attach.fitted`).

    Where files for single texts do not help, all texts go into one; then questions are shortened
    further, and at last left to the file, to be answered by typing. `small`: for after a
    refusal; such a card also fits into `numbered`.
    """
    enough = _is_small if small else fits
    if len(card.elements) <= BLOCKS:
        done = fitted(card, enough, uploaded=uploaded, prefix=prefix)
        if enough(done.card):
            return done
    done = _gathered(card, uploaded, prefix)
    for change in (_as_it_is, _shorter, _left_out):
        elements = tuple(kept for element in done.card.elements for kept in change(element))
        shown = Fitted(card=done.card.model_copy(update={"elements": elements}), files=done.files)
        if enough(shown.card):
            break
    return shown


def _gathered(card: Card, uploaded: bool, prefix: str) -> Fitted:
    """The card with all its texts in one file, one below the other, each below its label.

    Texts are indented there, so that none can pass for the label of another.
    """
    texts: list[str] = []
    rest: list[Element] = []
    for element in card.elements:
        if isinstance(element, Step):  # what follows in the file is of this one
            texts.append(text.raw(element.text))
        alone = fitted(card.model_copy(update={"elements": (element,)}), _never, uploaded=True)
        rest += (kept for kept in alone.card.elements if not isinstance(kept, Attachment))
        for file in alone.files:
            label = getattr(element, "label", ()) or wording.line(card.lang, "label.details")
            texts.append(
                f"{text.raw(label)}\n{text.INDENT}" + file.text.raw.replace("\n", f"\n{text.INDENT}")
            )
    if not texts:
        return Fitted(card=card, files=())
    whole = Code(label=wording.line(card.lang, "label.details"), text=Theirs(raw="\n\n".join(texts)))
    together = card.model_copy(update={"elements": (whole, *rest)})
    return fitted(together, _has_file, uploaded=uploaded, prefix=prefix)


def _never(_: Card) -> bool:
    return False


def _has_file(card: Card) -> bool:
    return any(isinstance(element, Attachment) for element in card.elements)


def _as_it_is(element: Element) -> tuple[Element, ...]:
    return (element,)


def _shorter(element: Element) -> tuple[Element, ...]:
    """Questions of which only the beginnings stay; the file has the whole."""
    return (shortened(element, _SHORT) if isinstance(element, Questions) else element,)


def _left_out(element: Element) -> tuple[Element, ...]:
    return () if isinstance(element, Questions) else (element,)


def numbered(card: Card) -> str:
    """The card as the text of a message without blocks, at most 3900 characters.

    Meant for `fit(card, ..., small=True).card`. What is longer is cut, says so, and says nothing
    of how to approve by typing.
    """
    whole = _fenced(card)
    if len(whole) <= MESSAGE:
        return whole
    note = f"\n{escaped(wording.text(card.lang, 'slack.cut'))}"
    body = _shown_as_text(card.settled())
    kept: list[str] = []
    room = MESSAGE - len(note) - len("```\n…\n```")
    for char in body:
        room -= len(escaped(char))
        if room < 0:
            return f"```\n{escaped(''.join(kept))}…\n```{note}"
        kept.append(char)
    return f"```\n{escaped(body)}\n```{note}"


def _fenced(card: Card) -> str:
    return f"```\n{escaped(_shown_as_text(card))}\n```"


def _shown_as_text(card: Card) -> str:
    """The numbered list without the texts of files; no backticks that could close the fence."""
    elements = (
        Paragraph(text=element.label) if isinstance(element, Attachment) else element
        for element in card.elements
    )
    shown = text.render(card.model_copy(update={"elements": tuple(elements)}))
    return re.sub("`{2,}", lambda match: f"⟨U+0060×{len(match[0])}⟩", shown)


def home(cards: Sequence[Card], title: str, empty: str, more: Callable[[int], str]) -> dict[str, Any]:
    """A home view: the cards below one another, at most 100 blocks and 230 kB.

    `more(n)` says how many did not fit; `empty` is shown if there are none. Questions are drawn
    without inputs: they are answered in their thread.
    """
    blocks = [header(title)]
    if not cards:
        blocks.append(rich(section(run(empty or "…"))))
    for at, card in enumerate(cards):
        added = [DIVIDER, *render(_for_home(card))]
        last = at + 1 == len(cards)
        room = slack_forms.VIEW_BLOCKS - (0 if last else 1)
        if len(blocks) + len(added) > room or weight([*blocks, *added]) > slack_forms.VIEW_BYTES:
            return {"type": "home", "blocks": [*blocks, *small_words(more(len(cards) - at))]}
        blocks += added
    return {"type": "home", "blocks": blocks}


def _for_home(card: Card) -> Card:
    shown = fit(card, uploaded=False).card
    kept = [_read_only(element) for element in shown.elements if not isinstance(element, Hint)]
    return shown.model_copy(update={"elements": tuple(kept)})


def _read_only(element: Element) -> Element:
    return element.having(send=None) if isinstance(element, Questions) else element
