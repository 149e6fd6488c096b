"""A conversation of a framework: its prompts, tools, calls and answers on the bus."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from toolbus.bridges.argument_texts import converted_call
from toolbus.bridges.bridged_call import (
    BridgedCall,
    CallTools,
    FrameworkGate,
    is_same,
    without_unseen,
)
from toolbus.bridges.paused_calls import PausedCalls
from toolbus.bridges.threads import run_for_thread
from toolbus.errors import MessageDenied, ToolbusError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    RUN_AFTER,
    RUN_BEFORE,
    TOOLS_PROVIDE,
    RunResult,
    RunStart,
)
from toolbus.messages.ids import new_id
from toolbus.messages.immutable import replace_surrogates
from toolbus.messages.records import AssistantMessage, ToolMessage, ToolResponse, UserMessage
from toolbus.tasks.shield import ContainedTask, outlast
from toolbus.tools.calls.advertised import AdvertisedTools
from toolbus.tools.calls.execution import failure
from toolbus.tools.calls.gate import Pending, ask_about_run
from toolbus.tools.calls.runner import ToolRunner
from toolbus.transcript.session_log import SessionLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Any

    from toolbus.bridges.bridged_call import AskUser, RunTool
    from toolbus.bridges.host import BridgeHost
    from toolbus.events.catalogue import Scope, ToolCallOutcome, ToolSpec
    from toolbus.messages.records import Message, ToolCall
    from toolbus.tools.calls.gate import CallGate
    from toolbus.transcript.session_log import CallRecord


class PromptDenied(ToolbusError):
    """A handler denied a prompt, for this *reason*."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason


class CallEnd(NamedTuple):
    """The end of a call for its framework.

    *response* is the result for the model; *is_changed*: it differs from the tool's own. *error* is
    the exception of the tool if the response is still that failure. *outcome* is None for a call
    that a handler took out of its message.
    """

    response: ToolResponse
    outcome: ToolCallOutcome | None = None
    error: BaseException | None = None
    is_changed: bool = True

    @property
    def status(self) -> str:
        """The status of the call, as in `ToolCallOutcome`."""
        return "denied" if self.outcome is None else self.outcome.status


