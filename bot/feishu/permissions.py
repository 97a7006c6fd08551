"""What the app needs over there: scopes, events and callbacks, each with what for, and the console's steps.

Feishu has no manifest; its console takes a list of scopes, all else is set by hand. The names of the
console's pages are given in Chinese too, because that is what most people see. Which scope an API or
event wants, its page says: im-v1/message/{create,reply,patch}, im-v1/message/events/receive,
im-v1/file/create, im-v1/chat/get, contact-v3/user/{get,find_by_department,field-overview}.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from agent_runner.errors import FixConfiguration
from bot.feishu.app import PATH
from bot.feishu.inbound import CLICK, MESSAGE

Mode = Literal["socket", "http"]


class Scope(NamedTuple):
    """What the bot does with a scope, and the ones that do as well (the pages name them as alternatives)."""

    why: str
    instead: frozenset[str] = frozenset()


_CONTACTS = frozenset(
    ("contact:contact:readonly_as_app", "contact:contact:access_as_app", "contact:contact:readonly")
)

SCOPES: Mapping[str, Scope] = {
    "im:message": Scope(
        "posts status, requests and results, and keeps its cards up to date",
        frozenset(("im:message:send_as_bot",)),
    ),
    "im:message.p2p_msg:readonly": Scope("hears direct messages", frozenset(("im:message.p2p_msg",))),
    "im:message.group_at_msg:readonly": Scope(
        "hears what mentions it in groups", frozenset(("im:message.group_at_msg", "im:message.group_msg"))
    ),
    "im:resource": Scope(
        "puts what is too long for a card into the thread as a file", frozenset(("im:resource:upload",))
    ),
    "contact:contact.base:readonly": Scope("looks up who somebody is, and who is in a department", _CONTACTS),
    "contact:user.base:readonly": Scope("knows people's names", _CONTACTS),
}
"""Scope of the app itself (tenant) -> what the bot does with it."""

GROUPS: Mapping[str, Scope] = {
    "contact:user.employee:readonly": Scope("leaves out who has left or is locked out", _CONTACTS),
}
"""The same, if departments are approver groups (`[feishu.groups]`): without it their state is not told."""

EVERYTHING = "im:message.group_msg"
"""Sensitive, so an administrator has to be asked for it."""

OPTIONAL: Mapping[str, Scope] = {
    EVERYTHING: Scope("hears answers in a group's threads that do not mention it"),
    "im:chat:readonly": Scope("lets `countersign doctor` look at the fallback chat"),
}
"""What the bot can do without."""

EVENTS: Mapping[str, str] = {MESSAGE: "jobs, answers and words"}
CALLBACKS: Mapping[str, str] = {CLICK: "presses on cards; without it every press shows error 200340"}

VARIABLES: Mapping[str, str] = {
    "FEISHU_APP_ID": "App ID (cli_...)",
    "FEISHU_APP_SECRET": "App Secret",
}
HTTP_VARIABLES: Mapping[str, str] = {
    "FEISHU_ENCRYPT_KEY": "Encrypt Key",
    "FEISHU_VERIFICATION_TOKEN": "Verification Token (a second proof, may be left out)",
}
"""Secret of the environment -> what it is called in the console."""


def request_url(public_url: str) -> str:
    """Where Feishu sends everything in HTTP mode; raises `FixConfiguration` if Feishu cannot reach that."""
    if not public_url.startswith("https://"):
        raise FixConfiguration(
            "For HTTP, Feishu has to reach the bot at an https address.",
            hint="Set [web] public_url or give --url https://..., or use --mode socket, which needs none.",
        )
    return public_url.rstrip("/").removesuffix(PATH) + PATH


def missing(granted: Collection[str], *, groups: bool) -> dict[str, Scope]:
    """The needed scopes of which none that does is granted; `groups`: departments are approver groups."""
    return {
        name: scope
        for name, scope in _needed(groups=groups).items()
        if not ({name} | scope.instead).intersection(granted)
    }


def importable(*, groups: bool) -> dict[str, Any]:
    """The needed scopes as the console's batch import takes them (and its export gives them).

    Its shape is in no reference; it is what the console itself shows, as guides to it quote.
    """
    return {"scopes": {"tenant": [*_needed(groups=groups)], "user": []}}


def _needed(*, groups: bool) -> dict[str, Scope]:
    return {**SCOPES, **(GROUPS if groups else {})}


def steps(*, mode: Mode, domain: str, public_url: str = "") -> Iterator[str]:
    """What to do in the console, a line each.

    `domain` is Feishu's or Lark's own; `public_url` the page's address from outside, needed for HTTP.
    Raises `FixConfiguration` if that is missing or not https.
    """
    url = request_url(public_url) if mode == "http" else ""
    yield f"In the developer console (开发者后台), {domain}/app, create a custom app (企业自建应用)."
    yield ""
    yield "1. Add features (添加应用能力): the bot (机器人)."
    yield ""
    yield from _scopes()
    yield ""
    yield from _subscriptions()
    yield from _socket() if mode == "socket" else _http(url)
    yield ""
    yield "4. Version management (版本管理与发布): create a version (创建版本) and publish it (发布). Until"
    yield "   an administrator has approved it, nothing of the above counts. So it is after every change."
    yield ""
    yield "5. Set in the bot's environment, from credentials (凭证与基础信息):"
    yield from _table(VARIABLES)
    if mode == "http":
        yield "   and from encryption (加密策略), in step 3:"
        yield from _table(HTTP_VARIABLES)
    yield ""
    yield "6. Add the bot to a group, and see a press arrive: countersign doctor --click feishu:oc_..."
    yield "   Give every program an app of its own: those that share one each get some of its events and"
    yield "   presses, and nothing tells."


def _scopes() -> Iterator[str]:
    yield "2. Permissions (权限管理): these scopes of the app itself (应用身份权限). With --json this command"
    yield "   prints what is needed for the batch import (批量导入/导出权限)."
    yield from _table(_reasons(SCOPES))
    yield "   If departments are approver groups ([feishu.groups]), also"
    yield from _table(_reasons(GROUPS))
    yield "   and let the app's contact range (通讯录权限范围) include those departments."
    yield "   If wanted:"
    yield from _table(_reasons(OPTIONAL))


def _subscriptions() -> Iterator[str]:
    yield "3. Events and callbacks (事件与回调) has two tabs that know nothing of each other: set up both."
    yield "   Event configuration (事件配置), add event (添加事件):"
    yield from _table(EVENTS)
    yield "   Callback configuration (回调配置), add callback (添加回调):"
    yield from _table(CALLBACKS)
    yield "   Remove the old card.action.trigger_v1, if it is there: each press would come twice."


def _socket() -> Iterator[str]:
    yield "   As the way to subscribe (订阅方式) choose the long connection (长连接), on both tabs. It can be"
    yield "   saved only while a connection is open: do step 5, start the bot, then save."


def _http(url: str) -> Iterator[str]:
    yield "   As the way to subscribe (订阅方式) choose the developer's server (开发者服务器), on both tabs,"
    yield f"   with the request URL {url}"
    yield "   Under encryption (加密策略) set an Encrypt Key: without one the bot takes nothing. The address"
    yield "   can be saved only while the bot answers there: do step 5, start the bot, then save."


def _reasons(scopes: Mapping[str, Scope]) -> dict[str, str]:
    return {name: scope.why for name, scope in scopes.items()}


def _table(rows: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, [*SCOPES, *GROUPS, *OPTIONAL]))
    return (f"     {name:<{width}}  {words}" for name, words in rows.items())
