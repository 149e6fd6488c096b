"""The check of a store's chains: the first record of each that does not fit, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from toolbus.store.check.session_check import ProgressCallback
    from toolbus.store.sql_reader import SqlReader

SeenCallback: TypeAlias = Callable[[bytes, int, bytes], None]
"""Called with the name of a session's chains, the number of a kind, and each of its links."""

Heads: TypeAlias = tuple[bytes | None, bytes | None, bytes | None]
"""The last links of messages, batches and questions, None before the first."""


class ChainBreak(Struct, frozen=True, kw_only=True):
    """The first record of a *kind* that does not fit, by *number*, and the *reason*."""

    kind: str
    number: int
    label: str
    reason: str


class SessionChain(Struct, frozen=True, kw_only=True):
    """The chains of one session, by their random *name*; b"" without chains.

    *begins* has the number of the first chained record of each kind, None without one.
    """

    session_id: str
    name: bytes
    heads: Heads
    begins: tuple[int | None, int | None, int | None]
    breaks: tuple[ChainBreak, ...]


class ForgottenChain(Struct, frozen=True, kw_only=True):
    """The last links of a deleted session's chains; *forgotten_ns* is the time of the deletion."""

    name: bytes
    heads: Heads
    forgotten_ns: int


def has_chains(reader: SqlReader) -> bool:
    """Return whether the store has chains: not a file that only an older toolbus has written."""
    raise NotImplementedError


def read_heads(reader: SqlReader) -> Iterator[tuple[bytes, Heads]]:
    """Yield the name and heads of each session with chains, without reading its records."""
    raise NotImplementedError


def check_chains(
    reader: SqlReader, progress: ProgressCallback, seen: SeenCallback | None = None
) -> Iterator[SessionChain]:
    """Yield the chains of all sessions, the oldest first; *seen* is called before each."""
    raise NotImplementedError


def forgotten(reader: SqlReader) -> Iterator[ForgottenChain]:
    """Yield the chains of deleted sessions, the first deleted first."""
    raise NotImplementedError
