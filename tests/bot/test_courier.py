from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import fakeredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis
from redis.client import Pipeline

from agent_runner import lifecycle
from agent_runner.aggregate import Changes
from agent_runner.audit import Event
from agent_runner.errors import CountersignError
from agent_runner.model import Inquiry, Kind, Outcome, OutcomeKind, Place, Task
from agent_runner.registers import Registers
from agent_runner.store import Store
from bot.courier import PATIENCE, Courier
from bot.delivery import Client, Form, Shown
from bot.web.client import WebClient
from cards import posts as thread
from cards import text
from cards.attach import Fitted
from cards.model import Actions, Attachment, Card
from tests.fakes.values import LIN, MEI, NOW, a_decision, a_task, an_inquiry


class Down(Exception):
    """The platform did not take a message."""


class Crash(BaseException):
    """The bot's process ends here."""


class Thread:
    """A platform that keeps what it was sent; `plan` says of each send how it goes.

    `ok`, `fails`, `no answer` (it arrived, and that is not heard), `crash` (it arrived, and the bot
    dies before it writes that down), `crash later` (... after it wrote that down).
    """

    interval = 0.0
    status_interval = 0.0
    follows_progress = True
    fallback = ""
    announces = False
    answers_presses = False
    first_form = Form.CARD

    def __init__(self) -> None:
        self.languages: tuple[str, ...] = ("en",)
        self.shown: dict[str, Shown] = {}
        self.log: list[str] = []
        self.plan: list[str] = []
        self.down: set[str] = set()
        self.crash_later = False
        self.roomy = True
        self.arrived = asyncio.Event()

    def fit(self, card: Card, _form: Form, *, uploaded: bool, prefix: str) -> Fitted:  # noqa: ARG002  (names count)
        """There is room for everything."""
        return Fitted(card=card, files=())

    def holds(self, _card: Card) -> bool:
        """Whether a batch is shown on one card."""
        return self.roomy

    async def post(self, _place: Place, shown: Shown) -> str:
        """A new message; a platform without keys of ours makes a new one each time."""
        message_id = f"m{len(self.shown) + 1}"
        self._send("post", message_id, shown)
        return message_id

    async def update(self, _place: Place, message_id: str, shown: Shown) -> None:
        """Another content for a message."""
        self._send("update", message_id, shown)

    async def find(self, _place: Place, shown: Shown) -> str:
        """The message with that key, if it ever arrived."""
        return next((m for m, one in self.shown.items() if one.key == shown.key), "")

    async def attach(self, _place: Place, _file: Attachment) -> None:
        """No file is ever needed."""
        raise AssertionError

    async def open_thread(self, _chat: str, _card: Card) -> Place:
        """No thread is ever gone."""
        raise AssertionError

    def _send(self, what: str, message_id: str, shown: Shown) -> None:
        how = self.plan.pop(0) if self.plan else "ok"
        if how == "fails" or shown.task_id in self.down:
            self.log.append(f"failed {what} {shown.task_id} {shown.key}")
            raise Down
        self.shown[message_id] = shown
        self.log.append(f"{what} {shown.task_id} {shown.key}")
        self.arrived.set()
        if how == "no answer":
            raise Down
        if how == "crash":
            raise Crash
        self.crash_later = how == "crash later"

    def buttons(self, key: str) -> list[str]:
        """What can be pressed on the message of that key that was updated last."""
        cards = [post.card for post in self.shown.values() if post.key == key]
        found = [e for e in cards[-1].elements if isinstance(e, Actions)]
        return [str(b.verb) for e in found for b in e.buttons]


