"""The cost of labels for one tool call, and for one large result."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.harness import Contender, Figure, Rig, table
from toolbus import Agent, AgentComponent, AssistantMessage, ToolCall
from toolbus.flow.flow_guard import FlowGuard
from toolbus.models.scripted import ScriptedModel
from toolbus.policy import Policy
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store import Store

WITHOUT, WITH = "toolbus", "labels"
MEGABYTE = 1_000_000
_WORDS = "The shipment of the harbourmaster arrives on Thursday, and line after line is new. "


@table("µs", ours=WITH, baseline=WITHOUT)
def bench_labels(rig: Rig) -> None:
    """Labels cost about a fifth of one call of a tool that reads a file, with a store on disk."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "notes.txt").write_text(_WORDS * 50)
        rows: dict[str, Callable[[str], tuple[Store, list[AgentComponent]]]] = {
            "store on disk": lambda kind: (SqliteStore(folder / f"{kind}.db"), []),
            "store in memory": lambda _: (MemoryStore(), []),
            "store in memory, policy": lambda _: (MemoryStore(), [policy(folder)]),
        }
        for row, parts in rows.items():
            builds = [
                (each, lambda each=each, parts=parts: one_call(each, folder, *parts(each)))
                for each in (WITHOUT, WITH)
            ]
            rig.race(row, builds)
        made = [one_megabyte(rig, each) for each in (WITHOUT, WITH)]
        large = [(each.name, lambda each=each: each) for each in made]
        rig.race("a result of 1 MB that quotes", large, rounds=3)
    if not rig.once:
        rig.figures = [
            Figure(row, who, None if ns is None else ns / 1e3) for row, who, ns in rig.figures
        ]


def policy(folder: Path) -> Policy:
    """Return a policy that reads the effects of calls."""
    return Policy(default="allow", tools={"read_notes": {"effects": ["read"]}}, folder=folder)


def one_call(name: str, folder: Path, store: Store, components: list[AgentComponent]) -> Contender:
    """Build the call of a tool that reads a file, by an agent with or without labels."""

    async def read_notes(path: str) -> str:
        """Read a file of the project."""
        return (folder / path).read_text()

    labels = [FlowGuard()] if name == WITH else []
    agent = Agent(
        ScriptedModel([]), tools=[read_notes], store=store, components=[*components, *labels]
    )
    names = {"call": agent.call_tool}
    return Contender(name, 'await call("read_notes", path="notes.txt")', names)


def one_megabyte(rig: Rig, name: str) -> Contender:
    """Build the call of a trusted tool that returns 1 MB, in view of 1 MB of a stranger."""
    page = "".join([f"{number} {_WORDS}" for number in range(MEGABYTE // len(_WORDS))])
    own = "".join([f"{_WORDS} {number}" for number in range(MEGABYTE // len(_WORDS))])

    async def read_page() -> str:
        """Read a page of strangers."""
        return page

    async def read_notes() -> str:
        """Read a file of the project."""
        return own

    labels = [FlowGuard(trusted_tools=["read_notes"])] if name == WITH else []
    asking = AssistantMessage(tool_calls=(ToolCall(name="read_page"),))
    model = ScriptedModel([asking, "done"])
    agent = Agent(model, tools=[read_page, read_notes], components=labels)
    rig.run(agent.run("read the page"))
    return Contender(name, 'await call("read_notes")', {"call": agent.call_tool})
