"""The dispatches of a replay: recorded messages and calls through handlers, as in a live run.

A message of any role passes `MESSAGE_APPEND_BEFORE` through `admit`, a call `TOOL_CALL_BEFORE`
with the check of its arguments, and a refused or answered call has the response that the runner
would give it. No model and no tool is called.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from toolbus.components.capabilities import DisplayRedactor
from toolbus.components.state import replay_place
from toolbus.errors import DispatchError, HandlerError, MessageDenied
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Scope
from toolbus.messages.records import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    encode,
)
from toolbus.replay.findings import DispatchSummary, ReplayFinding, ReplayTotals, summarize
from toolbus.replay.sessions import ReplayedCall, ReplaySession, outcome_of, with_call_facts
from toolbus.settings.differences import differences
from toolbus.tools.calls.advertised import ArgumentsCheck
from toolbus.tools.calls.execution import failure
from toolbus.transcript.admission import admit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.config.targets import LoadedTarget
    from toolbus.events.catalogue import ToolSpec
    from toolbus.settings.differences import Difference

R = TypeVar("R")

REPLAYED = (TOOL_CALL_BEFORE, MESSAGE_APPEND_BEFORE)
"""The events whose handlers a replay runs."""

_MAX_WAITING = 10_000
"""The most calls of a session without a result; of more, the oldest count as unanswered."""

_NO_SCOPE = Scope()
_UNKNOWN = "not recorded"
"""The folder of a session without a recorded one: not an absolute path."""
_UNSHOWN = "not shown: it could not be searched for values to hide"

_REPLAYED_NAMES = frozenset({event.name for event in REPLAYED})
_REFUSED = frozenset({"denied", "rejected"})
_REFUSALS = ("the person refused this call", "approval was refused")
"""The beginnings of a person's recorded refusal without a reason."""

_HIDDEN = re.compile(
    rb"\[[a-z][a-z0-9_]+(?:-[a-z0-9]{2,})*-(?:\d+(?:-[a-z2-7]{6,16})?|[a-z2-7]{16})\]|\[REDACTED"
)
"""A placeholder such as `[email-3]`, unlike a range of letters such as `[a-z0-9]`."""


