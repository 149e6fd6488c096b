"""What a policy does, for a person who writes one: `toolbus policy`."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from contextlib import AsyncExitStack
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from toolbus.config.loading import load
from toolbus.errors import LoadError, ToolServerError
from toolbus.events.catalogue import Scope
from toolbus.messages.records import ToolCall, encode
from toolbus.policy import checking, explaining, verdict_tables
from toolbus.policy.call_reading import CallReader, LineMemory
from toolbus.policy.documents import PolicyFile, read_policy
from toolbus.terminal.screen import UsageError, open_screen
from toolbus.terminal.spans import Span

if TYPE_CHECKING:
    from pathlib import Path

    from toolbus.events.catalogue import ToolSpec
    from toolbus.terminal.output import Output


class ToolSources(NamedTuple):
    """Where the tools are that rules are compared with: a *target*, commands of MCP *servers*."""

    target: str | None = None
    servers: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.target or self.servers)


class AskedCall(NamedTuple):
    """A call to explain: of *tool*, with a *command* or *arguments* in JSON, from *folder*."""

    tool: str = "shell"
    command: str | None = None
    arguments: str | None = None
    folder: Path | None = None
    agent: str = ""


class PolicyReport(Struct, frozen=True, kw_only=True):
    """What is wrong with the policy *file*, and how many rules it has."""

    file: str
    rules: int
    remarks: tuple[checking.Remark, ...]


def write_policy(output: Output, file: Path) -> int:
    """Write the policy to start with to *file*, which must not be there; return 0."""
    text = files("toolbus.policy").joinpath("starting_policy.toml").read_bytes()
    try:
        with file.open("xb") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"{str(file)!r} is there already; name another file") from None
    screen = open_screen(output)
    screen.whole(f"{file} is written; read it, then name it in a toolbus.toml:")
    name = os.path.relpath(file)
    for line in ("", "[[component]]", 'use = "policy"', f"settings = {{ file = {name!r} }}"):
        screen.whole(line.replace("'", '"'), indent=2 if line else 0)
    return 0


def check(output: Output, file: Path, tools: ToolSources, *, as_json: bool = False) -> int:
    """Print what is wrong with *file*; return 0, or 1 if something is. Raises `LoadError`."""
    policy = PolicyFile(file)
    specs = asyncio.run(_specs(tools)) if tools else None
    remarks = checking.check_policy(policy, specs)
    count = len(policy.table.get("rule", ()))
    if as_json:
        report = PolicyReport(file=str(file), rules=count, remarks=tuple(remarks))
        output.write(f"{encode(report).decode()}\n")
        return 1 if remarks else 0
    screen = open_screen(output)
    for line, kind, text in remarks:
        screen.whole(
            f"{file}:{line or 1}: {kind}: {text}", style="bad" if kind == "error" else "changed"
        )
    rules = "1 rule" if count == 1 else f"{count} rules"
    if not remarks:
        screen.line(Span(f"✓ {rules}, and nothing to say about them", "good"))
    return 1 if remarks else 0


def explain(output: Output, file: Path, asked: AskedCall, *, as_json: bool = False) -> int:
    """Print why the call *asked* about gets its verdict; return 0. Raises `LoadError`."""
    rules = read_policy(file)
    reader = CallReader(rules, LineMemory())
    unjudged = reader.read(_call(asked), None, Scope(agent_id=asked.agent))
    facts = reader.facts(unjudged, _absolute(asked.folder))
    explanation = explaining.explain(rules, facts)
    if as_json:
        output.write(f"{encode(explanation).decode()}\n")
    else:
        explaining.show(explanation, open_screen(output))
    return 0


def compare(
    output: Output,
    file: Path,
    table: Path,
    folder: Path | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Print which rows of *table* get another verdict; return 0, or 1 if one does.

    *folder* is where the tools work, as `explain` takes it.
    """
    rules, rows = read_policy(file), verdict_tables.read_rows(table)
    results = list(verdict_tables.check_rows(rules, rows, _absolute(folder)))
    different = [result for result in results if result.difference]
    if as_json:
        output.write(f"{encode(results).decode()}\n")
        return 1 if different else 0
    screen = open_screen(output)
    for result in different:
        row = result.row
        shown = row.command if row.command is not None else f"{row.tool} {dict(row.arguments)}"
        screen.whole(f"{table}:{row.line}: {shown}", style="strong")
        screen.whole(result.difference, indent=2, style="bad")
        screen.whole(f"{result.decided_by}: {result.why}", indent=2, style="dim")
    count = f"{len(results) - len(different)} of {len(results)} verdicts are as expected"
    screen.line(Span(count, "bad" if different else "good"))
    return 1 if different else 0


def _absolute(folder: Path | None) -> str | None:
    return None if folder is None else os.path.abspath(folder)  # noqa: PTH100 - links stay


def _call(asked: AskedCall) -> ToolCall:
    if (asked.command is None) == (asked.arguments is None):
        raise UsageError("which call? give --command LINE, or --arguments JSON")
    if asked.arguments is None:
        return ToolCall(id="call", name=asked.tool, arguments={"command": asked.command})
    try:
        arguments = json.loads(asked.arguments)
    except ValueError as error:
        raise UsageError(f"--arguments is no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise UsageError(f"--arguments is no JSON object: {asked.arguments!r}")
    return ToolCall(id="call", name=asked.tool, arguments=arguments)


async def _specs(sources: ToolSources) -> list[ToolSpec]:
    """Return what tools say of themselves; raises `LoadError` and `ToolServerError`."""
    specs = [] if sources.target is None else list(load(sources.target).host.tools.specs)
    async with AsyncExitStack() as opened:
        for server in sources.servers:
            try:
                from toolbus.mcp.client import tools  # noqa: PLC0415 - it needs an extra

                name, *words = shlex.split(server) or [""]
                toolset = await opened.enter_async_context(tools(name, words))
            except (ImportError, ValueError, ToolServerError) as error:
                raise LoadError(f"--mcp {server!r}: {error}") from error
            specs += toolset.specs
    return specs
