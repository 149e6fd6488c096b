"""The asked calls of a store: each with its answer, and the reason why it is not evidence.

Evidence is a stored question with the yes of a person at a terminal, or on a page that a code from
the terminal opened. A webhook proves a secret, an MCP client or an approver of one's own nothing,
and the answer to a coding agent's own dialog is not known. Calls without a stored question are read
from the ledger and the messages: their refusals count, and nothing else of them.
"""

from __future__ import annotations

import itertools
import time
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from toolbus.approvals.questions import PREFIX, is_delegated
from toolbus.approvals.records import digest_of, matches_digest, question_at
from toolbus.approvals.steps import PAGE, TERMINAL
from toolbus.errors import DecodeError, StoreError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.flow.carried_values import secrets_in
from toolbus.flow.labels import UNKNOWN, UNTRUSTED, read_label
from toolbus.flow.session_views import NOTE
from toolbus.messages.codec import changed
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage, ToolResponse
from toolbus.policy.tool_arguments import argument_texts
from toolbus.redaction.placeholders import placeholders_in
from toolbus.store.check.chain_check import questions_fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from toolbus.approvals.questions import Question
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.store.store_reader import MessageRow, SessionRow, StoreReader

Answer: TypeAlias = Literal["yes", "no", "open", "unknown"]
PERSONAL = frozenset({PAGE, TERMINAL})
"""The channels whose answers prove a person."""

_CHANGED = "the log of its questions was changed; see `toolbus check --chain`"
_DOUBTS = frozenset({UNTRUSTED, UNKNOWN})


