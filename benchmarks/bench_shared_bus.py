"""What sharing a bus costs: a run among many agents beside a run alone, and making an agent."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns

from benchmarks.harness import Rig, table
from toolbus import Agent, AgentComponent, EventBus
from toolbus.components import guard, on
from toolbus.events import MESSAGE_APPEND_BEFORE, TOOL_CALL_BEFORE
from toolbus.messages import AssistantMessage, ToolCall
from toolbus.models.scripted import ScriptedModel

AGENTS = (10, 100, 1_000)
SMALL = 10
"""How many when nothing is timed."""

CALLS = 3
RUNS, ROUNDS = 20, 5
ALONE, SHARED = "alone", "on one bus"


class Idle(AgentComponent):
    """Handlers without an opinion."""

    @on(MESSAGE_APPEND_BEFORE)
    def append(self, ctx: object) -> None:
        """Say nothing."""

    @guard(TOOL_CALL_BEFORE)
    def call(self, ctx: object) -> None:
        """Object to nothing."""


@table("µs", ours=SHARED, baseline=ALONE)
def bench_shared_run(rig: Rig) -> None:
    """A run of three calls costs at most 1.5 times as much among 1,000 agents as alone."""
    for size in _sizes(rig):
        took = rig.run(_runs(size))
        for name, times in took.items():
            rig.put(f"{size:,} agents", name, None if rig.once else min(times) / 1e3)


@table("µs", ours=SHARED, baseline=ALONE)
def bench_shared_making(rig: Rig) -> None:
    """Making an agent with a component takes the same time however many share its bus."""
    for size in _sizes(rig):
        took: dict[str, list[float]] = {ALONE: [], SHARED: []}
        for _ in range(1 if rig.once else ROUNDS):
            for name, bus in ((ALONE, None), (SHARED, EventBus())):
                since = perf_counter_ns()
                made = [_agent(bus) for _ in range(size)]
                took[name].append((perf_counter_ns() - since) / len(made))
        for name, times in took.items():
            rig.put(f"{size:,} agents", name, None if rig.once else min(times) / 1e3)


async def _runs(size: int) -> dict[str, list[int]]:
    """Return the nanoseconds of runs, each of a fresh agent's session that has run before."""
    shared = EventBus()
    among = [_agent(shared) for _ in range(size)]
    for agent in among:
        await agent.run("go")
    took: dict[str, list[int]] = {ALONE: [], SHARED: []}
    for _ in range(RUNS):
        for name, bus in ((ALONE, None), (SHARED, shared)):
            agent = _agent(bus)
            await agent.run("go")
            since = perf_counter_ns()
            await agent.run("go")
            took[name].append(perf_counter_ns() - since)
            await agent.aclose()
    await asyncio.gather(*[agent.aclose() for agent in among])
    return took


async def tell(number: int) -> str:
    """Tell the number."""
    return str(number)


def _agent(bus: EventBus | None) -> Agent:
    answers = [answer for run in range(2) for answer in (_asks(run), "done")]
    return Agent(ScriptedModel(answers), bus=bus, tools=[tell], components=[Idle()])


def _asks(run: int) -> AssistantMessage:
    calls = [
        ToolCall(id=f"c-{run}-{number}", name="tell", arguments={"number": number})
        for number in range(CALLS)
    ]
    return AssistantMessage(id=f"a-{run}", tool_calls=tuple(calls))


def _sizes(rig: Rig) -> tuple[int, ...]:
    return (SMALL,) if rig.once else AGENTS
