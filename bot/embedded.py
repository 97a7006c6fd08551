"""Starts and owns a private Redis server when no address is configured.

One data directory has one server, however many processes ask for it at once: the server itself
holds a lock on the directory (it inherits the open file), so the lock lives exactly as long as
it does. Whoever comes second attaches to the running server. The server ends with the process
that started it, even if that process is killed: on Linux by the parent-death signal, elsewhere
by a watcher that reads a pipe (tested on Linux only).

The parent-death signal fires when the *thread* that started the server ends, so `start` must be
called from the main thread. A process forked without exec keeps the watcher's pipe open and so
may keep the server alive outside Linux.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Self
from urllib.parse import quote

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from agent_runner.errors import FixConfiguration
from bot.private_files import POLL_SECONDS, lock, private_directory, write_private
from bot.redis_binary import choose, find_binaries, read_stored, write_record
from bot.redis_process import END_SECONDS, ON_LINUX, exists, kill, last_words, log_of, settings, spawn, wait

SOCKET_PATH_MAX = 107 if ON_LINUX else 103
"""Bytes of a unix socket's path (sockaddr_un, less the closing zero); beyond, Redis starts without one."""
START_SECONDS = 60.0
"""Longest wait for a server to serve: measured 6 to 14 ms, but loading a large file takes time."""


@dataclass(frozen=True)
class _Running:
    """What a starter leaves in the data directory for those who attach."""

    pid: int
    owner: int
    socket: str
    binary: str
    version: str


