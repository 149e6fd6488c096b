"""What an event of a coding agent's hook costs, from the start of its process to its end."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING

from benchmarks.harness import Rig, table
from toolbus.hosts.dialects import dialect
from toolbus.hosts.install.client_files import SCRIPT, ClientSettings, client_files, write_files

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "gemini-cli"
WARM, LOCAL, PLAIN = "with a worker", "without a worker", "socket and json"
BARE, NOTHING = "what concerns nobody", "python -I -S -c pass"
_ROUNDS = 100
_TOKEN = "ghp_" + "x7Kp2mQ9vR4tY8wZ1nB6cD3fG5hJ0lS2aE4u"
_CONFIG = """
[[component]]
use = "policy"

[[component]]
use = "redact-secrets"
"""
_UNHEARD = "Notification"
_PLAIN = """
import json, socket, sys
event = json.load(sys.stdin)
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
link.sendall(json.dumps(event).encode() + b"\\n")
answer = json.loads(link.makefile("rb").readline())
json.dump(answer, sys.stdout)
"""


@table("ms", ours=WARM, baseline=PLAIN)
def bench_hooks(rig: Rig) -> None:
    """With a worker an event takes at most 3 times as long as a hook of `socket` and `json`."""
    rig.lacks |= {
        PLAIN: "policy, redaction, a record",
        BARE: "policy, redaction, a record",
        NOTHING: "everything",
    }
    with tempfile.TemporaryDirectory(prefix="hooks-") as name, _answering(Path(name)) as plain:
        warm = _installed(Path(name, "warm"), workers=True)
        commands = {
            WARM: warm,
            LOCAL: _installed(Path(name, "local"), workers=False),
            PLAIN: plain,
            # The same client and worker, and an event that no component hears of.
            BARE: [*warm[:-1], _UNHEARD],
            NOTHING: [sys.executable, "-I", "-S", "-c", "pass"],
        }
        took: dict[str, list[float]] = {name: [] for name in commands}
        _await_worker(Path(name, "warm"), commands[WARM])
        for _ in range(2 if rig.once else _ROUNDS):
            for contender, command in commands.items():
                checked = contender not in {BARE, NOTHING}
                took[contender].append(_seconds(command, Path(name), checked=checked))
    for contender, times in took.items():
        rig.put("p50", contender, None if rig.once else statistics.median(times) * 1e3)
        p95 = statistics.quantiles(times, n=20)[18] * 1e3
        rig.put("p95", contender, None if rig.once else p95)


def _installed(folder: Path, *, workers: bool) -> list[str]:
    """Install a client with a policy and redaction in *folder*; return its command."""
    folder.mkdir(mode=0o700)
    (folder / "toolbus.toml").write_text(_CONFIG)
    if not workers:
        (folder / "sockets").write_text("")
    settings = ClientSettings(
        python=sys.executable,
        search_path=tuple(each for each in sys.path if each.startswith("/")),
        version="1",
        variables={"HOME": str(folder), "PATH": os.environ["PATH"]},
        sockets=str(folder / "sockets"),
        store=str(folder / "state" / "hooks.db"),
        config=str(folder / "toolbus.toml"),
        idle=60.0,
    )
    blocks = {"AfterTool": dialect(HOST).fail_closed_answer("AfterTool", None, "unreadable")}
    write_files(folder / "hooks", client_files(settings, HOST, blocks))
    return [sys.executable, "-I", "-S", str(folder / "hooks" / SCRIPT), HOST, "AfterTool"]


def _event(folder: Path, name: str) -> bytes:
    """Return what a host says, as the event *name*, of a command that printed files and a token."""
    text = "".join(f"src/module_{n}.py:{n}: def function_{n}(value):\n" for n in range(40))
    event = {
        "session_id": "bench",
        "transcript_path": "",
        "cwd": str(folder),
        "hook_event_name": name,
        "timestamp": "2026-11-20T10:00:00Z",
        "tool_name": "run_shell_command",
        "tool_input": {"command": "grep -rn 'def ' src"},
        "tool_response": {"llmContent": f"{text}export GITHUB_TOKEN={_TOKEN}\n"},
    }
    return json.dumps(event).encode()


def _seconds(command: list[str], folder: Path, *, checked: bool = True) -> float:
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    event = _event(folder, _UNHEARD if command[-1] == _UNHEARD else "AfterTool")
    since = perf_counter()
    done = subprocess.run(  # noqa: S603 - our own code
        command, input=event, capture_output=True, check=True, cwd=folder, env=plain
    )
    took = perf_counter() - since
    assert not checked or b"GITHUB_TOKEN" in done.stdout, done
    assert _TOKEN.encode() not in done.stdout, done
    return took


def _await_worker(folder: Path, command: list[str]) -> None:
    """Send events until the worker that the first one starts is there."""
    for _ in range(600):
        _seconds(command, folder.parent)
        if any(path.is_socket() for path in (folder / "sockets").iterdir()):
            return
        sleep(0.05)
    raise AssertionError("no worker came")


@contextmanager
def _answering(folder: Path) -> Iterator[list[str]]:
    """Give the command of a hook that a thread of this process answers."""
    (folder / "hook.py").write_text(_PLAIN)
    answer = {"decision": "deny", "reason": "export GITHUB_TOKEN=***"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "plain"))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                with link, link.makefile("rwb") as stream:
                    json.loads(stream.readline())
                    stream.write(json.dumps(answer).encode() + b"\n")

        threading.Thread(target=serve, daemon=True).start()
        yield [sys.executable, str(folder / "hook.py"), str(folder / "plain")]
        listener.shutdown(socket.SHUT_RDWR)
