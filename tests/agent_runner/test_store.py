from __future__ import annotations

import contextlib
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import fakeredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis
from redis.client import Pipeline

from agent_runner import calls, granting, lifecycle
from agent_runner.aggregate import Changes, Snapshot
from agent_runner.audit import Entry, Event, Note, first_bad
from agent_runner.errors import (
    AlreadyDecided,
    CountersignError,
    FixConfiguration,
    LostLease,
    NotFound,
    TryLater,
    WrongState,
)
from agent_runner.model import (
    Failure,
    Grant,
    Inquiry,
    InquiryState,
    Message,
    Outcome,
    OutcomeKind,
    Progress,
    Role,
    Task,
    TaskState,
)
from agent_runner.registers import Lease, Registers
from agent_runner.store import Store, connect, decode, encode
from tests.fakes.faults import Cutting, cutting, hung, private_redis
from tests.fakes.values import KAI, LIN, MEI, NOW, a_decision, a_run, a_task, an_inquiry, at

QUEUE = "test:queue"
ASKED = Note(event=Event.TASK_ASKED, at=NOW, task_id="t_1", actor=MEI, words="restart the checkout pods")
SAID = Message(role=Role.USER, text="restart the checkout pods", at=NOW, by=MEI)
LEASE = Lease(token="mine", host="h", pid=1, pgid=1, process_started=0.0)


def enqueue(pipe: Pipeline, task: Task) -> None:
    """Queues a turn inside the transaction, as RQ does."""
    pipe.rpush(QUEUE, f"{task.id} {task.turn} {task.attempt}")


def shop(client: Redis) -> Store:
    """A store whose queue is a list in the same Redis."""
    return Store(client, enqueue=enqueue, policy_version="p1")


@pytest.fixture(params=["real", "fake"])
def store(request: pytest.FixtureRequest) -> Store:
    """A store on a real server, and on the fake that other tests use in its place."""
    if request.param == "fake":
        return shop(request.getfixturevalue("fake_redis"))
    return shop(connect(request.getfixturevalue("redis_url"), patient=False))


@pytest.fixture
def real(redis_url: str) -> Store:
    """A store on a real server."""
    return shop(connect(redis_url, patient=False))


def a_stored(store: Store, task: Task | None = None, *inquiries: Inquiry) -> Task:
    """Stores a task, and inquiries with it."""
    stored = store.create(task or a_task(), messages=[SAID], notes=[ASKED])
    if inquiries:
        store.transact(stored.id, lambda s: Changes(task=s.task, inquiries=inquiries))
    return stored


def a_waiting(store: Store, inquiry: Inquiry | None = None) -> None:
    """Stores a task that waits for `i_1`."""
    a_stored(store, a_task(state="waiting", batch="t_1-1-1", waiting_since=NOW), inquiry or an_inquiry())


def everything(client: Any) -> dict[bytes, bytes | None]:
    """Every key and what is in it, but for the marks of transactions."""
    return {key: client.dump(key) for key in client.keys("*") if b"txn:" not in key}


def approve(store: Store, *, by: Any = LIN, verdict: str = "approve", **more: Any) -> Inquiry:
    """One click."""
    words = {} if verdict == "approve" else {"reason": "no"}
    decision = a_decision(verdict, by=by, **words, **more)
    _, answer = store.transact(
        "t_1", lambda s: lifecycle.decide(s, "i_1", decision, votes=(), decided=True, now=at(60))
    )
    found: Inquiry = answer
    return found


# --- create and read ------------------------------------------------------------------------


def test_a_new_task_is_stored_whole_and_queued(store: Store) -> None:
    """Task, thread, record, indexes, the courier's work, the feed and the queue, in one write."""
    written = store.create(a_task(), messages=[SAID], notes=[ASKED])
    assert written == a_task(revision=1) == store.task("t_1")
    assert store.messages("t_1") == (SAID,)
    assert [e.having(prev="", hash="") for e in store.audit_of("t_1")] == [
        Entry(**{**dict(ASKED), "policy_version": "p1"}, seq=1, prev="")
    ]
    assert store.snapshot("t_1") == Snapshot(a_task(revision=1))
    assert store.list_tasks(TaskState.QUEUED, after=None, limit=9) == (written,)
    assert store.client.lrange(QUEUE, 0, -1) == [b"t_1 1 1"]
    assert store.client.zrange(store.keys.dirty, 0, -1) == [b"t_1"]
    changes: Any = store.client.xrange(store.keys.changes)
    assert [row for _, row in changes] == [{b"task": b"t_1", b"what": b"task"}]


