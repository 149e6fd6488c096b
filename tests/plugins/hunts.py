"""Hunts for bytes that the proxy judges as one thing and another program reads as another."""

import shutil
import subprocess
from random import Random
from typing import NamedTuple

from hostile_frames import LIST, answer, request
from hostile_streams import cut, header, reply
from judged_sessions import Judge, from_client, from_server
from other_readers import READERS, read_by_all
from reading_alike import listed, lost, read_unshown, run_unjudged, unanswered
from relayed_streams import relayed
from toolbus.mcp.proxy.proxy import Proxy

PORTION = 5_000
"""So many plays are read at once: what they hold is in memory."""


class Found(NamedTuple):
    """What is wrong with the play of a *seed*, and what passed there in numbers."""

    seed: int
    problems: tuple
    judged: int = 0
    read: int = 0


async def hunt(kind, seeds, go=None):
    """Return what each of *seeds* has shown, of requests, answers or streams; *go* is a program."""
    found, seeds = [], list(seeds)
    for at in range(0, len(seeds), PORTION):
        found += await kind(seeds[at : at + PORTION], go)
    return found


async def requests(seeds, go):
    """Let clients write hostile requests, and servers read what comes of them."""
    judge = Judge()
    async with Proxy([judge]) as proxy:
        plays = [(seed, request(seed)) for seed in seeds]
        plays = [(seed, data, await from_client(proxy, judge, data)) for seed, data in plays]
    readings = read_by_all("server", [(passed.server,) for *_, passed in plays], go)
    found = []
    for (seed, data, passed), read in zip(plays, readings, strict=True):
        lines = [line for line in data.split(b"\n") if line.strip()]
        problems = (*run_unjudged(passed, read), *unanswered(lines, passed))
        found.append(Found(seed, problems, len(passed.judged), calls_in(read)))
    return found


async def bare(seeds, _):
    """Let clients write hostile requests where nobody judges; a byte that changes is a problem."""
    found = []
    async with Proxy() as proxy:
        for seed in seeds:
            data = request(seed)
            passed = await from_client(proxy, Judge(), data)
            problems = [] if passed.server == data else [f"other bytes: {passed.server[:200]!r}"]
            if is_text(data):
                problems += unanswered([one for one in data.split(b"\n") if one.strip()], passed)
            found.append(Found(seed, tuple(problems), read=len(passed.client)))
    return found


def is_text(data):
    """Tell whether *data* is UTF-8; else readers make different ids of the same bytes."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


async def posts(seeds, go):
    """Let clients post hostile requests to a relay, and servers read what comes of them."""
    judge = Judge()
    async with Proxy([judge]) as proxy, relayed(proxy, judge) as relay:
        plays = [await relay.post(request(seed), header(seed)) for seed in seeds]
    readings = read_by_all("server", [(passed.server,) for passed in plays], go)
    found = []
    for seed, passed, read in zip(seeds, plays, readings, strict=True):
        problems = list(run_unjudged(passed, read))
        if passed.client is not None:
            problems += unanswered([request(seed)], passed)
        found.append(Found(seed, tuple(problems), len(passed.judged), calls_in(read)))
    return found


async def answers(seeds, go):
    """Let servers write hostile answers, and clients read what comes of them."""
    judge = Judge()
    async with Proxy([judge]) as proxy:
        plays = [(seed, answer(seed)) for seed in seeds]
        plays = [(seed, said, await from_server(proxy, judge, *said)) for seed, said in plays]
    readings = read_by_all("client", [(passed.client,) for *_, passed in plays], go)
    found = []
    for (seed, said, passed), read in zip(plays, readings, strict=True):
        asked = [request_id for request_id, _ in said.asked]
        problems = (*read_unshown(passed, read, asked), *lost(said.data, passed, asked))
        if said.asked[0][1] == LIST:
            problems = (*problems, *listed(read))
        found.append(Found(seed, problems, len(passed.texts), sum(map(len, read.values()))))
    return found


async def streams(seeds, go):
    """Let servers write hostile streams to a relay, and clients read what comes of them."""
    judge = Judge()
    async with Proxy([judge]) as proxy, relayed(proxy, judge) as relay:
        plays = [(seed, *await relay.answer(seed, reply(seed))) for seed in seeds]
    found = []
    for mode in ("stream", "body"):
        some = [
            one for one in plays if (mode == "stream") == one[1].startswith("text/event-stream")
        ]
        pieces = [tuple(cut(Random(seed), passed.client)) or (b"",) for seed, _, passed in some]
        for (seed, _, passed), read in zip(some, read_by_all(mode, pieces, go), strict=True):
            problems = tuple(read_unshown(passed, read, [seed]))
            found.append(Found(seed, problems, len(passed.texts), sum(map(len, read.values()))))
    return found


def calls_in(readings):
    """Return how many tool calls one of the readers, the keenest, has read."""
    return max([sum("call" in one for one in said) for said in readings.values()])


def built_go(folder):
    """Return `go/reader.go`, built in *folder*; None where there is no Go."""
    if shutil.which("go") is None:
        return None
    program = folder / "reader"
    command = ["go", "build", "-o", str(program), str(READERS / "go/reader.go")]
    subprocess.run(command, check=True, timeout=300)
    return program
