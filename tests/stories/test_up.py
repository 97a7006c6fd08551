"""The main job end to end: `countersign up`, the API, real workers and the real CLI."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from click.testing import CliRunner

from agent_runner.messages_api import MessagesServer
from agent_runner.messages_request import Request, Text, ToolUse
from bot.cli import main
from tests.fakes.scripts import WRITE
from tests.fakes.stack import Stack, until

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("up")]

QUESTIONS = [
    {
        "question": "Which DB?",
        "header": "DB",
        "multiSelect": False,
        "options": [{"label": "Postgres", "description": ""}, {"label": "MySQL", "description": ""}],
    },
    {
        "question": "Which envs?",
        "header": "Env",
        "multiSelect": True,
        "options": [{"label": "dev", "description": ""}, {"label": "prod", "description": ""}],
    },
]


def model(request: Request) -> list[Any]:
    """One scripted model for all stories: the job's words say what it does."""
    job = request.last_user_text
    if request.auxiliary:
        return [Text("ok")]
    if request.tool_uses_since_prompt:
        return [Text(f"The end. {request.last_results[-1].text}")]
    if "ask" in job:
        return [ToolUse(request.fresh_id(), "AskUserQuestion", {"questions": QUESTIONS})]
    if "slow" in job:
        command = "echo begun >> begun.txt; sleep 600; echo done >> out.txt"
        return [ToolUse(request.fresh_id(), "Bash", {"command": command, "timeout": 600_000})]
    return [Text("I will write a line."), ToolUse(request.fresh_id(), "Bash", WRITE)]


@pytest.fixture(scope="module")
def scripted() -> Iterator[MessagesServer]:
    """The model behind every stack of this module."""
    with MessagesServer(model) as server:
        yield server


