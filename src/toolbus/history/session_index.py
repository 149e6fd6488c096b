"""The index of a store's sessions: their summaries in memory, kept up to date by a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from contextlib import contextmanager
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple, Protocol

from toolbus.errors import ToolbusError
from toolbus.history.figures import Durations, Figures
from toolbus.history.session_summaries import SessionSummary, read_on
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.store_reader import SessionRow

logger = logging.getLogger("toolbus")

MOST_SESSIONS = 100_000
"""The most sessions in memory, about 100 MB: the latest written ones."""

_FEW = 1_000
"""The sessions that are listed as a whole each time."""

_SHARE, _WHOLE = 1.0, 60.0
"""Seconds between views while sessions are read, and between whole lists of many sessions."""

_PAUSE, _RETRY = 0.25, 2.0
"""Seconds between looks at the store, and after a failure."""


class QuestionFacts(Protocol):
    """The facts of a question that count."""

    asked_ns: int
    expires_ns: int
    state: str
    answered_ns: int
    grant: str

    @property
    def is_open(self) -> bool:
        """Whether the question has no answer; it may have expired."""
        ...


class SessionQuestions(NamedTuple):
    """The questions of a session by state, how long the answered ones *waited*, and *open_ns*.

    At *open_ns* the last open question expires. *waited* leaves out answers by a grant.
    """

    states: Mapping[str, int]
    waited: Durations
    open_ns: int = 0


_NO_QUESTIONS = SessionQuestions({}, Durations())
_NO_SUMMARY = SessionSummary()


class IndexEntry(NamedTuple):
    """A session with its summary; *is_current*: it includes all messages of *session*."""

    session: SessionRow
    summary: SessionSummary = _NO_SUMMARY
    questions: SessionQuestions = _NO_QUESTIONS
    is_current: bool = False

    def state(self, now_ns: int) -> str:
        """Return "asked" while a question is open, else "done" or "open"."""
        return "asked" if now_ns < self.questions.open_ns else self.summary.state


class IndexView(NamedTuple):
    """The sessions by key, and the figures over them, at one moment.

    *unread* is the number of sessions that are not current, *problem* a failure of the store.
    """

    entries: Mapping[int, IndexEntry]
    figures: Figures
    unread: int = 0
    problem: str = ""

    def entry_of(self, row: SessionRow) -> IndexEntry:
        """Return the session *row* with its summary, as far as there is one."""
        entry = self.entries.get(row.key)
        if entry is None or not _continues(row, entry):
            return IndexEntry(row)
        return entry._replace(session=row, is_current=entry.is_current and entry.session == row)


class SessionFilter(NamedTuple):
    """The conditions of a list of sessions; "" and False are none.

    All words of *q* are in the id or at the beginning of the first user message.
    """

    q: str = ""
    agent: str = ""
    state: str = ""
    tool: str = ""
    denied: bool = False
    asked: bool = False

    def select(self, view: IndexView, limit: int, now_ns: int) -> list[IndexEntry]:
        """Return the first sessions that meet all conditions, the latest written first."""
        words = self.q.casefold().split()
        # The slowest test is the last.
        tests: dict[str, Callable[[IndexEntry], bool]] = {
            "denied": lambda entry: entry.summary.denied > 0,
            "asked": lambda entry: entry.summary.asked > 0,
            "agent": lambda entry: self.agent in entry.summary.agents,
            "tool": lambda entry: self.tool in entry.summary.calls,
            "state": lambda entry: self.state == entry.state(now_ns),
            "q": lambda entry: _has_words(entry, words),
        }
        entries: Iterable[IndexEntry] = view.entries.values()
        for name, test in tests.items():
            if getattr(self, name):
                entries = filter(test, entries)
        return nlargest(
            limit, entries, key=lambda entry: (entry.session.updated_ns, entry.session.key)
        )


class SessionIndex:
    """The index of a store; *view* is replaced as a whole, so that other threads may read it.

    *placeholders* returns the placeholders in a text, each after its kind; *questions* yields the
    questions of the session with a key.
    """

    def __init__(
        self,
        placeholders: Callable[[str], Iterable[tuple[str, str]]],
        questions: Callable[[SqlReader, int], Iterable[QuestionFacts]],
    ) -> None:
        self._placeholders, self._questions = placeholders, questions
        self._whole_at, self._shared_at, self._is_partial = 0.0, 0.0, False
        self.view = IndexView({}, Figures())
        self.resume("")

    def resume(self, problem: str) -> None:
        """Continue from the latest view after *problem*, with another reader."""
        self.view = self.view._replace(problem=problem)
        self._entries, self._figures = dict(self.view.entries), self.view.figures.snapshot()
        self._changes: int | None = None
        self._unread, self._has_news = list[int](), True

    def read_on(self, reader: SqlReader, until: float) -> bool:
        """Follow the store, at most *until* a monotonic time; return whether it is up to date."""
        changes, now = reader.changes, time.monotonic()
        if changes != self._changes or (self._is_partial and now >= self._whole_at):
            self._list(reader)
            self._changes = changes
        while self._unread and now < until:
            self._read(reader, self._unread[-1])
            now = time.monotonic()
        if self._has_news and (not self._unread or now >= self._shared_at + _SHARE):
            self.view = IndexView(
                dict(self._entries), self._figures.snapshot(), len(self._unread), problem=""
            )
            self._has_news, self._shared_at = False, now
        return not self._unread

    def _list(self, reader: SqlReader) -> None:
        """Find the sessions that are new or were written, and put the latest to the end."""
        self._is_partial = len(self._entries) > _FEW and time.monotonic() < self._whole_at
        if self._is_partial:
            rows = self._written(reader)
        else:
            listed = (row for row in reader.sessions() if row.has_entries)
            rows = nlargest(MOST_SESSIONS, listed, key=lambda row: row.updated_ns)
            for key in self._entries.keys() - {row.key for row in rows}:
                del self._entries[key]
                self._has_news = True
            self._whole_at = time.monotonic() + _WHOLE
        for row in rows:
            self._add(row)
        unread = [entry.session for entry in self._entries.values() if not entry.is_current]
        self._unread = [row.key for row in sorted(unread, key=lambda row: row.updated_ns)]

    def _add(self, row: SessionRow) -> None:
        entry = self._entries.get(row.key)
        if entry is None or not _continues(row, entry):
            entry = IndexEntry(row)
        elif row == entry.session:
            return
        self._entries[row.key] = entry._replace(session=row, is_current=False)
        self._has_news = True

    def _written(self, reader: SqlReader) -> list[SessionRow]:
        """Return the sessions that were written since the previous list."""
        rows: list[SessionRow] = []
        while page := reader.recent_sessions(_FEW, len(rows)):
            rows += page
            entry = self._entries.get(page[-1].key)
            if entry is not None and entry.session == page[-1]:
                break
        return rows

    def _read(self, reader: SqlReader, key: int) -> None:
        entry = self._entries[key]
        summary, is_partial = read_on(
            reader, entry.session, entry.summary, self._figures, self._placeholders
        )
        entry = entry._replace(summary=summary)
        if not is_partial:
            self._unread.pop()
            entry = entry._replace(questions=_sum_up(self._questions(reader, key)), is_current=True)
        self._entries[key], self._has_news = entry, True


def _has_words(entry: IndexEntry, words: list[str]) -> bool:
    text = f"{entry.session.id} {entry.summary.prompt}".casefold()
    return all(word in text for word in words)


def _continues(row: SessionRow, entry: IndexEntry) -> bool:
    """Return whether *row* is the session of *entry*: a store may use a key again."""
    before, summary = entry.session, entry.summary
    is_same = (row.id, row.created_ns) == (before.id, before.created_ns)
    return is_same and row.messages >= summary.messages and row.records >= before.records


def _sum_up(questions: Iterable[QuestionFacts]) -> SessionQuestions:
    states, waited, open_ns = Counter[str](), Durations(), 0
    for question in questions:
        states[question.state] += 1
        if question.is_open:
            open_ns = max(open_ns, question.expires_ns)
        elif question.answered_ns and not question.grant:
            waited.add(question.answered_ns - question.asked_ns)
    return SessionQuestions(states, waited, open_ns) if states else _NO_QUESTIONS


@contextmanager
def following(address: str, index: SessionIndex) -> Iterator[None]:
    """Keep *index* up to date with the store at *address*, by a thread, within the context.

    The end waits for the thread a second at most.
    """
    stopping, name = threading.Event(), "toolbus session index"
    thread = threading.Thread(target=_run, args=(address, index, stopping), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(1.0)


def _run(address: str, index: SessionIndex, stopping: threading.Event) -> None:
    while not stopping.is_set():
        try:
            with open_reader(address, live=True) as reader:
                _follow(reader, index, stopping)
        except Exception as error:
            if not isinstance(error, ToolbusError):
                logger.exception("the index of sessions failed")
            index.resume(f"sessions cannot be counted at the moment: {error}")
            stopping.wait(_RETRY)


def _follow(reader: SqlReader, index: SessionIndex, stopping: threading.Event) -> None:
    while not stopping.is_set():
        started = time.monotonic()
        if index.read_on(reader, started + _PAUSE):
            # At most half of the time is spent on a store that changes all the time.
            stopping.wait(max(_PAUSE, time.monotonic() - started))
