"""The rules that find credentials: the published set, ours, and a user's own.

Ours, in `builtin.toml`, are formats missing from the published set, and the forms of assignments
of secrets. Each was added because examples of the development half were missed without it; the
table of `benchmarks/bench_redaction.py` shows the gain of each group.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from toolbus.errors import RegistrationError
from toolbus.redaction.secrets.names import NameKind
from toolbus.settings.hints import hint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_PUBLISHED, _BUILTIN = (Path(__file__).with_name(name) for name in ("rules.json", "builtin.toml"))
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
_PATTERNS = {"pattern", "behind", "before", "opener", "closer"}
_FRAGMENT = re.compile(r"\{([A-Z_]+)\}")

Reader = Literal["assigned", "insert", "copy"]
T = TypeVar("T")


class Rule(Struct, frozen=True):
    """A *pattern* in RE2's syntax; the group `value` is the secret.

    Without that group the secret is the first other group that is not empty. A *loose* rule matches
    the context of a value, so the value is judged more strictly, and only *assumed* to be a secret.
    A group `name` of the pattern is the name that the value is assigned to, or its end from a
    telling word on: `names` judges it, so the pattern may be broad. Without a name the value has
    the rule's *kind*. With a *reader*, one of `READERS`, the values are behind the match. A *keyed*
    rule matches a vendor's name and a strict form, so its value is a known secret if any of it
    looks random. A *foreign* rule is a user's.

    Every match contains one of the *keywords*, lower case here, in any case there: a text with none
    of them is not searched. A rule without keywords is always searched. Where the keywords are
    common or unknown, *gates* exclude more texts: each match contains a match of one of them.
    """

    name: str
    pattern: str
    loose: bool = False
    kind: NameKind | None = None
    reader: Reader | None = None
    keyed: bool = False
    keywords: tuple[str, ...] = ()
    foreign: bool = False
    gates: tuple[str, ...] = ()


class BuiltinRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A built-in rule, with a line about its *finds*, and the *source* of the format."""

    finds: str
    source: str = ""


class NamedShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The form *behind* the name of a secret: the first group that matched is the value.

    Optional are the beginning of the *name*, and the text *before* it, both in Python's syntax.
    """

    finds: str
    behind: str
    name: str = ""
    before: str = ""
    source: str = ""


class _PublishedFile(Struct):
    source: dict[str, str]
    rules: tuple[Rule, ...]


class HeldBlock(Struct, frozen=True, forbid_unknown_fields=True):
    """Several lines from a match of *opener* to a match of *closer*, or at most *lines* lines."""

    finds: str
    opener: str
    closer: str
    lines: int | None = None


class OpenEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a text in which a block is open."""

    finds: str
    pattern: str
    source: str = ""


class BuiltinFile(NamedTuple):
    """The contents of `builtin.toml`, with fragments filled in."""

    fragments: dict[str, str]
    rules: tuple[BuiltinRule, ...]
    shapes: tuple[NamedShape, ...]
    blocks: tuple[HeldBlock, ...]
    open_ends: tuple[OpenEnd, ...]


@cache
def published() -> tuple[Rule, ...]:
    """Return the published rules; `rules.NOTICE` beside this file names their source."""
    return msgspec.json.decode(_PUBLISHED.read_bytes(), type=_PublishedFile).rules


def builtin() -> tuple[BuiltinRule, ...]:
    """Return our rules, for formats missing from the published ones."""
    return builtin_file().rules


def rule_read_by(reader: Reader) -> BuiltinRule:
    """Return our rule whose values *reader* reads."""
    return next(rule for rule in builtin() if rule.reader == reader)


@cache
def builtin_file() -> BuiltinFile:
    """Return the contents of `builtin.toml`."""
    return read_builtin(_BUILTIN.read_text("utf-8"))


def read_builtin(text: str) -> BuiltinFile:
    """Return the contents of *text*, in the form of `builtin.toml`.

    Raises `ValueError`, which names the record.
    """
    raw = tomllib.loads(text)
    fragments: dict[str, str] = {}
    # Each fragment may use the ones above it.
    for name, value in raw["fragments"].items():
        fragments[name] = _filled(value if isinstance(value, str) else "|".join(value), fragments)
    return BuiltinFile(
        fragments,
        tuple([_record(record, BuiltinRule, fragments) for record in raw["rules"]]),
        tuple([_record(record, NamedShape, fragments) for record in raw.get("shapes", ())]),
        tuple([_record(record, HeldBlock, fragments) for record in raw.get("blocks", ())]),
        tuple([_record(record, OpenEnd, fragments) for record in raw.get("open_ends", ())]),
    )


def _record(record: dict[str, Any], record_type: type[T], fragments: Mapping[str, str]) -> T:
    try:
        patterns = {key: _filled(record[key], fragments) for key in _PATTERNS & record.keys()}
        return msgspec.convert({**record, **patterns}, record_type)
    except (KeyError, msgspec.ValidationError) as error:
        raise ValueError(f"{record.get('name')!r}, {record.get('finds')!r}: {error!r}") from None


def _filled(text: str, fragments: Mapping[str, str]) -> str:
    """Return *text* as one line, with *fragments* in place of their names."""
    joined = "".join(map(str.strip, text.splitlines()))
    return _FRAGMENT.sub(lambda match: fragments[match[1]], joined)


def choose(
    only: Collection[str], without: Collection[str], custom: Mapping[str, str]
) -> tuple[Rule, ...]:
    """Return the rules named *only*, or all, except *without*, and the *custom* ones.

    Raises `RegistrationError` for an unknown name, and for an invalid name of a custom rule.
    """
    for name in custom:
        if not _NAME.fullmatch(name):
            reason = "the name appears in placeholders; use lower-case letters, digits and -"
            raise RegistrationError(f"rule {name!r}", reason)
    # A user's own rules come first, so that placeholders have their names.
    rules = (
        *[Rule(name, pattern, foreign=True) for name, pattern in custom.items()],
        *published(),
        *builtin(),
    )
    known = {rule.name for rule in rules}
    for name in (*only, *without):
        if name not in known:
            raise RegistrationError(f"rule {name!r}", f"unknown rule{hint(name, known)}")
    wanted = set(only or known) - set(without)
    return tuple([rule for rule in rules if rule.name in wanted])
