"""Components in agents of Strands, by its hooks: its tools and models get streams of ours."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from toolbus.bridges.host import FrameworkBridge
from toolbus.bridges.session import PromptDenied
from toolbus.bridges.strands.tool_results import (
    call_of,
    check_of,
    judged_output,
    result_of,
    spec_of,
    specs_for_model,
    text_of,
    with_answer,
    with_text,
)
from toolbus.errors import RegistrationError
from toolbus.messages.immutable import thaw
from toolbus.settings.extras import needs_extra

try:
    from strands import Agent
    from strands.hooks import (
        AfterInvocationEvent,
        AgentInitializedEvent,
        BeforeInvocationEvent,
        BeforeToolCallEvent,
    )
    from strands.interrupt import InterruptException
    from strands.middleware import InvokeModelStage
    from strands.types._events import ToolInterruptEvent, ToolResultEvent

    from toolbus.bridges.strands.running_tools import Guarded, Paused, RunningTool, StrandsRun
except ImportError as error:
    msg = needs_extra("the bridge to Strands needs its library", "strands")
    raise ImportError(msg, name="strands") from error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from strands.hooks import HookRegistry

    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.events.catalogue import Ask
    from toolbus.messages.records import ToolCall

_FIRST, _LAST = float("-inf"), float("inf")
_PAUSES = frozenset({"interrupt", "checkpoint"})
_APPROVALS = frozenset({"y", "yes"})
"""The words of an approval, as interventions of Strands have them."""

WrappedT = TypeVar("WrappedT")


class StrandsBridge(FrameworkBridge):
    """Components for agents of Strands: `Agent(..., hooks=[bridge])`.

    *options* are those of `BridgeHost`, such as *store* and *approver*. Without an approver a
    guard's question interrupts the run, like a hook of Strands; the response "yes" approves.

    An agent that is made in a tool has no hooks: `wrap` it, or make it with this bridge too.
    """

    def __init__(
        self, components: Iterable[AgentComponent | ToolAdapter] = (), **options: Any
    ) -> None:
        super().__init__("strands", components, **options)
        self._runs: WeakKeyDictionary[Agent, StrandsRun] = WeakKeyDictionary()

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        """Add our hooks to an agent, behind all that change a prompt or choose a tool."""
        registry.add_callback(AgentInitializedEvent, self._attach)
        registry.add_callback(BeforeInvocationEvent, self._begin, order=_LAST)
        registry.add_callback(BeforeToolCallEvent, self._guard_tool, order=_LAST)
        registry.add_callback(AfterInvocationEvent, self._end, order=_FIRST)

    def wrap(self, agent: WrappedT) -> WrappedT:
        """Return *agent*, made without this bridge, with it; of a swarm or graph wrap all."""
        if not isinstance(agent, Agent):
            if not hasattr(agent, "nodes"):
                refused = f"agent of type `{type(agent).__name__}`"
                raise RegistrationError(refused, "expected an agent, a swarm or a graph")
            for node in agent.nodes.values():
                self.wrap(node.executor)
        elif agent not in self._runs:
            agent.hooks.add_hook(self)
            self._run_of(agent)
        return agent

    # --- a run -----------------------------------------------------------------------------------

    def _run_of(self, agent: Agent) -> StrandsRun:
        run = self._runs.get(agent)
        if run is None:
            # Random for an agent without a session manager.
            key = agent.session_id
            if agent.agent_id != "default":
                key = f"{key}/{agent.agent_id}"
            run = self._runs[agent] = StrandsRun(self.host, key, agent.name)
            # Of all handlers of this stage the first is a `ModelRouter`, which chooses a model.
            agent.add_middleware(InvokeModelStage.Input, self._guard_model)
        return run

    def _attach(self, event: AgentInitializedEvent) -> None:
        self._run_of(event.agent)

    async def _begin(self, event: BeforeInvocationEvent) -> None:
        run = self._run_of(event.agent)
        if event.cancel or (run.is_open and not event.messages):
            return  # A run that goes on after a pause has no message.
        run.open()
        if not event.messages:
            return
        try:
            prompt = await run.session.begin(text_of(event.messages))
        except PromptDenied as denied:
            run.is_open, event.cancel = False, denied.reason
        else:
            event.messages = with_text(event.messages, prompt)

    async def _end(self, event: AfterInvocationEvent) -> None:
        run, result = self._run_of(event.agent), event.result
        reason = None if result is None else result.stop_reason
        if not run.is_open or reason in _PAUSES:
            return
        run.is_open = False
        if reason in {None, "cancelled"}:
            # The event does not have the exception that leaves the run, but it is being handled.
            error = sys.exception()
            cancelled = asyncio.CancelledError("the run was cancelled")
            await run.session.fail(error if isinstance(error, Exception) else cancelled)
        else:
            await run.session.end()

    # --- its tools -------------------------------------------------------------------------------

    def _guard_tool(self, event: BeforeToolCallEvent) -> None:
        if event.cancel_tool:
            return
        name = event.tool_use["name"]
        spec = {"name": name, "description": "", "inputSchema": {"json": {}}}
        unknown = SimpleNamespace(tool_name=name, tool_spec=spec, tool_type="unknown")
        tool = event.selected_tool or unknown
        if isinstance(agent := getattr(tool, "agent", None), Agent):
            self._run_of(self.wrap(agent)).is_tool_of = self._run_of(event.agent)
        event.selected_tool = Guarded(tool, partial(self._stream_call, event, tool))

    async def _stream_call(
        self, event: BeforeToolCallEvent, tool: Any, use: Any, state: Any, **options: Any
    ) -> AsyncIterator[Any]:
        """Yield the events of a call of *tool*, as handlers left them."""
        run = self._run_of(event.agent)
        if tool.tool_type == "structured_output":
            use = await judged_output(run.session, use)
        running = RunningTool(tool, use, state, options)
        # A direct call, `agent.tool.echo()`, belongs to no cycle, and Strands refuses its pause.
        pauses = self.host.pauses and run.passes and "event_loop_cycle_id" in state
        try:
            end = await run.session.call(
                # A hook may have chosen another tool: the call is judged under the name of that.
                call_of(use, tool.tool_name),
                None if tool.tool_type == "unknown" else spec_of(tool.tool_spec, tool.tool_name),
                running.run,
                ask=partial(self._ask, event) if pauses else None,
                check=check_of(tool),
                passes=(Paused,),
            )
        except Paused as pause:
            yield pause.event
            return
        if end.is_changed or running.end is None:
            result = result_of(end.response, running.end, use["toolUseId"])
            yield ToolResultEvent(result, exception=end.error)
            return
        for held in running.held:
            yield held
        error = run.session.traceable(running.end.exception)
        yield ToolResultEvent(running.end.tool_result, exception=error)

    async def _ask(self, event: BeforeToolCallEvent, ask: Ask, call: ToolCall) -> bool:
        reason = {"prompt": ask.prompt, "tool": call.name, "arguments": thaw(call.arguments)}
        try:
            answer = event.interrupt(f"toolbus: {ask.prompt}", reason=reason)
        except InterruptException as pause:
            raise Paused(ToolInterruptEvent(event.tool_use, [pause.interrupt])) from None
        return answer is True or str(answer).strip().lower() in _APPROVALS

    # --- its model -------------------------------------------------------------------------------

    def _guard_model(self, context: Any) -> Any:
        stream = partial(self._stream_answer, context.model, self._run_of(context.agent))
        return context.replace(model=Guarded(context.model, stream))

    async def _stream_answer(
        self,
        model: Any,
        run: StrandsRun,
        messages: Any,
        tool_specs: Any = None,
        *args: Any,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Yield the chunks of *model*; if handlers judge its text, at the end of that."""
        is_ours = "invocation_state" in options  # Not in calls outside a run, as for a summary.
        session, text, held = run.session, "", []
        offered = tool_specs
        if is_ours:
            offered = await specs_for_model(session, tool_specs, self.host.tools)
        is_held = is_ours and self.host.judges("assistant")
        async for chunk in model.stream(messages, offered, *args, **options):
            text += chunk.get("contentBlockDelta", {}).get("delta", {}).get("text") or ""
            if is_held:
                held.append(chunk)
            else:
                yield chunk
        if text and is_ours:
            run.answer = await session.answer(text)
        for chunk in with_answer(held, text, run.answer):
            yield chunk
