"""The base of stores in a database: one thread writes, another one reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from toolbus.errors import ClosedError, DecodeError, StoreError
from toolbus.store.job_store import JobStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolbus.store.job_store import Query
    from toolbus.store.jobs import Job
    from toolbus.store.sql_reader import SqlReader
    from toolbus.store.worker import Worker

T = TypeVar("T")

MAX_BATCH = 512
"""How many writes share a commit at most."""


def answer_queries(reader: SqlReader, queries: Sequence[Query[Any]]) -> list[Any]:
    """Return the answer of *reader* to each query: the work of the thread that reads."""
    with reader.snapshot():
        return [query(reader) for query in queries]


class DatabaseStore(JobStore):
    """Sessions in the database *where*: *writer* does jobs in its thread, *reader* queries.

    Without a *writer* the store is read-only.
    """

    durable = True

    def __init__(
        self, where: str, reader: Worker[Query[Any], Any], writer: Worker[Any, Any] | None
    ) -> None:
        self._where, self._reader, self._writer = where, reader, writer

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

    async def _query(self, query: Query[T], reader: Worker[Query[Any], Any] | None = None) -> T:
        try:
            answer: T = await (reader or self._reader).submit(query)
        except DecodeError as error:
            raise StoreError(self._where, str(error)) from error
        return answer
