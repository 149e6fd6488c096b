"""The values of events, for events that have no record of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, Self, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from toolbus.errors import RunStatusError
from toolbus.events.call_values import ToolSpec
from toolbus.messages.codec import decoder
from toolbus.messages.fields import Record, check_texts, copied, freeze_items, freeze_objects
from toolbus.messages.immutable import EMPTY, JsonObject, escape_surrogates
from toolbus.messages.parts import freeze_parts, join_text
from toolbus.messages.records import (
    AssistantMessage,
    Message,
    Part,
    ToolCall,
    ToolMessage,
    ToolResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    # The package of that name is not needed at run time: type checkers know it.
    from typing_extensions import TypeVar

    OutputT_co = TypeVar("OutputT_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    OutputT_co = TypeVar("OutputT_co", covariant=True)

_ROLES = get_args(Message)
_read_json = decoder(object)

RunStatus = Literal["ok", "denied", "error", "cancelled", "max_turns", "pending"]


class RunStart(Record, frozen=True, kw_only=True):
    """The caller's *prompt*, text or parts, and the messages that the session held before it.

    >>> RunStart(prompt="clean up").text
    'clean up'
    """

    prompt: str | tuple[Part, ...]
    messages: tuple[Message, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.prompt, tuple | list):
            freeze_parts(self, "prompt")
        else:
            check_texts(self, "prompt")
        freeze_items(self, "messages", _ROLES)

    @property
    def text(self) -> str:
        """The text of the prompt, one part per line."""
        return self.prompt if isinstance(self.prompt, str) else join_text(self.prompt)


class RunResult(Record, Generic[OutputT_co], frozen=True, kw_only=True, dict=True):
    """The end of a run: *message* is the model's last answer, *reason* explains a status not "ok".

    *usage* sums the counts of all answers, *messages* are the run's own; a "pending" run waits for
    the answers to the questions with the ids *pending*. *output_json* is the JSON of `output`, None
    for plain text. `str` gives the text, or the status and the reason; `raise_for_status` raises
    them.

    >>> print(RunResult(status="denied", reason="not at night"))
    denied: not at night
    """

    status: RunStatus
    message: AssistantMessage | None = None
    turns: int = 0
    usage: JsonObject = EMPTY
    messages: tuple[Message, ...] = ()
    reason: str | None = None
    output_json: str | None = None
    pending: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze_objects(self, "usage")
        freeze_items(self, "messages", _ROLES)
        check_texts(self, "output_json", optional=True)

    @property
    def output(self) -> OutputT_co:
        """The answer as a value of the run's `output_type`, decoded on each access, or its text.

        Of a decoded result it is a plain JSON value, because the type is not stored.
        Raises `RunStatusError` unless the run ended as "ok".
        """
        self.raise_for_status()
        value: Any = self.text
        if self.output_json is not None:
            value = vars(self).get("_decode", _read_json)(self.output_json)
        return value  # type: ignore[no-any-return]  # decoded as the run's output type

    def with_decoder(self, decode: Callable[[str], Any]) -> Self:
        """Return this result with an `output` that *decode* makes of its JSON."""
        typed: Self = copied(self)
        vars(typed)["_decode"] = decode
        return typed

    @property
    def text(self) -> str:
        """The text of the last answer, empty if there is none."""
        return "" if self.message is None else self.message.text

    def __str__(self) -> str:
        return self.text if self.status == "ok" else f"{self.status}: {self.reason}"

    def raise_for_status(self) -> Self:
        """Return this result if the run ended as "ok"; else raise `RunStatusError`."""
        if self.status != "ok":
            raise RunStatusError(self.status, self.reason)
        return self


class ModelRequest(Record, frozen=True, kw_only=True):
    """A request to the model.

    *output_schema* is the JSON schema of an object that the answer must fit; None: text.

    >>> request = ModelRequest(model="NAME", messages=(UserMessage(content="hi"),))
    >>> request.messages[-1].text
    'hi'
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    settings: JsonObject = EMPTY
    output_schema: JsonObject | None = None

    def __post_init__(self) -> None:
        freeze_items(self, "messages", _ROLES)
        freeze_items(self, "tools", ToolSpec)
        freeze_objects(self, "settings")
        freeze_objects(self, "output_schema", optional=True)


class ModelReply(Record, frozen=True, kw_only=True):
    """A model's answer, and the request that it answers.

    >>> request = ModelRequest(model="NAME", messages=())
    >>> reply = ModelReply(request=request, message=AssistantMessage(content="ok"), duration_ns=5)
    >>> reply.message.text
    'ok'
    """

    request: ModelRequest
    message: AssistantMessage
    duration_ns: int


class ModelDelta(Record, frozen=True, kw_only=True):
    """A piece of a streamed answer; "void": all pieces of this turn so far are void.

    *index* counts the tool calls of the answer; *name* and *id* are the model's own for the call,
    empty while unknown. The message has another id for a call if the model gave none, or a used
    one. After "void" the turn may begin again, with the answer of a handler of `MODEL_CALL_ERROR`.

    >>> ModelDelta(kind="text", text="It ").text
    'It '
    """

    kind: Literal["text", "reasoning", "tool_call", "void"]
    text: str = ""
    index: int = 0
    name: str = ""
    id: str = ""


class TurnEnd(Record, frozen=True, kw_only=True):
    """The end of a turn: the answer as it was appended, and the results of its calls.

    >>> TurnEnd(turn=1, message=AssistantMessage(content="It is 5.")).tool_messages
    ()
    """

    turn: int
    message: AssistantMessage
    tool_messages: tuple[ToolMessage, ...] = ()

    def __post_init__(self) -> None:
        freeze_items(self, "tool_messages", ToolMessage)


class Failure(Struct, frozen=True, kw_only=True):
    """An exception in a form that can be encoded: its type's name and its text.

    >>> Failure(error_type="ValueError", error_text="no number").error_type
    'ValueError'
    """

    error_type: str
    error_text: str
    attempts: int = 1

    def __post_init__(self) -> None:
        # The text of an exception may quote anything, and the report of a failure must not fail.
        force_setattr(self, "error_text", escape_surrogates(self.error_text))


class RunFailure(Failure, frozen=True, kw_only=True):
    """An exception that is about to leave a run.

    >>> def answer(ctx):
    ...     return RunResult(status="error", reason=ctx.value.error_text)
    >>> handle = EventBus().on(events.RUN_ERROR, answer)
    """

    start: RunStart


class ModelFailure(Failure, frozen=True, kw_only=True):
    """A model call that raised.

    >>> def answer(ctx):
    ...     return AssistantMessage(content=f"I am out of order: {ctx.value.error_type}")
    >>> handle = EventBus().on(events.MODEL_CALL_ERROR, answer)
    """

    request: ModelRequest


class ToolCallFailure(Failure, frozen=True, kw_only=True):
    """A tool that raised, timed out or returned an error; the model would read *response*.

    >>> def fall_back(ctx):
    ...     return ToolResponse("none") if ctx.value.call.name == "search" else None
    >>> handle = EventBus().on(events.TOOL_CALL_ERROR, fall_back)
    """

    call: ToolCall
    response: ToolResponse
