"""`countersign away` and `countersign back`: for whoever runs the bot."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bot.cli import main

CONFIG = """
[people.lin]
web = "lin"
display = "Lin"
[people.mei]
web = "mei"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with two people."""
    file = tmp_path / "c.toml"
    file.write_text(CONFIG)
    return file


def run(config: Path, redis_url: str, *words: str) -> Result:
    """Runs a command on the store of the test."""
    where = ["--config", str(config), "--state-dir", str(config.parent / "state")]
    return CliRunner().invoke(main, [words[0], *where, *words[1:]], env={"REDIS_URL": redis_url})


def test_somebody_is_away_listed_and_back(config: Path, redis_url: str) -> None:
    """Entered for them, shown with all others, ended again."""
    gone = run(config, redis_url, "away", "lin", "--until", "2027-02-05 18:00", "--to", "mei")
    assert (gone.exit_code, gone.stdout) == (
        0,
        "Lin is away until 2027-02-05 18:00. Until then mei decides in their place.\n",
    )
    listed = run(config, redis_url, "away")
    assert (listed.exit_code, listed.stdout) == (0, "lin  until 2027-02-05 18:00  -> mei\n")
    back = run(config, redis_url, "back", "lin")
    assert (back.exit_code, back.stdout) == (0, "Lin is back and decides again.\n")
    assert run(config, redis_url, "away").stdout == "Nobody is away.\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("away", "lin", "--until", "3d"), "Say until when, and who decides meanwhile"),
        (("away", "--until", "3d", "--to", "mei"), "Say who is away"),
        (("away", "kai", "--until", "3d", "--to", "mei"), "Nobody called kai is listed"),
        (("away", "lin", "--until", "soon", "--to", "mei"), "Not certain when soon is."),
        (("away", "lin", "--until", "3d", "--to", "lin"), "nobody stands in for themselves"),
        (("back", "lin"), "Lin is not away."),
        (("back", "kai"), "Nobody called kai is listed"),
    ],
)
def test_what_cannot_be_is_told(config: Path, redis_url: str, words: tuple[str, ...], told: str) -> None:
    """On stderr, with exit code 2, and nothing is entered."""
    wrong = run(config, redis_url, *words)
    assert wrong.exit_code == 2
    assert told in wrong.stderr
    assert run(config, redis_url, "away").stdout == "Nobody is away.\n"
