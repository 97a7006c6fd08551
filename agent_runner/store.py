"""Tasks and all that belongs to them in Redis: keys, codec, compare-and-set transactions.

A task with its inquiries, messages, audit chain and grants is one aggregate. Every change to
any part goes through `Store.transact`, which always writes the task (with the next revision)
and watches only the task's key: one lock, one order of events, one EXEC for the state, the
audit entries, the courier's work and the RQ job.
"""

from __future__ import annotations

import contextlib
import functools
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from redis import Redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.client import Pipeline
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, WatchError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from agent_runner import audit, limits
from agent_runner.aggregate import Changes as Changes
from agent_runner.aggregate import Snapshot as Snapshot
from agent_runner.errors import FixConfiguration, LostLease, NotFound, TryLater
from agent_runner.keys import Keys
from agent_runner.model import Grant, Inquiry, InquiryState, Message, Task, TaskState, Value

SCHEMA = 1
"""Version of everything stored. A store written by a newer program is refused at start."""

ATTEMPTS = 50
"""How often a transaction is tried against others on the same task before "try again"."""

TXN_SECONDS = 120
"""How long a transaction's mark is kept to tell a lost reply from a lost write."""

GRANTS_KEPT = timedelta(days=366)
"""How long a grant is kept in the indexes at most: no duration of a configuration is longer."""

CHANGES_KEPT = 10_000
"""Length of the change feed; a reader that falls behind further reads the state again."""

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V", bound=Value)


