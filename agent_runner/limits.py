"""How far a job may go by itself: what it used, of how much, and what people allowed beyond.

Pure. The numbers are counted over all turns of a task; a turn gets what is left, and whatever is
used up becomes a request ("go on with $2 more?"), never a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agent_runner import briefs
from agent_runner.config import Config
from agent_runner.model import (
    LIMIT_TOOL,
    Allowance,
    DeferredCall,
    Failure,
    FollowUp,
    Inquiry,
    Limit,
    Reached,
    Task,
    Unstarted,
)

MEASURED_TO = 4
"""Decimals of the amounts that people are shown and asked about."""

SPENT_KEPT = timedelta(days=2)
"""How long a day's costs are kept: until nobody's clock is still on that day."""


@dataclass(frozen=True)
class Bound:
    """One limit as it stands for a task when a turn begins. `step`: how much more is asked for."""

    limit: Limit
    used: float
    of: float
    step: float
    day: str = ""

    @property
    def left(self) -> float:
        """What a turn may still use."""
        return self.of - self.used

    def reached(self, used_now: float = 0.0) -> Reached:
        """The limit as reached by a turn that used so much."""
        amounts = (self.used + used_now, self.of, self.step)
        used, of, more = (round(amount, MEASURED_TO) for amount in amounts)
        return Reached(limit=self.limit, used=used, of=of, more=more, day=self.day)


def bounds(config: Config, task: Task, *, spent_today: float, now: datetime) -> tuple[Bound, ...]:
    """The limits that hold for a task, which must be in a configured workspace.

    `spent_today`: what all tasks of the workspace cost on this day so far.
    """
    limits, used, more = config.limits, task.usage, task.allowance
    found = [
        Bound(
            Limit.MODEL_TURNS,
            used.model_calls,
            limits.max_model_turns + more.model_turns,
            limits.max_model_turns,
        )
    ]
    if (minutes := limits.max_task_minutes) is not None:
        found.append(Bound(Limit.MINUTES, used.active_ms / 60_000, minutes + more.minutes, minutes))
    if (usd := limits.max_task_usd) is not None:
        found.append(Bound(Limit.USD, used.cost_usd, usd + more.usd, usd))
    if (per_day := config.workspaces[task.workspace].max_usd_per_day) is not None:
        day, of = day_of(now), per_day
        if more.day == day:
            of = max(of, spent_today + more.day_usd - used.cost_usd)
        found.append(Bound(Limit.DAY_USD, spent_today, of, per_day, day))
    return tuple(found)


def exhausted(found: Iterable[Bound]) -> Bound | None:
    """The first limit of which nothing is left."""
    return next((bound for bound in found if bound.left <= 0), None)


def day_of(now: datetime) -> str:
    """The day to which a cost is counted: that of UTC, for runners know no other zone."""
    return f"{now.astimezone(UTC):%Y-%m-%d}"


def call(reached: Reached) -> DeferredCall:
    """The request as if it were a call, for the record and for the policy's routes."""
    given = reached.model_dump(mode="json", exclude_defaults=True)
    whole = {name: int(value) for name, value in given.items() if _is_whole(value)}
    return DeferredCall(tool_use_id="", tool_name=LIMIT_TOOL, tool_input={**given, **whole})


def rule(reached: Reached, workspace: str) -> str:
    """The setting that asks, as a person finds it in the file."""
    return _SETTINGS[reached.limit].format(workspace=workspace)


_SETTINGS = {
    Limit.USD: "limits.max_task_usd",
    Limit.MINUTES: "limits.max_task_minutes",
    Limit.MODEL_TURNS: "limits.max_model_turns",
    Limit.DAY_USD: "workspaces.{workspace}.max_usd_per_day",
}


def raised(task: Task, inquiry: Inquiry) -> Allowance:
    """What the task is allowed after a yes: from what was used on, as much more as was approved."""
    given, allowed = inquiry.effective_input, task.allowance
    limit, more = Limit(given["limit"]), float(given["more"])
    beyond = round(max(0.0, float(given["used"]) - float(given["of"])) + more, MEASURED_TO)
    changed: dict[str, object]
    match limit:
        case Limit.USD:
            changed = {"usd": allowed.usd + beyond}
        case Limit.MINUTES:
            changed = {"minutes": allowed.minutes + beyond}
        case Limit.MODEL_TURNS:
            changed = {"model_turns": allowed.model_turns + int(beyond)}
        case Limit.DAY_USD:
            changed = {"day": given["day"], "day_usd": task.usage.cost_usd + more}
    result: Allowance = allowed.having(**changed)
    return result


def not_raised(inquiry: Inquiry) -> Failure:
    """Why a task ended that was not allowed more. That is no failure of the task's."""
    by = inquiry.decision.by.name if inquiry.decision else ""
    given = inquiry.tool_input
    said = f"{by} did not allow more." if by else "nobody answered."
    return Failure(
        code=f"limit_{given['limit']}",
        message=f"The limit was reached ({inquiry.rule}: {given['used']} of {given['of']}); {said}",
        hint="Say in the thread what should be done: people are asked again before anything runs.",
    )


def unstarted(task: Task) -> Unstarted:
    """What the present turn was to begin with, for when a limit no longer keeps it from beginning."""
    again = task.prompt is not None and task.attempt > 1
    prompt = briefs.taken_up_again(task.prompt or "") if again else task.prompt
    return Unstarted(prompt=prompt, batch=task.batch)


def unheard(task: Task) -> tuple[FollowUp, ...]:
    """Words with which a turn was to begin that a limit kept from beginning."""
    words = task.unstarted.prompt if task.unstarted else None
    return (FollowUp(text=words, by=task.asked_by, at=task.updated_at),) if words else ()


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()
