from __future__ import annotations

import errno
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from agent_runner.config import Config
from agent_runner.config import Workspace as ConfiguredWorkspace
from agent_runner.errors import FixConfiguration
from bot import doctor
from bot.doctor import Finding, Level, check_marker, check_storage, ensure_marker, refuse_failures
from bot.embedded import EmbeddedRedis
from bot.findings import fail, ok, warn
from bot.settings import Settings
from bot.storage_check import ServerFacts, judge_storage

PATH = os.environ.get("PATH", os.defpath)
Server = tuple[EmbeddedRedis, Redis]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A real server of this test's own, to be configured badly."""
    with EmbeddedRedis(tmp_path / "redis", path=PATH) as running, doctor.connect(running.url) as client:
        yield running, client


def said(findings: list[Finding]) -> list[tuple[str, str]]:
    """Level and text of every finding."""
    return [(finding.level.value, finding.what) for finding in findings]


# What a server's words mean

GOOD_INFO: dict[str, Any] = {
    "redis_version": "7.0.15",
    "redis_mode": "standalone",
    "role": "master",
    "loading": 0,
    "maxmemory": 0,
    "used_memory": 1_000_000,
    "maxmemory_policy": "noeviction",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "aof_last_bgrewrite_status": "ok",
}
GOOD_CONFIG = {"maxmemory-policy": "noeviction", "appendfsync": "always"}
ANSWERS = ok("Redis 7.0.15 answers.")
KEEPS = ok("Nothing is evicted (maxmemory-policy noeviction).")
SYNCS = ok("Every write is on disk before it is answered (appendfsync always).")
NOEVICTION = "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf."
REFUSED = warn(
    "Redis refuses CONFIG (managed services do), so how often it syncs to disk is unknown.",
    "Ask its operator for appendonly yes and appendfsync everysec or always.",
)
FORGETS = fail(
    "This Redis forgets approvals when it restarts (appendonly no).",
    "CONFIG SET appendonly yes, wait until INFO says aof_rewrite_in_progress:0, then set it in "
    "redis.conf; a restart with only the file changed would start empty.",
)


@dataclass(frozen=True)
class Judged:
    """A server that differs from a good one in some words, and what is found."""

    expected: list[Finding]
    info: dict[str, Any] | None = None
    config: dict[str, str] | None = None
    refuses_config: bool = False
    external: bool = True


