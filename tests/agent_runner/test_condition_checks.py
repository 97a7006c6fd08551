"""Whether a call keeps the conditions of its approval; what cannot be told is not kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_runner import condition_checks
from agent_runner.condition_checks import Broken, broken
from agent_runner.conditions import Condition, ConditionKind, before, deadline, in_words, times, with_text
from agent_runner.matching import Call
from tests.fakes.values import NOW, at


def a_condition(kind: str, value: str) -> Condition:
    """A condition as it is stored."""
    return Condition(kind=ConditionKind(kind), value=value)


def a_call(tool: str, given: dict[str, Any], cwd: str = "/srv/ops") -> Call:
    """A call in the workspace."""
    return Call(tool_name=tool, tool_input=given, cwd=cwd, workspace="ops")


LS = a_call("Bash", {"command": "ls"})


@pytest.mark.parametrize(
    ("seconds", "why"), [(0, None), (59, None), (60, Broken.OVER), (61, Broken.OVER), (-90_000, None)]
)
def test_before(seconds: float, why: Broken | None) -> None:
    """Up to the moment, not at it."""
    assert broken(before(at(60)), LS, at(seconds)) is why


@pytest.mark.parametrize(("count", "why"), [("0", Broken.NEVER), ("1", None), ("100", None)])
def test_times(count: str, why: Broken | None) -> None:
    """None at all is no approval; how often it ran is counted with the grant."""
    assert broken(a_condition("times", count), LS, NOW) is why


TEXTS: list[tuple[str, str, dict[str, Any], Broken | None]] = [
    ("--dry-run", "Bash", {"command": "helm upgrade --dry-run"}, None),
    ("--dry-run", "Bash", {"command": "helm upgrade", "description": "with --dry-run"}, Broken.ABSENT),
    ("--dry-run", "Bash", {}, Broken.ABSENT),
    ("--dry-run", "Bash", {"command": ["--dry-run"]}, None),
    (r"/ns=\w+-staging/", "Bash", {"command": "x --ns=eu-staging"}, None),
    (r"/ns=\w+-staging/", "Bash", {"command": "x --ns=prod"}, Broken.ABSENT),
    (r"/^x$/", "Bash", {"command": "x y"}, Broken.ABSENT),
    (r"/(a/", "Bash", {"command": "(a"}, Broken.PATTERN),
    (r"/(a)\1/", "Bash", {"command": "aa"}, Broken.PATTERN),
    ("staging", "mcp__db__query", {"where": {"envs": ["prod", "staging"]}, "n": 1}, None),
    ("where", "mcp__db__query", {"where": "x"}, Broken.ABSENT),
]


@pytest.mark.parametrize(("value", "tool", "given", "why"), TEXTS)
def test_with(value: str, tool: str, given: dict[str, Any], why: Broken | None) -> None:
    """In the command itself, or in any text of another tool's input; names of fields do not count."""
    assert broken(a_condition("with", value), a_call(tool, given), NOW) is why


