"""Who counts on Slack: members, guests, strangers, groups, and one person with several accounts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from agent_runner.config import load
from agent_runner.errors import FixConfiguration, NotAllowed
from agent_runner.model import Actor, InquiryState, Place, Verdict
from agent_runner.people import Person
from bot.commands import Ask, Chose
from tests.bot.slack.conftest import Scene, text_of
from tests.fakes.slack_events import Delivery
from tests.fakes.values import a_plan, an_inquiry

Make = Callable[..., Scene]

ONCALL = {"approvers": ("group:oncall",), "requester_may_decide": False}
NOBODY = "You can't decide this one."

STRANGERS: list[tuple[str, dict[str, Any]]] = [
    ("guest", {"is_restricted": True}),
    ("single-channel guest", {"is_ultra_restricted": True}),
    ("deactivated", {"deleted": True}),
    ("Connect stranger", {"is_stranger": True, "team_id": "T0OTHER"}),
    ("of another team", {"team_id": "T0OTHER"}),
    ("bot", {"is_bot": True}),
]


def press(s: Scene, user: str, card: Any, verb: str = "approve") -> Delivery:
    """A click, and everything that follows from it."""
    click = s.slack.click(user, card, verb)
    s.quiet()
    return click


# --- who is no member --------------------------------------------------------------------


def test_whoever_is_no_member_decides_nothing(scene: Make) -> None:
    """Not by a click, not in words, not where anyone may, and not as the one who asked."""
    s = scene()
    users: list[str] = []
    for name, flags in STRANGERS:
        users.append(s.slack.add_user(name, f"U9{len(users)}", **flags))
        s.slack.channels[s.ops].members.add(users[-1])
    card, _ = s.pending(an_inquiry(approvers=("anyone", "requester", "group:oncall")))
    for user in users:
        press(s, user, card)
        assert s.told(user)[-1].startswith(NOBODY)
        s.slack.say(user, s.ops, "1", thread_ts=card.thread_ts)
        assert s.told(user, 2)[-1].startswith(NOBODY)
    assert s.inquiry().open
    refused = [e for e in s.office.store.audit_of(s.office.task().id) if e.event == "refused_attempt"]
    assert len(refused) == 2 * len(STRANGERS)


def test_whoever_is_listed_decides_all_the_same(scene: Make) -> None:
    """A guest, a stranger: somebody who runs the bot wrote their account down."""
    people = {"gus": Person(accounts=("slack:U05",)), "pat": Person(accounts=("slack:T0OTHER:U77",))}
    s = scene(people=people)
    s.slack.add_user("pat", "U77", is_stranger=True, team_id="T0OTHER")
    s.slack.channels[s.ops].members.add("U77")
    for user, approvers in [(s.gus, ("gus",)), ("U77", ("pat",)), ("U77", ("slack:T0OTHER:U77",))]:
        card, _ = s.pending(an_inquiry(approvers=approvers))
        press(s, user, card)
        assert s.inquiry().state is InquiryState.APPROVED


def test_whoever_is_no_member_steers_nothing(scene: Make) -> None:
    """Their talk in the thread is talk; what they ask the bot for is told to be none of theirs."""
    s = scene()
    card, task = s.pending()
    before = s.office.steering(task.id)
    stop = next(p for p in s.posts(str(card.thread_ts)) if "stop" in p.buttons)
    s.slack.say(s.gus, s.ops, "take the other cluster", thread_ts=card.thread_ts)
    s.quiet()
    assert s.whispers(s.gus) == []
    for number, (text, mention) in enumerate(
        [("take the other cluster", True), ("stop", False), ("retry", False)], start=1
    ):
        s.slack.say(s.gus, s.ops, text, thread_ts=card.thread_ts, mention=mention)
        assert s.told(s.gus, number)[-1].startswith("Guests of this chat cannot")
    press(s, s.gus, stop, "stop")
    assert s.told(s.gus, 4)[-1].startswith("Guests of this chat cannot")
    assert s.office.steering(task.id) == before
    assert len(s.office.store.messages(task.id)) == 1
    s.slack.say(s.mei, s.ops, "take the other cluster", thread_ts=card.thread_ts)
    s.until(lambda: len(s.office.store.messages(task.id)) == 2)


def test_another_team_in_the_payload_is_believed(scene: Make) -> None:
    """The id alone is no identity: the same user id from elsewhere is somebody else."""
    s = scene()
    card, _ = s.pending(an_inquiry(approvers=("anyone",)))
    click = s.slack.click(s.eve, card, "change")
    forged = {**click.wait().payload, "user": {"id": s.eve, "name": "eve", "team_id": "T0OTHER"}}
    action = {**forged["actions"][0], "action_id": "approve"}
    action["value"] = action["value"].replace("change", "approve")
    s.slack.redeliver(Delivery("interactive", {**forged, "actions": [action]}))
    assert s.told(s.eve)[-1].startswith(NOBODY)
    assert s.inquiry().open
    press(s, s.eve, card)
    assert s.inquiry().state is InquiryState.APPROVED


def test_an_organisation_is_one_tenant(scene: Make) -> None:
    """In an Enterprise Grid, accounts are of the organisation."""
    s = scene(fake={"enterprise_id": "E0ORG"}, people={"eve": Person(accounts=("slack:E0ORG:U04",))})
    s.slack.change_user(s.eve, enterprise_id="E0ORG")
    card, _ = s.pending(an_inquiry(approvers=("eve",)))
    press(s, s.eve, card)
    assert s.decided().by.account == "slack:E0ORG:U04"


# --- when Slack cannot be asked ----------------------------------------------------------


@pytest.mark.parametrize("error", ["internal_error", "ratelimited", "user_not_found", "missing_scope"])
def test_whoever_cannot_be_looked_up_is_a_guest(scene: Make, error: str) -> None:
    """Fails closed, and heals by itself when Slack can be asked again."""
    s = scene()
    card, _ = s.pending(an_inquiry(approvers=("anyone",)))
    s.slack.fail("users.info", error)
    press(s, s.eve, card)
    assert s.told(s.eve)[-1].startswith(NOBODY)
    assert s.inquiry().open
    s.office.offset += timedelta(seconds=11)
    press(s, s.eve, card)
    assert s.inquiry().state is InquiryState.APPROVED


def test_a_listed_approver_decides_even_then(scene: Make) -> None:
    """Whoever is written down needs no word of Slack's about them."""
    s = scene()
    card, _ = s.pending(an_inquiry(**ONCALL))
    s.slack.fail("users.info", "internal_error", 5)
    press(s, s.lin, card)
    assert s.inquiry().state is InquiryState.APPROVED


