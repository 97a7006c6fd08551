"""The scripted Messages API over real HTTP, and the questions a script can ask of a request."""

from __future__ import annotations

import json
import threading
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

CWD = " - Primary working directory: /srv/ops\n - Is a git repository: false"


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
