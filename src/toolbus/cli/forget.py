"""`toolbus forget`: delete what a session kept beside its messages, or old sessions as a whole."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.cli.parser import make_parser
from toolbus.cli.sessions import facts, moment
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Command

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
        from toolbus.cli.sessions import forget  # noqa: PLC0415 - loads half of the house

        return forget(
            output, parsed.database, parsed.session, state=parsed.state, as_json=parsed.json
        )

    return parser, run


def _forget_before(parsed: argparse.Namespace, output: Output) -> int:

    return forget_before(
        output,
        Output(sys.stderr),
        parsed.database,
        parsed.before,
        dry_run=parsed.dry_run,
        as_json=parsed.json,
    )


def read_moment(text: str) -> int:
    """Return the nanoseconds since the epoch of a day or a time, UTC unless it says otherwise.

    Raises `UsageError` for what is none, and for one that is still to come: then sessions would be
    deleted that somebody is at.
    """
    with suppress(ValueError):
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        if when <= datetime.now(UTC):
            # In whole numbers: a float has no nanoseconds so far from the epoch.
            since = when - datetime(1970, 1, 1, tzinfo=UTC)
            return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
        raise UsageError(f"{text!r} is still to come; give a day that has passed")
    raise UsageError(f"{text!r} is no day; give one like 2026-01-31, or 2026-01-31T18:00+02:00")


def forget_before(
    output: Output,
    errors: Output,
    address: str,
    before: str,
    *,
    dry_run: bool = False,
    as_json: bool = False,
) -> int:
    """Delete the sessions of the store *address* that were last written *before* a day; return 0.

    With *dry_run* they are listed only. How far it is goes to *errors*, if that is a terminal.
    """
    before_ns = read_moment(before)
    if dry_run:
        return _list(output, address, before_ns, as_json=as_json)
    with open_reader(address):
        pass  # A path that leads to no store is told, and no file made there.
    count = asyncio.run(_forget(errors, address, before_ns))
    if as_json:
        print_json(output, {"before_ns": before_ns, "forgotten": count})
        return 0
    sessions = f"{count:,} session{'s' * (count != 1)}"
    text = f"{sessions} last written before {moment(before_ns)} UTC deleted, with all they held"
    open_screen(output).prose(text)
    return 0


def _list(output: Output, address: str, before_ns: int, *, as_json: bool) -> int:
    screen, count = open_screen(output), 0
    with open_reader(address) as reader:
        for session in reader.sessions():
            if session.updated_ns >= before_ns:
                continue
            count += 1
            if as_json:
                print_json(output, facts(session))
            else:
                screen.line(f"{moment(session.updated_ns)}  {session.id}")
    if not as_json:
        noun = "session" if count == 1 else "sessions"
        screen.prose(f"{count:,} {noun} would be deleted, but for those that are written now")
    return 0


async def _forget(errors: Output, address: str, before_ns: int) -> int:
    store, line, count = open_store(address), ProgressLine(errors), 0
    try:
        while ids := await store.forget_sessions(before_ns):
            count += len(ids)
            line.show(f"{count:,} sessions deleted")
    finally:
        line.hide()
        await store.close()
    return count
