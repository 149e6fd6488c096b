"""Lines that nobody judges, and the requests in them."""

import json
from contextlib import asynccontextmanager

import pytest

from toolbus.mcp.proxy.byte_relay import ByteRelay, open_session
from toolbus.mcp.proxy.proxy import Proxy
from toolbus.mcp.session.request_table import Channels


class Wires:
    """The lines that each side has got through *relay*."""

    def __init__(self, proxy):
        self.client, self.server = [], []
        self.relay = open_session(proxy, Channels(self.client.append, self.server.append))

    @property
    def answers(self):
        return [json.loads(line) for line in self.client]


@asynccontextmanager
async def wired():
    async with Proxy() as proxy:
        wires = Wires(proxy)
        assert isinstance(wires.relay, ByteRelay)
        yield wires
        await wires.relay.settle(1)
        await wires.relay.close()


async def test_lines_pass_as_they_came():
    line, answer = b'{ "id":1,"method":"x","a":1.0e2}\r\n', b'{"id" :1,"result":{},"b":"\\ud83d"}\n'
    notice = b'{"method":"notifications/x","a":1,"a":2}\n'

    async with wired() as wires:
        wires.relay.from_client(line)
        wires.relay.from_client(b"no json\n")
        await wires.relay.from_server(answer)
        await wires.relay.from_server(notice)

    assert wires.server == [line, b"no json\n"]
    assert wires.client == [answer, notice]


@pytest.mark.parametrize("gone", [False, True])
async def test_each_request_has_an_answer_when_the_server_ends(gone):
    batch = b'[{"id":1,"method":"x"},{"method":"y"},{"id":2,"method":"z"}]\n'

    async with wired() as wires:
        if gone:
            wires.relay.server_gone("it ended")
        wires.relay.from_client(batch)
        wires.relay.from_client(b'{"id":3,"method":"x","params":NaN}\n')
        wires.relay.server_gone("it ended")

    assert [one["id"] for one in wires.answers] == [1, 2, 3]
    assert {one["error"]["message"] for one in wires.answers} == {"it ended"}
    assert (wires.server == []) is gone


async def test_nobody_waits_for_a_request_that_was_cancelled():
    cancelled = b'{"method":"notifications/cancelled","params":{"requestId":1}}\n'

    async with wired() as wires:
        wires.relay.from_client(b'{"id":1,"method":"x"}\n')
        wires.relay.from_client(cancelled)
        wires.relay.server_gone("it ended")

    assert wires.server[1:] == [cancelled]
    assert wires.client == []


async def test_what_nobody_asked_and_nobody_reads_is_dropped(caplog):
    async with wired() as wires:
        wires.relay.from_client(b'{"id":1,"method":"x"}\n')
        await wires.relay.from_server(b'{"id":2,"result":{}}\n')
        await wires.relay.from_server(b"\xff\xfe\n")
        await wires.relay.from_server(b'{"id":1,"result":{]}\n')
        await wires.relay.from_server(b'{"id":1,"result":{}}\n')

    assert [one["error"]["message"] for one in wires.answers] == [
        "the server's response is not valid JSON-RPC"
    ]
    assert caplog.text.count("which is not an open request") == 2
    assert caplog.text.count("bytes of the server: invalid JSON-RPC") == 2


async def test_answers_to_a_batch_pass_as_one_line():
    answers = b'[{"id":1,"result":{}},{"id":9,"result":{}}]\n'

    async with wired() as wires:
        wires.relay.from_client(b'[{"id":1,"method":"x"}]\n')
        await wires.relay.from_server(answers)
        wires.relay.server_gone("it ended")

    assert wires.client == [answers]