def test_creating_the_same_task_twice_is_once(store: Store) -> None:
    """A doubled create writes and queues nothing more."""
    a_stored(store)
    before = everything(store.client)
    assert store.create(a_task(text="other"), messages=[SAID], notes=[ASKED]) == a_task(revision=1)
    assert everything(store.client) == before


@pytest.mark.parametrize(
    "read",
    [
        lambda s: s.task("t_404"),
        lambda s: s.inquiry("i_404"),
        lambda s: s.snapshot("t_404"),
        lambda s: s.transact("t_404", lambda _: Changes()),
    ],
    ids=["task", "inquiry", "snapshot", "transact"],
)
def test_unknown_ids_are_not_found(store: Store, read: Callable[[Store], Any]) -> None:
    """An id that does not exist is said so, with its spelling."""
    with pytest.raises(NotFound, match="_404"):
        read(store)


def test_what_a_task_does_not_have_is_empty(store: Store) -> None:
    """Lists of an unknown task are empty, not errors."""
    assert (store.messages("t_404"), store.audit_of("t_404"), store.due(NOW)) == ((), (), ())


def test_the_stored_form() -> None:
    """A golden value: what is stored today must be readable tomorrow."""
    assert encode(MEI) == (
        b'1\n{"platform":"web","tenant":"","user_id":"mei","name":"Mei","person":"","guest":false}'
    )
    assert decode(type(MEI), encode(MEI)) == MEI


def test_a_store_of_another_version_is_refused(store: Store) -> None:
    """A newer program's data is neither read nor written over."""
    store.check_schema()
    store.check_schema()
    store.client.set(store.keys.schema, 2)
    with pytest.raises(FixConfiguration, match="data of schema 2; this program reads schema 1"):
        store.check_schema()
    a_stored(store)
    store.client.set(store.keys.task("t_1"), b"2" + encode(a_task())[1:])
    with pytest.raises(FixConfiguration, match="schema"):
        store.task("t_1")


def test_numbers_count_up_without_repeats(real: Store) -> None:
    """Request numbers are what people say; two never share one."""
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: real.next_number("inquiry"), range(40)))
    assert sorted(got) == list(range(1, 41))


# --- transactions ---------------------------------------------------------------------------


def test_a_transaction_answers_with_what_is_stored(store: Store) -> None:
    """The snapshot that comes back is the one that a reader finds."""
    a_waiting(store)
    snap, answer = store.transact(
        "t_1",
        lambda s: lifecycle.decide(s, "i_1", a_decision(scope="task"), votes=(), decided=True, now=at(60)),
    )
    assert snap == store.snapshot("t_1")
    assert answer.having(revision=2) == store.inquiry("i_1") == snap.inquiries[0]
    assert (snap.task.revision, snap.task.state) == (3, TaskState.QUEUED)
    assert [g.digest for g in snap.grants] == [an_inquiry().digest]


GIVEN = Grant(
    id="g12",
    task_id="t_1",
    digest="0" * 64,
    inquiry_id="i_1",
    number=12,
    by=LIN,
    at=at(60),
    rule="Bash(git push:*)",
    stopped_by="nothing matched",
    workspace="ops",
    until=at(3660),
)


def test_a_grant_is_written_with_the_decision_and_rewritten_when_it_is_revoked(store: Store) -> None:
    """Where its task, its workspace and the list of all find it; revoked, only its task remembers it."""
    a_waiting(store, an_inquiry(offer="Bash(git push:*)"))
    word = a_decision(scope="until", rule="Bash(git push:*)", until=at(3660))
    snap, _ = store.transact(
        "t_1", lambda s: lifecycle.decide(s, "i_1", word, votes=(), decided=True, now=at(60))
    )
    given = GIVEN.having(digest=an_inquiry().digest, stopped_by=an_inquiry().rule)
    assert snap.grants == store.snapshot("t_1").grants == store.grants(at(61)) == (given,)
    assert (store.grants_in("ops"), store.grants_in("docs")) == ((given,), ())
    snap, revoked = store.transact("t_1", lambda s: granting.revoke(s, "g12", KAI, at(90)))
    assert snap.grants == store.snapshot("t_1").grants == (revoked,)
    assert (revoked.revoked_by, store.grants(at(91)), store.grants_in("ops")) == (KAI, (), ())
    with pytest.raises(WrongState, match="revoked already by Kai"):
        store.transact("t_1", lambda s: granting.revoke(s, "g12", LIN, at(92)))


