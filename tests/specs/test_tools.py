"""The scenarios of `specs/tools.md`."""

import asyncio
import enum
import inspect
import logging
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import date
from functools import partial, update_wrapper, wraps
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
import typing_extensions
from msgspec import Meta

from toolbus import Agent, EventBus, Scope, TextPart, Tool, ToolResponse, ToolRunner, tool
from toolbus.errors import RegistrationError, ToolNotRunError
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.messages import ImagePart, Resource, ResourcePart, encode, schemas
from toolbus.messages.immutable import FrozenDict, freeze
from toolbus.models.scripted import ScriptedModel
from toolbus.tools import ToolContext, Toolset
from toolbus.tools import ToolContext as Context

SCOPE = Scope(agent_id="main", session_id="s-1", context={"user": "ann"})
IMAGE = ImagePart(data="aGk=", mime_type="image/png")
TEXT = TextPart(text="hello")
RESOURCE = ResourcePart(resource=Resource(uri="file:///a", text="a"))
OBJECT = freeze({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


class Word(str):
    __slots__ = ()


class Colour(enum.Enum):
    RED = "red"


class Mood(enum.StrEnum):
    CALM = "calm"


class Arguments(msgspec.Struct):
    depth: int = 1


@dataclass
class Point:
    x: int
    y: int


async def call(one, arguments=None, **options):
    """Return the outcome of calling the tool *one* past a bus without handlers."""
    toolset = Toolset([one])
    runner = ToolRunner(EventBus(), toolset, SCOPE, ids=lambda: "c-1", **options)
    return await runner.call(toolset.specs[0].name, arguments or {})


def returns(value):
    """Return a tool that gives back *value*."""

    @tool
    def give():
        return value

    return give


def raises(error):
    """Return a tool that raises *error*."""

    @tool
    def fail():
        raise error

    return fail


def refusal(function, *arguments, **options):
    """Return the text with which a registration is refused."""
    with pytest.raises(RegistrationError) as caught:
        function(*arguments, **options)
    return str(caught.value)


def test_a_function_becomes_a_tool():
    def read(path: str, lines: int = 10) -> str:
        """Read a file.

        Text only.
        """
        return f"{path} {lines}"

    made = tool(read)

    assert made.run is read
    assert made.spec.name == "read"
    assert made.spec.description == "Read a file.\n\nText only."
    assert made.spec.input_schema == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "default": 10}},
        "required": ("path",),
        "additionalProperties": False,
    }
    assert returns(None).spec.description == ""


def test_the_args_block_describes_the_parameters():
    def wide(path: str, lines: int, mode: str, rest: int = 0) -> str:
        """Read a file.

        Args:
            path: where it is,
                with its: directory
            lines (int, optional): how many

                of them
            mode: "r: text"
            no entry

        Returns:
            path: not this one.
        """

    def narrow(path: str, lines: int):
        """Read a file.

        Args:
          path: where
            it: is
          lines (tuple(int)): how many
        """

    def bare(path: str):
        """
        Args:
            path: where
        """

    specs = [tool(one).spec for one in (wide, narrow, bare)]

    texts = [
        {name: one.get("description") for name, one in spec.input_schema["properties"].items()}
        for spec in specs
    ]
    assert texts == [
        {
            "path": "where it is, with its: directory",
            "lines": "how many of them",
            "mode": '"r: text"',
            "rest": None,
        },
        {"path": "where it: is", "lines": "how many"},
        {"path": "where"},
    ]
    assert [spec.description for spec in specs] == ["Read a file.", "Read a file.", ""]


def test_other_docstring_formats_describe_the_parameters():
    def numpy(path: str, pattern: str, limit: int = 10, offset: int = 0) -> list[str]:
        """Search a file.

        Lines are searched one by one.

        Parameters
        ----------
        path : str
            Where the file is,
            relative to the project.
        pattern : {"glob", "regex"}, optional
            The expression.

            It is anchored: `^` is implied.
        limit, offset : int, default 10
            A number of lines.

        Returns
        -------
        list of str
            The lines.

        Notes
        -----
        path : str
            Not this one.
        """

    def sphinx(path: str, pattern: str, limit: int = 10, offset: int = 0):
        """Search a file.

        Lines are searched one by one.

        :param path: Where the file is,
            relative to the project.
        :type path: str
        :param str pattern: The expression.

            It is anchored: `^` is implied.
        :param Optional[int] limit: A number
        of lines.
        :returns: The lines.
        :raises OSError: if path: fails

        More.
        """

    specs = [tool(function).spec for function in (numpy, sphinx)]

    texts = [
        {
            name: schema.get("description")
            for name, schema in spec.input_schema["properties"].items()
        }
        for spec in specs
    ]
    first = {
        "path": "Where the file is, relative to the project.",
        "pattern": "The expression. It is anchored: `^` is implied.",
        "limit": "A number of lines.",
    }
    assert texts == [{**first, "offset": "A number of lines."}, {**first, "offset": None}]
    for spec in specs:
        assert spec.description == "Search a file.\n\nLines are searched one by one."


def test_meta_refines_a_parameter():
    def read(
        path: Annotated[str, Meta(description="from Meta", pattern="^/")],
        lines: Annotated[int, Meta(ge=1)],
    ):
        """Read.

        Args:
            path: from the block
            lines: how many
        """

    properties = tool(read).spec.input_schema["properties"]

    assert properties["path"] == {"type": "string", "description": "from Meta", "pattern": "^/"}
    assert properties["lines"] == {"type": "integer", "description": "how many", "minimum": 1}


