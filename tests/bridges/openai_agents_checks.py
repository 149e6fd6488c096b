"""Checks of the bridge to the OpenAI Agents SDK beyond the scenarios.

It runs in an environment of the SDK, `python openai_agents_checks.py [CHECK…]`, prints the names of
the checks that hold, and ends with the traceback of the first that does not.
"""

import asyncio
import json
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

from agents import (
    Agent,
    ApplyPatchTool,
    CustomTool,
    FunctionTool,
    InputGuardrailTripwireTriggered,
    LocalShellTool,
    MaxTurnsExceeded,
    Model,
    ModelBehaviorError,
    ModelProvider,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    ShellTool,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolOutputImage,
    ToolOutputText,
    UserError,
    function_tool,
    handoff,
    set_tracing_disabled,
    tool_input_guardrail,
    tool_namespace,
)
from agents.mcp import MCPServer
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.types import CallToolResult, Tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseIncompleteEvent,
)
from pydantic import BaseModel, Field
from scenarios import HIDDEN, REASON, SECRET
from world import FIELDS
from world_handlers import Watch, components

from toolbus import AgentComponent, guard, on
from toolbus import tool as our_tool
from toolbus.bridges.openai_agents import OpenAIAgentsBridge
from toolbus.errors import RegistrationError
from toolbus.events import RUN_AFTER, TOOL_CALL_AFTER, TOOL_CALL_BEFORE
from toolbus.store import SqliteStore

DENY, ASK, REDACT = {"deny": "echo"}, {"ask": "echo"}, {"redact": "*"}
ECHO = ("echo", {"text": "a"})

set_tracing_disabled(True)


class Room:
    """A bridge of *handlers*; *ran* are the texts that its tool `echo` got, *ends* all ends."""

    def __init__(self, *handlers, more=(), **options):
        self.seen, self.ran, self.ends = json.loads(json.dumps(FIELDS)), [], []
        made = [Watch(self.seen), Order(self.ends), *components(handlers), *more]
        self.bridge = OpenAIAgentsBridge(made, **{"partial": True, **options})

        @function_tool
        async def echo(text: str) -> str:
            """Return the text."""
            self.ran.append(text)
            return text

        @function_tool
        async def slow() -> str:
            """Wait."""
            self.ran.append("slow")
            await asyncio.sleep(2)
            return "late"

        self.echo, self.slow = echo, slow

    def agent(self, *turns, name="agent", prefix="c", tools=None, **options):
        """Return an agent whose model plays *turns*."""
        tools = [self.echo, self.slow] if tools is None else tools
        return Agent(name, model=model_of(*turns, prefix=prefix), tools=tools, **options)


class Order(AgentComponent):
    """The observer of the order in which calls and runs end."""

    def __init__(self, ends):
        super().__init__()
        self.ends = ends

    @on(TOOL_CALL_AFTER)
    def note_call(self, ctx):
        self.ends.append([ctx.value.requested.id, ctx.value.status])

    @on(RUN_AFTER)
    def note_run(self, ctx):
        self.ends.append([ctx.scope.agent_id, ctx.value.status])


class HangAt(AgentComponent):
    """A guard that hangs at the call *call_id*."""

    def __init__(self, call_id):
        super().__init__()
        self.call_id = call_id

    @guard(TOOL_CALL_BEFORE)
    async def hang(self, ctx):
        if ctx.value.id == self.call_id:
            await asyncio.sleep(5)


def model_of(*turns, prefix="c"):
    """Return a model that plays *turns*: texts, and lists of calls."""
    steps, number = [], 0
    for turn in turns:
        if isinstance(turn, str):
            steps.append([assistant_message(turn)])
            continue
        calls = [
            function_call(name, arguments, call_id=f"{prefix}{number + index}")
            for index, (name, arguments) in enumerate(turn, 1)
        ]
        number += len(calls)
        steps.append(calls)
    return ScriptedModel(steps)


def read(agent):
    """Return the results that the model of *agent* read, by call."""
    # A wrapped model passes other attributes on.
    items = [item for call in agent.model.calls for item in call.input if isinstance(item, dict)]
    outputs = [item for item in items if item.get("type") == "function_call_output"]
    return {item["call_id"]: item["output"] for item in outputs}


