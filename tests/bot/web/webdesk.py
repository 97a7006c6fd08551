"""The web platform over real HTTP and a real store; what runners would do is done by hand."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import redis.asyncio
import uvicorn
from redis.client import Pipeline

from agent_runner import calls, lifecycle
from agent_runner.config import Config, Workspace
from agent_runner.digest import digest
from agent_runner.model import (
    Actor,
    DeferredCall,
    Failure,
    Inquiry,
    Kind,
    Outcome,
    OutcomeKind,
    Progress,
    Task,
    TurnUsage,
)
from agent_runner.people import Person
from agent_runner.registers import Registers
from agent_runner.store import Store, connect
from bot.handle import Handler
from bot.web.app import create_app
from bot.web.server import GRACE, WebServer
from bot.web.service import Service

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Plain HTTP needs no list of authorities, whose loading would take most of a test's time."""

NOW = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)
MEI = Actor(platform="web", user_id="mei", name="mei")
LIN = Actor(platform="web", user_id="lin", name="lin", person="lin")
TOKENS = {"mei": "mei-token", "lin": "lin-token"}
QUEUE = "test:queued"
KINDS = {"AskUserQuestion": Kind.QUESTION, "ExitPlanMode": Kind.PLAN}
CONFIG = Config(
    workspaces={"ops": Workspace(path="/srv/ops"), "docs": Workspace(path="/srv/docs")},
    people={"lin": Person(accounts=("web:lin",), groups=("oncall",))},
)
QUESTIONS: dict[str, Any] = {
    "questions": [
        {
            "question": "Which database?",
            "header": "Database",
            "multiSelect": False,
            "options": [
                {"label": "Postgres", "description": "what production runs"},
                {"label": "SQLite", "description": "nothing to install"},
            ],
        },
        {
            "question": "Which environments?",
            "header": "Where",
            "multiSelect": True,
            "options": [
                {"label": "dev", "description": ""},
                {"label": "staging", "description": ""},
                {"label": "prod", "description": ""},
            ],
        },
    ]
}


