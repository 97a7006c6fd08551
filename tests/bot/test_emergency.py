"""Break-glass: one listed person approves alone, says why, confirms it, and everybody is told."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from agent_runner.config import Config
from agent_runner.errors import AlreadyDecided, CountersignError, Expired, FixInput, ShowAgain
from agent_runner.model import Actor, Inquiry, InquiryState
from agent_runner.people_register import CONFIRM_SECONDS
from agent_runner.policy import Call, Policy, Route, check_dispatch
from bot import emergency
from bot.emergency import Alone
from bot.handle import MayNotBreakGlass
from bot.reply import Reply
from cards import wording
from tests.bot.test_handle import CONFIG, EVE, KAI, LIN, LIN_CHAT, MEI, PEOPLE, Office
from tests.fakes.values import COMMAND, a_plan, a_question, an_inquiry, at

RULES = Policy(
    ask=("Bash",),
    deny=("Bash(sudo *)",),
    routes=(Route(match=("Bash",), approvers=("kai", "mei"), quorum=2, requester_may_decide=False),),
    break_glass=("lin",),
)
LISTED = Config(workspaces=CONFIG.workspaces, people=PEOPLE, policy=RULES)
TWO: dict[str, Any] = {"approvers": ("kai", "mei"), "quorum": 2, "requester_may_decide": False}
WHY = "checkout is down; nobody answers"


@pytest.fixture
def office(fake_redis: Redis) -> Office:
    """Lin may break the glass."""
    return Office(fake_redis, LISTED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("break glass checkout is down", Alone(None, "checkout is down", "")),
        ("Break-Glass: now\nplease", Alone(None, "now\nplease", "")),
        ("#12 break glass why", Alone(12, "why", "")),
        ("紧急放行 服务挂了", Alone(None, "服务挂了", "")),
        ("緊急承認：本番停止", Alone(None, "本番停止", "")),
        ("break glass", Alone(None, "", "")),
        ("break glass 4821", Alone(None, "", "4821")),
        ("紧急放行 ４８２１", Alone(None, "", "4821")),
        ("break glass 4821 now", Alone(None, "4821 now", "")),
        ("break glasses", None),
        ("please break glass", None),
        ("1", None),
    ],
)
def test_what_is_heard(text: str, expected: Alone | None) -> None:
    """The words, alone or with a reason, in three languages; a code is four digits and nothing else."""
    assert emergency.heard(text) == expected


def code_of(reply: Reply) -> str:
    """The code that somebody was told."""
    assert reply.key == "glass.confirm"
    return reply.details["code"]


def test_by_words_it_takes_a_reason_and_a_code(office: Office) -> None:
    """First told what it does, then done: alone, on record as its own event, without the quorum."""
    office.opened(an_inquiry(**TWO))
    assert office.say("break glass", by=LIN) == Reply(key="glass.why")
    told = office.say(f"break glass {WHY}", by=LIN)
    code = code_of(told)
    assert told.details == {"number": "12", "code": code, "who": "Kai, mei"}
    assert all(code in told.text(lang) for lang in wording.LANGUAGES)
    assert office.undecided()
    done = office.say(f"break glass {code}", by=LIN_CHAT)
    assert done.key == "reply.decided"
    inquiry = office.store.inquiry("i_1")
    decision = inquiry.decision
    assert decision is not None
    assert (inquiry.state, decision.by, decision.reason, decision.break_glass, inquiry.votes) == (
        InquiryState.APPROVED,
        LIN_CHAT,
        WHY,
        True,
        (),
    )
    assert office.events() == ["break_glass", "decided"]
    assert [e.words for e in office.store.audit_of("t_1")] == [WHY, WHY]
    assert office.jobs == [("t_1", 2)]


def test_a_code_is_good_once_for_one_person_and_what_they_saw(office: Office) -> None:
    """A wrong one ends it; another's, or one for a request that has changed since, decides nothing."""
    office.opened(an_inquiry(**TWO))
    wrong = Reply(key="glass.wrong_code")
    code = code_of(office.say(f"break glass {WHY}", by=LIN))
    other = str((int(code) - 999) % 9000 + 1000)
    assert office.say(f"break glass {code}", by=KAI) == wrong
    assert office.say(f"break glass {other}", by=LIN) == wrong
    assert office.say(f"break glass {code}", by=LIN) == wrong
    code = code_of(office.say(f"break glass {WHY}", by=LIN))
    office.choose(by=KAI)
    with pytest.raises(ShowAgain):
        office.say(f"break glass {code}", by=LIN)
    assert office.say(f"break glass {code}", by=LIN) == wrong
    assert office.store.inquiry("i_1").decision is None


def test_a_code_is_good_for_two_minutes(office: Office) -> None:
    """The store forgets it by itself."""
    office.opened(an_inquiry(**TWO))
    office.say(f"break glass {WHY}", by=LIN)
    left = office.store.client.ttl(office.store.keys.break_glass(LIN.key))
    assert CONFIRM_SECONDS - 5 < left <= CONFIRM_SECONDS == 120


@pytest.mark.parametrize("by", [KAI, MEI, EVE, LIN.having(user_id="x")])
def test_who_is_not_listed_may_not_and_the_attempt_is_on_record(office: Office, by: Actor) -> None:
    """By words and by the API; an approver of the route is not one of those either."""
    office.opened(an_inquiry(**TWO))
    with pytest.raises(MayNotBreakGlass):
        office.say(f"break glass {WHY}", by=by)
    with pytest.raises(MayNotBreakGlass):
        office.choose(by=by, break_glass=True, reason=WHY, confirm="#12")
    assert office.undecided()
    entries = office.store.audit_of("t_1")
    attempt = {"verdict": "approve", "break_glass": True}
    assert [(str(e.event), e.details) for e in entries] == [("refused_attempt", attempt)] * 2


