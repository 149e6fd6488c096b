"""Engines for tests of durable runs, each of which can be left as by a kill, and opened again."""

import asyncio
import time

import pytest

from memory_engine import MemoryEngine
from toolbus.durable.dbos_engine import DbosEngine
from toolbus.durable.engine import QueueLimits
from toolbus.durable.runs import VERSION

QUEUE = QueueLimits(name="q", poll_seconds=0.05)
SLOT = "worker:q:1"


class Engines:
    """Engines of one *kind* with the same record, at *place*."""

    def __init__(self, kind, place):
        self.kind, self.place = kind, place
        self.opened, self._journals = [], 1

    @property
    def journal(self):
        """The journal of an engine in memory."""
        return self.place / f"journal-{self._journals}"

    def forget(self):
        """Give the next engine in memory a record of its own."""
        self._journals += 1

    async def open(self, workflow=None, *, slot=SLOT, queue=QUEUE, version=VERSION):
        """Return an open engine; with *workflow* it runs its calls."""
        if self.kind == "memory":
            engine = MemoryEngine(self.journal, version=version)
        else:
            address = self.place if isinstance(self.place, str) else self.place / "s.db"
            engine = DbosEngine(address, version=version)
        await engine.open()
        self.opened.append(engine)
        if workflow is not None:
            await engine.start(slot, workflow, queue)
        return engine

    async def close(self):
        for engine in self.opened:
            await engine.close()


@pytest.fixture(
    params=[
        "memory",
        *[pytest.param(each, marks=pytest.mark.full) for each in ("dbos", "postgres")],
    ],
)
def engines(request, tmp_path):
    """Give engines of each kind."""
    is_postgres = request.param == "postgres"
    return Engines(request.param, request.getfixturevalue("database") if is_postgres else tmp_path)


@pytest.fixture
def memory_engines(tmp_path):
    """Give engines of this process."""
    return Engines("memory", tmp_path)


async def until(condition, seconds=20):
    """Wait until the async *condition* returns something true, and return it."""
    end = time.monotonic() + seconds
    while not (value := await condition()):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
    return value


async def until_ended(engine, seconds=20):
    """Wait until *engine* has no open workflow; return the words of the others, by id."""

    async def has_ended():
        return not await engine.workflows()

    await until(has_ended, seconds)
    ended = await engine.workflows(("ended", "failed", "cancelled"))
    return {each.id: each.word or each.state for each in ended}
