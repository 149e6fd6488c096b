"""What a client is told while a person is waited for."""

import asyncio
import json

import pytest

from toolbus.mcp.session.client_approvals import progress_notifications


async def told(params, count):
    lines, enough = [], asyncio.Event()

    def send(line):
        lines.append(json.loads(line))
        if len(lines) >= count:
            enough.set()

    async with progress_notifications(params, send, pause=0.001):
        await enough.wait()
    number = len(lines)
    await asyncio.sleep(0.01)
    assert len(lines) == number
    return lines


@pytest.mark.parametrize("token", ["t", 7])
async def test_progress_grows_until_the_answer_is_there(token):
    lines = await told({"_meta": {"progressToken": token}}, 3)

    values = [line["params"]["progress"] for line in lines]
    assert {line["method"] for line in lines} == {"notifications/progress"}
    assert {line["params"]["progressToken"] for line in lines} == {token}
    assert values == sorted(set(values))
    assert values[-1] < 1
    assert "approve" in lines[0]["params"]["message"]


@pytest.mark.parametrize("params", [{}, {"_meta": 5}, {"_meta": {"progressToken": True}}])
async def test_who_gave_no_token_is_told_nothing(params):
    lines = []
    async with progress_notifications(params, lines.append, pause=0.001):
        await asyncio.sleep(0.02)
    assert lines == []
