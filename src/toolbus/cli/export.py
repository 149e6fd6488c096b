"""`toolbus export`: sessions of a store as JSON Lines, or one or two as a page of HTML."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, is_store, store_address
from toolbus.cli.output.blocks import count_things
from toolbus.cli.output.stream import Output, ProgressLine
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
from toolbus.history.lookup import find_session, first_folder
from toolbus.history.session_differences import compare_sessions
from toolbus.history.timeline import join_parts
from toolbus.redaction.placeholders import evened
from toolbus.settings.files import replacing
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader
from toolbus.store.store_reader import whole

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Sequence

    from toolbus.cli.parser import Command
    from toolbus.store.store_reader import SessionRow

_EPILOG = """\
examples:
  toolbus export agent.db -o all.jsonl           all sessions, into a new file
  toolbus export agent.db s-17 | less            one session, to read
  toolbus export agent.db -o all.jsonl --force   replace the file
  toolbus export --html agent.db s-17            one session, as s-17.html
  toolbus export --html agent.db s-17 s-18 -o d.html   two, side by side

A line opens each session; its messages follow, then its ledger records (digests
without values), and a line with their counts. `toolbus replay` reads the file
without loss. The state of components is left out: it may be secret.

A page of HTML needs no server and makes no request. It is redacted whatever the
store holds: credentials, personal data and home folders, in every text. It has
the number of hidden values by kind. Read it before you send it: names and more
are not found (`toolbus guide redaction-limits`). With --as-stored nothing is
hidden, and the page says so. It needs the extras `ui`, `redact` and `personal`."""

_LONGEST_NAME = 80


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus export", "Write sessions as JSON Lines, or as a page.", _EPILOG)
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument(
        "sessions", metavar="SESSION", nargs="*", help="its id, or the beginning; default: all"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="a new file, written atomically")
    parser.add_argument(
        "--html", action="store_true", help="write one session, or two side by side, as a page"
    )
    parser.add_argument("--as-stored", action="store_true", help="do not redact the page")
    parser.add_argument("--force", action="store_true", help="replace an existing file")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        store, sessions = parsed.store, parsed.sessions
        if store is not None and not is_store(store):
            store, sessions = None, [store, *sessions]
        if parsed.as_stored and not parsed.html:
            parser.error("--as-stored needs --html; JSON Lines are as stored")
        if parsed.html:
            return _export_page(store_address(store), sessions, parsed)
        return _export(output, _lines(store_address(store), sessions), parsed)

    return parser, run


def _export(output: Output, lines: Generator[Line], parsed: argparse.Namespace) -> int:
    """Write the lines to a new file, whole or not at all, or to *output*; return 0."""
    file = parsed.output
    if file is None or file == "-":
        with closing(lines):
            for line in lines:
                output.write(encode_line(line).decode())
                if output.lost is not None:
                    break
        return 0
    errors, sessions_count, messages_count = Output(sys.stderr), 0, 0
    with ProgressLine(errors) as progress, replacing(Path(file), force=parsed.force) as stream:
        for line in lines:
            stream.write(encode_line(line))
            sessions_count += isinstance(line, EndLine)
            messages_count += isinstance(line, MessageLine)
            progress.show(f"{messages_count:,} messages, session {sessions_count + 1:,}")
    errors.write(f"toolbus: {count_things(sessions_count, 'session')} written to {file}\n")
    return 0


def _export_page(address: str, sessions: Sequence[str], parsed: argparse.Namespace) -> int:
    """Write one session, or two side by side, to a new file of HTML; return 0."""
    from toolbus.cli.output.page_file import (  # noqa: PLC0415 - an extra
        describe_hidden,
        write_comparison,
        write_session,
    )
    from toolbus.cli.output.redacted_views import PageViews  # noqa: PLC0415 - slow, for few

    if parsed.output == "-":
        raise UsageError("--html writes a file, not to a pipe; give `-o FILE`, or leave it out")
    if (count := len(sessions)) not in {1, 2}:
        reason = f"--html writes one session or two, not {count}"
        raise UsageError(f"{reason}; `toolbus sessions STORE` lists them")
    with open_reader(address, live=True) as reader:
        rows = [find_session(reader, name) for name in sessions]
        views = PageViews(reader, rows, as_stored=parsed.as_stored)
        with ProgressLine(Output(sys.stderr)) as progress, ExitStack() as stack:
            if parsed.output is None:  # An id may have a value that a message reveals as secret.
                views.learn(progress)
            file = Path(parsed.output or page_name(views.sessions))
            stream = stack.enter_context(replacing(file, force=parsed.force))
            if parsed.output is not None:  # A file that exists is refused before the work.
                views.learn(progress)
            if len(rows) == 1:
                write_session(stream, views.sessions[0], views.parts(rows[0]), views.hidden)
            else:
                first, second = map(join_parts, map(views.parts, rows))
                write_comparison(stream, compare_sessions(first, second, evened), views.hidden)
    messages = count_things(sum([row.messages for row in rows]), "message")
    what = "as stored" if views.hidden is None else describe_hidden(views.hidden)
    Output(sys.stderr).write(f"toolbus: {messages} written to {file}; {what}\n")
    return 0


def page_name(sessions: Sequence[SessionRow]) -> str:
    """Return the name of a page of *sessions*."""
    return "-".join([file_name(session.id) for session in sessions]) + ".html"


def file_name(session_id: str) -> str:
    """Return *session_id* as the name of a file, without its extension."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", session_id)[:_LONGEST_NAME].lstrip(".-")
    return name or "session"


def _lines(address: str, wanted: Sequence[str]) -> Generator[Line]:
    with open_reader(address, live=True) as reader:
        ids = {find_session(reader, name).id for name in wanted}
        rows = list(reader.sessions())
        chosen = [row for row in rows if (row.id in ids if ids else row.has_entries)]
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
                records += len(whole(batch, session.id).records)
                yield from [RecordLine(record=record) for record in batch.records]
            yield EndLine(messages=messages, records=records)
