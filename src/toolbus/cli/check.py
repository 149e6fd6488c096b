"""`toolbus check`: the damage of a store, and the recovery of its readable part."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, store_address
from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.screen import Screen, open_screen
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.cli.parser import make_parser
from toolbus.errors import WrongPathError
from toolbus.settings.spans import Span
from toolbus.store.check.recovery import recover
from toolbus.store.check.session_check import check_file, check_reader
from toolbus.store.store_factory import is_postgres, open_reader

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Command
    from toolbus.store.check.session_check import CheckReport, ProgressCallback, SessionState

_EPILOG = """\
examples:
  toolbus check sessions.db                     its content and damage
  toolbus check                                 the store of the hooks
  toolbus check sessions.db --recover new.db    its readable part, to new.db
  toolbus check sessions.db --json | jq .problems    one JSON document

The file is never changed. Exit codes: 0 no problems, 1 damage, or a call with a
second or misplaced answer, 2 not a store, or a store of a newer toolbus.

The content of a cut file or a destroyed page is lost, with everything that is
reachable only from there; a file without its head cannot be read. So keep
copies:
  sqlite3 sessions.db ".backup copy.db\""""

_MAX_PROBLEMS = 20
"""The problems that a person reads; --json has all."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus check", "Check a store for damage, and recover it.", _EPILOG)
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("--recover", metavar="NEW.db", help="write the readable part to a new file")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        with ProgressLine(Output(sys.stderr)) as line:

            def progress(done: int, total: int) -> None:
                line.show(f"{total:,} messages and records", done / total)

            report = _report(store_address(parsed.store), parsed.recover, progress)
        if parsed.json:
            print_json(output, report)
        else:
            _show(report, open_screen(output))
        return 0 if report.is_whole else 1

    return parser, run


def _report(where: str, new: str | None, progress: ProgressCallback) -> CheckReport:
    if not is_postgres(where):
        return recover(where, new, progress) if new is not None else check_file(where, progress)
    if new is not None:
        reason = "--recover needs a file; `toolbus copy` copies whole sessions"
        raise WrongPathError(where, reason)
    with open_reader(where, live=True) as reader:
        return check_reader(where, reader, progress)


def _show(report: CheckReport, screen: Screen) -> None:
    pages = f"{count_things(report.pages, 'page')}, " if report.pages else ""
    facts = f"version {report.version}, {pages}{report.bytes:,} bytes"
    screen.line(Span(report.path, "strong"), right=[Span(facts, "dim")])
    if report.sessions:
        screen.table([_row(state) for state in report.sessions], indent=2, numbers=True)
    for note in report.notes:
        screen.prose(f"note: {note}", style="dim")
    for problem in report.problems[:_MAX_PROBLEMS]:
        screen.prose(f"✗ {problem}", style="bad")
    if (rest := len(report.problems) - _MAX_PROBLEMS) > 0:
        note = f"  and {count_things(rest, 'more problem')}; see them with --json"
        screen.line(Span(note, "dim"))
    _show_verdict(report, screen)


def _row(state: SessionState) -> list[Span | str]:
    lost = {"message": 0, "record": 0}
    for rows in state.lost:
        lost[rows.kind] += rows.count
    open_ends = [
        count_things(number, f"{what} without {other}", f"{what}s without {other}")
        for number, what, other in (
            (state.unanswered, "call", "result"),
            (state.unasked, "result", "call"),
        )
        if number
    ]
    return [
        state.id,
        count_things(state.messages, "message"),
        count_things(state.records, "record"),
        count_things(state.states, "state") if state.states else "",
        Span(", ".join([f"{count_things(n, kind)} lost" for kind, n in lost.items() if n]), "bad"),
        Span(", ".join(open_ends), "dim"),
    ]


def _show_verdict(report: CheckReport, screen: Screen) -> None:
    if report.is_whole:
        screen.line(Span("✓ ", "good"), "no damage found")
    elif not report.sessions:
        screen.line(Span("✗ ", "bad"), "nothing is readable; restore it from a copy")
    elif is_postgres(report.path):
        screen.line(Span("✗ ", "bad"), "damaged; copy the sessions that are whole:")
        screen.command("toolbus", "copy", report.path, "NEW.db")
    elif report.recovered is None:
        screen.line(Span("✗ ", "bad"), "damaged; write the readable part to a new file:")
        screen.command("toolbus", "check", report.path, "--recover", "NEW.db")
    if report.saved is not None:
        kinds = ("session", "message", "record", "original", "state")
        saved = [count_things(getattr(report.saved, f"{kind}s"), kind) for kind in kinds]
        screen.whole(f"{', '.join(saved)} were written to {report.recovered}")
