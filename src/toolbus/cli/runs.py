"""`toolbus runs`: list, cancel and retry durable runs."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from toolbus.approvals.display import moment
from toolbus.cli.output.blocks import print_json
from toolbus.cli.output.screen import open_screen
from toolbus.cli.output.stream import busy_line
from toolbus.cli.parser import add_action, make_parser, nonempty
from toolbus.cli.worker import add_store_option, make_engine, opened
from toolbus.errors import StoreError
from toolbus.settings.spans import Span
from toolbus.settings.usage_error import UsageError
from toolbus.settings.visible_text import shorten_visible
from toolbus.store.store_factory import open_reader, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.cli.output.screen import Screen
    from toolbus.cli.output.stream import Output
    from toolbus.cli.parser import Command
    from toolbus.durable.engine import WorkflowEngine, WorkflowInfo
    from toolbus.durable.runs import DurableRun
    from toolbus.store.protocol import Store

_EPILOG = """\
examples:
  toolbus runs --store service=agents             waiting, running, held, failed
  toolbus runs --store service=agents --all       those that ended well, too
  toolbus runs --store service=agents --json | jq .id
  toolbus runs cancel 8c01 --store service=agents
  toolbus runs retry 8c01 --store service=agents  go on from the transcript

ID is the id of a run or the beginning of it.

