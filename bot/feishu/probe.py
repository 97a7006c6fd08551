"""The test card of `doctor`: any bot that gets its press says so.

Several connections share an app's presses, so the one who waits for it may not be the one who gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cards import wording
from cards.feishu_text import LOCALES, div, in_languages, plain

KEY = "doctor"
"""The one key of the button's value. No press of a card of ours has it (see `cards.feishu_forms`)."""
MOST_TOKEN = 64

Json = dict[str, Any]


def card(token: str, languages: Sequence[str]) -> Json:
    """The card with the button, its own language first."""
    return _in(languages, lambda lang: [_words("doctor.press", lang), _button(token, lang)], "doctor.press")


def settled(key: str, languages: Sequence[str]) -> Json:
    """The card afterwards, without a button; `key` names its sentence."""
    return _in(languages, lambda lang: [_words(key, lang)], key)


def read(body: Mapping[str, Any]) -> str:
    """The token of the pressed test card in a card callback; '' if it is about anything else."""
    event = body.get("event")
    action = event.get("action") if isinstance(event, Mapping) else None
    value = action.get("value") if isinstance(action, Mapping) else None
    if not isinstance(value, Mapping) or set(value) != {KEY}:
        return ""
    token = value[KEY]
    return token if isinstance(token, str) and len(token) <= MOST_TOKEN else ""


def _in(languages: Sequence[str], drawn: Callable[[str], list[Json]], key: str) -> Json:
    own = LOCALES[languages[0]]
    elements = in_languages(own, {LOCALES[lang]: drawn(lang) for lang in languages})
    summary = {"content": wording.text(languages[0], key)}
    return {
        "schema": "2.0",
        "config": {"update_multi": True, "enable_forward": False, "summary": summary},
        "body": {"elements": elements},
    }


def _words(key: str, lang: str) -> Json:
    return div(wording.text(lang, key))


def _button(token: str, lang: str) -> Json:
    return {
        "tag": "button",
        "type": "primary",
        "text": plain(wording.text(lang, "doctor.button")),
        "behaviors": [{"type": "callback", "value": {KEY: token}}],
    }
