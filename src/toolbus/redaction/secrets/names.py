"""What the name of a value says of it: a password, a token, a key, or nothing secret.

The last words count: `token_url` is an address, and `db_password_old` a password. Names are read
alike in snake, kebab, dotted and camel case, in capitals, and written as one word (`DBPASSWORD`).
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from unicodedata import normalize

from toolbus.redaction.secrets.name_words import (
    ATTRIBUTES,
    CHECKSUMS,
    GLUED,
    HARMLESS_KEYS,
    HARMLESS_TOKENS,
    NEUTRAL,
    PASSWORDS,
    SECRET_KEYS,
    SECRETS,
    SWITCHES,
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\x00-\x7f]+")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LONGEST = 64
# `AWS::IAM::AccessKey` is the name of a type, and `delta?token=` the cursor of Microsoft's Graph.
_HARMLESS = re.compile(rb"\bAWS::\w+::\Z|/delta(?:\(\))?\?\Z")
# `All 14 pass: …`, `boarding pass: …`: a verb or another noun, unless the word before says whose.
_NOUN = re.compile(rb"(?:[^\s:=/|,;(][ \t]+|\n[ \t]*|\A[ \t]*)(\w+)[ \t]+\Z")
_OWNERS = frozenset(
    b"the my your our a db database admin administrator root user login account wifi wlan mail smtp"
    b" imap ftp ssh sudo vpn mysql postgres redis mongo new old current default master app".split()
)
_NAME_BYTES = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/"
) | frozenset(range(0x80, 0x100))
_GLUED_ENDS = tuple(sorted(GLUED, key=len, reverse=True))
_FOREIGN_END = tuple([word for word in PASSWORDS | SECRETS if not word.isascii()])


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
    first, begin = max(0, start - _LONGEST), start
    while begin > first and data[begin - 1] in _NAME_BYTES:
        begin -= 1
    if data[begin - 1 : begin] in (b":", b"?") and _HARMLESS.search(
        data, max(0, begin - _LONGEST), begin
    ):
        return ""
    if data[begin:end].lower() == b"pass" and data.startswith(b":", end):
        noun = _NOUN.search(data, max(0, begin - _LONGEST), begin)
        if noun is not None and noun[1].lower() not in _OWNERS:
            return ""
    return data[begin:end].decode("utf-8", errors="ignore")


def name_start(data: bytes, start: int) -> int:
    """Return the byte at which the name begins that goes on at *start*."""
    first = max(0, start - _LONGEST)
    while start > first and data[start - 1] in _NAME_BYTES:
        start -= 1
    return start


def name_kind(name: str) -> NameKind | None:
    """Return of what kind a value is that is assigned to *name*; None if it is no secret."""
    # A number at the end says nothing: names that are only counted are read once.
    return _kind_of(name.rstrip("0123456789"))


@lru_cache(maxsize=4_096)
def _kind_of(name: str) -> NameKind | None:
    words = [word.lower() for word in _WORD.findall(_without_accents(name))]
    while words and (words[-1].isdigit() or words[-1] in NEUTRAL):
        words.pop()
    if not words or CHECKSUMS.intersection(words):
        return None
    if words[-1] in ATTRIBUTES or words[-1].removesuffix("s") in ATTRIBUTES:
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
    if before in SWITCHES:
        return None
    if word in PASSWORDS:
        return NameKind.PASSWORD
    if word in {"token", "tokens"} and before in HARMLESS_TOKENS:
        return None
    if word in SECRETS:
        return NameKind.SECRET
    if word in {"key", "keys"}:
        return _key_kind(before)
    if word.removesuffix("s") in PASSWORDS | SECRETS:
        # Of several, each must look like one.
        return NameKind.KEY
    return _glued_kind(word)


def _key_kind(before: str) -> NameKind | None:
    """Return what a key is that *before* stands before; a key of nothing is one of a table."""
    if before in SECRET_KEYS:
        return NameKind.SECRET
    return NameKind.KEY if before and before not in HARMLESS_KEYS else None


def _glued_kind(word: str) -> NameKind | None:
    """Return what *word* says that is written without a gap, such as `dbpassword`."""
    if word.endswith(_FOREIGN_END):
        return NameKind.PASSWORD
    noun = next((noun for noun in _GLUED_ENDS if word.endswith(noun)), None)
    if noun is None:
        return None
    if noun in PASSWORDS or noun.endswith("pass"):
        return NameKind.PASSWORD
    is_harmless = noun == "token" and word.removesuffix(noun) in HARMLESS_TOKENS
    return None if is_harmless else NameKind.SECRET
