"""What grows: handlers on a bus, messages in a session, and the bytes that hold them."""

from __future__ import annotations

import asyncio
import tempfile
import tracemalloc
from itertools import count, islice
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

from benchmarks.handlers import functions
from benchmarks.harness import Rig, table
from toolbus import EventBus
from toolbus.events import ObserveEvent, Scope
from toolbus.messages import (
    AssistantMessage,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.store import AppendRequest
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from toolbus.bus.subscriptions import Subscription
    from toolbus.messages import Message
    from toolbus.store import Store

SEEN = ObserveEvent("bench:seen", int)
HANDLERS = (10, 100, 1_000, 10_000)
MESSAGES = (10, 1_000, 100_000, 1_000_000)
STORED = (10, 1_000, 10_000, 100_000)
BATCH = 64
SMALL = 100
"""What is run when nothing is timed."""

ROUNDS = 15
MORE = 50


@table("ns", ours="", baseline=None)
def bench_growth_handlers(rig: Rig) -> None:
    """Subscribing and cancelling take the same time however many there are; a dispatch grows."""
    for size in _sizes(rig, HANDLERS):
        _with_handlers(rig, size)


@table("ns", ours="", baseline=None)
def bench_growth_messages(rig: Rig) -> None:
    """An append takes the same time however long the session; resuming grows with it."""
    for size in _sizes(rig, MESSAGES):
        _with_messages(rig, size)


def _with_handlers(rig: Rig, size: int) -> None:
    bus, more = EventBus(), functions(MORE)
    for handler in functions(size):
        bus.on(SEEN, handler)
    bus.do(SEEN, 1)
    made: list[Subscription] = []

    def subscribe() -> None:
        made[:] = [bus.on(SEEN, handler) for handler in more]

    def cancel() -> None:
        for subscription in made:
            subscription.cancel()

    def tell() -> None:
        bus.do(SEEN, 1)

    took: dict[str, list[float]] = {}
    for _ in range(1 if rig.once else ROUNDS):
        took.setdefault("subscribe", []).append(_ns(subscribe) / MORE)
        took.setdefault("cancel", []).append(_ns(cancel) / MORE)
        took.setdefault("the first do after a change", []).append(_ns(tell))
        took.setdefault("do, per handler", []).append(_ns(tell) / size)
    _put(rig, f"{size:,} handlers", took)


def _with_messages(rig: Rig, size: int) -> None:
    messages = list(_session(size))
    transcript, store = rig.run(_kept(messages))
    scope, numbers = Scope(session_id="s-1"), count(size)

    async def append() -> None:
        for _ in range(MORE):
            message = UserMessage(id=f"u-{next(numbers)}", content="and now?")
            await transcript.append(message, scope)

    def take() -> None:
        _ = transcript.messages

    async def resume() -> None:
        _transcript(store, await store.read("s-1"))

    took: dict[str, list[float]] = {}
    for _ in range(1 if rig.once else 5):
        took.setdefault("append", []).append(_ns(lambda: rig.run(append())) / MORE)
        took.setdefault("take the messages", []).append(_ns(take))
        took.setdefault("resume, per message", []).append(_ns(lambda: rig.run(resume())) / size)
    _put(rig, f"{size:,} messages", took)


@table("ns", ours="", baseline=None)
def bench_growth_sqlite(rig: Rig) -> None:
    """In a file, appending takes the same time however long the session; resuming grows with it."""
    for size in _sizes(rig, STORED):
        with tempfile.TemporaryDirectory() as folder:
            rig.run(_with_file(rig, Path(folder, "store.db"), size))


async def _with_file(rig: Rig, path: Path, size: int) -> None:
    row = f"{size:,} messages"
    async with SqliteStore(path) as store:
        for batch in _batched(_session(size), BATCH):
            stored = [store.append("s-1", AppendRequest(message=message)) for message in batch]
            await asyncio.gather(*stored)
        took: dict[str, list[float]] = {}
        rounds = 1 if rig.once else 5
        for _ in range(rounds):
            start = perf_counter_ns()
            _transcript(store, await store.read("s-1"))
            took.setdefault("resume, per message", []).append((perf_counter_ns() - start) / size)
        for _ in range(rounds):
            more = [AppendRequest(message=message) for message in _session(BATCH)]
            start = perf_counter_ns()
            await asyncio.gather(*[store.append("s-1", one) for one in more])
            took.setdefault("append, 64 at once", []).append((perf_counter_ns() - start) / BATCH)
    _put(rig, row, took)


def _batched(messages: Iterator[Message], size: int) -> Iterator[list[Message]]:
    """Give *messages* so many at a time."""
    while batch := list(islice(messages, size)):
        yield batch


@table("bytes per message", ours="", baseline=None)
def bench_growth_memory(rig: Rig) -> None:
    """A session in memory, store included, takes little more than its records."""
    for size in _sizes(rig, MESSAGES):
        tracemalloc.start()
        start = _held()
        messages = list(_session(size))
        own = _held() - start - messages.__sizeof__()
        kept = rig.run(_kept(messages))
        held = _held() - start - messages.__sizeof__()
        tracemalloc.stop()
        del kept
        row = f"{size:,} messages"
        rig.put(row, "records alone", None if rig.once else own / size)
        rig.put(row, "transcript and store", None if rig.once else held / size)
        rig.put(row, "ratio", None if rig.once else held / own)


async def _kept(messages: list[Message]) -> tuple[Transcript, MemoryStore]:
    store = MemoryStore()
    for message in messages:
        await store.append("s-1", AppendRequest(message=message))
    return _transcript(store, messages), store


def _transcript(store: Store, messages: Sequence[Message]) -> Transcript:
    async def write(message: Message) -> None:
        await store.append("s-1", AppendRequest(message=message))

    return Transcript(EventBus(), "s-1", write, messages)


def _session(size: int) -> Iterator[Message]:
    """Give messages of a session, in turns calls and answers."""
    for number in range(size // 2):
        call = ToolCall(id=f"c-{number}", name="read", arguments={"path": f"src/{number}.py"})
        yield AssistantMessage(id=f"a-{number}", tool_calls=(call,))
        said = ToolResponse.from_text(f"42 files, {number} of them changed since the last release")
        yield ToolMessage(
            id=f"m-{number}", tool_call_id=call.id, tool_name="read", tool_response=said
        )


def _sizes(rig: Rig, sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([size for size in sizes if size <= SMALL]) if rig.once else sizes


def _put(rig: Rig, row: str, took: dict[str, list[float]]) -> None:
    for what, times in took.items():
        rig.put(row, what, None if rig.once else min(times))


def _ns(work: Callable[[], object]) -> float:
    start = perf_counter_ns()
    work()
    return perf_counter_ns() - start


def _held() -> int:
    return tracemalloc.get_traced_memory()[0]
