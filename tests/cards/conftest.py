"""Whole outputs are compared with files; `pytest tests/cards --regen` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDENS = Path(__file__).parent / "goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--regen`, which is there when this directory is named on the command line."""
    parser.addoption("--regen", action="store_true", help="write the golden files from what is rendered now")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a whole output with the golden file of that name."""

    def check(name: str, output: str) -> None:
        path = GOLDENS / name
        if request.config.getoption("--regen", default=False):
            path.write_text(output, encoding="utf-8")
        assert output == path.read_text(encoding="utf-8")

    return check
