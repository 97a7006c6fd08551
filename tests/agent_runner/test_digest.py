from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runner.digest import SHORT, canonical, digest

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1, 2]}, '{"a":[1,2],"b":1}'),
        ({"command": "echo 删除 \u202ex"}, '{"command":"echo 删除 \u202ex"}'),
        ({"text": 'a "b"\n'}, '{"text":"a \\"b\\"\\n"}'),
        ([True, None, 1.5, ""], '[true,null,1.5,""]'),
    ],
    ids=["keys sorted", "no escapes", "control characters", "scalars"],
)
def test_canonical_text(value: Any, text: str) -> None:
    """Sorted keys, no blanks, no ASCII escapes."""
    assert canonical(value) == text


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, {"a": [-math.inf]}, "\ud800", {"\udfff": 1}],
    ids=["nan", "infinity", "nested infinity", "lone surrogate", "surrogate key"],
)
def test_what_json_cannot_say_has_no_digest(value: Any) -> None:
    """Two different inputs must never share a text, so these have none."""
    with pytest.raises(ValueError):
        digest("Bash", {"value": value})


def test_the_digest_is_sha256_of_tool_and_input() -> None:
    """A golden value: what is on record today must be found again tomorrow."""
    expected = hashlib.sha256(b'{"tool_input":{"command":"ls"},"tool_name":"Bash"}').hexdigest()
    assert digest("Bash", {"command": "ls"}) == expected
    assert (expected[:SHORT], len(expected)) == ("ab6d6fc7", 64)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("Bash", {"command": "ls"}), ("Bash", {"command": "ls "})),
        (("Bash", {"command": "ls"}), ("BashOutput", {"command": "ls"})),
        (("Bash", {"n": 1}), ("Bash", {"n": "1"})),
        (("Bash", {"n": 1}), ("Bash", {"n": True})),
        (("Bash", {"n": None}), ("Bash", {})),
        (("Bash", {"c": "\u00e9"}), ("Bash", {"c": "e\u0301"})),
    ],
    ids=["blank", "tool", "number or text", "number or truth", "null or missing", "composed or not"],
)
def test_different_calls_have_different_digests(one: Any, other: Any) -> None:
    """What looks alike is not the same call."""
    assert digest(*one) != digest(*other)


@given(st.text(), st.dictionaries(st.text(), json_values, max_size=4), st.randoms())
def test_order_and_a_trip_through_json_change_nothing(name: str, call: dict[str, Any], random: Any) -> None:
    """The engine sends the input more than once, in whatever order of keys."""
    items = list(call.items())
    random.shuffle(items)
    assert digest(name, dict(items)) == digest(name, json.loads(json.dumps(call))) == digest(name, call)


@given(json_values)
def test_canonical_text_loses_nothing(value: Any) -> None:
    """So equal texts mean equal values."""
    assert json.loads(canonical(value)) == value
