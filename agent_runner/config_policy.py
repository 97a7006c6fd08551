"""What no type can say about [policy]: rules that can never match, routes nobody can answer.

Each check looks only at what has the right type; the rest is told by `config_types`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agent_runner.config_checks import PLATFORMS, is_user
from agent_runner.config_report import Add, Table, suggest, table, texts
from agent_runner.durations import format_duration, parse_duration
from agent_runner.errors import FixConfiguration
from agent_runner.matching import never_allows, speaks_of
from agent_runner.model import LIMIT_TOOL
from agent_runner.people import People, members, possible
from agent_runner.policy import ALWAYS_ASKED, GRANT_LONGEST
from agent_runner.rules import Rule, parse
from agent_runner.toml_lines import Key

_HOOK = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_APPROVERS = "requester, anyone, group:NAME, a name in [people], or platform:user"


def check_policy(raw: Table, people: People, add: Add) -> None:
    """Adds every mistake in the rules and routes."""
    policy = table(raw, "policy")
    _rules(policy, add)
    _grant_for(policy, add)
    _break_glass(policy, people, add)
    for key, route in _routes(policy):
        _route(route, key, people, add)


def warnings(raw: Table, people: People) -> tuple[str, ...]:
    """What is allowed but probably not meant. Call it only for tables without mistakes."""
    policy = table(raw, "policy")
    found = [*_shadowed(policy), *_unknown_servers(raw, policy)]
    for key, route in _routes(policy):
        most = possible(route.get("approvers", ["requester"]), True, people)
        if route.get("requester_may_decide", True) is False and route.get("quorum", 1) == most:
            found.append(
                f"policy.{key[1]}: when one of the {most} approvers asks, the other {int(most) - 1} "
                f"cannot reach the quorum of {most}, because the requester may not decide"
            )
    return tuple(found)


def _rules(policy: Table, add: Add) -> None:
    parsed: dict[str, dict[str, int]] = {}
    for section in ("deny", "ask", "allow"):
        here = parsed.setdefault(section, {})
        for index, text in enumerate(texts(policy, section)):
            key: Key = ("policy", section, index)
            rule = _rule(text, key, add)
            if rule is None:
                continue
            if rule.tool == LIMIT_TOOL:
                add(key, f'the rule "{text}" stands under [[policy.route]] only; limits are set in [limits]')
            for earlier in ("deny", "ask")[: ("deny", "ask", "allow").index(section)]:
                if rule.canonical in parsed[earlier]:
                    add(key, f'the rule "{text}" can never match: the same rule under {earlier} comes first')
            here[rule.canonical] = index
            if section == "allow" and (why := never_allows(rule)):
                add(key, f'the rule "{text}" can never match: {why}')
    hook = policy.get("needs_approval")
    if isinstance(hook, str) and not _HOOK.fullmatch(hook):
        add(("policy", "needs_approval"), f'"{hook}" names no function; write "module:function"')


def _grant_for(policy: Table, add: Add) -> None:
    try:
        too_long = parse_duration(policy.get("grant_for", "8h")) > GRANT_LONGEST
    except ValueError:
        return
    if too_long:
        longest = format_duration(GRANT_LONGEST)
        add(("policy", "grant_for"), f"is longer than {longest}; write what holds for longer under allow")


def _break_glass(policy: Table, people: People, add: Add) -> None:
    _approvers(policy, "break_glass", ("policy",), people, add)
    for index, name in enumerate(texts(policy, "break_glass")):
        if name in ("requester", "anyone"):
            key: Key = ("policy", "break_glass", index)
            add(key, f"{name} cannot approve alone; name people or groups, who answer for it")


def _rule(text: str, key: Key, add: Add) -> Rule | None:
    try:
        return parse(text)
    except FixConfiguration as error:
        add(key, f"{error.message}; {error.hint}")
        return None


def _routes(policy: Table) -> Iterator[tuple[Key, dict[str, Any]]]:
    routes = policy.get("route")
    for index, route in enumerate(routes if isinstance(routes, list) else ()):
        if isinstance(route, dict):
            yield ("policy", "route", index), route
    if isinstance(policy.get("default_route"), dict):
        yield ("policy", "default_route"), policy["default_route"]


def _route(route: Table, key: Key, people: People, add: Add) -> None:
    is_default = key[1] == "default_route"
    if is_default and "match" in route:
        add((*key, "match"), "the default route matches everything; leave this out")
    if not is_default and not route.get("match"):
        add((*key, "match"), 'must not be empty: such a route can never match; write ["Bash(kubectl *)"]')
    for index, text in enumerate(texts(route, "match")):
        _rule(text, (*key, "match", index), add)
    known = _approvers(route, "approvers", key, people, add)
    escalate = route.get("escalate")
    if isinstance(escalate, dict):
        _escalates(route, escalate, key, people, add)
    _veto(route, key, add)
    _in_time(route, key, add)
    quorum, requester_may = route.get("quorum", 1), route.get("requester_may_decide", True)
    if known and type(quorum) is int and isinstance(requester_may, bool):
        most = possible(route.get("approvers", ["requester"]), requester_may, people)
        if most == 0:
            add((*key, "approvers"), "nobody could decide: the requester may not, and nobody else is named")
        elif quorum > most:
            add((*key, "quorum"), f"{quorum} people are needed, but only {int(most)} can decide")


def _escalates(route: Table, escalate: Table, key: Key, people: People, add: Add) -> None:
    known = _approvers(escalate, "to", (*key, "escalate"), people, add)
    requester_may = route.get("requester_may_decide", True)
    if known and requester_may is False and not possible(texts(escalate, "to"), False, people):
        add((*key, "escalate", "to"), "nobody would be added: the requester may not decide")


def _veto(route: Table, key: Key, add: Add) -> None:
    """Without a veto, rejections end a request once too few are left: they have to be counted."""
    escalate = route.get("escalate")
    more = texts(escalate, "to") if isinstance(escalate, dict) else []
    if route.get("veto") is False and "anyone" in [*texts(route, "approvers"), *more]:
        add((*key, "veto"), "cannot be false where anyone may decide: no rejection could ever end it")


def _approvers(holder: Table, field: str, key: Key, people: People, add: Add) -> bool:
    """Whether the list of approvers is in order."""
    value = holder.get(field)
    if value == []:
        add((*key, field), f"must not be empty, for then nobody could decide; allowed are {_APPROVERS}")
    named = texts(holder, field)
    wrong = [(index, why) for index, name in enumerate(named) if (why := _wrong_approver(name, people))]
    for index, why in wrong:
        add((*key, field, index), why)
    return not wrong and (value is None or bool(named))


def _wrong_approver(name: str, people: People) -> str:
    if name in ("requester", "anyone"):
        return ""
    prefix, colon, rest = name.partition(":")
    if prefix == "group" and colon:
        groups = sorted({group for person in people.values() for group in person.groups})
        if members(people, rest):
            return ""
        return f'nobody in [people] is in the group "{rest}"; {suggest(rest, groups)}'
    if colon:
        good = prefix in PLATFORMS and is_user(rest)
        return "" if good else f'"{name}" is no approver; allowed are {_APPROVERS}'
    if name in people:
        return ""
    known = suggest(name, sorted(people)) if people else f"allowed are {_APPROVERS}"
    return f'there is no "{name}" in [people]; {known}'


def _in_time(route: Table, key: Key, add: Add) -> None:
    """A reminder or an escalation that comes after the end never comes."""
    escalate = route.get("escalate")
    after = escalate.get("after") if isinstance(escalate, dict) else None
    try:
        expires = parse_duration(route.get("expires", "8h"))
        moments = {("remind",): route.get("remind"), ("escalate", "after"): after}
        late = [where for where, span in moments.items() if span and parse_duration(span) >= expires]
    except ValueError:
        return
    for where in late:
        add((*key, *where), "must be shorter than expires, or it never happens")


def _shadowed(policy: Table) -> Iterator[str]:
    """Allow rules that a broader rule of an earlier list leaves without effect."""
    for text in texts(policy, "allow"):
        rule = parse(text)
        if rule.tool in ALWAYS_ASKED:
            yield f'policy.allow: "{text}" has no effect: {rule.tool} always asks a person'
        for section in ("deny", "ask"):
            for other in texts(policy, section):
                broad = parse(other)
                covers = broad.specifier is None and broad != rule and speaks_of(broad, rule.tool)
                if covers and "*" not in rule.tool and broad.canonical != rule.canonical:
                    yield (
                        f'policy.allow: "{text}" has no effect: "{other}" under {section} comes first '
                        "and matches every such call"
                    )


def _unknown_servers(raw: Table, policy: Table) -> Iterator[str]:
    servers = {"countersign"}.union(*(table(w, "mcp") for w in table(raw, "workspaces").values()))
    matches = [text for _, route in _routes(policy) for text in texts(route, "match")]
    for text in [*texts(policy, "allow"), *texts(policy, "ask"), *matches]:
        parts = parse(text).tool.split("__")
        if parts[0] == "mcp" and "*" not in parts[1] and parts[1] not in servers:
            yield f'policy: "{text}" matches nothing yet: no workspace has an MCP server {parts[1]}'
