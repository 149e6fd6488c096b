"""The jobs of a store's writer: each is done whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.store.protocol import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.protocol import Stored
    from toolbus.store.sqlite.writes import Writes


class Append(NamedTuple):
    """The values and the time of an `append`."""

    session_id: str
    now_ns: int
    stored: Stored


class Transaction(NamedTuple):
    """Any other work of an SQLite store's writer."""

    work: Callable[[Writes], JobResult]


class Forget(NamedTuple):
    """A *table* whose rows of the session are to be deleted."""

    session_id: str
    table: Literal["originals", "states"] = "originals"


class ForgetSessions(NamedTuple):
    """The values and the time of a `forget_sessions`."""

    before_ns: int
    now_ns: int
    limit: int


class Swap(NamedTuple):
    """The values and the time of a `swap_state`."""

    session_id: str
    name: str
    now_ns: int
    old: bytes | None
    new: bytes | None


class Open(NamedTuple):
    """The values and the time of an `open_session`."""

    session_id: str
    holder: str
    now_ns: int
    until_ns: int


class Extend(NamedTuple):
    """The values of an `extend_lease`."""

    until_ns: int
    session_id: str
    holder: str


Job: TypeAlias = Append | Transaction | Forget | ForgetSessions | Open | Extend | Swap
JobResult: TypeAlias = int | Position | tuple[str, ...] | None
