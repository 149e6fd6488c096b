"""What the MCP proxy adds to a call over pipes, to a start, and to memory."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.harness import Rig, table

if TYPE_CHECKING:
    from collections.abc import Iterator

DIRECT, FORWARDER, FASTMCP = "no proxy", "byte forwarder", "fastmcp proxy"
BARE, JUDGED = "toolbus proxy", "3 adapters, guard"
SHIPPED = "redaction, truncation, guard"
_PIPES = Path(__file__).parent / "pipes"
_SERVER = [sys.executable, str(_PIPES / "server.py")]
_PROXY = [sys.executable, "-m", "toolbus", "proxy"]
_WITH = ["--with", f"{_PIPES / 'handlers.py'}:Policy"]
_SHIPPED = ("shipped.py:RedactSecrets", "shipped.py:TruncateOutput", "handlers.py:Guard")
COMMANDS = {
    DIRECT: _SERVER,
    FORWARDER: [sys.executable, str(_PIPES / "forwarder.py"), *_SERVER],
    BARE: [*_PROXY, "--", *_SERVER],
    JUDGED: [*_PROXY, *_WITH, "--", *_SERVER],
    SHIPPED: [*_PROXY, *[f"--with={_PIPES / name}" for name in _SHIPPED], "--", *_SERVER],
}
_TURNS, _PIECE, _STARTS = 12, 200, 9


@table("µs", ours=BARE, baseline=FORWARDER)
def bench_proxy(rig: Rig) -> None:
    """A call takes at most 1.5 times as long as through a byte forwarder, judged at most twice."""
    rig.lacks |= {DIRECT: "everything", FORWARDER: "frames, handlers, failures"}
    commands = {**COMMANDS}
    if importlib.util.find_spec("fastmcp") is None:
        rig.absent[FASTMCP] = "not installed"
    else:
        commands[FASTMCP] = [sys.executable, str(_PIPES / "fastmcp_proxy.py"), *_SERVER]
        rig.lacks[FASTMCP] = "handlers; bytes as they came"
    took: dict[str, list[float]] = {name: [] for name in commands}
    with ExitStack() as opened:
        clients = {name: opened.enter_context(started(one)) for name, one in commands.items()}
        for client in clients.values():
            greet(client)
        for _ in range(1 if rig.once else _TURNS):
            for name, client in clients.items():
                took[name] += [call(client) for _ in range(2 if rig.once else _PIECE)]
    p50 = {name: statistics.median(times) * 1e6 for name, times in took.items()}
    for name, times in took.items():
        rig.put("p50", name, None if rig.once else p50[name])
        rig.put("p99", name, None if rig.once else statistics.quantiles(times, n=100)[98] * 1e6)
        if name != DIRECT:
            rig.put("over no proxy", name, None if rig.once else p50[name] - p50[DIRECT])


@table("ms", ours=BARE, baseline=FORWARDER)
def bench_proxy_start(rig: Rig) -> None:
    """From the start to the first answer it takes at most 1.5 times as long as the forwarder."""
    took: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(1 if rig.once else _STARTS):
        for name, command in COMMANDS.items():
            since = perf_counter()
            with started(command) as client:
                call(client)
                took[name].append(perf_counter() - since)
    for name, times in took.items():
        rig.put("first answer", name, None if rig.once else statistics.median(times) * 1e3)


@table("MB", ours=BARE, baseline=None)
def bench_proxy_memory(rig: Rig) -> None:
    """Memory stays flat over calls."""
    for name in (BARE, JUDGED):
        with started(COMMANDS[name]) as client:
            for count in (2,) if rig.once else (2_000, 98_000):
                for _ in range(count):
                    call(client)
                row = f"after {count:,} more calls"
                rig.put(row, name, None if rig.once else _resident(client.pid))


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Give the process of *command*, with pipes for input and output, until the block ends."""
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(  # noqa: S603 - our own code
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=plain,
    ) as client:
        yield client
        assert client.stdin is not None
        client.stdin.close()


def greet(client: subprocess.Popen[bytes]) -> None:
    """Open the session: one of these proxies refuses calls before."""
    own = {"name": "bench", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": own}
    _ask(client, _line(id=0, method="initialize", params=params))
    assert client.stdin is not None
    client.stdin.write(_line(method="notifications/initialized"))


def call(client: subprocess.Popen[bytes]) -> float:
    """Return the seconds of a call."""
    params = {"name": "echo", "arguments": {"text": "x" * 100}}
    return _ask(client, _line(id=1, method="tools/call", params=params))


def _line(**frame: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n"


def _ask(client: subprocess.Popen[bytes], line: bytes) -> float:
    """Return how many seconds it took until *line* was answered."""
    assert client.stdin is not None
    assert client.stdout is not None
    since = perf_counter()
    client.stdin.write(line)
    client.stdin.flush()
    answer = client.stdout.readline()
    took = perf_counter() - since
    assert "result" in json.loads(answer), answer
    return took


def _resident(pid: int) -> float:
    """Return the megabytes of memory that the process *pid* holds."""
    done = subprocess.run(  # noqa: S603 - our own words
        ["ps", "-o", "rss=", "-p", str(pid)],  # noqa: S607 - wherever it is
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) / 1024
