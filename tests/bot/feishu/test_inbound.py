"""Payloads, one by one: what a person said or pressed, and what is nobody's word."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.model import Actor, Place
from bot.feishu import inbound
from bot.feishu.inbound import Click, Message
from cards.feishu_forms import Pressed
from cards.model import Verb

BOT = "ou_bot"
LIN = Actor(platform="feishu", tenant="T1", user_id="ou_lin", name="小林")
HEADER = {"event_id": "e1", "event_type": "im.message.receive_v1", "tenant_key": "T1", "app_id": "cli_1"}
SAID: dict[str, Any] = {
    "message_id": "om_2",
    "chat_id": "oc_1",
    "chat_type": "group",
    "message_type": "text",
    "create_time": "1700000000500",
    "content": '{"text":"1"}',
}
SENDER: dict[str, Any] = {
    "sender_id": {"open_id": "ou_lin", "union_id": "on_lin", "user_id": "u1"},
    "sender_type": "user",
    "tenant_key": "T1",
}
READ = Message(
    open_id="ou_lin",
    tenant="T1",
    home="T1",
    chat="oc_1",
    message_id="om_2",
    root="om_2",
    parent="",
    text="1",
    at=datetime.fromtimestamp(1_700_000_000.5, UTC),
    direct=False,
    mentions=(),
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)


def an_event(sender: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A message event of Lin's, with some fields changed or (None) left out."""
    message = {name: value for name, value in {**SAID, **changes}.items() if value is not None}
    return {
        "schema": "2.0",
        "header": HEADER,
        "event": {"sender": {**SENDER, **(sender or {})}, "message": message},
    }


def named(number: int, open_id: str, name: str) -> dict[str, Any]:
    """An entry of `mentions`."""
    return {"key": f"@_user_{number}", "id": {"open_id": open_id}, "name": name, "tenant_key": "T1"}


def text(words: str) -> str:
    """The content of a text message."""
    return json.dumps({"text": words}, ensure_ascii=False)


def post(*lines: list[Any], **more: Any) -> str:
    """The content of a rich text message."""
    return json.dumps({"title": "", "content": lines, **more}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, {}),
        ({"root_id": "om_0", "parent_id": "om_1"}, {"root": "om_0", "parent": "om_1"}),
        ({"root_id": "om_0", "parent_id": "om_0", "thread_id": "omt_1"}, {"root": "om_0", "parent": "om_0"}),
        ({"thread_id": "omt_1"}, {}),
        ({"chat_type": "p2p"}, {"direct": True}),
        ({"chat_type": "topic_group"}, {}),
        ({"message_type": None, "msg_type": "text"}, {}),
        ({"sender": {"tenant_key": "T9"}}, {"tenant": "T9"}),
        ({"sender": {"tenant_key": None}}, {"tenant": ""}),
        ({"sender": {"sender_type": None}}, {}),
        ({"create_time": "soon"}, {"at": datetime.fromtimestamp(0, UTC)}),
    ],
)
def test_what_people_write_is_read(changes: dict[str, Any], differs: dict[str, Any]) -> None:
    """A message of a person, wherever it stands, with the tenant its writer is of."""
    assert inbound.message_of(an_event(**changes), bot=BOT) == READ._replace(**differs)


