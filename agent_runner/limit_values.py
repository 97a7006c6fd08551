"""The values of limits: what can be used up, how much was, and what people allowed beyond."""

from __future__ import annotations

from enum import StrEnum

from agent_runner.value import Value

LIMIT_TOOL = "Limit"
"""The name under which a [[policy.route]] says who decides about limits. The agent has no such tool."""

MOST_STEPS = 10
"""How many times the configured amount can be approved at once, at most."""


class Limit(StrEnum):
    """What a job may use up. `day_usd`: the dollars of its whole workspace on one day (UTC)."""

    USD = "usd"
    MINUTES = "minutes"
    MODEL_TURNS = "model_turns"
    DAY_USD = "day_usd"


class Reached(Value):
    """A limit that was reached: how much was used of how much, and how much more is asked for."""

    limit: Limit
    used: float
    of: float
    more: float
    day: str = ""
    """For `day_usd`: the day (UTC), as `2026-12-01`."""


class Allowance(Value):
    """What people allowed a task beyond the configured limits, in all."""

    usd: float = 0.0
    minutes: float = 0.0
    model_turns: int = 0
    day: str = ""
    day_usd: float = 0.0
    """On `day`, what the task may cost in all, even if its workspace's dollars are used up."""


class Unstarted(Value):
    """What a turn was to begin with (see `Task.prompt` and `Task.batch`) that a limit kept from beginning."""

    prompt: str | None = None
    batch: str | None = None
