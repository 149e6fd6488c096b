"""One examination: all texts of a record are looked at, and then written anew without secrets."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from toolbus.messages.codec import encode
from toolbus.messages.text_walker import TextVisitor, rewrite_json
from toolbus.redaction.secrets.heuristics import is_assigned_secret, is_plausible
from toolbus.redaction.secrets.names import NameKind, name_at, name_kind
from toolbus.redaction.secrets.placeholders import without_placeholders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.redaction.secrets.engine import Engine, Hit
    from toolbus.redaction.secrets.secret_registry import SecretRegistry

MOST_SECRETS = 200
"""Secrets in one record; of more, none is told from the others."""

_MOST_HITS, _MOST_PLACES = 20_000, 100_000
_SHORTEST, _REST = 3, 8
_GAP, _LONG = 2, 512
_ESCAPED = frozenset('"\\\n\r\t')


class UnexaminedError(Exception):
    """A record was not examined to its end, for *reason*: it must not pass."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class ScanLimits(Struct, frozen=True):
    """What one examination may take: *chars* of text and *seconds* by *clock*."""

    chars: int
    seconds: float
    clock: Callable[[], float]


class Edit(Struct, frozen=True):
    """Bytes of a text from *start* to *end*, and what stands there instead."""

    start: int
    end: int
    placeholder: str


class SecretVisitor(TextVisitor):
    """Goes into all base64 data, whatever type that claims to have."""

    def reads(self, _mime_type: str | None, /) -> bool:
        """Return True: a key file has no type that says so."""
        return True