def test_defaults_are_shown_and_not_required():
    nothing = object()

    def find(
        *,
        word: str,
        limit: int | None = None,
        tags: list[str] = ["a"],  # noqa: B006 - what a careless author writes
        options: Arguments = Arguments(),  # noqa: B008 - as above
        colour: Colour = Colour.RED,
        marker: Any = nothing,
        weight: float = float("nan"),
    ):
        """Find."""

    schema = tool(find).spec.input_schema

    defaults = {name: one.get("default", "-") for name, one in schema["properties"].items()}
    assert schema["required"] == ("word",)
    assert defaults == {
        "word": "-",
        "limit": None,
        "tags": ("a",),
        "options": {"depth": 1},
        "colour": "red",
        "marker": "-",
        "weight": "-",
    }


def test_named_types_become_definitions():
    def walk(how: Arguments):
        """Walk."""

    schema = tool(walk).spec.input_schema

    ((name, definition),) = schema["$defs"].items()
    assert schema["type"] == "object"
    assert schema["properties"] == {"how": {"$ref": f"#/$defs/{name}"}}
    assert definition["properties"] == {"depth": {"type": "integer", "default": 1}}


def test_the_return_hint_is_the_output_schema():
    kinds = (
        dict[str, int],
        list[int],
        str | dict[str, int],
        str,
        None,
        Any,
        object,
        TextPart,
        list[TextPart | ImagePart],
        tuple[ImagePart, ...],
        Annotated[str, "markdown"],
        str | None,
        ToolResponse,
    )

    schemas = []
    for kind in kinds:

        def give():
            """Give."""

        give.__annotations__["return"] = kind
        schemas.append(tool(give).spec.output_schema)

    assert schemas[:2] == [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "array", "items": {"type": "integer"}},
    ]
    assert schemas[2] is not None
    assert schemas[3:] == [None] * 10


def test_options_replace_the_function_s_own():
    def read(n: int) -> dict[str, int]:
        """Read a file."""
        return {"n": n}

    options = {
        "name": "fs.read",
        "description": "Reads.",
        "input_schema": OBJECT,
        "output_schema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "timeout": 3.5,
        "idempotent": True,
    }
    made = tool(**options)(read), tool(read, **options)

    for one in made:
        assert one.run is read
        assert one.spec.name == "fs.read"
        assert one.spec.description == "Reads."
        assert one.spec.input_schema == OBJECT
        assert one.spec.output_schema == {"type": "object"}
        assert one.spec.annotations == {"readOnlyHint": True}
        assert (one.timeout, one.idempotent) == (3.5, True)


async def test_a_given_schema_replaces_the_signature():
    @tool(input_schema=OBJECT)
    def anything(**arguments):
        return arguments

    fits = await call(anything, {"n": 1, "m": [2]})
    fails = await call(anything, {"n": "one"})

    assert anything.spec.output_schema is None
    assert fits.response.structured == {"n": 1, "m": (2,)}
    assert fails.status == "invalid_arguments"
    assert fails.response.text == "invalid arguments: expected integer, got string - at `$.n`"


class Files:
    """Reads files below a root."""

    def __init__(self, root: str) -> None:
        self.root = root

    def read(self, path: str) -> str:
        """Read one."""
        return f"{self.root}/{path}"

    @tool
    def size(self, path: str) -> int:
        """Measure one."""
        return len(path)

    def __call__(self, path: str) -> str:
        return self.read(path)


class Later:
    async def __call__(self, n: int) -> int:
        """Count on, later."""
        await asyncio.sleep(0)
        return n + 1


async def test_a_decorated_function_stays_callable():
    @tool(name="twice.it")
    def twice(n: int, *, times: int = 2) -> int:
        """Take it twice."""
        return n * times

    @tool
    async def later(n: int) -> int:
        return n

    @tool
    def who(context: ToolContext[str]) -> str:
        return context.deps

    assert (twice(3), twice(3, times=3), await later(3)) == (6, 9, 3)
    assert Files("/").size("abc") == Files.size(Files("/"), "abc") == 3
    assert who(ToolContext(deps="ann")) == "ann"
    coroutine = later(n=1)
    assert asyncio.iscoroutine(coroutine)
    coroutine.close()
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        twice()
    assert (twice.__name__, twice.__doc__, twice.name) == ("twice", "Take it twice.", "twice.it")
    assert twice.__wrapped__ is twice.run
    assert inspect.signature(twice) == inspect.signature(twice.run)
    with pytest.raises(ToolNotRunError):
        twice.execute(3)


async def test_other_callables_are_tools():
    @tool(timeout=3)
    async def find(word: str, limit: int = 5) -> str:
        """Find a word."""
        return f"{word} {limit}"

    made = [
        tool(Files("/a").read),
        tool(Files("/b")),
        tool(Later()),
        tool(partial(find.run, limit=1)),
        tool(partial(find, limit=2)),
        tool(find, name="search", idempotent=True),
    ]

    outcomes = [
        await call(one, {one.spec.input_schema["required"][0]: 1 if one is made[2] else "x"})
        for one in made
    ]
    assert [(one.spec.name, one.spec.description) for one in made] == [
        ("read", "Read one."),
        ("Files", "Reads files below a root."),
        ("Later", "Count on, later."),
        ("find", "Find a word."),
        ("find", "Find a word."),
        ("search", "Find a word."),
    ]
    assert [list(one.spec.input_schema["properties"]) for one in made] == [
        ["path"],
        ["path"],
        ["n"],
        ["word"],
        ["word"],
        ["word", "limit"],
    ]
    answers = [one.response.structured or one.response.text for one in outcomes]
    assert answers == ["/a/x", "/b/x", 2, "x 1", "x 2", "x 5"]
    assert [one.is_async for one in made] == [False, False, True, True, False, True]
    assert (made[-1].timeout, made[-1].idempotent, find.idempotent) == (3, True, False)


