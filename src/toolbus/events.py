"""The named points in an agent's life, the values that pass them, and what handlers may say."""

from __future__ import annotations

from difflib import get_close_matches
from types import UnionType
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, overload

from msgspec import Struct
from msgspec.structs import force_setattr

from toolbus.errors import RegistrationError
from toolbus.immutable import EMPTY, FrozenDict, freeze_object
from toolbus.messages import AssistantMessage, JsonObject, Message, ToolCall, ToolResponse

V = TypeVar("V")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")


class Deny(Struct, frozen=True):
    """A refusal: *reason* is for the model, *detail* for operators only."""

    reason: str
    detail: str | None = None


class Ask(Struct, frozen=True):
    """A guard's wish that a person decides about the final value; *prompt* is the question."""

    prompt: str


class Retry(Struct, frozen=True):
    """A wish to run a failed tool again, after *delay* seconds."""

    delay: float = 0.0


class Scope(Struct, frozen=True, kw_only=True):
    """Who is speaking; *lineage* names the agents above a sub-agent, the outermost first.

    *context* is what the caller of `run` gave: user, tenant, language.
    """

    agent_id: str = ""
    session_id: str = ""
    run_id: str = ""
    turn: int = 0
    lineage: tuple[str, ...] = ()
    context: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if type(self.context) is not FrozenDict:
            force_setattr(self, "context", freeze_object(self.context, "$.context"))


def _classes(annotation: Any) -> tuple[type, ...]:
    """Return what `isinstance` takes for *annotation*: a class, a union of them, a generic, Any."""
    if get_origin(annotation) in {Union, UnionType}:
        return tuple([kind for arg in get_args(annotation) for kind in _classes(arg)])
    if annotation is Any:
        return (object,)
    if annotation is None:
        return (type(None),)
    return (get_origin(annotation) or annotation,)


class TransformEvent(Generic[V, R]):
    """A point where handlers may replace the value, answer or refuse; dispatched with `apply`.

    *value* is the type that passes, *answer* what a handler may give instead of going on;
    *asks* says that guards may return `Ask`. `R` is all that a handler may return but None.
    """

    __slots__ = ("_accepted", "answer", "asks", "name", "value")

    @overload
    def __init__(self: TransformEvent[T, T | Deny], name: str, value: type[T]) -> None: ...
    @overload
    def __init__(
        self: TransformEvent[T, T | A | Deny],
        name: str,
        value: type[T],
        *,
        answer: type[A],
        asks: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self, name: str, value: object, *, answer: object = None, asks: bool = False
    ) -> None: ...
    def __init__(
        self, name: str, value: object, *, answer: object = None, asks: bool = False
    ) -> None:
        self.name, self.value, self.asks = name, value, asks
        self.answer = () if answer is None else _classes(answer)
        self._accepted = _classes(value)

    def __repr__(self) -> str:
        return f"<TransformEvent {self.name}>"

    def accepts(self, value: object) -> bool:
        """Tell whether *value* is of the event's type; of a tuple every item is looked at."""
        if get_origin(self.value) is not tuple:
            return isinstance(value, self._accepted)
        items = _classes(get_args(self.value)[0])
        return isinstance(value, tuple) and all(isinstance(item, items) for item in value)


class ObserveEvent(Generic[V]):
    """A point that handlers see and cannot change; dispatched with `do`, *awaited* ones with `observe`."""

    __slots__ = ("awaited", "name", "value")

    @overload
    def __init__(
        self: ObserveEvent[T], name: str, value: type[T], *, awaited: bool = False
    ) -> None: ...
    @overload
    def __init__(self, name: str, value: object, *, awaited: bool = False) -> None: ...
    def __init__(self, name: str, value: object, *, awaited: bool = False) -> None:
        self.name, self.value, self.awaited = name, value, awaited

    def __repr__(self) -> str:
        return f"<ObserveEvent {self.name}>"


class ToolSpec(Struct, frozen=True, kw_only=True):
    """What a model is told of a tool."""

    name: str
    description: str = ""
    input_schema: JsonObject = FrozenDict({"type": "object"})
    output_schema: JsonObject | None = None
    annotations: JsonObject = EMPTY

    def __post_init__(self) -> None:
        for field in ("input_schema", "output_schema", "annotations"):
            value = getattr(self, field)
            if value is not None and type(value) is not FrozenDict:
                force_setattr(self, field, freeze_object(value, f"$.{field}"))


class RunStart(Struct, frozen=True, kw_only=True):
    """The caller's *prompt*, and the messages that the session held before it."""

    prompt: str
    messages: tuple[Message, ...] = ()


RunStatus = Literal["ok", "denied", "error", "cancelled", "max_turns"]


class RunResult(Struct, frozen=True, kw_only=True):
    """How a run ended: *message* is the model's last answer, *reason* says why if not "ok".

    *usage* sums the counts of all answers, *messages* are those that the run appended.
    """

    status: RunStatus
    message: AssistantMessage | None = None
    turns: int = 0
    usage: JsonObject = EMPTY
    messages: tuple[Message, ...] = ()
    reason: str | None = None

    def __post_init__(self) -> None:
        if type(self.usage) is not FrozenDict:
            force_setattr(self, "usage", freeze_object(self.usage, "$.usage"))

    @property
    def text(self) -> str:
        """The text of the last answer, empty if there is none."""
        return "" if self.message is None else self.message.text


class RunFailure(Struct, frozen=True, kw_only=True):
    """An exception that is about to leave a run."""

    start: RunStart
    error_type: str
    error_text: str
    attempts: int = 1