class EmbeddedRedis:
    """A private server on `data_dir`, started or attached to; use as a context manager.

    `path` is searched for server programs as the shell would. `runtime_dirs` are tried in order
    for the socket where the data directory's own path is too long for one (give
    XDG_RUNTIME_DIR); the system's temporary directory comes last.

    `start` raises `FixConfiguration` with the remedy if there is no suitable server, if it would
    not show the data that is there, or if it does not start. Only the starter's `stop` ends the
    server; those who attached lose it with its owner.
    """

    what = "The store"

    def __init__(
        self,
        data_dir: Path,
        *,
        path: str,
        runtime_dirs: Sequence[Path] = (),
        start_seconds: float = START_SECONDS,
        parent_death_signal: bool = ON_LINUX,
    ) -> None:
        self.data_dir = data_dir.resolve()
        self._log = log_of(self.data_dir)
        self._path = path
        self._runtime_dirs = (*runtime_dirs, Path(tempfile.gettempdir()))
        self._start_seconds = start_seconds
        self._parent_death_signal = parent_death_signal
        self._running: _Running | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.owned = False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """`unix:///path/redis.sock?db=0`."""
        return f"unix://{quote(self._up.socket)}?db=0"

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._up.pid

    @property
    def version(self) -> str:
        """The server's version: 7.0.15."""
        return self._up.version

    @property
    def binary(self) -> Path:
        """The program that runs."""
        return Path(self._up.binary)

    @property
    def alive(self) -> bool:
        """Whether the server answers now."""
        return self._running is not None and _answers(self._running)

    @property
    def ended(self) -> bool:
        """Whether the server that this process started has ended by itself; `start` brings it back."""
        return self._process is not None and self._process.poll() is not None

    @property
    def _up(self) -> _Running:
        if self._running is None:
            raise RuntimeError("the server was not started")
        return self._running

    def start(self) -> Self:
        """Starts the server, or attaches to the one that runs; returns when it answers."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("start Redis from the main thread: it ends with the thread that starts it")
        if self.alive:
            return self
        private_directory(self.data_dir)
        with self._starting(self._start_seconds):
            claim = self._claim()
            if claim is not None:
                try:
                    self._running = self._launch(claim)
                finally:
                    os.close(claim)  # the server has it open too
        return self

    def stop(self) -> None:
        """Ends the server if this process started it: saved, bounded, and by force at last."""
        running, process = self._running, self._process
        self._running = self._process = None
        if running is None or not self.owned or running.owner != os.getpid():
            return  # a forked child may not end its parent's server
        self.owned = False
        with suppress(FixConfiguration, OSError), self._starting(END_SECONDS):
            if _answers(running):  # else the socket may be another server's by now
                with suppress(RedisError, OSError), _client(running.socket, END_SECONDS) as client:
                    client.shutdown()
                self._wait_until_gone(process)
        if process:
            kill(process)  # already over, unless it hangs or its directory, and the socket in it, is gone

    # Locks. `start.lock` is held for moments by whoever starts or stops; `alive.lock` by the server.

    @contextmanager
    def _starting(self, seconds: float) -> Iterator[None]:
        handle = lock(self.data_dir / "start.lock", seconds)
        if handle is None:
            raise FixConfiguration(
                f"Another process has been starting a Redis server on {self.data_dir} for {seconds:.0f} s.",
                hint=f"End it, or see {self._log}.",
            )
        try:
            yield
        finally:
            os.close(handle)

    def _lock_alive(self, seconds: float) -> int | None:
        return lock(self.data_dir / "alive.lock", seconds)

    def _wait_until_gone(self, process: subprocess.Popen[bytes] | None) -> None:
        if process:
            wait(process)
        elif (handle := self._lock_alive(END_SECONDS)) is not None:
            os.close(handle)

    # Attaching.

    def _claim(self) -> int | None:
        """The open lock to start a server under, or None after attaching to a living one."""
        deadline = time.monotonic() + END_SECONDS
        while (claim := self._lock_alive(0)) is None:
            running = self._read_running()
            orphan = running is None or not exists(running.owner)
            late = time.monotonic() >= deadline
            # A server whose owner is gone is about to end, so it is given time; then it is adopted.
            if running and (late or not orphan) and _answers(running):
                self._attach(running, adopt=orphan)
                return None
            if late:
                raise FixConfiguration(
                    f"A Redis server holds {self.data_dir} but does not answer"
                    + (f" (process {running.pid})." if running else "."),
                    hint="End that process, then start again.",
                )
            time.sleep(POLL_SECONDS)
        return claim

    def _attach(self, running: _Running, *, adopt: bool) -> None:
        if adopt:
            running = replace(running, owner=os.getpid())
            self._write_running(running)
        self._running, self.owned = running, adopt

    def _read_running(self) -> _Running | None:
        with suppress(OSError, ValueError, TypeError):
            return _Running(**json.loads((self.data_dir / "server.json").read_text()))
        return None

    def _write_running(self, running: _Running) -> None:
        write_private(self.data_dir / "server.json", json.dumps(asdict(running)) + "\n")

    # Starting.

    def _launch(self, claim: int) -> _Running:
        binary = choose(find_binaries(self._path), read_stored(self.data_dir), self.data_dir)
        socket = self._socket_path()
        command = [str(binary.path), *settings(self.data_dir, socket)]
        process = spawn(command, self._log, claim, parent_death_signal=self._parent_death_signal)
        try:
            pid = self._wait_until_ready(process, socket)
            running = _Running(pid, os.getpid(), str(socket), str(binary.path), binary.engine.version_text)
            write_record(self.data_dir, binary.engine)
            self._write_running(running)
        except BaseException:
            kill(process)
            raise
        self._process, self.owned = process, True
        return running

    def _wait_until_ready(self, process: subprocess.Popen[bytes], socket: Path) -> int:
        """The server's process id, as it gives it itself, once it serves."""
        deadline = time.monotonic() + self._start_seconds
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(RedisError, OSError), _client(str(socket)) as client:
                client.ping()  # refused while it loads its data
                return int(client.info("server")["process_id"])
            time.sleep(POLL_SECONDS)
        how = "ended at once" if process.poll() is not None else f"did not answer in {self._start_seconds} s"
        raise FixConfiguration(
            f"The Redis server {how}. Its last words: {last_words(self._log)}", hint=f"See {self._log}."
        )

    def _socket_path(self) -> Path:
        """In the data directory, else in a private directory with a short name made from its path."""
        name = f"countersign-{os.geteuid()}-{sha256(bytes(self.data_dir)).hexdigest()[:16]}"
        for folder in (self.data_dir, *(base / name for base in self._runtime_dirs)):
            if len(os.fsencode(folder / "redis.sock")) <= SOCKET_PATH_MAX:
                with suppress(OSError):  # a runtime directory may be named in the environment and not exist
                    private_directory(folder)
                    return folder / "redis.sock"
        raise FixConfiguration(
            f"The server's socket fits nowhere: its path may be {SOCKET_PATH_MAX} bytes long.",
            hint="Use a state directory with a shorter path.",
        )


def _answers(running: _Running) -> bool:
    with suppress(RedisError, OSError), _client(running.socket) as client:
        return bool(client.info("server")["process_id"] == running.pid)
    return False


def _client(socket: str, timeout_seconds: float = 1.0) -> Redis:
    return Redis(
        unix_socket_path=socket,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
    )
