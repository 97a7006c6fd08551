"""Approvals that outlive one call: the rule that we offer for a call, and when one that was given holds.

Pure but for the reading of symlinks in path rules. The rule is built here from the call, never
taken from anybody, and errs on the side of none: then only the exact call can be approved for
more than once. A grant is used only where an allow rule of the policy would match for sure,
and narrower still (see `covers`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from agent_runner import bash, bash_reader
from agent_runner.errors import FixConfiguration
from agent_runner.matching import Call, allowing
from agent_runner.model import PLAN_EDITS, REQUEST_APPROVAL, Actor, Grant
from agent_runner.people import People, may_decide
from agent_runner.policy import ALWAYS_ASKED, NOTHING_MATCHED, PLAN_TOOL, Policy, judge, route
from agent_runner.rules import parse
from agent_runner.wrappers import RESERVED, WRAPPERS, to_be_spelled

_PROGRAM = re.compile(r"[a-z][a-z0-9_.+-]*")
_SUBCOMMAND = re.compile(r"[a-z][a-z0-9-]*")
_PATH = re.compile(r"[\w ./+@,=-]+")
"""Paths that mean themselves in a rule, without wildcards and quotes."""

_BASH_FIELDS = frozenset({"command", "description", "timeout", "run_in_background"})
"""Fields of a Bash call that change nothing about what runs; with any other (one switches the
sandbox off), only the exact call counts."""

_TOOL_WIDE = ("Write", "Edit", "NotebookEdit", NOTHING_MATCHED)
"""What stops a call of such a tool in general. A rule that says more was written for a reason."""

_FILES = {"Write": "file_path", "Edit": "file_path", "NotebookEdit": "notebook_path"}


NEVER: Mapping[str, str] = {
    name: reason
    for reason, names in {
        "a shell": (
            "ash bash csh dash elvish fish ksh mksh nu pwsh sh tcsh zsh eval source exec trap alias script"
        ),
        "runs code that is given to it": (
            "awk gawk mawk sed gsed perl python pypy ruby irb node nodejs deno bun php lua luajit tclsh "
            "expect osascript julia java javac groovy scala ghci runghc guile racket sqlite psql mysql "
            "mongosh redis-cli jq gdb lldb m4 bc dc ed ex vi vim nvim emacs nano less more man"
        ),
        "runs other programs": (
            "sudo su doas pkexec env xargs parallel find fd nohup nice timeout time watch ssh mosh scp sftp "
            "rsync docker podman nerdctl ctr crictl lxc vagrant ansible ansible-playbook salt fab screen "
            "tmux at batch crontab systemd-run start-stop-daemon flock strace ltrace chroot unshare nsenter "
            "qemu entr direnv mise asdf hyperfine tox nox poetry pipenv uv uvx pipx npx bunx conda"
        ),
        "builds, which runs code": (
            "make gmake cmake ninja just task rake gradle gradlew mvn ant bazel buck npm pnpm yarn cargo go "
            "pip gem bundle composer mix sbt lein stack cabal dotnet swift zig nix nix-shell tsc pytest meson"
        ),
        "destroys": (
            "rm rmdir unlink shred truncate dd mkfs fdisk parted wipefs kill pkill killall reboot shutdown "
            "halt"
        ),
        "writes any file": (
            "cp mv ln install tee touch mkdir chmod chown chgrp tar unzip zip cpio patch split sort"
        ),
        "sends anything anywhere": "curl wget nc ncat netcat socat telnet ftp http https mail sendmail",
        "shows any file": (
            "cat head tail tac nl grep rg ag cut paste tr od xxd hexdump strings base diff cmp"
        ),
    }.items()
    for name in names.split()
}
"""Programs for which no rule is offered, each with the reason; with a version behind the name, too
(`python3.12`)."""

_RUNS_OTHERS = "its options or its configuration run other programs"
NEVER_SUB: Mapping[tuple[str, str], str] = {
    (program, sub): reason
    for (program, reason), subs in {
        ("git", _RUNS_OTHERS): (
            "rebase bisect submodule difftool mergetool filter-branch config grep archive clone fetch pull "
            "ls-remote remote worktree credential send-email instaweb daemon upload-pack receive-pack shell "
            "var help hook am svn p4 maintenance for-each-repo"
        ),
        ("git", "it throws work away"): "clean reset checkout restore rm gc",
        ("kubectl", "it runs programs, or whatever a file says"): (
            "exec run debug attach cp edit create apply replace patch set plugin proxy kustomize"
        ),
        ("kubectl", "it destroys"): "delete drain",
        ("helm", "it runs plugins, or whatever a chart says"): "plugin install upgrade",
        ("gh", "it runs extensions, or any request at all"): "api extension alias",
        ("systemctl", "it runs an editor, or takes any unit"): "edit link enable",
    }.items()
    for sub in subs.split()
}
"""Subcommands for which none is offered although their program has harmless ones."""

_RUNS: Mapping[str, tuple[str, ...]] = {
    "git": ("--receive-pack", "--upload-pack", "--exec", "--open-files-in-pager", "--ext-diff", "--output"),
    "kubectl": ("--kubeconfig",),
    "helm": ("--post-renderer", "--kubeconfig"),
}
"""Options that name a program to run or a file to write; git takes every unambiguous beginning."""


def rule_for(call: Call) -> str:
    """The rule to offer beside a call, in Claude Code's syntax; '' if only the exact call can be."""
    if call.tool_name == PLAN_TOOL:
        return PLAN_EDITS
    if call.tool_name in ALWAYS_ASKED:
        return ""
    rule = _rule_for(call)
    return rule if rule and covers(rule, call) else ""


