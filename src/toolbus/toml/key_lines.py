"""The line of each key in a TOML file, which `tomllib` does not report."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys of tables and indices of arrays, from the root on."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_KEY = re.compile(r"""(?:[ \t.]|[A-Za-z0-9_-]|"(?:\\.|[^"\\])*"|'[^']*')+""")
_PLAIN = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each key and table of *text*, which is valid TOML."""
    return _KeyLocator(text).lines


class _KeyLocator:
    """A parser of valid TOML that records the *lines* of all keys."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._text, self._position = text, 0
        self._sizes: dict[KeyPath, int] = {}
        table: KeyPath = ()
        while self._skip() < len(text):
            if self._is_at("["):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> KeyPath:
        """Parse `[a.b]` or `[[a.b]]`; return the path of its table."""
        many = self._text.startswith("[[", self._position)
        self._position += 2 if many else 1
        start = self._position
        path: KeyPath = ()
        *tables, key = self._keys()
        for table in tables:
            self._note((*path, table), start)
            path = self._latest((*path, table))
        path = (*path, key)
        if many:
            self._note(path, start)
            self._sizes[path] = self._sizes.get(path, 0) + 1
        path = self._latest(path)
        self._note(path, start)
        self._position += 2 if many else 1
        return path

    def _latest(self, path: KeyPath) -> KeyPath:
        """Return the path of the last table of `[[…]]`, if *path* is an array of such tables."""
        size = self._sizes.get(path)
        return path if size is None else (*path, size - 1)

    def _pair(self, table: KeyPath) -> None:
        start = self._position
        for key in self._keys():
            table = (*table, key)
            self._note(table, start)
        self._position += 1  # The "=".
        self._value(table)

    def _keys(self) -> list[str]:
        """Parse a key, perhaps a dotted one; return its parts."""
        match = _KEY.match(self._text, self._position)
        assert match is not None  # noqa: S101 - for mypy: in valid TOML there is one
        self._position = match.end()
        # `tomllib` itself unquotes the key.
        remaining: object = tomllib.loads(f"{match[0]} = 0")
        parts: list[str] = []
        while isinstance(remaining, dict):
            ((key, remaining),) = remaining.items()
            parts.append(key)
        return parts

    def _value(self, path: KeyPath) -> None:
        self._skip()
        if self._is_at("{"):
            self._all_until("}", lambda _: self._pair(path))
        elif self._is_at("["):
            self._all_until("]", lambda index: self._item((*path, index)))
        else:
            rest = self._text, self._position
            match = _STRING.match(*rest) or _PLAIN.match(*rest)
            assert match is not None  # noqa: S101 - for mypy: the second also matches ""
            self._position = match.end()

    def _item(self, path: KeyPath) -> None:
        self._note(path, self._position)
        self._value(path)

    def _all_until(self, end: str, parse: Callable[[int], None]) -> None:
        """Parse the items between this bracket and its *end*."""
        index = 0
        self._position += 1
        while self._skip() >= 0 and not self._is_at(end):
            parse(index)
            index += 1
            self._skip()
            self._position += self._is_at(",")
        self._position += 1

    def _skip(self) -> int:
        """Skip blanks and comments; return the new position."""
        match = _BLANK.match(self._text, self._position)
        self._position = self._position if match is None else match.end()
        return self._position

    def _is_at(self, sign: str) -> bool:
        return self._text.startswith(sign, self._position)

    def _note(self, path: KeyPath, position: int) -> None:
        # A dotted key may add to a table, whose line is that of its beginning.
        self.lines.setdefault(path, self._text.count("\n", 0, position) + 1)
