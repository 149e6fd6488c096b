"""The scenarios of `specs/opentelemetry.md`."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from textwrap import dedent

import pytest
from opentelemetry import trace as otel_trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otlp_receiver import attributes_of, otlp_receiver
from toolbus import (
    Agent,
    AgentComponent,
    Ask,
    AssistantMessage,
    Deny,
    EventBus,
    Scope,
    ToolAdapter,
    ToolCall,
    ToolContext,
    UserMessage,
    events,
    guard,
    on,
    tool,
)
from toolbus.approvals import StoredApprovals, answer
from toolbus.approvals.records import questions_of
from toolbus.config import configuration
from toolbus.config.snapshots import take_snapshot
from toolbus.config.trust import trust
from toolbus.errors import ConfigurationError, MessageDenied, RegistrationError
from toolbus.hosts.run.event_answer import answer as answer_event
from toolbus.hosts.run.requests import HookSettings
from toolbus.mcp.client.toolset import tools as mcp_tools
from toolbus.messages import encode
from toolbus.models import ScriptedModel
from toolbus.otel.component import OpenTelemetry, SessionIds
from toolbus.redaction.redact_secrets import RedactSecrets
from toolbus.store import SqliteStore

SECRET = "ghp_" + "a8Kq2Lw9Zx7Vb4Nm6Rt1Yc3Pd5Hf0Js8Gu2Q"[:36]
USAGE = {"input_tokens": 70, "output_tokens": 7, "cache_read_tokens": 30}


class Recorded(OpenTelemetry):
    """The component with providers in memory."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.ids = SessionIds(b"key")
        self.tracers = TracerProvider(id_generator=self.ids)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    def providers(self):
        return self.tracers, self.meters

    @property
    def spans(self):
        """The ended spans by name; a repeated name has the last one."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def parent_of(self, name):
        ids = {span.context.span_id: span for span in self.exporter.get_finished_spans()}
        parent = self.spans[name].parent
        return None if parent is None else ids[parent.span_id].name

    def all_text(self):
        """Return all spans and metrics, as text."""
        spans = [span.to_json() for span in self.exporter.get_finished_spans()]
        return " ".join([*spans, self.reader.get_metrics_data().to_json()])

    def points(self, metric):
        data = self.reader.get_metrics_data()
        return {
            found.name: found
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for found in scope.metrics
        }[metric].data.data_points


def call(name, **arguments):
    return ToolCall(name=name, arguments=arguments)


def calling(*calls, **more):
    return AssistantMessage(tool_calls=calls, **more)


@tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@tool
async def twice(a: int, context: ToolContext) -> str:
    """Add a number to itself."""
    answered = await context.call("add", {"a": a, "b": a})
    return f"it is {answered.text}"


@tool
def fail(text: str) -> str:
    """Fail."""
    raise PermissionError(text)


async def run(component, answers, *, tools=(add,), components=(), prompt="go", **options):
    """Run an agent called "sums"; return its result."""
    model = ScriptedModel(answers, name="test-model")
    installed = [component, *components]
    async with Agent(model, agent_id="sums", tools=tools, components=installed, **options) as agent:
        return await agent.run(prompt)


class NoDeletion(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE, tools="delete")
    def never(self, ctx):
        return Deny("nothing is deleted", SECRET)


class DeniesAll(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE)
    def never(self, ctx):
        return Deny("nothing runs")


class AddsOne(AgentComponent):
    @on(events.TOOL_CALL_BEFORE, priority=300)
    def one_more(self, ctx):
        return ctx.value.merge_arguments({"b": 1})


class Shouts(ToolAdapter):
    def adapt_response(self, response, call):
        return response.map_text(str.upper)


class Breaks(AgentComponent):
    @on(events.TOOL_CALL_BEFORE)
    def break_down(self, ctx):
        raise ValueError(SECRET)


class AsksFirst(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE, tools="add")
    def ask(self, ctx):
        return Ask("may it add?")


# --- spans ---------------------------------------------------------------------------------------


async def test_a_run_has_a_span_for_each_operation():
    component = Recorded()
    answers = [calling(call("add", a=1), usage=USAGE, stop_reason="tool_calls"), "2"]

    await run(component, answers)

    spans = component.spans
    assert set(spans) == {"invoke_agent sums", "chat test-model", "execute_tool add"}
    assert component.parent_of("invoke_agent sums") is None
    assert component.parent_of("chat test-model") == "invoke_agent sums"
    assert component.parent_of("execute_tool add") == "invoke_agent sums"
    kinds = [spans[name].kind.name for name in sorted(spans)]
    assert kinds == ["CLIENT", "INTERNAL", "INTERNAL"]
    facts = dict(spans["execute_tool add"].attributes)
    assert facts["gen_ai.operation.name"] == "execute_tool"
    assert facts["gen_ai.tool.name"] == "add"
    assert facts["gen_ai.agent.name"] == "sums"
    assert facts["toolbus.status"] == "ok"
    assert spans["invoke_agent sums"].attributes["gen_ai.usage.input_tokens"] == 70
    assert len({span.attributes["gen_ai.conversation.id"] for span in spans.values()}) == 1
    first = component.exporter.get_finished_spans()[0]
    assert first.attributes["gen_ai.request.model"] == "test-model"
    assert first.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)


async def test_parallel_calls_lie_side_by_side():
    together = asyncio.Barrier(2)

    @tool
    async def meet(number: int) -> str:
        """Meet the other call."""
        await together.wait()
        return "met"

    component = Recorded()

    await run(
        component, [calling(call("meet", number=1), call("meet", number=2)), "ok"], tools=[meet]
    )

    first, second = [
        span for span in component.exporter.get_finished_spans() if span.name == "execute_tool meet"
    ]
    assert first.parent.span_id == second.parent.span_id
    assert first.context.span_id != second.context.span_id
    assert max(first.start_time, second.start_time) < min(first.end_time, second.end_time)


async def test_a_nested_call_lies_below_its_caller():
    component = Recorded()

    await run(component, [calling(call("twice", a=2)), "4"], tools=[add, twice])

    assert component.parent_of("execute_tool add") == "execute_tool twice"
    assert component.parent_of("execute_tool twice") == "invoke_agent sums"


async def test_a_sub_agent_lies_below_the_call():
    helper = Agent(
        ScriptedModel([calling(call("add", a=1)), "1"], name="small"),
        tools=[add],
        agent_id="helper",
    )
    component = Recorded()

    await run(component, [calling(call("ask", prompt="add")), "1"], tools=[helper.as_tool("ask")])

    assert component.parent_of("invoke_agent helper") == "execute_tool ask"
    assert component.parent_of("chat small") == "invoke_agent helper"
    assert component.parent_of("execute_tool add") == "invoke_agent helper"


async def test_the_spans_of_tools_lie_below_their_call():
    component = Recorded()
    tracer = component.tracers.get_tracer("mine")

    @tool
    def look(where: str) -> str:
        """Look."""
        with tracer.start_as_current_span("my query"):
            return "seen"

    await run(component, [calling(call("look", where="x")), "ok"], tools=[look])
    outside = otel_trace.get_current_span().get_span_context().is_valid

    assert component.parent_of("my query") == "execute_tool look"
    assert not outside


# --- handlers ------------------------------------------------------------------------------------


async def test_a_denied_call_names_its_rule():
    @tool
    def delete(path: str) -> str:
        """Delete."""
        raise AssertionError(path)

    component = Recorded()

    await run(
        component,
        [calling(call("delete", path="x")), "ok"],
        tools=[delete],
        components=[NoDeletion()],
    )

    span = component.spans["execute_tool delete"]
    assert span.attributes["security_rule.name"] == "NoDeletion.never"
    assert span.attributes["toolbus.status"] == span.attributes["error.type"] == "denied"
    assert span.status.status_code is otel_trace.StatusCode.ERROR
    assert span.status.description is None


async def test_each_intervention_is_an_event():
    component = Recorded()
    components = [AddsOne(), Breaks(), Shouts()]

    await run(component, [calling(call("add", a=1)), "2"], components=components)

    noted = [dict(event.attributes) for event in component.spans["execute_tool add"].events]
    facts = [
        (each["toolbus.event"], each["toolbus.handler.name"], each["toolbus.handler.status"])
        for each in noted
    ]
    assert facts == [
        ("tool:call:before", "AddsOne.one_more", "changed"),
        ("tool:call:before", "Breaks.break_down", "failed"),
    ]
    assert noted[0]["toolbus.handler.fields"] == ("arguments",)
    assert noted[0]["toolbus.handler.priority"] == 300
    assert noted[0]["toolbus.handler.bytes"][1] > noted[0]["toolbus.handler.bytes"][0] > 0
    assert noted[0]["toolbus.handler.duration"] > 0


async def test_a_changed_result_is_on_its_call():
    @tool
    def greet() -> str:
        """Greet."""
        return "hello"

    component = Recorded()

    await run(component, [calling(call("greet")), "ok"], tools=[greet], components=[Shouts()])

    (event,) = component.spans["execute_tool greet"].events
    assert event.attributes["toolbus.event"] == "message:append:before"
    assert event.attributes["toolbus.handler.name"] == "Shouts"


async def test_a_denial_outside_a_run_has_a_span():
    class NoPrompts(AgentComponent):
        @guard(events.MESSAGE_APPEND_BEFORE, roles="user")
        def never(self, ctx):
            return Deny("no prompts")

    component = Recorded()
    async with Agent(ScriptedModel([]), components=[component, NoPrompts()]) as agent:
        with pytest.raises(MessageDenied):
            await agent.append(UserMessage(content="hello"))

    span = component.spans["toolbus.handler message:append:before"]
    assert span.attributes["security_rule.name"] == "NoPrompts.never"


# --- texts ---------------------------------------------------------------------------------------


def tell_secret(secret):
    @tool
    def show(where: str) -> dict:
        """Show the secret in a structure."""
        return {"found": f"key {secret} here", where: secret}

    @tool
    async def show_nested(where: str, context: ToolContext) -> str:
        """Show it by a nested call."""
        return (await context.call("show", {"where": where})).text

    return [show, show_nested, fail]


def everywhere(secret):
    """Return answers of a model that has *secret* in each place."""
    return [
        calling(
            call("show", where=f"at {secret}"),
            call("show_nested", where=secret),
            call("fail", text=f"no access with {secret}"),
            call(f"use {secret}", key=secret),
            call("delete", key=secret),
            content=f"I use {secret}",
            usage=USAGE,
        ),
        f"it was {secret}",
    ]


class InjectsKey(AgentComponent):
    """A handler that gives a tool a key which the model does not know."""

    @on(events.TOOL_CALL_BEFORE, tools="show*")
    def inject(self, ctx):
        return ctx.value.merge_arguments({"where": f"{ctx.value.arguments['where']}+{SECRET}"})


async def show_everywhere(component, **redaction):
    component_list = [InjectsKey(), NoDeletion(), Breaks(), RedactSecrets(**redaction)]
    result = await run(
        component,
        everywhere(SECRET),
        tools=tell_secret(SECRET),
        components=component_list,
        prompt=f"use {SECRET}",
        system=f"you know {SECRET}",
    )
    assert result.status == "ok"


async def test_no_text_leaves_by_default():
    component = Recorded()

    await run(
        component,
        everywhere("plain words"),
        tools=tell_secret("plain words"),
        prompt="plain words",
        system="plain words",
    )
    await show_everywhere(component)

    sent = component.all_text()
    assert "plain words" not in sent
    assert SECRET not in sent
    for key in ("gen_ai.input", "gen_ai.output", "gen_ai.tool.call.a", "gen_ai.tool.call.r"):
        assert key not in sent


async def test_invented_names_stay_here():
    component = Recorded()
    invented = ToolCall(id="the words hunter2", name="my-password-is-hunter2")
    known = ToolCall(id="call_1", name="add", arguments={"a": 1, "b": 2})
    answers = [AssistantMessage(tool_calls=(invented, known)), "ok"]

    await run(component, answers, components=[DeniesAll()])

    assert "hunter2" not in component.all_text()
    names = {
        point.attributes["gen_ai.tool.name"]
        for point in component.points("gen_ai.execute_tool.duration")
    }
    assert names == {"", "add"}
    assert component.spans["execute_tool add"].attributes["gen_ai.tool.call.id"] == "call_1"


async def test_texts_leave_as_they_are_stored():
    component = Recorded(texts=True)

    await show_everywhere(component)

    assert SECRET not in component.all_text()
    shown = next(
        span.attributes
        for span in component.exporter.get_finished_spans()
        if span.name == "execute_tool show" and "gen_ai.tool.call.result" in span.attributes
    )
    assert "[github-pat-" in shown["gen_ai.tool.call.result"]
    assert "[github-pat-" in shown["gen_ai.tool.call.arguments"]
    chats = [
        each for each in component.exporter.get_finished_spans() if each.name.startswith("chat")
    ]
    first = json.loads(chats[0].attributes["gen_ai.input.messages"])
    assert [each["role"] for each in first] == ["system", "user"]
    assert first[1]["parts"][0]["content"].startswith("use [github-pat-")
    (answered,) = json.loads(chats[1].attributes["gen_ai.output.messages"])
    assert answered["parts"][0]["content"].startswith("it was [github-pat-")


async def test_a_withheld_result_is_not_sent():
    @tool
    def read() -> str:
        """Read."""
        return "nobody may know"

    class Withholds(AgentComponent):
        @guard(events.MESSAGE_APPEND_BEFORE, roles="tool")
        def judge(self, ctx):
            return Deny("withheld", ctx.value.text)

    component = Recorded(texts=True)

    await run(component, [calling(call("read")), "ok"], tools=[read], components=[Withholds()])

    assert "nobody may know" not in component.all_text()
    assert component.spans["execute_tool read"].attributes["gen_ai.tool.call.result"] == "withheld"


async def test_a_failure_leaves_its_type_alone():
    component = Recorded()

    answers = [calling(call("fail", text="where")), ConnectionError("at home")]

    with pytest.raises(ConnectionError):
        await run(component, answers, tools=[fail])

    failed, chat = component.spans["execute_tool fail"], component.spans["chat test-model"]
    assert failed.attributes["error.type"] == "PermissionError"
    assert chat.attributes["error.type"] == "ConnectionError"
    assert failed.status.description is chat.status.description is None
    assert "exception" not in component.all_text()


# --- every span ends once ------------------------------------------------------------------------


async def test_a_cancelled_run_leaves_no_open_span():
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()

    component = Recorded()
    model = ScriptedModel([calling(call("wait"))], name="test-model")
    async with Agent(model, agent_id="sums", tools=[wait], components=[component]) as agent:
        running = asyncio.create_task(agent.run("go"))
        await started.wait()
        running.cancel()
        await asyncio.wait({running})
        ended = [span.name for span in component.exporter.get_finished_spans()]

    assert sorted(ended) == ["chat test-model", "execute_tool wait", "invoke_agent sums"]
    assert component.spans["execute_tool wait"].attributes["toolbus.status"] == "cancelled"
    assert component.spans["invoke_agent sums"].attributes["error.type"] == "cancelled"


async def test_open_spans_are_bounded(monkeypatch):
    monkeypatch.setattr("toolbus.otel.spans.MAX_OPEN", 5)
    component = Recorded()
    with_bus = EventBus()
    async with component.installed(with_bus):
        for number in range(9):
            scope = Scope(agent_id="a", session_id=f"s{number}")
            await with_bus.apply(events.TOOL_CALL_BEFORE, ToolCall(name="add"), scope=scope)
        cut = component.exporter.get_finished_spans()
        assert len(cut) == 4
        assert {span.attributes["toolbus.status"] for span in cut} == {"open"}

    assert len(component.exporter.get_finished_spans()) == 9


async def test_a_resumed_call_stays_in_its_trace(tmp_path):
    first, second = Recorded(), Recorded()
    async with SqliteStore(tmp_path / "s.db") as store:
        options = {"store": store, "session_id": "s", "approver": StoredApprovals(wait=0)}

        waiting = await run(first, [calling(call("add", a=1))], components=[AsksFirst()], **options)
        (question,) = await questions_of(store, "s")
        await answer(store, question.id, question.digest, approve=True, by="me")
        model = ScriptedModel(["2"], name="test-model")
        installed = [second, AsksFirst()]
        async with Agent(
            model, agent_id="sums", tools=[add], components=installed, **options
        ) as agent:
            resumed = await agent.resume()

    assert (waiting.status, resumed.status) == ("pending", "ok")
    before, after = first.spans["execute_tool add"], second.spans["execute_tool add"]
    assert before.attributes["toolbus.status"] == "pending"
    assert before.attributes["security_rule.name"] == "AsksFirst.ask"
    assert before.status.status_code is otel_trace.StatusCode.UNSET
    assert after.attributes["toolbus.status"] == "ok"
    assert after.context.trace_id == before.context.trace_id
    assert after.attributes["gen_ai.tool.call.id"] == before.attributes["gen_ai.tool.call.id"]


# --- metrics, and the way to a collector ---------------------------------------------------------


async def test_metrics_count_durations_tokens_and_interventions():
    component = Recorded()
    answers = [calling(call("add", a=1), usage=USAGE), "2"]

    await run(component, answers, components=[AddsOne()])

    (duration,) = component.points("gen_ai.execute_tool.duration")
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
    }
    assert duration.count == 1
    assert duration.explicit_bounds[:3] == (0.01, 0.02, 0.04)
    (tokens,) = component.points("gen_ai.client.inference.usage.input_tokens")
    assert tokens.value == 70
    (changed,) = component.points("toolbus.handler.interventions")
    assert changed.value == 1
    assert changed.attributes["toolbus.handler.name"] == "AddsOne.one_more"


async def test_spans_reach_a_collector():
    with otlp_receiver() as (address, received):
        component = OpenTelemetry(endpoint=address, service_name="sums-service", texts=True)

        await run(component, [calling(call("add", a=1)), "2"])

    names = sorted(span.name for span in received.spans)
    assert names == ["chat test-model", "chat test-model", "execute_tool add", "invoke_agent sums"]
    assert received.services == ["sums-service"]
    assert "gen_ai.invoke_agent.duration" in received.metrics
    assert attributes_of(received.wait_for("execute_tool add"))["gen_ai.tool.call.result"] == "1"


async def test_headers_come_from_variables(monkeypatch):
    monkeypatch.setenv("COLLECTOR_KEY", "abc")
    with pytest.raises(RegistrationError, match=r"header 'x-key': expected 'env:NAME'"):
        OpenTelemetry(headers={"x-key": "abc"})

    with otlp_receiver() as (address, received):
        component = OpenTelemetry(endpoint=address, headers={"x-key": "env:COLLECTOR_KEY"})
        await run(component, ["2"])

    assert {headers["x-key"] for headers in received.headers} == {"abc"}


@pytest.mark.full
@pytest.mark.parametrize("port", ["silent", "closed"])
async def test_a_dead_collector_holds_nothing_up(port, monkeypatch):
    monkeypatch.setattr("toolbus.otel.component.FLUSH_SECONDS", 0.2)
    silent = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{silent.getsockname()[1]}"
    if port == "closed":
        silent.close()
    component = OpenTelemetry(endpoint=address)
    started = time.monotonic()
    async with Agent(ScriptedModel(["2"]), components=[component]) as agent:
        result = await agent.run("go")
        ran = time.monotonic() - started
    ended = time.monotonic() - started - ran
    silent.close()

    assert result.status == "ok"
    assert ran < 5
    assert ended < 5
    for thread in threading.enumerate():  # They log a failure, which would be in another test.
        if thread.name.startswith("Otel"):
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.full
def test_a_program_ends_despite_a_dead_collector(environment):
    program = """
        from toolbus import Agent
        from toolbus.models import ScriptedModel
        from toolbus.otel.component import OpenTelemetry
        dead = OpenTelemetry(endpoint="http://127.0.0.1:9")
        print(Agent(ScriptedModel(["done"]), components=[dead]).run_sync("go").text, flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", dedent(program)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout.readline() == "done\n"
        started = time.monotonic()
        code = process.wait(60)

    assert code == 0
    assert time.monotonic() - started < 8


# --- configurations and hosts --------------------------------------------------------------------

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SERVER = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "tools/list":
        tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
        result = {"tools": tools}
    elif m.get("method") == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(m["params"].get("_meta"))}]}
    else:
        result = {}
    if "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"""
