"""Lines of standard input on their way to a session."""

import json

from toolbus.mcp.proxy import stdio


class Answers:
    """Standard output: the frames that it got."""

    def __init__(self):
        self.frames = []

    def write(self, line):
        self.frames.append(json.loads(line))


class Fragile:
    """A session that one request breaks."""

    def __init__(self):
        self.lines = []

    def from_client(self, line):
        if b"fatal" in line:
            raise LookupError("unforeseen")
        self.lines.append(line)


async def test_a_request_that_cannot_be_taken_is_answered_and_the_next_one_taken(
    monkeypatch, caplog
):
    async def read_loop(number, take):
        take(b'{"id":1,"method":"fatal"}\n{"method":"fatal"}\n{"id":2,"method":"ping"}\n')

    monkeypatch.setattr(stdio, "read_loop", read_loop)
    session, answers = Fragile(), Answers()

    await stdio.pass_requests(session, answers, lambda: None, 100)

    (answer,) = answers.frames
    assert (answer["id"], answer["error"]["code"]) == (1, -32603)
    assert session.lines == [b'{"id":2,"method":"ping"}\n']
    assert "unforeseen" in caplog.text
