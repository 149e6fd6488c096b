"""Spans of any sequence of dispatches: each begins and ends once, and none breaks a dispatch."""

import asyncio
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from toolbus import (
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    ToolCall,
    ToolMessage,
    ToolResponse,
    UserMessage,
    events,
)
from toolbus.events import (
    ModelFailure,
    ModelReply,
    ModelRequest,
    RunResult,
    RunStart,
    ToolCallOutcome,
)
from toolbus.otel.component import OpenTelemetry, SessionIds

CALL = ToolCall(id="c1", name="add")
REQUEST = ModelRequest(model="m", messages=())
ANSWER = AssistantMessage(id="a1", content="x")
RESULT = ToolMessage(id="t1", tool_call_id="c1", tool_name="add", content="x")
OUTCOME = ToolCallOutcome(
    requested=CALL, executed=CALL, response=ToolResponse.from_text("x"), status="ok", duration_ns=5
)
STEPS = [
    (events.RUN_BEFORE, RunStart(prompt="x")),
    (events.RUN_AFTER, RunResult(status="ok")),
    (events.RUN_AFTER, RunResult(status="pending")),
    (events.TOOLS_PROVIDE, ()),
    (events.MODEL_CALL_BEFORE, REQUEST),
    (events.MODEL_CALL_AFTER, ModelReply(request=REQUEST, message=ANSWER, duration_ns=1)),
    (
        events.MODEL_CALL_ERROR,
        ModelFailure(request=REQUEST, error_type="OSError", error_text="x"),
    ),
    (events.TOOL_CALL_BEFORE, CALL),
    (events.TOOL_CALL_BEFORE, ToolCall(id="c2", name="denied")),
    (events.TOOL_CALL_AFTER, OUTCOME),
    (events.MESSAGE_APPEND_BEFORE, RESULT),
    (events.MESSAGE_APPEND_BEFORE, UserMessage(id="u1", content="x")),
    (events.MESSAGE_PERSIST_BEFORE, RESULT),
    (events.MESSAGE_PERSIST_BEFORE, ANSWER),
    (events.MESSAGE_APPEND_AFTER, RESULT),
    (events.MESSAGE_APPEND_AFTER, ANSWER),
]
SCOPES = [
    Scope(),
    Scope(agent_id="a", session_id="s"),
    Scope(agent_id="a", session_id="s", run_id="r1"),
    Scope(agent_id="a", session_id="s", run_id="r2"),
    Scope(
        agent_id="b",
        session_id="s/b",
        run_id="r3",
        lineage=("a",),
        root_session_id="s",
        parent_session_id="s",
        parent_call_id="c1",
    ),
]


class Counts(SpanProcessor):
    def __init__(self):
        self.begun, self.ended = [], []

    def on_start(self, span, parent_context=None):
        self.begun.append(span.context.span_id)

    def on_end(self, span):
        assert span.end_time >= span.start_time
        self.ended.append(span.context.span_id)


class Counted(OpenTelemetry):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.ids, self.counts = SessionIds(b"k"), Counts()
        self.tracers = TracerProvider(id_generator=self.ids)
        self.tracers.add_span_processor(self.counts)

    def providers(self):
        return self.tracers, MeterProvider()


def dispatch(bus, event, value, scope):
    if isinstance(event, type(events.RUN_AFTER)):
        bus.do(event, value, scope)
    else:
        bus.apply_sync(event, value, scope)


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(SCOPES)), max_size=30))
def test_each_span_begins_and_ends_once(steps):
    broken = []

    class Strict(Counted):
        def subscribe(self, host):
            tap = host.bus.tap

            def watched(sink, **options):
                def send(record):
                    try:
                        sink(record)
                    except Exception as error:
                        broken.append(error)
                        raise

                return tap(send, **options)

            host.bus.tap = watched
            super().subscribe(host)

    async def run():
        bus, component = EventBus(), Strict(texts=True)
        bus.on(events.TOOL_CALL_BEFORE, lambda ctx: Deny("no"), tools="denied")
        async with component.installed(bus):
            for (event, value), scope in steps:
                dispatch(bus, event, value, scope)
        return component.counts

    counts = asyncio.run(run())

    assert broken == []
    assert sorted(counts.ended) == sorted(counts.begun)
    assert len(set(counts.ended)) == len(counts.ended)


async def test_threads_dispatch_at_the_same_time():
    bus, component = EventBus(), Counted()

    def work(number):
        scope = Scope(agent_id="a", session_id=f"s{number}", run_id="r")
        for _ in range(50):
            dispatch(bus, events.TOOL_CALL_BEFORE, CALL, scope)
            dispatch(bus, events.TOOL_CALL_AFTER, OUTCOME, scope)
        dispatch(bus, events.RUN_AFTER, RunResult(status="ok"), scope)

    async with component.installed(bus):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(component.counts.ended) == 4 * 51
    assert sorted(component.counts.ended) == sorted(component.counts.begun)


async def test_a_disabled_component_makes_nothing():
    bus, component = EventBus(), Counted(enabled=False)

    async with component.installed(bus):
        dispatch(bus, events.TOOL_CALL_BEFORE, CALL, SCOPES[1])

    assert component.counts.begun == []


async def test_other_agents_of_a_bus_are_left_out():
    from toolbus import Agent
    from toolbus.models import ScriptedModel

    bus, component = EventBus(), Counted()
    async with (
        Agent(ScriptedModel(["1"]), bus=bus, agent_id="seen", components=[component]) as seen,
        Agent(ScriptedModel(["2"]), bus=bus, agent_id="other") as other,
    ):
        await other.run("x")
        assert component.counts.begun == []
        await seen.run("x")

    assert len(component.counts.ended) == 2


@pytest.mark.parametrize("name", ["sk live 12", "a" * 201, "a\nb", "0123456789abcdef", ""])
async def test_what_is_no_name_is_left_out(name):
    bus, component = EventBus(), Counted()
    spans = []
    component.counts.on_end = spans.append

    async with component.installed(bus):
        dispatch(bus, events.TOOL_CALL_BEFORE, ToolCall(id="c", name=name), SCOPES[1])

    assert spans[0].name == "execute_tool"
    assert not spans[0].attributes["gen_ai.tool.name"]


async def test_the_context_of_the_program_is_left_as_it_was():
    bus, component = EventBus(), Counted()
    before = context.get_current()

    async with component.installed(bus):
        dispatch(bus, events.RUN_BEFORE, RunStart(prompt="x"), SCOPES[2])
        inside = trace.get_current_span().get_span_context().is_valid
        dispatch(bus, events.TOOL_CALL_BEFORE, CALL, SCOPES[2])
        dispatch(bus, events.TOOL_CALL_AFTER, OUTCOME, SCOPES[2])
        dispatch(bus, events.RUN_AFTER, RunResult(status="ok"), SCOPES[2])

    assert inside
    assert context.get_current() == before
