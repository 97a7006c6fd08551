"""What became of a request: who decided, when, with what words, and how the run went."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import NamedTuple

from agent_runner.model import (
    OUTPUT_KEPT,
    Actor,
    Decision,
    Execution,
    Hold,
    Inquiry,
    InquiryState,
    Kind,
    Run,
    Scope,
)
from cards import conditions, diffs, limits, wording
from cards.choices import is_call
from cards.model import Card, CardState, Code, Element, Fields, Item, Line, Ours, Outcome, Quote, Theirs
from cards.people import acting

_EXIT = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")
"""How the engine's Bash tool begins the result of a command that failed."""


ON_A_LINE = 200
"""Characters of a reason that stand in the sentence itself."""


class Reader(NamedTuple):
    """For whom and when a card is composed."""

    lang: str
    zone: tzinfo
    now: datetime

    def time(self, when: datetime) -> Line:
        """A time as this reader says it."""
        return (Ours(text=wording.moment(self.lang, when, zone=self.zone, now=self.now), at=when),)


def person(actor: Actor) -> Theirs:
    """A person's name."""
    return Theirs(raw=actor.name, actor=actor)


def state(inquiry: Inquiry) -> CardState:
    """The colour key of an inquiry's card."""
    if inquiry.run.state is Execution.UNKNOWN:
        return CardState.UNKNOWN
    decision = inquiry.decision
    if decision is not None and decision.limits and decision.input is None:
        return CardState.APPROVED
    return CardState(inquiry.state.value)


def elements(
    inquiry: Inquiry, reader: Reader, *, followed_by: int | None = None, waits: bool = False
) -> tuple[Element, ...]:
    """Everything to say about an inquiry that is no longer open.

    `waits`: what was approved does not begin before other steps of its turn are decided.
    """
    decision = inquiry.decision
    parts: list[Element] = [
        Outcome(state=state(inquiry), text=_sentence(inquiry, reader, followed_by, waits))
    ]
    if inquiry.run.state is Execution.UNKNOWN:
        text = wording.line(reader.lang, "outcome.unknown")
        parts.append(Outcome(state=CardState.UNKNOWN, text=text))
    if decision is not None:
        parts += _words(inquiry, decision, reader.lang)
    return (*parts, *_output(inquiry, reader.lang))


def is_news(inquiry: Inquiry) -> bool:
    """Whether somebody else waits to hear what became of a request: not if the asker decided it."""
    decision = inquiry.decision
    if inquiry.open or inquiry.state is InquiryState.WITHDRAWN:
        return False
    return decision is None or decision.by.key != inquiry.asked_by.key


def announcement(inquiry: Inquiry, reader: Reader, numbers: str = "") -> Card:
    """What was decided (not how it then ran), as a message of one line.

    `numbers` are those of all requests that were decided so in one go, if there are several.
    """
    several = "," in numbers or "-" in numbers
    who = wording.text(reader.lang, "announce", number=inquiry.number)
    if several:
        who = wording.text(reader.lang, "batch.announce", numbers=numbers)
    said = _sentence(
        inquiry.having(run=Run(state=Execution.UNKNOWN)), reader, None
    )  # says nothing of the run
    return Card(
        lang=reader.lang,
        state=CardState(inquiry.state.value),
        title=wording.joined([wording.as_line(who), said], wording.text(reader.lang, "label.colon")),
        task_id=inquiry.task_id,
    )


def _sentence(inquiry: Inquiry, reader: Reader, followed_by: int | None, waits: bool = False) -> Line:
    lang, decision = reader.lang, inquiry.decision
    if decision is None or inquiry.state in (InquiryState.EXPIRED, InquiryState.WITHDRAWN):
        until = reader.time(inquiry.expires_at)
        key = "expired" if inquiry.state is InquiryState.EXPIRED else "withdrawn"
        again = wording.line(lang, "outcome.asked_again", number=followed_by) if followed_by else ()
        return wording.joined([wording.line(lang, f"outcome.{key}", time=until), again], " ")
    decided = wording.line(
        lang,
        f"outcome.{_key(inquiry, decision)}",
        who=acting(decision.by, decision.acting_for, lang),
        reason=Theirs(raw=_short(decision.reason)),
        time=reader.time(decision.at),
        rule=Theirs(raw=decision.rule, code=True),
        workspace=Theirs(raw=inquiry.workspace),
        more=limits.allowed(inquiry, lang) if limits.is_limit(inquiry) else "",
        until=reader.time(decision.until) if decision.until else wording.as_line("?"),
    )
    if decision.limits:
        only = conditions.line(lang, decision.limits, reader.zone)
        decided = wording.line(lang, "outcome.limited", decided=decided, limits=only)
    return wording.joined([decided, *_run(inquiry, reader, waits)])


