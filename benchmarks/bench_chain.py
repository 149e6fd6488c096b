"""The chain of a store's records: its cost in an append, and the time of its check."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.archives import messages, record
from benchmarks.harness import OURS, Rig, table
from toolbus.store import AppendRequest, rows
from toolbus.store.check.chain_check import check_chains
from toolbus.store.sqlite import SqliteStore, writes
from toolbus.store.store_factory import open_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

BARE = "the same without the chain"
SESSIONS, TURNS, ROUNDS = 64, 20, 40


class _NoChains:
    """Chains without a link, so that nothing is digested."""

    column = None

    def __init__(self, *_: object) -> None: ...

    def extend(self, *_: object) -> bytes:
        return b""


def _nothing(*_: object) -> bytes:
    return b""


@contextmanager
def _without_chain() -> Iterator[None]:
    replaced = (rows, "commitment"), (writes, "new_salt"), (writes, "Chains")
    chained = [getattr(*place) for place in replaced]
    bare = _nothing, bytes, _NoChains
    try:
        for place, value in zip(replaced, bare, strict=True):
            setattr(*place, value)
        yield
    finally:
        for place, value in zip(replaced, chained, strict=True):
            setattr(*place, value)


@table("µs", baseline=BARE)
def bench_chain(rig: Rig) -> None:
    """The chain of a store costs at most 5 % of an append of a message with its record."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        took: dict[tuple[str, str], list[float]] = {}
        stores = {
            name: SqliteStore(Path(folder, f"{at}.db")) for at, name in enumerate((OURS, BARE))
        }
        for store in stores.values():
            opened.callback(lambda store=store: rig.run(store.close()))
        requests = [
            AppendRequest(message=message, records=(record(message.id, "c", 1),))
            for message in messages(TURNS)
        ]
        for turn in range(1 if rig.once else ROUNDS):
            # In turns, and each first as often as the other.
            for name in (OURS, BARE) if turn % 2 else (BARE, OURS):
                with ExitStack() as bare:
                    if name == BARE:
                        bare.enter_context(_without_chain())
                    for row, sessions in (("1 session", 1), (f"{SESSIONS} sessions", SESSIONS)):
                        start = perf_counter()
                        rig.run(_append(stores[name], requests, sessions))
                        seconds = perf_counter() - start
                        count = len(requests) * sessions
                        took.setdefault((row, name), []).append(seconds / count * 1e6)
        for (row, name), times in took.items():
            rig.put(row, name, None if rig.once else median(times))


async def _append(store: SqliteStore, requests: list[AppendRequest], sessions: int) -> None:
    for request in requests:
        await asyncio.gather(*[store.append(f"s-{at}", request) for at in range(sessions)])


@table("ms", baseline=None)
def bench_chain_check(rig: Rig) -> None:
    """A check of the chains takes a time linear in the messages: here of 10,000 and of 100,000."""
    with tempfile.TemporaryDirectory() as folder:
        for size in (100,) if rig.once else (10_000, 100_000):
            path = Path(folder, f"{size}.db")
            reader = rig.run(_filled(path, size))
            with reader:
                start = perf_counter()
                found = list(check_chains(reader, lambda *_: None))
                seconds = perf_counter() - start
            assert [each.breaks for each in found] == [()]
            rig.put(f"{size:,} messages", OURS, None if rig.once else seconds * 1e3)


async def _filled(path: Path, size: int) -> Any:
    async with SqliteStore(path) as store:
        appends = [
            store.append("s", AppendRequest(message=each, records=(record(each.id, "c", 1),)))
            for each in messages(size)
        ]
        await asyncio.gather(*appends)
    return open_reader(path)
