"""Decisions about several requests at once: the steps of one turn, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from agent_runner import lifecycle
from agent_runner.digest import SHORT
from agent_runner.errors import CountersignError, FixInput, NotAllowed, NotFound, ShowAgain
from agent_runner.model import Actor, Inquiry, Kind, Value, Verdict
from agent_runner.store import Changes, Snapshot
from agent_runner.together import in_turn
from bot.commands import Chose, ChoseAll, ChoseSeveral, Pressed
from bot.reply import Reply, verdict_key
from cards import batch
from cards.model import Verb

if TYPE_CHECKING:
    from bot.handle import Handler


class Chosen(Value):
    """What came of one word about all steps of a batch."""

    verdict: Verdict
    steps: tuple[Inquiry, ...]
    """Those that it was recorded for, as they are now."""
    not_allowed: tuple[int, ...] = ()
    """Numbers of those that are left open because this person may not decide them."""
    changed: tuple[int, ...] = ()
    """Numbers of those that are left open because they are not what this person saw."""


class _Sorted(NamedTuple):
    """The open steps of a batch, by what one person's word does to them."""

    covered: tuple[Inquiry, ...]
    not_allowed: tuple[int, ...]
    changed: tuple[int, ...]


def choose_several(handler: Handler, command: ChoseSeveral) -> tuple[Inquiry, ...]:
    """See `Handler.choose_several`."""
    now, actor = handler.clock(), handler.known(command.actor)
    chosen = [one.having(actor=actor) for one in command.choices]
    if len({one.inquiry_id for one in chosen}) < len(chosen) or not chosen:
        raise FixInput("Each request is to be decided once.", hint="Send one decision for each.")
    task_id = handler.store.inquiry(chosen[0].inquiry_id).task_id
    tried: list[Chose] = []

    def modify(snap: Snapshot) -> Changes:
        return in_turn(snap, (partial(_one, handler, one, now, tried) for one in chosen))

    try:
        after, _ = handler.store.transact(task_id, modify)
    except NotAllowed as refused:
        handler.record_attempt(task_id, tried[-1], refused)
        raise
    return tuple(after.inquiry(one.inquiry_id) for one in chosen)


def _one(handler: Handler, command: Chose, now: datetime, tried: list[Chose], snap: Snapshot) -> Changes:
    """One decision of several; what is wrong with it says about which request."""
    tried.append(command)
    try:
        return handler.changes_of(snap, command, now)
    except CountersignError as error:
        error.details["request"] = f"#{snap.inquiry(command.inquiry_id).number}"
        raise


def choose_all(handler: Handler, command: ChoseAll) -> Chosen:
    """See `Handler.choose_all`."""
    now, actor = handler.clock(), handler.known(command.actor)
    command = command.having(actor=actor)
    task_id = handler.store.inquiry(command.inquiry_id).task_id
    found: list[_Sorted] = []

    def modify(snap: Snapshot) -> Changes:
        found.append(_sorted(handler, snap, command, now))
        events = [partial(_part, handler, step.id, command, now) for step in found[-1].covered]
        return in_turn(snap, events)

    try:
        after, _ = handler.store.transact(task_id, modify)
    except NotAllowed as refused:
        about = Chose(actor=actor, inquiry_id=command.inquiry_id, verdict=command.verdict)
        handler.record_attempt(task_id, about, refused)
        raise
    return Chosen(
        verdict=command.verdict,
        steps=tuple(after.inquiry(step.id) for step in found[-1].covered),
        not_allowed=found[-1].not_allowed,
        changed=found[-1].changed,
    )


def _part(handler: Handler, inquiry_id: str, command: ChoseAll, now: datetime, snap: Snapshot) -> Changes:
    one = Chose(actor=command.actor, inquiry_id=inquiry_id, verdict=command.verdict, reason=command.reason)
    return handler.changes_of(snap, one, now)


def _sorted(handler: Handler, snap: Snapshot, command: ChoseAll, now: datetime) -> _Sorted:
    """Which steps the word covers; raises what says why it covers none."""
    if command.verdict not in (Verdict.APPROVE, Verdict.REJECT):
        raise FixInput("All steps can be approved or rejected.", hint="Decide on each for anything else.")
    steps = batch.steps_of(snap.inquiry(command.inquiry_id), snap.inquiries)
    first_open(handler, steps, command.actor, now)
    waiting = _waiting(steps, now)
    mine = [step for step in waiting if _may(handler, step, command.actor)]
    covered = _seen(mine, command)
    if not covered:
        raise ShowAgain(
            "What you saw is not what is asked now; nothing was decided.",
            hint="Look at the requests again and decide on what they show.",
        )
    return _Sorted(
        covered=tuple(covered),
        not_allowed=tuple(step.number for step in waiting if step not in mine),
        changed=tuple(step.number for step in mine if step not in covered),
    )


