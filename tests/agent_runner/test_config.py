"""Configuration: read once, refused with line, key and what is allowed."""

from __future__ import annotations

import os
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runner.config import Chat, Config, Runner, Workspace, load, load_hook
from agent_runner.durations import format_duration, parse_duration
from agent_runner.errors import FixConfiguration
from agent_runner.people import Person
from agent_runner.policy import Call, Escalation, Policy, Route
from agent_runner.toml_lines import Lines

ROOT = Path(__file__).parents[2]


def mistakes(text: str) -> list[str]:
    """What is wrong with a file, as the person who starts the program reads it."""
    with pytest.raises(FixConfiguration) as refused:
        load(Path("c.toml"), text=text)
    return refused.value.message.split("\n")


# --- what is right ------------------------------------------------------------------------


def test_without_a_file_the_defaults_hold() -> None:
    """No workspace, the default policy, everything on loopback; an empty file is the same."""
    assert load(None) == Config()
    assert load(Path("c.toml"), text="") == Config(source="c.toml")
    assert Config().policy == Policy.default()
    assert (Config().web.host, Config().web.port, Config().language) == ("127.0.0.1", 8321, "en")


def test_a_whole_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every section, with paths made absolute, accounts gathered and durations understood."""
    monkeypatch.setenv("HOME", "/home/mei")
    file = tmp_path / "c.toml"
    file.write_text(
        """