@pytest.mark.parametrize("failing", ["lost", "other scope"])
def test_nothing_is_granted_without_a_decision(store: Store, failing: str) -> None:
    """A lost race or an approval for once leaves no grant anywhere."""
    a_waiting(store, an_inquiry(offer="Bash(git push:*)"))
    if failing == "lost":
        approve(store, by=KAI, verdict="reject")
        with pytest.raises(AlreadyDecided):
            approve(store, scope="until", rule="Bash(git push:*)", until=at(3660))
    else:
        approve(store)
    assert (store.snapshot("t_1").grants, store.grants(at(61)), store.grants_in("ops")) == ((), (), ())


def test_grants_that_are_over_leave_the_list(store: Store) -> None:
    """They are not shown from their end on, and forgotten by the index in time."""
    a_stored(store)
    ends = {"g12": at(3660), "g13": at(120), "g14": None}
    given = [GIVEN.having(id=name, number=int(name[1:]), until=ends[name], workspace="") for name in ends]
    store.transact("t_1", lambda _: Changes(grants=tuple(given)))
    assert [grant.id for grant in store.grants(at(119))] == ["g12", "g13", "g14"]
    assert [grant.id for grant in store.grants(at(120))] == ["g12", "g14"]
    later = GIVEN.having(id="g15", number=15, at=at(400 * 86_400), until=at(401 * 86_400))
    store.transact("t_1", lambda _: Changes(grants=(later,)))
    assert store.client.zrange(store.keys.grants, 0, -1) == [b"t_1 g14", b"t_1 g15"]


def test_nothing_to_change_writes_nothing(store: Store) -> None:
    """An empty change costs no revision, no mark, no wake-up."""
    a_stored(store)
    before = everything(store.client)
    snap, answer = store.transact("t_1", lambda _: Changes(answer="nothing"))
    assert (snap, answer) == (store.snapshot("t_1"), "nothing")
    assert everything(store.client) == before
    assert store.client.keys("*txn*") == []


def test_what_a_modifier_raises_reaches_the_caller(store: Store) -> None:
    """And nothing is written."""
    a_waiting(store)
    approve(store)
    before = everything(store.client)
    with pytest.raises(AlreadyDecided, match="#12 is already approved by Lin"):
        approve(store, by=KAI, verdict="reject")
    assert everything(store.client) == before


def test_a_queue_that_fails_undoes_the_whole_change(store: Store) -> None:
    """State, record and job are one EXEC: without the job there is no decision, and no task."""
    a_waiting(store)
    before = everything(store.client)

    def broken(_pipe: Pipeline, _task: Task) -> None:
        raise RuntimeError("no queue")

    crippled = Store(store.client, enqueue=broken)
    with pytest.raises(RuntimeError):
        approve(crippled)
    with pytest.raises(RuntimeError):
        crippled.create(a_task(id="t_2"), messages=[SAID], notes=[])
    assert everything(store.client) == before
    assert approve(store).state is InquiryState.APPROVED


def test_somebody_faster_makes_it_start_over(store: Store) -> None:
    """A change from elsewhere between read and write is seen by the second try."""
    a_stored(store)
    seen = []

    def modify(snap: Snapshot) -> Changes:
        seen.append(snap.task.text)
        if len(seen) == 1:
            store.transact("t_1", lambda s: Changes(task=s.task.having(text="other")))
        return Changes(task=snap.task.having(text=snap.task.text + "!"))

    store.transact("t_1", modify)
    assert seen == ["restart the checkout pods", "other"]
    assert (store.task("t_1").text, store.task("t_1").revision) == ("other!", 3)


