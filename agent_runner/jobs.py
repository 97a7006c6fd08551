"""Turns as RQ jobs: the queue of each pool, the worker, and what looks after lost ones.

The one home of rq. RQ's own state is never the truth: a job only names a turn, and the turn's
claim (`lifecycle.start`, behind a lease) makes it run once however often RQ delivers it. So
RQ's retries are not used, and a job that got lost is simply queued again.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import multiprocessing.process
import os
import secrets
import signal
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
from redis import Redis
from redis.client import Pipeline
from rq import Queue, Worker
from rq.job import Job
from rq.registry import StartedJobRegistry

from agent_runner import lifecycle
from agent_runner.config import Config
from agent_runner.model import Task, TaskState
from agent_runner.registers import Lease, Registers
from agent_runner.store import Store, connect
from agent_runner.turns import Runtime, TurnRunner, my_lease

log = logging.getLogger(__name__)

QUEUE_PREFIX = "countersign-"
FAILURE_SECONDS = 7 * 24 * 3600
RESULT_SECONDS = 60
TIMEOUT_MARGIN = 600
"""Seconds by which RQ's own limit is beyond ours: our watchdog speaks first, with words."""

LOST_JOB_SECONDS = 30
"""A queued turn older than this without a job in RQ was lost between pop and start (facts, queue)."""

_runtime: Runtime | None = None


def queue_for(client: Redis, pool: str) -> Queue:
    """The queue that serves a pool."""
    return Queue(QUEUE_PREFIX + pool, connection=client, serializer="json")


class Enqueuer:
    """Puts turns on their pool's queue, inside the caller's transaction."""

    def __init__(self, client: Redis, config: Config) -> None:
        self._client = client
        self._timeout = config.limits.turn_minutes * 60 + TIMEOUT_MARGIN

    def __call__(self, pipe: Pipeline | None, task: Task) -> None:
        """Queues the task's present turn; with a pipeline, as part of its EXEC."""
        queue_for(self._client, task.pool).enqueue_call(
            "agent_runner.jobs.run_turn",
            kwargs={"task_id": task.id, "turn": task.turn, "attempt": task.attempt},
            job_id=job_id(task),
            timeout=self._timeout,
            result_ttl=RESULT_SECONDS,
            failure_ttl=FAILURE_SECONDS,
            pipeline=pipe,
        )


def job_id(task: Task) -> str:
    """The id of a turn's job. Not unique on purpose: the claim tells a second delivery."""
    return f"{task.id}-{task.turn}-{task.attempt}"


def open_store(client: Redis, config: Config) -> Store:
    """The store whose transactions also queue turns."""
    return Store(client, enqueue=Enqueuer(client, config), policy_version=config.policy_version)


# --- in the worker -----------------------------------------------------------------------


def prepare(runtime: Runtime) -> None:
    """Hands a worker process what its jobs need, before it forks; prunes its environment.

    The agent's process inherits the worker's environment (engine fact E36), so that keeps only
    what the runtime lists: no Redis address, no chat token.
    """
    global _runtime
    _runtime = runtime
    os.environ.clear()
    os.environ.update(runtime.environment)
    runtime.scratch.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(runtime.scratch)


def run_turn(task_id: str, turn: int, attempt: int) -> None:
    """RQ's entry point: one turn of one task."""
    if _runtime is None:
        raise RuntimeError("this worker was not started by `countersign runner`")
    client = connect(_runtime.redis_url, patient=True)
    store, registers = open_store(client, _runtime.config), Registers(client)
    asyncio.run(TurnRunner(store, registers, _runtime).run(task_id, turn, attempt))


class CountersignWorker(Worker):
    """RQ's forking worker with intervals that notice a death in a minute instead of a quarter hour."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(
            *args,
            **{
                "serializer": "json",
                "job_monitoring_interval": 5,
                "maintenance_interval": 15,
                "worker_ttl": 45,
                "work_horse_killed_handler": _kill_group,
                **kwargs,
            },
        )

    def main_work_horse(self, *args: Any, **kwargs: Any) -> None:
        """The forked job's process: it must not outlive its worker (measured: two runs at once)."""
        die_with_parent()
        super().main_work_horse(*args, **kwargs)