class Replayer:
    """A runner of messages through the handlers of *target*; *report* gets each finding."""

    def __init__(self, target: LoadedTarget, report: Callable[[ReplayFinding], object]) -> None:
        self._bus, self._tools = target.bus, target.host.tools
        self._check, self._report = ArgumentsCheck(target.host.tools), report
        self._agent_id, self._components = _agent_id(target), target.components
        self._summary: DispatchSummary | None = None
        self.totals = ReplayTotals()

    def listen(self) -> Callable[[], object]:
        """Start to record the dispatches; return a function that stops it."""
        return self._bus.tap(self._note_summary, idle=False, digests=False)

    def begin(self, session_id: str, folder: str = "") -> ReplaySession:
        """Return a new session that began in *folder*, "" for an unknown one."""
        self.totals.sessions += 1
        # An unknown folder must not become the current one, and a recorded one may be any text.
        scope = Scope(agent_id=self._agent_id, session_id=session_id, project=_UNKNOWN)
        if folder.startswith("/") and "\0" not in folder:
            scope = replace(scope, folder=folder, project=folder)
        return ReplaySession(scope)

    def end(self, session: ReplaySession) -> None:
        """Count the calls without a result."""
        self.totals.unanswered += sum([not call.dropped for call in session.waiting.values()])

    def replay(self, session: ReplaySession, message: Message) -> Coroutine[Any, Any, object]:
        """Replay the next message of a session, with the calls that it requests."""
        self.totals.messages += 1
        # No store is written: the state of components begins empty and ends with the session.
        replay_place.set(session.state_place)
        match message:
            case ToolMessage():
                return self._replay_result(session, message)
            case AssistantMessage():
                return self._replay_answer(session, message)
            case UserMessage():
                session.advance(message.id, 0)
        return self._admit(session, message)

    async def _replay_answer(self, session: ReplaySession, message: AssistantMessage) -> None:
        session.advance(session.scope.run_id, session.scope.turn + 1)
        admitted = await self._admit(session, message)
        calls = admitted.tool_calls if isinstance(admitted, AssistantMessage) else ()
        if admitted is not message:
            admitted_ids = {call.id for call in calls}
            for call in message.tool_calls:
                if call.id not in admitted_ids:
                    self._add_waiting(session, ReplayedCall(call, dropped=True))
        for call in calls:
            self._add_waiting(session, await self._replay_call(session, call))

    def _add_waiting(self, session: ReplaySession, replayed: ReplayedCall) -> None:
        session.waiting[replayed.call.id] = replayed
        if len(session.waiting) > _MAX_WAITING:
            oldest = session.waiting.pop(next(iter(session.waiting)))
            self.totals.unanswered += not oldest.dropped

    async def _replay_call(self, session: ReplaySession, call: ToolCall) -> ReplayedCall:
        """Replay a call through transformers and guards; questions count as approved."""
        self.totals.calls += 1
        if names := hidden_in(call):
            # No handler sees it: verdicts and counts of placeholders would be of another call.
            reason = f"{names} was hidden in the recording"
            await self._add(session, call, DispatchSummary("unjudged", reason))
            return ReplayedCall(call, unjudged=True)
        self._summary = None
        spec, check = self._spec_of(call.name), self._check
        call = check.converted(call)
        try:
            context = await self._bus.apply(
                TOOL_CALL_BEFORE, call, scope=session.scope, tool=spec, check=check
            )
        except (HandlerError, DispatchError) as error:
            blame = _blame(error)
            await self._report_raised(session, call, error, blame)
            return ReplayedCall(call, response=failure(blame, type(error).__name__))
        replayed = outcome_of(call, context)
        reads = None if replayed.response is None else replayed.response.text
        await self._report_summary(session, call, context.value, reads)
        return replayed

    async def _replay_result(self, session: ReplaySession, message: ToolMessage) -> None:
        replayed = session.waiting.pop(message.tool_call_id, None)
        if replayed is None:
            await self._admit(session, message)
        elif replayed.dropped:
            self.totals.results_dropped += 1
        else:
            if replayed.response is None and not replayed.unjudged and _was_denied(message):
                await self._add(session, replayed.call, _permitted(message))
            await self._admit(session, with_call_facts(message, replayed))

    async def _admit(self, session: ReplaySession, message: Message) -> Message | None:
        """Return *message* as it would be appended, None if it would be refused."""
        spec = self._spec_of(message.tool_name) if isinstance(message, ToolMessage) else None
        self._summary = None
        try:
            admitted = await admit(self._bus, message, session.scope, spec)
        except MessageDenied:
            await self._report_summary(session, message, message, None)
            return None
        except (HandlerError, DispatchError) as error:
            await self._report_raised(session, message, error, None)
            return message
        refused = self._summary is not None and self._summary.outcome in _REFUSED
        if refused and isinstance(admitted, ToolMessage):
            await self._report_summary(session, message, message, admitted.text)
        else:
            await self._report_summary(session, message, admitted, None)
        return admitted

    def _spec_of(self, tool_name: str) -> ToolSpec | None:
        tool = self._tools.get(tool_name)
        return None if tool is None else tool.spec

    def _note_summary(self, record: DispatchRecord) -> None:
        # Dispatches by a handler end before its own, so the last record is the outer one.
        if record.event in _REPLAYED_NAMES:
            self._summary = summarize(record)

    async def _report_summary(
        self,
        session: ReplaySession,
        before: Message | ToolCall,
        after: Message | ToolCall,
        reads: str | None,
    ) -> None:
        """Report the effect of the latest dispatch, if any: it changed *before* to *after*."""
        if self._summary is not None:
            await self._add(session, before, self._summary, after, reads)

    async def _report_raised(
        self,
        session: ReplaySession,
        subject: Message | ToolCall,
        error: Exception,
        reads: str | None,
    ) -> None:
        """Report the error of a live run."""
        by = () if self._summary is None else self._summary.by
        await self._add(session, subject, DispatchSummary("raised", str(error), by), reads=reads)

    async def _add(
        self,
        session: ReplaySession,
        subject: Message | ToolCall,
        summary: DispatchSummary,
        after: Message | ToolCall | None = None,
        reads: str | None = None,
    ) -> None:
        """Count and report a finding; *after* is the changed *subject*, None for the same."""
        self.totals.outcomes[summary.outcome] += 1
        session.outcomes[summary.outcome] += 1
        scope, reason = session.scope, summary.reason
        changes: Iterable[Difference] = ()
        if after is not None and after is not subject:
            before_shown = await self._redacted(subject, scope)
            after_shown = await self._redacted(after, scope)
            if before_shown is None or after_shown is None:
                reason = "\n".join([*([reason] if reason else ()), _UNSHOWN])
            else:
                changes = differences(to_builtins(before_shown), to_builtins(after_shown))
        finding = ReplayFinding(
            session=session.scope.session_id,
            role="call" if isinstance(subject, ToolCall) else subject.role,
            subject=subject.id,
            tool=_tool_of(subject),
            outcome=summary.outcome,
            reason=await self.shown(reason, scope),
            by=summary.by,
            changes=tuple(changes),
            reads=await self.shown(reads, scope),
        )
        self._report(finding)

    async def _redacted(self, record: R, scope: Scope) -> R | None:
        """Return *record* without the values that components hide; None if they cannot tell."""
        redacted: R | None = record
        for component in self._components:
            if redacted is None or not component.enabled:
                continue
            if isinstance(component, DisplayRedactor):
                redacted = await component.for_display(redacted, scope)
        return redacted

    async def shown(self, text: str | None, scope: Scope = _NO_SCOPE) -> str | None:
        """Return *text* without the values that components hide: it may quote them."""
        if text is None:
            return None
        redacted = await self._redacted(text, scope)
        return _UNSHOWN if redacted is None else redacted


