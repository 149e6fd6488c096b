"""One session of a host of agent-hooks: its calls between their two points."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.bridges.agent_hooks.result_texts import LATE_FAILURES, result_text
from toolbus.bridges.agent_hooks.wire_records import (
    read_call,
    read_message,
    read_value,
    wire_value,
)
from toolbus.events.catalogue import (
    MODEL_CALL_BEFORE,
    Ask,
    Deny,
    ModelRequest,
    ToolSpec,
)
from toolbus.messages import schemas
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.messages.records import ToolCall

_MAX_ANNOUNCED = 256
"""The most calls of models that wait for their first point or their result."""

logger = logging.getLogger("toolbus")


class CallRefusal(NamedTuple):
    """The reason why a call may not run; with *is_question* a person may allow it."""

    reason: str
    is_question: bool = False


class HostFacts(NamedTuple):
    """The program's own facts about its host: the *specs* of tools, and whether the host asks."""

    specs: Mapping[str, ToolSpec]
    host_asks: bool


class OpenCall:
    """One call that the host runs, while *task* takes it through the handlers.

    *stop* is the point where the host goes on: with the final arguments, or with a question.
    """

    def __init__(
        self, session: BridgeSession, call: ToolCall, spec: ToolSpec, facts: HostFacts
    ) -> None:
        loop = asyncio.get_running_loop()
        self.call = call
        self.stop: asyncio.Future[dict[str, Any] | Ask] = loop.create_future()
        self._decision: asyncio.Future[bool | Deny] = loop.create_future()
        self._result: asyncio.Future[ToolResponse] = loop.create_future()
        self._host_asks, known = facts.host_asks, facts.specs.get(call.name)
        check = None if known is None else partial(schemas.problem, known.input_schema)
        work = session.call(call, spec, self._run, ask=self._ask, check=check)
        self.task = loop.create_task(work)

    async def _run(self, arguments: dict[str, Any]) -> ToolResponse:
        if not self.stop.done():
            self.stop.set_result(arguments)
        return await self._result

    async def _ask(self, ask: Ask, _: ToolCall) -> bool | Deny | None:
        if not self._host_asks or self.stop.done():
            return None
        self.stop.set_result(ask)
        return await self._decision

    async def judge(self) -> dict[str, Any] | Ask | CallEnd:
        """Return the final arguments, the question, or the end of a call that may not run."""
        try:
            ends: set[asyncio.Future[Any]] = {self.stop, self.task}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.cancel()  # The host took too long a wait for a denial.
            raise
        return self.stop.result() if self.stop.done() else self.task.result()

    async def end(self, response: ToolResponse) -> CallEnd:
        """Return the end of the call with *response*, the result of its tool."""
        if not self._decision.done():
            self._decision.set_result(True)
        self._result.set_result(response)
        return await self.task

    async def cancel(self) -> None:
        """End the call without a result: the host did not run it, or its run was cancelled."""
        if isinstance(self.stop.done() and self.stop.result(), Ask):
            self._decision.set_result(Deny("approval was refused"))
        else:
            self.task.cancel()
        await asyncio.wait({self.task})


