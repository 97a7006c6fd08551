"""What a trial of a policy found, as text for people and as JSON lines for programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from agent_runner.past_calls import Gaps, Window
from agent_runner.policy import Call
from agent_runner.shadow import Change, Group, Opinion, PastCall, Shadow, Summary, Then
from cards import visible

SHOWN = 120
"""Characters of a call shown in an example, before what cannot be seen is made visible."""
NAME_SHOWN = 60
"""The same for a tool's name, which a model may make up."""

_CHANGES = {
    Change.UNCHANGED: "unchanged",
    Change.RUNS: "would now run without asking",
    Change.ASKS: "would now be asked",
    Change.OTHERS: "would be asked of other people",
    Change.DENIES: "would be denied",
}
_EFFECTS = {"allow": "run", "ask": "ask", "deny": "deny"}
_THEN = {
    Then.RAN: "ran by itself",
    Then.GRANTED: "ran by an earlier approval",
    Then.DENIED: "was denied",
    Then.NOT_RUN: "did not run",
    Then.UNFINISHED: "has no result yet",
    Then.WAITING: "waits for a person",
    Then.APPROVED: "approved",
    Then.APPROVED_NOT_RUN: "approved and never made again",
    Then.CHANGED: "passed only with changes",
    Then.REJECTED: "rejected",
    Then.ANSWERED: "answered",
    Then.EXPIRED: "expired unanswered",
    Then.WITHDRAWN: "withdrawn",
}
_GIST = ("command", "file_path", "notebook_path", "path", "pattern", "url", "query")
"""Fields that say most about a call of one of the engine's own tools."""


def text(
    summary: Summary, gaps: Gaps, window: Window, *, new: str, present: str, everything: bool
) -> Iterator[str]:
    """The lines of the report: the sum first, then the groups, the most alarming first."""
    yield f"{new}, compared with {present or 'the default policy'}."
    yield _sum(summary, window)
    if summary.overruling:
        yield f"WARNING: of those that would run by themselves, {_overruled(summary)}."
    if summary.hook_errors:
        yield (
            f"WARNING: the needs_approval function of {new} failed for {_calls(summary.hook_errors)}: "
            "people are asked about those."
        )
    groups = summary.listed(everything=everything)
    if groups:
        yield ""
        yield from _table(groups)
    if gaps.told:
        yield ""
        yield "What could not be read:"
        yield from (f"  {gap}" for gap in gaps.told)
        if gaps.more:
            yield f"  and {gaps.more} more"


def _sum(summary: Summary, window: Window) -> str:
    tasks = len(summary.tasks)
    of_tasks = f"{_calls(summary.calls)} of {tasks} task{'' if tasks == 1 else 's'}"
    counts = [
        f"{count} {_CHANGES[change]}"
        for change, count in summary.changes.items()
        if count or (change is Change.UNCHANGED and summary.calls)
    ]
    said = f"{of_tasks} since {_minute(window.since)} UTC"
    return f"{said}: {'; '.join(counts)}." if counts else f"{said}."


def _overruled(summary: Summary) -> str:
    parts = []
    if summary.rejected:
        parts.append(f"{summary.rejected} had been rejected by people")
    if summary.changed:
        parts.append(f"{summary.changed} had passed only with changes")
    return " and ".join(parts)


def _calls(count: int) -> str:
    return f"{count} call" if count == 1 else f"{count} calls"


def _table(groups: list[Group]) -> Iterator[str]:
    tools = [cut(group.tool, NAME_SHOWN) for group in groups]
    width = max(len(tool) for tool in (*tools, "TOOL"))
    margin = " " * (width + 9)
    yield f"{'CALLS':>5}  {'TOOL':<{width}}  BEFORE -> AFTER"
    for group, tool in zip(groups, tools, strict=True):
        both = group.change is Change.OTHERS
        before = _opinion(group.before, route=both)
        after = _opinion(group.after, route=both or group.change is Change.ASKS)
        yield f"{group.count:>5}  {tool:<{width}}  {before} -> {after}"
        if group.overruling:
            yield f"{margin}!! people did not let {group.overruling} of these run as they stood"
        yield from (f"{margin}{_example(past)}" for _, past in group.examples)


