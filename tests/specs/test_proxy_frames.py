"""The scenarios of `specs/proxy_frames.md`."""

import json
import subprocess
import sys
from contextlib import asynccontextmanager
from textwrap import dedent

import pytest

from wires import PROXY, wired

SECRET = "sk-canary-4242"

SERVER = """\
import io, json, sys
log = open("server.log", "ab", buffering=0)
raw = open("raw.log", "wb", buffering=0)
def out(text):
    sys.stdout.buffer.write(text.encode("utf-8", "surrogatepass") + b"\\n")
    sys.stdout.buffer.flush()
def send(**members):
    out(json.dumps({"jsonrpc": "2.0", **members}))
def text(said):
    return {"content": [{"type": "text", "text": said}]}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "rm", "say")]
def call(m):
    send(id=m["id"], result=text(json.dumps(m["params"].get("arguments", {}))))
def other(m):
    if "id" in m and "method" in m:
        send(id=m["id"], result={})
def answer(m):
    if m.get("method") == "tools/list":
        send(id=m["id"], result={"tools": TOOLS})
    elif m.get("method") == "tools/call":
        call(m)
    else:
        other(m)
def take(line):
    found = json.loads(line)
    for m in found if isinstance(found, list) else [found]:
        log.write(json.dumps(m).encode() + b"\\n")
        answer(m)
def run():
    for line in io.TextIOWrapper(sys.stdin.buffer, "utf-8", errors="replace"):
        raw.write(line.encode())
        try:
            take(line)
        except ValueError:
            log.write(b"null\\n")
"""
"""Reads lines as the SDK's servers in Python do: with universal newlines."""

POLICY = """\
from toolbus import AgentComponent, Deny, ToolAdapter, events, guard
SECRET = "sk-canary-4242"

class Guarding(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def no_rm(self, ctx):
        call = ctx.value
        bad = call.name == "rm" or call.arguments.get("path") == "/etc"
        return Deny("not that") if bad else None

class Redact(ToolAdapter):
    def adapt_response(self, response, call):
        return response.map_text(lambda text: text.replace(SECRET, "[redacted]"))

class Redaction(AgentComponent):
    def __init__(self):
        self.register_tool_adapter(Redact())
"""


@pytest.fixture
def through(tmp_path, environment):
    """Return a context manager: a wire to a proxy with *component*, before a server with *body*."""
    here = tmp_path / "here"
    (here / "policy.py").write_text(POLICY)

    @asynccontextmanager
    async def run(component=None, body=""):
        (here / "server.py").write_text(f"{SERVER}{dedent(body)}\nrun()\n")
        (here / "server.log").write_bytes(b"")
        judges = [] if component is None else ["--with", f"policy.py:{component}"]
        command = [*PROXY, *judges, "--", sys.executable, "server.py"]
        async with wired(command, env=environment, cwd=here, stderr=subprocess.DEVNULL) as wire:
            wire.here = here
            yield wire

    return run


def read(wire):
    """Return the frames that the server read; None is a line that is no JSON."""
    return [json.loads(line) for line in (wire.here / "server.log").read_bytes().splitlines()]


def called(wire):
    """Return the names of the tools that the server was asked to run."""
    frames = [one for one in read(wire) if one is not None]
    return [one["params"]["name"] for one in frames if one.get("method") == "tools/call"]


def call(own, name="echo", **arguments):
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": own, "method": "tools/call", "params": params})


async def answers(wire, *owns):
    """Return what answers the requests *owns*, by their ids, when it is all there."""
    wire.send(id="last", method="ping")
    found = {}
    while len(found) < len(owns) + 1:
        frame = await wire.frame()
        for one in frame if isinstance(frame, list) else [frame]:
            if "method" not in one:
                assert one["id"] not in found
                found[one["id"]] = one
    assert found.pop("last")
    assert found.keys() == set(owns)
    return found


