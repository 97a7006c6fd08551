"""Whole turns with the real bundled CLI: what was decided is what ran, once, and the model knows it."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from typing import Any

import pytest

from agent_runner.config import Config, Limits, Workspace
from agent_runner.errors import FixInput
from agent_runner.messages_request import HttpError, Request, Text, ToolUse
from agent_runner.model import Execution, InquiryState, Kind, Scope, TaskState
from agent_runner.policy import Person, Policy, Route
from tests.agent_runner.conftest import NewDesk
from tests.fakes.desk import LIN, MEI, Desk
from tests.fakes.scripts import WRITE, bash, in_order

pytestmark = pytest.mark.engine

WRITES = in_order([Text("I will write a line."), ToolUse("", "Bash", WRITE)])


def lines(desk: Desk) -> list[str]:
    """What calls wrote into the workspace so far."""
    file = desk.workspace / "out.txt"
    return file.read_text().split() if file.exists() else []


def told(desk: Desk) -> str:
    """All that the model's last call got to read from tools."""
    return "\n".join(result.text for result in desk.model.calls[-1].tool_results.values())


# --- one call, each verdict --------------------------------------------------------------


def test_an_approved_call_runs_once_and_the_accounts_are_right(desk_with: NewDesk) -> None:
    """Approve: the effect is there once, the result too, and usage counts what was used."""
    desk = desk_with(WRITES)
    inquiry = desk.asked("write it")
    assert (inquiry.kind, inquiry.tool_input, inquiry.agent_words, inquiry.rule) == (
        Kind.APPROVAL,
        WRITE,
        "I will write a line.",
        "nothing matched",
    )
    assert lines(desk) == []
    cost_of_a_call = desk.task(inquiry.task_id).usage.cost_usd
    desk.choose(inquiry, "approve")
    task = desk.task(inquiry.task_id)
    run = desk.snap(task.id).inquiries[0].run
    assert (task.state, lines(desk), run.state, run.failed) == (
        TaskState.DONE,
        ["done"],
        Execution.FINISHED,
        False,
    )
    assert (task.usage.model_calls, task.usage.turns) == (len(desk.model.calls), 2)
    assert task.usage.cost_usd == pytest.approx(2 * cost_of_a_call)
    assert min(cost_of_a_call, task.usage.active_ms) > 0
    assert desk.events(task.id) == [
        "task_asked",
        "turn_started",
        "inquiry_asked",
        "decided",
        "turn_started",
        "dispatched",
        "finished",
        "task_ended",
    ]
    assert list(desk.runtime.scratch.iterdir()) == []


def test_a_rejected_call_does_not_run_and_the_reason_arrives_word_for_word(desk_with: NewDesk) -> None:
    """Reject: no effect, and the model reads exactly what the person typed."""
    desk = desk_with(WRITES)
    reason = 'no — use the "canary" first\n  请先备份'
    inquiry = desk.asked("write it")
    desk.choose(inquiry, "reject", reason=reason)
    assert (lines(desk), desk.task(inquiry.task_id).state) == ([], TaskState.DONE)
    assert reason in told(desk)
    assert "dispatched" not in desk.events(inquiry.task_id)


def test_an_edited_call_runs_as_edited_and_the_model_is_told(desk_with: NewDesk) -> None:
    """Change with an edited input: that input runs, and the model learns what ran instead."""
    desk = desk_with(WRITES)
    inquiry = desk.asked("write it")
    desk.choose(inquiry, "change", input={**WRITE, "command": "echo edited >> out.txt"})
    assert lines(desk) == ["edited"]
    notes = "\n".join(desk.model.calls[-1].hook_notes)
    assert "echo edited >> out.txt" in notes
    assert desk.snap(inquiry.task_id).inquiries[0].state is InquiryState.CHANGED


def test_conditions_send_the_call_back_and_the_revised_one_is_shown(desk_with: NewDesk) -> None:
    """Change in words: the call does not run; the revised call is a new request that replaces it."""
    desk = desk_with(in_order(bash("echo one >> out.txt"), bash("echo two >> out.txt")))
    first = desk.asked("write it")
    desk.choose(first, "change", conditions="write two instead")
    second = desk.pending(first.task_id)
    assert (lines(desk), second.replaces, second.tool_input["command"]) == (
        [],
        first.id,
        "echo two >> out.txt",
    )
    assert "write two instead" in told(desk)
    desk.choose(second, "approve")
    assert lines(desk) == ["two"]


