"""A session of a host of agent-hooks: its calls between their two points."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from toolbus.bridges.agent_hooks.open_call import HostFacts, OpenCall
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
from toolbus.messages.codec import changed
from toolbus.messages.records import ToolResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from toolbus.bridges.session import BridgeSession, CallEnd
    from toolbus.messages.records import ToolCall

_MAX_ANNOUNCED = 256
"""The most calls of models that wait for their first point or their result."""

logger = logging.getLogger("toolbus")


class CallRefusal(NamedTuple):
    """The reason why a call may not run; with *is_question* a person may allow it."""

    reason: str
    is_question: bool = False


class HostedSession:
    """The calls of *session* in the host *framework*.

    *results* has, by call id, a text for each call with this id, to be read in place of the host's
    own; None for an unchanged result.
    """

    def __init__(self, session: BridgeSession, framework: str, facts: HostFacts) -> None:
        self.results: defaultdict[str, list[str | None]] = defaultdict(list)
        self._session, self._facts = session, facts
        self._holds_failures = framework in LATE_FAILURES
        self._specs: dict[str, ToolSpec] = {}
        self._open: defaultdict[str, list[OpenCall]] = defaultdict(list)
        self._failed: defaultdict[str, list[tuple[OpenCall, Any]]] = defaultdict(list)
        self._announced: dict[str, ToolCall] = {}
        self._refused: dict[str, str] = {}
        self._runs = 0
        self._answer: str | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no run and no call goes on."""
        return not (self._runs or self._open or self._failed)

    async def begin(self, prompt: str) -> str:
        """Begin a run; see `BridgeSession.begin`."""
        if self._runs and not self._open:
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
        for call_id in tuple(self._failed):
            await self._end_failed(call_id)
        for call_id in tuple(self._open):
            await self._cut_off(call_id)
        is_cancelled = reason == "cancelled"
        while self._runs:
            error = RuntimeError(f"the host ended the session: {reason}")
            await self._fail(asyncio.CancelledError() if is_cancelled else error)

    async def _fail(self, error: BaseException) -> None:
        self._runs -= 1
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

    async def settle(self, results: Iterable[tuple[str, str]]) -> None:
        """End each call for which the model reads a result now: *results* has its id and text."""
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for call_id, text in results:
            texts[call_id].append(text)
        for call_id in texts:
            self._refused.pop(call_id, None)
            announced = self._announced.pop(call_id, None)
            if call_id in self._failed:
                await self._end_failed(call_id, texts[call_id])
            elif call_id in self._open:
                await self._cut_off(call_id)
            elif announced is not None:
                end = await self._judge_late(announced, _failure(texts[call_id][-1]))
                self._keep(call_id, end, self._next_place(call_id))

    async def _end_failed(self, call_id: str, texts: Sequence[str] = ()) -> None:
        """End the failed calls with *call_id*; *texts* are the results with it in a request."""
        for call, value in self._failed.pop(call_id):
            # A shortened history has the last results alone.
            place = call.place - len(self.results[call_id]) + len(texts)
            text = texts[place] if 0 <= place < len(texts) else result_text(value)
            self._keep(call_id, await call.end(_failure(text)), call.place)

    async def _cut_off(self, call_id: str) -> None:
        """End the calls with *call_id* without a result of the host."""
        for opened in self._open.pop(call_id, ()):
            await opened.cancel()

    async def _judge_late(self, call: ToolCall, response: ToolResponse) -> CallEnd:
        """Return the end of *call*, which the host has answered without a point for it."""
        spec = self._specs.get(call.name)
        if spec is None and not self._specs:
            spec = ToolSpec(name=call.name)

        async def run(_: dict[str, Any]) -> ToolResponse:
            return response

        return await self._session.call(call, spec, run)

    def _keep(self, call_id: str, end: CallEnd, place: int) -> None:
        if end.is_changed:
            self.results[call_id][place] = end.response.text

    def _next_place(self, call_id: str) -> int:
        """Return the place of the next result with *call_id*, which the host is to show."""
        self.results[call_id].append(None)
        return len(self.results[call_id]) - 1

    # --- its calls -------------------------------------------------------------------------------

    async def judge(self, wire: Mapping[str, Any]) -> dict[str, Any] | CallRefusal:
        """Return the arguments with which the call in *wire* may run, or the reason against it."""
        call = read_call(wire)
        self._announced.pop(call.id, None)
        spec = self._specs.get(call.name) or ToolSpec(name=call.name)
        opened = OpenCall(self._session, call, spec, self._facts)
        opened.place = self._next_place(call.id)
        judged = await opened.judge()
        if isinstance(judged, dict | Ask):
            self._open[call.id].append(opened)
        if isinstance(judged, Ask):
            return CallRefusal(judged.prompt, is_question=True)
        if isinstance(judged, dict):
            return judged
        self._refused[call.id] = judged.response.text
        self._keep(call.id, judged, opened.place)
        return CallRefusal(judged.response.text)

    async def end_call(
        self, wire: Mapping[str, Any], result: Mapping[str, Any]
    ) -> CallEnd | CallRefusal | None:
        """Return the end of the call in *wire* with its *result*; None: it is not known yet."""
        call = read_call(wire)
        response = replace(read_value(result["value"]), is_error=result["is_error"])
        opened = self._take_open(call)
        if opened is None and call.id in self._refused:
            logger.warning("the host ran tool call %s, although it was denied", call.id)
            return CallRefusal(self._refused[call.id])
        if opened is not None and result["is_error"] and self._holds_failures:
            self._failed[call.id].append((opened, result["value"]))
            return None
        if opened is None:
            # An interceptor before this one has ended the composition, or it was registered late.
            logger.warning("tool call %s ran unjudged; its result is judged with it", call.id)
            self._next_place(call.id)
            return await self._judge_late(call, response)
        return await opened.end(response)

    def _take_open(self, call: ToolCall) -> OpenCall | None:
        """Return the call with the id of *call* and the most similar arguments, or None."""
        opened = self._open.pop(call.id, [])
        if not opened:
            return None
        alike = [each for each in opened if each.call.name == call.name]
        same = [each for each in alike if not changed(each.arguments, call.arguments)]
        ended = [*same, *alike, *opened][0]
        if others := [each for each in opened if each is not ended]:
            self._open[call.id] = others
        return ended

    def value_of(self, end: CallEnd, value: Any) -> Any:
        """Return the result of *end* in the form of *value*, the tool's own."""
        return end.response.text if isinstance(value, str) else wire_value(end.response)


def _failure(text: str) -> ToolResponse:
    return ToolResponse.from_text(text, is_error=True, error_type="error")
