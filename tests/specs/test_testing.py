"""The scenarios of `specs/testing.md`."""

from msgspec.structs import replace

from toolbus import Agent, AssistantMessage, ToolCall, ToolResponse, tool
from toolbus.events import CATALOGUE, RUN_ERROR, TOOL_CALL_AFTER, TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.testing.fakes import FakeClock, counting_ids
from toolbus.testing.recorder import Recorder


@tool
async def greet(name: str) -> str:
    return f"hello {name}"


def agent_for(**options) -> Agent:
    call = ToolCall(id="c", name="greet", arguments={"name": "you"})
    ids = options.get("ids", counting_ids("model"))
    model = ScriptedModel([AssistantMessage(id="a", tool_calls=[call]), "done"], ids=ids)
    return Agent(model, tools=[greet], **options)


async def test_a_run_is_recorded_in_order():
    agent = agent_for()
    recorder = Recorder(agent.bus)

    await agent.run("go")

    append = ["message:append:before", "message:persist:before"]
    assert recorder.names == [
        "run:before",
        *append,
        "message:append:after",
        "tools:provide",
        "model:call:before",
        "model:call:after",
        *append,
        "message:append:after",
        "tool:call:before",
        "tool:call:after",
        *append,
        "tool:call:persist:before",
        "tool:call:persist:after",
        "message:append:after",
        "tools:provide",
        "model:call:before",
        "model:call:after",
        *append,
        "message:append:after",
        "run:after",
    ]


async def test_values_before_and_after_are_there():
    agent = agent_for()
    agent.on(TOOL_CALL_BEFORE, lambda ctx: ctx.value.merge_arguments({"name": "me"}), name="rename")

    with Recorder(agent.bus) as recorder:
        outcome = await agent.call_tool("greet", name="you")

    (record,) = recorder.of(TOOL_CALL_BEFORE)
    assert recorder.values(TOOL_CALL_BEFORE) == [outcome.requested]
    assert recorder.results(TOOL_CALL_BEFORE) == [outcome.executed]
    assert [(one.name, one.status) for one in record.entries] == [("rename", "changed")]
    assert outcome.executed.arguments == {"name": "me"}
    event = RUN_ERROR
    assert (recorder.of(event), recorder.values(event), recorder.results(event)) == ([], [], [])


async def test_an_answer_is_a_result():
    agent, answer = agent_for(), ToolResponse.from_text("cached")
    agent.on(TOOL_CALL_BEFORE, lambda ctx: answer)
    recorder = Recorder(agent.bus)

    await agent.call_tool("greet", name="you")

    assert recorder.results(TOOL_CALL_BEFORE) == [answer]


async def test_a_closed_recorder_keeps_what_it_has():
    agent = agent_for()
    with Recorder(agent.bus) as recorder:
        await agent.call_tool("greet", name="you")
    before = recorder.names

    await agent.call_tool("greet", name="you")

    assert recorder.names == before
    assert recorder.of(TOOL_CALL_AFTER)


async def test_a_recorder_does_not_count_as_handler():
    agent = agent_for()
    recorder = Recorder(agent.bus)

    await agent.run("go")

    assert recorder.records
    assert agent.ledger == ()
    assert not [one for event in CATALOGUE for one in agent.bus.handlers(event)]


def test_a_clock_stands_until_told():
    clock = FakeClock(5)
    before = clock(), clock()

    clock.advance(1.5)

    assert before == (5, 5)
    assert clock() == 1_500_000_005
    assert FakeClock()() == 1_000


async def test_a_tool_takes_as_long_as_told():
    clock = FakeClock()

    @tool
    async def wait() -> str:
        clock.advance(2)
        return "waited"

    agent = Agent(ScriptedModel([]), tools=[wait], clock=clock)

    outcome = await agent.call_tool("wait")

    assert outcome.duration_ns == outcome.response.duration_ns == 2_000_000_000


def test_ids_count_from_one():
    new_id, new_call = counting_ids(), counting_ids("call")

    made = [new_id(), new_call(), new_id(), new_call()]

    assert made == ["id-1", "call-1", "id-2", "call-2"]


async def test_the_same_run_has_the_same_ids():
    def untimed(message):
        response = getattr(message, "tool_response", None)
        return message if response is None else replace(message, tool_response=None)

    first, second = [agent_for(ids=counting_ids()) for _ in range(2)]

    results = [await agent.run("go") for agent in (first, second)]

    messages = [[untimed(one) for one in result.messages] for result in results]
    assert messages[0] == messages[1]
    assert first.scope == second.scope
