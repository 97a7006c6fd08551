"""Rules: what parses, what stops, what allows."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runner.bash import MAX_CHARS, Script
from agent_runner.bash_reader import read, remembered
from agent_runner.errors import FixConfiguration
from agent_runner.matching import Call, allowing, may_reach, never_allows, stops
from agent_runner.rules import parse

HERE = "/srv/ops"


def call(tool: str, **tool_input: Any) -> Call:
    """A call of a tool in the workspace."""
    return Call(tool_name=tool, tool_input=tool_input, cwd=HERE, workspace="ops")


def bash(command: Any) -> Call:
    """A Bash call."""
    return call("Bash", command=command)


def allowed(rules: list[str], tried: Call) -> list[str]:
    """The rules that together allow the call."""
    return [rule.text for rule in allowing(map(parse, rules), tried)]


def stopped(rule: str, tried: Call) -> bool:
    """Whether the rule would stop the call."""
    return stops(parse(rule), tried)


# --- parsing ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Bash", "Bash"),
        ("Bash(*)", "Bash"),
        (" Bash(git status) ", "Bash(git status)"),
        ("Bash(git push:*)", "Bash(git push *)"),
        ("Bash(git  push *)", "Bash(git push *)"),
        ("Bash(echo 'a  b')", "Bash(echo 'a  b')"),
        ("Bash(echo (x))", "Bash(echo (x))"),
        ("Read(./secrets/**)", "Read(./secrets/**)"),
        ("Edit(~/notes/**)", "Edit(~/notes/**)"),
        ("Read(//etc/**)", "Read(//etc/**)"),
        ("WebFetch(domain:Example.COM)", "WebFetch(domain:example.com)"),
        ("WebFetch(domain:*.example.com)", "WebFetch(domain:*.example.com)"),
        ("mcp__*", "mcp__*"),
        ("mcp__db", "mcp__db"),
        ("mcp__db__*", "mcp__db__*"),
        ("mcp__db__get_*", "mcp__db__get_*"),
        ("Agent(reviewer)", "Agent(reviewer)"),
    ],
)
def test_a_rule_has_one_canonical_spelling(text: str, canonical: str) -> None:
    """Rules that mean the same are equal in their canonical form."""
    assert parse(text).canonical == canonical


FORMS = (
    "allowed are Tool, Bash(git push:*), Bash(npm run *), Read(./secrets/**), Edit(~/notes/**), "
    "WebFetch(domain:example.com), mcp__server__tool, Agent(name)"
)
COLON = "`:*` stands at the end, behind a command: Bash(git push:*)"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", 'the rule "" is no rule', FORMS),
        ("Bash(ls", 'the rule "Bash(ls" is no rule', FORMS),
        ("git status", 'the rule "git status" is no rule', FORMS),
        ("bash", 'the rule "bash" can never match: there is no tool bash', "did you mean Bash?"),
        ("Writ", 'the rule "Writ" can never match: there is no tool Writ', "did you mean Write?"),
        ("Bash()", 'the rule "Bash()" has nothing between its parentheses', "for every call write Bash"),
        ("Bash( )", 'the rule "Bash( )" has nothing between its parentheses', "for every call write Bash"),
        ("Bash(:*)", 'the rule "Bash(:*)" can never match', COLON),
        ("Bash(git:* push)", 'the rule "Bash(git:* push)" can never match', COLON),
        ("Bash(a\x07b)", 'the rule "Bash(a\x07b)" holds control characters', FORMS),
        (
            "Write(./x)",
            'the rule "Write(./x)" can never match: paths of Write are checked by Edit rules',
            "write Edit(./x)",
        ),
        (
            "Grep(./x)",
            'the rule "Grep(./x)" can never match: paths of Grep are checked by Read rules',
            "write Read(./x)",
        ),
        (
            "WebSearch(x)",
            'the rule "WebSearch(x)" can never match: WebSearch takes nothing in parentheses',
            "write WebSearch",
        ),
        (
            "mcp__db(x)",
            'the rule "mcp__db(x)" can never match: MCP tools take nothing in parentheses',
            "write mcp__db",
        ),
        (
            "mcp__",
            'the rule "mcp__" names no MCP server',
            "allowed are mcp__*, mcp__server, mcp__server__*, mcp__server__tool",
        ),
        (
            "Read(../x)",
            'the rule "Read(../x)" can never match: paths are compared without ..',
            "write Read(//absolute/path/**) or Read(~/path/**)",
        ),
        (
            "Read(~bob/x)",
            'the rule "Read(~bob/x)" can never match: only ~/ stands for a home directory',
            "write Read(~/...)",
        ),
        (
            "Read({a,b})",
            'the rule "Read({a,b})" can never match: braces are no wildcard here',
            "write one rule for each path",
        ),
        (
            "Read(!x)",
            'the rule "Read(!x)" can never match: a rule cannot take back another',
            "write it in another list",
        ),
        ("Read(./)", 'the rule "Read(./)" names no path', "for everything in the workspace write Read(./**)"),
        (
            "WebFetch(example.com)",
            'the rule "WebFetch(example.com)" names no domain',
            "write WebFetch(domain:example.com)",
        ),
    ],
)
def test_what_can_never_match_is_refused_with_what_is_allowed(text: str, message: str, hint: str) -> None:
    """A rule that does nothing is a mistake, not a surprise for later."""
    with pytest.raises(FixConfiguration) as refused:
        parse(text)
    assert (refused.value.message, refused.value.hint) == (message, hint)


@given(st.text(max_size=60))
def test_parsing_any_text_gives_a_rule_or_a_mistake(text: str) -> None:
    """No text makes the parser fail in another way, and a canonical rule parses to itself."""
    try:
        rule = parse(text)
    except FixConfiguration as error:
        assert error.hint
    else:
        assert parse(rule.canonical).canonical == rule.canonical


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("Bash(ls *)", ""),
        ("Bash(find . *)", ""),
        ("Bash(* --version)", ""),
        ("Bash(sudo systemctl status *)", ""),
        ("Bash(xargs grep:*)", ""),
        ("Bash(bash deploy.sh *)", ""),
        ("Bash(NODE_ENV=test npm run *)", ""),
        ("Bash(make > out.log)", ""),
        ("Bash(sudo *)", "a wildcard may not choose what sudo runs"),
        ("Bash(env:*)", "a wildcard may not choose what env runs"),
        ("Bash(bash -c *)", "a wildcard may not choose what bash runs"),
        ("Bash(sudo timeout 5 *)", "a wildcard may not choose what sudo runs"),
        ("Bash(git log | head *)", "a command line is allowed command by command"),
        ("Bash(ls $HOME/*)", "it holds something that is always asked about"),
        ("Bash(make > *)", "it holds something that is always asked about"),
    ],
)
def test_allow_rules_that_could_never_take_effect_are_named(rule: str, why: str) -> None:
    """`never_allows` says why, or nothing for a rule that works."""
    assert never_allows(parse(rule))[: len(why) or None] == why


# --- Bash: allow --------------------------------------------------------------------------

READ_ONLY = ["Bash(ls:*)", "Bash(git status:*)", "Bash(pwd)", "Bash(npm * --dry-run)", "Bash(wc*)"]


@pytest.mark.parametrize(
    ("command", "by"),
    [
        ("ls", ["Bash(ls:*)"]),
        ("ls -la src", ["Bash(ls:*)"]),
        ("  ls  -la ", ["Bash(ls:*)"]),
        ("'ls' \"src\"", ["Bash(ls:*)"]),
        ("ls 'a;b' \"c && d\" e\\ f", ["Bash(ls:*)"]),
        ("ls && pwd; git status -s | wc -l", ["Bash(ls:*)", "Bash(pwd)", "Bash(git status:*)", "Bash(wc*)"]),
        ("# what is here?\nls # all of it", ["Bash(ls:*)"]),
        ("ls | ls | ls\nls && pwd\n\n", ["Bash(ls:*)", "Bash(pwd)"]),
        ("ls 'a\nb' |\npwd", ["Bash(ls:*)", "Bash(pwd)"]),
        ("(ls; pwd) &", ["Bash(ls:*)", "Bash(pwd)"]),
        ("! ls", ["Bash(ls:*)"]),
        ("ls 2>&1 >/dev/null", ["Bash(ls:*)"]),
        ("ls src/*.py", ["Bash(ls:*)"]),
        ("npm publish --dry-run", ["Bash(npm * --dry-run)"]),
        ("timeout 5 ls", ["Bash(ls:*)"]),
        ("nohup ls", ["Bash(ls:*)"]),
        ("time nohup timeout 1.5m ls", ["Bash(ls:*)"]),
    ],
)
def test_a_command_line_is_allowed_if_every_command_in_it_is(command: str, by: list[str]) -> None:
    """The rules that were needed are named, in the order of the commands."""
    assert allowed(READ_ONLY, bash(command)) == by


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "# only words",
        "lsof",
        "pwd -P",
        "ls; rm x",
        "ls && rm x",
        "ls || rm x",
        "ls | rm x",
        "ls |& rm x",
        "ls & rm x",
        "ls\nrm x",
        "ls # note\n\\rm x",
        "ls # note\n'rm' x",
        "ls; # note\n\\rm x",
        "ls | ls | ls\nrm x && ls",
        "ls $(rm x)",
        "ls `rm x`",
        'ls "$(rm x)"',
        'ls "`rm x`"',
        "ls <(rm x)",
        "ls > x",
        "ls >> x",
        "ls >| x",
        "ls &> x",
        "ls < x",
        "ls 2> /dev/nullx",
        "ls >/dev/null x y>z",
        "ls <<< x",
        "ls <<E\nx\nE",
        "ls $X",
        'ls "$X"',
        "ls ${X:-y}",
        "ls $((1+1))",
        "ls $'a'",
        'ls $"a"',
        "ls {a,b}",
        "ls *",
        "ls *.py",
        "ls ?",
        "X=1",
        "X=1 ls",
        "LD_PRELOAD=./evil.so ls",
        "X=1; ls",
        "ls() { rm x; }; ls",
        "function ls { rm x; }",
        "{ ls; }",
        "if ls; then ls; fi",
        "! if ls; then ls; fi",
        "time if ls; then ls; fi",
        "for i in a; do ls; done",
        "while ls; do ls; done",
        "case x in x) ls;; esac",
        "[[ -f x ]] && ls",
        "[ -f x ] && ls",
        "export X=1",
        "alias ls=rm; ls",
        "eval ls",
        "bash -c ls",
        "sh -c 'ls'",
        "sudo ls",
        "env ls",
        "xargs ls",
        "command ls",
        "timeout -k 1 5 ls",
        "timeout 5 rm x",
        "timeout ls",
        "time -o x ls",
        '"ls -la"',
        '"git status"',
        "git 'status -s'",
        "ls \\\n-la",
        "l\\\ns",
        "ls\r\npwd",
        "ls\x00",
        "ls\u00a0-la",
        "ls\u2028rm x",
        "ls '",
        'ls "',
        "ls (",
        "ls )",
        "ls &&",
        "ls a#b",
        "/bin/ls",
        "./ls",
        "ls" + " x" * MAX_CHARS,
        "\ud800",
    ],
)
def test_what_is_not_wholly_understood_is_not_allowed(command: str) -> None:
    """Anything that could do more than the rules say is left for a person."""
    assert allowed(READ_ONLY, bash(command)) == []


@pytest.mark.parametrize("command", [None, 3, ["ls"], {"ls": 1}])
def test_a_command_that_is_no_text_is_neither_allowed_nor_matched(command: Any) -> None:
    """Only the rule for the whole tool speaks of it."""
    assert allowed(READ_ONLY, bash(command)) == []
    assert [stopped(rule, bash(command)) for rule in ("Bash(ls:*)", "Bash")] == [False, True]


@pytest.mark.parametrize(
    ("rule", "command", "matches"),
    [
        ("Bash", "anything $(at all", True),
        ("Bash(make all > out.log)", "make all > out.log", True),
        ("Bash(make all > out.log)", "make all > out.log; rm x", False),
        ("Bash(bash -c 'make all')", "bash -c 'make all'", True),
        ("Bash(sudo systemctl status *)", "sudo systemctl status nginx", True),
        ("Bash(sudo systemctl status *)", "sudo -u bob systemctl status nginx", False),
        ("Bash(sudo -u bob systemctl *)", "sudo -u bob systemctl status", True),
        ("Bash(sudo *)", "sudo rm x", False),
        ("Bash(* -v)", "sudo rm -v", False),
        ("Bash(xargs grep:*)", "xargs grep x", True),
        ("Bash(xargs grep:*)", "xargs rm", False),
        ("Bash(bash deploy.sh *)", "bash deploy.sh now", True),
        ("Bash(find . *)", "find . -name x", True),
        ("Bash(find . *)", "find . -delete", False),
        ("Bash(find . *)", "find . -exec rm {} +", False),
        ("Bash(ssh host uptime *)", "ssh host uptime ';' rm x", False),
        ("Bash(NODE_ENV=test npm run *)", "NODE_ENV=test npm run all", True),
        ("Bash(NODE_ENV=test npm run *)", "NODE_ENV=prod npm run all", False),
        ("Bash(* npm run *)", "LD_PRELOAD=x npm run y", False),
    ],
)
def test_an_allow_rule_covers_no_more_than_it_spells_out(rule: str, command: str, matches: bool) -> None:
    """A wildcard never chooses the program that a wrapper runs, nor its environment."""
    assert bool(allowed([rule], bash(command))) is matches


# --- Bash: deny ---------------------------------------------------------------------------

DISGUISES = [
    "sudo rm x",
    "sudo",
    "  sudo\trm x",
    "s'u'\"d\"o rm x",
    "\\sudo rm x",
    "su\\\ndo rm x",
    "$'\\x73udo' rm x",
    "/usr/bin/sudo rm x",
    "../../usr/bin/sudo rm x",
    "ls; sudo rm x",
    "ls & sudo rm x",
    "ls\nsudo rm x",
    "ls # note\n\\sudo rm x",
    "timeout 5 nohup # note\nsudo rm x",
    "ls | ls | ls\nsudo rm x && ls",
    "! sudo rm x",
    "(sudo rm x)",
    "{ sudo rm x; }",
    "ls | sudo tee x",
    "ls $(sudo rm x)",
    "ls `sudo rm x`",
    'ls "$(sudo rm x)"',
    "ls <(sudo rm x)",
    "ls ${X:-$(sudo rm x)}",
    "ls $((1+$(sudo rm x)))",
    "cat <<E\n$(sudo rm x)\nE",
    "cat <<< $(sudo rm x)",
    "X=1 sudo rm x",
    "X=$(sudo rm x)",
    "export X=$(sudo rm x)",
    "sudo </dev/null rm x",
    ">x sudo rm x",
    "2>/dev/null sudo rm x",
    "if sudo rm x; then ls; fi",
    "for i in a; do sudo rm $i; done",
    "while sudo x; do ls; done",
    "case x in x) sudo y;; esac",
    "f() { sudo x; }; f",
    "[[ -f x ]] || sudo rm x",
    "time sudo rm x",
    "coproc sudo rm x",
    "exec sudo rm x",
    "command sudo rm x",
    "nohup sudo rm x",
    "timeout 5 sudo rm x",
    "timeout -k 3 5 sudo rm x",
    "nice -n 5 sudo rm x",
    "env sudo rm x",
    "env -i X=1 sudo rm x",
    "env -S 'sudo rm x'",
    "env -S'sudo rm x'",
    "xargs sudo rm",
    "xargs -I {} -n 1 sudo rm {}",
    "find . -exec sudo rm {} \\;",
    "find . -name x -execdir sudo rm {} +",
    "bash -c 'sudo rm x'",
    "bash -lc 'sudo rm x'",
    "bash -o pipefail -c 'sudo rm x'",
    '/bin/sh -ec "ls; sudo rm x"',
    "bash -c \"bash -c 'sudo rm x'\"",
    "timeout 5 bash -c 'nohup sudo rm x'",
    "su -c 'sudo rm x' bob",
    "su --command='sudo rm x' bob",
    "eval sudo rm x",
    "eval 'sudo rm x'",
    "trap 'sudo rm x' EXIT",
    "watch 'sudo rm x'",
    "ssh host sudo rm x",
    "echo sudo rm x | sh",
    "bash <<E\nsudo rm x\nE",
    "bash <<< 'sudo rm x'",
    ". <(echo sudo rm x)",
    "alias x=sudo; x rm y",
    "X=sudo; $X rm y",
    "{sudo,rm,x}",
    "$(echo sudo) rm x",
    "if sudo rm x",
    "sudo rm 'x",
    "((( sudo rm x",
]


@pytest.mark.parametrize("command", DISGUISES)
def test_a_denied_command_is_found_in_every_disguise(command: str) -> None:
    """At any depth, quoted, wrapped, or in text that does not parse."""
    assert stopped("Bash(sudo:*)", bash(command))
    assert allowed(READ_ONLY, bash(command)) == []


@pytest.mark.parametrize(
    "command",
    [
        "echo sudo",
        "echo \\\n sudo",
        "ls sudo",
        "git log --grep=sudo",
        "sudoku",
        "ls ./sudo",
        "timeout 5 grep -r sudo src",
    ],
)
def test_a_word_that_is_not_run_is_not_denied(command: str) -> None:
    """Where the command line is understood, only commands count."""
    assert not stopped("Bash(sudo:*)", bash(command))


@pytest.mark.parametrize(
    ("rule", "command", "matches"),
    [
        ("Bash(git push:*)", "git push", True),
        ("Bash(git push:*)", "git  push   origin", True),
        ("Bash(git push:*)", "git -C /srv push", True),
        ("Bash(git push:*)", "git --no-pager -c a=b push -f", True),
        ("Bash(git push:*)", "ls | ls | ls\ngit -C . push && ls", True),
        ("Bash(git push:*)", "git pushx", False),
        ("Bash(git push:*)", "git status push", False),
        ("Bash(git push)", "git push origin", False),
        ("Bash(rm*)", "rmdir x", True),
        ("Bash(* --force)", "git push --force", True),
        ("Bash(* --force *)", "git push --force origin", True),
        ("Bash(curl * | sh)", "curl https://x | sh", True),
        ("Bash(git commit -m 'wip')", 'git commit -m "wip"', True),
        ("Bash(FOO=1 make *)", "FOO=1 make all", True),
        ("Bash(* --force)", "if git push --force", True),
    ],
)
def test_a_stopping_rule_reads_a_command_in_every_spelling(rule: str, command: str, matches: bool) -> None:
    """Options in front of a subcommand and other quotes do not hide it."""
    assert stopped(rule, bash(command)) is matches


# --- properties ---------------------------------------------------------------------------

WRAPPINGS = [
    "{}",
    "ls; {}",
    "{}; ls",
    "ls && {}",
    "ls || {} | cat",
    "({})",
    "echo $({})",
    'echo "$({})"',
    "cat <({})",
    "if ls; then {}; fi",
    "for i in a b; do {}; done",
    "f() {{ {}; }}; f",
    "! {}",
    "time {}",
    "{{ {}; }}",
    "while {}; do ls; done",
    "case x in x) {};; esac",
    "coproc {}",
    "timeout 5 nohup {}",
    "X=1 env Y=2 {}",
    "{} > out 2>&1",
    "# note\n{}",
    "cat <<E\n$({})\nE",
]


@given(st.lists(st.sampled_from(WRAPPINGS), max_size=4), st.sampled_from(["rm -rf /", "'r'm x", "\\rm x"]))
@settings(deadline=None)
def test_no_wrapping_hides_a_denied_command(wrappings: list[str], command: str) -> None:
    """Compounds, subshells, loops, functions and wrappers in any nesting."""
    for wrapping in wrappings:
        command = wrapping.format(command)
    assert stopped("Bash(rm:*)", bash(command))


@given(st.text(alphabet="rm'\"\\ ;x$(){}|&\n<>#`=", max_size=30))
@settings(deadline=None)
def test_no_text_behind_a_denied_command_hides_it(text: str) -> None:
    """Whatever follows, even if it no longer parses, the command in front stays denied."""
    assert stopped("Bash(rm:*)", bash(f"rm {text}"))


SEPARATORS = ["; ", " && ", " || ", " | ", " |& ", " & ", "\n", "\n\n"]
MIXED = [
    ("ls -a", True),
    ("git status", True),
    ("pwd", True),
    ("rm x", False),
    ("lsof", False),
    ("X=1 ls", False),
]


@given(st.lists(st.tuples(st.sampled_from(MIXED), st.sampled_from(SEPARATORS)), min_size=1, max_size=6))
@settings(deadline=None)
def test_a_line_is_allowed_exactly_if_all_its_commands_are(parts: list[tuple[tuple[str, bool], str]]) -> None:
    """Adding a command to an allowed line never leaves it allowed unless that one is, too."""
    line = parts[0][0][0] + "".join(separator + command for (command, _), separator in parts[1:])
    assert bool(allowed(READ_ONLY, bash(line))) is all(good for (_, good), _ in parts)


@given(st.text(max_size=80) | st.text(alphabet="ls rm'\"\\;&|$(){}<>#`=*\n!-[]", max_size=60))
@settings(deadline=None)
def test_reading_any_text_never_fails_and_is_stable(text: str) -> None:
    """The reader takes any text at all, and says the same about it twice, unless its process crashed."""
    script = read(text)
    remembered.cache_clear()
    unread = Script(text=text, plain=None, commands=(), uncertain=True)
    assert script in (read(text), unread) or read(text) == unread
    assert not stopped("Bash(zzz:*)", bash(text)) or "zzz" in text


PIECES = [
    *(" ", "\t", "\n", "\\\n", "#", " # n", "\n\\b", "\nb", "'", '"', "\\", "$'", "b", "a", "ls", "'b'"),
    *(
        ";",
        "&",
        "|",
        "||",
        "&&",
        "|&",
        "(b)",
        "{ b; }",
        "$(b)",
        "`b`",
        "<(b)",
        "((",
        "))",
        "!",
        "*",
        "=",
        "~",
    ),
    *("<<E\n", "\nE\n", "<<<", ">/dev/null", "2>&1", "</dev/null", "[", "]]", "${", "}", "time", "if ", ","),
]


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="compares with the real bash, which is not here")
@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
@settings(deadline=None, max_examples=100)
def test_we_and_the_real_bash_agree_on_what_runs(tmp_path_factory: pytest.TempPathFactory, tail: str) -> None:
    """Bash itself reports what it runs: what it ran is denied, and what we allow ran nothing but `ls`."""
    room = tmp_path_factory.mktemp("room")
    report = room / "report"
    guard = 'ls() { :; }; command_not_found_handle() { echo "$1" >>"$REPORT"; }\n'
    subprocess.run(
        ["/bin/bash", "-c", f"{guard}ls {tail}"],
        capture_output=True,
        timeout=10,
        cwd=room,
        env={"PATH": "/nonexistent", "REPORT": str(report)},
        check=False,
    )
    ran = report.read_text().splitlines() if report.exists() else []
    assert "b" not in ran or stopped("Bash(b:*)", bash(f"ls {tail}"))
    if allowed(["Bash(ls:*)"], bash(f"ls {tail}")):
        assert list(room.iterdir()) == []
    shutil.rmtree(room)


@pytest.mark.parametrize(
    "text",
    [
        "sudo -a " * 6_000,
        "bash -c " * 6_000,
        "(" * MAX_CHARS,
        "$(" * (MAX_CHARS // 2),
        '"$(' * (MAX_CHARS // 3),
        "env " + "A=b " * 12_000,
        "find " + "-exec " * 8_000,
        "a*" * (MAX_CHARS // 2),
    ],
    ids=["wrappers", "shells", "subshells", "substitutions", "strings", "assignments", "find", "globs"],
)
def test_hostile_text_is_read_within_bounds(text: str) -> None:
    """Deep or long texts end in "not allowed" and a bounded list, not in a hang or an exception."""
    assert allowed(READ_ONLY, bash(text)) == []
    assert len(read(text).commands) < 1_000
    assert not stopped("Bash(*a*b*c*d*e*)", bash("a" * MAX_CHARS))


# --- paths --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "tried", "stops_it", "allows_it"),
    [
        ("Read(./secrets/**)", call("Read", file_path="/srv/ops/secrets/key"), True, True),
        ("Read(./secrets/**)", call("Read", file_path="secrets/key"), True, True),
        ("Read(./secrets/**)", call("Read", file_path="/srv/ops/a/../secrets/key"), True, True),
        ("Read(./secrets/**)", call("Read", file_path="/srv//ops/./secrets/a/b"), True, True),
        ("Read(./secrets/**)", call("Read", file_path="//srv/ops/secrets/key"), True, True),
        ("Read(./secrets/**)", call("Read", file_path="/srv/ops/secretsX/key"), False, False),
        ("Read(./secrets/**)", call("Read", file_path="/srv/ops/secrets/../a"), False, False),
        ("Read(./secrets/**)", call("Edit", file_path="/srv/ops/secrets/key"), False, False),
        ("Read(secrets)", call("Read", file_path="/srv/ops/a/secrets/key"), True, True),
        ("Read(./secrets)", call("Read", file_path="/srv/ops/a/secrets/key"), False, False),
        ("Read(*.env)", call("Read", file_path="/srv/ops/a/b/prod.env"), True, True),
        ("Read(*.env)", call("Read", file_path="/srv/other/prod.env"), False, False),
        ("Read(./a/*/c)", call("Read", file_path="/srv/ops/a/b/c"), True, True),
        ("Read(./a/*/c)", call("Read", file_path="/srv/ops/a/b/b/c"), False, False),
        ("Read(./a/**/c)", call("Read", file_path="/srv/ops/a/c"), True, True),
        ("Read(./a/**/c)", call("Read", file_path="/srv/ops/a/b/b/c/d"), True, True),
        ("Read(//etc/**)", call("Read", file_path="/etc/passwd"), True, True),
        ("Read(/etc/**)", call("Read", file_path="/srv/ops/etc/x"), True, True),
        ("Read(/etc/**)", call("Read", file_path="/etc/passwd"), True, False),
        ("Read(./**)", call("Read", file_path="/etc/passwd"), False, False),
        ("Read(./**)", call("Read", file_path="../x"), False, False),
        ("Read(./**)", call("Read"), False, False),
        ("Read(./**)", call("Read", file_path=3), False, False),
        ("Read", call("Read", file_path="/etc/passwd"), True, True),
        ("Read", call("Grep", pattern="x"), True, True),
        ("Read(./**)", call("Grep", pattern="x"), True, True),
        ("Read(./**)", call("Grep", pattern="x", path="/etc"), False, False),
        ("Read(./src/**)", call("Grep", pattern="x"), False, False),
        ("Read(./src/**)", call("Grep", pattern="x", path="src"), True, True),
        ("Read(./**)", call("Glob", pattern="**/*.py"), True, True),
        ("Read(./**)", call("Glob", pattern="../*.py"), False, False),
        ("Read(./**)", call("Glob", pattern="*/../../*.py"), False, False),
        ("Read(./**)", call("Glob", pattern="/etc/*"), False, False),
        ("Read(./secrets/**)", call("Glob", pattern="secrets/*"), True, True),
        ("Edit(./src/**)", call("Edit", file_path="/srv/ops/src/a"), True, True),
        ("Edit(./src/**)", call("Write", file_path="/srv/ops/src/a"), True, True),
        ("Edit(./src/**)", call("NotebookEdit", notebook_path="/srv/ops/src/a"), True, True),
        ("Edit(./src/**)", call("Write", file_path="/srv/ops/src/../b"), False, False),
        ("Edit", call("Write", file_path="/x"), True, True),
        ("Write", call("Edit", file_path="/x"), False, False),
    ],
)
def test_path_rules_follow_the_path_and_not_its_spelling(
    rule: str, tried: Call, stops_it: bool, allows_it: bool
) -> None:
    """Relative, absolute and climbing spellings are one path; Edit speaks for Write, Read for Grep."""
    assert (stopped(rule, tried), bool(allowed([rule], tried))) == (stops_it, allows_it)


def test_home_is_expanded_in_rules_and_in_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~/` is the home directory on both sides."""
    monkeypatch.setenv("HOME", "/home/mei")
    rule = "Read(~/.ssh/**)"
    spellings = ("~/.ssh/id", "/home/mei/.ssh/id", "/home/mei/x/../.ssh/id", "/home/kai/.ssh/id")
    assert [stopped(rule, call("Read", file_path=path)) for path in spellings] == [True, True, True, False]