class WebDesk:
    """A running web server, its store, and the runner's half of the work."""

    def __init__(self, redis_url: str, config: Config = CONFIG) -> None:
        self.redis_url, self.config = redis_url, config
        self.clock_now = NOW
        self.url = ""
        self._ids = itertools.count(1)
        client = connect(redis_url, patient=False)
        self.store = Store(
            client,
            enqueue=_enqueue,
            policy_version=config.policy_version,
        )
        self.registers = Registers(client)
        self.handler = Handler(self.store, config, clock=self.now, new_id=self._new_id)
        self.keep_tokens()

    def keep_tokens(self) -> None:
        """Lets the two people in."""
        self.registers.keep_token(TOKENS["mei"], MEI)
        self.registers.keep_token(TOKENS["lin"], LIN)

    @property
    def queued(self) -> list[str]:
        """The tasks whose turns were queued, in order: part of the same transaction as the change."""
        return [item.decode() for item in self.store.client.lrange(QUEUE, 0, -1) if isinstance(item, bytes)]

    def now(self) -> datetime:
        """The time: it stands still until `later`."""
        return self.clock_now

    def later(self, **span: float) -> None:
        """Moves the clock on."""
        self.clock_now += timedelta(**span)

    def _new_id(self, kind: str) -> str:
        return f"{kind}_{next(self._ids)}"

    def service(self) -> Service:
        """What the web platform is given."""
        return Service(
            handler=self.handler,
            store=self.store,
            registers=self.registers,
            config=self.config,
            clock=self.now,
            runners=lambda: 1,
            async_redis=lambda: redis.asyncio.Redis.from_url(self.redis_url),
            version="1.2.3",
            zone=UTC,
        )

    @contextmanager
    def serving(self) -> Iterator[WebDesk]:
        """The server on a free port of loopback, in a thread of its own."""
        app = create_app(self.service())
        server = WebServer(
            uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=GRACE), app.state.feed
        )
        thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
        thread.start()
        started = threading.Event()
        try:
            while not server.started and thread.is_alive():
                started.wait(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            yield self
        finally:
            server.should_exit = True
            thread.join(10)
            assert not thread.is_alive(), "the server did not end"

    def client(self, who: str = "mei", **options: Any) -> httpx.Client:
        """An API client of somebody."""
        headers = {"Authorization": f"Bearer {TOKENS[who]}"} if who else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=10, verify=_NO_TLS, **options)

    # --- the runner's half -----------------------------------------------------------------

    def start(self, task_id: str, **progress: Any) -> None:
        """A worker claims the queued turn, and says what it does."""
        task, now = self.store.task(task_id), self.now()
        self.store.transact(
            task_id,
            lambda snap: lifecycle.start(snap, turn=task.turn, attempt=task.attempt, worker="w", now=now),
        )
        if progress:
            self.registers.show_progress(task_id, Progress(since=now, **progress))

    def defer(self, task_id: str, tool_name: str, tool_input: dict[str, Any], **changes: Any) -> Inquiry:
        """The running turn stops at a call that needs a person."""
        return self.defer_all(task_id, self.call(task_id, tool_name, tool_input, **changes))[0]

    def call(self, task_id: str, tool_name: str, tool_input: dict[str, Any], **changes: Any) -> Inquiry:
        """A call of the running turn that needs a person."""
        task, now = self.store.task(task_id), self.now()
        values: dict[str, Any] = {
            "id": self._new_id("i"),
            "number": self.store.next_number("inquiry"),
            "kind": KINDS.get(tool_name, Kind.APPROVAL),
            "task_id": task_id,
            "batch": f"{task_id}-{task.turn}-{task.attempt}",
            "tool_use_id": f"toolu_{task.turn}",
            "tool_name": tool_name,
            "tool_input": tool_input,
            "digest": digest(tool_name, tool_input),
            "workspace": task.workspace,
            "cwd": task.cwd,
            "asked_by": task.asked_by,
            "asked_at": now,
            "rule": f"{tool_name}(*)",
            "approvers": ("anyone",),
            "expires_at": now + timedelta(hours=8),
        }
        return Inquiry(**{**values, **changes})

    def defer_all(self, task_id: str, *inquiries: Inquiry) -> tuple[Inquiry, ...]:
        """The running turn stops at these calls."""
        now, one = self.now(), inquiries[0]
        call = DeferredCall(tool_use_id=one.tool_use_id, tool_name=one.tool_name, tool_input=one.tool_input)
        outcome = Outcome(kind=OutcomeKind.DEFERRED, deferred=call, usage=_used(0.01))
        self.store.transact(task_id, lambda snap: lifecycle.complete(snap, outcome, inquiries, now))
        return tuple(self.store.inquiry(inquiry.id) for inquiry in inquiries)

    def asked_together(
        self, *commands: str, second: dict[str, Any] | None = None, **changes: Any
    ) -> tuple[Inquiry, ...]:
        """A new task whose turn waits for these commands; `second` changes the second of them."""
        with self.client() as client:
            task_id = client.post("/api/tasks", json={"text": "apply the plan"}).json()["id"]
        self.start(task_id)
        calls = []
        for at, command in enumerate(commands):
            own = {"tool_use_id": f"toolu_{at}", **changes, **((second or {}) if at == 1 else {})}
            calls.append(self.call(task_id, "Bash", {"command": command}, **own))
        return self.defer_all(task_id, *calls)

    def asked(
        self, tool_name: str = "Bash", tool_input: dict[str, Any] | None = None, **changes: Any
    ) -> Inquiry:
        """A new task that waits for a decision."""
        with self.client() as client:
            text = changes.pop("text", "restart the checkout pods")
            task_id = client.post("/api/tasks", json={"text": text}).json()["id"]
        self.start(task_id)
        return self.defer(task_id, tool_name, tool_input or {"command": "make restart"}, **changes)

    def ran(
        self, inquiry: Inquiry, output: str = "done", *, failed: bool = False, seconds: float = 2
    ) -> None:
        """A worker resumes, and runs the approved call."""
        self.start(inquiry.task_id)
        self.dispatched(inquiry)
        self.later(seconds=seconds)
        now = self.now()
        self.store.transact(
            inquiry.task_id,
            lambda snap: calls.finished(snap, inquiry.id, failed=failed, output=output, now=now),
        )

    def dispatched(self, inquiry: Inquiry) -> None:
        """The approved call begins."""
        now = self.now()
        self.store.transact(
            inquiry.task_id, lambda snap: calls.dispatch(snap, inquiry.id, inquiry.tool_use_id, now)
        )

    def lost(self, task_id: str) -> None:
        """The worker is gone."""
        now = self.now()
        self.store.transact(task_id, lambda snap: lifecycle.lost(snap, now))

    def end(self, task_id: str, result: str = "", failure: Failure | None = None) -> None:
        """The running turn ends, with a result or a failure."""
        kind = OutcomeKind.FAILED if failure else OutcomeKind.DONE
        outcome = Outcome(kind=kind, result=result, failure=failure, usage=_used(0.08))
        now = self.now()
        self.store.transact(task_id, lambda snap: lifecycle.complete(snap, outcome, (), now))

    def expire(self, inquiry: Inquiry) -> None:
        """The clock closes an inquiry whose time is over."""
        now = self.now()
        self.store.transact(inquiry.task_id, lambda snap: lifecycle.expire(snap, inquiry.id, now))


def _enqueue(pipe: Pipeline, task: Task) -> None:
    pipe.rpush(QUEUE, task.id)


def _used(cost: float) -> TurnUsage:
    return TurnUsage(cost_usd=cost, model_calls=2, active_ms=4_000)
