"""The protocol of an engine: it decides which worker runs a workflow, and records its steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

WorkflowState: TypeAlias = Literal["queued", "running", "ended", "failed", "cancelled"]

OPEN: tuple[WorkflowState, ...] = ("queued", "running")
"""The states of workflows that an engine still has to end."""


class RateLimit(Struct, frozen=True):
    """At most *starts* workflows begin in *seconds*."""

    starts: int
    seconds: float


class QueueLimits(Struct, frozen=True, kw_only=True):
    """The limits of the queue *name*; None: no limit.

    With a limit for each tenant, each workflow of the queue needs a partition.
    """

    name: str
    running: int | None = None
    running_per_worker: int | None = 50
    running_per_tenant: int | None = None
    rate: RateLimit | None = None
    poll_seconds: float = 0.5


class WorkflowCall(Struct, frozen=True, kw_only=True):
    """A workflow to start: its *id* and *arguments*, which are ids and numbers alone.

    *partition* names a tenant without its name.
    """

    id: str
    arguments: tuple[str, ...]
    queue: str
    partition: str = ""


class WorkflowInfo(Struct, frozen=True, kw_only=True):
    """A workflow in an engine's list; *slot* is its worker, "" without one."""

    id: str
    arguments: tuple[str, ...]
    queue: str
    state: WorkflowState
    slot: str
    version: str
    word: str = ""


Step: TypeAlias = Callable[[], Awaitable[str]]


class Steps(Protocol):
    """The steps of one running workflow.

    An ended step is never done again: its word is returned from the record. The names and
    order of steps must depend only on recorded words. An exception of these methods means that
    the workflow is cancelled, handed over, or runs elsewhere: it must stop and clean up.
    """

    def leave(self) -> None:
        """Raise `CancelledError` if the worker stops; called where nothing is under way."""

    async def step(self, name: str, work: Step) -> str:
        """Do *work* and record its word; it is cancelled with the workflow."""
        ...

    async def child(self, call: WorkflowCall) -> str:
        """Run a workflow in this process and return its word; it is cancelled with its caller."""
        ...


Workflow: TypeAlias = Callable[[Steps, tuple[str, ...]], Awaitable[str]]
"""A workflow: it takes its steps and arguments, and returns a word."""


class WorkflowEngine(Protocol):
    """An engine of workflows; `open` it before any other call.

    Only a worker calls `start`; programs may submit and list without it. A queue has at most so
    many *workers*; None: any number.
    """

    workers: int | None

    async def open(self) -> None:
        """Create the engine's tables if they do not exist; raises `StoreError` within a bound."""

    async def start(self, slot: str, workflow: Workflow, queue: QueueLimits) -> None:
        """Run *workflow* for the calls of *queue* as the worker *slot*, unfinished ones first."""

    async def enqueue(self, call: WorkflowCall) -> None:
        """Queue a workflow; a second call with the same id does nothing."""

    async def cancel(self, workflow_id: str) -> None:
        """Cancel an open workflow and its children, on any worker."""

    async def adopt(self, slot: str) -> int:
        """Queue the running workflows of the dead worker *slot* again; return their number.

        For this worker only workflows that two calls found without a task are queued.
        """
        ...

    async def workflows(
        self, states: Sequence[WorkflowState] = OPEN, *, queue: str = "", limit: int = 1000
    ) -> tuple[WorkflowInfo, ...]:
        """Return the oldest workflows in *states* but children, the oldest first."""
        ...

    async def stop(self, seconds: float) -> None:
        """Let workflows leave for so many seconds, cancel the rest, and queue all of them again."""

    async def close(self) -> None:
        """Release the connections; running workflows are left as after a kill."""
