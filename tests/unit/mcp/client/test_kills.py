import asyncio
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from toolbus import EventBus, ToolRunner
from toolbus.mcp import client

ODD = Path(__file__).parents[3] / "servers" / "odd.py"


@pytest.mark.full
async def test_a_server_killed_again_and_again_loses_and_doubles_no_call(tmp_path, thorough):
    log, chance, outcomes = tmp_path / "odd.log", random.Random(5), {}

    async def mark(number):
        outcomes[number] = await runner.call("mark", {"number": number})

    async with client.tools(sys.executable, [str(ODD), str(log)]) as tools:
        runner = ToolRunner(EventBus(), tools)
        for _ in range(40 if thorough else 3):
            pid = (await runner.call("pid")).response.structured["result"]
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                for after in (False, True):
                    for number in range(len(outcomes), len(outcomes) + 10):
                        outcomes[number] = None
                        group.create_task(mark(number))
                        await asyncio.sleep(chance.random() / 200)
                    if not after:
                        os.kill(pid, chance.choice([signal.SIGKILL, signal.SIGTERM]))

    seen = Counter(log.read_text().split())
    assert max(seen[f"mark-{number}"] for number in outcomes) == 1
    for number, outcome in outcomes.items():
        if outcome.status == "ok":
            assert seen[f"mark-{number}"] == 1
        else:
            assert outcome.response.error_type == "connection_lost"
