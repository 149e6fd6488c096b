"""A session of a host of agent-hooks: its calls between their two points."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from toolbus.bridges.agent_hooks.wire_records import (
    read_call,
    read_message,
    read_value,
    result_text,
)
from toolbus.events.catalogue import (
    MODEL_CALL_BEFORE,
    Ask,
    Deny,
    ModelRequest,
    ToolSpec,
)
from toolbus.messages import schemas
from toolbus.messages.codec import changed
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.messages.records import ToolCall

LATE_FAILURES = {"agent-framework"}
"""The hosts that show the text of a failure only in the next request to the model.

agent-framework 1.23: `post_tool_call` gets the name of the exception's class alone, and a
replacement of it is ignored.
"""

logger = logging.getLogger("toolbus")


class HostedCall:
    """A call of the host, while a task takes it through the handlers between its two points.

    *failure* is the value of a failed call whose text the host has not shown yet.
    """

    failure: Any = None

    def __init__(
        self,
        session: BridgeSession,
        call: ToolCall,
        spec: ToolSpec,
        check: Callable[[Mapping[str, Any]], str | None] | None,
        *,
        host_asks: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.call, self._host_asks = call, host_asks
        # The point where the host goes on: with the final arguments, or with a question.
        self._stop: asyncio.Future[dict[str, Any] | Ask] = loop.create_future()
        self._decision: asyncio.Future[bool | Deny] = loop.create_future()
        self._result: asyncio.Future[ToolResponse] = loop.create_future()
        self._task = loop.create_task(
            session.call(call, spec, self._run, ask=self._ask, check=check)
        )

    async def _run(self, arguments: dict[str, Any]) -> ToolResponse:
        if not self._stop.done():
            self._stop.set_result(arguments)
        return await self._result

    async def _ask(self, ask: Ask, _: ToolCall) -> bool | Deny | None:
        if not self._host_asks or self._stop.done():
            return None
        self._stop.set_result(ask)
        return await self._decision

    @property
    def waits(self) -> bool:
        """Whether the host may still run the call."""
        return not self._task.done() and self.failure is None

    @property
    def refusal(self) -> str | None:
        """The text for the model in place of a result, if the call may not run."""
        return self._task.result().response.text if self._task.done() else None

    def likeness(self, call: ToolCall) -> int:
        """Return how well the host's *call* fits the judged one."""
        judged = self._stop.result() if self._stop.done() else None
        arguments = judged if isinstance(judged, dict) else self.call.arguments
        is_alike = self.call.name == call.name
        return is_alike + (is_alike and not changed(arguments, call.arguments))

    async def judge(self) -> dict[str, Any] | Ask | Deny:
        """Return the final arguments, the question, or the denial of a call that may not run."""
        try:
            ends: set[asyncio.Future[Any]] = {self._stop, self._task}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.cancel()
            raise
        if self._stop.done():
            return self._stop.result()
        return Deny(self._task.result().response.text)

    async def end(self, response: ToolResponse) -> CallEnd:
        """Return the end of the call with *response*, the result of its tool."""
        if not self._decision.done():
            self._decision.set_result(True)
        self._result.set_result(response)
        return await self._task

    async def cancel(self) -> None:
        """End the call without a result: the host did not run it, or its run was cancelled."""
        if isinstance(self._stop.done() and self._stop.result(), Ask):
            self._decision.set_result(Deny("approval was refused"))
        else:
            self._task.cancel()
        await asyncio.wait({self._task})