def test_too_many_others_end_in_try_later(store: Store) -> None:
    """A transaction that never gets through gives up with words, and writes nothing."""
    a_stored(store)
    tries = itertools.count(1)

    def modify(_: Snapshot) -> Changes:
        store.transact("t_1", lambda s: Changes(task=s.task.having(text=f"other {next(tries)}")))
        return Changes(task=a_task(text="mine"))

    with pytest.raises(TryLater, match="Too many people"):
        store.transact("t_1", modify)
    assert store.task("t_1").text == f"other {next(tries) - 1}"


def test_case_b06_approve_and_reject_at_the_same_moment(real: Store, redis_url: str) -> None:
    """Twenty people click within a moment: one decision, one entry, one resume; all others hear who won."""
    a_waiting(real)
    real.client.delete(QUEUE)
    start = threading.Barrier(20)

    def click(n: int) -> str:
        verdict = "approve" if n % 2 else "reject"
        mine = shop(connect(redis_url, patient=False))
        start.wait()
        try:
            return f"won {approve(mine, by=LIN.having(name=f'p{n}', user_id=f'p{n}'), verdict=verdict).state}"
        except AlreadyDecided as error:
            return f"lost to {error.details['by']} {error.details['state']}"

    with ThreadPoolExecutor(20) as pool:
        said = list(pool.map(click, range(20)))
    decided = real.inquiry("i_1")
    assert decided.decision is not None
    winner = f"{decided.decision.by.name} {decided.state}"
    assert sorted(said) == [f"lost to {winner}"] * 19 + [f"won {decided.state}"]
    assert [e.event for e in real.audit_of("t_1")] == [Event.TASK_ASKED, Event.DECIDED]
    assert first_bad(real.audit_of("t_1")) is None
    assert real.client.lrange(QUEUE, 0, -1) == [b"t_1 2 1"]


def test_readers_see_one_moment(real: Store, redis_url: str) -> None:
    """A snapshot never mixes a task of one revision with inquiries of another."""
    a_waiting(real)
    stop = threading.Event()

    def write() -> None:
        mine = shop(connect(redis_url, patient=False))
        for n in itertools.count():
            if stop.is_set():
                return
            words = str(n)
            mine.transact(
                "t_1",
                lambda s, words=words: Changes(  # type: ignore[misc]  # a default binds the loop's value
                    task=s.task.having(text=words), inquiries=(s.inquiries[0].having(agent_words=words),)
                ),
            )

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [real.snapshot("t_1") for _ in range(150)]
    finally:
        stop.set()
        writer.join()
    pairs = {(s.task.text, s.inquiries[0].agent_words) for s in seen} - {("restart the checkout pods", "")}
    assert len(pairs) > 1
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


# --- a connection that breaks ----------------------------------------------------------------


@pytest.fixture
def relay(redis_url: str) -> Iterator[Cutting]:
    """A line to the real server that breaks when told."""
    with tempfile.TemporaryDirectory() as folder, cutting(redis_url, Path(folder)) as relay:
        yield relay


@pytest.mark.parametrize("patient", [False, True], ids=["bot", "runner"])
@pytest.mark.parametrize("before", [False, True], ids=["reply lost", "request lost"])
def test_a_lost_exec_is_written_once_and_reported_as_done(
    relay: Cutting, real: Store, before: bool, patient: bool
) -> None:
    """Whether the connection broke before or after Redis did it: done once, and said so."""
    a_waiting(real)
    real.client.delete(QUEUE)
    relay.before, relay.cut = before, 1
    assert approve(shop(connect(relay.url, patient=patient))).state is InquiryState.APPROVED
    assert relay.cut == 0
    assert [e.event for e in real.audit_of("t_1")] == [Event.TASK_ASKED, Event.DECIDED]
    assert real.client.lrange(QUEUE, 0, -1) == [b"t_1 2 1"]
    assert real.task("t_1").revision == 3


@pytest.mark.parametrize("before", [False, True], ids=["reply lost", "request lost"])
def test_a_claim_whose_reply_is_lost_is_still_ours(relay: Cutting, real: Store, before: bool) -> None:
    """A worker must not take its own claim for somebody else's, or nobody runs the turn."""
    a_stored(real)
    relay.before, relay.cut = before, 1
    _, ours = shop(connect(relay.url, patient=True)).transact(
        "t_1", lambda s: lifecycle.start(s, turn=1, attempt=1, worker="w", now=at(1))
    )
    assert (ours, real.task("t_1").state) == (True, TaskState.RUNNING)


