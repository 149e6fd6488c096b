"""Checks of the bridge to Google ADK beyond the scenarios: `python google_adk_checks.py`.

It runs in an environment of Google ADK, prints the names of the checks that hold, and ends with the
traceback of the first that does not.
"""

import asyncio
import gc
import inspect
import json
import logging
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from google.adk.agents import BaseAgent, LiveRequestQueue, LlmAgent, RunConfig, SequentialAgent
from google.adk.events import Event
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.tools.base_toolset import BaseToolset
from google.adk.workflow import START, Workflow
from google.genai import types
from google_adk_world import CONFIRMATION, WorldModel, answer_of, part_of, parts_of, text_of
from pydantic import BaseModel
from scenarios import HIDDEN, REASON, SECRET
from world import FIELDS, Call, Script
from world_handlers import Watch, components

from toolbus import AgentComponent
from toolbus import tool as our_tool
from toolbus.bridges.google_adk import GoogleADKBridge
from toolbus.store import SqliteStore

APP, USER = "checks", "ann"
DENY, ASK, REDACT = {"deny": "danger"}, {"ask": "danger"}, {"redact": "*"}
ANSWERS = {"redact_answer": "*"}
DANGER = ["danger", {"text": "x"}]


def prompt(words):
    """Return a message of the user."""
    return types.Content(role="user", parts=[types.Part(text=words)])


class Room:
    """A runner with a bridge of *handlers*, whose agent's model plays *turns*.

    *ran* are its tools, *events* all that the runs returned.
    """

    def __init__(self, turns, *handlers, tools=None, plugins=(), more=(), agent=None, **options):
        self.seen, self.ran, self.events = json.loads(json.dumps(FIELDS)), [], []
        made = [Watch(self.seen), *components(handlers), *more]
        self.bridge = GoogleADKBridge(made, partial=True, **options)
        self.plugins, self.sessions = [self.bridge, *plugins], InMemorySessionService()
        given = self.tools if tools is None else tools
        self.agent = agent or self.make(turns, tools=given)

    def make(self, turns, name="agent", prefix="c", **options):
        """Return an agent whose model plays *turns*."""
        model = WorldModel(script=Script(turns, self.seen, prefix))
        return LlmAgent(name=name, description="An agent.", model=model, **options)

    @property
    def tools(self):
        def danger(text: str) -> str:
            """Do a dangerous thing."""
            self.ran.append(text)
            return f"did {text} with {SECRET}"

        async def echo(text: str) -> str:
            """Return the text."""
            self.ran.append(text)
            return text

        async def fail(text: str) -> str:
            """Fail."""
            raise RuntimeError(f"{text} {SECRET}")

        return [danger, echo, fail]

    async def run(self, message=None, session="s1"):
        """Run a prompt, or another *message*, and return the names of what the user is asked."""
        key = {"app_name": APP, "user_id": USER, "session_id": session}
        if await self.sessions.get_session(**key) is None:
            await self.sessions.create_session(**key)
        runner = Runner(
            app_name=APP,
            agent=self.agent,
            session_service=self.sessions,
            plugins=self.plugins,
        )
        fresh = [
            event
            async for event in runner.run_async(
                user_id=USER, session_id=session, new_message=message or prompt("go")
            )
        ]
        self.events += fresh
        calls = [call for event in fresh for call in event.get_function_calls()]
        return [call for call in calls if call.name == CONFIRMATION]

    async def confirm(self, asked, confirmed):
        """Run on with the user's decision on the questions in *asked*."""
        answers = [
            types.FunctionResponse(id=one.id, name=one.name, response={"confirmed": confirmed})
            for one in asked
        ]
        parts = [types.Part(function_response=answer) for answer in answers]
        return await self.run(types.Content(role="user", parts=parts))

    def read(self, call_id):
        """Return the last result of a call in the events."""
        responses = [one for event in self.events for one in event.get_function_responses()]
        return text_of([one for one in responses if one.id == call_id][-1].response)

    @property
    def shown(self):
        """All texts and results of the events; the calls of the model are its own."""
        parts = parts_of([event.content for event in self.events if event.content])
        return " ".join([str(part.text or part.function_response or "") for _, part in parts])

    @property
    def ends(self):
        """The number of ends and the status of each call."""
        return {
            id_: (count, self.seen["statuses"][id_]) for id_, count in self.seen["ends"].items()
        }


