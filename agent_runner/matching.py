"""Whether a rule matches a tool call, with opposite errors for opposite uses.

`stops` (deny, ask, routes) says yes if any part of the call might match; `allowing` says yes
only if every part surely does. What is neither is asked.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from agent_runner import bash, bash_reader, paths, wrappers
from agent_runner.model import Value
from agent_runner.rules import Rule

_PATH_FIELD: Mapping[str, str] = {
    "Read": "file_path",
    "Glob": "path",
    "Grep": "path",
    "Edit": "file_path",
    "Write": "file_path",
    "NotebookEdit": "notebook_path",
}
_SEARCHES = ("Glob", "Grep")
_FAMILY: Mapping[str, frozenset[str]] = {
    "Bash": frozenset({"Bash", "Monitor"}),
    "Read": frozenset({"Read", "Glob", "Grep"}),
    "Edit": frozenset({"Edit", "Write", "NotebookEdit"}),
    "Agent": frozenset({"Agent", "Task"}),
    "Task": frozenset({"Agent", "Task"}),
}
"""Which tools a rule's tool speaks for. Monitor runs a shell command; Task is Agent's other name."""

_NAME_FIELD: Mapping[str, str] = {"Agent": "subagent_type", "Task": "subagent_type", "Skill": "skill"}

_ANYTHING_IN_IT = "\0"
"""Stands for a file in a searched directory: no pattern but a wildcard matches it."""

_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?(?:[/?#][^\\\s\x00-\x1f]*)?", re.IGNORECASE)
"""URLs about whose host no two readers disagree: no user name, no backslash, no blanks."""


class Call(Value):
    """One tool call as the policy sees it. Paths, in it and in rules, are relative to `cwd`."""

    tool_name: str
    tool_input: dict[str, Any]
    cwd: str
    """The directory of the workspace."""
    workspace: str
    """Its name."""
    agent_id: str | None = None
    """Set if a subagent makes the call."""


def stops(rule: Rule, call: Call) -> bool:
    """Whether any part of the call might match: the way of deny, ask and routes."""
    if not speaks_of(rule, call.tool_name):
        return False
    if rule.specifier is None:
        return True
    match rule.tool:
        case "Bash":
            return _bash_stops(rule.specifier, call.tool_input.get("command"))
        case "Read" | "Edit":
            return any(paths.matches(rule.specifier, p, call.cwd, lenient=True) for p in _paths(call))
        case "WebFetch":
            return _domain_stops(rule.specifier, call.tool_input.get("url"))
        case _:
            return _covers(rule.specifier, _name(rule.tool, call), lenient=True)


def allowing(rules: Iterable[Rule], call: Call) -> tuple[Rule, ...]:
    """The rules that together allow every part of the call; empty if a part is left over."""
    candidates = [rule for rule in rules if speaks_of(rule, call.tool_name)]
    for rule in candidates:
        if rule.specifier is None or _allows_alone(rule, call):
            return (rule,)
    if call.tool_name in _FAMILY["Bash"]:
        return _bash_allowing(candidates, call.tool_input.get("command"))
    return ()


def may_reach(rule: Rule, call: Call) -> bool:
    """Whether a search could show what a `Read` rule stops somewhere below the searched directory."""
    if rule.tool != "Read" or rule.specifier is None or call.tool_name not in _SEARCHES:
        return False
    roots = [posixpath.dirname(path) or "/" for path in _paths(call)]
    return not roots or any(paths.may_lie_below(rule.specifier, root, call.cwd) for root in roots)


def never_allows(rule: Rule) -> str:
    """Why this rule, as an allow rule, can never take effect; empty if it can."""
    spec = rule.specifier
    if rule.tool != "Bash" or spec is None or "*" not in spec:
        return ""
    plain = bash_reader.read(spec.replace("*", "x")).plain
    if plain is None:
        return (
            "it holds something that is always asked about (an expansion, a file redirection, shell "
            "text, a leading wildcard of the shell); write the exact command without *, or ask"
        )
    if len(plain) > 1:
        return "a command line is allowed command by command; write one rule for each command"
    if not _command_allowed(plain[0], [rule]):
        return (
            f"a wildcard may not choose what {plain[0].name} runs; spell it out up to the inner "
            "command, such as Bash(sudo systemctl status *), or write the exact command"
        )
    return ""


def touched(call: Call) -> tuple[str, ...]:
    """All faces of the path that a file tool's call touches; of a search, of anything in its directory."""
    return _paths(call)


def speaks_of(rule: Rule, tool_name: str) -> bool:
    """Whether the rule speaks of this tool."""
    if not rule.tool.startswith("mcp__"):
        return tool_name in _FAMILY.get(rule.tool, (rule.tool,))
    if "*" in rule.tool:
        return _covers(rule.tool, tool_name, lenient=False)
    return tool_name == rule.tool or tool_name.startswith(rule.tool + "__")


def _name(tool: str, call: Call) -> str:
    value = call.tool_input.get(_NAME_FIELD[tool])
    return value if isinstance(value, str) and value else "general-purpose" if tool != "Skill" else ""


def _allows_alone(rule: Rule, call: Call) -> bool:
    """For every tool but Bash one rule has to match the whole call."""
    spec = rule.specifier or ""
    match rule.tool:
        case "Bash":
            return False
        case "Read" | "Edit":
            found = _paths(call)
            return bool(found) and all(paths.matches(spec, p, call.cwd, lenient=False) for p in found)
        case "WebFetch":
            url = call.tool_input.get("url")
            if not isinstance(url, str) or not _PLAIN_URL.fullmatch(url):
                return False
            return _host_in(spec.removeprefix("domain:"), _host(url), below=False)
        case _:
            return _covers(spec, _name(rule.tool, call), lenient=False)