async def test_a_carriage_return_starts_no_frame(through):
    rm = call(99, "rm")
    lines = [
        f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":\r{rm}\r}}',
        f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"echo","arguments":\r{rm}\r}}}}',
        f'{{"jsonrpc":"2.0","method":"notifications/x","params":\r{rm}\r}}',
        f'{{"jsonrpc":"2.0","id":"s","result":\r{rm}\r}}',
        f'[{{"jsonrpc":"2.0","id":3,"method":"ping","params":\r{rm}\r}}]',
        f'\r{{"jsonrpc":"2.0","id":4,"method":"ping","params":{{"a":\r{rm}\r}}}}\r',
    ]  # fmt: skip

    async with through("Guarding") as wire:
        for line in lines:
            wire.write(line.encode())
        got = await answers(wire, 1, 2, 3, 4)
        await wire.end()

    assert called(wire) == ["echo"]
    assert all("result" in one for one in got.values())
    assert len([one for one in read(wire) if one.get("method") != "tools/list"]) == len(lines) + 1


async def test_members_in_another_case_are_refused(through):
    rm = '{"name":"rm","arguments":{}}'
    lines = [
        f'{{"id":1,"method":"ping","Method":"tools/call","params":{rm}}}',
        f'{{"id":2,"METHOD":"tools/call","params":{rm}}}',
        f'{{"id":3,"method":"tools/call","params":{{"name":"echo"}},"Params":{rm}}}',
        f'{{"id":4,"method":"tools/call","param\u017f":{rm}}}',
        '{"id":5,"method":"tools/call","params":{"name":"echo","Name":"rm"}}',
        '{"id":6,"method":"tools/call","params":{"name":"echo","NAME":"rm","Name":"echo"}}',
        '{"id":7,"method":"tools/call","params":{"name":"echo","argument\u017f":{"path":"/etc"}}}',
        f'{{"id":8,"method":"ping","__proto__":{{"method":"tools/call","params":{rm}}}}}',
        f'{{"id":9,"method":"tools/call","params":{{"name":"echo","__proto__":{rm}}}}}',
        '{"id":10,"method":"tools/call","params":{"name":"echo","arguments":{"__proto__":{"path":"/etc"}}}}',
        '{"id":11,"method":"resources/read","params":{"uri":"a:b","URI":"a:c"}}',
    ]  # fmt: skip

    async with through("Guarding") as wire:
        for line in lines:
            wire.write(line.encode())
        got = await answers(wire, *range(1, 12))
        await wire.end()

    assert all("error" in one for one in got.values())
    assert [one["method"] for one in read(wire)] == ["ping"]


async def test_arguments_have_no_ambiguous_names(through):
    async with through("Guarding") as wire:
        wire.write(call(1, path="ok", Path="/etc").encode())
        wire.write(call(2, deep=[{"pa\u212ah": "ok", "pakh": "/etc"}]).encode())
        wire.write(call(3, Path="/etc", other={"PATH": 1}).encode())
        got = await answers(wire, 1, 2, 3)
        await wire.end()

    reasons = [got[own]["error"]["message"] for own in (1, 2)]
    assert "arguments: some readers take 'path' and 'Path' for" in reasons[0]
    assert "arguments.deep[0]: " in reasons[1]
    assert "/etc" in got[3]["result"]["content"][0]["text"]
    assert called(wire) == ["echo"]


FINE = ["9007199254740991", "-1", "0", "0.1", "1.50", "1e3", "1e22", "5e-324"]
ROUNDED = [
    *("9007199254740992", "-9007199254740993", "123456789012345678901234567890123"),
    *("0.1000000000000000055511151231257827", "9007199254740993.0", "1e-400"),
]


async def test_arguments_have_no_rounded_numbers(through):
    numbers = dict(enumerate([*FINE, *ROUNDED]))

    async with through("Guarding") as wire:
        for own, number in numbers.items():
            wire.write(call(own, a=[{"b": 4242}]).replace("4242}", number + "}").encode())
        got = await answers(wire, *numbers)
        await wire.end()

    ran = [json.loads(got[own]["result"]["content"][0]["text"]) for own in range(len(FINE))]
    assert [one["a"][0]["b"] for one in ran] == [json.loads(one) for one in FINE]
    reasons = [got[own]["error"]["message"] for own in range(len(FINE), len(numbers))]
    assert all("arguments.a[0].b: " in one for one in reasons)
    assert len(called(wire)) == len(FINE)


