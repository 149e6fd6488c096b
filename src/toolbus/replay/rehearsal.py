"""A rehearsal: recorded messages and calls go past handlers, and no model and no tool is called.

What happens to each is what a live run does: a message of any role passes `MESSAGE_APPEND_BEFORE`
through `admit`, a call `TOOL_CALL_BEFORE` with the check of its arguments, and a refused or
answered call has the response that the runner would give it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolbus.errors import DispatchError, HandlerError, MessageDenied
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Scope
from toolbus.messages.records import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from toolbus.replay.deeds import Deed, deed_of_adapters, deed_of_record, only_adapters
from toolbus.replay.findings import Finding, Totals, differences
from toolbus.replay.plays import Judged, Play, judge, stamp
from toolbus.tools.calls.advertised import ArgumentsCheck
from toolbus.tools.calls.execution import failure
from toolbus.transcript.admission import admit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.config.loading import Found
    from toolbus.replay.findings import Change

_MOST_OPEN = 10_000
"""How many calls of a session wait for their results; of more, the oldest are unanswered."""

_REPLAYED = (TOOL_CALL_BEFORE, MESSAGE_APPEND_BEFORE)
_HEARD = frozenset({event.name for event in _REPLAYED})
_REFUSED = frozenset({"denied", "rejected"})


class Rehearsal:
    """Takes messages past the handlers of *found*; *report* gets what they do, *totals* counts."""

    def __init__(self, found: Found, report: Callable[[Finding], object]) -> None:
        self._bus, self._tools = found.bus, found.host.tools
        self._check, self._report = ArgumentsCheck(found.host.tools), report
        self._agent_id = _speaker(found)
        self._tapped = False
        self._deed: Deed | None = None
        self.totals = Totals()

    def listen(self) -> Callable[[], object]:
        """Begin to hear what the handlers do; return a function that ends it."""
        if only_adapters(self._bus, _REPLAYED):
            return lambda: None
        self._tapped = True
        return self._bus.tap(self._hear, idle=False, digests=False)

    def begin(self, session: str) -> Play:
        """Return a new session."""
        self.totals.sessions += 1
        return Play(Scope(agent_id=self._agent_id, session_id=session))

    def end(self, play: Play) -> None:
        """Count the calls that got no result."""
        self.totals.unanswered += sum([not one.dropped for one in play.open.values()])

    def take(self, play: Play, message: Message) -> Coroutine[Any, Any, object]:
        """Take the next message of a session past the handlers, and the calls that it asks for."""
        self.totals.messages += 1
        match message:
            case ToolMessage():
                return self._take_result(play, message)
            case AssistantMessage():
                return self._take_answer(play, message)
            case UserMessage():
                play.go_on(message.id, 0)
        return self._admit(play, message)

    async def _take_answer(self, play: Play, message: AssistantMessage) -> None:
        play.go_on(play.scope.run_id, play.scope.turn + 1)
        admitted = await self._admit(play, message)
        calls = admitted.tool_calls if isinstance(admitted, AssistantMessage) else ()
        if admitted is not message:
            kept = {call.id for call in calls}
            for call in message.tool_calls:
                if call.id not in kept:
                    self._wait(play, Judged(call, dropped=True))
        for call in calls:
            self._wait(play, await self._judge(play, call))

    def _wait(self, play: Play, judged: Judged) -> None:
        play.open[judged.call.id] = judged
        if len(play.open) > _MOST_OPEN:
            oldest = play.open.pop(next(iter(play.open)))
            self.totals.unanswered += not oldest.dropped

    async def _judge(self, play: Play, call: ToolCall) -> Judged:
        """Take a call past transformers and guards; what is asked is taken as approved."""
        self.totals.calls += 1
        self._deed = None
        tool = self._tools.get(call.name)
        spec = None if tool is None else tool.spec
        try:
            context = await self._bus.apply(
                TOOL_CALL_BEFORE, call, scope=play.scope, tool=spec, check=self._check
            )
        except (HandlerError, DispatchError) as error:
            blame = _blame(error)
            self._tell_raised(play, call, error, blame)
            return Judged(call, response=failure(blame, type(error).__name__))
        if not self._tapped:
            self._see(context)
        judged = judge(call, context)
        if self._deed is not None:
            reads = None if judged.response is None else judged.response.text
            self._tell_deed(play, call, context.value, reads)
        return judged

    async def _take_result(self, play: Play, message: ToolMessage) -> None:
        judged = play.open.pop(message.tool_call_id, None)
        if judged is None:
            await self._admit(play, message)
        elif judged.dropped:
            self.totals.results_dropped += 1
        else:
            if judged.response is None and _was_denied(message):
                self._tell(play, judged.call, Deed("permitted", "the recording denied it"))
            await self._admit(play, stamp(message, judged))

    async def _admit(self, play: Play, message: Message) -> Message | None:
        """Return *message* as it would be appended, None if that would be refused."""
        name = message.tool_name if isinstance(message, ToolMessage) else None
        tool = None if name is None else self._tools.get(name)
        spec = None if tool is None else tool.spec
        self._deed = None
        try:
            tell = None if self._tapped else self._see
            admitted = await admit(self._bus, message, play.scope, spec, tell=tell)
        except MessageDenied:
            self._tell_deed(play, message, message, None)
            return None
        except (HandlerError, DispatchError) as error:
            self._tell_raised(play, message, error, None)
            return message
        if self._deed is not None:
            refused = isinstance(admitted, ToolMessage) and self._deed.outcome in _REFUSED
            after, reads = (message, admitted.text) if refused else (admitted, None)
            self._tell_deed(play, message, after, reads)
        return admitted

    def _see(self, context: EventContext[Any]) -> None:
        self._deed = deed_of_adapters(context)

    def _hear(self, record: DispatchRecord) -> None:
        # A handler may dispatch as well, but its dispatches end before the one that it is in.
        if record.event in _HEARD:
            self._deed = deed_of_record(record)

    def _tell_deed(
        self,
        play: Play,
        before: Message | ToolCall,
        after: Message | ToolCall,
        reads: str | None,
    ) -> None:
        """Report what the latest dispatch did."""
        if self._deed is not None:
            changes = () if before is after else differences(before, after)
            self._tell(play, before, self._deed, changes=changes, reads=reads)

    def _tell_raised(
        self, play: Play, subject: Message | ToolCall, error: Exception, reads: str | None
    ) -> None:
        """Report what a live run would have raised."""
        by = () if self._deed is None else self._deed.by
        self._tell(play, subject, Deed("raised", str(error), by), reads=reads)

    def _tell(
        self,
        play: Play,
        subject: Message | ToolCall,
        deed: Deed,
        *,
        changes: tuple[Change, ...] = (),
        reads: str | None = None,
    ) -> None:
        """Count a finding and report it."""
        self.totals.outcomes[deed.outcome] += 1
        play.outcomes[deed.outcome] += 1
        finding = Finding(
            session=play.scope.session_id,
            role="call" if isinstance(subject, ToolCall) else subject.role,
            subject=subject.id,
            tool=_tool_of(subject),
            outcome=deed.outcome,
            reason=deed.reason,
            by=deed.by,
            changes=changes,
            reads=reads,
        )
        self._report(finding)


def _speaker(found: Found) -> str:
    """Return the agent whose handlers are meant: of a bus where one is heard, that one."""
    if found.kind != "bus":
        return found.host.scope.agent_id
    handlers = [one for event in _REPLAYED for one in found.bus.handlers(event)]
    senders = {one.sender for one in handlers if one.sender is not None}
    return senders.pop() if len(senders) == 1 else found.host.scope.agent_id


def _tool_of(subject: Message | ToolCall) -> str:
    match subject:
        case ToolCall(name=name) | ToolMessage(tool_name=name):
            return name
    return ""


def _blame(error: HandlerError | DispatchError) -> str:
    """Return what a runner tells the model of a handler that raised."""
    who = f"handler {error.handler!r}" if isinstance(error, HandlerError) else "a handler"
    return f"{who} failed, and the call with it"


def _was_denied(message: ToolMessage) -> bool:
    return message.tool_response is not None and message.tool_response.error_type == "denied"
