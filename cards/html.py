"""The pieces of HTML that `cards.web` is built from. Everything is escaped on its way in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from cards import visible
from cards.model import Line, Theirs

LINE_BREAK = Markup("\n")


def tag(name: str, attributes: Mapping[str, Any], *children: Markup) -> Markup:
    """An element with its children."""
    return Markup("").join([void(name, attributes), *children, Markup("</{}>").format(name)])


def void(name: str, attributes: Mapping[str, Any]) -> Markup:
    """A start tag. Attributes that are None are left out, those that are True have no value."""
    parts = [Markup("<{}").format(name)]
    for key, value in attributes.items():
        if value is True:
            parts.append(Markup(" {}").format(key))
        elif value is not None:
            parts.append(Markup(' {}="{}"').format(key, str(value)))
    return Markup("").join([*parts, Markup(">")])


def marked(shown: str) -> Markup:
    """Text of `cards.visible`, with each escape in an element of its own."""
    return Markup("").join(
        tag("span", {"class": "card-hidden"}, escape(piece)) if hidden else escape(piece)
        for piece, hidden in visible.pieces(shown)
    )


def block(text: Theirs) -> Markup:
    """Untrusted text of several lines."""
    return marked(visible.block(text.raw))


def inline(text: Theirs) -> Markup:
    """Untrusted text within a line, kept from changing the direction of what surrounds it."""
    shown = marked(visible.inline(text.raw))
    if text.code:
        return tag("code", {"class": "card-value", "dir": "ltr"}, shown)
    return tag("bdi", {"class": "card-person" if text.actor else "card-theirs"}, shown)


def line(words: Line) -> Markup:
    """One line of ours and theirs."""
    parts = []
    for part in words:
        if isinstance(part, Theirs):
            parts.append(inline(part))
        else:
            text = escape(part.text)
            parts.append(tag("strong", {}, text) if part.strong else text)
    return Markup("").join(parts)


def plain(words: Line) -> str:
    """A line as text, for the value of an attribute (which is escaped where it is written)."""
    return "".join(visible.inline(p.raw) if isinstance(p, Theirs) else p.text for p in words)
