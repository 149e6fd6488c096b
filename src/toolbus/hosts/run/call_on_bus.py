"""A host's call, or its result, on the bus; the host itself runs the tool."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.errors import DecodeError, MessageDenied
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE, Deny
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.hosts.run.event_on_bus import EventOnBus
from toolbus.hosts.run.written_files import FileKeeper, is_file_writer
from toolbus.messages.codec import changed
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage
from toolbus.tools.calls.call import PERMITTED, CallInProgress
from toolbus.tools.calls.gate import copy_of
from toolbus.tools.calls.gated_call import GatedCall
from toolbus.tools.calls.runner import ToolRunner
from toolbus.tools.toolset import Toolset
from toolbus.transcript.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from toolbus.hosts.dialects.hook_events import HookEvent
    from toolbus.hosts.dialects.host_dialect import HostDialect
    from toolbus.hosts.run.chain import HookChain
    from toolbus.hosts.run.event_log import EventLog
    from toolbus.hosts.run.hook_sessions import HookSession
    from toolbus.messages.records import Message, ToolCall, ToolResponse

_RECENT = 200
"""The most messages of a session that are searched for a call without an answer."""


class CallOnBus(EventOnBus):
    """The event of a call before its host runs it, or of its result."""

    def __init__(
        self,
        chain: HookChain,
        event: HookEvent,
        dialect: HostDialect,
        session: HookSession,
        log: EventLog,
    ) -> None:
        super().__init__(chain, event, dialect, session, log)
        assert event.call is not None  # noqa: S101 - or it is another kind of event
        self._host_call = event.call
        self._call_id = f"{log.message_id}-call"
        self._skippers = () if session.failed else chain.skippers
        # Only if the host's model does not read restored values.
        self._keepers: list[FileKeeper] = []
        if dialect.facts.abilities["fill_arguments"] == "yes":
            keepers = [each for each in chain.components if isinstance(each, FileKeeper)]
            self._keepers = [each for each in keepers if each.enabled]
        log.fills = bool(self._keepers)
        about = MESSAGE_APPEND_BEFORE if event.kind == "result" else TOOL_CALL_BEFORE
        self.subject_event = about.name

    async def _decide(self) -> HookDecision:
        call = await self._stored_call()
        if self._event.kind == "result":
            return await self._judge_result(call)
        try:
            return await self._judge_call(call)
        except MessageDenied as error:
            return HookDecision(denied=error.reason)

    async def _stored_call(self) -> ToolCall:
        """Return the host's call under its id in the store, which is unique among all hosts."""
        call = self._host_call
        if call.id:
            self._call_id = f"{self._root}/{call.id}"
        elif self._event.kind == "result":
            recent = await self._chain.store.read_latest(self._scope.session_id, _RECENT)
            self._call_id = match_call(call, recent, self._log.message_id) or self._call_id
        # A copy: changes that handlers make in place do not reach the host's own call.
        return replace(copy_of(call), id=self._call_id)

    def _runner(self, answers: Sequence[ToolMessage] = ()) -> ToolRunner:
        """Return the runner for the call; with *answers* its end was reported before."""
        numbers, call_id = count(2), self._call_id
        # Without call ids two results may be matched to one call: both are stored.
        has_id = bool(self._host_call.id)
        return ToolRunner(
            self._bus,
            Toolset(),
            self._scope,
            approver=self._chain.approvals,
            append=self._enter,
            reported={call_id: None} if answers else None,
            may_be_told=lambda _: self._log.is_retry,
            ids=lambda: f"{call_id}-{next(numbers)}" if has_id else self._log.message_id,
        )

    # --- before it runs --------------------------------------------------------------------------

    async def _judge_call(self, call: ToolCall) -> HookDecision:
        asking = await self._enter(AssistantMessage(id=f"{call.id}-1", tool_calls=(call,)))
        calls = asking.tool_calls if isinstance(asking, AssistantMessage) else ()
        requested = next((each for each in calls if each.id == call.id), None)
        if requested is None:
            return HookDecision(denied="a handler removed the call")
        runner = self._runner()
        judged = await runner.judge(requested, asks=True)
        assert isinstance(judged, GatedCall)  # noqa: S101 - its runner has a gate
        decision: HookDecision | str = ""
        if not judged.has_ended:
            decision = await self._verdict(judged)
        if isinstance(decision, HookDecision):
            return decision
        if not judged.has_ended:
            judged.refuse(decision)
        outcome = await runner.finish(judged)
        return HookDecision(denied=outcome.response.text or "a handler has answered the call")

    async def _verdict(self, judged: GatedCall) -> HookDecision | str:
        """Return the decision on a call that may run or needs approval, or the reason of a denial.

        The reason is "" if the call has ended already.
        """
        decision = await self._decision_of(judged)
        if isinstance(decision, str):
            return decision
        if judged.question is not None:
            return await self._ask(judged, decision)
        if decision == HookDecision() and await self._skips_prompt(judged.call):
            return HookDecision(skips_prompt=True)
        return decision

    async def _decision_of(self, judged: CallInProgress) -> HookDecision | str:
        """Return the decision on a call that may run, or why the host cannot run it."""
        before, call, title = self._host_call, judged.call, self._dialect.facts.title
        if call.name != before.name:
            return (
                f"a handler changed the tool to {call.name!r}, and {title} cannot run another tool"
            )
        filled = await self._filled(call)
        if isinstance(filled, Deny):
            return filled.reason
        if not changed(filled.arguments, before.arguments):
            return HookDecision()
        if self._dialect.facts.abilities["rewrite_arguments"] != "yes":
            return f"a handler changed the arguments, and {title} cannot run a changed call"
        return HookDecision(call=before.with_arguments(filled.arguments))

    async def _filled(self, call: ToolCall) -> ToolCall | Deny:
        """Return *call* with restored values, or the denial if its file would lose a value."""
        for keeper in self._keepers:
            written = await keeper.written_back(call, self._scope)
            if isinstance(written, Deny):
                return written
            call = written
        return call

    async def _skips_prompt(self, call: ToolCall) -> bool:
        """Return whether a component skips the host's prompt for *call*; False after a failure."""
        if self._log.has_failure:
            return False
        return any([await each.skips_prompt(call, None, self._scope) for each in self._skippers])

    async def _ask(self, judged: GatedCall, decision: HookDecision) -> HookDecision | str:
        """Return *decision* after the question about *judged*, or the reason of a denial."""
        ask, approved = judged.question, self._approved
        assert ask is not None  # noqa: S101 - the caller checked it
        if self._keepers:
            judged.fill = lambda: self._filled(judged.call)
        can_ask = self._chain.host_asks and self._dialect.can_ask(self._event)
        if can_ask and await approved.delegate_to_host(judged, self._chain.approvals, self._log):
            return replace(decision, asked=ask.prompt)
        if await approved.is_retry(judged.call, ask, self._log.message_id):
            return await self._decision_of(judged)
        return await self._ask_person(judged)

    async def _ask_person(self, judged: GatedCall) -> HookDecision | str:
        """Ask a person by toolbus; an approval is used before the host gets the answer."""
        await judged.advance({PERMITTED})
        if judged.has_ended:
            return ""
        if (refusal := judged.seal()) is not None:
            return refusal.reason
        # Handlers may have judged the call again, and changed it.
        decision = await self._decision_of(judged)
        if isinstance(decision, str):
            return decision
        refusal = await self._approved.take(
            judged.permit,
            self._call_id,
            self._scope.session_id,
            self._log.message_id,
            call=judged.call,
        )
        return decision if refusal is None else refusal.reason

    # --- when it ran -----------------------------------------------------------------------------

    async def _judge_result(self, executed: ToolCall) -> HookDecision:
        response = self._event.response
        if response is None:
            raise DecodeError(f"the event {self._event.name!r} has no result")
        session_id = self._scope.session_id
        earlier = await self._chain.store.read_call(session_id, executed.id)
        self._transcript = Transcript(self._bus, session_id, None, earlier)
        answers = [message for message in earlier if isinstance(message, ToolMessage)]
        requested = {call.id: call for call in _calls_of(earlier)}.get(executed.id)
        if requested is None:
            # The call was never judged: its hook is missing, or was not answered.
            await self._enter(AssistantMessage(id=f"{executed.id}-1", tool_calls=(executed,)))
        elif self._keepers and is_file_writer(executed):
            # The host reports it with restored values, which must not be stored.
            executed = requested
        runner = self._runner(answers)
        call = CallInProgress(requested or executed, runner)
        call.resume(executed, response)
        read = (await runner.finish(call)).response
        if any(map(_is_refusal, answers)):
            self._log.messages.clear()
            self._note(f"{self._dialect.facts.title} ran the call although it was denied")
        return HookDecision() if _are_same(read, response) else HookDecision(response=read)


