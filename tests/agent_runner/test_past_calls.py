"""Calls of the past, read from transcripts and the record: each once, with what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import project_key_for_directory
from redis import Redis

from agent_runner.aggregate import Changes
from agent_runner.audit import Event, Note
from agent_runner.errors import TryLater
from agent_runner.gate import PLAN_TOOL
from agent_runner.model import Inquiry, InquiryState, Kind, Task, TaskState
from agent_runner.past_calls import GAPS_KEPT, TASKS, Gaps, Window, read
from agent_runner.policy import Call
from agent_runner.shadow import PastCall, Then
from agent_runner.store import Store, connect
from agent_runner.transcripts import Limits, RedisTranscripts
from tests.fakes.values import NOW, a_decision, a_task, an_inquiry, at

EVER = Window(at(-86_400), at(86_400))


class Kept:
    """A real store with tasks and transcripts as runners leave them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Redis = connect(url, patient=True)
        self.store = Store(self.client, enqueue=lambda *_: None)

    def task(self, *inquiries: Inquiry, notes: Sequence[Note] = (), **changes: Any) -> Task:
        """A task with these requests, and these notes on record."""
        task = a_task(**changes)
        self.store.create(task, messages=(), notes=notes)
        if inquiries:
            self.store.transact(task.id, lambda _: Changes(inquiries=inquiries))
        return task

    def transcript(self, task: Task, *entries: Any, subpath: str = "", limits: Limits | None = None) -> None:
        """Appends to a task's transcript, or to a subagent's."""

        async def append() -> None:
            async with RedisTranscripts.connect(self.url, limits=limits) as transcripts:
                key: Any = {"project_key": project_key_for_directory(task.cwd), "session_id": task.session_id}
                await transcripts.append(key | ({"subpath": subpath} if subpath else {}), list(entries))

        asyncio.run(append())

    def list_of(self, task: Task) -> str:
        """The key of a task's main transcript."""
        return f"cs:transcript:session:{project_key_for_directory(task.cwd)}:{task.session_id}:main"

    def read(self, window: Window = EVER, gaps: Gaps | None = None) -> list[PastCall]:
        """All calls of that time."""

        async def every() -> list[PastCall]:
            async with RedisTranscripts.connect(self.url) as transcripts:
                found = read(self.store, transcripts, window, gaps if gaps is not None else Gaps())
                return [past async for past in found]

        return asyncio.run(every())


@pytest.fixture
def kept(redis_url: str) -> Kept:
    """An empty store."""
    return Kept(redis_url)


def call(tool_use_id: str, command: str, seconds: float = 0, tool: str = "Bash", **entry: Any) -> Any:
    """A call as the engine's CLI writes it into a transcript."""
    given = {"command": command} if tool == "Bash" else {"file_path": command}
    block = {"type": "tool_use", "id": tool_use_id, "name": tool, "input": given}
    return entry_of("assistant", block, seconds, **entry)


def result(tool_use_id: str, seconds: float = 1, *, refused: bool = False, **entry: Any) -> Any:
    """Its result."""
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": "x", "is_error": refused}
    decision = {"permissionDecision": {"decision": "reject" if refused else "accept"}}
    return entry_of("user", block, seconds, **{**decision, **entry})


def entry_of(role: str, block: Any, seconds: float, **more: Any) -> Any:
    """An entry of a transcript with one block."""
    stamp = at(seconds).isoformat().replace("+00:00", "Z")
    return {"type": role, "timestamp": stamp, "message": {"role": role, "content": [block]}, **more}


def asked(tool_use_id: str, command: str, state: str = "pending", **changes: Any) -> Inquiry:
    """A request about a Bash call, decided by Lin if it was decided."""
    verdict = {"approved": "approve", "changed": "change", "rejected": "reject", "answered": "answer"}.get(
        state
    )
    values: dict[str, Any] = {
        "id": f"i_{tool_use_id or 'again'}",
        "tool_use_id": tool_use_id,
        "tool_input": {"command": command},
        "state": InquiryState(state),
        "decision": a_decision(verdict, **({"answers": {}} if verdict == "answer" else {}))
        if verdict
        else None,
    }
    return an_inquiry(**{**values, **changes})


def on_record(event: Event, command: str, seconds: float) -> Note:
    """What the ledger notes about a call that nobody was asked about."""
    details = {"tool_name": "Bash", "tool_input": {"command": command}}
    return Note(event=event, at=at(seconds), task_id="t_1", details=details)


