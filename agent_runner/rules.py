"""Permission rules in Claude Code's own syntax, parsed. `agent_runner.matching` applies them.

| rule | matches |
|---|---|
| `Bash`, `Bash(*)` | every call of the tool |
| `Bash(git status)` | exactly this command |
| `Bash(git push:*)`, `Bash(git push *)` | `git push` with anything or nothing behind it |
| `Bash(npm * --dry-run)` | `*` stands for any text |
| `Read(./secrets/**)`, `Edit(~/notes/*.md)` | paths, see `agent_runner.paths` |
| `WebFetch(domain:example.com)`, `WebFetch(domain:*.example.com)` | a host; the hosts below it |
| `mcp__github`, `mcp__github__*`, `mcp__github__get_*` | tools of an MCP server |
| `Agent(reviewer)`, `Skill(deploy)` | a subagent's type, a skill's name |
| `Limit` | the question whether a job goes on beyond a limit; only for routes |

`Read` rules hold for Glob and Grep as well, `Edit` rules for Write and NotebookEdit. A path rule
does not look into Bash (`cat secrets/key` is a Bash call): that is Claude Code's meaning too, and
a shell has too many ways to name a file for it to be a promise.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from agent_runner.errors import FixConfiguration
from agent_runner.model import LIMIT_TOOL

BUILT_IN = frozenset(
    (
        *("Agent", "AskUserQuestion", "Bash", "BashOutput", "CronCreate", "CronDelete", "CronList"),
        *("Edit", "EnterPlanMode", "EnterWorktree", "ExitPlanMode", "ExitWorktree", "Glob", "Grep"),
        *("KillShell", "LSP", "ListAgents", "ListMcpResourcesTool", "Monitor", "NotebookEdit"),
        *("PowerShell", "Read", "ReadMcpResourceTool", "ReportFindings", "ScheduleWakeup", "SendMessage"),
        *("Skill", "Task", "TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop", "TaskUpdate"),
        *("TodoWrite", "ToolSearch", "WebFetch", "WebSearch", "Workflow", "Write"),
    )
)
"""Tools of the bundled CLI 2.1.332: those it lists at start, and those it documents besides."""

_KNOWN = BUILT_IN | {LIMIT_TOOL}

_CHECKED_BY: Mapping[str, str] = {"Write": "Edit", "NotebookEdit": "Edit", "Glob": "Read", "Grep": "Read"}

FORMS = (
    "allowed are Tool, Bash(git push:*), Bash(npm run *), Read(./secrets/**), Edit(~/notes/**), "
    "WebFetch(domain:example.com), mcp__server__tool, Agent(name)"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule. `specifier` is None for every call of the tool."""

    text: str
    tool: str
    specifier: str | None = None

    @property
    def canonical(self) -> str:
        """Equal for rules that mean the same: `Bash(ls:*)` and `Bash(ls *)`."""
        return self.tool if self.specifier is None else f"{self.tool}({self.specifier})"


@lru_cache(maxsize=4096)
def parse(text: str) -> Rule:
    """The rule; raises `FixConfiguration` with what is allowed, also for a rule that can never match."""
    found = re.fullmatch(r"([^\s()]+)(?:\((.*)\))?", text.strip(), re.DOTALL)
    if not found:
        raise _mistake(text, "is no rule", FORMS)
    tool, specifier = found.group(1), found.group(2)
    if tool.startswith("mcp__"):
        return _parse_mcp(text, tool, specifier)
    if tool not in _KNOWN:
        near = difflib.get_close_matches(tool, _KNOWN, n=1, cutoff=0.5)
        same = [name for name in _KNOWN if name.lower() == tool.lower()] or near
        hint = f"did you mean {same[0]}?" if same else f"tools are {', '.join(sorted(BUILT_IN))} and mcp__*"
        raise _mistake(text, f"can never match: there is no tool {tool}", hint)
    if specifier is None:
        return Rule(text=text, tool=tool)
    if not specifier.strip():
        raise _mistake(text, "has nothing between its parentheses", f"for every call write {tool}")
    if specifier.strip() == "*":
        return Rule(text=text, tool=tool)
    return Rule(text=text, tool=tool, specifier=_specifier(text, tool, specifier.strip()))


def _mistake(text: str, what: str, hint: str) -> FixConfiguration:
    return FixConfiguration(f'the rule "{text}" {what}', hint=hint)


def _parse_mcp(text: str, tool: str, specifier: str | None) -> Rule:
    if not re.fullmatch(r"mcp__(?:\*|[A-Za-z0-9*][A-Za-z0-9_.*-]*)", tool) or tool.endswith("____"):
        hint = "allowed are mcp__*, mcp__server, mcp__server__*, mcp__server__tool"
        raise _mistake(text, "names no MCP server", hint)
    if specifier is not None:
        raise _mistake(text, "can never match: MCP tools take nothing in parentheses", f"write {tool}")
    return Rule(text=text, tool=tool.removesuffix("__"))


def _specifier(text: str, tool: str, specifier: str) -> str:
    """The specifier in its one canonical spelling."""
    match tool:
        case "Bash":
            return _command_specifier(text, specifier)
        case "Read" | "Edit":
            return _path_specifier(text, tool, specifier)
        case "WebFetch":
            if not re.fullmatch(r"domain:(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*", specifier):
                raise _mistake(text, "names no domain", "write WebFetch(domain:example.com)")
            return specifier.lower()
        case "Agent" | "Task" | "Skill":
            return specifier
        case "Write" | "NotebookEdit" | "Glob" | "Grep":
            instead = f"{_CHECKED_BY[tool]}({specifier})"
            raise _mistake(
                text,
                f"can never match: paths of {tool} are checked by {_CHECKED_BY[tool]} rules",
                f"write {instead}",
            )
        case _:
            raise _mistake(text, f"can never match: {tool} takes nothing in parentheses", f"write {tool}")


def _command_specifier(text: str, specifier: str) -> str:
    if specifier.endswith(":*"):
        specifier = specifier[:-2].rstrip() + " *"
    if ":* " in specifier or not specifier.strip(" *"):
        raise _mistake(text, "can never match", "`:*` stands at the end, behind a command: Bash(git push:*)")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", specifier):
        raise _mistake(text, "holds control characters", FORMS)
    return specifier if re.search(r"[\"'\\\n]", specifier) else re.sub(r"[ \t]+", " ", specifier)


def _path_specifier(text: str, tool: str, specifier: str) -> str:
    if specifier.startswith("!"):
        raise _mistake(text, "can never match: a rule cannot take back another", "write it in another list")
    if re.search(r"\{[^}]*,[^}]*\}", specifier):
        raise _mistake(text, "can never match: braces are no wildcard here", "write one rule for each path")
    if ".." in specifier.split("/"):
        hint = f"write {tool}(//absolute/path/**) or {tool}(~/path/**)"
        raise _mistake(text, "can never match: paths are compared without ..", hint)
    if specifier.startswith("~") and not specifier.startswith("~/"):
        raise _mistake(text, "can never match: only ~/ stands for a home directory", f"write {tool}(~/...)")
    if not specifier.strip("/."):
        raise _mistake(text, "names no path", f"for everything in the workspace write {tool}(./**)")
    return specifier
