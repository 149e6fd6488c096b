"""The life of one message or call, as data: what handlers did to it, what was stored and read."""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    MODEL_CALL_BEFORE,
)
from toolbus.inspect.calls import CallLife, call_life
from toolbus.inspect.passages import Passage, Seen, passage_of
from toolbus.messages.records import AssistantMessage, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.inspect.finding import Found
    from toolbus.store.archive import Archive, MessageRow, Page

_FAR = 1_000
"""How many messages are looked through for the next one of the model."""


class Life(Struct, frozen=True, kw_only=True):
    """All that a store knows of one message or call.

    *seq* is the message's number in its session, None if it never entered. *read* is what the
    model read if that is not what was *stored*, *returned* what a tool gave if the model read
    something else, *requests* the later changes of what was sent to the model. *damage* names
    rows that cannot be read.
    """

    session: str
    id: str
    role: str
    seq: int | None
    call: CallLife | None
    passages: tuple[Passage, ...]
    returned: Seen | None
    read: Seen | None
    stored: Message | None
    requests: tuple[Passage, ...]
    damage: tuple[str, ...]


def life_of(archive: Archive, found: Found) -> Life:
    """Return the life of what was *found*."""
    pages = list(_pages(archive, found))
    records = list(_records(found, pages))
    session, row = found.session.key, found.row
    passages = tuple([passage_of(archive, session, record) for record in records])
    stored = row.message if row else None
    damage = [one.problem for one in pages] + [one.problem for one in _rows(found)]
    return Life(
        session=found.session.id,
        id=row.id if row else found.name,
        role=stored.role if stored else "",
        seq=row.seq if row else None,
        call=call_life(found, passages) if found.call_id else None,
        passages=passages,
        returned=_before(MESSAGE_APPEND_BEFORE.name, passages),
        read=_before(MESSAGE_PERSIST_BEFORE.name, passages),
        stored=stored,
        requests=tuple(_requests(archive, found)),
        damage=tuple(dict.fromkeys(filter(None, damage))),
    )


def _rows(found: Found) -> list[MessageRow]:
    return [row for row in (found.row, found.asking) if row]


def _pages(archive: Archive, found: Found) -> Iterator[Page]:
    """Give the pages that speak of it, each once, in order."""
    pages = [page for row in _rows(found) if (page := archive.page(row.key))]
    for name in {found.name, found.call_id, found.row.id if found.row else ""} - {""}:
        pages += archive.pages_of(name, found.asking.key if found.asking else 0)
    own = {page.seq: page for page in pages if page.session == found.session.key}
    return iter([own[seq] for seq in sorted(own)])


def _records(found: Found, pages: list[Page]) -> Iterator[DispatchRecord]:
    """Give the records about it; an id of a call may have been used before, and again."""
    first = found.asking.seq if found.asking else 0
    last = found.again.seq if found.again else inf
    for page in pages:
        for record in page.records:
            its_turn = first < page.place <= last
            about_call = found.call_id and found.call_id == record.call_id and its_turn
            if about_call or record.subject == (found.row.id if found.row else found.name):
                yield record


def _before(event: str, passages: tuple[Passage, ...]) -> Seen | None:
    """Return what the last passage through *event* began with, if it did not come out the same."""
    for passage in reversed(passages):
        if passage.event == event:
            return passage.original if passage.outcome != "unchanged" else None
    return None


def _requests(archive: Archive, found: Found) -> Iterator[Passage]:
    """Give how handlers changed the messages of the first request with this one in it."""
    if found.row is None:
        return
    key, after = found.session.key, found.row.seq
    for row in islice(archive.messages(key, after), _FAR):
        page = archive.page(row.key)
        for record in page.records if page else ():
            fields = {field for entry in record.entries for field in entry.fields}
            if record.event == MODEL_CALL_BEFORE.name and "messages" in fields:
                yield passage_of(archive, key, record)
        if isinstance(row.message, AssistantMessage):
            return
