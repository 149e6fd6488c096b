"""A provider of models on a loopback port: three wires over real HTTP, answers in a given order."""

import asyncio
import json
from dataclasses import dataclass, field

from tests.servers import wire_shapes as shapes

WIRES = {
    "/v1/chat/completions": (shapes.chat_completion, shapes.chat_chunks),
    "/v1/responses": (shapes.response, shapes.response_events),
    "/v1/messages": (shapes.anthropic_message, shapes.anthropic_events),
}


@dataclass
class Reply:
    """An answer that is none of a model: an error, bytes that are cut, nothing at all."""

    status: int = 200
    body: object = b""
    headers: dict = field(default_factory=dict)
    # The connection is cut after the last event, unless that ends the stream or *error* follows.
    events: list | None = None
    error: dict | None = None
    # Nothing more is sent, and the connection stays.
    hangs: bool = False
    # The connection is cut after so many bytes of the body.
    cut_at: int | None = None


@dataclass
class Seen:
    """A request as it came."""

    path: str
    headers: dict
    body: dict
    text: str = ""


class FakeProvider:
    """Answers each request with the next of *answers*: items, as `wire_shapes` says, or a `Reply`.

    A function in their place makes one of each request. Streams come in chunks of *chunk* bytes,
    with a comment that keeps alive between events.
    """

    def __init__(self, answers, *, chunk=7):
        self.answers, self.chunk = answers if callable(answers) else list(answers), chunk
        self.requests, self.gone = [], asyncio.Event()
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader, writer):
        """Answer a request; return whether the connection may have another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        data = await reader.readexactly(int(headers.get("content-length", 0)))
        seen = Seen(first.split(" ")[1], headers, json.loads(data), data.decode())
        self.requests.append(seen)
        answer = self._next(seen)
        if isinstance(answer, Reply):
            return await self._reply(reader, writer, answer, seen)
        whole, events = WIRES[seen.path]
        facts = {"model": seen.body["model"], "message_id": f"answer_{len(self.requests)}"}
        if seen.body.get("stream"):
            reply = Reply(events=events(answer, **facts))
            return await self._reply(reader, writer, reply, seen)
        reply = Reply(body=whole(answer, **facts))
        return await self._reply(reader, writer, reply, seen)

    def _next(self, seen):
        if callable(self.answers):
            return self.answers(seen)
        return self.answers.pop(0) if self.answers else Reply(500, b"no answer is left")

    async def _reply(self, reader, writer, reply, seen):
        if reply.hangs:
            if reply.events is not None:
                await self._stream(writer, reply, seen.path)
            await reader.read()
            self.gone.set()
            return False
        if reply.events is not None:
            return await self._stream(writer, reply, seen.path)
        data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        lines = [
            f"HTTP/1.1 {reply.status} X",
            f"content-length: {len(data)}",
            "content-type: application/json",
            *[f"{name}: {value}" for name, value in reply.headers.items()],
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + data[: reply.cut_at])
        await writer.drain()
        return reply.cut_at is None

    async def _stream(self, writer, reply, path):
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        named = "chat" not in path
        data = b"".join([b": keep-alive\n\n" + sent(event, named=named) for event in reply.events])
        is_whole = reply.events and is_end(reply.events[-1])
        if reply.error is not None:
            data += sent(reply.error, named=named)
        if not named and is_whole:
            data += b"data: [DONE]\n\n"
        for start in range(0, len(data), self.chunk):
            piece = data[start : start + self.chunk]
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if not is_whole and reply.error is None:
            return False  # Cut off, without the last chunk.
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def is_end(event):
    """Tell whether *event* is the last of its stream."""
    kinds = {"message_stop", "response.completed", "response.incomplete"}
    return event.get("type") in kinds or event.get("choices") == []


def sent(event, *, named):
    """Return *event* as server-sent, with the line ends that servers use."""
    name = f"event: {event['type']}\n" if named else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()
