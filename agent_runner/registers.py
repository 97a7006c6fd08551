"""Small single-key facts in Redis beside the aggregates.

Leases, progress, the courier's work list and receipts, the change feed, access tokens, leadership.
None of these decides whether a call may run; what does is in `store`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import redis.asyncio
from pydantic import AwareDatetime
from redis import Redis
from redis.exceptions import RedisError

from agent_runner.errors import TryLater
from agent_runner.keys import Keys
from agent_runner.model import Actor, Place, Progress, Task, Value
from agent_runner.store import answering, decode, encode

AsyncRedis: TypeAlias = redis.asyncio.Redis
"""A connection for `Registers.changes`, named here so that nobody else needs to import redis."""

LEASE_MS = 20_000
"""A lease not renewed for this long is over; it is renewed every `LEASE_BEAT` seconds."""

LEASE_BEAT = 5.0

PROGRESS_SECONDS = 120

HELD_SECONDS = 7 * 86_400

GROUP_SECONDS = 900
"""How long memberships read from a platform are believed; they are read every minute."""

CLICK_SECONDS = 600
"""How long the click on a test card is remembered; `doctor` waits a minute for it."""

_EXTEND = """
local raw = redis.call('GET', KEYS[1])
if raw and cjson.decode(raw)['token'] == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""

_RELEASE = """
local raw = redis.call('GET', KEYS[1])
if raw and cjson.decode(raw)['token'] == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

_SETTLE = """
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) == tonumber(ARGV[2]) then return redis.call('ZREM', KEYS[1], ARGV[1]) end
return 0
"""


class Lease(Value):
    """Who runs a task's turn now: the process group on a host, and a token that fences its writes."""

    token: str
    host: str
    pid: int
    pgid: int
    process_started: float
    """Start time of the process in Unix seconds: tells it from a later one with the same pid."""


class Receipt(Value):
    """What a posted message shows: the revision and a digest of the rendered card."""

    key: str
    message_id: str
    """Empty while nobody knows whether the message was posted."""
    revision: int
    shown: str
    """Empty while something of it is still to come (its files)."""
    recorded: bool = True
    """Whether it is on record that this was shown (False only for a request just posted)."""
    form: str = "card"
    """In which form the platform took it."""
    files: tuple[str, ...] = ()
    """Digests of the files that were put beside it."""
    where: str = ""
    """The thread it stands in."""
    attempt: int = 0
    """How often it had to be posted anew."""
    card: str = ""
    """The card as JSON, for a message that will have to be settled when it is no longer wanted."""
    numbers: tuple[int, ...] = ()
    """The requests on it, if they are the steps of a batch."""

    def shows(self, number: int) -> bool:
        """Whether this is the message of that request."""
        return number in self.numbers if self.numbers else self.key == f"request:{number}"


class Held(Value):
    """A message that came while nobody listened: somebody is asked whether to act on it now."""

    id: str
    by: Actor
    place: Place
    text: str
    at: AwareDatetime
    message_id: str
    addressed: bool = True
    quoted: str = ""
    alone: bool = False
    """Whether it stands in a chat with the bot alone, and in no thread."""
    shown: str = ""
    """The id of the message that asks about it."""


