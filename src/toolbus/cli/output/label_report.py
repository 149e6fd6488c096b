"""The labels of a replay, by message, and by call the labels in view."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.cli.output.replay_report import JsonReport, ReplayReport, TextReport, style_of
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.flow.labels import UNSEEN, UNTRUSTED, read_label
from toolbus.flow.session_views import NOTE
from toolbus.history.entry_texts import short
from toolbus.replay.call_sources import joined_texts
from toolbus.replay.findings import Outcome
from toolbus.replay.stored_sources import find_flow_guard
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.config.targets import LoadedTarget
    from toolbus.messages.records import ToolCall
    from toolbus.replay.findings import ReplayFinding

_FIRST = 1 << 40
"""A priority above all handlers that may change a call."""

_short = partial(short, length=40)
"""Shortens a name, a source or an id."""


class LabelledMessage(Struct, frozen=True, kw_only=True, tag_field="kind", tag="message"):
    """A message with its *label* as one line."""

    session: str
    id: str
    label: str


class VerdictEntry(Struct, frozen=True, kw_only=True):
    """A verdict on a call in a replay: of the handlers in *by*, or of the recording."""

    outcome: Outcome
    reason: str
    by: tuple[str, ...]


class LabelledCall(Struct, frozen=True, kw_only=True, tag_field="kind", tag="call"):
    """A call: the labels *in_view* of its model, by label the first source.

    *quotes* names by argument the first untrusted source of its words. *verdicts* are empty if the
    call would run as in the recording.
    """

    session: str
    id: str
    tool: str
    in_view: Mapping[str, str] = {}
    quotes: Mapping[str, str] = {}
    verdicts: tuple[VerdictEntry, ...] = ()


LabelRow: TypeAlias = LabelledMessage | LabelledCall


class LabelReport(ReplayReport):
    """A row for each message and call of a replay, by handlers on its bus."""

    _call: LabelledCall | None = None

    def follow(self, loaded: LoadedTarget) -> None:
        """Follow the replay through *loaded*.

        Raises `UsageError` if *loaded* has no component that labels texts.
        """
        guard = find_flow_guard(loaded.bus)
        if guard is None:
            way_out = 'name a toolbus.toml with a `[[component]]` that has `use = "flow"`'
            raise UsageError(
                f"{loaded.target} has no component FlowGuard, which labels texts; {way_out}"
            )
        self._source = guard
        loaded.bus.on(TOOL_CALL_BEFORE, self._collect, priority=_FIRST)
        loaded.bus.tap(self._note, idle=False, digests=False)

    @abstractmethod
    def _write_row(self, row: LabelRow) -> None: ...

    def add(self, finding: ReplayFinding) -> None:
        """Take a verdict on the latest call; a recorded answer follows a question."""
        if finding.outcome == "unjudged":
            # No handler saw the call, and its labels with it.
            self._flush()
            self._call = LabelledCall(
                session=finding.session, id=finding.subject, tool=finding.tool
            )
        if self._call is not None and finding.subject == self._call.id:
            reason, by = finding.reason or "", finding.by
            verdict = VerdictEntry(outcome=finding.outcome, reason=reason, by=by)
            self._call = replace(self._call, verdicts=(*self._call.verdicts, verdict))

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write the latest call of *session*, and its *outcomes*."""
        self._flush()
        super().end_session(session, outcomes)  # type: ignore[safe-super]  # of the other base

    def _flush(self) -> None:
        """Write the latest call: a verdict on it may come until the next dispatch."""
        if self._call is not None:
            self._write_row(self._call)
            self._call = None

    async def _collect(self, ctx: EventContext[ToolCall]) -> None:
        self._flush()
        call, session, facts = ctx.value, ctx.scope.session_id, await self._source.facts_of(ctx)
        in_view, quotes = dict[str, str](), dict[str, str]()
        if facts is not None:
            in_view = dict(sorted(facts.in_view.items()))
            for path, text in joined_texts(call):
                sources = [each.source for each in facts.quoted(text) if UNTRUSTED in each.labels]
                if sources:
                    # Inner names may have values that other components hide.
                    quotes.setdefault(re.split(r"[.\[]", path, maxsplit=1)[0], sources[0])
        self._call = LabelledCall(
            session=session, id=call.id, tool=call.name, in_view=in_view, quotes=quotes
        )

    def _note(self, record: DispatchRecord) -> None:
        if record.event != MESSAGE_APPEND_BEFORE.name:
            return
        self._flush()
        if record.outcome in {"denied", "rejected"}:
            return  # It enters no view.
        labels = [each.reason for each in record.entries if each.name == NOTE and each.reason]
        label = labels[-1] if labels else UNSEEN.text
        session = record.scope.session_id
        self._write_row(LabelledMessage(session=session, id=record.subject, label=label))


class LabelTextReport(LabelReport, TextReport):
    """A line for each message, and some for each call, by session, at most *limit* of them."""

    _counts: Counter[str]

    def follow(self, loaded: LoadedTarget) -> None:
        """Follow the replay through *loaded*, and count its rows."""
        super().follow(loaded)
        self._counts = Counter()

    def _write_row(self, row: LabelRow) -> None:
        is_shown = self._begin_entry(row.session)
        if isinstance(row, LabelledCall):
            self._counts["calls with untrusted texts in view"] += UNTRUSTED in row.in_view
            self._counts["calls that quote them"] += bool(row.quotes)
            if is_shown:
                self._write_call(row)
            return
        is_trusted = read_label(row.label).is_trusted
        self._counts["untrusted messages"] += not is_trusted
        if is_shown:
            label = Span(_short(row.label), "good" if is_trusted else "asked")
            self._screen.line(label, right=[Span(_short(row.id), "dim")], indent=1)

    def _write_call(self, row: LabelledCall) -> None:
        tool, call_id = Span(_short(row.tool), "strong"), Span(_short(row.id), "dim")
        self._screen.line("call ", tool, right=[call_id], indent=1)
        labels: dict[str, list[str]] = {}
        for label, source in row.in_view.items():
            labels.setdefault(source, []).append(label)
        texts = [f"{', '.join(names)} ({_short(source)})" for source, names in labels.items()]
        if texts:
            self._screen.prose(f"in view: {'; '.join(texts)}", indent=3)
        for argument, source in row.quotes.items():
            self._screen.prose(f"`{_short(argument)}` quotes {_short(source)}", indent=3)
        for verdict in row.verdicts:
            by = f" by {', '.join(verdict.by)}" if verdict.by else ""
            line = f"{verdict.outcome}{by}: {verdict.reason}"
            self._screen.write_reason(line, indent=3, style=style_of(verdict.outcome))

    def _write_totals(self) -> None:
        super()._write_totals()
        counts = [f"{name}: {count:,}" for name, count in self._counts.items()]
        if counts:
            self._screen.prose(", ".join(counts))


class LabelJsonReport(LabelReport, JsonReport):
    """One JSON document with a line for each message and call."""

    entries = "labels"

    def _write_row(self, row: LabelRow) -> None:
        self._write_entry(row)
