"""The sessions of a store, as a table or as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolbus.inspect.printing import print_json
from toolbus.store.archive import Archive
from toolbus.terminal.pager import paged
from toolbus.terminal.screen import open_screen
from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    import os

    from toolbus.store.archive import SessionRow
    from toolbus.terminal.output import Output
    from toolbus.terminal.screen import Screen


def list_sessions(
    output: Output, path: str | os.PathLike[str], *, as_json: bool = False, pager: bool = True
) -> int:
    """Print the sessions of the store *path*, the oldest first; return 0."""
    with Archive(path) as archive, paged(output, wanted=pager and not as_json) as through:
        screen = open_screen(through)
        none = True
        for session in archive.sessions():
            if through.lost:
                break
            if as_json:
                print_json(through, facts(session))
            else:
                _line(screen, session, first=none)
            none = False
        if none and not as_json:
            screen.line("no sessions")
    return 0


def facts(session: SessionRow) -> dict[str, object]:
    """Return a session as JSON has it."""
    kept = session._asdict()
    del kept["key"]
    return kept


def moment(time_ns: int) -> str:
    """Return a time since the epoch as UTC, to the second."""
    return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"


def _line(screen: Screen, session: SessionRow, *, first: bool) -> None:
    if first:
        screen.line(Span(_columns("messages", "records", "last write (UTC)", "session"), "dim"))
    counts = (f"{session.messages:,}", f"{session.records:,}")
    right = [Span("originals", "asked")] if session.has_originals else []
    screen.line(_columns(*counts, moment(session.updated_ns), session.id), right=right)


def _columns(messages: str, records: str, last: str, name: str) -> str:
    return f"{messages:>8}  {records:>8}  {last:<19}  {name}"
