"""Tools, as classes or as functions, and their description for a model.

Nothing here runs a tool: only the runner does, so that no call bypasses the handlers.
"""

from __future__ import annotations

import inspect
import re
from functools import cached_property, partial, update_wrapper
from math import inf
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from toolbus.errors import FreezeError, RegistrationError, ToolNotRunError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages.immutable import EMPTY, thaw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.messages.records import JsonObject
    from toolbus.tools.contexts import ToolContext
    from toolbus.tools.docstrings import Docstring
    from toolbus.tools.signatures import Signature, SignatureSchema

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

# As in MCP (specification of 2025-11-25, tools, "Tool Names"), with "/" and ":" for namespaces.
_NAME = r"[A-Za-z0-9_./:-]{1,128}"


class Tool:
    """A tool that a model can call; a subclass writes `run`, sync or async.

    Name, description and schemas come from the class, or else from `run`'s signature and docstring.
    *timeout* is in seconds; *idempotent* allows `Retry`; *lenient* accepts "3" for 3 where text is
    not allowed.

    >>> class Add(Tool):
    ...     def run(self, a: int, b: int) -> int:
    ...         return a + b
    >>> list(Add().spec.input_schema["properties"])
    ['a', 'b']
    """

    name: str = ""
    description: str = ""
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    annotations: JsonObject = EMPTY
    timeout: float | None = None
    idempotent: bool = False
    lenient: bool = True
    # Whether it only delegates to agents, whose own calls are dispatched on the caller's bus.
    delegates: ClassVar[bool] = False

    run: Callable[..., Any]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # An override by a mixin counts as well.
        if cls.execute is not Tool.execute:
            reason = "`execute` is final, so that no call bypasses the handlers; write `run`"
            raise RegistrationError(f"tool class {cls.__name__!r}", reason)

    def execute(self, *_: object, **__: object) -> NoReturn:
        """Raise `ToolNotRunError`, which names the runner."""
        raise ToolNotRunError(self.spec.name)

    @cached_property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it; raises `RegistrationError` for an invalid one."""
        name, schema = self.name or type(self).__name__, self._schema
        for problem in self._problems(name):
            raise RegistrationError(f"tool {name!r}", problem)
        input_schema, output_schema = self.input_schema, self.output_schema
        if schema is not None:
            input_schema, output_schema = schema.input_schema, output_schema or schema.output_schema
        try:
            return ToolSpec(
                name=name,
                description=self.description or self._documentation.description,
                input_schema=input_schema or EMPTY,
                output_schema=output_schema,
                annotations=self.annotations,
            )
        except FreezeError as error:
            raise RegistrationError(f"tool {name!r}", str(error)) from None

    @cached_property
    def is_async(self) -> bool:
        """Whether `run` must be awaited; a sync one runs in a thread."""
        return inspect.iscoroutinefunction(self._signature.routine)

    def fit(self, arguments: JsonObject) -> tuple[dict[str, Any], str | None]:
        """Return *arguments* as `run` takes them, and the problem if they do not fit, or None.

        They are private copies, which `run` may change. The problem refers to the tool's own
        schema, and names the JSON path.
        """
        if self._schema is not None:
            return self._schema.fit(arguments)
        if taken := next((name for name in self._reserved if name in arguments), None):
            return {}, f"unknown property `{taken}` - at `$`"
        from toolbus.messages.schemas import problem  # noqa: PLC0415 - most tools are functions

        return thaw(arguments), problem(self.spec.input_schema, arguments)

    def bind(
        self, values: Mapping[str, Any], context: Callable[[], ToolContext]
    ) -> Callable[[], Any]:
        """Return `run`, ready to be called by the runner with the *values* of `fit`."""
        signature = self._signature
        if not signature.injected:
            return partial(signature.function, **values)
        contexts = dict.fromkeys(signature.injected, context())
        return partial(signature.function, **values, **contexts)

    @cached_property
    def _signature(self) -> Signature:
        function: Callable[..., Any] | None = getattr(self, "run", None)
        if function is None:
            raise RegistrationError(f"tool class {type(self).__name__!r}", "it has no `run`")
        from toolbus.tools.signatures import Signature  # noqa: PLC0415 - with the first tool

        return Signature(function)

    @cached_property
    def _schema(self) -> SignatureSchema | None:
        if self.input_schema is not None:
            return None
        from toolbus.tools.signatures import SignatureSchema  # noqa: PLC0415 - as above

        return SignatureSchema(self._signature)

    @cached_property
    def _reserved(self) -> frozenset[str]:
        """The arguments that no call may set, because the runner or a `partial` sets them."""
        return self._signature.fixed.union(self._signature.injected)

    @property
    def _documentation(self) -> Docstring:
        """The docstring of `run`, or else of the class."""
        documentation = self._signature.docstring
        # A class without a docstring of its own would show its base class's.
        if not documentation.description and type(self).__doc__:
            from toolbus.tools.docstrings import parse  # noqa: PLC0415 - its expressions are costly

            return parse(inspect.getdoc(self) or "")
        return documentation

    def _problems(self, name: str) -> Iterator[str]:
        """Yield the problems of the tool's class or options."""
        if not isinstance(name, str) or not re.fullmatch(_NAME, name):
            yield "a name has 1 to 128 letters, digits or `_-./:`; give the tool a `name`"
        seconds = self.timeout
        if seconds is not None and not (type(seconds) in {int, float} and 0 < seconds < inf):
            yield f"timeout must be a positive number of seconds, not {seconds!r}"
        for flag, value in (("idempotent", self.idempotent), ("lenient", self.lenient)):
            if not isinstance(value, bool):
                yield f"{flag} must be True or False, not {value!r}"
        run = self._signature.routine
        if inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run):
            yield "a generator gives no single result; return one value"
        yield from _schema_problems(self.input_schema, self.output_schema)


