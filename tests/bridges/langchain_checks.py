"""Checks of the bridge to LangChain that no scenario has: pauses, injected values, odd results.

It runs in the environment of LangChain, `python langchain_checks.py [CHECK…]`, and prints the name
of each check that holds.
"""

import asyncio
import logging
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    tool,
)
from langchain_core.tracers.context import tracing_v2_enabled
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import InjectedState, InjectedStore, ToolNode, ToolRuntime, tools_condition
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from langsmith import Client
from msgspec.structs import replace
from world_handlers import HIDDEN, SECRET

from toolbus import AgentComponent, Ask, AssistantMessage, Deny, ToolCall, guard, on
from toolbus import tool as own_tool
from toolbus.bridges.langchain import LangChainBridge
from toolbus.events import (
    MESSAGE_APPEND_BEFORE,
    MODEL_CALL_AFTER,
    MODEL_CALL_BEFORE,
    MODEL_CALL_ERROR,
    RUN_AFTER,
    TOOL_CALL_AFTER,
    TOOL_CALL_BEFORE,
)
from toolbus.store import SqliteStore

THREAD = {"configurable": {"thread_id": "t"}}
GO = {"messages": [HumanMessage("go")]}


class House(AgentComponent):
    """Handlers: one hides the secret, one asks, one denies, others note what they see."""

    def __init__(self):
        super().__init__()
        self.ends, self.runs, self.arguments = [], [], {}

    @on(MESSAGE_APPEND_BEFORE, roles=("tool", "user"), on_error="closed")
    def hide(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, HIDDEN))

    @guard(TOOL_CALL_BEFORE, tools="ask_*")
    def ask(self, ctx):
        return Ask(f"May {ctx.value.arguments['text']} run?")

    @guard(TOOL_CALL_BEFORE)
    def judge(self, ctx):
        self.arguments[ctx.value.id] = dict(ctx.value.arguments)
        return Deny("not that") if ctx.value.arguments.get("text") == "bad" else None

    @on(TOOL_CALL_AFTER)
    def note(self, ctx):
        self.ends.append([ctx.value.requested.id, ctx.value.status, ctx.scope.agent_id])

    @on(RUN_AFTER)
    def note_run(self, ctx):
        self.runs.append([ctx.value.status, ctx.scope.agent_id])

    @own_tool
    def clock(self) -> str:
        """Tell the time."""
        return f"noon {SECRET}"


class Rewriting(AgentComponent):
    """A handler that gives each call of a tool other arguments."""

    def __init__(self):
        super().__init__()
        self.number = 0

    @on(TOOL_CALL_BEFORE, tools="*echo")
    def rewrite(self, ctx):
        self.number += 1
        return ctx.value.merge_arguments({"text": f"text {self.number}"})


class Answers(AgentComponent):
    """A handler of the model's answers."""

    @on(MESSAGE_APPEND_BEFORE, roles="assistant", on_error="closed")
    def hide(self, ctx):
        return ctx.value.map_text(lambda text: text.replace(SECRET, HIDDEN))


class Everything(BaseCallbackHandler):
    """A handler that keeps what LangChain tells of tools."""

    def __init__(self):
        self.texts = []
        self.on_tool_start = lambda *values, **named: self.texts.append(f"{values} {named}")
        self.on_tool_end = lambda output, **_: self.texts.append(str(output))
        self.on_tool_error = lambda error, **_: self.texts.append(repr(error))


RAN = []


@tool
def ask_echo(text: str) -> str:
    """Return the text, after a question."""
    RAN.append(text)
    return f"echo {text}"


@tool
def look(text: str) -> str:
    """Return a secret."""
    RAN.append(text)
    return f"{text} {SECRET}"


@tool
def fail(text: str) -> str:
    """Raise."""
    raise ValueError(f"{text} {SECRET}")


@tool
def pause(text: str) -> str:
    """Pause the run."""
    return f"{text} {interrupt(text)}"


@tool
async def hang(text: str) -> str:
    """Wait."""
    await asyncio.sleep(30)
    return text


