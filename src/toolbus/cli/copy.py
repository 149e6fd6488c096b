"""`toolbus copy`: take sessions from one store to another."""

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
        from toolbus.inspect.copying_sessions import copy_sessions  # noqa: PLC0415 - loads half of the house

        return copy_sessions(
            output,
            Output(sys.stderr),
            parsed.source,
            parsed.target,
            sessions=tuple(parsed.sessions),
            as_json=parsed.json,
        )

    return parser, run
