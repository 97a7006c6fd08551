"""Every sentence the model reads from us, in one place.

`rejected`, `expired`, `withdrawn`, `denied by rule` and `outcome unknown` are different words,
because they call for different next steps; none of them invites a work-around, and a person's
own words are passed on exactly as typed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_runner import conditions as limits
from agent_runner.model import Decision, Grant, Inquiry, InquiryState, Verdict

SYSTEM = """\
You work inside Countersign: people ask for jobs in a chat thread, and some of your tool calls wait for a \
person's approval. Waiting can take hours; you are paused meanwhile and notice nothing.
- Make each call complete and readable: the person sees exactly the call. Calls of one turn that need \
approval are shown together and decided each on its own. One of them waits; the others come back as asked \
about, and you are told what was decided: then make each approved one again, exactly as it was.
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
    no = [
        v for v in inquiry.votes if v.verdict is Verdict.REJECT and decision and v.by.key != decision.by.key
    ]
    others = "".join(f"{v.by.name} rejected it as well, word for word:\n{v.words}\n" for v in no)
    return f"Rejected by {who}. It did not run.{said}{others}{NO_WORKAROUND}"


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


def asked_together() -> str:
    """Another call of the same turn waits; people are asked about both on one card."""
    return (
        "Not run yet: people are asked about this call together with the other one of this turn that waits "
        "for them. Do nothing about it now; you will be told what they decided."
    )


def of_siblings(inquiries: Sequence[Inquiry]) -> str:
    """What people said about the other calls of the turn, told beside the one that waited."""
    if not inquiries:
        return ""
    told = "\n".join(f"{at}. {_of_sibling(inquiry)}" for at, inquiry in enumerate(inquiries, 1))
    return f"What was decided about the other calls of that turn:\n{told}"


def _of_sibling(inquiry: Inquiry) -> str:
    call = f"{inquiry.tool_name} with input\n{_json(inquiry.tool_input)}\n"
    if inquiry.run_allowed:
        who = inquiry.decision.by.name if inquiry.decision else "somebody"
        changed = " with changes" if inquiry.effective_input != inquiry.tool_input else ""
        return (
            f"{call}Approved by {who}{changed}. It did not run yet: make this call again, exactly as it was."
        )
    words = {
        InquiryState.REJECTED: rejected,
        InquiryState.CHANGED: conditions,
        InquiryState.EXPIRED: expired,
    }.get(inquiry.state, withdrawn)
    return call + words(inquiry)


REFUSED_OFTEN = "refused three times"


def refused_often() -> str:
    """People said no to exactly this call often enough."""
    return (
        "Not run, and nobody was asked again: people have refused exactly this call three times. "
        f"{NO_WORKAROUND} Stop here and say what you would need."
    )


def nobody_answered(inquiry: Inquiry) -> str:
    """A subagent's call for which a process waited, in vain."""
    until = inquiry.expires_at.strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"Nobody answered until {until}. It did not run. This is not a refusal: nobody decided. "
        f"{NO_WORKAROUND} Hand it back: end, and report the exact call, so that the main agent can make it; "
        "it can wait for people for longer."
    )


def not_in_subagent() -> str:
    """A subagent cannot wait for a person."""
    return (
        "Not run: a subagent can neither ask a question nor have a plan approved. Hand this need back: "
        "end, and report it, so that the main agent can do it."
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
        f"{_json(inquiry.effective_input)}{words}{_within(decision, ' Their approval holds ')}"
    )


def ran_as_approved(inquiry: Inquiry) -> str:
    """Context beside an approved call's result: what was changed, what was checked; '' for a plain yes."""
    decision = inquiry.decision
    if decision is None or decision.verdict is not Verdict.CHANGE:
        return ""
    if decision.input is not None:
        return ran_as_changed(inquiry)
    within = _within(decision, " ")
    return f"{decision.by.name} approved this call{within}" if within else ""


def _within(decision: Decision | None, lead: str) -> str:
    if decision is None or not decision.limits:
        return ""
    times = limits.times(decision.limits) or 1
    again = (
        f" It may run {times} times in this task, exactly as it ran now, without asking again."
        if times > 1
        else " It holds for this one run."
    )
    return f"{lead}{limits.in_words(decision.limits)}. These conditions were checked.{again}"


def ran_again(grant: Grant) -> str:
    """Context beside the result of a call that an earlier, counted approval let run; '' if not counted."""
    if grant.times is None:
        return ""
    used = grant.used + 1
    left = "no run is left" if used >= grant.times else f"{grant.times - used} left"
    return f"{grant.by.name} approved this exact call for {grant.times} runs; this was number {used}, {left}."


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
