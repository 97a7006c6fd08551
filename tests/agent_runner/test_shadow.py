"""Two sets of rules on the same calls: what changes, what alarms, and that nothing is lost in the sum."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.people import Person
from agent_runner.policy import Call, Escalation, Policy, Route
from agent_runner.shadow import (
    EXAMPLES,
    SAID_NO,
    Change,
    Opinion,
    PastCall,
    Rules,
    Shadow,
    Summary,
    Then,
    opinion,
    shadow,
)
from tests.fakes.values import NOW

LS, PUSH, SUDO = "ls", "git push", "sudo id"


def rules(people: dict[str, Person] | None = None, hook: Any = None, **policy: Any) -> Rules:
    """Rules with these lists and nothing else."""
    return Rules(Policy(**policy), people or {}, hook)


def past(
    command: str = LS, then: Then = Then.RAN, *, task: int = 1, tool: str = "Bash", **more: Any
) -> PastCall:
    """A past Bash call."""
    given = {"command": command} if tool == "Bash" else {"file_path": command}
    call = Call(tool_name=tool, tool_input=given, cwd="/srv/ops", workspace="ops")
    return PastCall(call=call, task_id=f"t_{task}", task=task, at=NOW, then=then, **more)


ALLOWS, ASKS, DENIES = rules(allow=("Bash(ls)",)), rules(ask=("Bash(ls)",)), rules(deny=("Bash(ls)",))
TWO = rules(ask=("Bash(ls)",), default_route=Route(approvers=("anyone",), quorum=2))
CHANGES = [
    (ALLOWS, ALLOWS, Change.UNCHANGED),
    (ALLOWS, ASKS, Change.ASKS),
    (ALLOWS, DENIES, Change.DENIES),
    (ASKS, ALLOWS, Change.RUNS),
    (ASKS, rules(), Change.UNCHANGED),  # another rule, the same outcome
    (ASKS, TWO, Change.OTHERS),
    (ASKS, DENIES, Change.DENIES),
    (DENIES, ALLOWS, Change.RUNS),
    (DENIES, TWO, Change.ASKS),
    (DENIES, rules(deny=("Bash",)), Change.UNCHANGED),
]


@pytest.mark.parametrize(("before", "after", "change"), CHANGES)
def test_what_changes_about_a_call(before: Rules, after: Rules, change: Change) -> None:
    """Each pair of outcomes is one kind of change, whichever rule says so."""
    assert shadow(past(LS), before, after).change is change


ROUTED = Route(
    match=("Bash(git *)",),
    approvers=("group:oncall", "lin", "feishu:ou_9"),
    quorum=2,
    requester_may_decide=False,
    escalate=Escalation(after=timedelta(hours=2), to=("anyone",)),
)
PEOPLE = {
    "lin": Person(accounts=("web:lin", "slack:U1")),
    "kai": Person(accounts=("web:kai",), groups=("oncall",)),
}


def test_an_ask_names_those_who_would_decide() -> None:
    """The route with its quorum, and the accounts behind groups and names; an allowed call has none."""
    both = rules(PEOPLE, ask=("Bash(git *)",), allow=("Bash(ls)",), routes=(ROUTED,))
    assert opinion(both, past(PUSH).call) == Opinion(
        effect="ask",
        rule="Bash(git *)",
        section="ask",
        approvers=("group:oncall", "lin", "feishu:ou_9"),
        quorum=2,
        requester_may_decide=False,
        accounts=("slack:U1", "web:kai", "web:lin"),
    )
    assert opinion(both, past(LS).call) == Opinion(effect="allow", rule="Bash(ls)", section="allow")


def test_other_people_behind_the_same_group_are_a_change() -> None:
    """The route is spelled the same, but [people] puts somebody else into the group."""
    route: dict[str, Any] = {"ask": ("Bash(git *)",), "routes": (ROUTED,)}
    moved = {
        **PEOPLE,
        "kai": Person(accounts=("web:kai",)),
        "ada": Person(accounts=("web:ada",), groups=("oncall",)),
    }
    assert shadow(past(PUSH), rules(PEOPLE, **route), rules(moved, **route)).change is Change.OTHERS


def _raises(call: Call) -> bool | None:
    raise KeyError("region")


def _leaves(call: Call) -> bool | None:
    raise SystemExit(0)


def _prints(call: Call) -> bool | None:
    sys.stdout.write("noise")
    return False


@pytest.mark.parametrize(
    ("hook", "effect", "error"),
    [
        (_raises, "ask", "KeyError: 'region'"),
        (_leaves, "ask", "SystemExit: 0"),
        (_prints, "allow", ""),
        (lambda _: None, "ask", ""),
        (lambda _: "yes", "ask", ""),
    ],
)
def test_a_function_that_fails_asks_and_is_told(
    hook: Any, effect: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever somebody's function does, there is an opinion; what it prints is not our output."""
    said = opinion(rules(hook=hook), past(PUSH).call)
    assert (said.effect, said.hook_error, capsys.readouterr().out) == (effect, error, "")


def test_a_call_that_cannot_be_judged_is_one_the_gate_refuses() -> None:
    """A rule that cannot be read fails closed here as it does there."""
    said = opinion(rules(deny=("Bash(",)), past(LS).call)
    assert (said.effect, said.rule.startswith("could not be judged: FixConfiguration: ")) == ("deny", True)


