"""The one world that every framework plays: its tools, its scripted model, and an observation.

It needs only toolbus and the standard library, for it is imported in each framework's environment.
A driver, `<leaf>_world.py`, has one function:

    async def play(world: World) -> None

`world.mode` is "bridge" (our bridge with `world.components` and `world.options`), "own" (the
framework's own hooks, which call `world.hooks`), or "plain" (neither: the cost of the framework
alone). A driver makes its framework's test model from `Conversation.script`, its tools from
`world.tools`, sets `world.sub_agent`, and gives its run to `world.run`:

    async def play(world):
        bridge = SomeBridge(world.components, **world.options) if world.mode == "bridge" else None

        async def run(conversation):
            agent = SomeAgent(ScriptedModel(conversation.script), world.tools.values(), …)
            return (await agent.run(conversation.prompt, session=conversation.session)).text

        world.sub_agent = …       # async (task) -> str: an agent made here, with `world.sub_script`
        await world.run(run)
        await bridge.aclose()
"""

import asyncio
import contextlib
import inspect
import io
import json
import threading
import time
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scenarios import SECRET, Scenario
from world_handlers import Hooks, Watch, components

from toolbus.messages import encode
from toolbus.store import MemoryStore, SqliteStore

USER: ContextVar[str] = ContextVar("user", default="nobody")
"""A variable that a program sets around a run; the tool `whoami` reads it."""
IDEMPOTENT = frozenset({"flaky"})
"""The tools that may run twice."""
FIELDS: dict[str, Any] = {
    "ran": [],  # [name, arguments] of each tool that really ran
    "read": {},  # call id: the text that the model last saw for it
    "answer": None,  # the final text of the run, as its caller gets it
    "error": None,  # "Type: text" of the exception that left the run
    "prompt": None,  # the prompt that the model saw
    "requests": 0,  # the number of requests to the model
    "offered": {},  # name: description of the tools in the last request, if the driver tells
    "parameters": {},  # name: names of the parameters of these tools, likewise
    "shown": "",  # all that a streamed run showed its caller
    "traces": "",  # all that the framework's callbacks and tracing saw
    "asked": [],  # names of the tools about whose calls the person was asked
    "overlap": 0,  # the greatest number of tools that ran at once
    "ends": {},  # call id: number of ends that were observed
    "statuses": {},  # call id: `ToolCallOutcome.status`
    "sessions": {},  # call id: `Scope.session_id`
    "agents": {},  # call id: `Scope.agent_id`
    "watched": [],  # what async observers saw, in order
    "runs": [],  # the status of each `RUN_AFTER`
    "stored": "",  # all messages in the store, as JSON lines
    "results": {},  # call id: text of its tool message in the store
    "ledger": "",  # one line per handler of each dispatch in the store
    "explained": "",  # what `toolbus explain` prints of the first call
    "undelivered": "",  # why the driver cannot play this at all
}


class UndeliveredError(Exception):
    """A driver's word for a thing that its framework does not have, such as handoffs."""


class Call(NamedTuple):
    """One call of the model."""

    id: str
    name: str
    arguments: dict


@dataclass(frozen=True)
class Turn:
    """One answer of the model: calls, or a final text."""

    text: str = ""
    calls: tuple[Call, ...] = ()


class Script:
    """The turns of one model; its calls are *prefix*1, *prefix*2, …, unless it *repeats* ids."""

    def __init__(self, turns, seen, prefix="c", *, repeats=False):
        self._seen, self._number, self._repeats = seen, 0, repeats
        self.times: list[float] = []  # when each request came, in seconds of `perf_counter`
        self._turns = deque([self._turn(turn, prefix) for turn in turns])

    def _turn(self, turn, prefix):
        if isinstance(turn, str):
            return Turn(turn)
        calls = []
        for name, arguments in turn:
            self._number = 1 if self._repeats else self._number + 1
            calls.append(Call(f"{prefix}{self._number}", name, dict(arguments)))
        return Turn(calls=tuple(calls))

    def next(self, prompt=None, results=(), offered=None, parameters=None) -> Turn:
        """Return the next turn; the arguments are what the request shows the model.

        *prompt* is the last user text, *results* maps ids of calls to the texts of their results,
        *offered* names of tools to descriptions, *parameters* names of tools to their parameters.
        """
        self.times.append(time.perf_counter())
        self._seen["requests"] += 1
        self._seen["read"] |= dict(results)
        for name, value in (("prompt", prompt), ("offered", offered), ("parameters", parameters)):
            if value is not None:
                self._seen[name] = value
        return self._turns.popleft() if self._turns else Turn("the script is at its end")


