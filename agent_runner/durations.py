"""Durations as people write them in a configuration file: `30m`, `8h`, `2d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = timedelta(days=366)


def parse_duration(value: Any) -> timedelta:
    """`30m` as a timedelta; raises `ValueError` with what is allowed. Longest: 366 days."""
    if isinstance(value, timedelta):
        return value
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", value) if isinstance(value, str) else None
    span = timedelta(seconds=int(found.group(1)) * _UNITS[found.group(2)]) if found else None
    if span is None or span > _LONGEST:
        raise ValueError('not a duration; write a number and s, m, h or d, such as "30m", "8h", "2d"')
    return span


def format_duration(span: timedelta) -> str:
    """The shortest spelling that `parse_duration` reads back as the same span of whole seconds."""
    seconds = int(span.total_seconds())
    unit = next(unit for unit in "dhms" if seconds % _UNITS[unit] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"


Duration = Annotated[
    timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration, return_type=str)
]