class Registers:
    """The registers of one store. Synchronous like `Store`, except for the change feed."""

    def __init__(self, client: Redis, *, keys: Keys | None = None) -> None:
        self.client = client
        self.keys = keys or Keys()

    # --- leases --------------------------------------------------------------------------

    @answering
    def take_lease(self, task_id: str, lease: Lease) -> bool:
        """Whether the lease is ours now; False while another one is alive."""
        key = self.keys.part(task_id, "lease")
        return bool(self.client.set(key, lease.model_dump_json(), nx=True, px=LEASE_MS))

    @answering
    def extend_lease(self, task_id: str, token: str) -> bool:
        """Renews our lease; False when it is no longer ours."""
        return bool(self.client.eval(_EXTEND, 1, self.keys.part(task_id, "lease"), token, LEASE_MS))

    @answering
    def release_lease(self, task_id: str, token: str) -> None:
        """Gives our lease back, if it is still ours."""
        self.client.eval(_RELEASE, 1, self.keys.part(task_id, "lease"), token)

    @answering
    def spent(self, workspace: str, day: str) -> float:
        """What a workspace's tasks cost on a day (see `limits.day_of`), in dollars."""
        return float(self.client.get(self.keys.spent(workspace, day)) or 0)

    @answering
    def lease(self, task_id: str) -> Lease | None:
        """The live lease of a task, if any."""
        raw = self.client.get(self.keys.part(task_id, "lease"))
        return Lease.model_validate_json(raw) if raw else None

    @answering
    def drop_lease(self, task_id: str) -> None:
        """Ends a lease whose owner is known to be dead."""
        self.client.delete(self.keys.part(task_id, "lease"))

    # --- progress ------------------------------------------------------------------------

    def show_progress(self, task_id: str, progress: Progress) -> None:
        """Says what a running turn does. Best effort: a lost line of progress harms nothing."""
        try:
            with self.client.pipeline(transaction=False) as pipe:
                pipe.set(self.keys.part(task_id, "progress"), encode(progress), ex=PROGRESS_SECONDS)
                pipe.xadd(self.keys.changes, {"task": task_id, "what": "progress"}, maxlen=10_000)
                pipe.execute()
        except RedisError:
            return

    @answering
    def progress(self, task_id: str) -> Progress | None:
        """What the task's running turn said last."""
        raw = self.client.get(self.keys.part(task_id, "progress"))
        return decode(Progress, raw) if raw else None

    # --- the courier's work --------------------------------------------------------------

    @answering
    def dirty(self) -> list[tuple[str, bytes]]:
        """Tasks whose posted messages may be stale, oldest change first, each with its mark.

        All of them: those that cannot be posted now stand first and must not hide the rest.
        """
        rows: Any = self.client.zrange(self.keys.dirty, 0, -1, withscores=True)
        return [(task.decode(), repr(score).encode()) for task, score in rows]

    @answering
    def mark_dirty(self, task_id: str, now: datetime) -> None:
        """Asks the courier to look at a task again."""
        self.client.zadd(self.keys.dirty, {task_id: now.timestamp()})

    @answering
    def receipts(self, task_id: str) -> dict[str, Receipt]:
        """What is posted for a task, by message key."""
        raw: Any = self.client.hgetall(self.keys.part(task_id, "posts"))
        return {key.decode(): Receipt.model_validate_json(item) for key, item in raw.items()}

    @answering
    def keep_receipt(self, task_id: str, receipt: Receipt) -> None:
        """Remembers what a posted message shows now."""
        self.client.hset(self.keys.part(task_id, "posts"), receipt.key, receipt.model_dump_json())

    @answering
    def settle(self, task_id: str, mark: bytes) -> bool:
        """Takes a task off the work list unless it changed since `mark` was read; whether it did."""
        return bool(self.client.eval(_SETTLE, 1, self.keys.dirty, task_id, mark))

    # --- where tasks live ----------------------------------------------------------------

    @answering
    def task_at(self, place: Place) -> str:
        """The id of the task that lives in that thread; '' if there is none."""
        raw: Any = self.client.get(self.keys.place(place))
        return raw.decode() if raw else ""

    @answering
    def place_of(self, task: Task) -> Place:
        """The thread in which a task is shown: its own, unless that one is gone."""
        raw = self.client.get(self.keys.part(task.id, "moved"))
        return Place.model_validate_json(raw) if raw else task.place

    @answering
    def move(self, task_id: str, place: Place) -> None:
        """Shows a task in another thread from now on; what is said there is said to it."""
        with self.client.pipeline() as pipe:
            pipe.set(self.keys.part(task_id, "moved"), place.model_dump_json())
            pipe.set(self.keys.place(place), task_id)
            pipe.execute()

    @answering
    def latest_in(self, place: Place) -> str:
        """The id of the newest task of a chat; '' if there is none."""
        raw: Any = self.client.get(self.keys.chat(place))
        return raw.decode() if raw else ""

    # --- what must wait for an answer that is on its way ---------------------------------

    @answering
    def pause(self, task_id: str, press: str, ms: int) -> None:
        """Keeps the courier from a task's messages for so long, or until every press is resumed."""
        place = self.keys.part(task_id, "paused")
        with self.client.pipeline() as pipe:
            pipe.sadd(place, press)
            pipe.pexpire(place, ms)
            pipe.execute()

    @answering
    def resume(self, task_id: str, press: str, now: datetime) -> None:
        """Lets the courier look again, unless another press is still to be answered."""
        with self.client.pipeline() as pipe:
            pipe.srem(self.keys.part(task_id, "paused"), press)
            pipe.zadd(self.keys.dirty, {task_id: now.timestamp()})
            pipe.xadd(self.keys.changes, {"task": task_id, "what": "post"}, maxlen=10_000, approximate=True)
            pipe.execute()

    @answering
    def paused(self, task_id: str) -> bool:
        """Whether the courier is to keep away from a task."""
        return bool(self.client.exists(self.keys.part(task_id, "paused")))

    # --- messages that came while nobody listened ----------------------------------------

    @answering
    def hold(self, held: Held) -> None:
        """Keeps a message until somebody says what to do with it, at most `HELD_SECONDS`."""
        chat = (held.place.having(thread=""),) if held.alone else ()
        with self.client.pipeline() as pipe:
            pipe.set(f"{self.keys.prefix}held:{held.id}", held.model_dump_json(), ex=HELD_SECONDS)
            for place in (held.place, *chat):
                pipe.set(self._held_in(place), held.id, ex=HELD_SECONDS)
            pipe.execute()

    @answering
    def note_held(self, held: Held) -> None:
        """Keeps more about a held message, unless it was released meanwhile."""
        self.client.set(f"{self.keys.prefix}held:{held.id}", held.model_dump_json(), xx=True, keepttl=True)

    def _held_in(self, place: Place) -> str:
        return f"{self.keys.prefix}held-in:{place.platform}:{place.chat}:{place.thread}"

    @answering
    def held_in(self, place: Place) -> Held | None:
        """The newest message that is held back in a thread (`thread` '': in a chat, outside of threads)."""
        raw: Any = self.client.get(self._held_in(place))
        return self.held(raw.decode()) if raw else None

    @answering
    def held(self, held_id: str) -> Held | None:
        """A message that is held back."""
        raw = self.client.get(f"{self.keys.prefix}held:{held_id}")
        return Held.model_validate_json(raw) if raw else None

    @answering
    def release(self, held_id: str) -> bool:
        """Lets a held message go, once: False for everybody but the first."""
        return bool(self.client.delete(f"{self.keys.prefix}held:{held_id}"))

    # --- what the web page shows ---------------------------------------------------------

    @answering
    def keep_post(self, task_id: str, key: str, card_json: str, at: datetime) -> None:
        """Keeps a card posted to a thread of the web page; its first time stays its time."""
        place = self.keys.part(task_id, "web")
        with self.client.pipeline() as pipe:
            pipe.hsetnx(place, f"at:{key}", at.isoformat())
            pipe.hset(place, f"card:{key}", card_json)
            pipe.xadd(self.keys.changes, {"task": task_id, "what": "post"}, maxlen=10_000, approximate=True)
            pipe.execute()

    @answering
    def posts(self, task_id: str) -> list[tuple[str, datetime, str]]:
        """The cards posted to a thread as (key, since when, card as JSON), oldest first."""
        raw: Any = self.client.hgetall(self.keys.part(task_id, "web"))
        found = [
            (key.decode().removeprefix("at:"), datetime.fromisoformat(value.decode()))
            for key, value in raw.items()
            if key.startswith(b"at:")
        ]
        found.sort(key=lambda item: item[1])
        return [(key, at, raw[f"card:{key}".encode()].decode()) for key, at in found]

    # --- the change feed -----------------------------------------------------------------

    @answering
    def last_change(self) -> str:
        """The feed's newest id; reading after it yields only what comes later."""
        rows: Any = self.client.xrevrange(self.keys.changes, count=1)
        return rows[0][0].decode() if rows else "0-0"

    async def changes(
        self, client: redis.asyncio.Redis, after: str, *, block_ms: int = 1_000
    ) -> AsyncIterator[tuple[str, str]]:
        """Endless (task id, what) for each change after `after`; ('', 'idle') when nothing came.

        Raises `TryLater` when the store is away; the caller connects again.
        """
        while True:
            try:
                reply: Any = await client.xread({self.keys.changes: after}, count=500, block=block_ms)
            except RedisError as error:
                raise TryLater("The store's change feed is away.", cause=type(error).__name__) from error
            rows = _rows(reply)
            if not rows:
                yield "", "idle"
            for change_id, row in rows:
                after = change_id.decode()
                yield row[b"task"].decode(), row[b"what"].decode()

    # --- people --------------------------------------------------------------------------

    @answering
    def keep_token(self, token: str, actor: Actor) -> None:
        """Lets the bearer of `token` act as `actor`. Only the token's SHA-256 is stored."""
        self.client.hset(self.keys.tokens, _hashed(token), actor.model_dump_json())

    @answering
    def who(self, token: str) -> Actor | None:
        """The person this token belongs to."""
        raw = self.client.hget(self.keys.tokens, _hashed(token))
        return Actor.model_validate_json(raw) if raw else None

    @answering
    def revoke_tokens(self, account: str) -> int:
        """Ends all tokens of an account (`Actor.account`); returns how many there were."""
        rows: Any = self.client.hgetall(self.keys.tokens)
        gone = [k for k, raw in rows.items() if Actor.model_validate_json(raw).account == account]
        return int(self.client.hdel(self.keys.tokens, *gone)) if gone else 0

    @answering
    def keep_group(self, platform: str, group: str, accounts: Sequence[str]) -> None:
        """Keeps which accounts are in a group that a platform keeps, for `GROUP_SECONDS`."""
        with self.client.pipeline() as pipe:
            pipe.sadd(self.keys.groups(platform), group)
            pipe.set(self.keys.group(platform, group), json.dumps(accounts), ex=GROUP_SECONDS)
            pipe.execute()

    @answering
    def groups(self, platforms: Sequence[str]) -> dict[str, list[str]]:
        """Who is in the platforms' groups; nobody if one was not read for a while: fails closed."""
        found: dict[str, list[str]] = {}
        for platform in platforms:
            names: Any = self.client.smembers(self.keys.groups(platform))
            for name in sorted(name.decode() for name in names):
                raw = self.client.get(self.keys.group(platform, name))
                if raw:
                    found.setdefault(name, []).extend(json.loads(raw))
        return found

    # --- leadership and retries ----------------------------------------------------------

    @answering
    def lead(self, role: str, me: str, ms: int) -> bool:
        """Whether `me` holds `role` for the next `ms` milliseconds (taken, or extended)."""
        key = f"{self.keys.prefix}leader:{role}"
        if self.client.set(key, json.dumps({"token": me}), nx=True, px=ms):
            return True
        return bool(self.client.eval(_EXTEND, 1, key, me, ms))

    @answering
    def resign(self, role: str, me: str) -> None:
        """Gives `role` up, if `me` holds it."""
        self.client.eval(_RELEASE, 1, f"{self.keys.prefix}leader:{role}", me)

    @answering
    def first_time(self, what: str, *, seconds: int) -> bool:
        """Whether `what` (an event's id) is seen for the first time within `seconds`."""
        return bool(self.client.set(f"{self.keys.prefix}seen:{what}", 1, nx=True, ex=seconds))

    @answering
    def forget(self, what: str) -> None:
        """Lets `what` be seen for the first time again."""
        self.client.delete(f"{self.keys.prefix}seen:{what}")

    # --- test cards ----------------------------------------------------------------------

    @answering
    def tell_click(self, token: str) -> None:
        """Says that the button of a test card was pressed, whichever bot the click came to."""
        self.client.set(f"{self.keys.prefix}click:{token}", 1, ex=CLICK_SECONDS)

    @answering
    def clicked(self, token: str) -> bool:
        """Whether that click arrived anywhere."""
        return bool(self.client.exists(f"{self.keys.prefix}click:{token}"))


def connect_feed(url: str) -> AsyncRedis:
    """A connection for `Registers.changes`; the caller closes it."""
    return redis.asyncio.Redis.from_url(url)


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _rows(reply: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The rows of an XREAD reply, in either of the shapes that redis-py gives (RESP2, RESP3)."""
    if not reply:
        return []
    if isinstance(reply, dict):
        return [row for rows in reply.values() for batch in rows for row in _flat(batch)]
    return [row for _, rows in reply for row in rows]


def _flat(batch: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return [batch] if isinstance(batch, tuple) and isinstance(batch[0], bytes) else list(batch)
