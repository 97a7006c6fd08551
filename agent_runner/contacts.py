"""The people behind a list of approvers, as readers know them and as a platform can notify them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent_runner.counting import claimed
from agent_runner.model import Actor, Value, Vote
from agent_runner.people import People, account_owner, display, identify, listed, members, same_person


class StandIn(Value):
    """Somebody who may decide in the place of others who are away, and how these are called."""

    by: str | Actor
    absent: str


Contact = str | Actor | StandIn
"""A person by name, or as a platform knows them, or in somebody else's place."""


class _Found(NamedTuple):
    """A contact, their name in [people] if they have one, and how they are called."""

    who: str | Actor
    listed: str
    shown: str


def names_of(
    approvers: Sequence[str], asked_by: Actor, people: People, *, requester_may_decide: bool = True
) -> tuple[str, ...]:
    """The people behind a list of approvers, by name, each once. `anyone` stays that word."""
    found = contacts(approvers, asked_by, people, "", requester_may_decide=requester_may_decide)
    names = [one.by if isinstance(one, StandIn) else one for one in found]
    return tuple(dict.fromkeys(one.name if isinstance(one, Actor) else one for one in names))


def contacts(
    approvers: Sequence[str],
    asked_by: Actor,
    people: People,
    platform: str,
    *,
    requester_may_decide: bool = True,
    votes: Sequence[Vote] = (),
) -> tuple[Contact, ...]:
    """The same people, each as that platform knows them where it does, so that it can notify them.

    In the place of somebody who is away stands who decides for them. A requester who may not decide
    is only named: there is nothing for them to do. Whoever has a vote among `votes` is left out.
    """
    each = {one.shown: one for approver in approvers for one in _behind(approver, asked_by, people, platform)}
    asker = listed(asked_by, people) or asked_by.person
    own = {one.listed for one in each.values()}
    used = {key for vote in votes for key in claimed(vote)}
    out: dict[str, Contact] = {}
    for one in each.values():
        if _keys(one) & used:
            continue
        substitute = people[one.listed].substitute if one.listed else ""
        barred = not requester_may_decide and asker and asker in (one.listed, substitute)
        if not substitute or barred:
            bare = isinstance(one.who, Actor) and not requester_may_decide
            asks = bare and same_person(one.who, asked_by, people)  # type: ignore[arg-type]  # an actor
            out[one.shown] = one.shown if asks else one.who
        elif substitute not in own and f"person:{substitute}" not in used:
            before = out.get(f"for {substitute}")
            absent = f"{before.absent}, {one.shown}" if isinstance(before, StandIn) else one.shown
            out[f"for {substitute}"] = StandIn(by=_person(substitute, people, platform).who, absent=absent)
    return tuple(out.values())


def _keys(one: _Found) -> set[str]:
    """The keys by which their votes are known."""
    account = {one.who.account, one.who.key} if isinstance(one.who, Actor) else {one.shown}
    return {f"person:{one.listed}", *account} if one.listed else account


def _behind(approver: str, asked_by: Actor, people: People, platform: str) -> Iterator[_Found]:
    """Those for whom one entry of the list stands."""
    if approver == "requester":
        who = asked_by if asked_by.platform == platform else asked_by.name
        yield _Found(who, listed(asked_by, people), asked_by.name)
    elif approver.startswith("group:"):
        for name in members(people, approver.removeprefix("group:")):
            yield _person(name, people, platform)
    elif ":" in approver:
        yield _by_account(approver, people, platform)
    elif approver in people:
        yield _person(approver, people, platform)
    else:
        yield _Found(approver, "", approver)


def _by_account(approver: str, people: People, platform: str) -> _Found:
    kind, _, rest = approver.partition(":")
    tenant, _, user = rest.rpartition(":")
    name = account_owner(approver, people)
    name = name if name in people else identify(people, kind, user, tenant)
    if name:
        return _person(name, people, platform)
    known = Actor(platform=kind, tenant=tenant, user_id=user, name=user)
    return _Found(known if kind == platform else approver, "", approver)


def _person(name: str, people: People, platform: str) -> _Found:
    """Somebody in [people]."""
    shown = display(name, people)
    account = next((a for a in people[name].accounts if platform and a.startswith(f"{platform}:")), "")
    if not account:
        return _Found(shown, name, shown)
    tenant, _, user = account.removeprefix(f"{platform}:").rpartition(":")
    return _Found(Actor(platform=platform, tenant=tenant, user_id=user, name=shown, person=name), name, shown)
