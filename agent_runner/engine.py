"""Runs or resumes one turn of the agent and says how it ended. The one home of claude_agent_sdk.

The rules it keeps were measured against the bundled CLI (tests/agent_runner/test_engine_contract.py
repeats the measurements): a deferred call is resumed without a prompt; both locks ask the same
gate; our own in-process MCP server is always there, else a resume may ask nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import claude_agent_sdk
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    CLINotFoundError,
    HookMatcher,
    Message,
    MirrorErrorMessage,
    PermissionResultAllow,
    PermissionResultDeny,
    ProcessError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolPermissionContext,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    tool,
)

from agent_runner import briefs, launcher
from agent_runner.gate import PLAN_TOOL, Gate
from agent_runner.model import (
    OUTPUT_KEPT,
    DeferredCall,
    Failure,
    Outcome,
    OutcomeKind,
    TurnUsage,
)
from agent_runner.transcripts import RedisTranscripts

log = logging.getLogger(__name__)

GATED_TOOLS = (
    "Bash", "Read", "Write", "Edit", "Glob", "Grep", "NotebookEdit", "WebFetch", "WebSearch",
    "AskUserQuestion", "ExitPlanMode",
)  # fmt: skip
"""Built-in tools that get both locks (hook, and an `ask` rule with `can_use_tool`)."""

INTERNAL_TOOLS = ("Agent", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate")
"""Tools without an effect of their own: a subagent's calls are gated, the rest is the agent's notes.

