from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import pytest
from redis import Redis
from redis.client import Pipeline

from agent_runner import briefs, moments, policy
from agent_runner.aggregate import Changes
from agent_runner.audit import Event, first_bad
from agent_runner.config import Config, Limits, Workspace
from agent_runner.errors import (
    AlreadyDecided,
    CountersignError,
    Expired,
    FixInput,
    NotAllowed,
    NotFound,
    ShowAgain,
    TryLater,
    WrongState,
)
from agent_runner.model import (
    REQUEST_APPROVAL,
    Actor,
    Decision,
    Grant,
    Inquiry,
    InquiryState,
    Place,
    Task,
    TaskState,
    Verdict,
    Vote,
)
from agent_runner.people import Person
from agent_runner.policy import Escalation, Policy, Route
from agent_runner.store import Store, connect
from bot.commands import Ask, AskedAgain, Chose, Retried, Revoked, Said, Stopped
from bot.handle import Handler, Reply, decided
from tests.fakes.faults import hung, private_redis
from tests.fakes.values import ANSWERS, COMMAND, NOW, a_limit, a_plan, a_question, a_task, an_inquiry, at

MEI = Actor(platform="web", user_id="mei", name="Mei", person="mei")
MEI_CHAT = Actor(platform="slack", tenant="T1", user_id="U9", name="mei", person="mei")
LIN = Actor(platform="web", user_id="lin", name="Lin", person="lin")
LIN_CHAT = Actor(platform="slack", tenant="T1", user_id="U1", name="lin", person="lin")
KAI = Actor(platform="web", user_id="kai", name="Kai", person="kai")
EVE = Actor(platform="web", user_id="eve", name="Eve")
PEOPLE = {
    "mei": Person(accounts=("web:mei", "slack:T1:U9")),
    "lin": Person(accounts=("web:lin", "slack:T1:U1"), groups=("oncall",), display="Lin"),
    "kai": Person(accounts=("web:kai",), groups=("oncall",), display="Kai"),
}
CONFIG = Config(
    workspaces={"ops": Workspace(path="/srv/ops", pool="big"), "dev": Workspace(path="/srv/dev")},
    people=PEOPLE,
    policy=Policy(
        ask=("Bash",),
        deny=("Bash(sudo *)",),
        routes=(Route(match=("Bash(terraform apply *)",), approvers=("kai",)),),
        default_route=Route(approvers=("anyone",)),
    ),
    limits=Limits(task_text_chars=100_000),
)
ONCALL: dict[str, Any] = {"approvers": ("group:oncall",), "requester_may_decide": False}
EDITED = {"command": "kubectl rollout restart deploy/checkout -n staging"}


class Office:
    """A handler on a store, with a clock that a test moves and ids that count."""

    def __init__(self, client: Redis, config: Config = CONFIG, *, zone: tzinfo = UTC) -> None:
        self.jobs: list[tuple[str, int]] = []
        self.time = at(60)
        ids = itertools.count(1)
        self.store = Store(client, enqueue=self._enqueue, policy_version=config.policy_version)
        self.handler = Handler(
            self.store, config, clock=self._now, new_id=lambda prefix: f"{prefix}_new{next(ids)}", zone=zone
        )

    def _enqueue(self, _pipe: Pipeline, task: Task) -> None:
        self.jobs.append((task.id, task.turn))

    def _now(self) -> datetime:
        return self.time

    def opened(self, *inquiries: Inquiry, state: str = "waiting") -> Inquiry:
        """A task of Mei's that waits for these; the first of them."""
        since = NOW if state == "waiting" else None
        self.store.create(
            a_task(asked_by=MEI, state=state, batch="t_1-1-1", waiting_since=since), messages=[], notes=[]
        )
        self.store.transact("t_1", lambda _: Changes(inquiries=inquiries))
        self.jobs.clear()
        return self.store.inquiry("i_1")

    def choose(self, verdict: str = "approve", *, by: Actor = MEI, **words: Any) -> Inquiry:
        """Decides about `i_1` as a button or the API does."""
        return self.handler.choose(
            Chose(**{"actor": by, "inquiry_id": "i_1", "verdict": Verdict(verdict), **words})
        )

    def say(self, text: str, *, by: Actor = MEI, quoted: int | None = None) -> Reply:
        """Says something in the thread."""
        return self.handler.say(Said(actor=by, task_id="t_1", text=text, quoted=quoted))

    def events(self) -> list[str]:
        """What is on record."""
        entries = self.store.audit_of("t_1")
        assert first_bad(entries) is None
        return [str(e.event) for e in entries]

    def undecided(self) -> bool:
        """Whether nothing was decided or queued."""
        inquiry = self.store.inquiry("i_1")
        return inquiry.decision is None and inquiry.votes == () and self.jobs == []


@pytest.fixture
def office(fake_redis: Redis) -> Office:
    """An office with an empty store."""
    return Office(fake_redis)


# --- asking for a job --------------------------------------------------------------------------


def test_a_job_is_stored_with_everything_its_turns_need(office: Office) -> None:
    """Who, where, what, and which settings: fixed when it is asked for."""
    asked = Ask(
        actor=LIN_CHAT,
        text="  restart it \n",
        workspace="ops",
        place=Place(platform="slack", chat="C1", thread="9.1"),
        plan=True,
    )
    task = office.handler.ask(asked)
    assert task == office.store.task("t_new1")
    assert task == Task(
        id="t_new1",
        number=1,
        revision=1,
        workspace="ops",
        cwd="/srv/ops",
        pool="big",
        place=Place(platform="slack", chat="C1", thread="9.1"),
        asked_by=LIN_CHAT,
        text="restart it",
        created_at=at(60),
        updated_at=at(60),
        session_id=task.session_id,
        options={"plan": True, "model": ""},  # type: ignore[arg-type]  # pydantic reads it
        prompt="restart it",
    )
    assert [m.text for m in office.store.messages("t_new1")] == ["restart it"]
    assert [(str(e.event), e.words) for e in office.store.audit_of("t_new1")] == [
        ("task_asked", "restart it")
    ]
    assert office.jobs == [("t_new1", 1)]


