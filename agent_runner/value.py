"""The base of all stored values."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """Base of all stored values: immutable, and an unknown field is an error, not a surprise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def having(self, **changes: Any) -> Any:
        """A validated copy with these fields changed."""
        return type(self).model_validate({**dict(self), **changes})
