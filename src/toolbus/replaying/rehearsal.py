"""A rehearsal: recorded messages and calls go past handlers, and no model and no tool is called.

What happens to each is what a live run does: a message of any role passes `MESSAGE_APPEND_BEFORE`
through `admit`, a call `TOOL_CALL_BEFORE` with the check of its arguments, and a refused or
answered call has the response that the runner would give it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from toolbus.admission import admit
from toolbus.errors import DispatchError, HandlerError, MessageDenied
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Scope
from toolbus.lifecycle.execution import failure
from toolbus.lifecycle.offers import ArgumentsCheck
from toolbus.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.replaying.findings import Finding, Totals, differences

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.dispatch import EventContext
    from toolbus.ledger import DispatchRecord
    from toolbus.loading import Found
    from toolbus.replaying.findings import Outcome

_MOST_OPEN = 10_000
"""How many calls of a session wait for their results; of more, the oldest are unanswered."""

_ACTED = frozenset({"changed", "answered", "denied", "asked", "rejected"})
_FAILED = frozenset({"failed", "timeout", "contract"})


class Judged(NamedTuple):
    """A call as the handlers left it; *response* is what stands for its result, if anything."""

    call: ToolCall
    moved: bool = False
    response: ToolResponse | None = None
    dropped: bool = False


class Play:
    """One session that is rehearsed: who speaks, and the calls that wait for their results."""

    __slots__ = ("open", "outcomes", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.open: dict[str, Judged] = {}
        self.outcomes: Counter[str] = Counter()


class Rehearsal:
    """Takes messages past the handlers of *found*; *report* gets what they do, *totals* counts."""

    def __init__(self, found: Found, report: Callable[[Finding], object]) -> None:
        self._bus, self._tools = found.bus, found.host.tools
        self._check, self._report = ArgumentsCheck(found.host.tools), report
        self._agent_id = _speaker(found)
        self._record: DispatchRecord | None = None
        self.totals = Totals()

    def listen(self) -> Callable[[], object]:
        """Begin to hear what the handlers do; return a function that ends it."""
        return self._bus.tap(self._hear, idle=False, digests=False)

    def begin(self, session: str) -> Play:
        """Return a new session."""
        self.totals.sessions += 1
        return Play(Scope(agent_id=self._agent_id, session_id=session))

    def end(self, play: Play) -> None:
        """Count the calls that got no result."""
        self.totals.unanswered += sum([not one.dropped for one in play.open.values()])

    async def take(self, play: Play, message: Message) -> None:
        """Take the next message of a session past the handlers, and the calls that it asks for."""
        self.totals.messages += 1
        match message:
            case ToolMessage():
                await self._take_result(play, message)
            case AssistantMessage():
                play.scope = replace(play.scope, turn=play.scope.turn + 1)
                await self._take_answer(play, message)
            case UserMessage():
                play.scope = replace(play.scope, run_id=message.id, turn=0)
                await self._admit(play, message)
            case _:
                await self._admit(play, message)

    async def _take_answer(self, play: Play, message: AssistantMessage) -> None:
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
        tool = self._tools.get(call.name)
        spec = None if tool is None else tool.spec
        self._record = None
        try:
            context = await self._bus.apply(
                TOOL_CALL_BEFORE, call, scope=play.scope, tool=spec, check=self._check
            )
        except (HandlerError, DispatchError) as error:
            who = f"handler {error.handler!r}" if isinstance(error, HandlerError) else "a handler"
            blame = f"{who} failed, and the call with it"
            self._tell(play, call, "raised", str(error), reads=blame)
            return Judged(call, response=failure(blame, type(error).__name__))
        judged = _judged(call, context)
        record = self._record
        if record is not None and (outcome := _outcome(record)):
            reads = None if judged.response is None else judged.response.text
            self._tell(
                play,
                call,
                outcome,
                _reason(record),
                before=call,
                after=judged.call,
                reads=reads,
            )
        return judged

    async def _take_result(self, play: Play, message: ToolMessage) -> None:
        judged = play.open.pop(message.tool_call_id, None)
        if judged is None:
            await self._admit(play, message)
        elif judged.dropped:
            self.totals.results_dropped += 1
        else:
            if judged.response is None and _was_denied(message):
                self._tell(play, judged.call, "permitted", "the recording denied it")
            await self._admit(play, _stamped(message, judged))

    async def _admit(self, play: Play, message: Message) -> Message | None:
        """Return *message* as it would be appended, None if that would be refused."""
        name = message.tool_name if isinstance(message, ToolMessage) else None
        tool = None if name is None else self._tools.get(name)
        spec = None if tool is None else tool.spec
        self._record = None
        try:
            admitted = await admit(self._bus, message, play.scope, spec)
        except MessageDenied as error:
            self._tell(play, message, "denied", error.reason)
            return None
        except (HandlerError, DispatchError) as error:
            self._tell(play, message, "raised", str(error))
            return message
        record = self._record
        if record is not None and (outcome := _outcome(record)):
            reads = admitted.text if outcome in {"denied", "rejected"} else None
            after = message if reads is not None else admitted
            self._tell(
                play, message, outcome, _reason(record), before=message, after=after, reads=reads
            )
        return admitted

    def _tell(
        self,
        play: Play,
        subject: Message | ToolCall,
        outcome: Outcome,
        reason: str | None,
        *,
        before: object = None,
        after: object = None,
        reads: str | None = None,
    ) -> None:
        """Count a finding and report it."""
        match subject:
            case ToolCall(name=tool):
                role = "call"
            case ToolMessage(tool_name=tool):
                role = "tool"
            case _:
                role, tool = subject.role, ""
        self.totals.outcomes[outcome] += 1
        play.outcomes[outcome] += 1
        self._report(
            Finding(
                session=play.scope.session_id,
                role=role,
                subject=subject.id,
                tool=tool,
                outcome=outcome,
                reason=reason,
                by=() if self._record is None else _actors(self._record),
                changes=() if before is after else differences(before, after),
                reads=reads,
            )
        )

    def _hear(self, record: DispatchRecord) -> None:
        # A handler may dispatch as well, but its dispatches end before the one that it is in.
        if record.event in _HEARD:
            self._record = record


_HEARD = frozenset({MESSAGE_APPEND_BEFORE.name, TOOL_CALL_BEFORE.name})


def _speaker(found: Found) -> str:
    """Return the agent whose handlers are meant: of a bus where one is heard, that one."""
    if found.kind != "bus":
        return found.host.scope.agent_id
    handlers = [
        one
        for event in (TOOL_CALL_BEFORE, MESSAGE_APPEND_BEFORE)
        for one in found.bus.handlers(event)
    ]
    senders = {one.sender for one in handlers if one.sender is not None}
    return senders.pop() if len(senders) == 1 else found.host.scope.agent_id


def _judged(call: ToolCall, context: EventContext[ToolCall]) -> Judged:
    """Return what a runner would make of how the dispatch ended."""
    response = context.answer
    if context.rejected:
        text = f"handler {context.rejected.handler!r} broke the arguments: "
        response = failure(text + context.rejected.reason, "invalid_arguments")
    elif context.denied:
        response = failure(context.denied.reason, "denied")
    return Judged(context.value, context.value is not call, response)


def _stamped(message: ToolMessage, judged: Judged) -> ToolMessage:
    """Return a result with the facts of its call, which adapters rebuild the call from.

    Those of the recording stand unless the handlers changed the call or gave its result.
    """
    response = judged.response or message.tool_response
    if response is None:
        return message
    if judged.response is None and response.parameters is not None and not judged.moved:
        return message
    call = judged.call
    response = replace(
        response,
        tool_name=call.name,
        tool_call_id=call.id,
        parameters=call.arguments,
        duration_ns=None if message.tool_response is None else message.tool_response.duration_ns,
    )
    return replace(message, tool_name=call.name, tool_response=response)


def _was_denied(message: ToolMessage) -> bool:
    return message.tool_response is not None and message.tool_response.error_type == "denied"


def _outcome(record: DispatchRecord) -> Outcome | None:
    """Return what the handlers did, None if they left all as it was.

    On a bus in a dry run that is what they would have done.
    """
    match record.outcome:
        case "answered" | "denied" | "asked" | "rejected" | "raised":
            return record.outcome
    statuses = {entry.status for entry in record.entries}
    if "denied" in statuses:
        return "denied"
    if "asked" in statuses:
        return "asked"
    if record.outcome == "changed":
        return "changed"
    return None if _FAILED.isdisjoint(statuses) else "failed"


def _reason(record: DispatchRecord) -> str | None:
    """Return why it was refused or asked; in a dry run that is with the handlers alone."""
    said = [
        one.reason for one in record.entries if one.status in {"denied", "asked"} and one.reason
    ]
    return record.reason or "\n".join(said) or None


def _actors(record: DispatchRecord) -> tuple[str, ...]:
    """Return the names of the handlers that acted, in order."""
    names: list[str] = []
    for entry in record.entries:
        if entry.status in _ACTED:
            names.append(entry.name)
        elif entry.status in _FAILED:
            names.append(f"{entry.name} ({entry.reason or entry.status})")
    return tuple(names)
