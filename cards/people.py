"""Who may decide, in words."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runner.model import Inquiry
from cards import wording
from cards.model import Line, Theirs


def approvers(inquiry: Inquiry, lang: str, names: Sequence[str] = ()) -> Line:
    """The people who may decide: by name if given, else as the policy has them."""
    if names:
        return wording.listed(lang, [Theirs(raw=name) for name in names])
    if not inquiry.approvers:
        return wording.line(lang, "approver.nobody")
    return wording.listed(lang, [_approver(who, inquiry, lang) for who in inquiry.approvers])


def _approver(who: str, inquiry: Inquiry, lang: str) -> Line:
    if who == "requester":
        name = Theirs(raw=inquiry.asked_by.name, actor=inquiry.asked_by)
        return wording.line(lang, "approver.requester", who=name)
    if who == "anyone":
        return wording.line(lang, "approver.anyone")
    return (Theirs(raw=who.removeprefix("group:")),)
