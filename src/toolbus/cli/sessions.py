"""`toolbus sessions`: the list of a store's sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, store_address
from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.history.descriptions import session_facts, utc_time
from toolbus.settings.spans import Span
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.store.store_reader import SessionRow, StoreReader

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
        address, wanted = store_address(parsed.store), not (parsed.no_pager or parsed.json)
        with open_reader(address) as reader, paged(output, wanted=wanted) as through:
            _list_sessions(through, reader, as_json=parsed.json)
        return 0

    return parser, run


def _list_sessions(output: Output, reader: StoreReader, *, as_json: bool) -> None:
    """Print the sessions of a store, the oldest first."""
    screen, count = open_screen(output), 0
    listed = (session for session in reader.sessions() if session.has_entries)
    for count, session in enumerate(listed, 1):
        if output.lost:
            break
        if as_json:
            print_json(output, session_facts(session))
        else:
            _write(screen, session, first=count == 1)
    if not count and not as_json:
        screen.line("no sessions")


def _write(screen: Screen, session: SessionRow, *, first: bool) -> None:
    if first:
        screen.line(Span(_columns("messages", "records", "last write (UTC)", "session"), "dim"))
    counts = (f"{session.messages:,}", f"{session.records:,}")
    right = [Span("originals", "asked")] if session.has_originals else []
    screen.line(_columns(*counts, utc_time(session.updated_ns), session.id), right=right)


def _columns(messages: str, records: str, updated: str, name: str) -> str:
    return f"{messages:>8}  {records:>8}  {updated:<19}  {name}"
