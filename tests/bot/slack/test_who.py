"""On Slack: who is reminded, who joins, who stands in for whom, and who may break the glass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from agent_runner.model import Inquiry
from agent_runner.people import Person
from agent_runner.policy import Policy
from tests.bot.slack.conftest import ROUTE, Scene, text_of
from tests.fakes.slack_events import Message
from tests.fakes.values import an_inquiry

Make = Callable[..., Scene]
PEOPLE = {
    "lin": Person(accounts=("slack:U01",), groups=("oncall",), display="Lin"),
    "kai": Person(accounts=("slack:U02",), groups=("oncall",), display="Kai"),
    "eve": Person(accounts=("slack:U04",), display="Eve"),
}


def opened(scene: Make, **rules: Any) -> Scene:
    """A scene in which Eve is listed, too."""
    return scene(people=PEOPLE, policy=Policy(routes=(ROUTE,), **rules))


def waits(s: Scene, **changes: Any) -> Inquiry:
    """A request for two of those on call, with a reminder and an escalation that come in a while."""
    now = s.office.now()
    return an_inquiry(
        **{
            "approvers": ("group:oncall",),
            "quorum": 2,
            "requester_may_decide": False,
            "remind_at": now + timedelta(minutes=5),
            "escalate_at": now + timedelta(minutes=9),
            "escalate_to": ("eve",),
            **changes,
        }
    )


def passes(s: Scene, minutes: int) -> None:
    """So much time goes by, and the clock ticks twice."""
    s.office.offset += timedelta(minutes=minutes)
    for _ in range(2):
        s.office.clock.tick()


def called(s: Scene, card: Message, key: str) -> Message:
    """The message of that key in a request's thread."""
    return s.card(str(card.thread_ts), key)


def mentioned(message: Message) -> list[str]:
    """Whom a message notifies."""
    blocks = json.dumps(message.blocks)
    return [one or two for one, two in re.findall(r'"user_id": "(\w+)"|<@(\w+)>', blocks)]


def test_who_has_not_voted_is_reminded_once(scene: Make) -> None:
    """Lin has voted: the reminder mentions Kai alone. Later Eve joins, and only she is mentioned."""
    s = opened(scene)
    card, _ = s.pending(waits(s))
    s.slack.click(s.lin, card, "approve")
    s.until(lambda: len(s.inquiry().votes) == 1)
    passes(s, 6)
    reminder = called(s, card, f"reminder:{s.number}")
    assert f"Request #{s.number} still waits for" in text_of(reminder)
    assert (mentioned(reminder), reminder.buttons) == ([s.kai], {})
    passes(s, 4)
    joined = called(s, card, f"escalated:{s.number}")
    assert (mentioned(joined), joined.buttons) == ([s.eve], {})
    s.until(lambda: mentioned(s.seen(card)) == [s.lin, s.kai, s.eve])
    s.slack.click(s.eve, card, "approve")
    s.until(lambda: not s.inquiry().open)
    s.looked()
    keys = [p.metadata["event_payload"]["key"] for p in s.posts(str(card.thread_ts)) if p.metadata]
    assert [keys.count(f"{kind}:{s.number}") for kind in ("reminder", "escalated")] == [1, 1]
    assert f"Request #{s.number} still waits for" in text_of(s.seen(reminder))


def test_what_is_decided_is_not_reminded_of(scene: Make) -> None:
    """The moment passes without a word."""
    s = opened(scene)
    card, _ = s.pending(waits(s, quorum=1))
    s.slack.click(s.lin, card, "approve")
    s.until(lambda: not s.inquiry().open)
    passes(s, 30)
    s.looked()
    assert [p for p in s.posts(str(card.thread_ts)) if "still waits" in text_of(p)] == []


def test_somebody_hands_over_by_command_and_is_back_by_words(scene: Make) -> None:
    """Kai leaves with a slash command; Eve is mentioned and decides in his place; he says he is back."""
    s = opened(scene)
    s.slack.command(s.kai, s.ops, f"away for 3h -> <@{s.eve}>")
    (told,) = s.told(s.kai)
    assert "Until then Eve decides in their place." in told
    card, _ = s.pending(waits(s, quorum=1))
    assert mentioned(card) == [s.lin, s.eve]
    assert "(for Kai)" in text_of(card)
    s.slack.click(s.eve, card, "approve")
    assert s.decided().acting_for == "kai"
    s.until(lambda: "for kai" in text_of(s.seen(card)))
    s.slack.say(s.kai, s.ops, "I'm back", thread_ts=card.thread_ts)
    s.until(lambda: s.office.handler.away.now() == ())
    assert "Kai is back and decides again." in s.told(s.kai)[-1]


def test_words_about_being_away_start_no_job(scene: Make) -> None:
    """Mentioned in the channel, the bot answers; who is not listed is told so."""
    s = opened(scene)
    s.slack.say(s.lin, s.ops, "away until tomorrow", mention=True)
    s.slack.say(s.mei, s.ops, "away until tomorrow -&gt; kai", mention=True)
    assert "who decides in your place" in s.told(s.lin)[0]
    assert s.told(s.mei)[0].startswith("Only people listed under [people]")
    assert s.tasks() == ()


def test_breaking_the_glass_is_asked_back_and_told_to_all(scene: Make) -> None:
    """Typed in the thread: a code, then done; those of the route are mentioned with the reason."""
    s = opened(scene, break_glass=("eve",))
    card, _ = s.pending(waits(s))
    s.slack.say(s.eve, s.ops, "break glass checkout is down", thread_ts=card.thread_ts)
    (told,) = s.told(s.eve)
    assert told.startswith(f"You would approve request #{s.number} alone")
    s.slack.say(s.eve, s.ops, f"break glass {told[-4:]}", thread_ts=card.thread_ts)
    assert (s.decided().break_glass, s.decided().reason) == (True, "checkout is down")
    said = called(s, card, f"breakglass:{s.number}")
    assert (mentioned(said), "checkout is down" in text_of(said)) == ([s.lin, s.kai], True)
    s.until(lambda: "Approved alone by" in text_of(s.seen(card)))


def test_case_c01_nobody_breaks_the_glass_for_what_cannot_be_read(scene: Make) -> None:
    """Behind a link that leads nowhere for them there is no code; nothing is decided."""
    s = scene(
        people=PEOPLE,
        policy=Policy(routes=(ROUTE,), break_glass=("eve",)),
        page="http://127.0.0.1:8321",
    )
    thread = s.asked()
    s.slack.fail("chat.postMessage", "invalid_blocks", 3)
    s.office.asks(s.office.task().id, waits(s))
    s.card(thread, "request:1")
    s.until(lambda: s.office.registers.receipts(s.office.task().id)["request:1"].shown)
    s.slack.say(s.eve, s.ops, "break glass checkout is down", thread_ts=thread)
    (told,) = s.told(s.eve)
    assert told.startswith("Not all of request #1 is here yet")
    assert s.inquiry(1).open