def _opinion(said: Opinion, *, route: bool) -> str:
    words = f"{_EFFECTS[said.effect]}: {visible.inline(said.rule)}"
    if said.effect == "ask" and route:
        requester = "" if said.requester_may_decide else ", not the requester"
        words += f" ({said.quorum} of {', '.join(map(visible.inline, said.approvers))}{requester})"
    return words + (f" [failed: {cut(said.hook_error)}]" if said.hook_error else "")


def _example(past: PastCall) -> str:
    by = f" by {cut(past.by, NAME_SHOWN)}" if past.by else ""
    request = f" (request #{past.request})" if past.request else ""
    aside = ", in a subagent" if past.call.agent_id else ""
    then = f"{_THEN[past.then]}{by}{request}{aside}"
    return f"task #{past.task}  {_minute(past.at)}  {then}: {gist(past.call)}"


def short(past: PastCall) -> PastCall:
    """The call with no more of its input than an example shows."""
    kept = past.call.model_copy(update={"tool_input": {"": _middle(_gist(past.call), SHOWN)}})
    return past.model_copy(update={"call": kept})


def gist(call: Call) -> str:
    """A call in one line: what matters most of its input, cut in the middle, nothing invisible."""
    return cut(_gist(call))


def _gist(call: Call) -> str:
    given = call.tool_input
    if given.keys() == {""}:
        return str(given[""])
    if not call.tool_name.startswith("mcp__"):
        for name in _GIST:
            if isinstance(given.get(name), str):
                return str(given[name])
    return json.dumps(given, ensure_ascii=False)


def cut(words: str, longest: int = SHOWN) -> str:
    """Somebody else's words in one line: cut in the middle, and nothing invisible."""
    return visible.inline(_middle(words, longest))


def _middle(words: str, longest: int) -> str:
    if len(words) <= longest:
        return words
    half = (longest - 20) // 2
    return f"{words[:half]} …({len(words) - 2 * half} more)… {words[-half:]}"


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


# --- for programs -------------------------------------------------------------------------


def call_line(seen: Shadow) -> str:
    """One call with its whole input, as a line of JSON."""
    past = seen.past
    return _json(
        {
            "task": past.task,
            "task_id": past.task_id,
            "workspace": past.call.workspace,
            "at": past.at.isoformat(),
            "tool_name": past.call.tool_name,
            "tool_input": past.call.tool_input,
            "agent_id": past.call.agent_id,
            "then": past.then,
            "by": past.by,
            "request": past.request or None,
            "change": seen.change,
            "overrules": seen.overrules,
            "before": _opinion_json(seen.before),
            "after": _opinion_json(seen.after),
        }
    )


def _opinion_json(said: Opinion) -> dict[str, Any]:
    about: dict[str, Any] = {"effect": said.effect, "rule": said.rule, "section": said.section}
    if said.effect == "ask":
        about |= {
            "approvers": said.approvers,
            "quorum": said.quorum,
            "requester_may_decide": said.requester_may_decide,
        }
    return about | ({"hook_error": said.hook_error} if said.hook_error else {})


def summary_line(summary: Summary, gaps: Gaps, window: Window, *, new: str, present: str) -> str:
    """The sum, as the last line of JSON."""
    about = {
        "new": new,
        "present": present or None,
        "since": window.since.isoformat(),
        "until": window.until.isoformat(),
        "calls": summary.calls,
        "tasks": len(summary.tasks),
        **{str(change): count for change, count in summary.changes.items()},
        "rejected_would_run": summary.rejected,
        "changed_would_run": summary.changed,
        "hook_errors": summary.hook_errors,
        "gaps": gaps.told,
        "more_gaps": gaps.more,
    }
    return _json({"summary": about})


def _json(value: object) -> str:
    """In ASCII: what a terminal must not be sent is escaped."""
    return json.dumps(value)
