"""The news of a session that another process writes: new turns, and turns that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from toolbus.history.timeline import read_timeline
from toolbus.settings.usage_error import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.history.timeline import Timeline, Turn
    from toolbus.store.sql_reader import SqlReader

BACKLOG = 200
"""The most messages that a reader of the news is behind: more are skipped."""

_UNSETTLED = {"open", "asked"}
"""The statuses of calls that go on."""


class NewsPart(NamedTuple):
    """The turns of *timeline* are new or differ, and damage has been told by another reader.

    *skipped* are the numbers of messages before them that the reader of the news does not get.
    """

    timeline: Timeline
    skipped: range = range(0)


class SessionNews:
    """The news of a session for a display of its messages *start* + 1 to *end*.

    A turn is news again when it differs: the last turn, and turns with calls that go on.
    """

    def __init__(self, session_id: str, start: int = 0, end: int = 0) -> None:
        self._session_id, self._end = session_id, end
        self._start = max(min(start, end), end - BACKLOG)
        # Then the first turn is incomplete, and it is on display.
        self._is_cut = self._start > start
        self._unsettled: dict[str, Turn] = {}

    def read_on(self, reader: SqlReader) -> Iterator[NewsPart]:
        """Yield the news since the previous call; raises `UsageError` without the session."""
        session = reader.session(self._session_id)
        if session is None:
            raise UsageError(f"no session {self._session_id!r}")
        skipped, has_more = range(0), True
        if session.messages - self._end > BACKLOG:
            self._start = session.messages - BACKLOG // 2
            skipped = range(self._end + 1, self._start + 1)
            self._end, self._is_cut = self._start, False
        while has_more:
            timeline = read_timeline(reader, session, self._start, 2 * BACKLOG)
            if timeline.has_more and timeline.end <= self._end:
                # Large messages: those that are known fill the part.
                self._unsettled = {}
                timeline = read_timeline(reader, session, self._end, 2 * BACKLOG)
            turns = self._changed_turns(timeline)
            self._end, has_more = timeline.end, timeline.has_more
            if turns or skipped:
                yield NewsPart(replace(timeline, turns=turns, damage=()), skipped)
            skipped = range(0)

    def _changed_turns(self, timeline: Timeline) -> tuple[Turn, ...]:
        known, self._unsettled, self._start = self._unsettled, {}, timeline.end
        changed = []
        turns, self._is_cut = timeline.turns[self._is_cut :], False
        for turn in reversed(turns):
            lowest, highest = _extent(turn)
            is_unsettled = turn is turns[-1] or _goes_on(turn)
            if (highest > self._end or is_unsettled) and known.get(turn.key) != turn:
                changed.append(turn)
            # The next part begins at the beginning of a turn.
            if is_unsettled and lowest > timeline.end - BACKLOG:
                self._unsettled[turn.key], self._start = turn, lowest - 1
        return tuple(changed[::-1])


def _extent(turn: Turn) -> tuple[int, int]:
    """Return the lowest and the highest number of the messages of *turn*."""
    answers = [call.answer for entry in turn.messages for call in entry.calls if call.answer]
    numbers = [entry.seq for entry in (*turn.messages, *answers)]
    return min(numbers), max(numbers)


def _goes_on(turn: Turn) -> bool:
    return any(call.status in _UNSETTLED for entry in turn.messages for call in entry.calls)
