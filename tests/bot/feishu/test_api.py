from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import httpx
import pytest

from agent_runner.errors import CountersignError, FixConfiguration, FixInput, NotFound, TryLater
from bot.delivery import CardRefused, MessageGone, PlaceGone, SlowDown
from bot.feishu import dial
from bot.feishu.api import FeishuApi, Sent
from bot.feishu.errors import OUTCOMES, REMEDIES, NoThreads, TokenSpent, outcome
from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_model import UpdateToken

T = TypeVar("T")

CARD = {
    "schema": "2.0",
    "config": {"update_multi": True, "enable_forward": False},
    "body": {"elements": [{"tag": "div", "text": {"tag": "plain_text", "content": "部署 prod"}}]},
}
OTHER = {
    **CARD,
    "body": {"elements": [{"tag": "div", "text": {"tag": "plain_text", "content": "done"}}]},
}


@pytest.fixture
def feishu() -> Iterator[FakeFeishu]:
    """A strict Feishu on loopback."""
    with FakeFeishu() as running:
        yield running


def ask(feishu: FakeFeishu, *calls: Callable[[FeishuApi], Awaitable[T]], **options: Any) -> list[T]:
    """What the calls of one client answer, one after another."""

    async def all_of_them() -> list[T]:
        async with FeishuApi(feishu.app_id, feishu.app_secret, feishu.domain, **options) as api:
            return [await call(api) for call in calls]

    return asyncio.run(all_of_them())


def routes(feishu: FakeFeishu) -> list[str]:
    """What was called, without the common part of the paths."""
    return [call.route.replace("/open-apis", "") for call in feishu.calls]


TOKEN = "POST /auth/v3/tenant_access_token/internal"

# --- the calls -----------------------------------------------------------------------------------


def test_send_reply_patch_and_read(feishu: FakeFeishu) -> None:
    """A card is put into a chat, answered in its thread, changed, and read; one token serves all calls."""
    team = feishu.add_chat("group", [feishu.add_user("Lin")])

    async def story(api: FeishuApi) -> tuple[Sent, Sent, dict[str, Any]]:
        first = await api.send(team.chat_id, "interactive", CARD, uuid="q1:card")
        reply = await api.reply(first.message_id, "text", {"text": "去"}, uuid="q1:note", in_thread=True)
        await api.patch(first.message_id, OTHER)
        return first, reply, await api.message(reply.message_id)

    [(first, reply, read)] = ask(feishu, story)
    card, note = feishu.messages(team)
    assert first == Sent(card.message_id, "", team.chat_id)
    assert reply == Sent(note.message_id, note.thread_id, team.chat_id)
    assert (card.content, note.content, note.parent_id) == (OTHER, {"text": "去"}, card.message_id)
    assert json.loads(read["body"]["content"]) == {"text": "去"}
    assert read["thread_id"] == note.thread_id != ""
    assert routes(feishu) == [
        TOKEN,
        "POST /im/v1/messages",
        f"POST /im/v1/messages/{card.message_id}/reply",
        f"PATCH /im/v1/messages/{card.message_id}",
        f"GET /im/v1/messages/{note.message_id}",
    ]


def test_the_same_uuid_is_one_message(feishu: FakeFeishu) -> None:
    """A message whose answer was lost is not there twice when it is sent again."""
    team = feishu.add_chat("group", [feishu.add_user("Lin")])
    feishu.fail("POST /open-apis/im/v1/messages", 5000, http=500, after=True)

    async def send(api: FeishuApi) -> Sent:
        return await api.send(team.chat_id, "text", {"text": "hi"}, uuid="one")

    with pytest.raises(TryLater):
        ask(feishu, send)
    assert ask(feishu, send) == [Sent(feishu.messages(team)[0].message_id, "", team.chat_id)]
    assert len(feishu.messages(team)) == 1


@pytest.mark.parametrize("uuid", ["", "x" * 51])
def test_a_message_needs_a_usable_uuid(feishu: FakeFeishu, uuid: str) -> None:
    """Without one, a lost answer would mean two messages; this is our mistake, not Feishu's."""
    with pytest.raises(ValueError, match="1 to 50"):
        ask(feishu, lambda api: api.send("oc_1", "text", {"text": "hi"}, uuid=uuid))
    assert feishu.calls == []


