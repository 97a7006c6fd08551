"""What the engine is started with: tools, permissions, both locks, environment, launcher.

With `engine` and `transcripts` the home of claude_agent_sdk.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import claude_agent_sdk
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
    create_sdk_mcp_server,
    tool,
)

from agent_runner import briefs, launcher
from agent_runner.brake import Brake
from agent_runner.gate import Gate
from agent_runner.limits import Bound
from agent_runner.model import Limit
from agent_runner.transcripts import RedisTranscripts

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
"""Time for the gate to answer, beside the time for people; a later answer counts as a no (E22)."""


BUNDLED_CLI = str(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")


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
    bounds: tuple[Bound, ...] = ()
    """The limits that hold, with what is left of them."""
    opening: str = ""
    """The words the job was asked for with, for a turn that finds no conversation yet."""
    connect_seconds: float = 60.0
    first_sign_seconds: float = 60.0
    """How long a replayed call may go without asking or saying anything (measured: under 1 s)."""
    live_seconds: float = 900.0
    """How long a hook may wait for people: for the call of a subagent, which cannot be deferred (E15)."""
    idle_seconds: float = 900.0
    turn_seconds: float = 3600.0
    scratch: Path = Path()
    """Where the engine may keep files while the turn runs; outside the workspace."""
    cli_path: str = BUNDLED_CLI

    def bound(self, limit: Limit) -> Bound | None:
        """One of the limits, if it holds."""
        return next((bound for bound in self.bounds if bound.limit is limit), None)


def options(
    spec: TurnSpec,
    gate: Gate,
    transcripts: RedisTranscripts,
    *,
    known: bool,
    brake: Brake,
    config_dir: Path,
    stderr: Callable[[str], None],
) -> ClaudeAgentOptions:
    """The SDK's options for one turn. `known`: whether the session has a transcript to resume."""
    calls = spec.bound(Limit.MODEL_TURNS)
    servers = {**spec.mcp_servers, "countersign": _own_server(gate)}
    locks = _Locks(gate)
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
        can_use_tool=locks.can_use_tool,
        hooks={  # the ignore: an event that the SDK's types leave out
            "PreToolUse": [_first_lock(locks, spec)],
            "PostToolBatch": [HookMatcher(hooks=[brake.hook], timeout=HOOK_SECONDS)],  # type: ignore[dict-item,list-item]
        },
        env=_environment(spec, config_dir),
        model=spec.model or None,
        max_turns=max(1, math.ceil(calls.left)) if calls else None,
        include_partial_messages=True,
        forward_subagent_text=True,  # else the last answer of a subagent is not counted
        session_store=transcripts,
        session_store_flush="eager",
        stderr=stderr,
        cli_path=_launcher(config_dir),
    )


def _first_lock(locks: _Locks, spec: TurnSpec) -> HookMatcher:
    seconds = HOOK_SECONDS + spec.live_seconds
    return HookMatcher(hooks=[locks.hook], timeout=seconds, on_failure="block")  # type: ignore[list-item]  # the SDK's union of hook inputs


class _Locks:
    """The two locks, both asking the same gate."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def hook(self, data: Any, tool_use_id: str | None, _context: Any) -> dict[str, Any]:
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

    async def can_use_tool(
        self, name: str, tool_input: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """The second lock, asked for everything under an `ask` rule."""
        ruling = await self.gate.rule(name, tool_input, context.tool_use_id or "", context.agent_id)
        if ruling.effect == "allow":
            changed = dict(ruling.updated_input) if ruling.updated_input is not None else None
            return PermissionResultAllow(updated_input=changed)
        return PermissionResultDeny(message=ruling.reason or briefs.one_at_a_time())


def _environment(spec: TurnSpec, config_dir: Path) -> dict[str, str]:
    """What the agent process sees: exactly this, whatever the worker's own environment holds."""
    seen = {**BASE_ENVIRONMENT, **spec.environment, "CLAUDE_CONFIG_DIR": str(config_dir)}
    keep = ",".join((*seen, *KEPT_NAMES))
    return {**seen, "COUNTERSIGN_CLI": spec.cli_path, "COUNTERSIGN_KEEP": keep}


def _launcher(config_dir: Path) -> str:
    """An executable in the CLI's place that runs `launcher` with this Python."""
    command = shlex.join([sys.executable, "-I", "-S", launcher.__file__])
    path = config_dir / "start"
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o700)
    return str(path)


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
