"""One whole tool call: what the machinery around `await tool()` costs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.harness import Contender, Figure, Rig, table
from benchmarks.peers import contenders
from toolbus import Agent, AgentComponent, EventBus, ToolAdapter
from toolbus.events import MODEL_CALL_DELTA, Scope
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.memory import MemoryStore
from toolbus.tools import Toolset
from toolbus.tools.calls import ToolRunner
from toolbus.transcript import Transcript

if TYPE_CHECKING:
    from toolbus.messages import Message, ToolCall, ToolResponse

BARE = "bare await tool()"
FULL = "toolbus, ledger, 3 adapters"


@table("µs", ours=FULL, baseline=None)
def bench_tool_call(rig: Rig) -> None:
    """One call of a no-op async tool, from the request to the message in transcript and store."""
    builds = [
        (BARE, bare),
        ("toolbus", lambda: ours("toolbus", adapters=0, ledger=False)),
        ("toolbus, ledger", lambda: ours("toolbus, ledger", adapters=0, ledger=True)),
        ("toolbus, 3 adapters", lambda: ours("toolbus, 3 adapters", adapters=3, ledger=False)),
        (FULL, lambda: ours(FULL, adapters=3, ledger=True)),
        ("toolbus, whole agent", agent),
        *contenders("tool_call"),
    ]
    rig.race("one call", builds)
    if rig.once:
        return
    ns = {figure.contender: figure.value or 0.0 for figure in rig.figures}
    rig.figures = [Figure("one call", name, value / 1e3) for name, value in ns.items()]
    for name, value in ns.items():
        if name != BARE:
            rig.put("over bare await", name, (value - ns[BARE]) / 1e3)
        rig.put("calls per second", name, 1e9 / value)


async def noop(value: int) -> str:
    """Do nothing."""
    return "done"


def bare() -> Contender:
    """Build the call of the tool's function."""
    return Contender(BARE, "await noop(value=1)", {"noop": noop}, "everything")


def ours(name: str, *, adapters: int, ledger: bool) -> Contender:
    """Build a runner whose messages go to a transcript and a memory store."""
    bus, tools, store = EventBus(), Toolset([noop]), MemoryStore()
    scope = Scope(agent_id="a-1", session_id="s-1")
    if adapters:
        Adapted(adapters).setup(Place(bus, tools, scope))
    if ledger:
        # As an agent does it.
        bus.tap(deque(maxlen=1_000).append, idle=False, without=(MODEL_CALL_DELTA,))

    async def write(message: Message) -> None:
        await store.append("s-1", AppendRequest(message=message))

    transcript = Transcript(bus, "s-1", write)
    runner = ToolRunner(bus, tools, scope, append=transcript.enter)
    names = {"call": runner.call, "arguments": {"value": 1}}
    return Contender(name, 'await call("noop", arguments)', names)


def agent() -> Contender:
    """Build `agent.call_tool`, which appends the message that asks as well; it has a ledger."""
    whole = Agent(ScriptedModel([]), tools=[noop], components=[Adapted(3)])
    lacks = "(appends two messages; ledger, 3 adapters)"
    return Contender(
        "toolbus, whole agent", 'await call("noop", value=1)', {"call": whole.call_tool}, lacks
    )


class Place(NamedTuple):
    """What a component is installed on."""

    bus: EventBus
    tools: Toolset
    scope: Scope


class Passing(ToolAdapter):
    """Looks at parameters and response and leaves both."""

    def adapt_parameters(self, call: ToolCall) -> ToolCall:
        """Leave the call."""
        return call

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:  # noqa: ARG002 - an adapter's signature
        """Leave the response."""
        return response


class Adapted(AgentComponent):
    """A component with so many adapters."""

    def __init__(self, adapters: int) -> None:
        for _ in range(adapters):
            self.register_tool_adapter(Passing())
