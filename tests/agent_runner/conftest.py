"""Desks: a store, a handler and turns with the real CLI, around a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_runner.messages_api import MessagesServer
from agent_runner.messages_request import Script
from tests.fakes.desk import Desk

NewDesk = Callable[..., Desk]


@pytest.fixture
def desk_with(redis_url: str, tmp_path: Path) -> Iterator[NewDesk]:
    """Makes the desk of a test around its scripted model."""
    with ExitStack() as stack:

        def make(script: Script, **options: Any) -> Desk:
            return Desk(redis_url, stack.enter_context(MessagesServer(script)), tmp_path, **options)

        yield make
