"""The app's manifest: just what `bot.slack` uses, each with what it is for.

Its shape is documented at docs.slack.dev/reference/app-manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from agent_runner.errors import FixConfiguration
from bot.slack.app import PATH

SCOPES: Mapping[str, str] = {
    "app_mentions:read": "hears the mention for which it is then invited into a channel",
    "channels:history": "hears what is said in public channels it is in",
    "groups:history": "hears what is said in private channels it is in",
    "mpim:history": "hears what is said in group direct messages it is in",
    "im:history": "hears direct messages, also those of the Assistant pane",
    "chat:write": "posts status, requests and results, and tells one person something privately",
    "files:write": "puts what is too long for a message into the thread as a file",
    "commands": "has a slash command",
    "users:read": "tells members from guests and strangers, and knows people's names",
    "usergroups:read": "knows who is in the user groups that may approve",
    "assistant:write": "is there in the Assistant pane, and suggests something",
}
"""Bot scope -> what the bot does with it (docs.slack.dev/reference/scopes)."""


class Event(NamedTuple):
    """An event the app subscribes to: the scope Slack wants for it, and what it is for."""

    scope: str
    why: str


EVENTS: Mapping[str, Event] = {
    "app_mention": Event("app_mentions:read", "a job for which it is then invited into a channel"),
    "message.channels": Event("channels:history", "jobs, answers and words in public channels"),
    "message.groups": Event("groups:history", "jobs, answers and words in private channels"),
    "message.mpim": Event("mpim:history", "jobs, answers and words in group direct messages"),
    "message.im": Event("im:history", "jobs, answers and words in direct messages and the Assistant pane"),
    "app_home_opened": Event("", "somebody looks at the Home tab: it shows what waits for them"),
    "assistant_thread_started": Event("assistant:write", "somebody opens the Assistant pane"),
}
"""Event -> its scope and purpose (docs.slack.dev/reference/events/<event>, Required Scopes)."""

COMMAND = "/countersign"
NAME = "Countersign"
NAME_CHARS = 35
"""Most characters of an app's name (docs.slack.dev/reference/app-manifest, display_information.name)."""
DESCRIPTION = "Does real work in a thread, and asks there before each step that needs a person."

Mode = Literal["socket", "http"]


def manifest(*, mode: Mode, name: str = NAME, public_url: str = "") -> dict[str, Any]:
    """The manifest as Slack takes it in JSON.

    `public_url` is the page's address from outside, needed for HTTP. Raises `FixConfiguration` if it
    is missing or not https, and for a name that Slack refuses.
    """
    if not 0 < len(name.strip()) <= NAME_CHARS:
        raise FixConfiguration(f"An app's name has 1 to {NAME_CHARS} characters.", hint="Choose another one.")
    address = {} if mode == "socket" else {"request_url": request_url(public_url)}
    command = {"url": address["request_url"]} if address else {}
    return {
        "display_information": {"name": name.strip(), "description": DESCRIPTION},
        "features": {
            "app_home": {
                "home_tab_enabled": True,
                "messages_tab_enabled": True,
                "messages_tab_read_only_enabled": False,
            },
            "bot_user": {"display_name": name.strip(), "always_online": True},
            "slash_commands": [
                {
                    "command": COMMAND,
                    **command,
                    "description": "Ask for a job, or how things stand",
                    "usage_hint": "[what you want done | status | help]",
                    "should_escape": False,
                }
            ],
            "assistant_view": {"assistant_description": DESCRIPTION, "suggested_prompts": []},
        },
        "oauth_config": {"scopes": {"bot": list(SCOPES)}},
        "settings": {
            "event_subscriptions": {**address, "bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True, **address},
            "org_deploy_enabled": False,
            "socket_mode_enabled": mode == "socket",
            "token_rotation_enabled": False,
        },
    }


def request_url(public_url: str) -> str:
    """Where Slack sends everything in HTTP mode; raises `FixConfiguration` if Slack cannot reach that."""
    if not public_url.startswith("https://"):
        raise FixConfiguration(
            "For HTTP, Slack has to reach the bot at an https address.",
            hint="Set [web] public_url or give --url https://..., or use --mode socket, which needs none.",
        )
    return public_url.rstrip("/").removesuffix(PATH) + PATH


def reasons() -> Iterator[str]:
    """What the app asks for and why, a line each: for whoever has to approve it."""
    yield "It asks for these scopes:"
    yield from (f"  {scope:<18} {why}" for scope, why in SCOPES.items())
    yield "and for these events:"
    yield from (f"  {event:<25} {about.why}" for event, about in EVENTS.items())


def next_steps(mode: Mode) -> Iterator[str]:
    """What to do with the manifest, a line each."""
    yield "1. https://api.slack.com/apps: Create New App, From a manifest, paste it, Create."
    yield "2. Install App: install it; then SLACK_BOT_TOKEN is the Bot User OAuth Token (xoxb-...)."
    if mode == "socket":
        yield "3. Basic Information, App-Level Tokens: generate one with connections:write;"
        yield "   SLACK_APP_TOKEN is that token (xapp-...)."
    else:
        yield "3. Basic Information, App Credentials: SLACK_SIGNING_SECRET is the Signing Secret."
        yield "   Slack checks the address when it is saved: start the bot, then save the manifest again."
    yield "Then run: countersign doctor, and with --click CHANNEL to see a click arrive."
