"""A tool: what a model can call, and how it is described.

Nothing here executes one: that is the runner's, so that no call goes round the handlers.
"""

from __future__ import annotations

import inspect
import re
from functools import cached_property, partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from toolbus.errors import FreezeError, RegistrationError, ToolNotRunError
from toolbus.events.catalogue import ToolSpec
from toolbus.messages import schemas
from toolbus.messages.immutable import EMPTY, thaw
from toolbus.tools.contexts import ToolContext
from toolbus.tools.functions import documentation, fixed, injected, routine
from toolbus.tools.signatures import Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from toolbus.messages.records import JsonObject

# As MCP has it (specification of 2025-11-25, tools, "Tool Names"), with "/" and ":" for namespaces.
_NAME = re.compile(r"[A-Za-z0-9_./:-]{1,128}")


class Tool:
    """Something that a model can call; a subclass writes `run`, sync or async.

    Name, description and schemas come from the class and from `run`'s signature and docstring,
    unless the class states them. *timeout* is in seconds; *idempotent* allows `Retry`; *lenient*
    takes "3" for 3 where no text is allowed.

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
    # Whether `run` is async and ends at once when it is cancelled: it needs no task of its own.
    in_place: ClassVar[bool] = False
    # Whether it only gives a task to others, whose own calls are dispatched on the caller's bus.
    delegates: ClassVar[bool] = False

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
        from toolbus.tools.docstrings import parse  # noqa: PLC0415 - its expressions are costly

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
                description=self.description or parse(self._documentation).description,
                input_schema=input_schema or EMPTY,
                output_schema=output_schema,
                annotations=self.annotations,
            )
        except FreezeError as error:
            raise RegistrationError(f"tool {name!r}", str(error)) from None

    @cached_property
    def is_async(self) -> bool:
        """Whether `run` must be awaited; a sync one runs in a thread."""
        return inspect.iscoroutinefunction(routine(self._function))

    def fit(self, arguments: JsonObject) -> tuple[dict[str, Any], str | None]:
        """Return *arguments* as `run` takes them, and why they do not fit or None.

        `run` may change them: they are private copies. The problem is about the tool's own
        schema, and names the JSON path.
        """
        if self._signature is not None:
            return self._signature.fit(arguments)
        if taken := next((name for name in self._reserved if name in arguments), None):
            return {}, f"unknown property `{taken}` - at `$`"
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
        return documentation(self._function) or class_text or ""

    @cached_property
    def _signature(self) -> Signature | None:
        return None if self.input_schema is not None else Signature(self._function, ToolContext)

    @cached_property
    def _injected(self) -> tuple[str, ...]:
        return injected(self._function, ToolContext)

    @cached_property
    def _reserved(self) -> frozenset[str]:
        """What no call may give, since the runner or a `partial` does."""
        return fixed(self._function).union(self._injected)

    def _problems(self, name: str) -> Iterator[str]:
        """Yield what is wrong with what the tool states of itself."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield "a name has 1 to 128 letters, digits or `_-./:`; give the tool a `name`"
        seconds = self.timeout
        if seconds is not None and not (type(seconds) in {int, float} and 0 < seconds < inf):
            yield f"timeout must be a positive number of seconds, not {seconds!r}"
        if not isinstance(self.idempotent, bool):
            yield f"idempotent must be True or False, not {self.idempotent!r}"
        if not isinstance(self.lenient, bool):
            yield f"lenient must be True or False, not {self.lenient!r}"
        run = routine(self._function)
        if inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run):
            yield "a generator gives no single result; return one"


def _schema_problems(input_schema: Any, output_schema: Any) -> Iterator[str]:
    """Yield what is wrong with the schemas of a tool."""
    for schema in (input_schema, output_schema):
        if schema is not None and (problem := schemas.check_schema(schema)):
            yield f"its schema is malformed: {problem}"
    if (kind := input_schema.get("type", "object")) != "object":
        yield f"arguments are an object, and its input schema says {kind!r}"
