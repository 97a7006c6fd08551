"""What should stand in a thread, at every point of a task's life."""

from __future__ import annotations

import pytest

from agent_runner.model import InquiryState, Task, TaskState
from cards import posts as thread
from cards import text
from cards.model import Post
from tests.cards.examples import NOW, PROGRESS, ZONE, inquiry, task


def _posts(of: Task, *inquiries: object, **options: object) -> tuple[Post, ...]:
    return thread.posts(of, inquiries, progress=None, lang="en", zone=ZONE, now=NOW, **options)  # type: ignore[arg-type]  # objects keep the calls below short


@pytest.mark.parametrize(
    ("state", "keys"),
    [
        (TaskState.QUEUED, ["status"]),
        (TaskState.RUNNING, ["status"]),
        (TaskState.DONE, ["status", "result:2"]),
        (TaskState.FAILED, ["status", "result:2"]),
        (TaskState.STOPPED, ["status", "result:2"]),
        (TaskState.STUCK, ["status", "result:2"]),
    ],
)
def test_status_first_result_last(state: TaskState, keys: list[str]) -> None:
    """There is one status message, and a result once the task has ended."""
    assert [post.key for post in _posts(task(state))] == keys


def test_requests_stand_in_order_with_their_revisions() -> None:
    """Each request has one message, by number, at the revision of its inquiry."""
    second = inquiry(id="inq-13", number=13, revision=8, batch="batch-2")
    posts = _posts(task(TaskState.WAITING), second, inquiry())
    assert [(post.key, post.revision) for post in posts] == [
        ("status", 9),
        ("request:12", 3),
        ("request:13", 8),
    ]
    assert "1 of 2 requests that are open here" in text.render(posts[1].card)


def test_a_request_asked_again_points_to_the_new_one() -> None:
    """The expired card loses its button and names the request that follows it; that one tells so too."""
    first = inquiry(state=InquiryState.EXPIRED)
    second = inquiry(id="inq-13", number=13, replaces=first.id, batch="again-1")
    old, new = (post.card for post in _posts(task(TaskState.WAITING), first, second)[1:])
    assert "Asked again as request #13." in text.render(old)
    assert old.settled() == old
    assert "This asks again for what request #12 asked for, unchanged." in text.render(new)


def test_names_of_those_waited_for() -> None:
    """The people who may decide are named on the card and in the status message."""
    posts = _posts(task(TaskState.WAITING), inquiry(), approver_names={"inq-12": ("lin", "kai")})
    assert text.render(posts[0].card).startswith("Waiting for lin, kai since 14:03")
    assert "lin, kai may decide · until 18:03" in text.render(posts[1].card)


def test_the_same_state_gives_the_same_posts() -> None:
    """Posts are a function of what is stored: composing twice changes nothing."""
    of = task(TaskState.WAITING)
    assert _posts(of, inquiry()) == _posts(of, inquiry())


def test_progress_is_on_the_status_message_only() -> None:
    """What the agent does now is told in one place."""
    posts = thread.posts(task(), [inquiry()], progress=PROGRESS, lang="en", zone=ZONE, now=NOW)
    assert ["using Read" in text.render(post.card) for post in posts] == [True, False]
