"""Sessions that nobody wrote since a day: deleted whole, or listed before that."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolbus.inspect.sessions import facts, moment
from toolbus.inspect.writing import print_json
from toolbus.store.opening import open_reader, open_store
from toolbus.terminal.progress import ProgressLine
from toolbus.terminal.screen import UsageError, open_screen

if TYPE_CHECKING:
    from toolbus.terminal.output import Output


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
