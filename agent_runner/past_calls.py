"""The calls of past and running tasks, read from their transcripts and the record. Writes nothing.

Every call is in its task's transcript; whether people were asked, and what the rules forbade,
is in the store. What is held at once: a hundred tasks, the requests and the record of one task,
one page of one of its transcripts, and an id, a digest and a time for each call of that task.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from agent_runner.audit import Entry, Event
from agent_runner.digest import digest
from agent_runner.errors import EngineFailed, NotFound
from agent_runner.model import Inquiry, Task
from agent_runner.policy import Call
from agent_runner.rulings import is_plan_file
from agent_runner.shadow import PastCall, Then
from agent_runner.store import Store
from agent_runner.transcript_codec import SHORTENED_TEXT
from agent_runner.transcript_entries import Result, blocks, results_in, time_of
from agent_runner.transcripts import RedisTranscripts

TASKS = 100
"""Tasks read at once."""
AROUND = timedelta(seconds=2)
"""How far the record of a call may be from what its transcript says of its time."""
GAPS_KEPT = 20
"""Gaps that are told one by one; the rest is counted."""

_TOO_LARGE = re.compile(SHORTENED_TEXT)


@dataclass
class Gaps:
    """What could not be read, in words; and which workspaces were seen on the way.

    `plans` is where runners keep the engine's own plan files: no rules are asked about those.
    """

    plans: Path | None = None
    told: list[str] = field(default_factory=list)
    more: int = 0
    workspaces: set[str] = field(default_factory=set)

    def add(self, task: Task, what: str) -> None:
        """Notes a gap of a task."""
        if len(self.told) < GAPS_KEPT:
            self.told.append(f"task #{task.number}: {what}")
        else:
            self.more += 1


@dataclass(frozen=True)
class Window:
    """Which calls: from `since` up to (not including) `until`, of these workspaces (none given: all)."""

    since: datetime
    until: datetime
    workspaces: frozenset[str] = frozenset()

    def touches(self, task: Task) -> bool:
        """Whether the task may have made a call in that time. A running one changes only when it ends."""
        there = not self.workspaces or task.workspace in self.workspaces
        return there and task.created_at < self.until and (not task.ended or task.updated_at >= self.since)

    def holds(self, at: datetime) -> bool:
        """Whether a time is in it."""
        return self.since <= at < self.until


async def read(
    store: Store, transcripts: RedisTranscripts, window: Window, gaps: Gaps
) -> AsyncIterator[PastCall]:
    """Each call once, the newest task's first. A transcript that cannot be read leaves a gap."""
    after: int | None = None
    while page := store.list_tasks(None, after=after, limit=TASKS):
        after = page[-1].number
        for task in page:
            gaps.workspaces.add(task.workspace)
            if window.touches(task):
                async for past in _calls_of(store, transcripts, task, gaps):
                    if window.holds(past.at):
                        yield past


async def _calls_of(
    store: Store, transcripts: RedisTranscripts, task: Task, gaps: Gaps
) -> AsyncIterator[PastCall]:
    try:
        inquiries, record = store.snapshot(task.id).inquiries, store.audit_of(task.id)
    except NotFound:
        return  # deleted meanwhile
    known = _Known(task, inquiries, record, gaps.plans)
    try:
        async for past in _transcribed(transcripts, task, known):
            yield past
    except EngineFailed as error:
        gaps.add(task, f"its transcript cannot be read any further. {error.message}")
    if not known.entries and any(entry.event is Event.TURN_STARTED for entry in record):
        gaps.add(task, "nothing is kept of its transcript; only calls that are on record are judged.")
    if known.unread:
        gaps.add(task, f"{known.unread} entries or calls of its transcript cannot be read.")
    if known.too_large:
        gaps.add(task, f"{known.too_large} calls were too large to be kept whole; they are not judged.")
    for past in known.left_over():
        yield past


async def _transcribed(transcripts: RedisTranscripts, task: Task, known: _Known) -> AsyncIterator[PastCall]:
    """The calls of the main transcript and of the subagents'. Read twice: results stand after calls."""
    where = (task.cwd, task.session_id)
    for subpath in ("", *await transcripts.subagents(*where)):
        results: dict[str, Result] = {}
        async for entry in transcripts.entries(*where, subpath):
            results.update(results_in(entry or {}))
        async for entry in transcripts.entries(*where, subpath):
            for past in known.calls(entry, results, subpath):
                yield past


class _TooLarge(Exception):
    """The transcript holds only a stub of the call."""


@dataclass(frozen=True)
class _Recorded:
    """A call as the record has it."""

    at: datetime
    then: Then
    call: Call
    digest: str


