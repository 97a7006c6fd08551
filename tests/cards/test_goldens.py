"""Every card, in every language, as the text and the HTML that people get."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_runner.model import InquiryState
from cards import text, web, wording
from cards.model import Card, Verb
from tests.cards.conftest import GOLDENS
from tests.cards.examples import CARDS


def _in_all(name: str, render: Callable[[Card], str]) -> str:
    return "".join(f"=== {lang} ===\n{render(CARDS[name](lang))}\n" for lang in wording.LANGUAGES)


@pytest.mark.parametrize("name", CARDS)
def test_text(name: str, golden: Callable[[str, str], None]) -> None:
    """The numbered list says exactly this."""
    golden(f"{name}.txt", _in_all(name, text.render))


@pytest.mark.parametrize("name", CARDS)
def test_web(name: str, golden: Callable[[str, str], None]) -> None:
    """The web page gets exactly this fragment."""
    golden(f"{name}.html", _in_all(name, web.render))


def test_no_golden_is_left_over() -> None:
    """Each golden file belongs to a card that still exists."""
    assert {path.stem for path in GOLDENS.iterdir()} == set(CARDS)


@pytest.mark.parametrize("name", CARDS)
def test_a_card_survives_storage(name: str) -> None:
    """A card that was stored as JSON is the same card, with the same fingerprint."""
    card = CARDS[name]("ja")
    again = Card.model_validate_json(card.model_dump_json())
    assert again == card
    assert again.fingerprint == card.fingerprint


def test_fingerprints_differ() -> None:
    """No two cards share a fingerprint, in no language."""
    cards = [make(lang) for make in CARDS.values() for lang in wording.LANGUAGES]
    assert len({card.fingerprint for card in cards}) == len(cards)


@pytest.mark.parametrize("name", CARDS)
def test_settled_cards_cannot_be_pressed(name: str) -> None:
    """A settled card has no verb left on it, and still shows everything else."""
    card = CARDS[name]("en").settled()
    assert "data-verb" not in web.render(card)
    assert card.title == CARDS[name]("en").title


def test_every_state_of_a_request_has_a_golden() -> None:
    """No state was forgotten above."""
    shown = {str(make("en").state) for make in CARDS.values()}
    assert shown >= {state.value for state in InquiryState} | {"unknown"}
    assert {Verb(v) for v in Verb if f'data-verb="{v}"' in _all_html()} == set(Verb)


def _all_html() -> str:
    return "".join(web.render(make("en")) for make in CARDS.values())


def test_no_words_of_ours() -> None:
    """People read `request #12`; they never read words that only this program uses."""
    for lang in wording.LANGUAGES:
        for sentence in wording.TABLES[lang].values():
            for word in ("inquiry", "deferred", "session", "tool_use", "digest"):
                assert word not in sentence.lower()
