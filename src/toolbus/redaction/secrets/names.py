"""What the name of a value says of it: a password, a token, a key, or nothing secret.

The last words count: `token_url` is an address, and `db_password_old` a password. Names are read
alike in snake, kebab, dotted and camel case, in capitals, and written as one word (`DBPASSWORD`).
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
# `AWS::IAM::AccessKey` is the name of a type, and `delta?token=` the cursor of Microsoft's Graph.
_HARMLESS = re.compile(rb"\bAWS::\w+::\Z|/delta(?:\(\))?\?\Z")
# `All 14 pass: …`, `boarding pass: …`: a verb or another noun, unless the word before says whose.
_NOUN = re.compile(rb"(?:[^\s:=/|,;(][ \t]+|\n[ \t]*|\A[ \t]*)(\w+)[ \t]+\Z")
_NAME_BYTES = bytes(
    [
        *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/",
        *range(0x80, 0x100),
    ]
)


class _Words(Struct, frozen=True, forbid_unknown_fields=True):
    """The words of names, as `names.toml` has and explains them."""

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
        lists[name] = " ".join(lists[name].values())  # They are by language.
    return convert({name: words.split() for name, words in lists.items()}, _Words)


class NameKind(Enum):
    """What a value may look like, to be taken for a secret beside such a name."""

    CERTAIN = "certain"
    """As it likes: no name, but the flag of a command says that it is a password."""

    PASSWORD = "password"  # noqa: S105 - a kind of name
    """As people choose it, a UUID, or random."""
    SECRET = "secret"  # noqa: S105 - a kind of name
    """A UUID, or random, even if it is short: the name says secret, token or API key exactly."""
    KEY = "key"
    """Random, and long."""


def name_at(data: bytes, start: int, end: int) -> str:
    """Return the whole name in *data*, of which a pattern has seen bytes *start* to *end*.

    A pattern that begins at a word of its own is fast; what stands before the word is read here.
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
    """Return the byte at which the name begins that goes on at *start*."""
    before = data[max(0, start - _LONGEST) : start]
    return start - len(before) + len(before.rstrip(_NAME_BYTES))


def name_kind(name: str) -> NameKind | None:
    """Return of what kind a value is that is assigned to *name*; None if it is no secret."""
    # A number at the end says nothing: names that are only counted are read once.
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
    # "token_github": what follows may be whose it is, or anything else, so the value must tell.
    pairs = zip(words, ("", *words), strict=False)
    return NameKind.KEY if any(_word_kind(*pair) for pair in pairs) else None


def _without_accents(name: str) -> str:
    if name.isascii():
        return name
    return normalize("NFC", _ACCENTS.sub("", normalize("NFD", name))).replace("ł", "l")


def _word_kind(word: str, before: str) -> NameKind | None:
    """Return what *word* says at the end of a name, behind the word *before* or none."""
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
        # Of several, each must look like one.
        return NameKind.KEY
    return _glued_kind(word)


def _key_kind(before: str) -> NameKind | None:
    """Return what a key is that *before* stands before; a key of nothing is one of a table."""
    if before in _words().secret_keys:
        return NameKind.SECRET
    return NameKind.KEY if before and before not in _words().harmless_keys else None


def _glued_kind(word: str) -> NameKind | None:
    """Return what *word* says that is written without a gap, such as `dbpassword`."""
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
    """Return the words that are not in ASCII, which no gap needs to part from others."""
    return tuple([word for word in _words().passwords | _words().secrets if not word.isascii()])


@cache
def _glued_ends() -> tuple[str, ...]:
    """Return what one word may end in, to be two words in truth, the longest first."""
    keys = [f"{word}key" for word in _words().secret_keys]
    return tuple(sorted([*_words().glued, *keys], key=len, reverse=True))
