"""The job in a terminal: what the thread shows, as numbered lists; what is typed, as replies.

A thin client of the web API: the bot renders and decides, this prints and reads.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from typing import Any
from urllib.parse import quote

import click
import httpx

from agent_runner.errors import CountersignError, FixConfiguration, TryLater
from bot.address import Address
from cards import visible

LOOK_EVERY = 0.4
"""Seconds between two looks at the thread."""

DONE, FAILED, STOPPED = 0, 1, 3
EXITS = {"done": DONE, "failed": FAILED, "stuck": FAILED, "stopped": STOPPED}
"""Exit codes of `ask` by the task's final state; 2 is a mistake in the command itself."""


class Terminal:
    """One person's terminal."""

    def __init__(self, address: Address) -> None:
        self._http = httpx.Client(
            base_url=address.url,
            headers={"Authorization": f"Bearer {address.token}"},
            timeout=10.0,
            trust_env=False,
        )
        self._shown: dict[str, str] = {}

    def ask(self, text: str, *, workspace: str, plan: bool) -> int:
        """Asks for a job and follows it to its end; returns the exit code."""
        wanted = {"text": text, "workspace": workspace, "plan": plan}
        task_id = self._call("POST", "/api/tasks", {k: v for k, v in wanted.items() if v})["id"]
        typed = _Typed()
        try:
            return self._follow(task_id, typed)
        except KeyboardInterrupt:
            click.echo(f"\nLeft. The job goes on: {self._http.base_url}/t/{task_id}", err=True)
            return DONE

    def decide(self, request: str, answer: str) -> int:
        """Answers a request by number or id with the words one would type in the thread."""
        inquiry = self._find(request.lstrip("#"))
        reply = self._call(
            "POST",
            f"/api/tasks/{inquiry['task_id']}/messages",
            {"text": f"#{inquiry['number']} {answer}"},
        )
        click.echo(reply["text"])
        return DONE

    def grants(self) -> int:
        """Prints the approvals that outlive one call, one a line."""
        found = self._call("GET", "/api/grants", None)["items"]
        for grant in found:
            where = f"in {grant['workspace']}" if grant["workspace"] else f"in task {grant['task_id']}"
            what = visible.inline(grant["rule"]) or f"exactly the call of request #{grant['number']}"
            used = f", {grant['used']} of {grant['times']} used" if grant["times"] else ""
            until = f"{used}, until {grant['until']}" if grant["until"] else used
            click.echo(f"{grant['id']}  {what}  {where}{until}, by {visible.inline(grant['by']['name'])}")
        if not found:
            click.echo("No approval outlives its call.", err=True)
        return DONE

    def revoke(self, grant: str) -> int:
        """Takes one back, by its id or the number of its request."""
        wanted = grant if grant.startswith("g") else f"g{grant.lstrip('#')}"
        revoked = self._call("POST", f"/api/grants/{quote(wanted, safe='')}/revoke", None)
        click.echo(f"{revoked['id']} is revoked.")
        return DONE

    def _find(self, request: str) -> dict[str, Any]:
        after = ""
        while True:
            page = self._call("GET", f"/api/inquiries?state=pending&limit=200&after={after}", None)
            for inquiry in page["items"]:
                if request in (str(inquiry["number"]), inquiry["id"]):
                    return dict(inquiry)
            if page["next"] is None:
                raise FixConfiguration(f"No open request #{request}.", hint="The inbox lists what is open.")
            after = page["next"]

    def _follow(self, task_id: str, typed: _Typed) -> int:
        while True:
            try:
                state = self._show(task_id)
            except TryLater as error:
                self._print("status", error.message)
                state = ""
            if state in EXITS:
                return EXITS[state]
            line = typed.line(LOOK_EVERY, wanted=state == "waiting")
            if line.strip():
                self._reply(task_id, line)

    def _show(self, task_id: str) -> str:
        """Prints what is new in the thread; returns the task's state."""
        thread = self._call("GET", f"/api/tasks/{task_id}/posts", None)
        for post in thread["items"]:
            self._print(post["key"], post["text"])
        return str(thread["state"])

    def _print(self, key: str, text: str) -> None:
        if self._shown.get(key) == text:
            return
        self._shown[key] = text
        click.echo(text if key == "status" else f"\n{text}\n")

    def _reply(self, task_id: str, line: str) -> None:
        try:
            reply = self._call("POST", f"/api/tasks/{task_id}/messages", {"text": line})
            click.echo(reply["text"])
        except CountersignError as error:
            click.echo(f"{error.message} {error.hint}".strip())

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        try:
            answer = self._http.request(method, path, json=body)
            content = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise TryLater(
                f"The bot at {self._http.base_url} did not answer ({type(error).__name__}).",
                hint="Is `countersign up` running?",
            ) from error
        if answer.is_error:
            said = content.get("error", {})
            raise CountersignError(said.get("message", str(answer)), hint=said.get("hint", ""))
        return content


class _Typed:
    """Lines from standard input, read beside the loop, which must go on looking at the thread."""

    def __init__(self) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._lines.put(line)

    def line(self, seconds: float, *, wanted: bool) -> str:
        """The next line, or '' when none was typed in that time.

        A person may say something at any time; lines from a file are answers, and wait for a
        request to answer.
        """
        if not wanted and not sys.stdin.isatty():
            time.sleep(seconds)
            return ""
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            return ""