def work(runtime: Runtime, pool: str) -> None:
    """Serves a pool until SIGTERM; returns after the running turn has ended."""
    prepare(runtime)
    client = connect(runtime.redis_url, patient=True)
    worker = CountersignWorker([queue_for(client, pool)], connection=client)
    worker.work(logging_level="WARNING")


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies (Linux; elsewhere the lease must do)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)


def _kill_group(_job: Job, pid: int, _status: int, _usage: Any) -> None:
    """The job's process died: whatever it had started (the agent's CLI) goes too."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


# --- in the bot --------------------------------------------------------------------------


def runners(client: Redis, pool: str | None = None) -> int:
    """How many workers serve a pool, or all pools."""
    if pool is not None:
        return int(Worker.count(queue=queue_for(client, pool)))
    return int(Worker.count(connection=client))


def recover(store: Store, registers: Registers, enqueue: Enqueuer) -> list[str]:
    """Looks after turns that nobody runs any more; returns the ids of the tasks it touched.

    A running task without a live lease lost its worker; a queued one without a job lost its job.
    """
    touched = []
    for task in store.list_tasks(TaskState.RUNNING, after=None, limit=1000):
        lease = registers.lease(task.id)
        if lease is not None and not owner_is_dead(lease):
            continue
        if lease is not None:
            end_leftovers(lease)
            registers.drop_lease(task.id)
        now = datetime.now(UTC)
        store.transact(task.id, lambda snap: lifecycle.lost(snap, now))  # noqa: B023  (runs at once)
        touched.append(task.id)
    for task in store.list_tasks(TaskState.QUEUED, after=None, limit=1000):
        old = datetime.now(UTC) - task.updated_at > timedelta(seconds=LOST_JOB_SECONDS)
        if old and not _has_job(store.client, task):
            enqueue(None, task)
            touched.append(task.id)
    return touched


def owner_is_dead(lease: Lease) -> bool:
    """Whether the lease's process is known to be gone. Only this host's processes can be known."""
    if lease.host != my_lease().host:
        return False
    try:
        return abs(psutil.Process(lease.pid).create_time() - lease.process_started) > 1.0
    except psutil.NoSuchProcess:
        return True


def end_leftovers(lease: Lease) -> None:
    """Ends what a dead job's process group left running on this host (the agent's CLI)."""
    for process in psutil.process_iter(["pid"]):
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == lease.pgid and process.create_time() >= lease.process_started:
                process.kill()


def _has_job(client: Redis, task: Task) -> bool:
    queue = queue_for(client, task.pool)
    name = job_id(task)
    if name in queue.get_job_ids():
        return True
    return bool(name in StartedJobRegistry(queue=queue).get_job_ids())


def fresh_id(prefix: str) -> str:
    """An id nobody can guess: `t_` for tasks, `i_` for inquiries."""
    return f"{prefix}_{secrets.token_hex(8)}"


# --- a runner: one parent, several workers -----------------------------------------------

RESTART_SECONDS = 1.0
"""Pause before a worker that ended by itself is started again (Redis away, a crash)."""

_FORK = multiprocessing.get_context("fork")


class Runner:
    """A parent that has loaded the SDK once and forks the workers of a pool.

    A worker that ends is started again; when the parent dies, its workers die with it.
    """

    def __init__(self, runtime: Runtime, pool: str, workers: int) -> None:
        self._runtime = runtime
        self._pool = pool
        self._workers: list[multiprocessing.process.BaseProcess | None] = [None] * workers
        self._stopping = threading.Event()

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT; a second signal ends running turns as well."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._signalled)
        while not self._stopping.is_set():
            for index, worker in enumerate(self._workers):
                if worker is None or not worker.is_alive():
                    self._workers[index] = self._start()
            self._stopping.wait(RESTART_SECONDS)
        for worker in self._workers:
            if worker is not None:
                worker.join()

    def _start(self) -> multiprocessing.process.BaseProcess:
        worker = _FORK.Process(target=_work_in_child, args=(self._runtime, self._pool))
        worker.start()
        return worker

    def _signalled(self, _number: int, _frame: object) -> None:
        """First: let running turns end (RQ's warm shutdown). Second: end them."""
        again = self._stopping.is_set()
        self._stopping.set()
        for worker in self._workers:
            if worker is not None and worker.is_alive() and worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL if again else signal.SIGTERM)


def _work_in_child(runtime: Runtime, pool: str) -> None:
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, signal.SIG_DFL)
    die_with_parent()
    work(runtime, pool)
