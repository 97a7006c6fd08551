"""The fake Feishu refuses what the documentation refuses, and works with the real SDK."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from Crypto.Cipher import AES
from Crypto.Util.Padding import unpad

from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_model import Json, Message
from tests.fakes.feishu_samples import FULL, MANY, REASON, card, deep, form, loose_button, plain
from tests.fakes.feishu_socket import Frame, decode

# --- the HTTP API ------------------------------------------------------------------------------------


class Client:
    """The least client there can be."""

    def __init__(self, feishu: FakeFeishu) -> None:
        self.feishu = feishu
        self.http = httpx.Client(base_url=f"{feishu.domain}/open-apis", trust_env=False, verify=False)
        self.login()

    def login(self, secret: str | None = None) -> Json:
        body = {"app_id": self.feishu.app_id, "app_secret": secret or self.feishu.app_secret}
        answer: Json = self.http.post("/auth/v3/tenant_access_token/internal", json=body).json()
        self.http.headers["Authorization"] = f"Bearer {answer.get('tenant_access_token', 'none')}"
        return answer

    def send(
        self, chat: Any, content: Json | str, msg_type: str = "interactive", **more: Any
    ) -> httpx.Response:
        kind = "open_id" if hasattr(chat, "open_id") else "chat_id"
        body = {"receive_id": getattr(chat, kind), "msg_type": msg_type, **more}
        body["content"] = content if isinstance(content, str) else json.dumps(content)
        return self.http.post("/im/v1/messages", params={"receive_id_type": kind}, json=body)

    def reply(self, message_id: str, text: str, **more: Any) -> Json:
        body = {"msg_type": "text", "content": json.dumps({"text": text}), **more}
        answer: Json = self.http.post(f"/im/v1/messages/{message_id}/reply", json=body).json()
        return answer

    def patch(self, message_id: str, content: Json) -> int:
        answer = self.http.patch(f"/im/v1/messages/{message_id}", json={"content": json.dumps(content)})
        return int(answer.json()["code"])

    def update(self, token: str, content: Json) -> int:
        answer = self.http.post("/interactive/v1/card/update", json={"token": token, "card": content})
        return int(answer.json()["code"])


@pytest.fixture
def feishu() -> Iterator[FakeFeishu]:
    """A fake of its own, with a short deadline and a fast schedule."""
    with FakeFeishu(deadline=0.3, redelivery_scale=0.001) as fake:
        yield fake


@pytest.fixture
def client(feishu: FakeFeishu) -> Iterator[Client]:
    """A client that is logged in."""
    client = Client(feishu)
    yield client
    client.http.close()


def test_tokens_are_needed_and_expire(feishu: FakeFeishu, client: Client) -> None:
    """A wrong secret, no token, an expired token and a fresh one have their documented codes."""
    assert client.http.get("/bot/v3/info").json()["bot"]["open_id"] == feishu.bot_open_id
    assert client.login("wrong")["code"] == 10014
    assert client.http.get("/bot/v3/info", headers={"Authorization": ""}).json()["code"] == 99991661
    assert client.login()["expire"] in (7199, 7200)
    feishu.advance(7_200)
    assert client.http.get("/bot/v3/info").json()["code"] == 99991663
    client.login()
    assert client.http.get("/bot/v3/info").json()["code"] == 0


REFUSED_SENDS: list[tuple[str, Json, int]] = [
    ("content is no string", {"content": {"text": "x"}}, 230001),
    ("content is no JSON", {"content": "hello"}, 230001),
    ("unknown type", {"msg_type": "hologram"}, 230001),
    ("unknown property in text", {"content": '{"text": "x", "bold": 1}'}, 230001),
    ("text over 150 KB", {"content": json.dumps({"text": "x" * 153_600})}, 230025),
    (
        "card over 30 KB",
        {"msg_type": "interactive", "content": json.dumps(card(deep(1) | {"content": "x" * 30_720}))},
        230025,
    ),
    ("bad card", {"msg_type": "interactive", "content": '{"schema": "2.0", "elements": []}'}, 230099),
    ("long uuid", {"uuid": "u" * 51}, 230001),
    ("unknown chat", {"receive_id": "oc_none"}, 230034),
    ("file of nobody", {"msg_type": "file", "content": '{"file_key": "none"}'}, 230017),
    ("post without paragraphs", {"msg_type": "post", "content": '{"zh_cn": {"content": ["x"]}}'}, 230001),
]


@pytest.mark.parametrize(
    ("change", "code"), [row[1:] for row in REFUSED_SENDS], ids=[row[0] for row in REFUSED_SENDS]
)
def test_a_send_is_refused(feishu: FakeFeishu, client: Client, change: Json, code: int) -> None:
    """Each wrong request has its code and posts nothing."""
    chat = feishu.add_chat("group", [])
    body = {"receive_id": chat.chat_id, "msg_type": "text", "content": '{"text": "x"}', **change}
    answer = client.http.post("/im/v1/messages", params={"receive_id_type": "chat_id"}, json=body)
    assert (answer.status_code, answer.json()["code"], feishu.messages(chat)) == (400, code, [])


def test_the_sub_code_stands_in_the_message(feishu: FakeFeishu, client: Client) -> None:
    """A refused card is 230099, with the reason in `ext` as the documentation shows it."""
    answer = client.send(feishu.add_chat("group", []), card({"tag": "note"})).json()
    assert answer["msg"] == (
        "Failed to create card content, ext=ErrCode: 200861; ErrPath: ROOT -> body -> elements -> [0]; "
        "ErrMsg: cards of schema V2 no longer support this capability; ErrorValue: unsupported tag note"
    )


def test_places_that_take_nothing(feishu: FakeFeishu, client: Client) -> None:
    """A group without the bot, a dissolved one, one without cards, and people out of reach."""
    users = [
        feishu.add_user("gone", resigned=True),
        feishu.add_user("out", in_scope=False),
        feishu.add_user("external", tenant_key="other"),
    ]
    chats: list[Any] = [
        feishu.add_chat("group", [], bot=False),
        feishu.add_chat("group", []),
        feishu.add_chat("group", [], cards=False),
    ]
    chats[1].dissolved = True
    codes = [client.send(place, FULL).json()["code"] for place in [*chats, *users]]
    assert codes == [230002, 232009, 230054, 230013, 230013, 230038]


def test_one_message_per_uuid_and_hour(feishu: FakeFeishu, client: Client) -> None:
    """The same uuid gives the same message for an hour, and a new one afterwards."""
    ann = feishu.add_user("Ann")
    ids = [client.send(ann, {"text": "x"}, "text", uuid="u1").json()["data"]["message_id"] for _ in range(2)]
    feishu.advance(3_601)
    ids.append(client.send(ann, {"text": "x"}, "text", uuid="u1").json()["data"]["message_id"])
    assert (ids[0] == ids[1], ids[1] == ids[2]) == (True, False)


def test_five_a_second_per_chat_and_per_message(feishu: FakeFeishu, client: Client) -> None:
    """The sixth send into a chat and the sixth update of a message within a second are 230020."""
    chat = feishu.add_chat("group", [])
    sends = [client.send(chat, FULL) for _ in range(6)]
    assert [answer.json()["code"] for answer in sends] == [0] * 5 + [230020]
    assert sends[5].status_code == 400
    message = feishu.messages(chat)[0].message_id
    assert [client.patch(message, FULL) for _ in range(6)] == [0] * 5 + [230020]
    feishu.advance(1)
    assert client.patch(message, FULL) == 0


def test_fifty_a_second_per_api(feishu: FakeFeishu, client: Client) -> None:
    """The limit of one API is HTTP 429 with the seconds to wait."""
    answers = [client.http.get("/bot/v3/info") for _ in range(51)]
    last = answers[-1]
    assert (last.status_code, last.json()["code"], last.headers["x-ogw-ratelimit-reset"]) == (
        429,
        99991400,
        "1",
    )


def test_what_can_be_patched(feishu: FakeFeishu, client: Client) -> None:
    """A card of ours, shared before and after, not recalled, not older than 14 days, never back to 1.0."""
    ann = feishu.add_user("Ann")
    chat = feishu.add_chat("p2p", [ann])
    old = client.send(chat, FULL).json()["data"]["message_id"]
    bare = client.send(chat, {key: FULL[key] for key in ("schema", "body")}).json()["data"]["message_id"]
    text = client.send(chat, {"text": "x"}, "text").json()["data"]["message_id"]
    hers = feishu.say(ann, chat, "x").message_id
    one = {"schema": "1.0", "config": {"update_multi": True}, "elements": []}
    assert [client.patch(each, FULL) for each in (bare, text, hers, "om_none")] == [
        230001,
        230001,
        230027,
        230001,
    ]
    assert [client.patch(old, one), client.patch(old, card({"tag": "note"}))] == [230099, 230099]
    feishu.advance(14 * 86_400 + 1)
    client.login()
    assert client.patch(old, FULL) == 230031
    feishu.recall(feishu.world.by_id[bare])
    assert client.patch(bare, FULL) == 230011


def test_planned_faults(feishu: FakeFeishu, client: Client) -> None:
    """A fault answers before or after the work, so often as asked; a hang outlasts the client's patience."""
    chat = feishu.add_chat("group", [])
    feishu.fail("POST /open-apis/im/v1/messages", 230028)
    feishu.fail("POST /open-apis/im/v1/messages", 99991400, headers={"x-ogw-ratelimit-reset": "7"})
    feishu.fail("POST /open-apis/im/v1/messages", 5000, http=500, after=True)
    seen = [client.send(chat, {"text": str(number)}, "text") for number in range(4)]
    assert [(each.status_code, each.json()["code"]) for each in seen] == [
        (400, 230028),
        (429, 99991400),
        (500, 5000),
        (200, 0),
    ]
    assert seen[1].headers["x-ogw-ratelimit-reset"] == "7"
    assert [message.text for message in feishu.messages(chat)] == ["2", "3"]
    feishu.hang("/bot/", 0.4)
    with pytest.raises(httpx.ReadTimeout):
        client.http.get("/bot/v3/info", timeout=0.05)


