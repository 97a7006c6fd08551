"""Turns as RQ jobs: the worker's side. The queue's side is `queues`; the two are the home of rq."""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.process
import os
import signal
import tempfile
import threading
from typing import Any

from rq import Worker
from rq.job import Job

from agent_runner.processes import die_with_parent, end_group
from agent_runner.queues import open_store, queue_for
from agent_runner.registers import Registers
from agent_runner.store import connect
from agent_runner.turns import Runtime, TurnRunner

_runtime: Runtime | None = None


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
                "work_horse_killed_handler": _end_horse,
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


def _end_horse(_job: Job, pid: int, _status: int, _usage: Any) -> None:
    """The job's process died: whatever it had started (the agent's CLI, its command) goes too."""
    end_group(pid)


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