def _agent_id(target: LoadedTarget) -> str:
    """Return the agent id of the replay: on a bus with handlers of one agent, its id."""
    if target.kind != "bus":
        return target.host.scope.agent_id
    handlers = [handler for event in REPLAYED for handler in target.bus.handlers(event)]
    senders = {handler.sender for handler in handlers if handler.sender is not None}
    return senders.pop() if len(senders) == 1 else target.host.scope.agent_id


def _tool_of(subject: Message | ToolCall) -> str:
    match subject:
        case ToolCall(name=name) | ToolMessage(tool_name=name):
            return name
    return ""


def _blame(error: HandlerError | DispatchError) -> str:
    """Return the runner's text to the model about a handler that raised."""
    name = f"handler {error.handler!r}" if isinstance(error, HandlerError) else "a handler"
    return f"{name} failed, and the call with it"


def hidden_in(call: ToolCall) -> str:
    """Return the names of the arguments with placeholders of hidden values, "" without any."""
    arguments = call.arguments if call.raw is None else {"raw": call.raw}
    hidden = [each for each in arguments.items() if _HIDDEN.search(encode(each))]
    return ", ".join([f"`{name}`" for name, _ in hidden])


def _permitted(message: ToolMessage) -> DispatchSummary:
    """Return the finding for a call that the recording denied and these handlers do not."""
    if is_refusal(message):
        return DispatchSummary("refused", "a person said no in the recording")
    return DispatchSummary("permitted", "the recording denied it")


def is_refusal(message: ToolMessage) -> bool:
    """Return whether the words of a recorded denial are those of a person's refusal."""
    return message.text.startswith(_REFUSALS)


def _was_denied(message: ToolMessage) -> bool:
    return message.tool_response is not None and message.tool_response.error_type == "denied"
