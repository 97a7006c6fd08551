"""Policy: what runs, waits or is refused, and who decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.digest import digest
from agent_runner.model import Actor, Decision, Inquiry, InquiryState, Kind, Verdict, Vote
from agent_runner.policy import (
    ALWAYS_ASKED,
    SESSION_INTERNAL,
    Call,
    Judgement,
    People,
    Person,
    Policy,
    Refusal,
    Route,
    Tally,
    check_dispatch,
    identify,
    judge,
    may_decide,
    names_of,
    possible,
    route,
    tally,
)

NOW = datetime(2026, 11, 30, 14, 0, tzinfo=UTC)
PEOPLE: People = {
    "lin": Person(accounts=("slack:U01", "feishu:ou_7"), groups=("oncall",), display="Lin"),
    "kai": Person(accounts=("slack:T1:U02", "web:kai"), groups=("oncall", "leads")),
    "mei": Person(accounts=("slack:U03",), groups=()),
}
LIN = Actor(platform="slack", tenant="T1", user_id="U01", name="lin w", person="lin")
LIN_FEISHU = Actor(platform="feishu", user_id="ou_7", name="林", person="lin")
KAI = Actor(platform="slack", tenant="T1", user_id="U02", name="kai", person="kai")
MEI = Actor(platform="slack", tenant="T1", user_id="U03", name="mei", person="mei")
STRANGER = Actor(platform="slack", tenant="T1", user_id="U99", name="somebody")
NOBODY = Actor(platform="slack", tenant="T1", user_id=" ", name="a bot")


def call(tool: str, **tool_input: Any) -> Call:
    """A call of a tool in the workspace."""
    return Call(tool_name=tool, tool_input=tool_input, cwd="/srv/ops", workspace="ops")


POLICY = Policy(
    allow=("Read(./**)", "Bash(ls:*)", "Bash(kubectl get *)", "mcp__db", "AskUserQuestion"),
    ask=("Write", "Bash(kubectl get secret *)", "TaskList"),
    deny=("Bash(sudo *)", "Read(./secrets/**)", "mcp__db__drop", "ExitPlanMode"),
    needs_approval="ops:hook",
)


@pytest.mark.parametrize(
    ("tried", "effect", "rule", "section"),
    [
        (call("Bash", command="ls"), "allow", "Bash(ls:*)", "allow"),
        (call("Bash", command="ls; kubectl get pods"), "allow", "Bash(ls:*), Bash(kubectl get *)", "allow"),
        (call("Bash", command="ls; sudo x"), "deny", "Bash(sudo *)", "deny"),
        (call("Bash", command="kubectl get secret x"), "ask", "Bash(kubectl get secret *)", "ask"),
        (call("Bash", command="kubectl get secret x; sudo y"), "deny", "Bash(sudo *)", "deny"),
        (call("Bash", command="ls; rm x"), "ask", "nothing matched", ""),
        (call("Bash", command="ls '"), "ask", "nothing matched", ""),
        (call("Bash"), "ask", "nothing matched", ""),
        (call("Read", file_path="a"), "allow", "Read(./**)", "allow"),
        (call("Read", file_path="/etc/passwd"), "ask", "nothing matched", ""),
        (call("Read", file_path="a/../secrets/x"), "deny", "Read(./secrets/**)", "deny"),
        (call("Grep", pattern="x", path="src"), "allow", "Read(./**)", "allow"),
        (call("Grep", pattern="x"), "ask", "Read(./secrets/**) lies inside what is searched", "deny"),
        (call("mcp__db__query"), "allow", "mcp__db", "allow"),
        (call("mcp__db__drop"), "deny", "mcp__db__drop", "deny"),
        (call("Write", file_path="a"), "ask", "Write", "ask"),
        (call("NoSuchTool"), "ask", "nothing matched", ""),
        (call("AskUserQuestion"), "ask", "AskUserQuestion", ""),
        (call("ExitPlanMode"), "deny", "ExitPlanMode", "deny"),
        (call("mcp__countersign__request_approval"), "ask", "mcp__countersign__request_approval", ""),
        (call("TodoWrite"), "allow", "touches nothing outside the session", ""),
        (call("TaskList"), "ask", "TaskList", "ask"),
    ],
)
def test_deny_comes_before_ask_before_allow(tried: Call, effect: Any, rule: str, section: str) -> None:
    """Each list in its turn, and what matches nothing is asked."""
    assert judge(POLICY, tried) == Judgement(effect=effect, rule=rule, section=section)


@pytest.mark.parametrize("tool", sorted(ALWAYS_ASKED))
def test_tools_that_ask_a_person_are_never_answered_for_them(tool: str) -> None:
    """Neither an allow rule nor a hook stands in for the person."""
    policy = Policy(allow=(tool, "mcp__*"))
    assert judge(policy, call(tool), needs_approval=lambda _: False).effect == "ask"


@pytest.mark.parametrize("tool", sorted(SESSION_INTERNAL))
def test_session_internal_tools_run_unless_a_rule_says_otherwise(tool: str) -> None:
    """They touch nothing outside; a deny or ask rule still counts."""
    effects = [judge(p, call(tool)).effect for p in (Policy(), Policy(ask=(tool,)), Policy(deny=(tool,)))]
    assert effects == ["allow", "ask", "deny"]


def _raises(_: Call) -> bool:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("hook", "effects"),
    [
        (lambda _: True, ["ask", "ask", "ask", "deny", "ask"]),
        (lambda _: False, ["allow", "allow", "ask", "deny", "ask"]),
        (lambda _: None, ["allow", "ask", "ask", "deny", "ask"]),
        (lambda _: "no", ["ask", "ask", "ask", "deny", "ask"]),
        (lambda _: 0, ["ask", "ask", "ask", "deny", "ask"]),
        (_raises, ["ask", "ask", "ask", "deny", "ask"]),
    ],
    ids=["True", "False", "None", "text", "zero", "raises"],
)
def test_the_hook_speaks_only_where_no_deny_or_ask_rule_does(
    hook: Callable[[Call], Any], effects: list[str]
) -> None:
    """True asks, False allows, None leaves it to the rules; a broken hook asks."""
    tried = [
        call("Bash", command="ls"),
        call("Bash", command="make"),
        call("Write", file_path="a"),
        call("Bash", command="sudo x"),
        call("Grep", pattern="x"),
    ]
    assert [judge(POLICY, c, needs_approval=hook).effect for c in tried] == effects


def test_the_hook_is_named_as_the_rule() -> None:
    """A card says which function stopped the call."""
    judged = judge(POLICY, call("Bash", command="ls"), needs_approval=lambda _: True)
    assert judged == Judgement(effect="ask", rule="needs_approval ops:hook")


@given(st.text(max_size=40), st.dictionaries(st.text(max_size=10), st.text(max_size=40), max_size=3))
def test_judging_never_fails_and_never_allows_what_no_rule_names(
    tool: str, tool_input: dict[str, str]
) -> None:
    """Any tool name with any input gets a judgement; unknown tools are asked."""
    judged = judge(POLICY, call(tool or "x", **{"_": "", **tool_input}))
    assert judged.effect != "allow" or tool in {"Read", "Glob", "Grep", "Bash", *SESSION_INTERNAL}


def test_the_default_policy_reads_and_asks_for_the_rest() -> None:
    """Without a [policy] section: reading the workspace is free, effects and the outside are asked."""
    policy = Policy.default()
    tried = {
        "ls -la": "allow",
        "git log --oneline -5": "allow",
        "git diff": "allow",
        "git status && pwd": "allow",
        "git log --output=x": "ask",
        "git diff /dev/null /etc/shadow": "ask",
        "git push": "ask",
        "cat x": "ask",
    }
    assert {command: judge(policy, call("Bash", command=command)).effect for command in tried} == tried
    paths = {"src/a.py": "allow", "/etc/shadow": "ask"}
    assert {path: judge(policy, call("Read", file_path=path)).effect for path in paths} == paths
    others = ["Write", "Edit", "WebFetch", "WebSearch", "mcp__x__y", "NoSuchTool"]
    assert {judge(policy, call(tool)).effect for tool in others} == {"ask"}


# --- routes -------------------------------------------------------------------------------

KUBE = Route(match=("Bash(kubectl *)",), approvers=("group:oncall",), quorum=2, requester_may_decide=False)
ALL_BASH = Route(match=("Bash",), approvers=("kai",))
ROUTED = Policy(routes=(KUBE, ALL_BASH))


@pytest.mark.parametrize(
    ("tried", "expected"),
    [
        (call("Bash", command="kubectl delete x"), KUBE),
        (call("Bash", command="ls; timeout 5 kubectl delete x"), KUBE),
        (call("Bash", command="make"), ALL_BASH),
        (call("Write", file_path="x"), Route()),
    ],
)
def test_the_first_route_that_matches_any_part_counts(tried: Call, expected: Route) -> None:
    """A dangerous part of a command line decides the route of the whole."""
    assert route(ROUTED, tried) == expected


def test_the_default_route_is_the_requester_for_eight_hours() -> None:
    """One person, who may be the one who asked."""
    assert Route() == Route(
        approvers=("requester",), quorum=1, requester_may_decide=True, expires=timedelta(hours=8)
    )


# --- people -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "user", "tenant", "name"),
    [
        ("slack", "U01", "T1", "lin"),
        ("slack", "U01", "", "lin"),
        ("feishu", "ou_7", "", "lin"),
        ("slack", "U02", "T1", "kai"),
        ("slack", "U02", "T2", ""),
        ("slack", "U02", "", ""),
        ("feishu", "U01", "", ""),
        ("slack", "", "", ""),
        ("slack", " ", "", ""),
        ("slack", "U99", "T1", ""),
    ],
)
def test_an_account_is_known_by_platform_id_and_tenant(
    platform: str, user: str, tenant: str, name: str
) -> None:
    """An account listed with a tenant is nobody's in another one."""
    assert identify(PEOPLE, platform, user, tenant) == name


