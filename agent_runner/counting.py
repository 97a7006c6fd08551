"""How many have decided: people are counted, not clicks, and an absent person's place only once."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runner.model import Actor, Value, Verdict, Vote
from agent_runner.people import People, account_owner, listed, members


class Tally(Value):
    """The votes including the new one, and whether they decide."""

    votes: tuple[Vote, ...]
    decided: bool


def tally(
    votes: Sequence[Vote], new: Vote, quorum: int, *, veto: bool = True, able: frozenset[str] | None = None
) -> Tally:
    """Counts people, not clicks. A person's new word takes the place of their old one.

    One refusal decides, unless there is no `veto`: then it decides once too few of those who are
    `able` are left to approve. One answer decides. Approvals decide when `quorum` different people
    have given one. A change decides alone only where one person is enough: two people's changes
    are two different calls, so with a larger quorum the changed call has to be asked about anew.
    """
    again = any(vote.by.key == new.by.key and vote.verdict is new.verdict for vote in votes)
    kept = tuple(votes) if again else (*(v for v in votes if v.by.key != new.by.key), new)
    if new.verdict is Verdict.APPROVE:
        return Tally(votes=kept, decided=len(counted(kept)) >= max(1, quorum))
    if new.verdict is Verdict.REJECT and not veto:
        return Tally(votes=kept, decided=able is not None and left(able, kept) < max(1, quorum))
    return Tally(votes=kept, decided=new.verdict is not Verdict.CHANGE or quorum <= 1)


def counted(votes: Sequence[Vote], verdict: Verdict = Verdict.APPROVE) -> tuple[Vote, ...]:
    """The votes that count: of each person one, and for each absent person's place one."""
    found: list[Vote] = []
    taken: set[str] = set()
    for vote in votes:
        if vote.verdict is verdict and not taken & claimed(vote):
            taken |= claimed(vote)
            found.append(vote)
    return tuple(found)


def taken_by(votes: Sequence[Vote], new: Vote) -> Vote | None:
    """Another person's vote in the same place, because of which there is none left for this one."""
    others = (vote for vote in votes if vote.by.key != new.by.key)
    return next((vote for vote in others if claimed(vote) & claimed(new)), None)


def left(able: frozenset[str], votes: Sequence[Vote]) -> int:
    """How many of those who are able to approve have not rejected, themselves or by their stand-in."""
    gone = {_plain(key) for vote in votes if vote.verdict is Verdict.REJECT for key in claimed(vote)}
    return len({_plain(key) for key in able} - gone)


def claimed(vote: Vote) -> set[str]:
    """Whose word a vote uses up: that of the person, and that of the absent one."""
    return {vote.by.key, *([f"person:{vote.acting_for}"] if vote.acting_for else [])}


def able(
    approvers: Sequence[str], requester_may_decide: bool, asked_by: Actor, people: People
) -> frozenset[str] | None:
    """The keys (see `Actor.key`) of all who can approve; None for `anyone`, who cannot be counted."""
    found: set[str] = set()
    for approver in approvers:
        if approver == "anyone":
            return None
        if approver == "requester":
            found.add(_key(listed(asked_by, people)) or asked_by.key)
        elif approver.startswith("group:"):
            found.update(map(_key, members(people, approver.removeprefix("group:"))))
        else:
            found.add(_key(account_owner(approver, people)))
    barred = set() if requester_may_decide else {_key(listed(asked_by, people)), asked_by.key}
    return frozenset(found - barred)


def _key(name: str) -> str:
    """The key of somebody in [people]; who is known by an account alone has that for a name."""
    return f"person:{name}" if name and ":" not in name else name


def _plain(key: str) -> str:
    """The key without the tenant of an account: a list may leave it out."""
    platform, _, rest = key.partition(":")
    return f"{platform}:{rest.rpartition(':')[2]}"
