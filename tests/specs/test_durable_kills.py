"""Durable runs whose workers are killed; see `specs/durable_kills.md`."""

import asyncio
import threading
import time
from contextlib import suppress

import psycopg
import pytest

from durable_world import (
    DurableWorld,
    await_ends,
    check_world,
    submit_all,
    until,
    words_of,
)
from postgres_server import running_server
from toolbus.approvals import answer
from toolbus.approvals.records import questions_of
from toolbus.errors import StoreError
from toolbus.store.store_factory import open_store


@pytest.fixture
def durable_world(database, tmp_path):
    """Give a world on an empty PostgreSQL database."""
    world = DurableWorld(database, tmp_path)
    yield world
    world.close()


@pytest.fixture
def in_file(tmp_path):
    """Give a world with an SQLite file."""
    world = DurableWorld(tmp_path / "s.db", tmp_path)
    yield world
    world.close()


def submit_works(world, runs, calls):
    """Submit so many runs of so many calls each, and return their sessions."""
    names = [f"s{number}" for number in range(runs)]
    asyncio.run(submit_all(world, dict.fromkeys(names, f"work {calls}")))
    return names


def start_nap(world):
    """Submit a run whose tool takes a minute, and wait until it runs."""
    asyncio.run(submit_all(world, {"nap": "nap 60"}))
    until(world.runs_of_tools, 30, world.logs)


@pytest.mark.full
def test_a_killed_worker_s_run_ends_elsewhere(in_file):
    worker = in_file.start()
    start_nap(in_file)

    in_file.kill(worker)
    in_file.start()

    await_ends(in_file, 30)
    assert check_world(in_file, ["nap"]) == {"interrupted": 1}


@pytest.mark.full
def test_a_living_worker_adopts_the_runs(durable_world):
    first = durable_world.start()
    start_nap(durable_world)
    durable_world.start()
    until(lambda: "worker:q:2" in durable_world.logs(), 30, durable_world.logs)

    durable_world.kill(first)

    await_ends(durable_world, 60)
    assert check_world(durable_world, ["nap"]) == {"interrupted": 1}


@pytest.mark.full
def test_every_run_ends_under_kills(durable_world, thorough):
    runs, workers, kills = (2000, 8, 100) if thorough else (30, 3, 8)
    names = submit_works(durable_world, runs, 10)

    for _ in range(workers):
        durable_world.start()
    durable_world.kill_at_random(kills, runs * 10)

    await_ends(durable_world, 3600 if thorough else 120)
    assert check_world(durable_world, names).total() == runs * 10


@pytest.mark.full
def test_runs_outlive_a_killed_server(tmp_path, thorough):
    runs, workers, kills = (500, 8, 5) if thorough else (20, 2, 2)
    with running_server() as server:
        world = DurableWorld(server.address(server.create_database()), tmp_path)
        try:
            for _ in range(workers):
                world.start()
            names = submit_works(world, runs, 10)
            until(world.runs_of_tools, 60, world.logs)
            for _ in range(kills):
                time.sleep(1)
                server.kill()
                time.sleep(0.5)
                server.start()

            await_ends(world, 3600 if thorough else 120)
            assert check_world(world, names).total() == runs * 10
        finally:
            world.close()


def answer_while(world, is_over):
    """Answer all questions with yes until *is_over*, also while the server is away."""

    async def answer_some(store):
        for name in words_of(world):
            for question in await questions_of(store, name):
                if question.state == "pending":
                    await answer(store, question.id, question.digest, approve=True, by="ann")

    async def answer_all():
        while not is_over():
            with suppress(StoreError):
                async with open_store(world.address) as store:
                    while not is_over():
                        await answer_some(store)
                        await asyncio.sleep(0.05)

    asyncio.run(answer_all())


@pytest.mark.full
def test_held_runs_outlive_a_killed_server(tmp_path, thorough):
    runs, workers, kills = (200, 4, 10) if thorough else (10, 2, 2)
    with running_server() as server:
        world = DurableWorld(server.address(server.create_database()), tmp_path)
        over = threading.Event()
        answering = threading.Thread(target=answer_while, args=(world, over.is_set))
        try:
            names = [f"s{number}" for number in range(runs)]
            asyncio.run(submit_all(world, dict.fromkeys(names, "mixed 6")))
            answering.start()
            for _ in range(workers):
                world.start()
            for number in range(kills):
                due = number * runs * 6 // (kills + 1)
                until(lambda due=due: world.runs_of_tools().total() >= due, 600, world.logs)
                server.kill()
                world.kill(world.workers[0])
                server.start()
                world.start()

            await_ends(world, 3600 if thorough else 120)
            assert check_world(world, names).total() == runs * 6
        finally:
            over.set()
            answering.join()
            world.close()


@pytest.mark.full
def test_runs_in_a_file_outlive_kills(in_file, thorough):
    runs, kills = (200, 30) if thorough else (10, 3)
    in_file.start()
    names = submit_works(in_file, runs, 10)
    in_file.kill_at_random(kills, runs * 10)

    await_ends(in_file, 1800 if thorough else 120)
    assert check_world(in_file, names).total() == runs * 10


SECRET = "sk-planted-0123456789"


def rows_of_engine(address):
    """Return all rows of all tables outside of the store's own schema, as text."""
    with psycopg.connect(address) as connection:
        tables = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_schema NOT IN ('toolbus', 'pg_catalog', 'information_schema')"
        ).fetchall()
        assert tables
        rows = [
            row
            for schema, table in tables
            for row in connection.execute(f"SELECT t::text FROM {schema}.{table} t").fetchall()
        ]
    return [text for (text,) in rows]


@pytest.mark.full
def test_no_table_or_log_has_a_secret(durable_world):
    names = [f"{kind}-{SECRET}" for kind in ("crash", "echo", "fail", "pay")]
    prompts = {name: f"{name.partition('-')[0]} {SECRET}" for name in names}
    options = {"tenant": SECRET, "context": {"user": SECRET}}
    durable_world.start("--per-tenant", "5")

    asyncio.run(submit_all(durable_world, prompts, **options))
    ends = ["failed", "held", "ok", "ok"]
    until(lambda: sorted(words_of(durable_world).values()) == ends, 30, durable_world.logs)
    asyncio.run(submit_all(durable_world, {f"nap-{SECRET}": "nap 60"}, **options))
    until(lambda: "nap" in str(durable_world.runs_of_tools()), 30, durable_world.logs)
    durable_world.kill(durable_world.workers[0])

    shown = durable_world.command("show", durable_world.address, names[1], "--no-pager").stdout
    rows = rows_of_engine(durable_world.address)
    assert shown.count(SECRET) > 2
    assert len(rows) > 20
    assert [row for row in rows if SECRET in row] == []
    assert SECRET not in durable_world.logs()