@dataclass(frozen=True)
class Conversation:
    """One run: a prompt in a session, with the model's script."""

    prompt: str
    session: str
    script: Script


class World:
    """The world of one play of *scenario*; *folder* is for its store.

    Without a folder it is a measurement: the store is in memory, and nothing observes but the
    scenario's own handlers.
    """

    def __init__(self, scenario: Scenario, mode: str, folder: str | None):
        self.scenario, self.mode = scenario, mode
        self.streamed, self.sync = scenario.streamed, scenario.sync
        self.seen = json.loads(json.dumps(FIELDS))
        self.hooks = Hooks(scenario.handlers, self.seen, self.approve)
        self.sub_script = Script(scenario.sub, self.seen, "s")
        self.sub_agent = None
        self.tools = make_tools(self)
        self.delay = 0.15  # Long enough for a busy machine to start the others meanwhile.
        self.hanging = asyncio.Event()
        self.failures = 1  # how often `flaky` fails
        self.running = 0
        self.lock = threading.Lock()
        self.times: list[float] = []  # of the requests, for a measurement
        self._path = None if folder is None else Path(folder, "log.db")

    # --- for a bridge -----------------------------------------------------------------------------

    @property
    def components(self) -> list:
        """The components for a bridge: one that observes, and unless plain the scenario's."""
        judges = [] if self.mode == "plain" else components(self.scenario.handlers)
        return [Watch(self.seen), *judges] if self._path else judges

    @property
    def approver(self):
        """The approver, None for a scenario without one."""
        if self.scenario.person is None:
            return None
        return lambda ask, call, scope: self.approve(call.name)

    @property
    def options(self) -> dict:
        """The options of a bridge; tools in `IDEMPOTENT` are for the driver to name."""
        options = {"approver": self.approver, "partial": self.scenario.partial}
        if self.scenario.timeout is not None:
            options["timeout"] = self.scenario.timeout
        return {"store": self.open_store(), **options}

    def approve(self, name) -> bool:
        """Return the person's answer about a call of the tool *name*."""
        self.seen["asked"].append(name)
        return bool(self.scenario.person)

    def open_store(self):
        """Return the store, which the play's end closes."""
        self._store = SqliteStore(self._path) if self._path else MemoryStore()
        return self._store

    # --- for a driver -----------------------------------------------------------------------------

    def trace(self, *values) -> None:
        """Keep *values* that a callback or an exporter of the framework got."""
        self.seen["traces"] += "".join(f"{value}\n" for value in values)

    def show(self, piece) -> None:
        """Keep a piece that a streamed run showed its caller."""
        self.seen["shown"] += str(piece)

    async def run(self, run) -> None:
        """Play all prompts of the scenario with *run*, which takes a `Conversation`.

        A sync *run* runs in a thread without an event loop. It returns the final text; its
        exception is observed too.
        """
        scenario = self.scenario
        script = Script(scenario.script, self.seen, repeats=scenario.repeats_ids)
        if scenario.sessions == 1:
            for prompt in scenario.prompts:
                await self._play(run, Conversation(prompt, "s1", script))
            self.times = script.times
        else:
            second = Script(scenario.script, self.seen, "d")
            talks = [("s1", script), ("s2", second)]
            prompt = scenario.prompts[0]
            plays = [self._play(run, Conversation(prompt, *talk)) for talk in talks]
            await asyncio.gather(*plays)

    async def _play(self, run, conversation):
        USER.set("ann")
        is_async = inspect.iscoroutinefunction(run)
        work = run(conversation) if is_async else asyncio.to_thread(run, conversation)
        task = asyncio.create_task(work)
        if self.scenario.cancelled:
            hanging = asyncio.create_task(self.hanging.wait())
            await asyncio.wait([task, hanging], return_when="FIRST_COMPLETED")
            hanging.cancel()
            task.cancel()
        try:
            self.seen["answer"] = await task
        except UndeliveredError as error:
            self.seen["undelivered"] = str(error)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - it is observed
            self.seen["error"] = f"{type(error).__name__}: {error}"

    # --- for what is asked afterwards -------------------------------------------------------------

    async def observation(self) -> dict:
        """Return all that was seen, with what stands in the store."""
        if self._path and self._path.exists():
            await self._read_store()
        return self.seen

    async def _read_store(self):
        lines = []
        await self._store.close()
        async with SqliteStore(self._path, read_only=True) as store:
            for info in await store.sessions():
                for message in await store.read(info.id):
                    lines.append(encode(message).decode())
                    if message.role == "tool":
                        self.seen["results"][message.tool_call_id] = message.text
                for record in await store.records(info.id):
                    self.seen["ledger"] += "".join(
                        f"{record.event} {entry.name} {entry.status}\n" for entry in record.entries
                    )
        self.seen["stored"] = "\n".join(lines)
        if self.scenario.explained:
            self.seen["explained"] = explain(self._path)


