"""The scenarios of `specs/proxy_faults.md`."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from wires import QUIET, wired

pytestmark = pytest.mark.full  # Many processes, killed.

PROXY = [sys.executable, "-m", "toolbus", "proxy"]
FAULTY = Path(__file__).parents[1] / "servers/faulty.py"
SLIPS = ["error", "twice", "cut", "bytes", "junk", "pieces", "strange", "asks", "both", "late",
         "stall", "big"]  # fmt: skip
"""What a server does wrong, and goes on."""

ENDS = ["die", "deaf", "mute"]
PRANKS = ["broken", "again", "odd id", "nobody", "cancel", "split", "batch", "no name"]
LEAVES = ["close", "kill server", "kill proxy", "stop proxy", "vanish"]
ODD = [1.5, "é\n", "", -7, 2**53, "9" * 300]
GARBAGE = [b"{", b"\xff\xfe", b"[]", b'{"id":[]}', b"\0", b'"text"', b"[" * 3000, b"nul",
           b'{"jsonrpc":"2.0","id":{},"method":"ping"}']  # fmt: skip


class Play:
    """One play, all of which follows from *seed*: what the client sent, and what came of it."""

    def __init__(self, seed, folder):
        self.dice, self.folder = random.Random(seed), folder
        self.folder.mkdir()
        self.faults, self.numbers = 0, 0
        self.owed, self.free = Counter(), set()

    def log(self):
        """Return the second words of the lines of the server's log, by the first."""
        with suppress(FileNotFoundError):
            lines = [line.split() for line in (self.folder / "log").read_text().splitlines()]
            return {kind: [int(n) for k, n in lines if k == kind] for kind in ("pid", "ran")}
        return {"pid": [], "ran": []}

    def call(self, own=None, fault="good"):
        """Return a call that is not sent yet."""
        self.numbers += 1
        own = self.numbers if own is None else own
        self.owed[json.dumps(own)] += 1
        self.faults += fault != "good"
        arguments = {"n": self.numbers, "fault": fault}
        params = {"name": "echo", "arguments": arguments}
        return {"jsonrpc": "2.0", "id": own, "method": "tools/call", "params": params}

    async def prank(self, wire, kind):
        """Do what a client should not."""
        self.faults += 1
        line = json.dumps(self.call()).encode()
        match kind:
            case "broken":
                wire.write(self.dice.choice(GARBAGE))
            case "again":
                wire.write(json.dumps(self.call(own=self.numbers)).encode())
            case "odd id":
                wire.write(json.dumps(self.call(own=self.dice.choice(ODD))).encode())
            case "nobody":
                wire.send(id=self.dice.choice(["x", 77777]), result={"content": []})
            case "cancel":
                slow = self.call(fault="late")
                self.free.add(json.dumps(slow["id"]))
                wire.write(json.dumps(slow).encode())
                wire.send(method="notifications/cancelled", params={"requestId": slow["id"]})
            case "split":
                half = len(line) // 2
                wire.process.stdin.write(line[:half])
                await wire.process.stdin.drain()
                await asyncio.sleep(0)
                wire.write(line[half:])
                return
            case "batch":
                # Its answers come as one array.
                batch = [json.loads(line), self.call(), {"jsonrpc": "2.0", "method": "x"}]
                wire.write(json.dumps(batch).encode())
                return
            case "no name":
                wire.send(id="nameless", method="x/none", params=[])
                self.free.add('"nameless"')
        wire.write(line)


def answers(lines):
    """Return how often each id was answered."""
    found = Counter()
    for line in filter(bytes.strip, lines):
        frame = json.loads(line)
        for one in frame if isinstance(frame, list) else [frame]:
            if "method" not in one and one.get("id") is not None:
                found[json.dumps(one["id"])] += 1
    return found


async def perform(play, options, environment):
    """Run *play* to its end; return what was wrong."""
    command = [
        *PROXY,
        "--grace",
        "0.3",
        *options,
        "--",
        sys.executable,
        FAULTY,
        play.folder / "log",
    ]
    judged = "--with" in options
    slips = SLIPS if judged else [one for one in SLIPS if one not in {"cut", "bytes", "both"}]
    async with wired([*command, "--child"], env=environment, stderr=subprocess.DEVNULL) as wire:
        wire.send(id="list", method="tools/list")
        await wire.answer("list")
        for _ in range(play.dice.randrange(6, 12)):
            if play.dice.random() < 0.5:
                await play.prank(wire, play.dice.choice(PRANKS))
            else:
                wire.write(json.dumps(play.call(fault=play.dice.choice(slips))).encode())
        end = play.dice.choice([*ENDS, *LEAVES])
        patient = await finish(play, wire, end, judged=judged)
        pids = play.log()["pid"][:2]
        problems = [f"after {end}: {one}" for one in judge(play, wire, patient=patient)]
        rest = [f"after {end}: left {pid}" for pid in await left(pids)]
    return problems + rest


