"""The JSON API. Each call: who, parse, one command or read, one shape."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent_runner.audit import Entry
from agent_runner.errors import CountersignError, NotSignedIn
from agent_runner.model import InquiryState, Task, TaskState
from bot import together
from bot.commands import AskedAgain, Retried, Revoked, Stopped
from bot.web import events, inbound, record, views
from bot.web.guard import language, service_of, signed_in
from bot.web.service import Service
from cards import posts as thread
from cards import text

HEALTH_SECONDS = 1.3
"""How long the store may take before it counts as down (an answer within 1.5 s, case E04)."""

DRAINED_BYTES = 32_000_000
"""How much of a body that is too large is read and dropped, so that the sender hears why."""


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that was sent; raises `TooLarge`, `Malformed` or `FixInput`."""
    return inbound.json_object(await _read(request))


async def no_body(request: Request) -> None:
    """For calls that take nothing: an empty body, or an empty object."""
    raw = await _read(request)
    if raw:
        inbound.nothing(inbound.json_object(raw))


async def _read(request: Request) -> bytes:
    raw, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= inbound.BODY_BYTES:
            raw += chunk
        elif size > DRAINED_BYTES:
            break
    if size > inbound.BODY_BYTES:
        raise inbound.TooLarge(
            f"The body is larger than {inbound.BODY_BYTES} bytes.",
            hint="Put what is long into a file in the workspace and name it.",
        )
    return bytes(raw)


# --- tasks -------------------------------------------------------------------------------------


async def tasks(request: Request) -> Response:
    """`/api/tasks`."""
    return await (_create_task if request.method == "POST" else _list_tasks)(request)


async def _create_task(request: Request) -> Response:
    """`POST /api/tasks`."""
    actor = await signed_in(request)
    command = inbound.ask(actor, await body_of(request))
    task = await run_in_threadpool(service_of(request).handler.ask, command)
    return JSONResponse({"id": task.id}, status_code=201)


async def _list_tasks(request: Request) -> Response:
    """`GET /api/tasks`: newest first."""
    await signed_in(request)
    query, service = request.query_params, service_of(request)
    inbound.only(query, "state", "limit", "after")
    state, page = inbound.state(query, TaskState), inbound.page(query, inbound.number_cursor, None)
    found = await run_in_threadpool(service.store.list_tasks, state, after=page.after, limit=page.limit + 1)
    shown = found[: page.limit]
    following = shown[-1].number if len(found) > page.limit else None
    now = service.clock()
    return JSONResponse(views.listed([views.task_line(task, now) for task in shown], following))


async def show_task(request: Request) -> Response:
    """`GET /api/tasks/{id}`."""
    await signed_in(request)
    return JSONResponse(await run_in_threadpool(_task, service_of(request), request.path_params["id"]))


def _task(service: Service, task_id: str) -> dict[str, Any]:
    snap = service.store.snapshot(task_id)
    progress = service.registers.progress(task_id) if snap.task.state is TaskState.RUNNING else None
    messages = service.store.messages(task_id)
    return views.task(snap.task, snap.inquiries, messages, progress, service.clock())


async def posts(request: Request) -> Response:
    """`GET /api/tasks/{id}/posts`: what stands in the thread now, as numbered lists (the terminal)."""
    await signed_in(request)
    task_id = request.path_params["id"]
    return JSONResponse(await run_in_threadpool(_posts, service_of(request), task_id, language(request)))


def _posts(service: Service, task_id: str, lang: str) -> dict[str, Any]:
    snap, handler = service.store.snapshot(task_id), service.handler
    shown = thread.posts(
        snap.task,
        snap.inquiries,
        progress=service.registers.progress(task_id),
        approver_names={i.id: handler.approvers(i) for i in snap.inquiries},
        told={key: names for i in snap.inquiries for key, names in handler.told(i).items()},
        lang=lang,
        zone=service.zone,
        now=service.clock(),
    )
    items = [{"key": p.key, "revision": p.revision, "text": text.render(p.card)} for p in shown]
    return {"state": snap.task.state, "items": items}


async def say(request: Request) -> Response:
    """`POST /api/tasks/{id}/messages`: what a reply in the thread does."""
    actor = await signed_in(request)
    command = inbound.said(actor, request.path_params["id"], await body_of(request))
    reply = await run_in_threadpool(service_of(request).handler.say, command)
    told = {"reply": reply.key, "text": reply.text(language(request))}
    return JSONResponse(told, status_code=202)


async def stop_task(request: Request) -> Response:
    """`POST /api/tasks/{id}/stop`."""
    actor = await signed_in(request)
    await no_body(request)
    command = Stopped(actor=actor, task_id=request.path_params["id"])
    return _accepted(await run_in_threadpool(service_of(request).handler.stop, command))


async def retry_task(request: Request) -> Response:
    """`POST /api/tasks/{id}/retry`."""
    actor = await signed_in(request)
    await no_body(request)
    command = Retried(actor=actor, task_id=request.path_params["id"])
    return _accepted(await run_in_threadpool(service_of(request).handler.retry, command))


def _accepted(task: Task) -> Response:
    return JSONResponse({"id": task.id, "state": task.state}, status_code=202)


# --- inquiries ---------------------------------------------------------------------------------


async def list_inquiries(request: Request) -> Response:
    """`GET /api/inquiries`: oldest first."""
    await signed_in(request)
    query, service = request.query_params, service_of(request)
    inbound.only(query, "state", "limit", "after")
    state, page = inbound.state(query, InquiryState), inbound.page(query, inbound.number_cursor, 0)
    found = await run_in_threadpool(
        service.store.list_inquiries, state, after=page.after, limit=page.limit + 1
    )
    shown = found[: page.limit]
    following = shown[-1].number if len(found) > page.limit else None
    return JSONResponse(views.listed([views.inquiry(one) for one in shown], following))


