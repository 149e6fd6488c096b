"""One host event on the bus: the decision of its handlers, and the messages to store."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolbus.errors import MessageDenied
from toolbus.events.catalogue import RUN_BEFORE, RunStart
from toolbus.hosts.dialects.hook_events import HookDecision
from toolbus.hosts.doctor.vendors import switch_warning
from toolbus.hosts.run.approved_calls import ApprovedCalls
from toolbus.messages.records import AssistantMessage, UserMessage
from toolbus.tools.calls.gate import Pending, ask_about_run
from toolbus.transcript.transcript import Transcript

if TYPE_CHECKING:
    from toolbus.events.catalogue import Scope, ToolSpec
    from toolbus.hosts.dialects.hook_events import Ability, HookAnswer, HookEvent
    from toolbus.hosts.dialects.host_dialect import HostDialect
    from toolbus.hosts.run.chain import HookChain
    from toolbus.hosts.run.event_log import EventLog
    from toolbus.hosts.run.hook_sessions import HookSession
    from toolbus.messages.records import Message

_UNDELIVERED: dict[Ability, str] = {
    "deny": "the call could not be denied",
    "ask": "the user could not be asked",
    "replace_result": "the result could not be replaced: the model reads the original",
    "replace_failure": "the failure could not be replaced: the model reads the original",
}


class EventOnBus:
    """One *event* of *session* on the bus of *chain*; its messages and records go into *log*."""

    subject_event = RUN_BEFORE.name
    """The event name of ledger records that belong to no dispatch."""

    def __init__(
        self,
        chain: HookChain,
        event: HookEvent,
        dialect: HostDialect,
        session: HookSession,
        log: EventLog,
    ) -> None:
        self._chain, self._bus = chain, chain.bus
        self._event, self._dialect = event, dialect
        self._log, self._scope = log, log.scope
        self._root = log.scope.root_session_id or log.scope.session_id
        self._approved = ApprovedCalls(chain.store, chain.sessions, self._root, session.approved)
        self._transcript = Transcript(chain.bus, log.scope.session_id, None)
        self._call_id = ""

    async def answer(self, waiting: tuple[str, ...]) -> tuple[HookAnswer, tuple[str, ...]]:
        """Return the answer to the host, and the texts that still wait for the model.

        *waiting* are texts from earlier events; handlers may have enqueued others.
        """
        decision = await self._decide()
        texts = (*waiting, *await self._enter_enqueued())
        # A reason may quote a secret, and hosts store the answers that they get.
        decision = replace(
            decision,
            denied=await self._log.redacted(decision.denied),
            asked=await self._log.redacted(decision.asked),
            context=texts,
        )
        answer = self._dialect.encode(self._event, decision)
        for ability in answer.undelivered:
            if ability in _UNDELIVERED:
                self._note(f"{self._dialect.facts.title}: {_UNDELIVERED[ability]}")
        return answer, texts if "add_context" in answer.undelivered else ()

    async def announce(self) -> None:
        """Notify observers of the written messages, and settle approved calls."""
        for entering in self._log.messages:
            await self._transcript.announce(entering)
        match self._event.kind:
            case "result":
                await self._approved.end(self._call_id)
            case "prompt" | "answer":
                await self._approved.mark_unknown(self._scope.session_id)
            case "session_start" | "session_end":
                await self._approved.mark_unknown(None)

    async def _decide(self) -> HookDecision:
        event = self._event
        match event.kind:
            case "prompt":
                return await self._judge_prompt(event.text)
            case "answer" if event.text:
                with suppress(MessageDenied):  # The ledger records the denial.
                    await self._enter(AssistantMessage(id=self._log.message_id, content=event.text))
            case "session_start":
                self._log.note("hook:session:start", event.name)
                return HookDecision(notice=switch_warning(event.host) or "")
            case "session_end":
                self._log.note("hook:session:end", event.name)
        return HookDecision()

    async def _judge_prompt(self, text: str) -> HookDecision:
        title = self._dialect.facts.title
        start = await self._bus.apply(RUN_BEFORE, RunStart(prompt=text), scope=self._scope)
        if start.denied is not None:
            return HookDecision(denied=start.denied.reason)
        if start.asked is not None:
            decision = await ask_about_run(self._chain.approvals, self._bus, start)
            if decision is not None:
                reason = decision.text if isinstance(decision, Pending) else decision.reason
                return HookDecision(denied=reason)
        message = UserMessage(id=self._log.message_id, content=start.value.prompt)
        try:
            entering = await self._transcript.prepare(message, self._scope)
        except MessageDenied as error:
            return HookDecision(denied=error.reason)
        if entering.message.text != text:
            reason = f"a handler changed the prompt, and {title} cannot send a changed prompt"
            return HookDecision(denied=f"{reason}; write it without the removed text")
        self._log.messages.append(entering)
        return HookDecision()

    async def _enter_enqueued(self) -> list[str]:
        """Return the accepted texts that handlers enqueued, as they are stored."""
        texts = []
        for message in self._log.enqueued:
            with suppress(MessageDenied):  # The ledger records the denial.
                entering = await self._transcript.prepare(message, self._scope)
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
        subject = self._call_id or self._log.message_id
        self._log.note(self.subject_event, reason, subject, self._call_id)
