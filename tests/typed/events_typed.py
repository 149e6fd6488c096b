"""Lines about events and handlers that mypy and pyright check; nothing runs them."""

from collections.abc import Callable
from typing import Any, TypeVar, assert_type

from msgspec import Struct

from toolbus.events import (
    CATALOGUE,
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_ERROR,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
    Ask,
    Deny,
    Event,
    ModelRequest,
    ObserveEvent,
    Retry,
    RunFailure,
    RunResult,
    Scope,
    ToolCallFailure,
    ToolCallOutcome,
    ToolSpec,
    TransformEvent,
    by_name,
)
from toolbus.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
)

V = TypeVar("V")
R = TypeVar("R")


class Order(Struct, frozen=True):
    """A value of a user's own event."""

    total: int


class Receipt(Struct, frozen=True):
    """An answer of a user's own event."""


# --- users' events are typed by what they are made of ---

ORDER_PLACED = TransformEvent("order:placed", Order)
ORDER_PAID = TransformEvent("order:paid", Order, answer=Receipt)
ORDER_SENT = ObserveEvent("order:sent", Order)
ORDER_LOST: TransformEvent[Order, Order | Receipt | Retry | Deny] = TransformEvent(
    "order:lost", Order, answer=Receipt | Retry
)

assert_type(ORDER_PLACED, TransformEvent[Order, Order | Deny])
assert_type(ORDER_PAID, TransformEvent[Order, Order | Receipt | Deny])
assert_type(ORDER_SENT, ObserveEvent[Order])
assert_type(TransformEvent("total", int), TransformEvent[int, int | Deny])
assert_type(
    TransformEvent("ask", Order, answer=str, asks=True), TransformEvent[Order, Order | str | Deny]
)


# --- the catalogue's events name what passes and what may be returned ---

assert_type(MESSAGE_APPEND_BEFORE, TransformEvent[Message, Message | Deny])
assert_type(TOOL_CALL_BEFORE, TransformEvent[ToolCall, ToolCall | ToolResponse | Deny])
assert_type(TOOLS_PROVIDE, TransformEvent[tuple[ToolSpec, ...], tuple[ToolSpec, ...] | Deny])
assert_type(MODEL_CALL_BEFORE, TransformEvent[ModelRequest, ModelRequest | AssistantMessage | Deny])
assert_type(RUN_ERROR, TransformEvent[RunFailure, RunFailure | RunResult | Deny])
assert_type(
    TOOL_CALL_ERROR,
    TransformEvent[ToolCallFailure, ToolCallFailure | ToolResponse | Retry | Deny],
)
assert_type(TOOL_CALL_AFTER, ObserveEvent[ToolCallOutcome])
assert_type(CATALOGUE, tuple[Event, ...])
assert_type(by_name("run:after"), TransformEvent[Any, Any] | ObserveEvent[Any])


# --- what takes a handler of an event accepts the right ones and no others ---


def transform(event: TransformEvent[V, R], handler: Callable[[V], R | None]) -> R:
    """Stand for all that takes a transform event and its handler."""
    raise NotImplementedError


def observe(event: ObserveEvent[V], handler: Callable[[V], object]) -> V:
    """Stand for all that takes an observe event and its handler."""
    raise NotImplementedError


def rewrite(call: ToolCall) -> ToolCall | None:
    return call.merge_arguments({"path": "a.txt"}) if call.name == "read" else None


def answer(call: ToolCall) -> ToolResponse:
    return ToolResponse.from_text(call.name)


def refuse(call: ToolCall) -> Deny | None:
    return Deny("no") if call.name == "delete" else None


def question(call: ToolCall) -> Ask:
    return Ask(f"run {call.name}?")


def word(call: ToolCall) -> str:
    return call.name


def again(failure: ToolCallFailure) -> Retry:
    return Retry(delay=float(failure.attempts))


def shorten(message: Message) -> Message | None:
    if isinstance(message, ToolMessage) and message.tool_response is not None:
        return message.with_tool_response(message.tool_response.with_text("short"))
    return None


def only_users(message: UserMessage) -> UserMessage:
    return message


def hide(specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    return tuple(spec for spec in specs if spec.name != "delete")


def listed(specs: tuple[ToolSpec, ...]) -> list[ToolSpec]:
    return list(specs)


def pay(order: Order) -> Receipt | None:
    return Receipt() if order.total else None


assert_type(transform(TOOL_CALL_BEFORE, rewrite), ToolCall | ToolResponse | Deny)
transform(TOOL_CALL_BEFORE, answer)
transform(TOOL_CALL_BEFORE, refuse)
transform(TOOL_CALL_ERROR, again)
transform(MESSAGE_APPEND_BEFORE, shorten)
transform(TOOLS_PROVIDE, hide)
transform(ORDER_PAID, pay)
transform(ORDER_LOST, pay)
observe(TOOL_CALL_AFTER, print)
observe(ORDER_SENT, pay)

transform(TOOL_CALL_BEFORE, word)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
transform(TOOL_CALL_BEFORE, question)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
transform(TOOL_CALL_BEFORE, again)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
transform(MESSAGE_APPEND_BEFORE, only_users)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
transform(MESSAGE_APPEND_BEFORE, answer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
transform(TOOLS_PROVIDE, listed)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
transform(ORDER_PLACED, pay)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
transform(TOOL_CALL_AFTER, print)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
observe(TOOL_CALL_AFTER, rewrite)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
observe(TOOL_CALL_BEFORE, rewrite)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- a name is no event, and a value is not to be changed ---


def values(failure: ToolCallFailure, request: ModelRequest, scope: Scope) -> None:
    assert_type(failure.error_text, str)
    assert_type(request.messages, tuple[Message, ...])
    request.model = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    request.settings["stop"] = "x"  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    scope.context["user"] = 7  # type: ignore[index]  # pyright: ignore[reportIndexIssue]
    transform("tool:call:before", rewrite)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    RunResult(status="fine")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