def test_jobs_have_numbers_ids_and_conversations_of_their_own(office: Office) -> None:
    """Two jobs share nothing; on the page a job is its own thread."""
    one, two = (office.handler.ask(Ask(actor=MEI, text="go", workspace="dev")) for _ in range(2))
    assert (one.number, two.number) == (1, 2)
    assert one.session_id != two.session_id
    assert (one.place, one.pool, one.cwd) == (Place(platform="web", thread=one.id), "default", "/srv/dev")


@pytest.mark.parametrize(
    ("text", "workspace", "message", "hint"),
    [
        ("", "ops", "There are no words in it.", "Say what should be done."),
        (" \n\t　", "ops", "There are no words in it.", "Say what should be done."),
        ("go", "prod", "There is no workspace prod.", "There are: ops, dev."),
        ("go", "OPS", "There is no workspace OPS.", "There are: ops, dev."),
        (
            "x" * (1 << 20),
            "ops",
            "The text has 1048576 characters; 100000 are allowed.",
            "Put the long part in a file in the workspace and name it.",
        ),
    ],
    ids=["empty", "blanks", "unknown workspace", "other spelling", "1 MB"],
)
def test_a_job_that_cannot_be_asked_for(
    office: Office, text: str, workspace: str, message: str, hint: str
) -> None:
    """It is told what is wrong and what to do, and nothing is stored."""
    with pytest.raises(FixInput) as caught:
        office.handler.ask(Ask(actor=MEI, text=text, workspace=workspace))
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert office.store.list_tasks(None, after=None, limit=9) == ()
    assert office.jobs == []


def test_without_any_workspace_there_is_nowhere_to_run(fake_redis: Redis) -> None:
    """The person who can act is told what to add."""
    with pytest.raises(FixInput, match="No workspace is configured"):
        Office(fake_redis, Config()).handler.ask(Ask(actor=MEI, text="go"))


def test_the_only_workspace_need_not_be_named(fake_redis: Redis) -> None:
    """With one workspace there is nothing to choose."""
    config = Config(workspaces={"ops": Workspace(path="/srv/ops")})
    assert Office(fake_redis, config).handler.ask(Ask(actor=MEI, text="go")).workspace == "ops"


# --- deciding ----------------------------------------------------------------------------------


def decision(verdict: str, by: Actor = MEI, **words: Any) -> Decision:
    """A decision as the office records it."""
    return Decision(verdict=Verdict(verdict), by=by, at=at(60), **words)


def more(amount: float) -> dict[str, Any]:
    """The input of a request to go on, with another amount."""
    return {**a_limit().tool_input, "more": amount}


OFFER = an_inquiry(offer="Bash(kubectl rollout:*)", offer_for=timedelta(hours=1))
"""A request that offers a rule for one hour."""


@pytest.mark.parametrize(
    ("inquiry", "verdict", "words", "state", "recorded"),
    [
        (an_inquiry(), "approve", {}, "approved", {}),
        (an_inquiry(), "approve", {"reason": " go "}, "approved", {"reason": "go"}),
        (an_inquiry(), "approve", {"scope": "task"}, "approved", {"scope": "task"}),
        (
            OFFER,
            "approve",
            {"scope": "rule"},
            "approved",
            {"scope": "rule", "rule": "Bash(kubectl rollout:*)", "until": at(60 + 12 * 3600)},
        ),
        (
            OFFER,
            "approve",
            {"scope": "until"},
            "approved",
            {"scope": "until", "rule": "Bash(kubectl rollout:*)", "until": at(60 + 3600)},
        ),
        (
            OFFER.having(offer_for=timedelta(days=9)),
            "approve",
            {"scope": "until"},
            "approved",
            {"scope": "until", "rule": "Bash(kubectl rollout:*)", "until": at(60 + 8 * 3600)},
        ),
        (an_inquiry(), "reject", {"reason": " no\nway "}, "rejected", {"reason": "no\nway"}),
        (an_inquiry(), "change", {"conditions": " later "}, "changed", {"conditions": "later"}),
        (an_inquiry(), "change", {"input": EDITED}, "changed", {"input": EDITED}),
        (
            an_inquiry(tool_input={"command": "sleep 1", "timeout": 5}),
            "change",
            {"input": {"command": "sleep 1", "timeout": 2.5}, "conditions": "quick"},
            "changed",
            {"input": {"command": "sleep 1", "timeout": 2.5}, "conditions": "quick"},
        ),
        (a_question(), "answer", {"answers": ANSWERS}, "answered", {"answers": ANSWERS}),
        (a_question(), "reject", {"reason": "ask Lin"}, "rejected", {"reason": "ask Lin"}),
        (a_plan(), "approve", {}, "approved", {}),
        (a_plan(), "change", {"conditions": "look first"}, "changed", {"conditions": "look first"}),
        (
            an_inquiry(tool_name=REQUEST_APPROVAL, tool_input={"title": "t", "action": "a"}),
            "change",
            {"conditions": "after 18:00"},
            "changed",
            {"conditions": "after 18:00"},
        ),
        (a_limit(), "approve", {"reason": "finish it"}, "approved", {"reason": "finish it"}),
        (a_limit(), "change", {"input": {"more": 0.5}}, "changed", {"input": more(0.5)}),
        (
            a_limit(),
            "change",
            {"input": more(20), "conditions": "then stop"},
            "changed",
            {"input": more(20), "conditions": "then stop"},
        ),
        (a_limit(), "change", {"conditions": " $5 "}, "changed", {"input": more(5)}),
    ],
)
def test_what_is_recorded(
    office: Office,
    inquiry: Inquiry,
    verdict: str,
    words: dict[str, Any],
    state: str,
    recorded: dict[str, Any],
) -> None:
    """Verdict, words, who and when; the task is queued again; the record has it."""
    office.opened(inquiry)
    decided = office.choose(verdict, **words)
    assert decided == office.store.inquiry("i_1")
    assert (decided.state, decided.decision) == (InquiryState(state), decision(verdict, **recorded))
    assert office.jobs == [("t_1", 2)]
    assert office.events() == ["decided", *(["grant_given"] if "rule" in recorded else [])]
    assert office.store.audit_of("t_1")[-1].policy_version == CONFIG.policy_version