def test_threads_and_replies(feishu: FakeFeishu, client: Client) -> None:
    """A reply names parent and root; in a topic both are the topic's first message, whatever was quoted."""
    ann = feishu.add_user("Ann")
    group, topic = feishu.add_chat("group", [ann]), feishu.add_chat("topic", [ann])
    first = feishu.say(ann, group, "1")
    second = client.reply(first.message_id, "2")["data"]
    third = feishu.say(ann, group, "3", reply_to=feishu.world.by_id[second["message_id"]])
    assert (second["root_id"], second["parent_id"], "thread_id" in second) == (
        first.message_id,
        first.message_id,
        False,
    )
    assert (third.root_id, third.parent_id, third.thread_id) == (first.message_id, second["message_id"], "")
    opened = client.reply(first.message_id, "4", reply_in_thread=True)["data"]
    assert opened["thread_id"] == first.thread_id != ""
    root = feishu.say(ann, topic, "5")
    answer = client.reply(root.message_id, "6")["data"]
    quoting = feishu.say(ann, topic, "7", reply_to=feishu.world.by_id[answer["message_id"]])
    assert (quoting.parent_id, quoting.root_id, quoting.thread_id) == (
        root.message_id,
        root.message_id,
        root.thread_id,
    )
    assert [message.text for message in feishu.messages(topic, root.thread_id)] == ["6"]


