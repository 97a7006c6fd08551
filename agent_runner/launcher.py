"""Starts the agent's CLI so that it sees only what it should and ends with its worker.

Run as a script by the engine, in the place of the CLI; uses nothing but the standard library.

* The environment holds only the names in `COUNTERSIGN_KEEP`: no Redis address, no chat token.
* The model's key goes over a pipe, so that the agent's own Bash cannot read it with `env`
  (measured: the CLI reads `CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR` and does not pass it on).
* When the worker dies, the kernel sends SIGTERM; the CLI then also ends its running Bash
  (measured; with SIGKILL, or without this, the command would run on as an orphan).
"""

import ctypes
import os
import signal
import sys

KEY, KEY_PIPE, KEY_FD = "ANTHROPIC_API_KEY", "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR", 3
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Becomes the CLI named in `COUNTERSIGN_CLI`, with the arguments given."""
    cli = os.environ["COUNTERSIGN_CLI"]
    keep = set(os.environ["COUNTERSIGN_KEEP"].split(","))
    environment = {name: value for name, value in os.environ.items() if name in keep}
    key = environment.pop(KEY, "")
    if key:
        environment[KEY_PIPE] = str(_pipe_with(key.encode()))
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died between the two lines
            os.kill(os.getpid(), signal.SIGTERM)
    os.execve(cli, [cli, *sys.argv[1:]], environment)  # noqa: S606  (no shell is wanted here)


def _pipe_with(data: bytes) -> int:
    """A descriptor from which `data` can be read once; keys are far below a pipe's 4,096 bytes."""
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    if reading != KEY_FD:
        os.dup2(reading, KEY_FD)
        os.close(reading)
    os.set_inheritable(KEY_FD, True)
    return KEY_FD


if __name__ == "__main__":
    main()