@pytest.mark.parametrize(
    "changes",
    [
        {"sender": {"sender_type": "app"}},
        {"sender": {"sender_type": "anonymous"}},
        {"sender": {"sender_type": 1}},
        {"sender": {"sender_id": None}},
        {"sender": {"sender_id": {"union_id": "on_lin"}}},
        {"sender": {"sender_id": "ou_lin"}},
        {"sender": {"sender_id": {"open_id": ""}}},
        {"message_id": None},
        {"message_id": ""},
        {"chat_id": None},
    ],
)
def test_what_is_nobodys_word(changes: dict[str, Any]) -> None:
    """Bots, whoever cannot be named, and what has no place are not people talking."""
    assert inbound.message_of(an_event(**changes), bot=BOT) is None


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("sticker", '{"file_key":"k"}'),
        ("image", '{"image_key":"k"}'),
        ("file", '{"file_key":"k","file_name":"1"}'),
        ("audio", '{"file_key":"k","duration":1}'),
        ("media", '{"file_key":"k"}'),
        ("share_chat", '{"chat_id":"oc_2"}'),
        ("interactive", '{"title":"1","elements":[]}'),
        ("system", '{"template":"1"}'),
        ("location", '{"name":"1"}'),
        ("text", '{"text":""}'),
        ("text", '{"text":" \\n "}'),
        ("text", "{}"),
        ("text", "1"),
        ("text", "[]"),
        ("text", "{"),
        ("text", "[" * 100_000),
        ("text", '{"text":null}'),
        ("text", None),
        ("post", post([{"tag": "img", "image_key": "k"}], [{"tag": "hr"}, {"tag": "media"}])),
        ("post", post([{"tag": "emotion", "emoji_type": "THUMBSUP"}])),
        ("post", '{"content":[1,"1",{"tag":"text","text":"1"}]}'),
        ("post", '{"content":1}'),
        ("post", '{"content":{"text":"1"}}'),
        ("unheard_of", '{"text":"1"}'),
    ],
)
def test_case_d09_what_holds_no_words(kind: str, content: str | None) -> None:
    """Pictures, stickers, files and what cannot be read are messages without words: no answer to anything."""
    message = inbound.message_of(an_event(message_type=kind, content=content), bot=BOT)
    assert message is not None
    assert message.text == ""


@pytest.mark.parametrize("kind", ["im.message.message_read_v1", "im.message.reaction.created_v1", "", None])
def test_case_d09_other_events_are_no_messages(kind: str | None) -> None:
    """Read receipts and reactions are of another kind, and only messages are read as such."""
    assert inbound.kind_of({"header": {"event_type": kind}}) != inbound.MESSAGE


TEN = [named(n, f"ou_{n}", f"P{n}") for n in range(1, 10)] + [named(10, BOT, "Countersign")]


@pytest.mark.parametrize(
    ("words", "mentions", "typed"),
    [
        ("@_user_1 1", [named(1, BOT, "Countersign")], "1"),
        ("@_user_1 1 3", [named(1, BOT, "Countersign")], "1 3"),
        ("1 @_user_1", [named(1, BOT, "Countersign")], "1"),
        ("@_user_11", [named(1, BOT, "Countersign")], "1"),
        ("@_user_1 问 @_user_2", [named(1, BOT, "Countersign"), named(2, "ou_kai", "阿凯")], "问 @阿凯"),
        ("@_user_1 @_user_10 @_user_2", TEN, "@P1  @P2"),
        ("@_user_10 1", TEN, "1"),
        ("@_user_1", [{"key": "@_user_1", "id": {"open_id": "ou_kai"}}], "@_user_1"),
        ("@_user_1 1", [{"key": "@_user_1", "id": BOT, "name": "Countersign"}], "1"),
        ("@_all 看一下", [{"key": "@_all", "id": {}, "name": "所有人"}], "@所有人 看一下"),
        ("@_user_1 1", [], "@_user_1 1"),
        ("@_user_1 1", ["@_user_1", None, 7], "@_user_1 1"),
        ("a < b && c > d", [], "a < b && c > d"),
        ("两行\n文字", [], "两行\n文字"),
    ],
)
def test_case_d10_mentions_in_words(words: str, mentions: list[Any], typed: str) -> None:
    """The bot's own placeholder is left out, another person's is their name, longer ones first."""
    message = inbound.message_of(an_event(content=text(words), mentions=mentions), bot=BOT)
    assert message is not None
    assert message.text == typed