class Office:
    """A store, a courier and a thread; every look at the clock is a little later."""

    def __init__(self) -> None:
        self.server = fakeredis.FakeServer()
        self.client: Redis = fakeredis.FakeRedis(server=self.server)
        self.store = Store(self.client, enqueue=self._enqueue)
        self.registers = Registers(self.client)
        self.thread = Thread()
        self.clients: Mapping[str, Client] = {"web": self.thread}
        self.time = NOW
        self.broken_queue = False
        self.courier = self.new_courier()

    def _enqueue(self, _pipe: Pipeline, _task: Task) -> None:
        if self.broken_queue:
            raise RuntimeError("no queue")

    def now(self) -> datetime:
        """A millisecond later than the last time."""
        self.time += timedelta(milliseconds=1)
        return self.time

    def restart(self) -> None:
        """A courier that remembers nothing, on whatever clients there are now."""
        self.courier = self.new_courier()

    def new_courier(self) -> Courier:
        """A courier as `serve` makes it."""
        return Courier(
            self.store,
            self.registers,
            self.clients,
            approvers=lambda _inquiry, _platform: ("Lin",),
            zone=UTC,
            clock=self.couriers_now,
        )

    def couriers_now(self) -> datetime:
        """The same for the courier; what is to die later dies when it looks at the clock."""
        if self.thread.crash_later:
            raise Crash
        return self.now()

    def task(self, task_id: str = "t_1", platform: str = "web") -> None:
        """A running task."""
        place = Place(platform=platform, thread=task_id)
        now = self.now()
        self.store.create(
            a_task(id=task_id, state="running", place=place, created_at=now, updated_at=now),
            messages=[],
            notes=[],
        )

    def asks(self, *numbers: int, task_id: str = "t_1", kind: Kind = Kind.APPROVAL) -> None:
        """The task's turn ends with these requests."""
        asked = tuple(
            an_inquiry(id=f"i_{n}", number=n, task_id=task_id, tool_use_id=f"u_{n}", kind=kind)
            for n in numbers
        )
        self.do(lambda s, now: lifecycle.complete(s, Outcome(kind=OutcomeKind.DEFERRED), asked, now), task_id)

    def approves(self, number: int) -> None:
        """Somebody approves."""
        self.do(
            lambda s, now: lifecycle.decide(
                s, f"i_{number}", a_decision(at=now), votes=(), decided=True, now=now
            )
        )

    def do(self, event: Callable[[Any, datetime], Changes], task_id: str = "t_1") -> None:
        """Any other event."""
        now = self.now()
        self.store.transact(task_id, lambda s: event(s, now))

    def look(self, times: int = 1) -> list[str]:
        """Lets the courier look, and starts it again where it dies; what it sent."""
        before = len(self.thread.log)
        for _ in range(times):
            try:
                asyncio.run(self.courier.reconcile_all())
            except Crash:
                self.restart()
            self.thread.crash_later = False
        return self.thread.log[before:]

    def settle(self) -> list[str]:
        """Lets it look until nothing is left to do."""
        before = len(self.thread.log)
        for _ in range(50):
            self.look()
            if not self.registers.dirty():
                return self.thread.log[before:]
            self.time += timedelta(seconds=PATIENCE[-1])
        raise AssertionError("the courier does not come to rest")

    def wanted(self, task_id: str = "t_1") -> dict[str, str]:
        """What should be shown now: fingerprints by key."""
        snap = self.store.snapshot(task_id)
        names = {i.id: ("Lin",) for i in snap.inquiries}
        posts = thread.posts(
            snap.task, snap.inquiries, progress=None, lang="en", zone=UTC, now=self.time, approver_names=names
        )
        return {post.key: post.card.fingerprint for post in posts}

    def recorded(self, task_id: str = "t_1") -> list[str]:
        """The requests that are on record as shown."""
        return [e.inquiry_id for e in self.store.audit_of(task_id) if e.event == "inquiry_shown"]


def test_a_thread_shows_its_messages_in_order() -> None:
    """Status first, then the requests as they were asked, then the result; a known status can wait."""
    office = Office()
    office.task()
    assert office.settle() == ["post t_1 status"]
    office.asks(12, 13, kind=Kind.PLAN)
    sent = office.settle()
    assert [line for line in sent if "request" in line] == ["post t_1 request:12", "post t_1 request:13"]
    assert sent[-1] == "update t_1 status"
    office.do(lambda s, now: lifecycle.stop(s, LIN, now))
    ended = office.settle()
    assert ended == [
        "update t_1 request:12",
        "update t_1 request:13",
        "post t_1 result:1",
        "update t_1 status",
    ]
    assert {post.key: post.card.fingerprint for post in office.thread.shown.values()} == office.wanted()


