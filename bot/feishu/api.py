"""Feishu's HTTP API as we use it: one attempt, a deadline, and errors as what happens next.

With httpx and not the SDK: its calls fetch the tenant token with a blocking request on the loop,
keep it in a cache of the process by app id alone (two domains share it), open new connections
for every call, and do not wait when the rate is limited (lark-oapi 1.7.5, core/token/manager.py,
core/http/transport.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import httpx

from agent_runner.errors import NotFound, TryLater
from bot.delivery import CardRefused, MessageGone
from bot.feishu import dial
from bot.feishu.errors import TOKEN_REFUSED, NoThreads, outcome

TIMEOUT = 8.0
"""Seconds for one call with everything it needs; `bot.courier.LEAD_MARGIN` outlasts it."""

TOKEN_MARGIN = 300.0
"""Seconds before its end in which a tenant token is not used any more. It lasts 2 h, and in its last
30 minutes Feishu gives a new one beside it."""

UUID_CHARS = 50
"""Longest `uuid` of a message (server-docs/im-v1/message/create)."""

PAGE = 50
"""Most people on one page (server-docs/contact-v3/user/find_by_department)."""

MOST_PAGES = 200
"""Pages of a department that are read: 10,000 people."""

GRANTED = 1
"""`grant_status` of a scope that the tenant granted (application-v6/scope/list)."""

Json = dict[str, Any]


class Sent(NamedTuple):
    """A message as it stands now. `thread_id` is '' outside threads."""

    message_id: str
    thread_id: str
    chat_id: str


class FeishuApi:
    """The calls of one app. Raises what `bot.feishu.errors.outcome` says, `TryLater` without an answer.

    Nothing is sent twice by itself: a message whose answer was lost may be sent again by the caller
    with the same `uuid`, of which Feishu lets one succeed within an hour.
    """

    def __init__(
        self,
        app_id: str,
        app_secret: str,
        domain: str,
        *,
        clock: Callable[[], float] = monotonic,
        timeout: float = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._credentials = {"app_id": app_id, "app_secret": app_secret}
        self._clock = clock
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            base_url=f"{domain}/open-apis", timeout=timeout, transport=transport, verify=dial.tls()
        )
        self._token = ""
        self._good_until = 0.0
        self._fetching = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    # --- messages ------------------------------------------------------------------------

    async def send(self, chat_id: str, msg_type: str, content: Mapping[str, Any], *, uuid: str) -> Sent:
        """Puts a new message into a chat. `content` is the object of that type, a card for `interactive`."""
        fields = {"receive_id": chat_id, **_message(msg_type, content, uuid)}
        async with self._deadline():
            return _sent(
                await self._call(
                    "POST", "/im/v1/messages", params={"receive_id_type": "chat_id"}, json=fields
                )
            )

    async def reply(
        self, message_id: str, msg_type: str, content: Mapping[str, Any], *, uuid: str, in_thread: bool
    ) -> Sent:
        """Replies to a message, in its thread where there are threads.

        Raises `MessageGone` when the message that is replied to is.
        """
        fields = _message(msg_type, content, uuid)
        path = f"/im/v1/messages/{_part(message_id)}/reply"
        async with self._deadline():
            try:
                return _sent(await self._call("POST", path, json={**fields, "reply_in_thread": in_thread}))
            except NoThreads:  # refused as a whole, so the same uuid is still free
                return _sent(await self._call("POST", path, json={**fields, "reply_in_thread": False}))

    async def patch(self, message_id: str, card: Mapping[str, Any]) -> None:
        """Makes a sent card show this one."""
        async with self._deadline():
            await self._call("PATCH", f"/im/v1/messages/{_part(message_id)}", json={"content": _packed(card)})

    async def update_by_token(self, token: str, card: Mapping[str, Any]) -> None:
        """Changes the card that was clicked, after the click was answered; raises `TokenSpent` as well."""
        async with self._deadline():
            await self._call("POST", "/interactive/v1/card/update", json={"token": token, "card": dict(card)})

    async def message(self, message_id: str) -> Json:
        """A message as Feishu shows it; raises `MessageGone` if it is not there any more."""
        async with self._deadline():
            data = await self._call("GET", f"/im/v1/messages/{_part(message_id)}")
        items = data.get("items")
        if not isinstance(items, list) or not items or items[0].get("deleted"):
            raise MessageGone(f"{message_id} is not there any more")
        found: Json = items[0]
        return found

    async def upload(self, file_name: str, data: bytes) -> str:
        """Keeps a file (1 byte to 30 MB) and returns its file_key, to be sent as a message of type `file`."""
        async with self._deadline():
            answer = await self._call(
                "POST",
                "/im/v1/files",
                data={"file_type": "stream", "file_name": file_name},
                files={"file": (file_name, data, "application/octet-stream")},
            )
        return _text(answer, "file_key")

    # --- who and where -------------------------------------------------------------------

    async def bot_info(self) -> Json:
        """The bot itself: app_name, open_id, activate_status (2 is on)."""
        async with self._deadline():
            return await self._call("GET", "/bot/v3/info", within="bot")

    async def granted(self) -> frozenset[str]:
        """The scopes that the tenant has granted to the app (application-v6/scope/list; needs none)."""
        async with self._deadline():
            answer = await self._call("GET", "/application/v6/scopes")
        scopes = answer.get("scopes") or ()
        return frozenset(str(one.get("scope_name")) for one in scopes if one.get("grant_status") == GRANTED)

    async def user(self, open_id: str) -> Json:
        """A person: name, open_id, status, ... Raises `NotFound` for one outside the contact range."""
        async with self._deadline():
            answer = await self._call(
                "GET", f"/contact/v3/users/{_part(open_id)}", params={"user_id_type": "open_id"}
            )
        user = answer.get("user")
        if not isinstance(user, dict):
            raise NotFound(f"Feishu knows no person {open_id}.")
        return user

    async def department_members(self, department_id: str) -> tuple[str, ...]:
        """The open_ids of those who are directly in a department and still work there.

        `department_id` is an open_department_id (`od-...`) or the tenant's own id.
        """
        kind = "open_department_id" if department_id.startswith("od-") else "department_id"
        params = {
            "department_id": department_id,
            "department_id_type": kind,
            "user_id_type": "open_id",
            "page_size": str(PAGE),
        }
        found: list[str] = []
        for _ in range(MOST_PAGES):
            async with self._deadline():
                page = await self._call("GET", "/contact/v3/users/find_by_department", params=params)
            found += [user["open_id"] for user in page.get("items") or () if _works_here(user)]
            if not page.get("has_more") or not page.get("page_token"):
                break
            params["page_token"] = page["page_token"]
        return tuple(found)

    async def chat(self, chat_id: str) -> Json:
        """A chat: name, chat_mode (group, topic, p2p), external, chat_status, ..."""
        async with self._deadline():
            return await self._call("GET", f"/im/v1/chats/{_part(chat_id)}")

    # --- inside --------------------------------------------------------------------------

    @asynccontextmanager
    async def _deadline(self) -> AsyncIterator[None]:
        """Everything within takes `timeout` seconds at most, and what fails on the way is `TryLater`."""
        try:
            async with asyncio.timeout(self._timeout):
                yield
        except (httpx.HTTPError, TimeoutError) as error:
            raise TryLater("Feishu did not answer.", cause=type(error).__name__) from error

    async def _call(self, method: str, path: str, *, within: str = "data", **body: Any) -> Json:
        token = await self._tenant_token()
        for last in (False, True):
            response = await self._http.request(
                method, path, headers={"Authorization": f"Bearer {token}"}, **body
            )
            answer, code = _read(response)
            if code in TOKEN_REFUSED and not last:
                token = await self._tenant_token(instead_of=token)
                continue
            if code != 0:
                raise outcome(
                    code, str(answer.get("msg") or ""), status=response.status_code, headers=response.headers
                )
            break
        found = answer.get(within)
        return found if isinstance(found, dict) else {}

    async def _tenant_token(self, *, instead_of: str = "") -> str:
        """The token for all calls, fetched once by whoever needs it first."""
        async with self._fetching:
            if self._token not in ("", instead_of) and self._clock() < self._good_until:
                return self._token
            asked = self._clock()
            response = await self._http.post("/auth/v3/tenant_access_token/internal", json=self._credentials)
            answer, code = _read(response)
            if code != 0:
                raise outcome(
                    code, str(answer.get("msg") or ""), status=response.status_code, headers=response.headers
                )
            self._token = _text(answer, "tenant_access_token")
            lasts = float(answer.get("expire") or 0)
            self._good_until = asked + max(lasts - TOKEN_MARGIN, lasts / 2)
            return self._token


def _read(response: httpx.Response) -> tuple[Json, int]:
    """The answer and its code; raises what the HTTP status means if it is no answer of the API."""
    try:
        answer = response.json()
        code = int(answer["code"])
    except (ValueError, KeyError, TypeError):
        raise outcome(
            0, f"HTTP {response.status_code}", status=response.status_code, headers=response.headers
        ) from None
    return answer, code


def _message(msg_type: str, content: Mapping[str, Any], uuid: str) -> Json:
    if not 0 < len(uuid) <= UUID_CHARS:
        raise ValueError(f"a uuid has 1 to {UUID_CHARS} characters, this one {len(uuid)}")
    return {"msg_type": msg_type, "content": _packed(content), "uuid": uuid}


def _packed(content: Mapping[str, Any]) -> str:
    """JSON within JSON, without a byte too many: cards may have 30 KB."""
    packed = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    try:
        packed.encode()
    except UnicodeEncodeError:
        raise CardRefused("a half of a character cannot be sent") from None
    return packed


def _sent(answer: Json) -> Sent:
    return Sent(
        _text(answer, "message_id"), str(answer.get("thread_id") or ""), str(answer.get("chat_id") or "")
    )


def _text(answer: Json, key: str) -> str:
    found = answer.get(key)
    if not isinstance(found, str) or not found:
        raise TryLater(f"Feishu's answer has no {key}.")
    return found


def _part(value: str) -> str:
    """An id as one part of a path, whatever is in it."""
    return quote(value, safe="")


def _works_here(user: Json) -> bool:
    """Fails closed: those who left or are locked out are nobody's approvers."""
    status = user.get("status") or {}
    gone = any(status.get(key) for key in ("is_resigned", "is_frozen", "is_exited"))
    return bool(user.get("open_id")) and not gone
