"""Who is who across platforms, who may decide, and how many have.

Fails closed: an account without an id, an empty list of approvers or a name that is not in
[people] today is a no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from agent_runner.model import Actor, Value

Approvers = tuple[str, ...]
People = Mapping[str, "Person"]


class Person(Value):
    """Somebody in [people]: their accounts (`platform:user` or `platform:tenant:user`) and groups."""

    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    display: str = ""
    substitute: str = Field(default="", exclude=True)
    """Who decides in their place now, while they are away (see `absences`); never configured."""
    stands_in_for: tuple[str, ...] = Field(default=(), exclude=True)
    """Those in whose place this person may decide now."""


def identify(people: People, platform: str, user_id: str, tenant: str = "") -> str:
    """The name in [people] of an account, or empty. An account listed without tenant is of any tenant."""
    if not user_id.strip():
        return ""
    spellings = {f"{platform}:{user_id}", f"{platform}:{tenant}:{user_id}"}
    return next((name for name, person in people.items() if spellings & set(person.accounts)), "")


def same_person(one: Actor, other: Actor, people: People) -> bool:
    """Whether two accounts are surely one person, as [people] says today."""
    if one.account == other.account:
        return True
    name = listed(one, people)
    return bool(name) and name == listed(other, people)


def may_decide(
    actor: Actor,
    *,
    approvers: Sequence[str],
    requester_may_decide: bool,
    asked_by: Actor,
    people: People,
) -> bool:
    """Whether this person may decide. Nobody may if the list is empty or the account is.

    Authority comes from [people] as it is now, not from the name stored with the actor, so that
    somebody who was removed is removed everywhere. Being the requester is believed of the
    stored name too: that only ever takes a right away. A guest must be listed: in [people], or
    as an approver by account; being the requester, or anyone, is not enough.
    """
    right = right_of(
        actor,
        approvers=approvers,
        requester_may_decide=requester_may_decide,
        asked_by=asked_by,
        people=people,
    )
    return right is not None


def right_of(
    actor: Actor,
    *,
    approvers: Sequence[str],
    requester_may_decide: bool,
    asked_by: Actor,
    people: People,
) -> str | None:
    """By what right somebody may decide: '' for their own, an absent person's name, None for none."""
    rules = (approvers, requester_may_decide, asked_by, people)
    if may_as(actor, "", *rules):
        return ""
    person = people.get(listed(actor, people))
    absent = person.stands_in_for if person else ()
    return next((name for name in absent if may_as(actor, name, *rules)), None)


def may_as(
    actor: Actor,
    acting_for: str,
    approvers: Sequence[str],
    requester_may_decide: bool,
    asked_by: Actor,
    people: People,
) -> bool:
    """Whether somebody may decide for themselves (''), or in the place of that person.

    Whether that person is away now is not asked: what was decided while they were still counts.
    A requester who may not decide can neither stand in for others nor be stood in for.
    """
    if not actor.user_id.strip() or not approvers:
        return False
    requester = same_person(actor, asked_by, people)
    barred = not requester_may_decide and (requester or actor.key == asked_by.key)
    if not acting_for:
        unknown = actor.guest and not _named(actor, approvers, people)
        return not (barred or unknown) and any(_is(actor, a, requester, people) for a in approvers)
    if barred or ":" in (listed(actor, people) or ":") or acting_for not in people:
        return False
    asks = acting_for in (listed(asked_by, people), asked_by.person)
    if asks and not requester_may_decide:
        return False
    return any(_stands(acting_for, a, asked_by, people) for a in approvers)


def joined(people: People, groups: Mapping[str, Sequence[str]]) -> People:
    """[people] with the members of groups that a platform keeps: group -> accounts.

    Somebody who is not listed becomes a person of their own, named by their account.
    """
    if not groups:
        return people
    owner = {account: name for name, person in people.items() for account in person.accounts}
    found = dict(people)
    for group, accounts in groups.items():
        for account in accounts:
            name = owner.get(account) or owner.get(_without_tenant(account)) or account
            person = found.get(name) or Person(accounts=(account,), display=account)
            if group not in person.groups:
                found[name] = person.having(groups=(*person.groups, group))
    return found


def members(people: People, group: str) -> tuple[str, ...]:
    """The names of the people in a group."""
    return tuple(name for name, person in people.items() if group in person.groups)


def possible(approvers: Iterable[str], requester_may_decide: bool, people: People) -> float:
    """How many different people can decide at most; infinite for `anyone`."""
    found: set[str] = set()
    for approver in approvers:
        if approver == "anyone":
            return float("inf")
        if approver.startswith("group:"):
            found.update(members(people, approver.removeprefix("group:")))
        elif approver != "requester" or requester_may_decide:
            found.add(account_owner(approver, people))
    return len(found)


def _named(actor: Actor, approvers: Sequence[str], people: People) -> bool:
    """Whether somebody wrote this account down, in [people] or as an approver."""
    plain = f"{actor.platform}:{actor.user_id}"
    name = listed(actor, people)
    written = bool(name) and ":" not in name  # with a colon: only a member of a group that a platform keeps
    return written or any(a in (plain, actor.account) for a in approvers)


def _without_tenant(account: str) -> str:
    platform, _, rest = account.partition(":")
    return f"{platform}:{rest.rpartition(':')[2]}"


def listed(actor: Actor, people: People) -> str:
    """The name in [people] of whoever acts, or empty."""
    return identify(people, actor.platform, actor.user_id, actor.tenant)


def _is(actor: Actor, approver: str, requester: bool, people: People) -> bool:
    if approver == "anyone":
        return True
    if approver == "requester":
        return requester
    name = listed(actor, people)
    if approver.startswith("group:"):
        return bool(name) and approver.removeprefix("group:") in people[name].groups
    if ":" in approver:
        plain = f"{actor.platform}:{actor.user_id}"
        return approver in (plain, actor.account) or (bool(name) and approver in people[name].accounts)
    return bool(name) and name == approver


def _stands(name: str, approver: str, asked_by: Actor, people: People) -> bool:
    """Whether an approver is this listed person, by whichever of their accounts. `anyone` is nobody."""
    if approver == "requester":
        return listed(asked_by, people) == name
    if approver.startswith("group:"):
        return approver.removeprefix("group:") in people[name].groups
    if ":" in approver:
        return any(
            approver == account
            or (
                approver.count(":") != account.count(":")
                and _without_tenant(approver) == _without_tenant(account)
            )
            for account in people[name].accounts
        )
    return approver == name


def display(name: str, people: People) -> str:
    """How a person in [people] is called for readers."""
    person = people.get(name)
    return person.display or name if person else name


def account_owner(approver: str, people: People) -> str:
    """The person behind an account, so that a person and their account count once."""
    return next((name for name, person in people.items() if approver in person.accounts), approver)