async def decide(run, agent, result, answer):
    """Give *answer* to all questions of *result*, and go on with *run*, as another process."""
    state = await RunState.from_json(agent, result.to_state().to_json())
    for item in state.get_interruptions():
        (state.approve if answer else state.reject)(item)
    return await run(agent, state)


async def check_agent_as_tool_made_before_is_judged():
    room = Room(DENY)
    sub = room.agent([ECHO], "below", name="sub", prefix="s")
    agent = room.agent([("sub", {"input": "go"})], "done", tools=[sub.as_tool("sub", "")])
    result = await room.bridge.run(agent, "hi")
    assert (result.final_output, room.ran, read(agent)) == ("done", [], {"c1": "below"})
    assert REASON in read(sub)["s1"]
    assert room.ends == [["s1", "denied"], ["sub", "ok"], ["c1", "ok"], ["agent", "ok"]]


async def check_agent_as_tool_pauses_the_run():
    for answer, status in ((True, "ok"), (False, "denied")):
        room = Room(ASK)
        sub = room.agent([ECHO], "below", name="sub", prefix="s")
        agent = room.agent([("sub", {"input": "go"})], "done", tools=[sub.as_tool("sub", "")])
        result = await room.bridge.run(agent, "hi")
        assert room.ends == []
        result = await decide(room.bridge.run, agent, result, answer)
        assert (result.final_output, room.ran) == ("done", ["a"] * answer)
        assert room.ends == [["s1", status], ["sub", "ok"], ["c1", "ok"], ["agent", "ok"]]


async def check_pause_goes_on_in_another_process():
    with tempfile.TemporaryDirectory() as folder:

        def room(*turns):
            store = SqliteStore(Path(folder, "log.db"))
            made = Room(ASK, store=store, session_id="S")
            return made, made.agent(*turns), store

        first, agent, store = room([ECHO, ("echo", {"text": "b"})])
        paused = (await first.bridge.run(agent, "hi")).to_state().to_json()
        await first.bridge.aclose()
        await store.close()
        second, agent, store = room("done")
        state = await RunState.from_json(second.bridge.wrap(agent), paused)
        approved, refused = state.get_interruptions()
        state.approve(approved)
        state.reject(refused, rejection_message="never")
        result = await second.bridge.run(agent, state)
        await second.bridge.aclose()
        stored = [(each.role, each.text) for each in await store.read("S")]
        await store.close()
        assert (result.final_output, second.ran) == ("done", ["a"])
        assert second.ends == [["c1", "ok"], ["c2", "denied"], ["agent", "ok"]]
        assert read(agent) == {"c1": "a", "c2": "never"}
        assert [role for role, _ in stored] == [
            "user",
            *["assistant"] * 2,
            *["tool"] * 2,
            "assistant",
        ]


async def check_handoff_waits_beside_a_paused_call():
    for denied, last in (([], "other"), ([{"deny": "transfer_to_other"}], "agent")):
        room = Room(ASK, *denied)
        other = room.agent("other", name="other")
        agent = room.agent([ECHO, ("transfer_to_other", {})], "agent", handoffs=[other])
        result = await decide(
            room.bridge.run, agent, await room.bridge.run(agent, "hi"), answer=True
        )
        assert (result.final_output, room.ran) == (last, ["a"])


async def check_streamed_run_pauses():
    room = Room(ASK)
    agent = room.agent([ECHO], "done")

    async def run(agent, user_input):
        result = await room.bridge.run_streamed(agent, user_input)
        async for _ in result.stream_events():
            pass
        return result

    result = await decide(run, agent, await run(agent, "hi"), answer=True)
    await room.bridge.aclose()
    assert (result.final_output, room.ran) == ("done", ["a"])
    assert room.ends == [["c1", "ok"], ["agent", "ok"]]


async def check_approval_is_for_one_call():
    room = Room(ASK)
    model = ScriptedModel(
        [[function_call("echo", {"text": text}, call_id="c1")] for text in ("a", "evil")]
    )
    agent = Agent("agent", model=model, tools=[room.echo])
    result = await decide(room.bridge.run, agent, await room.bridge.run(agent, "hi"), answer=True)
    assert (len(result.interruptions), room.ran) == (1, ["a"])