def _schema_problems(
    input_schema: JsonObject | None, output_schema: JsonObject | None
) -> Iterator[str]:
    """Yield the problems of schemas stated by a class or an option."""
    from toolbus.messages.schemas import check_schema  # noqa: PLC0415 - most tools are functions

    for schema in (input_schema, output_schema):
        if schema is not None and (flaw := check_schema(schema)):
            yield f"its schema is malformed: {flaw}"
    if input_schema and (kind := input_schema.get("type", "object")) != "object":
        yield f"the type of an input schema must be 'object', not {kind!r}"


class FunctionTool(Tool, Generic[P, R]):
    """A function as a tool; `run` is the function.

    A direct call runs the plain function, without handlers and guards. A tool that calls another
    tool on behalf of a model uses `ToolContext.call`.
    """

    def __init__(self, function: Callable[P, R], **options: Unpack[ToolOptions]) -> None:
        self._options = options
        self.run = function
        # The function's name, docstring and so on, for programs that inspect it.
        update_wrapper(self, function, updated=())
        self.name = self._signature.name
        for option, value in options.items():
            setattr(self, option, value)
        # A method is checked when accessed through its object, which binds `self`.
        if next(iter(self._signature.parameters), None) != "self":
            self.spec  # noqa: B018 - problems of the function surface here

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it was written, without handlers; an async one gives a coroutine."""
        return self.run(*args, **kwargs)  # type: ignore[no-any-return]  # a `Tool` runs anything

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> FunctionTool[P, R]: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> FunctionTool[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        # A `partial` or a callable object in a class is an attribute, not a method.
        if instance is None or isinstance(self.run, partial) or not hasattr(self.run, "__get__"):
            return self
        return self.with_function(self.run.__get__(instance, owner))

    def with_function(
        self, function: Callable[Q, R], **options: Unpack[ToolOptions]
    ) -> FunctionTool[Q, R]:
        """Return a tool of *function* with the same options, and *options* over them."""
        merged: ToolOptions = {**self._options, **options}
        return FunctionTool(function, **merged)

    @property
    def _documentation(self) -> Docstring:
        return self._signature.docstring


class ToolOptions(TypedDict, total=False):
    """The options of `@tool`, which describes them."""

    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject
    annotations: JsonObject
    timeout: float | None
    idempotent: bool
    lenient: bool


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> FunctionTool[P, R]: ...
@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a function: the schema from its signature, the texts from its docstring.

    The function becomes the tool's `run`, and the tool can be called like the function, without
    handlers. An argument set by `functools.partial` is not a parameter, and no call can replace
    it. Raises `RegistrationError` if a parameter has no type hint.

    Args:
        function: a function, a bound method, a `functools.partial` or a callable object; sync (it
            will run in a thread) or async; or a tool, to give it other options.
        options: *name*, *description*, *input_schema*, *output_schema*, *annotations* in place
            of the function's own; *timeout* in seconds; *idempotent* allows `Retry`; without
            *lenient* an argument "3" is invalid where only an integer fits.

    >>> tool(greet, name="welcome", timeout=5.0).spec.name
    'welcome'
    """
    if unknown := options.keys() - ToolOptions.__annotations__.keys():
        raise RegistrationError("@tool", f"unknown options: {', '.join(sorted(unknown))}")
    if function is None:
        return partial(tool, **options)
    if inspect.isclass(function):
        reason = f"it is a class; give an instance, `{function.__name__}(…)`"
        raise RegistrationError(f"tool {function.__name__!r}", reason)
    if isinstance(function, FunctionTool):
        made: FunctionTool[..., Any] = function.with_function(function.run, **options)
        return made
    if not callable(function):
        raise RegistrationError(f"tool {function!r}", "expected a function")
    return FunctionTool(function, **options)
