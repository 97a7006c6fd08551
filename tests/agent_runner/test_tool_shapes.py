"""What an edit may do to a tool's input, and that the table of fields is the engine's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_runner.engine_setup import GATED_TOOLS
from agent_runner.errors import Unfit
from agent_runner.messages_api import MessagesServer
from agent_runner.tool_shapes import LARGEST, SHAPES, Shape, check
from tests.fakes.engine_desk import Desk, allow, says

BASH = {"command": "make", "timeout": 5}
GREP = {"pattern": "x", "-n": True}
MCP = {"sql": "select 1", "n": 5, "none": None, "ids": [1, 2]}

FITS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Bash", BASH, {"command": "make -n"}),
    ("Bash", BASH, {**BASH, "description": "Build"}),
    ("Bash", BASH, {**BASH, "timeout": 2.5}),
    ("Bash", {**BASH, "run_in_background": True}, {**BASH, "run_in_background": False}),
    ("Grep", GREP, {**GREP, "output_mode": "count", "-C": 3}),
    ("Read", {"file_path": "a"}, {"file_path": "a", "offset": 0}),
    ("WebSearch", {"query": "x"}, {"query": "x", "allowed_domains": ["example.com"]}),
    ("mcp__db__query", MCP, {**MCP, "n": 5.5, "ids": []}),
    ("mcp__db__query", MCP, {"sql": "select 2", "n": 5, "ids": [1]}),
    ("mcp__db__query", MCP, {**MCP, "more": LARGEST}),
]


@pytest.mark.parametrize(("tool", "before", "edited"), FITS)
def test_what_fits(tool: str, before: dict[str, Any], edited: dict[str, Any]) -> None:
    """Known fields may come and optional ones go; of other tools, what was null may."""
    check(tool, before, edited)


WRONG: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("Bash", BASH, {**BASH, "shell": "zsh"}, "field_unknown", "Bash has no field shell."),
    ("Bash", BASH, {"timeout": 5}, "field_missing", "Field command is missing."),
    ("Bash", BASH, {**BASH, "timeout": "5"}, "field_type", "Field timeout must stay a number, not a text."),
    ("Bash", BASH, {**BASH, "timeout": None}, "field_type", "Field timeout must stay a number, not null."),
    (
        *("Bash", BASH, {**BASH, "description": 7}, "field_type"),
        "Field description must stay a text, not a number.",
    ),
    ("Bash", {**BASH, "odd": 1}, BASH, "field_missing", "Field odd is missing."),
    (
        *("Read", {"file_path": "a"}, {"file_path": "a", "limit": 1.5}, "field_type"),
        "Field limit must stay a whole number, not a number.",
    ),
    (
        *("Read", {"file_path": "a"}, {"file_path": "a", "limit": True}, "field_type"),
        "Field limit must stay a whole number, not a yes or no.",
    ),
    ("Grep", GREP, {**GREP, "output_mode": "all"}, "field_choice", "Field output_mode cannot be 'all'."),
    (
        *("WebSearch", {"query": "x"}, {"query": "x", "allowed_domains": [1]}, "field_type"),
        "Field allowed_domains must stay a list of texts, not a list.",
    ),
    ("Bash", BASH, {**BASH, "timeout": 2**53}, "field_number", "The number in field timeout is too large."),
    (
        "mcp__db__query",
        MCP,
        {**MCP, "ids": [-(2**53)]},
        "field_number",
        "The number in field ids is too large.",
    ),
    ("mcp__db__query", MCP, {**MCP, "ids": {}}, "field_type", "Field ids must stay a list, not an object."),
    ("mcp__db__query", MCP, {**MCP, "none": 1}, "field_type", "Field none must stay null, not a number."),
    (
        *("mcp__db__query", MCP, {key: value for key, value in MCP.items() if key != "n"}),
        *("field_missing", "Field n is missing."),
    ),
]


@pytest.mark.parametrize(("tool", "before", "edited", "why", "message"), WRONG)
def test_what_does_not_fit(
    tool: str, before: dict[str, Any], edited: dict[str, Any], why: str, message: str
) -> None:
    """The field is named, with what it takes."""
    with pytest.raises(Unfit) as caught:
        check(tool, before, edited)
    assert (caught.value.why, caught.value.message) == (why, message)


@pytest.mark.engine
def test_the_table_is_what_the_engine_offers(tmp_path: Path) -> None:
    """Field by field, of every built-in tool that people can edit."""
    with MessagesServer(says([])) as server:
        Desk(server, tmp_path).turn("go", hook=allow, tools=list(GATED_TOOLS))
        offered = {tool["name"]: tool["input_schema"] for tool in server.calls[0].body["tools"]}
    edited = set(GATED_TOOLS) - {"AskUserQuestion", "ExitPlanMode"}
    assert {name: _shapes(offered[name]) for name in edited} == SHAPES


def _shapes(schema: dict[str, Any]) -> dict[str, Shape]:
    words = {"string": "a text", "number": "a number", "integer": "a whole number", "boolean": "a yes or no",
             "array": "a list of texts"}  # fmt: skip
    assert schema["additionalProperties"] is False
    return {
        name: Shape(words[field["type"]], name in schema["required"], tuple(field.get("enum", ())))
        for name, field in schema["properties"].items()
    }
