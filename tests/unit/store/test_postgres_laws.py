"""A store on PostgreSQL keeps the laws of stores, told one by one."""

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
from toolbus.store import PostgresStore
from toolbus.store.postgres.tables import VERSION
from toolbus.store.postgres.text_ids import MAX_INDEXED, escape, indexed, unescape


@pytest.fixture
def stores(postgres, database):
    name = database.rpartition("/")[2].partition("?")[0]
    damage = """UPDATE toolbus.messages SET body = replace(body, 'hello', 'hullo')
        WHERE seq = {} AND session = (SELECT key FROM toolbus.sessions WHERE id = '{}')"""
    return StoreSubject(
        lambda: PostgresStore(database, timeout=30),
        address=database,
        damage=lambda session_id, seq: postgres.execute(damage.format(seq, session_id), name),
        age=lambda: postgres.execute(f"UPDATE toolbus.meta SET version = {VERSION + 1}", name),
        commits=lambda store: store.commits,
    )


@pytest.mark.full
class TestPostgresStore(StoreLaws, LookupLaws, SharedStoreLaws, DamagedStoreLaws, KilledStoreLaws):
    pass


@pytest.mark.full
class TestLongPostgres(LongStoreLaws):
    pass


@pytest.mark.parametrize("text", ["", "a", "\0", "\ufdd0", "\ufdd00", "\0\ufdd1\ufdd0\0", "ü\\0"])
def test_an_id_is_escaped_and_back(text):
    assert "\0" not in escape(text)
    assert unescape(escape(text)) == text


def test_long_ids_differ_in_the_index():
    names = [f"{'ü' * length}{end}" for length in (MAX_INDEXED - 1, 10_000) for end in "ab"]

    assert len({indexed(name) for name in names}) == 4
    assert max(len(indexed(name).encode()) for name in names) < 2_704
