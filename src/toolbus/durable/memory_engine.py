"""An engine in one process, whose journal may be a file: for development and tests."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from typing import IO, TYPE_CHECKING

import msgspec
from msgspec import Struct

from toolbus.durable.engine import OPEN, WorkflowCall, WorkflowInfo, WorkflowState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from toolbus.durable.engine import QueueLimits, Step, Workflow


class Entry(Struct, omit_defaults=True):
    """A line of the journal about one workflow: the fields that have changed."""

    id: str
    call: WorkflowCall | None = None
    state: WorkflowState | None = None
    slot: str = ""
    version: str = ""
    step: int = 0
    name: str = ""
    word: str = ""
    created_ns: int = 0


class _Known:
    """A workflow as the journal tells of it."""

    def __init__(self, call: WorkflowCall, created_ns: int) -> None:
        self.call, self.created_ns = call, created_ns
        self.state: WorkflowState = "queued"
        self.slot, self.version, self.word = "", "", ""
        self.words: dict[int, tuple[str, str]] = {}


class MemoryEngine:
    """An engine of this process alone; with the file *journal* its workflows outlive the process.

    Of a queue's limits only `running_per_worker` applies. *version* is that of the workflows.
    """

    def __init__(self, journal: Path | None = None, *, version: str) -> None:
        self._path, self._version = journal, version
        self._file: IO[bytes] | None = None
        self._known: dict[str, _Known] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._workflows: Mapping[str, Workflow] = {}
        self._queues: Mapping[str, QueueLimits] = {}
        self._slot, self.is_stopping, self._is_closed = "", False, False

    async def open(self) -> None:
        """Read the journal; a line that a killed process did not end is left out."""
        if self._path is not None and self._file is None:
            self._path.touch(0o600)
            for line in self._path.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    self._apply(msgspec.json.decode(line, type=Entry))
            self._file = self._path.open("ab", buffering=0)

    async def start(
        self, slot: str, workflows: Mapping[str, Workflow], queues: Sequence[QueueLimits]
    ) -> None:
        """Run workflows of *queues* as the worker *slot*, first those that it left running."""
        self._slot, self._workflows = slot, workflows
        self._queues = {queue.name: queue for queue in queues}
        await self.adopt(slot)
        self._fill()

    async def enqueue(self, call: WorkflowCall) -> None:
        """Queue a workflow; a second one with the same id does nothing."""
        if call.id not in self._known:
            self._write(Entry(call.id, call, created_ns=time.time_ns()))
            self._fill()

    async def cancel(self, workflow_id: str) -> None:
        """Cancel a workflow; nothing for an ended one."""
        self._cancel(workflow_id)

    def _cancel(self, workflow_id: str) -> None:
        known = self._known.get(workflow_id)
        if known is not None and known.state in OPEN:
            self._write(Entry(workflow_id, state="cancelled"))
            if (task := self._tasks.get(workflow_id)) is not None:
                task.cancel()

    async def adopt(self, slot: str) -> int:
        """Queue the running workflows of a dead worker again; return their number."""
        left = [
            workflow_id
            for workflow_id, known in self._known.items()
            if known.state == "running" and known.slot == slot and workflow_id not in self._tasks
        ]
        for workflow_id in left:
            self._write(Entry(workflow_id, state="queued"))
        self._fill()
        return len(left)

    async def workflows(
        self, states: Sequence[WorkflowState] = OPEN, *, queue: str = "", limit: int = 1000
    ) -> tuple[WorkflowInfo, ...]:
        """Return the latest workflows in *states*, the latest first."""
        found = [
            self._info(known)
            for known in reversed(self._known.values())
            if known.state in states and queue in {"", known.call.queue}
        ]
        return tuple(found[:limit])

    async def stop(self, seconds: float) -> None:
        """Let workflows leave for so many seconds, cancel the rest, and queue all of them again."""
        self.is_stopping = True
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        self._tasks.clear()
        await self.adopt(self._slot)

    async def close(self) -> None:
        """Close the journal; running workflows are left as after a kill."""
        self.is_stopping = self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None
        for task in self._tasks.values():
            task.cancel()

    def _info(self, known: _Known) -> WorkflowInfo:
        call = known.call
        return WorkflowInfo(
            id=call.id,
            kind=call.kind,
            arguments=call.arguments,
            queue=call.queue,
            state=known.state,
            slot=known.slot,
            version=known.version,
            word=known.word,
            created_ns=known.created_ns,
        )

    def _write(self, entry: Entry) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(entry) + b"\n")
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        if entry.call is not None:
            self._known[entry.id] = _Known(entry.call, entry.created_ns)
        known = self._known[entry.id]
        if entry.step:
            known.words[entry.step] = entry.name, entry.word
        elif entry.state is not None:
            known.state = entry.state
            known.slot, known.word = entry.slot or known.slot, entry.word
            known.version = entry.version or known.version

    def _fill(self) -> None:
        """Begin queued workflows, as far as the limits of their queues allow."""
        for workflow_id, known in list(self._known.items()):
            queue = self._queues.get(known.call.queue)
            if (
                queue is None
                or known.state != "queued"
                or self.is_stopping
                or known.version not in {"", self._version}
            ):
                continue
            running = [self._known[each].call.queue for each in self._tasks].count(queue.name)
            if queue.running_per_worker is None or running < queue.running_per_worker:
                begun = Entry(workflow_id, state="running", slot=self._slot, version=self._version)
                self._write(begun)
                self._tasks[workflow_id] = asyncio.create_task(self._run(known))

    async def _run(self, known: _Known) -> None:
        call = known.call
        timer = None
        if call.timeout is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(call.timeout, self._cancel, call.id)
        try:
            word = await self._workflows[call.kind](MemorySteps(self, known), call.arguments)
            state: WorkflowState = "ended"
        except asyncio.CancelledError:
            return  # It was cancelled, or is left to the next worker.
        except Exception as error:  # noqa: BLE001 - its type is its word
            word, state = type(error).__name__, "failed"
        finally:
            self._tasks.pop(call.id, None)
            if timer is not None:
                timer.cancel()
        if known.state == "running" and not self._is_closed:
            self._write(Entry(call.id, state=state, word=word))
            self._fill()

    async def step(self, known: _Known, number: int, name: str, work: Step) -> str:
        """Return the recorded word of a step, or do *work* and record its word."""
        if number in known.words:
            recorded, word = known.words[number]
            if recorded != name:
                raise RuntimeError(f"step {number} was {recorded!r}, and is now {name!r}")
            return word
        word = await work()
        if self._is_closed:
            raise asyncio.CancelledError
        self._write(Entry(known.call.id, step=number, name=name, word=word))
        return word


class MemorySteps:
    """The steps of the workflow *known* of *engine*."""

    def __init__(self, engine: MemoryEngine, known: _Known) -> None:
        self._engine, self._known, self._numbers = engine, known, count(1)

    def leave(self) -> None:
        """Raise `CancelledError` if the worker stops."""
        if self._engine.is_stopping:
            raise asyncio.CancelledError

    async def step(self, name: str, work: Step) -> str:
        """Do *work* and record its word; it is cancelled with the workflow."""
        return await self._engine.step(self._known, next(self._numbers), name, work)
