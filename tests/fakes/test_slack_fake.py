"""The fake is held against the real SDK: its client, Bolt over Socket Mode, Bolt over signed HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from tests.fakes.slack import FakeSlack
from tests.fakes.slack_blocks import Json, pings, problems, view_problems

Test = Callable[[], Coroutine[Any, Any, None]]


def run(body: Coroutine[Any, Any, None]) -> None:
    """Runs one async test with an end."""
    asyncio.run(asyncio.wait_for(body, 15))


def plain(words: str) -> Json:
    """A plain_text object."""
    return {"type": "plain_text", "text": words}


def mrkdwn(words: str) -> Json:
    """A mrkdwn object."""
    return {"type": "mrkdwn", "text": words}


def option(value: str, label: str = "label") -> Json:
    """An option."""
    return {"text": plain(label), "value": value}


def button(action_id: str = "approve", **more: Any) -> Json:
    """A button with a value."""
    return {"type": "button", "action_id": action_id, "text": plain("Approve"), "value": "7:1", **more}


def actions(*elements: Json, block_id: str = "acts") -> Json:
    """An actions block, with one button if none is given."""
    return {"type": "actions", "block_id": block_id, "elements": list(elements) or [button()]}


def section(words: str = "hello") -> Json:
    """A mrkdwn section."""
    return {"type": "section", "text": mrkdwn(words)}


def asked(block_id: str, element: Json, **more: Any) -> Json:
    """An input block."""
    return {"type": "input", "block_id": block_id, "label": plain("Why?"), "element": element, **more}


TYPED = {"type": "plain_text_input", "action_id": "words"}
RADIO = {
    "type": "radio_buttons",
    "action_id": "pick",
    "options": [option("a", "Postgres"), option("b", "MySQL")],
}
TICKS = {"type": "checkboxes", "action_id": "ticks", "options": [option("x"), option("y"), option("z")]}
MODAL = {
    "type": "modal",
    "callback_id": "reject",
    "title": plain("Reject"),
    "submit": plain("Reject"),
    "blocks": [asked("why", TYPED)],
}


def rich(*elements: Json) -> Json:
    """A rich_text block."""
    return {"type": "rich_text", "elements": list(elements)}


def inline(*elements: Json) -> Json:
    """A rich_text_section."""
    return {"type": "rich_text_section", "elements": list(elements)}


pytestmark = pytest.mark.filterwarnings("ignore:The top-level `text` argument:UserWarning")


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    """A workspace with Lin, Mei and #ops; retries come at once."""
    with FakeSlack(pace=0, rate=None) as fake:
        yield peopled(fake)


@pytest.fixture
def hasty() -> Iterator[FakeSlack]:
    """The same with one second for an ack, for tests that miss it."""
    with FakeSlack(pace=0, rate=None, ack_deadline=1.0) as fake:
        yield peopled(fake)


def peopled(fake: FakeSlack) -> FakeSlack:
    """Lin and Mei in #ops."""
    fake.add_user("lin")
    fake.add_user("mei")
    fake.add_channel("ops")
    return fake


@asynccontextmanager
async def bolt(slack: FakeSlack, register: Callable[[AsyncApp], None]) -> AsyncIterator[AsyncApp]:
    """A real Bolt app connected by Socket Mode; every event is acked."""
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
    app = AsyncApp(client=client, signing_secret=slack.signing_secret)
    register(app)

    async def taken(ack: Any) -> None:
        await ack()

    app.event({"type": "message"})(taken)
    app.event("app_mention")(taken)
    handler = AsyncSocketModeHandler(app, slack.app_token, ping_interval=0.2)
    await handler.connect_async()  # type: ignore[no-untyped-call]  # Bolt has no types here
    await slack.eventually(lambda: slack.sockets)
    try:
        yield app
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]  # Bolt has no types here


async def refusal(call: Coroutine[Any, Any, Any]) -> Any:
    """The answer of a call that must be refused."""
    with pytest.raises(SlackApiError) as caught:
        await call
    return caught.value.response


# ---- blocks

TAKEN: dict[str, list[Json]] = {
    "50 blocks": [{"type": "divider"}] * 50,
    "section at its limit": [section("x" * 3000)],
    "fields": [{"type": "section", "fields": [mrkdwn("x" * 2000)] * 10}],
    "25 buttons": [actions(*(button(f"a{i}") for i in range(25)))],
    "inputs in a message": [
        asked("q1", RADIO),
        asked("q2", TICKS, optional=True),
        asked("q3", TYPED),
        actions(),
    ],
    "confirm": [
        actions(
            button(
                confirm={
                    "title": plain("Sure?"),
                    "text": mrkdwn("*all*"),
                    "confirm": plain("Yes"),
                    "deny": plain("No"),
                }
            )
        )
    ],
    "rich text": [
        rich(
            inline(
                {"type": "text", "text": "for ", "style": {"bold": True}}, {"type": "user", "user_id": "U1"}
            ),
            {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "rm -rf"}], "border": 1},
            {
                "type": "rich_text_list",
                "style": "bullet",
                "elements": [inline({"type": "emoji", "name": "ok"})],
            },
            {"type": "rich_text_quote", "elements": [{"type": "link", "url": "https://x.test"}]},
            inline({"type": "date", "timestamp": 1700000000, "format": "{time}", "fallback": "18:00"}),
        )
    ],
    "container": [
        {
            "type": "container",
            "title": plain("Details"),
            "is_collapsible": True,
            "default_collapsed": True,
            "child_blocks": [section()],
        }
    ],
    "markdown": [{"type": "markdown", "text": "x" * 12_000}],
    "table": [{"type": "table", "rows": [[{"type": "raw_text", "text": "a"}] * 20] * 100}],
    "context": [{"type": "context", "elements": [mrkdwn("small")] * 10}],
    "overflow": [
        actions({"type": "overflow", "action_id": "o", "options": [option(str(i)) for i in range(5)]})
    ],
}


