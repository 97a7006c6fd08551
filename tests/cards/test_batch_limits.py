"""A batch within the limits of the chats: whole, with files if need be, or one card per step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runner.model import Inquiry
from cards import feishu, slack, wording
from cards.attach import Fitted
from cards.batch_card import batch_card
from cards.model import Actions, Card, Verb
from tests.cards.examples import NOW, ZONE, step
from tests.cards.test_feishu import problems
from tests.cards.test_slack import check

SAYS_YES = {Verb.APPROVE, Verb.CHANGE, Verb.ALWAYS, Verb.APPROVE_ALL}
HUGE = "echo " + "x" * 40_000 + "; rm -rf /"


def card_of(*steps: Inquiry, lang: str = "en") -> Card:
    """The card of these."""
    return batch_card(steps, lang=lang, zone=ZONE, now=NOW)


def verbs(card: Card) -> set[Verb]:
    """What can be pressed."""
    return {b.verb for e in card.elements if isinstance(e, Actions) for b in e.buttons}


def fitted(surface: Any, card: Card, *, uploaded: bool) -> Fitted:
    """The card as that chat takes it."""
    done: Fitted = surface.fit(card, uploaded=uploaded)
    assert surface.fits(done.card)
    return done


@pytest.mark.parametrize("surface", [slack, feishu])
@pytest.mark.parametrize("lang", wording.LANGUAGES)
def test_case_c01_a_huge_input_becomes_a_file_and_nothing_says_yes_before_it_is_there(
    surface: Any, lang: str
) -> None:
    """One step's text is a file; until it is there no step can be approved, and no one can type how."""
    card = card_of(step(0), step(1, given={"command": HUGE}), step(2), lang=lang)
    assert surface.holds(card)
    before, after = (fitted(surface, card, uploaded=uploaded) for uploaded in (False, True))
    assert [file.text.raw for file in after.files] == [HUGE]
    assert verbs(before.card) == {Verb.REJECT, Verb.REJECT_ALL}
    assert verbs(after.card) >= SAYS_YES
    assert "a1 " not in json.dumps(surface.render(before.card), ensure_ascii=False)


@pytest.mark.parametrize(("surface", "some"), [(slack, 6), (feishu, 7)])
def test_how_many_small_steps_fit(surface: Any, some: int) -> None:
    """An ordinary handful does; 26 do not, and then each has its own card."""
    assert surface.holds(card_of(*(step(n) for n in range(some))))
    assert not surface.holds(card_of(*(step(n) for n in range(26))))


def texts(drawn: Any) -> Iterator[str]:
    """Every text in it, in order: a long one is cut into pieces that follow one another."""
    if isinstance(drawn, str):
        yield drawn
    elif isinstance(drawn, dict):
        yield from texts([value for key, value in drawn.items() if key not in ("type", "tag", "style")])
    elif isinstance(drawn, list):
        for item in drawn:
            yield from texts(item)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 6_000), min_size=1, max_size=6), min_size=2, max_size=8))
def test_what_fits_is_whole_and_keeps_its_buttons(sizes: list[list[int]]) -> None:
    """On one card, every text is there to its end, on it or in a file, and each step can be pressed."""
    inputs = [
        {f"field{m}": f"{'word ' * (size // 5)}end-{n}-{m}." for m, size in enumerate(row)}
        for n, row in enumerate(sizes)
    ]
    card = card_of(*(step(n, "mcp__x__y", fields) for n, fields in enumerate(inputs)))
    for surface in (slack, feishu):
        if not surface.holds(card):
            continue
        done = fitted(surface, card, uploaded=True)
        drawn = surface.render(done.card)
        if surface is slack:
            check(drawn)
        else:
            assert problems(drawn) == []
        said = "".join((*texts(drawn), *(file.text.raw for file in done.files)))
        for n, fields in enumerate(inputs):
            assert f"{'abcdefgh'[n]} · #{20 + n}" in said
            assert all(f"end-{n}-{m}." in said for m in range(len(fields)))
        pressed = [b for e in done.card.elements if isinstance(e, Actions) for b in e.buttons]
        assert sum(b.verb is Verb.APPROVE for b in pressed) == len(inputs)
