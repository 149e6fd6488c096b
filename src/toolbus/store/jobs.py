"""The jobs of a store's writer: each is done whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.store.protocol import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.protocol import Stored
    from toolbus.store.sqlite.writes import Writes


class Append(NamedTuple):
    """The values of an `append`."""

    session_id: str
    stored: Stored


class Transaction(NamedTuple):
    """Any other work of an SQLite store's writer."""

    work: Callable[[Writes], JobResult]


class Forget(NamedTuple):
    """A *table* whose rows of the session are to be deleted."""

    session_id: str
    table: Literal["originals", "states"]


class ForgetSessions(NamedTuple):
    """The values of a `forget_sessions`."""

    before_ns: int
    limit: int


class Swap(NamedTuple):
    """The values of a `swap_state`."""

    session_id: str
    name: str
    old: bytes | None
    new: bytes | None
    written_ns: int | None


class Open(NamedTuple):
    """The values of an `open_session`."""

    session_id: str
    holder: str
    seconds: float


class Extend(NamedTuple):
    """The values of an `extend_lease`."""

    session_id: str
    holder: str
    seconds: float


Job: TypeAlias = Append | Transaction | Forget | ForgetSessions | Open | Extend | Swap
JobResult: TypeAlias = int | Position | tuple[str, ...] | None
