"""Everything but RQ and the doors, in one process: the real store, handler, turns and CLI.

Turns that would be queued are kept in a list and run when a test says so, one after another.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from redis.client import Pipeline

from agent_runner import calls, lifecycle, policy
from agent_runner.config import Config, Workspace
from agent_runner.messages_api import MessagesServer
from agent_runner.model import Actor, Inquiry, Task, Verdict
from agent_runner.queues import fresh_id
from agent_runner.registers import Registers
from agent_runner.store import Snapshot, Store, connect
from agent_runner.turns import Runtime, TurnRunner
from bot.clock import Clock
from bot.commands import Ask, AskedAgain, Chose, Said, Stopped
from bot.handle import Handler

MEI = Actor(platform="web", user_id="mei", name="mei")
LIN = Actor(platform="web", user_id="lin", name="lin")


class Desk:
    """One workspace, one store, a scripted model, and turns on demand."""

    def __init__(
        self,
        redis_url: str,
        model: MessagesServer,
        folder: Path,
        *,
        config: Config | None = None,
        environment: Mapping[str, str] | None = None,
        cli_path: str | None = None,
        needs_approval: policy.NeedsApproval | None = None,
    ) -> None:
        self.workspace = folder / "ops"
        self.workspace.mkdir(exist_ok=True)
        base = config or Config()
        self.config: Config = base.having(
            workspaces={"ops": Workspace(path=str(self.workspace)), **base.workspaces}
        )
        self.model = model
        self.queued: list[tuple[str, int, int]] = []
        self.offset = timedelta()
        self.hold = False
        client = connect(redis_url, patient=False)
        self.store = Store(client, enqueue=self._enqueue, policy_version=self.config.policy_version)
        self.registers = Registers(client)
        self.handler = Handler(
            self.store, self.config, needs_approval=needs_approval, clock=self.now, new_id=fresh_id
        )
        self.clock = Clock(self.store, self.registers, recover=list, clock=self.now)
        self.runtime = Runtime(
            config=self.config,
            redis_url=redis_url,
            model_environment={
                "ANTHROPIC_BASE_URL": model.url,
                "ANTHROPIC_API_KEY": "sk-ant-not-a-key",
                "CLAUDE_CODE_MAX_RETRIES": "1",
            },
            environment=environment or {"PATH": os.environ["PATH"], "HOME": str(folder)},
            scratch=folder / "turns",
            needs_approval=needs_approval,
            clock=self.now,
            cli_path=cli_path,
        )

    def now(self) -> datetime:
        """The time, moved by what `later` was told."""
        return datetime.now(UTC) + self.offset

    def later(self, span: timedelta) -> None:
        """Moves this desk's clock on."""
        self.offset += span

    def _enqueue(self, _pipe: Pipeline, task: Task) -> None:
        self.queued.append((task.id, task.turn, task.attempt))

    def work(self) -> None:
        """Runs what is queued, and what that queues, to the end; nothing while on `hold`."""
        while self.queued and not self.hold:
            asyncio.run(self.work_one())

    async def work_one(self) -> None:
        """Runs the oldest queued turn."""
        job = self.queued.pop(0)
        await TurnRunner(self.store, self.registers, self.runtime).run(*job)

    def ask(self, text: str, *, by: Actor = MEI, plan: bool = False) -> str:
        """Asks for a job; returns the task's id."""
        return self.handler.ask(Ask(actor=by, text=text, plan=plan)).id

    def asked(self, text: str, **options: Any) -> Inquiry:
        """Asks for a job, works, and returns the request it waits for."""
        task_id = self.ask(text, **options)
        self.work()
        return self.pending(task_id)

    def pending(self, task_id: str) -> Inquiry:
        """The one open request of a task."""
        opened = [i for i in self.snap(task_id).inquiries if i.open]
        assert len(opened) == 1, (self.snap(task_id).task.state, self.snap(task_id).task.failure)
        return opened[0]

    def choose(self, inquiry: Inquiry, verdict: str, *, by: Actor = MEI, **words: Any) -> Inquiry:
        """Decides, and works on."""
        chose = Chose(actor=by, inquiry_id=inquiry.id, verdict=Verdict(verdict), **words)
        decided = self.handler.choose(chose)
        self.work()
        return decided

    def say(self, task_id: str, text: str, *, by: Actor = MEI) -> str:
        """Says something in the thread; returns the key of what is answered."""
        return self.handler.say(Said(actor=by, task_id=task_id, text=text)).key

    def stop(self, task_id: str, *, by: Actor = MEI) -> Task:
        """Stops a task."""
        return self.handler.stop(Stopped(actor=by, task_id=task_id))

    def tick(self) -> None:
        """What the clock does now."""
        self.clock.tick()

    def ask_again(self, inquiry: Inquiry, *, by: Actor = MEI) -> Inquiry:
        """Asks an expired request again."""
        return self.handler.ask_again(AskedAgain(actor=by, inquiry_id=inquiry.id))

    def die_while_running(self, inquiry: Inquiry) -> None:
        """Claims the queued turn, starts its call, and is gone: what a killed worker leaves behind."""
        task_id, turn, attempt = self.queued.pop(0)
        now = self.now()
        self.store.transact(
            task_id, lambda snap: lifecycle.start(snap, turn=turn, attempt=attempt, worker="gone", now=now)
        )
        tool = inquiry.tool_use_id
        self.store.transact(task_id, lambda snap: calls.dispatch(snap, inquiry.id, tool, now))
        self.store.transact(task_id, lambda snap: lifecycle.lost(snap, now))

    def use_config(self, config: Config) -> None:
        """Goes on with another configuration, as a restarted runner would."""
        self.config = config
        self.runtime = replace(self.runtime, config=config)

    def snap(self, task_id: str) -> Snapshot:
        """The task with its requests as stored."""
        return self.store.snapshot(task_id)

    def task(self, task_id: str) -> Task:
        """The task as stored."""
        return self.store.task(task_id)

    def events(self, task_id: str) -> list[str]:
        """What is on record about the task, in order."""
        return [str(entry.event) for entry in self.store.audit_of(task_id)]
