"""The scenarios of `specs/testing.md`."""

import re

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from toolbus import (
    Agent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    ToolCall,
    ToolMessage,
    ToolResponse,
    ToolSpec,
    tool,
)
from toolbus.errors import RegistrationError
from toolbus.events import (
    CATALOGUE,
    RUN_ERROR,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
    RunResult,
    ToolCallOutcome,
    TransformEvent,
)
from toolbus.messages import Message, Part, decoder, encode, schemas
from toolbus.models.scripted import ScriptedModel
from toolbus.testing import strategies
from toolbus.testing.assertions import assert_allowed, assert_denied, assert_unchanged
from toolbus.testing.fakes import FakeClock, Recorder, counting_ids


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


async def test_values_before_and_after_are_recorded():
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


async def test_a_closed_recorder_keeps_its_records():
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


def test_a_fake_clock_moves_on_request():
    clock = FakeClock(5)
    before = clock(), clock()

    clock.advance(1.5)

    assert before == (5, 5)
    assert clock() == 1_500_000_005
    assert FakeClock()() == 1_000


async def test_a_fake_clock_sets_durations():
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


PRICED = TransformEvent("priced", int)
PATIENT = settings(suppress_health_check=list(HealthCheck))
RECORDS = {
    "messages": (strategies.messages(), Message),
    "parts": (strategies.parts(), Part),
    "tool_calls": (strategies.tool_calls(), ToolCall),
    "tool_responses": (strategies.tool_responses(), ToolResponse),
    "tool_specs": (strategies.tool_specs(), ToolSpec),
    "scopes": (strategies.scopes(), Scope),
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_is_drawn(name):
    strategy, kind = RECORDS[name]
    decode = decoder(kind)

    @PATIENT
    @given(strategy)
    def survives(record):
        assert decode(encode(record)) == record

    survives()


@pytest.mark.full
@pytest.mark.parametrize("event", [*CATALOGUE, PRICED], ids=lambda event: event.name)
def test_values_of_every_event_are_drawn(event):
    decode = decoder(event.value)

    @PATIENT
    @given(strategies.values_of(event))
    def fits(value):
        assert decode(encode(value)) == value

    fits()


def test_calls_match_a_schema():
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string", "minLength": 1}, "depth": {"enum": [1, 2]}},
        "required": ["path"],
    }

    @PATIENT
    @given(strategies.tool_calls(schema))
    def fits(call):
        assert schemas.problem(schema, call.arguments) is None

    fits()


def test_calls_match_a_function():
    def search(pattern: str, depth: int = 3, names: list[str] | None = None) -> str:
        return f"{pattern} {depth} {names}"

    made = tool(search)

    @PATIENT
    @given(st.one_of([strategies.tool_calls(one) for one in (search, made, made.spec)]))
    def fits(call):
        assert call.name == "search"
        assert made.fit(call.arguments)[1] is None

    fits()


def test_texts_come_from_a_strategy():
    said = st.just("said")

    @PATIENT
    @given(strategies.messages(said), strategies.tool_calls(greet, texts=said))
    def is_said(message, call):
        words = re.findall(r'"(?:text|reasoning)":"(.*?)"', encode(message).decode())
        assert set(words) <= {"said"}
        assert call.arguments == {"name": "said"}

    is_said()


def test_hostile_texts_are_of_every_kind():
    patterns = {
        "empty": r"^$",
        "huge": r"(?s).{9000}",
        "controls": r"[\x00-\x08]",
        "directions": r"[\u202e\u2066-\u2069]",
        "JSON in JSON": r'\\\\\\"',
        "a run": r"(.)\1{999}",
    }
    generating = settings(phases=[Phase.generate], max_examples=2_000)

    for pattern in map(re.compile, patterns.values()):
        assert (
            find(strategies.hostile_texts(max_size=20_000), pattern.search, settings=generating)
            is not None
        )

    assert max(len(text.encode()) for text in strategies.HOSTILE_TEXTS) > 100_000


def test_an_invalid_tool_is_refused():
    unsound, nothing = {"type": "objekt"}, 3

    with pytest.raises(ValueError, match="the schema is not valid"):
        strategies.tool_calls(unsound)
    with pytest.raises(RegistrationError, match="expected a tool, its spec, or a function"):
        strategies.tool_calls(nothing)