def first_open(handler: Handler, steps: Iterable[Inquiry], actor: Actor, now: datetime) -> Inquiry:
    """The first open one that this person may decide; raises what says why there is none."""
    every = sorted(steps, key=_decided_at, reverse=True)
    waiting = _waiting(every, now)
    if not waiting:
        return lifecycle.still_open(every[0], now)
    mine = next((step for step in waiting if _may(handler, step, actor)), None)
    if mine is None:
        handler.check_may_decide(waiting[0], actor)
    return mine or waiting[0]


def _waiting(steps: Iterable[Inquiry], now: datetime) -> list[Inquiry]:
    return sorted((s for s in steps if s.open and s.expires_at > now), key=lambda step: step.number)


def _decided_at(step: Inquiry) -> tuple[bool, float]:
    """Decided ones first, the latest first: who was faster is the news."""
    return (step.decision is not None, step.decision.at.timestamp() if step.decision else 0.0)


def _may(handler: Handler, step: Inquiry, actor: Actor) -> bool:
    try:
        handler.check_may_decide(step, actor)
    except NotAllowed:
        return False
    return True


def _seen(steps: Iterable[Inquiry], command: ChoseAll) -> list[Inquiry]:
    """Those of the steps that this person saw as they are stored."""
    if command.digests is not None:
        return list(_by_digest(steps, list(command.digests)))
    if command.seen is not None:
        return [
            step for step in steps if _voted(step, command) or command.seen.get(step.number) == step.revision
        ]
    if command.verdict is Verdict.REJECT:
        return list(steps)
    raise FixInput("Which steps were seen?", hint='Send "digests" with the digest of each step to approve.')


def _by_digest(steps: Iterable[Inquiry], digests: list[str]) -> Iterator[Inquiry]:
    """Each digest stands for one step: of two calls that are the same, one may not have been seen."""
    for step in steps:
        known = next((d for d in digests if len(d) >= SHORT and step.digest.startswith(d.lower())), None)
        if known is not None:
            digests.remove(known)
            yield step


def _voted(step: Inquiry, command: ChoseAll) -> bool:
    """Whether it changed by this person's own vote, which is the same word again."""
    return any(v.by.key == command.actor.key and v.verdict is command.verdict for v in step.votes)


def of_batch(handler: Handler, name: str) -> tuple[Inquiry, ...]:
    """The approvals of that batch; raises `NotFound`. Its name begins with the id of its task."""
    missing = NotFound(f"There is no batch {name}.", hint="`batch` of a request says which it is part of.")
    try:
        snap = handler.store.snapshot(name.rsplit("-", 2)[0])
    except NotFound:
        raise missing from None
    found = tuple(i for i in snap.inquiries if (i.batch, i.kind) == (name, Kind.APPROVAL))
    if not found:
        raise missing
    return found


def pressed(handler: Handler, press: Pressed) -> Reply:
    """What a button about all steps of a batch does, and what to say about it."""
    rejects = press.verb is Verb.REJECT_ALL
    reason = "\n".join(press.fields.get("reason", ())).strip()
    if rejects and not reason:
        return Reply(key="ask_back.why_reject_all")
    command = ChoseAll(
        actor=press.actor,
        inquiry_id=press.inquiry_id,
        verdict=Verdict.REJECT if rejects else Verdict.APPROVE,
        reason=reason,
        seen=dict(batch.read_seen(press.seen)),
    )
    return told_of_all(handler.choose_all(command))


# --- what to say about it ----------------------------------------------------------------------


def told(steps: Iterable[Inquiry], verdicts: Iterable[Verdict]) -> Reply:
    """What to say to a person whose decisions on several requests were recorded."""
    groups: dict[tuple[str, str], list[int]] = {}
    for step, verdict in zip(steps, verdicts, strict=True):
        groups.setdefault(_recorded(step, verdict), []).append(step.number)
    said = [
        Reply(key=key, details={"numbers": batch.ranges(numbers)}, nested={"what": what} if what else {})
        for (key, what), numbers in groups.items()
    ]
    return said[0].having(more=tuple(said[1:])) if len(said) > 1 else said[0]


def told_of_all(chosen: Chosen) -> Reply:
    """The same for one word about all steps, with those that are left open."""
    said = told(chosen.steps, [chosen.verdict] * len(chosen.steps))
    left = [
        Reply(key=key, details={"numbers": batch.ranges(numbers)})
        for key, numbers in (
            ("reply.left_not_allowed", chosen.not_allowed),
            ("reply.left_changed", chosen.changed),
        )
        if numbers
    ]
    whole: Reply = said.having(more=(*said.more, *left))
    return whole


def _recorded(step: Inquiry, verdict: Verdict) -> tuple[str, str]:
    """The sentence about what one person's word came to, and the words in it for the verdict."""
    if not step.open:
        return "reply.decided_together", verdict_key(step, verdict)
    return "reply.voted_no_together" if verdict is Verdict.REJECT else "reply.voted_together", ""
