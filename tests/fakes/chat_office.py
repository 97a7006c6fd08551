"""The bot's half for a chat product: doors and courier in their own thread, on a real store.

Turns are a test's own doing: `asks` and `ends` write what a turn would have written; a `Desk`
beside it runs real ones.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

from redis.client import Pipeline

from agent_runner import lifecycle
from agent_runner.config import Config, Workspace
from agent_runner.model import Inquiry, Outcome, OutcomeKind, Progress, Task
from agent_runner.queues import fresh_id
from agent_runner.registers import Registers
from agent_runner.store import Store, connect
from bot.clock import Clock
from bot.courier import Courier
from bot.doors import Door, Parts
from bot.handle import Handler
from bot.platforms import clients, doors
from bot.settings import Settings
from tests.fakes.values import an_inquiry

T = TypeVar("T")


class ChatOffice:
    """One bot process. Two of them on one store are two replicas."""

    def __init__(
        self,
        redis_url: str,
        config: Config,
        environment: Mapping[str, str],
        *,
        store: Store | None = None,
        every: float = 0.05,
        page: str = "http://countersign.test",
    ) -> None:
        ops = {} if config.workspaces else {"ops": Workspace(path="/srv/ops")}
        self.config: Config = config.having(workspaces={**ops, **config.workspaces})
        self.offset = timedelta()
        client = connect(redis_url, patient=False)
        self.store = store or Store(client, enqueue=_queued)
        self.registers = Registers(client)
        self.handler = Handler(
            self.store,
            self.config,
            groups=lambda: self.registers.groups(self.config.group_keepers),
            clock=self.now,
            new_id=fresh_id,
        )
        self.clock = Clock(
            self.store, self.registers, recover=list, others=self.handler.away.clear, clock=self.now
        )
        settings = Settings(self.config, None, Path(), environment, "127.0.0.1", 0)
        self.parts = Parts(
            settings=settings,
            store=self.store,
            registers=self.registers,
            handler=self.handler,
            clock=self.now,
            zone=UTC,
            wake=lambda: self.courier.wake(),
            page=page,
        )
        self._every = every
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="chat-office")
        self._courier_task: asyncio.Task[None] | None = None

    def steering(self, task_id: str) -> dict[str, Any]:
        """What people's words and presses change about a task, and the courier does not."""
        snap = self.store.snapshot(task_id)
        courier = {"revision", "updated_at"}
        return {"task": snap.task.model_dump(exclude=courier), "inquiries": snap.inquiries}

    def now(self) -> datetime:
        """The time, moved by `offset`."""
        return datetime.now(UTC) + self.offset

    # --- life ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Connects the doors and starts delivering."""
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        """Stops as a bot that is told to."""
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Does something in the bot's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        self.doors: dict[str, Door] = doors(self.parts)
        self.courier = Courier(
            self.store,
            self.registers,
            clients(self.parts, self.doors),
            approvers=self.handler.approvers,
            told=self.handler.told,
            zone=UTC,
            clock=self.now,
        )
        for door in self.doors.values():
            await door.start()
        self._courier_task = asyncio.create_task(self.courier.run(every=self._every))

    async def _stop(self) -> None:
        if self._courier_task:
            self._courier_task.cancel()
            await asyncio.gather(self._courier_task, return_exceptions=True)
        for door in self.doors.values():
            await door.stop()

    # --- what a turn would do ------------------------------------------------------------

    def task(self) -> Task:
        """The newest task."""
        return self.store.list_tasks(None, after=None, limit=1)[0]

    def begins(self, task_id: str) -> None:
        """A worker takes the queued turn."""
        task = self.store.task(task_id)
        self._do(task_id, lambda s, now: lifecycle.start(
            s, turn=task.turn, attempt=task.attempt, worker="w", now=now
        ))  # fmt: skip

    def asks(self, task_id: str, *inquiries: Inquiry) -> tuple[Inquiry, ...]:
        """The queued turn runs, and ends with these requests (a Bash call if none are given)."""
        task = self.store.task(task_id)
        made = []
        for n, inquiry in enumerate(inquiries or (an_inquiry(),)):
            number = self.store.next_number("inquiry")
            made.append(
                inquiry.having(
                    id=f"i_{number}",
                    number=number,
                    task_id=task_id,
                    batch=f"{task_id}-{task.turn}-1",
                    tool_use_id=f"toolu_{task.turn}_{n}",
                    asked_by=task.asked_by,
                    asked_at=self.now(),
                    expires_at=self.now() + timedelta(hours=8),
                )
            )
        self.begins(task_id)
        self._do(
            task_id,
            lambda s, now: lifecycle.complete(s, Outcome(kind=OutcomeKind.DEFERRED), tuple(made), now),
        )
        return tuple(made)

    def ends(self, task_id: str, result: str = "All done.") -> None:
        """The queued turn runs to its end."""
        self.begins(task_id)
        done = Outcome(kind=OutcomeKind.DONE, result=result)
        self._do(task_id, lambda s, now: lifecycle.complete(s, done, (), now))

    def says(self, task_id: str, activity: str, detail: str = "") -> None:
        """The running turn tells what it does."""
        self.registers.show_progress(task_id, Progress(activity=activity, detail=detail, since=self.now()))
        self._loop.call_soon_threadsafe(self.courier.progressed, task_id)

    def _do(self, task_id: str, event: Callable[..., Any]) -> None:
        now = self.now()
        self.store.transact(task_id, lambda snap: event(snap, now))


def _queued(_pipe: Pipeline, _task: Task) -> None:
    """Turns are a test's own doing."""