CALL = ToolCall(id="c", name="greet", arguments={"name": "you"})
REFUSED = ToolResponse.from_text("not today", is_error=True, error_type="denied")


def dispatched(*handlers, guards=()):
    bus = EventBus()
    for handler in handlers:
        bus.on(TOOL_CALL_BEFORE, handler)
    for handler in guards:
        bus.guard(TOOL_CALL_BEFORE, handler)
    return bus.apply_sync(TOOL_CALL_BEFORE, CALL)


def test_a_denial_of_any_kind_counts():
    outcome = ToolCallOutcome(requested=CALL, executed=None, response=REFUSED, status="denied")
    message = ToolMessage(id="m", tool_call_id="c", tool_name="greet", tool_response=REFUSED)
    run = RunResult(status="denied", reason="not today")
    context = dispatched(guards=[lambda ctx: Deny("not today")])
    denials = [Deny("not today"), context, outcome, message, REFUSED, run]

    reasons = [assert_denied(one, "today") for one in denials]

    assert reasons == ["not today"] * 6


def test_a_result_without_denial_fails():
    others = [None, CALL, dispatched(), ToolResponse.from_text("done"), RunResult(status="ok")]

    shown = []
    for other in others:
        with pytest.raises(AssertionError) as caught:
            assert_denied(other)
        shown.append(str(caught.value))

    assert shown[0] == "expected a denial, got None"
    assert shown[2] == (
        "expected a denial, got ToolCall(id='c', name='greet', arguments={'name': 'you'})"
    )
    with pytest.raises(AssertionError, match="with 'never' in its reason, got 'not today'"):
        assert_denied(REFUSED, "never")


def test_an_allowed_result_passes():
    outcome = ToolCallOutcome(requested=CALL, executed=None, response=REFUSED, status="denied")
    asked = dispatched(guards=[lambda ctx: Ask("really?")])

    for allowed in (None, CALL, dispatched(), ToolResponse.from_text("done")):
        assert_allowed(allowed)
    for refused in (Deny("not today"), dispatched(guards=[lambda ctx: Deny("not today")]), outcome):
        with pytest.raises(AssertionError, match="it was denied: not today"):
            assert_allowed(refused)
    for question in (asked, Ask("really?")):
        with pytest.raises(AssertionError, match=r"it requires approval: really\?"):
            assert_allowed(question)


def test_an_unchanged_result_passes():
    outcome = ToolCallOutcome(requested=CALL, executed=CALL, response=REFUSED, status="ok")

    assert_unchanged(dispatched(lambda ctx: None))
    assert_unchanged(outcome)
    assert_unchanged(CALL, replace(CALL))

    assert assert_unchanged(CALL, None) is None


def test_a_change_is_shown():
    other = CALL.with_arguments({"name": "me"})
    outcome = ToolCallOutcome(requested=CALL, executed=other, response=REFUSED, status="ok")
    results = [
        (dispatched(lambda ctx: other),),
        (outcome,),
        (CALL, other),
        (1, True),
        (replace(outcome, executed=None, status="denied"),),
        (dispatched(guards=[lambda ctx: Deny("no")]),),
        (dispatched(guards=[lambda ctx: Ask("well?")]),),
        (dispatched(lambda ctx: REFUSED),),
        (CALL,),
    ]

    shown = []
    for result in results:
        with pytest.raises(AssertionError) as caught:
            assert_unchanged(*result)
        shown.append(str(caught.value))

    change = "expected no change, got:\n  .arguments: {'name': 'you'} → {'name': 'me'}"
    assert shown[:3] == [change] * 3
    assert shown[3:7] == [
        "expected no change, got:\n  1 → True",
        "expected no change, but the call was not executed: denied",
        "expected no change, but it was denied: Deny(reason='no')",
        "expected no change, but it was asked: Ask(prompt='well?')",
    ]
    assert shown[7].startswith("expected no change, but it was answered: ToolResponse(content=")
    assert shown[8].startswith("expected two values to compare, got only ToolCall(")
