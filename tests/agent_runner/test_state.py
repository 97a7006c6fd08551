from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from agent_runner.errors import WrongState
from agent_runner.model import Execution, InquiryState, TaskState
from agent_runner.state import EXECUTION, INQUIRY, TASK, ExecutionEvent, InquiryEvent, TaskEvent, move

# Rows are states, columns are events, `-` is an illegal move. Written out a second time on
# purpose: whoever changes the tables has to say so twice.
TASK_GOLDEN = """
          start   wait    resume continue finish fail   requeue stick stop    ask_again
queued    running -       -      -        -      failed -       stuck stopped -
running   -       waiting -      queued   done   failed queued  stuck stopped -
waiting   -       -       queued -        -      -      -       -     stopped -
done      -       -       -      queued   -      -      -       -     -       waiting
failed    -       -       -      queued   -      -      queued  -     -       waiting
stopped   -       -       -      queued   -      -      -       -     -       waiting
stuck     -       -       -      queued   -      -      queued  -     stopped -
"""

INQUIRY_GOLDEN = """
          approve  change  reject   answer   expire  withdraw
pending   approved changed rejected answered expired withdrawn
approved  -        -       -        -        -       -
changed   -        -       -        -        -       -
rejected  -        -       -        -        -       -
answered  -        -       -        -        -       -
expired   -        -       -        -        -       -
withdrawn -        -       -        -        -       -
"""

EXECUTION_GOLDEN = """
          start   finish   lose
none      started -        -
started   -       finished unknown
finished  -       -        -
unknown   -       -        -
"""


def drawn(table: Mapping[Any, StrEnum], states: type[StrEnum], events: type[StrEnum]) -> list[list[str]]:
    """The table as a picture: every state by every event, through `move` alone."""

    def cell(state: StrEnum, event: StrEnum) -> str:
        try:
            return str(move(table, state, event))
        except WrongState as error:
            assert error.details == {"state": str(state)}
            return "-"

    return [[str(e) for e in events]] + [[str(s), *(cell(s, e) for e in events)] for s in states]


@pytest.mark.parametrize(
    ("table", "states", "events", "golden"),
    [
        (TASK, TaskState, TaskEvent, TASK_GOLDEN),
        (INQUIRY, InquiryState, InquiryEvent, INQUIRY_GOLDEN),
        (EXECUTION, Execution, ExecutionEvent, EXECUTION_GOLDEN),
    ],
    ids=["task", "inquiry", "execution"],
)
def test_every_event_in_every_state(
    table: Mapping[Any, StrEnum], states: type[StrEnum], events: type[StrEnum], golden: str
) -> None:
    """Each event leads where the golden says, and everything else raises `WrongState`."""
    assert drawn(table, states, events) == [line.split() for line in golden.strip().splitlines()]


def test_an_illegal_move_says_what_and_from_where() -> None:
    """The error reads as a sentence."""
    with pytest.raises(WrongState) as error:
        move(TASK, TaskState.DONE, TaskEvent.STOP)
    assert (error.value.message, error.value.details) == ("cannot stop while done", {"state": "done"})