def test_half_a_character_is_refused_like_any_card(feishu: FakeFeishu) -> None:
    """What cannot be written as UTF-8 never leaves, and the message is tried in a simpler form."""
    with pytest.raises(CardRefused):
        ask(feishu, lambda api: api.send("oc_1", "text", {"text": "\ud800"}, uuid="u"))
    assert feishu.calls == []


@pytest.mark.parametrize("code", [230071, 230072])
def test_where_there_are_no_threads_the_reply_stands_in_the_chat(feishu: FakeFeishu, code: int) -> None:
    """A chat without threads gets a plain reply, under the same uuid."""
    team = feishu.add_chat("group", [lin := feishu.add_user("Lin")])
    asked = feishu.say(lin, team, "deploy")
    feishu.fail("/reply", code)
    [sent] = ask(
        feishu, lambda api: api.reply(asked.message_id, "text", {"text": "hi"}, uuid="u", in_thread=True)
    )
    assert sent == Sent(feishu.messages(team)[0].message_id, "", team.chat_id)
    assert [call.body["reply_in_thread"] for call in feishu.calls if "/reply" in call.route] == [True, False]


def test_a_file_is_kept_and_sent(feishu: FakeFeishu) -> None:
    """The whole input goes along as a file, byte for byte, under its own name."""
    team = feishu.add_chat("group", [feishu.add_user("Lin")])

    async def story(api: FeishuApi) -> str:
        key = await api.upload("输入 1.txt", "rm -rf /\u202e".encode())
        await api.send(team.chat_id, "file", {"file_key": key}, uuid="f")
        return key

    [key] = ask(feishu, story)
    kept = feishu.files[key]
    assert (kept.name, kept.file_type, kept.data) == ("输入 1.txt", "stream", "rm -rf /\u202e".encode())
    assert feishu.messages(team)[0].content == {"file_key": key}


def test_an_empty_file_is_refused(feishu: FakeFeishu) -> None:
    """Feishu keeps no empty files, and says so."""
    with pytest.raises(FixInput, match="234010"):
        ask(feishu, lambda api: api.upload("a.txt", b""))


def test_a_clicked_card_is_changed_by_its_token(feishu: FakeFeishu) -> None:
    """The token of a click changes the card twice, then it is spent."""
    team = feishu.add_chat("group", [feishu.add_user("Lin")])
    [sent] = ask(feishu, lambda api: api.send(team.chat_id, "interactive", CARD, uuid="u"))
    message = feishu.messages(team)[0]
    feishu.world.update_tokens["c-1"] = UpdateToken(message, feishu.now())

    async def change(api: FeishuApi) -> None:
        await api.update_by_token("c-1", OTHER)

    ask(feishu, change, change)
    assert (sent.message_id, message.content) == (message.message_id, OTHER)
    with pytest.raises(TokenSpent):
        ask(feishu, change)
    with pytest.raises(TokenSpent):
        ask(feishu, lambda api: api.update_by_token("c-unknown", OTHER))


def test_a_recalled_message_is_gone(feishu: FakeFeishu) -> None:
    """Reading, changing and answering a recalled message say the same."""
    team = feishu.add_chat("group", [feishu.add_user("Lin")])
    [sent] = ask(feishu, lambda api: api.send(team.chat_id, "interactive", CARD, uuid="u"))
    feishu.recall(feishu.messages(team)[0])
    calls: list[Callable[[FeishuApi], Awaitable[Any]]] = [
        lambda api: api.message(sent.message_id),
        lambda api: api.patch(sent.message_id, OTHER),
        lambda api: api.reply(sent.message_id, "text", {"text": "hi"}, uuid="u2", in_thread=True),
        lambda api: api.message("om_never_sent"),
    ]
    for call in calls:
        with pytest.raises(MessageGone):
            ask(feishu, call)


