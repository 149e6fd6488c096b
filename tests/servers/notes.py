"""An MCP server of two tools: `notes.py FOLDER`; each reads a file there, and `fail` fails."""

import json
import sys
from pathlib import Path

FILES = {"read_note": "note.txt", "fail": "failure.txt"}
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = [
    {"name": "read_note", "description": "Read the note", "inputSchema": SCHEMA},
    {"name": "fail", "description": "Fail to read the note", "inputSchema": SCHEMA},
]


def answer(method, params):
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            text = {
                "type": "text",
                "text": Path(sys.argv[1], FILES[params["name"]]).read_text("utf-8"),
            }
            return {"content": [text], "isError": params["name"] == "fail"}
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        result = answer(asked["method"], asked.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
