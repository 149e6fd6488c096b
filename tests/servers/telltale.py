"""An MCP server that puts a secret wherever a server can say a word: `telltale.py LOG`."""

import base64
import json
import sys
from pathlib import Path

S = "sk-canary-4242"
LOG = Path(sys.argv[1])
CODED = base64.b64encode(f"is {S} it".encode()).decode()
ICONS = [{"src": f"https://a.example/{S}.png", "mimeType": S, "sizes": [S]}]
META = {"a/b": S, S: {"deep": [S]}}
SAID = {"title": S, "description": f"Does {S}", "icons": ICONS, "_meta": META}
SCHEMA = {
    "type": "object",
    "title": S,
    "required": ["n"],
    "properties": {
        "n": {
            "type": "string",
            "enum": [S, "a"],
            "default": S,
            "pattern": f"{S}|a",
            "x-hint": {S: S},
        },
        "description": {"type": "object", "properties": {"deep": {"description": S}}},
    },
    "$defs": {"d": {"anyOf": [{"const": S}, {"items": {"examples": [S]}}]}},
    "additionalProperties": {"description": S},
}
TOOL = {
    "name": "tell",
    "inputSchema": SCHEMA,
    "outputSchema": {"type": "object", "description": S},
    "annotations": {"title": S, "readOnlyHint": True, S: S},
    "new": [S],
    **SAID,
}
HELLO = {
    "instructions": f"use {S}",
    "capabilities": {"tools": {}, "experimental": {S: {"a": S}}, "extensions": {"x/y": {"b": S}}},
    "_meta": META,
    "new": S,
}
ABOUT = {"name": f"n-{S}", "version": f"1-{S}", "websiteUrl": f"https://{S}.example", **SAID}
TEXT = {"type": "text", "text": f"it is {S}", "annotations": {"audience": [S]}, "_meta": META}
INNER = {"uri": f"file:///{S}", "mimeType": S, "_meta": META}
CONTENT = [
    TEXT,
    {"type": "image", "data": CODED, "mimeType": S, "_meta": META},
    {"type": "audio", "data": CODED, "mimeType": "audio/wav", "annotations": {S: S}},
    {"type": "resource", "resource": {**INNER, "text": S}, "annotations": {"x": S}},
    {"type": "resource", "resource": {**INNER, "blob": CODED}},
    {"type": "resource_link", "uri": f"u:{S}", "name": S, **SAID},
    {"type": "novel", "payload": {"deep": [S]}},
    {"type": S},
    S,
]
RESULTS = {
    "initialize": {"protocolVersion": "2025-11-25", "serverInfo": ABOUT, **HELLO},
    "server/discover": {"supportedVersions": ["2026-07-28"], "serverInfo": ABOUT, **HELLO},
    "tools/list": {"tools": [TOOL], "_meta": META, "new": S},
    "resources/list": {"resources": [{"uri": f"a:{S}", "name": S, **SAID}], "_meta": META},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": S, "name": S, **SAID}]},
    "prompts/list": {"prompts": [{"name": S, "arguments": [{"name": S, **SAID}], **SAID}]},
    "resources/read": {"contents": [{**INNER, "text": S}, {**INNER, "blob": CODED}], "new": S},
    "prompts/get": {
        "description": S,
        "messages": [{"role": "user", "content": one} for one in CONTENT],
        "_meta": META,
    },
    "completion/complete": {"completion": {"values": [S, "a"], "hasMore": False}, "_meta": META},
    "ping": {"_meta": META},
    "x/new": {"any": [{"thing": S, S: 1}]},
}
CALLS = {
    "tell": {"content": CONTENT, "structuredContent": {"list": [S, 1], S: {"n": S}},
             "_meta": META, "new": S},
    "fail": {"content": [TEXT], "isError": True},
    "shape": {"content": [], "structuredContent": [S]},
    "asks": {"resultType": "input_required", "content": [], "requestState": "s",
             "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": S}}}},
}  # fmt: skip
ERROR = {"code": -7, "message": f"no {S}", "data": {"why": [S], S: 1}}
UNASKED = [
    ("notifications/progress", {"progressToken": 1, "progress": 0.5, "message": S, "_meta": META}),
    ("notifications/message", {"level": "info", "logger": S, "data": f"said {S}", "_meta": META}),
    ("notifications/message", {"level": S, "data": {"k": [S], S: 1}}),
    ("notifications/cancelled", {"requestId": 999, "reason": S}),
    ("notifications/resources/updated", {"uri": f"a:{S}", "title": S}),
    ("notifications/new", {"any": [{"thing": S}]}),
]
ASKED = [
    ("sampling/createMessage", {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 5,
                                "systemPrompt": S, "metadata": META}),
    ("elicitation/create", {"message": S, "requestedSchema": SCHEMA}),
    ("roots/list", {"_meta": META}),
]  # fmt: skip


def send(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)


def call(own, name):
    for method, params in UNASKED:
        send(method=method, params=params)
    for number, (method, params) in enumerate(ASKED):
        send(id=f"q-{number}", method=method, params=params)
    if name == "error":
        send(id=own, error=ERROR)
    elif name.startswith("double-"):
        double(own, name)
    else:
        send(id=own, result=CALLS.get(name, {"content": []}))


DOUBLES = {
    "double-result": """"result":{"content":[{"type":"text","text":"%s"}]},
        "result":{"content":[]}""",
    "double-block": """"result":{"content":[{"type":"text","text":"%s","text":"fine"}]}""",
    "double-escaped": """"result":{"content":[{"type":"text","\\u0074ext":"%s","text":"fine"}]}""",
    "double-deep": """"result":{"content":[],"structuredContent":{"a":[{"b":"%s","b":1}]}}""",
    "double-error": """"error":{"code":1,"message":"%s","message":"no"}""",
    "double-spaced": """"result": {"content": [{"text":"%s", "type":"text", "text":"fine"}]}""",
}


def double(own, name):
    """Answer with a member that is there twice."""
    said = DOUBLES[name].replace("\n", "").replace("%s", S)
    print(f'{{"jsonrpc":"2.0","id":{json.dumps(own)},{said}}}', flush=True)


def main():
    for line in sys.stdin:
        with LOG.open("a") as log:
            log.write(line)
        try:
            asked = json.loads(line)
        except ValueError:
            continue
        own, method = asked.get("id"), asked.get("method")
        if method == "tools/call":
            call(own, asked["params"]["name"])
        elif method is not None and own is not None:
            known = {"result": RESULTS[method]} if method in RESULTS else {"error": ERROR}
            send(id=own, **known)


main()