@tool
def injected(
    text: str,
    state: Annotated[dict, InjectedState],
    store: Annotated[Any, InjectedStore()],
    call_id: Annotated[str, InjectedToolCallId],
    runtime: ToolRuntime,
) -> str:
    """Use what LangGraph fills."""
    same = call_id == runtime.tool_call_id
    return f"{text} {len(state['messages'])} {type(store).__name__} {same} {SECRET}"


@tool(response_format="content_and_artifact")
def artifact(text: str):
    """Return an artifact that is JSON."""
    return f"{text} {SECRET}", {"raw": SECRET, "uses": 2}


@tool(response_format="content_and_artifact")
def opaque(text: str):
    """Return an artifact that is not JSON."""
    return f"{text} {SECRET}", (value for value in [SECRET])


@tool
def command(text: str, runtime: ToolRuntime) -> Command:
    """Change the state."""
    message = ToolMessage(f"{text} {SECRET}", tool_call_id=runtime.tool_call_id)
    return Command(update={"messages": [message]})


IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
FILE = {"type": "file", "file_id": "f1"}


@tool
def blocks(text: str):
    """Return blocks of several kinds."""
    return [{"type": "text", "text": f"{text} {SECRET}"}, IMAGE, FILE]


class Described(BaseTool):
    """A tool as a class, without a schema of its own."""

    name: str = "described"
    description: str = "A tool."
    runs: int = 0

    def _run(self, text: str, run_manager: Any = None) -> str:
        self.runs += 1
        return f"{text} {run_manager is not None} {SECRET}"


SINGLE = Tool(name="single", description="A tool.", func=lambda text: f"{text} {SECRET}")
LOOSE = StructuredTool(
    name="loose",
    description="A tool.",
    args_schema={"type": "object", "properties": {"path": {"type": "string"}}},
    func=lambda path, force=False: f"{path} {force} {SECRET}",
)


class Model(GenericFakeChatModel):
    """A model that plays its turns: texts, or lists of calls."""

    seen: list = []  # noqa: RUF012 - pydantic copies it

    @classmethod
    def of(cls, *turns, prefix="c", streams=False):
        """Return the model of *turns*; the ids of calls begin with *prefix*."""
        number, messages = 0, []
        for turn in turns:
            calls = []
            for name, arguments in turn if isinstance(turn, list) else ():
                number += 1
                calls.append({"id": f"{prefix}{number}", "name": name, "args": arguments})
            messages.append(AIMessage("" if calls else turn, tool_calls=calls))
        return cls(messages=iter(messages), disable_streaming=not streams)

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, *values, **options):
        self.seen.append([message.content for message in messages])
        return super()._generate(messages, *values, **options)


def results(state):
    """Return the text of each result in *state*, by the id of its call."""
    messages = [each for each in state["messages"] if isinstance(each, ToolMessage)]
    return {each.tool_call_id: each.content for each in messages}


async def both(make, given=GO, config=None):
    """Yield the end of an async run and of a sync one, each of an agent of *make*."""
    yield await make().ainvoke(given, config)
    yield await asyncio.to_thread(make().invoke, given, config)


def approve(paused, answers):
    """Return the resumption of *paused* with *answers*, decisions by the tool's text."""
    decisions = {}
    for each in paused["__interrupt__"]:
        (action,) = each.value["action_requests"]
        decisions[each.id] = {"decisions": [answers[action["args"]["text"]]]}
    return Command(resume=decisions)


ODD = [injected, artifact, opaque, command, blocks, SINGLE, LOOSE, Described(), fail]
ODD_CALLS = [
    *((each.name, {"text": "a"}) for each in ODD[:5]),
    ("single", {"__arg1": "a"}),
    ("loose", {"path": "a", "force": True}),
    ("described", {"text": "a"}),
    ("fail", {"text": "a"}),
]