async def finish(play, wire, end, *, judged):
    """End the play; return whether every call must have an answer."""
    play.faults += 1
    if end in ENDS:
        wire.write(json.dumps(play.call(fault=end)).encode())
    if end == "kill server" or not judged:
        with suppress(ProcessLookupError):
            # What stalls has no limit without handlers; the end of the server is one.
            os.kill(play.log()["pid"][0], signal.SIGKILL)
    match end:
        case "kill proxy" | "stop proxy":
            number = signal.SIGKILL if end == "kill proxy" else signal.SIGTERM
            wire.process.send_signal(number)
        case "vanish":
            wire.process.stdin.close()
            await asyncio.wait_for(wire.process.wait(), 60)
            return False
        case _:
            await patience(play, wire)
            await wire.end()
            return True
    await wire.end()
    return False


async def patience(play, wire):
    """Read until nothing is owed any more, or the proxy has ended."""
    while (play.owed - answers(wire.lines)).keys() - play.free:
        if not await wire.line():
            return


def judge(play, wire, *, patient):
    """Give what is wrong with the answers and with what ran."""
    given, ran = answers(wire.lines[1:]), play.log()["ran"]
    if twice := [n for n, times in Counter(ran).items() if times > 1]:
        yield f"ran twice: {twice}"
    if more := {own: n for own, n in (given - play.owed).items() if own not in play.free}:
        yield f"answered too often: {more}"
    if patient and (less := (play.owed - given).keys() - play.free):
        yield f"not answered: {less}"
    if wire.process.returncode is None:
        yield "the proxy has not ended"


async def left(pids):
    """Return those of *pids* that still run, after a while."""
    for _ in range(2000):
        if not (alive := [pid for pid in pids if runs(pid)]):
            return []
        await asyncio.sleep(0.01)
    return alive


def runs(pid):
    """Tell whether a process runs; one that nobody has waited for yet does not."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith(b"Z")


@pytest.fixture
def quiet(tmp_path):
    (tmp_path / "quiet.py").write_text(QUIET)
    return ["--timeout", "1", "--with", f"{tmp_path / 'quiet.py'}:Quiet"]


async def test_two_hundred_faults_leave_calls_answered(tmp_path, environment, quiet, thorough):
    turns = asyncio.Semaphore(4)

    async def run(seed):
        play = Play(seed, tmp_path / f"play-{seed}")
        async with turns:
            try:
                problems = await perform(play, quiet if seed % 3 else [], environment)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error!r}") from error
        return play.faults, [f"seed {seed}: {one}" for one in problems]

    plays = await asyncio.gather(*[run(seed) for seed in range(300 if thorough else 30)])

    assert [problem for _, problems in plays for problem in problems] == []
    assert sum(faults for faults, _ in plays) >= 200


STUBBORN = """\
import os, signal, sys, time
print(os.getpid(), file=open("stubborn.pid", "a", buffering=1))
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
print('{"jsonrpc":"2.0","id":"list","result":{"tools":[]}}', flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("listens", [False, True], ids=["pipes", "http"])
async def test_a_killed_proxy_leaves_no_grandchildren(tmp_path, environment, listens):
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    pids = tmp_path / "stubborn.pid"
    command = ["--", "/bin/sh", "-c", f"{sys.executable} stubborn.py; true"]
    front = [*PROXY, *(["--listen", "0"] if listens else [])]
    wire = wired([*front, *command], env=environment, cwd=tmp_path, stderr=-1)
    async with wire as wire:
        if listens:
            said = await wire.process.stderr.readline()
            url = re.search(rb"listening on (\S+)", said)[1].decode()
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
            asking = asyncio.create_task(post(url, json.dumps(hello).encode()))
        else:
            await wire.ask("list", "tools/list")
        async with asyncio.timeout(60):
            while not (pids.exists() and pids.read_text().strip()):
                await asyncio.sleep(0.01)
        wire.process.kill()
        await wire.process.wait()
        rest = await left([int(one) for one in pids.read_text().split()])
        if listens:
            await asyncio.wait([asking])
            asking.exception()

    assert rest == []


async def test_a_signal_is_named(tmp_path, environment):
    (tmp_path / "dying.py").write_text(
        "import os, sys\n"
        "for line in sys.stdin:\n"
        "    if '\"ping\"' in line: os.kill(os.getpid(), 11)\n"
        '    print(\'{"jsonrpc":"2.0","id":0,"result":{}}\', flush=True)\n'
    )
    server = ["--", sys.executable, tmp_path / "dying.py"]
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    async with wired([*PROXY, *server], env=environment) as wire:
        over_pipes = await wire.ask(1, "ping")
    async with wired([*PROXY, "--listen", "0", *server], env=environment, stderr=-1) as wire:
        url = re.search(rb"listening on (\S+)", await wire.process.stderr.readline())[1].decode()
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
        headers, _ = await post(url, json.dumps(hello).encode())
        session = {name: one for name, one in headers.items() if name == "mcp-session-id"}
        _, over_http = await post(url, json.dumps(ping).encode(), session.items())

    for one in (over_pipes, json.loads(over_http)):
        assert "was killed by signal 11 (SIGSEGV" in one["error"]["message"]


async def post(url, body, headers=()):
    """Send a POST; return its headers and its body."""

    def send():
        more = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        request = urllib.request.Request(url, body, {**more, **dict(headers)})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(answer.headers.items()), answer.read()

    return await asyncio.to_thread(send)


MEGABYTES = 50


async def test_fifty_megabytes_pass(tmp_path, environment, quiet):
    def call(size):
        arguments = {"n": 1, "fault": "big", "size": size}
        params = {"name": "echo", "arguments": arguments}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    front = [*PROXY, "--timeout", "60", *quiet[2:]]
    server = ["--", sys.executable, FAULTY, tmp_path / "log"]
    asked = json.dumps(call(MEGABYTES * 2**20)).encode()
    words = b"x" * (MEGABYTES * 2**20)

    async with wired([*front, *server], env=environment) as wire:
        wire.write(asked)
        over_pipes = await wire.line()
        code = await wire.end()
    async with wired([*front, "--listen", "0", *server], env=environment, stderr=-1) as wire:
        url = re.search(rb"listening on (\S+)", await wire.process.stderr.readline())[1].decode()
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
        headers, _ = await post(url, json.dumps(hello).encode())
        session = {name: one for name, one in headers.items() if name == "mcp-session-id"}
        _, over_http = await post(url, asked, session.items())

    wrote = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}'
    assert over_pipes == wrote % words + b"\n"
    assert code == 0
    assert wrote % words in over_http


