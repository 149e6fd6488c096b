"""The recorded verdicts of a session beside those of other handlers, call by call."""

from __future__ import annotations

from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, field

from toolbus.bus.ledger.records import FAILURES
from toolbus.events.catalogue import TOOL_CALL_BEFORE
from toolbus.formats.items import MessageItem, Problem
from toolbus.history.timeline import read_timeline
from toolbus.history.value_texts import json_text
from toolbus.messages.records import AssistantMessage, ToolMessage
from toolbus.replay.findings import ReplayTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolbus.history.timeline import CallEntry
    from toolbus.messages.records import Message
    from toolbus.replay.findings import ReplayFinding
    from toolbus.replay.sources import SourceBatch
    from toolbus.settings.differences import Difference
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import SessionRow

ALLOWED = "allowed"
MOST_ROWS = 20_000
"""The most calls and messages of a comparison; at more it stops."""

_MOST_PROBLEMS, _MOST_CHARS, _MOST_CHANGES = 20, 2_000, 20
MOST_TEXT = 2**25
"""The most characters of all texts of a comparison; at more it stops."""

_UNJUDGED = {"unknown_tool", "invalid_arguments"}
"""The statuses of calls that failed by themselves: a replay does not tell that."""

_STEP = 0.01
"""The part of a session after which the progress is reported."""

_UNCHANGED = {"unchanged", "observed"}


class Recorded(Struct, frozen=True):
    """The *verdict* of the recording on a call, its *reason* and the handlers in *by*."""

    verdict: str = ALLOWED
    reason: str = ""
    by: str = ""


