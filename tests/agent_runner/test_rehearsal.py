"""The scripted Messages API over real HTTP, and what the rehearsal says and does, without the CLI."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import httpx
import pytest

from agent_runner.messages_api import (
    Answer,
    Block,
    HttpError,
    MessagesServer,
    Request,
    Script,
    Text,
    ToolResult,
    ToolUse,
)
from agent_runner.rehearsal import REQUEST_APPROVAL, language_of, rehearsal
from agent_runner.rehearsal_words import QUESTIONS, WORDS

EVERY_TOOL = ("Bash", "Write", "Edit", "Glob", "AskUserQuestion", "ExitPlanMode", REQUEST_APPROVAL)
PLAN_MODE = "Plan mode is active. You should create your plan at /state/plans/a-b.md using the Write tool."
CWD = " - Primary working directory: /srv/ops\n - Is a git repository: false"
CLOSING = "\n\n".join(["", WORDS["rehearsal"]["en"], WORDS["try_next"]["en"]])


def body(text: str = "hi", *, tools: tuple[str, ...] = ("Bash",), **more: Any) -> dict[str, Any]:
    """A request body as the CLI sends it."""
    messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    offered = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
    return {"model": "m", "max_tokens": 9, "messages": messages, "tools": offered, **more}


def post(script: Script, payload: dict[str, Any], path: str = "/v1/messages") -> httpx.Response:
    """One request to a server of its own."""
    with MessagesServer(script) as server:
        return httpx.post(server.url + path, json=payload)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """The data of every server-sent event; its name must equal its type."""
    parsed = []
    for chunk in response.text.strip().split("\n\n"):
        name, data = chunk.split("\n")
        parsed.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {parsed[-1]['type']}"
    return parsed


def test_streams_every_block_in_the_documented_order() -> None:
    """Text and a call arrive as start, deltas and stop; the deltas add up to what was scripted."""
    long = "x" * 50
    call = ToolUse("toolu_1", "Bash", {"command": "echo 你好"})
    response = post(lambda _: Answer([Text(long), call], 7, 3), body(stream=True))
    assert response.headers["content-type"].startswith("text/event-stream")
    message_id = events(response)[0]["message"]["id"]
    assert message_id.startswith("msg_")
    assert events(response) == [
        {
            "type": "message_start",
            "message": {
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 7, "output_tokens": 1},
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 40}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 10}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": '{"command": "echo 你好"}'},
        },
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 3},
        },
        {"type": "message_stop"},
    ]


@pytest.mark.parametrize(
    ("blocks", "content", "stop_reason"),
    [
        ([Text("a")], [{"type": "text", "text": "a"}], "end_turn"),
        (
            [ToolUse("t", "Bash", {"command": "ls"})],
            [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}],
            "tool_use",
        ),
        ([], [], "end_turn"),
    ],
)
def test_answers_whole_without_stream(
    blocks: list[Block], content: list[dict[str, Any]], stop_reason: str
) -> None:
    """Without `stream` the same message comes as one JSON object; the stop reason is derived."""
    answered = post(lambda _: blocks, body()).json()
    assert (answered["content"], answered["stop_reason"]) == (content, stop_reason)


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "answer"),
    [
        ("GET", "/", b"", 200, {"ok": True}),
        ("GET", "/api/hello", b"", 200, {"ok": True}),
        ("POST", "/v1/messages/count_tokens", b"x" * 400, 200, {"input_tokens": 100}),
        (
            "POST",
            "/v1/messages",
            b"[not json",
            400,
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "The body must be a JSON object."},
            },
        ),
        (
            "POST",
            "/v1/messages",
            b"[]",
            400,
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "The body must be a JSON object."},
            },
        ),
        (
            "POST",
            "/v1/files",
            b"{}",
            404,
            {
                "type": "error",
                "error": {"type": "not_found_error", "message": "POST /v1/files is not served here."},
            },
        ),
    ],
)
def test_answers_everything_else_sensibly(
    method: str, path: str, content: bytes, status: int, answer: dict[str, Any]
) -> None:
    """Probes are fine, tokens are counted, and what is wrong is said in the API's own shape."""
    with MessagesServer(lambda _: []) as server:
        response = httpx.request(method, server.url + path, content=content)
        assert (response.status_code, response.json()) == (status, answer)
        assert httpx.head(server.url).status_code == 200
        assert server.requests == []


