"""What a host asks a model in a request: which tools it offers, how far it is, what tools returned.

The fake model gives each of its calls an id of the form `call_TURN_INDEX`, so a request says by
itself which of the model's turns it has behind it. References: those of `wire_shapes`, and
https://ai.google.dev/api/generate-content
"""

import re
from dataclasses import dataclass

CALL = re.compile(r"call_(\d+)_(\d+)")


@dataclass(frozen=True)
class Conversation:
    """The *tools* that a request offers, how many *turns* the model had, and *results* by call.

    A call is (turn, index); *calls* has the arguments as the host repeats them. Of a result there
    are all texts in it, a line each.
    """

    tools: frozenset
    turns: int
    calls: dict
    results: dict


def _number(call_id):
    match = CALL.search(str(call_id))
    return (int(match[1]), int(match[2])) if match else (str(call_id), 0)


def _texts(value):
    """Return all strings in *value*, a JSON value, a line each, but for the types of blocks."""
    match value:
        case str():
            return value
        case list():
            return "\n".join(map(_texts, value))
        case dict():
            return "\n".join(_texts(item) for key, item in value.items() if key != "type")
    return ""


def _conversation(tools, calls, results, texts):
    turns = len({turn for turn, _ in calls}) + texts
    return Conversation(frozenset(tools), turns, calls, results)


def read_messages(body):
    """Read Anthropic's messages."""
    calls, results, texts = {}, {}, 0
    for message in body.get("messages", []):
        blocks = message["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        kinds = {block["type"] for block in blocks}
        texts += message["role"] == "assistant" and "tool_use" not in kinds
        for block in blocks:
            if block["type"] == "tool_use":
                calls[_number(block["id"])] = block["input"]
            elif block["type"] == "tool_result":
                results[_number(block["tool_use_id"])] = _texts(block.get("content", ""))
    return _conversation([tool["name"] for tool in body.get("tools", [])], calls, results, texts)


def read_chat(body):
    """Read chat completions."""
    calls, results, texts = {}, {}, 0
    for message in body.get("messages", []):
        texts += message["role"] == "assistant" and not message.get("tool_calls")
        for call in message.get("tool_calls") or []:
            calls[_number(call["id"])] = call["function"]["arguments"]
        if message["role"] == "tool":
            results[_number(message["tool_call_id"])] = _texts(message["content"])
    tools = [tool["function"]["name"] for tool in body.get("tools") or [] if "function" in tool]
    return _conversation(tools, calls, results, texts)


def read_responses(body):
    """Read responses; a tool in a namespace is called `NAMESPACE.TOOL`."""
    calls, results, texts = {}, {}, 0
    items = body.get("input", [])
    for item in items if isinstance(items, list) else []:
        kind = item.get("type", "message")
        texts += kind == "message" and item.get("role") == "assistant"
        if kind == "function_call":
            calls[_number(item["call_id"])] = item["arguments"]
        elif kind == "function_call_output":
            results[_number(item["call_id"])] = _texts(item["output"])
    tools = []
    for tool in body.get("tools") or []:
        inner = [f"{tool['name']}.{one['name']}" for one in tool.get("tools", [])]
        tools += inner or [tool.get("name", "")]
    return _conversation(tools, calls, results, texts)


def read_contents(body):
    """Read Gemini's contents."""
    calls, results, texts = {}, {}, 0
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            if call := part.get("functionCall"):
                calls[_number(call.get("id"))] = call.get("args")
            elif answer := part.get("functionResponse"):
                results[_number(answer.get("id"))] = _texts(answer.get("response"))
            texts += content.get("role") == "model" and "functionCall" not in part
    declared = [
        one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])
    ]
    return _conversation([one["name"] for one in declared], calls, results, texts)