Nothing else is offered: the CLI's default list has tools that mean nothing in a process that
ends while it waits (facts E27), and hides ours behind its tool search.
"""

BASE_ENVIRONMENT: Mapping[str, str] = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    # Every command starts in the workspace, as its card says, whatever an earlier one did with `cd`.
    "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR": "1",
    # Its memory would be a directory of this one turn.
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # About 35 s of waits (measured); then the thread is told, and Retry goes on from there.
    "CLAUDE_CODE_MAX_RETRIES": "6",
    # A subagent must run inside the turn: a deferral would end it with the process (E26).
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
}

KEPT_NAMES = (
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "PWD",
)
"""What the SDK itself tells the CLI by environment; all else is listed by the turn."""

HOOK_SECONDS = 60.0
"""Time for the gate to answer; a later answer counts as a no (E22). It never waits for people."""

STOP_POLL = 0.5
"""Seconds between looks at whether somebody asked to stop, and at the watchdogs."""


@dataclass(frozen=True)
class TurnSpec:
    """All that one turn runs with. `prompt` None resumes the call `deferred_id` without a prompt."""

    cwd: str
    session_id: str
    prompt: str | None
    deferred_id: str = ""
    attempt: int = 1
    plan: bool = False
    model: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)
    max_model_turns: int | None = None
    connect_seconds: float = 60.0
    idle_seconds: float = 900.0
    turn_seconds: float = 3600.0
    scratch: Path = Path()
    """Where the engine may keep files while the turn runs; outside the workspace."""
    cli_path: str = str(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")


@dataclass(frozen=True)
class Seen:
    """Something the turn did that others want to know: for progress, and for the record."""

    what: str
    """`text`, `tool`, `tool_finished`, `model_retry`."""
    tool_use_id: str = ""
    name: str = ""
    text: str = ""
    failed: bool = False


OnSeen = Callable[[Seen], Awaitable[None]]
ShouldStop = Callable[[], Awaitable[bool]]


class _Stopped(Exception):
    """Somebody asked to stop."""


class _Watchdog(Exception):
    """The agent worked too long, or did nothing for too long."""


async def run_turn(
    spec: TurnSpec,
    gate: Gate,
    transcripts: RedisTranscripts,
    *,
    on_seen: OnSeen,
    should_stop: ShouldStop,
) -> Outcome:
    """Runs the turn to its outcome. Never raises for what the agent, the CLI or the model does."""
    turn = _Turn(spec, gate, transcripts, on_seen, should_stop)
    try:
        return await turn.run()
    except _Stopped:
        return turn.outcome(OutcomeKind.STOPPED)
    except _Watchdog as error:
        return turn.failed("watchdog", str(error), hint="Ask for smaller steps, or raise the limit.")
    except CLINotFoundError as error:
        return turn.failed("cli_did_not_start", _first_line(error), hint="Run `countersign doctor`.")
    except (CLIConnectionError, ProcessError, OSError) as error:
        log.warning("the agent process failed: %s; its last words: %s", error, turn.stderr_tail())
        code = "engine_failed" if turn.started else "cli_did_not_start"
        return turn.failed(code, turn.why(error), hint="Run `countersign doctor` on the runner.", retry=True)
    finally:
        turn.clean_up()


class _Turn:
    """State of one run of the agent process."""

    def __init__(
        self,
        spec: TurnSpec,
        gate: Gate,
        transcripts: RedisTranscripts,
        on_seen: OnSeen,
        should_stop: ShouldStop,
    ) -> None:
        self.spec = spec
        self.gate = gate
        self.transcripts = transcripts
        self.on_seen = on_seen
        self.should_stop = should_stop
        self.began = time.monotonic()
        self.last_sign = self.began
        self.started = False
        self.words = ""
        self.streamed: dict[str, dict[str, Any]] = {}
        self.main_calls = 0
        self.side_calls: set[str] = set()
        self.result: ResultMessage | None = None
        self.not_mirrored = False
        self.stderr: list[str] = []
        spec.scratch.mkdir(parents=True, exist_ok=True)
        self.config_dir = Path(tempfile.mkdtemp(prefix="turn-", dir=spec.scratch))

    # --- the turn ------------------------------------------------------------------------

    async def run(self) -> Outcome:
        spec = self.spec
        if not Path(spec.cwd).is_dir():  # noqa: ASYNC240  (one stat, before anything runs)
            return self.failed(
                "workspace_missing",
                f"The workspace directory {spec.cwd} is not there.",
                hint="Restore it, or correct the path in the settings, then retry.",
                retry=True,
            )
        known = await self.transcripts.exists(spec.cwd, spec.session_id)
        pending = known and bool(spec.deferred_id) and await self._is_pending(spec.deferred_id)
        prompt = spec.prompt
        if prompt is None and not known:
            return self.failed(
                "transcript_missing",
                "The conversation of this job is gone from the store.",
                hint="Start the job again; nothing was run.",
            )
        if prompt is None and not pending:
            # The call was settled before a worker died; connecting without a prompt would hang (E5).
            prompt = briefs.taken_up_again("continue")
        elif prompt is not None and known and spec.attempt > 1:
            prompt = briefs.taken_up_again(prompt)
        await self.transcripts.ensure_loadable(spec.cwd, spec.session_id)
        return await self._converse(known=known, pending=pending, prompt=prompt)

    async def _is_pending(self, tool_use_id: str) -> bool:
        where = (self.spec.cwd, self.spec.session_id, tool_use_id)
        return await self.transcripts.has_call(*where) and not await self.transcripts.has_result(*where)

    async def _converse(self, *, known: bool, pending: bool, prompt: str | None) -> Outcome:
        client = ClaudeSDKClient(self._options(known=known))
        try:
            async with asyncio.timeout(self.spec.connect_seconds):
                await client.connect()
        except TimeoutError:
            return self.failed(
                "cli_did_not_start", "The agent process did not answer in time.", hint="Retry.", retry=True
            )
        try:
            if pending:
                if prompt is not None:
                    # Words follow: the call that waited is closed first, and starts nothing new.
                    self.gate.close(briefs.withdrawn())
                await self._listen(client)
                self.gate.reopen()
            if prompt is not None:
                await client.query(prompt)
                await self._listen(client)
        finally:
            await _leave(client)
        return self._read_result()

    async def _listen(self, client: ClaudeSDKClient) -> None:
        """Takes the messages of one run up to its result, with the watchdogs and the stop in view."""
        stream = client.receive_response()
        try:
            while True:
                message = await self._next(stream)
                if message is None:
                    return
                self.last_sign = time.monotonic()
                await self._take(message)
                if self.gate.alarmed:
                    return
        finally:
            await stream.aclose()  # type: ignore[attr-defined]  # it is an async generator

    async def _next(self, stream: AsyncIterator[Message]) -> Message | None:
        coming = asyncio.ensure_future(_anext(stream))
        try:
            while not coming.done():
                await asyncio.wait({coming}, timeout=STOP_POLL)
                if not coming.done():
                    await self._look_around()
            return coming.result()
        finally:
            if not coming.done():
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await coming

    async def _look_around(self) -> None:
        now = time.monotonic()
        if await self.should_stop():
            raise _Stopped
        first_sign = self.spec.connect_seconds if not self.started else self.spec.idle_seconds
        if now - self.last_sign > max(first_sign, 1.0):
            raise _Watchdog(f"The agent gave no sign of life for {int(now - self.last_sign)} seconds.")
        if now - self.began > self.spec.turn_seconds:
            raise _Watchdog(f"The agent worked for {int(now - self.began)} seconds, the limit of one turn.")

    # --- messages ------------------------------------------------------------------------

    async def _take(self, message: Message) -> None:
        match message:
            case ResultMessage():
                self.result = message
            case StreamEvent():
                if message.event.get("type") == "message_start":
                    self.main_calls += 1
                    self.started = True
            case AssistantMessage():
                self.started = True
                await self._take_assistant(message)
            case UserMessage():
                self.started = True
                await self._take_results(message)
            case MirrorErrorMessage():
                self.not_mirrored = True
                log.error("the transcript could not be stored: %s", message.error)
            case SystemMessage() if message.subtype == "api_retry":
                await self.on_seen(Seen("model_retry", text=_retry_words(message.data)))

    async def _take_assistant(self, message: AssistantMessage) -> None:
        if message.parent_tool_use_id and message.message_id:
            self.side_calls.add(message.message_id)  # subagents send no stream events
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                self.streamed[block.id] = block.input
                if self.gate.deferral is None:
                    await self.on_seen(Seen("tool", tool_use_id=block.id, name=block.name))
            elif isinstance(block, TextBlock) and not message.parent_tool_use_id:
                if self.gate.deferral is not None:
                    continue  # A08: words after a pause are invented
                self.words = block.text
                await self.on_seen(Seen("text", text=block.text))

    async def _take_results(self, message: UserMessage) -> None:
        if isinstance(message.content, str):
            return
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                await self._take_result(block)

    async def _take_result(self, block: ToolResultBlock) -> None:
        failed = bool(block.is_error)
        if not failed and not self.gate.allowed(block.tool_use_id):
            call = DeferredCall(
                tool_use_id=block.tool_use_id,
                tool_name="unknown",
                tool_input=self.streamed.get(block.tool_use_id, {}),
            )
            await self.gate.alarm("a tool ran that the gate had not allowed", call)
        if self.gate.allowed(block.tool_use_id):
            text = _result_text(block.content)[:OUTPUT_KEPT]
            await self.on_seen(Seen("tool_finished", tool_use_id=block.tool_use_id, text=text, failed=failed))

    # --- the two locks -------------------------------------------------------------------

    async def _hook(self, data: Any, tool_use_id: str | None, _context: Any) -> dict[str, Any]:
        """PreToolUse: the first lock."""
        ruling = await self.gate.rule(
            data["tool_name"], data["tool_input"], tool_use_id or data["tool_use_id"], data.get("agent_id")
        )
        answer: dict[str, Any] = {"hookEventName": "PreToolUse", "permissionDecision": ruling.effect}
        if ruling.reason:
            answer["permissionDecisionReason"] = ruling.reason
        if ruling.updated_input is not None:
            answer["updatedInput"] = dict(ruling.updated_input)
        if ruling.context:
            answer["additionalContext"] = ruling.context
        return {"hookSpecificOutput": answer}

    async def _can_use_tool(
        self, name: str, tool_input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """The second lock, asked for everything under an `ask` rule."""
        ruling = await self.gate.rule(name, tool_input, context.tool_use_id or "", context.agent_id)
        if ruling.effect == "allow":
            changed = dict(ruling.updated_input) if ruling.updated_input is not None else None
            return PermissionResultAllow(updated_input=changed)
        return PermissionResultDeny(message=ruling.reason or briefs.one_at_a_time())

    # --- options -------------------------------------------------------------------------

    def _options(self, *, known: bool) -> ClaudeAgentOptions:
        spec = self.spec
        servers = {**spec.mcp_servers, "countersign": _own_server(self.gate)}
        return ClaudeAgentOptions(
            cwd=spec.cwd,
            resume=spec.session_id if known else None,
            session_id=None if known else spec.session_id,
            system_prompt={"type": "preset", "preset": "claude_code", "append": briefs.SYSTEM},
            tools=[*GATED_TOOLS, *INTERNAL_TOOLS],
            allowed_tools=[],
            permission_mode="plan" if spec.plan else "default",
            settings=_settings(servers),
            setting_sources=[],
            strict_mcp_config=True,
            mcp_servers=servers,
            can_use_tool=self._can_use_tool,
            hooks={"PreToolUse": [HookMatcher(hooks=[self._hook], timeout=HOOK_SECONDS, on_failure="block")]},  # type: ignore[list-item]  # the SDK's union of hook inputs
            env=self._environment(),
            model=spec.model or None,
            max_turns=spec.max_model_turns,
            include_partial_messages=True,
            forward_subagent_text=True,  # else the last answer of a subagent is not counted
            session_store=self.transcripts,
            session_store_flush="eager",
            stderr=self._keep_stderr,
            cli_path=self._launcher(),
        )

    def _environment(self) -> dict[str, str]:
        """What the agent process sees: exactly this, whatever the worker's own environment holds."""
        seen = {**BASE_ENVIRONMENT, **self.spec.environment, "CLAUDE_CONFIG_DIR": str(self.config_dir)}
        keep = ",".join((*seen, *KEPT_NAMES))
        return {**seen, "COUNTERSIGN_CLI": self.spec.cli_path, "COUNTERSIGN_KEEP": keep}

    def _launcher(self) -> str:
        """An executable in the CLI's place that runs `launcher` with this Python."""
        command = shlex.join([sys.executable, "-I", "-S", launcher.__file__])
        path = self.config_dir / "start"
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o700)
        return str(path)

    def _keep_stderr(self, line: str) -> None:
        self.stderr = [*self.stderr[-19:], line]

    # --- outcomes ------------------------------------------------------------------------

    def _read_result(self) -> Outcome:
        result, gate = self.result, self.gate
        if gate.alarmed:
            return self.failed("alarm", f"Stopped for safety: {gate.alarmed}.", hint="Tell your operator.")
        if result is None:
            return self.failed("engine_failed", self.why(None), hint="Retry.", retry=True)
        if result.stop_reason == "tool_deferred_unavailable":
            return self._server_missing(result)
        if gate.deferral is not None:
            return self._deferred(result)
        if result.is_error or result.subtype != "success":
            return self._model_failed(result)
        return self.outcome(OutcomeKind.DONE, result=result.result or self.words)

    def _deferred(self, result: ResultMessage) -> Outcome:
        assert self.gate.deferral is not None  # noqa: S101  (the caller looked)
        call = self.gate.deferral.call
        reported = result.deferred_tool_use
        if result.stop_reason != "tool_deferred" or reported is None or reported.id != call.tool_use_id:
            return self.failed(
                "engine_failed", "The agent process did not stop at the call that waits.", hint="Retry."
            )
        if self.not_mirrored:
            return self.failed(
                "transcript_missing", "The conversation could not be stored; it cannot wait.", hint="Retry."
            )
        if call.tool_name == PLAN_TOOL:
            plan = call.tool_input.get("plan") or self.streamed.get(call.tool_use_id, {}).get("plan", "")
            call = call.having(tool_input={"plan": plan})
        return self.outcome(OutcomeKind.DEFERRED, result=self.words, deferred=call)

    def _server_missing(self, result: ResultMessage) -> Outcome:
        name = result.deferred_tool_use.name if result.deferred_tool_use else "mcp"
        server = name.split("__")[1] if name.startswith("mcp__") else name
        return self.failed(
            "mcp_server_missing",
            f"The tool server {server} is not running, so the approved call could not be made.",
            hint="Start it and retry; nothing is lost.",
            retry=True,
            counts=False,
        )

    def _model_failed(self, result: ResultMessage) -> Outcome:
        status = result.api_error_status
        said = (result.result or "; ".join(result.errors or []) or result.subtype)[:500]
        if result.subtype == "error_max_turns":
            return self.failed(
                "too_many_model_turns", "The agent used all its model turns.", hint="Retry.", retry=True
            )
        if status in (401, 403):
            return self.failed("model_refused", said, hint="Check the model's API key.", retry=True)
        if result.terminal_reason != "api_error":
            return self.failed("engine_failed", said, hint="Retry.", retry=True)
        return self.failed(
            "model_unreachable", said, hint="Retry when the model's API answers again.", retry=True
        )

    def outcome(self, kind: OutcomeKind, **details: Any) -> Outcome:
        """An outcome with what the turn used so far."""
        # Cumulative within this process; every turn begins with an empty config directory, so it
        # does not hold the session's earlier turns (it would with a kept one: facts E35).
        cost = self.result.total_cost_usd if self.result is not None else None
        usage = TurnUsage(
            cost_usd=cost or 0.0,
            model_calls=self.main_calls + len(self.side_calls),
            active_ms=int((time.monotonic() - self.began) * 1000),
        )
        return Outcome(kind=kind, usage=usage, **details)

    def failed(
        self, code: str, message: str, *, hint: str, retry: bool = False, counts: bool = True
    ) -> Outcome:
        """A failure, named for what the reader does next."""
        if not counts:
            self.result = None  # E28: the numbers of such a result are not to be counted
        failure = Failure(code=code, message=message, hint=hint)
        return self.outcome(OutcomeKind.FAILED, failure=failure, retry=retry)

    def stderr_tail(self) -> str:
        """The last lines the agent process wrote to stderr."""
        return " | ".join(self.stderr[-3:])

    def why(self, error: BaseException | None) -> str:
        """One line for a person, without a traceback."""
        return _first_line(error) if error else "The agent process ended without a result."

    def clean_up(self) -> None:
        """Removes this turn's files; the store holds the only lasting transcript."""
        shutil.rmtree(self.config_dir, ignore_errors=True)


