"""Being away: the hand-over to somebody who decides in the meantime, by words or by the command line."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from agent_runner.absences import Absence, closes_circle, handed_over
from agent_runner.model import Actor, InquiryState
from agent_runner.people import People, display, listed
from agent_runner.people_register import PeopleRegister
from agent_runner.store import Store
from bot.reply import Reply
from cards import absent, visible

log = logging.getLogger(__name__)

LONGEST = timedelta(days=366)
"""For longer than this nobody is away: take them out of the lists."""
LOOKED_AT = 200
"""Open requests whose cards are drawn again when somebody leaves or comes back."""


class Away:
    """Who is away, among the people of one configuration. Only who is listed leaves or stands in."""

    def __init__(
        self,
        people: People,
        register: PeopleRegister,
        *,
        store: Store,
        clock: Callable[[], datetime],
        zone: tzinfo,
    ) -> None:
        self._people = people
        self._register = register
        self._store = store
        self._clock = clock
        self._zone = zone

    def applied(self, people: People) -> People:
        """[people] as it is now: with a substitute for everybody who is away."""
        return handed_over(people, self._register.absences(), self._clock()) if self._people else people

    def now(self) -> tuple[Absence, ...]:
        """Who is away now."""
        now = self._clock()
        return tuple(one for one in self._register.absences() if one.holds(now))

    def lines(self) -> tuple[str, ...]:
        """The same as lines to print."""
        found = tuple(
            f"{one.who}  until {one.until.astimezone(self._zone):%Y-%m-%d %H:%M}  -> {one.to}"
            for one in self.now()
        )
        return found or ("Nobody is away.",)

    # --- words ---------------------------------------------------------------------------

    def hear(
        self, actor: Actor, text: str, *, in_thread: bool = False, addressed: bool = True
    ) -> Reply | None:
        """Takes words of somebody about themselves; None if they are about something else.

        What may be talk between people, or with the agent, is not taken for it.
        """
        said = absent.heard(text)
        if said is None:
            return None
        me = listed(actor, self._people)
        if isinstance(said, absent.Back):
            talk = in_thread and not any(one.who == me for one in self.now())
            return None if talk else self._for(me, said.who) or self.back(me)
        if not said.to:
            return Reply(key="away.usage") if addressed and not in_thread else None
        return self._for(me, said.who) or self.leave(me, said.until, self._named(said.to, actor.platform))

    def _for(self, me: str, who: str) -> Reply | None:
        """Why somebody may not say this; None if they may."""
        if not me:
            return Reply(key="away.not_listed")
        if who and self._named(who, "") != me:
            return Reply(key="away.only_self", details={"who": _shown(who)})
        return None

    def _named(self, typed: str, platform: str) -> str:
        """The listed person somebody means: by name, as they are called, or by account; else as typed."""
        if typed in self._people:
            return typed
        wanted, found = typed.casefold(), []
        for name, person in self._people.items():
            accounts = {a.rpartition(":")[2] for a in person.accounts if a.startswith(f"{platform}:")}
            if wanted in (name.casefold(), person.display.casefold()) or typed in accounts:
                found.append(name)
        return found[0] if len(found) == 1 else typed

    # --- what is done --------------------------------------------------------------------

    def leave(self, who: str, until: str, to: str) -> Reply:
        """Hands over until a time as people write it; the reply says how, or why not."""
        now = self._clock().astimezone(self._zone)
        end = absent.moment(until, now)
        wrong = self._wrong(who, to) or _wrong_time(until, end, now)
        if wrong or end is None:
            return wrong or Reply(key="away.usage")
        absence = Absence(who=who, to=to, until=end)
        if closes_circle(absence, self._register.absences(), now):
            return Reply(key="away.circle", details={"to": self._called(to), "who": self._called(who)})
        self._register.keep_absence(absence)
        self._shown_again()
        log.info("%s is away until %s; %s decides in their place", who, end.isoformat(), to)
        details = {"who": self._called(who), "to": self._called(to), "until": f"{end:%Y-%m-%d %H:%M}"}
        return Reply(key="away.set", details=details)

    def back(self, who: str) -> Reply:
        """Ends an absence."""
        if who not in self._people:
            return Reply(key="away.nobody", details={"who": _shown(who)})
        was_away = any(one.who == who for one in self.now())
        self._register.end_absence(who)
        self._shown_again()
        return Reply(key="away.back" if was_away else "away.not_away", details={"who": self._called(who)})

    def _wrong(self, who: str, to: str) -> Reply | None:
        for name in (who, to):
            if name not in self._people:
                return Reply(key="away.nobody", details={"who": _shown(name)})
        return Reply(key="away.self") if who == to else None

    def _called(self, name: str) -> str:
        return _shown(display(name, self._people))

    def _shown_again(self) -> None:
        """Has the cards of open requests drawn again: others are named there now."""
        opened = self._store.list_inquiries(InquiryState.PENDING, after=0, limit=LOOKED_AT)
        self._register.show_again((one.task_id for one in opened), self._clock())

    def clear(self) -> None:
        """Forgets absences that are over, and has the cards say so; for the clock."""
        over = [one for one in self._register.absences() if not one.holds(self._clock())]
        for one in over:
            self._register.end_absence(one.who)
        if over:
            self._shown_again()


def _wrong_time(typed: str, end: datetime | None, now: datetime) -> Reply | None:
    if end is None:
        return Reply(key="away.when", details={"when": _shown(typed)})
    if end <= now:
        return Reply(key="away.past", details={"until": f"{end:%Y-%m-%d %H:%M}"})
    return Reply(key="away.too_long") if end - now > LONGEST else None


def _shown(typed: str) -> str:
    return visible.inline(typed[:40])
