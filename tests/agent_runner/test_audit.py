from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.audit import GENESIS, Entry, Event, Note, entry_hash, first_bad
from tests.fakes.values import LIN, at, sealed

NOTES = tuple(
    Note(event=event, at=at(second), task_id="t_1", inquiry_id="i_1", actor=LIN, words=f"word {second}")
    for second, event in enumerate([Event.INQUIRY_ASKED, Event.DECIDED, Event.DISPATCHED, Event.FINISHED])
)


def test_a_chain_links_each_entry_to_the_one_before() -> None:
    """Numbers count from one, the first follows the genesis value, each `prev` is the last `hash`."""
    chain = sealed(NOTES)
    assert [e.seq for e in chain] == [1, 2, 3, 4]
    assert [e.prev for e in chain] == [GENESIS, *(e.hash for e in chain[:-1])]
    assert [e.hash for e in chain] == [entry_hash(e) for e in chain]
    assert [Note(**e.model_dump(exclude={"seq", "prev", "hash"})) for e in chain] == list(NOTES)
    assert first_bad(chain) is None


def test_an_empty_chain_holds() -> None:
    """A task that did nothing has nothing wrong on record."""
    assert first_bad([]) is None


@pytest.mark.parametrize(
    ("tamper", "bad"),
    [
        (lambda c: [c[0], c[1].having(words="word 9"), *c[2:]], 2),
        (lambda c: [c[0], c[1].having(details={"verdict": "approve"}), *c[2:]], 2),
        (lambda c: [c[0], *c[2:]], 2),
        (lambda c: c[1:], 1),
        (lambda c: [c[0], c[2], c[1], c[3]], 2),
        (lambda c: [*c[:2], c[1], *c[2:]], 3),
        (lambda c: [*c, c[3].having(seq=5, prev=c[3].hash)], 5),
    ],
    ids=["words edited", "details edited", "removed", "first removed", "moved", "doubled", "forged end"],
)
def test_the_first_bad_entry_is_named(tamper: Any, bad: int) -> None:
    """Whatever was done to the record, the verifier says where it begins."""
    assert first_bad(tamper(list(sealed(NOTES)))) == bad


def test_an_edit_that_seals_itself_anew_breaks_the_next_link() -> None:
    """Recomputing the hash of an edited entry does not help whoever edited it."""
    chain = list(sealed(NOTES))
    edited = chain[1].having(words="word 9")
    chain[1] = edited.having(hash=entry_hash(edited))
    assert first_bad(chain) == 3


@given(
    st.lists(st.tuples(st.sampled_from(Event), st.text(), st.dictionaries(st.text(), st.text())), min_size=1),
    st.data(),
)
def test_any_change_to_any_field_is_found(rows: list[Any], data: st.DataObject) -> None:
    """Every field of every entry is covered, and entries survive their stored form."""
    notes = [Note(event=e, at=at(0), task_id="t", words=w, details=d) for e, w, d in rows]
    chain = [Entry.model_validate_json(e.model_dump_json()) for e in sealed(notes)]
    assert first_bad(chain) is None
    place = data.draw(st.integers(0, len(chain) - 1))
    name = data.draw(st.sampled_from(sorted(Entry.model_fields)))
    others: dict[str, Any] = {
        "event": next(e for e in Event if e is not chain[place].event),
        "at": at(1),
        "actor": LIN,
        "details": {**chain[place].details, "more": 1},
        "seq": chain[place].seq + 1,
    }
    changed = others.get(name, f"{getattr(chain[place], name)}x")
    chain[place] = chain[place].having(**{name: changed})
    assert first_bad(chain) == place + 1