async def test_a_server_s_members_in_another_case_vanish(through):
    alike = """
        fine = {"type": "text", "text": "fine"}
        bad = {"type": "text", "text": "hidden"}
        SAID = [
            {"result": {"content": [fine], "Content": [bad], "CONTENT": [bad]}},
            {"result": {"content": [{**fine, "Text": "hidden", "TEXT": "hidden"}]}},
            {"result": {"content": [fine], "structured_content": {"a": "hidden"}}},
            {"result": {"content": [fine], "\\u017ftructuredContent": {"a": "hidden"}}},
            {"result": {"content": [fine], "__proto__": {"structuredContent": {"a": "hidden"}}}},
            {"result": {"content": [fine]}, "Result": {"content": [bad]}, "re\\u017fult": bad},
            {"result": {"content": [fine]}, "Error": {"code": 1, "message": "hidden"}},
            {"result": {"content": [fine]}, "Method": "ping", "METHOD": "hidden"},
            {"result": {"content": [fine]}, "ID": "hidden", "__proto__": {"result": bad}},
        ]
        def call(m):
            send(id=m["id"], **SAID[m["params"]["arguments"]["n"]])
    """

    async with through("Redaction", alike) as wire:
        for own in range(9):
            wire.write(call(own, n=own).encode())
        got = await answers(wire, *range(9))

    fine = {"content": [{"type": "text", "text": "fine"}]}
    assert [got[own] for own in range(9)] == [
        {"jsonrpc": "2.0", "id": own, "result": fine} for own in range(9)
    ]
    assert b"hidden" not in b"".join(wire.lines)


async def test_every_reader_counts_the_same_lines(through):
    ends = "\r \n \r\n \x85 \u2028 \u2029 \v \f \x1c \x1d \x1e"
    plain = """
        def call(m):
            out(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"structuredContent":
                m["params"]["arguments"]}}, ensure_ascii=False, indent=1).replace("\\n", "\\r"))
    """

    async with through("Redaction", plain) as wire:
        wire.write(json.dumps(json.loads(call(1, said=ends)), ensure_ascii=False).encode())
        got = await answers(wire, 1)
        await wire.end()

    assert got[1]["result"]["structuredContent"] == {"said": ends}
    ran = [one for one in read(wire) if one["method"] == "tools/call"]
    assert [one["params"]["arguments"] for one in ran] == [{"said": ends}]
    lines = [*wire.lines, *(wire.here / "raw.log").read_bytes().splitlines(keepends=True)]
    assert all(line.decode().splitlines() == [line.decode()[:-1]] for line in lines)
    assert len(lines) == 2 + 3


TOLD = """
    S = "sk-canary-4242"
    NAMES = ("tools/call", "tools/list", "initialize", "server/discover", "resources/read",
             "prompts/get", "error", "completion/complete")
    def call(m):
        for name in NAMES:
            params = {"messages": [{"text": S}], "name": S, "protocolVersion": S, "code": S,
                      "content": [{"type": "text", "text": S}], "tools": [{"name": S}], "n": 1}
            send(id=name, method=name, params=params)
            send(method=name, params=params)
        send(id=m["id"], result=text("fine"))
"""


async def test_handlers_see_a_server_s_whole_request(through):
    async with through("Redaction", TOLD) as wire:
        wire.write(call(1).encode())
        await answers(wire, 1)

    assert SECRET.encode() not in b"".join(wire.lines)
    told = [one for one in map(json.loads, wire.lines) if "method" in one]
    assert len(told) == 2 * 8
    assert all(one["params"]["n"] == 1 for one in told)
    assert all(one["params"]["content"][0]["text"] == "[redacted]" for one in told)


