"""Records by the standard library."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.bench_records import TEXT, record

if TYPE_CHECKING:
    from benchmarks.harness import Contender


@dataclass(frozen=True, kw_only=True, slots=True)
class _Text:
    text: str
    type: str = "text"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Response:
    content: tuple[_Text, ...]
    is_error: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Message:
    id: str
    tool_call_id: str
    tool_name: str
    tool_response: _Response
    role: str = "tool"


def records(operation: str) -> Contender:
    """Build an operation on a frozen dataclass with slots."""
    names = {
        "create": _create,
        "one": _create(1),
        "other": _create(2).tool_response,
        "replace": replace,
        "encode": lambda one: json.dumps(asdict(one)).encode(),
        "decode": _decode,
        "data": json.dumps(asdict(_create(1))).encode(),
    }
    statements = {"replace": "replace(one, tool_response=other)"}
    return record("dataclasses", operation, names, "checks nothing, also when read", statements)


def _create(number: int) -> _Message:
    said = _Response(content=(_Text(text=f"{TEXT} {number}"),))
    return _Message(
        id=f"m-{number}", tool_call_id=f"c-{number}", tool_name="read", tool_response=said
    )


def _decode(data: bytes) -> _Message:
    fields = json.loads(data)
    said = fields.pop("tool_response")
    content = tuple([_Text(**one) for one in said.pop("content")])
    return _Message(**fields, tool_response=_Response(content=content, **said))
