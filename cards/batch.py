"""Which requests are the steps of one turn and stand on one card, and by which letters.

All approvals of one batch are such steps if there are at least two; a question and a plan keep
their own card. Letters are given in the order of the numbers, and stay when steps are decided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agent_runner.model import Inquiry, InquiryState, Kind, Run

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""One for each step of a card; a step beyond them keeps a card of its own."""
_SEEN = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")

Steps = tuple[Inquiry, ...]


def units(inquiries: Iterable[Inquiry]) -> tuple[Steps, ...]:
    """Those that stand on one card together, in the order of their (lowest) numbers."""
    known = sorted(inquiries, key=lambda inquiry: inquiry.number)
    batches: dict[str, list[Inquiry]] = {}
    for inquiry in known:
        if inquiry.kind is Kind.APPROVAL:
            batches.setdefault(inquiry.batch, []).append(inquiry)
    out: list[Steps] = []
    for inquiry in known:
        batch = batches.get(inquiry.batch, []) if inquiry.kind is Kind.APPROVAL else []
        steps = batch[: len(LETTERS)]
        if len(steps) < 2 or all(step is not inquiry for step in steps):
            out.append((inquiry,))
        elif inquiry is steps[0]:
            out.append(tuple(steps))
    return tuple(out)


def steps_of(inquiry: Inquiry, inquiries: Iterable[Inquiry]) -> Steps:
    """All that stand on one card with this request (it alone, if it is no step of a batch)."""
    found = (unit for unit in units(inquiries) if any(step.id == inquiry.id for step in unit))
    return next(found, (inquiry,))


def lettered(steps: Sequence[Inquiry]) -> dict[str, Inquiry]:
    """The steps by their letters."""
    return dict(zip(LETTERS, steps, strict=False))


def ranges(numbers: Iterable[int]) -> str:
    """`#13-#15, #17`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"#{run[0]}" if len(run) == 1 else f"#{run[0]}-#{run[-1]}" for run in runs)


def seen(steps: Iterable[Inquiry]) -> str:
    """What a button about these shows: `13.1 14.2`, number and revision of each open step."""
    return " ".join(f"{step.number}.{step.revision}" for step in steps if step.open)


def read_seen(text: str) -> Mapping[int, int]:
    """The revisions by number in such a text; what is malformed was not seen."""
    found = (_SEEN.fullmatch(part) for part in text.split(" ")[: len(LETTERS)])
    return {int(match[1]): int(match[2]) for match in found if match}


def as_asked(step: Inquiry) -> Inquiry:
    """The step as it was when it was asked: whether its card fits must not change with what becomes of it."""
    pristine: Inquiry = step.having(state=InquiryState.PENDING, decision=None, votes=(), run=Run())
    return pristine
