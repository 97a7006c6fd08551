"""The transition tables of task, inquiry and execution, as data, and the one function for all.

An illegal move raises `WrongState` and changes nothing. There is no other place in which a
state is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from agent_runner.errors import WrongState
from agent_runner.model import Execution, InquiryState, TaskState, Verdict


class TaskEvent(StrEnum):
    """What can happen to a task."""

    START = "start"
    """A worker claimed the queued turn."""
    WAIT = "wait"
    """The turn ended at a call that needs a person."""
    RESUME = "resume"
    """Everything it waited for is decided: the next turn is queued."""
    CONTINUE = "continue"
    """The next turn is queued with new words."""
    FINISH = "finish"
    FAIL = "fail"
    REQUEUE = "requeue"
    """The worker died under the turn; the same turn is queued again."""
    STICK = "stick"
    """It cannot go on without a person saying how."""
    STOP = "stop"
    ASK_AGAIN = "ask_again"
    """A request that expired is asked again after the task had ended."""


T = TaskState
TASK: Mapping[tuple[TaskState, TaskEvent], TaskState] = {
    (T.QUEUED, TaskEvent.START): T.RUNNING,
    (T.RUNNING, TaskEvent.WAIT): T.WAITING,
    (T.WAITING, TaskEvent.RESUME): T.QUEUED,
    (T.RUNNING, TaskEvent.CONTINUE): T.QUEUED,
    (T.DONE, TaskEvent.CONTINUE): T.QUEUED,
    (T.FAILED, TaskEvent.CONTINUE): T.QUEUED,
    (T.STOPPED, TaskEvent.CONTINUE): T.QUEUED,
    (T.STUCK, TaskEvent.CONTINUE): T.QUEUED,
    (T.RUNNING, TaskEvent.FINISH): T.DONE,
    (T.RUNNING, TaskEvent.FAIL): T.FAILED,
    (T.QUEUED, TaskEvent.FAIL): T.FAILED,
    (T.RUNNING, TaskEvent.REQUEUE): T.QUEUED,
    (T.FAILED, TaskEvent.REQUEUE): T.QUEUED,
    (T.STUCK, TaskEvent.REQUEUE): T.QUEUED,
    (T.RUNNING, TaskEvent.STICK): T.STUCK,
    (T.QUEUED, TaskEvent.STICK): T.STUCK,
    (T.QUEUED, TaskEvent.STOP): T.STOPPED,
    (T.RUNNING, TaskEvent.STOP): T.STOPPED,
    (T.WAITING, TaskEvent.STOP): T.STOPPED,
    (T.STUCK, TaskEvent.STOP): T.STOPPED,
    (T.DONE, TaskEvent.ASK_AGAIN): T.WAITING,
    (T.FAILED, TaskEvent.ASK_AGAIN): T.WAITING,
    (T.STOPPED, TaskEvent.ASK_AGAIN): T.WAITING,
}


class InquiryEvent(StrEnum):
    """What can happen to an open inquiry: a verdict, or no answer at all."""

    APPROVE = Verdict.APPROVE.value
    CHANGE = Verdict.CHANGE.value
    REJECT = Verdict.REJECT.value
    ANSWER = Verdict.ANSWER.value
    EXPIRE = "expire"
    WITHDRAW = "withdraw"


I = InquiryState  # noqa: E741  (the table below reads better with one letter)
INQUIRY: Mapping[tuple[InquiryState, InquiryEvent], InquiryState] = {
    (I.PENDING, InquiryEvent.APPROVE): I.APPROVED,
    (I.PENDING, InquiryEvent.CHANGE): I.CHANGED,
    (I.PENDING, InquiryEvent.REJECT): I.REJECTED,
    (I.PENDING, InquiryEvent.ANSWER): I.ANSWERED,
    (I.PENDING, InquiryEvent.EXPIRE): I.EXPIRED,
    (I.PENDING, InquiryEvent.WITHDRAW): I.WITHDRAWN,
}


class ExecutionEvent(StrEnum):
    """What can happen to an approved call."""

    START = "start"
    FINISH = "finish"
    LOSE = "lose"


X = Execution
EXECUTION: Mapping[tuple[Execution, ExecutionEvent], Execution] = {
    (X.NONE, ExecutionEvent.START): X.STARTED,
    (X.STARTED, ExecutionEvent.FINISH): X.FINISHED,
    (X.STARTED, ExecutionEvent.LOSE): X.UNKNOWN,
}

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


def move(table: Mapping[tuple[S, E], S], state: S, event: E) -> S:
    """The state after `event`; raises `WrongState` if the table has no such move."""
    try:
        return table[state, event]
    except KeyError:
        raise WrongState(f"cannot {event} while {state}", state=str(state)) from None
