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


class Steps(Protocol):
    """The steps of one running workflow, for all tasks of its event loop.

    A step starts nothing: it waits for a call that the agent makes in any case. So an engine that
    begins a workflow again may return a recorded word at once, and an error costs a record alone.
    """

    @property
    def is_leaving(self) -> bool:
        """Whether the worker stops, and waits for the workflow to raise `CancelledError`."""
        ...

    async def step(self, name: str, call: Awaitable[str]) -> str:
        """Record the word of *call* as a step once it has ended, and return it."""
        ...

    async def child(self, work: Callable[[Steps], Awaitable[str]]) -> str:
        """Record *work* as a workflow below this one, in this process, and return its word."""
        ...


Workflow: TypeAlias = Callable[[Steps, tuple[str, ...]], Awaitable[str]]
"""A workflow: it takes its steps and arguments, and returns a word. It is cancelled as a task."""


class WorkflowEngine(Protocol):
    """An engine of workflows; `open` it before any other call.

    Only a worker calls `start`; programs may submit and list without it. A queue has at most so
    many *workers*; None: any number.
    """

    workers: int | None

    async def open(self) -> None:
        """Create the engine's tables if they do not exist; raises `StoreError` within a bound."""

    async def start(self, slot: str, workflow: Workflow, queue: QueueLimits) -> None:
        """Run *workflow* for the calls of *queue* as the worker *slot*."""

    async def enqueue(self, call: WorkflowCall) -> None:
        """Queue a workflow; a second call with the same id does nothing."""

    async def cancel(self, workflow_id: str) -> None:
        """Cancel an open workflow and its children, on any worker."""

    async def workflows(
        self, states: Sequence[WorkflowState] = OPEN, *, queue: str = "", limit: int = 1000
    ) -> tuple[WorkflowInfo, ...]:
        """Return the oldest workflows in *states* but children, the oldest first."""
        ...

    async def stop(self, seconds: float) -> None:
        """Let workflows leave for so many seconds, cancel the rest; both stay as running."""

    async def close(self) -> None:
        """Release the connections; running workflows are left as after a kill."""
