"""Hostile streams of server-sent events, drawn from a seed, cut anywhere; and other bodies."""

import gzip
import json
import zlib
from itertools import pairwise
from random import Random
from typing import NamedTuple

from hostile_frames import PLAIN, SECRET, answer

ENDS = (b"\n", b"\n", b"\n", b"\r\n", b"\r\n", b"\r")
NO_ENDS = (b"\x0b", b"\x0c", b"\x1c", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\x00")
CHARSETS = ("utf-8", "UTF-8", "utf-7", "utf-16", "gbk", "shift_jis", '"utf-8"', "latin1")
MARK = b"\xef\xbb\xbf"


class Reply(NamedTuple):
    """An answer over HTTP: its *kind*, its *coding* if it has one, and its body in *pieces*."""

    kind: str
    coding: str
    pieces: tuple


def reply(seed):
    """Return the `Reply` of a server to the request whose id is *seed*."""
    random = Random(f"reply {seed}")
    if random.random() < 0.12:
        given = answer(seed)
        body = given.data.replace(b'"7"', b"%d" % seed).replace(b":7", b":%d" % seed)
        return Reply("application/json", "", tuple(cut(random, body)))
    stream = Stream(random, seed).written()
    coding = random.choice(("", "", "", "", "", "", "", "", "gzip", "deflate", "identity", "x-odd"))
    if coding == "gzip":
        # Without compression: so what is in it can be read by who does not decode it.
        stream = gzip.compress(stream, random.choice((0, 9)), mtime=0)
    elif coding == "deflate":
        stream = zlib.compress(stream, 0)
    return Reply("text/event-stream", coding, tuple(cut(random, stream)))


def header(seed):
    """Return the headers, as a dict, that a client adds to the request of *seed*."""
    random = Random(f"header {seed}")
    if random.random() < 0.8:
        return {}
    named = random.choice(
        (
            ("content-type", f"application/json; charset={random.choice(CHARSETS)}"),
            ("content-encoding", random.choice(("gzip", "deflate", "br", "identity", "x"))),
            ("mcp-name", random.choice(("read", "delete_everything", ""))),
            ("mcp-method", random.choice(("tools/call", "ping"))),
            ("mcp-protocol-version", random.choice(("2026-07-28", "2025-03-26", "2025-11-25"))),
            ("x-http-method-override", random.choice(("PUT", "GET"))),
        )
    )
    return dict([named])


def cut(random, data):
    """Yield *data* in pieces, some of them of one byte."""
    places = {random.randrange(len(data) + 1) for _ in range(random.choice((0, 1, 3, 12)))}
    places |= {place + 1 for place in places if random.random() < 0.5 and place < len(data)}
    for start, end in pairwise(sorted({0, len(data), *places})):
        yield data[start:end]


class Stream:
    """A stream in the making; its answer goes to the request *request_id*."""

    def __init__(self, random, request_id):
        self._random, self._request_id, self._texts = random, request_id, 0
        self._ends = random.sample(ENDS, random.choice((1, 1, 2, 3)))

    def written(self):
        """Return the bytes of the stream."""
        random = self._random
        events = [self._event() for _ in range(random.randrange(1, 4))]
        if random.random() < 0.7:
            events.append(self._carried(self._frame(answers=True)) + self._end())
        stream = b"".join(events)
        if random.random() < 0.15:
            stream = MARK * random.choice((1, 1, 2)) + stream
        return stream[: random.randrange(len(stream))] if random.random() < 0.05 else stream

    def _event(self):
        lines = [self._line() for _ in range(self._random.randrange(4))]
        frame = self._frame(answers=self._random.random() < 0.3)
        if self._random.random() < 0.7:
            lines.insert(self._random.randrange(len(lines) + 1), self._carried(frame))
        return b"".join(lines) + self._end()

    def _end(self):
        return self._random.choice(self._ends)

    def _frame(self, *, answers):
        random = self._random
        self._texts += 1
        text = f"{random.choice((SECRET, PLAIN))}{self._request_id}x{self._texts}"
        if random.random() < 0.15:
            end = random.choice((*ENDS, *NO_ENDS)).decode(errors="replace")
            hidden = self._frame(answers=True).decode()
            text += f"{end}{end}data: {hidden}{end}{end}"
        if answers:
            said = {"id": self._request_id, "result": {"content": [{"type": "text", "text": text}]}}
        else:
            params = {"level": "info", "data": text}
            said = {"method": "notifications/message", "params": params}
        plain = random.random() < 0.5
        return json.dumps({"jsonrpc": "2.0", **said}, ensure_ascii=plain).encode()

    def _carried(self, frame):
        """Return the lines that carry *frame* as data."""
        random = self._random
        name = random.choice(
            (b"data: ",) * 6 + (b"data:", b"data:  ", b"data:\t", b" data: ", b"Data: ")
        )
        parts = [frame]
        if random.random() < 0.25:
            signs = frame.split(b", ")
            parts = [one + b", " for one in signs[:-1]] + signs[-1:]
        if random.random() < 0.1:
            parts.insert(
                random.randrange(len(parts) + 1), random.choice((b"", b" ", b"\x0b", MARK))
            )
        joined = b"".join([name + one + self._end() for one in parts])
        if random.random() < 0.05:
            joined = b"event: " + random.choice((b"message", b"", b"other")) + self._end() + joined
        return joined

    def _line(self):
        """Return a line that carries no data, as it seems."""
        random = self._random
        value = random.choice(
            (b"1", b"", b"a\x00b", b"e-1", b"99999999", b"-5", b"1_0", b"\xff", b"x y")
        )
        if random.random() < 0.5:
            value = self._hiding(value)
        name = random.choice(
            (b"id", b"id", b"event", b"retry", b"", b"x", b"data", MARK + b"id", b"id ")
        )
        return name + random.choice((b":", b": ", b"")) + value + self._end()

    def _hiding(self, value):
        """Return *value* with an event behind it, past what is the end of a line for somebody."""
        end = self._random.choice((b"\r", b"\r", *NO_ENDS))
        frame = self._frame(answers=True)
        after = self._random.choice((b"", end, end + b"id: 2", end + end + b"id: 2"))
        return value + end * self._random.randrange(1, 3) + b"data: " + frame + after