def test_people_places_and_the_bot(feishu: FakeFeishu) -> None:
    """Who somebody is, what a chat is, and who the bot itself is."""
    lin = feishu.add_user("Lin")
    topics = feishu.add_chat("topic", [lin], name="ops")

    async def story(api: FeishuApi) -> list[dict[str, Any]]:
        return [await api.user(lin.open_id), await api.chat(topics.chat_id), await api.bot_info()]

    [[user, chat, bot]] = ask(feishu, story)
    assert (user["name"], user["open_id"]) == ("Lin", lin.open_id)
    assert (chat["name"], chat["chat_mode"], chat["external"]) == ("ops", "topic", False)
    assert (bot["open_id"], bot["activate_status"]) == (feishu.bot_open_id, 2)


@pytest.mark.parametrize("known", [False, True])
def test_a_person_who_cannot_be_seen_is_not_found(feishu: FakeFeishu, known: bool) -> None:
    """Unknown, or outside the app's range: nobody we may believe anything about."""
    open_id = feishu.add_user("Eve", in_scope=False).open_id if known else "ou_unknown"
    with pytest.raises(NotFound):
        ask(feishu, lambda api: api.user(open_id))


def test_a_department_is_read_page_by_page(feishu: FakeFeishu) -> None:
    """All who work there, over several pages; who left or is locked out is nobody's approver."""
    people = [feishu.add_user(f"P{n}", departments=["od-1"]) for n in range(120)]
    feishu.add_user("Gone", departments=["od-1"], resigned=True)
    feishu.add_user("Locked", departments=["od-1"], frozen=True)
    feishu.add_user("Elsewhere", departments=["od-2"])
    [members, nobody] = ask(
        feishu, lambda api: api.department_members("od-1"), lambda api: api.department_members("od-3")
    )
    assert members == tuple(person.open_id for person in people)
    assert nobody == ()
    pages = [call.query for call in feishu.calls if "find_by_department" in call.route]
    assert [page.get("page_token", "") for page in pages] == ["", "50", "100", ""]
    assert {page["department_id_type"] for page in pages} == {"open_department_id"}


def test_an_id_cannot_leave_its_place_in_the_path(feishu: FakeFeishu) -> None:
    """Ids come out of payloads: whatever is in them, they stay one part of the path."""
    with pytest.raises(MessageGone):
        ask(feishu, lambda api: api.message("../chats/oc_1?x="))
    assert routes(feishu)[1] == "GET /im/v1/messages/../chats/oc_1?x="


# --- the token -----------------------------------------------------------------------------------


def test_calls_at_once_share_one_token(feishu: FakeFeishu) -> None:
    """Twenty calls of a client that has just started fetch one token."""
    lin = feishu.add_user("Lin")

    async def many(api: FeishuApi) -> None:
        await asyncio.gather(*(api.user(lin.open_id) for _ in range(20)))

    ask(feishu, many)
    assert routes(feishu).count(TOKEN) == 1


def test_a_token_is_renewed_before_it_ends(feishu: FakeFeishu) -> None:
    """Of its two hours the last five minutes are not used."""
    lin = feishu.add_user("Lin")
    now = 1_000.0

    async def story(api: FeishuApi) -> list[int]:
        nonlocal now
        counts = []
        for _ in range(3):
            await api.user(lin.open_id)
            counts.append(routes(feishu).count(TOKEN))
            now += 6_890
        return counts

    assert ask(feishu, story, clock=lambda: now) == [[1, 1, 2]]


def test_a_refused_token_is_replaced_once(feishu: FakeFeishu) -> None:
    """A token that ends early (a new secret) costs one more request, not a failure."""
    lin = feishu.add_user("Lin")

    async def story(api: FeishuApi) -> str:
        await api.user(lin.open_id)
        await asyncio.to_thread(feishu.expire_tokens)
        name: str = (await api.user(lin.open_id))["name"]
        return name

    assert ask(feishu, story) == ["Lin"]
    who = f"GET /contact/v3/users/{lin.open_id}"
    assert routes(feishu) == [TOKEN, who, who, TOKEN, who]


@pytest.mark.parametrize("code", [99991661, 99991663])
def test_tokens_that_are_all_refused_are_told(feishu: FakeFeishu, code: int) -> None:
    """It is tried twice, then whoever runs the bot is told what to look at."""
    feishu.fail("GET /open-apis/bot/v3/info", code, times=None)
    with pytest.raises(FixConfiguration) as refused:
        ask(feishu, lambda api: api.bot_info())
    assert "FEISHU_APP_SECRET" in refused.value.hint
    assert routes(feishu).count("GET /bot/v3/info") == 2