@pytest.mark.parametrize("before", [False, True], ids=["reply lost", "request lost"])
def test_a_lost_create_makes_one_task(relay: Cutting, real: Store, before: bool) -> None:
    """A person who hears "not recorded" asks again, so it must not be recorded then."""
    relay.before, relay.cut = before, 1
    shop(connect(relay.url, patient=False)).create(a_task(), messages=[SAID], notes=[ASKED])
    assert real.task("t_1") == a_task(revision=1)
    assert real.client.lrange(QUEUE, 0, -1) == [b"t_1 1 1"]
    assert len(real.audit_of("t_1")) == 1


def test_a_store_that_keeps_cutting_is_try_later(relay: Cutting, real: Store) -> None:
    """Reading or writing through a broken line ends in `TryLater`, and soon."""
    a_waiting(real)
    relay.word, relay.cut = b"GET", 10_000
    broken = shop(connect(relay.url, patient=False))
    before = everything(real.client)
    for attempt in (lambda: broken.task("t_1"), lambda: approve(broken)):
        with pytest.raises(TryLater):
            attempt()
    assert everything(real.client) == before


def test_no_server_is_try_later(tmp_path: Path) -> None:
    """The cause is named for whoever looks after the machine."""
    gone = shop(connect(f"unix://{tmp_path / 'none.sock'}", patient=False))
    with pytest.raises(TryLater) as caught:
        gone.task("t_1")
    assert caught.value.details == {"cause": "ConnectionError"}


def test_case_e04_a_store_that_hangs_in_the_middle() -> None:
    """Hung before the click, or between its read and its write: an answer within 1.5 s, and no double."""
    took = []
    with private_redis() as server:
        store = shop(connect(server.url, patient=False))
        a_waiting(store)
        for client in (store, shop(connect(server.url, patient=False))):  # connected, and not yet
            with hung(server):
                began = time.monotonic()
                with pytest.raises(TryLater):
                    approve(client)
                took.append(time.monotonic() - began)
        assert store.inquiry("i_1").open
        hanging = contextlib.ExitStack()

        def hang(snap: Snapshot) -> Changes:
            hanging.enter_context(hung(server))
            return lifecycle.decide(snap, "i_1", a_decision(), votes=(), decided=True, now=at(60))

        began = time.monotonic()
        with hanging, pytest.raises(TryLater):
            store.transact("t_1", hang)
        took.append(time.monotonic() - began)
        with contextlib.suppress(AlreadyDecided):  # Redis may have found the words in its socket
            approve(store)
        assert [e.event for e in store.audit_of("t_1")] == [Event.TASK_ASKED, Event.DECIDED]
        assert store.client.lrange(QUEUE, 0, -1) == [b"t_1 1 1", b"t_1 2 1"]
    assert max(took) < 1.5


# --- the fence -------------------------------------------------------------------------------


def test_a_turn_writes_only_while_its_lease_holds(store: Store) -> None:
    """Without the lease, with another's, or after it was taken away: `LostLease`, nothing written."""
    a_stored(store)
    registers = Registers(store.client)

    def write(text: str, then: Callable[[], object] = lambda: None) -> None:
        def modify(snap: Snapshot) -> Changes:
            then()
            return Changes(task=snap.task.having(text=text))

        store.transact("t_1", modify, lease="mine")

    with pytest.raises(LostLease):
        write("no lease at all")
    registers.take_lease("t_1", LEASE)
    write("ours")

    def taken_over() -> None:
        registers.drop_lease("t_1")
        registers.take_lease("t_1", LEASE.having(token="theirs"))

    with pytest.raises(LostLease):
        write("taken over in the middle", taken_over)
    with pytest.raises(LostLease):
        write("another's")
    assert (store.task("t_1").text, store.task("t_1").revision) == ("ours", 2)


