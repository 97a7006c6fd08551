"""`countersign policy`: a file checked, and tried on what real tasks left in a real store."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from redis import Redis

from agent_runner.aggregate import Changes
from agent_runner.config import Config
from agent_runner.messages_api import MessagesServer
from agent_runner.messages_request import Request, Text, ToolUse
from agent_runner.model import Inquiry, Verdict
from agent_runner.policy import Policy
from agent_runner.store import Store, connect
from bot.cli import main
from bot.commands import Chose
from bot.embedded import EmbeddedRedis
from tests.fakes.desk import MEI, Desk
from tests.fakes.scripts import bash
from tests.fakes.stack import clean_environment, until
from tests.fakes.values import a_task, an_inquiry

PRESENT = """
    [policy]
    allow = ["Bash(ls)", "Bash(pwd)"]
    deny = ["Bash(sudo *)"]
"""
NEW = """
    [people.lin]
    web = "lin"
    [policy]
    allow = ["Bash(touch *)"]
    ask = ["Bash(ls)"]
    deny = ["Bash(pwd)"]
    [[policy.route]]
    match = ["Bash(ls)"]
    approvers = ["lin"]
"""


def model(request: Request) -> list[Any]:
    """A job with every kind of call: by rule, forbidden, asked about, never made again, in a subagent."""
    if request.auxiliary:
        return [Text("ok")]
    at = sum(message["role"] == "assistant" for message in request.messages)
    job = {"description": "aside", "prompt": "the job aside", "subagent_type": "general-purpose"}
    steps: list[list[Any]] = [
        [bash("ls", request.fresh_id()), bash("sudo id", request.fresh_id(1))],
        [bash("touch a", request.fresh_id())],
        [ToolUse(request.fresh_id(), "Agent", job)],
        [bash("touch b", request.fresh_id()), bash("touch c", request.fresh_id(1))],
    ]
    if "the job aside" in request.last_user_text:
        steps = [[bash("pwd", request.fresh_id())], [bash("date", request.fresh_id())]]
    return steps[at] if at < len(steps) else [Text("The end.")]


@pytest.fixture
def desk(redis_url: str, tmp_path: Path) -> Iterator[Desk]:
    """One task that is done: a call was rejected, one edited, others ran or were denied by rule."""
    config = Config(policy=Policy(allow=("Bash(ls)", "Bash(pwd)"), deny=("Bash(sudo *)",)))
    with MessagesServer(model) as server:
        desk = Desk(redis_url, server, tmp_path, config=config)
        first = desk.asked("go")
        with ThreadPoolExecutor(1) as aside:  # while the subagent waits
            done = aside.submit(refuse, desk, first.task_id, "date")
            desk.choose(first, "reject", reason="not here")
            done.result()
        edited, other = (i for i in desk.snap(first.task_id).inquiries if i.open)
        desk.choose(edited, "change", input={"command": "touch edited"})
        desk.choose(other, "approve")
        yield desk


def refuse(desk: Desk, task_id: str, command: str) -> None:
    """Waits for the request about this command, and rejects it."""

    def asked() -> Inquiry | None:
        opened = (i for i in desk.snap(task_id).inquiries if i.open)
        return next((i for i in opened if i.tool_input["command"] == command), None)

    chose = Chose(actor=MEI, inquiry_id=until(asked).id, verdict=Verdict.REJECT, reason="no")
    desk.handler.choose(chose)


def file(folder: Path, name: str, text: str) -> Path:
    """A configuration file."""
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def run(*words: str | Path, redis_url: str = "") -> Result:
    """The command, with nothing of this environment but the address of the store."""
    given: dict[str, str | None] = {**clean_environment(), "REDIS_URL": redis_url or None}
    return CliRunner().invoke(main, ["policy", *map(str, words)], env=given)


@pytest.mark.engine
def test_a_policy_is_tried_on_a_real_task(desk: Desk, redis_url: str, tmp_path: Path) -> None:
    """Each call of the transcripts counts once, a subagent's too; what a person rejected stands first."""
    new, present = file(tmp_path, "new.toml", NEW), file(tmp_path, "countersign.toml", PRESENT)
    flags = ("try", new, "--config", present)
    before = stored(redis_url)
    done = run(*flags, redis_url=redis_url)
    assert done.exit_code == 0, done.output
    assert timeless(done.stdout.replace(f"{tmp_path}/", "")) == textwrap.dedent("""\
        new.toml, compared with countersign.toml.
        8 calls of 1 task since DATE TIME UTC: 2 unchanged; 3 would now run without asking; 2 would now be asked; 1 would be denied.
        WARNING: of those that would run by themselves, 1 had been rejected by people and 1 had passed only with changes.

        CALLS  TOOL  BEFORE -> AFTER
            3  Bash  ask: nothing matched -> run: Bash(touch *)
                     !! people did not let 2 of these run as they stood
                     task #1  DATE TIME  rejected by mei (request #1): touch a
                     task #1  DATE TIME  passed only with changes by mei (request #3): touch b
                     task #1  DATE TIME  approved and never made again by mei (request #4): touch c
            1  Bash  deny: Bash(sudo *) -> ask: nothing matched (1 of requester)
                     task #1  DATE TIME  was denied: sudo id
            1  Bash  run: Bash(pwd) -> deny: Bash(pwd)
                     task #1  DATE TIME  ran by itself, in a subagent: pwd
            1  Bash  run: Bash(ls) -> ask: Bash(ls) (1 of lin)
                     task #1  DATE TIME  ran by itself: ls
        """)  # noqa: E501
    everything = timeless(run(*flags, "--all", redis_url=redis_url).stdout).split()
    differing = timeless(done.stdout).split()
    assert everything[: len(differing)] == differing
    unchanged = " ".join(everything[len(differing) :])
    assert "1 Bash ask: nothing matched -> ask: nothing matched task #1" in unchanged
    assert stored(redis_url) == before
    strict = run(*flags, "--strict", redis_url=redis_url)
    assert (strict.exit_code, "1 had been rejected" in strict.stdout) == (1, True)


