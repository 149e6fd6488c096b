"""`toolbus check`: say what is still readable of a store's file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser
from toolbus.terminal.output import Output

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command

_EPILOG = """\
examples:
  toolbus check sessions.db                     what is in it, and what is wrong
  toolbus check sessions.db --recover new.db    write what is readable to new.db
  toolbus check sessions.db --json | jq .problems    one JSON document

It never changes the file. It ends with 0 if all is well, with 1 if there is
damage or a call has two answers or one far from it, and with 2 if the file is
no store or is a newer toolbus's.

What a cut file or a destroyed page has lost stays lost, and with it what only
that led to; a file without its head gives nothing. So keep copies:
  sqlite3 sessions.db ".backup copy.db\""""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus check", "Say what is still readable of a store, and what is wrong.", _EPILOG
    )
    parser.add_argument("store", metavar="STORE", help="its file, postgresql://… or service=NAME")
    parser.add_argument("--recover", metavar="NEW.db", help="write what is readable to a new file")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.check import check_store  # noqa: PLC0415 - loads SQLite

        errors = Output(sys.stderr)
        return check_store(output, errors, parsed.store, new=parsed.recover, as_json=parsed.json)

    return parser, run
