"""Files that only this user may touch: private directories, locks, atomic writes."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from agent_runner.errors import FixConfiguration

POLL_SECONDS = 0.005
"""How often a lock that others hold is tried again."""


def private_directory(folder: Path) -> None:
    """Makes the directory, or checks that it is ours; either way nobody else may enter it.

    Raises `FixConfiguration` for one that belongs to somebody else, or that is a link.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or status.st_uid != os.geteuid():
        raise FixConfiguration(
            f"{folder} must be a directory that belongs to user {os.geteuid()}.",
            hint="Run as its owner, or use another state directory.",
        )
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def lock(file: Path, seconds: float) -> int | None:
    """An open, locked file (closing it unlocks), or None if others hold it for that long."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(handle)
                return None
            time.sleep(POLL_SECONDS)
        else:
            return handle


def write_private(file: Path, text: str) -> None:
    """Writes the whole file at once, readable by nobody else, and on disk when it returns."""
    draft = file.with_name(f"{file.name}.{os.getpid()}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)