async def test_partial_arguments_are_fixed():
    def read(root: str, path: str, token: str = "none", context: Context | None = None) -> str:
        """Read."""
        return f"{root}/{path} {token} {context and context.call_id}"

    def free(**arguments):
        return " ".join(f"{name}={value}" for name, value in sorted(arguments.items()))

    @wraps(read)
    def wrapper(*args, **kwargs):
        return read(*args, **kwargs)

    safe = [
        partial(read, "/safe", token="secret"),
        partial(partial(read, root="/safe"), token="secret"),
        partial(tool(partial(read, "/safe")), token="secret"),
        partial(wrapper, root="/safe", token="secret"),
        update_wrapper(partial(read, "/safe", token="secret"), read),
    ]
    taken = tool(partial(free, root="/safe"), input_schema={"type": "object"})
    unbound = tool(partial(read, "/safe", context=None), name="unbound")

    for one in map(tool, safe):
        assert list(one.spec.input_schema["properties"]) == ["path"]
        assert b"safe" not in msgspec.json.encode(one.spec)
        assert b"secret" not in msgspec.json.encode(one.spec)
        outcome = await call(one, {"path": "x"})
        assert outcome.response.text == "/safe/x secret c-1"
        for name in ("root", "token", "context"):
            outcome = await call(one, {"path": "x", name: "/"})
            assert outcome.status == "invalid_arguments", name
    assert (await call(taken, {"a": 1})).response.text == "a=1 root=/safe"
    outcome = await call(taken, {"a": 1, "root": "/"})
    assert outcome.response.text == "invalid arguments: unknown property `root` - at `$`"
    assert (await call(unbound, {"path": "x"})).response.text == "/safe/x none None"


def test_a_spec_can_be_reworded():
    def search(text: str, tenant: str, limit: int = 10) -> str:
        """Search."""
        return f"{text} {tenant} {limit}"

    spec = tool(search).spec
    plain = spec.with_input_schema({"type": "object"})

    described = spec.with_description("Search files.")
    shorter = spec.without_parameters("tenant", "limit", "unknown")

    assert described == msgspec.structs.replace(spec, description="Search files.")
    assert plain == msgspec.structs.replace(spec, input_schema={"type": "object"})
    assert shorter.input_schema["required"] == ("text",)
    assert shorter.input_schema["properties"] == {"text": spec.input_schema["properties"]["text"]}
    assert (shorter.name, shorter.description) == (spec.name, spec.description)
    assert plain.without_parameters("tenant") == plain
    assert spec == tool(search).spec


def test_a_parameter_without_hint_is_refused():
    def read(path, lines: int):
        """Read."""

    text = refusal(tool, read)

    assert text == (
        f"tool {read.__qualname__!r}: parameter 'path' has no type hint, so its schema is unknown"
    )


def test_parameters_without_names_are_refused():
    def values(*paths: str): ...
    def names(**options: str): ...
    def position(path: str, /): ...

    texts = [refusal(tool, one) for one in (values, names, position)]

    assert [text.partition(": ")[2] for text in texts] == [
        "parameter 'paths' takes any number of values; make it one list",
        "parameter 'options' takes any names; give the tool an `input_schema`",
        "parameter 'path' is positional-only, and calls name their arguments",
    ]


def test_hints_beyond_json_are_refused():
    def takes(lock: threading.Event): ...
    def gives() -> threading.Event: ...
    def mixed(one: set[str] | list[str]): ...
    def missing(path: "Missing"): ...  # noqa: F821 - that is the case
    def broken(path: "1 +"): ...  # noqa: F722 - that is the case
    def field(n: int = pydantic.Field(3)): ...

    texts = [refusal(tool, one) for one in (takes, gives, mixed, missing, broken, field)]

    start = "a type hint is not a JSON type: "
    array = (
        "Type unions may not contain more than one array-like (list, set, tuple) type - "
        "type `set[str] | list[str]` is not supported"
    )
    assert [text.partition(": ")[2] for text in texts] == [
        f"{start}type <class 'threading.Event'> is not supported",
        f"{start}type <class 'threading.Event'> is not supported",
        f"{start}{array}",
        "its type hints cannot be read: name 'Missing' is not defined",
        "its type hints cannot be read: Forward reference must be an expression -- got '1 +'",
        "parameter 'n' has a `Field` as its default; write `Annotated[…, Field(…)] = …`",
    ]


def test_unknown_options_are_refused():
    text = refusal(tool, timeuot=3, retries=2)

    same = refusal(tool, print, run=print)

    assert text == "@tool: unknown options: retries, timeuot"
    assert same == "@tool: unknown options: run"


def test_unusable_options_are_refused():
    def read(n: int):
        """Read."""

    number = "timeout must be a positive number of seconds, not"
    name = "a name has 1 to 128 letters, digits or `_-./:`; give the tool a `name`"
    wrong = [
        ({"timeout": 0}, f"{number} 0"),
        ({"timeout": -1.5}, f"{number} -1.5"),
        ({"timeout": "3"}, f"{number} '3'"),
        ({"timeout": True}, f"{number} True"),
        ({"timeout": float("nan")}, f"{number} nan"),
        ({"timeout": float("inf")}, f"{number} inf"),
        ({"idempotent": "no"}, "idempotent must be True or False, not 'no'"),
        ({"name": "read file"}, name),
        ({"name": "x" * 129}, name),
        ({"name": 5}, name),
        ({"description": 5}, "expected text, got `int` - at `$.description`"),
        ({"annotations": [1]}, "expected object, got `list` - at `$.annotations`"),
        ({"input_schema": {"type": "strnig"}}, "its schema is malformed: "),
        ({"output_schema": {"required": "n"}}, "its schema is malformed: "),
        (
            {"input_schema": {"type": "string"}},
            "the type of an input schema must be 'object', not 'string'",
        ),
    ]

    texts = [refusal(tool, read, **options) for options, _ in wrong]

    for (options, expected), text in zip(wrong, texts, strict=True):
        assert text.startswith(f"tool {options.get('name', 'read')!r}: {expected}")
    assert tool(read, timeout=1).timeout == 1
    assert tool(read, name="x" * 128, input_schema={}).spec.input_schema == {}


