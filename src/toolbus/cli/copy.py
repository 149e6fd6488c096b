"""`toolbus copy`: take sessions from one store to another."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.lookup import find_session
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.cli.parser import make_parser
from toolbus.errors import ToolbusError
from toolbus.settings.spans import Span
from toolbus.store.copy import SessionCopy, copy_session
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from toolbus.cli.parser import Command
    from toolbus.store.protocol import Store
    from toolbus.store.store_reader import SessionRow, StoreReader

_EPILOG = """\
examples:
  toolbus copy agent.db postgresql://db.example.com/agents    all sessions
  toolbus copy service=agents backup.db      back into a file, which is made
  toolbus copy agent.db other.db --session 3f9a       one, and its sub-agents
  toolbus copy agent.db other.db --json | jq .digest    one JSON object a line

A session goes over whole: messages, ledger, state and originals, and its times.
What came over is read back and compared by a digest. Copied again, it goes on
where it stopped; a session that has gone on in TO, or is another one there, is
left as it is, and told of. FROM is only read. Nobody should work in a session
while it is copied: what is written meanwhile comes with the next copy.

It ends with 0 if all is there, with 1 if a session could not be copied, and
with 2 for wrong use."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus copy", "Take sessions from one store to another, whole.", _EPILOG)
    parser.add_argument("source", metavar="FROM", help="a file, postgresql://… or service=NAME")
    parser.add_argument("target", metavar="TO", help="as FROM; a file is made")
    parser.add_argument(
        "--session",
        dest="sessions",
        metavar="SESSION",
        action="append",
        default=[],
        help="its id, or how that begins; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        return copy_sessions(
            output,
            Output(sys.stderr),
            parsed.source,
            parsed.target,
            sessions=tuple(parsed.sessions),
            as_json=parsed.json,
        )

    return parser, run


def copy_sessions(
    output: Output,
    errors: Output,
    source: str,
    target: str,
    *,
    sessions: tuple[str, ...] = (),
    as_json: bool = False,
) -> int:
    """Copy *sessions* of the store *source*, with those below them, else all, to *target*.

    Prints what became of each; how far it is goes to *errors*, if that is a terminal. Returns 1 if
    one could not be copied; the others are all the same. Raises `StoreError` for a store that
    cannot be opened, and `UsageError` for an unknown session.
    """
    report = _CopyReport(output, as_json=as_json)
    with open_reader(source, live=True) as reader:
        names = [find_session(reader, name).id for name in sessions]
        line = ProgressLine(errors)
        try:
            asyncio.run(_copy(reader, names, target, line, report))
        finally:
            line.hide()
    report.end()
    return 1 if report.failures else 0


def _chosen(reader: StoreReader, names: list[str]) -> Iterator[SessionRow]:
    """Give the sessions of *names*, and those of their sub-agents; all, if there are none."""
    below = tuple([f"{name}/" for name in names])
    for session in reader.sessions():
        if not names or session.id in names or session.id.startswith(below):
            yield session


async def _copy(
    reader: StoreReader, names: list[str], target: str, line: ProgressLine, report: _CopyReport
) -> None:
    store: Store = open_store(target)
    try:
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
    finally:
        await store.close()


class _CopyReport:
    """Writes what became of each session on *output*."""

    def __init__(self, output: Output, *, as_json: bool) -> None:
        self._output, self._as_json = output, as_json
        self._screen = open_screen(output)
        self._copied = self._unchanged = self.failures = 0

    def write(self, copy: SessionCopy) -> None:
        """Write a line on one session."""
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
        """Write how many there were."""
        if not self._as_json:
            parts = [f"{self._copied:,} copied", f"{self._unchanged:,} were there already"]
            parts += [f"{self.failures:,} failed"] if self.failures else []
            self._screen.line(", ".join(parts))