async def test_a_result_needs_an_id(through):
    nameless = """
        def call(m):
            send(id=None, result={"tools": [{"name": "hidden", "inputSchema": {}}]})
            send(id=None, error={"code": 1, "message": "what was that?"})
            send(id=m["id"], result=text("fine"))
    """

    async with through("Redaction", nameless) as wire:
        wire.write(call(1).encode())
        await wire.answer(1)

    said = [json.loads(line) for line in wire.lines]
    assert [one.get("error", {}).get("message") for one in said] == ["what was that?", None]
    assert b"hidden" not in b"".join(wire.lines)


HALVES = """
    def call(m):
        halves = json.dumps(m["params"]["arguments"])
        out('{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"\\\\ud83d cut"}],'
            '"structuredContent":%s}}' % (json.dumps(m["id"]), halves))
"""


@pytest.mark.parametrize(("component", "half"), [(None, "\ud83d"), ("Redaction", "\ufffd")])
async def test_an_unpaired_surrogate_stops_no_call(through, component, half):
    async with through(component, HALVES) as wire:
        wire.write(call(1, said="a \ud83d b", **{"\udc00": 1}).encode())
        wire.write(f"[{call('two', said=chr(0xDFFF))}]".encode())
        got = await answers(wire, 1, "two")
        await wire.end()

    assert got[1]["result"]["content"][0]["text"] == f"{half} cut"
    assert got[1]["result"]["structuredContent"]["said"] == f"a {half} b"
    assert got["two"]["result"]["content"][0]["text"] == f"{half} cut"


ODD = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":NaN}}}',
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"n":-Infinity}}}',
    b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"n":1e999}}}',
    b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{"n":"\xff"}}}',
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{"id":1,',
    b'{"params":{"id":1,"n":NaN},"jsonrpc":"2.0","id":6,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":7,"method":["ping"]}',
    b'{"jsonrpc":"2.0","id":8,"method":"ping","result":{}}',
    b'{"jsonrpc":"2.0","id":9}',
    b'[{"jsonrpc":"2.0","id":10,"method":"ping","params":NaN}]',
    b'{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}',
]  # fmt: skip


async def test_refused_bytes_are_answered(through):
    async with through("Guarding") as wire:
        for line in ODD:
            wire.write(line)
        wire.write(call("fine").encode())
        got = await answers(wire, *range(1, 11), "\ud83d", "fine")
        await wire.end()

    assert "result" in got.pop("fine")
    assert all("error" in one for one in got.values())
    assert sorted(one["method"] for one in read(wire)) == ["ping", "tools/call", "tools/list"]


async def test_invalid_json_from_a_server_is_an_error(through):
    broken = """
        SAID = ['"result":{"content":[],"structuredContent":{"n":NaN}}}', '"result":{"n":1e999}}',
                '"result":{"content":[', '"error":{"code":1,"message":"\\x01"}}']
        def call(m):
            out('{"jsonrpc":"2.0","id":%d,%s' % (m["id"], SAID[m["id"]]))
    """

    async with through("Redaction", broken) as wire:
        for own in range(4):
            wire.write(call(own).encode())
        got = await answers(wire, *range(4))

    assert all("error" in one for one in got.values())


async def test_nesting_has_one_limit(through):
    deep = """
        def call(m):
            depth = m["params"]["arguments"]["depth"]
            out('{"jsonrpc":"2.0","id":%d,"result":{"structuredContent":%s}}'
                % (m["id"], "[" * depth + "]" * depth))
    """
    depths = {1: 197, 2: 198, 3: 199, 4: 5_000, 5: 200_000}

    async with through("Redaction") as wire:
        for own, depth in depths.items():
            wire.write(call(own, a=0).replace("0}", "[" * depth + "]" * depth + "}").encode())
        there = await answers(wire, *depths)
        await wire.end()
    sent = called(wire)
    async with through("Redaction", deep) as wire:
        for own, depth in depths.items():
            wire.write(call(own, depth=depth).encode())
        back = await answers(wire, *depths)

    # A frame, its params and its arguments are three levels; a frame and its result are two.
    assert [own for own, one in there.items() if "result" in one] == [1]
    assert len(sent) == 1
    assert [own for own, one in back.items() if "result" in one] == [1, 2]


