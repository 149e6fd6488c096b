"""Tools: what a model can call, how it is described, and the set of them that an agent has.

Nothing here executes a tool: that is the runner's, so that no call goes round the handlers.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, overload

import msgspec

from toolbus import schemas
from toolbus.errors import RegistrationError, ToolNotRunError
from toolbus.events import Scope, ToolSpec
from toolbus.immutable import EMPTY
from toolbus.messages import AudioPart, ImagePart, ResourcePart, TextPart, ToolResponse
from toolbus.tools.signatures import Signature, summary

if TYPE_CHECKING:
    from toolbus.messages import JsonObject

Progress: TypeAlias = Callable[[str, str, float | None], None]
"""Takes the call's id, a text for people, and the finished part between 0 and 1, if known."""

_PARTS = (TextPart, ImagePart, AudioPart, ResourcePart)


class ToolContext:
    """What a tool may know of its call; the runner fills the parameter annotated with it."""

    __slots__ = ("_call", "_progress", "call_id", "scope")

    def __init__(
        self,
        scope: Scope,
        call_id: str,
        call: Callable[[str, Mapping[str, Any]], Awaitable[ToolResponse]],
        progress: Progress,
    ) -> None:
        self.scope, self.call_id, self._call, self._progress = scope, call_id, call, progress

    def progress(self, text: str, part: float | None = None) -> None:
        """Tell whoever watches how far the tool is; *part* is between 0 and 1."""
        self._progress(self.call_id, text, part)

    async def call(self, name: str, arguments: JsonObject = EMPTY) -> ToolResponse:
        """Call another tool through the same handlers and guards; return its response."""
        return await self._call(name, arguments)


