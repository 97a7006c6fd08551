"""Who is who across platforms, who may decide, and how many have.

Fails closed: an account without an id, an empty list of approvers or a name that is not in
[people] today is a no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent_runner.model import Actor, Value, Verdict, Vote

Approvers = tuple[str, ...]
People = Mapping[str, "Person"]


class Person(Value):
    """Somebody in [people]: their accounts (`platform:user` or `platform:tenant:user`) and groups."""

    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    display: str = ""


class Tally(Value):
    """The votes including the new one, and whether they decide."""

    votes: tuple[Vote, ...]
    decided: bool


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
    name = _listed(one, people)
    return bool(name) and name == _listed(other, people)


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
    if not actor.user_id.strip() or not approvers:
        return False
    if actor.guest and not _named(actor, approvers, people):
        return False
    requester = same_person(actor, asked_by, people)
    if not requester_may_decide and (requester or actor.key == asked_by.key):
        return False
    return any(_is(actor, approver, requester, people) for approver in approvers)


def names_of(approvers: Sequence[str], asked_by: Actor, people: People) -> tuple[str, ...]:
    """The people behind a list of approvers, by name, each once. `anyone` stays that word."""
    names: list[str] = []
    for approver in approvers:
        if approver == "requester":
            names.append(asked_by.name)
        elif approver.startswith("group:"):
            names.extend(_display(name, people) for name in members(people, approver.removeprefix("group:")))
        elif ":" in approver:
            platform, _, user = approver.partition(":")
            tenant, _, plain = user.rpartition(":")
            name = identify(people, platform, plain, tenant)
            names.append(_display(name, people) if name else approver)
        else:
            names.append(_display(approver, people))
    return tuple(dict.fromkeys(names))


def contacts(
    approvers: Sequence[str],
    asked_by: Actor,
    people: People,
    platform: str,
    *,
    requester_may_decide: bool = True,
) -> tuple[str | Actor, ...]:
    """The same people, each as that platform knows them where it does, so that it can notify them.

    A requester who may not decide is only named: there is nothing for them to do.
    """
    names: dict[str, str | Actor] = {}
    for name in names_of(approvers, asked_by, people):
        names[name] = name
    for approver in approvers:
        if approver == "requester" and asked_by.platform == platform:
            names[asked_by.name] = asked_by
        if approver.startswith(f"{platform}:") and approver in names:
            tenant, _, user = approver.removeprefix(f"{platform}:").rpartition(":")
            names[approver] = Actor(platform=platform, tenant=tenant, user_id=user, name=user)
        for listed in _behind(approver, people):
            account = next((a for a in people[listed].accounts if a.startswith(f"{platform}:")), "")
            if account:
                tenant, _, user = account.removeprefix(f"{platform}:").rpartition(":")
                shown = _display(listed, people)
                names[shown] = Actor(
                    platform=platform, tenant=tenant, user_id=user, name=shown, person=listed
                )
    return tuple(
        who.name
        if isinstance(who, Actor) and not requester_may_decide and same_person(who, asked_by, people)
        else who
        for who in names.values()
    )


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


def tally(votes: Sequence[Vote], new: Vote, quorum: int) -> Tally:
    """Counts people, not clicks.

    One refusal or answer decides. Approvals decide when `quorum` different people have given
    one. A change decides alone only where one person is enough: two people's changes are two
    different calls, so with a larger quorum the changed call has to be asked about anew.
    """
    again = any(vote.by.key == new.by.key and vote.verdict is new.verdict for vote in votes)
    kept = tuple(votes) if again else (*votes, new)
    if new.verdict is Verdict.APPROVE:
        people = {vote.by.key for vote in kept if vote.verdict is Verdict.APPROVE}
        return Tally(votes=kept, decided=len(people) >= max(1, quorum))
    return Tally(votes=kept, decided=new.verdict is not Verdict.CHANGE or quorum <= 1)


def possible(approvers: Iterable[str], requester_may_decide: bool, people: People) -> float:
    """How many different people can decide at most; infinite for `anyone`."""
    found: set[str] = set()
    for approver in approvers:
        if approver == "anyone":
            return float("inf")
        if approver.startswith("group:"):
            found.update(members(people, approver.removeprefix("group:")))
        elif approver != "requester" or requester_may_decide:
            found.add(_account_owner(approver, people))
    return len(found)


def _behind(approver: str, people: People) -> tuple[str, ...]:
    """The names in [people] that an approver stands for."""
    if approver.startswith("group:"):
        return members(people, approver.removeprefix("group:"))
    if ":" in approver:
        return tuple(name for name, person in people.items() if approver in person.accounts)
    return (approver,) if approver in people else ()


def _named(actor: Actor, approvers: Sequence[str], people: People) -> bool:
    """Whether somebody wrote this account down, in [people] or as an approver."""
    plain = f"{actor.platform}:{actor.user_id}"
    name = _listed(actor, people)
    written = bool(name) and ":" not in name  # with a colon: only a member of a group that a platform keeps
    return written or any(a in (plain, actor.account) for a in approvers)


def _without_tenant(account: str) -> str:
    platform, _, rest = account.partition(":")
    return f"{platform}:{rest.rpartition(':')[2]}"


def _listed(actor: Actor, people: People) -> str:
    return identify(people, actor.platform, actor.user_id, actor.tenant)


def _is(actor: Actor, approver: str, requester: bool, people: People) -> bool:
    if approver == "anyone":
        return True
    if approver == "requester":
        return requester
    name = _listed(actor, people)
    if approver.startswith("group:"):
        return bool(name) and approver.removeprefix("group:") in people[name].groups
    if ":" in approver:
        plain = f"{actor.platform}:{actor.user_id}"
        return approver in (plain, actor.account) or (bool(name) and approver in people[name].accounts)
    return bool(name) and name == approver


def _display(name: str, people: People) -> str:
    person = people.get(name)
    return person.display or name if person else name


def _account_owner(approver: str, people: People) -> str:
    """The person behind an account, so that a person and their account count once."""
    return next((name for name, person in people.items() if approver in person.accounts), approver)
