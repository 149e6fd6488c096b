"""`toolbus show`: read a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.parsing import make_parser, positive
from toolbus.cli.store_names import store_address

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parsing import Command
    from toolbus.terminal.output import Output

_EPILOG = """\
examples:
  toolbus show agent.db 3f9a               the session whose id begins so
  toolbus show agent.db 3f9a --last 20     its last 20 messages
  toolbus show agent.db 3f9a --follow      and what comes, until Ctrl-C
  toolbus show hooks claude-code:3f9a      of a coding agent with hooks
  toolbus show agent.db 3f9a --json | jq   messages and records, one a line

Between the messages stands what handlers changed, refused or broke. Long output
on a terminal goes through $PAGER. The file is only read."""


def command() -> Command:
    """Return the parser and what to do."""
    parser = make_parser("toolbus show", "Read a session: what was said and done.", _EPILOG)
    parser.add_argument(
        "database", metavar="STORE", help="its file, postgresql://…, service=NAME or hooks"
    )
    parser.add_argument("session", metavar="SESSION", help="its id, or how that begins")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--from", type=positive, default=1, metavar="N", help="from message N on")
    where.add_argument("--last", type=positive, metavar="N", help="the last N messages")
    parser.add_argument("--full", action="store_true", help="show long texts to their end")
    parser.add_argument("--follow", action="store_true", help="wait for what is written")
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument("--no-pager", action="store_true", help="write all at once")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        from toolbus.inspect.showing import show_session  # noqa: PLC0415 - loads half of the house

        return show_session(
            output,
            store_address(parsed.database),
            parsed.session,
            start=vars(parsed)["from"],
            last=parsed.last,
            full=parsed.full,
            follow=parsed.follow,
            as_json=parsed.json,
            pager=not parsed.no_pager,
        )

    return parser, run
