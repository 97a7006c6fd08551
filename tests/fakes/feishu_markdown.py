"""What Feishu's markdown makes of a text: whom it mentions, which pictures and links it holds.

Sources, all official: the JSON 2.0 rich text component (feishu-cards/card-json-v2-components/
content-components/rich-text: full CommonMark without HTML blocks, plus the listed tags), the card FAQ
("sending cards" 5, 6, 9, 10) and the message content page (im-v1/message/create_json) for text messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_TICKS = re.compile(r"`+")
_AT = re.compile(r"<at(?=[\s/>])([^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(\w+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'/>]+)""")
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]*)[^)]*\)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)]*)\)|<a\s+href\s*=\s*[\"']?([^\"'>\s]*)", re.IGNORECASE)
_BARE_URL = re.compile(r"https?://[^\s<>()\[\]\"'`]*", re.IGNORECASE)
_TABLE_RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$", re.MULTILINE)
_TEXT_AT = re.compile(r"<at\s+user_id\s*=\s*[\"']?([^\"'>\s]+)", re.IGNORECASE)
_TITLE = re.compile(r"""\s+("[^"]*"|'[^']*')\s*$""")
_SCHEMES = ("http://", "https://", "tel://", "mailto:", "lark://")


@dataclass(frozen=True)
class Mention:
    """One `<at>`: `kind` is id, email or all; `in_code` when CommonMark shows it as code instead."""

    kind: str
    target: str
    in_code: bool = False


def prose_of(markdown: str) -> str:
    """The text without code blocks, code spans and backslash escapes: what is parsed as markup."""
    return _without_spans(_without_blocks(markdown))


def mentions_of(markdown: str) -> list[Mention]:
    """Every mention of a card's markdown; those inside code are marked, as nobody documents them."""
    live = list(_mentions(prose_of(markdown)))
    everything = list(_mentions(markdown))
    hidden = [mention for mention in everything if mention not in live]
    return live + [Mention(mention.kind, mention.target, in_code=True) for mention in hidden]


def text_mentions_of(text: str) -> list[Mention]:
    """Every mention of a text message, whose syntax is another one: `<at user_id="...">`."""
    return [_mention_of_id(target) for target in _TEXT_AT.findall(text)]


def images_of(markdown: str) -> list[str]:
    """The picture keys a markdown text shows."""
    return _IMAGE.findall(prose_of(markdown))


def bad_links_of(markdown: str) -> list[str]:
    """The links that make a send fail: no http(s) scheme, spaces, or a bare URL that runs into Chinese."""
    prose = prose_of(markdown)
    linked = [_TITLE.sub("", first or second) for first, second in _LINK.findall(prose)]
    bad = [url for url in linked if not url.lower().startswith(_SCHEMES) or " " in url.strip()]
    bare = [match.group() for match in _BARE_URL.finditer(_LINK.sub(" ", prose))]
    return bad + [url for url in bare if any("\u2e80" <= char <= "\uffef" for char in url)]


def tables_of(markdown: str) -> int:
    """How many tables a markdown text holds."""
    return len(_TABLE_RULE.findall(_without_blocks(markdown)))


def _mentions(text: str) -> Iterator[Mention]:
    for tag in _AT.findall(text):
        attributes = {key.lower(): value.strip("\"'") for key, value in _ATTRIBUTE.findall(tag)}
        if "email" in attributes:
            yield Mention("email", attributes["email"])
        for target in (attributes.get("ids") or attributes.get("id", "")).split(","):
            if target.strip():
                yield _mention_of_id(target.strip())


def _mention_of_id(target: str) -> Mention:
    return Mention("all", "all") if target.lower() == "all" else Mention("id", target)


def _without_blocks(markdown: str) -> str:
    kept: list[str] = []
    fence = ""
    blank_before = True
    for line in markdown.split("\n"):
        match = _FENCE.match(line)
        if fence:
            closes = match and match[1].startswith(fence) and not match[2].strip()
            fence = "" if closes else fence
            kept.append("")
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
            kept.append("")
        elif line.startswith(("    ", "\t")) and blank_before:
            kept.append("")  # an indented block: stays one until a line that is less indented
            continue
        else:
            kept.append(line)
        blank_before = not line.strip()
    return "\n".join(kept)


def _without_spans(text: str) -> str:
    parts: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\" and position + 1 < len(text):
            parts.append("\ufffc")  # an escaped character is a character, never markup
            position += 2
        elif char == "`":
            position = _skip_ticks(text, position, parts)
        else:
            parts.append(char)
            position += 1
    return "".join(parts)


def _skip_ticks(text: str, position: int, parts: list[str]) -> int:
    run = _TICKS.match(text, position)
    assert run is not None  # the caller stands on a backtick
    for other in _TICKS.finditer(text, run.end()):
        if "\n\n" in text[run.end() : other.start()]:
            break  # a span ends with its paragraph
        if len(other.group()) == len(run.group()):
            parts.append("\ufffc")
            return other.end()
    parts.append(run.group())
    return run.end()