def test_a_wrong_secret_is_told(feishu: FakeFeishu) -> None:
    """The remedy names the variables; the secret itself is in no word of it."""

    async def info() -> None:
        async with FeishuApi(feishu.app_id, "wrong-secret", feishu.domain) as api:
            await api.bot_info()

    with pytest.raises(FixConfiguration) as refused:
        asyncio.run(info())
    assert "wrong-secret" not in f"{refused.value.message} {refused.value.hint}"


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["tenant_access_token", "bot/v3/info"])
def test_a_hanging_feishu_is_given_up(feishu: FakeFeishu, part: str) -> None:
    """The deadline covers the token and the call together."""
    feishu.hang(part, 5.0)
    with pytest.raises(TryLater, match="did not answer"):
        ask(feishu, lambda api: api.bot_info(), timeout=0.2)


def test_nobody_there_is_to_be_tried_later() -> None:
    """A refused connection is no different from a late answer."""

    async def info() -> None:
        async with FeishuApi("cli_1", "s", "http://127.0.0.1:9") as api:
            await api.bot_info()

    with pytest.raises(TryLater):
        asyncio.run(info())


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (502, b"<html>bad gateway", TryLater),
        (500, b"", TryLater),
        (200, b"not json", TryLater),
        (200, b"[]", TryLater),
        (200, b'{"msg": "no code"}', TryLater),
        (404, b"", TryLater),
        (429, b"", SlowDown),
        (200, b'{"code": 0, "tenant_access_token": ""}', TryLater),
    ],
)
def test_an_answer_that_is_none(status: int, body: bytes, kind: type[Exception]) -> None:
    """A gateway's page instead of the API's JSON is understood by its status."""

    async def info() -> None:
        answers = httpx.MockTransport(lambda _: httpx.Response(status, content=body))
        async with FeishuApi("cli_1", "s", "http://feishu.test", transport=answers) as api:
            await api.bot_info()

    with pytest.raises(kind):
        asyncio.run(info())


def test_a_limit_says_for_how_long(feishu: FakeFeishu) -> None:
    """The header's seconds are what is waited."""
    feishu.fail("bot/v3/info", 99991400, headers={"x-ogw-ratelimit-reset": "7"})
    with pytest.raises(SlowDown) as slow:
        ask(feishu, lambda api: api.bot_info())
    assert slow.value.seconds == 7.0


def test_the_sixth_message_of_a_second_waits(feishu: FakeFeishu) -> None:
    """Five a second are for a chat's bots together; the next is asked to wait a moment."""
    team = feishu.add_chat("group", [feishu.add_user("Lin")])

    async def six(api: FeishuApi) -> None:
        for n in range(6):
            await api.send(team.chat_id, "text", {"text": "hi"}, uuid=f"u{n}")

    with pytest.raises(SlowDown) as slow:
        ask(feishu, six)
    assert (slow.value.seconds, len(feishu.messages(team))) == (0.3, 5)


def test_neither_token_nor_secret_is_logged(feishu: FakeFeishu, caplog: pytest.LogCaptureFixture) -> None:
    """Not even at DEBUG."""
    caplog.set_level(logging.DEBUG)
    ask(feishu, lambda api: api.bot_info())
    with pytest.raises(PlaceGone):
        ask(feishu, lambda api: api.send("oc_none", "text", {"text": "words of a person"}, uuid="u"))
    assert "bot/v3/info" in caplog.text
    for secret in (feishu.app_secret, *feishu.api._tokens, "words of a person"):
        assert secret not in caplog.text


# --- the table -----------------------------------------------------------------------------------

WORDS = "Failed to create card content, ext=ErrCode: {}; ErrMsg: {}"
RESET = {"X-Ogw-Ratelimit-Reset": "12"}