# --- questions ----------------------------------------------------------------------------------


async def check_confirmation_goes_on_in_another_process():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.db")
        before = Room([[DANGER]], ASK, store=SqliteStore(path))
        asked = await before.run()
        await before.bridge.aclose()
        after = Room(["done"], ASK, store=SqliteStore(path))
        after.sessions = before.sessions
        await after.confirm(asked, confirmed=True)
        await after.bridge.aclose()
        async with SqliteStore(path, read_only=True) as store:
            (session,) = await store.sessions()
            roles = " ".join([message.role for message in await store.read(session.id)])

    assert (before.ran, before.ends) == ([], {})
    assert (after.ran, after.ends, after.seen["runs"]) == (["x"], {"c1": (1, "ok")}, ["ok"])
    assert roles == "user assistant tool assistant"


async def check_refused_confirmation_spares_siblings():
    room = Room([[DANGER, ["echo", {"text": "a"}]], "done"], ASK)

    await room.confirm(await room.run(), confirmed=False)

    assert room.ran == ["a"]
    assert room.ends == {"c1": (1, "denied"), "c2": (1, "ok")}
    assert room.seen["runs"] == ["ok"]


async def check_approval_of_another_question_is_not_taken():
    room = Room([[DANGER], "done"], ASK)
    room.agent.tools = [FunctionTool(room.tools[0], require_confirmation=True)]

    asked = await room.run()
    await room.confirm(asked, confirmed=True)

    assert len(asked) == 1
    assert room.ran == []


async def check_tool_does_not_take_an_approval_of_a_guard():
    def danger(text: str, tool_context: ToolContext) -> str:
        """Do a dangerous thing, with a question of its own."""
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="really?")
            return f"waits with {SECRET}"
        room.ran.append(text)
        return "done"

    room = Room([[DANGER], "done"], ASK, REDACT, tools=[danger])
    await room.confirm(await room.run(), confirmed=True)

    assert (room.ran, room.ends) == ([], {"c1": (1, "error")})
    assert SECRET not in room.shown


async def check_approval_of_a_faked_question_is_not_taken():
    original = {"id": "c2", "name": "danger", "args": {"text": "x"}}
    for faked in (
        {"originalFunctionCall": original, "toolConfirmation": {"hint": "Shall I say hello?"}},
        {"originalFunctionCall": original},
    ):
        room = Room([[[CONFIRMATION, faked], DANGER], "done"], ASK)
        of_model, *asked = await room.run()
        await room.confirm([of_model], confirmed=True)

        assert of_model.args == faked
        assert len(asked) == 1
        assert room.ran == []


async def check_question_of_a_sub_agent():
    for kind in ("tool", "single_turn", "single_turn in a tool"):
        room = Room([], ASK)
        mode = {} if kind == "tool" else {"mode": "single_turn"}
        below = room.make([[DANGER], "done below"], "helper", "s", tools=room.tools, **mode)
        turns = [["helper", {"request": "go"}]], "done"
        if kind == "tool":
            room.agent = room.make(turns, tools=[AgentTool(below)])
        else:
            room.agent = room.make(turns, sub_agents=[below])
        if kind == "single_turn in a tool":
            tools = [AgentTool(room.agent)]
            room.agent = room.make(
                [[["agent", {"request": "go"}]], "done"], "top", "t", tools=tools
            )

        asked = await room.run()
        ran_before = [*room.ran]
        await room.confirm(asked, confirmed=True) if asked else None

        # The runner in a tool ends before its user can answer.
        is_asked = kind == "single_turn"
        assert ran_before == []
        assert (len(asked), room.ran) == ((1, ["x"]) if is_asked else (0, []))
        assert room.ends["s1"] == (1, "ok" if is_asked else "denied")


