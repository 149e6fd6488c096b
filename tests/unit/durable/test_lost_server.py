"""A worker whose server is gone."""

import asyncio

import pytest

from durable_world import DurableWorld, submit_all, until
from postgres_server import running_server


@pytest.mark.full
def test_a_worker_without_a_server_ends(tmp_path):
    with running_server() as server:
        world = DurableWorld(server.address(server.create_database()), tmp_path)
        worker = world.start()
        asyncio.run(submit_all(world, {"nap": "nap 60"}))
        until(world.runs_of_tools, 60, world.logs)

        server.kill()

        assert worker.wait(90) == 1, world.logs()
        assert "the slot was lost" in world.logs()
        assert "Traceback" not in world.logs()
