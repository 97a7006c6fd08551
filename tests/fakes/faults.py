"""Redis that breaks: a relay that cuts connections at a chosen command, and a server that hangs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bot.embedded import EmbeddedRedis


class Cutting:
    """Relays to a Redis socket. `cut` times it drops a client that sends `word`.

    `before` says when: True loses the request (Redis never sees it), False loses the reply (Redis
    has done it).
    """

    def __init__(self, upstream_url: str, folder: Path) -> None:
        self._upstream = unquote(urlsplit(upstream_url).path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path = folder / "relay.sock"
        self._listener.bind(str(path))
        self._listener.listen(32)
        self.url = f"unix://{path}?db=0"
        self.word = b"EXEC"
        self.cut = 0
        self.before = False
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Ends the relay; open connections end with their clients."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as redis:
            redis.connect(self._upstream)
            lost = threading.Event()
            back = threading.Thread(target=self._back, args=(redis, client, lost), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while data := client.recv(1 << 20):
                    if self.cut and self.word in data:
                        self.cut -= 1
                        lost.set()
                        if not self.before:
                            redis.sendall(data)
                            redis.shutdown(socket.SHUT_WR)
                            back.join(5)  # Redis has answered everything and closed
                        break
                    redis.sendall(data)
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
                redis.shutdown(socket.SHUT_RDWR)
            back.join(5)

    @staticmethod
    def _back(redis: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := redis.recv(1 << 20):
                if not lost.is_set():
                    client.sendall(data)


@contextlib.contextmanager
def cutting(upstream_url: str, folder: Path) -> Iterator[Cutting]:
    """A relay for the time of a test."""
    relay = Cutting(upstream_url, folder)
    try:
        yield relay
    finally:
        relay.close()


@contextlib.contextmanager
def private_redis() -> Iterator[EmbeddedRedis]:
    """A real server for one test alone, which may hang it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedRedis(Path(folder) / "redis", path=os.environ.get("PATH", os.defpath)) as server,
    ):
        yield server


@contextlib.contextmanager
def hung(server: EmbeddedRedis) -> Iterator[None]:
    """For this long the server is there and says nothing."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)
