"""Lines about records that mypy and pyright check; nothing runs them."""

from typing import assert_type

from toolbus.messages import (
    AssistantMessage,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)


def replacements(call: ToolCall, message: ToolMessage, response: ToolResponse) -> None:
    assert_type(call.merge_arguments({"path": "a.txt"}), ToolCall)
    assert_type(message.with_tool_response(response), ToolMessage)
    call.name = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    call.arguments["path"] = "b.txt"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


def fresh_ids() -> None:
    assert_type(UserMessage(content="x").id, str)
    assert_type(ToolCall(name="read", arguments={"path": "a.txt"}).id, str)
    AssistantMessage()
    SystemMessage(content="be brief")
    ToolMessage(tool_call_id="c", tool_name="read")
    UserMessage()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    UserMessage(id=7, content="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def texts(user: UserMessage, message: ToolMessage) -> None:
    assert_type(user.with_text("x"), UserMessage)
    assert_type(message.with_text("x"), ToolMessage)
    assert_type(TextPart("x").text, str)
    assert_type(ToolResponse("x", is_error=True), ToolResponse)
    ToolResponse(content=(TextPart("x"), TextPart("y")))
    ToolResponse("x", None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    TextPart(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
