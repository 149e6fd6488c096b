"""The sources of a stored call, from the messages and the ledger before it."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.bus.dispatch.contexts import EventContext
from toolbus.components.call_facts import FactSources
from toolbus.components.participants import ComponentHost
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.flow.call_facts import CallFactMaker
from toolbus.flow.flow_guard import FlowGuard
from toolbus.flow.labelled_sessions import HIDDEN_TEXTS
from toolbus.flow.labels import UNKNOWN, UNTRUSTED
from toolbus.flow.message_labels import MessageLabeller, texts_of
from toolbus.flow.session_views import LabelledText, RecordedLabels, SessionView
from toolbus.flow.sources import FlowSettings
from toolbus.messages.records import AssistantMessage, encode
from toolbus.replay.call_sources import sections_of, sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.bus.bus import EventBus
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.history.lookup import Match
    from toolbus.history.message_history import MessageHistory
    from toolbus.messages.records import ToolCall
    from toolbus.replay.call_sources import CallSources, SourceSection
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import MessageRow, SessionRow

_UNKNOWN_FOLDER = "not recorded"
"""A folder in which no relative path begins."""

_DAMAGED = "a damaged message"


_LONGEST_CALL, _MOST_MESSAGES, _MOST_CHARACTERS = 200_000, 20_000, 2_000_000
"""The most bytes of a call, messages of its session and characters in view of it, on a page."""


def find_flow_guard(bus: EventBus) -> FlowGuard | None:
    """Return the first enabled `FlowGuard` on *bus*, or None."""
    guards = [each for each in bus.shared(FactSources).facts if isinstance(each, FlowGuard)]
    return next((guard for guard in guards if guard.enabled), None)


def hide_texts(bus: EventBus, session_id: str) -> None:
    """Begin the view of a replayed session, of whose texts its host did not show all."""
    if guard := find_flow_guard(bus):
        view = SessionView()
        view.add_text(LabelledText(source=HIDDEN_TEXTS))
        guard.views[session_id] = view


def read_sources(
    reader: SqlReader,
    match: Match,
    history: MessageHistory,
    guard: FlowGuard | None = None,
    limit: float = inf,
) -> CallSources | None:
    """Return the sources of the call of *match*, None if its arguments are not stored.

    Texts without a stored label get one by *guard*, or by the default settings. None as well if
    there are more than *limit* characters in view.
    """
    call, row = stored_call(history), match.asking or match.row
    if call is None or row is None:
        return None
    return asyncio.run(StoredSources(reader, guard, limit).of_call(match.session, call, row))


def stored_call(history: MessageHistory) -> ToolCall | None:
    """Return the call of *history* as its model asked, else as it ran; None for neither."""
    return (history.call.asked or history.call.ran) if history.call else None


def labelled_sections(
    reader: SqlReader, match: Match, history: MessageHistory
) -> list[SourceSection]:
    """Return the sources of a call as sections, if texts in view of it have stored labels."""
    call, sources = stored_call(history), None
    if call is None:
        return []
    if len(encode(call)) <= _LONGEST_CALL and match.session.messages <= _MOST_MESSAGES:
        sources = read_sources(reader, match, history, limit=_MOST_CHARACTERS)
    if sources is None:
        return [("too long for a page: see `toolbus explain --sources`", "", ())]
    return sections_of(sources) if sources.labelled_now < sources.texts else []


class StoredSources:
    """Reads the sources of calls in a store, with the settings of *guard* or the default ones.

    They have at most *limit* characters in view.
    """

    def __init__(self, reader: SqlReader, guard: FlowGuard | None, limit: float) -> None:
        self._reader, self._limit = reader, limit
        settings = FlowSettings() if guard is None else guard.settings
        host = (guard.host if guard else None) or ComponentHost()
        # The components of a host serve the scopes of its agent alone.
        self._agent_id, sources = host.scope.agent_id, host.bus.shared(FactSources)
        self._labeller = MessageLabeller(settings, host, sources)
        self._facts = CallFactMaker(settings, sources)

    async def of_call(
        self, session: SessionRow, call: ToolCall, asking: MessageRow
    ) -> CallSources | None:
        """Return the sources of *call* of *session*, made in the message *asking* or before it."""
        ledger = self._ledger(session, asking.seq)
        above = await self._whole_view(ledger.scope.root_session_id)
        view = SessionView(above.root if above else None)
        await self._read(session, view, ledger, asking.seq)
        if view.characters > self._limit or (above and above.characters > self._limit):
            return None
        _add_unstored(view, above, ledger.doubts_of(asking))
        ctx = EventContext(TOOL_CALL_BEFORE, call, scope=ledger.scope)
        sources = sources_of(call, view.texts, await self._facts.facts(ctx, view))
        made_now = [each for each in view.texts if each.message_id not in ledger.labels]
        return replace(sources, labelled_now=len(made_now))

    async def _whole_view(self, session_id: str) -> SessionView | None:
        """Return the view of a whole root session: its person named addresses for those below."""
        session = self._reader.session(session_id) if session_id else None
        if session is None:
            return None
        view, end = SessionView(), session.messages + 1
        await self._read(session, view, self._ledger(session, end), end)
        return view

    def _ledger(self, session: SessionRow, seq: int) -> _StoredLedger:
        return _StoredLedger(self._reader, session, seq, self._agent_id)

    async def _read(
        self, session: SessionRow, view: SessionView, ledger: _StoredLedger, end: int
    ) -> None:
        """Add the messages of *session* before number *end* to *view*, up to the limit."""
        view.outcomes |= dict.fromkeys(ledger.refused, "denied")
        for row in self._reader.messages(session.key):
            if row.seq >= end or view.characters > self._limit:
                return
            await self._add(row, view, ledger)

    async def _add(self, row: MessageRow, view: SessionView, ledger: _StoredLedger) -> None:
        message, label = row.message, ledger.labels.get(row.id)
        if message is None:
            view.add_text(LabelledText(source=_DAMAGED, message_id=row.id))
        elif label is None:
            await self._labeller.add(message, view, ledger.scope)
        else:
            view.add(message, label, texts_of(message))


def _add_unstored(view: SessionView, above: SessionView | None, doubts: frozenset[str]) -> None:
    """Add texts for the *doubts* about *view*: the texts of the session *above*, or unknown texts.

    A host may not show the task of a sub-agent, with words of any text above.
    """
    if above is not None and not doubts <= view.label.names:
        for text in above.sources:
            view.add_text(text)
    if not doubts <= view.label.names:
        view.add_text(LabelledText(source=HIDDEN_TEXTS))


class _StoredLedger(RecordedLabels):
    """The labels in the ledger of *session* before message number *seq*, and its *scope*."""

    def __init__(self, reader: SqlReader, session: SessionRow, seq: int, agent_id: str) -> None:
        self._reader, self._session = reader, session
        self._are_in_runs: set[bool] = set()
        self._latest = Scope()
        super().__init__(self._records(seq))
        # Without a recorded folder no relative path is read: the current one is another's.
        folder = self._latest.folder or self._latest.project or _UNKNOWN_FOLDER
        self.scope = Scope(
            agent_id=agent_id,
            session_id=session.id,
            lineage=self._latest.lineage,
            root_session_id=self._latest.root_session_id,
            folder=folder,
            project=self._latest.project or folder,
        )

    def doubts_of(self, row: MessageRow) -> frozenset[str]:
        """Return the doubts about all texts in view of the model that made the message *row*."""
        noted = self.labels.get(row.id) if isinstance(row.message, AssistantMessage) else None
        if noted is not None:
            return noted.names & {UNTRUSTED, UNKNOWN}
        # A coding agent has no runs of ours, and does not show all its texts.
        return frozenset({UNKNOWN} if self._are_in_runs == {False} else ())

    def _records(self, seq: int) -> Iterator[DispatchRecord]:
        for batch in self._reader.record_batches(self._session.key, 0, seq):
            self._are_in_runs |= {bool(record.scope.run_id) for record in batch.records}
            for record in batch.records:
                self._latest = record.scope
                yield record
