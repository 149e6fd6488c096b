"""The links of a session's chains, and the statements that read them."""

import sqlite3
from contextlib import closing
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbus import UserMessage
from toolbus.errors import StoreError
from toolbus.store import AppendRequest, MemoryStore
from toolbus.store.chain import (
    BATCHES,
    MESSAGES,
    NOTHING,
    QUESTIONS,
    Chains,
    commitment,
    head_of,
    is_column,
    salted_state,
)
from toolbus.store.check import chain_check
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import open_reader
from toolbus.store.store_reader import SessionRow

COMMITTED = bytes(range(32))


def link(*parts):
    return sha256(b"".join(parts)).digest()


def test_a_link_is_what_the_guide_says():
    chains = Chains("s", None)

    first = chains.extend(MESSAGES, COMMITTED, "1:1:m1")
    second = chains.extend(MESSAGES, COMMITTED, "2:1:m2")

    name = chains.column[:16]
    assert first == link(link(name, b"message:s"), COMMITTED, b"1:1:m1")
    assert second == link(first, COMMITTED, b"2:1:m2")
    assert chains.column[head_of(MESSAGES)] == second
    assert chains.column[head_of(BATCHES)] == NOTHING


@given(st.lists(st.tuples(st.sampled_from([MESSAGES, BATCHES, QUESTIONS]), st.text())))
def test_each_chain_goes_on_from_its_own_head(records):
    together, name = Chains("s", None), b"n" * 16
    together.column = name + bytes(104)
    alone = {kind: Chains("s", together.column) for kind in range(3)}

    for kind, label in records:
        stored = Chains("s", together.column)  # As it is read from its row.
        assert stored.extend(kind, COMMITTED, label) == alone[kind].extend(kind, COMMITTED, label)
        together = stored

    heads = [alone[kind].column[head_of(kind)] for kind in range(3)]
    assert [together.column[head_of(kind)] for kind in range(3)] == heads
    assert is_column(together.column)


def test_questions_are_counted():
    chains = Chains("s", None)

    writes = [chains.extend_questions("question:1", COMMITTED) for _ in range(300)]

    assert [number for number, _, _ in writes] == [*range(1, 301)]
    assert {(name, seal[:32]) for _, name, seal in writes} == {("question:1", COMMITTED)}
    assert chains.column[head_of(QUESTIONS)] == writes[-1][2][32:]


def test_only_questions_and_grants_have_a_salt():
    assert salted_state("count", b"1") == (None, b"")
    assert salted_state("questions", b"1") == (None, b"")
    assert salted_state("question:1", None) == (None, NOTHING)
    for name in ("question:1", "grant:1"):
        salt, committed = salted_state(name, b"1")
        assert (len(salt), committed) == (16, commitment(salt, b"1"))


@pytest.mark.parametrize("column", [b"", b"short", bytes(119), "x" * 120, 7])
def test_a_damaged_column_is_never_replaced(column):
    chains = Chains("s", column)

    for extend in (
        lambda: chains.extend(MESSAGES, COMMITTED, "1:1:m1"),
        lambda: chains.extend_questions("question:1", COMMITTED),
    ):
        with pytest.raises(StoreError, match="the chain in the session's row is damaged"):
            extend()
    assert chains.column is column


@pytest.mark.parametrize("name", ["_MESSAGES", "_BATCHES", "_LINKS", "_STATES", "_ROW"])
async def test_rows_of_a_chain_are_found_by_an_index(tmp_path, name):
    await SqliteStore(tmp_path / "store.db").close()
    query = getattr(chain_check, name).format_map(chain_check._SQLITE)

    with closing(sqlite3.connect(tmp_path / "store.db")) as file:
        plan = file.execute(f"EXPLAIN QUERY PLAN {query}", [1] * query.count("?")).fetchall()

    steps = [detail for *_, detail in plan]
    assert not [step for step in steps if step.startswith(("SCAN", "USE TEMP"))]
    searches = [step for step in steps if "messages" in step or "links" in step]
    assert all("session=? AND" in step for step in searches)


async def _ask(path):
    async with SqliteStore(path) as store:
        await store.append("s", AppendRequest(message=UserMessage(id="m", content="hello")))
        await store.swap_state("s", "question:1", None, b"1")
        await store.swap_state("s", "question:1", b"1", b"2")


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ("SELECT 1", True),
        ("UPDATE messages SET body = '{}'", True),
        ("UPDATE states SET body = '3'", False),
        ("UPDATE links SET name = 'question:2'", False),
        ("DELETE FROM links; DELETE FROM states", False),
        ("UPDATE sessions SET chain = NULL", False),
        ("UPDATE sessions SET chain = 'x'", False),
        ("INSERT INTO states VALUES (9, 1, 'grant:1', 1, NULL, '1', 0)", False),
        ("DROP TABLE links; ALTER TABLE sessions DROP COLUMN chain", True),
    ],
)
async def test_questions_fit_unless_they_were_changed(tmp_path, change, fits):
    await _ask(tmp_path / "store.db")
    with closing(sqlite3.connect(tmp_path / "store.db")) as file:
        file.executescript(change)

    with open_reader(tmp_path / "store.db") as reader:
        (session,) = reader.sessions()
        assert chain_check.questions_fit(reader, session) is fits


def test_questions_in_memory_fit():
    session = SessionRow(1, "s", 0, 0, 0, 0, has_originals=False)
    assert chain_check.questions_fit(MemoryStore().reader(), session)
