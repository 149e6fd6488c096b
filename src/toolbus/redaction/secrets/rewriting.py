"""How a record is written anew: what an examination found is looked up, and nothing is sought."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from toolbus.messages.text_walker import rewrite_json
from toolbus.redaction.secrets.collecting import SecretVisitor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolbus.redaction.encoded import EncodedText

_GAP, _LONG = 2, 512


class Edit(Struct, frozen=True):
    """Bytes of a text from *start* to *end*, and what stands there instead."""

    start: int
    end: int
    placeholder: str


class Rewriter(SecretVisitor):
    """Writes texts anew; one that is clean stays the same.

    *edits* are those of a text, or of what stands across the places where adjoining texts meet;
    *exact* has placeholders for strings of JSON that are a secret as a whole; *encoded* tells what
    stands encoded in a text: that is written anew first, and encoded again.
    """

    def __init__(
        self,
        edits: Mapping[tuple[str, ...], Sequence[Edit]],
        exact: Mapping[str, str],
        encoded: Mapping[str, Sequence[EncodedText]],
    ) -> None:
        self._edits, self._exact, self._encoded = edits, exact, encoded

    def texts(self, adjoining: tuple[str, ...], _key: str = "", /) -> tuple[str, ...]:
        """Return the texts with placeholders in place of secrets."""
        if len(adjoining) == 1 or adjoining not in self._edits:
            return tuple([self._rewritten(text, ()) for text in adjoining])
        crossing = zip(adjoining, self._crossing(adjoining), strict=True)
        return tuple([self._rewritten(text, edits) for text, edits in crossing])

    def json(self, value: Any) -> Any:
        """Return *value* with its strings cleaned, keys too; the same object if nothing changes."""
        if self._edits or self._exact:
            return rewrite_json(value, self._exactly)
        return value

    def _exactly(self, adjoining: tuple[str, ...], _: str) -> tuple[str, ...]:
        return tuple([self._exact.get(text, text) for text in self.texts(adjoining)])

    def _rewritten(self, text: str, crossing: Sequence[Edit]) -> str:
        """Return *text* rewritten; *crossing* is what goes on in another text or came from one."""
        # That comes first: of such a secret, a text by itself shows only a part.
        edits = [*crossing, *self._edits.get((text,), ()), *self._encoded_edits(text)]
        return _edited(text.encode(), edits).decode() if edits else text

    def _encoded_edits(self, text: str) -> Iterator[Edit]:
        """Give the edits of what stands encoded in *text*."""
        for inner in self._encoded.get(text, ()):
            edits = self._edits.get((inner.text,))
            if edits:
                new = _edited(inner.text.encode(), [*edits]).decode()
                yield Edit(inner.start, inner.end, inner.encoded(new))

    def _crossing(self, adjoining: tuple[str, ...]) -> Iterator[list[Edit]]:
        """Give, for each text, the edits of what stands across the places where the texts meet.

        The placeholder stands where a secret begins; the rest of it is cut out.
        """
        begin = 0
        for text in adjoining:
            stop = begin + len(text.encode())
            yield [
                Edit(
                    max(edit.start, begin) - begin,
                    min(edit.end, stop) - begin,
                    edit.placeholder if edit.start >= begin else "",
                )
                for edit in self._edits[adjoining]
                if edit.start < stop and edit.end > begin
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
    return b"".join([*pieces, data[position:]])


def _goes_on(previous: Edit, edit: Edit) -> bool:
    """Tell whether *edit* is the next piece of a long secret, which is found piece by piece."""
    if min(previous.end - previous.start, edit.end - edit.start) < _LONG:
        return False
    # In base64 the letters between two pieces belong to neither.
    is_same = previous.placeholder == edit.placeholder and edit.placeholder.startswith("[")
    return is_same and edit.start - previous.end <= _GAP
