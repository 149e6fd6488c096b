"""The scenarios of `specs/structured_output.md`."""

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest
from msgspec import Meta, Struct
from msgspec.structs import replace
from pydantic import BaseModel, Field
from tests.servers.fake_provider import WIRES, Reply
from tests.servers.providers import MESSAGES, RESPONSES, check_request, provider

from toolbus import Agent, AssistantMessage, Deny, ToolCall, tool
from toolbus.errors import ModelError, OutputError, RegistrationError, RunStatusError
from toolbus.events import (
    CATALOGUE,
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_BEFORE,
    RUN_AFTER,
    RUN_ERROR,
    RunResult,
)
from toolbus.messages import decoder, encode
from toolbus.models import ReplayModel, ScriptedModel

EVERY_WIRE = pytest.mark.parametrize("path", WIRES)
STREAMED = pytest.mark.parametrize("streams", [False, True])


class City(Struct):
    name: str
    people: int = 0

    def __post_init__(self):
        if self.name == "Atlantis":
            raise ValueError("there is no such city")
        if self.name == "Babel":
            raise RuntimeError("that was\nlong ago")


@dataclass
class Point:
    x: int
    y: int


class Row(TypedDict):
    cells: list[str]


class Person(BaseModel):
    name: str
    age: int = Field(gt=0)


class Car(Struct, tag=True):
    wheels: int


class Boat(Struct, tag=True):
    sails: int


class Tree(Struct):
    name: str
    children: "list[Tree]" = []


ROME = '{"name": "Rome", "people": 3}'


def scripted(*answers, **options):
    return Agent(ScriptedModel(answers), **{"output_type": City, **options})


async def run_through(agent, streams, prompt="hi", **options):
    if not streams:
        return await agent.run(prompt, **options)
    return [item async for item in agent.stream(prompt, **options)][-1]


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (City, ROME, City("Rome", 3)),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (Row, '{"cells": ["a"]}', {"cells": ["a"]}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Person, '{"name": "Ann", "age": 3}', Person(name="Ann", age=3)),
    ],
)
def test_a_result_has_a_typed_output(kind, said, value):
    agent = scripted(said, said, said, output_type=kind)
    ends = []
    agent.on(RUN_AFTER, lambda ctx: ends.append(ctx.value))

    async def both():
        return [await run_through(agent, streams) for streams in (False, True)]

    results = [*asyncio.run(both()), agent.run_sync("hi")]

    assert [result.output for result in results] == [value] * 3
    assert all(type(result.output) is type(value) for result in results)
    assert results[0].output is not results[0].output
    assert [(result.output_json, result.text) for result in results] == [(said, said)] * 3
    assert ends == results
    assert ends[0].output == value
    schema = agent._config.model.requests[0].output_schema
    assert (schema["type"], set(schema) & {"properties", "additionalProperties"} != set()) == (
        "object",
        True,
    )


@pytest.mark.parametrize("options", [{}, {"output_type": None}, {"output_type": str}])
async def test_without_a_type_output_is_text(options):
    agent = Agent(ScriptedModel([ROME]), **options)

    result = await agent.run("hi")

    assert (result.output, result.output_json) == (ROME, None)
    assert agent._config.model.requests[0].output_schema is None


@STREAMED
async def test_a_run_may_have_its_type(streams):
    agent = scripted('{"x": 1, "y": 2}', "words", ROME)

    point = await run_through(agent, streams, output_type=Point)
    words = await run_through(agent, streams, output_type=str)
    city = await run_through(agent, streams)

    assert [point.output, words.output, city.output] == [Point(1, 2), "words", City("Rome", 3)]
    schemas = [request.output_schema for request in agent._config.model.requests]
    assert [schema and list(schema["properties"]) for schema in schemas] == [
        ["x", "y"],
        None,
        ["name", "people"],
    ]


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (list[int], "[1, 2]", [1, 2]),
        (int, "7", 7),
        (Literal["a", "b"], '"a"', "a"),
        (Car | Boat, '{"type": "Boat", "sails": 2}', Boat(2)),
        (int | None, "null", None),
        (Any, '{"value": 1, "b": 2}', {"value": 1, "b": 2}),
    ],
)
async def test_values_other_than_objects_are_wrapped(kind, said, value):
    agent = scripted(f'{{"value": {said}}}', said, output_type=kind)

    results = [await agent.run("hi"), await agent.run("hi")]

    assert [(result.output, result.output_json) for result in results] == [(value, said)] * 2
    schema = agent._config.model.requests[0].output_schema
    assert schema["type"] == "object"
    assert (list(schema["properties"]), list(schema["required"])) == (["value"], ["value"])


