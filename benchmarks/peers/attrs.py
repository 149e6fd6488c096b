"""Records by attrs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.bench_records import TEXT, record

if TYPE_CHECKING:
    from benchmarks.harness import Contender


def records(operation: str) -> Contender:
    """Build an operation on a frozen attrs class with validators of types."""
    import attrs

    text, response, message = _classes(attrs)

    def create(number: int) -> Any:
        said = response(content=(text(text=f"{TEXT} {number}"),))
        return message(
            id=f"m-{number}", tool_call_id=f"c-{number}", tool_name="read", tool_response=said
        )

    def decode(data: bytes) -> Any:
        fields = json.loads(data)
        said = fields.pop("tool_response")
        content = tuple([text(**one) for one in said.pop("content")])
        return message(**fields, tool_response=response(content=content, **said))

    names = {
        "create": create,
        "one": create(1),
        "other": create(2).tool_response,
        "replace": attrs.evolve,
        "encode": lambda one: json.dumps(attrs.asdict(one)).encode(),
        "decode": decode,
        "data": json.dumps(attrs.asdict(create(1))).encode(),
    }
    statements = {"replace": "replace(one, tool_response=other)"}
    return record("attrs", operation, names, "no codec of its own (json here)", statements)


def _classes(attrs: Any) -> tuple[Any, Any, Any]:
    """Return frozen classes of text, response and message, whose fields are checked."""

    def checked(kind: type, **more: Any) -> Any:
        return attrs.field(validator=attrs.validators.instance_of(kind), **more)

    text = attrs.make_class(
        "Text",
        {"text": checked(str), "type": checked(str, default="text")},
        frozen=True,
        slots=True,
    )
    response = attrs.make_class(
        "Response",
        {"content": checked(tuple), "is_error": checked(bool, default=False)},
        frozen=True,
        slots=True,
    )
    message = attrs.make_class(
        "Message",
        {
            "id": checked(str),
            "tool_call_id": checked(str),
            "tool_name": checked(str),
            "tool_response": checked(response),
            "role": checked(str, default="tool"),
        },
        frozen=True,
        slots=True,
    )
    return text, response, message
