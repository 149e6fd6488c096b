"""Ids as the server can keep and index them: it has no NUL, and no long text in an index."""

from __future__ import annotations

from hashlib import sha256

MAX_INDEXED = 600
"""Letters of an id that are indexed; an index takes 2,704 bytes, and a letter has up to four."""

# Two letters that mean nothing in any text (Unicode 23.7, noncharacters).
_ESCAPE, _SHORTENED = "\ufdd0", "\ufdd1"
_NUL, _ITSELF, _MARK = _ESCAPE + "0", _ESCAPE * 2, _ESCAPE + "1"


def escape(text: str) -> str:
    """Return *text* without NUL, in a way that `unescape` undoes; nearly all are as they were."""
    if "\0" not in text and _ESCAPE not in text and _SHORTENED not in text:
        return text
    escaped = text.replace(_ESCAPE, _ITSELF).replace("\0", _NUL)
    return escaped.replace(_SHORTENED, _MARK)


def unescape(text: str) -> str:
    """Return the text from which `escape` made *text*."""
    if _ESCAPE not in text:
        return text
    parts = text.split(_ITSELF)
    parts = [part.replace(_NUL, "\0").replace(_MARK, _SHORTENED) for part in parts]
    return _ESCAPE.join(parts)


def indexed(name: str) -> str:
    """Return the form of the id *name* in an index: itself, or its head and its digest."""
    text = escape(name)
    if len(text) <= MAX_INDEXED:
        return text
    digest = sha256(name.encode()).hexdigest()
    return f"{text[: MAX_INDEXED - 65]}{_SHORTENED}{digest}"


def is_shortened(text: str) -> bool:
    """Return whether *text*, of an index, is only the beginning of an id."""
    return _SHORTENED in text