STARTED = Note(event=Event.TURN_STARTED, at=NOW, task_id="t_1")


def told(calls: Sequence[PastCall]) -> list[tuple[str, Then, str]]:
    """Command, what became of it, and by whom."""
    return [(past.call.tool_input["command"], past.then, past.by) for past in calls]


def test_what_became_of_each_call(kept: Kept) -> None:
    """By rule, by a grant, denied, out of turn, unfinished, and each way in which people answer."""
    states = [state.value for state in InquiryState]
    task = kept.task(
        *(asked(f"toolu_{state}", state, state, number=20 + n) for n, state in enumerate(states)),
        notes=[
            STARTED,
            on_record(Event.CALL_DENIED, "sudo", 10),
            on_record(Event.GRANT_USED, "again", 20),
        ],
    )
    kept.transcript(
        task,
        call("a", "again", 1),
        result("a", 2),  # the same call, long before the grant: a rule allowed it then
        call("b", "sudo", 10),
        result("b", 10, refused=True),
        call("c", "again", 20),
        result("c", 21),
        call("d", "later", 22),
        result("d", 22, refused=True),
        *[call(f"toolu_{state}", state, 30) for state in states],
        call("e", "sleep", 40),
    )
    by_lin = {Then.APPROVED, Then.CHANGED, Then.REJECTED, Then.ANSWERED}
    found = kept.read()
    assert told(found) == [
        ("again", Then.RAN, ""),
        ("sudo", Then.DENIED, ""),
        ("again", Then.GRANTED, ""),
        ("later", Then.NOT_RUN, ""),
        ("pending", Then.WAITING, ""),
        *[(state, Then(state), "Lin" if Then(state) in by_lin else "") for state in states[1:]],
        ("sleep", Then.UNFINISHED, ""),
    ]
    assert [past.request for past in found] == [0] * 4 + list(range(20, 20 + len(states))) + [0]
    assert (found[0].at, found[0].task, found[0].task_id) == (at(1), 231, "t_1")


def test_a_subagents_calls_count_and_no_call_counts_twice(kept: Kept) -> None:
    """Transcripts of subagents are read as well; a call that stands in two of them is one."""
    task = kept.task(notes=[STARTED])
    kept.transcript(task, call("a", "ls"), result("a"), call("a", "ls", 5))
    kept.transcript(
        task, call("b", "pwd", agentId="x1"), result("b"), call("a", "ls"), subpath="subagents/x1"
    )
    ls, pwd = kept.read()
    assert pwd.call == Call(
        tool_name="Bash", tool_input={"command": "pwd"}, cwd="/srv/ops", workspace="ops", agent_id="x1"
    )
    assert (ls.call.agent_id, told([ls, pwd])) == (None, [("ls", Then.RAN, ""), ("pwd", Then.RAN, "")])


def test_a_request_that_was_asked_again_is_the_last_word_about_its_call(kept: Kept) -> None:
    """Expired, asked again and then rejected: one call, rejected; run under a new id it is another call."""
    first = asked("a", "touch a", "expired", id="i_1")
    again = asked("", "touch a", "rejected", id="i_2", replaces="i_1", number=13)
    other = asked("b", "touch b", "expired", id="i_3")
    ran = asked("c", "touch b", "approved", id="i_4", replaces="i_3")
    task = kept.task(first, again, other, ran, notes=[STARTED])
    kept.transcript(task, call("a", "touch a"), call("b", "touch b"), call("c", "touch b"), result("c"))
    assert told(kept.read()) == [
        ("touch a", Then.REJECTED, "Lin"),
        ("touch b", Then.EXPIRED, ""),
        ("touch b", Then.APPROVED, "Lin"),
    ]


def test_a_missing_transcript_leaves_what_is_on_record(kept: Kept) -> None:
    """Requests, denials and uses of grants are judged without it, once each, and the gap is told."""
    denied = [on_record(Event.CALL_DENIED, "sudo", 10)] * 2
    kept.task(
        asked("a", "touch a", "rejected"), notes=[STARTED, *denied, on_record(Event.GRANT_USED, "again", 20)]
    )
    gaps = Gaps()
    assert told(kept.read(gaps=gaps)) == [
        ("touch a", Then.REJECTED, "Lin"),
        ("sudo", Then.DENIED, ""),
        ("sudo", Then.DENIED, ""),
        ("again", Then.GRANTED, ""),
    ]
    assert gaps.told == [
        "task #231: nothing is kept of its transcript; only calls that are on record are judged."
    ]


