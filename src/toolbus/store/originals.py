"""The values that a session keeps if it opted in: what handlers changed, refused or answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.messages.records import encode
from toolbus.store.protocol import Original

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord


def originals_of(records: Iterable[DispatchRecord]) -> tuple[Original, ...]:
    """Return the values in *records* that are not in the transcript anyway, each once."""
    values = {digest: value for record in records for digest, value in _values_of(record) if digest}
    return tuple([Original(digest=digest, body=encode(one)) for digest, one in values.items()])


def _values_of(record: DispatchRecord) -> Iterator[tuple[str, object]]:
    changes = [one for one in record.entries if one.before is not None]
    # What passed as it was is the message or the call itself. And the request of each turn, with
    # all messages so far, would make the file grow with the square of the session.
    if changes or record.outcome not in {"observed", "unchanged"}:
        yield record.original, record.value
    for entry in record.entries:
        if entry.detail is not None:
            yield entry.detail_digest, entry.detail
    for entry in changes:
        yield entry.before or "", entry.value_before
        yield entry.after or "", entry.value_after