def test_objects_other_than_functions_are_refused():
    class Reader(Tool):
        def run(self): ...

    def numbers() -> Any:
        yield 1

    async def later() -> Any:
        yield 1

    texts = [refusal(tool, one) for one in (Reader, 5, numbers, later, partial(later))]
    nameless = refusal(tool, lambda: 1)
    no_signature = refusal(tool, min)

    assert texts == [
        "tool 'Reader': it is a class; give an instance, `Reader(…)`",
        "tool 5: expected a function",
        "tool 'numbers': a generator gives no single result; return one value",
        "tool 'later': a generator gives no single result; return one value",
        "tool 'later': a generator gives no single result; return one value",
    ]
    assert nameless.startswith("tool '<lambda>': a name has 1 to 128 letters")
    assert no_signature.startswith("tool 'min': no signature found")


def test_the_context_is_not_a_parameter():
    def alone(path: str, context: Context): ...
    def optional(path: str, context: Context | None = None): ...
    def free(context: Context, **rest): ...

    made = [tool(alone), tool(optional), tool(free, input_schema=OBJECT)]

    properties = [list(one.spec.input_schema["properties"]) for one in made]
    assert properties == [["path"], ["path"], ["n"]]


async def test_the_context_has_scope_and_call():
    seen = []

    def blocking(context: Context):
        seen.append((context.scope, context.call_id))

    async def waiting(context: Context | None = None):
        seen.append((context.scope, context.call_id))

    def free(context: Context, **rest):
        seen.append((context.scope, context.call_id, rest))

    await call(blocking)
    await call(waiting)
    await call(tool(free, input_schema=OBJECT), {"n": 1})

    assert seen == [(SCOPE, "c-1"), (SCOPE, "c-1"), (SCOPE, "c-1", {"n": 1})]


async def test_progress_reaches_the_caller():
    told = []

    def work(context: Context):
        context.progress("begun")
        context.progress("half", 0.5)

    await call(work, progress=lambda *facts: told.append(facts))

    assert told == [("c-1", "begun", None), ("c-1", "half", 0.5)]


async def test_progress_without_a_receiver_is_logged(caplog):
    caplog.set_level(logging.DEBUG, "toolbus")

    def work(context: Context):
        context.progress("half", 0.5)

    await call(work)

    assert caplog.record_tuples == [("toolbus", logging.DEBUG, "tool call c-1: half (0.5)")]


async def test_a_failing_receiver_harms_no_tool(caplog):
    def work(context: Context):
        context.progress("half", 0.5)
        return "done"

    def broken(call_id, text, part):
        raise ValueError(text)

    outcome = await call(work, progress=broken)

    message = "the progress of tool call c-1 could not be reported"
    assert outcome.response.text == "done"
    assert caplog.record_tuples == [("toolbus", logging.ERROR, message)]
    assert caplog.records[0].exc_info[0] is ValueError


class Database:
    """What a program hands its tools: nothing of it is JSON."""

    def __init__(self, name: str = "main") -> None:
        self.name = name


async def test_deps_reach_tools_as_they_are():
    deps, seen = Database(), []

    def blocking(n: int, context: ToolContext[Database]):
        seen.append(context.deps)

    async def waiting(context: Annotated[ToolContext[Database], "for us"]):
        seen.append(context.deps)

    async def outer(context: ToolContext[Database] | None = None):
        seen.append(context.deps)
        await context.call("waiting")

    toolset = Toolset([blocking, waiting, outer])
    runner = ToolRunner(EventBus(), toolset, deps=deps)
    outcomes = [await runner.call("blocking", {"n": 1}), await runner.call("outer")]

    assert [outcome.status for outcome in outcomes] == ["ok", "ok"]
    assert [one is deps for one in seen] == [True] * 3
    properties = [list(one.input_schema["properties"]) for one in toolset.specs]
    assert properties == [["n"], [], []]


async def test_deps_may_be_none():
    @tool
    def read(context: Context) -> str:
        return repr(context.deps)

    outcome = await call(read, deps=None)

    assert outcome.response.text == "None"


async def test_missing_deps_are_named():
    @tool
    def read(context: Context) -> str:
        return repr(context.deps)

    outcome = await call(read)

    assert outcome.status == "error"
    assert outcome.response.text == (
        "tool context: no deps were given; use `deps=` of `Agent`, `agent.run` or `ToolRunner`"
    )


async def test_a_context_can_be_created_for_tests():
    deps = Database()

    context = ToolContext[Database](deps=deps)
    context.progress("half", 0.5)

    assert context.deps is deps
    assert context.scope == Scope()
    with pytest.raises(ToolNotRunError, match=r"tool 'echo' .* ToolRunner"):
        await context.call("echo")


async def test_json_becomes_the_annotated_types():
    got = []

    def take(day: date, colour: Colour, tags: set[str], point: Point):
        got.extend([day, colour, tags, point])

    arguments = {
        "day": "2026-02-03",
        "colour": "red",
        "tags": ["a", "b"],
        "point": {"x": 1, "y": 2},
    }
    await call(take, arguments)

    assert got == [date(2026, 2, 3), Colour.RED, {"a", "b"}, Point(1, 2)]


