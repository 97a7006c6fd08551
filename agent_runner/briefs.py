"""Every sentence the model reads from us, in one place.

`rejected`, `expired`, `withdrawn`, `denied by rule` and `outcome unknown` are different words,
because they call for different next steps; none of them invites a work-around, and a person's
own words are passed on exactly as typed.
"""

from __future__ import annotations

import json
from typing import Any

from agent_runner.model import Inquiry, Verdict

SYSTEM = """\
You work inside Countersign: people ask for jobs in a chat thread, and some of your tool calls wait for a \
person's approval. Waiting can take hours; you are paused meanwhile and notice nothing.
- Make calls that need approval one at a time, each complete and readable: the person sees exactly the call.
- If a call is refused, do not try to reach the same effect another way. Follow the person's words, or stop \
and say what you would need.
- For a step that is no single tool call (something outside this machine, or several calls that only make \
sense together), ask first with the request_approval tool.
- End with a short report of what was done and what was not, for people who did not watch."""

NO_WORKAROUND = "Do not try to reach the same effect in another way."


def rejected(inquiry: Inquiry) -> str:
    """A person said no."""
    decision = inquiry.decision
    who = decision.by.name if decision else "somebody"
    reason = decision.reason if decision else ""
    said = f" Their reason, word for word:\n{reason}\n" if reason else " "
    return f"Rejected by {who}. It did not run.{said}{NO_WORKAROUND}"


def conditions(inquiry: Inquiry) -> str:
    """A person approved under conditions in words: the call must come back revised."""
    decision = inquiry.decision
    who = decision.by.name if decision else "somebody"
    words = decision.conditions if decision else ""
    return (
        f"Not run as it stands. {who} agrees with changes; their words:\n{words}\n"
        "Issue the call again, revised to meet these words; it will be shown to them before it runs. "
        "If the words cannot be met, say why instead."
    )


def expired(inquiry: Inquiry) -> str:
    """Nobody answered. This is neither a yes nor a no."""
    until = inquiry.expires_at.strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"Nobody answered until {until}. It did not run. This is not a refusal: nobody decided. "
        f"{NO_WORKAROUND} Say what remains undone and end; people can ask for it again."
    )


def withdrawn(_inquiry: Inquiry | None = None) -> str:
    """The task was stopped while the call waited."""
    return f"Withdrawn: the job was stopped while this call waited. It did not run. {NO_WORKAROUND}"


def unknown() -> str:
    """The call was started once and nobody saw it end."""
    return (
        "Outcome unknown: this call was started before, the worker stopped, and it may or may not have "
        "taken effect. It is not run again by itself. Check the present state with read-only steps and "
        "report it."
    )


def ran_already() -> str:
    """The call was approved once, and ran to its end once."""
    return (
        "Not run again: this call was approved for one run, and that run ended. Its result is in the "
        "conversation or in the report of the person who asked. If it is needed once more, make a new call."
    )


def denied_by_rule(rule: str) -> str:
    """The policy forbids it; no person is asked."""
    return f"Forbidden by this workspace's policy (rule: {rule}). Nobody was asked. {NO_WORKAROUND}"


def one_at_a_time() -> str:
    """Another call of the same turn waits for a person already."""
    return (
        "Not run yet: another call of this turn waits for a person, and calls that need approval go one at "
        "a time. After that one is settled, issue this call again exactly as it was."
    )


def not_in_subagent() -> str:
    """A subagent cannot wait for a person."""
    return (
        "Not run: it needs a person's approval, and a subagent cannot wait for one. Hand this need back: "
        "end, and report the exact call, so that the main agent can make it and have it approved."
    )


def not_run(why: str) -> str:
    """Something that must hold at dispatch did not; fails closed."""
    return f"Not run: {why} {NO_WORKAROUND}"


def ran_as_changed(inquiry: Inquiry) -> str:
    """Context beside an edited call's result: what ran is not what was asked for."""
    decision = inquiry.decision
    who = decision.by.name if decision else "somebody"
    words = f" Their words:\n{decision.conditions}" if decision and decision.conditions else ""
    return (
        f"{who} approved this call with changes. What ran instead of your input:\n"
        f"{_json(inquiry.effective_input)}{words}"
    )


def asked_again(inquiry: Inquiry) -> str:
    """The prompt after a request that had expired was asked again and settled."""
    call = f"{inquiry.tool_name} with input\n{_json(inquiry.tool_input)}"
    decision = inquiry.decision
    if decision is None:
        return f"The request that had expired was asked again; again nobody answered. It did not run:\n{call}"
    if inquiry.run_allowed:
        return f"{decision.by.name} has now approved the request that had expired. Make this call:\n{call}"
    words = conditions(inquiry) if decision.verdict is Verdict.CHANGE else rejected(inquiry)
    return f"The request that had expired was asked again:\n{call}\n{words}"


def limit_reached() -> str:
    """Why the engine stopped between two steps."""
    return "a limit of this job is reached; people are asked whether it goes on"


def go_on(inquiry: Inquiry) -> str:
    """The prompt after people let a job go on that had reached a limit."""
    decision = inquiry.decision
    who = decision.by.name if decision else "Somebody"
    said = (decision.conditions or decision.reason) if decision else ""
    words = f" Their words:\n{said}\n" if said else " "
    return (
        f"This job had reached a limit and was paused after your last step. {who} lets it go on.{words}"
        "Go on where you stopped; do not repeat what is done. The limit holds again, at a higher mark: "
        "spend no more steps than the rest needs."
    )


def taken_up_again(prompt: str) -> str:
    """The prompt of a turn whose worker died after the conversation had begun."""
    return (
        "The worker that ran this turn stopped in the middle. Check what was already done before repeating "
        f"any step, then go on. The request was:\n\n{prompt}"
    )


def approved_plan(inquiry: Inquiry) -> str:
    """Context beside an approved plan: after a pause the engine no longer repeats it to the model."""
    who = inquiry.decision.by.name if inquiry.decision else "somebody"
    return f"{who} approved this plan:\n{inquiry.tool_input.get('plan', '')}"


def approved_step(inquiry: Inquiry) -> str:
    """The result of the request_approval tool."""
    decision = inquiry.decision
    if decision is None:
        return "No decision is on record. Do not go on with this step."
    if decision.conditions:
        return f"Approved by {decision.by.name} under these conditions, word for word:\n{decision.conditions}"
    return f"Approved by {decision.by.name}. Go on with exactly the step that was described."


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
