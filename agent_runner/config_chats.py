"""[slack] and [feishu]: how a chat product is connected. Its secrets come from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from agent_runner.config_report import Table, table
from agent_runner.durations import Duration
from agent_runner.model import Value
from agent_runner.people import People, joined

UNKNOWN_SIZE = 50
"""Members assumed of a group that a platform keeps: how many they are is only known there."""


class Chat(Value):
    """What both products have in common."""

    mode: Literal["socket", "http"] = "socket"
    """How events come in: over a connection that the bot opens, or by signed HTTP to its own page."""
    replies: Literal["all", "mentions"] = "all"
    """Which words in a task's thread are for the agent: all, or those that mention it. Answers to
    a request and words like `stop` count in any case."""
    stale_after: Duration = timedelta(minutes=10)
    """Messages that arrive later than this after they were written are asked about, not executed."""
    interactive: bool = True
    """Whether cards have buttons; false where clicks cannot reach the bot: then numbered lists go out."""
    fallback: str = ""
    """The chat that is told when a task's own thread is gone."""
    groups: dict[str, str] = Field(default_factory=dict)
    """Approver groups that the product keeps: name -> its id there."""


class Slack(Chat):
    """Tokens: SLACK_BOT_TOKEN, and SLACK_APP_TOKEN (socket) or SLACK_SIGNING_SECRET (http)."""

    language: Literal["en", "zh", "ja", ""] = ""
    """The language of this product's cards; empty is the configuration's."""
    api_url: str = Field(default="https://slack.com/api/", pattern=r"^https?://[^\s]+/$")


class Feishu(Chat):
    """Secrets: FEISHU_APP_ID and FEISHU_APP_SECRET; for http also FEISHU_ENCRYPT_KEY."""

    language: Literal["en", "zh", "ja", ""] = "zh"
    domain: str = Field(default="https://open.feishu.cn", pattern=r"^https?://[^\s/]+$")


def with_kept_groups(raw: Table, people: People, platforms: tuple[str, ...]) -> People:
    """[people] as if the groups that platforms keep had members, so that routes may name them."""
    groups: dict[str, list[str]] = {}
    for platform in platforms:
        for name in _names(table(table(raw, platform), "groups")):
            groups[name] = [f"{platform}:member-{n}" for n in range(UNKNOWN_SIZE)]
    return joined(people, groups)


def _names(groups: Mapping[str, Any]) -> list[str]:
    return [name for name, group in groups.items() if isinstance(group, str) and group.strip()]
