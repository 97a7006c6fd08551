"""The child processes of `up`: each ends with its parent, and is started again when it ends by itself."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from agent_runner.processes import die_with_parent

STOP_SECONDS = 10.0
"""How long running turns get to end after Ctrl-C; what is cut off goes on at the next start."""


class Child(Protocol):
    """A process that is started again when it ends by itself."""

    what: str

    @property
    def ended(self) -> bool:
        """Whether it ended by itself."""

    def start(self) -> object:
        """Starts it (again)."""


class ChildProcess:
    """The program itself as a child that ends with the main thread of its parent."""

    what = "A part"
    stop_seconds = 3.0

    def __init__(self, *arguments: str, environment: Mapping[str, str], log: Path) -> None:
        self._command = [sys.executable, "-m", "bot.cli", *arguments]
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.passed_on: tuple[int, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> Self:
        """Starts it (again)."""
        with self._log.open("ab") as written:
            self._process = subprocess.Popen(  # noqa: S603  (this program itself)
                self._command,
                env=self._environment,
                stdout=written,
                stderr=written,
                pass_fds=self.passed_on,
                preexec_fn=die_with_parent,
                start_new_session=True,  # a Ctrl-C in the terminal is for us, who tell it in order
            )
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Warm first; after `stop_seconds`, or on a second Ctrl-C, cold."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(self.stop_seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3.0)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


class RunnerProcess(ChildProcess):
    """The runner."""

    what = "The runner"
    stop_seconds = STOP_SECONDS


class RehearsalProcess(ChildProcess):
    """The scripted model. Its socket is ours, so its address is known before it answers."""

    what = "The rehearsal"

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        number = self._socket.fileno()
        super().__init__("rehearsal", "--fd", str(number), environment=environment, log=log)
        self.passed_on = (number,)

    @property
    def model_environment(self) -> dict[str, str]:
        """What leads the agent's CLI to it."""
        port = self._socket.getsockname()[1]
        return {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "rehearsal"}

    def __exit__(self, *exception: object) -> None:
        """Ends it and gives its address back."""
        super().__exit__(*exception)
        self._socket.close()
