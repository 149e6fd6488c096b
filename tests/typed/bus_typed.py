"""Lines about handlers that mypy and pyright check; nothing runs them."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, assert_type

from toolbus.bus import EventBus, EventContext
from toolbus.bus.subscriptions import Subscription
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOL_CALL_PERSIST_AFTER,
    TOOLS_PROVIDE,
    Ask,
    Deny,
    ObserveEvent,
    Retry,
    Scope,
    ToolCallFailure,
    ToolCallOutcome,
    ToolSpec,
    TransformEvent,
)
from toolbus.messages import Message, ToolCall, ToolMessage, ToolResponse, UserMessage

WORD = TransformEvent("word", str)
ASKED = TransformEvent("asked", str, answer=float, asks=True)
NOTE = ObserveEvent("note", str)
STATUSES: list[str] = []
bus = EventBus()


def redact(ctx: EventContext[Message]) -> ToolMessage | None:
    if isinstance(ctx.value, ToolMessage):
        return ctx.value.with_tool_response(ToolResponse.from_text(""))
    return None


async def translate(ctx: EventContext[Message]) -> Message | Deny | None:
    return ctx.value


def judge(ctx: EventContext[ToolCall]) -> Deny | None:
    return Deny("no") if ctx.value.name == "rm" else None


async def judge_later(ctx: EventContext[ToolCall]) -> Deny | Ask | None:
    return Ask("really?")


def look(ctx: EventContext[ToolCallOutcome]) -> None:
    assert_type(ctx.value, ToolCallOutcome)


async def look_later(ctx: EventContext[ToolCallOutcome]) -> None:
    assert_type(ctx.value.response, ToolResponse)


def look_at_anything(ctx: EventContext[object]) -> None:
    assert_type(ctx.scope, Scope)


def look_at_whatever(ctx: EventContext[Any]) -> None:
    assert_type(ctx.tool, ToolSpec | None)


def assign(ctx: EventContext[Message]) -> None:
    ctx.output = ctx.value
    ctx.value = ctx.value  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def only_users(ctx: EventContext[UserMessage]) -> None:
    del ctx


def to_text(ctx: EventContext[Message]) -> str:
    return ctx.value.text


async def to_text_later(ctx: EventContext[Message]) -> str:
    return ctx.value.text


class Owner:
    def method(self, ctx: EventContext[Message]) -> Message | None:
        return ctx.value

    async def later(self, ctx: EventContext[Message]) -> None:
        del ctx

    def __call__(self, ctx: EventContext[Message]) -> Deny:
        return Deny("no")


def calls() -> None:
    assert_type(bus.on(MESSAGE_APPEND_BEFORE, redact), Subscription)
    bus.on(MESSAGE_APPEND_BEFORE, translate, priority=50, timeout=2.5)
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: ctx.value)
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: None, when=lambda ctx: bool(ctx.value))
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no"))
    bus.on(MESSAGE_APPEND_BEFORE, Owner().method)
    bus.on(MESSAGE_APPEND_BEFORE, Owner().later, sender="main")
    bus.on(MESSAGE_APPEND_BEFORE, Owner())
    bus.on(MESSAGE_APPEND_BEFORE, assign)
    bus.on(MESSAGE_APPEND_BEFORE, look_at_anything)
    bus.on(TOOL_CALL_BEFORE, look_at_whatever)
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ToolResponse.from_text(ctx.value.name))
    bus.on(TOOL_CALL_ERROR, lambda ctx: Retry(1.0) if ctx.value.attempts < 2 else None)
    bus.on(TOOLS_PROVIDE, lambda ctx: ctx.value[1:])
    bus.on(TOOL_CALL_AFTER, look)
    bus.on(TOOL_CALL_AFTER, look_later)
    bus.on(TOOL_CALL_AFTER, look_at_anything)
    bus.on(TOOL_CALL_AFTER, lambda ctx: STATUSES.append(ctx.value.status))
    bus.on(TOOL_CALL_PERSIST_AFTER, lambda ctx: None)
    assert_type(bus.guard(TOOL_CALL_BEFORE, judge), Subscription)
    bus.guard(TOOL_CALL_BEFORE, judge_later)
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: None if ctx.value.name else Deny("no"))
    bus.on(WORD, lambda ctx: ctx.value.upper())
    bus.on(ASKED, lambda ctx: 1.5)
    bus.on(NOTE, lambda ctx: None)


@bus.on(MESSAGE_APPEND_BEFORE, priority=50)
def decorated(ctx: EventContext[Message]) -> ToolMessage | None:
    return redact(ctx)


@bus.on(MESSAGE_APPEND_BEFORE)
async def decorated_later(ctx: EventContext[Message]) -> Message | None:
    return ctx.value


@bus.guard(TOOL_CALL_BEFORE)
def decorated_guard(ctx: EventContext[ToolCall]) -> Deny | None:
    return judge(ctx)


@bus.guard(TOOL_CALL_BEFORE, timeout=1.0)
async def decorated_guard_later(ctx: EventContext[ToolCall]) -> Ask:
    return Ask(ctx.value.name)


@bus.on(MESSAGE_PERSIST_BEFORE)
@bus.on(MESSAGE_APPEND_BEFORE)
def stacked(ctx: EventContext[object]) -> None:
    del ctx


@bus.on(NOTE)
async def observes_later(ctx: EventContext[str]) -> None:
    del ctx


def what_decorators_give(
    message: EventContext[Message], call: EventContext[ToolCall], note: EventContext[str]
) -> None:
    assert_type(decorated(message), Message | Deny | None)
    assert_type(decorated_guard(call), Deny | Ask | None)
    assert_type(stacked(message), Message | Deny | None)
    later: Callable[[EventContext[Message]], Awaitable[Message | Deny | None]] = decorated_later
    observed: Coroutine[Any, Any, None] = observes_later(note)
    bus.on(MESSAGE_PERSIST_BEFORE, decorated)
    bus.guard(TOOL_CALL_BEFORE, decorated_guard_later)
    bus.on(NOTE, observes_later)
    del later, observed


async def dispatches(call: ToolCall, message: UserMessage, outcome: ToolCallOutcome) -> None:
    assert_type(await bus.apply(TOOL_CALL_BEFORE, call), EventContext[ToolCall])
    assert_type((await bus.apply(MESSAGE_APPEND_BEFORE, message)).value, Message)
    assert_type(bus.apply_sync(WORD, "x").value, str)
    bus.do(TOOL_CALL_AFTER, outcome, scope=Scope(agent_id="main"))
    bus.do(TOOL_CALL_AFTER, call)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    bus.do(WORD, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await bus.apply(WORD, 7)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await bus.apply(NOTE, "x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def wider(ctx: EventContext[UserMessage]) -> EventContext[Message]:
    return ctx


def narrower(ctx: EventContext[Message]) -> EventContext[UserMessage]:
    return ctx  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def failure(ctx: EventContext[ToolCallFailure]) -> Retry | ToolResponse | None:
    return Retry(0.5) if ctx.value.attempts < 2 else ctx.value.response


def refused() -> None:
    bus.on(TOOL_CALL_ERROR, failure)
    bus.on(MESSAGE_APPEND_BEFORE, only_users)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.on(MESSAGE_APPEND_BEFORE, to_text)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.on(MESSAGE_APPEND_BEFORE, to_text_later)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.on(MESSAGE_APPEND_BEFORE, lambda ctx: Ask("?"))  # type: ignore[arg-type, return-value]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownLambdaType]
    bus.on(WORD, lambda ctx: 7)  # type: ignore[arg-type, return-value]  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownLambdaType]
    bus.on(TOOL_CALL_AFTER, judge)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.on(WORD, lambda ctx: None, prio=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportUnknownLambdaType]
    bus.guard(MESSAGE_APPEND_BEFORE, redact)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.guard(NOTE, lambda ctx: None)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.on(MESSAGE_APPEND_BEFORE)(only_users)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.on(MESSAGE_APPEND_BEFORE)(to_text)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.on(MESSAGE_APPEND_BEFORE)(to_text_later)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
    bus.guard(MESSAGE_APPEND_BEFORE)(redact)  # type: ignore[arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]


def selected(names: set[str]) -> None:
    assert_type(bus.on(TOOL_CALL_AFTER, look, tools="git_*"), Subscription)
    bus.guard(TOOL_CALL_BEFORE, judge, tools=["git_*", "shell"], when=lambda ctx: True)
    bus.guard(TOOL_CALL_BEFORE, judge, tools=names)
    bus.on(MESSAGE_APPEND_BEFORE, redact, roles="tool")
    bus.on(MESSAGE_APPEND_BEFORE, redact, roles=("user", "assistant"), tools=None)
    bus.on(MESSAGE_APPEND_BEFORE, redact, roles="bot")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    bus.on(TOOL_CALL_AFTER, look, tools=7)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
