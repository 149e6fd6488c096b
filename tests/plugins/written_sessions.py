"""Sessions that another process writes while a page follows them."""

import subprocess
import sys
import threading
import time
from contextlib import contextmanager

from seen_sessions import in_a_thread
from toolbus import AssistantMessage, ToolCall, ToolMessage, ToolResponse, UserMessage
from toolbus.store import AppendRequest
from toolbus.store.store_factory import open_store

AT_ONCE = 10**9
WRITER = """
import asyncio, sys, time
from toolbus import UserMessage
from toolbus.store import AppendRequest
from toolbus.store.store_factory import open_reader, open_store

async def write(address, first, count, rate, length):
    async with open_store(address) as store:
        begun = time.monotonic()
        for number in range(first, first + count):
            message = UserMessage(id=f"m-{number}", content=f"words {number} " + "x" * length)
            await store.append("s", AppendRequest(message=message))
            due = begun + (number - first + 1) / rate
            await asyncio.sleep(max(0, due - time.monotonic()))

asyncio.run(write(sys.argv[1], *map(int, sys.argv[2:])))
"""


@contextmanager
def writer(address, first, count, rate=AT_ONCE, length=0):
    """Append messages from another process meanwhile."""
    words = [sys.executable, "-c", WRITER, address, *map(str, (first, count, rate, length))]
    with subprocess.Popen(words) as process:
        yield
    assert process.returncode == 0


def append(address, *messages, session="s"):
    async def write():
        async with open_store(address) as store:
            for message in messages:
                await store.append(session, AppendRequest(message=message))

    # A browser's driver has an event loop in this thread.
    in_a_thread(write)


def said(number):
    return UserMessage(id=f"m-{number}", content=f"words {number}")


def called(number):
    call = ToolCall(id="c-1", name="read", arguments={})
    return AssistantMessage(id=f"m-{number}", tool_calls=[call])


def answered(number):
    response = ToolResponse(content="text")
    return ToolMessage(
        id=f"m-{number}", tool_call_id="c-1", tool_name="read", tool_response=response
    )


def wait_until(holds, seconds=1.0):
    """Return whether *holds* within so many seconds."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def stream_threads():
    """Return the threads of streams."""
    return [each for each in threading.enumerate() if each.name.startswith("toolbus-events")]