def test_files_people_and_chats(feishu: FakeFeishu, client: Client) -> None:
    """Uploads, profiles, departments with pages, chats and messages are answered as documented."""
    ann = feishu.add_user("Ann", departments=["od-ops"])
    bob = feishu.add_user("Bob", departments=["od-ops"], frozen=True)
    eve = feishu.add_user("Eve", tenant_key="other")
    chat = feishu.add_chat("topic", [ann, eve])
    form_data = {"file_type": "stream", "file_name": "input.txt"}
    key = client.http.post("/im/v1/files", data=form_data, files={"file": ("input.txt", b"rm -rf")}).json()[
        "data"
    ]["file_key"]
    assert (feishu.files[key].data, feishu.files[key].name) == (b"rm -rf", "input.txt")
    assert (
        client.http.post("/im/v1/files", data=form_data, files={"file": ("a", b"")}).json()["code"] == 234010
    )
    assert client.send(chat, {"file_key": key}, "file").json()["code"] == 0
    assert (
        client.http.get(f"/contact/v3/users/{bob.open_id}").json()["data"]["user"]["status"]["is_frozen"]
        is True
    )
    assert client.http.get(f"/contact/v3/users/{eve.open_id}").json()["code"] == 41050
    query = {"department_id": "od-ops", "page_size": "1"}
    page = client.http.get("/contact/v3/users/find_by_department", params=query).json()["data"]
    rest = client.http.get(
        "/contact/v3/users/find_by_department", params={**query, "page_token": page["page_token"]}
    ).json()["data"]
    assert [each["name"] for each in page["items"] + rest["items"]] == ["Ann", "Bob"]
    assert (page["has_more"], rest["has_more"]) == (True, False)
    shown = client.http.get(f"/im/v1/chats/{chat.chat_id}").json()["data"]
    assert (shown["chat_mode"], shown["external"]) == ("topic", True)
    message = client.send(chat, FULL).json()["data"]["message_id"]
    assert client.http.get(f"/im/v1/messages/{message}").json()["data"]["items"][0]["message_id"] == message


