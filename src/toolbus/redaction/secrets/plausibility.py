"""Whether what a rule found is a secret: its value, the name beside it, and what stands between."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from toolbus.redaction.secrets.heuristics import (
    is_assigned_secret,
    is_of_manual,
    is_plausible,
    looks_made,
    looks_random,
)
from toolbus.redaction.secrets.names import NameKind, name_at, name_kind, name_start

if TYPE_CHECKING:
    from toolbus.redaction.secrets.engine import Hit
    from toolbus.redaction.secrets.rules import Rule

_QUOTES = b"\"'`"
_OPENING = 8
_COMMA = re.compile(rb"""[\\"'`\s]*,[\\"'`\sburf@$]*""")
# `NAME:` at the end of a line, and a value in the next one.
_NEXT_LINE = re.compile(rb"""["'`)\]]{0,3}[ \t]*[:=>]{0,2}\s*["'`]?""")
_BLANK = re.compile(r"\s")
# The first letters of a long value tell, and whatever names stand in it have one as long.
_CACHED, _LONGEST = 1_024, 512
_LONGEST_LINE = 256
# `sha256=x9_…`: a part of it may look like anything.
_DIGEST = re.compile(rb"(?i)(?:sha-?\d+|md5|integrity|digest|checksum)[=:-][\"'\w+/-]{0,60}\Z")
_DIGEST_REACH = 80
# What stands between so many letters of base64 is some of them, whatever it looks like.
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BLOB_REACH = 200


class Judge:
    """Judges what rules find in one record; a value that stands there often is looked at once."""

    def __init__(self) -> None:
        # Not for longer than a record is examined, since they hold secrets.
        self._is_plausible = lru_cache(maxsize=_CACHED)(_is_plausible)
        self._is_assigned_secret = lru_cache(maxsize=_CACHED)(is_assigned_secret)
        self.recurs = lru_cache(maxsize=_CACHED)(_recurs)
        """Returns whether an assumed value is the same secret wherever its record repeats it."""

    def is_likely(self, value: str, data: bytes, hit: Hit) -> bool:
        """Tell whether *value*, which *hit* found in *data*, can be a secret beside its name."""
        rule = hit.rule
        if not self._is_likely(value[:_LONGEST], data, hit):
            return False
        if rule.loose and _DIGEST.search(data, max(0, hit.start - _DIGEST_REACH), hit.start):
            return False
        return hit.name is not None or rule.foreign or not _is_in_blob(data, hit)

    def _is_likely(self, value: str, data: bytes, hit: Hit) -> bool:
        rule = hit.rule
        if hit.name is None and rule.kind is not None:
            return self._is_assigned_secret(value, rule.kind)
        if hit.name is None or not rule.loose:
            return self._is_plausible(value, rule)
        kind = _kind(data, hit)
        return kind is not None and self._is_assigned_secret(value, kind)


def _kind(data: bytes, hit: Hit) -> NameKind | None:
    """Return of what kind the value of *hit* is, by its name and what stands between the two."""
    start, end = hit.name or (0, 0)
    is_next_line = b"\n" in data[end : hit.start] and _NEXT_LINE.fullmatch(data, end, hit.start)
    if is_next_line and not _is_deeper(data, start, hit.start):
        return None
    kind = name_kind(name_at(data, start, end))
    if kind is not None and _COMMA.fullmatch(data, end, hit.start):
        return _kind_in_list(data, hit, kind)
    return kind


def _is_deeper(data: bytes, name: int, value: int) -> bool:
    """Tell whether the line of *value* is indented more than that of *name*, where they begin."""
    indents = []
    for position in (name, value):
        line = data[max(data.rfind(b"\n", 0, position) + 1, position - _LONGEST_LINE) : position]
        indents.append(len(line) - len(line.lstrip(b" \t-")))
    return indents[0] < indents[1]


def _is_in_blob(data: bytes, hit: Hit) -> bool:
    """Tell whether *hit* is but a part of a long run of base64 without a gap."""
    before = data[max(0, hit.start - _BLOB_REACH) : hit.start]
    behind = data[hit.end : hit.end + _BLOB_REACH]
    size = len(before) - len(before.rstrip(_BASE64)) + len(behind) - len(behind.lstrip(_BASE64))
    return size >= _BLOB_REACH


def _recurs(value: str) -> bool:
    # 16 letters or more, as a key has; no path, and no words.
    return _BLANK.search(value) is None and looks_random(value, NameKind.KEY)


def _is_plausible(value: str, rule: Rule) -> bool:
    if rule.keyed and not looks_made(value):
        return False
    return is_plausible(value, loose=rule.loose) and (rule.foreign or not is_of_manual(value))


def _kind_in_list(data: bytes, hit: Hit, kind: NameKind) -> NameKind | None:
    """Return what the name of *hit* says of what stands behind a comma.

    `define('DB_PASSWORD', 'x')` is a name and its value; `['USERPWD', 'HTTP200ALIASES']` is a list.
    """
    if hit.name is None or data[hit.start - 1] not in _QUOTES:
        return None
    first = name_start(data, hit.name[0])
    if data.startswith(b"-", first):
        return kind  # A flag and its value, as in a list of arguments.
    before = data[max(0, first - _OPENING) : first].rstrip()
    is_first_argument = before[-1:] in _QUOTES and before[:-1].rstrip().endswith(b"(")
    return kind if is_first_argument else NameKind.KEY
