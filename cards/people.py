"""Who may decide, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent_runner.model import Actor, Inquiry
from cards import wording
from cards.model import Line, Theirs


class StandIn(Protocol):
    """Somebody in the place of others who are away."""

    @property
    def by(self) -> str | Actor:
        """Who decides."""

    @property
    def absent(self) -> str:
        """In whose place."""


Names = Sequence[str | Actor | StandIn]
"""People by name, or as a platform knows them (then a surface may mention them)."""


def approvers(inquiry: Inquiry, lang: str, names: Names = (), *, mention: bool = False) -> Line:
    """The people who may decide: by name if given, else as the policy has them."""
    if names:
        return named(names, lang, mention=mention)
    if not inquiry.approvers:
        return wording.line(lang, "approver.nobody")
    return wording.listed(lang, [_approver(who, inquiry, lang) for who in inquiry.approvers])


def named(names: Names, lang: str, *, mention: bool = False) -> Line:
    """These people, as a list."""
    return wording.listed(lang, [_named(name, lang, mention) for name in names])


def acting(actor: Actor, absent: str, lang: str) -> Line:
    """Who said something, and in whose place."""
    who = Theirs(raw=actor.name, actor=actor)
    return wording.line(lang, "acting", who=who, absent=Theirs(raw=absent)) if absent else (who,)


def _named(who: str | Actor | StandIn, lang: str, mention: bool) -> Line:
    if isinstance(who, Actor):
        return (Theirs(raw=who.name, actor=who, mention=mention),)
    if not isinstance(who, str):
        by = _named(who.by, lang, mention)
        return wording.line(lang, "standin", who=by, absent=Theirs(raw=who.absent))
    return wording.line(lang, "approver.anyone") if who == "anyone" else (Theirs(raw=who),)


def _approver(who: str, inquiry: Inquiry, lang: str) -> Line:
    if who == "requester":
        name = Theirs(raw=inquiry.asked_by.name, actor=inquiry.asked_by)
        return wording.line(lang, "approver.requester", who=name)
    if who == "anyone":
        return wording.line(lang, "approver.anyone")
    return (Theirs(raw=who.removeprefix("group:")),)
