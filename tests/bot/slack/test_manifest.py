"""The manifest asks for what the bot uses: all of it works with that, and nothing can be left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_runner.errors import FixConfiguration
from agent_runner.model import InquiryState
from bot.cli import main
from bot.slack.manifest import EVENTS, SCOPES, Mode, manifest, next_steps, reasons
from tests.bot.slack.conftest import Scene, text_of
from tests.fakes.slack import EVENT_SCOPES
from tests.fakes.values import an_inquiry

Make = Callable[..., Scene]
Part = Callable[[Scene], None]

NIGHT = "S0NIGHT"


@pytest.fixture
def installed(scene: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Scene]:
    """Makes a workspace with an app that was granted this and no more; waits take at most `seconds`."""
    monkeypatch.setattr("bot.kept_groups.EVERY", 0.05)

    def make(scopes: Collection[str], events: Collection[str], seconds: float) -> Scene:
        s = scene(fake={"scopes": scopes, "events": events}, chat={"groups": {"night": NIGHT}})
        s.slack.add_group("night", [s.eve], NIGHT)
        monkeypatch.setattr(s, "until", lambda condition: s.slack.wait_for(condition, seconds))
        return s

    return make


# --- the main story in parts -----------------------------------------------------------------


def a_mention_a_card_a_click_and_a_result(s: Scene) -> None:
    """In a public channel; somebody who may not is told so alone."""
    thread = s.asked()
    task = s.office.task()
    s.office.asks(task.id, an_inquiry(approvers=("group:oncall",)))
    card = s.card(thread, "request:1")
    s.slack.click(s.gus, card, "approve")
    s.until(lambda: s.whispers(s.gus))
    s.slack.click(s.lin, card, "approve")
    s.until(lambda: not s.office.store.inquiry("i_1").open)
    s.office.ends(task.id)
    assert "All done." in text_of(s.card(thread, "result:2"))


def a_mention_that_led_to_an_invitation(s: Scene) -> None:
    """The bot is invited by what Slack offers after the mention, and does what was said there."""
    elsewhere = s.slack.add_channel("elsewhere", bot_member=False)
    said = s.slack.say(s.mei, elsewhere, "restart it", mention=True)
    s.slack.invite(said)
    s.until(lambda: s.slack.posts(elsewhere, said.ts))


def _words_in(s: Scene, channel: str, *, mention: bool = True) -> None:
    """A job, a request and an answer in words."""
    said = s.slack.say(s.mei, channel, "restart it", mention=mention)
    s.until(lambda: [one for one in s.slack.posts(channel, said.ts) if one.ts != said.ts])
    s.office.asks(s.office.task().id, an_inquiry(approvers=("slack:U01",)))
    s.until(lambda: [one for one in s.slack.posts(channel, said.ts) if one.buttons.get("approve")])
    s.slack.say(s.lin, channel, "1", thread_ts=said.ts)
    s.until(lambda: s.office.store.inquiry("i_1").state is InquiryState.APPROVED)


def words_in_a_public_channel(s: Scene) -> None:
    """Answers in the thread do not mention the bot."""
    _words_in(s, s.ops)


def words_in_a_private_channel(s: Scene) -> None:
    """The same there."""
    _words_in(s, s.slack.add_channel("secret", kind="group"))


def words_in_a_group_message(s: Scene) -> None:
    """The same there."""
    _words_in(s, s.slack.add_channel("three", kind="mpim"))


def words_in_a_direct_message(s: Scene) -> None:
    """A job without a mention."""
    channel = s.slack.im(s.mei)
    s.slack.say(s.mei, channel, "restart it")
    s.until(lambda: s.slack.posts(channel))


def a_slash_command(s: Scene) -> None:
    """It answers to that person alone."""
    s.slack.command(s.mei, s.ops, "status")
    s.until(lambda: s.whispers(s.mei))


def a_file_before_the_button(s: Scene) -> None:
    """What is too long is uploaded, and only then there is a button."""
    thread = s.asked()
    s.office.asks(s.office.task().id, an_inquiry(tool_input={"command": "echo " + "x" * 40_000}))
    s.until(lambda: [one for one in s.posts(thread) if one.files])
    s.until(lambda: [one for one in s.posts(thread) if one.buttons.get("approve")])


def a_user_group_approves(s: Scene) -> None:
    """Who is in it, Slack knows."""
    thread = s.asked()
    s.until(lambda: s.office.registers.groups(["slack"]).get("night"))
    s.office.asks(s.office.task().id, an_inquiry(approvers=("group:night",)))
    s.slack.click(s.eve, s.card(thread, "request:1"), "approve")
    s.until(lambda: s.office.store.inquiry("i_1").state is InquiryState.APPROVED)


def the_home_tab(s: Scene) -> None:
    """It shows something."""
    s.slack.open_home(s.mei)
    s.until(lambda: s.slack.homes.get(s.mei))


def the_assistant_pane(s: Scene) -> None:
    """It suggests something."""
    root = s.slack.open_assistant(s.mei)
    s.until(lambda: s.slack.assistant[root.channel, root.ts]["prompts"])


NEEDED: Mapping[str, Part] = {
    "chat:write": a_mention_a_card_a_click_and_a_result,
    "users:read": a_mention_a_card_a_click_and_a_result,
    "app_mentions:read": a_mention_that_led_to_an_invitation,
    "channels:history": words_in_a_public_channel,
    "groups:history": words_in_a_private_channel,
    "mpim:history": words_in_a_group_message,
    "im:history": words_in_a_direct_message,
    "commands": a_slash_command,
    "files:write": a_file_before_the_button,
    "usergroups:read": a_user_group_approves,
    "assistant:write": the_assistant_pane,
}
"""Scope -> what does not work without it."""

HEARD: Mapping[str, Part] = {
    "app_mention": a_mention_that_led_to_an_invitation,
    "message.channels": words_in_a_public_channel,
    "message.groups": words_in_a_private_channel,
    "message.mpim": words_in_a_group_message,
    "message.im": words_in_a_direct_message,
    "app_home_opened": the_home_tab,
    "assistant_thread_started": the_assistant_pane,
}
"""Event -> what does not work without it."""

PARTS = list(dict.fromkeys([*NEEDED.values(), *HEARD.values()]))
SOON = 1.0
"""Seconds after which a part that cannot work is given up; one that works has ten times as long."""


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_everything_works_with_the_manifest(installed: Callable[..., Scene], part: Part) -> None:
    """An app that has just this hears, shows and does all there is."""
    part(installed(SCOPES, EVENTS, 10 * SOON))


@pytest.mark.parametrize("scope", SCOPES)
def test_no_scope_can_be_left_out(installed: Callable[..., Scene], scope: str) -> None:
    """Without it something of that does not work."""
    s = installed(SCOPES.keys() - {scope}, EVENTS, SOON)
    with pytest.raises((AssertionError, TimeoutError)):
        NEEDED[scope](s)


@pytest.mark.parametrize("event", EVENTS)
def test_no_event_can_be_left_out(installed: Callable[..., Scene], event: str) -> None:
    """Without it something of that does not work."""
    s = installed(SCOPES, EVENTS.keys() - {event}, SOON)
    with pytest.raises((AssertionError, TimeoutError)):
        HEARD[event](s)


def test_each_event_has_its_scope() -> None:
    """What the table says an event needs is what Slack says."""
    assert {name: event.scope for name, event in EVENTS.items() if event.scope} == EVENT_SCOPES
    assert {event.scope for event in EVENTS.values()} - {""} <= SCOPES.keys()


# --- how it is printed -----------------------------------------------------------------------

URL = "https://bot.example.org/slack/events"


def _whole(*, name: str = "Countersign", **http: Any) -> dict[str, Any]:
    """The manifest as it should be; `http` is what stands in three places in that mode."""
    about = "Does real work in a thread, and asks there before each step that needs a person."
    return {
        "display_information": {"name": name, "description": about},
        "features": {
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": name, "always_online": True},
            "slash_commands": [
                {
                    "command": "/countersign",
                    "description": "Ask for a job, or how things stand",
                    "usage_hint": "[what you want done | status | help]",
                    "should_escape": False,
                    **({"url": URL} if http else {}),
                }
            ],
            "assistant_view": {"assistant_description": about, "suggested_prompts": []},
        },
        "oauth_config": {
            "scopes": {
                "bot": [
                    "app_mentions:read",
                    "channels:history",
                    "groups:history",
                    "mpim:history",
                    "im:history",
                    "chat:write",
                    "files:write",
                    "commands",
                    "users:read",
                    "usergroups:read",
                    "assistant:write",
                ]
            }
        },
        "settings": {
            "event_subscriptions": {
                "bot_events": [
                    "app_mention",
                    "message.channels",
                    "message.groups",
                    "message.mpim",
                    "message.im",
                    "app_home_opened",
                    "assistant_thread_started",
                ],
                **http,
            },
            "interactivity": {"is_enabled": True, **http},
            "org_deploy_enabled": False,
            "socket_mode_enabled": not http,
            "token_rotation_enabled": False,
        },
    }


@pytest.mark.parametrize(
    ("config", "flags", "expected"),
    [
        ("", [], _whole()),
        ("", ["--name", "Ops bot"], _whole(name="Ops bot")),
        ("", ["--mode", "http", "--url", "https://bot.example.org"], _whole(request_url=URL)),
        ("", ["--mode", "http", "--url", "https://bot.example.org/"], _whole(request_url=URL)),
        ("", ["--mode", "http", "--url", URL], _whole(request_url=URL)),
        (
            '[web]\npublic_url = "https://bot.example.org"\n[slack]\nmode = "http"\n',
            [],
            _whole(request_url=URL),
        ),
        ('[web]\npublic_url = "https://bot.example.org"\n', [], _whole()),
    ],
)
def test_the_command_prints_it(
    tmp_path: Path, config: str, flags: list[str], expected: dict[str, Any]
) -> None:
    """The manifest alone goes to stdout; why each thing is in it, and how to go on, to stderr."""
    file = tmp_path / "countersign.toml"
    file.write_text(config)
    done = CliRunner().invoke(main, ["slack", "manifest", "--config", str(file), *flags])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == expected
    mode: Mode = "socket" if expected["settings"]["socket_mode_enabled"] else "http"
    assert done.stderr.splitlines() == [*reasons(), "", *next_steps(mode)]


def test_the_reasons_name_everything() -> None:
    """Whoever has to approve the app reads what for, line by line."""
    lines = list(reasons())
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [*SCOPES, *EVENTS]


@pytest.mark.parametrize(
    ("mode", "variable"), [("socket", "SLACK_APP_TOKEN"), ("http", "SLACK_SIGNING_SECRET")]
)
def test_the_next_steps_end_with_the_secrets(mode: Mode, variable: str) -> None:
    """Create, install, set the two variables of that mode, check."""
    text = "\n".join(next_steps(mode))
    steps = [
        text.index(word) for word in ("From a manifest", "SLACK_BOT_TOKEN", variable, "countersign doctor")
    ]
    assert steps == sorted(steps)


@pytest.mark.parametrize("url", ["", "http://bot.example.org"])
def test_http_needs_an_address_that_slack_can_reach(url: str) -> None:
    """Without one there is nothing to paste, and it is said what to do."""
    with pytest.raises(FixConfiguration) as refused:
        manifest(mode="http", public_url=url)
    assert (refused.value.message, refused.value.hint) == (
        "For HTTP, Slack has to reach the bot at an https address.",
        "Set [web] public_url or give --url https://..., or use --mode socket, which needs none.",
    )


@pytest.mark.parametrize("name", ["", "  ", "x" * 36])
def test_a_name_that_slack_refuses(name: str) -> None:
    """It is refused here, before it is pasted."""
    with pytest.raises(FixConfiguration, match="An app's name has 1 to 35 characters"):
        manifest(mode="socket", name=name)
