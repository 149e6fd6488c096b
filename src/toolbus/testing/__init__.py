r"""Test your handlers: how to write an adapter, test it, and ship it as a package.

What is here: `check_adapter`, `check_guard` and `check_handler` hunt for a case in which yours
breaks a law; `strategies` draws whatever handlers meet; `assert_denied`, `assert_allowed` and
`assert_unchanged` say what was; `Recorder`, `FakeClock` and `counting_ids` make a run repeatable;
`ledger_text` is a ledger as text. In pytest there are the fixtures `bus` and `ledger_snapshot`
(`pytest --fixtures`).
Strategies and checks need `toolbus[testing]`, which is hypothesis.

WRITE IT. An adapter changes what the model is told of a tool (`adapt_signature`), the arguments
of a call (`adapt_parameters`) or a result (`adapt_response`); write what you need of the three. A
component makes it installable. `acme_tidy.py`:

    # Fold lines that repeat, as those of a log do.
    from itertools import groupby

    from toolbus import AgentComponent, ToolAdapter, ToolCall, ToolResponse


    class Fold(ToolAdapter):
        tools = ("read_*",)

        def __init__(self, least: int = 3) -> None:
            self.least = least

        def adapt_response(self, response: ToolResponse, call: ToolCall) -> ToolResponse:
            return response.map_text(self.folded)

        def folded(self, text: str) -> str:
            runs = [(line, len(list(run))) for line, run in groupby(text.split("\n"))]
            few = [[f"{line} ({n} times)"] if n >= self.least else [line] * n for line, n in runs]
            return "\n".join([line for lines in few for line in lines])


    class Tidy(AgentComponent):
        def __init__(self, least: int = 3) -> None:
            self.register_tool_adapter(Fold(least))

TEST IT. The checks send hundreds of cases past it, friendly and hostile ones, and show the
smallest that breaks a law; the rest says what it is for. `test_acme_tidy.py`:

    from acme_tidy import Fold, Tidy

    from toolbus import Agent, AssistantMessage, ToolCall, ToolResponse
    from toolbus.models.scripted import ScriptedModel
    from toolbus.testing import assert_unchanged, check_adapter

    CALL = ToolCall(id="c", name="read_log", arguments={"path": "/etc"})

    def test_it_keeps_the_laws():
        check_adapter(Tidy(), limit=30)

    def test_what_repeats_is_folded():
        response = ToolResponse.from_text("up\nok\nok\nok")
        assert Fold().adapt_response(response, CALL).text == "up\nok (3 times)"

    def test_other_lines_stay():
        response = ToolResponse.from_text("up\nok\nok")
        assert_unchanged(response, Fold().adapt_response(response, CALL))

    def test_the_ledger_names_it(ledger_snapshot):
        def read_log(path: str) -> str:
            return "ok\n" * 5

        model = ScriptedModel([AssistantMessage(id="m", tool_calls=(CALL,)), "seen"])
        agent = Agent(model, tools=[read_log], components=[Tidy()])
        agent.run_sync("look")
        ledger_snapshot(agent.ledger)

A guard is tested in the same way, here on a bus of its own; a handler of another event with that
first, as it is subscribed: `check_handler(EVENT, handler)`. `test_guard.py`:

    from toolbus import Deny, ToolCall
    from toolbus.events.catalogue import TOOL_CALL_BEFORE
    from toolbus.testing import assert_denied, check_guard

    def inside_only(ctx):
        path = str(ctx.value.arguments.get("path", ""))  # a model may forget it
        return Deny("only inside the project") if path.startswith("/") else None

    def test_it_keeps_the_laws():
        check_guard(inside_only)

    def test_the_system_is_out_of_bounds(bus):
        bus.guard(TOOL_CALL_BEFORE, inside_only)
        call = ToolCall(id="c", name="read_log", arguments={"path": "/etc"})
        assert_denied(bus.apply_sync(TOOL_CALL_BEFORE, call), "inside the project")

Run `pytest --toolbus-update` once, look at the file that it wrote below `snapshots`, and commit it
with the tests; from then on `pytest` compares.

SHIP IT. A package offers components by an entry point. `pyproject.toml`:

    [build-system]
    requires = ["hatchling"]
    build-backend = "hatchling.build"

    [project]
    name = "acme-tidy"
    version = "1.0"
    dependencies = ["toolbus"]

    [project.optional-dependencies]
    test = ["pytest", "toolbus[testing]"]

    [project.entry-points."toolbus.components"]
    tidy = "acme_tidy:Tidy"

    [tool.hatch.build.targets.wheel]
    only-include = ["acme_tidy.py"]

Whoever has installed it names it, with settings that are checked against the constructor; `toolbus
wiring` shows what that installs. `toolbus.toml`:

    [[component]]
    use = "tidy"
    settings = { least = 2 }
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolbus.errors import LawBroken as LawBroken
    from toolbus.testing.assertions import assert_allowed as assert_allowed
    from toolbus.testing.assertions import assert_denied as assert_denied
    from toolbus.testing.assertions import assert_unchanged as assert_unchanged
    from toolbus.testing.checks import check_adapter as check_adapter
    from toolbus.testing.checks import check_guard as check_guard
    from toolbus.testing.checks import check_handler as check_handler
    from toolbus.testing.fakes import FakeClock as FakeClock
    from toolbus.testing.fakes import counting_ids as counting_ids
    from toolbus.testing.ledgers import LedgerSnapshot as LedgerSnapshot
    from toolbus.testing.ledgers import ledger_text as ledger_text
    from toolbus.testing.recorder import Recorder as Recorder

_FACE = {
    "FakeClock": "toolbus.testing.fakes",
    "LawBroken": "toolbus.errors",
    "LedgerSnapshot": "toolbus.testing.ledgers",
    "Recorder": "toolbus.testing.recorder",
    "assert_allowed": "toolbus.testing.assertions",
    "assert_denied": "toolbus.testing.assertions",
    "assert_unchanged": "toolbus.testing.assertions",
    "check_adapter": "toolbus.testing.checks",
    "check_guard": "toolbus.testing.checks",
    "check_handler": "toolbus.testing.checks",
    "counting_ids": "toolbus.testing.fakes",
    "ledger_text": "toolbus.testing.ledgers",
}

__all__ = [
    "FakeClock",
    "LawBroken",
    "LedgerSnapshot",
    "Recorder",
    "assert_allowed",
    "assert_denied",
    "assert_unchanged",
    "check_adapter",
    "check_guard",
    "check_handler",
    "counting_ids",
    "ledger_text",
]


def __getattr__(name: str) -> Any:
    # Lazy, so that a clock costs no hypothesis.
    if name not in _FACE:
        msg = f"module 'toolbus.testing' has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(_FACE[name]), name)
    return value


def __dir__() -> list[str]:
    # Only what can be had: `pydoc` asks for each of these, and shall work without the extra.
    whole = find_spec("hypothesis") is not None
    return [name for name in __all__ if whole or _FACE[name] != "toolbus.testing.checks"]
