"""What the README and the example file say works as they say it."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from agent_runner import config
from bot.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readmes_configuration_loads_without_a_warning() -> None:
    """The example in the README is one that is accepted, and means what it says."""
    block = re.search(r"```toml\n(.*?)```", README, re.DOTALL)
    assert block is not None
    loaded = config.load(None, text=block.group(1))
    assert (loaded.warnings, loaded.policy.routes[0].quorum, sorted(loaded.people)) == ((), 1, ["kai", "lin"])


def test_the_example_file_loads_without_a_warning() -> None:
    """`countersign.toml.example` can be copied and used."""
    assert config.load(ROOT / "countersign.toml.example").warnings == ()


def test_every_command_the_readme_names_exists() -> None:
    """Each `countersign COMMAND` in the README has a help page."""
    named = set(re.findall(r"`(?:\.venv/bin/)?countersign ([a-z]+)", README))
    assert named >= {"up", "ask", "decide", "doctor", "token", "runner", "bot"}
    for command in named:
        assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0, command


def test_the_pictures_are_there() -> None:
    """Every picture the README shows is in the repository."""
    for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / name).is_file(), name
