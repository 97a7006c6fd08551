"""What the gate says about a call, what it reads to say it, and its plain comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from agent_runner import briefs
from agent_runner.digest import digest
from agent_runner.model import DeferredCall, Execution, Grant, Inquiry, InquiryState, Kind
from agent_runner.policy import PLAN_TOOL as PLAN_TOOL
from agent_runner.policy import QUESTION_TOOL as QUESTION_TOOL
from agent_runner.policy import Judgement


@dataclass(frozen=True)
class Ruling:
    """What happens to a call. `context` is told to the model beside the tool's result.

    `wait`, between the parts of the gate only: people are asked while the process waits.
    """

    effect: Literal["allow", "deny", "defer", "wait"]
    reason: str = ""
    updated_input: Mapping[str, Any] | None = None
    context: str = ""


@dataclass(frozen=True)
class Deferral:
    """The call at which the turn stops, with the rule that stopped it."""

    call: DeferredCall
    rule: str


class Ledger(Protocol):
    """What the gate reads and writes; every method may raise, and then the answer is no."""

    async def find(self, tool_use_id: str, call_digest: str) -> Inquiry | None:
        """The inquiry in which people decide or decided about this call."""

    async def grant_for(self, call: DeferredCall, call_digest: str, stopped_by: str) -> Grant | None:
        """A standing approval that covers this call, which the policy rule `stopped_by` stopped."""

    async def refusal(self, inquiry: Inquiry) -> str:
        """Why a decided call may not run any more ('' if it may): approver, age, policy."""

    async def held_back(self, inquiry: Inquiry, tool_use_id: str, why: str) -> None:
        """Puts on record that such a call may not run now, and why: people must learn of it."""

    async def siblings(self, inquiry: Inquiry) -> tuple[Inquiry, ...]:
        """The other calls of that turn about which the model has yet to learn what people said."""

    async def refusals(self, call_digest: str) -> int:
        """How often people refused exactly this call in this task."""

    async def tell_refusal(self, inquiry: Inquiry, tool_use_id: str) -> None:
        """Puts on record that the model made a refused call again and was told; then that is over."""

    async def ask(self, call: DeferredCall, call_digest: str, rule: str) -> Inquiry:
        """Asks people about a call while its process waits; the open inquiry about it if there is one."""

    async def look(self, inquiry_id: str) -> Inquiry:
        """How such an inquiry stands."""

    async def start(self, inquiry: Inquiry, tool_use_id: str) -> None:
        """Puts `started` on record; raises if it was there already."""

    async def use_grant(self, grant: Grant, call: DeferredCall) -> None:
        """Puts the use of a grant on record."""

    async def denied(self, call: DeferredCall, rule: str) -> None:
        """Puts on record that the policy forbade a call."""

    async def alarm(self, what: str, call: DeferredCall) -> None:
        """Puts on record that something happened which must not be possible."""


Judge = Callable[[str, Mapping[str, Any], str | None], Judgement]


def is_plan_file(plans: Path | None, tool_name: str, tool_input: Mapping[str, Any]) -> bool:
    """Whether it is the file in which the engine has the model write its plan: that is no effect."""
    path = tool_input.get("file_path")
    if plans is None or tool_name not in ("Write", "Edit", "Read") or not isinstance(path, str):
        return False
    if not Path(path).is_absolute():
        return False  # the engine would read it against another directory than this process does
    target = Path(path).resolve()
    return target.parent.name == "plans" and target.is_relative_to(plans.resolve())


def joined(*texts: str) -> str:
    """Texts for the model, one below the other."""
    return "\n\n".join(filter(None, texts))


def was_shown(inquiry: Inquiry, tool_name: str, tool_input: Mapping[str, Any], call_digest: str) -> bool:
    """Whether the call is the one people saw.

    The engine replays ExitPlanMode with an empty input (measured), so its id ties it to the plan.
    """
    if inquiry.kind is Kind.PLAN and tool_name == PLAN_TOOL:
        return not tool_input or tool_input.get("plan") == inquiry.tool_input.get("plan")
    return tool_name == inquiry.tool_name and call_digest == inquiry.digest


def tie(tool_name: str, tool_input: dict[str, Any]) -> str:
    """What must be the same in both checks of a call; a plan's input is replayed empty."""
    return tool_name if tool_name == PLAN_TOOL else digest(tool_name, tool_input)


def refusal_words(inquiry: Inquiry) -> str:
    """What the model is told about a call that people did not say yes to; '' if they did."""
    if inquiry.run.state is not Execution.NONE:
        return briefs.ran_already() if inquiry.run.state is Execution.FINISHED else briefs.unknown()
    if inquiry.run_allowed:
        return briefs.not_run("its approval is over.") if inquiry.settled else ""
    words = _WORDS.get(inquiry.state)
    return words(inquiry) if words else briefs.not_run("it still waits for a person.")


_WORDS: Mapping[InquiryState, Callable[[Inquiry], str]] = {
    InquiryState.REJECTED: briefs.rejected,
    InquiryState.EXPIRED: briefs.expired,
    InquiryState.CHANGED: briefs.conditions,
    InquiryState.WITHDRAWN: briefs.withdrawn,
}
