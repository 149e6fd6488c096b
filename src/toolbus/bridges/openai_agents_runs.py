"""A run of the OpenAI Agents SDK on the bus, and its model, which sees prompt and answer first."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
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

from toolbus.bridges.openai_agents_calls import JudgedCall, JudgedTool, call_of
from toolbus.bridges.session import PromptDenied
from toolbus.events.catalogue import MESSAGE_APPEND_BEFORE
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from agents import Agent, ModelResponse, RunResult, RunResultStreaming

    from toolbus.bridges.openai_agents import OpenAIAgentsBridge
    from toolbus.bridges.session import BridgeSession
    from toolbus.messages.records import ToolCall

CURRENT: ContextVar[JudgedRun | None] = ContextVar("toolbus_openai_agents_run", default=None)
"""The run of the code that runs now; inside a tool, that of the sub-agents which it may run."""

_FURTHER = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "mcp_approval_request",
        "shell_call",
    }
)
"""The items of an answer after which the model is called again."""
_SIGNATURE = signature(Model.get_response)  # That of `stream_response` is the same.


class JudgedRun:
    """A run of an agent in a *session*, or below the call *call_id* of the run *above*.

    A run that the bridge starts is *managed*: its end is known.
    """

    agent: Agent[Any]
    transfer = ""
    is_paused = _is_answered = False

    def __init__(
        self,
        bridge: OpenAIAgentsBridge,
        session: BridgeSession | None = None,
        *,
        above: JudgedRun | None = None,
        call_id: str = "",
        is_managed: bool = True,
    ) -> None:
        self.bridge, self._session, self._above, self._call_id = bridge, session, above, call_id
        self._is_managed = is_managed
        self.judged: dict[str, JudgedTool] = {}
        self.calls: dict[str, JudgedCall] = {}
        self.handoff_ids: dict[str, str] = {}
        self._ids: set[str] = set()
        self._prompts: dict[str, str] = {}

    @property
    def session(self) -> BridgeSession:
        """The session, which is opened for the first agent."""
        assert self._session is not None  # noqa: S101 - `open` is called before each turn
        return self._session

    def open(self, agent: str) -> JudgedRun:
        """Open the session for *agent*, unless it is open; return this run."""
        if self._session is None and self._above is not None:
            host = self.bridge.host
            self._session = host.session_below(self._above.session, agent, self._call_id)
        return self

    def below(self, call_id: str) -> JudgedRun:
        """Return the run of sub-agents of the call *call_id*, whose runs the program starts."""
        return JudgedRun(self.bridge, above=self, call_id=call_id, is_managed=False)

    def beside(self) -> JudgedRun:
        """Return a further run in the place of this one."""
        return JudgedRun(self.bridge, above=self._above or self, call_id=self._call_id)

    @property
    def changes_answers(self) -> bool:
        """Whether a handler takes messages of the model."""
        handlers = self.bridge.host.bus.handlers(MESSAGE_APPEND_BEFORE)
        return any(not each.roles or "assistant" in each.roles for each in handlers)

    @contextmanager
    def current(self) -> Iterator[JudgedRun]:
        """Make this the run of the code in the block."""
        token = CURRENT.set(self)
        try:
            yield self
        finally:
            CURRENT.reset(token)

    def pause(self, call: ToolCall) -> None:
        """Note that *call* waits for the framework's approval."""
        self.is_paused = True
        self.bridge.paused[call.id] = call

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
        await self._drop_calls()
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
        await self._drop_calls()
        await self.session.fail(error)

    async def _drop_calls(self) -> None:
        while self.calls:
            _, call = self.calls.popitem()
            await call.cancel()

    # --- its model -------------------------------------------------------------------------------

    async def request(self, user_input: Any) -> Any:
        """Return the input of a request as the model may read it."""
        if not self._is_managed and _prompt_of(user_input) not in self._prompts:
            # A sub-agent that the program runs inside a tool.
            await self.begin(user_input)
        for item in user_input if isinstance(user_input, list) else ():
            if item.get("type") == "function_call_output":
                await self._end_unrun(item["call_id"], str(item["output"]))
        return self._changed(user_input)

    async def answer(self, output: list[Any], request: dict[str, Any]) -> None:
        """Change *output*, the model's answer to *request*, as handlers leave it.

        Calls of unknown tools get a tool in *request*, so that they are judged.
        """
        tools: list[Any] = request["tools"]
        calls = [item for item in output if item.type == "function_call"]
        for call in calls:
            if call.call_id in self._ids:
                # 0.24.0: the runner ends the run for an id that a call had before.
                call.call_id = new_id()
            self._ids.add(call.call_id)
        self.handoff_ids = {call.name: call.call_id for call in reversed(calls)}
        known = {getattr(tool, "name", "") for tool in tools}
        known |= {each.tool_name for each in request["handoffs"]}
        names = {call.name for call in calls if not call.namespace}
        broken = {call.name for call in calls if call_of("c", "", call.arguments).raw is not None}
        for index, tool in enumerate(tools):
            # 0.24.0: a broken call would pause the run, because `needs_approval` is a function.
            if isinstance(tool, FunctionTool) and tool.name in broken & self.judged.keys():
                tools[index] = self.judged[tool.name].shown(pauses=False)
        # 0.24.0: the runner resolves the answer with this very list, and ends the run for a name
        # that is not there.
        tools.extend(map(self._unknown, sorted(names - known)))
        self._is_answered = all(item.type not in _FURTHER for item in output)
        text = _answer_in(output)
        if self._is_answered or text:
            answer = await self.session.answer(text)
            for number, part in enumerate(_parts_in(output) if answer != text else ()):
                part.text = "" if number else answer
        if self._is_answered and not self._is_managed:
            await self.session.end()

    def _unknown(self, name: str) -> FunctionTool:
        async def fail(*_: object) -> str:
            raise NotImplementedError

        tool = FunctionTool(name, "", {"type": "object"}, fail, strict_json_schema=False)
        return JudgedTool(self.bridge, tool).shown(pauses=False)

    async def _end_unrun(self, call_id: str, text: str) -> None:
        """End the call that the framework answered with *text*: its user or its guardrail refused.

        It tells nothing else of that.
        """
        call, waiting = self.bridge.paused.pop(call_id, None), self.calls.pop(call_id, None)
        if call is not None:
            tool = self.judged.get(call.name) or JudgedTool(self.bridge, self._unknown(call.name))
            waiting = JudgedCall(tool, self, call)
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
        return getattr(self._model, name)

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """Return the model's advice."""
        return self._model.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)  # noqa: SLF001 - it is ours to pass on

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the model's answer, as handlers left it."""
        run, request = CURRENT.get(), _SIGNATURE.bind(self, *args, **options)
        await _pass_request(run, request.arguments)
        response = await self._model.get_response(*request.args[1:], **request.kwargs)
        if run is not None:
            await run.answer(response.output, request.arguments)
        return response

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield the events of the model's answer, with its text as handlers left it.

        If a handler takes answers, all from the first text on is held back until the end.
        """
        run, request = CURRENT.get(), _SIGNATURE.bind(self, *args, **options)
        await _pass_request(run, request.arguments)
        is_holding = run is not None and run.changes_answers
        held: list[Any] = []
        items: list[Any] = []
        async for event in self._model.stream_response(*request.args[1:], **request.kwargs):
            if event.type == "response.output_item.done":
                items.append(event.item)
            if run is not None and event.type == "response.completed":
                # Some models give the items only one by one.
                event.response.output = output = event.response.output or items
                text = _answer_in(output)
                await run.answer(output, request.arguments)
                changed = _answer_in(output)
                if changed != text:
                    held = [held[0].model_copy(update={"delta": changed})] if held else []
                for each in held:
                    yield each
            elif is_holding and (held or event.type == "response.output_text.delta"):
                held.append(event)
                continue
            yield event


class JudgedProvider(ModelProvider):
    """A provider of bridged models."""

    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider

    def get_model(self, model_name: str | None) -> Model:
        """Return the model, bridged."""
        return JudgedModel(self._provider.get_model(model_name))

    async def aclose(self) -> None:
        """Close the provider."""
        await self._provider.aclose()


async def _pass_request(run: JudgedRun | None, request: dict[str, Any]) -> None:
    """Put a prompt in *request*, the arguments of a model, on the bus, and change it there."""
    if run is None:
        return
    request["input"] = await run.request(request["input"])
    if request["tracing"] is ModelTracing.ENABLED:
        # The model writes its span before handlers have seen the answer.
        request["tracing"] = ModelTracing.ENABLED_WITHOUT_DATA


def _parts_in(output: list[Any]) -> list[Any]:
    parts = [part for item in output if item.type == "message" for part in item.content]
    return [part for part in parts if part.type == "output_text"]


def _answer_in(output: list[Any]) -> str:
    return "".join(part.text for part in _parts_in(output))


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
    if not _is_of_user(item) or (text := _text_of(item)) not in texts or texts[text] == text:
        return item
    content = item["content"]
    if isinstance(content, str):
        return {**item, "content": texts[text]}
    first = next(part for part in content if part.get("type") == "input_text")
    others = [part for part in content if part.get("type") != "input_text"]
    return {**item, "content": [{**first, "text": texts[text]}, *others]}