def test_a_deactivated_account_ends_within_minutes(scene: Make) -> None:
    """What Slack said of a person is believed for five minutes."""
    s = scene()
    card, _ = s.pending(an_inquiry(approvers=("anyone",)), a_plan(approvers=("anyone",)))
    second = s.card(str(card.thread_ts), "request:2")
    press(s, s.eve, card)
    assert s.inquiry(1).state is InquiryState.APPROVED
    s.slack.change_user(s.eve, deleted=True)
    s.office.offset += timedelta(minutes=6)
    press(s, s.eve, second)
    assert s.told(s.eve)[-1].startswith(NOBODY)
    assert s.inquiry(2).open


# --- one person --------------------------------------------------------------------------


def test_case_b09_people_are_counted_not_accounts(scene: Make) -> None:
    """One person with two accounts, and the same click twice, are one of two approvals."""
    people = {
        "lin": Person(accounts=("slack:U01", "slack:U04"), groups=("oncall",), display="Lin"),
        "kai": Person(accounts=("slack:U02",), groups=("oncall",), display="Kai"),
    }
    s = scene(people=people)
    card, _ = s.pending(an_inquiry(quorum=2, **ONCALL))
    press(s, s.lin, card)
    assert s.told(s.lin)[-1] == "Recorded for request #1. 1 of 2 approvals so far."
    s.until(lambda: "1 of 2 approvals so far" in text_of(s.seen(card)))
    press(s, s.lin, s.seen(card))
    press(s, s.eve, s.seen(card))
    s.slack.say(s.eve, s.ops, "1", thread_ts=card.thread_ts)
    s.told(s.eve, 2)
    assert s.inquiry().open
    press(s, s.kai, s.seen(card))
    assert s.inquiry().state is InquiryState.APPROVED
    assert sorted({vote.by.key for vote in s.inquiry().votes}) == ["person:kai", "person:lin"]


def test_case_b05_whoever_asked_elsewhere_does_not_decide_here(scene: Make) -> None:
    """Lin asks on the web page and may not approve on Slack, by click, words or form; Kai may."""
    s = scene()
    web = Actor(platform="web", user_id="lin", name="Lin")
    place = s.slack.say(s.mei, s.ops, "look at this").ts
    there = Place(platform="slack", chat=s.ops, thread=place)
    task = s.office.handler.ask(Ask(actor=web, text="restart", place=there))
    s.office.asks(task.id, an_inquiry(**ONCALL))
    card = s.card(place, "request:1")
    assert "Lin asked for it and may not decide it" in text_of(card)
    press(s, s.lin, card)
    s.slack.say(s.lin, s.ops, "1", thread_ts=place)
    assert [told[: len(NOBODY)] for told in s.told(s.lin, 2)] == [NOBODY, NOBODY]
    s.slack.click(s.lin, card, "change")
    assert NOBODY in str(s.form(s.lin, "notice").view)
    assert s.inquiry().open
    press(s, s.kai, card)
    assert s.inquiry().state is InquiryState.APPROVED


def test_case_b05_and_the_other_way_round(scene: Make) -> None:
    """Lin asks on Slack and may not approve on the web page."""
    s = scene()
    _, task = s.pending(an_inquiry(**ONCALL), by=s.lin)
    web = Actor(platform="web", user_id="lin", name="Lin")
    with pytest.raises(NotAllowed):
        s.office.handler.choose(Chose(actor=web, inquiry_id="i_1", verdict=Verdict.APPROVE))
    assert s.office.store.task(task.id).asked_by.person == "lin"