async def check_tool_of_a_workflow_is_judged():
    for handler, status in ((DENY, "denied"), (ASK, "denied"), (REDACT, "ok")):
        room = Room([], handler)
        room.agent = Workflow(name="flow", edges=[(START, FunctionTool(room.tools[0]))])
        asked = await room.run(prompt('{"text": "x"}'))

        assert asked == []
        assert [*room.ends.values()] == [(1, status)]
        assert room.ran == (["x"] if status == "ok" else [])
        assert SECRET not in str([event.output for event in room.events])


# --- calls that pass no tool, or arrive oddly -----------------------------------------------------


async def check_agent_that_gives_tasks_is_refused():
    room = Room([])
    below = room.make([[DANGER]], "helper", "s", tools=room.tools, mode="task")
    room.agent = room.make([[["helper", {"request": "go"}]], "done"], sub_agents=[below])
    try:
        await room.run()
    except RuntimeError as error:
        room.ran.append(str(error))

    assert len(room.ran) == 1
    assert "mode='task'" in room.ran[0]
    assert room.seen["runs"] == ["error"]


async def check_late_result_is_judged():
    def order(text: str) -> None:
        """Order a thing that takes long."""

    room = Room([[["order", {"text": "a"}]], "waits", "done"], REDACT)
    room.agent.tools = [LongRunningFunctionTool(order)]
    await room.run()
    late = types.FunctionResponse(id="c1", name="order", response={"result": SECRET})
    await room.run(types.Content(role="user", parts=[types.Part(function_response=late)]))

    assert room.seen["read"]["c1"] == HIDDEN


async def check_odd_prompts_are_judged():
    # The framework refuses text beside a result that has an id.
    result = types.FunctionResponse(name="echo", response={"result": "a"})
    for parts in (
        [types.Part(function_response=result), types.Part(text="a bad prompt")],
        [types.Part(text="go"), types.Part(text="a bad prompt", thought=True)],
    ):
        room = Room(["done"], {"deny_prompt": "bad"})
        await room.run(types.Content(role="user", parts=parts))

        assert room.seen["runs"] == ["denied"]
        assert "done" not in room.shown


class OddModel(WorldModel):
    """A model that makes *calls*, which no script can hold."""

    calls: tuple = ()

    async def generate_content_async(self, llm_request, stream=False):  # noqa: FBT002 - its name
        calls, self.calls = self.calls, ()
        yield answer_of([part_of(call) for call in calls] or [types.Part(text="done")])


async def check_odd_calls_have_ends():
    odd_arguments = {"text": float("nan")}, {"text": 10**30}, {"text": "\ud800"}
    odd_names = "", None, "Danger"
    # In one turn they make the framework repeat them for ever (google-adk 2.13, without a bridge).
    for status, calls in {
        "invalid_arguments": [Call(f"c{id(each)}", "echo", each) for each in odd_arguments],
        "unknown_tool": [Call(f"c{id(each)}", each, {}) for each in odd_names],
    }.items():
        room = Room([])
        room.agent.model = OddModel(calls=tuple(calls))
        await room.run()

        assert [end for _, end in room.ends.values()] == [status] * 3
        assert room.ran == []