def _rule_for(call: Call) -> str:
    given = call.tool_input
    if call.tool_name == "Bash":
        return _bash_rule(given.get("command"))
    if call.tool_name in _FILES:
        return _file_rule(given.get(_FILES[call.tool_name]), call.cwd)
    if call.tool_name == "WebFetch":
        found = re.match(r"https?://([A-Za-z0-9.-]+)", str(given.get("url")), re.IGNORECASE)
        return f"WebFetch(domain:{found[1].lower()})" if found else ""
    own = REQUEST_APPROVAL.rpartition("__")[0] + "__"
    is_tool = re.fullmatch(r"mcp__[A-Za-z0-9][A-Za-z0-9_.-]*__[A-Za-z0-9_.-]+", call.tool_name)
    return call.tool_name if is_tool and not call.tool_name.startswith(own) else ""


def _bash_rule(command: object) -> str:
    simple = _simple(command)
    if simple is None or len(simple.words) < 2:
        return ""
    program, sub = simple.words[:2]
    if not _PROGRAM.fullmatch(program) or not _SUBCOMMAND.fullmatch(sub):
        return ""
    known = {program, program.rstrip("0123456789.")}
    if known & (NEVER.keys() | WRAPPERS.keys() | RESERVED) or (program, sub) in NEVER_SUB:
        return ""
    spelled = to_be_spelled(simple.words) == 0 and simple.source.startswith(f"{program} {sub}")
    return f"Bash({program} {sub}:*)" if spelled else ""


def _file_rule(path: object, cwd: str) -> str:
    if not isinstance(path, str) or not _PATH.fullmatch(path) or not path.isprintable():
        return ""
    if path != path.strip() or ".." in path.split("/") or path.endswith("/"):
        return ""
    inside = path.removeprefix(cwd.rstrip("/") + "/").removeprefix("./")
    return f"Edit(/{inside})" if inside.startswith("/") else f"Edit(./{inside})"


def _simple(command: object) -> bash.Command | None:
    """The one command that a text is: nothing before it, behind it, or around it."""
    if not isinstance(command, str):
        return None
    plain = bash_reader.read(command).plain
    if plain is None or len(plain) != 1:
        return None
    (only,) = plain
    whole = only.source == command.strip() and not only.assignments and "\n" not in only.source
    return only if whole else None


def covers(rule: str, call: Call) -> bool:
    """Whether a rule that somebody approved covers a call.

    Only what the policy's allow rules surely match, and less: of a tool of an MCP server exactly
    that tool; of Bash one simple command, without any redirection, whose options run nothing.
    """
    try:
        parsed = parse(rule)
    except FixConfiguration:
        return False
    if parsed.tool.startswith("mcp__"):
        return call.tool_name == rule
    if call.tool_name not in (*_FILES, "Bash", "WebFetch") or not allowing((parsed,), call):
        return False
    if rule == PLAN_EDITS:
        return _plainly_inside(call)
    if call.tool_name in _FILES:  # a rule's path covers what is below it as well
        return _file_rule(call.tool_input.get(_FILES[call.tool_name]), call.cwd) == rule
    return call.tool_name != "Bash" or _harmless(call.tool_input)


def _plainly_inside(call: Call) -> bool:
    """Whether it edits a file in the workspace, none of those (`.git/hooks`) that steer other programs."""
    inside = _file_rule(call.tool_input.get(_FILES.get(call.tool_name, "")), call.cwd)
    hidden = any(part.startswith(".") for part in inside.removeprefix("Edit(./").split("/"))
    return inside.startswith("Edit(./") and not hidden


def _harmless(tool_input: Mapping[str, object]) -> bool:
    simple = _simple(tool_input.get("command"))
    if simple is None or not tool_input.keys() <= _BASH_FIELDS:
        return False
    options = [word.split("=", 1)[0] for word in simple.words if word.startswith("--") and len(word) > 2]
    return not any(long.startswith(option) for option in options for long in _RUNS.get(simple.name, ()))


def holds(
    policy: Policy,
    grant: Grant,
    call: Call,
    *,
    stopped_by: str,
    asked_by: Actor,
    people: People,
    now: datetime,
) -> bool:
    """Whether a grant by rule lets this call run now, by today's policy and people.

    `stopped_by` is the policy rule that stopped the call: one that was not what the grantor saw
    is asked about. `asked_by` is who asked for the job that makes the call.
    """
    if grant.revoked or not grant.in_time(now) or not _meant(grant, stopped_by):
        return False
    longest = policy.grant_for if grant.workspace else policy.approval_valid_for
    if now - grant.at > longest or (grant.workspace and grant.workspace != call.workspace):
        return False
    if judge(policy, call).effect == "deny" or not covers(grant.rule, call):
        return False
    today = route(policy, call)
    return today.quorum == 1 and may_decide(
        grant.by,
        approvers=today.approvers,
        requester_may_decide=today.requester_may_decide,
        asked_by=asked_by,
        people=people,
    )


def _meant(grant: Grant, stopped_by: str) -> bool:
    """Whether what stopped a call is what the grantor set aside."""
    return stopped_by in _TOOL_WIDE if grant.rule == PLAN_EDITS else stopped_by == grant.stopped_by