async def check_results_of_every_kind_are_judged():
    async with LangChainBridge([House()]) as bridge:
        seen, saver = Everything(), InMemorySaver()

        def make():
            return create_agent(
                Model.of(ODD_CALLS, "done"),
                ODD,
                middleware=[bridge],
                store=InMemoryStore(),
                checkpointer=saver,
            )

        config = {**THREAD, "callbacks": [seen]}
        async for state in both(make, config=config):
            read = results(state)
            assert read["c1"].startswith("a ")
            assert read["c1"].endswith(f"InMemoryStore True {HIDDEN}")
            assert read["c5"] == [{"type": "text", "text": f"a {HIDDEN}"}, IMAGE, FILE]
            assert read["c7"] == f"a True {HIDDEN}"
            assert read["c8"] == f"a True {HIDDEN}"
            by_id = {each.tool_call_id: each for each in state["messages"][-10:-1]}
            assert by_id["c2"].artifact is None
            assert by_id["c9"].status == "error"
            assert SECRET not in str(state)
        history = [*make().get_state_history(THREAD)]
        assert SECRET not in f"{history} {seen.texts}"


async def check_handlers_see_only_arguments_of_the_model():
    house = House()
    async with LangChainBridge([house]) as bridge:
        turn = [("injected", {"text": "a", "state": {"messages": ["forged"]}})]
        agent = create_agent(
            Model.of(turn, "done"), [injected], middleware=[bridge], store=InMemoryStore()
        )
        await agent.ainvoke(GO)
        assert house.arguments == {"c1": {"text": "a"}}


