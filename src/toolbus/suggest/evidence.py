"""The asked calls of a store: each with its answer, and the reason why it is not evidence.

Evidence is a stored question with the yes of a person at a terminal, or on a page that a code from
the terminal opened. A webhook proves a secret, an MCP client or an approver of one's own nothing,
and the answer to a coding agent's own dialog is not known. Calls without a stored question are read
from the ledger and the messages: their refusals count, and nothing else of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from toolbus.approvals.page_answers import CHANNEL
from toolbus.approvals.questions import PREFIX, is_delegated
from toolbus.approvals.records import matches_digest, question_at
from toolbus.approvals.steps import TERMINAL
from toolbus.errors import DecodeError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.flow.carried_values import secrets_in
from toolbus.flow.labels import UNKNOWN, UNTRUSTED, read_label
from toolbus.flow.session_views import NOTE
from toolbus.messages.codec import changed
from toolbus.messages.immutable import JsonObject
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage
from toolbus.policy.tool_arguments import argument_texts
from toolbus.redaction.placeholders import placeholders_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.approvals.questions import Question
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.store.store_reader import SessionRow, StoreReader

Answer: TypeAlias = Literal["yes", "no", "open", "unknown"]
PERSONAL = frozenset({TERMINAL, CHANNEL})
"""The channels whose answers prove a person."""

_DOUBTS = frozenset({UNTRUSTED, UNKNOWN})
_NEVER = float("inf")


class AskedCall(Struct, frozen=True, kw_only=True):
    """A call about which a person was asked, and the answer; times are nanoseconds since the epoch.

    The session began in the folder *project*, and the call in *folder*, both absolute or "" if
    unknown. Its agent works below the session *root*, which is its own without one above. *by* and
    *channel* are the person and the channel of the answer, *rule* names the rules that asked, one
    per line. *unfit* is the reason why the call is not evidence, or "".
    """

    session_id: str
    root: str = ""
    call: ToolCall
    folder: str = ""
    project: str = ""
    asked_ns: int = 0
    answered_ns: int = 0
    answer: Answer = "unknown"
    by: str = ""
    channel: str = ""
    rule: str = ""
    unfit: str = ""


class _Ask(NamedTuple):
    """A call that a guard asked about, in the ledger: before message number *seq* in *scope*."""

    seq: int
    scope: Scope
    asked_ns: int


class _Ending(Struct):
    """A call in the messages: as *requested*, as it *ran*, and whether it was refused or ended."""

    requested: ToolCall | None = None
    ran: JsonObject | None = None
    is_refused: bool = False
    has_ended: bool = False


class _SessionFacts:
    """The facts of a session about its asked calls: questions, and what ledger and messages say.

    A doubtful text was noted in the ledger first with message number *doubtful_from*, and as the
    results of the calls *doubtful_results*.
    """

    def __init__(self, reader: StoreReader, session: SessionRow) -> None:
        self.id, self.scope = session.id, Scope()
        self.doubtful_from, self.doubtful_results = _NEVER, set[str]()
        self.questions = sorted(_questions(reader, session), key=lambda each: each.asked_ns)
        self.asks: dict[str, _Ask] = {}
        self._read_ledger(reader, session)
        ids = {*self.asks, *[question.call_id for question in self.questions]}
        self.endings: dict[str, _Ending] = {}
        for row in reader.messages(session.key) if ids else ():
            if isinstance(row.message, AssistantMessage):
                for call in row.message.tool_calls:
                    if call.id in ids:
                        self._ending(call.id).requested = call
            elif isinstance(row.message, ToolMessage) and row.message.tool_call_id in ids:
                self._end(row.message)

    def _read_ledger(self, reader: StoreReader, session: SessionRow) -> None:
        for batch in reader.record_batches(session.key):
            if batch.records and not self.scope.session_id:
                self.scope = batch.records[0].scope
            for record in batch.records:
                if record.event == TOOL_CALL_BEFORE.name and record.outcome == "asked":
                    ask = _Ask(batch.message_seq, record.scope, record.started_ns)
                    self.asks.setdefault(record.call_id, ask)
            doubtful = [record for record in batch.records if _has_doubt(record)]
            self.doubtful_results |= {record.call_id for record in doubtful} - {""}
            if doubtful:
                self.doubtful_from = min(batch.message_seq, self.doubtful_from)

    def _ending(self, call_id: str) -> _Ending:
        return self.endings.setdefault(call_id, _Ending())

    def _end(self, message: ToolMessage) -> None:
        ending, response = self._ending(message.tool_call_id), message.tool_response
        ending.has_ended = True
        if response is not None:
            ending.is_refused = response.error_type == "denied"
            ending.ran = response.parameters


def read_asked_calls(reader: StoreReader) -> Iterator[AskedCall]:
    """Yield the asked calls of all sessions of *reader*, the oldest session first."""
    for session in reader.sessions():
        facts = _SessionFacts(reader, session)
        stored = {question.call_id for question in facts.questions}
        yield from [_of_question(question, facts) for question in facts.questions]
        for call_id, ask in facts.asks.items():
            ending = facts.endings.get(call_id)
            if call_id not in stored and ending is not None and ending.requested is not None:
                yield _of_ledger(ending.requested, ending, ask, facts)


def _questions(reader: StoreReader, session: SessionRow) -> Iterator[Question]:
    """Yield the readable questions of *session* about calls."""
    for row in reader.states(session.key):
        if row.body is not None and row.name.startswith(PREFIX):
            try:
                question = question_at(row.body, session.id, row.name.removeprefix(PREFIX))
            except DecodeError:
                continue  # It is about nothing that a person was shown.
            if question.tool:
                yield question


def _has_doubt(record: DispatchRecord) -> bool:
    """Return whether *record* notes the label of a text that a stranger may have written."""
    notes = [entry.reason or "" for entry in record.entries if entry.name == NOTE]
    return any(not _DOUBTS.isdisjoint(read_label(note).names) for note in notes)


def _of_question(question: Question, facts: _SessionFacts) -> AskedCall:
    ask = facts.asks.get(question.call_id)
    scope = facts.scope if ask is None else ask.scope
    answer = _answer_to(question)
    return AskedCall(
        session_id=facts.id,
        root=question.root_session_id or facts.id,
        call=ToolCall(id=question.call_id, name=question.tool, arguments=question.arguments),
        folder=scope.folder,
        project=scope.project or scope.folder,
        asked_ns=question.asked_ns,
        answered_ns=question.answered_ns,
        answer=answer,
        by=question.answered_by,
        channel=question.answered_from,
        rule=question.rule,
        unfit="" if answer == "no" else _objection(question, facts),
    )


def _of_ledger(call: ToolCall, ending: _Ending, ask: _Ask, facts: _SessionFacts) -> AskedCall:
    answer: Answer = "no" if ending.is_refused else "unknown" if ending.has_ended else "open"
    return AskedCall(
        session_id=facts.id,
        root=ask.scope.root_session_id or facts.id,
        call=call,
        folder=ask.scope.folder,
        project=ask.scope.project or ask.scope.folder,
        asked_ns=ask.asked_ns,
        answer=answer,
        unfit="its answer was not stored",
    )


def _answer_to(question: Question) -> Answer:
    # A host's own question that stays unheard was most likely refused.
    if question.state in {"denied", "unheard"}:
        return "no"
    if is_delegated(question):
        return "unknown"
    # An approval may expire before it is used.
    if question.answered_ns or question.answered_by:
        return "yes"
    return "open" if question.state in {"pending", "expired", "withdrawn"} else "unknown"


def _objection(question: Question, facts: _SessionFacts) -> str:
    """Return why *question* is not evidence, "" if it is."""
    if is_delegated(question):
        return "its host asked its own user"
    if not (question.answered_by.strip() and question.answered_ns):
        return "no person has answered"
    if question.grant:
        return "a grant answered, and not a person"
    if question.answered_from not in PERSONAL:
        return "its channel does not prove a person"
    if question.hidden or question.filled:
        return "it carried hidden values"
    return _mismatch(question, facts) or _sight(question, facts)


def _mismatch(question: Question, facts: _SessionFacts) -> str:
    """Return how the record of *question* differs from what a person can have approved, or ""."""
    if not matches_digest(question):
        return "its digest is not that of its call"
    if not question.asked_ns <= question.answered_ns < question.expires_ns:
        return "its answer came at an impossible time"
    ending = facts.endings.get(question.call_id)
    if ending is None and question.call_id not in facts.asks:
        return "its session has no such call"
    ran = None if ending is None else ending.ran
    if ran is not None and changed(ran, question.arguments):
        return "another call ran than the approved one"
    return ""


def _sight(question: Question, facts: _SessionFacts) -> str:
    """Return what else was in view of a person or the model at *question*, or ""."""
    if carries_secret("\n".join(argument_texts(question.arguments).values())):
        return "it carried a secret"
    ask = facts.asks.get(question.call_id)
    if facts.doubtful_from < (_NEVER if ask is None else ask.seq):
        return "an untrusted text was in view"
    if question.call_id in facts.doubtful_results:
        return "its result was an untrusted text"
    return ""


@lru_cache(maxsize=10_000)
def carries_secret(text: str) -> bool:
    """Return whether *text* has a secret, or the placeholder of a hidden value."""
    return any(placeholders_in(text)) or any(secrets_in(text))