def may(actor: Actor, approvers: tuple[str, ...], *, by: Actor = MEI, requester: bool = True) -> bool:
    """Whether the actor may decide what `by` asked for."""
    return may_decide(actor, approvers=approvers, requester_may_decide=requester, asked_by=by, people=PEOPLE)


@pytest.mark.parametrize(
    ("actor", "approvers", "may_it"),
    [
        (MEI, ("requester",), True),
        (LIN, ("requester",), False),
        (STRANGER, ("requester",), False),
        (STRANGER, ("anyone",), True),
        (LIN, ("group:oncall",), True),
        (MEI, ("group:oncall",), False),
        (STRANGER, ("group:oncall",), False),
        (LIN, ("group:none",), False),
        (LIN, ("lin",), True),
        (LIN_FEISHU, ("lin",), True),
        (KAI, ("lin",), False),
        (STRANGER, ("slack:U99",), True),
        (STRANGER, ("slack:T1:U99",), True),
        (STRANGER, ("slack:T2:U99",), False),
        (LIN_FEISHU, ("slack:U01",), True),
        (LIN, ("slack:U02",), False),
        (LIN, ("kai", "group:oncall"), True),
        (LIN.having(person=""), ("lin",), True),
        (STRANGER.having(person="lin"), ("lin", "group:oncall"), False),
        (STRANGER.having(name="lin"), ("lin",), False),
    ],
)
def test_only_listed_approvers_may_decide(actor: Actor, approvers: tuple[str, ...], may_it: bool) -> None:
    """By today's [people], not by a display name or a name stored earlier."""
    assert may(actor, approvers) is may_it


