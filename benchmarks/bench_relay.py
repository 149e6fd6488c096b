"""What the MCP proxy adds to a call over HTTP, in front of an address."""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchmarks.harness import Rig, table

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECT, FORWARDER = "no proxy", "TCP forwarder"
BARE, JUDGED = "toolbus relay", "3 adapters, guard"
_PIPES = Path(__file__).parent / "pipes"
_PROXY = [sys.executable, "-m", "toolbus", "proxy", "--listen", "0"]
_WITH = ["--with", f"{_PIPES / 'handlers.py'}:Policy"]
_TURNS, _PIECE = 12, 200
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@table("µs", ours=BARE, baseline=FORWARDER)
def bench_relay(rig: Rig) -> None:
    """A relay adds at most twice to a call what a TCP forwarder adds, and judging besides."""
    rig.lacks |= {DIRECT: "everything", FORWARDER: "requests, handlers, failures"}
    took: dict[str, list[float]] = {}
    with ExitStack() as opened:
        server = opened.enter_context(_started([sys.executable, str(_PIPES / "http_server.py")]))
        commands = {
            FORWARDER: [sys.executable, str(_PIPES / "tcp_forwarder.py"), server],
            BARE: [*_PROXY, "--", server],
            JUDGED: [*_PROXY, *_WITH, "--", server],
        }
        urls = {DIRECT: server}
        urls |= {name: opened.enter_context(_started(one)) for name, one in commands.items()}
        clients = {name: opened.enter_context(_connected(url)) for name, url in urls.items()}
        for name, client in clients.items():
            took[name] = []
            _begin(client)
        for _ in range(1 if rig.once else _TURNS):
            for name, client in clients.items():
                took[name] += [_call(client) for _ in range(2 if rig.once else _PIECE)]
    p50 = {name: statistics.median(times) * 1e6 for name, times in took.items()}
    for name, times in took.items():
        rig.put("p50", name, None if rig.once else p50[name])
        rig.put("p99", name, None if rig.once else statistics.quantiles(times, n=100)[98] * 1e6)
        if name != DIRECT:
            rig.put("over no proxy", name, None if rig.once else p50[name] - p50[DIRECT])


@contextmanager
def _started(command: list[str]) -> Iterator[str]:
    """Start a program that says where it listens; give the address."""
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(  # noqa: S603 - our own code
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=plain
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().split()[-1]
        finally:
            process.terminate()


@contextmanager
def _connected(url: str) -> Iterator[socket.socket]:
    there = urlsplit(url)
    with socket.create_connection((there.hostname, there.port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield client


def _begin(client: socket.socket) -> None:
    own = {"name": "bench", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": own}
    _ask(client, "initialize", params)


def _call(client: socket.socket) -> float:
    """Return how many seconds a call took."""
    return _ask(client, "tools/call", {"name": "echo", "arguments": {"text": "x" * 100}})


def _ask(client: socket.socket, method: str, params: dict) -> float:
    frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    body = json.dumps(frame).encode()
    head = (
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"accept: application/json, text/event-stream\r\nmcp-session-id: bench\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    )
    since = perf_counter()
    client.sendall(head + body)
    answer = b""
    while not _is_whole(answer):
        piece = client.recv(2**16)
        assert piece, "the connection has ended"
        answer += piece
    took = perf_counter() - since
    assert b'"result"' in answer, answer
    return took


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    return bool(end and found) and len(body) >= int(found[1])
