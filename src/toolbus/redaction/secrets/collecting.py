"""The collector of a record's texts before the scan, and the rewriter of them after it."""

from __future__ import annotations

from itertools import accumulate, islice, pairwise
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.messages.codec import encode
from toolbus.messages.immutable import FrozenDict
from toolbus.messages.text_walker import TextVisitor, rewrite_json
from toolbus.redaction.encoded import EncodedText, encoded_texts
from toolbus.redaction.limits import UnexaminedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    Group: TypeAlias = tuple[str, ...]
    """Adjoining texts; a text without neighbours is a group of one."""

_MAX_ENCODED = 10_000
_LONG = 4_096
_GAP, _LONG_PIECE = 2, 512


class Edit(Struct, frozen=True):
    """The replacement of a text's bytes from *start* to *end*."""

    start: int
    end: int
    placeholder: str


class SecretVisitor(TextVisitor):
    """Visits all base64 data, whatever its MIME type."""

    def reads(self, _mime_type: str | None, /) -> bool:
        """Return True: key files have no MIME type that identifies them."""
        return True


class _StreamVisitor(SecretVisitor):
    """Visits the texts of a record, the first one behind *tail*, the end of an earlier record.

    After a walk *latest* is the text that the next record continues.
    """

    def __init__(self, tail: str) -> None:
        self._tail, self.latest = tail, ""
        self.continued: Group = ()
        """The first group of texts, behind the tail."""

    def texts(self, texts: Group, _key: str = "", /) -> Group:
        """Return *texts* rewritten."""
        self.latest = self.latest or texts[-1]
        if not self._tail:
            return self.group(texts)
        self.continued = (self._tail, *texts)
        self._tail = ""
        return self.group(self.continued)[1:]

    def group(self, group: Group) -> Group:
        """Return the adjoining texts of *group* rewritten."""
        return group


class Collector(_StreamVisitor):
    """Collects the texts of a record, each once, and changes nothing.

    Raises `UnexaminedError` above *max_chars* characters in total.
    """

    def __init__(self, max_chars: int, tail: str = "") -> None:
        super().__init__(tail)
        self._max_chars, self.chars, self._encoded_count = max_chars, 0, 0
        self.groups: dict[Group, None] = {}
        self.values: dict[str, Any] = {}
        """JSON values, by their encoding."""
        self.encoded: dict[str, tuple[EncodedText, ...]] = {}
        """The texts encoded inside another text."""

    def group(self, group: Group) -> Group:
        """Collect the texts of *group*."""
        self._count(sum(map(len, group)))
        self.groups[group] = None
        for text in group:
            self._gather_encoded(text)
        return group

    def json(self, value: Any) -> Any:
        """Collect *value* as a whole: its keys name its values."""
        if isinstance(value, str):
            self.group((value,))
        elif value is not None and value not in ((), {}):
            data = encode(value)
            if len(data) > _LONG:
                data = encode(self._without_long(value))
            encoded = data.decode()
            self._count(len(encoded))
            self.values[encoded] = value
            # Most values hold no encoded text, and then their strings hold none either.
            if next(encoded_texts(data), None) is not None:
                for group in strings(value):
                    for text in group:
                        self._gather_encoded(text)
        return value

    def parts(self, group: Group) -> Sequence[Group]:
        """Return the texts of *group* one by one, and together for the places where they meet.

        The tail alone was scanned with its own record.
        """
        if len(group) == 1:
            return (group,)
        return [*[(text,) for text in group[group == self.continued :]], group]

    def _without_long(self, value: Any) -> Any:
        """Return *value* without its long texts, which are collected separately.

        A key does not name a text of that length, and most results repeat it as plain text. Texts
        that adjoin others stay.
        """
        long = {group for group in strings(value) if len(group) == 1 and len(group[0]) > _LONG}
        if not long:
            return value
        for group in long:
            self.group(group)
        return rewrite_json(value, lambda group, _: ("",) if group in long else group)

    def _gather_encoded(self, text: str) -> None:
        """Collect the texts in base64 inside *text*, one level deep."""
        if text in self.encoded:
            return
        inner = tuple(islice(encoded_texts(text.encode()), _MAX_ENCODED))
        if inner:
            self.encoded[text] = inner
            self.groups.update({(encoded.text,): None for encoded in inner})
            self._encoded_count += len(inner)
            if self._encoded_count >= _MAX_ENCODED:
                raise UnexaminedError(f"it holds {_MAX_ENCODED:,} encoded texts or more")

    def _count(self, chars: int) -> None:
        self.chars += chars
        if self.chars > self._max_chars:
            raise UnexaminedError(f"it is too large: more than {self._max_chars:,} characters")


