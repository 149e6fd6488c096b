"""Words of the languages that the readers here know, from `_languages.toml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

_FILE = Path(__file__).parents[1] / "_languages.toml"


class FindWords(Struct, frozen=True, forbid_unknown_fields=True):
    """Primaries of find: those without and with an argument that only test or print."""

    source: str
    leading: frozenset[str]
    plain: frozenset[str]
    valued: frozenset[str]
    writes: frozenset[str]
    runs: frozenset[str]
    branches: frozenset[str]


class SqlWords(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of SQL: with which a statement that only reads begins, and which it may not have."""

    source: str
    first: frozenset[str]
    changing: frozenset[str]
    functions: frozenset[str]
    pragmas: frozenset[str]
    sqlite_commands: frozenset[str]
    psql_commands: frozenset[str]


class GitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of git that change how it prints or works: globs, and keys with their values.

    Those that are *stored* are harmless in a repository's file, and may not come with a command.
    """

    source: str
    harmless: tuple[str, ...]
    stored: tuple[str, ...]
    values: dict[str, tuple[str, ...]]


class LanguageData(Struct, frozen=True, forbid_unknown_fields=True):
    """All of the file."""

    ftp_queries: frozenset[str]
    only_read: frozenset[str]
    find: FindWords
    sql: SqlWords
    git_settings: GitSettings


@cache
def language_data() -> LanguageData:
    """Return the words, which are read once."""
    return msgspec.toml.decode(_FILE.read_bytes(), type=LanguageData)
