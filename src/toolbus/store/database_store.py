"""The base of stores in a database: one thread writes, another one reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from toolbus.errors import ClosedError, DecodeError, StoreError
from toolbus.store.job_store import JobStore
from toolbus.store.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from toolbus.store.jobs import Job
    from toolbus.store.sql_reader import SqlReader

T = TypeVar("T")
SqlQuery: TypeAlias = "Callable[[SqlReader], T]"

_MAX_BATCH = 512
"""The most writes of one commit."""


class DatabaseWrites(Protocol):
    """The work of the thread that writes; *commits* is how many transactions it has written."""

    commits: int

    def serve(self, jobs: Sequence[Any]) -> Sequence[Any]:
        """Do *jobs* and return the result of each, or why it failed."""
        ...

    def close(self) -> None:
        """Let go of the database."""


class DatabaseStore(JobStore):
    """Sessions in the database *where*: one thread does jobs by *writes*, one asks *reads*.

    Without *writes* the store is read-only.
    """

    durable = True

    def __init__(self, where: str, reads: SqlReader, writes: DatabaseWrites | None) -> None:
        self._where, self._writes, self._writer = where, writes, None
        self._reader = self._read_worker(reads)
        if writes:
            name = f"store {where!r}"
            self._writer = Worker(name, writes.serve, writes.close, limit=_MAX_BATCH)

    @property
    def commits(self) -> int:
        """The number of transactions that this store has written."""
        return self._writes.commits if self._writes else 0

    async def close(self) -> None:
        """Wait for the writes that were begun, then let go of the database."""
        await self._reader.close()
        if self._writer:
            await self._writer.close()

    def _check_open(self) -> None:
        if self._reader.is_closed:
            raise ClosedError(f"store {self._where!r}")

    async def _write(self, job: Job) -> Any:
        if self._writer is None:
            raise StoreError(self._where, "it was opened for reading; leave out `read_only=True`")
        return await self._writer.submit(job)

    async def _query(
        self, query: SqlQuery[T], reader: Worker[SqlQuery[Any], Any] | None = None
    ) -> T:
        try:
            answer: T = await (reader or self._reader).submit(query)
        except DecodeError as error:
            raise StoreError(self._where, str(error)) from error
        return answer

    def _read_worker(self, reads: SqlReader) -> Worker[SqlQuery[Any], Any]:
        return Worker(f"store {self._where!r}", partial(_answer_queries, reads), reads.close)


def _answer_queries(reader: SqlReader, queries: Sequence[SqlQuery[Any]]) -> list[Any]:
    """Return the answer of *reader* to each query: the work of the thread that reads."""
    with reader.snapshot():
        return [query(reader) for query in queries]
