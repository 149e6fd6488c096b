"""The recorded calls of a store, and the answers of a person to some of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.messages.records import AssistantMessage, ToolCall
from toolbus.policy.paths.path_patterns import is_in
from toolbus.suggest.evidence import read_asked_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.store.store_reader import SessionRow, StoreReader
    from toolbus.suggest.evidence import AskedCall

_UNKNOWN = "not recorded"
"""The folder of a call without a recorded folder: not an absolute path, so no rule knows it."""


class RecordedCall(NamedTuple):
    """A *call* of a session in its *scope*; *place* is the number of its message in the store."""

    session: str
    place: int
    call: ToolCall
    scope: Scope


class Recording(NamedTuple):
    """The sessions in the store of *reader* with a start in *folder* or below ("": anywhere).

    *asked* are the calls with a question, by the ids of session and call; *newer* are the ids of
    the sessions without influence on the rules.
    """

    reader: StoreReader
    folder: str
    asked: dict[tuple[str, str], AskedCall]
    newer: frozenset[str] = frozenset()

    @property
    def messages(self) -> int:
        """The number of messages in the store."""
        return sum([session.messages for session in self.reader.sessions()])

    @property
    def older(self) -> list[AskedCall]:
        """The asked calls of the sessions behind the rules."""
        return [call for call in self.asked.values() if call.session_id not in self.newer]

    def calls(self) -> Iterator[RecordedCall]:
        """Yield all calls, the oldest session first; an asked call as the person saw it."""
        place = 0
        for session in self.reader.sessions():
            scopes = _scopes(self.reader, session)
            unknown = Scope(session_id=session.id, project=_UNKNOWN)
            for row in self.reader.messages(session.key):
                place += 1
                calls = row.message.tool_calls if isinstance(row.message, AssistantMessage) else ()
                for call in calls:
                    scope, asked = (
                        scopes.get(call.id, unknown),
                        self.asked.get((session.id, call.id)),
                    )
                    if _is_below(self.folder, scope.project or scope.folder):
                        shown = call if asked is None else asked.call
                        yield RecordedCall(session.id, place, shown, scope)


def read_recordings(readers: Sequence[StoreReader], policy: PolicyFile) -> list[Recording]:
    """Return the sessions of *policy* in the stores of *readers*.

    The newer sessions are the last third of the sessions with an asked call.
    """
    # Relative paths that begin at the policy's file mean nothing in another project.
    is_of_file = policy.read().project is None
    folder = os.path.realpath(policy.file.parent) if is_of_file else ""
    recordings, starts = [], list[tuple[int, int, str]]()
    for number, reader in enumerate(readers):
        asked = {
            (call.session_id, call.call.id): call
            for call in read_asked_calls(reader)
            if _is_below(folder, call.project or call.folder)
        }
        recordings.append(Recording(reader, folder, asked))
        names = {session for session, _ in asked}
        sessions = [each for each in reader.sessions() if each.id in names]
        starts += [(each.created_ns, number, each.id) for each in sessions]
    newer = sorted(starts)[-(-2 * len(starts) // 3) :]
    return [
        each._replace(newer=frozenset([name for _, of, name in newer if of == number]))
        for number, each in enumerate(recordings)
    ]


def _scopes(reader: StoreReader, session: SessionRow) -> dict[str, Scope]:
    """Return the scopes of the judged calls of *session*, by the ids of the calls."""
    return {
        record.call_id: record.scope
        for batch in reader.record_batches(session.key)
        for record in batch.records
        if record.event == TOOL_CALL_BEFORE.name
    }


def _is_below(folder: str, place: str) -> bool:
    return not folder or not place.startswith("/") or is_in(place, folder)
