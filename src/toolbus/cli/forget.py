"""`toolbus forget`: delete the originals or the state of a session, or old sessions."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolbus.cli.options import store_address
from toolbus.cli.output.blocks import count_things, print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import Output, ProgressLine
from toolbus.cli.parser import make_parser
from toolbus.history.descriptions import session_facts, utc_time
from toolbus.history.lookup import find_session
from toolbus.settings.usage_error import UsageError
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.parser import Command

_EPILOG = """\
examples:
  toolbus forget agent.db 3f9a           the session with an id that begins so
  toolbus forget hooks "$SESSION"        in the store of the hooks
  toolbus forget agent.db 3f9a --json    print the number as JSON
  toolbus forget agent.db 3f9a --state   the state of its components instead
  toolbus forget agent.db --before 2026-01-31             old sessions, whole
  toolbus forget agent.db --before 2026-01-31 --dry-run   only list them

A session of `Agent(keep_originals=True)` keeps the values that handlers changed
or refused, so it holds the removed secrets; `toolbus sessions` marks it. They
are overwritten in the file and in its log; messages and ledger stay.

--state deletes the state that components keep: budgets and counts start anew.

--before deletes sessions whole (messages, ledger, originals, state) that were
last written before a day or time, in UTC unless it names a zone. A session
that is being written is left."""


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser(
        "toolbus forget", "Delete the originals of a session, or old sessions.", _EPILOG
    )
    parser.add_argument(
        "store", metavar="STORE", help="a file, postgresql://…, service=NAME or hooks"
    )
    parser.add_argument("session", metavar="SESSION", nargs="?", help="its id, or the beginning")
    parser.add_argument("--state", action="store_true", help="the state of its components instead")
    parser.add_argument("--before", metavar="DAY", help="sessions last written before, whole")
    parser.add_argument("--dry-run", action="store_true", help="with --before: only list them")
    parser.add_argument("--json", action="store_true", help="write JSON")

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if (parsed.session is None) == (parsed.before is None):
            parser.error("expected either SESSION or --before DAY")
        if parsed.before is None and parsed.dry_run:
            parser.error("--dry-run lists sessions before a day; add --before")
        if parsed.before is not None and parsed.state:
            parser.error("--before deletes the state as well; leave out --state")
        address = store_address(parsed.store)
        if parsed.before is None:
            return _forget_session(output, address, parsed)
        before_ns = read_moment(parsed.before)
        if parsed.dry_run:
            return _list_sessions(output, address, before_ns, as_json=parsed.json)
        return _forget_sessions(output, address, before_ns, as_json=parsed.json)

    return parser, run


def read_moment(text: str) -> int:
    """Return the nanoseconds since the epoch of a day or a time, in UTC unless it names a zone.

    Raises `UsageError` for other text, and for a future time: it would match sessions in use.
    """
    with suppress(ValueError):
        when = datetime.fromisoformat(text)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        if when > datetime.now(UTC):
            raise UsageError(f"{text!r} is in the future; give a past day")
        # In integers: a float has no nanoseconds so far from the epoch.
        since = when - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
    raise UsageError(f"expected a day such as 2026-01-31 or 2026-01-31T18:00+02:00, got {text!r}")


def _forget_session(output: Output, address: str, parsed: argparse.Namespace) -> int:
    with open_reader(address) as reader:
        session = find_session(reader, parsed.session).id

    async def forget() -> int:
        async with open_store(address) as store:
            if parsed.state:
                return await store.forget_states(session)
            return await store.forget_originals(session)

    count = asyncio.run(forget())
    if parsed.json:
        print_json(output, {"session": session, "forgotten": count})
        return 0
    deleted = count_things(count, "state" if parsed.state else "original")
    text = f"{deleted} of session {session} deleted; its messages and records stay"
    open_screen(output).prose(text)
    return 0


def _list_sessions(output: Output, address: str, before_ns: int, *, as_json: bool) -> int:
    screen, count = open_screen(output), 0
    with open_reader(address) as reader:
        for session in reader.sessions():
            if session.updated_ns >= before_ns:
                continue
            count += 1
            if as_json:
                print_json(output, session_facts(session))
            else:
                screen.line(f"{utc_time(session.updated_ns)}  {session.id}")
    if not as_json:
        sessions = count_things(count, "session")
        screen.prose(f"{sessions} would be deleted, except those being written at that time")
    return 0


def _forget_sessions(output: Output, address: str, before_ns: int, *, as_json: bool) -> int:
    with open_reader(address):
        pass  # Opening a store would create a missing file.

    async def forget(line: ProgressLine) -> int:
        count = 0
        async with open_store(address) as store:
            while ids := await store.forget_sessions(before_ns):
                count += len(ids)
                line.show(f"{count:,} sessions deleted")
        return count

    with ProgressLine(Output(sys.stderr)) as line:
        count = asyncio.run(forget(line))
    if as_json:
        print_json(output, {"before_ns": before_ns, "forgotten": count})
        return 0
    sessions = count_things(count, "session")
    text = f"{sessions} last written before {utc_time(before_ns)} UTC deleted with their content"
    open_screen(output).prose(text)
    return 0
