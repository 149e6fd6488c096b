"""The jobs of a store's writer: each is done whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.store.protocol import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.protocol import AppendRequest
    from toolbus.store.sqlite.writes import Writes


class AppendJob(NamedTuple):
    """The values of an `append`."""

    session_id: str
    request: AppendRequest


class TransactionJob(NamedTuple):
    """Any other work of an SQLite store's writer."""

    work: Callable[[Writes], JobResult]


class ForgetRowsJob(NamedTuple):
    """A *table* whose rows of the session are to be deleted."""

    session_id: str
    table: Literal["originals", "states"]


class ForgetSessionsJob(NamedTuple):
    """The values of a `forget_sessions`."""

    before_ns: int
    limit: int


class SwapStateJob(NamedTuple):
    """The values of a `swap_state`."""

    session_id: str
    name: str
    old: bytes | None
    new: bytes | None
    written_ns: int | None


class OpenSessionJob(NamedTuple):
    """The values of an `open_session`."""

    session_id: str
    holder: str
    seconds: float


class ExtendLeaseJob(NamedTuple):
    """The values of an `extend_lease`."""

    session_id: str
    holder: str
    seconds: float


Job: TypeAlias = (
    AppendJob
    | TransactionJob
    | ForgetRowsJob
    | ForgetSessionsJob
    | OpenSessionJob
    | ExtendLeaseJob
    | SwapStateJob
)
JobResult: TypeAlias = int | Position | tuple[str, ...] | None
