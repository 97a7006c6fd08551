"""Names and types of a configuration file, checked by pydantic and told in our words."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agent_runner.config_report import Report, suggest
from agent_runner.toml_lines import Key

FILE_NAMES: Mapping[str, str] = {"routes": "route"}
"""Fields that the file spells differently (`[[policy.route]]`, one table each)."""

NOT_IN_FILE = frozenset({"source", "warnings", "accounts"})
"""Fields that are filled in, never written."""

_PLAIN = {
    "missing": "is missing",
    "string_type": 'must be a text in quotes, such as "ops"',
    "int_type": "must be a whole number, without quotes",
    "int_from_float": "must be a whole number, without quotes",
    "float_type": "must be a number, without quotes",
    "finite_number": "must be a number, without quotes",
    "bool_type": "must be true or false, without quotes",
    "tuple_type": 'must be a list, such as ["a", "b"]',
    "dict_type": "must be a table, with keys of its own",
    "model_type": "must be a table, with keys of its own",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}


def validate(data: Any, model: type[BaseModel], prefix: Key, report: Report) -> None:
    """Adds what pydantic finds wrong with `data` (as JSON, strictly) to the report."""
    try:
        model.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        for found in error.errors():
            key = prefix + tuple(FILE_NAMES.get(str(part), part) for part in found["loc"])
            if found["type"] != "too_short" or not report.knows(key):  # told better already
                report.add(key, _words(found, model))


def file_keys(model: type[BaseModel]) -> tuple[str, ...]:
    """A table's keys as the file spells them."""
    return tuple(FILE_NAMES.get(name, name) for name in model.model_fields if name not in NOT_IN_FILE)


def _words(found: ErrorDetails, model: type[BaseModel]) -> str:
    kind, context = found["type"], found.get("ctx", {})
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "extra_forbidden":
        parent = _model_at(model, found["loc"][:-1])
        return f"there is no such key; {suggest(str(found['loc'][-1]), file_keys(parent))}"
    if kind == "literal_error":
        return f"allowed are {context['expected']}"
    if kind == "value_error":
        return f"{found['input']!r} is {context['error']}"
    if kind == "string_pattern_mismatch":
        return f"{found['input']!r} is not of the allowed form {context['pattern']}"
    return found["msg"].replace("Input should be", "must be")


def _model_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that reads the table at a place of the data."""
    here = model
    for part in loc:
        field = here.model_fields.get(str(part))  # else a list's position or a free name: same model
        inner = next(_models_in(field.annotation), None) if field else None
        here = inner or here
    return here


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for arg in typing.get_args(annotation):
        yield from _models_in(arg)
