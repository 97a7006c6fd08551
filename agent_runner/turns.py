"""One turn from claim to commit: lease, gate, engine, and the transaction that ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agent_runner import bash_reader, engine, grants, lifecycle, limits, policy
from agent_runner.config import Config
from agent_runner.digest import digest
from agent_runner.engine_setup import BUNDLED_CLI, TurnSpec
from agent_runner.errors import LostLease, TryLater
from agent_runner.gate import PLAN_TOOL, QUESTION_TOOL, Gate
from agent_runner.leases import my_lease
from agent_runner.ledger import StoreLedger
from agent_runner.model import (
    LIMIT_TOOL,
    PLAN_EDITS,
    DeferredCall,
    Failure,
    Grant,
    Hold,
    Inquiry,
    Kind,
    Outcome,
    OutcomeKind,
    Progress,
    Task,
)
from agent_runner.registers import LEASE_BEAT, Lease, Registers
from agent_runner.replaced import replaced
from agent_runner.store import Snapshot, Store
from agent_runner.transcripts import RedisTranscripts

log = logging.getLogger(__name__)

PROGRESS_EVERY = 0.3
"""Seconds between two lines of progress: often enough to look alive, rare enough to be cheap."""

BEFORE_KEPT = 200_000
"""Bytes of an existing file kept with a Write to it, for the diff; a larger file is not compared."""

COMMIT_SECONDS = 60.0
"""How long a finished turn keeps trying to commit while the store is away."""


@dataclass(frozen=True)
class Runtime:
    """What a runner process knows: read once at its start, before it forks."""

    config: Config
    redis_url: str
    model_environment: Mapping[str, str]
    environment: Mapping[str, str]
    """What the agent's process sees of the runner's environment: listed names only."""
    scratch: Path
    needs_approval: policy.NeedsApproval | None = None
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    cli_path: str | None = None


class TurnRunner:
    """Runs turns of one runner process."""

    def __init__(self, store: Store, registers: Registers, runtime: Runtime) -> None:
        self.store = store
        self.registers = registers
        self.runtime = runtime
        self.clock = runtime.clock

    async def run(self, task_id: str, turn: int, attempt: int) -> None:
        """Does the turn's work once, however often the job is delivered."""
        lease = my_lease()
        if not await asyncio.to_thread(self.registers.take_lease, task_id, lease):
            log.info("turn %s/%s of %s is running elsewhere", turn, attempt, task_id)
            return
        try:
            snap, ours = await asyncio.to_thread(self._claim, task_id, turn, attempt, lease)
            if ours:
                await self._run(snap, lease)
        except LostLease:
            log.warning("lost the lease of %s; another worker has it", task_id)
        finally:
            with contextlib.suppress(TryLater):
                await asyncio.to_thread(self.registers.release_lease, task_id, lease.token)

    def _claim(self, task_id: str, turn: int, attempt: int, lease: Lease) -> tuple[Snapshot, bool]:
        worker, now = f"{lease.host}:{lease.pid}", self.clock()
        return self.store.transact(
            task_id,
            lambda snap: lifecycle.start(snap, turn=turn, attempt=attempt, worker=worker, now=now),
            lease=lease.token,
        )

    async def _run(self, snap: Snapshot, lease: Lease) -> None:
        watch = _Watch(self, snap.task, lease)
        beat = asyncio.create_task(watch.beat())
        try:
            outcome, gate = await self._engine(snap, lease, watch)
            asked = await asyncio.to_thread(self._inquiries, snap, outcome, gate, watch.words)
            await self._commit(snap.task.id, outcome, asked, lease)
        finally:
            beat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beat

    async def _engine(self, snap: Snapshot, lease: Lease, watch: _Watch) -> tuple[Outcome, Gate | None]:
        config, task = self.runtime.config, snap.task
        if task.workspace not in config.workspaces:
            failure = Failure(
                code="workspace_missing",
                message=f"The workspace {task.workspace} is not configured on this runner.",
                hint="Add it to countersign.toml on the runner, then retry.",
            )
            return Outcome(kind=OutcomeKind.FAILED, failure=failure, retry=True), None
        bounds = await asyncio.to_thread(self._bounds, task)
        if (full := limits.exhausted(bounds)) is not None:
            return Outcome(kind=OutcomeKind.LIMITED, limit=full.reached(), begun=False), None
        warming = asyncio.create_task(asyncio.to_thread(bash_reader.warm))  # beside the CLI's own start
        gate = Gate(self._judge(task), self._ledger(task, lease, watch), plans=self.runtime.scratch)
        async with RedisTranscripts.connect(self.runtime.redis_url) as transcripts:
            outcome = await engine.run_turn(
                self._spec(snap, bounds), gate, transcripts, on_seen=watch.seen, should_stop=watch.should_stop
            )
        await warming
        return outcome, gate

    def _judge(self, task: Task) -> Callable[[str, Mapping[str, Any], str | None], policy.Judgement]:
        rules, hook = self.runtime.config.policy, self.runtime.needs_approval

        def judge(name: str, tool_input: Mapping[str, Any], agent_id: str | None) -> policy.Judgement:
            return policy.judge(rules, _call(task, name, tool_input, agent_id), needs_approval=hook)

        return judge

    def _ledger(self, task: Task, lease: Lease, watch: _Watch) -> StoreLedger:
        config = self.runtime.config

        def refusal(inquiry: Inquiry) -> str:
            call = _call(task, inquiry.tool_name, inquiry.effective_input, None)
            people = policy.joined(config.people, self.registers.groups(config.group_keepers))
            refused = policy.check_dispatch(
                config.policy, call, inquiry=inquiry, people=people, now=self.clock()
            )
            return refused.text if refused else ""

        def covers(grant: Grant, call: DeferredCall, stopped_by: str) -> bool:
            return grants.holds(
                config.policy,
                grant,
                _call(task, call.tool_name, call.tool_input, None),
                stopped_by=stopped_by,
                asked_by=task.asked_by,
                people=policy.joined(config.people, self.registers.groups(config.group_keepers)),
                now=self.clock(),
            )

        def raised(snap: Snapshot, call: DeferredCall, rule: str) -> Inquiry:
            longest = timedelta(minutes=config.limits.live_minutes)
            return self._inquiry(snap, call, rule, watch.words, Hold.LIVE, longest=longest)

        ledger = StoreLedger(
            self.store,
            task.id,
            lease.token,
            refusal=refusal,
            covers=covers,
            raised=raised,
            clock=self.clock,
        )
        watch.ledger = ledger
        return ledger

    def _bounds(self, task: Task) -> tuple[limits.Bound, ...]:
        """The limits that hold for this turn: no more than what is left now, whoever works beside it."""
        now = self.clock()
        spent = self.registers.spent(task.workspace, limits.day_of(now))
        return limits.bounds(self.runtime.config, task, spent_today=spent, now=now)

    def _spec(self, snap: Snapshot, bounds: tuple[limits.Bound, ...]) -> TurnSpec:
        task, config = snap.task, self.runtime.config
        asked = [i.tool_use_id for i in snap.inquiries if i.tool_use_id and i.hold is Hold.DEFERRED]
        return TurnSpec(
            cwd=task.cwd,
            session_id=task.session_id,
            prompt=task.prompt,
            deferred_id=asked[-1] if asked else "",
            attempt=task.attempt,
            opening=task.text,
            plan=task.options.plan,
            model=task.options.model,
            environment={**self.runtime.environment, **self.runtime.model_environment},
            mcp_servers=config.workspaces[task.workspace].mcp,
            bounds=bounds,
            connect_seconds=config.limits.connect_seconds,
            live_seconds=config.limits.live_minutes * 60,
            idle_seconds=config.limits.idle_minutes * 60,
            turn_seconds=config.limits.turn_minutes * 60,
            scratch=self.runtime.scratch,
            cli_path=self.runtime.cli_path or BUNDLED_CLI,
        )

    # --- the inquiries of a turn ---------------------------------------------------------

    def _inquiries(
        self, snap: Snapshot, outcome: Outcome, gate: Gate | None, words: str
    ) -> tuple[Inquiry, ...]:
        """Those a turn ends with: the call at which it stopped, and the others of the same model turn."""
        if outcome.limit is not None:
            rule = limits.rule(outcome.limit, snap.task.workspace)
            return (self._inquiry(snap, limits.call(outcome.limit), rule, words, Hold.DEFERRED),)
        if outcome.deferred is None or gate is None or gate.deferral is None:
            return ()
        first = self._inquiry(snap, outcome.deferred, gate.deferral.rule, words, Hold.DEFERRED)
        others = (self._inquiry(snap, s.call, s.rule, words, Hold.SIBLING) for s in gate.siblings)
        return (first, *others)

    def _inquiry(
        self,
        snap: Snapshot,
        call: DeferredCall,
        rule: str,
        words: str,
        hold: Hold,
        *,
        longest: timedelta | None = None,
    ) -> Inquiry:
        task, config, now = snap.task, self.runtime.config, self.clock()
        asked = _call(task, call.tool_name, call.tool_input, None)
        route = policy.route(config.policy, asked)
        offer = grants.rule_for(asked) if route.quorum == 1 else ""
        batch = f"{task.id}-{task.turn}-{task.attempt}"
        return Inquiry(
            id=f"i_{secrets.token_hex(8)}",
            number=self.store.next_number("inquiry"),
            kind=_KINDS.get(call.tool_name, Kind.APPROVAL),
            task_id=task.id,
            batch=f"{batch}-{call.tool_use_id}" if hold is Hold.LIVE else batch,
            tool_use_id=call.tool_use_id,
            tool_name=call.tool_name,
            tool_input=call.tool_input,
            digest=digest(call.tool_name, call.tool_input),
            workspace=task.workspace,
            cwd=task.cwd,
            asked_by=task.asked_by,
            asked_at=now,
            rule=rule,
            offer=offer,
            offer_for=config.policy.grant_for if offer and offer != PLAN_EDITS else None,
            agent_words=words,
            before=_before(task.cwd, call.tool_name, call.tool_input),
            **policy.terms(route, now, longest=longest),
            hold=hold,
            replaces=replaced(snap, call.tool_name, call.tool_input),
        )

    async def _commit(self, task_id: str, outcome: Outcome, asked: tuple[Inquiry, ...], lease: Lease) -> None:
        """Commits the outcome; keeps trying while the store is away, as long as the lease is ours."""
        deadline = asyncio.get_running_loop().time() + COMMIT_SECONDS
        while True:
            now = self.clock()
            try:
                await asyncio.to_thread(
                    self.store.transact,
                    task_id,
                    lambda snap: lifecycle.complete(snap, outcome, asked, now),  # noqa: B023  (runs at once)
                    lease=lease.token,
                )
                return
            except TryLater:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                log.warning("the store is away; the outcome of %s is kept and tried again", task_id)
                await asyncio.sleep(1.0)


