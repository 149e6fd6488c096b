"""The cost of a span and its metrics for one tool call; another thread sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from benchmarks.bench_tool_call import Place, noop
from benchmarks.harness import Contender, Figure, Rig, table
from toolbus import EventBus
from toolbus.events import Scope
from toolbus.otel.component import OpenTelemetry
from toolbus.store import AppendRequest
from toolbus.store.memory import MemoryStore
from toolbus.tools import Toolset
from toolbus.tools.calls import ToolRunner
from toolbus.transcript import Transcript

if TYPE_CHECKING:
    from toolbus.messages import Message

WITHOUT, WITH, TEXTS = "toolbus", "OpenTelemetry", "OpenTelemetry, texts"


class Local(OpenTelemetry):
    """The component without a collector."""

    def providers(self) -> tuple[TracerProvider, MeterProvider]:
        """Return providers that send nothing."""
        return TracerProvider(shutdown_on_exit=False), MeterProvider(shutdown_on_exit=False)


@table("µs", ours=WITH, baseline=WITHOUT)
def bench_opentelemetry(rig: Rig) -> None:
    """A span with its metrics adds at most 150 µs to one call of a no-op async tool."""
    builds = [
        (WITHOUT, lambda: one_call(WITHOUT)),
        (WITH, lambda: one_call(WITH, Local())),
        (TEXTS, lambda: one_call(TEXTS, Local(texts=True))),
    ]
    rig.race("one call", builds)
    if rig.once:
        return
    ns = {figure.contender: figure.value or 0.0 for figure in rig.figures}
    rig.figures = [Figure("one call", name, value / 1e3) for name, value in ns.items()]
    for name in (WITH, TEXTS):
        rig.put("added", name, (ns[name] - ns[WITHOUT]) / 1e3)


def one_call(name: str, *components: OpenTelemetry) -> Contender:
    """Build a runner with *components*, whose messages go to a transcript and a memory store."""
    bus, tools, store = EventBus(), Toolset([noop]), MemoryStore()
    scope = Scope(agent_id="a-1", session_id="s-1")
    for component in components:
        component.setup(Place(bus, tools, scope))

    async def write(message: Message) -> None:
        await store.append("s-1", AppendRequest(message=message))

    runner = ToolRunner(bus, tools, scope, append=Transcript(bus, "s-1", write).enter)
    names = {"call": runner.call, "arguments": {"value": 1}, "kept": components}
    return Contender(name, 'await call("noop", arguments)', names)