def test_what_fires_a_mention_is_recorded(feishu: FakeFeishu, client: Client) -> None:
    """Pings are what people would be told of, in cards, texts and posts."""
    ann = feishu.add_user("Ann")
    chat = feishu.add_chat("group", [ann], at_all=True)
    mark = f"<at id={ann.open_id}></at>"
    client.send(chat, card({"tag": "markdown", "content": f"{mark} `<at id=all>`"}))
    client.send(chat, {"text": '<at user_id="all"></at>'}, "text")
    client.send(
        chat,
        {"zh_cn": {"content": [[{"tag": "at", "user_id": ann.open_id}, {"tag": "text", "text": mark}]]}},
        "post",
    )
    assert [(m.pings, m.pings_in_code) for m in feishu.messages(chat)] == [
        ([ann.open_id], ["all"]),
        (["all"], []),
        ([ann.open_id], []),
    ]


# --- events and clicks over signed callbacks ------------------------------------------------------------


class App:
    """A small app behind an HTTP callback: decrypts, checks, and answers as it is told."""

    def __init__(self, feishu: FakeFeishu) -> None:
        self.feishu = feishu
        self.events: list[Json] = []
        self.answer: Callable[[Json], Any] = lambda _event: {}

    async def serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        event = self.open(raw)
        if event.get("type") == "url_verification":
            return web.json_response({"challenge": event["challenge"]})
        stamp, nonce = (request.headers[f"X-Lark-Request-{part}"] for part in ("Timestamp", "Nonce"))
        mark = hashlib.sha256(f"{stamp}{nonce}{self.feishu.encrypt_key}".encode() + raw).hexdigest()
        assert request.headers["X-Lark-Signature"] == mark
        self.events.append(event)
        answer = self.answer(event)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, web.Response) else web.json_response(answer)

    def open(self, raw: bytes) -> Json:
        sealed = base64.b64decode(json.loads(raw)["encrypt"])
        key = hashlib.sha256(self.feishu.encrypt_key.encode()).digest()
        cipher = AES.new(key, AES.MODE_CBC, sealed[:16])
        event: Json = json.loads(unpad(cipher.decrypt(sealed[16:]), AES.block_size))
        return event


