"""Which store a command uses."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
from redis import Redis

from bot import settings
from bot.stores import store_of


def told(state_dir: Path, **environment: str) -> settings.Settings:
    """What a command in this state directory and environment was told."""
    path = os.environ.get("PATH", os.defpath)
    return settings.read(config_path=None, state_dir=state_dir, environment={"PATH": path, **environment})


def test_a_configured_address_is_used_as_it_is(tmp_path: Path) -> None:
    """With an address given no server is started and no directory made."""
    with store_of(told(tmp_path, REDIS_URL="redis://db.example:6379/3")) as url:
        assert url == "redis://db.example:6379/3"
    assert not (tmp_path / "redis").exists()


def test_without_an_address_a_server_lives_as_long_as_the_block(tmp_path: Path) -> None:
    """The address of a private server is given, and the server ends with the block."""
    with store_of(told(tmp_path)) as url, Redis.from_url(url) as client:
        pid = client.info()["process_id"]
    assert not psutil.pid_exists(pid)
