"""An error as a person reads it, in their language."""

from __future__ import annotations

from typing import Any

from agent_runner.errors import CountersignError, FixInput, WrongState
from cards import wording


def in_words(error: CountersignError, lang: str) -> tuple[str, str]:
    """What went wrong and, where only English has the particulars, those as a second text."""
    if lang == "en" and isinstance(error, FixInput | WrongState):
        return _of_several(error, error.message, lang), error.hint
    details: dict[str, Any] = dict(error.details)
    if isinstance(details.get("approvers"), list):
        details["approvers"] = wording.text(lang, "list.separator").join(details["approvers"])
    message = wording.error(lang, error.code, message=error.message, **details)
    exact = f"{error.message} {error.hint}".strip() if isinstance(error, FixInput | WrongState) else ""
    return _of_several(error, message, lang), exact


def _of_several(error: CountersignError, message: str, lang: str) -> str:
    """For an answer to several requests: which one it is about, and that none of it was recorded."""
    request = error.details.get("request")
    return wording.text(lang, "error.of_several", request=str(request), error=message) if request else message


def told(error: CountersignError, lang: str) -> str:
    """The same as one text."""
    return "\n".join(filter(None, in_words(error, lang)))
