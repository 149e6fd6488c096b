"""The sink that makes spans of the records of dispatches: one for each run, model and tool call."""

from __future__ import annotations

import re
import threading
from time import time_ns
from typing import Any, ClassVar

import msgspec
from opentelemetry import context, trace

from toolbus.bus.ledger.records import DispatchRecord, is_notable
from toolbus.events import catalogue as events
from toolbus.formats.genai_messages import encode_messages, encode_value
from toolbus.messages.records import AssistantMessage, Message, ToolMessage
from toolbus.otel import names

Key = tuple[str, str, str]
MAX_OPEN = 2_000  # Open spans; beyond that the oldest ones end.
_OURS, _ALONE = "toolbus-open-span", ("handlers", "", "")
_OF_MODEL = (AssistantMessage, events.ModelRequest, events.ModelReply, events.ModelFailure)
_NAME = re.compile(r"(?![0-9a-f]{16}\Z)[\w.:/@+-]{1,200}")  # Not generated, nor a text.


class OpenSpan(msgspec.Struct, eq=False):
    """A *span* until *end_ns*, and the context *before* it; a model call reads *unread* next."""

    span: trace.Span
    before: Any
    labels: dict[str, str]
    started_ns: int
    end_ns: int = 0
    asked: bool = False
    unread: tuple[Message, ...] = ()


