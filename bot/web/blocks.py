"""Pieces of a page that are replaced one by one when they change.

A block is a piece of HTML with a key (which piece) and a hash (what it shows). The page's
script fetches the blocks of a region again and touches only those whose hash differs, so that
nobody loses what they type, their focus or what they unfolded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from cards import html, web
from cards.model import Card

HASH_CHARS = 16
"""64 bits of SHA-256: enough to notice a change."""


@dataclass(frozen=True)
class Block:
    """One piece. `html` is safe: made by our templates and renderers."""

    key: str
    html: Markup

    @property
    def hash(self) -> str:
        """Differs when anything shown differs."""
        return hashlib.sha256(self.html.encode()).hexdigest()[:HASH_CHARS]

    def __html__(self) -> Markup:
        """The piece with its key and hash."""
        attributes = {"class": "block", "data-key": self.key, "data-hash": self.hash}
        return html.tag("div", attributes, self.html)


def of_card(card: Card) -> Markup:
    """A card as HTML."""
    return Markup(web.render(card))  # noqa: S704  (the renderer escapes; its tests prove it)


def joined(blocks: Iterable[Block]) -> Markup:
    """The blocks of a region, in order."""
    return Markup("\n").join(blocks)
