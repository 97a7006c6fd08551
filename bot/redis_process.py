"""The server process itself: how it is launched, tied to its owner, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

ON_LINUX = sys.platform == "linux"
END_SECONDS = 5.0
"""Longest wait for a process to end, per step; a server was measured to take 26 ms."""
LOG_BYTES = 5 * 2**20
"""A log larger than this is put aside (one old one is kept) at the next start."""

# Both launchers run in a fresh interpreter rather than between fork and exec of this process,
# where other threads may hold locks. The first becomes the server; the second stays its parent.
_LAUNCH_LINUX = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the owner ended before the server began")
os.execv(sys.argv[3], sys.argv[3:])
"""
_LAUNCH_WATCHED = """
import os, subprocess, sys, threading
lock = int(sys.argv[2])
server = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, pass_fds=[lock])
os.close(lock)
def watch():
    while os.read(0, 1):
        pass
    server.terminate()
threading.Thread(target=watch, daemon=True).start()
os._exit(server.wait() & 255)
"""


def settings(data_dir: Path, socket: Path) -> list[str]:
    """Every acknowledged write is on disk, nothing is evicted, and only this user can connect."""
    pairs = {
        "--port": "0",
        "--unixsocket": str(socket),
        "--unixsocketperm": "700",
        "--dir": str(data_dir),
        "--logfile": str(log_of(data_dir)),
        "--appendonly": "yes",
        "--appendfsync": "always",
        "--save": "",
        "--maxmemory-policy": "noeviction",
        "--daemonize": "no",
    }
    return [word for pair in pairs.items() for word in pair]


def log_of(data_dir: Path) -> Path:
    """Where the server and its launcher write what they have to say."""
    return data_dir / "redis.log"


def spawn(
    command: Sequence[str], log: Path, held: int, *, parent_death_signal: bool = ON_LINUX
) -> subprocess.Popen[bytes]:
    """Starts `command` in its own session; it ends when this process does. `held` is a file it keeps open."""
    launcher = _LAUNCH_LINUX if parent_death_signal else _LAUNCH_WATCHED
    with _open(log) as output:
        return subprocess.Popen(  # noqa: S603  (our own interpreter, and a server that was looked at)
            [sys.executable, "-I", "-S", "-c", launcher, str(os.getpid()), str(held), *command],
            stdin=subprocess.DEVNULL if parent_death_signal else subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C in the terminal is for the owner, which then ends the server
            pass_fds=[held],
            umask=0o077,
        )


def _open(log: Path) -> IO[bytes]:
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
    return log.open("ab")


def last_words(log: Path) -> str:
    """The last line of a log, `none` if it is empty."""
    with suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "none"
    return "none"


def wait(process: subprocess.Popen[bytes]) -> None:
    """Gives the process time to end by itself."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends our own child and its group by force; every acknowledged write is on disk already.

    Not by SIGTERM: on that a server removes the path of its socket, which may be another's by now.
    """
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        wait(process)
    if process.stdin:
        process.stdin.close()


def exists(pid: int) -> bool:
    """Whether a process of that id runs; one that ended and was not yet reaped does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
