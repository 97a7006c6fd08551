"""Payloads, one by one: what a person said or pressed, and what is nobody's word."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.model import Actor, Place
from bot.slack import inbound
from bot.slack.inbound import Message
from cards.model import Verb
from cards.slack_forms import Pressed

BOT = {"bot_user": "U0BOT", "bot_id": "B0BOT"}
LIN = Actor(platform="slack", tenant="T1", user_id="U01", name="lin")
SAID = {"type": "message", "user": "U01", "channel": "C1", "ts": "10.5", "text": "1", "team": "T1"}
READ = Message(user="U01", team="T1", channel="C1", ts="10.5", thread="10.5", text="1", direct=False)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)


def an_event(**changes: Any) -> dict[str, Any]:
    """A message event of Lin's, with some fields changed or (None) left out."""
    event = {name: value for name, value in {**SAID, **changes}.items() if value is not None}
    return {"type": "event_callback", "team_id": "T1", "event": event}


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, {}),
        ({"type": "app_mention", "text": "<@U0BOT> go"}, {"text": "<@U0BOT> go"}),
        ({"thread_ts": "9.1"}, {"thread": "9.1"}),
        ({"thread_ts": "9.1", "subtype": "thread_broadcast"}, {"thread": "9.1"}),
        ({"subtype": "file_share", "text": "see this", "files": [{"id": "F1"}]}, {"text": "see this"}),
        ({"subtype": "file_share", "text": "", "files": [{"id": "F1"}]}, {"text": ""}),
        ({"channel": "D1"}, {"channel": "D1", "direct": True}),
        ({"channel_type": "im"}, {"direct": True}),
        ({"channel_type": "mpim"}, {}),
        ({"team": None}, {}),
        ({"team": None, "user_team": "T9"}, {"team": "T9"}),
        ({"user_team": "T9", "source_team": "T8"}, {"team": "T9"}),
        ({"source_team": "T8"}, {"team": "T8"}),
        ({"text": None}, {"text": ""}),
    ],
)
def test_what_people_write_is_read(changes: dict[str, Any], differs: dict[str, Any]) -> None:
    """A new message of a person, wherever it stands, with the team its writer is from."""
    assert inbound.message_of(an_event(**changes), **BOT) == READ._replace(**differs)


@pytest.mark.parametrize(
    "changes",
    [
        {"subtype": "message_changed", "hidden": True, "message": SAID, "previous_message": SAID},
        {"subtype": "message_deleted", "hidden": True, "deleted_ts": "9.1", "previous_message": SAID},
        {"subtype": "bot_message", "bot_id": "B2", "user": None},
        {"bot_id": "B2"},
        {"bot_id": "B0BOT", "user": "U0BOT", "app_id": "A0APP"},
        {"user": "U0BOT"},
        {"user": "B0BOT"},
        {"app_id": "A9"},
        {"hidden": True},
        {"edited": {"user": "U01", "ts": "11.0"}},
        {"subtype": "channel_join"},
        {"subtype": "channel_leave"},
        {"subtype": "channel_topic"},
        {"subtype": "reminder_add"},
        {"subtype": "assistant_app_thread"},
        {"subtype": "message_replied"},
        {"subtype": "something_new"},
        {"type": "reaction_added"},
        {"user": None},
        {"channel": None},
        {"ts": None},
        {"user": ""},
    ],
)
def test_what_is_nobodys_word(changes: dict[str, Any]) -> None:
    """Edits, deletions, bots, joins, hidden messages and whatever Slack invents next."""
    assert inbound.message_of(an_event(**changes), **BOT) is None


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("1", "1"),
        ("<@U0BOT> 1", "1"),
        ("<@U0BOT|countersign>: 1", "1"),
        ("<@U0BOT>, <@U0BOT>：go", "go"),
        ("<@U02>: look", "@U02: look"),
        ("1 <@U0BOT>", "1"),
        ("ask <@U02|kai> and <@U03>", "ask @kai and @U03"),
        ("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("&amp;amp;", "&amp;"),
        ("see <https://a.example/x>", "see https://a.example/x"),
        ("see <https://a.example/x|a.example/x>", "see a.example/x"),
        ("<https://evil.example|Approve>", "https://evil.example"),
        ("<mailto:lin@a.example|lin@a.example>", "lin@a.example"),
        ("<tel:+491234|+491234>", "+491234"),
        ("in <#C1|general> and <#C2>", "in #general and #C2"),
        ("<!here> <!channel> <!everyone>", "@here @channel @everyone"),
        ("<!subteam^S1|@oncall>", "@oncall"),
        ("2 only `a|b` <b", "2 only `a|b` <b"),
        ("two\nlines", "two\nlines"),
        ("", ""),
    ],
)
def test_words_are_read_as_they_were_typed(text: str, typed: str) -> None:
    """Slack's tokens and entities are undone once; a link's own address is what counts."""
    assert inbound.said(text, bot_user="U0BOT") == typed