BROKEN = a_question(tool_input={"questions": "which?"})
STEP = an_inquiry(tool_name=REQUEST_APPROVAL, tool_input={"title": "t", "action": "a"})
TYPED = an_inquiry(tool_input={"command": "ls", "timeout": 5, "background": True, "env": {"A": "1"}})

REFUSED: dict[str, tuple[Inquiry, str, dict[str, Any], str]] = {
    "approve a question": (a_question(), "approve", {}, "This is a question: answer it."),
    "change a question": (a_question(), "change", {"conditions": "x"}, "This is a question: answer it."),
    "answer a call": (an_inquiry(), "answer", {"answers": {"q": "a"}}, "This is no question."),
    "answer a plan": (a_plan(), "answer", {"answers": {"q": "a"}}, "This is no question."),
    "approve with an input": (an_inquiry(), "approve", {"input": EDITED}, "Approve takes no changes."),
    "approve with conditions": (an_inquiry(), "approve", {"conditions": "but"}, "Approve takes no changes."),
    **{
        f"{what} for the task": (
            inquiry,
            "approve",
            {"scope": "task"},
            "Only a tool call that one person can approve may be approved for more than once.",
        )
        for what, inquiry in (("a plan", a_plan()), ("a step", STEP), ("a call of two", an_inquiry(quorum=2)))
    },
    **{
        f"{what} by rule ({scope})": (
            inquiry,
            "approve",
            {"scope": scope},
            "Only a tool call that one person can approve may be approved for more than once."
            if what != "a call without an offer"
            else "There is no rule for this call that could be approved.",
        )
        for scope in ("rule", "until")
        for what, inquiry in (
            ("a plan", a_plan(offer="Bash(ls:*)", offer_for=timedelta(hours=1))),
            ("a step", STEP.having(offer="mcp__a__b", offer_for=timedelta(hours=1))),
            ("a call of two", OFFER.having(quorum=2)),
            ("a call without an offer", an_inquiry()),
        )
    },
    "change by rule": (
        OFFER,
        "change",
        {"input": EDITED, "scope": "rule"},
        "A changed call can only be approved once.",
    ),
    "change for the task": (
        an_inquiry(),
        "change",
        {"input": EDITED, "scope": "task"},
        "A changed call can only be approved once.",
    ),
    "change nothing": (an_inquiry(), "change", {}, "What should change?"),
    "change by blanks": (an_inquiry(), "change", {"conditions": " \n"}, "What should change?"),
    "edit a plan": (a_plan(), "change", {"input": {"plan": "x"}}, "This is changed in words."),
    "edit a step": (STEP, "change", {"input": {"title": "x"}}, "This is changed in words."),
    "unchanged": (an_inquiry(), "change", {"input": dict(COMMAND)}, "The input is unchanged."),
    "edited into what is forbidden": (
        an_inquiry(),
        "change",
        {"input": {"command": "sudo reboot"}},
        "The edited call is forbidden by the policy (rule: Bash(sudo *)).",
    ),
    "edited into what is forbidden, in part": (
        an_inquiry(),
        "change",
        {"input": {"command": "ls && sudo reboot"}},
        "The edited call is forbidden by the policy (rule: Bash(sudo *)).",
    ),
    "edited into what others decide": (
        an_inquiry(),
        "change",
        {"input": {"command": "terraform apply p"}},
        "The edited call needs the approval of others.",
    ),
    "empty command": (an_inquiry(), "change", {"input": {"command": " "}}, "The command is empty."),
    "text for a number": (
        TYPED,
        "change",
        {"input": {**TYPED.tool_input, "timeout": "5"}},
        "Field timeout must stay a number, not a text.",
    ),
    "truth for a number": (
        TYPED,
        "change",
        {"input": {**TYPED.tool_input, "timeout": True}},
        "Field timeout must stay a number, not a yes or no.",
    ),
    "number for truth": (
        TYPED,
        "change",
        {"input": {**TYPED.tool_input, "background": 1}},
        "Field background must stay a yes or no, not a number.",
    ),
    "list for an object": (
        TYPED,
        "change",
        {"input": {**TYPED.tool_input, "env": []}},
        "Field env must stay an object, not a list.",
    ),
    "null for a text": (
        an_inquiry(),
        "change",
        {"input": {"command": None}},
        "Field command must stay a text, not null.",
    ),
    "changed by one of two": (
        an_inquiry(quorum=2),
        "change",
        {"input": EDITED},
        "Request #12 needs 2 people to approve the same thing.",
    ),
    **{
        f"go on with {amount!r}": (
            a_limit(),
            "change",
            {"input": {"more": amount}},
            "How much more? A number above 0, at most 20.",
        )
        for amount in (0, -1, 20.01, "5", True, None, [5])
    },
    **{
        f"go on with the words {words!r}": (
            a_limit(),
            "change",
            {"conditions": words},
            "How much more? A number above 0, at most 20.",
        )
        for words in ("", "but be quick", "5 or 6", "99", "inf", "nan")
    },
    "go on with other accounts": (
        a_limit(),
        "change",
        {"input": {"more": 5, "used": 0}},
        "Only `more` can be changed here.",
    ),
    "go on for good": (
        a_limit(),
        "approve",
        {"scope": "task"},
        "Only a tool call that one person can approve may be approved for more than once.",
    ),
    "go on by the word of one of two": (
        a_limit(quorum=2),
        "change",
        {"input": {"more": 5}},
        "Request #12 needs 2 people to approve the same thing.",
    ),
    "reject a limit without a reason": (a_limit(), "reject", {}, "Why not? A reason is needed."),
    "reject without a reason": (an_inquiry(), "reject", {}, "Why not? A reason is needed."),
    "reject with blanks": (an_inquiry(), "reject", {"reason": " \n"}, "Why not? A reason is needed."),
    "no answers": (
        a_question(),
        "answer",
        {},
        "Not answered yet: Which database?; Which environments?",
    ),
    "one answer missing": (
        a_question(),
        "answer",
        {"answers": {"Which database?": "Postgres"}},
        "Not answered yet: Which environments?",
    ),
    "one answer blank": (
        a_question(),
        "answer",
        {"answers": {**ANSWERS, "Which database?": " "}},
        "Not answered yet: Which database?",
    ),
    "an answer nobody asked for": (
        a_question(),
        "answer",
        {"answers": {**ANSWERS, "Which colour?": "red"}},
        "Not asked: Which colour?",
    ),
    "questions that cannot be read": (BROKEN, "answer", {"answers": {}}, "Its questions cannot be read."),
    "no questions at all": (
        a_question(tool_input={"questions": []}),
        "answer",
        {"answers": {}},
        "Its questions cannot be read.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(office: Office, case: str) -> None:
    """A decision that makes no sense is told why, and nothing is decided, queued or on record."""
    inquiry, verdict, words, message = REFUSED[case]
    office.opened(inquiry)
    with pytest.raises(FixInput) as caught:
        office.choose(verdict, **words)
    assert caught.value.message == message
    assert caught.value.hint != ""
    assert office.undecided()
    assert office.events() == []


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, "\ud800", {1, 2}], ids=["nan", "inf", "surrogate", "set"]
)
def test_an_edit_that_is_not_json_is_refused(office: Office, value: Any) -> None:
    """What has no digest cannot be approved."""
    office.opened(an_inquiry(tool_input={"command": "ls", "n": 1}))
    with pytest.raises(FixInput, match="not JSON"):
        office.choose("change", input={"command": "ls", "n": value})
    assert office.undecided()


