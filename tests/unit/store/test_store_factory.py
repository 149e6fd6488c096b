"""What `specs/copy.md` should not mention of addresses, and of deleting what is damaged."""

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from store_laws.subject_store import record
from toolbus import AssistantMessage, ToolCall, UserMessage
from toolbus.cli.forget import read_moment
from toolbus.errors import StoreError, WrongPathError
from toolbus.replay.sources import find_sources
from toolbus.settings.usage_error import UsageError
from toolbus.store.check.session_check import check_file
from toolbus.store.protocol import AppendRequest
from toolbus.store.sqlite import SqliteStore
from toolbus.store.store_factory import is_postgres, open_reader, open_store


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://h/d", True),
        ("postgres:///d", True),
        ("service=agents", True),
        ("./service=agents", False),
        (Path("service=agents"), False),
        ("agent.db", False),
        ("/a b/postgresql:x.db", False),
        ("C:/x.db", False),
        ("", False),
    ],
)
def test_what_is_no_address_of_a_server_is_a_path(address, expected):
    assert is_postgres(address) is expected


@pytest.mark.parametrize("scheme", ["sqlite", "mysql", "http", "PostgreSQL", "postgresql+psycopg"])
def test_another_scheme_is_refused_without_its_rest(scheme):
    with pytest.raises(WrongPathError) as refused:
        open_store(f"{scheme}://user:canary@host/db")

    assert "canary" not in str(refused.value)
    assert str(refused.value).startswith(f"store '{scheme}://': unknown scheme of a store")


def test_without_the_extra_it_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("toolbus.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    for opener in (open_store, open_reader):
        with pytest.raises(StoreError, match=r"needs psycopg.*postgres"):
            opener("postgresql://host/db")


def test_a_path_may_be_any_kind_of_path(tmp_path):
    for path in (tmp_path / "a.db", os.fspath(tmp_path / "b.db")):
        store = open_store(path)
        asyncio.run(store.append("s", AppendRequest(message=UserMessage(id="m", content=""))))
        asyncio.run(store.close())
        with open_reader(path) as reader:
            assert [row.id for row in reader.sessions()] == ["s"]


def test_secrets_are_not_the_name_of_a_source():
    (source,), _ = find_sources(["postgresql://user:canary@host/db?password=canary"])
    (service,), _ = find_sources(["service=agents"])

    assert (source.name, service.name) == ("postgresql://host/db", "service=agents")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-02", 86_400 * 10**9),
        ("1970-01-01T01:00:00.000001", 3_600 * 10**9 + 1_000),
        ("1970-01-01T01:00+01:00", 0),
        ("1969-12-31", -86_400 * 10**9),
    ],
)
def test_a_day_is_read_as_utc(text, expected):
    assert read_moment(text) == expected


@pytest.mark.parametrize("text", ["", "31.1.2026", "2026-02-30", "9999-12-31", "yesterday"])
def test_what_is_no_day_is_refused(text):
    with pytest.raises(UsageError, match="day"):
        read_moment(text)


async def test_damaged_sessions_are_deleted_with_their_indexes(tmp_path):
    path = tmp_path / "store.db"
    call = ToolCall(id="call-1", name="read", arguments={})
    asked = AssistantMessage(id="a", tool_calls=(call,))
    records = (record(1, subject="refused", call_id="call-2"),)
    async with SqliteStore(path) as store:
        for session_id in ("old", "new"):
            moment = 1_000 if session_id == "old" else 5_000
            await store.open_session(session_id, "somebody", 0)
            for stored in (
                AppendRequest(message=asked, records=records, written_ns=moment),
                AppendRequest(records=records, written_ns=moment),
            ):
                await store.append(session_id, stored)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("UPDATE messages SET body = '{' WHERE session = 1")
            other.execute("UPDATE ledger SET body = '{' WHERE session = 1")

        assert await store.forget_sessions(2_000) == ("old",)

    with closing(sqlite3.connect(path)) as other:
        for table, count in {
            "calls": 1,
            "mentions": 4,
            "ledger": 2,
            "messages": 1,
            "writers": 1,
        }.items():
            assert other.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,)
    assert check_file(str(path), lambda done, total: None).problems == ()