JUDGED = {
    "good": Judged([ANSWERS, KEEPS, SYNCS]),
    "old": Judged(
        [fail("Redis 6.0.16 is too old.", "Install 6.2 or newer."), KEEPS, SYNCS], {"redis_version": "6.0.16"}
    ),
    "valkey": Judged(
        [ok("Valkey 7.2.4 answers."), KEEPS, SYNCS], {"server_name": "valkey", "redis_version": "7.2.4"}
    ),
    "10.0 is newer than 6.2": Judged(
        [ok("Redis 10.0.0 answers."), KEEPS, SYNCS], {"redis_version": "10.0.0"}
    ),
    "replica": Judged(
        [
            ANSWERS,
            fail("This Redis is a replica and takes no writes.", "Give the primary's address in REDIS_URL."),
            KEEPS,
            SYNCS,
        ],
        {"role": "slave"},
    ),
    "cluster": Judged(
        [
            ANSWERS,
            fail(
                "This Redis is a cluster; one decision is one transaction over keys of several slots.",
                "Use a server (with or without replicas) that is not in cluster mode.",
            ),
            KEEPS,
            SYNCS,
        ],
        {"redis_mode": "cluster"},
    ),
    "loading": Judged(
        [ANSWERS, fail("Redis is still loading its data.", "Wait until it is done.")], {"loading": 1}
    ),
    "nearly full": Judged(
        [
            ANSWERS,
            KEEPS,
            warn(
                "Redis uses 80% of its maxmemory (800 of 1000 bytes); "
                "when it is full, nothing can be recorded.",
                "Raise maxmemory, or free memory.",
            ),
            SYNCS,
        ],
        {"maxmemory": 1000, "used_memory": 800},
    ),
    "not yet full": Judged([ANSWERS, KEEPS, SYNCS], {"maxmemory": 1000, "used_memory": 799}),
    "everysec, somebody else's": Judged(
        [
            ANSWERS,
            KEEPS,
            warn(
                "A power failure can lose the last second or two of approvals (appendfsync everysec).",
                "CONFIG SET appendfsync always, or accept it.",
            ),
        ],
        config={"appendfsync": "everysec"},
    ),
    "everysec, our own": Judged(
        [
            ANSWERS,
            KEEPS,
            fail(
                "A power failure can lose approvals (appendfsync everysec).", "CONFIG SET appendfsync always."
            ),
        ],
        config={"appendfsync": "everysec"},
        external=False,
    ),
    "never synced": Judged(
        [
            ANSWERS,
            KEEPS,
            fail("A power failure can lose approvals (appendfsync no).", "CONFIG SET appendfsync always."),
        ],
        config={"appendfsync": "no"},
    ),
    "no append-only file": Judged([ANSWERS, KEEPS, FORGETS], {"aof_enabled": 0}),
    "disk full": Judged(
        [
            ANSWERS,
            KEEPS,
            SYNCS,
            fail("Redis could not write its append-only file.", "Is the disk full? See the server's log."),
            warn("Redis could not compact its append-only file.", "Is the disk full? See the server's log."),
        ],
        {"aof_last_write_status": "err", "aof_last_bgrewrite_status": "err"},
    ),
    "managed": Judged([ANSWERS, REFUSED, KEEPS], refuses_config=True),
    "managed, evicts": Judged(
        [
            ANSWERS,
            REFUSED,
            fail("When memory is short, this Redis drops jobs and approvals (volatile-lru).", NOEVICTION),
        ],
        {"maxmemory_policy": "volatile-lru"},
        refuses_config=True,
    ),
    "managed, says nothing": Judged(
        [
            ANSWERS,
            REFUSED,
            warn("Whether Redis evicts keys is unknown.", f"It must not: {NOEVICTION}"),
            FORGETS,
        ],
        {"maxmemory_policy": None, "aof_enabled": None},
        refuses_config=True,
    ),
}


@pytest.mark.parametrize("case", JUDGED.values(), ids=JUDGED.keys())
def test_what_a_servers_words_mean(case: Judged) -> None:
    """Every way in which a server can be wrong is named with its remedy, and a good one passes."""
    config = None if case.refuses_config else {**GOOD_CONFIG, **(case.config or {})}
    facts = ServerFacts({**GOOD_INFO, **(case.info or {})}, config)
    assert judge_storage(facts, external=case.external) == case.expected


# Real servers


def test_our_own_server_passes(server: Server) -> None:
    """What `countersign up` starts has nothing to complain about, and the probe leaves nothing behind."""
    running, client = server
    assert said(check_storage(client, external=False, token="t")) == [
        ("ok", f"Redis {running.version} answers."),
        ("ok", "Nothing is evicted (maxmemory-policy noeviction)."),
        ("ok", "Every write is on disk before it is answered (appendfsync always)."),
        ("ok", "A test write came back."),
    ]
    assert client.keys() == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_case_e05_an_eviction_policy_is_refused_at_start(server: Server, policy: str, tmp_path: Path) -> None:
    """A server that would drop the queue when memory is short is refused, by name and with the remedy."""
    running, client = server
    client.config_set("maxmemory-policy", policy)
    with pytest.raises(FixConfiguration) as refused:
        doctor.admit_storage(running.url, tmp_path, external=True)
    assert (refused.value.message, refused.value.hint) == (
        f"When memory is short, this Redis drops jobs and approvals ({policy}).",
        NOEVICTION,
    )


def test_case_e06_persistence_off_is_refused_at_start(server: Server, tmp_path: Path) -> None:
    """A server that forgets approvals at its next restart is refused, and told how to keep what it has."""
    running, client = server
    client.config_set("appendonly", "no")
    with pytest.raises(FixConfiguration) as refused:
        doctor.admit_storage(running.url, tmp_path, external=True)
    assert (refused.value.message, refused.value.hint) == (FORGETS.what, FORGETS.remedy)
    assert client.keys() == []  # nor is it marked as the one to know again
    assert not (tmp_path / "redis-marker").exists()


