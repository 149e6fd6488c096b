"""`toolbus sessions`: list what a store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus sessions agent.db                 the oldest first
  toolbus sessions agent.db | tail -3       the newest
  toolbus sessions agent.db --json | jq .id   for programs

"originals" marks a session that keeps what handlers changed or refused; see
`toolbus forget --help`. The file is only read."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus sessions", "List the sessions of a store.", _EPILOG)
    parser.add_argument(
        "database", metavar="STORE", help="its file, postgresql://… or service=NAME"
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument("--no-pager", action="store_true", help="write all at once")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.sessions import list_sessions  # noqa: PLC0415 - loads half of the house

        return list_sessions(
            output, parsed.database, as_json=parsed.json, pager=not parsed.no_pager
        )

    return parser, run
