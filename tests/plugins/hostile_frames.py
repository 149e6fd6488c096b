"""Hostile JSON-RPC, drawn from a seed: what a client may write to make a server do what was not
judged, and a server to make a client read what was not shown.
"""

from random import Random
from typing import NamedTuple

from hostile_changes import CALL, CHANGES, DAMAGES, IDS, SECRET
from hostile_json import NO_SPACES, SPACES, Members, Raw, Writer, odd_number, quoted, tree

DENIED, HIDDEN, PLAIN = "delete_everything", "hidden", "PLAIN"
"""Tools that no server may run, no client be told of; what stands in texts that it may read."""

NAMES = ("read", "write", "read", "run", DENIED, "Read", "read ", "réad", "r\0ad", "")
METHODS = ("ping", "resources/read", "prompts/get", "tools/list", "notifications/cancelled")


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
    request_id = random.choice((7, 7, "7", 1))
    data = _hostile(random, lambda: _reply(random, seed, asked, request_id), 2)
    return Answer(((request_id, asked),), data)


TOLD = ("read", HIDDEN)
READ, LIST, PROMPT = "resources/read", "tools/list", "prompts/get"


# --- frames ------------------------------------------------------------------------------------


def _call(random, seed):
    name = random.choice(NAMES)
    arguments = {"path": f"/data/{seed}", "n": seed, "key": random.choice(("k", 1, None, True))}
    if random.random() < 0.2:
        arguments["path"] = f"/etc/{seed}"
    if random.random() < 0.15:
        odd = random.choice((odd_number(random), quoted(random), b'{"a":%b}' % odd_number(random)))
        arguments[random.choice(("n", "key", "task", "_"))] = Raw(odd)
    params = {"name": name, "arguments": arguments}
    if random.random() < 0.1:
        params["_meta"] = {"progressToken": seed}
    method = CALL if random.random() < 0.8 else random.choice(METHODS)
    request_id = random.choice((7, "seven", random.choice(IDS)))
    frame = tree({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
    if random.random() < 0.03:
        frame.remove(("id", frame.get("id")))
    return frame


def _reply(random, seed, asked, request_id):
    kind, text = random.randrange(8), _text(random, seed)
    if kind == 0:
        params = {"level": "info", "data": text}
        return tree({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
    if kind == 1:
        question = {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        members = {"id": 3, "method": "sampling/createMessage", "params": question}
        return tree({"jsonrpc": "2.0", **members})
    answered = request_id if random.random() < 0.8 else random.choice(IDS)
    said = {"result": _result(random, asked, text, _text(random, seed))}
    if kind == 2:
        said = {"error": {"code": -1, "message": text, "data": _text(random, seed)}}
    return tree({"jsonrpc": "2.0", "id": answered, **said})


def _text(random, seed):
    return f"{random.choice((SECRET, PLAIN, PLAIN))}{seed}x{random.randrange(1000)}"


def _result(random, asked, text, more):
    block = {"type": "text", "text": text}
    if asked == READ:
        return {"contents": [{"uri": "file:///a", "mimeType": "text/plain", "text": text}]}
    if asked == PROMPT:
        return {"description": more, "messages": [{"role": "user", "content": block}]}
    if asked == LIST:
        schema = {"type": "object", "properties": {"a": {"type": "string", "description": more}}}
        tools = [{"name": name, "description": text, "inputSchema": schema} for name in TOLD]
        return {"tools": random.sample(tools, random.randrange(1, 3))}
    if random.random() < 0.1:
        more = [more, Raw(random.choice((odd_number(random), quoted(random))))]
    return {"content": [block], "structuredContent": {"said": more}}


def _hostile(random, make, most):
    """Return frames of *make* as bytes, after some mutations."""
    frames = [make()]
    for _ in range(random.randrange(most + 1)):
        random.choice(CHANGES)(random, frames[0], make)
    if random.random() < 0.12:
        frames.append(make())
    whole = frames[0] if len(frames) == 1 else _batch(random, frames)
    if isinstance(whole, Members):
        data = Writer(random).write(whole)
        if len(frames) > 1:
            data += random.choice((*SPACES, *NO_SPACES, b"", b",")) + Writer(random).write(
                frames[1]
            )
    else:
        data = Writer(random).write(whole)
    for _ in range(random.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2))):
        data = random.choice(DAMAGES)(random, data)
    return data + b"\n"


def _batch(random, frames):
    return random.choice((frames[0], frames, [frames], [*frames, []], [frames[0], frames[1], None]))
