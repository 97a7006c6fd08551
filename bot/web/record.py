"""Entries of the record in a reader's words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent_runner import audit
from agent_runner.audit import Entry, Event
from agent_runner.model import Actor
from bot.web import words
from bot.web.inbound import Page
from bot.web.service import Service
from cards import wording
from cards.model import Line, Theirs
from cards.people import acting

SCANNED = 2_000
"""Entries looked at for one page of a filtered list; a page may be short, its cursor goes on."""

_VERDICTS = ("approve", "change", "reject", "answer")


@dataclass(frozen=True)
class Filter:
    """Which entries are wanted. `actor` is a name, a person or an account."""

    task: str = ""
    actor: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def __contains__(self, entry: Entry) -> bool:
        """Whether an entry passes."""
        if (self.since and entry.at < self.since) or (self.until and entry.at > self.until):
            return False
        return not self.actor or (entry.actor is not None and self.actor.lower() in _names(entry.actor))


def _names(actor: Actor) -> set[str]:
    known = (actor.name, actor.person, actor.user_id, actor.account, actor.key)
    return {name.lower() for name in known if name}


def of_task(service: Service, wanted: Filter, page: Page[int]) -> tuple[list[Entry], int | None]:
    """Entries of one task, oldest first, and the cursor of the next page."""
    service.store.task(wanted.task)
    found = [e for e in service.store.audit_of(wanted.task) if e in wanted and e.seq > page.after]
    shown = found[: page.limit]
    return shown, shown[-1].seq if len(found) > len(shown) else None


def of_all(
    service: Service, wanted: Filter, page: Page[str], *, newest_first: bool = False
) -> tuple[list[Entry], str | None]:
    """Entries of all tasks by time, and the cursor of the next page."""
    found: list[Entry] = []
    cursor, scanned = page.after, 0
    while scanned < SCANNED:
        rows = service.store.audit_page(
            since=wanted.since, until=wanted.until, after=cursor, limit=page.limit, newest_first=newest_first
        )
        for at, entry in rows:
            scanned, cursor = scanned + 1, at
            if entry in wanted:
                found.append(entry)
            if len(found) == page.limit:
                return found, cursor
        if len(rows) < page.limit:
            return found, None
    return found, cursor


def first_bad(service: Service, task_id: str) -> tuple[int | None, int]:
    """The first entry of a task's chain that does not follow (None: it holds), and how many there are."""
    chain = service.store.audit_of(task_id)
    return audit.first_bad(chain), len(chain)


def numbers(service: Service, entries: Sequence[Entry]) -> dict[str, int]:
    """The numbers that people know requests by, for all requests of these entries."""
    ids = {entry.inquiry_id for entry in entries if entry.inquiry_id}
    return {inquiry_id: service.store.inquiry(inquiry_id).number for inquiry_id in ids}


def sentence(lang: str, entry: Entry, numbers: Mapping[str, int]) -> Line:
    """What an entry tells, in one line."""
    key = entry.event.value
    if entry.event is Event.FINISHED and entry.details.get("failed"):
        key = "finished_badly"
    if entry.event is Event.GRANT_GIVEN and entry.details.get("times"):
        key = "grant_given_counted"
    if entry.event is Event.CALL_DENIED and entry.inquiry_id:
        key = "call_held_back"
    return words.line(lang, f"on.{key}", **_places(lang, entry, numbers))


def _places(lang: str, entry: Entry, numbers: Mapping[str, int]) -> Mapping[str, wording.Words]:
    details = entry.details
    absent = str(details.get("acting_for", ""))
    who = acting(entry.actor, absent, lang) if entry.actor else wording.as_line(Theirs(raw="?"))
    verdict, state = str(details.get("verdict", "")), str(details.get("state", ""))
    return {
        "who": who,
        "number": str(numbers.get(entry.inquiry_id, "?")),
        "tool": Theirs(raw=str(details.get("tool_name", "?")), code=True),
        "rule": Theirs(raw=str(details.get("rule", "?")), code=True),
        "times": str(details.get("times", "?")),
        "turn": str(details.get("turn", "?")),
        "verdict": wording.text(lang, f"verdict.{verdict}") if verdict in _VERDICTS else "?",
        "state": words.text(lang, f"state.{state}") if f"state.{state}" in words.STATES else "?",
    }


def shown_input(entry: Entry) -> str:
    """What was asked for, or how it was edited: the whole input, for an entry that holds one."""
    given = entry.details.get("input") or entry.details.get("tool_input")
    if not isinstance(given, dict):
        return ""
    if set(given) <= {"command", "description"} and isinstance(given.get("command"), str):
        return str(given["command"])
    return json.dumps(given, indent=2, ensure_ascii=False)


def details(entry: Entry) -> str:
    """Everything else on record with an entry, as JSON for the curious."""
    kept: dict[str, Any] = {
        name: value
        for name, value in entry.model_dump(mode="json").items()
        if value and name in ("actor", "digest", "details", "policy_version", "inquiry_id", "prev", "hash")
    }
    return json.dumps(kept, indent=2, ensure_ascii=False)


def tasks_of(entries: Sequence[Entry]) -> Iterator[str]:
    """The tasks that a list of entries speaks of, each once."""
    yield from dict.fromkeys(entry.task_id for entry in entries)