@pytest.mark.parametrize("name", TAKEN)
def test_blocks_within_every_limit_are_taken(name: str) -> None:
    """What the documentation allows, up to the limit itself, is no problem."""
    assert problems(TAKEN[name], "message") == []


REFUSED: dict[str, tuple[list[Json], str]] = {
    "51 blocks": ([{"type": "divider"}] * 51, "no more than 50 items allowed [json-pointer:/blocks]"),
    "unknown block": ([{"type": "fold"}], "unsupported type: fold [json-pointer:/blocks/0/type]"),
    "no type": ([{}], "unsupported type: None [json-pointer:/blocks/0/type]"),
    "unknown field": (
        [{**section(), "color": "red"}],
        "invalid additional property: color [json-pointer:/blocks/0/color]",
    ),
    "long section": (
        [section("x" * 3001)],
        "must be less than 3001 characters [json-pointer:/blocks/0/text/text]",
    ),
    "empty text": ([section("")], "must be more than 0 characters [json-pointer:/blocks/0/text/text]"),
    "section without text": (
        [{"type": "section"}],
        "must have at least one of: text, fields [json-pointer:/blocks/0]",
    ),
    "11 fields": (
        [{"type": "section", "fields": [mrkdwn("x")] * 11}],
        "no more than 10 items allowed [json-pointer:/blocks/0/fields]",
    ),
    "long field": (
        [{"type": "section", "fields": [mrkdwn("x" * 2001)]}],
        "must be less than 2001 characters [json-pointer:/blocks/0/fields/0/text]",
    ),
    "long header": (
        [{"type": "header", "text": plain("x" * 151)}],
        "must be less than 151 characters [json-pointer:/blocks/0/text/text]",
    ),
    "mrkdwn header": (
        [{"type": "header", "text": mrkdwn("x")}],
        "unsupported type: mrkdwn [json-pointer:/blocks/0/text/type]",
    ),
    "emoji flag on mrkdwn": (
        [{"type": "section", "text": {**mrkdwn("x"), "emoji": True}}],
        "invalid additional property: emoji [json-pointer:/blocks/0/text/emoji]",
    ),
    "11 in context": (
        [{"type": "context", "elements": [mrkdwn("x")] * 11}],
        "no more than 10 items allowed [json-pointer:/blocks/0/elements]",
    ),
    "26 buttons": (
        [actions(*(button(f"a{i}") for i in range(26)))],
        "no more than 25 items allowed [json-pointer:/blocks/0/elements]",
    ),
    "long block_id": (
        [actions(block_id="x" * 256)],
        "must be less than 256 characters [json-pointer:/blocks/0/block_id]",
    ),
    "block_id twice": ([actions(), actions()], "block_id already exists: acts [json-pointer:/blocks]"),
    "action_id twice": (
        [actions(button(), button())],
        "action_id already exists: approve [json-pointer:/blocks]",
    ),
    "long action_id": (
        [actions(button("x" * 256))],
        "must be less than 256 characters [json-pointer:/blocks/0/elements/0/action_id]",
    ),
    "long button value": (
        [actions(button(value="x" * 2001))],
        "must be less than 2001 characters [json-pointer:/blocks/0/elements/0/value]",
    ),
    "long button text": (
        [actions(button(text=plain("x" * 76)))],
        "must be less than 76 characters [json-pointer:/blocks/0/elements/0/text/text]",
    ),
    "green button": (
        [actions(button(style="green"))],
        "must be a valid enum value: green [json-pointer:/blocks/0/elements/0/style]",
    ),
    "unknown element": (
        [actions({"type": "slider"})],
        "unsupported type: slider [json-pointer:/blocks/0/elements/0/type]",
    ),
    "text input among actions": (
        [actions(TYPED)],
        "unsupported type: plain_text_input [json-pointer:/blocks/0/elements/0/type]",
    ),
    "button in an input": (
        [asked("q", button())],
        "unsupported type: button [json-pointer:/blocks/0/element/type]",
    ),
    "input without label": (
        [{"type": "input", "element": TYPED}],
        "missing required field: label [json-pointer:/blocks/0]",
    ),
    "6 in overflow": (
        [actions({"type": "overflow", "options": [option(str(i)) for i in range(6)]})],
        "no more than 5 items allowed [json-pointer:/blocks/0/elements/0/options]",
    ),
    "11 radio buttons": (
        [asked("q", {**RADIO, "options": [option(str(i)) for i in range(11)]})],
        "no more than 10 items allowed [json-pointer:/blocks/0/element/options]",
    ),
    "long option value": (
        [asked("q", {**RADIO, "options": [option("x" * 151)]})],
        "must be less than 151 characters [json-pointer:/blocks/0/element/options/0/value]",
    ),
    "long option text": (
        [asked("q", {**RADIO, "options": [option("x", "x" * 76)]})],
        "must be less than 76 characters [json-pointer:/blocks/0/element/options/0/text/text]",
    ),
    "101 in a menu": (
        [asked("q", {"type": "static_select", "options": [option(str(i)) for i in range(101)]})],
        "no more than 100 items allowed [json-pointer:/blocks/0/element/options]",
    ),
    "initial option of its own": (
        [asked("q", {**RADIO, "initial_option": option("c")})],
        "initial option must match one of the options [json-pointer:/blocks/0/element]",
    ),
    "long placeholder": (
        [asked("q", {**TYPED, "placeholder": plain("x" * 151)})],
        "must be less than 151 characters [json-pointer:/blocks/0/element/placeholder/text]",
    ),
    "max_length": (
        [asked("q", {**TYPED, "max_length": 3001})],
        "must be an integer from 1 to 3000 [json-pointer:/blocks/0/element/max_length]",
    ),
    "confirm without deny": (
        [actions(button(confirm={"title": plain("?"), "text": plain("?"), "confirm": plain("y")}))],
        "missing required field: deny [json-pointer:/blocks/0/elements/0/confirm]",
    ),
    "empty rich text run": (
        [rich(inline({"type": "text", "text": ""}))],
        "must be more than 0 characters [json-pointer:/blocks/0/elements/0/elements/0/text]",
    ),
    "mention in preformatted": (
        [rich({"type": "rich_text_preformatted", "elements": [{"type": "user", "user_id": "U1"}]})],
        "unsupported type: user [json-pointer:/blocks/0/elements/0/elements/0/type]",
    ),
    "text without a section": (
        [rich({"type": "text", "text": "x"})],
        "unsupported type: text [json-pointer:/blocks/0/elements/0/type]",
    ),
    "markdown in sum": (
        [{"type": "markdown", "text": "x" * 6001}] * 2,
        "markdown text must be less than 12001 characters in total [json-pointer:/blocks]",
    ),
    "101 rows": (
        [{"type": "table", "rows": [[{"type": "raw_text", "text": "a"}]] * 101}],
        "no more than 100 items allowed [json-pointer:/blocks/0/rows]",
    ),
    "two tables": (
        [{"type": "table", "rows": [[{"type": "raw_text", "text": "a"}]]}] * 2,
        "only one table is allowed [json-pointer:/blocks]",
    ),
    "11 in a container": (
        [{"type": "container", "title": plain("x"), "child_blocks": [section()] * 11}],
        "no more than 10 items allowed [json-pointer:/blocks/0/child_blocks]",
    ),
    "rich text in a container": (
        [
            {
                "type": "container",
                "title": plain("x"),
                "child_blocks": [rich(inline({"type": "text", "text": "x"}))],
            }
        ],
        "unsupported type: rich_text [json-pointer:/blocks/0/child_blocks/0/type]",
    ),
    "collapsed but not collapsible": (
        [{"type": "container", "title": plain("x"), "default_collapsed": True, "child_blocks": [section()]}],
        "requires is_collapsible [json-pointer:/blocks/0/default_collapsed]",
    ),
    "alert in a message": (
        [{"type": "alert", "text": plain("x")}],
        "unsupported type: alert [json-pointer:/blocks/0/type]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_blocks_beyond_a_limit_are_refused(name: str) -> None:
    """Each limit names the place it was broken, as response_metadata does."""
    blocks, complaint = REFUSED[name]
    assert problems(blocks, "message") == [f"[ERROR] {complaint}"]


VIEWS: dict[str, tuple[Json, str]] = {
    "long title": (
        {**MODAL, "title": plain("x" * 25)},
        "must be less than 25 characters [json-pointer:/view/title/text]",
    ),
    "no title": (
        {k: v for k, v in MODAL.items() if k != "title"},
        "missing required field: title [json-pointer:/view]",
    ),
    "long metadata": (
        {**MODAL, "private_metadata": "x" * 3001},
        "must be less than 3001 characters [json-pointer:/view/private_metadata]",
    ),
    "101 blocks": (
        {**MODAL, "blocks": [section()] * 101},
        "no more than 100 items allowed [json-pointer:/view/blocks]",
    ),
    "input without submit": (
        {k: v for k, v in MODAL.items() if k != "submit"},
        "missing required field: submit [json-pointer:/view]",
    ),
    "markdown": (
        {**MODAL, "blocks": [{"type": "markdown", "text": "x"}]},
        "unsupported type: markdown [json-pointer:/view/blocks/0/type]",
    ),
    "table": (
        {**MODAL, "blocks": [{"type": "table", "rows": []}]},
        "unsupported type: table [json-pointer:/view/blocks/0/type]",
    ),
    "container": (
        {**MODAL, "blocks": [{"type": "container"}]},
        "unsupported type: container [json-pointer:/view/blocks/0/type]",
    ),
    "unknown field": (
        {**MODAL, "colour": "x"},
        "invalid additional property: colour [json-pointer:/view/colour]",
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_beyond_a_limit_are_refused(name: str) -> None:
    """A modal has limits and blocks of its own."""
    view, complaint = VIEWS[name]
    assert view_problems(view, "modal") == [f"[ERROR] {complaint}"]


PINGS: list[tuple[str, list[Json], set[str]]] = [
    ("<@U1> and <@U2|mei>", [], {"U1", "U2"}),
    ("<!channel> <!here|here> <!everyone> <!subteam^S1>", [], {"channel", "here", "everyone", "S1"}),
    ("&lt;!channel&gt; @here", [], set()),
    ("x", [section("<@U3>")], {"U3"}),
    ("x", [{"type": "section", "text": plain("<!channel>")}], set()),
    ("x", [{"type": "markdown", "text": "`<!here>`"}], {"here"}),
    ("x", [rich(inline({"type": "broadcast", "range": "channel"}))], {"channel"}),
    (
        "x",
        [rich(inline({"type": "usergroup", "usergroup_id": "S2"}, {"type": "user", "user_id": "U4"}))],
        {"S2", "U4"},
    ),
    ("x", [rich(inline({"type": "text", "text": "<!channel>"}))], set()),
]


@pytest.mark.parametrize(("words", "blocks", "expected"), PINGS)
def test_what_would_notify_somebody(words: str, blocks: list[Json], expected: set[str]) -> None:
    """Tokens fire in mrkdwn, markdown and as rich text elements; never escaped, nor in plain text."""
    assert pings(words, blocks) == expected


# ---- the Web API, through the real client


async def _post_errors(slack: FakeSlack, client: AsyncWebClient) -> dict[str, Any]:
    slack.add_channel("old", archived=True)
    slack.add_channel("else", bot_member=False)
    slack.add_channel("secret", kind="group", bot_member=False)
    slack.add_channel("news", restricted=True)
    post = client.chat_postMessage
    calls = {
        "no_text": post(channel="COPS", text=" "),
        "channel_not_found": post(channel="GSECRET", text="x"),
        "is_archived": post(channel="COLD", text="x"),
        "not_in_channel": post(channel="CELSE", text="x"),
        "restricted_action": post(channel="CNEWS", text="x"),
        "msg_too_long": post(channel="COPS", text="x" * 40_001),
        "invalid_blocks": post(channel="COPS", text="x", blocks=[section("x" * 3001)]),
        "msg_blocks_too_long": post(channel="COPS", text="x", blocks=[section("x" * 2900)] * 5),
        "cannot_reply_to_message": post(channel="COPS", text="x", thread_ts="1.000001"),
        "invalid_metadata_format": post(channel="COPS", text="x", metadata={"event_type": "x"}),
        "message_not_found": client.chat_update(channel="COPS", ts="1.000001", text="x"),
        "unknown_method": client.api_call("chat.nothing"),
    }
    return {name: await refusal(call) for name, call in calls.items()}


def test_every_refusal_of_a_message_has_its_error(slack: FakeSlack) -> None:
    """The client raises the documented error code, with the place for invalid blocks."""

    async def body() -> None:
        answers = await _post_errors(slack, AsyncWebClient(slack.bot_token, base_url=slack.api_url))
        assert {name: answer["error"] for name, answer in answers.items()} == {name: name for name in answers}
        assert answers["invalid_blocks"]["response_metadata"]["messages"] == [
            "[ERROR] must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
        ]
        stranger = AsyncWebClient("xoxb-other", base_url=slack.api_url)
        assert (await refusal(stranger.auth_test()))["error"] == "invalid_auth"
        assert slack.messages("COPS") == []

    run(body())


def test_a_message_is_posted_updated_and_deleted(slack: FakeSlack) -> None:
    """Metadata outlives an update, text alone removes the blocks, 4,000 characters are the end."""

    async def body() -> None:
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
        mark = {"event_type": "card", "event_payload": {"id": "7"}}
        posted = await client.chat_postMessage(
            channel="COPS", text="<@ULIN>", blocks=[section("<!here>")], metadata=mark
        )
        place = {"channel": "COPS", "ts": posted["ts"]}
        assert slack.message(**place).pings == {"ULIN", "here"}
        assert (await refusal(client.chat_update(**place, text="x" * 4001)))["error"] == "msg_too_long"
        await client.chat_update(**place, text="done <@UMEI>")
        kept = slack.message(**place)
        assert (kept.text, kept.blocks, kept.metadata, kept.edits) == ("done <@UMEI>", [], mark, 1)
        assert kept.pings == {"ULIN", "here"}
        await client.chat_postMessage(channel="COPS", text="reply", thread_ts=posted["ts"])
        page = await client.conversations_replies(**place, include_all_metadata=True, limit=1)
        assert [one["metadata"] for one in page["messages"]] == [mark]
        page = await client.conversations_replies(
            **place, limit=1, cursor=page["response_metadata"]["next_cursor"]
        )
        assert [(one["text"], page["has_more"]) for one in page["messages"]] == [("reply", False)]
        said = slack.say("ULIN", "COPS", "mine")
        assert (await refusal(client.chat_update(channel="COPS", ts=said.ts, text="x")))["error"] == (
            "cant_update_message"
        )
        await client.chat_delete(**place)
        assert [one.text for one in slack.messages("COPS")] == ["reply", "mine"]

    run(body())


def test_people_groups_and_files(slack: FakeSlack) -> None:
    """Profiles say guest, stranger, deactivated; a file is shared only after its whole content came."""

    async def body() -> None:
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
        slack.add_user("guest", is_ultra_restricted=True, locale="ja-JP")
        slack.add_user("far", team_id="T0FAR", is_stranger=True)
        slack.add_group("oncall", ["ULIN"])
        guest = (await client.users_info(user="UGUEST", include_locale=True))["user"]
        far = (await client.users_info(user="UFAR"))["user"]
        assert (guest["is_ultra_restricted"], guest["locale"]) == (True, "ja-JP")
        assert (far["is_stranger"], far["team_id"]) == (True, "T0FAR")
        assert (await client.usergroups_users_list(usergroup="SONCALL"))["users"] == ["ULIN"]
        root = slack.say("ULIN", "COPS", "hello")
        await client.files_upload_v2(
            channel="COPS", thread_ts=root.ts, filename="in.txt", content="x" * 50_000
        )
        shared = slack.posts("COPS", root.ts)[0]
        assert [(one["name"], one["size"]) for one in shared.files] == [("in.txt", 50_000)]
        slot = await client.files_getUploadURLExternal(filename="half.txt", length=3)
        unsent = client.files_completeUploadExternal(files=[{"id": slot["file_id"]}], channel_id="COPS")
        assert (await refusal(unsent))["error"] == "file_not_found"

    run(body())


def test_one_message_a_second_and_channel_with_a_burst() -> None:
    """The next message gets 429 with Retry-After; time refills, and other channels are not held back."""

    async def body() -> None:
        with FakeSlack(rate=1.0, burst=2) as slack:
            one, two = slack.add_channel("one"), slack.add_channel("two")
            client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
            for _ in range(2):
                await client.chat_postMessage(channel=one, text="x")
            refused = await refusal(client.chat_postMessage(channel=one, text="x"))
            assert (refused.status_code, refused["error"], refused.headers["Retry-After"]) == (
                429,
                "ratelimited",
                "1",
            )
            await client.chat_postMessage(channel=two, text="x")
            slack.pass_time(1)
            await client.chat_postMessage(channel=one, text="x")

    run(body())


def test_injected_faults_come_once(slack: FakeSlack) -> None:
    """An error, a 429, a lost answer and a hang each take the calls they were given, no more."""

    async def body() -> None:
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        slack.fail("chat.postMessage", "ratelimited", retry_after=7)
        refused = await refusal(client.chat_postMessage(channel="COPS", text="a"))
        assert refused.headers["Retry-After"] == "7"
        slack.lose_answer("chat.postMessage")
        with pytest.raises(Exception, match=r"[Dd]isconnected"):
            await client.chat_postMessage(channel="COPS", text="b")
        slack.hang("chat.postMessage", 0.2)
        began = asyncio.get_running_loop().time()
        await client.chat_postMessage(channel="COPS", text="c")
        assert asyncio.get_running_loop().time() - began >= 0.2
        assert [one.text for one in slack.posts("COPS")] == ["b", "c"]

    run(body())


# ---- Socket Mode, through the real Bolt


def test_a_mention_is_two_events_and_own_posts_come_back(slack: FakeSlack) -> None:
    """app_mention and message have different event ids; the bot's own message has its bot_id."""
    seen: list[Json] = []

    def register(app: AsyncApp) -> None:
        async def note(body: Json, next: Any) -> None:  # noqa: A002  Bolt passes it by this name
            seen.append(body)
            await next()

        app.use(note)

    async def body() -> None:
        async with bolt(slack, register) as app:
            slack.say("ULIN", "COPS", "restart", mention=True)
            slack.say("ULIN", slack.im("ULIN"), "hi", mention=True)
            await app.client.chat_postMessage(channel="COPS", text="on it")
            await slack.eventually(lambda: len(slack.deliveries) == 4 and slack.idle())

    run(body())
    assert len(seen) == 3  # Bolt keeps the bot's own message from listeners, by its bot_id
    sent = [one.payload for one in slack.deliveries]
    events = [
        (one["event"]["type"], one["event"].get("channel_type"), one["event"].get("bot_id")) for one in sent
    ]
    expected = [("app_mention", None, None), ("message", "channel", None), ("message", "im", None)]
    assert sorted(events, key=str) == sorted([*expected, ("message", "channel", "B0BOT")], key=str)
    assert len({one["event_id"] for one in sent}) == 4
    assert slack.late == []


def test_a_click_opens_a_modal_and_its_submission_is_validated(slack: FakeSlack) -> None:
    """Trigger, single use, expiry, errors by block, then the modal closes; values come in the state."""
    heard: list[Any] = []
    outcomes: list[str] = []

    def register(app: AsyncApp) -> None:
        async def clicked(ack: Any, body: Json, client: AsyncWebClient) -> None:
            await ack()
            await client.views_open(trigger_id=body["trigger_id"], view=MODAL)
            again = await refusal(client.views_open(trigger_id=body["trigger_id"], view=MODAL))
            outcomes.append(again["error"])

        async def slow(ack: Any, body: Json, client: AsyncWebClient) -> None:
            await ack()
            slack.pass_time(3.1)
            outcomes.append(
                (await refusal(client.views_open(trigger_id=body["trigger_id"], view=MODAL)))["error"]
            )

        async def submitted(ack: Any, view: Json) -> None:
            words = view["state"]["values"]["why"]["words"]["value"]
            heard.append(words)
            if words == "no":
                await ack(response_action="errors", errors={"why": "Say why"})
            else:
                await ack()

        app.action("reject")(clicked)
        app.action("slow")(slow)
        app.view("reject")(submitted)

    async def body() -> None:
        async with bolt(slack, register) as app:
            buttons = [actions(button("reject"), button("slow"))]
            await app.client.chat_postMessage(channel="COPS", text="x", blocks=buttons)
            card = slack.posts("COPS")[0]
            click = await slack.click("ULIN", card, "reject")
            assert click.acked
            modal = await slack.eventually(lambda: slack.modal("ULIN"))
            with pytest.raises(AssertionError, match="required"):
                slack.submit("ULIN", modal)
            first = await slack.submit("ULIN", modal, {"why": "no"})
            assert (first.response_action, first.errors) == ("errors", {"why": "Say why"})
            assert slack.modal("ULIN").id == modal.id
            second = await slack.submit("ULIN", modal, {"why": {"words": "use the canary"}})
            assert (second.response_action, second.error, slack.views) == (None, None, {})
            await slack.click("ULIN", card, "slow")
            await slack.eventually(lambda: len(outcomes) == 2)

    run(body())
    assert (heard, outcomes) == (["no", "use the canary"], ["exchanged_trigger_id", "expired_trigger_id"])


def test_a_question_is_filled_without_firing_and_read_from_the_state(slack: FakeSlack) -> None:
    """Nothing in an input block fires on a tick; Submit carries everything, untouched fields as null."""
    seen: list[Json] = []

    def register(app: AsyncApp) -> None:
        async def sent(ack: Any, body: Json) -> None:
            seen.append(body)
            await ack()

        app.action("send")(sent)
        app.action("ticks")(sent)

    async def body() -> None:
        async with bolt(slack, register) as app:
            questions = [
                asked("db", RADIO),
                asked("env", TICKS),
                asked("other", TYPED),
                actions(button("send")),
            ]
            loose = actions(TICKS, block_id="loose")
            await app.client.chat_postMessage(channel="COPS", text="x", blocks=[*questions, loose])
            card = slack.posts("COPS")[0]
            assert slack.fill("ULIN", card, "db", "Postgres") is None
            assert slack.fill("ULIN", card, "env", "x", "z") is None
            fired = slack.fill("ULIN", card, "loose", "y")
            assert fired is not None
            assert (await fired).acked
            await slack.click("ULIN", card, "send")

    run(body())
    values = seen[1]["state"]["values"]
    assert values["db"] == {"pick": {"type": "radio_buttons", "selected_option": option("a", "Postgres")}}
    assert [one["value"] for one in values["env"]["ticks"]["selected_options"]] == ["x", "z"]
    assert values["other"] == {"words": {"type": "plain_text_input", "value": None}}
    assert [one["value"] for one in seen[0]["actions"][0]["selected_options"]] == ["y"]


def test_a_late_click_is_an_error_and_a_late_event_is_sent_again(hasty: FakeSlack) -> None:
    """Clicks are never re-sent; an event comes back with the same id and its number of retries."""
    seen: list[tuple[str, str]] = []

    def register(app: AsyncApp) -> None:
        async def slow(ack: Any) -> None:
            await asyncio.sleep(1.5)
            await ack()

        async def stuck(req: AsyncBoltRequest, body: Json, next: Any) -> Any:  # noqa: A002  Bolt's name
            if body.get("event", {}).get("text") == "later":
                seen.append((body["event_id"], req.headers["x-slack-retry-num"][0]))
                if len(seen) < 3:
                    await asyncio.sleep(1.5)
            return await next()

        app.use(stuck)
        app.action("approve")(slow)

    async def body() -> None:
        async with bolt(hasty, register) as app:
            await app.client.chat_postMessage(channel="COPS", text="x", blocks=[actions()])
            click = await hasty.click("ULIN", hasty.posts("COPS")[0], "approve")
            assert (click.acked, len(click.attempts), click.error) == (
                False,
                1,
                "This app responded with an error",
            )
            await hasty.eventually(lambda: [one.ms for one in hasty.late if one.ms and one.ms > 1000])
            hasty.say("ULIN", "COPS", "later")
            await hasty.eventually(lambda: len(seen) == 3 and hasty.idle())

    run(body())
    assert [number for _, number in seen] == ["0", "1", "2"]
    assert len({event for event, _ in seen}) == 1
    assert [(one.kind, one.reason) for one in hasty.late] == [
        ("interactive", "timeout"),
        ("events_api", "timeout"),
        ("events_api", "timeout"),
    ]


def test_two_connections_share_the_payloads(slack: FakeSlack) -> None:
    """Each payload goes to one of the connections, and over time both get some."""
    served: list[str] = []

    def named(name: str) -> Callable[[AsyncApp], None]:
        def register(app: AsyncApp) -> None:
            async def clicked(ack: Any) -> None:
                served.append(name)
                await ack()

            app.action("approve")(clicked)

        return register

    async def body() -> None:
        async with bolt(slack, named("a")) as app, bolt(slack, named("b")):
            await slack.eventually(lambda: len(slack.sockets) == 2)
            await app.client.chat_postMessage(channel="COPS", text="x", blocks=[actions()])
            card = slack.posts("COPS")[0]
            for _ in range(12):
                assert (await slack.click("ULIN", card, "approve")).acked

    run(body())
    assert (len(served), set(served)) == (12, {"a", "b"})


@pytest.mark.parametrize("loss", ["refresh", "killed", "deaf"])
def test_the_client_comes_back_after_a_lost_connection(slack: FakeSlack, loss: str) -> None:
    """A disconnect frame, a cut connection and unanswered pings each lead to a new connection."""

    def register(app: AsyncApp) -> None:
        async def clicked(ack: Any) -> None:
            await ack()

        app.action("approve")(clicked)

    async def body() -> None:
        async with bolt(slack, register) as app:
            first = slack.sockets[0]
            if loss == "refresh":
                slack.disconnect("refresh_requested")
            elif loss == "killed":
                first.kill()
            else:
                first.answers_pings = False
            await slack.eventually(lambda: slack.sockets and slack.sockets[0] is not first, 10)
            await app.client.chat_postMessage(channel="COPS", text="x", blocks=[actions()])
            assert (await slack.click("ULIN", slack.posts("COPS")[0], "approve")).acked

    run(body())


def test_commands_home_assistant_and_response_urls(slack: FakeSlack) -> None:
    """The other ways in, and a response_url that is private by default and good for five uses."""
    urls: list[str] = []
    seen: list[str] = []

    def register(app: AsyncApp) -> None:
        async def command(ack: Any, body: Json) -> None:
            urls.append(body["response_url"])
            await ack(f"taken: {body['text']}")

        async def home(event: Json, client: AsyncWebClient) -> None:
            view = {"type": "home", "blocks": [section("nothing waits")]}
            await client.views_publish(user_id=event["user"], view=view)

        async def assistant(event: Json, client: AsyncWebClient) -> None:
            thread = event["assistant_thread"]
            place = {"channel_id": thread["channel_id"], "thread_ts": thread["thread_ts"]}
            await client.assistant_threads_setStatus(**place, status="working")
            seen.append(thread["user_id"])

        app.command("/countersign")(command)
        app.event("app_home_opened")(home)
        app.event("assistant_thread_started")(assistant)

    async def body() -> None:
        async with bolt(slack, register):
            assert (await slack.command("ULIN", "COPS", "status")).acked
            assert [(one.text, one.ephemeral_to) for one in slack.ephemerals] == [("taken: status", "ULIN")]
            assert (await slack.open_home("UMEI")).acked
            await slack.eventually(lambda: slack.homes["UMEI"])
            root = slack.open_assistant("UMEI")
            await slack.eventually(lambda: slack.assistant[root.channel, root.ts] == {"status": "working"})
            hook = AsyncWebhookClient(urls[0])
            codes = [(await hook.send(text="private")).status_code for _ in range(6)]
            assert codes == [200] * 5 + [404]

    run(body())
    assert seen == ["UMEI"]
    assert [one.text for one in slack.ephemerals[1:]] == ["private"] * 5


# ---- signed HTTP, through the real Bolt


def test_signed_http_is_accepted_and_a_tampered_body_is_not() -> None:
    """Bolt verifies the signature of events, clicks and commands; with another secret it answers 401."""
    heard: list[str] = []

    async def body() -> None:
        with FakeSlack(deliver="http", pace=0) as slack:
            slack.add_user("lin")
            ops = slack.add_channel("ops")
            client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
            app = AsyncApp(client=client, signing_secret=slack.signing_secret)

            async def mention(event: Json) -> None:
                heard.append(event["text"])

            async def clicked(ack: Any) -> None:
                await ack()

            async def message() -> None:
                pass

            app.event("app_mention")(mention)
            app.event("message")(message)
            app.action("approve")(clicked)
            server = app.server(port=0, path="/slack/events").web_app
            runner = web.AppRunner(server, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            slack.url = f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
            slack.say("ULIN", ops, "restart", mention=True)
            await slack.eventually(lambda: heard and slack.idle())
            await client.chat_postMessage(channel=ops, text="x", blocks=[actions()])
            card = slack.posts(ops)[0]
            assert (await slack.click("ULIN", card, "approve")).acked
            slack._wire.secret = "another"
            click = await slack.click("ULIN", card, "approve")
            assert (click.acked, click.attempts[0].reason) == (False, "http_error")
            await runner.cleanup()

    run(body())
    assert heard == ["<@U0BOT> restart"]


def test_the_fake_can_be_used_without_a_loop(slack: FakeSlack) -> None:
    """A sync test waits by `wait_for`, and by reading a click; inside a loop that is refused."""

    def register(app: AsyncApp) -> None:
        async def clicked(ack: Any) -> None:
            await ack()

        app.action("approve")(clicked)

    stop = threading.Event()

    async def serve() -> None:
        async with bolt(slack, register) as app:
            await app.client.chat_postMessage(channel="COPS", text="x", blocks=[actions()])
            await asyncio.to_thread(stop.wait, 10)

    thread = threading.Thread(target=lambda: run(serve()))
    thread.start()
    try:
        card = slack.wait_for(lambda: slack.posts("COPS")[0])
        assert card.buttons == {"approve": "Approve"}
        click = slack.click("ULIN", card, "approve")
        assert click.acked
        assert click.ack_ms is not None
        assert click.ack_ms < 3000
    finally:
        stop.set()
        thread.join()

    async def inside() -> None:
        with pytest.raises(RuntimeError, match="await"):
            slack.wait_for(lambda: True)

    run(inside())


def test_a_stale_copy_can_be_clicked_and_an_absent_button_cannot(slack: FakeSlack) -> None:
    """Another person's screen may still show the old card; the payload carries what was clicked."""

    async def body() -> None:
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
        await client.chat_postMessage(channel="COPS", text="x", blocks=[actions()])
        stale = slack.posts("COPS")[0]
        await client.chat_update(channel="COPS", ts=stale.ts, text="done", blocks=[section("done")])
        click = await slack.click("ULIN", stale, "approve")
        assert click.payload["actions"][0]["value"] == "7:1"
        assert click.payload["message"]["text"] == "done"
        assert (click.acked, click.attempts[0].reason) == (False, "connection_failed")
        with pytest.raises(AssertionError, match="0 elements"):
            slack.click("ULIN", slack.posts("COPS")[0], "approve")

    run(body())


def test_modals_stack_three_deep_and_are_updated_by_hash(slack: FakeSlack) -> None:
    """A fourth view, an old hash, a used external id and a closed view are refused; typed words stay."""

    async def body() -> None:
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
        await client.chat_postMessage(channel="COPS", text="x", blocks=[actions()])
        card = slack.posts("COPS")[0]

        async def trigger() -> str:
            return str((await slack.click("ULIN", card, "approve")).payload["trigger_id"])

        opened = (await client.views_open(trigger_id=await trigger(), view={**MODAL, "external_id": "e"}))[
            "view"
        ]
        slack.fill("ULIN", slack.modal("ULIN"), "why", "half a word")
        place = {"view_id": opened["id"], "view": {**MODAL, "title": plain("Now")}}
        updated = (await client.views_update(**place, hash=opened["hash"]))["view"]
        assert updated["state"]["values"]["why"]["words"]["value"] == "half a word"
        assert (await refusal(client.views_update(**place, hash=opened["hash"])))["error"] == "hash_conflict"
        for _ in range(2):
            await client.views_push(trigger_id=await trigger(), view=MODAL)
        full = await refusal(client.views_push(trigger_id=await trigger(), view=MODAL))
        assert full["error"] == "push_limit_reached"
        bad = await refusal(
            client.views_open(trigger_id=await trigger(), view={**MODAL, "title": plain("x" * 25)})
        )
        assert bad["error"] == "invalid_arguments"
        for view in reversed([*slack.views.values()]):
            slack.close("ULIN", view)
        assert (await refusal(client.views_update(**place)))["error"] == "not_found"

    run(body())


def test_edits_deletions_overflow_and_response_urls(slack: FakeSlack) -> None:
    """message_changed and message_deleted name the message; an overflow entry and replace_original work."""

    async def body() -> None:
        client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
        said = slack.say("ULIN", "COPS", "restart it", old_by=3600)
        slack.edit("ULIN", said, "stop it")
        slack.delete("ULIN", said)
        events = [one.payload["event"] for one in slack.deliveries]
        assert [(one.get("subtype"), one.get("deleted_ts")) for one in events] == [
            (None, None),
            ("message_changed", None),
            ("message_deleted", said.ts),
        ]
        assert (events[1]["message"]["text"], events[1]["previous_message"]["text"]) == (
            "stop it",
            "restart it",
        )
        assert float(events[2]["ts"]) - float(said.ts) > 3599
        menu = {"type": "overflow", "action_id": "always", "options": [option("task", "For this task")]}
        await client.chat_postMessage(channel="COPS", text="x", blocks=[actions(menu)])
        card = slack.posts("COPS")[0]
        picked = await slack.overflow("UMEI", card, "always", "For this task")
        assert picked.payload["actions"][0]["selected_option"]["value"] == "task"
        hook = AsyncWebhookClient(picked.payload["response_url"])
        await hook.send(text="done", replace_original=True)
        assert [(one.text, one.blocks, one.edits) for one in slack.posts("COPS")] == [("done", [], 1)]
        late = AsyncWebhookClient(
            (await slack.overflow("UMEI", card, "always", "task")).payload["response_url"]
        )
        slack.pass_time(1801)
        assert (await late.send(text="x")).status_code == 404

    run(body())


def test_only_granted_scopes_and_subscribed_events() -> None:
    """A manifest's lists are enough or they are not: missing_scope, and silence."""

    async def body() -> None:
        scopes = ["chat:write", "im:history", "app_mentions:read"]
        events = ["app_mention", "message.channels"]  # the latter without its scope
        with FakeSlack(scopes=scopes, events=events, pace=0) as slack:
            slack.add_user("lin")
            ops = slack.add_channel("ops")
            client = AsyncWebClient(slack.bot_token, base_url=slack.api_url)
            said = slack.say("ULIN", ops, "hello", mention=True)
            assert [one.payload["event"]["type"] for one in slack.deliveries] == ["app_mention"]
            direct = slack.say("ULIN", slack.im("ULIN"), "hello")
            await client.conversations_replies(channel=slack.im("ULIN"), ts=direct.ts)
            refused = await refusal(client.conversations_replies(channel=ops, ts=said.ts))
            assert refused["error"] == "missing_scope"
            assert (await client.auth_test()).headers["x-oauth-scopes"] == ",".join(scopes)
            with pytest.raises(AssertionError, match="/countersign is not a valid command"):
                slack.command("ULIN", ops, "help")

    run(body())


def test_an_invitation_brings_the_mention_that_led_to_it() -> None:
    """Before it nothing is heard in that channel; then that mention, and all that is said later."""
    with FakeSlack(pace=0) as slack:
        lin, ops = slack.add_user("lin"), slack.add_channel("ops", bot_member=False)
        said = slack.say(lin, ops, "hello", mention=True)
        assert slack.deliveries == []
        slack.invite(said)
        slack.say(lin, ops, "later")
        heard = [one.payload["event"] for one in slack.deliveries]
        assert [(one["type"], one["ts"] == said.ts) for one in heard] == [
            ("app_mention", True),
            ("message", False),
        ]


def test_a_socket_that_lives_but_carries_nothing(hasty: FakeSlack) -> None:
    """Clicks can be lost on the way while the connection looks healthy, and delivered twice later."""
    heard: list[str] = []

    def register(app: AsyncApp) -> None:
        async def clicked(ack: Any, body: Json) -> None:
            heard.append(body["trigger_id"])
            await ack()

        app.action("approve")(clicked)

    async def body() -> None:
        async with bolt(hasty, register) as app:
            await app.client.chat_postMessage(channel="COPS", text="x", blocks=[actions()])
            hasty.lose("interactive")
            click = await hasty.click("ULIN", hasty.posts("COPS")[0], "approve")
            assert (click.acked, heard, len(hasty.sockets)) == (False, [], 1)
            hasty.lose()
            assert (await hasty.redeliver(click)).acked
            assert (await hasty.redeliver(click)).acked

    run(body())
    assert len(heard) == 2
    assert len(set(heard)) == 1
