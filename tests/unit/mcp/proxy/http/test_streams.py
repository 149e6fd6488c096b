"""Streams with clients that are slow, late, or come twice."""

import asyncio

from toolbus.mcp.proxy.http.streams import Shelf, Stream, joined, read_event_id


class Slow:
    """A visit that takes what it is written only when it is told to."""

    def __init__(self):
        self.written, self.gate = [], asyncio.Event()

    async def begin(self, *_):
        pass

    async def write(self, data, *, more=True):
        if data:
            self.written.append(data)
            await self.gate.wait()


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_comes_during_a_write_is_written_too():
    stream, visit = Stream(1, 1, Shelf(2**20)), Slow()
    following = asyncio.create_task(stream.follow(visit))
    stream.put(b"a\n")
    await turns()
    stream.put(b"b\n")
    stream.answer(b"c\n")
    visit.gate.set()
    await asyncio.wait_for(following, 30)

    assert b"".join(visit.written) == (
        b"id: 1-0\ndata:\n\nid: 1-1\ndata: a\n\nid: 1-2\ndata: b\n\nid: 1-3\ndata: c\n\n"
    )


async def test_the_last_to_follow_gets_what_comes():
    stream, first, second = Stream(0, 0, Shelf(2**20)), Slow(), Slow()
    first.gate.set()
    second.gate.set()
    one = asyncio.create_task(stream.follow(first))
    await turns()
    two = asyncio.create_task(stream.follow(second))
    await asyncio.wait_for(one, 30)
    stream.put(b"a\n")
    stream.end()
    await asyncio.wait_for(two, 30)

    assert b"data: a" not in b"".join(first.written)
    assert b"data: a" in b"".join(second.written)


async def test_a_server_waits_for_a_client_that_is_behind():
    shelf = Shelf(2**28)
    stream, visit = Stream(0, 0, shelf), Slow()
    following = asyncio.create_task(stream.follow(visit))
    await turns()
    for _ in range(3):
        stream.put(b"x" * 2**22)
    waiting = asyncio.create_task(shelf.room([stream]))
    await turns()
    waited = waiting.done()
    visit.gate.set()
    await asyncio.wait_for(waiting, 30)
    following.cancel()
    await asyncio.wait({following})

    assert not waited
    assert stream.behind == 0


async def test_what_was_fetched_is_dropped_first(caplog):
    shelf = Shelf(2**23)
    stream, visit = Stream(1, 1, shelf), Slow()
    visit.gate.set()
    following = asyncio.create_task(stream.follow(visit))
    for _ in range(6):
        stream.put(b"x" * 2**20)
        await turns()
    following.cancel()
    await asyncio.wait({following})
    held = [stream.holds(number) for number in range(7)]
    lost_before = "is lost" in caplog.text
    for _ in range(12):
        stream.put(b"y" * 2**20)

    assert held == [False, False, True, True, True, True, True]
    assert not lost_before
    assert "an event of 1048576 bytes is lost" in caplog.text


def test_ids_name_stream_and_event():
    assert read_event_id("3-17") == (3, 17)
    assert [read_event_id(text) for text in ("", "3", "-1", "a-b", "3-", "٣-1")] == [None] * 6
    assert joined([b"1\n"]) == b"1"
    assert joined([b"1\n", b"2"]) == b"[1,2]"