def test_a_clock_that_is_off_makes_no_second_call(kept: Kept) -> None:
    """A denial recorded minutes from its call's time is told as not run, and is still the same call."""
    task = kept.task(notes=[STARTED, on_record(Event.CALL_DENIED, "sudo", 300)])
    kept.transcript(task, call("a", "sudo"), result("a", refused=True))
    assert told(kept.read()) == [("sudo", Then.NOT_RUN, "")]


def test_a_task_that_never_began_has_no_gap(kept: Kept) -> None:
    """Nothing is missing of a task that still waits for a worker."""
    kept.task()
    gaps = Gaps()
    assert (kept.read(gaps=gaps), gaps.told) == ([], [])


BROKEN: list[Any] = [
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Bash", "input": {}}]}},
    {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": ["x"], "name": "Bash", "input": {}}]},
    },
    {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": "x", "name": "Bash", "input": "ls"}]},
    },
    {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "x", "name": 7, "input": {}}]}},
    {"type": "assistant", "omitted": "9 bytes were too many to keep"},
]
NO_CALLS: list[Any] = [
    {"type": "user", "message": "words"},
    {"type": "user", "message": {"content": "words"}},
    {"type": "user", "message": {"content": ["words", {"type": "tool_result", "tool_use_id": 7}]}},
    {"type": "user", "omitted": "9 bytes were too many to keep"},
    {"type": "mode"},
]


def test_a_broken_transcript_is_a_gap_and_not_an_end(kept: Kept) -> None:
    """What cannot be read is counted and told; the calls around it are judged."""
    task = kept.task(notes=[STARTED])
    kept.transcript(task, call("a", "ls"), result("a"), *BROKEN, *NO_CALLS)
    for blob in (b"", b"?{}", b"zno zlib", b"j[1]", b"j{", b"j" + b"[" * 100_000):
        kept.client.rpush(kept.list_of(task), blob)
    kept.transcript(task, call("b", "pwd", timestamp="yesterday"), result("b", timestamp=7))
    gaps = Gaps()
    found = kept.read(gaps=gaps)
    assert told(found) == [("ls", Then.RAN, ""), ("pwd", Then.RAN, "")]
    assert found[1].at == task.updated_at
    assert gaps.told == ["task #231: 11 entries or calls of its transcript cannot be read."]


def test_a_made_up_name_is_a_call_like_any_other(kept: Kept) -> None:
    """Half a surrogate pair in a tool's name or input has no digest, and is judged all the same."""
    task = kept.task(notes=[STARTED])
    kept.transcript(task, call("a", "echo \ud800"), call("b", "x", tool="\ud800"))
    assert [(past.call.tool_name, past.then) for past in kept.read()] == [
        ("Bash", Then.UNFINISHED),
        ("\ud800", Then.UNFINISHED),
    ]


def test_what_is_no_transcript_at_all_is_a_gap(kept: Kept) -> None:
    """A value of another kind in its place ends the reading of that task only."""
    broken = kept.task(asked("a", "touch a", "approved"), notes=[STARTED], session_id="s1")
    kept.client.set(kept.list_of(broken), "?")
    other = kept.task(id="t_2", number=232, notes=[STARTED], session_id="s2")
    kept.transcript(other, call("b", "ls"), result("b"))
    gaps = Gaps()
    assert told(kept.read(gaps=gaps)) == [("ls", Then.RAN, ""), ("touch a", Then.APPROVED, "Lin")]
    assert "task #231: its transcript cannot be read any further." in gaps.told[0]


def test_a_call_too_large_to_be_kept_is_not_judged_by_its_stub(kept: Kept) -> None:
    """The stub's words are no command; where the request has the whole input, that is judged."""
    long = "echo " + "x" * 6_000
    task = kept.task(asked("b", long, "approved"), notes=[STARTED])
    small = Limits(entry=2_000)
    kept.transcript(task, call("a", long), call("b", long), limits=small)
    gaps = Gaps()
    assert told(kept.read(gaps=gaps)) == [(long, Then.APPROVED, "Lin")]
    assert gaps.told == ["task #231: 1 calls were too large to be kept whole; they are not judged."]


