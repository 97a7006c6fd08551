"""Whether the Redis in use keeps what is written to it, and whether it is still the same one.

Asked by `countersign doctor` and, at every start, to refuse what would lose approvals. It asks
about the server, never about our data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError
from redis.retry import Retry

from bot.findings import Finding, fail, ok, warn
from bot.private_files import write_private
from bot.redis_binary import MINIMUM

ANSWER_SECONDS = 1.0
"""Longest wait for Redis to connect, and for each answer: a server slower than this loses clicks."""
MEMORY_WARN = 0.8
"""Share of maxmemory from which is warned: at 1.0 nothing can be recorded any more."""
PROBE_SECONDS = 60
"""Life of the probe's key, should deleting it fail."""
MARKER_FILE = "redis-marker"


@dataclass(frozen=True)
class ServerFacts:
    """What a server says about itself; `config` is None where CONFIG is refused."""

    info: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, str] | None = None


def connect(url: str) -> Redis:
    """A client that gives up after `ANSWER_SECONDS`, without retries."""
    return Redis.from_url(
        url,
        socket_timeout=ANSWER_SECONDS,
        socket_connect_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def check_storage(client: Redis, *, external: bool, token: str) -> list[Finding]:
    """Whether this Redis keeps what is written to it. `token` is a fresh random string.

    `external` means somebody else runs the server: what its owner must decide is then warned
    about rather than refused. Use a client from `connect`, or any with short timeouts.
    """
    try:
        facts = ServerFacts(client.info(), _config(client))
    except (AuthenticationError, NoPermissionError) as error:
        return [fail(f"Redis refuses this user: {_words(error)}.", "Check user and password in REDIS_URL.")]
    except (RedisError, OSError) as error:
        return [
            fail(
                f"Redis cannot be reached: {_words(error)}.",
                "Start it, or correct REDIS_URL; unset it to use a private server.",
            )
        ]
    findings = judge_storage(facts, external=external)
    return findings if _loading(facts) else [*findings, probe_write(client, token)]


def _words(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


def _config(client: Redis) -> Mapping[str, str] | None:
    try:
        # One name per call: 6.2 does not take several.
        return {name: client.config_get(name)[name] or "" for name in ("maxmemory-policy", "appendfsync")}
    except (ResponseError, KeyError):
        return None


def judge_storage(facts: ServerFacts, *, external: bool) -> list[Finding]:
    """What the server's own words mean for us; pure."""
    info = facts.info
    findings = [_version(info), *_topology(info)]
    if _loading(facts):
        return [*findings, fail("Redis is still loading its data.", "Wait until it is done.")]
    if facts.config is None:
        findings.append(
            warn(
                "Redis refuses CONFIG (managed services do), so how often it syncs to disk is unknown.",
                "Ask its operator for appendonly yes and appendfsync everysec or always.",
            )
        )
    return [*findings, _eviction(facts), *_memory(info), *_persistence(facts, external=external)]


def _loading(facts: ServerFacts) -> bool:
    return bool(facts.info.get("loading"))


def _version(info: Mapping[str, Any]) -> Finding:
    version = str(info.get("redis_version", "unknown"))  # Valkey too gives the Redis it equals here
    name = str(info.get("server_name", "redis")).capitalize()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        return fail(f"{name} {version} is too old.", f"Install {needed} or newer.")
    return ok(f"{name} {version} answers.")


def _topology(info: Mapping[str, Any]) -> Iterator[Finding]:
    if info.get("role", "master") != "master":
        yield fail("This Redis is a replica and takes no writes.", "Give the primary's address in REDIS_URL.")
    if info.get("redis_mode") == "cluster":
        yield fail(
            "This Redis is a cluster; one decision is one transaction over keys of several slots.",
            "Use a server (with or without replicas) that is not in cluster mode.",
        )


def _eviction(facts: ServerFacts) -> Finding:
    policy = (facts.config or {}).get("maxmemory-policy") or facts.info.get("maxmemory_policy")
    if policy == "noeviction":
        return ok("Nothing is evicted (maxmemory-policy noeviction).")
    remedy = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf."
    if policy is None:
        return warn("Whether Redis evicts keys is unknown.", f"It must not: {remedy}")
    return fail(f"When memory is short, this Redis drops jobs and approvals ({policy}).", remedy)


def _memory(info: Mapping[str, Any]) -> Iterator[Finding]:
    limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    if limit and used >= MEMORY_WARN * limit:
        yield warn(
            f"Redis uses {used / limit:.0%} of its maxmemory ({used} of {limit} bytes); "
            "when it is full, nothing can be recorded.",
            "Raise maxmemory, or free memory.",
        )


def _persistence(facts: ServerFacts, *, external: bool) -> Iterator[Finding]:
    info = facts.info
    if not info.get("aof_enabled"):
        yield fail(
            "This Redis forgets approvals when it restarts (appendonly no).",
            "CONFIG SET appendonly yes, wait until INFO says aof_rewrite_in_progress:0, then set it in "
            "redis.conf; a restart with only the file changed would start empty.",
        )
        return
    sync = (facts.config or {}).get("appendfsync")
    if sync == "always":
        yield ok("Every write is on disk before it is answered (appendfsync always).")
    elif sync == "everysec" and external:
        yield warn(
            "A power failure can lose the last second or two of approvals (appendfsync everysec).",
            "CONFIG SET appendfsync always, or accept it.",
        )
    elif sync is not None:
        yield fail(
            f"A power failure can lose approvals (appendfsync {sync}).", "CONFIG SET appendfsync always."
        )
    if info.get("aof_last_write_status", "ok") != "ok":
        yield fail("Redis could not write its append-only file.", "Is the disk full? See the server's log.")
    if info.get("aof_last_bgrewrite_status", "ok") != "ok":
        yield warn("Redis could not compact its append-only file.", "Is the disk full? See the server's log.")


def probe_write(client: Redis, token: str) -> Finding:
    """Writes, reads back and deletes a key of its own."""
    key = f"cs:probe:{token}"
    try:
        client.set(key, token, ex=PROBE_SECONDS)
        answer = client.get(key)
        client.delete(key)
    except (RedisError, OSError) as error:
        return fail(
            f"Redis does not take writes: {_words(error)}.", "Nothing is recorded until this is put right."
        )
    if answer != token.encode():
        return fail(
            "Redis does not give back what was written.", "Is a proxy or a replica answering the reads?"
        )
    return ok("A test write came back.")


def ensure_marker(client: Redis, remembered: str | None, *, new: str) -> tuple[str, Finding]:
    """Tells a wiped or exchanged Redis from ours by a key that is written once and never expires.

    `remembered` is what an earlier start saw, `new` a fresh random string. Returns what to
    remember, and the finding. Raises `RedisError` if there is no answer.
    """
    if remembered is None:
        client.set("cs:marker", new, nx=True)
    answer = client.get("cs:marker")
    stored = answer.decode() if isinstance(answer, bytes) else answer
    if remembered is None and stored is not None:
        return stored, ok("This Redis is known from now on.")
    if stored is None:
        return remembered or new, fail(
            "This Redis has lost its data: tasks and open requests are gone.",
            f"Restore it. To go on without them, delete {MARKER_FILE} in the state directory.",
        )
    if stored != remembered:
        return remembered or new, fail(
            "This is not the Redis that was used before: tasks and open requests are elsewhere.",
            f"Correct REDIS_URL. If you moved on purpose, delete {MARKER_FILE} in the state directory.",
        )
    return stored, ok("This is the Redis that was used before.")


def remembers(state_dir: Path) -> bool:
    """Whether an earlier start on this machine remembered which Redis is ours."""
    return (state_dir / MARKER_FILE).exists()


def check_marker(client: Redis, state_dir: Path, *, new: str) -> Finding:
    """`ensure_marker` with the marker remembered in a file of the state directory."""
    file = state_dir / MARKER_FILE
    remembered = file.read_text().strip() or None if remembers(state_dir) else None
    try:
        marker, finding = ensure_marker(client, remembered, new=new)
    except (RedisError, OSError) as error:
        return fail(
            f"Redis cannot be asked whether it is the same: {_words(error)}.", "See the other findings."
        )
    if marker != remembered:
        write_private(file, marker + "\n")
    return finding