def match_call(ran: ToolCall, recent: Sequence[Message], message_id: str) -> str | None:
    """Return the id of the stored call that *ran*, by name and arguments; None if there is none.

    This is for hosts that give calls no ids. Of several calls it is the oldest without an answer
    in *recent*, first of those since the latest prompt: a host goes on when it has the results,
    unless it was killed. A call answered by the message *message_id* has its answer from the same
    event, which is a retry.
    """
    answers = {each.tool_call_id: each.id for each in recent if isinstance(each, ToolMessage)}
    for call_id, answer_id in answers.items():
        if answer_id == message_id:
            return call_id
    prompts = [place for place, each in enumerate(recent) if isinstance(each, UserMessage)]
    turn = prompts[-1] if prompts else 0
    calls = [each for each in _calls_of((*recent[turn:], *recent[:turn])) if each.name == ran.name]
    waiting = [call for call in calls if call.id not in answers]
    # A rewritten or redacted call has different arguments.
    alike = [call for call in waiting if not changed(call.arguments, ran.arguments)]
    return next((call.id for call in (*alike, *waiting)), None)


def _calls_of(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """Yield the calls that *messages* request, in order."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.tool_calls


def _are_same(read: ToolResponse, response: ToolResponse) -> bool:
    """Return whether *read* and *response* are the same for a model."""
    return (
        read.content == response.content
        and read.is_error == response.is_error
        and not changed(read.structured, response.structured)
    )


def _is_refusal(message: ToolMessage) -> bool:
    response = message.tool_response
    return response is not None and response.is_error and response.error_type == "denied"
