r"""Random values of published shapes, from a seed: so no value stands in any file.

A shape is the name of a kind (`human`, `uuid`, `jwt`, …; see `KINDS`), or text with classes:
`ghp_[A-Za-z0-9]{36}`. In a class stand letters and ranges, behind it how many; `\.` is a dot.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = "toolbus, everyday"

_PIECE = re.compile(r"\[([^\]]+)\]\{(\d+)\}|\[([^\]]+)\]|\\(.)|(.)", re.DOTALL)
_RANGE = re.compile(r"(.)-(.)|(.)", re.DOTALL)
_LETTERS = string.ascii_letters + string.digits
_BASE64 = _LETTERS + "+/"
_WORDS = re.findall(
    "[a-z]+",
    "summer winter spring autumn berlin london madrid dragon monkey falcon tiger orange"
    " purple silver garden coffee guitar soccer hockey matrix rocket castle bridge planet"
    " thunder shadow sunshine welcome forest ocean island mountain pepper cookie banana cherry"
    " flower princess football october monday friday michael jessica charlie daniel robert"
    " support office server network",
)
_THINGS = re.findall(
    "[a-z]+",
    "billing orders catalog search ledger shipping payments profile mailer gateway scheduler"
    " report inventory customer invoice booking events metrics frontend backend worker staging"
    " canary apollo harbor falcon delta orion nimbus quartz",
)
_SYMBOLS = "!@#$%*+=?"


class Values:
    """Makes values; the same ones in each run for the same *seed*."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(f"{SEED}/{seed}")  # noqa: S311 - it is to be repeated

    def make(self, shape: str) -> str:
        """Return a value of *shape*."""
        return KINDS[shape](self) if shape in KINDS else self._drawn(shape)

    def filled(self, text: str) -> str:
        """Return *text* with a value in place of each shape in ⟦…⟧."""
        return re.sub(r"⟦([^⟧]+)⟧", lambda found: self.make(found[1]), text)

    def letters(self, alphabet: str, count: int) -> str:
        """Return *count* letters of *alphabet*."""
        return "".join(self._random.choices(alphabet, k=count))

    def number(self, first: int, last: int) -> int:
        """Return a number from *first* to *last*."""
        return self._random.randint(first, last)

    def bytes(self, count: int) -> bytes:
        """Return *count* bytes."""
        return self._random.randbytes(count)

    def word(self) -> str:
        """Return a word of those that name services."""
        return self._random.choice(_THINGS)

    def human(self, symbols: str = _SYMBOLS) -> str:
        """Return a password as people choose it, of 8 letters and more."""
        word, other = self._random.sample(_WORDS, 2)
        symbol, year = self._random.choice(symbols), self.number(1970, 2026)
        leet = word.translate(str.maketrans("aeios", "4310$" if "$" in symbols else "43105"))
        styles = (
            f"{word.title()}{year}{symbol}",
            f"{word}{self.number(10, 999)}".ljust(8, "1"),
            f"{leet.title()}{symbol}{self.number(10, 99)}".ljust(8, "0"),
            f"{word}{symbol}{other}",
            f"{word.title()}{other.title()}{self.number(1, 9)}",
            f"{symbol}{word.title()}{self.number(100, 9999)}",
            f"{word}-{other}-{self.number(10, 99)}",
        )
        return self._random.choice(styles)

    def _drawn(self, shape: str) -> str:
        return "".join(
            [
                self.letters(_alphabet(many or single), int(count or 1))
                if many or single
                else escaped or plain
                for many, count, single, escaped, plain in _PIECE.findall(shape)
            ]
        )


def _alphabet(classes: str) -> str:
    found = ""
    for first, last, single in _RANGE.findall(classes):
        found += single or "".join(map(chr, range(ord(first), ord(last) + 1)))
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _uuid(values: Values) -> str:
    return values.make("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def _jwt(values: Values) -> str:
    claims = {
        "sub": str(values.number(10**9, 10**10)),
        "iat": values.number(17 * 10**8, 18 * 10**8),
    }
    parts = [{"alg": "HS256", "typ": "JWT"}, claims | {"name": values.human("-")}]
    return ".".join(
        [*[_url64(json.dumps(one).encode()) for one in parts], _url64(values.bytes(32))]
    )


def _pem(values: Values) -> str:
    lines = [values.letters(_BASE64, 64) for _ in range(12)]
    return "\n".join(["MIIE" + lines[0][4:], *lines[1:], values.letters(_BASE64, 38) + "=="])


def _key_file(values: Values) -> bytes:
    kind = "EC " + "PRIVATE KEY"
    return f"-----BEGIN {kind}-----\n{_pem(values)}\n-----END {kind}-----\n".encode()


def _picture(values: Values) -> str:
    return _base64(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + values.bytes(300))


def _source_map(values: Values) -> str:
    names = [values.word() for _ in range(12)]
    return _base64(json.dumps({"version": 3, "sources": names, "mappings": "AAAA"}).encode())


KINDS: dict[str, Callable[[Values], str]] = {
    "human": Values.human,
    "human-plain": lambda values: values.human("_.-"),
    "human-percent": lambda values: quote(values.human("@#!$"), safe=""),
    "human-b64": lambda values: _base64(values.human().encode()),
    "b64-of-random": lambda values: _base64(values.letters(_LETTERS, 20).encode()),
    "b64-pem": lambda values: _base64(_key_file(values)),
    "basic64": lambda values: _base64(f"deploy:{values.letters(_LETTERS, 16)}".encode()),
    "symbols50": lambda values: values.letters(
        "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)", 50
    ),
    "symbols64": lambda values: values.letters(_LETTERS + "!@#$%^&*()-_ []{}<>~`+=,.;:/?|", 64),
    "sas": lambda values: quote(_base64(values.bytes(32)), safe=""),
    "uuid": _uuid,
    "jwt": _jwt,
    "pem": _pem,
    "pem-json": lambda values: _pem(values).replace("\n", "\\n"),
    "ppk": lambda values: "AAAA" + values.letters(_BASE64, 43) + "=",
    "sha512crypt": lambda values: values.make("$6$[A-Za-z0-9./]{16}$[A-Za-z0-9./]{86}"),
    "bcrypt": lambda values: values.make("$2y$10$[A-Za-z0-9./]{53}"),
    "word": Values.word,
    "Word": lambda values: values.word().title(),
    "ver": lambda values: f"{values.number(0, 9)}.{values.number(0, 40)}.{values.number(0, 20)}",
    "time": lambda values: values.make("2026-0[1-9]-1[0-9]T1[0-9]:2[0-9]:3[0-9]Z"),
    "png": _picture,
    "map64": _source_map,
}
