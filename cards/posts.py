"""Task -> every message that should stand in its thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo

from agent_runner.model import Inquiry, Progress, Task
from cards import batch, mentions, outcomes, wording
from cards.batch_card import batch_card
from cards.compose import inquiry_card
from cards.jobs import result_card, status_card
from cards.model import Card, Paragraph, Post
from cards.outcomes import Reader
from cards.people import Names

Together = Callable[[batch.Steps], bool]


def posts(
    task: Task,
    inquiries: Iterable[Inquiry],
    *,
    progress: Progress | None,
    lang: str,
    zone: tzinfo,
    now: datetime,
    approver_names: Mapping[str, Names] | None = None,
    announce: bool = False,
    told: Mapping[str, Names] | None = None,
    together: Together = lambda _: True,
) -> tuple[Post, ...]:
    """Every message that should stand in the task's thread now, oldest first.

    `inquiries` are all of this task's; `approver_names` are people by inquiry id. Keys are
    `status` (always there), `request:<number>` and, once the task has ended, `result:<turn>`. The
    steps of one turn are one message under the lowest number, unless `together` says that they do
    not fit on one; the answer must stay the same. What calls people, whom `told` has by key, is a
    message of its own (see `cards.mentions`). With `announce`, what became of requests is a
    message of its own, `outcome:<number>`, where an update would reach nobody. A
    key that was posted before and is no longer listed (the result of an earlier turn) keeps its
    message: show that card `settled()`, so that nothing on it can be pressed any more.
    """
    reader = Reader(lang, zone, now)
    known = sorted(inquiries, key=lambda inquiry: inquiry.number)
    requests = _Requests(known, reader, approver_names or {})
    status = status_card(
        task,
        progress=progress,
        pending=requests.waiting,
        lang=lang,
        zone=zone,
        now=now,
        approver_names=requests.people,
    )
    out = [Post(key="status", revision=task.revision, card=status)]
    for steps in batch.units(known):
        out += requests.shown(steps, together)
        for step in steps:
            out += mentions.posts(step, reader, told or {})
        if announce:
            out += _news(steps, reader)
    if task.ended:
        result = result_card(task, lang=lang, zone=zone, now=now)
        out.append(Post(key=f"result:{task.turn}", revision=task.revision, card=result))
    return tuple(out)


class _Requests:
    """The cards of one task's requests."""

    def __init__(self, known: Sequence[Inquiry], reader: Reader, people: Mapping[str, Names]) -> None:
        self.people = people
        self.waiting = tuple(inquiry for inquiry in known if inquiry.open)
        self._reader = reader
        self._by_id = {inquiry.id: inquiry for inquiry in known}
        self._followers = {inquiry.replaces: inquiry.number for inquiry in known if inquiry.replaces}

    def shown(self, steps: batch.Steps, together: Together) -> Iterator[Post]:
        """The messages of a request, or of the steps of one turn."""
        if len(steps) == 1:
            yield self._post(steps[0], self._single(steps[0]))
        elif together(steps):
            yield self._post(steps[0], self._batch(steps))
        else:
            why = Paragraph(text=wording.line(self._reader.lang, "batch.apart", n=len(steps)))
            for step in steps:
                card = self._single(step)
                yield self._post(step, card.model_copy(update={"elements": (why, *card.elements)}))

    def _post(self, first: Inquiry, card: Card) -> Post:
        return Post(key=f"request:{first.number}", revision=card.revision, card=card)

    def _single(self, inquiry: Inquiry) -> Card:
        place = (self.waiting.index(inquiry) + 1, len(self.waiting)) if inquiry.open else None
        return inquiry_card(
            inquiry,
            lang=self._reader.lang,
            zone=self._reader.zone,
            now=self._reader.now,
            approver_names=self.people.get(inquiry.id, ()),
            position=place,
            previous=self._by_id.get(inquiry.replaces or ""),
            followed_by=self._followers.get(inquiry.id),
        )

    def _batch(self, steps: batch.Steps) -> Card:
        return batch_card(
            steps,
            lang=self._reader.lang,
            zone=self._reader.zone,
            now=self._reader.now,
            approver_names=self.people,
            previous={s.id: self._by_id[s.replaces] for s in steps if s.replaces in self._by_id},
            followed_by={s.id: self._followers[s.id] for s in steps if s.id in self._followers},
        )


def _news(steps: batch.Steps, reader: Reader) -> Iterator[Post]:
    """What others wait to hear; what was decided in one go is told in one message."""
    told: dict[object, list[Inquiry]] = {}
    for step in steps:
        if outcomes.is_news(step):
            decision = step.decision
            go = (decision.by.key, decision.at, decision.verdict) if decision else step.id
            told.setdefault(go, []).append(step)
    for group in told.values():
        card = outcomes.announcement(group[0], reader, batch.ranges(step.number for step in group))
        yield Post(key=f"outcome:{group[0].number}", revision=group[0].revision, card=card)