def _short(words: str) -> str:
    """Words on one line; what does not stand there whole stands below it."""
    line = " ".join(words.split())
    return line if len(line) <= ON_A_LINE else f"{line[:ON_A_LINE]} …"


def _key(inquiry: Inquiry, decision: Decision) -> str:
    if decision.break_glass:
        return "break_glass"
    if inquiry.state is InquiryState.REJECTED and inquiry.kind in (Kind.PLAN, Kind.LIMIT):
        return "plan_rejected"
    if limits.is_limit(inquiry):
        return "limit_more"
    if inquiry.state is InquiryState.APPROVED and decision.scope is not Scope.ONCE:
        if inquiry.kind is Kind.PLAN:
            return "plan_edits"
        return _REACH[decision.scope]
    if inquiry.state is InquiryState.CHANGED and decision.input is None:
        if decision.limits:
            return InquiryState.APPROVED.value
        return "step_conditions" if inquiry.run_allowed else "conditions"
    return inquiry.state.value


_REACH = {Scope.TASK: "always", Scope.RULE: "always_rule", Scope.UNTIL: "always_until"}


def _run(inquiry: Inquiry, reader: Reader, waits: bool) -> Iterator[Line]:
    """How the call went; nothing for what is no call and for what was not let run."""
    run, lang = inquiry.run, reader.lang
    if not is_call(inquiry) or not inquiry.run_allowed or run.state is Execution.UNKNOWN:
        return
    if run.state is Execution.NONE:
        yield wording.line(lang, _before_it_runs(inquiry, waits))
        return
    started = reader.time(run.started_at) if run.started_at else wording.as_line("?")
    if run.state is Execution.STARTED:
        yield wording.line(lang, "run.running", time=started)
    else:
        key = "run.failed" if run.failed else "run.ran"
        if run.started_at and run.finished_at:
            took = wording.duration(lang, run.finished_at - run.started_at)
            yield wording.line(lang, f"{key}_for", time=started, duration=took)
        else:
            yield wording.line(lang, key, time=started)
        code = _EXIT.match(run.output) if run.failed and inquiry.tool_name == "Bash" else None
        if code:
            yield wording.line(lang, "run.exit", code=code[1])
    if inquiry.effective_input != inquiry.tool_input:
        yield wording.line(lang, "run.as_changed")


def _before_it_runs(inquiry: Inquiry, waits: bool) -> str:
    """What is said of a call that may run and did not yet. `waits`: others of its turn are still open."""
    if inquiry.run.refused:
        return "run.refused"
    if inquiry.settled:
        return "run.not_run"
    if waits:
        return "batch.waits"
    return "run.starting" if inquiry.hold in (Hold.DEFERRED, Hold.LIVE) else "run.to_come"


def _words(inquiry: Inquiry, decision: Decision, lang: str) -> Iterator[Element]:
    """The person's own words, edits and answers."""
    if decision.input is not None and not limits.is_limit(inquiry):
        yield from diffs.of_inputs(lang, inquiry.tool_input, decision.input)
    if decision.conditions:
        yield Quote(label=wording.line(lang, "label.words"), text=Theirs(raw=decision.conditions))
    if decision.reason and not (decision.break_glass and decision.reason == _short(decision.reason)):
        key = "label.reason" if inquiry.state is InquiryState.REJECTED else "label.words"
        yield Quote(label=wording.line(lang, key), text=Theirs(raw=decision.reason))
    if decision.answers:
        yield from _answers(decision.answers, lang)
    if inquiry.run.refused and inquiry.run.state is Execution.NONE:
        label = wording.line(lang, "label.refused")
        yield Quote(label=label, text=Theirs(raw=inquiry.run.refused), small=True)


def _answers(answers: dict[str, str], lang: str) -> Iterator[Element]:
    for question, answer in answers.items():
        label = wording.line(lang, "answers.label", question=Theirs(raw=question))
        if "\n" in answer:
            yield Quote(label=label, text=Theirs(raw=answer))
        else:
            yield Fields(items=(Item(label=label, value=(Theirs(raw=answer),)),))


def _output(inquiry: Inquiry, lang: str) -> Iterator[Element]:
    output = inquiry.run.output
    if is_call(inquiry) and inquiry.run.state is Execution.FINISHED and output.strip():
        label = "label.output_cut" if len(output) >= OUTPUT_KEPT else "label.output"
        yield Code(label=wording.line(lang, label), text=Theirs(raw=output), folded=True)
