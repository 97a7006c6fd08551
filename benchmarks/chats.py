"""Many clicks at once on a chat product: how fast each is taken, whether one is lost, when cards show it.

200 requests are open in 20 channels; several people press Approve on the same card in the same
moment, card after card. The bot is a process of its own; the fake product with its rate limit and
the people share the other one. Run: `python -m benchmarks.chats slack|feishu [--seconds 20]`.
The exit code is 1 if a goal is missed. Nothing of it runs longer than a few minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Protocol

import psutil

from agent_runner.audit import Event
from agent_runner.config import Config
from agent_runner.config_chats import Feishu, Slack
from agent_runner.model import Inquiry
from bot.embedded import EmbeddedRedis
from tests.fakes.chat_desk import words
from tests.fakes.chat_office import ChatOffice
from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_clicks import controls_of
from tests.fakes.slack import FakeSlack

CHANNELS, EACH, PEOPLE = 20, 10, 6
MOST_SECONDS = 120
"""Longest load, whatever is asked for."""
CONNECT_SECONDS = 120.0
"""Until the bot is connected: Feishu's SDK alone loads for 5 s."""
SETUP_SECONDS = 240.0
"""Until 200 jobs are asked for and their cards stand there: 40 messages in each channel, one a second."""
GIVE_UP = 90.0
"""Seconds after the last click in which the cards are still looked at."""
EVERY = 1.0
"""Seconds between the courier's own looks, as in the bot."""


@dataclass(frozen=True)
class Goal:
    """What is asked of a product: clicks a second, `together` of them on one card; milliseconds; seconds."""

    rate: int
    together: int
    p99_ms: float
    max_ms: float
    shown_s: float = 30.0


class Town(Protocol):
    """One product with its people, who are numbered, and its channels."""

    goal: Goal
    config: Config

    @property
    def environment(self) -> Mapping[str, str]:
        """The secrets of the bot."""

    def connected(self) -> bool:
        """Whether events reach the bot."""

    def ask(self, channel: int) -> None:
        """Somebody mentions the bot with a job."""

    def message(self, chat: str, message_id: str) -> Any:
        """A message as it stands now."""

    def pressable(self, message: Any) -> bool:
        """Whether there is a button on it."""

    def text(self, message: Any) -> str:
        """What can be read on it."""

    async def press(self, person: int, message: Any) -> float:
        """Presses Approve; milliseconds until that was answered, infinity if it was not in time."""


class SlackTown:
    """One message a second in each channel."""

    goal = Goal(rate=50, together=5, p99_ms=100, max_ms=500)

    def __init__(self, slack: FakeSlack) -> None:
        self.slack = slack
        self.people = [slack.add_user(f"person{n}") for n in range(PEOPLE)]
        self.channels = [slack.add_channel(f"ops{n}", members=set(self.people)) for n in range(CHANNELS)]
        self.config = Config(slack=Slack(api_url=slack.api_url))
        self.environment = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_APP_TOKEN": slack.app_token}

    def connected(self) -> bool:
        """Whether events reach the bot."""
        return bool(self.slack.sockets)

    def ask(self, channel: int) -> None:
        """Somebody mentions the bot with a job."""
        self.slack.say(self.people[0], self.channels[channel], "restart the checkout pods", mention=True)

    def message(self, chat: str, message_id: str) -> Any:
        """A message as it stands now."""
        return self.slack.message(chat, message_id)

    def pressable(self, message: Any) -> bool:
        """Whether there is a button on it."""
        return bool(message.buttons)

    def text(self, message: Any) -> str:
        """What can be read on it."""
        return "\n".join(words(message.blocks))

    async def press(self, person: int, message: Any) -> float:
        """Presses Approve; milliseconds until that was acknowledged."""
        delivery = await self.slack.click(self.people[person], message, "approve")
        return (delivery.ack_ms or math.inf) if delivery.acked else math.inf