def _paths(call: Call) -> tuple[str, ...]:
    """All faces of the path a call touches; of a search, of anything in the searched directory."""
    given = call.tool_input.get(_PATH_FIELD.get(call.tool_name, ""))
    if call.tool_name not in _SEARCHES:
        return paths.faces(given, call.cwd) if isinstance(given, str) and given else ()
    root = given if isinstance(given, str) else ""
    pattern = call.tool_input.get("pattern") if call.tool_name == "Glob" else ""
    below = paths.search_root(pattern) if isinstance(pattern, str) else None
    if below is None:
        return ()
    directory = posixpath.join(root, below)
    return tuple(posixpath.join(face, _ANYTHING_IN_IT) for face in paths.faces(directory, call.cwd))


def _host(url: str) -> str:
    try:
        host = urlsplit(url.strip()).hostname or ""
        return host.rstrip(".").encode("idna").decode() if host else ""
    except (UnicodeError, ValueError):
        return ""


def _host_in(domain: str, host: str, *, below: bool) -> bool:
    """`*.example.com` is every host below it; with `below`, so is `example.com`."""
    bare = domain.removeprefix("*.")
    wild = below or bare != domain
    return (host == bare and (below or bare == domain)) or (wild and host.endswith("." + bare))


def _domain_stops(specifier: str, url: Any) -> bool:
    if not isinstance(url, str):
        return False
    domain = specifier.removeprefix("domain:")
    if _host_in(domain, _host(url), below=True):
        return True
    return not _PLAIN_URL.fullmatch(url) and domain.removeprefix("*.") in url.lower()


def _covers(pattern: str, text: str, *, lenient: bool) -> bool:
    """`*` is any text. A ` *` at the end may also be nothing if it is the only wildcard, or if lenient."""
    if pattern.endswith(" *") and (lenient or pattern.count("*") == 1) and _glob(pattern[:-2], text):
        return True
    return _glob(pattern, text)


def _glob(pattern: str, text: str) -> bool:
    """Leftmost matching, piece by piece: no backtracking, so no input makes it slow."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    last = rest.pop()
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in rest:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _bash_stops(specifier: str, command: Any) -> bool:
    if not isinstance(command, str):
        return False
    patterns = dict.fromkeys((specifier, re.sub(r"[\"'\\]", "", specifier)))
    script = bash_reader.read(command)
    texts = {command.strip(), " ".join(command.split())}
    for found in script.commands:
        texts.update(_spellings(found))
    if any(_covers(pattern, text, lenient=True) for pattern in patterns for text in texts):
        return True
    return script.uncertain and _occurs(specifier, script.raw_words)


def _spellings(command: bash.Command) -> Iterator[str]:
    """The command in every spelling that a rule's author may have had in mind.

    Options in front of a subcommand are left out in turn, with and without a value, so that
    `git -C /srv push` is seen as `git push`.
    """
    yield command.source
    if command.assignments:
        yield f"{command.assignments} {command.source}"
    for name in dict.fromkeys((*command.words[:1], command.name)):
        yield " ".join((name, *command.words[1:]))
        for at in wrappers.starts(command.words):
            yield " ".join((name, *command.words[at:]))


def _occurs(specifier: str, words: Sequence[str]) -> bool:
    """The last net, for text that is not understood: the words before the first `*`, in a row."""
    literal = specifier.split("*", 1)[0]
    wanted = list(bash.split_raw(literal))
    if not wanted:
        return _covers(f"*{specifier.strip('* ')}*", " ".join(words), lenient=True)
    open_end = "*" in specifier and not literal.endswith((" ", "/"))
    for at in range(len(words) - len(wanted) + 1):
        *body, tail = words[at : at + len(wanted)]
        if body == wanted[:-1] and (tail == wanted[-1] or (open_end and tail.startswith(wanted[-1]))):
            return True
    return False


def _bash_allowing(rules: Sequence[Rule], command: Any) -> tuple[Rule, ...]:
    if not isinstance(command, str):
        return ()
    for rule in rules:
        if rule.specifier == command.strip() and "*" not in rule.specifier:
            return (rule,)
    used = [_command_allowed(found, rules) for found in bash_reader.read(command).plain or ()]
    return tuple(dict.fromkeys(rule for rule in used if rule)) if all(used) else ()


def _command_allowed(command: bash.Command, rules: Sequence[Rule]) -> Rule | None:
    """The first rule that allows this simple command."""
    front = f"{command.assignments} " if command.assignments else ""
    spelled = wrappers.to_be_spelled(command.words)
    for rule in rules:
        specifier = rule.specifier or ""
        literal = specifier.split("*", 1)[0]
        exact = "*" not in specifier
        if not literal.startswith(front):
            continue
        written = literal[len(front) :].split(" ")[:-1]  # the last word may go on behind the wildcard
        if not exact and (spelled is None or len(written) < spelled):
            continue
        texts = (front + command.source, front + shlex.join(command.words))
        if any(_covers(specifier, text, lenient=False) for text in texts):
            return rule
    inner = wrappers.looked_through(command.words) if not front else None
    if inner is None:
        return None
    return _command_allowed(bash.Command(words=inner, source=shlex.join(inner)), rules)
