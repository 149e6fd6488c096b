"""Agents of the OpenAI Agents SDK whose tools, handoffs and models pass the components.

Facts about the framework are from runs with openai-agents 0.24.0.
"""

from __future__ import annotations

import json
from copy import copy
from typing import TYPE_CHECKING, Any

from agents import (
    Agent,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    Handoff,
    LocalShellTool,
    Model,
    ShellTool,
    handoff,
)

from toolbus.bridges.openai_agents.judged_calls import (
    CURRENT,
    JudgedTool,
    call_of,
    spec_of,
    unknown,
)
from toolbus.bridges.openai_agents.judged_models import JudgedModel
from toolbus.errors import RegistrationError
from toolbus.messages.ids import new_id
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from agents import AgentBase, RunContextWrapper, Tool

    from toolbus.bridges.openai_agents.judged_runs import JudgedRun
    from toolbus.bridges.openai_agents.runner import OpenAIAgentsBridge

_LOCAL = (ApplyPatchTool, ComputerTool, CustomTool, LocalShellTool, ShellTool)
"""The tools that run in this process, but not as functions."""


class WrappedAgents:
    """The agents whose turns are prepared by *bridge*."""

    def __init__(self, bridge: OpenAIAgentsBridge) -> None:
        self._bridge = bridge
        self._classes: dict[type[Agent[Any]], type[Agent[Any]]] = {}

    def wrap(self, agent: Agent[Any]) -> None:
        """Change *agent* into a wrapped one, in place."""
        kind = type(agent)
        if self._classes.get(kind) is not kind:
            agent.__class__ = self._class_of(kind)

    def _class_of(self, kind: type[Agent[Any]]) -> type[Agent[Any]]:
        """Return the subclass of *kind* whose turns are prepared here."""
        made = self._classes.get(kind)
        if made is None:
            wrapped, bridge = self, self._bridge

            async def get_all_tools(agent: Any, context: RunContextWrapper[Any]) -> list[Tool]:
                return await wrapped.tools(agent, await kind.get_all_tools(agent, context))

            async def get_system_prompt(agent: Any, context: RunContextWrapper[Any]) -> str | None:
                bridge.current(agent.name)
                return await kind.get_system_prompt(agent, context)

            # Both are public and called before each turn.
            methods = {"get_all_tools": get_all_tools, "get_system_prompt": get_system_prompt}
            made = type(kind.__name__, (kind,), methods)
            self._classes[kind] = self._classes[made] = made
        return made

    async def tools(self, agent: Agent[Any], tools: list[Tool]) -> list[Tool]:
        """Return *tools*, all tools of *agent* for a turn, as handlers show them to the model.

        It is called before each turn, so that tools of MCP servers, and tools, handoffs and models
        that the program has changed, are wrapped too.
        """
        others = [each for each in tools if not isinstance(each, FunctionTool)]
        unseen = sorted(each.name for each in others if isinstance(each, _LOCAL))
        if unseen and not self._bridge.partial:
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
        judged = {name: JudgedTool(self._bridge, each) for name, each in functions.items()}
        offered = specs = [spec_of(each) for each in functions.values()]
        added = [each.spec for each in self._bridge.host.tools if each.spec.name not in judged]
        run = self._bridge.active()
        if run is not None:
            # Without a run the framework only restores a state.
            run.open(agent.name).agent, run.judged = agent, judged
            offered = [*await run.session.adapt_tools(specs, added)]
        shown = [
            judged[spec.name].shown(spec) if spec.name in judged else unknown(self._bridge, spec)
            for spec in offered
        ]
        return [*shown, *others]

    def _handoff(self, item: Agent[Any] | Handoff[Any, Any]) -> Handoff[Any, Any]:
        if isinstance(item, JudgedHandoff):
            return item
        original = item if isinstance(item, Handoff) else handoff(item)

        async def invoke(context: RunContextWrapper[Any], arguments: str) -> AgentBase[Any]:
            run = self._bridge.active()
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
            self.wrap(target)
            targets.append(target)
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
