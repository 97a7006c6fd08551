"""The HTTP server, ended without waiting for pages that listen for changes."""

from __future__ import annotations

import socket

import uvicorn

from bot.web.events import Feed

GRACE = 5
"""Seconds that requests in flight get to end when the server stops."""


class WebServer(uvicorn.Server):
    """Uvicorn waits for open streams at shutdown, and theirs never end: they are ended first."""

    def __init__(self, config: uvicorn.Config, feed: Feed) -> None:
        super().__init__(config)
        self._feed = feed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the open streams, then shuts down as usual."""
        self._feed.close()
        await super().shutdown(sockets)
