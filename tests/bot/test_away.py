"""Being away, as people say it and as it changes who decides."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from redis import Redis

from agent_runner.absences import Absence
from agent_runner.config import Config
from agent_runner.errors import FixInput, NotAllowed
from agent_runner.model import Actor, InquiryState
from agent_runner.people import Person
from bot import telling
from bot.handle import Handler, SaidAlready
from bot.reply import Reply
from cards import wording
from tests.bot.test_handle import CONFIG, EVE, KAI, LIN, LIN_CHAT, MEI, MEI_CHAT, PEOPLE, Office
from tests.fakes.values import NOW, an_inquiry, at

LISTED = Config(
    workspaces=CONFIG.workspaces,
    policy=CONFIG.policy,
    people={**PEOPLE, "bo": Person(accounts=("web:bo",), groups=("leads",), display="Bo Li")},
)
BO = Actor(platform="web", user_id="bo", name="Bo", person="bo")
ON_CALL: dict[str, Any] = {"approvers": ("group:oncall",), "requester_may_decide": False}


@pytest.fixture
def office(fake_redis: Redis) -> Office:
    """An office whose people are eight hours ahead of UTC: it is 22:01 there."""
    made = Office(fake_redis, LISTED)
    made.handler = Handler(
        made.store,
        LISTED,
        clock=made._now,
        new_id=lambda prefix: f"{prefix}_new",
        zone=timezone(timedelta(hours=8)),
    )
    return made


def hear(office: Office, text: str, by: Actor = LIN) -> Reply | None:
    """What is answered to words outside of any thread."""
    return office.handler.away.hear(by, text)


def now(office: Office) -> list[tuple[str, str, datetime]]:
    """Who is away."""
    return [(one.who, one.to, one.until) for one in office.handler.away.now()]


SET = "away.set"
UNTIL = datetime(2026, 3, 5, 18, 0, tzinfo=timezone(timedelta(hours=8)))


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("away until 5 Mar 18:00 -> mei", LIN),
        ("lin away until 2026-03-05 18:00 -> Mei", LIN_CHAT),
        ("离开到 3月5日 18:00 -> mei", LIN),
        ("不在 3/5 18:00まで -> mei", LIN_CHAT),
        ("away until 5 Mar 18:00 -> @U9", LIN_CHAT),
    ],
)
def test_somebody_hands_over(office: Office, text: str, by: Actor) -> None:
    """In three languages, by name or account, in their own zone; the answer says what holds now."""
    told = Reply(key=SET, details={"who": "Lin", "to": "mei", "until": "2026-03-05 18:00"})
    assert hear(office, text, by) == told
    assert now(office) == [("lin", "mei", UNTIL)]
    assert told.text("zh") == "Lin 离开到 2026-03-05 18:00，在此之前由 mei 代为审批。"


@pytest.mark.parametrize(
    ("text", "by", "reply"),
    [
        ("away", LIN, Reply(key="away.usage")),
        ("away until tomorrow", LIN, Reply(key="away.usage")),
        ("away until tomorrow -> mei", EVE, Reply(key="away.not_listed")),
        ("back", EVE, Reply(key="away.not_listed")),
        ("kai away until tomorrow -> mei", LIN, Reply(key="away.only_self", details={"who": "kai"})),
        ("away until tomorrow -> eve", LIN, Reply(key="away.nobody", details={"who": "eve"})),
        ("away until tomorrow -> lin", LIN, Reply(key="away.self")),
        ("away until soon -> mei", LIN, Reply(key="away.when", details={"when": "soon"})),
        (
            "away until 2026-03-01 -> mei",
            LIN,
            Reply(key="away.past", details={"until": "2026-03-01 23:59"}),
        ),
        ("away until 2028-01-01 -> mei", LIN, Reply(key="away.too_long")),
        ("away for 9999 weeks -> mei", LIN, Reply(key="away.too_long")),
        ("back", LIN, Reply(key="away.not_away", details={"who": "Lin"})),
        ("restart the pods", LIN, None),
    ],
)
def test_what_cannot_be_is_told(office: Office, text: str, by: Actor, reply: Reply | None) -> None:
    """Each mistake says what is wrong and how it is written; nothing is entered, in any language."""
    assert hear(office, text, by) == reply
    assert now(office) == []
    assert reply is None or all(reply.text(lang) for lang in wording.LANGUAGES)


def test_a_circle_is_refused_when_it_would_close(office: Office) -> None:
    """Lin to Mei, Mei to Kai; Kai cannot hand over to Lin, but to Bo."""
    hear(office, "away until tomorrow -> mei", LIN)
    hear(office, "away until tomorrow -> kai", MEI)
    refused = hear(office, "away until tomorrow -> lin", KAI)
    assert refused == Reply(key="away.circle", details={"to": "Lin", "who": "Kai"})
    done = hear(office, "away until tomorrow -> Bo Li", KAI)
    assert done is not None
    assert done.key == SET
    office.opened(an_inquiry(**ON_CALL))
    decided = office.choose(by=BO)
    assert (decided.decision and decided.decision.acting_for) == "kai"


def test_back_ends_it(office: Office) -> None:
    """By oneself, or by the time: then nobody stands in any more."""
    hear(office, "away until tomorrow -> mei")
    assert hear(office, "戻りました") == Reply(key="away.back", details={"who": "Lin"})
    assert now(office) == []
    hear(office, "away for 1h -> mei")
    office.time += timedelta(hours=1)
    assert now(office) == []
    assert hear(office, "back") == Reply(key="away.not_away", details={"who": "Lin"})


def test_in_a_thread_it_is_heard_before_answers(office: Office) -> None:
    """It neither answers what is open nor reaches the agent; `back` from somebody here is only a word."""
    office.opened(an_inquiry(approvers=("anyone",)))
    assert office.say("back", by=LIN).key == "reply.kept"
    assert office.say("away until tomorrow -> mei", by=LIN).key == SET
    assert office.say("back", by=LIN).key == "away.back"
    assert office.undecided()
    assert office.events() == ["follow_up"]


def test_the_substitute_decides_in_their_place(office: Office) -> None:
    """While Lin is away Mei may; it is recorded for whom, and on record."""
    office.opened(an_inquiry(approvers=("lin",), asked_by=KAI, requester_may_decide=False))
    with pytest.raises(NotAllowed):
        office.choose(by=BO)
    hear(office, "away until tomorrow -> bo")
    decided = office.choose(by=BO)
    assert decided.decision is not None
    assert (decided.state, decided.decision.by, decided.decision.acting_for) == (
        InquiryState.APPROVED,
        BO,
        "lin",
    )
    entry = office.store.audit_of("t_1")[-1]
    assert (str(entry.event), entry.details["acting_for"]) == ("decided", "lin")


def test_a_hand_over_gets_nobody_around_the_requester_rule(office: Office) -> None:
    """Mei asked: she cannot decide for Lin; and whoever stands in for Mei cannot decide for her."""
    office.opened(an_inquiry(approvers=("lin", "mei"), asked_by=MEI, requester_may_decide=False))
    hear(office, "away until tomorrow -> mei", LIN)
    hear_bo = hear(office, "away until tomorrow -> bo", MEI_CHAT)
    assert hear_bo is not None
    assert hear_bo.key == SET
    with pytest.raises(NotAllowed):
        office.choose(by=MEI_CHAT)
    assert office.choose(by=BO).decision is not None  # at the end of the chain, for Lin
    assert office.store.inquiry("i_1").votes[-1].acting_for == "lin"


def test_a_place_is_one_vote_of_a_quorum(office: Office) -> None:
    """Lin has voted: Bo's vote in her place is refused with words, his own people's still count."""
    office.opened(an_inquiry(quorum=2, **ON_CALL))
    office.choose(by=LIN)
    hear(office, "away until tomorrow -> bo", LIN)
    with pytest.raises(SaidAlready) as caught:
        office.choose(by=BO)
    assert (caught.value.details["who"], len(office.store.inquiry("i_1").votes)) == ("Lin", 1)
    assert telling.told(caught.value, "zh").startswith("Lin 已在这个位置投票")
    assert office.choose(by=KAI).state is InquiryState.APPROVED


def test_who_stands_in_approves_this_call_only(office: Office) -> None:
    """A rule outlives the hand-over, so it is for those whose right it is."""
    offer = {"offer": "Bash(kubectl rollout:*)", "offer_for": timedelta(hours=1)}
    office.opened(an_inquiry(approvers=("lin",), **offer))
    hear(office, "away until tomorrow -> bo", LIN)
    with pytest.raises(FixInput, match="this call only"):
        office.choose(by=BO, scope="rule")
    assert office.undecided()


def test_open_cards_are_drawn_again(office: Office) -> None:
    """When somebody leaves, comes back, or their time is over: others are named there now."""
    office.opened(an_inquiry(**ON_CALL))
    seen = []
    registers = office.store.client
    for step in ("away for 1h -> bo", "back", "away for 1h -> bo", "later", "clear", "clear"):
        registers.delete(office.store.keys.dirty)
        if step == "later":
            office.time = at(2 * 3600)
        elif step == "clear":
            office.handler.away.clear()
        else:
            hear(office, step)
        seen.append(bool(registers.exists(office.store.keys.dirty)))
    assert seen == [True, True, True, False, True, False]
    assert office.handler.register.absences() == ()


def test_who_left_the_list_stands_in_for_nobody(office: Office) -> None:
    """What is stored counts only for people who are listed today."""
    office.opened(an_inquiry(approvers=("lin",)))
    for to in ("gone", "lin"):
        office.handler.register.keep_absence(Absence(who="lin", to=to, until=NOW + timedelta(days=1)))
        assert office.handler.approver_names(office.store.inquiry("i_1")) == ("Lin",)
