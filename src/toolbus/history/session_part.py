"""A part of a session: the slots of its messages and calls, each with the records about it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from toolbus.bus.ledger.records import is_notable
from toolbus.events.catalogue import (
    MCP_REQUEST_BEFORE,
    MODEL_CALL_BEFORE,
    MODEL_CALL_ERROR,
    RUN_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
)
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.messages.records import Message, ToolCall
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import MessageRow, RecordBatch, SessionRow

_OF_REQUEST = {
    event.name for event in (RUN_BEFORE, TOOLS_PROVIDE, MODEL_CALL_BEFORE, MODEL_CALL_ERROR)
}
"""The events before a message that has no id yet."""


_MOST_UNSTORED = 100
"""The most slots without a message that stand before one message; further ones are dropped."""


class Slot:
    """The place of a message or call, or of *records* without either, before message *seq*."""

    def __init__(
        self, seq: int, name: str = "", row: MessageRow | None = None, call: ToolCall | None = None
    ) -> None:
        self.seq, self.id, self.row, self.call = seq, name, row, call
        self.records: list[DispatchRecord] = []
        self.calls: list[Slot] = []
        self.answer: Slot | None = None

    @property
    def message(self) -> Message | None:
        """The message of the row."""
        return self.row.message if self.row else None


class SessionPart:
    """The slots of *rows*, and of records that belong to no message."""

    def __init__(self, reader: SqlReader, session: SessionRow, rows: list[MessageRow]) -> None:
        self._reader, self._key = reader, session.key
        self._slots: list[Slot] = []
        self._messages: dict[str, Slot] = {}
        self._calls: dict[str, list[Slot]] = {}
        # Dispatches of a request, until its message or the end of the turn.
        self._request: list[tuple[int, DispatchRecord]] = []
        self._unstored, self._elsewhere = Counter[int](), set[str]()
        self.is_cut = False
        for row in rows:
            self._add(row)
        self._late = [row for row in map(self._find_answer, self._open_calls()) if row]

    def slots(self) -> list[Slot]:
        """Return the slots in the order of time."""
        return sorted(self._slots, key=lambda slot: (slot.seq, slot.row is not None))

    def add_records(self, batches: Sequence[RecordBatch], end: int | None) -> None:
        """Add the records of *batches*; records behind message *end* need not be in this part."""
        seen = {batch.seq for batch in batches}
        for batch in batches:
            is_later = end is not None and batch.message_seq > end
            for record in batch.records:
                self._add_record(record, batch.message_seq, is_later=is_later)
        for row in self._late:
            late = self._reader.batch_of(row)
            is_new = late is not None and late.seq not in seen
            for record in late.records if late is not None and is_new else ():
                self._add_record(record, row.seq, is_later=True)
        self._end_request()

    def _add(self, row: MessageRow) -> None:
        message = row.message
        if isinstance(message, ToolMessage) and self._has_place(message, row):
            return
        slot = self._messages[row.id] = Slot(row.seq, row.id, row)
        self._slots.append(slot)
        match message:
            case AssistantMessage(tool_calls=calls):
                slot.calls += [Slot(row.seq, call.id, row, call) for call in calls]
            case ToolMessage(tool_call_id=call_id):
                slot.calls.append(Slot(row.seq, call_id))
                slot.calls[0].answer = slot
        for each in slot.calls:
            self._calls.setdefault(each.id, []).append(each)

    def _has_place(self, message: ToolMessage, row: MessageRow) -> bool:
        """Return whether a call has the place for its answer *message*, here or earlier."""
        calls = self._calls.get(message.tool_call_id, [])
        for call in calls:
            if call.answer is None:
                self._answer(call, row)
                return True
        # The store finds the request of another part by an index.
        earlier = self._reader.messages_of_call(message.tool_call_id, self._key, row)
        return not calls and bool(earlier) and isinstance(earlier[-1].message, AssistantMessage)

    def _answer(self, call: Slot, row: MessageRow) -> None:
        call.answer = self._messages[row.id] = Slot(row.seq, row.id, row)

    def _open_calls(self) -> list[Slot]:
        return [call for calls in self._calls.values() for call in calls if call.answer is None]

    def _find_answer(self, call: Slot) -> MessageRow | None:
        """Return the answer of *call* behind this part, and give it its place."""
        row = self._reader.after_in_call(call.id, call.row) if call.row else None
        if row is None or not isinstance(row.message, ToolMessage) or row.id in self._messages:
            return None
        self._answer(call, row)
        return row

    def _add_record(self, record: DispatchRecord, seq: int, *, is_later: bool) -> None:
        slot = self._slot_of(record, seq)
        if slot is not None:
            if isinstance(slot.message, UserMessage | AssistantMessage):
                self._end_request(slot)
            slot.records.append(record)
        elif is_later:
            return
        elif record.subject or record.call_id:
            self._add_unstored(record, seq)
        elif record.event in _OF_REQUEST:
            if self._request and self._request[-1][1].scope != record.scope:
                self._end_request()
            self._request.append((seq, record))
        elif _is_telling(record):
            self._stand_alone(record, seq)

    def _slot_of(self, record: DispatchRecord, seq: int) -> Slot | None:
        """Return the slot of the message or call of *record*, which stands before message *seq*."""
        if record.subject != record.call_id and record.subject in self._messages:
            return self._messages[record.subject]
        calls = self._calls.get(record.call_id, [])
        # Some models reuse the ids of calls.
        earlier = [call for call in calls if call.seq <= seq]
        return earlier[-1] if earlier else calls[0] if calls else None

    def _end_request(self, slot: Slot | None = None) -> None:
        """Move the dispatches of a request to the *slot* of its message, or to new slots."""
        for seq, record in self._request:
            is_start = record.event == RUN_BEFORE.name
            if slot is not None and is_start == isinstance(slot.message, UserMessage):
                slot.records.append(record)
            elif _is_telling(record):
                self._stand_alone(record, seq)
        self._request.clear()

    def _add_unstored(self, record: DispatchRecord, seq: int) -> None:
        """Add a slot for a refused message or a program's call, unless another part has it."""
        call_id, is_telling = record.call_id, _is_telling(record)
        if {record.subject, call_id} & self._elsewhere:
            return
        if call_id and (is_telling or record.event == TOOL_CALL_BEFORE.name):
            if self._reader.messages_of_call(call_id, self._key):
                self._elsewhere.add(call_id)
            else:
                self._calls[call_id] = [self._stand_alone(record, seq, call_id)]
        elif is_telling:
            if self._reader.messages_of(record.subject, self._key):
                self._elsewhere.add(record.subject)
            else:
                self._messages[record.subject] = self._stand_alone(record, seq)

    def _stand_alone(self, record: DispatchRecord, seq: int, call_id: str = "") -> Slot:
        slot = Slot(seq, record.subject)
        self._unstored[seq] += 1
        if self._unstored[seq] <= _MOST_UNSTORED:
            self._slots.append(slot)
        else:
            self.is_cut = True
        if call_id:
            slot.calls.append(Slot(seq, call_id))
            slot = slot.calls[0]
        slot.records.append(record)
        return slot


def _is_telling(record: DispatchRecord) -> bool:
    """Return whether *record* is shown without a message: an effect, a note, a client's request."""
    has_effect = record.outcome not in {"observed", "unchanged"} or bool(record.reason)
    is_request = record.event == MCP_REQUEST_BEFORE.name
    return has_effect or is_request or any(is_notable(each.status) for each in record.entries)
