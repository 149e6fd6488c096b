"""`toolbus sessions`: list what a store holds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolbus.cli.options import STORE_HELP, store_address
from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.lookup import find_session
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.cli.parser import make_parser
from toolbus.settings.spans import Span
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    import argparse
    import os

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.store.store_reader import SessionRow

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
    parser.add_argument("database", metavar="STORE", nargs="?", help=STORE_HELP)
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    parser.add_argument("--no-pager", action="store_true", help="write all at once")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        return list_sessions(
            output, store_address(parsed.database), as_json=parsed.json, pager=not parsed.no_pager
        )

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
                print_json(through, facts(session))
            else:
                _line(screen, session, first=count == 1)
        if not count and not as_json:
            screen.line("no sessions")
    return 0


def forget(
    output: Output,
    path: str | os.PathLike[str],
    name: str,
    *,
    state: bool = False,
    as_json: bool = False,
) -> int:
    """Delete the originals of the session *name* from the store *path*, or its state; return 0."""
    with open_reader(path) as reader:
        session = find_session(reader, name)
    deleted = asyncio.run(_forget(path, session.id, state=state))
    if as_json:
        print_json(output, {"session": session.id, "forgotten": deleted})
        return 0
    count = f"{deleted:,} {'state' if state else 'original'}{'s' * (deleted != 1)}"
    screen = open_screen(output)
    screen.prose(f"{count} of session {session.id} deleted; its messages and records stay")
    return 0


async def _forget(path: str | os.PathLike[str], session_id: str, *, state: bool) -> int:
    store = open_store(path)
    try:
        if state:
            return await store.forget_states(session_id)
        return await store.forget_originals(session_id)
    finally:
        await store.close()


def facts(session: SessionRow) -> dict[str, object]:
    """Return a session as JSON has it."""
    return {name: value for name, value in session._asdict().items() if name != "key"}


def moment(time_ns: int) -> str:
    """Return a time since the epoch as UTC, to the second."""
    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"


def _line(screen: Screen, session: SessionRow, *, first: bool) -> None:
    if first:
        screen.line(Span(_columns("messages", "records", "last write (UTC)", "session"), "dim"))
    counts = (f"{session.messages:,}", f"{session.records:,}")
    right = [Span("originals", "asked")] if session.has_originals else []
    screen.line(_columns(*counts, moment(session.updated_ns), session.id), right=right)


def _columns(messages: str, records: str, updated: str, name: str) -> str:
    return f"{messages:>8}  {records:>8}  {updated:<19}  {name}"
