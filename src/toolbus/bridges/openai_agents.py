"""The bridge into the OpenAI Agents SDK: its runs, agents, tools and handoffs pass our components.

Facts about the framework are from runs with openai-agents 0.24.0.
"""

from __future__ import annotations

import asyncio
import json
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

try:
    from agents import (
        Agent,
        ApplyPatchTool,
        ComputerTool,
        CustomTool,
        FunctionTool,
        Handoff,
        LocalShellTool,
        Model,
        RunConfig,
        Runner,
        RunState,
        ShellTool,
        handoff,
    )
except ImportError as error:
    from toolbus.settings.extras import needs_extra

    raise ImportError(needs_extra("the bridge needs openai-agents", "openai-agents")) from error

from toolbus.bridges.host import BridgeHost
from toolbus.bridges.openai_agents_calls import JudgedTool, call_of, spec_of
from toolbus.bridges.openai_agents_runs import CURRENT, JudgedModel, JudgedProvider, JudgedRun
from toolbus.bridges.threads import run_for_thread
from toolbus.errors import RegistrationError
from toolbus.messages.ids import new_id
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agents import AgentBase, RunContextWrapper, RunResult, RunResultStreaming, Tool

    from toolbus.bridges.frameworks import Ability, Delivery
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.messages.records import ToolCall

A = TypeVar("A", bound="Agent[Any]")

_LOCAL = (ApplyPatchTool, ComputerTool, CustomTool, LocalShellTool, ShellTool)
"""The tools that run in this process, but not as functions."""