def _own_server(gate: Gate) -> Any:
    """Our in-process MCP server: `request_approval`, for a step that is no single tool call."""

    @tool(
        "request_approval",
        "Ask the people in the thread to approve a step before you take it. For steps that are not a "
        "single tool call. Returns their decision, possibly with conditions you must keep to.",
        {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "The step in a few words"},
                "action": {"type": "string", "description": "Exactly what will be done"},
                "context": {"type": "string", "description": "Why, and what could go wrong"},
                "next_steps": {"type": "string", "description": "What you do after approval"},
            },
            "required": ["title", "action"],
        },
    )
    async def request_approval(_arguments: dict[str, Any]) -> dict[str, Any]:
        step = gate.take_step()
        text = step or "No decision is on record. Do not go on with this step."
        return {"content": [{"type": "text", "text": text}], "is_error": step is None}

    return create_sdk_mcp_server("countersign", tools=[request_approval])


def _settings(servers: Mapping[str, Any]) -> str:
    """Ask rules for everything that can have an effect: the second lock (facts E32-E34)."""
    return json.dumps({"permissions": {"ask": [*GATED_TOOLS, *(f"mcp__{name}" for name in servers)]}})


async def _leave(client: ClaudeSDKClient) -> None:
    """Ends the process; its transcript is flushed to the store on the way."""
    try:
        async with asyncio.timeout(20):
            await client.disconnect()
    except Exception as error:  # noqa: BLE001  (the turn's outcome is known; leaving must not change it)
        log.warning("the agent process did not end cleanly: %s", error)


async def _anext(stream: AsyncIterator[Message]) -> Message | None:
    return await anext(stream, None)


def _result_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [part.get("text", "") for part in content or [] if isinstance(part, dict)]
    return "\n".join(part for part in parts if part)


def _retry_words(data: Mapping[str, Any]) -> str:
    attempt, limit = data.get("attempt"), data.get("max_retries")
    return f"{attempt}/{limit}" if attempt and limit else ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
