"""Command in, store transaction, short reply out. The one gate for every way in.

Who may decide, and whether it is still open, is checked inside the transaction, from the
store and the policy, never from what the door sent.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from agent_runner import granting, lifecycle, policy
from agent_runner.audit import Event, Note
from agent_runner.config import Config, Workspace
from agent_runner.errors import CountersignError, FixInput, GuestsMayNot, NotAllowed, NotFound, WrongState
from agent_runner.model import (
    Actor,
    Grant,
    Inquiry,
    Message,
    Place,
    Role,
    RunOptions,
    Task,
    Verdict,
    Vote,
)
from agent_runner.people_register import PeopleRegister
from agent_runner.store import Changes, Snapshot, Store
from bot import emergency, together
from bot.away import Away
from bot.checks import Checks, call_of
from bot.commands import Ask, AskedAgain, Chose, ChoseAll, ChoseSeveral, Retried, Revoked, Said, Stopped
from bot.reply import OVERHEARD, Reply, decided
from cards import replies, spoken

__all__ = ["OVERHEARD", "Handler", "Reply", "decided"]


class MayNotBreakGlass(NotAllowed):
    """Only those listed for it may approve alone."""

    code = "may_not_break_glass"


class SaidAlready(WrongState):
    """Somebody else has voted in that person's place, or was stood in for: one place is one vote."""

    code = "said_already"