def test_the_last_write_of_a_turn_gives_its_lease_back(store: Store) -> None:
    """With the outcome the lease and the line of progress go, in the same EXEC."""
    a_stored(store, a_task(state="running"))
    registers = Registers(store.client)
    registers.take_lease("t_1", LEASE)
    registers.show_progress("t_1", Progress(activity="tool", since=NOW))
    done = Outcome(kind=OutcomeKind.DONE, result="ok")
    store.transact("t_1", lambda s: lifecycle.complete(s, done, (), at(1)), lease="mine")
    assert (registers.lease("t_1"), registers.progress("t_1")) == (None, None)
    with pytest.raises(LostLease):
        store.transact("t_1", lambda s: Changes(task=s.task), lease="mine")


# --- indexes and lists -----------------------------------------------------------------------

STEPS: dict[str, Callable[[Snapshot, int], Changes]] = {
    "start": lambda s, n: lifecycle.start(s, turn=s.task.turn, attempt=s.task.attempt, worker="w", now=at(n)),
    "done": lambda s, n: lifecycle.complete(s, Outcome(kind=OutcomeKind.DONE, result="r"), (), at(n)),
    "missing": lambda s, n: lifecycle.complete(
        s,
        Outcome(kind=OutcomeKind.FAILED, failure=Failure(code="mcp_server_missing", message="Away.")),
        (),
        at(n),
    ),
    "retry": lambda s, n: lifecycle.retry(s, LIN, at(n)),
    "defer": lambda s, n: lifecycle.complete(
        s,
        Outcome(kind=OutcomeKind.DEFERRED),
        tuple(
            an_inquiry(id=f"i_{n}{x}", number=n * 2 + x, batch=f"b{n}", tool_use_id=f"u{n}{x}")
            for x in (0, 1)
        ),
        at(n),
    ),
    "approve": lambda s, n: lifecycle.decide(
        s, s.inquiries[n % len(s.inquiries)].id, a_decision(), votes=(), decided=True, now=at(n)
    ),
    "dispatch": lambda s, n: calls.dispatch(s, s.inquiries[n % len(s.inquiries)].id, f"d{n}", at(n)),
    "expire": lambda s, n: lifecycle.expire(s, s.inquiries[n % len(s.inquiries)].id, at(9 * 3600 + n)),
    "lost": lambda s, n: lifecycle.lost(s, at(n)),
    "stop": lambda s, n: lifecycle.stop(s, LIN, at(n)),
    "follow_up": lambda s, n: lifecycle.follow_up(s, f"word {n}", MEI, at(n)),
    "ask_again": lambda s, n: lifecycle.ask_again(
        s,
        s.inquiries[n % len(s.inquiries)].id,
        new_id=f"a{n}",
        number=1000 + n,
        terms={"expires_at": at(n + 60)},
        by=LIN,
        now=at(n),
    ),
}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["t_1", "t_2"]), st.sampled_from(sorted(STEPS))), max_size=25))
def test_indexes_agree_with_states_whatever_happens(steps: list[tuple[str, str]]) -> None:
    """After any sequence: each index holds exactly what is in its state, and each chain holds."""
    store = shop(fakeredis.FakeRedis(server=fakeredis.FakeServer()))
    for number, task_id in enumerate(("t_1", "t_2")):
        store.create(a_task(id=task_id, number=number), messages=[SAID], notes=[ASKED])
    writes = {"t_1": 1, "t_2": 1}
    for n, (task_id, step) in enumerate(steps, start=1):
        number = n + (500 if task_id == "t_2" else 0)
        with contextlib.suppress(CountersignError, ZeroDivisionError):
            before = store.snapshot(task_id)
            after, _ = store.transact(task_id, lambda s, step=step, n=number: STEPS[step](s, n))  # type: ignore[misc]  # defaults bind the loop's values
            writes[task_id] += after != before
    snaps = {task_id: store.snapshot(task_id) for task_id in writes}
    assert {t: s.task.revision for t, s in snaps.items()} == writes
    tasks = [s.task for s in snaps.values()]
    inquiries = sorted((i for s in snaps.values() for i in s.inquiries), key=lambda i: i.number)
    for state in TaskState:
        listed = store.list_tasks(state, after=None, limit=99)
        assert set(listed) == {t for t in tasks if t.state is state}, state
    for kind in InquiryState:
        found = store.list_inquiries(kind, after=-1, limit=99)
        assert list(found) == [i for i in inquiries if i.state is kind], kind
    assert list(store.list_inquiries(None, after=-1, limit=99)) == inquiries
    assert set(store.due_retries(at(10**6))) == {t.id for t in tasks if t.retry_at}
    waiting = {i.id for i in inquiries if i.open}
    assert set(store.due(at(10**6))) == waiting
    expiry: Any = store.client.zrange(store.keys.expiry, 0, -1, withscores=True)
    assert {key.decode(): score for key, score in expiry} == {
        i.id: i.expires_at.timestamp() for i in inquiries if i.open
    }
    assert [first_bad(store.audit_of(t)) for t in writes] == [None, None]


