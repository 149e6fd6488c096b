"""Adapters one by one, and chains of them beside a model of ten lines."""

import asyncio
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolbus.bus.bus import EventBus
from toolbus.bus.dispatch.contexts import EventContext
from toolbus.components import chains
from toolbus.components.adapters import ToolAdapter
from toolbus.components.chains import AdapterChain, AdapterResult, BoundAdapter
from toolbus.components.components import AgentComponent
from toolbus.errors import DeadlineError, DispatchDepthError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    Scope,
    ToolSpec,
)
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse
from toolbus.testing.fakes import Recorder
from toolbus.tools.toolset import Toolset

CALL = ToolCall(id="c", name="read", arguments={"path": "a"})
RESPONSE = ToolResponse.from_text("hot")
MESSAGE = ToolMessage(id="m", tool_call_id="c", tool_name="read", tool_response=RESPONSE)


class Says(ToolAdapter):
    """Gives back or raises *result*, whatever it gets."""

    def __init__(self, result, on_error="closed"):
        self.result, self.on_error, self.asked = result, on_error, 0

    def adapt_signature(self, spec):
        return self._say(spec)

    def adapt_parameters(self, call):
        return self._say(call)

    def adapt_response(self, response, call):
        return self._say(response)

    def _say(self, value):
        self.asked += 1
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result(value) if callable(self.result) else self.result


async def parameters(adapter):
    ctx = EventContext(TOOL_CALL_BEFORE, CALL)
    return await BoundAdapter(adapter).run(ctx, "adapt_parameters", CALL.name, CALL)


async def signature(adapter, spec):
    ctx = EventContext(TOOLS_PROVIDE, (spec,))
    return await BoundAdapter(adapter).run(ctx, "adapt_signature", spec.name, spec)


async def adapted(adapter):
    """Return the message that *adapter* leaves, and what it said of that."""
    ctx = EventContext(MESSAGE_APPEND_BEFORE, MESSAGE)
    message = await AdapterChain([BoundAdapter(adapter)]).adapt_message(ctx, MESSAGE, RESPONSE)
    return message, ctx.steps


async def test_an_adapter_of_other_tools_is_not_asked():
    adapter = Says(CALL.with_arguments({}))
    adapter.tools = "write"

    assert await parameters(adapter) == AdapterResult(CALL, applies=False)
    assert adapter.asked == 0


async def test_a_change_is_told_by_its_encoding():
    same, other = Says(replace), Says(lambda call: call.with_arguments({}))

    assert (await parameters(same)).value is CALL
    assert await parameters(other) == AdapterResult(CALL.with_arguments({}))


async def test_a_failure_tells_operators_more_than_the_model():
    done = await parameters(Says(ValueError("secret")))

    assert (done.value, done.applies, done.failed) == (CALL, True, "raised an error")
    assert done.detail.startswith(f"ValueError: secret at {__file__}:")
    assert done.withhold


@pytest.mark.parametrize(("policy", "withholds"), [("open", False), ("closed", True), ("no", True)])
async def test_only_open_lets_a_failure_pass(policy, withholds):
    assert (await parameters(Says(ValueError(), policy))).withhold is withholds


async def test_a_contract_broken_has_no_place():
    done = await parameters(Says("text"))

    assert done.failed == "returned `str` instead of `ToolCall`"
    assert done.detail == (
        "HandlerContractError: handler 'Says' of 'tool:call:before' "
        "returned `str` instead of `ToolCall`"
    )


async def test_time_that_is_up_is_said_so():
    assert (await parameters(Says(DeadlineError(3)))).failed == "timed out after 3 s"


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt])
async def test_what_is_no_failure_passes(error):
    with pytest.raises(error):
        await parameters(Says(error(), "open"))


@pytest.mark.parametrize("waits", [False, True])
async def test_endless_dispatch_passes_sync_and_async(waits):
    async def later(call):
        raise DispatchDepthError("tool:call:before", 16)

    says = later if waits else DispatchDepthError("tool:call:before", 16)
    with pytest.raises(DispatchDepthError):
        await parameters(Says(says))


async def test_an_async_failure_is_told_as_any_other():
    async def later(call):
        raise DeadlineError(3)

    done = await parameters(Says(later))

    assert (done.value, done.failed, done.withhold) == (CALL, "timed out after 3 s", True)


