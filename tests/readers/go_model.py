"""What `go/reader.go` reads, without Go: as `python_reader.py`; Go's own results prove it.

Go's `encoding/json` finds the member of a struct that has the name, else the first that has it
without case (U+017F is an s, U+212A a k); null leaves what stands there; of two members the last
counts, and objects become one; each byte that is no UTF-8, and half a pair, is U+FFFD.
"""

import codecs
import json
import re
import sys
from typing import Any, NamedTuple

SPACE = " \t\r\n"
TRIMMED = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    [chr(one) for one in range(0x2000, 0x200B)]
)
"""What `bytes.TrimSpace` takes away."""
DEEPEST = 10_000
FOLDED = str.maketrans({"\u017f": "s", "\u212a": "k"})
HALF = re.compile("[\ud800-\udfff]")

codecs.register_error("each", lambda error: ("\ufffd" * (error.end - error.start), error.end))


class UnfitError(ValueError):
    """JSON of another type than the struct has, or a number that is too large."""


class Number(NamedTuple):
    text: str


class Members(NamedTuple):
    pairs: list


RAW, ANY, TEXT, MAP = "raw", "any", "text", "map"
LIST = {"tools": [{"name": TEXT}]}
CALL = {"name": TEXT, "arguments": MAP}
DECLARED = {"arguments": {"path": ANY, "key": ANY, "task": ANY}}
MESSAGE = {
    "jsonrpc": TEXT,
    "id": ANY,
    "method": TEXT,
    "params": RAW,
    "result": RAW,
    "error": RAW,
}
WHOLE = {"id": ANY, "method": TEXT, "params": {"name": TEXT, "arguments": ANY}}


def refuse(text):
    raise ValueError(text)


def sound(text):
    return HALF.sub("\ufffd", text)


scanner = json.JSONDecoder(
    object_pairs_hook=lambda pairs: Members([(sound(name), one) for name, one in pairs]),
    parse_int=Number,
    parse_float=Number,
    parse_constant=refuse,
)


def skip(text, at):
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def scan(text, at=0):
    """Return the JSON value that begins at *at*, and where it ends; raises `ValueError`."""
    try:
        return scanner.raw_decode(text, skip(text, at))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse(data, trimmed=None):
    """Return the one JSON value in *data*; raises `ValueError`."""
    text = data.decode("utf-8", "each").strip(trimmed or SPACE)
    if text.count("[") + text.count("{") > DEEPEST:
        raise ValueError("nested too deeply")
    value, end = scan(text)
    if skip(text, end) < len(text):
        raise ValueError("more than one value")
    return value


def plain(node) -> Any:
    """Return what Go makes of *node* in an `any`."""
    match node:
        case Members(pairs):
            return {name: plain(one) for name, one in pairs}
        case Number(text):
            value = float(text)
            if value in {float("inf"), float("-inf")}:
                raise UnfitError(text)
            return value
        case list():
            return [plain(one) for one in node]
        case str():
            return sound(node)
    return node


def fold(name):
    return "".join([one.lower() if one.isascii() else one for one in name.translate(FOLDED)])


def fill(node, fields, into):
    """Write what *node* says of *fields* into the dict *into*; return whether all of it fits."""
    if not isinstance(node, Members):
        return node is None
    fits = True
    for name, one in node.pairs:
        wanted = name if name in fields else next((f for f in fields if f == fold(name)), None)
        if wanted is not None:
            fits = _put(one, fields[wanted], wanted, into) and fits
    return fits


def _put(node, kind, name, into):
    if isinstance(kind, dict):
        return fill(node, kind, into.setdefault(name, {}))
    if isinstance(kind, list):
        return _fill_all(node, kind[0], name, into)
    if kind == RAW:
        into[name] = node
    elif kind == ANY:
        into.pop(name, None)
        return _attempt(lambda: into.__setitem__(name, plain(node)))
    elif node is None:
        if kind == MAP:
            into.pop(name, None)
    elif kind == TEXT:
        if not isinstance(node, str):
            return False
        into[name] = sound(node)
    elif not isinstance(node, Members):
        return False
    else:
        given = into.setdefault(name, {})
        # What cannot be read is left out, and what follows is read.
        done = [_attempt(lambda k=k, v=v: given.__setitem__(k, plain(v))) for k, v in node.pairs]
        return all(done)
    return True


