"""Canonical JSON of a tool call, and its SHA-256.

The digest ties what was shown to what was approved to what runs: the card shows its first
`SHORT` characters, the decision may carry it, and the gate computes it again at dispatch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SHORT = 8
"""Characters of the digest that a card shows (DESIGN "Cards")."""


def canonical(value: Any) -> str:
    """JSON with sorted keys, no spaces, no ASCII escapes: equal values give equal text.

    Raises `ValueError` for what JSON cannot say (NaN, infinities) and for strings that UTF-8
    cannot encode, so that two different inputs can never share a text.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text.encode("utf-8")
    return text


def digest(tool_name: str, tool_input: Mapping[str, Any]) -> str:
    """64 hexadecimal characters: SHA-256 over the canonical JSON of tool and input."""
    call = {"tool_name": tool_name, "tool_input": dict(tool_input)}
    return hashlib.sha256(canonical(call).encode()).hexdigest()
