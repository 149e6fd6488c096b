"""`toolbus copy`: sessions from one store to another."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from toolbus.cli.options import store_address
from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.cli.parser import make_parser
from toolbus.errors import ToolbusError
from toolbus.history.lookup import find_session
from toolbus.settings.spans import Span
from toolbus.store.copy import SessionCopy, copy_session
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from toolbus.cli.parser import Command
    from toolbus.store.store_reader import SessionRow, StoreReader

_EPILOG = """\
examples:
  toolbus copy agent.db postgresql://db.example.com/agents    all sessions
  toolbus copy service=agents backup.db      back into a new file
  toolbus copy agent.db other.db --session 3f9a       one, with its sub-agents
  toolbus copy agent.db other.db --json | jq .digest    one JSON object a line

A session is copied whole: messages, ledger, state, originals and times. Each
copy is read back and compared by a digest. A second copy continues the first; a
session that has continued in TO, or has the same id as another one there, is
reported and left alone. FROM is only read. Do not write to a session during its
copy: the next copy brings the rest.

Exit codes: 0 all copied, 1 a session could not be copied, 2 usage error."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus copy", "Copy sessions from one store to another.", _EPILOG)
    parser.add_argument(
        "source", metavar="FROM", help="a file, postgresql://…, service=NAME or hooks"
    )
    parser.add_argument("target", metavar="TO", help="a store as FROM; a missing file is made")
    parser.add_argument(
        "--session",
        dest="sessions",
        metavar="SESSION",
        action="append",
        default=[],
        help="its id, or the beginning; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        source, report = store_address(parsed.source), _CopyReport(output, as_json=parsed.json)
        with open_reader(source, live=True) as reader:
            names = [find_session(reader, name).id for name in parsed.sessions]
            with ProgressLine(Output(sys.stderr)) as line:
                asyncio.run(_copy(reader, names, store_address(parsed.target), line, report))
        report.end()
        return 1 if report.failures else 0

    return parser, run


def _chosen(reader: StoreReader, names: list[str]) -> Iterator[SessionRow]:
    """Yield the sessions of *names* and their sub-agents'; without names all."""
    below = tuple([f"{name}/" for name in names])
    for session in reader.sessions():
        if not names or session.id in names or session.id.startswith(below):
            yield session


async def _copy(
    reader: StoreReader, names: list[str], target: str, line: ProgressLine, report: _CopyReport
) -> None:
    async with open_store(target) as store:
        for session in _chosen(reader, names):

            def progress(entries: int, session: SessionRow = session) -> None:
                done = min(1.0, entries / max(1, session.messages))
                line.show(f"session {session.id}", done)

            try:
                copy = await copy_session(reader, session, store, progress)
            except ToolbusError as error:
                copy = SessionCopy(session=session.id, status="failed", reason=str(error))
            line.hide()
            report.write(copy)


class _CopyReport:
    """The report of a copy on *output*: a line for each session, and the counts."""

    def __init__(self, output: Output, *, as_json: bool) -> None:
        self._output, self._as_json = output, as_json
        self._screen = open_screen(output)
        self._copied = self._unchanged = self.failures = 0

    def write(self, copy: SessionCopy) -> None:
        """Write the line of one session."""
        self._copied += copy.status == "copied"
        self._unchanged += copy.status == "unchanged"
        self.failures += copy.status == "failed"
        if self._as_json:
            print_json(self._output, copy)
        elif copy.status == "failed":
            self._screen.line(Span("✗ ", "bad"), Span(copy.session, "strong"))
            self._screen.prose(copy.reason, indent=2)
        else:
            sign = Span("✓ ", "good") if copy.status == "copied" else Span("= ", "dim")
            messages = count_things(copy.messages, "message")
            counts = f"{messages}, {count_things(copy.records, 'record')}"
            self._screen.line(sign, copy.session, right=[Span(counts, "dim")])

    def end(self) -> None:
        """Write the counts."""
        if not self._as_json:
            parts = [f"{self._copied:,} copied", f"{self._unchanged:,} were there already"]
            parts += [f"{self.failures:,} failed"] if self.failures else []
            self._screen.line(", ".join(parts))
