"""local-slack, somebody else's Slack server, run as a process of its own for end-to-end tests.

It is not strict: it takes any blocks and any token, its `state.values` of a pressed button are always
empty, its triggers last 30 minutes, a view gets a new id with each update, it drops the metadata of
messages, and it hands every envelope to every socket of an app, so that a bot with two sockets gets
everything twice. What it is good for is that its transport, its payloads and its signatures were not
written by the people who wrote ours. It cannot be told to listen on loopback alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import httpx

from tests.fakes.stack import until

PATH_NAME = "LOCAL_SLACK"
"""The environment variable that says where the program is."""
TEAM = "T0HOME"
SECONDS = 20.0
"""Longest wait for one answer; the server itself waits up to 5 s for an acknowledgement."""

Json = dict[str, Any]


def program() -> Path | None:
    """The program, if this machine has it."""
    named = os.environ.get(PATH_NAME, "")
    return Path(named).resolve() if named and os.access(named, os.X_OK) else None


@dataclass(frozen=True)
class App:
    """An app installed in the workspace, with a channel that only its bot is in."""

    appId: str  # noqa: N815  (the names of the server's own configuration, here and below)
    botUserId: str  # noqa: N815
    channel: str
    mode: str = "socket"
    requestUrl: str = ""  # noqa: N815

    @property
    def config(self) -> Json:
        """The app as the server is told about it."""
        secrets = {
            "botToken": self.token("xoxb"),
            "appToken": self.token("xapp"),
            "signingSecret": self.secret,
        }
        told = {name: value for name, value in asdict(self).items() if name != "channel" and value}
        return {**told, "botName": "countersign", **secrets}

    @property
    def secret(self) -> str:
        """What its requests are signed with."""
        return f"secret-of-{self.appId}"

    def token(self, kind: str) -> str:
        """Its bot's (xoxb) or its own (xapp) token."""
        return f"{kind}-{self.appId}"

    @property
    def environment(self) -> dict[str, str]:
        """What a bot has to know."""
        return {
            "SLACK_BOT_TOKEN": self.token("xoxb"),
            "SLACK_APP_TOKEN": self.token("xapp"),
            "SLACK_SIGNING_SECRET": self.secret,
        }


