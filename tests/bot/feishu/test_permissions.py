"""`countersign feishu permissions`: everything the app needs over there, in the order in which it is set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bot.cli import main
from bot.feishu import inbound
from bot.feishu.permissions import CALLBACKS, EVENTS, GROUPS, OPTIONAL, SCOPES, missing

HEAD = """\
In the developer console (开发者后台), {domain}/app, create a custom app (企业自建应用).

1. Add features (添加应用能力): the bot (机器人).

2. Permissions (权限管理): these scopes of the app itself (应用身份权限). With --json this command
   prints what is needed for the batch import (批量导入/导出权限).
     im:message                        posts status, requests and results, and keeps its cards up to date
     im:message.p2p_msg:readonly       hears direct messages
     im:message.group_at_msg:readonly  hears what mentions it in groups
     im:resource                       puts what is too long for a card into the thread as a file
     contact:contact.base:readonly     looks up who somebody is, and who is in a department
     contact:user.base:readonly        knows people's names
   If departments are approver groups ([feishu.groups]), also
     contact:user.employee:readonly    leaves out who has left or is locked out
   and let the app's contact range (通讯录权限范围) include those departments.
   If wanted:
     im:message.group_msg              hears answers in a group's threads that do not mention it
     im:chat:readonly                  lets `countersign doctor` look at the fallback chat

3. Events and callbacks (事件与回调) has two tabs that know nothing of each other: set up both.
   Event configuration (事件配置), add event (添加事件):
     im.message.receive_v1             jobs, answers and words
   Callback configuration (回调配置), add callback (添加回调):
     card.action.trigger               presses on cards; without it every press shows error 200340
   Remove the old card.action.trigger_v1, if it is there: each press would come twice.
"""
SOCKET = """\
   As the way to subscribe (订阅方式) choose the long connection (长连接), on both tabs. It can be
   saved only while a connection is open: do step 5, start the bot, then save.
"""
HTTP = """\
   As the way to subscribe (订阅方式) choose the developer's server (开发者服务器), on both tabs,
   with the request URL https://bot.example.org/feishu/events
   Under encryption (加密策略) set an Encrypt Key: without one the bot takes nothing. The address
   can be saved only while the bot answers there: do step 5, start the bot, then save.
"""
PUBLISH = """
4. Version management (版本管理与发布): create a version (创建版本) and publish it (发布). Until
   an administrator has approved it, nothing of the above counts. So it is after every change.

5. Set in the bot's environment, from credentials (凭证与基础信息):
     FEISHU_APP_ID                     App ID (cli_...)
     FEISHU_APP_SECRET                 App Secret
"""
KEYS = """\
   and from encryption (加密策略), in step 3:
     FEISHU_ENCRYPT_KEY                Encrypt Key
     FEISHU_VERIFICATION_TOKEN         Verification Token (a second proof, may be left out)
"""
END = """
6. Add the bot to a group, and see a press arrive: countersign doctor --click feishu:oc_...
   Give every program an app of its own: those that share one each get some of its events and
   presses, and nothing tells.
"""
FEISHU, LARK = "https://open.feishu.cn", "https://open.larksuite.com"
BY_SOCKET = HEAD + SOCKET + PUBLISH + END
BY_HTTP = HEAD + HTTP + PUBLISH + KEYS + END
URL = "https://bot.example.org"


def _run(tmp_path: Path, config: str, *flags: str) -> Any:
    file = tmp_path / "countersign.toml"
    file.write_text(config)
    return CliRunner().invoke(main, ["feishu", "permissions", "--config", str(file), *flags])


@pytest.mark.parametrize(
    ("config", "flags", "expected"),
    [
        ("", [], BY_SOCKET.format(domain=FEISHU)),
        (f'[feishu]\ndomain = "{LARK}"\n', [], BY_SOCKET.format(domain=LARK)),
        ("", ["--mode", "http", "--url", URL], BY_HTTP.format(domain=FEISHU)),
        ("", ["--mode", "http", "--url", f"{URL}/"], BY_HTTP.format(domain=FEISHU)),
        ("", ["--mode", "http", "--url", f"{URL}/feishu/events"], BY_HTTP.format(domain=FEISHU)),
        (f'[web]\npublic_url = "{URL}"\n[feishu]\nmode = "http"\n', [], BY_HTTP.format(domain=FEISHU)),
        (f'[web]\npublic_url = "{URL}"\n', [], BY_SOCKET.format(domain=FEISHU)),
    ],
)
def test_the_command_prints_the_steps(tmp_path: Path, config: str, flags: list[str], expected: str) -> None:
    """For the mode that is configured or asked for, from the app's creation to the first press."""
    done = _run(tmp_path, config, *flags)
    assert (done.exit_code, done.stdout) == (0, expected)


@pytest.mark.parametrize(
    ("config", "more"),
    [("", []), ('[feishu.groups]\nnight = "od-1"\n', ["contact:user.employee:readonly"])],
)
def test_the_scopes_can_be_imported(tmp_path: Path, config: str, more: list[str]) -> None:
    """With --json there is nothing but what is needed, in the shape of the console's batch import."""
    done = _run(tmp_path, config, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {
        "scopes": {
            "tenant": [
                "im:message",
                "im:message.p2p_msg:readonly",
                "im:message.group_at_msg:readonly",
                "im:resource",
                "contact:contact.base:readonly",
                "contact:user.base:readonly",
                *more,
            ],
            "user": [],
        }
    }


@pytest.mark.parametrize("url", [[], ["--url", "http://bot.example.org"]])
def test_http_needs_an_address_that_feishu_can_reach(tmp_path: Path, url: list[str]) -> None:
    """Nothing is printed but what to do: half a list of steps would be followed."""
    done = _run(tmp_path, "", "--mode", "http", *url)
    assert (done.exit_code, done.stdout, done.stderr) == (
        2,
        "",
        "countersign: For HTTP, Feishu has to reach the bot at an https address.\n"
        "  Set [web] public_url or give --url https://..., or use --mode socket, which needs none.\n",
    )


def test_what_is_subscribed_is_what_is_read() -> None:
    """Neither more nor less than the bot takes."""
    assert ([*EVENTS], [*CALLBACKS]) == ([inbound.MESSAGE], [inbound.CLICK])


@pytest.mark.parametrize("scope", [*SCOPES, *GROUPS])
def test_a_scope_that_is_missing_is_found(scope: str) -> None:
    """All the others do not make up for it, unless they reach further."""
    others = {*SCOPES, *GROUPS} - {scope}
    assert set(missing(others, groups=True)) == {scope}
    for wider in {**SCOPES, **GROUPS}[scope].instead:
        assert missing(others | {wider}, groups=True) == {}


def test_what_is_not_needed_is_not_missed() -> None:
    """The state of people counts only for departments; the rest is a matter of taste."""
    assert missing(SCOPES, groups=False) == {}
    assert not OPTIONAL.keys() & {*SCOPES, *GROUPS}
