"""An MCP server that does what its client asks it to do wrong: `faulty.py LOG`.

LOG gets a line for each process and each call: the arguments of a call name its number `n` and
its `fault`.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

LOG = Path(sys.argv[1]).open("ab", buffering=0)  # noqa: SIM115 - as long as the process


def note(*words):
    LOG.write(" ".join(map(str, words)).encode() + b"\n")


def out(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def frame(own, words="fine"):
    result = {"content": [{"type": "text", "text": words}]}
    return json.dumps({"jsonrpc": "2.0", "id": own, "result": result}).encode() + b"\n"


def call(own, n, fault, size=100):
    note("ran", n)
    good, said = frame(own), json.dumps(own).encode()
    if fault in DEEDS:
        DEEDS[fault](good, n)
        return
    answers = {
        "good": [good],
        "error": [b'{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"no"}}\n' % said],
        "twice": [good, good],
        "cut": [good[: 5 + n % (len(good) - 7)] + b"\n"],
        "bytes": [good.replace(b"fine", b"\xff\xfe")],
        "junk": [b"Listening...\n[[]\n\n{}\n[]\nnull\n", good],
        "strange": [*[frame(one, "strange") for one in STRANGE], good],
        "asks": [b'{"jsonrpc":"2.0","id":%s,"method":"ping"}\n' % said, good],
        "both": [good[:-2] + b',"method":"tools/list"}\n'],
        "stall": [],
        "big": [frame(own, "x" * size)] if fault == "big" else [],
    }
    for data in answers[fault]:
        out(data)


STRANGE = (None, "nobody", [1], {"a": 1}, 1e300, True, -0.5)


def pieces(good, _):
    for at in range(0, len(good), 7):
        out(good[at : at + 7])
        time.sleep(0.001)


def late(good, _):
    time.sleep(0.1)
    out(good)


def deaf(*_):
    os.close(0)
    time.sleep(60)


def mute(*_):
    os.close(1)
    time.sleep(60)


def die(good, n):
    out(good[: n % len(good)])
    os._exit(9)


DEEDS = {"pieces": pieces, "late": late, "deaf": deaf, "mute": mute, "die": die}


def main():
    note("pid", os.getpid())
    if "--child" in sys.argv:
        note("pid", subprocess.Popen(["sleep", "60"]).pid)
    for line in sys.stdin.buffer:
        try:
            asked = json.loads(line)
        except ValueError:
            continue
        for one in asked if isinstance(asked, list) else [asked]:
            take(one)


def take(asked):
    if not isinstance(asked, dict) or "id" not in asked or "method" not in asked:
        return
    match asked["method"]:
        case "tools/call":
            call(asked["id"], **asked["params"]["arguments"])
        case "tools/list":
            tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": tools}}
            out(json.dumps(answer).encode() + b"\n")
        case "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": {"name": "faulty", "version": "1"}}  # fmt: skip
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": said}
            out(json.dumps(answer).encode() + b"\n")


main()
