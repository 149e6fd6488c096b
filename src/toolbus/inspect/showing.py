"""A session on the screen: what was said, which tools ran, and what handlers did in between."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from toolbus.bus.ledger.wording import describe, describe_change, is_notable
from toolbus.inspect.calls import status_of
from toolbus.inspect.finding import find_session
from toolbus.inspect.listing import facts, moment
from toolbus.inspect.printing import print_json
from toolbus.inspect.timeline import Timeline
from toolbus.inspect.writing import write_calls, write_invocation, write_text
from toolbus.messages.records import Message, ToolMessage
from toolbus.store.archive import Archive, MessageRow, Page
from toolbus.terminal.pager import paged
from toolbus.terminal.screen import open_screen
from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from toolbus.bus.ledger.records import DispatchRecord, HandlerEntry
    from toolbus.store.archive import SessionRow
    from toolbus.terminal.output import Output
    from toolbus.terminal.screen import Screen

PAUSE = 0.2
"""Seconds between two looks at a session that is being written."""

_INDENT = 6

More: TypeAlias = "Callable[[], Iterator[MessageRow | Page]]"
"""Gives what has come since it was last asked."""


def show_session(
    output: Output,
    path: str | os.PathLike[str],
    name: str,
    *,
    start: int = 1,
    last: int | None = None,
    full: bool = False,
    follow: bool = False,
    as_json: bool = False,
    pager: bool = True,
) -> int:
    """Print the session *name* of the store *path*; return 0.

    It begins with the message number *start*, or with the *last* so many. With *follow* it ends
    when nobody reads any more. Raises `UsageError` for an unknown session.
    """
    with Archive(path, live=follow) as archive:
        session = find_session(archive, name)
        after = start - 1 if last is None else max(0, session.messages - last)
        timeline = Timeline(archive, session.key, after)
        with paged(output, wanted=pager and not (as_json or follow)) as through:
            write = (
                _write_json(through, session)
                if as_json
                else _Story(open_screen(through), session, full=full).tell
            )
            more = timeline.more if as_json else partial(_under_its_message, timeline.more)
            for one in _followed(archive, more, through) if follow else more():
                write(one)
                if through.lost:
                    break
    return 0


def _under_its_message(more: More) -> Iterator[MessageRow | Page]:
    """Give the same, but what handlers did to a message behind it, not before."""
    page: Page | None = None
    for one in more():
        if isinstance(one, Page):
            if page is not None:
                yield page
            page = one
        elif page is not None:
            yield from _around(one, page)
            page = None
        else:
            yield one
    if page is not None:
        yield page


def _around(row: MessageRow, page: Page) -> Iterator[MessageRow | Page]:
    """Give *row* between the records of *page* about others and those about it."""
    under = tuple([record for record in page.records if record.subject == row.id])
    before = tuple([record for record in page.records if record.subject != row.id])
    yield page._replace(records=before)
    yield row
    yield page._replace(records=under, damage="")


def _followed(archive: Archive, more: More, output: Output) -> Iterator[MessageRow | Page]:
    """Give what there is, and what comes, until nobody reads."""
    while not output.lost:
        # Asked first: what is written while we read is then seen in the next round.
        seen = archive.changes
        yield from more()
        while not output.lost and archive.changes == seen:
            output.rest(PAUSE)


def _write_json(output: Output, session: SessionRow) -> Callable[[MessageRow | Page], None]:
    def line(**one: object) -> None:
        print_json(output, one)

    def write(one: MessageRow | Page) -> None:
        if one.damage:
            line(kind="damage", reason=one.problem)
        elif isinstance(one, MessageRow):
            line(kind="message", seq=one.seq, message=one.message)
        else:
            for record in one.records:
                line(kind="record", before=one.place, record=record)

    line(kind="session", **facts(session))
    return write


class _Story:
    """Tells a session on *screen*; *full* shows texts to their end."""

    def __init__(self, screen: Screen, session: SessionRow, *, full: bool) -> None:
        self._screen, self._full = screen, full
        counts = f"{session.messages:,} messages, {session.records:,} records"
        screen.line("session ", Span(session.id, "strong"), right=[counts])
        times = f"{moment(session.created_ns)} to {moment(session.updated_ns)} UTC"
        screen.line(Span(times, "dim"))

    def tell(self, one: MessageRow | Page) -> None:
        if one.damage:
            self._screen.line()
            self._screen.prose(f"! {one.problem}", style="bad")
        elif isinstance(one, Page):
            for record in one.records:
                self._record(record)
        elif one.message is not None:
            self._message(one.seq, one.message)

    def _record(self, record: DispatchRecord) -> None:
        for entry in record.entries:
            if is_notable(entry.status):
                write_invocation(self._screen, entry, _words(record, entry), indent=_INDENT)

    def _message(self, seq: int, message: Message) -> None:
        head: list[Span | str] = [f"{seq:>4}  ", Span(message.role, "strong")]
        if isinstance(message, ToolMessage):
            status = status_of(message)
            head += [
                f"  {message.tool_name}  ",
                Span(status, "good" if status == "ok" else "bad"),
            ]
        self._screen.line()
        self._screen.line(*head, right=[Span(message.id, "dim")])
        write_text(self._screen, message.text, indent=_INDENT, full=self._full)
        write_calls(self._screen, message, indent=_INDENT)


def _words(record: DispatchRecord, entry: HandlerEntry) -> list[Span | str]:
    """Return what a handler did to which message or call."""
    words = describe(entry.status, record.event, record.subject)
    if entry.before is not None and entry.status != "rejected":
        words += f", {describe_change(entry.fields, entry.size_before, entry.size_after)}"
    return [Span(entry.name, "strong"), f" {words}"]
