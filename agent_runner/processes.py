"""Processes that must not outlive those they work for."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

import psutil

END_SECONDS = 5.0
"""How long the agent's CLI gets to end its running command after SIGTERM (measured: 2.2 s)."""

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies (Linux; elsewhere the lease must do)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_group(pgid: int, *, born_after: float = 0.0) -> None:
    """Ends a process group and all that its members had started.

    SIGTERM first: the CLI then ends its running command, which is in a group of its own; what is
    left after `END_SECONDS` is killed. `born_after` (Unix seconds) spares a group that only
    reuses the number.
    """
    members = [p for p in psutil.process_iter() if _in_group(p, pgid) and _born(p) >= born_after]
    below = [child for member in members for child in _children(member)]
    for process in members:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs({*members, *below}, timeout=END_SECONDS)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _in_group(process: psutil.Process, pgid: int) -> bool:
    try:
        return os.getpgid(process.pid) == pgid
    except (ProcessLookupError, PermissionError):
        return False


def _born(process: psutil.Process) -> float:
    try:
        return float(process.create_time())
    except psutil.Error:
        return 0.0


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []
