"""One version's process of a comparison: it builds rows and times a turn of one at each request."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import deque
from contextlib import ExitStack
from functools import cache, partial
from inspect import iscoroutine
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.bench_proxy import COMMANDS, FORWARDER, SHIPPED, call, greet, started
from benchmarks.handlers import ASYNC, SYNC, functions
from benchmarks.harness import turns_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[[], Any]
    Timer = Callable[[int], float]

PARALLEL = 1_000
_IMPORT = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"
_FACE = "from toolbus import Agent, EventBus"
_LOOP, _OPEN = asyncio.new_event_loop(), ExitStack()


async def noop(value: int) -> str:
    """Do nothing."""
    return "done"


def bare() -> Act:
    """Return the call of the tool's function."""
    return partial(noop, value=1)


def tool_call(*, adapters: int) -> Act:
    """Return a call by a runner that writes to transcript and memory; with adapters and ledger."""
    from toolbus import EventBus, ToolRunner
    from toolbus.events import MODEL_CALL_DELTA, Scope
    from toolbus.store import AppendRequest
    from toolbus.store.memory import MemoryStore
    from toolbus.tools import Toolset
    from toolbus.transcript import Transcript

    bus, tools, store = EventBus(), Toolset([noop]), MemoryStore()
    scope = Scope(agent_id="a-1", session_id="s-1")
    if adapters:
        _adapted(adapters).setup(_Place(bus, tools, scope))
        bus.tap(deque(maxlen=1_000).append, idle=False, without=(MODEL_CALL_DELTA,))

    async def write(message: Any) -> None:
        await store.append("s-1", AppendRequest(message=message))

    transcript = Transcript(bus, "s-1", write)
    # 0.1.0 names the shielded append otherwise.
    enter = getattr(transcript, "enter", None) or partial(transcript.append, sheltered=True)
    return partial(ToolRunner(bus, tools, scope, append=enter).call, "noop", {"value": 1})


def agent_call() -> Act:
    """Return `agent.call_tool` with three adapters."""
    return partial(_agent(components=[_adapted(3)]).call_tool, "noop", value=1)


def agent_append() -> Act:
    """Return `agent.append` of a user's message; each has an id of its own."""
    from toolbus import UserMessage

    agent, numbers = _agent(), iter(range(1_000_000))
    return lambda: agent.append(UserMessage(id=f"m-{next(numbers)}", content="hello"))


def agent_run() -> Act:
    """Return `agent.run` of one model call without tools."""
    return partial(_agent(repeat("hello")).run, "hello")


def agent_made() -> Act:
    """Return the making of an agent."""
    return _agent


def verb(name: str, source: str, count: int) -> Act:
    """Return the dispatch with the bus's verb *name* to *count* handlers of *source*."""
    from toolbus import EventBus
    from toolbus.events import ObserveEvent, TransformEvent

    bus, kind = EventBus(), ObserveEvent if name == "do" else TransformEvent
    event = kind("bench:event", int)
    for handler in _handlers(count, source):
        bus.on(event, handler)
    return partial(getattr(bus, name), event, 1)


def imported(statement: str) -> Timer:
    """Return a timer of *statement* in a fresh interpreter."""
    command = [sys.executable, "-c", _IMPORT.format(statement)]

    def seconds() -> float:
        return float(subprocess.run(command, capture_output=True, check=True).stdout)  # noqa: S603 - our own code

    return lambda turns: sum(seconds() for _ in range(turns))