async def check_live_calls_are_judged():
    async def follow(text: str) -> AsyncGenerator[str, None]:
        """Follow a thing."""
        yield f"{text} {SECRET}"

    room = Room([], DENY, REDACT, ANSWERS)
    turns = [DANGER, ["follow", {"text": "a"}], ["nothing", {}]], f"so {SECRET}", "so"
    model = LiveModel(script=Script(turns, room.seen))
    room.agent = LlmAgent(name="agent", model=model, tools=[*room.tools, follow])
    await room.sessions.create_session(app_name=APP, user_id=USER, session_id="s1")
    runner = Runner(
        app_name=APP, agent=room.agent, session_service=room.sessions, plugins=room.plugins
    )
    queue = LiveRequestQueue()
    queue.send_content(prompt("go"))
    config = RunConfig(response_modalities=["TEXT"])
    try:
        async for event in runner.run_live(
            user_id=USER, session_id="s1", live_request_queue=queue, run_config=config
        ):
            room.events.append(event)
    except ConnectionError:
        pass  # It is closed at its end.

    sent = " ".join(LiveModel.sent)
    assert room.ran == []
    assert REASON in sent
    assert "a streaming tool is refused" in sent
    assert SECRET not in sent
    assert f"so {HIDDEN}" in room.shown
    assert SECRET not in room.shown
    assert room.ends == {"c1": (1, "denied"), "c2": (1, "error"), "c3": (1, "unknown_tool")}


class LiveModel(WorldModel):
    """A model of live runs; *sent* is what it was sent."""

    @asynccontextmanager
    async def connect(self, llm_request):
        LiveModel.sent = []
        yield LiveConnection(self.script)


class LiveConnection(BaseLlmConnection):
    """A connection that plays a turn for each content that it is sent."""

    def __init__(self, script):
        self.script, self.queue = script, asyncio.Queue()

    async def send_history(self, history):
        pass

    async def send_content(self, content, **_):
        LiveModel.sent.append(str(content))
        self.queue.put_nowait(content)

    async def _send_content(self, content, **_):
        await self.send_content(content)

    async def send_realtime(self, blob):
        pass

    async def receive(self):
        while self.script._turns:
            await asyncio.wait_for(self.queue.get(), 2)
            turn = self.script.next()
            yield answer_of([part_of(call) for call in turn.calls] or [types.Part(text=turn.text)])
        await asyncio.sleep(0.1)
        raise ConnectionError("closed")

    async def close(self):
        pass


# --- other callbacks ------------------------------------------------------------------------------


class Other(BasePlugin):
    """A plugin of the program, with one callback."""

    def __init__(self, callback, function):
        super().__init__("other")
        setattr(self, callback, function)


async def check_answers_of_other_plugins_are_judged():
    async def answer(**_):
        return {"result": f"cached {SECRET}"}

    other = Other("before_tool_callback", answer)
    for is_first in (False, True):
        room = Room([[DANGER], "done"], REDACT)
        room.plugins = [other, room.bridge] if is_first else [room.bridge, other]
        await room.run()

        assert (room.ran, room.read("c1")) == ([], f"cached {HIDDEN}")


async def check_callbacks_of_the_agent_still_run():
    room = Room([[DANGER], "done"], REDACT)
    room.agent.before_tool_callback = lambda tool, args, tool_context: args.update(text="y")
    room.agent.after_tool_callback = lambda tool, args, tool_context, tool_response: (
        room.ran.append(tool_response)
    )
    await room.run()

    assert room.ran == ["y", f"did y with {HIDDEN}"]


async def check_run_has_one_end_if_a_plugin_crashes():
    async def crash(**_):
        raise RuntimeError("a bug")

    for callback in ("before_tool_callback", "after_model_callback", "before_run_callback"):
        room = Room([[DANGER], "done"], plugins=[Other(callback, crash)])
        try:
            await room.run()
        except RuntimeError as error:
            room.ran.append(str(error))

        assert "a bug" in room.ran[0], callback
        assert room.seen["runs"] == ["error"], callback


async def check_repeated_tool_is_judged():
    async def repeat(*, tool, tool_args, tool_context, **_):
        again = await tool.run_async(args=tool_args, tool_context=tool_context)
        return {"result": f"again {again}"}

    room = Room([[DANGER], "done"], REDACT, plugins=[Other("after_tool_callback", repeat)])
    await room.run()

    assert room.ran == ["x", "x"]
    assert room.read("c1") == f"again did x with {HIDDEN}"