def test_answers_reach_the_model(desk_with: NewDesk) -> None:
    """A question is delivered, and its answers come back as the tool's result (A09)."""
    questions = [
        {
            "question": "Which DB?",
            "header": "DB",
            "multiSelect": False,
            "options": [{"label": "Postgres", "description": "p"}, {"label": "MySQL", "description": "m"}],
        },
        {
            "question": "Which envs?",
            "header": "Env",
            "multiSelect": True,
            "options": [{"label": "dev", "description": "d"}, {"label": "prod", "description": "p"}],
        },
    ]
    desk = desk_with(in_order(ToolUse("", "AskUserQuestion", {"questions": questions})))
    inquiry = desk.asked("set it up")
    assert inquiry.kind is Kind.QUESTION
    answers = {"Which DB?": "Postgres", "Which envs?": "dev, prod"}
    desk.choose(inquiry, "answer", answers=answers)
    assert desk.task(inquiry.task_id).state is TaskState.DONE
    assert '"Which DB?"="Postgres"' in told(desk)
    assert '"Which envs?"="dev, prod"' in told(desk)


def test_a_question_can_be_declined_with_words(desk_with: NewDesk) -> None:
    """A10: no answer is its own outcome; the words arrive, an empty answer never does."""
    asked = {"questions": [{"question": "Q?", "header": "q", "multiSelect": False, "options": [
        {"label": "a", "description": ""}, {"label": "b", "description": ""}]}]}  # fmt: skip
    desk = desk_with(in_order(ToolUse("", "AskUserQuestion", asked)))
    desk.choose(desk.asked("ask me"), "reject", reason="decide yourself")
    assert "decide yourself" in told(desk)


# --- several calls, subagents ------------------------------------------------------------


def test_a_free_call_beside_a_gated_one_runs_at_once(desk_with: NewDesk) -> None:
    """Engine fact E13: what needs nobody is not held up."""
    desk = desk_with(in_order([bash("pwd", "free"), ToolUse("gated", "Bash", WRITE)]))
    inquiry = desk.asked("both")
    desk.choose(inquiry, "approve")
    assert (lines(desk), len(desk.snap(inquiry.task_id).inquiries)) == (["done"], 1)
    assert str(desk.workspace) in desk.model.calls[-1].tool_results["free"].text


# --- pausing -----------------------------------------------------------------------------


def test_case_a08_words_after_a_pause_are_not_shown(desk_with: NewDesk) -> None:
    """What the model writes after a deferral is invented; the thread never sees it."""
    desk = desk_with(in_order([Text("before"), ToolUse("", "Bash", WRITE)], Text("The tool failed!")))
    inquiry = desk.asked("write it")
    assert inquiry.agent_words == "before"
    assert [m.text for m in desk.store.messages(inquiry.task_id)] == ["write it"]


def test_case_a14_words_while_a_request_is_open_start_the_next_turn(desk_with: NewDesk) -> None:
    """A follow-up is kept, said to be kept, and read after the decision."""
    desk = desk_with(WRITES)
    inquiry = desk.asked("write it")
    assert desk.say(inquiry.task_id, "and then tell Kai about it please") == "reply.kept"
    desk.choose(inquiry, "approve")
    assert desk.task(inquiry.task_id).state is TaskState.DONE
    assert desk.model.calls[-1].last_user_text == "and then tell Kai about it please"
    assert lines(desk) == ["done"]


def test_case_a15_options_are_the_same_after_a_resume(desk_with: NewDesk) -> None:
    """Model, tools and mode of the first turn hold for every later one."""
    desk = desk_with(in_order(ToolUse("", "Bash", WRITE), ToolUse("", "Bash", WRITE)))
    first = desk.asked("write twice")
    desk.choose(first, "approve")
    desk.choose(desk.pending(first.task_id), "approve")
    seen = {(c.body["model"], c.tool_names) for c in desk.model.calls}
    assert len(seen) == 1


def test_case_a04_a_lost_transcript_is_told_and_nothing_runs(desk_with: NewDesk) -> None:
    """The conversation is gone from the store: the task fails with words and a next step."""
    desk = desk_with(WRITES)
    inquiry = desk.asked("write it")
    for key in desk.store.client.scan_iter("cs:transcript:*"):
        desk.store.client.delete(key)
    desk.choose(inquiry, "approve")
    task = desk.task(inquiry.task_id)
    assert task.failure is not None
    assert (task.state, task.failure.code, lines(desk)) == (TaskState.FAILED, "transcript_missing", [])


