"""The pages for people: threads, inbox, audit, sign-in; and what their buttons send."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from agent_runner import lifecycle
from agent_runner.errors import FixInput, NotFound, ShowAgain
from agent_runner.model import Actor
from bot import together
from bot.commands import AskedAgain, Chose, Pressed, Retried, Revoked, Stopped
from bot.handle import Reply, decided
from bot.web import inbound, regions, words
from bot.web.api import body_of
from bot.web.guard import (
    Viewer,
    from_our_page,
    language,
    service_of,
    sign_in,
    sign_out,
    signed_in,
)
from bot.web.render import Shell, page
from bot.web.service import Service
from cards import replies
from cards.model import TOGETHER, Verb

LOGIN_BYTES = 10_000
"""A sign-in form is one token."""


class AskBack(FixInput):
    """What was sent is not certain: our question back, already in the reader's language."""

    code = "ask_back"


async def viewer_of(request: Request) -> Viewer:
    """Who looks at a page, in which language; raises `NotSignedIn`."""
    return Viewer(await signed_in(request), language(request))


# --- pages -------------------------------------------------------------------------------------


async def home(request: Request) -> Response:
    """`/`: the list of threads, and the place to ask for a job."""
    viewer, service = await viewer_of(request), service_of(request)
    before = inbound.page(request.query_params, inbound.number_cursor, None).after
    shown = await run_in_threadpool(regions.home, service, viewer, before)
    live = "/live/threads" + (f"?after={before}" if before else "")
    return page(request, "threads.html", Shell(viewer, "threads", live), shown)


async def thread(request: Request) -> Response:
    """`/t/{id}`: one thread."""
    viewer, service = await viewer_of(request), service_of(request)
    task_id = request.path_params["id"]
    shown = await run_in_threadpool(regions.thread, service, viewer, task_id)
    return page(request, "threads.html", Shell(viewer, "thread", f"/live/t/{task_id}"), shown)


async def inbox(request: Request) -> Response:
    """`/inbox`: what waits for a decision."""
    viewer, service = await viewer_of(request), service_of(request)
    shown = await run_in_threadpool(regions.inbox, service, viewer, ())
    return page(request, "inbox.html", Shell(viewer, "inbox", "/live/inbox"), shown)


async def grants(request: Request) -> Response:
    """`/grants`: the approvals that outlive one call."""
    viewer, service = await viewer_of(request), service_of(request)
    shown = await run_in_threadpool(regions.grants, service, viewer)
    return page(request, "grants.html", Shell(viewer, "grants", "/live"), shown)


async def revoke(request: Request) -> Response:
    """`POST /grants/{id}/revoke`: a plain form, so that it works without a script as well."""
    viewer, service = await viewer_of(request), service_of(request)
    command = Revoked(actor=viewer.actor, grant_id=request.path_params["id"])
    await run_in_threadpool(service.handler.revoke, command)
    return RedirectResponse("/grants", status_code=303)


async def audit(request: Request) -> Response:
    """`/audit`: the record."""
    viewer, service = await viewer_of(request), service_of(request)
    shown = await run_in_threadpool(regions.audit, service, viewer, request.query_params)
    return page(request, "audit.html", Shell(viewer, "audit", "/live"), shown)


# --- live updates ------------------------------------------------------------------------------


async def live(request: Request) -> Response:
    """`/live/...`: the regions of a page as they are now, for the page's script."""
    viewer, service = await viewer_of(request), service_of(request)
    query, name = request.query_params, request.path_params.get("name", "")
    if name == "threads":
        before = inbound.page(query, inbound.number_cursor, None).after
        shown = await run_in_threadpool(regions.home, service, viewer, before)
    elif name.startswith("t/"):
        shown = await run_in_threadpool(regions.thread, service, viewer, name.removeprefix("t/"))
    elif name == "inbox":
        keep = tuple(query.get("keep", "").split(",")[: inbound.LIMIT_MAX])
        shown = await run_in_threadpool(regions.inbox, service, viewer, keep)
    elif not name:
        shown = await run_in_threadpool(regions.counted, service, viewer)
    else:
        raise NotFound("There is no such page.")
    return JSONResponse(regions.as_json(shown, viewer))


# --- what buttons and boxes send ---------------------------------------------------------------


async def ask(request: Request) -> Response:
    """`POST /threads`: a new job (answers where its thread is), or words about being away."""
    viewer, handler = await viewer_of(request), service_of(request).handler
    command = inbound.ask(viewer.actor, await body_of(request))
    about_them = await run_in_threadpool(handler.away.hear, viewer.actor, command.text)
    if about_them is not None:
        return _told(viewer, about_them)
    task = await run_in_threadpool(handler.ask, command)
    return JSONResponse({"url": f"/t/{task.id}"}, status_code=201)


async def say(request: Request) -> Response:
    """`POST /t/{id}/say`: words in a thread."""
    viewer = await viewer_of(request)
    command = inbound.said(viewer.actor, request.path_params["id"], await body_of(request))
    return _told(viewer, await run_in_threadpool(service_of(request).handler.say, command))


