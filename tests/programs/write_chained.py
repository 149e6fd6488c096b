"""A program that writes a session of a store: records, and questions with their answers."""

import asyncio
import sys

from small_records import record
from toolbus import UserMessage
from toolbus.store import AppendRequest
from toolbus.store.store_factory import open_store


async def write(address, name, count):
    async with open_store(address) as store:
        print("ready", flush=True)
        for number in range(count):
            each = f"{name}-{number}"
            message = UserMessage(id=each, content="hello")
            request = AppendRequest(message=message, records=(record(each),))
            question, asked, answered = f"question:{each}", b'{"a":1}', b'{"a":2}'
            await asyncio.gather(
                store.append("s", request),
                store.swap_state("s", question, None, asked),
            )
            assert await store.swap_state("s", question, asked, answered)
            if number % 3 == 0:
                assert await store.swap_state("s", question, answered, None)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