SERVER_WITH_SDK = """
from mcp.server.mcpserver import Context, MCPServer
server = MCPServer("echo")
@server.tool()
def echo(ctx: Context) -> str:
    return repr(ctx.request_context.meta)
server.run()
"""
POLICY = """
[[component]]
use = "policy"
[component.settings]
default = "allow"
[[component.settings.rule]]
name = "no-removal"
verdict = "deny"
command = "rm"
"""


def test_a_project_sends_nothing_anywhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    file = project / "toolbus.toml"
    file.write_text('[otel]\nendpoint = "http://example.com"\n')
    monkeypatch.chdir(project)
    trust(take_snapshot(file))

    with pytest.raises(ConfigurationError, match=r"toolbus.toml:1: \[otel\] may not be set"):
        configuration.read()
    file.write_text(
        '[[component]]\nuse = "opentelemetry"\nsettings = { endpoint = "http://example.com" }\n'
    )
    trust(take_snapshot(file))
    with pytest.raises(ConfigurationError, match="setting 'endpoint' may not be set by a project"):
        configuration.read()

    (component,) = configuration.read(file).components
    assert isinstance(component, OpenTelemetry)


def test_a_wrong_setting_names_its_line(tmp_path):
    file = tmp_path / "toolbus.toml"
    told = {
        "endpont = 'x'": "toolbus.toml:2: unknown key 'endpont'; did you mean 'endpoint'?",
        "headers = { k = 'v' }": "toolbus.toml:1: .*header 'k': expected 'env:NAME'",
        "endpoint = 'localhost:4318'": "toolbus.toml:1: .*expected http://…, got 'localhost:4318'",
    }

    for line, reason in told.items():
        file.write_text(f"[otel]\n{line}\n")
        with pytest.raises(ConfigurationError, match=reason):
            configuration.read(file)


