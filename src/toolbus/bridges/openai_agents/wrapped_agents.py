"""Agents of the OpenAI Agents SDK whose tools, handoffs and models pass the components of a run.

Facts about the framework are from runs with openai-agents 0.21.0 to 0.24.0.
"""

from __future__ import annotations

import json
from copy import copy
from functools import cache, partial
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
    agent_of,
    current_run,
    spec_of,
    unknown,
)
from toolbus.bridges.openai_agents.judged_runs import JudgedModel
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.ids import new_id
from toolbus.messages.records import ToolResponse
from toolbus.models.answers import given_call

if TYPE_CHECKING:
    from agents import AgentBase, RunContextWrapper, Tool

    from toolbus.bridges.openai_agents.judged_runs import JudgedRun


def wrap(agent: Agent[Any]) -> None:
    """Change *agent* into a wrapped one, in place, and the agents to which it leads.

    Those that it gets later are wrapped before its next turn, but a restored state may go on with
    another agent.
    """
    if hasattr(agent, "unwrapped_class"):
        return
    kind: Any = type(agent)  # For mypy, a class is not hashable if its instances are not.
    agent.__class__ = _wrapped(kind)
    _wrap_targets(agent, agent.tools)


def _wrap_targets(agent: Agent[Any], tools: list[Tool]) -> None:
    for each in filter(None, [*map(_target, agent.handoffs), *map(agent_of, tools)]):
        wrap(each)


def _target(item: Agent[Any] | Handoff[Any, Any]) -> Agent[Any] | None:
    """Return the agent to which *item* leads, unless only its function knows that."""
    if isinstance(item, Agent):
        return item
    # Private, but nothing else leads to the agent before the handoff.
    target = item._agent_ref() if item._agent_ref is not None else None  # noqa: SLF001
    return target if isinstance(target, Agent) else None


@cache
def _wrapped(kind: type[Agent[Any]]) -> type[Agent[Any]]:
    """Return the subclass of *kind* that prepares each turn for the components of its run."""

    async def get_all_tools(agent: Any, context: RunContextWrapper[Any]) -> list[Tool]:
        return await _prepare_turn(agent, await kind.get_all_tools(agent, context))

    async def get_system_prompt(agent: Any, context: RunContextWrapper[Any]) -> str | None:
        current_run(agent.name)
        return await kind.get_system_prompt(agent, context)

    # Both are public, and called before each turn.
    methods = {"get_all_tools": get_all_tools, "get_system_prompt": get_system_prompt}
    return type(kind.__name__, (kind,), {**methods, "unwrapped_class": kind})


async def _prepare_turn(agent: Agent[Any], tools: list[Tool]) -> list[Tool]:
    """Return *tools*, all tools of *agent*, as handlers show them to the model."""
    _wrap_changes(agent, tools)
    functions = [JudgedTool(each) for each in tools if isinstance(each, FunctionTool)]
    judged = {each.name: each for each in functions}
    others = [each for each in tools if not isinstance(each, FunctionTool)]
    offered = [spec_of(each.tool) for each in judged.values()]
    run = CURRENT.get()
    if run is not None:
        # Without a run the framework only restores a state.
        run.open(agent)
        _refuse_unseen(run, others)
        offered = await _adapted(run, judged, offered)
    shown: list[Tool] = [
        judged[spec.name].shown(spec) if spec.name in judged else unknown(spec) for spec in offered
    ]
    return [*shown, *others]


def _wrap_changes(agent: Agent[Any], tools: list[Tool]) -> None:
    """Wrap the model, the handoffs and the agents that a program has changed since the last turn.

    The tools of MCP servers are only known then, too.
    """
    if isinstance(agent.model, Model) and not isinstance(agent.model, JudgedModel):
        agent.model = JudgedModel(agent.model)
    # A new list, because clones of an agent share theirs.
    agent.handoffs = [_judged(each) for each in agent.handoffs]
    _wrap_targets(agent, tools)


async def _adapted(
    run: JudgedRun, judged: dict[str, JudgedTool], offered: list[ToolSpec]
) -> list[ToolSpec]:
    """Return *offered*, and the tools of components, as handlers show them to the model."""
    run.settings = {name: each.tool.needs_approval for name, each in judged.items()}
    added = [each.spec for each in run.bridge.host.tools if each.spec.name not in judged]
    return [*await run.session.adapt_tools(offered, added)]


def _runs_here(tool: Tool) -> bool:
    if isinstance(tool, ShellTool):
        return tool.executor is not None
    return isinstance(tool, ApplyPatchTool | ComputerTool | CustomTool | LocalShellTool)


def _refuse_unseen(run: JudgedRun, tools: list[Tool]) -> None:
    """Raise for a tool whose calls run in this process and pass no component."""
    unseen = sorted(each.name for each in tools if _runs_here(each))
    if unseen and not run.bridge.partial:
        reason = f"the calls of {', '.join(unseen)} pass no component; make it a function tool"
        raise RegistrationError(f"agent {run.agent.name!r}", reason)


class JudgedHandoff(Handoff[Any, Any]):
    """A handoff whose message for the model has passed the handlers."""

    def get_transfer_message(self, agent: AgentBase[Any]) -> str:
        """Return the result of the handoff."""
        return current_run(agent.name).transfer


def _judged(item: Agent[Any] | Handoff[Any, Any]) -> Handoff[Any, Any]:
    if isinstance(item, JudgedHandoff):
        return item
    original = item if isinstance(item, Handoff) else handoff(item)
    judged = copy(original)
    judged.__class__ = JudgedHandoff
    judged.on_invoke_handoff = partial(_hand_over, original)
    return judged


async def _hand_over(
    original: Handoff[Any, Any], context: RunContextWrapper[Any], raw: str
) -> Agent[Any]:
    """Return the agent that takes over; the same agent, with the reason, if that is denied."""
    run, targets = current_run(original.tool_name), []
    # Without an answer in this run, the handoff has waited beside a paused call.
    call_id = run.call_ids.get(original.tool_name) or new_id()
    call = given_call(call_id, original.tool_name, raw)

    async def transfer(arguments: dict[str, Any]) -> ToolResponse:
        text = raw if arguments == call.arguments else json.dumps(arguments)
        target = await original.on_invoke_handoff(context, text)
        wrap(target)
        targets.append(target)
        return ToolResponse.from_text(original.get_transfer_message(target))

    spec = ToolSpec(
        name=original.tool_name,
        description=original.tool_description,
        input_schema=original.input_json_schema or {"type": "object"},
    )
    end = await run.session.call(call, spec, transfer)
    if end.error is not None:
        raise end.error
    run.transfer = end.response.text
    return targets[-1] if targets and end.status == "ok" else run.agent
