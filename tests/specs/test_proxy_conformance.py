"""The scenarios of `specs/proxy_conformance.md`."""

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import toolbus
from node_packages import program
from wires import QUIET

pytestmark = pytest.mark.full  # The official suites, by Node.

SOURCE = str(Path(toolbus.__file__).parents[1])
SERVERS = Path(__file__).parents[1] / "servers"
SERVER = [sys.executable, str(SERVERS / "conforming.py")]
CLIENT = [sys.executable, str(SERVERS / "conforming_client.py")]
PROXY = [sys.executable, "-m", "toolbus", "proxy"]
REVISIONS = ["2025-11-25", "2026-07-28"]
STRANGERS = {("server-dns-rebinding-protection", "localhost-host-rebinding-rejected")}
"""What that other server does not refuse: who comes under any name. The proxy before it does."""


class Suite:
    """The official suite, and where it writes what it found."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": SOURCE, "HOME": str(folder)}
        self._turns = asyncio.Semaphore(2)

    async def run(self, side, *words):
        """Return the outcomes of each scenario: how often each check had which status."""
        self.folder.joinpath("runs").mkdir(exist_ok=True)
        at = self.folder / "runs" / f"{len(list(self.folder.joinpath('runs').iterdir()))}"
        at.mkdir()
        command = [*program("conformance"), side, *words, "-o", str(at)]
        async with self._turns:
            process = await asyncio.create_subprocess_exec(
                *command, cwd=at, env=self.environment,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            said, _ = await asyncio.wait_for(process.communicate(), 300)
        found = {}
        for file in at.rglob("checks.json"):
            name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", str(file.parent.relative_to(at)))
            checks = json.loads(file.read_text("utf-8"))
            # What has the status INFO is no check: the suite tells what it saw.
            found[name] = Counter(
                [(one["id"], one["status"]) for one in checks if one["status"] != "INFO"]
            )
        assert found, said.decode()
        return found

    async def server(self, url, revision):
        """Check the server at *url*."""
        return await self.run("server", "--url", url, "--requirements", revision)

    async def client(self, front, revision, scenario):
        """Check the client with *front* before the suite's server."""
        command = shlex.join([*CLIENT, *front])
        words = ["--spec-version", revision, "--scenario", scenario, "--force"]
        return await self.run("client", "--command", command, *words)

    def clients(self, *, thorough):
        """Return what a client is checked for, with the revision; *thorough*: also extensions."""
        command = [*program("conformance"), "list", "--client"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.findall(r"^  - (\S+) \[(.*)\]$", said, re.MULTILINE)
        return [
            (name, revision)
            for name, revisions in found
            for revision in REVISIONS
            if not name.startswith("auth/")
            and revision in revisions.replace("extension", REVISIONS[-1] * thorough).split(",")
        ]


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "quiet.py").write_text(QUIET)
    return Suite(tmp_path)


@pytest.fixture
def quiet(suite):
    """Return the words for handlers that change nothing."""
    return ["--with", str(suite.folder / "quiet.py") + ":Quiet"]


@asynccontextmanager
async def started(suite, command, said, **more):
    """Start a program; give what it says after *said* on one of its outputs, as an address."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=suite.folder,
        env={**suite.environment, **more}, process_group=0, limit=2**24,
    )  # fmt: skip
    rest = None
    try:
        async with asyncio.timeout(60):
            while not (found := re.search(said, await process.stdout.readline())):
                assert not process.stdout.at_eof(), command
        rest = asyncio.create_task(process.stdout.read())
        yield found[1].decode()
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 60)
        if rest is not None:
            await rest


def served(suite):
    """Start the SDK's server, and give its address."""
    return started(suite, [*SERVER, "http"], rb"^(http\S+)")


@asynccontextmanager
async def another(suite):
    """Start the server of another SDK, and give its address."""
    command = [*program("mcp-server-everything"), "streamableHttp"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])  # It takes any, but tells none.
    async with started(suite, command, rb"listening on port (\d+)", PORT=port):
        yield f"http://127.0.0.1:{port}/mcp"


