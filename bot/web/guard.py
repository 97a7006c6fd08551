"""Who may come in: the Host header, the token, and where a request really comes from.

A program sends `Authorization: Bearer`. A browser has the token in a cookie that scripts cannot
read and other sites cannot send; what changes anything must besides come from our own page.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_runner.errors import FixInput, NotAllowed, NotSignedIn
from agent_runner.model import Actor
from bot.web import views
from bot.web.service import Service
from bot.web.words import LANGUAGES

log = logging.getLogger(__name__)

COOKIE_DAYS = 30

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with that, browsers send `Origin: null` even with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class WrongHost(NotAllowed):
    """The Host header is none of ours: a name that was pointed at us (DNS rebinding)."""

    code = "wrong_host"


class ForeignSite(NotAllowed):
    """A signed-in browser was sent here by another site's page."""

    code = "foreign_site"


class Viewer(NamedTuple):
    """Who looks, and in which language."""

    actor: Actor
    lang: str


class Guard:
    """Outermost: refuses unknown hosts, answers for what broke, and puts the headers on every answer."""

    def __init__(
        self, app: ASGIApp, *, allowed_hosts: tuple[str, ...], failed: Callable[[Request], Response]
    ) -> None:
        self.app = app
        self.allowed = {host.lower() for host in allowed_hosts}
        self.failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self.app
        # A load balancer asks for /healthz by address, and it tells nothing private.
        if scope["path"] != "/healthz" and not self._known(Headers(scope=scope).get("host", "")):
            answer = _refusal(
                WrongHost(
                    "This address is not one that Countersign is reached by.",
                    hint="Use the printed link, or set [web] public_url.",
                )
            )

        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                # Static files carry an ETag: browsers ask each time whether theirs is still the one.
                static = scope["path"].startswith("/static/")
                headers["Cache-Control"] = "no-cache" if static else "no-store"
            await send(message)

        try:
            await answer(scope, receive, send_with_headers)
        except Exception:
            if started:
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])
            await self.failed(Request(scope, receive))(scope, receive, send_with_headers)

    def _known(self, host: str) -> bool:
        name, _, port = host.lower().rpartition(":")
        return host.lower() in self.allowed or (port.isdigit() and name in self.allowed)


def _refusal(error: NotAllowed) -> Response:
    return JSONResponse(views.error(error), status_code=views.status_of(error))


_FORMS = re.compile(r"/logout|/grants/[^/]+/revoke")
"""Plain forms of our own pages; that a page of ours sent them is proved by the browser's headers."""


def service_of(request: Request) -> Service:
    """The parts behind the page."""
    service: Service = request.app.state.service
    return service


async def signed_in(request: Request) -> Actor:
    """The person who sent this; raises `NotSignedIn`, `ForeignSite`, or `FixInput` for what is no JSON."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    token = bearer.strip() if scheme.lower() == "bearer" else ""
    by_cookie = not token and "authorization" not in request.headers
    if by_cookie:
        token = request.cookies.get(cookie_name(request), "")
    actor = await run_in_threadpool(service_of(request).registers.who, token) if token else None
    if actor is None:
        raise NotSignedIn(
            "This needs a valid token.",
            hint="Send `Authorization: Bearer <token>`, or open the link that `countersign up` prints.",
        )
    if by_cookie and request.method not in SAFE_METHODS:
        from_our_page(request)
        _as_json(request)
    return actor


def from_our_page(request: Request) -> None:
    """Raises `ForeignSite` unless the browser says that our own page sent this."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    ours = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if ours and site in (None, "same-origin"):
        return
    raise ForeignSite(
        "Another site's page sent this, so it was not done.", hint="Use Countersign's own page."
    )


def _as_json(request: Request) -> None:
    """Raises for what a form of another site could send without asking."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not _FORMS.fullmatch(request.url.path):
        raise FixInput("The content type is not application/json.", hint="Send JSON.")


def cookie_name(request: Request) -> str:
    """Cookies are shared by all ports of a host: the name keeps two bots on one host apart."""
    return f"countersign_{request.url.port or 'web'}"


def sign_in(request: Request, response: Response, token: str) -> None:
    """Lets the browser keep the token where no script reads it."""
    response.set_cookie(
        cookie_name(request),
        token,
        max_age=COOKIE_DAYS * 86_400,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def sign_out(request: Request, response: Response) -> None:
    """Makes the browser forget the token."""
    response.delete_cookie(cookie_name(request), httponly=True, samesite="strict")


def language(request: Request) -> str:
    """`?lang=`, the reader's earlier choice, their browser's, the configured one."""
    for wanted in (request.query_params.get("lang"), request.cookies.get("lang"), _accepted(request)):
        if wanted in LANGUAGES:
            return str(wanted)
    return service_of(request).config.language


def _accepted(request: Request) -> str | None:
    """The best of our languages in Accept-Language."""
    best, found = 0.0, None
    for part in request.headers.get("accept-language", "").split(","):
        tag, _, weight = part.strip().partition(";q=")
        lang = tag.strip().lower().partition("-")[0]
        try:
            q = float(weight) if weight else 1.0
        except ValueError:
            continue
        if lang in LANGUAGES and q > best:
            best, found = q, lang
    return found