class BridgeSession:
    """A conversation of the framework of *host*, with the scope of its agent."""

    def __init__(self, host: BridgeHost, scope: Scope) -> None:
        self.host, self.scope = host, scope
        self._open()
        self._specs: dict[str, ToolSpec] = {}
        self._advertised = AdvertisedTools(())
        self._running: set[BridgedCall] = set()
        self._result: RunResult[Any] = RunResult(status="ok")

    @property
    def is_busy(self) -> bool:
        """Whether a call runs, or waits for its framework's approval."""
        return bool(self._running or self._paused)

    # --- a run -----------------------------------------------------------------------------------

    async def begin(self, prompt: str) -> str:
        """Put *prompt* on the bus at the start of a run; return it as handlers left it.

        Raises `PromptDenied`.
        """
        await self._open_host()
        await self._claim()
        self._paused.begin_run()
        prompt = replace_surrogates(prompt)
        bus, scope = self.host.bus, replace(self.scope, run_id=new_id())
        self.scope = scope
        start = await bus.apply(RUN_BEFORE, RunStart(prompt=prompt), scope=scope)
        if start.denied is not None:
            raise self._denied(start.denied.reason)
        if start.asked is not None:
            decision = await ask_about_run(self.host.gate, bus, start)
            if isinstance(decision, Pending):
                raise self._denied(decision.text)
            if decision is not None:
                raise self._denied(decision.reason)
        try:
            entered = await self._append(UserMessage(id=new_id(), content=start.value.prompt))
        except MessageDenied as error:
            raise self._denied(error.reason) from None
        return entered.text

    async def answer(self, text: str) -> str:
        """Put a text of the model on the bus before its run ends; return it as handlers left it.

        A denied text is replaced by the reason. The last text is the answer of the run.
        """
        self.host.check_open()
        # Some streams split a character; no record holds a half of one.
        message = AssistantMessage(id=new_id(), content=replace_surrogates(text))
        try:
            entered = await self._append(message)
        except MessageDenied as error:
            self._result = RunResult(status="denied", reason=error.reason)
            return error.reason
        answer = entered if isinstance(entered, AssistantMessage) else message
        self._result = RunResult(status="ok", message=answer)
        return answer.text

    async def end(self) -> None:
        """Put the end of a run on the bus, with its last `answer`."""
        result, self._result = self._result, RunResult(status="ok")
        await self._end(result)

    async def finish(self, text: str) -> str:
        """Put the model's final answer *text* on the bus; return it as handlers left it."""
        answer = await self.answer(text)
        await self.end()
        return answer

    async def fail(self, error: BaseException) -> None:
        """Put the failure of a run on the bus."""
        reason = str(error) or type(error).__name__
        if isinstance(error, asyncio.CancelledError):
            await self._end(RunResult(status="cancelled", reason=reason))
        elif isinstance(error, PromptDenied):
            await self._end(RunResult(status="denied", reason=reason))
        else:
            await self._end(RunResult(status="error", reason=reason))

    # --- its tools and calls ---------------------------------------------------------------------

    async def adapt_tools(
        self, specs: Sequence[ToolSpec], added: Sequence[ToolSpec] = ()
    ) -> tuple[ToolSpec, ...]:
        """Return *specs*, all tools of the agent, as handlers show them to the model.

        *added* are tools of components, for a framework that can offer them: it passes their calls
        as those of unknown tools.
        """
        await self._open_host()
        self._specs, self._advertised = {}, AdvertisedTools(())
        return await self._provide(tuple(specs), tuple(added))

    def offer_only(self, specs: Sequence[ToolSpec]) -> None:
        """Take all tools but *specs* from the model, as a handler of its request did."""
        self._advertised.specs = {spec.name: spec for spec in specs}

    async def call(
        self,
        call: ToolCall,
        spec: ToolSpec | None,
        run: RunTool,
        *,
        ask: AskUser | None = None,
        check: Callable[[Mapping[str, Any]], str | None] | None = None,
        passes: tuple[type[BaseException], ...] = (),
    ) -> CallEnd:
        """Take *call* through the handlers, its tool, and the handlers of its result.

        Args:
            call: the call of the model.
            spec: the tool as the framework knows it; None for an unknown tool.
            run: runs the tool with the final arguments, a private copy.
            ask: the framework's own approval: True or False, a denial, or None to leave the
                question to the approver. Its errors leave the call open, and are raised here.
            check: returns the framework's own problem with arguments; by default a problem is only
                looked for in arguments that handlers have changed.
            passes: the errors of *run* that only pause the call: it is left open, and they are
                raised here. The framework makes the same call again when it goes on.

        A failure of the tool is in the result, never raised. A cancelled call gets its result in
        the log before `CancelledError` is raised.
        """
        await self._open_host()
        if spec is not None and self._specs.get(call.name) != spec:
            await self._provide((spec,))  # It is not in the list of the agent's tools.
        call = call if spec is None else converted_call(call, spec, check)
        bridged = BridgedCall(self, call, run, check, passes)
        # A framework cannot tell parallel calls of one id apart.
        may_pause = (ask is not None or bool(passes)) and all(
            each.call.id != call.id for each in tuple(self._running)
        )
        await self._claim()
        self._running.add(bridged)
        try:
            if may_pause:
                end = await self._run_until_pause(bridged, ask)
            else:
                end = await self._run_to_end(bridged, self._log.call_record(), self.host.gate)
        finally:
            self._running.discard(bridged)
        await self._claim()  # Its result was written after that of another process, perhaps.
        if bridged.pause is not None:
            raise bridged.pause
        return end

    def call_sync(
        self, call: ToolCall, spec: ToolSpec | None, run: Callable[..., Any], **options: Any
    ) -> CallEnd:
        """Do as `call`, for a thread without an event loop; *run* is sync, and runs in it.

        An *ask* in *options* is sync too, and also runs in the calling thread.
        """

        def work(in_caller: Callable[[Any], Callable[..., Awaitable[Any]]]) -> Any:
            if options.get("ask") is not None:
                options["ask"] = in_caller(options["ask"])
            return self.call(call, spec, in_caller(run), **options)

        end: CallEnd = run_for_thread(work)
        return end

    async def judge_result(self, call_id: str, name: str, response: ToolResponse) -> ToolResponse:
        """Return the *response* of a call of the tool *name* as handlers of results leave it.

        It belongs to no `call`: it came after the end of that, or piece by piece.
        """
        self.host.check_open()
        message = ToolMessage(
            id=new_id(), tool_call_id=call_id, tool_name=name, tool_response=response
        )
        read = await self.host.bus.apply(MESSAGE_APPEND_BEFORE, message, scope=self.scope)
        if read.denied is not None:
            return failure(read.denied.reason, "denied")
        after = read.value if isinstance(read.value, ToolMessage) else message
        return after.tool_response or ToolResponse.from_text(after.text)

    def traceable(self, error: BaseException | None) -> BaseException | None:
        """Return *error* as a trace of the framework may have it; None if it may not."""
        is_judged = self.host.bus.has_listeners(MESSAGE_APPEND_BEFORE)
        return without_unseen(error) if is_judged else error

    async def stop(self) -> None:
        """Cancel the calls that run in this loop, and wait for their ends."""
        loop, ends = asyncio.get_running_loop(), []
        for bridged in tuple(self._running):
            if bridged.task is not None and bridged.task.ended.get_loop() is loop:
                bridged.stop()
                ends.append(bridged.task.ended)
        if ends:
            await asyncio.wait(ends)

    async def close(self) -> None:
        """Write the last records; a later call opens the session again."""
        self._is_closed = True
        await self._log.close()

    def _open(self) -> None:
        host, self._is_closed = self.host, False
        self._log = SessionLog(host.bus, self.scope.session_id, host.store, host.discard_session)
        self._paused = PausedCalls(self._log, host.store)

    async def _run_until_pause(self, bridged: BridgedCall, ask: AskUser | None) -> CallEnd:
        """Take the call to its end, or keep it for the time after its pause."""
        call_id, paused = bridged.call.id, self._paused
        record = await paused.take(call_id)
        gate = FrameworkGate(self.host.gate, ask, paused, bridged)
        try:
            end = await self._run_to_end(bridged, record, gate, leaves_pending=True)
        finally:
            if bridged.pause is None:
                paused.spend(call_id)
        if bridged.pause is None:
            await paused.end(call_id)
        else:
            await paused.keep(call_id, record)
        return end

    async def _run_to_end(
        self,
        bridged: BridgedCall,
        record: CallRecord,
        gate: CallGate | None,
        *,
        leaves_pending: bool = False,
    ) -> CallEnd:
        """Return the end of the call; cancelled, it ends first."""
        bridged.runner = ToolRunner(
            self.host.bus,
            CallTools(self._specs, self._advertised, bridged, self.host),
            self.scope,
            approver=gate,
            append=partial(self._answer, record),
            leaves_pending=leaves_pending,
        )
        bridged.task = ContainedTask(partial(self._call, bridged, record))
        cancelled = await outlast(bridged.task.ended, bridged.stop)
        if cancelled is not None:
            raise cancelled
        return bridged.task.result()

    async def _claim(self) -> None:
        # The result of a running call may be in memory only.
        if not self._running:
            await self.host.claim(self.scope)

    async def _answer(
        self, record: CallRecord, message: Message, scope: Scope, tool: ToolSpec | None
    ) -> Message:
        self.host.check_open(is_end=True)
        return await record.answer(message, scope, tool)

    async def _call(self, bridged: BridgedCall, record: CallRecord) -> CallEnd:
        call, runner = bridged.call, bridged.runner
        try:
            asked = record.asked or await self._ask(call, record)
        except MessageDenied as error:
            return CallEnd(failure(error.reason, "denied"))
        calls = asked.tool_calls if isinstance(asked, AssistantMessage) else ()
        if bridged.is_stopped:
            await runner.close_refused(calls, "the call was cancelled")
            return CallEnd(failure("the call was cancelled", "cancelled"))
        bridged.has_begun = True
        for outcome in await runner.call_all(calls, self._advertised):
            if outcome.requested.id == call.id:
                return self._end_of(bridged, outcome)
        return CallEnd(failure("a handler removed the call", "denied"))

    def _end_of(self, bridged: BridgedCall, outcome: ToolCallOutcome) -> CallEnd:
        response, error = outcome.response, self.traceable(bridged.error)
        is_changed = bridged.response is None or not is_same(response, bridged.response)
        # The response alone is left of an error that no trace may have.
        is_changed = is_changed or (error is None and bridged.error is not None)
        return CallEnd(response, outcome, None if is_changed else error, is_changed)

    async def _ask(self, call: ToolCall, record: CallRecord) -> Message:
        """Put the message of *call* into the log; return it as handlers left it."""
        try:
            return await record.ask(AssistantMessage(id=new_id(), tool_calls=(call,)), self.scope)
        except asyncio.CancelledError:
            # In the log it needs a result.
            if record.asked is None:
                raise
            return record.asked

    async def _provide(
        self, specs: tuple[ToolSpec, ...], added: tuple[ToolSpec, ...] = ()
    ) -> tuple[ToolSpec, ...]:
        self._specs = {**self._specs, **{spec.name: spec for spec in specs}}
        context = await self.host.bus.apply(TOOLS_PROVIDE, (*specs, *added), scope=self.scope)
        self._advertised = self._advertised.joined(AdvertisedTools.of(context))
        return () if context.denied else context.value

    async def _append(self, message: Message) -> Message:
        return await self._log.call_record().answer(message, self.scope)

    async def _end(self, result: RunResult[Any]) -> None:
        self.host.bus.do(RUN_AFTER, result, scope=self.scope)
        await self._log.flush()

    def _denied(self, reason: str) -> PromptDenied:
        self.host.bus.do(RUN_AFTER, RunResult(status="denied", reason=reason), scope=self.scope)
        return PromptDenied(reason)

    async def _open_host(self) -> None:
        await self.host.ready()
        if self._is_closed:
            self._open()
            self.host.admit(self)
        await self.host.close_idle()
