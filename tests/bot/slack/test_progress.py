"""The status message and the result: what they say, how often, and to whom."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

from agent_runner import lifecycle
from agent_runner.model import Failure, Outcome, OutcomeKind, TaskState, TurnUsage
from tests.bot.slack.conftest import Scene, text_of
from tests.fakes.slack_events import Message
from tests.fakes.values import a_plan, a_question, an_inquiry

Make = Callable[..., Scene]


def running(s: Scene) -> Message:
    """The status message of a job that a worker has begun."""
    thread = s.asked()
    s.office.begins(s.office.task().id)
    s.office.offset += timedelta(seconds=3)
    status = s.card(thread, "status")
    s.until(lambda: "Working in ops" in text_of(s.seen(status)))
    return status


def updates(s: Scene, status: Message) -> int:
    """How often a message was changed."""
    return s.seen(status).edits


def test_one_message_tells_what_is_done_now(scene: Make) -> None:
    """It is changed in place: which tool, retrying the model; nothing new is posted."""
    s = scene()
    status = running(s)
    for activity, detail, shown in [
        ("tool", "Bash", "using Bash"),
        ("model_retry", "", "the model does not answer; trying again"),
        ("tool", "<!channel> `x`", "using "),
        ("thinking", "", "thinking"),
    ]:
        s.office.offset += timedelta(seconds=3)
        s.office.says(s.office.task().id, activity, detail)
        s.until(lambda: shown in text_of(s.seen(status)))  # noqa: B023  (called before the loop goes on)
    assert len(s.posts(str(status.thread_ts))) == 1
    assert s.seen(status).pings == frozenset()


def test_at_most_every_two_seconds(scene: Make) -> None:
    """A burst of news becomes one update now and the latest of it two seconds later."""
    s = scene()
    status = running(s)
    s.office.offset += timedelta(seconds=3)
    task_id = s.office.task().id
    s.office.says(task_id, "tool", "first")
    s.until(lambda: "first" in text_of(s.seen(status)))
    before = updates(s, status)
    for number in range(20):
        s.office.says(task_id, "tool", f"burst-{number}")
    s.looked()
    assert updates(s, status) == before
    s.office.offset += timedelta(seconds=2)
    s.until(lambda: "burst-19" in text_of(s.seen(status)))
    assert updates(s, status) == before + 1


def test_only_when_it_says_something_new(scene: Make) -> None:
    """The same tool again, or time that went by, is no news."""
    s = scene()
    status = running(s)
    task_id = s.office.task().id
    s.office.offset += timedelta(seconds=3)
    s.office.says(task_id, "tool", "Bash")
    s.until(lambda: "Bash" in text_of(s.seen(status)))
    before = updates(s, status)
    for _ in range(3):
        s.office.offset += timedelta(seconds=10)
        s.office.says(task_id, "tool", "Bash")
        s.looked()
    assert updates(s, status) == before


def test_it_says_for_whom_it_waits_and_mentions_nobody(scene: Make) -> None:
    """Names and since when on the status; those who are waited for are mentioned on the request alone."""
    s = scene()
    card, _ = s.pending(an_inquiry(approvers=("group:oncall",), requester_may_decide=False))
    status = s.card(str(card.thread_ts), "status")
    s.until(lambda: "Waiting for Lin, Kai since" in text_of(s.seen(status)))
    shown = text_of(s.seen(status))
    assert "Open: request #1" in shown
    assert "No process is kept; take your time." in shown
    assert f"<@{s.lin}>" not in str(s.seen(status).blocks) + s.seen(status).text
    assert s.seen(status).pings == frozenset()
    assert card.pings == {s.lin, s.kai}
    mentioned = set().union(*(p.pings for p in s.slack.posts(s.ops)))
    assert mentioned == {s.lin, s.kai}


def test_a_question_mentions_whoever_asked(scene: Make) -> None:
    """The requester is waited for, and nobody else is called."""
    s = scene()
    card, _ = s.pending(a_question(approvers=("requester",)))
    assert card.pings == {s.mei}


def test_the_result_with_cost_and_times(scene: Make) -> None:
    """What the agent says, what it cost, how long it took; the status is closed and has no button."""
    s = scene()
    thread = s.asked()
    task_id = s.office.task().id
    s.office.begins(task_id)
    usage = TurnUsage(cost_usd=0.1234, model_calls=3, active_ms=65_000)
    outcome = Outcome(kind=OutcomeKind.DONE, result="Restarted *3* pods of <checkout>.", usage=usage)
    now = s.office.now()
    s.office.store.transact(task_id, lambda snap: lifecycle.complete(snap, outcome, (), now))
    result = s.card(thread, "result:1")
    shown = text_of(result)
    assert "Done in 1 min 5 s" in shown
    assert "$0.12 · 3 model calls" in shown
    assert "pods of <checkout>." in shown.replace("&lt;", "<").replace("&gt;", ">")
    assert result.pings == frozenset()
    status = s.card(thread, "status")
    s.until(lambda: "No longer working: done" in text_of(s.seen(status)))
    assert s.seen(status).buttons == {}


def test_a_long_result_is_a_file(scene: Make) -> None:
    """All of it is within reach in the thread, and the message says so."""
    s = scene()
    thread = s.asked()
    report = "\n".join(f"line {n}: all is well" for n in range(2_000))
    s.office.ends(s.office.task().id, report)
    result = s.card(thread, "result:1")
    shared = s.until(lambda: next((p for p in s.posts(thread) if p.files), None))
    assert s.slack.files[shared.files[0]["id"]]["content"].decode() == report
    s.until(lambda: "attached as result-1-part-1.txt" in text_of(s.seen(result)))


def test_a_failure_says_what_to_do(scene: Make) -> None:
    """In words, with a button that tries again; then the old message has no button any more."""
    s = scene()
    thread = s.asked()
    task_id = s.office.task().id
    s.office.begins(task_id)
    failed = Outcome(kind=OutcomeKind.FAILED, failure=Failure(code="watchdog", message="15 min of silence"))
    now = s.office.now()
    s.office.store.transact(task_id, lambda snap: lifecycle.complete(snap, failed, (), now))
    result = s.card(thread, "result:1")
    assert "The agent did nothing for too long and was stopped. Try again." in text_of(result)
    s.slack.click(s.eve, result, "retry")
    s.until(lambda: s.office.store.task(task_id).state is TaskState.QUEUED)
    s.until(lambda: s.seen(result).buttons == {})
    assert s.whispers(s.eve) == []


def test_stop_is_a_button_of_the_status(scene: Make) -> None:
    """It stops the job; an open request is withdrawn and its card says so."""
    s = scene()
    card, task = s.pending()
    status = s.card(str(card.thread_ts), "status")
    s.slack.click(s.mei, status, "stop")
    s.until(lambda: s.office.store.task(task.id).state is TaskState.STOPPED)
    s.until(lambda: "The task ended before an answer came. Nothing ran." in text_of(s.seen(card)))
    s.until(lambda: s.seen(status).buttons == {})
    assert s.seen(card).buttons == {}


def test_slacks_own_pace(scene: Make) -> None:
    """With one message a second and no burst, no call is refused: the bot keeps the pace itself."""
    s = scene(fake={"rate": 1.0, "burst": 1}, interval=1.05)
    thread = s.asked()
    s.office.asks(s.office.task().id, an_inquiry(), a_plan())
    s.card(thread, "request:2")
    posted = [call for call in s.slack.called("chat.postMessage") if call.args["channel"] == s.ops]
    assert [call.error for call in posted] == [None, None, None]
    assert all(b.at - a.at >= 1.0 for a, b in pairwise(posted))
