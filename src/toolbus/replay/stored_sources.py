"""The sources of a stored call, from the messages and the ledger before it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.components.call_facts import FactSources
from toolbus.components.participants import ComponentHost
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.flow.call_facts import CallFactMaker
from toolbus.flow.flow_guard import FlowGuard
from toolbus.flow.labelled_sessions import HIDDEN_TEXTS
from toolbus.flow.message_labels import SYSTEM, MessageLabeller, NextMessage, texts_of
from toolbus.flow.session_views import RecordedLabels, SessionView
from toolbus.flow.sources import FlowSettings
from toolbus.messages.records import ToolMessage
from toolbus.replay.call_sources import sections_of, sources_of
from toolbus.store.store_reader import first_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.bus.bus import EventBus
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.history.lookup import Match
    from toolbus.history.message_history import MessageHistory
    from toolbus.messages.records import Message, ToolCall
    from toolbus.replay.call_sources import CallSources, SourceSection
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import SessionRow

_UNKNOWN_FOLDER = "not recorded"
"""A folder in which no relative path begins."""

_DAMAGED = "a damaged message"


def find_flow_guard(bus: EventBus) -> FlowGuard | None:
    """Return the first enabled `FlowGuard` on *bus*, or None."""
    guards = [each for each in bus.shared(FactSources).facts if isinstance(each, FlowGuard)]
    return next((guard for guard in guards if guard.enabled), None)


def read_sources(
    reader: SqlReader, match: Match, history: MessageHistory, guard: FlowGuard | None = None
) -> CallSources | None:
    """Return the sources of the call of *match*, None if its arguments are not stored.

    Texts without a stored label get one by *guard*, or by the default settings.
    """
    call, row = stored_call(history), match.asking or match.row
    if call is None or row is None:
        return None
    return asyncio.run(StoredSources(reader, guard).of_call(match.session, call, row.seq))


def stored_call(history: MessageHistory) -> ToolCall | None:
    """Return the call of *history* as its model asked, else as it ran; None for neither."""
    return (history.call.asked or history.call.ran) if history.call else None


def labelled_sections(
    reader: SqlReader, match: Match, history: MessageHistory
) -> list[SourceSection]:
    """Return the sources of a call as sections, if texts in view of it have stored labels."""
    sources = read_sources(reader, match, history)
    if sources is None or sources.labelled_now == sources.texts:
        return []
    return sections_of(sources)


class StoredSources:
    """Reads the sources of calls in a store, with the settings of *guard* or the default ones."""

    def __init__(self, reader: SqlReader, guard: FlowGuard | None) -> None:
        self._reader = reader
        settings = FlowSettings() if guard is None else guard.settings
        host = (guard.host if guard else None) or ComponentHost()
        sources = host.bus.shared(FactSources)
        self._labeller = MessageLabeller(settings, host, sources)
        self._facts = CallFactMaker(settings, sources)
        self._are_in_runs: set[bool] = set()

    async def of_call(self, session: SessionRow, call: ToolCall, seq: int) -> CallSources:
        """Return the sources of *call*, made in message number *seq* of *session*, or before it."""
        folder = first_folder(self._reader, session.key) or _UNKNOWN_FOLDER
        scope = Scope(session_id=session.id, folder=folder, project=folder)
        self._are_in_runs = set()
        view, recorded = SessionView(), RecordedLabels(self._records(session, seq))
        await self._fill(view, recorded, session, scope, seq)
        ctx = EventContext(TOOL_CALL_BEFORE, call, scope=scope)
        sources = sources_of(call, view.texts, await self._facts.facts(ctx, view))
        made_now = [each for each in view.texts if each.message_id not in recorded.labels]
        return replace(sources, labelled_now=len(made_now))

    async def _fill(
        self,
        view: SessionView,
        recorded: RecordedLabels,
        session: SessionRow,
        scope: Scope,
        seq: int,
    ) -> None:
        """Add the texts in view of the model that wrote message number *seq*."""
        for row in self._reader.messages(session.key):
            if row.seq >= seq:
                noted = recorded.labels.get(row.id)
                # A coding agent has no runs of ours, and does not show all its texts.
                is_known = noted.is_known if noted else self._are_in_runs != {False}
                if view.label.is_known and not is_known:
                    view.add_unseen(HIDDEN_TEXTS)
                return
            if row.message is None:
                view.add_unseen(_DAMAGED, row.id)
            else:
                await self._add(row.message, view, scope, recorded)

    def _records(self, session: SessionRow, seq: int) -> Iterator[DispatchRecord]:
        for batch in self._reader.record_batches(session.key, 0, seq):
            self._are_in_runs |= {bool(record.scope.run_id) for record in batch.records}
            yield from batch.records

    async def _add(
        self, message: Message, view: SessionView, scope: Scope, recorded: RecordedLabels
    ) -> None:
        texts, label = texts_of(message), recorded.labels.get(message.id)
        if isinstance(message, ToolMessage) and message.tool_call_id in recorded.refused_calls:
            view.unanswered[message.tool_call_id] = False
        if label is None and message.id in recorded.refused_messages:
            label = SYSTEM
        if label is None:
            new = NextMessage(message, texts, view, scope)
            label = self._labeller.label(await self._labeller.with_effects(new))
        view.add(message, label, texts)