async def show_inquiry(request: Request) -> Response:
    """`GET /api/inquiries/{id}`."""
    await signed_in(request)
    inquiry = await run_in_threadpool(service_of(request).store.inquiry, request.path_params["id"])
    return JSONResponse(views.inquiry(inquiry))


async def decide(request: Request) -> Response:
    """`POST /api/inquiries/{id}/decision`."""
    actor = await signed_in(request)
    command = inbound.chose(actor, request.path_params["id"], await body_of(request))
    inquiry = await run_in_threadpool(service_of(request).handler.choose, command)
    return JSONResponse(views.inquiry(inquiry))


async def decide_batch(request: Request) -> Response:
    """`POST /api/batches/{batch}/decision`: one word about all open steps of one turn."""
    actor = await signed_in(request)
    body, handler = await body_of(request), service_of(request).handler
    steps = await run_in_threadpool(together.of_batch, handler, request.path_params["batch"])
    command = inbound.chose_all(actor, steps[0].id, body)
    chosen = await run_in_threadpool(handler.choose_all, command)
    after = await run_in_threadpool(together.of_batch, handler, request.path_params["batch"])
    return JSONResponse(views.chosen(chosen, after))


async def ask_again(request: Request) -> Response:
    """`POST /api/inquiries/{id}/ask_again`."""
    actor = await signed_in(request)
    await no_body(request)
    command = AskedAgain(actor=actor, inquiry_id=request.path_params["id"])
    inquiry = await run_in_threadpool(service_of(request).handler.ask_again, command)
    return JSONResponse(views.inquiry(inquiry), status_code=201)


async def list_grants(request: Request) -> Response:
    """`GET /api/grants`: the approvals that outlive one call and hold now."""
    await signed_in(request)
    inbound.only(request.query_params)
    found = await run_in_threadpool(service_of(request).handler.grants)
    return JSONResponse(views.listed([views.grant(one) for one in found], None))


async def revoke_grant(request: Request) -> Response:
    """`POST /api/grants/{id}/revoke`."""
    actor = await signed_in(request)
    await no_body(request)
    command = Revoked(actor=actor, grant_id=request.path_params["id"])
    return JSONResponse(views.grant(await run_in_threadpool(service_of(request).handler.revoke, command)))


# --- the record, changes, health ---------------------------------------------------------------


async def list_record(request: Request) -> Response:
    """`GET /api/audit`: oldest first."""
    await signed_in(request)
    query, service = request.query_params, service_of(request)
    inbound.only(query, "task", "actor", "since", "until", "limit", "after")
    wanted = record.Filter(
        task=query.get("task", ""),
        actor=query.get("actor", ""),
        since=inbound.moment(query, "since"),
        until=inbound.moment(query, "until"),
    )
    found: list[Entry]
    following: str | int | None
    if wanted.task:
        one = inbound.page(query, inbound.number_cursor, 0)
        found, following = await run_in_threadpool(record.of_task, service, wanted, one)
    else:
        page = inbound.page(query, inbound.stream_cursor, "")
        found, following = await run_in_threadpool(record.of_all, service, wanted, page)
    return JSONResponse(views.listed([views.entry(entry) for entry in found], following))


async def follow(request: Request) -> Response:
    """`GET /api/events`: server-sent events."""
    actor = await signed_in(request)
    feed = request.app.state.feed

    async def still_welcome() -> bool:
        try:
            return (await signed_in(request)) == actor
        except NotSignedIn:
            return False
        except CountersignError:  # the store is away: that is no reason to end
            return True

    return StreamingResponse(
        events.stream(feed, still_welcome),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def health(request: Request) -> Response:
    """`GET /healthz`: whether the store answers, and how many runners are alive."""
    service = service_of(request)
    told: dict[str, Any] = {"ok": False, "redis": False, "runners": 0, "version": service.version}
    try:
        async with asyncio.timeout(HEALTH_SECONDS):
            # Not Starlette's thread pool: it would wait for a thread that hangs.
            told["runners"] = await asyncio.to_thread(_look, service)
    except (CountersignError, TimeoutError):
        return JSONResponse(told, status_code=503)
    return JSONResponse({**told, "ok": True, "redis": True})


def _look(service: Service) -> int:
    service.registers.last_change()
    return service.runners()


ROUTES = [
    Route("/healthz", health),
    Route("/api/tasks", tasks, methods=["GET", "POST"]),
    Route("/api/tasks/{id}", show_task),
    Route("/api/tasks/{id}/posts", posts),
    Route("/api/tasks/{id}/messages", say, methods=["POST"]),
    Route("/api/tasks/{id}/stop", stop_task, methods=["POST"]),
    Route("/api/tasks/{id}/retry", retry_task, methods=["POST"]),
    Route("/api/inquiries", list_inquiries),
    Route("/api/inquiries/{id}", show_inquiry),
    Route("/api/inquiries/{id}/decision", decide, methods=["POST"]),
    Route("/api/batches/{batch}/decision", decide_batch, methods=["POST"]),
    Route("/api/inquiries/{id}/ask_again", ask_again, methods=["POST"]),
    Route("/api/grants", list_grants),
    Route("/api/grants/{id}/revoke", revoke_grant, methods=["POST"]),
    Route("/api/audit", list_record),
    Route("/api/events", follow),
]