def test_scripted_errors_reach_the_caller() -> None:
    """An HttpError is sent with its status and in the API's shape."""
    response = post(lambda _: HttpError(529, "overloaded_error", "busy"), body(stream=True))
    assert response.status_code == 529
    assert response.json() == {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


def test_a_broken_script_is_an_error_that_a_test_can_read() -> None:
    """What a script raises is answered as 500 and kept."""

    def broken(_: Request) -> list[Block]:
        raise LookupError("no such line")

    with MessagesServer(broken) as server:
        response = httpx.post(server.url + "/v1/messages", json=body())
        assert response.status_code == 500
        assert response.json()["error"]["message"] == "the script raised LookupError('no such line')"
        assert [str(failure) for failure in server.failures] == ["no such line"]


def test_requests_are_recorded_and_auxiliary_ones_told_apart() -> None:
    """`requests` has every call with its headers, `calls` only those of the agent's own loop."""
    with MessagesServer(lambda _: [Text("a")]) as server:
        httpx.post(server.url + "/v1/messages", json=body("main"), headers={"x-api-key": "k"})
        httpx.post(server.url + "/v1/messages", json=body("title", tools=()))
        assert [request.last_user_text for request in server.requests] == ["main", "title"]
        assert [request.last_user_text for request in server.calls] == ["main"]
        assert server.calls[0].headers["x-api-key"] == "k"


def test_a_script_that_waits_does_not_hold_up_the_others() -> None:
    """Two requests are served at once: each waits for the other to arrive."""
    together = threading.Barrier(2, timeout=10)

    def script(_: Request) -> list[Block]:
        together.wait()
        return [Text("met")]

    with MessagesServer(script) as server:

        def ask() -> None:
            assert httpx.post(server.url + "/v1/messages", json=body()).status_code == 200

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert server.failures == []


def test_the_port_is_chosen_freed_and_refused_when_taken() -> None:
    """Stop gives the port back, a second stop is harmless, and a taken port is an OSError."""
    with MessagesServer(lambda _: []) as server:
        port = server.port
        with pytest.raises(OSError, match="in use"):
            MessagesServer(lambda _: [], port=port).start()
    server.stop()
    with MessagesServer(lambda _: [], port=port) as again:
        assert again.url == f"http://127.0.0.1:{port}"


def conversation() -> Request:
    """A transcript in the shapes the CLI sends: reminders, results, hook notes, a second prompt."""
    return Request(
        {
            "system": [{"type": "text", "text": "You are an agent."}],
            "tools": [{"name": "Bash"}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "<system-reminder>\nx\n</system-reminder>"},
                        {"type": "text", "text": "first job"},
                    ],
                },
                {"role": "system", "content": [{"type": "text", "text": CWD}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "a"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t1",
                            "content": [{"type": "text", "text": "no"}],
                            "is_error": True,
                        },
                        {"type": "text", "text": "Continue from where you left off.\n"},
                        {"type": "text", "text": "second job"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "b"}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t2", "content": "b ran"}],
                },
                {
                    "role": "system",
                    "content": [
                        {
                            "type": "text",
                            "text": "PreToolUse:Bash hook additional context: changed by Lin\n\n"
                            "PostToolUse:Bash hook additional context: noted",
                        }
                    ],
                },
            ],
        }
    )


def test_a_request_answers_the_questions_scripts_ask() -> None:
    """Prompts, results, calls, hook notes and the directory are found in the CLI's own shapes."""
    request = conversation()
    first, second = ToolUse("t1", "Bash", {"command": "a"}), ToolUse("t2", "Bash", {"command": "b"})
    assert request.last_user_text == "second job"
    assert request.tool_uses == [first, second]
    assert request.tool_uses_since_prompt == [second]
    assert request.tool_results == {"t1": ToolResult("t1", "no", True), "t2": ToolResult("t2", "b ran")}
    assert request.last_results == [ToolResult("t2", "b ran")]
    assert request.hook_notes == ["changed by Lin", "noted"]
    assert request.working_directory == "/srv/ops"
    assert request.system_text == "You are an agent."
    assert (request.plan_mode, request.plan_file, request.auxiliary) == (False, None, False)


def test_fresh_ids_follow_from_the_request_alone() -> None:
    """A retried request gets the same id; another session or another position gets another."""
    one, same = Request(body(metadata={"user_id": "s1"})), Request(body(metadata={"user_id": "s1"}))
    other = Request(body(metadata={"user_id": "s2"}))
    assert one.fresh_id() == same.fresh_id()
    assert len({one.fresh_id(), one.fresh_id(1), other.fresh_id()}) == 3
    assert one.fresh_id().startswith("toolu_")


Tool = Callable[[ToolUse], ToolResult]