@pytest.mark.engine
def test_each_call_is_a_line_for_programs(desk: Desk, redis_url: str, tmp_path: Path) -> None:
    """`--json`: one object per call with both opinions, whole and in ASCII, and the sum as the last line."""
    new, present = file(tmp_path, "new.toml", NEW), file(tmp_path, "countersign.toml", PRESENT)
    done = run("try", new, "--config", present, "--json", "--since", "1h", redis_url=redis_url)
    *calls, last = map(json.loads, done.stdout.splitlines())
    assert [(c["tool_input"].get("command"), c["then"], c["change"]) for c in calls] == [
        ("ls", "ran", "asks"),
        ("sudo id", "denied", "asks"),
        ("touch a", "rejected", "runs"),
        (None, "ran", "unchanged"),
        ("touch b", "changed", "runs"),
        ("touch c", "approved_not_run", "runs"),
        ("pwd", "ran", "denies"),
        ("date", "rejected", "unchanged"),
    ]
    assert [bool(c["agent_id"]) for c in calls] == [False] * 6 + [True] * 2
    assert (calls[0]["before"], calls[0]["after"]) == (
        {"effect": "allow", "rule": "Bash(ls)", "section": "allow"},
        {
            "effect": "ask",
            "rule": "Bash(ls)",
            "section": "ask",
            "approvers": ["lin"],
            "quorum": 1,
            "requester_may_decide": True,
        },
    )
    counted = {"calls": 8, "tasks": 1, "unchanged": 2, "runs": 3, "asks": 2, "denies": 1, "others": 0}
    warned = {"rejected_would_run": 1, "changed_would_run": 1, "hook_errors": 0, "gaps": [], "more_gaps": 0}
    named = {"new": str(new), "present": str(present)}
    assert {k: v for k, v in last["summary"].items() if k not in ("since", "until")} == {
        **named,
        **counted,
        **warned,
    }


