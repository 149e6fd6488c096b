"""The rules by which credentials are found: the published set, ours, and a user's own.

Ours, in `builtin.toml`, are formats that the published set leaves out, and the shapes that secrets
stand in. Each was added because examples of the half that we develop with were missed without it;
how much each group brings stands in the table of `benchmarks/bench_redaction.py`.
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
    """A *pattern* in RE2's syntax; what the group `value` holds is the secret.

    Without it, it is what the first other group holds that is not empty. A *loose* one goes by
    what stands around a value, so the value itself is judged more strictly, and only *assumed* to
    be a secret. If its pattern has a group `name`, that is the name which the value is assigned to,
    or the end of it, from a word on that tells: `names` judges it, so the pattern may be broad.
    Without a name the *kind* of the value is that of the rule. With a *reader*, one of `READERS`,
    the values stand behind the match. A *keyed* one goes by a vendor's name and is strict for the
    rest, so its value is known, if any of it looks random. A *foreign* one is a user's.

    One of the *keywords*, in lower case, stands in whatever it matches, in any case: where none
    does, it is not looked for. With none of them it always is. Where the keywords are usual, or not
    known, *gates* tell more: expressions of which one matches in whatever the rule matches.
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
    """A rule of ours, with a line that says what it *finds*, and the *source* of that format."""

    finds: str
    source: str = ""


class NamedShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands *behind* the name of a secret: the first group that holds anything is the value.

    If that matters: how such a *name* begins, and what is *before* it, both patterns of Python's.
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
    """Several lines from a match of *opener* to one of *closer*, or of so many *lines* at most."""

    finds: str
    opener: str
    closer: str
    lines: int | None = None


class OpenEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """What a text ends in, if a block is open."""

    finds: str
    pattern: str
    source: str = ""


class BuiltinFile(NamedTuple):
    """What `builtin.toml` has, with the fragments put in."""

    fragments: dict[str, str]
    rules: tuple[BuiltinRule, ...]
    shapes: tuple[NamedShape, ...]
    blocks: tuple[HeldBlock, ...]
    open_ends: tuple[OpenEnd, ...]


@cache
def published() -> tuple[Rule, ...]:
    """Return the published rules; `rules.NOTICE` beside this file says whose they are."""
    return msgspec.json.decode(_PUBLISHED.read_bytes(), type=_PublishedFile).rules


def builtin() -> tuple[BuiltinRule, ...]:
    """Return our rules, for what the published ones leave out."""
    return builtin_file().rules


def rule_read_by(reader: Reader) -> BuiltinRule:
    """Return our rule whose values *reader* reads."""
    return next(rule for rule in builtin() if rule.reader == reader)


@cache
def builtin_file() -> BuiltinFile:
    """Return all that `builtin.toml` has."""
    return read_builtin(_BUILTIN.read_text("utf-8"))


def read_builtin(text: str) -> BuiltinFile:
    """Return what *text* says, which is written as `builtin.toml` is.

    Raises `ValueError` that names the record.
    """
    raw = tomllib.loads(text)
    fragments: dict[str, str] = {}
    # Each may use those above it.
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
    """Return the rules called *only*, else all, but those called *without*, and *custom*.

    Raises `RegistrationError` for a name that no rule has, and for one that a rule cannot have.
    """
    for name in custom:
        if not _NAME.fullmatch(name):
            reason = (
                "a rule's name becomes its placeholder's; take lower-case letters, digits and -"
            )
            raise RegistrationError(f"rule {name!r}", reason)
    # A user's own come first, so that their names are the ones to be read.
    rules = (
        *[Rule(name, pattern, foreign=True) for name, pattern in custom.items()],
        *published(),
        *builtin(),
    )
    known = {rule.name for rule in rules}
    for name in (*only, *without):
        if name not in known:
            raise RegistrationError(f"rule {name!r}", f"there is none{hint(name, known)}")
    wanted = set(only or known) - set(without)
    return tuple([rule for rule in rules if rule.name in wanted])