def stored_results() -> Timer:
    """Return a timer of runs with 1,000 parallel calls whose results go to SQLite."""
    from toolbus import AssistantMessage, ToolCall
    from toolbus.store.sqlite import SqliteStore

    calls = [ToolCall(id=f"c-{at}", name="noop", arguments={"value": 1}) for at in range(PARALLEL)]
    asked = AssistantMessage(id="m-1", tool_calls=tuple(calls))

    async def run(path: Path) -> float:
        async with SqliteStore(path) as store, _agent([asked, "done"], store=store) as agent:
            start = perf_counter()
            await agent.run("work")
            return perf_counter() - start

    def timer(turns: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return sum(
                _LOOP.run_until_complete(run(Path(folder, f"{at}.db"))) for at in range(turns)
            )

    return timer


def proxied(name: str) -> Timer:
    """Return a timer of calls over pipes through the command *name* of the proxy's benchmark."""
    client = _OPEN.enter_context(started(COMMANDS[name]))
    greet(client)
    return lambda turns: sum(call(client) for _ in range(turns))


class Row(NamedTuple):
    """A figure of each version: *make* returns an act, or its timer where *timed*.

    An act is made anew for each turn, so that no transcript grows from turn to turn. *turns* is
    the number of acts in a turn, found by trial when None; *each* the parts of an act.
    """

    make: Callable[[], Any]
    timed: bool = False
    turns: int | None = None
    each: int = 1


_DISPATCH = {
    f"{said}, {count} handlers": Row(partial(verb, name, source, count))
    for said, name, source in (
        ("bus.do", "do", SYNC),
        ("bus.apply_sync", "apply_sync", SYNC),
        ("await bus.apply", "apply", ASYNC),
    )
    for count in (1, 10, 100)
}
BARE, FULL = "bare await", "tool call, ledger, 3 adapters"
PARTS, RESULTS = "import of the parts", "1,000 parallel results into SQLite"
ROWS: dict[str, Row] = {
    BARE: Row(bare),
    "tool call": Row(partial(tool_call, adapters=0)),
    FULL: Row(partial(tool_call, adapters=3)),
    "agent.call_tool": Row(agent_call),
    "agent.append": Row(agent_append),
    "agent.run without tools": Row(agent_run),
    "making an agent": Row(agent_made),
    **_DISPATCH,
    PARTS: Row(partial(imported, "import asyncio, blinker, msgspec"), timed=True, turns=1),
    "import": Row(partial(imported, _FACE), timed=True, turns=1),
    RESULTS: Row(stored_results, timed=True, turns=1, each=PARALLEL),
    FORWARDER: Row(partial(proxied, FORWARDER), timed=True, turns=50),
    "judged proxy call": Row(partial(proxied, SHIPPED), timed=True, turns=50),
}
"""By name; BARE, PARTS and FORWARDER are what others are compared with."""


def _clock(act: Act, turns: int) -> float:
    """Return the seconds that *turns* acts take, after a quarter as many that warm them."""

    async def awaited(count: int) -> float:
        start = perf_counter()
        for _ in repeat(None, count):
            await act()
        return perf_counter() - start

    def plain(count: int) -> float:
        start = perf_counter()
        for _ in repeat(None, count):
            act()
        return perf_counter() - start

    first = act()
    if not iscoroutine(first):
        return [plain(turns // 4 + 1), plain(turns)][1]
    _LOOP.run_until_complete(first)
    _LOOP.run_until_complete(awaited(turns // 4))
    return _LOOP.run_until_complete(awaited(turns))


def serve() -> None:
    """Answer the name of each row on standard input with the nanoseconds of its next turn."""
    timers: dict[str, tuple[Timer, int]] = {}
    for line in sys.stdin:
        name = json.loads(line)
        row = ROWS[name]
        try:
            if name not in timers:
                timer = row.make() if row.timed else partial(_fresh, row.make)
                timers[name] = timer, row.turns or turns_of(timer)
            timer, turns = timers[name]
            answer: Any = timer(turns) / turns / row.each * 1e9
        except Exception as error:
            # An older version may know none of a row's names: the other rows go on.
            answer = f"{type(error).__name__}: {error}".splitlines()[0]
        print(json.dumps(answer), flush=True)


def _fresh(make: Callable[[], Act], turns: int) -> float:
    return _clock(make(), turns)


def _agent(answers: Any = (), **more: Any) -> Any:
    from toolbus import Agent
    from toolbus.models.scripted import ScriptedModel

    return Agent(ScriptedModel(answers), tools=[noop], **more)


def _adapted(adapters: int) -> Any:
    """Return a component with adapters that look at parameters and response and leave both."""
    from toolbus import AgentComponent, ToolAdapter

    class Passing(ToolAdapter):
        def adapt_parameters(self, call: Any) -> Any:
            return call

        def adapt_response(self, response: Any, call: Any) -> Any:  # noqa: ARG002 - an adapter's signature
            return response

    class Adapted(AgentComponent):
        def __init__(self) -> None:
            for _ in range(adapters):
                self.register_tool_adapter(Passing())

    return Adapted()


class _Place(NamedTuple):
    """The host on which a component is installed."""

    bus: Any
    tools: Any
    scope: Any


# Compiled once: code that is compiled anew for each turn would never be warm.
_handlers = cache(functions)

if __name__ == "__main__":
    with _OPEN:
        serve()
