"""An MCP server of a folder's files: `files.py FOLDER`; it reads, writes, appends and replaces."""

import json
import sys
from pathlib import Path

TEXT = {"type": "string"}
TOOLS = {
    "read": ["path"],
    "write": ["path", "content"],
    "append": ["path", "content"],
    "replace": ["path", "old", "new"],
}


def described(name):
    properties = dict.fromkeys(TOOLS[name], TEXT)
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def call(name, arguments):
    path = Path(sys.argv[1], arguments["path"])
    before = path.read_bytes().decode() if path.exists() else ""
    match name:
        case "read":
            return before
        case "write":
            after = arguments["content"]
        case "append":
            after = before + arguments["content"]
        case _:
            if before.count(arguments["old"]) != 1:
                return "the old text does not stand there once"
            after = before.replace(arguments["old"], arguments["new"])
    path.write_bytes(after.encode())
    return "done"


def answer(method, params):
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "files", "version": "1"},
            }
        case "tools/list":
            return {"tools": [described(name) for name in TOOLS]}
        case "tools/call":
            text = call(params["name"], params.get("arguments") or {})
            return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        result = answer(asked["method"], asked.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