class Options(TypedDict):
    depth: int
    tags: NotRequired[list[str]]


class Span(NamedTuple):
    first: int
    last: int = 9


async def test_each_kind_of_type_has_its_schema():
    seen = []

    @tool
    def take(
        *,
        point: Point,
        record: Arguments,
        options: Options,
        span: Span,
        mood: Mood,
        mode: Literal["r", "w"] = "r",
        points: list[Point] | None = None,
    ) -> Point:
        seen.append((point, record, options, span, mood, mode, points))
        return point

    outcome = await call(
        take,
        {
            "point": {"x": 1, "y": "2"},
            "record": {},
            "options": {"depth": 1},
            "span": [3],
            "mood": "calm",
            "points": [{"x": 1, "y": 2}],
        },
    )

    points = [Point(1, 2)]
    assert seen == [(points[0], Arguments(), {"depth": 1}, Span(3), Mood.CALM, "r", points)]
    assert outcome.response.structured == {"x": 1, "y": 2}
    schema = take.spec.input_schema
    required = {name.split(".")[-1]: one.get("required") for name, one in schema["$defs"].items()}
    assert required == {
        "Point": ("x", "y"),
        "Arguments": (),
        "Options": ("depth",),
        "Span": None,
        "Mood": None,
    }
    assert schema["properties"]["mode"] == {"enum": ("r", "w"), "default": "r"}
    assert schemas.problem(schema, outcome.executed.arguments) is None
    assert schemas.problem(take.spec.output_schema, outcome.response.structured) is None


@dataclass
class Copy:
    source: Path
    targets: list[Path]


async def test_paths_are_text_in_json():
    seen = []

    @tool
    def take(
        *,
        path: Path,
        other: str | Path,
        pure: PurePosixPath | None,
        copy: Copy,
        many: dict[str, list[Path | str]],
        start: Path = Path("src"),
    ) -> Path:
        seen.append((path, other, pure, copy, many, start))
        return path / "b"

    @tool
    def collect() -> list[Path]:
        return [Path("a"), Path("b")]

    arguments = {
        "path": "a",
        "other": "b",
        "pure": "/c",
        "copy": {"source": "d", "targets": ["e"]},
        "many": {"k": ["f"]},
    }
    taken = await call(take, arguments)
    invalid = await call(take, {**arguments, "copy": {"source": "d", "targets": ["e", 1]}})
    collected = await call(collect)
    held = await call(returns({"copy": Copy(Path("a"), []), Path("k"): 1}))

    copy = Copy(Path("d"), [Path("e")])
    assert seen == [(Path("a"), "b", PurePosixPath("/c"), copy, {"k": ["f"]}, Path("src"))]
    assert invalid.status == "invalid_arguments"
    assert "expected `str`, got `int` - at `$.copy.targets[1]`" in invalid.response.text
    properties, text = take.spec.input_schema["properties"], {"type": "string"}
    assert properties["path"] == properties["other"] == text
    assert properties["pure"] == {"anyOf": (text, {"type": "null"})}
    assert properties["start"] == {**text, "default": "src"}
    assert take.spec.output_schema is None
    assert (taken.response.text, taken.response.structured) == ("a/b", None)
    assert collect.spec.output_schema == {"type": "array", "items": text}
    assert collected.response.structured == ("a", "b")
    assert held.response.structured == {"copy": {"source": "a", "targets": ()}, "k": 1}


class Address(pydantic.BaseModel):
    """Where somebody lives."""

    city: str
    zip_code: str = pydantic.Field(alias="zip", pattern="^[0-9]+$")


class User(pydantic.BaseModel):
    """Somebody."""

    name: str
    born: date
    address: Address | None = None
    friends: "list[User]" = []

    @pydantic.field_validator("name")
    @classmethod
    def check(cls, name):
        if name == "root":
            raise ValueError("that one is taken")
        return name


class Team(typing_extensions.TypedDict):
    users: list[User]


@dataclass
class Pair:
    left: User
    right: Address


async def test_pydantic_models_are_arguments_and_results():
    seen = []

    @tool
    def add(
        *,
        user: User,
        others: list[User | Address],
        team: Team,
        pair: Pair,
        level: Annotated[int, pydantic.Field(gt=0, description="how high")] = 1,
        home: Address = Address(city="Bonn", zip="53111"),  # noqa: B008 - a default to be shown
        plain: int = 3,
    ) -> dict[str, User]:
        """Add somebody.

        Args:
            user: who comes
        """
        seen.append((user, others, team, pair, level))
        return {"user": user}

    @tool
    def same(address: Address):
        return [address, {"in": address}]

    ann = {"name": "Ann", "born": "2001-02-03", "friends": [{"name": "Bob", "born": "2000-01-01"}]}
    home = {"city": "Bonn", "zip": "1"}
    outcome = await call(
        add,
        {
            "user": ann,
            "others": [ann, home],
            "team": {"users": [ann]},
            "pair": {"left": ann, "right": home},
        },
    )

    user, address = User.model_validate(ann), Address(city="Bonn", zip="1")
    assert seen == [(user, [user, address], {"users": [user]}, Pair(user, address), 1)]
    dumped = user.model_dump(mode="json", by_alias=True)
    assert outcome.response.structured == freeze({"user": dumped})
    schema = add.spec.input_schema
    assert schema["properties"]["user"]["description"] == "who comes"
    level = {"type": "integer", "exclusiveMinimum": 0, "description": "how high", "default": 1}
    assert schema["properties"]["level"] == level
    assert schema["properties"]["home"]["default"] == {"city": "Bonn", "zip": "53111"}
    assert schema["required"] == ("user", "others", "team", "pair")
    assert set(schema["$defs"]) >= {"User", "Address"}
    assert schemas.problem(schema, outcome.executed.arguments) is None
    assert schemas.problem(add.spec.output_schema, outcome.response.structured) is None
    outcome = await call(same, {"address": home})
    assert outcome.response.structured == ({"city": "Bonn", "zip": "1"}, {"in": home})
    assert same.spec.output_schema is None


