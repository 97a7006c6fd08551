"""The answers of Feishu's HTTP API: codes, their words, and the shape of an error.

Pages: server-docs/im-v1/message/{create,reply,get}, im-v1/message-card/patch, im-v1/file/create,
contact-v3/user/{get,find_by_department}, api-call-guide/{generic-error-code,frequency-control}.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.fakes.feishu_model import Json, Message, World

MESSAGES = {
    230001: "Your request contains an invalid request parameter.",
    230002: "The bot can not be outside the group.",
    230006: "Bot ability is not activated.",
    230011: "The message is recalled.",
    230013: "Bot has NO availability to this user.",
    230017: "Bot is NOT the owner of the resource.",
    230018: "These operations are NOT allowed at current group settings.",
    230020: "This operation triggers the frequency limit.",
    230022: "The content of the message contains sensitive information.",
    230025: "The length of the message content reaches its limit.",
    230027: "Lack of necessary permissions.",
    230028: "The messages do NOT pass the audit.",
    230031: "Message can only be modified within 14 days after sending.",
    230034: "The receive_id is invalid.",
    230035: "Send Message Permission deny.",
    230038: "Cross tenant p2p chat operate forbid.",
    230049: "The message is being sent.",
    230053: "The user has stopped the bot from sending messages.",
    230054: "This type of message is unavailable in the connection group.",
    230075: "Sending encrypted messages is not supported.",
    230099: "Failed to create card content.",
    232006: "Your request specifies a chat_id which is invalid.",
    232009: "Your request specifies a chat which has already been dissolved.",
    232011: "Operator can NOT be out of the chat.",
    234001: "Invalid request param.",
    234006: "The file size exceed the max value.",
    234010: "File's size can't be 0.",
    40011: "page size is invalid",
    41012: "user id invalid error",
    41050: "no user authority",
    99991400: "request trigger frequency limit",
    99991661: "Missing access token for authorization. Please make a request with token attached",
    99991663: "Invalid access token for authorization. Please make a request with token attached",
}


class Refused(Exception):
    """An error answer: the code, its message, the HTTP status and headers."""

    def __init__(
        self, code: int, message: str = "", http: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message or MESSAGES.get(code, "error")
        self.http = http
        self.headers = dict(headers or {})

    def response(self) -> web.Response:
        body = {"code": self.code, "msg": self.message, "error": {"log_id": secrets.token_hex(16)}}
        return web.json_response(body, status=self.http, headers=self.headers)


def ok(data: Json) -> web.Response:
    """A good answer."""
    return web.json_response({"code": 0, "msg": "success", "data": data})


def read_json(raw: bytes) -> Any:
    """The JSON in `raw`, None when there is none."""
    try:
        return json.loads(raw)
    except ValueError:
        return None


async def read_body(request: web.Request, *needed: str) -> Json:
    """The request's JSON object with all `needed` keys, or 230001."""
    body = read_json(await request.read())
    if not isinstance(body, dict) or any(key not in body for key in needed):
        raise Refused(230001, f"the body needs {', '.join(needed)}")
    return body


def the_message(world: World, request: web.Request) -> Message:
    """The message that the path names, or the error for one that cannot be reached."""
    message = world.by_id.get(request.match_info["id"])
    if message is None:
        raise Refused(230001, "invalid message_id")
    if message.chat.dissolved:
        raise Refused(232009)
    return message