@tool
def owned(text: str, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
    """Use a value that a program fills."""
    return f"{text} of {user}"


async def check_no_argument_of_the_model_passes_unseen():
    house = House()
    async with LangChainBridge([house]) as bridge:
        model = Model.of([("owned", {"text": "a", "user": "root"})], "done")
        agent = create_agent(model, [owned], middleware=[bridge])
        state = await agent.ainvoke(GO)
    assert house.arguments["c1"].get("user", "nobody") in results(state)["c1"]


async def check_state_of_a_tool_stays_its_own():
    kept = Described()
    async with LangChainBridge([House()]) as bridge:
        model = Model.of([("described", {"text": "a"})], "done")
        await create_agent(model, [kept], middleware=[bridge]).ainvoke(GO)
    assert kept.runs == 1


async def check_question_pauses_until_another_process_answers():
    turn = [("ask_echo", {"text": "a"}), ("ask_echo", {"text": "b"}), ("look", {"text": "c"})]
    answers = {"a": {"type": "approve"}, "b": {"type": "reject", "message": "no b"}}
    saver, model = InMemorySaver(), Model.of(turn, "done")

    def make(bridge):
        return create_agent(model, [ask_echo, look], middleware=[bridge], checkpointer=saver)

    RAN.clear()
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteStore(Path(folder, "log.db")) as store:
            async with LangChainBridge([first := House()], store=store) as bridge:
                paused = await make(bridge).ainvoke(GO, THREAD)
            async with LangChainBridge([second := House()], store=store) as bridge:
                state = await make(bridge).ainvoke(approve(paused, answers), THREAD)
            messages = await store.read("langchain-t")
    assert [end[:2] for end in first.ends] == [["c3", "ok"]]
    assert sorted(end[:2] for end in second.ends) == [["c1", "ok"], ["c2", "denied"]]
    assert RAN == ["c", "a"]
    assert results(state) == {"c1": "echo a", "c2": "no b", "c3": f"c {HIDDEN}"}
    assert [each.role for each in messages].count("tool") == 3


async def check_answer_is_for_the_call_that_was_shown():
    async with LangChainBridge([Rewriting(), House()]) as bridge:
        model = Model.of([("ask_echo", {"text": "a"})], "done")
        agent = create_agent(model, [ask_echo], middleware=[bridge], checkpointer=InMemorySaver())
        RAN.clear()
        await agent.ainvoke(GO, THREAD)
        state = await agent.ainvoke(Command(resume=True), THREAD)
        assert "changed after its approval" in results(state)["c1"]
        assert RAN == []


@tool
def entry(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Change a state that is a list."""
    return Command(update=[ToolMessage(f"{text} {SECRET}", tool_call_id=call_id)])


async def check_result_in_a_state_that_is_a_list_is_judged():
    call = {"type": "tool_call", "id": "c1", "name": "entry", "args": {"text": "a"}}
    async with LangChainBridge([House()]) as bridge:
        builder = StateGraph(Annotated[list, add_messages])
        builder.add_node("tools", ToolNode([entry], awrap_tool_call=bridge.awrap_tool_call))
        builder.add_edge(START, "tools")
        messages = await builder.compile().ainvoke([AIMessage("", tool_calls=[call])])
    assert messages[-1].content == f"a {HIDDEN}"


@tool
def twice(text: str, runtime: ToolRuntime) -> Command:
    """Return two messages for one call."""
    messages = [ToolMessage(each, tool_call_id=runtime.tool_call_id) for each in (text, SECRET)]
    return Command(update={"messages": messages})


@tool
def plain(text: str, runtime: ToolRuntime) -> Command:
    """Return a message as a dict."""
    message = {"role": "tool", "content": SECRET, "tool_call_id": runtime.tool_call_id}
    return Command(update={"messages": [message]})


@tool
def astray(text: str) -> ToolMessage:
    """Return a message with another id."""
    return ToolMessage(SECRET, tool_call_id="other")


async def check_no_message_of_a_tool_passes_unseen():
    tools, seen = [twice, plain, astray], Everything()
    turn = [(each.name, {"text": "a"}) for each in tools]
    async with LangChainBridge([House()]) as bridge:

        def make():
            return create_agent(Model.of(turn, "done"), tools, middleware=[bridge])

        async for state in both(make, config={"callbacks": [seen]}):
            read = results(state)
            assert read["c1"] == "the tool returned several messages for one call"
            assert (read["c2"], read["other"]) == (HIDDEN, HIDDEN)
            assert SECRET not in str(state)


async def check_arguments_that_no_record_holds_end_no_run():
    ran, wrong = [], ({"text": 10**30}, {"text": float("nan")}, {"text": "\ud800"})

    @tool
    def anything(text: Any) -> str:
        """Return nothing."""
        ran.append(text)
        return ""

    async with LangChainBridge([House()]) as bridge:
        for name in ("anything", "nothing"):
            turn = [(name, arguments) for arguments in wrong]
            agent = create_agent(Model.of(turn, "done"), [anything], middleware=[bridge])
            state = await agent.ainvoke(GO)
            assert state["messages"][-1].content == "done"
            assert len(results(state)) == len(wrong)
    assert ran == []


def graph(bridge, *turns, tools=(ask_echo, look, fail)):
    """Return a graph without `create_agent`."""
    model, builder = Model.of(*turns), StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    wrappers = {"wrap_tool_call": bridge.wrap_tool_call, "awrap_tool_call": bridge.awrap_tool_call}
    builder.add_node("tools", ToolNode([*tools], **wrappers))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


async def check_node_of_several_calls_asks_the_approver():
    turn = [("ask_echo", {"text": "a"}), ("ask_echo", {"text": "b"}), ("remove", {})]
    for approver, read in (
        (None, ["approval is needed", "approval is needed"]),
        (lambda ask, call, scope: call.arguments["text"] == "b", ["approval was ref", "echo b"]),
    ):
        async with LangChainBridge([House()], approver=approver) as bridge:
            async for state in both(lambda b=bridge: graph(b, turn, "done"), config=THREAD):
                assert "__interrupt__" not in state
                assert results(state)["c1"].startswith(read[0])
                assert results(state)["c2"].startswith(read[1])
                assert "no tool named 'remove'" in results(state)["c3"]


def sub_agent(turn, tools, *, middleware=(), sync=False):
    """Return a tool that runs an agent, made in it with callbacks, and the agent's model."""
    told = {"callbacks": [Everything()]}
    model = Model.of(turn, "done below", prefix="s")

    def make():
        return create_agent(model, tools, middleware=middleware, name="helper")

    @tool
    def delegate(task: str) -> str:
        """Run another agent."""
        return make().invoke({"messages": [task]}, told)["messages"][-1].content

    @tool("delegate")
    async def delegate_async(task: str) -> str:
        """Run another agent."""
        return (await make().ainvoke({"messages": [task]}, told))["messages"][-1].content

    return (delegate if sync else delegate_async), model


async def check_pause_of_a_tool_and_of_a_sub_agent_passes():
    for is_wrapped in (True, False):
        house = House()
        async with LangChainBridge([house]) as bridge:
            chosen = [bridge] if is_wrapped else []
            delegate, _ = sub_agent([("pause", {"text": "deep"})], [pause], middleware=chosen)
            turn = [("pause", {"text": "a"}), ("delegate", {"task": "t"})]
            agent = create_agent(
                Model.of(turn, "done"),
                [pause, delegate],
                middleware=[bridge],
                checkpointer=InMemorySaver(),
            )
            paused = await agent.ainvoke(GO, THREAD)
            answers = {each.id: f"yes to {each.value}" for each in paused["__interrupt__"]}
            state = await agent.ainvoke(Command(resume=answers), THREAD)
        assert results(state) == {"c1": "a yes to a", "c2": "done below"}
        assert sorted(house.ends) == [
            ["c1", "ok", "agent"],
            ["c2", "ok", "agent"],
            ["s1", "ok", "helper"],
        ]


async def check_unwrapped_sub_agent_is_judged():
    turn = [("look", {"text": "a"}), ("look", {"text": "bad"}), ("fail", {"text": "a"})]
    for sync in (True, False):
        house = House()
        async with LangChainBridge([house]) as bridge:
            delegate, model = sub_agent(turn, [look, fail], sync=sync)
            main = Model.of([("delegate", {"task": "t"})], "done")
            agent = create_agent(main, [delegate], middleware=[bridge])
            await (asyncio.to_thread(agent.invoke, GO) if sync else agent.ainvoke(GO))
        assert model.seen[-1][2:] == [f"a {HIDDEN}", "not that", f"a {HIDDEN}"]
        assert sorted(house.ends) == [
            ["c1", "ok", "agent"],
            ["s1", "ok", "helper"],
            ["s2", "denied", "helper"],
            ["s3", "error", "helper"],
        ]


async def check_unwrapped_sub_agent_runs_no_rewritten_call():
    RAN.clear()
    async with LangChainBridge([Rewriting()]) as bridge:
        delegate, model = sub_agent([("ask_echo", {"text": "a"})], [ask_echo])
        main = Model.of([("delegate", {"task": "t"})], "done")
        await create_agent(main, [delegate], middleware=[bridge]).ainvoke(GO)
    assert "not wrapped" in model.seen[-1][-1]
    assert RAN == []


async def check_sub_agent_with_another_bridge_is_judged_by_both():
    upper, lower = House(), Rewriting()
    async with LangChainBridge([upper]) as bridge, LangChainBridge([lower]) as other:
        turn = [("look", {"text": "bad"}), ("look", {"text": "a"})]
        delegate, model = sub_agent(turn, [look], middleware=[other])
        main = Model.of([("delegate", {"task": "t"})], "done")
        await create_agent(main, [delegate], middleware=[bridge]).ainvoke(GO)
    assert model.seen[-1][2:] == ["not that", f"a {HIDDEN}"]


async def check_wrapped_graph_is_judged():
    async with LangChainBridge([House()]) as bridge:
        turn = [("look", {"text": "a"}), ("look", {"text": "bad"})]
        agent = bridge.wrap(create_agent(Model.of(turn, "done"), [look]))
        assert results(await agent.ainvoke(GO)) == {"c1": f"a {HIDDEN}", "c2": "not that"}


async def check_nothing_raw_is_in_any_stream():
    modes = ["values", "updates", "messages", "custom", "debug", "tasks", "checkpoints"]
    turn = [("look", {"text": "a"}), ("fail", {"text": "a"})]
    async with LangChainBridge([House()]) as bridge:

        def make():
            delegate, _ = sub_agent(turn, [look, fail])
            main = Model.of([*turn, ("delegate", {"task": "t"})], "done")
            return create_agent(main, [look, fail, delegate], middleware=[bridge])

        stream = make().astream(GO, stream_mode=modes, subgraphs=True)
        shown = [str(piece) async for piece in stream]
        shown += [str(event) async for event in make().astream_events(GO, version="v2")]
    assert SECRET not in "".join(shown)
    assert HIDDEN in "".join(shown)


class Exporter(Client):
    """A client of LangSmith that keeps what it would send."""

    def __init__(self):
        super().__init__(api_url="http://127.0.0.1:9", api_key="none", auto_batch_tracing=False)
        self.sent = []

    def create_run(self, *values, **named):
        self.sent.append(f"{values} {named}")

    def update_run(self, *values, **named):
        self.sent.append(f"{values} {named}")


async def check_nothing_raw_is_sent_to_langsmith():
    turn = [("look", {"text": "a"}), ("fail", {"text": "a"})]
    for is_bridged in (False, True):
        client = Exporter()
        async with LangChainBridge([House()]) as bridge:
            delegate, _ = sub_agent(turn[:1], [look])
            model = Model.of([*turn[: 1 + is_bridged], ("delegate", {"task": "t"})], "done")
            agent = create_agent(
                model, [look, fail, delegate], middleware=[bridge] if is_bridged else []
            )
            with tracing_v2_enabled(client=client):
                await agent.ainvoke(GO)
                await asyncio.to_thread(wait_for_all_tracers)
        assert "'delegate'" in "".join(client.sent)
        assert (SECRET in "".join(client.sent)) is not is_bridged


async def check_answer_is_streamed_when_it_was_judged():
    for components, pieces in (
        ([], ["a", " ", SECRET, " ", "b"]),
        ([Answers()], [f"a {HIDDEN} b"]),
    ):
        async with LangChainBridge(components) as bridge:
            agent = create_agent(Model.of(f"a {SECRET} b", streams=True), [], middleware=[bridge])
            stream = agent.astream(GO, stream_mode="messages")
            assert [message.content async for message, _ in stream if message.content] == pieces


async def check_several_prompts_with_an_image_are_judged():
    image = [{"type": "text", "text": f"two {SECRET}"}, IMAGE]
    prompts = {"messages": [HumanMessage(f"one {SECRET}"), HumanMessage(image)]}
    async with LangChainBridge([House()]) as bridge:
        async for state in both(
            lambda: create_agent(Model.of("done"), [], middleware=[bridge]), prompts
        ):
            (prompt, _) = state["messages"]
            text = f"one {HIDDEN}\ntwo {HIDDEN}"
            assert prompt.content == [{"type": "text", "text": text}, IMAGE]


async def check_tool_of_a_component_is_offered():
    async with LangChainBridge([House()]) as bridge:
        async for state in both(
            lambda: create_agent(Model.of([("clock", {})], "done"), [], middleware=[bridge])
        ):
            assert results(state) == {"c1": f"noon {HIDDEN}"}


class Requests(AgentComponent):
    """Handlers of requests to the model; *word* says what they do."""

    def __init__(self, word):
        super().__init__()
        self.word, self.replies = word, []

    @on(MODEL_CALL_BEFORE)
    def before(self, ctx):
        request = ctx.value
        assert [message.role for message in request.messages][:2] == ["system", "user"]
        match self.word:
            case "deny":
                return Deny("no request")
            case "answer" if len(request.messages) == 2:
                call = ToolCall(id="h1", name="look", arguments={"text": "a"})
                return AssistantMessage(tool_calls=(call,))
            case "change":
                shorter = tuple(
                    message.map_text(lambda text: text.replace("go", "stop"))
                    for message in request.messages
                )
                tools = tuple(spec for spec in request.tools if spec.name != "look")
                return replace(request, messages=shorter, tools=tools)
        return None

    @on(MODEL_CALL_ERROR)
    def error(self, ctx):
        assert ctx.value.error_type == "ConnectionError"
        return AssistantMessage(content="later") if self.word == "rescue" else None

    @on(MODEL_CALL_AFTER)
    def after(self, ctx):
        self.replies.append(ctx.value.message.text)


class Unreachable(Model):
    """A model that cannot be reached."""

    def _generate(self, messages, *values, **options):
        raise ConnectionError("no route")


async def check_handlers_of_requests_run():
    turn = [("look", {"text": "a"})]
    for word, read, last, requests in (
        ("watch", [f"a {SECRET}"], "done", 2),
        ("deny", [], "no request", 0),
        ("answer", [f"a {SECRET}"], "done", 1),
        ("change", ["no tool named 'look'; known tools: fail"], "done", 2),
        ("rescue", [], "later", 0),
    ):
        handlers = Requests(word)
        async with LangChainBridge([handlers, ends := Ends()]) as bridge:

            def make(bridge=bridge, word=word):
                turns = ["done"] if word == "answer" else [turn, "done"]
                model = (Unreachable if word == "rescue" else Model).of(*turns)
                return create_agent(
                    model, [look, fail], middleware=[bridge], system_prompt="Be brief."
                )

            async for state in both(make):
                assert [*results(state).values()] == read, (word, results(state))
                assert state["messages"][-1].content == last
            assert len(handlers.replies) == 2 * requests
            assert ends.statuses == ["denied" if word == "deny" else "ok"] * 2


class Dynamic(AgentMiddleware):
    """A middleware that has a tool of its own."""

    def wrap_tool_call(self, request, handler):
        return handler(request.override(tool=look))

    async def awrap_tool_call(self, request, handler):
        return await handler(request.override(tool=look))


async def check_tool_of_earlier_middleware_is_judged():
    async with LangChainBridge([House()]) as bridge:
        async for state in both(
            lambda: create_agent(
                Model.of([("look", {"text": "a"})], "done"), [], middleware=[Dynamic(), bridge]
            )
        ):
            assert results(state) == {"c1": f"a {HIDDEN}"}


class Ends(AgentComponent):
    """The ends of runs."""

    def __init__(self):
        super().__init__()
        self.statuses = []

    @on(RUN_AFTER)
    def note(self, ctx):
        self.statuses.append(ctx.value.status)


async def check_cancelled_run_ends_each_agent_once():
    for is_wrapped in (True, False):
        house = House()
        async with LangChainBridge([house]) as bridge:
            chosen = [bridge] if is_wrapped else []
            delegate, _ = sub_agent([("hang", {"text": "a"})], [hang], middleware=chosen)
            turn = [("delegate", {"task": "t"}), ("hang", {"text": "a"})]
            agent = create_agent(Model.of(turn), [delegate, hang], middleware=[bridge])
            running = asyncio.create_task(agent.ainvoke(GO))
            await asyncio.sleep(0.5)
            running.cancel()
            await asyncio.wait({running})
            await asyncio.sleep(0.2)
        assert sorted(end[:2] for end in house.ends) == [
            ["c1", "cancelled"],
            ["c2", "cancelled"],
            ["s1", "cancelled"],
        ]
        assert house.runs.count(["cancelled", "agent"]) == 1
        assert house.runs.count(["cancelled", "helper"]) == is_wrapped


async def check_many_runs_at_once_stay_apart():
    async with LangChainBridge([house := House()]) as bridge:

        def make():
            turn = [("look", {"text": "a"}), ("fail", {"text": "a"})]
            return create_agent(Model.of(turn, "done"), [look, fail], middleware=[bridge])

        states = await asyncio.gather(
            *(make().ainvoke(GO) for _ in range(20)),
            *(asyncio.to_thread(make().invoke, GO) for _ in range(20)),
        )
        assert {state["messages"][-1].content for state in states} == {"done"}
        assert len(house.ends) == 80
        assert house.runs.count(["ok", "agent"]) == 40


async def check_sync_program_closes_the_bridge():
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "log.db"))
        bridge = LangChainBridge([House()], store=store)

        def program():
            agent = create_agent(
                Model.of([("look", {"text": "a"})], "done"), [look], middleware=[bridge]
            )
            agent.invoke(GO, THREAD)
            asyncio.run(bridge.aclose())

        await asyncio.to_thread(program)
        texts = [message.text for message in await store.read("langchain-t")]
        await store.close()
        assert texts == ["go", "", f"a {HIDDEN}", "done"]


if __name__ == "__main__":
    # LangChain warns of each callback that refuses a call.
    logging.getLogger("langchain_core.callbacks.manager").setLevel(logging.ERROR)
    for name, check in [*globals().items()]:
        if name.startswith("check_") and (not sys.argv[1:] or name in sys.argv):
            asyncio.run(check())
            print(name, flush=True)
