"""Turns on RQ's queues: putting them there, and looking after those that got lost.

RQ's own state is never the truth: a job only names a turn, and the turn's claim
(`lifecycle.start`, behind a lease) makes it run once however often RQ delivers it. So RQ's
retries are not used, and a job that got lost is simply queued again. The worker's side is `jobs`.
"""

from __future__ import annotations

import logging
import secrets
import socket
from datetime import UTC, datetime, timedelta

import psutil
from redis import Redis
from redis.client import Pipeline
from rq import Queue, Worker
from rq.registry import StartedJobRegistry

from agent_runner import leases, lifecycle
from agent_runner.config import Config
from agent_runner.model import Task, TaskState
from agent_runner.registers import Registers
from agent_runner.store import Store, answering

log = logging.getLogger(__name__)

QUEUE_PREFIX = "countersign-"
FAILURE_SECONDS = 7 * 24 * 3600
RESULT_SECONDS = 60
TIMEOUT_MARGIN = 600
"""Seconds by which RQ's own limit is beyond ours: our watchdog speaks first, with words."""

LOST_JOB_SECONDS = 30
"""A queued turn older than this without a job in RQ was lost between pop and start (facts, queue)."""


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


@answering
def runners(client: Redis) -> int:
    """How many workers are alive. A dead one on another host is counted until its key is over."""
    here = socket.gethostname()
    found = Worker.all(connection=client)
    return sum(w.hostname != here or psutil.pid_exists(int(w.pid or 0)) for w in found)


def recover(store: Store, registers: Registers, enqueue: Enqueuer) -> list[str]:
    """Looks after turns that nobody runs any more; returns the ids of the tasks it touched.

    A running task without a live lease lost its worker; a queued one without a job lost its job.
    """
    touched = []
    for task in store.list_tasks(TaskState.RUNNING, after=None, limit=1000):
        lease = registers.lease(task.id)
        if lease is not None and not leases.owner_is_dead(lease):
            continue
        if lease is not None:
            leases.end_leftovers(lease)
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


def _has_job(client: Redis, task: Task) -> bool:
    queue = queue_for(client, task.pool)
    name = job_id(task)
    if name in queue.get_job_ids():
        return True
    return bool(name in StartedJobRegistry(queue=queue).get_job_ids())


def fresh_id(prefix: str) -> str:
    """An id nobody can guess: `t_` for tasks, `i_` for inquiries."""
    return f"{prefix}_{secrets.token_hex(8)}"
