"""Lines about records that mypy and pyright check; nothing runs them."""

from typing import assert_type

from toolbus.messages import ToolCall, ToolMessage, ToolResponse


def replacements(call: ToolCall, message: ToolMessage, response: ToolResponse) -> None:
    assert_type(call.merge_arguments({"path": "a.txt"}), ToolCall)
    assert_type(message.with_tool_response(response), ToolMessage)
    call.name = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    call.arguments["path"] = "b.txt"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
