"""Session transcripts in Redis: any runner that shares the store and the workspace path can resume.

The engine's CLI writes its transcript to local disk and mirrors every line here. On a resume
the SDK loads the lines back into a fresh directory, so this copy is the one that lasts.

Layout, with P the prefix and every part of a name percent-quoted:

    P session:<project>:<session>:main            list of encoded entries
    P session:<project>:<session>:sub:<subpath>   the same for a subagent
    ...:main:ids, ...:sub:<subpath>:ids           sets of the entries' uuids
    P session:<project>:<session>:subs            set of subpaths
    P session:<project>:<session>:bytes           encoded size of the whole session
    P index:<project>                             sorted set, session -> milliseconds of its last append

The scripts compute names from these, so all keys must live on one server (no Redis Cluster).
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, cast
from urllib.parse import quote, unquote

from claude_agent_sdk import project_key_for_directory
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
)
from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from agent_runner import transcript_codec as codec
from agent_runner.errors import EngineFailed, TryLater

log = logging.getLogger(__name__)

TTL_SECONDS = 30 * 86_400
"""A session is kept this long after its last append: far longer than any approval may wait."""
PAGE = 256
"""Entries per read: one reply of a whole long session would hold up everybody on that server."""


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes. A 30 MB value was measured to block the server for a third of a second."""

    entry: int = 16 * 2**20
    """JSON of one entry; a larger one is kept as a stub that says so."""
    warn: int = 8 * 2**20
    """Encoded size of a session at which a warning is logged, once."""
    load: int = 64 * 2**20
    """Encoded size of a session above which it is not loaded: about 200 MB of JSON."""


# KEYS: session base, index. ARGV: ttl seconds, session, quoted subpath ('' = main), then uuid, entry, ...
# Returns {bytes added, bytes of the session}.
_APPEND = """
local base, index = KEYS[1], KEYS[2]
local ttl, session, sub = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local list = base .. (sub == '' and ':main' or ':sub:' .. sub)
local added = 0
for i = 4, #ARGV, 2 do
  if ARGV[i] == '' or redis.call('SADD', list .. ':ids', ARGV[i]) == 1 then
    redis.call('RPUSH', list, ARGV[i + 1])
    added = added + #ARGV[i + 1]
  end
end
local total = redis.call('INCRBY', base .. ':bytes', added)
if sub == '' then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZADD', index, now, session)
  redis.call('ZREMRANGEBYSCORE', index, '-inf', now - ttl * 1000)
  redis.call('EXPIRE', index, ttl)
else
  redis.call('SADD', base .. ':subs', sub)
end
local lists = {base .. ':main'}
for _, name in ipairs(redis.call('SMEMBERS', base .. ':subs')) do
  lists[#lists + 1] = base .. ':sub:' .. name
end
for _, name in ipairs(lists) do
  redis.call('EXPIRE', name, ttl)
  redis.call('EXPIRE', name .. ':ids', ttl)
end
redis.call('EXPIRE', base .. ':subs', ttl)
redis.call('EXPIRE', base .. ':bytes', ttl)
return {added, total}
"""

# KEYS: session base, index. ARGV: session, quoted subpath ('' = the whole session).
_DELETE = """
local base, index = KEYS[1], KEYS[2]
local session, sub = ARGV[1], ARGV[2]
if sub == '' then
  for _, name in ipairs(redis.call('SMEMBERS', base .. ':subs')) do
    redis.call('DEL', base .. ':sub:' .. name, base .. ':sub:' .. name .. ':ids')
  end
  redis.call('DEL', base .. ':main', base .. ':main:ids', base .. ':subs', base .. ':bytes')
  redis.call('ZREM', index, session)
else
  local list = base .. ':sub:' .. sub
  local size = 0
  for _, entry in ipairs(redis.call('LRANGE', list, 0, -1)) do size = size + #entry end
  redis.call('DEL', list, list .. ':ids')
  redis.call('SREM', base .. ':subs', sub)
  if redis.call('EXISTS', base .. ':bytes') == 1 then redis.call('DECRBY', base .. ':bytes', size) end
end
return 0
"""


