"""Where in a TOML file a key stands: `tomllib` tells what is in it, and not where."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Path: TypeAlias = tuple[str | int, ...]
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


def key_lines(text: str) -> dict[Path, int]:
    """Return the line, from 1, of each key and table of *text*, which is valid TOML."""
    return _Scan(text).lines


class _Scan:
    """A walk through valid TOML that leaves the *lines* of all keys."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text, self._at = text, 0
        self._sizes: dict[Path, int] = {}
        table: Path = ()
        while self._skip() < len(text):
            if self._sees("["):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        """Walk over `[a.b]` or `[[a.b]]`; return the path of the table that it opens."""
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        at = self._at
        path: Path = ()
        *above, last = self._keys()
        for key in above:
            self._note((*path, key), at)
            path = self._latest((*path, key))
        path = (*path, last)
        if many:
            self._note(path, at)
            self._sizes[path] = self._sizes.get(path, 0) + 1
        path = self._latest(path)
        self._note(path, at)
        self._at += 2 if many else 1
        return path

    def _latest(self, path: Path) -> Path:
        """Return the path of what `[[…]]` opened last, if *path* is an array of such tables."""
        size = self._sizes.get(path)
        return path if size is None else (*path, size - 1)

    def _pair(self, table: Path) -> None:
        at = self._at
        for key in self._keys():
            table = (*table, key)
            self._note(table, at)
        self._at += 1  # The "=".
        self._value(table)

    def _keys(self) -> list[str]:
        """Walk over a key, perhaps a dotted one; return its parts."""
        found = _KEY.match(self._text, self._at)
        assert found is not None  # noqa: S101 - for mypy: in valid TOML there is one
        self._at = found.end()
        # Who unquotes a key is the reader of TOML.
        rest: object = tomllib.loads(f"{found[0]} = 0")
        parts: list[str] = []
        while isinstance(rest, dict):
            ((key, rest),) = rest.items()
            parts.append(key)
        return parts

    def _value(self, path: Path) -> None:
        self._skip()
        if self._sees("{"):
            self._all_until("}", lambda _: self._pair(path))
        elif self._sees("["):
            self._all_until("]", lambda index: self._item((*path, index)))
        else:
            found = _STRING.match(self._text, self._at) or _PLAIN.match(self._text, self._at)
            assert found is not None  # noqa: S101 - for mypy: the second matches nothing, too
            self._at = found.end()

    def _item(self, path: Path) -> None:
        self._note(path, self._at)
        self._value(path)

    def _all_until(self, end: str, walk: Callable[[int], None]) -> None:
        """Walk over what stands between the bracket here and its *end*."""
        index = 0
        self._at += 1
        while self._skip() >= 0 and not self._sees(end):
            walk(index)
            index += 1
            self._skip()
            self._at += self._sees(",")
        self._at += 1

    def _skip(self) -> int:
        """Walk over blanks and comments; return where that ends."""
        found = _BLANK.match(self._text, self._at)
        self._at = self._at if found is None else found.end()
        return self._at

    def _sees(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at)

    def _note(self, path: Path, at: int) -> None:
        # A dotted key may add to a table; that one stands where it began.
        self.lines.setdefault(path, self._text.count("\n", 0, at) + 1)