def play(job: str, tool: Tool, *, tools: tuple[str, ...] = EVERY_TOOL, plan: bool = False) -> list[Any]:
    """The whole rehearsal of one job as (tool, input) pairs and at last the result text."""
    notes = [{"type": "text", "text": CWD}, *([{"type": "text", "text": PLAN_MODE}] if plan else [])]
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": job}]},
        {"role": "system", "content": notes},
    ]
    said: list[Any] = []
    for _ in range(10):
        request = Request({"messages": messages, "tools": [{"name": name} for name in tools]})
        blocks = rehearsal(request).blocks
        calls = [block for block in blocks if isinstance(block, ToolUse)]
        if not calls:
            return [*said, *(block.text for block in blocks if isinstance(block, Text))]
        said += [(call.name, call.input) for call in calls]
        uses = [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.input} for c in calls]
        results = [_result(tool(call), call.id) for call in calls]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    raise AssertionError("the rehearsal does not come to an end")


def _result(result: ToolResult, call_id: str) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": result.text,
        "is_error": result.is_error,
    }


def ok(text: str) -> Tool:
    """Every call succeeds with this text."""
    return lambda call: ToolResult(call.id, text)


def approve(call: ToolUse) -> ToolResult:
    """Every call succeeds; Bash prints what its printf would print."""
    lines = call.input["command"].split("'")[3::2] if call.name == "Bash" else ["done"]
    return ToolResult(call.id, "\n".join(lines))


def refuse(words: str) -> Tool:
    """Every call that changes something is refused with these words; looking is free."""

    def tool(call: ToolUse) -> ToolResult:
        if call.name == "Glob":
            return ToolResult(call.id, "")
        return ToolResult(call.id, f"PreToolUse:{call.name} hook error: {words}", True)

    return tool


GREET = {
    "command": "printf '%s\\n' 'Hello from the rehearsal' | tee hello.txt",
    "description": "Write a greeting to hello.txt",
}
LOOK = ("Glob", {"pattern": "*"})


def test_default_story_runs_one_gated_command() -> None:
    """Look for free, run one command, say what ran and what to try next."""
    assert play("say hello", approve) == [
        LOOK,
        ("Bash", GREET),
        "You approved, and the command ran as I asked. hello.txt now holds:\nHello from the rehearsal"
        + CLOSING,
    ]


def test_a_refusal_is_quoted_word_for_word() -> None:
    """The person's words are in the result, without the engine's prefix."""
    assert play("say hello", refuse('not "today", 明日')) == [
        LOOK,
        ("Bash", GREET),
        'It did not run. I was told:\nnot "today", 明日' + CLOSING,
    ]


def test_an_edited_call_is_noticed() -> None:
    """When something else came back than was asked for, the result says so and quotes it."""
    assert play("say hello", ok("Hello from Lin"))[-1] == (
        "It ran, but not as I asked: you changed it. What came back:\nHello from Lin" + CLOSING
    )


def test_conditions_in_words_bring_the_call_back_revised() -> None:
    """Asked to revise, the call is issued again with the words in it, safely quoted."""
    brief = "Lin agrees with changes; their words:\nsay it's me\nIssue the call again, revised."
    answers = iter([refuse(brief), approve])

    def tool(call: ToolUse) -> ToolResult:
        return ToolResult(call.id, "") if call.name == "Glob" else next(answers)(call)

    revised = "printf '%s\\n' 'Hello from the rehearsal' 'say it'\"'\"'s me' | tee hello.txt"
    assert play("say hello", tool)[1:3] == [("Bash", GREET), ("Bash", {**GREET, "command": revised})]


def test_endless_conditions_come_to_an_end() -> None:
    """After three attempts the scripted model gives up instead of asking for ever."""
    told = play("say hello", refuse("their words:\nno\nIssue the call again, revised."))
    assert [name for name, _ in told[:-1]] == ["Glob", "Bash", "Bash", "Bash"]


@pytest.mark.parametrize(
    ("job", "language"), [("ask me a question", "en"), ("问我一个问题", "zh"), ("質問して", "ja")]
)
def test_questions_are_asked_and_the_answers_quoted(job: str, language: Any) -> None:
    """Two questions, one of them with several choices; the answers come back in the result."""
    one, several = QUESTIONS[language]
    assert (one["multiSelect"], several["multiSelect"]) == (False, True)
    first, *_ = one["options"]
    engine_says = (
        f'Your questions have been answered: "{one["question"]}"="{first["label"]}", '
        f'"{several["question"]}"="a, b". You can now continue.'
    )
    answers = f"- {one['question']}: {first['label']}\n- {several['question']}: a, b"
    assert play(job, ok(engine_says)) == [
        ("AskUserQuestion", {"questions": [one, several]}),
        WORDS["answered"][language].format(words=answers)
        + "\n\n".join(["", WORDS["rehearsal"][language], WORDS["try_next"][language]]),
    ]


