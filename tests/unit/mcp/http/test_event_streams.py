"""Streams of events with clients that are slow, late, or come twice."""

import asyncio
import json

from toolbus.mcp.http.answer_streams import Alias, AnswerStream, read_event_id
from toolbus.mcp.http.event_streams import EventBuffer, EventStream
from toolbus.mcp.protocol.jsonrpc import error_frame


class SlowRequest:
    """A request whose client takes what it is written only once the *gate* is open."""

    def __init__(self, *, is_open=False):
        self.written, self.gate = [], asyncio.Event()
        if is_open:
            self.gate.set()

    async def begin(self, _status, _fields, data=b""):
        await self.write(data)

    async def write(self, data, *, ends=False):
        if data:
            self.written.append(data)
            await self.gate.wait()

    def accepts(self, _kind):
        return True

    def accepted_types(self):
        return ["*/*"]


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_comes_during_a_write_is_written_too():
    stream, request = AnswerStream(EventBuffer(2**20, replays=True), 1, [1]), SlowRequest()
    following = asyncio.create_task(stream.follow(request))
    stream.append(b"a\n")
    await turns()
    stream.append(b"b\n")
    stream.answer(b"c\n")
    request.gate.set()
    await asyncio.wait_for(following, 60)

    assert b"".join(request.written) == (
        b"id: 1-0\ndata:\n\nid: 1-1\ndata: a\n\nid: 1-2\ndata: b\n\nid: 1-3\ndata: c\n\n"
    )


async def test_the_last_to_follow_gets_what_comes():
    stream = AnswerStream(EventBuffer(2**20, replays=True))
    first, second = SlowRequest(is_open=True), SlowRequest(is_open=True)
    one = asyncio.create_task(stream.follow(first))
    await turns()
    two = asyncio.create_task(stream.follow(second))
    await asyncio.wait_for(one, 60)
    stream.append(b"a\n")
    stream.end()
    await asyncio.wait_for(two, 60)

    assert b"data: a" not in b"".join(first.written)
    assert b"data: a" in b"".join(second.written)


async def test_a_server_waits_for_a_client_that_is_behind():
    for buffer in (EventBuffer(), EventBuffer(2**28, replays=True)):
        stream, request = EventStream(buffer), SlowRequest()
        reading = asyncio.create_task(stream.write_to(request))
        await turns()
        for _ in range(3):
            stream.append(b"x" * 2**22)
            await turns()
        waiting = asyncio.create_task(buffer.wait_for_room())
        await turns()
        waited = not waiting.done()
        request.gate.set()
        await asyncio.wait_for(waiting, 60)
        stream.end()
        await asyncio.wait_for(reading, 60)

        assert waited
        assert stream.unwritten == 0
        assert len(b"".join(request.written)) == 3 * 2**22


async def test_nobody_waits_for_a_client_that_left():
    buffer = EventBuffer()
    stream, request = EventStream(buffer), SlowRequest()
    reading = asyncio.create_task(stream.write_to(request))
    await turns()
    stream.append(b"x")
    await turns()
    stream.append(b"x" * 2**23)
    waiting = asyncio.create_task(buffer.wait_for_room())
    await turns()
    waited = not waiting.done()
    reading.cancel()
    await asyncio.wait_for(waiting, 60)
    await asyncio.wait({reading})

    assert waited
    assert not stream.is_read


async def test_without_a_replay_nothing_written_is_kept():
    buffer = EventBuffer()
    stream, request = EventStream(buffer), SlowRequest(is_open=True)
    for _ in range(3):
        stream.append(b"x" * 2**16)
    held = stream.holds_after(0)
    stream.end()
    await stream.write_to(request)

    assert held
    assert not stream.is_kept
    assert len(request.written) == 3


async def test_small_events_are_written_together():
    stream, request = EventStream(EventBuffer()), SlowRequest(is_open=True)
    for _ in range(1000):
        stream.append(b"data: x\n\n")
    stream.end()
    await stream.write_to(request)

    assert request.written == [b"data: x\n\n" * 1000]


async def test_what_was_fetched_is_dropped_first(caplog):
    stream = AnswerStream(EventBuffer(2**23, replays=True), 1, [1])
    following = asyncio.create_task(stream.follow(SlowRequest(is_open=True)))
    for _ in range(6):
        stream.append(b"x" * 2**20)
        await turns()
    following.cancel()
    await asyncio.wait({following})
    held = [stream.holds_after(number) for number in range(7)]
    lost_before = "is lost" in caplog.text
    for _ in range(12):
        stream.append(b"y" * 2**20)

    assert held == [False, False, False, True, True, True, True]
    assert not lost_before
    assert "lost an event of 1049088 bytes" in caplog.text


async def test_answers_alone_are_a_body():
    stream, first, other = AnswerStream(EventBuffer(2**20), owed=[1, 2]), *answers(1, 2)
    stream.in_array = True
    for line in (first, first, other):
        stream.answer(line)

    assert await stream.body(SlowRequest()) == b"[" + first[:-1] + b"," + other[:-1] + b"]"


async def test_a_batch_of_answers_is_an_array():
    stream, lines = AnswerStream(EventBuffer(2**20), owed=[1, 2]), answers(1, 2)
    stream.in_array = True
    stream.answer(b"[" + b",".join(line[:-1] for line in (*lines, *lines)) + b"]\n")

    assert [one["id"] for one in json.loads(await stream.body(SlowRequest()))] == [1, 2, 1, 2]


def answers(*ids):
    return [error_frame(request_id, 1, "x") for request_id in ids]


def test_ids_name_stream_and_event():
    assert read_event_id("3-17") == (3, 17)
    assert [read_event_id(text) for text in ("", "3", "-1", "a-b", "3-", "٣-1")] == [None] * 6


def test_a_stream_that_is_cleared_holds_nothing():
    buffer = EventBuffer(2**20)
    stream, other = EventStream(buffer), EventStream(buffer)
    for each in (stream, other):
        each.append(b"x" * 2**19)
    stream.clear()
    stream.append(b"more")
    other.append(b"y" * 2**18)

    assert not stream.is_kept
    assert other.holds_after(0)


def test_what_a_client_chose_comes_back():
    meta = {"progressToken": [1, "t"], "other": 2}
    body = {"jsonrpc": "2.0", "id": 7, "method": "x", "params": {"_meta": meta, "a": "b"}}
    alias, hidden = Alias.hide("toolbus-secret-1", json.dumps(body).encode())
    sent = json.loads(hidden)
    said = {"id": sent["id"], "method": "y", "params": sent["params"]}
    quoted = {"text": 'not "toolbus-secret-1" itself', "toolbus-secret-1": 1}

    assert sent["id"] == "toolbus-secret-1"
    assert sent["params"]["_meta"] == {"progressToken": "toolbus-secret-1-token", "other": 2}
    assert sent["params"]["a"] == "b"
    assert json.loads(alias.reveal(json.dumps(said).encode())) == {
        "id": 7,
        "method": "y",
        "params": body["params"],
    }
    assert json.loads(alias.reveal(json.dumps(quoted).encode())) == quoted
