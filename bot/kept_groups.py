"""Approver groups that a chat product keeps: read again and again, and believed for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agent_runner.registers import Registers

log = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between two readings; memberships are believed for 15 minutes (`registers.GROUP_SECONDS`)."""

Members = Callable[[str], Awaitable[Sequence[str]]]
"""A group's id over there -> the accounts in it."""


async def keep_reading(
    platform: str, groups: Mapping[str, str], members: Members, registers: Registers
) -> None:
    """Reads who is in each group until cancelled; one that cannot be read is soon believed no longer."""
    while groups:
        for name, group in groups.items():
            try:
                accounts = list(await members(group))
                await asyncio.to_thread(registers.keep_group, platform, name, accounts)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is tried again)
                log.warning("the %s group %s (%s) could not be read: %s", platform, name, group, error)
        await asyncio.sleep(EVERY)
