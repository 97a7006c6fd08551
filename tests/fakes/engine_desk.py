"""The SDK and its bundled CLI on a desk of their own: one scripted model, one workspace, two locks.

Nothing of ours runs here: the contract tests measure the engine itself.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    InMemorySessionStore,
    Message,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    ToolPermissionContext,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    tool,
)

from agent_runner.messages_api import Block, MessagesServer, Request, Script, Text, ToolResult, ToolUse

HANG = 180.0
"""Seconds after which a turn counts as hanging; it takes about one, many more on a busy machine."""
AT_ONCE = 4
"""Resumes of one paused session that run at the same time."""
ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "sk-ant-not-a-key",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
}
TOOLS = (
    "Bash", "Read", "Write", "Edit", "Glob", "Grep", "NotebookEdit", "WebFetch", "WebSearch",
    "AskUserQuestion", "ExitPlanMode", "Agent",
)  # fmt: skip
"""A whitelist; without one the CLI hides MCP tools behind its tool search."""
NOTE = "mcp__desk__note"
"""The in-process MCP tool of the desk: it keeps what it was given in `Desk.notes`."""

Output = dict[str, Any]
Hook = Callable[[Mapping[str, Any]], Output]
"""From the hook's input to its output; may raise."""
Permission = PermissionResultAllow | PermissionResultDeny
CanUseTool = Callable[[str, dict[str, Any], ToolPermissionContext], Permission]


def decide(decision: str, reason: str = "", **more: Any) -> Output:
    """A PreToolUse answer."""
    said = {"permissionDecisionReason": reason} if reason else {}
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": decision,
            **said,
            **more,
        }
    }


def defer(_: Mapping[str, Any]) -> Output:
    """Stop here and ask a person."""
    return decide("defer")


def allow(_: Mapping[str, Any]) -> Output:
    """Let it run."""
    return decide("allow")


def no_opinion(_: Mapping[str, Any]) -> Output:
    """Leave it to the other lock."""
    return {}


def deny(reason: str) -> Hook:
    """Refuse with this reason."""
    return lambda _: decide("deny", reason)


def by_id(default: Hook, **hooks: Hook) -> Hook:
    """Another answer for some `tool_use_id`s."""
    return lambda data: hooks.get(data["tool_use_id"], default)(data)


def can_allow(_name: str, _input: dict[str, Any], _context: ToolPermissionContext) -> Permission:
    """The second lock says yes."""
    return PermissionResultAllow()


def can_deny(_name: str, _input: dict[str, Any], _context: ToolPermissionContext) -> Permission:
    """The second lock says no."""
    return PermissionResultDeny(message="The second lock says no.")


def can_answer(answers: dict[str, str]) -> CanUseTool:
    """The second lock says yes and gives the answers to a question."""
    return lambda _name, asked, _context: PermissionResultAllow(
        updated_input={"questions": asked["questions"], "answers": answers}
    )


def says(*turns: Sequence[Block]) -> Script:
    """A model that gives these answers in order, one per round of calls, and then "done"."""

    def script(request: Request) -> Sequence[Block]:
        given = sum(message.get("role") == "assistant" for message in request.messages)
        return turns[given] if given < len(turns) else [Text("done")]

    return script


def bash(call_id: str, command: str) -> ToolUse:
    """A Bash call."""
    return ToolUse(call_id, "Bash", {"command": command})


@dataclass(frozen=True)
class Asked:
    """One question of the CLI to one of the two locks."""

    lock: str
    tool_use_id: str
    tool_name: str
    input: Mapping[str, Any]
    in_subagent: bool


@dataclass(frozen=True)
class Turn:
    """What one run of the CLI said."""

    messages: Sequence[Message]

    @property
    def results(self) -> list[ResultMessage]:
        """Every result message."""
        return [message for message in self.messages if isinstance(message, ResultMessage)]

    @property
    def result(self) -> ResultMessage:
        """The one result message; it is an error if there are more."""
        (result,) = self.results
        return result

    @property
    def deferred(self) -> tuple[str, str, Mapping[str, Any]] | None:
        """Id, tool and input of the call this turn stopped at."""
        call = self.result.deferred_tool_use
        return (call.id, call.name, call.input) if call else None

    @property
    def session_id(self) -> str:
        """The session, to resume it."""
        return self.results[-1].session_id

    @property
    def streamed(self) -> dict[str, Mapping[str, Any]]:
        """The input of every call as the stream showed it."""
        return {
            block.id: block.input
            for message in self.messages
            if isinstance(message, AssistantMessage)
            for block in message.content
            if isinstance(block, ToolUseBlock)
        }

    @property
    def tool_results(self) -> dict[str, Any]:
        """Content of every tool result in the stream."""
        return {
            block.tool_use_id: block.content
            for message in self.messages
            if isinstance(message, UserMessage) and not isinstance(message.content, str)
            for block in message.content
            if isinstance(block, ToolResultBlock)
        }

    @property
    def model_calls(self) -> int:
        """Messages API calls as the stream tells them: main thread, then subagents."""
        started = [
            message
            for message in self.messages
            if isinstance(message, StreamEvent) and message.event["type"] == "message_start"
        ]
        aside = {
            message.message_id
            for message in self.messages
            if isinstance(message, AssistantMessage) and message.parent_tool_use_id
        }
        return len(started) + len(aside)

    def system(self, subtype: str) -> list[dict[str, Any]]:
        """The data of the system messages of one kind."""
        return [
            message.data
            for message in self.messages
            if isinstance(message, SystemMessage) and message.subtype == subtype
        ]


