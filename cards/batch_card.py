"""The steps of one turn -> one card: each with its letter, its whole input and its own buttons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo

from agent_runner.model import Inquiry
from cards import batch, call, choices, compose, outcomes, wording
from cards.model import (
    FURTHER,
    Actions,
    Button,
    Card,
    CardState,
    Element,
    Footer,
    Hint,
    Input,
    Line,
    Quote,
    Step,
    StepsEnd,
    Style,
    Theirs,
    Verb,
)
from cards.outcomes import Reader, person
from cards.people import Names, approvers

FEW = 4
"""Steps up to which each has its buttons for more than once; of more they are typed, for lack of room."""


def batch_card(
    steps: Sequence[Inquiry],
    *,
    lang: str,
    zone: tzinfo,
    now: datetime,
    approver_names: Mapping[str, Names] | None = None,
    can_decide: Mapping[str, bool] | None = None,
    previous: Mapping[str, Inquiry] | None = None,
    followed_by: Mapping[str, int] | None = None,
) -> Card:
    """The card of all steps of a turn, in whatever states they are.

    The mappings are by inquiry id; what they hold is that of `compose.inquiry_card`.
    """
    drawn = _Drawn(
        steps=tuple(steps),
        reader=Reader(lang, zone, now),
        names=approver_names or {},
        can_decide=can_decide or {},
        previous=previous or {},
        followed_by=followed_by or {},
    )
    first = steps[0]
    return Card(
        lang=lang,
        state=drawn.state(),
        title=drawn.title(),
        summary=drawn.summary(),
        elements=tuple(drawn.elements()),
        task_id=first.task_id,
        inquiry_id=first.id,
        revision=sum(step.revision for step in steps),
        inquiry_ids=tuple(step.id for step in steps),
        numbers=tuple(step.number for step in steps),
    )


def button(verb: Verb, steps: Sequence[Inquiry], lang: str) -> Button:
    """A button about all of these, which are open, as they are now."""
    rejects = verb is Verb.REJECT_ALL
    reason = Input(name="reason", label=wording.line(lang, "input.reason"), required=True)
    return Button(
        verb=verb,
        label=wording.text(lang, f"button.{verb}", n=len(steps)),
        revision=sum(step.revision for step in steps),
        inquiry_id=steps[0].id,
        seen=batch.seen(steps),
        style=Style.DANGER if rejects else Style.PRIMARY,
        inputs=(reason,) if rejects else (),
        submit=wording.text(lang, f"submit.{verb}", n=len(steps)) if rejects else "",
    )


class _Drawn:
    """One card being composed."""

    def __init__(
        self,
        *,
        steps: batch.Steps,
        reader: Reader,
        names: Mapping[str, Names],
        can_decide: Mapping[str, bool],
        previous: Mapping[str, Inquiry],
        followed_by: Mapping[str, int],
    ) -> None:
        self.steps, self.reader, self.lang = steps, reader, reader.lang
        self.names, self.can_decide = names, can_decide
        self.previous, self.followed_by = previous, followed_by
        self.waiting = [step for step in steps if step.open]
        self.mine = [step for step in self.waiting if can_decide.get(step.id) is not False]
        self.one_rule = len({step.rule for step in steps}) == 1
        words = {step.agent_words for step in steps if step.agent_words.strip()}
        self.said_once = next(iter(words)) if len(words) == 1 else ""
        self.terms = {step.id: self._terms(step) for step in self.waiting}
        self.one_terms = len(set(self.terms.values())) == 1

    # --- the head ------------------------------------------------------------------------

    def state(self) -> CardState:
        """Open while any step is; then what they have in common, the gravest first."""
        states = {outcomes.state(step) for step in self.steps}
        order = (CardState.PENDING, CardState.UNKNOWN, CardState.REJECTED, CardState.CHANGED)
        found = next((state for state in order if state in states), None)
        return found or (states.pop() if len(states) == 1 else CardState.APPROVED)

    def title(self) -> Line:
        """Which requests, how many steps, where."""
        return wording.line(
            self.lang,
            "batch.title",
            numbers=batch.ranges(step.number for step in self.steps),
            n=len(self.steps),
            workspace=Theirs(raw=self.steps[0].workspace),
        )

    def summary(self) -> Line:
        """For whom, and why a person is asked if that is the same for all."""
        first, who = self.steps[0], person(self.steps[0].asked_by)
        if self.one_rule:
            return wording.line(self.lang, "summary.approval", who=who, rule=call.rule(first, self.lang))
        return wording.line(self.lang, "batch.summary", who=who)

    # --- the body ------------------------------------------------------------------------

    def elements(self) -> Iterator[Element]:
        """Everything below the head."""
        for mark, step in batch.lettered(self.steps).items():
            yield from self._step(mark, step)
        yield StepsEnd()
        if self.said_once:
            yield self._words(self.said_once)
        if len(self.mine) > 1:
            both = (Verb.APPROVE_ALL, Verb.REJECT_ALL)
            yield Actions(buttons=tuple(button(verb, self.mine, self.lang) for verb in both))
        if self.mine:
            yield Hint(text=self._typed())
        yield Footer(text=self._footer())

    def _words(self, words: str) -> Quote:
        return Quote(label=wording.line(self.lang, "label.agent"), text=Theirs(raw=words), small=True)

    def _step(self, mark: str, step: Inquiry) -> Iterator[Element]:
        lang = self.lang
        yield Step(mark=mark, number=step.number, state=outcomes.state(step), text=self._heading(mark, step))
        yield from call.warnings(step, lang)
        if step.id in self.previous:
            yield from compose.replaces(step, self.previous[step.id], lang)
        yield from call.elements(step, lang)
        if step.agent_words.strip() and not self.said_once:
            yield self._words(step.agent_words)
        yield from compose.votes(step, self.reader)
        followed_by = self.followed_by.get(step.id)
        if not step.open:
            waits = bool(self.waiting)
            yield from outcomes.elements(step, self.reader, followed_by=followed_by, waits=waits)
        elif not self.one_terms:
            yield Footer(text=wording.joined(self.terms[step.id]))
        if self.can_decide.get(step.id) is not False and not followed_by:
            buttons = tuple(self._buttons(step))
            if buttons:
                yield Actions(buttons=buttons)

    def _heading(self, mark: str, step: Inquiry) -> Line:
        parts = [
            wording.line(
                self.lang, "batch.step", mark=mark, number=step.number, what=call.what(step, self.lang)
            )
        ]
        if not self.one_rule:
            parts.append(wording.line(self.lang, "batch.because", rule=call.rule(step, self.lang)))
        return wording.joined(parts)

    def _buttons(self, step: Inquiry) -> Iterable[Button]:
        offered = choices.verbs(step)
        if len(self.steps) > FEW:
            offered = tuple(verb for verb in offered if verb not in FURTHER)
        return (compose.button(verb, step, self.lang) for verb in offered)

    def _terms(self, step: Inquiry) -> tuple[Line, ...]:
        names = approvers(step, self.lang, self.names.get(step.id, ()), mention=True)
        return compose.terms(step, self.reader, names, self.can_decide.get(step.id))

    def _typed(self) -> str:
        """How to type it, with letters that are open."""
        open_here = [mark for mark, step in batch.lettered(self.steps).items() if step in self.mine]
        first, last = open_here[0], open_here[-1]
        key = "typed.batch" if first != last else "typed.batch_last"
        return wording.text(self.lang, key, a=first, b=last)

    def _footer(self) -> Line:
        """What is the same for all open steps, and the beginning of each step's digest."""
        known = self.terms[self.waiting[0].id] if self.waiting and self.one_terms else ()
        digests: list[Line] = [
            wording.joined([wording.as_line(mark), (Theirs(raw=step.short_digest, code=True),)], " ")
            for mark, step in batch.lettered(self.steps).items()
        ]
        return wording.joined([*known, wording.joined(digests, wording.text(self.lang, "list.separator"))])
