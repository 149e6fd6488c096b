"""Lines about `toolbus.testing` that mypy and pyright check; nothing runs them."""

from collections.abc import Mapping
from typing import Any, assert_type

from hypothesis.strategies import SearchStrategy, just

from toolbus import (
    AgentComponent,
    Deny,
    EventBus,
    EventContext,
    ToolAdapter,
    ToolCall,
    ToolResponse,
    ToolSpec,
    tool,
)
from toolbus.errors import LawBroken
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    ToolCallOutcome,
)
from toolbus.messages import Message
from toolbus.testing import strategies
from toolbus.testing.assertions import assert_allowed, assert_denied, assert_unchanged
from toolbus.testing.checks import check_adapter, check_guard, check_handler
from toolbus.testing.fakes import FakeClock, Recorder, counting_ids
from toolbus.testing.ledger_snapshot import LedgerSnapshot, ledger_text


class Shorten(ToolAdapter):
    """An adapter as users write it."""

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        return response.with_text(response.text[:100])


class Shortening(AgentComponent):
    """A component as users write it."""

    def __init__(self) -> None:
        self.register_tool_adapter(Shorten())


@tool
def read(path: str) -> str:
    """Read a file."""
    return path


def trim(response: ToolResponse) -> ToolResponse:
    return response.map_text(str.strip)


def no(ctx: EventContext[ToolCall]) -> Deny | None:
    return Deny("no") if ctx.value.name == "delete" else None


async def no_message(ctx: EventContext[Message]) -> Deny | None:
    return Deny("no") if ctx.value.text else None


def see(ctx: EventContext[ToolCallOutcome]) -> None: ...


# --- checks ---

check_adapter(Shorten())
check_adapter(Shortening(), tools=[read, read.spec, trim], idempotent=True, seed=3, limit=0.5)
check_adapter(trim, without=["repeatable", "ends"], examples=10)
check_adapter(trim, calls=strategies.tool_calls(read), responses=strategies.tool_responses())
check_adapter(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
check_adapter(Shorten(), without=["shines"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
check_adapter(Shorten(), calls=strategies.messages())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

check_guard(no)
check_guard(MESSAGE_APPEND_BEFORE, no_message, values=strategies.messages())
check_guard(Shortening())
check_guard(TOOL_CALL_AFTER, see)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

check_handler(TOOL_CALL_BEFORE, no, only="read_*", roles={"tool"}, idempotent=True)
check_handler(TOOL_CALL_AFTER, see, values=just(3))
check_handler("tool:call:after", see)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def broken(error: LawBroken) -> None:
    assert_type(error.law, str)
    assert_type(error.case, Mapping[str, object])


# --- strategies ---

assert_type(strategies.messages(), SearchStrategy[Message])
assert_type(strategies.messages(strategies.hostile_texts()), SearchStrategy[Message])
assert_type(strategies.tool_calls({"type": "object"}), SearchStrategy[ToolCall])
assert_type(strategies.tool_specs(), SearchStrategy[ToolSpec])
assert_type(strategies.tool_responses(), SearchStrategy[ToolResponse])
assert_type(strategies.values_of(TOOL_CALL_AFTER), SearchStrategy[Any])
assert_type(strategies.hostile_texts(max_size=100), SearchStrategy[str])


# --- assertions and fixtures ---


def test_it(bus: EventBus, ledger_snapshot: LedgerSnapshot, call: ToolCall) -> None:
    context = bus.apply_sync(TOOL_CALL_BEFORE, call)
    assert_type(assert_denied(context, "no"), str)
    assert_allowed(context)
    assert_unchanged(context)
    assert_unchanged(call, None)
    with Recorder(bus) as recorder:
        ledger_snapshot(recorder.records)
    assert_type(ledger_text(recorder.records, idle=True), str)
    assert_type(FakeClock().now_ns, int)
    assert_type(counting_ids("m")(), str)