async def test_pydantic_accepts_only_its_schema():
    class Lax(pydantic.BaseModel):
        n: int = 0
        on: bool = False
        text: str = ""
        ratio: float = 0.0

    seen, judged = [], []

    @tool
    def take(lax: Lax | None = None, user: User | None = None):
        seen.append(lax)

    bus = EventBus()
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: judged.append(ctx.value.arguments))
    runner = ToolRunner(bus, Toolset([take]))

    for value in ({"n": " 3"}, {"n": 3.5}, {"on": 1}, {"on": "yes"}, {"ratio": "1e3"}, {"text": 1}):
        outcome = await runner.call("take", {"lax": value})
        assert outcome.status == "invalid_arguments", value
        assert f" - at `$.lax.{next(iter(value))}`" in outcome.response.text
    outcome = await runner.call("take", {"user": {"name": "root", "born": "2001-01-01"}})
    told = "invalid arguments: value error, that one is taken - at `$.user.name`"
    assert outcome.response.text == told
    outcome = await runner.call("take", {"user": {"name": "Ann", "born": "a secret"}})
    assert outcome.status == "invalid_arguments"
    assert "secret" not in outcome.response.text
    assert seen == []
    await runner.call("take", {"lax": {"n": "3", "on": "true", "text": "4"}})
    await runner.call("take", {"lax": '{"n": "5"}'})
    assert seen == [Lax(n=3, on=True, text="4"), Lax(n=5)]
    assert judged[-2:] == [{"lax": {"n": 3, "on": True, "text": "4"}}, {"lax": {"n": 5}}]