class Scanner(SecretVisitor):
    """Looks at texts, and enters what it finds in *registry*; changes nothing."""

    def __init__(
        self, engine: Engine, registry: SecretRegistry, allow: tuple[str, ...], limits: ScanLimits
    ) -> None:
        self._engine, self._registry, self._allow, self._limits = engine, registry, allow, limits
        self._until = limits.clock() + limits.seconds
        self._chars = 0
        self._secrets: set[str] = set()
        self.edits: dict[tuple[str, ...], list[Edit]] = {}
        self.exact: dict[str, str] = {}

    def check(self) -> None:
        """Raise `UnexaminedError` if the time is up."""
        if self._limits.clock() > self._until:
            seconds = self._limits.seconds
            raise UnexaminedError(f"to look through it takes longer than {seconds:g} seconds")

    def texts(self, adjoining: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Look at each of the texts, and at what stands across the places where they meet."""
        for text in adjoining:
            self._count(text)
            self._registry.note(text)
        for text in dict.fromkeys(adjoining):
            self._look_at(text)
        if len(adjoining) > 1:
            self._look_across(adjoining)
        return adjoining

    def json(self, value: Any) -> Any:
        """Look at *value* as JSON, where a key tells what its value is, and at its long texts."""
        if value is None or value in ((), {}):
            return value
        if isinstance(value, str):
            self.texts((value,))
            return value
        text = encode(value).decode()
        self._count(text)
        self._registry.note(text)
        placeholders = {
            _unescaped(value): edit.placeholder for edit, value in self._find(text, is_json=True)
        }
        self.exact |= placeholders

        def look(texts: tuple[str, ...], _: str) -> tuple[str, ...]:
            # The same again in most, but where it stands in the text of a leaf is to be known.
            for text in texts:
                if placeholders or not _ESCAPED.isdisjoint(text):
                    self._look_at(text)
            if len(texts) > 1:
                self._look_across(texts)
            return texts

        return rewrite_json(value, look)

    def _look_at(self, text: str) -> None:
        if edits := [edit for edit, _ in self._find(text)]:
            self.edits[text,] = edits

    def _look_across(self, adjoining: tuple[str, ...]) -> None:
        ends = list(accumulate([len(text.encode()) for text in adjoining]))
        across = [
            edit
            for edit, _ in self._find("".join(adjoining))
            if any(edit.start < end < edit.end for end in ends[:-1])
        ]
        if across:
            self.edits[adjoining] = across

    def _find(self, text: str, *, is_json: bool = False) -> Iterator[tuple[Edit, str]]:
        """Give what is to be edited in *text*, each with what stands there."""
        data = text.encode()
        hits: list[Hit] = []
        for hit in self._engine.find(data, self.check):
            hits.append(hit)
            if len(hits) > _MOST_HITS:
                raise UnexaminedError(f"more than {_MOST_HITS:,} places in it may be secrets")
        for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end, hit.number)):
            start, end = _whole(data, hit)
            value = data[start:end].decode()
            if self._is_secret(value) and _is_likely(value, data, hit):
                self._secrets.add(value)
                if len(self._secrets) > MOST_SECRETS:
                    raise UnexaminedError(f"it holds more than {MOST_SECRETS} secrets")
                yield Edit(start, end, self._named(value, hit.rule.name, is_json=is_json)), value

    def _named(self, value: str, rule: str, *, is_json: bool) -> str:
        plain = _unescaped(value)
        if plain == value:
            return self._registry.placeholder(value, rule)
        # A text may be a piece of JSON, or have backslashes of its own: nobody knows.
        return self._registry.placeholder(
            plain if is_json else value, rule, None if is_json else plain
        )

    def _is_secret(self, value: str) -> bool:
        if len(value) < _SHORTEST:
            return False
        rest = without_placeholders(value)
        if rest is not value and len(rest) < _REST:
            return False
        return not any(value == allowed or fnmatchcase(value, allowed) for allowed in self._allow)

    def _count(self, text: str) -> None:
        self._chars += len(text)
        if self._chars > self._limits.chars:
            limit = self._limits.chars
            raise UnexaminedError(f"it is too large: more than {limit:,} characters")


class Rewriter(SecretVisitor):
    """Writes texts anew, after a *scanner* has seen them all; one that is clean stays the same."""

    def __init__(self, registry: SecretRegistry, scanner: Scanner | None = None) -> None:
        self._registry = registry
        self._edits = {} if scanner is None else scanner.edits
        self._exact = {} if scanner is None else scanner.exact
        # What needs no looking may take the time that it takes.
        self._check = _unlimited if scanner is None else scanner.check

    def texts(self, adjoining: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Return the texts with placeholders in place of secrets."""
        if len(adjoining) == 1:
            return (self._rewritten(adjoining[0], []),)
        crossing = zip(adjoining, self._crossing(adjoining), strict=True)
        return tuple([self._rewritten(text, edits) for text, edits in crossing])

    def json(self, value: Any) -> Any:
        """Return *value* with its strings cleaned, keys too; the same object if nothing changes."""
        if self._edits or self._exact or self._registry.knows():
            return rewrite_json(value, self._exactly)
        return value

    def _exactly(self, adjoining: tuple[str, ...], _: str) -> tuple[str, ...]:
        self._check()
        return tuple([self._exact.get(text, text) for text in self.texts(adjoining)])

    def _rewritten(self, text: str, crossing: list[Edit]) -> str:
        """Return *text* rewritten; *crossing* is what goes on in another text or came from one."""
        # That comes first: of such a secret, a text by itself shows only a part.
        edits = [*crossing, *self._edits.get((text,), ())]
        if not edits and not (text and self._registry.knows()):
            return text
        data = _edited(text.encode(), edits)
        return _edited(data, self._places(data)).decode()

    def _places(self, data: bytes) -> list[Edit]:
        """Return where known secrets stand in *data*, in any form."""
        edits: list[Edit] = []
        for hit in self._registry.find(data, self._check):
            edits.append(Edit(hit.start, hit.end, hit.rule.name))
            if len(edits) > _MOST_PLACES:
                raise UnexaminedError(f"secrets stand in more than {_MOST_PLACES:,} places of it")
        return edits

    def _crossing(self, adjoining: tuple[str, ...]) -> Iterator[list[Edit]]:
        """Give, for each text, the edits of what stands across the places where the texts meet.

        The placeholder stands where a secret begins; the rest of it is cut out.
        """
        places = [*self._edits.get(adjoining, ()), *self._places("".join(adjoining).encode())]
        begin = 0
        for text in adjoining:
            stop = begin + len(text.encode())
            yield [
                Edit(
                    max(edit.start, begin) - begin,
                    min(edit.end, stop) - begin,
                    edit.placeholder if edit.start >= begin else "",
                )
                for edit in places
                if edit.start < stop and edit.end > begin
                if edit.start < begin or edit.end > stop
            ]
            begin = stop


def _edited(data: bytes, edits: list[Edit]) -> bytes:
    """Return *data* with all *edits* made; of two that overlap the first also covers the second."""
    pieces: list[bytes] = []
    position, previous = 0, Edit(0, 0, "")
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if edit.start >= position and not _goes_on(previous, edit):
            pieces += [data[position : edit.start], edit.placeholder.encode()]
        position, previous = max(position, edit.end), edit
    return b"".join([*pieces, data[position:]]) if edits else data


def _goes_on(previous: Edit, edit: Edit) -> bool:
    """Tell whether *edit* is the next piece of a long secret, which is found piece by piece."""
    if min(previous.end - previous.start, edit.end - edit.start) < _LONG:
        return False
    # In base64 the letters between two pieces belong to neither.
    return previous.placeholder == edit.placeholder and edit.start - previous.end <= _GAP


def _is_likely(value: str, data: bytes, hit: Hit) -> bool:
    """Tell whether *value*, found by *hit* in *data*, can be a secret of the kind of its name."""
    if hit.name is None or not hit.rule.loose:
        return is_plausible(value, loose=hit.rule.loose)
    kind = name_kind(name_at(data, *hit.name))
    between = data[hit.name[1] : hit.start]
    if kind is not None and b"," in between:
        # A list of words more often than a name and its value.
        kind = NameKind.KEY if between.endswith((b'"', b"'")) else None
    return kind is not None and is_assigned_secret(value, kind)


def _unlimited() -> None:
    """Look at no clock."""


def _whole(data: bytes, hit: Hit) -> tuple[int, int]:
    """Return the bytes of *hit*, and the rest of a letter that it begins or ends in."""
    start, end = hit.start, hit.end
    while start and data[start] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - RFC 3629
        end += 1
    return start, end


def _unescaped(text: str) -> str:
    """Return *text*, which may stand in JSON, as it was before it was written there."""
    if "\\" not in text:
        return text
    try:
        plain = msgspec.json.decode(f'"{text}"', type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    return plain
