"""The text elements of a Feishu card, what is escaped how, and one card in several languages.

Everything that is not ours stands in `plain_text`, which parses nothing and so cannot be broken
out of: code, too. A code fence is not used, because whether entities and tags such as `<at>` act
inside one is not documented. Only a line that mentions somebody is Markdown, and there every
ASCII punctuation mark is an entity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent_runner.model import Value
from cards import text
from cards.model import Attachment, Line, Ours, Theirs

Component = dict[str, Any]
"""One element of card JSON 2.0."""

LOCALES: Mapping[str, str] = {"zh": "zh_cn", "en": "en_us", "ja": "ja_jp"}
"""Our languages as `i18n_content` names them."""
_PLATFORM = "feishu"
_OPEN_ID = re.compile(r"ou_[0-9A-Za-z_-]{1,64}")
"""What may stand inside `<at>`: an id that does not look like one would fail the whole card."""
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_TAGS = (
    r"at|b|i|u|s|a|p|br|em|strong|del|code|img|person|link|font|text_tag|number_tag|local_datetime|audio|raw"
)
_PARSED = re.compile(rf"<(?=\s*/?\s*(?:{_TAGS})(?![0-9A-Za-z_]))|\*(?=\*)|~(?=~)|\](?=\()", re.IGNORECASE)
"""Where markup of a text message begins (message content: `<at>`, `<b>`, `**`, `[text](url)`)."""


def plain(content: str) -> Component:
    """A text object that parses nothing."""
    return {"tag": "plain_text", "content": content}


def div(content: str, *, size: str = "", colour: str = "") -> Component:
    """Text as an element of its own."""
    look = {"text_size": size, "text_color": colour}
    return {"tag": "div", "text": {**plain(content), **{key: value for key, value in look.items() if value}}}


def small(content: str) -> Component:
    """Text that is not what counts."""
    return div(content, size="notation", colour="grey")


def boxed(*elements: Component) -> Component:
    """Elements on a grey ground, so that untrusted text cannot pass for words of ours."""
    column = {"tag": "column", "width": "weighted", "weight": 1, "elements": list(elements)}
    return {"tag": "column_set", "background_style": "grey", "columns": [column]}


def folded(title: str, *elements: Component) -> Component:
    """Elements that are shown when their title is pressed."""
    return {
        "tag": "collapsible_panel",
        "expanded": False,
        "header": {"title": plain(title)},
        "elements": list(elements),
    }


def line(words: Line, *, before: str = "", size: str = "", colour: str = "") -> Component:
    """One line of ours and theirs. It is Markdown only if somebody on it is to be notified."""
    if not any(_open_id(part) for part in words if isinstance(part, Theirs)):
        return div(before + text.plain(words), size=size, colour=colour)
    content = markdown(before) + "".join(_mentioning(part) for part in words)
    return {"tag": "markdown", "content": content, **({"text_size": size} if size else {})}


def markdown(shown: str) -> str:
    """Text as Markdown that reads as exactly that text: no link, tag, emoji code or format."""
    return _PUNCTUATION.sub(lambda match: f"&#{ord(match[0])};", shown)


def _mentioning(part: Any) -> str:
    found = _open_id(part) if isinstance(part, Theirs) else ""
    return f"<at id={found}></at>" if found else markdown(text.plain((part,)))


def _open_id(part: Theirs) -> str:
    """The id of a person who is waited for; empty for everybody else."""
    actor = part.actor
    if not part.mention or actor is None or actor.platform != _PLATFORM:
        return ""
    return actor.user_id if _OPEN_ID.fullmatch(actor.user_id) else ""


def neutral(shown: str) -> str:
    """Text for a text message: what would act there is shown as an escape of `cards.visible`."""
    return _PARSED.sub(lambda match: f"⟨U+{ord(match[0][0]):04X}⟩", shown)


def clipped(shown: str, longest: int) -> str:
    """At most that many characters, with an ellipsis where some are missing."""
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def short_line(words: Line, longest: int) -> Line:
    """The line with at most half as many parts, each text of theirs at most `longest` characters."""
    short = [
        part.model_copy(update={"raw": clipped(part.raw, longest)}) if isinstance(part, Theirs) else part
        for part in words[: longest // 2]
    ]
    return (*short, Ours(text=" …")) if len(words) > len(short) else tuple(short)


def bulk(shown: Any, preview: int) -> int:
    """Characters of theirs in a card that would be drawn; of an attachment only its preview is."""
    if isinstance(shown, Theirs):
        return len(shown.raw)
    if isinstance(shown, Attachment):
        return preview
    inside = shown if isinstance(shown, tuple) else vars(shown).values() if isinstance(shown, Value) else ()
    return sum(bulk(item, preview) for item in inside)


def alike(one: Any, other: Any) -> bool:
    """Whether two drawn cards are the same but for their words."""
    if isinstance(one, dict):
        if not isinstance(other, dict) or one.keys() != other.keys():
            return False
        return all(_is_words(key, one[key]) or alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        same = isinstance(other, list) and len(one) == len(other)
        return same and all(alike(mine, theirs) for mine, theirs in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


def in_languages(locale: str, trees: Mapping[str, Any]) -> Any:
    """The tree of that locale with the words of all (alike) trees beside its own, where they differ."""
    own = trees[locale]
    if isinstance(own, list):
        return [
            in_languages(locale, {name: tree[at] for name, tree in trees.items()}) for at in range(len(own))
        ]
    if not isinstance(own, dict):
        return own
    out: dict[str, Any] = {}
    for key, value in own.items():
        each = {name: tree[key] for name, tree in trees.items()}
        out[key] = value if _is_words(key, value) else in_languages(locale, each)
        # Only text objects are known to take it; the summary has no tag, and an error fails the card.
        if _is_words(key, value) and "tag" in own and len(set(each.values())) > 1:
            out["i18n_content"] = each
    return out


def _is_words(key: str, value: Any) -> bool:
    return key == "content" and isinstance(value, str)
