"""Relayed requests: each answer keeps the event in which it came, also if another one overtakes."""

import asyncio
import json
from types import SimpleNamespace

from relayed_streams import KeptRequest
from toolbus.mcp.http.relayed_request import RelayedRequest
from toolbus.mcp.protocol import canonical
from toolbus.mcp.protocol.jsonrpc import read_batch, read_frame
from toolbus.mcp.proxy.proxy import Proxy
from toolbus.mcp.session.judged_session import JudgedSession
from toolbus.mcp.session.request_table import Channels
from toolbus.mcp.transport.processes import PROXY_FAILED
from toolbus.mcp.transport.sse import write_event


def frame(request_id, **members):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, **members}).encode()


class SlowSession:
    """A session that passes the first request on, and answers later, the last answer first."""

    def __init__(self):
        self.open, self.answers = [1, 2], []

    def from_client(self, line, channels, _frame=None):
        self.channels = channels
        channels.to_server((read_batch(line) or [line])[0])

    def owed(self, batch):
        return [read_frame(part).id for part in read_batch(batch)]

    def schema(self, _name):
        return None

    async def from_server(self, line, _channels):
        self.answers.append(line)
        if len(self.answers) == 2:
            loop = asyncio.get_running_loop()
            for answer in reversed(self.answers):
                loop.call_soon(self._answer, answer)

    def _answer(self, line):
        self.open.remove(json.loads(line)["id"])
        self.channels.answer(line)

    def is_open(self, request_id):
        return request_id in self.open


class Reply:
    """A stream with an answer to each of two requests, which come at once."""

    status, fields, is_coded, is_stream = 200, [("content-type", "text/event-stream")], False, True

    def __init__(self, *, event_ids):
        self._event_ids = event_ids

    async def pieces(self):
        for number in (1, 2):
            data = frame(number, result={})
            event_id = f"e{number}" if self._event_ids else None
            yield write_event(data, event_id)

    def close(self):
        pass


class DyingSession(SlowSession):
    """A session that dies when the server answers."""

    async def from_server(self, line, _channels):
        if b'"result"' in line:
            raise LookupError("unforeseen")
        self._answer(line)


async def relay(session, body, fields=(), *, event_ids=True):
    """Let a client post *body*; return what it is written."""

    async def send_upstream(*_, **__):
        return Reply(event_ids=event_ids)

    async def leave(*_, **__):
        pass

    request = KeptRequest("POST", "/mcp", fields)
    request.body = body
    client = SimpleNamespace(
        session=session, is_known=True, learn_id=lambda *_: None, leave=leave,
        remember=lambda _: None, detached={},
    )  # fmt: skip
    limits = SimpleNamespace(frame=2**20)
    server = SimpleNamespace(
        send_judged=send_upstream, limits=limits, response_fields=lambda _, it: it.fields
    )
    await asyncio.wait_for(RelayedRequest(request, read_frame(body), client, server).run(), 60)
    return b"".join(request.sent)


async def test_each_answer_keeps_its_event():
    body = b"[" + frame(1, method="ping") + b"," + frame(2, method="ping") + b"]"
    written = await relay(SlowSession(), body)

    events = [part.split(b"\n") for part in written.split(b"\n\n") if part]
    ids = [(event[0], json.loads(event[1].removeprefix(b"data: "))["id"]) for event in events]
    assert ids == [(b"id: e2", 2), (b"id: e1", 1)]


async def test_an_exchange_that_dies_answers_its_request(caplog):
    session = DyingSession()
    written = await relay(session, frame(1, method="ping"), event_ids=False)

    answer = json.loads(written.rpartition(b"data: ")[2])
    assert (answer["id"], answer["error"]["message"]) == (1, PROXY_FAILED)
    assert not session.is_open(1)
    assert "unforeseen" in caplog.text


async def test_a_stateless_request_is_parsed_once(monkeypatch):
    body, parsed = frame(1, method="ping"), []

    def parse(line, **options):
        parsed.append(line)
        return strict(line, **options)

    strict = canonical.parse
    monkeypatch.setattr(canonical, "parse", parse)
    async with Proxy() as proxy:
        session = JudgedSession(proxy, Channels(parsed.append, parsed.append))
        written = await relay(session, body, [("mcp-protocol-version", "2026-07-28")])
        await session.close()

    assert parsed.count(body) == 1
    assert json.loads(written.partition(b"data: ")[2])["result"] == {}