def test_edit_story_writes_and_edits_with_full_paths() -> None:
    """Two approvals: the file is written into the working directory, then edited."""
    path = str(PurePosixPath("/srv/ops/notes.md"))
    change = {"old_string": "Status: draft", "new_string": "Status: reviewed by a person"}
    assert play("edit a note", approve) == [
        ("Write", {"file_path": path, "content": "Status: draft\n"}),
        ("Edit", {"file_path": path, **change}),
        "Both steps ran. The last one said:\ndone" + CLOSING,
    ]


@pytest.mark.parametrize("job", ["please request approval", "deploy the service"])
def test_deploy_story_asks_in_words(job: str) -> None:
    """The request_approval tool gets a title, the action, the context and the next steps."""
    asked = {key: WORDS[f"deploy_{key}"]["en"] for key in ("title", "action", "context", "next_steps")}
    assert play(job, ok("Approved by Lin.")) == [
        (REQUEST_APPROVAL, asked),
        "You answered, and nothing was really deployed. I was told:\nApproved by Lin." + CLOSING,
    ]


def test_plan_story_writes_the_plan_shows_it_and_does_it() -> None:
    """In plan mode the plan goes into the CLI's plan file, is shown, and then carried out."""
    plan = WORDS["plan"]["en"].format(file="hello.txt")
    assert play("make a plan", approve, plan=True)[:-1] == [
        ("Write", {"file_path": "/state/plans/a-b.md", "content": plan}),
        ("ExitPlanMode", {}),
        ("Bash", GREET),
    ]


def test_plan_story_puts_the_plan_into_the_call_when_it_cannot_write() -> None:
    """Without the plan file the plan is in the call itself; a refused plan does nothing."""
    plan = WORDS["plan"]["en"].format(file="hello.txt")
    tools = ("Bash", "ExitPlanMode")
    assert play("anything", refuse("later"), plan=True, tools=tools) == [
        ("ExitPlanMode", {"plan": plan}),
        "The plan was not approved, so nothing was done. I was told:\nlater" + CLOSING,
    ]


def test_plan_story_outside_plan_mode_says_so() -> None:
    """ExitPlanMode is offered in every mode, but means something in plan mode only."""
    assert play("make a plan", approve) == [WORDS["no_plan_mode"]["en"] + CLOSING]


JOBS = (
    "say hello",
    "ask me",
    "make a plan",
    "edit it",
    "deploy",
    "问我",
    "計画を立てて",
    "修改笔记",
    "挨拶して",
)
TOOL_SETS = [set(), {"Glob"}, {"Bash"}, {"Write"}, {"Edit", "Glob"}, {"ExitPlanMode"}, set(EVERY_TOOL)]


@pytest.mark.parametrize(("job", "offered"), list(itertools.product(JOBS, TOOL_SETS)))
@pytest.mark.parametrize("plan", [False, True])
def test_only_offered_tools_are_called(job: str, offered: set[str], plan: bool) -> None:
    """Whatever is offered, the rehearsal calls nothing else and ends with words."""
    *calls, words = play(job, approve, tools=("Other", *sorted(offered)), plan=plan)
    assert {name for name, _ in calls} <= offered
    assert WORDS["rehearsal"][language_of(job)] in words


@pytest.mark.parametrize(
    ("text", "language"),
    [("hello", "en"), ("部署服务", "zh"), ("デプロイ", "ja"), ("質問", "ja"), ("", "en"), ("問題", "zh")],
)
def test_language_of(text: str, language: str) -> None:
    """Kana and Japanese-only words mean Japanese, other Han characters Chinese."""
    assert language_of(text) == language


def test_every_sentence_exists_in_every_language_with_the_same_fields() -> None:
    """No sentence lacks a language or drops a value that another language shows."""
    fields = ("{words}", "{file}", "{tool}")
    for key, sentences in WORDS.items():
        assert set(sentences) == {"en", "zh", "ja"}, key
        assert len({tuple(f in text for f in fields) for text in sentences.values()}) == 1, key


def test_titles_and_the_like_are_answered_without_a_story() -> None:
    """The CLI's own small requests offer no tools; they get a word, not a job."""
    assert rehearsal(Request(body("deploy", tools=()))) == Answer([Text("Rehearsal")])