# --- nobody ------------------------------------------------------------------------------


def test_case_b03_no_approvers_means_nobody(scene: Make) -> None:
    """A request without approvers is for nobody to decide: not for members, not for the one who asked."""
    s = scene()
    card, _ = s.pending(an_inquiry(approvers=()))
    assert card.pings == frozenset()
    for user in (s.mei, s.lin):
        press(s, user, card)
        assert s.told(user) == ["You may not do this."]
    assert s.inquiry().open


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("approvers = []", "approvers"),
        ('approvers = ["group:nobody"]', "nobody"),
        ('approvers = ["group:platform"]\nquorum = 51', "quorum"),
    ],
)
def test_case_b03_b04_such_a_configuration_is_refused(route: str, said: str) -> None:
    """An empty list, a group that is none, more approvals than a group can have people: at start-up."""
    text = f'[slack.groups]\nplatform = "S01"\n\n[[policy.route]]\nmatch = ["Bash"]\n{route}\n'
    with pytest.raises(FixConfiguration) as refused:
        load(None, text=text)
    assert said in str(refused.value.message) + str(refused.value.details)


def test_case_b04_a_press_without_a_person(scene: Make) -> None:
    """No id, or the bot's own: acknowledged, and nothing is decided."""
    s = scene()
    card, _ = s.pending(an_inquiry(approvers=("anyone",)))
    payload = s.slack.click(s.eve, card, "change").wait().payload
    action = {**payload["actions"][0], "action_id": "approve"}
    action["value"] = action["value"].replace("change", "approve")
    for user in ({}, {"id": ""}, {"id": " "}, {"id": s.slack.bot_user_id}, {"name": "lin"}):
        forged = s.slack.redeliver(Delivery("interactive", {**payload, "actions": [action], "user": user}))
        assert forged.acked
    s.quiet()
    assert s.inquiry().open


# --- groups that Slack keeps -------------------------------------------------------------


def test_a_user_group_approves(scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members may decide and are mentioned; somebody who left it may not any more."""
    monkeypatch.setattr("bot.kept_groups.EVERY", 0.05)
    s = grouped(scene)
    card, _ = s.pending(an_inquiry(**ONCALL), a_plan(**ONCALL))
    second = s.card(str(card.thread_ts), "request:2")
    assert card.pings == {s.eve, s.kai}
    press(s, s.lin, card)
    assert s.told(s.lin)[-1].startswith(NOBODY)
    press(s, s.eve, card)
    assert s.inquiry(1).state is InquiryState.APPROVED
    s.slack.groups["S01"]["users"] = [s.kai]
    s.until(lambda: s.office.registers.groups(["slack"]) == {"oncall": ["slack:T0TEAM:U02"]})
    press(s, s.eve, second)
    assert s.told(s.eve)[-1].startswith(NOBODY)
    press(s, s.kai, second)
    assert s.inquiry(2).state is InquiryState.APPROVED


def test_a_group_that_cannot_be_read_for_long_is_believed_no_longer(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is forgotten after a while: then nobody of it may decide, until it can be read again."""
    monkeypatch.setattr("bot.kept_groups.EVERY", 0.05)
    s = grouped(scene)
    card, _ = s.pending(an_inquiry(**ONCALL))
    left = s.office.registers.client.ttl("cs:groups:slack:oncall")
    assert 0 < left <= 900
    people = s.slack.groups.pop("S01")  # no_such_subteam
    failed = len(s.slack.called("usergroups.users.list"))
    s.until(lambda: len(s.slack.called("usergroups.users.list")) > failed + 1)
    s.office.registers.client.delete("cs:groups:slack:oncall")  # what 15 minutes do
    press(s, s.eve, card)
    assert s.told(s.eve) == ["You may not do this."]
    assert s.inquiry().open
    s.slack.groups["S01"] = people
    s.until(lambda: s.office.registers.groups(["slack"]))
    press(s, s.eve, card)
    assert s.inquiry().state is InquiryState.APPROVED


def test_a_guest_in_a_group_does_not_decide(scene: Make) -> None:
    """Nobody wrote them down; a group that others fill in Slack is not enough for a guest."""
    s = grouped(scene)
    s.slack.change_user(s.eve, is_restricted=True)
    card, _ = s.pending(an_inquiry(**ONCALL))
    press(s, s.eve, card)
    assert s.told(s.eve)[-1].startswith(NOBODY)
    assert s.inquiry().open


def grouped(scene: Make) -> Scene:
    """A scene in which `oncall` is a user group of Slack's: Eve and Kai."""
    s = scene(
        people={},
        chat={"groups": {"oncall": "S01"}},
        before=lambda slack: slack.add_group("oncall", ["U04", "U02"], "S01"),
    )
    s.until(lambda: s.office.registers.groups(["slack"]))
    return s