async def check_two_conversations_keep_their_questions_apart():
    room, paused = Room(ASK), []
    for name in "ab":
        run = partial(room.bridge.run, session=SQLiteSession(name))
        agent = room.agent([ECHO], "done")
        paused.append((run, agent, await run(agent, "hi")))
    for (run, agent, result), answer in zip(paused, (False, True), strict=True):
        await decide(run, agent, result, answer)
    assert room.ran == ["a"]
    assert [end for end in room.ends if end[0] == "c1"] == [["c1", "denied"], ["c1", "ok"]]


async def check_setting_of_a_tool_asks_too():
    for answer in (True, False):
        room = Room()
        tool = function_tool(room.echo.__wrapped__, needs_approval=True)
        agent = room.agent([ECHO], "done", tools=[tool])
        await decide(room.bridge.run, agent, await room.bridge.run(agent, "hi"), answer)
        assert room.ran == ["a"] * answer
        assert [call_id for call_id, _ in room.ends] == ["c1", "agent"]


def delegating(room, run):
    """Return an agent with a tool whose function runs a sub-agent, by *run*."""

    @function_tool
    async def delegate(task: str) -> str:
        sub = room.bridge.wrap(room.agent([ECHO], "below", name="sub", prefix="s"))
        return (await run(sub, task)).final_output

    return room.agent([("delegate", {"task": "go"})], "done", tools=[delegate])


async def check_question_below_a_function_is_for_the_approver():
    for approver, status in ((None, "denied"), (lambda *_: True, "ok")):
        room = Room(ASK, approver=approver)
        result = await room.bridge.run(delegating(room, Runner.run), "hi")
        assert (result.final_output, result.interruptions) == ("done", [])
        assert room.ends == [["s1", status], ["sub", "ok"], ["c1", "ok"], ["agent", "ok"]]


async def check_bridge_runs_an_agent_in_a_tool():
    room = Room(DENY)
    await room.bridge.run(delegating(room, room.bridge.run), "hi")
    assert room.ends == [["s1", "denied"], ["sub", "ok"], ["c1", "ok"], ["agent", "ok"]]


async def check_other_bridge_in_a_tool_is_refused():
    outer, inner = Room(), Room()
    sub = inner.agent([ECHO], "below", name="sub", prefix="s")

    @function_tool
    async def delegate() -> str:
        return (await inner.bridge.run(sub, "go")).final_output

    agent = outer.agent([("delegate", {})], "done", tools=[delegate])
    await outer.bridge.run(agent, "hi")
    assert outer.ends == [["c1", "error"], ["agent", "ok"]]
    assert (inner.ran, inner.ends) == ([], [])


async def check_broken_arguments_do_not_pause():
    room = Room()
    agent = room.agent([("echo", "{broken"), ECHO], "done")
    result = await room.bridge.run(agent, "hi")
    assert (result.final_output, room.ran) == ("done", ["a"])
    assert ["c1", "invalid_arguments"] in room.ends


async def check_odd_arguments_end_no_run():
    for value in ("NaN", str(2**80), '"a"}}'):
        room = Room()
        agent = room.agent([("echo", f'{{"text": {value}}}')], "done")
        result = await room.bridge.run(agent, "hi")
        assert (result.final_output, [end[0] for end in room.ends]) == ("done", ["c1", "agent"])


async def check_broken_call_does_not_spare_another_its_approval():
    for handlers, setting in (((), True), ((ASK,), False)):
        room = Room(*handlers)
        tool = function_tool(room.echo.__wrapped__, needs_approval=setting)
        agent = room.agent([("echo", "{broken"), ECHO], "done", tools=[tool])
        await room.bridge.run(agent, "hi")
        assert room.ran == []


async def check_stream_without_an_end_is_redacted():
    class Stopped(Model):
        async def get_response(self, *_, **__):
            raise NotImplementedError

        async def stream_response(self, *_, **__):
            async for event in model_of(f"it is {SECRET}").stream_response(*_, **__):
                if event.type == "response.completed":
                    yield ResponseIncompleteEvent(
                        response=event.response,
                        sequence_number=event.sequence_number,
                        type="response.incomplete",
                    )
                else:
                    yield event

    room, seen = Room({"redact_answer": "*"}), []
    result = await room.bridge.run_streamed(Agent("agent", model=Stopped()), "hi")
    events = result.stream_events()
    with suppress(ModelBehaviorError):
        while True:
            seen.append(str(await anext(events)))
    text = "".join(seen)
    assert (HIDDEN in text, SECRET in text) == (True, False)


