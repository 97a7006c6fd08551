"""Who is away until when, and who decides in their place: hand-overs, as [people] with them applied.

A chain is followed (Lin to Mei, Mei to Kai: Kai decides for both); a circle is refused when
somebody wants to close it. Only who is listed in [people] today hands over or stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import AwareDatetime

from agent_runner.model import Value
from agent_runner.people import People


class Absence(Value):
    """One person's hand-over: names in [people]."""

    who: str
    to: str
    until: AwareDatetime

    def holds(self, now: datetime) -> bool:
        """Whether they are still away."""
        return now < self.until


def handed_over(people: People, absences: Sequence[Absence], now: datetime) -> People:
    """[people] in which everybody who is away has a substitute, and that one stands in for them."""
    away = {one.who: one.to for one in absences if one.holds(now) and _listed(one, people)}
    found = dict(people)
    for who in away:
        last = end_of(who, away)
        if last:
            found[who] = found[who].having(substitute=last)
            found[last] = found[last].having(stands_in_for=(*found[last].stands_in_for, who))
    return found


def end_of(who: str, away: dict[str, str]) -> str:
    """Who decides at the end of the chain; '' for a circle: then nobody does."""
    seen, last = {who}, away[who]
    while last in away:
        if last in seen:
            return ""
        seen.add(last)
        last = away[last]
    return "" if last in seen else last


def closes_circle(new: Absence, absences: Sequence[Absence], now: datetime) -> bool:
    """Whether somebody would in the end stand in for themselves."""
    away = {one.who: one.to for one in absences if one.holds(now)} | {new.who: new.to}
    return not end_of(new.who, away)


def _listed(one: Absence, people: People) -> bool:
    return one.who in people and one.to in people and one.who != one.to
