"""Hostile JSON-RPC, drawn from a seed: what a client may write to make a server do what was not
judged, and a server to make a client read what was not shown.
"""

from random import Random
from typing import NamedTuple

from hostile_json import (
    NO_SPACES,
    SPACES,
    Members,
    Raw,
    Writer,
    objects,
    odd_number,
    odd_text,
    tree,
    varied,
)

DENIED, SECRET, PLAIN = "delete_everything", "SECRET", "PLAIN"
"""A tool that no server may run, and what stands in texts that no client may read, or may."""

IDS = (
    *(0, -1, 1, 7, 8, 1.5, 2**53 + 1, 2**70, "1", "7", "0", "", "a b", "id\0", "\ud800", True, None),
    *(Raw(b"-0"), Raw(b"1.0"), Raw(b"1e0"), Raw(b"7.0"), Raw(b"NaN"), Raw(b"1e400"), []),
    *(Raw(b'"\\ud83d"'), Raw(b'"7\\u0000"'), Raw(b'"\\u0037"'), Members(), "toolbus-1", "7 "),
)
VERSIONS = ("2.0", "2.0", "2.0", "1.0", "2.0 ", 2, 2.0, None, "2.0\0", ["2.0"], "", Raw(b'"2\\u002e0"'))
NAMES = ("read", "write", "read", "run", DENIED, "Read", "read ", "réad", "r\0ad", "")
METHODS = ("ping", "resources/read", "prompts/get", "tools/list", "notifications/cancelled")
AROUND = (
    *(b"\xef\xbb\xbf", b"\x00", b"\x1e", b"//x\n", b"/*", b"*/", b",", b";", b")]}'\n", b"\r"),
    *(b"\n", b"data: ", b"Content-Length: 9\r\n\r\n", b"\xff\xfe", b"x", b"]", b"}", b"#"),
)
LETTERS = b'{}[]:,"\\/ \t\r\n\x00\x0b\x0c\x1e\x7f\x85\xa8\xc0\xe2\xed\xff019eE+-.uNtfnaABKs'


class Answer(NamedTuple):
    """What a server writes to whom has *asked*, pairs of an id and a method."""

    asked: tuple
    data: bytes


def request(seed):
    """Return the bytes that a client writes: a line or several, most of them hostile."""
    random = Random(f"request {seed}")
    return _hostile(random, lambda: _call(random, seed), 2)


def answer(seed):
    """Return the `Answer` of a server, most of them hostile."""
    random = Random(f"answer {seed}")
    asked = random.choice((CALL, CALL, CALL, READ, LIST, PROMPT))
    own = random.choice((7, 7, "7", 1))
    data = _hostile(random, lambda: _reply(random, seed, asked, own), 2)
    return Answer(((own, asked),), data)


CALL, READ, LIST, PROMPT = "tools/call", "resources/read", "tools/list", "prompts/get"


# --- frames ------------------------------------------------------------------------------------


def _call(random, seed):
    name = random.choice(NAMES)
    arguments = {"path": f"/work/{seed}", "n": seed, "key": random.choice(("k", 1, None, True))}
    if random.random() < 0.2:
        arguments["path"] = f"/etc/{seed}"
    params = {"name": name, "arguments": arguments}
    if random.random() < 0.1:
        params["_meta"] = {"progressToken": seed}
    method = CALL if random.random() < 0.8 else random.choice(METHODS)
    own = random.choice((7, "seven", random.choice(IDS)))
    frame = tree({"jsonrpc": "2.0", "id": own, "method": method, "params": params})
    if random.random() < 0.03:
        frame.remove(("id", frame.get("id")))
    return frame


