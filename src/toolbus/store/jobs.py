"""What the writer of a store is asked to do: each job is done whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from toolbus.store.protocol import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolbus.store.protocol import Stored
    from toolbus.store.sqlite.writes import Writes


class Append(NamedTuple):
    """What `append` was given, and when."""

    session_id: str
    now_ns: int
    stored: Stored


class Transaction(NamedTuple):
    """Any other work of an SQLite store's writer."""

    work: Callable[[Writes], JobResult]


class Forget(NamedTuple):
    """Which of what is kept of a session is to be deleted."""

    session_id: str
    table: Literal["originals", "states"] = "originals"


class ForgetSessions(NamedTuple):
    """What `forget_sessions` was given, and when."""

    before_ns: int
    now_ns: int
    limit: int


class Swap(NamedTuple):
    """What `swap_state` was given, and when."""

    session_id: str
    name: str
    now_ns: int
    old: bytes | None
    new: bytes | None


class Open(NamedTuple):
    """What `open_session` was given, and when."""

    session_id: str
    holder: str
    now_ns: int
    until_ns: int


class Extend(NamedTuple):
    """What `extend_lease` was given."""

    until_ns: int
    session_id: str
    holder: str


Job: TypeAlias = Append | Transaction | Forget | ForgetSessions | Open | Extend | Swap
JobResult: TypeAlias = int | Position | tuple[str, ...] | None
