"""The jobs of a store's writer; each is atomic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.store.protocol import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.protocol import AppendRequest
    from toolbus.store.sqlite.writes import Writes


class AppendJob(NamedTuple):
    """The arguments of an `append`."""

    session_id: str
    request: AppendRequest


class TransactionJob(NamedTuple):
    """Any other *work* in a transaction of an SQLite store's writer."""

    work: Callable[[Writes], JobResult]


class ForgetRowsJob(NamedTuple):
    """The deletion of the session's rows in *table*."""

    session_id: str
    table: Literal["originals", "states"]


class ForgetSessionsJob(NamedTuple):
    """The arguments of a `forget_sessions`."""

    before_ns: int
    limit: int


class SwapStateJob(NamedTuple):
    """The arguments of a `swap_state`."""

    session_id: str
    name: str
    old: bytes | None
    new: bytes | None
    written_ns: int | None


class OpenSessionJob(NamedTuple):
    """The arguments of an `open_session`."""

    session_id: str
    holder: str
    seconds: float


class ExtendLeaseJob(NamedTuple):
    """The arguments of an `extend_lease`."""

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