def test_a_symlink_is_judged_by_both_its_faces(tmp_path: Path) -> None:
    """Denied if either the link or its target is; allowed only if both are."""
    for name in ("secrets", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "open" / "link").symlink_to(tmp_path / "secrets" / "file")
    (tmp_path / "open" / "out").symlink_to("/etc")
    (tmp_path / "alias").symlink_to(tmp_path)

    def judged(path: str, cwd: Path = tmp_path) -> tuple[bool, bool]:
        tried = Call(tool_name="Read", tool_input={"file_path": path}, cwd=str(cwd), workspace="ops")
        return stopped("Read(./secrets/**)", tried), bool(allowed(["Read(./open/**)"], tried))

    assert judged("open/file") == (False, True)
    assert judged("open/link") == (True, False)
    assert judged("open/out/passwd") == (False, False)
    assert judged("alias/secrets/file") == (True, False)
    assert judged("open/file", tmp_path / "alias") == (False, True)
    assert judged(os.path.realpath(tmp_path / "open/file"), tmp_path / "alias") == (False, True)


@pytest.mark.parametrize(
    ("rule", "tried", "reaches"),
    [
        ("Read(./secrets/**)", call("Grep", pattern="x"), True),
        ("Read(./secrets/**)", call("Grep", pattern="x", path="/"), True),
        ("Read(./secrets/**)", call("Grep", pattern="x", path="src"), False),
        ("Read(*.env)", call("Grep", pattern="x", path="src"), True),
        ("Read(//etc/**)", call("Grep", pattern="x"), False),
        ("Read(./secrets/**)", call("Glob", pattern="*/../x"), True),
        ("Read(./secrets/**)", call("Read", file_path="src"), False),
    ],
)
def test_a_search_that_could_show_what_is_hidden_is_known(rule: str, tried: Call, reaches: bool) -> None:
    """Searching a directory above a denied one would print what the rule hides."""
    assert may_reach(parse(rule), tried) is reaches