def _reply(random, seed, asked, own):
    kind, text = random.randrange(8), _text(random, seed)
    if kind == 0:
        params = {"level": "info", "data": text}
        return tree({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
    if kind == 1:
        question = {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        members = {"id": 3, "method": "sampling/createMessage", "params": question}
        return tree({"jsonrpc": "2.0", **members})
    answered = own if random.random() < 0.8 else random.choice(IDS)
    said = {"result": _result(asked, text, _text(random, seed))}
    if kind == 2:
        said = {"error": {"code": -1, "message": text, "data": _text(random, seed)}}
    return tree({"jsonrpc": "2.0", "id": answered, **said})


def _text(random, seed):
    return f"{random.choice((SECRET, PLAIN, PLAIN))}{seed}x{random.randrange(1000)}"


def _result(asked, text, more):
    block = {"type": "text", "text": text}
    if asked == READ:
        return {"contents": [{"uri": "file:///a", "mimeType": "text/plain", "text": text}]}
    if asked == PROMPT:
        return {"description": more, "messages": [{"role": "user", "content": block}]}
    if asked == LIST:
        schema = {"type": "object", "properties": {"a": {"type": "string", "description": more}}}
        return {"tools": [{"name": "read", "description": text, "inputSchema": schema}]}
    return {"content": [block], "structuredContent": {"said": more}}


# --- mutations ---------------------------------------------------------------------------------


def _hostile(random, make, most):
    """Return frames of *make* as bytes, after some mutations."""
    frames = [make()]
    for _ in range(random.randrange(most + 1)):
        random.choice(MUTATIONS)(random, frames[0], make)
    if random.random() < 0.12:
        frames.append(make())
    whole = frames[0] if len(frames) == 1 else _batch(random, frames)
    if isinstance(whole, Members):
        data = Writer(random).write(whole)
        if len(frames) > 1:
            data += random.choice((*SPACES, *NO_SPACES, b"", b",")) + Writer(random).write(frames[1])
    else:
        data = Writer(random).write(whole)
    for _ in range(random.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2))):
        data = random.choice(DAMAGES)(random, data)
    return data + b"\n"


def _batch(random, frames):
    return random.choice((frames[0], frames, [frames], [*frames, []], [frames[0], frames[1], None]))


def _twice(random, frame, make):
    """Say a member once more, with the value that it has in another frame."""
    inside = random.choice(objects(frame))
    if inside:
        name, value = random.choice(inside)
        other = _elsewhere(make(), name)
        at = random.randrange(len(inside) + 1)
        inside.insert(at, (name, value if other is None else other))


def _other_case(random, frame, make):
    """Say a member in another way, instead or once more."""
    inside = random.choice(objects(frame))
    if inside:
        index = random.randrange(len(inside))
        name, value = inside[index]
        other = _elsewhere(make(), name)
        if random.random() < 0.4:
            inside[index] = (varied(random, name), value)
        else:
            at = random.randrange(len(inside) + 1)
            inside.insert(at, (varied(random, name), value if other is None else other))


def _hidden(random, frame, make):
    """Hide a whole frame in this one, between bytes that some reader takes for the end of a line."""
    inside = random.choice(objects(frame))
    end = random.choice((*SPACES, *NO_SPACES, b"\r", b"\r"))
    hidden = Raw(end + Writer(random).write(make()) + end)
    name = random.choice(("params", "result", "x", "arguments", "_meta"))
    inside.insert(random.randrange(len(inside) + 1), (name, hidden))


def _in_text(random, frame, make):
    """Hide a whole frame in a text."""
    inside = random.choice(objects(frame))
    end = random.choice(("\r", "\n", "\u2028", "\x85", "\r\n", "\x0b")) * random.randrange(1, 3)
    hidden = Writer(Random(0)).write(make()).decode("utf-8", "surrogatepass")
    inside.append((random.choice(("path", "text", "x")), f"{end}{hidden}{end}"))


def _proto(random, frame, make):
    inside = random.choice(objects(frame))
    name = random.choice(("__proto__", "__proto__", "constructor", "prototype"))
    inside.insert(random.randrange(len(inside) + 1), (name, make().get("params") or make()))


def _odd_value(random, frame, _):
    inside = random.choice(objects(frame))
    if inside:
        index = random.randrange(len(inside))
        odd = random.choice((Raw(odd_number(random)), Raw(_quoted(random)), None, []))
        inside[index] = (inside[index][0], odd)


def _more(random, frame, _):
    inside = random.choice(objects(frame))
    value = Raw(random.choice((odd_number(random), _quoted(random))))
    inside.append((random.choice(("n", "text", "x", "structuredContent", "isError")), value))


def _other_id(random, frame, _):
    frame.put("id", random.choice(IDS))


def _other_version(random, frame, _):
    frame.put("jsonrpc", random.choice(VERSIONS))


def _both(random, frame, make):
    """Make it a request and an answer."""
    frame.insert(
        random.randrange(len(frame) + 1),
        random.choice(
            (
                ("result", tree({"content": [{"type": "text", "text": f"{SECRET}b"}]})),
                ("error", tree({"code": 1, "message": f"{SECRET}b"})),
                ("error", None),
                ("method", random.choice(("ping", CALL, None, 7))),
                ("params", make().get("params")),
            )
        ),
    )


def _deep(random, frame, _):
    depth = random.choice((50, 50, 150, 250, 300, 12_000))
    sign, end = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    deep = Raw(sign * depth + b"1" + end * depth)
    random.choice(objects(frame)).append((random.choice(("x", "arguments", "params")), deep))


def _quoted(random):
    return b'"' + random.choice((b"", b"a")) + odd_text(random) + b'"'


def _elsewhere(frame, name):
    return next((one.get(name) for one in objects(frame) if one.get(name) is not None), None)


MUTATIONS = (
    *(_twice, _other_case, _hidden, _proto, _odd_value, _other_id, _other_version, _both, _more),
    *(_twice, _other_case, _hidden, _odd_value, _in_text, _more, _more, _other_case),
) * 3 + (_deep,)


# --- damages -----------------------------------------------------------------------------------


def _inserted(random, data):
    at = random.randrange(len(data) + 1)
    return data[:at] + bytes([random.choice(LETTERS)]) + data[at:]


def _spaced(random, data):
    """Insert what is space, or nearly, beside a sign."""
    places = [at for at, one in enumerate(data) if one in b'{}[]:,"']
    at = random.choice(places or [0]) + random.randrange(2)
    return data[:at] + random.choice((*SPACES, *NO_SPACES)) + data[at:]


def _cut(random, data):
    at = random.randrange(len(data))
    return data[:at] + data[at + random.randrange(1, 4) :]


def _around(random, data):
    odd = random.choice(AROUND)
    return odd + data if random.random() < 0.5 else data + odd


def _trailing(random, data):
    places = [at for at, one in enumerate(data) if one in b"}]"]
    at = random.choice(places or [0])
    return data[:at] + b"," + data[at:]


def _commented(random, data):
    places = [at for at, one in enumerate(data) if one in b"{,:"]
    at = random.choice(places or [0]) + 1
    return data[:at] + random.choice((b"/* */", b"// \n", b"# \n", b"//\r")) + data[at:]


def _replaced(random, data):
    at = random.randrange(len(data))
    return data[:at] + bytes([random.choice(LETTERS)]) + data[at + 1 :]


DAMAGES = (_inserted, _spaced, _spaced, _cut, _around, _around, _trailing, _commented, _replaced)