# --- B: who decides ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["click", "reply", "reply to the card"])
@pytest.mark.parametrize(
    ("by", "asked", "names"),
    [
        (EVE, ONCALL, "Lin, Kai"),
        (MEI, ONCALL, "Lin, Kai"),
        (MEI_CHAT, ONCALL, "Lin, Kai"),
        (LIN, {"approvers": ("requester",)}, "Mei"),
        (EVE, {"approvers": ("lin", "slack:T1:U9")}, "Lin, mei"),
        (MEI, {"approvers": ("requester",), "requester_may_decide": False}, "Mei"),
        (EVE.having(user_id=""), {"approvers": ("anyone",)}, "anyone"),
        (EVE.having(user_id=" "), {"approvers": ("anyone",)}, "anyone"),
        (EVE.having(person="lin"), ONCALL, "Lin, Kai"),
    ],
    ids=[
        *("somebody", "the requester", "the requester on another platform", "only the requester may"),
        *("listed are others", "only the requester, who may not", "no id", "blank id"),
        "somebody with a forged name",
    ],
)
def test_case_b01_b02_b04_b05_who_may_not_decide(
    office: Office, way: str, by: Actor, asked: dict[str, Any], names: str
) -> None:
    """One gate for clicks, replies and the API: refused with who may, on record, and still open."""
    office.opened(an_inquiry(asked_by=MEI, **asked))
    with pytest.raises(NotAllowed) as caught:
        if way == "click":
            office.choose(by=by)
        else:
            office.say("1", by=by, quoted=12 if way == "reply to the card" else None)
    assert caught.value.message == f"{by.name} may not decide request #12."
    assert caught.value.hint == f"These can: {names}."
    assert office.undecided()
    assert office.events() == ["refused_attempt"]
    attempt = office.store.audit_of("t_1")[-1]
    assert (attempt.inquiry_id, attempt.details) == ("i_1", {"verdict": "approve"})


def test_case_b03_an_empty_list_of_approvers_is_nobody(office: Office) -> None:
    """Even for somebody who could decide anything else."""
    office.opened(an_inquiry(approvers=()))
    with pytest.raises(NotAllowed) as caught:
        office.choose(by=LIN)
    assert caught.value.hint == "Nobody is listed who can."
    assert office.undecided()


def test_case_b06_the_loser_of_a_race_is_told_who_won(redis_url: str) -> None:
    """Twenty clicks in one moment: one decision, one entry, one turn; all others hear by whom."""
    office = Office(connect(redis_url, patient=False))
    office.opened(an_inquiry())
    start = threading.Barrier(20)

    def click(n: int) -> str:
        start.wait()
        who = Actor(platform="web", user_id=f"p{n}", name=f"P{n}")
        try:
            if n % 2:
                return f"won as {office.choose(by=who).state}"
            return f"won as {office.choose('reject', by=who, reason='no').state}"
        except AlreadyDecided as error:
            return error.message

    with ThreadPoolExecutor(20) as pool:
        said = list(pool.map(click, range(20)))
    decided = office.store.inquiry("i_1")
    assert decided.decision is not None
    told = f"Request #12 is already {decided.state} by {decided.decision.by.name}."
    assert sorted(said) == sorted([told] * 19 + [f"won as {decided.state}"])
    assert office.events() == ["decided"]
    assert set(office.jobs) == {("t_1", 2)}
    assert office.store.task("t_1").turn == 2


