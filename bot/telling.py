"""An error as a person reads it, in their language."""

from __future__ import annotations

from typing import Any

from agent_runner.errors import CountersignError, FixInput, Unfit, WrongState
from cards import wording


def in_words(error: CountersignError, lang: str) -> tuple[str, str]:
    """What went wrong and, where only English has the particulars, those as a second text."""
    if lang == "en" and isinstance(error, FixInput | WrongState):
        return _of_several(error, error.message, lang), error.hint
    details: dict[str, Any] = dict(error.details)
    if isinstance(details.get("approvers"), list):
        details["approvers"] = wording.text(lang, "list.separator").join(details["approvers"])
    code = error.why if isinstance(error, Unfit) else error.code
    message = _of_several(error, wording.error(lang, code, message=error.message, **details), lang)
    if not isinstance(error, FixInput | WrongState) or isinstance(error, Unfit):
        return message, ""
    return message, f"{error.message} {error.hint}".strip()


def _of_several(error: CountersignError, message: str, lang: str) -> str:
    """For an answer to several requests: which one it is about, and that none of it was recorded."""
    request = error.details.get("request")
    return wording.text(lang, "error.of_several", request=str(request), error=message) if request else message


def told(error: CountersignError, lang: str) -> str:
    """The same as one text."""
    return "\n".join(filter(None, in_words(error, lang)))