def test_case_b03_an_empty_list_of_approvers_is_nobody() -> None:
    """Not everybody."""
    assert not any(may(actor, ()) for actor in (MEI, LIN, KAI, STRANGER))


@pytest.mark.parametrize("user_id", ["", " ", "\t"])
def test_case_b04_an_account_without_an_id_may_decide_nothing(user_id: str) -> None:
    """Not even where anyone may, nor as the requester whose id is missing too."""
    actor = NOBODY.having(user_id=user_id)
    assert not any(may(actor, (who,), by=actor) for who in ("anyone", "requester", "slack:", "slack:T1:"))


def test_case_b05_the_requester_is_one_person_on_every_platform() -> None:
    """Somebody who may not approve their own request cannot do it from another account."""
    everyone = ("anyone", "requester", "lin", "group:oncall", "feishu:ou_7")
    assert not may(LIN, everyone, by=LIN, requester=False)
    assert not may(LIN_FEISHU, everyone, by=LIN, requester=False)
    assert not may(LIN_FEISHU.having(person=""), everyone, by=LIN, requester=False)
    assert may(KAI, everyone, by=LIN, requester=False)
    assert may(LIN_FEISHU, ("requester",), by=LIN)


def test_names_for_cards_are_people() -> None:
    """Groups are spelled out, accounts get their owner's name, nobody stands there twice."""
    approvers = ("requester", "group:oncall", "feishu:ou_7", "slack:T1:U02", "slack:U98", "anyone", "mei")
    assert names_of(approvers, MEI, PEOPLE) == ("mei", "Lin", "kai", "slack:U98", "anyone")