def test_case_b07_the_same_click_again_changes_nothing(office: Office) -> None:
    """Delivered twice, or pressed again hours later: answered with words, nothing happens twice."""
    office.opened(an_inquiry())
    office.choose()
    before = office.store.snapshot("t_1")
    for later in (timedelta(), timedelta(hours=20)):
        office.time = at(60) + later
        with pytest.raises(AlreadyDecided) as caught:
            office.choose()
        assert caught.value.details == {"by": "Mei", "state": "approved", "at": at(60)}
    assert office.store.snapshot("t_1") == before
    assert (office.jobs, office.events()) == ([("t_1", 2)], ["decided"])


@pytest.mark.parametrize(
    ("seen", "error"),
    [
        ({"revision": 1}, None),
        ({"revision": 0}, None),
        ({"revision": 2}, ShowAgain),
        ({"digest": an_inquiry().digest}, None),
        ({"digest": an_inquiry().digest.upper()}, None),
        ({"digest": an_inquiry().short_digest}, None),
        ({"digest": an_inquiry().digest[:7]}, ShowAgain),
        ({"digest": "0" * 64}, ShowAgain),
        ({"digest": an_inquiry().digest[1:]}, ShowAgain),
        ({"digest": an_inquiry().digest + "0"}, ShowAgain),
        ({"digest": " "}, ShowAgain),
    ],
    ids=[
        *("this revision", "an earlier one", "a later one", "whole digest", "capitals", "short digest"),
        *("too short", "another", "its end", "longer", "blank"),
    ],
)
def test_case_b08_what_was_seen_must_be_what_is_asked(
    office: Office, seen: dict[str, Any], error: type[CountersignError] | None
) -> None:
    """A button or a call that carries what it showed decides only exactly that."""
    office.opened(an_inquiry())
    if error is None:
        assert office.choose(**seen).state is InquiryState.APPROVED
        return
    with pytest.raises(error):
        office.choose(**seen)
    assert office.undecided()


def test_case_b08_an_old_button_decides_only_its_own_request(office: Office) -> None:
    """The button of a settled request never touches a newer one."""
    office.opened(an_inquiry(state="expired"), an_inquiry(id="i_2", number=13, tool_use_id="toolu_2"))
    with pytest.raises(Expired):
        office.choose()
    assert office.store.inquiry("i_2").open


@pytest.mark.parametrize(
    "again",
    [LIN, LIN_CHAT, LIN_CHAT.having(person="")],
    ids=["the same account", "another platform", "another platform, name not known to the door"],
)
def test_case_b09_people_are_counted_not_clicks(office: Office, again: Actor) -> None:
    """Two are needed: one person clicking twice, anywhere, is one; the second click leaves no trace."""
    office.opened(an_inquiry(asked_by=MEI, quorum=2, **ONCALL))
    assert office.choose(by=LIN).open
    before = office.store.snapshot("t_1")
    assert office.choose(by=again).open
    assert office.store.snapshot("t_1") == before
    assert office.jobs == []
    decided = office.choose(by=KAI)
    assert (decided.state, [v.by.person for v in decided.votes]) == (InquiryState.APPROVED, ["lin", "kai"])
    assert office.events() == ["voted", "decided"]
    assert office.jobs == [("t_1", 2)]


def test_one_no_of_two_is_enough(office: Office) -> None:
    """Where two must approve, anyone of them stops it."""
    office.opened(an_inquiry(asked_by=MEI, quorum=2, **ONCALL))
    office.choose(by=LIN)
    assert office.choose("reject", by=KAI, reason="not today").state is InquiryState.REJECTED


def test_without_a_veto_a_rejection_is_a_vote(office: Office) -> None:
    """It stays open while enough others are left, keeps all words, and ends with the last that counts."""
    office.opened(an_inquiry(asked_by=MEI, veto=False, **ONCALL))
    first = office.choose("reject", by=LIN, reason="the canary is red")
    assert (first.open, decided(first, Verdict.REJECT).key) == (True, "reply.voted_no")
    before = office.store.snapshot("t_1")
    assert office.choose("reject", by=LIN_CHAT, reason="again").open
    assert office.store.snapshot("t_1") == before
    last = office.choose("reject", by=KAI, reason="not today")
    assert last.state is InquiryState.REJECTED
    assert [(v.by.person, v.words) for v in last.votes] == [
        ("lin", "the canary is red"),
        ("kai", "not today"),
    ]
    assert [(e.words, str(e.event)) for e in office.store.audit_of("t_1")] == [
        ("the canary is red", "voted"),
        ("not today", "decided"),
    ]
    told = briefs.rejected(last)
    assert "not today" in told
    assert "the canary is red" in told


def test_without_a_veto_somebody_can_think_again(office: Office) -> None:
    """A person's new word takes the place of the old one; one approval is still enough."""
    office.opened(an_inquiry(asked_by=MEI, veto=False, **ONCALL))
    office.choose("reject", by=LIN, reason="no")
    done = office.choose(by=LIN_CHAT)
    assert (done.state, [v.verdict for v in done.votes]) == (InquiryState.APPROVED, [Verdict.APPROVE])