def answering(method: Callable[P, R]) -> Callable[P, R]:
    """Turns a silent or broken Redis into `TryLater`: the caller learns that nothing was recorded."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except RedisError as error:
            raise TryLater(
                "The store did not answer, so this could not be recorded.",
                hint="Try again in a moment: nothing is done twice. `countersign doctor` shows the cause.",
                cause=type(error).__name__,
            ) from error

    return wrapped


Modifier = Callable[[Snapshot], Changes]
Enqueue = Callable[[Pipeline, Task], None]


class Store:
    """The aggregate store. `enqueue` puts a task's turn on its queue inside the transaction.

    Synchronous, because RQ's pipeline is; callers in an event loop use a thread.
    """

    def __init__(
        self, client: Redis, *, enqueue: Enqueue, policy_version: str = "", keys: Keys | None = None
    ) -> None:
        self.client = client
        self.policy_version = policy_version
        self.keys = keys or Keys()
        self._enqueue = enqueue

    # --- start ---------------------------------------------------------------------------

    @answering
    def check_schema(self) -> None:
        """Claims an empty store for this schema; refuses one written by another version."""
        self.client.set(self.keys.schema, SCHEMA, nx=True)
        found = _text(self.client.get(self.keys.schema))
        if found != str(SCHEMA):
            raise FixConfiguration(
                f"The store holds data of schema {found}; this program reads schema {SCHEMA}.",
                hint="Start the version of Countersign that wrote it, or point to another store.",
            )

    @answering
    def next_number(self, name: str) -> int:
        """The next number of a counter (`task`, `inquiry`). Gaps are possible, repeats are not."""
        return int(self.client.incr(self.keys.counter(name)))

    # --- transactions --------------------------------------------------------------------

    @answering
    def create(self, task: Task, *, messages: Sequence[Message], notes: Sequence[audit.Note]) -> Task:
        """Stores a new task and queues its first turn; its id is new, so finding it means: it was stored."""
        changes = Changes(task=task, messages=tuple(messages), notes=tuple(notes), enqueue=True)
        for _ in range(ATTEMPTS):
            with self._pipeline() as pipe:
                self._watch(pipe, task.id)
                if pipe.exists(self.keys.task(task.id)):
                    return self.task(task.id)
                pipe.multi()
                written = self._write(pipe, Snapshot(task), changes, last=None, created=True)
                try:
                    pipe.execute()
                except WatchError:
                    continue  # redis-py's word for a connection that broke during EXEC as well
                return written
        raise TryLater("The store does not keep its connections; nothing was recorded.")

    @answering
    def transact(self, task_id: str, modify: Modifier, *, lease: str | None = None) -> tuple[Snapshot, Any]:
        """Reads the aggregate, lets the pure `modify` say what changes, writes it in one EXEC.

        `modify` may run several times; what it raises reaches the caller and nothing is written.
        With `lease`, the write happens only while that lease token still owns the task
        (`LostLease` otherwise). Returns the state after the write and `Changes.answer`.
        """
        mark, answer, sent, lost = uuid.uuid4().hex, None, False, False
        for _ in range(ATTEMPTS):
            with self._pipeline() as pipe:
                try:
                    if sent and self.client.exists(self.keys.txn(mark)):
                        return self.snapshot(task_id), answer
                    self._watch(pipe, task_id)
                    self._check_lease(pipe, task_id, lease)
                    before = self._snapshot(pipe, task_id)
                    changes = modify(before)
                    answer = changes.answer
                    if changes.empty:
                        return before, answer
                    last = self._last_entry(pipe, task_id)
                    pipe.multi()
                    self._write(pipe, before, changes, last=last)
                    pipe.set(self.keys.txn(mark), 1, ex=TXN_SECONDS)
                    sent = True
                    pipe.execute()
                    return before.after(changes), answer
                except WatchError:
                    # Somebody else was faster; or the connection broke during EXEC, which redis-py
                    # reports the same way: a lost reply looks like a lost write, the mark tells.
                    continue
                except RedisConnectionError:
                    if lost:
                        raise
                    lost = True
        raise TryLater("Too many people are changing this at once; nothing was recorded.")

    @contextlib.contextmanager
    def _pipeline(self) -> Iterator[Pipeline]:
        with self.client.pipeline() as pipe:
            try:
                yield pipe
            except RedisTimeoutError:
                # Its connection is closed; the UNWATCH on the way out would wait for a new one (E04).
                pipe.watching = False
                raise

    def _watch(self, pipe: Pipeline, task_id: str) -> None:
        pipe.watch(  # type: ignore[no-untyped-call]  # redis-py has no annotation here
            self.keys.task(task_id), self.keys.part(task_id, "lease")
        )

    def _check_lease(self, pipe: Pipeline, task_id: str, token: str | None) -> None:
        if token is None:
            return
        raw = pipe.get(self.keys.part(task_id, "lease"))
        if raw is None or json.loads(_bytes(raw))["token"] != token:
            raise LostLease("Another worker owns this task now.")

    def _write(
        self,
        pipe: Pipeline,
        before: Snapshot,
        changes: Changes,
        *,
        last: audit.Entry | None,
        created: bool = False,
    ) -> Task:
        task: Task = (changes.task or before.task).having(revision=before.task.revision + 1)
        keys = self.keys
        pipe.set(keys.task(task.id), encode(task))
        self._index_task(pipe, None if created else before.task, task)
        for inquiry in changes.inquiries:
            self._write_inquiry(pipe, before, inquiry)
        for message in changes.messages:
            pipe.rpush(keys.part(task.id, "messages"), encode(message))
        for grant in changes.grants:
            self._write_grant(pipe, before, grant)
        for note in changes.notes:
            last = audit.seal(note.having(policy_version=self.policy_version), last)
            pipe.rpush(keys.part(task.id, "audit"), encode(last))
            actor = last.actor.key if last.actor else ""
            pipe.xadd(keys.audit, {"task": task.id, "seq": last.seq, "actor": actor})
        if changes.release_lease:
            pipe.delete(keys.part(task.id, "lease"), keys.part(task.id, "progress"))
        pipe.zadd(keys.dirty, {task.id: task.updated_at.timestamp()})
        pipe.xadd(keys.changes, {"task": task.id, "what": "task"}, maxlen=CHANGES_KEPT, approximate=True)
        if changes.spent > 0:
            day = keys.spent(task.workspace, limits.day_of(task.updated_at))
            pipe.incrbyfloat(day, changes.spent)
            pipe.expire(day, limits.SPENT_KEPT)
        if changes.enqueue:
            self._enqueue(pipe, task)
        return task

    def _index_task(self, pipe: Pipeline, before: Task | None, task: Task) -> None:
        keys = self.keys
        if task.retry_at is not None:
            pipe.zadd(keys.retry, {task.id: task.retry_at.timestamp()})
        elif before is not None and before.retry_at is not None:
            pipe.zrem(keys.retry, task.id)
        if before is None or before.state is not task.state:
            if before is None:
                pipe.zadd(keys.tasks, {task.id: task.number})
                pipe.set(keys.place(task.place), task.id)
                pipe.set(keys.chat(task.place), task.id)
            else:
                pipe.zrem(keys.tasks_in(before.state), task.id)
            pipe.zadd(keys.tasks_in(task.state), {task.id: task.number})

    def _write_inquiry(self, pipe: Pipeline, before: Snapshot, inquiry: Inquiry) -> None:
        keys = self.keys
        old = next((i for i in before.inquiries if i.id == inquiry.id), None)
        inquiry = inquiry.having(revision=old.revision + 1 if old else 1)
        pipe.set(keys.inquiry(inquiry.id), encode(inquiry))
        if old is None:
            pipe.rpush(keys.part(inquiry.task_id, "inquiries"), inquiry.id)
            pipe.zadd(keys.inquiries, {inquiry.id: inquiry.number})
        elif old.state is not inquiry.state:
            pipe.zrem(keys.inquiries_in(old.state), inquiry.id)
        if old is None or old.state is not inquiry.state:
            pipe.zadd(keys.inquiries_in(inquiry.state), {inquiry.id: inquiry.number})
        if inquiry.open:
            pipe.zadd(keys.expiry, {inquiry.id: inquiry.next_moment.timestamp()})
        else:
            pipe.zrem(keys.expiry, inquiry.id)

    def _write_grant(self, pipe: Pipeline, before: Snapshot, grant: Grant) -> None:
        """A grant in its task's list, in the index by its end, and with its workspace if it holds there."""
        keys, known = self.keys, [old.id for old in before.grants]
        mine, member = keys.part(grant.task_id, "grants"), f"{grant.task_id} {grant.id}"
        if grant.id and grant.id in known:
            pipe.lset(mine, known.index(grant.id), encode(grant))  # type: ignore[arg-type]  # takes bytes too
        else:
            pipe.rpush(mine, encode(grant))
        shared = keys.grants_in(grant.workspace)
        if grant.revoked:
            pipe.zrem(keys.grants, member)
            if grant.workspace:
                pipe.hdel(shared, grant.id)
            return
        pipe.zremrangebyscore(keys.grants, "-inf", (grant.at - GRANTS_KEPT).timestamp())
        pipe.zadd(keys.grants, {member: (grant.until or grant.at + GRANTS_KEPT).timestamp()})
        if grant.workspace:
            pipe.hset(shared, grant.id, encode(grant))
            pipe.expire(shared, GRANTS_KEPT)

    # --- reading -------------------------------------------------------------------------

    @answering
    def task(self, task_id: str) -> Task:
        """The task of that id; raises `NotFound`."""
        raw = self.client.get(self.keys.task(task_id))
        if raw is None:
            raise NotFound(f"There is no task {task_id}.", hint="Check the id; it may have been mistyped.")
        return decode(Task, raw)

    @answering
    def inquiry(self, inquiry_id: str) -> Inquiry:
        """The inquiry of that id; raises `NotFound`."""
        raw = self.client.get(self.keys.inquiry(inquiry_id))
        if raw is None:
            raise NotFound(f"There is no request {inquiry_id}.", hint="Check the id.")
        return decode(Inquiry, raw)

    @answering
    def snapshot(self, task_id: str) -> Snapshot:
        """The aggregate as it is now, all of one moment."""
        for _ in range(ATTEMPTS):
            snap = self._snapshot(self.client, task_id)
            # Every change gives the task a new revision: the same one after reading means none between.
            if self.task(task_id).revision == snap.task.revision:
                return snap
        raise TryLater("This job is changing too fast to be read.", hint="Try again in a moment.")

    def _snapshot(self, client: Redis, task_id: str) -> Snapshot:
        """The aggregate, read key by key: of one moment only for a caller that watches the task."""
        raw = client.get(self.keys.task(task_id))
        if raw is None:
            raise NotFound(f"There is no task {task_id}.", hint="Check the id; it may have been mistyped.")
        ids = [_text(i) for i in client.lrange(self.keys.part(task_id, "inquiries"), 0, -1)]
        found = client.mget([self.keys.inquiry(i) for i in ids]) if ids else []
        grants = client.lrange(self.keys.part(task_id, "grants"), 0, -1)
        return Snapshot(
            decode(Task, raw),
            tuple(decode(Inquiry, item) for item in found if item is not None),
            tuple(decode(Grant, item) for item in grants),
        )

    def _last_entry(self, client: Redis, task_id: str) -> audit.Entry | None:
        raw = client.lindex(self.keys.part(task_id, "audit"), -1)
        return decode(audit.Entry, raw) if raw is not None else None

    @answering
    def messages(self, task_id: str) -> tuple[Message, ...]:
        """The lines of the task's thread, oldest first."""
        raw = self.client.lrange(self.keys.part(task_id, "messages"), 0, -1)
        return tuple(decode(Message, item) for item in raw)

    @answering
    def audit_of(self, task_id: str) -> tuple[audit.Entry, ...]:
        """The task's whole chain, oldest first."""
        raw = self.client.lrange(self.keys.part(task_id, "audit"), 0, -1)
        return tuple(decode(audit.Entry, item) for item in raw)

    @answering
    def audit_page(
        self,
        *,
        since: datetime | None,
        until: datetime | None,
        after: str,
        limit: int,
        newest_first: bool = False,
    ) -> list[tuple[str, audit.Entry]]:
        """Entries of all tasks by time, each with its cursor; `after` is such a cursor or ''."""
        low, high = _stream_id(since, "-"), _stream_id(until, "+")
        rows: Any
        if newest_first:
            high = f"({after}" if after else high
            rows = self.client.xrevrange(self.keys.audit, max=high, min=low, count=limit)
        else:
            low = f"({after}" if after else low
            rows = self.client.xrange(self.keys.audit, min=low, max=high, count=limit)
        with self.client.pipeline(transaction=False) as pipe:
            for _, row in rows:
                pipe.lindex(self.keys.part(_text(row[b"task"]), "audit"), int(row[b"seq"]) - 1)
            entries = pipe.execute()
        return [
            (_text(cursor), decode(audit.Entry, raw))
            for (cursor, _), raw in zip(rows, entries, strict=True)
            if raw is not None
        ]

    @answering
    def list_tasks(self, state: TaskState | None, *, after: int | None, limit: int) -> tuple[Task, ...]:
        """Tasks by number, newest first, those below `after`."""
        index = self.keys.tasks_in(state) if state else self.keys.tasks
        top = f"({after}" if after is not None else "+inf"
        ids = self.client.zrevrangebyscore(index, top, "-inf", start=0, num=limit)
        return self._many(Task, [self.keys.task(_text(i)) for i in ids])

    @answering
    def list_inquiries(self, state: InquiryState | None, *, after: int, limit: int) -> tuple[Inquiry, ...]:
        """Inquiries by number, oldest first, those above `after`."""
        index = self.keys.inquiries_in(state) if state else self.keys.inquiries
        ids = self.client.zrangebyscore(index, f"({after}", "+inf", start=0, num=limit)
        return self._many(Inquiry, [self.keys.inquiry(_text(i)) for i in ids])

    def _many(self, kind: type[V], keys: list[str]) -> tuple[V, ...]:
        found = self.client.mget(keys) if keys else []
        return tuple(decode(kind, raw) for raw in found if raw is not None)

    @answering
    def grants(self, now: datetime) -> tuple[Grant, ...]:
        """All grants that are neither revoked nor over, oldest request first."""
        found: list[Grant] = []
        members = [_text(m) for m in self.client.zrangebyscore(self.keys.grants, now.timestamp(), "+inf")]
        for task_id in dict.fromkeys(member.partition(" ")[0] for member in members):
            raw = self.client.lrange(self.keys.part(task_id, "grants"), 0, -1)
            found += (g for g in (decode(Grant, item) for item in raw) if not g.revoked and g.in_time(now))
        return tuple(sorted(found, key=lambda grant: grant.number))

    @answering
    def grants_in(self, workspace: str) -> tuple[Grant, ...]:
        """The grants that hold in a whole workspace and were not revoked; some may be over."""
        raw = self.client.hvals(self.keys.grants_in(workspace))
        return tuple(sorted((decode(Grant, item) for item in raw), key=lambda grant: grant.number))

    @answering
    def due(self, now: datetime) -> tuple[str, ...]:
        """Ids of the open inquiries to look at: to be reminded of, to be escalated, or over."""
        ids = self.client.zrangebyscore(self.keys.expiry, "-inf", now.timestamp())
        return tuple(_text(i) for i in ids)

    @answering
    def due_retries(self, now: datetime) -> tuple[str, ...]:
        """Ids of the stuck tasks that are to be tried again by now."""
        ids = self.client.zrangebyscore(self.keys.retry, "-inf", now.timestamp())
        return tuple(_text(i) for i in ids)