def test_case_e06_a_wiped_store_is_told_from_a_new_one(server: Server, tmp_path: Path) -> None:
    """The first start marks the store; when the mark is gone, later starts say that the data is lost."""
    running, client = server
    ids = itertools.count()

    def start() -> str:
        try:
            findings = doctor.admit_storage(
                running.url, tmp_path, external=False, new_id=lambda: f"m{next(ids)}"
            )
        except FixConfiguration as refused:
            return refused.message
        return findings[-1].what

    first, known = "This Redis is known from now on.", "This is the Redis that was used before."
    assert [start(), start()] == [first, known]
    client.flushall()
    lost = "This Redis has lost its data: tasks and open requests are gone."
    assert [start(), start()] == [lost, lost]
    assert client.keys() == []
    (tmp_path / "redis-marker").unlink()
    assert [start(), start()] == [first, known]


@pytest.mark.parametrize(
    ("stored", "remembered", "kept", "level", "what"),
    [
        (None, None, "new", Level.OK, "This Redis is known from now on."),
        (b"m", None, "m", Level.OK, "This Redis is known from now on."),
        (b"m", "m", "m", Level.OK, "This is the Redis that was used before."),
        (None, "m", "m", Level.FAIL, "This Redis has lost its data: tasks and open requests are gone."),
        (
            b"other",
            "m",
            "m",
            Level.FAIL,
            "This is not the Redis that was used before: tasks and open requests are elsewhere.",
        ),
    ],
)
def test_the_marker(
    fake_redis: Redis, stored: bytes | None, remembered: str | None, kept: str, level: Level, what: str
) -> None:
    """Only a store and a machine that agree pass; a second machine joins a marked store."""
    if stored:
        fake_redis.set("cs:marker", stored)
    marker, finding = ensure_marker(fake_redis, remembered, new="new")
    assert (marker, finding.level, finding.what) == (kept, level, what)
    assert fake_redis.get("cs:marker") == (stored or (None if remembered else b"new"))


def test_a_service_that_refuses_config_is_judged_by_its_info(server: Server) -> None:
    """Without CONFIG the rest is still checked, and what stays unknown is said."""
    running, admin = server
    admin.acl_setuser(
        "managed", enabled=True, passwords=["+pw"], keys=["*"], categories=["+@all"], commands=["-config"]
    )
    with doctor.connect(running.url.replace("unix://", "unix://managed:pw@")) as client:
        assert said(check_storage(client, external=True, token="t")) == [
            ("ok", f"Redis {running.version} answers."),
            (REFUSED.level.value, REFUSED.what),
            ("ok", "Nothing is evicted (maxmemory-policy noeviction)."),
            ("ok", "A test write came back."),
        ]


def _full(client: Redis) -> None:
    client.config_set("maxmemory", "1")


def _replica(client: Redis) -> None:
    client.replicaof("127.0.0.1", "1")


@pytest.mark.parametrize(
    ("spoil", "failure"),
    [
        (_full, "Redis does not take writes: command not allowed when used memory > 'maxmemory'."),
        (_replica, "Redis does not take writes: You can't write against a read only replica."),
    ],
)
def test_a_server_that_takes_no_writes_fails(
    server: Server, spoil: Callable[[Redis], None], failure: str
) -> None:
    """The test write finds what no setting tells."""
    _, client = server
    spoil(client)
    assert said(check_storage(client, external=True, token="t"))[-1] == ("fail", failure)


def test_a_wrong_password_is_named(server: Server) -> None:
    """A server that wants another password is reachable, and says so."""
    running, _ = server
    with doctor.connect(running.url.replace("unix://", "unix://nobody:wrong@")) as client:
        assert check_storage(client, external=True, token="t") == [
            fail(
                "Redis refuses this user: invalid username-password pair or user is disabled.",
                "Check user and password in REDIS_URL.",
            )
        ]


def test_a_server_that_is_away_is_named() -> None:
    """With nobody listening the address is what to look at."""
    with doctor.connect("redis://127.0.0.1:1/0") as client:
        (finding,) = check_storage(client, external=True, token="t")
    assert finding == fail(
        f"Redis cannot be reached: Error {errno.ECONNREFUSED} connecting to 127.0.0.1:1. Connection refused.",
        "Start it, or correct REDIS_URL; unset it to use a private server.",
    )