def shown_of(office: Office) -> list[tuple[str, int]]:
    """Which requests are on record as shown, and at which revision."""
    entries = [e for e in office.store.audit_of("t_1") if e.event is Event.INQUIRY_SHOWN]
    return [(e.inquiry_id, e.details["revision"]) for e in entries]


def test_the_steps_of_one_turn_are_one_message() -> None:
    """It stands under the lowest number, follows each step, and each is on record as shown, once."""
    office = Office()
    office.task()
    office.asks(12, 13, 14)
    assert [line for line in office.settle() if "request" in line] == ["post t_1 request:12"]
    assert shown_of(office) == [("i_12", 1), ("i_13", 1), ("i_14", 1)]
    assert office.registers.receipts("t_1")["request:12"].numbers == (12, 13, 14)
    office.approves(13)
    assert office.settle() == ["update t_1 request:12", "update t_1 status"]
    for number in (12, 14):
        office.approves(number)
    office.settle()
    assert office.thread.buttons("request:12") == []
    assert len(shown_of(office)) == 3


def test_steps_that_do_not_fit_on_one_card_have_one_each_to_the_end() -> None:
    """Each says why; and it stays so when their buttons are gone and one card would do."""
    office = Office()
    office.thread.roomy = False
    office.task()
    office.asks(12, 13)
    sent = office.settle()
    assert [line for line in sent if "request" in line] == ["post t_1 request:12", "post t_1 request:13"]
    assert shown_of(office) == [("i_12", 1), ("i_13", 1)]
    said = [text.render(post.card) for post in office.thread.shown.values() if "request" in post.key]
    assert all("The 2 steps of this turn do not fit on one card here" in one for one in said)
    office.thread.roomy = True
    for number in (12, 13):
        office.approves(number)
    assert {"update t_1 request:12", "update t_1 request:13"} <= set(office.settle())


def test_what_shows_the_stored_state_is_left_alone() -> None:
    """Woken for nothing, or twice for one thing, the courier sends nothing."""
    office = Office()
    office.task()
    office.asks(12)
    office.settle()
    for _ in range(3):
        office.registers.mark_dirty("t_1", office.now())
        assert office.look() == []
    office.approves(12)
    assert office.settle() == ["update t_1 request:12", "update t_1 status"]
    office.restart()
    office.registers.mark_dirty("t_1", office.now())
    assert office.settle() == []


def test_each_request_is_on_record_as_shown_once() -> None:
    """Where, which revision, and a digest of the card that people saw first."""
    office = Office()
    office.task()
    office.asks(12)
    office.settle()
    office.approves(12)
    office.settle()
    [entry] = [e for e in office.store.audit_of("t_1") if e.event == "inquiry_shown"]
    first = office.thread.log.index("post t_1 request:12")
    assert first > 0
    assert (entry.inquiry_id, entry.digest) == ("i_12", an_inquiry().digest)
    assert entry.details["place"] == {"platform": "web", "chat": "", "thread": "t_1"}
    assert (entry.details["revision"], len(entry.details["shown"])) == (1, 64)


@pytest.mark.parametrize("meanwhile", ["nothing", "approved"])
def test_a_crash_between_the_receipt_and_the_record_is_made_up_for(meanwhile: str) -> None:
    """The bot dies before it is on record that people saw the request: the next one records it."""
    office = Office()
    office.task()
    office.settle()
    office.asks(12)
    office.thread.plan = ["crash later"]
    assert office.look() == ["post t_1 request:12"]
    assert office.recorded() == []
    if meanwhile == "approved":
        office.approves(12)
    assert not [line for line in office.settle() if line.startswith("post")]
    assert office.recorded() == ["i_12"]


