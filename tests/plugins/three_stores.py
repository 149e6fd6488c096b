"""The three stores for tests of what must hold on each: memory, SQLite and PostgreSQL."""

import asyncio

import pytest

from toolbus.store import MemoryStore, PostgresStore, SqliteStore


class StorePlace:
    """Where a store is: each `open` gives it as another process opens it.

    That of memory is one and the same: no other process has it. *address* is None for it.
    """

    def __init__(self, kind, address=None):
        self.kind, self.address = kind, address
        self._memory = MemoryStore()
        self._opened = []

    def open(self):
        """Return the store, which the fixture closes."""
        if self.kind == "memory":
            return self._memory
        make = SqliteStore if self.kind == "sqlite" else PostgresStore
        self._opened.append(make(self.address))
        return self._opened[-1]

    async def close(self):
        """Close all that was opened."""
        for store in self._opened:
            await store.close()


def _place(request, tmp_path):
    kind = request.param
    address = tmp_path / "store.db" if kind == "sqlite" else None
    place = StorePlace(kind, request.getfixturevalue("database") if kind == "postgres" else address)
    yield place
    asyncio.run(place.close())


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def place(request, tmp_path):
    """Give an empty store of each kind, which several may open."""
    yield from _place(request, tmp_path)


@pytest.fixture(
    params=[
        "memory",
        *[pytest.param(kind, marks=pytest.mark.full) for kind in ("sqlite", "postgres")],
    ]
)
def slow_place(request, tmp_path):
    """Give what `place` gives, to a test that takes long where a store writes to a disk."""
    yield from _place(request, tmp_path)


@pytest.fixture
def store(place):
    """Give an empty store of each kind."""
    return place.open()