class _Known:
    """What the store knows about the calls of one task, and which of them were seen by now."""

    def __init__(
        self, task: Task, inquiries: tuple[Inquiry, ...], record: tuple[Entry, ...], plans: Path | None
    ) -> None:
        self._task = task
        self._plans = plans
        self._asked = _by_call(inquiries)
        self._events = [event for entry in record for event in self._event(entry)]
        self._seen: set[str] = set()
        self._digests: set[str] = set()
        self.entries = self.unread = self.too_large = 0

    def calls(
        self, entry: Mapping[str, Any] | None, results: Mapping[str, Result], subpath: str
    ) -> Iterator[PastCall]:
        """The calls in an entry of a transcript, each when it is seen for the first time."""
        self.entries += 1
        if entry is None or ("omitted" in entry and entry.get("type") == "assistant"):
            self.unread += 1
            return
        for block in blocks(entry, "tool_use"):
            try:
                if block["id"] in self._seen:
                    continue
                past = self._call_in(entry, block, results, subpath)
                self._seen.add(block["id"])
            except _TooLarge:
                self.too_large += 1
            except (AttributeError, KeyError, TypeError, ValueError):
                self.unread += 1
            else:
                if not self._is_plan_file(past.call):
                    yield past

    def _call_in(
        self, entry: Mapping[str, Any], block: Mapping[str, Any], results: Mapping[str, Result], subpath: str
    ) -> PastCall:
        """A call of the transcript; raises `_TooLarge`, or `ValueError` and the like for what is none."""
        inquiry = self._asked.get(block["id"])
        # A plan stands in the request alone: the engine replays that call without it.
        name, given = (inquiry.tool_name, inquiry.tool_input) if inquiry else (block["name"], block["input"])
        if any(isinstance(value, str) and _TOO_LARGE.fullmatch(value) for value in given.values()):
            raise _TooLarge
        agent_id = entry.get("agentId") or subpath or None
        call = self._call(name, given).having(agent_id=agent_id)
        at = time_of(entry.get("timestamp"))
        if inquiry is not None:
            return self._decided(call, inquiry, at or inquiry.asked_at)
        then = self._became(call, at, results.get(block["id"]))
        return self._past(call, at or self._task.updated_at, then)

    def _is_plan_file(self, call: Call) -> bool:
        with contextlib.suppress(OSError, ValueError):  # a path that cannot be one is none of the engine's
            return is_plan_file(self._plans, call.tool_name, call.tool_input)
        return False

    def left_over(self) -> Iterator[PastCall]:
        """What is on record and was not found in the transcript."""
        for tool_use_id, inquiry in self._asked.items():
            if tool_use_id not in self._seen:
                call = self._call(inquiry.tool_name, inquiry.tool_input)
                yield self._decided(call, inquiry, inquiry.asked_at)
        for event in self._events:
            if event.digest not in self._digests:
                yield self._past(event.call, event.at, event.then)

    def _call(self, name: Any, given: Any) -> Call:
        return Call(tool_name=name, tool_input=given, cwd=self._task.cwd, workspace=self._task.workspace)

    def _event(self, entry: Entry) -> Iterator[_Recorded]:
        """What the record says about a call about which nobody was asked."""
        if entry.event not in _EVENTS:
            return
        with contextlib.suppress(KeyError, ValueError):
            call = self._call(entry.details["tool_name"], entry.details["tool_input"])
            yield _Recorded(entry.at, _EVENTS[entry.event], call, _digest(call))

    def _became(self, call: Call, at: datetime | None, result: Result | None) -> Then:
        """What became of a call about which nobody was asked."""
        mark = _digest(call)
        self._digests.add(mark)
        for number, event in enumerate(self._events):
            if event.digest == mark and _between(at, event.at, result):
                del self._events[number]
                return event.then
        if result is None:
            return Then.UNFINISHED
        return Then.NOT_RUN if result.refused else Then.RAN

    def _decided(self, call: Call, inquiry: Inquiry, at: datetime) -> PastCall:
        by = inquiry.decision.by.name if inquiry.decision else ""
        return self._past(call, at, _state(inquiry), by=by, request=inquiry.number)

    def _past(self, call: Call, at: datetime, then: Then, **more: Any) -> PastCall:
        return PastCall(call=call, task_id=self._task.id, task=self._task.number, at=at, then=then, **more)


_EVENTS = {Event.CALL_DENIED: Then.DENIED, Event.GRANT_USED: Then.GRANTED}


def _state(inquiry: Inquiry) -> Then:
    if inquiry.settled and inquiry.run_allowed:
        return Then.APPROVED_NOT_RUN
    return Then.WAITING if inquiry.open else Then(inquiry.state.value)


def _by_call(inquiries: tuple[Inquiry, ...]) -> dict[str, Inquiry]:
    """The last word about each call. One that was asked again has no call of its own until it runs."""
    calls: dict[str, str] = {}
    found: dict[str, Inquiry] = {}
    for inquiry in inquiries:
        calls[inquiry.id] = inquiry.tool_use_id or calls.get(inquiry.replaces or "", "")
        if calls[inquiry.id]:
            found[calls[inquiry.id]] = inquiry
    return found


def _digest(call: Call) -> str:
    try:
        return digest(call.tool_name, call.tool_input)
    except ValueError:  # half a surrogate pair: the gate refused it without a record
        return ""


def _between(at: datetime | None, recorded: datetime, result: Result | None) -> bool:
    """Whether something was put on record while a call was ruled on."""
    ended = result.at if result else None
    return (at is None or at - AROUND <= recorded) and (ended is None or recorded <= ended + AROUND)