async def check_framework_converts_arguments():
    room = Room()

    @function_tool
    async def double(number: int) -> str:
        return str(number * 2)

    agent = room.agent([("double", {"number": "2"})], "done", tools=[double])
    await room.bridge.run(agent, "hi")
    assert read(agent) == {"c1": "4"}


async def check_denied_handoff_stays():
    room = Room({"deny": "transfer_to_other"})
    other = room.agent("other", name="other")
    agent = room.agent([("transfer_to_other", {})], "stayed", handoffs=[other])
    result = await room.bridge.run(agent, "hi")
    assert (result.final_output, result.last_agent.name) == ("stayed", "agent")
    assert REASON in read(agent)["c1"]


async def check_handoffs_may_lead_back():
    room = Room(DENY)
    other = room.agent([ECHO], [("transfer_to_agent", {})], name="other", prefix="o")
    agent = room.agent([("transfer_to_other", {})], "home", handoffs=[other])
    other.handoffs.append(handoff(agent))
    result = await room.bridge.run(agent, "hi")
    assert (result.final_output, room.ran) == ("home", [])
    statuses = [["c1", "ok"], ["o1", "denied"], ["o2", "ok"], ["agent", "ok"]]
    assert room.ends == statuses


async def check_tools_added_later_are_judged():
    class Adding(RunHooks):
        async def on_agent_start(self, context, agent):
            agent.tools.append(room.echo)

    room = Room(DENY)
    agent = room.agent([ECHO], "done", tools=[])
    await room.bridge.run(agent, "hi", hooks=Adding())
    assert (room.ran, REASON in read(agent)["c1"]) == ([], True)


async def check_state_may_be_restored_before():
    def agents(room):
        other = room.agent([ECHO], "below", name="other", prefix="o")
        return room.agent([("transfer_to_other", {})], handoffs=[other]), other

    first, second = Room(ASK), Room(DENY)
    agent, _ = agents(first)
    paused = (await first.bridge.run(agent, "hi")).to_state().to_json()
    agent, other = agents(second)
    other.model = model_of("done")
    state = await RunState.from_json(agent, paused)
    for item in state.get_interruptions():
        state.approve(item)
    result = await second.bridge.run(agent, state)
    assert (result.final_output, second.ran) == ("done", [])
    assert second.ends == [["o1", "denied"], ["agent", "ok"]]


async def check_clones_are_judged():
    room = Room(DENY)
    agent = room.bridge.wrap(room.agent([ECHO], "done")).clone(name="clone")
    await room.bridge.run(agent, "hi")
    assert (room.ran, REASON in read(agent)["c1"]) == ([], True)


async def check_two_bridges_take_turns_with_an_agent():
    first, second = Room(DENY), Room()
    agent = second.agent([ECHO], "one", [ECHO], "two")
    results = [await room.bridge.run(agent, "hi") for room in (first, second)]
    assert [result.final_output for result in results] == ["one", "two"]
    assert [room.ends[0][1] for room in (first, second)] == ["denied", "ok"]


async def check_wrapped_agent_needs_a_run():
    room = Room()
    with suppress(RegistrationError):
        await Runner.run(room.bridge.wrap(room.agent("done")), "hi")
        raise AssertionError


async def check_tools_that_nothing_judges_are_refused():
    room = Room()
    room.bridge = OpenAIAgentsBridge(components([DENY]))
    for tool in (
        ApplyPatchTool(editor=None),
        CustomTool(name="custom", description="", on_invoke_tool=lambda *_: "a"),
        LocalShellTool(executor=str),
        ShellTool(executor=str),
    ):
        with suppress(RegistrationError):
            await room.bridge.run(room.agent("done", tools=[tool]), "hi")
            raise AssertionError


async def check_namespaces_are_parts_of_names():
    room = Room({"ask": "crm.echo"})
    tools = tool_namespace(name="crm", description="Customers.", tools=[room.echo])
    call = {"call_id": "c1", "name": "echo", "arguments": '{"text": "a"}', "namespace": "crm"}
    call = ResponseFunctionToolCall(**call, type="function_call")
    model = ScriptedModel(
        [[call], [function_call("echo", {}, call_id="c2")], [assistant_message("done")]]
    )
    agent = Agent("agent", model=model, tools=tools)
    result = await decide(room.bridge.run, agent, await room.bridge.run(agent, "hi"), answer=True)
    assert (result.final_output, room.ran) == ("done", ["a"])
    assert room.ends == [["c1", "ok"], ["c2", "unknown_tool"], ["agent", "ok"]]