class _Watch:
    """Keeps the lease alive, answers whether to stop, and tells progress while a turn runs."""

    def __init__(self, runner: TurnRunner, task: Task, lease: Lease) -> None:
        self.runner = runner
        self.task = task
        self.lease = lease
        self.ledger: StoreLedger | None = None
        self.lost = False
        self.words = ""
        self.calls = 0
        self.since = runner.clock()
        self.told = 0.0

    async def beat(self) -> None:
        """Renews the lease for as long as the turn runs."""
        while True:
            try:
                ours = await asyncio.to_thread(
                    self.runner.registers.extend_lease, self.task.id, self.lease.token
                )
                self.lost = not ours
            except TryLater:
                log.warning("the lease of %s could not be renewed", self.task.id)
            await asyncio.sleep(LEASE_BEAT)

    async def should_stop(self) -> bool:
        """Whether a person asked to stop; raises `LostLease` when another worker took over."""
        if self.lost:
            raise LostLease("Another worker owns this task now.")
        try:
            task = await asyncio.to_thread(self.runner.store.task, self.task.id)
        except TryLater:
            return False
        return task.stop_requested_by is not None

    async def seen(self, seen: engine.Seen) -> None:
        """Tells progress, and records how a decided call ended."""
        if seen.what == "tool_finished":
            if self.ledger is not None:
                await self._finish(self.ledger, seen)
        elif seen.what == "text":
            self.words = seen.text
            await self._tell("thinking", "")
        elif seen.what == "tool":
            self.calls += 1
            await self._tell("tool", seen.name)
        else:
            await self._tell("model_retry", seen.text, force=True)

    async def _finish(self, ledger: StoreLedger, seen: engine.Seen) -> None:
        try:
            await ledger.finish(seen.tool_use_id, failed=seen.failed, output=seen.text)
        except TryLater:
            # Not on record as finished: at the turn's end it counts as unknown, never as not run.
            log.exception("the end of a call of %s could not be recorded", self.task.id)

    async def _tell(self, activity: str, detail: str, *, force: bool = False) -> None:
        now = asyncio.get_running_loop().time()
        if now - self.told < PROGRESS_EVERY and not force:
            return
        self.told = now
        progress = Progress(activity=activity, detail=detail, tool_calls=self.calls, since=self.since)
        await asyncio.to_thread(self.runner.registers.show_progress, self.task.id, progress)


_KINDS = {QUESTION_TOOL: Kind.QUESTION, PLAN_TOOL: Kind.PLAN, LIMIT_TOOL: Kind.LIMIT}


def _call(task: Task, name: str, tool_input: Mapping[str, Any], agent_id: str | None) -> policy.Call:
    return policy.Call(
        tool_name=name,
        tool_input=dict(tool_input),
        cwd=task.cwd,
        workspace=task.workspace,
        agent_id=agent_id,
    )


def _before(cwd: str, tool_name: str, tool_input: Mapping[str, Any]) -> str | None:
    """The text that a Write would replace, where there is one to compare with."""
    path = tool_input.get("file_path")
    if tool_name != "Write" or not isinstance(path, str):
        return None
    file = Path(cwd) / path
    try:
        if not file.is_file() or file.stat().st_size > BEFORE_KEPT:
            return None
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
