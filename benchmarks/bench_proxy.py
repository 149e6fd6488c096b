"""What the MCP proxy adds to a call over pipes, to a start, and to memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.harness import Rig, table

if TYPE_CHECKING:
    from collections.abc import Iterator

FORWARDER, BARE, JUDGED = "byte forwarder", "toolbus proxy", "3 adapters, guard"
_PIPES = Path(__file__).parent / "pipes"
_SERVER = [sys.executable, str(_PIPES / "server.py")]
_PROXY = [sys.executable, "-m", "toolbus", "proxy"]
_WITH = ["--with", f"{_PIPES / 'handlers.py'}:Policy"]
_COMMANDS = {
    "no proxy": _SERVER,
    FORWARDER: [sys.executable, str(_PIPES / "forwarder.py"), *_SERVER],
    BARE: [*_PROXY, "--", *_SERVER],
    JUDGED: [*_PROXY, *_WITH, "--", *_SERVER],
}
_TURNS, _PIECE = 12, 200


@table("µs", ours=BARE, baseline=FORWARDER)
def bench_proxy(rig: Rig) -> None:
    """A call through the proxy takes at most 1.5 times as long as through a byte forwarder."""
    rig.lacks |= {"no proxy": "everything", FORWARDER: "frames, handlers, failures"}
    took: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    ends = {name: _started(command) for name, command in _COMMANDS.items()}
    clients = {name: end.__enter__() for name, end in ends.items()}
    for _ in range(1 if rig.once else _TURNS):
        for name, client in clients.items():
            times = [_call(client) for _ in range(2 if rig.once else _PIECE)]
            took[name] += times
    for end in ends.values():
        end.__exit__(None, None, None)
    for name, times in took.items():
        rig.put("p50", name, None if rig.once else statistics.median(times) * 1e6)
        rig.put("p99", name, None if rig.once else statistics.quantiles(times, n=100)[98] * 1e6)


@table("ms", ours=BARE, baseline=FORWARDER)
def bench_proxy_start(rig: Rig) -> None:
    """From the start to the first answer."""
    for name, command in _COMMANDS.items():
        times = []
        for _ in range(1 if rig.once else 5):
            since = perf_counter()
            with _started(command) as client:
                _call(client)
                times.append(perf_counter() - since)
        rig.put("first answer", name, None if rig.once else min(times) * 1e3)


@table("MB", ours=BARE, baseline=None)
def bench_proxy_memory(rig: Rig) -> None:
    """Memory stays flat over calls."""
    for name in (BARE, JUDGED):
        with _started(_COMMANDS[name]) as client:
            for count in (2,) if rig.once else (2_000, 98_000):
                for _ in range(count):
                    _call(client)
                row = f"after {count:,} more calls"
                rig.put(row, name, None if rig.once else _resident(client.pid))


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(  # noqa: S603 - our own code
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=plain
    ) as client:
        yield client
        assert client.stdin is not None
        client.stdin.close()


def _call(client: subprocess.Popen[bytes]) -> float:
    """Return how many seconds a call took."""
    params = {"name": "echo", "arguments": {"text": "x" * 100}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert client.stdin is not None
    assert client.stdout is not None
    since = perf_counter()
    client.stdin.write(line.encode() + b"\n")
    client.stdin.flush()
    answer = client.stdout.readline()
    assert b'"id": 1' in answer, answer
    return perf_counter() - since


def _resident(pid: int) -> float:
    """Return the megabytes of memory that the process *pid* holds."""
    done = subprocess.run(  # noqa: S603 - our own words
        ["ps", "-o", "rss=", "-p", str(pid)],  # noqa: S607 - wherever it is
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) / 1024
