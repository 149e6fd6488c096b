"""Each handler of a chain replaces a real tool message."""

from __future__ import annotations

from benchmarks.handlers import functions, reduce_loop, reduce_loop_async
from benchmarks.harness import LOOP, OURS, Contender, Rig, table
from benchmarks.peers import contenders
from toolbus import EventBus
from toolbus.events import MESSAGE_APPEND_BEFORE
from toolbus.messages import ToolMessage, ToolResponse

COUNTS = (1, 3, 10)
TEXT = "42 files, 3 of them changed since the last release"

_LOOP = "def handler(message): return message.with_tool_response(response)"
_OURS = "def handler(ctx): return ctx.value.with_tool_response(response)"


@table("ns")
def bench_transform(rig: Rig) -> None:
    """A chain of handlers, each replacing a tool message, costs little more than a loop."""
    for count in COUNTS:
        builds = [
            (LOOP, lambda count=count: loop(count)),
            (OURS, lambda count=count: ours(count)),
            *contenders("transform", count),
        ]
        rig.race(f"{count} handlers", builds)


@table("ns")
def bench_transform_sync(rig: Rig) -> None:
    """The same with sync handlers."""
    for count in COUNTS:
        builds = [
            (LOOP, lambda count=count: loop_sync(count)),
            (OURS, lambda count=count: ours_sync(count)),
            *contenders("transform_sync", count),
        ]
        rig.race(f"{count} handlers", builds)


def message() -> tuple[ToolMessage, ToolResponse]:
    """Return a tool message as the lifecycle makes it, and a response to replace its own."""
    response = ToolResponse.from_text(TEXT)
    called = ToolMessage(
        id="m-1", tool_call_id="c-1", tool_name="read", tool_response=ToolResponse.from_text("?")
    )
    return called, response


def loop(count: int) -> Contender:
    """Build the reducing loop."""
    value, response = message()
    handlers = functions(count, f"async {_LOOP}", response=response)
    names = {"loop": reduce_loop_async, "handlers": handlers, "value": value}
    return Contender(LOOP, "await loop(handlers, value)", names, "everything", count)


def loop_sync(count: int) -> Contender:
    """Build the reducing loop with sync handlers."""
    value, response = message()
    handlers = functions(count, _LOOP, response=response)
    names = {"loop": reduce_loop, "handlers": handlers, "value": value}
    return Contender(LOOP, "loop(handlers, value)", names, "everything", count)


def ours(count: int) -> Contender:
    """Build `bus.apply` on the event through which all tool messages go."""
    value, response = message()
    bus = EventBus()
    for handler in functions(count, f"async {_OURS}", response=response):
        bus.on(MESSAGE_APPEND_BEFORE, handler)
    names = {"apply": bus.apply, "EVENT": MESSAGE_APPEND_BEFORE, "value": value}
    return Contender(OURS, "await apply(EVENT, value)", names, "", count)


def ours_sync(count: int) -> Contender:
    """Build `bus.apply_sync` on that event."""
    value, response = message()
    bus = EventBus()
    for handler in functions(count, _OURS, response=response):
        bus.on(MESSAGE_APPEND_BEFORE, handler)
    names = {"apply": bus.apply_sync, "EVENT": MESSAGE_APPEND_BEFORE, "value": value}
    return Contender(OURS, "apply(EVENT, value)", names, "", count)
