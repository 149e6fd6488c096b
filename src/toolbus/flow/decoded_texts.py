"""Decoded texts: the readings of a text, without base64, hex, escapes and other disguises.

Nested at most three deep: base64 and base32, both also in labels of a host; hexadecimal, octal and
decimal bytes; escapes of URLs, HTML, JSON and shells; pieces joined, as in `"a" + "b"`; addresses
in words (`eve [at] evil [dot] example`); text in tag characters and variation selectors; escape
sequences of terminals. Of an argument also backwards and ROT13.

**Limit.** Compressed and encrypted texts, and codes of a model's own making, are not read.
"""

from __future__ import annotations

import re
from base64 import b32decode, urlsafe_b64decode
from codecs import encode
from typing import TYPE_CHECKING
from urllib.parse import unquote

from toolbus.redaction.encoded import encoded_texts
from toolbus.redaction.views import decoded, other_views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LARGEST = 4_000_000
"""Characters that all readings of a message or of an argument have together: a second's search."""
_DEPTH, _LONGEST_LETTERS, _LAST_TAG = 3, 23, "\U000e007f"

# Each pattern begins with a rare character, so that the search leaps to it. Inside a word: the end
# and the beginning of two strings that a program joins; and a backslash or a caret that a shell
# drops.
_JOINT = re.compile(
    r"""["'`](?<=[\w.@:/-].)\s{0,20}[+.&]?\s{0,20}["'`](?=[\w.@:/-])|\\(?<=\w.)(?=\w)"""
    r"""|\^(?<=\w.)(?=\w)"""
)
_SHELL_SPACE = re.compile(r"\$(?:\{IFS[^{}\s]{0,20}\}|IFS(?![A-Za-z0-9_]))(?:\$[1-9@*])?")
_BRACKETED = re.compile(r"[\[({<]\s?(?:[aA][tT]|[dD][oO][tT]|\.|@)\s?[\])}>]")
_WORDED = re.compile(rf"\s?({_BRACKETED.pattern}|(?<=\s)(?:at|dot)(?=\s))\s?", re.IGNORECASE)
_LABELS = re.compile(r"\.(?<=[\w-]{20}.)(?=[\w-]{20})", re.ASCII)
# Eight bytes or more as numbers, the form of each number, and its base. Most hexadecimal bytes of a
# text begin with the digits 2 to 7.
_HEX = r"[2-7][0-9A-Fa-f][ :,.;-]{0,2}(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ :,.;-]{0,2}){7,}"
_DECIMAL = r"[0-9]{2,3}(?:\)?[ +,;.]{1,3}(?:[cC][hH][rR]\()?[0-9]{2,3}){7,}"
_OCTAL = r"\\[0-3][0-7]{2}(?:\\[0-3][0-7]{2}){7,}"
_NUMBERS = (
    (re.compile(_HEX), re.compile("(?:0x)?([0-9A-Fa-f]{2})"), 16),
    (re.compile(_DECIMAL), re.compile("[0-9]{2,3}"), 10),
    (re.compile(_OCTAL), re.compile("[0-7]{3}"), 8),
)
# `encoded_texts` finds longer runs of base64.
_LETTERS = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_BASE_32 = re.compile(r"[A-Z2-7]+|[a-z2-7]+")
_HIDDEN = re.compile("[\ufe00-\ufe0f\U000e0020-\U000e007e\U000e0100-\U000e01ef]{4,}")
_TEXT = re.compile(r"[\n -~]{8}|[^\x00-\x7f\ufffd]{4}")


class DecodedTexts:
    """The readings of *texts*, these first: *texts*, with at most *limit* characters together.

    Unless *is_complete*, there are more readings, or longer ones.
    """

    def __init__(self, texts: Sequence[str], limit: int = LARGEST) -> None:
        self.texts: list[str] = []
        self.is_complete = True
        self._seen, self._unread = {""}, limit
        level = self._added(texts)
        for _ in range(_DEPTH):
            level = [new for outer in level for new in self._added(_decoded_once(outer))]
        # A text encoded more often hides something.
        self.is_complete &= self._seen.issuperset(
            [inner for outer in level for inner in _decoded_once(outer)]
        )

    def _added(self, texts: Iterable[str]) -> list[str]:
        """Add those of *texts* that are new, as far as there is space, and return them."""
        new = [text for text in dict.fromkeys(texts) if text not in self._seen]
        self._seen.update(new)
        for text in new:
            self.is_complete &= len(text) <= self._unread
            self.texts.append(text[: self._unread])
            self._unread -= len(self.texts[-1])
        return new if self.is_complete else []


def read_argument(text: str) -> DecodedTexts:
    """Return the readings of *text*, an argument of a call, also backwards and as ROT13."""
    return DecodedTexts([text, text[::-1], encode(text, "rot13")])


def _decoded_once(text: str) -> Iterator[str]:
    """Yield the result of each decoder for *text*, empty if it finds nothing to decode."""
    data = text.encode(errors="replace")
    yield "\n".join([inner.text for inner in encoded_texts(data)])
    yield "\n".join([view.data.decode(errors="replace") for view in other_views(data)])
    yield _unescaped(text)
    yield _LABELS.sub("", text)
    plain = [code.decode(errors="replace") for code in _bytes_in(text)]
    yield "\n".join([text for text in plain if _TEXT.search(text)])


def _unescaped(text: str) -> str:
    """Return *text*, or its lines with escapes, without escapes and joints."""
    plain = unquote(text)
    escaped = decoded(plain.encode(errors="replace"))
    if escaped is not None:
        plain = escaped.data.decode(errors="replace")
    if " dot " in plain or _BRACKETED.search(plain):
        plain = _WORDED.sub(lambda word: "@" if {"a", "A", "@"} & set(word[1]) else ".", plain)
    return _JOINT.sub("", _SHELL_SPACE.sub(" ", plain))


def _bytes_in(text: str) -> Iterator[bytes]:
    """Yield the bytes of numbers, short base64, base32 and hidden characters in *text*."""
    for pattern, form, base in _NUMBERS:
        for match in pattern.finditer(text):
            # The first digit may be the end of a word or of a byte.
            for start in (0, 1):
                yield bytes([int(code, base) & 0xFF for code in form.findall(match[0], start)])
    for match in _LETTERS.finditer(text):
        yield from _bytes_of(match[0])
    for match in _HIDDEN.finditer(text) if not text.isascii() else ():
        # Tags are ASCII, and selectors are bytes, of which the first 16 stand elsewhere.
        yield bytes([ord(sign) + (16 if sign > _LAST_TAG else 0) & 0xFF for sign in match[0]])


def _bytes_of(letters: str) -> Iterator[bytes]:
    """Yield the bytes of base32, and of a short base64."""
    if _BASE_32.fullmatch(letters):
        # Bytes end behind 2, 4, 5, 7 or 8 letters of a group (RFC 4648, section 6).
        whole = letters[:-1] if len(letters) % 8 in {1, 3, 6} else letters
        yield b32decode(whole.upper() + "=" * (-len(whole) % 8))
    if len(letters) <= _LONGEST_LETTERS and len(letters) % 4 != 1:
        standard = letters.replace("+", "-").replace("/", "_")
        yield urlsafe_b64decode(standard + "=" * (-len(letters) % 4))
