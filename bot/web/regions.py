"""What each page shows, as data and as blocks: the same for the first look and for updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from agent_runner.audit import Entry
from agent_runner.errors import NotFound
from agent_runner.model import Inquiry, InquiryState, Task
from agent_runner.store import Snapshot
from bot.web import blocks, inbound, record, words
from bot.web import thread as threads
from bot.web.blocks import Block
from bot.web.guard import Viewer
from bot.web.render import fragment
from bot.web.service import Service
from cards import batch, visible, wording
from cards.model import Theirs

THREADS_SHOWN = 50
REQUESTS_SHOWN = 50
"""Cards on one inbox page: more than anybody decides in one sitting."""

OPEN_COUNTED = 200
"""Open requests that are looked at for the count in the navigation."""

ENTRIES_SHOWN = 50

TITLE_CHARS = 120


@dataclass(frozen=True)
class Shown:
    """A page's content. `regions` are lists of blocks that keep themselves up to date."""

    title: str
    regions: Mapping[str, Sequence[Block]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    waiting: int = 0
    """How many open requests this reader may decide."""
    placeholder: str = ""


def as_json(shown: Shown, viewer: Viewer) -> dict[str, Any]:
    """What the page's script takes to bring a page up to date."""
    label = words.text(viewer.lang, "inbox.count", n=shown.waiting) if shown.waiting else ""
    return {
        "title": shown.title,
        "waiting": shown.waiting,
        "waiting_label": label,
        "placeholder": shown.placeholder,
        "regions": {name: blocks.joined(found) for name, found in shown.regions.items()},
    }


def counted(service: Service, viewer: Viewer) -> Shown:
    """Only the count of what waits for this reader."""
    mine, _ = _open(service, viewer)
    return Shown(title="", waiting=len(mine))


def home(service: Service, viewer: Viewer, before: int | None) -> Shown:
    """The list of threads and an empty place for a new one."""
    mine, _ = _open(service, viewer)
    rows, older = _rows(service, viewer, before, None)
    return Shown(
        title=words.text(viewer.lang, "threads"),
        regions={"list": rows},
        data={"older": older, "workspaces": list(service.config.workspaces), "current": None},
        waiting=len(mine),
    )


def thread(service: Service, viewer: Viewer, task_id: str) -> Shown:
    """One thread beside the list of all."""
    found = threads.read(service, viewer, task_id)
    mine, _ = _open(service, viewer)
    rows, older = _rows(service, viewer, None, task_id)
    title = title_of(found.task.text)
    head = fragment("head.html", viewer.lang, task=found.task, title=title, when=_when(service, viewer))
    if found.open_here:
        placeholder = "reply.answer"
    else:
        placeholder = "reply.follow" if found.task.ended else "reply.placeholder"
    return Shown(
        title=title,
        regions={
            "list": rows,
            "head": [Block("head", head)],
            "items": [_entry(service, viewer, entry) for entry in found.entries],
        },
        data={"older": older, "current": found.task},
        waiting=len(mine),
        placeholder=words.text(viewer.lang, placeholder),
    )


def inbox(service: Service, viewer: Viewer, keep: Sequence[str]) -> Shown:
    """Open requests: those this reader may decide, then the others.

    `keep` are ids of requests that stay in their place although they are decided, so that
    nothing vanishes under a cursor.
    """
    mine, others = _open(service, viewer)
    shown_before = [one for one in _known(service, keep) if not one.open]
    first = sorted([*mine[:REQUESTS_SHOWN], *shown_before], key=lambda one: one.number)
    cards = _Requests(service, viewer)
    found: list[Block] = []
    if first:
        found.append(_heading(viewer, "inbox.mine"))
        found += cards.blocks(first)
    else:
        found.append(Block("empty", fragment("inbox_empty.html", viewer.lang)))
    if others:
        found.append(_heading(viewer, "inbox.others"))
        found += cards.blocks(others[:REQUESTS_SHOWN])
    if max(len(mine), len(others)) > REQUESTS_SHOWN:
        note = words.text(viewer.lang, "inbox.more", n=REQUESTS_SHOWN)
        found.append(Block("more", fragment("note.html", viewer.lang, text=note)))
    title = words.text(viewer.lang, "inbox")
    return Shown(title=title, regions={"inbox": found}, waiting=len(mine))


def grants(service: Service, viewer: Viewer) -> Shown:
    """The approvals that outlive one call, and which of them this reader may take back."""
    when, rows = _when(service, viewer), []
    for grant in service.handler.grants():
        inquiry = service.store.inquiry(grant.inquiry_id)
        where = "grants.in_workspace" if grant.workspace else "grants.in_task"
        rows.append(
            {
                "grant": grant,
                "where": words.line(viewer.lang, where, workspace=Theirs(raw=inquiry.workspace)),
                "at": when(grant.at),
                "until": when(grant.until) if grant.until else "",
                "mine": service.handler.may_revoke(grant, inquiry, viewer.actor),
            }
        )
    mine, _ = _open(service, viewer)
    title = words.text(viewer.lang, "grants")
    return Shown(title=title, data={"rows": rows}, waiting=len(mine))


def audit(service: Service, viewer: Viewer, query: Mapping[str, str]) -> Shown:
    """A page of the record, newest first, or one thread's in the order it happened."""
    wanted = record.Filter(
        task=query.get("task", "").strip(),
        actor=query.get("actor", "").strip(),
        since=inbound.moment(query, "since", service.zone),
        until=inbound.moment(query, "until", service.zone),
    )
    page: inbound.Page[Any]
    following: str | int | None
    if wanted.task:
        page = inbound.page(query, inbound.number_cursor, 0)
        found, following = record.of_task(service, wanted, page)
    else:
        page = inbound.page(query, inbound.stream_cursor, "")
        found, following = record.of_all(service, wanted, page, newest_first=True)
    mine, _ = _open(service, viewer)
    return Shown(
        title=words.text(viewer.lang, "audit"),
        data={
            "entries": _entries(service, viewer, found),
            "chains": {task: record.first_bad(service, task) for task in record.tasks_of(found)},
            "query": {name: query.get(name, "") for name in ("task", "actor", "since", "until")},
            "following": following,
            "paged": bool(query.get("after")),
        },
        waiting=len(mine),
    )


# --- parts -------------------------------------------------------------------------------------


def title_of(text: str) -> str:
    """What a thread is called: the first line of what was asked for."""
    first = visible.inline(text.strip().partition("\n")[0])
    return first if len(first) <= TITLE_CHARS else first[: TITLE_CHARS - 1] + "…"


def _open(service: Service, viewer: Viewer) -> tuple[list[Inquiry], list[Inquiry]]:
    """Open requests, oldest first: those this reader may decide, and the others."""
    found = service.store.list_inquiries(InquiryState.PENDING, after=0, limit=OPEN_COUNTED)
    mine = [one for one in found if threads.may_decide(service, one, viewer.actor)]
    ids = {one.id for one in mine}
    return mine, [one for one in found if one.id not in ids]


def _known(service: Service, ids: Sequence[str]) -> Iterator[Inquiry]:
    for inquiry_id in filter(None, ids):
        try:
            yield service.store.inquiry(inquiry_id)
        except NotFound:
            continue


class _Requests:
    """Blocks of requests; reads each task once."""

    def __init__(self, service: Service, viewer: Viewer) -> None:
        self._service, self._viewer = service, viewer
        self._tasks: dict[str, Snapshot] = {}
        self._drawn: set[str] = set()

    def blocks(self, inquiries: Sequence[Inquiry]) -> Iterator[Block]:
        """Their cards with the way to their threads; the steps of one turn have one, and once."""
        for inquiry in inquiries:
            if inquiry.task_id not in self._tasks:
                self._tasks[inquiry.task_id] = self._service.store.snapshot(inquiry.task_id)
            snap = self._tasks[inquiry.task_id]
            steps = batch.steps_of(inquiry, snap.inquiries)
            if steps[0].id not in self._drawn:
                self._drawn.add(steps[0].id)
                yield self._block(snap, steps)

    def _block(self, snap: Snapshot, steps: batch.Steps) -> Block:
        card = threads.card_of(self._service, self._viewer, steps, snap.inquiries)
        html = fragment(
            "inbox_item.html",
            self._viewer.lang,
            task=snap.task,
            title=title_of(snap.task.text),
            card=blocks.of_card(card),
        )
        return Block(steps[0].id, html)


def _rows(
    service: Service, viewer: Viewer, before: int | None, current: str | None
) -> tuple[list[Block], int | None]:
    """Rows of the list of threads, newest first, and the number before which older ones are."""
    found = service.store.list_tasks(None, after=before, limit=THREADS_SHOWN + 1)
    shown = found[:THREADS_SHOWN]
    rows = [
        Block(
            task.id,
            fragment(
                "row.html",
                viewer.lang,
                task=task,
                title=title_of(task.text),
                age=_age(service, viewer, task),
                current=task.id == current,
            ),
        )
        for task in shown
    ]
    return rows, shown[-1].number if len(found) > THREADS_SHOWN else None


def _age(service: Service, viewer: Viewer, task: Task) -> str:
    """How long ago something happened, in one unit."""
    seconds = int((service.clock() - task.updated_at).total_seconds())
    if seconds < 60:
        return words.text(viewer.lang, "age.now")
    unit = next(size for size in (86_400, 3_600, 60) if seconds >= size)
    age = wording.duration(viewer.lang, timedelta(seconds=seconds // unit * unit))
    return words.text(viewer.lang, "age", age=age)


def _when(service: Service, viewer: Viewer) -> Any:
    def when(at: datetime) -> str:
        return wording.moment(viewer.lang, at, zone=service.zone, now=service.clock())

    return when


def _entry(service: Service, viewer: Viewer, entry: threads.Entry) -> Block:
    card = blocks.of_card(entry.card) if entry.card else None
    html = fragment("entry.html", viewer.lang, entry=entry, card=card, when=_when(service, viewer))
    return Block(entry.key, html)


def _heading(viewer: Viewer, key: str) -> Block:
    return Block(key, fragment("heading.html", viewer.lang, text=words.text(viewer.lang, key)))


def _entries(service: Service, viewer: Viewer, found: Sequence[Entry]) -> list[dict[str, Any]]:
    numbers = record.numbers(service, found)
    when = _when(service, viewer)
    titles = {task: title_of(service.store.task(task).text) for task in record.tasks_of(found)}
    return [
        {
            "entry": entry,
            "title": titles[entry.task_id],
            "sentence": record.sentence(viewer.lang, entry, numbers),
            "when": when(entry.at),
            "input": record.shown_input(entry),
            "details": record.details(entry),
        }
        for entry in found
    ]
