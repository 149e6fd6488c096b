"""Texts in base64 inside another text: one level of decoding, and the way back.

Files shown in base64, `data:` addresses, Kubernetes secrets and JSON of MCP servers hold such
texts. A text that was redacted is encoded again in the same alphabet, with the same padding and
the same line width.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from codecs import utf_8_decode
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.messages.blobs import utf_16_codec

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORTEST = _HEAD = 24
"""Characters that a run of base64 has at least; shorter runs hardly hold a secret."""

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_MASK = bytes([ord("a") if code in _LETTERS else ord(" ") for code in range(256)])
_RUN = b"a" * SHORTEST
# RFC 4648, sections 4 and 5.
_TO_STANDARD, _TO_URL = bytes.maketrans(b"-_", b"+/"), bytes.maketrans(b"+/", b"-_")
_ALLOWED = bytes([*b"\t\n\r\f\x1b", *range(0x20, 0x7F), *range(0x80, 0x100)])
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
# A line break, also escaped as in JSON, and the indentation of YAML and mail behind it.
_BREAK = re.compile(rb"(?:\\r)?\\n|\r?\n[ \t]{0,64}")
_PADDING = re.compile(rb"={1,2}|(?:%3[dD]){1,2}|(?:\\u003[dD]){1,2}")
# The beginnings of base64 of UTF-8 (RFC 3629): three groups of three ASCII bytes, or fewer and
# then the first two bytes of another character at each of the three offsets; or a byte order
# mark of UTF-16.
_ASCII = rb"[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][\w+/-]"
_LETTER = (
    rb"[0-7w-z][4-7I-LYZabo-r]|[A-Za-f][M-Pc-fs-v89+/_-][26CGKOSWaeimquy+-]"
    rb"|[A-Za-f][A-HQ-Xg-nw-z0-3][37DHLPTXbfjnrvz/_][\w+/-][g-v]"
)
_LIKELY = re.compile(
    rb"(?:" + _ASCII + rb"){3}|(?:" + _ASCII + rb"){0,2}(?:" + _LETTER + rb")|[/_][/_]4|[/_]v8"
)
_SIGNS = b"\\%"
# Escapes that end in a base64 character before the run and are not part of it.
_ESCAPE = re.compile(rb"\\[nrt]|%[0-9A-Fa-f]{2}")


class EncodedText(Struct, frozen=True):
    """A *text* encoded in base64 inside another text, from byte *start* to *end*.

    Its lines have *width* characters, 0 for a single line, and *line_break* between them;
    *padding* is one padding sign, or empty for none; *codec* is the text's encoding.
    """

    start: int
    end: int
    text: str
    codec: str
    for_urls: bool
    padding: bytes
    width: int
    line_break: bytes

    def encoded(self, text: str) -> str:
        """Return *text* encoded in the form of this one."""
        letters = b2a_base64(text.encode(self.codec), newline=False)
        if self.for_urls:
            letters = letters.translate(_TO_URL)
        unpadded = letters.rstrip(b"=")
        letters = unpadded + self.padding * (len(letters) - len(unpadded))
        width = self.width or len(letters) or 1
        lines = [letters[start : start + width] for start in range(0, len(letters), width)]
        return self.line_break.join(lines).decode()


def encoded_texts(data: bytes) -> Iterator[EncodedText]:
    """Yield the texts that *data*, a text in UTF-8, holds in base64, in order."""
    mask, likely, find = data.translate(_MASK), _LIKELY.match, data.find
    position = 0
    while (start := mask.find(_RUN, position)) >= 0:
        position = end = _end(mask, start + SHORTEST)
        # Most runs are words and digests, and this cheap test excludes them.
        if (
            likely(data, start) is None
            and find(b"/", start, end) < 0
            and data[start - 1] not in _SIGNS
        ):
            continue
        for begin in _beginnings(data, start, end):
            if _begins_text(data[begin : min(end, begin + _HEAD)]):
                lines, line_break = _lines(data, mask, begin)
                position = lines[-1][1]
                yield from _texts(data, lines, line_break)
                break


def _beginnings(data: bytes, start: int, end: int) -> Iterator[int]:
    """Yield the offsets where base64 may begin in the run from *start* to *end*."""
    escape = _ESCAPE.match(data, start - 1) if start else None
    yield start if escape is None else escape.end()
    # The last segment of an address's path.
    slash = data.rfind(b"/", start, end - SHORTEST)
    if slash >= 0:
        yield slash + 1


def _begins_text(letters: bytes) -> bool:
    # Nearly all ordinary words of this length are lower case, and base64 is not.
    if letters.lower() == letters:
        return False
    raw = _raw(letters[: len(letters) // 4 * 4])
    if raw.translate(None, _ALLOWED):
        return utf_16_codec(raw) is not None
    try:
        utf_8_decode(raw)
    except UnicodeDecodeError:
        return False
    return True


def _lines(data: bytes, mask: bytes, start: int) -> tuple[list[tuple[int, int]], bytes]:
    """Return the spans of the lines from *start* on, and their line break.

    All lines are as long as the first; a shorter line ends the text.
    """
    lines = [(start, _end(mask, start))]
    width, line_break = lines[0][1] - start, b""
    while lines[-1][1] - lines[-1][0] == width:
        gap = _BREAK.match(data, lines[-1][1])
        if gap is None or (line_break and gap[0] != line_break):
            break
        begin, end = gap.end(), _end(mask, gap.end())
        if not begin < end <= begin + width:
            break
        line_break = gap[0]
        lines.append((begin, end))
    return lines, line_break


def _end(mask: bytes, start: int) -> int:
    end = mask.find(b" ", start)
    return len(mask) if end < 0 else end


def _texts(data: bytes, lines: list[tuple[int, int]], line_break: bytes) -> Iterator[EncodedText]:
    """Yield the text of all *lines*, or of all but a stray last one, or else of each line."""
    if (text := _text(data, lines, line_break)) is not None:
        yield text
    elif len(lines) > 1:
        shorter = _text(data, lines[:-1], line_break)
        for span in lines if shorter is None else ():
            if (text := _text(data, [span], b"")) is not None:
                yield text
        if shorter is not None:
            yield shorter


def _text(data: bytes, lines: list[tuple[int, int]], line_break: bytes) -> EncodedText | None:
    (start, first_end), (_, end) = lines[0], lines[-1]
    letters = b"".join([data[begin:stop] for begin, stop in lines])
    raw = _raw(letters)
    plain = _plain(raw)
    # Unused bits are 0 in base64, but seldom in a word that only looks like its end.
    if plain is None or b2a_base64(raw).rstrip(b"=\n") != letters.translate(_TO_STANDARD):
        return None
    for_urls = b"-" in letters or b"_" in letters
    padding = _PADDING.match(data, end)
    return EncodedText(
        start=start,
        end=end if padding is None else padding.end(),
        text=plain[0],
        codec=plain[1],
        for_urls=for_urls,
        # A text of full groups shows no padding; its writer may pad, but seldom for URLs.
        padding=_sign(padding[0]) if padding else b"" if for_urls or len(letters) % 4 else b"=",
        width=first_end - start if len(lines) > 1 else 0,
        line_break=line_break,
    )


def _sign(padding: bytes) -> bytes:
    """Return one padding sign of *padding*, which has one or two."""
    half = len(padding) // 2
    return padding[:half] if padding[:half] == padding[half:] else padding


def _raw(letters: bytes) -> bytes:
    """Return the bytes of base64 *letters*, of either alphabet; empty if they are not base64."""
    if len(letters) % 4 == 1:
        return b""
    return a2b_base64(letters.translate(_TO_STANDARD) + b"==="[: -len(letters) % 4])


def _plain(raw: bytes) -> tuple[str, str] | None:
    """Return *raw* as a text, and its codec, or None if it is not a text."""
    codec = utf_16_codec(raw) or "utf-8"
    try:
        text = raw.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if not text or _CONTROLS.search(text) else (text, codec)