CODE = '{"name": "```py\\nx\\n```"}'


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (f"```json\n{ROME}\n```", "Rome"),
        (f"Here it is:\n\n```\n{ROME}\n```\nIt is old.", "Rome"),
        (f"  {ROME}\n", "Rome"),
        (CODE, "```py\nx\n```"),
        (f"```json\n{CODE}\n```", "```py\nx\n```"),
    ],
)
async def test_code_fences_are_ignored(said, name):
    result = await scripted(said).run("hi")

    assert result.output.name == name
    assert result.text == said


async def test_a_decoded_result_has_plain_json():
    result = await scripted(ROME).run("hi")

    read = decoder(RunResult)(encode(result))

    assert read == result
    assert read.output == {"name": "Rome", "people": 3}
    assert replace(result, turns=5).output == {"name": "Rome", "people": 3}


class Own:
    pass


@pytest.mark.parametrize(
    "options",
    [
        {"output_type": Own},
        {"output_type": type(len)},
        {"output_type": dict[Own, int]},
        {"output_type": 5},
        {"output_type": City("Rome")},
        {"output_type": "City"},
        {"output_retries": -1},
        {"output_retries": True},
    ],
)
async def test_unreadable_types_are_refused(options):
    agent, seen = Agent(ScriptedModel(["hi"])), []
    for event in CATALOGUE:
        agent.on(event, seen.append)

    (name,) = options
    with pytest.raises(RegistrationError, match=f"^{name} "):
        Agent(ScriptedModel(["hi"]), **options)
    if name == "output_type":
        with pytest.raises(
            RegistrationError, match=r"^output_type .*: it cannot be read from JSON"
        ):
            await agent.run("hi", **options)
        with pytest.raises(RegistrationError):
            [item async for item in agent.stream("hi", **options)]

    assert (seen, list(agent.messages)) == ([], [])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("It is Rome.", "JSON is malformed"),
        ("", "input data was truncated"),
        ('{"name": 5}', r"expected `str`, got `int` - at `$.name`"),
        ("{}", "object missing required field `name` - at `$`"),
        ('{"name": "Atlantis"}', "there is no such city - at `$`"),
        ('{"name": "Babel"}', "RuntimeError: that was long ago - at `$`"),
        (
            AssistantMessage(content='{"na', stop_reason="length"),
            "the answer was cut off at the length limit",
        ),
    ],
)
async def test_the_model_is_told_the_misfit(said, words):
    usage = {"input_tokens": 2}
    said = AssistantMessage(content=said) if isinstance(said, str) else said
    right = AssistantMessage(content=ROME, usage=usage)
    agent = scripted(replace(said, usage=usage), right)

    result = await agent.run("hi")

    assert [message.role for message in agent.messages] == ["user", "assistant"] * 2
    first, second = agent._config.model.requests
    asked = second.messages[-1]
    assert second.messages == (*first.messages, agent.messages[1], asked)
    reason, _, schema = asked.text.partition("\n")
    assert words in reason
    assert json.loads(schema) == json.loads(encode(first.output_schema))
    assert (result.output.name, result.turns, result.usage["input_tokens"]) == ("Rome", 2, 4)


@pytest.mark.parametrize(
    ("options", "asked"), [({}, 3), ({"output_retries": 0}, 1), ({"output_retries": 1}, 2)]
)
async def test_retries_are_limited(options, asked):
    agent = scripted(*['{"name": 5}'] * asked, ROME, **options)
    ends = []
    agent.on(RUN_AFTER, lambda ctx: ends.append(ctx.value))

    with pytest.raises(OutputError) as caught:
        await agent.run("hi")
    requests = len(agent._config.model.requests)
    result = await agent.run("again")

    assert (requests, caught.value.attempts) == (asked, asked)
    assert "does not fit `City`: expected `str`, got `int` - at `$.name`" in str(caught.value)
    assert [end.status for end in ends] == ["error", "ok"]
    assert result.output.name == "Rome"


async def test_turns_limit_retries_as_well():
    agent = scripted("Rome", ROME, max_turns=1)

    result = await agent.run("hi")

    assert (result.status, result.output_json) == ("max_turns", None)
    assert [message.role for message in agent.messages] == ["user", "assistant"]
    with pytest.raises(RunStatusError):
        result.output  # noqa: B018 - it raises


@tool
async def look() -> str:
    """Look."""
    return "Rome"