@pytest.mark.parametrize(
    ("approvers", "requester", "most"),
    [
        (("requester",), True, 1),
        (("requester",), False, 0),
        (("group:oncall", "lin", "slack:U01"), False, 2),
        (("slack:U98", "mei"), True, 2),
        (("anyone",), False, float("inf")),
        ((), True, 0),
    ],
)
def test_how_many_can_decide_counts_people(approvers: tuple[str, ...], requester: bool, most: float) -> None:
    """A person in a group, by name and by account is one."""
    assert possible(approvers, requester, PEOPLE) == most


# --- votes --------------------------------------------------------------------------------


def vote(by: Actor, verdict: Verdict = Verdict.APPROVE, minute: int = 0) -> Vote:
    """A vote, `minute` minutes after the first."""
    return Vote(by=by, at=NOW + timedelta(minutes=minute), verdict=verdict)


def test_case_b09_a_quorum_counts_people_and_not_clicks() -> None:
    """Two clicks, or two platforms, of one person are one vote; the second person decides."""
    first = tally((), vote(LIN), 2)
    assert first == Tally(votes=(vote(LIN),), decided=False)
    assert tally(first.votes, vote(LIN, minute=1), 2) == first
    assert tally(first.votes, vote(LIN_FEISHU, minute=2), 2) == first
    both = tally(first.votes, vote(KAI, minute=3), 2)
    assert both == Tally(votes=(vote(LIN), vote(KAI, minute=3)), decided=True)


@pytest.mark.parametrize(
    ("verdict", "quorum", "decided"),
    [
        (Verdict.APPROVE, 1, True),
        (Verdict.APPROVE, 2, False),
        (Verdict.REJECT, 2, True),
        (Verdict.ANSWER, 2, True),
        (Verdict.CHANGE, 1, True),
        (Verdict.CHANGE, 2, False),
        (Verdict.APPROVE, 0, True),
    ],
)
def test_what_one_vote_decides(verdict: Verdict, quorum: int, decided: bool) -> None:
    """A refusal and an answer do at once; a change only where one person is enough."""
    assert tally((), vote(LIN, verdict), quorum).decided is decided


def test_a_change_does_not_count_as_an_approval_of_what_was_shown() -> None:
    """One who wants it otherwise and one who wants it as it is are not two approvals."""
    changed = tally((), vote(LIN, Verdict.CHANGE), 2)
    assert not tally(changed.votes, vote(KAI), 2).decided


@given(st.lists(st.sampled_from([LIN, LIN_FEISHU, KAI, MEI, STRANGER]), max_size=12), st.integers(1, 5))
def test_approvals_decide_exactly_when_enough_people_gave_one(clicks: list[Actor], quorum: int) -> None:
    """In any order and with any repetition."""
    votes: tuple[Vote, ...] = ()
    for minute, actor in enumerate(clicks):
        counted = tally(votes, vote(actor, minute=minute), quorum)
        votes = counted.votes
        assert counted.decided is (len({a.key for a in clicks[: minute + 1]}) >= quorum)
    assert len(votes) == len({a.key for a in clicks})


# --- dispatch -----------------------------------------------------------------------------


def decided(
    command: str = "kubectl delete x",
    *,
    by: Actor = LIN,
    voters: tuple[Actor, ...] = (KAI, LIN),
    changed_to: str = "",
    **fields: Any,
) -> Inquiry:
    """An inquiry about a Bash command that `by` decided five minutes ago."""
    verdict = Verdict.CHANGE if changed_to else Verdict.APPROVE
    at = NOW - timedelta(minutes=5)
    defaults: dict[str, Any] = {
        "state": InquiryState.CHANGED if changed_to else InquiryState.APPROVED,
        "decision": Decision(
            verdict=verdict, by=by, at=at, input={"command": changed_to} if changed_to else None
        ),
        "approvers": ("group:oncall",),
        "quorum": 2,
        "requester_may_decide": False,
        "votes": tuple(Vote(by=voter, at=at, verdict=verdict) for voter in voters),
    }
    return Inquiry(
        id="i_1",
        number=1,
        kind=Kind.APPROVAL,
        task_id="t_1",
        batch="b",
        tool_use_id="tu",
        tool_name="Bash",
        tool_input={"command": command},
        digest=digest("Bash", {"command": command}),
        workspace="ops",
        cwd="/srv/ops",
        asked_by=MEI,
        asked_at=at,
        rule="x",
        expires_at=NOW + timedelta(hours=8),
        **{**defaults, **fields},
    )