def test_a_hung_server_is_found_out_soon(server: Server, tmp_path: Path) -> None:
    """A server that accepts and never answers is given up after a second, not after a minute."""
    running, client = server
    os.kill(running.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        findings = [
            *check_storage(client, external=True, token="t"),
            check_marker(client, tmp_path, new="m"),
        ]
    finally:
        os.kill(running.pid, signal.SIGCONT)
    assert time.monotonic() - began < 10  # 58.9 s were measured with a default client
    assert [finding.level for finding in findings] == [Level.FAIL, Level.FAIL]
    assert not (tmp_path / "redis-marker").exists()


# The rest


def test_only_failures_refuse_a_start() -> None:
    """Warnings let it start; all failures are named together with their remedies."""
    refuse_failures([ok("fine"), warn("so-so", "consider")])
    with pytest.raises(FixConfiguration) as refused:
        refuse_failures([fail("A broke.", "Mend A."), ok("fine"), fail("B broke.", "Mend B.")])
    assert (refused.value.message, refused.value.hint) == ("A broke. B broke.", "Mend A. Mend B.")


@pytest.mark.engine
def test_the_bundled_cli_starts() -> None:
    """The engine that the tests are about is installed and gives its version."""
    finding = doctor.check_engine_cli(doctor.bundled_cli())
    assert (finding.level, finding.what[:19], finding.what[-15:]) == (
        Level.OK,
        "The engine starts: ",
        " (Claude Code).",
    )


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("#!/bin/sh\necho 9.9.9 $*\n", ok("The engine starts: 9.9.9 -v.")),
        (
            "#!/bin/sh\necho GLIBC_2.99 not found >&2\nexit 1\n",
            fail(
                "The engine's program does not start: GLIBC_2.99 not found",
                "Install claude-agent-sdk again, from a wheel for this platform.",
            ),
        ),
        (
            "#!/nowhere/sh\n",
            fail(
                "The engine's program does not start: No such file or directory.",
                "Install claude-agent-sdk again, from a wheel for this platform.",
            ),
        ),
        (
            None,
            fail(
                "The engine's program is not installed.",
                "Install claude-agent-sdk again, from a wheel for this platform.",
            ),
        ),
    ],
)
def test_an_engine_that_does_not_start_is_named(
    tmp_path: Path, script: str | None, expected: Finding
) -> None:
    """A missing or wrong program is found before the first task needs it."""
    cli = tmp_path / "claude"
    if script is not None:
        cli.write_text(script)
        cli.chmod(0o755)
    assert doctor.check_engine_cli(cli) == expected


def test_an_engine_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is bounded."""
    monkeypatch.setattr(doctor, "CLI_SECONDS", 0.1)
    cli = tmp_path / "claude"
    cli.write_text("#!/bin/sh\nexec sleep 60\n")
    cli.chmod(0o755)
    assert doctor.check_engine_cli(cli) == fail(
        "The engine's program gave no version in 0 s.", f"Run: {cli} -v"
    )


@dataclass(frozen=True)
class Workspace:
    """As much of a configured workspace as is looked at."""

    path: Path


def test_workspaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each workspace that cannot be worked in is named with what is wrong."""
    good, file, locked = tmp_path / "good", tmp_path / "file", tmp_path / "locked"
    good.mkdir()
    file.touch()
    locked.mkdir()
    # Not by mode bits: who runs the tests as root may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, _: path != locked)
    workspaces = {
        "a": Workspace(good),
        "b": Workspace(tmp_path / "gone"),
        "c": Workspace(file),
        "d": Workspace(locked),
    }
    assert doctor.check_workspaces(workspaces) == [
        ok(f"Workspace a: {good}"),
        fail(f"Workspace b: {tmp_path / 'gone'} does not exist.", "Create it, or correct its path."),
        fail(f"Workspace c: {file} is not a directory.", "Correct its path."),
        fail(f"Workspace d: {locked} is not writable.", "Give this user the right to write there."),
    ]


