"""The chain of a store's records: its cost in an append, and the time of its check."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext
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
SESSIONS, ROUNDS = 64, 400


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
    replaced = (rows, "commitment"), (writes, "urandom"), (writes, "Chains")
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
    rig.lacks[BARE] = "links, and so any trace of a later change"
    requests = [
        AppendRequest(message=message, records=(record(message.id, "c", 1),))
        for message in messages(2 if rig.once else ROUNDS)
    ]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        stores = {name: SqliteStore(Path(folder, f"{name}.db")) for name in (OURS, BARE)}
        for store in stores.values():
            opened.callback(rig.run, store.close())
        for row, sessions in (("1 session", 1), (f"{SESSIONS} sessions", SESSIONS)):
            took: dict[str, list[float]] = {OURS: [], BARE: []}
            for turn, request in enumerate(requests):
                # Each is first as often as the other.
                for name in (OURS, BARE) if turn % 2 else (BARE, OURS):
                    with _without_chain() if name == BARE else nullcontext():
                        start = perf_counter()
                        rig.run(_append(stores[name], request, sessions))
                        took[name].append((perf_counter() - start) / sessions * 1e6)
            for name, times in took.items():
                rig.put(row, name, None if rig.once else median(times))


async def _append(store: SqliteStore, request: AppendRequest, sessions: int) -> None:
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
                found = list(check_chains(reader, lambda *_: None, lambda *_: None))
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
