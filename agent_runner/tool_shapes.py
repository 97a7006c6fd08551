"""What the fields of built-in tools take, as the pinned engine has them: an edit must fit, too.

The engine would refuse a call that does not fit only after people had approved it. A test compares
this table with what the engine offers to the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agent_runner.errors import Unfit

TEXT, NUMBER, WHOLE, TRUTH, TEXTS = "a text", "a number", "a whole number", "a yes or no", "a list of texts"

LARGEST = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exactly."""


class Shape(NamedTuple):
    """What one field takes. `choices`: the only values it can have."""

    takes: str
    required: bool = False
    choices: tuple[str, ...] = ()


_NEEDED = Shape(TEXT, required=True)

SHAPES: Mapping[str, Mapping[str, Shape]] = {
    "Bash": {
        "command": _NEEDED,
        "description": Shape(TEXT),
        "timeout": Shape(NUMBER),
        "dangerouslyDisableSandbox": Shape(TRUTH),
    },
    "Read": {
        "file_path": _NEEDED,
        "offset": Shape(WHOLE),
        "limit": Shape(WHOLE),
        "pages": Shape(TEXT),
        "allow_large": Shape(TRUTH),
    },
    "Write": {"file_path": _NEEDED, "content": _NEEDED},
    "Edit": {
        "file_path": _NEEDED,
        "old_string": _NEEDED,
        "new_string": _NEEDED,
        "replace_all": Shape(TRUTH),
    },
    "Glob": {"pattern": _NEEDED, "path": Shape(TEXT)},
    "Grep": {
        "pattern": _NEEDED,
        **{name: Shape(TEXT) for name in ("path", "glob", "type")},
        "output_mode": Shape(TEXT, choices=("content", "files_with_matches", "count")),
        **{name: Shape(NUMBER) for name in ("-A", "-B", "-C", "context", "head_limit", "offset")},
        **{name: Shape(TRUTH) for name in ("-n", "-i", "-o", "multiline")},
    },
    "NotebookEdit": {
        "notebook_path": _NEEDED,
        "new_source": _NEEDED,
        "cell_id": Shape(TEXT),
        "cell_type": Shape(TEXT, choices=("code", "markdown")),
        "edit_mode": Shape(TEXT, choices=("replace", "insert", "delete")),
    },
    "WebFetch": {"url": _NEEDED, "prompt": _NEEDED, "offset": Shape(WHOLE)},
    "WebSearch": {"query": _NEEDED, "allowed_domains": Shape(TEXTS), "blocked_domains": Shape(TEXTS)},
}
"""Tool -> its fields. Questions and plans are not edited; the tools of an MCP server are not known."""


def check(tool_name: str, before: Mapping[str, Any], edited: Mapping[str, Any]) -> None:
    """Raises `Unfit`, naming the field, unless the edited input has the shape that the tool takes.

    Of a tool that is not listed, and of a field that it is not known to have, the input itself
    says what it takes: types stay, and what is there stays.
    """
    shapes = SHAPES.get(tool_name)
    for name in dict.fromkeys([*before, *edited]):
        shape = shapes.get(name) if shapes else None
        if name not in edited:
            _check_missing(name, shape, before[name])
        elif shape is not None:
            _check_known(name, shape, edited[name])
        elif name in before:
            _check_kept(name, before[name], edited[name])
        elif shapes is not None:
            raise Unfit(
                f"{tool_name} has no field {name}.",
                why="field_unknown",
                hint=f"Its fields are: {', '.join(shapes)}.",
                field=name,
            )
        if name in edited and not all(abs(number) <= LARGEST for number in _numbers(edited[name])):
            raise Unfit(
                f"The number in field {name} is too large.",
                why="field_number",
                hint=f"Whole numbers up to {LARGEST} are kept exactly.",
                field=name,
            )


def _check_missing(name: str, shape: Shape | None, old: Any) -> None:
    if old is None or (shape is not None and not shape.required):
        return
    raise Unfit(
        f"Field {name} is missing.", why="field_missing", hint="Keep it, or reject the request.", field=name
    )


def _check_known(name: str, shape: Shape, new: Any) -> None:
    if not _fits(shape.takes, new):
        raise _other_kind(name, shape.takes, new)
    if shape.choices and new not in shape.choices:
        allowed = ", ".join(shape.choices)
        raise Unfit(
            f"Field {name} cannot be {new!r}.",
            why="field_choice",
            hint=f"It is one of: {allowed}.",
            field=name,
            allowed=allowed,
        )


def _check_kept(name: str, old: Any, new: Any) -> None:
    if kind_of(old) != kind_of(new):
        raise _other_kind(name, kind_of(old), new)


def _other_kind(name: str, takes: str, new: Any) -> Unfit:
    return Unfit(
        f"Field {name} must stay {takes}, not {kind_of(new)}.",
        why="field_type",
        hint="Keep each field's type.",
        field=name,
    )


def _fits(takes: str, value: Any) -> bool:
    if takes == WHOLE:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if takes == TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return kind_of(value) == takes


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    known = {str: TEXT, bool: TRUTH, dict: "an object", list: "a list", type(None): "null"}
    return known.get(type(value), NUMBER)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value
