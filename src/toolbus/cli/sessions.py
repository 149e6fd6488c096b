"""`toolbus sessions`: list what a store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser
from toolbus.cli.store_names import store_address

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus sessions                          those of coding agents
  toolbus sessions agent.db                 the oldest first
  toolbus sessions agent.db | tail -3       the newest
  toolbus sessions agent.db --json | jq .id   for programs

The store of the hooks in coding agents is called `hooks`: its sessions are read
by `toolbus show hooks SESSION` and `toolbus explain hooks --call ID`.

"originals" marks a session that keeps what handlers changed or refused; see
`toolbus forget --help`. The file is only read."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus sessions", "List the sessions of a store.", _EPILOG)
    parser.add_argument(
        "database",
        metavar="STORE",
        nargs="?",
        help="its file, postgresql://…, service=NAME; if none, hooks",
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument("--no-pager", action="store_true", help="write all at once")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.sessions import list_sessions  # noqa: PLC0415 - loads half of the house

        return list_sessions(
            output, store_address(parsed.database), as_json=parsed.json, pager=not parsed.no_pager
        )

    return parser, run