class LocalSlack:
    """The running server with apps and people (id -> name); everybody is in every channel."""

    def __init__(self, program: Path, folder: Path, apps: Sequence[App], people: Mapping[str, str]) -> None:
        self._folder = folder
        self._command = [str(program), "--port", "0", "--base-host", "127.0.0.1"]
        self._command += ["--config", str(folder / "slack.json"), "--files-dir", str(folder / "files")]
        config = {
            "workspace": {"name": "Home", "domain": "home", "teamId": TEAM},
            "apps": [app.config for app in apps],
            "users": [{"id": user, "name": name} for user, name in people.items()],
            "channels": [
                {"id": app.channel, "name": app.channel.lower(), "members": [*people, app.botUserId]}
                for app in apps
            ],
        }
        (folder / "slack.json").write_text(json.dumps(config))
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(timeout=SECONDS, trust_env=False)
        self.url = ""

    # --- life ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Starts it on a free port, which it names on its stdout."""
        said = self._folder / "slack.log"
        with said.open("wb") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out, cwd=self._folder)
        try:
            found = until(
                lambda: re.search(r"Control API:\s+(\S+)/_control", said.read_text()) or self._ended(),
                why="local-slack did not start",
            )
            assert isinstance(found, re.Match), said.read_text()
        except BaseException:
            self.__exit__()
            raise
        self.url = found[1]
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._http.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    @property
    def api_url(self) -> str:
        """What `[slack] api_url` has to be."""
        return f"{self.url}/api/"

    # --- what people do ------------------------------------------------------------------

    def say(self, user: str, channel: str, text: str, *, thread: str = "") -> str:
        """Somebody writes a message; returns its ts once the bot has acknowledged it."""
        said = {"user": user, "channel": channel, "text": text, **({"thread_ts": thread} if thread else {})}
        return str(self._control("message", said)["message"]["ts"])

    def click(self, user: str, message: Json, verb: str) -> None:
        """Somebody presses the button of that verb; returns once the bot has acknowledged it."""
        action = buttons(message)[verb]
        kept = {name: action.get(name) for name in ("type", "action_id", "block_id", "value")}
        about = {"user": user, "channel": message["channel"], "messageTs": message["ts"], "action": kept}
        self._control("interact", about)

    def command(self, user: str, channel: str, text: str, app: App) -> None:
        """Somebody uses the slash command."""
        said = {"user": user, "channel": channel, "command": "/countersign", "text": text}
        self._control("command", {**said, "appId": app.appId})

    def open_home(self, user: str, app: App) -> None:
        """Somebody opens the app's Home tab."""
        self._control("open-home", {"user": user, "appId": app.appId})

    def submit(self, user: str, view: Json, **texts: str) -> dict[str, str]:
        """Somebody submits the open form with these texts, by name of the field; returns its errors."""
        values = {
            block: {slot: {"type": "plain_text_input", "value": texts[block.partition("@")[0]]}}
            for block, slot in inputs(view).items()
            if block.partition("@")[0] in texts
        }
        said = {"t": "view_submit", "user": user, "values": values}
        answer = self._on_page(said, lambda got: got["t"] in ("view", "view_errors"))
        return dict(answer.get("errors") or {})

    # --- what is to be seen --------------------------------------------------------------

    def thread(self, channel: str, ts: str) -> list[Json]:
        """What stands below a message, oldest first, without what one person alone sees."""
        below = [message for message in self._messages(channel) if message.get("thread_ts") == ts]
        return [message for message in below if message.get("subtype") != "ephemeral"]

    def message(self, channel: str, ts: str) -> Json:
        """A message as it stands now."""
        return next(message for message in self._messages(channel) if message["ts"] == ts)

    def whispers(self, channel: str, user: str) -> list[str]:
        """What this person alone was told."""
        return [one["text"] for one in self._messages(channel) if one.get("ephemeral_to") == user]

    def view(self) -> Json | None:
        """The form that is open."""
        stack = self._state()["modalStack"]
        return dict(stack[-1]) if stack else None

    def home(self, user: str, app: App) -> Json | None:
        """The Home tab that was published for this person."""
        found = self._state()["homeViews"].get(user, {}).get(app.appId)
        return dict(found) if found else None

    def log(self, kind: str, summary: str = "") -> list[Json]:
        """Entries of the record of all traffic, of one kind and with these words in their summary."""
        entries = self._get("log")["log"]
        return [entry for entry in entries if entry["kind"] == kind and summary in entry["summary"]]

    # --- parts ---------------------------------------------------------------------------

    def _messages(self, channel: str) -> list[Json]:
        return list(self._get(f"messages/{channel}")["messages"])

    def _get(self, path: str) -> Json:
        return dict(self._http.get(f"{self.url}/_control/{path}").json())

    def _control(self, path: str, body: Json) -> Json:
        answer = self._http.post(f"{self.url}/_control/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def _state(self) -> Json:
        return dict(self._on_page(None, lambda got: got["t"] == "init")["state"])

    def _on_page(self, said: Json | None, wanted: Callable[[Json], bool]) -> Json:
        """Does something on the server's page, the only place that shows forms; returns what was wanted."""

        async def there() -> Json:
            async with aiohttp.ClientSession() as http, http.ws_connect(f"{self.url}/ui") as page:
                if said is not None:
                    await page.send_json(said)
                async for frame in page:
                    got = dict(json.loads(frame.data))
                    if wanted(got):
                        return got
            raise AssertionError("local-slack closed its page")

        return asyncio.run(asyncio.wait_for(there(), SECONDS))


def buttons(message: Json) -> dict[str, Json]:
    """The buttons of a message by what they do, each with the id of its block."""
    return {
        element["action_id"]: {**element, "block_id": block.get("block_id")}
        for block in message.get("blocks") or ()
        if block["type"] == "actions"
        for element in block["elements"]
        if element["type"] == "button"
    }


def inputs(view: Json) -> dict[str, str]:
    """block_id -> action_id of a form's inputs."""
    return {
        block["block_id"]: block["element"]["action_id"]
        for block in view["blocks"]
        if block["type"] == "input"
    }


def text_of(shown: Json) -> str:
    """Everything that can be read on a message or a view."""
    return "\n".join([str(shown.get("text") or ""), *_texts(shown.get("blocks"))])


def pinged(shown: Json) -> set[str]:
    """The people that a message mentions."""
    return set(_named(shown.get("blocks") or []))


def _named(node: Any) -> Iterator[str]:
    for item in node.values() if isinstance(node, dict) else node:
        if isinstance(item, dict | list):
            yield from _named(item)
    kind = node.get("type") if isinstance(node, dict) else ""
    if kind == "user":
        yield str(node["user_id"])
    elif kind == "mrkdwn":
        yield from re.findall(r"<@(\w+)>", node["text"])


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "text" and isinstance(value, str):
                yield value
            elif isinstance(value, dict | list):
                yield from _texts(value)
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item)
