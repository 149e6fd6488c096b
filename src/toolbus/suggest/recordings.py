"""The recorded calls of stores: those that a person was asked about, and all others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from toolbus.approvals.questions import PREFIX
from toolbus.approvals.records import digest_of, question_at
from toolbus.errors import DecodeError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.messages.records import AssistantMessage
from toolbus.policy.paths.path_patterns import is_in
from toolbus.suggest.evidence import AskedCall, read_asked_calls, without_copies

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.policy.rules.policy_file import PolicyFile
    from toolbus.store.store_reader import MessageRow, SessionRow, StateRow, StoreReader

_UNKNOWN = Scope(project="not recorded")
"""The scope of a call without a record: its folder is not absolute, so no rule knows it."""


class Recordings:
    """The sessions in the stores of *readers* to which *policy* applies.

    *asked* are the calls with a question, *newer* the ids of the last third of their sessions, by
    the first question of each. *damaged* is the number of rows that `read` could not read.
    """

    def __init__(self, readers: Sequence[StoreReader], policy: PolicyFile) -> None:
        # Relative paths that begin at the policy's file mean nothing in another project.
        is_of_file = policy.read().project is None
        self._folder = os.path.realpath(policy.file.parent) if is_of_file else ""
        self._readers, self.damaged = readers, 0
        asked = [call for reader in readers for call in read_asked_calls(reader)]
        self.asked = [call for call in without_copies(asked) if self._has(call)]
        by_time = sorted(self.asked, key=lambda call: (call.asked_ns, call.session_id))
        sessions = list(dict.fromkeys([call.session_id for call in by_time]))
        self.newer = frozenset(sessions[-(-2 * len(sessions) // 3) :])

    @property
    def older(self) -> list[AskedCall]:
        """The asked calls of the sessions behind the rules, and the refused ones of all."""
        newer = self.newer
        return [each for each in self.asked if each.session_id not in newer or each.answer == "no"]

    @property
    def steps(self) -> int:
        """The number of steps of `read`, at least one."""
        messages = [each.messages for reader in self._readers for each in reader.sessions()]
        return max(1, len(self.asked) + sum(messages))

    def read(self) -> Iterator[list[AskedCall]]:
        """Yield each asked call, as the person saw it, then the other calls of each message."""
        yield from [[call] for call in self.asked]
        digests = set(map(_key, self.asked))
        awaited = {(call.session_id, call.call.id) for call in self.asked}
        for reader in self._readers:
            for session in reader.sessions():
                scopes = self._scopes(reader, session)
                for row in reader.messages(session.key):
                    self.damaged += bool(row.damage)
                    calls = [
                        each for each in _requested(row, session.id, scopes) if self._has(each)
                    ]
                    # A repeated call attaches to its question. The first call with the id of an
                    # asked one is that call, perhaps changed by handlers; a later one is another.
                    ids = [(session.id, call.call.id) for call in calls]
                    new = [
                        call for call, each in zip(calls, ids, strict=True) if each not in awaited
                    ]
                    awaited.difference_update(ids)
                    yield [call for call in new if _key(call) not in digests]

    def _scopes(self, reader: StoreReader, session: SessionRow) -> dict[str, Scope]:
        """Return the scopes of the judged calls of *session* by id, and count damaged rows."""
        scopes = dict[str, Scope]()
        questions = [row for row in reader.states(session.key) if row.name.startswith(PREFIX)]
        self.damaged += sum([_is_damaged(row, session.id) for row in questions])
        for batch in reader.record_batches(session.key):
            self.damaged += bool(batch.damage)
            for record in batch.records:
                if record.event == TOOL_CALL_BEFORE.name:
                    scopes[record.call_id] = record.scope
        return scopes

    def _has(self, call: AskedCall) -> bool:
        """Return whether the session of *call* began in the folder or below, or may have."""
        return not (self._folder and call.project[:1] == "/") or is_in(call.project, self._folder)


def _requested(row: MessageRow, session_id: str, scopes: dict[str, Scope]) -> Iterator[AskedCall]:
    """Yield the calls that the message in *row* requests."""
    for call in row.message.tool_calls if isinstance(row.message, AssistantMessage) else ():
        scope = scopes.get(call.id, _UNKNOWN)
        project = scope.project or scope.folder
        yield AskedCall(session_id=session_id, call=call, folder=scope.folder, project=project)


def _key(call: AskedCall) -> tuple[str, str]:
    """Return the session and the digest of *call*."""
    return call.session_id, digest_of(call.call.name, call.call.arguments)


def _is_damaged(question: StateRow, session_id: str) -> bool:
    try:
        question_at(question.body or b"", session_id, question.name.removeprefix(PREFIX))
    except DecodeError:
        return True
    return False
