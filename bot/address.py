"""Where a running bot is, and the local person's token: what the other commands need to find it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_runner.errors import FixConfiguration


@dataclass(frozen=True)
class Address:
    """Where a running bot is: what `ask` and `decide` read from the state directory."""

    url: str
    token: str

    @property
    def link(self) -> str:
        """The page, signed in."""
        return f"{self.url}/login?token={self.token}"


def known_address(state_dir: Path) -> Address:
    """Where the bot of this state directory is; raises `FixConfiguration` if none was started."""
    try:
        url = (state_dir / "address").read_text().strip()
        token = (state_dir / "token").read_text().strip()
    except OSError:
        raise FixConfiguration(
            f"No bot was started with {state_dir}.",
            hint="Start one with `countersign up`, or give --url and --token.",
        ) from None
    return Address(url, token)
