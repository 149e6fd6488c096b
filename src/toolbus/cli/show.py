"""`toolbus show`: the messages of a session, and the interventions of handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from toolbus.bus.ledger.records import is_notable
from toolbus.cli.options import STORE_HELP, is_store, store_address
from toolbus.cli.output.blocks import (
    count_things,
    print_json,
    without_quoted,
    write_calls,
    write_invocation,
    write_text,
)
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser, positive
from toolbus.history.descriptions import (
    describe,
    describe_change,
    session_facts,
    utc_time,
)
from toolbus.history.lookup import find_session
from toolbus.history.message_history import status_of
from toolbus.messages.records import Message, ToolMessage
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader
from toolbus.store.store_reader import MessageRow, RecordBatch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.store.store_reader import SessionRow, StoreReader

_EPILOG = """\
examples:
  toolbus show agent.db 3f9a               the session with an id that begins so
  toolbus show agent.db 3f9a --last 20     its last 20 messages
  toolbus show agent.db 3f9a --follow      and new ones, until Ctrl-C
  toolbus show claude-code:3f9a            a session of a coding agent's hooks
  toolbus show agent.db 3f9a --json | jq   messages and records, one a line

Changes, refusals and failures of handlers are printed between the messages. The
id on the right of a message is for `toolbus explain`; an assistant message has
its provider's. Long output on a terminal goes through $PAGER. The file is only
read."""

PAUSE = 0.2
"""The seconds between two reads of a session with --follow."""
_INDENT = 6
Item: TypeAlias = "MessageRow | RecordBatch"


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus show", "Print the messages of a session.", _EPILOG)
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("session", metavar="SESSION", help="its id, or the beginning")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--from", type=positive, default=1, metavar="N", help="from message N on")
    where.add_argument("--last", type=positive, metavar="N", help="the last N messages")
    parser.add_argument("--full", action="store_true", help="print long texts in full")
    parser.add_argument("--follow", action="store_true", help="wait for new messages")
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument("--no-pager", action="store_true", help="do not page the output")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.store is None and is_store(parsed.session):
            parser.error(f"the session of {parsed.session!r} is missing")
        _show(parsed, output)
        return 0

    return parser, run


class SessionReader:
    """A reader of a session after message number *after*, in the order of the events."""

    def __init__(self, reader: StoreReader, session: int, after: int = 0) -> None:
        self._reader, self._session = reader, session
        self._after, self._last_record = after, 0

    def read_on(self) -> Iterator[Item]:
        """Yield the new messages, and before each message the records that led to it."""
        for row in self._reader.messages(self._session, self._after):
            yield from self._new(self._reader.record_batches(self._session, self._after, row.seq))
            self._after = row.seq
            yield row
        behind = self._reader.record_batches(self._session, self._after, self._after + 1)
        # A batch with a message is yielded with that message.
        yield from self._new(batch for batch in behind if not batch.with_message)

    def _new(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            # Pages after the last message are read again before the next message.
            if batch.seq > self._last_record:
                self._last_record = batch.seq
                yield batch


def _show(parsed: argparse.Namespace, output: Output) -> None:
    """Print a session, and with --follow its new messages until the reader of *output* leaves."""
    start, follow = vars(parsed)["from"], parsed.follow
    with open_reader(store_address(parsed.store), live=follow) as reader:
        session = find_session(reader, parsed.session)
        if start > max(1, session.messages) and not follow:
            has = f"session {session.id!r} has {session.messages:,} messages"
            raise UsageError(f"{has}, none from {start:,} on; give a smaller number")
        after = start - 1 if parsed.last is None else max(0, session.messages - parsed.last)
        timeline = SessionReader(reader, session.key, after)
        with paged(output, wanted=not (parsed.no_pager or parsed.json or follow)) as through:
            if parsed.json:
                write = _json_writer(through, session)
            else:
                write = _TextWriter(open_screen(through), session, full=parsed.full).write
            for item in _rounds(reader, timeline, through, follow=follow):
                write(item)
                if through.lost:
                    break


def _rounds(
    reader: StoreReader, timeline: SessionReader, output: Output, *, follow: bool
) -> Iterator[Item | None]:
    """Yield the items of one round of reading, and None at its end; with *follow* go on."""
    while True:
        # Read before the items, so that a write during the round starts another round.
        changes = reader.changes if follow else None
        yield from timeline.read_on()
        yield None
        if not follow:
            return
        while not output.lost and reader.changes == changes:
            output.rest(PAUSE)
        if output.lost:
            return


def _json_writer(output: Output, session: SessionRow) -> Callable[[Item | None], None]:
    """Return a function that writes an item as one JSON object a line, in the store's order."""

    def write(item: Item | None) -> None:
        if item is None:
            return
        if item.damage:
            print_json(output, {"kind": "damage", "reason": item.problem})
        elif isinstance(item, MessageRow):
            print_json(output, {"kind": "message", "seq": item.seq, "message": item.message})
        else:
            for record in item.records:
                before = item.message_seq
                print_json(output, {"kind": "record", "before": before, "record": record})

    print_json(output, {"kind": "session", **session_facts(session)})
    return write


class _TextWriter:
    """The text of a session on *screen*; *full* prints long texts in full."""

    def __init__(self, screen: Screen, session: SessionRow, *, full: bool) -> None:
        self._screen, self._full = screen, full
        self._waiting: RecordBatch | None = None
        messages = count_things(session.messages, "message")
        counts = f"{messages}, {count_things(session.records, 'record')}"
        screen.line("session ", Span(session.id, "strong"), right=[counts])
        times = f"{utc_time(session.created_ns)} to {utc_time(session.updated_ns)} UTC"
        screen.line(Span(times, "dim"))

    def write(self, item: Item | None) -> None:
        """Write a message with its interventions; a batch waits for its message or None."""
        waiting, self._waiting = self._waiting, item if isinstance(item, RecordBatch) else None
        records = () if waiting is None else waiting.records
        row = item if isinstance(item, MessageRow) else None
        self._damage(waiting)
        self._records([record for record in records if row is None or record.subject != row.id])
        if row is not None:
            self._damage(row)
            if row.message is not None:
                self._message(row.seq, row.message)
            self._records([record for record in records if record.subject == row.id])

    def _damage(self, item: Item | None) -> None:
        if item is not None and item.damage:
            self._screen.line()
            self._screen.prose(f"! {item.problem}", style="bad")

    def _records(self, records: Iterable[DispatchRecord]) -> None:
        for record in records:
            for entry in without_quoted(record.entries):
                if is_notable(entry.status):
                    write_invocation(self._screen, entry, _words(record, entry), indent=_INDENT)

    def _message(self, seq: int, message: Message) -> None:
        head: list[Span | str] = [f"{seq:>4}  ", Span(message.role, "strong")]
        if isinstance(message, ToolMessage):
            status = status_of(message)
            head += [
                f"  {message.tool_name}  ",
                Span(status, "good" if status == "ok" else "bad"),
            ]
        self._screen.line()
        self._screen.line(*head, right=[Span(message.id, "dim")])
        write_text(self._screen, message.text, indent=_INDENT, full=self._full)
        write_calls(self._screen, message, indent=_INDENT)


def _words(record: DispatchRecord, entry: HandlerEntry) -> list[Span | str]:
    """Return what a handler did, and the id of the message or call."""
    words = describe(entry.status, record.event, record.subject)
    if entry.before is not None and entry.status != "rejected":
        words += f", {describe_change(entry.fields, entry.size_before, entry.size_after)}"
    return [Span(entry.name, "strong"), f" {words}"]
