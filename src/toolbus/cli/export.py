"""`toolbus export`: write sessions of a store as JSON Lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

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
    parser.add_argument(
        "database", metavar="STORE", help="its file, postgresql://… or service=NAME"
    )
    # With a default, a missing DB is not said to be a missing SESSION as well.
    parser.add_argument(
        "sessions", metavar="SESSION", nargs="*", default=[], help="its id; without one: all"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="a new file, written whole or not")
    parser.add_argument("--force", action="store_true", help="write over the file if it is there")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.export import run_export  # noqa: PLC0415 - loads half of the house

        return run_export(
            output,
            parsed.database,
            sessions=parsed.sessions,
            file=parsed.output,
            force=parsed.force,
        )

    return parser, run
