"""The rule that is offered for a call, what it covers, and when a grant of it holds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.grants import NEVER, NEVER_SUB, covers, holds, rule_for
from agent_runner.matching import Call, allowing
from agent_runner.model import REQUEST_APPROVAL, Grant
from agent_runner.people import Person
from agent_runner.policy import Policy, Route
from agent_runner.rules import parse
from tests.fakes.values import KAI, LIN, MEI, NOW, at

PUSH = "Bash(git push:*)"


def a_call(tool: str, given: dict[str, Any], **changes: Any) -> Call:
    """A call in the workspace `ops`."""
    return Call(**{"tool_name": tool, "tool_input": given, "cwd": "/srv/ops", "workspace": "ops", **changes})


def bash(command: Any, **more: Any) -> Call:
    """A Bash call."""
    return a_call("Bash", {"command": command, **more})


COMMANDS = [
    ("git push", PUSH),
    ("git push origin main", PUSH),
    (" git push origin 'a b' ", PUSH),
    ("kubectl rollout restart deploy/checkout", "Bash(kubectl rollout:*)"),
    ("gh pr create --title 'a; b'", "Bash(gh pr:*)"),
    ("deployctl roll-out2 web", "Bash(deployctl roll-out2:*)"),
    ("ls", ""),
    ("ls -la", ""),
    ("git -C /srv push", ""),
    ("kubectl -n prod rollout restart x", ""),
    ("git Push", ""),
    ("git push2.0", ""),
    ("./deploy.sh prod", ""),
    ("/usr/bin/git push", ""),
    ("Git push", ""),
    ("'git' push", ""),
    ("git 'push' origin", ""),
    ("gi\\t push", ""),
    ("git  push", ""),
    ("FOO=1 git push", ""),
    ("git push; ls", ""),
    ("git push && git push", ""),
    ("git push\ngit push", ""),
    ("git push | cat", ""),
    ("git push &", ""),
    ("git push 2>&1", ""),
    ("git push > /dev/null", ""),
    ("git push < in", ""),
    ("(git push)", ""),
    ("! git push", ""),
    ("git push # now", ""),
    ("git push $(cat ref)", ""),
    ("git push `cat ref`", ""),
    ("git push $REF", ""),
    ("git push {a,b}", ""),
    ("git push \u00a0x", ""),
    ("git push --receive-pack=evil x", ""),
    ("sudo systemctl restart", ""),
    ("timeout 5 git", ""),
    ("env git push", ""),
    ("xargs rm", ""),
    ("bash deploy", ""),
    ("python3 deploy", ""),
    ("python3.12 deploy", ""),
    ("ssh prod", ""),
    ("docker run x", ""),
    ("kubectl exec pod", ""),
    ("rm build", ""),
    ("npm run build", ""),
    ("make deploy", ""),
    ("curl localhost", ""),
    ("git rebase main", ""),
    ("if true", ""),
    ("", ""),
    (None, ""),
    (["git", "push"], ""),
]


@pytest.mark.parametrize(("command", "rule"), COMMANDS)
def test_the_rule_that_is_offered_for_a_command(command: Any, rule: str) -> None:
    """Program and subcommand of one plain command that runs nothing else; otherwise only the exact call."""
    assert rule_for(bash(command)) == rule


OTHERS: list[tuple[str, dict[str, Any], str]] = [
    ("Write", {"file_path": "notes/a.md", "content": "x"}, "Edit(./notes/a.md)"),
    ("Write", {"file_path": "/srv/ops/notes/a.md"}, "Edit(./notes/a.md)"),
    ("Edit", {"file_path": "./a b.md"}, "Edit(./a b.md)"),
    ("Edit", {"file_path": "/etc/hosts.d/x"}, "Edit(//etc/hosts.d/x)"),
    ("NotebookEdit", {"notebook_path": "分析.ipynb"}, "Edit(./分析.ipynb)"),
    ("Write", {"file_path": "../a.md"}, ""),
    ("Write", {"file_path": "~/a.md"}, ""),
    ("Write", {"file_path": "*.md"}, ""),
    ("Write", {"file_path": "a[1].md"}, ""),
    ("Write", {"file_path": "a.md "}, ""),
    ("Write", {"file_path": "a\u202e.md"}, ""),
    ("Write", {"file_path": "notes/"}, ""),
    ("Write", {"file_path": 7}, ""),
    ("Write", {}, ""),
    ("WebFetch", {"url": "https://Example.com/a?b"}, "WebFetch(domain:example.com)"),
    ("WebFetch", {"url": "http://localhost:8080/"}, "WebFetch(domain:localhost)"),
    ("WebFetch", {"url": "https://example.com@evil.test/"}, ""),
    ("WebFetch", {"url": "https://example.com\\@evil.test/"}, ""),
    ("WebFetch", {"url": "file:///etc/passwd"}, ""),
    ("WebFetch", {}, ""),
    ("mcp__db__query", {"sql": "select 1"}, "mcp__db__query"),
    ("mcp__db", {}, ""),
    (REQUEST_APPROVAL, {"title": "x"}, ""),
    ("AskUserQuestion", {"questions": []}, ""),
    ("ExitPlanMode", {"plan": "x"}, "Edit(./**)"),
    ("WebSearch", {"query": "x"}, ""),
    ("Monitor", {"command": "git push"}, ""),
    ("Agent", {"subagent_type": "reviewer"}, ""),
    ("Bash", {"command": "git push", "dangerouslyDisableSandbox": True}, ""),
    ("Bash", {"command": "git push", "description": "Push", "timeout": 5}, PUSH),
]


@pytest.mark.parametrize(("tool", "tool_input", "rule"), OTHERS)
def test_the_rule_that_is_offered_for_another_tool(tool: str, tool_input: dict[str, Any], rule: str) -> None:
    """Exactly that file, that host, that tool."""
    assert rule_for(a_call(tool, tool_input)) == rule


def test_nothing_is_offered_for_a_link(tmp_path: Path) -> None:
    """Where a link points may change after the approval; one that appears later is asked about."""
    (tmp_path / "link").symlink_to("elsewhere")
    call = a_call("Write", {"file_path": "link"}, cwd=str(tmp_path))
    assert rule_for(call) == ""
    later = a_call("Write", {"file_path": "file"}, cwd=str(tmp_path))
    rule = rule_for(later)
    assert (rule, covers(rule, later)) == ("Edit(./file)", True)
    (tmp_path / "file").symlink_to("elsewhere")
    assert not covers(rule, later)


@pytest.mark.parametrize(
    ("rule", "call", "covered"),
    [
        (PUSH, bash("git push --force"), True),
        (PUSH, bash("git push"), True),
        (PUSH, bash("git push --receive-pack=evil x"), False),
        (PUSH, bash("git push --rec evil x"), False),
        (PUSH, bash("git push --exec evil x"), False),
        (PUSH, bash("git pushy"), False),
        (PUSH, bash("git pull"), False),
        (PUSH, bash("git push >/dev/null"), False),
        (PUSH, bash("git push\ngit push"), False),
        (PUSH, bash("git push", dangerouslyDisableSandbox=True), False),
        (PUSH, a_call("Monitor", {"command": "git push"}), False),
        ("Edit(./a.md)", a_call("Edit", {"file_path": "/srv/ops/a.md"}), True),
        ("Edit(./a.md)", a_call("Write", {"file_path": "a.md"}), True),
        ("Edit(./a.md)", a_call("Write", {"file_path": "a.md/b"}), False),
        ("Edit(./a.md)", a_call("Write", {"file_path": "b/a.md"}), False),
        ("Edit(./a.md)", a_call("Read", {"file_path": "a.md"}), False),
        ("mcp__db__query", a_call("mcp__db__query", {"sql": "drop"}), True),
        ("mcp__db__query", a_call("mcp__db__query__all", {}), False),
        ("WebFetch(domain:example.com)", a_call("WebFetch", {"url": "https://a.example.com/"}), False),
        ("no rule (", bash("git push"), False),
    ],
)
def test_what_a_rule_covers(rule: str, call: Call, covered: bool) -> None:
    """Less than the same text among the policy's allow rules."""
    assert covers(rule, call) is covered
    if covered:
        assert allowing((parse(rule),), call)


WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8)
ARGUMENT = st.one_of(
    WORD, st.text(min_size=1, max_size=12), st.sampled_from(["--force", "'a b'", "-x", '"q"'])
)
APPENDED = ("; ls", ";ls", " && ls", " || ls", " | cat", "|cat", " $(ls)", " `ls`", "\nls", " &", " > f")
MORE = ("< f", " >> f", " 2>&1", " >/dev/null", " <(ls)", " <<< x", " $HOME", " ${x}", " ~ #", "\\\nls;ls")


@given(program=st.one_of(st.sampled_from(["git", "kubectl", "gh"]), WORD), sub=WORD,
       arguments=st.lists(ARGUMENT, max_size=3), appended=st.sampled_from(APPENDED + MORE))  # fmt: skip
def test_an_offered_rule_covers_its_call_and_nothing_that_is_appended(
    program: str, sub: str, arguments: list[str], appended: str
) -> None:
    """By the matching of allow rules it allows the call; with more shell behind it, it covers nothing."""
    command = " ".join([program, sub, *arguments])
    call = bash(command)
    rule = rule_for(call)
    if not rule:
        return
    assert rule == f"Bash({program} {sub}:*)"
    assert allowing((parse(rule),), call)
    assert covers(rule, call)
    assert not covers(rule, bash(command + appended))
    assert not covers(rule, bash(f"{program} {sub}{appended}"))