def test_case_a05_a_missing_workspace_is_told_once_and_can_be_retried(desk_with: NewDesk) -> None:
    """The directory is away: one clear failure, no endless retry; with it back, Retry resumes."""
    desk = desk_with(WRITES)
    inquiry = desk.asked("write it")
    away = desk.workspace.with_name("away")
    desk.workspace.rename(away)
    desk.choose(inquiry, "approve")
    task = desk.task(inquiry.task_id)
    assert task.failure is not None
    assert (task.state, task.failure.code, desk.queued) == (TaskState.FAILED, "workspace_missing", [])
    away.rename(desk.workspace)
    assert desk.say(task.id, "retry") == "reply.retrying"
    desk.work()
    assert (desk.task(task.id).state, lines(desk)) == (TaskState.DONE, ["done"])


def test_case_a06_a_missing_tool_server_loses_nothing(desk_with: NewDesk, tmp_path: Any) -> None:
    """An MCP server that is down at the resume (E28): said by name, tried again until it is back."""
    server = tmp_path / "server.py"
    server.write_text(MCP_SERVER.replace("LOG", str(tmp_path / "out.txt")))
    mcp = {"notes": {"type": "stdio", "command": shutil.which("python3"), "args": [str(server)]}}
    workspace = Workspace(path=str(tmp_path / "ops"), mcp=mcp)
    desk = desk_with(
        in_order(ToolUse("", "mcp__notes__note", {"text": "hi"})),
        config=Config(workspaces={"ops": workspace}),
    )
    inquiry = desk.asked("note it")
    server.rename(tmp_path / "gone.py")
    desk.choose(inquiry, "approve")
    task = desk.task(inquiry.task_id)
    assert task.failure is not None
    assert (task.state, task.failure.code) == (TaskState.STUCK, "mcp_server_missing")
    assert "notes" in task.failure.message
    desk.tick()
    assert desk.queued == []
    (tmp_path / "gone.py").rename(server)
    desk.later(timedelta(seconds=15))
    desk.tick()
    desk.work()
    assert desk.task(task.id).state is TaskState.DONE
    assert (tmp_path / "out.txt").read_text() == "hi\n"


MCP_SERVER = """
import json, sys
def answer(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        answer(m["id"], {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
                          "serverInfo": {"name": "notes", "version": "1"}})
    elif m.get("method") == "tools/list":
        answer(m["id"], {"tools": [{"name": "note", "description": "n", "inputSchema":
            {"type": "object", "properties": {"text": {"type": "string"}}}}]})
    elif m.get("method") == "tools/call":
        open("LOG", "a").write(m["params"]["arguments"]["text"] + "\\n")
        answer(m["id"], {"content": [{"type": "text", "text": "noted"}]})
    elif "id" in m:
        answer(m["id"], {})
"""


# --- stopping and time -------------------------------------------------------------------


def test_a_stopped_wait_is_closed_before_new_words_are_read(desk_with: NewDesk) -> None:
    """Stop while waiting, then go on with other words: the old call never runs."""
    desk = desk_with(in_order(ToolUse("", "Bash", WRITE)))
    inquiry = desk.asked("write it")
    assert desk.stop(inquiry.task_id).state is TaskState.STOPPED
    assert desk.snap(inquiry.task_id).inquiries[0].state is InquiryState.WITHDRAWN
    assert desk.say(inquiry.task_id, "leave it, only say hello") == "reply.started"
    desk.work()
    assert (desk.task(inquiry.task_id).state, lines(desk)) == (TaskState.DONE, [])
    assert desk.model.calls[-1].last_user_text == "leave it, only say hello"


def test_case_b11_expiry_is_no_refusal_and_b12_can_be_asked_again(desk_with: NewDesk) -> None:
    """Nobody answered: the model hears just that; asked again and approved, the call runs once."""

    def script(request: Request) -> list[Any]:
        made = [u for u in request.tool_uses if u.name == "Bash"]
        if not made or ("has now approved" in request.last_user_text and len(made) == 1):
            return [ToolUse(request.fresh_id(), "Bash", WRITE)]
        return [Text("The end.")]

    desk = desk_with(script)
    inquiry = desk.asked("write it")
    desk.later(timedelta(hours=9))
    desk.tick()
    desk.work()
    assert "Nobody answered" in told(desk)
    assert "Rejected" not in told(desk)
    assert (desk.task(inquiry.task_id).state, lines(desk)) == (TaskState.DONE, [])
    again = desk.ask_again(inquiry)
    desk.choose(again, "approve", by=MEI)
    assert (desk.task(inquiry.task_id).state, lines(desk)) == (TaskState.DONE, ["done"])
    assert desk.task(inquiry.task_id).usage.waiting_ms >= 8 * 3600 * 1000