def test_no_workspace_is_a_failure() -> None:
    """Without a place to work nothing can be asked for."""
    assert doctor.check_workspaces({}) == [
        fail("No workspace is configured.", "Add a [workspaces.NAME] section with a path.")
    ]


@pytest.mark.parametrize(
    ("environment", "rehearsal", "expected"),
    [
        (
            {},
            True,
            warn(
                "No ANTHROPIC_API_KEY is set: the rehearsal, a scripted model, answers.",
                "Set it to work with Claude.",
            ),
        ),
        ({"ANTHROPIC_API_KEY": "sk-x"}, False, ok("There is a model; it is not called here.")),
        ({"CLAUDE_CODE_OAUTH_TOKEN": "x"}, False, ok("There is a model; it is not called here.")),
        (
            {"ANTHROPIC_API_KEY": "sk-x", "ANTHROPIC_BASE_URL": "https://gateway.example"},
            False,
            ok("There is a model at https://gateway.example; it is not called here."),
        ),
        *(
            (
                {"ANTHROPIC_API_KEY": key},
                False,
                fail("ANTHROPIC_API_KEY has spaces or quotes in it.", "Set it to the key alone."),
            )
            for key in ("sk-x\n", '"sk-x"', "sk x")
        ),
    ],
)
def test_the_model(environment: dict[str, str], rehearsal: bool, expected: Finding) -> None:
    """A missing key means the rehearsal, a pasted one with quotes is caught, and no key is ever shown."""
    assert doctor.check_model(environment, rehearsal=rehearsal) == expected


def settings_of(tmp_path: Path, **environment: str) -> Settings:
    """An installation with one workspace and this environment."""
    workspace = tmp_path / "ops"
    workspace.mkdir()
    return Settings(
        config=Config(
            workspaces={"ops": ConfiguredWorkspace(path=str(workspace))},
            source="countersign.toml",
            warnings=("This rule never matches.",),
        ),
        config_path=None,
        state_dir=tmp_path / "state",
        environment={"PATH": PATH, **environment},
        host="127.0.0.1",
        port=0,
    )


@pytest.mark.engine
def test_a_healthy_installation(tmp_path: Path) -> None:
    """Everything is looked at, the private server is ended again, and nothing is remembered by looking."""
    settings = settings_of(tmp_path)
    findings = doctor.examine(settings)
    assert [finding.level.value for finding in findings] == ["ok"] * 6 + ["warn"] * 2
    assert findings[-1] == warn("This rule never matches.", "See countersign.toml.")
    assert findings[5] == ok(f"Workspace ops: {tmp_path / 'ops'}")
    assert sorted(path.name for path in settings.state_dir.iterdir()) == ["redis"]
    with EmbeddedRedis(settings.state_dir / "redis", path=PATH) as running:
        assert running.owned
        with doctor.connect(running.url) as client:
            check_marker(client, settings.state_dir, new="m")
            client.flushall()
        assert "This Redis has lost its data" in doctor.examine(settings)[4].what


@pytest.mark.engine
@pytest.mark.parametrize(
    ("url", "failure"),
    [
        ("redis://127.0.0.1:1/0", "Redis cannot be reached: "),
        ("http://127.0.0.1", "REDIS_URL is not an address: "),
    ],
)
def test_a_wrong_address_leaves_the_other_findings(tmp_path: Path, url: str, failure: str) -> None:
    """One failure does not hide what else is found."""
    findings = doctor.examine(settings_of(tmp_path, REDIS_URL=url))
    assert [finding.level.value for finding in findings] == ["fail", "ok", "ok", "warn", "warn"]
    assert findings[0].what.startswith(failure)


@pytest.mark.engine
def test_a_private_server_that_is_refused_is_a_finding(tmp_path: Path) -> None:
    """What stops the start of the private server is named with its remedy like everything else."""
    settings = settings_of(tmp_path)
    (settings.state_dir / "redis").mkdir(parents=True)
    (settings.state_dir / "redis" / "dump.rdb").write_bytes(b"REDIS0009")
    finding = doctor.examine(settings)[0]
    assert finding.level is Level.FAIL
    assert "holds a snapshot" in finding.what
    assert "CONFIG SET appendonly yes" in finding.remedy
