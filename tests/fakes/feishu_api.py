"""Feishu's HTTP API, as strict as its documentation; every error code is one of the page that is named.

Pages: open.feishu.cn/document/server-docs/im-v1/{message/get,file/create,chat/get},
contact-v3/user/{get,find_by_department}, application-v6/scope/list,
api-call-guide/{frequency-control,generic-error-code},
authentication-management/access-token/tenant_access_token_internal.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.fakes.feishu_errors import Refused, ok, read_json, the_message
from tests.fakes.feishu_model import Call, Fault, Json, StoredFile, User, World
from tests.fakes.feishu_sending import Sending

TOKEN_SECONDS = 7_200.0  # tenant_access_token_internal: "valid at most 2 hours"
TOKEN_RENEWAL = 1_800.0  # same page: less than 30 minutes left gives a new one, and both stay valid
_FILE_TYPES = frozenset({"opus", "mp4", "pdf", "doc", "xls", "ppt", "stream"})


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Api:
    """The routes below /open-apis."""

    def __init__(self, world: World, app_secret: str) -> None:
        self.world = world
        self.sending = Sending(world)
        self.app_secret = app_secret
        self._tokens: dict[str, float] = {}

    def routes(self) -> list[web.RouteDef]:
        """All routes."""
        base = "/open-apis"
        return [
            *self.sending.routes(),
            web.post(f"{base}/auth/v3/tenant_access_token/internal", self._token),
            web.get(f"{base}/bot/v3/info", self._bot),
            web.get(f"{base}/application/v6/scopes", self._scopes),
            web.get(f"{base}/im/v1/messages/{{id}}", self._get),
            web.post(f"{base}/im/v1/files", self._upload),
            web.get(f"{base}/contact/v3/users/find_by_department", self._department),
            web.get(f"{base}/contact/v3/users/{{id}}", self._user),
            web.get(f"{base}/im/v1/chats/{{id}}", self._chat),
        ]

    def expire_tokens(self) -> None:
        """All tokens end now, as after a reset of the app's secret."""
        self._tokens.clear()

    async def gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """What every request passes: the log, the faults, the token, the limits per API."""
        if request.path == "/ws":
            return await handler(request)
        # a form is read by its handler: once read whole, aiohttp cannot parse it any more
        raw = b"" if request.content_type.startswith("multipart/") else await request.read()
        call = Call(
            self.world.clock.now(),
            f"{request.method} {request.path}",
            dict(request.query),
            read_json(raw),
            [],
        )
        self.world.calls.append(call)
        fault = self.world.take_fault(call.route)
        try:
            if fault and not fault.after:
                await _suffer(fault, request, call.route)
            self._admit(request, call.route)
            response = await handler(request)
            if fault and fault.after:
                await _suffer(fault, request, call.route)
        except Refused as refused:
            call.code.append(refused.code)
            response = refused.response()
        finally:
            self.world.touch()
        return response

    def _admit(self, request: web.Request, route: str) -> None:
        if "tenant_access_token" in route or "/ws/endpoint" in route:
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            raise Refused(99991661)
        if self._tokens.get(token, 0.0) <= self.world.clock.now():
            raise Refused(99991663)
        resource = request.match_info.route.resource
        api = f"{request.method} {resource.canonical if resource else route}"
        # frequency-control, level 4: per API, app and tenant 50 a second and 1000 a minute
        if not self.world.allowed(f"{api} second", 50, 1) or not self.world.allowed(
            f"{api} minute", 1_000, 60
        ):
            raise Refused(99991400, http=429, headers={"x-ogw-ratelimit-reset": "1"})

    async def _token(self, request: web.Request) -> web.Response:
        body = read_json(await request.read()) or {}
        if body.get("app_id") != self.world.app_id:
            return web.json_response({"code": 10003, "msg": "invalid param"})
        if body.get("app_secret") != self.app_secret:
            return web.json_response({"code": 10014, "msg": "app secret invalid"})
        now = self.world.clock.now()
        token, until = max(self._tokens.items(), key=lambda pair: pair[1], default=("", 0.0))
        if until - now < TOKEN_RENEWAL:
            token, until = f"t-{secrets.token_hex(20)}", now + TOKEN_SECONDS
            self._tokens[token] = until
        answer = {"code": 0, "msg": "ok", "tenant_access_token": token, "expire": int(until - now)}
        return web.json_response(answer)

    async def _bot(self, _request: web.Request) -> web.Response:
        bot = {
            "activate_status": self.world.bot_status,
            "app_name": "countersign",
            "open_id": self.world.bot_open_id,
        }
        return web.json_response(
            {"code": 0, "msg": "ok", "bot": {**bot, "avatar_url": "", "ip_white_list": []}}
        )

    async def _scopes(self, _request: web.Request) -> web.Response:
        """application-v6/scope/list: 1 is granted, 2 is not."""
        scopes = self.world.scopes.items()
        return ok({"scopes": [{"scope_name": name, "grant_status": status} for name, status in scopes]})

    async def _get(self, request: web.Request) -> web.Response:
        message = the_message(self.world, request)
        if not message.chat.bot:
            raise Refused(230002)
        shown = self.world.show(message)
        if message.msg_type == "interactive":  # get: "the content of JSON 2.0 cards is not returned"
            shown["body"] = {"content": json.dumps({"title": None, "elements": [[]]})}
        if message.recalled:  # get: a recalled message has no content
            shown["body"] = {}
        return ok({"items": [shown]})

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        part = form.get("file")
        if form.get("file_type") not in _FILE_TYPES or not form.get("file_name"):
            raise Refused(234001)
        if not isinstance(part, web.FileField):
            raise Refused(234001)
        data = part.file.read()
        if not data:
            raise Refused(234010)
        if len(data) > 30 * 1024 * 1024:  # file/create: at most 30 MB
            raise Refused(234006)
        key = self.world.new_id("file_v3")
        self.world.files[key] = StoredFile(key, str(form["file_name"]), str(form["file_type"]), data)
        return ok({"file_key": key})

    async def _user(self, request: web.Request) -> web.Response:
        user = self.world.person(request.match_info["id"])
        if user is None:
            raise Refused(41012)
        if not user.in_scope or user.tenant_key != self.world.tenant_key:
            raise Refused(41050)
        return ok({"user": _profile(user)})

    async def _department(self, request: web.Request) -> web.Response:
        department = request.query.get("department_id", "")
        size, start = int(request.query.get("page_size", "10")), int(request.query.get("page_token") or "0")
        if not department:
            raise Refused(40001, "invalid parameter")
        if not 1 <= size <= 50:
            raise Refused(40011)
        people = [
            user for user in self.world.users.values() if department in user.departments and not user.resigned
        ]
        page: Json = {"has_more": start + size < len(people), "items": []}
        page["items"] = [_profile(user) for user in people[start : start + size]]
        if page["has_more"]:
            page["page_token"] = str(start + size)
        return ok(page)

    async def _chat(self, request: web.Request) -> web.Response:
        chat = self.world.chats.get(request.match_info["id"])
        if chat is None:
            raise Refused(232006)
        if not chat.bot:
            raise Refused(232011)
        external = any(user.tenant_key != self.world.tenant_key for user in chat.members)
        shown: Json = {
            "name": chat.name,
            "chat_mode": chat.kind,
            "external": external,
            "tenant_key": self.world.tenant_key,
        }
        if chat.kind != "p2p":
            shown |= {"chat_type": "private", "chat_tag": "inner", "user_count": str(len(chat.members))}
            shown |= {"at_all_permission": "all_members" if chat.at_all else "only_owner", "bot_count": "1"}
        if chat.kind == "group":
            shown["group_message_type"] = "chat"
        shown["chat_status"] = "dissolved" if chat.dissolved else "normal"
        return ok(shown)


def _profile(user: User) -> Json:
    status = {
        "is_frozen": user.frozen,
        "is_resigned": user.resigned,
        "is_activated": True,
        "is_exited": False,
        "is_unjoin": False,
    }
    return {
        "union_id": user.union_id,
        "user_id": user.user_id,
        "open_id": user.open_id,
        "name": user.name,
        "email": user.email,
        "status": status,
        "department_ids": user.departments,
    }


async def _suffer(fault: Fault, request: web.Request, route: str) -> None:
    if fault.seconds:
        await asyncio.sleep(fault.seconds)
        if request.transport is None and not fault.after:
            raise Refused(0, "the client has gone")  # nothing happens for somebody who gave up
    if not fault.code:
        return
    headers = dict(fault.headers)
    default = 200 if "/ws/endpoint" in route or "tenant_access_token" in route else 400
    if fault.code == 99991400:
        default = 429
        headers.setdefault("x-ogw-ratelimit-reset", "1")
    raise Refused(fault.code, http=fault.http or default, headers=headers)
