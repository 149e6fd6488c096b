"""The encoding of ids for the server, which has no NUL in texts and no long texts in indexes."""

from __future__ import annotations

from hashlib import sha256

MAX_INDEXED = 600
"""The most characters of an indexed id: an index allows 2,704 bytes, of up to 4 a character."""

# Two noncharacters, which are not used in texts (Unicode 23.7).
_ESCAPE, _SHORTENED = "\ufdd0", "\ufdd1"
_NUL, _ITSELF, _MARK = _ESCAPE + "0", _ESCAPE * 2, _ESCAPE + "1"


def escape(text: str) -> str:
    """Return *text* without NUL, reversibly by `unescape`; nearly all texts stay unchanged."""
    if "\0" not in text and _ESCAPE not in text and _SHORTENED not in text:
        return text
    escaped = text.replace(_ESCAPE, _ITSELF).replace("\0", _NUL)
    return escaped.replace(_SHORTENED, _MARK)


def unescape(text: str) -> str:
    """Return the original of *text*, a result of `escape`."""
    if _ESCAPE not in text:
        return text
    parts = text.split(_ITSELF)
    parts = [part.replace(_NUL, "\0").replace(_MARK, _SHORTENED) for part in parts]
    return _ESCAPE.join(parts)


def indexed(name: str) -> str:
    """Return the id *name* for an index: itself, or its prefix with its digest."""
    text = escape(name)
    if len(text) <= MAX_INDEXED:
        return text
    digest = sha256(name.encode()).hexdigest()
    return f"{text[: MAX_INDEXED - 65]}{_SHORTENED}{digest}"


def is_shortened(text: str) -> bool:
    """Return whether *text*, from an index, is a shortened id."""
    return _SHORTENED in text
