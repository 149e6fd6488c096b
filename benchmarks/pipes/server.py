"""Answer each request of standard input with its arguments: the fastest server that can be."""

from __future__ import annotations

import json
import sys


def _result(asked: dict) -> dict:
    if asked["method"] == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    said = json.dumps(asked["params"]["arguments"])
    return {"content": [{"type": "text", "text": said}], "isError": False}


for line in sys.stdin.buffer:
    asked = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": _result(asked)}
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()