@dataclass
class Desk:
    """One workspace and one model; turns run one after another, or several with `gather`."""

    server: MessagesServer
    root: Path
    asked: list[Asked] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cwd.mkdir(parents=True, exist_ok=True)

    @property
    def cwd(self) -> Path:
        """The workspace."""
        return self.root / "workspace"

    def read(self, name: str) -> str | None:
        """A file of the workspace; None if it is not there."""
        path = self.cwd / name
        return path.read_text() if path.exists() else None

    def told(self, tool_use_id: str) -> ToolResult | None:
        """What the model was told about that call, in its newest request."""
        return self.server.calls[-1].tool_results.get(tool_use_id)

    def locks(self, tool_use_id: str) -> list[str]:
        """Which locks were asked about that call, in order."""
        return [asked.lock for asked in self.asked if asked.tool_use_id == tool_use_id]

    def options(
        self,
        *,
        hook: Hook | None = None,
        can: CanUseTool | None = can_deny,
        ask: Sequence[str] = ("Bash", NOTE),
        config: str = "config",
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> ClaudeAgentOptions:
        """Options as an engine that fails closed has them, unless a test says otherwise."""
        settings: dict[str, Any] = {
            "cwd": self.cwd,
            "tools": list(TOOLS),
            "permission_mode": "default",
            "setting_sources": [],
            "strict_mcp_config": True,
            "mcp_servers": {"desk": self._mcp_server()},
            "settings": json.dumps({"permissions": {"ask": list(ask)}}),
            "env": {
                **ENVIRONMENT,
                "ANTHROPIC_BASE_URL": self.server.url,
                "CLAUDE_CONFIG_DIR": str(self.root / config),
                "HOME": str(self.root),  # not a real one: every Bash begins with its login files
                **(env or {}),
            },
            "can_use_tool": self._second_lock(can) if can else None,
            "hooks": {"PreToolUse": [HookMatcher(hooks=[self.first_lock(hook)], timeout=60)]}
            if hook
            else None,
        }
        return ClaudeAgentOptions(**{**settings, **more})

    def turn(self, prompt: str | None = None, *, within: float = HANG, **options: Any) -> Turn:
        """Runs one turn to its result; without a prompt it replays the deferred call."""
        return asyncio.run(self.turn_async(prompt, within=within, **options))

    async def turn_async(self, prompt: str | None = None, *, within: float = HANG, **options: Any) -> Turn:
        """`turn` for tests that do something meanwhile."""
        seen: list[Message] = []
        async with asyncio.timeout(within), ClaudeSDKClient(self.options(**options)) as client:
            if prompt is not None:
                await client.query(prompt)
            async for message in client.receive_response():
                seen.append(message)
        return Turn(seen)

    def first_lock(self, hook: Hook) -> Any:
        """The hook as the SDK wants it, keeping what it was asked."""

        async def callback(data: Any, tool_use_id: str | None, _context: Any) -> Any:
            self._keep("hook", data["tool_use_id"], data["tool_name"], data["tool_input"], "agent_id" in data)
            assert data["tool_use_id"] == tool_use_id
            return hook(data)

        return callback

    def _second_lock(self, can: CanUseTool) -> Any:
        async def callback(
            name: str, tool_input: dict[str, Any], context: ToolPermissionContext
        ) -> Permission:
            self._keep("can_use_tool", str(context.tool_use_id), name, tool_input, bool(context.agent_id))
            return can(name, tool_input, context)

        return callback

    def _keep(self, lock: str, call_id: str, name: str, tool_input: Mapping[str, Any], aside: bool) -> None:
        self.asked.append(Asked(lock, call_id, name, dict(tool_input), aside))

    def _mcp_server(self) -> Any:
        @tool("note", "Keeps a note.", {"text": str})
        async def note(arguments: dict[str, Any]) -> dict[str, Any]:
            self.notes.append(arguments["text"])
            return {"content": [{"type": "text", "text": f"noted: {arguments['text']}"}]}

        return create_sdk_mcp_server("desk", tools=[note])


class Paused:
    """A session that was stopped at its first call, to be resumed in several ways.

    Every resume has its own copy of the store and its own config directory, as on another worker.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.store = InMemorySessionStore()
        self.turn = desk.turn("go", hook=defer, session_store=self.store)

    def resume(self, ways: Sequence[Mapping[str, Any]]) -> list[Turn]:
        """One turn per set of options, a few at once, in the order given."""

        async def one(number: int, way: Mapping[str, Any], free: asyncio.Semaphore) -> Turn:
            async with free:
                return await self.desk.turn_async(
                    resume=self.turn.session_id,
                    session_store=copy.deepcopy(self.store),
                    config=f"worker-{number}",
                    **way,
                )

        async def every() -> list[Turn]:
            free = asyncio.Semaphore(AT_ONCE)
            return list(await asyncio.gather(*(one(number, way, free) for number, way in enumerate(ways))))

        return asyncio.run(every())
