"""A run of the OpenAI Agents SDK on the bus: its prompt, its model's requests and answers, its end.

Facts about the framework are from runs with openai-agents 0.24.0.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from copy import copy
from inspect import signature
from typing import TYPE_CHECKING, Any

from agents import (
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
    Model,
    ModelProvider,
    ModelTracing,
)

from toolbus.bridges.openai_agents.judged_calls import (
    JudgedCall,
    JudgedTool,
    current_run,
    unknown,
)
from toolbus.bridges.session import PromptDenied
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.ids import new_id
from toolbus.models.answers import given_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agents import Agent, ModelResponse, RunResult, RunResultStreaming

    from toolbus.bridges.openai_agents.runner import OpenAIAgentsBridge
    from toolbus.bridges.session import BridgeSession
    from toolbus.messages.records import ToolCall

_SIGNATURE = signature(Model.get_response)  # That of `stream_response` is the same.
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class JudgedRun:
    """A run of an agent, in the conversation *key*, or in a tool of the run *above*.

    *pauses*: whether the framework's user answers the questions of guards.
    """

    agent: Agent[Any]
    session: BridgeSession
    transfer = ""
    is_paused = _is_answered = False

    def __init__(
        self, bridge: OpenAIAgentsBridge, key: str = "", above: JudgedRun | None = None
    ) -> None:
        self.bridge, self._key, self._is_below = bridge, key, above is not None
        self.pauses: bool = bridge.host.pauses
        # The calls on which the framework's user has decided since the last run.
        self.paused: dict[str, ToolCall] = {} if above is None else above.paused
        self.calls: dict[str, JudgedCall] = {}
        self.call_ids: dict[str, str] = {}
        """The first call of each tool in the model's last answer."""
        self.settings: dict[str, Any] = {}
        """The agent's own setting of `needs_approval` for each tool."""
        self._ids: set[str] = set()
        self._prompts: dict[str, str] = {}

    def open(self, agent: Agent[Any]) -> None:
        """Open the session for the first *agent*, and note it as the running one."""
        if not hasattr(self, "session"):
            self.session = self.bridge.host.session_here(self._key, agent.name)
        self.agent = agent

    def below(self, *, pauses: bool) -> JudgedRun:
        """Return the run of the sub-agents that the tool of a call may run."""
        run = JudgedRun(self.bridge, above=self)
        run.pauses = pauses and self.pauses
        return run

    # --- its prompt and its end ------------------------------------------------------------------

    async def begin(self, user_input: Any) -> Any:
        """Put the prompt in *user_input*, the input of a run, on the bus; return the changed input.

        Raises the framework's own exception for a denied prompt.
        """
        prompt = _prompt_of(user_input)
        try:
            self._prompts[prompt] = await self.session.begin(prompt)
        except PromptDenied as denied:
            result = GuardrailFunctionOutput(denied.reason, tripwire_triggered=True)
            guardrail = InputGuardrail[Any](lambda *_: result, "toolbus")
            raise InputGuardrailTripwireTriggered(
                InputGuardrailResult(guardrail=guardrail, output=result)
            ) from denied
        return self._changed(user_input)

    async def end(self, result: RunResult | RunResultStreaming) -> None:
        """Put the end of the run on the bus, unless it only pauses."""
        await self.drop_calls()
        if result.interruptions:
            return
        output = result.final_output
        if output is not None and not self._is_answered:
            # The result of a tool, see `Agent.tool_use_behavior`.
            text = str(output)
            answer = await self.session.answer(text)
            if answer != text:
                result.final_output = answer
        await self.session.end()

    async def fail(self, error: BaseException) -> None:
        """Put the failure of the run on the bus."""
        await self.drop_calls()
        await self.session.fail(error)

    async def drop_calls(self) -> None:
        """End the calls that the framework does not run any longer."""
        while self.calls:
            _, call = self.calls.popitem()
            call.work.cancel()
            await asyncio.wait({call.work})

    # --- its model -------------------------------------------------------------------------------

    async def request(self, request: dict[str, Any]) -> None:
        """Put a new prompt in *request*, the arguments of a model, on the bus, and change it."""
        user_input = request["input"]
        if self._is_below and _prompt_of(user_input) not in self._prompts:
            # A sub-agent that the program runs inside a tool.
            await self.begin(user_input)
        for item in user_input if isinstance(user_input, list) else ():
            if item.get("type") == "function_call":
                self._ids.add(item["call_id"])
            if item.get("type") == "function_call_output":
                await self._refuse(item["call_id"], str(item["output"]))
        request["input"] = self._changed(user_input)
        if request["tracing"] is ModelTracing.ENABLED:
            # The model writes its span before handlers have seen the answer.
            request["tracing"] = ModelTracing.ENABLED_WITHOUT_DATA

    async def answer(self, output: list[Any], request: dict[str, Any]) -> bool:
        """Change *output*, the model's answer to *request*; return whether its text is another.

        Calls of unknown tools get a tool in *request*, so that they are judged.
        """
        calls = [item for item in output if item.type == "function_call"]
        self._note_ids(calls)
        self._prepare_tools(calls, request)
        text = _answer_in(output)
        self._is_answered = bool(text) and not calls
        answer = await self.session.answer(text) if text else ""
        for number, part in enumerate(_parts_in(output) if answer != text else ()):
            part.text = "" if number else answer
        if self._is_answered and self._is_below:
            await self.session.end()
        return answer != text

    def _note_ids(self, calls: list[Any]) -> None:
        """Note the ids of *calls*; give a new one to a call with the id of an earlier one."""
        self.call_ids = {}
        for call in calls:
            if call.call_id in self._ids:
                # An approval is for an id; 0.24.0 ends the run for one that a call had before.
                call.call_id = new_id()
            self._ids.add(call.call_id)
            self.call_ids.setdefault(call.name, call.call_id)

    def _prepare_tools(self, calls: list[Any], request: dict[str, Any]) -> None:
        """Change the tools of *request*, with which the runner resolves *calls*."""
        tools: list[Any] = request["tools"]
        known = {getattr(each, "qualified_name", getattr(each, "name", "")) for each in tools}
        known |= {each.tool_name for each in request["handoffs"]}
        names = {call.name for call in calls if not call.namespace}
        if request["output_schema"] is not None:
            # Some providers return a structured answer by such a call.
            names.discard("json_tool_call")
        broken = {each.name for each in calls if given_call("", "", each.arguments).raw is not None}
        for index, tool in enumerate(tools):
            # 0.24.0: a broken call would pause the run, because `needs_approval` is a function.
            if isinstance(tool, FunctionTool) and tool.name in broken:
                tools[index] = copy(tool)
                # Not False: a whole call beside the broken one may need an approval.
                tools[index].needs_approval = self.settings[tool.qualified_name]
        # 0.24.0: the runner ends the run for a name that is not there.
        tools.extend(unknown(ToolSpec(name=name)) for name in sorted(names - known))

    async def _refuse(self, call_id: str, text: str) -> None:
        """End the call, if it is open: its user or a guardrail has answered it with *text*."""
        call, waiting = self.paused.pop(call_id, None), self.calls.pop(call_id, None)
        if call is not None:
            waiting = JudgedCall(JudgedTool(unknown(ToolSpec(name=call.name))), self, call)
            waiting.go_on(approved=False)
        if waiting is not None:
            await waiting.refuse(text)

    def _changed(self, user_input: Any) -> Any:
        if isinstance(user_input, str):
            return self._prompts.get(user_input, user_input)
        return [_with_text(item, self._prompts) for item in user_input]