@pytest.mark.parametrize(
    ("content", "typed"),
    [
        (post([{"tag": "text", "text": "1", "style": ["bold"]}]), "1"),
        (
            post([{"tag": "text", "text": "2 只在"}, {"tag": "a", "text": "测试环境", "href": "http://x"}]),
            "2 只在测试环境",
        ),
        (post([{"tag": "text", "text": "一"}], [{"tag": "text", "text": "二"}]), "一\n二"),
        (post([{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": "1"}]), "1"),
        (post([{"tag": "at", "user_id": "@_user_2"}, {"tag": "text", "text": "看看"}]), "@阿凯 看看"),
        (post([{"tag": "code_block", "language": "SH", "text": "ls -l"}]), "ls -l"),
        (post([{"tag": "md", "text": "**1**"}]), "**1**"),
        (post([{"tag": "img", "image_key": "k"}], [{"tag": "text", "text": "看图"}]), "看图"),
        (post([{"tag": "text", "text": "1"}, None, 3, {"tag": ["x"]}]), "1"),
        (post([{"tag": "text", "text": "正文"}], title="标题"), "标题\n正文"),
    ],
)
def test_rich_text_is_read_line_by_line(content: str, typed: str) -> None:
    """What was typed with formatting counts like plain words; pictures in it do not."""
    mentions = [named(1, BOT, "Countersign"), named(2, "ou_kai", "阿凯")]
    event = an_event(message_type="post", content=content, mentions=mentions)
    message = inbound.message_of(event, bot=BOT)
    assert message is not None
    assert message.text == typed


@pytest.mark.parametrize(
    ("differs", "addressed", "loose", "to_others"),
    [
        ({}, False, False, False),
        ({"direct": True}, True, True, False),
        ({"direct": True, "root": "om_0"}, True, False, False),
        ({"mentions": (BOT,)}, True, False, False),
        ({"mentions": ("ou_kai",)}, False, False, True),
        ({"mentions": ("ou_kai", BOT)}, True, False, False),
        ({"mentions": ("@_all",)}, False, False, True),
    ],
)
def test_who_is_meant(differs: dict[str, Any], addressed: bool, loose: bool, to_others: bool) -> None:
    """A mention or a chat with it alone means the bot; a mention of somebody else means them."""
    message = READ._replace(**differs)
    heard = inbound.heard(message, LIN, bot=BOT)
    assert (heard.addressed, heard.loose, heard.to_others) == (addressed, loose, to_others)
    assert heard.place == Place(platform="feishu", chat="oc_1", thread=message.root)
    assert (heard.text, heard.message_id, heard.at, heard.quoted) == ("1", "om_2", READ.at, "")


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("1700000000000", 1_700_000_000),
        (1_700_000_000_000, 1_700_000_000),
        ("1700000000000000000", 0),
        ("9" * 400, 0),
        ("x", 0),
        ("", 0),
        ("inf", 0),
        (None, 0),
        ([], 0),
        ({}, 0),
        (float("inf"), 0),
        (float("nan"), 0),
    ],
)
def test_when_it_was_written(told: Any, seconds: int) -> None:
    """A time that cannot be read is as old as can be: asked about, not executed."""
    assert inbound.moment(told) == datetime.fromtimestamp(seconds, UTC)


VALUE = {"verb": "approve", "inquiry": "i_1", "revision": 3}
ACTION = {"tag": "button", "name": "approve", "value": VALUE, "form_value": {"words": "x"}}
CONTEXT = {"open_message_id": "om_9", "open_chat_id": "oc_1"}
PRESS: dict[str, Any] = {
    "operator": {"tenant_key": "T1", "open_id": "ou_lin", "union_id": "on_lin"},
    "token": "c-1",
    "action": ACTION,
    "host": "im_message",
    "context": CONTEXT,
}
CLICK = Click(
    open_id="ou_lin",
    tenant="T1",
    home="T1",
    pressed=Pressed(Verb.APPROVE, "i_1", "", "", 3),
    form={"words": "x"},
    chat="oc_1",
    message_id="om_9",
)


def a_press(beside: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A card callback of Lin's; `beside` stands next to `event`."""
    header = {**HEADER, "event_type": "card.action.trigger"}
    return {"schema": "2.0", "header": header, "event": {**PRESS, **changes}, **(beside or {})}


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, {}),
        ({"context": None, "host": None, "beside": {"context": CONTEXT, "host": "im_message"}}, {}),
        ({"context": None}, {"chat": "", "message_id": ""}),
        ({"operator": {"open_id": "ou_lin"}}, {"tenant": ""}),
        ({"operator": {"open_id": "ou_lin", "tenant_key": "T9"}}, {"tenant": "T9"}),
        ({"action": {"tag": "button", "value": VALUE}}, {"form": {}}),
        ({"action": {**ACTION, "form_value": None}}, {"form": {}}),
        ({"action": {**ACTION, "form_value": "words"}}, {"form": {}}),
        (
            {"action": {**ACTION, "value": None}},
            {"pressed": Pressed(Verb.APPROVE)},
        ),
    ],
)
def test_a_press_says_who_where_and_what(changes: dict[str, Any], differs: dict[str, Any]) -> None:
    """The button's own value says what is decided; host and context may stand one level up."""
    body = a_press(**changes)
    assert inbound.kind_of(body) == inbound.CLICK
    assert inbound.click_of(body) == CLICK._replace(**differs)


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": None},
        {"operator": {}},
        {"operator": {"open_id": ""}},
        {"operator": "ou_lin"},
        {"operator": {"union_id": "on_lin", "user_id": "u1"}},
        {"action": None},
        {"action": []},
        {"action": {**ACTION, "value": "approve"}},
        {"action": {**ACTION, "value": {**VALUE, "revision": "3"}}},
        {"action": {**ACTION, "value": {**VALUE, "verb": "explode"}}},
        {"action": {**ACTION, "value": {**VALUE, "task": "t_1"}}},
        {"action": {**ACTION, "value": {**VALUE, "actor": "ou_kai"}}},
        {"action": {**ACTION, "name": "reject"}},
        {"action": {"tag": "button", "value": {"of": "another app"}}},
    ],
)
def test_case_b04_a_press_that_is_none_of_ours(changes: dict[str, Any]) -> None:
    """Without a person, or with a value that no card of ours carries, nothing was pressed."""
    assert inbound.click_of(a_press(**changes)) is None