def test_a_plan_is_judged_as_it_was_shown(kept: Kept) -> None:
    """The engine writes the call without its plan; the request has it."""
    plan = asked("a", "", "approved", tool_name=PLAN_TOOL, tool_input={"plan": "1. look"}, kind=Kind.PLAN)
    task = kept.task(plan, notes=[STARTED])
    kept.transcript(
        task, entry_of("assistant", {"type": "tool_use", "id": "a", "name": PLAN_TOOL, "input": {}}, 0)
    )
    (found,) = kept.read()
    assert (found.call.tool_name, found.call.tool_input) == (PLAN_TOOL, {"plan": "1. look"})


def test_the_engines_own_plan_files_are_no_calls_to_judge(kept: Kept, tmp_path: Path) -> None:
    """No rules are asked about those; a file elsewhere counts, whatever its path looks like."""
    task = kept.task(notes=[STARTED])
    mine, other = str(tmp_path / "turns/turn-1/plans/p.md"), "/elsewhere/turns/turn-1/plans/p.md"
    paths = [mine, other, "\0/plans/p.md"]
    kept.transcript(task, *(call(f"c{n}", path, tool="Write") for n, path in enumerate(paths)))
    found = kept.read(gaps=Gaps(plans=tmp_path / "turns"))
    assert [past.call.tool_input["file_path"] for past in found] == paths[1:]


def _since(seconds: float, until: float = 86_400, *workspaces: str) -> Window:
    return Window(at(seconds), at(until), frozenset(workspaces))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (EVER, ["new", "old", "older"]),
        (_since(100), ["new"]),
        (_since(50, 100), ["old"]),
        (_since(0, 50), ["older"]),
        (_since(0, 86_400, "web"), []),
        (_since(0, 86_400, "web", "ops"), ["new", "old", "older"]),
    ],
)
def test_only_calls_of_that_time_and_place(kept: Kept, window: Window, expected: list[str]) -> None:
    """A running task's calls are found although it last changed before; its older calls are left out."""
    running = kept.task(state=TaskState.RUNNING, notes=[STARTED], session_id="s1", id="t_1")
    done = {"state": TaskState.DONE, "updated_at": at(60), "session_id": "s2", "id": "t_2", "number": 100}
    ended = kept.task(notes=[STARTED], **done)
    kept.transcript(running, call("a", "new", 100))
    kept.transcript(ended, call("b", "old", 50), call("c", "older", 0))
    assert [past.call.tool_input["command"] for past in kept.read(window)] == expected


@pytest.mark.parametrize(
    ("task", "touched"),
    [
        (a_task(state=TaskState.DONE, updated_at=at(100)), True),
        (a_task(state=TaskState.DONE, updated_at=at(99)), False),
        (a_task(state=TaskState.RUNNING, updated_at=at(0)), True),
        (a_task(state=TaskState.WAITING, updated_at=at(0)), True),
        (a_task(state=TaskState.DONE, created_at=at(200), updated_at=at(300)), False),
        (a_task(workspace="web"), False),
    ],
)
def test_which_tasks_are_looked_at(task: Task, touched: bool) -> None:
    """Those that changed since, and all that have not ended; none that began afterwards."""
    assert _since(100, 200, "ops").touches(task) is touched


def test_more_tasks_than_a_page_and_more_gaps_than_are_told(kept: Kept) -> None:
    """Every page is read, every gap is counted, and the list of them stays short."""
    many = TASKS + GAPS_KEPT
    for number in range(1, many + 1):
        kept.task(id=f"t_{number}", number=number, session_id=f"s{number}", notes=[STARTED])
    gaps = Gaps()
    assert kept.read(gaps=gaps) == []
    assert (len(gaps.told), gaps.more, gaps.workspaces) == (GAPS_KEPT, TASKS, {"ops"})
    assert gaps.told[0].startswith(f"task #{many}: ")


def test_long_transcripts_are_read_to_the_end(kept: Kept) -> None:
    """Several pages of calls, with the results on later pages."""
    task = kept.task(notes=[STARTED])
    ids = [f"c{number}" for number in range(700)]
    kept.transcript(task, *(call(i, i) for i in ids), *map(result, ids))
    assert told(kept.read()) == [(i, Then.RAN, "") for i in ids]


def test_a_silent_store_is_an_error_and_not_an_empty_answer(kept: Kept) -> None:
    """Without the store nobody is told that there were no calls."""

    async def every() -> list[PastCall]:
        url = "unix:///nowhere/redis.sock"
        store = Store(connect(url, patient=False), enqueue=lambda *_: None)
        async with RedisTranscripts.connect(url) as transcripts:
            return [past async for past in read(store, transcripts, EVER, Gaps())]

    with pytest.raises(TryLater):
        asyncio.run(every())