async def check_second_bridge_is_refused():
    room = Room([[DANGER], "done"], DENY)
    room.plugins.append(GoogleADKBridge(components([REDACT])))
    try:
        await room.run()
    except ValueError as error:
        room.ran.append(str(error))

    assert room.ran == ["Plugin with name 'toolbus' already registered."]


async def check_tools_work_in_runners_without_a_bridge():
    guarded = Room([[DANGER], "done"], DENY)
    tools = [FunctionTool(guarded.tools[0])]
    guarded.agent.tools = tools
    await guarded.run()
    free = Room([[DANGER], "done"], tools=tools)
    free.plugins = []
    await free.run()

    assert guarded.ran == ["x"]
    assert REASON in guarded.read("c1")
    assert SECRET in free.read("c1")


async def check_runner_in_a_tool():
    for way in ("alone", "plugin"):
        room = Room([[["ask_helper", {"text": "a"}]], "done"], DENY)
        room.agent.tools = [helper_of(room, way)]
        await room.run()

        assert room.ran == (["x"] if way == "alone" else [])
        assert room.ends["c1"] == (1, "ok")


def helper_of(room, way):
    """Return a tool that makes a runner; it has the bridge of *room* in the *way* of a program."""

    async def ask_helper(text: str) -> str:
        """Ask a helper."""
        below = room.make([[DANGER], "done"], "helper", "s", tools=room.tools)
        runner = Runner(
            app_name=APP,
            agent=below,
            session_service=room.sessions,
            plugins=[room.bridge] if way == "plugin" else [],
        )
        await room.sessions.create_session(app_name=APP, user_id=USER, session_id="below")
        async with runner:
            options = {"user_id": USER, "session_id": "below", "new_message": prompt("look")}
            return str([event async for event in runner.run_async(**options)])

    return ask_helper


class Renaming(BaseToolset):
    """A toolset whose tools are copied with other names."""

    def __init__(self, tools):
        super().__init__(tool_name_prefix="my")
        self.made = [FunctionTool(tool) for tool in tools]

    async def get_tools(self, readonly_context=None):
        return self.made


async def check_renamed_tools_are_judged():
    turns = [["my_danger", {"text": "x"}], ["my_echo", {"text": "a"}]], "done"
    room = Room(turns * 2, {"deny": "my_danger"})
    room.agent.tools = [Renaming(room.tools)]
    for _ in range(2):
        await room.run()

    assert room.ran == ["a", "a"]
    assert room.ends["c1"] == (1, "denied")


# --- texts, results and runs ----------------------------------------------------------------------


class Answer(BaseModel):
    """An answer with a schema."""

    text: str


async def check_every_answer_is_judged():
    room = Room([], ANSWERS)
    schema = [["set_model_response", {"text": f"it is {SECRET}"}]], "done"
    agents = [
        room.make([f"first {SECRET}"], "first"),
        room.make(schema, "second", tools=room.tools, output_schema=Answer),
    ]
    room.agent = SequentialAgent(name="both", sub_agents=agents)
    await room.run()

    texts = [part.text for _, part in parts_of([event.content for event in room.events])]
    answers = [f"first {HIDDEN}", json.dumps({"text": f"it is {HIDDEN}"})]
    assert [text for text in texts if text] == answers
    assert room.seen["runs"] == ["ok"]


class Remote(BaseAgent):
    """An agent without a model."""

    async def _run_async_impl(self, ctx):
        content = types.Content(role="model", parts=[types.Part(text=f"far {SECRET}")])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


async def check_answers_that_no_model_gave_are_judged():
    async def answer(**_):
        return answer_of([types.Part(text=f"cached {SECRET}")])

    room = Room([], ANSWERS, plugins=[Other("before_model_callback", answer)])
    agents = [Remote(name="far"), room.make([], "near")]
    room.agent = SequentialAgent(name="both", sub_agents=agents)
    await room.run()

    assert room.shown.split("  ") == [f"far {HIDDEN} cached {HIDDEN}"]
    assert room.seen["runs"] == ["ok"]