class FeishuTown:
    """Five messages a second in each chat. A press is answered with what came of it."""

    goal = Goal(rate=20, together=2, p99_ms=150, max_ms=1_000)

    def __init__(self, feishu: FakeFeishu) -> None:
        self.feishu = feishu
        self.people = [feishu.add_user(f"person{n}") for n in range(PEOPLE)]
        self.chats = [feishu.add_chat("group", self.people, name=f"ops{n}") for n in range(CHANNELS)]
        self.config = Config(feishu=Feishu(domain=feishu.domain, language="en"))
        self.environment = {"FEISHU_APP_ID": feishu.app_id, "FEISHU_APP_SECRET": feishu.app_secret}

    def connected(self) -> bool:
        """Whether events reach the bot."""
        return self.feishu.connections > 0

    def ask(self, channel: int) -> None:
        """Somebody mentions the bot with a job."""
        self.feishu.say(self.people[0], self.chats[channel], "restart the checkout pods", mention=True)

    def message(self, chat: str, message_id: str) -> Any:  # noqa: ARG002  ids are enough here
        """A message as it stands now."""
        return self.feishu.world.by_id[message_id]

    def pressable(self, message: Any) -> bool:
        """Whether there is a button on it."""
        return bool(controls_of(message.content))

    def text(self, message: Any) -> str:
        """What can be read on it."""
        return "\n".join(words(message.content))

    async def press(self, person: int, message: Any) -> float:
        """Presses Approve; milliseconds until that was answered with a toast."""
        result = await self.feishu.click_async(self.people[person], message, "approve")
        return result.ms if result.ok else math.inf


@contextmanager
def opened(product: str) -> Iterator[Town]:
    """The product with its people."""
    if product == "slack":
        with FakeSlack() as slack:
            yield SlackTown(slack)
    else:
        with FakeFeishu() as feishu:
            yield FeishuTown(feishu)


@contextmanager
def bot(redis_url: str, town: Town) -> Iterator[psutil.Process]:
    """The bot at work in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ready, stop = spawn.Event(), spawn.Event()
    process = spawn.Process(
        target=_bot, args=(redis_url, town.config, town.environment, ready, stop), daemon=True
    )
    process.start()
    try:
        until(lambda: ready.is_set() and town.connected(), "the bot did not connect", CONNECT_SECONDS)
        yield psutil.Process(process.pid)
    finally:
        stop.set()
        process.join(20)
        if process.is_alive():
            process.kill()


def _bot(redis_url: str, config: Config, environment: Mapping[str, str], ready: Any, stop: Any) -> None:
    with ChatOffice(redis_url, config, environment, every=EVERY):
        ready.set()
        stop.wait()


def until(condition: Any, why: str, seconds: float) -> float:
    """Waits until that is true; returns after how many seconds it was, or ends the benchmark."""
    begun = monotonic()
    while not condition():
        if monotonic() - begun > seconds:
            sys.exit(f"{why} within {seconds:g} s")
        sleep(0.1)
    return monotonic() - begun


def open_requests(office: ChatOffice, town: Town) -> list[tuple[Inquiry, Any]]:
    """Asks for all jobs, lets each run into its request, and waits for the cards."""
    count = CHANNELS * EACH
    for n in range(count):
        town.ask(n % CHANNELS)
    until(lambda: len(_tasks(office)) == count, "not all jobs were taken", SETUP_SECONDS)
    asked = [office.asks(task.id)[0] for task in _tasks(office)]
    until(lambda: not office.registers.dirty(), "not all cards were posted", SETUP_SECONDS)
    return [(inquiry, card(office, town, inquiry)) for inquiry in asked]


def _tasks(office: ChatOffice) -> Sequence[Any]:
    return office.store.list_tasks(None, after=None, limit=CHANNELS * EACH + 1)


def card(office: ChatOffice, town: Town, inquiry: Inquiry) -> Any:
    """The card of a request as it stands now."""
    receipt = office.registers.receipts(inquiry.task_id)[f"request:{inquiry.number}"]
    return town.message(office.store.task(inquiry.task_id).place.chat, receipt.message_id)


async def pressed(town: Town, cards: Sequence[Any]) -> tuple[list[float], float]:
    """`together` people press on each card, at the product's rate; the waits in ms, and the real rate."""
    goal, presses, begun = town.goal, [], monotonic()
    for n, shown in enumerate(cards):
        await asyncio.sleep(begun + n * goal.together / goal.rate - monotonic())
        for person in range(goal.together):
            presses.append(asyncio.ensure_future(town.press((n + person) % PEOPLE, shown)))
    rate = len(presses) / (monotonic() - begun + goal.together / goal.rate)
    return await asyncio.gather(*presses), rate