def _fill_all(node, fields, name, into):
    if node is None:
        into.pop(name, None)
        return True
    if not isinstance(node, list):
        return False
    # What stood at a place stays there, as far as nothing else is said.
    before = into.get(name, [])
    now = into[name] = [before[i] if i < len(before) else {} for i in range(len(node))]
    fits = [fill(one, fields, place) for one, place in zip(node, now, strict=True)]
    return all(fits)


def _attempt(write):
    try:
        write()
    except UnfitError:
        return False
    return True


def call_of(params):
    one, declared = {}, {}
    if params is None or not fill(params, CALL, one):
        return None if params is not None else {"name": "", "arguments": None, "typed": {}}
    called = {"name": one.get("name", ""), "arguments": one.get("arguments")}
    if fill(params, DECLARED, declared):
        arguments = declared.get("arguments", {})
        called["typed"] = {
            name: arguments[name] for name in arguments if arguments[name] is not None
        }
    return called


def listed(result):
    one = {}
    if not fill(result, LIST, one):
        return []
    return [tool.get("name", "") for tool in one.get("tools", ())]


def seen(one):
    said = {"id": one.get("id")}
    if one.get("method"):
        said["method"] = one["method"]
    for name in ("params", "result", "error"):
        if name in one:
            _attempt(lambda name=name: said.__setitem__(name, plain(one[name])))
    names = listed(one["result"]) if "result" in one else []
    if names:
        said["listed"] = names
    called = call_of(one["params"]) if "params" in one else None
    if called is not None and one.get("method") == "tools/call":
        said["call"] = called
    return said


def read(found, node):
    one = {}
    if fill(node, MESSAGE, one):
        found.append(seen(one))


def by_lines(data):
    found = []
    for line in data.split(b"\n"):
        try:
            node = parse(line, TRIMMED)
        except ValueError:
            continue
        for one in node if isinstance(node, list) else [node]:
            read(found, one)
    return found


def by_body(data):
    found = []
    try:
        read(found, parse(data))
    except ValueError:
        return []
    return found


def by_wholes(data):
    found = []
    for line in data.split(b"\n"):
        one = {}
        try:
            fits = fill(parse(line), WHOLE, one)
        except ValueError:
            continue
        if fits and one.get("method") == "tools/call":
            params = one.get("params", {})
            called = {"name": params.get("name", ""), "arguments": params.get("arguments")}
            found.append({"id": one.get("id"), "method": "tools/call", "call": called})
    return found


def by_decoder(data):
    text, at, found = data.decode("utf-8", "each"), 0, []
    while True:
        try:
            node, at = scan(text, at)
        except ValueError:
            return found
        read(found, node)


def by_events(data):
    found, said, name = [], [], b""
    for line in data.split(b"\n")[:-1]:
        field, _, value = line.rstrip(b"\r").partition(b":")
        value = value.removeprefix(b" ")
        if not line.rstrip(b"\r"):
            if said and name in {b"", b"message"}:
                found += by_body(b"\n".join(said))
            said, name = [], b""
        elif field == b"data":
            said.append(value)
        elif field == b"event":
            name = value
    return found


def take(mode, data):
    """Return what *data* says, by each way of reading."""
    if mode == "server":
        return {"lines": by_lines(data), "wholes": by_wholes(data), "decoder": by_decoder(data)}
    if mode == "client":
        return {"lines": by_lines(data), "decoder": by_decoder(data)}
    if mode == "body":
        return {"body": by_body(data)}
    return {"events": by_events(data)}


if __name__ == "__main__":
    for asked in sys.stdin:
        way, _, given = asked.strip().partition(" ")
        print(json.dumps(take(way, bytes.fromhex(given.replace(",", "")))), flush=True)
