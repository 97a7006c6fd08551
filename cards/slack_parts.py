"""The pieces that Slack messages and views are built from. Nothing in them acts but what is ours.

Untrusted text stands in rich text or plain text, where every character is literal. The small
lines are the exception: they need mrkdwn, so there untrusted text that could format anything is
inline code, with its backticks shown as escapes (Slack knows no other way to write one).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from cards import visible, wording
from cards.model import Line, Ours, Theirs

Json = dict[str, Any]
"""One block, or one of its parts, as Slack's API takes it."""

TEXT = 3000
"""Characters of one text object (docs.slack.dev/reference/block-kit/composition-objects/text-object)."""
HEADER = 150
"""Characters of a header block (docs.slack.dev/reference/block-kit/blocks/header-block)."""
CONTEXT = 10
"""Elements of a context block (docs.slack.dev/reference/block-kit/blocks/context-block)."""

_ATOM = re.compile(r"⟨U\+[^⟩]{1,16}⟩|.", re.DOTALL)
_SPAN = 150
"""Characters of theirs in one inline code: escaped, each is at most 18 long, so all fit in a text."""
_RUN = 500
"""Characters of plain words in one piece: `&` is written as five."""
_TAME = re.compile(r"[^\W_](?:[^\W_]|[ .,()'-])*")
"""Text in which mrkdwn finds nothing to format."""
_USER = re.compile(r"[UW][A-Z0-9]{2,20}")
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}")


def size(of: Any) -> int:
    """Characters of the JSON that is sent, without needless blanks or escapes."""
    return len(json.dumps(of, ensure_ascii=False, separators=(",", ":")))


def weight(of: Any) -> int:
    """Bytes of the JSON at its longest, with everything but ASCII as escapes."""
    return len(json.dumps(of))


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, with `…` where some are left out; an escape stays whole or goes."""
    if len(text) <= limit:
        return text
    return re.sub(r"⟨(?:U(?:\+[^⟩]{0,16})?)?$", "", text[: limit - 1]) + "…"


def escaped(text: str) -> str:
    """Text for mrkdwn, in which `&`, `<` and `>` do nothing (docs.slack.dev, formatting text)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(text: str, limit: int = TEXT) -> Json:
    """A literal text object of at most `limit` characters, never empty."""
    return {"type": "plain_text", "text": cut(text, limit) or "…", "emoji": False}


def words(line: Line) -> str:
    """A line as text, for places that are literal."""
    return "".join(visible.inline(part.raw) if isinstance(part, Theirs) else part.text for part in line)


def before(label: Line, lang: str) -> str:
    """What stands between a label and its value; a question needs no colon."""
    return " " if words(label).endswith(("?", "？")) else wording.text(lang, "label.colon")


# Rich text: all characters are literal.


def run(text: str, **style: bool) -> list[Json]:
    """Literal text (`bold`, `italic`, `strike`, `code`), in elements of at most 3000 characters."""
    look = {"style": style} if style else {}
    return [{"type": "text", "text": text[at : at + TEXT], **look} for at in range(0, len(text), TEXT)]


def line(of: Line, *, bold: bool = False) -> list[Json]:
    """One line of ours and theirs: people who are waited for are mentioned, times are the reader's."""
    parts: list[Json] = []
    for part in of:
        if isinstance(part, Ours) and part.at is not None:
            parts.append(_date(part.text, part.at))
        elif isinstance(part, Ours):
            parts += run(part.text, **_style(bold=bold or part.strong))
        elif user_id(part):
            parts.append({"type": "user", "user_id": user_id(part)})
        else:
            parts += run(visible.inline(part.raw), **_style(bold=bold, code=part.code))
    return parts


def _style(**style: bool) -> dict[str, bool]:
    return {name: True for name, on in style.items() if on}


def _date(shown: str, at: datetime) -> Json:
    stamp = {"timestamp": int(at.timestamp()), "format": _format(shown)}
    return {"type": "date", **stamp, "fallback": shown}


