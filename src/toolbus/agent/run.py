"""One run of a session: turns of a model call and its tool calls, until the model has answered."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.agent.model_call import (
    answer_of,
    call_model,
    note_answer,
    note_increments,
    request_of,
)
from toolbus.agent.open_calls import resume_open_calls, withdraw_answered
from toolbus.agent.outputs import REFUSED
from toolbus.agent.prompts import content_of, message_of
from toolbus.agent.streaming import StreamedAnswer
from toolbus.errors import DecodeError, MessageDenied, OutputError, ToolbusError
from toolbus.events.catalogue import (
    MODEL_CALL_BEFORE,
    MODEL_CALL_DELTA,
    RUN_AFTER,
    RUN_BEFORE,
    RUN_ERROR,
    TOOLS_PROVIDE,
    RunFailure,
    RunResult,
    RunStart,
    TurnEnd,
)
from toolbus.messages.fields import replace_unchecked
from toolbus.messages.records import AssistantMessage, ToolMessage, UserMessage, encode
from toolbus.models.answers import with_own_ids
from toolbus.tasks.shield import shield_until_done
from toolbus.tools.calls.advertised import AdvertisedTools
from toolbus.tools.calls.gate import Pending, ask_about_run
from toolbus.tools.contexts import NO_DEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from toolbus.agent.outputs import OutputType
    from toolbus.agent.prompts import Prompt
    from toolbus.agent.sessions import AgentSession
    from toolbus.agent.streaming import Piece
    from toolbus.bus.dispatch.contexts import EventContext
    from toolbus.events.catalogue import (
        ModelDelta,
        ModelRequest,
        RunStatus,
        Scope,
        ToolCallOutcome,
    )
    from toolbus.messages.records import JsonObject, Message, ToolCall

logger = logging.getLogger("toolbus")

_AGAIN = "Answer again with only JSON that fits this schema:"
_LONGEST = 500


async def run_session(  # noqa: PLR0917 - the arguments of `Agent.run`
    session: AgentSession,
    prompt: Prompt | None,
    context: JsonObject,
    show: Callable[[Piece], None] | None = None,
    deps: Any = NO_DEPS,
    output: OutputType | None = None,
) -> RunResult[Any]:
    """Run *session* on *prompt* to its end; without one, go on in it. See `Agent.run`."""
    if prompt is not None:
        content_of(prompt, session.scope.session_id)  # An invalid prompt leaves no trace.
    with session.work():
        scope = replace(session.scope, run_id=session.config.ids(), context=context)
        try:
            async with session.hold():
                if prompt is None:
                    session.check_begun()
                return await AgentRun(session, scope, show, deps, output).run_to_end(prompt)
        finally:
            await session.flush()


async def call_tool(session: AgentSession, call: ToolCall) -> ToolCallOutcome:
    """Run *call* in *session*, after an assistant message with it; see `Agent.call_tool`."""
    with session.work():
        scope = session.scope
        try:
            await session.config.bus.catch_up()
            async with session.hold():
                await session.begin(scope)
                call = replace(call, id=session.new_id())
                outcomes = await _append_and_run(session, call)
                await session.take_waiting(scope)
        finally:
            await session.flush()
    return next(outcome for outcome in outcomes if outcome.requested.id == call.id)


async def _append_and_run(session: AgentSession, call: ToolCall) -> Sequence[ToolCallOutcome]:
    """Append an assistant message with *call*, and run it."""
    scope = session.scope
    asking = AssistantMessage(id=session.new_id(), tool_calls=(call,))
    asked = await session.transcript.append(asking, scope)
    calls = asked.tool_calls if isinstance(asked, AssistantMessage) else ()
    if call.id not in [other.id for other in calls]:
        raise MessageDenied(asked.role, asked.id, "a handler removed the call")
    return await session.runner(scope).call_all(calls)


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

    async def run_to_end(self, prompt: Prompt | None) -> RunResult[Any]:
        """Return the result; `RUN_AFTER` is dispatched exactly once.

        Without a *prompt* it goes on in the session.
        """
        content = "" if prompt is None else content_of(prompt, self._scope.session_id)
        before = self._session.transcript.messages[:]
        start = replace_unchecked(RunStart(prompt=content), messages=before)
        end = None
        try:
            end = await self._attempt(start, prompt)
        except Exception as error:
            end = self._failed(error)
            raise
        finally:
            end = end or self._result("cancelled", "the run was cancelled")
            if self._bus.has_listeners(RUN_AFTER):
                self._bus.do(RUN_AFTER, end, scope=self._scope)
        return end

    async def _attempt(self, start: RunStart, prompt: Prompt | None) -> RunResult[Any]:
        """Return the result, or raise an error that no handler answers."""
        try:
            return await self._turns(start, prompt)
        except asyncio.CancelledError:
            await shield_until_done(self._settle)
            raise
        except Exception as error:
            failure = RunFailure(
                start=start, error_type=type(error).__name__, error_text=str(error)
            )
            answer: RunResult[Any] | None = await answer_of(
                self._bus, RUN_ERROR, failure, self._scope
            )
            if answer is not None and self._output is not None:
                answer = self._output.fitted(answer)
            if answer is None:
                raise
            return answer

    async def _turns(self, start: RunStart, prompt: Prompt | None) -> RunResult[Any]:
        end = await (self._resume() if prompt is None else self._begin(start, prompt))
        if end is not None:
            return end
        for turn in range(1, self._config.max_turns + 1):
            self._scope = replace(self._scope, turn=turn)
            await self._bus.catch_up()
            if (end := await self._turn()) is not None:
                return end
        return self._result("max_turns", f"no final answer after {self._scope.turn} turns")

    async def _begin(self, start: RunStart, prompt: Prompt) -> RunResult[Any] | None:
        """Append the prompt; return the result of a run that may not begin."""
        context = await self._bus.apply(RUN_BEFORE, start, scope=self._scope)
        denied = context.denied
        if denied is None and context.asked is not None:
            decision = await ask_about_run(self._config.gate, self._bus, context)
            if isinstance(decision, Pending):
                return self._result("pending", decision.text, pending=(decision.question_id,))
            denied = decision
        if denied is not None:
            return self._result("denied", denied.reason)
        await self._session.begin(self._scope, settle=True)
        await self._session.take_waiting(self._scope)
        message = message_of(prompt, context.value, self._session.new_id)
        await self._session.transcript.append(message, self._scope)
        return None

    async def _resume(self) -> RunResult[Any] | None:
        """Run the calls that waited for a person; return None to go on with the model."""
        session = self._session
        waiting, continued = await resume_open_calls(session, self._scope)
        messages = session.transcript.messages
        asked = [message for message in messages if isinstance(message, AssistantMessage)]
        self._latest = asked[-1] if asked else None
        if waiting:
            advertised = await self._advertised()
            pending = await self._call_tools(waiting, advertised, None, continued)
            await withdraw_answered(session, waiting)
            if pending:
                return self._pending(pending)
        await session.take_waiting(self._scope)
        latest = session.transcript.messages[-1]
        return await self._end(latest) if isinstance(latest, AssistantMessage) else None

    async def _advertised(self) -> AdvertisedTools:
        """Return the tools that the model may see now."""
        specs = self._config.tools.specs
        if not self._bus.has_listeners(TOOLS_PROVIDE):
            return AdvertisedTools(specs)
        return AdvertisedTools.of(await self._bus.apply(TOOLS_PROVIDE, specs, scope=self._scope))

    async def _turn(self) -> RunResult[Any] | None:
        """Call the model, then the tools of its answer; return None if the run goes on."""
        advertised = await self._advertised()
        request = request_of(self._session, advertised, self._output)
        context = await self._bus.apply(MODEL_CALL_BEFORE, request, scope=self._scope)
        if context.denied is not None:
            return self._result("denied", context.denied.reason)
        # The model can call only the tools that it was shown.
        advertised.specs = {spec.name: spec for spec in context.value.tools}
        streamed = None
        if self._show is not None:
            streamed = StreamedAnswer(self._bus, self._scope, self._show_delta)
        with streamed or nullcontext():
            answer = await self._answer(context, streamed)
        if isinstance(answer, RunResult):
            return answer
        if pending := await self._call_tools(answer.tool_calls, advertised, streamed):
            return self._pending(pending)
        await self._session.take_waiting(self._scope)
        return None if answer.tool_calls else await self._end(answer)

    async def _answer(
        self, context: EventContext[ModelRequest], streamed: StreamedAnswer | None
    ) -> AssistantMessage | RunResult[Any]:
        """Return the appended answer to the request of *context*; or the result of a denial."""
        session, scope = self._session, self._scope
        try:
            message = context.answer or await call_model(session, context.value, scope, streamed)
        except MessageDenied as error:
            if streamed is None or error is not streamed.refusal:
                raise
            note_increments(session, scope, streamed, error.message_id)
            return self._result("denied", error.reason)
        self._usage.update({key: n for key, n in message.usage.items() if type(n) is int})
        transcript = session.transcript
        has, has_call = transcript.has, transcript.has_call
        message = with_own_ids(message, session.new_id, has=has, has_call=has_call)
        note_answer(session, scope, message, streamed)
        judge = None if streamed is None else partial(streamed.objection, message)
        try:
            answer = await transcript.append(message, scope, judge=judge)
        except MessageDenied as error:
            return self._result("denied", error.reason)
        assert isinstance(answer, AssistantMessage)  # noqa: S101 - a replacement keeps the role
        self._latest = answer
        if streamed is not None:
            streamed.finish(answer)
        return answer

    def _show_delta(self, delta: ModelDelta) -> None:
        """Show a piece of an answer, also to observers."""
        if self._bus.has_listeners(MODEL_CALL_DELTA):
            self._bus.do(MODEL_CALL_DELTA, delta, scope=self._scope)
        if self._show is not None:
            self._show(delta)

    async def _call_tools(
        self,
        calls: Sequence[ToolCall],
        advertised: AdvertisedTools,
        streamed: StreamedAnswer | None,
        continued: Collection[str] = (),
    ) -> tuple[str, ...]:
        """Run *calls* of the latest answer, and show the end of its turn.

        Return the ids of the questions that any of them waits for.
        """
        tool_messages: list[ToolMessage] = []
        pending: tuple[str, ...] = ()
        if calls:
            answered = partial(self._answered, streamed, tool_messages)
            runner = self._session.runner(self._scope, self._deps, answered)
            outcomes = await runner.call_all(calls, advertised, continued=continued)
            pending = tuple([each for outcome in outcomes for each in outcome.pending])
        if self._show is not None and self._latest is not None and not pending:
            turn, message = self._scope.turn, self._latest
            self._show(TurnEnd(turn=turn, message=message, tool_messages=tuple(tool_messages)))
        return pending

    async def _end(self, answer: AssistantMessage) -> RunResult[Any] | None:
        """Return the result of *answer*; None if it does not fit and the model is asked again."""
        if self._output is None:
            return self._result("ok")
        if answer.stop_reason == REFUSED:
            raise OutputError(
                self._config.model.name, f"refused to answer: {answer.text[:_LONGEST]!r}"
            )
        try:
            return self._result("ok", output_json=self._output.json_of(answer))
        except DecodeError as error:
            # On one line: its names may be the model's own words, in a user's message.
            misfit = " ".join(str(error).split())[:_LONGEST]
        self._misfits += 1
        if self._misfits > self._config.output_retries:
            reason = f"the answer does not fit `{self._output.name}`: {misfit}"
            raise OutputError(self._config.model.name, reason, self._misfits)
        if self._scope.turn < self._config.max_turns:
            # With the schema: some servers accept its parameter, and ignore it.
            schema = encode(self._output.schema).decode()
            text = f"This answer does not match the requested format: {misfit}. {_AGAIN}\n{schema}"
            message = UserMessage(id=self._session.new_id(), content=text)
            await self._session.transcript.append(message, self._scope)
        return None

    def _answered(
        self,
        streamed: StreamedAnswer | None,
        tool_messages: list[ToolMessage],
        outcome: ToolCallOutcome,
        message: Message,
    ) -> None:
        """Show the answer to a call."""
        if self._show is None or not isinstance(message, ToolMessage):
            return
        if streamed is not None:
            streamed.finish_call(outcome, message)
        tool_messages.append(message)
        self._show(message)

    async def _settle(self) -> None:
        """Answer the calls of a message that was appended while the run was cancelled."""
        try:
            await self._session.settle(self._scope)
        except ToolbusError as error:
            logger.warning("tool calls of a cancelled run have no answer yet: %s", error)

    def _failed(self, error: Exception) -> RunResult[Any]:
        if isinstance(error, MessageDenied):
            return self._result("denied", error.reason)
        return self._result("error", f"{type(error).__name__}: {error}")

    def _pending(self, pending: tuple[str, ...]) -> RunResult[Any]:
        waits = "question waits" if len(pending) == 1 else "questions wait"
        reason = f"{len(pending)} {waits} for a person: {', '.join(pending)}"
        return self._result("pending", reason, pending=pending)

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
