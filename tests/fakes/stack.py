"""`countersign up` as a newcomer runs it: real processes, and a client of its API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

COUNTERSIGN = (sys.executable, "-m", "bot.cli")
NOT_PASSED_ON = ("ANTHROPIC_", "CLAUDE", "REDIS_", "SLACK_", "FEISHU_")
"""Beginnings of names that would connect a tested process to something real."""
PATIENCE = 60.0
"""Longest wait for something that takes a second or two on an idle machine."""


def until(what: Callable[[], Any], *, why: str = "it did not come true") -> Any:
    """Waits until `what()` is true, and returns it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.03)
    raise AssertionError(why)


def clean_environment(**more: str) -> dict[str, str]:
    """The test's environment without anything that would change what is tested."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(NOT_PASSED_ON)}
    return {**kept, **more}


class Stack:
    """One running `countersign up` and its state directory; may be killed and started again."""

    def __init__(
        self,
        folder: Path,
        *,
        model_url: str = "",
        flags: tuple[str, ...] = (),
        config: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.workspace = folder / "ops"
        self.workspace.mkdir(exist_ok=True)
        self.environment = clean_environment(HOME=str(folder), PYTHONFAULTHANDLER="1", **(environment or {}))
        if model_url:
            self.environment |= {"ANTHROPIC_BASE_URL": model_url, "ANTHROPIC_API_KEY": "sk-ant-not-a-key"}
        if config:
            (folder / "countersign.toml").write_text(config)
            flags = (*flags, "--config", str(folder / "countersign.toml"))
        self.flags = flags
        self.process: subprocess.Popen[str] | None = None
        self.ready: Mapping[str, str] = {}

    def start(self) -> Stack:
        """Starts it and waits for its one line on stdout."""
        self.process = subprocess.Popen(
            [*COUNTERSIGN, "up", "--json", "--port", "0", "--state-dir", str(self.state_dir),
             "--workspace", str(self.workspace), *self.flags],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "up.log").open("a"),
            env=self.environment,
            text=True,
            start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "up.log").read_text()
        self.ready = json.loads(line)
        return self

    def stop(self, number: int = signal.SIGINT) -> None:
        """Ctrl-C, and waits for the end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGABRT)  # its threads' stacks go to the log
                self.process.wait()
                raise AssertionError(
                    f"`up` did not end:\n{(self.folder / 'up.log').read_text()[-20_000:]}"
                ) from None

    def kill_everything(self) -> None:
        """Kill -9 of the whole process group: no goodbye."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Stack:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def http(self, token: str | None = None) -> httpx.Client:
        """A client with a token: the local person's unless another is given."""
        bearer = {"Authorization": f"Bearer {token or self.ready['token']}"}
        # verify: its certificates, which nothing here needs, cost 25 ms of work with every look at a task.
        return httpx.Client(
            base_url=self.ready["url"], headers=bearer, timeout=20.0, trust_env=False, verify=False
        )

    def run(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Another command (`ask`, `grants list`) on the same state directory."""
        return subprocess.run(
            [*COUNTERSIGN, *words[0].split(), "--state-dir", str(self.state_dir), *words[1:]],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=PATIENCE,
            check=False,
        )

    # --- the API, in the words of the tests ----------------------------------------------

    def ask(self, text: str, **more: Any) -> str:
        """Asks for a job; returns the task's id."""
        with self.http() as http:
            answer = http.post("/api/tasks", json={"text": text, **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def task(self, task_id: str) -> dict[str, Any]:
        """The task as the API shows it."""
        with self.http() as http:
            return dict(http.get(f"/api/tasks/{task_id}").json())

    def until_state(self, task_id: str, *states: str) -> dict[str, Any]:
        """Waits for one of these states."""
        last: dict[str, Any] = {}

        def there() -> bool:
            last.update(self.task(task_id))
            return last["state"] in states

        until(there, why=f"never {states}")
        return last

    def pending(self, task_id: str) -> dict[str, Any]:
        """Waits for the task's open request."""
        task = self.until_state(task_id, "waiting")
        return dict(next(i for i in task["inquiries"] if i["state"] == "pending"))

    def decide(self, inquiry: Mapping[str, Any], verdict: str, **words: Any) -> httpx.Response:
        """Decides through the API."""
        with self.http() as http:
            return http.post(f"/api/inquiries/{inquiry['id']}/decision", json={"verdict": verdict, **words})

    def lines(self) -> list[str]:
        """What calls wrote into the workspace so far."""
        file = self.workspace / "out.txt"
        return file.read_text().split() if file.exists() else []
