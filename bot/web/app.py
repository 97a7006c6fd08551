"""The web platform as one ASGI application: routes, the guard, and errors as answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_runner.errors import CountersignError, FixInput, NotFound, NotSignedIn
from bot import telling
from bot.web import api, pages, views, words
from bot.web.events import Feed
from bot.web.guard import Guard, language
from bot.web.regions import Shown
from bot.web.render import HERE, Shell, page
from bot.web.service import Service

__all__ = ["Service", "create_app"]

OUR_FAULT = CountersignError(
    "Something went wrong on our side; it is in the log.", hint="Try again; nothing was approved by it."
)


class WrongMethod(FixInput):
    """The address is right, the method is not."""

    code = "wrong_method"


def create_app(service: Service, signed: Mapping[str, ASGIApp] = MappingProxyType({})) -> Starlette:
    """The application. `app.state.feed.close()` ends all open event streams before a shutdown.

    `signed` answers at paths where other products call us: each proves itself by a signature, and
    none is a browser, so that the guard does not stand before them.
    """
    feed = Feed(service.registers, service.async_redis)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        feed.start()
        try:
            yield
        finally:
            await feed.stop()

    app = Starlette(
        routes=[*api.ROUTES, *pages.ROUTES, Mount("/static", StaticFiles(directory=HERE / "static"))],
        middleware=[
            Middleware(Signed, signed=signed),
            Middleware(Guard, allowed_hosts=service.allowed_hosts, failed=_failed),
        ],
        exception_handlers={CountersignError: _refused, HTTPException: _no_route},
        lifespan=lifespan,
    )
    app.state.service, app.state.feed = service, feed
    return app


class Signed:
    """Lets requests to these paths by the guard, to applications that check signatures."""

    def __init__(self, app: ASGIApp, signed: Mapping[str, ASGIApp]) -> None:
        self.app = app
        self.signed = signed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        chosen = self.signed.get(scope["path"], self.app) if scope["type"] == "http" else self.app
        await chosen(scope, receive, send)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, CountersignError)  # noqa: S101  (registered for these only)
    return answer(request, error)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  (registered for these only)
    if error.status_code == 405:
        allowed = ", ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
        wrong = WrongMethod(f"{request.method} is not possible here.", hint=f"Possible: {allowed}.")
        return answer(request, wrong, status=405, headers={"Allow": allowed})
    return answer(request, NotFound("There is nothing at this address.", hint="Check the address."))


def _failed(request: Request) -> Response:
    return answer(request, OUR_FAULT)


def answer(
    request: Request,
    error: CountersignError,
    *,
    status: int | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """An error as whoever asked can use it: JSON for programs, words for our page, a page for people."""
    status = status or views.status_of(error)
    path = request.url.path
    if path.startswith("/api/") or path == "/healthz":
        response: Response = JSONResponse(views.error(error), status_code=status)
    elif "application/json" in request.headers.get("accept", ""):
        response = JSONResponse(_in_words(language(request), error), status_code=status)
    elif isinstance(error, NotSignedIn):
        return pages.to_login(request)
    else:
        response = _problem(request, error, status)
    response.headers.update(headers or {})
    if status == 503:
        response.headers["Retry-After"] = views.RETRY_AFTER
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _in_words(lang: str, error: CountersignError) -> dict[str, Any]:
    """The error for a person: our sentence in their language, and the particulars where they help."""
    told = views.error(error)
    if not isinstance(error, pages.AskBack):
        message, hint = telling.in_words(error, lang)
        told["error"] |= {"message": message, "hint": hint}
    return told


def _problem(request: Request, error: CountersignError, status: int) -> Response:
    lang = language(request)
    key = "problem." + (error.code if f"problem.{error.code}" in words.PROBLEMS else "error")
    text = words.text(lang, f"{key}.text")
    if key == "problem.error" and status != 500:
        text = _in_words(lang, error)["error"]["message"]
    shown = Shown(title=words.text(lang, key), data={"text": text, "again": status == 503})
    return page(request, "problem.html", Shell(None, "problem", ""), shown, status=status)