# --- other tools --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "tried", "stops_it", "allows_it"),
    [
        ("WebFetch(domain:example.com)", call("WebFetch", url="https://example.com/a?b"), True, True),
        ("WebFetch(domain:example.com)", call("WebFetch", url="HTTPS://EXAMPLE.com:8443"), True, True),
        ("WebFetch(domain:example.com)", call("WebFetch", url="https://a.example.com/"), True, False),
        ("WebFetch(domain:*.example.com)", call("WebFetch", url="https://a.example.com/"), True, True),
        ("WebFetch(domain:*.example.com)", call("WebFetch", url="https://example.com/"), True, False),
        ("WebFetch(domain:example.com)", call("WebFetch", url="https://notexample.com/"), False, False),
        ("WebFetch(domain:example.com)", call("WebFetch", url="https://example.com.evil.io/"), False, False),
        ("WebFetch(domain:example.com)", call("WebFetch", url="https://example.com@evil.io/"), True, False),
        ("WebFetch(domain:example.com)", call("WebFetch", url="https://evil.io\\@example.com"), True, False),
        ("WebFetch(domain:example.com)", call("WebFetch", url="file://example.com/x"), True, False),
        ("WebFetch(domain:example.com)", call("WebFetch"), False, False),
        ("mcp__db", call("mcp__db__query"), True, True),
        ("mcp__db__*", call("mcp__db__query"), True, True),
        ("mcp__db__query", call("mcp__db__query"), True, True),
        ("mcp__db__q*", call("mcp__db__drop"), False, False),
        ("mcp__*", call("mcp__db__query"), True, True),
        ("mcp__db", call("mcp__dbx__query"), False, False),
        ("mcp__*", call("Bash", command="mcp__x"), False, False),
        ("Agent(reviewer)", call("Agent", subagent_type="reviewer"), True, True),
        ("Agent(reviewer)", call("Task", subagent_type="reviewer"), True, True),
        ("Agent(reviewer)", call("Agent"), False, False),
        ("Agent(general-purpose)", call("Agent"), True, True),
        ("Skill(deploy)", call("Skill", skill="deploy"), True, True),
        ("WebSearch", call("WebSearch", query="x"), True, True),
        ("Bash(rm:*)", call("Monitor", command="rm x"), True, True),
    ],
)
def test_rules_for_hosts_servers_and_agents(rule: str, tried: Call, stops_it: bool, allows_it: bool) -> None:
    """Hosts are compared as hosts; where two readers could differ, a rule stops and does not allow."""
    assert (stopped(rule, tried), bool(allowed([rule], tried))) == (stops_it, allows_it)
