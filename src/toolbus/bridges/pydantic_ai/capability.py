"""A capability of Pydantic AI that takes prompts, calls and answers through components."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolbus.bridges.host import FrameworkBridge
from toolbus.errors import RegistrationError
from toolbus.settings.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.toolsets import AbstractToolset

    from toolbus.bridges.session import BridgeSession
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent

try:
    from pydantic_ai import ModelRetry, UserPromptNode
    from pydantic_ai.agent import AbstractAgent, WrapperAgent
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_core import ValidationError

    from toolbus.bridges.pydantic_ai.model_requests import BridgedModel
    from toolbus.bridges.pydantic_ai.run_calls import BridgedToolset, RunCalls
    from toolbus.bridges.pydantic_ai.values import (
        prompt_in,
        text_of,
        with_answer,
        with_prompt,
        with_text,
    )
except ImportError as error:
    msg = needs_extra("the bridge to Pydantic AI needs its library", "pydantic-ai")
    raise ImportError(msg, name="pydantic_ai") from error


class PydanticAIBridge(FrameworkBridge, AbstractCapability[Any]):
    """A capability with *components* for the agents of Pydantic AI.

        agent = Agent(model, tools=tools, capabilities=[PydanticAIBridge([RedactSecrets()])])

    Each conversation of the framework (`conversation_id`) is a session. *options* are those of
    `BridgeHost`; *approver* decides only in runs that cannot pause for `DeferredToolRequests`. A
    failed tool does not end the run: the model reads the failure.
    """

    def __init__(
        self, components: Iterable[AgentComponent | ToolAdapter] = (), **options: Any
    ) -> None:
        super().__init__("pydantic_ai", components, **options)

    def wrap(self, agent: AbstractAgent[Any, Any]) -> AbstractAgent[Any, Any]:
        """Return *agent*, which a tool runs, with the components of this bridge."""
        if not isinstance(agent, AbstractAgent):
            raise RegistrationError(f"agent {agent!r}", "expected an agent of Pydantic AI")
        capabilities: list[Any] = []
        agent.root_capability.apply(capabilities.append)
        # Capabilities without an id are equal to each other.
        is_bridged = any(capability is self for capability in capabilities)
        return agent if is_bridged else _BridgedAgent(agent, self)

    def get_ordering(self) -> CapabilityOrdering:
        """Ask for the place beside the tools, so that other capabilities see nothing raw."""
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return the capability of a run, below the call whose tool has started the run, if any."""
        name = (ctx.agent and ctx.agent.name) or "sub-agent"
        key = ctx.conversation_id or ctx.run_id or ""
        return _BridgedRun(self.host.session_here(key, name))


class _BridgedRun(AbstractCapability[Any]):
    """The capability of one run, in *session*."""

    get_ordering = PydanticAIBridge.get_ordering

    def __init__(self, session: BridgeSession) -> None:
        self._session, self.calls = session, RunCalls(session)
        self._prompt: Any = None
        self._is_judged = False

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        """Judge the prompt; put the end of the run on the bus."""
        self.calls.find_waiting(ctx.messages)
        if ctx.prompt is not None:
            self._prompt = await self._judged_prompt(ctx.prompt)
        elif ctx.messages and (prompt := prompt_in(ctx.messages[-1])):
            read = await self._judged_prompt(prompt)
            if read is not prompt:
                ctx.messages[-1] = with_prompt(ctx.messages[-1], read)
        try:
            result = await handler()
        except BaseException as error:
            await self._session.fail(error)
            raise
        await self._session.end()
        return result

    async def _judged_prompt(self, prompt: Any) -> Any:
        text = text_of(prompt)
        read = await self._session.begin(text)
        return prompt if read == text else with_text(prompt, read)

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        """Give the run its prompt as handlers left it."""
        # A program that drives the nodes may add another prompt.
        is_first = isinstance(node, UserPromptNode) and node.user_prompt == ctx.prompt
        return replace(node, user_prompt=self._prompt) if is_first and ctx.prompt else node

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Judge results from outside of the run."""
        request = ctx.messages[-1]
        parts = await self.calls.judge_parts(request.parts, self._prompt)
        if parts != list(request.parts):
            ctx.messages[-1] = request_context.messages[-1] = replace(request, parts=parts)
        return request_context

    def get_wrapper_model(self, model: Model) -> Model:
        """Return *model*, which serves an attempt, with answers that components judge."""
        return BridgedModel(model, self._session, self.judge)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: Any, response: ModelResponse
    ) -> ModelResponse:
        """Judge an answer that has been streamed, and note the calls."""
        if not self._is_judged:
            response = await self.judge(response, request_context.model_request_parameters)
        self._is_judged = False  # Another attempt may follow, by another model.
        self.calls.note(response.tool_calls, ctx)
        return response

    async def judge(
        self, response: ModelResponse, parameters: ModelRequestParameters
    ) -> ModelResponse:
        """Return *response* with its text and its structured output as handlers left them."""
        self._is_judged = True
        texts = [part.content for part in response.parts if isinstance(part, TextPart)]
        if text := "".join(texts):
            read = await self._session.answer(text)
            response = response if read == text else with_answer(response, read)
        outputs = {tool.name for tool in parameters.output_tools}
        parts = [
            await self._judged_output(part)
            if isinstance(part, ToolCallPart) and part.tool_name in outputs
            else part
            for part in response.parts
        ]
        return replace(response, parts=parts)

    async def _judged_output(self, part: ToolCallPart) -> ToolCallPart:
        output = part.args_as_json_str()
        read = await self._session.answer(output)
        return part if read == output else replace(part, args=read)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Take the calls of all tools, below every hook of other capabilities.

        pydantic-ai 2.68: `after_tool_execute` of another capability runs inside of
        `wrap_tool_execute`, and would see the original result.
        """
        return BridgedToolset(toolset, self.calls)

    async def wrap_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any, handler: Any
    ) -> dict[str, Any]:
        """Validate the arguments; invalid ones go on, for handlers may deny or mend the call."""
        original = ToolCallPart(call.tool_name, args)
        if tool_def.name in self.calls.unknown:
            return original.args_as_dict()
        try:
            valid: dict[str, Any] = await handler(args)
        except (ValidationError, ModelRetry):
            if tool_def.kind != "function" and not ctx.tool_call_approved:
                raise
            return original.args_as_dict()
        self.calls.validated[call.tool_call_id] = valid
        if tool_def.kind == "external":
            await self.calls.defer(call, valid)
        return valid

    async def wrap_tool_execute(
        self, _: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Answer the call of an unknown tool."""
        if tool_def.name in self.calls.unknown:
            return await self.calls.answer_unknown(call, args)
        return await handler(args)

    async def wrap_output_process(
        self, _: RunContext[Any], *, output_context: Any, output: Any, handler: Any
    ) -> Any:
        """Take the call of an output function, through which an agent may hand over its task."""
        if not output_context.has_function:
            return await handler(output)
        return await self.calls.call_output(output, output_context, handler)


class _BridgedAgent(WrapperAgent[Any, Any]):
    """An agent with *bridge* in each run."""

    def __init__(self, wrapped: AbstractAgent[Any, Any], bridge: PydanticAIBridge) -> None:
        super().__init__(wrapped)
        self._bridge = bridge

    def iter(self, *args: Any, capabilities: Sequence[Any] | None = None, **options: Any) -> Any:
        """Run the agent with the bridge."""
        return super().iter(*args, capabilities=[*(capabilities or ()), self._bridge], **options)
