"""HTTP servers whose answers a function gives, and a proxy that listens in front of one."""

import asyncio
import json
import re
import signal
import sys
from contextlib import asynccontextmanager, suppress

import httpx2

from toolbus.http.client import HttpClient, Timeouts
from toolbus.http.urls import read_url

SECONDS = 60


def http(body=b"", kind="application/json", status="200 OK", **more):
    """Return an HTTP answer; a body that is no bytes is JSON."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in more.items())
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{named}"
    return head.encode() + b"\r\n" + body


@asynccontextmanager
async def http_stub(take, port=0):
    """Give the origin of a server, and a list of the (method, target, headers, body) it saw.

    *take* gets each of them, and returns the bytes of the answer.
    """
    seen, open_writers, serving = [], set(), set()

    async def serve(reader, writer):
        open_writers.add(writer)
        serving.add(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split()
                pairs = [line.split(": ", 1) for line in head[1:] if line]
                headers = {name.lower(): value for name, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                seen.append((method, target, headers, body))
                writer.write(take(*seen[-1]))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
        finally:
            for writer in open_writers:
                writer.close()
            await asyncio.gather(*serving)


@asynccontextmanager
async def answering(*answers):
    """Serve each of *answers* in turn, the last one again; give the address and the requests."""
    heads, left = [], list(answers)

    async def serve(reader, writer):
        with suppress(asyncio.IncompleteReadError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield read_url(f"http://user@127.0.0.1:{port}/mcp?a=b"), heads


@asynccontextmanager
async def got(url):
    """Give the answer of *url* to a GET."""
    reply = await HttpClient().send(url, "GET", [("x-more", "1")], b"", Timeouts(5, 5))
    yield reply
    reply.close()
    await asyncio.sleep(0)


class Listening:
    """A proxy at *url*, an HTTP client of it, and what it has *said* on standard error."""

    def __init__(self, process, http, lines):
        self.process, self.http, self.lines, self.url = process, http, lines, ""

    @property
    def said(self):
        return "".join(self.lines)

    async def until(self, words):
        """Wait until standard error says *words*."""
        async with asyncio.timeout(SECONDS):
            while words not in self.said:
                await asyncio.sleep(0.02)

    async def post(self, method="ping", params=None, own=1, **headers):
        """Return the answer to a JSON-RPC request."""
        frame = {"jsonrpc": "2.0", "id": own, "method": method, "params": params or {}}
        both = {"accept": "application/json, text/event-stream"}
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return await self.http.post(self.url, json=frame, headers=both | named)


@asynccontextmanager
async def listening(environment, folder, *options, port=0):
    """Give a proxy with *options* that listens."""
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "toolbus", "proxy", "--listen", f"127.0.0.1:{port}"],
        *map(str, options),
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    lines = []

    async def read():
        while line := await process.stderr.readline():
            lines.append(line.decode())

    reading = asyncio.create_task(read())
    async with httpx2.AsyncClient(timeout=SECONDS) as client:
        web = Listening(process, client, lines)
        try:
            await web.until("listening on ")
            web.url = re.search(r"listening on (\S+)", web.said)[1]
            yield web
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), SECONDS)
            await reading
