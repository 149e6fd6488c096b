"""The interceptor: our components in every host of agent-hooks."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from toolbus.bridges.agent_hooks.contract import POINTS, ContractError, Transform, transformed
from toolbus.bridges.agent_hooks.hosted_call import HostedCall
from toolbus.bridges.agent_hooks.wire_records import (
    id_of,
    read_call,
    read_message,
    read_spec,
    read_value,
    result_text,
    results_in,
    text_place,
    wire_value,
    with_results,
)
from toolbus.bridges.host import FrameworkBridge
from toolbus.bridges.session import PromptDenied
from toolbus.errors import RegistrationError
from toolbus.events.catalogue import MODEL_CALL_BEFORE, Ask, Deny, ModelRequest, ToolSpec
from toolbus.messages.codec import changed
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from toolbus.bridges.agent_hooks.contract import Context
    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.components.adapters import ToolAdapter
    from toolbus.components.components import AgentComponent
    from toolbus.messages.records import ToolCall

    Wire = dict[str, Any]

LATE_FAILURES = {"agent-framework"}
"""The hosts that show the text of a failure only in the next request to the model.

agent-framework 1.23: `post_tool_call` gets the name of the exception's class alone, and a
replacement of it is ignored.
"""

DENIED = "toolbus:denied"
"""The machine's reason of each denial; its message is the handler's reason."""
ALLOW = {"decision": "allow"}

_MAX_SESSIONS = 1_000

logger = logging.getLogger("toolbus")


class AgentHooksInterceptor(FrameworkBridge):
    """An interceptor with *components*, for each host of agent-hooks.

    Register it last: a later interceptor could rewrite a call after the guards have judged it.

    Args:
        components: components and adapters, installed in this order.
        tools: the specs of the host's tools, by which the model's arguments are validated; hosts
            that declare tools without schemas validate arguments themselves, later.
        host_asks: the host's resolver decides the questions of guards, as liftable denials; else
            the approver does, within the host's timeout for interceptors.
        options: those of `BridgeHost`, but for `timeout` and `idempotent`: the host runs the tools.

    Raises `RegistrationError` for a component that cannot work by this contract.
    """

    def __init__(
        self,
        components: Iterable[AgentComponent | ToolAdapter] = (),
        *,
        tools: Iterable[ToolSpec] = (),
        host_asks: bool = False,
        **options: Any,
    ) -> None:
        for option in sorted({"timeout", "idempotent"} & options.keys()):
            raise RegistrationError(f"option {option!r}", "no verdict stops or repeats a tool")
        super().__init__("agent_hooks", components, **options)
        self._specs, self._host_asks = {spec.name: spec for spec in tools}, host_asks
        self._sessions: dict[str, HostedSession] = {}

    async def intercept(self, context: Context, /) -> dict[str, Any]:
        """Return the verdict of the components on *context*; raises for an unknown point."""
        point = context["interception_point"]
        if point not in POINTS:
            raise ContractError("context_invalid", f"unknown point {point!r}")
        if point == "agent_shutdown":
            ended = self._sessions.pop(context["session"]["id"], None)
            return ALLOW if ended is None else await ended.judge(context)
        self.host.check_open()
        return await self._session_of(context).judge(context)

    async def aclose(self) -> None:
        """End all open calls, write the last records, and close the components."""
        for session in tuple(self._sessions.values()):
            await session.close("cancelled")
        self._sessions.clear()
        await super().aclose()

    def _session_of(self, context: Context) -> HostedSession:
        key = context["session"]["id"]
        session = self._sessions.pop(key, None)
        if session is None:
            framework, inner = context["agent"]["framework"], self.host.session(key)
            session = HostedSession(inner, framework, self._specs, host_asks=self._host_asks)
            self._forget_idle()
        self._sessions[key] = session
        return session

    def _forget_idle(self) -> None:
        """Forget the session of the longest idleness: some hosts never end theirs."""
        if len(self._sessions) >= _MAX_SESSIONS:
            key, session = next(iter(self._sessions.items()))
            del self._sessions[key]
            if not session.is_idle:
                self._sessions[key] = session


class HostedSession:
    """The runs and calls of *session* in the host *framework*, each point with its verdict.

    *specs* are the program's own facts about tools; *host_asks*: the host decides questions.
    """

    def __init__(
        self,
        session: BridgeSession,
        framework: str,
        specs: Mapping[str, ToolSpec],
        *,
        host_asks: bool,
    ) -> None:
        self._session, self._known, self._host_asks = session, specs, host_asks
        self._holds_failures = framework in LATE_FAILURES
        self._specs: dict[str, ToolSpec] = {}
        # In the order of the host, until it shows their results; None: that is ours already.
        self._calls: defaultdict[str, list[HostedCall | None]] = defaultdict(list)
        # The texts to be read in place of the host's own, by the id and the text of those.
        self._results: dict[tuple[str, str], str] = {}
        self._announced: dict[str, ToolCall] = {}
        self._runs = 0
        self._answer: str | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no run and no call goes on."""
        return not self._runs and all(call.refusal is not None for call in self._held)

    @property
    def _held(self) -> list[HostedCall]:
        return [call for calls in self._calls.values() for call in calls if call is not None]

    async def judge(self, context: Context) -> Wire:
        """Return the verdict on *context*."""
        return await self._points[context["interception_point"]](self, context)

    async def close(self, reason: str) -> None:
        """End the session, and each call without an end."""
        for call_id in tuple(self._calls):
            await self._end_calls(call_id, ())
        is_cancelled = reason == "cancelled"
        while self._runs:
            error = RuntimeError(f"the host ended the session: {reason}")
            await self._fail(asyncio.CancelledError() if is_cancelled else error)

    # --- its runs --------------------------------------------------------------------------------

    async def _start(self, _: Context) -> Wire:
        await self._session.host.ready()
        return ALLOW

    async def _judge_input(self, context: Context) -> Wire:
        path, prompt = text_place(context["input"]["content"], "user")
        if self._runs and not any(call.waits for call in self._held):
            # During a call it is the run of a sub-agent; else the host has ended the former run.
            await self._fail(RuntimeError("the run ended without an answer"))
        try:
            entered = await self._session.begin(prompt)
        except PromptDenied as error:
            return denial(error.reason)
        self._runs += 1
        return replacement(path, prompt, entered)

    async def _judge_output(self, context: Context) -> Wire:
        content = context["output"]["content"]
        await self._settle(results_in(content))
        path, answer = text_place(content, "assistant")
        finished = await self._finish(answer)
        if finished != answer and path:
            context = transformed(context, Transform(path, finished))
        elif finished != answer:
            return replacement(path, answer, finished)
        shown = with_results(context["output"]["content"], self._results)
        return replacement("$target.content", content, shown)

    async def _finish(self, text: str) -> str:
        """End a run with its answer; a host that emits model calls has shown the text before."""
        self._runs = max(0, self._runs - 1)
        if text == self._answer:
            await self._session.end()
        else:
            text = await self._session.finish(text)
        self._answer = None
        return text

    async def _fail(self, error: BaseException) -> None:
        self._runs -= 1
        self._announced.clear()
        await self._session.fail(error)

    async def _end(self, context: Context) -> Wire:
        await self.close(context["summary"]["reason"])
        return ALLOW

    # --- the model -------------------------------------------------------------------------------

    async def _judge_request(self, context: Context) -> Wire:
        messages = context["messages"]
        await self._settle(results_in(messages))
        if context.get("tools"):
            specs = [read_spec(tool) for tool in context["tools"]]
            self._specs = {spec.name: self._known.get(spec.name, spec) for spec in specs}
            await self._session.adapt_tools([*self._specs.values()])
        shown = with_results(messages, self._results)
        request = await self._request(context["model"]["id"], shown)
        if isinstance(request, Deny):
            return denial(request.reason)
        return replacement("$target", messages, request)

    async def _request(self, model: str, messages: list[dict[str, Any]]) -> list[Any] | Deny:
        """Put a request to the model on the bus; return its messages, or a denial."""
        bus, scope = self._session.host.bus, self._session.scope
        if not bus.has_listeners(MODEL_CALL_BEFORE):
            return messages
        records = [read_message(wire) for wire in messages]
        tools = tuple(self._specs.values())
        request = ModelRequest(model=model, messages=tuple(records), tools=tools)
        context = await bus.apply(MODEL_CALL_BEFORE, request, scope=scope)
        if context.denied is not None:
            return context.denied
        if context.answer is not None:
            return Deny("a handler answered in place of the model, which this host cannot take")
        known = {id(record): wire for record, wire in zip(records, messages, strict=True)}
        return [
            known.get(id(message)) or {"role": message.role, "content": message.text}
            for message in context.value.messages
        ]

    async def _judge_answer(self, context: Context) -> Wire:
        # Some of its calls never reach their first point.
        calls = context["response"]["tool_calls"]
        self._announced |= {id_of(wire): read_call(wire) for wire in calls}
        path, text = text_place(context["response"]["content"], "assistant")
        if not path or not text:
            return ALLOW  # An answer in another form is judged at `output`.
        self._answer = await self._session.answer(text)
        return replacement(path, text, self._answer)

    # --- its calls -------------------------------------------------------------------------------

    async def _judge_call(self, context: Context) -> Wire:
        call_id, call = id_of(context["tool_call"]), read_call(context["tool_call"])
        self._announced.pop(call_id, None)
        spec = self._known.get(call.name) or self._specs.get(call.name) or ToolSpec(name=call.name)
        is_known = call.name in self._known
        hosted = HostedCall(self._session, call, spec, is_known=is_known, host_asks=self._host_asks)
        calls = self._calls[call_id]
        calls.append(hosted)
        try:
            judged = await hosted.judge()
        except BaseException:
            calls.remove(hosted)  # A host takes too long a wait for a denial.
            raise
        if isinstance(judged, Ask):
            return {**denial(judged.prompt), "approval": {}}
        if isinstance(judged, Deny):
            return denial(judged.reason)
        return replacement("$target", context["tool_call"]["args"], judged)

    async def _judge_result(self, context: Context) -> Wire:
        result = context["tool_result"]
        end = await self._end_of(context["tool_call"], result)
        if isinstance(end, Deny):
            return denial(end.reason)
        if end is None or not end.is_changed:
            return ALLOW
        response, value = end.response, result["value"]
        if response.is_error and not result["is_error"]:
            return denial(response.text)
        read = response.text if isinstance(value, str) else wire_value(response)
        return replacement("$target", value, read)

    async def _end_of(self, wire: Wire, result: Wire) -> CallEnd | Deny | None:
        """Return the end of the call in *wire* with its *result*; None: it is not known yet."""
        response = replace(read_value(result["value"]), is_error=result["is_error"])
        # By the host's id, for an empty one has another one on the bus.
        call, calls = read_call(wire), self._calls[id_of(wire)]
        hosted = _most_similar(calls, call)
        if hosted is None:
            # An interceptor before this one has ended the composition, or it was registered late.
            logger.warning("tool call %s ran unjudged; its result is judged with it", call.id)
            calls.append(None)
            return await self._judge_late(call, response)
        if (refusal := hosted.refusal) is not None:
            logger.warning("the host ran tool call %s, although it was denied", call.id)
            return Deny(refusal)
        if result["is_error"] and self._holds_failures:
            hosted.failure = result["value"]
            return None
        calls[calls.index(hosted)] = None
        return await hosted.end(response)

    async def _settle(self, results: Iterable[tuple[str, str]]) -> None:
        """End each call for which the model reads a result now: *results* has its id and text."""
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for call_id, text in results:
            texts[call_id].append(text)
        for call_id, shown in texts.items():
            announced = self._announced.pop(call_id, None)
            if self._calls.get(call_id):
                await self._end_calls(call_id, shown)
            elif announced is not None:
                end = await self._judge_late(announced, _failure(shown[-1]))
                self._replace(call_id, shown[-1], end.response.text)

    async def _end_calls(self, call_id: str, texts: Sequence[str]) -> None:
        """End the calls with *call_id*; *texts* are the results with it in a request."""
        calls = self._calls.pop(call_id)
        # A history has earlier results too, and may be shortened: the last ones are of these calls.
        missing = [None] * (len(calls) - len(texts))
        shown = [*missing, *texts[max(0, len(texts) - len(calls)) :]]
        for call, text in zip(calls, shown, strict=True):
            if call is not None:
                await self._end_call(call_id, call, text)

    async def _end_call(self, call_id: str, call: HostedCall, text: str | None) -> None:
        """End *call*, of which the host shows *text*, if anything."""
        read = call.refusal
        if call.failure is not None:
            known = result_text(call.failure) if text is None else text
            read = (await call.end(_failure(known))).response.text
        elif read is None:
            await call.cancel()
        if text is not None and read is not None:
            self._replace(call_id, text, read)

    def _replace(self, call_id: str, text: str, read: str) -> None:
        if read != text:
            self._results[call_id, text] = read

    async def _judge_late(self, call: ToolCall, response: ToolResponse) -> CallEnd:
        """Return the end of *call*, which the host has answered without a point for it."""
        spec = self._specs.get(call.name)
        if spec is None and not self._specs:
            spec = ToolSpec(name=call.name)

        async def run(_: dict[str, Any]) -> ToolResponse:
            return response

        return await self._session.call(call, spec, run)

    _points: ClassVar[Mapping[str, Callable[..., Awaitable[Wire]]]] = {
        "agent_startup": _start,
        "input": _judge_input,
        "pre_model_call": _judge_request,
        "post_model_call": _judge_answer,
        "pre_tool_call": _judge_call,
        "post_tool_call": _judge_result,
        "output": _judge_output,
        "agent_shutdown": _end,
    }


def denial(reason: str) -> Wire:
    """Return the verdict that denies for *reason*, which is for the model."""
    return {"decision": "deny", "reason": DENIED, "message": reason}


def replacement(path: str, before: Any, after: Any) -> Wire:
    """Return the verdict that puts *after* in place of *before* at *path*, "" for no place."""
    if not changed(before, after):
        return ALLOW
    if not path:
        return denial("a handler changed a text that cannot be replaced in its form")
    return {"decision": "transform", "transform": {"path": path, "value": after}}


def _most_similar(calls: Sequence[HostedCall | None], call: ToolCall) -> HostedCall | None:
    """Return the one of *calls*, which share an id, that the host has ended as *call*, or None."""
    held = [each for each in calls if each is not None]
    waiting = [each for each in held if each.waits]
    refused = [each for each in held if each.refusal is not None]
    return max(waiting or refused, key=lambda each: each.likeness(call), default=None)


def _failure(text: str) -> ToolResponse:
    return ToolResponse.from_text(text, is_error=True, error_type="error")
