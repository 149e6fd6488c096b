"""The scenarios of `specs/handlers.md`."""

import json
import os
import re
import runpy
from textwrap import dedent

import pytest

from toolbus.events import CATALOGUE

IMPORTS = """\
from toolbus import Agent, AgentComponent, EventBus, ToolCall, events, guard, on
from toolbus.models.scripted import ScriptedModel
"""
AGENT = """
ran = []
class Rules(AgentComponent):
    @guard(events.TOOL_CALL_BEFORE, priority=500)
    def judge(self, ctx):
        ran.append("Rules.judge")
    @on(events.TOOL_CALL_BEFORE, priority=7)
    def late(self, ctx):
        ran.append("Rules.late")
def early(ctx):
    ran.append("early")
agent = Agent(ScriptedModel([]), agent_id="anna", components=[Rules()])
agent.on(events.TOOL_CALL_BEFORE, early, priority=300)
"""
QUIET = """
class Quiet(AgentComponent):
    @on(events.RUN_AFTER)
    def look(self, ctx): ...
"""


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file of the person who runs the command."""

    def write_file(text, name="mine.py"):
        file = tmp_path / "here" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(IMPORTS + dedent(text))
        return file

    return write_file


@pytest.fixture
def listing(command):
    """Return a function that runs `toolbus handlers` and returns what it printed."""

    def run(*arguments):
        done = command("handlers", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@pytest.fixture
def refusal(command):
    """Return a function that runs `toolbus handlers` in vain and returns the line that says why."""

    def run(*arguments):
        done = command("handlers", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(r"error: .*\n", done.stderr)
        return done.stderr.removeprefix("error: ").removesuffix("\n")

    return run


async def test_handlers_are_in_running_order(write, listing):
    file = write(AGENT)

    text = listing("mine.py")
    loaded = runpy.run_path(str(file))
    agent, call = loaded["agent"], loaded["ToolCall"](id="c", name="x")
    await agent.bus.apply(loaded["events"].TOOL_CALL_BEFORE, call, scope=agent.scope)

    named = re.findall(r"(?:open|closed) +(early|Rules\.(?:judge|late))\b", text)
    assert named == loaded["ran"] == ["early", "Rules.late", "Rules.judge"]


async def test_a_line_describes_one_handler(write, listing):
    write("""
        bus = EventBus()
        @bus.guard(events.RUN_BEFORE, priority=12, on_error="raise")
        def judge(ctx): ...
    """)

    text = listing("mine.py")

    assert re.search(r"\n +12  guard +raise +judge +mine\.py:5\n", text)
    assert re.search(r"\nrun:before +apply\n", text)


async def test_a_handler_names_its_sender(write, listing):
    write("""
        bus = EventBus()
        bus.on(events.RUN_AFTER, lambda ctx: None, name="all")
        bus.on(events.RUN_AFTER, lambda ctx: None, name="one", sender="anna")
    """)

    text = listing("mine.py")

    assert re.search(r" all +scoped to every sender · mine\.py:5\n", text)
    assert re.search(r" one\s+scoped to agent anna and its sub-agents ·\s+mine\.py:6\n", text)


async def test_a_handler_names_its_tools_and_roles(write, listing):
    write("""
        bus = EventBus()
        bus.guard(events.TOOL_CALL_BEFORE, lambda ctx: None, name="judge", tools=["git_*", "run"])
        bus.guard(events.MESSAGE_APPEND_BEFORE, lambda ctx: None, name="grow",
            roles="assistant", incremental=True)
        bus.on(events.MESSAGE_APPEND_AFTER, lambda ctx: None, name="listen", roles="user")
    """)

    text, data = listing("mine.py"), json.loads(listing("mine.py", "--json"))

    assert re.search(r" judge +only git_\*, run · mine\.py:5\n", text)
    assert re.search(r" grow\s+only assistant messages · incremental ·\s+mine\.py:6\n", text)
    assert re.search(r" listen +only user messages · mine\.py:8\n", text)
    handlers = [handler for event in data["events"] for handler in event["handlers"]]
    assert [(each["tools"], each["roles"], each["incremental"]) for each in handlers] == [
        (["git_*", "run"], [], False),
        ([], ["assistant"], True),
        ([], ["user"], False),
    ]


async def test_handlers_of_one_agent_share_a_line(write, listing):
    write(AGENT)

    text = listing("mine.py")

    assert text.splitlines()[1] == "all scoped to agent anna and its sub-agents"
    assert text.count("scoped") == 1


async def test_adapters_are_listed_by_name(write, listing, command):
    write("""
        from toolbus import ToolAdapter
        class Fold(ToolAdapter):
            tools = ("read_*",)
            def adapt_response(self, response, call): ...
        class Undo(ToolAdapter):
            on_error = "open"
            def adapt_parameters(self, call): ...
            def adapt_response(self, response, call): ...
        class Folding(AgentComponent):
            def __init__(self):
                self.register_tool_adapter(Fold())
                self.register_tool_adapter(Undo())
        class Empty(AgentComponent): ...
        def all():
            return [Folding(), Empty(), Folding().restrict(tools="log")]
    """)

    text = listing("mine.py:all")
    document = json.loads(command("handlers", "mine.py:all", "--json").stdout)

    assert "_on_" not in text
    lines = {
        event["event"]: [(one["name"], one["tools"], one["policy"]) for one in event["handlers"]]
        for event in document["events"]
    }
    assert lines == {
        "tool:call:before": [("Undo", ["log"], "open"), ("Undo", [], "open")],
        "message:append:before": [
            *[("Fold", ["read_*"], "closed"), ("Undo", [], "open")],
            *[("Fold", ["read_*"], "closed"), ("Undo", ["log"], "open")],
        ],
    }
    assert re.search(r"203  transformer  open +Undo\s+only log · mine\.py:\d+\n", text)
    assert re.search(r" 50  transformer  closed +Fold\s+only read_\* · mine\.py:\d+\n", text)


async def test_plain_receivers_come_last(write, listing):
    write("""
        bus = EventBus()
        def strong(sender, ctx): ...
        def weak(sender, ctx): ...
        bus.signal(events.RUN_AFTER).connect(strong, weak=False)
        bus.signal(events.RUN_AFTER).connect(weak)
        bus.signal(events.RUN_BEFORE).connect(lambda sender, ctx: None)
        bus.on(events.RUN_AFTER, lambda ctx: None, name="ours")
    """)

    text = listing("mine.py")

    rows = re.findall(r"(\w+) +open +(\w+) +mine\.py:(\d+)\n", text)
    assert rows[0] == ("observer", "ours", "10")
    assert sorted(rows[1:]) == [("receiver", "strong", "5"), ("receiver", "weak", "6")]
    assert "run:before" not in text.partition("without handlers")[0]


async def test_idle_events_are_only_counted(write, listing):
    write(QUIET)

    text = listing("mine.py")

    above, _, below = text.partition(f"\n{len(CATALOGUE) - 1} events without handlers: ")
    assert re.findall(r"^[a-z:]+:[a-z]+ ", above, re.MULTILINE) == ["run:after "]
    idle = [event.name for event in CATALOGUE if event.name != "run:after"]
    assert below.split() == ", ".join(idle).split()


async def test_own_events_follow_the_catalogue(write, listing):
    write("""
        bus = EventBus()
        paid = events.ObserveEvent("invoice:paid", str, awaited=True)
        bus.on(paid, lambda ctx: None)
        bus.on(events.MESSAGE_APPEND_AFTER, lambda ctx: None)
    """)

    text = listing("mine.py")

    found = re.findall(r"^([a-z:]+) +(apply|do|observe)$", text, re.MULTILINE)
    assert found == [("message:append:after", "do"), ("invoice:paid", "observe")]


async def test_an_empty_bus_has_no_handlers(write, listing):
    write("bus = EventBus()")

    text = listing("mine.py")

    assert text.startswith("bus  mine.py:bus ")
    assert "0 handlers on 0 events\n" in text


async def test_lines_fit_eighty_columns(write, listing):
    write("""
        class ComponentOfAnEnterpriseWithALongName(AgentComponent):
            @on(events.TOOL_CALL_BEFORE)
            def rewrite_whatever_needs_rewriting(self, ctx): ...
    """)

    text = listing("mine.py")

    assert max(map(len, text.splitlines())) <= 80
    place = " " * 71 + "mine.py:5"
    assert f"open    ComponentOfAnEnterpriseWithALongName.rewrite_whatev…\n{place}\n" in text


async def test_json_has_the_same_content(tmp_path, command, write):
    write(f"print('hello')\n{QUIET}")

    done, text = command("handlers", "mine.py", "--json"), command("handlers", "mine.py").stdout

    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "hello\n")
    assert (document["target"], document["kind"]) == ("mine.py:Quiet()", "component")
    names = [event["event"] for event in document["events"]]
    assert [*names, *document["idle"]] == [
        name for name in re.findall(r"[a-z:]+:[a-z]+(?=[ ,\n]|$)", text) if "py" not in name
    ]
    look = next(event for event in document["events"] if event["event"] == "run:after")
    (handler,) = look["handlers"]
    where = f"{tmp_path}/here/mine.py:6"
    assert handler | {"sender": "agent"} == handler
    assert (handler["name"], handler["kind"], handler["where"]) == ("Quiet.look", "observer", where)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (AGENT, "agent  mine.py:agent "),
        ("bus = EventBus()", "bus  mine.py:bus "),
        (f"{QUIET}\nquiet = same = Quiet()", "component  mine.py:quiet "),
        (QUIET, "component  mine.py:Quiet() "),
    ],
)
async def test_the_only_agent_is_found(write, listing, text, found):
    write(text)

    assert listing("mine.py").startswith(found)


async def test_an_agent_takes_precedence_over_components(write, listing):
    write(f"{QUIET}\nbus = EventBus()\nagent = Agent(ScriptedModel([]), bus=bus)")

    assert listing("mine.py").startswith("agent  mine.py:agent ")


async def test_a_name_chooses_one_of_several(write, listing):
    write(f"{AGENT}\nother = Agent(ScriptedModel([]))\n")

    assert " early " in listing("mine.py:agent")
    assert "0 handlers" in listing("mine.py:other")


async def test_a_function_s_result_is_shown(write, listing):
    write(f"{AGENT}{QUIET}\ndef make(): return agent\ndef two(): return [Quiet(), Rules()]\n")

    one, two = listing("mine.py:make"), listing("mine.py:two")

    assert one.startswith("agent  mine.py:make() ")
    assert " early " in one
    assert two.startswith("components  mine.py:two() ")
    assert "Quiet.look " in two
    assert "Rules.judge " in two


async def test_a_file_in_a_package_is_imported(write, listing):
    write("", "shop/__init__.py")
    write(AGENT, "shop/rules.py")
    write("from .rules import agent", "shop/main.py")

    text = listing(f"shop{os.sep}main.py")

    assert text.startswith("agent  shop/main.py:agent ")
    assert " shop/rules.py:12\n" in text


async def test_a_missing_file_is_named(tmp_path, refusal):
    (tmp_path / "here/notes.txt").write_text("")

    assert refusal("no.py") == "there is no file 'no.py'; give FILE.py[:name]"
    assert refusal("no.py:agent") == "there is no file 'no.py'; give FILE.py[:name]"
    foreign = r"C:\x\policy.py"
    assert refusal(foreign) == f"there is no file {foreign!r}; give FILE.py[:name]"
    assert refusal(".") == ". is a folder; give FILE.py[:name]"
    assert refusal("notes.txt") == "notes.txt is not a Python file; give FILE.py[:name]"


async def test_a_syntax_error_names_its_line(write, refusal):
    file = write("def (:")

    assert refusal("mine.py") == f"{file}:3: SyntaxError: invalid syntax"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x = 1\n1 / 0", "mine.py:4: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "mine.py:3: SystemExit: 3"),
        ("raise ValueError", "mine.py:3: ValueError"),
        (
            "import nowhere_at_all",
            "mine.py:3: ModuleNotFoundError: No module named 'nowhere_at_all'",
        ),
    ],
)
async def test_a_failing_file_names_its_line(write, refusal, text, error):
    write(text)

    assert refusal("mine.py") == error


async def test_a_missing_name_names_the_nearest(write, refusal):
    write(AGENT)

    assert refusal("mine.py:agnet") == "mine.py has no 'agnet'; did you mean 'agent'?"
    assert refusal("mine.py:zzzzzz") == "mine.py has no 'zzzzzz'; known: agent"


async def test_several_candidates_are_listed(write, refusal):
    write(f"{AGENT}\nother = Agent(ScriptedModel([]))\n")

    assert refusal("mine.py") == "mine.py has several; give mine.py:NAME, one of agent, other"


async def test_a_file_without_handlers_is_refused(write, refusal):
    write("x = 1")

    reason = "mine.py has no agent, bus or component; "
    assert refusal("mine.py").startswith(reason)
    assert refusal("mine.py:zzzz").startswith("mine.py has no 'zzzz'")


@pytest.mark.parametrize(
    ("name", "what"),
    [("number", "'int'"), ("events", "'module'"), ("nothing", "'list'"), ("text", "'str'")],
)
async def test_a_wrong_type_is_named(write, refusal, name, what):
    write("number = 1\nnothing = []\ndef text(): return ''\n")

    line = refusal(f"mine.py:{name}")

    assert re.fullmatch(
        rf"mine\.py:{name}(\(\))? is not an agent, bus or component, but {what}", line
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Needs", "(): missing a required argument: 'size'; give a function without arguments"),
        ("fails", "() raised ValueError: no luck"),
        ("later", "() is async; give a sync function"),
        ("Broken", "() cannot be installed: OSError: no room"),
    ],
)
async def test_an_object_that_cannot_be_created_is_refused(write, refusal, name, why):
    write("""
        class Needs(AgentComponent):
            def __init__(self, size): ...
        def fails(): raise ValueError("no luck")
        async def later(): ...
        class Broken(AgentComponent):
            def setup(self, agent): raise OSError("no room")
    """)

    assert f"mine.py:{name}{why}" in refusal(f"mine.py:{name}")
