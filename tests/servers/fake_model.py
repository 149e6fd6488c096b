"""A model on a loopback port for coding agents: it calls the tools that a script says.

It speaks Anthropic's messages, OpenAI's chat completions and responses, and Gemini's
generateContent, streamed and whole, and keeps every request.
"""

import base64
import json
import threading
import zlib
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, urlsplit

from tests.servers import wire_readers as readers
from tests.servers import wire_shapes as shapes

# By the end of a path: what reads a request, what writes an answer whole, and as events.
WIRES = {
    "/messages": (readers.read_messages, shapes.anthropic_message, shapes.anthropic_events),
    "/chat/completions": (readers.read_chat, shapes.chat_completion, shapes.chat_chunks),
    "/responses": (readers.read_responses, shapes.response, shapes.response_events),
    "enerateContent": (readers.read_contents, shapes.gemini_content, shapes.gemini_chunks),
}


@dataclass(frozen=True)
class ModelCall:
    """A call of the tool *name*, as the host's list of tools has it, in a model's turn."""

    name: str
    arguments: dict


@dataclass(frozen=True)
class ModelRequest:
    """A request as it came: *data* is its body without compression, *body* the JSON of it."""

    path: str
    headers: dict
    data: bytes = field(repr=False)
    body: dict = field(repr=False)

    @property
    def wire(self):
        """What reads it and writes its answers; None if it asks no model."""
        path = urlsplit(self.path).path
        return next((wire for end, wire in WIRES.items() if path.endswith(end)), None)

    @property
    def conversation(self):
        """What it tells of tools and results; None if it asks no model."""
        return self.wire[0](self.body) if self.wire else None


class FakeModel:
    """Plays *turns* over HTTP: each is a list of `ModelCall`s, or a text, or makes one of results.

    Which turn is next follows from the model's own turns in a request, so a host may ask twice
    or beside (a request that offers no tools is answered by a word). After the last turn it says
    "done". What does not fit the script stands in *problems*.
    """

    def __init__(self, turns):
        self.turns = list(turns)
        self.requests, self.problems = [], []

    def __enter__(self):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def conversations(self):
        """What each request that offers tools tells of the conversation, in order of arrival."""
        heard = [request.conversation for request in self.requests]
        return [one for one in heard if one and one.tools]

    def result(self, turn, index=0):
        """Return the texts that the host sent as the result of a call; None if it never did."""
        results = [heard.results.get((turn, index)) for heard in self.conversations]
        return next((result for result in reversed(results) if result is not None), None)

    def leaks(self, text):
        """Return the paths of the requests that *text* stands in, however it is written."""
        forms = written_forms(text)
        requests = self.requests
        return [one.path for one in requests if any(form in one.data for form in forms)]

    def take(self, request):
        """Keep *request* and return the items of its answer, as `wire_shapes` has them."""
        self.requests.append(request)
        heard = request.conversation
        if not heard.tools:
            return [("text", "fine")]
        turn = self.turns[heard.turns] if heard.turns < len(self.turns) else "done"
        if callable(turn):
            turn = turn(heard.results)
        if isinstance(turn, str):
            return [("text", turn)]
        if strange := {call.name for call in turn} - heard.tools:
            self.problems.append(f"the host offers {sorted(heard.tools)}, not {sorted(strange)}")
            return [("text", "there is no such tool")]
        return [
            ("call", f"call_{heard.turns}_{index}", call.name, json.dumps(call.arguments))
            for index, call in enumerate(turn)
        ]


def written_forms(text):
    """Return *text* as it may stand in a body: plain, escaped, quoted, turned, base64 or hex."""
    data = text.encode()
    escaped = {text}
    for _ in range(3):
        escaped |= {
            json.dumps(form, ensure_ascii=ascii_only)[1:-1]
            for form in escaped
            for ascii_only in (False, True)
        }
    forms = escaped | {quote(text, safe=""), text[::-1], data.hex(), data.hex().upper()}
    for shift in range(3):
        # Only what does not depend on the characters before and after.
        whole = base64.b64encode(b"-" * shift + data).decode()
        inner = whole[(0, 2, 3)[shift] : -4]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {form.encode() for form in forms}


class _Handler(BaseHTTPRequestHandler):
    """One connection of a host; the server's `model` is what answers."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self._send(b"")

    def do_GET(self):
        kept = ModelRequest(self.path, dict(self.headers), self.path.encode(), {})
        self.server.model.requests.append(kept)
        listed = {"id": "fake-model", "object": "model", "created": 1, "owned_by": "us"}
        self._send(json.dumps({"object": "list", "data": [listed]}).encode())

    def do_POST(self):
        data = self._body()
        body = _read(data)
        request = ModelRequest(self.path, dict(self.headers), data, body)
        if request.wire is None:
            self.server.model.requests.append(request)
            counts = {"input_tokens": 10, "totalTokens": 10}
            return self._send(json.dumps(counts).encode())
        items = self.server.model.take(request)
        return self._answer(request, items)

    def _body(self):
        if self.headers.get("transfer-encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
        coding = self.headers.get("content-encoding", "identity")
        if coding in {"gzip", "deflate"}:
            return zlib.decompress(data, zlib.MAX_WBITS | 32)
        if coding != "identity":
            self.server.model.problems.append(f"the host compresses by {coding!r}")
        return data

    def _answer(self, request, items):
        _, whole, events = request.wire
        facts = {
            "model": request.body.get("model", "fake-model"),
            "message_id": f"answer_{len(self.server.model.requests)}",
        }
        if not (request.body.get("stream") or "stream" in request.path):
            return self._send(json.dumps(_placed(whole(items, **facts))).encode())
        sent = [_event(_placed(event)) for event in events(items, **facts)]
        end = b"data: [DONE]\n\n" if "/chat/" in request.path else b""
        return self._send(b"".join(sent) + end, "text/event-stream")

    def _send(self, data, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        # A host that kept it idle would hold up the end, or meet it while it is closed.
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)


def _event(event):
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def _placed(value):
    """Return *value* with the namespaces of tools where OpenAI's responses have them."""
    match value:
        case {"type": "function_call", "name": str(name)} if "." in name:
            namespace, _, tool = name.rpartition(".")
            return {**value, "namespace": namespace, "name": tool}
        case dict():
            return {key: _placed(item) for key, item in value.items()}
        case list():
            return [_placed(item) for item in value]
    return value


def _read(data):
    try:
        body = json.loads(data)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