def strings(value: Any) -> Iterator[Group]:
    """Yield the strings of the frozen JSON *value*, including keys; an array's strings adjoin."""
    pending = [value]
    while pending:
        item = pending.pop()
        if type(item) is str:
            yield (item,)
        elif type(item) is FrozenDict:
            for key in item:
                yield (key,)
            pending += item.values()
        elif type(item) is tuple:
            if len(item) > 1 and {*map(type, item)} == {str}:
                yield item
            else:
                pending += item


class Rewriter(_StreamVisitor):
    """Rewrites texts; a clean text stays the same object.

    *edits* are the edits of each text, or of matches across adjoining texts; *exact* has the
    placeholders of JSON strings that are a secret as a whole; *encoded* yields the encoded texts
    inside a text, which are rewritten first and encoded again.
    """

    def __init__(
        self,
        edits: Mapping[Group, Sequence[Edit]],
        exact: Mapping[str, str],
        encoded: Mapping[str, Sequence[EncodedText]],
        tail: str = "",
    ) -> None:
        super().__init__(tail)
        self._edits, self._exact, self._encoded = edits, exact, encoded

    def group(self, group: Group) -> Group:
        """Return the texts with placeholders in place of secrets."""
        if len(group) == 1 or group not in self._edits:
            return tuple([self._rewritten(text, ()) for text in group])
        crossing = zip(group, self._crossing(group), strict=True)
        return tuple([self._rewritten(text, edits) for text, edits in crossing])

    def json(self, value: Any) -> Any:
        """Return *value* with its strings and keys rewritten; the same object if unchanged."""
        if self._edits or self._exact:
            return rewrite_json(value, self._exactly)
        return value

    def _exactly(self, group: Group, _: str) -> Group:
        return tuple([self._exact.get(text, text) for text in self.group(group)])

    def _rewritten(self, text: str, crossing: Sequence[Edit]) -> str:
        """Return *text* rewritten; *crossing* are edits of secrets that span several texts."""
        # Crossing edits come first: a single text shows only a part of such a secret.
        edits = [*crossing, *self._edits.get((text,), ())]
        for inner in self._encoded.get(text, ()):
            if inner_edits := self._edits.get((inner.text,)):
                new = edited(inner.text.encode(), inner_edits).decode()
                edits.append(Edit(inner.start, inner.end, inner.encoded(new)))
        return edited(text.encode(), edits).decode() if edits else text

    def _crossing(self, group: Group) -> Iterator[list[Edit]]:
        """Yield for each text the edits of secrets that span several texts of *group*.

        The placeholder goes where the secret begins; the rest of the secret is cut out.
        """
        for begin, stop in pairwise([0, *accumulate([len(text.encode()) for text in group])]):
            yield [
                Edit(
                    max(edit.start, begin) - begin,
                    min(edit.end, stop) - begin,
                    edit.placeholder if edit.start >= begin else "",
                )
                for edit in self._edits[group]
                if edit.start < stop and edit.end > begin
            ]


def edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return *data* with all *edits* applied; the first of two overlapping edits covers both."""
    pieces: list[bytes] = []
    position, previous = 0, Edit(0, 0, "")
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if edit.start >= position and not _goes_on(previous, edit):
            pieces += [data[position : edit.start], edit.placeholder.encode()]
        position, previous = max(position, edit.end), edit
    return b"".join([*pieces, data[position:]])


def _goes_on(previous: Edit, edit: Edit) -> bool:
    """Return whether *edit* is the next piece of a long secret, which is matched in pieces."""
    if min(previous.end - previous.start, edit.end - edit.start) < _LONG_PIECE:
        return False
    # In base64 the characters between two pieces belong to neither.
    is_same = previous.placeholder == edit.placeholder and edit.placeholder.startswith("[")
    return is_same and edit.start - previous.end <= _GAP
