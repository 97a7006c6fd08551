"""Runs or resumes one turn of the agent and says how it ended. The one home of claude_agent_sdk.

The rules it keeps were measured against the bundled CLI (tests/agent_runner/test_engine_contract.py
repeats the measurements): a deferred call is resumed without a prompt; both locks ask the same
gate; our own in-process MCP server is always there, else a resume may ask nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    CLIConnectionError,
    CLINotFoundError,
    Message,
    MirrorErrorMessage,
    ProcessError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from agent_runner import briefs, engine_setup
from agent_runner.brake import Brake
from agent_runner.engine_setup import TurnSpec
from agent_runner.gate import PLAN_TOOL, Gate
from agent_runner.meter import Meter
from agent_runner.model import (
    OUTPUT_KEPT,
    DeferredCall,
    Failure,
    Limit,
    Outcome,
    OutcomeKind,
    Reached,
)
from agent_runner.transcripts import RedisTranscripts

log = logging.getLogger(__name__)

STOP_POLL = 0.5
"""Seconds between looks at whether somebody asked to stop, and at the watchdogs."""


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
        self.last_sign = time.monotonic()
        self.started = False
        self.replaying = False
        self.words = ""
        self.streamed: dict[str, dict[str, Any]] = {}
        self.result: ResultMessage | None = None
        self.not_mirrored = False
        self.stderr: list[str] = []
        self.meter = Meter(lambda: gate.waited)
        self.brake = Brake(spec.bounds, self.meter.used)
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
        elif prompt is not None and not known and spec.opening not in ("", prompt):
            prompt = f"{spec.opening}\n\n{prompt}"  # the first turn failed before it was on any transcript
        await self.transcripts.ensure_loadable(spec.cwd, spec.session_id)
        return await self._converse(known=known, pending=pending, prompt=prompt)

    async def _is_pending(self, tool_use_id: str) -> bool:
        where = (self.spec.cwd, self.spec.session_id, tool_use_id)
        return await self.transcripts.has_call(*where) and not await self.transcripts.has_result(*where)

    async def _converse(self, *, known: bool, pending: bool, prompt: str | None) -> Outcome:
        client = self.meter.client = ClaudeSDKClient(
            engine_setup.options(
                self.spec,
                self.gate,
                self.transcripts,
                known=known,
                brake=self.brake,
                config_dir=self.config_dir,
                stderr=self._keep_stderr,
            )
        )
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
                self.replaying = True
                await self._listen(client)
                self.replaying = False
                self.gate.reopen()
            if prompt is not None:
                await client.query(prompt)
                await self._listen(client)
        finally:
            self.gate.close(briefs.not_run("this turn is being ended."))  # ends what still waits for people
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
        if self.gate.waiting:
            self.last_sign = now  # waiting for people is no inactivity (A11)
        # A replayed call that asks nobody and says nothing is a hang (E5); one that was asked about
        # may be a command that runs for many minutes without a message.
        replaying = self.replaying and not self.started and not self.gate.asked
        patience = self.spec.first_sign_seconds if replaying else self.spec.idle_seconds
        if now - self.last_sign > patience:
            raise _Watchdog(f"The agent gave no sign of life for {int(now - self.last_sign)} seconds.")
        worked = self.meter.worked
        if worked > self.spec.turn_seconds:
            raise _Watchdog(f"The agent worked for {int(worked)} seconds, the limit of one turn.")

    # --- messages ------------------------------------------------------------------------

    async def _take(self, message: Message) -> None:
        match message:
            case ResultMessage():
                self.result = message
            case StreamEvent():
                if message.event.get("type") == "message_start":
                    self.meter.main_calls += 1
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
            self.meter.side_calls.add(message.message_id)  # subagents send no stream events
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
        reached = self._reached(result)
        if reached is not None:
            return self._limited(reached)
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

    def _reached(self, result: ResultMessage) -> Reached | None:
        """The limit that ended the run, if one did."""
        if result.terminal_reason == "hook_stopped":
            return self.brake.reached
        calls = self.spec.bound(Limit.MODEL_TURNS)
        ended = calls is not None and result.subtype == "error_max_turns"
        return calls.reached(self.meter.model_calls) if calls and ended else None

    def _limited(self, reached: Reached) -> Outcome:
        if self.not_mirrored:
            return self.failed(
                "transcript_missing", "The conversation could not be stored; it cannot wait.", hint="Retry."
            )
        return self.outcome(OutcomeKind.LIMITED, result=self.words, limit=reached)

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
        if status in (401, 403):
            return self.failed("model_refused", said, hint="Check the model's API key.", retry=True)
        if result.terminal_reason != "api_error":
            return self.failed("engine_failed", said, hint="Retry.", retry=True)
        return self.failed(
            "model_unreachable", said, hint="Retry when the model's API answers again.", retry=True
        )

    def outcome(self, kind: OutcomeKind, **details: Any) -> Outcome:
        """An outcome with what the turn used so far."""
        if self.result is not None:
            self.meter.cost = max(self.meter.cost, self.result.total_cost_usd or 0.0)
        return Outcome(kind=kind, usage=self.meter.usage(), **details)

    def failed(
        self, code: str, message: str, *, hint: str, retry: bool = False, counts: bool = True
    ) -> Outcome:
        """A failure, named for what the reader does next."""
        if not counts:  # E28: the numbers of such a result are not to be counted
            self.result, self.meter.cost = None, 0.0
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