class HostedSession:
    """The runs and calls of *session* in the host *framework*.

    *specs* are the program's own facts about tools; *host_asks*: the host decides questions.
    *results* has the texts to be read in place of the host's own, by the id and the text of those.
    """

    def __init__(
        self,
        session: BridgeSession,
        framework: str,
        specs: Mapping[str, ToolSpec],
        *,
        host_asks: bool,
    ) -> None:
        self.results: dict[tuple[str, str], str] = {}
        self._session, self._known, self._host_asks = session, specs, host_asks
        self._holds_failures = framework in LATE_FAILURES
        self._specs: dict[str, ToolSpec] = {}
        # In the order of the host, until it shows their results; None: that is ours already.
        self._calls: defaultdict[str, list[HostedCall | None]] = defaultdict(list)
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

    # --- its runs --------------------------------------------------------------------------------

    async def begin(self, prompt: str) -> str:
        """Begin a run; see `BridgeSession.begin`."""
        if self._runs and not any(call.waits for call in self._held):
            # During a call it is the run of a sub-agent; else the host has ended the former run.
            await self._fail(RuntimeError("the run ended without an answer"))
        entered = await self._session.begin(prompt)
        self._runs += 1
        return entered

    async def answer(self, text: str) -> str:
        """Return a *text* of the model as handlers leave it; it may be the answer of the run."""
        self._answer = await self._session.answer(text)
        return self._answer

    async def finish(self, text: str) -> str:
        """End a run with its answer; a host that emits model calls has shown the text before."""
        self._runs = max(0, self._runs - 1)
        if text == self._answer:
            await self._session.end()
        else:
            text = await self._session.finish(text)
        self._answer = None
        return text

    async def close(self, reason: str) -> None:
        """End the session, and each call without an end."""
        for call_id in tuple(self._calls):
            await self._end_calls(call_id, ())
        is_cancelled = reason == "cancelled"
        while self._runs:
            error = RuntimeError(f"the host ended the session: {reason}")
            await self._fail(asyncio.CancelledError() if is_cancelled else error)

    async def _fail(self, error: BaseException) -> None:
        self._runs -= 1
        self._announced.clear()
        await self._session.fail(error)

    # --- the model -------------------------------------------------------------------------------

    async def provide(self, specs: Sequence[ToolSpec]) -> None:
        """Put the tools of the next model call on the bus."""
        if specs:
            known = [self._known.get(spec.name, spec) for spec in specs]
            self._specs = {spec.name: spec for spec in known}
            await self._session.adapt_tools(known)

    async def request(self, model: str, messages: list[dict[str, Any]]) -> list[Any] | Deny:
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

    def announce(self, calls: Iterable[Mapping[str, Any]]) -> None:
        """Note the *calls* of an answer: some never reach their first point."""
        self._announced |= {call.id: call for call in map(read_call, calls)}

    async def settle(self, results: Iterable[tuple[str, str]]) -> None:
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
                await self._end_call(call, text)

    async def _end_call(self, call: HostedCall, text: str | None) -> None:
        """End *call*, of which the host shows *text*, if anything."""
        read = call.refusal
        if call.failure is not None:
            known = result_text(call.failure) if text is None else text
            read = (await call.end(_failure(known))).response.text
        elif read is None:
            await call.cancel()
        if text is not None and read is not None:
            self._replace(call.call.id, text, read)

    def _replace(self, call_id: str, text: str, read: str) -> None:
        if read != text:
            self.results[call_id, text] = read

    async def _judge_late(self, call: ToolCall, response: ToolResponse) -> CallEnd:
        """Return the end of *call*, which the host has answered without a point for it."""
        spec = self._specs.get(call.name)
        if spec is None and not self._specs:
            spec = ToolSpec(name=call.name)

        async def run(_: dict[str, Any]) -> ToolResponse:
            return response

        return await self._session.call(call, spec, run)

    # --- its calls -------------------------------------------------------------------------------

    async def judge(self, wire: Mapping[str, Any]) -> dict[str, Any] | Ask | Deny:
        """Return the arguments with which the call in *wire* may run, a question, or a denial."""
        call = read_call(wire)
        self._announced.pop(call.id, None)
        spec, known = self._specs.get(call.name), self._known.get(call.name)
        check = None if known is None else partial(schemas.problem, known.input_schema)
        spec = spec or ToolSpec(name=call.name)
        hosted = HostedCall(self._session, call, spec, check, host_asks=self._host_asks)
        calls = self._calls[call.id]
        calls.append(hosted)
        try:
            return await hosted.judge()
        except asyncio.CancelledError:
            calls.remove(hosted)  # The host took too long a wait for a denial.
            raise

    async def end_call(
        self, wire: Mapping[str, Any], result: Mapping[str, Any]
    ) -> CallEnd | Deny | None:
        """Return the end of the call in *wire* with its *result*; None: it is not known yet."""
        call = read_call(wire)
        response = replace(read_value(result["value"]), is_error=result["is_error"])
        calls = self._calls[call.id]
        hosted = self._hosted(call)
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

    def _hosted(self, call: ToolCall) -> HostedCall | None:
        """Return the judged call with the id of *call* and the most similar arguments, or None."""
        calls = [each for each in self._calls[call.id] if each is not None]
        waiting = [each for each in calls if each.waits]
        refused = [each for each in calls if each.refusal is not None]
        return max(waiting or refused, key=lambda each: each.likeness(call), default=None)


def _failure(text: str) -> ToolResponse:
    return ToolResponse.from_text(text, is_error=True, error_type="error")
