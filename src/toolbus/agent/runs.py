"""One run of a session: turns of a model call and its tool calls, until the model has answered."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec.structs import replace

from toolbus.agent.call_notes import answer_notes, failure_notes, release_notes
from toolbus.agent.outputs import REFUSED
from toolbus.agent.prompts import content_of, message_of
from toolbus.agent.release import Release
from toolbus.errors import DecodeError, MessageDenied, ModelError, OutputError, ToolbusError
from toolbus.events.catalogue import (
    MODEL_CALL_AFTER,
    MODEL_CALL_BEFORE,
    MODEL_CALL_DELTA,
    MODEL_CALL_ERROR,
    RUN_AFTER,
    RUN_BEFORE,
    RUN_ERROR,
    TOOLS_PROVIDE,
    ModelDelta,
    ModelFailure,
    ModelReply,
    ModelRequest,
    RunFailure,
    RunResult,
    RunStart,
    TurnEnd,
)
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage, encode
from toolbus.models.answers import ask, with_own_ids
from toolbus.tasks.shielding import shield_until_done
from toolbus.tools.calls.advertised import AdvertisedTools
from toolbus.tools.calls.approvals import Pending, decide_run
from toolbus.tools.contexts import NO_DEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from toolbus.agent.outputs import OutputType
    from toolbus.agent.prompts import Prompt
    from toolbus.agent.sessions import AgentSession
    from toolbus.bus.ledger.records import DispatchRecord
    from toolbus.events.catalogue import RunStatus, Scope, ToolCallOutcome, TransformEvent
    from toolbus.messages.records import Message

V = TypeVar("V")
Piece: TypeAlias = ModelDelta | ToolMessage | TurnEnd
logger = logging.getLogger("toolbus")

_AGAIN = "Answer again, with JSON alone that fits this schema:"
_LONGEST = 500


class AgentRun:
    """One run of a session."""

    def __init__(
        self,
        session: AgentSession,
        scope: Scope,
        show: Callable[[Piece], None] | None,
        deps: Any = NO_DEPS,
        output: OutputType | None = None,
    ) -> None:
        self._session, self._config, self._scope = session, session.config, scope
        self._bus, self._show, self._deps = session.config.bus, show, deps
        self._usage: Counter[str] = Counter()
        self._first = len(session.transcript.messages)
        self._latest: AssistantMessage | None = None
        self._output, self._misfits = output, 0

    async def to_its_end(self, prompt: Prompt) -> RunResult[Any]:
        """Return how it ended; `RUN_AFTER` fires once, whatever happens."""
        content = content_of(prompt, self._scope.session_id)
        start = RunStart(prompt=content, messages=tuple(self._session.transcript.messages))
        end = None
        try:
            end = await self._attempt(start, prompt)
        except Exception as error:
            end = self._failed(error)
            raise
        finally:
            end = end or self._result("cancelled", "the run was cancelled")
            self._bus.do(RUN_AFTER, end, scope=self._scope)
        return end

    async def _attempt(self, start: RunStart, prompt: Prompt) -> RunResult[Any]:
        """Return the end, or raise what no handler answers."""
        try:
            return await self._turns(start, prompt)
        except asyncio.CancelledError:
            await shield_until_done(self._settle)
            raise
        except Exception as error:
            failure = RunFailure(
                start=start, error_type=type(error).__name__, error_text=str(error)
            )
            answer: RunResult[Any] | None = await self._answer(RUN_ERROR, failure)
            if answer is not None and self._output is not None:
                answer = self._output.fitted(answer)
            if answer is None:
                raise
            return answer

    async def _turns(self, start: RunStart, prompt: Prompt) -> RunResult[Any]:
        context = await self._bus.apply(RUN_BEFORE, start, scope=self._scope)
        denied = context.denied
        if denied is None and context.asked is not None:
            decision = await decide_run(self._config.approvals, self._bus, context)
            if isinstance(decision, Pending):
                return self._result("pending", decision.text, pending=(decision.question_id,))
            denied = decision
        if denied is not None:
            return self._result("denied", denied.reason)
        await self._session.begin(self._scope, settle=True)
        await self._session.take_waiting(self._scope)
        message = message_of(prompt, context.value, self._session.new_id)
        await self._session.transcript.append(message, self._scope)
        for turn in range(1, self._config.max_turns + 1):
            self._scope = replace(self._scope, turn=turn)
            await self._bus.catch_up()
            if (end := await self._turn()) is not None:
                return end
        return self._result("max_turns", f"no final answer after {self._scope.turn} turns")

    async def _turn(self) -> RunResult[Any] | None:
        """Call the model, then the tools that it asked for; None if the run goes on."""
        session = self._session
        advertised = AdvertisedTools.of(
            await self._bus.apply(TOOLS_PROVIDE, self._config.tools.specs, scope=self._scope)
        )
        context = await self._bus.apply(
            MODEL_CALL_BEFORE, self._request(advertised), scope=self._scope
        )
        if context.denied is not None:
            return self._result("denied", context.denied.reason)
        # What the model was not told of, it cannot call.
        advertised.specs = {spec.name: spec for spec in context.value.tools}
        release = None if self._show is None else Release(self._bus, self._scope, self._release)
        try:
            message = context.answer or await self._call_model(context.value, release)
        except MessageDenied as error:
            if release is None or error is not release.refusal:
                raise
            self._note(release_notes(self._scope, release, error.message_id))
            return self._result("denied", error.reason)
        self._usage.update({key: n for key, n in message.usage.items() if type(n) is int})
        has, has_call = session.transcript.has, session.transcript.has_call
        message = with_own_ids(message, session.new_id, has=has, has_call=has_call)
        self._note(answer_notes(self._scope, message, release))
        judge = None if release is None else partial(release.objection, message)
        try:
            answer = await session.transcript.append(message, self._scope, judge=judge)
        except MessageDenied as error:
            return self._result("denied", error.reason)
        assert isinstance(answer, AssistantMessage)  # noqa: S101 - a replacement keeps the role
        self._latest = answer
        if release is not None:
            release.finish(answer)
        tool_messages: list[ToolMessage] = []
        if answer.tool_calls:
            answered = partial(self._answered, release, tool_messages)
            runner = session.runner(self._scope, self._deps, answered)
            await runner.call_all(answer.tool_calls, advertised)
        if self._show is not None:
            turn = self._scope.turn
            self._show(TurnEnd(turn=turn, message=answer, tool_messages=tuple(tool_messages)))
        await session.take_waiting(self._scope)
        return None if answer.tool_calls else await self._end(answer)

    async def _end(self, answer: AssistantMessage) -> RunResult[Any] | None:
        """Return the result of *answer*; None if it does not fit and is asked for again."""
        if self._output is None:
            return self._result("ok")
        if answer.stop_reason == REFUSED:
            raise OutputError(
                self._config.model.name, f"it refused to answer: {answer.text[:_LONGEST]!r}"
            )
        try:
            return self._result("ok", output_json=self._output.json_of(answer))
        except DecodeError as error:
            # In one line: names in it may be the model's own words, and a user says them now.
            misfit = " ".join(str(error).split())[:_LONGEST]
        self._misfits += 1
        if self._misfits > self._config.output_retries:
            reason = f"its answer does not fit `{self._output.name}`: {misfit}"
            raise OutputError(self._config.model.name, reason, self._misfits)
        if self._scope.turn < self._config.max_turns:
            # With the schema: some servers take the parameter for it, and pass it over.
            schema = encode(self._output.schema).decode()
            text = f"This answer does not fit what was asked for: {misfit}. {_AGAIN}\n{schema}"
            message = UserMessage(id=self._session.new_id(), content=text)
            await self._session.transcript.append(message, self._scope)
        return None

    def _request(self, advertised: AdvertisedTools) -> ModelRequest:
        return ModelRequest(
            model=self._config.model.name,
            messages=tuple(self._session.transcript.messages),
            tools=tuple(advertised.specs.values()),
            settings=self._config.model_settings,
            output_schema=None if self._output is None else self._output.schema,
        )

    async def _call_model(self, request: ModelRequest, release: Release | None) -> AssistantMessage:
        clock = self._config.clock
        since = clock()
        try:
            on_delta = None if release is None else release.feed
            message = await ask(self._config.model, request, on_delta)
        except Exception as error:
            if release is not None and error is release.refusal:
                raise
            attempts = error.attempts if isinstance(error, ModelError) else 1
            self._note(failure_notes(self._scope, attempts, release))
            failure = ModelFailure(
                request=request,
                error_type=type(error).__name__,
                error_text=str(error),
                attempts=attempts,
            )
            answer: AssistantMessage | None = await self._answer(MODEL_CALL_ERROR, failure)
            if answer is not None and release is not None and release.has_begun:
                logger.warning("pieces of the answer were shown, so no other one takes its place")
                raise
            if answer is None:
                raise
            return answer
        reply = ModelReply(request=request, message=message, duration_ns=clock() - since)
        self._bus.do(MODEL_CALL_AFTER, reply, scope=self._scope)
        return message

    def _note(self, records: Iterable[DispatchRecord]) -> None:
        for record in records:
            self._session.note(record)

    def _release(self, delta: ModelDelta) -> None:
        if self._bus.hears(MODEL_CALL_DELTA):
            self._bus.do(MODEL_CALL_DELTA, delta, scope=self._scope)
        if self._show is not None:
            self._show(delta)

    def _answered(
        self,
        release: Release | None,
        tool_messages: list[ToolMessage],
        outcome: ToolCallOutcome,
        message: Message,
    ) -> None:
        """Show that a call was answered."""
        if release is None or self._show is None or not isinstance(message, ToolMessage):
            return
        release.answer(outcome, message)
        tool_messages.append(message)
        self._show(message)

    async def _answer(self, event: TransformEvent[V, Any], failure: V) -> Any:
        """Return what a handler gives in place of *failure*, None if that stands."""
        context = await self._bus.apply(event, failure, scope=self._scope)
        return None if context.denied is not None else context.answer

    async def _settle(self) -> None:
        """Answer the calls of a message that was appended as the run was cancelled."""
        try:
            await self._session.settle(self._scope)
        except ToolbusError as error:
            logger.warning("tool calls of a cancelled run have no answer yet: %s", error)

    def _failed(self, error: Exception) -> RunResult[Any]:
        if isinstance(error, MessageDenied):
            return self._result("denied", error.reason)
        return self._result("error", f"{type(error).__name__}: {error}")

    def _result(
        self,
        status: RunStatus,
        reason: str | None = None,
        output_json: str | None = None,
        pending: tuple[str, ...] = (),
    ) -> RunResult[Any]:
        result = RunResult[Any](
            status=status,
            message=self._latest,
            turns=self._scope.turn,
            usage=dict(self._usage),
            messages=self._session.transcript.messages[self._first :],
            reason=reason,
            output_json=output_json,
            pending=pending,
        )
        return result if self._output is None else result.with_decoder(self._output.decode)
