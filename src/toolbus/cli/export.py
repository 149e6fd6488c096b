"""`toolbus export`: write sessions of a store as JSON Lines."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, is_store, store_address
from toolbus.cli.parser import make_parser
from toolbus.errors import DecodeError
from toolbus.formats.native import (
    EndLine,
    HeaderLine,
    Line,
    MessageLine,
    RecordLine,
    SessionLine,
    encode_line,
)
from toolbus.settings.files import replacing
from toolbus.settings.hints import nearest
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader
from toolbus.store.store_reader import first_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Sequence

    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.store.store_reader import SessionRow

_EPILOG = """\
examples:
  toolbus export agent.db -o all.jsonl           every session, into a new file
  toolbus export agent.db s-17 | less            one session, to look at
  toolbus export agent.db -o all.jsonl --force   write over the file

A line opens each session, then come its messages, its ledger records (digests,
no values) and a line that counts them. `toolbus replay` reads it without loss.
What components keep for a session is not written: it may be secret."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus export", "Write sessions of a store as JSON Lines.", _EPILOG)
    parser.add_argument("database", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("sessions", metavar="SESSION", nargs="*", help="its id; without one: all")
    parser.add_argument("-o", "--output", metavar="FILE", help="a new file, written whole or not")
    parser.add_argument("--force", action="store_true", help="write over the file if it is there")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        database, sessions = parsed.database, parsed.sessions
        if database is not None and not is_store(database):
            database, sessions = None, [database, *sessions]
        return run_export(
            output,
            store_address(database),
            sessions=sessions,
            file=parsed.output,
            force=parsed.force,
        )

    return parser, run


def run_export(
    output: Output,
    database: str,
    *,
    sessions: Sequence[str] = (),
    file: str | None = None,
    force: bool = False,
) -> int:
    """Write *sessions* of *database*, all if none is named, to *file* or to *output*; return 0.

    The file is there whole or not at all. Raises `StoreError`, `DecodeError` for a damaged row,
    and `UsageError` for a file that is there, without *force*.
    """
    if file is None or file == "-":
        with closing(_lines(database, sessions)) as lines:
            for line in lines:
                output.write(encode_line(line).decode())
                if output.lost is not None:
                    break
        return 0
    count = 0
    with replacing(Path(file), force=force) as stream:
        for line in _lines(database, sessions):
            stream.write(encode_line(line))
            count += isinstance(line, EndLine)
    noun = "session" if count == 1 else "sessions"
    print(f"toolbus: {count} {noun} written to {file}", file=sys.stderr)  # noqa: T201 - for a person
    return 0


def _lines(database: str, wanted: Sequence[str]) -> Generator[Line]:
    with open_reader(database, live=True) as reader:
        chosen = _chosen(list(reader.sessions()), wanted)
        yield HeaderLine()
        for session in chosen:
            times = {"created_ns": session.created_ns, "updated_ns": session.updated_ns}
            folder = first_folder(reader, session.key)
            yield SessionLine(id=session.id, **times, folder=folder)
            messages = records = 0
            for row in reader.messages(session.key):
                if row.message is None:
                    raise DecodeError(row.problem_in(session.id))
                messages += 1
                yield MessageLine(message=row.message)
            for batch in reader.record_batches(session.key):
                if batch.damage:
                    raise DecodeError(batch.problem_in(session.id))
                records += len(batch.records)
                yield from [RecordLine(record=record) for record in batch.records]
            yield EndLine(messages=messages, records=records)


def _chosen(known: Sequence[SessionRow], wanted: Sequence[str]) -> list[SessionRow]:
    """Return the sessions that are *wanted*, each once, in the order of the store."""
    ids = [session.id for session in known]
    for session_id in wanted:
        if session_id not in ids:
            hint = nearest(session_id, ids) or "; see `toolbus sessions`"
            raise UsageError(f"no session {session_id!r}{hint}")
    return [session for session in known if not wanted or session.id in wanted]