class OpenAIAgentsBridge:
    """The components of toolbus in the runs of the OpenAI Agents SDK.

        bridge = OpenAIAgentsBridge([RedactSecrets(), Policy("policy.toml")], store=store)
        result = await bridge.run(agent, "Who is on call?", session=session)

    `run`, `run_streamed` and `run_sync` take the arguments of `Runner`. They put the prompt and the
    answer on the bus, and wrap the agent with all agents that it hands over to or has as tools. An
    agent that runs inside a tool is wrapped by the program: `Runner.run(bridge.wrap(agent), …)`, or
    it is run by the bridge as well. The session of a run has the id of the framework's.

    A guard that asks pauses the run, as `needs_approval` does, unless there is an *approver*. The
    options are those of `BridgeHost`; with `partial` agents may also run without a run of the
    bridge, and their prompts and answers are not seen then.
    """

    def __init__(
        self, components: Iterable[AgentComponent | ToolAdapter] = (), **options: Any
    ) -> None:
        self.host = BridgeHost("openai_agents", components, **options)
        self.pauses = options.get("approver") is None
        self.paused: dict[str, ToolCall] = {}
        self._partial = options.get("partial", False)
        self._classes: dict[type[Agent[Any]], type[Agent[Any]]] = {}
        self._outside: JudgedRun | None = None
        self._ends: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def delivers(self) -> Mapping[Ability, Delivery]:
        """The delivery of each ability in the OpenAI Agents SDK."""
        return self.host.delivers

    async def aclose(self) -> None:
        """Wait for the ends of streamed runs, write the last records and close the components."""
        await asyncio.gather(*self._ends)
        await self.host.aclose()

    # --- runs ------------------------------------------------------------------------------------

    async def run(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """Run *agent* as `Runner.run` does.

        Raises `InputGuardrailTripwireTriggered` for a denied prompt.
        """
        run, user_input, options = await self._begin(agent, input, options)
        token = CURRENT.set(run)
        try:
            result = await Runner.run(self.wrap(agent), user_input, **options)
        except BaseException as error:
            await run.fail(error)
            raise
        finally:
            CURRENT.reset(token)
        await run.end(result)
        return result

    async def run_streamed(
        self,
        agent: Agent[Any],
        input: Any,  # noqa: A002
        **options: Any,
    ) -> RunResultStreaming:
        """Start a run as `Runner.run_streamed` does, after its prompt has passed the handlers."""
        run, user_input, options = await self._begin(agent, input, options)
        token = CURRENT.set(run)
        try:
            result = Runner.run_streamed(self.wrap(agent), user_input, **options)
        except BaseException as error:
            await run.fail(error)
            raise
        finally:
            CURRENT.reset(token)
        end = asyncio.create_task(_end_streamed(run, result))
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)
        return result

    def run_sync(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002
        """Run *agent* as `run` does, from a thread without an event loop."""
        result: RunResult = run_for_thread(lambda _: self.run(agent, input, **options))
        return result

    async def _begin(
        self, agent: Agent[Any], user_input: Any, options: dict[str, Any]
    ) -> tuple[JudgedRun, Any, dict[str, Any]]:
        config = options.get("run_config") or RunConfig()
        config = RunConfig(**config) if isinstance(config, dict) else config
        outer = CURRENT.get()
        if outer is not None and outer.bridge is self:
            run = outer.beside().open(agent.name)
        else:
            run = JudgedRun(self, self.host.session(_conversation(options, config)))
        if isinstance(user_input, RunState):
            for item in user_input.get_interruptions():
                call_id = getattr(item.raw_item, "call_id", None)
                if call_id and item.tool_name:
                    call = call_of(call_id, item.tool_name, item.arguments or "")
                    self.paused.setdefault(call_id, call)
        else:
            user_input = await run.begin(user_input)
        # The model's own spans would hold the original answer, so the provider is wrapped too.
        model = JudgedModel(config.model) if isinstance(config.model, Model) else config.model
        provider = JudgedProvider(config.model_provider)
        config = replace(config, model=model, model_provider=provider)
        return run, user_input, {**options, "run_config": config}

    # --- agents ----------------------------------------------------------------------------------

    def wrap(self, agent: A) -> A:
        """Return *agent*, whose tools and handoffs now pass the components.

        The agent is changed, not copied, because `Agent.as_tool` and `handoff` keep a reference to
        it; its clones are wrapped too. Its sub-agents are wrapped before each turn.
        """
        kind: type[Agent[Any]] = type(agent)
        if self._classes.get(kind) is not kind:
            agent.__class__ = self._class_of(kind)
        return agent

    def _class_of(self, kind: type[Agent[Any]]) -> type[Agent[Any]]:
        """Return the subclass of *kind* whose turns are prepared by this bridge."""
        bridge, made = self, self._classes.get(kind)
        if made is None:

            async def get_all_tools(agent: Any, context: RunContextWrapper[Any]) -> list[Tool]:
                return await bridge.tools(agent, await kind.get_all_tools(agent, context))

            async def get_system_prompt(agent: Any, context: RunContextWrapper[Any]) -> str | None:
                bridge.current(agent.name)
                return await kind.get_system_prompt(agent, context)

            methods = {"get_all_tools": get_all_tools, "get_system_prompt": get_system_prompt}
            made = type(kind.__name__, (kind,), methods)
            self._classes[kind] = self._classes[made] = made
        return made

    def current(self, agent: str) -> JudgedRun:
        """Return the run in which *agent* runs."""
        run = self.active()
        if run is not None:
            return run
        if not self._partial:
            reason = "its bridge has not seen the prompt; use `bridge.run`, not `Runner.run`"
            raise RegistrationError(f"agent {agent!r}", reason)
        if self._outside is None:
            self._outside = JudgedRun(self, self.host.session())
        return self._outside

    def active(self) -> JudgedRun | None:
        """Return the current run of this bridge, or None."""
        run = CURRENT.get()
        return run if run is not None and run.bridge is self else self._outside

    async def tools(self, agent: Agent[Any], tools: list[Tool]) -> list[Tool]:
        """Return *tools*, all tools of *agent* for a turn, as handlers show them to the model.

        It is called before each turn, so that tools of MCP servers, and tools, handoffs and models
        that the program has changed, are wrapped too.
        """
        others = [each for each in tools if not isinstance(each, FunctionTool)]
        unseen = sorted(each.name for each in others if isinstance(each, _LOCAL))
        if unseen and not self._partial:
            reason = f"its tools {', '.join(unseen)} pass no component; make them function tools"
            raise RegistrationError(f"agent {agent.name!r}", reason)
        if isinstance(agent.model, Model) and not isinstance(agent.model, JudgedModel):
            agent.model = JudgedModel(agent.model)
        agent.handoffs[:] = [self._handoff(each) for each in agent.handoffs]
        functions = {each.qualified_name: each for each in tools if isinstance(each, FunctionTool)}
        for each in functions.values():
            # Private, but the only way to the agent of `Agent.as_tool`.
            if isinstance(each._agent_instance, Agent):  # noqa: SLF001
                self.wrap(each._agent_instance)  # noqa: SLF001
        offered = specs = {name: spec_of(each) for name, each in functions.items()}
        run = self.active()
        judged = {name: JudgedTool(self, each, specs[name]) for name, each in functions.items()}
        if run is not None:
            # Without a run the framework only restores a state.
            run.open(agent.name).agent, run.judged = agent, judged
            adapted = await run.session.adapt_tools(tuple(specs.values()))
            offered = {spec.name: spec for spec in adapted}
        return [*[judged[name].shown(spec) for name, spec in offered.items()], *others]

    def _handoff(self, item: Agent[Any] | Handoff[Any, Any]) -> Handoff[Any, Any]:
        if isinstance(item, JudgedHandoff):
            return item
        original = item if isinstance(item, Handoff) else handoff(item)

        async def invoke(context: RunContextWrapper[Any], arguments: str) -> AgentBase[Any]:
            run = self.active()
            if run is None:
                return await original.on_invoke_handoff(context, arguments)
            return await self._hand_over(run, original, context, arguments)

        judged = copy(original)
        judged.__class__ = JudgedHandoff
        judged.on_invoke_handoff = invoke
        return judged

    async def _hand_over(
        self, run: JudgedRun, original: Handoff[Any, Any], context: Any, raw: str
    ) -> AgentBase[Any]:
        """Return the agent that takes over; the same agent, with the reason, if that is denied."""
        targets: list[Agent[Any]] = []
        call_id = run.handoff_ids.pop(original.tool_name, None) or new_id()
        call = call_of(call_id, original.tool_name, raw)

        async def transfer(arguments: dict[str, Any]) -> ToolResponse:
            text = raw if arguments == call.arguments else json.dumps(arguments)
            target = await original.on_invoke_handoff(context, text)
            targets.append(self.wrap(target))
            return ToolResponse.from_text(original.get_transfer_message(target))

        end = await run.session.call(call, spec_of(original), transfer)
        if end.error is not None:
            raise end.error
        run.transfer = end.response.text
        return targets[-1] if targets and end.status == "ok" else run.agent


class JudgedHandoff(Handoff[Any, Any]):
    """A handoff whose message for the model has passed the handlers."""

    def get_transfer_message(self, agent: AgentBase[Any]) -> str:
        """Return the result of the handoff."""
        run = CURRENT.get()
        return run.transfer if run is not None else super().get_transfer_message(agent)


async def _end_streamed(run: JudgedRun, result: RunResultStreaming) -> None:
    """Wait for a streamed run, and put its end on the bus."""
    loop = result.run_loop_task
    assert loop is not None  # noqa: S101 - `run_streamed` starts it
    await asyncio.wait({loop})
    error = asyncio.CancelledError() if loop.cancelled() else loop.exception()
    if error is None:
        await run.end(result)
    else:
        await run.fail(error)


def _conversation(options: dict[str, Any], config: RunConfig) -> str:
    """Return the framework's id of the conversation, "" without one."""
    session = options.get("session")
    known = None if session is None else session.session_id
    return known or options.get("conversation_id") or config.group_id or ""