@pytest.mark.parametrize(
    ("text", "direct", "addressed", "to_others"),
    [
        ("go", False, False, False),
        ("go", True, True, False),
        ("<@U0BOT> go", False, True, False),
        ("<@U0BOT|countersign> go", False, True, False),
        ("<@U02> what do you think?", False, False, True),
        ("<@U02|kai> what do you think?", False, False, True),
        ("<@U0BOT> ask <@U02>", False, True, False),
        ("&lt;@U0BOT&gt; go", False, False, False),
        ("<!here> go", False, False, False),
    ],
)
def test_who_is_meant(text: str, direct: bool, addressed: bool, to_others: bool) -> None:
    """A mention or a chat with it alone means the bot; a mention of somebody else means them."""
    heard = inbound.heard(READ._replace(text=text, direct=direct), LIN, bot_user="U0BOT")
    assert (heard.addressed, heard.to_others) == (addressed, to_others)
    assert (heard.place, heard.message_id) == (Place(platform="slack", chat="C1", thread="10.5"), "10.5")


@pytest.mark.parametrize(
    ("ts", "seconds"), [("1700000000.000100", 1700000000), ("x", 0), ("", 0), ("inf", 0), ("nan", 0)]
)
def test_when_it_was_written(ts: str, seconds: int) -> None:
    """A time that cannot be read is as old as can be: asked about, not executed."""
    assert inbound.moment(ts).replace(microsecond=0) == datetime.fromtimestamp(seconds, UTC)


VALUE = json.dumps({"v": "approve", "i": "i_1", "r": 3})
ACTION = {"type": "button", "action_id": "approve", "value": VALUE, "block_id": "b"}
PRESS: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "U01", "name": "lin", "team_id": "T1"},
    "team": {"id": "T0"},
    "trigger_id": "t",
    "container": {"type": "message", "message_ts": "10.5", "channel_id": "C1", "thread_ts": "9.1"},
    "channel": {"id": "C1"},
    "message": {"ts": "10.5", "thread_ts": "9.1"},
    "state": {"values": {"b": {}}},
    "actions": [ACTION],
}


@pytest.mark.parametrize(
    ("changes", "user", "team", "place", "on_home"),
    [
        ({}, "U01", "T1", ("C1", "9.1"), False),
        ({"user": {"id": "U01"}}, "U01", "T0", ("C1", "9.1"), False),
        ({"message": None}, "U01", "T1", ("C1", "9.1"), False),
        ({"container": None}, "U01", "T1", ("C1", "9.1"), False),
        ({"container": None, "message": {"ts": "10.5"}}, "U01", "T1", ("C1", "10.5"), False),
        ({"container": {"type": "view"}, "message": None, "channel": None}, "U01", "T1", ("", ""), True),
    ],
)
def test_a_press_says_who_where_and_what(
    changes: dict[str, Any], user: str, team: str, place: tuple[str, str], on_home: bool
) -> None:
    """The button's own value says what is decided; container or message say where it stands."""
    click = inbound.click_of({**PRESS, **changes})
    assert click is not None
    assert click.pressed == Pressed(Verb.APPROVE, "i_1", "", "", 3)
    assert (click.user, click.team, (click.place.chat, click.place.thread)) == (user, team, place)
    assert click.on_home is on_home


@pytest.mark.parametrize(
    "changes",
    [
        {"user": None},
        {"user": {}},
        {"user": {"id": ""}},
        {"user": "U01"},
        {"actions": []},
        {"actions": None},
        {"actions": {"0": ACTION}},
        {"actions": ["approve"]},
        {"actions": [{**ACTION, "value": None}]},
        {"actions": [{**ACTION, "value": "approve"}]},
        {"actions": [{**ACTION, "value": json.dumps({"v": "approve", "i": "i_1", "r": "3"})}]},
        {"actions": [{**ACTION, "value": json.dumps({"v": "approve", "i": "i_1", "t": "t_1", "r": 3})}]},
        {"actions": [{**ACTION, "value": json.dumps({"v": "explode", "i": "i_1", "r": 3})}]},
        {"actions": [{**ACTION, "action_id": "reject"}]},
        {"actions": [{**ACTION, "action_id": "of_another_app"}]},
    ],
)
def test_a_press_that_is_none_of_ours(changes: dict[str, Any]) -> None:
    """Without a person, or with a value that no card of ours carries, nothing was pressed."""
    assert inbound.click_of({**PRESS, **changes}) is None


@given(body=st.dictionaries(st.sampled_from([*PRESS, "event", "view", "x"]), JSON, max_size=8))
def test_nothing_malformed_raises(body: dict[str, Any]) -> None:
    """Whatever JSON comes in the place of a payload: read as nothing, or as something harmless."""
    inbound.message_of(body, **BOT)
    inbound.click_of(body)
    inbound.person_of(body)


@given(event=st.dictionaries(st.sampled_from([*SAID, "subtype", "thread_ts", "user_team", "x"]), JSON))
def test_a_malformed_event_never_raises(event: dict[str, Any]) -> None:
    """Fields of other types than Slack's are read as words, or the message as none."""
    message = inbound.message_of({"event": {"type": "message", **event}}, **BOT)
    if message is not None:
        assert inbound.heard(message, LIN, bot_user="U0BOT").at.tzinfo is UTC


@given(st.text())
def test_typed_words_survive_slacks_writing(words: str) -> None:
    """What a person types comes back whole after Slack has escaped it."""
    sent = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert inbound.said(sent, bot_user="U0BOT") == words.strip()


@pytest.mark.parametrize(
    ("text", "word"),
    [("", "help"), ("help", "help"), ("status", "status"), ("状态", "status"), ("restart checkout", "")],
)
def test_words_of_the_slash_command(text: str, word: str) -> None:
    """A word about how things stand, help for nothing at all, and everything else is a job."""
    assert inbound.command_word(text) == word
