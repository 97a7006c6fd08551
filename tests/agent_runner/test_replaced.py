"""Which earlier request a new call revises."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runner.aggregate import Snapshot
from agent_runner.model import Inquiry, Scope
from agent_runner.replaced import replaced
from tests.fakes.values import a_decision, a_task, an_inquiry

DEPLOY = "helm upgrade checkout ./chart --namespace prod"
REVISED = "helm upgrade checkout ./chart --namespace staging"


def asked(number: int, command: str, state: str, **changes: Any) -> Inquiry:
    """A request for a command in some state, decided by Lin."""
    verdict = {"changed": "change", "rejected": "reject", "approved": "approve"}.get(state)
    said = {"change": {"conditions": "in staging"}, "reject": {"reason": "no"}}.get(verdict or "", {})
    decision = a_decision(verdict, **said) if verdict else None
    given = {"id": f"i_{number}", "number": number, "tool_input": {"command": command}, "state": state}
    return an_inquiry(**{**given, "tool_use_id": f"toolu_{number}", "decision": decision, **changes})


CASES: dict[str, tuple[list[Inquiry], str | None]] = {
    "nothing before": ([], None),
    "the last one, sent back": ([asked(1, DEPLOY, "changed")], "i_1"),
    "the last one, rejected": ([asked(1, DEPLOY, "rejected")], "i_1"),
    "the last one, whatever the call": ([asked(1, "make all", "rejected")], "i_1"),
    "other calls in between": (
        [asked(1, DEPLOY, "changed"), asked(2, "ls", "approved"), asked(3, "git pull", "approved")],
        "i_1",
    ),
    "another call in between, sent back too": (
        [asked(1, DEPLOY, "changed"), asked(2, "ls", "changed")],
        "i_1",
    ),
    "the most alike": (
        [
            asked(1, REVISED + " --wait", "changed"),
            asked(2, "helm list", "rejected"),
            asked(3, "ls", "approved"),
        ],
        "i_1",
    ),
    "the newest of equals": ([asked(1, DEPLOY, "changed"), asked(2, DEPLOY, "changed")], "i_2"),
    "old and unlike": ([asked(1, "make all", "rejected"), asked(2, "ls", "approved")], None),
    "revised already": ([asked(1, DEPLOY, "changed"), asked(2, REVISED, "approved", replaces="i_1")], None),
    "only looked around after it": (
        [asked(1, DEPLOY, "changed"), asked(2, "ls", "approved", replaces="i_1")],
        "i_1",
    ),
    "approved": ([asked(1, DEPLOY, "approved")], None),
    "still open": ([asked(1, DEPLOY, "pending")], None),
    "expired": ([asked(1, DEPLOY, "expired")], None),
    "ran as edited": (
        [asked(1, DEPLOY, "changed", decision=a_decision("change", input={"command": REVISED}))],
        None,
    ),
    "another tool": (
        [asked(1, DEPLOY, "changed", tool_name="Write", tool_input={"file_path": DEPLOY, "content": ""})],
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_call_replaces(case: str) -> None:
    """The request that people sent back, also if the agent did something else first."""
    before, found = CASES[case]
    assert replaced(Snapshot(a_task(), tuple(before)), "Bash", {"command": REVISED}) == found


def test_a_run_under_conditions_is_not_replaced() -> None:
    """Conditions as data let a call run: nothing was sent back."""
    decision = a_decision("change", limits=[{"kind": "times", "value": "2"}], scope=Scope.ONCE)
    ran = asked(1, DEPLOY, "changed", decision=decision)
    assert replaced(Snapshot(a_task(), (ran,)), "Bash", {"command": REVISED}) is None
