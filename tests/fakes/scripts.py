"""Scripted models for tests, written as the calls they make one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_runner.messages_request import Answer, Block, HttpError, Request, Script, Text, ToolUse

WRITE = {"command": "echo done >> out.txt", "description": "Write a line"}
"""A Bash input with an effect that can be counted."""


def bash(command: str, tool_use_id: str = "", **more: Any) -> ToolUse:
    """A Bash call; without an id it gets a fresh one when it is made."""
    return ToolUse(tool_use_id, "Bash", {"command": command, **more})


def in_order(*steps: Block | Sequence[Block] | HttpError, end: str = "") -> Script:
    """A model that takes one step for each answer so far, then ends.

    The steps are counted in the conversation itself, so a resume goes on where it stopped. The
    final words quote the last tool result, or are `end`.
    """

    def script(request: Request) -> list[Block] | Answer | HttpError:
        if request.auxiliary:
            return [Text("ok")]
        at = sum(message["role"] == "assistant" for message in request.messages)
        if at >= len(steps):
            return [Text(end or f"The end. {_last(request)}")]
        step = steps[at]
        if isinstance(step, HttpError):
            return step
        blocks = [step] if isinstance(step, Text | ToolUse) else list(step)
        return [_with_id(request, index, block) for index, block in enumerate(blocks)]

    return script


def _with_id(request: Request, index: int, block: Block) -> Block:
    if isinstance(block, ToolUse) and not block.id:
        return ToolUse(request.fresh_id(index), block.name, block.input)
    return block


def _last(request: Request) -> str:
    results = request.last_results
    return results[-1].text if results else request.last_user_text
