"""The asked calls of a store: each with its answer, and the reason why it is not evidence.

Evidence is a stored question with the yes of a person at a terminal, or on a page that a code from
the terminal opened. A webhook proves a secret, an MCP client or an approver of one's own nothing,
and the answer to a coding agent's own dialog is not known. Calls without a stored question are read
from the ledger and the messages: their refusals count, and nothing else of them.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from toolbus.approvals.questions import PREFIX, is_delegated
from toolbus.approvals.records import digest_of, matches_digest, question_at
from toolbus.approvals.steps import PAGE, TERMINAL
from toolbus.bus.ledger.records import DispatchRecord
from toolbus.errors import DecodeError
from toolbus.events.catalogue import TOOL_CALL_BEFORE, Scope
from toolbus.flow.carried_values import secrets_in
from toolbus.flow.labels import UNKNOWN, UNTRUSTED, read_label
from toolbus.flow.session_views import NOTE
from toolbus.messages.codec import changed
from toolbus.messages.records import AssistantMessage, ToolCall, ToolMessage, ToolResponse
from toolbus.policy.tool_arguments import argument_texts
from toolbus.redaction.placeholders import placeholders_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.approvals.questions import Question
    from toolbus.messages.records import Message
    from toolbus.store.store_reader import SessionRow, StoreReader

Answer: TypeAlias = Literal["yes", "no", "open", "unknown"]
PERSONAL = frozenset({PAGE, TERMINAL})
"""The channels whose answers prove a person."""

_DOUBTS = frozenset({UNTRUSTED, UNKNOWN})


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


class _CallTrace(Struct):
    """The trace of a call: its first *ask* in the ledger, as *requested*, and its *response*.

    The ask was noted before message number *seq*. The call *is_doubtful* if a text that a stranger
    may have written was in view then.
    """

    scope: Scope
    ask: DispatchRecord | None = None
    seq: float = inf
    requested: ToolCall | None = None
    response: ToolResponse | None = None
    is_doubtful: bool = False


def read_asked_calls(reader: StoreReader) -> Iterator[AskedCall]:
    """Yield the asked calls of all sessions of *reader*, the oldest session first."""
    for session in reader.sessions():
        questions = sorted(_questions(reader, session), key=lambda each: each.asked_ns)
        traces = _traces(reader, session, {each.call_id for each in questions})
        for row in reader.messages(session.key) if traces else ():
            _note(row.message, traces)
        yield from [_of_question(each, traces[each.call_id]) for each in questions]
        for question in questions:
            traces.pop(question.call_id, None)
        # A call that is made again attaches to its question.
        known = {question.digest for question in questions}
        for trace in traces.values():
            yield from _of_ledger(session.id, trace, known)


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


def _traces(reader: StoreReader, session: SessionRow, ids: set[str]) -> dict[str, _CallTrace]:
    """Return the traces of the calls in *ids*, and of all that guards asked about."""
    scope, traces, doubtful_from = Scope(), dict[str, _CallTrace](), inf
    for batch in reader.record_batches(session.key):
        for record in batch.records:
            scope = scope if scope.session_id else record.scope
            if record.event == TOOL_CALL_BEFORE.name and record.outcome == "asked":
                trace = _CallTrace(record.scope, record, batch.message_seq)
                traces.setdefault(record.call_id, trace)
            elif _has_doubt(record):
                doubtful_from = min(doubtful_from, batch.message_seq)
    traces = {**{call_id: _CallTrace(scope) for call_id in ids}, **traces}
    for trace in traces.values():
        trace.is_doubtful = doubtful_from < trace.seq
    return traces


def _has_doubt(record: DispatchRecord) -> bool:
    """Return whether *record* notes the label of a text that a stranger may have written."""
    labels = [read_label(entry.reason or "") for entry in record.entries if entry.name == NOTE]
    # A coding agent never shows all texts, so that those of its model are never known.
    texts = [each for each in labels if each.speaker != "model" or record.scope.run_id]
    return any(not _DOUBTS.isdisjoint(each.names) for each in texts)


def _note(message: Message | None, traces: dict[str, _CallTrace]) -> None:
    """Note the calls and the result in *message*."""
    match message:
        case AssistantMessage(tool_calls=calls):
            for call in calls:
                if call.id in traces:
                    traces[call.id].requested = call
        case ToolMessage(tool_call_id=call_id, tool_response=response) if call_id in traces:
            traces[call_id].response = response


def _of_question(question: Question, trace: _CallTrace) -> AskedCall:
    answer = _answer_to(question)
    return AskedCall(
        session_id=question.session_id,
        root=question.root_session_id or question.session_id,
        call=ToolCall(id=question.call_id, name=question.tool, arguments=question.arguments),
        folder=trace.scope.folder,
        project=trace.scope.project or trace.scope.folder,
        asked_ns=question.asked_ns,
        answered_ns=question.answered_ns,
        answer=answer,
        by=question.answered_by,
        channel=question.answered_from,
        rule=question.rule,
        unfit="" if answer == "no" else _objection(question) or _doubt(question, trace),
    )


def _of_ledger(session_id: str, trace: _CallTrace, known: set[str]) -> Iterator[AskedCall]:
    """Yield the call of *trace* unless its question is *known*; only its refusal counts."""
    call, ask = trace.requested, trace.ask
    if call is None or ask is None or digest_of(call.name, call.arguments) in known:
        return
    is_refused = trace.response is not None and trace.response.error_type == "denied"
    yield AskedCall(
        session_id=session_id,
        root=trace.scope.root_session_id or session_id,
        call=call,
        folder=trace.scope.folder,
        project=trace.scope.project or trace.scope.folder,
        asked_ns=ask.started_ns,
        answer="no" if is_refused else "unknown",
        unfit="" if is_refused else "its answer was not stored",
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
    if not question.asked_ns <= question.answered_ns < question.expires_ns:
        return "its answer came at an impossible time"
    return "" if matches_digest(question) else "its digest is not that of its call"


def _doubt(question: Question, trace: _CallTrace) -> str:
    """Return why the call of *question* is not what a rule should allow, or ""."""
    if trace.ask is None and trace.requested is None:
        return "its session has no such call"
    ran = None if trace.response is None else trace.response.parameters
    if ran is not None and changed(ran, question.arguments):
        return "another call ran than the approved one"
    if question.hidden or question.filled:
        return "it carried hidden values"
    if carries_secret("\n".join(argument_texts(question.arguments).values())):
        return "it carried a secret"
    return "a stranger's text was in view" if trace.is_doubtful else ""


@lru_cache(maxsize=10_000)
def carries_secret(text: str) -> bool:
    """Return whether *text* has a secret, or the placeholder of a hidden value."""
    return any(placeholders_in(text)) or any(secrets_in(text))
