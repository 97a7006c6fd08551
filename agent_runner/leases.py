"""Leases and the processes that hold them."""

from __future__ import annotations

import os
import secrets
import socket

import psutil

from agent_runner.processes import end_group
from agent_runner.registers import Lease


def my_lease() -> Lease:
    """A lease for this process."""
    pid = os.getpid()
    return Lease(
        token=secrets.token_hex(16),
        host=socket.gethostname(),
        pid=pid,
        pgid=os.getpgid(pid),
        process_started=psutil.Process(pid).create_time(),
    )


def owner_is_dead(lease: Lease) -> bool:
    """Whether the lease's process is known to be gone. Only this host's processes can be known."""
    if lease.host != socket.gethostname():
        return False
    try:
        owner = psutil.Process(lease.pid)
        reused = abs(owner.create_time() - lease.process_started) > 1.0
        return reused or bool(owner.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def end_leftovers(lease: Lease) -> None:
    """Ends what a dead job's process group left running on this host."""
    if lease.host == socket.gethostname():
        end_group(lease.pgid, born_after=lease.process_started)
