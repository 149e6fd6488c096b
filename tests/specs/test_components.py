"""The scenarios of `specs/components.md`."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from toolbus import (
    Agent,
    AgentComponent,
    AssistantMessage,
    Deny,
    EventBus,
    EventContext,
    Scope,
    ToolAdapter,
    ToolCall,
    ToolMessage,
    ToolResponse,
    ToolRunner,
    guard,
    on,
    tool,
)
from toolbus.components.participants import ComponentHost
from toolbus.errors import ClosedError, DispatchError, RegistrationError
from toolbus.events import (
    CATALOGUE,
    MESSAGE_APPEND_AFTER,
    MESSAGE_APPEND_BEFORE,
    RUN_BEFORE,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    TransformEvent,
)
from toolbus.models.scripted import ScriptedModel
from toolbus.testing.fakes import Recorder
from toolbus.tools import Toolset

APPEND = "_on_message_append_before_adapter"
PARAMETERS = "_on_tool_call_before_adapter"
PROVIDE = "_on_tools_provide_adapter"
EVENTS = (TOOLS_PROVIDE, TOOL_CALL_BEFORE, MESSAGE_APPEND_BEFORE, TOOL_CALL_AFTER)
NUMBER = TransformEvent("number", int)


@tool
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


class Shout(ToolAdapter):
    """Adapts everything, and counts how often it was asked."""

    asked = 0

    def adapt_signature(self, spec):
        self.asked += 1
        return None if spec.description.isupper() else shouted(spec)

    def adapt_parameters(self, call):
        self.asked += 1
        return call.merge_arguments({"path": call.arguments["path"].upper()})

    def adapt_response(self, response, call):
        self.asked += 1
        return response.map_text(str.upper)


class Equal(Shout):
    """Equal to all of its kind."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    __hash__ = None


