"""A Messages API server on loopback whose model is a Python function.

The agent's CLI is pointed at it (`ANTHROPIC_BASE_URL`) and behaves exactly as with the real
service: requests arrive whole, answers are streamed as server-sent events. The rehearsal
(`agent_runner.rehearsal`) is one script for it; every contract test is another.

Wire format: https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent_runner.messages_request import (
    Answer,
    Block,
    HttpError,
    Reply,
    Request,
    Script,
    Text,
    ToolResult,
    ToolUse,
)

__all__ = [
    "Answer",
    "Block",
    "HttpError",
    "MessagesServer",
    "Reply",
    "Request",
    "Script",
    "Text",
    "ToolResult",
    "ToolUse",
]

START_SECONDS = 10.0
"""Longest wait for the server thread to serve; measured about 0.05 s, slow machines get room."""
STOP_SECONDS = 3.0
"""Longest wait for it to end; streams that are still open after 1 s are cut."""
DELTA_CHARS = 40
"""Characters per streamed delta: small enough that every answer of a sentence needs several."""


class MessagesServer:
    """Serves a script on 127.0.0.1 in a thread of its own, from `with` to its end.

    The script runs in a worker thread: it may block (a test that holds the model back) and it
    may be called concurrently. An exception in it is answered as 500 `api_error`, with the
    exception's text, and kept in `failures`.
    """

    def __init__(self, script: Script, *, port: int = 0, listening: socket.socket | None = None) -> None:
        self._script = script
        self._port = port
        self._given = listening
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._failures: list[Exception] = []
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL, without a slash at the end: the value for `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on; 0 before the start if none was asked for."""
        return int(self._socket.getsockname()[1]) if self._socket else self._port

    @property
    def requests(self) -> list[Request]:
        """Every `POST /v1/messages` so far, oldest first, auxiliary ones included."""
        with self._lock:
            return list(self._requests)

    @property
    def calls(self) -> list[Request]:
        """The requests of the agent's own loop: what counts as a model call in most tests."""
        return [request for request in self.requests if not request.auxiliary]

    @property
    def failures(self) -> list[Exception]:
        """What the script raised."""
        with self._lock:
            return list(self._failures)

    def start(self) -> None:
        """Bind and serve. OSError when the port is taken, RuntimeError when it will not serve."""
        self._socket = self._given or socket.create_server(("127.0.0.1", self._port))
        config = uvicorn.Config(
            self.app(), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = _Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="messages-api", daemon=True
        )
        self._thread.start()
        if not self._server.serving.wait(START_SECONDS):
            self.stop()
            raise RuntimeError(f"The scripted Messages API did not serve within {START_SECONDS:.0f} s.")

    def stop(self) -> None:
        """End the server and its thread; safe to call twice."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
        if self._socket is not None:
            self._socket.close()
        self._socket = self._server = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def app(self) -> Starlette:
        """The ASGI application, for tests without a socket."""
        return Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/messages/count_tokens", _count_tokens, methods=["POST"]),
                Route("/{path:path}", _hello, methods=["GET"]),  # HEAD comes with GET
                Route("/{path:path}", _not_here, methods=["POST", "PUT", "PATCH", "DELETE"]),
            ]
        )

    async def _messages(self, http: HttpRequest) -> Response:
        body = await _json_object(http)
        if body is None:
            return _error(HttpError(400, "invalid_request_error", "The body must be a JSON object."))
        request = Request(body, dict(http.headers))
        with self._lock:
            self._requests.append(request)
        reply = await run_in_threadpool(self._reply, request)
        if isinstance(reply, HttpError):
            return _error(reply)
        message = _message(request, reply if isinstance(reply, Answer) else Answer(reply))
        if not body.get("stream"):
            return JSONResponse(message)
        return StreamingResponse(_events(message), media_type="text/event-stream")

    def _reply(self, request: Request) -> Reply:
        try:
            return self._script(request)
        except Exception as error:  # noqa: BLE001 - a script's bug must reach the test, not hang the CLI
            with self._lock:
                self._failures.append(error)
            return HttpError(500, "api_error", f"the script raised {error!r}")


class _Server(uvicorn.Server):
    """Uvicorn that says when it serves; in a thread it leaves the signal handlers alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()


def _message(request: Request, answer: Answer) -> dict[str, Any]:
    calls = any(isinstance(block, ToolUse) for block in answer.blocks)
    return {
        "id": "msg_" + request.fresh_id(-1).removeprefix("toolu_"),
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "scripted"),
        "content": [_block(block) for block in answer.blocks],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens},
    }


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.input)}


def _events(message: dict[str, Any]) -> Iterator[bytes]:
    usage = message["usage"]
    opening = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event("message_start", message=opening)
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            yield _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            deltas = [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
        else:
            yield _event("content_block_start", index=index, content_block={**block, "input": {}})
            written = json.dumps(block["input"], ensure_ascii=False)
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in _parts(written)]
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage={"output_tokens": usage["output_tokens"]})
    yield _event("message_stop")


def _parts(text: str) -> list[str]:
    return [text[start : start + DELTA_CHARS] for start in range(0, len(text), DELTA_CHARS)]


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


def _error(error: HttpError) -> JSONResponse:
    inner = {"type": error.type, "message": error.message}
    return JSONResponse({"type": "error", "error": inner}, status_code=error.status)


async def _json_object(http: HttpRequest) -> dict[str, Any] | None:
    try:
        body = await http.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


async def _count_tokens(http: HttpRequest) -> Response:
    size = len(await http.body())
    return JSONResponse({"input_tokens": max(1, size // 4)})  # about four characters to a token


async def _hello(_: HttpRequest) -> Response:
    return JSONResponse({"ok": True})


async def _not_here(http: HttpRequest) -> Response:
    return _error(HttpError(404, "not_found_error", f"{http.method} {http.url.path} is not served here."))