def test_the_proxy_passes_the_trace_context_on(tmp_path, environment):
    (tmp_path / "server.py").write_text(SERVER)
    params = {"name": "echo", "arguments": {}, "_meta": {"traceparent": PARENT, "mine": 1}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    proxy = ["proxy", "--config", "toolbus.toml", "--", sys.executable, "server.py"]
    with otlp_receiver() as (address, received):
        (tmp_path / "toolbus.toml").write_text(f'[otel]\nendpoint = "{address}"\n')
        done = subprocess.run(
            [sys.executable, "-m", "toolbus", *proxy],
            input=f"{line}\n",
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        span = received.wait_for("execute_tool echo")

    assert done.stderr == ""
    answered = json.loads(done.stdout)
    meta = json.loads(answered["result"]["content"][0]["text"])
    assert span.trace_id.hex() == TRACE
    assert span.parent_span_id.hex() == "b7ad6b7169203331"
    assert meta["traceparent"] == f"00-{TRACE}-{span.span_id.hex()}-01"
    assert meta["mine"] == 1


@pytest.mark.full
async def test_tools_of_servers_get_the_trace_context(tmp_path):
    (tmp_path / "server.py").write_text(SERVER_WITH_SDK)
    component = Recorded()

    async with mcp_tools(sys.executable, [str(tmp_path / "server.py")]) as tools:
        answers = [calling(call("echo")), "ok"]
        result = await run(component, answers, tools=[tools])

    span = component.spans["execute_tool echo"]
    assert f"{span.context.trace_id:032x}" in result.messages[2].text


def test_a_command_sends_its_run(command, tmp_path):
    asking = calling(call("shell", command="echo seen"))
    answers = [encode(asking), encode(AssistantMessage(content="done"))]
    (tmp_path / "here/tape.jsonl").write_bytes(b"\n".join(answers))

    with otlp_receiver() as (address, received):
        (tmp_path / "here/toolbus.toml").write_text(f'[otel]\nendpoint = "{address}"\n')
        options = ["--model=replay:tape.jsonl", "--config=toolbus.toml", "--tools=shell", "--yes"]
        done = command("run", "go", *options)
        run = received.wait_for("invoke_agent")
        tool = received.wait_for("execute_tool shell")

    assert done.returncode == 0, done.stderr
    assert tool.parent_span_id == run.span_id
    assert attributes_of(tool)["toolbus.status"] == "ok"
    assert not any(b"echo seen" in data for data in received.raw)


def test_a_hook_event_becomes_a_span(tmp_path, as_person):
    config = tmp_path / "toolbus.toml"
    settings = HookSettings(config=str(config), store=tmp_path / "hooks.db")

    def tell(event, **facts):
        shell = {"tool_name": "run_shell_command", "session_id": "s1", "cwd": str(tmp_path)}
        data = json.dumps(shell | facts).encode()
        return json.loads(answer_event("gemini-cli", event, data, settings).stdout or b"{}")

    with otlp_receiver() as (address, received):
        config.write_text(f'{POLICY}[otel]\nendpoint = "{address}"\n')
        denied = tell("BeforeTool", tool_input={"command": "rm -rf x"})
        tell("BeforeTool", tool_input={"command": "ls"})
        tell("AfterTool", tool_input={"command": "ls"}, tool_response={"llmContent": "a b"})

    assert denied["decision"] == "deny"
    by_status = {attributes_of(span)["toolbus.status"]: span for span in received.spans}
    assert set(by_status) == {"denied", "open", "ok"}
    assert attributes_of(by_status["denied"])["security_rule.name"] == "rule 'no-removal'"
    assert {span.name for span in received.spans} == {"execute_tool run_shell_command"}
    assert len({span.trace_id for span in received.spans}) == 1
    assert all(b"rm -rf" not in data for data in received.raw)


def test_another_program_is_above_a_run(tmp_path, environment):
    program = """
        from toolbus import Agent, AgentComponent
        from toolbus.models import ScriptedModel
        from toolbus.otel.component import OpenTelemetry
        agent = Agent(ScriptedModel(["done"]), agent_id="sums", components=[OpenTelemetry()])
        print(agent.run_sync("go").text)
    """
    with otlp_receiver() as (address, received):
        variables = {"TRACEPARENT": PARENT, "OTEL_EXPORTER_OTLP_ENDPOINT": address}
        done = subprocess.run(
            [sys.executable, "-c", dedent(program)],
            env=environment | variables | {"OTEL_SERVICE_NAME": "from-variable"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        span = received.wait_for("invoke_agent sums")

    assert (done.stdout, done.stderr) == ("done\n", "")
    assert span.trace_id.hex() == TRACE
    assert received.services == ["from-variable"]


def test_nothing_is_loaded_without_it(tmp_path, environment):
    program = """
        import sys
        from toolbus import Agent, tool
        from toolbus.config.configuration import read
        from toolbus.models import ScriptedModel
        open("toolbus.toml", "w").write('[[component]]\\nuse = "policy"\\n')
        components = read("toolbus.toml").components
        print(Agent(ScriptedModel(["done"])).run_sync("go").text)
        print([name for name in sys.modules if "opentelemetry" in name or "otel" in name])
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("done\n[]\n", "")