def test_due_is_what_is_over(store: Store) -> None:
    """Open inquiries at or past their time; decided ones never."""
    a_stored(store, None, *(an_inquiry(id=f"i_{s}", number=s, expires_at=at(s)) for s in (10, 20, 30)))
    store.transact("t_1", lambda s: Changes(inquiries=(s.inquiry("i_10").having(state="expired"),)))
    assert [store.due(at(s)) for s in (19, 20, 99)] == [(), ("i_20",), ("i_20", "i_30")]


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_pages_cover_everything_once(store: Store, size: int) -> None:
    """Tasks newest first, inquiries oldest first, each once, whatever the size of a page."""
    for n in range(1, 6):
        a_stored(store, a_task(id=f"t_{n}", number=n))
        store.transact(
            f"t_{n}",
            lambda s, n=n: Changes(inquiries=(an_inquiry(id=f"i_{n}", number=n, task_id=s.task.id),)),  # type: ignore[misc]  # a default binds the loop's value
        )
    tasks: list[int] = []
    while page := store.list_tasks(None, after=tasks[-1] if tasks else None, limit=size):
        assert len(page) <= size
        tasks += [t.number for t in page]
    inquiries: list[int] = []
    while found := store.list_inquiries(
        InquiryState.PENDING, after=inquiries[-1] if inquiries else 0, limit=size
    ):
        assert len(found) <= size
        inquiries += [i.number for i in found]
    assert (tasks, inquiries) == ([5, 4, 3, 2, 1], [1, 2, 3, 4, 5])


def test_the_record_of_all_tasks_by_time(store: Store) -> None:
    """Pages of the record in either direction hold every entry once; times bound it."""
    for n in (1, 2):
        a_stored(store, a_task(id=f"t_{n}", number=n))
        for k in range(3):
            note = Note(event=Event.FOLLOW_UP, at=at(k), task_id=f"t_{n}", words=f"{n}.{k}")
            store.transact(f"t_{n}", lambda s, note=note: lifecycle.remark(s, note))  # type: ignore[misc]  # a default binds the loop's value

    def read(newest_first: bool, since: datetime | None = None, until: datetime | None = None) -> list[str]:
        words, after = [], ""
        while page := store.audit_page(
            since=since, until=until, after=after, limit=3, newest_first=newest_first
        ):
            words += [entry.words for _, entry in page]
            after = page[-1][0]
        return words

    start = "restart the checkout pods"
    oldest = [start, "1.0", "1.1", "1.2", start, "2.0", "2.1", "2.2"]
    assert read(False) == oldest
    assert read(True) == oldest[::-1]
    long_ago, far_ahead = at(-(10**9)), at(10**9)
    assert read(False, since=long_ago, until=far_ahead) == oldest
    assert read(False, until=long_ago) == read(True, since=far_ahead) == []


def test_runs_and_votes_are_stored_with_their_inquiry(store: Store) -> None:
    """An inquiry changed in place keeps its place in every list and counts its revisions."""
    a_stored(store, None, an_inquiry(), an_inquiry(id="i_2", number=13))
    run = a_run("started")
    store.transact("t_1", lambda s: Changes(inquiries=(s.inquiry("i_1").having(run=run),)))
    assert store.inquiry("i_1") == an_inquiry(run=run, revision=2)
    assert [(i.id, i.revision) for i in store.list_inquiries(InquiryState.PENDING, after=0, limit=9)] == [
        ("i_1", 2),
        ("i_2", 1),
    ]
    assert [i.id for i in store.snapshot("t_1").inquiries] == ["i_1", "i_2"]