def proxied(suite, *words):
    """Start a proxy that listens, and give its address."""
    return started(suite, [*PROXY, "--listen", "0", *words], rb"listening on (http\S+)")


def differing(direct, through):
    """Return the checks that came out differently, by scenario."""
    pairs = {
        name: (direct.get(name, Counter()), through.get(name, Counter()))
        for name in direct.keys() | through.keys()
    }
    wrong = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return {name: (one - other, other - one) for name, (one, other) in wrong.items()}


def passed(found):
    """Return how many checks passed."""
    counts = [(status, n) for one in found.values() for (_, status), n in one.items()]
    return sum(n for status, n in counts if status == "SUCCESS")


def failures(found):
    """Return the scenarios and checks that failed."""
    return {(name, own) for name, one in found.items() for own, how in one if how == "FAILURE"}


async def compare(suite, urls, revision):
    """Check the servers at *urls*; return the direct outcomes, and what differs from them."""
    direct, *others = await asyncio.gather(*[suite.server(url, revision) for url in urls])
    return direct, [differing(direct, other) for other in others]


@pytest.mark.parametrize(("revision", "least"), [("2025-11-25", 65), ("2026-07-28", 130)])
async def test_servers_conform_behind_a_relay(suite, quiet, revision, least):
    async with (
        served(suite) as url,
        proxied(suite, "--", url) as bare,
        proxied(suite, *quiet, "--", url) as judged,
    ):
        direct, different = await compare(suite, [url, bare, judged], revision)

    assert different == [{}, {}]
    assert passed(direct) >= least


async def test_a_server_of_another_sdk_conforms_too(suite, quiet):
    async with another(suite) as url, proxied(suite, *quiet, "--", url) as judged:
        direct, through = [await suite.server(one, "2025-11-25") for one in (url, judged)]

    assert failures(direct) > STRANGERS
    assert failures(through) == failures(direct) - STRANGERS
    assert passed(through) == passed(direct) + 1 >= 25


@pytest.mark.parametrize("revision", REVISIONS)
async def test_servers_conform_behind_a_bridge(suite, quiet, thorough, revision):
    # A session has a process of its own, and those of Python take their time to begin.
    everything = program("mcp-server-everything")
    light = revision == "2025-11-25" and not thorough
    command = everything if light else SERVER
    async with (
        another(suite) if light else served(suite) as url,
        proxied(suite, *quiet, "--", *command) as bridge,
    ):
        direct, through = await asyncio.gather(
            suite.server(url, revision), suite.server(bridge, revision)
        )

    # HTTP is the bridge's own there, and may do better than the server's.
    assert failures(through) <= failures(direct) - STRANGERS
    assert through.keys() == direct.keys()
    assert passed(through) >= passed(direct) - 2 >= 25


DIRECT = {}
"""The outcomes of the client alone, which both scenarios need."""


async def check_clients(suite, front, asked):
    """Check the SDK's client with and without *front*; return what differs, and what passed."""

    async def direct(name, revision):
        if (name, revision) not in DIRECT:
            DIRECT[name, revision] = await suite.client([], revision, name)
        return DIRECT[name, revision]

    async def both(name, revision):
        return await direct(name, revision), await suite.client(front, revision, name)

    found = await asyncio.gather(*[both(*one) for one in asked])
    wrong = [one for pair in found if (one := differing(*pair))]
    return wrong, sum(passed(one) for one, _ in found)


async def test_clients_conform_over_pipes(suite, quiet, thorough):
    asked = suite.clients(thorough=thorough)

    different, count = await check_clients(suite, [*PROXY, *quiet], asked)

    assert different == []
    assert count >= 45


async def test_clients_conform_behind_a_relay(suite, quiet, thorough):
    some = {"tools_call", "sse-retry", "http-custom-headers", "sep-2322-client-request-state"}
    asked = [one for one in suite.clients(thorough=thorough) if thorough or one[0] in some]

    different, count = await check_clients(suite, [*PROXY, "--listen", "0", *quiet], asked)

    assert different == []
    assert count >= 28