@pytest.mark.parametrize(
    ("inquiry", "time", "error", "message"),
    [
        (an_inquiry(), at(8 * 3600), Expired, "Request #12 is over since 2026-03-02 22:00 UTC."),
        (
            an_inquiry(state="expired"),
            at(60),
            Expired,
            "Request #12 is over since 2026-03-02 22:00 UTC.",
        ),
        (
            an_inquiry(state="withdrawn"),
            at(60),
            WrongState,
            "Request #12 was withdrawn: the job was stopped.",
        ),
    ],
    ids=["over, not yet expired", "expired", "withdrawn"],
)
def test_too_late(
    office: Office, inquiry: Inquiry, time: datetime, error: type[CountersignError], message: str
) -> None:
    """A late click is told what happened instead."""
    office.opened(inquiry)
    office.time = time
    with pytest.raises(error) as caught:
        office.choose()
    assert caught.value.message == message
    assert office.undecided()


def test_an_unknown_request_is_not_found(office: Office) -> None:
    """Whatever a door sends as an id."""
    office.opened(an_inquiry())
    for inquiry_id in ("i_404", "", "t_1", "i_1 "):
        with pytest.raises(NotFound):
            office.choose(inquiry_id=inquiry_id)


def test_case_b12_asking_again_opens_a_fresh_request(office: Office) -> None:
    """One click opens one request for the same call and the same span of time; the second click none."""
    office.opened(an_inquiry(state="expired"), state="done")
    office.time = at(10 * 3600)
    fresh = office.handler.ask_again(AskedAgain(actor=LIN, inquiry_id="i_1"))
    assert fresh == office.store.inquiry(fresh.id)
    assert (fresh.digest, fresh.replaces, fresh.expires_at) == (an_inquiry().digest, "i_1", at(18 * 3600))
    assert office.store.task("t_1").state is TaskState.WAITING
    with pytest.raises(WrongState):
        office.handler.ask_again(AskedAgain(actor=KAI, inquiry_id="i_1"))
    assert len(office.store.list_inquiries(None, after=0, limit=9)) == 2


def test_asking_again_goes_by_the_route_of_today(fake_redis: Redis) -> None:
    """Who decides, how many, and every moment are those of the policy now, not of the old request."""
    route = Route(
        match=("Bash",),
        approvers=("lin", "kai"),
        quorum=2,
        requester_may_decide=False,
        veto=False,
        remind=timedelta(minutes=5),
        expires=timedelta(hours=2),
        escalate=Escalation(after=timedelta(hours=1), to=("mei",)),
    )
    office = Office(fake_redis, CONFIG.having(policy=Policy(ask=("Bash",), routes=(route,))))
    stale = {"reminded_at": at(9), "escalated_at": at(9), "escalate_to": ("eve",), "approvers": ("eve",)}
    vote = Vote(by=EVE, at=at(9), verdict=Verdict.APPROVE)
    office.opened(an_inquiry(state="expired", votes=(vote,), **stale), state="done")
    office.time = at(0)
    fresh = office.handler.ask_again(AskedAgain(actor=LIN, inquiry_id="i_1"))
    kept = ("approvers", "quorum", "requester_may_decide", "veto", "escalate_to", "votes")
    assert [getattr(fresh, name) for name in kept] == [("lin", "kai"), 2, False, False, ("mei",), ()]
    moments = (fresh.remind_at, fresh.escalate_at, fresh.expires_at)
    assert moments == (at(300), at(3600), at(7200))
    assert (fresh.reminded_at, fresh.escalated_at) == (None, None)
    with pytest.raises(NotAllowed):
        office.choose(by=EVE, inquiry_id=fresh.id)
    office.choose(by=LIN, inquiry_id=fresh.id)
    done = office.choose(by=KAI, inquiry_id=fresh.id)
    assert done.state is InquiryState.APPROVED


def test_those_it_was_escalated_to_may_decide_and_run_it(fake_redis: Redis) -> None:
    """From the escalation on, for every check; only as long as the route still escalates to them."""
    escalate = Escalation(after=timedelta(minutes=1), to=("kai",))
    route = Route(match=("Bash",), approvers=("lin",), escalate=escalate)
    rules = Policy(ask=("Bash",), routes=(route,))
    office = Office(fake_redis, CONFIG.having(policy=rules))
    office.opened(an_inquiry(**policy.terms(route, NOW)))
    with pytest.raises(NotAllowed):
        office.choose(by=KAI)
    office.store.transact("t_1", lambda snap: moments.escalate(snap, "i_1", at(60)))
    done = office.choose("change", by=KAI, input=EDITED)
    call = policy.Call(tool_name="Bash", tool_input=EDITED, cwd="/srv/ops", workspace="ops")

    def refused(rules: Policy) -> bool:
        return policy.check_dispatch(rules, call, inquiry=done, people=PEOPLE, now=at(70)) is not None

    assert [refused(rules), refused(Policy(routes=(route.having(escalate=None),)))] == [False, True]
    told = office.handler.told(office.store.inquiry("i_1"))
    assert told == {"escalated:12": ("Kai",)}


def test_case_e04_a_click_on_a_hung_store_is_answered() -> None:
    """Within a second and a half the person hears that nothing was recorded; the next click works."""
    with private_redis() as server:
        office = Office(connect(server.url, patient=False))
        office.opened(an_inquiry())
        tries: list[Callable[[], object]] = [
            office.choose,
            lambda: office.say("1"),
            lambda: office.handler.ask(Ask(actor=MEI, text="go", workspace="ops")),
        ]
        took = []
        for attempt in tries:
            with hung(server):
                began = time.monotonic()
                with pytest.raises(TryLater) as caught:
                    attempt()
                took.append(time.monotonic() - began)
            assert "could not be recorded" in caught.value.message
        assert office.undecided()
        assert office.choose().state is InquiryState.APPROVED
    assert max(took) < 1.5


# --- words in the thread -----------------------------------------------------------------------

NEXT = an_inquiry(id="i_2", number=13, tool_use_id="toolu_2")
DATABASE = a_question(tool_input={"questions": a_question().tool_input["questions"][:1]})


