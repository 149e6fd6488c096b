"""The scenarios of `specs/proxy_log.md`."""

import asyncio
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from wires import PROXY, wired

pytestmark = pytest.mark.full  # Processes, a second each.

SECRET = "sk-canary-4242"
SERVER = """\
import json, sys
raw = open("raw.log", "ab", buffering=0)
def send(**members):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\\n")
    sys.stdout.flush()
for line in sys.stdin.buffer:
    raw.write(line)
    try:
        found = json.loads(line)
    except ValueError:
        continue
    for m in found if isinstance(found, list) else [found]:
        name = m.get("params", {}).get("name")
        if "id" not in m or name == "never":
            continue
        elif name == "refuses":
            send(id=m["id"], error={"code": -32602, "message": "no"})
        elif m["method"] == "tools/list":
            send(id=m["id"], result={"tools": []})
        else:
            send(id=m["id"], result={"content": [], "isError": name == "fails"})
"""
POLICY = """
    from toolbus import AgentComponent, Deny, events, guard

    class Policy(AgentComponent):
        @guard(events.TOOL_CALL_BEFORE)
        def judge(self, ctx):
            return Deny("no") if ctx.value.name == "rm" else None

        @guard(events.MCP_REQUEST_BEFORE)
        def judge_request(self, ctx):
            return Deny("no")
"""
FORM = re.compile(
    r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z session=[0-9A-Za-z-]{8} server=(?P<server>\S+)"
    r" method=(?P<method>\S+) name=(?P<name>\S+) outcome=(?P<outcome>\S+) ms=\d+\.\d"
    r" in=(?P<in>\d+) out=(?P<out>\d+)"
)


@pytest.fixture
def here(tmp_path, environment):
    folder = tmp_path / "here"
    (folder / "policy.py").write_text(dedent(POLICY))
    (folder / "server.py").write_text(SERVER)
    return folder


@pytest.fixture
def logged(here, environment):
    """Return a context manager: a wire to a proxy with *options*."""

    @asynccontextmanager
    async def run(*options):
        command = [*PROXY, *options, "--", sys.executable, "server.py"]
        pipe = asyncio.subprocess.PIPE
        async with wired(command, env=environment, cwd=here, stderr=pipe) as wire:
            yield wire

    return run


def rows(text):
    """Return what the lines of a log say, in their order."""
    found = [FORM.fullmatch(line) for line in text.splitlines() if line.startswith("time=")]
    assert all(found), text
    return [match.groupdict() for match in found]


async def test_a_line_names_the_outcome(logged, here):
    names = ("works", "fails", "refuses", "rm")

    async with logged("--log", "calls.log", "--with", "policy.py:Policy") as wire:
        for name in names:
            await wire.ask(name, "tools/call", {"name": name, "arguments": {}})
        await wire.ask("read", "resources/read", {"uri": "x"})
        wire.send(id=8, method="tools/call", params={"name": "never"})
        wire.send(method="notifications/cancelled", params={"requestId": 8})
        wire.write(b'[{"jsonrpc":"2.0","id":"p","method":"ping"}]')
        await wire.frame()
        wire.write(b"{broken")
        await wire.frame()
        wire.send(id=9, method="tools/call", params={"name": "never"})
        await wire.ask("end", "ping")
        await wire.end()

    got = rows((here / "calls.log").read_text())
    assert [(one["method"], one["name"], one["outcome"]) for one in got] == [
        ("tools/call", "works", "ok"),
        ("tools/call", "fails", "error"),
        ("tools/call", "refuses", "error"),
        ("tools/call", "rm", "denied"),
        ("resources/read", "-", "refused"),
        ("tools/call", "never", "cancelled"),
        ("ping", "-", "ok"),
        ("?", "-", "unreadable"),
        ("ping", "-", "ok"),
        ("tools/call", "never", "error"),
    ]
    assert {one["server"] for one in got} == {Path(sys.executable).name}
    assert all(int(one["in"]) > 0 for one in got)
    assert [int(one["out"]) > 0 for one in got] == [*[True] * 5, False, True, False, True, True]


ODD = [
    b'{ "method":"ping", "id":1.0 }',
    b'[{"id":2,"method":"ping"},{"id":3,"method":"ping"}]',
    b'{"id":"\\u00e9","method":"x/y","params":[1e5]}',
    b'{"broken',
]


async def test_without_handlers_bytes_pass_unchanged(logged, here):
    heard = []

    for options in ([], ["--log"]):
        (here / "raw.log").write_bytes(b"")
        async with logged(*options) as wire:
            for line in ODD:
                wire.write(line)
            await wire.ask("end", "ping")
            await wire.end()
            error = (await wire.process.stderr.read()).decode()
        heard.append((wire.lines, (here / "raw.log").read_bytes(), len(rows(error))))

    (plain, read, none), (through, also_read, count) = heard
    assert plain == through
    assert read == also_read
    assert (none, count) == (0, 6)


async def test_the_log_contains_no_secret(logged, here):
    forged = f"{SECRET}\ntime=2026-01-01T00:00:00.000Z session=x outcome=ok {SECRET}"
    asked = [
        ("tools/call", {"name": forged, "arguments": {forged: forged}}),
        ("tools/call", {"name": "works", "arguments": {"key": forged}}),
        ("resources/read", {"uri": forged}),
        ("prompts/get", {"name": "é " + SECRET}),
        (forged, {}),
    ]

    async with logged("--log", "calls.log") as wire:
        for number, (method, params) in enumerate(asked):
            await wire.ask(f"{number}{forged}", method, params)
        await wire.end()

    text = (here / "calls.log").read_text()
    assert SECRET not in text
    assert [one["name"] for one in rows(text)] == ["?", "works", "-", "?", "-"]
    assert len(text.splitlines()) == len(asked)


def test_only_the_owner_reads_the_file(command, here):
    (here / "open.log").write_text("")
    (here / "open.log").chmod(0o644)
    (here / "link.log").symlink_to("elsewhere.log")
    (here / "folder.log").mkdir()
    os.mkfifo(here / "pipe.log", 0o600)
    wrong = ["open.log", "link.log", "folder.log", "pipe.log", "no/such.log"]

    made = command("proxy", "--log", "new.log", "--", "true")
    refused = [command("proxy", "--log", name, "--", "true") for name in wrong]

    assert made.returncode == 0
    assert (here / "new.log").stat().st_mode & 0o777 == 0o600
    assert [one.returncode for one in refused] == [2] * len(wrong)
    for name, one in zip(wrong, refused, strict=True):
        assert one.stderr.startswith(f"error: cannot log to {name!r}: ")
        assert one.stderr.count("\n") == 1
    assert "chmod 600" in refused[0].stderr
    assert not (here / "elsewhere.log").exists()