def test_the_watchdog_counts_only_time_in_which_the_agent_works(desk_with: NewDesk) -> None:
    """A11: a wait of days kills nothing; a model that is silent for too long does."""
    desk = desk_with(WRITES, config=Config(limits=Limits(turn_minutes=1, idle_minutes=1)))
    inquiry = desk.asked("write it")
    desk.later(timedelta(hours=7))
    desk.choose(inquiry, "approve")
    assert desk.task(inquiry.task_id).state is TaskState.DONE


# --- grants and policy -------------------------------------------------------------------


def test_always_covers_exactly_this_call_for_this_task(desk_with: NewDesk) -> None:
    """Always: the same call is not asked again; another one is."""
    desk = desk_with(
        in_order(ToolUse("", "Bash", WRITE), ToolUse("", "Bash", WRITE), bash("echo other >> out.txt"))
    )
    inquiry = desk.asked("write")
    desk.choose(inquiry, "approve", scope=Scope.TASK)
    other = desk.pending(inquiry.task_id)
    assert (lines(desk), other.tool_input["command"]) == (["done", "done"], "echo other >> out.txt")
    assert "grant_used" in desk.events(inquiry.task_id)


def test_a_denied_call_asks_nobody(desk_with: NewDesk) -> None:
    """A deny rule: no request, the model reads the rule, it is on record."""
    policy = Policy(allow=("Read",), ask=("Bash",), deny=("Bash(sudo *)",))
    desk = desk_with(in_order(bash("FOO=1 sudo id")), config=Config(policy=policy))
    task_id = desk.ask("be root")
    desk.work()
    assert (desk.task(task_id).state, desk.snap(task_id).inquiries) == (TaskState.DONE, ())
    assert "Bash(sudo *)" in told(desk)
    assert "call_denied" in desk.events(task_id)


def test_case_b10_a_policy_that_became_stricter_holds_at_dispatch(desk_with: NewDesk) -> None:
    """Approved, then forbidden before it ran: it does not run."""
    desk = desk_with(WRITES)
    inquiry = desk.asked("write it")
    desk.use_config(desk.config.having(policy=Policy(ask=("Bash",), deny=("Bash(echo *)",))))
    desk.choose(inquiry, "approve")
    assert (lines(desk), desk.task(inquiry.task_id).state) == ([], TaskState.DONE)
    assert "Forbidden" in told(desk)


# --- what can go wrong around it ---------------------------------------------------------


def test_the_agent_sees_nothing_of_ours_in_its_environment(
    desk_with: NewDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E36: no Redis address, no chat token, and no model key, in `env` or in the parent's."""
    for name in ("REDIS_URL", "SLACK_BOT_TOKEN", "FEISHU_APP_SECRET"):
        monkeypatch.setenv(name, "leak-me-not")
    command = "env; tr '\\0' '\\n' < /proc/$PPID/environ; true"
    desk = desk_with(in_order(bash(command)))
    inquiry = desk.asked("look around")
    desk.choose(inquiry, "approve")
    seen = told(desk)
    assert "HOME=" in seen
    assert [
        w for w in ("leak-me-not", "sk-ant-not-a-key", "REDIS", desk.runtime.redis_url) if w in seen
    ] == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HttpError(401, "authentication_error", "bad key"), "model_refused"),
        (HttpError(529, "overloaded_error", "busy"), "model_unreachable"),
    ],
)
def test_a_model_that_fails_is_told_and_retry_goes_on(
    desk_with: NewDesk, error: HttpError, code: str
) -> None:
    """The API refuses after the approved call ran: told without a traceback; Retry runs nothing twice."""
    broken = [True]
    good = WRITES

    def script(request: Request) -> Any:
        return error if broken[0] and request.tool_results else good(request)

    desk = desk_with(script)
    inquiry = desk.asked("write it")
    desk.choose(inquiry, "approve")
    task = desk.task(inquiry.task_id)
    assert task.failure is not None
    assert (task.state, task.failure.code, "Traceback" in task.failure.message) == (
        TaskState.FAILED,
        code,
        False,
    )
    broken[0] = False
    desk.say(task.id, "retry")
    desk.work()
    assert (desk.task(task.id).state, lines(desk)) == (TaskState.DONE, ["done"])


def test_a_model_that_is_away_at_the_start_is_told_and_retry_starts_it(desk_with: NewDesk) -> None:
    """The model's API refuses connections: the words are kept and Retry begins with them."""
    desk = desk_with(WRITES)
    port = desk.model.port
    desk.model.stop()
    task_id = desk.ask("write it")
    desk.work()
    failure = desk.task(task_id).failure
    assert failure is not None
    assert failure.code == "model_unreachable"
    desk.model._port = port
    desk.model.start()
    desk.say(task_id, "retry")
    desk.work()
    assert desk.pending(task_id).tool_input == WRITE