class RedisTranscripts(SessionStore):
    """The SDK's SessionStore on Redis; passes its conformance suite.

    `client` must answer in bytes (`decode_responses=False`) and belong to the running event
    loop, so make one store per turn and close it with `aclose` (or use `async with`).
    Appending the same entry again, by a retry after a lost reply or by two processes, keeps it
    once; entries without a uuid are kept as often as they come.
    """

    # Absent on purpose: the SDK then lists sessions and loads each, which nothing here asks for.
    list_session_summaries = SessionStore.list_session_summaries

    def __init__(
        self,
        client: Redis,
        *,
        prefix: str = "cs:transcript:",
        ttl_seconds: int = TTL_SECONDS,
        limits: Limits | None = None,
    ) -> None:
        if client.connection_pool.connection_kwargs.get("decode_responses"):
            raise ValueError("transcripts need a Redis client with decode_responses=False")
        self._client = client
        self._prefix = prefix
        self._ttl_seconds = ttl_seconds
        self._limits = limits or Limits()

    @classmethod
    def connect(cls, url: str, **options: Any) -> Self:
        """A store with its own connection to `url`; `options` as for the constructor."""
        return cls(Redis.from_url(url), **options)

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # What the SDK calls. Redis errors pass through: the SDK retries appends and reports the rest.

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Adds entries in order, in one atomic step, and renews the session's time to live."""
        if not entries:
            return
        arguments: list[str | bytes | int] = []
        for entry in entries:
            arguments += [_uuid(entry), self._encode(entry, key)]
        added, total = await self._client.eval(
            _APPEND,
            2,
            self._base(key["project_key"], key["session_id"]),
            self._index(key["project_key"]),
            self._ttl_seconds,
            key["session_id"],
            _name(key.get("subpath", "")),
            *arguments,
        )
        if total - added < self._limits.warn <= total:
            log.warning("transcript of session %s has grown to %d bytes", key["session_id"], total)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of a transcript in order, or None if there is none.

        Raises `EngineFailed` if the session is larger than the limit or was written in a way
        that this version cannot read. (The SDK wraps what is raised here; call
        `ensure_loadable` first to see the error itself.)
        """
        await self._refuse_too_large(key["project_key"], key["session_id"])
        entries = [codec.decode(blob) async for blob in self._blobs(self._list(key))]
        return [cast(SessionStoreEntry, entry) for entry in entries] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Sessions of a project with the time of their last append, by the server's clock."""
        seconds, _ = await self._client.time()
        oldest_ms = (seconds - self._ttl_seconds) * 1000
        members = await self._client.zrangebyscore(
            self._index(project_key), oldest_ms, "+inf", withscores=True
        )
        return [
            {"session_id": session.decode(), "mtime": int(mtime)}
            for session, mtime in cast(list[tuple[bytes, float]], members)
        ]

    async def delete(self, key: SessionKey) -> None:
        """Deletes one subagent's transcript, or without a subpath the whole session."""
        await self._client.eval(
            _DELETE,
            2,
            self._base(key["project_key"], key["session_id"]),
            self._index(key["project_key"]),
            key["session_id"],
            _name(key.get("subpath", "")),
        )

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session, sorted."""
        names = await self._client.smembers(f"{self._base(key['project_key'], key['session_id'])}:subs")
        return sorted(unquote(cast(bytes, name).decode()) for name in names)

    # What the engine asks before it connects: resuming a session in the wrong state hangs it.

    async def exists(self, cwd: str, session_id: str) -> bool:
        """Whether anything is stored of that session; raises `TryLater` if Redis does not answer."""
        with _answering():
            return bool(await self._client.exists(self._list(_main(cwd, session_id))))

    async def ensure_loadable(self, cwd: str, session_id: str) -> None:
        """Raises `EngineFailed` if `load` would refuse the session for its size."""
        with _answering():
            await self._refuse_too_large(project_key_for_directory(cwd), session_id)

    async def has_call(self, cwd: str, session_id: str, tool_use_id: str) -> bool:
        """Whether the main transcript holds that tool call."""
        return await self._has_block(cwd, session_id, {"type": "tool_use", "id": tool_use_id})

    async def has_result(self, cwd: str, session_id: str, tool_use_id: str) -> bool:
        """Whether the main transcript holds a result of that tool call, good or bad."""
        return await self._has_block(cwd, session_id, {"type": "tool_result", "tool_use_id": tool_use_id})

    # What is read of past sessions, however large; see `past_calls`.

    async def subagents(self, cwd: str, session_id: str) -> list[str]:
        """The subpaths of a session's subagents; raises `TryLater`, or `EngineFailed` for what is none."""
        with _answering(), _readable():
            return await self.list_subkeys(
                {"project_key": project_key_for_directory(cwd), "session_id": session_id}
            )

    async def entries(
        self, cwd: str, session_id: str, subpath: str = ""
    ) -> AsyncIterator[dict[str, Any] | None]:
        """The entries in order, a page at a time; None for one that this version cannot read."""
        key = _main(cwd, session_id)
        if subpath:
            key["subpath"] = subpath
        with _answering(), _readable():
            async for blob in self._blobs(self._list(key)):
                yield _decoded(blob)

    async def _has_block(self, cwd: str, session_id: str, wanted: dict[str, str]) -> bool:
        needles = [json.dumps(value).encode() for value in wanted.values()]
        with _answering():
            async for blob in self._blobs(self._list(_main(cwd, session_id))):
                text = codec.unpack(blob)
                if all(needle in text for needle in needles) and codec.contains(json.loads(text), wanted):
                    return True
        return False

    async def _blobs(self, name: str) -> AsyncIterator[bytes]:
        start = 0
        while page := cast(list[bytes], await self._client.lrange(name, start, start + PAGE - 1)):
            for blob in page:
                yield blob
            start += len(page)

    async def _refuse_too_large(self, project_key: str, session_id: str) -> None:
        size = int(cast(bytes, await self._client.get(f"{self._base(project_key, session_id)}:bytes")) or 0)
        if size > self._limits.load:
            raise EngineFailed(
                f"The session's transcript is too large to resume: {size} of {self._limits.load} bytes.",
                hint="Start a new task and give it a summary of what was done so far.",
                session_id=session_id,
                size=size,
            )

    def _encode(self, entry: SessionStoreEntry, key: SessionKey) -> bytes:
        text = codec.to_json(entry)
        if len(text) > self._limits.entry:
            log.warning(
                "transcript of session %s: an entry of %d bytes is kept as a stub",
                key["session_id"],
                len(text),
            )
            text = codec.stub(entry, len(text), self._limits.entry)
        return codec.pack(text)

    def _base(self, project_key: str, session_id: str) -> str:
        return f"{self._prefix}session:{_name(project_key)}:{_name(session_id)}"

    def _list(self, key: SessionKey) -> str:
        subpath = key.get("subpath", "")
        part = f"sub:{_name(subpath)}" if subpath else "main"
        return f"{self._base(key['project_key'], key['session_id'])}:{part}"

    def _index(self, project_key: str) -> str:
        return f"{self._prefix}index:{_name(project_key)}"


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise TryLater(
            "The store did not answer, so the session could not be read.",
            hint="Try again in a moment; `countersign doctor` shows what is wrong.",
            cause=type(error).__name__,
        ) from error


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except ResponseError as error:
        raise EngineFailed(f"The store does not hold a transcript there: {error}.") from error


def _decoded(blob: bytes) -> dict[str, Any] | None:
    try:
        entry = codec.decode(blob)
    except (EngineFailed, ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _main(cwd: str, session_id: str) -> SessionKey:
    return {"project_key": project_key_for_directory(cwd), "session_id": session_id}


def _name(part: str) -> str:
    """A name in which neither `:` nor any byte outside ASCII is left."""
    return quote(part, safe="")


def _uuid(entry: SessionStoreEntry) -> str:
    uuid = entry.get("uuid")
    return uuid if isinstance(uuid, str) else ""