class AskedCall(Struct, frozen=True, kw_only=True):
    """A call about which a person was asked, and the answer; times are nanoseconds since the epoch.

    The session began in the folder *project*, and the call in *folder*, both absolute or "" if
    unknown. Its agent works below the session *root*, which is its own without one above. *by* and
    *channel* are the person and the channel of the answer. *unfit* is the reason why the call is
    not evidence, or "".
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
    unfit: str = ""


class _NotedAsk(Struct):
    """An ask in the ledger at *ns*, before message number *seq*; *ns* is 0 for a missing one.

    Message number *request* has the *calls* with its id; several are alike to the ledger. The call
    *is_doubtful* if a text that a stranger may have written was in view at the ask.
    """

    scope: Scope
    seq: float = inf
    ns: int = 0
    request: int = 0
    calls: tuple[ToolCall, ...] = ()
    response: ToolResponse | None = None
    is_refused: bool = False
    is_doubtful: bool = False

    @property
    def digests(self) -> list[tuple[str, ToolCall]]:
        """The calls, each after its digest."""
        return [(_digest(call), call) for call in self.calls]


_NotedAsks: TypeAlias = dict[str, list[_NotedAsk]]
"""Asks by the ids of calls, which a model may use again."""


def read_asked_calls(reader: StoreReader) -> Iterator[AskedCall]:
    """Yield the asked calls of all sessions of *reader*, the oldest session first."""
    for session in reader.sessions():
        yield from _read_session(reader, session)


def without_copies(asked: Iterable[AskedCall]) -> list[AskedCall]:
    """Return *asked* without copies: several stores may have a session, with other answers."""
    once = {
        (each.session_id, each.call.id, each.asked_ns, each.answer, _digest(each.call)): each
        for each in asked
    }
    return list(once.values())


def _digest(call: ToolCall) -> str:
    return digest_of(call.name, call.arguments)


def _read_session(reader: StoreReader, session: SessionRow) -> Iterator[AskedCall]:
    questions = sorted(_questions(reader, session), key=lambda each: each.asked_ns)
    asks = _noted_asks(reader, session, {each.call_id for each in questions})
    # A coding agent makes a call again to learn the answer to its question.
    known = {digest for ask in _all(asks) if _waits(ask) for digest, _ in ask.digests}
    misfit = _misfit(reader, session) if questions else ""
    for question in questions:
        yield _of_question(question, _take_ask(question, asks[question.call_id]), misfit)
    refused = {each.digest for each in questions if _answer_to(each) == "no"}
    for ask in _all(asks):
        yield from _of_ledger(session.id, ask, refused if ask.is_refused else known)


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


def _noted_asks(reader: StoreReader, session: SessionRow, ids: set[str]) -> _NotedAsks:
    """Return the asks of *session*, as `_asks` does, with their calls and results."""
    asks = _asks(reader, session, ids)
    for row in reader.messages(session.key) if asks else ():
        _note(row, asks)
    return asks


def _asks(reader: StoreReader, session: SessionRow, ids: set[str]) -> _NotedAsks:
    """Return the asks of *session*, and a missing one for those of *ids* without any."""
    scope, asks, doubtful_from = Scope(), _NotedAsks(), inf
    for batch in reader.record_batches(session.key):
        for record in batch.records:
            scope = scope if scope.session_id else record.scope
            if record.event == TOOL_CALL_BEFORE.name and record.outcome == "asked":
                ask = _NotedAsk(record.scope, batch.message_seq, record.started_ns)
                asks.setdefault(record.call_id, []).append(ask)
            elif _has_doubt(record):
                doubtful_from = min(doubtful_from, batch.message_seq)
    asks = {**{call_id: [_NotedAsk(scope)] for call_id in ids}, **asks}
    for ask in _all(asks):
        ask.is_doubtful = doubtful_from < ask.seq
    return asks


def _has_doubt(record: DispatchRecord) -> bool:
    """Return whether *record* notes the label of a text that a stranger may have written."""
    labels = [read_label(entry.reason or "") for entry in record.entries if entry.name == NOTE]
    # A coding agent never shows all texts, so that those of its model are never known.
    texts = [each for each in labels if each.speaker != "model" or record.scope.run_id]
    return any(not _DOUBTS.isdisjoint(each.names) for each in texts)


def _note(row: MessageRow, asks: _NotedAsks) -> None:
    """Note the calls and the result in *row* at their *asks*."""
    match row.message:
        case AssistantMessage(tool_calls=calls):
            for call in calls:
                _note_request(row.seq, call, asks.get(call.id, []))
        case ToolMessage(tool_call_id=call_id, tool_response=response) if response:
            latest = max([each.request for each in asks.get(call_id, ())], default=0)
            for ask in [each for each in asks.get(call_id, ()) if each.request == latest]:
                ask.response = response
                ask.is_refused = ask.is_refused or response.error_type == "denied"


def _note_request(seq: int, call: ToolCall, asks: list[_NotedAsk]) -> None:
    """Note that message number *seq* requests *call*, at those of *asks* that follow it."""
    for ask in asks:
        if seq <= ask.seq:
            others = ask.calls if ask.request == seq else ()
            ask.request, ask.calls = seq, (*others, call)
            ask.response, ask.is_refused = None, False


def _take_ask(question: Question, asks: list[_NotedAsk]) -> _NotedAsk | None:
    """Return the ask of *question*, the nearest before it; remove it from *asks* unless refused."""
    if asks and not asks[0].ns:
        return asks[0]
    before = [each for each in asks if each.ns <= question.asked_ns]
    # A call that was made again, to learn the answer, came later.
    ask = max(before, key=lambda each: each.ns) if before else next(iter(asks), None)
    if ask is not None and not ask.is_refused:
        asks.remove(ask)
    return ask


def _misfit(reader: StoreReader, session: SessionRow) -> str:
    """Return why no answer in *session* is evidence, or ""."""
    try:
        return "" if questions_fit(reader, session) else _CHANGED
    except (StoreError, TypeError, ValueError):
        return _CHANGED  # The file is damaged.


def _all(asks: _NotedAsks) -> Iterator[_NotedAsk]:
    return itertools.chain.from_iterable(asks.values())


def _waits(ask: _NotedAsk) -> bool:
    """Return whether an agent must make the call of *ask* again to learn the answer."""
    return ask.response is not None and ask.response.error_type == "pending"


def _of_question(question: Question, ask: _NotedAsk | None, misfit: str) -> AskedCall:
    answer, scope = _answer_to(question), Scope() if ask is None else ask.scope
    return AskedCall(
        session_id=question.session_id,
        root=question.root_session_id or question.session_id,
        call=ToolCall(id=question.call_id, name=question.tool, arguments=question.arguments),
        folder=scope.folder,
        project=scope.project or scope.folder,
        asked_ns=question.asked_ns,
        answered_ns=question.answered_ns,
        answer=answer,
        by=question.answered_by,
        channel=question.answered_from,
        unfit="" if answer == "no" else misfit or _objection(question) or _doubt(question, ask),
    )


def _of_ledger(session_id: str, ask: _NotedAsk, known: set[str]) -> Iterator[AskedCall]:
    """Yield the calls of *ask* that are not *known* from a question; only refusals count."""
    for digest, call in ask.digests:
        if digest not in known and ask.ns:
            yield AskedCall(
                session_id=session_id,
                root=ask.scope.root_session_id or session_id,
                call=call,
                folder=ask.scope.folder,
                project=ask.scope.project or ask.scope.folder,
                asked_ns=ask.ns,
                answer="no" if ask.is_refused else "unknown",
                unfit="" if ask.is_refused else "its answer was not stored",
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


def _objection(question: Question) -> str:
    """Return why the answer to *question* is not that of a person who saw the call, or ""."""
    if is_delegated(question):
        return "its host asked its own user"
    if not (question.answered_by.strip() and question.answered_ns):
        return "no person has answered"
    if question.grant:
        return "a grant answered, and not a person"
    if question.answered_from not in PERSONAL:
        return "its channel does not prove a person"
    end = min(question.expires_ns, time.time_ns())
    if not 0 < question.asked_ns <= question.answered_ns < end:
        return "its answer came at an impossible time"
    return "" if matches_digest(question) else "its digest is not that of its call"


def _doubt(question: Question, ask: _NotedAsk | None) -> str:
    """Return why the call of *question* is not what a rule should allow, or ""."""
    if ask is None or not (ask.ns or ask.calls):
        return "its session has no such call"
    if not _is_about(question, ask):
        return "another call ran than the approved one"
    if question.hidden or question.filled:
        return "it carried hidden values"
    if carries_secret("\n".join(argument_texts(question.arguments).values())):
        return "it carried a secret"
    return "a stranger's text was in view" if ask.is_doubtful else ""


def _is_about(question: Question, ask: _NotedAsk) -> bool:
    """Return whether the call that ran, or was requested, is that of *question*."""
    ran = None if ask.response is None else ask.response.parameters
    seen = [call.arguments for call in ask.calls] if ran is None else [ran]
    return not seen or not all(changed(each, question.arguments) for each in seen)


def carries_secret(text: str) -> bool:
    """Return whether *text* has a secret, or the placeholder of a hidden value."""
    return any(placeholders_in(text)) or any(secrets_in(text))