class Asker(BaseAgent):
    """An agent whose result has the name of a question of the framework."""

    async def _run_async_impl(self, ctx):
        result = types.FunctionResponse(id="f1", name="adk_request_far", response={"far": SECRET})
        content = types.Content(role="user", parts=[types.Part(function_response=result)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


async def check_result_with_the_name_of_a_question_is_judged():
    room = Room([], REDACT, agent=Asker(name="far"))
    await room.run()

    assert room.read("f1") == HIDDEN


async def check_callbacks_of_the_model_get_what_handlers_left():
    def note(callback_context, llm_response):
        room.ran.append(llm_response.content.parts[0].text)

    room = Room([f"it is {SECRET}"], ANSWERS)
    room.agent.after_model_callback = note
    await room.run()

    assert room.ran == [f"it is {HIDDEN}"]


async def check_results_keep_their_forms():
    image = types.Part(inline_data=types.Blob(data=b"abc", mime_type="image/png"))
    answer = Answer(text=SECRET)
    results = {"a": [1, SECRET], "b": 1.5, "c": None, "d": {}, "e": image, "f": answer}

    def give(name: str):
        """Return a result."""
        return results[name]

    room = Room([[["give", {"name": name}] for name in results], "done"], REDACT, tools=[give])
    await room.run()

    responses = [one for event in room.events for one in event.get_function_responses()]
    read = [one.response for one in responses]
    assert read[:4] == [{"result": [1, HIDDEN]}, {"result": 1.5}, {"result": None}, {}]
    assert responses[4].parts[0].inline_data.mime_type == "image/png"
    assert read[5] == {"text": HIDDEN}


async def check_parts_of_a_prompt_stay():
    image = types.Part(inline_data=types.Blob(data=b"abc", mime_type="image/png"))
    room = Room(["done"], {"redact_prompt": "*"})
    parts = [types.Part(text=f"one {SECRET}"), image, types.Part(text="two")]
    await room.run(types.Content(role="user", parts=parts))
    session = await room.sessions.get_session(app_name=APP, user_id=USER, session_id="s1")

    stored = session.events[0].content.parts
    assert [part.text for part in stored] == [f"one {HIDDEN}\ntwo", None]
    assert stored[1].inline_data.data == b"abc"


class Pages(AgentComponent):
    """A component with a tool of its own."""

    @our_tool
    def read_page(self, number: int) -> str:
        """Read a page."""
        return f"page {number} with {SECRET}"


async def check_tools_of_components_are_offered():
    for tools in ([], None):
        room = Room([[["read_page", {"number": 2}]], "done"], REDACT, more=[Pages()], tools=tools)
        await room.run()

        assert room.seen["offered"]["read_page"] == "Read a page."
        assert (room.read("c1"), room.ends) == (f"page 2 with {HIDDEN}", {"c1": (1, "ok")})


async def check_cancelled_runs_have_ends():
    started = asyncio.Event()

    async def hang(text: str) -> str:
        """Wait for ever."""
        started.set()
        await asyncio.sleep(30)
        return text

    room = Room([[["hang", {"text": "a"}], ["hang", {"text": "b"}]], "done", "done"])
    room.agent.tools = [hang]
    running = asyncio.create_task(room.run())
    await started.wait()
    running.cancel()
    await asyncio.wait([running])
    del running
    gc.collect()
    await room.run(session="s2")

    assert room.ends == {"c1": (1, "cancelled"), "c2": (1, "cancelled")}
    assert room.seen["runs"] == ["cancelled", "ok"]


async def main():
    """Run all checks."""
    for name, check in [*globals().items()]:
        if name.startswith("check_") and inspect.iscoroutinefunction(check):
            await asyncio.wait_for(check(), 20)
            print(name)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