def test_pydantic_is_never_loaded():
    program = """
import asyncio, sys
from dataclasses import dataclass
from toolbus import EventBus, Toolset, ToolRunner, tool

@dataclass
class Point:
    x: int

@tool
def give(point: Point) -> Point:
    return point

@tool
def fail():
    return object()

runner = ToolRunner(EventBus(), Toolset([give, fail]))
print(asyncio.run(runner.call("give", {"point": {"x": "1"}})).status)
print(asyncio.run(runner.call("fail")).response.error_type, "pydantic" in sys.modules)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["ok", "invalid_result", "False"]


async def test_absent_arguments_leave_the_defaults():
    marker, got = object(), []

    def take(n: int, tags: list[str] = ["a"], mark: Any = marker):  # noqa: B006 - the case
        got.extend([n, tags, mark])

    await call(take, {"n": 1})

    assert got == [1, ["a"], marker]


async def test_a_tool_may_change_its_arguments():
    def typed(options: dict[str, Any]):
        options["inner"]["list"].append(2)
        return options

    def free(options):
        options["inner"]["list"].append(2)
        return options

    arguments = {"options": {"inner": {"list": [1]}}}
    outcomes = [
        await call(typed, arguments),
        await call(tool(free, input_schema={"type": "object"}), arguments),
    ]

    for outcome in outcomes:
        assert outcome.response.structured == {"inner": {"list": (1, 2)}}
        assert outcome.executed.arguments == {"options": {"inner": {"list": (1,)}}}


async def test_the_types_own_checks_count():
    @dataclass
    class Even:
        n: int

        def __post_init__(self):
            if self.n % 2:
                raise ValueError("N is odd")
            if self.n < 0:
                raise KeyError("N is negative")

    def take(even: Even):
        return even.n

    take.__annotations__["even"] = Even
    odd = await call(take, {"even": {"n": 1}})
    negative = await call(take, {"even": {"n": -2}})
    good = await call(take, {"even": {"n": 2}})

    assert (odd.status, negative.status, good.status) == (
        "invalid_arguments",
        "invalid_arguments",
        "ok",
    )
    assert odd.response.text == "invalid arguments: n is odd - at `$.even`"
    assert negative.response.text == "invalid arguments: keyError: 'N is negative' - at `$`"


async def test_a_subclass_writes_run():
    class Documented(Tool):
        """Of the class."""

        def run(self, path: str) -> str:
            """Of run.

            Args:
                path: where
            """
            return f"read {path}"

    class OfClass(Tool):
        """Of the class."""

        async def run(self):
            return "ran"

    class Silent(OfClass):
        pass

    specs = [one.spec for one in (Documented(), OfClass(), Silent())]
    outcome = await call(Documented(), {"path": "x"})

    assert [(spec.name, spec.description) for spec in specs] == [
        ("Documented", "Of run."),
        ("OfClass", "Of the class."),
        ("Silent", ""),
    ]
    assert specs[0].input_schema["properties"] == {
        "path": {"type": "string", "description": "where"}
    }
    assert outcome.response.text == "read x"
    assert (await call(Silent())).response.text == "ran"


def test_attributes_define_a_tool():
    class Read(Tool):
        name = "read"
        description = "Read a file."
        input_schema = OBJECT
        output_schema = FrozenDict({"type": "object"})
        annotations = FrozenDict({"title": "Read"})
        timeout = 2

        def run(self, **arguments):
            """Not this."""

    class Hasty(Read):
        timeout = 0

    spec = Read().spec

    assert (spec.name, spec.description) == ("read", "Read a file.")
    assert (spec.input_schema, spec.output_schema) == (OBJECT, {"type": "object"})
    assert spec.annotations == {"title": "Read"}
    assert refusal(Toolset, [Hasty()]) == (
        "tool 'read': timeout must be a positive number of seconds, not 0"
    )


def test_a_class_cannot_override_execute():
    class Mixin:
        def execute(self):
            """Go round the handlers."""

    texts = [
        refusal(type, "Sly", (Tool,), {"execute": lambda self: None}),
        refusal(type, "Mixed", (Mixin, Tool), {}),
    ]

    reason = "`execute` is final, so that no call bypasses the handlers; write `run`"
    assert texts == [f"tool class 'Sly': {reason}", f"tool class 'Mixed': {reason}"]


def test_a_tool_cannot_be_executed_directly():
    ran = []

    class Note(Tool):
        def run(self):
            ran.append(self)

    @tool
    def write(text: str):
        ran.append(text)

    for one, arguments in ((Note(), {}), (write, {"text": "x"})):
        with pytest.raises(ToolNotRunError) as caught:
            one.execute(**arguments)
        assert str(caught.value) == (
            f"tool {one.spec.name!r} cannot run without a runner and its guards; "
            "use `await ToolRunner(bus, toolset, scope).call(name, arguments)`"
        )
        assert caught.value.name == one.spec.name
    assert ran == []


def test_a_class_without_run_is_refused():
    class Empty(Tool):
        """Does nothing."""

    text = refusal(Toolset().add, Empty())

    assert text == "tool class 'Empty': it has no `run`"


def test_two_tools_of_one_name_are_refused():
    first, second = returns(1), returns(2)
    toolset = Toolset([first])

    text = refusal(toolset.add, second)

    assert text == "tool 'give': the name is already in use"
    assert list(toolset) == [first]


def test_a_plain_function_becomes_a_tool():
    def read(path: str) -> str:
        """Read."""
        return path

    toolset = Toolset()

    added = toolset.add(read)

    assert added.run is read
    assert toolset.get("read") is added
    assert toolset.get("write") is None


def test_tools_keep_the_order_of_addition():
    names = ["write", "read", "ask"]
    toolset = Toolset()

    added = [toolset.add(tool(lambda: None, name=name)) for name in names]

    assert list(toolset) == added
    assert [spec.name for spec in toolset.specs] == names
    assert len(toolset) == 3


async def test_a_removed_tool_finishes_its_calls():
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def give():
        begun.set()
        await go_on.wait()
        return "first"

    toolset = Toolset([give])
    runner = ToolRunner(EventBus(), toolset)
    waiting = asyncio.ensure_future(runner.call("give"))
    await begun.wait()

    toolset.remove("give")
    toolset.add(returns("second"))
    go_on.set()

    assert (await waiting).response.text == "first"
    assert (await runner.call("give")).response.text == "second"


def test_removing_an_unknown_tool_is_ignored():
    toolset = Toolset([returns(1)])

    toolset.remove("other")

    assert len(toolset) == 1


async def test_a_tool_can_be_hidden():
    switch, toolset = [True], Toolset()
    added = toolset.add(returns("here"), offered=lambda: switch[0])
    runner = ToolRunner(EventBus(), toolset)
    shown = await runner.call("give")

    switch[0] = False
    hidden = await runner.call("give")

    assert shown.response.text == "here"
    assert hidden.status == "unknown_tool"
    assert (list(toolset), toolset.specs, len(toolset), toolset.get("give")) == ([], (), 0, None)
    switch[0] = True
    assert toolset.get("give") is added


def test_an_included_toolset_is_updated():
    first, second, third = [tool(lambda: None, name=name) for name in ("a", "b", "c")]
    other = Toolset([second])
    toolset = Toolset([first, other])
    agent = Agent(ScriptedModel([]), tools=other)

    other.add(third)
    other.remove("b")

    assert list(toolset) == [first, third]
    assert list(agent.tools) == [third]
    assert (toolset.get("b"), toolset.get("c"), agent.tools.get("c")) == (None, third, third)


def test_an_included_name_is_unique(caplog):
    first, second = returns(1), returns(2)
    toolset, other = Toolset([first]), Toolset([second])
    including = Toolset([other])

    texts = [refusal(toolset.include, other), refusal(including.add, first)]
    later = Toolset()
    toolset.include(later)
    later.add(second)

    assert texts[0] == ("tool 'give': the name is already in use; give one of the sets a prefix")
    assert texts[1] == "tool 'give': the name is already in use"
    assert (list(toolset), toolset.get("give")) == ([first], first)
    assert list(including) == [second]

    rival = Toolset()
    rival.source = "rival"
    including.include(rival)
    rival.add(returns(3))
    assert [list(including), list(including), including.get("give")] == [[], [], None]
    assert [record.getMessage() for record in caplog.records] == [
        "tool 'give' is left out: '', 'rival' all have it; give one of the sets a prefix"
    ]
    rival.remove("give")
    assert including.get("give") is second


async def test_text_becomes_a_text_part():
    values = ("hello", "", Word("sub"), Mood.CALM)

    responses = [(await call(returns(value))).response for value in values]

    assert [one.content for one in responses] == [
        (TextPart(text="hello"),),
        (TextPart(text=""),),
        (TextPart(text="sub"),),
        (TextPart(text="calm"),),
    ]
    assert [type(one.content[0].text) for one in responses] == [str] * 4
    assert all(encode(one) for one in responses)
    assert not any(one.is_error or one.structured for one in responses)


async def test_parts_become_the_content():
    values = (IMAGE, [TEXT, IMAGE], (RESOURCE, TEXT))

    responses = [(await call(returns(value))).response for value in values]

    assert [one.content for one in responses] == [(IMAGE,), (TEXT, IMAGE), (RESOURCE, TEXT)]
    assert [one.structured for one in responses] == [None] * 3


async def test_texts_among_parts_are_parts():
    class Word(str):
        __slots__ = ()

    mixed = (["a chart", IMAGE], (Word("a"), TEXT, "b\ud800"), [IMAGE, ""])
    kinds = (
        list[str | ImagePart],
        list[TextPart | str | ImagePart],
        tuple[str, ImagePart],
        tuple[str | ImagePart, ...],
    )

    responses = [(await call(returns(value))).response for value in mixed]
    plain = [(await call(returns(value))).response for value in (["a", "b"], ("a",))]
    schemas = []
    for kind in (*kinds, list[str], list[str | int | ImagePart]):

        def give():
            """Give."""

        give.__annotations__["return"] = kind
        schemas.append(tool(give).spec.output_schema)

    assert [one.content for one in responses] == [
        (TextPart(text="a chart"), IMAGE),
        (TextPart(text="a"), TEXT, TextPart(text="b\ufffd")),
        (IMAGE, TextPart(text="")),
    ]
    assert [one.structured for one in responses] == [None] * 3
    assert [one.structured for one in plain] == [("a", "b"), ("a",)]
    assert schemas[:4] == [None] * 4
    assert None not in schemas[4:]


async def test_other_values_become_structured_data():
    values = (
        {"a": [1]},
        [],
        [TEXT, 1],
        0,
        False,
        Arguments(),
        Point(1, 2),
        {3: 4},
        date(2026, 1, 2),
    )

    responses = [(await call(returns(value))).response for value in values]

    assert [one.structured for one in responses] == [
        {"a": (1,)},
        (),
        ({"type": "text", "text": "hello"}, 1),
        0,
        False,
        {"depth": 1},
        {"x": 1, "y": 2},
        {"3": 4},
        "2026-01-02",
    ]
    assert [one.content for one in responses] == [()] * len(values)


async def test_none_is_an_empty_response():
    outcome = await call(returns(None))

    response = outcome.response
    assert outcome.status == "ok"
    assert (response.content, response.structured, response.is_error) == ((), None, False)


async def test_a_returned_response_keeps_its_content():
    given = ToolResponse(
        content=[TEXT],
        structured={"a": 1},
        tool_name="other",
        tool_call_id="c-9",
        parameters={"x": 1},
        duration_ns=-5,
        metadata={"rows": 3},
    )

    response = (await call(returns(given), clock=iter([7, 12]).__next__)).response

    assert (response.content, response.structured) == ((TEXT,), {"a": 1})
    assert response.metadata == {"rows": 3}
    assert (response.tool_name, response.tool_call_id) == ("give", "c-1")
    assert (response.parameters, response.duration_ns) == ({}, 5)


async def test_a_result_other_than_json_is_an_error():
    values = (threading.Event(), {"a": [float("nan")]}, {"n": 2**70})

    outcomes = [await call(returns(value)) for value in values]

    assert {one.status for one in outcomes} == {"error"}
    assert {one.response.error_type for one in outcomes} == {"invalid_result"}
    assert all(one.response.is_error and one.executed for one in outcomes)
    start = "the tool's result is not JSON: "
    assert all(one.response.text.startswith(start) for one in outcomes)
    assert [one.response.text.removeprefix(start) for one in outcomes] == [
        "Encoding objects of type Event is unsupported",
        "nan is not a JSON number - at `$.structured.a[0]`",
        "an integer of 71 bits does not fit into 64 - at `$.structured.n`",
    ]


async def test_an_unpaired_surrogate_is_replaced():
    cut = "a\ud83d", "\ude00b\udc80", "\ud83d\ude00"

    texts = [(await call(returns(text))).response for text in cut]
    (mixed,) = [(await call(returns({"k\udc80": [*cut, 1]}))).response]

    mended = ["a\ufffd", "\ufffdb\ufffd", "\U0001f600"]
    assert [one.text for one in texts] == mended
    assert mixed.structured == {"k\ufffd": (*mended, 1)}
    assert not any(one.is_error for one in (*texts, mixed))


async def test_an_exception_always_becomes_text():
    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    errors = (ValueError("a\udc80"), ValueError(), Unspeakable())

    outcomes = [await call(raises(error)) for error in errors]

    assert [(one.response.text, one.response.error_type) for one in outcomes] == [
        ("a\\udc80", "ValueError"),
        ("ValueError", "ValueError"),
        ("Unspeakable", "Unspeakable"),
    ]
    assert all(encode(one.response) for one in outcomes)


async def test_an_exception_group_names_its_leaves():
    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    class E(Exception):
        pass

    async def save():
        raise OSError("disk full")

    @tool
    async def save_all():
        async with asyncio.TaskGroup() as group:
            group.create_task(save())

    inner = ExceptionGroup("inner", [E(), Unspeakable()])
    nested = ExceptionGroup("outer", [KeyError("k"), inner, OSError("last")])
    many = ExceptionGroup("many", [E(str(n)) for n in range(8)])

    outcomes = [await call(each) for each in (save_all, raises(nested), raises(many))]

    assert [outcome.response.text for outcome in outcomes] == [
        "unhandled errors in a TaskGroup (1 sub-exception): OSError: disk full",
        "outer (3 sub-exceptions): KeyError: 'k'; E: E; Unspeakable: Unspeakable; OSError: last",
        "many (8 sub-exceptions): E: 0; E: 1; E: 2; E: 3; E: 4; and 3 more",
    ]
    assert {outcome.response.error_type for outcome in outcomes} == {"ExceptionGroup"}