class ComparedRow(Struct, kw_only=True):
    """A call of message *seq*, or with another *role* than "call" a message that handlers affect.

    *verdict* is that of the replay, with its *reason*, the handlers in *by*, and its *changes*: a
    path, the text before and the text after. *result* is the effect on the call's result. *note*
    says why the verdicts cannot be compared.
    """

    seq: int
    id: str
    role: str = "call"
    tool: str = ""
    arguments: str = ""
    recorded: Recorded = Recorded()
    verdict: str = ALLOWED
    reason: str = ""
    by: str = ""
    changes: tuple[tuple[str, str, str], ...] = ()
    result: str = ""
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether the verdicts on a call differ."""
        recorded = self.recorded.verdict
        is_comparable = self.role == "call" and not self.note and recorded not in _UNJUDGED
        return is_comparable and self.verdict != recorded


class Comparison(Struct, kw_only=True):
    """The *rows* of a session in order.

    *cut* is the reason if the end of the session was not replayed, *failure* the reason if nothing
    was. *idle* are events whose handlers do not run in a replay.
    """

    rows: list[ComparedRow] = field(default_factory=list)
    idle: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)
    cut: str = ""
    failure: str = ""

    @property
    def calls(self) -> list[ComparedRow]:
        """The rows of calls."""
        return [row for row in self.rows if row.role == "call"]

    @property
    def differing(self) -> list[ComparedRow]:
        """The rows of calls with another verdict."""
        return [row for row in self.rows if row.differs]

    def count_verdicts(self) -> list[tuple[str, int, int]]:
        """Return each verdict, and its numbers of recorded and of replayed calls."""
        recorded = Counter([row.recorded.verdict for row in self.calls])
        replayed = Counter([row.verdict for row in self.calls])
        return [(word, recorded[word], replayed[word]) for word in sorted({*recorded, *replayed})]


class ComparisonListener:
    """The receiver of the findings on one session; it stops the replay after *seconds*.

    *report* gets the part of the session that was replayed, from 0 to 1.
    """

    def __init__(self, seconds: float, report: Callable[[float], object]) -> None:
        self.comparison, self.totals = Comparison(), ReplayTotals()
        self._seconds, self._end, self._report = seconds, monotonic() + seconds, report
        self._seq, self._done, self._chars = 0, 0.0, 0
        self._calls: dict[str, ComparedRow] = {}
        self._answered: ComparedRow | None = None

    @property
    def progress(self) -> ComparisonListener:
        """The display of the progress: this object."""
        return self

    def show(self, text: str, done: float | None = None) -> None:
        """Report the part *done*."""
        del text
        # A message a batch, and each report is a write.
        if done is not None and done >= self._done + _STEP:
            self._done = done
            self._report(done)

    @property
    def lost(self) -> bool:
        """Whether the replay stops before the end of the session."""
        if monotonic() > self._end:
            self.comparison.cut = f"it took more than {self._seconds:g} s"
        elif len(self.comparison.rows) >= MOST_ROWS:
            self.comparison.cut = f"it has more than {MOST_ROWS:,} calls"
        elif self._chars > MOST_TEXT:
            self.comparison.cut = f"its calls have more than {MOST_TEXT:,} characters"
        return bool(self.comparison.cut)

    def follow(
        self, batches: Iterable[SourceBatch], recorded: Iterator[tuple[int, list[Recorded]]]
    ) -> Iterator[SourceBatch]:
        """Yield the items of *batches* one by one, and note the *recorded* verdicts on calls."""
        upcoming = next(recorded, None)
        for batch in batches:
            for item in batch.items:
                # A damaged message has a number as well.
                self._seq += isinstance(item, MessageItem | Problem)
                self._answered = None
                if isinstance(item, MessageItem):
                    while upcoming and upcoming[0] < self._seq:
                        upcoming = next(recorded, None)
                    is_it = upcoming and upcoming[0] == self._seq
                    self._note(item.message, upcoming[1] if upcoming and is_it else [])
                yield batch._replace(items=[item])

    def _note(self, message: Message, recorded: list[Recorded]) -> None:
        match message:
            case AssistantMessage(tool_calls=calls):
                verdicts = [*recorded, *[Recorded()] * len(calls)]
                for call, verdict in zip(calls, verdicts, strict=False):
                    row = ComparedRow(seq=self._seq, id=call.id, tool=call.name, recorded=verdict)
                    row.arguments = self._shorten(call.arguments)
                    self._chars += len(verdict.reason)
                    self._calls[call.id] = row
                    self.comparison.rows.append(row)
            case ToolMessage(tool_call_id=call_id):
                self._answered = self._calls.pop(call_id, None)

    def add(self, finding: ReplayFinding) -> None:
        """Add *finding* to the row of its call or message."""
        if finding.role == "tool" and self._answered is not None:
            by = f" by {', '.join(finding.by)}" if finding.by else ""
            self._answered.result = f"{finding.outcome}{by}"
            return
        row = self._answered or self._calls.get(finding.subject)
        if row is None:
            row = ComparedRow(
                seq=self._seq, id=finding.subject, role=finding.role, tool=finding.tool
            )
            self.comparison.rows.append(row)
        reason = self._shorten(finding.reason or "")
        if finding.outcome == "unjudged":
            row.verdict, row.note = finding.outcome, reason
        elif finding.outcome == "refused":
            row.note = reason
        elif finding.outcome != "permitted":
            row.verdict, row.reason, row.by = finding.outcome, reason, ", ".join(finding.by)
            row.changes = tuple(map(self._shorten_change, finding.changes[:_MOST_CHANGES]))

    def _shorten_change(self, change: Difference) -> tuple[str, str, str]:
        return self._shorten(change.path), self._shorten(change.before), self._shorten(change.after)

    def _shorten(self, value: object) -> str:
        """Return the beginning of a text, or of *value* as JSON; "" for a missing value."""
        text = json_text(value)
        self._chars += len(text[:_MOST_CHARS])
        return text[:_MOST_CHARS]

    def end_session(self, session: str, outcomes: Counter[str]) -> None:
        """Take the end of the session."""

    def problem(self, source: str, line: int, reason: str) -> None:
        """Take an unreadable message."""
        del source, line
        if len(self.comparison.problems) < _MOST_PROBLEMS:
            self.comparison.problems.append(reason)

    def skip(self, kind: str) -> None:
        """Take a line without a message, which no store has."""


def recorded_verdicts(
    reader: SqlReader, session: SessionRow
) -> Iterator[tuple[int, list[Recorded]]]:
    """Yield the number of each message with calls, and the recorded verdicts on them."""
    after, has_more = 0, True
    while has_more:
        timeline = read_timeline(reader, session, after)
        after, has_more = timeline.end, timeline.has_more
        for turn in timeline.turns:
            for entry in turn.messages:
                if isinstance(entry.message, AssistantMessage) and entry.calls:
                    yield entry.seq, [_recorded(call) for call in entry.calls]


def _recorded(call: CallEntry) -> Recorded:
    outcome = "denied" if call.status == "denied" else ALLOWED
    for dispatch in call.dispatches:
        if dispatch.event == TOOL_CALL_BEFORE.name:
            outcome = ALLOWED if dispatch.outcome in _UNCHANGED else dispatch.outcome
            if any(handler.status in FAILURES for handler in dispatch.handlers):
                outcome = "failed" if outcome == ALLOWED else outcome
    if outcome == ALLOWED and call.status in _UNJUDGED:
        outcome = call.status
    return Recorded(outcome, call.reason[:_MOST_CHARS], call.by)
