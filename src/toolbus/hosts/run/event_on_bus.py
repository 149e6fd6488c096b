"""One event of a host on the bus: what its handlers decide, and what of it is to be kept."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.errors import DecodeError, MessageDenied
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_BEFORE,
    Deny,
    RunStart,
)
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.hosts.doctor.vendors import switch_warning
from toolbus.hosts.run.call_matching import RECENT, match_call
from toolbus.hosts.run.written_files import is_file_writer
from toolbus.messages.codec import changed
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage
from toolbus.tools.calls.call import CallInProgress
from toolbus.tools.calls.gate import copy_of
from toolbus.tools.calls.gated_call import GatedCall
from toolbus.tools.calls.runner import ToolRunner
from toolbus.tools.toolset import Toolset
from toolbus.transcript.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolbus.bus.bus import EventBus
    from toolbus.components.capabilities import PromptSkipper
    from toolbus.events.catalogue import Scope, ToolCallOutcome, ToolSpec
    from toolbus.hosts.dialects.hook_events import Ability, HookAnswer, HookEvent
    from toolbus.hosts.dialects.host_dialect import HostDialect
    from toolbus.hosts.run.asking import HookAsking
    from toolbus.hosts.run.event_log import EventLog, HookStore
    from toolbus.hosts.run.written_files import FileKeeper
    from toolbus.messages.records import Message, ToolCall, ToolResponse

_UNDELIVERED: dict[Ability, str] = {
    "rewrite_arguments": "the arguments could not be changed there",
    "deny": "the call could not be denied there",
    "ask": "nobody could be asked there",
    "replace_result": "the result could not be replaced there: the model reads the original",
    "replace_failure": "the failure could not be replaced there: the model reads the original",
    "block_prompt": "the prompt could not be refused there: the model reads it",
}


class EventOnBus:
    """One *event* on *bus*; what is to be kept of it goes into *log*.

    Where a guard asks, a person decides by *asking*. *skippers* spare the host's own prompts,
    *keepers* fill what they took out of a file into the call that writes it.
    """

    def __init__(
        self,
        bus: EventBus,
        store: HookStore,
        event: HookEvent,
        dialect: HostDialect,
        log: EventLog,
        *,
        asking: HookAsking,
        skippers: Sequence[PromptSkipper] = (),
        keepers: Sequence[FileKeeper] = (),
    ) -> None:
        self._skippers, self._keepers = skippers, keepers
        self._bus, self._store, self._event, self._dialect = bus, store, event, dialect
        self._asking = asking
        self._log, self._scope, self._root = log, log.scope, _root(log.scope)
        self._transcript = Transcript(bus, log.scope.session_id, None)
        self._call_id = f"{log.message_id}-call"

    async def answer(
        self, enqueued: Sequence[UserMessage], waiting: tuple[str, ...]
    ) -> tuple[HookAnswer, tuple[str, ...]]:
        """Return what the host is told, and what is left of the texts that wait for the model.

        *enqueued* are the messages that handlers let wait meanwhile, *waiting* texts from before.
        """
        decision = await self._decide()
        texts = (*waiting, *await self._enter_enqueued(enqueued))
        # A reason may quote what it is about, and what a host is told, it keeps.
        decision = replace(
            decision,
            denied=await self._log.concealed(decision.denied),
            asked=await self._log.concealed(decision.asked),
            context=texts,
        )
        answer = self._dialect.encode(self._event, decision)
        for ability in answer.undelivered:
            if ability in _UNDELIVERED:
                self._note(f"{self._dialect.facts.title}: {_UNDELIVERED[ability]}")
        return answer, texts if "add_context" in answer.undelivered else ()

    async def announce(self) -> None:
        """Tell who observes it that the messages were written, and what is known of calls now."""
        for entering in self._log.messages:
            await self._transcript.announce(entering)
        await self._asking.note(self._event.kind, self._call_id, self._scope.session_id)

    async def _decide(self) -> HookDecision:
        event = self._event
        try:
            match event.kind:
                case "call":
                    return await self._judge_call(await self._stored_call())
                case "result":
                    return await self._judge_result(await self._stored_call(), event.response)
                case "prompt":
                    return await self._judge_prompt(event.text)
                case "answer" if event.text:
                    await self._enter(AssistantMessage(id=self._log.message_id, content=event.text))
                case "session_start" | "session_end":
                    self._log.note(f"hook:{event.kind.replace('_', ':')}", event.name)
                    if event.kind == "session_start":
                        return HookDecision(notice=switch_warning(event.host) or "")
        except MessageDenied as error:
            if event.kind == "result":
                raise  # There is no call that it could answer.
            return HookDecision(denied=None if event.kind == "answer" else error.reason)
        return HookDecision()

    # --- calls ---------------------------------------------------------------------------------

    async def _stored_call(self) -> ToolCall:
        """Return the event's call by the id that it has among those of all hosts."""
        call = self._event.call
        if call is None:
            raise DecodeError(f"the event {self._event.name!r} says nothing of a call")
        if call.id:
            self._call_id = f"{self._root}/{call.id}"
        elif self._event.kind == "result":
            recent = await self._store.read_latest(self._scope.session_id, RECENT)
            self._call_id = match_call(call, recent, self._log.message_id) or self._call_id
        # A copy: what handlers do to it in place, the host's own call does not have.
        return replace(copy_of(call), id=self._call_id)

    async def _judge_call(self, call: ToolCall) -> HookDecision:
        asking = await self._enter(AssistantMessage(id=f"{call.id}-1", tool_calls=(call,)))
        calls = asking.tool_calls if isinstance(asking, AssistantMessage) else ()
        requested = next((each for each in calls if each.id == call.id), None)
        if requested is None:
            return HookDecision(denied="a handler took the call away")
        runner = self._runner(call)
        judged = await runner.judge(requested, asks=True)
        if not judged.has_ended:
            decision = await self._decision_of(judged)
            asks = isinstance(judged, GatedCall) and judged.question is not None
            if isinstance(judged, GatedCall) and asks and isinstance(decision, HookDecision):
                decision = await self._ask(judged, decision)
            elif decision == HookDecision():
                decision = HookDecision(skips_prompt=await self._skips_prompt(judged.call))
            if isinstance(decision, HookDecision):
                return decision
            if not judged.has_ended:
                judged.refuse(decision)
        outcome = await runner.finish(judged)
        return HookDecision(denied=outcome.response.text or "a handler has answered the call")

    async def _decision_of(self, judged: CallInProgress) -> HookDecision | str:
        """Return what the host is told of a call that may run, or why it cannot run there."""
        event, call, title = self._event, judged.call, self._dialect.facts.title
        assert event.call is not None  # noqa: S101 - it was judged
        if call.name != event.call.name:
            return f"a handler made it a call of {call.name!r}, and {title} runs no other tool"
        filled = await self._filled(call)
        if isinstance(filled, Deny):
            return filled.reason
        new = None
        if changed(filled.arguments, event.call.arguments):
            new = event.call.with_arguments(filled.arguments)
        decision = HookDecision(call=new)
        if "rewrite_arguments" in self._dialect.encode(event, decision).undelivered:
            return f"a handler changed the arguments, and {title} runs the call as it was or not"
        return decision

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
        assert judged.question is not None  # noqa: S101 - it asks
        prompt, session_id = judged.question.prompt, self._scope.session_id
        if self._keepers:
            judged.fill = lambda: self._filled(judged.call)
        asking, event_id = self._asking, self._log.message_id
        asked = asking.by_host(self._event, self._dialect, decision, prompt)
        if asked is not None and await asking.hand_over(judged, session_id, event_id):
            return asked
        return await asking.by_us(judged, session_id, event_id, self._decision_of)

    async def _judge_result(
        self, executed: ToolCall, response: ToolResponse | None
    ) -> HookDecision:
        if response is None:
            raise DecodeError(f"the event {self._event.name!r} says nothing of a result")
        session_id = self._scope.session_id
        earlier = await self._store.read_call(session_id, executed.id)
        self._transcript = Transcript(self._bus, session_id, None, earlier)
        answers = [message for message in earlier if isinstance(message, ToolMessage)]
        requested = _requested(executed, earlier)
        if requested is None:
            # Nobody was told of the call: its hook is missing, or could not be answered.
            await self._enter(AssistantMessage(id=f"{executed.id}-1", tool_calls=(executed,)))
        elif self._keepers and is_file_writer(executed):
            # The host tells it as it was filled in, which nobody is to see.
            executed = requested
        call = CallInProgress(
            requested or executed, runner := self._runner(executed, answers), None
        )
        call.resume(executed, response)
        outcome = await runner.finish(call)
        if any(_is_refusal(message) for message in answers):
            self._log.messages.clear()
            self._note(f"{self._dialect.facts.title} ran the call although it was denied")
        return _replacement(outcome, response)

    def _runner(self, call: ToolCall, answers: Sequence[ToolMessage] = ()) -> ToolRunner:
        """Return what takes *call* past the handlers; of one with *answers* its end was told."""
        numbers = count(2)
        # Of hosts without ids two results may seem to belong to one call: none of them is lost.
        has_id = self._event.call is not None and bool(self._event.call.id)
        return ToolRunner(
            self._bus,
            Toolset(),
            self._scope,
            approver=self._asking.approvals,
            append=self._enter,
            reported={call.id: None} if answers else None,
            may_be_told=lambda _: self._log.is_again,
            ids=lambda: f"{call.id}-{next(numbers)}" if has_id else self._log.message_id,
        )

    # --- messages ------------------------------------------------------------------------------

    async def _judge_prompt(self, text: str) -> HookDecision:
        title = self._dialect.facts.title
        start = await self._bus.apply(RUN_BEFORE, RunStart(prompt=text), scope=self._scope)
        if start.denied is not None:
            return HookDecision(denied=start.denied.reason)
        if start.asked is not None:
            reason = await self._asking.about_run(self._bus, start)
            if reason is not None:
                return HookDecision(denied=reason)
        message = UserMessage(id=self._log.message_id, content=start.value.prompt)
        entering = await self._transcript.prepare(message, self._scope)
        if entering.message.text != text:
            reason = f"a handler changed the prompt, and {title} sends it as it was or not at all"
            return HookDecision(denied=f"{reason}; write it without what is to be taken out")
        self._log.messages.append(entering)
        return HookDecision()

    async def _enter_enqueued(self, enqueued: Sequence[UserMessage]) -> list[str]:
        """Return the texts of *enqueued* that were let in, as they are stored."""
        texts = []
        for message in enqueued:
            try:
                entering = await self._transcript.prepare(message, self._scope)
            except MessageDenied:
                continue  # It stands in the ledger.
            self._log.messages.append(entering)
            texts.append(entering.copy.text)
        return texts

    async def _enter(
        self, message: Message, scope: Scope | None = None, tool: ToolSpec | None = None
    ) -> Message:
        entering = await self._transcript.prepare(message, scope or self._scope, tool)
        self._log.messages.append(entering)
        return entering.message

    def _note(self, reason: str) -> None:
        event = self._event
        if event.call is None:
            self._log.note(RUN_BEFORE.name, reason, self._log.message_id)
            return
        about = MESSAGE_APPEND_BEFORE if event.kind == "result" else TOOL_CALL_BEFORE
        self._log.note(about.name, reason, self._call_id, self._call_id)


def _root(scope: Scope) -> str:
    return scope.root_session_id or scope.session_id


def _requested(executed: ToolCall, earlier: Iterable[Message]) -> ToolCall | None:
    """Return the call that the model asked for, as it is stored, or None."""
    for message in earlier:
        if isinstance(message, AssistantMessage):
            return next((each for each in message.tool_calls if each.id == executed.id), None)
    return None


def _is_refusal(message: ToolMessage) -> bool:
    response = message.tool_response
    return response is not None and response.is_error and response.error_type == "denied"


def _replacement(outcome: ToolCallOutcome, response: ToolResponse) -> HookDecision:
    read = outcome.response
    is_same = (
        read.content == response.content
        and read.is_error == response.is_error
        and not changed(read.structured, response.structured)
    )
    return HookDecision() if is_same else HookDecision(response=read)