@pytest.fixture
def app(feishu: FakeFeishu) -> Iterator[App]:
    """The app, served and registered with the fake."""
    app = App(feishu)

    async def serve() -> TestServer:
        application = web.Application()
        application.router.add_post("/hook", app.serve)
        server = TestServer(application)
        await server.start_server()
        assert await asyncio.to_thread(feishu.use_webhook, str(server.make_url("/hook")))
        return server

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(serve())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield app
    asyncio.run_coroutine_threadsafe(server.close(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


def test_which_messages_the_app_may_read(feishu: FakeFeishu, app: App) -> None:
    """A p2p message always, a group's with group_msg or an @, with placeholders and all ids."""
    ann = feishu.add_user("Ann")
    private = feishu.add_chat("p2p", [ann])
    quiet = feishu.add_chat("group", [ann])
    open_group = feishu.add_chat("group", [ann], scope="group_msg")
    feishu.say(ann, quiet, "nobody hears")
    heard = [
        feishu.say(ann, private, "one"),
        feishu.say(ann, open_group, "two", mention=[ann]),
        feishu.say(ann, quiet, "1,3", mention=True, old_by=60),
        feishu.say(ann, private, msg_type="sticker"),
    ]
    feishu.wait_for(lambda: all(message.acked for message in heard))
    by_id = {event["event"]["message"]["message_id"]: event for event in app.events}
    assert len(app.events) == len(by_id) == 4
    event = by_id[heard[2].message_id]
    sent = event["event"]["message"]
    assert json.loads(sent["content"]) == {"text": "@_user_1 1,3"}
    assert (sent["mentions"][0]["key"], sent["mentions"][0]["id"]["open_id"]) == (
        "@_user_1",
        feishu.bot_open_id,
    )
    assert 59 < feishu.now() - int(sent["create_time"]) / 1000 < 65
    assert event["event"]["sender"]["sender_id"]["open_id"] == ann.open_id
    assert event["header"]["token"] == feishu.verification_token
    assert list(json.loads(by_id[heard[3].message_id]["event"]["message"]["content"])) == ["file_key"]


def test_an_event_is_sent_again_until_it_is_accepted(feishu: FakeFeishu, app: App) -> None:
    """The same event and message ids after 15 s and 5 min; nothing more once it was accepted."""
    feishu.delivery.redelivery_scale = 1.0
    app.answer = lambda _event: web.Response(status=500) if len(app.events) < 3 else {}
    ann = feishu.add_user("Ann")
    message = feishu.say(ann, feishu.add_chat("p2p", [ann]), "hi")
    for seconds in (14, 1, 299, 1, 4_000):
        feishu.wait_for(lambda: message.attempts)
        seen = len(message.attempts)
        feishu.advance(seconds)
        if seconds == 1:
            feishu.wait_for(partial(more_than, message, seen))
    gaps = [
        round(after.at - before.at)
        for before, after in zip(message.attempts, message.attempts[1:], strict=False)
    ]
    assert (gaps, [attempt.ok for attempt in message.attempts]) == ([15, 300], [False, False, True])
    assert len({event["header"]["event_id"] for event in app.events}) == 1


def more_than(message: Message, seen: int) -> bool:
    """Whether there was another attempt."""
    return len(message.attempts) > seen


def test_four_redeliveries_at_most(feishu: FakeFeishu, app: App) -> None:
    """After the fifth try an event is lost."""
    feishu.delivery.redelivery_scale = 0.0
    app.answer = lambda _event: web.Response(status=302, headers={"Location": "/"})
    ann = feishu.add_user("Ann")
    message = feishu.say(ann, feishu.add_chat("p2p", [ann]), "hi")
    feishu.wait_for(lambda: len(message.attempts) == 5)
    assert (len(app.events), message.acked) == (5, False)


def sent_card(feishu: FakeFeishu, client: Client) -> tuple[Any, Any]:
    """A person, and the full card in their group."""
    ann = feishu.add_user("Ann")
    chat = feishu.add_chat("group", [ann])
    assert client.send(chat, FULL).json()["code"] == 0
    return ann, feishu.messages(chat)[0]


def test_a_form_submit(feishu: FakeFeishu, client: Client, app: App) -> None:
    """A click carries value, name and every field; the answer's toast and card are shown."""
    ann, message = sent_card(feishu, client)
    done = card({"tag": "markdown", "content": "approved"})
    app.answer = lambda _event: {
        "toast": {"type": "success", "content": "ok"},
        "card": {"type": "raw", "data": done},
    }
    values = {"reason": "two\nlines", "pick": "b", "many": ["a", "b"], "tick": True}
    result = feishu.click(ann, message, "reject", form=values)
    assert result.toast is not None
    assert (result.toast.content, result.card, message.content, result.error) == ("ok", done, done, None)
    [event] = app.events
    assert event["event"]["action"] == {
        "tag": "button",
        "timezone": "Asia/Shanghai",
        "value": {"inquiry": "i1", "revision": 3, "verdict": "reject"},
        "name": "reject",
        "form_value": values,
    }
    assert event["event"]["context"] == {
        "open_message_id": message.message_id,
        "open_chat_id": message.chat_id,
    }
    assert (event["header"]["event_type"], len(event["header"]["create_time"])) == ("card.action.trigger", 16)


def test_what_a_client_does_not_send(feishu: FakeFeishu, client: Client, app: App) -> None:
    """Required fields, too long texts, disabled buttons and old cards stop in the client."""
    ann = feishu.add_user("Ann")
    chat = feishu.add_chat("p2p", [ann])
    needed = form({**REASON, "required": True, "max_length": 5}, {**MANY, "required": True})
    client.send(chat, card(needed, {**loose_button(), "disabled": True, "text": plain("off")}))
    [message] = feishu.messages(chat)
    blocked = [
        feishu.click(ann, message, "approve").blocked,
        feishu.click(ann, message, "approve", form={"reason": "ok"}).blocked,
        feishu.click(ann, message, "approve", form={"reason": "much too long"}).blocked,
        feishu.click(ann, message, "off").blocked,
    ]
    assert blocked == ["有必填项未填写", "有必填项未填写", "too long", "disabled"]
    assert feishu.click(ann, message, "approve", form={"reason": "ok", "many": ["a"]}).ok
    feishu.advance(14 * 86_400 + 1)
    assert feishu.click(ann, message, "approve").blocked == "older than 14 days"
    assert len(app.events) == 1


BAD_ANSWERS: list[tuple[str, Any, int]] = [
    ("no JSON", web.Response(text="ok"), 200672),
    ("empty", web.Response(), 200672),
    ("status 500", web.Response(status=500), 200671),
    ("redirect", web.Response(status=302, headers={"Location": "/hook"}), 200671),
    ("unknown property", {"message": "ok"}, 200672),
    ("toast type", {"toast": {"type": "danger", "content": "x"}}, 200672),
    ("card as a string", {"card": {"type": "raw", "data": json.dumps(FULL)}}, 200672),
    ("card 1.0", {"card": {"type": "raw", "data": {"elements": []}}}, 200830),
    ("bad card", {"card": {"type": "raw", "data": card({"tag": "note"})}}, 200673),
]


@pytest.mark.parametrize(
    ("answer", "code"), [row[1:] for row in BAD_ANSWERS], ids=[row[0] for row in BAD_ANSWERS]
)
def test_a_bad_answer_to_a_click(
    feishu: FakeFeishu, client: Client, app: App, answer: Any, code: int
) -> None:
    """The client shows the documented code, and the card stays as it was."""
    ann, message = sent_card(feishu, client)
    app.answer = lambda _event: answer
    assert (feishu.click(ann, message, "approve").error, message.content) == (code, FULL)
    assert len(app.events) == 1


def test_clicks_that_reach_nobody(feishu: FakeFeishu, client: Client, app: App) -> None:
    """Late is 200341, no callback 200340, no listener 200342; a click is never sent twice."""
    ann, message = sent_card(feishu, client)

    async def late(_event: Json) -> Json:
        await asyncio.sleep(0.5)
        return {}

    app.answer = late
    assert feishu.click(ann, message, "approve").error == 200341
    feishu.world.published = False
    assert feishu.click(ann, message, "approve").error == 200340
    feishu.world.published = True
    feishu.use_socket()
    assert feishu.click(ann, message, "approve").error == 200340
    feishu.use_webhook("http://127.0.0.1:9/hook", verify=False)
    assert feishu.click(ann, message, "approve").error == 200342
    assert len(app.events) == 1


def test_an_update_before_the_answer_reverts(feishu: FakeFeishu, client: Client, app: App) -> None:
    """PATCH within a click is undone by the answer, and the answer's card with it; after it, it stays."""
    ann, message = sent_card(feishu, client)
    early, done = card({"tag": "hr"}), card({"tag": "markdown", "content": "done"})

    async def patch_first(_event: Json) -> Json:
        assert await asyncio.to_thread(client.patch, message.message_id, early) == 0
        assert message.content == early
        return {"card": {"type": "raw", "data": done}}

    app.answer = patch_first
    assert feishu.click(ann, message, "approve").ok
    assert message.content == FULL
    assert client.patch(message.message_id, done) == 0
    assert (message.content, [update.reverted for update in message.updates]) == (done, [True, True, False])


def test_an_update_before_the_answer_may_be_refused(feishu: FakeFeishu, client: Client, app: App) -> None:
    """The other documented end: "card action is lock"."""
    ann, message = sent_card(feishu, client)
    feishu.world.early_update = "refuse"
    codes: list[int] = []

    async def patch_first(_event: Json) -> Json:
        codes.append(await asyncio.to_thread(client.patch, message.message_id, FULL))
        return {}

    app.answer = patch_first
    assert (feishu.click(ann, message, "approve").ok, codes) == (True, [230099])


def test_delayed_updates(feishu: FakeFeishu, client: Client, app: App) -> None:
    """A callback's token works twice within 30 minutes and only for a good card."""
    ann, message = sent_card(feishu, client)
    for _ in range(2):
        assert feishu.click(ann, message, "approve").ok
    first, second = (event["event"]["token"] for event in app.events)
    assert client.update("c-none", FULL) == 300020
    assert client.update(first, card({"tag": "note"})) == 11311
    assert [client.update(first, FULL) for _ in range(3)] == [0, 0, 300040]
    feishu.advance(1_801)
    assert client.update(second, FULL) == 300030


def test_a_webhook_must_answer_the_challenge(feishu: FakeFeishu) -> None:
    """An address that does not answer is not taken."""
    assert not feishu.use_webhook("http://127.0.0.1:9/hook")


# --- the long connection ---------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def lark() -> Any:
    """The real SDK, loaded once: it takes seconds."""
    return pytest.importorskip("lark_oapi")


def test_frames_are_those_of_the_sdk(lark: Any) -> None:
    """Our frames read as the SDK's, and the SDK's as ours."""
    ours = Frame(1, 2, 7, 1, [("type", "event"), ("sum", "1")], "é".encode())
    theirs = pytest.importorskip("lark_oapi.ws.pb.pbbp2_pb2").Frame()
    theirs.ParseFromString(ours.encode())
    assert (theirs.service, theirs.method, theirs.headers[1].key, theirs.payload) == (
        7,
        1,
        "sum",
        "é".encode(),
    )
    assert decode(theirs.SerializeToString()) == ours


@pytest.mark.parametrize("data", [b"", b"\xff", b"text", Frame().encode()[:-2]])
def test_what_is_no_frame(data: bytes) -> None:
    """A frame needs its four numbers."""
    with pytest.raises(ValueError, match=r"."):
        decode(data)


async def open_sdk(lark: Any, feishu: FakeFeishu, handlers: Any) -> Any:
    """A real ws client on the running loop, in the one way the SDK allows inside a program."""
    lark.ws.client.loop = asyncio.get_running_loop()
    client = lark.ws.Client(
        feishu.app_id,
        feishu.app_secret,
        event_handler=handlers,
        domain=feishu.domain,
        log_level=lark.LogLevel.CRITICAL,
    )
    await client._connect()
    client._pinging = asyncio.create_task(client._ping_loop())
    return client


async def close_sdk(client: Any) -> None:
    """Ends what `open_sdk` began."""
    client._auto_reconnect = False
    client._pinging.cancel()
    await client._disconnect()


def test_a_round_with_the_real_sdk(lark: Any, feishu: FakeFeishu, client: Client) -> None:
    """A message, a form submit and its answer through the SDK's own client, in split frames."""
    model = pytest.importorskip("lark_oapi.event.callback.model.p2_card_action_trigger")
    ann, message = sent_card(feishu, client)
    done = card({"tag": "markdown", "content": "done"})
    heard: list[Any] = []

    def clicked(event: Any) -> Any:
        heard.append((event.event.action.form_value["reason"], event.event.operator.open_id))
        return model.P2CardActionTriggerResponse(
            {"toast": {"content": "ok"}, "card": {"type": "raw", "data": done}}
        )

    builder = lark.EventDispatcherHandler.builder("", "")
    builder.register_p2_im_message_receive_v1(lambda event: heard.append(event.event.message.content))
    handlers = builder.register_p2_card_action_trigger(clicked).build()
    feishu.socket.split_bytes = 300

    async def talk() -> Any:
        sdk = await open_sdk(lark, feishu, handlers)
        said = await feishu.say_async(ann, message.chat, "hi", mention=True)
        await feishu.wait_for_async(lambda: said.acked)
        result = await feishu.click_async(ann, message, "approve", form={"reason": "fine"})
        await close_sdk(sdk)
        return result

    result = asyncio.run(talk())
    assert (result.toast.content, result.error, message.content) == ("ok", None, done)
    assert heard == ['{"text": "@_user_1 hi"}', ("fine", ann.open_id)]
    assert feishu.socket.errors == []


def test_a_handler_of_the_sdk_that_answers_nothing(lark: Any, feishu: FakeFeishu, client: Client) -> None:
    """None is no answer (200672), an exception is 200671, an event that nobody handles is sent again."""
    ann, message = sent_card(feishu, client)
    answers: list[Any] = [lambda: None, lambda: 1 / 0]
    builder = lark.EventDispatcherHandler.builder("", "")
    handlers = builder.register_p2_card_action_trigger(lambda _event: answers.pop(0)()).build()

    async def talk() -> Any:
        sdk = await open_sdk(lark, feishu, handlers)
        errors = [(await feishu.click_async(ann, message, "approve")).error for _ in range(2)]
        said = await feishu.say_async(ann, message.chat, "hi", mention=True)
        await feishu.wait_for_async(lambda: len(said.attempts) == 2)
        await close_sdk(sdk)
        return errors, [attempt.code for attempt in said.attempts]

    assert asyncio.run(talk()) == ([200672, 200671], [500, 500])


def test_several_connections_share_the_events(lark: Any, feishu: FakeFeishu) -> None:
    """One random client gets each event; a dropped one comes back; without any, events wait."""
    ann = feishu.add_user("Ann")
    chat = feishu.add_chat("p2p", [ann])
    heard: list[str] = []

    def handlers(mark: str) -> Any:
        builder = lark.EventDispatcherHandler.builder("", "")
        return builder.register_p2_im_message_receive_v1(lambda _event: heard.append(mark)).build()

    async def talk() -> None:
        feishu.delivery.redelivery_scale = 0.02
        early = await feishu.say_async(ann, chat, "nobody is there")
        sdks = [await open_sdk(lark, feishu, handlers(mark)) for mark in "ab"]
        await feishu.wait_for_async(lambda: early.acked)
        for _ in range(10):
            await feishu.say_async(ann, chat, "x")
        await feishu.wait_for_async(lambda: len(heard) == 11)
        await asyncio.to_thread(feishu.drop_connections)
        await feishu.wait_for_async(lambda: feishu.connections == 0)
        await feishu.wait_for_async(lambda: feishu.connections == 2)
        for sdk in sdks:
            await close_sdk(sdk)

    asyncio.run(talk())
    assert set(heard) == {"a", "b"}


def test_an_endpoint_that_refuses(lark: Any, feishu: FakeFeishu) -> None:
    """The connection limit arrives as the endpoint's code, a wrong secret as the SDK's "auth failed"."""
    refusal = pytest.importorskip("lark_oapi.ws.exception").ClientException
    feishu.fail("/callback/ws/endpoint", 1000040350)
    with pytest.raises(refusal, match="1000040350"):
        asyncio.run(open_sdk(lark, feishu, None))
    body = {"AppID": feishu.app_id, "AppSecret": "wrong"}
    assert (
        httpx.post(f"{feishu.domain}/callback/ws/endpoint", json=body, trust_env=False).json()["code"] == 514
    )


def test_a_socket_that_looks_healthy(lark: Any, feishu: FakeFeishu, client: Client) -> None:
    """No pong comes when muted, and no event when they are lost; the connection stays open."""
    ann, message = sent_card(feishu, client)
    pongs: list[float] = []

    async def talk() -> int | None:
        sdk = await open_sdk(lark, feishu, lark.EventDispatcherHandler.builder("", "").build())
        sdk._configure = lambda _config: pongs.append(feishu.now())
        feishu.socket.mute_pongs = True
        await feishu.wait_for_async(lambda: all(each.pings for each in feishu.socket.live.values()))
        feishu.delivery.lose_events = True
        error = (await feishu.click_async(ann, message, "approve")).error
        await close_sdk(sdk)
        return error

    assert (asyncio.run(talk()), pongs) == (200341, [])


def test_an_endpoint_that_hangs(feishu: FakeFeishu) -> None:
    """A client with a timeout gets away from an endpoint that does not answer."""
    feishu.hang("/callback/ws/endpoint", 0.3)
    body = {"AppID": feishu.app_id, "AppSecret": feishu.app_secret}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{feishu.domain}/callback/ws/endpoint", json=body, timeout=0.05, trust_env=False)
    answer = httpx.post(f"{feishu.domain}/callback/ws/endpoint", json=body, trust_env=False).json()
    assert answer["data"]["URL"].startswith("ws://127.0.0.1:")
