"""Shell and custom tools of the OpenAI Agents SDK, which run in this process but are no functions.

Facts about the framework are from runs with openai-agents 0.21.0 to 0.24.0.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from agents import CustomTool, LocalShellTool, ShellResult, ShellTool

from toolbus.bridges.openai_agents.judged_calls import current_run
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.records import ToolCall, ToolResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from agents import LocalShellCommandRequest, ShellCommandRequest, Tool
    from agents.tool_context import ToolContext

    from toolbus.bridges.openai_agents.judged_runs import JudgedRun

_COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}}
_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}}


def spec_of_local(tool: Tool) -> ToolSpec | None:
    """Return *tool* in our terms if its calls can be judged, else None."""
    match tool:
        case CustomTool():
            return ToolSpec(name=tool.name, description=tool.description, input_schema=_INPUT)
        case ShellTool() if tool.executor is not None:
            return ToolSpec(name=tool.name, input_schema=_COMMAND)
        case LocalShellTool():
            return ToolSpec(name=tool.name, input_schema=_COMMAND)
    return None


def judged_local(tool: Tool, spec: ToolSpec) -> Tool:
    """Return *tool*, whose calls pass the components."""

    async def run_custom(context: ToolContext[Any], text: str) -> Any:
        call = ToolCall(id=context.tool_call_id, name=spec.name, arguments={"input": text})
        return await _judge(call, spec, lambda arguments: invoke(context, arguments["input"]))

    async def run_shell(request: ShellCommandRequest) -> Any:
        data = request.data
        # Joined, so that a policy reads them as one script.
        command = "\n".join(data.action.commands)

        def run(arguments: dict[str, Any]) -> Any:
            commands = data.action.commands
            if arguments["command"] != command:
                commands = [arguments["command"]]
            action = replace(data.action, commands=commands)
            return invoke(replace(request, data=replace(data, action=action)))

        call = ToolCall(id=data.call_id, name=spec.name, arguments={"command": command})
        return await _judge(call, spec, run)

    async def run_local_shell(request: LocalShellCommandRequest) -> Any:
        data = request.data
        command = shlex.join(data.action.command)

        def run(arguments: dict[str, Any]) -> Any:
            words = shlex.split(arguments["command"])
            action = data.action.model_copy(update={"command": words})
            return invoke(replace(request, data=data.model_copy(update={"action": action})))

        call = ToolCall(id=data.call_id, name=spec.name, arguments={"command": command})
        return await _judge(call, spec, run)

    invoke: Any
    match tool:
        case CustomTool():
            invoke = tool.on_invoke_tool
            return replace(tool, on_invoke_tool=run_custom)
        case ShellTool():
            invoke = tool.executor
            return replace(tool, executor=run_shell)
        case LocalShellTool():
            invoke = tool.executor
            return replace(tool, executor=run_local_shell)
    return tool


async def _judge(
    call: ToolCall,
    spec: ToolSpec,
    run: Callable[[dict[str, Any]], Any],
    judge: JudgedRun | None = None,
) -> Any:
    outputs: list[Any] = []
    judge = judge or current_run(spec.name)

    async def execute(arguments: dict[str, Any]) -> ToolResponse:
        if judge.outer is not None:
            output = _judge(call.with_arguments(arguments), spec, run, judge.outer)
        else:
            output = run(arguments)
        outputs.append(await output if isawaitable(output) else output)
        return ToolResponse.from_text(_text_of(outputs[-1]))

    end = await judge.session.call(call, spec, execute)
    if end.error is not None:
        raise end.error
    return end.response.text if end.is_changed else outputs[-1]


def _text_of(output: Any) -> str:
    if not isinstance(output, ShellResult):
        return str(output)
    return "\n".join(text for each in output.output for text in (each.stdout, each.stderr) if text)
