"""An engine in one process, whose journal may be a file: for development and tests."""

from __future__ import annotations

import asyncio
from typing import IO, TYPE_CHECKING
from uuid import uuid4

import msgspec
from msgspec import Struct

from toolbus.durable.engine import OPEN, WorkflowCall, WorkflowInfo, WorkflowState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from toolbus.durable.engine import QueueLimits, Steps, Workflow


class RecordedWorkflow(Struct):
    """A workflow in the journal; *steps* are the names and words of its ended steps."""

    call: WorkflowCall
    state: WorkflowState = "queued"
    slot: str = ""
    version: str = ""
    word: str = ""
    steps: list[tuple[str, str]] = []
    is_child: bool = False


class MemoryEngine:
    """An engine of this process alone; with the file *journal* its workflows outlive the process.

    Of a queue's limits only `running_per_worker` applies. *version* is the workflows' version.
    """

    workers = 1

    def __init__(self, journal: Path | None = None, *, version: str) -> None:
        self._path, self._version, self._slot = journal, version, ""
        self._file: IO[bytes] | None = None
        self._recorded: dict[str, RecordedWorkflow] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._workflow: Workflow | None = None
        self._queue: QueueLimits | None = None
        self.is_stopping = self._is_closed = False

    async def open(self) -> None:
        """Read the journal; the last line about a workflow is its present state."""
        if self._path is not None and self._file is None:
            self._path.touch(0o600)
            for line in self._path.read_bytes().splitlines():
                recorded = msgspec.json.decode(line, type=RecordedWorkflow)
                self._recorded[recorded.call.id] = recorded
            self._file = self._path.open("ab", buffering=0)

    async def start(self, slot: str, workflow: Workflow, queue: QueueLimits) -> None:
        """Run *workflow* for the calls of *queue* as the worker *slot*."""
        self._slot, self._workflow, self._queue = slot, workflow, queue
        self._fill()

    async def enqueue(self, call: WorkflowCall) -> None:
        """Queue a workflow; a second call with the same id does nothing."""
        if call.id not in self._recorded:
            self._write(RecordedWorkflow(call))
            self._fill()

    async def cancel(self, workflow_id: str) -> None:
        """Cancel an open workflow."""
        recorded = self._recorded.get(workflow_id)
        if recorded is not None and recorded.state in OPEN:
            self._change(recorded, "cancelled")
            if (task := self._tasks.get(workflow_id)) is not None:
                task.cancel()

    async def workflows(
        self, states: Sequence[WorkflowState] = OPEN, *, queue: str = "", limit: int = 1000
    ) -> tuple[WorkflowInfo, ...]:
        """Return the oldest workflows in *states* but children, the oldest first."""
        listed = [
            WorkflowInfo(
                id=each.call.id,
                arguments=each.call.arguments,
                queue=each.call.queue,
                state=each.state,
                slot=each.slot,
                version=each.version,
                word=each.word,
            )
            for each in self._recorded.values()
            if each.state in states and queue in {"", each.call.queue} and not each.is_child
        ]
        return tuple(listed[:limit])

    async def stop(self, seconds: float) -> None:
        """Let workflows leave for so many seconds, cancel the rest; both stay as running."""
        self.is_stopping = True
        if tasks := [*self._tasks.values()]:
            await asyncio.wait(tasks, timeout=seconds)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Close the journal; running workflows are left as after a kill."""
        self.is_stopping = self._is_closed = True
        if self._file is not None:
            self._file.close()
        for task in self._tasks.values():
            task.cancel()

    def _change(self, recorded: RecordedWorkflow, state: WorkflowState, word: str = "") -> None:
        recorded.state, recorded.word = state, word
        self._write(recorded)

    def _write(self, recorded: RecordedWorkflow) -> None:
        if self._is_closed:
            raise asyncio.CancelledError
        self._recorded[recorded.call.id] = recorded
        if self._file is not None:
            self._file.write(msgspec.json.encode(recorded) + b"\n")

    def _fill(self) -> None:
        """Begin queued workflows, as far as the limits of the queue allow."""
        if (queue := self._queue) is None or self.is_stopping:
            return
        for name, recorded in list(self._recorded.items()):
            is_ours = recorded.state == "queued" and recorded.version in {"", self._version}
            if not is_ours or recorded.call.queue != queue.name:
                continue
            if queue.running_per_worker is None or len(self._tasks) < queue.running_per_worker:
                recorded.slot, recorded.version = self._slot, self._version
                self._change(recorded, "running")
                self._tasks[name] = asyncio.create_task(self._run(recorded))

    async def _run(self, recorded: RecordedWorkflow) -> None:
        call = recorded.call
        state: WorkflowState = "ended"
        try:
            word = await self._workflow(MemorySteps(self, recorded), call.arguments)
        except asyncio.CancelledError:
            return  # It was cancelled, or is left to the next worker.
        except Exception as error:  # noqa: BLE001 - its type is its word
            word, state = type(error).__name__, "failed"
        finally:
            self._tasks.pop(call.id, None)
        if recorded.state == "running":
            self._change(recorded, state, word)
            self._fill()

    async def step(self, recorded: RecordedWorkflow, name: str, call: Awaitable[str]) -> str:
        """Record the word of *call* as a step of a workflow, and return it."""
        word = await call
        recorded.steps.append((name, word))
        self._write(recorded)
        return word

    async def child(
        self, recorded: RecordedWorkflow, work: Callable[[Steps], Awaitable[str]]
    ) -> str:
        """Record *work* as a workflow below another one, and return its word."""
        call = WorkflowCall(id=f"{recorded.call.id}-{uuid4().hex}", arguments=(), queue="")
        below = RecordedWorkflow(call, slot=self._slot, is_child=True)
        self._change(below, "running")
        word = await work(MemorySteps(self, below))
        self._change(below, "ended", word)
        return word


class MemorySteps:
    """The steps of the workflow *recorded* by *engine*."""

    def __init__(self, engine: MemoryEngine, recorded: RecordedWorkflow) -> None:
        self._engine, self._recorded = engine, recorded

    @property
    def is_leaving(self) -> bool:
        """Whether the worker stops."""
        return self._engine.is_stopping

    async def step(self, name: str, call: Awaitable[str]) -> str:
        """Record the word of *call* as a step once it has ended, and return it."""
        return await self._engine.step(self._recorded, name, call)

    async def child(self, work: Callable[[Steps], Awaitable[str]]) -> str:
        """Record *work* as a workflow below this one, and return its word."""
        return await self._engine.child(self._recorded, work)