def connect(url: str, *, patient: bool) -> Redis:
    """A client for `url`; a `patient` one (a runner's) waits out a restart of the server.

    A bot's client gives up fast, so that a click is answered within 1.5 s (case E04).
    """
    if patient:
        retry = Retry(ExponentialBackoff(cap=1.0, base=0.05), 8)
        return Redis.from_url(url, socket_timeout=30, socket_connect_timeout=5, retry=retry)
    # One immediate retry heals a connection that went stale; a server that hangs is not asked twice.
    retry = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
    return Redis.from_url(url, socket_timeout=0.7, socket_connect_timeout=0.7, retry=retry)


def encode(value: Value) -> bytes:
    """The stored form of a value: the schema version, a line feed, JSON."""
    return f"{SCHEMA}\n{value.model_dump_json()}".encode()


def decode(kind: type[V], raw: object) -> V:
    """The value of a stored form; another schema version is an error."""
    version, _, text = _bytes(raw).partition(b"\n")
    if version != str(SCHEMA).encode():
        raise FixConfiguration(f"Stored value of schema {version!r}; this program reads {SCHEMA}.")
    return kind.model_validate_json(text)


def _stream_id(at: datetime | None, open_end: str) -> str:
    return str(int(at.timestamp() * 1000)) if at else open_end


def _bytes(raw: object) -> bytes:
    if isinstance(raw, bytes):
        return raw
    if isinstance(raw, str):
        return raw.encode()
    raise TypeError(f"expected bytes from the store, got {type(raw).__name__}")


def _text(raw: object) -> str:
    return _bytes(raw).decode() if raw is not None else ""
