"""`toolbus sessions`: the list of a store's sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, store_address
from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.descriptions import session_facts, utc_time
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.settings.spans import Span
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    import argparse
    import os

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.store.store_reader import SessionRow

_EPILOG = """\
examples:
  toolbus sessions                          the sessions of coding agents
  toolbus sessions agent.db                 the oldest first
  toolbus sessions agent.db | tail -3       the newest
  toolbus sessions agent.db --json | jq .id   for programs

The store of the hooks in coding agents is called `hooks`: `toolbus show hooks
SESSION` and `toolbus explain hooks --call ID` read its sessions.

"originals" marks a session that keeps the values that handlers changed or
refused; see `toolbus forget --help`. The file is only read."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus sessions", "List the sessions of a store.", _EPILOG)
    parser.add_argument("store", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument("--no-pager", action="store_true", help="do not page the output")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        address, pager = store_address(parsed.store), not parsed.no_pager
        return list_sessions(output, address, as_json=parsed.json, pager=pager)

    return parser, run


def list_sessions(
    output: Output, path: str | os.PathLike[str], *, as_json: bool = False, pager: bool = True
) -> int:
    """Print the sessions of the store *path*, the oldest first; return 0."""
    with open_reader(path) as reader, paged(output, wanted=pager and not as_json) as through:
        screen = open_screen(through)
        count = 0
        for count, session in enumerate(reader.sessions(), 1):
            if through.lost:
                break
            if as_json:
                print_json(through, session_facts(session))
            else:
                _write(screen, session, first=count == 1)
        if not count and not as_json:
            screen.line("no sessions")
    return 0


def _write(screen: Screen, session: SessionRow, *, first: bool) -> None:
    if first:
        screen.line(Span(_columns("messages", "records", "last write (UTC)", "session"), "dim"))
    counts = (f"{session.messages:,}", f"{session.records:,}")
    right = [Span("originals", "asked")] if session.has_originals else []
    screen.line(_columns(*counts, utc_time(session.updated_ns), session.id), right=right)


def _columns(messages: str, records: str, updated: str, name: str) -> str:
    return f"{messages:>8}  {records:>8}  {updated:<19}  {name}"
