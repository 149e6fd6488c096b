"""A call of a host, or its result, on the bus: the host runs the tool, and nobody else."""

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
"""Messages of a session that are looked through for a call without an answer."""


class CallOnBus(EventOnBus):
    """An event that is about a call, before its host runs it or with its result."""

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
        # Only where the host's model does not read what is filled in.
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
        """Return the host's call by the id that it has among the calls of all hosts."""
        call = self._host_call
        if call.id:
            self._call_id = f"{self._root}/{call.id}"
        elif self._event.kind == "result":
            recent = await self._chain.store.read_latest(self._scope.session_id, _RECENT)
            self._call_id = match_call(call, recent, self._log.message_id) or self._call_id
        # A copy: what handlers do to it in place, the host's own call does not have.
        return replace(copy_of(call), id=self._call_id)

    def _runner(self, answers: Sequence[ToolMessage] = ()) -> ToolRunner:
        """Return what takes the call past the handlers; with *answers* its end was told before."""
        numbers, call_id = count(2), self._call_id
        # Of hosts without ids two results may seem to belong to one call: none of them is lost.
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
            return HookDecision(denied="a handler took the call away")
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
        """Return what the host is told of a call that may run or is asked about, or why it may not.

        The reason is "" where the call has an end of its own.
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
        """Return what the host is told of a call that may run, or why it cannot run there."""
        before, call, title = self._host_call, judged.call, self._dialect.facts.title
        if call.name != before.name:
            return f"a handler made it a call of {call.name!r}, and {title} runs no other tool"
        filled = await self._filled(call)
        if isinstance(filled, Deny):
            return filled.reason
        if not changed(filled.arguments, before.arguments):
            return HookDecision()
        if self._dialect.facts.abilities["rewrite_arguments"] != "yes":
            return f"a handler changed the arguments, and {title} runs the call as it was or not"
        return HookDecision(call=before.with_arguments(filled.arguments))

    async def _filled(self, call: ToolCall) -> ToolCall | Deny:
        """Return *call* as the host runs it, or why the file that it writes would lose a value."""
        for keeper in self._keepers:
            written = await keeper.written_back(call, self._scope)
            if isinstance(written, Deny):
                return written
            call = written
        return call

    async def _skips_prompt(self, call: ToolCall) -> bool:
        """Return whether a component spares the host's prompt for *call*; never after a failure."""
        if self._log.has_failure:
            return False
        return any([await each.skips_prompt(call, None, self._scope) for each in self._skippers])

    async def _ask(self, judged: GatedCall, decision: HookDecision) -> HookDecision | str:
        """Return *decision* as it is after the question of *judged*, or why that does not run."""
        ask, approved = judged.question, self._approved
        assert ask is not None  # noqa: S101 - it asks
        if self._keepers:
            judged.fill = lambda: self._filled(judged.call)
        can_ask = self._chain.host_asks and self._dialect.can_ask(self._event)
        if can_ask and await approved.delegate_to_host(judged, self._chain.approvals, self._log):
            return replace(decision, asked=ask.prompt)
        if await approved.is_retry(judged.call, ask, self._log.message_id):
            return await self._decision_of(judged)
        return await self._ask_person(judged)

    async def _ask_person(self, judged: GatedCall) -> HookDecision | str:
        """Ask a person here; a yes is used up before the host hears of it."""
        await judged.walk({PERMITTED})
        if judged.has_ended:
            return ""
        if (refusal := judged.seal()) is not None:
            return refusal.reason
        # Handlers may have judged it once more, and made another call of it.
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
            raise DecodeError(f"the event {self._event.name!r} says nothing of a result")
        session_id = self._scope.session_id
        earlier = await self._chain.store.read_call(session_id, executed.id)
        self._transcript = Transcript(self._bus, session_id, None, earlier)
        answers = [message for message in earlier if isinstance(message, ToolMessage)]
        requested = {call.id: call for call in _calls_of(earlier)}.get(executed.id)
        if requested is None:
            # Nobody was told of the call: its hook is missing, or could not be answered.
            await self._enter(AssistantMessage(id=f"{executed.id}-1", tool_calls=(executed,)))
        elif self._keepers and is_file_writer(executed):
            # The host tells it as it was filled in, which nobody is to see.
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
    """Return the id of the call that *ran*, by its name and arguments; None if there is none.

    It is for hosts that give their calls no ids. Of several calls it is the oldest that has no
    answer in *recent* and was made after the latest prompt, or else before: a host goes on when it
    has the results, unless it was killed. A call whose answer is the message *message_id* has it
    from the same event, which is handled once more.
    """
    answers = {each.tool_call_id: each.id for each in recent if isinstance(each, ToolMessage)}
    for call_id, answer_id in answers.items():
        if answer_id == message_id:
            return call_id
    prompts = [place for place, each in enumerate(recent) if isinstance(each, UserMessage)]
    turn = prompts[-1] if prompts else 0
    calls = [each for each in _calls_of((*recent[turn:], *recent[:turn])) if each.name == ran.name]
    waiting = [call for call in calls if call.id not in answers]
    # The arguments of one that was rewritten, or redacted, are others.
    alike = [call for call in waiting if not changed(call.arguments, ran.arguments)]
    return next((call.id for call in (*alike, *waiting)), None)


def _calls_of(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """Yield the calls that *messages* ask for, in order."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.tool_calls


def _are_same(read: ToolResponse, response: ToolResponse) -> bool:
    """Return whether a model that reads *read* reads *response*."""
    return (
        read.content == response.content
        and read.is_error == response.is_error
        and not changed(read.structured, response.structured)
    )


def _is_refusal(message: ToolMessage) -> bool:
    response = message.tool_response
    return response is not None and response.is_error and response.error_type == "denied"