def held(pid):
    """Return how many kilobytes a process holds."""
    done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
    return int(done.stdout)


async def test_memory_stays_flat_over_calls(tmp_path, environment, quiet):
    front = [*PROXY, "--timeout", "60", *quiet[2:]]
    server = [sys.executable, str(FAULTY), str(tmp_path / "log")]

    async def run(wire, count):
        for own in range(count):
            arguments = {"n": own, "fault": "good"}
            params = {"name": "echo", "arguments": arguments}
            wire.send(id=own, method="tools/call", params=params)
            if own % 50 == 49:
                await wire.answer(own)
                wire.lines.clear()

    async with wired([*front, "--", *server], env=environment) as wire:
        await run(wire, 3_000)
        before = held(wire.process.pid)
        await run(wire, 10_000)
        after = held(wire.process.pid)

    assert after - before < 8 * 1024


@pytest.mark.parametrize("judged", [False, True], ids=["plain", "judged"])
async def test_a_large_body_leaves_nothing_behind(environment, quiet, judged):
    async def serve(reader, writer):
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(re.search(rb"content-length: (\d+)", head)[1])
                asked = json.loads(await reader.readexactly(length))
                size = asked["params"].get("arguments", {}).get("size", 0)
                content = [{"type": "text", "text": "x" * size}]
                result = {"content": content, "tools": []}
                said = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
                body = json.dumps(said).encode()
                told = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                writer.write(told + b"content-length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    def call(size, text=""):
        arguments = {"size": size, "text": text}
        params = {"name": "echo", "arguments": arguments}
        frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return json.dumps(frame).encode()

    server = await asyncio.start_server(serve, "127.0.0.1", limit=2**28)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    front = [*PROXY, *(["--timeout", "60", *quiet[2:]] if judged else []), "--listen", "0"]
    async with server, wired([*front, "--", url], env=environment, stderr=-1) as wire:
        relay = re.search(rb"listening on (\S+)", await wire.process.stderr.readline())[1].decode()
        await post(relay, call(1))
        before = held(wire.process.pid)
        await post(relay, call(100 * 2**20))
        await post(relay, call(1, "x" * 100 * 2**20))
        await post(relay, call(1))
        after = held(wire.process.pid)

    assert after - before < 64 * 1024