def test_a_cli_that_will_not_start_is_told(desk_with: NewDesk) -> None:
    """No engine program: one clear line, a remedy, nothing lost."""
    desk = desk_with(WRITES, cli_path="/nonexistent/claude")
    task_id = desk.ask("write it")
    desk.work()
    failure = desk.task(task_id).failure
    assert failure is not None
    assert (failure.code, failure.hint) == (
        "cli_did_not_start",
        "Run `countersign doctor` on the runner.",
    )


def test_a_tool_that_does_not_exist_harms_nothing(desk_with: NewDesk) -> None:
    """The model calls something that is not there: it is told, and the run goes on."""
    desk = desk_with(in_order(ToolUse("", "Nonexistent", {"x": 1})))
    task_id = desk.ask("try")
    desk.work()
    assert desk.task(task_id).state is TaskState.DONE
    assert "No such tool" in told(desk)


def test_case_e01_a_started_call_is_never_run_again_by_itself(desk_with: NewDesk) -> None:
    """A worker died under the call: Retry does not run it again, the model is told to look."""
    desk = desk_with(WRITES)
    inquiry = desk.asked("write it")
    desk.hold = True
    desk.choose(inquiry, "approve")
    desk.die_while_running(inquiry)
    task = desk.task(inquiry.task_id)
    assert task.failure is not None
    assert (task.state, task.failure.code) == (TaskState.STUCK, "outcome_unknown")
    desk.hold = False
    desk.say(task.id, "retry")
    desk.work()
    assert (desk.task(task.id).state, lines(desk)) == (TaskState.DONE, [])
    assert "may or may not have taken effect" in told(desk)


def test_words_after_an_unknown_outcome_do_not_hide_it_from_the_model(desk_with: NewDesk) -> None:
    """Going on with words instead of Retry: the model still hears that the call may have run."""
    desk = desk_with(WRITES)
    inquiry = desk.asked("write it")
    desk.hold = True
    desk.choose(inquiry, "approve")
    desk.die_while_running(inquiry)
    desk.hold = False
    desk.say(inquiry.task_id, "it did run, I looked; go on")
    desk.work()
    assert (desk.task(inquiry.task_id).state, lines(desk)) == (TaskState.DONE, [])
    heard = "\n".join(r.text for r in desk.model.calls[-1].tool_results.values())
    assert ("may or may not have taken effect" in heard, "It did not run" in heard) == (True, False)


def test_two_people_two_jobs_do_not_mix(desk_with: NewDesk) -> None:
    """Each task has its own session and its own request; deciding one leaves the other open."""
    desk = desk_with(WRITES)
    mine, yours = desk.ask("mine"), desk.ask("yours", by=LIN)
    desk.work()
    desk.choose(desk.pending(mine), "approve")
    assert (desk.task(mine).state, desk.task(yours).state) == (TaskState.DONE, TaskState.WAITING)
    assert lines(desk) == ["done"]
    assert json.dumps(desk.pending(yours).tool_input) == json.dumps(WRITE)
    assert [file.name for file in desk.workspace.iterdir()] == ["out.txt"]


def test_every_command_starts_in_the_workspace_its_card_names(desk_with: NewDesk) -> None:
    """An earlier `cd` moves nothing: what is shown with a directory runs there."""
    policy = Policy(allow=("Bash",))
    desk = desk_with(
        in_order(bash("mkdir -p sub && cd sub && pwd", "a"), bash("pwd", "b")), config=Config(policy=policy)
    )
    desk.ask("look")
    desk.work()
    assert desk.model.calls[-1].tool_results["b"].text == str(desk.workspace)


def test_an_edit_into_the_hands_of_others_is_refused(desk_with: NewDesk) -> None:
    """Editing a call into one that other people decide on is not a way around them."""
    route = Route(match=("Bash(kubectl *)",), approvers=("group:oncall",))
    people = {"lin": Person(accounts=("web:lin",), groups=("oncall",))}
    config = Config(policy=Policy(routes=(route,)), people=people)
    desk = desk_with(WRITES, config=config)
    inquiry = desk.asked("write it")
    with pytest.raises(FixInput) as refused:
        desk.choose(inquiry, "change", input={"command": "kubectl delete ns prod"})
    assert (refused.value.message, desk.pending(inquiry.task_id).id) == (
        "The edited call needs the approval of others.",
        inquiry.id,
    )
