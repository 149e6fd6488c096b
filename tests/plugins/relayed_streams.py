"""The proxy as a relay, between a server that writes what it likes and a client that reads on."""

import asyncio
import json
import zlib
from contextlib import asynccontextmanager

from judged_sessions import TOOLS, Passed
from toolbus.hosts.mcp import Limits, read_url
from toolbus.hosts.mcp.web.forwarding import Upstream
from toolbus.hosts.mcp.web.relay import Relay
from toolbus.hosts.mcp.web.visits import Visit

SECONDS = 30
JSON = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Relayed:
    """A relay of *proxy* in front of a server that gives *reply*, one of `hostile_streams`."""

    def __init__(self, judge):
        self._judge, self.reply = judge, None
        self.relay = None

    async def serve(self, reader, writer):
        """Answer one request, and close."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        size = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        body = json.loads(await reader.readexactly(size) or b"{}")
        if body.get("method") == "tools/list":
            listed = {"jsonrpc": "2.0", "id": body["id"], "result": {"tools": TOOLS}}
            await self._write(writer, "application/json", "", [json.dumps(listed).encode()])
        else:
            await self._write(writer, *self.reply)
        writer.close()

    async def _write(self, writer, kind, coding, pieces):
        coded = f"content-encoding: {coding}\r\n" if coding else ""
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{coded}connection: close\r\n"
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for piece in pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")
        # Whoever has heard enough goes.
        try:
            await writer.drain()
        except ConnectionError:
            pass

    async def answer(self, own, reply):
        """Let the server answer the call *own* with *reply*; return what passed, and its kind."""
        self._judge.forget()
        self.reply = reply
        params = {"name": "read", "arguments": {}}
        call = {"jsonrpc": "2.0", "id": own, "method": "tools/call", "params": params}
        head, body = await self._visit(json.dumps(call).encode())
        judged, texts = list(self._judge.calls), frozenset(self._judge.texts)
        named = {name.decode().lower(): value.decode("latin-1") for name, value in head}
        data = decoded(body, named.get("content-encoding", ""))
        return named.get("content-type", ""), Passed(judged, texts, b"", data)

    async def _visit(self, body):
        sent, fields, taken = [], [], asyncio.Event()

        async def receive():
            if not taken.is_set():
                taken.set()
                return {"type": "http.request", "body": body, "more_body": False}
            await asyncio.Event().wait()

        async def send(message):
            fields.extend(message.get("headers", ()))
            sent.append(message.get("body", b""))

        headers = [(name.encode(), value.encode()) for name, value in JSON.items()]
        scope = {"method": "POST", "path": "/mcp", "query_string": b"", "headers": headers}
        visit = Visit(scope, receive, send)
        await visit.read(2**24, SECONDS)
        async with asyncio.timeout(SECONDS):
            await self.relay.take(visit)
        return fields, b"".join(sent)


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
        upstream = Upstream(read_url(f"http://127.0.0.1:{port}/mcp"), Limits())
        found.relay = Relay(proxy, upstream, most=100, idle=10)
        try:
            yield found
        finally:
            await found.relay.close(1)
