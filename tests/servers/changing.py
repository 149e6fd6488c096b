"""An MCP server that says what FILE holds, whenever it is asked: `changing.py FILE`.

FILE is JSON: `instructions`, `tools`, `prompts`. Any call takes FILE.next in its place, if there is
one, and says that the tools changed.
"""

import json
import sys
from pathlib import Path

FILE = Path(sys.argv[1])
NEXT = FILE.with_name(FILE.name + ".next")


def send(**members):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\n")
    sys.stdout.flush()


def answer(method):
    told = json.loads(FILE.read_text())
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}, "prompts": {}},
                "serverInfo": {"name": "changing", "version": "1"},
                "instructions": told.get("instructions", ""),
            }
        case "tools/list":
            return {"tools": [{"inputSchema": {"type": "object"}} | tool for tool in told["tools"]]}
        case "prompts/list":
            return {"prompts": told.get("prompts", [])}
        case "prompts/get":
            return {"messages": []}
        case "tools/call":
            return {"content": [{"type": "text", "text": "it ran"}]}
    return None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "tools/call" and NEXT.exists():
        NEXT.replace(FILE)
        send(method="notifications/tools/list_changed")
    result = answer(asked["method"])
    if result is None:
        send(id=asked["id"], error={"code": -32601, "message": "no such method"})
    else:
        send(id=asked["id"], result=result)
