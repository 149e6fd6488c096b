"""Decoded texts: the readings of an argument, without base64, hex and escapes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolbus.redaction.encoded import encoded_texts
from toolbus.redaction.views import decoded, other_views

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPTH = 3
_LARGEST = 4
"""Readings together are at most this many times as long as the text."""
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}[ :]?){8,}")


def readings_of(text: str) -> Iterator[str]:
    """Yield *text* and its decoded forms, nested at most three deep."""
    yield text
    seen, level, capacity = {text}, [text], _LARGEST * len(text)
    for _ in range(_DEPTH):
        level = [
            reading for outer in level for reading in _decoded_once(outer) if reading not in seen
        ]
        for reading in level:
            capacity -= len(reading)
            if capacity < 0:
                return
            seen.add(reading)
            yield reading


def _decoded_once(text: str) -> Iterator[str]:
    data = text.encode(errors="replace")
    yield from (encoded.text for encoded in encoded_texts(data))
    yield from (view.data.decode(errors="replace") for view in other_views(data))
    escaped = decoded(data)
    if escaped is not None:
        yield escaped.data.decode(errors="replace")
    for match in _HEX.finditer(text):
        digits = re.sub(r"[ :]", "", match[0])
        plain = bytes.fromhex(digits[: len(digits) // 2 * 2]).decode(errors="replace")
        if plain.isprintable():
            yield plain
