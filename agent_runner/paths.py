"""Path rules: gitignore-like patterns, matched against both faces of a path.

A path has two faces: as it is written (`a/../secrets`, normalised) and as the disk resolves it
(symlinks followed). A rule that stops matches if **either** face does, a rule that allows only
if **both** do. Symlinks are read at the time of asking; a link that is changed afterwards is
beyond any rule.

Where a pattern is anchored, as in Claude Code:

| pattern | anchored at |
|---|---|
| `//etc/**` | the root of the file system |
| `~/notes/**` | the home directory |
| `/src/**`, `./src/**`, `src/**` | the workspace |
| `*.env` (no slash) | any directory below the workspace |

`/etc/**` looks absolute but is not. For a rule that stops, both readings count, so that nobody
is left unprotected by that mistake.
"""

from __future__ import annotations

import os
import posixpath
import re
from fnmatch import fnmatchcase
from itertools import takewhile

_GLOB = re.compile(r"[*?\[]")


def faces(path: str, cwd: str) -> tuple[str, ...]:
    """The absolute forms of a path: as written and normalised, and as the disk resolves it."""
    whole = os.path.join(cwd, os.path.expanduser(path))  # noqa: PTH111, PTH118  (must not normalise yet)
    written = posixpath.normpath(whole)
    try:
        real = os.path.realpath(whole)
        really = os.path.realpath(written)
    except (OSError, ValueError):
        return (written,)
    return tuple(dict.fromkeys((_one_slash(written), real, really)))


def matches(pattern: str, path: str, workspace: str, *, lenient: bool) -> bool:
    """Whether one face of a path matches; `lenient` adds the second reading of `/etc/**`."""
    for base, globs in _anchored(pattern, workspace, lenient):
        parts = _under(base, path)
        if parts is not None and _match(globs, parts):
            return True
    return False


def may_lie_below(pattern: str, directory: str, workspace: str) -> bool:
    """Whether something below `directory` (one face) could match a stopping pattern."""
    for base, globs in _anchored(pattern, workspace, lenient=True):
        fixed = list(takewhile(lambda glob: not _GLOB.search(glob), globs))
        root = "/".join([base.rstrip("/"), *fixed]) or "/"
        wild = len(fixed) < len(globs)
        if _under(directory, root) is not None or (wild and _under(root, directory) is not None):
            return True
    return False


def search_root(pattern: str) -> str | None:
    """The fixed directory in front of a glob's first wildcard; None if it may climb out again."""
    parts = pattern.split("/")
    fixed = 0
    while fixed < len(parts) and not re.search(r"[*?\[{]", parts[fixed]):
        fixed += 1
    if ".." in parts[fixed:] or any(".." in part and "{" in part for part in parts):
        return None
    return "/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else "")


def _one_slash(path: str) -> str:
    """POSIX leaves a leading `//` alone; on every system we run on it means `/`."""
    return "/" + path.lstrip("/") if path.startswith("//") else path


def _under(base: str, path: str) -> tuple[str, ...] | None:
    """The parts of `path` below `base`, or None if it is elsewhere."""
    base = base.rstrip("/")
    if path == base or (not base and path == "/"):
        return ()
    return tuple(path[len(base) + 1 :].split("/")) if path.startswith(base + "/") else None


def _anchored(pattern: str, workspace: str, lenient: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Pairs of directory and the globs below it."""
    if pattern.startswith("//"):
        return [("/", _globs(pattern[2:]))]
    if pattern.startswith("~/"):
        home = os.path.expanduser("~")  # noqa: PTH111  (Path.home() raises where this degrades)
        return [(face, _globs(pattern[2:])) for face in faces(home, "/")]
    body = pattern.removeprefix("./")
    anywhere = body == pattern and "/" not in body.rstrip("/")
    globs = ("**", *_globs(body)) if anywhere else _globs(body.removeprefix("/"))
    pairs = [(face, globs) for face in faces(workspace, "/")]
    if lenient and pattern.startswith("/"):
        pairs.append(("/", globs))
    return pairs


def _globs(body: str) -> tuple[str, ...]:
    return tuple(part for part in body.split("/") if part not in ("", "."))


def _match(globs: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Matches as gitignore does: `**` is any depth, and a matched directory covers all below it.

    Walks the set of positions in `globs` that are possible after each part, so it is linear
    in the path whatever the pattern.
    """
    positions = _skip({0}, globs)
    for part in parts:
        if len(globs) in positions:
            return True
        following = {at + 1 for at in positions if globs[at] != "**" and fnmatchcase(part, globs[at])}
        deep = {at for at in positions if globs[at] == "**"}
        following |= deep | {at + 1 for at in deep if at == len(globs) - 1}
        positions = _skip(following, globs)
    return len(globs) in positions


def _skip(positions: set[int], globs: tuple[str, ...]) -> set[int]:
    """`**` may also stand for nothing, except at the end, where it needs something to cover."""
    reached = set(positions)
    for at in sorted(positions):
        here = at
        while here < len(globs) - 1 and globs[here] == "**":
            here += 1
            reached.add(here)
    return reached
