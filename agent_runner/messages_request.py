"""What a Messages API request says and what a scripted model may answer to it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

ADDED_BY_CLI = ("<system-reminder>", "Continue from where you left off.", "[Request interrupted")
"""How text begins that the CLI itself puts beside a person's words."""
PLAN_FILE = re.compile(r"/\S+/plans/\S+\.md")
"""The file named in the CLI's plan mode text: `<CLAUDE_CONFIG_DIR>/plans/<slug>.md`."""
HOOK_NOTE = re.compile(r"^\w+:\S+ hook additional context: ", re.MULTILINE)
"""How the CLI introduces a hook's `additionalContext` to the model."""


@dataclass(frozen=True)
class Text:
    """Words of the model."""

    text: str


@dataclass(frozen=True)
class ToolUse:
    """A tool call of the model."""

    id: str
    name: str
    input: Mapping[str, Any]


Block = Text | ToolUse


@dataclass(frozen=True)
class Answer:
    """Blocks of one model answer with the tokens to report for it."""

    blocks: Sequence[Block]
    input_tokens: int = 100
    output_tokens: int = 20


@dataclass(frozen=True)
class HttpError:
    """An error answer; `type` is the API's name for it, e.g. `overloaded_error` with 529."""

    status: int
    type: str
    message: str


@dataclass(frozen=True)
class ToolResult:
    """What the model was told about one of its calls."""

    tool_use_id: str
    text: str
    is_error: bool = False


@dataclass(frozen=True)
class Request:
    """One request to the model, as it came over the wire, with the questions scripts ask."""

    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, oldest first."""
        return list(self.body.get("messages") or [])

    @cached_property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools offered, in the order offered."""
        return tuple(str(tool.get("name", "")) for tool in self.body.get("tools") or [])

    @property
    def system_text(self) -> str:
        """The system prompt as one string."""
        return "\n".join(_texts(self.body.get("system")))

    @property
    def auxiliary(self) -> bool:
        """Whether this is the CLI's own small talk (a title, a summary): it offers no tools."""
        return not self.tool_names

    @cached_property
    def tool_results(self) -> dict[str, ToolResult]:
        """Every result in the conversation, by `tool_use_id`; the last one wins."""
        return {
            block["tool_use_id"]: ToolResult(
                block["tool_use_id"],
                "\n".join(_texts(block.get("content"))),
                bool(block.get("is_error")),
            )
            for message in self.messages
            for block in _blocks(message)
            if block.get("type") == "tool_result"
        }

    @cached_property
    def tool_uses(self) -> list[ToolUse]:
        """Every call the model made, oldest first, with the input as the transcript has it."""
        return _tool_uses(self.messages)

    @property
    def last_user_text(self) -> str:
        """The newest words of a person, without what the CLI added to them; `""` if none."""
        return self._last_prompt[1]

    @property
    def tool_uses_since_prompt(self) -> list[ToolUse]:
        """The calls made since the newest words of a person."""
        return _tool_uses(self.messages[self._last_prompt[0] + 1 :])

    @cached_property
    def hook_notes(self) -> list[str]:
        """What hooks told the model since its last answer."""
        return [
            note.strip()
            for message in self._since_answer
            for text in _texts(message.get("content"))
            for note in HOOK_NOTE.split(text)[1:]
        ]

    @property
    def plan_mode(self) -> bool:
        """Whether the CLI told the model that plan mode is on."""
        return "plan mode is active" in self.text.lower()

    @property
    def plan_file(self) -> str | None:
        """Where the CLI told the model to write its plan; None outside plan mode."""
        found = PLAN_FILE.search(self.text)
        return found[0] if found else None

    @property
    def working_directory(self) -> str:
        """The directory the CLI says it works in; `"."` if it says nothing."""
        found = re.search(r"[Ww]orking directory: (\S.*)", self.system_text + "\n" + self.text)
        return found[1].strip() if found else "."

    @property
    def last_results(self) -> list[ToolResult]:
        """The tool results since the model's last answer."""
        blocks = [block for message in self._since_answer for block in _blocks(message)]
        return [self.tool_results[b["tool_use_id"]] for b in blocks if b.get("type") == "tool_result"]

    @property
    def text(self) -> str:
        """Every word of the conversation, for asserting that something is in it, or is not."""
        return "\n".join(text for message in self.messages for text in _all_texts(message))

    def fresh_id(self, index: int = 0) -> str:
        """A tool_use id for the answer: the same for the same request, another for any other."""
        seed = json.dumps([self.body.get("metadata"), self.messages, index], sort_keys=True)
        return "toolu_" + hashlib.sha256(seed.encode()).hexdigest()[:24]

    @property
    def _since_answer(self) -> list[dict[str, Any]]:
        spoken = [i for i, message in enumerate(self.messages) if message.get("role") == "assistant"]
        return self.messages[spoken[-1] + 1 :] if spoken else self.messages

    @cached_property
    def _last_prompt(self) -> tuple[int, str]:
        for position in range(len(self.messages) - 1, -1, -1):
            message = self.messages[position]
            if message.get("role") != "user":
                continue
            words = [t for t in _texts(message.get("content")) if not t.lstrip().startswith(ADDED_BY_CLI)]
            if words:
                return position, "\n".join(words).strip()
        return -1, ""


Reply = Sequence[Block] | Answer | HttpError
Script = Callable[[Request], Reply]


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _texts(content: Any) -> list[str]:
    """The text of a string, or of the text blocks of a list."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [str(b.get("text", "")) for b in content if isinstance(b, dict) and b.get("type") == "text"]


def _all_texts(message: Mapping[str, Any]) -> Iterator[str]:
    yield from _texts(message.get("content"))
    for block in _blocks(message):
        if block.get("type") == "tool_result":
            yield from _texts(block.get("content"))
        elif block.get("type") == "tool_use":
            yield json.dumps(block.get("input"), ensure_ascii=False)


def _tool_uses(messages: Sequence[Mapping[str, Any]]) -> list[ToolUse]:
    return [
        ToolUse(block["id"], block["name"], block["input"])
        for message in messages
        for block in _blocks(message)
        if block.get("type") == "tool_use"
    ]