@pytest.mark.parametrize("text", ["/srv/", "/a.b*/", "//x/"])
def test_a_plain_text_between_slashes_means_itself(text: str) -> None:
    """It becomes the pattern that finds exactly this text."""
    condition = with_text(text)
    assert broken(condition, a_call("Bash", {"command": f"cat {text}x"}), NOW) is None
    assert broken(condition, a_call("Bash", {"command": "cat /aXb/ srv /sr/"}), NOW) is Broken.ABSENT


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A workspace with a folder, a file, and links that lead out of the folder and back into it."""
    (tmp_path / "ops/staging/deep").mkdir(parents=True)
    (tmp_path / "ops/prod").mkdir()
    (tmp_path / "ops/staging/a.txt").write_text("x")
    (tmp_path / "ops/staging/out").symlink_to("../prod")
    (tmp_path / "ops/alias").symlink_to("staging")
    (tmp_path / "ops/staging/round").symlink_to("round")
    return tmp_path / "ops"


PLACES: list[tuple[str, str, dict[str, Any], Broken | None]] = [
    ("./staging", "Write", {"file_path": "staging/b.txt"}, None),
    ("./staging/", "Write", {"file_path": "./staging/deep/../b.txt"}, None),
    ("./staging", "Edit", {"file_path": "{room}/staging/a.txt"}, None),
    ("{room}/staging", "Read", {"file_path": "staging/a.txt"}, None),
    ("./alias", "Write", {"file_path": "staging/b.txt"}, None),
    ("./staging", "Write", {"file_path": "alias/b.txt"}, None),
    ("./staging", "NotebookEdit", {"notebook_path": "staging/a.ipynb"}, None),
    ("./staging", "Write", {"file_path": "prod/b.txt"}, Broken.OUTSIDE),
    ("./staging", "Write", {"file_path": "staging/../prod/b"}, Broken.OUTSIDE),
    ("./staging", "Write", {"file_path": "staging-2/b.txt"}, Broken.OUTSIDE),
    ("./staging", "Write", {"file_path": "staging/out/b.txt"}, Broken.OUTSIDE),
    ("./staging", "Write", {"file_path": "staging/out/../b.txt"}, Broken.OUTSIDE),
    ("./staging", "Write", {"file_path": "~/b.txt"}, Broken.OUTSIDE),
    ("./staging", "Write", {"file_path": 7}, Broken.UNTOLD),
    ("./staging", "Write", {}, Broken.UNTOLD),
    ("./staging", "Write", {"file_path": "staging/\0"}, Broken.UNTOLD),
    ("./staging", "Glob", {"pattern": "*.md", "path": "staging"}, None),
    ("./staging", "Glob", {"pattern": "staging/**/*.md"}, None),
    ("./staging", "Glob", {"pattern": "**/*.md"}, Broken.OUTSIDE),
    ("./staging", "Glob", {"pattern": "*/../x", "path": "staging"}, Broken.UNTOLD),
    ("./staging", "Grep", {"pattern": "x", "path": "staging"}, None),
    ("./staging", "Grep", {"pattern": "x"}, Broken.OUTSIDE),
    ("./", "Bash", {"command": "ls"}, None),
    ("./staging", "Bash", {"command": "ls"}, Broken.OUTSIDE),
    ("./staging", "Bash", {"command": "rm -rf staging/deep"}, None),
    ("./staging", "Bash", {"command": "mkdir staging/x && touch 'staging/x/a b'"}, None),
    ("./staging", "Bash", {"command": "rm staging/a.txt prod/b"}, Broken.OUTSIDE),
    ("./staging", "Bash", {"command": "rm staging/out/b"}, Broken.OUTSIDE),
    ("./staging", "Bash", {"command": "rm staging/a.txt; ls"}, Broken.OUTSIDE),
    ("./staging", "Bash", {"command": "rm staging/*"}, Broken.UNTOLD),
    ("./staging", "Bash", {"command": "rm ~/x"}, Broken.UNTOLD),
    ("./staging", "Bash", {"command": "touch --reference=/etc/x staging/a"}, Broken.UNTOLD),
    ("./staging", "Bash", {"command": "cd staging && make deploy"}, Broken.UNTOLD),
    ("./staging", "Bash", {"command": "cat staging/a.txt > prod/b"}, Broken.UNTOLD),
    ("./staging", "Bash", {"command": "X=1 ls staging"}, Broken.UNTOLD),
    ("./", "Bash", {"command": "make deploy"}, Broken.UNTOLD),
    ("./", "Bash", {"command": "git push"}, Broken.UNTOLD),
    ("./", "Bash", {"command": ""}, Broken.UNTOLD),
    ("./", "Bash", {"command": 5}, Broken.UNTOLD),
    ("./", "WebFetch", {"url": "https://example.com"}, Broken.UNTOLD),
    ("./", "mcp__files__write", {"path": "./a"}, Broken.UNTOLD),
]  # fmt: skip


@pytest.mark.parametrize(("path", "tool", "given", "why"), PLACES)
def test_in(room: Path, path: str, tool: str, given: dict[str, Any], why: Broken | None) -> None:
    """By where the disk says it is; a command only if every word of it is understood."""
    whole = {key: value.replace("{room}", str(room)) if isinstance(value, str) else value
             for key, value in given.items()}  # fmt: skip
    condition = a_condition("in", path.replace("{room}", str(room)))
    assert broken(condition, a_call(tool, whole, str(room)), NOW) is why


def test_a_link_that_appears_after_the_approval_counts(room: Path) -> None:
    """What was inside when it was approved is outside when a link leads it there."""
    call, inside = a_call("Write", {"file_path": "staging/new/b"}, str(room)), a_condition("in", "./staging")
    assert broken(inside, call, NOW) is None
    (room / "staging/new").symlink_to("../prod")
    assert broken(inside, call, NOW) is Broken.OUTSIDE


def test_the_first_condition_that_fails_is_told() -> None:
    """In words for the model; nothing if all hold."""
    several = (before(at(60)), a_condition("with", "-l"), a_condition("times", "2"))
    call = a_call("Bash", {"command": "ls -l"})
    assert condition_checks.refusal(several, call, NOW) == ""
    assert condition_checks.refusal(several, LS, NOW) == "only with -l, and that is not in this call."
    assert condition_checks.refusal(several, LS, at(60)) == (
        "only before 2026-03-02 14:01 UTC, and that time is over."
    )


def test_several_narrow_each_other() -> None:
    """The earliest time and the smallest number count."""
    several = (before(at(600)), before(at(60)), a_condition("times", "3"), a_condition("times", "2"))
    assert (deadline(several), times(several)) == (at(60), 2)
    assert (deadline(()), times(())) == (None, None)
    assert in_words(several[1:3]) == "only before 2026-03-02 14:01 UTC; at most 3 times"


def test_a_time_is_kept_to_the_minute() -> None:
    """What is shown is what counts, and a second less is on the safe side."""
    assert before(NOW + timedelta(seconds=59)).moment == datetime.fromisoformat("2026-03-02T14:00:00+00:00")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("before", "soon"), ("before", "2026-03-02T14:00:00"), ("times", "-1"), ("times", "1.5"), ("times", "x"),
     ("times", "1234567"), ("in", ""), ("in", "a\nb"), ("in", "./" + "a" * 200), ("with", ""),
     ("with", "\u202e"), ("with", "a" * 201)],
)  # fmt: skip
def test_what_is_no_condition_cannot_be_stored(kind: str, value: str) -> None:
    """A condition that nobody can check must never pass for one that holds."""
    with pytest.raises(ValueError, match=r"1 validation error"):
        a_condition(kind, value)
