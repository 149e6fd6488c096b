"""The scenarios of `specs/adapters.md`."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    EventContext,
    Retry,
    Scope,
    SystemMessage,
    TextPart,
    Tool,
    ToolAdapter,
    ToolCall,
    ToolMessage,
    ToolResponse,
    ToolSpec,
    UserMessage,
    on,
    tool,
)
from toolbus.components import AdapterContext
from toolbus.errors import DispatchDepthError, RegistrationError
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOL_CALL_ERROR,
    TOOLS_PROVIDE,
)
from toolbus.messages import Resource, ResourcePart, encode
from toolbus.messages.immutable import freeze
from toolbus.models.scripted import ScriptedModel
from toolbus.store import AppendRequest
from toolbus.store.memory import MemoryStore
from toolbus.store.sqlite import SqliteStore
from toolbus.testing.fakes import Recorder
from toolbus.tools import Toolset

SECRET = "hunter2-canary"
COUNTED = {"type": "object", "required": ["n"]}
LISTED = ["read", "b"]


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@tool
def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


class Counter(Tool):
    """A tool that counts."""

    name = "count"
    output_schema = COUNTED

    def run(self) -> dict[str, int]:
        return {"n": 1}


class Mark(ToolAdapter):
    """Leaves its mark on all that passes, and notes in which order that is."""

    def __init__(self, mark: str, seen: list[str] | None = None) -> None:
        self.mark, self.seen = mark, [] if seen is None else seen

    def adapt_signature(self, spec: ToolSpec) -> ToolSpec:
        return replace(spec, description=spec.description + self.mark)

    def adapt_parameters(self, call: ToolCall) -> None:
        self.seen.append(self.mark)

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        return response.map_text(lambda text: text + self.mark)


class MarkByTool(Mark):
    """Notes the tool as well: parallel calls have no order among each other."""

    def adapt_parameters(self, call: ToolCall) -> None:
        self.seen.append(f"{call.name} {self.mark}")


class Rename(ToolAdapter):
    """Tells the model of the argument *outer*, and gives the tool *inner*."""

    def __init__(self, inner: str, outer: str, *, given: str | None = None) -> None:
        self.inner, self.outer, self.given = inner, outer, given or inner

    def adapt_signature(self, spec: ToolSpec) -> ToolSpec:
        assert list(spec.input_schema["properties"]) == [self.inner]
        return replace(spec, input_schema=takes(self.outer))

    def adapt_parameters(self, call: ToolCall) -> ToolCall | None:
        if self.outer not in call.arguments:
            return None
        return call.with_arguments({self.given: call.arguments[self.outer]})


class Wrong(ToolAdapter):
    """Gives back *results*, whatever it gets; raises those that are errors."""

    def __init__(self, tools: str = "*", *, on_error: Any = "closed", **results: Any) -> None:
        self.tools, self.on_error, self.results = tools, on_error, results

    def adapt_signature(self, spec: ToolSpec) -> Any:
        return self._result("signature", spec)

    def adapt_parameters(self, call: ToolCall) -> Any:
        return self._result("parameters", call)

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> Any:
        return self._result("response", response)

    def _result(self, method: str, value: Any) -> Any:
        result = self.results.get(method)
        if isinstance(result, Exception):
            raise result
        return result(value) if callable(result) else result


class Listen(ToolAdapter):
    """Notes every response with its call."""

    def __init__(self) -> None:
        self.heard: list[tuple[ToolResponse, ToolCall]] = []

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> None:
        self.heard.append((response, call))


class Hide(ToolAdapter):
    """Gives the tool a token that the model is not told of, and redacts it from all responses."""

    def adapt_signature(self, spec: ToolSpec) -> ToolSpec:
        return replace(spec, input_schema={"type": "object"})

    def adapt_parameters(self, call: ToolCall) -> ToolCall:
        return call.merge_arguments({"token": SECRET})

    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        redacted = response.map_text(lambda text: text.replace(SECRET, "***"))
        return replace(
            redacted,
            parameters=without_secret(response.parameters),
            metadata=without_secret(response.metadata),
        )


def without_secret(value: Any) -> Any:
    match value:
        case str():
            return value.replace(SECRET, "***")
        case dict():
            return {without_secret(key): without_secret(item) for key, item in value.items()}
        case list() | tuple():
            return [without_secret(item) for item in value]
    return value


def takes(argument: str) -> dict[str, Any]:
    """Return the schema of an object with one text in it."""
    return freeze(
        {
            "type": "object",
            "properties": {argument: {"type": "string"}},
            "required": [argument],
            "additionalProperties": False,
        }
    )


def with_adapters(*adapters: ToolAdapter) -> AgentComponent:
    component = AgentComponent()
    for adapter in adapters:
        component.register_tool_adapter(adapter)
    return component


def call_of(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{number}", name=name, arguments=arguments)


def scripted(*calls: ToolCall) -> ScriptedModel:
    """Return a model that makes *calls* and is done."""
    return ScriptedModel([AssistantMessage(id="asks", tool_calls=calls), "done"])


async def answers(
    *calls: ToolCall, tools: Any = (read,), components: Any = (), **options: Any
) -> tuple[list[ToolMessage], ScriptedModel]:
    """Let a model make *calls*; return their tool messages, and the model with what it got."""
    model = scripted(*calls)
    async with Agent(model, tools=tools, components=components, **options) as agent:
        result = await agent.run("go")
    assert result.status == "ok"
    return [one for one in result.messages if isinstance(one, ToolMessage)], model


def message_of(response: ToolResponse | None = None, **fields: Any) -> ToolMessage:
    known = {"id": "m", "tool_call_id": "c", "tool_name": "read", "tool_response": response}
    return ToolMessage(**{**known, **fields})


async def appended(component: AgentComponent, message: Any, bus: EventBus | None = None) -> Any:
    """Dispatch *message* past *component* alone; return the context."""
    bus = bus or EventBus()
    component.setup(SimpleNamespace(bus=bus, tools=Toolset(), scope=Scope(agent_id="main")))
    return await bus.apply(MESSAGE_APPEND_BEFORE, message, scope=Scope(agent_id="main"))


async def test_the_adapted_response_is_appended():
    bus, shown = EventBus(), []
    bus.on(TOOL_CALL_AFTER, lambda ctx: shown.append(ctx.value.response.text))
    component = with_adapters(Mark("!"))

    messages, model = await answers(call_of("read", path="a"), components=[component], bus=bus)

    assert [one.text for one in messages] == ["text of a!"]
    assert model.requests[-1].messages[-1] == messages[0]
    assert shown == ["text of a"]


async def test_the_context_s_output_is_the_adapted_message():
    message = message_of(ToolResponse.from_text("hot"), metadata={"a": 1})
    component, ctx = with_adapters(Mark("!")), EventContext(MESSAGE_APPEND_BEFORE, message)

    returned = await component._on_message_append_before_adapter(ctx)

    assert ctx.output is returned
    assert returned == message.with_tool_response(ToolResponse.from_text("hot!"))
    assert returned.metadata is message.metadata
    assert ctx.value is message


async def test_messages_of_other_roles_pass_untouched():
    listen = Listen()
    messages = [
        SystemMessage(id="s", content="be brief"),
        UserMessage(id="u", content="hi"),
        AssistantMessage(id="a", content="hello"),
    ]

    async with Agent(ScriptedModel([]), components=[with_adapters(Mark("!"), listen)]) as agent:
        for message in messages:
            await agent.append(message)

    assert all(one is other for one, other in zip(agent.messages, messages, strict=True))
    assert not listen.heard


async def test_a_tool_message_without_response_passes():
    asks = AssistantMessage(id="a", tool_calls=(ToolCall(id="c", name="read"),))
    message, listen = message_of(content="plain"), Listen()

    async with Agent(ScriptedModel([]), components=[with_adapters(Mark("!"), listen)]) as agent:
        await agent.append(asks)
        await agent.append(message)

    assert agent.messages[1] is message
    assert not listen.heard


async def test_adapting_responses_needs_no_signature():
    class Shout(ToolAdapter):
        def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
            return response.map_text(str.upper)

    component = with_adapters(Shout())

    messages, model = await answers(call_of("read", path="a"), components=[component])

    assert model.requests[0].tools == (read.spec,)
    assert messages[0].tool_response.parameters == {"path": "a"}
    assert messages[0].text == "TEXT OF A"


@pytest.mark.parametrize("result", [None, lambda same: same, replace])
async def test_none_or_the_same_object_changes_nothing(result):
    message = message_of(ToolResponse.from_text("hot", is_error=True))

    context = await appended(with_adapters(Wrong(response=result)), message)

    assert context.value is message
    assert context.output is None


async def test_an_adapter_may_be_async():
    class Slow(ToolAdapter):
        async def adapt_signature(self, spec: ToolSpec) -> ToolSpec:
            return replace(spec, description="slow")

        async def adapt_parameters(self, call: ToolCall) -> ToolCall:
            return call.merge_arguments({"path": "b"})

        async def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
            return response.with_text(f"slow {response.text}")

    component = with_adapters(Slow())

    messages, model = await answers(call_of("read", path="a"), components=[component])

    assert model.requests[0].tools[0].description == "slow"
    assert messages[0].text == "slow text of b"


def test_patterns_choose_tools_by_name():
    class Several(ToolAdapter):
        tools = ("read_*", "w?ite", "[ab]")

    class Text(ToolAdapter):
        tools = "read"

    class Listed(ToolAdapter):
        tools: Any = LISTED

    names = ["read", "read_file", "Read_file", "write", "wriite", "a", "c"]

    adapted = [
        [name for name in names if kind().should_adapt(name)]
        for kind in (Several, Text, Listed, ToolAdapter)
    ]

    assert adapted == [["read_file", "write", "a"], ["read"], ["read"], names]


async def test_other_tools_stay_as_they_are():
    seen: list[str] = []
    mark = Mark("!", seen)
    mark.tools = ("re*",)
    calls = call_of("read", 1, path="a"), call_of("write", 2, path="b")

    messages, model = await answers(*calls, tools=[read, write], components=[with_adapters(mark)])

    assert [one.description for one in model.requests[0].tools] == [
        "Read a file.!",
        "Write a file.",
    ]
    assert model.requests[0].tools[1] is write.spec
    assert [one.text for one in messages] == ["text of a!", "wrote b"]
    assert seen == ["!"]


async def test_an_adapter_may_choose_by_code():
    class Longest(Mark):
        def should_adapt(self, tool_name: str) -> bool:
            return len(tool_name) > 4

    calls = call_of("read", 1, path="a"), call_of("write", 2, path="b")
    component = with_adapters(Longest("!"))

    messages, _ = await answers(*calls, tools=[read, write], components=[component])

    assert [one.text for one in messages] == ["text of a", "wrote b!"]


async def test_a_method_with_ctx_gets_the_context():
    told = []

    class Asks(ToolAdapter):
        def adapt_signature(self, spec: ToolSpec, ctx: AdapterContext) -> ToolSpec:
            told.append(ctx)
            return replace(spec, description="reworded")

        def adapt_parameters(self, call: ToolCall, ctx: AdapterContext | None = None) -> None:
            told.append(ctx)

        async def adapt_response(
            self, response: ToolResponse, call: ToolCall, *, ctx: AdapterContext
        ) -> None:
            told.append(ctx)

    await answers(
        call_of("read", path="a"), components=[with_adapters(Asks())], session_id="a session"
    )

    # The model is asked once more after the call, and with it the signature.
    assert [one.scope.session_id for one in told] == ["a session"] * 4
    assert [one.tool.description for one in told] == [
        "Read a file.",
        "reworded",
        "Read a file.",
        "Read a file.",
    ]
    assert {one.view for one in told} == {"model"}
    with pytest.raises(AttributeError):
        told[0].view = "store"


async def test_each_method_may_take_ctx():
    class Some(Mark):
        def adapt_response(
            self, response: ToolResponse, call: ToolCall, ctx: AdapterContext
        ) -> ToolResponse:
            return response.map_text(lambda text: f"{text} for the {ctx.view}")

    adapter = Some("!")

    messages, model = await answers(call_of("read", path="a"), components=[with_adapters(adapter)])

    assert model.requests[0].tools[0].description == "Read a file.!"
    assert adapter.seen == ["!"]
    assert messages[0].text == "text of a for the model"


async def test_a_sub_agent_has_its_own_scope():
    told = []

    class Asks(ToolAdapter):
        tools = ("read", "write")

        def adapt_response(
            self, response: ToolResponse, call: ToolCall, ctx: AdapterContext
        ) -> None:
            told.append(ctx.scope)

    bus, inner = EventBus(), scripted(call_of("read", path="a"))
    calls = call_of("helper", 1, prompt="go"), call_of("write", 2, path="b")

    async with Agent(inner, tools=[read], bus=bus) as below:
        tools, components = [below.as_tool("helper"), write], [with_adapters(Asks())]
        await answers(*calls, tools=tools, components=components, bus=bus, session_id="above")

    inside, outside = told
    assert (outside.session_id, outside.lineage) == ("above", ())
    assert inside.session_id != "above"
    assert inside.lineage == (outside.agent_id,)


def test_a_wrong_signature_is_refused():
    class TooLittle(ToolAdapter):
        def adapt_response(self, response: Any) -> None: ...  # type: ignore[override]

    class TooMuch(ToolAdapter):
        def adapt_signature(self, spec: Any, ctx: Any, other: Any) -> None: ...

    class Otherwise(ToolAdapter):
        def adapt_parameters(self, call: Any, context: Any) -> None: ...

    problems = []
    for adapter in (TooLittle(), TooMuch(), Otherwise()):
        with pytest.raises(RegistrationError) as caught:
            AgentComponent().register_tool_adapter(adapter)
        problems.append(caught.value.reason)

    assert problems == [
        "adapt_response must take (response, call) or (response, call, ctx), not (response)",
        "adapt_signature must take (spec) or (spec, ctx), not (spec, ctx, other)",
        "adapt_parameters must take (call) or (call, ctx), not (call, context)",
    ]


def test_a_misspelt_method_is_refused():
    class Response(ToolAdapter):
        def adapt_reponse(self, response: Any, call: Any) -> None: ...

    class Choice(Rename):
        def should_adap(self, tool_name: Any) -> None: ...

    class Result(ToolAdapter):
        def adapt_result(self, response: Any) -> None: ...

    class Helped(Rename):
        def adapt_result(self, response: Any) -> None: ...

    problems = []
    for adapter in (Response(), Choice("path", "at"), Result()):
        with pytest.raises(RegistrationError) as caught:
            AgentComponent().register_tool_adapter(adapter)
        problems.append(caught.value.reason)
    component = AgentComponent()
    component.register_tool_adapter(Helped("path", "at"))

    assert problems == [
        "unknown adapter method 'adapt_reponse'; did you mean 'adapt_response'?",
        "unknown adapter method 'should_adap'; did you mean 'should_adapt'?",
        (
            "unknown adapter method 'adapt_result'; known: adapt_signature, "
            "adapt_parameters, adapt_response, fill_parameters, should_adapt"
        ),
    ]
    assert len(component.adapters) == 1


async def test_arguments_pass_in_reverse():
    seen: list[str] = []
    component = with_adapters(Mark("1", seen), Mark("2", seen))

    messages, model = await answers(call_of("read", path="a"), components=[component])

    assert model.requests[0].tools[0].description == "Read a file.12"
    assert messages[0].text == "text of a12"
    assert seen == ["2", "1"]


async def test_components_are_ordered_as_adapters_are():
    seen: list[str] = []
    components = [
        with_adapters(Mark("1", seen), Mark("2", seen)),
        with_adapters(Mark("3", seen), Mark("4", seen)),
    ]

    messages, model = await answers(call_of("read", path="a"), components=components)

    assert model.requests[0].tools[0].description == "Read a file.1234"
    assert messages[0].text == "text of a1234"
    assert seen == ["4", "3", "2", "1"]


async def test_a_higher_priority_comes_first():
    marks = [Mark("a"), Mark("b"), Mark("c"), Mark("d")]
    marks[0].priority, marks[1].priority, marks[3].priority = -5, 100, 101
    component = with_adapters(*marks)

    context = await appended(component, message_of(ToolResponse.from_text("")))

    assert [one.mark for one in component.adapters] == ["d", "b", "c", "a"]
    assert context.value.text == "dbca"


async def test_the_tool_gets_its_own_arguments():
    component = with_adapters(Rename("path", "file"), Rename("file", "document"))

    messages, model = await answers(call_of("read", document="a"), components=[component])

    assert model.requests[0].tools[0].input_schema == takes("document")
    assert messages[0].text == "text of a"
    assert messages[0].tool_response.parameters == {"path": "a"}


async def test_a_parent_s_adapters_wrap_its_sub_agent_s():
    bus, seen = EventBus(), []
    inner = scripted(call_of("read", path="a"))
    below = Agent(inner, tools=[read], components=[with_adapters(MarkByTool("<", seen))], bus=bus)
    calls = call_of("helper", 1, prompt="go"), call_of("write", 2, path="b")
    above = with_adapters(MarkByTool(">", seen))

    async with below:
        tools = [below.as_tool("helper"), write]
        messages, outer = await answers(*calls, tools=tools, components=[above], bus=bus)

    assert inner.requests[0].tools[0].description == "Read a file.<>"
    assert inner.requests[1].messages[-1].text == "text of a<>"
    assert [mark for mark in seen if mark.startswith("read")] == ["read >", "read <"]
    assert sorted(seen) == ["helper >", "read <", "read >", "write >"]
    assert outer.requests[0].tools[1].description == "Write a file.>"
    assert messages[1].text == "wrote b>"


async def test_each_adapter_has_its_own_spec():
    bus, depths = EventBus(), []
    # The handlers of the components stand at 202 and 201.
    for priority in (500, 201, 100):
        bus.on(
            TOOL_CALL_BEFORE, lambda ctx: depths.append(ctx.tool.input_schema), priority=priority
        )
    components = [with_adapters(Rename("path", "file")), with_adapters(Rename("file", "document"))]

    await answers(call_of("read", document="a"), components=components, bus=bus)

    assert depths == [takes("document"), takes("file"), read.spec.input_schema]


async def test_an_adapter_gets_the_executed_call():
    bus, listen = EventBus(), Listen()
    bus.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"path": "b"}))

    await answers(call_of("read", path="a"), components=[with_adapters(listen)], bus=bus)

    assert [call for _, call in listen.heard] == [call_of("read", path="b")]


async def test_calls_that_never_ran_are_passed():
    bus, listen = EventBus(), Listen()
    verdicts = {"a": Deny("no"), "b": ToolResponse.from_text("cached")}
    bus.on(TOOL_CALL_BEFORE, lambda ctx: verdicts.get(ctx.value.arguments.get("path")))
    calls = [
        call_of("read", 1, path="a"),
        call_of("read", 2, path="b"),
        call_of("nothing", 3, path="c"),
        call_of("read", 4, file="d"),
    ]

    await answers(*calls, components=[with_adapters(listen)], bus=bus)

    assert [call for _, call in listen.heard] == calls
    assert [one.error_type for one, _ in listen.heard] == [
        "denied",
        None,
        "unknown_tool",
        "invalid_arguments",
    ]


async def test_a_resumed_call_is_passed():
    store, listen, call = MemoryStore(), Listen(), call_of("read", path="a")
    asks = AssistantMessage(id="asks", tool_calls=(call,))
    for message in (UserMessage(id="u", content="hi"), asks):
        await store.append("old", AppendRequest(message=message))
    model, component = ScriptedModel(["done"]), with_adapters(listen)

    async with Agent(model, store=store, session_id="old", components=[component]) as agent:
        await agent.run("go on")

    assert [(one.error_type, call) for one, call in listen.heard] == [("interrupted", call)]


async def test_a_redacted_text_is_hidden_from_later_adapters():
    listen = Listen()
    redact = Wrong(response=lambda response: replace(response, parameters=None))
    response = replace(ToolResponse.from_text("hot"), parameters={"token": SECRET})

    await appended(with_adapters(redact, listen), message_of(response))

    assert [call for _, call in listen.heard] == [ToolCall(id="c", name="read")]


async def test_an_adapter_that_breaks_arguments_is_blamed():
    bus, seen = EventBus(), []
    outer = Rename("path", "file", given="pth")
    outer.name = "renamer"
    component = with_adapters(Wrong(parameters=seen.append), outer)
    bus.on(TOOL_CALL_BEFORE, seen.append)

    with Recorder(bus) as recorder:
        messages, _ = await answers(call_of("read", file="a"), components=[component], bus=bus)

    outcome = recorder.values(TOOL_CALL_AFTER)[0]
    assert (outcome.status, outcome.executed) == ("invalid_arguments", None)
    assert messages[0].text == (
        "handler 'renamer' made the arguments invalid: object contains unknown field `pth` - at `$`"
    )
    assert seen == []


async def test_an_adapter_that_converts_nothing_is_blamed():
    class Forgetful(Rename):
        adapt_parameters = ToolAdapter.adapt_parameters

    component = with_adapters(Forgetful("path", "file"))

    messages, _ = await answers(call_of("read", file="a"), components=[component])

    assert messages[0].tool_response.error_type == "invalid_arguments"
    assert messages[0].text == (
        "handler 'Forgetful' made the arguments invalid: "
        "object contains unknown field `file` - at `$`"
    )


async def test_a_model_s_own_mistake_blames_no_handler():
    component = with_adapters(Rename("path", "file"))

    messages, _ = await answers(call_of("read", fil="a"), components=[component])

    assert messages[0].text == ("invalid arguments: object contains unknown field `fil` - at `$`")


async def test_an_adapter_that_breaks_results_is_blamed():
    broken = Wrong(response=lambda response: replace(response, structured={"m": SECRET}))

    messages, _ = await answers(
        call_of("count"), tools=[Counter()], components=[with_adapters(broken)]
    )

    assert messages[0].tool_response.error_type == "invalid_result"
    assert messages[0].text == (
        "handler 'Wrong' made the result invalid: missing required property `n` - at `$`"
    )
    assert SECRET.encode() not in encode(messages)


async def test_a_promised_result_is_not_a_break():
    def promise(name: str, shape: Any) -> ToolAdapter:
        schema = {"type": "object", "required": [name], "additionalProperties": False}
        schema["properties"] = {name: {}}
        return Wrong(
            signature=lambda spec: replace(spec, output_schema=schema),
            response=lambda response: replace(response, structured={name: shape(response)}),
        )

    inner = promise("total", lambda response: response.structured["n"])
    outer = promise("sum", lambda response: response.structured["total"])
    components = [with_adapters(inner), with_adapters(outer)]

    messages, model = await answers(call_of("count"), tools=[Counter()], components=components)

    assert model.requests[0].tools[0].output_schema["required"] == ("sum",)
    assert messages[0].tool_response.structured == {"sum": 1}


async def test_an_unfit_result_blames_no_handler():
    class Unfit(Counter):
        def run(self) -> dict[str, int]:
            return {"m": 1}

    change = Wrong(response=lambda response: replace(response, structured={"m": 2}))

    messages, _ = await answers(
        call_of("count"), tools=[Unfit()], components=[with_adapters(change)]
    )

    assert messages[0].tool_response.structured == {"m": 2}


async def test_a_failing_signature_hides_its_tool(caplog):
    bus, component = EventBus(), with_adapters(Wrong("read", signature=OSError(SECRET)))
    everything = with_adapters(Wrong(signature=OSError(SECRET)))
    many = tuple([replace(read.spec, name=f"read_{number}") for number in range(7)])

    with Recorder(bus) as recorder:
        messages, model = await answers(
            call_of("write", path="a"), tools=[read, write], components=[component], bus=bus
        )
        with everything.installed(bus):
            await bus.apply(TOOLS_PROVIDE, many)

    assert model.requests[0].tools == (write.spec,)
    assert messages[0].text == "wrote a"
    reasons = [
        (record.entries[0].name, record.entries[0].status, record.entries[0].reason)
        for record in recorder.records
        if record.event == TOOLS_PROVIDE.name
    ]
    five = ", ".join([f"'read_{number}'" for number in range(5)])
    assert reasons[0] == ("Wrong", "failed", "raised an error, which hides 'read'")
    assert reasons[-1][2] == f"raised an error, which hides {five} and 2 more"
    said = "handler 'Wrong' of 'tools:provide' raised an error for the tool 'read' (OSError"
    assert said in caplog.text


async def test_failing_to_adapt_arguments_denies_the_call():
    component = with_adapters(Wrong(parameters=OSError(SECRET)))

    messages, _ = await answers(call_of("read", path="a"), components=[component])

    assert messages[0].text == "adapter 'Wrong' raised an error"
    assert messages[0].tool_response.error_type == "denied"
    assert SECRET.encode() not in encode(messages)


async def test_a_failed_conversion_denies_the_call():
    class Unable(Rename):
        def adapt_parameters(self, call: ToolCall) -> ToolCall:
            raise OSError(SECRET)

    component = with_adapters(Unable("path", "file"))

    messages, _ = await answers(call_of("read", file="a"), components=[component])

    assert messages[0].tool_response.error_type == "denied"
    assert messages[0].text == "adapter 'Unable' raised an error"


async def test_a_failing_response_is_withheld():
    component = with_adapters(Wrong(response=OSError(SECRET)))

    messages, model = await answers(call_of("read", path=SECRET), components=[component])

    assert messages[0].text == "the result was withheld: adapter 'Wrong' raised an error"
    assert messages[0].tool_response.is_error
    assert messages[0].tool_response.error_type == "withheld"
    assert SECRET.encode() not in encode(messages)
    assert model.requests[1].messages[-1] == messages[0]


async def test_a_withheld_response_keeps_only_facts():
    message = message_of(
        ToolResponse(
            content=(TextPart(text=SECRET),),
            structured={SECRET: SECRET},
            error_type=SECRET,
            tool_name=SECRET,
            tool_call_id=SECRET,
            parameters={SECRET: SECRET},
            duration_ns=7,
            metadata={SECRET: SECRET},
        )
    )

    context = await appended(with_adapters(Wrong(response=OSError())), message)

    assert context.value == message.with_tool_response(
        ToolResponse(
            content=(TextPart(text="the result was withheld: adapter 'Wrong' raised an error"),),
            is_error=True,
            error_type="withheld",
            tool_name="read",
            tool_call_id="c",
            duration_ns=7,
        )
    )


async def test_a_dry_run_withholds_as_well():
    bus = EventBus(dry_run=True)
    component = with_adapters(Wrong(parameters=OSError(), response=OSError()))

    with Recorder(bus) as recorder:
        messages, _ = await answers(call_of("read", path="a"), components=[component], bus=bus)

    assert recorder.values(TOOL_CALL_AFTER)[0].response.text == "text of a"
    assert [one.status for one in recorder.of(TOOL_CALL_BEFORE)[0].entries] == ["failed", "denied"]
    assert messages[0].text == "the result was withheld: adapter 'Wrong' raised an error"


async def test_a_withheld_response_reaches_later_adapters():
    listen, message = Listen(), message_of(ToolResponse.from_text(SECRET))
    component = with_adapters(Wrong(response=OSError()), listen, Mark("!"))

    context = await appended(component, message)

    assert [one.error_type for one, _ in listen.heard] == ["withheld"]
    assert context.value.text == "the result was withheld: adapter 'Wrong' raised an error!"


async def test_an_open_adapter_withholds_nothing(caplog):
    error = OSError("disk on fire")
    wrong = Wrong(on_error="open", signature=error, parameters=error, response=error)

    messages, model = await answers(call_of("read", path="a"), components=[with_adapters(wrong)])

    assert model.requests[0].tools == (read.spec,)
    assert messages[0].text == "text of a"
    assert [record.event for record in caplog.records] == [
        "tools:provide",
        "tool:call:before",
        "message:append:before",
        "tools:provide",
    ]
    assert {record.exc_info[1] for record in caplog.records} == {error}


async def test_a_wrong_type_is_a_failure(caplog):
    component = with_adapters(
        Wrong("read", signature="text"),
        Wrong("write", parameters="text"),
        Wrong("count", response="text"),
    )
    calls = call_of("write", 1, path="a"), call_of("count", 2)

    messages, model = await answers(*calls, tools=[read, write, Counter()], components=[component])

    assert [one.name for one in model.requests[0].tools] == ["write", "count"]
    assert [one.text for one in messages] == [
        "adapter 'Wrong' returned `str` instead of `ToolCall`",
        "the result was withheld: adapter 'Wrong' returned `str` instead of `ToolResponse`",
    ]
    assert caplog.records[0].getMessage() == (
        "handler 'Wrong' of 'tools:provide' returned `str` instead of `ToolSpec` "
        "for the tool 'read' (HandlerContractError)"
    )


async def test_a_changed_name_or_id_fails(caplog):
    component = with_adapters(
        Wrong("read", signature=lambda spec: replace(spec, name="write")),
        Wrong("write", parameters=lambda call: replace(call, name="read")),
        Wrong("count", parameters=lambda call: replace(call, id="other")),
    )
    calls = call_of("write", 1, path="a"), call_of("count", 2)

    messages, model = await answers(*calls, tools=[read, write, Counter()], components=[component])

    assert [one.name for one in model.requests[0].tools] == ["write", "count"]
    assert [one.text for one in messages] == [
        "adapter 'Wrong' changed the name",
        "adapter 'Wrong' changed the id",
    ]
    assert "changed the name" in caplog.records[0].getMessage()


async def test_a_malformed_signature_is_a_failure(caplog):
    bad = {"type": "text"}
    component = with_adapters(
        Wrong("read", signature=lambda spec: replace(spec, input_schema=bad)),
        Wrong("write", signature=lambda spec: replace(spec, output_schema=bad)),
    )

    _, model = await answers(call_of("none"), tools=[read, write], components=[component])

    assert model.requests[0].tools == ()
    assert caplog.text.count("returned a malformed schema: expected one of") == 4


async def test_a_failing_choice_is_a_failure():
    class Undecided(ToolAdapter):
        def should_adapt(self, tool_name: str) -> bool:
            raise LookupError(tool_name)

    context = await appended(with_adapters(Undecided()), message_of(ToolResponse.from_text("hot")))

    assert context.value.text == "the result was withheld: adapter 'Undecided' raised an error"


async def test_a_closed_failure_s_text_stays_hidden(caplog):
    component = with_adapters(Wrong(response=OSError(SECRET)))

    await appended(component, message_of(ToolResponse.from_text(SECRET)))

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("toolbus", logging.WARNING)
    assert (record.event, record.handler) == ("message:append:before", "Wrong")
    assert record.getMessage().startswith(
        "handler 'Wrong' of 'message:append:before' raised an error (OSError at "
    )
    assert __file__ in record.getMessage()
    assert SECRET not in caplog.text


async def test_a_depth_error_passes_every_adapter():
    bus = EventBus()

    class Again(ToolAdapter):
        async def adapt_response(self, response: ToolResponse, call: ToolCall) -> None:
            await bus.apply(MESSAGE_APPEND_BEFORE, message, scope=Scope(agent_id="main"))

    message = message_of(ToolResponse.from_text("hot"))

    with pytest.raises(DispatchDepthError):
        await appended(with_adapters(Again()), message, bus)


class Fill(ToolAdapter):
    """Puts what only the tool gets in place of a name."""

    tools = "read"

    def __init__(self, before: str, after: str) -> None:
        self.before, self.after = before, after

    def fill_parameters(self, call: ToolCall) -> Any:
        path = call.arguments["path"].replace(self.before, self.after)
        return call.with_arguments({**call.arguments, "path": path})


async def test_filling_comes_after_all_handlers():
    got, shown = [], []

    class AsyncFill(Fill):
        async def fill_parameters(self, call: ToolCall, ctx: AdapterContext) -> Any:
            assert ctx.tool.name == "read"
            return super().fill_parameters(call)

    def read(path: str) -> str:
        """Read a file."""
        got.append(path)
        if len(got) == 1:
            raise OSError("once more")
        return "text"

    def approve(ask: Any, call: Any, scope: Any) -> bool:
        shown.append(call)
        return True

    bus = EventBus()
    bus.on(TOOL_CALL_BEFORE, lambda ctx: shown.append(ctx.value), priority=-1_000)
    bus.guard(TOOL_CALL_BEFORE, lambda ctx: Ask("may it?"))
    bus.on(TOOL_CALL_ERROR, lambda ctx: Retry())
    bus.on(TOOL_CALL_AFTER, lambda ctx: shown.append(ctx.value.executed))
    messages, _ = await answers(
        call_of("read", path="a/$1/$2"),
        tools=[tool(read, idempotent=True)],
        components=[with_adapters(Fill("$1", SECRET), AsyncFill("$2", "b"))],
        bus=bus,
        approver=approve,
    )

    assert got == [f"a/{SECRET}/b"] * 2
    assert [call.arguments["path"] for call in shown] == ["a/$1/$2"] * 3
    assert messages[0].tool_response.parameters == {"path": "a/$1/$2"}


async def test_a_failed_filling_denies_the_call():
    class Broken(Fill):
        def fill_parameters(self, call: ToolCall) -> Any:
            if self.before == "raise":
                raise OSError(SECRET)
            return Deny("not this one") if self.before == "deny" else replace(call, name="write")

    opened = Broken("raise", "")
    opened.on_error = "open"
    adapters = Broken("raise", ""), Broken("deny", ""), Broken("name", ""), opened

    read_by = [
        (await answers(call_of("read", path="a"), components=[with_adapters(each)]))[0][0]
        for each in adapters
    ]

    assert [message.text for message in read_by] == [
        "adapter 'Broken' raised an error",
        "not this one",
        "adapter 'Broken' changed the name",
        "text of a",
    ]
    assert [message.tool_response.error_type for message in read_by[:3]] == ["denied"] * 3


async def test_filling_chooses_its_tools():
    redirected = with_adapters(Fill("a", SECRET))
    disabled = with_adapters(Fill("a", SECRET))
    disabled.enabled = False
    bus = EventBus()
    bus.on(TOOL_CALL_BEFORE, lambda ctx: replace(ctx.value, name="write"), priority=-1)

    first, _ = await answers(
        call_of("read", path="a"), tools=[read, write], components=[redirected], bus=bus
    )
    second, _ = await answers(call_of("read", path="a"), components=[disabled])

    assert (first[0].text, second[0].text) == ("wrote a", "text of a")


async def test_each_adapter_has_its_entry():
    bus = EventBus()
    change = Wrong(
        signature=lambda spec: replace(spec, description="changed"),
        parameters=lambda call: call.merge_arguments({"path": "b"}),
        response=lambda response: response.with_text("changed"),
    )
    component = with_adapters(change, Listen())

    with Recorder(bus) as recorder:
        await answers(call_of("read", path="a"), components=[component], bus=bus)

    records = [
        recorder.of(TOOLS_PROVIDE)[0],
        recorder.of(TOOL_CALL_BEFORE)[0],
        next(one for one in recorder.of(MESSAGE_APPEND_BEFORE) if one.call_id),
    ]
    entries = [
        [(entry.name, entry.status, entry.priority, entry.fields) for entry in record.entries]
        for record in records
    ]
    assert entries == [
        [("Wrong", "changed", 200, ()), ("Listen", "ran", 200, ())],
        [("Listen", "ran", 201, ()), ("Wrong", "changed", 201, ("arguments",))],
        [("Wrong", "changed", 50, ("tool_response",)), ("Listen", "ran", 50, ())],
    ]


async def test_an_adapter_without_effect_has_none():
    bus = EventBus()
    other = Mark("!")
    other.tools = ("write",)
    component = with_adapters(other, Listen())

    with Recorder(bus) as recorder:
        await answers(call_of("read", path="a"), components=[component], bus=bus)

    events = TOOLS_PROVIDE, TOOL_CALL_BEFORE
    records = [recorder.of(event)[0] for event in events]
    records += [one for one in recorder.of(MESSAGE_APPEND_BEFORE) if one.call_id]
    assert [[entry.name for entry in record.entries] for record in records] == [["Listen"]] * 3


async def test_a_failed_adapter_s_entry_has_the_reason():
    bus, error = EventBus(), OSError()
    wrong = Wrong(signature=error, parameters=error, response=error)

    with Recorder(bus) as recorder:
        component = with_adapters(wrong)
        context = await appended(component, message_of(ToolResponse.from_text("hot")), bus)
        await bus.apply(TOOLS_PROVIDE, (read.spec,), scope=context.scope)
        denied = await bus.apply(TOOL_CALL_BEFORE, call_of("read"), scope=context.scope)

    entries = [
        [(entry.name, entry.status, entry.reason) for entry in record.entries]
        for record in recorder.records
    ]
    handler, reason = "AgentComponent._on_tool_call_before_adapter", "raised an error"
    failed = "Wrong", "failed", reason
    assert entries == [
        [failed],
        [("Wrong", "failed", f"{reason}, which hides 'read'")],
        [failed, (handler, "denied", "adapter 'Wrong' raised an error")],
    ]
    assert denied.denied.detail.startswith("OSError: ")


def test_an_adapter_may_have_a_name():
    class Redactor(ToolAdapter):
        name = "secrets"

    class Stricter(Redactor):
        pass

    named = Redactor()
    named.name = "secrets of the house"

    names = [one.name for one in (Redactor(), named, Stricter(), ToolAdapter())]

    assert names == ["secrets", "secrets of the house", "Stricter", "ToolAdapter"]


class Vault(Tool):
    """A tool that says its token in every way."""

    name = "vault"

    def run(self, token: str) -> ToolResponse:
        return ToolResponse(
            content=(
                TextPart(text=f"it is {token}"),
                ResourcePart(resource=Resource(uri="file:///token", text=token)),
            ),
            structured={token: [token, {"deep": {token: f"<{token}>"}}]},
            metadata={token: [{"token": token}]},
        )


async def talk_of_secrets(path, component: AgentComponent) -> tuple[Any, bytes]:
    """Let a model use the vault; return the answer, and all that was left anywhere."""
    asks = [AssistantMessage(id=f"asks-{n}", tool_calls=(call_of("vault", n),)) for n in (1, 2)]
    model, records = ScriptedModel([asks[0], "done", "done again"]), []
    leaky = replace(Vault().run(token=SECRET), parameters={"token": SECRET})
    async with SqliteStore(path / "sessions.db") as store:
        async with Agent(model, tools=[Vault()], store=store, components=[component]) as agent:
            agent.bus.tap(records.append)
            result = await agent.run("go")
            await agent.append(asks[1])
            await agent.append(message_of(leaky, content=f"it is {SECRET}", tool_call_id="call-2"))
            await agent.run("go on")
        left = [file.read_bytes() for file in sorted(path.iterdir())]
        kept = await store.records(agent.scope.session_id)
    assert len(left) > 1
    assert len(agent.messages) == 8
    left += [encode(one) for one in (*model.requests, *agent.messages, *records, *kept)]
    left += [repr((records, agent.ledger)).encode()]
    return result.messages[2].tool_response, b"\n".join(left)


async def test_a_redacted_secret_is_stored_nowhere(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)

    response, left = await talk_of_secrets(tmp_path, with_adapters(Hide()))

    assert response.text == "it is ***\n***"
    assert response.structured == {"***": ("***", {"deep": {"***": "<***>"}})}
    assert response.metadata == {"***": ({"token": "***"},)}
    assert response.parameters == {"token": "***"}
    assert left.count(b"it is ***") > 2
    assert SECRET.encode() not in left
    assert SECRET not in caplog.text


async def test_a_denied_message_has_no_secret(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)

    class Strict(AgentComponent):
        @on(MESSAGE_APPEND_BEFORE, priority=-1)
        def refuse(self, ctx: EventContext[Any]) -> Deny | None:
            return Deny("too hot") if isinstance(ctx.value, ToolMessage) else None

    component = Strict()
    component.register_tool_adapter(Hide())

    response, left = await talk_of_secrets(tmp_path, component)

    assert (response.text, response.error_type) == ("too hot", "denied")
    assert response.parameters == {"token": "***"}
    assert SECRET.encode() not in left
    assert SECRET not in caplog.text