def explain(path) -> str:
    """Return what `toolbus explain` prints of the call c1 in the store *path*."""
    from toolbus.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        main(["explain", str(path), "--call", "c1"])
    return printed.getvalue()


# --- tools ----------------------------------------------------------------------------------------


def make_tools(world) -> dict:
    """Return the tools by name: async functions, or sync ones for a scenario that is sync."""
    functions = _sync_tools(world) if world.sync else [*_async_tools(world), *_waiting(world)]
    return {function.__name__: function for function in functions}


@contextlib.contextmanager
def noted(world, name, **arguments):
    """Keep that the tool *name* runs."""
    with world.lock:
        world.seen["ran"].append([name, arguments])
        world.running += 1
        world.seen["overlap"] = max(world.seen["overlap"], world.running)
    try:
        yield
    finally:
        with world.lock:
            world.running -= 1


def _echo(world, text):
    with noted(world, "echo", text=text):
        return text


def _lookup(world, key):
    with noted(world, "lookup", key=key):
        return f"the token of {key} is {SECRET}, valid for a year"


def _record(world, key):
    with noted(world, "record", key=key):
        return {"key": key, "token": SECRET, "uses": 2}


def _fail(world, text):
    with noted(world, "fail", text=text):
        raise RuntimeError(f"cannot read {text} with {SECRET}")


def _add(world, a, b):
    with noted(world, "add", a=a, b=b):
        return str(a + b)


def _flaky(world):
    with noted(world, "flaky"):
        world.failures -= 1
        if world.failures >= 0:
            raise RuntimeError("not yet")
        return "ready"


def _whoami(world):
    with noted(world, "whoami"):
        return USER.get()


def _async_tools(world):
    async def echo(text: str) -> str:
        """Return the text."""
        return _echo(world, text)

    async def lookup(key: str) -> str:
        """Look up a key."""
        return _lookup(world, key)

    async def record(key: str) -> dict:
        """Return the record of a key."""
        return _record(world, key)

    async def fail(text: str) -> str:
        """Read a file that is missing."""
        return _fail(world, text)

    async def add(a: int, b: int) -> str:
        """Add two numbers."""
        return _add(world, a, b)

    async def flaky() -> str:
        """Return a state, at the second try."""
        return _flaky(world)

    async def whoami() -> str:
        """Return the user."""
        return _whoami(world)

    return echo, lookup, record, fail, add, flaky, whoami


def _waiting(world):
    async def slow(key: str) -> str:
        """Look up a key slowly."""
        with noted(world, "slow", key=key):
            await asyncio.sleep(world.delay)
            return f"slow {key}"

    async def hang() -> str:
        """Wait for ever."""
        with noted(world, "hang"):
            world.hanging.set()
            await asyncio.sleep(30)
            return "too late"

    async def delegate(task: str) -> str:
        """Give a task to another agent."""
        with noted(world, "delegate", task=task):
            return await world.sub_agent(task)

    return slow, hang, delegate


def _sync_tools(world):
    def echo(text: str) -> str:
        """Return the text."""
        return _echo(world, text)

    def lookup(key: str) -> str:
        """Look up a key."""
        return _lookup(world, key)

    def record(key: str) -> dict:
        """Return the record of a key."""
        return _record(world, key)

    def fail(text: str) -> str:
        """Read a file that is missing."""
        return _fail(world, text)

    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return _add(world, a, b)

    def slow(key: str) -> str:
        """Look up a key slowly."""
        with noted(world, "slow", key=key):
            time.sleep(world.delay)
            return f"slow {key}"

    def flaky() -> str:
        """Return a state, at the second try."""
        return _flaky(world)

    def whoami() -> str:
        """Return the user."""
        return _whoami(world)

    return echo, lookup, record, fail, add, slow, flaky, whoami
