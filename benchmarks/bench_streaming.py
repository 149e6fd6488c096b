"""What a piece of a streamed answer costs: what the SDK spends on it, and what is added to that.

All read the same bytes, from memory. Each figure is a slope, per piece of text: what a request and
its end cost is not in it. The rows are the wires. "SDK events" is the SDK's stream of plain JSON,
on which our models stand; "SDK types" the one that people iterate over; "SDK helper" the one that
also keeps the whole answer, as we do. "added" is what stands between the SDK and the caller.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.harness import OURS, Contender, Figure, Rig, table
from toolbus import Agent
from toolbus.events import ModelDelta

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

EVENTS, TYPES, HELPER, ADDED = "SDK events", "SDK types", "SDK helper", "added"
FEW, MANY = 50, 350
ADDRESS = "http://127.0.0.1:1"
ASKED = [{"role": "user", "content": "go"}]


@table("µs", baseline=TYPES)
def bench_streaming(rig: Rig) -> None:
    """What we add to a piece is at most half of what the SDK's typed stream spends on it."""
    for name, wire in (("chat", Chat), ("messages", Messages)):
        for count in (FEW, MANY):
            rig.race(f"{name} {count}", _builds(wire, count), rounds=20)
    if rig.once:
        return
    ns = {(one.row, one.contender): one.value or 0.0 for one in rig.figures}
    rig.figures = []
    for name in ("chat", "messages"):
        for contender in (EVENTS, TYPES, HELPER, OURS):
            cost = ns[f"{name} {MANY}", contender] - ns[f"{name} {FEW}", contender]
            rig.figures.append(Figure(name, contender, cost / (MANY - FEW) / 1e3))
        value = {one.contender: one.value or 0.0 for one in rig.figures if one.row == name}
        rig.put(name, ADDED, value[OURS] - value[EVENTS])


def _builds(wire: Any, count: int) -> Iterator[tuple[str, Callable[[], Contender]]]:
    for name, way in ((EVENTS, "events"), (TYPES, "types"), (HELPER, "helper"), (OURS, "ours")):
        yield name, partial(_contender, name, wire, way, count)


def _contender(name: str, wire: Any, way: str, count: int) -> Contender:
    consume: Callable[[], Awaitable[int]] = getattr(wire(count), way)
    lacks = {EVENTS: "the answer, types", TYPES: "the answer"}.get(name, "")
    return Contender(
        name, "assert await consume() >= count", {"consume": consume, "count": count}, lacks
    )


def _body(events: list[dict[str, Any]], *, named: bool) -> bytes:
    """Return server-sent events, as the wires have them."""
    lines = [
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n"
        for event in events
    ]
    return "".join([*lines, "" if named else "data: [DONE]\n\n"]).encode()


async def _pieces(model: Any) -> int:
    """Stream *model*'s answer through an agent; return how many pieces came."""
    return sum([isinstance(piece, ModelDelta) async for piece in Agent(model).stream("go")])


class Chat:
    """Chat completions of *count* pieces, through the SDK of OpenAI."""

    def __init__(self, count: int) -> None:
        import httpx  # noqa: PLC0415 - as below: of an extra
        import openai  # noqa: PLC0415

        from toolbus.models import OpenAIModel  # noqa: PLC0415

        head = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        deltas = [{"role": "assistant", "content": ""}, *[{"content": "word "}] * count, {}]
        events = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas
        ]
        events[-1]["choices"][0]["finish_reason"] = "stop"
        body = _body(events, named=False)
        headers = {"content-type": "text/event-stream"}
        transport = httpx.MockTransport(
            lambda _: httpx.Response(200, headers=headers, content=body)
        )
        http = httpx.AsyncClient(transport=transport)
        self._sdk, self._object = openai, openai.AsyncStream[object]
        self._client = openai.AsyncOpenAI(api_key="none", base_url=ADDRESS, http_client=http)
        self._model = OpenAIModel("m", api="chat", base_url=ADDRESS)
        self._model._connect = lambda: self._client  # type: ignore[method-assign]  # noqa: SLF001 - no sockets

    async def events(self) -> int:
        """Read the events as plain JSON; return how many there are."""
        create = self._client.chat.completions.with_raw_response.create
        raw = await create(model="m", messages=ASKED, stream=True)
        return len([event async for event in raw.parse(to=self._object)])

    async def types(self) -> int:
        """Read the events in the SDK's types; return how many there are."""
        stream = await self._client.chat.completions.create(model="m", messages=ASKED, stream=True)
        return len([event async for event in stream])

    async def helper(self) -> int:
        """Read with the helper that keeps the answer; return how many events it gave."""
        async with self._client.chat.completions.stream(model="m", messages=ASKED) as stream:
            return len([event async for event in stream])

    async def ours(self) -> int:
        """Stream through an agent; return how many pieces came."""
        return await _pieces(self._model)


class Messages:
    """Messages of *count* pieces, through the SDK of Anthropic."""

    def __init__(self, count: int) -> None:
        import anthropic  # noqa: PLC0415 - as below: of an extra

        from toolbus.models import AnthropicModel  # noqa: PLC0415

        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "a", "type": "message", "role": "assistant", "model": "m", "content": []}
        delta = {"type": "text_delta", "text": "word "}
        block = {"type": "text", "text": ""}
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        events = [
            {"type": "message_start", "message": {**message, **end, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            *[{"type": "content_block_delta", "index": 0, "delta": delta}] * count,
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": usage},
            {"type": "message_stop"},
        ]
        body = _body(events, named=True)
        headers = {"content-type": "text/event-stream"}
        # The library for HTTP that the SDK has.
        client = anthropic.DefaultAsyncHttpxClient
        web = __import__(client.__mro__[1].__module__.partition(".")[0])
        transport = web.MockTransport(lambda _: web.Response(200, headers=headers, content=body))
        http = web.AsyncClient(transport=transport)
        self._object = anthropic.AsyncStream[object]
        self._client = anthropic.AsyncAnthropic(api_key="none", base_url=ADDRESS, http_client=http)
        self._model = AnthropicModel("m", base_url=ADDRESS)
        self._model._connect = lambda: self._client  # type: ignore[method-assign]  # noqa: SLF001 - no sockets

    async def events(self) -> int:
        """Read the events as plain JSON; return how many there are."""
        create = self._client.messages.with_raw_response.create
        raw = await create(model="m", messages=ASKED, max_tokens=9, stream=True)
        return len([event async for event in await raw.parse(to=self._object)])

    async def types(self) -> int:
        """Read the events in the SDK's types; return how many there are."""
        create = self._client.messages.create
        stream = await create(model="m", messages=ASKED, max_tokens=9, stream=True)
        return len([event async for event in stream])

    async def helper(self) -> int:
        """Read with the helper that keeps the answer; return how many events it gave."""
        async with self._client.messages.stream(model="m", messages=ASKED, max_tokens=9) as stream:
            return len([event async for event in stream])

    async def ours(self) -> int:
        """Stream through an agent; return how many pieces came."""
        return await _pieces(self._model)
