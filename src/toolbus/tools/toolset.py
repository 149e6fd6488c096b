"""Tools: what a model can call, how it is described, and the set of them that an agent has.

Nothing here executes a tool: that is the runner's, so that no call goes round the handlers.
"""

from __future__ import annotations

import inspect
import re
import threading
from functools import cached_property, partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypedDict, Unpack, overload

from toolbus.errors import FreezeError, RegistrationError, ToolNotRunError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, thaw
from toolbus.tools.contexts import ToolContext
from toolbus.tools.signatures import Signature, hints_of, injected, summary, what

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from toolbus.messages.records import JsonObject

# As MCP has it (specification of 2025-11-25, tools, "Tool Names"), with "/" and ":" for namespaces.
_NAME = re.compile(r"[A-Za-z0-9_./:-]{1,128}")


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
    # Whether `run` is async and ends at once when it is cancelled: it needs no task of its own.
    in_place: ClassVar[bool] = False

    run: Callable[..., Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A mixin's counts as well.
        if cls.execute is not Tool.execute:
            reason = "`execute` is final, so that no call goes round the handlers; write `run`"
            raise RegistrationError(f"tool class {cls.__name__!r}", reason)

    def execute(self, *_: object, **__: object) -> NoReturn:
        """Refuse: raises `ToolNotRunError`, which names the runner."""
        raise ToolNotRunError(self.spec.name)

    @cached_property
    def spec(self) -> ToolSpec:
        """What a model is told; raises `RegistrationError` if the tool cannot be described."""
        name, signature = self.name or type(self).__name__, self._signature
        input_schema = self.input_schema if signature is None else signature.input_schema
        output_schema = self.output_schema
        if output_schema is None and signature is not None:
            output_schema = signature.output_schema
        schema_problems = _schema_problems(input_schema, output_schema)
        for problem in chain(self._problems(name), schema_problems):
            raise RegistrationError(f"tool {name!r}", problem)
        try:
            return ToolSpec(
                name=name,
                description=self.description or summary(self._documentation),
                input_schema=input_schema or EMPTY,
                output_schema=output_schema,
                annotations=self.annotations,
            )
        except FreezeError as error:
            raise RegistrationError(f"tool {name!r}", str(error)) from None

    @cached_property
    def is_async(self) -> bool:
        """Whether `run` must be awaited; a sync one runs in a thread."""
        return inspect.iscoroutinefunction(self._function)

    def fit(self, arguments: JsonObject) -> tuple[dict[str, Any], str | None]:
        """Return *arguments* as `run` takes them, and why they do not fit or None.

        `run` may change them: they are private copies. The problem is about the tool's own
        schema, and names the JSON path.
        """
        if self._signature is not None:
            return self._signature.fit(arguments)
        return thaw(arguments), schemas.problem(self.spec.input_schema, arguments)

    def bind(self, values: Mapping[str, Any], context: ToolContext) -> Callable[[], Any]:
        """Return `run`, ready to be called by the runner with *values*, which `fit` gave."""
        contexts = dict.fromkeys(self._injected, context)
        return partial(self._function, **values, **contexts)

    @property
    def _function(self) -> Callable[..., Any]:
        function: Callable[..., Any] | None = getattr(self, "run", None)
        if function is None:
            raise RegistrationError(f"tool class {type(self).__name__!r}", "it has no `run`")
        return function

    @property
    def _documentation(self) -> str:
        # A class without a docstring of its own would show that of a base class.
        class_text = inspect.getdoc(self) if type(self).__doc__ else None
        return inspect.getdoc(self._function) or class_text or ""

    @cached_property
    def _signature(self) -> Signature | None:
        return None if self.input_schema is not None else Signature(self._function, ToolContext)

    @cached_property
    def _injected(self) -> tuple[str, ...]:
        return injected(hints_of(self._function), ToolContext)

    def _problems(self, name: str) -> Iterator[str]:
        """Yield what is wrong with what the tool states of itself."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield "a name has 1 to 128 letters, digits or `_-./:`; give the tool a `name`"
        seconds = self.timeout
        if seconds is not None and not (type(seconds) in {int, float} and 0 < seconds < inf):
            yield f"timeout must be a positive number of seconds, not {seconds!r}"
        if not isinstance(self.idempotent, bool):
            yield f"idempotent must be True or False, not {self.idempotent!r}"
        run = self._function
        if inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run):
            yield "a generator gives no single result; return one"


def _schema_problems(input_schema: Any, output_schema: Any) -> Iterator[str]:
    """Yield what is wrong with the schemas of a tool."""
    for schema in (input_schema, output_schema):
        if schema is not None and (problem := schemas.check_schema(schema)):
            yield f"its schema is malformed: {problem}"
    if (kind := input_schema.get("type", "object")) != "object":
        yield f"arguments are an object, and its input schema says {kind!r}"


class FunctionTool(Tool):
    """A function as a tool; `run` is the function."""

    def __init__(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        self._options = options
        self.run = function
        self.name = getattr(function, "__name__", "")
        for option, value in options.items():
            setattr(self, option, value)
        try:
            parameters = inspect.signature(function).parameters
        except ValueError as error:
            raise RegistrationError(what(function), str(error)) from None
        # A method is described when it is reached through its object, which fills `self`.
        if next(iter(parameters), None) != "self":
            self.spec  # noqa: B018 - what is wrong with the function is found here

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool:
        return self if instance is None else self.with_function(self.run.__get__(instance, owner))

    def with_function(self, function: Callable[..., Any]) -> FunctionTool:
        """Return a tool of *function* with the same options."""
        return FunctionTool(function, **self._options)

    @property
    def _documentation(self) -> str:
        return inspect.getdoc(self.run) or ""


class ToolOptions(TypedDict, total=False):
    """What `@tool` takes; see there."""

    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject
    annotations: JsonObject
    timeout: float | None
    idempotent: bool


@overload
def tool(function: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> FunctionTool: ...
@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function: a schema from its signature, texts from its docstring.

    The function itself is the tool's `run`. Raises `RegistrationError` if a parameter has no type
    hint.

    Args:
        function: sync (it will run in a thread) or async.
        options: *name*, *description*, *input_schema*, *output_schema*, *annotations* in place
            of what the function says; *timeout* in seconds; *idempotent* allows `Retry`.
    """
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        raise RegistrationError("@tool", f"unknown options: {', '.join(sorted(unknown))}")
    if function is None:
        return lambda function: tool(function, **options)
    if inspect.isclass(function):
        reason = f"it is a class; give an instance, `{function.__name__}(…)`"
        raise RegistrationError(f"tool {function.__name__!r}", reason)
    if not callable(function):
        raise RegistrationError(f"tool {function!r}", "expected a function")
    return FunctionTool(function, **options)


class Toolset:
    """The tools that an agent or a runner has, by name; may change while it is in use.

    One among *tools* that is a toolset itself is included: what it holds later counts as well.
    """

    def __init__(self, tools: Iterable[Tool | Callable[..., Any] | Toolset] = ()) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, tuple[Tool, Callable[[], bool]]] = {}
        self._included: tuple[Toolset, ...] = ()
        for tool in (tools,) if isinstance(tools, Toolset) else tools:
            if isinstance(tool, Toolset):
                self.include(tool)
            else:
                self.add(tool)

    def __iter__(self) -> Iterator[Tool]:
        tools = {name: tool for name, (tool, offered) in self._tools.items() if offered()}
        for tool in chain.from_iterable(self._included):
            if tool.spec.name not in self._tools:
                tools.setdefault(tool.spec.name, tool)
        return iter(list(tools.values()))

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
            if name in self._tools or self._from_included(name):
                raise RegistrationError(f"tool {name!r}", "there is one of that name already")
            self._tools = {**self._tools, name: (tool, offered)}
        return tool

    def include(self, tools: Toolset) -> None:
        """Have all that *tools* holds, now and later, as well; of equal names the first counts."""
        names = [tool.spec.name for tool in tools]
        with self._lock:
            for name in names:
                if name in self._tools or self._from_included(name):
                    reason = "there is one of that name already; give one of the sets a prefix"
                    raise RegistrationError(f"tool {name!r}", reason)
            self._included = (*self._included, tools)

    def remove(self, name: str) -> None:
        """Take the tool *name* out, if it was added; calls under way go on with it."""
        with self._lock:
            self._tools = {key: value for key, value in self._tools.items() if key != name}

    def get(self, name: str) -> Tool | None:
        """Return the tool *name*, or None."""
        entry = self._tools.get(name)
        if entry is None:
            return self._from_included(name)
        tool, offered = entry
        return tool if offered() else None

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told of all of them."""
        return tuple([tool.spec for tool in self])

    def _from_included(self, name: str) -> Tool | None:
        for tools in self._included:
            if (tool := tools.get(name)) is not None:
                return tool
        return None


_tool = tool
