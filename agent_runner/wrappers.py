"""Programs that run other programs, and where in their arguments the other program stands.

Used to find what a deny or ask rule must see, so every doubt adds a candidate: an option is
read both with and without a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

Words = tuple[str, ...]

WRAPPERS: Mapping[str, int] = {
    "builtin": 0,
    "busybox": 0,
    "caffeinate": 0,
    "chroot": 1,
    "chrt": 1,
    "command": 0,
    "coproc": 1,
    "doas": 0,
    "env": 0,
    "exec": 0,
    "fakeroot": 0,
    "firejail": 0,
    "flock": 1,
    "ionice": 0,
    "ltrace": 0,
    "nice": 0,
    "nohup": 0,
    "nsenter": 0,
    "parallel": 0,
    "pkexec": 0,
    "proxychains": 0,
    "runuser": 1,
    "setarch": 1,
    "setpriv": 0,
    "setsid": 0,
    "ssh": 1,
    "stdbuf": 0,
    "strace": 0,
    "su": 1,
    "sudo": 0,
    "systemd-run": 0,
    "taskset": 1,
    "time": 0,
    "timeout": 1,
    "torsocks": 0,
    "toybox": 0,
    "unbuffer": 0,
    "unshare": 0,
    "watch": 0,
    "xargs": 0,
    "xvfb-run": 0,
}
"""Name -> how many plain arguments may stand before the inner command (`timeout 5 cmd`)."""

RESERVED = frozenset(
    (
        *("if", "then", "elif", "else", "fi", "for", "select", "while", "until", "do", "done"),
        *("case", "esac", "in", "function", "coproc", "{", "}", "!", "[["),
    )
)
"""Words of the shell's own grammar. As a command's name they mean that the parser lost its way
(`! if ls; then rm x; fi` is a command `if` to it)."""

_TEXT_AFTER_C = frozenset(
    (
        "ash",
        "bash",
        "csh",
        "dash",
        "fish",
        "flock",
        "ksh",
        "mksh",
        "runuser",
        "script",
        "sh",
        "su",
        "tcsh",
        "zsh",
    )
)
"""Programs that run an argument as shell text after `-c`."""

_READERS = _TEXT_AFTER_C - {"flock"}
"""Those of them that, without `-c`, take what they run from a pipe or a file."""

_TEXT_ALWAYS = frozenset({"eval", "parallel", "ssh", "trap", "watch"})
"""Programs that run their arguments, joined, as shell text."""

_SHELLS = _READERS - {"runuser", "script", "su"}

_FIND = frozenset({"-exec", "-execdir", "-ok", "-okdir"})

_FIND_WITH_EFFECT = _FIND | {"-delete", "-fls", "-fprint", "-fprint0", "-fprintf"}

TRANSPARENT: Mapping[str, re.Pattern[str]] = {
    "nohup": re.compile(r""),
    "time": re.compile(r""),
    "timeout": re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?"),
}
"""Wrappers that change nothing about a command but its time, and what must stand before it."""


def name_of(words: Words) -> str:
    """The program, without its directory: `/usr/bin/sudo` is `sudo`."""
    return words[0].rsplit("/", 1)[-1] if words else ""


def to_be_spelled(words: Words) -> int | None:
    """How many leading words an allow rule must spell out before its first wildcard.

    0 for an ordinary command. For a wrapper everything up to and including the inner
    program, so that a wildcard never chooses what runs (`sudo systemctl status *` is a rule,
    `sudo *` is none). None where only the exact text will do: shell text, `find -exec`.
    """
    name = name_of(words)
    if name in _SHELLS and len(words) > 1 and not words[1].startswith(("-", "+")):
        return 2
    if name in _TEXT_AFTER_C or name in _TEXT_ALWAYS:
        return None
    if name == "find" and any(word in _FIND_WITH_EFFECT for word in words):
        return None
    if name not in WRAPPERS:
        return 0
    at = max(starts(words, positionals=WRAPPERS[name]), default=len(words))
    inner = to_be_spelled(words[at:])
    return None if inner is None else at + max(1, inner)


def looked_through(words: Words) -> Words | None:
    """The inner command of a wrapper that changes nothing but the time it takes."""
    name = name_of(words)
    if name not in TRANSPARENT:
        return None
    at = 2 if name == "timeout" else 1
    if (
        len(words) <= at
        or words[at].startswith("-")
        or not TRANSPARENT[name].fullmatch(" ".join(words[1:at]))
    ):
        return None
    return words[at:]


def starts(words: Words, *, positionals: int = 0, limit: int = 64) -> list[int]:
    """Indexes at which the command behind options, assignments and plain arguments may start."""
    reached = {(1, positionals)}
    todo = [(1, positionals)]
    while todo:
        at, left = todo.pop()
        if at >= min(len(words), limit):
            continue
        if words[at].startswith("-"):
            steps = [(at + 1, left), (at + 2, left)]
        elif re.match(r"[A-Za-z_]\w*=", words[at]):
            steps = [(at + 1, left)]
        else:
            steps = [(at + 1, left - 1)] if left else []
        fresh = [step for step in steps if step not in reached]
        reached.update(fresh)
        todo.extend(fresh)
    return sorted({at for at, _ in reached if at < len(words)})


def inner_commands(name: str, words: Words) -> Iterator[Words]:
    """The commands that `words` may run."""
    if name in RESERVED:
        yield words[1:]
    if name in WRAPPERS:
        for at in starts(words, positionals=WRAPPERS[name]):
            yield words[at:]
    if name == "find":
        for at, word in enumerate(words[:-1]):
            if word in _FIND:
                yield words[at + 1 :]


def inner_scripts(name: str, words: Words) -> Iterator[str]:
    """The shell texts that `words` may run."""
    if name in _TEXT_ALWAYS:
        for at in starts(words, positionals=WRAPPERS.get(name, 0)):
            yield " ".join(words[at:])
        yield from words[1:]
    if name in _TEXT_AFTER_C:
        yield from _after_option("c", "--command", words)
    if name == "env":
        yield from _after_option("S", "--split-string", words)


def hides(name: str, words: Words) -> bool:
    """Whether what runs may come from where it cannot be seen: a pipe, a file, a misread construct."""
    if name in RESERVED or name in ("xargs", "parallel", "source", ".", "alias"):
        return True
    return name in _READERS and not any(True for _ in _after_option("c", "--command", words))


def _after_option(letter: str, long: str, words: Words) -> Iterator[str]:
    """What stands behind an option, attached (`-cls`, `--command=ls`) or as any later word.

    Letters may be bundled (`-lc`), and options with values may follow before the text does, so
    every later word is a candidate.
    """
    seen = False
    for word in words[1:]:
        if word.startswith("--"):
            option, _, attached = word.partition("=")
            hit = option == long
        else:
            option, found, attached = word.partition(letter)
            hit = bool(found) and word.startswith("-")
        seen |= hit
        if hit and attached:
            yield attached
        elif seen and not hit:
            yield word