def stale(office: ChatOffice, town: Town, inquiries: Sequence[Inquiry]) -> list[int]:
    """The numbers of the requests whose card does not show what is stored."""
    return [inquiry.number for inquiry in inquiries if not _shows(office, town, inquiry)]


def _shows(office: ChatOffice, town: Town, inquiry: Inquiry) -> bool:
    stored, message = office.store.inquiry(inquiry.id), card(office, town, inquiry)
    if stored.open or stored.decision is None:
        return town.pressable(message)
    return not town.pressable(message) and f"Approved by {stored.decision.by.name}" in town.text(message)


def decided_once(office: ChatOffice, inquiry: Inquiry) -> bool:
    """Whether a request is decided, and on record as decided once."""
    events = [entry.event for entry in office.store.audit_of(inquiry.task_id)]
    return not office.store.inquiry(inquiry.id).open and events.count(Event.DECIDED) == 1


def _worked(process: psutil.Process) -> float:
    """Seconds of a processor that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def report(rows: Sequence[tuple[str, str, str, bool]]) -> bool:
    """Prints goals and what was measured; whether every goal was met."""
    print(f"{'':34}{'goal':>12}{'measured':>14}")
    for name, wanted, measured, met in rows:
        print(f"{name:34}{wanted:>12}{measured:>14}{'' if met else '   MISSED'}")
    return all(met for *_, met in rows)


def run(product: str, seconds: float) -> bool:
    """One run; whether every goal was met."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedRedis(Path(folder), path=os.environ.get("PATH", os.defpath)) as server,
        opened(product) as town,
        bot(server.url, town) as process,
    ):
        office = ChatOffice(server.url, town.config, town.environment)  # the runners' half: not entered
        goal, begun = town.goal, monotonic()
        known = open_requests(office, town)
        print(f"{len(known)} requests are open in {CHANNELS} channels after {monotonic() - begun:.0f} s")
        used = known[: math.ceil(goal.rate * min(seconds, MOST_SECONDS) / goal.together)]
        clicked, before = monotonic(), _worked(process)
        waits, rate = asyncio.run(pressed(town, [shown for _, shown in used]))
        busy = (_worked(process) - before) / (monotonic() - clicked)
        inquiries = [inquiry for inquiry, _ in known]
        after = until(lambda: not stale(office, town, inquiries), "not every card shows its state", GIVE_UP)
        rest = until(lambda: not office.registers.dirty(), "not every message is settled", GIVE_UP)
        once = sum(decided_once(office, inquiry) for inquiry, _ in used)
    waits.sort()
    p99 = waits[math.ceil(len(waits) * 0.99) - 1]
    answered = sum(wait < math.inf for wait in waits)
    return report(
        [
            ("clicks a second", f"{goal.rate}", f"{rate:.1f}", rate > goal.rate * 0.95),
            ("clicks answered", f"{len(waits)}", f"{answered}", answered == len(waits)),
            ("answer p50", "", f"{statistics.median(waits):.0f} ms", True),
            ("answer p99", f"{goal.p99_ms:g} ms", f"{p99:.0f} ms", p99 < goal.p99_ms),
            ("answer at most", f"{goal.max_ms:g} ms", f"{waits[-1]:.0f} ms", waits[-1] < goal.max_ms),
            ("requests decided, once each", f"{len(used)}", f"{once}", once == len(used)),
            ("every card shows it after", f"{goal.shown_s:g} s", f"{after:.1f} s", after < goal.shown_s),
            ("every other message after", "", f"{after + rest:.1f} s", True),
            ("the bot's share of a processor", "", f"{busy:.0%}", True),
            ("programs waiting for one (load)", "", f"{os.getloadavg()[0]:.1f}/{os.cpu_count()}", True),
        ]
    )


def main() -> None:
    """Runs it and prints the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chats")
    parser.add_argument("product", choices=("slack", "feishu"))
    parser.add_argument("--seconds", type=float, default=20)
    asked = parser.parse_args()
    sys.exit(0 if run(asked.product, asked.seconds) else 1)


if __name__ == "__main__":
    main()
