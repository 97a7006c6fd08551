"""Which earlier request a new call revises: one that people sent back or rejected. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from agent_runner.aggregate import Snapshot
from agent_runner.model import Inquiry, InquiryState

ALIKE = 0.4
"""How much of a call must have stayed for it to revise one that is not the last that was asked about."""
COMPARED = 5_000
"""Characters of a call's texts that are compared."""


def replaced(snap: Snapshot, tool_name: str, tool_input: Mapping[str, Any]) -> str | None:
    """The id of the request that this call revises, or None.

    Of those of the same tool that nothing alike revises yet, the most alike, the newest of equals. The
    last request of all counts whatever the call: people's words on it were the last thing that the
    model read. (If it only looked around first, the call that comes then is the one that is alike.)
    """
    found = [
        (_alike(inquiry.tool_input, tool_input), inquiry.number, inquiry)
        for inquiry in snap.inquiries
        if inquiry.tool_name == tool_name and _sent_back(inquiry) and not _revised(inquiry, snap)
    ]
    last = max((inquiry.number for inquiry in snap.inquiries), default=0)
    fitting = [one for one in found if one[0] >= ALIKE or one[1] == last]
    return max(fitting, key=lambda one: one[:2])[2].id if fitting else None


def _sent_back(inquiry: Inquiry) -> bool:
    """Whether people said that it may not run as it stands."""
    return inquiry.state is InquiryState.REJECTED or (
        inquiry.state is InquiryState.CHANGED and not inquiry.run_allowed
    )


def _revised(inquiry: Inquiry, snap: Snapshot) -> bool:
    """Whether a call that is like this one came after it in its place."""
    return any(
        other.replaces == inquiry.id and _alike(inquiry.tool_input, other.tool_input) >= ALIKE
        for other in snap.inquiries
    )


def _alike(old: Mapping[str, Any], new: Mapping[str, Any]) -> float:
    """From 0 to 1: how much of the texts of two calls is the same."""
    before, after = (" ".join(_texts(given))[:COMPARED].split(" ") for given in (old, new))
    return SequenceMatcher(None, before, after, autojunk=False).ratio()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)