NAMES = [*SAID, "root_id", "parent_id", "mentions", "x"]


@given(
    message=st.dictionaries(st.sampled_from(NAMES), JSON),
    sender=st.dictionaries(st.sampled_from([*SENDER]), JSON),
)
def test_a_malformed_message_never_raises(message: dict[str, Any], sender: dict[str, Any]) -> None:
    """Fields of other types than Feishu's are read as words, or the message as none."""
    read = inbound.message_of(an_event(sender, **message), bot=BOT)
    if read is not None:
        assert inbound.heard(read, LIN, bot=BOT).at.tzinfo is UTC


@given(content=JSON, kind=st.sampled_from(["text", "post"]), mentions=JSON)
def test_malformed_content_never_raises(content: Any, kind: str, mentions: Any) -> None:
    """Whatever JSON stands where words should."""
    event = an_event(message_type=kind, content=json.dumps(content), mentions=mentions)
    read = inbound.message_of(event, bot=BOT)
    assert read is not None
    assert read.text == read.text.strip()


@given(lines=JSON)
def test_malformed_rich_text_never_raises(lines: Any) -> None:
    """Whatever JSON stands where paragraphs should."""
    event = an_event(message_type="post", content=json.dumps({"content": lines}))
    assert inbound.message_of(event, bot=BOT) is not None


@given(body=st.dictionaries(st.sampled_from(["schema", "header", "event", "context", "x"]), JSON, max_size=5))
def test_nothing_malformed_raises(body: dict[str, Any]) -> None:
    """Whatever JSON comes in the place of a payload: read as nothing, or as something harmless."""
    assert inbound.kind_of(body) not in (inbound.MESSAGE, inbound.CLICK)
    assert inbound.message_of(body, bot=BOT) is None
    assert inbound.click_of(body) is None


@given(
    event=st.dictionaries(st.sampled_from([*PRESS]), JSON),
    action=st.dictionaries(st.sampled_from([*ACTION]), JSON),
)
def test_a_malformed_press_never_raises(event: dict[str, Any], action: dict[str, Any]) -> None:
    """Fields of other types than Feishu's make it no press of ours."""
    inbound.click_of({"header": HEADER, "event": event})
    assert inbound.click_of(a_press(**{"action": action, **event})) is None or "action" not in event


@given(st.text().filter(lambda words: "@_user_" not in words))
def test_typed_words_survive_feishus_writing(words: str) -> None:
    """What a person types comes back whole."""
    message = inbound.message_of(an_event(content=json.dumps({"text": words})), bot=BOT)
    assert message is not None
    assert message.text == words.strip()