def dispatch(
    inquiry: Inquiry, policy: Policy = ROUTED, people: People = PEOPLE, now: datetime = NOW
) -> Refusal | None:
    """What the gate would be told just before the call runs."""
    tried = call(inquiry.tool_name, **inquiry.effective_input)
    return check_dispatch(policy, tried, inquiry=inquiry, people=people, now=now)


def test_an_approved_call_may_run() -> None:
    """Nothing changed since two people of the group approved it."""
    assert dispatch(decided()) is None


def test_case_b10_an_approver_who_was_removed_no_longer_counts() -> None:
    """Out of the group, out of [people], or no longer on the route: the call does not run."""
    gone = {"kai": PEOPLE["kai"], "mei": PEOPLE["mei"]}
    moved = {**PEOPLE, "lin": PEOPLE["lin"].having(groups=("leads",))}
    narrowed = Policy(routes=(KUBE.having(approvers=("kai",)),))
    refused = Refusal(code="approver_may_not", text="lin w may not approve it any more.")
    assert dispatch(decided(), people=gone) == refused
    assert dispatch(decided(), people=moved) == refused
    assert dispatch(decided(), narrowed) == refused


def test_a_call_that_the_policy_forbids_now_does_not_run() -> None:
    """A deny rule written after the approval counts."""
    refused = dispatch(decided(), ROUTED.having(deny=("Bash(kubectl delete *)",)))
    text = "the policy forbids it now (Bash(kubectl delete *))."
    assert refused == Refusal(code="policy_denies", text=text)


@pytest.mark.parametrize(
    ("later", "runs"),
    [
        (timedelta(), True),
        (timedelta(hours=11, minutes=55), True),
        (timedelta(hours=11, minutes=56), False),
        (timedelta(days=9), False),
        (-timedelta(minutes=9), True),
        (-timedelta(hours=1), False),
    ],
)
def test_an_approval_has_an_age_at_which_it_ends(later: timedelta, runs: bool) -> None:
    """Twelve hours by default; one from the future is none, but for clocks that differ a little."""
    refused = dispatch(decided(), now=NOW + later)
    too_old = Refusal(code="approval_too_old", text="its approval is of 2026-11-30 13:55 UTC.")
    assert refused == (None if runs else too_old)


def test_an_edit_cannot_move_a_call_past_its_approvers() -> None:
    """The edited call is judged by its own route: the requester alone cannot edit `ls` into kubectl."""
    mine = {"approvers": ("requester",), "quorum": 1, "requester_may_decide": True}
    edited = decided("ls", by=MEI, voters=(), changed_to="kubectl delete x", **mine)
    assert dispatch(edited) == Refusal(code="approver_may_not", text="mei may not approve it any more.")
    assert dispatch(decided("ls", by=MEI, voters=(), changed_to="ls -a", **mine), Policy()) is None


def test_too_few_people_is_no_approval() -> None:
    """One person on two platforms, or one vote where today's route wants two."""
    refused = Refusal(code="not_decided", text="not enough people have approved it.")
    assert dispatch(decided(voters=(LIN, LIN_FEISHU))) == refused
    assert dispatch(decided(voters=(), quorum=1)) == refused


@pytest.mark.parametrize(
    "state", [InquiryState.PENDING, InquiryState.REJECTED, InquiryState.EXPIRED, InquiryState.WITHDRAWN]
)
def test_what_nobody_approved_does_not_run(state: InquiryState) -> None:
    """A decision without the state that belongs to it, or no decision at all, is a no."""
    refused = Refusal(code="not_decided", text="nobody has approved it.")
    assert dispatch(decided(state=state)) == refused
    assert dispatch(decided(decision=None)) == refused
