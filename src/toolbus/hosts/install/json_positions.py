"""Positions of the values in a JSON text, which may have both kinds of JavaScript comments.

The module `json` gives no positions. Settings of hosts are edited by position, so that the rest of
the text, with its comments and its layout, stays as a person wrote it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from toolbus.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")


class JsonNode(NamedTuple):
    """A value in a text, from *start* to *end*; *children* are those of an object or array.

    *value* is the decoded value; *keys* are the names of an object's children, each with its
    position; None unless it is an object.
    """

    start: int
    end: int
    value: Any
    children: tuple[JsonNode, ...] = ()
    keys: tuple[tuple[str, int], ...] | None = None

    def child(self, *path: str) -> JsonNode | None:
        """Return the descendant at *path*, a sequence of member names; None if it is missing."""
        node = self
        for name in path:
            names = [key for key, _ in node.keys or ()]
            if name not in names:
                return None
            node = node.children[names.index(name)]
        return node

    def child_start(self, index: int) -> int:
        """Return the start of the child *index*, including its name if it has one."""
        return self.keys[index][1] if self.keys is not None else self.children[index].start


def locate(file: Path, text: str) -> JsonNode:
    """Return the single value in *text* of *file*; raises `ConfigurationError` with the line.

    Duplicate names in an object and trailing commas are refused: hosts interpret them differently.
    """
    try:
        return _Locator(file, text).whole()
    except RecursionError:
        raise ConfigurationError("the JSON is nested too deeply to edit", str(file)) from None


def after_blanks(text: str, position: int) -> int:
    """Return the end of the blanks and comments at *position*."""
    match = _BLANK.match(text, position)
    return position if match is None else match.end()


class _Locator:
    """A recursive-descent parser of one text."""

    def __init__(self, file: Path, text: str) -> None:
        self._file, self._text, self._position = file, text, 0

    def whole(self) -> JsonNode:
        self._skip()
        node = self._value()
        self._skip()
        if self._position < len(self._text):
            raise self._broken("expected the end of the file")
        return node

    def _value(self) -> JsonNode:
        start = self._position
        if self._text.startswith(("{", "["), start):
            return self._container()
        match = _STRING.match(self._text, start) or _PLAIN.match(self._text, start)
        try:
            value = json.loads(match[0] if match else "")
        except ValueError:
            raise self._broken("expected a value") from None
        self._position += len(match[0]) if match else 0
        return JsonNode(start, self._position, value)

    def _container(self) -> JsonNode:
        start = self._position
        is_object = self._text[start] == "{"
        children: list[JsonNode] = []
        keys: list[tuple[str, int]] = []
        self._position += 1
        self._skip()
        while not self._text.startswith("}" if is_object else "]", self._position):
            if children:
                self._take(",")
            if is_object:
                keys.append(self._key())
            children.append(self._value())
            self._skip()
        self._position += 1
        values = [child.value for child in children]
        if not is_object:
            return JsonNode(start, self._position, values, tuple(children))
        names = [name for name, _ in keys]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise self._broken(f"duplicate name {twice!r} in an object")
        value = dict(zip(names, values, strict=True))
        return JsonNode(start, self._position, value, tuple(children), tuple(keys))

    def _key(self) -> tuple[str, int]:
        """Return the name of a member with its position, and move to its value."""
        start = self._position
        match = _STRING.match(self._text, start)
        if match is None:
            raise self._broken("expected a name in quotation marks")
        self._position = match.end()
        self._skip()
        self._take(":")
        return json.loads(match[0]), start

    def _take(self, sign: str) -> None:
        if not self._text.startswith(sign, self._position):
            raise self._broken(f"expected {sign!r}")
        self._position += 1
        self._skip()

    def _skip(self) -> None:
        self._position = after_blanks(self._text, self._position)

    def _broken(self, reason: str) -> ConfigurationError:
        line = self._text.count("\n", 0, self._position) + 1
        return ConfigurationError(f"invalid JSON: {reason}", str(self._file), line)
