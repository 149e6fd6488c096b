"""What happens behind the doors of `toolbus.components.running`."""

import asyncio

import pytest
from msgspec.structs import replace

from toolbus.components import running
from toolbus.components.adapters import ToolAdapter
from toolbus.components.running import Done, answered_call, left, promised, promises, run_adapter
from toolbus.errors import DeadlineError, DispatchDepthError
from toolbus.events.catalogue import (
    MESSAGE_APPEND_BEFORE,
    TOOL_CALL_BEFORE,
    TOOLS_PROVIDE,
    ToolSpec,
)
from toolbus.messages.records import ToolCall, ToolMessage, ToolResponse

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


async def adapt_message(adapter, message, response):
    method, call = adapter.adapt_response, answered_call(message, response)
    done = await run_adapter(adapter, MESSAGE_APPEND_BEFORE, call.name, method, response, call)
    return replace(done, value=left(adapter, message, done))


async def parameters(adapter, tool_name="read"):
    return await run_adapter(adapter, TOOL_CALL_BEFORE, tool_name, adapter.adapt_parameters, CALL)


async def test_an_unconcerned_adapter_is_not_asked():
    adapter = Says(CALL.with_arguments({}))
    adapter.tools = "write"

    assert await parameters(adapter) == Done(CALL, concerned=False)
    assert adapter.asked == 0


async def test_a_change_is_told_by_its_encoding():
    same, other = Says(replace), Says(lambda call: call.with_arguments({}))

    assert (await parameters(same)).value is CALL
    assert await parameters(other) == Done(CALL.with_arguments({}))


async def test_a_failure_tells_operators_more_than_the_model():
    done = await parameters(Says(ValueError("secret")))

    assert (done.value, done.concerned, done.failed) == (CALL, True, "raised an error")
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
    done = await adapt_message(Says(lambda response: response.with_text("cold")), MESSAGE, RESPONSE)

    assert done == Done(MESSAGE.with_tool_response(RESPONSE.with_text("cold")))


async def test_an_unchanged_message_is_the_same():
    done = await adapt_message(Says(None), MESSAGE, RESPONSE)

    assert done.value is MESSAGE


async def test_a_failed_open_message_is_the_same():
    done = await adapt_message(Says(ValueError("x"), "open"), MESSAGE, RESPONSE)

    assert done.value is MESSAGE
    assert (done.concerned, done.failed, done.withhold) == (True, "raised an error", False)
    assert done.detail.startswith("ValueError: x at ")


async def test_an_unconcerned_adapter_leaves_a_message():
    adapter = Says(RESPONSE.with_text("cold"))
    adapter.tools = ()

    done = await adapt_message(adapter, MESSAGE, RESPONSE)

    assert done == Done(MESSAGE, concerned=False)


async def test_a_promise_is_asked_for_only_if_there_is_one():
    adapter = Says(lambda spec: replace(spec, output_schema={"type": "array"}))
    bare = ToolSpec(name="read")
    spec = replace(bare, output_schema={"type": "object"})

    found = [await promised(adapter, one, {}) for one in (None, bare, spec)]

    assert found == [None, bare, replace(spec, output_schema={"type": "array"})]
    assert adapter.asked == 1


async def test_a_promise_that_fails_is_none():
    spec = ToolSpec(name="read", output_schema={"type": "object"})

    assert await promised(Says(ValueError()), spec, {}) is spec


async def test_what_a_model_was_told_is_the_promise():
    adapter = Says(lambda spec: replace(spec, output_schema={"type": "array"}))
    bare, spec, other = [
        ToolSpec(name="read", output_schema=schema)
        for schema in (None, {"type": "object"}, {"type": "object"})
    ]
    failed = Done(spec, failed="failed")
    done = Done(replace(spec, output_schema={"type": "array"}))

    told = promises(adapter, (bare, spec), (Done(bare), done))

    assert await promised(adapter, replace(spec, description="sound"), told) is done.value
    assert adapter.asked == 0
    # Of another tool of that name it was told nothing, nor by an adapter that failed.
    assert await promised(adapter, other, told) == done.value
    assert promises(adapter, (spec,), (failed,)) == {}
    assert adapter.asked == 1


async def test_a_log_line_names_event_and_adapter(caplog):
    method = Says(ValueError("secret")).adapt_response
    await run_adapter(Says(None, "open"), MESSAGE_APPEND_BEFORE, "read", method, RESPONSE, CALL)

    (record,) = caplog.records
    assert (record.event, record.handler) == ("message:append:before", "Says")
    assert record.exc_info[0] is ValueError


async def test_a_schema_is_judged_once():
    known = running._flaw.cache_info()
    schema = {"type": "object", "properties": {"judged once": {"type": "string"}}}
    adapter = Says(lambda spec: replace(spec, input_schema=schema))
    spec = ToolSpec(name="read")

    for _ in range(3):
        method = adapter.adapt_signature
        done = await run_adapter(adapter, TOOLS_PROVIDE, "read", method, spec)
        assert done.value.input_schema == schema

    assert running._flaw.cache_info().misses - known.misses == 1


async def test_a_schema_that_stays_is_not_judged():
    known = running._flaw.cache_info()
    spec = ToolSpec(
        name="read", input_schema={"never": "looked at"}, output_schema={"type": "array"}
    )
    adapter = Says(lambda spec: replace(spec, description="reads"))

    done = await run_adapter(adapter, TOOLS_PROVIDE, "read", adapter.adapt_signature, spec)

    assert done.value.description == "reads"
    assert running._flaw.cache_info() == known


async def test_schemas_that_look_alike_are_judged_apart():
    failed = []
    for size in (1, True, 1.5):
        adapter = Says(lambda spec, size=size: replace(spec, input_schema={"minItems": size}))
        method = adapter.adapt_signature
        done = await run_adapter(adapter, TOOLS_PROVIDE, "read", method, ToolSpec(name="read"))
        failed.append(done.failed and done.failed.partition(":")[0])

    assert failed == [None, "returned a malformed schema", "returned a malformed schema"]
