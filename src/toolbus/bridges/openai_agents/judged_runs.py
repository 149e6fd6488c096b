"""A run of the OpenAI Agents SDK on the bus: its prompt, its model's requests and answers, its end.

Facts about the framework are from runs with openai-agents 0.24.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents import (
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
)

from toolbus.bridges.bridged_call import RunningCall
from toolbus.bridges.openai_agents.judged_calls import JudgedCall, JudgedTool, call_of, unknown
from toolbus.bridges.session import PromptDenied
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agents import Agent, RunResult, RunResultStreaming

    from toolbus.bridges.openai_agents.runner import OpenAIAgentsBridge
    from toolbus.bridges.session import BridgeSession
    from toolbus.messages.records import ToolCall

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


class JudgedRun:
    """A run of an agent, in the conversation *key*, or in a tool of the run *above*.

    *running*: the call of that tool; *outer*: the run of another bridge, in which this one takes
    place, and whose components judge all of it too; *pauses*: whether the framework's user answers
    the questions of guards.
    """

    agent: Agent[Any]
    transfer = ""
    is_paused = _is_answered = False

    def __init__(
        self,
        bridge: OpenAIAgentsBridge,
        key: str = "",
        *,
        above: JudgedRun | None = None,
        running: RunningCall | None = None,
        outer: JudgedRun | None = None,
        pauses: bool = True,
    ) -> None:
        self.running, self.outer = running, outer
        self.bridge, self._key, self._above = bridge, key, above
        self.pauses: bool = pauses and (bridge if above is None else above).pauses
        # The calls on which the framework's user has decided since the last run.
        self.paused: dict[str, ToolCall] = {} if above is None else above.paused
        self._unrun: dict[str, ToolCall] = {}
        self._session: BridgeSession | None = None
        self.judged: dict[str, JudgedTool] = {}
        self.calls: dict[str, JudgedCall] = {}
        self._ids: set[str] = set()
        self._prompts: dict[str, str] = {}

    @property
    def session(self) -> BridgeSession:
        """The session, which is opened for the first agent."""
        assert self._session is not None  # noqa: S101 - `open` is called before each turn
        return self._session

    def open(self, agent: str) -> JudgedRun:
        """Open the session for *agent*, unless it is open; return this run."""
        host, running = self.bridge.host, self.running
        if self._session is None and running is not None:
            self._session = host.session_below(running.session, agent, running.call_id)
        elif self._session is None:
            self._session = host.session(self._key)
        return self

    def below(self, call_id: str, *, pauses: bool) -> JudgedRun:
        """Return the run of the sub-agents that the tool of a call may run."""
        outer = None if self.outer is None else self.outer.below(call_id, pauses=False)
        running = RunningCall(self.session, call_id)
        return JudgedRun(self.bridge, above=self, running=running, outer=outer, pauses=pauses)

    def __iter__(self) -> Iterator[JudgedRun]:
        """Iterate over this run and those around it, outwards."""
        run: JudgedRun | None = self
        while run is not None:
            yield run
            run = run.outer

    def take(self, call_id: str = "", name: str = "") -> ToolCall | None:
        """Return the call with this id, or else with this name, if it still has to run."""
        named = [id_ for id_, call in self._unrun.items() if call.name == name]
        call_id = call_id or next(iter(named), "")
        return self._unrun.pop(call_id, None) or self.paused.pop(call_id, None)

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
        self.is_paused = bool(result.interruptions)
        await self.drop_calls()
        if self.is_paused:
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
            call_id, call = self.calls.popitem()
            self._unrun.pop(call_id, None)
            await call.cancel()
        while self._unrun and not self.is_paused:
            await self._end_unrun(next(iter(self._unrun)), "the run ended before the call")

    # --- its model -------------------------------------------------------------------------------

    async def request(self, user_input: Any) -> Any:
        """Return the input of a request as the model may read it."""
        if self._above is not None and _prompt_of(user_input) not in self._prompts:
            # A sub-agent that the program runs inside a tool.
            await self.begin(user_input)
        for item in user_input if isinstance(user_input, list) else ():
            if item.get("type") == "function_call":
                self._ids.add(item["call_id"])
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
                # An approval is for an id; 0.24.0 ends the run for one that a call had before.
                call.call_id = new_id()
            self._ids.add(call.call_id)
            name = f"{call.namespace}.{call.name}" if call.namespace else call.name
            self._unrun[call.call_id] = call_of(call.call_id, name, call.arguments)
        known = {getattr(each, "qualified_name", getattr(each, "name", "")) for each in tools}
        known |= {each.tool_name for each in request["handoffs"]}
        names = {call.name for call in calls if not call.namespace}
        if request["output_schema"] is not None:
            # Some providers return a structured answer by such a call.
            names.discard("json_tool_call")
        broken = {call.name for call in calls if call_of("c", "", call.arguments).raw is not None}
        for index, tool in enumerate(tools):
            # 0.24.0: a broken call would pause the run, because `needs_approval` is a function.
            if isinstance(tool, FunctionTool) and tool.name in broken & self.judged.keys():
                tools[index] = self.judged[tool.name].shown(pauses=False)
        # 0.24.0: the runner resolves the answer with this very list, and ends the run for a name
        # that is not there.
        tools.extend(unknown(ToolSpec(name=name)) for name in sorted(names - known))
        self._is_answered = all(item.type not in _FURTHER for item in output)
        text = answer_in(output)
        if self._is_answered or text:
            answer = await self.session.answer(text)
            for number, part in enumerate(_parts_in(output) if answer != text else ()):
                part.text = "" if number else answer
        if self._is_answered and self._above is not None:
            await self.session.end()

    async def _end_unrun(self, call_id: str, text: str) -> None:
        """End the call that the framework has answered with *text*, or will not run.

        Its user, a guardrail or a second handoff is the reason; it tells nothing else of that.
        """
        call, waiting = self.take(call_id), self.calls.pop(call_id, None)
        if waiting is None and call is not None:
            other = JudgedTool(unknown(ToolSpec(name=call.name)))
            tool = self.judged.get(call.name, other)
            waiting = JudgedCall(tool, self, call, is_refused=True)
        if waiting is not None:
            await waiting.refuse(text)

    def _changed(self, user_input: Any) -> Any:
        if isinstance(user_input, str):
            return self._prompts.get(user_input, user_input)
        return [_with_text(item, self._prompts) for item in user_input]


def _parts_in(output: list[Any]) -> list[Any]:
    parts = [part for item in output if item.type == "message" for part in item.content]
    return [part for part in parts if part.type == "output_text"]


def answer_in(output: list[Any]) -> str:
    """Return all text in *output*, an answer of the model."""
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
    text = _text_of(item) if _is_of_user(item) else ""
    if not text or texts.get(text, text) == text:
        return item
    content = item["content"]
    if isinstance(content, str):
        return {**item, "content": texts[text]}
    first = next(part for part in content if part.get("type") == "input_text")
    others = [part for part in content if part.get("type") != "input_text"]
    return {**item, "content": [{**first, "text": texts[text]}, *others]}