class Handler:
    """Handles the commands of every door. Synchronous; doors call it in a thread."""

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        needs_approval: policy.NeedsApproval | None = None,
        groups: Callable[[], Mapping[str, Sequence[str]]] = dict,
        clock: Callable[[], datetime],
        new_id: Callable[[str], str],
        zone: tzinfo = UTC,
    ) -> None:
        self.store = store
        self.config = config
        self._checks = Checks(config, needs_approval, self.people, zone)
        self._groups = groups
        self.register = PeopleRegister(store.client, store.keys)
        self.away = Away(config.people, self.register, store=store, clock=clock, zone=zone)
        self.clock = clock
        self.new_id = new_id

    # --- jobs ----------------------------------------------------------------------------

    def ask(self, command: Ask) -> Task:
        """Starts a task; raises `FixInput` for words or a workspace that cannot be used."""
        whole, actor, (name, workspace) = self.check_ask(command)
        plan, text = spoken.plan_first(whole)
        now, task_id = self.clock(), self.new_id("t")
        task = Task(
            id=task_id,
            number=self.store.next_number("task"),
            workspace=name,
            cwd=str(Path(workspace.path)),
            pool=workspace.pool,
            place=command.place or Place(platform=command.actor.platform, thread=task_id),
            asked_by=actor,
            text=text,
            created_at=now,
            updated_at=now,
            session_id=str(uuid.uuid4()),
            options=RunOptions(plan=plan or command.plan, model=self.config.model.name),
            prompt=text,
        )
        message = Message(role=Role.USER, text=text, at=now, by=command.actor)
        note = Note(event=Event.TASK_ASKED, at=now, task_id=task_id, actor=command.actor, words=text)
        return self.store.create(task, messages=[message], notes=[note])

    def check_ask(self, command: Ask) -> tuple[str, Actor, tuple[str, Workspace]]:
        """The words, the person and the workspace of a job; raises as `ask` does, and starts nothing."""
        text, actor = self._text(command.text), self._member(command.actor)
        return text, actor, self._workspace(command.workspace, command.place)

    def stop(self, command: Stopped) -> Task:
        """Stops a task, at once or by asking its worker; raises `WrongState` when it has ended."""
        now, actor = self.clock(), self._member(command.actor)
        snap, _ = self.store.transact(command.task_id, lambda snap: lifecycle.stop(snap, actor, now))
        return snap.task

    def retry(self, command: Retried) -> Task:
        """Queues a failed or stuck turn once more."""
        now, actor = self.clock(), self._member(command.actor)
        snap, _ = self.store.transact(command.task_id, lambda snap: lifecycle.retry(snap, actor, now))
        return snap.task

    # --- words in the thread -------------------------------------------------------------

    def say(self, command: Said) -> Reply:
        """Takes words in a thread: an answer to an open request, a control word, or a follow-up."""
        text = self._text(command.text)
        about_them = self.away.hear(command.actor, text, in_thread=True, addressed=command.addressed)
        if about_them is not None:
            return about_them
        snap = self.store.snapshot(command.task_id)
        alone = emergency.heard(text)
        if alone is not None:
            return emergency.hear(self, command, alone, snap)
        reply = replies.parse(text, snap.inquiries, quoted=command.quoted)
        match reply:
            case replies.Decide():
                return self._decide_by_words(command.actor, reply)
            case replies.DecideSeveral():
                several = tuple(Chose.meant(command.actor, decide) for decide in reply.decides)
                steps = self.choose_several(ChoseSeveral(actor=command.actor, choices=several))
                return together.told(steps, [decide.verdict for decide in reply.decides])
            case replies.DecideAll():
                all_of_them = ChoseAll(actor=command.actor, **reply.model_dump(exclude={"kind"}))
                return together.told_of_all(self.choose_all(all_of_them))
            case replies.AskBack():
                return Reply(key=f"ask_back.{reply.code}", details=reply.details, nested=reply.nested)
            case replies.Control():
                return self._control(command, reply.command)
            case replies.NotAnAnswer() if not command.addressed:
                return OVERHEARD
            case replies.NotAnAnswer():
                return self._follow_up(command, reply.text)
            case _:
                return Reply(key="reply.nothing")

    def _decide_by_words(self, actor: Actor, reply: replies.Decide) -> Reply:
        return decided(self.choose(Chose.meant(actor, reply)), reply.verdict)

    def _control(self, command: Said, word: str) -> Reply:
        if word == "stop":
            self.stop(Stopped(actor=command.actor, task_id=command.task_id))
            return Reply(key="reply.stopping")
        if word == "retry":
            self.retry(Retried(actor=command.actor, task_id=command.task_id))
            return Reply(key="reply.retrying")
        if word == "status":
            state = self.store.task(command.task_id).state
            return Reply(key="reply.status", nested={"state": f"state.{state}"})
        return Reply(key="reply.help")

    def _follow_up(self, command: Said, text: str) -> Reply:
        now, actor = self.clock(), self._member(command.actor)
        _, answer = self.store.transact(
            command.task_id, lambda snap: lifecycle.follow_up(snap, text, actor, now)
        )
        return Reply(key="reply.started" if answer == "started" else "reply.kept")

    # --- decisions -----------------------------------------------------------------------

    def choose(self, command: Chose) -> Inquiry:
        """Records a decision (or a vote) and returns the inquiry as it is now.

        Raises `NotFound`, `NotAllowed` (403), `AlreadyDecided` or `ShowAgain` (409), `Expired`
        (410), `FixInput` (422); in each case nothing is decided.
        """
        task_id = self.store.inquiry(command.inquiry_id).task_id
        now = self.clock()
        command = command.having(actor=self.known(command.actor))
        try:
            after, _ = self.store.transact(task_id, lambda snap: self.changes_of(snap, command, now))
        except NotAllowed as refused:
            self.record_attempt(task_id, command, refused)
            raise
        return after.inquiry(command.inquiry_id)

    def choose_several(self, command: ChoseSeveral) -> tuple[Inquiry, ...]:
        """Records several decisions in one write, or none of them; raises as `choose` does.

        The error's details say which request it is about (`request`).
        """
        return together.choose_several(self, command)

    def choose_all(self, command: ChoseAll) -> together.Chosen:
        """Records one word about all open steps of a batch that this person saw and may decide.

        Raises as `choose` does when there is none; steps that are left open are named in the result.
        """
        return together.choose_all(self, command)

    def changes_of(self, snap: Snapshot, command: Chose, now: datetime) -> Changes:
        """What a decision changes; raises as `choose` does."""
        inquiry = snap.inquiry(command.inquiry_id)
        right = self.check_may_decide(inquiry, command.actor, break_glass=command.break_glass)
        lifecycle.still_open(inquiry, now)
        decision = self._checks.decision(inquiry, command, now, acting_for=right)
        words = decision.reason or decision.conditions
        vote = Vote(by=command.actor, at=now, verdict=decision.verdict, words=words, acting_for=right)
        no = decision.verdict is Verdict.REJECT and inquiry.veto
        if decision.break_glass:
            votes, decided = inquiry.votes, True  # it is beside the votes, not one of them
        elif no or decision.verdict is Verdict.ANSWER:
            votes, decided = (*inquiry.votes, vote), True  # one person's word is enough
        else:
            tally = self._tally(inquiry, vote)
            votes, decided = tally.votes, tally.decided
            if votes == inquiry.votes and not decided:
                return Changes()  # the same person, the same word again (B07)
        return lifecycle.decide(snap, inquiry.id, decision, votes=votes, decided=decided, now=now)

    def _tally(self, inquiry: Inquiry, vote: Vote) -> policy.Tally:
        """The votes with this one; raises `SaidAlready` if somebody else gave that person's word."""
        other = policy.taken_by(inquiry.votes, vote)
        if other is not None:
            raise SaidAlready(
                f"{other.by.name} has voted in that place already; one place is one vote.",
                hint="The others who may decide still can.",
                who=other.by.name,
            )
        able = policy.able(inquiry.approvers, inquiry.requester_may_decide, inquiry.asked_by, self.people())
        return policy.tally(inquiry.votes, vote, inquiry.quorum, veto=inquiry.veto, able=able)

    # --- approvals that outlive one call ---------------------------------------------------

    def grants(self) -> tuple[Grant, ...]:
        """Those that hold now, by the number of their request."""
        now, valid = self.clock(), self.config.policy.approval_valid_for
        return tuple(g for g in self.store.grants(now) if (g.rule or now - g.at <= valid) and not g.used_up)

    def revoke(self, command: Revoked) -> Grant:
        """Takes a grant back, from the next call on; raises `NotFound`, `NotAllowed` or `WrongState`."""
        now = self.clock()
        known = next((g for g in self.store.grants(now) if g.id == command.grant_id), None)
        if known is None:
            raise NotFound(
                f"There is no grant {command.grant_id} that holds.",
                hint="`countersign grants list` shows those that do.",
            )
        _, revoked = self.store.transact(
            known.task_id, lambda snap: self._revoke(snap, known.id, self.known(command.actor), now)
        )
        result: Grant = revoked
        return result

    def _revoke(self, snap: Snapshot, grant_id: str, actor: Actor, now: datetime) -> Changes:
        grant = snap.grant(grant_id)
        if not self.may_revoke(grant, snap.inquiry(grant.inquiry_id), actor):
            raise NotAllowed(
                f"{actor.name} may not revoke grant {grant_id}.",
                hint=f"{grant.by.name} can, who gave it, and everybody who may decide on the request.",
            )
        return granting.revoke(snap, grant_id, actor, now)

    def may_revoke(self, grant: Grant, inquiry: Inquiry, actor: Actor) -> bool:
        """Whether this person gave it, or could decide on the request with which it was given."""
        if policy.same_person(grant.by, actor, self.people()):
            return True
        try:
            self.check_may_decide(inquiry, actor)
        except NotAllowed:
            return False
        return True

    # --- who is who ------------------------------------------------------------------------

    def people(self) -> policy.People:
        """[people] with the groups that platforms keep, as they were read last, and who is away."""
        return self.away.applied(policy.joined(self.config.people, self._groups()))

    def known(self, actor: Actor) -> Actor:
        """The actor by their name in [people] today: one person's clicks on all platforms count once."""
        name = policy.identify(self.config.people, actor.platform, actor.user_id, actor.tenant)
        known: Actor = actor.having(person=name or actor.person)
        return known

    def is_outsider(self, actor: Actor) -> bool:
        """Whether this is a guest whom nobody listed: what they say starts, steers and stops nothing."""
        return actor.guest and not self.known(actor).person

    def _member(self, actor: Actor) -> Actor:
        """The actor by their name in [people]; raises `GuestsMayNot` for an outsider."""
        if self.is_outsider(actor):
            raise GuestsMayNot(
                f"{actor.name} is a guest here and cannot start jobs, steer them or stop them.",
                hint="Somebody who runs this bot can list them under [people].",
            )
        return self.known(actor)

    def check_may_decide(self, inquiry: Inquiry, actor: Actor, *, break_glass: bool = False) -> str:
        """By what right this person may decide (see `people.right_of`); `NotAllowed` names who may."""
        if break_glass:
            if self.may_break_glass(inquiry, actor):
                return ""
            raise MayNotBreakGlass(
                f"{actor.name} may not approve request #{inquiry.number} alone.",
                hint="Only those listed under policy.break_glass may.",
            )
        right = policy.right_of(
            actor,
            approvers=inquiry.approvers,
            requester_may_decide=inquiry.requester_may_decide,
            asked_by=inquiry.asked_by,
            people=self.people(),
        )
        if right is not None:
            return right
        names = self.approver_names(inquiry)
        raise NotAllowed(
            f"{actor.name} may not decide request #{inquiry.number}.",
            hint=f"These can: {', '.join(names)}." if names else "Nobody is listed who can.",
            approvers=list(names),
        )

    def may_break_glass(self, inquiry: Inquiry, actor: Actor) -> bool:
        """Whether this person may approve alone."""
        return policy.may_break_glass(self.config.policy, actor, inquiry, self.people())

    def approver_names(self, inquiry: Inquiry) -> tuple[str, ...]:
        """The people and groups who may decide, as a reader knows them."""
        return policy.names_of(
            inquiry.approvers,
            inquiry.asked_by,
            self.people(),
            requester_may_decide=inquiry.requester_may_decide,
        )

    def approvers(
        self, inquiry: Inquiry, platform: str = "", *, votes: Sequence[Vote] = ()
    ) -> tuple[policy.Contact, ...]:
        """The same, each as that platform knows them where it does, without those of these votes."""
        return policy.contacts(
            inquiry.approvers,
            inquiry.asked_by,
            self.people(),
            platform,
            requester_may_decide=inquiry.requester_may_decide,
            votes=votes,
        )

    def told(self, inquiry: Inquiry, platform: str = "") -> dict[str, tuple[policy.Contact, ...]]:
        """Whom the messages about a request mention, by key (see `cards.mentions`)."""
        number, decision, found = inquiry.number, inquiry.decision, {}
        if inquiry.escalated_at:
            added = inquiry.having(approvers=inquiry.escalate_to)
            found[f"escalated:{number}"] = self.approvers(added, platform)
        if inquiry.reminded_at:
            found[f"reminder:{number}"] = self.approvers(inquiry, platform, votes=inquiry.votes)
        if decision is not None and decision.break_glass:
            theirs = Vote(by=decision.by, at=decision.at, verdict=decision.verdict)
            found[f"breakglass:{number}"] = self.approvers(inquiry, platform, votes=(theirs,))
        return found

    def ask_again(self, command: AskedAgain) -> Inquiry:
        """Opens a fresh inquiry for an expired one's call (B12)."""
        old, actor = self.store.inquiry(command.inquiry_id), self._member(command.actor)
        now, number = self.clock(), self.store.next_number("inquiry")
        terms = policy.terms(policy.route(self.config.policy, call_of(old)), now)
        after, fresh = self.store.transact(
            old.task_id,
            lambda snap: lifecycle.ask_again(
                snap,
                old.id,
                new_id=self.new_id("i"),
                number=number,
                terms=terms,
                by=actor,
                now=now,
            ),
        )
        return after.inquiry(fresh.id)

    # --- parts ---------------------------------------------------------------------------

    def record_attempt(self, task_id: str, command: Chose, refused: CountersignError) -> None:
        """Puts on record that somebody tried what they may not."""
        note = Note(
            event=Event.REFUSED_ATTEMPT,
            at=self.clock(),
            task_id=task_id,
            inquiry_id=command.inquiry_id,
            actor=command.actor,
            words=refused.message,
            details={
                "verdict": command.verdict,
                **({"break_glass": True} if command.break_glass else {}),
            },
        )
        self.store.transact(task_id, lambda snap: lifecycle.remark(snap, note))

    def _text(self, text: str) -> str:
        limit = self.config.limits.task_text_chars
        if not text.strip():
            raise FixInput("There are no words in it.", hint="Say what should be done.")
        if len(text) > limit:
            raise FixInput(
                f"The text has {len(text)} characters; {limit} are allowed.",
                hint="Put the long part in a file in the workspace and name it.",
            )
        return text.strip()

    def _workspace(self, name: str, place: Place | None) -> tuple[str, Workspace]:
        known = self.config.workspaces
        if not known:
            raise FixInput("No workspace is configured.", hint="Add one under [workspaces].")
        name = name or self._workspace_of(place) or next(iter(known))
        if name not in known:
            raise FixInput(f"There is no workspace {name}.", hint=f"There are: {', '.join(known)}.")
        return name, known[name]

    def _workspace_of(self, place: Place | None) -> str:
        """The workspace to which a chat belongs; '' if none is listed for it."""
        for name, workspace in self.config.workspaces.items():
            for chat in workspace.places:
                if place and (chat.platform, chat.chat) == (place.platform, place.chat):
                    return name
        return ""