async def test_tools_come_before_the_output():
    asking = AssistantMessage(content="I look.", tool_calls=(ToolCall(id="c", name="look"),))
    agent = scripted(asking, ROME, tools=[look])

    result = await agent.run("hi")

    assert [message.role for message in agent.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert result.output.name == "Rome"


@STREAMED
async def test_handlers_judge_the_answer_first(streams):
    def rename(ctx):
        message = ctx.value
        return replace(message, content=message.text.replace("Rome", "[city]"))

    changed, refused = scripted(ROME, ROME), scripted(ROME, ROME)
    changed.on(MESSAGE_APPEND_BEFORE, rename, roles=["assistant"])
    refused.guard(MESSAGE_APPEND_BEFORE, lambda ctx: Deny("no cities"), roles=["assistant"])

    result, denied = [await run_through(agent, streams) for agent in (changed, refused)]

    assert (result.output.name, result.text) == ("[city]", result.output_json)
    assert (denied.status, denied.reason, denied.output_json) == ("denied", "no cities", None)
    with pytest.raises(RunStatusError):
        denied.output  # noqa: B018 - it raises
    assert len(refused._config.model.requests) == 1


@STREAMED
@EVERY_WIRE
async def test_a_refusal_is_not_an_output(path, streams):
    async with provider(path, [("refusal", "5")], [("text", "5")]) as (server, model):
        agent = Agent(model, output_type=int)
        with pytest.raises(OutputError, match="refused to answer: '5'") as caught:
            await run_through(agent, streams)

    assert len(server.requests) == caught.value.attempts == 1


async def test_other_answers_must_fit_as_well():
    answers = iter(["no city", ROME])
    answering = scripted()
    answering.on(MODEL_CALL_BEFORE, lambda ctx: AssistantMessage(content=next(answers)))
    result = await answering.run("hi")

    rescued, ends = scripted(), []
    results = iter([RunResult(status="ok", output_json=ROME), RunResult(status="ok")])
    rescued.on(RUN_ERROR, lambda ctx: next(results))
    rescued.on(RUN_AFTER, lambda ctx: ends.append(ctx.value))
    rescue = await rescued.run("hi")
    with pytest.raises(Exception, match="the script has no answer 2"):
        await rescued.run("hi")

    assert (result.output.name, result.turns) == ("Rome", 2)
    assert rescue.output == City("Rome", 3)
    assert [end.status for end in ends] == ["ok", "error"]


@STREAMED
async def test_every_kind_of_run_gives_the_output(streams):
    script = scripted("It is Rome.", ROME)
    results = [await run_through(script, streams)]
    replayed = Agent(ReplayModel(script.messages), output_type=City)
    results.append(await run_through(replayed, streams))
    transcripts = [script.messages, replayed.messages]
    for path in WIRES:
        async with provider(path, [("text", "It is Rome.")], [("text", ROME)]) as (server, model):
            agent = Agent(model, output_type=City)
            results.append(await run_through(agent, streams))
            transcripts.append(agent.messages)
        for seen in server.requests:
            check_request(seen)

    assert [result.output for result in results] == [City("Rome", 3)] * 5
    told = [[(message.role, message.text) for message in said] for said in transcripts]
    assert told == [told[0]] * 5


async def test_sub_agents_give_structured_results():
    lists = scripted("[1, 2]", output_type=list[int])
    never = scripted("Rome", output_retries=0)
    none = scripted("null", output_type=int | None)
    subs = {"city": scripted(ROME), "list": lists, "never": never, "none": none}
    agent = Agent(ScriptedModel([]), tools=[sub.as_tool(name) for name, sub in subs.items()])

    city, numbers, error, null = [
        (await agent.call_tool(name, prompt="?")).response for name in subs
    ]

    assert (city.structured, numbers.structured) == ({"name": "Rome", "people": 3}, (1, 2))
    assert (null.text, null.is_error) == ("null", False)
    assert (error.is_error, "does not fit `City`" in error.text) == (True, True)
    specs = {spec.name: spec.output_schema for spec in agent._config.tools.specs}
    assert list(specs["city"]["properties"]) == ["name", "people"]
    assert specs["list"] == {"type": "array", "items": {"type": "integer"}}


class Route(Struct):
    """A way."""

    mode: Literal["car", "boat"]
    end: Point
    stops: Annotated[int, Meta(ge=1, description="How many.")] = 2
    note: Annotated[str, Meta(max_length=9)] = ""
    via: list[Point] | None = None


def sent_schema(seen):
    """Return the schema in the request *seen*, what names it, and its neighbours."""
    if seen.path == MESSAGES:
        output = seen.body["output_config"].pop("format")
        return output.pop("schema"), output, seen.body["output_config"]
    if seen.path == RESPONSES:
        output = seen.body["text"].pop("format")
        return output.pop("schema"), output, seen.body["text"]
    output = seen.body["response_format"]
    return output["json_schema"].pop("schema"), output, {}


@STREAMED
@EVERY_WIRE
async def test_each_wire_has_its_parameter(path, streams):
    beside = {
        MESSAGES: {"output_config": {"effort": "low"}},
        RESPONSES: {"text": {"verbosity": "low"}},
    }
    settings = beside.get(path, {"temperature": 0.5})
    answer = [("text", '{"mode": "car", "end": {"x": 1, "y": 2}}')]
    async with provider(path, answer) as (server, model):
        agent = Agent(model, output_type=Route, model_settings=settings)
        result = await run_through(agent, streams)

    assert result.output == Route("car", Point(1, 2))
    (seen,) = server.requests
    check_request(seen)
    schema, output, others = sent_schema(seen)
    facts = {"name": "output", "strict": True}
    assert output == {
        MESSAGES: {"type": "json_schema"},
        RESPONSES: {"type": "json_schema", **facts},
    }.get(path, {"type": "json_schema", "json_schema": facts})
    assert others == {} or others in [value for (value,) in map(dict.values, beside.values())]
    fields = ["mode", "end", "stops", "note", "via"]
    assert (list(schema["properties"]), schema["additionalProperties"]) == (fields, False)
    assert schema["required"] == (fields[:2] if path == MESSAGES else fields)
    properties = schema["properties"]
    assert properties["mode"] == {"enum": ["boat", "car"], "type": "string"}
    assert properties["end"] == {"$ref": "#/$defs/Point"}
    assert schema["$defs"]["Point"]["additionalProperties"] is False
    assert properties["note"]["description"] == '{"maxLength":9,"default":""}'
    stops = properties["stops"]
    assert stops.get("minimum") == (None if path == MESSAGES else 1)
    assert ('"minimum":1' in stops["description"]) == (path == MESSAGES)
    assert "How many." in stops["description"]


@pytest.mark.parametrize("kind", [dict[str, int], tuple[int, str], Tree])
@EVERY_WIRE
async def test_an_unenforceable_schema_is_not_enforced(path, kind):
    values = {Tree: '{"name": "oak", "children": [{"name": "leaf"}]}', dict[str, int]: '{"a": 1}'}
    said = values.get(kind, '[1, "a"]')
    async with provider(path, [("text", said)]) as (server, model):
        result = await Agent(model, output_type=kind, system="Be brief.").run("hi")

    assert result.output_json == said
    (seen,) = server.requests
    check_request(seen)
    if path == MESSAGES:
        assert "output_config" not in seen.body
        (block,) = seen.body["system"]
        assert block["text"].startswith("Be brief.\n\n")
        json.loads(block["text"].rpartition("\n")[2])
    else:
        schema, output, _ = sent_schema(seen)
        assert schema["type"] == "object"
        assert output.get("json_schema", output)["strict"] == (kind is Tree)


@pytest.mark.parametrize("system", [None, "Be brief."])
@EVERY_WIRE
async def test_servers_without_the_parameter_get_text(path, system):
    answers = [("text", "It is Rome.")], [("text", ROME)], [("text", ROME)]
    async with provider(path, *answers, structured_output="text") as (server, model):
        agent = Agent(model, output_type=City, system=system)
        results = [await agent.run("hi"), await agent.run("and?")]

    assert [result.output.name for result in results] == ["Rome"] * 2
    for seen in server.requests:
        check_request(seen)
        assert not {"response_format", "text", "output_config"} & seen.body.keys()
    firsts = [
        seen.body["system"]
        if path == MESSAGES
        else seen.body.get("messages", seen.body.get("input"))[0]
        for seen in server.requests
    ]
    assert firsts == [firsts[0]] * 3
    assert all(word in json.dumps(firsts[0]) for word in ("only with JSON", "people", system or ""))
    assert agent.messages[0].role == ("system" if system else "user")
    with pytest.raises(RegistrationError, match="structured_output 'no': expected 'native' or"):
        async with provider(path, structured_output="no"):
            pass


@EVERY_WIRE
async def test_a_refused_schema_names_the_way_out(path):
    refused = Reply(400, {"error": {"message": "unknown parameter"}})
    async with provider(path, refused, refused) as (_, model):
        with pytest.raises(ModelError, match=r"unknown parameter; .*structured_output='text'"):
            await Agent(model, output_type=City).run("hi")
        with pytest.raises(ModelError, match=r"unknown parameter$"):
            await Agent(model).run("hi")


@EVERY_WIRE
async def test_settings_cannot_replace_the_schema(path):
    name = {MESSAGES: "output_config", RESPONSES: "text"}.get(path, "response_format")
    async with provider(path, [("text", ROME)]) as (server, model):
        settings = {name: {"format": {"type": "text"}}}
        with pytest.raises(RegistrationError, match=f"model setting '{name}.*`output_type=`"):
            await Agent(model, output_type=City, model_settings=settings).run("hi")

    assert server.requests == []
