"""Reads Bash in a process of its own, because the text is hostile and the parser is C.

The grammar's scanner was seen to crash (once in many thousand random texts), and nobody can say
how long it takes for a text that was made to be slow. Either ends the reading process only: the
text then counts as not understood, so a person is asked, and deny rules fall back to its words.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from agent_runner.bash import Command, Script, read_here

SECONDS = 5.0
"""Longest wait for one text; the longest that is read at all takes about 0.3 s."""


class _Reader:
    """The reading process of this process, started when first needed (about 0.1 s)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, text: str) -> Any:
        """The answer of the reading process; None if it crashed, hung or did not start."""
        with self._lock:
            try:
                return self._ask(text)
            except (OSError, ValueError, subprocess.SubprocessError):
                self._end()
                return None

    def _ask(self, text: str) -> Any:
        process = self._alive()
        assert process.stdin is not None  # noqa: S101  (both are pipes, see `_start`)
        assert process.stdout is not None  # noqa: S101
        process.stdin.write(json.dumps(text).encode() + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        line = process.stdout.readline() if ready else b""
        if not line.endswith(b"\n"):
            raise ValueError("the reading process ended or hung")
        return json.loads(line)

    def _alive(self) -> subprocess.Popen[bytes]:
        # A forked child must not share the pipes of its parent's reader.
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process, self._owner = self._start(), os.getpid()
        return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", "from agent_runner.bash_reader import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()


_reader = _Reader()


class _Unread(Exception):
    """The text was not read this time; it may be the next time, so this is not remembered."""


def read(text: str) -> Script:
    """What `text` would run. Never raises; a text that cannot be read is uncertain, and plainly so."""
    try:
        return remembered(text)
    except _Unread:
        return Script(text=text, plain=None, commands=(), uncertain=True)


@lru_cache(maxsize=512)
def remembered(text: str) -> Script:
    """What was read of a text, once for each; a failure is not kept."""
    told = _reader.ask(text)
    if told is None:
        raise _Unread
    plain = None if told["plain"] is None else tuple(map(_command, told["plain"]))
    return Script(
        text=text,
        plain=plain,
        commands=tuple(map(_command, told["commands"])),
        uncertain=told["uncertain"],
    )


def warm() -> None:
    """Starts the reading process before it is needed; for a thread beside slower work."""
    read("true")


def serve() -> None:
    """The reading process: one JSON text per line in, one answer per line out, until the pipe ends."""
    for line in sys.stdin.buffer:
        script = asdict(read_here(json.loads(line)))
        del script["text"]
        sys.stdout.write(json.dumps(script) + "\n")
        sys.stdout.flush()


def _command(told: dict[str, Any]) -> Command:
    return Command(words=tuple(told["words"]), source=told["source"], assignments=told["assignments"])