@pytest.fixture(scope="module")
def shared(scripted: MessagesServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack for all stories, for it takes seconds to start; those that hurt it end with it well."""
    with Stack(tmp_path_factory.mktemp("up"), model_url=scripted.url) as running:
        yield running


@pytest.fixture
def stack(shared: Stack) -> Stack:
    """The shared stack with an empty workspace; started anew if a failed story left it in pieces."""
    if _sleepers(shared) or not _healthy(shared):
        shared.stop(signal.SIGKILL)
        shared.start()
    for file in shared.workspace.iterdir():
        file.unlink()
    return shared


def test_an_approved_job_runs_once_and_its_accounts_are_right(stack: Stack, scripted: MessagesServer) -> None:
    """Ask, approve: the effect is there exactly once, the result and the usage are right."""
    before = len(scripted.calls)
    task_id = stack.ask("write it")
    inquiry = stack.pending(task_id)
    assert (inquiry["tool_input"], inquiry["execution"], stack.lines()) == (WRITE, "none", [])
    waited = time.monotonic()
    answer = stack.decide(inquiry, "approve", digest=inquiry["digest"])
    assert (answer.status_code, answer.json()["state"]) == (200, "approved")
    task = stack.until_state(task_id, "done")
    assert stack.lines() == ["done"]
    assert task["result"].startswith("The end.")
    assert [(m["role"], m["text"]) for m in task["messages"]] == [
        ("user", "write it"),
        ("agent", task["result"]),
    ]
    usage = task["usage"]
    assert (usage["model_calls"], usage["turns"]) == (len(scripted.calls) - before, 2)
    assert usage["cost_usd"] > 0
    assert 0 < usage["waiting_ms"] < (time.monotonic() - waited + 10) * 1000
    assert task["inquiries"][0]["execution"] == "finished"
    again = stack.decide(inquiry, "reject", reason="too late")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_decided")
    assert stack.lines() == ["done"]


def test_a_rejected_job_leaves_nothing_and_the_reason_arrives(stack: Stack, scripted: MessagesServer) -> None:
    """Reject: the file is not there, the model got the reason word for word."""
    task_id = stack.ask("write it")
    reason = "use the “canary” first\n先备份"
    assert stack.decide(stack.pending(task_id), "reject", reason=reason).status_code == 200
    stack.until_state(task_id, "done")
    assert stack.lines() == []
    assert reason in scripted.calls[-1].text


def test_a_changed_job_runs_as_edited(stack: Stack, scripted: MessagesServer) -> None:
    """Change: the edited command ran, and the model was told."""
    task_id = stack.ask("write it")
    edited = {"command": "echo edited >> out.txt"}
    assert stack.decide(stack.pending(task_id), "change", input=edited).status_code == 200
    stack.until_state(task_id, "done")
    assert stack.lines() == ["edited"]
    assert "echo edited >> out.txt" in scripted.calls[-1].text


def test_answers_to_questions_arrive(stack: Stack, scripted: MessagesServer) -> None:
    """AskUserQuestion: one and several choices reach the model."""
    task_id = stack.ask("ask me")
    answers = {"Which DB?": "Postgres", "Which envs?": ["dev", "prod"]}
    assert stack.decide(stack.pending(task_id), "answer", answers=answers).status_code == 200
    stack.until_state(task_id, "done")
    read = scripted.calls[-1].last_results[-1].text
    assert ('"Which DB?"="Postgres"' in read, '"Which envs?"="dev, prod"' in read) == (True, True)


def test_a_second_person_may_not_decide(stack: Stack) -> None:
    """B01: another signed-in person gets 403, and it is on record."""
    task_id = stack.ask("write it")
    inquiry = stack.pending(task_id)
    token = stack.run("token", "kai", "--name", "Kai").stdout.strip()
    with stack.http(token) as http:
        answer = http.post(f"/api/inquiries/{inquiry['id']}/decision", json={"verdict": "approve"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_allowed")
        record = http.get("/api/audit", params={"task": task_id}).json()["items"]
    assert record[-1]["event"] == "refused_attempt"
    assert stack.decide(inquiry, "reject", reason="no").status_code == 200
    stack.until_state(task_id, "done")


def test_the_terminal_asks_and_answers_by_numbers(stack: Stack) -> None:
    """`countersign ask` shows the request as a numbered list, takes `1`, and ends with the result."""
    done = stack.run("ask", "write it", stdin="1\n")
    assert done.returncode == 0, done.stderr
    assert "echo done >> out.txt" in done.stdout
    assert "1 approve" in done.stdout
    assert "The end." in done.stdout
    assert stack.lines() == ["done"]


def test_decide_answers_by_number(stack: Stack) -> None:
    """`countersign decide NUMBER 3 why` rejects; an unknown number is said to be none."""
    task_id = stack.ask("write it")
    number = str(stack.pending(task_id)["number"])
    said = stack.run("decide", number, "3", "not", "today")
    assert (said.returncode, number in said.stdout) == (0, True)
    stack.until_state(task_id, "done")
    assert stack.lines() == []
    unknown = stack.run("decide", "999", "1")
    assert (unknown.returncode, "No open request #999" in unknown.stderr) == (2, True)


def test_grants_lists_and_revokes(stack: Stack) -> None:
    """`countersign grants`: what outlives its call, by id; from the next call on it is asked again."""
    task_id = stack.ask("write it")
    number = stack.pending(task_id)["number"]
    assert stack.run("decide", str(number), "4").returncode == 0
    stack.until_state(task_id, "done")
    listed = stack.run("grants list")
    assert f"g{number}  exactly the call of request #{number}  in task {task_id}" in listed.stdout
    revoked = stack.run("grants revoke", str(number))
    assert (revoked.returncode, revoked.stdout) == (0, f"g{number} is revoked.\n")
    again = stack.run("grants revoke", f"g{number}")
    assert (again.returncode, f"There is no grant g{number} that holds." in again.stderr) == (2, True)


def test_doctor_finds_nothing_wrong(stack: Stack) -> None:
    """`doctor` on a running installation: no failure."""
    said = stack.run("doctor", "--workspace", str(stack.workspace))
    assert (said.returncode, "FAIL" in said.stdout) == (0, False), said.stdout


def test_a_second_up_says_where_the_first_is(stack: Stack) -> None:
    """One `up` per state directory; the message names the address."""
    second = stack.run("up", "--port", "0")
    assert second.returncode == 2
    assert stack.ready["url"].rsplit(":", 1)[1] in second.stderr


def test_everything_killed_while_a_request_is_open_resumes_after_a_restart(stack: Stack) -> None:
    """Kill -9 of the whole group, start again, decide: the call runs once."""
    task_id = stack.ask("write it")
    inquiry = stack.pending(task_id)
    stack.kill_everything()
    stack.start()
    assert stack.pending(task_id)["id"] == inquiry["id"]
    assert stack.decide(inquiry, "approve").status_code == 200
    assert stack.until_state(task_id, "done", "failed")["state"] == "done"
    assert stack.lines() == ["done"]


def test_case_e01_a_worker_killed_under_a_call_never_runs_it_again(stack: Stack) -> None:
    """The worker dies while the approved call runs: it ends with it, and a person is told."""
    task_id = stack.ask("slow")
    stack.decide(stack.pending(task_id), "approve")
    until(lambda: (stack.workspace / "begun.txt").exists(), why="the call never began")
    sleeping = until(lambda: _sleepers(stack), why="no call is running")
    _horse_of(sleeping[0]).kill()
    task = stack.until_state(task_id, "stuck")
    assert task["failure"]["code"] == "outcome_unknown"
    assert task["inquiries"][0]["execution"] == "unknown"
    until(lambda: not _sleepers(stack), why="the call outlived its worker")
    with stack.http() as http:
        assert http.post(f"/api/tasks/{task_id}/retry").status_code == 202
    stack.until_state(task_id, "done")
    assert (stack.workspace / "begun.txt").read_text().split() == ["begun"]


def test_case_e03_a_killed_worker_parent_leaves_no_second_run(stack: Stack) -> None:
    """The whole worker dies in mid-call: nothing of it lives on beside the next attempt."""
    task_id = stack.ask("slow")
    stack.decide(stack.pending(task_id), "approve")
    sleeping = until(lambda: _sleepers(stack), why="no call is running")
    parent = _horse_of(sleeping[0]).parent()
    assert parent is not None
    parent.kill()
    until(lambda: not _sleepers(stack), why="the call outlived its worker")
    assert stack.until_state(task_id, "stuck")["inquiries"][0]["execution"] == "unknown"
    later = stack.ask("write it")
    stack.decide(stack.pending(later), "approve")
    stack.until_state(later, "done")
    assert stack.lines() == ["done"]


def test_a_store_or_runner_that_ends_by_itself_is_started_again(stack: Stack) -> None:
    """Redis and the runner are killed: both come back, and the open request is decided as if nothing was."""
    task_id = stack.ask("write it")
    inquiry = stack.pending(task_id)
    assert stack.process is not None
    for child in psutil.Process(stack.process.pid).children():
        child.kill()
    until(lambda: _healthy(stack), why="it did not recover")
    assert stack.decide(inquiry, "approve").status_code == 200
    assert stack.until_state(task_id, "done")["inquiries"][0]["execution"] == "finished"
    assert stack.lines() == ["done"]


def _healthy(stack: Stack) -> bool:
    with stack.http() as http, contextlib.suppress(httpx.HTTPError):
        told = http.get("/healthz").json()
        return bool(told["ok"] and told["runners"])
    return False


def test_stop_ends_a_running_call(stack: Stack) -> None:
    """Stop while a command runs: it ends within seconds, and the task says stopped."""
    task_id = stack.ask("slow")
    stack.decide(stack.pending(task_id), "approve")
    until(lambda: _sleepers(stack), why="no call is running")
    with stack.http() as http:
        assert http.post(f"/api/tasks/{task_id}/stop").status_code == 202
    task = stack.until_state(task_id, "stopped")
    until(lambda: not _sleepers(stack), why="the call outlived the stop")
    assert task["inquiries"][0]["execution"] == "unknown"


def test_ctrl_c_ends_every_process(tmp_path: Path, scripted: MessagesServer) -> None:
    """After Ctrl-C nothing of it is left."""
    with Stack(tmp_path, model_url=scripted.url) as stack:
        assert stack.process is not None
        family = psutil.Process(stack.process.pid).children(recursive=True)
        assert len(family) >= 3
    _, alive = psutil.wait_procs(family, timeout=15)
    assert alive == []


Arguments = Callable[[Path], list[str]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda d: ["--workspace", str(d / "missing")], "is not a directory"),
        (lambda d: ["--config", str(d / "missing.toml")], "cannot read"),
        (lambda d: ["--config", str(_file(d / "bad.toml", "language = \"fr\""))], "bad.toml:1"),
        (lambda d: ["--state-dir", str(_file(d / "file", ""))], "file"),
    ],
)  # fmt: skip
def test_up_refuses_what_cannot_work(tmp_path: Path, arguments: Arguments, said: str) -> None:
    """A mistake in the flags or the file: one line and a remedy, exit code 2, no traceback."""
    flags = ["up", "--port", "0", "--state-dir", str(tmp_path / "state"), *arguments(tmp_path)]
    failed = CliRunner().invoke(main, flags)
    assert (failed.exit_code, "Traceback" in failed.output) == (2, False)
    assert said in failed.output


def _file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _sleepers(stack: Stack) -> list[psutil.Process]:
    """The running slow commands of this stack."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        if process.info["cmdline"] == ["sleep", "600"] and process.info["cwd"] == str(stack.workspace):
            found.append(process)
    return found


def _horse_of(process: psutil.Process) -> psutil.Process:
    """The forked job above a command: the child of a worker that leads its own group."""
    above = process
    while True:
        parent = above.parent()
        assert parent is not None
        if "bot.cli" in " ".join(above.cmdline()) and os.getpgid(above.pid) == above.pid:
            return above
        above = parent
