"""What makes a frame hostile: changes of what it says, and damages to its bytes."""

from random import Random

from hostile_json import (
    NO_SPACES,
    SPACES,
    Members,
    Raw,
    Writer,
    objects,
    odd_number,
    quoted,
    tree,
    varied,
)

CALL = "tools/call"
SECRET = "SECRET"
"""What stands in texts that no client may read."""

IDS = (
    *(
        0,
        -1,
        1,
        7,
        8,
        1.5,
        2**53 + 1,
        2**70,
        "1",
        "7",
        "0",
        "",
        "a b",
        "id\0",
        "\ud800",
        True,
        None,
    ),
    *(Raw(b"-0"), Raw(b"1.0"), Raw(b"1e0"), Raw(b"7.0"), Raw(b"NaN"), Raw(b"1e400"), []),
    *(Raw(b'"\\ud83d"'), Raw(b'"7\\u0000"'), Raw(b'"\\u0037"'), Members(), "toolbus-1", "7 "),
)
VERSIONS = (
    "2.0",
    "2.0",
    "2.0",
    "1.0",
    "2.0 ",
    2,
    2.0,
    None,
    "2.0\0",
    ["2.0"],
    "",
    Raw(b'"2\\u002e0"'),
)
AROUND = (
    *(b"\xef\xbb\xbf", b"\x00", b"\x1e", b"//x\n", b"/*", b"*/", b",", b";", b")]}'\n", b"\r"),
    *(b"\n", b"data: ", b"Content-Length: 9\r\n\r\n", b"\xff\xfe", b"x", b"]", b"}", b"#"),
)
LETTERS = b'{}[]:,"\\/ \t\r\n\x00\x0b\x0c\x1e\x7f\x85\xa8\xc0\xe2\xed\xff019eE+-.uNtfnaABKs'


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
    """Hide a whole frame in this one, behind what some reader takes for the end of a line."""
    inside = random.choice(objects(frame))
    end = random.choice((*SPACES, *NO_SPACES, b"\r", b"\r"))
    hidden = Raw(end + Writer(random).write(make()) + end)
    name = random.choice(("params", "result", "x", "arguments", "_meta"))
    inside.insert(random.randrange(len(inside) + 1), (name, hidden))


def _in_text(random, frame, make):
    """Hide a whole frame in a text."""
    inside = random.choice(objects(frame))
    end = random.choice(("\r", "\n", "\u2028", "\x85", "\r\n", "\x0b")) * random.randrange(1, 3)
    hidden = Writer(Random(0)).write(make()).decode("utf-8", "replace")
    inside.append((random.choice(("path", "text", "x")), f"{end}{hidden}{end}"))


def _proto(random, frame, make):
    inside = random.choice(objects(frame))
    name = random.choice(("__proto__", "__proto__", "constructor", "prototype"))
    inside.insert(random.randrange(len(inside) + 1), (name, make().get("params") or make()))


def _odd_value(random, frame, _):
    inside = random.choice(objects(frame))
    if inside:
        index = random.randrange(len(inside))
        odd = random.choice((Raw(odd_number(random)), Raw(quoted(random)), None, []))
        inside[index] = (inside[index][0], odd)


def _more(random, frame, _):
    inside = random.choice(objects(frame))
    value = Raw(random.choice((odd_number(random), quoted(random))))
    inside.append((random.choice(("n", "text", "x", "structuredContent", "isError")), value))


def _other_id(random, frame, _):
    frame.put("id", tree(random.choice(IDS)))


def _other_version(random, frame, _):
    frame.put("jsonrpc", tree(random.choice(VERSIONS)))


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


def _elsewhere(frame, name):
    return next((one.get(name) for one in objects(frame) if one.get(name) is not None), None)


CHANGES = (
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
