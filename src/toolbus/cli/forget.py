"""`toolbus forget`: delete what a session kept beside its messages, or old sessions as a whole."""

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
  toolbus forget agent.db 3f9a           the session whose id begins so
  toolbus forget agent.db "$SESSION"     by its whole id, in a script
  toolbus forget agent.db 3f9a --json    say how many as JSON
  toolbus forget agent.db 3f9a --state   what components keep, instead
  toolbus forget agent.db --before 2026-01-31             old sessions, whole
  toolbus forget agent.db --before 2026-01-31 --dry-run   which those would be

A session of `Agent(keep_originals=True)` keeps the values that handlers changed
or refused, and so the secrets that were taken out; `toolbus sessions` marks it.
They are overwritten in the file and in its log; messages and ledger stay.

With --state a budget begins anew, as does all else that components count.

With --before all sessions that were last written before that day (or time, UTC
unless it says otherwise) are deleted whole: messages, ledger, originals, state.
One that somebody works in is left."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser(
        "toolbus forget",
        "Delete what a session keeps beside its messages, or old sessions.",
        _EPILOG,
    )
    parser.add_argument(
        "database", metavar="STORE", help="its file, postgresql://… or service=NAME"
    )
    parser.add_argument(
        "session", metavar="SESSION", nargs="?", default=None, help="its id, or how that begins"
    )
    parser.add_argument("--state", action="store_true", help="what components keep for it instead")
    parser.add_argument("--before", metavar="DAY", help="sessions last written before, whole")
    parser.add_argument("--dry-run", action="store_true", help="with --before: list them only")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if (parsed.session is None) == (parsed.before is None):
            parser.error("forget what? give one SESSION, or --before and a day")
        if parsed.before is not None and parsed.state:
            parser.error("--before deletes state with all else; leave out --state")
        if parsed.before is not None:
            return _forget_before(parsed, output)
        if parsed.dry_run:
            parser.error("--dry-run lists sessions before a day; add --before")
        from toolbus.inspect.sessions import forget  # noqa: PLC0415 - loads half of the house

        return forget(
            output, parsed.database, parsed.session, state=parsed.state, as_json=parsed.json
        )

    return parser, run


def _forget_before(parsed: argparse.Namespace, output: Output) -> int:
    from toolbus.inspect.retention import forget_before  # noqa: PLC0415 - loads half of the house

    return forget_before(
        output,
        Output(sys.stderr),
        parsed.database,
        parsed.before,
        dry_run=parsed.dry_run,
        as_json=parsed.json,
    )