class Guarding(AgentComponent):
    """Denies secret paths, and notes what it hears."""

    def __init__(self, log: list[Any] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.log = [] if log is None else log

    @on(TOOL_CALL_BEFORE)
    def hear(self, ctx: EventContext[ToolCall]) -> None:
        self.log.append(ctx.value.arguments.get("path"))

    @guard(TOOL_CALL_BEFORE)
    async def refuse(self, ctx: EventContext[ToolCall]) -> Deny | None:
        secret = ctx.value.arguments.get("path") in {"secret", "SECRET"}
        return Deny("it is secret") if secret else None

    @on(TOOL_CALL_AFTER)
    def see(self, ctx: EventContext[Any]) -> None:
        self.log.append(ctx.value.status)

    @tool
    def heard(self) -> str:
        """Tell what was heard."""
        return str(self.log)


class Slow(AgentComponent):
    """Notes when it is installed and closed; *failures* are raised by `install`, one a time."""

    def __init__(self, name: str, log: list[str], *failures: Exception) -> None:
        self.label, self.log, self.failures = name, log, list(failures)

    async def install(self, agent: Any) -> None:
        assert not agent.messages
        if self.failures:
            raise self.failures.pop()
        self.log.append(f"install {self.label}")

    async def close(self) -> None:
        self.log.append(f"close {self.label}")


def shouted(spec):
    return type(spec)(
        name=spec.name, description=spec.description.upper(), input_schema=spec.input_schema
    )


def shouting() -> AgentComponent:
    component = AgentComponent()
    component.register_tool_adapter(Shout())
    return component


def call_of(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{number}", name=name, arguments=arguments)


def scripted(*turns: tuple[ToolCall, ...] | str) -> ScriptedModel:
    """Return a model that makes the calls, or says the texts, of *turns*."""
    answers = [
        turn if isinstance(turn, str) else AssistantMessage(id=f"asks-{n}", tool_calls=turn)
        for n, turn in enumerate(turns)
    ]
    return ScriptedModel([*answers, "done"])


def agent_of(*components: AgentComponent, model: Any = None, **options: Any) -> Agent:
    return Agent(model or ScriptedModel([]), components=components, **{"tools": [read], **options})


def host_of(agent_id: str = "program") -> SimpleNamespace:
    """Return what is no agent and offers what a component needs."""
    scope = Scope(agent_id=agent_id)
    return SimpleNamespace(bus=EventBus(), tools=Toolset([read]), scope=scope)


def contexts() -> list[EventContext[Any]]:
    """Return what the three adapter handlers may be called with."""
    response = ToolResponse.from_text("text", is_error=False)
    message = ToolMessage(id="m", tool_call_id="c", tool_name="read", tool_response=response)
    values = (read.spec,), call_of("read", path="a"), message
    return [EventContext(event, value) for event, value in zip(EVENTS[:3], values, strict=True)]


async def results(component: AgentComponent, seen: list[EventContext[Any]]) -> list[Any]:
    """Call the three adapter handlers with the contexts *seen*."""
    names = PROVIDE, PARAMETERS, APPEND
    return [await getattr(component, name)(ctx) for name, ctx in zip(names, seen, strict=True)]


async def texts(agent: Agent, *names: str) -> list[str]:
    """Let *agent* call `read` with each path; return what it read."""
    outcomes = [await agent.call_tool("read", path=name) for name in names]
    return [outcome.response.text for outcome in outcomes]


def handlers(bus: EventBus) -> list[str]:
    """Return the names of all handlers of the bus."""
    return [info.name for event in EVENTS for info in bus.handlers(event)]


async def test_a_marked_method_handles_its_event():
    class Marked(AgentComponent):
        def __init__(self) -> None:
            self.seen: list[str] = []

        @on(TOOL_CALL_BEFORE)
        async def rewrite(self, ctx: EventContext[ToolCall]) -> ToolCall:
            return ctx.value.merge_arguments({"path": "b"})

        @on(TOOL_CALL_AFTER)
        def see(self, ctx: EventContext[Any]) -> None:
            self.seen.append(ctx.value.response.text)

    component = Marked()

    async with agent_of(component) as agent:
        read_text = await texts(agent, "a")

    assert read_text == ["text of b"]
    assert component.seen == ["text of b"]


async def test_a_marked_guard_judges_last():
    async with agent_of(Guarding()) as agent:
        rewritten = ToolCall(id="x", name="read", arguments={"path": "secret"})
        agent.on(
            TOOL_CALL_BEFORE,
            lambda ctx: ctx.value.with_arguments(rewritten.arguments),
            priority=-100,
        )

        read_text = await texts(agent, "a")

    assert read_text == ["it is secret"]


async def test_a_marked_tool_is_offered_and_runs():
    class Notes(AgentComponent):
        def __init__(self, note: str) -> None:
            self.note = note

        @tool
        def look(self, page: int = 1) -> str:
            """Look at the notes."""
            return f"{page}: {self.note}"

        @tool(name="shout")
        async def say(self, word: str) -> str:
            return f"{word} {self.note}"

    model = scripted((call_of("look", 1), call_of("shout", 2, word="oh")))

    async with agent_of(Notes("milk"), model=model, tools=()) as agent:
        result = await agent.run("go")

    told = {spec.name: spec for spec in model.requests[0].tools}
    assert list(told) == ["look", "shout"]
    assert told["look"].description == "Look at the notes."
    assert list(told["look"].input_schema["properties"]) == ["page"]
    assert [one.text for one in result.messages[2:4]] == ["1: milk", "oh milk"]


async def test_marks_can_be_stacked():
    class Stacked(AgentComponent):
        def __init__(self) -> None:
            self.heard: list[str] = []

        @on(TOOL_CALL_BEFORE, priority=1)
        @on(TOOL_CALL_AFTER)
        @on(TOOL_CALL_BEFORE, name="twice")
        def hear(self, ctx: EventContext[Any]) -> None:
            self.heard.append(ctx.event.name)

    component = Stacked()

    async with agent_of(component) as agent:
        await texts(agent, "a")

    assert component.heard == ["tool:call:before", "tool:call:before", "tool:call:after"]


async def test_marks_have_the_options_of_on():
    class Chosen(AgentComponent):
        heard = ()

        @on(NUMBER, priority=7, on_error="raise", name="picky", when=lambda ctx: ctx.value > 1)
        def pick(self, ctx: EventContext[int]) -> None:
            self.heard = (*self.heard, ctx.value)

        @on(NUMBER, once=True)
        def once(self, ctx: EventContext[int]) -> None:
            self.heard = (*self.heard, "once")

    host, component = host_of(), Chosen()

    component.setup(host)
    listed = [(one.name, one.priority, one.policy) for one in host.bus.handlers(NUMBER)]
    for number in (1, 2, 3):
        await host.bus.apply(NUMBER, number, scope=host.scope)

    assert listed == [("Chosen.once", 100, "open"), ("picky", 7, "raise")]
    assert component.heard == ("once", 2, 3)


async def test_marks_are_subscribed_as_defined():
    class Above(AgentComponent):
        @on(NUMBER)
        def second(self, ctx: EventContext[int]) -> int:
            return ctx.value * 10 + 1

        @on(NUMBER)
        def first(self, ctx: EventContext[int]) -> int:
            return ctx.value * 10 + 2

    class Below(Above):
        @on(NUMBER)
        def before(self, ctx: EventContext[int]) -> int:
            return ctx.value * 10 + 3

    host = host_of()
    Below().setup(host)

    context = await host.bus.apply(NUMBER, 0, scope=host.scope)

    assert context.value == 123


async def test_an_overriding_method_keeps_its_mark():
    class Base(AgentComponent):
        @on(TOOL_CALL_BEFORE, priority=3)
        def hear(self, ctx: EventContext[ToolCall]) -> ToolCall | None:
            raise NotImplementedError

        @guard(TOOL_CALL_BEFORE)
        def judge(self, ctx: EventContext[ToolCall]) -> Deny | None:
            raise NotImplementedError

        @tool(description="Echo.", timeout=3)
        def echo(self) -> str:
            raise NotImplementedError

    class Real(Base):
        def hear(self, ctx: EventContext[ToolCall]) -> ToolCall:
            return ctx.value.merge_arguments({"word": ctx.value.arguments["word"] + "!"})

        async def judge(self, ctx: EventContext[ToolCall]) -> Deny | None:
            return Deny("no") if ctx.value.arguments["word"] == "no!" else None

        def echo(self, word: str) -> str:
            return word

    async with agent_of(Real()) as agent:
        answers = [(await agent.call_tool("echo", word=word)).response for word in ("hi", "no")]
        echo = agent.tools.get("echo")
        listed = agent.bus.handlers(TOOL_CALL_BEFORE)

    assert [one.text for one in answers] == ["hi!", "no"]
    assert (echo.spec.description, echo.timeout) == ("Echo.", 3)
    assert [(one.name, one.priority) for one in listed[1:]] == [
        ("Real.hear", 3),
        ("Real.judge", 100),
    ]


async def test_an_overriding_method_may_change_its_mark():
    class Other(Guarding):
        @on(TOOL_CALL_BEFORE, priority=9)
        def hear(self, ctx: EventContext[ToolCall]) -> None: ...

        @on(TOOL_CALL_BEFORE, priority=8)
        async def refuse(self, ctx: EventContext[ToolCall]) -> None: ...

        @tool(description="Other.")
        def heard(self) -> str:
            return "other"

    host, component = host_of(), Other()

    component.setup(host)

    listed = [(one.name, one.kind, one.priority) for one in host.bus.handlers(TOOL_CALL_BEFORE)]
    assert listed[1:] == [
        ("Other.hear", "transformer", 9),
        ("Other.refuse", "transformer", 8),
    ]
    assert [one.description for one in host.tools.specs] == ["Read a file.", "Other."]


async def test_none_removes_a_mark():
    class Quiet(Guarding):
        hear = None
        heard = None

    host = host_of()

    Quiet().setup(host)

    assert [one.name for one in host.bus.handlers(TOOL_CALL_BEFORE)] == [
        f"Quiet.{PARAMETERS}",
        "Quiet.refuse",
    ]
    assert [one.name for one in host.tools.specs] == ["read"]


async def test_an_invalid_mark_fails_at_definition():
    async def later(ctx: EventContext[Any]) -> bool:
        raise NotImplementedError

    event: Any = "tool:call:before"

    with pytest.raises(RegistrationError, match="a guard judges"):
        guard(TOOL_CALL_AFTER)
    with pytest.raises(RegistrationError, match="when must be sync"):
        on(TOOL_CALL_BEFORE, when=later)
    with pytest.raises(RegistrationError, match="on_error must be one of"):
        on(TOOL_CALL_BEFORE, on_error="shut")
    with pytest.raises(RegistrationError, match="an observer cannot deny"):
        on(TOOL_CALL_AFTER, on_error="closed")
    with pytest.raises(
        RegistrationError, match=r"are objects, not strings; use `toolbus.events.TOOL_CALL_BE"
    ):
        on(event)
    with pytest.raises(RegistrationError, match="not in the catalogue; known: tool:call:before"):
        on("tool:call:befor")  # type: ignore[call-overload]
    with pytest.raises(RegistrationError, match="the event comes first"):
        on(later)  # type: ignore[call-overload]
    with pytest.raises(RegistrationError, match="'prority'; did you mean 'priority'"):
        on(TOOL_CALL_BEFORE, prority=50)  # type: ignore[call-overload]


async def test_handlers_apply_only_to_their_agent():
    bus, component = EventBus(), Guarding()
    component.register_tool_adapter(Shout())

    async with agent_of(component, bus=bus) as mine, agent_of(bus=bus) as other:
        mine_read = await texts(mine, "a", "secret")
        others_read = await texts(other, "a", "secret")

    assert mine_read == ["TEXT OF A", "IT IS SECRET"]
    assert others_read == ["text of a", "text of secret"]
    assert component.log == ["A", "ok", "SECRET", "denied"]


async def test_handlers_apply_to_sub_agents():
    bus, component = EventBus(), Guarding()
    model = scripted((call_of("read", path="secret"),))

    below = agent_of(model=model, bus=bus)
    tools = [below.as_tool("helper")]
    async with below, agent_of(component, tools=tools, bus=bus) as above:
        await above.call_tool("helper", prompt="go")

    assert model.requests[1].messages[-1].text == "it is secret"
    assert component.log == [None, "secret", "denied", "ok"]


async def test_a_mark_may_apply_to_all_agents():
    class Wide(AgentComponent):
        heard = 0

        @on(TOOL_CALL_BEFORE, sender=None)
        def hear(self, ctx: EventContext[ToolCall]) -> None:
            self.heard += 1

    bus, component = EventBus(), Wide()

    async with agent_of(component, bus=bus), agent_of(bus=bus) as other:
        await texts(other, "a")

    assert component.heard == 1


async def test_a_host_without_an_id_includes_all_agents():
    host, component = host_of(""), Guarding()
    component.register_tool_adapter(Shout())
    component.setup(host)

    outcomes = [
        await ToolRunner(host.bus, host.tools, scope).call("read", {"path": "a"})
        for scope in (None, Scope(agent_id="other"))
    ]

    assert [one.response.text for one in outcomes] == ["TEXT OF A", "TEXT OF A"]
    assert component.log == ["A", "ok", "A", "ok"]


async def test_handlers_and_guards_are_switched():
    component = Guarding(enabled=False)

    async with agent_of(component) as agent:
        with Recorder(agent.bus) as recorder:
            off = await texts(agent, "secret")
            component.enabled = True
            between = await texts(agent, "secret")
            component.enabled = False
            off += await texts(agent, "secret")

    assert off == ["text of secret", "text of secret"]
    assert between == ["it is secret"]
    assert component.log == ["secret", "denied"]
    statuses = [
        [entry.status for entry in record.entries if not entry.name.endswith("_adapter")]
        for event in (TOOL_CALL_BEFORE, TOOL_CALL_AFTER)
        for record in recorder.of(event)
    ]
    skipped = ["skipped", "skipped"]
    assert statuses == [skipped, ["ran", "denied"], skipped, ["skipped"], ["ran"], ["skipped"]]


async def test_tools_are_switched():
    component = Guarding()
    model = scripted((call_of("heard"),), (call_of("heard", 2),))

    async with agent_of(component, model=model) as agent:
        agent.on(TOOL_CALL_AFTER, lambda ctx: setattr(component, "enabled", False))
        result = await agent.run("go")

    told = [[spec.name for spec in request.tools] for request in model.requests]
    assert told == [["read", "heard"], ["read"], ["read"]]
    assert [one.text for one in result.messages if isinstance(one, ToolMessage)] == [
        "[None]",
        "no tool named 'heard'; known tools: read",
    ]


async def test_adapters_are_switched():
    component = shouting()
    model = scripted((call_of("read", 1, path="a"),), (call_of("read", 2, path="a"),))

    async with agent_of(component, model=model) as agent:

        @agent.on(MESSAGE_APPEND_AFTER)
        def switch_off(ctx: EventContext[Any]) -> None:
            component.enabled = component.enabled and not isinstance(ctx.value, ToolMessage)

        result = await agent.run("go")

    told = [request.tools[0].description for request in model.requests]
    assert told == ["READ A FILE.", "Read a file.", "Read a file."]
    assert [one.text for one in result.messages if isinstance(one, ToolMessage)] == [
        "TEXT OF A",
        "text of a",
    ]


async def test_disabled_adapter_handlers_return_early():
    component, seen = shouting(), contexts()
    component.enabled = False

    returned = await results(component, seen)

    assert returned == [None, None, None]
    assert [ctx.output for ctx in seen] == [None, None, None]
    assert component.adapters[0].asked == 0


async def test_handlers_without_adapters_return_early():
    component, seen = AgentComponent(), contexts()

    returned = await results(component, seen)

    assert returned == [None, None, None]
    assert [ctx.output for ctx in seen] == [None, None, None]
    assert [ctx.steps for ctx in seen] == [(), (), ()]


def test_a_component_may_begin_disabled():
    class Sleeping(AgentComponent):
        enabled = False

    states = [
        one.enabled
        for one in (
            AgentComponent(),
            AgentComponent(enabled=False),
            Sleeping(),
            Sleeping(enabled=True),
        )
    ]

    assert states == [True, False, False, True]


async def test_a_restricted_component_leaves_others_alone():
    class Rules(AgentComponent):
        def __init__(self):
            self.register_tool_adapter(Shout())

        @guard(TOOL_CALL_BEFORE)
        def judge(self, ctx):
            return Deny("no") if ctx.value.arguments["path"].lower() == "secret" else None

    model = ScriptedModel(
        [
            AssistantMessage(
                id="m",
                tool_calls=tuple(
                    [
                        ToolCall(id=f"{name}-{path}", name=name, arguments={"path": path})
                        for name in ("read", "write")
                        for path in ("notes", "secret")
                    ]
                ),
            ),
            "done",
        ]
    )

    @tool
    def write(path: str) -> str:
        """Write a file."""
        return f"wrote {path}"

    restricted = Rules().restrict(tools="re*")
    async with Agent(model, tools=[read, write], components=[restricted]) as agent:
        await agent.run("go")

    texts = {one.tool_call_id: one.text for one in agent.messages if one.role == "tool"}
    assert texts["read-notes"] == "TEXT OF NOTES"
    assert texts["read-secret"] == "NO"
    assert (texts["write-notes"], texts["write-secret"]) == ("wrote notes", "wrote secret")


async def test_its_own_predicate_still_applies():
    async def slow():
        return True

    def later(ctx):
        return slow()

    class Rules(AgentComponent):
        @guard(TOOL_CALL_BEFORE, when=lambda ctx: ctx.value.arguments["path"] == "secret")
        def judge(self, ctx):
            return Deny("no")

        @guard(TOOL_CALL_BEFORE, when=later, name="late")
        def never(self, ctx): ...

    bus = EventBus(dry_run=True)
    recorder = Recorder(bus)
    toolset = Toolset([read])
    component = Rules().restrict(tools=["read", "fetch"])
    component.setup(SimpleNamespace(bus=bus, tools=toolset, scope=Scope()))
    statuses = {}
    for name, path in (("read", "secret"), ("read", "x"), ("rm", "secret"), ("rm", "x")):
        await bus.apply(TOOL_CALL_BEFORE, ToolCall(id="c", name=name, arguments={"path": path}))
        entries = recorder.records[-1].entries
        statuses[name, path] = [one.status for one in entries if "adapter" not in one.name]

    assert statuses == {
        ("read", "secret"): ["denied", "failed"],
        ("read", "x"): ["skipped", "failed"],
        ("rm", "secret"): ["skipped", "skipped"],
        ("rm", "x"): ["skipped", "skipped"],
    }


async def test_one_priority_keeps_the_order():
    class Rules(AgentComponent):
        @on(TOOL_CALL_BEFORE, priority=-1)
        def last(self, ctx): ...

        @on(TOOL_CALL_BEFORE)
        def middle(self, ctx): ...

        @on(TOOL_CALL_BEFORE, priority=900)
        def first(self, ctx): ...

    agent = agent_of(Rules().restrict(priority=40))

    assert [
        (one.name.rpartition(".")[2], one.priority) for one in agent.bus.handlers(TOOL_CALL_BEFORE)
    ] == [(PARAMETERS, 201), ("first", 40), ("middle", 40), ("last", 40)]


async def test_a_restricted_component_can_be_reinstalled():
    component = Guarding().restrict(tools="other")
    async with agent_of(component) as agent:
        before = await texts(agent, "secret")
        await agent.remove(component)

    async with agent_of(component.restrict(tools="r?ad")) as agent:
        after = await texts(agent, "secret")

    assert before != after


async def test_invalid_limits_are_refused():
    class Own(AgentComponent):
        def setup(self, agent):
            super().setup(agent)

    installed = Guarding()
    agent_of(installed)
    for component, limits, reason in (
        (AgentComponent(), {"tools": ()}, "tools must be names or glob patterns, not ()"),
        (AgentComponent(), {"tools": ""}, "tools must be names or glob patterns, not ('',)"),
        (AgentComponent(), {"tools": [3]}, "tools must be names or glob patterns, not (3,)"),
        (AgentComponent(), {"priority": True}, "priority must be an integer, not True"),
        (AgentComponent(), {"priority": "x"}, "priority must be an integer, not 'x'"),
        (installed, {"tools": "x"}, "it is installed already; restrict it before that"),
        (Own(), {"tools": "x"}, "it overrides `setup`, which ignores tools and priority"),
    ):
        with pytest.raises(RegistrationError) as caught:
            component.restrict(**limits)
        assert caught.value.what == f"component {component.name!r}"
        assert caught.value.reason.startswith(reason)


async def test_the_append_handler_has_priority_50():
    agent = agent_of(Guarding())

    (info,) = agent.bus.handlers(MESSAGE_APPEND_BEFORE)

    assert (info.name, info.priority, info.policy) == (f"Guarding.{APPEND}", 50, "closed")
    assert (info.kind, info.sender) == ("transformer", agent.scope.agent_id)


async def test_the_n_th_component_has_priority_200_n():
    class First(AgentComponent):
        pass

    class Second(AgentComponent):
        pass

    class Third(AgentComponent):
        pass

    bus = EventBus()

    agents = [agent_of(First(), Second(), bus=bus), agent_of(Third(), bus=bus)]

    assert len(agents) == 2
    listed = [
        [(one.name, one.priority, one.policy) for one in bus.handlers(event)]
        for event in (TOOL_CALL_BEFORE, TOOLS_PROVIDE)
    ]
    assert listed == [
        [
            (f"Third.{PARAMETERS}", 203, "closed"),
            (f"Second.{PARAMETERS}", 202, "closed"),
            (f"First.{PARAMETERS}", 201, "closed"),
        ],
        [
            (f"First.{PROVIDE}", 200, "closed"),
            (f"Second.{PROVIDE}", 200, "closed"),
            (f"Third.{PROVIDE}", 200, "closed"),
        ],
    ]


async def test_a_removal_keeps_the_order():
    bus, first, second = EventBus(), AgentComponent(), AgentComponent()
    bus.on(TOOL_CALL_BEFORE, lambda ctx: None, priority=900, name="user")
    agent = agent_of(first, second, bus=bus)

    await agent.remove(first)
    other = agent_of(AgentComponent(), bus=bus)

    listed = [(one.priority, one.sender) for one in bus.handlers(TOOL_CALL_BEFORE)]
    assert listed == [(900, None), (203, other.scope.agent_id), (202, agent.scope.agent_id)]


async def test_adapters_change_after_installation():
    component, shout = AgentComponent(), Shout()

    async with agent_of(component) as agent:
        read_texts = await texts(agent, "a")
        component.register_tool_adapter(shout)
        read_texts += await texts(agent, "a")
        component.unregister_tool_adapter(shout)
        read_texts += await texts(agent, "a")

    assert read_texts == ["text of a", "TEXT OF A", "text of a"]


def test_an_adapter_is_registered_once():
    component, first, second = Guarding(), Equal(), Equal()
    component.register_tool_adapter(first)

    with pytest.raises(RegistrationError) as raised:
        component.register_tool_adapter(first)
    component.register_tool_adapter(second)

    assert str(raised.value) == "adapter 'Equal': Guarding has it already"
    assert [id(one) for one in component.adapters] == [id(first), id(second)]


def test_objects_other_than_adapters_are_refused():
    component, lax, high = AgentComponent(), Shout(), Shout()
    lax.on_error, high.priority = "raise", "high"
    strangers: list[Any] = [Shout, print, lax, high]
    problems = []

    for stranger in strangers:
        with pytest.raises(RegistrationError) as raised:
            component.register_tool_adapter(stranger)
        problems.append(str(raised.value))

    assert problems == [
        "adapter 'Shout': expected an object of a subclass of ToolAdapter",
        "adapter <built-in function print>: expected an object of a subclass of ToolAdapter",
        "adapter 'Shout': on_error must be one of open, closed, not 'raise'",
        "adapter 'Shout': priority must be an integer, not 'high'",
    ]
    assert component.adapters == ()


def test_unregistering_an_unknown_adapter_changes_nothing():
    component, mine = AgentComponent(), Equal()
    component.register_tool_adapter(mine)

    component.unregister_tool_adapter(Equal())

    assert [one is mine for one in component.adapters] == [True]


async def test_guards_apply_from_the_first_moment():
    log: list[str] = []

    class Both(Guarding, Slow):
        def __init__(self) -> None:
            Slow.__init__(self, "both", log)

    agent = agent_of(Both())

    context = await agent.bus.apply(
        TOOL_CALL_BEFORE, call_of("read", path="secret"), scope=agent.scope
    )

    assert context.denied == Deny("it is secret")
    assert log == ["secret"]


async def test_install_is_awaited_before_the_first_step():
    log: list[str] = []
    model = ScriptedModel(["one", "two"])

    async with agent_of(Slow("a", log), Slow("b", log), model=model) as agent:
        agent.on(RUN_BEFORE, lambda ctx: log.append(ctx.value.prompt))
        await agent.run("first")
        await agent.run("second")

    assert log == ["install a", "install b", "first", "second", "close b", "close a"]


async def test_a_failed_install_closes_earlier_components():
    log: list[str] = []
    components = Slow("a", log), Slow("b", log, OSError("no network")), Slow("c", log)
    agent = agent_of(*components)

    with pytest.raises(OSError, match="no network"):
        await agent.run("go")
    async with agent:
        pass

    assert log[:2] == ["install a", "close a"]
    assert log[2:5] == ["install a", "install b", "install c"]
    assert log[5:] == ["close c", "close b", "close a"]


async def test_a_failed_close_stops_no_other():
    class Stubborn(AgentComponent):
        async def close(self) -> None:
            raise OSError("stuck")

    bus, log = EventBus(), []
    agent = agent_of(Slow("a", log), Stubborn(), bus=bus)
    await agent.__aenter__()

    with pytest.raises(OSError, match="stuck"):
        await agent.aclose()

    assert log == ["install a", "close a"]
    assert handlers(bus) == []


class Loud(ToolAdapter):
    def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
        return response.map_text(str.upper)


class Late(AgentComponent):
    """Guards, has a tool and an adapter, and notes when it was installed and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.register_tool_adapter(Loud())

    @guard(TOOL_CALL_BEFORE)
    def refuse(self, ctx: EventContext[ToolCall]) -> Deny | None:
        return Deny("not now") if ctx.value.arguments.get("path") == "now" else None

    @tool
    async def later(self) -> str:
        """Come later."""
        return "later"

    async def install(self, agent: Any) -> None:
        self.log.append("installed")

    async def close(self) -> None:
        self.log.append("closed")


def state_of_agent(agent: Agent) -> Any:
    """Return all that a component can leave behind at *agent*."""
    handlers = [one for event in CATALOGUE for one in agent.bus.handlers(event)]
    return handlers, [spec.name for spec in agent.tools.specs], agent.components


async def test_a_component_can_be_added_later():
    first, early, between, during = Guarding(), Late(), Late(), Late()
    model = scripted("one", (call_of("grow"),), (call_of("later", 2),), "done")

    @tool
    async def grow() -> str:
        await agent.remove(between)
        await agent.add(during)
        return "grown"

    waiting = agent_of(first)
    await waiting.add(early)
    before_the_start = list(early.log)
    agent = agent_of(Guarding(), model=model, tools=[read, grow])
    await agent.run("go")
    alone = state_of_agent(agent)
    await agent.add(between)
    listed = [one.name for one in agent.bus.handlers(TOOL_CALL_BEFORE)]
    priorities = [one.priority for one in agent.bus.handlers(TOOL_CALL_BEFORE)]
    await agent.run("go on")

    assert (before_the_start, await texts(waiting, "now")) == ([], ["NOT NOW"])
    assert early.log == ["installed"]
    assert (listed[0], priorities[:2]) == (f"Late.{PARAMETERS}", [202, 201])
    offered = [[spec.name for spec in one.tools] for one in model.requests]
    assert ["later" in names for names in offered] == [False, True, True, True]
    assert (between.log, during.log) == (["installed", "closed"], ["installed"])
    assert agent.messages[-2].text == "LATER"
    await agent.remove(during)
    assert state_of_agent(agent) == alone
    await agent.add(between)
    assert between.log == ["installed", "closed", "installed"]


async def test_a_failed_addition_leaves_nothing():
    class Needy(AgentComponent):
        requires = (Late,)

    class BadSetup(Late):
        def setup(self, agent: Any) -> None:
            agent.on(TOOL_CALL_AFTER, print)
            agent.tools.add(read_all)
            super().setup(agent)
            raise ValueError("no set-up")

    class BadInstall(Late):
        async def install(self, agent: Any) -> None:
            raise ValueError("no install")

    class Hanging(Late):
        async def install(self, agent: Any) -> None:
            await asyncio.Event().wait()

    there = Guarding()
    agent = agent_of(there)
    async with agent:
        before = state_of_agent(agent)
        errors = []
        for component in (Needy(), Late, "late", there, BadSetup(), BadInstall()):
            with pytest.raises((RegistrationError, ValueError)) as caught:
                await agent.add(component)  # type: ignore[arg-type]
            errors.append(str(caught.value))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.add(Hanging()), 0.01)

        assert state_of_agent(agent) == before
    assert errors == [
        "component 'Needy': it requires Late; install that too",
        "component 'Late': it is a class; give an instance, `Late(…)`",
        "component 'late': expected an AgentComponent or a ToolAdapter",
        "component 'Guarding': it is installed already; make another one",
        "no set-up",
        "no install",
    ]


@tool
async def read_all() -> str:
    """Read all."""
    return "all"


async def test_a_closed_agent_refuses_components():
    class Slow(Late):
        async def install(self, agent: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

    begun, slow, late = asyncio.Event(), Slow(), Late()
    agent = agent_of()
    await agent.append("hi")

    adding = asyncio.create_task(agent.add(slow))
    await begun.wait()
    await agent.aclose()
    with pytest.raises(ClosedError):
        await adding
    with pytest.raises(ClosedError):
        await agent.add(late)

    assert (slow.host, late.host, agent.components) == (None, None, ())


async def test_removing_undoes_set_up_and_install():
    log: list[str] = []

    class Whole(Guarding, Slow):
        def __init__(self) -> None:
            Slow.__init__(self, "whole", log)

    component, model = Whole(), scripted((call_of("read", path="secret"),))
    component.register_tool_adapter(Shout())

    async with agent_of(component, model=model) as agent:
        await agent.remove(component)
        left = handlers(agent.bus), [one.name for one in agent.tools.specs], agent.components
        result = await agent.run("go")

    assert log == ["install whole", "close whole"]
    assert left == ([], ["read"], ())
    assert model.requests[0].tools == (read.spec,)
    assert result.messages[2].text == "text of secret"


async def test_removing_before_the_start_closes_nothing():
    log: list[str] = []
    component = Slow("a", log)
    agent = agent_of(component)

    await agent.remove(component)

    assert handlers(agent.bus) == []
    assert log == []


async def test_removing_an_unknown_component_is_refused():
    bus, component = EventBus(), Guarding()
    agent_of(component, bus=bus)
    before = handlers(bus)

    with pytest.raises(RegistrationError) as raised:
        await agent_of(bus=bus).remove(component)

    assert str(raised.value) == "component 'Guarding': it is not installed here"
    assert handlers(bus) == before


async def test_a_removed_component_can_be_reinstalled():
    bus, component = EventBus(), Guarding()
    async with agent_of(component, bus=bus) as old, agent_of(bus=bus) as other:
        await old.remove(component)
        async with agent_of(component, bus=bus) as new:
            read_texts = [await texts(one, "secret") for one in (old, other, new)]

    assert read_texts == [["text of secret"], ["text of secret"], ["it is secret"]]


async def test_a_failed_set_up_leaves_nothing():
    class Taken(Guarding):
        @tool
        def read(self) -> str:
            raise NotImplementedError

    bus, tools, component = EventBus(), Toolset([read]), Taken()
    host = SimpleNamespace(bus=bus, tools=tools, scope=Scope(agent_id="program"))

    with pytest.raises(RegistrationError, match="tool 'read': the name is already in use"):
        agent_of(AgentComponent(), component, bus=bus)
    with pytest.raises(RegistrationError, match="tool 'read': the name is already in use"):
        component.setup(host)

    assert handlers(bus) == []
    assert [one.name for one in tools.specs] == ["read"]
    assert component.host is None


async def test_an_overriding_set_up_is_undone():
    class Failing(Guarding):
        def setup(self, agent: Any) -> None:
            super().setup(agent)
            raise OSError("no licence")

    bus, failing = EventBus(), Failing()

    with pytest.raises(OSError, match="no licence"):
        agent_of(AgentComponent(), failing, bus=bus)

    assert handlers(bus) == []
    assert failing.host is None


async def test_the_same_component_twice_is_refused():
    bus, component, other = EventBus(), Guarding(), Guarding()
    said = "component 'Guarding': it is installed already; make another one"

    async with agent_of(component, bus=bus) as agent:
        before = handlers(bus)
        with pytest.raises(RegistrationError) as second:
            agent_of(AgentComponent(), component, bus=bus)
        with pytest.raises(RegistrationError) as third:
            agent_of(other, other, bus=bus)
        read_texts = await texts(agent, "secret")

        assert (str(second.value), str(third.value)) == (said, said)
        assert handlers(bus) == before
    assert read_texts == ["it is secret"]


async def test_an_adapter_may_be_installed_alone():
    class Ends(ToolAdapter):
        tools = "read"

        def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
            return response.map_text(lambda text: f"{text} end")

    shout, ends, before = Shout(), Ends(), []

    async with agent_of(shout) as agent:
        await agent.add(ends)
        names = [component.name for component in agent.components]
        before += await texts(agent, "a")
        with pytest.raises(RegistrationError, match="'Shout': it is installed already") as refused:
            await agent.add(shout)
        await agent.remove(shout)
        after = await texts(agent, "a")
        with pytest.raises(RegistrationError, match="'Shout': it is not installed here"):
            await agent.remove(shout)
    with pytest.raises(RegistrationError) as twice:
        agent_of(ends, ends)

    assert names == ["Shout", "Ends"]
    assert (before, after) == (["TEXT OF A end"], ["text of a end"])
    assert str(refused.value) == "component 'Shout': it is installed already; make another one"
    assert "'Ends': it is installed already" in str(twice.value)


async def test_a_closed_agent_leaves_its_bus():
    bus = EventBus()
    bus.on(TOOL_CALL_BEFORE, lambda ctx: None, name="user")

    async with agent_of(Guarding(), bus=bus) as agent:
        await texts(agent, "a")

    assert handlers(bus) == ["user"]


async def test_a_component_knows_its_host():
    component = AgentComponent()
    hosts = [component.host]

    agent = agent_of(component)
    hosts.append(component.host)
    await agent.remove(component)
    hosts.append(component.host)

    assert hosts == [None, agent, None]


async def test_a_component_may_have_its_own_constructor():
    class Plain(Guarding):
        def __init__(self, word: str, *, log: list[Any]) -> None:
            self.word, self.log = word, log

    component = Plain("word", log=[])

    async with agent_of(component) as agent:
        read_texts = await texts(agent, "secret")

    assert read_texts == ["it is secret"]
    assert (component.name, component.enabled) == ("Plain", True)


async def test_any_host_is_accepted():
    host, component = host_of(), Guarding()
    component.register_tool_adapter(Shout())
    runner = ToolRunner(host.bus, host.tools, host.scope)

    component.setup(host)
    outcomes = [await runner.call("read", {"path": path}) for path in ("a", "secret")]
    component.unregister_tool_adapter(component.adapters[0])
    outcomes.append(await runner.call("heard"))
    component.teardown()
    outcomes += [await runner.call("read", {"path": "secret"}), await runner.call("heard")]

    assert [(one.status, one.response.text) for one in outcomes] == [
        ("ok", "TEXT OF A"),
        ("denied", "IT IS SECRET"),
        ("ok", "['A', 'ok', 'SECRET', 'denied', None]"),
        ("ok", "text of secret"),
        ("unknown_tool", "no tool named 'heard'; known tools: read"),
    ]
    assert handlers(host.bus) == []


class Folding(ToolAdapter):
    def adapt_parameters(self, call):
        return call.merge_arguments({"folded": True})

    def adapt_response(self, response, call):
        return response.map_text(str.strip)


class Tried(AgentComponent):
    def __init__(self, *adapters):
        for adapter in adapters or (Folding(),):
            self.register_tool_adapter(adapter)

    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        return Deny("not folded") if "folded" not in ctx.value.arguments else None


def test_a_sync_test_needs_no_loop():
    bus, component = EventBus(), Tried()
    call = ToolCall(id="c", name="read")
    message = ToolMessage(
        id="m",
        tool_call_id="c",
        tool_name="read",
        tool_response=ToolResponse.from_text(" text "),
    )

    with component.installed(bus) as same:
        before = bus.apply_sync(TOOL_CALL_BEFORE, call)
        after = bus.apply_sync(MESSAGE_APPEND_BEFORE, message)

    assert same is component
    assert (before.denied, before.value.arguments) == (None, {"folded": True})
    assert after.value.text == "text"
    assert component.host is None
    assert bus.handlers(TOOL_CALL_BEFORE) == bus.handlers(MESSAGE_APPEND_BEFORE) == ()


def test_a_component_is_installed_without_a_block():
    bus, call = EventBus(), ToolCall(id="c", name="read", arguments={"folded": True})

    class Closed(AgentComponent):
        @guard(TOOL_CALL_BEFORE)
        def judge(self, ctx):
            return Deny("closed")

    Closed().installed(bus)
    gc.collect()
    alone = bus.apply_sync(TOOL_CALL_BEFORE, call)
    own = bus.handlers(TOOL_CALL_BEFORE)
    with Tried().installed(bus):
        both = bus.handlers(TOOL_CALL_BEFORE)
    after = bus.apply_sync(TOOL_CALL_BEFORE, call)

    assert alone.denied == after.denied == Deny("closed")
    assert len(both) > len(own)
    assert bus.handlers(TOOL_CALL_BEFORE) == own


async def test_resources_need_an_async_block():
    class Later(ToolAdapter):
        async def adapt_parameters(self, call):
            await asyncio.sleep(0)
            return call.merge_arguments({"folded": True})

    class Needy(Tried):
        async def install(self, agent):
            self.ready = True

    bus, call = EventBus(), ToolCall(id="c", name="read")

    with pytest.raises(RegistrationError, match="it acquires resources; write `async with`"):
        Needy().installed(bus).__enter__()
    with (
        Tried(Later()).installed(bus),
        pytest.raises(DispatchError, match=r"is async; use `await bus\.apply"),
    ):
        bus.apply_sync(TOOL_CALL_BEFORE, call)
    async with Needy(Later()).installed(bus) as needy:
        ready = needy.ready
        done = await bus.apply(TOOL_CALL_BEFORE, call)

    assert (ready, done.value.arguments) == (True, {"folded": True})
    assert bus.handlers(TOOL_CALL_BEFORE) == ()


def test_a_forgotten_await_is_explained():
    bus = EventBus()

    for host in (bus, ComponentHost(bus)):
        with pytest.raises(RegistrationError, match=r"`with component.installed\(bus\):`"):
            Tried().install(host)

    assert bus.handlers(TOOL_CALL_BEFORE) == ()


async def test_a_missing_requirement_is_named():
    class Needy(AgentComponent):
        requires = (Guarding, Slow)

    bus = EventBus()

    with pytest.raises(RegistrationError) as raised:
        agent_of(AgentComponent(), Needy(), bus=bus)

    said = "component 'Needy': it requires Guarding, Slow; install that too"
    assert str(raised.value) == said
    assert handlers(bus) == []


async def test_a_subclass_satisfies_a_requirement():
    class Needy(AgentComponent):
        requires = (Guarding,)

    class Stricter(Guarding):
        pass

    components = Needy(), Stricter()

    agent = agent_of(*components)

    assert agent.components == components


async def test_a_required_component_stays():
    class Needy(AgentComponent):
        requires = (Guarding,)

    needed, needy = Guarding(), Needy()
    agent = agent_of(needed, needy)
    before = handlers(agent.bus)

    with pytest.raises(RegistrationError, match="component 'Needy': it requires Guarding"):
        await agent.remove(needed)
    kept = handlers(agent.bus) == before, agent.components
    await agent.remove(needy)
    await agent.remove(needed)

    assert kept == (True, (needed, needy))
    assert agent.components == ()
