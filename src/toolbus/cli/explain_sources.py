"""`toolbus explain --sources`: the texts in view of a call, and whose words its arguments have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from toolbus.cli.output.blocks import describe_call, print_json
from toolbus.cli.output.pager import paged
from toolbus.cli.output.screen import open_screen
from toolbus.config.configuration import read_nearest
from toolbus.config.targets import install, load
from toolbus.history.entry_texts import short
from toolbus.history.lookup import find_match
from toolbus.history.message_history import history_of
from toolbus.replay.call_sources import sections_of
from toolbus.replay.stored_sources import find_flow_guard, read_sources, stored_call
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    import argparse

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.flow.flow_guard import FlowGuard
    from toolbus.messages.records import ToolCall
    from toolbus.replay.call_sources import CallSources, SourceEntry
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import SessionRow

_GAPS = 6
"""The spaces of a line."""

_short = partial(short, length=60)
"""Shortens an argument, a source or an id."""


def explain_sources(
    reader: SqlReader, session: SessionRow | None, parsed: argparse.Namespace, output: Output
) -> None:
    """Write the sources of the call `parsed.sources`, in *session* if it is given."""
    match = find_match(reader, "call", parsed.sources, session)
    history = history_of(reader, match)
    call, sources = stored_call(history), read_sources(reader, match, history, _guard_in(parsed))
    if call is None or sources is None:
        raise UsageError(f"the arguments of call {match.name!r} are not stored; try `--call`")
    if parsed.json:
        print_json(output, sources)
        return
    with paged(output, wanted=not parsed.no_pager) as through:
        screen = open_screen(through)
        where = Span(f"session {history.session}", "dim")
        screen.line("sources of call ", Span(_short(sources.id), "strong"), right=[where])
        _write(screen, call, sources)
        for damage in history.damage:
            screen.prose(f"! {damage}", style="bad")


def _guard_in(parsed: argparse.Namespace) -> FlowGuard | None:
    """Return the component that labels texts, by default of the active configuration."""
    if parsed.target is not None:
        guard = find_flow_guard(load(parsed.target).bus)
        if guard is None:
            way_out = 'name a toolbus.toml with `use = "flow"`, or leave out `--with`'
            raise UsageError(f"{parsed.target} has no component FlowGuard; {way_out}")
        return guard
    nearest = read_nearest()
    return find_flow_guard(install(nearest).bus) if nearest else None


def _write(screen: Screen, call: ToolCall, sources: CallSources) -> None:
    screen.line(*describe_call(call), indent=2)
    for title, note, entries in sections_of(sources):
        screen.line()
        screen.line(Span(title, "strong"), right=[Span(note, "dim")] if note else [])
        for entry in entries:
            _write_entry(screen, entry)


def _write_entry(screen: Screen, entry: SourceEntry) -> None:
    name, message = _short(entry.name), _short(entry.message)
    note, text = (entry.note, entry.text) if entry.note else (entry.text, "")
    right = [Span(message, "dim")] if message else []
    if len(name) + len(note) + len(message) + _GAPS <= screen.width:
        screen.line(Span(name, "strong"), f"  {note}", right=right, indent=2)
    else:
        screen.line(Span(name, "strong"), right=right, indent=2)
        screen.prose(note, indent=4)
    if text:
        screen.prose(text, indent=4)