class Server(MCPServer):
    """A server with the tool `remote`."""

    name = "server"

    async def connect(self): ...
    async def cleanup(self): ...
    async def list_prompts(self): ...
    async def get_prompt(self, *_): ...

    async def list_tools(self, *_):
        return [Tool.model_validate({"name": "remote", "inputSchema": {"type": "object"}})]

    async def call_tool(self, *_, **__):
        text = {"type": "text", "text": f"remote {SECRET}"}
        return CallToolResult.model_validate({"content": [text]})


async def check_tools_of_servers_are_judged():
    room = Room(REDACT)
    agent = room.agent([("remote", {})], "done", mcp_servers=[Server()])
    await room.bridge.run(agent, "hi")
    assert HIDDEN in str(read(agent)["c1"])
    assert SECRET not in str(read(agent))


async def check_named_models_are_wrapped():
    class Provider(ModelProvider):
        def get_model(self, name):
            return models[name]

    room, models = Room(DENY), {"my": model_of([("no_tool", {}), ECHO], "done")}
    agent = Agent("agent", model="my", tools=[room.echo])
    config = RunConfig(model_provider=Provider())
    result = await room.bridge.run(agent, "hi", run_config=config)
    assert result.final_output == "done"
    assert room.ends[:2] in (
        [["c1", "unknown_tool"], ["c2", "denied"]],
        [["c2", "denied"], ["c1", "unknown_tool"]],
    )


async def check_tools_of_components_are_offered():
    class Clock(AgentComponent):
        @our_tool
        def now(self, zone: str) -> str:
            """Tell the time."""
            return f"noon in {zone}"

    room = Room(more=[Clock()])
    agent = room.agent([("now", {"zone": "x"})], "done")
    await room.bridge.run(agent, "hi")
    assert read(agent) == {"c1": "noon in x"}
    assert "now" in [tool.name for tool in agent.model.calls[0].tools]


async def check_results_keep_their_form():
    class Odd:
        def __str__(self):
            return "odd"

    @function_tool
    async def odd() -> object:
        return Odd()

    @function_tool
    async def picture() -> list:
        image = ToolOutputImage(image_url="data:image/png;base64,AAAA")
        return [ToolOutputText(text=SECRET), image]

    room = Room(REDACT)
    agent = room.agent([("odd", {}), ("picture", {})], "done", tools=[odd, picture])
    await room.bridge.run(agent, "hi")
    texts = read(agent)
    assert texts["c1"] == "odd"
    assert [part["type"] for part in texts["c2"]] == ["input_text", "input_image"]
    assert texts["c2"][0]["text"] == HIDDEN


async def check_objects_are_judged_as_the_model_reads_them():
    class Found(BaseModel):
        text: str = Field(SECRET, exclude=True)

    class Odd:
        def __repr__(self):
            return SECRET

    @function_tool
    async def find(number: int) -> object:
        return values[number]

    values = [SECRET.encode(), Found(), [Found()], {"found": Odd()}, Odd(), {SECRET}]
    room = Room(REDACT)
    turn = [("find", {"number": number}) for number in range(len(values))]
    agent = room.agent(turn, "done", tools=[find])
    await room.bridge.run(agent, "hi")
    assert list(read(agent).values()) == [str(each).replace(SECRET, HIDDEN) for each in values]


async def check_structured_answer_is_judged():
    class Answer(BaseModel):
        text: str

    room = Room({"redact_answer": "*"})
    agent = room.agent(json.dumps({"text": SECRET}), output_type=Answer)
    result = await room.bridge.run(agent, "hi")
    assert result.final_output == Answer(text=HIDDEN)


async def check_result_as_answer_is_judged():
    room = Room({"redact_answer": "*"})
    agent = room.agent([("echo", {"text": SECRET})], tool_use_behavior="stop_on_first_tool")
    result = await room.bridge.run(agent, "hi")
    assert (result.final_output, room.ends[-1]) == (HIDDEN, ["agent", "ok"])