class HostedSession:
    """The calls of *session* in the host *framework*.

    *results* has, by call id, each text that the model may read in place of the host's.
    """

    def __init__(self, session: BridgeSession, framework: str, facts: HostFacts) -> None:
        self.results: dict[str, str] = {}
        self._session, self._facts = session, facts
        self._holds_failures = framework in LATE_FAILURES
        self._specs: dict[str, ToolSpec] = {}
        self._open: dict[str, OpenCall] = {}
        self._failed: dict[str, tuple[OpenCall, Any]] = {}
        self._announced: dict[str, ToolCall] = {}
        self._is_running = False
        self._answer: str | None = None

    async def begin(self, prompt: str) -> str:
        """Begin a run; see `BridgeSession.begin`."""
        if self._is_running:
            await self._session.fail(RuntimeError("the run ended without an answer"))
        self._is_running = False
        entered = await self._session.begin(prompt)
        self._is_running = True
        return entered

    async def answer(self, text: str) -> str:
        """Return a *text* of the model as handlers leave it; it may be the answer of the run."""
        self._answer = await self._session.answer(text)
        return self._answer

    async def finish(self, text: str) -> str:
        """End a run with its answer; a host that emits model calls has shown the text before."""
        self._is_running = False
        if text == self._answer:
            await self._session.end()
        else:
            text = await self._session.finish(text)
        self._answer = None
        return text

    async def close(self, reason: str) -> None:
        """End the session, and with it each call that has no end."""
        await self.settle(dict.fromkeys(self._failed))
        for call in tuple(self._open.values()):
            await call.cancel()
        self._open.clear()
        if self._is_running:
            self._is_running = False
            is_cancelled = reason == "cancelled"
            error = (
                asyncio.CancelledError() if is_cancelled else RuntimeError(f"the host: {reason}")
            )
            await self._session.fail(error)

    # --- the model -------------------------------------------------------------------------------

    async def provide(self, specs: Sequence[ToolSpec]) -> None:
        """Put the tools of the next model call on the bus."""
        if specs:
            known = [self._facts.specs.get(spec.name, spec) for spec in specs]
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
        if context.value.messages == request.messages:
            return messages
        known = {id(record): wire for record, wire in zip(records, messages, strict=True)}
        return [
            known.get(id(message)) or {"role": message.role, "content": message.text}
            for message in context.value.messages
        ]

    def announce(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Note the *calls* of an answer: some never reach their first point."""
        for wire in calls:
            call = read_call(wire)
            self._announced[call.id] = call
        while len(self._announced) > _MAX_ANNOUNCED:
            del self._announced[next(iter(self._announced))]

    async def settle(self, results: Mapping[str, str | None]) -> None:
        """End each call for which the model reads a result now; *results* has the texts by id."""
        for call_id, text in results.items():
            if (failed := self._failed.pop(call_id, None)) is not None:
                call, value = failed
                await self._keep(await call.end(_failure(text or result_text(value))))
            elif (opened := self._open.pop(call_id, None)) is not None:
                await opened.cancel()
            elif (announced := self._announced.pop(call_id, None)) is not None and text is not None:
                await self._keep(await self._judge_late(announced, _failure(text)))

    async def _judge_late(self, call: ToolCall, response: ToolResponse) -> CallEnd:
        """Return the end of *call*, which the host has answered without a point for it."""
        spec = self._specs.get(call.name)
        if spec is None and not self._specs:
            spec = ToolSpec(name=call.name)

        async def run(_: dict[str, Any]) -> ToolResponse:
            return response

        return await self._session.call(call, spec, run)

    async def _keep(self, end: CallEnd) -> CallEnd:
        if end.is_changed and end.outcome is not None:
            self.results[end.outcome.requested.id] = end.response.text
        return end

    # --- its calls -------------------------------------------------------------------------------

    async def judge(self, wire: Mapping[str, Any]) -> dict[str, Any] | CallRefusal:
        """Return the arguments with which the call in *wire* may run, or the reason against it."""
        call = read_call(wire)
        self._announced.pop(call.id, None)
        if (former := self._open.pop(call.id, None)) is not None:
            await former.cancel()
        spec = self._specs.get(call.name) or ToolSpec(name=call.name)
        opened = OpenCall(self._session, call, spec, self._facts)
        judged = await opened.judge()
        if isinstance(judged, dict | Ask):
            self._open[call.id] = opened
            return (
                judged if isinstance(judged, dict) else CallRefusal(judged.prompt, is_question=True)
            )
        self.results[call.id] = judged.response.text
        return CallRefusal(judged.response.text)

    async def end_call(self, wire: Mapping[str, Any], result: Mapping[str, Any]) -> CallEnd | None:
        """Return the end of the call in *wire* with its *result*; None: it is not known yet."""
        call = read_call(wire)
        response = replace(read_value(result["value"]), is_error=result["is_error"])
        opened = self._open.pop(call.id, None)
        if opened is None:
            # An interceptor before this one has ended the composition, or it was registered late.
            logger.warning("tool call %s ran unjudged; its result is judged with it", call.id)
            end = await self._judge_late(call, response)
        elif result["is_error"] and self._holds_failures:
            self._failed[call.id] = opened, result["value"]
            return None
        else:
            end = await opened.end(response)
        return end

    def value_of(self, end: CallEnd, value: Any) -> Any:
        """Return the result of *end* in the form of *value*, the tool's own."""
        return end.response.text if isinstance(value, str) else wire_value(end.response)


def _failure(text: str) -> ToolResponse:
    return ToolResponse.from_text(text, is_error=True, error_type="error")
