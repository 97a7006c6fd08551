"""The conditions of a decision that a program can check: read, and refused if the call cannot keep them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

from agent_runner import conditions as limits
from agent_runner.condition_checks import Broken, broken
from agent_runner.errors import FixInput, Unfit
from agent_runner.matching import Call
from agent_runner.model import Condition, ConditionKind, Inquiry, Verdict
from bot.commands import Chose
from cards import choices, conditions


def asked(inquiry: Inquiry, command: Chose, *, zone: tzinfo, now: datetime) -> tuple[Condition, ...]:
    """The conditions that a decision comes with, given as data or in words that are nothing else."""
    words = command.conditions.strip()
    if command.verdict is not Verdict.CHANGE:
        if command.limits:
            raise FixInput(
                "Only an approval with changes can have conditions.", hint='Send verdict "change" with them.'
            )
        return ()
    if not choices.is_call(inquiry):  # a plan goes back, a step is answered: both with the words
        if command.limits:
            raise FixInput(
                "Conditions are only checked for a tool call.", hint="Say them in words, as conditions."
            )
        return ()
    read = conditions.read(words, zone=zone, now=now) if words else ()
    if command.limits and words and not read and command.input is None:
        raise FixInput(
            "Words send the call back to be revised; limits let it run. Both at once cannot be meant.",
            hint="Send the limits alone, or everything in words.",
        )
    return (*command.limits, *(condition for condition in read if condition not in command.limits))


def check(wanted: Iterable[Condition], call: Call, *, zone: tzinfo, now: datetime) -> None:
    """Raises `Unfit` for a condition that this call breaks already, or can never keep."""
    for condition in wanted:
        value = condition.value
        if condition.kind is ConditionKind.BEFORE:
            value = f"{condition.moment.astimezone(zone):%Y-%m-%d %H:%M}"
        if condition.kind is ConditionKind.TIMES and condition.count > limits.MOST_TIMES:
            raise Unfit(
                f"At most {limits.MOST_TIMES} runs can be approved at once.",
                why="condition_too_often",
                hint="Write a rule into the policy for what runs more often.",
                value=limits.MOST_TIMES,
            )
        why = broken(condition, call, now)
        if why is not None:
            message, hint = _SAID[why]
            raise Unfit(message.format(value=value), why=why.value, hint=hint, value=value)


_SAID: dict[Broken, tuple[str, str]] = {
    Broken.OVER: ("{value} is over already, so it could never run.", "Give a later time."),
    Broken.NEVER: ("{value} times is never.", "To let it not run at all, reject it."),
    Broken.OUTSIDE: (
        "This call reaches outside {value}, so it could never run.",
        "Change the call, or say in other words what the agent should do.",
    ),
    Broken.UNTOLD: (
        "Whether this call stays inside {value} cannot be checked.",
        "Say it in other words; the agent then revises the call.",
    ),
    Broken.ABSENT: (
        "{value} is not in this call, so it could never run.",
        "Change the call, or say in other words what the agent should add.",
    ),
    Broken.PATTERN: (
        "{value} is not a pattern that can be searched for.",
        "Write the plain text in quotes, or a simpler pattern.",
    ),
}
