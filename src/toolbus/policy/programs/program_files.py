"""The TOML files of programs, indexed by table; each table is parsed when needed."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolbus.errors import ConfigurationError
from toolbus.policy.programs.command_spec import CommandData, CommandSpec, is_glob
from toolbus.policy.rules.table_reader import TableReader
from toolbus.toml.files import decode_text, locate_keys, parse_toml, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FOLDER = Path(__file__).parent
_LIMIT = 4_000_000
# A table's first key. No line inside an array begins so: a test compares with a full parse.
_HEADING = re.compile(r'\[{1,2}(?:"([^"\n]+)"|([^\s"\].]+))([.\]])')
_NAMES = re.compile(r"^(aliases|also)\s*=\s*(\[.*?\])\s*$", re.MULTILINE | re.DOTALL)


class Programs:
    """The known programs: the shipped tables, and *files* of the user.

    A table in a later file replaces an earlier table of the same name. *files* are validated;
    raises `ConfigurationError` with file and line.
    """

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._sources: dict[str, list[str | dict[str, Any]]] = {}
        self._tables: dict[str, str] = {}
        self._specs: dict[str, CommandSpec] = {}
        self.file_tables: list[dict[str, dict[str, Any]]] = []
        """The tables of the user's files, in order."""
        for file in sorted(_FOLDER.glob("[a-z]*.toml")):
            self._index(file.read_text("utf-8"))
        for file in files:
            text = decode_text(file, read_bytes(file, _LIMIT))
            _check(file, text)
            self.file_tables.append(parse_toml(file, text))
            self._add(self.file_tables[-1])
        self._globs = [name for name in self._tables if is_glob(name)]

    def names(self) -> list[str]:
        """Return the names of all known programs, without aliases."""
        return sorted(self._sources)

    def find(self, name: str) -> tuple[str, CommandSpec] | None:
        """Return the canonical name and spec of the program *name*, None if unknown."""
        matched = name
        if name not in self._sources and name not in self._tables:
            matched = next((glob for glob in self._globs if fnmatchcase(name, glob)), "")
        table = matched if matched in self._sources else self._tables.get(matched)
        if table is None:
            return None
        spec = self._specs.get(table)
        if spec is None:
            spec = self._specs[table] = CommandSpec(self._read(table))
        return (name if matched in spec.data.also else table), spec

    def _index(self, text: str) -> None:
        starts = list(_headings(text))
        ends = [start for start, _, _ in starts[1:]] + [len(text)]
        pieces: dict[str, list[str]] = {}
        for (start, name, closing), end in zip(starts, ends, strict=True):
            section = text[start:end]
            pieces.setdefault(name, []).append(section)
            for names in _NAMES.finditer(section) if closing == "]" else ():
                others = json.loads(re.sub(r",\s*\]$", "]", names[2]))
                self._tables.update(dict.fromkeys(others, name))
        for name, tables in pieces.items():
            self._sources.setdefault(name, []).append("".join(tables))

    def _add(self, tables: dict[str, dict[str, Any]]) -> None:
        """Add the tables of a user's file, in any TOML layout."""
        for name, table in tables.items():
            self._sources.setdefault(name, []).append(table)
            for key in ("aliases", "also"):
                self._tables.update(dict.fromkeys(table.get(key, ()), name))

    def _read(self, name: str) -> CommandData:
        merged: dict[str, Any] = {}
        for source in self._sources[name]:
            table = parse_toml(Path(name), source)[name] if isinstance(source, str) else source
            merged = _merge(merged, table)
        try:
            return msgspec.convert(merged, CommandData)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{name}: {error}", name) from None


def _headings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the start of each table, its first key, and the next character: ``.`` or ``]``."""
    # `str.find` first: searching with the expression takes ten times as long.
    position = 0 if text.startswith("[") else text.find("\n[") + 1
    while position > 0 or text.startswith("[", position):
        if match := _HEADING.match(text, position):
            yield match.start(), match[1] or match[2], match[3]
        position = text.find("\n[", position) + 1
        if not position:
            return


@cache
def shipped_programs() -> Programs:
    """Return the shipped programs only."""
    return Programs()


def _merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the table *new*, with missing subcommands added from *old*."""
    commands = dict(old.get("commands", {}))
    for name, command in new.get("commands", {}).items():
        commands[name] = _merge(commands.get(name, {}), command)
    base = new if new.keys() - {"commands"} else old
    return {**base, "commands": commands}


def _check(file: Path, text: str) -> None:
    """Raise `ConfigurationError`, with the line, for a table of *text* that breaks the schema."""
    reader = TableReader()
    for name, table in parse_toml(file, text).items():
        reader.read(table, CommandData, name)
    for mistake in reader.mistakes[:1]:
        lines, path = locate_keys(file, text), mistake.path
        starts = (path[:end] for end in range(len(path), 0, -1))
        line = next(lines[start] for start in starts if start in lines)
        reason = f"{'.'.join(map(str, path))}: {mistake.reason}"
        raise ConfigurationError(reason, str(file), line)


@cache
def language_words(language: str, key: str) -> frozenset[str]:
    """Return the words for *language* under *key* in `_languages.toml`."""
    return frozenset(_languages()[language][key])


@cache
def _languages() -> dict[str, dict[str, Any]]:
    return tomllib.loads((_FOLDER / "_languages.toml").read_text("utf-8"))
