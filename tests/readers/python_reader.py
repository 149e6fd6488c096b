"""What the official Python SDK reads: each line of input is bytes, each of output what they say.

A line is `server`, `client`, `stream` or `body`, and the bytes, in hex, a stream's in pieces. The
answer is a JSON object: by each way of reading, the list of messages.
"""

import asyncio
import io
import json
import logging
import sys
from contextlib import suppress

import anyio
import httpx2
import pydantic_core
from anyio.streams.text import TextReceiveStream
from mcp.client.stdio import _parse_line
from mcp.server.stdio import stdio_server
from mcp_types import CallToolRequestParams, jsonrpc_message_adapter

STREAM = {"content-type": "text/event-stream"}


class Lines:
    """The lines of standard input as `stdio_server` has them, but read without a thread."""

    def __init__(self, data):
        self._text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace")

    async def __aiter__(self):
        for line in self._text:
            yield line


class Pieces(anyio.abc.ByteReceiveStream):
    """The bytes that a process has written."""

    def __init__(self, *pieces):
        self._pieces = list(pieces)

    async def receive(self, max_bytes=65536):
        if not self._pieces:
            raise anyio.EndOfStream
        return self._pieces.pop(0)

    async def aclose(self):
        pass


def read(message):
    """Return *message* as an application sees it."""
    seen = message.model_dump(by_alias=True, exclude_unset=True)
    if seen.get("method") == "tools/call":
        try:
            params = CallToolRequestParams.model_validate(seen.get("params") or {}, by_name=False)
            seen["call"] = {"name": params.name, "arguments": params.arguments or {}}
        except ValueError:
            pass
    return seen


async def by_server(data):
    """Read as `stdio_server` does."""
    async with stdio_server(Lines(data), anyio.wrap_file(io.StringIO())) as (lines, answers):
        found = [read(one.message) async for one in lines if not isinstance(one, Exception)]
        await answers.aclose()
    return found


def by_posts(data):
    """Read each line as `StreamableHTTPServerTransport` reads the body of a request."""
    found = []
    for body in data.split(b"\n"):
        try:
            message = pydantic_core.from_json(body)
            found.append(read(jsonrpc_message_adapter.validate_python(message, by_name=False)))
        except ValueError:
            pass
    return found


def by_body(data):
    """Read as `streamable_http_client` reads an answer that is no stream."""
    return messages([("message", data)])


async def by_client(data):
    """Read as `stdio_client` does."""
    found, buffer = [], ""
    try:
        async for chunk in TextReceiveStream(Pieces(data), encoding="utf-8", errors="strict"):
            lines = (buffer + chunk).split("\n")
            buffer = lines.pop()
            for line in lines:
                one = _parse_line(line)
                if not isinstance(one, Exception):
                    found.append(read(one.message))
    except UnicodeDecodeError:
        pass
    return found


async def by_events(pieces):
    """Read as the client of the SDK reads a stream."""

    async def content():
        for piece in pieces:
            yield piece

    events = httpx2.EventSource(
        httpx2.Response(200, headers=STREAM, content=content(), request=REQUEST)
    )
    return messages([(one.event, one.data) async for one in events])


def by_older_events(pieces):
    """Read as httpx-sse 0.4.0 does, with which older clients work: lines as `str` has them."""
    found, event, data = [], "", []
    for line in b"".join(pieces).decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                found.append((event or "message", "\n".join(data)))
            event, data = "", []
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)
    return messages(found)


def messages(events):
    """Return what the *events*, each a name and its data, say."""
    found = []
    for name, data in events:
        if name == "message" and data:
            with suppress(ValueError):
                found.append(read(jsonrpc_message_adapter.validate_json(data, by_name=False)))
    return found


async def take(mode, pieces):
    """Return what *pieces* say, by each way of reading."""
    data = b"".join(pieces)
    if mode == "server":
        return {"lines": await by_server(data), "posts": by_posts(data)}
    if mode == "client":
        return {"lines": await by_client(data)}
    if mode == "body":
        return {"body": by_body(data)}
    return {"events": await by_events(pieces), "older": by_older_events(pieces)}


async def main():
    logging.disable()
    for line in sys.stdin:
        mode, _, said = line.strip().partition(" ")
        read_ = await take(mode, [bytes.fromhex(one) for one in said.split(",")])
        print(json.dumps(read_), flush=True)


REQUEST = httpx2.Request("POST", "http://127.0.0.1/")

if __name__ == "__main__":
    asyncio.run(main())
