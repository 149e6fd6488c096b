"""The kind of a value by its name: a password, a secret, a key, or not a secret.

The last words count: `token_url` is an address, and `db_password_old` a password. Snake, kebab,
dotted and camel case, capitals and single words (`DBPASSWORD`) are read alike.
"""

from __future__ import annotations

import re
import tomllib
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path
from unicodedata import normalize

from msgspec import Struct, convert

_FILE = Path(__file__).with_name("names.toml")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\x00-\x7f]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LONGEST = 64
# `AWS::IAM::AccessKey` names a type, and `delta?token=` is a cursor of Microsoft Graph.
_HARMLESS = re.compile(rb"\bAWS::\w+::\Z|/delta(?:\(\))?\?\Z")
# `All 14 pass: …`, `boarding pass: …`: a verb or another noun, unless the word before is an owner.
_NOUN = re.compile(rb"(?:[^\s:=/|,;(][ \t]+|\n[ \t]*|\A[ \t]*)(\w+)[ \t]+\Z")
_NAME_BYTES = bytes(
    [
        *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/",
        *range(0x80, 0x100),
    ]
)


class _Words(Struct, frozen=True, forbid_unknown_fields=True):
    """The words of names, which `names.toml` lists and explains."""

    passwords: frozenset[str]
    secrets: frozenset[str]
    secret_keys: frozenset[str]
    glued: frozenset[str]
    neutral: frozenset[str]
    attributes: frozenset[str]
    checksums: frozenset[str]
    harmless_tokens: frozenset[str]
    switches: frozenset[str]
    harmless_keys: frozenset[str]
    owners: frozenset[str]


@cache
def _words() -> _Words:
    lists = tomllib.loads(_FILE.read_text("utf-8"))
    for name in ("passwords", "secrets"):
        lists[name] = " ".join(lists[name].values())  # One list for each language.
    return convert({name: words.split() for name, words in lists.items()}, _Words)


class NameKind(Enum):
    """The form that a value beside a name must have to count as a secret."""

    CERTAIN = "certain"
    """Any form: a command's flag, not a name, marks the value as a password."""

    PASSWORD = "password"  # noqa: S105 - a kind of name
    """Any form that people choose, a UUID, or random characters."""
    SECRET = "secret"  # noqa: S105 - a kind of name
    """A UUID or random characters, even a few: the name is exactly secret, token or API key."""
    KEY = "key"
    """Many random characters."""


def name_at(data: bytes, start: int, end: int) -> str:
    """Return the whole name in *data* that includes the match from byte *start* to *end*.

    A pattern that begins with a literal word is fast; the part before the word is read here.
    """
    before = data[max(0, start - _LONGEST) : start]
    begin = start - len(before) + len(before.rstrip(_NAME_BYTES))
    if data[begin - 1 : begin] in (b":", b"?") and _HARMLESS.search(
        data, max(0, begin - _LONGEST), begin
    ):
        return ""
    if data[begin:end].lower() == b"pass" and data.startswith(b":", end):
        noun = _NOUN.search(data, max(0, begin - _LONGEST), begin)
        if noun is not None and noun[1].lower().decode() not in _words().owners:
            return ""
    return data[begin:end].decode("utf-8", errors="ignore")


def name_start(data: bytes, start: int) -> int:
    """Return the first byte of the name that includes the byte at *start*."""
    before = data[max(0, start - _LONGEST) : start]
    return start - len(before) + len(before.rstrip(_NAME_BYTES))


def name_kind(name: str) -> NameKind | None:
    """Return the kind of a value assigned to *name*; None if it is not a secret's name."""
    # A number at the end has no meaning; without it, numbered names share one cache entry.
    return _kind_of(name.rstrip("0123456789"))


@lru_cache(maxsize=4_096)
def _kind_of(name: str) -> NameKind | None:
    words, known = [word.lower() for word in _WORD.findall(_without_accents(name))], _words()
    while words and (words[-1].isdigit() or words[-1] in known.neutral):
        words.pop()
    if not words or known.checksums.intersection(words):
        return None
    if words[-1] in known.attributes or words[-1].removesuffix("s") in known.attributes:
        return None
    kind = _word_kind(words[-1], words[-2] if len(words) > 1 else "")
    if kind is not None:
        return kind
    # "token_github": the next word may be an owner or any other noun, so the value decides.
    pairs = zip(words, ("", *words), strict=False)
    return NameKind.KEY if any(_word_kind(*pair) for pair in pairs) else None


def _without_accents(name: str) -> str:
    if name.isascii():
        return name
    return normalize("NFC", _ACCENTS.sub("", normalize("NFD", name))).replace("ł", "l")


def _word_kind(word: str, before: str) -> NameKind | None:
    """Return the kind named by *word* at the end of a name, behind the word *before* or ""."""
    known = _words()
    if before in known.switches:
        return None
    if word in known.passwords:
        return NameKind.PASSWORD
    if word in {"token", "tokens"} and before in known.harmless_tokens:
        return None
    if word in known.secrets:
        return NameKind.SECRET
    if word in {"key", "keys"}:
        return _key_kind(before)
    if word.removesuffix("s") in known.passwords | known.secrets:
        # A plural names a list, whose values must each look like a secret.
        return NameKind.KEY
    return _glued_kind(word)


def _key_kind(before: str) -> NameKind | None:
    """Return the kind of a key qualified by *before*; an unqualified key is a table's."""
    if before in _words().secret_keys:
        return NameKind.SECRET
    return NameKind.KEY if before and before not in _words().harmless_keys else None


def _glued_kind(word: str) -> NameKind | None:
    """Return the kind named by *word* written without a gap, such as `dbpassword`."""
    known = _words()
    if word.endswith(_foreign_ends()):
        return NameKind.PASSWORD
    noun = next((noun for noun in _glued_ends() if word.endswith(noun)), None)
    if noun is None:
        return None
    if noun in known.passwords or noun.endswith("pass"):
        return NameKind.PASSWORD
    is_harmless = noun == "token" and word.removesuffix(noun) in known.harmless_tokens
    return None if is_harmless else NameKind.SECRET


@cache
def _foreign_ends() -> tuple[str, ...]:
    """Return the words outside ASCII, which need no gap between them and other words."""
    return tuple([word for word in _words().passwords | _words().secrets if not word.isascii()])


@cache
def _glued_ends() -> tuple[str, ...]:
    """Return the endings that make one word count as two, the longest first."""
    keys = [f"{word}key" for word in _words().secret_keys]
    return tuple(sorted([*_words().glued, *keys], key=len, reverse=True))