@pytest.mark.parametrize("how", ["crash", "no answer"])
def test_a_message_whose_receipt_is_lost_is_found_again(how: str) -> None:
    """Before anything is posted a second time, the thread is searched for it."""
    office = Office()
    office.task()
    office.settle()
    office.asks(12)
    office.thread.plan = [how]
    office.settle()
    assert office.thread.log.count("post t_1 request:12") == 1
    assert office.recorded() == ["i_12"]
    office.approves(12)
    office.settle()
    assert office.thread.buttons("request:12") == []


def test_on_the_web_page_a_crash_is_not_even_seen_twice() -> None:
    """There the message's key is its id: posting it again is the same message at the same place."""
    office = Office()
    office.clients = {"web": WebClient(office.registers, "en", office.now)}
    office.restart()
    office.task()
    office.settle()
    first = office.registers.posts("t_1")
    office.client.delete(office.registers.keys.part("t_1", "posts"))
    office.registers.mark_dirty("t_1", office.now())
    office.settle()
    assert office.registers.posts("t_1") == first


def test_a_task_whose_messages_fail_waits_longer_and_longer() -> None:
    """Retried after 1, 2, 5, 15, 60, 60 ... seconds, until it works; then without delay again."""
    office = Office()
    office.task()
    office.thread.down = {"t_1"}
    for wait in (1, 2, 5, 15, 60, 60):
        assert office.look() == ["failed post t_1 status"]
        failed = office.time
        office.time = failed + timedelta(seconds=wait - 0.1)
        assert office.look() == []
        office.time = failed + timedelta(seconds=wait)
    office.thread.down = set()
    assert office.look() == ["post t_1 status"]
    office.asks(12)
    assert office.look() == ["post t_1 request:12", "update t_1 status"]


@pytest.mark.parametrize("failing", [1, 101])
def test_the_others_are_not_kept_waiting(failing: int) -> None:
    """However many tasks cannot be posted to, a later one is posted at the next look."""
    office = Office()
    for n in range(failing):
        office.task(f"t_bad{n}")
        office.thread.down.add(f"t_bad{n}")
    office.task("t_good")
    assert office.look()[-1] == "post t_good status"
    office.task("t_new")
    assert office.look() == ["post t_new status"]


def test_a_platform_that_is_off_keeps_only_its_own_waiting() -> None:
    """A task of a platform that is not configured stays on the list; the rest goes on."""
    office = Office()
    office.task("t_off", platform="slack")
    office.task("t_on")
    assert office.look() == ["post t_on status"]
    assert [task_id for task_id, _ in office.registers.dirty()] == ["t_off"]


def test_case_c07_a_card_shows_what_is_stored_never_what_was_clicked() -> None:
    """The store refused the decision: the card stays open. Once it is stored, the card says so."""
    office = Office()
    office.task()
    office.asks(12)
    office.settle()
    before = office.thread.buttons("request:12")
    assert "approve" in before
    office.broken_queue = True
    with pytest.raises(RuntimeError):
        office.approves(12)
    office.registers.mark_dirty("t_1", office.now())
    assert office.settle() == []
    assert office.thread.buttons("request:12") == before
    office.broken_queue = False
    office.approves(12)
    office.settle()
    assert office.thread.buttons("request:12") == []


@pytest.mark.parametrize("end", ["approved", "expired", "stopped"])
def test_case_c08_buttons_go_however_often_the_update_fails(end: str) -> None:
    """A rate limit or an outage delays the update; it is tried until the buttons are gone."""
    office = Office()
    office.task()
    office.asks(12)
    office.settle()
    if end == "approved":
        office.approves(12)
    elif end == "stopped":
        office.do(lambda s, now: lifecycle.stop(s, LIN, now))
    else:
        office.time = NOW + timedelta(hours=9)
        office.do(lambda s, now: lifecycle.expire(s, "i_12", now))
    office.thread.plan = ["ok", "fails", "fails", "ok", "fails"]
    office.settle()
    assert [verb for verb in office.thread.buttons("request:12") if verb != "ask_again"] == []
    assert {p.key: p.card.fingerprint for p in office.thread.shown.values()} == office.wanted()