class ModelRequest(Struct, frozen=True, kw_only=True):
    """What is sent to the model."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    settings: JsonObject = EMPTY

    def __post_init__(self) -> None:
        if type(self.settings) is not FrozenDict:
            force_setattr(self, "settings", freeze_object(self.settings, "$.settings"))


class ModelReply(Struct, frozen=True, kw_only=True):
    """A model's answer, and the request that it answers."""

    request: ModelRequest
    message: AssistantMessage
    duration_ns: int


class ModelDelta(Struct, frozen=True, kw_only=True):
    """A piece of a streamed answer; *index* counts the tool calls of the answer."""

    kind: Literal["text", "reasoning", "tool_call"]
    text: str
    index: int = 0


class ModelFailure(Struct, frozen=True, kw_only=True):
    """A model call that raised."""

    request: ModelRequest
    error_type: str
    error_text: str
    attempts: int = 1


class ToolCallFailure(Struct, frozen=True, kw_only=True):
    """A tool that raised, timed out or returned an error; *response* is what the model would read."""

    call: ToolCall
    response: ToolResponse
    error_type: str
    error_text: str
    attempts: int = 1


ToolStatus = Literal[
    "ok",
    "error",
    "denied",
    "answered",
    "unknown_tool",
    "invalid_arguments",
    "timeout",
    "cancelled",
    "interrupted",
]


class ToolCallOutcome(Struct, frozen=True, kw_only=True):
    """What became of a call: as *requested* by the model, as *executed* (None if it never ran).

    *status* tells what happened to the tool, also when a fallback answered.
    """

    requested: ToolCall
    executed: ToolCall | None
    response: ToolResponse
    status: ToolStatus
    attempts: int = 0
    duration_ns: int = 0


class ToolCallPersist(Struct, frozen=True, kw_only=True):
    """A tool's result on its way into the store; *tool_result* is None before it was written.

    *tool_input* are the arguments as executed, or as requested if the tool never ran.
    """

    session_key: str
    agent_id: str
    tool_name: str
    tool_call_id: str
    tool_input: JsonObject
    tool_result: ToolResponse | None
    message_id: str
    tool_message_id: str


RUN_BEFORE: TransformEvent[RunStart, RunStart | Deny] = TransformEvent(
    "run:before", RunStart, asks=True
)
RUN_ERROR: TransformEvent[RunFailure, RunFailure | RunResult | Deny] = TransformEvent(
    "run:error", RunFailure, answer=RunResult
)
RUN_AFTER: ObserveEvent[RunResult] = ObserveEvent("run:after", RunResult)
TOOLS_PROVIDE: TransformEvent[tuple[ToolSpec, ...], tuple[ToolSpec, ...] | Deny] = TransformEvent(
    "tools:provide", tuple[ToolSpec, ...]
)
MODEL_CALL_BEFORE: TransformEvent[ModelRequest, ModelRequest | AssistantMessage | Deny] = (
    TransformEvent("model:call:before", ModelRequest, answer=AssistantMessage)
)
MODEL_CALL_ERROR: TransformEvent[ModelFailure, ModelFailure | AssistantMessage | Deny] = (
    TransformEvent("model:call:error", ModelFailure, answer=AssistantMessage)
)
MODEL_CALL_DELTA: ObserveEvent[ModelDelta] = ObserveEvent("model:call:delta", ModelDelta)
MODEL_CALL_AFTER: ObserveEvent[ModelReply] = ObserveEvent("model:call:after", ModelReply)
TOOL_CALL_BEFORE: TransformEvent[ToolCall, ToolCall | ToolResponse | Deny] = TransformEvent(
    "tool:call:before", ToolCall, answer=ToolResponse, asks=True
)
TOOL_CALL_ERROR: TransformEvent[
    ToolCallFailure, ToolCallFailure | ToolResponse | Retry | Deny
] = TransformEvent("tool:call:error", ToolCallFailure, answer=ToolResponse | Retry)
TOOL_CALL_AFTER: ObserveEvent[ToolCallOutcome] = ObserveEvent("tool:call:after", ToolCallOutcome)
MESSAGE_APPEND_BEFORE: TransformEvent[Message, Message | Deny] = TransformEvent(
    "message:append:before", Message
)
MESSAGE_PERSIST_BEFORE: TransformEvent[Message, Message | Deny] = TransformEvent(
    "message:persist:before", Message
)
TOOL_CALL_PERSIST_BEFORE: ObserveEvent[ToolCallPersist] = ObserveEvent(
    "tool:call:persist:before", ToolCallPersist, awaited=True
)
TOOL_CALL_PERSIST_AFTER: ObserveEvent[ToolCallPersist] = ObserveEvent(
    "tool:call:persist:after", ToolCallPersist, awaited=True
)
MESSAGE_APPEND_AFTER: ObserveEvent[Message] = ObserveEvent("message:append:after", Message)

Event = TransformEvent[Any, Any] | ObserveEvent[Any]

CATALOGUE: tuple[Event, ...] = (
    RUN_BEFORE,
    RUN_ERROR,
    RUN_AFTER,
    TOOLS_PROVIDE,
    MODEL_CALL_BEFORE,
    MODEL_CALL_ERROR,
    MODEL_CALL_DELTA,
    MODEL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOL_CALL_AFTER,
    MESSAGE_APPEND_BEFORE,
    MESSAGE_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_BEFORE,
    TOOL_CALL_PERSIST_AFTER,
    MESSAGE_APPEND_AFTER,
)
"""Every event that the library fires."""


def by_name(name: str) -> Event:
    """Return the event of the catalogue called *name*; raises `RegistrationError`."""
    known = {event.name: event for event in CATALOGUE}
    if event := known.get(name):
        return event
    near = get_close_matches(name, known, 1) or sorted(known)
    raise RegistrationError(f"event {name!r}", f"there is none; known: {', '.join(near)}")
