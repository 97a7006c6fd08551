"""The report of a policy's trial: what a terminal shows of words that an agent wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_runner.past_calls import Gaps, Window
from agent_runner.policy import Call, Policy
from agent_runner.shadow import PastCall, Rules, Summary, Then, shadow
from bot import policy_report as report
from tests.fakes.values import NOW, at

ASKS, RUNS = Rules(Policy(), {}), Rules(Policy(allow=("Bash(echo *)", "mcp__*")), {})
WINDOW = Window(NOW, at(60))


def past(tool: str = "Bash", then: Then = Then.REJECTED, by: str = "Lin", **given: Any) -> PastCall:
    """A rejected call with this input."""
    call = Call(tool_name=tool, tool_input=given, cwd="/srv/ops", workspace="ops")
    return PastCall(call=call, task_id="t_1", task=231, at=NOW, then=then, by=by, request=12)


def lines(*calls: PastCall, gaps: Gaps | None = None, everything: bool = False) -> list[str]:
    """The report on these calls."""
    summary = Summary(short=report.short)
    for call in calls:
        summary.add(shadow(call, ASKS, RUNS))
    found = report.text(summary, gaps or Gaps(), WINDOW, new="new.toml", present="", everything=everything)
    return list(found)


@pytest.mark.parametrize(
    ("tool", "given", "shown"),
    [
        ("Bash", {"command": "echo a\nb"}, "echo a⟨U+000A⟩b"),
        ("Bash", {"command": "echo \x1b[2J\u202eab"}, "echo ⟨U+001B⟩[2J⟨U+202E⟩ab"),
        ("Bash", {"command": "echo \ud800"}, "echo ⟨U+D800⟩"),
        ("Read", {"file_path": "/etc/passwd", "limit": 3}, "/etc/passwd"),
        ("Grep", {"pattern": "key"}, "key"),
        ("mcp__db__query", {"query": "x", "n": 1}, '{"query": "x", "n": 1}'),
        ("TodoWrite", {"todos": ["é"]}, '{"todos": ["é"]}'),
        ("Bash", {}, "{}"),
        ("Bash", {"command": 7}, '{"command": 7}'),
        ("Bash", {"command": "a" * 50 + "b" * 30 + "c" * 50}, f"{'a' * 50} …(30 more)… {'c' * 50}"),
        ("Bash", {"command": "a" * 120}, "a" * 120),
    ],
)
def test_a_call_in_one_line(tool: str, given: dict[str, Any], shown: str) -> None:
    """What matters most of it, visible whatever it holds, and cut in the middle where it is long."""
    assert report.gist(past(tool, **given).call) == shown
    assert report.gist(report.short(past(tool, **given)).call) == shown


def test_an_example_holds_no_more_than_it_shows() -> None:
    """Megabytes of a Write do not stay in memory for the sake of a line."""
    kept = report.short(past("mcp__files__write", content="x" * 5_000_000))
    assert len(kept.model_dump_json()) < 1_000


def test_the_whole_report() -> None:
    """Sum, warning, table, what is unseen in names of people and tools, and what could not be read."""
    gaps = Gaps(told=["task #7: its transcript is gone."], more=3)
    calls = [
        past(command="echo a"),
        past("mcp__x\u202e__y", Then.CHANGED, by="Lin\n!! forged"),
        past(command="rm x"),
    ]
    assert lines(*calls, gaps=gaps) == [
        "new.toml, compared with the default policy.",
        "3 calls of 1 task since 2026-03-02 14:00 UTC: 1 unchanged; 2 would now run without asking.",
        "WARNING: of those that would run by themselves, 1 had been rejected by people"
        " and 1 had passed only with changes.",
        "",
        "CALLS  TOOL               BEFORE -> AFTER",
        "    1  Bash               ask: nothing matched -> run: Bash(echo *)",
        "                          !! people did not let 1 of these run as they stood",
        "                          task #231  2026-03-02 14:00  rejected by Lin (request #12): echo a",
        "    1  mcp__x⟨U+202E⟩__y  ask: nothing matched -> run: mcp__*",
        "                          !! people did not let 1 of these run as they stood",
        "                          task #231  2026-03-02 14:00  passed only with changes"
        " by Lin⟨U+000A⟩!! forged (request #12): {}",
        "",
        "What could not be read:",
        "  task #7: its transcript is gone.",
        "  and 3 more",
    ]
    assert "ask: nothing matched -> ask: nothing matched" in lines(*calls, everything=True)[11]


def test_lines_for_programs_are_ascii() -> None:
    """JSON keeps the input as it was, and nothing in it can steer a terminal."""
    line = report.call_line(shadow(past(command="echo \x1b[2J\u202e\ud800\n"), ASKS, RUNS))
    assert (line.isascii(), line.isprintable()) == (True, True)
    assert json.loads(line)["tool_input"] == {"command": "echo \x1b[2J\u202e\ud800\n"}
