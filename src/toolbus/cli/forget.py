"""`toolbus forget`: delete the originals that a session kept, or what components kept for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus forget agent.db 3f9a           the session whose id begins so
  toolbus forget agent.db "$SESSION"     by its whole id, in a script
  toolbus forget agent.db 3f9a --json    say how many as JSON
  toolbus forget agent.db 3f9a --state   what components keep, instead

A session of `Agent(keep_originals=True)` keeps the values that handlers changed
or refused, and so the secrets that were taken out; `toolbus sessions` marks it.
They are overwritten in the file and in its log; messages and ledger stay.

With --state a budget begins anew, as does all else that components count."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus forget", "Delete what is kept for a session beside its messages.", _EPILOG
    )
    parser.add_argument("database", metavar="DB", help="the SQLite file of a store")
    parser.add_argument("session", metavar="SESSION", help="its id, or how that begins")
    parser.add_argument("--state", action="store_true", help="what components keep for it instead")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.sessions import forget  # noqa: PLC0415 - loads half of the house

        return forget(
            output, parsed.database, parsed.session, state=parsed.state, as_json=parsed.json
        )

    return parser, run
