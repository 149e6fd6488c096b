"""The proxy as a relay: between hostile bodies and a server, hostile answers and a client."""

import asyncio
import json
import zlib
from contextlib import asynccontextmanager, suppress

from judged_sessions import TOOLS, Passed, frames_of
from toolbus.http.client import HttpClient
from toolbus.http.server import HttpRequest
from toolbus.http.urls import read_url
from toolbus.mcp.http.failures import HttpError
from toolbus.mcp.http.relay import Relay
from toolbus.mcp.http.upstream import Upstream
from toolbus.mcp.transport.limits import ProxyLimits

SECONDS = 60
JSON = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class KeptRequest(HttpRequest):
    """A request whose answer is kept: its headers, and the pieces of its body."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.sent_fields, self.sent = [], []

    async def begin(self, _status, fields, data=b"", *, ends=False):
        self.has_begun, self.sent_fields = True, list(fields)
        await self.write(data, ends=ends)

    async def write(self, data, *, ends=False):
        self.has_ended = ends
        self.sent.append(data)


class Relayed:
    """A *relay* in front of a server that gives a reply of `hostile_streams`, else an empty one."""

    def __init__(self, judge):
        self._judge, self._reply, self._bodies = judge, None, []
        self.relay = None

    async def serve(self, reader, writer):
        """Answer one request, and close."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        body = await reader.readexactly(size)
        self._bodies.append(body)
        frame = next(iter(frames_of(body)), {})
        if self._reply is not None and frame.get("method") != "tools/list":
            await self._write(writer, *self._reply)
        else:
            answer = {"jsonrpc": "2.0", "id": frame.get("id"), "result": {"tools": TOOLS}}
            await self._write(writer, "application/json", "", [json.dumps(answer).encode()])
        writer.close()

    async def _write(self, writer, kind, coding, pieces):
        coded = f"content-encoding: {coding}\r\n" if coding else ""
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{coded}connection: close\r\n"
        said = [f"{head}transfer-encoding: chunked\r\n\r\n".encode()]
        said += [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
        writer.write(b"".join([*said, b"0\r\n\r\n"]))
        # Whoever has heard enough goes.
        with suppress(ConnectionError):
            await writer.drain()

    async def answer(self, request_id, reply):
        """Let the server answer a call with *reply*; return the kind of what passed, and that."""
        self._begin(reply)
        params = {"name": "read", "arguments": {}}
        call = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        head, body = await self._visit(json.dumps(call).encode(), JSON)
        named = {name.lower(): value for name, value in head}
        data = decoded(body, named.get("content-encoding", ""))
        return named.get("content-type", ""), self._passed(data)

    async def post(self, body, headers):
        """Let a client post *body*; return what passed, to the client None if it was refused."""
        self._begin(None)
        try:
            _, answer = await self._visit(body, JSON | headers)
        except HttpError:
            answer = None
        return self._passed(answer)

    def _begin(self, reply):
        self._judge.forget()
        self._reply, self._bodies = reply, []

    def _passed(self, data):
        judge = self._judge
        return Passed(list(judge.calls), frozenset(judge.texts), b"\n".join(self._bodies), data)

    async def _visit(self, body, named):
        request = KeptRequest("POST", "/mcp", named.items())
        request.body = body
        try:
            async with asyncio.timeout(SECONDS):
                await self.relay.answer(request)
        except TimeoutError:
            raise AssertionError(f"no answer to {body[:1000]!r} under {named}") from None
        return request.sent_fields, b"".join(request.sent)


def decoded(body, coding):
    """Return *body* as clients read it that has the *coding*; they know gzip and deflate."""
    if coding not in {"gzip", "deflate"}:
        return body
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body)
    except zlib.error:
        return b""


@asynccontextmanager
async def relayed(proxy, judge):
    """Give a `Relayed` whose server listens."""
    found = Relayed(judge)
    async with await asyncio.start_server(found.serve, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        upstream = Upstream(HttpClient(), read_url(f"http://127.0.0.1:{port}/mcp"), ProxyLimits())
        found.relay = Relay(proxy, upstream, limit=100, idle=10)
        try:
            yield found
        finally:
            await found.relay.close()