async def test_a_message_keeps_all_but_its_response():
    message, (step,) = await adapted(Says(lambda response: response.with_text("cold")))

    assert message == MESSAGE.with_tool_response(RESPONSE.with_text("cold"))
    assert (step.before, step.after) == (MESSAGE, message)


async def test_an_unchanged_message_is_the_same():
    message, _ = await adapted(Says(None))

    assert message is MESSAGE


async def test_a_failed_open_message_is_the_same():
    message, (step,) = await adapted(Says(ValueError("x"), "open"))

    assert message is MESSAGE
    assert step.failed == "raised an error"
    assert step.detail.startswith("ValueError: x at ")


async def test_an_adapter_of_other_tools_leaves_a_message():
    adapter = Says(RESPONSE.with_text("cold"))
    adapter.tools = ()

    message, steps = await adapted(adapter)

    assert (message, steps) == (MESSAGE, ())


async def test_an_output_schema_is_asked_for_only_if_there_is_one():
    adapter = Says(lambda spec: replace(spec, output_schema={"type": "array"}))
    bare = ToolSpec(name="read")
    spec = replace(bare, output_schema={"type": "object"})
    bound, ctx = BoundAdapter(adapter), EventContext(MESSAGE_APPEND_BEFORE, MESSAGE)

    advertised = [await bound.advertised(ctx, one) for one in (None, bare, spec)]

    assert advertised == [None, bare, replace(spec, output_schema={"type": "array"})]
    assert adapter.asked == 1


async def test_a_signature_that_fails_advertises_nothing():
    spec = ToolSpec(name="read", output_schema={"type": "object"})
    ctx = EventContext(MESSAGE_APPEND_BEFORE, MESSAGE)

    assert await BoundAdapter(Says(ValueError())).advertised(ctx, spec) is spec


async def test_what_a_model_was_told_is_advertised():
    adapter = Says(lambda spec: replace(spec, output_schema={"type": "array"}))
    bare, spec, other = [
        ToolSpec(name="read", output_schema=schema)
        for schema in (None, {"type": "object"}, {"type": "object"})
    ]
    failed = AdapterResult(spec, failed="failed")
    done = AdapterResult(replace(spec, output_schema={"type": "array"}))
    bound, ctx = BoundAdapter(adapter), EventContext(MESSAGE_APPEND_BEFORE, MESSAGE)

    bound.advertise((bare, spec), (AdapterResult(bare), done))

    assert await bound.advertised(ctx, replace(spec, description="sound")) is done.value
    assert adapter.asked == 0
    # Of another tool of that name it was told nothing, nor by an adapter that failed.
    assert await bound.advertised(ctx, other) == done.value
    assert adapter.asked == 1
    bound.advertise((spec,), (failed,))
    assert await bound.advertised(ctx, spec) == done.value
    assert adapter.asked == 2


async def test_a_log_line_names_event_and_adapter(caplog):
    await adapted(Says(ValueError("secret"), "open"))

    (record,) = caplog.records
    assert (record.event, record.handler) == ("message:append:before", "Says")
    assert record.exc_info[0] is ValueError


async def test_a_schema_is_judged_once():
    known = chains._flaw.cache_info()
    schema = {"type": "object", "properties": {"judged once": {"type": "string"}}}
    adapter = Says(lambda spec: replace(spec, input_schema=schema))
    spec = ToolSpec(name="read")

    for _ in range(3):
        done = await signature(adapter, spec)
        assert done.value.input_schema == schema

    assert chains._flaw.cache_info().misses - known.misses == 1


async def test_a_schema_that_stays_is_not_judged():
    known = chains._flaw.cache_info()
    spec = ToolSpec(
        name="read", input_schema={"never": "looked at"}, output_schema={"type": "array"}
    )
    adapter = Says(lambda spec: replace(spec, description="reads"))

    done = await signature(adapter, spec)

    assert done.value.description == "reads"
    assert chains._flaw.cache_info() == known


async def test_schemas_that_look_alike_are_judged_apart():
    failed = []
    for size in (1, True, 1.5):
        adapter = Says(lambda spec, size=size: replace(spec, input_schema={"minItems": size}))
        done = await signature(adapter, ToolSpec(name="read"))
        failed.append(done.failed and done.failed.partition(":")[0])

    assert failed == [None, "returned a malformed schema", "returned a malformed schema"]


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
