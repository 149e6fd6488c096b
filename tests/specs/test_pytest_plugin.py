"""The scenarios of `specs/pytest_plugin.md`."""

import re

import pytest

from toolbus import Agent, AssistantMessage, Deny, ToolCall
from toolbus.events import TOOL_CALL_BEFORE
from toolbus.models.scripted import ScriptedModel
from toolbus.testing.ledger_snapshot import ledger_text

pytestmark = pytest.mark.full  # Each test is a run of pytest.

HEAD = """
import asyncio, pytest, sys
from toolbus import Deny, ToolCall
from toolbus.errors import ClosedError
from toolbus.events.catalogue import RUN_AFTER, TOOL_CALL_BEFORE, RunResult
from toolbus.testing import assert_denied, assert_unchanged
CALL = ToolCall(id="c", name="read", arguments={"path": "/etc"})

def refuse(ctx):
    return Deny("not there")

def broken(ctx):
    raise ValueError("spoilt")

"""
AGENT = """
from toolbus import Agent, AssistantMessage
from toolbus.models.scripted import ScriptedModel

def normalise(ctx):
    return ctx.value.merge_arguments({"path": "etc"})

async def read(path: str) -> str:
    return path

def agent():
    model = ScriptedModel([AssistantMessage(id="m", tool_calls=(CALL,)), "done"])
    return Agent(model, tools=[read])

"""


@pytest.fixture
def run(pytester):
    """Give a function that runs the tests in *text* with the plugin, in a process of its own."""

    def run(text, *options, name="test_it"):
        pytester.makepyfile(**{name: HEAD + text})
        plugins = ("-p", "toolbus_pytest", "-p", "no:cacheprovider", "-W", "error")
        return pytester.runpytest_subprocess(*plugins, "--strict-markers", *options)

    return run


def test_a_test_gets_a_bus(run):
    text = """
def test_it(bus):
    global used
    used = bus
    bus.guard(TOOL_CALL_BEFORE, refuse)
    assert_denied(bus.apply_sync(TOOL_CALL_BEFORE, CALL), "not there")

def test_after():
    async def late(ctx): ...
    used.on(RUN_AFTER, late)
    async def main():
        with pytest.raises(ClosedError):
            used.do(RUN_AFTER, RunResult(status="ok"))
    asyncio.run(main())
"""

    result = run(text)

    result.assert_outcomes(passed=2)


def test_a_handler_s_failure_fails_the_test(run):
    text = """
def test_transformer(bus):
    bus.on(TOOL_CALL_BEFORE, broken)
    bus.apply_sync(TOOL_CALL_BEFORE, CALL)

def test_guard(bus):
    bus.guard(TOOL_CALL_BEFORE, broken, name="judge")
    assert_denied(bus.apply_sync(TOOL_CALL_BEFORE, CALL))

def test_observer(bus):
    bus.on(RUN_AFTER, broken)
    bus.do(RUN_AFTER, RunResult(status="ok"))
"""

    result = run(text)

    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "handler 'broken' of 'tool:call:before': *raised an error",
            "handler 'judge' of 'tool:call:before': *raised an error",
            "handler 'broken' of 'run:after': raised an error",
            "if this is intended, mark the test with `pytest.mark.handler_failures(…)`",
        ]
    )


def test_a_late_failure_counts(run):
    text = """
async def slow(ctx):
    await asyncio.sleep(0)
    raise ValueError("spoilt")

def test_it(bus):
    bus.on(RUN_AFTER, slow)
    async def main():
        bus.do(RUN_AFTER, RunResult(status="ok"))
        await bus.drain()
    asyncio.run(main())

def test_cut_off(bus):
    bus.on(RUN_AFTER, slow)
    async def main():
        bus.do(RUN_AFTER, RunResult(status="ok"))
    asyncio.run(main())
"""

    result = run(text)

    result.assert_outcomes(failed=2)
    said = [
        "handler 'slow' of 'run:after': raised an error",
        "*",
        "handler 'slow' of *: was cut off*",
    ]
    result.stdout.fnmatch_lines(said)


def test_a_failure_can_be_expected(run):
    text = """
def fails(bus):
    bus.on(TOOL_CALL_BEFORE, broken)
    bus.apply_sync(TOOL_CALL_BEFORE, CALL)

@pytest.mark.handler_failures("broken")
def test_named(bus):
    fails(bus)

@pytest.mark.handler_failures
def test_any(bus):
    fails(bus)

@pytest.mark.handler_failures("another")
def test_other(bus):
    fails(bus)
"""

    result = run(text)

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_other*"])


def test_a_failing_test_shows_its_own_error(run):
    text = """
def test_it(bus):
    bus.on(TOOL_CALL_BEFORE, broken)
    bus.apply_sync(TOOL_CALL_BEFORE, CALL)
    assert CALL.name == "write"
"""

    result = run(text)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: assert 'read' == 'write'*"])
    result.stdout.no_fnmatch_line("*handler_failures*")


