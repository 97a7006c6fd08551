"""The test card of `doctor`: any bot that gets its click says so.

Several connections share an app's clicks, so the one who waits for it may not be the one who gets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cards import wording

ACTION = "doctor"
"""The action_id of the button. No verb of a card has that name."""
MOST_TOKEN = 64

Json = dict[str, Any]


class Probe(NamedTuple):
    """A click on a test card: which one, and where it stands."""

    token: str
    channel: str
    ts: str


def card(token: str, lang: str) -> Json:
    """The message with the button, as fields of chat.postMessage."""
    text = wording.text(lang, "doctor.press")
    button = {
        "type": "button",
        "action_id": ACTION,
        "text": {"type": "plain_text", "text": wording.text(lang, "doctor.button")},
        "value": token,
    }
    return {"text": text, "blocks": [_section(text), {"type": "actions", "elements": [button]}]}


def settled(key: str, lang: str) -> Json:
    """The message afterwards, without a button, as fields of chat.update; `key` names its sentence."""
    text = wording.text(lang, key)
    return {"text": text, "blocks": [_section(text)]}


def read(body: Mapping[str, Any]) -> Probe | None:
    """The click in a block_actions payload; None if it is about anything else."""
    actions, container = body.get("actions"), body.get("container")
    action = actions[0] if isinstance(actions, list) and actions else None
    if not isinstance(action, Mapping) or action.get("action_id") != ACTION:
        return None
    token = action.get("value")
    if not isinstance(token, str) or not 0 < len(token) <= MOST_TOKEN or not isinstance(container, Mapping):
        return None
    return Probe(token, str(container.get("channel_id") or ""), str(container.get("message_ts") or ""))


def _section(text: str) -> Json:
    return {"type": "section", "text": {"type": "plain_text", "text": text}}
