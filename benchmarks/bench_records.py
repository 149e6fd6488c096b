"""A tool message as a record: made, changed, hashed, written, read and held."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.harness import OURS, Contender, Rig, table
from benchmarks.peers import contenders
from toolbus.messages import TextPart, ToolMessage, ToolResponse, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BARE = "msgspec"
TEXT = "42 files, 3 of them changed since the last release"
OPERATIONS = ("create", "replace", "hash", "encode", "decode")
_HELD = 2_000


@table("ns", baseline=BARE)
def bench_records(rig: Rig) -> None:
    """A frozen and checked record costs little more than a bare struct."""
    for operation in OPERATIONS:
        builds = [
            (BARE, lambda operation=operation: bare(operation)),
            (OURS, lambda operation=operation: ours(operation)),
            *contenders("records", operation),
        ]
        if operation == "replace":
            builds.insert(2, (OURS, lambda: ours_replaced("replace")))
        rig.race(operation, builds)


@table("bytes", baseline=None)
def bench_records_memory(rig: Rig) -> None:
    """A record held in memory takes little more than a bare struct."""
    builds = [
        (BARE, lambda: bare("create")),
        (OURS, lambda: ours("create")),
        *contenders("records", "create"),
    ]
    for name, build in builds:
        try:
            made = build()
        except Exception as error:  # noqa: BLE001 - a peer that is not there is listed
            rig.absent[name] = f"{type(error).__name__}: {error}"
            continue
        rig.lacks[made.name] = made.lacks
        rig.put("one record", made.name, None if rig.once else _held(made))


def bare(operation: str) -> Contender:
    """Build an operation on structs that check and freeze nothing."""
    text = msgspec.defstruct(
        "Text", [("text", str)], frozen=True, kw_only=True, tag_field="type", tag="text"
    )
    response = msgspec.defstruct(
        "Response",
        [
            ("content", tuple[text, ...]),
            ("structured", Any, None),
            ("is_error", bool, False),
            ("error_type", str | None, None),
            ("tool_name", str | None, None),
            ("tool_call_id", str | None, None),
            ("parameters", dict | None, None),
            ("duration_ns", int | None, None),
            ("metadata", dict | None, None),
        ],
        frozen=True,
        kw_only=True,
    )
    message = msgspec.defstruct(
        "Message",
        [
            ("id", str),
            ("tool_call_id", str),
            ("tool_name", str),
            ("tool_response", response),
            ("content", str, ""),
            ("metadata", dict | None, None),
        ],
        frozen=True,
        kw_only=True,
        tag_field="role",
        tag="tool",
    )

    def create(number: int) -> Any:
        said = response(content=(text(text=f"{TEXT} {number}"),))
        return message(
            id=f"m-{number}", tool_call_id=f"c-{number}", tool_name="read", tool_response=said
        )

    decoder = msgspec.json.Decoder(message)
    names = {
        "create": create,
        "one": create(1),
        "other": create(2).tool_response,
        "replace": msgspec.structs.replace,
        "encode": msgspec.json.Encoder().encode,
        "decode": decoder.decode,
        "data": msgspec.json.encode(create(1)),
    }
    statements = {"replace": "replace(one, tool_response=other)"}
    return record(BARE, operation, names, "checks and freezes nothing", statements)


def ours(operation: str) -> Contender:
    """Build an operation on our tool message, with the verb that it has for it."""
    return _ours(OURS, operation, "one.with_tool_response(other)")


def ours_replaced(operation: str) -> Contender:
    """Build the same, replaced by what works for every struct."""
    return _ours(f"{OURS}, structs.replace", operation, "replace(one, tool_response=other)")


def _ours(name: str, operation: str, replacing: str) -> Contender:

    def create(number: int) -> ToolMessage:
        said = ToolResponse(content=(TextPart(text=f"{TEXT} {number}"),))
        return ToolMessage(
            id=f"m-{number}", tool_call_id=f"c-{number}", tool_name="read", tool_response=said
        )

    names = {
        "create": create,
        "one": create(1),
        "other": create(2).tool_response,
        "replace": msgspec.structs.replace,
        "encode": encode,
        "decode": decode,
        "data": encode(create(1)),
    }
    return record(name, operation, names, "", {"replace": replacing})


def record(
    name: str,
    operation: str,
    names: dict[str, Any],
    lacks: str,
    statements: dict[str, str],
) -> Contender:
    """Build *operation*; *names* has what the statements speak of."""
    usual = {
        "create": "create(1)",
        "hash": "hash(one)",
        "encode": "encode(one)",
        "decode": "decode(data)",
    }
    return Contender(name, {**usual, **statements}[operation], names, lacks)


def _held(made: Contender) -> float:
    """Return the bytes that a record takes, its texts included."""
    create: Callable[[int], object] = made.names["create"]

    def numbers() -> Iterator[int]:
        yield from range(1_000, 1_000 + _HELD)

    create(0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [create(number) for number in numbers()]
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / len(kept) - 8
