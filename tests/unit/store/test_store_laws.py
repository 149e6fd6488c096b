"""Memory and SQLite keep the laws of stores, told one by one; `specs/stores.md` has them in one."""

import sqlite3
from contextlib import closing

import pytest

from store_laws import (
    DamagedStoreLaws,
    KilledStoreLaws,
    LongStoreLaws,
    LookupLaws,
    SharedStoreLaws,
    StoreLaws,
    StoreSubject,
)
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.store.sqlite.schema import VERSION

MEMORY, SQLITE = "memory", "sqlite"


def change(path, statement, *values):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(statement, values)


@pytest.fixture
def stores(request, tmp_path):
    if request.cls.kind == MEMORY:
        store = MemoryStore()
        return StoreSubject(lambda: store)
    path = tmp_path / "store.db"
    damage = """UPDATE messages SET body = replace(body, 'hello', 'hullo')
        WHERE seq = ? AND session = (SELECT key FROM sessions WHERE id = ?)"""
    return StoreSubject(
        lambda: SqliteStore(path, timeout=30),
        address=str(path),
        damage=lambda session_id, seq: change(path, damage, seq, session_id),
        age=lambda: change(path, f"PRAGMA user_version = {VERSION + 1}"),
        commits=lambda store: store.commits,
    )


@pytest.mark.full
class TestMemoryStore(StoreLaws):
    kind = MEMORY


class TestDamagedSqliteStore(DamagedStoreLaws):
    kind = SQLITE


@pytest.mark.full
class TestSqliteStore(StoreLaws, LookupLaws, SharedStoreLaws, KilledStoreLaws):
    kind = SQLITE


@pytest.mark.full
class TestLongMemory(LongStoreLaws):
    kind = MEMORY


@pytest.mark.full
class TestLongSqlite(LongStoreLaws):
    kind = SQLITE
