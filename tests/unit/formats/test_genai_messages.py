"""Messages in the JSON of the GenAI conventions."""

import json

from toolbus import (
    AssistantMessage,
    ImagePart,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)
from toolbus.formats.genai_messages import encode_messages


def test_each_role_has_its_parts():
    call = ToolCall(id="c", name="add", arguments={"a": 1})
    messages = [
        UserMessage(content=[TextPart(text="see"), ImagePart(data="AAAA", mime_type="image/png")]),
        AssistantMessage(content="", tool_calls=[call], stop_reason="tool_calls"),
        ToolMessage(
            tool_call_id="c", tool_name="add", tool_response=ToolResponse.from_text("it is 1")
        ),
    ]

    assert json.loads(encode_messages(messages)) == [
        {"role": "user", "parts": [{"type": "text", "content": "see"}, {"type": "image"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c", "name": "add", "arguments": {"a": 1}}],
            "finish_reason": "tool_calls",
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c", "response": "it is 1"}],
        },
    ]


def test_a_text_in_place_of_a_name_is_left_out():
    call = ToolCall(id="c", name="use sk-live-1 for it")

    assert "sk-live" not in encode_messages([AssistantMessage(tool_calls=[call])])