states:
  queued     it waits for a worker: its first, or the next one after a kill
  running    a worker has it
  held       questions wait for a person: `toolbus approvals`
  submitting its prompt is on the way; `cancel` it if that was killed
  lost       a kill kept it from the queue; `retry` queues it
  ok         it ended with an answer
  others     it ended so; `retry` lets it go on from where it stopped"""

_MOST = 100_000
"""The most workflows that are looked up in the engine."""

_FRESH_NS = 60_000_000_000
"""The nanoseconds in which a submitted run reaches the engine, on any clock."""

_COLUMNS = "{:<16}  {:<10}  {:<19}  {:<12}  {}"


def command() -> Command:
    """Return the parser and the body of the command."""
    parser = make_parser("toolbus runs", "List, cancel and retry durable runs.", _EPILOG)
    parser.add_argument("--all", action="store_true", help="those that ended well, too")
    parser.add_argument("--queue", type=nonempty, metavar="NAME", help="those of one queue")
    parser.add_argument("--json", action="store_true", help="write one JSON object a line")
    add_store_option(parser, default=None)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=type(parser))
    for word, text in (
        ("cancel", "stop a run, wherever it is"),
        ("retry", "let an ended run go on from its transcript"),
    ):
        action = add_action(actions, word, text)
        action.add_argument("id", type=nonempty, metavar="ID", help="the id, or its beginning")
        add_store_option(action, default=argparse.SUPPRESS)

    def run(parsed: argparse.Namespace, output: Output) -> int:
        if parsed.store is None:
            parser.error("missing: --store")
        if parsed.action:
            with busy_line(f"{parsed.action} {parsed.id}"):
                return asyncio.run(_change(parsed, output))
        return _list(parsed, output)

    return parser, run


def _list(parsed: argparse.Namespace, output: Output) -> int:
    rows, counts = _rows(parsed.store), Counter[str]()
    screen = open_screen(output)
    for run, word, slot in rows:
        if (word == "ok" and not parsed.all) or parsed.queue not in {None, run.queue}:
            continue
        counts[word] += 1
        if parsed.json:
            print_json(output, {**asdict(run), "word": word, "slot": slot})
        else:
            _write(screen, run, word, first=counts.total() == 1)
    if not parsed.json:
        none = "no runs" if parsed.all else "no open or failed runs; --all lists the others"
        screen.line(", ".join([f"{n:,} {word}" for word, n in counts.items()]) or none)
    return 0


def _write(screen: Screen, run: DurableRun, word: str, *, first: bool) -> None:
    if first:
        head = _COLUMNS.format("run", "state", "submitted (UTC)", "queue", "session")
        screen.line(Span(head, "dim"))
    names = [shorten_visible(each) for each in (run.id, word, run.queue, run.session_id)]
    when = moment(run.submitted_ns).removesuffix(" UTC")
    screen.whole(_COLUMNS.format(*names[:2], when, *names[2:]))
    if run.failure:
        screen.prose(run.failure, indent=2)


def _rows(address: str) -> Iterator[tuple[DurableRun, str, str]]:
    """Yield the runs at *address*, each with its state and the slot of its worker."""
    open_reader(address).close()  # A missing store is an error, and no file is made beside it.
    began_ns, workers = time.time_ns(), _workers(address)
    for run in _read(address):
        # A run that was submitted meanwhile is not lost.
        is_lost = run.submitted_ns < began_ns - _FRESH_NS and len(workers) < _MOST
        state, slot = workers.get(run.id, ("lost" if is_lost else "queued", ""))
        # The workflow of a held or ended run may not have told the engine yet.
        yield (run, state, slot) if run.word == "queued" else (run, run.word, "")


def _read(address: str, prefix: str = "") -> Iterator[DurableRun]:
    """Yield the runs whose ids begin with *prefix*."""
    from toolbus.durable.runs import PREFIX, decode_run  # noqa: PLC0415 - slow to import

    with open_reader(address) as reader:
        for _, state in reader.states_like(f"{PREFIX}{prefix}"):
            if state.body is not None:
                yield decode_run(state.body)


def _workers(address: str) -> dict[str, tuple[str, str]]:
    """Return by run its state in the engine, and the slot of its worker.

    A run is queued once its worker is gone: the engine calls it running until another one comes.
    """
    workflows = asyncio.run(_workflows(address))
    running = {each.slot for each in workflows if each.state == "running"}
    with open_reader(address) as reader:
        gone = {slot for slot in running if not reader.is_held(slot)}
    return {
        each.arguments[0]: ("queued", "") if each.slot in gone else (each.state, each.slot)
        for each in workflows
    }


async def _workflows(address: str) -> tuple[WorkflowInfo, ...]:
    async with opened(make_engine(address)) as engine:
        return await engine.workflows(limit=_MOST)


async def _change(parsed: argparse.Namespace, output: Output) -> int:
    run = _only_run(parsed)
    change = _cancel if parsed.action == "cancel" else _retry
    engine = make_engine(parsed.store)
    async with opened(engine), open_store(parsed.store) as store:
        changed = await change(store, engine, run)
    if changed is None:
        raise StoreError(parsed.store, "the run has changed meanwhile; look at it again")
    open_screen(output).whole(f"run {shorten_visible(run.id)} is {changed.word}")
    return 0


async def _cancel(store: Store, engine: WorkflowEngine, run: DurableRun) -> DurableRun:
    from toolbus.durable.submission import cancel  # noqa: PLC0415 - after an error of the engine

    changed = await cancel(store, engine, run)
    if changed.word != "cancelled":
        raise UsageError(f"run {run.id} has ended as {changed.word}; there is nothing to cancel")
    return changed


async def _retry(store: Store, engine: WorkflowEngine, run: DurableRun) -> DurableRun | None:
    """Queue an ended or lost run; None if it has changed."""
    from toolbus.durable.submission import retry  # noqa: PLC0415 - after an error of the engine

    if run.word in {"held", "ok"}:
        raise UsageError(f"run {run.id} is {run.word}; there is nothing to try again")
    if run.word == "submitting":
        raise UsageError(f"run {run.id} may have no prompt yet; cancel it and submit again")
    # Another try would interrupt the calls of an open run.
    if run.word == "queued" and not await _is_lost(engine, run):
        raise UsageError(f"run {run.id} has not ended; cancel it to try it again")
    return await retry(store, engine, run)


async def _is_lost(engine: WorkflowEngine, run: DurableRun) -> bool:
    """Return whether the engine has no workflow of the queued *run*."""
    workflows = await engine.workflows(queue=run.queue, limit=_MOST)
    return len(workflows) < _MOST and run.id not in {each.arguments[0] for each in workflows}


def _only_run(parsed: argparse.Namespace) -> DurableRun:
    runs = list(islice(_read(parsed.store, parsed.id), 2))
    runs = [run for run in runs if run.id == parsed.id] or runs
    if len(runs) != 1:
        many = "several runs have" if runs else "no run has"
        raise UsageError(f"{many} an id that begins with {parsed.id!r}; see `toolbus runs --all`")
    return runs[0]
