"""Which store a command uses: the configured one, or the private one of its state directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from bot.embedded import EmbeddedRedis
from bot.settings import Settings


def private_store(settings: Settings) -> EmbeddedRedis:
    """The state directory's own store, not started yet."""
    folders = [Path(p) for p in [settings.environment.get("XDG_RUNTIME_DIR", "")] if p]
    path = settings.environment.get("PATH", os.defpath)
    return EmbeddedRedis(settings.state_dir / "redis", path=path, runtime_dirs=folders)


@contextlib.contextmanager
def store_of(settings: Settings) -> Iterator[str]:
    """The address of the store: the configured one, else the private one of the state directory."""
    if settings.redis_url:
        yield settings.redis_url
        return
    with private_store(settings) as server:
        yield server.url