language = "zh"
[workspaces.ops]
path = "~/ops"
pool = "big"
places = ["slack:C012AB", "feishu:oc_9f"]
mcp.db = { type = "http", url = "http://127.0.0.1:1/mcp" }
[workspaces.site]
path = "../site/"
[policy]
allow = ["Bash(ls:*)"]
needs_approval = "ops_policy:needs_approval"
approval_valid_for = "90m"
[[policy.route]]
match = ["Bash(kubectl *)"]
approvers = ["group:oncall"]
quorum = 2
remind = "30m"
expires = "1d"
escalate = { after = "2h", to = ["kai"] }
[people.lin]
slack = "T1:U01"
feishu = ["ou_7", "ou_8"]
groups = ["oncall"]
display = "Lin"
[people.kai]
groups = ["oncall"]
[runner]
pass_env = ["LANG"]
"""
    )
    config = load(file)
    assert config == Config(
        language="zh",
        workspaces={
            "ops": Workspace(
                path="/home/mei/ops",
                pool="big",
                places=(Chat(platform="slack", chat="C012AB"), Chat(platform="feishu", chat="oc_9f")),
                mcp={"db": {"type": "http", "url": "http://127.0.0.1:1/mcp"}},
            ),
            "site": Workspace(path=str(tmp_path.parent / "site")),
        },
        policy=Policy(
            allow=("Bash(ls:*)",),
            needs_approval="ops_policy:needs_approval",
            approval_valid_for=timedelta(minutes=90),
            routes=(
                Route(
                    match=("Bash(kubectl *)",),
                    approvers=("group:oncall",),
                    quorum=2,
                    remind=timedelta(minutes=30),
                    expires=timedelta(days=1),
                    escalate=Escalation(after=timedelta(hours=2), to=("kai",)),
                ),
            ),
        ),
        people={
            "lin": Person(
                accounts=("slack:T1:U01", "feishu:ou_7", "feishu:ou_8"), groups=("oncall",), display="Lin"
            ),
            "kai": Person(groups=("oncall",)),
        },
        runner=Runner(pass_env=("LANG",)),
        source=str(file),
    )


def test_the_example_is_right_and_means_what_it_says() -> None:
    """It loads without a mistake and without a warning, and survives the way to another process."""
    config = load(ROOT / "countersign.toml.example")
    assert config.warnings == ()
    assert Config.model_validate_json(config.model_dump_json()) == config


def test_the_example_names_every_section() -> None:
    """A section that exists is shown; nothing shown does not exist."""
    shown = tomllib.loads((ROOT / "countersign.toml.example").read_text())
    assert set(shown) == set(Config.model_fields) - {"source", "warnings"}


def test_routes_alone_keep_the_default_rules() -> None:
    """Who decides is one thing, what is asked another."""
    config = load(None, text='[[policy.route]]\nmatch = ["Bash"]\napprovers = ["anyone"]\n')
    assert (config.policy.allow, config.policy.ask) == (Policy.default().allow, Policy.default().ask)


def test_the_policy_version_follows_rules_and_people_and_nothing_else() -> None:
    """It ties a decision on record to the rules it was made under."""
    base = Config()
    versions = [
        base.policy_version,
        base.having(policy=Policy()).policy_version,
        base.having(people={"lin": Person()}).policy_version,
    ]
    assert len(set(versions)) == 3
    assert base.having(language="ja").policy_version == base.policy_version
    assert re.fullmatch(r"[0-9a-f]{12}", base.policy_version)


# --- what is wrong ------------------------------------------------------------------------

TOP = "language, workspaces, policy, people, limits, web, runner, model, slack, feishu"
WHO = "requester, anyone, group:NAME, a name in [people], or platform:user"
ROUTE = '[[policy.route]]\nmatch = ["Bash"]\n'
LIN = '[people.lin]\ngroups = ["oncall"]\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "langage = 'en'",
            [f"c.toml:1: langage: there is no such key; did you mean language? allowed are {TOP}"],
        ),
        ("[chat]\nx = 1", [f"c.toml:1: chat: there is no such key; allowed are {TOP}"]),
        ("source = 'x'", [f"c.toml:1: source: there is no such key; allowed are {TOP}"]),
        ("\nlanguage = 'fr'", ["c.toml:2: language: allowed are 'en', 'zh' or 'ja'"]),
        ("policy = 1", ["c.toml:1: policy: must be a table, with keys of its own"]),
        ("workspaces = []", ["c.toml:1: workspaces: must be a table, with keys of its own"]),
        ("people = 1", ["c.toml:1: people: must be a table, with keys of its own"]),
        ("[people]\nlin = 1", ["c.toml:2: people.lin: must be a table, with keys of its own"]),
        ("[workspaces.ops]", ["c.toml:1: workspaces.ops.path: is missing"]),
        (
            "[workspaces.ops]\npath = ' '",
            ["c.toml:2: workspaces.ops.path: must not be empty; write the directory in which tasks run"],
        ),
        (
            "[workspaces.ops]\npath = '/x'\npol = 'x'",
            [
                "c.toml:3: workspaces.ops.pol: there is no such key; did you mean pool? "
                "allowed are path, pool, places, mcp, max_usd_per_day"
            ],
        ),
        (
            "[workspaces.ops]\npath = '/x'\nplaces = [\n 'slack:C1',\n 'slak:C2', # typo\n]",
            [
                'c.toml:5: workspaces.ops.places[1]: "slak:C2" is no place; write platform:chat, '
                "with one of web, slack, feishu"
            ],
        ),
        (
            "[workspaces.a]\npath = '/x'\nplaces = ['slack:C']\n"
            "[workspaces.b]\npath = '/y'\nplaces = ['slack:C']",
            [
                'c.toml:6: workspaces.b.places[0]: "slack:C" belongs to the workspace a already; '
                "a chat has one workspace"
            ],
        ),
        (
            "[workspaces.a]\npath = '/x'\n[workspaces.a.mcp.db]\ntype = 'http'\ncommand = 'x'",
            [
                "c.toml:3: workspaces.a.mcp.db: a server of type http needs url",
                "c.toml:5: workspaces.a.mcp.db.command: a server of type http takes no command",
            ],
        ),
        (
            "[workspaces.a]\npath = '/x'\n[workspaces.a.mcp.countersign]\ncommand = 'x'",
            [
                "c.toml:3: workspaces.a.mcp.countersign: is no name for a server; "
                "use letters, digits, - and single _, and not countersign"
            ],
        ),
        (
            "[limits]\nturn_minutes = '5'",
            ["c.toml:2: limits.turn_minutes: must be a whole number, without quotes"],
        ),
        ("[limits]\nturn_minutes = 0", ["c.toml:2: limits.turn_minutes: must be greater than or equal to 1"]),
        (
            "[limits]\nmax_task_usd = 0\nmax_task_minutes = 1.5\nmax_model_turns = '9'\nmax_task_eur = 1",
            [
                "c.toml:2: limits.max_task_usd: must be greater than 0",
                "c.toml:3: limits.max_task_minutes: must be a whole number, without quotes",
                "c.toml:4: limits.max_model_turns: must be a whole number, without quotes",
                "c.toml:5: limits.max_task_eur: there is no such key; did you mean max_task_usd? allowed are "
                "turn_minutes, idle_minutes, live_minutes, connect_seconds, max_model_turns, max_task_usd, "
                "max_task_minutes, task_text_chars",
            ],
        ),
        (
            "[limits]\nmax_task_usd = inf\nmax_task_minutes = 0",
            [
                "c.toml:2: limits.max_task_usd: must be a number, without quotes",
                "c.toml:3: limits.max_task_minutes: must be greater than or equal to 1",
            ],
        ),
        (
            "[workspaces.ops]\npath = '/x'\nmax_usd_per_day = -1",
            ["c.toml:3: workspaces.ops.max_usd_per_day: must be greater than 0"],
        ),
        (
            '[policy]\nallow = ["Limit"]\n[[policy.route]]\nmatch = ["Limit(usd)", "Limits"]',
            [
                'c.toml:2: policy.allow[0]: the rule "Limit" stands under [[policy.route]] only; '
                "limits are set in [limits]",
                'c.toml:4: policy.route[0].match[0]: the rule "Limit(usd)" can never match: '
                "Limit takes nothing in parentheses; write Limit",
                'c.toml:4: policy.route[0].match[1]: the rule "Limits" can never match: '
                "there is no tool Limits; did you mean Limit?",
            ],
        ),
        ("[web]\nport = 70000", ["c.toml:2: web.port: must be less than or equal to 65535"]),
        (
            "[web]\npublic_url = 'ftp://x'",
            ["c.toml:2: web.public_url: 'ftp://x' is not of the allowed form ^(https?://[^\\s/]+.*)?$"],
        ),
        ("[runner]\nworkers = true", ["c.toml:2: runner.workers: must be a whole number, without quotes"]),
        (
            "[runner]\npass_env = ['LANG', 'SLACK_BOT_TOKEN', 'REDIS_URL', 'a b']",
            [
                "c.toml:2: runner.pass_env[1]: SLACK_BOT_TOKEN is never handed to the agent: "
                "it opens the store or the chat to its commands",
                "c.toml:2: runner.pass_env[2]: REDIS_URL is never handed to the agent: "
                "it opens the store or the chat to its commands",
                'c.toml:2: runner.pass_env[3]: "a b" is no name of an environment variable',
            ],
        ),
    ],
)
def test_every_mistake_has_its_line_its_key_and_what_is_allowed(text: str, expected: list[str]) -> None:
    """Names, types and values of the sections."""
    assert mistakes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[policy]\nallow = 'Read'", ['c.toml:2: policy.allow: must be a list, such as ["a", "b"]']),
        ("[policy]\nallow = [1]", ['c.toml:2: policy.allow[0]: must be a text in quotes, such as "ops"']),
        (
            '[policy]\nallow = [\n  "Read",\n  "Bahs(ls)",\n]',
            [
                'c.toml:4: policy.allow[1]: the rule "Bahs(ls)" can never match: there is no tool Bahs; '
                "did you mean Bash?"
            ],
        ),
        (
            '[policy]\ndeny = ["Bash(sudo *)"]\nallow = ["Bash(sudo:*)", "Bash(ls)"]\nask = ["Bash( ls )"]',
            [
                'c.toml:3: policy.allow[0]: the rule "Bash(sudo:*)" can never match: a wildcard may not '
                "choose what sudo runs; spell it out up to the inner command, such as "
                "Bash(sudo systemctl status *), or write the exact command",
                'c.toml:3: policy.allow[0]: the rule "Bash(sudo:*)" can never match: '
                "the same rule under deny comes first",
                'c.toml:3: policy.allow[1]: the rule "Bash(ls)" can never match: '
                "the same rule under ask comes first",
            ],
        ),
        (
            '[policy]\ndeny = ["Write"]\nask = ["Write(*)"]',
            [
                'c.toml:3: policy.ask[0]: the rule "Write(*)" can never match: '
                "the same rule under deny comes first"
            ],
        ),
        (
            '[policy]\nneeds_approval = "ops_policy"',
            ['c.toml:2: policy.needs_approval: "ops_policy" names no function; write "module:function"'],
        ),
        (
            '[policy]\napproval_valid_for = "3 weeks"',
            [
                "c.toml:2: policy.approval_valid_for: '3 weeks' is not a duration; "
                'write a number and s, m, h or d, such as "30m", "8h", "2d"'
            ],
        ),
        (
            "[[policy.route]]\napprovers = ['anyone']",
            [
                "c.toml:1: policy.route[0].match: must not be empty: such a route can never match; "
                'write ["Bash(kubectl *)"]'
            ],
        ),
        (
            "[[policy.route]]\nmatch = ['bash']",
            [
                'c.toml:2: policy.route[0].match[0]: the rule "bash" can never match: there is no tool bash; '
                "did you mean Bash?"
            ],
        ),
        (
            f"{ROUTE}qorum = 2",
            [
                "c.toml:3: policy.route[0].qorum: there is no such key; did you mean quorum? allowed are "
                "match, approvers, quorum, requester_may_decide, veto, remind, expires, escalate"
            ],
        ),
        (f"{ROUTE}quorum = 0", ["c.toml:3: policy.route[0].quorum: must be greater than or equal to 1"]),
        (
            f"{LIN}{ROUTE}approvers = ['group:onkall']",
            [
                'c.toml:5: policy.route[0].approvers[0]: nobody in [people] is in the group "onkall"; '
                "did you mean oncall? allowed are oncall"
            ],
        ),
        (
            f"{ROUTE}approvers = ['group:oncall']",
            [
                'c.toml:3: policy.route[0].approvers[0]: nobody in [people] is in the group "oncall"; '
                "none is defined"
            ],
        ),
        (
            f"{LIN}{ROUTE}approvers = ['lim', 'foo:bar', 'slack:']",
            [
                'c.toml:5: policy.route[0].approvers[0]: there is no "lim" in [people]; '
                "did you mean lin? allowed are lin",
                f'c.toml:5: policy.route[0].approvers[1]: "foo:bar" is no approver; allowed are {WHO}',
                f'c.toml:5: policy.route[0].approvers[2]: "slack:" is no approver; allowed are {WHO}',
            ],
        ),
        (
            f"{LIN}{ROUTE}approvers = ['group:oncall']\nquorum = 2",
            ["c.toml:6: policy.route[0].quorum: 2 people are needed, but only 1 can decide"],
        ),
        (
            f"{ROUTE}remind = '8h'\nescalate = {{ after = '9h', to = ['anyone'] }}",
            [
                "c.toml:3: policy.route[0].remind: must be shorter than expires, or it never happens",
                "c.toml:4: policy.route[0].escalate.after: must be shorter than expires, or it never happens",
            ],
        ),
        (
            f"{ROUTE}requester_may_decide = false\napprovers = ['web:kai']\n"
            "escalate = { after = '1h', to = ['requester'] }",
            ["c.toml:5: policy.route[0].escalate.to: nobody would be added: the requester may not decide"],
        ),
        (
            f"{ROUTE}escalate = {{ after = '1h', to = [] }}",
            [
                "c.toml:3: policy.route[0].escalate.to: must not be empty, for then nobody could decide; "
                f"allowed are {WHO}"
            ],
        ),
        (
            f"{LIN}{ROUTE}escalate = {{ after = '1h', to = ['group:onkall'] }}",
            [
                'c.toml:5: policy.route[0].escalate.to[0]: nobody in [people] is in the group "onkall"; '
                "did you mean oncall? allowed are oncall"
            ],
        ),
        (
            f"{ROUTE}veto = false\napprovers = ['anyone']",
            [
                "c.toml:3: policy.route[0].veto: cannot be false where anyone may decide: "
                "no rejection could ever end it"
            ],
        ),
        (
            f"{ROUTE}veto = false\nescalate = {{ after = '1h', to = ['anyone'] }}",
            [
                "c.toml:3: policy.route[0].veto: cannot be false where anyone may decide: "
                "no rejection could ever end it"
            ],
        ),
        (
            f"{LIN}[policy]\nbreak_glass = ['lin', 'requester', 'anyone', 'lim']",
            [
                "c.toml:4: policy.break_glass[1]: requester cannot approve alone; name people or groups, "
                "who answer for it",
                "c.toml:4: policy.break_glass[2]: anyone cannot approve alone; name people or groups, "
                "who answer for it",
                'c.toml:4: policy.break_glass[3]: there is no "lim" in [people]; '
                "did you mean lin? allowed are lin",
            ],
        ),
        (
            "[policy]\nbreak_glass = []",
            [
                "c.toml:2: policy.break_glass: must not be empty, for then nobody could decide; "
                f"allowed are {WHO}"
            ],
        ),
        (
            "[policy]\ngrant_for = '31d'",
            ["c.toml:2: policy.grant_for: is longer than 30d; write what holds for longer under allow"],
        ),
        (
            "[policy]\ngrant_for = 'always'",
            [
                "c.toml:2: policy.grant_for: 'always' is not a duration; write a number and s, m, h or d, "
                'such as "30m", "8h", "2d"'
            ],
        ),
        (
            "[policy.default_route]\nmatch = ['Bash']",
            ["c.toml:2: policy.default_route.match: the default route matches everything; leave this out"],
        ),
    ],
)
def test_rules_and_routes_that_cannot_work_are_mistakes(text: str, expected: list[str]) -> None:
    """A rule that never matches, a route nobody can answer, a reminder that never comes."""
    assert mistakes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f"{ROUTE}approvers = []",
            [
                "c.toml:3: policy.route[0].approvers: must not be empty, for then nobody could decide; "
                f"allowed are {WHO}"
            ],
        ),
        (
            f"{ROUTE}escalate = {{ after = '1h', to = [] }}",
            [
                "c.toml:3: policy.route[0].escalate.to: must not be empty, for then nobody could decide; "
                f"allowed are {WHO}"
            ],
        ),
        (
            f"{ROUTE}approvers = ['group:']",
            [
                'c.toml:3: policy.route[0].approvers[0]: nobody in [people] is in the group ""; '
                "none is defined"
            ],
        ),
        (
            f"{ROUTE}requester_may_decide = false",
            [
                "c.toml:1: policy.route[0].approvers: nobody could decide: the requester may not, "
                "and nobody else is named"
            ],
        ),
    ],
)
def test_case_b03_a_route_that_nobody_could_answer_is_refused(text: str, expected: list[str]) -> None:
    """Empty means nobody, and nobody is a mistake at start, not a surprise at night."""
    assert mistakes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[people.lin]\nslack = 'U1'\n[people.kai]\nslack = ['U2', 'U1']",
            ["c.toml:4: people.kai.slack: the account U1 can belong to one person once; lin has it already"],
        ),
        (
            "[people.lin]\nslack = 'T1:U1'\n[people.kai]\nslack = 'U1'",
            ["c.toml:4: people.kai.slack: the account U1 can belong to one person once; lin has it already"],
        ),
        (
            "[people.lin]\nslack = ['U1', 'U1']",
            ["c.toml:2: people.lin.slack: the account U1 can belong to one person once; it is listed twice"],
        ),
        (
            "[people.lin]\nslack = ''",
            [
                'c.toml:2: people.lin.slack: must be an id in quotes, "user" or "tenant:user", '
                "or a list of them"
            ],
        ),
        (
            "[people.lin]\nslak = 'U1'",
            [
                "c.toml:2: people.lin.slak: there is no such key; did you mean slack? "
                "allowed are web, slack, feishu, groups, display"
            ],
        ),
        (
            "[people.lin]\ngroups = 'oncall'",
            ['c.toml:2: people.lin.groups: must be a list of names in quotes, such as ["oncall"]'],
        ),
        (
            "[people.anyone]",
            [
                "c.toml:1: people.anyone: is no name for a person; use letters, digits, . _ - "
                "and none of requester, anyone, group"
            ],
        ),
    ],
)
def test_people_are_told_apart(text: str, expected: list[str]) -> None:
    """One account, one person: else a quorum could be one hand."""
    assert mistakes(text) == expected


def test_the_same_id_in_two_tenants_is_two_people() -> None:
    """Ids are unique within a tenant only."""
    config = load(None, text="[people.lin]\nslack = 'T1:U1'\n[people.kai]\nslack = 'T2:U1'")
    assert set(config.people) == {"lin", "kai"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[policy]\npermission_mode = 'bypassPermissions'", "c.toml:2: policy.permission_mode: "),
        ("[policy]\nallow = ['bypassPermissions']", "c.toml:2: policy.allow[0]: "),
        (
            "[model]\nname = 'x'\nbypass_permissions = 1\nbypassPermissions = 1",
            "c.toml:4: model.bypassPermissions: ",
        ),
        ("[runner]\nmode = 'acceptEdits'", "c.toml:2: runner.mode: "),
        ("[runner]\nmode = 'dontAsk'", "c.toml:2: runner.mode: "),
        (
            "[workspaces.a]\npath = 'x'\n[workspaces.a.mcp.b]\ncommand = 'claude'\n"
            "args = ['-p', '--dangerously-skip-permissions']",
            "c.toml:5: workspaces.a.mcp.b.args[1]: ",
        ),
    ],
)
def test_permission_modes_that_skip_people_are_refused_anywhere(text: str, where: str) -> None:
    """Whatever the key, such a word stops the start."""
    assert any(line.startswith(where) and "skip" in line and "people" in line for line in mistakes(text))


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    """One start, one list; programs read it from the details."""
    text = "language = 'fr'\n[web]\nport = 'x'\n[policy]\nallow = ['bash']\n[[policy.route]]\nmatch = []\n"
    with pytest.raises(FixConfiguration) as refused:
        load(Path("c.toml"), text=text)
    found: Any = refused.value.details["mistakes"]
    assert [(m["line"], m["key"]) for m in found] == [
        (1, "language"),
        (3, "web.port"),
        (5, "policy.allow[0]"),
        (7, "policy.route[0].match"),
    ]
    assert len(refused.value.message.split("\n")) == 4
    assert refused.value.hint == "Correct the file and start again."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = ", "c.toml:1: this is not TOML: Invalid value (at end of document)"),
        ("\na = 1\nb = [1,\n", "c.toml:4: this is not TOML: Invalid value (at end of document)"),
        (
            "a = 1\nb c = 2\n",
            "c.toml:2: this is not TOML: Expected '=' after a key in a key/value pair (at line 2, column 3)",
        ),
    ],
)
def test_broken_toml_names_its_line(text: str, expected: str) -> None:
    """The parser's own words, with the file in front."""
    assert mistakes(text) == [expected]


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    """Missing, a directory, or not UTF-8."""
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"a = 1\nb = '\xe9'\n")
    expected = {
        tmp_path / "none.toml": f"cannot read {tmp_path}/none.toml: No such file or directory",
        tmp_path: f"cannot read {tmp_path}: Is a directory",
        latin: f"{latin}:2: this is not UTF-8",
    }
    for file, message in expected.items():
        with pytest.raises(FixConfiguration) as refused:
            load(file)
        assert refused.value.message == message


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Some editors write one."""
    file = tmp_path / "c.toml"
    file.write_bytes(b"\xef\xbb\xbflanguage = 'ja'\n")
    assert load(file).language == "ja"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[policy]\nallow = ["Bash(git status)"]\nask = ["Bash"]',
            'policy.allow: "Bash(git status)" has no effect: "Bash" under ask comes first '
            "and matches every such call",
        ),
        (
            '[policy]\nallow = ["AskUserQuestion"]',
            'policy.allow: "AskUserQuestion" has no effect: AskUserQuestion always asks a person',
        ),
        (
            '[policy]\nask = ["mcp__deploy__*"]',
            'policy: "mcp__deploy__*" matches nothing yet: no workspace has an MCP server deploy',
        ),
        (
            "[people.lin]\ngroups = ['g']\n[people.kai]\ngroups = ['g']\n"
            f"{ROUTE}approvers = ['group:g']\nquorum = 2\nrequester_may_decide = false",
            "policy.route: when one of the 2 approvers asks, the other 1 cannot reach the quorum of 2, "
            "because the requester may not decide",
        ),
    ],
)
def test_what_is_probably_not_meant_is_a_warning(text: str, expected: str) -> None:
    """It loads, and says what it will not do."""
    assert load(None, text=text).warnings == (expected,)


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "policy",
                    "route",
                    "allow",
                    "people",
                    "lin",
                    "groups",
                    "workspaces",
                    "path",
                    "mcp",
                    "places",
                    "match",
                    "approvers",
                    "escalate",
                    "to",
                    "quorum",
                    "expires",
                    "default_route",
                    "x",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


def _toml(value: Any) -> str:
    """A value as TOML text, inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(c):08x}" for c in value if not "\ud800" <= c <= "\udfff") + '"'
    return str(value or 0)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(["policy", "people", "workspaces", "limits", "web", "x"]), JSONISH))
