"""What no type can say about people, workspaces, places and secrets; `config_policy` has the rest.

Each check looks only at what has the right type; the rest is told by `config_types`.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field

from agent_runner.config_report import Add, Table, suggest, table, texts
from agent_runner.model import Value
from agent_runner.people import Person
from agent_runner.toml_lines import Key

PLATFORMS = ("web", "slack", "feishu")
"""Platforms that a place or an account may name."""

_NAME = re.compile(r"\w[\w.-]*")
_RESERVED = ("requester", "anyone", "group")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"REDIS_URL|SLACK_.*|FEISHU_.*|COUNTERSIGN_.*")
_SKIPS_PEOPLE = re.compile(
    r"bypass-?permissions|dangerously-?skip-?permissions|^acceptEdits$|^dontAsk$", re.IGNORECASE
)


class McpServer(Value):
    """An MCP server in Claude's own form; `${NAME}` in values is filled in by the engine."""

    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    url: str = ""
    headers: dict[str, str] = Field(default_factory=dict)


def check_values(raw: Table, add: Add) -> None:
    """Adds every mistake in what the tables say, but for [people] and [policy]."""
    _permission_modes(raw, (), add)
    _workspaces(table(raw, "workspaces"), add)
    for index, name in enumerate(texts(table(raw, "runner"), "pass_env")):
        _variable(name, ("runner", "pass_env", index), add)


def read_people(raw: Table, add: Add) -> dict[str, Person]:
    """[people] with each account as `platform:user`; adds what is wrong with it."""
    people: dict[str, Person] = {}
    owners: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, entry in table(raw, "people").items():
        key: Key = ("people", name)
        if not isinstance(entry, dict):
            add(key, "must be a table, with keys of its own")
            continue
        if not _NAME.fullmatch(name) or name in _RESERVED:
            add(
                key,
                f"is no name for a person; use letters, digits, . _ - and none of {', '.join(_RESERVED)}",
            )
        people[name] = _person(entry, key, add)
        for account in people[name].accounts:
            _claim(owners, account, name, (*key, account.partition(":")[0]), add)
    return people


# --- people -------------------------------------------------------------------------------


def _person(entry: Table, key: Key, add: Add) -> Person:
    accounts: list[str] = []
    for field in entry:
        if field not in (*PLATFORMS, "groups", "display"):
            add((*key, field), f"there is no such key; {suggest(field, (*PLATFORMS, 'groups', 'display'))}")
        elif field in PLATFORMS:
            ids = entry[field] if isinstance(entry[field], list) else [entry[field]]
            if not ids or not all(isinstance(i, str) and is_user(i) for i in ids):
                add((*key, field), 'must be an id in quotes, "user" or "tenant:user", or a list of them')
            else:
                accounts.extend(f"{field}:{i}" for i in ids)
    groups = entry.get("groups", [])
    if not isinstance(groups, list) or not all(isinstance(g, str) and _NAME.fullmatch(g) for g in groups):
        add((*key, "groups"), 'must be a list of names in quotes, such as ["oncall"]')
        groups = []
    display = entry.get("display", "")
    if not isinstance(display, str):
        add((*key, "display"), "must be a text in quotes")
        display = ""
    return Person(accounts=tuple(accounts), groups=tuple(groups), display=display)


def is_user(text: str) -> bool:
    """Whether a text is `user` or `tenant:user`."""
    return bool(re.fullmatch(r"[^\s:]+(?::[^\s:]+)?", text))


def _claim(
    owners: dict[tuple[str, str], list[tuple[str, str]]], account: str, name: str, key: Key, add: Add
) -> None:
    """Two people cannot have one account; one without a tenant is the same in all of them."""
    platform, _, rest = account.partition(":")
    tenant, _, user = rest.rpartition(":")
    known = owners.setdefault((platform, user), [])
    for other_tenant, other in known:
        if other_tenant == tenant or not tenant or not other_tenant:
            owner = f"{other} has it already" if other != name else "it is listed twice"
            add(key, f"the account {rest} can belong to one person once; {owner}")
    known.append((tenant, name))


# --- workspaces ---------------------------------------------------------------------------


def _workspaces(workspaces: Table, add: Add) -> None:
    taken: dict[str, str] = {}
    for name, entry in workspaces.items():
        key: Key = ("workspaces", name)
        if not _NAME.fullmatch(name):
            add(key, "is no name for a workspace; use letters, digits, . _ -")
        if not isinstance(entry, dict):
            continue
        path = entry.get("path")
        if isinstance(path, str) and (not path.strip() or "\0" in path):
            add((*key, "path"), "must not be empty; write the directory in which tasks run")
        for index, place in enumerate(texts(entry, "places")):
            _place(place, (*key, "places", index), taken, name, add)
        for server, settings in table(entry, "mcp").items():
            _server(server, settings, (*key, "mcp", server), add)


def _place(place: str, key: Key, taken: dict[str, str], workspace: str, add: Add) -> None:
    platform, colon, chat = place.partition(":")
    if not colon or not chat.strip() or platform not in PLATFORMS:
        add(
            key,
            f'"{place}" is no place; write platform:chat, with one of {", ".join(PLATFORMS)}',
        )
    elif place in taken:
        add(key, f'"{place}" belongs to the workspace {taken[place]} already; a chat has one workspace')
    taken.setdefault(place, workspace)


def _server(name: str, settings: Any, key: Key, add: Add) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) or "__" in name or name == "countersign":
        add(key, "is no name for a server; use letters, digits, - and single _, and not countersign")
    if not isinstance(settings, dict):
        return
    kind = settings.get("type", "stdio")
    needed, other = ("command", "url") if kind == "stdio" else ("url", "command")
    if not settings.get(needed):
        add(key, f"a server of type {kind} needs {needed}")
    if settings.get(other):
        add((*key, other), f"a server of type {kind} takes no {other}")


# --- the rest -----------------------------------------------------------------------------


def _variable(name: str, key: Key, add: Add) -> None:
    if not _VARIABLE.fullmatch(name):
        add(key, f'"{name}" is no name of an environment variable')
    elif _SECRET.fullmatch(name):
        add(key, f"{name} is never handed to the agent: it opens the store or the chat to its commands")


def _permission_modes(value: Any, key: Key, add: Add) -> None:
    """Refuses, anywhere, what would switch people off."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if _SKIPS_PEOPLE.search(name):
                add((*key, name), "permission modes that skip people are refused; write rules in [policy]")
            _permission_modes(inner, (*key, name), add)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _permission_modes(inner, (*key, index), add)
    elif isinstance(value, str) and _SKIPS_PEOPLE.search(value):
        add(key, f'"{value}" is refused: it skips people; write rules in [policy]')
