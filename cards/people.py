"""Who may decide, in words."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runner.model import Actor, Inquiry
from cards import wording
from cards.model import Line, Theirs

Names = Sequence[str | Actor]
"""People by name, or as a platform knows them (then a surface may mention them)."""


def approvers(inquiry: Inquiry, lang: str, names: Names = (), *, mention: bool = False) -> Line:
    """The people who may decide: by name if given, else as the policy has them."""
    if names:
        return wording.listed(lang, [_named(name, lang, mention) for name in names])
    if not inquiry.approvers:
        return wording.line(lang, "approver.nobody")
    return wording.listed(lang, [_approver(who, inquiry, lang) for who in inquiry.approvers])


def _named(who: str | Actor, lang: str, mention: bool) -> Line:
    if isinstance(who, Actor):
        return (Theirs(raw=who.name, actor=who, mention=mention),)
    return wording.line(lang, "approver.anyone") if who == "anyone" else (Theirs(raw=who),)


def _approver(who: str, inquiry: Inquiry, lang: str) -> Line:
    if who == "requester":
        name = Theirs(raw=inquiry.asked_by.name, actor=inquiry.asked_by)
        return wording.line(lang, "approver.requester", who=name)
    if who == "anyone":
        return wording.line(lang, "approver.anyone")
    return (Theirs(raw=who.removeprefix("group:")),)