class Tool:
    """Something that a model can call; a subclass writes `run`, sync or async.

    Name, description and schemas come from the class and from `run`'s signature and docstring,
    unless the class states them. *timeout* is in seconds; *idempotent* allows `Retry`.
    """

    name: str = ""
    description: str = ""
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    annotations: JsonObject = EMPTY
    timeout: float | None = None
    idempotent: bool = False

    run: Callable[..., Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "execute" in vars(cls):
            reason = "`execute` is final, so that no call goes round the handlers; write `run`"
            raise RegistrationError(f"tool class {cls.__name__!r}", reason)

    async def execute(self, *_: object, **__: object) -> NoReturn:
        """Refuse: raises `ToolNotRunError`, which names the runner."""
        raise ToolNotRunError(self.spec.name)

    @cached_property
    def spec(self) -> ToolSpec:
        """What a model is told; raises `RegistrationError` if the tool cannot be described."""
        name = self.name or type(self).__name__
        if self.timeout is not None and not self.timeout > 0:
            raise RegistrationError(f"tool {name!r}", "timeout must be a positive number of seconds")
        documented = inspect.getdoc(self._function) or (
            inspect.getdoc(self) if type(self).__doc__ else ""
        )
        signature = self._signature
        input_schema = self.input_schema or (signature.input_schema if signature else EMPTY)
        for schema in (input_schema, self.output_schema or {}):
            if problem := schemas.check_schema(schema):
                raise RegistrationError(f"tool {name!r}", f"its schema is malformed: {problem}")
        return ToolSpec(
            name=name,
            description=self.description or summary(documented or ""),
            input_schema=input_schema,
            output_schema=self.output_schema or (signature.output_schema if signature else None),
            annotations=self.annotations,
        )

    @property
    def is_async(self) -> bool:
        """Whether `run` must be awaited; a sync one runs in a thread."""
        return inspect.iscoroutinefunction(self._function)

    def problem(self, arguments: JsonObject) -> str | None:
        """Return why *arguments* do not fit the tool's own schema, with the JSON path, or None."""
        if self._signature is not None:
            return self._signature.problem(arguments)
        return schemas.problem(self.spec.input_schema, arguments)

    def bind(self, arguments: JsonObject, context: ToolContext) -> Callable[[], Any]:
        """Return `run`, ready to be called by the runner with *arguments* that fit."""
        signature, function = self._signature, self._function
        if signature is None:
            return lambda: function(**arguments)
        values = signature.convert(arguments)
        values.update(dict.fromkeys(signature.injected, context))
        return lambda: function(**values)

    @property
    def _function(self) -> Callable[..., Any]:
        function = getattr(self, "run", None)
        if function is None:
            raise RegistrationError(f"tool class {type(self).__name__!r}", "it has no `run`")
        return function  # type: ignore[no-any-return]  # whatever a subclass calls `run`

    @cached_property
    def _signature(self) -> Signature | None:
        return None if self.input_schema is not None else Signature(self._function, ToolContext)


class FunctionTool(Tool):
    """A function as a tool; `run` is the function."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self._options = options
        self.run = function
        self.name = function.__name__
        for option, value in options.items():
            setattr(self, option, value)
        # A method is described when it is reached through its object, which fills `self`.
        if next(iter(inspect.signature(function).parameters), None) != "self":
            assert self.spec  # noqa: S101 - what is wrong with the function is found here

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool:
        if instance is None:
            return self
        return FunctionTool(self.run.__get__(instance, owner), **self._options)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str = ...,
    description: str = ...,
    input_schema: JsonObject = ...,
    output_schema: JsonObject = ...,
    annotations: JsonObject = ...,
    timeout: float = ...,
    idempotent: bool = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: a schema from its signature, texts from its docstring.

    Raises `RegistrationError` if a parameter has no type hint.

    Args:
        function: sync (it will run in a thread) or async.
        options: *name*, *description*, *input_schema*, *output_schema*, *annotations* in place
            of what the function says; *timeout* in seconds; *idempotent* allows `Retry`.
    """
    if function is None:
        unknown = options.keys() - Tool.__annotations__.keys()
        if unknown:
            raise RegistrationError("@tool", f"unknown options: {', '.join(sorted(unknown))}")
        return lambda function: FunctionTool(function, **options)
    if not callable(function):
        raise RegistrationError(f"@tool {function!r}", "expected a function")
    return FunctionTool(function)


class Toolset:
    """The tools that an agent or a runner has, by name; may change while it is in use."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, tuple[Tool, Callable[[], bool]]] = {}
        for one in tools:
            self.add(one)

    def __iter__(self) -> Iterator[Tool]:
        return iter([one for one, offered in self._tools.values() if offered()])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def add(
        self, tool: Tool | Callable[..., Any], *, offered: Callable[[], bool] = lambda: True
    ) -> Tool:
        """Add *tool*, which exists while *offered* says so; a plain function is made a tool."""
        if not isinstance(tool, Tool):
            tool = _tool(tool)
        name = tool.spec.name
        with self._lock:
            if name in self._tools:
                raise RegistrationError(f"tool {name!r}", "there is one of that name already")
            self._tools = {**self._tools, name: (tool, offered)}
        return tool

    def remove(self, name: str) -> None:
        """Take the tool *name* out; calls under way go on with it."""
        with self._lock:
            self._tools = {key: value for key, value in self._tools.items() if key != name}

    def get(self, name: str) -> Tool | None:
        """Return the tool *name*, or None."""
        found, offered = self._tools.get(name, (None, bool))
        return found if offered() else None

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told of all of them."""
        return tuple([one.spec for one in self])


_tool = tool


def to_response(result: Any) -> ToolResponse:
    """Return what a tool gave back as a response: text, parts, or else structured JSON.

    Raises `FreezeError` or TypeError for what is no JSON.
    """
    match result:
        case ToolResponse():
            return result
        case None:
            return ToolResponse()
        case str():
            return ToolResponse.from_text(result)
        case TextPart() | ImagePart() | AudioPart() | ResourcePart():
            return ToolResponse(content=(result,))
        case list() | tuple() if result and all(isinstance(one, _PARTS) for one in result):
            return ToolResponse(content=tuple(result))
    return ToolResponse(structured=msgspec.to_builtins(result, str_keys=True))