@pytest.mark.parametrize(
    ("code", "words", "status", "headers", "expected"),
    [
        (230099, WORDS.format(200621, "parse card json err"), 400, {}, CardRefused),
        (230099, WORDS.format(200861, "unsupported tag"), 400, {}, CardRefused),
        (230099, WORDS.format(11310, "element exceeds the limit"), 400, {}, CardRefused),
        (230099, WORDS.format(11310, "card action is lock"), 400, {}, SlowDown(1.0)),
        (11311, "card action is lock", 400, {}, SlowDown(1.0)),
        (11311, "bad card", 400, {}, CardRefused),
        (200621, "", 400, {}, CardRefused),
        (200861, "", 400, {}, CardRefused),
        (230001, "invalid message content", 400, {}, CardRefused),
        (230001, "invalid message_id", 400, {}, MessageGone),
        (230025, "", 400, {}, CardRefused),
        (230028, "", 400, {}, CardRefused),
        (230054, "", 400, {}, CardRefused),
        (230011, "", 400, {}, MessageGone),
        (230031, "", 400, {}, MessageGone),
        (230110, "", 400, {}, MessageGone),
        (200000, "", 200, {}, MessageGone),
        (230002, "", 400, {}, PlaceGone),
        (230013, "", 400, {}, PlaceGone),
        (230018, "", 400, {}, PlaceGone),
        (230035, "", 400, {}, PlaceGone),
        (232009, "", 400, {}, PlaceGone),
        (230071, "", 400, {}, NoThreads),
        (300030, "", 200, {}, TokenSpent),
        (230020, "", 400, {}, SlowDown(0.3)),
        (230049, "", 400, {}, SlowDown(1.0)),
        (99991400, "", 429, RESET, SlowDown(12.0)),
        (99991400, "", 400, RESET, SlowDown(12.0)),
        (99991400, "", 429, {}, SlowDown(1.0)),
        (99991400, "", 429, {"x-ogw-ratelimit-reset": "0"}, SlowDown(1.0)),
        (99991400, "", 429, {"x-ogw-ratelimit-reset": "soon"}, SlowDown(1.0)),
        (99991400, "", 429, {"x-ogw-ratelimit-reset": "nan"}, SlowDown(1.0)),
        (99991400, "", 429, {"x-ogw-ratelimit-reset": "86400"}, SlowDown(60.0)),
        (0, "HTTP 429", 429, {}, SlowDown(1.0)),
        (424242, "", 429, {}, SlowDown(1.0)),
        (424242, "", 503, {}, TryLater),
        (424242, "something new", 400, {}, CountersignError),
        (0, "HTTP 404", 404, {}, TryLater),
        (5000, "internal error", 200, {}, TryLater),
        (1000040343, "", 200, {}, TryLater),
        (99991672, "scopes required: [im:message]", 400, {}, FixConfiguration),
        (230006, "", 400, {}, FixConfiguration),
        (10015, "", 200, {}, FixConfiguration),
        (514, "", 200, {}, FixConfiguration),
        (1000040350, "", 200, {}, FixConfiguration),
        (234006, "", 400, {}, FixInput),
        (41050, "", 400, {}, NotFound),
    ],
)
def test_what_happens_next(
    code: int, words: str, status: int, headers: dict[str, str], expected: type[Exception] | SlowDown
) -> None:
    """Each code of Feishu's is one of the few things that can be done about it."""
    error = outcome(code, words, status=status, headers=headers)
    if isinstance(expected, SlowDown):
        assert isinstance(error, SlowDown)
        assert error.seconds == expected.seconds
    else:
        assert type(error) is expected


def test_the_tables_do_not_disagree() -> None:
    """A code has one meaning: it is not both what passes by itself and what somebody has to put right."""
    assert OUTCOMES.keys() & REMEDIES.keys() == set()


@pytest.mark.parametrize("code", REMEDIES)
def test_what_somebody_has_to_put_right_says_how(code: int) -> None:
    """The code, Feishu's words and the remedy, in that order; a long message is not repeated whole."""
    error = outcome(code, "m" * 1_000)
    assert isinstance(error, FixConfiguration)
    assert error.message == f"Feishu said {code}: {'m' * 300}"
    assert (error.hint, error.details) == (REMEDIES[code], {"code": code})


def test_certificates_are_checked_and_read_once() -> None:
    """Every client trusts the same ones, and who answers must have the name that was called."""
    trusted = dial.tls()
    assert dial.tls() is trusted
    assert (trusted.verify_mode, trusted.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert trusted.cert_store_stats()["x509_ca"] > 0