@pytest.mark.engine
def test_the_present_policy_as_a_file_changes_nothing(desk: Desk, redis_url: str, tmp_path: Path) -> None:
    """The same rules on both sides: all calls unchanged, no table; `--until` before them leaves none."""
    same = file(tmp_path, "countersign.toml", PRESENT)
    done = run("try", same, "--config", same, "--strict", redis_url=redis_url)
    assert (done.exit_code, done.stdout.splitlines()[1].split("UTC: ")[1]) == (0, "8 unchanged.")
    assert len(done.stdout.splitlines()) == 2
    early = run("try", same, "--config", same, "--until", "1h", redis_url=redis_url)
    assert "\n0 calls of 0 tasks since" in early.stdout


HOOK = """
import sys
def needs_approval(call):
    print("noise of somebody else's function")
    if call.tool_input.get("command") == "ls":
        raise ValueError("cannot say")
    return False if call.tool_name == "Bash" else None
"""


@pytest.mark.engine
def test_the_new_files_function_is_consulted(desk: Desk, redis_url: str, tmp_path: Path) -> None:
    """`needs_approval` of the new file decides as it would; where it fails people are asked, aloud."""
    new = file(tmp_path, "new.toml", '[policy]\nallow = []\nneeds_approval = "rules:needs_approval"\n')
    file(tmp_path, "rules.py", HOOK)
    present = file(tmp_path, "countersign.toml", PRESENT)
    done = run("try", new, "--config", present, redis_url=redis_url)
    assert (done.exit_code, "noise" in done.stdout) == (0, False)
    assert "WARNING: the needs_approval function of" in done.stdout
    assert "failed for 1 call: people are asked about those." in done.stdout
    assert (
        "run: Bash(ls) -> ask: needs_approval rules:needs_approval (1 of requester) "
        "[failed: ValueError: cannot say]" in done.stdout
    )
    assert "ask: nothing matched -> run: needs_approval rules:needs_approval" in done.stdout
    lines = run("try", new, "--config", present, "--json", redis_url=redis_url).stdout.splitlines()
    assert json.loads(lines[0])["after"]["hook_error"] == "ValueError: cannot say"


def test_two_files_may_have_modules_of_the_same_name(redis_url: str, tmp_path: Path) -> None:
    """Each file's function gets the module beside its own file, not the other one's."""
    for name, answer in (("present", True), ("new", False)):
        (tmp_path / name).mkdir()
        file(tmp_path / name, "c.toml", '[policy]\nneeds_approval = "rules:needs_approval"\n')
        file(
            tmp_path / name,
            "rules.py",
            "from helper_of_rules import ANSWER\ndef needs_approval(c): return ANSWER",
        )
        file(tmp_path / name, "helper_of_rules.py", f"ANSWER = {answer}")
    a_past_call(redis_url)
    done = run("try", tmp_path / "new/c.toml", "--config", tmp_path / "present/c.toml", redis_url=redis_url)
    assert "1 would now run without asking" in done.stdout, done.output


def test_nothing_was_run_yet(redis_url: str, tmp_path: Path) -> None:
    """An empty store is no mistake: no calls of no tasks."""
    done = run("try", file(tmp_path, "new.toml", NEW), "--since", "2026-01-31", redis_url=redis_url)
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (
        0,
        ["0 calls of 0 tasks since 2026-01-31 00:00 UTC."],
    )


BAD = """
    [policy]
    allow = ["Bash(ls"]
    dney = []
"""


@pytest.mark.parametrize("command", ["check", "try"])
def test_a_bad_file_is_told_with_its_lines(tmp_path: Path, redis_url: str, command: str) -> None:
    """Every mistake with line and key, exit code 2, and nothing else."""
    done = run(command, file(tmp_path, "bad.toml", BAD), redis_url=redis_url)
    assert (done.exit_code, done.stdout) == (2, "")
    assert ("bad.toml:3: policy.allow[0]: " in done.stderr, "bad.toml:4: policy.dney: " in done.stderr) == (
        True,
        True,
    )


@pytest.mark.parametrize("command", ["check", "try"])
def test_a_function_that_is_missing_is_a_mistake_of_the_file(
    tmp_path: Path, redis_url: str, command: str
) -> None:
    """A `needs_approval` that cannot be imported is refused as at start."""
    new = file(tmp_path, "new.toml", '[policy]\nneeds_approval = "no_such_module_here:f"\n')
    done = run(command, new, redis_url=redis_url)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "new.toml:2: policy.needs_approval: importing no_such_module_here failed" in done.stderr


