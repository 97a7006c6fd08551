"""On which line a key of a TOML text stands: `tomllib` reads values but forgets where they were.

A scanner for texts that `tomllib` has accepted, so it need not check anything and never raises:
what it does not recognise has the line of the table around it.
"""

from __future__ import annotations

import re

Key = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")
_QUOTES = ('"""', "'''", '"', "'")


class Lines:
    """The lines of a text's keys: `lines.of(("policy", "allow", 2))` is that of the third rule."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._line = 1
        self._known: dict[Key, int] = {}
        self._tables: dict[Key, int] = {}
        self._scan()

    def of(self, key: Key) -> int:
        """The line of the key, or of the nearest table around it, or 1."""
        for end in range(len(key), 0, -1):
            if key[:end] in self._known:
                return self._known[key[:end]]
        return 1

    def _scan(self) -> None:
        table: Key = ()
        while self._skip():
            before = self._at
            if self._take("[["):
                table = self._array_table(self._key())
                self._rest_of_line()
            elif self._take("["):
                table = self._inside(self._key())
                self._remember(table)
                self._rest_of_line()
            else:
                self._pair(table)
            if self._at == before:
                self._rest_of_line()

    def _pair(self, table: Key) -> None:
        line = self._line
        key = table + self._key()
        for end in range(len(table) + 1, len(key) + 1):
            self._known.setdefault(key[:end], line)
        self._skip()
        if self._take("="):
            self._value(key)

    def _value(self, key: Key) -> None:
        self._skip()
        if self._take("["):
            self._items(key)
        elif self._take("{"):
            while self._skip() and not self._take("}"):
                before = self._at
                self._pair(key)
                self._skip()
                self._take(",")
                if self._at == before:
                    return
        elif self._string() is None and (found := _SCALAR.match(self._text, self._at)):
            self._forward(found.end())

    def _items(self, key: Key) -> None:
        index = 0
        while self._skip() and not self._take("]"):
            before = self._at
            self._remember((*key, index))
            self._value((*key, index))
            self._skip()
            self._take(",")
            index += 1
            if self._at == before:
                return

    def _key(self) -> Key:
        parts: list[str | int] = []
        while self._skip():
            found = _BARE.match(self._text, self._at)
            if found:
                parts.append(found.group())
                self._forward(found.end())
            else:
                quoted = self._string()
                if quoted is None:
                    break
                parts.append(quoted)
            self._skip()
            if not self._take("."):
                break
        return tuple(parts)

    def _string(self) -> str | None:
        quote = next((q for q in _QUOTES if self._text.startswith(q, self._at)), None)
        if quote is None:
            return None
        start = end = self._at + len(quote)
        while end < len(self._text) and not self._text.startswith(quote, end):
            end += 2 if quote[0] == '"' and self._text[end] == "\\" else 1
        while len(quote) == 3 and self._text.startswith(quote[0], end + 3):
            end += 1  # a multi-line string may end in up to two quotes of its own
        self._forward(min(end + len(quote), len(self._text)))
        return self._text[start:end]

    def _array_table(self, key: Key) -> Key:
        key = self._inside(key)
        self._tables[key] = self._tables.get(key, -1) + 1
        self._known.setdefault(key, self._line)
        table = (*key, self._tables[key])
        self._remember(table)
        return table

    def _inside(self, key: Key) -> Key:
        """`[a.b]` below `[[a]]` belongs to the last element of `a`."""
        full: Key = ()
        for part in key[:-1]:
            full = (*full, part)
            if full in self._tables:
                full = (*full, self._tables[full])
        return (*full, *key[-1:])

    def _remember(self, key: Key) -> None:
        self._known.setdefault(key, self._line)

    def _skip(self) -> bool:
        """Moves past white space and comments; whether anything is left."""
        while self._at < len(self._text):
            if self._text[self._at] == "#":
                self._rest_of_line()
            elif self._text[self._at].isspace():
                self._forward(self._at + 1)
            else:
                return True
        return False

    def _rest_of_line(self) -> None:
        end = self._text.find("\n", self._at)
        self._forward(len(self._text) if end < 0 else end + 1)

    def _take(self, token: str) -> bool:
        if not self._text.startswith(token, self._at):
            return False
        self._forward(self._at + len(token))
        return True

    def _forward(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to