async def check_prompt_in_parts_is_judged():
    room = Room({"redact_prompt": "*"})
    agent = room.agent("done")
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    parts = [{"type": "input_text", "text": SECRET}, image]
    await room.bridge.run(agent, [{"role": "user", "content": parts}])
    (item,) = agent.model.calls[0].input
    assert item["content"] == [{"type": "input_text", "text": HIDDEN}, image]


async def check_denied_prompt_is_a_tripwire():
    room = Room({"deny_prompt": "bomb"})
    agent = room.agent("done")
    done = await asyncio.gather(room.bridge.run(agent, "a bomb"), return_exceptions=True)
    assert isinstance(done[0], InputGuardrailTripwireTriggered)
    assert done[0].guardrail_result.output.output_info == REASON
    assert room.ends == [["agent", "denied"]]


async def check_failed_run_has_an_end():
    room = Room()
    with suppress(MaxTurnsExceeded):
        await room.bridge.run(room.agent(*[[ECHO]] * 3), "hi", max_turns=2)
    assert room.ends == [["c1", "ok"], ["c2", "ok"], ["agent", "error"]]


async def check_tool_made_by_hand_ends_the_run():
    async def fail(*_):
        raise ValueError("broken")

    room = Room()
    tool = FunctionTool("hand", "", {"type": "object"}, fail, strict_json_schema=False)
    agent = room.agent([("hand", {}), ("slow", {})], tools=[tool, room.slow])
    with suppress(UserError):
        await room.bridge.run(agent, "hi")
        raise AssertionError
    assert room.ends == [["c1", "error"], ["c2", "cancelled"], ["agent", "error"]]


async def check_timeout_of_the_framework_is_a_failure():
    room = Room()
    tool = function_tool(room.slow.__wrapped__, timeout=0.05)
    agent = room.agent([("slow", {})], "done", tools=[tool])
    await room.bridge.run(agent, "hi")
    assert "timed out after 0.05 seconds" in read(agent)["c1"]
    assert room.ends == [["c1", "error"], ["agent", "ok"]]


async def check_guardrail_of_a_tool_ends_the_call():
    @tool_input_guardrail
    def refuse(_):
        return ToolGuardrailFunctionOutput.reject_content("its own guardrail")

    room = Room()
    tool = function_tool(room.echo.__wrapped__, tool_input_guardrails=[refuse])
    agent = room.agent([ECHO], "done", tools=[tool])
    await room.bridge.run(agent, "hi")
    assert (room.ran, read(agent)) == ([], {"c1": "its own guardrail"})
    assert room.ends == [["c1", "error"], ["agent", "ok"]]


async def check_cancelled_runs_end_their_calls_first():
    for more, calls in (([], [("slow", {})]), ([HangAt("c1")], [ECHO])):
        room = Room(more=more)
        running = asyncio.create_task(room.bridge.run(room.agent(calls), "hi"))
        await asyncio.sleep(0.2)
        running.cancel()
        await asyncio.wait({running})
        assert room.ends == [["c1", "cancelled"], ["agent", "cancelled"]]


async def check_cancelled_sub_agent_leaves_no_call_open():
    room = Room(more=[HangAt("s2")])
    sub = room.agent([ECHO, ECHO], "below", name="sub", prefix="s")
    agent = room.agent([("sub", {"input": "go"})], "done", tools=[sub.as_tool("sub", "")])
    running = asyncio.create_task(room.bridge.run(agent, "hi"))
    await asyncio.sleep(0.3)
    running.cancel()
    await asyncio.wait({running})
    assert sorted(call_id for call_id, _ in room.ends) == ["agent", "c1", "s1", "s2"]


async def check_cancelled_stream_ends_its_calls():
    room = Room()
    result = await room.bridge.run_streamed(room.agent([("slow", {})]), "hi")
    reading = asyncio.create_task(anext(aiter(result.stream_events())))
    while "slow" not in room.ran:
        await asyncio.sleep(0.01)
    result.cancel()
    await asyncio.wait({reading})
    await room.bridge.aclose()
    assert room.ends == [["c1", "cancelled"], ["agent", "cancelled"]]


if __name__ == "__main__":
    for name, check in [*globals().items()]:
        if name.startswith("check_") and (not sys.argv[1:] or name in sys.argv):
            asyncio.run(check())
            print(name)