async def test_a_cancelled_call_may_be_answered(through):
    late = """
        waiting = []
        def call(m):
            waiting.append(m["id"])
            send(method="notifications/begun")
        def other(m):
            if m["method"] == "notifications/cancelled" and m["params"]["requestId"] == 1:
                send(id=1, error={"code": 0, "message": "cancelled sk-canary-4242"})
            elif m["method"] == "ping":
                send(id=m["id"], result={})
    """

    async with through("Redaction", late) as wire:
        for own in (1, 2):
            wire.write(call(own).encode())
            assert (await wire.frame())["method"] == "notifications/begun"
        for own in (1, 2):
            wire.send(method="notifications/cancelled", params={"requestId": own})
        got = await answers(wire, 1)
        await wire.end()

    assert got[1]["error"] == {"code": 0, "message": "cancelled [redacted]"}
    assert [one.get("id") for one in map(json.loads, wire.lines)] == [None, None, 1, "last"]


NO_IDS = [
    *("NaN", "-Infinity", "1e400", "-2e999", "0x1", "1_0", "+1", "1.", ".5", "1n", "nan"),
    *('"a\\x"', "9" * 5_000, '1,"n":NaN,"id":2'),
]


async def test_unreadable_ids_become_null(through):
    lines = [f'{{"jsonrpc":"2.0","id":{own},"method":"ping"}}' for own in NO_IDS]
    lines += [f"[{line}]" for line in lines[:-1]]
    said = []

    async with through("Guarding") as wire:
        for line in lines:
            wire.write(line.encode())
            frame = await wire.frame()
            said += frame if isinstance(frame, list) else [frame]

    assert len(said) == len(lines)
    assert [one["id"] for one in said if "error" in one] == [None] * len(lines)


@pytest.mark.parametrize("component", [None, "Guarding"])
async def test_a_cancellation_with_an_id_is_answered(through, component):
    async with through(component) as wire:
        answer = await wire.ask(7, "notifications/cancelled", {"requestId": 1})

    assert answer["result"] == {}


def ping(own):
    return {"jsonrpc": "2.0", "id": own, "method": "ping"}


NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
BATCHES = [[*map(ping, range(900)), *[NOTE] * 101], [NOTE] * 1_001, []]


async def test_a_batch_has_any_number_of_frames(through):
    lines = [json.dumps(batch).encode() for batch in BATCHES]

    async with through("Guarding") as wire:
        for line in lines:
            wire.write(line)
        answers = [await wire.frame() for _ in range(901)]
        await wire.ask("last", "ping")
        judged = (wire.here / "raw.log").read_bytes()
    async with through() as wire:
        wire.write(lines[0])
        await wire.ask("last", "ping")
        plain = (wire.here / "raw.log").read_bytes()

    (empty,) = [one for one in answers if one["id"] is None]
    assert sorted(one["id"] for one in answers if one is not empty) == [*range(900)]
    assert empty["error"]["code"] == -32600
    assert judged.count(b"\n") == 900 + 101 + 1_001 + 1
    assert plain.startswith(lines[0] + b"\n")


SCHEMA = """
    S = "sk-canary-4242"
    SCHEMA = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/N"}, "say " + S: {"type": S},
                       "m": {"type": ["string", S], "$ref": "#/" + S, "$schema": S}},
        "required": ["n", "say " + S, S],
        "dependentRequired": {"n": ["m", S]},
        "$defs": {"N": {"type": ["integer", "null"], "required": []}, "a " + S: {}},
        "$anchor": S, "$dynamicAnchor": S, "$id": "https://a.example/" + S,
        "$vocabulary": {S: True}, "$dynamicRef": "#" + S, "x-new": S, "do " + S: True,
    }
    TOOLS = [{"name": "echo", "inputSchema": SCHEMA, "outputSchema": SCHEMA, "new " + S: True},
             {"name": "run " + S, "inputSchema": {"type": "object"}}]
"""


