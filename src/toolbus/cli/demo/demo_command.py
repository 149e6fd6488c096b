"""`toolbus demo`: an agent with real tools on real files, and the handlers between them."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbus import Agent, events
from toolbus.cli.demo import components
from toolbus.cli.demo.run_display import RunDisplay
from toolbus.cli.demo.world import LOG, PROMPT, World, isolate_git, make_repository
from toolbus.cli.explain import HistoryWriter
from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.screen import Screen, open_screen
from toolbus.cli.output.stream import Output
from toolbus.cli.parser import make_parser, program, whole_number
from toolbus.history.lookup import find_match
from toolbus.history.message_history import history_of
from toolbus.models import ScriptedModel
from toolbus.settings.hints import unknown_key
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import open_reader
from toolbus.workspace.file_tools import FileTools
from toolbus.workspace.shell_tool import ShellTool

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from toolbus import AgentComponent, ToolAdapter
    from toolbus.cli.parser import Command
    from toolbus.events.catalogue import RunResult

_EPILOG = """\
examples:
  toolbus demo --seed 7                  the world of seed 7, each time the same
  toolbus demo --without NoDestruction   the same work without that component
  toolbus demo --json | jq .totals       one JSON document

It needs git and a POSIX shell; no key, no network, no server. On a terminal it
waits for Enter before each turn. Its files stay in a folder of their own. It
ends with 0 if every component intervened, else with 1, and names the others."""

_OPENING = """\
A coding agent is asked to repair a nightly import and to push the fix. Without toolbus, its model \
and the stored session get {credentials} credentials and a log of {log:,} characters, `git reset \
--hard && git clean -fdx` deletes files that git does not have, and a forced push leaves the \
machine unasked. Five components prevent that. The answers of the model are prepared; git, files \
and commands are real."""

_TOTALS = """\
The tools returned {characters_returned:,} characters and {credentials_returned} credentials. The \
model read {characters_read:,} characters and {credentials_read} credentials; the store's files \
hold {credentials_stored} credentials."""

_NAMES = [type(each).__name__ for each in components.components()]


def command() -> Command:
    """Return the parser and the function to run."""
    parser = make_parser("toolbus demo", "Watch an agent work, and handlers intervene.", _EPILOG)
    number = whole_number("a whole number", 0)
    parser.add_argument("--seed", type=number, metavar="N", help="draw the same world again")
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="leave a component out"
    )
    parser.add_argument("--no-pause", action="store_true", help="do not wait for Enter")
    parser.add_argument("--json", action="store_true", help="write one JSON document")

    return parser, run_demo


def run_demo(parsed: argparse.Namespace, output: Output) -> int:
    """Run the demo; return 0 if every component intervened, else 1.

    Raises `UsageError` for an unknown component, and for a missing program.
    """
    if unknown := [name for name in parsed.without if name not in _NAMES]:
        raise UsageError(f"--without: {unknown_key(unknown[0], _NAMES, 'component')}")
    if missing := [name for name in ("git", "sh", "grep") if shutil.which(name) is None]:
        raise UsageError(f"the demo needs git and a POSIX shell; not found: {', '.join(missing)}")
    shown = Output(StringIO()) if parsed.json else output
    seed = random.randrange(1_000_000) if parsed.seed is None else parsed.seed
    world, folder = World(seed), Path(tempfile.mkdtemp(prefix="toolbus-demo-"))
    isolate_git(folder)
    make_repository(world.files, folder)
    report = asyncio.run(_run(shown, world, folder, parsed))
    if parsed.json:
        print_json(output, report)
    return 0 if report["ok"] else 1


async def _run(
    output: Output, world: World, folder: Path, parsed: argparse.Namespace
) -> dict[str, Any]:
    """Let the agent work in *folder* and show it; return the document of `--json`."""
    screen, transcript = open_screen(output), folder / "transcript.db"
    pauses = not parsed.no_pause and output.is_terminal and os.isatty(0)
    screen.line(Span("toolbus demo", "strong"), right=[Span(f"--seed {world.seed}", "dim")])
    screen.prose(_OPENING.format(credentials=len(world.credentials), log=len(world.files[LOG])))
    store, display = SqliteStore(transcript), RunDisplay(screen)
    agent = Agent(
        ScriptedModel(world.answers()),
        components=_components(folder / "repo", parsed.without),
        store=store,
        session_id=f"demo-{world.seed}",
        approver=lambda *_: True,
    )
    agent.bus.tap(display, values=True)

    async def pause(_: object = None) -> None:
        if pauses:
            await _wait_for_enter(output)

    agent.on(events.MODEL_CALL_BEFORE)(pause)
    async with store, agent:
        result = await agent.run(PROMPT)
    totals = _count(world, transcript, display, result)
    screen.line()
    screen.prose(result.text, style="dim")
    screen.prose(_TOTALS.format(**totals), style="strong")
    await pause()
    for denied in [each.requested.id for each in display.outcomes if each.status == "denied"]:
        screen.line()
        screen.command(*program(), "explain", str(transcript), "--call", denied)
        with open_reader(transcript) as reader:
            history = history_of(reader, find_match(reader, "call", denied, None))
        HistoryWriter(screen).write(history)
    missing = [name for name in _NAMES if name not in display.interventions]
    report = {
        "ok": not missing,
        "missing": missing,
        "interventions": display.interventions,
        "totals": totals,
        "seed": world.seed,
        "session": agent.scope.session_id,
        "transcript": str(transcript),
    }
    _show_next(screen, report)
    return report


def _components(root: Path, without: Sequence[str]) -> list[AgentComponent | ToolAdapter]:
    """Return the tools of the agent, and the handlers that are not left out."""
    tools = [FileTools(root=root), ShellTool(root=root)]
    return tools + [each for each in components.components() if type(each).__name__ not in without]


async def _wait_for_enter(output: Output) -> None:
    """Wait for a line or the end of standard input; Ctrl-C cancels the wait."""
    output.write("\npress Enter to continue ")
    typed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(0, typed.set)
    try:
        await typed.wait()
        os.read(0, 4_096)
    finally:
        loop.remove_reader(0)


def _count(
    world: World, transcript: Path, display: RunDisplay, result: RunResult
) -> dict[str, int]:
    """Return the sizes and credentials that tools returned, the model read and the store has."""
    returned = "\0".join([outcome.response.text for outcome in display.outcomes])
    read = "\0".join([message.text for message in result.messages if message.role == "tool"])
    files = [each.read_text("latin-1") for each in transcript.parent.glob(f"{transcript.name}*")]
    places = {"returned": returned, "read": read, "stored": "\0".join(files)}
    credentials = {
        f"credentials_{name}": sum([secret in text for secret in world.credentials])
        for name, text in places.items()
    }
    return {"characters_returned": len(returned), "characters_read": len(read), **credentials}


def _show_next(screen: Screen, report: dict[str, Any]) -> None:
    """Show the commands to run next, and which component did nothing."""
    again = () if report["missing"] else ("--without", "Redact")
    screen.line()
    screen.line(Span("what to run next", "strong"))
    ours = program()
    for words in (
        (*ours, "show", report["transcript"], report["session"]),
        (*ours, "demo", "--seed", str(report["seed"]), *again),
        (*ours, "handlers", f"{components.__file__}:components"),
        (*ours, "guide"),
    ):
        screen.command(*words)
    screen.line()
    missing = report["missing"]
    end = f"missing: {', '.join(missing)}" if missing else "every component intervened"
    screen.prose(end, style="bad" if missing else "good")