KEEPING = (
    AGENT
    + """
def test_it(ledger_snapshot):
    one = agent()
    one.on(TOOL_CALL_BEFORE, normalise)
    # here
    one.run_sync("go")
    ledger_snapshot(one.ledger)
"""
)
KEPT = """\
tool:call:before: changed
  ~ normalise  transformer   100  changed arguments
"""


def test_a_snapshot_is_written_on_request(run, pytester):
    text = KEEPING

    first, second = run(text, "--toolbus-update"), run(text)

    first.assert_outcomes(passed=1)
    second.assert_outcomes(passed=1)
    kept = pytester.path / "snapshots/test_it/test_it.txt"
    assert kept.read_text("utf-8") == KEPT


def test_a_missing_snapshot_fails(run):
    text = KEEPING

    result = run(text)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*review this ledger and run `pytest --toolbus-update`*"])
    result.stdout.fnmatch_lines(["*~ normalise  transformer   100  changed arguments"])


def test_a_difference_is_shown(run):
    text = KEEPING
    run(text, "--toolbus-update")

    result = run(text.replace("# here", "one.guard(TOOL_CALL_BEFORE, refuse)"))

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*-tool:call:before: changed",
            "*+tool:call:before: denied",
            "*+      not there",
            "*+  ✗ refuse     guard         100  denied",
        ]
    )


def test_each_snapshot_has_its_file(run, pytester):
    text = """
@pytest.mark.parametrize("path", ["a/b", "c"])
def test_it(path, ledger_snapshot):
    ledger_snapshot([])
    ledger_snapshot([])
"""

    result = run(text, "--toolbus-update")

    result.assert_outcomes(passed=2)
    names = sorted(one.name for one in pytester.path.glob("snapshots/test_it/*"))
    assert names == [
        "test_it-a-b-2.txt",
        "test_it-a-b.txt",
        "test_it-c-2.txt",
        "test_it-c.txt",
    ]


def test_the_text_is_stable_and_readable():
    def ledger():
        def normalise(ctx):
            return ctx.value.merge_arguments({"path": ctx.value.arguments["path"].lower()})

        def broken(ctx):
            raise ValueError("spoilt")

        def inside_only(ctx):
            return Deny("only inside\nthe project") if ctx.value.name == "read" else None

        call = ToolCall(id="1f", name="helper", arguments={"prompt": "look"})
        below = ToolCall(id="2f", name="read", arguments={"path": "/ETC"})
        main = Agent(ScriptedModel([AssistantMessage(id="a", tool_calls=(call,)), "done"]))
        model = ScriptedModel([AssistantMessage(id="b", tool_calls=(below,)), "no"])
        main = Agent(
            ScriptedModel([AssistantMessage(id="a", tool_calls=(call,)), "done"]),
            tools=[Agent(model, tools=[read], bus=main.bus).as_tool("helper")],
            bus=main.bus,
        )
        records = []
        main.bus.tap(records.append, idle=False)
        main.bus.on(TOOL_CALL_BEFORE, normalise, when=lambda ctx: ctx.value.name == "read")
        main.bus.on(TOOL_CALL_BEFORE, broken)
        main.bus.guard(TOOL_CALL_BEFORE, inside_only)
        main.run_sync("go")
        return records

    first, second = [ledger_text(ledger()) for _ in range(2)]

    assert first == second
    assert first == (
        "tool:call:before: unchanged\n"
        "  · normalise    transformer   100  skipped\n"
        "  ! broken       transformer   100  failed\n"
        "      raised an error\n"
        "    inside_only  guard         100  ran\n"
        "tool:call:before: denied (sub-agent, 1 deep)\n"
        "      only inside\n"
        "      the project\n"
        "  ~ normalise    transformer   100  changed arguments\n"
        "  ! broken       transformer   100  failed\n"
        "      raised an error\n"
        "  ✗ inside_only  guard         100  denied"
    )
    assert not re.search(r"[0-9a-f]{8}|µs|1f|2f", first)


async def read(path: str) -> str:
    return path


def test_an_unused_plugin_imports_nothing(pytester):
    text = """
import sys

def test_it():
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert "toolbus_pytest" in loaded
    assert not {"toolbus", "hypothesis", "asyncio.runners"} & loaded
"""
    pytester.makepyfile(text)

    result = pytester.runpytest_subprocess("-p", "toolbus_pytest", "-p", "no:hypothesispytest")

    result.assert_outcomes(passed=1)


def test_a_bus_needs_no_hypothesis(run):
    text = """
sys.modules["hypothesis"] = None

def test_it(bus, ledger_snapshot):
    bus.guard(TOOL_CALL_BEFORE, refuse)
    assert_denied(bus.apply_sync(TOOL_CALL_BEFORE, CALL))
    assert_unchanged(CALL, None)
    ledger_snapshot([])
"""

    result = run(text, "--toolbus-update", "-p", "no:hypothesispytest")

    result.assert_outcomes(passed=1)