def test_the_most_alarming_group_stands_first() -> None:
    """Rejected and would run; changed; forbidden and would run; asked and would run; then the rest."""
    before = rules(deny=("Bash(sudo *)",), allow=("Bash(ls)", "Bash(pwd)"))
    after = rules(allow=("Bash(git *)", "Bash(sudo id)", "Bash(ls)", "Edit"), deny=("Bash(pwd)",))
    summary = Summary()
    for seen in (
        past("pwd"),
        *[past("git status")] * 5,
        past(SUDO, Then.DENIED),
        past("a.txt", Then.CHANGED, tool="Write"),
        past(PUSH, Then.APPROVED),
        past(PUSH, Then.REJECTED, by="Lin"),
        past(LS, Then.REJECTED),  # unchanged, but somebody once said no
        past("kubectl get pods", Then.APPROVED),
    ):
        summary.add(shadow(seen, before, after))
    groups = [(g.tool, g.after.effect, g.after.rule, g.count, g.overruling) for g in summary.listed()]
    assert groups == [
        ("Bash", "allow", "Bash(git *)", 7, 1),
        ("Bash", "allow", "Bash(ls)", 1, 1),
        ("Write", "allow", "Edit", 1, 1),
        ("Bash", "allow", "Bash(sudo id)", 1, 0),
        ("Bash", "deny", "Bash(pwd)", 1, 0),
    ]
    assert [(e.then, e.call.tool_input["command"]) for _, e in summary.listed()[0].examples] == [
        (Then.REJECTED, PUSH),
        (Then.RAN, "git status"),
        (Then.RAN, "git status"),
    ]
    assert (summary.rejected, summary.changed, summary.overruling) == (2, 1, 3)
    assert [g.after.rule for g in summary.listed(everything=True)][-1] == "nothing matched"


def test_words_of_an_error_do_not_make_groups() -> None:
    """A function that fails differently for each call is one group, with the first of its errors."""

    def fails(call: Call) -> bool | None:
        raise ValueError(call.tool_input["command"])

    summary = Summary()
    for number in range(20):
        summary.add(shadow(past(f"git log -{number}"), ALLOWS, rules(hook=fails)))
    (group,) = summary.listed(everything=True)
    assert (group.count, group.after.hook_error, summary.hook_errors) == (20, "ValueError: git log -0", 20)
    assert len(group.examples) == EXAMPLES


# --- any rules, any calls -----------------------------------------------------------------

RULES = (
    "Bash(ls)",
    "Bash(ls:*)",
    "Bash(git *)",
    "Bash(sudo *)",
    "Bash",
    "Read(./**)",
    "Edit(./a/**)",
    "mcp__db__*",
)
LISTS = st.lists(st.sampled_from(RULES), max_size=3, unique=True).map(tuple)
ROUTES = st.builds(
    Route,
    match=st.sampled_from(RULES).map(lambda rule: (rule,)),
    approvers=st.sampled_from([("requester",), ("anyone",), ("group:oncall",)]),
    quorum=st.integers(1, 2),
)
POLICIES = st.builds(
    Policy, allow=LISTS, ask=LISTS, deny=LISTS, routes=st.lists(ROUTES, max_size=2).map(tuple)
).map(lambda policy: Rules(policy, PEOPLE))
INPUTS = [
    ("Bash", {"command": LS}),
    ("Bash", {"command": "ls -l && git push"}),
    ("Bash", {"command": SUDO}),
    ("Bash", {}),
    ("Read", {"file_path": "./x"}),
    ("Write", {"file_path": "a/b", "content": "\ud800"}),
    ("mcp__db__query", {"sql": "select 1"}),
    ("AskUserQuestion", {"questions": []}),
    ("nonsense\u202e", {"x": [1, {"y": None}]}),
]
CALLS = st.builds(
    lambda given, then, task, agent: PastCall(
        call=Call(tool_name=given[0], tool_input=given[1], cwd="/srv/ops", workspace="ops", agent_id=agent),
        task_id=f"t_{task}",
        task=task,
        at=NOW,
        then=then,
    ),
    st.sampled_from(INPUTS),
    st.sampled_from(Then),
    st.integers(1, 3),
    st.sampled_from([None, "a1"]),
)


@given(st.lists(CALLS, max_size=30), POLICIES, POLICIES)
def test_every_call_is_counted_exactly_once(calls: Sequence[PastCall], before: Rules, after: Rules) -> None:
    """The changes and the groups both add up to the calls, and no warning is lost among them."""
    seen = [shadow(call, before, after) for call in calls]
    summary = Summary()
    for each in seen:
        summary.add(each)
    groups, listed = summary.listed(everything=True), summary.listed()
    assert summary.calls == len(calls) == sum(summary.changes.values()) == sum(g.count for g in groups)
    assert summary.changes == {change: sum(s.change is change for s in seen) for change in Change}
    assert summary.tasks == {call.task_id for call in calls}
    no = [s.past.then for s in seen if s.past.then in SAID_NO and s.after.effect == "allow"]
    assert (summary.rejected, summary.changed) == (no.count(Then.REJECTED), no.count(Then.CHANGED))
    assert sum(g.overruling for g in listed) == summary.overruling
    assert (
        sum(g.count for g in listed if g.change is not Change.UNCHANGED)
        == len(calls) - summary.changes[Change.UNCHANGED]
    )
    assert all(one.alarm <= other.alarm for one, other in itertools.pairwise(groups))
    assert all(len(g.examples) == min(g.count, EXAMPLES) for g in groups)
    assert all(g.examples[0][0] == g.alarm for g in groups)


@given(st.lists(CALLS, max_size=10), POLICIES)
def test_the_same_rules_change_nothing(calls: Sequence[PastCall], same: Rules) -> None:
    """New rules that are the old ones differ in no call; only what people refused is still listed."""
    summary = Summary()
    for call in calls:
        seen: Shadow = shadow(call, same, Rules(same.policy.model_copy(), dict(same.people)))
        assert (seen.change, seen.before) == (Change.UNCHANGED, seen.after)
        summary.add(seen)
    assert summary.changes[Change.UNCHANGED] == len(calls)
    assert all(group.overruling for group in summary.listed())