STEPS: dict[str, Callable[[Office], object]] = {
    "ask": lambda o: o.asks(*(n := 12 + 2 * len(o.store.snapshot("t_1").inquiries), n + 1)),
    "approve": lambda o: o.approves(_some(o).number),
    "reject": lambda o: o.do(
        lambda s, now: lifecycle.decide(
            s, _some(o).id, a_decision("reject", reason="no", at=now), votes=(), decided=True, now=now
        )
    ),
    "start": lambda o: o.do(
        lambda s, now: lifecycle.start(s, turn=s.task.turn, attempt=s.task.attempt, worker="w", now=now)
    ),
    "done": lambda o: o.do(
        lambda s, now: lifecycle.complete(s, Outcome(kind=OutcomeKind.DONE, result="ok"), (), now)
    ),
    "say": lambda o: o.do(lambda s, now: lifecycle.follow_up(s, "more", MEI, now)),
    "stop": lambda o: o.do(lambda s, now: lifecycle.stop(s, LIN, now)),
    "look": lambda o: o.look(),
    "look twice": lambda o: o.look(2),
    "restart": lambda o: o.restart(),
    "wake": lambda o: o.registers.mark_dirty("t_1", o.now()),
    "a minute": lambda o: setattr(o, "time", o.time + timedelta(minutes=1)),
}


def _some(office: Office) -> Inquiry:
    found = lifecycle.open_inquiries(office.store.snapshot("t_1").inquiries)
    if not found:
        raise CountersignError("nothing is open")
    return found[-1]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(STEPS)), max_size=25),
    st.lists(st.sampled_from(["ok", "ok", "fails", "no answer", "crash", "crash later"]), max_size=12),
)
def test_whatever_happens_in_the_end_the_thread_shows_the_stored_state(
    steps: list[str], plan: list[str]
) -> None:
    """Any order of changes, looks, restarts and failures: at rest, what stands is what is stored.

    A message is missing never, and doubled only if its receipt was lost.
    """
    office = Office()
    office.task()
    office.thread.plan = list(plan)
    for step in steps:
        try:
            STEPS[step](office)
        except CountersignError:
            continue
    office.settle()
    wanted = office.wanted()
    last = {post.key: post.card.fingerprint for post in office.thread.shown.values()}
    receipts = office.registers.receipts("t_1")
    assert {key: last[key] for key in wanted} == wanted
    assert {key: receipts[key].shown for key in wanted} == wanted
    doubled = len(office.thread.shown) - len({post.key for post in office.thread.shown.values()})
    assert doubled <= plan.count("no answer") + plan.count("crash")
    assert sorted(set(office.recorded())) == sorted(i.id for i in office.store.snapshot("t_1").inquiries)
    assert len(office.recorded()) == len(set(office.recorded()))


# --- the loop ----------------------------------------------------------------------------------


def test_woken_it_looks_at_once_and_goes_on_after_trouble(caplog: pytest.LogCaptureFixture) -> None:
    """The loop survives a store that is away, and does not wait for its next round when woken."""
    office = Office()

    async def watch() -> None:
        office.thread.arrived = asyncio.Event()
        await asyncio.to_thread(office.task)
        office.server.connected = False
        running = asyncio.create_task(office.courier.run(every=3600))
        async with asyncio.timeout(5):
            while "could not read" not in caplog.text:  # noqa: ASYNC110  (a log has no event)
                await asyncio.sleep(0.002)
            office.server.connected = True
            office.courier.wake()
            await office.thread.arrived.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(watch())
    assert office.thread.log == ["post t_1 status"]


def test_unwoken_it_looks_every_so_often() -> None:
    """A wake-up that got lost costs one round."""
    office = Office()

    async def watch() -> None:
        office.thread.arrived = asyncio.Event()
        running = asyncio.create_task(office.courier.run(every=0.01))
        async with asyncio.timeout(5):
            await asyncio.to_thread(office.task)
            await office.thread.arrived.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(watch())
    assert office.thread.log == ["post t_1 status"]
