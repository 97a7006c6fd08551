"""Task -> the one status message, and the result of a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo

from agent_runner.model import Hold, Inquiry, Limit, Progress, Task, TaskState
from cards import wording
from cards.model import (
    Actions,
    Button,
    Card,
    CardState,
    Element,
    Footer,
    Line,
    Ours,
    Paragraph,
    Prose,
    Quote,
    Style,
    Theirs,
    Verb,
)
from cards.outcomes import Reader, person
from cards.people import Names, approvers

_NO_RETRY = ("outcome_unknown", "transcript_missing")
"""Failures that running the same turn again cannot heal, or must not."""
_LIMITS = tuple(f"limit_{limit}" for limit in Limit)
"""Why a job ended that people did not let go on beyond a limit: it did not fail."""
_COLOURS = {TaskState.RUNNING: CardState.WORKING}


def status_card(
    task: Task,
    *,
    progress: Progress | None,
    pending: Sequence[Inquiry],
    lang: str,
    zone: tzinfo,
    now: datetime,
    approver_names: Mapping[str, Names] | None = None,
) -> Card:
    """The one message that says how the task stands: queued, working, waiting for whom, ended."""
    reader = Reader(lang, zone, now)
    title, summary = _status(task, progress, pending, reader, approver_names or {})
    parts: list[Element] = []
    if task.state is TaskState.WAITING:
        parts.append(Paragraph(text=wording.line(lang, "status.calm")))
    if task.follow_ups and not task.ended:
        parts.append(Paragraph(text=wording.as_line(wording.count(lang, "kept", len(task.follow_ups)))))
    if not task.ended and task.stop_requested_by is None:
        parts.append(Actions(buttons=(_button(Verb.STOP, task, lang),)))
    return _card(task, lang, title, summary, parts)


def _status(
    task: Task,
    progress: Progress | None,
    pending: Sequence[Inquiry],
    reader: Reader,
    names: Mapping[str, Names],
) -> tuple[Line, Line]:
    lang, workspace = reader.lang, Theirs(raw=task.workspace)
    if task.ended:
        what = wording.text(lang, f"ended.{task.state}")
        return wording.line(lang, "status.ended", what=what), reader.time(task.updated_at)
    if task.stop_requested_by is not None:
        return wording.line(lang, "status.stopping", who=person(task.stop_requested_by)), ()
    if pending and (task.state is TaskState.WAITING or any(i.hold is Hold.LIVE for i in pending)):
        return _waiting(task, pending, reader, names)
    if task.state is TaskState.RUNNING:
        return wording.line(lang, "status.working", workspace=workspace), _progress(progress, reader)
    since = wording.line(lang, "status.since", time=reader.time(task.updated_at))
    return wording.line(lang, "status.queued", workspace=workspace), since


def _waiting(
    task: Task, pending: Sequence[Inquiry], reader: Reader, names: Mapping[str, Names]
) -> tuple[Line, Line]:
    lang = reader.lang
    people = dict.fromkeys(approvers(inquiry, lang, names.get(inquiry.id, ())) for inquiry in pending)
    since = task.waiting_since or min(inquiry.asked_at for inquiry in pending)
    title = wording.line(lang, "status.waiting", who=wording.listed(lang, people), time=reader.time(since))
    requests = [wording.text(lang, "status.request", number=inquiry.number) for inquiry in pending]
    return title, wording.line(lang, "status.open", requests=wording.listed(lang, requests))


def _progress(progress: Progress | None, reader: Reader) -> Line:
    """What it does, how many steps so far, for how long."""
    lang = reader.lang
    if progress is None:
        return wording.line(lang, "activity.starting")
    key = f"activity.{progress.activity}"
    if wording.has(key):
        doing = wording.line(lang, key, detail=Theirs(raw=progress.detail, code=True))
    else:
        doing = wording.as_line(Theirs(raw=progress.detail or progress.activity))
    steps = wording.count(lang, "steps", progress.tool_calls) if progress.tool_calls else ""
    elapsed = wording.duration(lang, reader.now - progress.since)
    took = Ours(text=wording.text(lang, "status.elapsed", duration=elapsed), passing=True)
    return wording.joined([doing, wording.as_line(steps) if steps else (), (took,)])


def result_card(task: Task, *, lang: str, zone: tzinfo, now: datetime) -> Card:
    """How an ended task came out: result or failure, cost, model calls, time; Retry if it can help."""
    parts: list[Element] = []
    if task.state is TaskState.DONE or task.result:
        parts.append(_result(task, lang))
    parts += _failure(task, lang)
    if task.state in (TaskState.FAILED, TaskState.STUCK):
        if task.retry_at is not None:
            at = Reader(lang, zone, now).time(task.retry_at)
            parts.append(Paragraph(text=wording.line(lang, "result.retry_at", time=at)))
        parts += _ways_on(task, lang)
    parts.append(Footer(text=Reader(lang, zone, now).time(task.updated_at)))
    return _card(task, lang, _headline(task, lang), _accounts(task, lang), parts)


def _headline(task: Task, lang: str) -> Line:
    worked = timedelta(milliseconds=task.usage.active_ms)
    waited = timedelta(milliseconds=task.usage.waiting_ms)
    places: dict[str, wording.Words] = {"duration": wording.duration(lang, worked + waited)}
    key = f"result.{task.state}"
    if task.state is TaskState.DONE and waited >= timedelta(seconds=1):
        key, places["waiting"] = "result.done_waiting", wording.duration(lang, waited)
    if task.state is TaskState.STOPPED and task.stop_requested_by is not None:
        key, places["who"] = "result.stopped_by", person(task.stop_requested_by)
    return wording.line(lang, key, **places)


def _accounts(task: Task, lang: str) -> Line:
    cost = wording.as_line(wording.money(lang, task.usage.cost_usd))
    return wording.joined([cost, wording.as_line(wording.count(lang, "calls", task.usage.model_calls))])


def _result(task: Task, lang: str) -> Element:
    if task.result and task.result.strip():
        return Prose(text=Theirs(raw=task.result))
    return Paragraph(text=wording.line(lang, "result.silent"))


def _failure(task: Task, lang: str) -> list[Element]:
    """Our sentence for the failure, then what was reported, small; the hint only if we have none."""
    failure = task.failure
    if failure is not None and task.state is TaskState.STOPPED and failure.code in _LIMITS:
        return [Paragraph(text=wording.line(lang, f"error.{failure.code}"))]
    if failure is None or task.state not in (TaskState.FAILED, TaskState.STUCK):
        return []
    known = wording.has(f"error.{failure.code}")
    if known or not failure.message:
        said = wording.line(lang, f"error.{failure.code}" if known else "error.engine_failed")
    else:
        said = wording.as_line(Theirs(raw=failure.message))
    parts: list[Element] = [Paragraph(text=said)]
    if known and failure.message:
        label = wording.line(lang, "label.details")
        parts.append(Quote(label=label, text=Theirs(raw=failure.message), small=True))
    if failure.hint and not known:
        label = wording.line(lang, "label.remedy")
        parts.append(Quote(label=label, text=Theirs(raw=failure.hint), small=True))
    return parts


def _ways_on(task: Task, lang: str) -> list[Element]:
    helps = task.failure is None or task.failure.code not in _NO_RETRY
    verbs = [Verb.RETRY] if helps else []
    if task.state is TaskState.STUCK:
        verbs.append(Verb.STOP)
    return [Actions(buttons=tuple(_button(verb, task, lang) for verb in verbs))] if verbs else []


def _button(verb: Verb, task: Task, lang: str) -> Button:
    style = Style.PRIMARY if verb is Verb.RETRY else Style.PLAIN
    label = wording.text(lang, f"button.{verb}")
    return Button(verb=verb, label=label, revision=task.revision, task_id=task.id, style=style)


def _card(task: Task, lang: str, title: Line, summary: Line, parts: Sequence[Element]) -> Card:
    return Card(
        lang=lang,
        state=_COLOURS.get(task.state) or CardState(task.state.value),
        title=title,
        summary=summary,
        elements=tuple(parts),
        task_id=task.id,
        revision=task.revision,
    )