def _format(shown: str) -> str:
    """With the date where the card says one."""
    return "{time}" if _CLOCK.fullmatch(shown) else "{date_short_pretty} {time}"


def user_id(of: Theirs) -> str:
    """Whom a mention would notify; empty unless this person is waited for, on Slack."""
    if not of.mention or of.actor is None or of.actor.platform != "slack":
        return ""
    return of.actor.user_id if _USER.fullmatch(of.actor.user_id) else ""


def section(runs: Iterable[Json]) -> Json:
    """Running text."""
    return {"type": "rich_text_section", "elements": _merged(runs)}


def quote(runs: Iterable[Json]) -> Json:
    """Somebody's words."""
    return {"type": "rich_text_quote", "elements": _merged(runs)}


def pre(text: str) -> Json:
    """Text as it is, in a fixed width."""
    return {"type": "rich_text_preformatted", "elements": run(text)}


def rich(*parts: Json) -> Json:
    """A block of the parts that hold anything (Slack refuses empty ones)."""
    return {"type": "rich_text", "elements": [part for part in parts if part["elements"]]}


def _merged(runs: Iterable[Json]) -> list[Json]:
    """Neighbouring texts of one look in one element."""
    out: list[Json] = []
    for one in runs:
        last = out[-1] if out else {"type": ""}
        same = last["type"] == one["type"] == "text" and last.get("style") == one.get("style")
        if same and len(last["text"]) + len(one["text"]) <= TEXT:
            out[-1] = {**last, "text": last["text"] + one["text"]}
        else:
            out.append(one)
    return out


# Small lines: mrkdwn.


def small(of: Line) -> list[Json]:
    """A line in small print, in as many context blocks as it needs."""
    texts = [{"type": "mrkdwn", "text": text, "verbatim": True} for text in mrkdwn(of)]
    return [{"type": "context", "elements": texts[at : at + CONTEXT]} for at in range(0, len(texts), CONTEXT)]


def small_words(text: str) -> list[Json]:
    """Words of ours in small print, literally."""
    return [{"type": "context", "elements": [plain(text)]}] if text else []


def mrkdwn(of: Line) -> list[str]:
    """A line as mrkdwn texts of 1 to 3000 characters. Nothing of theirs can link, ping or format."""
    texts = [""]
    for piece in _pieces(of):
        between = " " if _needs_blank(texts[-1][-1:], piece[:1]) else ""
        if len(texts[-1]) + len(between) + len(piece) > TEXT:
            texts.append(piece)
        else:
            texts[-1] += between + piece
    return [text for text in texts if text.strip()]


def _needs_blank(left: str, right: str) -> bool:
    """Slack sees code only where no letter or digit (or other code) touches its backticks."""
    return (left == "`" and (right == "`" or right.isalnum())) or (right == "`" and left.isalnum())


def _pieces(of: Line) -> Iterator[str]:
    for part in of:
        if isinstance(part, Ours):
            yield from _ours(part)
        elif user_id(part):
            yield f"<@{user_id(part)}>"
        else:
            yield from _theirs(visible.inline(part.raw), part.code)


def _ours(part: Ours) -> Iterator[str]:
    if part.at is not None:
        yield f"<!date^{int(part.at.timestamp())}^{_format(part.text)}|{escaped(part.text)}>"
        return
    yield from (escaped(part.text[at : at + _RUN]) for at in range(0, len(part.text), _RUN))


def _theirs(shown: str, code: bool) -> Iterator[str]:
    if not code and _TAME.fullmatch(shown):
        yield from (shown[at : at + _RUN] for at in range(0, len(shown), _RUN))
        return
    atoms = _ATOM.findall(shown)
    for at in range(0, len(atoms), _SPAN):
        inner = escaped("".join(atoms[at : at + _SPAN])).replace("`", "⟨U+0060⟩")
        yield f"`{inner}`"
