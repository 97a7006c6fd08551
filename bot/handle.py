"""Command in, store transaction, short reply out. The one gate for every way in.

Who may decide, and whether it is still open, is checked inside the transaction, from the
store and the policy, never from what the door sent.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from agent_runner import granting, lifecycle, policy
from agent_runner.audit import Event, Note
from agent_runner.config import Config, Workspace
from agent_runner.errors import CountersignError, FixInput, GuestsMayNot, NotAllowed, NotFound
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
from agent_runner.store import Changes, Snapshot, Store
from bot import together
from bot.checks import Checks
from bot.commands import Ask, AskedAgain, Chose, ChoseAll, ChoseSeveral, Retried, Revoked, Said, Stopped
from bot.reply import OVERHEARD, Reply, decided
from cards import replies

__all__ = ["OVERHEARD", "Handler", "Reply", "decided"]


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
    ) -> None:
        self.store = store
        self.config = config
        self._checks = Checks(config, needs_approval, self.people)
        self._groups = groups
        self.clock = clock
        self.new_id = new_id

    # --- jobs ----------------------------------------------------------------------------

    def ask(self, command: Ask) -> Task:
        """Starts a task; raises `FixInput` for words or a workspace that cannot be used."""
        text, actor, (name, workspace) = self.check_ask(command)
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
            options=RunOptions(plan=command.plan, model=self.config.model.name),
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
        snap = self.store.snapshot(command.task_id)
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
        self.check_may_decide(inquiry, command.actor)
        lifecycle.still_open(inquiry, now)
        decision = self._checks.decision(inquiry, command, now)
        vote = Vote(by=command.actor, at=now, verdict=decision.verdict)
        if decision.verdict in (Verdict.REJECT, Verdict.ANSWER):
            votes, decided = (*inquiry.votes, vote), True  # one person's no is enough
        else:
            tally = policy.tally(inquiry.votes, vote, inquiry.quorum)
            votes, decided = tally.votes, tally.decided
            if votes == inquiry.votes and not decided:
                return Changes()  # the same person, the same word again (B07)
        return lifecycle.decide(snap, inquiry.id, decision, votes=votes, decided=decided, now=now)

    # --- approvals that outlive one call ---------------------------------------------------

    def grants(self) -> tuple[Grant, ...]:
        """Those that hold now, by the number of their request."""
        now, valid = self.clock(), self.config.policy.approval_valid_for
        return tuple(g for g in self.store.grants(now) if g.rule or now - g.at <= valid)

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
        """[people] with the groups that platforms keep, as they were read last."""
        return policy.joined(self.config.people, self._groups())

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

    def check_may_decide(self, inquiry: Inquiry, actor: Actor) -> None:
        """Raises `NotAllowed`, naming who may, unless this person may decide."""
        if policy.may_decide(
            actor,
            approvers=inquiry.approvers,
            requester_may_decide=inquiry.requester_may_decide,
            asked_by=inquiry.asked_by,
            people=self.people(),
        ):
            return
        names = self.approver_names(inquiry)
        raise NotAllowed(
            f"{actor.name} may not decide request #{inquiry.number}.",
            hint=f"These can: {', '.join(names)}." if names else "Nobody is listed who can.",
            approvers=list(names),
        )

    def approver_names(self, inquiry: Inquiry) -> tuple[str, ...]:
        """The people and groups who may decide, as a reader knows them."""
        return policy.names_of(inquiry.approvers, inquiry.asked_by, self.people())

    def approvers(self, inquiry: Inquiry, platform: str) -> tuple[str | Actor, ...]:
        """The same, each as that platform knows them where it does."""
        return policy.contacts(
            inquiry.approvers,
            inquiry.asked_by,
            self.people(),
            platform,
            requester_may_decide=inquiry.requester_may_decide,
        )

    def ask_again(self, command: AskedAgain) -> Inquiry:
        """Opens a fresh inquiry for an expired one's call (B12)."""
        old, actor = self.store.inquiry(command.inquiry_id), self._member(command.actor)
        now, number = self.clock(), self.store.next_number("inquiry")
        until = now + (old.expires_at - old.asked_at)
        after, fresh = self.store.transact(
            old.task_id,
            lambda snap: lifecycle.ask_again(
                snap,
                old.id,
                new_id=self.new_id("i"),
                number=number,
                expires_at=until,
                by=actor,
                now=now,
            ),
        )
        return after.inquiry(fresh.id)

    # --- parts ---------------------------------------------------------------------------

    def record_attempt(self, task_id: str, command: Chose, refused: CountersignError) -> None:
        """Puts on record that somebody tried who may not."""
        note = Note(
            event=Event.REFUSED_ATTEMPT,
            at=self.clock(),
            task_id=task_id,
            inquiry_id=command.inquiry_id,
            actor=command.actor,
            words=refused.message,
            details={"verdict": command.verdict},
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