@given(tool=st.sampled_from(["Bash", "Write", "Edit", "WebFetch", "mcp__a__b", "mcp__a__", "Agent"]),
       value=st.one_of(st.text(max_size=30), st.integers(), st.none()))  # fmt: skip
def test_whatever_is_offered_covers_its_call(tool: str, value: Any) -> None:
    """No input makes it raise, and no rule is offered that would not let its own call run."""
    fields = ("command", "file_path", "url")
    call = a_call(tool, {name: value for name in fields if tool != "Bash" or name == "command"})
    rule = rule_for(call)
    assert rule == "" or (covers(rule, call) and allowing((parse(rule),), call))


def test_the_tables_name_programs() -> None:
    """Each name could be typed as a program, and each pair's program has harmless subcommands."""
    assert all(name and name.lower() == name and " " not in name for name in NEVER)
    assert {program for program, _ in NEVER_SUB} & NEVER.keys() == set()


# --- when a grant holds ------------------------------------------------------------------------

PEOPLE = {
    "lin": Person(accounts=("web:lin",), groups=("oncall",)),
    "kai": Person(accounts=("web:kai",)),
}
POLICY = Policy(
    deny=("Bash(git push --force *)",),
    routes=(
        Route(match=("Bash(git push prod:*)",), approvers=("group:oncall",), quorum=2),
        Route(match=("Bash(git push docs:*)",), approvers=("requester",)),
        Route(match=("Bash(git push own:*)",), approvers=("anyone",), requester_may_decide=False),
    ),
    default_route=Route(approvers=("group:oncall",)),
)
SHARED = Grant(
    id="g12",
    task_id="t_1",
    digest="0" * 64,
    inquiry_id="i_1",
    number=12,
    by=LIN,
    at=NOW,
    rule=PUSH,
    stopped_by="nothing matched",
    workspace="ops",
    until=at(8 * 3600),
)
OF_TASK = SHARED.having(workspace="", until=at(12 * 3600))


@pytest.mark.parametrize(
    ("grant", "command", "changes", "held"),
    [
        (SHARED, "git push x", {}, True),
        (OF_TASK, "git push x", {}, True),
        (SHARED, "git push x; ls", {}, False),
        (SHARED, "git push --force x", {}, False),
        (SHARED, "git push prod", {}, False),
        (SHARED, "git push docs", {}, False),
        (SHARED, "git push docs", {"asked_by": LIN}, True),
        (SHARED, "git push own", {}, True),
        (SHARED, "git push own", {"asked_by": LIN}, False),
        (SHARED.having(by=KAI), "git push x", {}, False),
        (SHARED, "git push x", {"people": {}}, False),
        (SHARED, "git push x", {"stopped_by": "Bash(git *)"}, False),
        (SHARED, "git push x", {"now": at(8 * 3600 - 1)}, True),
        (SHARED, "git push x", {"now": at(8 * 3600)}, False),
        (SHARED, "git push x", {"now": at(-3600)}, False),
        (
            SHARED,
            "git push x",
            {"policy": POLICY.having(grant_for=timedelta(hours=1)), "now": at(3601)},
            False,
        ),
        (
            OF_TASK,
            "git push x",
            {"policy": POLICY.having(grant_for=timedelta(hours=1)), "now": at(3601)},
            True,
        ),
        (
            OF_TASK,
            "git push x",
            {"policy": POLICY.having(approval_valid_for=timedelta(hours=1)), "now": at(3601)},
            False,
        ),
        (SHARED.having(workspace="docs"), "git push x", {}, False),
        (SHARED.having(revoked_by=LIN, revoked_at=at(1)), "git push x", {}, False),
    ],
    ids=[
        *("in the workspace", "in the task", "more than the rule", "a deny rule", "two people needed"),
        *("only the requester may", "the requester gave it", "anyone but the requester", "own job"),
        *("by somebody who may not", "by somebody who left", "another rule stopped it", "just in time"),
        *("over", "from the future", "too old for the policy", "of the task, still in time"),
        *("of the task, too old", "another workspace", "revoked"),
    ],
)
def test_when_a_grant_holds(grant: Grant, command: str, changes: dict[str, Any], held: bool) -> None:
    """By today's policy, people and time; whatever is in doubt is asked."""
    given = {
        "policy": POLICY,
        "stopped_by": "nothing matched",
        "asked_by": MEI,
        "people": PEOPLE,
        "now": at(60),
    }
    given |= changes
    assert holds(given.pop("policy"), grant, bash(command), **given) is held  # type: ignore[arg-type]  # a table
