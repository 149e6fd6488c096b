"""The labels of a replay: those of each message, and those in view of each call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolbus.cli.output.replay_report import JsonReport, TextReport
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.flow.labels import UNSEEN, UNTRUSTED, read_label
from toolbus.flow.session_views import NOTE
from toolbus.replay.call_sources import joined_texts
from toolbus.replay.stored_sources import find_flow_guard
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.bus.bus import EventBus
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.cli.output.stream import Output, ProgressLine
    from toolbus.components.call_facts import CallFactSource
    from toolbus.config.targets import LoadedTarget
    from toolbus.messages.records import ToolCall
    from toolbus.replay.findings import ReplayFinding

_FIRST = 1 << 40
"""A priority above all handlers that may change a call."""

_NAME, _WHO = 40, 30
"""The shown characters of a name, and the width of the column of speakers."""


class LabelledMessage(Struct, frozen=True, kw_only=True, tag_field="kind", tag="message"):
    """A message and the parts of its label; *speaker* is "unknown" without a label."""

    session: str
    id: str
    speaker: str
    name: str
    server: str
    is_trusted: bool
    is_known: bool
    holds: tuple[str, ...]


class LabelledCall(Struct, frozen=True, kw_only=True, tag_field="kind", tag="call"):
    """A call: the labels *in_view* of its model, by label the first source.

    *quotes* names by argument the first untrusted source that it quotes. *outcome*, *reason* and
    *by* are those of the handlers, "" if they let it run.
    """

    session: str
    id: str
    tool: str
    in_view: Mapping[str, str]
    quotes: Mapping[str, str]
    outcome: str = ""
    reason: str = ""
    by: tuple[str, ...] = ()


LabelRow: TypeAlias = LabelledMessage | LabelledCall


class LabelCollector:
    """The rows of a replay through handlers on *bus*, with the facts of *source*, for *write*."""

    def __init__(self, source: CallFactSource, write: Callable[[LabelRow], object]) -> None:
        self._source, self._write = source, write
        self._call: LabelledCall | None = None

    def listen(self, bus: EventBus) -> None:
        """Follow the dispatches on *bus*."""
        bus.on(TOOL_CALL_BEFORE, self._collect, priority=_FIRST)
        bus.tap(self._note, idle=False, digests=False)

    def judge(self, finding: ReplayFinding) -> None:
        """Take the verdict on the latest call."""
        if self._call is not None and finding.subject == self._call.id:
            outcome, reason, by = finding.outcome, finding.reason or "", finding.by
            self._call = replace(self._call, outcome=outcome, reason=reason, by=by)

    def flush(self) -> None:
        """Write the latest call: a verdict on it may come until the next dispatch."""
        if self._call is not None:
            self._write(self._call)
            self._call = None

    async def _collect(self, ctx: EventContext[ToolCall]) -> None:
        self.flush()
        facts = await self._source.facts_of(ctx)
        in_view, quotes = dict[str, str](), dict[str, str]()
        if facts is not None:
            in_view = dict(sorted(facts.in_view.items()))
            for path, text in joined_texts(ctx.value):
                sources = [each.source for each in facts.quoted(text) if UNTRUSTED in each.labels]
                if sources:
                    # Inner names may have values that other components hide.
                    quotes.setdefault(re.split(r"[.\[]", path, maxsplit=1)[0], sources[0])
        call, session = ctx.value, ctx.scope.session_id
        self._call = LabelledCall(
            session=session, id=call.id, tool=call.name, in_view=in_view, quotes=quotes
        )

    def _note(self, record: DispatchRecord) -> None:
        if record.event != MESSAGE_APPEND_BEFORE.name:
            return
        self.flush()
        if record.outcome in {"denied", "rejected"}:
            return  # It enters no view.
        texts = [each.reason for each in record.entries if each.name == NOTE and each.reason]
        label = read_label(texts[-1]) if texts else UNSEEN
        self._write(
            LabelledMessage(
                session=record.scope.session_id,
                id=record.subject,
                speaker=label.speaker,
                name=label.name,
                server=label.server,
                is_trusted=label.is_trusted,
                is_known=label.is_known,
                holds=tuple(sorted(label.holds)),
            )
        )


def label_report(
    output: Output,
    progress: ProgressLine,
    loaded: LoadedTarget,
    limit: int | None,
    *,
    is_json: bool,
) -> LabelTextReport | LabelJsonReport:
    """Return a report that follows the replay through *loaded*.

    Raises `UsageError` if *loaded* has no component that labels texts.
    """
    guard = find_flow_guard(loaded.bus)
    if guard is None:
        way_out = 'add `[[component]]` with `use = "flow"`'
        raise UsageError(
            f"{loaded.target} has no component FlowGuard, which labels texts; {way_out}"
        )
    report = (
        LabelJsonReport(output, progress, guard)
        if is_json
        else LabelTextReport(output, progress, limit, guard)
    )
    report.collector.listen(loaded.bus)
    return report


class LabelTextReport(TextReport):
    """A line for each message and call by session, at most *limit* of them."""

    def __init__(
        self, output: Output, progress: ProgressLine, limit: int | None, source: CallFactSource
    ) -> None:
        super().__init__(output, progress, limit)
        self.collector = LabelCollector(source, self._write_row)
        self._counts: Counter[str] = Counter()

    def add(self, finding: ReplayFinding) -> None:
        """Take the verdict on a call."""
        self.collector.judge(finding)

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write the latest call of *session*, and its outcomes."""
        self.collector.flush()
        super().end_session(session, outcomes)

    def _write_row(self, row: LabelRow) -> None:
        self._count_row(row)
        if self._begin_entry(row.session):
            if isinstance(row, LabelledMessage):
                self._write_message(row)
            else:
                self._write_call(row)

    def _write_message(self, row: LabelledMessage) -> None:
        trust = "trusted" if row.is_trusted else "untrusted" if row.is_known else "unknown"
        server = f" of {row.server}" if row.server else ""
        who = f"{row.speaker} {row.name}{server}".rstrip()
        self._screen.line(
            Span(f"{trust:<10}", "good" if row.is_trusted else "asked"),
            f"{_short(who):<{_WHO}}  {', '.join(row.holds)}",
            right=[Span(_short(row.id), "dim")],
            indent=1,
        )

    def _write_call(self, row: LabelledCall) -> None:
        self._screen.line(
            "call      ",
            Span(_short(row.tool), "strong"),
            right=[Span(_short(row.id), "dim")],
            indent=1,
        )
        if row.in_view:
            labels = [f"{label} ({_short(source)})" for label, source in row.in_view.items()]
            self._screen.prose(f"in view: {', '.join(labels)}", indent=3)
        for argument, source in row.quotes.items():
            self._screen.prose(f"{_short(argument)} quotes {_short(source)}", indent=3)
        if row.outcome:
            by = f" by {', '.join(row.by)}" if row.by else ""
            self._screen.prose(f"{row.outcome}{by}: {row.reason}", indent=3, style="bad")

    def _count_row(self, row: LabelRow) -> None:
        if isinstance(row, LabelledCall):
            self._counts["calls with untrusted texts in view"] += UNTRUSTED in row.in_view
            self._counts["calls that quote them"] += bool(row.quotes)
        else:
            self._counts["untrusted messages"] += not row.is_trusted

    def _write_totals(self) -> None:
        super()._write_totals()
        counts = [f"{name}: {count:,}" for name, count in self._counts.items()]
        if counts:
            self._screen.prose(", ".join(counts))


class LabelJsonReport(JsonReport):
    """One JSON document with a line for each message and call."""

    entries = "labels"

    def __init__(self, output: Output, progress: ProgressLine, source: CallFactSource) -> None:
        super().__init__(output, progress)
        self.collector = LabelCollector(source, self._write_entry)

    def add(self, finding: ReplayFinding) -> None:
        """Take the verdict on a call."""
        self.collector.judge(finding)

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Write the latest call of *session*, and its outcomes."""
        self.collector.flush()
        super().end_session(session, outcomes)


def _short(text: str) -> str:
    return text if len(text) <= _NAME else f"{text[:_NAME]}…"
