"""Records by Pydantic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from benchmarks.bench_records import TEXT, record

if TYPE_CHECKING:
    from benchmarks.harness import Contender


def records(operation: str) -> Contender:
    """Build an operation on a frozen model."""
    from pydantic import BaseModel, ConfigDict, create_model

    class Frozen(BaseModel):
        model_config = ConfigDict(frozen=True)

    text = create_model("Text", __base__=Frozen, text=(str, ...), type=(Literal["text"], "text"))
    response = create_model(
        "Response", __base__=Frozen, content=(tuple[text, ...], ...), is_error=(bool, False)
    )
    message = create_model(
        "Message",
        __base__=Frozen,
        id=(str, ...),
        tool_call_id=(str, ...),
        tool_name=(str, ...),
        tool_response=(response, ...),
        role=(Literal["tool"], "tool"),
    )

    def create(number: int) -> Any:
        said = response(content=(text(text=f"{TEXT} {number}"),))
        return message(
            id=f"m-{number}", tool_call_id=f"c-{number}", tool_name="read", tool_response=said
        )

    names = {
        "create": create,
        "one": create(1),
        "other": create(2).tool_response,
        "encode": lambda one: one.model_dump_json().encode(),
        "decode": message.model_validate_json,
        "data": create(1).model_dump_json().encode(),
    }
    statements = {"replace": 'one.model_copy(update={"tool_response": other})'}
    lacks = "a copy is not checked; JSON objects inside stay mutable"
    return record("pydantic", operation, names, lacks, statements)
