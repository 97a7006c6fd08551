"""An error as a person reads it, in their language."""

from __future__ import annotations

from typing import Any

from agent_runner.errors import CountersignError, FixInput, Unfit, WrongState
from cards import wording


def in_words(error: CountersignError, lang: str) -> tuple[str, str]:
    """What went wrong and, where only English has the particulars, those as a second text."""
    if lang == "en" and isinstance(error, FixInput | WrongState):
        return error.message, error.hint
    details: dict[str, Any] = dict(error.details)
    if isinstance(details.get("approvers"), list):
        details["approvers"] = wording.text(lang, "list.separator").join(details["approvers"])
    code = error.why if isinstance(error, Unfit) else error.code
    message = wording.error(lang, code, message=error.message, **details)
    if not isinstance(error, FixInput | WrongState) or isinstance(error, Unfit):
        return message, ""
    return message, f"{error.message} {error.hint}".strip()


def told(error: CountersignError, lang: str) -> str:
    """The same as one text."""
    return "\n".join(filter(None, in_words(error, lang)))
