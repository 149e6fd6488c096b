"""Whether a reader has read what was judged: nothing else, and nothing twice."""

import json
import re
from math import isfinite

from hostile_frames import HIDDEN, PLAIN, SECRET
from judged_sessions import frames_of

HALF = re.compile("[\ud800-\udfff]")
LONG = re.compile(rb"\d{16}|[eE][+-]?\d{3}")
ALIKE = str.maketrans({"\u017f": "s", "\u212a": "k"})


def run_unjudged(passed, readings):
    """Yield who reads a tool call that was not judged, or was denied, or is read twice."""
    for way, messages in readings.items():
        left = [(name, arguments) for name, arguments, allowed in passed.judged if allowed]
        for message in messages:
            if (call := message.get("call")) is None:
                continue
            found = next((one for one in left if is_call(call, one)), None)
            if found is None:
                yield f"{way} runs {json.dumps(call)[:500]}"
            else:
                left.remove(found)


def is_call(call, judged):
    """Tell whether *call*, as a reader has it, is the one that was *judged*."""
    name, arguments = judged
    if call["name"] != name or not is_same(call["arguments"] or {}, arguments):
        return False
    for declared, value in call.get("typed", {}).items():
        said = [one for key, one in arguments.items() if key.translate(ALIKE).lower() == declared]
        if len(said) != 1 or not is_same(said[0], value):
            return False
    return True


def is_same(one, other):
    """Tell whether both are the same JSON; 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return one == other or (one != one and other != other)  # noqa: PLR0124 - NaN alone does so


def read_unshown(passed, readings, asked):
    """Yield who reads a secret, a text that was not shown, or an answer that nobody asked for."""
    for way, messages in readings.items():
        open_ = list(asked)
        for message in messages:
            yield from [f"{way} {problem}" for problem in unshown(passed, message)]
            if "method" in message or not {"result", "error"} & message.keys():
                continue
            request_id = message.get("id")
            # Nobody can tell what an error without an id is about.
            if request_id is None and "result" not in message:
                continue
            if not any(is_same(request_id, one) for one in open_):
                yield f"{way} reads an answer to {request_id!r}: not asked, or answered before"
            else:
                open_.remove(request_id)


def listed(readings):
    """Yield who is told, by the answer to `tools/list`, of a tool that was hidden."""
    for way, messages in readings.items():
        for message in messages:
            result = message.get("result")
            tools = result.get("tools") if isinstance(result, dict) else None
            items = tools if isinstance(tools, list) else []
            names = [one.get("name") for one in items if isinstance(one, dict)]
            if HIDDEN in [*names, *message.get("listed", ())]:
                yield f"{way} reads that there is a tool {HIDDEN!r}"


def lost(data, passed, asked):
    """Yield what is wrong if *data* is a sound result for *asked*, and the client has none."""
    # Numbers that no double holds and what is nested deeply the proxy may refuse.
    if LONG.search(data) or data.count(b"{") + data.count(b"[") > 100:
        return
    try:
        frame = json.loads(data.decode(), object_pairs_hook=once, parse_constant=int)
    except ValueError:
        return
    sound = isinstance(frame, dict) and frame.keys() == {"jsonrpc", "id", "result"}
    if not sound or b"\n" in data.strip():
        return
    if frame["id"] in asked and type(frame["id"]) in {int, str}:
        answers = [one for line in passed.client.split(b"\n") for one in frames_of(line)]
        if not any("result" in one for one in answers):
            yield f"the result is lost: {passed.client[:200]!r}"


def unshown(passed, message):
    """Yield what a reader should not find in *message*."""
    for text in texts_of(message):
        if SECRET in text:
            yield f"reads {text[:200]!r}"
        elif PLAIN in text and text not in passed.texts:
            yield f"reads {text[:200]!r}, which was not shown"


def texts_of(value):
    """Yield all texts in *value*, names too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from texts_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts_of(one)


def unanswered(lines, passed):
    """Yield which requests in *lines*, what a client wrote, have not one answer each.

    A line that is no JSON is answered as well, with the id that it names.
    """
    answers = [one.get("id") for line in passed.client.split(b"\n") for one in frames_of(line)]
    requests = [one for one in map(asked_by, lines) if one is not None]
    for request_id in requests:
        said = sum(any(is_same(way, one) for way in ways(request_id)) for one in answers)
        if not requests.count(request_id) <= said <= len(lines):
            yield f"the request {request_id!r} has {said} answers"
    if len(lines) == 1 and (named := ids_in(lines[0])) is not None:
        for request_id in answers:
            if request_id is not None and not any(is_same(request_id, one) for one in named):
                yield f"there are answers to {request_id!r}, which nobody has asked"


def ids_in(line):
    """Return all ids that a frame names, None if it is no JSON to anybody, or no frame."""
    found = []

    def keep(pairs):
        # The outermost object comes last.
        found[:] = [value for name, value in pairs if name == "id"]
        return dict(pairs)

    try:
        frame = json.loads(
            line.decode("utf-8", "surrogatepass"), object_pairs_hook=keep, parse_int=integer
        )
    except (ValueError, RecursionError):
        return None
    return [way for one in found for way in ways(one)] if isinstance(frame, dict) else None


def ways(request_id):
    """Return the ways to write an id: half a character also as what stands for one."""
    if not isinstance(request_id, str):
        return [request_id]
    joined = request_id.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return [request_id, joined, HALF.sub("\ufffd", request_id), HALF.sub("\ufffd", joined)]


def asked_by(line):
    """Return the id of the request in *line*, None if there is none or readers may differ."""
    try:
        text = line.decode("utf-8", "surrogatepass")
        frame = json.loads(text, object_pairs_hook=once, parse_int=integer)
    except (ValueError, RecursionError):
        return None
    if not isinstance(frame, dict) or not isinstance(frame.get("method"), str):
        return None
    found = frame.get("id")
    # A float that is 0 may have been another number.
    usual = type(found) in {int, str} or (type(found) is float and isfinite(found) and found != 0)
    return found if usual and not {"result", "error"} & frame.keys() else None


def once(pairs):
    """Return *pairs* as a dict; raises `ValueError` for two of one name."""
    if len(pairs) != len({name.translate(ALIKE).lower() for name, _ in pairs}):
        raise ValueError("two members of one name")
    return dict(pairs)


def integer(text):
    """Return the number *text*; Python itself reads no integer of very many digits."""
    return int(text) if len(text) < 1_000 else float(text)