def decided_reply(what: str) -> Reply:
    """The reply to a decision about request 12."""
    return Reply(key="reply.decided", details={"number": "12"}, nested={"what": f"verdict.{what}"})


@pytest.mark.parametrize(
    ("inquiry", "text", "reply", "state"),
    [
        (an_inquiry(), "1", decided_reply("approve"), "approved"),
        (an_inquiry(), "4", decided_reply("approve"), "approved"),
        (an_inquiry(), "2 only staging", decided_reply("change"), "changed"),
        (a_limit(), "1", decided_reply("approve"), "approved"),
        (a_limit(), "2 5", decided_reply("change"), "changed"),
        (a_limit(), "2 50", Reply(key="ask_back.bad_amount", details={"most": "20"}), "pending"),
        (a_limit(), "3 enough", decided_reply("reject"), "rejected"),
        (an_inquiry(), "3 not now", decided_reply("reject"), "rejected"),
        (an_inquiry(), "no, don't allow it", decided_reply("reject"), "rejected"),
        (an_inquiry(), "3", Reply(key="ask_back.why_reject"), "pending"),
        (an_inquiry(), "ok?", Reply(key="ask_back.unclear"), "pending"),
        (an_inquiry(), "status", Reply(key="reply.status", nested={"state": "state.waiting"}), "pending"),
        (an_inquiry(), "?", Reply(key="reply.help"), "pending"),
        (an_inquiry(), "…", Reply(key="reply.nothing"), "pending"),
        (an_inquiry(), "#14 1", Reply(key="ask_back.no_such_request", details={"number": "14"}), "pending"),
        (DATABASE, "2", decided_reply("answer"), "answered"),
        (DATABASE, "1: the old one", decided_reply("answer"), "answered"),
        (a_question(), "1a 2ab", decided_reply("answer"), "answered"),
        (
            an_inquiry(quorum=2),
            "1",
            Reply(key="reply.voted", details={"number": "12", "got": "1", "needed": "2"}),
            "pending",
        ),
    ],
)
def test_what_a_reply_does(office: Office, inquiry: Inquiry, text: str, reply: Reply, state: str) -> None:
    """A numbered answer decides, what is not certain is asked back, and each says so."""
    office.opened(inquiry)
    assert office.say(text) == reply
    assert office.store.inquiry("i_1").state is InquiryState(state)
    assert reply.text("en") != ""


def test_a_typed_edit_reaches_the_same_checks_as_a_form(office: Office) -> None:
    """Replies carry the person's words through; the record holds them as typed."""
    office.opened(DATABASE)
    office.say("1: the old one\n- second line")
    found = office.store.inquiry("i_1").decision
    assert found is not None
    assert found.answers == {"Which database?": "the old one\n- second line"}


def test_case_d11_two_open_requests_and_one_number(office: Office) -> None:
    """Nothing is decided without saying which: by the request's number, or by replying to its card."""
    office.opened(an_inquiry(), NEXT)
    which = Reply(key="ask_back.which_step", details={"steps": "a (#12), b (#13)", "example": "a1"})
    assert office.say("1") == which
    assert office.undecided()
    assert office.say("#13 1").details == {"number": "13"}
    assert (office.store.inquiry("i_1").open, office.store.inquiry("i_2").open) == (True, False)
    assert office.say("1", quoted=12).details == {"number": "12"}
    assert office.jobs == [("t_1", 2)]


@pytest.mark.parametrize(
    "inquiry", [an_inquiry(), DATABASE, a_question()], ids=["call", "question", "questions"]
)
def test_case_a14_d12_words_that_are_no_answer_are_kept(office: Office, inquiry: Inquiry) -> None:
    """While a request is open they wait for the next turn; they neither answer it nor start another job."""
    office.opened(inquiry)
    words = "the staging cluster is slow today by the way"
    assert office.say(words) == Reply(key="reply.kept")
    assert office.undecided()
    task = office.store.task("t_1")
    assert ([f.text for f in task.follow_ups], task.state) == ([words], TaskState.WAITING)
    assert office.events() == ["follow_up"]
    assert len(office.store.list_tasks(None, after=None, limit=9)) == 1


@pytest.mark.parametrize(
    ("state", "reply", "jobs"),
    [
        ("queued", "reply.kept", []),
        ("running", "reply.kept", []),
        ("done", "reply.started", [("t_1", 2)]),
        ("failed", "reply.started", [("t_1", 2)]),
        ("stopped", "reply.started", [("t_1", 2)]),
        ("stuck", "reply.started", [("t_1", 2)]),
    ],
)
def test_words_start_the_next_turn_or_wait_for_it(
    office: Office, state: str, reply: str, jobs: list[tuple[str, int]]
) -> None:
    """Said, and told which of the two."""
    office.store.create(a_task(state=state), messages=[], notes=[])
    office.jobs.clear()
    assert office.say("and the cache pods") == Reply(key=reply)
    assert office.jobs == jobs
    assert [m.text for m in office.store.messages("t_1")] == ["and the cache pods"]


@pytest.mark.parametrize("text", ["", " \n", "x" * (1 << 20)], ids=["empty", "blank", "1 MB"])
def test_words_that_cannot_be_taken(office: Office, text: str) -> None:
    """They are refused with a way on, and change nothing."""
    office.opened(an_inquiry())
    before = office.store.snapshot("t_1")
    with pytest.raises(FixInput):
        office.say(text)
    assert office.store.snapshot("t_1") == before


def test_words_in_an_unknown_thread_are_not_found(office: Office) -> None:
    """A thread without a task answers nothing."""
    with pytest.raises(NotFound):
        office.say("1")


