"""The texts of a record: gathered before any of them is examined, and written anew afterwards."""

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
    """Texts that follow each other; a text that stands alone is a group of its own."""

_MAX_ENCODED = 10_000
_LONG = 4_096
_GAP, _LONG_PIECE = 2, 512


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


class _StreamVisitor(SecretVisitor):
    """Visits the texts of a record, the first of them behind *tail*, the end of an earlier record.

    After a walk *latest* is the text that the next record goes on with.
    """

    def __init__(self, tail: str) -> None:
        self._tail, self.latest = tail, ""
        self.continued: Group = ()
        """The first texts, behind the tail."""

    def texts(self, texts: Group, _key: str = "", /) -> Group:
        """Return what becomes of *texts*."""
        self.latest = self.latest or texts[-1]
        if not self._tail:
            return self.group(texts)
        self.continued = (self._tail, *texts)
        self._tail = ""
        return self.group(self.continued)[1:]

    def group(self, group: Group) -> Group:
        """Return what becomes of the texts of *group*, which follow each other."""
        return group


class Collector(_StreamVisitor):
    """Gathers the texts of a record, each once, and changes nothing.

    Raises `UnexaminedError` for more than *max_chars* letters in all.
    """

    def __init__(self, max_chars: int, tail: str = "") -> None:
        super().__init__(tail)
        self._max_chars, self.chars, self._encoded_count = max_chars, 0, 0
        self.groups: dict[Group, None] = {}
        self.values: dict[str, Any] = {}
        """JSON values, by what they are in JSON."""
        self.encoded: dict[str, tuple[EncodedText, ...]] = {}
        """The texts that stand encoded in another one."""

    def group(self, group: Group) -> Group:
        """Gather the texts of *group*."""
        self._count(sum(map(len, group)))
        self.groups[group] = None
        for text in group:
            self._gather_encoded(text)
        return group

    def json(self, value: Any) -> Any:
        """Gather *value*, whose keys tell what its values are."""
        if isinstance(value, str):
            self.group((value,))
        elif value is not None and value not in ((), {}):
            data = encode(value)
            if len(data) > _LONG:
                data = encode(self._without_long(value))
            encoded = data.decode()
            self._count(len(encoded))
            self.values[encoded] = value
            # Of most no text is one, and then none of its strings is.
            if next(encoded_texts(data), None) is not None:
                for group in strings(value):
                    for text in group:
                        self._gather_encoded(text)
        return value

    def parts(self, group: Group) -> Sequence[Group]:
        """Return the texts of *group*, each by itself, and all together for where they meet.

        The tail by itself was examined with the record that it ended.
        """
        if len(group) == 1:
            return (group,)
        return [*[(text,) for text in group[group == self.continued :]], group]

    def _without_long(self, value: Any) -> Any:
        """Return *value* without its long texts, which are gathered by themselves.

        They are too long for a key to tell what they are, and stand in most results twice: as text
        as well. Those that adjoin others stay.
        """
        long = {group for group in strings(value) if len(group) == 1 and len(group[0]) > _LONG}
        if not long:
            return value
        for group in long:
            self.group(group)
        return rewrite_json(value, lambda group, _: ("",) if group in long else group)

    def _gather_encoded(self, text: str) -> None:
        """Gather what stands in *text* in base64, as a text of its own: of that, no more."""
        if text in self.encoded:
            return
        inner = tuple(islice(encoded_texts(text.encode()), _MAX_ENCODED))
        if inner:
            self.encoded[text] = inner
            self.groups.update({(encoded.text,): None for encoded in inner})
            self._encoded_count += len(inner)
            if self._encoded_count >= _MAX_ENCODED:
                raise UnexaminedError(f"{_MAX_ENCODED:,} texts in it, or more, are encoded")

    def _count(self, chars: int) -> None:
        self.chars += chars
        if self.chars > self._max_chars:
            raise UnexaminedError(f"it is too large: more than {self._max_chars:,} characters")


def strings(value: Any) -> Iterator[Group]:
    """Give the strings of the frozen JSON *value*, keys too; those of an array are adjoining."""
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
    """Writes texts anew; one that is clean stays the same.

    *edits* are those of a text, or of what stands across the places where adjoining texts meet;
    *exact* has placeholders for strings of JSON that are a secret as a whole; *encoded* tells what
    stands encoded in a text: that is written anew first, and encoded again.
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
        """Return *value* with its strings cleaned, keys too; the same object if nothing changes."""
        if self._edits or self._exact:
            return rewrite_json(value, self._exactly)
        return value

    def _exactly(self, group: Group, _: str) -> Group:
        return tuple([self._exact.get(text, text) for text in self.group(group)])

    def _rewritten(self, text: str, crossing: Sequence[Edit]) -> str:
        """Return *text* rewritten; *crossing* is what goes on in another text or came from one."""
        # That comes first: of such a secret, a text by itself shows only a part.
        edits = [*crossing, *self._edits.get((text,), ())]
        for inner in self._encoded.get(text, ()):
            if inner_edits := self._edits.get((inner.text,)):
                new = edited(inner.text.encode(), inner_edits).decode()
                edits.append(Edit(inner.start, inner.end, inner.encoded(new)))
        return edited(text.encode(), edits).decode() if edits else text

    def _crossing(self, group: Group) -> Iterator[list[Edit]]:
        """Give, for each text, the edits of what stands across the places where the texts meet.

        The placeholder stands where a secret begins; the rest of it is cut out.
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
    """Return *data* with all *edits* made; of two that overlap the first also covers the second."""
    pieces: list[bytes] = []
    position, previous = 0, Edit(0, 0, "")
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if edit.start >= position and not _goes_on(previous, edit):
            pieces += [data[position : edit.start], edit.placeholder.encode()]
        position, previous = max(position, edit.end), edit
    return b"".join([*pieces, data[position:]])


def _goes_on(previous: Edit, edit: Edit) -> bool:
    """Return whether *edit* is the next piece of a long secret, which is found piece by piece."""
    if min(previous.end - previous.start, edit.end - edit.start) < _LONG_PIECE:
        return False
    # In base64 the letters between two pieces belong to neither.
    is_same = previous.placeholder == edit.placeholder and edit.placeholder.startswith("[")
    return is_same and edit.start - previous.end <= _GAP