def test_a_stand_in_does_not_inherit_it(office: Office) -> None:
    """The hand-over is of decisions, not of this."""
    office.opened(an_inquiry(**TWO))
    office.handler.away.leave("lin", "3d", "mei")
    with pytest.raises(MayNotBreakGlass):
        office.choose(by=MEI, break_glass=True, reason=WHY, confirm="#12")


@pytest.mark.parametrize(
    ("inquiry", "text", "reply"),
    [
        (a_question(), "break glass why", Reply(key="glass.question")),
        (an_inquiry(state="expired"), "break glass why", Reply(key="glass.nothing_open")),
        (an_inquiry(), "#99 break glass why", Reply(key="glass.nothing_open")),
    ],
)
def test_what_cannot_be_approved_alone(office: Office, inquiry: Inquiry, text: str, reply: Reply) -> None:
    """A question needs an answer, and what is not open cannot be decided."""
    office.opened(inquiry)
    assert office.say(text, by=LIN) == reply
    assert office.undecided()


def test_with_several_open_it_is_asked_which(office: Office) -> None:
    """The number in front, or the message replied to, says it."""
    office.opened(an_inquiry(**TWO), an_inquiry(id="i_2", number=13, tool_use_id="toolu_2", **TWO))
    asked = office.say(f"break glass {WHY}", by=LIN)
    assert asked == Reply(key="glass.which", details={"requests": "#12, #13", "number": "12"})
    assert office.say(f"#13 break glass {WHY}", by=LIN).details["number"] == "13"
    code = code_of(office.say(f"break glass {WHY}", by=LIN, quoted=13))
    assert office.say(f"#12 break glass {code}", by=LIN).key == "glass.wrong_code"
    code = code_of(office.say(f"break glass {WHY}", by=LIN, quoted=13))
    assert office.say(f"#13 break glass {code}", by=LIN).key == "reply.decided"
    assert [office.store.inquiry(i).open for i in ("i_1", "i_2")] == [True, False]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"reason": " "}, FixInput, "Field reason is missing: why alone?"),
        ({"confirm": ""}, FixInput, 'Field confirm must be "#12".'),
        ({"confirm": "#13"}, FixInput, 'Field confirm must be "#12".'),
        ({"scope": "task"}, FixInput, "Break-glass only approves, and only once."),
        ({"verdict": "reject"}, FixInput, "Break-glass only approves, and only once."),
        ({"verdict": "change", "conditions": "x"}, FixInput, "Break-glass only approves, and only once."),
        ({"revision": 0}, ShowAgain, "The request has changed since; nothing was decided."),
    ],
)
def test_what_is_missing_is_named(
    office: Office, changes: dict[str, Any], error: type[CountersignError], message: str
) -> None:
    """And nothing is decided."""
    office.opened(an_inquiry(**TWO))
    said = {"reason": WHY, "confirm": "#12", **changes}
    with pytest.raises(error) as caught:
        office.choose(said.pop("verdict", "approve"), by=LIN, break_glass=True, **said)
    assert caught.value.message == message
    assert office.undecided()


def test_a_plan_can_be_approved_alone(office: Office) -> None:
    """Everything but a question."""
    office.opened(a_plan(**TWO))
    assert office.choose(by=LIN, break_glass=True, reason=WHY, confirm="#12").decision is not None


def test_deny_rules_hold(office: Office) -> None:
    """What the policy forbids today is not approved by anybody."""
    office.opened(an_inquiry(tool_input={"command": "sudo reboot"}, **TWO))
    with pytest.raises(FixInput, match="forbids"):
        office.choose(by=LIN, break_glass=True, reason=WHY, confirm="#12")
    assert office.undecided()


def test_too_late_is_too_late(office: Office) -> None:
    """A decision or the end of the time come first."""
    office.opened(an_inquiry(approvers=("kai",)))
    office.choose(by=KAI)
    with pytest.raises(AlreadyDecided):
        office.choose(by=LIN, break_glass=True, reason=WHY, confirm="#12")
    office.store.client.flushdb()
    office.opened(an_inquiry(**TWO))
    office.time = at(9 * 3600)
    with pytest.raises(Expired):
        office.choose(by=LIN, break_glass=True, reason=WHY, confirm="#12")


def test_everybody_in_the_route_is_told(office: Office) -> None:
    """But not whoever did it."""
    office.opened(an_inquiry(approvers=("group:oncall", "mei")))
    decided = office.choose(by=LIN, break_glass=True, reason=WHY, confirm="#12")
    assert office.handler.told(decided) == {"breakglass:12": ("Kai", "mei")}


def test_it_runs_only_while_that_person_is_listed(office: Office) -> None:
    """Checked again when the call is about to run; deny rules and age as for every approval."""
    office.opened(an_inquiry(**TWO))
    decided = office.choose(by=LIN, break_glass=True, reason=WHY, confirm="#12")
    call = Call(tool_name="Bash", tool_input=COMMAND, cwd="/srv/ops", workspace="ops")

    def refused(policy: Policy, people: Any = PEOPLE, later: float = 70) -> str:
        found = check_dispatch(policy, call, inquiry=decided, people=people, now=at(later))
        return found.code if found else ""

    assert refused(RULES) == ""
    assert refused(RULES.having(break_glass=())) == "approver_may_not"
    assert refused(RULES.having(break_glass=("kai",))) == "approver_may_not"
    assert refused(RULES, {n: p for n, p in PEOPLE.items() if n != "lin"}) == "approver_may_not"
    assert refused(RULES.having(deny=("Bash(kubectl *)",))) == "policy_denies"
    assert refused(RULES, later=13 * 3600) == "approval_too_old"