class JudgedModel(Model):
    """A model whose requests and answers pass the components of the current run."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        # The runner looks for optional attributes, such as support of a prompt cache.
        if name.startswith("__") or name == "_model":
            raise AttributeError(name)  # Asked by `copy`, before there is a model.
        return getattr(self._model, name)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """Return the model's advice."""
        return self._model.get_retry_advice(request)

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the model's answer, as handlers left it."""
        run, request = current_run("model"), _SIGNATURE.bind(self, *args, **options)
        await run.request(request.arguments)
        response = await self._model.get_response(*request.args[1:], **request.kwargs)
        await run.answer(response.output, request.arguments)
        return response

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield the events of the model's answer, with its text as handlers left it.

        If a handler takes answers, all is held back until the end.
        """
        run, request = current_run("model"), _SIGNATURE.bind(self, *args, **options)
        await run.request(request.arguments)
        events = self._model.stream_response(*request.args[1:], **request.kwargs)
        is_holding = run.bridge.host.judges("assistant")
        held: list[Any] = []
        items: list[Any] = []
        try:
            async for event in events:
                if event.type == "response.output_item.done":
                    items.append(event.item)
                if event.type in _ENDS:
                    # Some models give the items only one by one.
                    event.response.output = output = event.response.output or items
                    if await run.answer(output, request.arguments):
                        held = _one_delta(held, _answer_in(output))
                    for each in held:
                        yield each
                elif is_holding:
                    held.append(event)
                    continue
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()


class JudgedProvider(ModelProvider):
    """A provider of judged models."""

    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider

    def get_model(self, model_name: str | None) -> Model:
        """Return the model, judged."""
        return JudgedModel(self._provider.get_model(model_name))


def _parts_in(output: list[Any]) -> list[Any]:
    parts = [part for item in output if item.type == "message" for part in item.content]
    return [part for part in parts if part.type == "output_text"]


def _answer_in(output: list[Any]) -> str:
    """Return all text in *output*, an answer of the model."""
    return "".join(part.text for part in _parts_in(output))


def _one_delta(held: list[Any], text: str) -> list[Any]:
    """Return the only event that is seen of the *held* ones of an answer, now *text*."""
    deltas = [each for each in held if each.type == "response.output_text.delta"]
    return [each.model_copy(update={"delta": text}) for each in deltas[:1]]


def _prompt_of(user_input: Any) -> str:
    """Return the text of the last message of the user in *user_input*, the input of a run."""
    if isinstance(user_input, str):
        return user_input
    texts = [_text_of(item) for item in user_input if _is_of_user(item)]
    return texts[-1] if texts else ""


def _is_of_user(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _text_of(item: Any) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("type") == "input_text")


def _with_text(item: Any, texts: dict[str, str]) -> Any:
    """Return *item*, with the text that *texts* has for its text, if it is a user's message."""
    text = _text_of(item) if _is_of_user(item) else ""
    if not text or texts.get(text, text) == text:
        return item
    content = item["content"]
    if isinstance(content, str):
        return {**item, "content": texts[text]}
    first = next(part for part in content if part.get("type") == "input_text")
    others = [part for part in content if part.get("type") != "input_text"]
    return {**item, "content": [{**first, "text": texts[text]}, *others]}
