"""Chains of adapters, however they are spread over components, equal a model of ten lines."""

from types import SimpleNamespace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolbus.bus.bus import EventBus
from toolbus.components.adapters import ToolAdapter
from toolbus.components.components import AgentComponent
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    Scope,
    ToolSpec,
)
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse
from toolbus.testing.recorder import Recorder
from toolbus.tools.toolset import Toolset

SCOPE = Scope(agent_id="main")
WITHHELD = "the result was withheld: adapter {!r} raised an error"


class Kind(NamedTuple):
    """What an adapter does, whatever it is asked."""

    does: str
    priority: int
    is_async: bool


class Drawn(ToolAdapter):
    """Leaves its name on all that passes, or fails, as it was drawn."""

    def __init__(self, name: str, kind: Kind) -> None:
        self.name, self.does, self.is_async = name, kind.does, kind.is_async
        self.priority, self.tools = kind.priority, "other" if kind.does == "other" else "*"
        self.on_error = "open" if kind.does == "fail open" else "closed"

    def adapt_signature(self, spec):
        return self._do(lambda: replace(spec, description=spec.description + self.name))

    def adapt_parameters(self, call):
        return self._do(lambda: call.with_arguments({"names": call.arguments["names"] + self.name}))

    def adapt_response(self, response, call):
        return self._do(lambda: response.with_text(response.text + self.name))

    def _do(self, change):
        async def later():
            return self._now(change)

        return later() if self.is_async else self._now(change)

    def _now(self, change):
        if self.does.startswith("fail"):
            raise OSError
        return change() if self.does == "change" else None


def pass_by(adapters: list[Drawn], failed: str | None) -> tuple[str | None, list[str]]:
    """The model: return what is left of "", and who had a hand in it; *failed* ends or words it."""
    left, seen = "", []
    for one in adapters:
        if one.does != "other":
            seen.append(one.name)
        if one.does == "fail closed":
            if failed is None:
                return None, seen
            left = failed.format(one.name)
        left += one.name if one.does == "change" else ""
    return left, seen


kinds = st.builds(
    Kind,
    st.sampled_from(["change", "change", "change", "idle", "other", "fail open", "fail closed"]),
    st.integers(99, 101),
    st.booleans(),
)


@given(st.lists(st.lists(kinds, max_size=3), min_size=1, max_size=4))
async def test_a_chain_equals_its_model(layers):
    bus, chain, names = EventBus(), [], iter("abcdefghijklmnop")
    spec, call = ToolSpec(name="read"), ToolCall(id="c", name="read", arguments={"names": ""})
    response = ToolResponse.from_text("")
    message = ToolMessage(id="m", tool_call_id="c", tool_name="read", tool_response=response)
    for layer in layers:
        component = AgentComponent()
        for kind in layer:
            component.register_tool_adapter(Drawn(next(names), kind))
        component.setup(SimpleNamespace(bus=bus, tools=Toolset(), scope=SCOPE))
        chain += component.adapters

    with Recorder(bus) as recorder:
        told = (await bus.apply(TOOLS_PROVIDE, (spec,), scope=SCOPE)).value
        judged = await bus.apply(TOOL_CALL_BEFORE, call, scope=SCOPE)
        read = (await bus.apply(MESSAGE_APPEND_BEFORE, message, scope=SCOPE)).value

    parameters = None if judged.denied else judged.value.arguments["names"]
    entries = [
        [one.name for one in record.entries if len(one.name) == 1] for record in recorder.records
    ]
    models = pass_by(chain, None), pass_by(chain[::-1], None), pass_by(chain, WITHHELD)
    assert (told[0].description if told else None, entries[0]) == models[0]
    assert (parameters, entries[1]) == models[1]
    assert (read.text, entries[2]) == models[2]