def test_any_tables_load_or_are_refused_with_words(tables: dict[str, Any]) -> None:
    """Whatever stands where, the answer is a configuration or a list of mistakes."""
    text = "\n".join(f"{key} = {_toml(value)}" for key, value in tables.items())
    try:
        config = load(Path("c.toml"), text=text)
    except FixConfiguration as error:
        assert all(re.match(r"c\.toml:\d+: \S+: \S", line) for line in error.message.split("\n"))
    else:
        assert Config.model_validate_json(config.model_dump_json()) == config


# --- lines --------------------------------------------------------------------------------

TOML = '''# comment = 1
"quoted key" = "a # no comment"
[a.b] # comment
c = """
[not.a.table]
x = 1
""" # end
d = [ # list
  "one", 'two',

  { e = "f",
    g = [1, 2] },
]
h.i = 3
[[t]]
k = 1
[t.sub]
m = 1
[[t]]
k = 2
[t.sub]
m = 2
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("quoted key",), 2),
        (("a", "b"), 3),
        (("a", "b", "c"), 4),
        (("not", "a"), 1),
        (("a", "b", "d"), 8),
        (("a", "b", "d", 0), 9),
        (("a", "b", "d", 1), 9),
        (("a", "b", "d", 2), 11),
        (("a", "b", "d", 2, "g"), 12),
        (("a", "b", "h", "i"), 14),
        (("t",), 15),
        (("t", 0, "k"), 16),
        (("t", 0, "sub", "m"), 18),
        (("t", 1), 19),
        (("t", 1, "k"), 20),
        (("t", 1, "sub", "m"), 22),
        (("t", 1, "sub", "nope"), 21),
        ((), 1),
    ],
)
def test_the_line_of_a_key_is_found(key: tuple[str | int, ...], line: int) -> None:
    """In tables, arrays of tables, lists over several lines and inline tables."""
    assert Lines(TOML).of(key) == line
    assert Lines(TOML.replace("\n", "\r\n")).of(key) == line


@given(st.text(max_size=60) | st.text(alphabet="a=[]{}\"'.,#\n \\", max_size=40))
def test_the_scanner_ends_on_any_text(text: str) -> None:
    """Also on text that is no TOML."""
    assert Lines(text).of(("a",)) >= 1


# --- durations ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "8", "8 h", "h", "-1h", "0m", "1.5h", "1w", "８h", "9" * 20 + "d", "367d"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """With an example of what is one."""
    with pytest.raises(ValueError, match='such as "30m", "8h", "2d"'):
        parse_duration(text)


@given(st.integers(1, 366 * 86400))
def test_durations_survive_their_spelling(seconds: int) -> None:
    """What is written into JSON is read back as the same."""
    span = timedelta(seconds=seconds)
    assert parse_duration(format_duration(span)) == span


# --- the hook -----------------------------------------------------------------------------


def hook_in(directory: Path, code: str, spec: str = "ops_policy:needs_approval") -> Any:
    """The hook of a configuration file beside which `code` lies."""
    (directory / "ops_policy.py").write_text(code)
    file = directory / "c.toml"
    file.write_text(f'\n[policy]\nneeds_approval = "{spec}"\n')
    return load_hook(load(file), directory)


def test_the_hook_is_imported_from_beside_the_file(tmp_path: Path) -> None:
    """With its own neighbours, and without leaving a trace in the search path."""
    (tmp_path / "ops_helper.py").write_text("LIMIT = 3\n")
    code = (
        "from ops_helper import LIMIT\ndef needs_approval(call):\n    return len(call.tool_input) > LIMIT\n"
    )
    hook = hook_in(tmp_path, code)
    tried = Call(tool_name="X", tool_input={str(n): n for n in range(4)}, cwd="/", workspace="ops")
    assert hook(tried) is True
    assert load_hook(Config(), tmp_path) is None


@pytest.mark.parametrize(
    ("code", "spec", "what"),
    [
        ("x = 1", "ops_policy:needs_approval", "ops_policy has no needs_approval"),
        ("needs_approval = 1", "ops_policy:needs_approval", "ops_policy:needs_approval is no plain function"),
        (
            "async def needs_approval(call): ...",
            "ops_policy:needs_approval",
            "ops_policy:needs_approval is no plain function",
        ),
        (
            "1 / 0",
            "ops_policy:needs_approval",
            "importing ops_policy failed: ZeroDivisionError: division by zero",
        ),
        (
            "",
            "no_such_module:f",
            "importing no_such_module failed: ModuleNotFoundError: No module named 'no_such_module'",
        ),
    ],
)
def test_a_hook_that_cannot_be_used_is_refused_at_start(
    tmp_path: Path, code: str, spec: str, what: str
) -> None:
    """Not at the first call, when it is too late to tell anybody."""
    with pytest.raises(FixConfiguration) as refused:
        hook_in(tmp_path, code, spec)
    assert refused.value.message == f"{tmp_path / 'c.toml'}:3: policy.needs_approval: {what}"


def test_reading_the_configuration_reads_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment but the home directory gets into the value that travels."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-secret")
    text = "[workspaces.ops]\npath = '$SLACK_BOT_TOKEN'"
    config = load(Path("/etc/c.toml"), text=text)
    assert config.workspaces["ops"].path == os.path.join("/etc", "$SLACK_BOT_TOKEN")  # noqa: PTH118  (literal)
