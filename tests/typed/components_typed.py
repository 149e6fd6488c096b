"""Lines about components and adapters that mypy and pyright check; nothing runs them."""

from typing import Any, Literal, assert_type

from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    Deny,
    EventBus,
    EventContext,
    Retry,
    Scope,
    ToolAdapter,
    ToolCall,
    ToolMessage,
    ToolResponse,
    ToolSpec,
    UserMessage,
    guard,
    on,
    tool,
)
from toolbus.components import AdapterContext, Host, State
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
    ToolCallFailure,
    ToolCallOutcome,
    TransformEvent,
)
from toolbus.messages import Message
from toolbus.store.memory import MemoryStore
from toolbus.tools import Toolset

# --- adapters as users write them ---


class Shorten(ToolAdapter):
    """Only what it needs, sync."""

    name = "shorten"
    tools = ("read_*", "fetch")
    priority = 10
    on_error = "open"

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse | None:
        return response.with_text(response.text[:100]) if call.name == "fetch" else None


class Whole(ToolAdapter):
    """All of it, async; it may say less than it could."""

    tools = "read_*"

    def __init__(self, name: str) -> None:
        self.name = name

    def should_adapt(self, tool_name: str) -> bool:
        return super().should_adapt(tool_name) and tool_name != "read_all"

    async def adapt_signature(self, spec: ToolSpec) -> ToolSpec:
        return spec

    async def adapt_parameters(self, call: ToolCall) -> ToolCall | None:
        return call.merge_arguments({"path": "a"})

    async def adapt_response(
        self, response: ToolResponse, call: ToolCall, ctx: AdapterContext
    ) -> None:
        assert_type(call.id, str)
        assert_type(ctx.scope, Scope)
        assert_type(ctx.tool, ToolSpec | None)
        assert_type(ctx.view, Literal["model", "store"])


class Bad(ToolAdapter):
    """All that is refused."""

    on_error = "raise"  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    def adapt_signature(self, spec: ToolSpec) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return spec.name

    def adapt_parameters(self, call: ToolCall) -> ToolResponse:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return ToolResponse.from_text(call.name)

    async def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolCall:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return call


# --- components as users write them ---

PRICED = TransformEvent("priced", int)


class Watch(AgentComponent):
    """Handlers and guards, sync and async, and a tool."""

    requires = (AgentComponent,)
    enabled = False

    def __init__(self, limit: int) -> None:
        super().__init__(enabled=True)
        self.limit = limit
        self.register_tool_adapter(Shorten())

    @on(TOOL_CALL_BEFORE, priority=50, when=lambda ctx: ctx.scope.turn > 0)
    def rewrite(self, ctx: EventContext[ToolCall]) -> ToolCall | None:
        return ctx.value.merge_arguments({"limit": self.limit})

    @on(TOOL_CALL_BEFORE)
    async def answer(self, ctx: EventContext[ToolCall]) -> ToolResponse | Deny | None:
        return ToolResponse.from_text("cached") if ctx.value.name == "read" else None

    @on(TOOL_CALL_ERROR)
    def again(self, ctx: EventContext[ToolCallFailure]) -> Retry:
        return Retry(delay=float(ctx.value.attempts))

    @on(MESSAGE_PERSIST_BEFORE)
    @on(MESSAGE_APPEND_BEFORE, on_error="closed")
    def shorten(self, ctx: EventContext[Message]) -> Message | None:
        ctx.output = None
        return ctx.value

    @on(TOOLS_PROVIDE)
    def hide(self, ctx: EventContext[tuple[ToolSpec, ...]]) -> tuple[ToolSpec, ...]:
        return ctx.value[1:]

    @on(TOOL_CALL_AFTER)
    def see(self, ctx: EventContext[ToolCallOutcome]) -> None:
        assert_type(ctx.value.status == "ok", bool)

    @on(TOOL_CALL_AFTER, timeout=3)
    async def see_later(self, ctx: EventContext[ToolCallOutcome]) -> None: ...

    @guard(TOOL_CALL_BEFORE)
    def refuse(self, ctx: EventContext[ToolCall]) -> Deny | Ask | None:
        return Deny("no") if ctx.value.name == "delete" else Ask("really?")

    @guard(MESSAGE_APPEND_BEFORE)
    async def refuse_later(self, ctx: EventContext[Message]) -> Deny | None:
        return Deny("no") if ctx.value.text else None

    @on(PRICED)
    def price(self, ctx: EventContext[int]) -> int:
        return ctx.value + 1

    @guard(PRICED)
    def wide(self, ctx: EventContext[Any]) -> None: ...

    @tool
    def look(self, page: int) -> str:
        """Look at a page."""
        return str(page)

    async def install(self, agent: Host) -> None:
        assert_type(agent.scope, Scope)

    async def close(self) -> None: ...


