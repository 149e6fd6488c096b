"""What providers answer, in the shapes of their published references, whole and as events.

An answer is a list of items: `("reasoning", text, seal)`, `("text", text)`,
`("call", id, name, arguments)`, `("refusal", text)`; the arguments are the model's own text.

https://platform.openai.com/docs/api-reference/chat, .../responses and
https://docs.anthropic.com/en/api/messages, .../docs/build-with-claude/streaming and
https://ai.google.dev/api/generate-content
"""

import json

USAGE = {"input": 25, "cached": 5, "output": 7, "thought": 2}


def cut(text, size=4):
    """Return *text* in pieces, as a model writes it; the empty text in none."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def of_kind(items, kind):
    return [item[1:] for item in items if item[0] == kind]


# --- chat completions ----------------------------------------------------------------------------


def chat_stop(items):
    return "tool_calls" if of_kind(items, "call") else "stop"


def chat_usage():
    return {
        "prompt_tokens": USAGE["input"],
        "completion_tokens": USAGE["output"],
        "total_tokens": USAGE["input"] + USAGE["output"],
        "prompt_tokens_details": {"cached_tokens": USAGE["cached"], "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": USAGE["thought"]},
    }


def chat_completion(items, model="m", message_id="chatcmpl-1"):
    message = {"role": "assistant", "content": None, "refusal": None}
    for (text,) in of_kind(items, "text"):
        message["content"] = (message["content"] or "") + text
    for (text,) in of_kind(items, "refusal"):
        message["refusal"] = text
    # Not OpenAI's, but that of servers that show what was thought.
    for text, _ in of_kind(items, "reasoning"):
        message["reasoning_content"] = text
    if calls := of_kind(items, "call"):
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": chat_stop(items),
    }
    return {
        "id": message_id,
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [choice],
        "usage": chat_usage(),
    }


def chat_chunks(items, model="m", message_id="chatcmpl-1"):
    def chunk(delta, finish_reason=None):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**common, "choices": [choice], "usage": None}

    common = {"id": message_id, "object": "chat.completion.chunk", "created": 1, "model": model}
    chunks = [chunk({"role": "assistant", "content": "", "refusal": None})]
    fields = {"text": "content", "refusal": "refusal", "reasoning": "reasoning_content"}
    index = 0
    for kind, *values in items:
        if kind in fields:
            chunks += [chunk({fields[kind]: piece}) for piece in cut(values[0])]
            continue
        call_id, name, arguments = values
        start = {"name": name, "arguments": ""}
        call = {"index": index, "id": call_id, "type": "function", "function": start}
        chunks.append(chunk({"tool_calls": [call]}))
        chunks += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in cut(arguments)
        ]
        index += 1
    chunks.append(chunk({}, chat_stop(items)))
    return [*chunks, {**common, "choices": [], "usage": chat_usage()}]


# --- responses -----------------------------------------------------------------------------------


def response_item(index, item):
    """Return an output item as it is when it is done."""
    match item:
        case ("reasoning", text, seal):
            summary = [{"type": "summary_text", "text": text}] if text else []
            thought = {"id": f"rs_{index}", "type": "reasoning", "summary": summary}
            return thought | ({"encrypted_content": seal} if seal else {})
        case ("text", text):
            content = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        case ("refusal", text):
            content = {"type": "refusal", "refusal": text}
        case ("call", call_id, name, arguments):
            return {
                "id": f"fc_{index}",
                "type": "function_call",
                "call_id": call_id,
                "name": name,
                "arguments": arguments,
                "status": "completed",
            }
    common = {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": "completed"}
    return {**common, "content": [content]}


def response(items, model="m", message_id="resp_1", status="completed"):
    return {
        "id": message_id,
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [response_item(index, item) for index, item in enumerate(items)],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": USAGE["input"],
            "input_tokens_details": {"cached_tokens": USAGE["cached"], "cache_write_tokens": 0},
            "output_tokens": USAGE["output"],
            "output_tokens_details": {"reasoning_tokens": USAGE["thought"]},
            "total_tokens": USAGE["input"] + USAGE["output"],
        },
    }


def response_events(items, model="m", message_id="resp_1"):
    events = []

    def tell(kind, **facts):
        events.append({"type": kind, "sequence_number": len(events), **facts})

    empty = {**response([], model, message_id, "in_progress"), "usage": None}
    tell("response.created", response=empty)
    tell("response.in_progress", response=empty)
    for index, item in enumerate(items):
        done = response_item(index, item)
        place = {"item_id": done["id"], "output_index": index}
        bare = {**done, "status": "in_progress"}
        bare |= {name: [] for name in ("content", "summary") if name in bare}
        bare |= {"arguments": ""} if "arguments" in bare else {}
        tell("response.output_item.added", output_index=index, item=bare)
        match item:
            case ("reasoning", text, _) if text:
                place["summary_index"] = 0
                part = {"type": "summary_text", "text": ""}
                tell("response.reasoning_summary_part.added", **place, part=part)
                for piece in cut(text):
                    tell("response.reasoning_summary_text.delta", **place, delta=piece)
                tell("response.reasoning_summary_text.done", **place, text=text)
                part = {"type": "summary_text", "text": text}
                tell("response.reasoning_summary_part.done", **place, part=part)
            case ("text" | "refusal" as kind, text):
                name = {"text": "output_text", "refusal": "refusal"}[kind]
                logprobs = {"logprobs": []} if kind == "text" else {}
                place["content_index"] = 0
                part = {**done["content"][0], kind: ""}
                tell("response.content_part.added", **place, part=part)
                for piece in cut(text):
                    tell(f"response.{name}.delta", **place, delta=piece, **logprobs)
                tell(f"response.{name}.done", **place, **{kind: text}, **logprobs)
                tell("response.content_part.done", **place, part=done["content"][0])
            case ("call", _, _, arguments):
                kind = "response.function_call_arguments"
                for piece in cut(arguments):
                    tell(f"{kind}.delta", **place, delta=piece)
                tell(f"{kind}.done", **place, arguments=arguments)
        tell("response.output_item.done", output_index=index, item=done)
    tell("response.completed", response=response(items, model, message_id))
    return events


# --- Anthropic's messages ------------------------------------------------------------------------


def anthropic_block(item):
    match item:
        case ("reasoning", "", seal):
            return {"type": "redacted_thinking", "data": seal}
        case ("reasoning", text, seal):
            return {"type": "thinking", "thinking": text, "signature": seal}
        case ("text" | "refusal", text):
            return {"type": "text", "text": text}
        case ("call", call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}


def anthropic_stop(items):
    if of_kind(items, "refusal"):
        return "refusal"
    return "tool_use" if of_kind(items, "call") else "end_turn"


def anthropic_usage():
    return {
        # What concerns the cache is counted beside the input.
        "input_tokens": USAGE["input"] - USAGE["cached"],
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": USAGE["cached"],
        "output_tokens": USAGE["output"],
        "output_tokens_details": {"thinking_tokens": USAGE["thought"]},
    }


def anthropic_message(items, model="m", message_id="msg_1"):
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [anthropic_block(item) for item in items],
        "stop_reason": anthropic_stop(items),
        "stop_sequence": None,
        "usage": anthropic_usage(),
    }


def anthropic_events(items, model="m", message_id="msg_1"):
    usage = {**anthropic_usage(), "output_tokens": 1}
    del usage["output_tokens_details"]
    empty = {**anthropic_message([], model, message_id), "stop_reason": None, "usage": usage}
    events = [{"type": "message_start", "message": empty}, {"type": "ping"}]
    for index, item in enumerate(items):
        block, deltas = anthropic_block(item), []
        match block:
            case {"type": "thinking", "thinking": text, "signature": seal}:
                block = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in cut(text)]
                deltas.append({"type": "signature_delta", "signature": seal})
            case {"type": "text", "text": text}:
                block = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": piece} for piece in cut(text)]
            case {"type": "tool_use"}:
                block = {**block, "input": {}}
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece}
                    for piece in ["", *cut(item[3])]
                ]
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": anthropic_stop(items), "stop_sequence": None}
    usage = {name: anthropic_usage()[name] for name in ("output_tokens", "output_tokens_details")}
    events.append({"type": "message_delta", "delta": delta, "usage": usage})
    return [*events, {"type": "message_stop"}]


# --- Gemini's contents ---------------------------------------------------------------------------


def gemini_part(item):
    match item:
        case ("reasoning", text, seal):
            return {"text": text, "thought": True, "thoughtSignature": seal}
        case ("text" | "refusal", text):
            return {"text": text}
        case ("call", call_id, name, arguments):
            return {"functionCall": {"id": call_id, "name": name, "args": json.loads(arguments)}}


def gemini_content(items, model="m", message_id="gemini_1"):
    parts = [gemini_part(item) for item in items]
    candidate = {
        "content": {"role": "model", "parts": parts},
        "finishReason": "STOP",
        "index": 0,
    }
    usage = {
        "promptTokenCount": USAGE["input"],
        "cachedContentTokenCount": USAGE["cached"],
        "candidatesTokenCount": USAGE["output"] - USAGE["thought"],
        "thoughtsTokenCount": USAGE["thought"],
        "totalTokenCount": USAGE["input"] + USAGE["output"],
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": model,
        "responseId": message_id,
    }


def gemini_chunks(items, model="m", message_id="gemini_1"):
    """Return a chunk for each piece of text, and one for each call: those come whole."""
    pieces = [
        (item[0], piece) if item[0] == "text" else item
        for item in items
        for piece in (cut(item[1]) if item[0] == "text" else [""])
    ]
    chunks = [gemini_content([piece], model, message_id) for piece in pieces]
    for chunk in chunks[:-1]:
        del chunk["candidates"][0]["finishReason"]
    return chunks