async def act(request: Request) -> Response:
    """`POST /t/{id}/{verb}`: `stop` or `retry`."""
    viewer, handler = await viewer_of(request), service_of(request).handler
    await body_of(request)
    task_id, verb = request.path_params["id"], request.path_params["verb"]
    if verb == Verb.STOP:
        await run_in_threadpool(handler.stop, Stopped(actor=viewer.actor, task_id=task_id))
        return _told(viewer, Reply(key="reply.stopping"))
    if verb == Verb.RETRY:
        await run_in_threadpool(handler.retry, Retried(actor=viewer.actor, task_id=task_id))
        return _told(viewer, Reply(key="reply.retrying"))
    raise NotFound("There is no such button.")


async def press(request: Request) -> Response:
    """`POST /cards/{id}/{verb}`: a button or form of a request's card."""
    viewer, service = await viewer_of(request), service_of(request)
    click = inbound.click(await body_of(request))
    inquiry_id, verb = request.path_params["id"], request.path_params["verb"]
    return _told(viewer, await run_in_threadpool(_press, service, viewer, inquiry_id, verb, click))


def _press(service: Service, viewer: Viewer, inquiry_id: str, verb: str, click: inbound.Click) -> Reply:
    if verb == Verb.ASK_AGAIN:
        fresh = service.handler.ask_again(AskedAgain(actor=viewer.actor, inquiry_id=inquiry_id))
        return Reply(key="reply.asked_again", details={"number": str(fresh.number)})
    if verb in TOGETHER:
        press = Pressed(
            actor=viewer.actor,
            verb=Verb(verb),
            revision=click.revision or 0,
            inquiry_id=inquiry_id,
            fields=click.fields,
            seen=click.seen,
        )
        reply = together.pressed(service.handler, press)
        if reply.key.startswith("ask_back."):
            raise AskBack(reply.text(viewer.lang))
        return reply
    inquiry = service.store.inquiry(inquiry_id)
    # Who was faster matters more than what the form held.
    lifecycle.still_open(inquiry, service.clock())
    found = replies.from_form(inquiry, verb, click.fields)
    if isinstance(found, replies.AskBack):
        back = Reply(key=f"ask_back.{found.code}", details=found.details, nested=found.nested)
        raise AskBack(back.text(viewer.lang))
    if not isinstance(found, replies.Decide):
        raise ShowAgain("This button does not fit the request as it is now.", hint="Look again.")
    chose = Chose.meant(viewer.actor, found, revision=click.revision)
    return decided(service.handler.choose(chose), found.verdict)


def _told(viewer: Viewer, reply: Reply) -> Response:
    return JSONResponse({"text": reply.text(viewer.lang)})


# --- signing in --------------------------------------------------------------------------------


async def login(request: Request) -> Response:
    """`GET /login`: the form, or with `?token=` (the printed link) straight in."""
    token = request.query_params.get("token")
    if token is None:
        return _form(request, None, 200)
    return await _enter(request, token, request.query_params.get("next", "/"))


async def login_form(request: Request) -> Response:
    """`POST /login`."""
    from_our_page(request)
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk[: LOGIN_BYTES - len(raw)]
    fields = parse_qs(raw.decode("utf-8", "replace"))
    token = fields.get("token", [""])[0].strip()
    return await _enter(request, token, fields.get("next", ["/"])[0])


async def login_page(request: Request) -> Response:
    """`/login`."""
    return await (login_form if request.method == "POST" else login)(request)


async def _enter(request: Request, token: str, following: str) -> Response:
    if not token:
        return _form(request, "login.missing", 401)
    actor: Actor | None = await run_in_threadpool(service_of(request).registers.who, token)
    if actor is None:
        return _form(request, "login.wrong", 401)
    response = RedirectResponse(_inside(following), status_code=303)
    sign_in(request, response, token)
    return response


def _inside(path: str) -> str:
    """A path of ours, whatever was asked for: never another site."""
    ours = path.startswith("/") and not path.startswith(("//", "/\\"))
    return quote(path, safe="/?=&%") if ours else "/"


def _form(request: Request, wrong: str | None, status: int) -> Response:
    lang = language(request)
    shown = regions.Shown(
        title=words.text(lang, "login.title"),
        data={"wrong": wrong, "next": _inside(request.query_params.get("next", "/"))},
    )
    return page(request, "login.html", Shell(None, "login", ""), shown, status=status)


async def logout(request: Request) -> Response:
    """`POST /logout`."""
    from_our_page(request)
    response = RedirectResponse("/login", status_code=303)
    sign_out(request, response)
    return response


def to_login(request: Request) -> Response:
    """Where somebody without a valid token is sent."""
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    where = "/login" if path == "/" else f"/login?{urlencode({'next': path})}"
    return RedirectResponse(where, status_code=303)


ROUTES = [
    Route("/", home),
    Route("/t/{id}", thread),
    Route("/inbox", inbox),
    Route("/grants", grants),
    Route("/grants/{id}/revoke", revoke, methods=["POST"]),
    Route("/audit", audit),
    Route("/live", live),
    Route("/live/{name:path}", live),
    Route("/threads", ask, methods=["POST"]),
    Route("/t/{id}/say", say, methods=["POST"]),
    Route("/t/{id}/{verb}", act, methods=["POST"]),
    Route("/cards/{id}/{verb}", press, methods=["POST"]),
    Route("/login", login_page, methods=["GET", "POST"]),
    Route("/logout", logout, methods=["POST"]),
]