class SpanSink(msgspec.Struct, eq=False):
    """A sink for `bus.tap(…, values=True)`, of the agent *agent_id* and those below it; "": all."""

    tracer: trace.Tracer
    instruments: dict[str, Any]
    owner: Any
    agent_id: str
    _open: dict[Key, OpenSpan] = {}  # msgspec copies the default.
    _tools: set[str] = set()  # All that were listed, for a model may invent names.
    _lock: Any = msgspec.field(default_factory=threading.RLock)

    def __call__(self, record: DispatchRecord) -> None:
        """Take the record of one dispatch."""
        scope = record.scope
        if not (self.owner.enabled and self.agent_id in {"", scope.agent_id, *scope.lineage}):
            return
        with self._lock:
            self._begin_any(record)
            opened = self._open.get(key := self._key_of(record))
            self._add_handlers(record, opened)
            if opened is not None and (step := self._steps.get(record.event)) is not None:
                step(self, record, key, opened)
            while len(self._open) > MAX_OPEN:
                self._end(next(iter(self._open)))

    def close(self) -> None:
        """End all spans."""
        with self._lock:
            for key in reversed(tuple(self._open)):
                self._end(key)

    def _key_of(self, record: DispatchRecord) -> Key:
        scope, kind = record.scope, "chat" if isinstance(record.value, _OF_MODEL) else "run"
        if record.call_id:
            return "call", scope.session_id, record.call_id
        key = (kind, scope.session_id, scope.run_id)
        return key if key in self._open else ("run", *key[1:])

    def _begin_any(self, record: DispatchRecord) -> None:
        key = ("run", record.scope.session_id, record.scope.run_id)
        if record.scope.run_id and key not in self._open:  # A run begins with its first record.
            self._begin(key, record, names.INVOKE_AGENT, **{names.AGENT: record.scope.agent_id})
        if record.event == events.TOOLS_PROVIDE.name:
            self._tools.update([spec.name for spec in record.result])
        elif record.event == events.MODEL_CALL_BEFORE.name:
            self._begin_chat(record)
        elif record.event in {events.TOOL_CALL_BEFORE.name, events.TOOL_CALL_AFTER.name}:
            self._begin_call(record)

    def _begin(self, key: Key, record: DispatchRecord, operation: str, **named: str) -> OpenSpan:
        """Begin a span, and make it the current one of this context."""
        if key in self._open:
            self._end(key, record.started_ns)
        before = around = context.get_current()
        while isinstance(ours := context.get_value(_OURS, around), OpenSpan) and ours.end_ns:
            around = ours.before
        run = self._open.get(("run", record.scope.session_id, record.scope.run_id))
        if ours is None and run is not None:  # This task has not the context of its run.
            around = trace.set_span_in_context(run.span, around)
        self.owner.ids.session = record.scope.root_session_id or record.scope.session_id
        labels = {names.OPERATION: operation} | {each: _name(named[each]) for each in named}
        facts = {names.AGENT: _name(record.scope.agent_id), names.CONVERSATION: key[1], **labels}
        facts = {each: facts[each] for each in facts if facts[each]}
        kind = trace.SpanKind.CLIENT if operation == names.CHAT else trace.SpanKind.INTERNAL
        title, start_ns = " ".join(filter(None, labels.values())), record.started_ns
        span = self.tracer.start_span(title, around, kind, facts, start_time=start_ns)
        opened = self._open[key] = OpenSpan(span, before, labels, start_ns)
        context.attach(trace.set_span_in_context(span, context.set_value(_OURS, opened)))
        return opened

    def _finish(self, opened: OpenSpan, end_ns: int, status: str, error: str | None = None) -> None:
        """Set the end of a span, which waits for the handlers of its message; leave its context."""
        opened.end_ns, span = max(end_ns, opened.started_ns), opened.span
        if status not in {"ok", "answered", "pending", "open"}:
            opened.labels[names.ERROR] = _name(error or status) or "_OTHER"
            span.set_status(trace.StatusCode.ERROR)
        span.set_attributes({**opened.labels, names.STATUS: status})
        if (metric := names.DURATIONS.get(opened.labels[names.OPERATION])) is not None:
            seconds = (opened.end_ns - opened.started_ns) / 1e9
            self.instruments[metric].record(seconds, opened.labels)
        if trace.get_current_span() is span:
            context.attach(opened.before)

    def _end(self, key: Key, end_ns: int = 0) -> None:
        opened = self._open.pop(key)
        if not opened.end_ns:  # It waits for a person, or its end is not known.
            self._finish(opened, end_ns or time_ns(), "pending" if opened.asked else "open")
        opened.span.end(opened.end_ns)

    def _end_run(self, record: DispatchRecord, key: Key, run: OpenSpan) -> None:
        for other in [each for each in self._open if each[1] == key[1] and each != key]:
            self._end(other, record.started_ns)
        self._count(run, record.value.usage)
        self._finish(run, record.started_ns, record.value.status)
        self._end(key)

    def _begin_chat(self, record: DispatchRecord) -> None:
        key, run = ("chat", *self._key_of(record)[1:]), self._open.get(self._key_of(record))
        if run is not None and record.outcome in {"unchanged", "changed"}:
            opened = self._begin(key, record, names.CHAT, **{names.MODEL: record.result.model})
            if run.unread:
                opened.span.set_attribute(names.INPUT, encode_messages(run.unread))
            run.unread = ()

    def _end_chat(self, record: DispatchRecord, key: Key, chat: OpenSpan) -> None:
        if key[0] == "chat" and isinstance(record.value, events.ModelFailure):
            self._finish(chat, record.started_ns, "error", record.value.error_type)
        elif key[0] == "chat":
            self._count(chat, record.value.message.usage)
            reason = _name(record.value.message.stop_reason or "")
            chat.span.set_attribute(names.FINISH_REASONS, [reason] if reason else [])
            self._finish(chat, record.started_ns, "ok")

    def _count(self, opened: OpenSpan, usage: Any) -> None:
        for name, end in names.COUNTS.items():
            if type(count := (usage or {}).get(name)) is int:
                opened.span.set_attribute(f"{names.USAGE}.{end}", count)
                if names.MODEL in opened.labels:
                    labels = {**opened.labels, names.MODALITY: "unknown"}
                    self.instruments[f"{names.TOKENS}.{end}"].add(count, labels)

    def _begin_call(self, record: DispatchRecord) -> None:
        opened, call = self._open.get(key := self._key_of(record)), record.value
        if opened is None or opened.end_ns:  # Else handlers judge it again, after an approval.
            if isinstance(call, events.ToolCallOutcome):  # It began in another process.
                began_ns = record.started_ns - call.duration_ns
                record = msgspec.structs.replace(record, started_ns=began_ns)
                call = call.requested
            tool = call.name if call.name in self._tools or not self._tools else ""
            opened = self._begin(key, record, names.EXECUTE_TOOL, **{names.TOOL: tool})
            opened.span.set_attribute(names.CALL_ID, _name(f"_{record.call_id}")[1:])
        opened.asked = record.outcome == "asked"

    def _end_call(self, record: DispatchRecord, key: Key, opened: OpenSpan) -> None:
        outcome = record.value
        if outcome.executed or outcome.status == "unknown_tool":
            opened.labels[names.TOOL] = _name(outcome.executed.name) if outcome.executed else ""
        opened.span.update_name(f"{names.EXECUTE_TOOL} {opened.labels[names.TOOL]}".strip())
        error = outcome.response.error_type if outcome.status == "error" else ""
        self._finish(opened, record.started_ns, outcome.status, error)
        if not record.scope.session_id:  # No transcript follows.
            self._end(key)

    def _add_texts(self, record: DispatchRecord, _: Key, opened: OpenSpan) -> None:
        copy, is_stored = record.result, record.outcome in {"unchanged", "changed"}
        if not (self.owner.texts and is_stored):
            return
        if isinstance(copy, AssistantMessage):
            opened.span.set_attribute(names.OUTPUT, encode_messages([copy]))
        elif run := self._open.get(("run", record.scope.session_id, record.scope.run_id)):
            run.unread += (copy,)
        if isinstance(copy, ToolMessage) and copy.tool_response is not None:
            arguments = encode_value(copy.tool_response.parameters)
            opened.span.set_attributes({names.RESULT: copy.text, names.ARGUMENTS: arguments})

    def _end_message(self, _: DispatchRecord, key: Key, opened: OpenSpan) -> None:
        if opened.end_ns:
            self._end(key)

    def _add_handlers(self, record: DispatchRecord, opened: OpenSpan | None) -> None:
        """Add an event for each handler that changed, answered, denied, asked or failed."""
        if not (notable := [entry for entry in record.entries if is_notable(entry.status)]):
            return
        opened = opened or self._begin(_ALONE, record, names.HANDLER, **{names.EVENT: record.event})
        ended_ns = record.started_ns + record.duration_ns
        for each in [entry for entry in notable if not entry.composite] or notable:
            labels = {names.EVENT: record.event, names.NAME: each.name, names.DID: each.status}
            self.instruments[names.INTERVENTIONS].add(1, labels)
            facts: Any = {names.PRIORITY: each.priority, names.SECONDS: each.duration_ns / 1e9}
            facts |= {names.FIELDS: each.fields, names.BYTES: [each.size_before, each.size_after]}
            opened.span.add_event(names.HANDLER, labels | facts, ended_ns)
        end = notable[-1].status
        if refusing := [each.name for each in notable if each.status == end in {"denied", "asked"}]:
            opened.span.set_attributes({names.RULE: refusing[0], names.RULESET: refusing[-1]})
        if _ALONE in self._open:
            self._finish(self._open[_ALONE], ended_ns, record.outcome)
            self._end(_ALONE)

    _steps: ClassVar[dict[str, Any]] = {
        events.MODEL_CALL_ERROR.name: _end_chat,
        events.MODEL_CALL_AFTER.name: _end_chat,
        events.TOOL_CALL_AFTER.name: _end_call,
        events.MESSAGE_PERSIST_BEFORE.name: _add_texts,
        events.MESSAGE_APPEND_AFTER.name: _end_message,
        events.RUN_AFTER.name: _end_run,
    }


def _name(text: str) -> str:
    return text if _NAME.fullmatch(text) else ""