async def test_handlers_see_prose_in_a_schema(through):
    async with through("Redaction", SCHEMA) as wire:
        listed = (await wire.ask(1, "tools/list"))["result"]["tools"]

    assert SECRET.encode() not in b"".join(wire.lines)
    schema = listed[0]["inputSchema"]
    assert schema == listed[0]["outputSchema"]
    assert list(schema["properties"]) == ["n", "say [redacted]", "m"]
    assert schema["properties"]["n"] == {"$ref": "#/$defs/N"}
    assert schema["required"] == ["n", "say [redacted]", "[redacted]"]
    assert schema["$defs"]["N"] == {"type": ["integer", "null"], "required": []}
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert [one["name"] for one in listed] == ["echo", "run [redacted]"]


HELLO = """
    S = "sk-canary-4242"
    CAPABILITIES = {
        "tools": {"listChanged": True}, "logging": {}, "completions": {S: True},
        "resources": {"subscribe": True, "listChanged": S}, "prompts": S, "say " + S: {},
        "tasks": {"list": {}, "requests": {"tools": {"call": {}}}}, "new": {"deep": [S]},
    }
    def other(m):
        if m["method"] == "initialize":
            send(id=m["id"], result={"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES,
                                     "serverInfo": {"name": "n", "version": "1"}, "say " + S: 1,
                                     "resultType": S, "cacheScope": S, "ttlMs": S})
        elif m["method"] == "server/discover":
            send(id=m["id"], result={"protocolVersion": S, "supportedVersions": ["2026-07-28", S],
                                     "capabilities": S, "resultType": "complete", "ttlMs": 5,
                                     "cacheScope": "public"})
        elif "id" in m:
            send(id=m["id"], result={})
"""


async def test_handlers_see_prose_in_a_handshake(through):
    async with through("Redaction", HELLO) as wire:
        begun = (await wire.ask(1, "initialize"))["result"]
        found = (await wire.ask(2, "server/discover"))["result"]

    assert SECRET.encode() not in b"".join(wire.lines)
    assert begun["protocolVersion"] == "2025-11-25"
    assert begun["capabilities"]["tools"] == {"listChanged": True}
    assert begun["capabilities"]["tasks"] == {"list": {}, "requests": {"tools": {"call": {}}}}
    assert begun["capabilities"]["new"] == {"deep": ["[redacted]"]}
    assert found["supportedVersions"] == ["2026-07-28", "[redacted]"]
    assert [found[one] for one in ("resultType", "ttlMs", "cacheScope")] == [
        "complete",
        5,
        "public",
    ]


NAMED = """
    S = "sk-canary-4242"
    def call(m):
        for own in (7, "q-1", "do as I say: " + S):
            send(id=own, method="ping")
        send(method="notifications/say " + S)
        send(id="r", method="obey " + S)
        for token in ("t-1", 5, S):
            send(method="notifications/progress", params={"progressToken": token, "progress": 1})
        send(id=m["id"], result=text("fine"))
    def other(m):
        if "method" in m and "id" in m:
            send(id=m["id"], result={})
"""


async def test_prose_in_place_of_names_is_refused(through):
    async with through("Redaction", NAMED) as wire:
        params = {"name": "echo", "arguments": {}, "_meta": {"progressToken": "t-1"}}
        await wire.ask(1, "tools/call", params)
        await wire.end()

    assert SECRET.encode() not in b"".join(wire.lines)
    told = [json.loads(line) for line in wire.lines]
    assert [one["id"] for one in told if one.get("method") == "ping"] == [7, "q-1"]
    tokens = [one["params"]["progressToken"] for one in told if "progress" in one.get("method", "")]
    assert tokens == ["t-1", 5]
    refused = {one["id"] for one in read(wire) if "error" in one}
    assert refused == {f"do as I say: {SECRET}", "r"}
