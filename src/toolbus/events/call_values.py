"""The values of events about tools and their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from msgspec.structs import replace

from toolbus.messages.fields import Record, check_texts, freeze_objects
from toolbus.messages.immutable import EMPTY, FrozenDict, JsonObject
from toolbus.messages.records import ToolCall, ToolResponse  # noqa: TC001 - msgspec reads them

if TYPE_CHECKING:
    from collections.abc import Collection

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
    "pending",
]


class ToolSpec(Record, frozen=True, kw_only=True):
    """A tool as the model sees it.

    >>> tool(greet).spec.name
    'greet'
    >>> dict(tool(greet).spec.without_parameters("name").input_schema["properties"])
    {}
    """

    name: str
    description: str = ""
    input_schema: JsonObject = FrozenDict({"type": "object"})
    output_schema: JsonObject | None = None
    annotations: JsonObject = EMPTY

    def __post_init__(self) -> None:
        check_texts(self, "name", "description")
        freeze_objects(self, "input_schema", "annotations")
        freeze_objects(self, "output_schema", optional=True)

    def with_description(self, description: str) -> Self:
        """Return this spec with *description* in place of its own."""
        return replace(self, description=description)

    def with_input_schema(self, schema: JsonObject) -> Self:
        """Return this spec with exactly *schema*, a JSON schema of an object of arguments."""
        return replace(self, input_schema=schema)

    def without_parameters(self, *names: str) -> Self:
        """Return this spec without the parameters *names*; unknown names are ignored.

        They are removed from `properties` and `required`; the rest of the schema stays.
        """
        schema = {
            keyword: _without(value, names) if keyword in {"properties", "required"} else value
            for keyword, value in self.input_schema.items()
        }
        return self.with_input_schema(schema)


def _without(value: object, names: Collection[str]) -> object:
    """Return *value*, an object by names or a list of them, without *names*."""
    match value:
        case dict():
            return {name: schema for name, schema in value.items() if name not in names}
        case tuple() | list():
            return [name for name in value if name not in names]
    return value


class ToolCallOutcome(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The end of a call: as *requested* by the model, as *executed* (None if it never ran).

    *status* describes the tool, also when a fallback answered; "pending": the questions with the
    ids *pending* wait for a person. With *again* another process, which was killed or took
    the session over, may have dispatched this outcome before.

    >>> outcome = asyncio.run(ToolRunner(EventBus(), Toolset([])).call("add"))
    >>> outcome.status, outcome.executed
    ('unknown_tool', None)
    """

    requested: ToolCall
    executed: ToolCall | None
    response: ToolResponse
    status: ToolStatus
    attempts: int = 0
    duration_ns: int = 0
    again: bool = False
    pending: tuple[str, ...] = ()


class ToolCallPersist(Record, frozen=True, kw_only=True):
    """A tool's result on its way into the store; *tool_result* is None before it was stored.

    *tool_input* has the arguments as executed, or as requested if the tool never ran.

    >>> def watch(ctx):
    ...     print(ctx.value.tool_name, dict(ctx.value.tool_input))
    >>> handle = EventBus().on(events.TOOL_CALL_PERSIST_AFTER, watch)
    """

    session_key: str
    agent_id: str
    tool_name: str
    tool_call_id: str
    tool_input: JsonObject
    tool_result: ToolResponse | None
    message_id: str
    tool_message_id: str

    def __post_init__(self) -> None:
        freeze_objects(self, "tool_input")


class McpRequest(Record, frozen=True, kw_only=True):
    """A request of an MCP client other than a tool call: its *method* and *params*.

    The params are unchanged: two different URIs may mean one file.

    >>> def closed(ctx):
    ...     return Deny("no resources") if ctx.value.method == "resources/read" else None
    >>> handle = EventBus().guard(events.MCP_REQUEST_BEFORE, closed)
    """

    method: str
    params: JsonObject = EMPTY

    def __post_init__(self) -> None:
        check_texts(self, "method")
        freeze_objects(self, "params")

    @property
    def uri(self) -> str | None:
        """The URI of the requested resource, or its template; None for other requests."""
        return self._reference("uri")

    @property
    def name(self) -> str | None:
        """The name of the requested prompt; None for other requests."""
        return self._reference("name")

    def _reference(self, member: str) -> str | None:
        # A completion has its subject in `ref`: MCP 2025-11-25, server/utilities/completion.
        value = self.params.get(member)
        if value is None and isinstance(reference := self.params.get("ref"), dict):
            value = reference.get(member)
        return value if isinstance(value, str) else None