class Stricter(Watch):
    """An override keeps the mark, and may say more exactly what it returns."""

    def rewrite(self, ctx: EventContext[ToolCall]) -> ToolCall:
        return ctx.value

    async def answer(self, ctx: EventContext[ToolCall]) -> None:
        assert_type(await super().answer(ctx), ToolCall | ToolResponse | Deny | None)

    def setup(self, agent: Host) -> None:
        super().setup(agent)
        assert_type(self.host, Host | None)


class Wrong(AgentComponent):
    """All that is refused."""

    @on(TOOL_CALL_BEFORE)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    def word(self, ctx: EventContext[ToolCall]) -> str:
        return ctx.value.name

    @on(TOOL_CALL_BEFORE)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    def question(self, ctx: EventContext[ToolCall]) -> Ask:
        return Ask(ctx.value.name)

    @on(TOOL_CALL_BEFORE)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    async def later(self, ctx: EventContext[ToolCall]) -> int:
        return len(ctx.value.arguments)

    @on(MESSAGE_APPEND_BEFORE)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    def only_users(self, ctx: EventContext[UserMessage]) -> UserMessage:
        return ctx.value

    @on(TOOL_CALL_AFTER)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    def output(self, ctx: EventContext[ToolCallOutcome]) -> ToolResponse:
        return ctx.value.response

    @guard(TOOL_CALL_BEFORE)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
    def replaced(self, ctx: EventContext[ToolCall]) -> ToolCall:
        return ctx.value

    @guard(TOOL_CALL_AFTER)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    def judged(self, ctx: EventContext[ToolCallOutcome]) -> Deny:
        return Deny(ctx.value.status)


on("tool:call:before")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
on(TOOL_CALL_BEFORE, prioriti=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
guard(TOOL_CALL_BEFORE, on_error="shut")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- what they are installed on ---


class Program:
    """What is no agent and offers what a component needs."""

    def __init__(self) -> None:
        self.bus, self.tools, self.scope = EventBus(), Toolset(), Scope(agent_id="program")
        self.store = MemoryStore()

    def state(self, name: str, scope: Scope | None = None, *, shared: bool = False) -> State:
        return State(self.store, (scope or self.scope).session_id, name)


class Bare:
    """What lacks a toolset."""

    def __init__(self) -> None:
        self.bus, self.scope = EventBus(), Scope()


async def kept(watch: Watch, ctx: EventContext[ToolCall]) -> None:
    state = watch.state(ctx.scope, shared=True)
    assert_type(await state.read(), Any)
    assert_type(await state.update(lambda count: (count or 0) + 1), Any)
    await state.update("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def installed(agent: Agent, watch: Watch, message: ToolMessage) -> None:
    watch.setup(agent)
    watch.setup(Program())
    watch.setup(Bare())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    watch.register_tool_adapter(Whole("whole"))
    watch.register_tool_adapter(Whole)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(watch.adapters, tuple[ToolAdapter, ...])
    await agent.remove(watch)
    context = EventContext(MESSAGE_APPEND_BEFORE, message)
    assert_type(await watch._on_message_append_before_adapter(context), ToolMessage | None)  # pyright: ignore[reportPrivateUsage]
    assert_type(agent.components, tuple[AgentComponent, ...])


class Selecting(AgentComponent):
    @guard(TOOL_CALL_BEFORE, tools="git_*")
    def judge(self, ctx: EventContext[ToolCall]) -> Deny | None: ...

    @on(MESSAGE_APPEND_BEFORE, roles=["user"], tools=("fetch",))
    def listen(self, ctx: EventContext[Message]) -> Message | None: ...