# --- stop and retry ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["button", "word"])
def test_stopping_while_it_waits_withdraws_what_is_open(office: Office, way: str) -> None:
    """The request cannot be approved any more, and the task says who stopped it."""
    office.opened(an_inquiry())
    if way == "button":
        office.handler.stop(Stopped(actor=LIN, task_id="t_1"))
    else:
        assert office.say("stop", by=LIN) == Reply(key="reply.stopping")
    assert office.store.task("t_1").state is TaskState.STOPPED
    with pytest.raises(WrongState):
        office.choose()
    assert office.events() == ["stop_requested", "withdrawn", "task_ended"]
    with pytest.raises(WrongState):
        office.handler.stop(Stopped(actor=LIN, task_id="t_1"))


@pytest.mark.parametrize("state", list(TaskState))
def test_retry_is_for_what_failed_or_got_stuck(office: Office, state: TaskState) -> None:
    """Anything else still runs or is over; a retry in the middle would start a second worker."""
    failure = {"code": "model_unreachable", "message": "Away."}
    office.store.create(a_task(state=state, failure=failure), messages=[], notes=[])
    office.jobs.clear()
    allowed = state in (TaskState.FAILED, TaskState.STUCK)
    with contextlib.nullcontext() if allowed else pytest.raises(WrongState):
        office.handler.retry(Retried(actor=LIN, task_id="t_1"))
    task = office.store.task("t_1")
    assert (task.state, task.attempt) == ((TaskState.QUEUED, 2) if allowed else (state, 1))
    assert office.jobs == ([("t_1", 1)] if allowed else [])
    assert office.events() == ([str(Event.RETRIED)] if allowed else [])


# --- approvals that outlive one call -----------------------------------------------------------


def test_what_is_given_can_be_seen_and_taken_back(office: Office) -> None:
    """With the decision in one write, on record with what it covers and until when; once."""
    office.opened(OFFER)
    office.choose(by=LIN, scope="until")
    (grant,) = office.handler.grants()
    assert grant == Grant(
        id="g12",
        task_id="t_1",
        digest=OFFER.digest,
        inquiry_id="i_1",
        number=12,
        by=LIN,
        at=at(60),
        rule="Bash(kubectl rollout:*)",
        stopped_by=OFFER.rule,
        workspace="ops",
        until=at(3660),
    )
    assert office.store.grants_in("ops") == office.store.snapshot("t_1").grants == (grant,)
    office.time = at(90)
    revoked = office.handler.revoke(Revoked(actor=LIN_CHAT, grant_id="g12"))
    assert revoked == grant.having(revoked_by=LIN_CHAT, revoked_at=at(90))
    assert office.handler.grants() == office.store.grants_in("ops") == ()
    assert office.store.snapshot("t_1").grants == (revoked,)
    covered = {
        "grant": "g12",
        "number": 12,
        "rule": "Bash(kubectl rollout:*)",
        "workspace": "ops",
        "until": "2026-03-02T15:01:00Z",
    }
    told = [(e.event, e.actor, e.details) for e in office.store.audit_of("t_1")[1:]]
    assert told == [(Event.GRANT_GIVEN, LIN, covered), (Event.GRANT_REVOKED, LIN_CHAT, covered)]
    assert office.events() == ["decided", "grant_given", "grant_revoked"]
    with pytest.raises(NotFound):
        office.handler.revoke(Revoked(actor=LIN, grant_id="g12"))


@pytest.mark.parametrize(
    ("scope", "last"),
    [("task", 12 * 3600), ("rule", 12 * 3600 - 1), ("until", 3599)],
)
def test_a_grant_is_listed_as_long_as_it_can_hold(office: Office, scope: str, last: int) -> None:
    """In a task as long as an approval is valid, in a workspace until its time."""
    office.opened(OFFER)
    office.choose(scope=scope)
    office.time = at(60 + last)
    assert [grant.id for grant in office.handler.grants()] == ["g12"]
    office.time = at(60 + last + 1)
    assert office.handler.grants() == ()


@pytest.mark.parametrize(
    ("by", "allowed"), [(LIN, True), (LIN_CHAT, True), (KAI, True), (MEI, False), (EVE, False)]
)
def test_who_may_revoke(office: Office, by: Actor, allowed: bool) -> None:
    """Whoever gave it, on whatever platform, and whoever could have decided."""
    office.opened(OFFER.having(asked_by=MEI, **ONCALL))
    office.choose(by=LIN, scope="rule")
    if allowed:
        assert office.handler.revoke(Revoked(actor=by, grant_id="g12")).revoked_by == by
        return
    with pytest.raises(NotAllowed, match=f"{by.name} may not revoke grant g12"):
        office.handler.revoke(Revoked(actor=by, grant_id="g12"))
    assert [grant.id for grant in office.handler.grants()] == ["g12"]


@pytest.mark.parametrize("grant_id", ["", "g13", "12", "g12 "])
def test_an_unknown_grant_is_not_found(office: Office, grant_id: str) -> None:
    """Only by its whole id."""
    office.opened(OFFER)
    office.choose(scope="rule")
    with pytest.raises(NotFound):
        office.handler.revoke(Revoked(actor=MEI, grant_id=grant_id))


def test_people_who_revoke_at_once_revoke_once(redis_url: str) -> None:
    """One wins; the other is told so, and the record has one revocation."""
    office = Office(connect(redis_url, patient=False))
    office.opened(OFFER)
    office.choose(scope="until")

    def revoke(by: Actor) -> bool:
        with contextlib.suppress(NotFound, WrongState):
            office.handler.revoke(Revoked(actor=by, grant_id="g12"))
            return True
        return False

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(revoke, (MEI, LIN, KAI, EVE)))
    assert (won.count(True), office.events().count("grant_revoked")) == (1, 1)