def test_a_good_file_is_in_order(tmp_path: Path) -> None:
    """`check` counts the rules; what is probably not meant is told beside."""
    done = run("check", file(tmp_path, "new.toml", NEW))
    assert (done.exit_code, done.stderr) == (0, "")
    assert " is in order: rules 1 deny, 1 ask, 1 allow; 1 routes (policy " in done.stdout
    odd = run("check", file(tmp_path, "odd.toml", '[policy]\nask = ["Bash"]\nallow = ["Bash(ls)"]\n'))
    assert (odd.exit_code, 'odd.toml: warning: policy.allow: "Bash(ls)" has no effect' in odd.stderr) == (
        0,
        True,
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--since", "soon"], "--since cannot be 'soon'."),
        (["--since", "0d"], "--since cannot be '0d'."),
        (["--until", "400d"], "--until cannot be '400d'."),
        (["--since", "9999-12-31"], "--since lies in the future."),
        (["--since", "1d", "--until", "2d"], "--until is not later than --since."),
    ],
)
def test_a_time_that_cannot_be_is_refused(
    tmp_path: Path, redis_url: str, flags: list[str], said: str
) -> None:
    """What is wrong with a time, and what is allowed."""
    done = run("try", file(tmp_path, "new.toml", NEW), *flags, redis_url=redis_url)
    assert (done.exit_code, done.stdout, said in done.stderr) == (2, "", True)
    assert "Write how long ago (30m, 12h, 7d; at most 366d), a date" in done.stderr


def test_a_workspace_that_nobody_knows_is_refused(tmp_path: Path, redis_url: str) -> None:
    """A mistyped name is told, with the names that there are; a known one filters."""
    a_past_call(redis_url)
    new = file(tmp_path, "new.toml", NEW)
    wrong = run("try", new, "--workspace", "opps", redis_url=redis_url)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "There is no workspace 'opps', and no task of one." in wrong.stderr
    assert "ops" in wrong.stderr.split("Known are")[1]
    right = run("try", new, "--workspace", "ops", redis_url=redis_url)
    assert "1 call of 1 task since" in right.stdout


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("unix:///nowhere/redis.sock", "The store did not answer, so not every call was judged."),
        ("nonsense", "REDIS_URL cannot be read"),
        ("", "There is no store in"),
    ],
)
def test_without_a_store_it_says_so(tmp_path: Path, url: str, said: str) -> None:
    """A store that is away, an address that is none, a state directory without one: exit code 2."""
    flags = ("--state-dir", tmp_path / "state")
    done = run("try", file(tmp_path, "new.toml", NEW), *flags, redis_url=url)
    assert (done.exit_code, done.stdout, said in done.stderr) == (2, "", True), done.stderr
    assert not (tmp_path / "state" / "redis").exists()


def test_it_works_on_the_private_store_of_a_state_directory(tmp_path: Path) -> None:
    """Without REDIS_URL the state directory's own store is started for the moment, and ended."""
    state = tmp_path / "state"
    with EmbeddedRedis(state / "redis", path=os.environ.get("PATH", os.defpath)) as server:
        a_past_call(server.url)
    done = run("try", file(tmp_path, "new.toml", NEW), "--state-dir", state)
    assert (done.exit_code, "1 call of 1 task since" in done.stdout) == (0, True), done.output


def a_past_call(redis_url: str) -> None:
    """One task in the workspace `ops` with one request that waits, stored as the runner does."""
    now = datetime.now(UTC)
    with connect(redis_url, patient=True) as client:
        store = Store(client, enqueue=lambda *_: None)
        store.create(a_task(created_at=now, updated_at=now), messages=(), notes=())
        waits = an_inquiry(asked_at=now, expires_at=now + timedelta(hours=1))
        store.transact("t_1", lambda _: Changes(inquiries=(waits,)))


def stored(redis_url: str) -> dict[bytes, Any]:
    """Everything in the store."""
    with Redis.from_url(redis_url) as client:
        return {key: client.dump(key) for key in sorted(client.keys())}


def timeless(text: str) -> str:
    """A text without the moments in it."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE TIME", text)
